"""Single and double precision arithmetic (PTX ISA manual, "Floating Point Instructions", the exactly rounded ones).

Invariant: one rounding; ``.sat`` and the sign rules of min and max act on the rounded result. Without a rounding modifier: rn.
"""

from __future__ import annotations

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.roles import binary, unary

MODES = "rn|rz|rm|rp"
ONE, TWO, THREE, TENTH = 0x3F800000, 0x40000000, 0x40400000, 0x3DCCCCCD
NAN, INF, MINUS_ZERO = 0x7FFFFFFF, 0x7F800000, 0x80000000
D_ONE, D_THREE = 0x3FF << 52, 0x4008 << 48


def add(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str, sat: str, type: str) -> Value:
    """d = a + b."""
    return floats.saturate(lanes, type, lanes.float_add(type, a, b, rounding or "rn", bool(ftz)), sat)


def sub(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str, sat: str, type: str) -> Value:
    """d = a - b."""
    return floats.saturate(lanes, type, lanes.float_sub(type, a, b, rounding or "rn", bool(ftz)), sat)


def mul(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str, sat: str, type: str) -> Value:
    """d = a * b."""
    return floats.saturate(lanes, type, lanes.float_mul(type, a, b, rounding or "rn", bool(ftz)), sat)


_EXAMPLES = {
    "add": [
        ("add.f32", (ONE, TWO), (THREE,)),
        ("add.rz.f32", (ONE, 0x33800000), (ONE,)),
        ("add.rp.f32", (ONE, 0x00000001), (0x3F800001,)),
        ("add.rm.f32", (ONE, 0xBF800000), (MINUS_ZERO,)),
        ("add.f32", (INF, 0xFF800000), (NAN,)),
        ("add.f32", (0x7FC12345, ONE), (NAN,)),
        ("add.ftz.f32", (0x80000001, MINUS_ZERO), (MINUS_ZERO,)),
        ("add.ftz.sat.f32", (ONE, TWO), (ONE,)),
        ("add.sat.f32", (NAN, TWO), (0,)),
    ],
    "sub": [("sub.f32", (ONE, TWO), (0xBF800000,)), ("sub.rm.f32", (ONE, ONE), (MINUS_ZERO,)), ("sub.sat.f32", (ONE, TWO), (0,))],
    "mul": [
        ("mul.f32", (TWO, THREE), (0x40C00000,)),
        ("mul.rn.f32", (0xA0000000, 0x1F800000), (0x80400000,)),
        ("mul.rn.ftz.f32", (0xA0000000, 0x1F800000), (MINUS_ZERO,)),
        ("mul.ftz.f32", (0x3F7FFFFF, 0x00800000), (0,)),
        ("mul.rz.f32", (TENTH, TENTH), (0x3C23D70A,)),
        ("mul.rp.f32", (0x7F7FFFFF, TWO), (INF,)),
        ("mul.rz.f32", (0x7F7FFFFF, TWO), (0x7F7FFFFF,)),
        ("mul.f32", (INF, 0), (NAN,)),
    ],
}
_EXAMPLES64 = {
    "add": [
        ("add.f64", (D_ONE, D_ONE), (1 << 62,)),
        ("add.rp.f64", (D_ONE, 1), (D_ONE + 1,)),
        ("add.f64", (0x7FF0 << 48, 0xFFF0 << 48), (0xFFF8 << 48,)),
    ],
    "sub": [
        ("sub.f64", (D_ONE, D_ONE), (0,)),
        ("sub.rz.f64", (D_ONE, 1), (D_ONE - 1,)),
        ("sub.f64", (D_ONE, 0xFFF0 << 48 | 1), (0xFFF8 << 48 | 1,)),
    ],
    "mul": [
        ("mul.f64", (D_THREE, D_ONE), (D_THREE,)),
        ("mul.f64", (0xFFF0000000000005, D_ONE), (0xFFF8000000000005,)),
        ("mul.rp.f64", (1, 1), (1,)),
    ],
}
for _root, _meaning in (("add", add), ("sub", sub), ("mul", mul)):
    binary(f"{_root}.{{rounding:{MODES}}}?.{{ftz:ftz}}?.{{sat:sat}}?.{{type:f32}}", examples=_EXAMPLES[_root])(_meaning)
    binary(f"{_root}.{{rounding:{MODES}}}?.{{type:f64}}", sm=13, examples=_EXAMPLES64[_root])(_meaning)


def fma(lanes: Lanes, a: Value, b: Value, c: Value, *, rounding: str, ftz: str, sat: str, type: str) -> Value:
    """d = a * b + c, rounded once."""
    return floats.saturate(lanes, type, lanes.float_fma(type, a, b, c, rounding, bool(ftz)), sat)


for _root in ("fma", "mad"):
    binary(
        f"{_root}.{{rounding:{MODES}}}.{{ftz:ftz}}?.{{sat:sat}}?.{{type:f32}}",
        c="in {type}",
        since=(2, 0),
        sm=20,
        examples=[
            (f"{_root}.rn.f32", (TWO, THREE, ONE), (0x40E00000,)),
            (f"{_root}.rn.f32", (0x3F800001, 0x3F800001, 0xBF800002), (0x28800000,)),
            (f"{_root}.rz.f32", (ONE, ONE, 0xB3000000), (0x3F7FFFFF,)),
            (f"{_root}.rn.ftz.f32", (0x00000001, ONE, 0), (0,)),
            (f"{_root}.rn.sat.f32", (TWO, THREE, ONE), (ONE,)),
            (f"{_root}.rn.f32", (INF, 0, NAN), (NAN,)),
        ],
    )(fma)
    binary(
        f"{_root}.{{rounding:{MODES}}}.{{type:f64}}",
        c="in {type}",
        since=(1, 4),
        sm=13,
        examples=[
            (f"{_root}.rn.f64", (D_THREE, D_THREE, D_ONE), (0x4024 << 48,)),
            (f"{_root}.rn.f64", (D_ONE + 1, D_ONE + 1, 0xBFF0000000000002), (0x3970 << 48,)),
            (f"{_root}.rm.f64", (D_ONE, D_ONE, 0xBFF0 << 48), (1 << 63,)),
            (f"{_root}.rn.f64", (0x7FF0000000000001, 0xFFF0000000000002, 0x7FF0000000000003), (0xFFF8000000000002,)),
        ],
    )(fma)


@binary(
    f"div.{{rounding:{MODES}}}.{{ftz:ftz}}?.{{type:f32}}",
    since=(2, 0),
    sm=20,
    examples=[
        ("div.rn.f32", (ONE, THREE), (0x3EAAAAAB,)),
        ("div.rz.f32", (ONE, THREE), (0x3EAAAAAA,)),
        ("div.rn.ftz.f32", (0x3F7FFFFF, 0x7E800000), (0,)),
        ("div.rn.f32", (0, 0), (NAN,)),
        ("div.rm.f32", (0xBF800000, 0), (0xFF800000,)),
    ],
)
@binary(
    f"div.{{rounding:{MODES}}}.{{type:f64}}",
    since=(1, 4),
    sm=13,
    examples=[
        ("div.rn.f64", (D_ONE, D_THREE), (0x3FD5555555555555,)),
        ("div.rz.f64", (D_ONE, D_THREE), (0x3FD5555555555555,)),
        ("div.rm.f64", (D_ONE, D_THREE), (0x3FD5555555555555,)),
        ("div.rp.f64", (D_ONE, D_THREE), (0x3FD5555555555556,)),
        ("div.rp.f64", (1, D_THREE), (1,)),
        ("div.rn.f64", (0xFFF0000000000001, 0x7FF0000000000002), (0xFFF8000000000001,)),
    ],
)
def div(lanes: Lanes, a: Value, b: Value, *, rounding: str, ftz: str, type: str) -> Value:
    """d = a / b."""
    return lanes.float_div(type, a, b, rounding, bool(ftz))


@unary(
    f"rcp.{{rounding:{MODES}}}.{{ftz:ftz}}?.{{type:f32}}",
    since=(2, 0),
    sm=20,
    examples=[
        ("rcp.rn.f32", (THREE,), (0x3EAAAAAB,)),
        ("rcp.rn.f32", (MINUS_ZERO,), (0xFF800000,)),
        ("rcp.rn.ftz.f32", (0x7F000001,), (0,)),
    ],
)
@unary(
    f"rcp.{{rounding:{MODES}}}.{{type:f64}}",
    since=(1, 4),
    sm=13,
    examples=[("rcp.rp.f64", (D_THREE,), (0x3FD5555555555556,)), ("rcp.rn.f64", (0x7FF4 << 48,), (0x7FFC << 48,))],
)
def rcp(lanes: Lanes, a: Value, *, rounding: str, ftz: str, type: str) -> Value:
    """d = 1 / a."""
    f = floats.FORMATS[type]
    return lanes.float_div(type, lanes.const(f.one, f.width), a, rounding, bool(ftz))


@unary(
    f"sqrt.{{rounding:{MODES}}}.{{ftz:ftz}}?.{{type:f32}}",
    since=(2, 0),
    sm=20,
    examples=[
        ("sqrt.rn.f32", (TWO,), (0x3FB504F3,)),
        ("sqrt.rp.f32", (TWO,), (0x3FB504F4,)),
        ("sqrt.rn.f32", (MINUS_ZERO,), (MINUS_ZERO,)),
        ("sqrt.rn.f32", (0xBF800000,), (NAN,)),
        ("sqrt.rn.ftz.f32", (0x80000001,), (MINUS_ZERO,)),
    ],
)
@unary(
    f"sqrt.{{rounding:{MODES}}}.{{type:f64}}",
    since=(1, 4),
    sm=13,
    examples=[
        ("sqrt.rz.f64", (1 << 62,), (0x3FF6A09E667F3BCC,)),
        ("sqrt.rp.f64", (1 << 62,), (0x3FF6A09E667F3BCD,)),
        ("sqrt.rn.f64", (0xBFF0 << 48,), (0xFFF8 << 48,)),
    ],
)
def sqrt(lanes: Lanes, a: Value, *, rounding: str, ftz: str, type: str) -> Value:
    """d = the square root of a."""
    return lanes.float_sqrt(type, a, rounding, bool(ftz))


@unary(
    "abs.{ftz:ftz}?.{type:f32}",
    examples=[("abs.f32", (0xBF800000,), (ONE,)), ("abs.ftz.f32", (0x80000001,), (0,)), ("abs.f32", (0xFFC00000,), (NAN,))],
)
@unary("abs.{type:f64}", sm=13, examples=[("abs.f64", (0xBFF0 << 48,), (D_ONE,)), ("abs.f64", (0xFFF0 << 48 | 1,), (0xFFF8 << 48 | 1,))])
def abs_(lanes: Lanes, a: Value, *, ftz: str, type: str) -> Value:
    """d = |a|."""
    return floats.absolute(lanes, type, a, ftz)


@unary(
    "neg.{ftz:ftz}?.{type:f32}",
    examples=[("neg.f32", (ONE,), (0xBF800000,)), ("neg.ftz.f32", (1,), (MINUS_ZERO,)), ("neg.f32", (0x7FC00000,), (NAN,))],
)
@unary("neg.{type:f64}", sm=13, examples=[("neg.f64", (0,), (1 << 63,)), ("neg.f64", (0x7FF0 << 48 | 1,), (0x7FF8 << 48 | 1,))])
def neg(lanes: Lanes, a: Value, *, ftz: str, type: str) -> Value:
    """d = -a."""
    return floats.negated(lanes, type, a, ftz)


def min_(lanes: Lanes, a: Value, b: Value, *, ftz: str, nan: str, xorsign: str, type: str) -> Value:
    """d = the smaller; one NaN gives the other operand, with .NaN a NaN."""
    return floats.extreme(lanes, type, False, a, b, ftz, nan, xorsign)


def max_(lanes: Lanes, a: Value, b: Value, *, ftz: str, nan: str, xorsign: str, type: str) -> Value:
    """d = the larger; one NaN gives the other operand, with .NaN a NaN."""
    return floats.extreme(lanes, type, True, a, b, ftz, nan, xorsign)


for _root, _meaning in (("min", min_), ("max", max_)):
    _first = _root == "min"
    binary(
        f"{_root}.{{ftz:ftz}}?.{{nan:NaN}}?.{{xorsign:xorsign}}?.{{absolute:abs}}?.{{type:f32}}",
        legal=lambda *, xorsign, absolute, **_: bool(xorsign) == bool(absolute),
        examples=[
            (f"{_root}.f32", (ONE, TWO), (ONE if _first else TWO,)),
            (f"{_root}.f32", (MINUS_ZERO, 0), (MINUS_ZERO if _first else 0,)),
            (f"{_root}.f32", (0x7FA00000, ONE), (ONE,)),
            (f"{_root}.f32", (ONE, 0xFFC00000), (ONE,)),
            (f"{_root}.f32", (0xFFC00000, 0x7FC00001), (NAN,)),
            (f"{_root}.NaN.f32", (0xFFC00000, ONE), (NAN,)),
            (f"{_root}.ftz.f32", (0x80000001, 1), (MINUS_ZERO if _first else 0,)),
            (f"{_root}.xorsign.abs.f32", (0xC0000000, ONE), (0xBF800000 if _first else 0xC0000000,)),
        ],
    )(_meaning)
    binary(
        f"{_root}.{{type:f64}}",
        sm=13,
        examples=[
            (f"{_root}.f64", (D_ONE, D_THREE), (D_ONE if _first else D_THREE,)),
            (f"{_root}.f64", (0x7FF0000000000001, 0xFFF0000000000002), (0xFFF8000000000002,)),
        ],
    )(_meaning)
