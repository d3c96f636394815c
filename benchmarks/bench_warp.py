"""How fast the warp executor runs kernels and gets ready: beside plain C, NumPy and the interpreter, in the same run, and against its aims.

Invariant: whatever is compared computes the same result, which is checked, or there is no number; its repeats take turns. Seconds of one thread
are those of the processor, which other programs take less from than from the clock; where several threads run it is the clock.
Run ``python -m benchmarks.bench_warp`` (``--quick``: less work and fewer repeats; ``--record``: write ``results/warp_speed.json`` and two plots).
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import warp_c, warp_growth, warp_rates
from benchmarks.__main__ import lines_of
from benchmarks.plot import draw
from benchmarks.recording import add_options, cpu, record
from benchmarks.warp_kernels import LAUNCHES, contents
from ptxgraft.run import Launch, execute
from ptxgraft.run.warp_engine import prepare

PROFILE = "sm_90"
RECORD = "warp_speed"
CORES = os.cpu_count() or 1

INTERPRETERS = {"gpuocelot's emulator": 4.3e7, "GPGPU-Sim": 1.1e7}
"""Thread-instructions a second that other interpreters reach on one core, on saxpy 2^20 and matmul 256^3. Given to us, not measured here."""


# -- beside C and NumPy ---------------------------------------------------------------------------------------------------
def numpy_saxpy(launch: Launch) -> tuple[Callable[[], None], Callable[[], NDArray]]:
    x, y = (a.data.view(np.float32).copy() for a in launch.memory.allocations)
    out, scaled = np.empty_like(y), np.empty_like(y)

    def run() -> None:
        np.multiply(x, np.float32(2.5), out=scaled)
        np.add(scaled, y, out=out)

    return run, lambda: out


def numpy_matmul(launch: Launch) -> tuple[Callable[[], None], Callable[[], NDArray]]:
    a, b, _ = (v.data.view(np.float32) for v in launch.memory.allocations)
    n = round(a.size**0.5)
    left, right, out = a.reshape(n, n).copy(), b.reshape(n, n).copy(), np.empty((n, n), np.float32)

    def run() -> None:
        np.matmul(left, right, out=out)

    return run, lambda: out.reshape(-1)


def numpy_histogram(launch: Launch) -> tuple[Callable[[], None], Callable[[], NDArray]]:
    data, found = launch.memory.allocations[0].data.copy(), np.zeros(256, np.int64)

    def run() -> None:
        found[:] = np.bincount(data, minlength=256)

    return run, lambda: found.astype(np.uint32)


BESIDE: dict[str, tuple[dict[str, Callable[[Launch], warp_c.Plain]], Callable[[Launch], Any]]] = {
    "saxpy 2^20": ({"C": warp_c.saxpy}, numpy_saxpy),
    "matmul 256^3": ({"C, sums as the kernel's": warp_c.matmul, "C, loops exchanged": warp_c.matmul_rows}, numpy_matmul),
    "histogram, shared": ({"C": warp_c.histogram}, numpy_histogram),
    "histogram, global": ({"C, atomic": warp_c.histogram_atomic, "C, counted apart": warp_c.histogram}, numpy_histogram),
}
"""By launch, what else computes the same."""


def clock(threads: int) -> Callable[[], float]:
    return time.process_time if threads == 1 else time.perf_counter


def shortest(runs: dict[str, tuple[Callable[[], None], Callable[[], object]]], threads: int, repeats: int) -> dict[str, float]:
    """The shortest seconds of each (what comes before, what is measured), by turns."""
    best = dict.fromkeys(runs, float("inf"))
    now = clock(threads)
    for _ in range(repeats):
        for name, (before, call) in runs.items():
            before()
            start = now()
            call()
            best[name] = min(best[name], now() - start)
    return best


def beside(repeats: int) -> list[dict[str, Any]]:
    """A row for each launch and number of threads: milliseconds of the whole launch and of the others, and how many times as long it took."""
    rows = []
    with ThreadPoolExecutor(CORES) as pool:
        for name, (plains, with_numpy) in BESIDE.items():
            launch = LAUNCHES[name]()
            prepare(launch.program, PROFILE)
            start = [a.data.copy() for a in launch.memory.allocations]
            others = {label: make(launch) for label, make in plains.items()}
            numpy_run, numpy_result = with_numpy(launch)

            def restore(launch: Launch = launch, start: list[NDArray] = start) -> None:
                for allocation, data in zip(launch.memory.allocations, start, strict=True):
                    np.copyto(allocation.data, data)

            for threads in sorted({1, CORES}):
                runs: dict[str, tuple[Callable[[], None], Callable[[], object]]] = {
                    "warp": (restore, lambda t=threads, run=launch: execute(run, "warp", PROFILE, threads=t)),
                    **{n: (p.before, lambda p=p, t=threads: p.run(t, pool)) for n, p in others.items()},
                }
                if threads == 1:
                    runs["NumPy"] = (lambda: None, numpy_run)
                    runs["start"] = (lambda: None, lambda run=launch: execute(run, "warp", PROFILE, threads=1, blocks=[0]))
                found = shortest(runs, threads, repeats)
                restore()
                execute(launch, "warp", PROFILE)
                for label, plain in others.items():
                    plain.before()
                    plain.run(1, pool)
                    agree(launch, plain.result, f"{name}: {label}")
                agree(launch, numpy_result(), f"{name}: NumPy")
                for label in runs.keys() - {"warp", "start"}:
                    rows.append(
                        {
                            "launch": name,
                            "threads": threads,
                            "beside": label,
                            "warp ms": 1e3 * found["warp"],
                            "of it the start": 1e3 * found["start"] if threads == 1 else "",
                            "other ms": 1e3 * found[label],
                            "warp / other": found["warp"] / found[label],
                        }
                    )
    return sorted(rows, key=lambda r: (list(BESIDE).index(r["launch"]), r["threads"], r["beside"]))


def agree(launch: Launch, other: NDArray, what: str) -> None:
    """The launch's last allocation holds what the other computed: integers exactly, floats but for the order of sums and rounding of products."""
    mine = launch.memory.allocations[-1].data.view(other.dtype)
    same = np.allclose(mine, other, rtol=1e-5) if other.dtype.kind == "f" else np.array_equal(mine, other)
    assert same, f"{what} computes something else"


# -- the executors --------------------------------------------------------------------------------------------------------
def executors(repeats: int, with_interpreter: bool) -> list[dict[str, Any]]:
    """A row for each launch: getting ready, running it on both engines, and thread-instructions a second."""
    rows = []
    for name, make in LAUNCHES.items():
        cold, cached, size = warp_growth.prepared(name)
        row: dict[str, Any] = {"launch": name, "cold s": cold["cpu_seconds"], "cached s": cached["cpu_seconds"], "cache bytes": size}
        launch = make()
        prepare(launch.program, PROFILE)
        for threads in sorted({1, CORES}):
            best = float("inf")
            for _ in range(repeats):
                launch = make()
                prepare(launch.program, PROFILE)
                start = clock(threads)()
                result = execute(launch, "warp", PROFILE, threads=threads)
                best = min(best, clock(threads)() - start)
            row[f"warp ms, {threads} thread{'s' * (threads > 1)}"] = 1e3 * best
            if threads == 1:
                work = 32 * result.statements
                row["G thread-instructions/s"] = work / best / 1e9
        if with_interpreter:
            other = make()
            start = time.process_time()
            execute(other, "numpy", PROFILE)
            seconds = time.process_time() - start
            assert contents(other) == contents(launch), f"{name}: the executors disagree"
            row |= {"numpy ms": 1e3 * seconds, "numpy / warp": 1e3 * seconds / row["warp ms, 1 thread"], "numpy M/s": work / seconds / 1e6}
        rows.append(row)
    return rows


# -- the aims -------------------------------------------------------------------------------------------------------------
def aims(result: dict[str, Any]) -> list[dict[str, Any]]:
    """What was aimed at, on one core, and what was found."""
    rows: list[dict[str, Any]] = []

    def aim(what: str, wanted: float, found: float, least: bool = True) -> None:
        rows.append({"aim": what, "wanted": wanted, "found": found, "held": found >= wanted if least else found <= wanted})

    whole = {r["launch"]: r for r in result["beside"] if r["threads"] == 1}
    aim("matmul 256^3, whole launch, ms at most", 5, whole["matmul 256^3"]["warp ms"], False)
    aim("the same without the start", 2.2, whole["matmul 256^3"]["warp ms"] - whole["matmul 256^3"]["of it the start"], False)
    aim("saxpy 2^20, whole launch, ms at most", 1, whole["saxpy 2^20"]["warp ms"], False)
    for row in result["rates"]["tensor"]:
        if "aim M/s" in row:
            aim(
                f"{row['instruction']}, worst class, M/s",
                row["aim M/s"],
                min(v for k, v in row.items() if k.split()[0] in warp_rates.CLASSES),
            )
            aim(f"{row['instruction']}, typical, M/s", row["aim typical M/s"], row["typical M/s"])
    for row in result["rates"]["approximations"]:
        aim(f"{row['function']}, M/s", row["aim M/s"], row["M/s"])
    region = min(
        (r for r in result["compile"]["rows"] if r["text"] == "tensor-core layer"), key=lambda r: abs(r["statements"] - warp_growth.REGION)
    )
    aim(f"cold, {region['statements']} statements, s at most", 2, region["cold s"], False)
    for row in result["executors"]:
        if "numpy M/s" in row and row["launch"] in ("saxpy 2^20", "matmul 256^3"):
            others = max(INTERPRETERS.values()) / 1e6
            aim(f"numpy on {row['launch']} over the fastest interpreter ({others:.0f} M/s)", 5, row["numpy M/s"] / others)
    return rows


def run(quick: bool = False) -> dict[str, Any]:
    """All numbers. ``quick`` leaves the interpreter and the large programs out and repeats less."""
    result: dict[str, Any] = {"profile": PROFILE, "cores": CORES, "compiler": f"{warp_c.compiler_version()}, {' '.join(warp_c.FLAGS[:-2])}"}
    result["beside"] = beside(5 if quick else 25)
    result["executors"] = executors(3 if quick else 9, not quick)
    result["rates"] = warp_rates.measure(PROFILE, 2 if quick else 5, 4 if quick else 1)
    result["grid"] = warp_growth.grid_growth(PROFILE, repeats=3 if quick else 9)
    result["compile"] = warp_growth.compile_growth(warp_growth.STATEMENTS[:3] if quick else warp_growth.STATEMENTS)
    result["aims"] = aims(result)
    return result


def picture(result: dict[str, Any], path: Path) -> None:
    """What getting ready takes, at ``path``; beside it, with ``_grid`` behind the name, how a launch grows."""
    compiled, grid = (warp_growth.compile_lines(result["compile"]["rows"]), warp_growth.grid_lines(result["grid"]["rows"]))
    draw(path, "Getting a program ready (new process)", "statements", "processor seconds", compiled)
    draw(path.with_stem(f"{path.stem}_grid"), "saxpy, blocks of 256 threads, the host's work included", "blocks", "ms", grid)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.bench_warp", description="How fast the warp executor is.")
    parser.add_argument("--quick", action="store_true", help="less work and fewer repeats")
    add_options(parser)
    options = parser.parse_args()
    result = run(options.quick)
    print(f"== warp ({cpu()})")
    print("\n".join(lines_of(result)))
    record(RECORD, result, options)
    if options.record:
        picture(result, options.to / f"{RECORD}.png")


if __name__ == "__main__":
    main()
