"""A bisection whose stages are compared by jobs, side by side.

Invariant: the answer is that of ``bisect`` in one go: groups of stages follow program order, and the first group in which one differs has the first stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ptxgraft import capture
from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.text import Document
from ptxgraft.verify.bisect import bisect, common_stages
from ptxgraft.verify.jobs import Job, Lost, Result, make_job, run_jobs
from ptxgraft.verify.model import Bisection, Verdict
from ptxgraft.verify.verifying import Options
from ptxgraft.verify.workers import Workers

GROUPS_EACH = 2
"""Groups of stages for each worker: a worker that is done early takes another, and one that finds a difference spares those behind it."""


def bisect_on(
    workers: Workers,
    recorded: capture.Launch,
    path: Path,
    graft: Path,
    original: Path | None = None,
    options: Options | None = None,
    *,
    stages: Sequence[str] | None = None,
    statements: bool = True,
) -> Bisection:
    """``bisect`` with the stages dealt out to ``workers``; ``path`` is the capture's. Statements are searched here. Raises as ``bisect`` does, and
    ``DeviceError`` when a group that the answer needs was lost with its workers."""
    options = options or Options()
    against = None if options.against == "original" else options.against
    where = {"on": options.on, "against": against, "timeout": options.timeout, "assembler": options.assembler}
    where |= {"engine": options.engine, "profile": options.profile}
    modules = Document.read(graft), None if original is None else Document.read(original)
    names, skipped = common_stages(recorded, *modules)
    wanted = names if stages is None else [n for n in names if n in stages]
    if len(wanted) < 2 or (stages is not None and not set(stages) <= set(names)):  # nothing to deal out, or something to refuse
        return bisect(recorded, *modules, stages=stages, statements=statements, **where)
    jobs = [make_job(recorded, path, graft, original, options, group) for group in _groups(wanted, workers.slots * GROUPS_EACH)]
    found = _merged([job.stages for job in jobs], _needed(jobs, workers), skipped if stages is None else {})
    if statements and found.exit_code:
        last = [found.checked[-1 if found.stage is None else -2]] if len(found.checked) > (found.stage is not None) else []
        here = [] if found.stage is None else [found.stage]
        inside = bisect(recorded, *modules, stages=[*last, *here], **where)
        found.statement, found.statements_compared = inside.statement, inside.statements_compared
    return found


def _groups(stages: Sequence[str], count: int) -> list[Sequence[str]]:
    """At most ``count`` neighbourly groups of nearly the same size."""
    count = min(count, len(stages))
    return [stages[len(stages) * n // count : len(stages) * (n + 1) // count] for n in range(count)]


def _needed(jobs: list[Job], workers: Workers) -> list[Result]:
    """The results of the groups up to the first in which a stage differs; what comes behind it is not waited for."""
    results: dict[int, Result] = {}
    end = len(jobs)
    for number, result in run_jobs(jobs, workers):
        results[number] = result
        if isinstance(result, Bisection) and result.stage is not None:
            end = min(end, number + 1)
        if all(n in results for n in range(end)):
            break
    return [results[n] for n in range(end)]


def _merged(groups: Sequence[Sequence[str]], results: Sequence[Result], skipped: dict[str, str]) -> Bisection:
    """The groups' results as one; ``skipped`` are the stages that no group has."""
    whole: Bisection | None = None
    checked: list[str] = []
    for group, result in zip(groups, results, strict=False):
        if isinstance(result, Lost):
            raise DeviceError(f"stages {group[0]} to {group[-1]}: {result.why}", hint="bisect with fewer workers, or fewer --stages")
        if isinstance(result, Verdict):  # none of the group can be compared
            skipped = skipped | dict.fromkeys(group, result.why)
            continue
        checked += result.checked
        skipped = skipped | result.skipped
        if whole is None or result.stage is not None:
            result.outputs = result.outputs if whole is None else whole.outputs
            whole = result
    if whole is None:
        raise UsageError("nothing to compare: no stage that both modules have can be read", hint="; ".join(dict.fromkeys(skipped.values())))
    whole.checked, whole.skipped = checked, skipped
    return whole
