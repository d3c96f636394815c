"""How the warp executor's times grow: a run with the grid, getting ready with the statements of a program.

Invariant: every time of getting ready is that of a new process with a cache of its own, empty or filled by the one before.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.plot import exponent
from benchmarks.synthetic import ENTRY, module
from benchmarks.warp_kernels import HEAD, LAUNCHES, saxpy
from ptxgraft.isa import bind
from ptxgraft.run import execute
from ptxgraft.run.warp_engine import prepare
from ptxgraft.text import Document

ROOT = Path(__file__).parents[1]
STATEMENTS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000)
REGION = 14_000
"""Statements of the region that has an aim of its own."""
BLOCKS = (64, 256, 1024, 4096, 16384)
LEAST_BLOCKS = 1024
"""From here on a run's exponent is taken: below, the host's work is most of it."""


def scalar_text(statements: int) -> str:
    """An unrolled kernel of integer and float arithmetic, loads and stores, of about so many statements."""
    lines = [
        "ld.param.u64 %rd1, [p];",
        "mov.u32 %r1, %tid.x;",
        "mul.wide.u32 %rd2, %r1, 4;",
        "add.s64 %rd3, %rd1, %rd2;",
        "mov.u32 %r2, 1;",
        "mov.f32 %f1, 0f3F800000;",
    ]
    turn = 0
    while len(lines) < statements - 1:
        at = 128 * (turn % 8)
        lines += [
            f"ld.global.f32 %f2, [%rd3+{at}];",
            "fma.rn.f32 %f1, %f2, %f1, %f1;",
            "mul.f32 %f3, %f1, %f2;",
            "mad.lo.s32 %r2, %r2, %r1, 7;",
            "xor.b32 %r3, %r2, %r1;",
            "shl.b32 %r4, %r3, 3;",
            "cvt.rn.f32.s32 %f4, %r4;",
            "add.f32 %f1, %f3, %f4;",
            "max.f32 %f1, %f1, 0f00000000;",
            f"st.global.f32 [%rd3+{at}], %f1;",
        ]
        turn += 1
    body = "\n    ".join(lines[: statements - 1])
    registers = ".reg .b32 %r<5>; .reg .f32 %f<5>; .reg .b64 %rd<4>;"
    return f"{HEAD}.visible .entry {ENTRY}(.param .u64 p)\n{{\n    {registers}\n    {body}\n    ret;\n}}\n"


def layer_text(statements: int) -> str:
    """An unrolled tensor-core layer of about so many statements. (``synthetic.module`` goes by lines; some hold two statements.)"""
    return module(max(80, round(statements / 1.127)), marked=False).decode()


TEXTS = {"tensor-core layer": layer_text, "scalar code": scalar_text}

_PREPARE = """
import json, resource, sys, time
from benchmarks.warp_growth import program_of
program = program_of(sys.argv[1], int(sys.argv[2]))
from ptxgraft.run.warp_engine import prepare
wall, cpu = time.perf_counter(), time.process_time()
code = prepare(program, "sm_90")
print(json.dumps({
    "seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu, "statements": len(program.instructions),
    "native": code.native, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
}))
"""


def program_of(name: str, statements: int) -> Any:
    """The bound program of a text of ``TEXTS``, or of a launch of ``LAUNCHES`` (whatever ``statements`` says)."""
    return LAUNCHES[name]().program if name in LAUNCHES else bind(Document.parse(TEXTS[name](statements)), ENTRY)


def prepared(name: str, statements: int = 0) -> tuple[dict[str, Any], dict[str, Any], int]:
    """What getting ready took in a new process with an empty cache, then in another one with the filled cache; and the cache's bytes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PTXGRAFT_CACHE_DIR": folder}
        found = [
            json.loads(
                subprocess.run(
                    [sys.executable, "-c", _PREPARE, name, str(statements)],
                    env=environment, cwd=ROOT, check=True, capture_output=True, text=True,
                ).stdout
            )
            for _ in range(2)
        ]  # fmt: skip
        size = sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file())
    return found[0], found[1], size


def compile_growth(sizes: tuple[int, ...] = STATEMENTS, region: int = REGION) -> dict[str, Any]:
    """Seconds of the processor to get ready, cold and from the cache, by statements."""
    rows = []
    for name in TEXTS:
        for statements in sorted({*sizes, region} if name == "tensor-core layer" else sizes):
            cold, cached, _ = prepared(name, statements)
            rows.append(
                {
                    "text": name,
                    "statements": cold["statements"],
                    "cold s": cold["cpu_seconds"],
                    "cold ms a statement": 1e3 * cold["cpu_seconds"] / cold["statements"],
                    "cached s": cached["cpu_seconds"],
                    "cached ms a statement": 1e3 * cached["cpu_seconds"] / cached["statements"],
                    "one function": cold["native"],
                    "peak MB": round(cold["peak_bytes"] / 1e6),
                }
            )
    return {"rows": rows, "exponents": {name: round(exponent(points), 2) for name, points in compile_lines(rows).items()}}


def compile_lines(rows: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """The plot's lines."""
    return {
        f"{name}, {kind}": [(r["statements"], r[f"{kind} s"]) for r in rows if r["text"] == name]
        for name in dict.fromkeys(r["text"] for r in rows)
        for kind in ("cold", "cached")
    }


def grid_growth(profile: str, blocks: tuple[int, ...] = BLOCKS, repeats: int = 5) -> dict[str, Any]:
    """Seconds of saxpy on so many blocks of 256 threads, one thread and all, the shortest of several whose sizes take turns."""
    launches = {n: saxpy(256 * n) for n in blocks}
    prepare(launches[blocks[0]].program, profile)
    best: dict[tuple[int, str], float] = {}
    for _ in range(repeats):
        for n, launch in launches.items():
            for threads, name in ((1, "one thread"), (None, "all threads")):
                start = time.perf_counter()
                execute(launch, "warp", profile, threads=threads)
                best[n, name] = min(best.get((n, name), float("inf")), time.perf_counter() - start)
    rows = [{"blocks": n, **{f"{name} ms": 1e3 * best[n, name] for name in ("one thread", "all threads")}} for n in blocks]
    lines = grid_lines(rows)
    found = {name: exponent([p for p in points if p[0] >= min(LEAST_BLOCKS, blocks[-2])]) for name, points in lines.items()}
    return {"rows": rows, "exponents": {name: round(e, 2) for name, e in found.items()}}


def grid_lines(rows: list[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    return {name: [(r["blocks"], r[f"{name} ms"]) for r in rows] for name in ("one thread", "all threads")}
