"""``verify`` over many launches and grafts: jobs on processes or on a cluster.

Invariant: every pair of a chosen launch and a graft for its kernel has one line; what no graft is for is said; what is done is kept when the work is stopped.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.console import note, show, whole_number
from ptxgraft.cli.grafts import module_bytes
from ptxgraft.errors import PtxgraftError, UsageError
from ptxgraft.graft.manifest import bindings_for, bound_graft, is_manifest, read_manifest
from ptxgraft.report import VERDICT_STYLES, Ended, ResultsFile, check_results, ended, settled
from ptxgraft.text import Document
from ptxgraft.verify import NOT_COMPARABLE, Cluster, Job, Options, Processes, make_job, run_jobs
from ptxgraft.verify.workers import Workers

ALL = "all"

JobCount = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Processes that work at a time; default: one a core.", show_default=False)
]
WorkersAddress = Annotated[
    str | None,
    typer.Option(
        "--workers",
        help="tcp://HOST:PORT of a Dask scheduler whose workers do the jobs (extra `dask`). They open capture and modules by the same paths.",
        show_default=False,
    ),
]
ResultsPath = Annotated[
    Path | None, typer.Option("--results", help="Append each result to this file, a line of JSON each, as it comes.", show_default=False)
]
ResumeFlag = Annotated[
    bool, typer.Option("--resume", help="Go on with the --results file: what is in it is not done again. Changed inputs are refused.")
]


@dataclass(slots=True)
class Plan:
    """The jobs; pairs that cannot become one, with the reason; and the launches that no graft is for, by kernel."""

    jobs: list[Job] = field(default_factory=list)
    refused: list[Ended] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


def workers_of(count: int | None, address: str | None) -> Workers:
    """Where the jobs run."""
    if address is None:
        return Processes(count or os.cpu_count() or 1)
    if count is not None:
        raise UsageError("--jobs and --workers do not go together", hint="a cluster has as many workers as it has")
    note(f"note: the workers of {address} open the capture and the modules by the same paths as here")
    return Cluster(address)


def chosen_launches(opened: capture.Capture, names: Sequence[str]) -> list[capture.Launch]:
    """Launches by number, by kernel's name (all of it), or all; each once, in sequence order."""
    found: dict[int, capture.Launch] = {}
    for name in names:
        number = whole_number(name)
        if name == ALL:
            found |= {x.seq: x for x in opened.launches}
        elif number is not None:
            found[number] = opened.launch(number)
        else:
            same = [x for x in opened.launches if x.kernel == name] or [opened.launch(name)]
            found |= {x.seq: x for x in same}
    if not found:
        raise opened.problems[0] if opened.problems else UsageError(f"{opened.path} holds no launch")
    return [found[seq] for seq in sorted(found)]


def make_plan(
    cap: Path,
    opened: capture.Capture,
    names: Sequence[str],
    grafts: Sequence[Path],
    original: Path | None,
    style: str | None,
    options: Options,
) -> Plan:
    """Every chosen launch with every graft for its kernel. ``UsageError`` when there is no pair at all."""
    plan = Plan()
    given = Document.read(original) if original is not None else None
    sources = [_Source(path, style) for path in dict.fromkeys(grafts)]
    for recorded in chosen_launches(opened, names):
        before = len(plan.jobs) + len(plan.refused)
        for source in sources:
            if recorded.kernel not in source.kernels:
                continue
            try:
                made = [make_job(recorded, cap, path, original, options) for path in source.files(recorded, given)]
            except PtxgraftError as error:
                plan.refused.append(_refusal(recorded.seq, recorded.kernel, cap, source.path, str(error)))
            else:
                plan.jobs += [job for job in made if job not in plan.jobs]
        if len(plan.jobs) + len(plan.refused) == before:
            plan.left_out[recorded.kernel] += 1
    if ALL in names:
        plan.refused += [_refusal(b.seq, b.kernel, cap, None, str(b.error)) for b in opened.bad]
    if not plan.jobs and not plan.refused:
        known = ", ".join(sorted(set().union(*(s.kernels for s in sources)))) or "nothing"
        raise UsageError(f"{cap}: no graft is for the kernel of any launch named", hint=f"the grafts are for {known}")
    return plan


class _Source:
    """A graft's file, which is for every entry that it defines, or a folder of grafts with their manifest."""

    def __init__(self, path: Path, style: str | None) -> None:
        self.path, self.style = path, style
        if is_manifest(path):
            self.kernels = {b.kernel for b in read_manifest(path) if style in (None, b.style)}
        else:
            self.kernels = {e.name for e in Document.read(path).entries}

    def files(self, recorded: capture.Launch, original: Document | None) -> list[Path]:
        """The modules for a launch, checked."""
        if not is_manifest(self.path):
            return [self.path]
        bindings = bindings_for(self.path, recorded.kernel, module_bytes(recorded, original, self.path), self.style)
        for binding in bindings:
            bound_graft(self.path, binding)
        folder = self.path if self.path.is_dir() else self.path.parent
        return [folder / b.file for b in bindings]


def _refusal(seq: int, kernel: str, cap: Path, graft: Path | None, why: str) -> Ended:
    job = {"capture": str(cap), "launch": seq, "kernel": kernel, "graft": None if graft is None else str(graft)}
    return Ended(job, NOT_COMPARABLE, f"{NOT_COMPARABLE}: {why}", {"verdict": NOT_COMPARABLE, "why": why})


def verify_many(plan: Plan, workers: Callable[[], Workers], results: Path | None, resume: bool, json: bool) -> int:
    """Run a plan to its end on the ``workers`` that are made when there is something to do, print a line for each result as it comes and a summary; gives the exit code.

    1 when anything differs, else 2 when anything could not be compared or its workers were lost.
    """
    if resume and results is None:
        raise UsageError("--resume goes on with a file of results", hint="name it with --results")
    if results is not None:
        check_results(results, resume)
    done = settled(results, plan.jobs) if results is not None and results.exists() else {}
    missing = [job for number, job in enumerate(plan.jobs) if number not in done]
    ready = workers() if missing else None  # before the file: workers that cannot be had leave nothing behind
    file = None if results is None else ResultsFile(results)
    if done:
        note(f"{len(done)} of {len(plan.jobs)} jobs are done in {results}")
    for kernel, count in plan.left_out.items():
        note(f"note: {count} launches of {kernel} are left out: no graft is for it")
    everything = [*plan.refused, *done.values()]
    total = len(plan.jobs) + len(plan.refused)
    for number, result in enumerate(everything, 1):
        _line(number, total, result, json)
    try:
        for result in _results(missing, ready) if ready is not None else ():
            if file is not None:
                file.append(result)
            everything.append(result)
            _line(len(everything), total, result, json)
    except KeyboardInterrupt:
        kept = f"; {results} keeps them, --resume goes on" if results is not None else ""
        note(f"{len(everything)} of {total} jobs are done{kept}")
        raise
    finally:
        if file is not None:
            file.close()
    return _summary(everything, json)


def _results(jobs: list[Job], workers: Workers) -> Iterator[Ended]:
    for number, result in run_jobs(jobs, workers):
        yield ended(jobs[number], result)


def _name(job: dict[str, Any]) -> str:
    return f"launch {job['launch']} ({job['kernel']})" + (f", {Path(job['graft']).name}" if job["graft"] else "")


def _line(number: int, total: int, result: Ended, json: bool) -> None:
    """A result's line: on standard output, beside a JSON document on standard error."""
    text = f"{number}/{total} {_name(result.job)}: {result.text}"
    if json:
        note(text)
    else:
        show(Text(text, style=VERDICT_STYLES.get(result.verdict, "yellow")), None, False)


def _summary(everything: list[Ended], json: bool) -> int:
    counts = Counter(result.verdict for result in everything)
    words = ", ".join(
        f"{counts[word]} {word}" for word in ("same", "differs", NOT_COMPARABLE, "failed") if counts[word] or word in ("same", "differs")
    )
    code = 1 if counts["differs"] else 0 if counts["same"] == len(everything) else 2
    ordered = sorted(everything, key=lambda r: (r.job["launch"], str(r.job["graft"])))
    rows = [{"job": r.job, "verdict": r.verdict, "text": r.text, "result": r.result} for r in ordered]
    verdict = {0: "same", 1: "differs"}.get(code, NOT_COMPARABLE)
    show(Text(f"{len(everything)} jobs: {words}"), {"verdict": verdict, "counts": dict(counts), "jobs": rows}, json)
    return code
