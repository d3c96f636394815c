"""Moves, permutation and selection (PTX ISA manual, "Data Movement" and "Comparison and Selection").

Invariant: bits are carried, never read as numbers. Vectors given to ``mov`` are packed and unpacked by the engine, and a
variable's address comes in as its number.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction


@instruction(
    "mov.{type:pred|b16|b32|b64|b128|u16|u32|u64|s16|s32|s64|f32|f64}",
    d="out {type}",
    a="in {type}",
    examples=[("mov.b32", (0x12345678,), (0x12345678,)), ("mov.pred", (1,), (1,)), ("mov.b128", (1 << 100,), (1 << 100,))],
)
def mov(lanes: Lanes, a: Value) -> Value:
    """d = a."""
    return a


def _selector(lanes: Lanes, c: Value, i: int, mode: str) -> tuple[Value, bool]:
    """Which byte of [b, a] byte i of the result is: a b32 number 0..7, and whether the nibble's top bit may replicate a sign."""
    one = lanes.and_(c, lanes.const(3, 32))
    if mode == "":
        nibble = lanes.and_(lanes.shift_right(c, lanes.const(4 * i, 32)), lanes.const(15, 32))
        return nibble, True
    if mode == "f4e":
        return lanes.add(one, lanes.const(i, 32)), False
    if mode == "b4e":
        return lanes.and_(lanes.sub(one, lanes.const(i, 32)), lanes.const(7, 32)), False
    if mode == "rc8":
        return one, False
    if mode == "rc16":
        low = lanes.and_(one, lanes.const(1, 32))
        return lanes.add(lanes.shift_left(low, lanes.const(1, 32)), lanes.const(i & 1, 32)), False
    bounded = lanes.const(i, 32)
    above = lanes.compare("gt", one, bounded)
    if mode == "ecl":
        return lanes.select(above, one, bounded), False
    return lanes.select(above, bounded, one), False


@instruction(
    "prmt.b32.{mode:f4e|b4e|rc8|ecl|ecr|rc16}?",
    d="out b32",
    a="in b32",
    b="in b32",
    c="in b32",
    since=(2, 0),
    sm=20,
    examples=[
        ("prmt.b32", (0x33221100, 0x77665544, 0x7531), (0x77553311,)),
        ("prmt.b32", (0x33221180, 0x77665544, 0x0008), (0x808080FF,)),
        ("prmt.b32.f4e", (0x33221100, 0x77665544, 1), (0x44332211,)),
        ("prmt.b32.b4e", (0x33221100, 0x77665544, 1), (0x66770011,)),
        ("prmt.b32.rc8", (0x33221100, 0x77665544, 2), (0x22222222,)),
        ("prmt.b32.ecl", (0x33221100, 0x77665544, 2), (0x33222222,)),
        ("prmt.b32.ecr", (0x33221100, 0x77665544, 2), (0x22221100,)),
        ("prmt.b32.rc16", (0x33221100, 0x77665544, 1), (0x33223322,)),
    ],
)
def prmt(lanes: Lanes, a: Value, b: Value, c: Value, *, mode: str) -> Value:
    """Each byte of d is the byte of [b, a] that c selects; without a mode, bit 3 of a nibble replicates that byte's sign instead."""
    joined = lanes.concat([a, b])
    result = []
    for i in range(4):
        index, signs = _selector(lanes, c, i, mode)
        shift = lanes.shift_left(lanes.and_(index, lanes.const(7, 32)), lanes.const(3, 32))
        byte = lanes.extract(lanes.shift_right(joined, shift), 0, 8)
        if signs:
            sign = lanes.shift_right(byte, lanes.const(7, 32), signed=True)
            byte = lanes.select(lanes.compare("ge", index, lanes.const(8, 32)), sign, byte)
        result.append(byte)
    return lanes.concat(result)


@instruction(
    "selp.{type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in pred",
    examples=[("selp.b32", (1, 2, 1), (1,)), ("selp.f64", (1, 2, 0), (2,)), ("selp.u16", (1, 2, 1), (1,))],
)
def selp(lanes: Lanes, a: Value, b: Value, c: Value) -> Value:
    """d = a if c, else b."""
    return lanes.select(c, a, b)


_SLCT = "{type:b16|b32|b64|u16|u32|u64|s16|s32|s64|f32|f64}"


@instruction(
    f"slct.{_SLCT}.s32",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in s32",
    examples=[("slct.u32.s32", (1, 2, 0), (1,)), ("slct.u32.s32", (1, 2, -1), (2,))],
)
def slct(lanes: Lanes, a: Value, b: Value, c: Value) -> Value:
    """d = a if c >= 0, else b."""
    return lanes.select(lanes.compare("ge", c, lanes.const(0, 32), signed=True), a, b)


@instruction(
    f"slct.{{ftz:ftz}}?.{_SLCT}.f32",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    c="in f32",
    examples=[
        ("slct.u32.f32", (1, 2, 0x80000000), (1,)),
        ("slct.u32.f32", (1, 2, 0x80000001), (2,)),
        ("slct.ftz.u32.f32", (1, 2, 0x80000001), (1,)),
        ("slct.b64.f32", (1, 2, 0x7FC00000), (2,)),
    ],
)
def slct_float(lanes: Lanes, a: Value, b: Value, c: Value, *, ftz: str) -> Value:
    """d = a if c >= 0 (-0 counts), else b; a NaN chooses b."""
    return lanes.select(lanes.float_compare("f32", "ge", c, lanes.const(0, 32), bool(ftz)), a, b)
