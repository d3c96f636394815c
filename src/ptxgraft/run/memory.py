"""Device memory on the host: allocations at the addresses that a kernel knows them by.

Invariant: allocations neither overlap each other nor the windows through which generic addresses reach shared, local and parameter memory; an
allocation's bytes are followed by at least ``PADDING`` bytes that may be read and never count.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError
from ptxgraft.isa.program import align_up

WINDOW_BYTES = 1 << 24
"""Size of each window; shared and local memory are far smaller on every chip."""

SHARED_WINDOW = 1 << 56
LOCAL_WINDOW = 2 << 56
PARAM_WINDOW = 3 << 56
"""Where the windows begin. No driver gives addresses of more than 56 bits, so no allocation lies there."""

WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_WINDOW}

PADDING = 64
ALIGNMENT = 64

FILL = 0xCC
"""What a byte of shared or local memory holds before anything is stored there: not zero, so that reading it shows."""

FIRST_ADDRESS = 0x7F00_0000_0000
"""Where memory made here (not captured) begins."""

GAP = 1 << 16
"""Bytes between allocations made here, so that a run past the end meets nothing."""


def padded(size: int, fill: int = 0) -> NDArray[np.uint8]:
    """``size`` bytes, 64-byte aligned in the host's memory, with padding behind (both filled with ``fill``)."""
    whole = np.full(size + PADDING + ALIGNMENT * 2, fill, dtype=np.uint8)
    start = -whole.ctypes.data % ALIGNMENT
    return whole[start : start + size]


@dataclass(slots=True, eq=False)
class Allocation:
    """``data`` is uint8[size], the contents of the addresses ``base`` .. ``base + size - 1``; ``name`` is what messages call it."""

    base: int
    data: NDArray[np.uint8]
    name: str = ""

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def end(self) -> int:
        return self.base + self.data.size

    def __str__(self) -> str:
        return f"{self.name or 'the allocation'} ({self.size} bytes at {self.base:#x})"


def allocate(base: int, contents: NDArray | bytes | int, name: str = "") -> Allocation:
    """An allocation holding a copy of ``contents`` (any array, or bytes), or that many zero bytes."""
    if isinstance(contents, int):
        return Allocation(base, padded(contents), name)
    if isinstance(contents, bytes):
        source = np.frombuffer(contents, dtype=np.uint8)
    else:
        source = np.ascontiguousarray(contents).reshape(-1).view(np.uint8)
    data = padded(source.size)
    data[:] = source
    return Allocation(base, data, name)


def behind(end: int) -> int:
    """Where an allocation is put behind one that ends at ``end``: at a multiple of ``GAP``, at least ``GAP`` away."""
    return align_up(end + GAP, GAP)


def clear_of(others: Sequence[Allocation], base: int, size: int, step: int = 1 << 36) -> int:
    """Where ``size`` bytes touch no other allocation: at ``base``, or so many times ``step`` below it."""
    while any(a.base < base + size and base < a.end for a in others):
        base -= step
    return base


class Memory:
    """The allocations of a launch, sorted by address. Raises ``UsageError`` when two overlap or one lies in a window."""

    def __init__(self, allocations: Sequence[Allocation]) -> None:
        self.allocations = sorted(allocations, key=lambda a: a.base)
        self.bases = [a.base for a in self.allocations]
        for low, high in zip(self.allocations, self.allocations[1:], strict=False):
            if low.end > high.base:
                raise UsageError(f"{low} and {high} overlap")
        if self.allocations and self.allocations[-1].end > SHARED_WINDOW:
            raise UsageError(f"{self.allocations[-1]} lies above {SHARED_WINDOW:#x}, where shared and local memory are seen")

    def find(self, address: int) -> Allocation | None:
        """The allocation that contains the byte at ``address``."""
        i = bisect_right(self.bases, address) - 1
        if i >= 0 and address < self.allocations[i].end:
            return self.allocations[i]
        return None

    def nearest(self, address: int) -> Allocation | None:
        """The allocation that holds ``address`` or comes closest to it; None when there is none at all."""
        i = bisect_right(self.bases, address) - 1
        around = [a for a in self.allocations[max(i, 0) : i + 2] if a is not None]
        return min(around, key=lambda a: max(a.base - address, address - a.end, 0), default=None)

    def next_free(self) -> int:
        """Where an allocation may be put: behind all others, with a gap."""
        top = self.allocations[-1].end if self.allocations else 0
        return max(FIRST_ADDRESS, behind(top))

    def describe(self, address: int) -> str:
        """Where an address lies beside the nearest allocation, for messages."""
        found = self.nearest(address)
        if found is None:
            return "the launch has no memory"
        if address < found.base:
            return f"{found.base - address} bytes before {found}"
        if address < found.end:
            return f"{found.end - address} bytes before the end of {found}"
        return f"{address - found.end} bytes past the end of {found}"
