"""m8n8k4 on f16, four products of quad pairs, as four products of m16n8k8: for an instance that has a function for those alone.

Invariant: the bits are those of ``lower.numpy_mma``. Each quad pair's matrices become the upper left part of a larger product whose other elements are +0; these have no part in
a sum, neither in its largest exponent nor in its value.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.fragments import FragmentLayout, is_quad_pair
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.numerics import MmaPlan
from ptxgraft.lower.numpy_mma import layouts

Numbers = NDArray[np.int64]
Product = Callable[[MmaPlan, Sequence[Value], Sequence[Value], Sequence[Value]], tuple[Value, ...]]

_GROUP, _THREAD = np.arange(32) >> 2, np.arange(32) & 3


def is_quad_pair_sum(plan: MmaPlan) -> bool:
    """Can ``quad_pair_product`` compute this plan?"""
    return is_quad_pair(plan.shape, plan.a) and plan.kind in ("float", "exact")


def quad_pair_product(
    lanes: Lanes, plan: MmaPlan, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value], product: Product
) -> tuple[Value, ...]:
    """D = A*B + C; ``product`` computes a plan of m16n8k8."""
    left, right, addend, result = layouts(plan)
    inner = replace(plan, name=f"{plan.name}.quads", shape="m16n8k8", layouts=("row", "col"))
    zero = lanes.const(0, 32)
    results = []
    for quad in range(4):
        rows, pair = 8 * quad + _GROUP, [2 * _THREAD, 2 * _THREAD + 1]
        # Of eight k only four are there.
        upper = lanes.concat([_gathered(lanes, left, a, rows, k, k < 4) for k in pair])
        sides = lanes.concat([_gathered(lanes, right, b, k, rows, k < 4) for k in pair])
        sums = [_gathered(lanes, addend, c, rows, column) for column in pair]
        if plan.c == "f16":
            sums = [lanes.concat(sums)]
        results.append(product(inner, [upper, zero], [sides], [*sums, *[zero] * len(sums)]))
    registers = []
    for number in range(result.registers):
        parts = [_spread(lanes, plan, results, result.rows[number, i], result.columns[number, i]) for i in range(result.per_register)]
        registers.append(lanes.concat(parts))
    return tuple(registers)


def _table(lanes: Lanes, values: Numbers) -> Value:
    """A number for each lane (b32)."""
    return lanes.lookup(tuple(values.tolist()), lanes.special("laneid"), 32)


def _chosen(lanes: Lanes, choices: Sequence[tuple[NDArray[np.bool_], Value]]) -> Value:
    """For each lane the value whose mask has it; the first one elsewhere."""
    value = choices[0][1]
    for mask, other in choices[1:]:
        here = lanes.compare("ne", _table(lanes, mask.astype(np.int64)), lanes.const(0, 32))
        value = lanes.select(here, other, value)
    return value


def _part(lanes: Lanes, word: Value, bits: int, number: int) -> Value:
    return word if bits == 32 else lanes.extract(word, bits * number, bits)


def _gathered(
    lanes: Lanes,
    layout: FragmentLayout,
    registers: Sequence[Value],
    rows: Numbers,
    columns: Numbers,
    there: NDArray[np.bool_] | None = None,
) -> Value:
    """Each lane's element at its row and column of a fragment; +0 where it is not ``there``."""
    inside = np.ones(32, bool) if there is None else there
    flat = layout.places[np.where(inside, rows, 0), np.where(inside, columns, 0)]
    slots, sources = flat // 32, _table(lanes, flat % 32)
    choices: list[tuple[NDArray[np.bool_], Value]] = [] if inside.all() else [(~inside, lanes.const(0, layout.element_bits))]
    for slot in np.unique(slots[inside]).tolist():
        register, element = divmod(slot, layout.per_register)
        word = _part(lanes, registers[register], layout.element_bits, element)
        choices.append((inside & (slots == slot), lanes.read_lane(word, sources)))
    return _chosen(lanes, choices)


def _spread(lanes: Lanes, plan: MmaPlan, results: Sequence[Sequence[Value]], rows: Numbers, columns: Numbers) -> Value:
    """Each lane's element at its row and column of the stacked results."""
    sources = _table(lanes, 4 * (rows % 8) + columns // 2)
    choices = []
    for quad, odd in sorted(set(zip((rows // 8).tolist(), (columns % 2).tolist(), strict=True))):
        word = results[quad][odd] if plan.d == "f32" else lanes.extract(results[quad][0], 16 * odd, 16)
        choices.append(((rows // 8 == quad) & (columns % 2 == odd), lanes.read_lane(word, sources)))
    return _chosen(lanes, choices)
