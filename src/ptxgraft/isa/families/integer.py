"""Integer arithmetic (PTX ISA manual, "Integer Arithmetic Instructions").

Invariant: every meaning is total: no operand makes it trap.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

INTEGERS = "{type:u16|u32|u64|s16|s32|s64}"


@instruction(
    f"sub.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[("sub.u32", (0, 1), (0xFFFFFFFF,)), ("sub.s16", (5, 7), (0xFFFE,))],
)
def sub(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a - b, modulo the width."""
    return lanes.sub(a, b)


@instruction(
    f"mad.hi.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in {type}",
    examples=[("mad.hi.u32", (1, 1, 0xFFFFFFFF), (0xFFFFFFFF,))],
)
def mad_hi(lanes: Lanes, a: Value, b: Value, c: Value, *, type: str) -> Value:
    """d = upper half of a * b, plus c."""
    return lanes.add(lanes.mul_high(a, b, type_of(type).signed), c)
