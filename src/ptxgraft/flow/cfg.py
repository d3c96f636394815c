"""Basic blocks of a program, and who dominates whom.

Invariant: blocks partition the program's instructions in order; an edge exists exactly where control can go, guards included.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from ptxgraft.isa import Program

LEAVES = frozenset({"return", "exit", "trap"})
"""Control kinds after which a lane does not go on."""


@dataclass(slots=True, eq=False)
class Block:
    """Instructions ``start`` .. ``stop - 1``; ``successors`` and ``predecessors`` are block numbers."""

    index: int
    start: int
    stop: int
    successors: tuple[int, ...] = ()
    predecessors: list[int] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Cfg:
    """Blocks in program order; block 0 is the entry. ``immediate_dominator[b]`` is -1 for the entry and for unreachable blocks;
    ``immediate_postdominator[b]`` is -1 where only the end of the program joins all paths."""

    blocks: list[Block]
    starts: list[int]
    immediate_dominator: list[int]
    immediate_postdominator: list[int]

    def block_of(self, index: int) -> Block:
        """The block that holds instruction ``index``."""
        return self.blocks[bisect_right(self.starts, index) - 1]

    def dominates(self, a: int, b: int) -> bool:
        """Does block ``a`` dominate block ``b``?"""
        while b > a or b != a:
            if b <= 0:
                return False
            b = self.immediate_dominator[b]
        return True


def build_cfg(program: Program) -> Cfg:
    """The control-flow graph of a program. An indirect branch goes to each of its listed targets."""
    instructions = program.instructions
    count = len(instructions)
    leaders = {0}
    for instruction in instructions:
        form = instruction.form
        if form is not None and form.control and (instruction.targets or form.control in LEAVES):
            leaders.update(instruction.targets)
            leaders.add(instruction.index + 1)
    starts = sorted(i for i in leaders if i < count)
    number = {start: i for i, start in enumerate(starts)}
    blocks = [Block(i, start, stop) for i, (start, stop) in enumerate(zip(starts, [*starts[1:], count], strict=True))]
    for block in blocks:
        last = instructions[block.stop - 1]
        control = last.form.control if last.form is not None else ""
        successors = [number[t] for t in last.targets if t < count]
        falls = last.guard is not None or (not last.targets and control not in LEAVES)
        if falls and block.stop < count:
            successors.append(block.index + 1)
        block.successors = tuple(dict.fromkeys(successors))
        for successor in block.successors:
            blocks[successor].predecessors.append(block.index)
    forward = _dominators(len(blocks), [b.predecessors for b in blocks], [b.successors for b in blocks], [0])
    exits = [b.index for b in blocks if not b.successors]
    backward = _dominators(len(blocks), [list(b.successors) for b in blocks], [b.predecessors for b in blocks], exits)
    return Cfg(blocks, starts, forward, backward)


def _dominators(count: int, incoming: list[list[int]], outgoing, roots: list[int]) -> list[int]:
    """Immediate dominators over a graph with several roots joined by a virtual one (given as -1).

    Source: Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001).
    """
    virtual = count
    order: list[int] = []
    seen = [False] * count
    for root in roots:
        stack = [(root, iter(outgoing[root]))] if not seen[root] else []
        if stack:
            seen[root] = True
        while stack:
            node, children = stack[-1]
            child = next((c for c in children if not seen[c]), None)
            if child is None:
                order.append(node)
                stack.pop()
            else:
                seen[child] = True
                stack.append((child, iter(outgoing[child])))
    postorder = {node: i for i, node in enumerate(order)}
    postorder[virtual] = len(order)
    dominator: dict[int, int] = {virtual: virtual}
    root_set = set(roots)
    changed = True
    while changed:
        changed = False
        for node in reversed(order):
            new = virtual if node in root_set else None
            for p in incoming[node]:
                if p in dominator:
                    new = p if new is None else _meet(new, p, dominator, postorder)
            if new is not None and dominator.get(node) != new:
                dominator[node] = new
                changed = True
    return [-1 if dominator.get(i, virtual) == virtual else dominator[i] for i in range(count)]


def _meet(a: int, b: int, dominator: dict[int, int], postorder: dict[int, int]) -> int:
    while a != b:
        while postorder[a] < postorder[b]:
            a = dominator[a]
        while postorder[b] < postorder[a]:
            b = dominator[b]
    return a
