"""The blocks of a program that is compiled as one function.

Invariant: blocks begin at leaders and follow each other in program order, so that block numbers compare like program counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate

from ptxgraft.isa import Address, Instruction, Program, Reg
from ptxgraft.isa.functions import DEVICE_FUNCTIONS
from ptxgraft.lower.warp_plan import WarpPlan, leaders_of, live_at

LIMIT = 1500
"""Programs that would take longer to compile, in milliseconds by ``compile_cost``, run as threaded code."""

MANY_CALLED = 24
"""With more accesses left to functions a program gets LLVM's quick passes: the full ones take a time that grows with the square of its blocks."""

IN_LOOPS, IN_PLACE = 32, 16
"""Accesses that are written out in place: so many of those in loops, and all others if there are no more than the second number in all. The rest are
functions' (``warp_called``): twice to three times as slow, and compiled ten times as fast."""

_ACCESS = 16
"""Milliseconds to compile an access in place."""

_COSTS = {"tensor": 6, "texture": 40, "atomic": 8, "approximate": 9, "half": 2, "warp": 2}
"""Milliseconds to compile a statement, by family; others take about one."""


def compile_cost(instruction: Instruction) -> int:
    """Milliseconds to compile a statement as part of a function (measured on one core; the order of magnitude is what counts), an access as a call."""
    form = instruction.form
    if form is None:
        return 0
    if form.family == "memory":
        elements = max((r.count for r in form.roles), default=1)
        if form.loads and form.stores:
            return 25 if _in_parts(instruction) else 3
        return 1 + elements // 4
    return 8 if form.root in ("prmt", "div", "rem") else _COSTS.get(form.family, 1)


def passes_for(program: Program) -> str:
    """The passes that the program's function is worth (``jit.compile_ir``)."""
    return "quick" if len(accesses_called(program)) > MANY_CALLED else "O2"


def accesses_called(program: Program) -> set[int]:
    """The loads and stores that are left to functions, by instruction number."""
    looped = _in_loops(program)
    accesses = [
        i.index for i in program.instructions if i.form is not None and i.form.family == "memory" and (i.form.loads or i.form.stores)
    ]
    accesses = [index for index in accesses if not _one_address(program.instructions[index])]
    called = {index for index in accesses if _in_parts(program.instructions[index])}
    inside = [index for index in accesses if looped[index] and index not in called]
    outside = [index for index in accesses if not looped[index] and index not in called]
    return called.union(inside[IN_LOOPS:], outside if len(inside) + len(outside) > IN_PLACE else ())


def _in_parts(instruction: Instruction) -> bool:
    """Is it a copy whose source may be shorter than it? That reads five times, and is never written out in place."""
    form = instruction.form
    return form is not None and bool(form.loads and form.stores) and sum(o is not None for o in instruction.operands) > 3


def _one_address(instruction: Instruction) -> bool:
    """Does the statement say where all lanes find it (a parameter, a variable)? That is short in place."""
    return not any(isinstance(o, Address) and isinstance(o.base, Reg) for o in instruction.operands)


def _in_loops(program: Program) -> list[bool]:
    """For each instruction: does it stand between a backward branch and its target?"""
    deeper = [0] * (len(program.instructions) + 1)
    for instruction in program.instructions:
        for target in instruction.targets:
            if target <= instruction.index:
                deeper[target] += 1
                deeper[instruction.index + 1] -= 1
    return [depth > 0 for depth in accumulate(deeper)]


@dataclass(slots=True)
class Graph:
    """Blocks by number: first instruction of each, its successors, the registers live at its start. ``joins`` are where the first copy can be
    entered again; ``headers`` are targets of backward branches. ``called`` are the accesses that functions do."""

    program: Program
    starts: list[int]
    number: dict[int, int]
    live: list[set[int]]
    joins: set[int]
    headers: set[int]
    alone: set[int]
    called: set[int]

    def stop(self, block: int) -> int:
        """One past the last instruction of a block."""
        return self.starts[block + 1] if block + 1 < len(self.starts) else len(self.program.instructions)


def eligible(program: Program) -> bool:
    """Can and should the program be compiled this way?"""
    called = accesses_called(program)
    in_place = sum(i.form is not None and i.form.family == "memory" for i in program.instructions) - len(called)
    if sum(map(compile_cost, program.instructions)) + _ACCESS * in_place > LIMIT:
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
    """The program as blocks that end where control may part or join, and what is live at their starts."""
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
    return Graph(program, starts, number, live, joins, headers, alone, accesses_called(program))


def _falls(instruction: Instruction) -> bool:
    """Does control go on behind the instruction and to no other place?"""
    return instruction.form is None or not instruction.form.control
