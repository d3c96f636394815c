"""Record what a GPU gives for the cases of ``tensor_cases``: ``PYTHONPATH=src:. python tests/goldens/record_tensor.py FOLDER``.

Needs NumPy, cuda-bindings, ptxas on the path and a GPU; writes ``tensor.ptx``, ``tensor.cubin`` and ``tensor.npz`` (``tensor_cases.write_results``). With ``--ptx`` it
writes ``tensor.ptx`` alone and needs none of them.
"""

from __future__ import annotations

import datetime
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import tensor_cases


def main(folder: str, ptx_only: bool) -> None:
    every, target = tensor_cases.cases(), Path(folder)
    source, cubin = target / "tensor.ptx", target / "tensor.cubin"
    source.write_text(tensor_cases.HEADER + "\n".join(tensor_cases.kernel(i, case) for i, case in enumerate(every)) + "\n")
    if ptx_only:
        return
    subprocess.run(["ptxas", "-arch=sm_90", str(source), "-o", str(cubin)], check=True)
    from benchmarks import device, recording

    results = {}
    with device.Device() as gpu:
        module = gpu.module(cubin.read_bytes())
        for i, case in enumerate(every):
            given, result = gpu.buffer(tensor_cases.inputs(case)), gpu.buffer(tensor_cases.before(case))
            args = struct.pack("<QQ", given.address, result.address)
            gpu.start(module, f"k{i}", (case.warps, 1, 1), (32, 1, 1), args)
            results[case.name] = tensor_cases.summary(i, gpu.read(result.address, result.size).reshape(case.warps, -1))
            gpu.free()
        version = subprocess.run(["ptxas", "--version"], check=True, capture_output=True, text=True).stdout
        release = version.partition("release ")[2].partition(",")[0]
        head = {**recording.card(gpu), "date": datetime.date.today().isoformat(), "ptxas": release}
    tensor_cases.write_results(target / "tensor.npz", head, results)
    print(head["card"], head["driver"], len(results), "cases")


if __name__ == "__main__":
    main(sys.argv[1], "--ptx" in sys.argv)
