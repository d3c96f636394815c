"""Shuffles, votes, matches and reductions: both instances of ``Lanes`` give every active lane the same bits, whichever lanes are active."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from warp_meanings import Warp, apply, body_of, widths_of

from ptxgraft.isa import ENTRIES, Form, form_of
from ptxgraft.lower.numpy_lanes import NumpyLanes
from ptxgraft.lower.warp_function import WarpFunctions

WARPS = 40


def forms() -> list[Form]:
    found = {}
    for entry in (entry for entries in ENTRIES.values() for entry in entries):
        if entry.family == "warp" and entry.meaning is not None:
            for words in itertools.product(*([*slot.choices, *([""] if slot.optional else [])] for slot in entry.slots)):
                form = form_of(".".join(word for word in words if word))
                if form is not None:
                    found[form.opcode] = form
    return list(found.values())


class Warps:
    """The interpreter's machine: the same lanes of every warp are active."""

    def __init__(self, active: int) -> None:
        self.active = np.broadcast_to(np.array([active >> i & 1 for i in range(32)], bool), (WARPS, 32))

    def special(self, name: str) -> np.ndarray:
        assert name == "laneid"
        return np.arange(32, dtype=np.uint32).reshape(1, 32)


def operands(rng: np.random.Generator, widths: list[int]) -> list[np.ndarray]:
    """Numbers few enough for lanes to agree, lane numbers, masks and segments."""
    found = []
    for width in widths:
        if width == 1:
            found.append(rng.integers(0, 2, (WARPS, 32)) < rng.integers(0, 3, (WARPS, 1)))
            continue
        values = rng.integers(0, 40, (WARPS, 32), dtype=f"u{width // 8}")
        values[::3] = rng.integers(0, 1 << (width - 1), (len(values[::3]), 32))
        # Whole warps that agree, as masks and amounts do.
        values[1::2] = values[1::2, :1]
        values[5::7] = (1 << width) - 1
        values[6::7] = 0x1C1F
        found.append(values)
    return found


@pytest.mark.parametrize("active", [0xFFFFFFFF, 0x0000FFFF, 0x9137_0C81])
def test_both_instances_agree_in_active_lanes(active: int) -> None:
    chosen = forms()
    assert {"shfl", "vote", "match", "redux", "activemask"} <= {form.root for form in chosen}
    functions = WarpFunctions(machine=Warp(active))
    for number, form in enumerate(chosen):
        functions.add(f"f{number}", widths_of(form), body_of(form))
    functions.compile()
    machine = Warps(active)
    lanes = NumpyLanes("sm_90", machine)
    wrong = []
    for number, form in enumerate(chosen):
        inputs = operands(np.random.default_rng(len(form.opcode)), widths_of(form))
        got = functions.call(f"f{number}", *(a.ravel() for a in inputs))
        want = apply(form, lanes, inputs)
        for g, w in zip(got, want, strict=True):
            w = np.broadcast_to(w, (WARPS, 32))
            g = np.broadcast_to(g.reshape(-1, 32 if len(g) == WARPS * 32 else 1), (WARPS, 32))
            for warp, lane in np.argwhere((g != w) & machine.active)[:1]:
                given = ", ".join(hex(int(a[warp, lane])) for a in inputs)
                wrong.append(f"{form.opcode}({given}) in lane {lane}: {int(g[warp, lane]):#x}, not {int(w[warp, lane]):#x}")
    assert not wrong, "\n".join(wrong)
