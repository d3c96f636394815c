"""``ptxgraft replay``: run a recorded launch again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

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
    check_capture_target,
    note,
    pick_launch,
    printed,
    show,
    working,
)
from ptxgraft.cli.grafts import StyleName, open_graft
from ptxgraft.cli.modules import about
from ptxgraft.errors import KernelFault, UnsupportedError
from ptxgraft.report import verdict_view
from ptxgraft.verify import Replay, Verdict, compare, explain, recorded_outputs, unrecorded
from ptxgraft.verify import replay as replay_launch


def replay(
    cap: CapturePath,
    launch: LaunchName = None,
    ptx: Annotated[
        Path | None,
        typer.Option(
            "--ptx",
            help="Run this module in place of the capture's own; of a folder with a grafts.json the graft for the launch.",
            show_default=False,
        ),
    ] = None,
    style: StyleName = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Write the launch with what came out as a capture of our own form.", show_default=False),
    ] = None,
    step_budget: Annotated[
        int | None,
        typer.Option("--step-budget", min=1, help="Statements one warp may run before the kernel counts as endless.", show_default=False),
    ] = None,
    on: ExecutorName = "cpu",
    timeout: Timeout = None,
    assembler: AssemblerName = "driver",
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Put a launch's memory and images where they were, run its kernel, on the CPU or a GPU, and compare what comes out with what was recorded.

    Exit code 1 when it differs. A capture without a state after the launch is only run.

    Example: ptxgraft replay demo-out/frame.ptxcap --launch enc4
    """
    if output is not None:
        check_capture_target(output)
    recorded = pick_launch(capture.open_capture(cap), launch)
    module = open_graft(ptx, recorded, style=style) if ptx is not None else None
    with about(cap), working(f"replaying {recorded.label}"):
        where = {"on": on, "timeout": timeout, "assembler": assembler, "engine": engine, "profile": profile}
        ran = replay_launch(recorded, module, step_budget=step_budget, **where)
    printed(ran.result.output, json)
    for text in ran.notes:
        note(f"note: {text}")
    if output is not None:
        capture.write([with_outputs(ran)], output, overwrite=True)
        note(f"wrote {output}")
    verdict = _against_recorded(ran, engine, profile)
    if recorded.profile not in ("", ran.result.profile):
        note(f"note: what was recorded came from {recorded.engine} ({recorded.profile}), this run gives the bits of {ran.result.profile}")
    line = Text(f"{recorded.label}: {ran.result}")
    parts = [line, verdict_view(verdict) if verdict is not None else Text("the capture holds no state after the launch to compare with")]
    show(
        Group(*parts),
        {
            "capture": cap,
            "ptx": ptx,
            "launch": recorded.seq,
            "kernel": recorded.kernel,
            "recorded_engine": recorded.engine,
            "recorded_profile": recorded.profile,
            "result": ran.result,
            "against_recorded": verdict,
        },
        json,
    )
    if verdict is not None and verdict.exit_code:
        raise typer.Exit(verdict.exit_code)


def _against_recorded(ran: Replay, engine: str, profile: str) -> Verdict | None:
    """What came out against what was recorded, the first difference explained; None where nothing was recorded."""
    expected = recorded_outputs(ran.recorded)
    if not expected:
        return None
    verdict = compare(expected, ran.outputs, names=[o.name for o in expected])
    verdict.poisoned = unrecorded(ran.recorded)
    if verdict.first is not None and ran.document is not None:
        try:
            verdict.first = explain(verdict.first, ran.recorded, None, ran.document, ran.outputs, engine=engine, profile=profile)
        except (KernelFault, UnsupportedError) as error:
            note(f"note: the difference is not explained: on cpu, {error}")
    return verdict


def with_outputs(ran: Replay) -> capture.Launch:
    """The recorded launch with the state after it replaced by what a replay left, and the module by the one that ran."""
    data = {o.name: o.data for o in ran.outputs}
    recorded = ran.recorded
    return replace(
        recorded,
        allocations=[replace(a, after=data[f"allocation {a.index}"]) for a in recorded.allocations],
        surfaces=[replace(s, after=data[f"surface at {s.place}"]) for s in recorded.surfaces],
        variables=[replace(v, after=data[f"variable {v.name!r}"]) for v in recorded.variables],
        engine=ran.result.engine,
        profile=ran.result.profile,
        **({} if ran.document is None else {"module": ran.document.data, "module_hash": None}),
    )
