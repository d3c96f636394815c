"""Special registers: what each holds during a launch.

Invariant: a value here depends on the launch and the lane's place in it alone, except the clocks, which count statements.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.operands import SPECIALS, STACK_LIMIT, Special

if TYPE_CHECKING:
    from ptxgraft.run.launch import Launch

_WIDE = frozenset([STACK_LIMIT, "clock64", "globaltimer", "gridid", "current_graph_exec", "perctamemoryoffset"])
CLOCKS = frozenset(["clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"])
"""Registers that grow while a kernel runs."""

ALIASES = {f"clusterid.{axis}": f"ctaid.{axis}" for axis in "xyz"}
"""Registers that hold what others do, clusters being one block each."""

PER_BLOCK = ("ctaid.x", "ctaid.y", "ctaid.z")
PER_THREAD = ("tid.x", "tid.y", "tid.z")
PER_WARP = ("warpid",)

LANE_VALUES: dict[str, tuple[int, ...]] = {
    "laneid": tuple(range(32)),
    "lanemask_eq": tuple(1 << i for i in range(32)),
    "lanemask_lt": tuple((1 << i) - 1 for i in range(32)),
    "lanemask_le": tuple((2 << i) - 1 for i in range(32)),
    "lanemask_gt": tuple(0xFFFFFFFF & ~((2 << i) - 1) for i in range(32)),
    "lanemask_ge": tuple(0xFFFFFFFF & ~((1 << i) - 1) for i in range(32)),
}
"""Registers that depend on the lane alone, by lane."""

_ZEROS = dict.fromkeys(SPECIALS - CLOCKS - LANE_VALUES.keys() - ALIASES.keys() - {*PER_BLOCK, *PER_THREAD, *PER_WARP}, 0)


def width(name: str) -> int:
    """Width in bits of a special register, named without its ``%``."""
    return 64 if name in _WIDE or (name.startswith("pm") and name.endswith("_64")) else 32


_BLOCK_MEMORY = ("perctamemoryoffset", "perctamemorysize")


def _without_block_memory(launch: Launch) -> None:
    """Refuse a program that asks where the global memory of each block lies: a launch has none."""
    if "%perctamemory" not in launch.program.document.text:
        return
    for index, instruction in enumerate(launch.program.instructions):
        for operand in instruction.operands:
            if isinstance(operand, Special) and operand.name in _BLOCK_MEMORY:
                raise UnsupportedError(
                    f"{launch.program.name} reads %{operand.name}, and a launch has no global memory for each block",
                    place=launch.program.place(index),
                    hint="on='cuda' runs it where the driver gives that memory; an argument may hold a buffer instead",
                )


def constants(launch: Launch) -> dict[str, int]:
    """The registers that hold one value all over a launch. Those that describe the machine say: one multiprocessor, no cluster, counters at 0."""
    _without_block_memory(launch)
    values = _ZEROS.copy()
    for axis, extent, blocks in zip("xyz", launch.block, launch.grid, strict=True):
        values[f"ntid.{axis}"] = extent
        values[f"nctaid.{axis}"] = blocks
        values[f"nclusterid.{axis}"] = blocks
        values[f"cluster_nctaid.{axis}"] = 1
    total = launch.program.shared_bytes + launch.shared_bytes
    values |= {"nwarpid": launch.warps_per_block, "nsmid": 1, "cluster_nctarank": 1}
    values |= {"total_smem_size": total, "aggr_smem_size": total, "dynamic_smem_size": launch.shared_bytes}
    if launch.workspace is not None:
        values["envreg1"], values["envreg2"] = launch.workspace.base >> 32, launch.workspace.base & 0xFFFFFFFF
    values[STACK_LIMIT] = launch.local_total
    return values
