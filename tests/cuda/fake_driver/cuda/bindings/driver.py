"""A CUDA driver without a GPU: memory is NumPy, a launch runs our CPU engine when its stream is waited for.

Invariant: it refuses what a driver refuses: use after a fault, dynamic shared memory or a cooperative launch that nobody asked for, addresses that are taken,
copies outside of memory. Its behaviour is set by ``FAKE_CUDA`` in the environment, blank-separated words: ``no-vmm``, ``refuse=ADDRESS`` (that page is not
given; may be repeated), ``profile=NAME`` (whose bits), ``die`` (the process ends at the first launch), ``swap=OLD,NEW`` (the GPU takes OLD in a module for NEW:
it computes otherwise than the CPU).
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from types import SimpleNamespace

import numpy as np

from cuda.bindings import numbers
from cuda.bindings.numbers import (
    CUdeviceptr,
    CUmemorytype,
    CUresourcetype,
    CUresult,
)
from ptxgraft.capture import FORMATS
from ptxgraft.errors import KernelFault, PtxgraftError
from ptxgraft.isa.binding import bind
from ptxgraft.run import variables
from ptxgraft.run.execution import execute
from ptxgraft.run.images import ADDRESS_MODES, FILTERS, Surface, Texture
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import Allocation, padded
from ptxgraft.text import Document

variables.FIRST_VARIABLE = 0x6E00_0000_0000
"""Variables do not lie where the launch had them."""
GRANULARITY = 2 << 20
BLOCK = 32 << 20
POOLED = 512 << 20
"""Ranges of addresses start at multiples of ``BLOCK``; smaller ones than ``POOLED`` lie wherever the driver has some."""
ENDLESS = 300_000
"""Statements after which a kernel counts as endless."""


def __getattr__(name: str):
    """The driver's other numbers and structures."""
    return getattr(numbers, name)


class _Gpu:
    """Everything the driver knows."""

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray] = {}
        self.reserved: dict[int, int] = {}
        self.images: dict[int, object] = {}
        self.queue: list = []
        self.fault = CUresult.CUDA_SUCCESS
        self.next_address = 0x7FF0_0000_0000
        self.next_handle = 1
        self.allowed: dict[int, int] = {}

    def words(self, name: str) -> list[str]:
        return [w.removeprefix(name) for w in os.environ.get("FAKE_CUDA", "").split() if w.startswith(name)]

    def find(self, address: int, size: int) -> np.ndarray | None:
        for base, data in self.memory.items():
            if base <= address and address + size <= base + data.size:
                return data[address - base : address - base + size]
        return None

    def new_address(self, size: int) -> int:
        address = self.next_address
        self.next_address += -(-(size + 1) // GRANULARITY) * GRANULARITY
        return address

    def run_queue(self) -> CUresult:
        while self.queue and self.fault == CUresult.CUDA_SUCCESS:
            self.queue.pop(0)()
        return self.fault


GPU = _Gpu()


def _call(function):
    """A driver function: gives (error, *results); after a fault nothing works any more."""

    def called(*arguments):
        if GPU.fault != CUresult.CUDA_SUCCESS:
            return (GPU.fault, None)
        result = function(*arguments)
        if isinstance(result, CUresult):
            return (result, None)
        if result is None:
            return (CUresult.CUDA_SUCCESS,)
        return (CUresult.CUDA_SUCCESS, *result) if isinstance(result, tuple) else (CUresult.CUDA_SUCCESS, result)

    called.__name__ = function.__name__
    return called


def cuGetErrorName(error):
    return CUresult.CUDA_SUCCESS, CUresult(error).name.encode()


def cuGetErrorString(error):
    return CUresult.CUDA_SUCCESS, f"what is said of error {int(error)}".encode()


@_call
def cuInit(flags):
    return None


@_call
def cuDeviceGetCount():
    return 1


@_call
def cuDeviceGet(ordinal):
    return ordinal


@_call
def cuDevicePrimaryCtxRetain(device):
    return "context"


@_call
def cuDevicePrimaryCtxRelease(device):
    return None


@_call
def cuCtxSetCurrent(context):
    return None


@_call
def cuCtxSetLimit(limit, value):
    return None


@_call
def cuDeviceGetName(size, device):
    return b"Fake GPU".ljust(size, b"\0")


@_call
def cuDriverGetVersion():
    return 13000


@_call
def cuDeviceGetAttribute(attribute, device):
    return {"MAJOR": 9, "MINOR": 0, "SUPPORTED": int(not GPU.words("no-vmm")), "SIZE": 1 << 16}[attribute.name.rsplit("_", 1)[1]]


# -- streams and events -------------------------------------------------------------------------------------------------
@_call
def cuStreamCreate(flags):
    return "stream"


@_call
def cuStreamDestroy(stream):
    return None


@_call
def cuStreamSynchronize(stream):
    error = GPU.run_queue()
    return None if error == CUresult.CUDA_SUCCESS else error


@_call
def cuEventCreate(flags):
    return SimpleNamespace(at=None)


@_call
def cuEventDestroy(event):
    return None


@_call
def cuEventRecord(event, stream):
    GPU.queue.append(lambda: setattr(event, "at", time.perf_counter()))


@_call
def cuEventElapsedTime(start, end):
    return (end.at - start.at) * 1000


_GATES: dict[int, object] = {}


@_call
def cuMemHostAlloc(size, flags):
    held = ctypes.create_string_buffer(size)
    _GATES[ctypes.addressof(held)] = held
    return ctypes.addressof(held)


@_call
def cuMemHostGetDevicePointer(host, flags):
    return CUdeviceptr(host)


@_call
def cuMemFreeHost(host):
    del _GATES[host]


@_call
def cuStreamWaitValue32(stream, address, value, flags):
    def wait() -> None:
        assert ctypes.c_uint32.from_address(address).value >= value, "the stream would wait for ever"

    GPU.queue.append(wait)


# -- memory -------------------------------------------------------------------------------------------------------------
@_call
def cuMemAlloc(size):
    address = GPU.new_address(size)
    GPU.memory[address] = padded(size, 0xEE)
    return CUdeviceptr(address)


@_call
def cuMemFree(address):
    del GPU.memory[int(address)]


@_call
def cuMemGetAllocationGranularity(properties, option):
    assert properties.location.id == 0
    return GRANULARITY


@_call
def cuMemAddressReserve(size, alignment, address, flags):
    wanted = int(address)
    if size % GRANULARITY or wanted % GRANULARITY:
        return CUresult.CUDA_ERROR_INVALID_VALUE
    wanted = -(-wanted // BLOCK) * BLOCK
    taken = any(wanted < base + length and base < wanted + size for base, length in GPU.reserved.items())
    refused = any(wanted <= int(r, 16) < wanted + size for r in GPU.words("refuse="))
    if taken or refused or size < POOLED:
        wanted = GPU.new_address(size)
    GPU.reserved[wanted] = size
    return CUdeviceptr(wanted)


@_call
def cuMemAddressFree(address, size):
    base = int(address)
    assert GPU.reserved.pop(base) == size
    assert not any(base <= mapped < base + size for mapped in GPU.memory), "freed while mapped"


@_call
def cuMemCreate(size, properties, flags):
    return SimpleNamespace(data=padded(size, 0xEE))


@_call
def cuMemRelease(handle):
    return None


@_call
def cuMemMap(address, size, offset, handle, flags):
    assert any(base <= int(address) and int(address) + size <= base + length for base, length in GPU.reserved.items())
    assert size == handle.data.size and int(address) % GRANULARITY == 0
    GPU.memory[int(address)] = handle.data


@_call
def cuMemUnmap(address, size):
    GPU.memory.pop(int(address), None)


@_call
def cuMemSetAccess(address, size, access, count):
    assert len(access) == count == 1


def _host(address: int, size: int) -> np.ndarray:
    return np.frombuffer((ctypes.c_uint8 * size).from_address(address), np.uint8)


def _write(address: int, data: np.ndarray) -> None:
    there = GPU.find(address, data.size)
    assert there is not None, f"a copy of {data.size} bytes to {address:#x}, where no memory is"
    there[:] = data


@_call
def cuMemcpyHtoDAsync(target, source, size, stream):
    data = _host(source, size).copy()  # pageable memory is taken at once
    GPU.queue.append(lambda: _write(int(target), data))


@_call
def cuMemcpyDtoHAsync(target, source, size, stream):
    def copy() -> None:
        there = GPU.find(int(source), size)
        assert there is not None, "a copy from where no memory is"
        _host(target, size)[:] = there

    GPU.queue.append(copy)


@_call
def cuMemcpyDtoDAsync(target, source, size, stream):
    GPU.queue.append(lambda: _write(int(target), GPU.find(int(source), size).copy()))


@_call
def cuMemsetD8Async(target, value, size, stream):
    GPU.queue.append(lambda: _write(int(target), np.full(size, value, np.uint8)))


# -- images -------------------------------------------------------------------------------------------------------------
def _array(description, level=0):
    from ptxgraft.capture import image_format

    fixed = 1 if description.Flags & 5 else 0  # layers and faces are not halved
    sizes = [n for n in (description.Depth, description.Height, description.Width) if n]
    sizes = [*sizes[:fixed], *(max(1, n >> level) for n in sizes[fixed:])]
    return SimpleNamespace(
        texels=np.zeros((*sizes, description.NumChannels), image_format(description.Format).dtype), description=description
    )


@_call
def cuArray3DCreate(description):
    return _array(description)


@_call
def cuMipmappedArrayCreate(description, levels):
    return SimpleNamespace(levels=[_array(description, n) for n in range(levels)], description=description)


@_call
def cuMipmappedArrayGetLevel(array, level):
    return array.levels[level]


@_call
def cuMipmappedArrayDestroy(array):
    array.levels = None


@_call
def cuArrayDestroy(array):
    array.texels = None


@_call
def cuMemcpy3DAsync(copy, stream):
    size = copy.WidthInBytes * copy.Height * copy.Depth
    if copy.srcMemoryType == CUmemorytype.CU_MEMORYTYPE_HOST:
        data, array = _host(copy.srcHost, size).copy(), copy.dstArray

        def move() -> None:
            array.texels[...] = data.view(array.texels.dtype).reshape(array.texels.shape)

    else:
        array, out = copy.srcArray, copy.dstHost

        def move() -> None:
            _host(out, size)[:] = np.ascontiguousarray(array.texels).reshape(-1).view(np.uint8)

    GPU.queue.append(move)


def _handle(image) -> int:
    GPU.images[GPU.next_handle] = image
    GPU.next_handle += 1
    return GPU.next_handle - 1


@_call
def cuTexObjectCreate(resource, description, view):
    if resource.resType == CUresourcetype.CU_RESOURCE_TYPE_LINEAR:
        return _handle(_linear(resource.res.linear, description))
    mipmapped = resource.resType == CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
    array = resource.res.mipmap.hMipmappedArray if mipmapped else resource.res.array.hArray
    first, *below = [level.texels for level in array.levels] if mipmapped else [array.texels]
    flags, made = description.flags, array.description.Flags
    texture = Texture(
        first, array.description.Format, FILTERS[description.filterMode], tuple(ADDRESS_MODES[m] for m in description.addressMode),
        bool(flags & 2), bool(flags & 1), bool(made & 1), bool(made & 4), below, FILTERS[description.mipmapFilterMode],
        description.mipmapLevelBias, description.minMipmapLevelClamp, description.maxMipmapLevelClamp, bool(flags & 0x40),
    )  # fmt: skip
    return _handle(texture)


def _linear(memory, description) -> Texture:
    while GPU.queue:  # the copies before it
        GPU.queue.pop(0)()
    data = GPU.find(int(memory.devPtr), memory.sizeInBytes)
    row = FORMATS[int(memory.format)]
    texels = data[: memory.sizeInBytes].view(row.dtype).reshape(-1, memory.numChannels)
    return Texture(texels, int(memory.format), integers=bool(description.flags & 1))


@_call
def cuSurfObjectCreate(resource):
    array = resource.res.array.hArray
    made = array.description.Flags
    assert made & 2, "an array that surfaces may not be made of"
    return _handle(Surface(array.texels, array.description.Format, bool(made & 1), bool(made & 4)))


@_call
def cuTexObjectDestroy(handle):
    del GPU.images[handle]


@_call
def cuSurfObjectDestroy(handle):
    del GPU.images[handle]


# -- code ---------------------------------------------------------------------------------------------------------------
@_call
def cuModuleLoadDataEx(image, count, options, values):
    try:
        text = image.removesuffix(b"\0")
        for swap in GPU.words("swap="):
            text = text.replace(*(side.encode() for side in swap.split(",")))
        document = Document.parse(text)
        programs = {e.name: bind(document, e.name) for e in document.entries}
    except PtxgraftError as error:
        text = str(error).encode()[: values[1] - 1]
        values[0][: len(text)] = text
        return CUresult.CUDA_ERROR_INVALID_PTX
    placed: dict[str, Allocation] = {}
    for program in programs.values():
        variables.place_variables(program, placed, [])
    return SimpleNamespace(programs=programs, placed=placed)


@_call
def cuModuleUnload(module):
    return None


@_call
def cuModuleGetFunction(module, name):
    program = module.programs.get(name.decode())
    return CUresult.CUDA_ERROR_NOT_FOUND if program is None else SimpleNamespace(program=program, module=module, allowed=0)


@_call
def cuModuleGetGlobal(module, name):
    found = module.placed.get(name.decode())
    if found is None:
        return CUresult.CUDA_ERROR_NOT_FOUND
    GPU.memory[found.base] = found.data
    return CUdeviceptr(found.base), found.size


@_call
def cuFuncGetAttribute(attribute, function):
    return function.program.shared_bytes


@_call
def cuFuncSetAttribute(function, attribute, value):
    function.allowed = value


@_call
def cuLaunchKernelEx(config, function, parameters, extra):
    words = (ctypes.c_void_p * 5).from_address(extra)
    assert (words[0], words[2], words[4]) == (1, 2, None)
    size = ctypes.c_size_t.from_address(words[3]).value
    args = bytes(_host(words[1], size)) if size else b""
    if function.program.shared_bytes + config.sharedMemBytes > max(48 << 10, function.program.shared_bytes + function.allowed):
        return CUresult.CUDA_ERROR_INVALID_VALUE
    attributes = {a.id.name: a.value for a in getattr(config, "attrs", [])[: getattr(config, "numAttrs", 0)]}
    cooperative = "CU_LAUNCH_ATTRIBUTE_COOPERATIVE" in attributes
    grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
    block = (config.blockDimX, config.blockDimY, config.blockDimZ)
    GPU.queue.append(lambda: _run(function, grid, block, args, config.sharedMemBytes, cooperative))


def _run(function, grid, block, args, shared_bytes, cooperative) -> None:
    if GPU.words("die"):
        print("the fake GPU caught fire", file=sys.stderr, flush=True)
        os._exit(3)
    variables_at = {a.base for a in function.module.placed.values()}
    memory = [Allocation(base, data) for base, data in GPU.memory.items() if base not in variables_at]
    textures = {h: i for h, i in GPU.images.items() if isinstance(i, Texture)}
    surfaces = {h: i for h, i in GPU.images.items() if isinstance(i, Surface)}
    launch = Launch(function.program, grid, block, args, shared_bytes, memory, textures, surfaces, dict(function.module.placed))
    assert cooperative or launch.workspace is None, "a grid that waits for all its blocks was not launched cooperatively"
    profile = (GPU.words("profile=") or ["sm_90"])[0]
    try:
        output = execute(launch, profile=profile, step_budget=ENDLESS).output
    except KernelFault as fault:
        if "never ends" in str(fault):
            while True:
                time.sleep(1)
        if "assertion" in str(fault):
            print(fault, file=sys.stderr, flush=True)
        trapped = "stopped itself" in str(fault) or "assertion" in str(fault)
        GPU.fault = CUresult.CUDA_ERROR_LAUNCH_FAILED if trapped else CUresult.CUDA_ERROR_ILLEGAL_ADDRESS
        output = fault.output
    sys.stdout.flush()
    os.write(1, output.encode())
