"""How parsing and the spec grow with the length of an entry.

Invariant: the texts are those of ``benchmarks.synthetic``, the same each time; sizes take turns, so that a slow moment of the machine falls on all.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.bench_spec import phase_seconds, ptxas_seconds
from benchmarks.device_examples import find_ptxas
from benchmarks.synthetic import ENTRY, module
from ptxgraft.spec import spec
from ptxgraft.text import Document

SIZES = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000)
GOAL_LINES = 50_000
GOALS = {"parse": 0.25, "seconds": 1.0}
"""Seconds on the entry of ``GOAL_LINES`` lines."""
PTXAS_LINES = 20_000
REPEATS = 5


def growth(rows: list[dict[str, Any]], name: str, least: int = 5_000) -> float:
    """The exponent e of seconds ~ lines**e, by least squares over the logarithms, from ``least`` lines on. 1 is linear."""
    points = [(math.log(r["lines"]), math.log(r[name])) for r in rows if r["lines"] >= least]
    x, y = (sum(v) / len(points) for v in zip(*points, strict=True))
    return sum((a - x) * (b - y) for a, b in points) / sum((a - x) ** 2 for a, _ in points)


def table(sizes: tuple[int, ...], marked: bool, repeats: int) -> list[dict[str, Any]]:
    """A row for each size: seconds from the file to the spec, and of each step."""
    with tempfile.TemporaryDirectory() as folder:
        paths = {lines: Path(folder, f"{lines}.ptx") for lines in sizes}
        statements = {}
        for lines, path in paths.items():
            path.write_bytes(module(lines, marked))
            statements[lines] = len(Document.read(path).statements)
        whole: dict[int, list[float]] = {lines: [] for lines in sizes}
        steps: dict[int, list[dict[str, float]]] = {lines: [] for lines in sizes}
        for _ in range(repeats):
            for lines, path in paths.items():
                start = time.perf_counter()
                spec(path, ENTRY)
                whole[lines].append(time.perf_counter() - start)
                steps[lines].append(phase_seconds(path, ENTRY))
    rows = []
    for lines in sizes:
        seconds = median(whole[lines])
        row = {"lines": lines, "statements": statements[lines], "seconds": seconds, "lines_per_second": round(lines / seconds)}
        rows.append(row | {name: median(s[name] for s in steps[lines]) for name in steps[lines][0]})
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
        for name in ("parse", "bind", "flow", "spec", "seconds")
    }
    if sizes[-1] >= PTXAS_LINES:
        result["beside"] = beside_ptxas(PTXAS_LINES)
    return result
