"""Fragment layouts: places are complete, registers as many as PTX has, and single places as the manual's formulas give them."""

from __future__ import annotations

import numpy as np
import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES, SPARSE_SHAPES, FragmentLayout, Sparsity, shape_of
from ptxgraft.isa.wmma import WMMA_SHAPES, wmma_layout

ACCUMULATOR = {"f16": ("f16", "f32"), "f64": ("f64",), "s8": ("s32",), "e4m3": ("f16", "f32")}
EVERY = [
    (shape, element, operand)
    for kind, shapes in DENSE_SHAPES.items()
    for shape in shapes
    for operand in "ABCD"
    for element in ((kind,) if operand in "AB" else ACCUMULATOR.get(kind, ()))
]


SPARSE = [(shape, kind, operand) for kind, shapes in SPARSE_SHAPES.items() for shape in shapes for operand in "AB"]


@pytest.mark.parametrize(("shape", "element", "operand", "sparse"), [(*row, False) for row in EVERY] + [(*row, True) for row in SPARSE])
def test_each_element_has_one_place(shape: str, element: str, operand: str, sparse: bool) -> None:
    layout = FragmentLayout.of(shape, element, operand, sparse=sparse)
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


# -- sparsity ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "element", "row", "group", "where"),
    [
        # (lane, lowest bit), worked out by hand from the map that was measured
        ("m16n8k16", "f16", 3, 2, (12, 8)),
        ("m16n8k16", "bf16", 9, 1, (4, 20)),
        ("m16n8k32", "f16", 3, 5, (13, 4)),
        ("m16n8k32", "f16", 15, 7, (29, 28)),
        ("m16n8k8", "tf32", 8, 3, (0, 28)),
        ("m16n8k16", "tf32", 2, 4, (9, 0)),
        ("m16n8k32", "s8", 2, 7, (8, 28)),
        ("m16n8k32", "u8", 10, 0, (9, 0)),
        ("m16n8k64", "e4m3", 1, 9, (6, 4)),
        ("m16n8k64", "u4", 9, 3, (5, 12)),
        ("m16n8k128", "s4", 9, 15, (7, 28)),
    ],
)
def test_places_of_metadata(shape: str, element: str, row: int, group: int, where: tuple[int, int]) -> None:
    found = Sparsity.of(shape, element)
    assert (int(found.lanes[row, group]), int(found.shifts[row, group])) == where


@pytest.mark.parametrize(("shape", "element"), [(shape, kind) for kind, shapes in SPARSE_SHAPES.items() for shape in shapes])
def test_metadata_is_complete(shape: str, element: str) -> None:
    """Each nibble has its own place, a selector's lanes are apart from another's, and indices that rise give columns that rise."""
    found = Sparsity.of(shape, element)
    places = set(zip(found.lanes.ravel().tolist(), found.shifts.ravel().tolist(), strict=True))
    assert len(places) == found.lanes.size == 16 * shape_of(shape)[2] // found.group
    lanes = [{lane + found.step * f for lane, _ in places} for f in range(found.selectors)]
    assert sorted(lane for some in lanes for lane in some) == list(range(32))
    for nibble in (4, 14) if element == "tf32" else (4, 8, 9, 12, 13, 14):
        columns = found.tables[nibble].tolist()
        assert columns == sorted(set(columns)) and len(columns) == found.stored and max(columns) < found.group


def test_what_has_no_sparse_form_is_refused() -> None:
    for shape, element in (("m16n8k16", "s8"), ("m16n8k256", "b1"), ("m16n8k16", "f64")):
        with pytest.raises(UnsupportedError, match=f"no sparse .*{shape}"):
            Sparsity.of(shape, element)


# -- wmma -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("shape", "element", "operand"), [(s, kind, o) for kind, shapes in WMMA_SHAPES.items() for s in shapes for o in "AB"]
)
def test_wmma_fragments_hold_all_elements(shape: str, element: str, operand: str) -> None:
    layout = wmma_layout(shape, element, operand)
    m, n, k = shape_of(shape)
    assert layout.matrix == ((m, k) if operand == "A" else (k, n))
    places = list(zip(layout.rows.ravel().tolist(), layout.columns.ravel().tolist(), strict=True))
    assert len(set(places)) == layout.matrix[0] * layout.matrix[1]
    # Only halves repeat themselves, whole registers at a time, and the first ones are complete.
    assert element == "f16" or len(places) == len(set(places))
    assert len(set(places[: layout.matrix[0] * layout.matrix[1]])) == len(set(places))


@pytest.mark.parametrize(
    ("shape", "element", "operand", "place", "where"),
    [
        # (register, element, lane) -> (row, column), read off recordings of an H200
        ("m16n16k16", "f16", "A", (5, 1, 0), (8, 1)),
        ("m16n16k16", "f16", "B", (3, 0, 5), (10, 9)),
        ("m8n32k16", "bf16", "B", (6, 1, 4), (9, 17)),
        ("m8n32k16", "f32", "C", (3, 0, 1), (3, 8)),
        ("m32n8k16", "f16", "D", (3, 1, 0), (24, 1)),
        ("m16n16k8", "tf32", "B", (3, 0, 4), (4, 9)),
        ("m8n8k128", "b1", "A", (0, 31, 3), (0, 127)),
    ],
)
def test_places_of_wmma(shape: str, element: str, operand: str, place: tuple[int, int, int], where: tuple[int, int]) -> None:
    layout = wmma_layout(shape, element, operand)
    assert (int(layout.rows[place]), int(layout.columns[place])) == where


def test_what_no_wmma_has_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="no wmma has an operand A of shape m16n16k8 and type f16"):
        wmma_layout("m16n16k8", "f16", "A")
