"""The CUDA driver: checked calls, one GPU's context, its modules and plain memory.

Invariant: every driver call is checked; a failure is a ``DriverFailure`` that names the call and the driver's reason, and what a ``Device`` made is freed
when it is left.
"""

from __future__ import annotations

import ctypes
import importlib
import types
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import DeviceError, KernelFault, SourceError

_PARAM_END, _PARAM_BUFFER_POINTER, _PARAM_BUFFER_SIZE = 0, 1, 2
"""CU_LAUNCH_PARAM_*: how a launch takes a whole argument block (CUDA driver API, "Execution Control")."""
FREE_SHARED = 48 << 10
"""Bytes of shared memory that a block may have without asking."""
_LOG_BYTES, _LOG_LINES = 1 << 16, 30
_REFUSED_MODULE = frozenset(
    {"CUDA_ERROR_INVALID_PTX", "CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_INVALID_SOURCE"}
)  # fmt: skip
FAULTS = frozenset(
    {
        "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_INVALID_PC",
        "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ASSERT", "CUDA_ERROR_LAUNCH_FAILED",
        "CUDA_ERROR_LAUNCH_TIMEOUT", "CUDA_ERROR_TENSOR_MEMORY_LEAK",
    }
)  # fmt: skip
"""What the driver says of a kernel that did what no kernel may. The context is lost after each of them."""


class DriverFailure(DeviceError):
    """A driver call failed; ``code`` is the driver's name for the reason."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


def bindings() -> types.ModuleType:
    """The driver's functions, ``cuda.bindings.driver``. Raises ``DeviceError`` when the package is missing."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(f"the package cuda-bindings is not here ({error})", hint="pip install 'ptxgraft[cuda]'") from error


@dataclass(frozen=True, slots=True)
class Card:
    """What ran: the card's name, its architecture (``sm_90``), and the newest CUDA version that the driver serves (``13.0``)."""

    name: str
    sm: str
    cuda: str

    def __str__(self) -> str:
        return f"{self.name} ({self.sm}, driver for CUDA {self.cuda})"


@dataclass(slots=True, eq=False)
class Buffer:
    """``size`` bytes of device memory from ``address`` on."""

    address: int
    size: int


@dataclass(slots=True)
class LoadedVariable:
    """Where the driver put a module variable, and what it held when the module was loaded, uint8[n]."""

    address: int
    initial: NDArray[np.uint8]


@dataclass(eq=False)
class Device:
    """One GPU. Use as a context manager: everything made through it is freed at the end. Its work runs on one stream of its own."""

    ordinal: int = 0
    modules: dict[bytes, Any] = field(default_factory=dict)
    buffers: list[Buffer] = field(default_factory=list)
    variables: dict[tuple[bytes, str], LoadedVariable | None] = field(default_factory=dict)

    def __enter__(self) -> Device:
        self.driver = bindings()
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
        self.stream = self.call("cuStreamCreate", self.driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self.card = self._card()
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
        for module in self.modules.values():
            self.driver.cuModuleUnload(module)
        self.modules.clear()
        self.driver.cuStreamDestroy(self.stream)
        self.driver.cuDevicePrimaryCtxRelease(self.device)

    def call(self, name: str, *arguments: Any, note: str = "") -> Any:
        """A driver function by name: its one result, a tuple of them, or None. Raises ``DriverFailure`` with the driver's reason; ``note`` ends the message."""
        error, *results = getattr(self.driver, name)(*arguments)
        if error != self.driver.CUresult.CUDA_SUCCESS:
            code, words = self._reason(error)
            raise DriverFailure(f"{name} failed with {code}: {words}{note}", code)
        return results[0] if len(results) == 1 else tuple(results) or None

    def _reason(self, error: Any) -> tuple[str, str]:
        _, code = self.driver.cuGetErrorName(error)
        _, words = self.driver.cuGetErrorString(error)
        return (code or b"an unknown error").decode(), (words or str(error).encode()).decode()

    def _card(self) -> Card:
        name = self.call("cuDeviceGetName", 256, self.device).split(b"\0")[0].decode()
        major, minor = (self.attribute(f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{which}") for which in ("MAJOR", "MINOR"))
        version = self.call("cuDriverGetVersion")
        return Card(name, f"sm_{major}{minor}", f"{version // 1000}.{version % 1000 // 10}")

    def attribute(self, name: str) -> int:
        """A number that the driver knows about the GPU, by its name in ``CUdevice_attribute``."""
        return int(self.call("cuDeviceGetAttribute", getattr(self.driver.CUdevice_attribute, name), self.device))

    # -- code ---------------------------------------------------------------------------------------------------------
    def module(self, image: bytes) -> Any:
        """A module from PTX text or a cubin; the same bytes are loaded once. Raises ``SourceError`` with the compiler's log."""
        if image not in self.modules:
            option = self.driver.CUjit_option
            log = bytearray(_LOG_BYTES)
            options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
            error, module = self.driver.cuModuleLoadDataEx(image + b"\0", len(options), options, [log, len(log)])
            if error != self.driver.CUresult.CUDA_SUCCESS:
                code, words = self._reason(error)
                text = "\n".join(log.split(b"\0")[0].decode("utf-8", "replace").strip().splitlines()[:_LOG_LINES])
                if code not in _REFUSED_MODULE:
                    raise DriverFailure(f"cuModuleLoadDataEx failed with {code}: {words}\n{text}".strip(), code)
                raise SourceError(f"the driver cannot load the module: {code}: {words}\n{text}".strip())
            self.modules[image] = module
        return self.modules[image]

    def unload(self, image: bytes) -> None:
        """Forget a module; nothing may be running."""
        module = self.modules.pop(image, None)
        self.variables = {key: v for key, v in self.variables.items() if key[0] != image}
        if module is not None:
            self.call("cuModuleUnload", module)

    def variable(self, image: bytes, name: str) -> LoadedVariable | None:
        """A module variable by name, None where the module as it was loaded has none (its compiler removes what nothing uses). Ask before its first kernel runs."""
        if (image, name) not in self.variables:
            try:
                pointer, size = self.call("cuModuleGetGlobal", self.module(image), name.encode(), note=f" (variable {name!r})")
                self.variables[image, name] = LoadedVariable(int(pointer), self.read(int(pointer), size))
            except DriverFailure as error:
                if error.code != "CUDA_ERROR_NOT_FOUND":
                    raise
                self.variables[image, name] = None
        return self.variables[image, name]

    def function(self, module: Any, entry: str) -> Any:
        """An entry of a module."""
        return self.call("cuModuleGetFunction", module, entry.encode(), note=f" (entry {entry!r})")

    def enqueue(
        self,
        function: Any,
        grid: Iterable[int],
        block: Iterable[int],
        args: bytes,
        shared_bytes: int = 0,
        cooperative: bool = False,
        cluster: tuple[int, int, int] | None = None,
    ) -> None:
        """Put a launch on the device's stream and return at once."""
        attributes = self.driver.CUfunction_attribute
        static = int(self.call("cuFuncGetAttribute", attributes.CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function))
        if static + shared_bytes > FREE_SHARED:
            self.call("cuFuncSetAttribute", function, attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes)
        held = ctypes.create_string_buffer(args, max(len(args), 1))
        size = ctypes.c_size_t(len(args))
        extra = (ctypes.c_void_p * 5)(_PARAM_BUFFER_POINTER, ctypes.addressof(held), _PARAM_BUFFER_SIZE, ctypes.addressof(size), _PARAM_END)
        config = self.driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes, config.hStream = shared_bytes, self.stream
        wanted: list[tuple[str, str, Any]] = []
        if cooperative:
            wanted.append(("CU_LAUNCH_ATTRIBUTE_COOPERATIVE", "cooperative", 1))
        if cluster is not None:
            wanted.append(("CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION", "clusterDim", dict(zip("xyz", cluster, strict=True))))
        config.attrs, config.numAttrs = [self._attribute(*w) for w in wanted], len(wanted)
        self.call("cuLaunchKernelEx", config, function, 0, ctypes.addressof(extra))

    def _attribute(self, identifier: str, name: str, content: Any) -> Any:
        """A launch attribute; a ``dict`` fills a structure."""
        value = self.driver.CUlaunchAttributeValue()
        if isinstance(content, dict):
            for field_, number in content.items():
                setattr(getattr(value, name), field_, number)
        else:
            setattr(value, name, content)
        attribute = self.driver.CUlaunchAttribute()
        attribute.id, attribute.value = getattr(self.driver.CUlaunchAttributeID, identifier), value
        return attribute

    def wait(self, entry: str) -> None:
        """Wait until the stream is empty. Raises ``KernelFault`` when the kernel did what no kernel may: then the context is lost."""
        try:
            self.call("cuStreamSynchronize", self.stream)
        except DriverFailure as error:
            if error.code not in FAULTS:
                raise
            _, words = error.message.split(": ", 1)
            hint = "replay it on cpu, which names the line, the block and the lane"
            raise KernelFault(f"{entry} on {self.card.name}: {words} ({error.code})", hint=hint) from None

    def start(
        self,
        module: Any,
        entry: str,
        grid: Iterable[int],
        block: Iterable[int],
        args: bytes,
        shared_bytes: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Launch an entry of ``module`` and wait until it is done."""
        self.enqueue(self.function(module, entry), grid, block, args, shared_bytes, cooperative)
        self.wait(entry)

    # -- memory -------------------------------------------------------------------------------------------------------
    def buffer(self, contents: NDArray | bytes | int) -> Buffer:
        """Device memory holding a copy of ``contents``, or that many zero bytes."""
        if isinstance(contents, int):
            data = np.zeros(contents, np.uint8)
        else:
            data = flat(np.frombuffer(contents, np.uint8) if isinstance(contents, bytes) else contents)
        made = Buffer(int(self.call("cuMemAlloc", max(data.size, 1))), data.size)
        self.buffers.append(made)
        self.write(made.address, data)
        return made

    def write(self, address: int, data: NDArray[np.uint8]) -> None:
        """Copy bytes to device memory, in the order of the stream."""
        if data.size:
            self.call("cuMemcpyHtoDAsync", self.driver.CUdeviceptr(address), data.ctypes.data, data.size, self.stream)

    def read(self, address: int, size: int) -> NDArray[np.uint8]:
        """Copy bytes from device memory."""
        data = np.empty(size, np.uint8)
        if size:
            self.call("cuMemcpyDtoHAsync", data.ctypes.data, self.driver.CUdeviceptr(address), size, self.stream)
            self.call("cuStreamSynchronize", self.stream)
        return data

    def copy(self, target: int, source: int, size: int) -> None:
        """Copy bytes from device memory to device memory, in the order of the stream."""
        if size:
            pointer = self.driver.CUdeviceptr
            self.call("cuMemcpyDtoDAsync", pointer(target), pointer(source), size, self.stream)

    def release(self, buffer: Buffer) -> None:
        """Free one buffer."""
        self.buffers.remove(buffer)
        self.driver.cuMemFree(self.driver.CUdeviceptr(buffer.address))

    def free(self) -> None:
        """Free all buffers made so far."""
        for buffer in list(self.buffers):
            self.release(buffer)


def flat(array: NDArray) -> NDArray[np.uint8]:
    """An array's bytes, uint8[n]."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
