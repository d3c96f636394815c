"""What two versions of an entry have in common: everything but one stretch, as a cut or a hand edit leaves it.

Invariant: instructions outside the stretch are written alike on both sides and stand in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa import Program


@dataclass(frozen=True, slots=True)
class Changed:
    """The stretch that differs, as instruction indices ``first`` .. ``last`` of one program, inclusive; empty when ``last < first``."""

    first: int
    last: int

    def lines(self, program: Program) -> tuple[int, int] | None:
        """The file lines of the stretch's statements that stand in the entry itself; None when there are none."""
        found = [program.line(i) for i in range(self.first, self.last + 1) if stands_in_entry(program, i)]
        return (min(found), max(found)) if found else None


def stands_in_entry(program: Program, index: int) -> bool:
    """Is an instruction written in the entry itself, not in a function that it calls?"""
    return program.entry.start <= program.instructions[index].statement.start < program.entry.end


def changed(original: Program, graft: Program) -> tuple[Changed, Changed]:
    """The stretch that differs, in each of the two; where one side has nothing there, both are widened by the next common instruction."""
    mine, theirs = _texts(original), _texts(graft)
    shorter = min(len(mine), len(theirs))
    head = next((i for i in range(shorter) if mine[i] != theirs[i]), shorter)
    tail = next((i for i in range(shorter - head) if mine[-1 - i] != theirs[-1 - i]), shorter - head)
    if head == len(mine) - tail or head == len(theirs) - tail:
        tail = max(tail - 1, 0)
    return Changed(head, len(mine) - tail - 1), Changed(head, len(theirs) - tail - 1)


def _texts(program: Program) -> list[str]:
    """Every instruction as written, blanks made one. The last one is the end of the entry, which no statement spells."""
    return [" ".join(program.source(i.index).split()) for i in program.instructions[:-1]]
