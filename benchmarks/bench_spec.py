"""How long the spec of a layer takes, from its file to the result, beside ptxas on the same file.

Invariant: every repeat reads the file anew, parses, binds and analyses; ptxas and we take turns, so that both see the same machine.
"""

from __future__ import annotations

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.device_examples import find_ptxas
from ptxgraft import data
from ptxgraft.collector import collector_paused
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import layer_spec, spec
from ptxgraft.text import Document

REPEATS = 7
ARCH = "sm_89"


def ptxas_seconds(path: Path, ptxas: str) -> float:
    """One run of ``ptxas -arch=sm_89`` on a file, its start included. Raises ``CalledProcessError`` when it refuses the file."""
    start = time.perf_counter()
    subprocess.run([ptxas, f"-arch={ARCH}", str(path), "-o", "/dev/null"], check=True, capture_output=True)
    return time.perf_counter() - start


def spec_seconds(path: Path, entry: str) -> tuple[float, float]:
    """Seconds from a file to its spec, by the clock and of the processor: the second says more on a machine that others use too."""
    start, start_cpu = time.perf_counter(), time.process_time()
    spec(path, entry)
    return time.perf_counter() - start, time.process_time() - start_cpu


@collector_paused()
def phase_seconds(path: Path, entry: str) -> dict[str, float]:
    """Seconds of each step from a file to its spec."""
    marks = [time.perf_counter()]
    document = Document.read(path)
    marks.append(time.perf_counter())
    flow = Flow(bind(document, entry))
    marks.append(time.perf_counter())
    _ = flow.cfg, flow.liveness, flow.defuse
    marks.append(time.perf_counter())
    layer_spec(flow)
    marks.append(time.perf_counter())
    return {name: b - a for name, a, b in zip(("parse", "bind", "flow", "spec"), marks, marks[1:], strict=False)}


def measure(path: Path, entry: str, repeats: int, ptxas: str | None) -> dict[str, Any]:
    """Medians over ``repeats`` turns; without ``ptxas`` no ratio."""
    whole, cpu, steps, other = [], [], [], []
    for _ in range(repeats):
        seconds, cpu_seconds = spec_seconds(path, entry)
        whole.append(seconds)
        cpu.append(cpu_seconds)
        steps.append(phase_seconds(path, entry))
        if ptxas is not None:
            other.append(ptxas_seconds(path, ptxas))
    row: dict[str, Any] = {
        "seconds": median(whole),
        "cpu_seconds": median(cpu),
        **{name: median(s[name] for s in steps) for name in steps[0]},
    }
    if other:
        row |= {"ptxas_seconds": median(other), "ptxas_over_ours": median(other) / median(whole)}
    return row


def run(repeats: int = REPEATS) -> dict[str, Any]:
    """The reference layers."""
    ptxas = find_ptxas()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for layer in data.LAYERS:
            path = Path(folder, f"{layer}.ptx")
            path.write_bytes(data.ptx(layer))
            spec(path, layer)  # the table of instructions is filled by now, and the file is in the system's cache
            row = measure(path, layer, repeats, ptxas)
            rows.append({"layer": layer, "lines": path.read_bytes().count(b"\n"), **row})
    return {"repeats": repeats, "ptxas_arch": ARCH, "spec": rows}
