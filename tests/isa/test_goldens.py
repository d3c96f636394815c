"""Tensor cores and approximate functions against results recorded on an H200, through the instruction table and the NumPy instance."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.isa import Imm, form_of
from ptxgraft.lower.numpy_lanes import NumpyLanes

_SPEC = importlib.util.spec_from_file_location("recorded", Path(__file__).parents[1] / "goldens" / "recorded.py")
assert _SPEC is not None and _SPEC.loader is not None
recorded = importlib.util.module_from_spec(_SPEC)
sys.modules["recorded"] = recorded  # its dataclass looks itself up there
_SPEC.loader.exec_module(recorded)


def compare(sets: Iterable) -> tuple[int, int, list[str]]:
    """(sets, outputs compared, what differs)."""
    lanes = NumpyLanes("sm_90")
    count = outputs = 0
    wrong: list[str] = []
    for item in sets:
        form = form_of(item.opcode)
        assert form is not None and form.meaning is not None, item.opcode
        inputs: list = [registers[0] if len(registers) == 1 else tuple(registers) for registers in item.inputs]
        if form.roles[-1].kind == "text":
            inputs.append(Imm("int", 0))  # the selector of a sparse mma
        result = form.meaning(lanes, *inputs, **form.options)
        registers = result if isinstance(result, tuple) else (result,)
        assert len(registers) == len(item.outputs), item.opcode
        count += 1
        outputs += item.size
        bad = [(np.broadcast_to(got, want.shape) != want) for got, want in zip(registers, item.outputs, strict=True)]
        if any(b.any() for b in bad):
            wrong.append(f"{item.opcode} {item.operands}: {sum(int(b.sum()) for b in bad)} of {item.size}")
    return count, outputs, wrong


def report(what: str, found: tuple[int, int, list[str]], sets: int, outputs: int, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(f"\n{what}: {found[0]} sets, {found[1]:,} outputs compared, {len(found[2])} sets differ")
    assert not found[2], "\n".join(found[2])
    assert found[:2] == (sets, outputs)


def test_selected_mma(capsys: pytest.CaptureFixture[str]) -> None:
    report("dense mma, selection", compare(recorded.selected_mma()), 543, 60_416, capsys)


def test_selected_approximations(capsys: pytest.CaptureFixture[str]) -> None:
    report("approximate functions, selection", compare(recorded.selected_scalar()), 68, 21_760, capsys)


@pytest.fixture(scope="module")
def full():
    reader = recorded.full_reader()
    if reader is None:
        pytest.skip("the full recordings are not here; PTXGRAFT_GOLDENS may name their folder")
    return reader


def test_every_dense_mma(full, capsys: pytest.CaptureFixture[str]) -> None:
    report("dense mma, full set", compare(recorded.all_mma(full)), 543, 2_641_664, capsys)


def test_every_sparse_mma(full, capsys: pytest.CaptureFixture[str]) -> None:
    report("sparse mma, full set", compare(recorded.all_mma(full, sparse=True)), 168, 933_888, capsys)


def test_every_approximation(full, capsys: pytest.CaptureFixture[str]) -> None:
    report("approximate functions, full set", compare(recorded.all_scalar(full)), 68, 3_833_856, capsys)


def test_binades(full, capsys: pytest.CaptureFixture[str]) -> None:
    """Each 131st mantissa of the binades that were recorded whole."""
    report("binades of f32 functions", compare(recorded.binades(full, 131)), 27, 1_112_512, capsys)
