"""Conversions and exact scalar operations against outputs recorded on an H200: no output differs.

A selection lies in ``tests/goldens_scalar``; the full set is used when ``PTXGRAFT_GOLDENS`` names it or it lies beside the checkout.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from forms import READ, column, output_widths
from instances import INSTANCES, Job

from ptxgraft.isa import Form, form_of
from ptxgraft.lower.numpy_lanes import DTYPES

SELECTION = Path(__file__).parents[1] / "goldens_scalar"
BLOCK = 1 << 16
"""Rows at a time: more would only take more memory."""


def _form(opcode: str) -> Form:
    form = form_of(opcode)
    assert form is not None, f"{opcode} was recorded, but the table does not know it"
    return form


def _lanes(form: Form, operands: list[np.ndarray]) -> list[np.ndarray]:
    """Columns of the widths that the form reads, filled up to whole warps."""
    types = [role.type for role in form.roles if role.kind in READ and role.type is not None]
    assert len(types) == len(operands), form.opcode
    padded = -(-len(operands[0]) // 32) * 32
    return [np.resize(o, padded).astype(DTYPES[t.width]).reshape(-1, 32) for o, t in zip(operands, types, strict=True)]


def _differences(form: Form, operands: list[np.ndarray], got: np.ndarray, recorded: np.ndarray) -> list[str]:
    (width,) = output_widths(form)
    got = got.reshape(-1)[: len(recorded)]
    wrong = np.flatnonzero(got != recorded.astype(DTYPES[width]))
    if not len(wrong):
        return []
    i = wrong[0]
    given = [hex(int(o[i])) for o in operands]
    return [f"{form.opcode}: {len(wrong)} of {len(recorded)} rows; {given} gave {got[i]:#x}, the card {int(recorded[i]):#x}"]


def selection() -> Iterator[tuple[Form, list[np.ndarray], np.ndarray]]:
    with np.load(SELECTION / "scalar.npz") as file:
        for number, name in enumerate(file["names"]):
            operands = [file[key] for letter in "xyz" if (key := f"{number}_{letter}") in file.files]
            yield _form(str(name)), operands, file[f"{number}_out"]


@pytest.mark.parametrize("instance", INSTANCES)
def test_selection(instance: str) -> None:
    sets = list(selection())
    assert len(sets) == 99
    jobs: list[Job] = [(form, _lanes(form, operands)) for form, operands, _ in sets]
    wrong = []
    compared = 0
    for (form, operands, recorded), (got,) in zip(sets, INSTANCES[instance](jobs), strict=True):
        compared += len(recorded)
        wrong += _differences(form, operands, got, recorded)
    assert compared > 35_000
    assert not wrong, "\n".join(wrong)


def _full_set() -> Path | None:
    named = os.environ.get("PTXGRAFT_GOLDENS")
    folder = Path(named) if named else Path(__file__).parents[3] / "shared" / "goldens"
    return folder if (folder / "layout.json").is_file() else None


FULL = _full_set()


@pytest.mark.skipif(FULL is None, reason="the full set of recorded results is not here (PTXGRAFT_GOLDENS)")
@pytest.mark.parametrize("instance", INSTANCES)
def test_full_set(instance: str) -> None:
    assert FULL is not None
    sys.path.insert(0, str(SELECTION))
    try:
        from select_rows import reader
    finally:
        sys.path.pop(0)
    golden = reader(FULL)
    wrong = []
    compared = 0
    for case in golden.meta["cvt"]:
        if ".approx" in case["insn"]:
            continue
        form = _form(case["insn"])
        *operands, recorded = golden.cvt(case["name"])
        operands = [np.asarray(o) for o in operands[: case["arity"]]]
        starts = range(0, len(recorded), BLOCK)
        jobs: list[Job] = [(form, _lanes(form, [o[i : i + BLOCK] for o in operands])) for i in starts]
        for i, (got,) in zip(starts, INSTANCES[instance](jobs), strict=True):
            compared += len(recorded[i : i + BLOCK])
            wrong += _differences(form, [o[i : i + BLOCK] for o in operands], got, recorded[i : i + BLOCK])
    assert compared == 3_620_864
    assert not wrong, "\n".join(wrong)


def test_a_wrong_bit_is_seen() -> None:
    """The comparison itself can fail."""
    form = _form("add.f32")
    one, two = np.array([0x3F800000]), np.array([0x40000000])
    assert not _differences(form, [one, one], column([0x40000000], 32), two)
    assert _differences(form, [one, one], column([0x40000001], 32), two) == [
        "add.f32: 1 of 1 rows; ['0x3f800000', '0x3f800000'] gave 0x40000001, the card 0x40000000"
    ]
