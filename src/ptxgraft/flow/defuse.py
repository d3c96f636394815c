"""Which writes a read can see.

Invariant: ``reaching`` lists every write of a register that some path carries to the point, and -1 when some path has none.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field

from ptxgraft.flow.cfg import Cfg
from ptxgraft.isa import Program


@dataclass(slots=True, eq=False)
class DefUse:
    """``writes[r]`` and ``reads[r]`` are instruction indices in program order."""

    program: Program
    cfg: Cfg
    writes: list[list[int]]
    reads: list[list[int]]
    _at_start: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    _single: dict[tuple[int, int], int | None] = field(default_factory=dict)

    def reaching(self, register: int, point: int) -> tuple[int, ...]:
        """Writes of ``register`` that reach the point just before instruction ``point``, sorted; -1 stands for 'never written'."""
        writes = self.writes[register]
        if not writes:
            return (-1,)
        block = self.cfg.block_of(point)
        position = bisect_left(writes, point) - 1
        if position >= 0 and writes[position] >= block.start and self.program.instructions[writes[position]].guard is None:
            return (writes[position],)  # nearly always
        found: list[int] = []
        while position >= 0 and writes[position] >= block.start:
            found.append(writes[position])
            if self.program.instructions[writes[position]].guard is None:
                return tuple(sorted(found))
            position -= 1
        return tuple(sorted({*found, *self._from_predecessors(register, block.index)}))

    def single(self, register: int, point: int) -> int | None:
        """The one unguarded write that the point sees, or None."""
        key = (register, point)
        if key in self._single:
            return self._single[key]
        found = self.reaching(register, point)
        certain = len(found) == 1 and found[0] >= 0 and self.program.instructions[found[0]].guard is None
        result = self._single[key] = found[0] if certain else None
        return result

    def _from_predecessors(self, register: int, block: int) -> tuple[int, ...]:
        key = (register, block)
        if key in self._at_start:
            return self._at_start[key]
        found: set[int] = set()
        seen: set[int] = set()
        waiting = [block]
        writes, instructions = self.writes[register], self.program.instructions
        while waiting:
            number = waiting.pop()
            if number == 0:
                found.add(-1)
            for p in self.cfg.blocks[number].predecessors:
                if p in seen:
                    continue
                seen.add(p)
                here = self.cfg.blocks[p]
                position = bisect_left(writes, here.stop) - 1
                certain = False
                while position >= 0 and writes[position] >= here.start:
                    found.add(writes[position])
                    if instructions[writes[position]].guard is None:
                        certain = True
                        break
                    position -= 1
                if not certain:
                    waiting.append(p)
        result = tuple(sorted(found))
        self._at_start[key] = result
        return result


def build_defuse(program: Program, cfg: Cfg) -> DefUse:
    """Index every read and write by register."""
    writes: list[list[int]] = [[] for _ in program.registers]
    reads: list[list[int]] = [[] for _ in program.registers]
    for instruction in program.instructions:
        index = instruction.index
        for register in instruction.writes:
            if not writes[register] or writes[register][-1] != index:
                writes[register].append(index)
        for register in instruction.reads:
            if not reads[register] or reads[register][-1] != index:
                reads[register].append(index)
    return DefUse(program, cfg, writes, reads)
