"""``ptxgraft diff``: compare what two captures hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptxgraft import capture
from ptxgraft.cli.console import JsonFlag, LaunchName, pick_launch, show
from ptxgraft.cli.modules import about
from ptxgraft.report import plain, verdict_view
from ptxgraft.verify import VALUES, compare, recorded_outputs

Tolerance = Annotated[
    float | None,
    typer.Option(
        "--tolerance",
        help="Compare values within this absolute tolerance instead of bytes; it is printed with the result.",
        show_default=False,
    ),
]
Values = Annotated[
    str, typer.Option("--values", help=f"What buffers hold, for --tolerance: {', '.join(VALUES)}. Images are read by their format.")
]


def diff(
    a: Annotated[Path, typer.Argument(metavar="CAP_A", help="The capture with the expected state.", show_default=False)],
    b: Annotated[Path, typer.Argument(metavar="CAP_B", help="The capture to judge.", show_default=False)],
    launch: LaunchName = None,
    tolerance: Tolerance = None,
    values: Values = "f32",
    json: JsonFlag = False,
) -> None:
    """Compare the state after one launch in two captures, byte for byte. Exit code 0 same, 1 differs, 2 not comparable.

    Example: ptxgraft diff before.ptxcap after.ptxcap --launch enc4
    """
    first, second = (pick_launch(capture.open_capture(path), launch) for path in (a, b))
    with about(a):
        verdict = compare(recorded_outputs(first), recorded_outputs(second), tolerance=tolerance, values=values)
    judged = {"expected_capture": a, "judged_capture": b, "launch": first.seq, "kernel": first.kernel}
    show(verdict_view(verdict), {**judged, **plain(verdict)}, json)
    if verdict.exit_code:
        raise typer.Exit(verdict.exit_code)
