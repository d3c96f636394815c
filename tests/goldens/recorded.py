"""Results recorded on hardware, as sets of operands and outputs: the selection in this folder, and the full recordings where they are."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent


@dataclass
class Recorded:
    """One set. ``inputs`` are the instruction's operands in order, each a list of registers (a scalar: one), ``outputs`` the registers of the result.

    A register is an array [warps, 32] of uint16, uint32 or uint64.
    """

    opcode: str
    operands: str
    inputs: list[list[np.ndarray]]
    outputs: list[np.ndarray]

    @property
    def size(self) -> int:
        """How many register values the set holds results of."""
        return sum(register.size for register in self.outputs)


def full_folder() -> Path | None:
    """The full recordings: ``PTXGRAFT_GOLDENS``, or ``shared/goldens`` beside the checkout."""
    named = os.environ.get("PTXGRAFT_GOLDENS")
    folder = Path(named) if named else HERE.parents[2] / "shared" / "goldens"
    return folder if (folder / "layout.json").is_file() else None


def full_reader():
    """The full recordings, opened with their own reader; None when they are not here."""
    folder = full_folder()
    if folder is None:
        return None
    spec = importlib.util.spec_from_file_location("golden_reader", folder / "read.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Golden(str(folder))


def _scalar_type(opcode: str, word: int) -> type:
    if opcode.endswith(("f16", ".bf16")):
        return np.uint16
    return np.uint64 if word == 8 else np.uint32


def selected_mma() -> Iterator[Recorded]:
    with np.load(HERE / "mma.npz") as file:
        index, words = json.loads(bytes(file["index"])), file["words"]
    at = 0
    for entry in index["sets"]:
        operands = []
        for count in entry["counts"]:
            size = count * 32 * entry["word"] // 4
            registers = words[at : at + size].view(f"<u{entry['word']}").reshape(count, 1, 32)
            at += size
            operands.append(list(registers))
        yield Recorded(entry["insn"], entry["class"], operands[:3], operands[3])
    assert at == words.size


def selected_scalar() -> Iterator[Recorded]:
    with np.load(HERE / "scalar.npz") as file:
        index, words = json.loads(bytes(file["index"])), file["words"]
    at = 0
    for entry in index["sets"]:
        columns = []
        for _ in range(entry["arity"] + 1):
            size = entry["count"] * entry["word"] // 4
            values = words[at : at + size].view(f"<u{entry['word']}")
            at += size
            columns.append(values.astype(_scalar_type(entry["insn"], entry["word"])).reshape(-1, 32))
        yield Recorded(entry["insn"], entry["class"], [[c] for c in columns[:-1]], [columns[-1]])
    assert at == words.size


def all_mma(full, sparse: bool = False) -> Iterator[Recorded]:
    """Every dense set of the full recordings; or every sparse one, whose last input is the metadata (the selector is 0)."""
    for case in full.meta["mma"]:
        if bool(case["sparse"]) != sparse:
            continue
        for q in case["classes"]:
            data = full.mma(case["name"], q["class"], matrices=False)
            a, b, c, d = ([np.ascontiguousarray(data[k][:, i]) for i in range(data[k].shape[1])] for k in "abcd")
            yield Recorded(case["insn"], q["class"], [a, b, c, [np.ascontiguousarray(data["e"])]] if sparse else [a, b, c], d)


def all_scalar(full) -> Iterator[Recorded]:
    """Every raw set of the approximate functions."""
    sets = [(c, kind, *full.apx(c["name"], kind)) for c in full.meta["apx"] for kind in ("structured", "uniform", "ranged") if kind in c]
    for c in full.meta["cvt"]:
        if ".approx" in c["insn"]:
            x, y, _, out = full.cvt(c["name"])
            sets.append((c, c["set"], x, y, out))
    for c, kind, x, y, out in sets:
        dtype = _scalar_type(c["insn"], c["out"])
        x, y, out = (np.ascontiguousarray(v.astype(dtype)).reshape(-1, 32) for v in (x, y, out))
        inputs = [[x], [y]] if c["insn"].startswith("div") else [[x]]
        yield Recorded(c["insn"], kind, inputs, [out])


def binades(full, step: int) -> Iterator[Recorded]:
    """Every recorded binade of the f32 functions, each ``step``-th mantissa of it."""
    for number, entry in enumerate(full.meta["seg"]):
        x, y = full.seg(number)
        x, y = x[::step], y[::step]
        count = x.size // 32 * 32
        x, y = (np.ascontiguousarray(v[:count]).reshape(-1, 32) for v in (x, y))
        yield Recorded(entry["insn"], f"binade {entry['start']:08x}", [[x]], [y])
