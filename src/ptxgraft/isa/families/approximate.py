"""Approximate functions (PTX ISA manual, "Floating Point Instructions", the ``.approx`` and ``.full`` forms).

Invariant: each is compiled to the hardware's table function (``isa.approximate``) with scaling around it, and here stands exactly that
scaling, in the same order of operations. Subnormal inputs, which the table functions flush, are scaled first unless ``.ftz`` is asked for. On the profile
``manual`` all are rounded correctly instead (``isa.rounded``).
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa import approximate, rounded
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

ONE, TWO, THREE, FOUR, INF, NAN = 0x3F800000, 0x40000000, 0x40400000, 0x40800000, 0x7F800000, 0x7FFFFFFF
MINUS_INF, MINUS_ZERO, SUBNORMAL = 0xFF800000, 0x80000000, 0x00000001
_SMALLEST, _HUGE = 0x00800000, 0x7E800000  # 2^-126, 2^126
_2_24, _2_12, _2_M12, _QUARTER, _HALF, _MINUS_24, _MINUS_126 = (
    0x4B800000, 0x45800000, 0x39800000, 0x3E800000, 0x3F000000, 0xC1C00000, 0xC2FC0000,
)  # fmt: skip

Function = Callable[[Lanes, Value], Value]


def _exact(lanes: Lanes) -> bool:
    """Is the correctly rounded result wanted?"""
    return lanes.profile == "manual"


def _c(lanes: Lanes, bits: int) -> Value:
    return lanes.const(bits, 32)


def _tiny(lanes: Lanes, a: Value) -> Value:
    """|a| < 2^-126, zero included."""
    return lanes.compare("lt", lanes.and_(a, _c(lanes, 0x7FFFFFFF)), _c(lanes, _SMALLEST))


def _large(lanes: Lanes, a: Value) -> Value:
    """|a| > 2^126. NaN too: scaling keeps it."""
    return lanes.compare("gt", lanes.and_(a, _c(lanes, 0x7FFFFFFF)), _c(lanes, _HUGE))


def _scale(lanes: Lanes, a: Value, *cases: tuple[Value, int]) -> tuple[Value, Value]:
    """(a * s, s) with s the power of two of the case that holds, else 1."""
    s = _c(lanes, ONE)
    for condition, factor in cases:
        s = lanes.select(condition, _c(lanes, factor), s)
    return lanes.float_mul("f32", a, s), s


def _rescaled(lanes: Lanes, function: Function, a: Value, back: int) -> Value:
    """The function of a tiny ``a`` times 2^24, times ``back``; of any other as it is."""
    tiny = _tiny(lanes, a)
    scaled, _ = _scale(lanes, a, (tiny, _2_24))
    return lanes.float_mul("f32", function(lanes, scaled), lanes.select(tiny, _c(lanes, back), _c(lanes, ONE)))


@instruction(
    "rcp.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[
        ("rcp.approx.ftz.f32", (TWO,), (_HALF,)),
        ("rcp.approx.ftz.f32", (SUBNORMAL,), (INF,)),
        ("rcp.approx.f32", (MINUS_ZERO,), (MINUS_INF,)),
        ("rcp.approx.f32", (0x7F7FFFFF,), (0x00200000,)),
        ("rcp.approx.f32", (0x00400000,), (0x7F000000,)),
    ],
)
def rcp(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = 1 / a, within 1 ulp."""
    if _exact(lanes):
        return rounded.rcp(lanes, a, bool(ftz))
    if ftz:
        return approximate.rcp(lanes, a)
    scaled, s = _scale(lanes, a, (_tiny(lanes, a), _2_24), (_large(lanes, a), _QUARTER))
    return lanes.float_mul("f32", s, approximate.rcp(lanes, scaled))


@instruction(
    "rsqrt.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[
        ("rsqrt.approx.ftz.f32", (FOUR,), (_HALF,)),
        ("rsqrt.approx.f32", (0,), (INF,)),
        ("rsqrt.approx.f32", (0xBF800000,), (NAN,)),
        ("rsqrt.approx.f32", (0x00000002,), (0x64800000,)),
    ],
)
def rsqrt(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = 1 / sqrt(a), within 2 ulp."""
    if _exact(lanes):
        return rounded.rsqrt(lanes, a, bool(ftz))
    return approximate.rsqrt(lanes, a) if ftz else _rescaled(lanes, approximate.rsqrt, a, _2_12)


@instruction(
    "sqrt.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[
        ("sqrt.approx.ftz.f32", (FOUR,), (TWO,)),
        ("sqrt.approx.f32", (MINUS_ZERO,), (MINUS_ZERO,)),
        ("sqrt.approx.ftz.f32", (SUBNORMAL,), (0,)),
        ("sqrt.approx.f32", (MINUS_INF,), (NAN,)),
    ],
)
def sqrt(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = sqrt(a), approximate."""
    if _exact(lanes):
        return rounded.sqrt(lanes, a, bool(ftz))
    return approximate.sqrt(lanes, a) if ftz else _rescaled(lanes, approximate.sqrt, a, _2_M12)


@instruction(
    "lg2.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[
        ("lg2.approx.ftz.f32", (ONE,), (0,)),
        ("lg2.approx.ftz.f32", (_HALF,), (0xBF7FFFFE,)),
        ("lg2.approx.f32", (0,), (MINUS_INF,)),
        ("lg2.approx.f32", (0xBF800000,), (NAN,)),
    ],
)
def lg2(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = the binary logarithm of a."""
    if _exact(lanes):
        return rounded.lg2(lanes, a, bool(ftz))
    if ftz:
        return approximate.lg2(lanes, a)
    tiny = _tiny(lanes, a)
    result = approximate.lg2(lanes, _scale(lanes, a, (tiny, _2_24))[0])
    return lanes.select(tiny, lanes.float_add("f32", result, _c(lanes, _MINUS_24)), result)


@instruction(
    "ex2.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[
        ("ex2.approx.ftz.f32", (TWO,), (FOUR,)),
        ("ex2.approx.ftz.f32", (MINUS_INF,), (0,)),
        ("ex2.approx.ftz.f32", (0xC2FE0000,), (0,)),
        ("ex2.approx.f32", (0xC2FE0000,), (0x003FFFFF,)),
        ("ex2.approx.f32", (NAN,), (NAN,)),
    ],
)
def ex2(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = 2^a."""
    if _exact(lanes):
        return rounded.ex2(lanes, "f32", a, bool(ftz))
    if ftz:
        return approximate.ex2(lanes, a)
    small = lanes.float_compare("f32", "lt", a, _c(lanes, _MINUS_126))
    halved = lanes.select(small, lanes.float_mul("f32", a, _c(lanes, _HALF)), a)
    result = approximate.ex2(lanes, halved)
    return lanes.select(small, lanes.float_mul("f32", result, result), result)


@instruction(
    "sin.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[("sin.approx.f32", (MINUS_ZERO,), (MINUS_ZERO,)), ("sin.approx.ftz.f32", (INF,), (NAN,))],
)
def sin(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = sin(a), a in radians."""
    if _exact(lanes):
        return rounded.sine(lanes, a, ftz=bool(ftz))
    return approximate.sine(lanes, a)


@instruction(
    "cos.approx.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    examples=[("cos.approx.f32", (MINUS_ZERO,), (ONE,)), ("cos.approx.ftz.f32", (MINUS_INF,), (NAN,))],
)
def cos(lanes: Lanes, a: Value, *, ftz: str) -> Value:
    """d = cos(a), a in radians."""
    if _exact(lanes):
        return rounded.sine(lanes, a, cosine=True, ftz=bool(ftz))
    return approximate.sine(lanes, a, cosine=True)


_CYCLES = "sin.approx.ftz.f32 and cos.approx.ftz.f32 of the input times 2 pi run; on='cuda' runs it where the GPU has it"


@instruction("sin.approx.ftz.2pi.f32", d="out f32", a="in f32", since=(9, 5))
@refused(_CYCLES)
def sin_cycles(lanes: Lanes) -> None:
    """d = sin(2 pi a), a in cycles. The bits were not measured on a card."""


@instruction("cos.approx.ftz.2pi.f32", d="out f32", a="in f32", since=(9, 5))
@refused(_CYCLES)
def cos_cycles(lanes: Lanes) -> None:
    """d = cos(2 pi a), a in cycles. The bits were not measured on a card."""


@instruction(
    "tanh.approx.{type:f32}",
    since=(7, 0),
    sm=75,
    d="out {type}",
    a="in {type}",
    examples=[("tanh.approx.f32", (SUBNORMAL,), (SUBNORMAL,)), ("tanh.approx.f32", (MINUS_INF,), (0xBF800000,))],
)
def tanh(lanes: Lanes, a: Value) -> Value:
    """d = tanh(a)."""
    if _exact(lanes):
        return rounded.tanh(lanes, "f32", a)
    return approximate.tanh(lanes, a)


# -- halves: widen, the f32 function, cut --------------------------------------------------------------------------------
def _half(lanes: Lanes, function: Function, fmt: str, a: Value) -> Value:
    wide = lanes.float_convert(fmt, "f32", a)
    if _exact(lanes):
        return rounded.tanh(lanes, fmt, wide) if function is approximate.tanh else rounded.ex2(lanes, fmt, wide, ftz=fmt == "bf16")
    result = function(lanes, wide)
    cut = lanes.float_convert("f32", fmt, result, "rz")
    if fmt == "bf16":
        return cut
    # Only ex2 gets there; cutting alone would stop at the largest f16.
    past = lanes.compare("ge", result, _c(lanes, 0x47800000))
    finite = lanes.compare("le", result, _c(lanes, INF))
    return lanes.select(past, lanes.select(finite, lanes.const(0x7C00, 16), cut), cut)


def _halves(lanes: Lanes, function: Function, type: str, a: Value) -> Value:
    fmt = type.removesuffix("x2")
    if fmt == type:
        return _half(lanes, function, fmt, a)
    return lanes.concat([_half(lanes, function, fmt, lanes.extract(a, offset, 16)) for offset in (0, 16)])


@instruction(
    "ex2.approx.{type:f16|f16x2}",
    since=(7, 0),
    sm=75,
    d="out {type}",
    a="in {type}",
    examples=[("ex2.approx.f16", (0x4000,), (0x4400,)), ("ex2.approx.f16x2", (0x7C004C00,), (0x7C007C00,))],
)
def ex2_half(lanes: Lanes, a: Value, *, type: str) -> Value:
    """d = 2^a of each half."""
    return _halves(lanes, approximate.ex2, type, a)


@instruction(
    "ex2.approx.ftz.{type:bf16|bf16x2}",
    since=(7, 8),
    sm=90,
    d="out {type}",
    a="in {type}",
    examples=[("ex2.approx.ftz.bf16", (0x4000,), (0x4080,)), ("ex2.approx.ftz.bf16x2", (0xFF807FC0,), (0x00007FFF,))],
)
def ex2_bf16(lanes: Lanes, a: Value, *, type: str) -> Value:
    """d = 2^a of each half."""
    return _halves(lanes, approximate.ex2, type, a)


@instruction(
    "tanh.approx.{type:f16|f16x2}",
    since=(7, 0),
    sm=75,
    d="out {type}",
    a="in {type}",
    examples=[("tanh.approx.f16", (0xFC00,), (0xBC00,)), ("tanh.approx.f16x2", (0x00017E00,), (0x00017FFF,))],
)
def tanh_half(lanes: Lanes, a: Value, *, type: str) -> Value:
    """d = tanh(a) of each half."""
    return _halves(lanes, approximate.tanh, type, a)


@instruction(
    "tanh.approx.{type:bf16|bf16x2}",
    since=(7, 8),
    sm=90,
    d="out {type}",
    a="in {type}",
    examples=[("tanh.approx.bf16", (0x7F80,), (0x3F80,)), ("tanh.approx.bf16x2", (0x80007FFF,), (0x80007FFF,))],
)
def tanh_bf16(lanes: Lanes, a: Value, *, type: str) -> Value:
    """d = tanh(a) of each half."""
    return _halves(lanes, approximate.tanh, type, a)


# -- quotients ----------------------------------------------------------------------------------------------------------
@instruction(
    "div.{kind:approx|full}.{ftz}?.{type:f32}",
    since=(1, 4),
    d="out {type}",
    a="in {type}",
    b="in {type}",
    examples=[
        ("div.approx.f32", (FOUR, TWO), (TWO,)),
        ("div.full.f32", (FOUR, TWO), (TWO,)),
        ("div.approx.f32", (TWO, 0x7F000000), (0,)),
        ("div.full.ftz.f32", (0x7F000000, 0x7F000000), (ONE,)),
        ("div.approx.ftz.f32", (ONE, 0), (INF,)),
    ],
)
def div(lanes: Lanes, a: Value, b: Value, *, kind: str, ftz: str) -> Value:
    """d = a * (1 / b), both scaled where 1 / b would be lost: tiny b without ``.ftz``, large b with ``.full``."""
    if _exact(lanes):
        return rounded.div(lanes, a, b, kind == "full", bool(ftz))
    flush = bool(ftz)
    scale = _c(lanes, ONE)
    if not ftz:
        scale = lanes.select(_tiny(lanes, b), _c(lanes, _2_24), scale)
    if kind == "full":
        scale = lanes.select(_large(lanes, b), _c(lanes, _QUARTER), scale)
    if kind == "full" or not ftz:
        a, b = (lanes.float_mul("f32", x, scale, ftz=flush) for x in (a, b))
    return lanes.float_mul("f32", a, approximate.rcp(lanes, b), ftz=flush)


# -- f64 ------------------------------------------------------------------------------------------------------------------
def _through_high(lanes: Lanes, function: Function, a: Value) -> Value:
    return lanes.concat([_c(lanes, 0), function(lanes, lanes.extract(a, 32, 32))])


@instruction(
    "rcp.approx.ftz.{type:f64}",
    since=(2, 1),
    sm=20,
    d="out {type}",
    a="in {type}",
    examples=[("rcp.approx.ftz.f64", (0x4000 << 48,), (0x3FE0 << 48,)), ("rcp.approx.ftz.f64", (1,), (0x7FF0 << 48,))],
)
def rcp_f64(lanes: Lanes, a: Value) -> Value:
    """d = 1 / a from the high word of a to 20 fraction bits."""
    if _exact(lanes):
        return rounded.rcp_high(lanes, a)
    return _through_high(lanes, approximate.rcp64h, a)


@instruction(
    "rsqrt.approx.ftz.{type:f64}",
    since=(4, 0),
    sm=20,
    d="out {type}",
    a="in {type}",
    examples=[("rsqrt.approx.ftz.f64", (0x4010 << 48,), (0x3FE0 << 48,))],
)
def rsqrt_ftz_f64(lanes: Lanes, a: Value) -> Value:
    """d = 1 / sqrt(a) from the high word of a to 20 fraction bits."""
    if _exact(lanes):
        return rounded.rsqrt_high(lanes, a)
    return _through_high(lanes, approximate.rsqrt64h, a)


@instruction(
    "rsqrt.approx.{type:f64}",
    since=(1, 4),
    sm=13,
    d="out {type}",
    a="in {type}",
    examples=[
        ("rsqrt.approx.f64", (0x4010 << 48,), (0x3FE0 << 48,)),
        ("rsqrt.approx.f64", (0xBFF0 << 48,), (0xFFF8 << 48,)),
        ("rsqrt.approx.f64", ((0x7FF0 << 48) | 1,), ((0x7FF8 << 48) | 1,)),
    ],
)
def rsqrt_f64(lanes: Lanes, a: Value) -> Value:
    """d = 1 / sqrt(a): the table's value and one Newton step."""
    if _exact(lanes):
        return rounded.rsqrt_double(lanes, a)

    def c(bits: int) -> Value:
        return lanes.const(bits, 64)

    size = lanes.and_(a, c((1 << 63) - 1))
    sign = lanes.and_(a, c(1 << 63))
    tiny = lanes.compare("lt", size, c(1 << 52))
    x = lanes.select(tiny, lanes.float_mul("f64", a, c(0x4350 << 48)), a)  # 2^54
    first = _through_high(lanes, approximate.rsqrt64h, x)
    square = lanes.xor(lanes.float_mul("f64", first, first), c(1 << 63))
    error = lanes.float_fma("f64", x, square, c(0x3FF0 << 48))
    factor = lanes.float_fma("f64", error, c(0x3FD8 << 48), c(0x3FE0 << 48))
    result = lanes.float_fma("f64", factor, lanes.float_mul("f64", error, first), first)
    result = lanes.select(tiny, lanes.float_mul("f64", result, c(0x41A0 << 48)), result)  # 2^27
    infinity = c(0x7FF0 << 48)
    result = lanes.select(lanes.compare("eq", a, infinity), c(0), result)
    result = lanes.select(lanes.compare("ne", sign, c(0)), c(0xFFF8 << 48), result)
    result = lanes.select(lanes.compare("eq", size, c(0)), lanes.or_(sign, infinity), result)
    return lanes.select(lanes.compare("gt", size, infinity), lanes.or_(a, c(1 << 51)), result)
