"""Stores and reductions that finish later, and fills (PTX ISA manual, "st.async", "red.async", "st.bulk").

Invariant: ``stores`` is the space of the target; where bytes are counted, the barrier object lies in shared memory too.
"""

from __future__ import annotations

from ptxgraft.isa.families.memory import count_of
from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import declare_only, instruction
from ptxgraft.isa.types import type_of

COUNTED = "{space:shared::cluster}?.mbarrier::complete_tx::bytes"


def _device_legal(*, mmio: str, scope: str, **rest: str) -> bool:
    return not mmio or scope == "sys"


RELEASED = "{mmio}?.{sem:release}.{scope:gpu|sys}.{space:global}?"


def _vector_legal(*, vec: str, type: str, **rest: str) -> bool:
    return type_of(type).bytes * count_of(vec) <= 16


@instruction(
    f"st.async.{{sem:weak}}?.{{scope:cluster}}?.{COUNTED}.{{vec:v2|v4}}?.{{type:b32|b64|b128|u32|u64|s32|s64|f32|f64}}", a="addr",
    b="in {type} {vec}", mbar="addr", stores="shared", legal=lambda *, sem, **rest: not (sem and rest["scope"]) and _vector_legal(**rest),
    needs={"b128": ((9, 2), 90)}, since=(8, 1), sm=90,
)  # fmt: skip
@declare_only
def st_async(lanes: Lanes) -> None:
    """Memory at [a] of a block of the cluster = b, later; the bytes are counted at its mbarrier."""


@instruction(
    f"st.async.{RELEASED}.{{type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}}", a="addr", b="in {type}", stores="global",
    legal=_device_legal, since=(8, 7), sm=100,
)  # fmt: skip
@declare_only
def st_async_global(lanes: Lanes) -> None:
    """Memory at [a] = b, later, after what this thread did before."""


REDUCED = {"inc": ("u32",), "min": ("u32", "s32"), "and": ("b32",), "add": ("u32", "s32", "u64")}
ALIKE = {"dec": "inc", "max": "min", "or": "and", "xor": "and"}


def _reducible(*, op: str, type: str, **rest: str) -> bool:
    return type in REDUCED[ALIKE.get(op, op)]


@instruction(
    f"red.async.{{sem:relaxed}}.{{scope:cluster}}.{COUNTED}.{{op:inc|dec|min|max|and|or|xor|add}}.{{type:u32|s32|b32|u64}}", a="addr",
    b="in {type}", mbar="addr", loads="shared", stores="shared",
    legal=_reducible, since=(8, 1), sm=90,
)  # fmt: skip
@declare_only
def red_async(lanes: Lanes) -> None:
    """Memory at [a] of a block of the cluster = op(memory, b), later; the bytes are counted at its mbarrier."""


@instruction(
    f"red.async.{RELEASED}.add.{{type:u32|s32|u64|s64}}",
    a="addr",
    b="in {type}",
    loads="global",
    stores="global",
    legal=_device_legal,
    since=(8, 7),
    sm=100,
)
@declare_only
def red_async_global(lanes: Lanes) -> None:
    """Memory at [a] = memory + b, later, after what this thread did before."""


@instruction("st.bulk.{sem:weak}?.{space:shared::cta}?", a="addr", size="in u64", value="text", stores="{space}", since=(8, 6), sm=100)
@declare_only
def st_bulk(lanes: Lanes) -> None:
    """``size`` bytes (a multiple of 8) of shared memory from [a] = zero."""


@instruction("st.bulk.{sem:weak}?.{space:shared::cta}?", a="addr", size="in u32", value="text", stores="{space}", since=(9, 0), sm=100)
@declare_only
def st_bulk_32(lanes: Lanes) -> None:
    """As above with a size of 32 bits."""
