"""Which lane holds which matrix element in which register of an ``mma.sync`` fragment, and which logical k a sparse A's elements have.

Invariant: within one operand every matrix element lies in exactly one (register, element, lane) place. The maps are those of the PTX ISA
manual, "Matrix Fragments for mma" (sections m8n8k4 to m16n8k256); B and C follow from three formulas, only m8n8k4 on f16 is of another kind. A
sparse A is the dense map over its stored half of the columns, a sparse instruction's B the dense map extended to all of k.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.types import type_of

DENSE_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m8n8k4", "m16n8k8", "m16n8k16"),
    "bf16": ("m16n8k8", "m16n8k16"),
    "tf32": ("m16n8k4", "m16n8k8"),
    "f64": ("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"),
    "e4m3": ("m16n8k16", "m16n8k32"),
    "e5m2": ("m16n8k16", "m16n8k32"),
    "e3m2": ("m16n8k32",),
    "e2m3": ("m16n8k32",),
    "e2m1": ("m16n8k32", "m16n8k64"),
    "s8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "u8": ("m8n8k16", "m16n8k16", "m16n8k32"),
    "s4": ("m8n8k32", "m16n8k32", "m16n8k64"),
    "u4": ("m8n8k32", "m16n8k32", "m16n8k64"),
    "b1": ("m8n8k128", "m16n8k128", "m16n8k256"),
}
"""The shapes of the dense ``mma.sync`` instructions of sm_70 to sm_120 by the element type of A and B."""

SPARSE_SHAPES: dict[str, tuple[str, ...]] = {
    "f16": ("m16n8k16", "m16n8k32"),
    "bf16": ("m16n8k16", "m16n8k32"),
    "tf32": ("m16n8k8", "m16n8k16"),
    "e4m3": ("m16n8k64",),
    "e5m2": ("m16n8k64",),
    "e3m2": ("m16n8k64",),
    "e2m3": ("m16n8k64",),
    "e2m1": ("m16n8k64", "m16n8k128"),
    "s8": ("m16n8k32", "m16n8k64"),
    "u8": ("m16n8k32", "m16n8k64"),
    "s4": ("m16n8k64", "m16n8k128"),
    "u4": ("m16n8k64", "m16n8k128"),
}
"""The shapes of the sparse ``mma.sp.sync`` instructions of sm_80 to sm_120 by the element type of A and B; k counts the elements left out too."""

_SHAPE = re.compile(r"^m(\d+)n(\d+)k(\d+)$")


def shape_of(shape: str) -> tuple[int, int, int]:
    """``m16n8k32`` to (16, 8, 32); ``UnsupportedError`` for a text of another form."""
    match = _SHAPE.match(shape)
    if not match:
        raise UnsupportedError(f"{shape!r} is not a tensor-core shape", hint="shapes read like m16n8k16")
    return int(match[1]), int(match[2]), int(match[3])


def is_quad_pair(shape: str, element_type: str) -> bool:
    """Is this m8n8k4 on f16, where four quad pairs of a warp each multiply their own 8x8x4 matrices?"""
    return shape == "m8n8k4" and element_type not in ("f64",)


SCALE_LANES = {"A": 4 * (np.arange(16) & 7) + (np.arange(16) >> 3), "B": 4 * np.arange(8)}
"""Of instructions with factors for blocks: the lane whose word has those of a row of A, or of a column of B, the first one in its lowest byte. So it is with byte 0
and thread 0 selected; thread t of A is two lanes further on, of B t lanes, byte b is b bytes higher. Source: PTX ISA manual, "Block Scaling for mma.sync"."""


def element_bits(shape: str, element_type: str, sparse: bool = False) -> int:
    """The bits of a register that an element takes: a byte where ``kind::f8f6f4`` mixes eight bits with six and four, four bits where all have four."""
    if element_type == "e2m1":
        return 4 if shape_of(shape)[2] == (128 if sparse else 64) else 8
    return 8 if element_type in ("e3m2", "e2m3") else type_of(element_type).width


@dataclass(frozen=True, slots=True, eq=False)
class FragmentLayout:
    """The places of one operand's elements.

    ``rows`` and ``columns`` are int arrays [register][element of the register, lowest bits first][lane]; ``matrix`` is the operand's (rows,
    columns). The four matrices of m8n8k4 on f16 are stacked: A 32x4, B 4x32, C and D 32x8, quad pair q at rows (B: columns) 8q to 8q+7.
    ``register_bits`` is 32, or 64 for f64.
    """

    shape: str
    element_type: str
    operand: str
    matrix: tuple[int, int]
    element_bits: int
    register_bits: int
    rows: NDArray[np.int64]
    columns: NDArray[np.int64]

    @property
    def registers(self) -> int:
        """How many registers each lane gives to this fragment."""
        return self.rows.shape[0]

    @property
    def per_register(self) -> int:
        """How many elements one register holds."""
        return self.rows.shape[1]

    @property
    def places(self) -> NDArray[np.int64]:
        """[row][column]: the flat index of the element into an array [register][element][lane]."""
        flat = np.empty(self.matrix, dtype=np.int64)
        flat[self.rows, self.columns] = np.arange(self.rows.size).reshape(self.rows.shape)
        return flat

    @staticmethod
    def of(shape: str, element_type: str, operand: str, layout: str = "", sparse: bool = False) -> FragmentLayout:
        """The layout of ``operand`` (A, B, C or D) of an ``mma.sync`` of ``shape``; of an ``mma.sp.sync`` if ``sparse``.

        ``element_type`` is the operand's own. ``layout`` (row or col) matters for A and B of m8n8k4 on f16 alone; all other shapes take A by row
        and B by column. A sparse A has its k / 2 stored columns. ``UnsupportedError`` for a shape or type that no such instruction has.
        """
        return _layout(shape, element_type, operand, layout or ("col" if operand == "B" else "row"), sparse)


@cache
def _layout(shape: str, element_type: str, operand: str, layout: str, sparse: bool) -> FragmentLayout:
    m, n, k = shape_of(shape)
    shapes = SPARSE_SHAPES if sparse else DENSE_SHAPES
    known = shapes.get(element_type, ()) if operand in "AB" else {s for every in shapes.values() for s in every}
    if operand not in ("A", "B", "C", "D") or shape not in known:
        raise UnsupportedError(
            f"no {'sparse' if sparse else 'dense'} mma.sync has an operand {operand} of shape {shape} and type {element_type}",
            hint=f"shapes of {element_type}: {', '.join(shapes.get(element_type, ())) or 'none'}",
        )
    if sparse and operand == "A":
        k //= 2
    bits = element_bits(shape, element_type, sparse)
    register_bits = max(bits, 32)
    per = register_bits // bits
    quad_pair = is_quad_pair(shape, element_type)
    copies = 4 if quad_pair else 1
    sizes = {"A": (copies * m, k), "B": (k, copies * n)}
    matrix = sizes.get(operand, (copies * m, n))
    registers = matrix[0] * matrix[1] // (32 * per)
    register, element, lane = np.meshgrid(np.arange(registers), np.arange(per), np.arange(32), indexing="ij")
    places = _quad_pair_places if quad_pair else _places
    rows, columns = places(operand, layout, m, per, register, element, lane)
    return FragmentLayout(shape, element_type, operand, matrix, bits, register_bits, rows, columns)


Grid = NDArray[np.int64]


def _places(operand: str, layout: str, m: int, per: int, register: Grid, element: Grid, lane: Grid) -> tuple[Grid, Grid]:
    group, thread = lane >> 2, lane & 3
    if operand == "A":
        tall = 1 if m == 16 else 0
        return group + 8 * (register & tall), (register >> tall) * 4 * per + thread * per + element
    if operand == "B":
        return register * 4 * per + thread * per + element, group
    if per == 2:
        return group + 8 * register, 2 * thread + element
    return group + 8 * (register >> 1), 2 * thread + (register & 1)


def _quad_pair_places(operand: str, layout: str, m: int, per: int, register: Grid, element: Grid, lane: Grid) -> tuple[Grid, Grid]:
    quad, upper = (lane % 16) // 4, np.where(lane >= 16, 4, 0)
    index = register * per + element
    own = 8 * quad + upper
    if operand == "A":
        return (own + (lane & 3), index) if layout == "row" else (own + index, lane & 3)
    if operand == "B":
        return (index, own + (lane & 3)) if layout == "col" else (lane & 3, own + index)
    if per == 2:
        return own + (lane & 3), index
    return own + (lane & 1) + (index & 2), (index & 4) + (lane & 2) + (index & 1)


# -- sparsity ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True, eq=False)
class Sparsity:
    """Where the metadata of a sparse A lies, with sparsity selector 0.

    Four bits of metadata (a nibble, lo | hi << 2) say where in a group of ``group`` neighbouring columns of a row its ``stored`` stored elements
    belong: the first half of them at lo, the second at hi, in units of ``group`` / 4 columns (tf32, of which two columns have one stored element: at lo / 2).
    ``lanes`` and ``shifts`` [row][group]: the lane whose word holds the nibble, and its lowest bit. The words of the other lanes have no effect.
    ``step``: selector f reads from lane + ``step`` * f; ``selectors``: how many there are.

    Measured on an H200 with every selector. There ``mma.sp`` and ``mma.sp::ordered_metadata`` give the same bits, and indices that fall, or are
    equal, work as this says (the manual leaves the latter, and the former with ordered metadata, undefined); only for tf32 it does so for 4 and 14 alone.
    """

    group: int
    stored: int
    lanes: NDArray[np.int64]
    shifts: NDArray[np.int64]
    step: int
    selectors: int

    @property
    def tables(self) -> NDArray[np.int64]:
        """[nibble][stored element of the group]: its column within the group."""
        nibbles = np.arange(16)[:, None]
        low, high = nibbles & 3, nibbles >> 2
        if self.stored == 1:
            return low >> 1
        if self.stored == 2:
            return np.concatenate([low, high], axis=1)
        return np.concatenate([2 * low, 2 * low + 1, 2 * high, 2 * high + 1], axis=1)

    @staticmethod
    def of(shape: str, element_type: str) -> Sparsity:
        """The metadata of an ``mma.sp.sync`` of ``shape`` on A's ``element_type``; ``UnsupportedError`` when there is none."""
        return _sparsity(shape, element_type)


@cache
def _sparsity(shape: str, element_type: str) -> Sparsity:
    _layout(shape, element_type, "A", "row", True)
    _, _, k = shape_of(shape)
    bits = element_bits(shape, element_type, sparse=True)
    group = {32: 2, 4: 8}.get(bits, 4)
    row, nibble = np.meshgrid(np.arange(16), np.arange(k // group), indexing="ij")
    if bits >= 16:
        # A word has four nibbles of a row and four of the row eight below.
        lanes, shifts = 4 * (row & 7) + (nibble >> 2), 4 * (nibble & 3) + 16 * (row >> 3)
        suppliers = k // group // 4
    else:
        lanes, shifts = 4 * (row & 7) + (row >> 3) + 2 * (nibble >> 3), 4 * (nibble & 7)
        suppliers = 2 * (k // group // 8)
    return Sparsity(group, group // 2, lanes, shifts, suppliers, 4 // suppliers)
