"""Arithmetic of many words with a carry (PTX ISA manual, "Extended-Precision Integer Arithmetic Instructions").

Invariant: the carry of the condition code is a register like any other, one a thread: 1 is the carry out of a sum. A difference is the sum a + ~b + 1, so 1 is
"no borrow" there; what the manual calls the borrow is its opposite. Seen in what ptxas makes of ``sub.cc`` before ``addc``, which nvcc's 128-bit division has.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.roles import binary
from ptxgraft.isa.types import type_of

_TYPES = "{type:u32|s32|u64|s64}"
_OUT, _IN, _BOTH = "out pred implicit", "in pred implicit", "inout pred implicit"
_ALL = 0xFFFFFFFF


def _sum(lanes: Lanes, a: Value, b: Value, carry: Value | None) -> tuple[Value, Value]:
    """a + b + carry, and the carry out."""
    total = lanes.add(a, b)
    out = lanes.compare("lt", total, a)
    if carry is None:
        return total, out
    more = lanes.add(total, lanes.resize(carry, lanes.width(a)))
    return more, lanes.or_(out, lanes.compare("lt", more, total))


def _difference(lanes: Lanes, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """a - b - 1 + carry, and the carry out: 0 is a borrow."""
    return _sum(lanes, a, lanes.not_(b), carry)


def _product(lanes: Lanes, a: Value, b: Value, half: str, type: str) -> Value:
    return lanes.mul_high(a, b, type_of(type).signed) if half == "hi" else lanes.mul(a, b)


@binary(
    f"add.cc.{_TYPES}",
    cc=_OUT,
    since=(1, 2),
    examples=[("add.cc.u32", (_ALL, 1), (0, 1)), ("add.cc.s32", (0x7FFFFFFF, 1), (0x80000000, 0)), ("add.cc.u64", (-1, -1), (-2, 1))],
)
def add_cc(lanes: Lanes, a: Value, b: Value) -> tuple[Value, Value]:
    """d = a + b; the carry out is kept."""
    return _sum(lanes, a, b, None)


@binary(f"addc.{_TYPES}", cc=_IN, since=(1, 2), examples=[("addc.u32", (_ALL, 0, 1), (0,)), ("addc.s64", (5, 6, 0), (11,))])
def addc(lanes: Lanes, a: Value, b: Value, carry: Value) -> Value:
    """d = a + b + carry."""
    return _sum(lanes, a, b, carry)[0]


@binary(
    f"addc.cc.{_TYPES}",
    cc=_BOTH,
    since=(1, 2),
    examples=[("addc.cc.u32", (_ALL, 0, 1), (0, 1)), ("addc.cc.u32", (_ALL, _ALL, 1), (_ALL, 1)), ("addc.cc.u64", (1, 2, 0), (3, 0))],
)
def addc_cc(lanes: Lanes, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """d = a + b + carry; the carry out is kept."""
    return _sum(lanes, a, b, carry)


@binary(f"sub.cc.{_TYPES}", cc=_OUT, since=(1, 2), examples=[("sub.cc.u32", (0, 1), (_ALL, 0)), ("sub.cc.s64", (5, 5), (0, 1))])
def sub_cc(lanes: Lanes, a: Value, b: Value) -> tuple[Value, Value]:
    """d = a - b; the carry out is kept, which is 0 for a borrow."""
    return lanes.sub(a, b), lanes.compare("ge", a, b)


@binary(f"subc.{_TYPES}", cc=_IN, since=(3, 0), examples=[("subc.u32", (0, 0, 0), (_ALL,)), ("subc.u64", (9, 4, 1), (5,))])
def subc(lanes: Lanes, a: Value, b: Value, carry: Value) -> Value:
    """d = a - b, and 1 less where the carry is 0."""
    return _difference(lanes, a, b, carry)[0]


@binary(
    f"subc.cc.{_TYPES}",
    cc=_BOTH,
    since=(3, 0),
    examples=[("subc.cc.u32", (0, 0, 0), (_ALL, 0)), ("subc.cc.u32", (5, _ALL, 0), (5, 0)), ("subc.cc.s64", (9, 4, 0), (4, 1))],
)
def subc_cc(lanes: Lanes, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    """d = a - b, and 1 less where the carry is 0; the carry out is kept, which is 0 for a borrow."""
    return _difference(lanes, a, b, carry)


_HALF = "{half:hi|lo}"


@binary(
    f"mad.{_HALF}.cc.{_TYPES}",
    c="in {type}",
    cc=_OUT,
    since=(3, 0),
    sm=20,
    examples=[("mad.lo.cc.u32", (_ALL, 1, 1), (0, 1)), ("mad.hi.cc.u32", (_ALL, _ALL, 2), (0, 1)), ("mad.hi.cc.s64", (-1, 1, 5), (4, 1))],
)
def mad_cc(lanes: Lanes, a: Value, b: Value, c: Value, *, half: str, type: str) -> tuple[Value, Value]:
    """d = half of a * b, plus c; the carry out is kept."""
    return _sum(lanes, _product(lanes, a, b, half, type), c, None)


@binary(
    f"madc.{_HALF}.{_TYPES}",
    c="in {type}",
    cc=_IN,
    since=(3, 0),
    sm=20,
    examples=[("madc.lo.u32", (3, 5, 1, 1), (17,)), ("madc.hi.u64", (-1, -1, 2, 1), (1,))],
)
def madc(lanes: Lanes, a: Value, b: Value, c: Value, carry: Value, *, half: str, type: str) -> Value:
    """d = half of a * b, plus c, plus carry."""
    return _sum(lanes, _product(lanes, a, b, half, type), c, carry)[0]


@binary(
    f"madc.{_HALF}.cc.{_TYPES}",
    c="in {type}",
    cc=_BOTH,
    since=(3, 0),
    sm=20,
    examples=[("madc.lo.cc.u32", (3, 5, -16, 1), (0, 1)), ("madc.hi.cc.s32", (-1, 1, 0, 0), (_ALL, 0))],
)
def madc_cc(lanes: Lanes, a: Value, b: Value, c: Value, carry: Value, *, half: str, type: str) -> tuple[Value, Value]:
    """d = half of a * b, plus c, plus carry; the carry out is kept."""
    return _sum(lanes, _product(lanes, a, b, half, type), c, carry)
