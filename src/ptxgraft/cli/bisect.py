"""``ptxgraft bisect``: the first stage at which original and graft differ."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptxgraft import capture
from ptxgraft.cli.console import (
    AssemblerName,
    CapturePath,
    EngineName,
    ExecutorName,
    JsonFlag,
    LaunchName,
    ProfileName,
    Timeout,
    pick_launch,
    show,
    working,
)
from ptxgraft.cli.grafts import StyleName, open_graft
from ptxgraft.cli.modules import about
from ptxgraft.cli.verify import GraftFile, OriginalFile
from ptxgraft.cli.verify_many import JobCount, WorkersAddress, workers_of
from ptxgraft.report import bisection_view, plain
from ptxgraft.text import Document
from ptxgraft.verify import Options
from ptxgraft.verify import bisect as bisect_launch
from ptxgraft.verify.bisect_jobs import bisect_on


def bisect(
    cap: CapturePath,
    graft: GraftFile,
    launch: LaunchName = None,
    original: OriginalFile = None,
    style: StyleName = None,
    stages: Annotated[str | None, typer.Option("--stages", help="Only these stages, e.g. a,p0,p7,out.", show_default=False)] = None,
    statements: Annotated[
        bool, typer.Option("--statements/--no-statements", help="Inside the first stage that differs, find the first statement.")
    ] = True,
    on: ExecutorName = "cpu",
    against: Annotated[
        str | None,
        typer.Option("--against", help="Run the original on this executor (cpu, cuda); default: where the graft runs.", show_default=False),
    ] = None,
    timeout: Timeout = None,
    assembler: AssemblerName = "driver",
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    jobs: JobCount = None,
    workers: WorkersAddress = None,
    json: JsonFlag = False,
) -> None:
    """Probe original and graft at every stage (a, p0, p1, ..., out), run both on a recorded launch, and name the first stage, register, block, warp
    and lane that differ; then the first statement in it whose result differs. An entry without stages is searched by statements alone. With --on and --against
    the two run on different executors: the same module on both finds where a GPU and the CPU part. With --jobs or --workers groups of stages are compared side by side.

    Exit code 0 when neither a stage nor an output differs, else 1.

    Example: ptxgraft bisect demo-out/frame.ptxcap --launch enc4 --graft demo-out/enc4-wrong.ptx
    """
    recorded = pick_launch(capture.open_capture(cap), launch)
    given = Document.read(original) if original is not None else None
    modules = open_graft(graft, recorded, given, style), given
    wanted = [s.strip() for s in stages.split(",")] if stages is not None else None
    with about(cap), working(f"bisecting {recorded.label}"):
        where = {"on": on, "against": against, "timeout": timeout, "assembler": assembler, "engine": engine, "profile": profile}
        if jobs or workers:
            options = Options(engine, profile, against=against or "original", on=on, timeout=timeout, assembler=assembler)
            paths = cap, Path(modules[0].name), original, options
            found = bisect_on(workers_of(jobs, workers), recorded, *paths, stages=wanted, statements=statements)
        else:
            found = bisect_launch(recorded, *modules, stages=wanted, statements=statements, **where)
    judged = {"capture": cap, "launch": recorded.seq, "kernel": recorded.kernel, "graft": graft, "original": original}
    show(bisection_view(found), {**judged, "on": on, "against": against or on, "engine": engine, "profile": profile, **plain(found)}, json)
    if found.exit_code:
        raise typer.Exit(found.exit_code)
