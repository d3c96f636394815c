"""Running launches on a GPU through the CUDA driver: the other side of every comparison with the CPU.

Invariant: a launch has the same effects here as in ``ptxgraft.run.execute``: its allocations, module variables and surfaces change in place, and
nothing else does. Every driver call is checked; a failure is a ``DeviceError`` that names the call and the driver's reason.
"""

from __future__ import annotations

import ctypes
import math
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import DeviceError
from ptxgraft.run.images import ADDRESS_MODES, Surface, Texture
from ptxgraft.run.launch import Launch

_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2
"""CU_LAUNCH_PARAM_*: how ``cuLaunchKernel`` takes a whole argument block (CUDA driver API, "Execution Control")."""
_SURFACE_LDST = 0x02
_READ_AS_INTEGER, _NORMALIZED = 0x01, 0x02
_FREE_SHARED = 48 << 10
"""Bytes of dynamic shared memory that need no permission."""
_LOG_BYTES = 1 << 16


def _driver() -> types.ModuleType:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise DeviceError(f"the package cuda-bindings is not here ({error})", hint="pip install 'ptxgraft[cuda]'") from error
    return driver


@dataclass(frozen=True, slots=True)
class Card:
    """What ran: the card's name, its architecture (``sm_90``), and the newest CUDA version that the driver serves (``13.0``)."""

    name: str
    sm: str
    cuda: str


@dataclass(slots=True)
class Buffer:
    """``size`` bytes of device memory from ``address`` on."""

    address: int
    size: int


@dataclass(slots=True)
class Image:
    """A texture or surface object: ``handle`` is what kernels get. ``array`` is the driver's array behind it."""

    handle: int
    array: Any
    surface: bool


@dataclass(eq=False)
class Device:
    """One GPU. Use as a context manager: everything made through it is freed at the end."""

    ordinal: int = 0
    _modules: dict[bytes, Any] = field(default_factory=dict)
    _buffers: list[Buffer] = field(default_factory=list)
    _images: list[Image] = field(default_factory=list)

    def __enter__(self) -> Device:
        self.driver = _driver()
        try:
            self.call("cuInit", 0)
        except (ImportError, OSError, RuntimeError) as error:
            # The bindings look for the driver's library at the first call.
            raise DeviceError(f"no NVIDIA driver was found ({error})", hint="a machine with an NVIDIA GPU is needed") from error
        count = self.call("cuDeviceGetCount")
        if self.ordinal >= count:
            raise DeviceError(f"there is no GPU {self.ordinal}; the driver sees {count}")
        self.device = self.call("cuDeviceGet", self.ordinal)
        self.call("cuCtxSetCurrent", self.call("cuDevicePrimaryCtxRetain", self.device))
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        for module in self._modules.values():
            self.driver.cuModuleUnload(module)
        self._modules.clear()
        self.driver.cuDevicePrimaryCtxRelease(self.device)

    def call(self, name: str, *arguments: Any, note: str = "") -> Any:
        """A driver function by name: its one result, or a tuple of them. Raises ``DeviceError`` with the driver's reason; ``note`` ends the message."""
        error, *results = getattr(self.driver, name)(*arguments)
        if error != self.driver.CUresult.CUDA_SUCCESS:
            _, reason = self.driver.cuGetErrorName(error)
            _, words = self.driver.cuGetErrorString(error)
            said = f"{reason.decode()}: {words.decode()}" if reason else str(error)
            raise DeviceError(f"{name} failed with {said}{note}")
        return results[0] if len(results) == 1 else tuple(results)

    @property
    def card(self) -> Card:
        name = self.call("cuDeviceGetName", 256, self.device).split(b"\0")[0].decode()
        attribute = self.driver.CUdevice_attribute
        major = self.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, self.device)
        minor = self.call("cuDeviceGetAttribute", attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, self.device)
        version = self.call("cuDriverGetVersion")
        return Card(name, f"sm_{major}{minor}", f"{version // 1000}.{version % 1000 // 10}")

    # -- code ---------------------------------------------------------------------------------------------------------
    def module(self, image: bytes) -> Any:
        """A module from PTX text or a cubin; the same bytes are loaded once. Raises ``DeviceError`` with the compiler's log."""
        if image not in self._modules:
            option = self.driver.CUjit_option
            log = bytearray(_LOG_BYTES)
            options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
            error, module = self.driver.cuModuleLoadDataEx(image + b"\0", len(options), options, [log, len(log)])
            if error != self.driver.CUresult.CUDA_SUCCESS:
                _, reason = self.driver.cuGetErrorName(error)
                text = log.split(b"\0")[0].decode("utf-8", "replace").strip()
                raise DeviceError(f"the driver cannot load the module: {(reason or b'?').decode()}\n{text}")
            self._modules[image] = module
        return self._modules[image]

    def unload(self, image: bytes) -> None:
        """Forget a module; nothing may be running."""
        module = self._modules.pop(image, None)
        if module is not None:
            self.call("cuModuleUnload", module)

    def start(self, module: Any, entry: str, grid: Iterable[int], block: Iterable[int], args: bytes, shared_bytes: int = 0) -> None:
        """Launch an entry of ``module`` and wait until it is done."""
        function = self.call("cuModuleGetFunction", module, entry.encode(), note=f" (entry {entry!r})")
        if shared_bytes > _FREE_SHARED:
            attribute = self.driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            self.call("cuFuncSetAttribute", function, attribute, shared_bytes)
        block_bytes = ctypes.create_string_buffer(args, max(len(args), 1))
        size = ctypes.c_size_t(len(args))
        extra = (ctypes.c_void_p * 5)(
            _PARAM_BUFFER_POINTER, ctypes.addressof(block_bytes), _PARAM_BUFFER_SIZE, ctypes.addressof(size), _PARAM_END
        )
        self.call("cuLaunchKernel", function, *grid, *block, shared_bytes, 0, 0, ctypes.addressof(extra), note=f" (entry {entry!r})")
        self.call("cuCtxSynchronize", note=f" (entry {entry!r} ran)")

    # -- memory -------------------------------------------------------------------------------------------------------
    def buffer(self, contents: NDArray | bytes | int) -> Buffer:
        """Device memory holding a copy of ``contents``, or that many zero bytes."""
        if isinstance(contents, int):
            data = np.zeros(contents, np.uint8)
        else:
            data = _bytes(np.frombuffer(contents, np.uint8) if isinstance(contents, bytes) else contents)
        made = Buffer(int(self.call("cuMemAlloc", max(data.size, 1))), data.size)
        self._buffers.append(made)
        self.write(made.address, data)
        return made

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to device memory."""
        if data.size:
            self.call("cuMemcpyHtoD", self.driver.CUdeviceptr(address), data.ctypes.data, data.size)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy bytes from device memory."""
        data = np.empty(size, np.uint8)
        if size:
            self.call("cuMemcpyDtoH", data.ctypes.data, self.driver.CUdeviceptr(address), size)
        return data

    def free(self) -> None:
        """Free all buffers, textures and surfaces made so far."""
        for image in self._images:
            (self.driver.cuSurfObjectDestroy if image.surface else self.driver.cuTexObjectDestroy)(image.handle)
            self.driver.cuArrayDestroy(image.array)
        for buffer in self._buffers:
            self.driver.cuMemFree(self.driver.CUdeviceptr(buffer.address))
        self._images.clear()
        self._buffers.clear()

    # -- images -------------------------------------------------------------------------------------------------------
    def texture(self, texture: Texture) -> Image:
        """A texture object over a copy of ``texture.array``, with its filter, address modes and kind of coordinates."""
        array = self._array(texture, 0)
        description = self.driver.CUDA_TEXTURE_DESC()
        modes = {name: getattr(self.driver.CUaddress_mode, f"CU_TR_ADDRESS_MODE_{name.upper()}") for name in ADDRESS_MODES}
        description.addressMode = [modes[name] for name in texture.address]
        filters = self.driver.CUfilter_mode
        description.filterMode = filters.CU_TR_FILTER_MODE_LINEAR if texture.filter == "linear" else filters.CU_TR_FILTER_MODE_POINT
        description.flags = (_NORMALIZED if texture.normalized else 0) | (_READ_AS_INTEGER if texture.reads_integers else 0)
        handle = self.call("cuTexObjectCreate", self._resource(array), description, None)
        return self._keep(Image(int(handle), array, False))

    def surface(self, surface: Surface) -> Image:
        """A surface object over a copy of ``surface.array``."""
        array = self._array(surface, _SURFACE_LDST)
        return self._keep(Image(int(self.call("cuSurfObjectCreate", self._resource(array))), array, True))

    def texels(self, image: Image, like: NDArray) -> NDArray:
        """What an image holds now, in the shape and dtype of ``like``."""
        data = np.empty_like(like, order="C")
        self._copy(image.array, data, to_device=False)
        return data

    def _keep(self, image: Image) -> Image:
        self._images.append(image)
        return image

    def _array(self, image: Texture | Surface, flags: int) -> Any:
        """A driver array holding a copy of the image's texels; [width, c] and [height, width, c] have no depth."""
        description = self.driver.CUDA_ARRAY3D_DESCRIPTOR()
        width, height, depth = [*image.array.shape[-2::-1], 0, 0][:3]
        description.Width, description.Height, description.Depth = width, height, depth
        description.Format = self.driver.CUarray_format(image.format)
        description.NumChannels = image.array.shape[-1]
        description.Flags = flags
        array = self.call("cuArray3DCreate", description, note=f" (an array of shape {image.array.shape}, format {image.format})")
        self._copy(array, np.ascontiguousarray(image.array), to_device=True)
        return array

    def _copy(self, array: Any, data: NDArray, to_device: bool) -> None:
        copy = self.driver.CUDA_MEMCPY3D()
        kinds = self.driver.CUmemorytype
        width, height, depth = [*data.shape[-2::-1], 1, 1][:3]
        row = width * data.shape[-1] * data.itemsize
        if to_device:
            copy.srcMemoryType, copy.srcHost, copy.srcPitch, copy.srcHeight = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data, row, height
            copy.dstMemoryType, copy.dstArray = kinds.CU_MEMORYTYPE_ARRAY, array
        else:
            copy.srcMemoryType, copy.srcArray = kinds.CU_MEMORYTYPE_ARRAY, array
            copy.dstMemoryType, copy.dstHost, copy.dstPitch, copy.dstHeight = kinds.CU_MEMORYTYPE_HOST, data.ctypes.data, row, height
        copy.WidthInBytes, copy.Height, copy.Depth = row, height, depth
        self.call("cuMemcpy3D", copy)

    def _resource(self, array: Any) -> Any:
        description = self.driver.CUDA_RESOURCE_DESC()
        description.resType = self.driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        description.res.array.hArray = array
        return description


def _bytes(array: NDArray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def relocated(launch: Launch, moved: dict[int, int], handles: dict[int, int]) -> bytes:
    """The argument block with its pointers and handles exchanged: ``moved`` maps the base of an allocation to its new one, ``handles`` old to new.

    A pointer is an aligned 8-byte word that lies in an allocation of the launch or equals its end, a handle one that equals the handle.
    """
    args = bytearray(launch.args)
    for offset in range(0, len(args) - 7, 8):
        word = int.from_bytes(args[offset : offset + 8], "little")
        new = handles.get(word)
        if new is None:
            found = next((a for a in launch.memory.allocations if a.base <= word <= a.end), None)
            new = None if found is None else moved[found.base] + word - found.base
        if new is not None:
            args[offset : offset + 8] = new.to_bytes(8, "little")
    return bytes(args)


def execute(device: Device, launch: Launch, image: bytes = b"") -> None:
    """Run a launch on the GPU; its allocations, module variables and surfaces change in place. ``image``: its module as another assembler made it."""
    module = device.module(image or launch.program.document.data)
    try:
        buffers = [(a, device.buffer(a.data).address) for a in launch.allocations]
        for name, variable in launch.variables.items():
            address, size = device.call("cuModuleGetGlobal", module, name.encode(), note=f" (variable {name!r})")
            if size != variable.size:
                raise DeviceError(f"variable {name!r} has {size} bytes on the GPU, {variable.size} in the launch")
            device.write(int(address), variable.data)
            buffers.append((variable, int(address)))
        textures = {handle: device.texture(texture) for handle, texture in launch.textures.items()}
        surfaces = {handle: device.surface(surface) for handle, surface in launch.surfaces.items()}
        args = relocated(launch, {a.base: new for a, new in buffers}, {h: i.handle for h, i in (textures | surfaces).items()})
        device.start(module, launch.program.name, launch.grid, launch.block, args, launch.shared_bytes)
        for allocation, address in buffers:
            allocation.data[:] = device.read(address, math.prod(allocation.data.shape))
        for handle, surface in launch.surfaces.items():
            surface.array[...] = device.texels(surfaces[handle], surface.array)
    finally:
        device.free()
