"""How long a capture of gigabytes takes to open, in both forms, and how much memory.

Invariant: each opening is in a process of its own, timed from before the call of ``open_capture`` to its return, with the package imported before; nothing is left
on disk.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ptxgraft.capture import Allocation, Launch, Pointer, convert, open_capture, write

ROOT = Path(__file__).parents[1]
LAUNCHES, ALLOCATIONS = 4, 8
TOTAL_BYTES = 2 << 30
REPEATS = 7
PART_BYTES = 4096
CHUNK_BYTES = 1 << 20

_OPEN = """
import json, sys, time
from ptxgraft import capture
path, index, part = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def memory(name):
    return next(int(l.split()[1]) for l in open("/proc/self/status") if l.startswith(name)) / 1024
before = memory("VmRSS")
start = time.perf_counter()
opened = capture.open_capture(path)
opening = time.perf_counter() - start
held = memory("VmRSS") - before
start = time.perf_counter()
found = opened.launches[-1].allocation(index).contents("before").load(0, part)
print(json.dumps({"open": opening, "held": held, "part": time.perf_counter() - start, "peak": memory("VmHWM") - before, "first": found[:8].tolist(),
                  "bytes": sum(a.size for a in opened.launches[0].allocations), "launches": len(opened.launches), "bad": len(opened.bad)}))
"""


@dataclass(frozen=True)
class Numbered:
    """Contents of zeros in which every chunk begins with its own number: distinct, and made as they are asked for."""

    size: int
    first: int

    def load(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        begin, end, _ = slice(start, stop).indices(self.size)
        numbers = np.arange(begin // CHUNK_BYTES, -(-end // CHUNK_BYTES), dtype="<u8")
        made = np.zeros((numbers.size, CHUNK_BYTES), np.uint8)
        made[:, :8] = (numbers + self.first + 1).view(np.uint8).reshape(-1, 8)
        origin = begin // CHUNK_BYTES * CHUNK_BYTES
        return made.reshape(-1)[begin - origin : end - origin]


def launches(total: int) -> list[Launch]:
    """Launches over the same allocations, ``total`` bytes in all."""
    size = total // ALLOCATIONS
    held = [Numbered(size, n * -(-size // CHUNK_BYTES)) for n in range(ALLOCATIONS)]
    bases = [(n + 1) << 32 for n in range(ALLOCATIONS)]
    args = b"".join(base.to_bytes(8, "little") for base in bases)
    return [
        Launch(
            seq, "k", (1, 1, 1), (32, 1, 1), args, 0, [Allocation(n, bases[n], size, held[n], held[n]) for n in range(ALLOCATIONS)],
            [Pointer(8 * n, n, 0) for n in range(ALLOCATIONS)],
        )
        for seq in range(LAUNCHES)
    ]  # fmt: skip


def write_package(folder: Path, total: int) -> Path:
    """Our own form: every chunk is distinct and stored once."""
    path = folder / "big.ptxcap"
    write(launches(total), path)
    return path


def write_sparse_directory(folder: Path, total: int) -> Path:
    """The directory form: written small, then every file of contents is lengthened, which takes no space on disk."""
    small, path = folder / "small.ptxcap", folder / "big"
    few = CHUNK_BYTES * ALLOCATIONS
    write(launches(few), small)
    convert(small, path, form="directory")
    size = total // ALLOCATIONS
    for manifest in path.rglob("manifest.txt"):
        manifest.write_text(manifest.read_text().replace(f" {CHUNK_BYTES}\n", f" {size}\n"))
    for file in path.rglob("*.bin"):
        if file.stat().st_size == CHUNK_BYTES:
            with file.open("r+b") as stream:
                stream.truncate(size)
    return path


FORMS = {"package": write_package, "directory": write_sparse_directory}


def measure(path: Path, total: int, repeats: int) -> dict[str, Any]:
    """Open a capture so many times, each in a new process."""
    index = ALLOCATIONS - 1
    runs = [_opened(path, index) for _ in range(repeats)]
    for run in runs:
        if (run["launches"], run["bad"], run["bytes"]) != (LAUNCHES, 0, total):
            raise RuntimeError(f"{path} did not open as it was written: {run}")
    return {
        "form": open_capture(path).form,
        "gib": total / (1 << 30),
        "launches": LAUNCHES,
        "open_s": statistics.median(run["open"] for run in runs),
        "slowest_open_s": max(run["open"] for run in runs),
        "mib_after_opening": statistics.median(run["held"] for run in runs),
        "read_4_kib_s": statistics.median(run["part"] for run in runs),
        "peak_mib_after_it": statistics.median(run["peak"] for run in runs),
    }


def _opened(path: Path, index: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-c", _OPEN, str(path), str(index), str(PART_BYTES)], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"opening {path} failed: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout)


def run(total: int = TOTAL_BYTES, repeats: int = REPEATS) -> dict[str, Any]:
    """Both forms. Memory is what the process has more than with the package imported."""
    rows = []
    for make in FORMS.values():
        with tempfile.TemporaryDirectory(prefix="ptxgraft-bench-") as folder:
            rows.append(measure(make(Path(folder), total), total, repeats))
    return {
        "captures": rows,
        "goal": "a capture of gigabytes opens in under a second",
        "held": all(row["slowest_open_s"] < 1 for row in rows),
    }
