"""Binary64 quotients and roots on Python integers, one element at a time: for the operands that error-free transformations cannot take.

Invariant: results are exact in the directed modes (rz, rm, rp; the machine itself rounds to nearest); operands are finite (divisors are not zero, radicands not negative).
"""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

_PRECISION, _EMIN, _EMAX = 53, -1074, 971


def _parts(bits: int) -> tuple[int, int]:
    """(signed significand, exponent) of finite binary64 bits."""
    exponent = (bits >> 52) & 0x7FF
    fraction = bits & ((1 << 52) - 1)
    value = fraction | (1 << 52) if exponent else fraction
    return (-value if bits >> 63 else value), max(exponent, 1) - 1075


def _round(value: int, exponent: int, rounding: str) -> int:
    """Bits of value * 2**exponent, value not zero. A value may carry a sticky lowest bit below the precision."""
    negative, size = value < 0, abs(value)
    quantum = max(exponent + size.bit_length() - _PRECISION, _EMIN)
    shift = quantum - exponent
    kept = size >> shift if shift > 0 else size << -shift
    away = rounding == ("rm" if negative else "rp")
    if away and shift > 0 and size & ((1 << shift) - 1):
        kept += 1
    if kept >> _PRECISION:
        kept, quantum = kept >> 1, quantum + 1
    sign = int(negative) << 63
    if quantum > _EMAX:
        return sign | (0x7FF << 52 if away else (0x7FF << 52) - 1)
    if kept >> (_PRECISION - 1):
        return sign | ((quantum + 1075) << 52) | (kept & ((1 << 52) - 1))
    return sign | kept


def _div(a: int, b: int, rounding: str) -> int:
    (x, ex), (y, ey) = _parts(a), _parts(b)
    if x == 0:
        return (a ^ b) & (1 << 63)
    shift = 2 * _PRECISION + 4
    quotient, remainder = divmod(abs(x) << shift, abs(y))
    value = (quotient << 1) | (remainder != 0)
    return _round(-value if (x < 0) != (y < 0) else value, ex - ey - shift - 1, rounding)


def _sqrt(a: int, rounding: str) -> int:
    x, e = _parts(a)
    if x == 0:
        return a
    shift = 2 * _PRECISION + 10 + (e & 1)
    root = isqrt(x << shift)
    value = (root << 1) | (root * root != x << shift)
    return _round(value, (e - shift) // 2 - 1, rounding)


SLOW: dict[str, Callable[..., int]] = {"div": _div, "sqrt": _sqrt}


def slow(operation: str, where: NDArray[Any], result: NDArray[Any], operands: tuple[NDArray[Any], ...], rounding: str) -> NDArray[Any]:
    """``result`` (uint64 bits) with the elements of ``where`` computed exactly; all arrays broadcast to its shape."""
    if not where.any():
        return result
    function = SLOW[operation]
    shape = np.broadcast_shapes(where.shape, result.shape)
    out = np.broadcast_to(result, shape).copy()
    chosen = np.broadcast_to(where, shape)
    columns = [np.broadcast_to(o, shape)[chosen].tolist() for o in operands]
    out[chosen] = [function(*row, rounding) for row in zip(*columns, strict=True)]
    return out
