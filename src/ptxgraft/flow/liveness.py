"""Which registers are live where.

Invariant: a register is live at a point exactly when some path from there reads it before writing it for certain (a guarded write
keeps it live). Sets of register numbers; points are 'just before instruction i'.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ptxgraft.flow.cfg import Cfg
from ptxgraft.isa import Program


@dataclass(slots=True, eq=False)
class Liveness:
    """Live registers at each block's start and end."""

    program: Program
    cfg: Cfg
    live_in: list[set[int]]
    live_out: list[set[int]]

    def before(self, points: Iterable[int]) -> dict[int, frozenset[int]]:
        """Registers live just before each of ``points`` (instruction indices; the count of instructions is the end: nothing is live).

        One backward walk per block that holds points.
        """
        result: dict[int, frozenset[int]] = {}
        wanted: dict[int, set[int]] = {}
        for point in points:
            if point >= len(self.program.instructions):
                result[point] = frozenset()
            else:
                wanted.setdefault(self.cfg.block_of(point).index, set()).add(point)
        instructions = self.program.instructions
        for number, here in wanted.items():
            block = self.cfg.blocks[number]
            live = set(self.live_out[number])
            lowest = min(here)
            for index in range(block.stop - 1, lowest - 1, -1):
                instruction = instructions[index]
                if instruction.guard is None:
                    live.difference_update(instruction.writes)
                live.update(instruction.reads)
                if index in here:
                    result[index] = frozenset(live)
        return result


def build_liveness(program: Program, cfg: Cfg) -> Liveness:
    """Backward data flow over the blocks, by a work list from the end."""
    instructions = program.instructions
    uses: list[set[int]] = []
    kills: list[set[int]] = []
    for block in cfg.blocks:
        use: set[int] = set()
        kill: set[int] = set()
        for instruction in instructions[block.start : block.stop]:
            for register in instruction.reads:
                if register not in kill:
                    use.add(register)
            if instruction.guard is None:
                kill.update(instruction.writes)
        uses.append(use)
        kills.append(kill)
    live_in: list[set[int]] = [set() for _ in cfg.blocks]
    live_out: list[set[int]] = [set() for _ in cfg.blocks]
    waiting = list(range(len(cfg.blocks)))
    queued = set(waiting)
    while waiting:
        number = waiting.pop()
        queued.discard(number)
        block = cfg.blocks[number]
        out = set().union(*(live_in[s] for s in block.successors)) if block.successors else set()
        new = uses[number] | (out - kills[number])
        live_out[number] = out
        if new != live_in[number]:
            live_in[number] = new
            for p in block.predecessors:
                if p not in queued:
                    queued.add(p)
                    waiting.append(p)
    return Liveness(program, cfg, live_in, live_out)
