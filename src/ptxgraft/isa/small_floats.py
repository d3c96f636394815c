"""Floats of eight bits and less, as codes: sign, exponent, fraction, and in some an infinity or NaNs.

Invariant: written over ``Lanes`` alone; one rounding, of the magnitude. A code lies in the lowest bits of a byte. A format without a sign takes magnitudes.
Source: PTX ISA manual, "Alternate Floating-Point Data Formats" and "cvt"; the bias of ``ue5m3``, which the manual does not say, is that of five bits, 15.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value


@dataclass(frozen=True, slots=True)
class Small:
    """``bits`` of a code, of them ``fraction``; the exponent's ``bias``; the code of the ``largest`` number; what a NaN becomes (``nan``); the code of
    infinity, where there is one; whether there is a sign."""

    bits: int
    fraction: int
    bias: int
    largest: int
    nan: int
    infinity: int | None = None
    signed: bool = True


SMALL = {
    "e4m3": Small(8, 3, 7, 0x7E, 0x7F),
    "e5m2": Small(8, 2, 15, 0x7B, 0x7F, 0x7C),
    "e3m2": Small(6, 2, 3, 0x1F, 0x1F),
    "e2m3": Small(6, 3, 1, 0x1F, 0x1F),
    "e2m1": Small(4, 1, 1, 0x07, 0x07),
    "ue5m3": Small(8, 3, 15, 0xFE, 0xFF, signed=False),
}
"""The formats by name. Those without a NaN of their own give the largest number for one."""


def from_single(lanes: Lanes, name: str, a: Value, relu: str | bool, rounding: str = "rn", finite: bool = True) -> Value:
    """An f32 as a code in a byte; ``relu``: what has a sign gives +0. ``rounding`` is ``rn``, ``rz`` or ``rp``, of the magnitude.

    Beyond the largest number that number, or where not ``finite``: what rounds to more becomes infinity, without one a NaN; rounded toward zero only
    infinity does."""
    f = SMALL[name]
    drop = 23 - f.fraction
    size = floats.magnitude(lanes, "f32", a)
    infinity = lanes.const(0x7F800000, 32)
    nan = lanes.compare("gt", size, infinity)
    # Normal: round the code as an integer. Subnormal: a sum with a number whose unit is the format's least step leaves the steps.
    rounded = size
    if rounding == "rn":
        odd = lanes.and_(lanes.shift_right(size, lanes.const(drop, 32)), lanes.const(1, 32))
        rounded = lanes.add(size, lanes.add(odd, lanes.const((1 << (drop - 1)) - 1, 32)))
    elif rounding == "rp":
        rounded = lanes.add(size, lanes.const((1 << drop) - 1, 32))
    normal = lanes.sub(lanes.shift_right(rounded, lanes.const(drop, 32)), lanes.const((127 - f.bias) << f.fraction, 32))
    unit = lanes.const((127 + 1 - f.bias - f.fraction + 23) << 23, 32)
    steps = lanes.sub(lanes.float_add("f32", size, unit, rounding), unit)
    code = lanes.select(lanes.compare("lt", size, lanes.const((128 - f.bias) << 23, 32)), steps, normal)
    code, lost = _limited(lanes, f, code, lanes.compare("eq", size, infinity) if rounding == "rz" else None, finite)
    if lost is not None:
        nan = lanes.or_(nan, lost)
    if f.signed:
        negative = lanes.compare("lt", a, lanes.const(0, 32), signed=True)
        signed = lanes.const(0, 32) if relu else lanes.or_(code, lanes.const(1 << (f.bits - 1), 32))
        code = lanes.select(negative, signed, code)
    return lanes.resize(lanes.select(nan, lanes.const(f.nan, 32), code), 8)


def _limited(lanes: Lanes, f: Small, code: Value, infinite: Value | None, finite: bool) -> tuple[Value, Value | None]:
    """A code without sign with the largest number, or infinity, for what is too large; and where a NaN has to stand for that instead. ``infinite``: where
    alone a number is too large for the largest."""
    largest = lanes.const(f.largest, 32)
    large = lanes.compare("gt", code, largest)
    limited = lanes.select(large, largest, code)
    if finite:
        return limited, None
    beyond = large if infinite is None else infinite
    if f.infinity is None:
        return limited, beyond
    return lanes.select(beyond, lanes.const(f.infinity, 32), limited), None


def from_double(lanes: Lanes, name: str, a: Value, relu: str | bool, rounding: str = "rn", finite: bool = True) -> Value:
    """As ``from_single`` of an f64: rounded to odd first, which does not change the second rounding."""
    single = lanes.float_convert("f64", "f32", a, "rz")
    same = lanes.compare("eq", lanes.float_convert("f32", "f64", single), a)
    odd = lanes.select(same, lanes.const(0, 32), lanes.const(1, 32))
    nan = floats.is_nan(lanes, "f64", a)
    single = lanes.select(nan, lanes.const(floats.FORMATS["f32"].nan, 32), lanes.or_(single, odd))
    return from_single(lanes, name, single, relu, rounding, finite)


def to_half(lanes: Lanes, name: str, a: Value) -> Value:
    """A code of six or four bits in a byte as f16, exactly. Higher bits of the byte count for nothing."""
    f = SMALL[name]
    wide = lanes.resize(a, 16)
    sign = lanes.shift_left(lanes.and_(wide, lanes.const(1 << (f.bits - 1), 16)), lanes.const(16 - f.bits, 16))
    size = lanes.shift_left(lanes.and_(wide, lanes.const((1 << (f.bits - 1)) - 1, 16)), lanes.const(10 - f.fraction, 16))
    # Seen as f16 the exponent is 15 - bias too small; the product is exact for subnormals too.
    scale = lanes.const((15 + 15 - f.bias) << 10, 16)
    return lanes.or_(sign, lanes.float_mul("f16", size, scale))


def to_single(lanes: Lanes, name: str, a: Value) -> Value:
    """A code in a byte as f32, exactly; ``ue8m0`` too. Higher bits of the byte count for nothing. A NaN becomes the GPU's."""
    wide = lanes.resize(a, 32)
    nan = lanes.const(floats.FORMATS["f32"].nan, 32)
    if name == "ue8m0":
        code = lanes.and_(wide, lanes.const(0xFF, 32))
        # 2**-127 has no normal f32.
        power = lanes.select(
            lanes.compare("eq", code, lanes.const(0, 32)), lanes.const(0x00400000, 32), lanes.shift_left(code, lanes.const(23, 32))
        )
        return lanes.select(lanes.compare("eq", code, lanes.const(0xFF, 32)), nan, power)
    f = SMALL[name]
    bits = f.bits - f.signed
    size = lanes.and_(wide, lanes.const((1 << bits) - 1, 32))
    # Seen as f32 the exponent is 127 - bias too small; the product is exact for subnormals too.
    scale = lanes.const((127 + 127 - f.bias) << 23, 32)
    value = lanes.float_mul("f32", lanes.shift_left(size, lanes.const(23 - f.fraction, 32)), scale)
    if f.infinity is not None:
        value = lanes.select(lanes.compare("eq", size, lanes.const(f.infinity, 32)), lanes.const(0x7F800000, 32), value)
    if f.signed:
        sign = lanes.and_(wide, lanes.const(1 << (f.bits - 1), 32))
        value = lanes.or_(value, lanes.shift_left(sign, lanes.const(32 - f.bits, 32)))
    if f.nan == f.largest:
        return value
    last = f.largest if f.infinity is None else f.infinity
    return lanes.select(lanes.compare("gt", size, lanes.const(last, 32)), nan, value)
