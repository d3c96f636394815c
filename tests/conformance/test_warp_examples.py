"""Every example of the instruction table, through the form's meaning, on the warp instance of ``Lanes``."""

from __future__ import annotations

import numpy as np
import pytest
from warp_meanings import FullWarp, body_of, widths_of

from ptxgraft.isa import ENTRIES, form_of
from ptxgraft.lower.warp_function import WarpFunctions

ROWS = [row for entries in ENTRIES.values() for entry in entries if entry.meaning is not None for row in entry.examples]


@pytest.mark.parametrize("uniform", [False, True], ids=["vectors", "scalars"])
def test_examples_of_the_instruction_table(uniform: bool) -> None:
    functions = WarpFunctions(machine=FullWarp())
    for number, (opcode, inputs, _) in enumerate(ROWS):
        form = form_of(opcode)
        assert form is not None, opcode
        functions.add(f"f{number}", widths_of(form)[: len(inputs)], body_of(form), [uniform] * len(inputs))
    functions.compile()
    wrong = []
    for number, (opcode, inputs, outputs) in enumerate(ROWS):
        form = form_of(opcode)
        assert form is not None
        arrays = [spread(bits, width, 1 if uniform else 32) for bits, width in zip(inputs, widths_of(form), strict=False)]
        got = functions.call(f"f{number}", *arrays)
        for i, (array, want) in enumerate(zip(got, outputs, strict=False)):
            bits = integers(array)
            mask = (1 << 128 if array.dtype.names else 2 if array.dtype == bool else 1 << 8 * array.itemsize) - 1
            if set(bits) != {want & mask}:
                wrong.append(f"{opcode}{tuple(map(hex, inputs))} output {i}: {sorted(map(hex, set(bits)))}, not {want & mask:#x}")
    assert not wrong, "\n".join(wrong)
    assert ROWS


def spread(bits: int, width: int, count: int) -> np.ndarray:
    bits &= (1 << width) - 1
    if width == 1:
        return np.full(count, bool(bits))
    if width == 128:
        return np.array([(bits & (1 << 64) - 1, bits >> 64)] * count, [("lo", "<u8"), ("hi", "<u8")])
    return np.full(count, bits, f"<u{width // 8}")


def integers(array: np.ndarray) -> list[int]:
    if array.dtype.names:
        return [int(row["lo"]) | int(row["hi"]) << 64 for row in array]
    return [int(v) for v in array]
