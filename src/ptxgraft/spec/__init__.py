"""The layer spec: mma regions, phases, fragment provenance, weight map, cut ABI.

Invariant: everything said about a kernel here follows from data flow; what cannot be known is said to be unknown.
"""

import sys
from types import ModuleType
from typing import Any

from ptxgraft.spec.front import spec
from ptxgraft.spec.layer import block_shape, descends_from, layer_spec, phase_runs, phase_steps
from ptxgraft.spec.model import (
    Abi,
    Epilogue,
    FragmentSpec,
    LayerSpec,
    ParamSpec,
    Phase,
    Provenance,
    Region,
    RegisterSpec,
    SharedSpec,
)
from ptxgraft.spec.regions import (
    Refusal,
    is_visible,
    line_region,
    make_region,
    mma_region,
    refused,
    region_abi,
    region_registers,
    visible_scopes,
)
from ptxgraft.spec.writing import spec_json, spec_markdown

__all__ = [
    "Abi", "Epilogue", "FragmentSpec", "LayerSpec", "ParamSpec", "Phase", "Provenance", "Refusal", "Region", "RegisterSpec", "SharedSpec", "block_shape",
    "descends_from", "is_visible", "layer_spec", "line_region", "make_region", "mma_region", "phase_runs", "phase_steps", "refused", "region_abi", "region_registers",
    "spec_json", "spec_markdown", "visible_scopes",
]  # fmt: skip


class _Front(ModuleType):
    """Lets ``ptxgraft.spec(...)``, which the Python API promises, work although a package has the same name."""

    def __call__(self, *args: Any, **options: Any) -> LayerSpec:
        return spec(*args, **options)


sys.modules[__name__].__class__ = _Front
