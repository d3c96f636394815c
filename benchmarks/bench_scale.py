"""How parsing, the spec and a cut grow with the length of an entry, and what they take on one as long as those that vendors ship.

Invariant: the texts are those of ``benchmarks.synthetic`` and ``denoiser/unrolled.cu``, the same each time; sizes take turns, so that a slow moment of the
machine falls on all; every measurement is made in a process of its own, on one core.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench_spec import ptxas_seconds
from benchmarks.device_examples import find_ptxas
from benchmarks.plot import draw, exponent
from benchmarks.synthetic import ENTRY, module
from ptxgraft.spec import spec
from ptxgraft.text import Document

ROOT = Path(__file__).parents[1]
STEPS = ("parse", "bind", "flow", "spec")
ALL_STEPS = (*STEPS, "cut", "print")
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
GOAL_LINES = 50_000
GOALS = {"parse": 0.25, "seconds": 1.0}
"""Seconds on the entry of ``GOAL_LINES`` lines."""
UNROLLED_GOALS = {"lines": 52_000, "mma": 1386, "phases": 62, "with_cut_cpu_seconds": 2.0, "peak_mib": 500}
"""Sizes of ``denoiser/unrolled.cu``, at least; seconds of one core from the file to its spec and its printed cut, and peak memory, below these."""
PTXAS_LINES = 20_000
REPEATS = 3


def growth(rows: list[dict[str, Any]], name: str, least: int = 5_000) -> float:
    """The exponent of seconds over lines, from ``least`` lines on."""
    return exponent([(r["lines"], r[name]) for r in rows if r["lines"] >= least])


_WORKER = """
import json, os, sys, time
from pathlib import Path
from benchmarks.synthetic import ENTRY, module
from ptxgraft.collector import collector_paused
from ptxgraft.flow import Flow
from ptxgraft.graft import cut
from ptxgraft.isa import bind
from ptxgraft.spec import layer_spec, spec
from ptxgraft.text import Document
path, entry = Path(sys.argv[1]), sys.argv[2]
cut(Document.parse(module(1_000)), ENTRY)  # the table of instructions is filled, NumPy is awake
spec(module(1_000), ENTRY)
marks, cpu = [time.perf_counter()], [time.process_time()]
def mark():
    marks.append(time.perf_counter())
    cpu.append(time.process_time())
with collector_paused():
    document = Document.read(path)
    mark()
    flow = Flow(bind(document, entry))
    mark()
    _ = flow.cfg, flow.liveness, flow.defuse
    mark()
    layer_spec(flow)
    mark()
made = cut(document, entry)
mark()
made.document.print()
mark()
steps = {name: b - a for name, a, b in zip(("parse", "bind", "flow", "spec", "cut", "print"), marks, marks[1:])}
peak = next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith("VmHWM")) / 1024
print(json.dumps({"cpu_seconds": cpu[4] - cpu[0], "with_cut_cpu_seconds": cpu[-1] - cpu[0], **steps, "peak_mib": peak}), flush=True)
os._exit(0)
"""


def in_a_process(path: Path, entry: str = ENTRY) -> dict[str, float]:
    """Seconds of each step on a file, and the peak memory, in a new process: nothing is there to be freed or found again.

    ``cpu_seconds`` are the processor's up to the spec, ``with_cut_cpu_seconds`` those of all. The cut binds its own result, too.
    """
    done = subprocess.run([sys.executable, "-c", _WORKER, str(path), entry], cwd=ROOT, capture_output=True, text=True)
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
        row["with_cut_seconds"] = median(sum(f[step] for step in ALL_STEPS) for f in found[lines])
        rows.append(row | {"lines_per_second": round(lines / seconds), "peak_mib": round(row["peak_mib"], 1)})
    return rows


def beside_ptxas(lines: int) -> dict[str, float]:
    """One run of ptxas on a text of this length."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "layer.ptx")
        path.write_bytes(module(lines))
        return {"lines": lines, "ptxas_seconds": ptxas_seconds(path, find_ptxas())}


def unrolled(repeats: int) -> dict[str, Any]:
    """``denoiser/unrolled.cu``, compiled for the occasion: its sizes, medians of the seconds of each step, peak memory, and ptxas on the same file."""
    sys.path.insert(0, str(ROOT / "denoiser"))
    try:
        build = importlib.import_module("build")
    finally:
        sys.path.pop(0)
    nvcc = build.find_nvcc()
    if nvcc is None:
        return {"skipped": "no nvcc: install the dev extra"}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "unrolled.ptx")
        path.write_bytes(build.unrolled(nvcc))
        found = [in_a_process(path, "unrolled") for _ in range(repeats)]
        made = spec(path, "unrolled")
        result: dict[str, Any] = {
            "lines": len(path.read_bytes().splitlines()),
            "mma": sum(p.mma for p in made.phases),
            "phases": len(made.phases),
        }
        result |= {"goals": UNROLLED_GOALS, "seconds": median(sum(f[step] for step in ALL_STEPS) for f in found)}
        result |= {name: median(f[name] for f in found) for name in found[0]}
        return result | {"ptxas_seconds": ptxas_seconds(path, find_ptxas())}


def picture(result: dict[str, Any], path: Path) -> None:
    """The growth as a plot with logarithmic axes, as a PNG."""
    lines = {"file to spec": "cpu_seconds", "file to spec and printed cut": "with_cut_cpu_seconds"}
    points = {name: [(r["lines"], r[key]) for r in result["as_nvcc_writes"]] for name, key in lines.items()}
    draw(path, "Processor seconds by length of the entry", "lines of PTX", "seconds", points)


def run(sizes: tuple[int, ...] = SIZES, repeats: int = REPEATS) -> dict[str, Any]:
    """As nvcc writes inline assembly (two comments around a statement), and with a statement on nearly every line."""
    marked, bare = table(sizes, True, repeats), table(sizes, False, repeats)
    result: dict[str, Any] = {"repeats": repeats, "as_nvcc_writes": marked, "bare": bare, "goals": {"lines": GOAL_LINES, **GOALS}}
    result["growth"] = {
        f"{style} {name}": round(growth(rows, name, min(5_000, sizes[-2])), 3)
        for style, rows in (("as_nvcc_writes", marked), ("bare", bare))
        for name in (*ALL_STEPS[:-1], "cpu_seconds", "with_cut_cpu_seconds")
    }
    if sizes[-1] >= PTXAS_LINES:
        result["beside"] = beside_ptxas(PTXAS_LINES)
        result["unrolled"] = unrolled(repeats)
    return result
