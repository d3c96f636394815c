"""Textures and surfaces as executors read them: all images of a launch in one host buffer.

Invariant: a texture's texels are decoded once, to four 32-bit words each; a surface keeps its own bytes, with spare bytes behind that take the
stores which must not happen. A missing channel reads as zero, the fourth too (measured on an H200).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture import FORMATS, Format, image_format
from ptxgraft.errors import UsageError
from ptxgraft.isa.filtering import FLOAT, HALF, POINT, SNORM, UNORM
from ptxgraft.run.memory import ALIGNMENT, padded

ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
FILTERS = ("point", "linear")
SPARE = 64

_CODES = {np.dtype(t): code for t, code in (("u1", 1), ("u2", 2), ("u4", 3), ("i1", 8), ("i2", 9), ("i4", 10), ("f2", 16), ("f4", 32))}


def _array_of(array: NDArray, kind: str, code: int | None) -> tuple[NDArray, Format]:
    array = np.asarray(array)
    if array.ndim not in (2, 3, 4) or array.shape[-1] not in (1, 2, 4) or 0 in array.shape:
        raise UsageError(
            f"a {kind} of shape {array.shape}", hint="give [width, channels], [height, width, channels] or [depth, height, width, channels]"
        )
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


@dataclass(slots=True, eq=False)
class Texture:
    """``array`` is [width, channels], [height, width, channels] or [depth, height, width, channels] with 1, 2 or 4 channels.

    ``format`` is a CUarray_format code, by default the one of the array's dtype. ``filter`` is point or linear; ``address`` one of wrap, clamp, mirror,
    border, or one for each axis (x first); ``normalized`` coordinates run from 0 to 1. 8- and 16-bit integers are read as floats (0..1 or -1..1)
    unless ``integers`` is set; 32-bit integers are read as they are.
    """

    array: NDArray
    format: int | None = None
    filter: str = "point"
    address: str | tuple[str, ...] = "clamp"
    normalized: bool = False
    integers: bool = False

    def __post_init__(self) -> None:
        self.array, row = _array_of(self.array, "texture", self.format)
        self.format = row.code
        modes = (
            (self.address,) * 3 if isinstance(self.address, str) else tuple(self.address) + (self.address[-1],) * (3 - len(self.address))
        )
        self.address = modes
        for what, given, known in (("filter", (self.filter,), FILTERS), ("address mode", modes, ADDRESS_MODES)):
            for word in given:
                if word not in known:
                    raise UsageError(f"{what} {word!r} is unknown", hint=f"one of {', '.join(known)}")
        if self.filter == "linear" and self.reads_integers:
            raise UsageError("integer texels cannot be filtered linearly", hint="use filter='point'")
        if not self.normalized and {"wrap", "mirror"} & set(modes[: self.array.ndim - 1]):
            raise UsageError("wrap and mirror need normalised coordinates", hint="set normalized=True, or use clamp or border")

    @property
    def reads_integers(self) -> bool:
        meaning = FORMATS[self.format or 0].meaning
        return meaning in ("uint", "sint") or (self.integers and meaning != "float")

    @property
    def filtering(self) -> int:
        """The field ``linear``: what kind of texels is filtered, POINT for none (``isa.filtering``)."""
        if self.filter == "point":
            return POINT
        row = FORMATS[self.format or 0]
        return {"unorm": UNORM, "snorm": SNORM}.get(row.meaning, HALF if row.dtype == np.float16 else FLOAT)

    def words(self) -> NDArray[np.uint32]:
        """The decoded texels: uint32[texels, 4], the bits of f32 or of 32-bit integers. Where normalised integers are filtered: 16-bit ones as f32,
        and then all texels again as unfiltered fetches read them."""
        row = FORMATS[self.format or 0]
        flat = np.ascontiguousarray(self.array).reshape(-1, self.array.shape[-1])
        if self.reads_integers:
            values = flat.astype(np.int64).astype(np.uint32)
        elif self.filtering in (UNORM, SNORM):
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
    """Normalised integers widened to 16 bits, as f32: what the filter works on. Of 8-bit signed ones three more bits are kept (as measured)."""
    if flat.dtype == np.int8:
        return (np.floor(flat.astype(np.float64) * (32767 / 127) * 8) / 8).astype(np.float32)
    return np.maximum(flat.astype(np.int64) * (257 if flat.dtype == np.uint8 else 1), -32767).astype(np.float32)


@dataclass(slots=True, eq=False)
class Surface:
    """``array`` as in ``Texture``; a run's stores come back into it. ``format`` as there: it says how other programs show the bytes."""

    array: NDArray
    format: int | None = None

    def __post_init__(self) -> None:
        self.array, row = _array_of(self.array, "surface", self.format)
        self.format = row.code


def _extent(array: NDArray) -> tuple[int, int, int]:
    """(width, height, depth) in texels."""
    sizes = [*array.shape[-2::-1], 1, 1]
    return sizes[0], sizes[1], sizes[2]


@dataclass(slots=True, eq=False)
class HostImages:
    """``arena`` holds all images; the dictionaries give, by handle, the fields of ``Lanes.resource`` as numbers (``base`` is a host address)."""

    arena: NDArray[np.uint8]
    textures: dict[int, dict[str, int]] = field(default_factory=dict)
    surfaces: dict[int, dict[str, int]] = field(default_factory=dict)

    @property
    def base(self) -> int:
        """The host address of the arena's first byte."""
        return self.arena.ctypes.data

    def surface_bytes(self, handle: int) -> NDArray[np.uint8]:
        """A surface's bytes in the arena (a view)."""
        fields = self.surfaces[handle]
        start = fields["base"] - self.base
        return self.arena[start : start + fields["pitch"] * fields["height"] * fields["depth"]]


def host_images(textures: Mapping[int, Texture], surfaces: Mapping[int, Surface]) -> HostImages:
    """Lay out and fill the buffer for a launch's images."""
    contents: list[tuple[int, str, NDArray[np.uint8]]] = []
    for handle, texture in textures.items():
        contents.append((handle, "texture", texture.words().reshape(-1).view(np.uint8)))
    for handle, surface in surfaces.items():
        contents.append((handle, "surface", np.ascontiguousarray(surface.array).reshape(-1).view(np.uint8)))
    starts = list(_starts(data.size for _, _, data in contents))
    images = HostImages(padded(starts[-1]))
    for start, (handle, kind, data) in zip(starts, contents, strict=False):
        images.arena[start : start + data.size] = data
        if kind == "texture":
            images.textures[handle] = _texture_fields(textures[handle], images.base + start)
        else:
            images.surfaces[handle] = _surface_fields(surfaces[handle], images.base + start)
    return images


def _starts(sizes: Iterator[int]) -> Iterator[int]:
    at = 0
    for size in sizes:
        yield at
        at += -(-(size + SPARE) // ALIGNMENT) * ALIGNMENT
    yield at


def _texture_fields(texture: Texture, base: int) -> dict[str, int]:
    width, height, depth = _extent(texture.array)
    fields = {"base": base, "width": width, "height": height, "depth": depth}
    again = width * height * depth if texture.filtering in (UNORM, SNORM) else 0
    fields |= {"linear": texture.filtering, "normalized": int(texture.normalized), "unfiltered": again}
    return fields | {f"address_{axis}": ADDRESS_MODES.index(mode) for axis, mode in zip("xyz", texture.address, strict=True)}


def _surface_fields(surface: Surface, base: int) -> dict[str, int]:
    width, height, depth = _extent(surface.array)
    texel_bytes = surface.array.dtype.itemsize * surface.array.shape[-1]
    row_bytes = width * texel_bytes
    return {"base": base, "row_bytes": row_bytes, "height": height, "depth": depth, "pitch": row_bytes, "texel_bytes": texel_bytes}
