"""Exact results on arrays of binary64: error-free transformations, rounding to odd, and the last rounding into a format.

Invariant: a value handed from one function to the next is either exact or rounded to odd with at least two bits to spare, so that the
one rounding into the target format is the only one. Callers silence NumPy's warnings (``np.errstate``).
Sources: Dekker 1971 (product), Knuth TAOCP 4.2.2 (sum), Boldo and Melquiond 2008 (rounding to odd, fused multiply-add).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.floats import FORMATS as BITS

Bits = NDArray[Any]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format on arrays: storage ``dtype``, precision in bits (hidden bit included), smallest normal exponent, and its masks."""

    dtype: Any
    precision: int
    emin: int
    sign: int
    exponent: int
    quiet: int
    nan: int


def _format(name: str, dtype: Any, precision: int, emin: int) -> Format:
    bits = BITS[name]
    return Format(dtype, precision, emin, bits.sign, bits.exponent, bits.quiet, bits.nan)


FORMATS: dict[str, Format] = {
    "f16": _format("f16", np.uint16, 11, -14),
    "bf16": _format("bf16", np.uint16, 8, -126),
    "f32": _format("f32", np.uint32, 24, -126),
    "f64": _format("f64", np.uint64, 53, -1022),
}
"""Formats by PTX name. ``nan`` of f64 is the one made by an invalid operation without a NaN operand."""


def widen(fmt: str, a: Bits) -> Floats:
    """The values of f16, bf16 or f32 bits, exactly."""
    if fmt == "f32":
        return a.view(np.float32).astype(np.float64)
    if fmt == "f16":
        return a.view(np.float16).astype(np.float64)
    if fmt == "bf16":
        return (a.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return a.view(np.float64)


def flush(fmt: str, a: Bits) -> Bits:
    """Subnormals to zero of the same sign."""
    f = FORMATS[fmt]
    return np.where((a & f.dtype(f.exponent)) == 0, a & f.dtype(f.sign), a)


def two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """``(s, e)`` with s = RN(a + b) and s + e = a + b; e is NaN where s is not finite."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


_SPLIT = np.float64(134217729.0)


def two_product(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """``(p, e)`` with p = RN(a * b) and p + e = a * b; needs |a|, |b| < 2**990 and |p| above 2**-900 or zero."""
    p = a * b
    t = _SPLIT * a
    a1 = t - (t - a)
    a2 = a - a1
    t = _SPLIT * b
    b1 = t - (t - b)
    b2 = b - b1
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


def to_odd(s: Floats, e: Floats) -> Floats:
    """s + e rounded to odd, for s = RN(s + e). Where e is NaN, s."""
    bits = s.view(np.uint64)
    outward = (e > 0) == (s > 0)
    fix = (np.abs(e) > 0) & ((bits & np.uint64(1)) == 0)
    moved = np.where(outward, bits + np.uint64(1), bits - np.uint64(1))
    return np.where(fix, moved, bits).view(np.float64)


def sum_odd(a: Floats, b: Floats, rounding: str) -> Floats:
    """a + b rounded to odd; an exact zero has the sign that ``rounding`` gives it."""
    v = to_odd(*two_sum(a, b))
    if rounding == "rm":
        v = np.where(v == 0, np.where(np.signbit(a) | np.signbit(b), -0.0, 0.0), v)
    return v


def _mask_low(v: Floats, bits: int) -> Floats:
    return (v.view(np.uint64) & np.uint64(~((1 << bits) - 1) & 0xFFFFFFFFFFFFFFFF)).view(np.float64)


def quotient_odd(a: Floats, b: Floats) -> Floats:
    """a / b rounded to odd at 53 bits, for a and b of 24 bits within the range of f32."""
    q = _mask_low(a / b, 24)
    # 29 by 24 bits: the product is exact, and so is the remainder, whose sign says on which side of q the quotient lies.
    r = a - q * b
    bits = q.view(np.uint64)
    outward = (r > 0) == (a > 0)
    return np.where(np.abs(r) > 0, np.where(outward, bits + np.uint64(1), bits - np.uint64(1)), bits).view(np.float64)


def root_odd(a: Floats) -> Floats:
    """The square root rounded to odd at 53 bits, for a of 24 bits within the range of f32."""
    s = _mask_low(np.sqrt(a), 27)
    r = a - s * s
    bits = s.view(np.uint64)
    return np.where(np.abs(r) > 0, np.where(r > 0, bits + np.uint64(1), bits - np.uint64(1)), bits).view(np.float64)


def _odd_f32(v: Floats) -> Bits:
    """v rounded to odd into f32, as bits."""
    y = v.astype(np.float32)
    bits = y.view(np.uint32)
    wide = y.astype(np.float64)
    inexact = wide != v
    towards_zero = np.where(np.abs(wide) > np.abs(v), bits - np.uint32(1), bits)
    return np.where(inexact, towards_zero | np.uint32(1), bits)


def narrow(fmt: str, v: Floats, rounding: str) -> Bits:
    """v (exact, or rounded to odd) rounded once into f16, bf16 or f32; overflow by rounding mode. NaNs give any NaN."""
    if fmt == "f32":
        y = v.astype(np.float32)
        bits = y.view(np.uint32)
        wide = y
    elif fmt == "f16":
        wide = _odd_f32(v).view(np.float32).astype(np.float16)
        bits = wide.view(np.uint16)
    else:
        odd = _odd_f32(v)
        kept = (odd + np.uint32(0x7FFF) + ((odd >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
        bits = kept.astype(np.uint16)
        wide = (kept << np.uint32(16)).view(np.float32)
    if rounding == "rn":
        return bits
    size, have = np.abs(v), np.abs(wide.astype(np.float64))
    return _directed(bits, np.signbit(v), have > size, have < size, rounding)


def _directed(bits: Bits, negative: Bits, too_big: Bits, too_small: Bits, rounding: str) -> Bits:
    """Mend a result rounded to nearest: one step in magnitude where the mode asks for the other neighbour."""
    one = bits.dtype.type(1)
    if rounding == "rz":
        return np.where(too_big, bits - one, bits)
    outward = negative if rounding == "rm" else ~negative
    return np.where(outward & too_small, bits + one, np.where(~outward & too_big, bits - one, bits))


def directed_by_error(s: Floats, e: Floats, rounding: str) -> Floats:
    """s + e rounded as ``rounding`` says, for s = RN(s + e) (only the sign of e counts)."""
    if rounding == "rn":
        return s
    inexact = np.abs(e) > 0
    too_big = inexact & ((e < 0) == (s > 0))
    return _directed(s.view(np.uint64), np.signbit(s), too_big, inexact & ~too_big, rounding).view(np.float64)


def tiny(fmt: str, v: Floats, rounding: str) -> Bits:
    """Is v, rounded to the format's precision with an unbounded exponent, below the smallest normal number?"""
    f = FORMATS[fmt]
    size, normal = np.abs(v), 2.0**f.emin
    step = 2.0 ** (f.emin - f.precision)
    if rounding == "rn":
        return size < normal - step / 2
    if rounding == "rz":
        return size < normal
    away = np.signbit(v) if rounding == "rm" else ~np.signbit(v)
    return np.where(away, size <= normal - step, size < normal)
