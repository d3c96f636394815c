"""A recorded texture or surface.

Invariant: what is not said is as it was before there was a word for it, and the contents hold exactly the bytes that sizes, levels and format ask for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture.checks import contents_faults, name_fault, shown
from ptxgraft.capture.contents import AFTER, BEFORE_IF_RECORDED, Bytes, Held, unopened
from ptxgraft.capture.images import decode, image_bytes, texels
from ptxgraft.errors import SourceError

When = Literal["before", "after"]
Filter = Literal["point", "linear"]
FILTERS: tuple[Filter, ...] = ("point", "linear")  # by CUfilter_mode
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")  # by CUaddress_mode
ADDRESS_END = 1 << 64


@dataclass(frozen=True, slots=True)
class Mipmaps:
    """The levels of a texture: how many, the first counted too, and how a level of detail chooses among them (CUDA_TEXTURE_DESC of the driver API)."""

    levels: int
    filter: str
    bias: float
    lowest: float
    highest: float


@dataclass(eq=False, repr=False)
class Image:
    """A texture or surface argument. ``format`` is a CUarray_format code; ``None`` in filter, address or normalized means not recorded.

    ``dimensions`` is 1, 2 or 3; ``height`` is 1 below two, ``depth`` 1 below three. ``integers``: 8- and 16-bit integer texels are read as they are.
    ``layered``: the outermost dimension counts layers; ``cube``: it counts the faces of cube maps, ``seamless`` ones where filtering goes on across edges.
    Of ``mipmaps`` the contents hold all levels, one after the other. ``reference`` is the module variable that the image is bound to, whose address is the
    handle; its ``arg_offset`` is -1. ``linear``: the texels lie in plain memory, one after the other, as ``tex1Dfetch`` reads them."""

    kind: Literal["texture", "surface"]
    arg_offset: int
    handle: int
    width: int
    height: int
    channels: int
    format: int
    filter: Filter | None = None
    address: tuple[str, ...] | None = None
    normalized: bool | None = None
    before: Held = BEFORE_IF_RECORDED
    after: Held = AFTER
    depth: int = 1
    dimensions: int = 2
    integers: bool = False
    layered: bool = False
    cube: bool = False
    seamless: bool = False
    mipmaps: Mipmaps | None = None
    reference: str | None = None
    linear: bool = False

    def __repr__(self) -> str:
        shape = f"{self.width}x{self.height}x{self.channels}"
        return f"Image({self.kind!r}, offset {self.arg_offset}, {shape}, format {self.format}, filter {self.filter!r})"

    @property
    def size(self) -> int | None:
        """Bytes that the sizes, channels and format ask for, of all levels; ``None`` when the format is unknown."""
        return image_bytes(1, sum(math.prod(shape) for shape in self.shapes), self.channels, self.format)

    @property
    def place(self) -> str:
        """``argument 24`` or ``reference name``: what the image was given by."""
        return f"argument {self.arg_offset}" if self.reference is None else f"reference {self.reference}"

    @property
    def called(self) -> str:
        """``the texture at argument offset 24`` or ``the texture at reference name``, as messages say it."""
        return f"the {self.kind} at {f'argument offset {self.arg_offset}' if self.reference is None else self.place}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The sizes of each level in texels, x last, one for each dimension."""
        shape = (self.depth, self.height, self.width)[3 - self.dimensions :]
        fixed = 1 if self.layered or self.cube else 0
        made = [shape]
        for _ in range(1, self.mipmaps.levels if self.mipmaps else 1):
            shape = (*shape[:fixed], *(max(1, s // 2) for s in shape[fixed:]))
            made.append(shape)
        return made

    def contents(self, when: When = "before") -> Bytes:
        """The texels' bytes, uint8 [n]. Raises ``SourceError`` when that state was not recorded."""
        found = self.before if when == "before" else self.after
        if found is None:
            raise SourceError(f"{self.called} has no texels recorded {when} the launch")
        return found

    def texels(self, when: When = "before") -> NDArray:
        """[depth * height, width, channels] of the first level in the format's own dtype, nothing converted."""
        return texels(self._first(when), self.width, self.height * self.depth, self.channels, self.format)

    def arrays(self, when: When = "before") -> list[NDArray]:
        """The texels of each level with one axis for each dimension: [width, channels], [height, width, channels] or [depth, height, width, channels]."""
        made, raw, at = [], self.contents(when), 0
        for shape in self.shapes:
            rows = math.prod(shape[:-1])
            size = image_bytes(shape[-1], rows, self.channels, self.format) or 0
            made.append(texels(raw[at : at + size], shape[-1], rows, self.channels, self.format).reshape(*shape, self.channels))
            at += size
        return made

    def pixels(self, when: When = "before") -> NDArray[np.float32]:
        """float32 [depth * height, width, channels] of the first level, as ``images.decode`` reads the format."""
        return decode(self._first(when), self.width, self.height * self.depth, self.channels, self.format)

    def _first(self, when: When) -> Bytes:
        return self.contents(when)[: image_bytes(self.width, self.height * self.depth, self.channels, self.format)]


def _shape_faults(image: Image) -> list[str]:
    found: list[str] = []
    if image.layered and image.dimensions < 2:
        found.append("layers need a dimension of their own")
    faces = 6 if image.cube else 1
    if image.cube and (
        image.dimensions != 3 or image.width != image.height or image.depth % faces or (not image.layered and image.depth != faces)
    ):
        found.append(f"{image.width}x{image.height}x{image.depth} texels are not the faces of a cube map")
    if image.linear and (image.kind != "texture" or image.dimensions != 1 or image.mipmaps is not None):
        found.append("only a texture of one dimension and level lies in plain memory")
    if image.mipmaps is not None:
        m = image.mipmaps
        longest = max(
            (image.depth, image.height, image.width)[3 - image.dimensions + (1 if image.layered or image.cube else 0) :], default=1
        )
        if image.kind != "texture" or not 2 <= m.levels <= longest.bit_length():
            found.append(f"{m.levels} mipmap levels")
        if m.filter not in FILTERS:
            found.append(f"the mipmap filter {shown(m.filter)}")
    return found


def image_faults(image: Image, kind: str, args_bytes: int) -> list[str]:
    """What contradicts itself in an image that a launch with ``args_bytes`` of arguments lists among its ``kind``s; opens nothing."""
    found: list[str] = []
    what = f"the {kind} at argument offset {image.arg_offset}" if image.reference is None else f"the {kind} at {image.place}"
    if image.kind != kind:
        found.append(f"{what} is listed with the {kind}s and says {image.kind}")
    if image.reference is not None:
        fault = name_fault(image.reference)
        found += [f"{what}: {fault}"] if fault else []
    elif image.arg_offset < 0 or image.arg_offset + 8 > args_bytes:
        found.append(f"{what} does not fit the argument block of {args_bytes} bytes")
    if not 0 <= image.handle < ADDRESS_END:
        found.append(f"{what} has the handle {image.handle}, not a 64-bit integer")
    if not (1 <= image.width < 1 << 32 and 1 <= image.height < 1 << 32 and 1 <= image.channels <= 4):
        found.append(f"{what} is {image.width}x{image.height} texels of {image.channels} channels")
    if not (1 <= image.dimensions <= 3 and 1 <= image.depth < 1 << 32):
        found.append(f"{what} has {image.dimensions} dimensions and a depth of {image.depth}")
    elif (image.depth > 1 and image.dimensions < 3) or (image.height > 1 and image.dimensions < 2):
        found.append(f"{what} is {image.width}x{image.height}x{image.depth} texels in {image.dimensions} dimensions")
    if image.filter is not None and image.filter not in FILTERS:
        found.append(f"{what} has the filter {shown(image.filter)}, not one of {', '.join(FILTERS)}")
    if image.address is not None and not (1 <= len(image.address) <= 3 and set(image.address) <= set(ADDRESS_MODES)):
        found.append(f"{what} has the address modes {shown(image.address)}, not up to three of {', '.join(ADDRESS_MODES)}")
    found += [f"{what}: {fault}" for fault in _shape_faults(image)]
    if found:
        return found
    for when in ("before", "after"):
        found += contents_faults(f"{what} {when} the launch", unopened(image, when), image.size)
    return found
