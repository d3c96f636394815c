"""Two runs of a stage, compared.

Invariant: values are compared as bits; a lane that stored in one run only differs; the first difference is that of the earliest passage, in it of the first
register, in it of the lowest block, warp and lane.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

BORDERS = ("a", "out")
"""Stages whose registers go by name; those of others go by their place, since a graft may name them otherwise."""


@dataclass(frozen=True, slots=True)
class ValueDifference:
    """One value. ``block`` is linear, x fastest; ``passage`` counts from 0, None where only the last was kept; ``expected`` and ``found`` are bits, None where
    that run stored nothing."""

    register: str
    block: int
    warp: int
    lane: int
    passage: int | None
    expected: int | None
    found: int | None


@dataclass(frozen=True, slots=True)
class StageDifference:
    """How a stage differs: values that both or one of the runs stored (``compared``), how many of them differ, by register, and the first, None when none does."""

    stage: str
    compared: int
    differing: int
    registers: dict[str, int]
    first: ValueDifference | None

    def __str__(self) -> str:
        if self.first is None:
            return f"{self.stage}: the same ({self.compared:,} values)"
        at = self.first
        passage = "" if at.passage is None else f", passage {at.passage}"
        place = f"{at.register} of block {at.block}, warp {at.warp}, lane {at.lane}{passage}"
        return f"{self.stage}: {self.differing:,} of {self.compared:,} values differ, first {place}: {_text(at.found)} instead of {_text(at.expected)}"


def _text(bits: int | None) -> str:
    return "nothing" if bits is None else f"{bits:#x}"


def paired(stage: str, expected: Mapping[str, NDArray], found: Mapping[str, NDArray]) -> dict[str, tuple[NDArray, NDArray]] | str:
    """Registers of both runs that belong together, by the first's names; or why they cannot be paired."""
    if stage in BORDERS:
        common = {r: (a, found[r]) for r, a in expected.items() if r in found}
        return common or "the two modules have no register in common there"
    if len(expected) != len(found):
        return f"the original stores {len(expected)} registers there, the graft {len(found)}"
    return {r: (a, b) for (r, a), b in zip(expected.items(), found.values(), strict=True)}


def compare_stored(
    stage: str, couples: Mapping[str, tuple[NDArray, NDArray]], came: NDArray[np.bool_], came_too: NDArray[np.bool_]
) -> StageDifference:
    """Compare registers of two runs, arrays [block, warp, lane] or [block, warp, lane, passage]; ``came`` says what each run stored."""
    registers: dict[str, int] = {}
    first: tuple[tuple[int, ...], str, tuple[int, ...]] | None = None
    for number, (register, (a, b)) in enumerate(couples.items()):
        wrong = (came != came_too) | ((a != b) & came & came_too)
        count = int(wrong.sum())
        if not count:
            continue
        registers[register] = count
        several = wrong.ndim == 4
        by_passage = np.moveaxis(wrong, -1, 0) if several else wrong
        place = tuple(int(i) for i in np.unravel_index(int(by_passage.argmax()), by_passage.shape))
        order = (place[0] if several else 0, number)
        if first is None or order < first[0]:
            first = (order, register, (*place[1:], place[0]) if several else place)
    compared = int((came | came_too).sum()) * len(couples)
    if first is None:
        return StageDifference(stage, compared, 0, {}, None)
    _, register, place = first
    a, b = couples[register]
    expected, found = int(a[place]) if came[place] else None, int(b[place]) if came_too[place] else None
    value = ValueDifference(register, place[0], place[1], place[2], place[3] if len(place) == 4 else None, expected, found)
    return StageDifference(stage, compared, sum(registers.values()), registers, value)
