"""Record what a GPU gives for the cases of ``tensor_cases``: ``PYTHONPATH=src:. python tests/goldens/record_tensor.py FOLDER``.

Needs NumPy, cuda-bindings, ptxas on the path and a GPU. Writes ``tensor_full.npz``: an index (JSON bytes: card, driver, date, cases) and all result bytes in its order;
``--ptx`` writes ``tensor.ptx`` alone. Invariant: one kernel a case; block w computes warp w's share and touches nothing else.
"""

from __future__ import annotations

import datetime
import json
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import tensor_cases
from tensor_cases import Case

HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
REGISTER = {"f32": "%f", "f64": "%d", "b32": "%r", "s32": "%r", "b64": "%d"}


def cases() -> list[Case]:
    """All cases, in the order of the recording."""
    return [*tensor_cases.sparse_cases(16), *tensor_cases.wmma_cases(16)]


def output_bytes(case: Case) -> int:
    """Bytes of one warp's result: registers, or the matrix in memory."""
    if case.form.stores:
        return tensor_cases.image_bytes(case)
    role = case.form.roles[0]
    assert role.type is not None
    return role.count * 32 * role.type.bytes


def inputs(case: Case) -> np.ndarray:
    """[warp][byte] of what a kernel reads: all input registers, or the matrix in memory."""
    if case.form.loads:
        return tensor_cases.image(case)
    registers = tensor_cases.operands(case)
    return np.concatenate([np.ascontiguousarray(r).view(np.uint8).reshape(case.warps, -1) for r in registers.values()], axis=1)


def kernel(number: int, case: Case) -> str:
    """The entry ``k<number>`` of a case."""
    lines = [f".visible .entry k{number}(.param .u64 in, .param .u64 out)", "{"]
    lines += [".reg .b32 %r<48>; .reg .f32 %f<48>; .reg .f64 %d<48>; .reg .b64 %l<8>; .reg .b32 %t<4>;"]
    lines += ["ld.param.u64 %l0, [in]; ld.param.u64 %l1, [out]; mov.u32 %t0, %ctaid.x; mov.u32 %t1, %tid.x;"]
    lines += [f"mad.wide.u32 %l0, %t0, {inputs(case).shape[1]}, %l0; mad.wide.u32 %l1, %t0, {output_bytes(case)}, %l1;"]
    lines += ["mul.wide.u32 %l2, %t1, 4; mul.wide.u32 %l3, %t1, 8; add.s64 %l4, %l0, %l2; add.s64 %l5, %l0, %l3;"]
    lines += ["add.s64 %l2, %l1, %l2; add.s64 %l3, %l1, %l3;"]
    loads, stores, written, used, at = [], [], [], 0, 0
    for role in case.form.roles:
        if role.kind == "addr":
            written.append("[%l1]" if case.form.stores else "[%l0]")
            continue
        if role.name == "f":
            written.append(str(case.selector))
            continue
        if role.name == "stride":
            if case.pad:
                written.append(str(tensor_cases.stride_bytes(case) * 8 // tensor_cases.matrix_of(case.form)[2]))
            continue
        assert role.type is not None
        wide = role.type.width == 64
        names = [f"{REGISTER[role.type.name]}{used + i}" for i in range(role.count)]
        used += role.count
        for i, name in enumerate(names):
            if role.kind == "out":
                stores.append(f"st.global.{role.type.name} [{'%l3' if wide else '%l2'}+{i * (256 if wide else 128)}], {name};")
            else:
                loads.append(f"ld.global.{role.type.name} {name}, [{'%l5' if wide else '%l4'}+{at}];")
                at += 256 if wide else 128
        written.append(names[0] if role.name == "e" else f"{{{', '.join(names)}}}")
    return "\n".join([*lines, *loads, f"{case.form.opcode} {', '.join(written)};", *stores, "ret;", "}"])


def main(folder: str, ptx_only: bool) -> None:
    every, target = cases(), Path(folder)
    source, cubin = target / "tensor.ptx", target / "tensor.cubin"
    source.write_text(HEADER + "\n".join(kernel(i, case) for i, case in enumerate(every)) + "\n")
    if ptx_only:
        return
    subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(cubin)], check=True)
    from benchmarks import device, recording

    index, data = [], []
    with device.Device() as gpu:
        module = gpu.module(cubin.read_bytes())
        for i, case in enumerate(every):
            out = tensor_cases.image(case) if case.form.stores else case.warps * output_bytes(case)
            given, result = gpu.buffer(inputs(case)), gpu.buffer(out)
            args = struct.pack("<QQ", given.address, result.address)
            gpu.start(module, f"k{i}", (case.warps, 1, 1), (32, 1, 1), args)
            data.append(gpu.read(result.address, result.size))
            index.append({"case": case.name, "bytes": int(data[-1].size)})
            gpu.free()
        head = {**recording.card(gpu), "date": datetime.date.today().isoformat(), "cases": index}
    text = np.frombuffer(json.dumps(head).encode(), np.uint8)
    np.savez_compressed(target / "tensor_full.npz", index=text, data=np.concatenate(data))
    print(head["card"], head["driver"], len(index), "cases", sum(d.size for d in data), "bytes")


if __name__ == "__main__":
    main(sys.argv[1], "--ptx" in sys.argv)
