"""Conversions with six- and four-bit floats and with bare exponents (PTX ISA manual, "cvt": what came with PTX 8.6).

Invariant: the first of two operands, or the upper half of one, becomes the upper element. Conversions with factors are in ``scaled``, those with random
bits in ``stochastic``.
"""

from __future__ import annotations

from ptxgraft.isa import floats
from ptxgraft.isa.families.convert import cvt_halves_of_eights, cvt_tf32
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.small_floats import SMALL, from_single, to_half
from ptxgraft.isa.table import instruction

SMALLEST = "e2m1x2|e2m3x2|e3m2x2"
ONE, TWO, HALF, NAN = 0x3F800000, 0x40000000, 0x3F000000, 0x7FC00000


def _packed(lanes: Lanes, dtype: str, upper: Value, lower: Value, relu: str) -> Value:
    """Two f32 as codes: four bits each in a byte, others a byte each."""
    name = dtype.removesuffix("x2")
    codes = [from_single(lanes, name, x, relu) for x in (lower, upper)]
    if SMALL[name].bits > 4:
        return lanes.concat(codes)
    return lanes.or_(codes[0], lanes.shift_left(codes[1], lanes.const(4, 32)))


@instruction(
    f"cvt.rn.satfinite.{{relu}}?.{{dtype:{SMALLEST}}}.f32", d="out {dtype}", a="in f32", b="in f32", since=(8, 6), sm=100, specific="f",
    examples=[
        ("cvt.rn.satfinite.e2m1x2.f32", (ONE, 0xC0000000), (0x2C,)),
        ("cvt.rn.satfinite.e2m1x2.f32", (NAN, 0xFF800000), (0x7F,)),
        ("cvt.rn.satfinite.e2m1x2.f32", (0x3E800000, 0x3F400000), (0x02,)),
        ("cvt.rn.satfinite.e2m3x2.f32", (ONE, 0x40F80000), (0x081F,)),
        ("cvt.rn.satfinite.e3m2x2.f32", (ONE, 0x41E00000), (0x0C1F,)),
        ("cvt.rn.satfinite.relu.e3m2x2.f32", (0xBF800000, 0x3D800000), (0x0001,)),
    ],
)  # fmt: skip
def cvt_small(lanes: Lanes, a: Value, b: Value, *, relu: str, dtype: str) -> Value:
    """d = a and b in the small format; beyond its range, and for a NaN, the largest number."""
    return _packed(lanes, dtype, a, b, relu)


def singles_of(lanes: Lanes, type: str, a: Value) -> tuple[Value, ...]:
    return tuple(lanes.float_convert(type.removesuffix("x2"), "f32", half) for half in halves(lanes, a))


@instruction(
    f"cvt.rn.satfinite.{{relu}}?.{{dtype:{SMALLEST}}}.{{type:f16x2|bf16x2}}", d="out {dtype}", a="in {type}", since=(9, 1), sm=100,
    specific="f",
    examples=[
        ("cvt.rn.satfinite.e2m1x2.f16x2", (0x3C00C000,), (0x2C,)),
        ("cvt.rn.satfinite.e2m3x2.bf16x2", (0x3F804500,), (0x081F,)),
    ],
)  # fmt: skip
def cvt_small_of_halves(lanes: Lanes, a: Value, *, relu: str, dtype: str, type: str) -> Value:
    """As above of the halves of a."""
    lower, upper = singles_of(lanes, type, a)
    return _packed(lanes, dtype, upper, lower, relu)


@instruction(
    "cvt.rn.satfinite.{relu}?.{dtype:e4m3x2|e5m2x2}.bf16x2", d="out {dtype}", a="in bf16x2", since=(9, 1), sm=100, specific="f",
    examples=[("cvt.rn.satfinite.e4m3x2.bf16x2", (0x3F80C000,), (0x38C0,)), ("cvt.rn.satfinite.e5m2x2.bf16x2", (0x3F807F80,), (0x3C7B,))],
)  # fmt: skip
def cvt_eights_of_bf16(lanes: Lanes, a: Value, *, relu: str, dtype: str) -> Value:
    """Each half of a to the byte of its place."""
    lower, upper = singles_of(lanes, "bf16x2", a)
    return _packed(lanes, dtype, upper, lower, relu)


@instruction(
    f"cvt.rn.{{relu}}?.f16x2.{{type:{SMALLEST}}}", d="out f16x2", a="in {type}", since=(8, 6), sm=100, specific="f",
    examples=[
        ("cvt.rn.f16x2.e2m1x2", (0x2C,), (0x3C00C000,)),
        ("cvt.rn.f16x2.e2m1x2", (0x71,), (0x46003800,)),
        ("cvt.rn.f16x2.e2m3x2", (0x0821,), (0x3C00B000,)),
        ("cvt.rn.f16x2.e3m2x2", (0x0C1F,), (0x3C004F00,)),
        ("cvt.rn.relu.f16x2.e3m2x2", (0x2C01,), (0x00002C00,)),
    ],
)  # fmt: skip
def cvt_halves_of_small(lanes: Lanes, a: Value, *, relu: str, type: str) -> Value:
    """Each element of a, exactly, to the half of its place."""
    name = type.removesuffix("x2")
    codes = (a, lanes.shift_right(a, lanes.const(4, 32))) if SMALL[name].bits == 4 else halves(lanes, a)
    return lanes.concat([floats.relu(lanes, "f16", to_half(lanes, name, code), relu) for code in codes])


@instruction(
    f"cvt.rn.{{relu}}?.bf16x2.{{type:{SMALLEST}|e4m3x2|e5m2x2}}", d="out bf16x2", a="in {type}", since=(9, 2), sm=100, specific="f",
    examples=[
        ("cvt.rn.bf16x2.e2m1x2", (0x2C,), (0x3F80C000,)),
        ("cvt.rn.bf16x2.e4m3x2", (0x38FF,), (0x3F807FFF,)),
        ("cvt.rn.relu.bf16x2.e5m2x2", (0x3CBC,), (0x3F800000,)),
        ("cvt.rn.bf16x2.e5m2x2", (0x0184,), (0x3780B880,)),
    ],
)  # fmt: skip
def cvt_bf16_of_small(lanes: Lanes, a: Value, *, relu: str, type: str) -> Value:
    """Each element of a, exactly, to the half of its place; NaN gives 0x7FFF."""
    of_halves = cvt_halves_of_eights if type in ("e4m3x2", "e5m2x2") else cvt_halves_of_small
    singles = singles_of(lanes, "f16x2", of_halves(lanes, a, relu=relu, type=type))
    return lanes.concat([lanes.float_convert("f32", "bf16", x) for x in singles])


# -- bare exponents -------------------------------------------------------------------------------------------------------
def _exponent(lanes: Lanes, a: Value, rounding: str, satfinite: str) -> Value:
    """An f32 as the exponent of a power of two, its sign left out, as CUDA's own conversions have it on the host. 2**-127 is the least, NaN is 0xFF."""
    size = floats.magnitude(lanes, "f32", a)
    infinity = lanes.const(0x7F800000, 32)
    code = lanes.shift_right(size, lanes.const(23, 32))
    if rounding == "rp":
        inexact = lanes.compare("ne", lanes.and_(size, lanes.const(0x7FFFFF, 32)), lanes.const(0, 32))
        between = lanes.and_(lanes.compare("gt", size, lanes.const(0x400000, 32)), lanes.compare("lt", size, infinity))
        code = lanes.add(code, lanes.resize(lanes.and_(inexact, between), 32))
    if satfinite:
        large = lanes.and_(lanes.compare("eq", code, lanes.const(0xFF, 32)), lanes.compare("le", size, infinity))
        code = lanes.select(large, lanes.const(0xFE, 32), code)
    return lanes.resize(code, 8)


@instruction(
    "cvt.{rounding:rz|rp}.{satfinite}?.ue8m0x2.f32", d="out ue8m0x2", a="in f32", b="in f32", since=(8, 6), sm=100, specific="f",
    examples=[
        ("cvt.rz.ue8m0x2.f32", (ONE, 0xC0400000), (0x7F80,)),
        ("cvt.rp.ue8m0x2.f32", (0x3F800001, 0xC0400000), (0x8081,)),
        ("cvt.rp.ue8m0x2.f32", (0x00400000, 0x00400001), (0x0001,)),
        ("cvt.rp.satfinite.ue8m0x2.f32", (0x7F7FFFFF, NAN), (0xFEFF,)),
        ("cvt.rz.ue8m0x2.f32", (0xFF800000, 0), (0xFF00,)),
    ],
)  # fmt: skip
def cvt_exponents(lanes: Lanes, a: Value, b: Value, *, rounding: str, satfinite: str) -> Value:
    """d = the exponents of a and b, rounded down or up to a power of two."""
    return lanes.concat([_exponent(lanes, x, rounding, satfinite) for x in (b, a)])


@instruction(
    "cvt.{rounding:rz|rp}.{satfinite}?.ue8m0x2.bf16x2", d="out ue8m0x2", a="in bf16x2", since=(8, 6), sm=100, specific="f",
    examples=[
        ("cvt.rz.ue8m0x2.bf16x2", (0x3F80C040,), (0x7F80,)),
        ("cvt.rp.satfinite.ue8m0x2.bf16x2", (0x7F810041,), (0xFF01,)),
    ],
)  # fmt: skip
def cvt_exponents_of_halves(lanes: Lanes, a: Value, *, rounding: str, satfinite: str) -> Value:
    """d = the exponents of the halves of a."""
    singles = [lanes.concat([lanes.const(0, 16), half]) for half in halves(lanes, a)]
    return lanes.concat([_exponent(lanes, x, rounding, satfinite) for x in singles])


@instruction(
    "cvt.rn.bf16x2.ue8m0x2", d="out bf16x2", a="in ue8m0x2", since=(8, 6), sm=100, specific="f",
    examples=[("cvt.rn.bf16x2.ue8m0x2", (0x7F80,), (0x3F804000,)), ("cvt.rn.bf16x2.ue8m0x2", (0x00FF,), (0x00407FFF,))],
)  # fmt: skip
def cvt_powers(lanes: Lanes, a: Value) -> Value:
    """Each byte of a as the power of two that it is the exponent of; 0xFF is a NaN."""
    results: list[Value] = []
    for code in halves(lanes, a):
        wide = lanes.resize(code, 16)
        power = lanes.shift_left(wide, lanes.const(7, 32))
        # 2**-127 has no normal bf16.
        power = lanes.select(lanes.compare("eq", wide, lanes.const(0, 16)), lanes.const(0x0040, 16), power)
        results.append(lanes.select(lanes.compare("eq", wide, lanes.const(0xFF, 16)), lanes.const(0x7FFF, 16), power))
    return lanes.concat(results)


# -- tf32 -----------------------------------------------------------------------------------------------------------------
@instruction(
    "cvt.{rounding:rn|rz}.satfinite.{relu}?.tf32.f32", d="out b32", a="in f32", since=(8, 6), sm=100,
    examples=[
        ("cvt.rn.satfinite.tf32.f32", (0x3F803000,), (0x3F804000,)),
        ("cvt.rn.satfinite.tf32.f32", (0xFF800000,), (0xFF7FE000,)),
        ("cvt.rz.satfinite.relu.tf32.f32", (0xBF800000,), (0,)),
    ],
)  # fmt: skip
def cvt_tf32_finite(lanes: Lanes, a: Value, *, rounding: str, relu: str) -> Value:
    """d = a to ten fraction bits; beyond the range the largest number."""
    result = cvt_tf32(lanes, a, rounding=rounding, relu=relu)
    infinite = lanes.compare("eq", floats.magnitude(lanes, "f32", result), lanes.const(0x7F800000, 32))
    return lanes.select(infinite, lanes.sub(result, lanes.const(0x2000, 32)), result)
