"""Float arithmetic on rational numbers, one element at a time: the oracle for the float operations of ``Lanes``.

Written from IEEE 754 and numerics.md part I section 4 alone; shares no code with the package.
"""

from __future__ import annotations

from fractions import Fraction
from math import isqrt

PARAMETERS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "f64": (11, 52)}
CANONICAL = {"f16": 0x7FFF, "bf16": 0x7FFF, "f32": 0x7FFFFFFF, "f64": 0xFFF8 << 48}
MODES = ("rn", "rz", "rm", "rp")


def width(fmt: str) -> int:
    return 1 + sum(PARAMETERS[fmt])


def kind(fmt: str, bits: int) -> str:
    """nan, inf, zero or number."""
    e, m = PARAMETERS[fmt]
    exponent, fraction = (bits >> m) & ((1 << e) - 1), bits & ((1 << m) - 1)
    if exponent == (1 << e) - 1:
        return "nan" if fraction else "inf"
    return "zero" if exponent == fraction == 0 else "number"


def sign(fmt: str, bits: int) -> int:
    return bits >> (width(fmt) - 1)


def value(fmt: str, bits: int) -> Fraction:
    e, m = PARAMETERS[fmt]
    exponent, fraction = (bits >> m) & ((1 << e) - 1), bits & ((1 << m) - 1)
    bias = (1 << (e - 1)) - 1
    size = Fraction(fraction if exponent == 0 else fraction + (1 << m)) * Fraction(2) ** (max(exponent, 1) - bias - m)
    return -size if sign(fmt, bits) else size


def infinity(fmt: str, negative: bool) -> int:
    e, m = PARAMETERS[fmt]
    return (int(negative) << (e + m)) | (((1 << e) - 1) << m)


def zero(fmt: str, negative: bool) -> int:
    return int(negative) << (width(fmt) - 1)


def _integer(x: Fraction, negative: bool, mode: str) -> int:
    """A non-negative rational rounded to an integer."""
    low = x.numerator // x.denominator
    rest = x - low
    if mode == "rn":
        up = rest > Fraction(1, 2) or (rest == Fraction(1, 2) and low & 1)
    else:
        up = rest > 0 and mode == ("rm" if negative else "rp")
    return low + bool(up)


def exponent_of(x: Fraction) -> int:
    """floor(log2(x)) of a positive rational."""
    guess = x.numerator.bit_length() - x.denominator.bit_length()
    return guess if Fraction(2) ** guess <= x else guess - 1


def round_to(fmt: str, x: Fraction, mode: str, ftz: bool = False) -> int:
    """Bits of a nonzero rational."""
    e, m = PARAMETERS[fmt]
    bias = (1 << (e - 1)) - 1
    negative, size = x < 0, abs(x)
    if ftz:
        unit = Fraction(2) ** (exponent_of(size) - m)
        if _integer(size / unit, negative, mode) * unit < Fraction(2) ** (1 - bias):
            return zero(fmt, negative)
    exponent = max(exponent_of(size), 1 - bias)
    unit = Fraction(2) ** (exponent - m)
    count = _integer(size / unit, negative, mode)
    # A count of 2**(m+1) carries into the exponent by itself.
    bits = count if exponent == 1 - bias else count + ((exponent + bias - 1) << m)
    if bits >= infinity(fmt, False):
        away = mode == "rn" or mode == ("rm" if negative else "rp")
        bits = infinity(fmt, False) - (not away)
    return bits | zero(fmt, negative)


def flushed(fmt: str, bits: int) -> int:
    _, m = PARAMETERS[fmt]
    e = PARAMETERS[fmt][0]
    return bits if (bits >> m) & ((1 << e) - 1) else zero(fmt, bool(sign(fmt, bits)))


def nan_of(fmt: str, *order: int) -> int | None:
    """The NaN that an operation with a NaN among its operands gives, or None when there is none."""
    for bits in order:
        if kind(fmt, bits) == "nan":
            return bits | (1 << (PARAMETERS[fmt][1] - 1)) if fmt == "f64" else CANONICAL[fmt]
    return None


def fma(fmt: str, a: int, b: int, c: int, mode: str, ftz: bool = False, order: str = "bca") -> int:
    if ftz:
        a, b, c = (flushed(fmt, v) for v in (a, b, c))
    nan = nan_of(fmt, *({"a": a, "b": b, "c": c}[n] for n in order))
    if nan is not None:
        return nan
    kinds = [kind(fmt, v) for v in (a, b, c)]
    product_sign = sign(fmt, a) ^ sign(fmt, b)
    if "inf" in kinds[:2]:
        if "zero" in kinds[:2] or (kinds[2] == "inf" and sign(fmt, c) != product_sign):
            return CANONICAL[fmt]
        return infinity(fmt, bool(product_sign))
    if kinds[2] == "inf":
        return c
    exact = value(fmt, a) * value(fmt, b) + value(fmt, c)
    if exact == 0:
        signs = (product_sign, sign(fmt, c))
        return zero(fmt, signs == (1, 1) or (mode == "rm" and signs != (0, 0)))
    return round_to(fmt, exact, mode, ftz)


def one(fmt: str) -> int:
    e, m = PARAMETERS[fmt]
    return ((1 << (e - 1)) - 1) << m


def add(fmt: str, a: int, b: int, mode: str, ftz: bool = False) -> int:
    return fma(fmt, a, one(fmt), b, mode, ftz, "ca")


def mul(fmt: str, a: int, b: int, mode: str, ftz: bool = False) -> int:
    negative = sign(fmt, a) ^ sign(fmt, b)
    return fma(fmt, a, b, zero(fmt, bool(negative)), mode, ftz, "ba")


def div(fmt: str, a: int, b: int, mode: str, ftz: bool = False) -> int:
    if ftz:
        a, b = flushed(fmt, a), flushed(fmt, b)
    nan = nan_of(fmt, a, b)
    if nan is not None:
        return nan
    kinds, negative = (kind(fmt, a), kind(fmt, b)), bool(sign(fmt, a) ^ sign(fmt, b))
    if kinds in (("inf", "inf"), ("zero", "zero")):
        return CANONICAL[fmt]
    if kinds[0] == "inf" or kinds[1] == "zero":
        return infinity(fmt, negative)
    if kinds[0] == "zero" or kinds[1] == "inf":
        return zero(fmt, negative)
    return round_to(fmt, value(fmt, a) / value(fmt, b), mode, ftz)


def sqrt(fmt: str, a: int, mode: str, ftz: bool = False) -> int:
    if ftz:
        a = flushed(fmt, a)
    nan = nan_of(fmt, a)
    if nan is not None:
        return nan
    if kind(fmt, a) == "zero":
        return a
    if sign(fmt, a):
        return CANONICAL[fmt]
    if kind(fmt, a) == "inf":
        return a
    # Far more bits than any format has, and a sticky bit below them.
    x = value(fmt, a) * 4**700
    assert x.denominator == 1
    shifted = x.numerator << 400
    root = isqrt(shifted)
    exact = root * root == shifted
    return round_to(fmt, Fraction(2 * root + (not exact), 2) / Fraction(2) ** 900, mode, ftz)


def convert(source: str, target: str, a: int, mode: str) -> int:
    """Numbers and infinities (NaN rules differ by pair and are tested by value)."""
    k = kind(source, a)
    negative = bool(sign(source, a))
    if k == "inf":
        return infinity(target, negative)
    if k == "zero":
        return zero(target, negative)
    return round_to(target, value(source, a), mode)


def integral(fmt: str, a: int, mode: str) -> int | None:
    """The integer that a rounds to by rni, rzi, rmi or rpi; None for NaN, and for an infinity a number beyond any integer type."""
    k = kind(fmt, a)
    if k == "nan":
        return None
    negative = bool(sign(fmt, a))
    if k == "inf":
        return -(1 << 70) if negative else 1 << 70
    size = _integer(abs(value(fmt, a)), negative, mode[:2])
    return -size if negative else size
