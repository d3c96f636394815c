"""``wmma``: fragments in memory and products of them, made of ``mma.sync`` fragments and products.

Invariant: a fragment's registers are the hardware's, so that captured ones can be compared. The manual leaves the layout open; this one, and what is multiplied
with what in which order, was read off an H200 (PTX assembled by 13.0): every shape is a few ``mma.sync`` side by side, m8n32 the transposed m32n8. f16 operands fill
eight registers by repeating themselves, of which the first ones count. Layouts for other targets are assumed to be the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import FragmentLayout, shape_of
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.numerics import MANUAL, MmaPlan, mma_plan

WMMA_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "bf16": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "tf32": ("m16n16k8",),
    "f64": ("m8n8k4",),
    "s8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "u8": ("m16n16k16", "m8n32k16", "m32n8k16"),
    "s4": ("m8n8k32",),
    "u4": ("m8n8k32",),
    "b1": ("m8n8k128",),
}
"""The shapes of ``wmma`` by the element type of A and B."""

_F16_REGISTERS = 8


@dataclass(frozen=True, slots=True)
class Tiling:
    """A ``wmma`` shape as ``mma.sync`` products of ``shape``: two side by side that share A (``split`` b) or B (``split`` a), or one (``split`` '').

    ``transposed``: computed as D' = B' A', A and B having changed places.
    """

    shape: str
    split: str
    transposed: bool

    @property
    def tiles(self) -> int:
        return 2 if self.split else 1


_TILINGS = {
    "m16n16k16": Tiling("m16n8k16", "b", False),
    "m16n16k8": Tiling("m16n8k8", "b", False),
    "m32n8k16": Tiling("m16n8k16", "a", False),
    "m8n32k16": Tiling("m16n8k16", "a", True),
}


def tiling(shape: str) -> Tiling:
    """The products of a ``wmma`` shape; an 8x8 one is a single ``mma.sync``."""
    return _TILINGS.get(shape) or Tiling(shape, "", False)


@cache
def wmma_layout(shape: str, element_type: str, operand: str) -> FragmentLayout:
    """The layout of ``operand`` (A, B, C or D) of a ``wmma`` of ``shape``; ``element_type`` is the operand's own. The same for matrices by row and by column.

    Unlike in ``mma.sync``, an element of an f16 A or B may lie in several places. ``UnsupportedError`` for a shape or type that no ``wmma`` has.
    """
    shapes = {s for every in WMMA_SHAPES.values() for s in every} if operand in ("C", "D") else WMMA_SHAPES.get(element_type, ())
    if shape not in shapes:
        raise UnsupportedError(
            f"no wmma has an operand {operand} of shape {shape} and type {element_type}",
            hint=f"shapes: {', '.join(sorted(shapes)) or 'none'}",
        )
    how = tiling(shape)
    m, n, k = shape_of(shape)
    inner = {"A": "B", "B": "A"}.get(operand, operand) if how.transposed else operand
    one = FragmentLayout.of(how.shape, element_type, inner)
    copies = how.tiles if inner.lower() in (how.split, "c", "d") else 1
    # A second tile lies below the first one when A is split, else to the right of it.
    below, right = (one.matrix[0], 0) if how.split == "a" else (0, one.matrix[1])
    rows = np.concatenate([one.rows + tile * below for tile in range(copies)])
    columns = np.concatenate([one.columns + tile * right for tile in range(copies)])
    if element_type == "f16" and operand in "AB":
        repeats = (_F16_REGISTERS // len(rows), 1, 1)
        rows, columns = np.tile(rows, repeats), np.tile(columns, repeats)
    if how.transposed:
        rows, columns = columns, rows
    matrix = {"A": (m, k), "B": (k, n)}.get(operand, (m, n))
    return replace(one, shape=shape, operand=operand, matrix=matrix, rows=rows, columns=columns)


# -- memory -----------------------------------------------------------------------------------------------------------
class _Places:
    """The addresses of one fragment's elements: what each lane adds to ``p`` is linear in lane / 4 and lane % 4, the same for all registers."""

    def __init__(self, lanes: Lanes, layout: FragmentLayout, by_rows: bool, p: Value, stride: Value | None) -> None:
        self.lanes, self.layout = lanes, layout
        self.major, self.minor = (layout.rows, layout.columns) if by_rows else (layout.columns, layout.rows)
        width, bits = lanes.width(p), layout.element_bits
        if stride is None:
            self.pitch = lanes.const(layout.matrix[1 if by_rows else 0] * bits // 8, width)
        else:
            # Elements of less than a byte: the stride is a multiple of what fills a word.
            self.pitch = lanes.shift_right(self._times(lanes.resize(stride, width), bits), lanes.const(3, 32))
        lane = lanes.special("laneid")
        group = lanes.resize(lanes.shift_right(lane, lanes.const(2, 32)), width)
        thread = lanes.resize(lanes.and_(lane, lanes.const(3, 32)), width)
        self.base = p
        for step, at in ((group, 4), (thread, 1)):
            runs, elements = (int(x[0, 0, at] - x[0, 0, 0]) for x in (self.major, self.minor))
            self._move(self._times(lanes.mul(step, self.pitch), runs) if runs else None)
            self._move(self._times(step, elements * bits // 8) if elements else None)

    def _times(self, value: Value, factor: int) -> Value:
        return self.lanes.mul(value, self.lanes.const(factor, self.lanes.width(value)))

    def _move(self, offset: Value | None) -> None:
        if offset is not None:
            self.base = self.lanes.add(self.base, offset)

    def address(self, register: int, element: int) -> Value:
        """Where an element lies (of several in a byte: the first)."""
        lanes, place = self.lanes, (register, element, 0)
        run, offset = int(self.major[place]), int(self.minor[place]) * self.layout.element_bits // 8
        address = lanes.add(self.base, self._times(self.pitch, run)) if run else self.base
        return lanes.add(address, lanes.const(offset, lanes.width(address))) if offset else address

    def together(self, register: int) -> bool:
        """Do all elements of a register lie side by side?"""
        first = self.minor[register, 0, 0]
        beside = self.minor[register, :, 0] - first == np.arange(self.layout.per_register)
        return bool((beside & (self.major[register, :, 0] == self.major[register, 0, 0])).all())


def wmma_load(lanes: Lanes, layout: FragmentLayout, by_rows: bool, space: str, p: Value, stride: Value | None) -> Value | tuple[Value, ...]:
    """The registers of a fragment from the matrix at ``p``; ``stride`` (b32) is in elements from row to row, or from column to column."""
    places = _Places(lanes, layout, by_rows, p, stride)
    registers: list[Value] = []
    for register in range(layout.registers):
        if places.together(register):
            registers += lanes.load(space, places.address(register, 0), layout.register_bits)
        else:
            parts = [lanes.load(space, places.address(register, i), layout.element_bits)[0] for i in range(layout.per_register)]
            registers.append(lanes.concat(parts))
    return registers[0] if len(registers) == 1 else tuple(registers)


def wmma_store(
    lanes: Lanes, layout: FragmentLayout, by_rows: bool, space: str, p: Value, registers: Sequence[Value], stride: Value | None
) -> None:
    """The reverse of ``wmma_load`` for a D."""
    places, bits = _Places(lanes, layout, by_rows, p, stride), layout.element_bits
    for number, register in enumerate(registers):
        if places.together(number):
            lanes.store(space, places.address(number, 0), [register])
            continue
        for i in range(layout.per_register):
            lanes.store(space, places.address(number, i), [lanes.extract(register, i * bits, bits)])


# -- products ---------------------------------------------------------------------------------------------------------
def _halves_to_floats(lanes: Lanes, registers: Sequence[Value]) -> list[Value]:
    halves = [lanes.extract(register, 16 * half, 16) for register in registers for half in (0, 1)]
    return [lanes.float_convert("f16", "f32", half) for half in halves]


def _floats_to_halves(lanes: Lanes, registers: Sequence[Value]) -> list[Value]:
    halves = [lanes.float_convert("f32", "f16", register, "rn") for register in registers]
    return [lanes.concat(halves[i : i + 2]) for i in range(0, len(halves), 2)]


@cache
def wmma_plans(
    shape: str, d: str, element: str, c: str, profile: str, rounding: str = "", satfinite: bool = False, bit_op: str = ""
) -> tuple[MmaPlan, ...]:
    """The ``mma.sync`` of one tile, along ascending k: one, but two of k 4 for tf32. f16 results from f32 are rounded after them. On the profile ``manual`` there is
    one sum, rounded once.

    ``UnsupportedError`` where their bits are not known.
    """
    inner, between = tiling(shape).shape, "f32" if "f32" in (d, c) else d
    exact = profile == MANUAL
    shapes = ("m16n8k4", "m16n8k4") if element == "tf32" and not exact else (inner,)
    return tuple(
        mma_plan(s, d if exact else between, element, element, between, profile, rounding=rounding, satfinite=satfinite, bit_op=bit_op)
        for s in shapes
    )


def wmma_product(
    lanes: Lanes, shape: str, plans: Sequence[MmaPlan], d: str, ct: str, a: Sequence[Value], b: Sequence[Value], c: Sequence[Value]
) -> tuple[Value, ...]:
    """D = A*B + C on ``wmma`` fragments; ``d`` and ``ct`` are the types of D and C."""
    how = tiling(shape)
    left, right = (b, a) if how.transposed else (a, b)
    if ct == "f16" and d == "f32":
        c = _halves_to_floats(lanes, c)
    counts = {o: FragmentLayout.of(how.shape, t, o).registers for o, t in (("A", plans[0].a), ("B", plans[0].b), ("C", plans[0].c))}
    results: list[Value] = []
    for tile in range(how.tiles):
        first, second = (tile * counts[o] if how.split == o.lower() else 0 for o in "AB")
        total = tuple(c[tile * counts["C"] : (tile + 1) * counts["C"]])
        for number, plan in enumerate(plans):
            m, n = counts["A"] // len(plans), counts["B"] // len(plans)
            x, y = first + number * m, second + number * n
            total = lanes.mma(plan, left[x : x + m], right[y : y + n], total)
        results += total
    return tuple(_floats_to_halves(lanes, results) if d == "f16" and plans[0].d == "f32" else results)
