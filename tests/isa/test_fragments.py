"""Fragment layouts: places are complete, registers as many as PTX has, and single places as the manual's formulas give them."""

from __future__ import annotations

import numpy as np
import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES, FragmentLayout, shape_of

ACCUMULATOR = {"f16": ("f16", "f32"), "f64": ("f64",), "s8": ("s32",), "e4m3": ("f16", "f32")}
EVERY = [
    (shape, element, operand)
    for kind, shapes in DENSE_SHAPES.items()
    for shape in shapes
    for operand in "ABCD"
    for element in ((kind,) if operand in "AB" else ACCUMULATOR.get(kind, ()))
]


@pytest.mark.parametrize(("shape", "element", "operand"), EVERY)
def test_each_element_has_one_place(shape: str, element: str, operand: str) -> None:
    layout = FragmentLayout.of(shape, element, operand)
    assert layout.rows.shape == layout.columns.shape == (layout.registers, layout.per_register, 32)
    places = set(zip(layout.rows.ravel().tolist(), layout.columns.ravel().tolist(), strict=True))
    assert len(places) == layout.rows.size == layout.matrix[0] * layout.matrix[1]
    assert layout.per_register * layout.element_bits == layout.register_bits
    register, rest = divmod(int(layout.places[layout.rows[-1, -1, 7], layout.columns[-1, -1, 7]]), layout.per_register * 32)
    assert (register, rest) == (layout.registers - 1, (layout.per_register - 1) * 32 + 7)


@pytest.mark.parametrize(("operand", "layout"), [("A", "row"), ("A", "col"), ("B", "row"), ("B", "col")])
def test_quad_pairs_take_both_orders(operand: str, layout: str) -> None:
    places = FragmentLayout.of("m8n8k4", "f16", operand, layout)
    # Lane 18: quad pair 0, its upper half, third lane there.
    rows, columns = places.rows[:, :, 18].ravel().tolist(), places.columns[:, :, 18].ravel().tolist()
    assert (rows, columns) == {
        ("A", "row"): ([6] * 4, [0, 1, 2, 3]),
        ("A", "col"): ([4, 5, 6, 7], [2] * 4),
        ("B", "row"): ([2] * 4, [4, 5, 6, 7]),
        ("B", "col"): ([0, 1, 2, 3], [6] * 4),
    }[operand, layout]
    assert len(set(zip(places.rows.ravel().tolist(), places.columns.ravel().tolist(), strict=True))) == 128


@pytest.mark.parametrize(
    ("shape", "element", "operand", "place", "where"),
    [
        # (register, element, lane) -> (row, column), worked out by hand from the manual
        ("m16n8k16", "f16", "A", (0, 1, 5), (1, 3)),
        ("m16n8k16", "f16", "A", (1, 0, 5), (9, 2)),
        ("m16n8k16", "f16", "A", (2, 0, 5), (1, 10)),
        ("m16n8k16", "f16", "B", (1, 1, 31), (15, 7)),
        ("m16n8k16", "f32", "C", (3, 0, 6), (9, 5)),
        ("m16n8k16", "f16", "D", (1, 1, 6), (9, 5)),
        ("m16n8k32", "e4m3", "A", (3, 2, 9), (10, 22)),
        ("m16n8k32", "s8", "B", (1, 3, 9), (23, 2)),
        ("m16n8k8", "tf32", "A", (2, 0, 30), (7, 6)),
        ("m16n8k16", "f64", "A", (7, 0, 30), (15, 14)),
        ("m16n8k64", "u4", "A", (2, 7, 1), (0, 47)),
        ("m8n8k128", "b1", "B", (0, 31, 3), (127, 0)),
        ("m8n8k4", "f32", "C", (6, 0, 21), (15, 4)),
        ("m8n8k4", "f16", "C", (2, 1, 21), (13, 5)),
    ],
)
def test_places_of_the_manual(shape: str, element: str, operand: str, place: tuple[int, int, int], where: tuple[int, int]) -> None:
    layout = FragmentLayout.of(shape, element, operand)
    assert (int(layout.rows[place]), int(layout.columns[place])) == where


def test_what_no_mma_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"operand A of shape m16n8k32 and type f16.*m16n8k16"):
        FragmentLayout.of("m16n8k32", "f16", "A")
    with pytest.raises(UnsupportedError, match="operand E"):
        FragmentLayout.of("m16n8k16", "f16", "E")
    with pytest.raises(UnsupportedError, match="not a tensor-core shape"):
        shape_of("16x8x16")


def test_maps_are_shared_but_index_arrays() -> None:
    layout = FragmentLayout.of("m16n8k16", "f16", "A")
    assert layout is FragmentLayout.of("m16n8k16", "f16", "A")
    matrix = np.arange(256).reshape(16, 16)
    fragment = matrix[layout.rows, layout.columns]
    assert np.array_equal(fragment.ravel()[layout.places], matrix)
