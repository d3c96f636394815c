"""The heap that a kernel's ``malloc`` and ``free`` work on.

Invariant: blocks are aligned to 16 bytes and never overlap; the first that is free and large enough is taken. The heap outlives a launch: what one
kernel takes another may free.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ptxgraft.isa.program import Program, align_up
from ptxgraft.run.memory import FILL, Allocation, allocate, clear_of

HEAP_BYTES = 8 << 20
"""CUDA's default (cudaLimitMallocHeapSize)."""

HEAP_ADDRESS = 0x7C00_0000_0000
"""Where heaps are put, unless something lies there."""

_UNIT = 16


@dataclass(eq=False)
class Heap:
    """``used`` are the sizes of taken blocks by address, ``freed`` addresses that were taken once, ``gaps`` the free (address, size), by address."""

    allocation: Allocation
    used: dict[int, int] = field(default_factory=dict)
    freed: set[int] = field(default_factory=set)
    gaps: list[tuple[int, int]] = field(default_factory=list)

    def take(self, size: int) -> int:
        """The address of a fresh block, 0 when there is no room for it. What it holds is the fill of memory that nobody wrote."""
        size = max(_UNIT, align_up(size, _UNIT))
        for i, (address, room) in enumerate(self.gaps):
            if room < size:
                continue
            self.gaps[i : i + 1] = [(address + size, room - size)] if room > size else []
            self.used[address] = size
            self.freed.discard(address)
            start = address - self.allocation.base
            self.allocation.data[start : start + size] = FILL
            return address
        return 0

    def give_back(self, address: int) -> str:
        """Free a block; why it cannot be, or an empty text."""
        if address == 0:
            return ""
        size = self.used.pop(address, None)
        if size is None:
            return f"frees {address:#x} a second time" if address in self.freed else f"frees {address:#x}, which malloc did not give"
        self.freed.add(address)
        gaps: list[tuple[int, int]] = []
        for start, room in sorted([*self.gaps, (address, size)]):
            if gaps and gaps[-1][0] + gaps[-1][1] == start:
                start, room = gaps[-1][0], gaps.pop()[1] + room
            gaps.append((start, room))
        self.gaps = gaps
        return ""


def uses_heap(program: Program) -> bool:
    """Does a program take memory of the heap, or free it?"""
    return any(i.callee in ("malloc", "free") for i in program.instructions)


def make_heap(others: Sequence[Allocation], size: int = HEAP_BYTES) -> Heap:
    """An empty heap clear of other allocations."""
    base = clear_of(others, HEAP_ADDRESS, size)
    return Heap(allocate(base, size, "the heap"), gaps=[(base, size)])
