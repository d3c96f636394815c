"""How long modules take on one recorded launch, side by side.

Invariant: every timed run starts from the launch's inputs; the modules take turns, so that what drifts drifts for all; the first runs are not counted, and
what they leave is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from ptxgraft import capture
from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.run import EXECUTORS, cuda, execute, launch_from_capture
from ptxgraft.run.execution import check_choice
from ptxgraft.text import Document
from ptxgraft.verify.compare import compare
from ptxgraft.verify.model import SAME, Verdict
from ptxgraft.verify.replay import ASSEMBLERS, Output, gpu_module, outputs_left, replay

MICROSECONDS = 1e6


@dataclass(slots=True)
class Timing:
    """One module's times, in microseconds, in the order of the runs. ``over_first`` is the median of the ratios to the first module's run of the same turn.
    ``outputs`` is what it left, against the first module's (None for that one, and where a launch leaves nothing)."""

    name: str
    samples_us: list[float]
    over_first: float = 1.0
    outputs: Verdict | None = None

    @property
    def median_us(self) -> float:
        return float(np.median(self.samples_us))

    @property
    def quartiles_us(self) -> tuple[float, float]:
        """A quarter of the runs took less than the first, a quarter more than the second."""
        low, high = np.percentile(self.samples_us, [25, 75])
        return float(low), float(high)

    @property
    def fastest_us(self) -> float:
        return min(self.samples_us)

    @property
    def slowest_us(self) -> float:
        return max(self.samples_us)


@dataclass(slots=True)
class Benchmark:
    """``where`` is what ran: a GPU, or an engine of the CPU with its profile. ``flushed``: the L2 cache was emptied before each run."""

    where: str
    repeats: int
    warmups: int
    flushed: bool
    timings: list[Timing]
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when all modules leave the same bytes, else 1."""
        return int(any(t.outputs is not None and t.outputs.verdict != SAME for t in self.timings))


def bench(
    recorded: capture.Launch,
    modules: Sequence[tuple[str, Document | None]],
    *,
    on: str = "cpu",
    repeats: int = 20,
    warmups: int = 3,
    flush_l2: bool | None = None,
    engine: str = "warp",
    profile: str = "sm_90",
    timeout: float | None = None,
    assembler: str = "driver",
    progress: Callable[[str], None] | None = None,
) -> Benchmark:
    """Time ``modules`` (name, module; None: the one in the capture) on a recorded launch, in turns A B A B.

    On ``cuda`` a time is what lies between two events around the kernel, with the host's own time left out; on ``cpu`` it is the CPU clock's.
    ``flush_l2`` (a GPU only; None: yes) empties the L2 cache before each run. ``progress(name)`` is called after each run. Raises ``UsageError`` for no
    module or counts below 1 and 1, and what ``replay`` raises.
    """
    check_choice("executor", on, EXECUTORS)
    check_choice("assembler", assembler, ASSEMBLERS)
    if not modules:
        raise UsageError("nothing to time", hint="name at least one module")
    if repeats < 1 or warmups < 1:
        raise UsageError(f"{repeats} runs after {warmups} to warm up", hint="at least one of each: the first run is never counted")
    if flush_l2 and on == "cpu":
        raise UnsupportedError("the L2 cache can be emptied on a GPU only", hint="on='cuda', or leave it out")
    told = progress or (lambda name: None)
    if on == "cpu":
        found = _on_cpu(recorded, modules, repeats, warmups, engine, profile, told)
    else:
        limit = cuda.DEFAULT_TIMEOUT if timeout is None else timeout
        found = _on_gpu(recorded, modules, repeats, warmups, flush_l2 is not False, assembler, limit, told)
    benchmark, left = found
    first = benchmark.timings[0]
    for timing, outputs in zip(benchmark.timings[1:], left[1:], strict=True):
        timing.over_first = float(np.median(np.array(timing.samples_us) / np.array(first.samples_us)))
        if any(o.data.size for o in outputs):
            timing.outputs = compare(left[0], outputs)
    return benchmark


Found = tuple[Benchmark, list[list[Output]]]


def _on_cpu(
    recorded: capture.Launch,
    modules: Sequence[tuple[str, Document | None]],
    repeats: int,
    warmups: int,
    engine: str,
    profile: str,
    told: Callable[[str], None],
) -> Found:
    timings = [Timing(name, []) for name, _ in modules]
    left: list[list[Output]] = []
    programs = []
    notes: list[str] = []
    for name, document in modules:
        ran = replay(recorded, document, engine=engine, profile=profile)
        assert ran.program is not None, "what runs on the CPU has a program"
        left.append(ran.outputs)
        programs.append(ran.program)
        notes += [n for n in ran.notes if n not in notes]
        told(name)
    for turn in range(1, warmups + repeats):
        for timing, program in zip(timings, programs, strict=True):
            result = execute(launch_from_capture(program, recorded), engine=engine, profile=profile)
            if turn >= warmups:
                timing.samples_us.append(result.seconds * MICROSECONDS)
            told(timing.name)
    return Benchmark(f"cpu, {engine} ({profile})", repeats, warmups, False, timings, notes), left


def _on_gpu(
    recorded: capture.Launch,
    modules: Sequence[tuple[str, Document | None]],
    repeats: int,
    warmups: int,
    flush: bool,
    assembler: str,
    timeout: float,
    told: Callable[[str], None],
) -> Found:
    timings = [Timing(name, []) for name, _ in modules]
    left: list[list[Output]] = []
    loaded = [gpu_module(recorded, document, recorded.kernel, assembler) for _, document in modules]
    notes = [n for m in loaded for n in m.notes]
    work = cuda.work_from_capture(recorded, loaded[0].program, notes)
    for module in loaded[1:]:  # what one of them needs all get, so that it makes no difference
        work.cooperative |= module.program is not None and cuda.asks_for_workspace(module.program)
        work.stack_bytes = max(work.stack_bytes, cuda.stack_for(module.program))
    with cuda.borrow() as worker:
        card, _ = worker.ask("card")
        moves, _ = worker.ask("open", work, True)
        for turn in range(warmups + repeats):
            for timing, module in zip(timings, loaded, strict=True):
                # Not gated at first: the driver may load code then, and waits for the GPU to do it.
                seconds, _ = worker.ask("repeat", module.code, flush, turn > 0, timeout=timeout)
                if turn == 0:
                    left.append(outputs_left(recorded, work, worker.ask("fetch", module.code)[0]))
                if turn >= warmups:
                    timing.samples_us.append(seconds * MICROSECONDS)
                told(timing.name)
        worker.ask("close")
    return Benchmark(str(card), repeats, warmups, flush, timings, [*notes, *moves]), left
