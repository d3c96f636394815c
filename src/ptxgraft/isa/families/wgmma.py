"""Matrix products of four warps (PTX ISA manual, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

Invariant: D lies in registers, B in shared memory behind a descriptor, A in either: each declaration is made twice. A product is
started, not made: its registers and memory are its own until ``wgmma.wait_group``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import instruction, refused

_INSTEAD = "mma.sync on registers multiplies the same types; on='cuda' runs it where the GPU has it"

EVERY = tuple(range(8, 257, 8))
EIGHTS_OF_INTEGERS = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True, slots=True)
class _Row:
    """A kind of product: the types, K of a dense product, the sizes of N, and which immediates come after ``scale_d``."""

    types: str
    k: int
    columns: tuple[int, ...]
    scales: bool
    transposes: bool
    since: tuple[int, int] = (8, 0)
    before: str = ""
    after: str = ""
    sparse: bool = True


_ROWS = (
    _Row("{dt:f16|f32}.{at:f16}.{bt:f16}", 16, EVERY, True, True),
    _Row("{dt:f32}.{at:bf16}.{bt:bf16}", 16, EVERY, True, True),
    _Row("{dt:f32}.{at:tf32}.{bt:tf32}", 8, EVERY, True, False),
    _Row("{dt:f16|f32}.{at:e4m3|e5m2}.{bt:e4m3|e5m2}", 32, EVERY, True, False),
    _Row("{dt:s32}.{at:s8}.{bt:s8}", 32, EIGHTS_OF_INTEGERS, False, False, after=".{satfinite}?"),
    _Row("{dt:s32}.{at:u8}.{bt:u8}", 32, EIGHTS_OF_INTEGERS, False, False, after=".{satfinite}?"),
    _Row("{dt:s32}.{at:s8}.{bt:u8}", 32, EIGHTS_OF_INTEGERS, False, False, (8, 4), after=".{satfinite}?"),
    _Row("{dt:s32}.{at:u8}.{bt:s8}", 32, EIGHTS_OF_INTEGERS, False, False, (8, 4), after=".{satfinite}?"),
    _Row("{dt:s32}.{at:b1}.{bt:b1}", 256, EIGHTS_OF_INTEGERS, False, False, after=".{op:and}.popc", sparse=False),
)


def _registers(*, shape: str, dt: str, **rest: str) -> Mapping[str, str]:
    """D has 64 rows over 128 threads: half of N elements in each, two to a register as f16."""
    elements = int(shape[4 : shape.index("k")]) // 2
    return {"d": f"inout b32 x{elements // 2}" if dt == "f16" else f"inout {dt} x{elements}"}


def _declare(row: _Row, sparse: bool, descriptor: bool) -> None:
    def wgmma(lanes: Lanes) -> None:
        """D = A * B + D, or A * B where ``scale_d`` is false, started for the warpgroup."""

    shapes = "|".join(f"m64n{n}k{row.k * (2 if sparse else 1)}" for n in row.columns)
    roles: dict[str, Any] = {"d": "{d}", "a": "in b64" if descriptor else "in b32 x4", "b": "in b64"}
    if sparse:
        roles |= {"metadata": "in b32", "selector": "text"}
    roles["scale_d"] = "in pred"
    if row.scales:
        roles |= {"scale_a": "text", "scale_b": "text"}
    if row.transposes:
        roles |= {"transpose_a": "text", "transpose_b": "text"} if descriptor else {"transpose_b": "text"}
    instruction(
        f"wgmma.mma_async.{'sp.' if sparse else ''}sync.aligned.{{shape:{shapes}}}.{row.types}{row.after}", convergent=True, loads="shared",
        derive=_registers, since=max(row.since, (8, 2)) if sparse else row.since, sm=90, specific="a", **roles,
    )(refused(_INSTEAD)(wgmma))  # fmt: skip


for _row in _ROWS:
    for _sparse in (False, True) if _row.sparse else (False,):
        for _descriptor in (True, False):
            _declare(_row, _sparse, _descriptor)


@instruction("wgmma.fence.sync.aligned", convergent=True, since=(8, 0), sm=90, specific="a")
@refused(_INSTEAD)
def wgmma_fence(lanes: Lanes) -> None:
    """Registers written before may be read by the products after."""


@instruction("wgmma.commit_group.sync.aligned", convergent=True, since=(8, 0), sm=90, specific="a")
@refused(_INSTEAD)
def wgmma_commit(lanes: Lanes) -> None:
    """The products since the last commit become one group."""


@instruction("wgmma.wait_group.sync.aligned", n="text", convergent=True, since=(8, 0), sm=90, specific="a")
@refused(_INSTEAD)
def wgmma_wait(lanes: Lanes) -> None:
    """Wait until at most ``n`` of the latest groups are unfinished."""
