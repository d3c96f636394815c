"""The command line: verbs, and how errors leave the process.

Invariant: an error of ``ptxgraft.errors`` is one message and its exit code, never a traceback.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ptxgraft import __version__
from ptxgraft.cli import bisect, cut, demo, diff, doctor, ls, probe, replay, run, show, spec, verify
from ptxgraft.cli.console import note
from ptxgraft.errors import PtxgraftError

app = typer.Typer(
    name="ptxgraft",
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


for verb in (
    demo.demo,
    ls.ls,
    spec.spec,
    cut.cut,
    probe.probe,
    run.run,
    show.show,
    replay.replay,
    diff.diff,
    verify.verify,
    bisect.bisect,
    doctor.doctor,
):
    app.command()(verb)


def main() -> None:
    """The process: run a verb, turn errors into messages and exit codes."""
    try:
        app()
    except PtxgraftError as error:
        note(f"ptxgraft: {error}")
        if error.place is not None and error.place.source:
            note(error.place.caret())
        sys.exit(error.exit_code)
    except BrokenPipeError:
        sys.exit(0)
    except KeyboardInterrupt:
        note("ptxgraft: stopped")
        sys.exit(130)
