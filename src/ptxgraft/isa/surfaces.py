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
    for name, i in zip(names, axes, strict=True):
        last = lanes.sub(fields[name], lanes.const(size if name == "row_bytes" else 1, 32))
        fits = lanes.and_(lanes.compare("ge", i, zero, signed=True), lanes.compare("le", i, last, signed=True))
        edge = lanes.select(lanes.compare("lt", i, zero, signed=True), zero, last)
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


def _normalized(lanes: Lanes, a: Value, high: int, signed: bool) -> Value:
    """An f32 number as a fraction of ``high``: clamped to 0 .. 1 or -1 .. 1, rounded to nearest even; NaN is 0."""
    one = lanes.const(0x3F800000, 32)
    least = lanes.const(0xBF800000 if signed else 0, 32)
    a = lanes.select(lanes.float_compare("f32", "nan", a, a), lanes.const(0, 32), a)
    a = lanes.select(lanes.float_compare("f32", "lt", a, least), least, a)
    a = lanes.select(lanes.float_compare("f32", "gt", a, one), one, a)
    # The product is exact in f64.
    wide = lanes.float_mul(
        "f64",
        lanes.float_convert("f32", "f64", a),
        lanes.float_convert("f32", "f64", lanes.int_to_float(lanes.const(high, 32), False, "f32")),
    )
    return lanes.float_to_int("f64", wide, 32, True, "rni")


_CONVERSIONS: dict[str, tuple[int, Callable[[Lanes, Value], Value]]] = {
    "u1": (8, lambda lanes, a: _clamped(lanes, a, 0, 255, False)),
    "i1": (8, lambda lanes, a: _clamped(lanes, a, -128, 127, True)),
    "u2": (16, lambda lanes, a: _clamped(lanes, a, 0, 65535, False)),
    "i2": (16, lambda lanes, a: _clamped(lanes, a, -32768, 32767, True)),
    "u4": (32, lambda lanes, a: a),
    "i4": (32, lambda lanes, a: a),
    "f2": (16, lambda lanes, a: lanes.float_convert("f32", "f16", a)),
    "f4": (32, lambda lanes, a: a),
    "unorm8": (8, lambda lanes, a: _normalized(lanes, a, 255, False)),
    "snorm8": (8, lambda lanes, a: _normalized(lanes, a, 127, True)),
    "unorm16": (16, lambda lanes, a: _normalized(lanes, a, 65535, False)),
    "snorm16": (16, lambda lanes, a: _normalized(lanes, a, 32767, True)),
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
    if by_texel:
        address, inside = texel_place(lanes, fields, coordinates, geometry, clamp, "sured.p")
        signed = lanes.compare("eq", header(lanes, fields, "texel"), lanes.const(TEXELS.index("i4"), 32))
    else:
        address, inside = place(lanes, fields, coordinates, geometry, kind.bytes, clamp, "sured.b")
        signed = lanes.const(int(kind.signed), 1)
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
