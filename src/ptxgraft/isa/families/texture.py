"""Textures and surfaces (PTX ISA manual, "Texture Instructions" and "Surface Instructions"; filtering: CUDA programming guide, "Texture Fetching").

Invariant: a texture's texels are four 32-bit words each, decoded by the host; a surface is raw bytes. Both lie behind host addresses, so that
a meaning here runs on every instance that can load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ptxgraft.isa.families.memory import count_of
from ptxgraft.isa.filtering import BORDER, MIRROR, position, weighted_sum, weights
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction
from ptxgraft.isa.types import type_of

_NAMES = (("width", "address_x"), ("height", "address_y"), ("depth", "address_z"))
_DIMENSIONS = {"1d": 1, "2d": 2, "3d": 3, "a1d": 1, "a2d": 2}


def _wrapped(lanes: Lanes, index: Value, size: Value, mode: Value) -> tuple[Value, Value]:
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


def _texel(lanes: Lanes, fields: dict[str, Value], index: Sequence[Value]) -> list[Value]:
    """The four words of one texel; zeros outside a border."""
    found = []
    there = lanes.const(1, 1)
    for i, (size, mode) in zip(index, _NAMES, strict=False):
        place, exists = _wrapped(lanes, i, fields[size], fields[mode])
        found.append(place)
        there = lanes.and_(there, exists)
    words = lanes.load("host", _texel_address(lanes, fields, found), 32, 4)
    return [lanes.select(there, w, lanes.const(0, 32)) for w in words]


def _texel_address(lanes: Lanes, fields: dict[str, Value], place: Sequence[Value]) -> Value:
    linear = lanes.resize(place[-1], 64)
    for (size, _), i in list(zip(_NAMES, place, strict=False))[-2::-1]:
        linear = lanes.add(lanes.mul(linear, lanes.resize(fields[size], 64)), lanes.resize(i, 64))
    return lanes.add(fields["base"], lanes.shift_left(linear, lanes.const(4, 32)))


def _fetch(lanes: Lanes, handle: Value, coordinates: Sequence[Value], dimensions: int, ctype: str) -> tuple[Value, ...]:
    fields = lanes.resource("texture", handle)
    if ctype == "s32":
        # A texel that is named and not there is zero, whatever the address mode.
        border = lanes.const(BORDER, 32)
        skipped = lanes.shift_left(lanes.resize(fields["unfiltered"], 64), lanes.const(4, 32))
        moved = {"base": lanes.add(fields["base"], skipped)} | {mode: border for _, mode in _NAMES}
        return tuple(_texel(lanes, {**fields, **moved}, coordinates[:dimensions]))
    axes = list(coordinates[:dimensions])
    if dimensions == 1:
        # A line is filtered as a plane at y = 0, which a border mode of the y axis shows.
        axes.append(lanes.const(0, 32))
    positions = [position(lanes, fields, names, x) for names, x in zip(_NAMES, axes, strict=False)]
    one = lanes.const(1, 32)
    corners = []
    for corner in range(1 << len(axes)):
        index = [lanes.add(i, one) if corner >> axis & 1 else i for axis, (i, _) in enumerate(positions)]
        corners.append(_texel(lanes, fields, index))
    shares = weights(lanes, [weight for _, weight in positions])
    return tuple(weighted_sum(lanes, fields["linear"], texels, shares) for texels in zip(*corners, strict=True))


@instruction(
    "tex.{base}?.{geometry:1d|2d|3d}.v4.{dtype:f32|s32|u32}.{ctype:f32|s32}", d="out {dtype} v4", p="out pred |?", a="resource {ctype}",
    since=(1, 0), sm=10,
)  # fmt: skip
def tex(lanes: Lanes, handle: Value, coordinates: Sequence[Value], *, geometry: str, ctype: str) -> tuple[object, ...]:
    """d = the texture at the coordinates: the nearest texel, or the filtered ones around (8-bit weights). p = the texels were there.

    Integer coordinates name a texel. ``[handle, {x, y}]``; of a 3d coordinate's four elements the last is not used.
    """
    return _fetch(lanes, handle, coordinates, _DIMENSIONS[geometry], ctype), lanes.const(1, 1)


# The manual's further ways to fetch. ``offset`` moves the texels by whole ones, ``depth`` compares each with a number instead of reading it.
_FILTERED = "1d|2d|3d|a1d|a2d|cube|acube"
_TEXELS = ("v4.{dtype:f32|s32|u32|f16}", "v2.{dtype:f16x2}")
_OFFSETS = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "2dms": 2, "a2dms": 2}
_COMPARED = ("1d", "a1d", "2d", "a2d", "cube", "acube")
_GRADIENT = {"1d": 1, "a1d": 1, "2d": 2, "a2d": 2, "3d": 4, "cube": 4, "acube": 4}


def _extras(*, geometry: str, dtype: str, ctype: str = "f32", **rest: str) -> Mapping[str, str]:
    """The operands that a geometry has: an offset for each axis, a number to compare with, a gradient for each axis, twice."""
    count = _OFFSETS.get(geometry)
    vector = f"in f32 x{_GRADIENT[geometry]}" if geometry in _GRADIENT else ""
    return {
        "texel": "out b32 x2" if dtype == "f16x2" else f"out {dtype} x4",
        "offset": f"in s32 x{count} ?" if count else "",
        "depth": "in f32 ?" if geometry in _COMPARED and ctype == "f32" else "",
        "vector": vector,
    }


def _fetch_legal(*, geometry: str, ctype: str = "f32", **rest: str) -> bool:
    """Cubes have directions for coordinates, multi-sample textures have texel numbers."""
    return ctype == ("s32" if geometry.endswith("ms") else "f32") or geometry in ("1d", "2d", "3d", "a1d", "a2d")


def _declare_fetches() -> None:
    kinds: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
        (
            "tex.{base}?",
            f"{_FILTERED}|2dms|a2dms",
            "As ``tex``, in layers, cube maps and multi-sample textures, as halves or compared.",
            {},
        ),
        ("tex.{level}", _FILTERED, "As ``tex``, from the mipmap level ``lod``.", {"lod": "in {ctype}"}),
        ("tex.{grad}", _FILTERED, "As ``tex``, from the mipmap level that the gradients ask for.", {"dx": "{vector}", "dy": "{vector}"}),
    )
    for head, geometries, doc, operands in kinds:
        for texels in _TEXELS:

            def fetch(lanes: Lanes) -> None: ...

            fetch.__doc__ = doc
            coordinates = "f32" if "grad" in head else "f32|s32"
            later = {"f16": ((4, 2), 53), "f16x2": ((4, 2), 53), "2dms": ((3, 2), 30), "a2dms": ((3, 2), 30), "a1d": ((2, 3), 20)}
            instruction(
                f"{head}.{{geometry:{geometries}}}.{texels}.{{ctype:{coordinates}}}", d="{texel}", p="out pred |?", a="resource {ctype}",
                **operands, offset="{offset}", depth="{depth}", derive=_extras, legal=_fetch_legal, needs=later,
                since=(3, 1) if operands else (1, 0), sm=20 if operands else 10,
            )(declare_only(fetch))  # fmt: skip


_declare_fetches()


@instruction(
    "tld4.{component:r|g|b|a}.{geometry:2d|a2d|cube|acube}.v4.{dtype:f32|s32|u32}.f32", d="out {dtype} v4", p="out pred |?",
    a="resource f32", offset="{offset}", depth="{depth}", derive=_extras, since=(2, 2), sm=20,
)  # fmt: skip
@declare_only
def tld4(lanes: Lanes, handle: Value, coordinates: Sequence[Value]) -> None:
    """d = one component of the four texels that bilinear filtering would use."""


@instruction("istypep.{type:texref|samplerref|surfref}", p="out pred", a="in b64", since=(4, 0), sm=30)
@declare_only
def istypep(lanes: Lanes) -> None:
    """p = is ``a`` the handle of a texture, a sampler, a surface?"""


# -- queries --------------------------------------------------------------------------------------------------------------
@instruction("txq.{query:width|height|depth|normalized_coords}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def txq(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A texture's size in texels, or whether its coordinates are normalised."""
    return lanes.resource("texture", a)["normalized" if query == "normalized_coords" else query]


QUERIES = "channel_data_type|channel_order|array_size|num_mipmap_levels|num_samples|force_unnormalized_coords|filter_mode|addr_mode_0|addr_mode_1|addr_mode_2"


@instruction(f"txq.{{query:{QUERIES}}}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
@declare_only
def txq_more(lanes: Lanes, a: Value) -> None:
    """A texture's format, or how it is sampled, as the manual's numbers."""


@instruction("txq.level.{query:width|height|depth}.b32", d="out b32", a="addr", lod="in b32", since=(4, 3), sm=30)
@declare_only
def txq_level(lanes: Lanes, a: Value, lod: Value) -> None:
    """The size in texels of a texture's mipmap level."""


@instruction("suq.{query:width|height|depth}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
def suq(lanes: Lanes, a: Value, *, query: str) -> Value:
    """A surface's size in texels."""
    fields = lanes.resource("surface", a)
    return lanes.divide(fields["row_bytes"], fields["texel_bytes"], False) if query == "width" else fields[query]


@instruction("suq.{query:channel_data_type|channel_order|array_size|memory_layout}.b32", d="out b32", a="addr", since=(1, 5), sm=10)
@declare_only
def suq_more(lanes: Lanes, a: Value) -> None:
    """A surface's format and layout, as the manual's numbers."""


# -- surfaces -------------------------------------------------------------------------------------------------------------
def _place(
    lanes: Lanes, fields: dict[str, Value], coordinates: Sequence[Value], geometry: str, size: int, clamp: str, opcode: str
) -> tuple[Value, Value]:
    """The host address of a surface access of ``size`` bytes, and whether it lies inside. ``clamp`` moves it inside, ``trap`` stops the launch."""
    zero = lanes.const(0, 32)
    if geometry.startswith("a"):  # {layer, x} and {layer, x, y}: the layer is the outermost axis
        axes = [*coordinates[1 : 1 + _DIMENSIONS[geometry]], coordinates[0]]
        names = ["row_bytes", "height", "depth"][: len(axes) - 1] + ["depth"]
    else:
        axes = list(coordinates[: _DIMENSIONS[geometry]])
        names = ["row_bytes", "height", "depth"][: len(axes)]
    inside = lanes.const(1, 1)
    places: dict[str, Value] = {"row_bytes": zero, "height": zero, "depth": zero}
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
    address, inside = _place(lanes, fields, coordinates, geometry, width // 8 * count, clamp or "trap", "suld")
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
    address, inside = _place(lanes, fields, coordinates, geometry, size, clamp or "trap", "sust")
    if clamp == "zero":
        # Behind every surface lie spare bytes that nobody reads: stores that must not happen go there.
        end = lanes.mul(lanes.mul(fields["pitch"], fields["height"]), fields["depth"])
        address = lanes.select(inside, address, lanes.add(fields["base"], lanes.resize(end, 64)))
    lanes.store("host", address, b if isinstance(b, tuple) else (b,))


@instruction(f"sust.p.{SURFACE}.{{vec:v2|v4}}?.{{type:b32}}.{SURFACE_CLAMP}", a="resource s32", b="in {type} {vec}", since=(2, 0), sm=20)
@declare_only
def sust_p(lanes: Lanes, handle: Value, coordinates: Sequence[Value], b: Value | tuple[Value, ...]) -> None:
    """Store converted to the surface's own format; x counts texels."""


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
@declare_only
def sured(lanes: Lanes, handle: Value, coordinates: Sequence[Value], b: Value) -> None:
    """The surface at the coordinates = op(surface, b), at once."""
