"""The float operations of ``Lanes`` in LLVM text.

Invariant: every function takes and gives integers of the format's width, is total, rounds once, and gives the GPU's NaNs (f16, bf16, f32
canonical; f64 by operand order), whatever the CPU: nothing here becomes a library call or depends on how the CPU treats NaNs. Facts:
numerics.md part I section 4.

Rounding to nearest without flushing is written in place; everything else is longer and is written once, as a shared function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxgraft.lower.ir import Emitter, Val
from ptxgraft.lower.warp_build import Build
from ptxgraft.lower.warp_round import (
    FORMATS,
    directed_by_error,
    div64,
    double,
    flush,
    fma64,
    narrow,
    number,
    sqrt64,
    sum_odd,
    tiny,
    to_odd,
    two_sum,
)

_INTEGRAL = {"rni": "llvm.roundeven", "rzi": "llvm.trunc", "rmi": "llvm.floor", "rpi": "llvm.ceil"}
_NATIVE = {"f32": "float", "f64": "double"}


def shared(b: Build, name: str, inputs: Sequence[Val], body: Callable[[Build, list[Val]], Val]) -> Val:
    """``body`` as a shared function of one result, called."""

    def write(out: Emitter, values: list[Val]) -> list[Val]:
        return [body(Build(out, b.features), values)]

    return b.outline(name, inputs, write)[0]


# -- reading and writing a format -------------------------------------------------------------------------------------
def _native_half(b: Build) -> bool:
    return "avx512fp16" in b.features


def _value(b: Build, fmt: str, a: Val) -> Val:
    """The value in float (double for f64), exactly."""
    if fmt == "f16":
        return b.cast("fpext", b.bits(a, "half"), "float")
    if fmt == "bf16":
        return b.bits(b.shifted("shl", b.cast("zext", a, "i32"), 16), "float")
    return b.bits(a, _NATIVE[fmt])


def _wide(b: Build, fmt: str, a: Val) -> Val:
    """The value in double, exactly."""
    v = _value(b, fmt, a)
    return v if v.elem == "double" else b.cast("fpext", v, "double")


def _is_nan(b: Build, v: Val) -> Val:
    return b.compare("fcmp uno", v, v)


def _canonical(b: Build, fmt: str, bits: Val) -> Val:
    """NaNs replaced by the GPU's (f16, bf16, f32)."""
    f = FORMATS[fmt]
    if fmt == "f32":
        nan = _is_nan(b, b.bits(bits, "float"))
    else:
        nan = b.compare("icmp sgt", b.masked(bits, f.sign - 1), b.const(f.exponent, bits.elem))
    return b.select(nan, b.const(f.nan, bits.elem), bits)


def _raw(b: Build, a: Val) -> Val:
    """An f32 operand whose NaNs nobody will see: the float as an operation before left it."""
    return b.out.raw.get(a) or b.bits(a, "float")


def _canonical_single(b: Build, r: Val) -> Val:
    """The bits of an f32 result; the next operation may take ``r`` itself, and a chain of them is shorter."""
    result = _canonical(b, "f32", b.bits(r, "i32"))
    b.out.raw[result] = r
    return result


def _nan64(b: Build, bits: Val, *order: Val) -> Val:
    """Bits of an f64 result; a NaN is the first NaN operand in ``order``, quieted, else the one of an invalid operation."""
    chosen = b.const(FORMATS["f64"].nan, "i64")
    for a in reversed(order):
        quieted = b.op("or", a, b.const(1 << 51, "i64"))
        chosen = b.select(_is_nan(b, b.bits(a, "double")), quieted, chosen)
    return b.select(_is_nan(b, b.bits(bits, "double")), chosen, bits)


def _finish(b: Build, fmt: str, v: Val, rounding: str, ftz: bool) -> Val:
    """v (exact or rounded to odd) into f16, bf16 or f32."""
    f = FORMATS[fmt]
    bits = narrow(b, fmt, v, rounding)
    if ftz:
        bits = b.select(tiny(b, fmt, v, rounding), b.masked(bits, f.sign), bits)
    return b.select(_is_nan(b, v), b.const(f.nan, bits.elem), bits)


def _flushed(b: Build, fmt: str, ftz: bool, *values: Val) -> list[Val]:
    return [flush(b, fmt, a) for a in values] if ftz else list(values)


# -- arithmetic -------------------------------------------------------------------------------------------------------
def add(b: Build, fmt: str, x: Val, y: Val, rounding: str, ftz: bool) -> Val:
    if fmt == "f64":
        return _add64(b, x, y, rounding)
    if rounding == "rn" and fmt == "f32":
        if not ftz:
            return _canonical_single(b, b.op("fadd", _raw(b, x), _raw(b, y)))
        x, y = _flushed(b, fmt, ftz, x, y)
        r = b.bits(b.op("fadd", b.bits(x, "float"), b.bits(y, "float")), "i32")
        # A subnormal sum is exact, so that tiny before and after rounding are one.
        return _canonical(b, fmt, flush(b, fmt, r))
    if rounding == "rn" and not ftz:
        return _half(b, fmt, "fadd", x, y)

    def body(b: Build, v: list[Val]) -> Val:
        left, right = (_wide(b, fmt, a) for a in _flushed(b, fmt, ftz, *v))
        return _finish(b, fmt, sum_odd(b, left, right, rounding), rounding, ftz)

    return shared(b, _name("add", fmt, rounding, ftz), b.join(x, y), body)


def sub(b: Build, fmt: str, x: Val, y: Val, rounding: str, ftz: bool) -> Val:
    r = add(b, fmt, x, negate(b, fmt, y), rounding, ftz)
    if fmt != "f64":
        return r
    # A NaN that is taken away keeps its sign.
    return b.select(_is_nan(b, b.bits(y, "double")), b.op("or", y, b.const(1 << 51, "i64")), r)


def negate(b: Build, fmt: str, a: Val) -> Val:
    """The sign bit flipped, NaNs too."""
    return b.op("xor", a, b.const(FORMATS[fmt].sign, a.elem))


def mul(b: Build, fmt: str, x: Val, y: Val, rounding: str, ftz: bool) -> Val:
    if fmt == "f64":
        return _mul64(b, x, y, rounding)
    if rounding == "rn" and fmt == "f32":
        if not ftz:
            return _canonical_single(b, b.op("fmul", _raw(b, x), _raw(b, y)))
        x, y = _flushed(b, fmt, ftz, x, y)
        u, v = b.bits(x, "float"), b.bits(y, "float")
        return _flush_scaled(b, b.op("fmul", u, v), lambda: b.op("fmul", _scaled(b, u), v))
    if rounding == "rn" and not ftz:
        return _half(b, fmt, "fmul", x, y)

    def body(b: Build, v: list[Val]) -> Val:
        values = [_wide(b, fmt, a) for a in _flushed(b, fmt, ftz, *v)]
        return _finish(b, fmt, b.op("fmul", *values), rounding, ftz)

    return shared(b, _name("mul", fmt, rounding, ftz), b.join(x, y), body)


def fma(b: Build, fmt: str, x: Val, y: Val, z: Val, rounding: str, ftz: bool) -> Val:
    if fmt == "f64":
        return _fma64(b, x, y, z, rounding)
    if rounding == "rn" and fmt == "f32":
        if not ftz:
            return _canonical_single(b, b.call("llvm.fma", *(_raw(b, a) for a in (x, y, z))))
        x, y, z = _flushed(b, fmt, ftz, x, y, z)
        u, v, w = (b.bits(a, "float") for a in (x, y, z))
        r = b.call("llvm.fma", u, v, w)
        return _flush_scaled(b, r, lambda: b.call("llvm.fma", _scaled(b, u), v, _scaled(b, w)))
    if rounding == "rn" and not ftz and fmt == "f16" and _native_half(b):
        values = [b.bits(a, "half") for a in (x, y, z)]
        return _canonical(b, fmt, b.bits(b.call("llvm.fma", *values), "i16"))

    def body(b: Build, v: list[Val]) -> Val:
        v = _flushed(b, fmt, ftz, *v)
        # A product of two f16 is exact in float, and float is odd enough for f16.
        values = [_value(b, fmt, a) if fmt == "f16" else _wide(b, fmt, a) for a in v]
        return _finish(b, fmt, sum_odd(b, b.op("fmul", *values[:2]), values[2], rounding), rounding, ftz)

    return shared(b, _name("fma", fmt, rounding, ftz), b.join(x, y, z), body)


def div(b: Build, fmt: str, x: Val, y: Val, rounding: str, ftz: bool) -> Val:
    if rounding == "rn" and fmt == "f32":
        x, y = _flushed(b, fmt, ftz, x, y)
        u, v = b.bits(x, "float"), b.bits(y, "float")
        r = b.op("fdiv", u, v)
        return _flush_scaled(b, r, lambda: b.op("fdiv", _scaled(b, u), v)) if ftz else _canonical(b, fmt, b.bits(r, "i32"))

    def body(b: Build, v: list[Val]) -> Val:
        if fmt == "f64":
            left, right = (b.bits(a, "double") for a in v)
            r = b.bits(b.op("fdiv", left, right), "i64") if rounding == "rn" else div64(b, left, right, rounding)
            return _nan64(b, r, *v)
        # A quotient of 24-bit numbers is never so close to a 25-bit one that 53 bits could not tell, so it needs no rounding to odd.
        values = [_wide(b, fmt, a) for a in _flushed(b, fmt, ftz, *v)]
        return _finish(b, fmt, b.op("fdiv", *values), rounding, ftz)

    return shared(b, _name("div", fmt, rounding, ftz), b.join(x, y), body)


def sqrt(b: Build, fmt: str, x: Val, rounding: str, ftz: bool) -> Val:
    if rounding == "rn" and fmt == "f32":
        # A root is never tiny.
        (x,) = _flushed(b, fmt, ftz, x)
        return _canonical(b, fmt, b.bits(b.call("llvm.sqrt", b.bits(x, "float")), "i32"))

    def body(b: Build, v: list[Val]) -> Val:
        if fmt == "f64":
            u = b.bits(v[0], "double")
            r = b.bits(b.call("llvm.sqrt", u), "i64") if rounding == "rn" else sqrt64(b, u, rounding)
            return _nan64(b, r, v[0])
        # As for quotients: 53 bits tell on which side of a 25-bit number a root lies.
        u = _wide(b, fmt, _flushed(b, fmt, ftz, v[0])[0])
        return _finish(b, fmt, b.call("llvm.sqrt", u), rounding, ftz)

    return shared(b, _name("sqrt", fmt, rounding, ftz), [x], body)


def _name(op: str, fmt: str, rounding: str, ftz: bool) -> str:
    return f"{op}.{fmt}.{rounding}{'.ftz' if ftz else ''}"


def _half(b: Build, fmt: str, opcode: str, x: Val, y: Val) -> Val:
    """A sum or product of f16 or bf16. Rounding to float and then again is innocuous: 24 bits are 2 * 11 + 2."""
    if fmt == "f16" and _native_half(b):
        r = b.bits(b.op(opcode, b.bits(x, "half"), b.bits(y, "half")), "i16")
        return _canonical(b, fmt, r)
    r = b.op(opcode, _value(b, fmt, x), _value(b, fmt, y))
    if fmt == "f16":
        return _canonical(b, fmt, narrow(b, fmt, r, "rn"))
    return _finish(b, fmt, r, "rn", False)


def _scaled(b: Build, v: Val) -> Val:
    return b.op("fmul", v, number(b, 2.0**32, "float"))


def _flush_scaled(b: Build, r: Val, again: Callable[[], Val]) -> Val:
    """An f32 result with the tiny ones flushed. ``again`` computes it 2**32 times as large, where rounding does not see the range's end.

    With operands that are normal or zero, scaling is exact, or overflows where the result cannot be tiny.
    """
    is_tiny = b.compare("fcmp olt", b.abs(again()), number(b, 2.0 ** (32 - 126), "float"))
    bits = b.bits(r, "i32")
    return _canonical(b, "f32", b.select(is_tiny, b.masked(bits, 0x80000000), bits))


# -- binary64 ---------------------------------------------------------------------------------------------------------
def _add64(b: Build, x: Val, y: Val, rounding: str) -> Val:
    if rounding == "rn":
        return _nan64(b, b.bits(b.op("fadd", b.bits(x, "double"), b.bits(y, "double")), "i64"), y, x)

    def body(b: Build, v: list[Val]) -> Val:
        return _nan64(b, fma64(b, b.bits(v[0], "double"), double(b, 1.0), b.bits(v[1], "double"), rounding), v[1], v[0])

    return shared(b, _name("add", "f64", rounding, False), b.join(x, y), body)


def _mul64(b: Build, x: Val, y: Val, rounding: str) -> Val:
    if rounding == "rn":
        return _nan64(b, b.bits(b.op("fmul", b.bits(x, "double"), b.bits(y, "double")), "i64"), y, x)

    def body(b: Build, v: list[Val]) -> Val:
        # An addend of zero with the product's sign changes no product.
        zero = b.bits(b.masked(b.op("xor", *v), 1 << 63), "double")
        return _nan64(b, fma64(b, b.bits(v[0], "double"), b.bits(v[1], "double"), zero, rounding), v[1], v[0])

    return shared(b, _name("mul", "f64", rounding, False), b.join(x, y), body)


def _fma64(b: Build, x: Val, y: Val, z: Val, rounding: str) -> Val:
    def body(b: Build, v: list[Val]) -> Val:
        left, right, addend = (b.bits(a, "double") for a in v)
        r = b.bits(b.call("llvm.fma", left, right, addend), "i64") if rounding == "rn" else fma64(b, left, right, addend, rounding)
        return _nan64(b, r, v[1], v[2], v[0])

    return shared(b, _name("fma", "f64", rounding, False), b.join(x, y, z), body)


# -- comparison and conversion ----------------------------------------------------------------------------------------
def compare(b: Build, fmt: str, op: str, x: Val, y: Val, ftz: bool) -> Val:
    x, y = _flushed(b, fmt, ftz, x, y)
    predicate = "uno" if op == "nan" else "o" + op
    if fmt == "f16" and _native_half(b):
        return b.compare(f"fcmp {predicate}", b.bits(x, "half"), b.bits(y, "half"))
    return b.compare(f"fcmp {predicate}", _value(b, fmt, x), _value(b, fmt, y))


def convert(b: Build, source: str, target: str, a: Val, rounding: str) -> Val:
    if source == target:
        return a
    if source == "bf16" and target == "f32":
        # Hardware moves the bits up, NaNs and all.
        return b.shifted("shl", b.cast("zext", a, "i32"), 16)
    if (source, target) == ("f16", "f64"):
        exact = b.bits(_wide(b, source, a), "i64")
        return b.select(_is_nan(b, _value(b, source, a)), _moved_nan(b, a, source, target), exact)
    if target == "f64":
        single = a if source == "f32" else convert(b, source, "f32", a, rounding)
        return _single_to_double(b, single)
    if source == "f64" and target == "f32":
        return shared(b, f"cvt.f32.f64.{rounding}", [a], lambda b, v: _double_to_single(b, v[0], rounding))
    if source == "f16" and target == "f32":
        return _canonical(b, "f32", b.bits(_value(b, source, a), "i32"))
    if rounding == "rn" and source == "f32":
        v = _value(b, source, a)
        return _canonical(b, "f16", narrow(b, target, v, "rn")) if target == "f16" else _finish(b, target, v, "rn", False)

    def body(b: Build, v: list[Val]) -> Val:
        result = _finish(b, target, _value(b, source, v[0]), rounding, False)
        if source == "f64":
            result = b.select(_is_nan(b, _value(b, source, v[0])), _moved_nan(b, v[0], source, target), result)
        return result

    return shared(b, f"cvt.{target}.{source}.{rounding}", [a], body)


def _moved_nan(b: Build, a: Val, source: str, target: str) -> Val:
    """A NaN's sign and upper payload bits in another format, quieted: what conversions between f64 and 16 bits do."""
    f, t = FORMATS[source], FORMATS[target]
    wide = a if source == "f64" else b.cast("zext", a, "i64")
    payload = b.masked(wide, (f.exponent & -f.exponent) - 1)
    shift = t.precision - f.precision
    payload = b.shifted("shl", payload, shift) if shift > 0 else b.shifted("lshr", payload, -shift)
    sign = b.masked(wide, f.sign)
    sign = b.shifted("shl", sign, t.width - f.width) if shift > 0 else b.shifted("lshr", sign, f.width - t.width)
    moved = b.op("or", b.op("or", sign, payload), b.const(t.exponent | (t.exponent & -t.exponent) >> 1, "i64"))
    return moved if target == "f64" else b.cast("trunc", moved, "i16")


def _single_to_double(b: Build, a: Val) -> Val:
    v = b.bits(a, "float")
    wide = b.cast("zext", a, "i64")
    sign = b.shifted("shl", b.masked(wide, 0x80000000), 32)
    payload = b.shifted("shl", b.masked(wide, 0x007FFFFF), 29)
    quieted = b.op("or", b.op("or", sign, payload), b.const(0x7FF8 << 48, "i64"))
    return b.select(_is_nan(b, v), quieted, b.bits(b.cast("fpext", v, "double"), "i64"))


def _double_to_single(b: Build, a: Val, rounding: str) -> Val:
    v = b.bits(a, "double")
    payload = b.masked(b.cast("trunc", b.shifted("lshr", a, 29), "i32"), 0x007FFFFF)
    sign = b.masked(b.cast("trunc", b.shifted("lshr", a, 32), "i32"), 0x80000000)
    quieted = b.op("or", b.op("or", sign, payload), b.const(0x7FC00000, "i32"))
    return b.select(_is_nan(b, v), quieted, narrow(b, "f32", v, rounding))


def round_integral(b: Build, fmt: str, a: Val, mode: str) -> Val:
    r = b.call(_INTEGRAL[mode], _value(b, fmt, a))
    if fmt == "f64":
        return _nan64(b, b.bits(r, "i64"), a)
    # The integral neighbours of a value have no more bits than the value: no second rounding.
    return _canonical(b, fmt, b.bits(r, "i32")) if fmt == "f32" else _finish(b, fmt, r, "rn", False)


def to_int(b: Build, fmt: str, a: Val, width: int, signed: bool, mode: str) -> Val:
    """Saturating; the result has ``width`` bits (8, 16, 32 or 64). NaN gives 0, but for f64 and for 64 bits the sign bit alone."""
    if width == 64:
        name = f"cvt.{'s' if signed else 'u'}64.{fmt}.{mode}"
        return shared(b, name, [a], lambda b, v: _to_int(b, fmt, v[0], 64, 64, signed, mode))
    return _to_int(b, fmt, a, width, 32, signed, mode)


def _to_int(b: Build, fmt: str, a: Val, width: int, holder: int, signed: bool, mode: str) -> Val:
    """The conversion instruction gives ``holder`` bits."""
    v = b.call(_INTEGRAL[mode], _value(b, fmt, a))
    low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
    above = b.compare("fcmp oge", v, number(b, float(high), v.elem))
    inside = b.op("and", b.compare("fcmp oge", v, number(b, float(low), v.elem)), b.compare("fcmp olt", v, number(b, float(high), v.elem)))
    elem = f"i{holder}"
    # Out of range the conversion is undefined: those lanes convert a zero.
    safe = b.select(inside, v, number(b, 0.0, v.elem))
    r = b.cast("fptosi" if signed or width < holder else "fptoui", safe, elem)
    r = b.select(above, b.const(high - 1, elem), r)
    if signed:
        r = b.select(b.compare("fcmp olt", v, number(b, float(low), v.elem)), b.const(low, elem), r)
    if width == 64 or fmt == "f64":
        r = b.select(_is_nan(b, v), b.const(1 << (width - 1), elem), r)
    return b.cast("trunc", r, f"i{width}") if width < holder else r


def from_int(b: Build, a: Val, signed: bool, fmt: str, rounding: str) -> Val:
    opcode = "sitofp" if signed else "uitofp"
    if rounding == "rn" and (fmt == "f64" or (fmt == "f32" and a.width <= 32)):
        return b.bits(b.cast(opcode, a, _NATIVE[fmt]), f"i{FORMATS[fmt].width}")
    if a.width < 64:
        v = b.cast(opcode, a, "float" if a.width <= 16 else "double")
        return b.bits(b.cast(opcode, a, "double"), "i64") if fmt == "f64" else narrow(b, fmt, v, rounding)
    name = f"cvt.{fmt}.{'s' if signed else 'u'}64.{rounding}"
    return shared(b, name, [a], lambda b, v: _from_int64(b, v[0], signed, fmt, rounding))


def _from_int64(b: Build, a: Val, signed: bool, fmt: str, rounding: str) -> Val:
    upper = b.cast("trunc", b.shifted("lshr", a, 32), "i32")
    high = b.op("fmul", b.cast("sitofp" if signed else "uitofp", upper, "double"), double(b, 2.0**32))
    near, error = two_sum(b, high, b.cast("uitofp", b.cast("trunc", a, "i32"), "double"))
    if fmt == "f64":
        return directed_by_error(b, near, error, rounding)
    return narrow(b, fmt, to_odd(b, near, error), rounding)
