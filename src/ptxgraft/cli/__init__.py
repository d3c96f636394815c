"""The command line, one file per verb.

Invariant: this is the only place that prints and exits.
"""

from ptxgraft.cli.app import main

__all__ = ["main"]
