"""A differential fuzzer: random legal instructions, alone and in sequences, on a GPU and on both CPU engines, compared as bits.

Invariant: a kernel follows from (seed, kind, number) alone, so that every difference can be made again anywhere; a block that ptxas refuses is left out
and counted. ``python -m benchmarks.fuzz_device --seconds 300 --record`` runs it; ``--check`` compares the CPU engines and needs no GPU.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import subprocess
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import device, fuzz_control, fuzz_memory, fuzz_programs, fuzz_tensor, recording
from benchmarks.device_examples import PROFILE, find_ptxas
from benchmarks.example_cases import SM
from benchmarks.fuzz_kernels import BLOCK, Kernel, program_of
from benchmarks.fuzz_tally import DIFFERING, NANS, OPTIMISER, Difference, Tally, case_of
from ptxgraft.errors import DeviceError, PtxgraftError
from ptxgraft.run import execute

ENGINES = ("warp", "numpy")


@dataclass(frozen=True, slots=True)
class Kind:
    """A sort of kernel: how to make one, with how many rows, and how many of each round of kernels are of it."""

    make: Callable[[tuple[int, ...], int], Kernel]
    rows: int
    share: int


KINDS = {
    "forms": Kind(fuzz_programs.forms_kernel, 1 << 16, 16),
    "fold": Kind(fuzz_programs.fold_kernel, BLOCK, 1),
    "chains": Kind(fuzz_programs.chains_kernel, 1 << 16, 12),
    "carry": Kind(fuzz_programs.carry_kernel, 1 << 16, 1),
    "control": Kind(fuzz_control.control_kernel, 1 << 14, 3),
    "warp": Kind(fuzz_control.warp_kernel, 1 << 15, 2),
    "memory": Kind(fuzz_memory.memory_kernel, 1 << 14, 3),
    "atomics": Kind(fuzz_memory.atomics_kernel, 1 << 12, 1),
    "matrix": Kind(fuzz_tensor.matrix_kernel, 1 << 14, 1),
    "texture": Kind(fuzz_tensor.texture_kernel, 1 << 15, 2),
    "tensor": Kind(fuzz_tensor.tensor_kernel, 1 << 14, 4),
}
_LINE = re.compile(r", line (\d+); (?:error|fatal) *: *(.*)")
_FAULT = 3
"""Exit status of a worker whose GPU context is spoiled."""


def schedule(kinds: list[str]) -> list[str]:
    """One round: every kind as often as its share says, spread out."""
    slots = [((i + 0.5) / KINDS[k].share, k) for k in kinds for i in range(KINDS[k].share)]
    return [k for _, k in sorted(slots)]


def task(index: int, order: list[str]) -> tuple[str, int]:
    """The kind and the number within it of a run's kernel ``index``."""
    turn, place = divmod(index, len(order))
    kind = order[place]
    return kind, turn * order.count(kind) + order[:place].count(kind)


def make(seed: int, kind: str, number: int, rows: int = 0) -> Kernel:
    """A kernel by its seed, kind and number."""
    return KINDS[kind].make((seed, list(KINDS).index(kind), number), rows or KINDS[kind].rows)


# -- assembling -------------------------------------------------------------------------------------------------------
def assemble(kernel: Kernel, ptxas: str, flags: tuple[str, ...] = ()) -> tuple[Kernel, str, bytes, list[str]]:
    """The kernel without the blocks that ptxas refuses, its text, its cubin (empty when nothing is left), and the messages."""
    refused: list[str] = []
    while kernel.blocks:
        text, owner = kernel.text()
        cubin, log = ptxas_of(text, ptxas, flags)
        if cubin is not None:
            return kernel, text, cubin, refused
        wrong = {owner[int(line) - 1]: message for line, message in reversed(_LINE.findall(log))}
        wrong.pop(-1, None)
        if not wrong:  # a message without a line: each block for itself
            if len(kernel.blocks) == 1:
                return kernel.only([]), "", b"", [*refused, f"{kernel.blocks[0].label}: {log.strip()[:200]}"]
            for number in range(len(kernel.blocks)):
                alone, _, cubin, messages = assemble(kernel.only([number]), ptxas, flags)
                if not alone.blocks:
                    wrong[number] = messages[0]
            if not wrong:
                return kernel.only([]), "", b"", [*refused, f"{kernel.kind}: {log.strip()[:200]}"]
        refused += [f"{kernel.blocks[b].label}: {message}" for b, message in wrong.items()]
        kernel = kernel.only([b for b in range(len(kernel.blocks)) if b not in wrong])
    return kernel, "", b"", refused


def ptxas_of(text: str, ptxas: str, flags: tuple[str, ...] = ()) -> tuple[bytes | None, str]:
    """A cubin, or None, and what ptxas said."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        done = subprocess.run([ptxas, f"-arch=sm_{SM}", *flags, str(source), "-o", str(target)], capture_output=True, text=True)
        return (target.read_bytes() if done.returncode == 0 else None), done.stdout + done.stderr


# -- one kernel -------------------------------------------------------------------------------------------------------
class Fault(Exception):
    """The GPU stopped in a kernel; this process can use it no more."""


@dataclass(slots=True)
class Bench:
    """Runs kernels on the machines asked for and keeps count."""

    ptxas: str
    card: device.Device | None
    tally: Tally
    engines: tuple[str, ...] = ENGINES

    @contextmanager
    def clock(self, kind: str, what: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.tally.spend(kind, what, time.perf_counter() - start)

    def check(self, seed: int, kind: str, number: int, rows: int = 0) -> None:
        """One kernel: make it, run it everywhere, count, keep what differs."""
        with self.clock(kind, "make"):
            kernel = make(seed, kind, number, rows)
        with self.clock(kind, "ptxas"):
            kernel, text, cubin, refused = assemble(kernel, self.ptxas)
        self.tally.refused.update(re.sub(r"'-?\d+'", "N", m) for m in refused)
        if not kernel.blocks:
            return
        try:
            answers = self.answers(kernel, text, cubin)
        except PtxgraftError as error:
            if isinstance(error, DeviceError):
                self._error(kernel, "gpu", error)
                raise Fault from error
            kernel = self._without_errors(kernel)
            if not kernel.blocks:
                return
            kernel, text, cubin, _ = assemble(kernel, self.ptxas)
            answers = self.answers(kernel, text, cubin)
        with self.clock(kind, "compare"):
            found = self.tally.add(kernel, answers)
        for difference in found:
            with self.clock(kind, "cases"):
                self._look_at(kernel, difference, answers)

    def _look_at(self, kernel: Kernel, difference: Difference, answers: dict[str, NDArray[np.uint64]]) -> None:
        """Settle a difference without the optimiser if that settles it; keep it."""
        block = difference.block
        plain: NDArray[np.uint64] | None = None
        if self.card is not None:
            alone, text, cubin, _ = assemble(kernel.only([block]), self.ptxas, ("-O0",))
            if alone.blocks:
                try:
                    plain = self._on_gpu(alone, text, cubin)
                except DeviceError as error:
                    self._error(kernel, "gpu -O0", error)
                    raise Fault from error
        start = sum(b.words for b in kernel.blocks[:block])
        words = slice(start, start + kernel.blocks[block].words)
        settled = plain is not None and all(np.array_equal(plain, answers[engine][words]) for engine in self.engines)
        if settled:
            self.tally.settle(kernel, difference)
        if self.tally.wants(kernel, kernel.blocks[block], f"{difference.unlike} {settled}"):
            parts = {name: values[words] for name, values in answers.items()} | ({} if plain is None else {"gpu_O0": plain})
            made: dict[str, Any] = {**case_of(kernel, block, parts), "unlike": difference.unlike, "settled": settled}
            self.tally.cases.append(made)

    def answers(self, kernel: Kernel, text: str, cubin: bytes) -> dict[str, NDArray[np.uint64]]:
        """What each machine gives."""
        program = program_of(text)
        found: dict[str, NDArray[np.uint64]] = {}
        if self.card is not None:
            with self.clock(kernel.kind, "gpu"):
                found["gpu"] = self._on_gpu(kernel, text, cubin)
        for engine in self.engines:
            with self.clock(kernel.kind, engine):
                launch = kernel.launch(program)
                execute(launch, engine=engine, profile=PROFILE, threads=1)
                found[engine] = kernel.results(launch)
        return found

    def _on_gpu(self, kernel: Kernel, text: str, cubin: bytes) -> NDArray[np.uint64]:
        assert self.card is not None
        launch = kernel.launch(program_of(text))
        device.execute(self.card, launch, cubin)
        self.card.unload(cubin)
        return kernel.results(launch)

    def _without_errors(self, kernel: Kernel) -> Kernel:
        """The blocks that every CPU engine can run; the others are errors to report."""
        good = []
        for number in range(len(kernel.blocks)):
            small = kernel.only([number], slice(0, BLOCK))
            try:
                program = program_of(small.text()[0])
                for engine in self.engines:
                    execute(small.launch(program), engine=engine, profile=PROFILE, threads=1)
                good.append(number)
            except PtxgraftError as error:
                self._error(small, "cpu", error)
        return kernel.only(good if len(good) < len(kernel.blocks) else [])

    def _error(self, kernel: Kernel, where: str, error: Exception) -> None:
        said = f"{type(error).__name__}: {error}"
        self.tally.errors.append({"kind": kernel.kind, "seed": list(kernel.seed), "where": where, "error": said[:1500], "text": kernel.text()[0] if len(kernel.blocks) == 1 else ""})  # fmt: skip


# -- workers ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Plan:
    """What a run does: kernels ``first`` to ``last`` of a seed, as far as the time goes."""

    seed: int
    order: tuple[str, ...]
    first: int
    last: int
    until: float
    rows: int
    check: bool
    engines: tuple[str, ...]
    folder: str


def worker(plan: Plan, next_index: Any, name: str) -> None:
    """Take kernels until there are no more; leave a tally in the folder."""
    os.environ["PTXGRAFT_CACHE_DIR"] = str(Path(plan.folder, f"code-{name.partition('-')[0]}"))
    tally = Tally()
    status = 0
    try:
        if plan.check:
            status = _take(plan, next_index, Bench(find_ptxas(), None, tally, plan.engines))
        else:
            with device.Device() as card:
                status = _take(plan, next_index, Bench(find_ptxas(), card, tally, plan.engines))
    except DeviceError as error:
        tally.errors.append({"where": "gpu", "error": str(error)[:1500]})
    finally:
        Path(plan.folder, f"{name}.json").write_text(json.dumps(tally.plain()))
    if status:
        os._exit(status)


def _take(plan: Plan, next_index: Any, bench: Bench) -> int:
    order = list(plan.order)
    while True:
        with next_index.get_lock():
            index = next_index.value
            next_index.value += 1
        if index >= plan.last or time.time() > plan.until:
            return 0
        kind, number = task(index, order)
        try:
            bench.check(plan.seed, kind, number, plan.rows)
        except Fault:
            return _FAULT
        except Exception:  # the generator's own failure is a result to report, not the end of the run
            said = traceback.format_exc()[-1500:]
            bench.tally.errors.append({"kind": kind, "seed": [plan.seed, number], "where": "fuzzer", "error": said})


def run(plan: Plan, jobs: int) -> tuple[Tally, int]:
    """All workers' tallies, and the number of the first kernel that nobody took."""
    context = multiprocessing.get_context("spawn")
    next_index = context.Value("q", plan.first)
    running: dict[int, Any] = {}
    starts = 0

    def start(number: int) -> None:
        nonlocal starts
        running[number] = context.Process(target=worker, args=(plan, next_index, f"{number}-{starts}"))
        running[number].start()
        starts += 1

    for number in range(jobs):
        start(number)
    while running:
        for number, process in list(running.items()):
            process.join(0.2)
            if not process.is_alive():
                del running[number]
                if process.exitcode == _FAULT and time.time() < plan.until and starts < 10 * jobs:
                    start(number)
    tally = Tally()
    for path in sorted(Path(plan.folder).glob("*.json")):
        tally.merge(json.loads(path.read_text()))
    return tally, min(int(next_index.value), plan.last)


# -- the command ------------------------------------------------------------------------------------------------------
def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare random code on a GPU and on both CPU engines, bit for bit.")
    parser.add_argument("kinds", nargs="*", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="the number of the first kernel")
    parser.add_argument("--count", type=int, default=1 << 40, help="kernels at most")
    parser.add_argument("--seconds", type=float, default=60.0, help="start no kernel after that time")
    parser.add_argument("--rows", type=int, default=0, help=f"threads of a kernel, a multiple of {BLOCK}; by kind when 0")
    parser.add_argument("--engines", default=",".join(ENGINES), help="CPU engines, of warp and numpy")
    parser.add_argument("--check", action="store_true", help="compare the CPU engines with each other, without a GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--cases", type=Path, help="write the differences to this file")
    recording.add_options(parser)
    options = parser.parse_args()
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    order = schedule(options.kinds or list(KINDS))
    started = time.time()
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(
            options.seed, tuple(order), options.first, min(options.first + options.count, 1 << 62), started + options.seconds, options.rows,
            options.check, tuple(options.engines.split(",")), folder,
        )  # fmt: skip
        result: dict[str, Any] = {"profile": PROFILE}
        if not options.check:
            with device.Device() as card:
                result |= recording.card(card)
        tally, end = run(plan, options.jobs)
    result |= {
        "seed": options.seed, "kinds": order, "kernels": [options.first, end], "engines": list(plan.engines), "wall_seconds": round(time.time() - started, 1),
        "results": tally.total(), "differing": tally.total(DIFFERING), "only_optimised": tally.total(OPTIMISER), "nans": tally.total(NANS),
    }  # fmt: skip
    show(tally, result)
    result |= {
        "by_kind": dict(tally.kernels),
        "columns": ["results", "differing", "only optimised", "NaNs"],
        "by_root": tally.by_root(),
        "compared": dict(tally.compared),
        "roundings": dict(sorted(tally.roundings.items())),
    }
    result |= {"refused_by_ptxas": dict(tally.refused), "errors": [replace_text(e) for e in tally.errors], "cases": len(tally.cases)}
    if options.cases:
        options.cases.write_text(json.dumps({"seed": options.seed, "cases": tally.cases, "errors": tally.errors}, indent=1) + "\n")
    recording.record("fuzz_device", result, options)


def replace_text(error: dict[str, Any]) -> dict[str, Any]:
    """An error without its kernel's text."""
    return {k: v for k, v in error.items() if k != "text"}


def show(tally: Tally, result: dict[str, Any]) -> None:
    """Print the report."""
    for kind, roots in tally.compared.items():
        results, differing, optimiser, nans = (sum(row[i] for row in roots.values()) for i in range(4))
        spent = " ".join(f"{what} {seconds:.1f}" for what, seconds in tally.seconds[kind].items())
        print(f"{kind:8} {tally.kernels[kind]:5} kernels {results:14,} results {differing:10,} differ, {optimiser:,} only optimised, {nans:,} NaNs; "
              f"seconds: {spent}")  # fmt: skip
    for case in sorted(tally.cases, key=lambda c: c["settled"])[:40]:
        first = case["shown"][0]
        values = "; ".join(f"{name} {','.join(first[name])}" for name in ("gpu", "gpu_O0", "warp", "numpy") if name in first)
        print(f"{case['kind']} {case['seed']} {case['label']}: {case['differing']:,} of {case['rows']:,} rows, unlike: {case['unlike']}"
              f"{', only optimised' if case['settled'] else ''}")  # fmt: skip
        print(f"    in {','.join(first['inputs'])}: {values}")
    for error in tally.errors[:20]:
        print(f"error: {error.get('kind')} {error.get('seed')} {error['where']}: {error['error'][-400:]}")
    for message, count in tally.refused.most_common(10):
        print(f"refused {count}: {message}")
    print(f"{sum(tally.kernels.values()):,} kernels, {result['results']:,} results, {result['differing']:,} differ, {result['only_optimised']:,} only optimised, {result['nans']:,} NaNs; {len(tally.cases)} cases, "
          f"{len(tally.errors)} errors, {sum(tally.refused.values()):,} blocks refused; {result['wall_seconds']} s")  # fmt: skip


if __name__ == "__main__":
    main()
