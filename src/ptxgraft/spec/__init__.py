"""The layer spec: mma regions, phases, fragment provenance, weight map, cut ABI.

Invariant: everything said about a kernel here follows from data flow; what cannot be known is said to be unknown.
"""

from ptxgraft.spec.layer import block_shape, descends_from, layer_spec, phase_runs
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
from ptxgraft.spec.regions import line_region, make_region, mma_region, region_abi, region_registers
from ptxgraft.spec.writing import spec_json, spec_markdown

__all__ = [
    "Abi", "Epilogue", "FragmentSpec", "LayerSpec", "ParamSpec", "Phase", "Provenance", "Region", "RegisterSpec", "SharedSpec", "block_shape",
    "descends_from", "layer_spec", "line_region", "make_region", "mma_region", "phase_runs", "region_abi", "region_registers", "spec_json",
    "spec_markdown",
]  # fmt: skip
