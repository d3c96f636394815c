"""Texture and surface instructions (PTX ISA manual, "Texture Instructions" and "Surface Instructions").

Invariant: a declaration says operands and which texels are meant; how they are found and filtered is ``isa.texels``, ``isa.filtering`` and
``isa.surfaces``, where the sources are named too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ptxgraft.isa import surfaces
from ptxgraft.isa.cube import cube_corners, gathered_corners
from ptxgraft.isa.families.memory import count_of
from ptxgraft.isa.filtering import BORDER, CLAMP, POINT, Sampling
from ptxgraft.isa.gradients import level_of_detail
from ptxgraft.isa.images import BETWEEN, CUBE, GEOMETRIES, LAST_AXIS, header, level, sized
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.surfaces import place
from ptxgraft.isa.table import instruction, refused
from ptxgraft.isa.texels import (
    DIMENSIONS,
    MOST_LAYERS,
    SIZES,
    Footprint,
    blended,
    filtered,
    footprint,
    gathered,
    grid_of,
    has_layer,
    in_gather_order,
    levels_of,
    lod_steps,
    named,
    resource_of,
)
from ptxgraft.isa.types import type_of


def _split(lanes: Lanes, geometry: str, coordinates: Sequence[Value]) -> tuple[Value | None, list[Value]]:
    """The layer, where the geometry has layers, and the coordinates along its axes; of cube maps those of a direction."""
    axes = 3 if "cube" in geometry else DIMENSIONS[geometry]
    if not geometry.startswith("a"):
        return None, list(coordinates[:axes])
    most, layer = lanes.const(MOST_LAYERS, 32), coordinates[0]
    return lanes.select(lanes.compare("lt", most, layer), most, layer), list(coordinates[1 : 1 + axes])


def _reached(
    lanes: Lanes,
    fields: dict[str, Value],
    sampling: Sampling,
    kind: Value,
    geometry: str,
    coordinates: Sequence[Value],
    offsets: Sequence[Value] | None,
) -> Footprint:
    """The texels of one level that a fetch at float coordinates takes part in."""
    layer, axes = _split(lanes, geometry, coordinates)
    if "cube" in geometry:
        no_cube = lanes.compare("eq", lanes.and_(fields["traits"], lanes.const(CUBE, 32)), lanes.const(0, 32))
        lanes.fault(no_cube, f"{geometry} fetches read cube maps; the texture is none")
        return cube_corners(lanes, fields, sampling, kind, layer, axes)
    grid = grid_of(lanes, fields, sampling.modes, kind, len(axes), layer)
    return footprint(lanes, grid, sampling, axes, offsets, layer is None)


def _fetch(
    lanes: Lanes, handle: Value, coordinates: Sequence[Value], geometry: str, ctype: str, offsets: Sequence[Value] | None = None
) -> tuple[Value, ...]:
    fields, sampling = resource_of(lanes, handle)
    if ctype == "s32" and lanes.width(handle) > 64:
        # A sampler of its own takes whole numbers for floats.
        first = 1 if geometry.startswith("a") else 0
        coordinates = [*coordinates[:first], *(lanes.int_to_float(x, True, "f32") for x in coordinates[first:])]
    elif ctype == "s32":
        return _named(lanes, level(lanes, fields, lanes.const(0, 32)), geometry, coordinates, offsets)
    between = lanes.compare("ne", lanes.and_(fields["traits"], lanes.const(BETWEEN, 32)), lanes.const(0, 32))
    lanes.fault(between, "the texture's lowest level of detail lies between two mipmap levels: tex.level reads there")
    return filtered(lanes, sampling.kind, _reached(lanes, fields, sampling, sampling.kind, geometry, coordinates, offsets))


def _named(
    lanes: Lanes, fields: dict[str, Value], geometry: str, coordinates: Sequence[Value], offsets: Sequence[Value] | None, mode: int = BORDER
) -> tuple[Value, ...]:
    """The texel of one level at whole numbers; outside there is none, or (``mode`` CLAMP) the one at the edge."""
    layer, axes = _split(lanes, geometry, coordinates)
    grid = grid_of(lanes, fields, [lanes.const(mode, 32)] * 3, lanes.const(POINT, 32), len(axes), layer)
    moved = axes if offsets is None else [lanes.add(x, by) for x, by in zip(axes, offsets, strict=False)]
    return named(lanes, grid, moved, lanes.const(1, 1) if mode == CLAMP else has_layer(lanes, fields, layer))


@instruction(
    "tex.{base}?.{geometry:1d|2d|3d}.v4.{dtype:f32|s32|u32}.{ctype:f32|s32}", d="out {dtype} v4", p="out pred |?", a="resource {ctype}",
    since=(1, 0), sm=10,
)  # fmt: skip
def tex(lanes: Lanes, handle: Value, coordinates: Sequence[Value], *, geometry: str, ctype: str) -> tuple[object, ...]:
    """d = the texture at the coordinates: the nearest texel, or the filtered ones around (8-bit weights). p = the texels were there.

    Integer coordinates name a texel. ``[handle, {x, y}]``; of a 3d coordinate's four elements the last is not used.
    """
    return _fetch(lanes, handle, coordinates, geometry, ctype), lanes.const(1, 1)


# The manual's further ways to fetch. ``offset`` moves the texels by whole ones, ``depth`` compares each with a number instead of reading it.
_FLAT = "1d|2d|3d|a1d|a2d"
_TEXELS = ("v4.{dtype:f32|s32|u32|f16}", "v2.{dtype:f16x2}")
_OFFSETS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "2dms": 2, "a2dms": 2}
_COMPARED = "1d|a1d|2d|a2d|cube|acube"
_GRADIENT = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4}
_LATER = {"f16": ((4, 2), 53), "f16x2": ((4, 2), 53), "2dms": ((3, 2), 30), "a2dms": ((3, 2), 30), "a1d": ((2, 3), 20)}


def _extras(*, geometry: str, dtype: str, **rest: str) -> Mapping[str, str]:
    """The operands that a geometry has: an offset for each axis, a gradient for each axis, twice."""
    count = _OFFSETS.get(geometry)
    vector = f"in f32 x{_GRADIENT[geometry]}" if geometry in _GRADIENT else ""
    return {
        "texel": "out b32 x2" if dtype == "f16x2" else f"out {dtype} x4",
        "offset": f"in s32 x{count} ?" if count else "",
        "vector": vector,
    }


def _fetch_legal(*, geometry: str, ctype: str = "f32", **rest: str) -> bool:
    """Cubes have directions for coordinates."""
    return ctype == "f32" or "cube" not in geometry


def _small_offset(lanes: Lanes, offsets: Any, bits: int) -> list[Value] | None:
    """Offsets as the texture unit takes them: the lowest ``bits`` bits, signed."""
    if offsets is None:
        return None
    given = offsets if isinstance(offsets, tuple) else (offsets,)
    return [lanes.resize(lanes.extract(x, 0, bits), 32, True) if bits in (8, 16) else _signed_low(lanes, x, bits) for x in given]


def _signed_low(lanes: Lanes, x: Value, bits: int) -> Value:
    up = lanes.const(32 - bits, 32)
    return lanes.shift_right(lanes.shift_left(x, up), up, signed=True)


def _as_type(lanes: Lanes, words: Sequence[Value], dtype: str) -> tuple[Value, ...]:
    """Four words as what is asked for: halves are rounded from f32."""
    if not dtype.startswith("f16"):
        return tuple(words)
    halves = [lanes.float_convert("f32", "f16", w) for w in words]
    return tuple(halves) if dtype == "f16" else (lanes.concat(halves[:2]), lanes.concat(halves[2:]))


TEXTURE_OFFSET_BITS, GATHER_OFFSET_BITS = 4, 6


def _declare_fetches() -> None:
    for texels in _TEXELS:

        def fetch(
            lanes: Lanes, handle: Value, coordinates: Sequence[Value], offset: Any = None, *, geometry: str, dtype: str, ctype: str
        ) -> tuple[object, ...]:
            """As ``tex``, in layers too, at texels moved by the offset (-8 .. 7 along each axis), and as halves."""
            moves = _small_offset(lanes, offset, TEXTURE_OFFSET_BITS)
            return _as_type(lanes, _fetch(lanes, handle, coordinates, geometry, ctype, moves), dtype), lanes.const(1, 1)

        instruction(
            f"tex.{{base}}?.{{geometry:{_FLAT}|cube|acube}}.{texels}.{{ctype:f32|s32}}", d="{texel}", p="out pred |?", a="resource {ctype}",
            offset="{offset}", derive=_extras, legal=_fetch_legal, needs=_LATER, since=(1, 0), sm=10,
        )(fetch)  # fmt: skip


_NO_DEPTH = "fetches without a depth operand; the comparison with it can be written behind them"
_NO_SAMPLES = "textures have one sample a texel; tex.2d and tex.a2d fetch those"


def _declare_refused() -> None:
    """Fetches of several samples, and those that compare each texel with a number."""
    heads: tuple[tuple[str, dict[str, Any]], ...] = (
        ("tex.{base}?", {}), ("tex.{level}", {"lod": "in {ctype}"}), ("tex.{grad}", {"dx": "{vector}", "dy": "{vector}"}),
    )  # fmt: skip
    for texels in _TEXELS:

        @refused(_NO_SAMPLES)
        def samples(lanes: Lanes) -> None:
            """As ``tex``, one sample of a multi-sample texture."""

        instruction(
            f"tex.{{base}}?.{{geometry:2dms|a2dms}}.{texels}.{{ctype:s32}}", d="{texel}", p="out pred |?", a="resource s32", offset="{offset}",
            derive=_extras, needs=_LATER, since=(1, 0), sm=10,
        )(samples)  # fmt: skip
        for head, operands in heads:

            @refused(_NO_DEPTH)
            def compared(lanes: Lanes) -> None:
                """As without ``depth``, each texel compared with it."""

            instruction(
                f"{head}.{{geometry:{_COMPARED}}}.{texels}.{{ctype:f32}}", d="{texel}", p="out pred |?", a="resource f32", **operands,
                offset="{offset}", depth="in f32", derive=_extras, needs=_LATER, since=(3, 1) if operands else (1, 0), sm=20 if operands else 10,
            )(compared)  # fmt: skip


def _fetch_level(
    lanes: Lanes,
    handle: Value,
    coordinates: Sequence[Value],
    geometry: str,
    steps: Callable[[dict[str, Value]], Value],
    offsets: Sequence[Value] | None,
) -> tuple[Value, ...]:
    """The texture at float coordinates, from the levels that a level of detail lies between: ``steps`` of the texture's fields, in 256ths."""
    fields, sampling = resource_of(lanes, handle)
    near, far, share = levels_of(lanes, fields, steps(fields))
    # Between levels even single texels are weighed.
    between = lanes.compare("ne", header(lanes, fields, "mip_linear"), lanes.const(0, 32))
    kind = lanes.select(between, header(lanes, fields, "filterable"), sampling.kind)
    found = [_reached(lanes, one, sampling, kind, geometry, coordinates, offsets) for one in (near, far)]
    return blended(lanes, kind, found[0], found[1], share)


def _declare_mipmaps() -> None:
    for texels in _TEXELS:

        def fetch(
            lanes: Lanes,
            handle: Value,
            coordinates: Sequence[Value],
            lod: Value,
            offset: Any = None,
            *,
            geometry: str,
            dtype: str,
            ctype: str,
        ) -> tuple[object, ...]:
            """As ``tex``, from the mipmap level ``lod``."""
            moves = _small_offset(lanes, offset, TEXTURE_OFFSET_BITS)
            return _as_type(
                lanes, _fetch_level(lanes, handle, coordinates, geometry, lambda _: lod_steps(lanes, lod), moves), dtype
            ), lanes.const(1, 1)

        instruction(
            f"tex.{{level}}.{{geometry:{_FLAT}|cube|acube}}.{texels}.{{ctype:f32}}", d="{texel}", p="out pred |?", a="resource {ctype}", lod="in f32",
            offset="{offset}", derive=_extras, needs=_LATER, since=(3, 1), sm=20,
        )(fetch)  # fmt: skip


_GRADIENT_AXES = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2}


def _declare_gradients() -> None:
    for texels in _TEXELS:

        def fetch(
            lanes: Lanes, handle: Value, coordinates: Sequence[Value], dx: Any, dy: Any, offset: Any = None, *, geometry: str, dtype: str
        ) -> tuple[object, ...]:
            """As ``tex``, from the mipmap level that the gradients ask for."""
            count = _GRADIENT_AXES[geometry]
            gradients = [(g if isinstance(g, tuple) else (g,))[:count] for g in (dx, dy)]

            def steps(fields: dict[str, Value]) -> Value:
                first = level(lanes, fields, lanes.const(0, 32))
                return level_of_detail(lanes, [first[name] for name in SIZES[:count]], *gradients)

            moves = _small_offset(lanes, offset, TEXTURE_OFFSET_BITS)
            return _as_type(lanes, _fetch_level(lanes, handle, coordinates, geometry, steps, moves), dtype), lanes.const(1, 1)

        @refused("tex.level with a level of detail of one's own; tex.grad of 1d, 2d, a1d and a2d textures")
        def others(lanes: Lanes) -> None:
            """As ``tex``, from the mipmap level that the gradients ask for."""

        for geometries, meaning in (("1d|2d|a1d|a2d", fetch), ("3d|cube|acube", others)):
            instruction(
                f"tex.{{grad}}.{{geometry:{geometries}}}.{texels}.{{ctype:f32}}", d="{texel}", p="out pred |?", a="resource {ctype}", dx="{vector}",
                dy="{vector}", offset="{offset}", derive=_extras, needs=_LATER, since=(3, 1), sm=20,
            )(meaning)  # fmt: skip


def _declare_named_levels() -> None:
    for texels in _TEXELS:

        def fetch(
            lanes: Lanes, handle: Value, coordinates: Sequence[Value], lod: Value, offset: Any = None, *, geometry: str, dtype: str
        ) -> tuple[object, ...]:
            """As ``tex``, the texel at whole numbers of the mipmap level ``lod``: outside the one at the edge or in the last layer, zero in levels
            that there are not (measured on an H200)."""
            fields, _ = resource_of(lanes, handle)
            zero, last = lanes.const(0, 32), header(lanes, fields, "last_level")
            there = lanes.compare("le", lod, last)
            chosen = level(lanes, fields, lanes.select(there, lod, zero))
            words = _named(lanes, chosen, geometry, coordinates, _small_offset(lanes, offset, TEXTURE_OFFSET_BITS), CLAMP)
            return _as_type(lanes, [lanes.select(there, w, zero) for w in words], dtype), lanes.const(1, 1)

        instruction(
            f"tex.{{level}}.{{geometry:{_FLAT}}}.{texels}.{{ctype:s32}}", d="{texel}", p="out pred |?", a="resource {ctype}", lod="in {ctype}",
            offset="{offset}", derive=_extras, needs=_LATER, since=(3, 1), sm=20,
        )(fetch)  # fmt: skip


_declare_fetches()
_declare_mipmaps()
_declare_gradients()
_declare_named_levels()
_declare_refused()


@instruction(
    "tld4.{component:r|g|b|a}.{geometry:2d|a2d}.v4.{dtype:f32|s32|u32}.f32", d="out {dtype} v4", p="out pred |?", a="resource f32",
    offset="in s32 x2 ?", since=(2, 2), sm=20,
)  # fmt: skip
def tld4(lanes: Lanes, handle: Value, coordinates: Sequence[Value], offset: Any, *, component: str, geometry: str) -> tuple[object, ...]:
    """d = one component of the four texels that bilinear filtering would use, counter-clockwise from the lower left; the offset may be -32 .. 31."""
    fields, sampling = resource_of(lanes, handle)
    layer, axes = _split(lanes, geometry, coordinates)
    grid = grid_of(lanes, fields, sampling.modes, lanes.const(0, 32), 2, layer)
    moves = _small_offset(lanes, offset, GATHER_OFFSET_BITS)
    return gathered(lanes, fields, grid, sampling, axes, "rgba".index(component), moves), lanes.const(1, 1)


@instruction(
    "tld4.{component:r|g|b|a}.{geometry:cube|acube}.v4.{dtype:f32|s32|u32}.f32", d="out {dtype} v4", p="out pred |?", a="resource f32",
    since=(2, 2), sm=20,
)  # fmt: skip
def tld4_cube(lanes: Lanes, handle: Value, coordinates: Sequence[Value], *, component: str, geometry: str) -> tuple[object, ...]:
    """As ``tld4``, in cube maps."""
    fields, sampling = resource_of(lanes, handle)
    layer, direction = _split(lanes, geometry, coordinates)
    found = cube_corners(lanes, fields, sampling, lanes.const(POINT, 32), layer, direction, always=True)
    return in_gather_order(lanes, fields, gathered_corners(lanes, found, "rgba".index(component))), lanes.const(1, 1)


@instruction(
    "tld4.{component:r|g|b|a}.{geometry:2d|a2d|cube|acube}.v4.{dtype:f32|s32|u32}.f32", d="out {dtype} v4", p="out pred |?",
    a="resource f32", offset="{offset}", depth="in f32", derive=_extras, since=(2, 2), sm=20,
)  # fmt: skip
@refused(_NO_DEPTH)
def tld4_compared(lanes: Lanes, handle: Value, coordinates: Sequence[Value]) -> None:
    """As ``tld4``; each texel is compared with ``depth``."""


@instruction("istypep.{type:texref|samplerref|surfref}", p="out pred", a="in b64", since=(4, 0), sm=30)
@refused("what a handle is shows where it is used: an instruction of another kind is a fault that names it")
def istypep(lanes: Lanes) -> None:
    """p = is ``a`` the handle of a texture, a sampler, a surface?"""


# -- queries --------------------------------------------------------------------------------------------------------------
@instruction("txq.{query:width|height|depth|normalized_coords}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def txq(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A texture's size in texels, or whether its coordinates are normalised. Layers are the axis behind those that the geometry has: a 1d texture's
    height, a 2d texture's or cube map's depth; without layers a depth is 0, a height 1 (measured on an H200)."""
    fields = lanes.resource("texture", a)
    return fields["normalized"] if query == "normalized_coords" else sized(lanes, fields, level(lanes, fields, lanes.const(0, 32)), query)


_TEXTURE_WORDS = "channel_data_type|channel_order|array_size|num_mipmap_levels|filter_mode|addr_mode_0|addr_mode_1|addr_mode_2"


@instruction(f"txq.{{query:{_TEXTURE_WORDS}}}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def txq_word(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A texture's format, or how it is sampled, as the manual's numbers; array_size and num_mipmap_levels are 0 where there are no layers or levels."""
    return header(lanes, lanes.resource("texture", a), query)


@instruction("txq.{query:num_samples}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def txq_samples(lanes: Lanes, a: Value) -> Value:
    """The samples of a multi-sample texture; there are none, so 0."""
    lanes.resource("texture", a)
    return lanes.const(0, 32)


@instruction("txq.{query:force_unnormalized_coords}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def txq_unnormalized(lanes: Lanes, a: Value) -> Value:
    """Whether a sampler takes coordinates as they are, whatever the texture says."""
    return lanes.resource("sampler", a)["unnormalized"]


@instruction("txq.level.{query:width|height|depth}.b32", d="out b32", a="addr", lod="in b32", since=(4, 3), sm=30)
def txq_level(lanes: Lanes, a: Value, lod: Value, *, query: str) -> Value:
    """The size in texels of a texture's mipmap level; 0 where there is no such level."""
    fields = lanes.resource("texture", a)
    count = header(lanes, fields, "num_mipmap_levels")
    one, zero = lanes.const(1, 32), lanes.const(0, 32)
    count = lanes.select(lanes.compare("eq", count, zero), one, count)
    there = lanes.compare("lt", lod, count)
    return lanes.select(there, sized(lanes, fields, level(lanes, fields, lanes.select(there, lod, zero)), query), zero)


@instruction("suq.{query:width|height|depth}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def suq(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A surface's size in texels. Layers and faces are the axis behind those that the geometry has; axes that it does not have are 0 (measured on an H200)."""
    fields = lanes.resource("surface", a)
    if query == "width":
        return lanes.divide(fields["row_bytes"], fields["texel_bytes"], False)
    axes = lanes.lookup(LAST_AXIS, header(lanes, fields, "geometry"), 32)
    moved = lanes.compare("eq", header(lanes, fields, "geometry"), lanes.const(GEOMETRIES.index("a1d"), 32))
    size = fields[query] if query == "depth" else lanes.select(moved, fields["depth"], fields["height"])
    there = lanes.compare("gt", axes, lanes.const(SIZES.index(query), 32))
    return lanes.select(there, size, lanes.const(0, 32))


@instruction("suq.{query:channel_data_type|channel_order|array_size}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def suq_word(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A surface's format, as the manual's numbers; array_size is 0 where there are no layers."""
    return header(lanes, lanes.resource("surface", a), query)


@instruction("suq.{query:memory_layout}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def suq_layout(lanes: Lanes, a: Value) -> Value:
    """1 for a surface in linear memory; all of ours are arrays: 0."""
    lanes.resource("surface", a)
    return lanes.const(0, 32)


# -- surfaces -------------------------------------------------------------------------------------------------------------
SURFACE = "{geometry:1d|2d|3d|a1d|a2d}"
LOAD_CACHE, STORE_CACHE = "{cop:ca|cg|cs|cv}?", "{cop:wb|cg|cs|wt}?"
SURFACE_DATA = "{vec:v2|v4}?.{type:b8|b16|b32|b64}"
SURFACE_CLAMP = "{clamp:trap|clamp|zero}?"


def _surface_legal(vec: str, type: str, **rest: str) -> bool:
    return type_of(type).bytes * count_of(vec) <= 16


@instruction(
    f"suld.b.{SURFACE}.{LOAD_CACHE}.{SURFACE_DATA}.{SURFACE_CLAMP}", d="out {type} {vec}", a="resource s32", legal=_surface_legal,
    since=(3, 0), sm=20,
)  # fmt: skip
def suld(
    lanes: Lanes, handle: Value, coordinates: Sequence[Value], *, geometry: str, vec: str, type: str, clamp: str
) -> Value | tuple[Value, ...]:
    """d = the surface's bytes at the coordinates; x counts bytes. Outside: a fault (``trap``, the default), the edge, or zeros."""
    width, count = type_of(type).width, count_of(vec)
    fields = lanes.resource("surface", handle)
    address, inside = place(lanes, fields, coordinates, geometry, width // 8 * count, clamp or "trap", "suld")
    values = lanes.load("host", address, width, count)
    if clamp == "zero":
        values = tuple(lanes.select(inside, v, lanes.const(0, width)) for v in values)
    return values[0] if count == 1 else tuple(values)


@instruction(
    f"sust.b.{SURFACE}.{STORE_CACHE}.{SURFACE_DATA}.{SURFACE_CLAMP}", a="resource s32", b="in {type} {vec}", legal=_surface_legal,
    since=(1, 5), sm=20,
)  # fmt: skip
def sust(
    lanes: Lanes,
    handle: Value,
    coordinates: Sequence[Value],
    b: Value | tuple[Value, ...],
    *,
    geometry: str,
    vec: str,
    type: str,
    clamp: str,
) -> None:
    """The surface's bytes at the coordinates = b; x counts bytes. Outside: a fault (``trap``, the default), the edge, or nothing."""
    size = type_of(type).bytes * count_of(vec)
    fields = lanes.resource("surface", handle)
    address, inside = place(lanes, fields, coordinates, geometry, size, clamp or "trap", "sust")
    if clamp == "zero":
        address = surfaces.or_spare(lanes, fields, inside, address)
    lanes.store("host", address, b if isinstance(b, tuple) else (b,))


@instruction(f"sust.p.{SURFACE}.{{vec:v2|v4}}?.{{type:b32}}.{SURFACE_CLAMP}", a="resource s32", b="in {type} {vec}", since=(2, 0), sm=20)
def sust_p(lanes: Lanes, handle: Value, coordinates: Sequence[Value], b: Value | tuple[Value, ...], *, geometry: str, clamp: str) -> None:
    """Store converted to the surface's own format; x counts texels. Elements that the format has no channel for are dropped; channels that get no
    element become 0 (the manual leaves their value open)."""
    fields = lanes.resource("surface", handle)
    given = list(b) if isinstance(b, tuple) else [b]
    surfaces.store_formatted(lanes, fields, coordinates, geometry, clamp or "trap", given)


_REDUCED = {
    "b": {"add": ("u32", "s32", "u64"), "min": ("u32", "s32", "u64", "s64"), "and": ("b32",)},
    "p": {"add": ("b32",), "min": ("b32", "b64"), "and": ("b32",)},
}


def _reduction_legal(*, form: str, op: str, type: str, **rest: str) -> bool:
    return type in _REDUCED[form][{"max": "min", "or": "and"}.get(op, op)]


@instruction(
    f"sured.{{form:b|p}}.{{op:add|min|max|and|or}}.{{geometry:1d|2d|3d}}.{{type:u32|s32|b32|u64|s64|b64}}.{SURFACE_CLAMP}", a="resource s32",
    b="in {type}", legal=_reduction_legal, needs={"s64": ((8, 1), 50), "b64": ((8, 1), 50)}, since=(2, 0), sm=20,
)  # fmt: skip
def sured(
    lanes: Lanes, handle: Value, coordinates: Sequence[Value], b: Value, *, form: str, op: str, geometry: str, type: str, clamp: str
) -> None:
    """The surface at the coordinates = op(surface, b), at once. x counts bytes (``b``) or texels (``p``, by the format's sign)."""
    fields = lanes.resource("surface", handle)
    surfaces.reduce(lanes, fields, coordinates, geometry, clamp or "trap", op, type, b, by_texel=form == "p")
