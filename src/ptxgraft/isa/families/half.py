"""Half precision arithmetic, alone and in pairs (PTX ISA manual, "Half Precision Floating Point Instructions").

Invariant: a pair is two independent operations; each is the exact value rounded once, to nearest even.
"""

from __future__ import annotations

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import each, element
from ptxgraft.isa.roles import binary, unary

_F16, _BF16 = "{type:f16|f16x2}", "{type:bf16|bf16x2}"


def add(lanes: Lanes, a: Value, b: Value, *, ftz: str, sat: str, type: str) -> Value:
    """d = a + b."""
    fmt = element(type)
    return each(lanes, type, lambda x, y: floats.saturate(lanes, fmt, lanes.float_add(fmt, x, y, "rn", bool(ftz)), sat), a, b)


def sub(lanes: Lanes, a: Value, b: Value, *, ftz: str, sat: str, type: str) -> Value:
    """d = a - b."""
    fmt = element(type)
    return each(lanes, type, lambda x, y: floats.saturate(lanes, fmt, lanes.float_sub(fmt, x, y, "rn", bool(ftz)), sat), a, b)


def mul(lanes: Lanes, a: Value, b: Value, *, ftz: str, sat: str, type: str) -> Value:
    """d = a * b."""
    fmt = element(type)
    return each(lanes, type, lambda x, y: floats.saturate(lanes, fmt, lanes.float_mul(fmt, x, y, "rn", bool(ftz)), sat), a, b)


_EXAMPLES = {
    "add": [
        ("add.rn.f16x2", (0x3C003C00, 0x40001400), (0x42003C01,)),
        ("add.f16", (0x7BFF, 0x7BFF), (0x7C00,)),
        ("add.f16", (0x7C00, 0xFC00), (0x7FFF,)),
        ("add.ftz.f16", (1, 0x8000), (0,)),
        ("add.sat.f16x2", (0x3C00FFFF, 0x3C000000), (0x3C000000,)),
    ],
    "sub": [("sub.f16", (0x3C00, 0x4000), (0xBC00,)), ("sub.rn.f16x2", (0x3C000001, 0x3C000002), (0x00008001,))],
    "mul": [
        ("mul.f16", (0x4000, 0x4200), (0x4600,)),
        ("mul.f16", (0x0001, 0x3800), (0,)),
        ("mul.rn.f16x2", (0x7C000003, 0x00003800), (0x7FFF0002,)),
    ],
}
_EXAMPLES_BF16 = {
    "add": [("add.bf16", (0x3F80, 0x4000), (0x4040,)), ("add.rn.bf16x2", (0x3F803F80, 0x3B803F80), (0x3F804000,))],
    "sub": [("sub.bf16", (0x3F80, 0x4000), (0xBF80,))],
    "mul": [("mul.bf16x2", (0x40004040, 0x40007F80), (0x40807F80,))],
}
for _root, _meaning in (("add", add), ("sub", sub), ("mul", mul)):
    binary(f"{_root}.{{rounding:rn}}?.{{ftz:ftz}}?.{{sat:sat}}?.{_F16}", since=(4, 2), sm=53, examples=_EXAMPLES[_root])(_meaning)
    binary(f"{_root}.{{rounding:rn}}?.{_BF16}", since=(7, 8), sm=90, examples=_EXAMPLES_BF16[_root])(_meaning)


@binary(
    f"fma.rn.{{ftz:ftz}}?.{{sat:sat}}?.{_F16}",
    c="in {type}",
    since=(4, 2),
    sm=53,
    examples=[
        ("fma.rn.f16", (0x4000, 0x4200, 0x3C00), (0x4700,)),
        ("fma.rn.f16x2", (0x3C013C00, 0x3C013C00, 0x00003C00), (0x3C024000,)),
        ("fma.rn.sat.f16", (0x4000, 0x4200, 0x3C00), (0x3C00,)),
        ("fma.rn.f16", (0x7C00, 0, 0x3C00), (0x7FFF,)),
        ("fma.rn.ftz.f16", (0x0001, 0x3C00, 0), (0,)),
    ],
)
@binary(
    f"fma.rn.{{ftz:ftz}}?.{{relu:relu}}.{_F16}",
    c="in {type}",
    since=(7, 0),
    sm=80,
    examples=[
        ("fma.rn.relu.f16", (0x4000, 0xC200, 0x3C00), (0,)),
        ("fma.rn.relu.f16x2", (0x3C007C00, 0x3C000000, 0x3C003C00), (0x40007FFF,)),
    ],
)
@binary(
    f"fma.rn.{{relu:relu}}?.{_BF16}",
    c="in {type}",
    since=(7, 0),
    sm=80,
    examples=[
        ("fma.rn.bf16", (0x4000, 0x4040, 0x3F80), (0x40E0,)),
        ("fma.rn.relu.bf16x2", (0xC0004000, 0x40404040, 0x3F803F80), (0x000040E0,)),
    ],
)
def fma(lanes: Lanes, a: Value, b: Value, c: Value, *, ftz: str, sat: str, relu: str, type: str) -> Value:
    """d = a * b + c, rounded once; relu: negative results and -0 give +0."""
    fmt = element(type)

    def one(x: Value, y: Value, z: Value) -> Value:
        result = floats.saturate(lanes, fmt, lanes.float_fma(fmt, x, y, z, "rn", bool(ftz)), sat)
        return floats.relu(lanes, fmt, result, relu)

    return each(lanes, type, one, a, b, c)


_OUTSIDE = 0x7FF7
"""The NaN of elements outside of a tensor, whatever its sign, in f16 and bf16 alike: measured on an H200, for the manual does not say."""


@binary(
    "fma.rn.oob.{finish:relu|sat}?.{type:f16|f16x2}", c="in {type}", since=(8, 1), sm=90,
    examples=[
        ("fma.rn.oob.f16", (0x4000, 0x4200, 0x3C00), (0x4700,)),
        ("fma.rn.oob.f16", (0xFFF7, 0x7C00, 0x3C00), (0,)),
        ("fma.rn.oob.f16x2", (0x3C007E00, 0x7FF73C00, 0x7FF73C00), (0x00007FFF,)),
        ("fma.rn.oob.sat.f16", (0x4000, 0x4200, 0x3C00), (0x3C00,)),
        ("fma.rn.oob.relu.f16", (0x3C00, 0x3C00, 0x7FF7), (0x7FFF,)),
    ],
)  # fmt: skip
@binary(
    "fma.rn.oob.{finish:relu}?.{type:bf16|bf16x2}", c="in {type}", since=(8, 1), sm=90,
    examples=[("fma.rn.oob.bf16x2", (0x7FF74000, 0x7F804040, 0x7FFF3F80), (0x000040E0,)), ("fma.rn.oob.relu.bf16", (0xBF80, 0x3F80, 0), (0,))],
)  # fmt: skip
def fma_out_of_bounds(lanes: Lanes, a: Value, b: Value, c: Value, *, finish: str, type: str) -> Value:
    """As ``fma``, but +0 where a or b is the NaN that tensor copies give for elements outside."""
    fmt = element(type)

    def one(x: Value, y: Value, z: Value) -> Value:
        result = floats.saturate(lanes, fmt, lanes.float_fma(fmt, x, y, z), finish == "sat")
        result = floats.relu(lanes, fmt, result, finish == "relu")
        outside = lanes.const(_OUTSIDE, 16)
        either = lanes.or_(*(lanes.compare("eq", floats.magnitude(lanes, fmt, v), outside) for v in (x, y)))
        return lanes.select(either, lanes.const(0, 16), result)

    return each(lanes, type, one, a, b, c)


@unary(
    f"neg.{{ftz:ftz}}?.{_F16}",
    since=(6, 0),
    sm=53,
    examples=[("neg.f16", (0x3C00,), (0xBC00,)), ("neg.f16x2", (0x7E003C00,), (0x7FFFBC00,)), ("neg.ftz.f16", (1,), (0x8000,))],
)
@unary(f"neg.{_BF16}", since=(7, 0), sm=80, examples=[("neg.bf16x2", (0xFFC03F80,), (0x7FFFBF80,))])
def neg(lanes: Lanes, a: Value, *, ftz: str, type: str) -> Value:
    """d = -a."""
    return each(lanes, type, lambda x: floats.negated(lanes, element(type), x, ftz), a)


@unary(
    f"abs.{{ftz:ftz}}?.{_F16}",
    since=(6, 5),
    sm=53,
    examples=[("abs.f16", (0xBC00,), (0x3C00,)), ("abs.f16x2", (0xFE01BC00,), (0x7FFF3C00,)), ("abs.ftz.f16", (0x8001,), (0,))],
)
@unary(f"abs.{_BF16}", since=(7, 0), sm=80, examples=[("abs.bf16", (0xBF80,), (0x3F80,))])
def abs_(lanes: Lanes, a: Value, *, ftz: str, type: str) -> Value:
    """d = |a|."""
    return each(lanes, type, lambda x: floats.absolute(lanes, element(type), x, ftz), a)


def min_(lanes: Lanes, a: Value, b: Value, *, ftz: str, nan: str, xorsign: str, type: str) -> Value:
    """d = the smaller; one NaN gives the other operand, with .NaN a NaN."""
    return each(lanes, type, lambda x, y: floats.extreme(lanes, element(type), False, x, y, ftz, nan, xorsign), a, b)


def max_(lanes: Lanes, a: Value, b: Value, *, ftz: str, nan: str, xorsign: str, type: str) -> Value:
    """d = the larger; one NaN gives the other operand, with .NaN a NaN."""
    return each(lanes, type, lambda x, y: floats.extreme(lanes, element(type), True, x, y, ftz, nan, xorsign), a, b)


for _root, _meaning in (("min", min_), ("max", max_)):
    _first = _root == "min"
    for _types, _ftz in ((_F16, ".{ftz:ftz}?"), (_BF16, "")):
        binary(
            f"{_root}{_ftz}.{{nan:NaN}}?.{{xorsign:xorsign}}?.{{absolute:abs}}?.{_types}",
            legal=lambda *, xorsign, absolute, **_: bool(xorsign) == bool(absolute),
            since=(7, 0),
            sm=80,
            examples=[
                (f"{_root}.f16x2", (0x3C008000, 0x40000000), (0x3C008000 if _first else 0x40000000,)),
                (f"{_root}.f16", (0x7E00, 0x3C00), (0x3C00,)),
                (f"{_root}.NaN.f16", (0x7E00, 0x3C00), (0x7FFF,)),
                (f"{_root}.ftz.f16", (0x8001, 0x0000), (0x8000 if _first else 0,)),
                (f"{_root}.xorsign.abs.f16x2", (0xC0003C00, 0x3C00C000), (0xBC00BC00 if _first else 0xC000C000,)),
            ]
            if _ftz
            else [(f"{_root}.bf16x2", (0x3F804000, 0x40003F80), (0x3F803F80 if _first else 0x40004000,))],
        )(_meaning)
