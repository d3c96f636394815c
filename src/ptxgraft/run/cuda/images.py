"""Textures and surfaces on the GPU: the driver's arrays and the objects that kernels get.

Invariant: an array holds exactly the texels of the image it was made for; what was made is freed by ``free``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.run.cuda.driver import Device
from ptxgraft.run.images import ADDRESS_MODES, Surface, Texture

_SURFACE_LDST = 0x02
_READ_AS_INTEGER, _NORMALIZED = 0x01, 0x02


@dataclass(slots=True)
class Image:
    """A texture or surface object: ``handle`` is what kernels get. ``array`` is the driver's array behind it."""

    handle: int
    array: Any
    surface: bool


@dataclass(eq=False)
class Images:
    """The textures and surfaces made on a device."""

    device: Device
    made: list[Image] = field(default_factory=list)

    def texture(self, texture: Texture) -> Image:
        """A texture object over a copy of ``texture.array``, with its filter, address modes and kind of coordinates."""
        driver = self.device.driver
        array = self._array(texture, 0)
        description = driver.CUDA_TEXTURE_DESC()
        modes = {name: getattr(driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{name.upper()}") for name in ADDRESS_MODES}
        description.addressMode = [modes[name] for name in texture.address]
        filters = driver.CUfilter_mode
        description.filterMode = filters.CU_TR_FILTER_MODE_LINEAR if texture.filter == "linear" else filters.CU_TR_FILTER_MODE_POINT
        description.flags = (_NORMALIZED if texture.normalized else 0) | (_READ_AS_INTEGER if texture.reads_integers else 0)
        return self._keep(array, False, "cuTexObjectCreate", self._resource(array), description, None)

    def surface(self, surface: Surface) -> Image:
        """A surface object over a copy of ``surface.array``."""
        array = self._array(surface, _SURFACE_LDST)
        return self._keep(array, True, "cuSurfObjectCreate", self._resource(array))

    def texels(self, image: Image, like: NDArray) -> NDArray:
        """What an image holds now, in the shape and dtype of ``like``."""
        data = np.empty_like(like, order="C")
        self._copy(image.array, data, to_device=False)
        return data

    def fill(self, image: Image, data: NDArray) -> None:
        """Copy texels into an image."""
        self._copy(image.array, np.ascontiguousarray(data), to_device=True)

    def free(self) -> None:
        """Free all textures and surfaces made so far."""
        driver = self.device.driver
        for image in self.made:
            (driver.cuSurfObjectDestroy if image.surface else driver.cuTexObjectDestroy)(image.handle)
            driver.cuArrayDestroy(image.array)
        self.made.clear()

    def _keep(self, array: Any, surface: bool, call: str, *arguments: Any) -> Image:
        try:
            made = Image(int(self.device.call(call, *arguments)), array, surface)
        except BaseException:
            self.device.driver.cuArrayDestroy(array)
            raise
        self.made.append(made)
        return made

    def _array(self, image: Texture | Surface, flags: int) -> Any:
        """A driver array holding a copy of the image's texels; [width, c] and [height, width, c] have no depth."""
        driver = self.device.driver
        description = driver.CUDA_ARRAY3D_DESCRIPTOR()
        width, height, depth = [*image.array.shape[-2::-1], 0, 0][:3]
        description.Width, description.Height, description.Depth = width, height, depth
        description.Format = driver.CUarray_format(image.format)
        description.NumChannels = image.array.shape[-1]
        description.Flags = flags
        array = self.device.call("cuArray3DCreate", description, note=f" (an array of shape {image.array.shape}, format {image.format})")
        self._copy(array, np.ascontiguousarray(image.array), to_device=True)
        return array

    def _copy(self, array: Any, data: NDArray, to_device: bool) -> None:
        driver = self.device.driver
        copy = driver.CUDA_MEMCPY3D()
        kinds = driver.CUmemorytype
        width, height, depth = [*data.shape[-2::-1], 1, 1][:3]
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

    def _resource(self, array: Any) -> Any:
        driver = self.device.driver
        description = driver.CUDA_RESOURCE_DESC()
        description.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        description.res.array.hArray = array
        return description
