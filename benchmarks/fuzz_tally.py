"""What a fuzzing run found: counts by kind and root, and each difference as a case that can be run again.

Invariant: a result is one output of one thread; it agrees when the GPU and every CPU engine asked gave the same bits. What was left out is counted too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fuzz_kernels import Block, Kernel
from ptxgraft.isa import TYPES

KEPT = 3
"""Cases kept for one kind, label and set of machines that disagree."""
MOST = 120
"""Cases kept by one worker."""
SHOWN = 4

Answers = Mapping[str, NDArray[np.uint64]]
"""What each machine (``gpu``, ``warp``, ``numpy``) gave: uint64[words, rows] each."""


RESULTS, DIFFERING, OPTIMISER, NANS = range(4)
"""Columns of a count: results compared; those that differ; those that differ only as ptxas optimises; those that are two NaNs of unlike bits, in
sequences, where the order of operands is the compiler's."""

SEQUENCES = frozenset({"fold", "chains", "control", "memory"})
"""Kinds in which instructions are fused and reordered."""

_NANS = {
    "f16": (16, 0x7C00),
    "bf16": (16, 0x7F80),
    "f32": (32, 0x7F800000),
    "f64": (64, 0x7FF << 52),
    "f16x2": (16, 0x7C00),
    "bf16x2": (16, 0x7F80),
}
"""Width of an element and the magnitude above which it is a NaN."""


def _both_nan(hint: str, a: NDArray[np.uint64], b: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Are the values NaNs on both sides wherever they differ?"""
    if hint not in _NANS:
        return np.zeros(a.shape, bool)
    width, infinity = _NANS[hint]
    magnitude, mask = np.uint64((1 << (width - 1)) - 1), np.uint64((1 << width) - 1)
    good = np.ones(a.shape, bool)
    for at in range(0, 32 if hint.endswith("x2") else width, width):
        x, y = ((v >> np.uint64(at)) & mask for v in (a, b))
        good &= (x == y) | (((x & magnitude) > np.uint64(infinity)) & ((y & magnitude) > np.uint64(infinity)))
    return good


_ROUNDINGS = ("rn", "rz", "rm", "rp", "rna", "rni", "rzi", "rmi", "rpi")


def rounding_of(opcode: str) -> str:
    """Root, rounding and types of an opcode that says how it rounds: ``cvt.rz.f16.f32``; '' for others."""
    root, *words = opcode.split(".")
    rounding = [w for w in words if w in _ROUNDINGS]
    return ".".join([root, *rounding, *(w for w in words if w in TYPES)]) if rounding else ""


@dataclass(frozen=True, slots=True)
class Difference:
    """A block in which machines disagree: which of them are unlike the first, and how many results by the root that made them."""

    block: int
    unlike: str
    counts: list[tuple[str, int]]


@dataclass(slots=True)
class Tally:
    """Sums of one worker, or of all. ``roundings``: results of single instructions that agree, by ``rounding_of``."""

    compared: dict[str, dict[str, list[int]]] = field(default_factory=lambda: defaultdict(dict))
    roundings: Counter[str] = field(default_factory=Counter)
    kernels: Counter[str] = field(default_factory=Counter)
    seconds: dict[str, dict[str, float]] = field(default_factory=lambda: defaultdict(dict))
    refused: Counter[str] = field(default_factory=Counter)
    errors: list[dict[str, Any]] = field(default_factory=list)
    cases: list[dict[str, Any]] = field(default_factory=list)
    kept: Counter[tuple[str, str, str]] = field(default_factory=Counter)

    def add(self, kernel: Kernel, answers: Answers) -> list[Difference]:
        """Count a kernel's results; what differs counts as such until ``settle`` says otherwise. A result belongs to the root that made it."""
        self.kernels[kernel.kind] += 1
        first, *others = answers
        rows, found, word = kernel.rows, [], 0
        for number, block in enumerate(kernel.blocks):
            unlike: set[str] = set()
            counts: list[tuple[str, int]] = []
            for out in block.outs:
                wrong, nans = np.zeros(rows, bool), np.zeros(rows, bool)
                for other in others:
                    a, b = (answers[machine][word : word + out.words] for machine in (first, other))
                    differs = (a != b).any(axis=0)
                    if not differs.any():
                        continue
                    open_ = differs & ~_both_nan(out.register.hint, a[0], b[0]) if kernel.kind in SEQUENCES else differs
                    nans |= differs & ~open_
                    wrong |= open_
                    if open_.any():
                        unlike.add(other)
                row = self._row(kernel.kind, out.root)
                row[RESULTS] += rows
                row[DIFFERING] += int(wrong.sum())
                row[NANS] += int((nans & ~wrong).sum())
                counts.append((out.root, int(wrong.sum())))
                word += out.words
            if kernel.kind == "forms" and not unlike and (name := rounding_of(block.label)):
                self.roundings[name] += rows * len(block.outs)
            if unlike:
                found.append(Difference(number, "+".join(sorted(unlike)), counts))
        return found

    def _row(self, kind: str, root: str) -> list[int]:
        return self.compared[kind].setdefault(root, [0, 0, 0, 0])

    def settle(self, kernel: Kernel, difference: Difference) -> None:
        """A difference turned out to be the optimiser's: without it the GPU gives what the CPU does."""
        for root, count in difference.counts:
            row = self._row(kernel.kind, root)
            row[DIFFERING] -= count
            row[OPTIMISER] += count

    def wants(self, kernel: Kernel, block: Block, unlike: str) -> bool:
        """Is another case of this sort worth keeping?"""
        key = (kernel.kind, block.label, unlike)
        self.kept[key] += 1
        return self.kept[key] <= KEPT and len(self.cases) < MOST

    def spend(self, kind: str, what: str, seconds: float) -> None:
        """Add up where time goes."""
        spent = self.seconds[kind]
        spent[what] = spent.get(what, 0.0) + seconds

    def merge(self, other: Mapping[str, Any]) -> None:
        """Add what another worker's ``plain`` says."""
        for kind, roots in other["compared"].items():
            for root, counts in roots.items():
                row = self._row(kind, root)
                for i, count in enumerate(counts):
                    row[i] += count
        self.kernels.update(other["kernels"])
        self.roundings.update(other["roundings"])
        self.refused.update(other["refused"])
        for kind, spent in other["seconds"].items():
            for what, seconds in spent.items():
                self.spend(kind, what, seconds)
        self.errors += other["errors"]
        self.cases += other["cases"]

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        seconds = {k: {w: round(s, 2) for w, s in spent.items()} for k, spent in self.seconds.items()}
        return {
            "compared": dict(self.compared), "roundings": dict(self.roundings), "kernels": dict(self.kernels), "seconds": seconds, "refused": dict(self.refused),
            "errors": self.errors, "cases": self.cases,
        }  # fmt: skip

    def total(self, column: int = RESULTS) -> int:
        """A column's sum over everything."""
        return sum(row[column] for roots in self.compared.values() for row in roots.values())

    def by_root(self) -> dict[str, list[int]]:
        """Counts by the root of the instruction that made the results, over all kinds."""
        total: dict[str, list[int]] = {}
        for roots in self.compared.values():
            for root, counts in roots.items():
                row = total.setdefault(root, [0] * len(counts))
                for i, count in enumerate(counts):
                    row[i] += count
        return dict(sorted(total.items()))


def case_of(kernel: Kernel, block: int, parts: Answers) -> dict[str, Any]:
    """A difference as JSON: the block, one warp's inputs, and what each machine gave (``parts``: the block's words) in the first rows that differ."""
    first = next(iter(parts.values()))
    wrong = np.flatnonzero(np.any([(v != first).any(axis=0) for v in parts.values()], axis=0))
    warp = slice(int(wrong[0]) // 32 * 32, int(wrong[0]) // 32 * 32 + 32)
    shown = [
        {"row": int(r), "inputs": _hex(kernel.inputs[:, r]), **{name: _hex(v[:, r]) for name, v in parts.items()}} for r in wrong[:SHOWN]
    ]
    return {
        "kind": kernel.kind,
        "seed": list(kernel.seed),
        "label": kernel.blocks[block].label,
        "block": kernel.blocks[block].lines,
        "outs": [[o.register.name, o.register.width, o.root] for o in kernel.blocks[block].outs],
        "rows": kernel.rows,
        "differing": len(wrong),
        "shown": shown,
        "warp": [_hex(row) for row in kernel.inputs[:, warp]],
    }


def _hex(values: NDArray[np.uint64]) -> list[str]:
    return [f"{int(v):x}" for v in values]
