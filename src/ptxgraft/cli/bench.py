"""``ptxgraft bench``: how long modules take on a recorded launch."""

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
    note,
    pick_launch,
    progress,
    show,
)
from ptxgraft.cli.modules import about
from ptxgraft.report import bench_view
from ptxgraft.text import Document
from ptxgraft.verify import Benchmark
from ptxgraft.verify import bench as bench_modules

OWN = "capture"
"""What the capture's own module is called."""


def bench(
    cap: CapturePath,
    ptx: Annotated[
        list[Path] | None, typer.Option("--ptx", help="A module to time; give several to compare them.", show_default=False)
    ] = None,
    launch: LaunchName = None,
    on: ExecutorName = "cpu",
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="Timed runs of each module.")] = 20,
    warmup: Annotated[int, typer.Option("--warmup", min=1, help="Runs of each module before them, which are not counted.")] = 3,
    flush_l2: Annotated[
        bool | None,
        typer.Option("--flush-l2/--no-flush-l2", help="Empty a GPU's L2 cache before each run; it is by default.", show_default=False),
    ] = None,
    timeout: Timeout = None,
    assembler: AssemblerName = "driver",
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Time modules on a recorded launch, in turns, and compare what they leave. Inputs are put back before each run. Without --ptx the capture's own module
    is timed.

    On a GPU a time is what lies between two events around the kernel. Exit code 1 when the modules leave different bytes.

    Example: ptxgraft bench demo-out/frame.ptxcap --launch enc4 --ptx demo-out/enc4.ptx --ptx demo-out/enc4-inline.ptx
    """
    recorded = pick_launch(capture.open_capture(cap), launch)
    modules: list[tuple[str, Document | None]] = [(str(path), Document.read(path)) for path in ptx or []] or [(OWN, None)]
    with about(cap), progress("timing", (repeats + warmup) * len(modules), quiet=json) as advance:
        timed = bench_modules(
            recorded, modules, on=on, repeats=repeats, warmups=warmup, flush_l2=flush_l2, engine=engine, profile=profile, timeout=timeout,
            assembler=assembler, progress=advance,
        )  # fmt: skip
    for text in timed.notes:
        note(f"note: {text}")
    show(bench_view(timed), {"capture": cap, "launch": recorded.seq, "kernel": recorded.kernel, "on": on, **_document(timed)}, json)
    if timed.exit_code:
        raise typer.Exit(timed.exit_code)


def _document(timed: Benchmark) -> dict:
    rows = [
        {
            "name": t.name,
            "median_us": t.median_us,
            "quartiles_us": t.quartiles_us,
            "fastest_us": t.fastest_us,
            "slowest_us": t.slowest_us,
            "over_first": t.over_first,
            "samples_us": t.samples_us,
            "outputs": t.outputs,
        }
        for t in timed.timings
    ]
    return {"where": timed.where, "repeats": timed.repeats, "warmups": timed.warmups, "flushed": timed.flushed, "modules": rows}
