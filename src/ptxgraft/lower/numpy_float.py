"""The float operations of ``Lanes`` on arrays of bits.

Invariant: every function is total, takes and gives unsigned arrays of the format's width, rounds once, and gives the GPU's NaNs
(f16, bf16, f32 canonical; f64 by operand order). Facts: numerics.md part I section 4.
"""

from __future__ import annotations

import numpy as np

from ptxgraft.lower.numpy_exact import (
    FORMATS,
    Bits,
    Floats,
    directed_by_error,
    flush,
    narrow,
    quotient_odd,
    root_odd,
    sum_odd,
    tiny,
    to_odd,
    two_product,
    two_sum,
    widen,
)
from ptxgraft.lower.numpy_fma import fma64
from ptxgraft.lower.numpy_slow import slow

_SMALLEST_NORMAL = np.float32(2.0**-126)

_INTEGRAL = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}
_ORDERED = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}


def _finish(fmt: str, v: Floats, rounding: str, ftz: bool) -> Bits:
    """v (exact or rounded to odd) into f16, bf16 or f32."""
    f = FORMATS[fmt]
    bits = narrow(fmt, v, rounding)
    if ftz:
        bits = np.where(tiny(fmt, v, rounding), bits & f.dtype(f.sign), bits)
    return np.where(np.isnan(v), f.dtype(f.nan), bits)


def _canonical32(r: Bits) -> Bits:
    """Bits of an f32 array with NaNs replaced by the GPU's."""
    return np.where(r != r, np.uint32(0x7FFFFFFF), r.view(np.uint32))


def _nan64(r: Floats, *order: Bits) -> Bits:
    """Bits of an f64 result; a NaN is the first NaN operand in ``order``, quieted, else the one of an invalid operation."""
    bits = r.view(np.uint64)
    nan = r != r
    if not nan.any():
        return bits
    chosen = np.full_like(bits, FORMATS["f64"].nan)
    for a in reversed(order):
        v = a.view(np.float64)
        chosen = np.where(v != v, a | np.uint64(FORMATS["f64"].quiet), chosen)
    return np.where(nan, chosen, bits)


def add(fmt: str, a: Bits, b: Bits, rounding: str, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _add64(a, b, rounding)
        if ftz:
            a, b = flush(fmt, a), flush(fmt, b)
        if rounding == "rn" and fmt == "f32":
            # A subnormal sum is exact, so that tiny before and after rounding are one.
            r = _canonical32(a.view(np.float32) + b.view(np.float32))
            return flush(fmt, r) if ftz else r
        return _finish(fmt, sum_odd(widen(fmt, a), widen(fmt, b), rounding), rounding, ftz)


def negate(fmt: str, a: Bits) -> Bits:
    """The sign bit flipped, NaNs too."""
    f = FORMATS[fmt]
    return a ^ f.dtype(f.sign)


def sub(fmt: str, a: Bits, b: Bits, rounding: str, ftz: bool) -> Bits:
    r = add(fmt, a, negate(fmt, b), rounding, ftz)
    if fmt != "f64":
        return r
    # A NaN that is taken away keeps its sign.
    return np.where(compare(fmt, "nan", b, b, False), b | np.uint64(FORMATS[fmt].quiet), r)


def mul(fmt: str, a: Bits, b: Bits, rounding: str, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _mul64(a, b, rounding)
        if ftz:
            a, b = flush(fmt, a), flush(fmt, b)
        elif rounding == "rn" and fmt == "f32":
            return _canonical32(a.view(np.float32) * b.view(np.float32))
        return _finish(fmt, widen(fmt, a) * widen(fmt, b), rounding, ftz)


def fma(fmt: str, a: Bits, b: Bits, c: Bits, rounding: str, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _fma64(a, b, c, rounding, "bca")
        if ftz:
            a, b, c = flush(fmt, a), flush(fmt, b), flush(fmt, c)
        elif rounding == "rn" and fmt == "f32":
            return _fma32(a, b, c)
        return _fma_odd(fmt, a, b, c, rounding, ftz)


def _fma_odd(fmt: str, a: Bits, b: Bits, c: Bits, rounding: str, ftz: bool) -> Bits:
    return _finish(fmt, sum_odd(widen(fmt, a) * widen(fmt, b), widen(fmt, c), rounding), rounding, ftz)


_HALFWAY, _BELOW_SINGLE = np.int64(1 << 28), np.int64((1 << 29) - 1)


def _fma32(a: Bits, b: Bits, c: Bits) -> Bits:
    """a * b + c of f32. Rounding the f64 sum once more is innocuous where it lies halfway between no two f32 and is not subnormal in f32; the other elements
    are done by rounding to odd."""
    total = a.view(np.float32).astype(np.float64) * b.view(np.float32) + c.view(np.float32)
    single = total.astype(np.float32)
    result = _canonical32(single)
    again = (total.view(np.int64) & _BELOW_SINGLE) == _HALFWAY
    again |= (np.abs(single) < _SMALLEST_NORMAL) & (total != 0)
    if again.any():
        places = np.nonzero(again)
        x, y, z = (np.broadcast_to(v, again.shape)[places] for v in (a, b, c))
        result[places] = _fma_odd("f32", x, y, z, "rn", False)
    return result


def div(fmt: str, a: Bits, b: Bits, rounding: str, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _div64(a, b, rounding)
        if ftz:
            a, b = flush(fmt, a), flush(fmt, b)
        elif rounding == "rn" and fmt == "f32":
            return _canonical32(a.view(np.float32) / b.view(np.float32))
        return _finish(fmt, quotient_odd(widen(fmt, a), widen(fmt, b)), rounding, ftz)


def sqrt(fmt: str, a: Bits, rounding: str, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _sqrt64(a, rounding)
        if ftz:
            a = flush(fmt, a)
        if rounding == "rn" and fmt == "f32":
            # A root is never tiny.
            return _canonical32(np.sqrt(a.view(np.float32)))
        return _finish(fmt, root_odd(widen(fmt, a)), rounding, ftz)


# -- binary64 ---------------------------------------------------------------------------------------------------------
_LARGE, _SMALL = 2.0**900, 2.0**-900


def _unsafe(*values: Floats) -> Bits:
    """Where a finite, nonzero value lies outside the range in which the transformations are error-free."""
    found = np.zeros((1, 1), dtype=bool)
    for v in values:
        size = np.abs(v)
        found = found | (size > _LARGE) | ((size < _SMALL) & (size != 0))
    return found


def _finite(*bits: Bits) -> Bits:
    exponent = np.uint64(0x7FF << 52)
    found = np.ones((1, 1), dtype=bool)
    for a in bits:
        found = found & ((a & exponent) != exponent)
    return found


_ONE, _SIGN = np.uint64(0x3FF << 52), np.uint64(1 << 63)


def _fma64(a: Bits, b: Bits, c: Bits, rounding: str, order: str) -> Bits:
    a, b, c = np.broadcast_arrays(a, b, c)
    return fma64(a, b, c, rounding, order)


def _add64(a: Bits, b: Bits, rounding: str) -> Bits:
    if rounding == "rn":
        return _nan64(a.view(np.float64) + b.view(np.float64), b, a)
    return _fma64(a, np.full_like(a, _ONE), b, rounding, "cab")


def _mul64(a: Bits, b: Bits, rounding: str) -> Bits:
    if rounding == "rn":
        return _nan64(a.view(np.float64) * b.view(np.float64), b, a)
    # An addend of zero with the product's sign changes no product.
    return _fma64(a, b, (a ^ b) & _SIGN, rounding, "bac")


def _div64(a: Bits, b: Bits, rounding: str) -> Bits:
    x, y = a.view(np.float64), b.view(np.float64)
    q = x / y
    if rounding == "rn":
        return _nan64(q, a, b)
    p, e = two_product(q, y)
    error = (x - p) - e
    r = directed_by_error(q, np.where(np.signbit(y), -error, error), rounding).view(np.uint64)
    hard = (_unsafe(x, y, q) | ((q == 0) & (x != 0))) & _finite(a, b) & (y != 0)
    return _nan64(slow("div", hard, r, (a, b), rounding).view(np.float64), a, b)


def _sqrt64(a: Bits, rounding: str) -> Bits:
    x = a.view(np.float64)
    s = np.sqrt(x)
    if rounding == "rn":
        return _nan64(s, a)
    p, e = two_product(s, s)
    r = directed_by_error(s, (x - p) - e, rounding).view(np.uint64)
    hard = _unsafe(x) & _finite(a) & (x > 0)
    return _nan64(slow("sqrt", hard, r, (a,), rounding).view(np.float64), a)


# -- comparison and conversion ----------------------------------------------------------------------------------------
def compare(fmt: str, op: str, a: Bits, b: Bits, ftz: bool) -> Bits:
    with np.errstate(all="ignore"):
        if ftz:
            a, b = flush(fmt, a), flush(fmt, b)
        if fmt == "f32":
            x, y = a.view(np.float32), b.view(np.float32)
        else:
            x, y = widen(fmt, a), widen(fmt, b)
        if op == "nan":
            return (x != x) | (y != y)
        if op == "ne":
            return (x < y) | (x > y)
        return _ORDERED[op](x, y)


def convert(source: str, target: str, a: Bits, rounding: str) -> Bits:
    with np.errstate(all="ignore"):
        if source == target:
            return a
        if source == "bf16" and target in ("f32", "f64"):
            # Hardware moves the bits up, NaNs and all.
            wide = a.astype(np.uint32) << np.uint32(16)
            return wide if target == "f32" else convert("f32", "f64", wide, rounding)
        if target == "f32":
            return _to_f32(source, a, rounding)
        if (source, target) == ("f16", "f64"):
            v = widen(source, a)
            return np.where(v != v, _moved_nan(a, "f16", "f64"), v.view(np.uint64))
        if target == "f64":
            single = _to_f32(source, a, rounding) if source != "f32" else a
            v = single.view(np.float32)
            quieted = (single & np.uint32(0x80000000)).astype(np.uint64) << np.uint64(32)
            quieted |= ((single & np.uint32(0x007FFFFF)).astype(np.uint64) << np.uint64(29)) | np.uint64(0x7FF8 << 48)
            return np.where(v != v, quieted, v.astype(np.float64).view(np.uint64))
        result = _finish(target, widen(source, a), rounding, False)
        if source == "f64":
            result = np.where(compare(source, "nan", a, a, False), _moved_nan(a, "f64", target), result)
        return result


def _moved_nan(a: Bits, source: str, target: str) -> Bits:
    """A NaN's sign and upper payload bits in another format, quieted: what conversions between f64 and 16 bits do."""
    f, t = FORMATS[source], FORMATS[target]
    shift = t.quiet.bit_length() - f.quiet.bit_length()
    wide = a.astype(np.uint64)
    payload = wide & np.uint64(2 * f.quiet - 1)
    payload = payload << np.uint64(shift) if shift > 0 else payload >> np.uint64(-shift)
    sign = np.where((wide & np.uint64(f.sign)) != 0, np.uint64(t.sign), np.uint64(0))
    return (sign | payload | np.uint64(t.exponent | t.quiet)).astype(t.dtype)


def _to_f32(source: str, a: Bits, rounding: str) -> Bits:
    v = widen(source, a)
    bits = narrow("f32", v, rounding)
    nan: Bits = np.full((1, 1), 0x7FFFFFFF, dtype=np.uint32)
    if source == "f64":
        # Sign and the upper payload bits survive, quieted.
        payload = ((a >> np.uint64(29)) & np.uint64(0x007FFFFF)).astype(np.uint32)
        nan = ((a >> np.uint64(32)).astype(np.uint32) & np.uint32(0x80000000)) | payload | np.uint32(0x7FC00000)
    return np.where(v != v, nan, bits)


def round_integral(fmt: str, a: Bits, mode: str) -> Bits:
    with np.errstate(all="ignore"):
        if fmt == "f64":
            return _nan64(_INTEGRAL[mode](a.view(np.float64)), a)
        # The integral neighbours of a value have no more bits than the value: no second rounding.
        return _finish(fmt, _INTEGRAL[mode](widen(fmt, a)), "rn", False)


def to_int(fmt: str, a: Bits, width: int, signed: bool, mode: str) -> Bits:
    """Saturating; the result has ``width`` bits (8, 16, 32 or 64)."""
    dtype = np.dtype(f"u{width // 8}").type
    with np.errstate(all="ignore"):
        v = widen(fmt, a)
        nan = v != v
        v = np.where(nan, 0.0, _INTEGRAL[mode](v))
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        below, above = v < low, v >= high
        inside = np.where(below | above, 0.0, v)
        # binary64 to uint64 in two halves: a direct conversion of 2**63 and more is not the same on every machine.
        upper = inside >= 2.0**63
        whole = np.where(upper, inside - 2.0**63, inside).astype(np.int64).view(np.uint64)
        whole = np.where(upper, whole ^ np.uint64(1 << 63), whole)
        whole = np.where(below, np.uint64(low & ((1 << 64) - 1)), np.where(above, np.uint64(high - 1), whole))
        if width == 64 or fmt == "f64":
            whole = np.where(nan, np.uint64(1 << (width - 1)), whole)
        return whole.astype(dtype)


def from_int(a: Bits, signed: bool, fmt: str, rounding: str) -> Bits:
    with np.errstate(all="ignore"):
        wide = (a.view(f"i{a.dtype.itemsize}").astype(np.int64).view(np.uint64)) if signed else a.astype(np.uint64)
        upper = wide >> np.uint64(32)
        high = (upper.astype(np.uint32).view(np.int32) if signed else upper).astype(np.float64) * 2.0**32
        low = (wide & np.uint64(0xFFFFFFFF)).astype(np.float64)
        s, e = two_sum(high, low)
        if fmt == "f64":
            return directed_by_error(s, e, rounding).view(np.uint64)
        return narrow(fmt, to_odd(s, e), rounding)
