"""ptxgraft: take a PTX kernel apart at its tensor-core regions, graft other code in their place, and prove the result byte for byte."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ptxgraft.run import Surface, Texture, load

__version__ = "0.1.0"
__all__ = ["Surface", "Texture", "load"]

_HOMES: dict[str, str] = dict.fromkeys(("Surface", "Texture", "load"), "ptxgraft.run")
"""Where each public name lives; it is imported when first used, so that importing ptxgraft costs nothing."""


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(home), name)
