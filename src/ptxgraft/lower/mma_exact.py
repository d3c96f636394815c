"""Exact sums of products, rounded once: a long fixed-point accumulator, and its form in NumPy.

Invariant: a term is a double of at most 24 significant bits. The accumulator's digits are 32 bits wide and lie in 64-bit words, so that every term is one addition
to one word, and 64 of them with C never overflow it. Both engines use the same ``Accumulator``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.numerics import MIN_EXPONENT, MmaPlan

Floats = NDArray[np.float64]

TERM_BITS = 24
_FRACTION_BITS = {"f16": 10, "bf16": 7, "tf32": 10, "e4m3": 3, "e5m2": 2, "e3m2": 2, "e2m3": 3, "e2m1": 1, "f32": 23}
_MAX_EXPONENT = {"f16": 15, "bf16": 127, "tf32": 127, "e4m3": 8, "e5m2": 15, "e3m2": 4, "e2m3": 2, "e2m1": 2, "f32": 127}
_SCALE_EXPONENTS = {"": (0, 0), "ue8m0": (-127, 127), "ue4m3": (-9, 8)}
_SPARE = 64
"""Bits of zero below the lowest term: a result's leading digits are three, wherever they lie."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """Digit j counts 2^(``low`` + 32 j). A term of exponent e, read as an integer of 24 bits, belongs at bit e - 23 - low."""

    low: int
    digits: int


@cache
def accumulator(plan: MmaPlan) -> Accumulator:
    """The accumulator that holds every sum of a plan of kind ``exact``."""
    lowest, highest = 0, 0
    for element in (plan.a, plan.b):
        least, most = _SCALE_EXPONENTS[plan.scale]
        lowest += MIN_EXPONENT[element] - _FRACTION_BITS[element] + least
        highest += _MAX_EXPONENT[element] + 1 + most
    lowest = min(lowest, MIN_EXPONENT[plan.c] - _FRACTION_BITS[plan.c])
    highest = max(highest, _MAX_EXPONENT[plan.c] + 1)
    low = lowest - (TERM_BITS - 1) - _SPARE
    # The sum of 65 terms has seven bits more than the largest; one for the sign.
    return Accumulator(low, (highest + 8 - low) // 32 + 1)


def exact_sum(found: Accumulator, terms: Iterable[Floats]) -> Floats:
    """The sum of finite terms of one shape, rounded to odd in binary64 (or exact where that is possible); never -0."""
    words: NDArray[np.int64] | None = None
    shape: tuple[int, ...] = ()
    for term in terms:
        if words is None:
            shape = term.shape
            words = np.zeros((found.digits, term.size), np.int64)
        bits = np.ascontiguousarray(term).view(np.int64).reshape(-1)
        biased = (bits >> 52) & 0x7FF
        significand = ((bits & ((1 << 52) - 1)) | (1 << 52)) >> (53 - TERM_BITS)
        place = np.where(biased == 0, 0, biased - 1023 - (TERM_BITS - 1) - found.low)
        value = np.where(biased == 0, 0, significand << (place & 31))
        words[place >> 5, np.arange(len(bits))] += np.where(bits < 0, -value, value)
    assert words is not None, "a sum has terms"
    negative = _carry(words) < 0
    if negative.any():
        words = np.where(negative, -words, words)
        _carry(words)
    return _leading(found, words, negative).reshape(shape)


def _carry(words: NDArray[np.int64]) -> NDArray[np.int64]:
    """Bring every digit into 0 .. 2^32 - 1, in place; what is left above the highest one (0, or -1 of a negative number) is returned."""
    carry = np.zeros_like(words[0])
    for digit in words:
        digit += carry
        carry = digit >> 32
        digit &= 0xFFFFFFFF
    return carry


def _leading(found: Accumulator, words: NDArray[np.int64], negative: NDArray[np.bool_]) -> Floats:
    """The number of the digits, which are those of its magnitude, rounded to odd."""
    top = np.zeros_like(words[0])
    for j in range(2, found.digits):
        top = np.where(words[j] != 0, j, top)
    top = np.maximum(top, 2)
    first, second, third = (np.take_along_axis(words, (top - i)[None], axis=0)[0] for i in range(3))
    below = np.logical_or.accumulate(words != 0, axis=0)
    rest = np.take_along_axis(below, np.maximum(top - 3, 0)[None], axis=0)[0] & (top > 2)
    zeros = 32 - np.frexp(first.astype(np.float64))[1]
    joined = (first.astype(np.uint64) << np.uint64(32)) | second.astype(np.uint64)
    moved = (joined << zeros.astype(np.uint64)) | (third.astype(np.uint64) >> (32 - zeros).astype(np.uint64))
    lost = ((third << zeros) & 0xFFFFFFFF) != 0
    sticky = rest | lost | ((moved & np.uint64(0x7FF)) != 0)
    significand = (moved >> np.uint64(11)) | sticky.astype(np.uint64)
    exponent = (32 * top + 31 - zeros + found.low + 1023).astype(np.uint64)
    bits = (exponent << np.uint64(52)) | (significand & np.uint64((1 << 52) - 1)) | (negative.astype(np.uint64) << np.uint64(63))
    return np.where(first == 0, np.uint64(0), bits).view(np.float64)
