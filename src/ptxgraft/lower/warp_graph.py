"""The blocks of a program that is compiled as one function.

Invariant: blocks begin at leaders and follow each other in program order, so that block numbers compare like program counters.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa import Instruction, Program
from ptxgraft.isa.functions import DEVICE_FUNCTIONS
from ptxgraft.lower.warp_plan import WarpPlan, leaders_of, live_at

LIMIT = 2500
"""Programs that would take longer to compile, in milliseconds by ``compile_cost``, run as threaded code."""

_COSTS = {"tensor": 6, "texture": 40, "atomic": 8, "approximate": 9, "half": 2, "warp": 2}
"""Milliseconds to compile a statement, by family; others take about one."""


def compile_cost(instruction: Instruction) -> int:
    """Milliseconds to compile a statement as part of a function (measured on one core; the order of magnitude is what counts)."""
    form = instruction.form
    if form is None:
        return 0
    if form.family == "memory":
        elements = max((r.count for r in form.roles), default=1)
        if form.loads and form.stores:  # a copy; where its size is given, it reads five times
            return 100 if sum(o is not None for o in instruction.operands) > 3 else 20
        return 3 + 2 * elements if form.loads else 4 + 4 * elements
    return 8 if form.root in ("prmt", "div", "rem") else _COSTS.get(form.family, 1)


@dataclass(slots=True)
class Graph:
    """Blocks by number: first instruction of each, its successors, the registers live at its start. ``joins`` are where the first copy can be
    entered again; ``headers`` are targets of backward branches."""

    program: Program
    starts: list[int]
    number: dict[int, int]
    live: list[set[int]]
    joins: set[int]
    headers: set[int]
    alone: set[int]

    def stop(self, block: int) -> int:
        """One past the last instruction of a block."""
        return self.starts[block + 1] if block + 1 < len(self.starts) else len(self.program.instructions)


def eligible(program: Program) -> bool:
    """Can and should the program be compiled this way?"""
    if sum(map(compile_cost, program.instructions)) > LIMIT:
        return False
    for instruction in program.instructions:
        form = instruction.form
        control = form.control if form is not None else ""
        if control == "indirect-branch" or (control == "call" and instruction.callee not in DEVICE_FUNCTIONS):
            return False
        if form is None or (not control and form.meaning is None):
            return False
        if control == "barrier" and form.slots.get("action") not in ("sync", "arrive"):
            return False
    return True


def build_graph(program: Program, plan: WarpPlan) -> Graph:
    starts = sorted(leaders_of(program))
    number = {start: i for i, start in enumerate(starts)}
    live = live_at(program, plan, starts)
    joins = {0} | {number[i] for i in plan.joins if i in number}
    headers: set[int] = set()
    entered = [0] * len(starts)
    for block, start in enumerate(starts):
        stop = starts[block + 1] if block + 1 < len(starts) else len(program.instructions)
        last = program.instructions[stop - 1]
        form = last.form
        control = form.control if form is not None else ""
        for target in last.targets:
            entered[number[target]] += 2  # never the fall-through alone
            if target <= start:
                headers.add(number[target])
        if control == "barrier" and block + 1 < len(starts):
            joins.add(block + 1)
    alone = {b for b in range(1, len(starts)) if not entered[b] and b not in joins and _falls(program.instructions[starts[b] - 1])}
    return Graph(program, starts, number, live, joins, headers, alone)


def _falls(instruction: Instruction) -> bool:
    """Does control go on behind the instruction and to no other place?"""
    return instruction.form is None or not instruction.form.control
