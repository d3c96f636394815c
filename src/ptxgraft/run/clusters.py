"""Clusters, of which a launch on the CPU has none: what a kernel for clusters of several blocks may not do.

Invariant: blocks are clusters of one block each. A kernel that asks for larger ones, and looks at them, is refused before it runs.
"""

from __future__ import annotations

import math

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import Instruction, Program, Special
from ptxgraft.run import faults
from ptxgraft.text.heads import extents

_DIRECTIVE = ".reqnctapercluster"


def check(program: Program, launched: tuple[int, int, int] | None = None) -> None:
    """Raise ``UnsupportedError`` for the first instruction that would see a cluster of several blocks, which the launch (``launched``) or else the entry
    asks for."""
    asked = launched or extents(dict(program.entry.directives).get(_DIRECTIVE, "1"))
    if asked is None or math.prod(asked) == 1:
        return
    for instruction in program.instructions:
        if _looks(instruction):
            raise UnsupportedError(
                f"clusters of {math.prod(asked)} blocks are not supported, and {faults.statement(program, instruction.index)} looks at its cluster",
                place=program.place(instruction.index),
                hint=f"clusters of one block are; kernels with {_DIRECTIVE} that never look at their cluster run",
            )


def _looks(instruction: Instruction) -> bool:
    form = instruction.form
    if form is None:
        return False
    named = any(isinstance(o, Special) and "cluster" in o.name for o in instruction.operands)
    return named or form.family == "cluster" or "::cluster" in form.opcode or form.opcode.startswith("barrier.cluster")
