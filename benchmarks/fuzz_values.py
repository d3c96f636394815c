"""Operands that break arithmetic, in columns that know of one another: near ties, cancellation, the ends of exponents, overflow by one.

Invariant: a column is uint64[rows] of bits of one type, and follows from the generator given. Columns of one call belong together: row r is one tuple.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.example_cases import FLOATS, column, float_values, integer_values, parts_of
from ptxgraft.isa import TYPES

Bits = NDArray[np.uint64]

_SIZES = {"f16": 16, "bf16": 16, "f32": 32, "tf32": 32, "f64": 64}
"""Formats whose numbers NumPy can compute with, and their widths."""


def operands(rng: np.random.Generator, types: Sequence[str], rows: int) -> Bits:
    """uint64[len(types), rows]: a tuple of operands in each row; a type of 128 bits gives its lower half here.

    A sixth of the rows cross the values that break things in the first two operands, half are tuples whose members are related, the rest is independent.
    """
    made = np.stack([column(rng, name, _width(name), rows) for name in types])
    layouts = [parts_of(name, _width(name)) for name in types]
    parts = layouts[0][1]
    together = [i for i, layout in enumerate(layouts) if layout == layouts[0] and _width(types[i]) == _width(types[0])]
    size = _width(types[0]) // parts
    for part in range(parts):
        elements = [_field(made[i], part * size, size) for i in together]
        _relate(rng, layouts[0][0], size, elements)
        for i, element in zip(together, elements, strict=True):
            made[i] = _with_field(made[i], part * size, size, element)
    _cross(rng, types, made)
    return made


def _width(name: str) -> int:
    return min(TYPES[name].width, 64)


def _mask(size: int) -> np.uint64:
    return np.uint64((1 << size) - 1)


def _field(a: Bits, at: int, size: int) -> Bits:
    return (a >> np.uint64(at)) & _mask(size)


def _with_field(a: Bits, at: int, size: int, field: Bits) -> Bits:
    mask = _mask(size) << np.uint64(at)
    return (a & ~mask) | ((field & _mask(size)) << np.uint64(at))


def _cross(rng: np.random.Generator, types: Sequence[str], made: Bits) -> None:
    """All pairs of listed values of the first two operands in the first rows, as far as a sixth of the rows goes."""
    if len(types) < 2:
        return
    lists = []
    for name in types[:2]:
        format_, parts = parts_of(name, _width(name))
        size = _width(name) // parts
        listed = np.array(float_values(format_) if format_ else integer_values(size), np.uint64)
        lists.append(sum((rng.permutation(listed) << np.uint64(i * size) for i in range(parts)), np.zeros(len(listed), np.uint64)))
    first, second = (a.reshape(-1) for a in np.meshgrid(*lists, indexing="ij"))
    keep = rng.permutation(len(first))[: made.shape[1] // 6]
    made[0, : len(keep)], made[1, : len(keep)] = first[keep], second[keep]


def _relate(rng: np.random.Generator, format_: str, size: int, elements: list[Bits]) -> None:
    """Relate half of the rows of some columns of one format, in place."""
    if format_ in FLOATS:
        _cut(rng, format_, elements)
        if len(elements) > 1:
            _relate_floats(rng, format_, elements)
    elif len(elements) > 1:
        _relate_integers(rng, size, elements)


# -- floats -----------------------------------------------------------------------------------------------------------
def _cut(rng: np.random.Generator, format_: str, elements: list[Bits]) -> None:
    """Fractions that end in a tie, or next to one, at any place; fractions of few bits; fractions of ones."""
    fraction_bits = FLOATS[format_][1]
    for i, a in enumerate(elements):
        rows = len(a)
        at = rng.integers(1, fraction_bits + 1, rows).astype(np.uint64)
        half = np.uint64(1) << (at - np.uint64(1))
        low = (half + rng.integers(-1, 2, rows).astype(np.uint64)) & ((np.uint64(1) << at) - np.uint64(1))
        keep = ~((np.uint64(1) << at) - np.uint64(1))
        tied = (a & keep) | low
        ones = a | ((np.uint64(1) << at) - np.uint64(1))
        few = a & keep
        kind = rng.integers(0, 8, rows)
        special = _exponent(a, format_) == (1 << FLOATS[format_][0]) - 1
        elements[i] = np.where(special, a, np.select([kind == 0, kind == 1, kind == 2], [tied, ones, few], a))


def _exponent(a: Bits, format_: str) -> NDArray[np.int64]:
    exponent_bits, fraction_bits = FLOATS[format_]
    return ((a >> np.uint64(fraction_bits)) & _mask(exponent_bits)).astype(np.int64)


def _with_exponent(a: Bits, format_: str, exponent: NDArray[np.int64]) -> Bits:
    exponent_bits, fraction_bits = FLOATS[format_]
    clipped = np.clip(exponent, 0, (1 << exponent_bits) - 2).astype(np.uint64)
    return _with_field(a, fraction_bits, exponent_bits, clipped)


def _relate_floats(rng: np.random.Generator, format_: str, elements: list[Bits]) -> None:
    exponent_bits, fraction_bits = FLOATS[format_]
    one = (1 << (exponent_bits - 1)) - 1
    a, b = elements[:2]
    rows = len(a)
    kind = rng.integers(0, 12, rows)
    ea = _exponent(a, format_)
    sign = rng.integers(0, 2, rows, dtype=np.uint64) << np.uint64(exponent_bits + fraction_bits)
    near = (a ^ sign) + rng.integers(-3, 4, rows).astype(np.uint64)
    aligned = _with_exponent(b, format_, ea - rng.integers(-2, fraction_bits + 4, rows))
    # The product's exponent at the ends of the range, of the subnormal numbers too; the quotient's likewise.
    ends = rng.choice(
        np.array([-one - fraction_bits - 1, -one - fraction_bits, -one - 3, -one, -one + 1, -one + 2, one - 1, one, one + 1]), rows
    )
    edge = _with_exponent(b, format_, ends + rng.integers(-1, 2, rows) + 2 * one - ea)
    ratio = _with_exponent(b, format_, ea - ends + rng.integers(-1, 2, rows))
    elements[1] = np.select([kind == 0, kind == 1, kind == 2, kind == 3], [near, aligned, edge, ratio], b)
    if format_ in _SIZES:
        tie = _near_ties(rng, format_, elements[1])
        elements[0] = np.where(kind == 4, tie, a)
    if len(elements) > 2:
        elements[2] = _third(rng, format_, elements)


def numbers(a: Bits, format_: str) -> NDArray[np.float64]:
    """The values of a format that NumPy can compute with (f64 itself, others widened)."""
    if format_ == "f64":
        return a.view(np.float64)
    if format_ == "f16":
        return a.astype(np.uint16).view(np.float16).astype(np.float64)
    return (a << np.uint64(16) if format_ == "bf16" else a).astype(np.uint32).view(np.float32).astype(np.float64)


def nearest(values: NDArray[np.float64], format_: str) -> Bits:
    """Bits of numbers near ``values`` (rounded to nearest; bf16: cut)."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if format_ == "f64":
            return values.view(np.uint64).copy()
        if format_ == "f16":
            return values.astype(np.float16).view(np.uint16).astype(np.uint64)
        bits = values.astype(np.float32).view(np.uint32).astype(np.uint64)
        return bits >> np.uint64(16) if format_ == "bf16" else bits


def _near_ties(rng: np.random.Generator, format_: str, b: Bits) -> Bits:
    """``a`` with a / b close to the middle between two numbers."""
    fraction_bits = FLOATS[format_][1]
    rows = len(b)
    fraction = rng.integers(0, 1 << fraction_bits, rows).astype(np.float64) + 0.5
    quotient = 1 + fraction / (1 << fraction_bits)
    with np.errstate(all="ignore"):
        return nearest(numbers(b, format_) * quotient * 2.0 ** rng.integers(-2, 3, rows), format_)


def _third(rng: np.random.Generator, format_: str, elements: list[Bits]) -> Bits:
    """The third operand of half of the rows: near minus the product of the first two, or far below or above it."""
    exponent_bits, fraction_bits = FLOATS[format_]
    a, b, c = elements[:3]
    rows = len(a)
    if format_ not in _SIZES:
        return c
    with np.errstate(all="ignore"):
        product = nearest(-numbers(a, format_) * numbers(b, format_), format_)
    kind = rng.integers(0, 8, rows)
    near = product + rng.integers(-2, 3, rows).astype(np.uint64)
    sign = rng.integers(0, 2, rows, dtype=np.uint64) << np.uint64(exponent_bits + fraction_bits)
    distance = rng.integers(-2 * fraction_bits - 4, 2 * fraction_bits + 5, rows)
    far = _with_exponent(c, format_, _exponent(product, format_) + distance)
    shifted = _with_exponent(product ^ sign, format_, _exponent(product, format_) + rng.integers(-3, 4, rows))
    return np.select([kind < 2, kind == 2, kind == 3], [near, far, shifted], c)


# -- integers ---------------------------------------------------------------------------------------------------------
def _relate_integers(rng: np.random.Generator, size: int, elements: list[Bits]) -> None:
    a, b = elements[:2]
    rows, mask = len(a), _mask(size)
    kind = rng.integers(0, 12, rows)
    few = rng.integers(-2, 3, rows).astype(np.uint64)
    near = a + few
    opposite = few - a
    inverse = mask // np.maximum(a, np.uint64(1)) + few
    small = rng.integers(0, size + 3, rows).astype(np.uint64)
    multiple = a * (few + np.uint64(3)) + few
    elements[1] = np.select([kind == i for i in range(5)], [near, opposite, inverse, small, multiple], b) & mask
    elements[0] = np.where(kind == 5, elements[1] * small + few, a) & mask
    if len(elements) > 2:
        kind = rng.integers(0, 8, rows)
        product = elements[0] * elements[1]
        elements[2] = np.select([kind == 0, kind == 1, kind == 2], [few - product, small, ~product], elements[2]) & mask


# -- tensor cores -----------------------------------------------------------------------------------------------------
def fragments(rng: np.random.Generator, element: str, width: int, count: int, rows: int) -> Bits:
    """uint64[count, rows] of fragment registers of ``width`` bits; each 32 rows, a warp, have one style: any bits, numbers near one, numbers far apart,
    few distinct numbers, or numbers near one with zeros, infinities and NaNs."""
    random = rng.integers(0, 1 << 64, (count, rows), dtype=np.uint64) >> np.uint64(64 - width)
    if element not in FLOATS:
        return random
    exponent_bits, fraction_bits = FLOATS[element]
    size = 32 if element == "tf32" else 1 + exponent_bits + fraction_bits
    one = (1 << (exponent_bits - 1)) - 1
    style = np.repeat(rng.integers(0, 6, rows // 32), 32)
    spread = np.select([style == 1, style == 2, style == 3], [2, 14, min(40, one - 1)], 3)
    middle = np.repeat(rng.choice(np.array([one, one, one, one // 2, one + one // 3]), rows // 32), 32)
    for at in range(0, width, size):
        part = _field(random, at, size)
        exponent = middle + rng.integers(-spread, spread + 1, (count, rows))
        tame = _with_exponent(part.reshape(-1), element, exponent.reshape(-1)).reshape(count, rows)
        few = tame & ~_mask(fraction_bits - min(2, fraction_bits))
        odd = rng.random((count, rows))
        listed = np.array(float_values(element), np.uint64)[rng.integers(0, len(float_values(element)), (count, rows))]
        mixed = np.where(odd < 0.15, np.uint64(0), np.where(odd < 0.18, listed, tame))
        chosen = np.select([style == 0, style == 4, style == 5], [part, few, mixed], tame)
        random = _with_field(random.reshape(-1), at, size, chosen.reshape(-1)).reshape(count, rows)
    return random
