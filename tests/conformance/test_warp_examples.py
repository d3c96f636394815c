"""The instruction table's examples on uniform operands: the warp instance's scalars give what its vectors give."""

from __future__ import annotations

import numpy as np
from forms import number_of, variants
from warp_meanings import Warp, body_of, widths_of

from ptxgraft.isa import ENTRIES
from ptxgraft.lower.warp_function import WarpFunctions

ROWS = [(entry, *row) for entries in ENTRIES.values() for entry in entries if entry.meaning is not None for row in entry.examples]


def test_examples_on_uniform_operands() -> None:
    functions = WarpFunctions(machine=Warp())
    for number, (entry, opcode, inputs, _) in enumerate(ROWS):
        form = variants(opcode)[number_of(entry, opcode)]
        functions.add(f"f{number}", widths_of(form)[: len(inputs)], body_of(form), [True] * len(inputs))
    functions.compile()
    wrong = []
    for number, (entry, opcode, inputs, outputs) in enumerate(ROWS):
        form = variants(opcode)[number_of(entry, opcode)]
        arrays = [single(bits, width) for bits, width in zip(inputs, widths_of(form), strict=False)]
        got = functions.call(f"f{number}", *arrays)
        for i, (array, want) in enumerate(zip(got, outputs, strict=False)):
            bits = integers(array)
            mask = (1 << 128 if array.dtype.names else 2 if array.dtype == bool else 1 << 8 * array.itemsize) - 1
            if set(bits) != {want & mask}:
                wrong.append(f"{opcode}{tuple(map(hex, inputs))} output {i}: {sorted(map(hex, set(bits)))}, not {want & mask:#x}")
    assert not wrong, "\n".join(wrong)
    assert ROWS


def single(bits: int, width: int) -> np.ndarray:
    bits &= (1 << width) - 1
    if width == 1:
        return np.array([bool(bits)])
    if width == 128:
        return np.array([(bits & (1 << 64) - 1, bits >> 64)], [("lo", "<u8"), ("hi", "<u8")])
    return np.array([bits], f"<u{width // 8}")


def integers(array: np.ndarray) -> list[int]:
    if array.dtype.names:
        return [int(row["lo"]) | int(row["hi"]) << 64 for row in array]
    return [int(v) for v in array]
