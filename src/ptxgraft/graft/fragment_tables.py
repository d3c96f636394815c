"""Where the words of each fragment lie, as numbers that a skeleton can print.

Invariant: a word has an offset here only when it is known for every thread of the block and moves with the thread by constant steps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ptxgraft.flow import Flow
from ptxgraft.isa import Reg, Vector
from ptxgraft.spec import LayerSpec, Phase, phase_steps
from ptxgraft.spec.provenance import Source, Tracer


@dataclass(frozen=True, slots=True)
class Step:
    """How an offset moves with the thread: bytes a lane within a quad, a quad, a warp."""

    lane: int
    quad: int
    warp: int


@dataclass(frozen=True, slots=True)
class Word:
    """One 32-bit (or wider) register of a fragment: ``kind`` weights, shared or other; its byte offset for thread 0 and its steps; ``given``: the
    name of the live-in that holds it."""

    kind: str
    offset: int = -1
    step: Step | None = None
    base: str = ""
    given: str = ""


@dataclass(slots=True)
class PhaseTable:
    """One phase: the words of its A, B and C fragments by number, its steps (fragment numbers of each instruction), distinct D registers."""

    phase: Phase
    words: dict[str, list[list[Word]]]
    steps: list[dict[str, int]]
    d_registers: list[str]


def phase_tables(flow: Flow, spec: LayerSpec, first: int, last: int, given: dict[int, str]) -> list[PhaseTable]:
    """The tables of the phases that lie in instructions ``first`` .. ``last``. ``given``: names of the live-ins by register number."""
    tracer = Tracer(flow, spec.block)
    tracer.weight_param = spec.weight_param
    for phase in spec.phases:
        for position, index in enumerate(range(phase.first, phase.last + 1)):
            tracer.mma_of[index] = (phase.index, position)
    return [_table(flow, tracer, phase, first, given) for phase in spec.phases if first <= phase.first and phase.last <= last]


def _table(flow: Flow, tracer: Tracer, phase: Phase, first: int, given: dict[int, str]) -> PhaseTable:
    steps = phase_steps(flow, phase)
    words: dict[str, list[list[Word]]] = {name: [] for name in "abc"}
    registers: dict[str, None] = {}
    for position, step in enumerate(steps):
        instruction = flow.program.instructions[phase.first + position]
        assert instruction.form is not None
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=True):
            items = operand.items if isinstance(operand, Vector) else (operand,)
            if role.kind == "out":
                registers |= {flow.program.registers[i.id].name: None for i in items if isinstance(i, Reg)}
            elif role.name in words and step[role.name] == len(words[role.name]):
                words[role.name].append([_word(tracer, i, instruction.index, first, given) for i in items])
    return PhaseTable(phase, words, steps, list(registers))


def _word(tracer: Tracer, item: object, point: int, first: int, given: dict[int, str]) -> Word:
    if not isinstance(item, Reg):
        return Word("other")
    # Held by a live-in: every write that the instruction sees stands before the region.
    reaching = tracer.flow.defuse.reaching(item.id, point)
    name = given.get(item.id, "") if all(w < first for w in reaching) else ""
    source: Source = tracer.source(item.id, point)
    kind = {"memory": "weights" if source.param == tracer.weight_param else "other", "shared": "shared"}.get(source.kind, "other")
    values = tracer.offsets(source) if kind != "other" else None
    step = steps_of(values) if values is not None else None
    if values is None or step is None:
        return Word("other", given=name)
    return Word(kind, int(values[0]), step, source.base, name)


def steps_of(values: np.ndarray) -> Step | None:
    """The constant steps that offsets of a block's threads (uint64, in thread order) move by, or None when there are none."""
    moved = values.astype(np.int64) - int(values[0])
    count = len(moved)
    number = np.arange(count)
    lane = int(moved[1]) if count > 1 else 0
    quad = int(moved[4]) if count > 4 else 0
    warp = int(moved[32]) if count > 32 else 0
    expected = number % 4 * lane + number % 32 // 4 * quad + number // 32 * warp
    return Step(lane, quad, warp) if np.array_equal(moved, expected) else None
