"""The command line: verbs, and how errors leave the process.

Invariant: an error of ``ptxgraft.errors`` is one message and its exit code, never a traceback; so is a wrong command line.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from ptxgraft import __version__
from ptxgraft.cli import (
    STOPPED,
    apply,
    bench,
    bisect,
    convert,
    cut,
    demo,
    diff,
    doctor,
    extract,
    ls,
    probe,
    record,
    replay,
    run,
    show,
    spec,
    verify,
)
from ptxgraft.cli.console import complain, note, silence, warnings_as_notes
from ptxgraft.errors import PtxgraftError
from ptxgraft.run.warp_threads import abandoned

BAD_INPUT = 2

WRONG_LINE: type[Exception] = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""What the option parser raises. Which module it lives in depends on Typer's version."""


class Verbs(TyperGroup):
    """All verbs, with errors turned into messages and exit codes."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run a verb; ends the process with its exit code, or gives the code when not ``standalone_mode``."""
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")  # a name that the terminal's encoding lacks
        parent = super().main
        code = exit_code(lambda: parent(*args, standalone_mode=False, **extra))
        if standalone_mode:
            if abandoned():
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(code)
            sys.exit(code)
        return code


def exit_code(verb: Callable[[], Any]) -> int:
    """Run a verb to its end and say how it ended."""
    try:
        with warnings_as_notes():
            code = verb()
        sys.stdout.flush()
    except PtxgraftError as error:
        complain(error)
        return error.exit_code
    except WRONG_LINE as error:
        return _wrong_line(error)
    except BrokenPipeError:
        silence(sys.stdout)
        return 0
    except OSError as error:
        note(f"ptxgraft: {error.filename + ': ' if error.filename else ''}{error.strerror or error}")
        return BAD_INPUT
    except MemoryError as error:
        note(f"ptxgraft: not enough memory: {error}" if str(error) else "ptxgraft: not enough memory")
        return BAD_INPUT
    except KeyboardInterrupt:
        code = STOPPED
    if code == STOPPED:
        note("ptxgraft: stopped")
    return code if isinstance(code, int) else 0


def _wrong_line(error: Any) -> int:
    """A command line that the option parser refuses, in one line. Without a verb the help is shown."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
        return BAD_INPUT
    path = context.command_path if context is not None else "ptxgraft"
    message = " ".join(error.format_message().split()).rstrip(".")
    note(f"{path}: {message}{' ' if message.endswith('?') else '; '}`{path} --help` shows what there is")
    return BAD_INPUT


app = typer.Typer(
    name="ptxgraft",
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Take a PTX kernel apart at its tensor-core regions, graft other code in their place, and prove the result byte for byte.",
    epilog="Exit codes: 0 same or done, 1 differs, 2 bad input or usage, 3 known but unsupported, 4 device or driver.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ptxgraft {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")] = False,
) -> None:
    """Verbs work on PTX files and on captures of kernel launches. `ptxgraft demo -o DIR` shows them all on a real kernel."""


def _unwrapped(text: str) -> str:
    """A docstring with each paragraph on one line: the help wraps it to the terminal."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in text.split("\n\n"))


for verb in (
    demo.demo,
    extract.extract,
    ls.ls,
    spec.spec,
    cut.cut,
    probe.probe,
    apply.apply,
    run.run,
    record.record,
    show.show,
    convert.convert,
    replay.replay,
    diff.diff,
    verify.verify,
    bisect.bisect,
    bench.bench,
    doctor.doctor,
):
    text = _unwrapped(verb.__doc__ or "")
    app.command(help=text, short_help=text.split(". ")[0].rstrip(".") + ".")(verb)


def main() -> None:
    """The process: run a verb and exit with its code."""
    app(prog_name="ptxgraft")
