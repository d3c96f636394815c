"""Float formats as bits, and the small operations on them that many instructions share.

Invariant: written over ``Lanes`` alone. The GPU's NaN is 0x7FFFFFFF (f32) and 0x7FFF (f16, bf16); f64 keeps an operand's NaN, quieted.
Source: numerics.md part I section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa.lanes import Lanes, Value


@dataclass(frozen=True, slots=True)
class Format:
    """The bits of a format: ``exponent`` is the exponent's mask (an infinity), ``largest`` the largest finite number, ``nan`` the GPU's NaN."""

    name: str
    width: int
    sign: int
    exponent: int
    quiet: int
    nan: int
    one: int

    @property
    def largest(self) -> int:
        return self.exponent - 1


FORMATS: dict[str, Format] = {
    "f16": Format("f16", 16, 0x8000, 0x7C00, 0x0200, 0x7FFF, 0x3C00),
    "bf16": Format("bf16", 16, 0x8000, 0x7F80, 0x0040, 0x7FFF, 0x3F80),
    "f32": Format("f32", 32, 0x80000000, 0x7F800000, 0x00400000, 0x7FFFFFFF, 0x3F800000),
    "f64": Format("f64", 64, 1 << 63, 0x7FF << 52, 1 << 51, 0xFFF8 << 48, 0x3FF << 52),
}


def is_nan(lanes: Lanes, fmt: str, a: Value) -> Value:
    """A predicate: whether each lane holds a NaN."""
    return lanes.float_compare(fmt, "nan", a, a)


def sign_of(lanes: Lanes, fmt: str, a: Value) -> Value:
    """The sign bit in its place, all other bits 0."""
    f = FORMATS[fmt]
    return lanes.and_(a, lanes.const(f.sign, f.width))


def magnitude(lanes: Lanes, fmt: str, a: Value) -> Value:
    """All bits but the sign, NaNs included."""
    f = FORMATS[fmt]
    return lanes.and_(a, lanes.const(f.sign - 1, f.width))


def flush(lanes: Lanes, fmt: str, a: Value, ftz: str | bool = True) -> Value:
    """Subnormals to zero of the same sign, where ``ftz`` is asked for."""
    if not ftz:
        return a
    f = FORMATS[fmt]
    exponent = lanes.and_(a, lanes.const(f.exponent, f.width))
    return lanes.select(lanes.compare("eq", exponent, lanes.const(0, f.width)), sign_of(lanes, fmt, a), a)


def canonical(lanes: Lanes, fmt: str, r: Value, nan: Value) -> Value:
    """``r`` with the GPU's NaN where the predicate ``nan`` holds; f64 (which keeps payloads): ``r`` with the quiet bit."""
    f = FORMATS[fmt]
    wanted = lanes.or_(r, lanes.const(f.quiet, f.width)) if fmt == "f64" else lanes.const(f.nan, f.width)
    return lanes.select(nan, wanted, r)


def saturate(lanes: Lanes, fmt: str, a: Value, sat: str | bool = True) -> Value:
    """``.sat``: to [+0, 1]; NaN gives +0."""
    if not sat:
        return a
    f = FORMATS[fmt]
    zero, one = lanes.const(0, f.width), lanes.const(f.one, f.width)
    a = lanes.select(lanes.float_compare(fmt, "gt", a, zero), a, zero)
    return lanes.select(lanes.float_compare(fmt, "gt", a, one), one, a)


def relu(lanes: Lanes, fmt: str, a: Value, on: str | bool = True) -> Value:
    """``.relu``: negative values and -0 give +0; the canonical NaN stays."""
    if not on:
        return a
    f = FORMATS[fmt]
    zero = lanes.const(0, f.width)
    return lanes.select(lanes.compare("lt", a, zero, signed=True), zero, a)


def absolute(lanes: Lanes, fmt: str, a: Value, ftz: str | bool = False) -> Value:
    """``abs``: NaNs are as the hardware gives them for this format."""
    return _of_nan(lanes, fmt, a, magnitude(lanes, fmt, flush(lanes, fmt, a, ftz)))


def negated(lanes: Lanes, fmt: str, a: Value, ftz: str | bool = False) -> Value:
    """``neg``: NaNs are as the hardware gives them for this format."""
    f = FORMATS[fmt]
    flipped = lanes.xor(flush(lanes, fmt, a, ftz), lanes.const(f.sign, f.width))
    return _of_nan(lanes, fmt, a, flipped)


def _of_nan(lanes: Lanes, fmt: str, a: Value, r: Value) -> Value:
    """``r`` where ``a`` is a number, else the NaN that an operation on ``a`` alone gives: f64 keeps its sign."""
    nan = is_nan(lanes, fmt, a)
    return lanes.select(nan, canonical(lanes, fmt, a, nan), r)


def extreme(lanes: Lanes, fmt: str, largest: bool, a: Value, b: Value, ftz: str = "", nan: str = "", xorsign: str = "") -> Value:
    """min (or max, where ``largest``) of two: -0 < +0; one NaN gives the other operand, with ``nan`` the canonical NaN."""
    a, b = flush(lanes, fmt, a, ftz), flush(lanes, fmt, b, ftz)
    sign = None
    if xorsign:
        sign = sign_of(lanes, fmt, lanes.xor(a, b))
        a, b = magnitude(lanes, fmt, a), magnitude(lanes, fmt, b)
    first = lanes.float_compare(fmt, "gt" if largest else "lt", a, b)
    nan_a, nan_b = is_nan(lanes, fmt, a), is_nan(lanes, fmt, b)
    # Two NaNs choose b, whose payload f64 keeps.
    result = lanes.select(lanes.or_(first, lanes.and_(nan_b, lanes.not_(nan_a))), a, b)
    # Equal operands differ at most in the sign of zero.
    equal = lanes.float_compare(fmt, "eq", a, b)
    result = lanes.select(equal, lanes.and_(a, b) if largest else lanes.or_(a, b), result)
    if sign is not None:
        result = lanes.or_(result, sign)
    either = lanes.or_(nan_a, nan_b) if nan else lanes.and_(nan_a, nan_b)
    return canonical(lanes, fmt, result, either)
