"""Sparse mma and wmma against results recorded on an H200, through the instruction table and the NumPy instance."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import Imm, form_of
from ptxgraft.lower.numpy_lanes import NumpyLanes

_SPEC = importlib.util.spec_from_file_location("tensor_cases", Path(__file__).parents[1] / "goldens" / "tensor_cases.py")
assert _SPEC is not None and _SPEC.loader is not None
tensor_cases = importlib.util.module_from_spec(_SPEC)
sys.modules["tensor_cases"] = tensor_cases  # its dataclasses look themselves up there
_SPEC.loader.exec_module(tensor_cases)

RESULTS = tensor_cases.read_results()
CASES = tensor_cases.cases()


class Warps:
    """A machine whose warps are all active, with one memory of bytes."""

    def __init__(self, memory: np.ndarray) -> None:
        self.memory = memory.reshape(-1)
        self.active = np.ones((len(memory), 32), bool)

    def special(self, name: str) -> np.ndarray:
        assert name == "laneid"
        return np.arange(32, dtype=np.uint32)[None]

    def at(self, address: np.ndarray, size: int) -> np.ndarray:
        offsets = np.broadcast_to(address, self.active.shape).astype(np.int64)
        assert (offsets % size == 0).all() and offsets.min() >= 0 and offsets.max() + size <= self.memory.size
        return offsets[..., None] + np.arange(size)

    def load(self, space: str, address: np.ndarray, width: int, count: int) -> tuple[np.ndarray, ...]:
        assert (space, count) == ("generic", 1)
        return (np.ascontiguousarray(self.memory[self.at(address, width // 8)]).view(f"<u{width // 8}")[..., 0],)

    def store(self, space: str, address: np.ndarray, values: Sequence[np.ndarray]) -> None:
        assert space == "generic"
        (value,) = values
        size = value.dtype.itemsize
        raw = np.ascontiguousarray(np.broadcast_to(value, self.active.shape)).view(np.uint8)
        self.memory[self.at(address, size)] = raw.reshape(*self.active.shape, size)

    def fault(self, p: np.ndarray, reason: str, value: np.ndarray | None) -> None:
        assert not np.any(p), reason


def run(case) -> np.ndarray:
    """[warp][byte] of what the NumPy instance gives for a case: all result registers, or the matrix in memory."""
    form = case.form
    assert form.meaning is not None
    memory = tensor_cases.image(case) if form.loads or form.stores else np.zeros((case.warps, 0), np.uint8)
    lanes, registers = NumpyLanes("sm_90", Warps(memory)), tensor_cases.operands(case)
    arguments: list[object] = []
    for role in form.roles:
        if role.kind == "addr":
            arguments.append(np.arange(case.warps, dtype=np.uint64)[:, None] * np.uint64(tensor_cases.image_bytes(case)))
        elif role.kind == "text":
            arguments.append(Imm("int", case.selector))
        elif role.name == "stride":
            stride = tensor_cases.stride_bytes(case) * 8 // tensor_cases.matrix_of(form)[2]
            arguments.append(np.full((1, 1), stride, np.uint32) if case.pad else None)
        elif role.kind == "in":
            values = [registers[role.name][:, i] for i in range(role.count)]
            arguments.append(values[0] if role.count == 1 else tuple(values))
    result = form.meaning(lanes, *arguments, **form.options)
    if form.stores:
        return memory
    outputs = np.stack([np.broadcast_to(r, (case.warps, 32)) for r in (result if isinstance(result, tuple) else (result,))], axis=1)
    return np.ascontiguousarray(outputs).view(np.uint8).reshape(case.warps, -1)


@pytest.mark.parametrize(
    ("words", "cases", "outputs"),
    [("mma.sp", 320, 634_880), ("wmma.load", 176, 38_848), ("wmma.store", 52, 58_880), ("wmma.mma", 138, 456_704)],
)
def test_all_cases(words: str, cases: int, outputs: int, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[str] = []
    compared = [case for case in CASES if case.form.opcode.startswith(words)]
    size = 0
    for case in compared:
        want, got = RESULTS[case.name], run(case)
        size += got.size // 4 if words != "wmma.store" else got.size
        bad = [warp for warp, row in enumerate(got) if zlib.crc32(row.tobytes()) != want.checksums[warp]]
        if bad:
            sample = got[want.warp, : tensor_cases.SAMPLE]
            wrong.append(f"{case.name}: warps {bad} differ; {int((sample != want.sample).sum())} of the {sample.size} sampled bytes")
    with capsys.disabled():
        unit = "bytes" if words == "wmma.store" else "words"
        print(f"\n{words}: {len(compared)} cases, {size:,} {unit} compared, {len(wrong)} cases differ")
    assert not wrong, "\n".join(wrong[:20])
    assert (len(compared), size) == (cases, outputs)


def test_samples_and_checksums_belong_together() -> None:
    """A sample is the beginning of the warp that the checksum is of."""
    case = next(c for c in CASES if c.form.opcode == "wmma.load.b.sync.aligned.col.m8n8k32.s4")
    want = RESULTS[case.name]
    assert want.sample.size == tensor_cases.SAMPLE and zlib.crc32(want.sample.tobytes()) == want.checksums[want.warp]


def test_a_selector_too_many_is_refused() -> None:
    words = np.zeros((1, 32), np.uint32)
    for opcode, selectors in (("m16n8k16.row.col.f32.f16.f16.f32", 4), ("m16n8k32.row.col.f32.f16.f16.f32", 2)):
        form = form_of(f"mma.sp.sync.aligned.{opcode}")
        assert form is not None and form.meaning is not None
        registers = [tuple([words] * role.count) for role in form.roles if role.name in ("a", "b", "c")]
        lanes = NumpyLanes("sm_90", Warps(np.zeros((1, 0), np.uint8)))
        assert len(form.meaning(lanes, *registers, words, Imm("int", selectors - 1), **form.options)) == 4
        with pytest.raises(UnsupportedError, match=f"selector {selectors} .*there are {selectors}"):
            form.meaning(lanes, *registers, words, Imm("int", selectors), **form.options)
