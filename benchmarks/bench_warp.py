"""How fast the warp executor runs kernels and gets ready, beside the interpreter on the same launches.

Invariant: both executors run the same launch and leave the same bytes, or there is no number. Compile times are those of new processes: one with an empty
cache, one with what the first left there.
Run ``python -m benchmarks.bench_warp`` (``--quick`` leaves the interpreter's long runs out).
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.recording import add_options, record
from ptxgraft import data
from ptxgraft.isa import bind
from ptxgraft.run import Launch, Surface, Texture, allocate, execute
from ptxgraft.run.warp_engine import prepare
from ptxgraft.text import Document

PROFILE = "sm_90"
HEAD = ".version 8.4\n.target sm_80\n.address_size 64\n"

SAXPY = (
    HEAD
    + """.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r2, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra END;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.nc.f32 %f2, [%rd5];
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
END:
    ret;
}
"""
)

MATMUL = (
    HEAD
    + """.visible .entry matmul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<16>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ntid.y;
    mov.u32 %r4, %tid.y;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %ntid.x;
    mov.u32 %r8, %tid.x;
    mad.lo.s32 %r9, %r6, %r7, %r8;
    mul.lo.s32 %r10, %r5, %r1;
    mul.wide.s32 %rd4, %r10, 4;
    add.s64 %rd5, %rd1, %rd4;
    mul.wide.s32 %rd6, %r9, 4;
    add.s64 %rd7, %rd2, %rd6;
    mul.wide.s32 %rd8, %r1, 4;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r11, 0;
LOOP:
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.s64 %rd5, %rd5, 4;
    add.s64 %rd7, %rd7, %rd8;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, %r1;
    @%p1 bra LOOP;
    add.s32 %r12, %r10, %r9;
    mul.wide.s32 %rd9, %r12, 4;
    add.s64 %rd10, %rd3, %rd9;
    st.global.f32 [%rd10], %f1;
    ret;
}
"""
)


def saxpy(n: int = 1 << 20) -> Launch:
    """y = a*x + y over ``n`` floats, blocks of 256."""
    rng = np.random.default_rng(1)
    arrays = [rng.random(n, dtype=np.float32) for _ in range(2)]
    bases = (0x10_0000_0000, 0x20_0000_0000)
    args = n.to_bytes(4, "little") + np.float32(2.5).tobytes() + b"".join(b.to_bytes(8, "little") for b in bases)
    memory = [allocate(base, array) for base, array in zip(bases, arrays, strict=True)]
    return Launch(bind(Document.parse(SAXPY), "saxpy"), (-(-n // 256), 1, 1), (256, 1, 1), args, allocations=memory)


def matmul(n: int = 256) -> Launch:
    """C = A*B, ``n`` x ``n`` floats, blocks of 16 x 16, one element a thread."""
    rng = np.random.default_rng(2)
    bases = (0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000)
    arrays = [rng.random(n * n, dtype=np.float32), rng.random(n * n, dtype=np.float32), np.zeros(n * n, np.float32)]
    args = b"".join(b.to_bytes(8, "little") for b in bases) + n.to_bytes(4, "little")
    memory = [allocate(base, array) for base, array in zip(bases, arrays, strict=True)]
    return Launch(bind(Document.parse(MATMUL), "matmul"), (n // 16, n // 16, 1), (16, 16, 1), args, allocations=memory)


def layer(name: str) -> Launch:
    """A layer of the reference workload on the shipped frame."""
    given = data.launch_arguments(name)
    args, memory = bytearray(given.args), []
    textures: dict[int, Texture] = {}
    surfaces: dict[int, Surface] = {}
    for number, (offset, contents) in enumerate(given.buffers.items(), 1):
        memory.append(allocate(number << 36, contents))
        args[offset : offset + 8] = (number << 36).to_bytes(8, "little")
    for handle, (offset, image) in enumerate((*given.textures.items(), *given.surfaces.items()), 1 << 33):
        args[offset : offset + 8] = handle.to_bytes(8, "little")
        if isinstance(image, np.ndarray):
            surfaces[handle] = Surface(image)
        else:
            textures[handle] = Texture(image.array, filter=image.filter, address=image.address, normalized=image.normalized)
    program = bind(Document.parse(data.ptx(name)), given.entry)
    return Launch(program, given.grid, given.block, bytes(args), given.shared_bytes, memory, textures, surfaces)


LAUNCHES: dict[str, Callable[[], Launch]] = {
    "saxpy 2^20": saxpy,
    "matmul 256^3": matmul,
    "enc4": lambda: layer("enc4"),
    "dec0": lambda: layer("dec0"),
}


def contents(launch: Launch) -> list[bytes]:
    """Every byte that the launch may have changed."""
    return [a.data.tobytes() for a in launch.memory.allocations] + [s.array.tobytes() for s in launch.surfaces.values()]


def run_times(make: Callable[[], Launch], with_interpreter: bool) -> dict[str, Any]:
    """Seconds of a launch on each executor (the warp executor: best of several, compiled before), and whether the bytes agree."""
    row: dict[str, Any] = {}
    for threads in (1, 2):
        best = float("inf")
        for _ in range(7):
            launch = make()
            prepare(launch.program, PROFILE)
            start = time.perf_counter()
            result = execute(launch, "warp", PROFILE, threads=threads)
            best = min(best, time.perf_counter() - start)
        row[f"warp_seconds_{threads}"] = best
    row["statements"] = result.statements
    if with_interpreter:
        other = make()
        start = time.perf_counter()
        execute(other, "numpy", PROFILE)
        row["numpy_seconds"] = time.perf_counter() - start
        assert contents(other) == contents(launch), "the executors disagree"
        row["ratio"] = row["numpy_seconds"] / row["warp_seconds_1"]
    return row


_PREPARE = """
import json, resource, sys, time
from benchmarks.bench_warp import LAUNCHES, PROFILE
from ptxgraft.run.warp_engine import prepare
launch = LAUNCHES[sys.argv[1]]()
start = time.perf_counter()
prepare(launch.program, PROFILE)
print(json.dumps([time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024]))
"""


def prepare_times(name: str) -> dict[str, float]:
    """Seconds to get a program ready in a new process, from an empty cache and from a filled one, and the process's peak memory in bytes."""
    with tempfile.TemporaryDirectory() as directory:
        environment = {**os.environ, "PTXGRAFT_CACHE_DIR": directory}
        found = []
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, "-c", _PREPARE, name],
                env=environment,
                cwd=Path(__file__).parent.parent,
                capture_output=True,
                text=True,
                check=True,
            )
            found.append(json.loads(done.stdout))
        size = sum(p.stat().st_size for p in Path(directory).rglob("*") if p.is_file())
    return {"cold_seconds": found[0][0], "cached_seconds": found[1][0], "cache_bytes": size, "peak_bytes": found[0][1]}


def run(with_interpreter: bool = True) -> dict[str, Any]:
    """Every launch's numbers, by name."""
    return {name: {**prepare_times(name), **run_times(make, with_interpreter)} for name, make in LAUNCHES.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="leave the interpreter out")
    add_options(parser)
    options = parser.parse_args()
    result = run(not options.quick)
    print(
        f"{'launch':14} {'cold s':>7} {'cached s':>9} {'peak MB':>8} {'1 thread ms':>12} {'2 threads ms':>13} {'numpy s':>8} {'ratio':>7}"
    )
    for name, row in result.items():
        print(
            f"{name:14} {row['cold_seconds']:7.2f} {row['cached_seconds']:9.3f} {row['peak_bytes'] / 1e6:8.0f} {row['warp_seconds_1'] * 1e3:12.2f}"
            f" {row['warp_seconds_2'] * 1e3:13.2f} {row.get('numpy_seconds', float('nan')):8.2f} {row.get('ratio', float('nan')):7.0f}"
        )
    record("warp", {"launches": result}, options)


if __name__ == "__main__":
    main()
