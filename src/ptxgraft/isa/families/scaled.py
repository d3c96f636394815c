"""Conversions with factors, and with fixed-point numbers (PTX ISA manual, "cvt": ``.scaled::n2::ue8m0``, ``.s2f6x2``).

Invariant: values are f64, in which every product with a power of two is exact, and are rounded once. A factor is an exponent of eight bits (127 is 1,
0xFF a NaN), the upper one for the upper element. Of ``s2f6`` the manual says that what is larger than the largest number, 127/64, becomes that with its
sign: -2 becomes -127/64. No machine of ours has these instructions: they are by the manual alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptxgraft.isa import floats
from ptxgraft.isa.families.convert import cvt_halves_of_eights
from ptxgraft.isa.families.narrow import NAN, ONE, SMALLEST, cvt_halves_of_small, singles_of
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.table import instruction

_SCALED = "{scaled:scaled::n2::ue8m0}?"
_FRACTION_BITS = 6


def _factors(scaled: str, **rest: str) -> Mapping[str, str]:
    return {"factors": "in b16" if scaled else ""}


def _exponents(lanes: Lanes, factors: Value | None) -> Sequence[Value]:
    """The exponents of the lower and the upper element, as numbers of 64 bits."""
    if factors is None:
        return [lanes.const(127, 64)] * 2
    return [lanes.resize(half, 64) for half in halves(lanes, factors)]


def _power(lanes: Lanes, exponent: Value) -> Value:
    """2**exponent as f64; the exponent is a signed number of 64 bits that is normal there."""
    return lanes.shift_left(lanes.add(exponent, lanes.const(1023, 64)), lanes.const(52, 32))


def _unknown(lanes: Lanes, exponent: Value) -> Value:
    return lanes.compare("eq", exponent, lanes.const(0xFF, 64))


def to_bf16(lanes: Lanes, a: Value, exponent: Value, extra: int, satfinite: str, relu: str) -> Value:
    """The f64 ``a`` times the factor and 2**extra, as bf16."""
    power = _power(lanes, lanes.add(exponent, lanes.const(extra - 127, 64)))
    result = lanes.float_convert("f64", "bf16", lanes.float_mul("f64", a, power))
    if satfinite:
        infinite = lanes.compare("eq", floats.magnitude(lanes, "bf16", result), lanes.const(0x7F80, 16))
        result = lanes.select(infinite, lanes.sub(result, lanes.const(1, 16)), result)
    nan = lanes.or_(_unknown(lanes, exponent), floats.is_nan(lanes, "bf16", result))
    return floats.relu(lanes, "bf16", floats.canonical(lanes, "bf16", result, nan), relu)


@instruction(
    f"cvt.rn.{{satfinite}}?.{{relu}}?.{_SCALED}.bf16x2.{{type:{SMALLEST}|e4m3x2|e5m2x2}}", d="out bf16x2", a="in {type}", factors="{factors}",
    derive=_factors, legal=lambda *, satfinite, scaled, **rest: bool(satfinite or scaled), since=(9, 2), sm=100, specific="f",
    examples=[
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e2m1x2", (0x2C, 0x8081), (0x4000C100,)),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e4m3x2", (0x387F, 0xFF7F), (0x7FFF7FFF,)),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.e5m2x2", (0x7BFC, 0xFE7F), (0x7F7FFF7F,)),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.e5m2x2", (0x0103, 0x0000), (0x00000000,)),
        ("cvt.rn.satfinite.relu.bf16x2.e5m2x2", (0x7CFC,), (0x7F7F0000,)),
    ],
)  # fmt: skip
def cvt_bf16_scaled(lanes: Lanes, a: Value, factors: Value = None, *, satfinite: str, relu: str, type: str) -> Value:
    """Each element of a times its factor, rounded, to the half of its place; with satfinite limited to finite numbers."""
    of_halves = cvt_halves_of_eights if type in ("e4m3x2", "e5m2x2") else cvt_halves_of_small
    elements = [lanes.float_convert("f16", "f64", half) for half in halves(lanes, of_halves(lanes, a, relu="", type=type))]
    exponents = _exponents(lanes, factors)
    return lanes.concat([to_bf16(lanes, x, e, 0, satfinite, relu) for x, e in zip(elements, exponents, strict=True)])


# -- fixed point ----------------------------------------------------------------------------------------------------------
def _to_fixed(lanes: Lanes, a: Value, exponent: Value, relu: str, rounding: str = "rn") -> Value:
    """The f32 ``a`` over the factor in units of 1/64."""
    power = _power(lanes, lanes.sub(lanes.const(127 + _FRACTION_BITS, 64), exponent))
    wide = lanes.float_mul("f64", lanes.float_convert("f32", "f64", a), power)
    steps = lanes.float_to_int("f64", wide, 32, True, f"{rounding}i")
    largest, least = lanes.const(127, 32), lanes.const(0 if relu else -127, 32)
    steps = lanes.select(lanes.compare("lt", steps, least, signed=True), least, steps)
    steps = lanes.select(lanes.compare("gt", steps, largest, signed=True), largest, steps)
    nan = lanes.or_(_unknown(lanes, exponent), floats.is_nan(lanes, "f32", a))
    return lanes.resize(lanes.select(nan, largest, steps), 8)


_FIXED: dict[str, Any] = {"factors": "{factors}", "derive": _factors, "since": (9, 1), "sm": 100, "specific": "a"}


@instruction(
    f"cvt.rn.satfinite.{{relu}}?.{_SCALED}.s2f6x2.f32", d="out s2f6x2", a="in f32", b="in f32", **_FIXED,
    examples=[
        ("cvt.rn.satfinite.s2f6x2.f32", (ONE, 0xBF810000), (0x40C0,)),
        ("cvt.rn.satfinite.s2f6x2.f32", (0x7FC00000, 0xC0800000), (0x7F81,)),
        ("cvt.rn.satfinite.relu.scaled::n2::ue8m0.s2f6x2.f32", (0x40000000, 0xBF800000, 0x807F), (0x4000,)),
    ],
)  # fmt: skip
def cvt_fixed(lanes: Lanes, a: Value, b: Value, factors: Value = None, *, relu: str) -> Value:
    """d = a and b over their factors as fixed-point numbers with six fraction bits."""
    return lanes.concat([_to_fixed(lanes, x, e, relu) for x, e in zip((b, a), _exponents(lanes, factors), strict=True)])


@instruction(
    f"cvt.rn.satfinite.{{relu}}?.{_SCALED}.s2f6x2.bf16x2", d="out s2f6x2", a="in bf16x2", **_FIXED,
    examples=[
        ("cvt.rn.satfinite.s2f6x2.bf16x2", (0x3F80BF80,), (0x40C0,)),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.s2f6x2.bf16x2", (0x3F803F80, 0x7E7F), (0x7F40,)),
    ],
)  # fmt: skip
def cvt_fixed_of_halves(lanes: Lanes, a: Value, factors: Value = None, *, relu: str) -> Value:
    """As above of the halves of a."""
    lower, upper = singles_of(lanes, "bf16x2", a)
    return cvt_fixed(lanes, upper, lower, factors, relu=relu)


_CUT: dict[str, Any] = {**_FIXED, "since": (9, 4), "sm": 107}


@instruction(
    f"cvt.rz.satfinite.{{relu}}?.{_SCALED}.s2f6x2.f32", d="out s2f6x2", a="in f32", b="in f32", **_CUT,
    examples=[("cvt.rz.satfinite.s2f6x2.f32", (0x3F81FFFF, 0xBF81FFFF), (0x40C0,)), ("cvt.rz.satfinite.s2f6x2.f32", (NAN, 0xC0800000), (0x7F81,))],
)  # fmt: skip
def cvt_fixed_cut(lanes: Lanes, a: Value, b: Value, factors: Value = None, *, relu: str) -> Value:
    """As above, rounded toward zero."""
    return lanes.concat([_to_fixed(lanes, x, e, relu, "rz") for x, e in zip((b, a), _exponents(lanes, factors), strict=True)])


@instruction(
    f"cvt.rz.satfinite.{{relu}}?.{_SCALED}.s2f6x2.bf16x2", d="out s2f6x2", a="in bf16x2", **_CUT,
    examples=[("cvt.rz.satfinite.scaled::n2::ue8m0.s2f6x2.bf16x2", (0x3F80BF81, 0x7E7F), (0x7FC0,))],
)  # fmt: skip
def cvt_fixed_of_halves_cut(lanes: Lanes, a: Value, factors: Value = None, *, relu: str) -> Value:
    """As above of the halves of a."""
    lower, upper = singles_of(lanes, "bf16x2", a)
    return cvt_fixed_cut(lanes, upper, lower, factors, relu=relu)


@instruction(
    f"cvt.rn.{{satfinite}}?.{{relu}}?.{_SCALED}.bf16x2.s2f6x2", d="out bf16x2", a="in s2f6x2", factors="{factors}", derive=_factors, since=(9, 1),
    sm=100, specific="a",
    examples=[
        ("cvt.rn.bf16x2.s2f6x2", (0x40C0,), (0x3F80BF80,)),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.s2f6x2", (0x0580, 0x85FE), (0x40A0FF7F,)),
        ("cvt.rn.relu.scaled::n2::ue8m0.bf16x2.s2f6x2", (0x01FF, 0x0000), (0x00010000,)),
    ],
)  # fmt: skip
def cvt_of_fixed(lanes: Lanes, a: Value, factors: Value = None, *, satfinite: str, relu: str) -> Value:
    """Each fixed-point number times its factor, to the half of its place."""
    numbers = [lanes.int_to_float(lanes.resize(half, 32, signed=True), True, "f64") for half in halves(lanes, a)]
    return lanes.concat(
        [to_bf16(lanes, x, e, -_FRACTION_BITS, satfinite, relu) for x, e in zip(numbers, _exponents(lanes, factors), strict=True)]
    )
