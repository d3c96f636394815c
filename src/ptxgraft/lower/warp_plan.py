"""What data flow knows about a program, as plain data, and where its lanes can stand.

Invariant: a leader is every instruction at which lanes of a warp may stand apart or wait: what a label marks in threaded code and a block in compiled code.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from ptxgraft.isa import Form, Program


@dataclass(slots=True)
class WarpPlan:
    """Blocks as (start, stop) instruction numbers, and the registers live at each one's start and end. ``uniform``: registers with one value in all lanes
    of a warp. ``joins``: instructions where paths that lanes may take apart come together."""

    blocks: Sequence[tuple[int, int]]
    live_in: Sequence[set[int]]
    live_out: Sequence[set[int]]
    uniform: frozenset[int] = frozenset()
    joins: set[int] = field(default_factory=set)

    def digest(self) -> str:
        """A name for what the plan says: code that was made from another one must not be taken for this one's."""
        facts = (
            list(self.blocks),
            [[sorted(s) for s in side] for side in (self.live_in, self.live_out)],
            sorted(self.uniform),
            sorted(self.joins),
        )
        return hashlib.sha256(repr(facts).encode()).hexdigest()


def waits(form: Form) -> bool:
    """Does a convergent form wait for other lanes? Spellings without ``.sync`` work on whoever is there."""
    return ".sync" in form.entry.spelling


def leaders_of(program: Program) -> set[int]:
    """The leaders, by instruction number."""
    leaders = {0}
    for instruction in program.instructions:
        form = instruction.form
        leaders.update(instruction.targets)
        if form is None or form.control or form.convergent:
            leaders.add(instruction.index + 1)
        if form is not None and (form.convergent or form.control == "barrier"):
            leaders.add(instruction.index)
    leaders.discard(len(program.instructions))
    return leaders


def live_at(program: Program, plan: WarpPlan, points: Sequence[int]) -> list[set[int]]:
    """The registers live just before each of ``points`` (sorted instruction numbers)."""
    wanted = set(points)
    found: dict[int, set[int]] = {}
    for (start, stop), live_out in zip(plan.blocks, plan.live_out, strict=True):
        live = set(live_out)
        for index in range(stop - 1, start - 1, -1):
            instruction = program.instructions[index]
            if instruction.guard is None:
                live.difference_update(instruction.writes)
            live.update(instruction.reads)
            if index in wanted:
                found[index] = set(live)
    return [found[p] for p in points]
