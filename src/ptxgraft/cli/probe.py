"""``ptxgraft probe``: an oracle that stores registers, at one stage or at many."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.console import (
    AssemblerName,
    EngineName,
    EntryName,
    ExecutorName,
    JsonFlag,
    LaunchName,
    ProfileName,
    PtxFile,
    Timeout,
    make_folder,
    note,
    pick_launch,
    show,
    whole_number,
    working,
)
from ptxgraft.cli.modules import about, pick_entry
from ptxgraft.errors import UsageError
from ptxgraft.graft import Probe, Reading, probe_many, probe_stages
from ptxgraft.report import Listing, arrays_file, check_target, file_stem, write_file, write_files
from ptxgraft.text import Document
from ptxgraft.verify import Oracle, Verdict, compare, consult, replay

SHOWN_LANES = 4
BUFFER_BYTES = 1 << 28
"""Stages are run in as many builds as it takes to keep a run's probe buffer below this."""


def probe(
    file: PtxFile,
    at: Annotated[
        str | None,
        typer.Option("--at", help="One place: stage a, p<N> or out, ret for every return, or a line number.", show_default=False),
    ] = None,
    stages: Annotated[
        str | None,
        typer.Option(
            "--stages", help="Many places: all (a, every phase, out), or a comma-separated list of what --at takes.", show_default=False
        ),
    ] = None,
    each: Annotated[bool, typer.Option("--each", help="With --stages: a module for each stage; -o names a folder.")] = False,
    entry: EntryName = None,
    registers: Annotated[
        str | None,
        typer.Option("--registers", help="Comma-separated registers; default: what the stage or line writes.", show_default=False),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations", help="How many passages of a lane to keep, each on its own, where a stage stands in a loop; 0: the last alone."
        ),
    ] = 0,
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
    on: ExecutorName = "cpu",
    timeout: Timeout = None,
    assembler: AssemblerName = "driver",
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Make an oracle: the kernel with a debug store of chosen registers at one place or many. With --run, run it and show what the registers held; every
    other output is compared with an unprobed run and must be the same (else exit code 1).

    Example: ptxgraft probe demo-out/enc4.ptx --at p3 --run demo-out/frame.ptxcap --save p3.npz
    """
    _check_options(at, stages, each, output, run, argument, save)
    document = Document.read(file)
    name = pick_entry(document, entry)
    chosen = [r.strip() for r in registers.split(",")] if registers is not None else None
    missing: dict[str | int, str] = {}

    def build(wanted: list[str | int]) -> list[Probe]:
        tolerated = missing if stages == "all" else None
        return probe_many(document, name, wanted, chosen, argument=place, slots=slots, iterations=iterations, missing=tolerated)

    place = _argument(argument)
    with about(file):
        wanted = _wanted(document, name, at, stages)
        builds = [build([stage]) for stage in wanted] if each else [build(wanted)]
    made = [p for probes in builds for p in probes]
    parts: list[RenderableType] = [*_described(name, made, missing)]
    data: dict[str, Any] = {"entry": name, "stages": [_stage_data(p) for p in made], "missing": missing, "words": made[0].words}
    data |= {"slot_bytes": made[0].slot_bytes, "notes": list(dict.fromkeys(n for p in made for n in p.notes))}
    if at is not None:
        data |= {"where": at, "lines": made[0].lines, "registers": made[0].registers}
    if output is not None:
        _write(output, name, builds, each)
    untouched: Verdict | None = None
    if run is not None:
        recorded = pick_launch(capture.open_capture(run), launch or name)
        readings: dict[str, Reading] = {}
        where: dict[str, Any] = {"engine": engine, "profile": profile, "on": on, "timeout": timeout, "assembler": assembler}
        with about(run), working(f"running {recorded.label}"):
            plain = replay(recorded, document, entry=name, **where).outputs
            for probes in _that_fit(builds, recorded, build):
                found = consult(Oracle(probes[0].document, name, probes), recorded, check=False, **where)
                readings |= found.readings
                if any(o.data.size for o in plain) and (untouched is None or not untouched.exit_code):
                    untouched = compare(plain, found.outputs)
            _require_stored(readings, recorded)
        if untouched is not None:
            parts.append(Text(f"other outputs: {untouched}", style="red" if untouched.exit_code else "green"))
        data |= {"other_outputs": untouched}
        for stage, stage_data in zip(readings.values(), data["stages"], strict=True):
            stage_data |= {"values": _values_data(stage), "lost_passages": stage.lost}
        if at is not None:
            data["values"] = data["stages"][0]["values"]
        parts += [Text(f"note: {n}", style="yellow") for n in _lost(readings)]
        parts.append(_listing(readings, at is None))
        if save is not None:
            write_file(save, arrays_file(_arrays(readings, at is None)))
            note(f"wrote {save}")
    show(Group(*parts), data, json)
    if untouched is not None and untouched.exit_code:
        raise typer.Exit(untouched.exit_code)


def _check_options(
    at: str | None, stages: str | None, each: bool, output: Path | None, run: Path | None, argument: str | None, save: Path | None
) -> None:
    if (at is None) == (stages is None):
        raise UsageError("a probe needs a place", hint="name one with --at, or several with --stages")
    if each and stages is None:
        raise UsageError("--each is for --stages")
    if output is None and run is None:
        raise UsageError("a probe needs somewhere to go", hint="write the module with -o FILE, or run it with --run CAP")
    if run is not None and argument is not None:
        raise UsageError("--run needs a probe with its own buffer", hint="leave --argument out")
    if save is not None and run is None:
        raise UsageError("--save needs values to save", hint="run the probe with --run CAP")
    for target in (output if not each else None, save):
        if target is not None:
            check_target(target)


def _wanted(document: Document, name: str, at: str | None, stages: str | None) -> list[str | int]:
    if stages == "all":
        return list(probe_stages(document, name))
    named = [at] if at is not None else [s.strip() for s in (stages or "").split(",")]
    numbers = [whole_number(s) for s in named]
    wanted = [s if n is None else n for s, n in zip(named, numbers, strict=True)]
    if len(set(wanted)) < len(wanted):
        raise UsageError(f"--stages {stages} names a stage twice")
    return wanted


def _described(name: str, made: list[Probe], missing: dict[str | int, str]) -> Iterator[Text]:
    for p in made:
        yield Text(f"{name}: probe at {p.where} (line {', '.join(map(str, p.lines))}): {', '.join(f'{r} {t}' for r, t in p.registers)}")
    first = made[0]
    kept = f", the first {first.iterations} passages of each lane" if first.iterations else ""
    yield Text(f"slots of {first.slot_bytes} bytes a warp, {first.words} words a lane{kept}")
    for text in dict.fromkeys(n for p in made for n in p.notes):
        yield Text(f"note: {text}", style="yellow")
    for stage, why in missing.items():
        yield Text(f"note: no probe at {stage}: {why}", style="yellow")


def _stage_data(made: Probe) -> dict[str, Any]:
    return {
        "where": str(made.where),
        "lines": made.lines,
        "registers": made.registers,
        "first_word": made.first_word,
        "iterations": made.iterations,
        "notes": made.notes,
    }


def _write(output: Path, name: str, builds: list[list[Probe]], each: bool) -> None:
    if each:
        folder = make_folder(output)
        files = {folder / f"{file_stem(name)}-{probes[0].where}.ptx": probes[0].text for probes in builds}
        write_files(files)
        note(f"wrote {len(files)} modules into {folder}")
    else:
        write_file(output, builds[0][0].text)
        note(f"wrote {output}")


def _that_fit(builds: list[list[Probe]], recorded: capture.Launch, build: Any) -> Iterator[list[Probe]]:
    """The builds, those with too large a buffer for this launch made again in parts."""
    waiting = [*builds]
    while waiting:
        probes = waiting.pop(0)
        if len(probes) > 1 and probes[0].buffer_bytes(recorded.grid, recorded.block) > BUFFER_BYTES:
            half = len(probes) // 2
            waiting[:0] = [build([p.where for p in part]) for part in (probes[:half], probes[half:])]
        else:
            yield probes


def _require_stored(readings: dict[str, Reading], recorded: capture.Launch) -> None:
    if not any(r.stored.any() for r in readings.values()):
        where = ", ".join(list(readings)[:6])
        raise UsageError(f"the probe at {where} read back nothing: no lane of {recorded.label} came there")


def _lost(readings: dict[str, Reading]) -> Iterator[str]:
    for stage, reading in readings.items():
        if reading.lost:
            most = int(reading.passages.max())
            yield f"{stage}: {reading.lost:,} passages were not kept; --iterations {most} keeps all"
        elif not reading.stored.any():
            yield f"{stage}: no lane came there"


def _argument(text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    offset, _, extra = text.partition("+")
    numbers = whole_number(offset), whole_number(extra or "0")
    if numbers[0] is None or numbers[1] is None:
        raise UsageError(f"--argument {text!r} is not OFFSET+BYTES", hint="for example 40+1048576")
    return numbers[0], numbers[1]


def _values_data(reading: Reading) -> dict[str, Any]:
    """The registers' shapes and, in the first passage, the first lanes' bits."""
    counted = reading.probe.iterations > 0
    return {r: {"shape": a.shape, "first_lanes": a[0, 0, :, 0] if counted else a[0, 0]} for r, a in reading.bits.items()}


def _arrays(readings: dict[str, Reading], many: bool) -> dict[str, np.ndarray]:
    """What is saved: arrays by register, of several stages by stage and register; where passages are counted, their number too."""
    arrays: dict[str, np.ndarray] = {}
    for stage, reading in readings.items():
        lead = f"{stage}." if many else ""
        arrays |= {lead + r.lstrip("%"): a for r, a in reading.values.items()}
        if reading.probe.iterations:
            arrays[f"{lead}passages"] = reading.passages
    return arrays


def _listing(readings: dict[str, Reading], many: bool) -> Listing:
    counted = any(r.probe.iterations for r in readings.values())
    shape_title = "blocks x warps x lanes" + (" x passages" if counted else "")
    columns = [
        "register",
        shape_title,
        ">distinct",
        f"block 0, warp 0, lanes 0 to {SHOWN_LANES - 1}" + (", first passage" if counted else ""),
    ]
    view = Listing(*(["stage", *columns] if many else columns))
    for stage, reading in readings.items():
        if not reading.stored.any():
            continue
        for register, array in reading.bits.items():
            first = array[0, 0, :SHOWN_LANES, 0] if counted else array[0, 0, :SHOWN_LANES]
            row = [
                register,
                "x".join(map(str, array.shape)),
                str(len(np.unique(array[reading.stored]))),
                " ".join(f"{int(v):#x}" for v in first),
            ]
            view.add_row(*([stage, *row] if many else row))
    return view
