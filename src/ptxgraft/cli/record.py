"""``ptxgraft record``: record the kernel launches of any CUDA program."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ptxgraft.cli.console import JsonFlag, check_capture_target, note, show
from ptxgraft.run.recorder import Choice, Recording
from ptxgraft.run.recorder import record as record_program
from ptxgraft.run.recorder.program import MAX_BYTES


def record(
    command: Annotated[list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="CAP", help="The capture to write.", show_default=False)],
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="REGEX", help="Record kernels whose name matches (POSIX extended, searched anywhere).")
    ] = "",
    nth: Annotated[
        list[int] | None,
        typer.Option("--nth", min=1, help="Record the N-th matching launch of a process, from 1; may be given again.", show_default=False),
    ] = None,
    max_bytes: Annotated[
        int, typer.Option("--max-bytes", min=0, help="Most bytes of memory recorded of one launch; what is beyond is left out and said.")
    ] = MAX_BYTES,
    json: JsonFlag = False,
) -> None:
    """Run a program that uses CUDA and record its kernel launches: arguments, memory before and after, textures, module. Its exit code is passed on.

    Example: ptxgraft record -o softmax.ptxcap --kernel softmax --nth 3 -- python train.py
    """
    check_capture_target(output)
    made = record_program(command, output, Choice(kernel, tuple(nth or ()), max_bytes), quiet_output=json)
    show(_line(made), {**_data(made)}, json)
    for remark in made.seen.remarks + made.notes:
        note(f"note: {remark}")
    raise typer.Exit(made.exit_code)


def _line(made: Recording) -> Text:
    incomplete = f", {made.incomplete} of them incomplete (`ptxgraft show` says what is missing)" if made.incomplete else ""
    return Text(f"wrote {made.path}: {made.recorded} of {made.seen.launches} launches{incomplete}")


def _data(made: Recording) -> dict:
    return {
        "path": made.path,
        "exit_code": made.exit_code,
        "recorded": made.recorded,
        "incomplete": made.incomplete,
        "launches_seen": made.seen.launches,
        "kernels_seen": made.seen.kernels,
        "refused": [{"kernel": kernel, "why": why, "launches": count} for (kernel, why), count in made.seen.refused.items()],
        "remarks": made.seen.remarks,
    }
