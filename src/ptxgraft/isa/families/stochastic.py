"""Conversions that random bits round (PTX ISA manual, "cvt": ``.rs``).

Invariant: the bits are added to what is cut off, and the carry rounds away from zero. Where more is cut off than there are bits for, they meet its highest
ones; so do those of a subnormal result. The manual's text leaves to its figures how two elements share sixteen bits: here both take all of them, and
of the two bytes for four-bit floats the upper element takes the upper one. No machine of ours has these instructions.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.small_floats import SMALL, Small
from ptxgraft.isa.table import instruction

_HALVES = {"f16": Small(16, 10, 15, 0x7C00, 0x7FFF), "bf16": Small(16, 7, 127, 0x7F80, 0x7FFF)}
"""Halves as if infinity were their largest number."""
_RANDOM_BITS = {"f16": 13, "bf16": 16, "e2m1": 8}
_HIDDEN = 1 << 23


def rounded(lanes: Lanes, f: Small, count: int, a: Value, random: Value) -> Value:
    """The code (b32, without sign) of the f32 ``a`` in a format; ``random`` (b32) holds ``count`` bits. A NaN gives any code."""
    size = floats.magnitude(lanes, "f32", a)
    exponent = lanes.shift_right(size, lanes.const(23, 32))
    one = lanes.const(1, 32)
    normal = lanes.compare("ne", exponent, lanes.const(0, 32))
    fraction = lanes.and_(size, lanes.const(_HIDDEN - 1, 32))
    significand = lanes.or_(fraction, lanes.select(normal, lanes.const(_HIDDEN, 32), lanes.const(0, 32)))
    exponent = lanes.select(normal, exponent, one)
    # Below the least normal number of the format more bits are cut off; from a place on nothing is left that could carry.
    least = lanes.const(128 - f.bias, 32)
    below = lanes.select(lanes.compare("lt", exponent, least), lanes.sub(least, exponent), lanes.const(0, 32))
    most = lanes.const(24 + count, 32)
    cut = lanes.add(below, lanes.const(23 - f.fraction, 32))
    cut = lanes.select(lanes.compare("gt", cut, most), most, cut)
    added = lanes.shift_left(lanes.resize(random, 64), lanes.sub(cut, lanes.const(count, 32)))
    steps = lanes.resize(lanes.shift_right(lanes.add(lanes.resize(significand, 64), added), cut), 32)
    above = lanes.sub(lanes.add(exponent, below), least)
    code = lanes.add(steps, lanes.shift_left(above, lanes.const(f.fraction, 32)))
    largest = lanes.const(f.largest, 32)
    return lanes.select(lanes.compare("gt", code, largest), largest, code)


def _finished(lanes: Lanes, f: Small, a: Value, code: Value, relu: str) -> Value:
    """The code with its sign, or that of a NaN; ``relu``: what has a sign gives +0."""
    nan = lanes.compare("gt", floats.magnitude(lanes, "f32", a), lanes.const(0x7F800000, 32))
    negative = lanes.compare("lt", a, lanes.const(0, 32), signed=True)
    signed = lanes.const(0, 32) if relu else lanes.or_(code, lanes.const(1 << (f.bits - 1), 32))
    return lanes.select(nan, lanes.const(f.nan, 32), lanes.select(negative, signed, code))


def _field(lanes: Lanes, a: Value, at: int, width: int) -> Value:
    return lanes.and_(lanes.shift_right(a, lanes.const(at, 32)), lanes.const((1 << width) - 1, 32))


@instruction(
    "cvt.rs.{relu}?.{satfinite}?.{dtype:f16x2|bf16x2}.f32", d="out {dtype}", a="in f32", b="in f32", random="in b32", since=(8, 7), sm=100,
    specific="a",
    examples=[
        ("cvt.rs.f16x2.f32", (0x3F800001, 0x3F800001, 0x1FFF1FFE), (0x3C013C00,)),
        ("cvt.rs.f16x2.f32", (0x477FE001, 0x477FE001, 0x1FFF0000), (0x7C007BFF,)),
        ("cvt.rs.satfinite.f16x2.f32", (0x477FE001, 0x7FC00000, 0x1FFF0000), (0x7BFF7FFF,)),
        ("cvt.rs.bf16x2.f32", (0xBF808000, 0xBF808000, 0x80007FFF), (0xBF81BF80,)),
        ("cvt.rs.relu.satfinite.bf16x2.f32", (0xFF800000, 0x7F800000, 0), (0x00007F7F,)),
        ("cvt.rs.f16x2.f32", (0x33000000, 0x33000000, 0x10000FFF), (0x00010000,)),
    ],
)  # fmt: skip
def cvt_random(lanes: Lanes, a: Value, b: Value, random: Value, *, relu: str, satfinite: str, dtype: str) -> Value:
    """d = a and b, rounded away from zero where the lowest bits of their half of the random bits carry."""
    name = dtype.removesuffix("x2")
    f, count = _HALVES[name], _RANDOM_BITS[name]
    results: list[Value] = []
    for x, at in ((b, 0), (a, 16)):
        code = rounded(lanes, f, count, x, _field(lanes, random, at, count))
        if satfinite:
            largest = lanes.const(f.largest - 1, 32)
            code = lanes.select(lanes.compare("gt", code, largest), largest, code)
        results.append(lanes.resize(_finished(lanes, f, x, code, relu), 16))
    return lanes.concat(results)


@instruction(
    "cvt.rs.{relu}?.satfinite.{dtype:e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4}.f32", d="out {dtype}", a="in f32 x4", random="in b32",
    since=(8, 7), sm=100, specific="a",
    examples=[
        ("cvt.rs.satfinite.e4m3x4.f32", (0x3F880000, 0x3F880000, 0x3F880000, 0x3F880000, 0x80007FFF), (0x39393838,)),
        ("cvt.rs.satfinite.e5m2x4.f32", (0x7F800000, 0xFF800000, 0x7FC00000, 0x80000000, 0), (0x7BFB7F80,)),
        ("cvt.rs.relu.satfinite.e2m3x4.f32", (0xBF800000, 0x3F800000, 0x41000000, 0x7FC00000, 0), (0x00081F1F,)),
        ("cvt.rs.satfinite.e3m2x4.f32", (0xC2000000, 0x3F900000, 0x3F900000, 0, 0x80007FFF), (0x3F0D0C00,)),
        ("cvt.rs.satfinite.e2m1x4.f32", (0x3FA00000, 0x3FA00000, 0x3FA00000, 0x3FA00000, 0x807F7F80), (0x3223,)),
    ],
)  # fmt: skip
def cvt_random_small(lanes: Lanes, a: Sequence[Value], random: Value, *, relu: str, dtype: str) -> Value:
    """d = the four elements of a, the first uppermost, limited to finite numbers. The first two take the upper half of the random bits, the others the
    lower one; for e2m1 the upper and the lower bytes of both halves."""
    name = dtype.removesuffix("x4")
    f, count = SMALL[name], _RANDOM_BITS.get(name, 16)
    places = (24, 8, 16, 0) if name == "e2m1" else (16, 16, 0, 0)
    codes = [
        _finished(lanes, f, x, rounded(lanes, f, count, x, _field(lanes, random, at, count)), relu) for x, at in zip(a, places, strict=True)
    ]
    if f.bits > 4:
        return lanes.concat([lanes.resize(code, 8) for code in reversed(codes)])
    whole = lanes.const(0, 32)
    for code in codes:
        whole = lanes.or_(lanes.shift_left(whole, lanes.const(4, 32)), code)
    return lanes.resize(whole, 16)
