"""Exact results and their one rounding, in LLVM text: error-free transformations, rounding to odd, directed rounding, flushing.

Invariant: a value handed from one function to the next is exact or rounded to odd with at least two bits to spare, so that the one
rounding into the target format is the only one. Only operations that round to nearest are used; no rounding mode is ever switched.
Sources: Knuth TAOCP 4.2.2 (sum), Boldo and Melquiond 2008 (rounding to odd), Boldo and Muller 2005 (the error of a fused
multiply-add is the sum of two numbers).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from ptxgraft.lower.ir import Val
from ptxgraft.lower.warp_build import Build


@dataclass(frozen=True, slots=True)
class Format:
    """A binary format: width, precision (hidden bit included), smallest normal exponent, exponent mask, and the GPU's NaN."""

    width: int
    precision: int
    emin: int
    exponent: int
    nan: int

    @property
    def sign(self) -> int:
        return 1 << (self.width - 1)


FORMATS = {
    "f16": Format(16, 11, -14, 0x7C00, 0x7FFF),
    "bf16": Format(16, 8, -126, 0x7F80, 0x7FFF),
    "f32": Format(32, 24, -126, 0x7F800000, 0x7FFFFFFF),
    "f64": Format(64, 53, -1022, 0x7FF << 52, 0xFFF8 << 48),
}
"""Formats by PTX name. ``nan`` of f64 is the one that an invalid operation makes without a NaN operand."""


def double(b: Build, value: float) -> Val:
    """A binary64 constant."""
    return b.const(int.from_bytes(struct.pack("<d", value), "little"), "double")


def number(b: Build, value: float, elem: str) -> Val:
    """A float or double constant."""
    if elem == "double":
        return double(b, value)
    return b.const(int.from_bytes(struct.pack("<f", value), "little"), "float")


def two_sum(b: Build, x: Val, y: Val) -> tuple[Val, Val]:
    """``(s, e)`` with s = RN(x + y) and s + e = x + y; e is NaN where s is not finite."""
    s = b.op("fadd", x, y)
    t = b.op("fsub", s, x)
    return s, b.op("fadd", b.op("fsub", x, b.op("fsub", s, t)), b.op("fsub", y, t))


def to_odd(b: Build, s: Val, e: Val) -> Val:
    """s + e rounded to odd, for s = RN(s + e) in float or double. Where e is NaN, s."""
    elem = f"i{s.width}"
    bits = b.bits(s, elem)
    inexact = b.compare("fcmp one", e, number(b, 0.0, e.elem))
    even = b.compare("icmp eq", b.masked(bits, 1), b.const(0, elem))
    outward = b.shifted("ashr", b.op("xor", bits, b.bits(e, elem)), s.width - 1)
    moved = b.op("add", bits, b.op("or", outward, b.const(1, elem)))
    return b.bits(b.select(b.op("and", inexact, even), moved, bits), s.elem)


def sum_odd(b: Build, x: Val, y: Val, rounding: str) -> Val:
    """x + y rounded to odd; an exact zero has the sign that ``rounding`` gives it."""
    v = to_odd(b, *two_sum(b, x, y))
    if rounding != "rm":
        return v
    elem = f"i{v.width}"
    signs = b.masked(b.op("or", b.bits(x, elem), b.bits(y, elem)), 1 << (v.width - 1))
    return b.select(b.compare("fcmp oeq", v, number(b, 0.0, v.elem)), b.bits(signs, v.elem), v)


def odd_single(b: Build, v: Val) -> Val:
    """A double (exact, or rounded to odd) rounded to odd into float."""
    near = b.cast("fptrunc", v, "float")
    wide = b.cast("fpext", near, "double")
    bits = b.bits(near, "i32")
    too_big = b.compare("fcmp ogt", b.abs(wide), b.abs(v))
    truncated = b.op("add", bits, b.cast("sext", too_big, "i32"))
    inexact = b.cast("zext", b.compare("fcmp one", wide, v), "i32")
    return b.bits(b.op("or", truncated, inexact), "float")


def narrow(b: Build, fmt: str, v: Val, rounding: str) -> Val:
    """Bits of v (float or double; exact, or rounded to odd) rounded once into ``fmt``; overflow by rounding mode. NaN gives any NaN."""
    if fmt == "f64":
        assert rounding == "rn", "a double is not narrowed to itself"
        return b.bits(v, "i64")
    if fmt == "f32":
        if v.elem == "float":
            return b.bits(v, "i32")
        near = b.cast("fptrunc", v, "float")
        return _directed(b, b.bits(near, "i32"), b.cast("fpext", near, "double"), v, rounding)
    if v.elem == "double":
        v = odd_single(b, v)
    if fmt == "f16":
        near = b.cast("fptrunc", v, "half")
        bits = b.bits(near, "i16")
        return bits if rounding == "rn" else _directed(b, bits, b.cast("fpext", near, "float"), v, rounding)
    return _narrow_bf16(b, b.bits(v, "i32"), rounding)


def _narrow_bf16(b: Build, bits: Val, rounding: str) -> Val:
    # By integers: the CPU's own conversion flushes subnormals.
    if rounding == "rn":
        bits = b.op("add", b.plus(bits, 0x7FFF), b.masked(b.shifted("lshr", bits, 16), 1))
    elif rounding != "rz":
        sign = b.shifted("ashr", bits, 31)
        away = b.masked(sign if rounding == "rm" else b.op("xor", sign, b.const(-1, "i32")), 0xFFFF)
        bits = b.op("add", bits, away)
    return b.cast("trunc", b.shifted("lshr", bits, 16), "i16")


def _directed(b: Build, bits: Val, near: Val, v: Val, rounding: str) -> Val:
    """Mend ``bits``, v rounded to nearest, ``near`` being their value: one step where ``rounding`` asks for the other neighbour."""
    if rounding == "rn":
        return bits
    if rounding == "rz":
        too_big = b.compare("fcmp ogt", b.abs(near), b.abs(v))
        return b.op("add", bits, b.cast("sext", too_big, bits.elem))
    wrong = b.compare("fcmp ogt" if rounding == "rm" else "fcmp olt", near, v)
    # 1 for a positive, -1 for a negative number: the step towards plus infinity.
    up = b.op("or", b.shifted("ashr", bits, bits.width - 1), b.const(1, bits.elem))
    return b.select(wrong, b.op("sub" if rounding == "rm" else "add", bits, up), bits)


def directed_by_error(b: Build, s: Val, e: Val, rounding: str) -> Val:
    """Bits of the double s + e rounded by rz, rm or rp, for a finite s = RN(s + e) that is not near the ends of the range."""
    bits = b.bits(s, "i64")
    zero = double(b, 0.0)
    up = b.op("or", b.shifted("ashr", bits, 63), b.const(1, "i64"))
    if rounding == "rz":
        differ = b.is_negative(b.op("xor", bits, b.bits(e, "i64")))
        too_big = b.op("and", differ, b.compare("fcmp one", e, zero))
        return b.op("add", bits, b.cast("sext", too_big, "i64"))
    wrong = b.compare("fcmp olt" if rounding == "rm" else "fcmp ogt", e, zero)
    return b.select(wrong, b.op("sub" if rounding == "rm" else "add", bits, up), bits)


def tiny(b: Build, fmt: str, v: Val, rounding: str) -> Val:
    """Is v (float or double), rounded to the format's precision with an unbounded exponent, below the smallest normal number?"""
    f = FORMATS[fmt]
    normal = 2.0**f.emin
    step = 2.0 ** (f.emin - f.precision)

    def beyond(opcode: str, bound: float, value: Val) -> Val:
        return b.compare(f"fcmp {opcode}", value, number(b, bound, value.elem))

    if rounding in ("rn", "rz"):
        return beyond("olt", normal - step / 2 if rounding == "rn" else normal, b.abs(v))
    if rounding == "rp":
        return b.op("and", beyond("ole", normal - step, v), beyond("ogt", -normal, v))
    return b.op("and", beyond("olt", normal, v), beyond("oge", step - normal, v))


def flush(b: Build, fmt: str, a: Val) -> Val:
    """Bits with subnormals made zeros of the same sign."""
    f = FORMATS[fmt]
    subnormal = b.compare("icmp eq", b.masked(a, f.exponent), b.const(0, a.elem))
    return b.select(subnormal, b.masked(a, f.sign), a)


# -- binary64 with directed rounding ----------------------------------------------------------------------------------
_FRACTION = (1 << 52) - 1


def _normalised(b: Build, x: Val) -> tuple[Val, Val]:
    """A double's fraction as a double in [1, 2) with x's sign, and its exponent (i64). Zero, infinity and NaN give anything."""
    bits = b.bits(x, "i64")
    small = b.compare("icmp eq", b.masked(bits, 0x7FF << 52), b.const(0, "i64"))
    scaled = b.bits(b.op("fmul", x, double(b, 2.0**54)), "i64")
    bits = b.select(small, scaled, bits)
    bias = b.select(small, b.const(1023 + 54, "i64"), b.const(1023, "i64"))
    exponent = b.op("sub", b.masked(b.shifted("lshr", bits, 52), 0x7FF), bias)
    fraction = b.op("or", b.masked(bits, 1 << 63 | _FRACTION), b.const(1023 << 52, "i64"))
    return b.bits(fraction, "double"), exponent


def _pack(b: Build, near: Val, error: Val, exponent: Val, sign: Val, rounding: str) -> Val:
    """Bits of (near + error) * 2**exponent with the sign bit of ``sign``, rounded once.

    ``near`` is a normal double, the magnitude rounded to nearest; ``error`` has the sign of what near lacks, seen from zero outwards.
    """
    bits = b.bits(near, "i64")
    biased = b.op("add", b.masked(b.shifted("lshr", bits, 52), 0x7FF), exponent)
    significand = b.op("or", b.masked(bits, _FRACTION), b.const(1 << 52, "i64"))
    zero = double(b, 0.0)
    above = b.cast("zext", b.compare("fcmp ogt", error, zero), "i64")
    below = b.cast("sext", b.compare("fcmp olt", error, zero), "i64")
    # Two more bits, the lowest of them saying "a little more": what lies just below a power of two moves up a place.
    significand = b.op("add", b.op("add", b.shifted("shl", significand, 2), above), below)
    low = b.compare("icmp ult", significand, b.const(1 << 54, "i64"))
    significand = b.op("shl", significand, b.cast("zext", low, "i64"))
    biased = b.op("add", biased, b.cast("sext", low, "i64"))
    # A result below the normal range loses bits.
    lost = b.call("llvm.smax", b.op("sub", b.const(1, "i64"), biased), b.const(0, "i64"))
    shift = b.call("llvm.umin", b.plus(lost, 2), b.const(63, "i64"))
    kept = b.op("lshr", significand, shift)
    inexact = b.compare("icmp ne", b.op("shl", kept, shift), significand)
    base = b.shifted("shl", b.call("llvm.smax", b.plus(biased, -1), b.const(0, "i64")), 52)
    result = b.op("add", base, kept)
    over = b.compare("icmp sge", biased, b.const(2047, "i64"))
    sign = b.masked(sign, 1 << 63)
    largest = b.const((0x7FF << 52) - 1, "i64")
    if rounding == "rz":
        return b.op("or", b.select(over, largest, result), sign)
    negative = b.compare("icmp ne", sign, b.const(0, "i64"))
    away = negative if rounding == "rm" else b.op("xor", negative, b.const(1, "i1"))
    result = b.op("add", result, b.cast("zext", b.op("and", inexact, away), "i64"))
    result = b.select(over, b.select(away, b.const(0x7FF << 52, "i64"), largest), result)
    return b.op("or", result, sign)


def _outward(b: Build, error: Val, of: Val) -> Val:
    """The error with its sign turned so that positive means away from zero, as seen from ``of``."""
    sign = b.masked(b.bits(of, "i64"), 1 << 63)
    return b.bits(b.op("xor", b.bits(error, "i64"), sign), "double")


def _usual(b: Build, *values: Val) -> Val:
    """Are all the doubles finite and not zero?"""
    found = None
    for v in values:
        size = b.abs(v)
        fine = b.op(
            "and",
            b.compare("fcmp ogt", size, double(b, 0.0)),
            b.compare("fcmp olt", size, b.const(0x7FF << 52, "double")),
        )
        found = fine if found is None else b.op("and", found, fine)
    assert found is not None
    return found


def fma64(b: Build, x: Val, y: Val, z: Val, rounding: str) -> Val:
    """Bits of x * y + z rounded once by rz, rm or rp; a NaN result is any NaN."""
    nearest = b.bits(b.call("llvm.fma", x, y, z), "i64")
    zero = double(b, 0.0)
    xm, xe = _normalised(b, x)
    ym, ye = _normalised(b, y)
    zm, ze = _normalised(b, z)
    exponent = b.op("add", xe, ye)
    absent = b.compare("fcmp oeq", z, zero)
    # Beyond 120 places either term is only a hint of more or less to the other: the larger one says where the result lies.
    distance = b.call("llvm.smax", b.op("sub", ze, exponent), b.const(-120, "i64"))
    distance = b.call("llvm.smin", distance, b.const(120, "i64"))
    moved = b.bits(b.op("add", b.bits(zm, "i64"), b.shifted("shl", distance, 52)), "double")
    addend = b.select(absent, zero, moved)
    exponent = b.select(absent, exponent, b.call("llvm.smax", exponent, b.plus(ze, -120)))
    near = b.call("llvm.fma", xm, ym, addend)
    high = b.op("fmul", xm, ym)
    low = b.call("llvm.fma", xm, ym, b.negate(high))
    a1, a2 = two_sum(b, addend, low)
    b1, b2 = two_sum(b, high, a1)
    error = b.op("fadd", b.op("fadd", b.op("fsub", b1, near), b2), a2)
    signs = b.bits(near, "i64")
    packed = _pack(b, b.abs(near), _outward(b, error, near), exponent, signs, rounding)
    # A zero or non-finite product, an infinite or NaN addend, an exact zero: nothing is rounded.
    finite = b.compare("fcmp olt", b.abs(z), b.const(0x7FF << 52, "double"))
    usual = b.op("and", b.op("and", _usual(b, x, y), finite), b.compare("fcmp one", near, zero))
    if rounding == "rm":
        product = b.op("xor", b.bits(x, "i64"), b.bits(y, "i64"))
        minus = b.masked(b.op("or", product, b.bits(z, "i64")), 1 << 63)
        nearest = b.select(b.compare("fcmp oeq", b.bits(nearest, "double"), zero), minus, nearest)
    return b.select(usual, packed, nearest)


def div64(b: Build, x: Val, y: Val, rounding: str) -> Val:
    """Bits of x / y rounded by rz, rm or rp; a NaN result is any NaN."""
    nearest = b.bits(b.op("fdiv", x, y), "i64")
    xm, xe = _normalised(b, x)
    ym, ye = _normalised(b, y)
    xm, ym = b.abs(xm), b.abs(ym)
    near = b.op("fdiv", xm, ym)
    error = b.call("llvm.fma", b.negate(near), ym, xm)
    signs = b.op("xor", b.bits(x, "i64"), b.bits(y, "i64"))
    packed = _pack(b, near, error, b.op("sub", xe, ye), signs, rounding)
    return b.select(_usual(b, x, y), packed, nearest)


def sqrt64(b: Build, x: Val, rounding: str) -> Val:
    """Bits of the square root of x rounded by rz, rm or rp; a NaN result is any NaN."""
    nearest = b.bits(b.call("llvm.sqrt", x), "i64")
    fraction, exponent = _normalised(b, x)
    odd = b.masked(exponent, 1)
    fraction = b.op("fmul", b.abs(fraction), b.select(b.cast("trunc", odd, "i1"), double(b, 2.0), double(b, 1.0)))
    near = b.call("llvm.sqrt", fraction)
    error = b.call("llvm.fma", b.negate(near), near, fraction)
    packed = _pack(b, near, error, b.shifted("ashr", exponent, 1), b.bits(x, "i64"), rounding)
    usual = b.op("and", _usual(b, x), b.compare("fcmp ogt", x, double(b, 0.0)))
    return b.select(usual, packed, nearest)
