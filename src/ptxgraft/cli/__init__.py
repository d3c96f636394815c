"""The command line, one file per verb.

Invariant: this is the only place that prints and exits.
"""

from __future__ import annotations

import os
import sys

__all__ = ["main"]

STOPPED = 130
"""The exit code after an interrupt."""


def main() -> None:
    """The process: run a verb and exit with its code."""
    open_streams()
    try:
        from ptxgraft.cli.app import main as run  # takes a second, in which an interrupt is as likely as later
    except KeyboardInterrupt:
        print("ptxgraft: stopped", file=sys.stderr)
        sys.exit(STOPPED)
    run()


def open_streams() -> None:
    """Standard streams that the caller has closed lead nowhere: else the next file that is opened would take their number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
