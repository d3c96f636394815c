"""Stores and reductions that finish later, and fills (PTX ISA manual, "st.async", "red.async", "st.bulk").

Invariant: all is done at once. A cluster is one block, so that a block of the cluster is this one; ``stores`` is the space of the target, and where bytes
are counted, the barrier object lies in shared memory too.
"""

from __future__ import annotations

from ptxgraft.isa.families.atomic import integer_update
from ptxgraft.isa.families.bulk import nth
from ptxgraft.isa.families.mbarrier import complete
from ptxgraft.isa.families.memory import count_of, space_name
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.table import instruction
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
def st_async(lanes: Lanes, a: Value, b: Value | tuple[Value, ...], mbar: Value, *, space: str, vec: str, type: str) -> None:
    """Memory at [a] of a block of the cluster = b; the bytes are counted at its mbarrier."""
    lanes.store(space_name(space), a, b if isinstance(b, tuple) else (b,))
    complete(lanes, space, mbar, lanes.const(type_of(type).bytes * count_of(vec), 32))


@instruction(
    f"st.async.{RELEASED}.{{type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}}", a="addr", b="in {type}", stores="global",
    legal=_device_legal, since=(8, 7), sm=100,
)  # fmt: skip
def st_async_global(lanes: Lanes, a: Value, b: Value, *, space: str) -> None:
    """Memory at [a] = b, after what this thread did before."""
    lanes.store(space_name(space), a, (b,))


REDUCED = {"inc": ("u32",), "min": ("u32", "s32"), "and": ("b32",), "add": ("u32", "s32", "u64")}
ALIKE = {"dec": "inc", "max": "min", "or": "and", "xor": "and"}


def _reducible(*, op: str, type: str, **rest: str) -> bool:
    return type in REDUCED[ALIKE.get(op, op)]


@instruction(
    f"red.async.{{sem:relaxed}}.{{scope:cluster}}.{COUNTED}.{{op:inc|dec|min|max|and|or|xor|add}}.{{type:u32|s32|b32|u64}}", a="addr",
    b="in {type}", mbar="addr", loads="shared", stores="shared",
    legal=_reducible, since=(8, 1), sm=90,
)  # fmt: skip
def red_async(lanes: Lanes, a: Value, b: Value, mbar: Value, *, space: str, op: str, type: str) -> None:
    """Memory at [a] of a block of the cluster = op(memory, b); the bytes are counted at its mbarrier."""
    lanes.atomic(space_name(space), a, type_of(type).width, integer_update(lanes, op, type, b))
    complete(lanes, space, mbar, lanes.const(type_of(type).bytes, 32))


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
def red_async_global(lanes: Lanes, a: Value, b: Value, *, space: str, type: str) -> None:
    """Memory at [a] = memory + b, after what this thread did before."""
    lanes.atomic(space_name(space), a, type_of(type).width, lambda old: lanes.add(old, b))


@instruction("st.bulk.{sem:weak}?.{space:shared::cta}?", a="addr", size="in u64", value="text", stores="{space}", since=(8, 6), sm=100)
def st_bulk(lanes: Lanes, a: Value, size: Value, value: Imm, *, space: str) -> None:
    """``size`` bytes (a multiple of 8) of shared memory from [a] = zero."""
    words = lanes.resize(lanes.shift_right(size, lanes.const(3, 32)), 32)
    odd = lanes.compare("ne", lanes.and_(size, lanes.const(7, lanes.width(size))), lanes.const(0, lanes.width(size)))
    lanes.fault(odd, "fills {} bytes, which is no multiple of 8", size)
    zero = lanes.const(0, 64)
    lanes.repeat(words, lambda i: lanes.store(space_name(space), nth(lanes, a, i, 8), (zero,)))


@instruction("st.bulk.{sem:weak}?.{space:shared::cta}?", a="addr", size="in u32", value="text", stores="{space}", since=(9, 0), sm=100)
def st_bulk_32(lanes: Lanes, a: Value, size: Value, value: Imm, *, space: str) -> None:
    """As above with a size of 32 bits."""
    st_bulk(lanes, a, size, value, space=space)
