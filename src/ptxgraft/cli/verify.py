"""``ptxgraft verify``: original against graft on a recorded launch."""

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
    ProfileName,
    Timeout,
    pick_launch,
    show,
    working,
)
from ptxgraft.cli.diff import Tolerance, Values
from ptxgraft.cli.grafts import StyleName, open_graft
from ptxgraft.cli.modules import about
from ptxgraft.cli.verify_many import ALL, JobCount, ResultsPath, ResumeFlag, WorkersAddress, make_plan, verify_many, workers_of
from ptxgraft.report import plain, verdict_view
from ptxgraft.text import Document
from ptxgraft.verify import Options
from ptxgraft.verify import verify as verify_launch

GraftFile = Annotated[
    Path,
    typer.Option(
        "-g", "--graft", help="The module with the graft in it, or a folder with a grafts.json, as `cut` writes it.", show_default=False
    ),
]
GraftFiles = Annotated[
    list[Path],
    typer.Option(
        "-g",
        "--graft",
        help="The module with the graft in it, or a folder with a grafts.json, as `cut` writes it. May be repeated.",
        show_default=False,
    ),
]
LaunchNames = Annotated[
    list[str] | None,
    typer.Option(
        "-l",
        "--launch",
        help="The launch: its sequence number or its kernel's name; all: every launch that a graft is for. May be repeated.",
        show_default=False,
    ),
]
OriginalFile = Annotated[
    Path | None, typer.Option("--original", help="The original module; default: the one in the capture.", show_default=False)
]


def verify(
    cap: CapturePath,
    graft: GraftFiles,
    launch: LaunchNames = None,
    original: OriginalFile = None,
    style: StyleName = None,
    against: Annotated[
        str,
        typer.Option(
            "--against",
            help="Compare with the original run on the same executor (original) or on that one (cpu, cuda), or with the capture's state (recorded).",
        ),
    ] = "original",
    tolerance: Tolerance = None,
    values: Values = "f32",
    poison: Annotated[
        bool,
        typer.Option(
            help="Fill outputs that the original never reads with a pattern before both runs, so that a byte left unwritten shows."
        ),
    ] = True,
    on: ExecutorName = "cpu",
    timeout: Timeout = None,
    assembler: AssemblerName = "driver",
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    jobs: JobCount = None,
    workers: WorkersAddress = None,
    results: ResultsPath = None,
    resume: ResumeFlag = False,
    json: JsonFlag = False,
) -> None:
    """Run the original and the graft on a recorded launch and compare every byte that they leave. The first difference is explained: element, block,
    warp, lane, the store's PTX line, and the phase it descends from; of a GPU's difference, a run on the CPU tells.

    Several launches and grafts are jobs of their own, on the cores here or on a Dask cluster (--workers); results come as they are done, and with --results
    stay when the work is stopped.

    Exit code 0 same, 1 differs (of several: any), 2 not comparable.

    Example: ptxgraft verify demo-out/frame.ptxcap --launch enc4 --graft demo-out/enc4-inline.ptx
    """
    options = Options(engine, profile, tolerance, values, against, poison=poison, on=on, timeout=timeout, assembler=assembler)
    opened, names = capture.open_capture(cap), launch or []
    if len(names) > 1 or len(graft) > 1 or ALL in names or jobs or workers or results or resume:
        plan = make_plan(cap, opened, names or [ALL], graft, original, style, options)
        code = verify_many(plan, lambda: workers_of(jobs, workers), results, resume, json)
        if code:
            raise typer.Exit(code)
        return
    recorded = pick_launch(opened, names[0] if names else None)
    given = Document.read(original) if original is not None else None
    modules = open_graft(graft[0], recorded, given, style), given
    with about(cap), working(f"verifying {recorded.label}"):
        verdict = verify_launch(recorded, *modules, options)
    judged = {
        "capture": cap,
        "launch": recorded.seq,
        "kernel": recorded.kernel,
        "graft": graft[0],
        "original": original,
        "against": against,
    }
    show(verdict_view(verdict), {**judged, "on": on, "engine": engine, "profile": profile, **plain(verdict)}, json)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)
