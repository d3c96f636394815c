"""ptxgraft: take a PTX kernel apart at its tensor-core regions, graft other code in their place, and prove the result byte for byte.

The Python API has the names of the command line: ``spec``, ``cut``, ``probe``, ``apply``, ``record``, ``replay``, ``verify``, ``bisect``, ``bench``; a kernel runs in two lines:

    kernel = ptxgraft.load("saxpy.ptx").kernel("saxpy")      # a path or PTX text
    kernel.launch(grid=(1024,), block=(256,), args=[n, 2.0, x, y])
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxgraft.capture import open_capture
    from ptxgraft.graft import apply, cut, probe
    from ptxgraft.isa import bind
    from ptxgraft.run import Sampler, Surface, Texture, load
    from ptxgraft.run.recorder import record
    from ptxgraft.spec import spec
    from ptxgraft.text import Document
    from ptxgraft.verify import bench, bisect, replay, verify

__version__ = "0.1.0"

_HOMES = {
    "Document": "ptxgraft.text",
    "Sampler": "ptxgraft.run",
    "Surface": "ptxgraft.run",
    "Texture": "ptxgraft.run",
    "apply": "ptxgraft.graft",
    "bench": "ptxgraft.verify",
    "bind": "ptxgraft.isa",
    "bisect": "ptxgraft.verify",
    "cut": "ptxgraft.graft",
    "load": "ptxgraft.run",
    "open_capture": "ptxgraft.capture",
    "probe": "ptxgraft.graft",
    "record": "ptxgraft.run.recorder",
    "replay": "ptxgraft.verify",
    "spec": "ptxgraft.spec",
    "verify": "ptxgraft.verify",
}
"""Where each public name lives; its module is imported when the name is first used, so that a light command stays light."""

__all__ = [
    "Document",
    "Sampler",
    "Surface",
    "Texture",
    "apply",
    "bench",
    "bind",
    "bisect",
    "cut",
    "load",
    "open_capture",
    "probe",
    "record",
    "replay",
    "spec",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ptxgraft' has no attribute {name!r}")
    home = importlib.import_module(_HOMES[name])
    return home if _HOMES[name] == f"ptxgraft.{name}" else getattr(home, name)  # the packages spec and verify are callable


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
