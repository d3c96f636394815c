"""Tensor-core instructions that are chains of scalar operations, written over the ``Lanes`` protocol.

Invariant: the bits are those of ``lower.numpy_mma``; each lane computes its own elements of D, fetching A's and B's from the lanes that hold them. For an instance
that has no function of its own for such a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.fragments import FragmentLayout, is_quad_pair
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.numerics import MmaPlan
from ptxgraft.lower.numpy_mma import layouts

Fma = Callable[[Value, Value, Value], Value]
"""A fused multiply-add of a plan's format and rounding."""


def is_chain(plan: MmaPlan) -> bool:
    """Can ``chain_product`` compute this plan?"""
    return plan.kind in ("f64", "fma32", "fma32.pairs")


def chain_product(lanes: Lanes, plan: MmaPlan, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], fma: Fma) -> tuple[Value, ...]:
    """D = A*B + C by a plan of kind ``f64``, ``fma32`` or ``fma32.pairs``; ``fma`` is of f64 in the plan's rounding, or of f32 to nearest."""
    left, right, addend, result = layouts(plan)
    quad_pair = is_quad_pair(plan.shape, plan.a)
    fetch_a, fetch_b, fetch_c = _Fetch(lanes, left, a), _Fetch(lanes, right, b), _Fetch(lanes, addend, c)
    registers: list[Value] = []
    for number in range(result.registers):
        parts: list[Value] = []
        for element in range(result.per_register):
            rows, columns = result.rows[number, element], result.columns[number, element]
            # The four quad pairs' matrices are stacked: B's side by side, the others below each other.
            across = columns + 8 * (rows // 8) if quad_pair else columns
            ks = [np.full(32, k) for k in range(plan.depth)]
            pairs = [(fetch_a(rows, k), fetch_b(k, across)) for k in ks]
            parts.append(_element(lanes, plan, pairs, fetch_c(rows, columns), fma))
        registers.append(lanes.concat(parts))
    return tuple(registers)


def _element(lanes: Lanes, plan: MmaPlan, pairs: Sequence[tuple[Value, Value]], c: Value, fma: Fma) -> Value:
    """One element of D for each lane."""
    if plan.kind == "f64":
        for x, y in pairs:
            c = fma(x, y, c)
        return c
    if plan.kind == "fma32":
        total = lanes.const(0, 32)
        for x, y in pairs:
            total = fma(x, y, total)
        return lanes.float_add("f32", c, total)
    for (x0, y0), (x1, y1) in (pairs[:2], pairs[2:]):
        c = lanes.float_add("f32", c, fma(x1, y1, lanes.float_mul("f32", x0, y0)))
    return lanes.float_convert("f32", "f16", c)


class _Fetch:
    """Elements of one operand, halves widened to f32; the same places are fetched once."""

    def __init__(self, lanes: Lanes, layout: FragmentLayout, registers: Sequence[Value]) -> None:
        self.lanes, self.layout, self.registers = lanes, layout, registers
        self.places = layout.places
        self.elements: dict[tuple[int, int], Value] = {}
        self.known: dict[bytes, Value] = {}

    def __call__(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Value:
        """Each lane's element at its ``rows`` and ``columns`` ([32])."""
        flat = self.places[rows, columns]
        found = self.known.get(flat.tobytes())
        if found is None:
            found = self.known[flat.tobytes()] = self._fetch(flat)
        return found

    def _fetch(self, flat: NDArray[np.int64]) -> Value:
        lanes, layout = self.lanes, self.layout
        slots, sources = flat // 32, flat % 32
        result: Value = None
        for slot in np.unique(slots).tolist():
            word = self._element(*divmod(slot, layout.per_register))
            if (sources != np.arange(32)).any():
                word = lanes.read_lane(word, self._table(sources))
            if result is None:
                result = word
            else:
                mine = lanes.compare("eq", self._table(slots), lanes.const(slot, 32))
                result = lanes.select(mine, word, result)
        return result

    def _element(self, register: int, element: int) -> Value:
        if (register, element) not in self.elements:
            word, bits = self.registers[register], self.layout.element_bits
            if bits == 16:
                word = self.lanes.float_convert("f16", "f32", self.lanes.extract(word, 16 * element, 16))
            self.elements[register, element] = word
        return self.elements[register, element]

    def _table(self, values: NDArray[np.int64]) -> Value:
        return self.lanes.lookup(tuple(values.tolist()), self.lanes.special("laneid"), 32)
