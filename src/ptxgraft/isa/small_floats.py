"""Floats of eight bits and less, as codes: sign, exponent, fraction, no infinity.

Invariant: written over ``Lanes`` alone; one rounding, to nearest even, saturating. A code lies in the lowest bits of a byte.
Source: PTX ISA manual, "Alternate Floating-Point Data Formats" and "cvt".
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value


@dataclass(frozen=True, slots=True)
class Small:
    """``bits`` of a code, of them ``fraction``; the exponent's ``bias``; the code of the ``largest`` number; what a NaN becomes (``nan``)."""

    bits: int
    fraction: int
    bias: int
    largest: int
    nan: int


SMALL = {
    "e4m3": Small(8, 3, 7, 0x7E, 0x7F),
    "e5m2": Small(8, 2, 15, 0x7B, 0x7F),
    "e3m2": Small(6, 2, 3, 0x1F, 0x1F),
    "e2m3": Small(6, 3, 1, 0x1F, 0x1F),
    "e2m1": Small(4, 1, 1, 0x07, 0x07),
}
"""The formats by name. Those without a NaN of their own give the largest number for one."""


def from_single(lanes: Lanes, name: str, a: Value, relu: str | bool) -> Value:
    """An f32 as a code in a byte; ``relu``: what has a sign gives +0."""
    f = SMALL[name]
    drop = 23 - f.fraction
    size = floats.magnitude(lanes, "f32", a)
    nan = lanes.compare("gt", size, lanes.const(0x7F800000, 32))
    # Normal: round the code as an integer. Subnormal: a sum with a number whose unit is the format's least step leaves the steps.
    odd = lanes.and_(lanes.shift_right(size, lanes.const(drop, 32)), lanes.const(1, 32))
    rounded = lanes.add(size, lanes.add(odd, lanes.const((1 << (drop - 1)) - 1, 32)))
    normal = lanes.sub(lanes.shift_right(rounded, lanes.const(drop, 32)), lanes.const((127 - f.bias) << f.fraction, 32))
    unit = lanes.const((127 + 1 - f.bias - f.fraction + 23) << 23, 32)
    steps = lanes.sub(lanes.float_add("f32", size, unit), unit)
    code = lanes.select(lanes.compare("lt", size, lanes.const((128 - f.bias) << 23, 32)), steps, normal)
    largest = lanes.const(f.largest, 32)
    code = lanes.select(lanes.compare("gt", code, largest), largest, code)
    negative = lanes.compare("lt", a, lanes.const(0, 32), signed=True)
    signed = lanes.const(0, 32) if relu else lanes.or_(code, lanes.const(1 << (f.bits - 1), 32))
    code = lanes.select(nan, lanes.const(f.nan, 32), lanes.select(negative, signed, code))
    return lanes.resize(code, 8)


def to_half(lanes: Lanes, name: str, a: Value) -> Value:
    """A code of six or four bits in a byte as f16, exactly. Higher bits of the byte count for nothing."""
    f = SMALL[name]
    wide = lanes.resize(a, 16)
    sign = lanes.shift_left(lanes.and_(wide, lanes.const(1 << (f.bits - 1), 16)), lanes.const(16 - f.bits, 16))
    size = lanes.shift_left(lanes.and_(wide, lanes.const((1 << (f.bits - 1)) - 1, 16)), lanes.const(10 - f.fraction, 16))
    # Seen as f16 the exponent is 15 - bias too small; the product is exact for subnormals too.
    scale = lanes.const((15 + 15 - f.bias) << 10, 16)
    return lanes.or_(sign, lanes.float_mul("f16", size, scale))
