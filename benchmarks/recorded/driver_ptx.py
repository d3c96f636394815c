"""A program of driver calls for recording: PTX loaded as text, and PTX that goes through the driver's linker. Prints a checksum of what came out."""

import ctypes
import hashlib
import sys
from pathlib import Path

import numpy as np
from cuda.bindings import driver


def call(name, *arguments):
    error, *results = getattr(driver, name)(*arguments)
    if error:
        sys.exit(f"{name}: {error}")
    return results[0] if results else None


call("cuInit", 0)
call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", call("cuDeviceGet", 0)))
ptx = (
    Path(__file__)
    .resolve()
    .parents[2]
    .joinpath("examples", "saxpy.ptx")
    .read_bytes()
    .replace(b"sm_70", b"sm_90")
    .replace(b".version 7.0", b".version 8.0")
    + b"\0"
)
linker = call("cuLinkCreate", 0, [], [])
call("cuLinkAddData", linker, driver.CUjitInputType.CU_JIT_INPUT_PTX, ptx, len(ptx), b"saxpy", 0, [], [])
error, cubin, size = driver.cuLinkComplete(linker)
linked = ctypes.string_at(int(cubin), size)
x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
total = hashlib.sha256()
for image in (ptx, linked):
    function = call("cuModuleGetFunction", call("cuModuleLoadData", image), b"saxpy")
    buffers = [call("cuMemAlloc", 400) for _ in range(2)]
    for buffer, data in zip(buffers, (x, y), strict=True):
        call("cuMemcpyHtoD", buffer, data.ctypes.data, 400)
    values = (100, 2.5, int(buffers[0]), int(buffers[1]))
    kinds = (ctypes.c_uint32, ctypes.c_float, ctypes.c_uint64, ctypes.c_uint64)
    call("cuLaunchKernel", function, 1, 1, 1, 128, 1, 1, 0, 0, (values, kinds), 0)
    out = np.zeros(100, np.float32)
    call("cuMemcpyDtoH", out.ctypes.data, buffers[1], 400)
    total.update(out.tobytes())
call("cuLinkDestroy", linker)
print(total.hexdigest())
