"""Words of a buffer that look like device pointers.

Invariant: looking changes nothing and follows nothing; a word counts when it lies in a live allocation that the launch does not record.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture.blobs import CHUNK_BYTES
from ptxgraft.capture.contents import Contents


@dataclass(frozen=True, slots=True)
class Ranges:
    """Address ranges in order: ``starts`` and ``ends`` (exclusive), uint64 [n]."""

    starts: NDArray[np.uint64]
    ends: NDArray[np.uint64]

    @staticmethod
    def of(live: Iterable[Sequence[int]], without: Sequence[tuple[int, int]]) -> Ranges:
        """The live (base, size) ranges that touch none of ``without``."""
        kept = [(b, b + n) for b, n in live if n and not any(b < base + size and base < b + n for base, size in without)]
        kept.sort()
        return Ranges(np.array([b for b, _ in kept], np.uint64), np.array([e for _, e in kept], np.uint64))


@dataclass(frozen=True, slots=True)
class Found:
    """How many words there are, and the first: its byte offset and value."""

    count: int
    offset: int
    word: int


def foreign_words(contents: Contents, ranges: Ranges) -> Found | None:
    """The aligned 8-byte words of ``contents`` that lie in ``ranges``; None when there are none."""
    if not len(ranges.starts):
        return None
    count, first = 0, None
    low, high = ranges.starts[0], ranges.ends.max()
    for at in range(0, contents.size - 7, CHUNK_BYTES):
        part = contents.load(at, at + CHUNK_BYTES)
        words = part[: len(part) // 8 * 8].view("<u8")
        near = np.flatnonzero((words >= low) & (words < high))
        if not len(near):
            continue
        candidates = words[near]
        place = np.searchsorted(ranges.starts, candidates, "right") - 1
        inside = near[candidates < ranges.ends[place]]
        if len(inside) and first is None:
            first = at + 8 * int(inside[0]), int(words[inside[0]])
        count += len(inside)
    return None if first is None else Found(count, *first)
