"""Textures, surfaces and samplers as executors read them: all images of a launch in one host buffer.

Invariant: a texture's texels are decoded once, to four 32-bit words each; a surface keeps its own bytes, with spare bytes behind that take the
stores which must not happen. A missing channel reads as zero, the fourth too (measured on an H200).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture import FORMATS, Format, image_format
from ptxgraft.errors import UsageError
from ptxgraft.isa import images as layout
from ptxgraft.isa.filtering import FLOAT, HALF, POINT, SNORM, SNORM8, UNORM
from ptxgraft.run.memory import ALIGNMENT, padded

ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
FILTERS = ("point", "linear")
SPARE = 64

_CODES = {np.dtype(t): code for t, code in (("u1", 1), ("u2", 2), ("u4", 3), ("i1", 8), ("i2", 9), ("i4", 10), ("f2", 16), ("f4", 32))}
_SHAPES = "[width, channels], [height, width, channels] or [depth, height, width, channels]"
_LAYERED_SHAPES = "[layers, width, channels] or [layers, height, width, channels]"
_CUBE_SHAPES = "[6, width, width, channels], or [6 * layers, width, width, channels] of layered ones"


def _array_of(array: NDArray, kind: str, code: int | None, layered: bool, cube: bool) -> tuple[NDArray, Format]:
    array = np.asarray(array)
    dimensions = (4,) if cube else (3, 4) if layered else (2, 3, 4)
    if array.ndim not in dimensions or array.shape[-1] not in (1, 2, 4) or 0 in array.shape:
        wanted = _CUBE_SHAPES if cube else _LAYERED_SHAPES if layered else _SHAPES
        raise UsageError(f"a {kind} of shape {array.shape}", hint=f"give {wanted}, with 1, 2 or 4 channels")
    if cube and (array.shape[1] != array.shape[2] or array.shape[0] % 6 or not (layered or array.shape[0] == 6)):
        raise UsageError(f"a cube map of shape {array.shape}", hint=f"give {_CUBE_SHAPES}")
    if code is None:
        code = _CODES.get(array.dtype)
        if code is None:
            raise UsageError(f"a {kind} of {array.dtype}", hint=f"texels are {', '.join(str(d) for d in _CODES)}")
    row = image_format(code)
    if row is None:
        raise UsageError(f"image format {code} is unknown", hint=f"known CUarray_format codes: {', '.join(map(str, FORMATS))}")
    if row.dtype != array.dtype:
        raise UsageError(f"a {kind} of format {code} ({row.name}) holds {row.dtype}, not {array.dtype}")
    return array, row


def _geometry(array: NDArray, layered: bool, cube: bool) -> str:
    """One of ``isa.images.GEOMETRIES``."""
    if cube:
        return "acube" if layered else "cube"
    return f"a{array.ndim - 2}d" if layered else f"{array.ndim - 1}d"


def _extent(array: NDArray, geometry: str) -> tuple[int, int, int]:
    """(width, height, depth) in texels; layers and faces count as depth."""
    if geometry == "a1d":
        return array.shape[1], 1, array.shape[0]
    sizes = [*array.shape[-2::-1], 1, 1]
    return sizes[0], sizes[1], sizes[2]


def _known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for word in given:
        if word not in known:
            raise UsageError(f"{what} {word!r} is unknown", hint=f"one of {', '.join(known)}")


def _modes(address: str | tuple[str, ...]) -> tuple[str, ...]:
    modes = (address,) * 3 if isinstance(address, str) else tuple(address) + (address[-1],) * (3 - len(address))
    _known("address mode", modes, ADDRESS_MODES)
    return modes


@dataclass(slots=True, eq=False)
class Texture:
    """``array`` is [width, channels], [height, width, channels] or [depth, height, width, channels] with 1, 2 or 4 channels.

    ``format`` is a CUarray_format code, by default the one of the array's dtype. ``filter`` is point or linear; ``address`` one of wrap, clamp, mirror,
    border, or one for each axis (x first); ``normalized`` coordinates run from 0 to 1. 8- and 16-bit integers are read as floats (0..1 or -1..1)
    unless ``integers`` is set; 32-bit integers are read as they are.

    ``layered``: the outermost axis counts layers, [layers, width, channels] or [layers, height, width, channels]. ``cube``: a cube map, [6, n, n,
    channels] with the faces +x, -x, +y, -y, +z, -z; with ``layered`` six faces for each layer. ``mipmaps`` are the levels below ``array``, each half as
    large along every axis but that of layers and faces, rounded down, at least 1. ``mip_filter``, ``bias``, ``lowest`` and ``highest`` (by default the last level)
    say which levels a level of detail reads, as in the CUDA driver's texture descriptor; ``seamless``: filtering goes on across a cube's edges.
    """

    array: NDArray
    format: int | None = None
    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = False
    integers: bool = False
    layered: bool = False
    cube: bool = False
    mipmaps: Sequence[NDArray] = ()
    mip_filter: str = "point"
    bias: float = 0.0
    lowest: float = 0.0
    highest: float | None = None
    seamless: bool = False

    def __post_init__(self) -> None:
        self.array, row = _array_of(self.array, "texture", self.format, self.layered, self.cube)
        self.format = row.code
        self.address = modes = _modes(self.address)
        _known("filter", (self.filter,), FILTERS)
        _known("mip_filter", (self.mip_filter,), FILTERS)
        self.mipmaps = tuple(np.asarray(a) for a in self.mipmaps)
        self._check_levels()
        if self.highest is None:
            self.highest = float(len(self.mipmaps))
        if self.reads_integers and "linear" in (self.filter, self.mip_filter):
            raise UsageError("integer texels cannot be filtered linearly", hint="use filter='point' and mip_filter='point'")
        if not self.normalized and not self.cube and {"wrap", "mirror"} & set(modes[: len(self.axes)]):
            raise UsageError("wrap and mirror need normalised coordinates", hint="set normalized=True, or use clamp or border")
        if self.mipmaps and not self.normalized:
            raise UsageError("mipmaps need normalised coordinates", hint="set normalized=True")
        if self.seamless and not self.cube:
            raise UsageError("only cube maps are filtered across edges", hint="seamless=True goes with cube=True")

    def _check_levels(self) -> None:
        fixed = 1 if self.layered or self.cube else 0
        above = self.array
        for number, below in enumerate(self.mipmaps, 1):
            wanted = (*above.shape[:fixed], *(max(1, s // 2) for s in above.shape[fixed:-1]), above.shape[-1])
            if above.shape[fixed:-1] == (1,) * (above.ndim - 1 - fixed):
                raise UsageError(f"there is no mipmap level {number}: level {number - 1} is a single texel")
            if below.shape != wanted or below.dtype != self.array.dtype:
                raise UsageError(f"mipmap level {number} is {below.dtype} {below.shape}", hint=f"it must be {self.array.dtype} {wanted}")
            above = below

    @property
    def levels(self) -> tuple[NDArray, ...]:
        """All mipmap levels, ``array`` first."""
        return (self.array, *self.mipmaps)

    @property
    def geometry(self) -> str:
        """1d, 2d, 3d, a1d, a2d, cube or acube."""
        return _geometry(self.array, self.layered, self.cube)

    @property
    def axes(self) -> tuple[int, ...]:
        """The sizes along the axes that coordinates go along, x first."""
        return self.array.shape[1 if self.layered or self.cube else 0 : -1][::-1]

    @property
    def reads_integers(self) -> bool:
        meaning = FORMATS[self.format or 0].meaning
        return meaning in ("uint", "sint") or (self.integers and meaning != "float")

    @property
    def filterable(self) -> int:
        """What kind of texels is filtered when texels are filtered (``isa.filtering``); POINT for integers, which never are."""
        if self.reads_integers:
            return POINT
        row = FORMATS[self.format or 0]
        small = SNORM8 if row.dtype == np.int8 else SNORM
        return {"unorm": UNORM, "snorm": small}.get(row.meaning, HALF if row.dtype == np.float16 else FLOAT)

    @property
    def filtering(self) -> int:
        """The field ``linear``: what kind of texels is filtered, POINT for none."""
        return POINT if self.filter == "point" else self.filterable

    @property
    def doubled(self) -> bool:
        """Do the texels lie there twice: as they are filtered, and as they are read? So it is for normalised integers."""
        return self.filterable in (UNORM, SNORM, SNORM8)

    def words(self, level: int = 0) -> NDArray[np.uint32]:
        """The decoded texels of a level: uint32[texels, 4], the bits of f32 or of 32-bit integers. Where normalised integers may be filtered: 16-bit ones as
        f32, and then all texels again as unfiltered fetches read them."""
        row, array = FORMATS[self.format or 0], self.levels[level]
        flat = np.ascontiguousarray(array).reshape(-1, array.shape[-1])
        if self.reads_integers:
            values = flat.astype(np.int64).astype(np.uint32)
        elif self.doubled:
            values = np.concatenate([_sixteen_bits(flat), _floats(flat, row)]).view(np.uint32)
        else:
            values = _floats(flat, row).view(np.uint32)
        words = np.zeros((values.shape[0], 4), dtype=np.uint32)
        words[:, : values.shape[1]] = values
        return words


def _floats(flat: NDArray, row: Format) -> NDArray[np.float32]:
    if row.meaning not in ("unorm", "snorm"):
        return flat.astype(np.float32)
    scaled = flat.astype(np.float32) / np.float32(np.iinfo(row.dtype).max)
    return np.maximum(scaled, np.float32(-1))


def _sixteen_bits(flat: NDArray) -> NDArray[np.float32]:
    """Normalised integers widened to 16 bits, as f32: what the filter works on. 8-bit signed ones are widened after it."""
    if flat.dtype == np.int8:
        return flat.astype(np.float32)
    return np.maximum(flat.astype(np.int64) * (257 if flat.dtype == np.uint8 else 1), -32767).astype(np.float32)


@dataclass(slots=True, eq=False)
class Surface:
    """``array`` as in ``Texture``; a run's stores come back into it. ``format`` as there: it says how other programs show the bytes, and what formatted
    stores convert to. ``layered`` and ``cube`` as there."""

    array: NDArray
    format: int | None = None
    layered: bool = False
    cube: bool = False

    def __post_init__(self) -> None:
        self.array, row = _array_of(self.array, "surface", self.format, self.layered, self.cube)
        self.format = row.code

    @property
    def geometry(self) -> str:
        """1d, 2d, 3d, a1d, a2d, cube or acube."""
        return _geometry(self.array, self.layered, self.cube)


@dataclass(slots=True, eq=False)
class Sampler:
    """How a texture is read, for modules in independent texture mode: ``filter`` and ``address`` as in ``Texture``; ``unnormalized`` coordinates count texels
    even where the texture's run from 0 to 1."""

    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    unnormalized: bool = False

    def __post_init__(self) -> None:
        self.address = _modes(self.address)
        _known("filter", (self.filter,), FILTERS)


@dataclass(slots=True, eq=False)
class HostImages:
    """``arena`` holds all images; the dictionaries give, by handle, the fields of ``Lanes.resource`` as numbers (``base`` is a host address)."""

    arena: NDArray[np.uint8]
    textures: dict[int, dict[str, int]] = field(default_factory=dict)
    surfaces: dict[int, dict[str, int]] = field(default_factory=dict)
    samplers: dict[int, dict[str, int]] = field(default_factory=dict)

    @property
    def base(self) -> int:
        """The host address of the arena's first byte."""
        return self.arena.ctypes.data

    @property
    def count(self) -> int:
        return len(self.textures) + len(self.surfaces) + len(self.samplers)

    def of_kind(self, kind: str) -> dict[int, dict[str, int]]:
        """The resources of a kind (texture, surface, sampler), by handle."""
        return {"texture": self.textures, "surface": self.surfaces, "sampler": self.samplers}[kind]

    def surface_bytes(self, handle: int) -> NDArray[np.uint8]:
        """A surface's bytes in the arena (a view)."""
        fields = self.surfaces[handle]
        start = fields["base"] - self.base
        return self.arena[start : start + fields["pitch"] * fields["height"] * fields["depth"]]


def host_images(
    textures: Mapping[int, Texture], surfaces: Mapping[int, Surface], samplers: Mapping[int, Sampler] | None = None
) -> HostImages:
    """Lay out and fill the buffer for a launch's images: for each its header, then its levels or its bytes."""
    images = HostImages(padded(sum(map(_room, [*textures.values(), *surfaces.values()]))))
    places = _Places(images)
    for handle, texture in textures.items():
        images.textures[handle] = _put_texture(places, texture)
    for handle, surface in surfaces.items():
        images.surfaces[handle] = _put_surface(places, surface)
    for handle, sampler in (samplers or {}).items():
        images.samplers[handle] = _sampler_fields(sampler)
    return images


@dataclass(slots=True)
class _Places:
    """Hands out the arena from the front."""

    images: HostImages
    used: int = 0

    def put(self, data: NDArray[np.uint8]) -> int:
        """The host address of a copy of ``data``."""
        self.images.arena[self.used : self.used + data.size] = data
        at = self.images.base + self.used
        self.used += _rounded(data.size)
        return at


def _rounded(size: int) -> int:
    return -(-(size + SPARE) // ALIGNMENT) * ALIGNMENT


def _room(image: Texture | Surface) -> int:
    """Bytes of the arena that an image takes."""
    if isinstance(image, Surface):
        return _rounded(image.array.nbytes) + _rounded(4 * len(layout.HEADER))
    levels = sum(_rounded(16 * math.prod(a.shape[:-1]) * (2 if image.doubled else 1)) for a in image.levels)
    return levels + _rounded(4 * (len(layout.HEADER) + layout.LEVEL_WORDS * len(image.levels)))


def _put_texture(places: _Places, texture: Texture) -> dict[str, int]:
    levels = []
    for number, array in enumerate(texture.levels):
        base = places.put(texture.words(number).reshape(-1).view(np.uint8))
        width, height, depth = _extent(array, texture.geometry)
        again = width * height * depth if texture.doubled else 0
        levels.append({"base": base, "width": width, "height": height, "depth": depth, "unfiltered": again})
    records = [[v["base"] & 0xFFFFFFFF, v["base"] >> 32, v["width"], v["height"], v["depth"], v["unfiltered"], 0, 0] for v in levels]
    words = [*_header(texture), *(word for record in records for word in record)]
    more = places.put(np.array(words, np.uint32).view(np.uint8))
    first, between = _first_level(texture)
    traits = layout.CUBE * texture.cube | layout.BETWEEN * between
    fields = {**levels[first], "linear": texture.filtering, "normalized": int(texture.normalized), "more": more, "traits": traits}
    return fields | _address_fields(texture.address)


def _steps(level: float) -> int:
    """A level of detail in 256ths, rounded down."""
    return int(np.clip(math.floor(float(np.float32(level)) * 256), 0, 0xFFFF))


def _bias_steps(bias: float) -> int:
    """A bias in 256ths, rounded toward zero."""
    return math.trunc(float(np.float32(bias)) * 256)


def _first_level(texture: Texture) -> tuple[int, bool]:
    """The level that a fetch reads which names none, and whether it reads the next one too."""
    at = min(_steps(texture.lowest), 256 * len(texture.mipmaps))
    return ((at + 128) >> 8, False) if texture.mip_filter == "point" else (at >> 8, bool(at & 255))


def _address_fields(modes: str | tuple[str, ...]) -> dict[str, int]:
    return {f"address_{axis}": ADDRESS_MODES.index(mode) for axis, mode in zip("xyz", modes, strict=True)}


def _sampler_fields(sampler: Sampler) -> dict[str, int]:
    return {"linear": FILTERS.index(sampler.filter), "unnormalized": int(sampler.unnormalized), **_address_fields(sampler.address)}


def _header(image: Texture | Surface) -> list[int]:
    """The words of ``isa.images.HEADER``."""
    row, channels = FORMATS[image.format or 0], image.array.shape[-1]
    integers = image.reads_integers if isinstance(image, Texture) else row.code in (1, 2, 8, 9)
    meaning = {"unorm": "uint", "snorm": "sint"}.get(row.meaning, row.meaning) if integers else row.meaning
    layers = _extent(image.array, image.geometry)[2] // (6 if image.cube else 1) if image.layered else 0
    words = dict.fromkeys(layout.HEADER, 0) | {
        "geometry": layout.GEOMETRIES.index(image.geometry),
        "array_size": layers,
        "channel_data_type": layout.DATA_TYPES[meaning, row.channel_bytes],
        "channel_order": layout.CHANNEL_ORDERS[channels],
        "channels": channels,
        "texel": layout.TEXELS.index(f"{meaning}{8 * row.channel_bytes}" if meaning in ("unorm", "snorm") else row.dtype.str[1:]),
    }
    if isinstance(image, Texture):
        words |= {f"addr_mode_{i}": layout.ADDRESS_MODES[mode] for i, mode in enumerate(image.address)}
        words |= {
            "num_mipmap_levels": len(image.levels) if image.mipmaps else 0,
            "filter_mode": layout.FILTER_MODES[image.filter],
            "filterable": image.filterable,
            "mip_linear": FILTERS.index(image.mip_filter),
        }
        words |= {"bias": _bias_steps(image.bias) & 0xFFFFFFFF, "last_level": len(image.mipmaps), "seamless": int(image.seamless)}
        words |= {"lowest": _steps(image.lowest), "highest": _steps(float(len(image.mipmaps)) if image.highest is None else image.highest)}
    return list(words.values())


def _put_surface(places: _Places, surface: Surface) -> dict[str, int]:
    width, height, depth = _extent(surface.array, surface.geometry)
    texel_bytes = surface.array.dtype.itemsize * surface.array.shape[-1]
    row_bytes = width * texel_bytes
    base = places.put(np.ascontiguousarray(surface.array).reshape(-1).view(np.uint8))
    more = places.put(np.array(_header(surface), np.uint32).view(np.uint8))
    fields = {"base": base, "row_bytes": row_bytes, "height": height, "depth": depth, "pitch": row_bytes, "texel_bytes": texel_bytes}
    return fields | {"more": more}
