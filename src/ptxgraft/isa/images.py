"""How textures and surfaces lie in host memory, between those who lay them out and the meanings that read them.

Invariant: what every access needs are the fields that ``Lanes.resource`` gives; what few need are words of the image's header, at the host address ``more``.
Behind the header lie the records of a texture's mipmap levels, largest first. All words have 32 bits.
Constants of data types and orders: OpenCL 1.0 (cl.h), as the PTX manual refers to them under "Channel Data Type and Channel Order Fields".
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.isa.lanes import Lanes, Value

TEXTURE_FIELDS = (
    "base", "width", "height", "depth", "linear", "normalized", "unfiltered", "address_x", "address_y", "address_z", "more", "traits",
)  # fmt: skip
SURFACE_FIELDS = ("base", "row_bytes", "height", "depth", "pitch", "texel_bytes", "more")
SAMPLER_FIELDS = ("linear", "unnormalized", "address_x", "address_y", "address_z")
FIELDS = {"texture": TEXTURE_FIELDS, "surface": SURFACE_FIELDS, "sampler": SAMPLER_FIELDS}
"""The fields of each kind of resource, in the order of its record."""

CUBE, BETWEEN = 1, 2
"""Bits of a texture's ``traits``: it is a cube map; what a fetch without a level reads lies between two levels."""

WIDE_FIELDS = frozenset(["base", "more"])
"""Fields of 64 bits, host addresses; all others have 32."""

GEOMETRIES = ("1d", "2d", "3d", "a1d", "a2d", "cube", "acube")

LAST_AXIS = (1, 2, 3, 2, 3, 3, 3)
"""How many sizes a surface of each geometry has."""

HEADER = (
    "geometry", "array_size", "num_mipmap_levels", "channel_data_type", "channel_order", "filter_mode", "addr_mode_0", "addr_mode_1",
    "addr_mode_2", "filterable", "mip_linear", "bias", "lowest", "highest", "channels", "texel", "last_level", "seamless",
)  # fmt: skip
"""Words of the header. ``geometry`` counts in GEOMETRIES; ``filterable`` is what ``linear`` of the fields would be if the texture were filtered;
``bias`` (f32 bits) is added to a level of detail, ``lowest`` and ``highest`` (256ths) bound it; ``texel`` counts in TEXELS."""

LEVEL = ("base", "base_high", "width", "height", "depth", "unfiltered")
LEVEL_WORDS = 8
"""Words from one level's record to the next."""

TEXELS = ("u1", "i1", "u2", "i2", "u4", "i4", "f2", "f4", "unorm8", "snorm8", "unorm16", "snorm16")
"""What a texel's channels are, as a formatted store writes them."""

DATA_TYPES = {
    ("snorm", 1): 0x10D0, ("snorm", 2): 0x10D1, ("unorm", 1): 0x10D2, ("unorm", 2): 0x10D3, ("sint", 1): 0x10D7, ("sint", 2): 0x10D8,
    ("sint", 4): 0x10D9, ("uint", 1): 0x10DA, ("uint", 2): 0x10DB, ("uint", 4): 0x10DC, ("float", 2): 0x10DD, ("float", 4): 0x10DE,
}  # fmt: skip
"""channel_data_type by meaning and bytes of a channel."""

CHANNEL_ORDERS = {1: 0x10B0, 2: 0x10B2, 4: 0x10B5}
"""channel_order by the number of channels: R, RG, RGBA."""

FILTER_MODES = {"point": 0, "linear": 1}
"""filter_mode: the manual's enumeration { nearest, linear }."""

ADDRESS_MODES = {"wrap": 0, "mirror": 1, "clamp": 3, "border": 4}
"""addr_mode: the manual's enumeration { wrap, mirror, clamp_ogl, clamp_to_edge, clamp_to_border }."""


def header(lanes: Lanes, fields: dict[str, Value], name: str) -> Value:
    """One word of an image's header."""
    at = lanes.add(fields["more"], lanes.const(4 * HEADER.index(name), 64))
    return lanes.load("host", at, 32)[0]


def level(lanes: Lanes, fields: dict[str, Value], number: Value) -> dict[str, Value]:
    """The fields of a texture as its mipmap level ``number`` (b32, one that there is) has them."""
    first = lanes.add(fields["more"], lanes.const(4 * len(HEADER), 64))
    at = lanes.add(first, lanes.shift_left(lanes.resize(number, 64), lanes.const(5, 32)))
    words: Sequence[Value] = [
        *lanes.load("host", at, 32, 4),
        *lanes.load("host", lanes.add(at, lanes.const(16, 64)), 32, 2),
    ]
    found = dict(zip(LEVEL, words, strict=True))
    return fields | found | {"base": lanes.concat([found["base"], found.pop("base_high")])}


def sized(lanes: Lanes, fields: dict[str, Value], level: dict[str, Value], query: str) -> Value:
    """The width, height or depth that a query of a texture's level gives."""
    if query == "width":
        return level["width"]
    geometry, layers = header(lanes, fields, "geometry"), header(lanes, fields, "array_size")
    if query == "height":
        return lanes.select(lanes.compare("eq", geometry, lanes.const(GEOMETRIES.index("a1d"), 32)), layers, level["height"])
    deep = lanes.compare("eq", geometry, lanes.const(GEOMETRIES.index("3d"), 32))
    stacked = lanes.lookup((0, 0, 0, 0, 1, 0, 1), geometry, 1)
    return lanes.select(deep, level["depth"], lanes.select(stacked, layers, lanes.const(0, 32)))
