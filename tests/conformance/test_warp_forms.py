"""The two instances of ``Lanes`` on forms of every declaration in the instruction table: awkward operands, the same bits."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator

import numpy as np
from warp_meanings import FullWarp, apply, body_of, is_of_values, operand, widths_of

from ptxgraft.isa import ENTRIES, Entry, Form, form_of
from ptxgraft.lower.numpy_lanes import NumpyLanes
from ptxgraft.lower.warp_function import WarpFunctions

FORMS_OF_AN_ENTRY = 6
WARPS = 12


def spellings(entry: Entry) -> Iterator[str]:
    """Spellings of a declaration, in an order that is the same every time."""
    rng = random.Random(entry.spelling)
    choices = [[*slot.choices, *([""] if slot.optional else [])] for slot in entry.slots]
    if math.prod(map(len, choices)) <= 5000:
        found = list(itertools.product(*choices))
        rng.shuffle(found)
    else:
        found = [tuple(rng.choice(words) for words in choices) for _ in range(2000)]
    return (".".join(word for word in words if word) for words in found)


def forms() -> dict[str, Form]:
    found: dict[str, Form] = {}
    for entry in (entry for entries in ENTRIES.values() for entry in entries):
        if entry.meaning is None or entry.loads or entry.stores:
            continue
        usable = ((opcode, form_of(opcode)) for opcode in spellings(entry))
        fitting = ((opcode, form) for opcode, form in usable if form is not None and form.entry is entry and is_of_values(form))
        found.update((opcode, form) for opcode, form in itertools.islice(fitting, FORMS_OF_AN_ENTRY))
    return found


class FullWarps:
    """The interpreter's side: all lanes of all warps are active."""

    active = np.ones((WARPS, 32), dtype=bool)

    def special(self, name: str) -> np.ndarray:
        return np.arange(32, dtype=np.uint32).reshape(1, 32)


def test_both_instances_agree_on_every_kind_of_form() -> None:
    chosen = forms()
    assert len({form.entry.spelling for form in chosen.values()}) > 100
    functions = WarpFunctions(machine=FullWarp())
    for number, form in enumerate(chosen.values()):
        functions.add(f"f{number}", widths_of(form), body_of(form))
    functions.compile()
    lanes = NumpyLanes("sm_90", FullWarps())
    wrong = []
    for number, (opcode, form) in enumerate(chosen.items()):
        rng = np.random.default_rng(len(opcode))
        inputs = [operand(rng, width, 32 * WARPS) for width in widths_of(form)]
        got = functions.call(f"f{number}", *inputs)
        want = apply(form, lanes, [a.reshape(WARPS, 32) for a in inputs])
        for i, (g, w) in enumerate(zip(got, want, strict=True)):
            w = np.broadcast_to(w, (WARPS, 32)).ravel()
            g = np.repeat(g, len(w) // len(g)) if len(inputs) else np.resize(g, len(w))
            for at in np.flatnonzero(g != w)[:1]:
                wrong.append(f"{opcode}({', '.join(hex(int(a[at])) for a in inputs)}) output {i}: {int(g[at]):#x}, not {int(w[at]):#x}")
    assert not wrong, "\n".join(wrong)
