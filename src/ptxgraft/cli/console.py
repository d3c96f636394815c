"""What verbs share: where output goes, how files are written, how arguments are read.

Invariant: with ``--json`` exactly one JSON document goes to standard output and everything else to standard error; a file is written whole or not at all.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.report import plain

OUT = Console(soft_wrap=not os.isatty(1))
ERR = Console(stderr=True, soft_wrap=not os.isatty(2))

JsonFlag = Annotated[
    bool, typer.Option("--json", help="Print one JSON document on standard output; everything else goes to standard error.")
]
PtxFile = Annotated[Path, typer.Argument(metavar="FILE", help="A PTX file.", show_default=False)]
CapturePath = Annotated[
    Path, typer.Argument(metavar="CAP", help="A capture: our own form (NAME.ptxcap) or the directory form.", show_default=False)
]
EntryName = Annotated[
    str | None, typer.Option("-e", "--entry", help="The entry (kernel). May be left out when the file has one.", show_default=False)
]
LaunchName = Annotated[
    str | None,
    typer.Option(
        "-l",
        "--launch",
        help="The launch: its sequence number or its kernel's name. May be left out when there is one.",
        show_default=False,
    ),
]
EngineName = Annotated[str, typer.Option("--engine", help="CPU engine: warp (compiled) or numpy (the reference).")]
ProfileName = Annotated[str, typer.Option("--profile", help=f"Whose bits are wanted: {', '.join(PROFILES)}.")]


def show(renderable: RenderableType, data: Any, as_json: bool) -> None:
    """A verb's result: for people, or as the one JSON document."""
    if as_json:
        print(json.dumps(plain(data), indent=1, allow_nan=False, default=str))
    else:
        OUT.print(renderable)


def note(text: str) -> None:
    """A line beside the result, on standard error."""
    ERR.print(text, highlight=False, markup=False)


def write_file(path: Path, data: bytes | str) -> None:
    """Write a file by a temporary name beside it and a rename. UsageError when the folder is missing or cannot be written."""
    raw = data.encode() if isinstance(data, str) else data
    try:
        handle, partial = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
        os.chmod(partial, 0o644)
        os.replace(partial, path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}") from error
    finally:
        Path(partial).unlink(missing_ok=True)


def save_arrays(path: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays by name as a compressed .npz file."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    write_file(path, stream.getvalue())


def make_folder(path: Path) -> Path:
    """The folder, made when it is not there. UsageError when something else stands in its place."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror}") from error
    return path


def pick_launch(opened: capture.Capture, name: str | None) -> capture.Launch:
    """The launch a user named, or the only one."""
    if name is not None:
        return opened.launch(int(name) if name.isdigit() else name)
    if len(opened.launches) == 1:
        return opened.launches[0]
    if not opened.launches:
        raise opened.problems[0] if opened.problems else UsageError("the capture holds no launch")
    known = ", ".join(f"{launch.seq} ({launch.kernel})" for launch in opened.launches[:8])
    raise UsageError(f"the capture holds {len(opened.launches)} launches", hint=f"name one with --launch: {known}")


def triple(text: str, what: str) -> tuple[int, int, int]:
    """``32,1,4`` or ``32x1x4`` or ``32`` as three extents."""
    try:
        numbers = [int(t) for t in text.replace("x", ",").split(",")]
    except ValueError:
        numbers = []
    if not 1 <= len(numbers) <= 3 or min(numbers) < 1:
        raise UsageError(f"{what} {text!r} is not one to three positive numbers", hint="write 32,1,4")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


@contextmanager
def progress(title: str, total: int | None, quiet: bool = False) -> Iterator[Any]:
    """A progress bar on a terminal's standard error; silent in a pipe. Yields ``advance(text)``."""
    if quiet or not ERR.is_terminal:
        yield lambda text="": None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=ERR, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(text: str = "") -> None:
            bar.update(task, advance=1, description=f"{title}: {text}" if text else title)

        yield advance
