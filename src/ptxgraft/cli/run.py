"""``ptxgraft run``: launch a kernel on the CPU."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Group
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.console import EngineName, EntryName, JsonFlag, ProfileName, PtxFile, note, save_arrays, show, triple
from ptxgraft.cli.modules import pick_entry
from ptxgraft.errors import UsageError
from ptxgraft.report import table
from ptxgraft.run import Module, capture_of, execute, snapshot
from ptxgraft.text import Document

NUMBERS = {
    "u8": "u1",
    "u16": "u2",
    "u32": "u4",
    "u64": "u8",
    "s8": "i1",
    "s16": "i2",
    "s32": "i4",
    "s64": "i8",
    "f16": "f2",
    "f32": "f4",
    "f64": "f8",
}


def run(
    file: PtxFile,
    grid: Annotated[str, typer.Option("--grid", help="Grid X,Y,Z.", show_default=False)],
    block: Annotated[str, typer.Option("--block", help="Block X,Y,Z.", show_default=False)],
    entry: EntryName = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "-a",
            "--arg",
            help="One per parameter, in order: a number; TYPE[N] a zeroed buffer; TYPE[N]=random; TYPE[N]=iota; file.npy; @file (raw bytes). TYPE is u8..f64.",
            show_default=False,
        ),
    ] = None,
    shared: Annotated[int, typer.Option("--shared", help="Dynamic shared memory in bytes.")] = 0,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="CAP", help="Record the launch as a capture of our own form.", show_default=False)
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Save every buffer after the run to this .npz file, as arg0, arg1, ...", show_default=False),
    ] = None,
    step_budget: Annotated[
        int | None,
        typer.Option("--step-budget", help="Statements one warp may run before the kernel counts as endless.", show_default=False),
    ] = None,
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Launch an entry on the CPU and show what its buffers hold afterwards.

    Example: ptxgraft run saxpy.ptx --grid 4 --block 256 -a 1024 -a 2.0 -a 'f32[1024]=iota' -a 'f32[1024]'
    """
    document = Document.read(file)
    kernel = Module(document).kernel(pick_entry(document, entry), profile=profile, engine=engine)
    values = [_value(text, number) for number, text in enumerate(arg or [])]
    prepared = kernel.prepare(triple(grid, "grid"), triple(block, "block"), values, shared)
    before = snapshot(prepared.launch)
    result = execute(prepared.launch, engine=engine, profile=profile, step_budget=step_budget)
    prepared.bring_back()
    if record is not None:
        capture.write([capture_of(prepared.launch, before)], record)
        note(f"wrote {record}")
    arrays = {f"arg{i}": v for i, v in enumerate(values) if isinstance(v, np.ndarray)}
    if save is not None:
        save_arrays(save, arrays)
        note(f"wrote {save}")
    view = table("argument", "type", ">elements", "first values after the run")
    for name, array in arrays.items():
        view.add_row(name, str(array.dtype), str(array.size), " ".join(f"{v:g}" for v in array.reshape(-1)[:8]))
    line = Text(f"{kernel.name}: {result.statements:,} statements on {engine} ({profile}) in {result.seconds:.3f} s")
    data = {
        "entry": kernel.name,
        "result": result,
        "buffers": {n: {"dtype": str(a.dtype), "size": a.size, "first": a.reshape(-1)[:64]} for n, a in arrays.items()},
    }
    show(Group(line, view) if arrays else line, data, json)


def _value(text: str, number: int) -> Any:
    """An argument from its text on the command line."""
    try:
        return int(text, 0)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        pass
    if text.startswith("@") or text.endswith(".npy"):
        path = Path(text.removeprefix("@"))
        try:
            return np.fromfile(path, dtype=np.uint8) if text.startswith("@") else np.load(path, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"argument {number}: cannot read {path}: {error}") from error
    shape, _, fill = text.partition("=")
    name, _, count = shape.partition("[")
    if name in NUMBERS and count.endswith("]") and count[:-1].isdigit():
        dtype, size = np.dtype(NUMBERS[name]), int(count[:-1])
        if fill == "random":
            values = np.random.default_rng(number)
            return values.standard_normal(size).astype(dtype) if dtype.kind == "f" else values.integers(0, 127, size).astype(dtype)
        if fill in ("", "zeros"):
            return np.zeros(size, dtype=dtype)
        if fill == "iota":
            return np.arange(size).astype(dtype)
    raise UsageError(
        f"argument {number}: cannot read {text!r}", hint="write a number, f32[1024], f32[1024]=random, u32[8]=iota, file.npy or @file"
    )
