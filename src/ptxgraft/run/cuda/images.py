"""Textures and surfaces on the GPU: the driver's arrays and the objects that kernels get.

Invariant: an array holds exactly the texels of the image it was made for; what was made is freed by ``free``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.run.cuda.driver import Device
from ptxgraft.run.images import ADDRESS_MODES, FILTERS, Surface, Texture

_LAYERED, _SURFACE_LDST, _CUBEMAP, _GATHER = 0x01, 0x02, 0x04, 0x08
"""CUDA_ARRAY3D_*."""
_READ_AS_INTEGER, _NORMALIZED, _SEAMLESS = 0x01, 0x02, 0x40
"""CU_TRSF_*."""
_MOST_GATHERED = 1 << 15
"""Texels along an axis of an image that may be gathered from."""


@dataclass(slots=True)
class Image:
    """A texture or surface object: ``handle`` is what kernels get. ``array`` is the driver's array behind it, of a mipmapped texture its mipmapped array,
    None where there is plain memory."""

    handle: int
    array: Any
    surface: bool
    mipmapped: bool = False


@dataclass(eq=False)
class Images:
    """The textures and surfaces made on a device."""

    device: Device
    made: list[Image] = field(default_factory=list)

    def texture(self, texture: Texture, linear: bool = False) -> Image:
        """A texture object over a copy of the texture's levels, with its filters, address modes and kind of coordinates. ``linear``: the copy lies in plain
        memory, as fetches by number need it."""
        driver = self.device.driver
        description = driver.CUDA_TEXTURE_DESC()
        modes = {name: getattr(driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{name.upper()}") for name in ADDRESS_MODES}
        description.addressMode = [modes[name] for name in texture.address]
        filters = {name: getattr(driver.CUfilter_mode, f"CU_TR_FILTER_MODE_{name.upper()}") for name in FILTERS}
        description.filterMode, description.mipmapFilterMode = filters[texture.filter], filters[texture.mip_filter]
        description.mipmapLevelBias = texture.bias
        description.minMipmapLevelClamp, description.maxMipmapLevelClamp = texture.lowest, texture.highest
        description.flags = (_NORMALIZED if texture.normalized else 0) | (_READ_AS_INTEGER if texture.reads_integers else 0)
        description.flags |= _SEAMLESS if texture.seamless else 0
        if linear:
            return self._keep(None, False, False, "cuTexObjectCreate", self._memory(texture), description, None)
        gathers = texture.geometry == "2d" and max(texture.array.shape[:2]) <= _MOST_GATHERED
        array = self._array(texture, texture.levels, _GATHER if gathers else 0)
        mipmapped = len(texture.levels) > 1
        return self._keep(array, mipmapped, False, "cuTexObjectCreate", self._resource(array, mipmapped), description, None)

    def surface(self, surface: Surface) -> Image:
        """A surface object over a copy of ``surface.array``."""
        array = self._array(surface, (surface.array,), _SURFACE_LDST)
        return self._keep(array, False, True, "cuSurfObjectCreate", self._resource(array, False))

    def texels(self, image: Image, like: Surface) -> NDArray:
        """What a surface holds now, in the shape and dtype of ``like.array``."""
        data = np.empty_like(like.array, order="C")
        self._copy(image.array, data, like.geometry, to_device=False)
        return data

    def fill(self, image: Image, surface: Surface) -> None:
        """Copy a surface's texels into its object."""
        self._copy(image.array, np.ascontiguousarray(surface.array), surface.geometry, to_device=True)

    def free(self) -> None:
        """Free all textures and surfaces made so far."""
        driver = self.device.driver
        for image in self.made:
            (driver.cuSurfObjectDestroy if image.surface else driver.cuTexObjectDestroy)(image.handle)
            self._destroy(image.array, image.mipmapped)
        self.made.clear()

    def _destroy(self, array: Any, mipmapped: bool) -> None:
        if array is None:
            return  # plain memory, which the device frees
        (self.device.driver.cuMipmappedArrayDestroy if mipmapped else self.device.driver.cuArrayDestroy)(array)

    def _keep(self, array: Any, mipmapped: bool, surface: bool, call: str, *arguments: Any) -> Image:
        try:
            made = Image(int(self.device.call(call, *arguments)), array, surface, mipmapped)
        except BaseException:
            self._destroy(array, mipmapped)
            raise
        self.made.append(made)
        return made

    def _array(self, image: Texture | Surface, levels: Sequence[NDArray], flags: int) -> Any:
        """A driver array, mipmapped where there are several levels, holding a copy of the texels."""
        driver, call, geometry = self.device.driver, self.device.call, image.geometry
        description = driver.CUDA_ARRAY3D_DESCRIPTOR()
        width, height, depth = _extent(image.array, geometry)
        description.Width = width
        description.Height = 0 if geometry in ("1d", "a1d") else height
        description.Depth = 0 if geometry in ("1d", "2d") else depth
        description.Format = driver.CUarray_format(image.format)
        description.NumChannels = image.array.shape[-1]
        description.Flags = flags | (_LAYERED if image.layered else 0) | (_CUBEMAP if image.cube else 0)
        note = f" (an array of shape {image.array.shape}, format {image.format}, {len(levels)} levels)"
        if len(levels) == 1:
            array = call("cuArray3DCreate", description, note=note)
            self._copy(array, np.ascontiguousarray(levels[0]), geometry, to_device=True)
            return array
        array = call("cuMipmappedArrayCreate", description, len(levels), note=note)
        for number, texels in enumerate(levels):
            self._copy(call("cuMipmappedArrayGetLevel", array, number), np.ascontiguousarray(texels), geometry, to_device=True)
        return array

    def _copy(self, array: Any, data: NDArray, geometry: str, to_device: bool) -> None:
        driver = self.device.driver
        copy = driver.CUDA_MEMCPY3D()
        kinds = driver.CUmemorytype
        width, height, depth = _extent(data, geometry)
        row = width * data.shape[-1] * data.itemsize
        if to_device:
            copy.srcMemoryType, copy.srcHost, copy.srcPitch, copy.srcHeight = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data, row, height
            copy.dstMemoryType, copy.dstArray = kinds.CU_MEMORYTYPE_ARRAY, array
        else:
            copy.srcMemoryType, copy.srcArray = kinds.CU_MEMORYTYPE_ARRAY, array
            copy.dstMemoryType, copy.dstHost, copy.dstPitch, copy.dstHeight = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data, row, height
        copy.WidthInBytes, copy.Height, copy.Depth = row, height, depth
        self.device.call("cuMemcpy3DAsync", copy, self.device.stream)
        if not to_device:
            self.device.call("cuStreamSynchronize", self.device.stream)

    def _memory(self, texture: Texture) -> Any:
        """A resource of plain memory with a copy of the texels."""
        driver = self.device.driver
        description = driver.CUDA_RESOURCE_DESC()
        buffer = self.device.buffer(texture.array)
        description.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        description.res.linear.devPtr, description.res.linear.sizeInBytes = driver.CUdeviceptr(buffer.address), buffer.size
        description.res.linear.format = driver.CUarray_format(texture.format)
        description.res.linear.numChannels = texture.array.shape[-1]
        return description

    def _resource(self, array: Any, mipmapped: bool) -> Any:
        driver = self.device.driver
        description = driver.CUDA_RESOURCE_DESC()
        if mipmapped:
            description.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
            description.res.mipmap.hMipmappedArray = array
        else:
            description.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
            description.res.array.hArray = array
        return description


def _extent(array: NDArray, geometry: str) -> tuple[int, int, int]:
    """(width, height, depth) in texels as copies count them: layers and faces are depth."""
    sizes = (array.shape[1], 1, array.shape[0]) if geometry == "a1d" else (*array.shape[-2::-1], 1, 1)
    return sizes[0], sizes[1], sizes[2]
