"""Every declaration of the instruction table, as a statement in a kernel: what has a meaning does the same on both engines, what has none is refused
by name, and both can be bound, checked and analysed."""

from __future__ import annotations

import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from effects import LANES, PARAM, Sample, memory, sample
from forms import entries, number_of, pure, variants

import ptxgraft
from ptxgraft.errors import KernelFault, UnsupportedError
from ptxgraft.flow import Flow
from ptxgraft.isa import Entry, bind
from ptxgraft.text import Document

sys.path.insert(0, str(Path(__file__).parents[1] / "isa"))
from samples import spellings, statement

WRITTEN_BY_HAND = ("brx", "call")
"""Roots whose operands are lists of labels and parameters: `tests/run` has kernels with them."""
STOPS = ("trap", "brkpt")
"""What ends a kernel with a fault."""
LEGACY = "legacy"
"""Spellings of old PTX, which share their meanings with those of today."""
PARTS = 6

pytestmark = pytest.mark.filterwarnings("ignore::ptxgraft.errors.UnconfirmedWarning")


@cache
def samples() -> list[tuple[Entry, Sample]]:
    """One statement for each declaration that does more than compute with values (what only computes has its own tests)."""
    found = []
    for entry in entries():
        if entry.root in WRITTEN_BY_HAND or entry.family == LEGACY:
            continue
        opcode, slots = spellings(entry)[0]
        number = number_of(entry, opcode)
        assert number >= 0, f"the table does not know its own spelling {opcode}"
        if not pure(opcode, number):
            found.append((entry, sample(entry, variants(opcode)[number], slots, statement(opcode, entry, slots))))
    return found


def runnable() -> list[Sample]:
    """What has a meaning or is the engine's. Images have tests of their own; of the many tensor declarations, which share a primitive, each fourth."""
    able = [(entry, s) for entry, s in samples() if entry.family != "texture" and (entry.meaning is not None or entry.control)]
    return [s for entry, s in able if entry.family != "tensor"] + [s for entry, s in able if entry.family == "tensor"][::4]


def left(kernel: str, text: str, engine: str) -> np.ndarray | str:
    """What the kernel leaves in its buffer, or the fault's first line."""
    data = memory(text)
    profile = "sm_120" if "kind::" in text else "sm_90"
    try:
        ptxgraft.load(kernel).kernel("k", profile=profile, engine=engine).launch(1, LANES, [data, bytes(i * 7 % 256 for i in range(PARAM))])
    except KernelFault as fault:
        return str(fault).splitlines()[0]
    return data


@pytest.mark.parametrize("part", range(PARTS))
def test_both_engines_do_the_same(part: int) -> None:
    wrong = []
    for s in runnable()[part::PARTS]:
        reference, compiled = (left(s.kernel, s.text, engine) for engine in ("numpy", "warp"))
        if isinstance(reference, str) or isinstance(compiled, str):
            if reference is not compiled and (not isinstance(reference, str) or reference != compiled or s.form.root not in STOPS):
                wrong.append(f"{s.text}: {reference}; {compiled}")
        elif not np.array_equal(reference, compiled):
            wrong.append(f"{s.text}: {np.count_nonzero(reference != compiled)} bytes differ")
    assert not wrong, "\n".join(wrong)


def test_a_statement_shows_in_the_buffer() -> None:
    """The comparison can fail: most statements leave something that another one does not."""
    chosen = [s for s in runnable() if s.form.stores == "shared" or s.form.root == "ld"]
    assert len(chosen) > 5
    unseen = []
    for s in chosen:
        without = s.kernel.replace(f"\n{s.text}\n", "\n")
        assert without != s.kernel
        # Registers that nothing has written read as zero.
        if np.array_equal(*(left(kernel, s.text, "warp") for kernel in (s.kernel, without))):
            unseen.append(s.text)
    assert not unseen, "\n".join(unseen)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_what_has_no_meaning_is_refused_by_name(engine: str) -> None:
    refused = [s for entry, s in samples() if entry.meaning is None and not entry.control]
    assert refused
    wrong = []
    for s in refused:
        try:
            outcome = left(s.kernel, s.text, engine)
        except UnsupportedError as error:
            line = s.kernel.splitlines().index(s.text) + 1
            said = str(error)
            if s.form.opcode not in said or f":{line}:" not in said or not error.hint:
                wrong.append(f"{s.form.opcode}: {said}")
        else:
            wrong.append(f"{s.text}: {outcome if isinstance(outcome, str) else 'ran'}")
    assert not wrong, "\n".join(wrong)


def test_every_declaration_can_be_analysed() -> None:
    """Binding, blocks, liveness and addresses need no meaning."""
    for _, s in samples():
        flow = Flow(bind(Document.parse(s.kernel), "k"))
        line = s.kernel.splitlines().index(s.text) + 1
        (here,) = [i for i in flow.program.instructions if flow.program.document.line(i.statement.start) == line]
        assert here.form is not None, s.text
        assert here.form.root == s.form.root, s.text
        assert flow.liveness is not None
        assert flow.cfg is not None
