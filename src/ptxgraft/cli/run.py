"""``ptxgraft run``: launch a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Group
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.arguments import FORMS, argument
from ptxgraft.cli.console import (
    EngineName,
    EntryName,
    ExecutorName,
    JsonFlag,
    ProfileName,
    PtxFile,
    Timeout,
    check_capture_target,
    note,
    printed,
    show,
    triple,
    working,
)
from ptxgraft.cli.modules import about, pick_entry
from ptxgraft.report import Listing, arrays_file, check_target, write_file
from ptxgraft.run import STACK_BYTES, Module, capture_of, snapshot
from ptxgraft.text import Document

FIRST_VALUES, FIRST_VALUES_JSON = 8, 64


def run(
    file: PtxFile,
    grid: Annotated[str, typer.Option("--grid", help="Grid X,Y,Z.", show_default=False)],
    block: Annotated[str, typer.Option("--block", help="Block X,Y,Z.", show_default=False)],
    entry: EntryName = None,
    arg: Annotated[
        list[str] | None,
        typer.Option(
            "-a", "--arg", help=f"One per parameter, in order: {FORMS}. Types are u8..u64, s8..s64, f16..f64.", show_default=False
        ),
    ] = None,
    shared: Annotated[int, typer.Option("--shared", min=0, help="Dynamic shared memory in bytes.")] = 0,
    stack: Annotated[
        int, typer.Option("--stack", help="Stack of a thread in bytes, for recursion, calls through pointers and alloca.")
    ] = STACK_BYTES,
    record: Annotated[
        Path | None, typer.Option("--record", metavar="CAP", help="Record the launch as a capture of our own form.", show_default=False)
    ] = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", help="Save every buffer after the run to this .npz file, as arg0, arg1, ...", show_default=False),
    ] = None,
    step_budget: Annotated[
        int | None,
        typer.Option("--step-budget", min=1, help="Statements one warp may run before the kernel counts as endless.", show_default=False),
    ] = None,
    on: ExecutorName = "cpu",
    timeout: Timeout = None,
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Launch an entry, on the CPU or a GPU, and show what its buffers hold afterwards.

    Example: ptxgraft run examples/saxpy.ptx --grid 4 --block 256 -a 1024 -a 2.0 -a 'f32[1024]=iota' -a 'f32[1024]'
    """
    if save is not None:
        check_target(save)
    if record is not None:
        check_capture_target(record)
    document = Document.read(file)
    with about(file):
        kernel = Module(document).kernel(pick_entry(document, entry), on, profile, engine)
    values = [argument(text, number) for number, text in enumerate(arg or [])]
    shape = triple(grid, "grid"), triple(block, "block")
    with about(file), working(f"running {kernel.name}"):
        prepared = kernel.prepare(*shape, values, shared, stack)
        before = snapshot(prepared.launch)
        result = prepared.run(engine=engine, profile=profile, step_budget=step_budget, on=on, timeout=timeout)
    printed(result.output, json)
    for text in result.notes if on == "cuda" else []:  # the CPU's are told as warnings
        note(f"note: {text}")
    arrays = {f"arg{i}": v for i, v in enumerate(values) if isinstance(v, np.ndarray)}
    if record is not None:
        capture.write([capture_of(prepared.launch, before, result=result)], record, overwrite=True)
        note(f"wrote {record}")
    if save is not None:
        write_file(save, arrays_file(arrays))
        note(f"wrote {save}")
    view = Listing("argument", "type", ">elements", "first values after the run")
    for name, array in arrays.items():
        view.add_row(name, str(array.dtype), str(array.size), " ".join(f"{v:g}" for v in array.reshape(-1)[:FIRST_VALUES]))
    line = Text(f"{kernel.name}: {result}")
    data = {
        "entry": kernel.name,
        "result": result,
        "buffers": {n: {"dtype": str(a.dtype), "size": a.size, "first": a.reshape(-1)[:FIRST_VALUES_JSON]} for n, a in arrays.items()},
    }
    show(Group(line, view) if arrays else line, data, json)
