"""Record what a GPU's texture and surface units give: `python tests/goldens_images/record.py h200_images.npz` (NumPy, cuda-bindings and a GPU).

Invariant: the file holds everything a test needs: `cases` (name, geometry, dtype, ctype, settings), for each case `.texels`, `.at` (coordinates, four
32-bit words a row) and `.out` (four words a row); surface loads and stores outside, with `clamp` and `zero`.
"""

from __future__ import annotations

import sys

import numpy as np
from cuda.bindings import driver as cu

RNG = np.random.default_rng(20261130)
ROWS = 160

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 at, .param .u64 out, .param .u32 n)
{{
    .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .b32 %x<4>; .reg .b16 %h<2>;
    ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [at]; ld.param.u64 %rd3, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r2, 128, %r3;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd4, %r4, 16; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd5];
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
    {operation}
    st.global.v4.b32 [%rd6], {{%r5, %r6, %r7, %r8}};
DONE:
    ret;
}}
"""
COORDINATES = {"1d": "{%x0}", "2d": "{%x0, %x1}", "3d": "{%x0, %x1, %x2, %x3}"}
LOADS = {
    "suld_b32": "suld.b.2d.b32.{clamp} %r5, [%rd1, {{%x0, %x1}}];",
    "suld_v2": "suld.b.2d.v2.b32.{clamp} {{%r5, %r6}}, [%rd1, {{%x0, %x1}}];",
    "suld_b8": "suld.b.2d.b8.{clamp} %h1, [%rd1, {{%x0, %x1}}]; cvt.u32.u16 %r5, %h1;",
}
WORDS = "mov.u32 %r5, 0x11223344; mov.u32 %r6, 0x55667788; "
STORES = {
    "sust_b32": WORDS + "sust.b.2d.b32.{clamp} [%rd1, {{%x0, %x1}}], {{%r5}};",
    "sust_v2": WORDS + "sust.b.2d.v2.b32.{clamp} [%rd1, {{%x0, %x1}}], {{%r5, %r6}};",
}
FORMATS = {"u1": 1, "u2": 2, "u4": 3, "i1": 8, "i2": 9, "i4": 10, "f2": 16, "f4": 32}
ADDRESS_MODES = ("WRAP", "CLAMP", "MIRROR", "BORDER")


def ask(result):
    """The value of a driver call. Raises when the call failed."""
    if result[0] != cu.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"driver: {result[0]}")
    return result[1] if len(result) > 1 else None


def copy(array, host: np.ndarray, to_array: bool) -> None:
    shape = host.shape
    plan = cu.CUDA_MEMCPY3D()
    plan.WidthInBytes = shape[-2] * shape[-1] * host.itemsize
    plan.Height, plan.Depth = (shape[-3] if host.ndim >= 3 else 1), (shape[0] if host.ndim == 4 else 1)
    here, there = cu.CUmemorytype.CU_MEMORYTYPE_HOST, cu.CUmemorytype.CU_MEMORYTYPE_ARRAY
    if to_array:
        plan.srcMemoryType, plan.srcHost, plan.srcPitch, plan.srcHeight = here, host.ctypes.data, plan.WidthInBytes, plan.Height
        plan.dstMemoryType, plan.dstArray = there, array
    else:
        plan.dstMemoryType, plan.dstHost, plan.dstPitch, plan.dstHeight = here, host.ctypes.data, plan.WidthInBytes, plan.Height
        plan.srcMemoryType, plan.srcArray = there, array
    ask(cu.cuMemcpy3D(plan))


def device_array(texels: np.ndarray, surface: bool = False):
    wanted = cu.CUDA_ARRAY3D_DESCRIPTOR()
    wanted.Width, wanted.NumChannels = texels.shape[-2:]
    wanted.Height, wanted.Depth = (texels.shape[-3] if texels.ndim >= 3 else 0), (texels.shape[0] if texels.ndim == 4 else 0)
    wanted.Format, wanted.Flags = cu.CUarray_format(FORMATS[texels.dtype.str[1:]]), 2 if surface else 0
    array = ask(cu.cuArray3DCreate(wanted))
    copy(array, np.ascontiguousarray(texels), True)
    return array


def resource(array) -> cu.CUDA_RESOURCE_DESC:
    found = cu.CUDA_RESOURCE_DESC()
    found.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
    found.res.array.hArray = array
    return found


def texture(texels: np.ndarray, filter: str = "point", address: str = "clamp", normalized: bool = False, integers: bool = False) -> int:
    settings = cu.CUDA_TEXTURE_DESC()
    settings.addressMode = [cu.CUaddress_mode(ADDRESS_MODES.index(address.upper()))] * 3
    settings.filterMode = cu.CUfilter_mode(int(filter == "linear"))
    settings.flags = (1 if integers else 0) | (2 if normalized else 0)
    return int(ask(cu.cuTexObjectCreate(resource(device_array(texels)), settings, None)))


def run(operation: str, handle: int, at: np.ndarray) -> np.ndarray:
    """The four words that each row of coordinates gives."""
    at = np.ascontiguousarray(at)
    module = ask(cu.cuModuleLoadData(KERNEL.format(operation=operation).encode() + b"\0"))
    out = np.zeros((len(at), 4), np.uint32)
    inputs, outputs = ask(cu.cuMemAlloc(at.nbytes)), ask(cu.cuMemAlloc(at.nbytes))
    ask(cu.cuMemcpyHtoD(inputs, at.ctypes.data, at.nbytes))
    values = [np.array([v], t) for v, t in ((handle, "u8"), (int(inputs), "u8"), (int(outputs), "u8"), (len(at), "u4"))]
    pointers = np.array([v.ctypes.data for v in values], np.uint64)
    function = ask(cu.cuModuleGetFunction(module, b"k"))
    ask(cu.cuLaunchKernel(function, -(-len(at) // 128), 1, 1, 128, 1, 1, 0, 0, pointers.ctypes.data, 0))
    ask(cu.cuCtxSynchronize())
    ask(cu.cuMemcpyDtoH(out.ctypes.data, outputs, at.nbytes))
    return out


def rows(*columns) -> np.ndarray:
    """Columns of coordinates as rows of four words."""
    at = np.zeros((len(columns[0]), 4), np.asarray(columns[0]).dtype)
    for i, column in enumerate(columns):
        at[:, i] = column
    return at


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def wide(*shape: int) -> np.ndarray:
    return (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-20, 20, shape)).astype(np.float32)


def steps(low: float, high: float, n: int = ROWS) -> np.ndarray:
    """Coordinates that are multiples of a 256th: their weights are exact."""
    return (RNG.integers(low * 256, high * 256, n) / 256).astype(np.float32)


def anywhere(low: float, high: float, n: int = ROWS) -> np.ndarray:
    return RNG.uniform(low, high, n).astype(np.float32)


def around(values) -> np.ndarray:
    """Numbers and their neighbours in f32."""
    middle = np.asarray(values, np.float32)
    return np.concatenate([middle, np.nextafter(middle, np.float32(-np.inf)), np.nextafter(middle, np.float32(np.inf))])


def all_cases():
    """(name, texels, coordinates, geometry, dtype, settings)."""
    linear = {"filter": "linear"}
    ramp = np.array([[0, 1, 0, 3], [1, 0, 2.0**-20, 1e10]], np.float32)
    yield "weights", ramp, rows(np.concatenate([around(0.5 + (np.arange(0, 256, 5) + 0.5) / 256), anywhere(0.4, 1.6)])), "1d", "f32", linear
    for name, texels in (("f32", normal(64, 4)), ("f32 wide", wide(64, 4)), ("f16", normal(64, 4).astype(np.float16))):
        yield f"1d {name}", texels, rows(steps(-2, 66)), "1d", "f32", linear
    half = RNG.integers(0, 65536, (32, 32, 4)).astype(np.uint16).view(np.float16)
    half = np.where(np.isfinite(half), half, np.float16(1)).astype(np.float16)
    for name, texels in (
        ("f32", normal(16, 16, 4)),
        ("f32 wide", wide(16, 16, 4)),
        ("f16", normal(16, 16, 4).astype(np.float16)),
        ("f16 wide", half),
    ):
        yield f"2d {name}", texels, rows(steps(-1, 17), steps(-1, 17)), "2d", "f32", linear
    yield "2d anywhere", normal(16, 16, 4), rows(anywhere(-1, 17), anywhere(-1, 17)), "2d", "f32", linear
    yield "3d", normal(8, 8, 8, 4), rows(steps(-1, 9), steps(-1, 9), steps(-1, 9)), "3d", "f32", linear
    yield "3d point", normal(3, 5, 7, 4), rows(anywhere(-1, 9), anywhere(-1, 9), anywhere(-1, 9)), "3d", "f32", {}
    for dtype in ("u1", "i1", "u2", "i2"):
        limits = np.iinfo(dtype)
        texels = RNG.integers(limits.min, limits.max + 1, (16, 16, 4)).astype(dtype)
        at = rows(steps(-1, 17), steps(-1, 17))
        yield f"{dtype} linear", texels, at, "2d", "f32", linear
        yield f"{dtype} point", texels, at, "2d", "f32", {}
        yield f"{dtype} integers", texels, at, "2d", "u32", {"integers": True}
    texels = RNG.integers(0, 2**32, (8, 8, 4)).astype(np.uint32)
    yield "u4 integers", texels, rows(steps(-1, 9), steps(-1, 9)), "2d", "u32", {"integers": True}
    odd = [[0, -0.0, np.inf, np.nan], [1, 0, 1, 1], [np.inf, -0.0, -np.inf, 2], [-np.inf, -0.0, np.inf, 3], [1e38, 1e-40, -1e-40, 3e38],
           [3e38, 1e-45, 1e-38, 3.4e38]]  # fmt: skip
    yield "special values", np.array(odd, np.float32), rows(np.arange(96, 6 * 256, 32, dtype=np.float32) / 256), "1d", "f32", linear
    yield "special values, point", np.array(odd, np.float32), rows(np.arange(6, dtype=np.float32) + 0.5), "1d", "f32", {}
    seven = np.arange(1, 29, dtype=np.float32).reshape(7, 4)
    at = np.concatenate([anywhere(-3, 4), around(np.arange(-30, 40) / 14)])
    for filter in ("point", "linear"):
        for address in ("wrap", "mirror", "clamp", "border"):
            yield (
                f"{filter} {address}, normalised",
                seven,
                rows(at),
                "1d",
                "f32",
                {"filter": filter, "address": address, "normalized": True},
            )
        for address in ("clamp", "border"):
            yield f"{filter} {address}", seven, rows(at * np.float32(7)), "1d", "f32", {"filter": filter, "address": address}
    for width in (92, 156, 1000):
        texels = np.arange(width * 4, dtype=np.float32).reshape(width, 4)
        at = np.concatenate([around(RNG.integers(0, width, ROWS) / width), anywhere(-50, 50)])
        for filter, address in (("point", "mirror"), ("linear", "wrap"), ("point", "clamp")):
            settings = {"filter": filter, "address": address, "normalized": True}
            yield f"{width} texels, {filter} {address}", texels, rows(at), "1d", "f32", settings
    odd_at = [np.nan, np.inf, -np.inf, 1e10, -1e10, 3e38, 2.0**31, 2.0**32, 2.0**23, 2.0**24 + 2, -(2.0**31), 1e-40, -1e-40, -0.0, -1e-8]
    at = np.concatenate([around(np.arange(-2, 67, 3)), around(np.arange(0, 64, 7) + 0.5), np.array(odd_at, np.float32)])
    texels = np.arange(1, 257, dtype=np.float32).reshape(64, 4)
    for filter in ("point", "linear"):
        yield f"odd coordinates, {filter}", texels, rows(at), "1d", "f32", {"filter": filter}
        yield f"odd coordinates, {filter} border", texels, rows(at), "1d", "f32", {"filter": filter, "address": "border"}
        settings = {"filter": filter, "address": "wrap", "normalized": True}
        yield f"odd coordinates, {filter} wrap", texels, rows(at / np.float32(64)), "1d", "f32", settings
    for channels in (1, 2):
        at = rows(steps(0, 4), steps(0, 4))
        yield f"{channels} channels", normal(4, 4, channels), at, "2d", "f32", {}
        yield f"{channels} channels, unorm", RNG.integers(0, 255, (4, 4, channels)).astype(np.uint8), at, "2d", "f32", {}
    at = rows(*RNG.integers(-3, 12, (2, ROWS)).astype(np.int32))
    for filter in ("point", "linear"):
        for address in ("clamp", "border"):
            yield f"integer coordinates, {filter} {address}", normal(8, 8, 4), at, "2d", "f32", {"filter": filter, "address": address}
    yield "integer coordinates, wrap", normal(8, 8, 4), at, "2d", "f32", {"address": "wrap", "normalized": True}


def main(path: str) -> None:
    ask(cu.cuInit(0))
    ask(cu.cuCtxSetCurrent(ask(cu.cuDevicePrimaryCtxRetain(ask(cu.cuDeviceGet(0))))))
    kept: dict[str, np.ndarray] = {}
    cases = []
    for name, texels, at, geometry, dtype, settings in all_cases():
        ctype = "s32" if at.dtype == np.int32 else "f32"
        operation = f"tex.{geometry}.v4.{dtype}.{ctype} {{%r5, %r6, %r7, %r8}}, [%rd1, {COORDINATES[geometry]}];"
        kept |= {f"{name}.texels": texels, f"{name}.at": at, f"{name}.out": run(operation, texture(texels, **settings), at)}
        cases.append((name, geometry, dtype, ctype, repr(settings)))
    kept["cases"] = np.array(cases)
    pixels = RNG.integers(0, 255, (4, 8, 4)).astype(np.uint8)
    at = rows(*np.array([(x, y) for x in range(-8, 44, 8) for y in (-2, -1, 0, 3, 4, 5)], np.int32).T)
    kept |= {"surface": pixels, "surface.at": at}
    points = np.array([(-8, 0), (32, 0), (24, 0), (8, -1), (8, 4), (0, 1), (16, 2), (104, 100), (-104, -100), (-16, 2), (40, 3)], np.int32)
    kept["stored.at"] = points
    for clamp in ("clamp", "zero"):
        for name, operation in LOADS.items():
            handle = int(ask(cu.cuSurfObjectCreate(resource(device_array(pixels, True)))))
            kept[f"surface.{name}_{clamp}"] = run(operation.format(clamp=clamp), handle, at)
        for name, operation in STORES.items():
            after = []
            for point in points:
                array = device_array(pixels, True)
                run(operation.format(clamp=clamp), int(ask(cu.cuSurfObjectCreate(resource(array)))), rows(*point.reshape(2, 1)))
                host = np.zeros_like(pixels)
                copy(array, host, False)
                after.append(host)
            kept[f"stored.{name}_{clamp}"] = np.array(after)
    np.savez_compressed(path, **kept)
    print(f"{path}: {len(cases)} texture cases")


if __name__ == "__main__":
    main(sys.argv[1])
