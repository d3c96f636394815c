"""Logic and shifts (PTX ISA manual, "Logic and Shift Instructions").

Invariant: shift amounts are taken as unsigned 32-bit numbers and clamped to the width, never to a machine's habit.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

LOGIC = "{type:pred|b16|b32|b64}"
BITS = "{type:b16|b32|b64}"


@instruction(
    f"and.{LOGIC}", d="out {type}", a="in {type}", b="in {type}", examples=[("and.b32", (12, 10), (8,)), ("and.pred", (1, 0), (0,))]
)
def and_(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a & b."""
    return lanes.and_(a, b)


@instruction(
    f"or.{LOGIC}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[("or.b64", (12, 1 << 40), (12 | 1 << 40,)), ("or.pred", (1, 0), (1,))],
)
def or_(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a | b."""
    return lanes.or_(a, b)


@instruction(
    f"xor.{LOGIC}", d="out {type}", a="in {type}", b="in {type}", examples=[("xor.b16", (12, 10), (6,)), ("xor.pred", (1, 1), (0,))]
)
def xor(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a ^ b."""
    return lanes.xor(a, b)


@instruction(f"not.{LOGIC}", d="out {type}", a="in {type}", examples=[("not.b32", (0,), (0xFFFFFFFF,)), ("not.pred", (1,), (0,))])
def not_(lanes: Lanes, a: Value) -> Value:
    """d = ~a."""
    return lanes.not_(a)


@instruction(f"cnot.{BITS}", d="out {type}", a="in {type}", examples=[("cnot.b32", (0,), (1,)), ("cnot.b64", (5,), (0,))])
def cnot(lanes: Lanes, a: Value) -> Value:
    """d = 1 if a is 0, else 0."""
    width = lanes.width(a)
    return lanes.resize(lanes.compare("eq", a, lanes.const(0, width)), width)


def _truth_table(lanes: Lanes, a: Value, b: Value, c: Value, table: Value) -> Value:
    """Bit i of the table is the result where a, b, c spell the number i: a tree of choices, c innermost."""
    one, zero = lanes.const(1, 32), lanes.const(0, 32)
    rows = [lanes.sub(zero, lanes.and_(lanes.shift_right(table, lanes.const(i, 32)), one)) for i in range(8)]
    for chooser in (c, b, a):
        pairs = zip(rows[0::2], rows[1::2], strict=True)
        rows = [lanes.xor(x, lanes.and_(lanes.xor(x, y), chooser)) for x, y in pairs]
    return rows[0]


@instruction(
    "lop3.b32",
    d="out b32",
    a="in b32",
    b="in b32",
    c="in b32",
    table="in b32",
    since=(4, 3),
    sm=50,
    examples=[
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0x80), (0x80,)),
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0xFE), (0xFE,)),
        ("lop3.b32", (0xF0, 0xCC, 0xAA, 0x1A), (0x1A,)),
        ("lop3.b32", (0x12345678, 0x9ABCDEF0, 0x0F0F0F0F, 0x96), (0x12345678 ^ 0x9ABCDEF0 ^ 0x0F0F0F0F,)),
    ],
)
def lop3(lanes: Lanes, a: Value, b: Value, c: Value, table: Value) -> Value:
    """d = the function of a, b and c whose truth table is given: bit 4a + 2b + c of it."""
    return _truth_table(lanes, a, b, c, table)


@instruction(
    "lop3.{op:or|and}.b32",
    d="out b32",
    p="out pred |",
    a="in b32",
    b="in b32",
    c="in b32",
    table="in b32",
    q="in pred",
    since=(8, 2),
    sm=70,
    examples=[
        ("lop3.or.b32", (0xF0, 0xCC, 0xAA, 0x80, 0), (0x80, 1)),
        ("lop3.and.b32", (0xF0, 0xCC, 0xAA, 0x80, 0), (0x80, 0)),
        ("lop3.or.b32", (0, 0, 0, 0x80, 0), (0, 0)),
    ],
)
def lop3_bool(lanes: Lanes, a: Value, b: Value, c: Value, table: Value, q: Value, *, op: str) -> tuple[Value, Value]:
    """d as lop3; p = (d != 0) op q."""
    d = _truth_table(lanes, a, b, c, table)
    some = lanes.compare("ne", d, lanes.const(0, 32))
    return d, lanes.or_(some, q) if op == "or" else lanes.and_(some, q)


@instruction(
    "shf.{direction:l|r}.{mode:clamp|wrap}.b32",
    d="out b32",
    a="in b32",
    b="in b32",
    c="in u32",
    since=(3, 1),
    sm=32,
    examples=[
        ("shf.l.wrap.b32", (0x80000001, 0x40000003, 33), (0x80000007,)),
        ("shf.l.clamp.b32", (0x80000001, 0x40000003, 33), (0x80000001,)),
        ("shf.r.wrap.b32", (0x80000001, 0x40000003, 33), (0xC0000000,)),
        ("shf.r.clamp.b32", (0x80000001, 0x40000003, 33), (0x40000003,)),
        ("shf.l.wrap.b32", (1, 2, 0), (2,)),
        ("shf.r.wrap.b32", (1, 2, 0), (1,)),
    ],
)
def shf(lanes: Lanes, a: Value, b: Value, c: Value, *, direction: str, mode: str) -> Value:
    """d = 32 bits of [b, a] (b above): the upper ones after a left shift, the lower ones after a right shift, by c modulo or at most 32."""
    if mode == "wrap":
        c = lanes.and_(c, lanes.const(31, 32))
    else:
        c = lanes.select(lanes.compare("gt", c, lanes.const(32, 32)), lanes.const(32, 32), c)
    joined = lanes.concat([a, b])
    if direction == "l":
        return lanes.extract(lanes.shift_left(joined, c), 32, 32)
    return lanes.extract(lanes.shift_right(joined, c), 0, 32)


@instruction(
    f"shl.{BITS}",
    d="out {type}",
    a="in {type}",
    b="in u32",
    examples=[
        ("shl.b32", (1, 31), (0x80000000,)),
        ("shl.b32", (1, 32), (0,)),
        ("shl.b16", (3, 15), (0x8000,)),
        ("shl.b64", (1, 0xFFFFFFFF), (0,)),
    ],
)
def shl(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a << b; 0 for amounts of the width and more."""
    return lanes.shift_left(a, b)


@instruction(
    "shr.{type:b16|b32|b64|u16|u32|u64|s16|s32|s64}",
    d="out {type}",
    a="in {type}",
    b="in u32",
    examples=[
        ("shr.u32", (0x80000000, 31), (1,)),
        ("shr.s32", (0x80000000, 31), (-1,)),
        ("shr.s32", (0x80000000, 99), (-1,)),
        ("shr.b32", (0x80000000, 32), (0,)),
        ("shr.s16", (0x8000, 3), (0xF000,)),
        ("shr.s64", (-8, 1), (-4,)),
        ("shr.u64", (-8, 1), ((1 << 63) - 4,)),
    ],
)
def shr(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = a >> b; amounts of the width and more give 0, or copies of the sign."""
    return lanes.shift_right(a, b, type_of(type).signed)
