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
    show,
    whole_number,
    working,
)
from ptxgraft.cli.modules import about, pick_entry
from ptxgraft.errors import UsageError
from ptxgraft.graft import Probe, read_probe
from ptxgraft.graft import probe as make_probe
from ptxgraft.report import Listing, arrays_file, check_target, write_file
from ptxgraft.text import Document
from ptxgraft.verify import Oracle, Readings, Verdict, compare, consult, replay

SHOWN_LANES = 4


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
        typer.Option(
            "--save",
            help="With --run: save arrays \\[block, warp, lane] by register, in the registers' types, to this .npz file.",
            show_default=False,
        ),
    ] = None,
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Make an oracle: the kernel with a debug store of chosen registers at one place. With --run, run it and show what the registers held; every other
    output is compared with an unprobed run and must be the same (else exit code 1).

    Example: ptxgraft probe enc4.ptx -e enc4 --at p3 --run demo-out/frame.ptxcap --save p3.npz
    """
    if output is None and run is None:
        raise UsageError("a probe needs somewhere to go", hint="write the module with -o FILE, or run it with --run CAP")
    if run is not None and argument is not None:
        raise UsageError("--run needs a probe with its own buffer", hint="leave --argument out")
    if save is not None and run is None:
        raise UsageError("--save needs values to save", hint="run the probe with --run CAP")
    for target in (output, save):
        if target is not None:
            check_target(target)
    document = Document.read(file)
    name = pick_entry(document, entry)
    line = whole_number(at)
    chosen = [r.strip() for r in registers.split(",")] if registers is not None else None
    place = _argument(argument)
    with about(file):
        made = make_probe(document, name, at if line is None else line, chosen, argument=place, slots=slots)
    parts: list[RenderableType] = [
        Text(f"{name}: probe at {at} (line {', '.join(map(str, made.lines))}): {', '.join(f'{r} {t}' for r, t in made.registers)}"),
        Text(f"slots of {made.slot_bytes} bytes a warp, {made.words} words a lane"),
    ]
    data: dict = {"entry": name, "where": at, "lines": made.lines, "registers": made.registers, "words": made.words}
    data |= {"slot_bytes": made.slot_bytes, "notes": made.notes}
    parts += [Text(f"note: {n}", style="yellow") for n in made.notes]
    if output is not None:
        write_file(output, made.text)
        note(f"wrote {output}")
    untouched: Verdict | None = None
    if run is not None:
        recorded = pick_launch(capture.open_capture(run), launch or name)
        with about(run), working(f"running {recorded.label}"):
            plain_run = replay(recorded, document, entry=name, engine=engine, profile=profile)
            readings = consult(Oracle(made.document, name, [made]), recorded, engine=engine, profile=profile)
            values = _values(readings, made, recorded)
        if any(o.data.size for o in plain_run.outputs):
            untouched = compare(plain_run.outputs, readings.outputs)
            parts.append(Text(f"other outputs: {untouched}", style="red" if untouched.exit_code else "green"))
        data |= {"other_outputs": untouched, "values": {r: {"shape": a.shape, "first_lanes": a[0, 0]} for r, a in values.items()}}
        parts.append(_listing(values))
        if save is not None:
            typed = read_probe(made, readings.buffer, recorded.grid, recorded.block)
            write_file(save, arrays_file({r.lstrip("%"): a for r, a in typed.items()}))
            note(f"wrote {save}")
    show(Group(*parts), data, json)
    if untouched is not None and untouched.exit_code:
        raise typer.Exit(untouched.exit_code)


def _argument(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    offset, _, extra = text.partition("+")
    numbers = whole_number(offset), whole_number(extra or "0")
    if numbers[0] is None or numbers[1] is None:
        raise UsageError(f"--argument {text!r} is not OFFSET+BYTES", hint="for example 40+1048576")
    return numbers[0], numbers[1]


def _values(readings: Readings, made: Probe, recorded: capture.Launch) -> dict[str, np.ndarray]:
    found = readings.stages.get(str(made.where))
    if found is None:
        raise UsageError(f"the probe at {made.where} read back nothing: no lane of {recorded.label} came there")
    return found


def _listing(values: dict[str, np.ndarray]) -> Listing:
    view = Listing("register", "blocks x warps x lanes", ">distinct", f"block 0, warp 0, lanes 0 to {SHOWN_LANES - 1}")
    for register, array in values.items():
        shape = "x".join(map(str, array.shape))
        view.add_row(register, shape, str(len(np.unique(array))), " ".join(f"{int(v):#x}" for v in array[0, 0, :SHOWN_LANES]))
    return view
