"""A verification of many launches and grafts as a list of independent jobs.

Invariant: a job is plain data, names its inputs by path and hash, and depends on no other; its result is the same wherever it runs, and every job
comes to a result exactly once, whatever becomes of the workers.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from dataclasses import dataclass, field
from pathlib import Path

from ptxgraft import capture
from ptxgraft.capture.identity import identity
from ptxgraft.errors import DeviceError, PtxgraftError, SourceError
from ptxgraft.text import Document
from ptxgraft.verify.bisect import bisect
from ptxgraft.verify.model import NOT_COMPARABLE, Bisection, Verdict
from ptxgraft.verify.verifying import Options, verify
from ptxgraft.verify.workers import Workers


@dataclass(frozen=True, slots=True)
class Job:
    """One verification, or (``stages``) the comparison of some stages. ``original`` None: the capture's own module.

    Whoever runs it opens ``capture``, ``graft`` and ``original`` by their paths and refuses inputs that no longer have the hashes named here;
    ``launch_sha256`` is ``capture.identity`` of the launch.
    """

    capture: str
    launch: int
    kernel: str
    launch_sha256: str
    graft: str
    graft_sha256: str
    original: str | None = None
    original_sha256: str | None = None
    options: Options = field(default_factory=Options)
    stages: tuple[str, ...] = ()

    def __str__(self) -> str:
        stages = f", stages {self.stages[0]} to {self.stages[-1]}" if self.stages else ""
        return f"launch {self.launch} ({self.kernel}), {Path(self.graft).name}{stages}"


@dataclass(frozen=True, slots=True)
class Lost:
    """A job without a result: its worker ended while it ran, and so did the one that it was given to next."""

    why: str


Result = Verdict | Bisection | Lost


def make_job(
    recorded: capture.Launch,
    path: str | Path,
    graft: str | Path,
    original: str | Path | None = None,
    options: Options | None = None,
    stages: Sequence[str] = (),
) -> Job:
    """A job with the hashes of its inputs as they are now; ``path`` is the capture's. Paths are made absolute: workers may stand in other folders."""
    first = None if original is None else str(Path(original).absolute())
    return Job(
        str(Path(path).absolute()), recorded.seq, recorded.kernel, identity(recorded), str(Path(graft).absolute()), _sha256(graft),
        first, None if first is None else _sha256(first), options or Options(), tuple(stages),
    )  # fmt: skip


def run_job(job: Job) -> Verdict | Bisection:
    """One job from start to end, in the process that calls; what is wrong with its input is its verdict, ``not comparable``."""
    try:
        recorded = capture.open_capture(job.capture).launch(job.launch)
        _check(f"{job.capture}: {recorded.label}", identity(recorded), job.launch_sha256)
        graft = _module(job.graft, job.graft_sha256)
        original = None if job.original is None else _module(job.original, job.original_sha256)
        if not job.stages:
            return verify(recorded, graft, original, job.options)
        o = job.options
        against = None if o.against == "original" else o.against
        where = {"on": o.on, "against": against, "timeout": o.timeout, "assembler": o.assembler, "engine": o.engine, "profile": o.profile}
        return bisect(recorded, graft, original, stages=job.stages, statements=False, **where)
    except PtxgraftError as error:
        return Verdict(NOT_COMPARABLE, 0, 0, why=str(error))


def run_jobs(jobs: Sequence[Job], workers: Workers) -> Iterator[tuple[int, Result]]:
    """(position, result) of every job, as they finish.

    Jobs of a worker that ends are given to others. As the others of a broken pool are gone too, each of them is then run alone, so that the one
    that ends its worker is found: the second time it is ``Lost``. Leaving the iterator, by an interrupt say, ends the workers.
    """
    waiting, suspects, endings = deque(range(len(jobs))), deque[int](), Counter[int]()
    running: dict[Future[Verdict | Bisection], int] = {}
    executor: Executor | None = None
    try:
        while waiting or suspects or running:
            executor = executor or workers.start()
            source, room = (suspects, 1) if suspects else (waiting, workers.slots)
            broken = not _submit(jobs, executor, source, running, room, workers)
            lost: list[int] = []
            for future in wait(running, return_when=FIRST_COMPLETED).done if running else ():
                number = running.pop(future)
                try:
                    yield number, future.result()
                except workers.lost:
                    lost.append(number)
                except CancelledError:
                    raise DeviceError(
                        f"{workers} dropped {jobs[number]}", hint="see whether it still runs, then go on with --resume"
                    ) from None
            if not (lost or broken):
                continue
            if workers.breaks:
                lost += running.values()
                running.clear()
                workers.stop(executor)
                executor = None
            for number in lost:
                endings[number] += 1
                if endings[number] < workers.chances:
                    suspects.append(number)
                else:
                    times = "twice" if workers.breaks else "several times"
                    yield number, Lost(f"the worker that ran it ended, {times}: out of memory, or killed")
    finally:
        if executor is not None:
            workers.stop(executor)


def _submit(
    jobs: Sequence[Job],
    executor: Executor,
    source: deque[int],
    running: dict[Future[Verdict | Bisection], int],
    room: int,
    workers: Workers,
) -> bool:
    """Fill the workers from ``source``; False when they turn out to be gone."""
    while source and len(running) < room:
        number = source.popleft()
        try:
            running[executor.submit(run_job, jobs[number])] = number
        except workers.lost:
            source.appendleft(number)
            return False
    return True


def _module(path: str, expected: str | None) -> Document:
    document = Document.read(Path(path))
    _check(path, hashlib.sha256(document.data).hexdigest(), expected)
    return document


def _sha256(path: str | Path) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        raise SourceError(f"{path}: cannot read the module: {error.strerror or error}") from None


def _check(what: str, found: str, expected: str | None) -> None:
    if found != expected:
        raise SourceError(f"{what} is not what the job was made for: its hash is {found[:16]}..., not {(expected or '')[:16]}...")
