"""Elementary functions rounded correctly, over the lanes protocol: what the profile ``manual`` takes for the approximate instructions.

Invariant: integers and IEEE operations alone, so every instance gives the same bits; and these are the bits of the exact value, rounded once to nearest even.
A function is computed in fixed point with an error of at most 2^-57 of its value, coefficients and constants made here from integers; that no f32 argument's value lies
that close to the middle between two results was searched for (``docs/numerics.md`` says how). Roots and quotients are decided exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from math import comb, factorial

from ptxgraft.isa.floats import FORMATS
from ptxgraft.isa.lanes import Lanes, Value

F32_NAN = 0x7FFFFFFF
_INF, _SIGN, _ONE = 0x7F800000, 0x80000000, 0x3F800000
_HIDDEN = 1 << 23
_UNIT = 1 << 64
"""1 in 64-bit fixed point."""

_PRECISION = {"f32": (24, -126), "f16": (11, -14), "bf16": (8, -126)}
"""Bits of a significand, and the exponent of the smallest normal number."""


# -- constants, as integers --------------------------------------------------------------------------------------------
@cache
def _decimal(name: str) -> Decimal:
    """ln 2, or pi, to 150 digits."""
    with localcontext() as context:
        context.prec = 150
        if name == "ln2":
            return Decimal(2).ln()
        # Machin's formula.
        return 4 * (4 * _arctangent(5) - _arctangent(239))


def _arctangent(inverse: int) -> Decimal:
    total, power, n = Decimal(0), Decimal(1) / inverse, 0
    while abs(power) > Decimal(10) ** -149:
        total += power / (2 * n + 1)
        power, n = -power / (inverse * inverse), n + 1
    return total


def _fixed(value: Decimal, bits: int) -> int:
    """floor(value * 2^bits)."""
    with localcontext() as context:
        context.prec = 150
        return int((value * 2**bits).to_integral_value(rounding="ROUND_FLOOR"))


@cache
def _ln2() -> int:
    return _fixed(_decimal("ln2"), 64)


@cache
def _powers() -> tuple[int, ...]:
    """2^(i / 64) in units of 2^-63."""
    with localcontext() as context:
        context.prec = 150
        return tuple(_fixed((_decimal("ln2") * i / 64).exp(), 63) for i in range(64))


@cache
def _logarithms() -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """By the top seven fraction bits of m: a reciprocal r of m in units of 2^-10, and -log2(r) - s as (integer part, fraction in units of 2^-64), s being 1 where
    m is taken for m / 2."""
    reciprocals, whole, part = [], [], []
    with localcontext() as context:
        context.prec = 150
        for j in range(128):
            # Next to a power of two r is one, so that a small logarithm is computed to its own precision.
            r = {0: 1024, 127: 512}.get(j) or round(Fraction(1 << 10) / (1 + Fraction(2 * j + 1, 256)))
            log = -(Decimal(r) / 1024).ln() / _decimal("ln2") - int(j >= _HALVED)
            value = 0 if r in (512, 1024) else _fixed(log, 64)
            reciprocals.append(r)
            whole.append(value >> 64)
            part.append(value % _UNIT)
    return tuple(reciprocals), tuple(whole), tuple(part)


_HALVED = 53
"""From this seventh of the mantissa on (sqrt 2), m / 2 is taken and the exponent raised."""


@cache
def _turns() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """By biased exponent: 2^(biased - 150) / (2 pi) modulo 1 in units of 2^-128, as upper and lower halves."""
    with localcontext() as context:
        context.prec = 150
        inverse = _fixed(1 / (2 * _decimal("pi")), 400)
    words = [(inverse << (b - 150) if b >= 150 else inverse >> (150 - b)) >> (400 - 128) for b in range(256)]
    return tuple((w >> 64) % _UNIT for w in words), tuple(w % _UNIT for w in words)


@cache
def _tanh_coefficients(count: int) -> tuple[Fraction, ...]:
    """|c_n| of tanh(x) = x - c_1 x^3 + c_2 x^5 - ..., from the Bernoulli numbers."""
    bernoulli = [Fraction(1)]
    for n in range(1, 2 * count + 3):
        bernoulli.append(-sum((comb(n + 1, k) * bernoulli[k] for k in range(n)), Fraction(0)) / (n + 1))
    return tuple(abs(Fraction(4**n * (4**n - 1)) * bernoulli[2 * n] / factorial(2 * n)) for n in range(2, count + 2))


def _in_units(values: Sequence[Fraction], bits: int = 64) -> tuple[int, ...]:
    return tuple(int(v * 2**bits) for v in values)


# -- fixed point --------------------------------------------------------------------------------------------------------
class _Fixed:
    """Shorthand for words of 32 and 64 bits with constants."""

    def __init__(self, lanes: Lanes) -> None:
        self.lanes = lanes

    def word(self, number: int) -> Value:
        return self.lanes.const(number, 32)

    def long(self, number: int) -> Value:
        return self.lanes.const(number, 64)

    def like(self, a: Value, number: int) -> Value:
        return self.lanes.const(number, self.lanes.width(a))

    def is_(self, op: str, a: Value, number: int, signed: bool = False) -> Value:
        return self.lanes.compare(op, a, self.like(a, number), signed)

    def add(self, a: Value, number: int) -> Value:
        return self.lanes.add(a, self.like(a, number))

    def from_(self, number: int, a: Value) -> Value:
        return self.lanes.sub(self.like(a, number), a)

    def left(self, a: Value, amount: Value | int) -> Value:
        return self.lanes.shift_left(a, self.word(amount) if isinstance(amount, int) else amount)

    def right(self, a: Value, amount: Value | int, signed: bool = False) -> Value:
        return self.lanes.shift_right(a, self.word(amount) if isinstance(amount, int) else amount, signed)

    def high(self, a: Value, b: Value | int, signed: bool = False) -> Value:
        """The upper 64 bits of a product."""
        return self.lanes.mul_high(a, self.long(b) if isinstance(b, int) else b, signed)

    def zeros(self, a: Value) -> Value:
        return self.lanes.resize(self.lanes.leading_zeros(a), 32)

    def minus_where(self, p: Value, a: Value) -> Value:
        return self.lanes.select(p, self.from_(0, a), a)

    def pick(self, default: Value, *cases: tuple[Value, Value | int]) -> Value:
        """``default``, replaced by the last case that holds."""
        for condition, value in cases:
            default = self.lanes.select(condition, self.like(default, value) if isinstance(value, int) else value, default)
        return default

    def power_series(self, x: Value, coefficients: Sequence[int], alternating: bool = False) -> Value:
        """x * (c_0 + x * (c_1 + ...)) of a fraction x; ``alternating``: with minus signs."""
        total = self.long(coefficients[-1])
        join = self.lanes.sub if alternating else self.lanes.add
        for coefficient in reversed(coefficients[:-1]):
            total = join(self.long(coefficient), self.high(x, total))
        return self.high(x, total)


@dataclass(frozen=True, slots=True)
class _Single:
    """An f32 word taken apart. ``significand`` (b64) has its top bit set unless it is zero, ``exponent`` (b32) is that of this bit; subnormals are normalised."""

    size: Value
    negative: Value
    significand: Value
    exponent: Value
    zero: Value
    infinite: Value
    nan: Value

    @staticmethod
    def of(lanes: Lanes, x: Value) -> _Single:
        f = _Fixed(lanes)
        size = lanes.and_(x, f.word(_SIGN - 1))
        biased, fraction = f.right(size, 23), lanes.and_(x, f.word(_HIDDEN - 1))
        subnormal = f.is_("eq", biased, 0)
        whole = lanes.select(subnormal, fraction, lanes.or_(fraction, f.word(_HIDDEN)))
        shift = lanes.leading_zeros(whole)
        # A normal number has eight leading zeros.
        exponent = lanes.sub(lanes.select(subnormal, f.word(1 - 127 + 8), f.add(biased, 8 - 127)), shift)
        return _Single(
            size=size,
            negative=f.is_("lt", x, 0, signed=True),
            significand=f.left(lanes.resize(f.left(whole, shift), 64), 32),
            exponent=exponent,
            zero=f.is_("eq", size, 0),
            infinite=f.is_("eq", size, _INF),
            nan=f.is_("gt", size, _INF),
        )


def _flushed(lanes: Lanes, x: Value, ftz: bool) -> Value:
    """Subnormals to zero of their sign, where asked for."""
    if not ftz:
        return x
    f = _Fixed(lanes)
    return lanes.select(f.is_("eq", lanes.and_(x, f.word(_INF)), 0), lanes.and_(x, f.word(_SIGN)), x)


def _rounded(lanes: Lanes, fmt: str, significand: Value, exponent: Value, negative: Value | None = None, ftz: bool = False) -> Value:
    """significand * 2^(exponent - 63) rounded to nearest even; the significand (b64) need not be normalised."""
    f = _Fixed(lanes)
    precision, least = _PRECISION[fmt]
    zeros = f.zeros(significand)
    significand, exponent = f.left(significand, zeros), lanes.sub(exponent, zeros)
    below = f.from_(least, exponent)
    above = f.add(exponent, -least)
    subnormal = f.is_("lt", exponent, least, signed=True)
    drop = f.add(lanes.select(subnormal, below, f.word(0)), 64 - precision)
    kept, rest = f.right(significand, drop), f.left(significand, f.from_(64, drop))
    odd = f.is_("ne", lanes.and_(kept, f.long(1)), 0)
    up = lanes.or_(f.is_("gt", rest, 1 << 63), lanes.and_(f.is_("eq", rest, 1 << 63), odd))
    kept = lanes.add(lanes.resize(kept, 32), lanes.resize(up, 32))
    size = lanes.add(kept, f.left(lanes.select(subnormal, f.word(0), above), precision - 1))
    infinity = FORMATS[fmt].exponent
    size = f.pick(size, (f.is_("ge", size, infinity), infinity), (f.is_("eq", significand, 0), 0))
    if ftz:
        size = f.pick(size, (f.is_("lt", size, 1 << (precision - 1)), 0))
    size = lanes.resize(size, FORMATS[fmt].width)
    return size if negative is None else lanes.select(negative, lanes.or_(size, f.like(size, FORMATS[fmt].sign)), size)


# -- powers and logarithms ------------------------------------------------------------------------------------------------
def _power(lanes: Lanes, q: Value) -> Value:
    """2^q of a fraction q (b64), in units of 2^-63. Exact for q = 0."""
    f = _Fixed(lanes)
    first = lanes.lookup(_powers(), lanes.resize(f.right(q, 58), 32), 64)
    # exp(u) - 1 of u = ln 2 * rest / 64.
    rest = f.high(f.left(q, 6), _ln2())
    return lanes.add(first, f.high(first, f.power_series(rest, _in_units([Fraction(1, 64**n * factorial(n)) for n in range(1, 10)]))))


def ex2(lanes: Lanes, fmt: str, x: Value, ftz: bool = False) -> Value:
    """2^x of an f32 word, in format ``fmt``."""
    f, p = _Fixed(lanes), _Single.of(lanes, x)
    # |x| = whole + part; what lies beyond 256 is told apart at the end.
    whole = lanes.resize(f.right(p.significand, f.from_(63, p.exponent)), 32)
    part = lanes.or_(f.left(p.significand, f.add(p.exponent, 1)), f.right(p.significand, f.from_(-1, p.exponent)))
    whole = f.pick(whole, (f.is_("lt", p.exponent, 0, signed=True), 0))
    inexact = lanes.resize(f.is_("ne", part, 0), 32)
    n = lanes.select(p.negative, lanes.sub(f.from_(0, whole), inexact), whole)
    result = _rounded(lanes, fmt, _power(lanes, f.minus_where(p.negative, part)), n, ftz=ftz)
    limit = lanes.select(p.negative, f.like(result, 0), f.like(result, FORMATS[fmt].exponent))
    return f.pick(result, (f.is_("ge", p.size, 0x43800000), limit), (p.nan, FORMATS[fmt].nan))


def lg2(lanes: Lanes, x: Value, ftz: bool = False) -> Value:
    """log2(x) of an f32 word."""
    f = _Fixed(lanes)
    x = _flushed(lanes, x, ftz)
    p = _Single.of(lanes, x)
    m = f.right(p.significand, 40)
    row = lanes.resize(lanes.and_(f.right(m, 16), f.long(127)), 32)
    reciprocals, whole, part = _logarithms()
    # m * r = 2^33 * (1 + z), |z| < 2^-7.
    z = lanes.sub(lanes.mul(m, lanes.lookup(reciprocals, row, 64)), f.long(1 << 33))
    below = f.is_("lt", z, 0, signed=True)
    # log2(1 + z) = z * (1 - z / 2 + z^2 / 3 ...) / ln 2, the sum in units of 2^-62.
    y = f.left(z, 37)
    terms = _in_units([Fraction((-1) ** k, 128**k * (k + 1)) for k in range(10)], 62)
    total = f.long(terms[-1])
    for term in reversed(terms[:-1]):
        total = lanes.add(f.long(term), f.left(f.high(y, total, signed=True), 1))
    factor = f.high(f.left(total, 1), _fixed(1 / _decimal("ln2"), 63))
    size = f.minus_where(below, z)
    zeros = f.zeros(size)
    small = f.high(f.left(size, zeros), factor)  # |log2(1 + z)| is this times 2^(-31 - zeros)
    # The sum of the exponent, the row's logarithm and the small one, as whole + part.
    exponent = lanes.add(p.exponent, lanes.resize(f.is_("ge", row, _HALVED), 32))
    whole = lanes.add(lanes.resize(exponent, 64, signed=True), lanes.lookup(whole, row, 64))
    part = lanes.lookup(part, row, 64)
    alone = f.is_("eq", lanes.or_(whole, part), 0)
    step = f.right(small, f.add(zeros, -33))
    more, less = lanes.add(part, step), lanes.sub(part, step)
    carry = lanes.select(
        below, f.from_(0, lanes.resize(lanes.compare("lt", part, step), 64)), lanes.resize(lanes.compare("lt", more, part), 64)
    )
    whole, part = lanes.add(whole, carry), lanes.select(below, less, more)
    negative = f.is_("lt", whole, 0, signed=True)
    whole, part = _magnitude(lanes, negative, whole, part)
    shift = f.zeros(whole)
    significand = lanes.or_(f.left(whole, shift), f.right(part, f.from_(64, shift)))
    significand, place = f.pick(part, (f.is_("ne", whole, 0), significand)), f.pick(f.word(-1), (f.is_("ne", whole, 0), f.from_(63, shift)))
    significand, place = lanes.select(alone, small, significand), lanes.select(alone, f.from_(32, zeros), place)
    result = _rounded(lanes, "f32", significand, place, lanes.select(alone, below, negative), ftz)
    return f.pick(result, (p.infinite, _INF), (p.negative, F32_NAN), (p.nan, F32_NAN), (p.zero, _SIGN | _INF))


def _magnitude(lanes: Lanes, negative: Value, high: Value, low: Value) -> tuple[Value, Value]:
    """The absolute value of a 128-bit number."""
    f = _Fixed(lanes)
    borrow = lanes.resize(f.is_("eq", low, 0), 64)
    return lanes.select(negative, lanes.add(lanes.not_(high), borrow), high), f.minus_where(negative, low)


# -- circular and hyperbolic functions -------------------------------------------------------------------------------------
_SINE = tuple(_UNIT // factorial(2 * n + 1) for n in range(1, 10))
_COSINE = tuple(_UNIT // factorial(2 * n) for n in range(1, 11))


def sine(lanes: Lanes, x: Value, cosine: bool = False, ftz: bool = False) -> Value:
    """sin or cos of an f32 word in radians, whatever its size."""
    f = _Fixed(lanes)
    x = _flushed(lanes, x, ftz)
    p = _Single.of(lanes, x)
    # From 1/2 on: x / 2 pi modulo 1, its upper and lower 64 bits, of which the next quarter is taken away.
    biased = f.right(p.size, 23)
    m = f.right(p.significand, 40)
    upper, lower = (lanes.lookup(words, biased, 64) for words in _turns())
    low = lanes.mul(m, lower)
    high = lanes.add(lanes.mul(m, upper), f.high(m, lower))
    quarter = f.right(f.add(high, 1 << 61), 62)
    high = lanes.sub(high, f.left(quarter, 62))
    below = f.is_("lt", high, 0, signed=True)
    high, low = _magnitude(lanes, below, high, low)
    zeros = f.zeros(high)
    turn = lanes.or_(f.left(high, zeros), f.right(low, f.from_(64, zeros)))
    # The angle left over is ``angle`` * 2^(place - 64), with ``place`` at most 0.
    small = f.is_("lt", biased, 126)
    angle = lanes.select(small, p.significand, f.high(turn, _fixed(_decimal("pi"), 62)))
    place = lanes.select(small, f.add(p.exponent, 1), f.from_(3, zeros))
    quarter = f.pick(lanes.resize(quarter, 32), (small, 0))
    if cosine:
        quarter = f.add(quarter, 1)
    square = f.right(angle, f.from_(0, place))
    square = f.high(square, square)
    sine = lanes.sub(angle, f.high(angle, f.power_series(square, _SINE, alternating=True)))
    cosines = lanes.not_(f.power_series(square, _COSINE, alternating=True))  # one unit less than it is
    even = f.is_("eq", lanes.and_(quarter, f.word(1)), 0)
    value = lanes.select(even, sine, cosines)
    exponent = lanes.select(even, f.add(place, -1), f.word(-1))
    odd_part = lanes.and_(even, lanes.and_(below, lanes.not_(small)))
    negative = lanes.xor(f.is_("ne", lanes.and_(quarter, f.word(2)), 0), odd_part)
    # cos(x) does not know the sign of x, but the sine that it is in odd quarters is one of |x| - a quarter.
    if not cosine:
        negative = lanes.xor(negative, p.negative)
    result = _rounded(lanes, "f32", value, exponent, negative, ftz)
    return f.pick(result, (f.is_("ge", p.size, _INF), F32_NAN))


def tanh(lanes: Lanes, fmt: str, x: Value) -> Value:
    """tanh of an f32 word, in format ``fmt``."""
    f, p = _Fixed(lanes), _Single.of(lanes, x)
    # Below 1/4: x * (1 - x^2 * series).
    square = f.right(p.significand, f.from_(-1, p.exponent))
    square = f.high(square, square)
    series = f.power_series(square, _in_units(_tanh_coefficients(13)), alternating=True)
    near = lanes.sub(p.significand, f.high(p.significand, series))
    # From there on: 1 - 2 e / (1 + e), e = exp(-2 |x|) = 2^-y, y in units of 2^(exponent - 61).
    y = f.high(p.significand, _fixed(2 / _decimal("ln2"), 62))
    whole, part = f.right(y, f.from_(61, p.exponent)), f.left(y, f.add(p.exponent, 3))
    power = _power(lanes, f.from_(0, part))
    decay = f.right(power, lanes.sub(lanes.resize(whole, 32), lanes.resize(f.is_("eq", part, 0), 32)))
    divisor = f.add(f.right(decay, 1), 1 << 63)
    guess = lanes.divide(f.long(_UNIT - 1), f.right(divisor, 31), signed=False)
    wide = f.left(guess, 32)
    error = f.right(f.from_(1 << 63, f.high(divisor, wide)), 2, signed=True)
    inverse = lanes.add(wide, f.right(lanes.mul(guess, error), 29, signed=True))
    far = lanes.not_(f.left(f.high(decay, inverse), 1))  # one unit less than it is
    close = f.is_("lt", p.size, 0x3E800000)
    result = _rounded(lanes, fmt, lanes.select(close, near, far), lanes.select(close, p.exponent, f.word(-1)), p.negative)
    one = lanes.or_(f.like(result, FORMATS[fmt].one), lanes.select(p.negative, f.like(result, FORMATS[fmt].sign), f.like(result, 0)))
    return f.pick(result, (f.is_("ge", p.size, 0x41800000), one), (p.nan, FORMATS[fmt].nan))


# -- roots and quotients ----------------------------------------------------------------------------------------------------
def rcp(lanes: Lanes, x: Value, ftz: bool = False) -> Value:
    """1 / x of an f32 word."""
    return lanes.float_div("f32", lanes.const(_ONE, 32), x, ftz=ftz)


def sqrt(lanes: Lanes, x: Value, ftz: bool = False) -> Value:
    """The square root of an f32 word."""
    return lanes.float_sqrt("f32", x, ftz=ftz)


def rsqrt(lanes: Lanes, x: Value, ftz: bool = False) -> Value:
    """1 / sqrt(x) of an f32 word. In f64 it is rounded twice; for no f32 does the second rounding to f32 then go wrong."""
    f = _Fixed(lanes)
    x = _flushed(lanes, x, ftz)
    root = lanes.float_sqrt("f64", lanes.float_convert("f32", "f64", x))
    result = lanes.float_convert("f64", "f32", lanes.float_div("f64", f.long(0x3FF << 52), root))
    size = lanes.and_(x, f.word(_SIGN - 1))
    infinity = lanes.or_(lanes.and_(x, f.word(_SIGN)), f.word(_INF))
    return f.pick(result, (f.is_("lt", x, 0, signed=True), F32_NAN), (f.is_("gt", size, _INF), F32_NAN), (f.is_("eq", size, 0), infinity))


def div(lanes: Lanes, a: Value, b: Value, full: bool, ftz: bool = False) -> Value:
    """a / b of f32 words; unless ``full``, a zero for |b| above 2^126 (a * 0, as the manual has it)."""
    result = lanes.float_div("f32", a, b, ftz=ftz)
    if full:
        return result
    f = _Fixed(lanes)
    size = lanes.and_(b, f.word(_SIGN - 1))
    lost = lanes.and_(f.is_("gt", size, 0x7E800000), f.is_("lt", size, _INF))
    return lanes.select(lost, lanes.float_mul("f32", a, lanes.and_(b, f.word(_SIGN)), ftz=ftz), result)


def _high_word(lanes: Lanes, value: Value) -> Value:
    """An f64 rounded to nearest even at 20 fraction bits, subnormals flushed; NaN as the hardware writes it."""
    f = _Fixed(lanes)
    odd = lanes.and_(f.right(value, 32), f.long(1))
    high = f.right(lanes.add(f.add(value, (1 << 31) - 1), odd), 32)
    size = lanes.and_(high, f.long(_SIGN - 1))
    high = lanes.select(f.is_("lt", size, 1 << 20), lanes.and_(high, f.long(_SIGN)), high)
    nan = f.is_("gt", lanes.and_(value, f.long((1 << 63) - 1)), 0x7FF << 52)
    return f.left(f.pick(high, (nan, F32_NAN)), 32)


def _cut_to_high(lanes: Lanes, x: Value) -> Value:
    """An f64 without its lower word, subnormals flushed."""
    f = _Fixed(lanes)
    high = lanes.and_(x, f.long(0xFFFFFFFF << 32))
    tiny = f.is_("lt", lanes.and_(x, f.long((1 << 63) - 1)), 1 << 52)
    # A NaN of which only the lower word told would become an infinity.
    nan = f.is_("gt", lanes.and_(x, f.long((1 << 63) - 1)), 0x7FF << 52)
    return f.pick(high, (tiny, lanes.and_(x, f.long(1 << 63))), (nan, 0x7FF8 << 48))


def rcp_high(lanes: Lanes, x: Value) -> Value:
    """1 / x of an f64's upper word, to 20 fraction bits."""
    one = lanes.const(0x3FF << 52, 64)
    return _high_word(lanes, lanes.float_div("f64", one, _cut_to_high(lanes, x)))


def rsqrt_high(lanes: Lanes, x: Value) -> Value:
    """1 / sqrt(x) of an f64's upper word, to 20 fraction bits."""
    f = _Fixed(lanes)
    x = _cut_to_high(lanes, x)
    result = _high_word(lanes, lanes.float_div("f64", f.long(0x3FF << 52), lanes.float_sqrt("f64", x)))
    zero = f.is_("eq", lanes.and_(x, f.long((1 << 63) - 1)), 0)
    return f.pick(result, (zero, lanes.or_(x, f.long(0x7FF << 52))))


def rsqrt_double(lanes: Lanes, x: Value) -> Value:
    """1 / sqrt(x) of an f64: a guess, and the exact comparison that says which neighbour of it is right."""
    f = _Fixed(lanes)
    size = lanes.and_(x, f.long((1 << 63) - 1))
    tiny = f.is_("lt", size, 1 << 52)
    scaled = lanes.select(tiny, lanes.float_mul("f64", size, f.long(0x4350 << 48)), size)  # 2^54
    exponent = lanes.sub(f.add(f.right(scaled, 52), -1023), lanes.select(tiny, f.long(54), f.long(0)))
    odd = lanes.and_(exponent, f.long(1))
    fraction = lanes.and_(scaled, f.long((1 << 52) - 1))
    # x = near * 4^half, near in [1, 4), its root's inverse in (1/2, 1].
    near = lanes.or_(fraction, f.left(f.add(odd, 1023), 52))
    half = f.right(lanes.sub(exponent, odd), 1, signed=True)
    guess = lanes.float_div("f64", f.long(0x3FF << 52), lanes.float_sqrt("f64", near))
    whole = f.left(lanes.or_(fraction, f.long(1 << 52)), lanes.resize(odd, 32))
    one = f.is_("eq", guess, 0x3FF << 52)
    units = lanes.or_(lanes.and_(guess, f.long((1 << 52) - 1)), f.pick(f.long(1 << 52), (one, 1 << 53)))
    # The middles to both sides, in halves of 2^-53: too small if (2u + 1)^2 * x < 1, too large if (2u - 1)^2 * x > 1.
    twice = f.left(units, 1)
    up = f.is_("lt", _excess(lanes, f.add(twice, 1), whole), 0, signed=True)
    down = f.is_("gt", _excess(lanes, f.add(twice, -1), whole), 0, signed=True)
    guess = lanes.sub(lanes.add(guess, lanes.resize(up, 64)), lanes.resize(down, 64))
    result = lanes.sub(guess, f.left(half, 52))
    infinity = f.long(0x7FF << 52)
    result = f.pick(
        result,
        (lanes.compare("eq", size, infinity), 0),
        (f.is_("lt", x, 0, signed=True), 0xFFF8 << 48),
        (f.is_("eq", size, 0), lanes.or_(x, infinity)),
    )
    return lanes.select(lanes.compare("gt", size, infinity), lanes.or_(x, f.long(1 << 51)), result)


def _excess(lanes: Lanes, middle: Value, x: Value) -> Value:
    """The upper half of middle^2 * x modulo 2^128, for a product that lies next to 2^160: what it has more than that (a number with a sign; never 0 for a middle)."""
    f = _Fixed(lanes)
    low, high = lanes.mul(middle, middle), f.high(middle, middle)
    upper = lanes.add(f.high(low, x), lanes.mul(high, x))
    # An excess of less than 2^64 would hide in the lower half.
    lower = lanes.mul(low, x)
    return lanes.select(f.is_("eq", upper, 0), lanes.resize(f.is_("ne", lower, 0), 64), upper)
