"""Original against graft on a recorded launch: one job, or a list of them on an executor.

Invariant: a job is plain data and depends on no other; its verdict is the same wherever it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor, as_completed
from dataclasses import dataclass, field

from ptxgraft import capture
from ptxgraft.errors import PtxgraftError
from ptxgraft.text import Document
from ptxgraft.verify.compare import compare
from ptxgraft.verify.explain import explain
from ptxgraft.verify.model import Verdict
from ptxgraft.verify.replay import document_of, recorded_outputs, replay


@dataclass(frozen=True, slots=True)
class Options:
    """How to run and judge. ``against`` is what the judged run is compared with: ``original`` (run now, here) or ``recorded`` (the capture's state)."""

    engine: str = "warp"
    profile: str = "sm_90"
    tolerance: float | None = None
    against: str = "original"
    explain: bool = True
    outputs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """One verification: a capture's path and a launch's number, the texts of both modules (``original`` None: the capture's own)."""

    capture: str
    seq: int
    graft: bytes
    original: bytes | None = None
    options: Options = field(default_factory=Options)


def verify(recorded: capture.Launch, graft: Document, original: Document | None = None, options: Options | None = None) -> Verdict:
    """Run ``graft`` on a recorded launch and judge what it leaves, against the original run here or against the capture.

    The module in the capture is taken when ``original`` is None. Raises ``UsageError`` when there is nothing to compare.
    """
    options = options or Options()
    engine, profile = options.engine, options.profile
    original = original if original is not None or options.against == "recorded" else document_of(recorded)
    if options.against == "recorded":
        expected = recorded_outputs(recorded)
    else:
        expected = replay(recorded, original, engine=engine, profile=profile).outputs
    judged = replay(recorded, graft, engine=engine, profile=profile)
    names = options.outputs or (tuple(o.name for o in expected) if options.against == "recorded" else ())
    verdict = compare(expected, judged.outputs, tolerance=options.tolerance, names=names)
    if verdict.first is not None and options.explain:
        verdict.first = explain(verdict.first, recorded, original or graft, graft, judged.outputs, engine=engine, profile=profile)
    return verdict


def run_job(job: Job) -> Verdict:
    """One job from start to end; what goes wrong with its input is its verdict, 'not comparable'."""
    try:
        recorded = capture.open_capture(job.capture).launch(job.seq)
        original = None if job.original is None else Document.parse(job.original, "original")
        return verify(recorded, Document.parse(job.graft, "graft"), original, job.options)
    except PtxgraftError as error:
        return Verdict("not comparable", 0, 0, why=str(error))


def verify_jobs(
    jobs: Sequence[Job], executor: Executor | None = None, progress: Callable[[int, Verdict], None] | None = None
) -> list[Verdict]:
    """All jobs, on ``executor`` (None: one after another here), in the order given; ``progress(position, verdict)`` is called as each is done."""
    verdicts: list[Verdict | None] = [None] * len(jobs)

    def done(position: int, verdict: Verdict) -> None:
        verdicts[position] = verdict
        if progress is not None:
            progress(position, verdict)

    if executor is None:
        for position, job in enumerate(jobs):
            done(position, run_job(job))
    else:
        waiting = {executor.submit(run_job, job): position for position, job in enumerate(jobs)}
        for future in as_completed(waiting):
            done(waiting[future], future.result())
    return [v for v in verdicts if v is not None]
