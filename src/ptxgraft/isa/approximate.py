"""The hardware's approximate functions (MUFU), bit for bit, over the lanes protocol.

Invariant: integers only, so every instance gives the same bits. All functions are one quadratic interpolator: the argument's top bits choose a row
(C0, C1, C2), the next 17 bits are D, and F = C0 + C1 * D + C2 * S(D) is exact, S(D) being a square with its low partial products left out.
F is cut to the result's precision, never rounded: C0 contains the hardware's rounding constant. The tables (``mufu_tables.json``) and all rules were
measured by this project on an H200 (sm_90) over whole binades; other generations are taken to have the same tables, unconfirmed (``numerics.Profile.functions``
says so). The profile ``manual`` does not come here (``isa.rounded``).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path

from ptxgraft.isa.lanes import Lanes, Value

F32_NAN = 0x7FFFFFFF
_F32_INF, _F32_SIGN, _F32_ONE = 0x7F800000, 0x80000000, 0x3F800000
_HIDDEN = 1 << 23
_FRACTION = _HIDDEN - 1


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of one or more functions behind each other; F is in units of 2^-``unit``. Coefficients modulo 2^64."""

    unit: int
    bits: int
    c0: tuple[int, ...]
    c1: tuple[int, ...]
    c2: tuple[int, ...]


@cache
def _file() -> dict[str, dict]:
    return json.loads(Path(__file__).with_name("mufu_tables.json").read_text())


@cache
def table(*names: str) -> Table:
    """The rows of the named functions, concatenated. ``bits`` is the number of argument bits that choose a row of the first."""
    parts = [_file()[name] for name in names]
    columns = zip(*(row for part in parts for row in part["t"]), strict=True)
    c0, c1, c2 = (tuple(c % (1 << 64) for c in column) for column in columns)
    return Table(parts[0]["U"], parts[0]["m"], c0, c1, c2)


class _Words:
    """Shorthand for 32-bit words with constants."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    def c(self, bits: int) -> Value:
        return self.lanes.const(bits, 32)

    def is_(self, op: str, a: Value, bits: int, signed: bool = False) -> Value:
        return self.lanes.compare(op, a, self.c(bits), signed)

    def mask(self, a: Value, bits: int) -> Value:
        return self.lanes.and_(a, self.c(bits))

    def add(self, a: Value, number: int) -> Value:
        return self.lanes.add(a, self.c(number))

    def right(self, a: Value, amount: int, signed: bool = False) -> Value:
        return self.lanes.shift_right(a, self.c(amount), signed)

    def left(self, a: Value, amount: int) -> Value:
        return self.lanes.shift_left(a, self.c(amount))

    def negative(self, a: Value) -> Value:
        return self.lanes.sub(self.c(0), a)

    def pick(self, default: Value, *cases: tuple[Value, Value | int]) -> Value:
        """``default``, replaced by the last case that holds."""
        for condition, value in cases:
            default = self.lanes.select(condition, self.c(value) if isinstance(value, int) else value, default)
        return default


def truncated_square(lanes: Lanes, d: Value) -> Value:
    """S(D) of a 17-bit D (b32): the partial products of D * D of weight 2^19 and up, over 2^19.

    In closed form (checked for all D): with D = 512 * Hi + Lo, S = (Hi * Hi >> 1) + the sum of D_j * (Lo >> (18 - j)) over the bits j = 10 .. 16.
    """
    w = _Words(lanes)
    high, low = w.right(d, 9), w.mask(d, 511)
    total = w.right(lanes.mul(high, high), 1)
    for j in range(10, 17):
        bit = w.mask(w.right(d, j), 1)
        total = lanes.add(total, lanes.and_(w.negative(bit), w.right(low, 18 - j)))
    return total


def _interpolate(lanes: Lanes, rows: Table, row: Value, d: Value) -> Value:
    """F (b64) of a row number and D, both b32."""
    wide = lanes.resize(d, 64)
    square = lanes.resize(truncated_square(lanes, d), 64)
    linear = lanes.mul(lanes.lookup(rows.c1, row, 64), wide)
    quadratic = lanes.mul(lanes.lookup(rows.c2, row, 64), square)
    return lanes.add(lanes.lookup(rows.c0, row, 64), lanes.add(linear, quadratic))


def _evaluate(lanes: Lanes, rows: Table, q: Value, first: Value | None = None) -> Value:
    """F of a 23-bit reduced argument; ``first`` is the number of the first row of its function."""
    w = _Words(lanes)
    row = w.right(q, 23 - rows.bits)
    d = w.mask(w.right(w.left(q, rows.bits), 6), 0x1FFFF)
    return _interpolate(lanes, rows, row if first is None else lanes.add(first, row), d)


def _pack(lanes: Lanes, f: Value, unit: int, exponent: Value, sign: Value, precision: int = 24) -> Value:
    """The f32 word (``precision`` 21: the high word of an f64) of F * 2^(exponent - unit), cut; ``sign`` is 0 or the sign bit.

    Zero stays zero, what lies below the normal numbers becomes a signed zero, what lies above an infinity.
    """
    w = _Words(lanes)
    bias, top = (127, 255) if precision == 24 else (1023, 2047)
    zeros = lanes.resize(lanes.leading_zeros(f), 32)
    significand = lanes.shift_right(lanes.shift_left(f, zeros), lanes.const(64 - precision, 32))
    fraction = w.mask(lanes.resize(significand, 32), (1 << (precision - 1)) - 1)
    biased = w.add(lanes.sub(exponent, zeros), 63 - unit + bias)
    magnitude = lanes.or_(w.left(biased, precision - 1), fraction)
    magnitude = w.pick(
        magnitude,
        (w.is_("ge", biased, top, signed=True), top << (precision - 1)),
        (w.is_("le", biased, 0, signed=True), 0),
        (w.is_("ge", zeros, 64), 0),
    )
    return lanes.or_(magnitude, sign)


@dataclass(frozen=True, slots=True)
class _Parts:
    """An f32 word taken apart, subnormals flushed to zero: sign bit, biased exponent, fraction (all b32), and what it is (predicates)."""

    sign: Value
    biased: Value
    fraction: Value
    zero: Value
    infinite: Value
    nan: Value
    negative: Value


def _parts(lanes: Lanes, x: Value) -> _Parts:
    w = _Words(lanes)
    size = w.mask(x, 0x7FFFFFFF)
    return _Parts(
        sign=w.mask(x, _F32_SIGN),
        biased=w.right(size, 23),
        fraction=w.mask(x, _FRACTION),
        zero=w.is_("lt", size, _HIDDEN),
        infinite=w.is_("eq", size, _F32_INF),
        nan=w.is_("gt", size, _F32_INF),
        negative=w.is_("lt", x, 0, signed=True),
    )


def _halved(lanes: Lanes, biased: Value, bias: int) -> tuple[Value, Value]:
    """(odd, h) of the exponent e = biased - bias: odd = e & 1, h = (e - odd) / 2."""
    w = _Words(lanes)
    exponent = w.add(biased, -bias)
    return w.mask(exponent, 1), w.right(exponent, 1, signed=True)


def rcp(lanes: Lanes, x: Value) -> Value:
    """MUFU.RCP: 1 / x of an f32 word."""
    w, p = _Words(lanes), _parts(lanes, x)
    f = _evaluate(lanes, table("rcp"), p.fraction)
    result = _pack(lanes, f, 40, lanes.sub(w.c(127), p.biased), p.sign)
    return w.pick(result, (p.zero, lanes.or_(p.sign, w.c(_F32_INF))), (p.infinite, p.sign), (p.nan, F32_NAN))


def rsqrt(lanes: Lanes, x: Value) -> Value:
    """MUFU.RSQ: 1 / sqrt(x) of an f32 word; exact for even powers of two."""
    w, p = _Words(lanes), _parts(lanes, x)
    odd, half = _halved(lanes, p.biased, 127)
    result = _pack(lanes, _evaluate(lanes, table("rsq1", "rsq2"), p.fraction, w.left(odd, 6)), 40, w.negative(half), w.c(0))
    exact = w.is_("eq", lanes.or_(odd, p.fraction), 0)
    return w.pick(
        result,
        (exact, w.left(lanes.sub(w.c(127), half), 23)),
        (p.infinite, 0),
        (p.negative, F32_NAN),
        (p.nan, F32_NAN),
        (p.zero, lanes.or_(p.sign, w.c(_F32_INF))),
    )


def sqrt(lanes: Lanes, x: Value) -> Value:
    """MUFU.SQRT of an f32 word."""
    w, p = _Words(lanes), _parts(lanes, x)
    odd, half = _halved(lanes, p.biased, 127)
    result = _pack(lanes, _evaluate(lanes, table("sqrt1", "sqrt2"), p.fraction, w.left(odd, 6)), 40, half, w.c(0))
    return w.pick(result, (p.infinite, _F32_INF), (p.negative, F32_NAN), (p.nan, F32_NAN), (p.zero, p.sign))


def ex2(lanes: Lanes, x: Value) -> Value:
    """MUFU.EX2: 2^x of an f32 word. The argument is cut to 23 fraction bits; a negative one that is no integer is taken as ones' complement."""
    w, p = _Words(lanes), _parts(lanes, x)
    significand = lanes.or_(p.fraction, w.c(_HIDDEN))
    whole = lanes.shift_left(significand, w.add(p.biased, -127))
    part = lanes.shift_right(significand, lanes.sub(w.c(127), p.biased))
    fixed = lanes.select(w.is_("ge", p.biased, 127), whole, part)
    fixed = w.pick(fixed, (p.zero, 0))
    integral = w.is_("eq", w.mask(fixed, _FRACTION), 0)
    below = lanes.select(integral, w.negative(fixed), lanes.not_(fixed))
    fixed = lanes.select(p.negative, below, fixed)
    f = _evaluate(lanes, table("ex2"), w.mask(fixed, _FRACTION))
    result = _pack(lanes, f, 38, w.right(fixed, 23, signed=True), w.c(0))
    limit = lanes.select(p.negative, w.c(0), w.c(_F32_INF))
    return w.pick(result, (w.is_("ge", p.biased, 135), limit), (p.nan, F32_NAN))


def lg2(lanes: Lanes, x: Value) -> Value:
    """MUFU.LG2: the binary logarithm of an f32 word; 0 for 1.0 alone, a negative result is taken as ones' complement."""
    w, p = _Words(lanes), _parts(lanes, x)
    f = _evaluate(lanes, table("lg2"), p.fraction)
    fraction = lanes.shift_right(f, w.c(2))
    fraction = lanes.select(w.is_("eq", x, _F32_ONE), lanes.const(0, 64), fraction)
    exponent = lanes.resize(w.add(p.biased, -127), 64, signed=True)
    value = lanes.add(lanes.shift_left(exponent, w.c(36)), fraction)
    below = lanes.compare("lt", value, lanes.const(0, 64), signed=True)
    sign = lanes.select(below, w.c(_F32_SIGN), w.c(0))
    result = _pack(lanes, lanes.select(below, lanes.not_(value), value), 36, w.c(0), sign)
    return w.pick(result, (p.infinite, _F32_INF), (p.negative, F32_NAN), (p.nan, F32_NAN), (p.zero, _F32_SIGN | _F32_INF))


def sine(lanes: Lanes, x: Value, cosine: bool = False) -> Value:
    """sin or cos of an f32 word in radians: x / 2pi rounded toward zero, then MUFU.SIN or MUFU.COS."""
    w = _Words(lanes)
    size = w.mask(x, 0x7FFFFFFF)
    turns = lanes.float_mul("f32", size, w.c(0x3E22F983), "rz")
    biased, significand = w.right(turns, 23), lanes.or_(w.mask(turns, _FRACTION), w.c(_HIDDEN))
    whole = lanes.shift_left(significand, w.add(biased, -125))
    part = lanes.shift_right(significand, lanes.sub(w.c(125), biased))
    angle = lanes.select(w.is_("ge", biased, 125), whole, part)  # quarter turns in 2^-23, modulo 4 below
    if cosine:
        angle = w.add(angle, _HIDDEN)
    quadrant = w.mask(w.right(angle, 23), 3)
    q = w.mask(angle, _FRACTION)
    q = lanes.select(w.is_("eq", w.mask(quadrant, 1), 0), q, lanes.xor(q, w.c(_FRACTION)))
    sign = w.left(w.right(quadrant, 1), 31)
    if not cosine:
        sign = lanes.xor(sign, w.mask(x, _F32_SIGN))
    result = _pack(lanes, _evaluate(lanes, table("sin"), q), 37, w.c(0), sign)
    return w.pick(result, (w.is_("ge", size, _F32_INF), F32_NAN))


_TANH = tuple(range(-8, 3))


def tanh(lanes: Lanes, x: Value) -> Value:
    """MUFU.TANH of an f32 word: x itself below 2^-8 (subnormals too), 1 from 8 on."""
    w, p = _Words(lanes), _parts(lanes, x)
    rows = table(*(f"tanh{e}" for e in _TANH))
    bits = tuple(_file()[f"tanh{e}"]["m"] for e in _TANH)
    starts = (0, *accumulate(1 << m for m in bits))[: len(bits)]
    small, large = w.is_("lt", p.biased, 119), w.is_("ge", p.biased, 130)
    index = w.pick(w.add(p.biased, -119), (small, 0), (large, 0))
    shift = lanes.lookup(bits, index, 32)
    row = lanes.add(lanes.lookup(starts, index, 32), lanes.shift_right(p.fraction, lanes.sub(w.c(23), shift)))
    d = w.mask(w.right(lanes.shift_left(p.fraction, shift), 6), 0x1FFFF)
    result = _pack(lanes, _interpolate(lanes, rows, row, d), 39, w.c(0), p.sign)
    return w.pick(result, (small, x), (large, lanes.or_(p.sign, w.c(_F32_ONE))), (p.nan, F32_NAN))


# -- binary64: the high word alone ------------------------------------------------------------------------------------
def _high_parts(lanes: Lanes, high: Value) -> _Parts:
    w = _Words(lanes)
    size = w.mask(high, 0x7FFFFFFF)
    return _Parts(
        sign=w.mask(high, _F32_SIGN),
        biased=w.right(size, 20),
        fraction=w.left(w.mask(high, 0xFFFFF), 3),
        zero=w.is_("lt", size, 1 << 20),
        infinite=w.is_("eq", size, 0x7FF00000),
        nan=w.is_("gt", size, 0x7FF00000),
        negative=w.is_("lt", high, 0, signed=True),
    )


def rcp64h(lanes: Lanes, high: Value) -> Value:
    """MUFU.RCP64H: the high word of 1 / x from the high word of an f64."""
    w, p = _Words(lanes), _high_parts(lanes, high)
    result = _pack(lanes, _evaluate(lanes, table("rcp"), p.fraction), 40, lanes.sub(w.c(1023), p.biased), p.sign, precision=21)
    return w.pick(result, (p.zero, lanes.or_(p.sign, w.c(0x7FF00000))), (p.infinite, p.sign), (p.nan, F32_NAN))


def rsqrt64h(lanes: Lanes, high: Value) -> Value:
    """MUFU.RSQ64H: the high word of 1 / sqrt(x) from the high word of an f64."""
    w, p = _Words(lanes), _high_parts(lanes, high)
    odd, half = _halved(lanes, p.biased, 1023)
    f = _evaluate(lanes, table("rsq1", "rsq2"), p.fraction, w.left(odd, 6))
    result = _pack(lanes, f, 40, w.negative(half), w.c(0), precision=21)
    exact = w.is_("eq", lanes.or_(odd, p.fraction), 0)
    return w.pick(
        result,
        (exact, w.left(lanes.sub(w.c(1023), half), 20)),
        (p.infinite, 0),
        (p.negative, F32_NAN),
        (p.nan, F32_NAN),
        (p.zero, lanes.or_(p.sign, w.c(0x7FF00000))),
    )
