"""Fetching texels: from coordinates to the texels that they name, and to filtered ones.

Invariant: everything is written over ``Lanes``; a texture's texels are four 32-bit words each behind a host address, layers and faces outermost.
Source: measured on one NVIDIA H200 where it says so; else the PTX manual, "Texture Instructions", and the CUDA programming guide, "Texture Fetching".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxgraft.isa.filtering import (
    BORDER,
    DIVISOR,
    MIRROR,
    POINT,
    SNORM,
    Sampling,
    level_weights,
    position,
    shared_out,
    weighted_sum,
    weights,
)
from ptxgraft.isa.images import DATA_TYPES, header, level
from ptxgraft.isa.lanes import Lanes, Value

DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2, "cube": 2, "acube": 2}
"""Axes that a geometry is filtered along."""

MOST_LAYERS = 0xFFFF
"""Larger layer numbers are taken for this one."""

SIZES = ("width", "height", "depth")


@dataclass(slots=True)
class Grid:
    """Texels that one fetch can reach: the host address ``base`` (b64) of the first, the ``sizes`` and address ``modes`` of its axes, x first (b32)."""

    base: Value
    sizes: list[Value]
    modes: list[Value]


def wrapped(lanes: Lanes, index: Value, size: Value, mode: Value) -> tuple[Value, Value]:
    """A texel index brought into 0 .. size-1 by its address mode; and whether there is a texel (border: not outside)."""
    zero, one = lanes.const(0, 32), lanes.const(1, 32)
    last = lanes.sub(size, one)
    inside = lanes.compare("lt", index, size)  # unsigned: a negative index is large
    clamped = lanes.select(lanes.compare("lt", index, zero, signed=True), zero, last)
    mirror = lanes.compare("eq", mode, lanes.const(MIRROR, 32))
    period = lanes.select(mirror, lanes.add(size, size), size)
    rest = lanes.remainder(index, period, signed=True)
    rest = lanes.select(lanes.compare("lt", rest, zero, signed=True), lanes.add(rest, period), rest)
    folded = lanes.select(lanes.compare("lt", rest, size), rest, lanes.sub(lanes.sub(period, one), rest))
    cyclic = lanes.or_(mirror, lanes.compare("eq", mode, zero))
    there = lanes.or_(inside, lanes.compare("ne", mode, lanes.const(BORDER, 32)))
    return lanes.select(inside, index, lanes.select(cyclic, folded, clamped)), there


def texel(lanes: Lanes, grid: Grid, index: Sequence[Value]) -> list[Value]:
    """The four words of one texel; zeros outside a border."""
    place: list[Value] = []
    there = lanes.const(1, 1)
    for i, size, mode in zip(index, grid.sizes, grid.modes, strict=True):
        found, exists = wrapped(lanes, i, size, mode)
        place.append(found)
        there = lanes.and_(there, exists)
    linear = lanes.resize(place[-1], 64)
    for size, i in list(zip(grid.sizes, place, strict=True))[-2::-1]:
        linear = lanes.add(lanes.mul(linear, lanes.resize(size, 64)), lanes.resize(i, 64))
    words = lanes.load("host", lanes.add(grid.base, lanes.shift_left(linear, lanes.const(4, 32))), 32, 4)
    return [lanes.select(there, w, lanes.const(0, 32)) for w in words]


def resource_of(lanes: Lanes, handle: Value) -> tuple[dict[str, Value], Sampling]:
    """A texture's fields, and how it is read: by itself, or by the sampler whose handle is the upper half of ``handle``."""
    if lanes.width(handle) == 64:
        fields = lanes.resource("texture", handle)
        return fields, Sampling(fields["linear"], fields["normalized"], tuple(fields[f"address_{axis}"] for axis in "xyz"))
    fields = lanes.resource("texture", lanes.extract(handle, 0, 64))
    sampler = lanes.resource("sampler", lanes.extract(handle, 64, 64))
    zero = lanes.const(POINT, 32)
    kind = lanes.select(lanes.compare("ne", sampler["linear"], zero), header(lanes, fields, "filterable"), zero)
    normalized = lanes.select(lanes.compare("eq", sampler["unnormalized"], zero), fields["normalized"], zero)
    return fields, Sampling(kind, normalized, tuple(sampler[f"address_{axis}"] for axis in "xyz"))


def base_of(lanes: Lanes, fields: dict[str, Value], kind: Value) -> Value:
    """Where the texels lie that a fetch reads which filters ``kind``: normalised integers lie there as they are filtered, then as they are read."""
    filtered = lanes.compare("ne", kind, lanes.const(POINT, 32))
    skipped = lanes.shift_left(lanes.resize(fields["unfiltered"], 64), lanes.const(4, 32))
    return lanes.add(fields["base"], lanes.select(filtered, lanes.const(0, 64), skipped))


def grid_of(
    lanes: Lanes, fields: dict[str, Value], modes: Sequence[Value], kind: Value, dimensions: int, layer: Value | None = None
) -> Grid:
    """What a fetch of a geometry with ``dimensions`` axes reaches, in its ``layer`` (b32, unsigned; past the last: the last)."""
    base = base_of(lanes, fields, kind)
    sizes = [fields[name] for name in SIZES[:dimensions]]
    if layer is not None:
        last = lanes.sub(fields["depth"], lanes.const(1, 32))
        layer = lanes.select(lanes.compare("lt", last, layer), last, layer)
        stride = lanes.mul(lanes.resize(fields["width"], 64), lanes.resize(fields["height"], 64))
        texels = lanes.mul(lanes.resize(layer, 64), stride)
        base = lanes.add(base, lanes.shift_left(texels, lanes.const(4, 32)))
    return Grid(base, sizes, list(modes[:dimensions]))


def named(lanes: Lanes, grid: Grid, index: Sequence[Value], there: Value) -> tuple[Value, ...]:
    """The texel at whole numbers, zero where there is none."""
    return tuple(lanes.select(there, w, lanes.const(0, 32)) for w in texel(lanes, grid, index))


def has_layer(lanes: Lanes, fields: dict[str, Value], layer: Value | None) -> Value:
    """Is there such a layer?"""
    return lanes.const(1, 1) if layer is None else lanes.compare("lt", layer, fields["depth"])


@dataclass(slots=True)
class Footprint:
    """The texels around a place, corner by corner with x fastest (four words each), and the axes' weights of the far ones in 256ths; of a plane, which of
    them are ``missing`` (predicates; none: all are there)."""

    texels: list[list[Value]]
    axes: list[Value]
    missing: Sequence[Value] = ()

    def shares(self, lanes: Lanes, given: Sequence[Value]) -> list[Value]:
        """The corners' weights, those of missing ones given to the others."""
        return shared_out(lanes, given, self.missing) if self.missing else list(given)


def footprint(
    lanes: Lanes, grid: Grid, sampling: Sampling, coordinates: Sequence[Value], offsets: Sequence[Value] | None = None, plane: bool = True
) -> Footprint:
    """The texels that a fetch at float coordinates takes part in."""
    axes = list(coordinates)
    if len(axes) == 1 and plane:
        # A line without layers is filtered as a plane at y = 0, which a border mode of the y axis shows.
        one = lanes.const(1, 32)
        axes.append(lanes.const(0, 32))
        grid = Grid(grid.base, [grid.sizes[0], one], [grid.modes[0], sampling.modes[1]])
    moves = [None if offsets is None or i >= len(offsets) else offsets[i] for i in range(len(axes))]
    positions = [
        position(lanes, size, mode, sampling, x, move) for size, mode, x, move in zip(grid.sizes, grid.modes, axes, moves, strict=True)
    ]
    return Footprint(corners(lanes, grid, [i for i, _ in positions]), [weight for _, weight in positions])


def corners(lanes: Lanes, grid: Grid, index: Sequence[Value]) -> list[list[Value]]:
    """The texels at ``index`` and one further along each axis, x fastest."""
    one = lanes.const(1, 32)
    return [
        texel(lanes, grid, [lanes.add(i, one) if corner >> axis & 1 else i for axis, i in enumerate(index)])
        for corner in range(1 << len(index))
    ]


def filtered(lanes: Lanes, kind: Value, found: Footprint) -> tuple[Value, ...]:
    """A footprint's weighted sum: four words."""
    shares = found.shares(lanes, weights(lanes, found.axes))
    return tuple(weighted_sum(lanes, kind, texels, shares) for texels in zip(*found.texels, strict=True))


GATHERED = (2, 3, 1, 0)
"""The corners that a gather gives, in its order: counter-clockwise from the lower left, y downwards."""


def gathered(
    lanes: Lanes,
    fields: dict[str, Value],
    grid: Grid,
    sampling: Sampling,
    coordinates: Sequence[Value],
    component: int,
    offsets: Sequence[Value] | None,
) -> tuple[Value, ...]:
    """One component of the four texels that bilinear filtering would take."""
    moves = offsets if offsets is not None else [None] * len(coordinates)
    index = [
        position(lanes, size, mode, sampling, x, move, always=True)[0]
        for size, mode, x, move in zip(grid.sizes, grid.modes, coordinates, moves, strict=True)
    ]
    return in_gather_order(lanes, fields, [texel[component] for texel in corners(lanes, grid, index)])


def in_gather_order(lanes: Lanes, fields: dict[str, Value], values: Sequence[Value]) -> tuple[Value, ...]:
    """One component of four corners as a gather gives it."""
    return tuple(_gathered_value(lanes, fields, values[corner]) for corner in GATHERED)


def _gathered_value(lanes: Lanes, fields: dict[str, Value], value: Value) -> Value:
    """8-bit signed texels are gathered as 16-bit ones: their seven bits again below them."""
    seven = lanes.float_mul("f32", lanes.and_(value, lanes.const(0x7FFFFFFF, 32)), lanes.const(0x42FE0000, 32))
    number = lanes.float_to_int("f32", seven, 32, False, "rni")
    places = [
        lanes.shift_left(number, lanes.const(8, 32)),
        lanes.shift_left(number, lanes.const(1, 32)),
        lanes.shift_right(number, lanes.const(6, 32)),
    ]
    fifteen = lanes.or_(lanes.or_(places[0], places[1]), places[2])
    wide = lanes.float_div("f32", lanes.int_to_float(fifteen, False, "f32"), lanes.const(DIVISOR[SNORM], 32))
    wide = lanes.or_(wide, lanes.and_(value, lanes.const(0x80000000, 32)))
    small = lanes.compare("eq", header(lanes, fields, "channel_data_type"), lanes.const(DATA_TYPES["snorm", 1], 32))
    return lanes.select(small, wide, value)


def blended(lanes: Lanes, kind: Value, near: Footprint, far: Footprint, share: Value) -> tuple[Value, ...]:
    """The weighted sum of two levels' footprints, the far one's with ``share`` 256ths. In three dimensions each is summed first."""
    zero = lanes.const(0, 32)
    if len(near.axes) == 3:
        found = [filtered(lanes, kind, one) for one in (near, far)]
        weighed = [lanes.sub(lanes.const(256, 32), share), share]
        return tuple(weighted_sum(lanes, kind, pair, weighed) for pair in zip(*found, strict=True))
    if len(near.axes) == 1:
        near, far = (Footprint([*one.texels, *one.texels], [*one.axes, zero]) for one in (near, far))
    given = level_weights(lanes, near.axes, far.axes, share)
    shares = [*near.shares(lanes, given[:4]), *far.shares(lanes, given[4:])]
    pairs = zip(zip(*near.texels, strict=True), zip(*far.texels, strict=True), strict=True)
    return tuple(weighted_sum(lanes, kind, [*a, *b], shares) for a, b in pairs)


def lod_steps(lanes: Lanes, lod: Value) -> Value:
    """A level of detail (f32) cut to 256ths."""
    scaled = lanes.float_mul("f32", lod, lanes.const(0x43800000, 32))
    for bound, op in ((0x4E800000, "gt"), (0xCE800000, "lt")):  # 2**30, so that the sum with the bias does not wrap
        scaled = lanes.select(lanes.float_compare("f32", op, scaled, lanes.const(bound, 32)), lanes.const(bound, 32), scaled)
    return lanes.float_to_int("f32", scaled, 32, True, "rmi")


def levels_of(lanes: Lanes, fields: dict[str, Value], steps: Value) -> tuple[dict[str, Value], dict[str, Value], Value]:
    """The two levels that a level of detail (256ths) lies between, and the second one's share in 256ths.

    The bias is added and the sum bounded; the nearest level alone is read (halves: the upper one) where levels are not filtered.
    """
    zero, bits = lanes.const(0, 32), lanes.const(8, 32)
    steps = lanes.add(steps, header(lanes, fields, "bias"))
    last = header(lanes, fields, "last_level")
    top, low, high = lanes.shift_left(last, bits), header(lanes, fields, "lowest"), header(lanes, fields, "highest")
    for bound, op in ((high, "gt"), (low, "lt"), (top, "gt")):
        steps = lanes.select(lanes.compare(op, steps, bound, signed=True), bound, steps)
    linear = lanes.compare("ne", header(lanes, fields, "mip_linear"), zero)
    nearest = lanes.shift_right(lanes.add(steps, lanes.const(128, 32)), bits)
    first = lanes.select(linear, lanes.shift_right(steps, bits), nearest)
    second = lanes.add(first, lanes.const(1, 32))
    second = lanes.select(lanes.compare("gt", second, last), last, second)
    share = lanes.select(linear, lanes.and_(steps, lanes.const(255, 32)), zero)
    return level(lanes, fields, first), level(lanes, fields, second), share
