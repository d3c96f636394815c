"""Every example of the instruction table, through the form's meaning, on the warp instance of ``Lanes``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ptxgraft.isa import ENTRIES, Form, Role, form_of
from ptxgraft.lower.ir import Val, lane_constants, literal
from ptxgraft.lower.warp_function import WarpFunctions
from ptxgraft.lower.warp_lanes import WarpLanes

ROWS = [row for entries in ENTRIES.values() for entry in entries if entry.meaning is not None for row in entry.examples]


class FullWarp:
    """All lanes are active; the only special register is the lane's number."""

    mask = literal(1, 1)

    def special(self, name: str) -> Val:
        assert name == "laneid", f"an example cannot depend on %{name}"
        return lane_constants(range(32), 32)


def inputs_of(form: Form) -> list[Role]:
    return [role for role in form.roles if role.kind in ("in", "inout")]


def width_of(role: Role) -> int:
    assert role.type is not None
    return role.type.width


def flat(result: Any) -> Iterator[Val]:
    if isinstance(result, list | tuple):
        for part in result:
            yield from flat(part)
    elif result is not None:
        yield result


def body_of(form: Form):
    """The form's meaning over a flat list of values; optional inputs that have none are absent."""

    def body(lanes: WarpLanes, values: list[Val]) -> list[Val]:
        rest = list(values)
        arguments: list[Any] = []
        for role in inputs_of(form):
            taken, rest = rest[: role.count], rest[role.count :]
            arguments.append(None if not taken else tuple(taken) if role.count > 1 else taken[0])
        assert form.meaning is not None and not rest
        return list(flat(form.meaning(lanes, *arguments, **form.options)))

    return body


@pytest.mark.parametrize("uniform", [False, True], ids=["vectors", "scalars"])
def test_examples_of_the_instruction_table(uniform: bool) -> None:
    functions = WarpFunctions(machine=FullWarp())
    runs = []
    for number, (opcode, inputs, outputs) in enumerate(ROWS):
        form = form_of(opcode)
        assert form is not None, opcode
        widths = [width_of(role) for role in inputs_of(form) for _ in range(role.count)][: len(inputs)]
        functions.add(f"f{number}", widths, body_of(form), [uniform] * len(inputs))
        runs.append((number, opcode, inputs, widths, outputs))
    functions.compile()
    wrong = []
    for number, opcode, inputs, widths, outputs in runs:
        arrays = [spread(bits, width, 1 if uniform else 32) for bits, width in zip(inputs, widths, strict=True)]
        got = functions.call(f"f{number}", *arrays)
        for i, (array, want) in enumerate(zip(got, outputs, strict=False)):
            bits = integers(array)
            mask = (1 << 128 if array.dtype.names else 2 if array.dtype == bool else 1 << 8 * array.itemsize) - 1
            if set(bits) != {want & mask}:
                wrong.append(f"{opcode}{tuple(map(hex, inputs))} output {i}: {sorted(map(hex, set(bits)))}, not {want & mask:#x}")
    assert not wrong, "\n".join(wrong)
    assert runs


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
