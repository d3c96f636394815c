"""Arithmetic of sm_100: single precision with half operands, pairs of singles, and extremes of three (PTX ISA manual, "Mixed Precision
Floating Point Instructions"; "Floating Point Instructions": add, sub, mul, fma, min, max).

Invariant: a half operand is widened first, which is exact; one rounding follows. The two singles of a pair never meet.
"""

from __future__ import annotations

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import each
from ptxgraft.isa.table import instruction

MODES = "rn|rz|rm|rp"
ONE, TWO, THREE, MINUS_ONE, NAN = 0x3F800000, 0x40000000, 0x40400000, 0xBF800000, 0x7FFFFFFF


# -- halves into a single -------------------------------------------------------------------------------------------------
def add(lanes: Lanes, a: Value, c: Value, *, rounding: str, sat: str, type: str) -> Value:
    """d = a + c, a widened."""
    return floats.saturate(lanes, "f32", lanes.float_add("f32", lanes.float_convert(type, "f32", a), c, rounding or "rn"), sat)


def sub(lanes: Lanes, a: Value, c: Value, *, rounding: str, sat: str, type: str) -> Value:
    """d = a - c, a widened."""
    return floats.saturate(lanes, "f32", lanes.float_sub("f32", lanes.float_convert(type, "f32", a), c, rounding or "rn"), sat)


_SUMS = {
    "add": [("add.f32.f16", (0x3C00, TWO), (THREE,)), ("add.rz.f32.bf16", (0x3F80, 0x33800000), (ONE,)), ("add.sat.f32.f16", (0x3C00, TWO), (ONE,))],
    "sub": [("sub.f32.f16", (0x3C00, TWO), (MINUS_ONE,)), ("sub.rm.f32.bf16", (0x3F80, ONE), (0x80000000,)), ("sub.f32.f16", (0x7E00, ONE), (NAN,))],
}  # fmt: skip
for _root, _meaning in (("add", add), ("sub", sub)):
    instruction(
        f"{_root}.{{rounding:{MODES}}}?.{{sat}}?.f32.{{type:f16|bf16}}", d="out f32", a="in {type}", c="in f32", since=(8, 6), sm=100,
        examples=_SUMS[_root],
    )(_meaning)  # fmt: skip


@instruction(
    f"fma.{{rounding:{MODES}}}.{{sat}}?.f32.{{type:f16|bf16}}", d="out f32", a="in {type}", b="in {type}", c="in f32", since=(8, 6), sm=100,
    examples=[("fma.rn.f32.f16", (0x3C00, 0x4000, ONE), (THREE,)), ("fma.rz.sat.f32.bf16", (0x3F80, 0x4000, ONE), (ONE,))],
)  # fmt: skip
def fma(lanes: Lanes, a: Value, b: Value, c: Value, *, rounding: str, sat: str, type: str) -> Value:
    """d = a * b + c, a and b widened; rounded once."""
    a, b = lanes.float_convert(type, "f32", a), lanes.float_convert(type, "f32", b)
    return floats.saturate(lanes, "f32", lanes.float_fma("f32", a, b, c, rounding), sat)


# -- pairs ----------------------------------------------------------------------------------------------------------------
def add_pairs(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str) -> Value:
    """d = a + b, each single for itself."""
    return each(lanes, "f32x2", lambda x, y: lanes.float_add("f32", x, y, rounding or "rn", bool(ftz)), a, b)


def sub_pairs(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str) -> Value:
    """d = a - b, each single for itself."""
    return each(lanes, "f32x2", lambda x, y: lanes.float_sub("f32", x, y, rounding or "rn", bool(ftz)), a, b)


def mul_pairs(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str) -> Value:
    """d = a * b, each single for itself."""
    return each(lanes, "f32x2", lambda x, y: lanes.float_mul("f32", x, y, rounding or "rn", bool(ftz)), a, b)


_PAIRS = {
    "add": [("add.f32x2", (ONE | TWO << 32, TWO | 0x80000000 << 32), (THREE | TWO << 32,)), ("add.rn.ftz.f32x2", (1, 1 << 32), (0,))],
    "sub": [("sub.rz.f32x2", (ONE | TWO << 32, TWO | TWO << 32), (MINUS_ONE,))],
    "mul": [("mul.f32x2", (TWO | THREE << 32, THREE | NAN << 32), (0x40C00000 | NAN << 32,))],
}
for _root, _meaning in (("add", add_pairs), ("sub", sub_pairs), ("mul", mul_pairs)):
    instruction(
        f"{_root}.{{rounding:{MODES}}}?.{{ftz}}?.f32x2", d="out f32x2", a="in f32x2", b="in f32x2", since=(8, 6), sm=100,
        examples=_PAIRS[_root],
    )(_meaning)  # fmt: skip


@instruction(
    f"fma.{{rounding:{MODES}}}.{{ftz}}?.f32x2", d="out f32x2", a="in f32x2", b="in f32x2", c="in f32x2", since=(8, 6), sm=100,
    examples=[("fma.rn.f32x2", (ONE | TWO << 32, TWO | ONE << 32, ONE), (THREE | TWO << 32,))],
)  # fmt: skip
def fma_pairs(lanes: Lanes, a: Value, b: Value, c: Value, *, rounding: str, ftz: str) -> Value:
    """d = a * b + c, each single for itself."""
    return each(lanes, "f32x2", lambda x, y, z: lanes.float_fma("f32", x, y, z, rounding, bool(ftz)), a, b, c)


# -- extremes of three ----------------------------------------------------------------------------------------------------
def _extreme(lanes: Lanes, largest: bool, operands: tuple[Value, ...], ftz: str, nan: str, absolute: str) -> Value:
    a, b, c = (floats.magnitude(lanes, "f32", x) if absolute else x for x in operands)
    first = floats.extreme(lanes, "f32", largest, a, b, ftz, nan)
    return floats.extreme(lanes, "f32", largest, first, c, ftz, nan)


def min3(lanes: Lanes, a: Value, b: Value, c: Value, *, ftz: str, nan: str, absolute: str) -> Value:
    """d = the least of three; NaNs are left out, with .NaN one of them gives a NaN; abs: of their magnitudes."""
    return _extreme(lanes, False, (a, b, c), ftz, nan, absolute)


def max3(lanes: Lanes, a: Value, b: Value, c: Value, *, ftz: str, nan: str, absolute: str) -> Value:
    """d = the greatest of three; NaNs are left out, with .NaN one of them gives a NaN; abs: of their magnitudes."""
    return _extreme(lanes, True, (a, b, c), ftz, nan, absolute)


_EXTREMES = {
    "min": [
        ("min.f32", (TWO, MINUS_ONE, ONE), (MINUS_ONE,)), ("min.f32", (NAN, TWO, NAN), (TWO,)), ("min.NaN.f32", (TWO, ONE, NAN), (NAN,)),
        ("min.abs.f32", (TWO, MINUS_ONE, THREE), (ONE,)), ("min.ftz.f32", (0x80000001, 1, ONE), (0x80000000,)),
    ],
    "max": [
        ("max.f32", (TWO, MINUS_ONE, THREE), (THREE,)), ("max.f32", (0x80000000, 0, NAN), (0,)), ("max.NaN.f32", (NAN, ONE, ONE), (NAN,)),
        ("max.abs.f32", (ONE, 0xC0400000, TWO), (THREE,)),
    ],
}  # fmt: skip
for _root, _meaning in (("min", min3), ("max", max3)):
    instruction(
        f"{_root}.{{ftz}}?.{{nan:NaN}}?.{{absolute:abs}}?.f32", d="out f32", a="in f32", b="in f32", c="in f32", since=(8, 8), sm=100,
        examples=_EXTREMES[_root],
    )(_meaning)  # fmt: skip
