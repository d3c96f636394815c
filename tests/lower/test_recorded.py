"""Every result recorded on an H200, tensor cores and approximate functions, against the compiled instance, through the instruction table: no output differs.

The full recordings are used when they are here (``goldens/recorded.py`` says where), else the selection in this repository; the counts are printed.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.isa import Form, Imm, form_of
from ptxgraft.lower.warp_function import WarpFunctions
from ptxgraft.lower.warp_lanes import WarpLanes
from ptxgraft.lower.warp_machine import Machine

_SPEC = importlib.util.spec_from_file_location("recorded", Path(__file__).parents[1] / "goldens" / "recorded.py")
assert _SPEC is not None and _SPEC.loader is not None
recorded = importlib.util.module_from_spec(_SPEC)
sys.modules["recorded"] = recorded  # its dataclass looks itself up there
_SPEC.loader.exec_module(recorded)

FULL = recorded.full_reader()


def registers_of(form: Form) -> list[int]:
    """How many registers each operand has that is read."""
    return [role.count for role in form.roles if role.kind == "in"]


def meaning_of(form: Form, lanes: WarpLanes, values: list) -> list:
    """The results of a form on registers one after another; the selector of a sparse product is 0."""
    # Products go through a register file that the machine keeps on the stack.
    lanes.machine = Machine(lanes.emitter)
    rest, operands = iter(values), []
    for role in form.roles:
        if role.kind == "text":
            operands.append(Imm("int", 0))
        elif role.kind == "in":
            own = [next(rest) for _ in range(role.count)]
            operands.append(own[0] if role.count == 1 else tuple(own))
    assert form.meaning is not None
    result = form.meaning(lanes, *operands, **form.options)
    return list(result) if isinstance(result, tuple) else [result]


@cache
def compiled(opcode: str) -> WarpFunctions:
    form = form_of(opcode)
    assert form is not None
    widths = [role.type.width for role in form.roles if role.kind == "in" and role.type is not None for _ in range(role.count)]
    functions = WarpFunctions("sm_90")
    functions.add("f", widths, lambda lanes, values: meaning_of(form, lanes, values))
    functions.compile()
    return functions


def compare(sets: Iterable) -> tuple[int, int, int, list[str]]:
    """(sets, outputs compared, outputs that differ, of which sets)."""
    count = outputs = differing = 0
    wrong: list[str] = []
    for item in sets:
        form = form_of(item.opcode)
        assert form is not None
        flat = [register.reshape(-1) for registers in item.inputs for register in registers]
        assert [len(registers) for registers in item.inputs] == registers_of(form), item.opcode
        results = compiled(item.opcode).call("f", *flat)
        assert len(results) == len(item.outputs), item.opcode
        bad = sum(int((np.asarray(got) != want.reshape(-1)).sum()) for got, want in zip(results, item.outputs, strict=True))
        count, outputs, differing = count + 1, outputs + item.size, differing + bad
        if bad:
            wrong.append(f"{item.opcode} {item.operands}: {bad} of {item.size}")
    return count, outputs, differing, wrong


def sets_of(what: str) -> Iterator:
    """The recordings of one kind; what the selection lacks comes only with the full ones."""
    if what == "dense":
        return recorded.selected_mma() if FULL is None else recorded.all_mma(FULL)
    if what == "functions":
        return recorded.selected_scalar() if FULL is None else recorded.all_scalar(FULL)
    if FULL is None:
        pytest.skip("the full recordings are not here; PTXGRAFT_GOLDENS may name their folder")
    return recorded.all_mma(FULL, sparse=True) if what == "sparse" else recorded.binades(FULL, 1)


@pytest.mark.parametrize(
    ("what", "full", "selected"),
    [
        ("dense", (543, 2_641_664), (543, 60_416)),
        ("sparse", (168, 933_888), None),
        ("functions", (68, 3_833_856), (68, 21_760)),
        ("binades", (27, 145_752_064), None),
    ],
)
def test_recorded(what: str, full: tuple[int, int], selected: tuple[int, int] | None, capsys: pytest.CaptureFixture[str]) -> None:
    sets, outputs, differing, wrong = compare(sets_of(what))
    with capsys.disabled():
        kind = "selection" if FULL is None else "full set"
        print(f"\n{what}, {kind}, compiled: {sets} sets, {outputs:,} outputs compared, {differing} differ")
    assert not wrong, "\n".join(wrong)
    assert (sets, outputs) == (full if FULL is not None else selected)


@pytest.mark.skipif(FULL is None, reason="the full recordings are not here; PTXGRAFT_GOLDENS may name their folder")
def test_recorded_checksums(capsys: pytest.CaptureFixture[str]) -> None:
    """A million random arguments of each function, of whose results a checksum was recorded for every 4,096."""
    block_sum = type(FULL).seg.__globals__["block_sum"]  # the reader's module is not in sys.modules
    outputs, wrong = 0, []
    for case in FULL.meta["apx"]:
        for kind in ("uniform", "ranged"):
            if "sum_off" not in case.get(kind, {}):
                continue
            x, y, sums = FULL.apx_sums(case["name"], kind)
            arguments = [np.ascontiguousarray(v, np.uint32) for v in (x, y)][: 2 if case["insn"].startswith("div") else 1]
            (got,) = compiled(case["insn"]).call("f", *arguments)
            outputs += len(got)
            bad = int((block_sum(got.reshape(-1, case[kind]["block"])) != sums).sum())
            if bad:
                wrong.append(f"{case['insn']} {kind}: {bad} of {len(sums)} blocks")
    with capsys.disabled():
        print(f"\nchecksums, full set, compiled: {outputs:,} outputs compared by blocks of 4,096, {len(wrong)} sets differ")
    assert not wrong, "\n".join(wrong)
    assert outputs == 39_845_888


def test_a_wrong_bit_is_seen() -> None:
    item = next(iter(recorded.selected_mma()))
    item.outputs[0] = item.outputs[0] ^ (np.arange(32) == 5).astype(item.outputs[0].dtype)
    assert compare([item])[2] == 1
