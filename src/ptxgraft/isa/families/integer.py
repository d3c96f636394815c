"""Integer arithmetic (PTX ISA manual, "Integer Arithmetic Instructions").

Invariant: every meaning is total: no operand makes it trap.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import each
from ptxgraft.isa.roles import binary
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

INTEGERS = "{type:u16|u32|u64|s16|s32|s64}"
SIGNED = "{type:s16|s32|s64}"
PAIRS = "{type:u16x2|s16x2}"
WORDS = "{type:u32|s32}"


def _clamp(lanes: Lanes, a: Value, width: int) -> Value:
    """A signed value saturated to ``width`` bits, in its own width."""
    wide = lanes.width(a)
    low, high = lanes.const(-(1 << (width - 1)), wide), lanes.const((1 << (width - 1)) - 1, wide)
    a = lanes.select(lanes.compare("lt", a, low, signed=True), low, a)
    return lanes.select(lanes.compare("gt", a, high, signed=True), high, a)


def _add_saturated(lanes: Lanes, a: Value, b: Value) -> Value:
    wide = lanes.add(lanes.resize(a, 64, signed=True), lanes.resize(b, 64, signed=True))
    return lanes.resize(_clamp(lanes, wide, 32), 32)


# -- add, sub ---------------------------------------------------------------------------------------------------------
@instruction(
    f"add.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[("add.u32", (0xFFFFFFFF, 2), (1,)), ("add.s16", (0x7FFF, 1), (0x8000,)), ("add.u64", (1 << 63, 1 << 63), (0,))],
)
def add(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a + b, modulo the width."""
    return lanes.add(a, b)


@instruction(
    "add.sat.s32",
    d="out s32",
    a="in s32",
    b="in s32",
    examples=[("add.sat.s32", (0x7FFFFFFF, 1), (0x7FFFFFFF,)), ("add.sat.s32", (0x80000000, -1), (0x80000000,))],
)
def add_sat(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a + b, saturated to s32."""
    return _add_saturated(lanes, a, b)


@instruction(
    f"add.{PAIRS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    since=(8, 0),
    sm=90,
    examples=[("add.u16x2", (0x0001FFFF, 0x00020001), (0x00030000,))],
)
def add_pairs(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """Each half added, modulo 2**16."""
    return each(lanes, type, lanes.add, a, b)


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
    "sub.sat.s32",
    d="out s32",
    a="in s32",
    b="in s32",
    examples=[("sub.sat.s32", (0x7FFFFFFF, -1), (0x7FFFFFFF,)), ("sub.sat.s32", (0, 0x80000000), (0x7FFFFFFF,))],
)
def sub_sat(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a - b, saturated to s32."""
    wide = lanes.sub(lanes.resize(a, 64, signed=True), lanes.resize(b, 64, signed=True))
    return lanes.resize(_clamp(lanes, wide, 32), 32)


# -- mul, mad ---------------------------------------------------------------------------------------------------------
def _product(lanes: Lanes, a: Value, b: Value, mode: str, signed: bool) -> Value:
    if mode == "lo":
        return lanes.mul(a, b)
    if mode == "hi":
        return lanes.mul_high(a, b, signed)
    wide = 2 * lanes.width(a)
    return lanes.mul(lanes.resize(a, wide, signed), lanes.resize(b, wide, signed))


@instruction(
    f"mul.{{mode:hi|lo}}.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[
        ("mul.lo.s32", (-3, 7), (-21,)),
        ("mul.hi.u32", (0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFE,)),
        ("mul.hi.s32", (-1, 1), (-1,)),
        ("mul.hi.s64", (-1, 5), (-1,)),
        ("mul.hi.u64", (-1, 5), (4,)),
        ("mul.hi.s16", (0x8000, 0x8000), (0x4000,)),
    ],
)
def mul(lanes: Lanes, a: Value, b: Value, *, mode: str, type: str) -> Value:
    """d = the lower or upper half of a * b."""
    return _product(lanes, a, b, mode, type_of(type).signed)


def mul_wide(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = a * b in twice the width."""
    return _product(lanes, a, b, "wide", type_of(type).signed)


def mad_wide(lanes: Lanes, a: Value, b: Value, c: Value, *, type: str) -> Value:
    """d = a * b + c in twice the width."""
    return lanes.add(_product(lanes, a, b, "wide", type_of(type).signed), c)


for _kind in "us":
    for _narrow, _wide, _product_of_minus_one in ((16, 32, 0xFFFE0001), (32, 64, 0xFFFFFFFE00000001)):
        _type, _double = f"{_kind}{_narrow}", f"{_kind}{_wide}"
        _square = 1 if _kind == "s" else _product_of_minus_one
        instruction(
            f"mul.wide.{{type:{_type}}}",
            d=f"out {_double}",
            a=f"in {_type}",
            b=f"in {_type}",
            examples=[(f"mul.wide.{_type}", (-1, -1), (_square,))],
        )(mul_wide)
        instruction(
            f"mad.wide.{{type:{_type}}}",
            d=f"out {_double}",
            a=f"in {_type}",
            b=f"in {_type}",
            c=f"in {_double}",
            examples=[(f"mad.wide.{_type}", (-1, -1, -1), (_square - 1,))],
        )(mad_wide)


@instruction(
    f"mad.{{mode:hi|lo}}.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in {type}",
    examples=[
        ("mad.hi.u32", (1, 1, 0xFFFFFFFF), (0xFFFFFFFF,)),
        ("mad.lo.s32", (3, -5, 1), (-14,)),
        ("mad.lo.u16", (0x100, 0x100, 9), (9,)),
    ],
)
def mad(lanes: Lanes, a: Value, b: Value, c: Value, *, mode: str, type: str) -> Value:
    """d = the lower or upper half of a * b, plus c, modulo the width."""
    return lanes.add(_product(lanes, a, b, mode, type_of(type).signed), c)


@instruction(
    "mad.hi.sat.s32",
    d="out s32",
    a="in s32",
    b="in s32",
    c="in s32",
    examples=[("mad.hi.sat.s32", (0x40000000, 4, 0x7FFFFFFF), (0x7FFFFFFF,)), ("mad.hi.sat.s32", (-1, 1, 0x80000000), (0x80000000,))],
)
def mad_hi_sat(lanes: Lanes, a: Value, b: Value, c: Value) -> Value:
    """d = upper half of a * b, plus c, saturated to s32."""
    return _add_saturated(lanes, lanes.mul_high(a, b, True), c)


# -- 24-bit products --------------------------------------------------------------------------------------------------
def _product24(lanes: Lanes, a: Value, b: Value, mode: str, signed: bool) -> Value:
    """Bits 0..31 (lo) or 16..47 (hi) of the product of the lower 24 bits of each."""
    eight = lanes.const(8, 32)
    a = lanes.shift_right(lanes.shift_left(a, eight), eight, signed)
    b = lanes.shift_right(lanes.shift_left(b, eight), eight, signed)
    wide = lanes.mul(lanes.resize(a, 64, signed), lanes.resize(b, 64, signed))
    return lanes.extract(wide, 16 if mode == "hi" else 0, 32)


@instruction(
    f"mul24.{{mode:hi|lo}}.{WORDS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[
        ("mul24.lo.u32", (0xFF000003, 5), (15,)),
        ("mul24.hi.u32", (0xFFFFFF, 0xFFFFFF), (0xFFFFFE00,)),
        ("mul24.lo.s32", (0x00FFFFFF, 3), (-3,)),
        ("mul24.hi.s32", (0x00FFFFFF, 1), (-1,)),
    ],
)
def mul24(lanes: Lanes, a: Value, b: Value, *, mode: str, type: str) -> Value:
    """d = the lower (lo) or upper (hi) 32 bits of the 48-bit product of 24-bit values."""
    return _product24(lanes, a, b, mode, type_of(type).signed)


@instruction(
    f"mad24.{{mode:hi|lo}}.{WORDS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in {type}",
    examples=[("mad24.lo.u32", (0xFF000003, 5, 7), (22,)), ("mad24.hi.s32", (0x00FFFFFF, 1, 5), (4,))],
)
def mad24(lanes: Lanes, a: Value, b: Value, c: Value, *, mode: str, type: str) -> Value:
    """d = 32 bits of the 48-bit product, plus c."""
    return lanes.add(_product24(lanes, a, b, mode, type_of(type).signed), c)


@instruction(
    "mad24.hi.sat.s32",
    d="out s32",
    a="in s32",
    b="in s32",
    c="in s32",
    examples=[("mad24.hi.sat.s32", (0x10000, 1, 0x7FFFFFFF), (0x7FFFFFFF,))],
)
def mad24_hi_sat(lanes: Lanes, a: Value, b: Value, c: Value) -> Value:
    """d = upper 32 bits of the 48-bit product, plus c, saturated to s32."""
    return _add_saturated(lanes, _product24(lanes, a, b, "hi", True), c)


# -- sad, div, rem ----------------------------------------------------------------------------------------------------
@instruction(
    f"sad.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in {type}",
    examples=[("sad.u32", (3, 5, 10), (12,)), ("sad.s32", (-3, 5, 10), (18,)), ("sad.u16", (0xFFFF, 0, 1), (0,))],
)
def sad(lanes: Lanes, a: Value, b: Value, c: Value, *, type: str) -> Value:
    """d = c + |a - b|."""
    less = lanes.compare("lt", a, b, type_of(type).signed)
    return lanes.add(c, lanes.select(less, lanes.sub(b, a), lanes.sub(a, b)))


@instruction(
    f"div.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[
        ("div.u32", (7, 2), (3,)),
        ("div.s32", (-7, 2), (-3,)),
        ("div.u32", (7, 0), (0xFFFFFFFF,)),
        ("div.s32", (7, 0), (-1,)),
        ("div.s32", (0x80000000, -1), (0x80000000,)),
        ("div.s64", (-(1 << 63), -1), (1 << 63,)),
        ("div.u16", (0xFFFF, 16), (0xFFF,)),
    ],
)
def div(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = a / b, truncated. A zero divisor gives all ones."""
    return lanes.divide(a, b, type_of(type).signed)


@instruction(
    f"rem.{INTEGERS}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[
        ("rem.u32", (7, 2), (1,)),
        ("rem.s32", (-7, 2), (-1,)),
        ("rem.s32", (7, -2), (1,)),
        ("rem.u32", (7, 0), (0xFFFFFFFF,)),
        ("rem.s16", (7, 0), (0xFFFF,)),
        ("rem.s32", (0x80000000, -1), (0,)),
        ("rem.s16", (0x8000, -1), (0,)),
    ],
)
def rem(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = a - b * (a / b). A zero divisor gives a."""
    return lanes.remainder(a, b, type_of(type).signed)


# -- abs, neg, min, max -----------------------------------------------------------------------------------------------
@instruction(
    f"abs.{SIGNED}",
    d="out {type}",
    a="in {type}",
    examples=[("abs.s32", (-5,), (5,)), ("abs.s16", (0x8000,), (0x8000,)), ("abs.s64", (-(1 << 40),), (1 << 40,))],
)
def abs_(lanes: Lanes, a: Value) -> Value:
    """d = |a|; the most negative value stays."""
    zero = lanes.const(0, lanes.width(a))
    return lanes.select(lanes.compare("lt", a, zero, signed=True), lanes.sub(zero, a), a)


@instruction(
    f"neg.{SIGNED}",
    d="out {type}",
    a="in {type}",
    examples=[("neg.s32", (5,), (-5,)), ("neg.s64", (1 << 63,), (1 << 63,))],
)
def neg(lanes: Lanes, a: Value) -> Value:
    """d = -a."""
    return lanes.sub(lanes.const(0, lanes.width(a)), a)


def _extreme(lanes: Lanes, root: str, a: Value, b: Value, signed: bool, relu: str) -> Value:
    chosen = lanes.select(lanes.compare("lt" if root == "min" else "gt", a, b, signed), a, b)
    if relu:
        zero = lanes.const(0, lanes.width(a))
        chosen = lanes.select(lanes.compare("lt", chosen, zero, signed=True), zero, chosen)
    return chosen


def min_(lanes: Lanes, a: Value, b: Value, *, type: str, relu: str) -> Value:
    """d = the smaller; relu: a negative result gives 0."""
    signed = type.startswith("s")
    return each(lanes, type, lambda x, y: _extreme(lanes, "min", x, y, signed, relu), a, b)


def max_(lanes: Lanes, a: Value, b: Value, *, type: str, relu: str) -> Value:
    """d = the larger; relu: a negative result gives 0."""
    signed = type.startswith("s")
    return each(lanes, type, lambda x, y: _extreme(lanes, "max", x, y, signed, relu), a, b)


for _root, _meaning in (("min", min_), ("max", max_)):
    _first = _root == "min"
    binary(
        f"{_root}.{INTEGERS}",
        examples=[
            (f"{_root}.s32", (-1, 1), (-1 if _first else 1,)),
            (f"{_root}.u32", (-1, 1), (1 if _first else -1,)),
            (f"{_root}.u64", (1 << 63, 5), (5 if _first else 1 << 63,)),
        ],
    )(_meaning)
    binary(
        f"{_root}.{{relu:relu}}.{{type:s32}}",
        since=(8, 0),
        sm=90,
        examples=[(f"{_root}.relu.s32", (-1, -5), (0,)), (f"{_root}.relu.s32", (3, 7), (3 if _first else 7,))],
    )(_meaning)
    binary(
        f"{_root}.{{relu:relu}}?.{PAIRS}",
        since=(8, 0),
        sm=90,
        legal=lambda *, type, relu: not relu or type == "s16x2",
        examples=[
            (f"{_root}.u16x2", (0x0001FFFF, 0x00020001), (0x00010001 if _first else 0x0002FFFF,)),
            (f"{_root}.s16x2", (0x0001FFFF, 0x00020001), (0x0001FFFF if _first else 0x00020001,)),
            (f"{_root}.relu.s16x2", (0x0001FFFF, 0x0002FFFE), (0x00010000 if _first else 0x00020000,)),
        ],
    )(_meaning)
