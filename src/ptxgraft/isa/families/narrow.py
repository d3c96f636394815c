"""Conversions with six- and four-bit floats, with bare exponents and with random bits (PTX ISA manual, "cvt": what came with PTX 8.6).

Invariant: the first of two operands, or the upper half of one, becomes the upper element. What the manual leaves open (which random bits
belong to a discarded bit, how a sign becomes an exponent) is declared and has no meaning here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ptxgraft.isa import floats
from ptxgraft.isa.families.convert import cvt_halves_of_eights, cvt_tf32
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.small_floats import SMALL, from_single, to_half
from ptxgraft.isa.table import declare_only, instruction

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


def _singles(lanes: Lanes, type: str, a: Value) -> tuple[Value, ...]:
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
    lower, upper = _singles(lanes, type, a)
    return _packed(lanes, dtype, upper, lower, relu)


@instruction(
    "cvt.rn.satfinite.{relu}?.{dtype:e4m3x2|e5m2x2}.bf16x2", d="out {dtype}", a="in bf16x2", since=(9, 1), sm=100, specific="f",
    examples=[("cvt.rn.satfinite.e4m3x2.bf16x2", (0x3F80C000,), (0x38C0,)), ("cvt.rn.satfinite.e5m2x2.bf16x2", (0x3F807F80,), (0x3C7B,))],
)  # fmt: skip
def cvt_eights_of_bf16(lanes: Lanes, a: Value, *, relu: str, dtype: str) -> Value:
    """Each half of a to the byte of its place."""
    lower, upper = _singles(lanes, "bf16x2", a)
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
    singles = _singles(lanes, "f16x2", of_halves(lanes, a, relu=relu, type=type))
    return lanes.concat([lanes.float_convert("f32", "bf16", x) for x in singles])


@instruction(
    f"cvt.rn.{{satfinite}}?.{{relu}}?.{{scaled:scaled::n2::ue8m0}}?.bf16x2.{{type:{SMALLEST}|e4m3x2|e5m2x2}}", d="out bf16x2", a="in {type}",
    factors="{factors}", derive=lambda scaled, **rest: {"factors": "in b16" if scaled else ""},
    legal=lambda *, satfinite, scaled, **rest: bool(satfinite or scaled), since=(9, 2), sm=100, specific="f",
)  # fmt: skip
@declare_only
def cvt_bf16_scaled(lanes: Lanes) -> None:
    """As above, times powers of two, limited to finite numbers."""


# -- bare exponents -------------------------------------------------------------------------------------------------------
@instruction("cvt.{rounding:rz|rp}.{satfinite}?.ue8m0x2.f32", d="out ue8m0x2", a="in f32", b="in f32", since=(8, 6), sm=100, specific="f")
@declare_only
def cvt_exponents(lanes: Lanes) -> None:
    """d = the exponents of a and b, rounded down or up to a power of two."""


@instruction("cvt.{rounding:rz|rp}.{satfinite}?.ue8m0x2.bf16x2", d="out ue8m0x2", a="in bf16x2", since=(8, 6), sm=100, specific="f")
@declare_only
def cvt_exponents_of_halves(lanes: Lanes) -> None:
    """d = the exponents of the halves of a."""


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


# -- random bits, fixed point ---------------------------------------------------------------------------------------------
@instruction(
    "cvt.rs.{relu}?.{satfinite}?.{dtype:f16x2|bf16x2}.f32", d="out {dtype}", a="in f32", b="in f32", random="in b32", since=(8, 7), sm=100,
    specific="a",
)  # fmt: skip
@declare_only
def cvt_random(lanes: Lanes) -> None:
    """d = a and b, rounded up or down as the random bits have it."""


@instruction(
    "cvt.rs.{relu}?.satfinite.{dtype:e4m3x4|e5m2x4|e2m3x4|e3m2x4|e2m1x4}.f32", d="out {dtype}", a="in f32 x4", random="in b32",
    since=(8, 7), sm=100, specific="a",
)  # fmt: skip
@declare_only
def cvt_random_small(lanes: Lanes, a: Sequence[Value]) -> None:
    """d = the four elements of a, the first uppermost, rounded up or down as the random bits have it."""


_SINGLES: dict[str, Any] = {"a": "in f32", "b": "in f32"}
_HALVES: dict[str, Any] = {"a": "in bf16x2"}

for _types, _operands in (("s2f6x2.f32", _SINGLES), ("s2f6x2.bf16x2", _HALVES)):

    @instruction(
        f"cvt.rn.satfinite.{{relu}}?.{{scaled:scaled::n2::ue8m0}}?.{_types}", d="out s2f6x2", **_operands, factors="{factors}",
        derive=lambda scaled, **rest: {"factors": "in b16" if scaled else ""}, since=(9, 1), sm=100, specific="a",
    )  # fmt: skip
    @declare_only
    def cvt_fixed(lanes: Lanes) -> None:
        """d = fixed-point numbers with six fraction bits, of operands divided by powers of two."""


@instruction(
    "cvt.rn.{satfinite}?.{relu}?.{scaled:scaled::n2::ue8m0}?.bf16x2.s2f6x2", d="out bf16x2", a="in s2f6x2", factors="{factors}",
    derive=lambda scaled, **rest: {"factors": "in b16" if scaled else ""}, since=(9, 1), sm=100, specific="a",
)  # fmt: skip
@declare_only
def cvt_of_fixed(lanes: Lanes) -> None:
    """d = fixed-point numbers with six fraction bits, times powers of two."""
