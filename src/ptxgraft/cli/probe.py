"""``ptxgraft probe``: an oracle that stores registers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.console import (
    EngineName,
    EntryName,
    JsonFlag,
    LaunchName,
    ProfileName,
    PtxFile,
    note,
    pick_launch,
    save_arrays,
    show,
    write_file,
)
from ptxgraft.cli.modules import pick_entry
from ptxgraft.errors import UsageError
from ptxgraft.graft import Probe
from ptxgraft.graft import probe as make_probe
from ptxgraft.report import table
from ptxgraft.text import Document
from ptxgraft.verify import Oracle, compare, consult, document_of, replay


def probe(
    file: PtxFile,
    at: Annotated[str, typer.Option("--at", help="Stage a, p<N> or out, ret for every return, or a line number.", show_default=False)],
    entry: EntryName = None,
    registers: Annotated[
        str | None,
        typer.Option("--registers", help="Comma-separated registers; default: what the stage or line writes.", show_default=False),
    ] = None,
    argument: Annotated[
        str | None,
        typer.Option(
            "--argument",
            help="OFFSET+BYTES: store through the pointer argument at OFFSET, BYTES behind it; default: two added parameters.",
            show_default=False,
        ),
    ] = None,
    slots: Annotated[
        int | None, typer.Option("--slots", help="How many slots the buffer has room for, with --argument.", show_default=False)
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the probed module to this file.", show_default=False)] = None,
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="CAP", help="Run the probed module on this capture and read the registers back.", show_default=False),
    ] = None,
    launch: LaunchName = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="With --run: save arrays [block, warp, lane] by register to this .npz file.", show_default=False),
    ] = None,
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Make an oracle: the kernel with a debug store of chosen registers at one place. With --run, run it and show what the registers held; every other
    output is compared with an unprobed run and must be the same.

    Example: ptxgraft probe enc4.ptx -e enc4 --at p3 --run demo-out/frame.ptxcap --save p3.npz
    """
    document = Document.read(file)
    name = pick_entry(document, entry)
    where = int(at) if at.isdigit() else at
    chosen = [r.strip() for r in registers.split(",")] if registers else None
    made = make_probe(document, name, where, chosen, argument=_argument(argument), slots=slots)
    if output is not None:
        write_file(output, made.text)
        note(f"wrote {output}")
    what = ", ".join(f"{r} {t}" for r, t in made.registers)
    parts: list[RenderableType] = [
        Text(f"{name}: probe at {at} (line {', '.join(map(str, made.lines))}): {what}"),
        Text(f"slots of {made.slot_bytes} bytes a warp, {made.words} words a lane"),
    ]
    data: dict = {
        "entry": name,
        "where": at,
        "lines": made.lines,
        "registers": made.registers,
        "words": made.words,
        "slot_bytes": made.slot_bytes,
    }
    if run is not None:
        _run(made, pick_launch(capture.open_capture(run), launch or name), save, engine, profile, parts, data)
    elif output is None:
        raise UsageError("a probe needs somewhere to go", hint="write the module with -o FILE, or run it with --run CAP")
    show(Group(*parts), data, json)


def _argument(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    offset, _, extra = text.partition("+")
    try:
        return int(offset, 0), int(extra or "0", 0)
    except ValueError as error:
        raise UsageError(f"--argument {text!r} is not OFFSET+BYTES", hint="for example 40+1048576") from error


def _run(
    made: Probe, recorded: capture.Launch, save: Path | None, engine: str, profile: str, parts: list[RenderableType], data: dict
) -> None:
    if made.argument is not None:
        raise UsageError("--run needs a probe with its own buffer", hint="leave --argument out")
    readings = consult(Oracle(made.document, made.entry, [made]), recorded, engine=engine, profile=profile)
    if recorded.module is not None:
        plain_run = replay(recorded, document_of(recorded), engine=engine, profile=profile)
        untouched = compare(plain_run.outputs, readings.outputs)
        parts.append(Text(f"other outputs: {untouched}", style="green" if untouched.verdict == "same" else "red"))
        data["other_outputs"] = untouched
    stage = str(made.where)
    if stage not in readings.stages:
        raise UsageError(f"the probe at {stage} read back nothing: no lane of {recorded.label} came there")
    values = readings.stages[stage]
    view = table("register", "shape", ">distinct", "block 0, warp 0, lanes 0 to 3")
    for register, array in values.items():
        view.add_row(
            register, "x".join(map(str, array.shape)), str(len(np.unique(array))), " ".join(f"{int(v):#x}" for v in array[0, 0, :4])
        )
    parts.append(view)
    data["values"] = {r: {"shape": a.shape, "first_lanes": [int(v) for v in a[0, 0, :32]]} for r, a in values.items()}
    if save is not None:
        save_arrays(save, {r.lstrip("%"): a for r, a in values.items()})
        note(f"wrote {save}")
