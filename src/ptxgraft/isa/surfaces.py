"""Surface accesses: where they lie, formatted stores, and reductions.

Invariant: no access leaves the surface's own bytes but for the spare ones behind them, which nobody reads.
Source: the PTX manual, "Surface Instructions"; what happens outside, and the conversions, as measured on one NVIDIA H200.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxgraft.isa.images import TEXELS, header
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.texels import DIMENSIONS
from ptxgraft.isa.types import type_of

_EXTENTS = ("row_bytes", "height", "depth")


def place(
    lanes: Lanes, fields: dict[str, Value], coordinates: Sequence[Value], geometry: str, size: int, clamp: str, opcode: str
) -> tuple[Value, Value]:
    """The host address of an access of ``size`` bytes whose x counts bytes, and whether it lies inside. ``clamp`` moves it inside, ``trap`` stops the launch."""
    zero = lanes.const(0, 32)
    if geometry.startswith("a"):  # {layer, x} and {layer, x, y}: the layer is the outermost axis
        axes = [*coordinates[1 : 1 + DIMENSIONS[geometry]], coordinates[0]]
        names = [*_EXTENTS[: len(axes) - 1], "depth"]
    else:
        axes = list(coordinates[: DIMENSIONS[geometry]])
        names = list(_EXTENTS[: len(axes)])
    inside = lanes.const(1, 1)
    places: dict[str, Value] = dict.fromkeys(_EXTENTS, zero)
    for number, (name, i) in enumerate(zip(names, axes, strict=True)):
        layer = geometry.startswith("a") and number == len(axes) - 1
        last = lanes.sub(fields[name], lanes.const(size if name == "row_bytes" else 1, 32))
        fits = lanes.and_(lanes.compare("ge", i, zero, signed=True), lanes.compare("le", i, last, signed=True))
        # A layer is an unsigned number: a negative one lies behind the last.
        edge = last if layer else lanes.select(lanes.compare("lt", i, zero, signed=True), zero, last)
        places[name] = lanes.select(fits, i, edge)
        inside = lanes.and_(inside, fits)
    x = places["row_bytes"]
    misaligned = lanes.compare("ne", lanes.and_(x, lanes.const(size - 1, 32)), zero)
    lanes.fault(misaligned, f"{opcode}: x is no multiple of the {size} bytes it accesses")
    if clamp == "trap":
        lanes.fault(lanes.not_(inside), f"{opcode}: the coordinates lie outside the surface")
    row = lanes.resize(lanes.add(lanes.mul(places["depth"], fields["height"]), places["height"]), 64)
    offset = lanes.add(lanes.mul(row, lanes.resize(fields["pitch"], 64)), lanes.resize(x, 64))
    return lanes.add(fields["base"], offset), inside


def or_spare(lanes: Lanes, fields: dict[str, Value], inside: Value, address: Value) -> Value:
    """The address, or where stores go that must not happen: behind every surface lie spare bytes that nobody reads."""
    end = lanes.mul(lanes.mul(fields["pitch"], fields["height"]), fields["depth"])
    return lanes.select(inside, address, lanes.add(fields["base"], lanes.resize(end, 64)))


def texel_place(
    lanes: Lanes, fields: dict[str, Value], coordinates: Sequence[Value], geometry: str, clamp: str, opcode: str
) -> tuple[Value, Value]:
    """As ``place`` for a texel whose x counts texels."""
    at = 1 if geometry.startswith("a") else 0
    in_texels = fields | {"row_bytes": lanes.divide(fields["row_bytes"], fields["texel_bytes"], False)}
    address, inside = place(lanes, in_texels, coordinates, geometry, 1, clamp, opcode)
    width, x, zero = in_texels["row_bytes"], coordinates[at], lanes.const(0, 32)
    last = lanes.sub(width, lanes.const(1, 32))
    low = lanes.compare("lt", x, zero, signed=True)
    x = lanes.select(low, zero, lanes.select(lanes.compare("gt", x, last, signed=True), last, x))
    further = lanes.mul(x, lanes.sub(fields["texel_bytes"], lanes.const(1, 32)))
    return lanes.add(address, lanes.resize(further, 64)), inside


# -- formatted stores -----------------------------------------------------------------------------------------------------
def _clamped(lanes: Lanes, a: Value, low: int, high: int, signed: bool) -> Value:
    least, most = lanes.const(low, 32), lanes.const(high, 32)
    a = lanes.select(lanes.compare("lt", a, least, signed=signed), least, a)
    return lanes.select(lanes.compare("gt", a, most, signed=signed), most, a)


def _normalized(lanes: Lanes, a: Value, bits: int, signed: bool) -> Value:
    """An f32 number as a fraction of the largest one of ``bits`` bits: clamped to 0 .. 1 or -1 .. 1, cut to four more fraction bits than the result has,
    multiplied and rounded to nearest, halves toward zero. NaN is 0."""
    fraction = bits - int(signed) + 4
    zero, one = lanes.const(0, 32), lanes.const(1 << fraction, 32)
    negative = lanes.extract(a, 31, 1)
    magnitude = lanes.and_(a, lanes.const(0x7FFFFFFF, 32))
    cut = lanes.float_to_int("f32", lanes.float_mul("f32", magnitude, lanes.const((127 + fraction) << 23, 32)), 32, True, "rzi")
    cut = lanes.select(lanes.compare("gt", cut, one), one, cut)
    product = lanes.mul(lanes.resize(cut, 64), lanes.const((1 << (bits - int(signed))) - 1, 64))
    rounded = lanes.shift_right(lanes.add(product, lanes.const((1 << (fraction - 1)) - 1, 64)), lanes.const(fraction, 32))
    value = lanes.resize(rounded, 32)
    return lanes.select(negative, lanes.sub(zero, value) if signed else zero, value)


def _half(lanes: Lanes, a: Value) -> Value:
    """An f32 number as f16, rounded toward zero (so that nothing finite becomes infinite); a NaN is cut to its upper bits."""
    exact = lanes.float_convert("f32", "f16", a, "rz")
    sign = lanes.shift_left(lanes.resize(lanes.extract(a, 31, 1), 16), lanes.const(15, 32))
    upper = lanes.or_(lanes.resize(lanes.extract(a, 13, 16), 16), lanes.const(0x7C00, 16))
    nan = lanes.or_(sign, lanes.and_(upper, lanes.const(0x7FFF, 16)))
    return lanes.select(lanes.float_compare("f32", "nan", a, a), nan, exact)


_CONVERSIONS: dict[str, tuple[int, Callable[[Lanes, Value], Value]]] = {
    "u1": (8, lambda lanes, a: _clamped(lanes, a, 0, 255, False)),
    "i1": (8, lambda lanes, a: _clamped(lanes, a, -128, 127, True)),
    "u2": (16, lambda lanes, a: _clamped(lanes, a, 0, 65535, False)),
    "i2": (16, lambda lanes, a: _clamped(lanes, a, -32768, 32767, True)),
    "u4": (32, lambda lanes, a: a),
    "i4": (32, lambda lanes, a: a),
    "f2": (16, _half),
    "f4": (32, lambda lanes, a: a),
    "unorm8": (8, lambda lanes, a: _normalized(lanes, a, 8, False)),
    "snorm8": (8, lambda lanes, a: _normalized(lanes, a, 8, True)),
    "unorm16": (16, lambda lanes, a: _normalized(lanes, a, 16, False)),
    "snorm16": (16, lambda lanes, a: _normalized(lanes, a, 16, True)),
}
"""By what a texel's channels are: their bits, and the channel of a 32-bit word."""


def store_formatted(
    lanes: Lanes, fields: dict[str, Value], coordinates: Sequence[Value], geometry: str, clamp: str, given: Sequence[Value]
) -> None:
    """Store words (R, G, B, A) to a texel in the surface's format; x counts texels. Channels without a word get 0."""
    address, inside = texel_place(lanes, fields, coordinates, geometry, clamp, "sust.p")
    if clamp == "zero":
        address = or_spare(lanes, fields, inside, address)
    format, channels = header(lanes, fields, "texel"), header(lanes, fields, "channels")
    zero = lanes.const(0, 32)
    spare = or_spare(lanes, fields, lanes.const(0, 1), address)
    words = [*given, *[zero] * (4 - len(given))]
    for width in (8, 16, 32):
        named = [(TEXELS.index(name), convert) for name, (bits, convert) in _CONVERSIONS.items() if bits == width]
        fits = lanes.const(0, 1)
        for number, _ in named:
            fits = lanes.or_(fits, lanes.compare("eq", format, lanes.const(number, 32)))
        for channel, word in enumerate(words):
            value = zero
            for number, convert in named:
                converted = lanes.resize(convert(lanes, word), 32)
                value = lanes.select(lanes.compare("eq", format, lanes.const(number, 32)), converted, value)
            there = lanes.and_(fits, lanes.compare("gt", channels, lanes.const(channel, 32)))
            at = lanes.add(address, lanes.const(channel * width // 8, 64))
            lanes.store("host", lanes.select(there, at, spare), (lanes.resize(value, width),))


# -- reductions -----------------------------------------------------------------------------------------------------------
def reduce(
    lanes: Lanes,
    fields: dict[str, Value],
    coordinates: Sequence[Value],
    geometry: str,
    clamp: str,
    op: str,
    type: str,
    b: Value,
    by_texel: bool,
) -> None:
    """Memory at the coordinates = op(memory, b), one lane after another. ``by_texel``: x counts texels, and the format says how bits are ordered."""
    kind = type_of(type)
    signed = lanes.const(int(kind.signed), 1)
    opcode = "sured.p" if by_texel else "sured.b"
    if by_texel:
        # x counts elements of the data's size, whatever the number of channels (measured).
        format = header(lanes, fields, "texel")
        signed = lanes.compare("eq", format, lanes.const(TEXELS.index("i4"), 32))
        wide = lanes.or_(lanes.compare("eq", format, lanes.const(TEXELS.index("u4"), 32)), signed)
        whole = lanes.or_(wide, lanes.compare("eq", format, lanes.const(TEXELS.index("f4"), 32)))
        lanes.fault(lanes.not_(whole), f"{opcode}: the surface's channels do not have 32 bits")
        x = lanes.mul(coordinates[0], lanes.const(kind.bytes, 32))
        coordinates = [x, *coordinates[1:]]
    address, inside = place(lanes, fields, coordinates, geometry, kind.bytes, clamp, opcode)
    if clamp == "zero":
        address = or_spare(lanes, fields, inside, address)

    def extreme(old: Value, which: str) -> Value:
        wins = lanes.select(signed, lanes.compare(which, b, old, signed=True), lanes.compare(which, b, old))
        return lanes.select(wins, b, old)

    updates: dict[str, Callable[[Value], Value]] = {
        "add": lambda old: lanes.add(old, b),
        "and": lambda old: lanes.and_(old, b),
        "or": lambda old: lanes.or_(old, b),
        "min": lambda old: extreme(old, "lt"),
        "max": lambda old: extreme(old, "gt"),
    }
    lanes.atomic("host", address, kind.width, updates[op])
