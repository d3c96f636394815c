"""What verbs share: where output goes, and how options that several have are read.

Invariant: with ``--json`` exactly one JSON document goes to standard output and everything else to standard error; what is printed holds no control
characters of an input.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.text import Text

from ptxgraft import capture
from ptxgraft.errors import KernelFault, PtxgraftError, SourceError, SourceErrors, UnconfirmedWarning, UsageError
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.report import make_folder, plain, write_file
from ptxgraft.run import ENGINES, EXECUTORS
from ptxgraft.run.execution import check_choice
from ptxgraft.verify import ASSEMBLERS

__all__ = [
    "AssemblerName", "CapturePath", "EngineName", "EntryName", "ExecutorName", "JsonFlag", "LaunchName", "ProfileName", "PtxFile", "Timeout", "check_capture_target", "complain", "make_folder", "note",
    "pick_launch", "printed", "progress", "show", "silence", "triple", "warnings_as_notes", "whole_number", "working", "write_file",
]  # fmt: skip

PIPE_WIDTH = 1 << 16
"""Columns of a pipe: nothing is folded there."""

MOST_ERRORS = 20
"""Errors of one input that are shown; of more, their number."""

SHOWN_SOURCE = 120
"""Columns of a source line that are shown around a caret."""


def _choice(what: str, known: list[str]) -> Callable[[str], str]:
    def check(given: str) -> str:
        check_choice(what, given, known)
        return given

    return check


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
EngineName = Annotated[
    str, typer.Option("--engine", help="CPU engine: warp (compiled) or numpy (the reference).", callback=_choice("engine", list(ENGINES)))
]
ProfileName = Annotated[
    str, typer.Option("--profile", help=f"Whose bits are wanted: {', '.join(PROFILES)}.", callback=_choice("profile", list(PROFILES)))
]

ExecutorName = Annotated[
    str,
    typer.Option("--on", help=f"Where to run: {', '.join(EXECUTORS)} (an NVIDIA GPU).", callback=_choice("executor", list(EXECUTORS))),
]
Timeout = Annotated[
    float | None, typer.Option("--timeout", min=0, help="Seconds that a kernel may run on a GPU; a minute by default.", show_default=False)
]
AssemblerName = Annotated[
    str,
    typer.Option(
        "--assembler",
        help="What makes machine code of PTX for a GPU: its driver or ptxas.",
        callback=_choice("assembler", list(ASSEMBLERS)),
    ),
]


# -- output -------------------------------------------------------------------------------------------------------------------


def silence(stream: TextIO) -> None:
    """Nobody reads a stream any more: send what is still to come, and what Python flushes at its end, nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _write(text: str, stream: TextIO) -> None:
    """To a pipe whose reader may go away: the verb goes on, so that its exit code still says what it found."""
    try:
        stream.write(text)
        stream.flush()
    except BrokenPipeError:
        silence(stream)


class _Safe:
    """A renderable with everything in its texts escaped that a terminal might obey."""

    def __init__(self, inner: RenderableType) -> None:
        self.inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for text, style, control in console.render(self.inner, options):
            yield Segment(text if control else _printable(text), style, control)


def _print(renderable: RenderableType, stream: TextIO) -> None:
    console = Console(file=stream, highlight=False, markup=False)
    if console.is_terminal:
        console.print(_Safe(renderable))
        return
    wide = Console(file=stream, width=PIPE_WIDTH, highlight=False, markup=False)
    with wide.capture() as captured:
        wide.print(_Safe(renderable))
    _write(captured.get(), stream)


def show(renderable: RenderableType, data: Any, as_json: bool) -> None:
    """A verb's result: for people, or as the one JSON document."""
    if as_json:
        _write(json.dumps(plain(data), indent=1, allow_nan=False) + "\n", sys.stdout)
    else:
        _print(renderable, sys.stdout)


def note(text: str) -> None:
    """A line beside the result, on standard error."""
    _print(Text(text), sys.stderr)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Within it, what is not confirmed on a profile is said in a line on standard error in place of Python's warning."""
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show_warning(message: Warning | str, category: type[Warning], *where: Any, **rest: Any) -> None:
            if issubclass(category, UnconfirmedWarning):
                note(f"note: {message}")
            else:
                usual(message, category, *where, **rest)

        warnings.simplefilter("always", UnconfirmedWarning)
        warnings.showwarning = show_warning
        yield


def printed(text: str, as_json: bool) -> None:
    """What a kernel printed: on standard output, where a JSON document goes there on standard error."""
    if text:
        _write(_printable(text if text.endswith("\n") else text + "\n"), sys.stderr if as_json else sys.stdout)


def complain(error: PtxgraftError) -> None:
    """An error as people see it: one line each, and the source line with a caret where there is one; before it what a kernel had printed."""
    if isinstance(error, KernelFault):
        printed(error.output, as_json=True)
    errors: list[SourceError] | list[PtxgraftError] = error.errors if isinstance(error, SourceErrors) else [error]
    for each in errors[:MOST_ERRORS]:
        note(f"ptxgraft: {each}")
        if each.place is not None and each.place.source:
            note(_caret(each.place.source, each.place.column))
    if len(errors) > MOST_ERRORS:
        note(f"ptxgraft: and {len(errors) - MOST_ERRORS} more errors")


def _caret(source: str, column: int) -> str:
    """A source line with a caret under a 1-based column; of a long line, the part around it."""
    start = max(0, column - 1 - SHOWN_SOURCE // 2) if len(source) > SHOWN_SOURCE else 0
    shown = source[start : start + SHOWN_SOURCE]
    lead = "".join("\t" if c == "\t" else " " * len(_printable(c)) for c in shown[: column - 1 - start])
    return f"  {_printable(shown)}\n  {lead}^"


def _printable(text: str) -> str:
    """Text with everything escaped that a terminal might obey."""
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


@contextmanager
def progress(title: str, total: int | None, quiet: bool = False) -> Iterator[Any]:
    """A progress bar on a terminal's standard error; silent in a pipe. Yields ``advance(text)``."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda text="": None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(title, total=total)

        def advance(text: str = "") -> None:
            bar.update(task, advance=1, description=f"{title}: {text}" if text else title)

        yield advance


@contextmanager
def working(title: str) -> Iterator[None]:
    """A sign of life on a terminal's standard error while something runs whose length nobody knows; nothing in a pipe."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield
        return
    with console.status(title):
        yield


# -- input --------------------------------------------------------------------------------------------------------------------


def pick_launch(opened: capture.Capture, name: str | None) -> capture.Launch:
    """The launch a user named, or the only one."""
    if name is not None:
        number = whole_number(name)
        return opened.launch(name if number is None else number)
    if len(opened.launches) == 1 and not opened.bad:
        return opened.launches[0]
    if not opened.launches:
        raise opened.problems[0] if opened.problems else UsageError(f"{opened.path} holds no launch")
    known = ", ".join(f"{launch.seq} ({launch.kernel})" for launch in opened.launches[:8])
    raise UsageError(f"{opened.path} holds {len(opened.launches) + len(opened.bad)} launches", hint=f"name one with --launch: {known}")


def whole_number(text: str) -> int | None:
    """``text`` as a number of at most 18 decimal digits, None when it is none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def triple(text: str, what: str) -> tuple[int, int, int]:
    """``32,1,4`` or ``32x1x4`` or ``32`` as three extents."""
    numbers = [whole_number(t.strip()) for t in text.replace("x", ",").split(",")]
    if len(numbers) > 3 or not all(numbers):
        raise UsageError(f"{what} {text!r} is not one to three positive numbers", hint="write 32,1,4")
    x, y, z = ([n for n in numbers if n] + [1, 1])[:3]
    return x, y, z


def check_capture_target(path: Path) -> None:
    """Raise ``UsageError`` when no capture can be written at ``path``: to be asked before long work, not after it."""
    if not path.parent.is_dir():
        raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
    if (path.exists() or path.is_symlink()) and not (path / "capture.json").is_file():
        raise UsageError(f"cannot write {path}: it is there and is no capture", hint="name another place, or remove it")
