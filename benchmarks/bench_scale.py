"""How parsing and the spec grow with the length of an entry.

Invariant: the texts are those of ``benchmarks.synthetic``, the same each time; sizes take turns, so that a slow moment of the machine falls on all.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench_spec import ptxas_seconds
from benchmarks.device_examples import find_ptxas
from benchmarks.synthetic import module
from ptxgraft.text import Document

ROOT = Path(__file__).parents[1]
STEPS = ("parse", "bind", "flow", "spec")
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
GOAL_LINES = 50_000
GOALS = {"parse": 0.25, "seconds": 1.0}
"""Seconds on the entry of ``GOAL_LINES`` lines."""
PTXAS_LINES = 20_000
REPEATS = 3


def growth(rows: list[dict[str, Any]], name: str, least: int = 5_000) -> float:
    """The exponent e of seconds ~ lines**e, by least squares over the logarithms, from ``least`` lines on. 1 is linear."""
    points = [(math.log(r["lines"]), math.log(r[name])) for r in rows if r["lines"] >= least]
    x, y = (sum(v) / len(points) for v in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


_WORKER = """
import json, os, sys, time
from pathlib import Path
from benchmarks.bench_spec import phase_seconds
from benchmarks.synthetic import ENTRY, module
from ptxgraft.spec import spec
spec(module(1_000), ENTRY)  # the table of instructions is filled, NumPy is awake
cpu = time.process_time()
steps = phase_seconds(Path(sys.argv[1]), ENTRY)
cpu = time.process_time() - cpu
peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) / 1024
print(json.dumps({"cpu_seconds": cpu, **steps, "peak_mib": peak}), flush=True)
os._exit(0)
"""


def in_a_process(path: Path) -> dict[str, float]:
    """Seconds of each step on a file, and the peak memory, in a new process: nothing is there to be freed or found again."""
    done = subprocess.run([sys.executable, "-c", _WORKER, str(path)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the worker failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def table(sizes: tuple[int, ...], marked: bool, repeats: int) -> list[dict[str, Any]]:
    """A row for each size: medians of the seconds from the file to the spec and of each step, and the peak memory."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {lines: Path(folder, f"{lines}.ptx") for lines in sizes}
        statements = {}
        for lines, path in paths.items():
            path.write_bytes(module(lines, marked))
            statements[lines] = len(Document.read(path).statements)
        found: dict[int, list[dict[str, float]]] = {lines: [] for lines in sizes}
        for _ in range(repeats):
            for lines, path in paths.items():
                found[lines].append(in_a_process(path))
    rows = []
    for lines in sizes:
        row: dict[str, Any] = {"lines": lines, "statements": statements[lines]}
        seconds = median(sum(f[step] for step in STEPS) for f in found[lines])
        row |= {"seconds": seconds, **{name: median(f[name] for f in found[lines]) for name in found[lines][0]}}
        rows.append(row | {"lines_per_second": round(lines / seconds), "peak_mib": round(row["peak_mib"], 1)})
    return rows


def beside_ptxas(lines: int) -> dict[str, float]:
    """One run of ptxas on a text of this length."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer.ptx")
        path.write_bytes(module(lines))
        return {"lines": lines, "ptxas_seconds": ptxas_seconds(path, find_ptxas())}


def run(sizes: tuple[int, ...] = SIZES, repeats: int = REPEATS) -> dict[str, Any]:
    """As nvcc writes inline assembly (two comments around a statement), and with a statement on nearly every line."""
    marked, bare = table(sizes, True, repeats), table(sizes, False, repeats)
    result: dict[str, Any] = {"repeats": repeats, "as_nvcc_writes": marked, "bare": bare, "goals": {"lines": GOAL_LINES, **GOALS}}
    result["growth"] = {
        f"{style} {name}": round(growth(rows, name, min(5_000, sizes[-2])), 3)
        for style, rows in (("as_nvcc_writes", marked), ("bare", bare))
        for name in (*STEPS, "cpu_seconds")
    }
    if sizes[-1] >= PTXAS_LINES:
        result["beside"] = beside_ptxas(PTXAS_LINES)
    return result
