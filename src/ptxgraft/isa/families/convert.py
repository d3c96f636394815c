"""Conversions (PTX ISA manual, "cvt" and "cvt.pack").

Invariant: one rounding from source to destination; every pair of types and modifiers that the manual allows, and no other.
Facts of the special formats: numerics.md part I section 4.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

_INTEGERS = "u8|u16|u32|u64|s8|s16|s32|s64"
FINITE = {"satfinite": ((8, 1), 80)}
_TO_INTEGRAL = ("rni", "rzi", "rmi", "rpi")
_SIZE = {"f16": 11, "bf16": 11, "f32": 24, "f64": 53}


def _is_float(type: str) -> bool:
    return type in _SIZE


def _legal(*, rounding: str, ftz: str, sat: str, dtype: str, type: str) -> bool:
    from_float, to_float = _is_float(type), _is_float(dtype)
    if ftz and "f32" not in (dtype, type):
        return False
    if not from_float and not to_float:
        return not rounding and not ftz and (not sat or not _contains(dtype, type))
    if not to_float:
        return rounding in _TO_INTEGRAL
    if not from_float:
        return bool(rounding) and rounding not in _TO_INTEGRAL
    if dtype == type:
        return rounding in ("", *_TO_INTEGRAL)
    narrowing = _SIZE[dtype] <= _SIZE[type]
    return (rounding != "") == narrowing and rounding not in _TO_INTEGRAL


_LOOSE = frozenset((("bf16", "f16"), ("f16", "bf16"), ("f32", "bf16"), ("f64", "bf16")))


def _legal_bf16(*, rounding: str, ftz: str, sat: str, dtype: str, type: str) -> bool:
    """As ptxas has it: bf16 never saturates to [0, 1], and some pairs may carry a rounding mode or leave it out."""
    if sat or ((dtype, type) == ("bf16", "f32") and rounding in ("rn", "rz") and not ftz):
        # The latter is the form of sm_80 with relu and satfinite, below.
        return False
    if (dtype, type) in _LOOSE and rounding not in _TO_INTEGRAL:
        return not ftz or dtype == "f32"
    return _legal(rounding=rounding, ftz=ftz, sat=sat, dtype=dtype, type=type)


def _range(type: str) -> tuple[int, int]:
    """The least and the largest value of an integer type."""
    t = type_of(type)
    return (-(1 << (t.width - 1)), (1 << (t.width - 1)) - 1) if t.signed else (0, (1 << t.width) - 1)


def _contains(outer: str, inner: str) -> bool:
    (low, high), (least, largest) = _range(outer), _range(inner)
    return low <= least and largest <= high


def _clamped(lanes: Lanes, a: Value, type: str, low: int, high: int) -> Value:
    """``a``, an integer of ``type``, limited to low .. high; in its own width."""
    t = type_of(type)
    least, largest = _range(type)
    if low > least:
        bound = lanes.const(low, t.width)
        a = lanes.select(lanes.compare("lt", a, bound, t.signed), bound, a)
    if high < largest:
        bound = lanes.const(high, t.width)
        a = lanes.select(lanes.compare("gt", a, bound, t.signed), bound, a)
    return a


# The least f64 magnitudes that round to a normal f32 at 24 bits: toward zero, to nearest, away.
_NORMAL_TOWARD, _NORMAL_NEAREST, _NORMAL_AWAY = 0x3810000000000000, 0x380FFFFFF0000000, 0x380FFFFFE0000001


def _single_of_double(lanes: Lanes, a: Value, rounding: str, ftz: str) -> Value:
    result = lanes.float_convert("f64", "f32", a, rounding)
    if not ftz:
        return result
    size, least = floats.magnitude(lanes, "f64", a), {"rn": _NORMAL_NEAREST, "rz": _NORMAL_TOWARD}
    if rounding in least:
        bound = lanes.const(least[rounding], 64)
    else:
        negative = lanes.compare("lt", a, lanes.const(0, 64), signed=True)
        away, toward = lanes.const(_NORMAL_AWAY, 64), lanes.const(_NORMAL_TOWARD, 64)
        bound = lanes.select(negative, away, toward) if rounding == "rm" else lanes.select(negative, toward, away)
    return lanes.select(lanes.compare("lt", size, bound), floats.sign_of(lanes, "f32", result), result)


def cvt(lanes: Lanes, a: Value, *, rounding: str, ftz: str, sat: str, dtype: str, type: str) -> Value:
    """d = a in the destination type. Float to integer saturates; integer to integer wraps, or saturates with sat; float with sat: to [0, 1]."""
    source, target = type_of(type), type_of(dtype)
    if not _is_float(type):
        if not _is_float(dtype):
            if sat:
                a = _clamped(lanes, a, type, *_range(dtype))
            return lanes.resize(a, target.width, source.signed)
        return floats.saturate(lanes, dtype, lanes.int_to_float(a, source.signed, dtype, rounding), sat)
    if ftz and type == "f32" and dtype != "f16":  # conversions to f16 keep subnormals
        a = floats.flush(lanes, type, a)
        if dtype in ("f32", "f64"):
            a = floats.canonical(lanes, type, a, floats.is_nan(lanes, type, a))
    if not _is_float(dtype):
        return lanes.float_to_int(type, a, target.width, target.signed, rounding)
    if rounding in _TO_INTEGRAL:
        result = lanes.float_round(type, a, rounding)
    elif (type, dtype) == ("f64", "f32"):
        result = _single_of_double(lanes, a, rounding, ftz)
    else:
        result = lanes.float_convert(type, dtype, a, rounding or "rn")
        if ftz and dtype == "f32":
            result = floats.flush(lanes, dtype, result)
        if (dtype in ("f16", "bf16") and dtype == type) or (ftz and type == "bf16"):
            result = floats.canonical(lanes, dtype, result, floats.is_nan(lanes, dtype, result))
    return floats.saturate(lanes, dtype, result, sat)


_NAN = 0x7FC00000
instruction(
    f"cvt.{{rounding:rni|rzi|rmi|rpi|rn|rz|rm|rp}}?.{{ftz:ftz}}?.{{sat:sat}}?.{{dtype:{_INTEGERS}|f16|f32|f64}}.{{type:{_INTEGERS}|f16|f32|f64}}",
    d="out {dtype}",
    a="in {type}",
    legal=_legal,
    examples=[
        ("cvt.s64.s32", (-1,), (-1,)),
        ("cvt.u64.u32", (0xFFFFFFFF,), (0xFFFFFFFF,)),
        ("cvt.u32.u64", ((5 << 32) + 7,), (7,)),
        ("cvt.u32.s8", (0x80,), (0xFFFFFF80,)),
        ("cvt.sat.u8.s32", (-5,), (0,)),
        ("cvt.sat.s8.s32", (500,), (127,)),
        ("cvt.sat.s32.u32", (0xFFFFFFFF,), (0x7FFFFFFF,)),
        ("cvt.sat.u64.s64", (-1,), (0,)),
        ("cvt.rn.f32.s32", (-3,), (0xC0400000,)),
        ("cvt.rn.f32.u32", (0xFFFFFFFF,), (0x4F800000,)),
        ("cvt.rz.f32.u32", (0xFFFFFFFF,), (0x4F7FFFFF,)),
        ("cvt.rp.f32.s64", ((1 << 62) + 1,), (0x5E800001,)),
        ("cvt.rm.f64.u64", (-1,), (0x43EFFFFFFFFFFFFF,)),
        ("cvt.rn.f16.u32", (65520,), (0x7C00,)),
        ("cvt.rz.f16.u32", (70000,), (0x7BFF,)),
        ("cvt.rni.u32.f32", (0x40200000,), (2,)),
        ("cvt.rzi.s32.f32", (0xBFC00000,), (-1,)),
        ("cvt.rmi.s32.f32", (0xBFC00000,), (-2,)),
        ("cvt.rpi.s8.f32", (0x43000000,), (127,)),
        ("cvt.rni.s32.f32", (_NAN,), (0,)),
        ("cvt.rni.s64.f32", (_NAN,), (1 << 63,)),
        ("cvt.rni.u8.f64", (0x7FF8 << 48,), (0x80,)),
        ("cvt.rni.s32.f64", (0xFFF8 << 48,), (0x80000000,)),
        ("cvt.rzi.u64.f64", (0x43EFFFFFFFFFFFFF,), (0xFFFFFFFFFFFFF800,)),
        ("cvt.rpi.ftz.s32.f32", (1,), (0,)),
        ("cvt.rpi.s32.f32", (1,), (1,)),
        ("cvt.f32.f16", (0x3C01,), (0x3F802000,)),
        ("cvt.f32.f16", (0x7D00,), (0x7FFFFFFF,)),
        ("cvt.rn.f16.f32", (0x3F801000,), (0x3C00,)),
        ("cvt.rp.f16.f32", (0x3F801000,), (0x3C01,)),
        ("cvt.rz.f16.f32", (0x7F000000,), (0x7BFF,)),
        ("cvt.rn.f16.f64", (0x3FF0020000000001,), (0x3C01,)),
        ("cvt.rn.f16.f64", (0xFFF0000000000001,), (0xFE00,)),
        ("cvt.f64.f16", (0x7C01,), (0x7FF8040000000000,)),
        ("cvt.f16.f16", (0xFC01,), (0x7FFF,)),
        ("cvt.rp.ftz.f16.f32", (1,), (1,)),
        ("cvt.ftz.f32.f32", (0xFF800001,), (0x7FFFFFFF,)),
        ("cvt.ftz.f64.f32", (0xFF800001,), (0x7FFFFFFFE0000000,)),
        ("cvt.f64.f32", (0xFFA00001,), (0xFFFC000020000000,)),
        ("cvt.rn.f32.f64", (0xFFF4000020000000,), (0xFFE00001,)),
        ("cvt.rn.f32.f64", (0x380FFFFFE0000001,), (0x00800000,)),
        ("cvt.rn.ftz.f32.f64", (0x380FFFFFE0000001,), (0,)),
        ("cvt.rn.ftz.f32.f64", (0xB80FFFFFF0000000,), (0x80800000,)),
        ("cvt.rni.f32.f32", (0xBF000000,), (0x80000000,)),
        ("cvt.rpi.f16.f16", (0x3801,), (0x3C00,)),
        ("cvt.sat.f32.f32", (0x40000000,), (0x3F800000,)),
        ("cvt.sat.f32.f32", (_NAN,), (0,)),
        ("cvt.ftz.f32.f32", (0x80000001,), (0x80000000,)),
    ],
)(cvt)
instruction(
    "cvt.{dtype:f32}.{type:bf16}",
    d="out {dtype}",
    a="in {type}",
    since=(7, 1),
    sm=80,
    examples=[("cvt.f32.bf16", (0x7F81,), (0x7F810000,))],
)(cvt)
_ALL = f"{_INTEGERS}|f16|bf16|f32|f64"
for _dtype, _type in (("bf16", _ALL), (f"{_INTEGERS}|f16|f32|f64", "bf16")):
    _plain_only = _dtype == "bf16"
    instruction(
        f"cvt.{{rounding:rni|rzi|rmi|rpi|rn|rz|rm|rp}}?.{{ftz:ftz}}?.{{sat:sat}}?.{{dtype:{_dtype}}}.{{type:{_type}}}",
        d="out {dtype}",
        a="in {type}",
        since=(7, 8),
        sm=90,
        legal=_legal_bf16,
        examples=[
            ("cvt.rm.bf16.f32", (0x3F80FFFF,), (0x3F80,)),
            ("cvt.rn.ftz.bf16.f32", (0x8000FFFF,), (0x8000,)),
            ("cvt.rn.bf16.s32", (257,), (0x4380,)),
            ("cvt.rn.bf16.f64", (0x3FF0100000000001,), (0x3F81,)),
            ("cvt.rz.bf16.f64", (0xFFFFFFFFFFFFFFFF,), (0xFFFF,)),
            ("cvt.bf16.bf16", (0x7F81,), (0x7FFF,)),
        ]
        if _plain_only
        else [
            ("cvt.ftz.f32.bf16", (0x7F81,), (0x7FFFFFFF,)),
            ("cvt.rni.s32.bf16", (0xC020,), (-2,)),
            ("cvt.f64.bf16", (0x3F80,), (0x3FF0 << 48,)),
        ],
    )(cvt)


# -- to f16 and bf16, with relu and satfinite -------------------------------------------------------------------------
def _narrow(lanes: Lanes, fmt: str, a: Value, rounding: str, relu: str, satfinite: str) -> Value:
    result = lanes.float_convert("f32", fmt, a, rounding)
    if satfinite:
        f = floats.FORMATS[fmt]
        infinite = lanes.compare("eq", floats.magnitude(lanes, fmt, result), lanes.const(f.exponent, 16))
        result = lanes.select(infinite, lanes.sub(result, lanes.const(1, 16)), result)
    return floats.relu(lanes, fmt, result, relu)


@instruction(
    "cvt.{rounding:rn|rz}.{relu:relu}?.{satfinite:satfinite}?.{dtype:f16|bf16}.f32",
    needs=FINITE,
    d="out {dtype}",
    a="in f32",
    legal=lambda *, rounding, relu, satfinite, dtype: bool(dtype == "bf16" or relu or satfinite),
    since=(7, 0),
    sm=80,
    examples=[
        ("cvt.rn.bf16.f32", (0x3F818000,), (0x3F82,)),
        ("cvt.rz.bf16.f32", (0x3F81FFFF,), (0x3F81,)),
        ("cvt.rn.relu.f16.f32", (0xBF800000,), (0,)),
        ("cvt.rn.satfinite.f16.f32", (0x7F800000,), (0x7BFF,)),
        ("cvt.rn.relu.satfinite.bf16.f32", (_NAN,), (0x7FFF,)),
    ],
)
def cvt_half(lanes: Lanes, a: Value, *, rounding: str, relu: str, satfinite: str, dtype: str) -> Value:
    """d = a rounded; satfinite: overflow and infinity give the largest number; relu: negative gives +0."""
    return _narrow(lanes, dtype, a, rounding, relu, satfinite)


@instruction(
    "cvt.{rounding:rn|rz}.{relu:relu}?.{satfinite:satfinite}?.{dtype:f16x2|bf16x2}.f32",
    needs=FINITE,
    d="out {dtype}",
    a="in f32",
    b="in f32",
    since=(7, 0),
    sm=80,
    examples=[
        ("cvt.rn.f16x2.f32", (0x3F800000, 0x40000000), (0x3C004000,)),
        ("cvt.rn.satfinite.bf16x2.f32", (0x7F7FFFFF, 0xFF800000), (0x7F7FFF7F,)),
        ("cvt.rz.relu.f16x2.f32", (0x477FE000, 0x80000000), (0x7BFF0000,)),
    ],
)
def cvt_halves(lanes: Lanes, a: Value, b: Value, *, rounding: str, relu: str, satfinite: str, dtype: str) -> Value:
    """The upper half of d = a rounded, the lower half = b rounded."""
    fmt = dtype.removesuffix("x2")
    return lanes.concat([_narrow(lanes, fmt, x, rounding, relu, satfinite) for x in (b, a)])


# -- tf32 -------------------------------------------------------------------------------------------------------------
_TF32_UNIT, _TF32_MASK, _TF32_NAN = 0x2000, 0xFFFFE000, 0x7FFFE000


@instruction(
    "cvt.rna.{satfinite:satfinite}?.tf32.f32",
    needs=FINITE,
    d="out b32",
    a="in f32",
    since=(7, 0),
    sm=80,
    examples=[
        ("cvt.rna.tf32.f32", (0x3F801000,), (0x3F802000,)),
        ("cvt.rna.tf32.f32", (0x7F7FF000,), (0x7F800000,)),
        ("cvt.rna.tf32.f32", (0x7F800001,), (0x7F800000,)),
        ("cvt.rna.satfinite.tf32.f32", (0x7FB26FFF,), (0x7FB24000,)),
        ("cvt.rna.satfinite.tf32.f32", (0x7F800000,), (0x7F7FE000,)),
    ],
)
def cvt_rna_tf32(lanes: Lanes, a: Value, *, satfinite: str) -> Value:
    """d = a to ten fraction bits, ties away from zero. NaN payloads below the tenth bit are lost, as the hardware loses them."""
    infinity = lanes.const(0x7F800000, 32)
    finite = lanes.compare("lt", floats.magnitude(lanes, "f32", a), infinity)
    a = lanes.select(finite, lanes.add(a, lanes.const(_TF32_UNIT // 2, 32)), a)
    a = lanes.and_(a, lanes.const(_TF32_MASK, 32))
    if satfinite:
        large = lanes.compare("ge", floats.magnitude(lanes, "f32", a), infinity)
        a = lanes.select(large, lanes.sub(a, lanes.const(_TF32_UNIT, 32)), a)
    return a


@instruction(
    "cvt.{rounding:rn|rz}.{relu:relu}?.tf32.f32",
    d="out b32",
    a="in f32",
    since=(7, 8),
    sm=90,
    examples=[
        ("cvt.rn.tf32.f32", (0x3F801000,), (0x3F800000,)),
        ("cvt.rn.tf32.f32", (0x3F803000,), (0x3F804000,)),
        ("cvt.rz.tf32.f32", (0x3F803FFF,), (0x3F802000,)),
        ("cvt.rn.tf32.f32", (0xFF800001,), (_TF32_NAN,)),
        ("cvt.rn.relu.tf32.f32", (0xBF800000,), (0,)),
    ],
)
def cvt_tf32(lanes: Lanes, a: Value, *, rounding: str, relu: str) -> Value:
    """d = a to ten fraction bits; NaN gives 0x7FFFE000."""
    nan = floats.is_nan(lanes, "f32", a)
    if rounding == "rn":
        odd = lanes.and_(lanes.shift_right(a, lanes.const(13, 32)), lanes.const(1, 32))
        a = lanes.add(a, lanes.add(odd, lanes.const(_TF32_UNIT // 2 - 1, 32)))
    a = lanes.and_(a, lanes.const(_TF32_MASK, 32))
    return floats.relu(lanes, "f32", lanes.select(nan, lanes.const(_TF32_NAN, 32), a), relu)


# -- eight-bit floats -------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _Eight:
    """An eight-bit format seen from f32: fraction bits dropped, what to subtract from the code, the least normal number, the f32 whose unit is
    the format's least step, and the largest code."""

    drop: int
    rebias: int
    least_normal: int
    magic: int
    largest: int


_EIGHT = {
    "e4m3x2": _Eight(20, 120 << 3, (127 - 6) << 23, (127 + 14) << 23, 0x7E),
    "e5m2x2": _Eight(21, 112 << 2, (127 - 14) << 23, (127 + 7) << 23, 0x7B),
}


def _to_eight(lanes: Lanes, type: str, a: Value, relu: str) -> Value:
    """An f32 rounded to nearest even into eight bits, saturating; NaN gives 0x7F."""
    f = _EIGHT[type]
    size = floats.magnitude(lanes, "f32", a)
    nan = lanes.compare("gt", size, lanes.const(0x7F800000, 32))
    # Normal: round the code as an integer. Subnormal: a sum with the magic number leaves the count of steps in the lowest bits.
    odd = lanes.and_(lanes.shift_right(size, lanes.const(f.drop, 32)), lanes.const(1, 32))
    rounded = lanes.add(size, lanes.add(odd, lanes.const((1 << (f.drop - 1)) - 1, 32)))
    normal = lanes.sub(lanes.shift_right(rounded, lanes.const(f.drop, 32)), lanes.const(f.rebias, 32))
    magic = lanes.const(f.magic, 32)
    steps = lanes.sub(lanes.float_add("f32", size, magic), magic)
    code = lanes.select(lanes.compare("lt", size, lanes.const(f.least_normal, 32)), steps, normal)
    largest = lanes.const(f.largest, 32)
    code = lanes.select(lanes.compare("gt", code, largest), largest, code)
    sign = lanes.shift_right(lanes.and_(a, lanes.const(0x80000000, 32)), lanes.const(24, 32))
    code = lanes.resize(lanes.or_(code, sign), 8)
    if relu:
        code = lanes.select(lanes.compare("lt", code, lanes.const(0, 8), signed=True), lanes.const(0, 8), code)
    return lanes.select(nan, lanes.const(0x7F, 8), code)


@instruction(
    "cvt.rn.satfinite.{relu:relu}?.{dtype:e4m3x2|e5m2x2}.f32",
    d="out {dtype}",
    a="in f32",
    b="in f32",
    since=(8, 1),
    sm=89,
    examples=[
        ("cvt.rn.satfinite.e4m3x2.f32", (0x3F800000, 0xC0000000), (0x38C0,)),
        ("cvt.rn.satfinite.e4m3x2.f32", (0x7F800000, 0xFFC00000), (0x7E7F,)),
        ("cvt.rn.satfinite.e4m3x2.f32", (0x3B000000, 0x3A800000), (0x0100,)),
        ("cvt.rn.satfinite.e5m2x2.f32", (0x3F800000, 0x47800000), (0x3C7B,)),
        ("cvt.rn.satfinite.relu.e4m3x2.f32", (0xBF800000, 0x3F800000), (0x0038,)),
    ],
)
def cvt_eights(lanes: Lanes, a: Value, b: Value, *, relu: str, dtype: str) -> Value:
    """The upper byte of d = a, the lower byte = b."""
    return lanes.concat([_to_eight(lanes, dtype, x, relu) for x in (b, a)])


@instruction(
    "cvt.rn.satfinite.{relu:relu}?.{dtype:e4m3x2|e5m2x2}.f16x2",
    d="out {dtype}",
    a="in f16x2",
    since=(8, 1),
    sm=89,
    examples=[
        ("cvt.rn.satfinite.e4m3x2.f16x2", (0x3C00C000,), (0x38C0,)),
        ("cvt.rn.satfinite.e4m3x2.f16x2", (0x7C00FE00,), (0x7E7F,)),
        ("cvt.rn.satfinite.relu.e5m2x2.f16x2", (0xBC003C00,), (0x003C,)),
    ],
)
def cvt_eights_of_halves(lanes: Lanes, a: Value, *, relu: str, dtype: str) -> Value:
    """Each half of a to the byte of its place."""
    return lanes.concat([_to_eight(lanes, dtype, lanes.float_convert("f16", "f32", x), relu) for x in halves(lanes, a)])


@instruction(
    "cvt.rn.{relu:relu}?.f16x2.{type:e4m3x2|e5m2x2}",
    d="out f16x2",
    a="in {type}",
    since=(8, 1),
    sm=89,
    examples=[
        ("cvt.rn.f16x2.e4m3x2", (0x38C0,), (0x3C00C000,)),
        ("cvt.rn.f16x2.e4m3x2", (0x01FF,), (0x18007FFF,)),
        ("cvt.rn.f16x2.e5m2x2", (0x3CFD,), (0x3C007FFF,)),
        ("cvt.rn.relu.f16x2.e4m3x2", (0x8038,), (0x00003C00,)),
    ],
)
def cvt_halves_of_eights(lanes: Lanes, a: Value, *, relu: str, type: str) -> Value:
    """Each byte of a, exactly, to the half of its place; NaN gives 0x7FFF."""
    results = []
    for x in halves(lanes, a):
        wide = lanes.resize(x, 16)
        sign = lanes.shift_left(lanes.and_(wide, lanes.const(0x80, 16)), lanes.const(8, 16))
        size = lanes.and_(wide, lanes.const(0x7F, 16))
        if type == "e5m2x2":
            value = lanes.shift_left(size, lanes.const(8, 16))
            nan = lanes.compare("gt", size, lanes.const(0x7C, 16))
        else:
            # Seen as f16 the exponent is 8 too small: times 256, which is exact for subnormals too.
            value = lanes.float_mul("f16", lanes.shift_left(size, lanes.const(7, 16)), lanes.const(0x5C00, 16))
            nan = lanes.compare("eq", size, lanes.const(0x7F, 16))
        value = lanes.select(nan, lanes.const(0x7FFF, 16), lanes.or_(sign, value))
        results.append(floats.relu(lanes, "f16", value, relu))
    return lanes.concat(results)


# -- cvt.pack ---------------------------------------------------------------------------------------------------------
def _packed(lanes: Lanes, a: Value, b: Value, ctype: str) -> Value:
    """b and a, saturated from s32, side by side in the lowest bits."""
    bits = int(ctype[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if ctype[0] == "s" else (0, (1 << bits) - 1)
    mask = lanes.const((1 << bits) - 1, 32)
    x, y = (lanes.and_(_clamped(lanes, v, "s32", low, high), mask) for v in (a, b))
    return lanes.or_(lanes.shift_left(x, lanes.const(bits, 32)), y)


@instruction(
    "cvt.pack.sat.{ctype:u16|s16}.s32",
    d="out b32",
    a="in s32",
    b="in s32",
    since=(6, 5),
    sm=72,
    examples=[("cvt.pack.sat.u16.s32", (-1, 70000), (0x0000FFFF,)), ("cvt.pack.sat.s16.s32", (-70000, 5), (0x80000005,))],
)
def cvt_pack(lanes: Lanes, a: Value, b: Value, *, ctype: str) -> Value:
    """d = a saturated (upper half), b saturated (lower half)."""
    return _packed(lanes, a, b, ctype)


@instruction(
    "cvt.pack.sat.{ctype:u2|s2|u4|s4|u8|s8}.s32.b32",
    d="out b32",
    a="in s32",
    b="in s32",
    c="in b32",
    since=(6, 5),
    sm=75,
    examples=[
        ("cvt.pack.sat.u8.s32.b32", (300, -1, 0x12345678), (0x5678FF00,)),
        ("cvt.pack.sat.s4.s32.b32", (-9, 9, 0x1), (0x187,)),
        ("cvt.pack.sat.u2.s32.b32", (1, 9, 0xFFFFFFFF), (0xFFFFFFF7,)),
    ],
)
def cvt_pack_three(lanes: Lanes, a: Value, b: Value, c: Value, *, ctype: str) -> Value:
    """d = a and b saturated in the lowest bits, c above them."""
    return lanes.or_(lanes.shift_left(c, lanes.const(2 * int(ctype[1:]), 32)), _packed(lanes, a, b, ctype))
