"""Fused multiply-add of f64 in all four roundings, on bit patterns.

Invariant: integers only, so the host's rounding mode, libm and FMA units do not matter. The sum is held in 128 bits, two uint64 limbs, whose lowest bit
is sticky; one rounding at the end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

U64 = np.uint64
Bits = NDArray[np.uint64]
Ints = NDArray[np.int64]

_SIGN, _INF, _QUIET, _DEFAULT_NAN = U64(1 << 63), U64(0x7FF << 52), U64(1 << 51), U64(0xFFF8 << 48)
_FRACTION = U64((1 << 52) - 1)
_LOW = U64(0xFFFFFFFF)


def fma64(a: Bits, b: Bits, c: Bits, rounding: str = "rn", order: str = "bca") -> Bits:
    """a * b + c on f64 bits, rounded once (``rn``, ``rz``, ``rm``, ``rp``), subnormals kept.

    A NaN operand gives itself, quieted, the first in ``order`` winning (the hardware's order is b, c, a); an invalid operation gives
    0xFFF8000000000000. Operands are uint64 arrays of one shape.
    """
    with np.errstate(all="ignore"):
        result = _finite(a, b, c, rounding)
        return _specials(a, b, c, order, result)


def _specials(a: Bits, b: Bits, c: Bits, order: str, result: Bits) -> Bits:
    magnitude = {"a": a & ~_SIGN, "b": b & ~_SIGN, "c": c & ~_SIGN}
    if not any((m >= _INF).any() for m in magnitude.values()):
        return result
    infinite_product = (magnitude["a"] == _INF) | (magnitude["b"] == _INF)
    zero_factor = (magnitude["a"] == 0) | (magnitude["b"] == 0)
    product_inf = ((a ^ b) & _SIGN) | _INF
    result = np.where(magnitude["c"] == _INF, c, result)
    clash = (magnitude["c"] == _INF) & (product_inf != c)
    result = np.where(infinite_product, np.where(zero_factor | clash, _DEFAULT_NAN, product_inf), result)
    for name, operand in sorted({"a": a, "b": b, "c": c}.items(), key=lambda item: -order.index(item[0])):
        result = np.where(magnitude[name] > _INF, operand | _QUIET, result)
    return result


def _split(x: Bits) -> tuple[Bits, Ints]:
    """Significand (53 bits, not normalised when subnormal) and the exponent of its lowest bit."""
    biased = ((x >> U64(52)) & U64(0x7FF)).astype(np.int64)
    fraction = x & _FRACTION
    return np.where(biased > 0, fraction | U64(1 << 52), fraction), np.maximum(biased, 1) - 1075


def _leading_zeros(x: Bits) -> Ints:
    """Leading zeros of 64 bits; 64 for 0."""
    count = np.full(x.shape, 0, dtype=np.int64)
    for width in (32, 16, 8, 4, 2, 1):
        empty = (x >> U64(64 - width)) == 0
        count += np.where(empty, width, 0)
        x = np.where(empty, x << U64(width), x)
    return np.where(x == 0, 64, count)


def _shift_left(high: Bits, low: Bits, amount: Ints) -> tuple[Bits, Bits]:
    """By 0 to 127."""
    big = amount >= 64
    high, low = np.where(big, low, high), np.where(big, U64(0), low)
    n = (amount & 63).astype(U64)
    carry = np.where(n == 0, U64(0), low >> ((U64(64) - n) & U64(63)))
    return (high << n) | carry, low << n


def _shift_right_sticky(high: Bits, low: Bits, amount: Ints) -> tuple[Bits, Bits]:
    """By any amount >= 0; bits shifted out are or-ed into the lowest bit."""
    amount = np.minimum(amount, 127)
    big = amount >= 64
    lost = np.where(big, low, U64(0))
    high, low = np.where(big, U64(0), high), np.where(big, high, low)
    n = (amount & 63).astype(U64)
    lost |= low & ((U64(1) << n) - U64(1))
    carry = np.where(n == 0, U64(0), high << ((U64(64) - n) & U64(63)))
    return high >> n, (low >> n) | carry | (lost != 0).astype(U64)


def _product(x: Bits, y: Bits) -> tuple[Bits, Bits]:
    x0, x1, y0, y1 = x & _LOW, x >> U64(32), y & _LOW, y >> U64(32)
    middle = x1 * y0 + ((x0 * y0) >> U64(32))
    middle2 = x0 * y1 + (middle & _LOW)
    return x1 * y1 + (middle >> U64(32)) + (middle2 >> U64(32)), x * y


def _normalise(high: Bits, low: Bits, exponent: Ints) -> tuple[Bits, Bits, Ints]:
    """Highest set bit to bit 125, leaving room for a carry; ``exponent`` is that of bit 0 of the value."""
    zeros = np.where(high != 0, _leading_zeros(high), 64 + _leading_zeros(low))
    up = zeros - 2
    left = _shift_left(high, low, np.clip(up, 0, 127))
    right = _shift_right_sticky(high, low, np.maximum(-up, 0))
    return np.where(up >= 0, left[0], right[0]), np.where(up >= 0, left[1], right[1]), exponent - up


def _finite(a: Bits, b: Bits, c: Bits, rounding: str) -> Bits:
    (a_sig, a_exp), (b_sig, b_exp), (c_sig, c_exp) = _split(a), _split(b), _split(c)
    product_sign, addend_sign = (a ^ b) & _SIGN, c & _SIGN
    p_high, p_low = _product(a_sig, b_sig)
    product_zero, addend_zero = (p_high | p_low) == 0, c_sig == 0
    p_high, p_low, p_exp = _normalise(p_high, p_low, a_exp + b_exp)
    c_high, c_low, c_exp = _normalise(np.zeros_like(c_sig), c_sig, c_exp)
    p_exp, c_exp = np.where(product_zero, -100000, p_exp), np.where(addend_zero, -100000, c_exp)
    exponent = np.maximum(p_exp, c_exp)
    p_high, p_low = _shift_right_sticky(p_high, p_low, exponent - p_exp)
    c_high, c_low = _shift_right_sticky(c_high, c_low, exponent - c_exp)
    # A sticky bit of a zero operand is none.
    same = product_sign == addend_sign
    p_larger = (p_high > c_high) | ((p_high == c_high) & (p_low >= c_low))
    big_high, big_low = np.where(p_larger, p_high, c_high), np.where(p_larger, p_low, c_low)
    small_high, small_low = np.where(p_larger, c_high, p_high), np.where(p_larger, c_low, p_low)
    sum_low, difference_low = big_low + small_low, big_low - small_low
    high = np.where(same, big_high + small_high + (sum_low < big_low), big_high - small_high - (big_low < small_low))
    low = np.where(same, sum_low, difference_low)
    zero = (high | low) == 0
    exact_zero_sign = np.where(same, product_sign, _SIGN if rounding == "rm" else U64(0))
    sign = np.where(zero, exact_zero_sign, np.where(p_larger, product_sign, addend_sign))
    return _round(sign, high, low, exponent, zero, rounding)


def _round(sign: Bits, high: Bits, low: Bits, exponent: Ints, zero: NDArray[np.bool_], rounding: str) -> Bits:
    high, low, exponent = _normalise(high, low, exponent)
    # Bit 125 is the leading one: 73 bits lie below a normal number's last place, more below a subnormal's.
    drop = np.maximum(73, -1074 - exponent)
    kept_high, kept_low = _shift_right_sticky(high, low, np.minimum(drop - 2, 126))  # two bits stay: half and sticky
    assert not kept_high.any()
    kept, rest = kept_low >> U64(2), kept_low & U64(3)
    negative = sign != 0
    up = {
        "rn": (rest == 3) | ((rest == 2) & (kept & U64(1) != 0)),
        "rz": np.zeros(kept.shape, dtype=bool),
        "rm": negative & (rest != 0),
        "rp": ~negative & (rest != 0),
    }[rounding]
    kept = kept + up.astype(U64)
    # The biased exponent field: a carry out of the significand raises it by itself.
    field = np.maximum(exponent + drop + 1075, 1) - 1
    bits = (field.astype(U64) << U64(52)) + kept
    to_infinity = {"rn": np.ones(kept.shape, dtype=bool), "rz": np.zeros(kept.shape, dtype=bool), "rm": negative, "rp": ~negative}[rounding]
    overflow = np.where(to_infinity, _INF, _INF - U64(1))
    bits = np.where((bits >= _INF) | (field >= 2046), overflow, bits)
    return np.where(zero, sign, sign | bits)
