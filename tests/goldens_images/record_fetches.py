"""Record what a GPU's texture and surface units give: `python tests/goldens_images/record_fetches.py record.npz` (NumPy, cuda-bindings and a GPU).

Invariant: the file has the form that `select_rows.py` reads; a case that the driver refuses is left out, and its name printed.
"""

from __future__ import annotations

import sys

import fetch_cases
import level_cases
import numpy as np
import surface_cases
from cuda.bindings import driver as cu
from fetch_rows import CASES, FORMATS, MODES

HEAD = ".version 8.6\n.target sm_90\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u64 image, .param .u64 at, .param .u64 out, .param .u32 n)
{{
    .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<10>; .reg .b32 %x<8>; .reg .b16 %h<8>;
    ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [at]; ld.param.u64 %rd3, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r2, 128, %r3;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd4, %r4, 32; add.s64 %rd5, %rd2, %rd4; mul.wide.u32 %rd4, %r4, 16; add.s64 %rd6, %rd3, %rd4;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd5];
    ld.global.v4.b32 {{%x4, %x5, %x6, %x7}}, [%rd5+16];
    mov.b64 %rd7, {{%x4, %x5}};
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
    {operation}
    st.global.v4.b32 [%rd6], {{%r5, %r6, %r7, %r8}};
DONE:
    ret;
}}
"""


def ask(result):
    if result[0] != result[0].__class__(0):
        raise RuntimeError(f"driver: {result[0]}")
    return result[1] if len(result) > 1 else None


def copy(array, host, to_array, layered):
    shape = host.shape
    plan = cu.CUDA_MEMCPY3D()
    if host.ndim == 3 and layered:
        shape = (shape[0], 1, *shape[1:])
    plan.WidthInBytes = shape[-2] * shape[-1] * host.itemsize
    plan.Height, plan.Depth = (shape[-3] if len(shape) >= 3 else 1), (shape[0] if len(shape) == 4 else 1)
    here, there = cu.CUmemorytype.CU_MEMORYTYPE_HOST, cu.CUmemorytype.CU_MEMORYTYPE_ARRAY
    if to_array:
        plan.srcMemoryType, plan.srcHost, plan.srcPitch, plan.srcHeight = here, host.ctypes.data, plan.WidthInBytes, plan.Height
        plan.dstMemoryType, plan.dstArray = there, array
    else:
        plan.dstMemoryType, plan.dstHost, plan.dstPitch, plan.dstHeight = here, host.ctypes.data, plan.WidthInBytes, plan.Height
        plan.srcMemoryType, plan.srcArray = there, array
    ask(cu.cuMemcpy3D(plan))


def make(spec):
    """(handle, array) of an image."""
    g, levels, s = spec["geometry"], spec["levels"], spec["settings"]
    first = levels[0]
    a1d = g == "a1d"
    d = cu.CUDA_ARRAY3D_DESCRIPTOR()
    d.Width, d.NumChannels = first.shape[-2:]
    d.Height = 0 if g in ("1d", "a1d") else first.shape[-3]
    d.Depth = first.shape[0] if g not in ("1d", "2d") else 0
    d.Format = cu.CUarray_format(s.get("code") or FORMATS[first.dtype.str[1:]])
    d.Flags = (
        (1 if g in ("a1d", "a2d", "acube") else 0)
        | (2 if s.get("surface") else 0)
        | (4 if g in ("cube", "acube") else 0)
        | (8 if s.get("gather") else 0)
        | (16 if s.get("depth") else 0)
    )
    r = cu.CUDA_RESOURCE_DESC()
    if len(levels) > 1:
        mip = ask(cu.cuMipmappedArrayCreate(d, len(levels)))
        for k, a in enumerate(levels):
            copy(ask(cu.cuMipmappedArrayGetLevel(mip, k)), np.ascontiguousarray(a), True, a1d)
        r.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
        r.res.mipmap.hMipmappedArray = mip
        array = mip
    else:
        array = ask(cu.cuArray3DCreate(d))
        copy(array, np.ascontiguousarray(first), True, a1d)
        r.resType = cu.CUresourcetype.CU_RESOURCE_TYPE_ARRAY
        r.res.array.hArray = array
    if s.get("surface"):
        handle = int(ask(cu.cuSurfObjectCreate(r)))
    else:
        t = cu.CUDA_TEXTURE_DESC()
        t.addressMode = [cu.CUaddress_mode(MODES.index(s.get("address", "clamp")))] * 3
        t.filterMode = cu.CUfilter_mode(int(s.get("filter") == "linear"))
        t.flags = (
            (1 if s.get("integers") else 0)
            | (2 if s.get("normalized") else 0)
            | (0x20 if s.get("exact") else 0)
            | (0x40 if s.get("seamless") else 0)
        )
        t.mipmapFilterMode = cu.CUfilter_mode(int(s.get("mip") == "linear"))
        t.mipmapLevelBias = s.get("bias", 0.0)
        t.minMipmapLevelClamp = s.get("low", 0.0)
        t.maxMipmapLevelClamp = s.get("high", float(len(levels) - 1))
        handle = int(ask(cu.cuTexObjectCreate(r, t, None)))
    return handle, array


def launch(function, handle, at):
    out = np.zeros((len(at), 4), np.uint32)
    inputs, outputs = ask(cu.cuMemAlloc(at.nbytes)), ask(cu.cuMemAlloc(out.nbytes))
    ask(cu.cuMemcpyHtoD(inputs, at.ctypes.data, at.nbytes))
    values = [np.array([v], t) for v, t in ((handle, "u8"), (int(inputs), "u8"), (int(outputs), "u8"), (len(at), "u4"))]
    pointers = np.array([v.ctypes.data for v in values], np.uint64)
    ask(cu.cuLaunchKernel(function, -(-len(at) // 128), 1, 1, 128, 1, 1, 0, 0, pointers.ctypes.data, 0))
    ask(cu.cuCtxSynchronize())
    ask(cu.cuMemcpyDtoH(out.ctypes.data, outputs, out.nbytes))
    cu.cuMemFree(inputs), cu.cuMemFree(outputs)
    return out


def record(cases, path):
    operations = list(dict.fromkeys(c[2] for c in cases))
    text = HEAD + "".join(KERNEL.format(name=f"k{i}", operation=o) for i, o in enumerate(operations))
    functions = {}
    try:
        module = ask(cu.cuModuleLoadData(text.encode() + b"\0"))
        functions = {o: ask(cu.cuModuleGetFunction(module, f"k{i}".encode())) for i, o in enumerate(operations)}
    except RuntimeError as error:
        print("one module fails:", error, "-> one by one")
        for o in operations:
            try:
                module = ask(cu.cuModuleLoadData((HEAD + KERNEL.format(name="k", operation=o)).encode() + b"\0"))
                functions[o] = ask(cu.cuModuleGetFunction(module, b"k"))
            except RuntimeError as error:
                print("cannot load", o, error)
    kept, names = {}, []
    for i, (name, spec, operation, at) in enumerate(cases):
        if operation not in functions:
            continue
        try:
            handle, array = make(spec)
            kept[f"{i}.out"] = launch(functions[operation], handle, np.ascontiguousarray(at))
            if spec["settings"].get("back"):
                after = np.zeros_like(spec["levels"][0])
                copy(array, after, False, spec["geometry"] == "a1d")
                kept[f"{i}.after"] = after
        except RuntimeError as error:
            print("case", name, "failed:", error)
            if "ILLEGAL" in str(error) or "LAUNCH" in str(error):
                break
            continue
        used = int(np.flatnonzero(at.any(axis=0)).max(initial=0)) + 1
        kept[f"{i}.at"] = at[:, :used]
        for k, a in enumerate(spec["levels"]):
            kept[f"{i}.level{k}"] = a
        names.append((str(i), name, spec["geometry"], operation, repr(spec["settings"]), str(len(spec["levels"]))))
    kept["cases"] = np.array(names)
    np.savez_compressed(path, **kept)
    print(f"{path}: {len(names)} of {len(cases)} cases")


def main(path: str) -> None:
    ask(cu.cuInit(0))
    ask(cu.cuCtxSetCurrent(ask(cu.cuDevicePrimaryCtxRetain(ask(cu.cuDeviceGet(0))))))
    for add in (
        fetch_cases.layered, fetch_cases.cubes, fetch_cases.gathers, level_cases.levels, level_cases.gradients, fetch_cases.offsets, fetch_cases.halves,
        fetch_cases.queries, surface_cases.surfaces, level_cases.more, surface_cases.dense, surface_cases.reductions,
    ):  # fmt: skip
        add()
    record(CASES, path)


if __name__ == "__main__":
    main(sys.argv[1])
