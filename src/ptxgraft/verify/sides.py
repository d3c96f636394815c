"""Two versions of an entry on one launch, each on its executor, and what probes in both say.

Invariant: values are compared as bits; where the two executors put memory at different places, what only says where something lies is brought to the
launch's own addresses first, or left out when that cannot be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.graft import StageDifference, compare_stored, paired
from ptxgraft.isa import Program, Special, Var
from ptxgraft.verify.compare import compare
from ptxgraft.verify.model import Verdict
from ptxgraft.verify.oracle import Oracle, Readings, consult
from ptxgraft.verify.replay import replay

OWN_SPACES = frozenset({"shared", "local", "param"})
"""Spaces whose addresses every executor chooses for itself."""
OF_THE_MACHINE = frozenset(
    {
        "clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi", "smid", "nsmid", "warpid", "nwarpid", "gridid",
        "dynamic_smem_size", "total_smem_size", "aggr_smem_size", "envreg1", "envreg2",
    }
)  # fmt: skip
"""Special registers that say something about the machine or the time, not about the launch."""

Moved = Iterable[tuple[int, int, int]]


@dataclass(slots=True)
class Place:
    """Where one side runs."""

    on: str = "cpu"
    engine: str = "warp"
    profile: str = "sm_90"
    timeout: float | None = None
    assembler: str = "driver"

    def options(self) -> dict[str, Any]:
        """For ``replay`` and ``consult``."""
        return {"on": self.on, "engine": self.engine, "profile": self.profile, "timeout": self.timeout, "assembler": self.assembler}


@dataclass(eq=False)
class Sides:
    """The entry in its two versions, bound, the launch, and where each runs: the original first."""

    entry: str
    mine: Program
    theirs: Program
    launch: capture.Launch
    places: tuple[Place, Place] = field(default_factory=lambda: (Place(), Place()))

    @property
    def apart(self) -> bool:
        """Do the two run on different executors?"""
        return self.places[0].on != self.places[1].on

    def consult(self, oracles: tuple[Oracle, Oracle]) -> tuple[Readings, Readings]:
        """Run both sides' probes."""
        mine, theirs = (consult(o, self.launch, check=False, **p.options()) for o, p in zip(oracles, self.places, strict=True))
        return mine, theirs

    def outputs(self) -> Verdict | None:
        """What both sides leave without probes, compared; None when a launch leaves nothing."""
        documents = self.mine.document, self.theirs.document
        mine, theirs = (
            replay(self.launch, d, entry=self.entry, **p.options()).outputs for d, p in zip(documents, self.places, strict=True)
        )
        return compare(mine, theirs) if any(o.data.size for o in mine) else None

    @cached_property
    def private(self) -> set[str]:
        """The original's registers whose values an executor may choose: addresses of its own spaces, and what the machine says of itself."""
        return {self.mine.registers[r].name for r in executors_own(self.mine)} if self.apart else set()

    def difference(self, stages: tuple[str, str], readings: tuple[Readings, Readings]) -> StageDifference | str:
        """A stage (original's name, graft's name) in both runs, or why it cannot be compared."""
        (mine, theirs), (stage, other) = readings, stages
        came, came_too = mine.stored[stage], theirs.stored[other]
        expected, found = mine.stages.get(stage), theirs.stages.get(other)
        if expected is None and found is None:
            return "no lane of either run came there"
        # Where only one of the runs came, any register shows it.
        couples = paired(stage, expected or found or {}, found or expected or {})
        if isinstance(couples, str):
            return couples
        if self.apart:
            couples = {name: pair for name, pair in couples.items() if name.split("#")[0] not in self.private}
            if not couples:
                return "all its registers hold what each executor chooses for itself"
        moved = mine.replay.result.moved, theirs.replay.result.moved
        if any(moved):
            couples = {name: (a, _as_expected(a, b, *moved)) for name, (a, b) in couples.items()}
        return compare_stored(stage, couples, came, came_too)


def _as_expected(a: NDArray, b: NDArray, moved: Moved, moved_too: Moved) -> NDArray:
    """``b``, with those values made the same as ``a``'s that name the same byte of the launch's memory or the same handle."""
    if a.dtype.itemsize != 8:
        return b
    return np.where(_home(a, moved) == _home(b, moved_too), a, b)


def _home(values: NDArray, moved: Moved) -> NDArray:
    """Values with addresses and handles of an executor exchanged for the launch's own."""
    result = values.copy()
    for base, size, there in moved:
        inside = (values >= np.uint64(there)) & (values < np.uint64(there + size))
        result[inside] = values[inside] - np.uint64(there) + np.uint64(base)
    return result


def executors_own(program: Program) -> set[int]:
    """Registers that may hold an address of shared, local or parameter memory, or what a machine says of itself, or what is computed from these."""
    marked: set[int] = set()
    growing = True
    while growing:
        before = len(marked)
        for instruction in program.instructions:
            form = instruction.form
            if form is None or not instruction.writes:
                continue
            from_source = any(_is_own(program, o) for o in instruction.operands) or (
                form.root == "cvta" and form.loads == "" and _leaves(form.opcode)
            )
            if from_source or (form.loads == "" and marked.intersection(instruction.reads)):
                marked.update(instruction.writes)
        growing = len(marked) > before
    return marked


def _leaves(opcode: str) -> bool:
    """Does a ``cvta`` go to or from a space that an executor places?"""
    return any(word in OWN_SPACES for word in opcode.replace("::", ".").split("."))


def _is_own(program: Program, operand: object) -> bool:
    if isinstance(operand, Var):
        return program.variables[operand.id].space in OWN_SPACES
    return isinstance(operand, Special) and operand.name in OF_THE_MACHINE


def entry_statements(program: Program, after: float, last: float) -> Sequence[int]:
    """Instructions behind ``after`` up to ``last`` that the entry itself spells and that write registers."""
    start, end = program.entry.start, program.entry.end
    return [
        i.index
        for i in program.instructions[:-1]
        if after < i.index <= last and i.writes and start <= i.statement.start < end
    ]  # fmt: skip
