"""Conversions to narrower floats with the options of sm_107 (PTX ISA manual, "cvt": ``.pzo``, ``.rz``, ``.scaled::n1::ue8m0``, ``.ue5m3x2``).

Invariant: one rounding of the exact quotient by the factor, an exponent of eight bits in a byte (127 is 1, 0xFF a NaN), for which subnormal operands
count as zero. ``pzo`` turns a result of -0 into +0. ue5m3 has no sign: as of ue8m0, it is left out. No machine of ours has these instructions: they
are by the manual alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptxgraft.isa import floats
from ptxgraft.isa.families.convert import cvt_half, cvt_halves, cvt_tf32
from ptxgraft.isa.families.narrow import HALF, NAN, ONE, cvt_tf32_finite
from ptxgraft.isa.families.scaled import to_bf16
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.small_floats import SMALL, from_double, to_single
from ptxgraft.isa.table import instruction

_SINCE: dict[str, Any] = {"since": (9, 4), "sm": 107, "specific": "f"}
_SMALL = "e4m3x2|e5m2x2|e2m3x2|e3m2x2|e2m1x2"
_SCALED = "{scaled:scaled::n1::ue8m0}?"
MINUS_ZERO, TINY = 0x80000000, 0x80000001


# -- no negative zero -----------------------------------------------------------------------------------------------------
def _positive_zero(lanes: Lanes, a: Value, width: int) -> Value:
    """``a`` (its lowest ``width`` bits are a float), where it is -0 +0."""
    minus = lanes.const(1 << (width - 1), lanes.width(a))
    return lanes.select(lanes.compare("eq", a, minus), lanes.const(0, lanes.width(a)), a)


_HEAD = "cvt.{rounding:rn|rz}.{relu}?.{satfinite}?.pzo"


@instruction(
    f"{_HEAD}.{{dtype:f16|bf16}}.f32", d="out {dtype}", a="in f32",
    examples=[
        ("cvt.rn.pzo.f16.f32", (MINUS_ZERO,), (0,)),
        ("cvt.rn.pzo.f16.f32", (TINY,), (0,)),
        ("cvt.rz.pzo.bf16.f32", (0xBF80FFFF,), (0xBF80,)),
        ("cvt.rn.relu.satfinite.pzo.f16.f32", (0x7F800000,), (0x7BFF,)),
    ],
    **_SINCE,
)  # fmt: skip
def cvt_half_positive(lanes: Lanes, a: Value, *, rounding: str, relu: str, satfinite: str, dtype: str) -> Value:
    """d = a rounded, without -0."""
    return _positive_zero(lanes, cvt_half(lanes, a, rounding=rounding, relu=relu, satfinite=satfinite, dtype=dtype), 16)


@instruction(
    f"{_HEAD}.{{dtype:f16x2|bf16x2}}.f32", d="out {dtype}", a="in f32", b="in f32",
    examples=[("cvt.rn.pzo.f16x2.f32", (MINUS_ZERO, 0xBF800000), (0x0000BC00,)), ("cvt.rz.satfinite.pzo.bf16x2.f32", (TINY, 0xFF800000), (0x0000FF7F,))],
    **_SINCE,
)  # fmt: skip
def cvt_halves_positive(lanes: Lanes, a: Value, b: Value, *, rounding: str, relu: str, satfinite: str, dtype: str) -> Value:
    """The upper half of d = a rounded, the lower half = b rounded, without -0."""
    both = cvt_halves(lanes, a, b, rounding=rounding, relu=relu, satfinite=satfinite, dtype=dtype)
    return lanes.concat([_positive_zero(lanes, half, 16) for half in halves(lanes, both)])


@instruction(
    f"{_HEAD}.tf32.f32", d="out b32", a="in f32",
    examples=[("cvt.rn.pzo.tf32.f32", (MINUS_ZERO,), (0,)), ("cvt.rz.satfinite.pzo.tf32.f32", (TINY,), (0,)), ("cvt.rn.pzo.tf32.f32", (0xBF803000,), (0xBF804000,))],
    **_SINCE,
)  # fmt: skip
def cvt_tf32_positive(lanes: Lanes, a: Value, *, rounding: str, relu: str, satfinite: str) -> Value:
    """d = a to ten fraction bits, without -0."""
    convert = cvt_tf32_finite if satfinite else cvt_tf32
    return _positive_zero(lanes, convert(lanes, a, rounding=rounding, relu=relu), 32)


# -- small floats ---------------------------------------------------------------------------------------------------------
def _doubles(lanes: Lanes, type: str, operands: Sequence[Value], factor: Value | None) -> list[Value]:
    """The operands (two f32, the second is the lower; or the halves of one) over the factor as f64, the lower first: exact."""
    fmt = type.removesuffix("x2")
    values = list(reversed(operands)) if fmt == "f32" else list(halves(lanes, operands[0]))
    if factor is None:
        return [lanes.float_convert(fmt, "f64", v) for v in values]
    exponent = lanes.resize(factor, 64)
    power = lanes.shift_left(lanes.sub(lanes.const(1023 + 127, 64), exponent), lanes.const(52, 32))
    nan = lanes.compare("eq", exponent, lanes.const(0xFF, 64))
    power = lanes.select(nan, lanes.const(floats.FORMATS["f64"].nan, 64), power)
    return [lanes.float_mul("f64", lanes.float_convert(fmt, "f64", floats.flush(lanes, fmt, v)), power) for v in values]


def _packed(lanes: Lanes, name: str, codes: Sequence[Value]) -> Value:
    """Two codes, the lower first: of four bits in a byte, else a byte each."""
    if SMALL[name].bits > 4:
        return lanes.concat(codes)
    return lanes.or_(codes[0], lanes.shift_left(codes[1], lanes.const(4, 32)))


def _converted(
    lanes: Lanes, dtype: str, type: str, operands: Sequence[Value], factor: Value | None, rounding: str, relu: str, finite: bool, pzo: str
) -> Value:
    name = dtype.removesuffix("x2")
    codes = [from_double(lanes, name, v, relu, rounding, finite) for v in _doubles(lanes, type, operands, factor)]
    if pzo:
        codes = [_positive_zero(lanes, code, SMALL[name].bits) for code in codes]
    return _packed(lanes, name, codes)


def _factor(scaled: str, **rest: str) -> Mapping[str, str]:
    return {"factor": "in b8" if scaled else ""}


def _new(rounding: str, pzo: str, scaled: str, **rest: str) -> bool:
    """What is neither is older."""
    return bool(rounding == "rz" or pzo or scaled)


_TO_SMALL = f"cvt.{{rounding:rn|rz}}.satfinite.{{relu}}?.{{pzo}}?.{_SCALED}.{{dtype:{_SMALL}}}"
_DECLARED: dict[str, Any] = {"derive": _factor, "legal": _new, **_SINCE}


@instruction(
    f"{_TO_SMALL}.f32", d="out {dtype}", a="in f32", b="in f32", factor="{factor}",
    examples=[
        ("cvt.rz.satfinite.e4m3x2.f32", (0x3FFFFFFF, 0x7F800000), (0x3F7E,)),
        ("cvt.rz.satfinite.e5m2x2.f32", (NAN, 0xFF7FFFFF), (0x7FFB,)),
        ("cvt.rn.satfinite.pzo.e2m1x2.f32", (MINUS_ZERO, 0xBE000000), (0x00,)),
        ("cvt.rz.satfinite.e2m1x2.f32", (MINUS_ZERO, 0x40FFFFFF), (0x87,)),
        ("cvt.rn.satfinite.scaled::n1::ue8m0.e4m3x2.f32", (0x40000000, HALF, 0x80), (0x3828,)),
        ("cvt.rn.satfinite.relu.scaled::n1::ue8m0.e3m2x2.f32", (0xBF800000, 0x007FFFFF, 0x00), (0x0000,)),
        ("cvt.rz.satfinite.pzo.scaled::n1::ue8m0.e4m3x2.f32", (ONE, TINY, 0xFF), (0x7F7F,)),
    ],
    **_DECLARED,
)  # fmt: skip
def cvt_small(lanes: Lanes, a: Value, b: Value, factor: Value = None, *, rounding: str, relu: str, pzo: str, dtype: str) -> Value:
    """d = a and b, over the factor, in the small format; beyond its range the largest number."""
    return _converted(lanes, dtype, "f32", (a, b), factor, rounding, relu, True, pzo)


@instruction(
    f"{_TO_SMALL}.{{type:f16x2|bf16x2}}", d="out {dtype}", a="in {type}", factor="{factor}",
    examples=[
        ("cvt.rz.satfinite.e4m3x2.f16x2", (0x3FFFFC00,), (0x3FFE,)),
        ("cvt.rn.satfinite.pzo.e2m3x2.bf16x2", (0x80003F80,), (0x0008,)),
        ("cvt.rn.satfinite.scaled::n1::ue8m0.e5m2x2.f16x2", (0x3C0083FF, 0x7E), (0x4080,)),
    ],
    **_DECLARED,
)  # fmt: skip
def cvt_small_of_halves(
    lanes: Lanes, a: Value, factor: Value = None, *, rounding: str, relu: str, pzo: str, dtype: str, type: str
) -> Value:
    """As above of the halves of a."""
    return _converted(lanes, dtype, type, (a,), factor, rounding, relu, True, pzo)


# -- ue5m3 ----------------------------------------------------------------------------------------------------------------
def _nearest_or_toward(rounding: str, scaled: str, **rest: str) -> bool:
    return not (scaled and rounding == "rp")


_TO_UNSIGNED: dict[str, Any] = {"factor": "{factor}", "derive": _factor, "legal": _nearest_or_toward, **_SINCE}


@instruction(
    f"cvt.{{rounding:rn|rz|rp}}.{{satfinite}}?.{_SCALED}.{{dtype:ue5m3x2}}.f32", d="out {dtype}", a="in f32", b="in f32",
    examples=[
        ("cvt.rn.ue5m3x2.f32", (ONE, 0xBF880000), (0x7878,)),
        ("cvt.rp.ue5m3x2.f32", (0x3F800001, 0x00000001), (0x7901,)),
        ("cvt.rz.ue5m3x2.f32", (0x3F8FFFFF, 0x7F7FFFFF), (0x78FE,)),
        ("cvt.rn.ue5m3x2.f32", (0x47F00000, 0x47E80001), (0xFFFF,)),
        ("cvt.rn.satfinite.ue5m3x2.f32", (0xFF800000, NAN), (0xFEFF,)),
        ("cvt.rz.satfinite.scaled::n1::ue8m0.ue5m3x2.f32", (ONE, 0x40000000, 0x7E), (0x8088,)),
    ],
    **_TO_UNSIGNED,
)  # fmt: skip
def cvt_unsigned(lanes: Lanes, a: Value, b: Value, factor: Value = None, *, rounding: str, satfinite: str, dtype: str) -> Value:
    """d = a and b, over the factor, in the format without a sign, in which what is too large is a NaN, with satfinite the largest number."""
    return _converted(lanes, dtype, "f32", (a, b), factor, rounding, "", bool(satfinite), "")


@instruction(
    f"cvt.{{rounding:rn|rz|rp}}.{{satfinite}}?.{_SCALED}.{{dtype:ue5m3x2}}.{{type:f16x2|bf16x2}}", d="out {dtype}", a="in {type}",
    examples=[
        ("cvt.rn.ue5m3x2.f16x2", (0x3C007C00,), (0x78FF,)),
        ("cvt.rp.satfinite.ue5m3x2.bf16x2", (0x3F817F80,), (0x79FE,)),
        ("cvt.rn.scaled::n1::ue8m0.ue5m3x2.bf16x2", (0x3F804000, 0x80), (0x7078,)),
    ],
    **_TO_UNSIGNED,
)  # fmt: skip
def cvt_unsigned_of_halves(lanes: Lanes, a: Value, factor: Value = None, *, rounding: str, satfinite: str, dtype: str, type: str) -> Value:
    """As above of the halves of a."""
    return _converted(lanes, dtype, type, (a,), factor, rounding, "", bool(satfinite), "")


@instruction(
    "cvt.rn.f16x2.ue5m3x2", d="out f16x2", a="in ue5m3x2",
    examples=[("cvt.rn.f16x2.ue5m3x2", (0x7801,), (0x3C000080,)), ("cvt.rn.f16x2.ue5m3x2", (0xFEFF,), (0x7C007FFF,))],
    **_SINCE,
)  # fmt: skip
def cvt_halves_of_unsigned(lanes: Lanes, a: Value) -> Value:
    """Each byte of a to the half of its place; from 65536 on it is infinity."""
    return lanes.concat([lanes.float_convert("f32", "f16", to_single(lanes, "ue5m3", byte)) for byte in halves(lanes, a)])


def _factors(scaled: str, **rest: str) -> Mapping[str, str]:
    return {"factors": "in b16" if scaled else ""}


@instruction(
    "cvt.rn.{satfinite}?.{scaled:scaled::n2::ue8m0}?.bf16x2.ue5m3x2", d="out bf16x2", a="in ue5m3x2", factors="{factors}", derive=_factors,
    examples=[
        ("cvt.rn.bf16x2.ue5m3x2", (0x78FE,), (0x3F8047E0,)),
        ("cvt.rn.scaled::n2::ue8m0.bf16x2.ue5m3x2", (0x7878, 0x80FF), (0x40007FFF,)),
        ("cvt.rn.satfinite.scaled::n2::ue8m0.bf16x2.ue5m3x2", (0xFE01, 0xFE7F), (0x7F7F3700,)),
    ],
    **_SINCE,
)  # fmt: skip
def cvt_bf16_of_unsigned(lanes: Lanes, a: Value, factors: Value = None, *, satfinite: str) -> Value:
    """Each byte of a times its factor, to the half of its place."""
    elements = [lanes.float_convert("f32", "f64", to_single(lanes, "ue5m3", byte)) for byte in halves(lanes, a)]
    exponents = [lanes.const(127, 64)] * 2 if factors is None else [lanes.resize(half, 64) for half in halves(lanes, factors)]
    return lanes.concat([to_bf16(lanes, x, e, 0, satfinite, "") for x, e in zip(elements, exponents, strict=True)])
