"""``wmma`` on the profile ``manual``: one sum, rounded once, where the hardware's ways round twice."""

from __future__ import annotations

import numpy as np

from ptxgraft.isa import form_of
from ptxgraft.isa.wmma import wmma_layout
from ptxgraft.lower.numpy_lanes import NumpyLanes


def product(opcode: str, shape: str, element: str, d: str, a: np.ndarray, b: np.ndarray, c: float) -> np.ndarray:
    """D as element bits [row][column], for matrices of element bits and a C of one f32 number."""
    form = form_of(opcode)
    assert form is not None and form.meaning is not None
    inputs = []
    for operand, kind, matrix in (("A", element, a), ("B", element, b), ("C", "f32", None)):
        layout = wmma_layout(shape, kind, operand)
        full = np.full(layout.matrix, np.float32(c).view(np.uint32)) if matrix is None else matrix
        elements = full[layout.rows, layout.columns].astype(np.uint32)
        shifts = layout.element_bits * np.arange(layout.per_register, dtype=np.uint32)[None, :, None]
        inputs.append(tuple(np.bitwise_or.reduce(elements << shifts, axis=1)[:, None]))
    registers = np.stack(form.meaning(NumpyLanes("manual"), *inputs, **form.options))[:, 0]
    layout = wmma_layout(shape, d, "D")
    shifts = layout.element_bits * np.arange(layout.per_register, dtype=np.uint32)[None, :, None]
    found = np.zeros(layout.matrix, np.uint32)
    found[layout.rows, layout.columns] = registers[:, None] >> shifts & np.uint32((1 << layout.element_bits) - 1)
    return found


def test_f16_results_of_f32_sums_are_rounded_once() -> None:
    """1 + 2^-11 + 2^-40: in f32 a tie is left of it, which would go down to 1."""
    a, b = np.zeros((16, 16), np.uint16), np.zeros((16, 16), np.uint16)
    a[:, 3] = b[3] = np.float16(2.0**-20).view(np.uint16)
    d = product("wmma.mma.sync.aligned.row.col.m16n16k16.f16.f32", "m16n16k16", "f16", "f16", a, b, 1 + 2.0**-11)
    assert (d == np.float16(1 + 2.0**-10).view(np.uint16)).all()


def test_tf32_products_are_one_sum() -> None:
    """1 + 2^-24 + 2^-24: in two halves each would be lost."""
    a, b = np.zeros((16, 8), np.uint32), np.zeros((8, 16), np.uint32)
    a[:, [0, 4]] = np.float32(2.0**-24).view(np.uint32)
    b[[0, 4]] = np.float32(1).view(np.uint32)
    d = product("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "m16n16k8", "tf32", "f32", a, b, 1.0)
    assert (d == np.float32(1 + 2.0**-23).view(np.uint32)).all()
