"""Which outputs may be poisoned before a comparison, so that a byte nobody writes shows.

Invariant: only what the kernel never reads is poisoned, and what cannot be known to be unread counts as read; both sides of a comparison start from the
same poisoned launch.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ptxgraft import capture
from ptxgraft.flow import Flow
from ptxgraft.isa import Address, Instruction, Program, Var, Vector
from ptxgraft.run.recording import POISON

OUTSIDE = frozenset({"global", "const", "generic"})
"""Spaces that reach allocations."""

INSIDE = frozenset({"local", "shared"})
"""Spaces that carry values from one instruction of a thread's block to another."""

POINTER_BYTES = 8


def poisoned(recorded: capture.Launch, program: Program) -> tuple[capture.Launch, list[str]]:
    """``recorded`` with every output that ``program`` never reads filled with ``POISON`` before the launch, and those outputs' names.

    A surface is poisoned when the program loads from no surface; an allocation when no load's address comes from an argument that points into it.
    """
    names: list[str] = []
    surfaces, allocations = recorded.surfaces, recorded.allocations
    if surfaces and not _loads_surfaces(program):
        surfaces = [replace(i, before=_filled(i.size)) if i.size is not None else i for i in surfaces]
        names += [f"surface at {i.place}" for i in surfaces if i.size is not None]
    read = arguments_read(Flow(program))
    if read is not None:
        words = {*range(0, len(recorded.args) - POINTER_BYTES + 1, POINTER_BYTES), *(p.offset for p in recorded.pointers)}
        unread = _pointed(recorded, words) - _pointed(recorded, read)
        allocations = [replace(a, before=_filled(a.size)) if a.index in unread else a for a in allocations]
        names = [f"allocation {a.index}" for a in allocations if a.index in unread and a.size] + names
    return replace(recorded, allocations=allocations, surfaces=surfaces), names


def _filled(size: int) -> np.ndarray:
    return np.full(size, POISON, dtype=np.uint8)


def _loads_surfaces(program: Program) -> bool:
    """Surface loads and atomics; an instruction that is not known may be one."""
    return any(i.form is None or i.form.root in ("suld", "sured") for i in program.instructions)


def _pointed(recorded: capture.Launch, offsets: set[int]) -> set[int]:
    """The allocations that the words at these argument offsets point into, by index. A pointer just past the end belongs to its allocation too."""
    known = {p.offset: p.allocation for p in recorded.pointers}
    found: set[int] = set()
    for offset in offsets:
        if offset in known:
            found.add(known[offset])
        elif offset + POINTER_BYTES <= len(recorded.args):
            held = recorded.allocation_at(recorded.u64(offset))
            found |= {held.index} if held is not None else set()
    return found


def arguments_read(flow: Flow) -> set[int] | None:
    """Argument offsets (multiples of 8) whose values flow into the address of a load or an atomic; None when an address may hold what no argument gave:
    a pointer loaded from memory, one put together from halves, the address of a parameter, the result of an unknown instruction."""
    program = flow.program
    found: set[int] = set()
    waiting: list[int] = []
    seen: set[int] = set()

    def follow(registers: tuple[int, ...] | list[int], point: int) -> None:
        for register in registers:
            for write in flow.defuse.reaching(register, point):
                if write >= 0 and write not in seen:
                    seen.add(write)
                    waiting.append(write)

    inner_stores = [i for i in program.instructions if i.form is not None and i.form.stores in INSIDE]
    for instruction in program.instructions:
        form = instruction.form
        if form is None:
            return None
        if form.loads in OUTSIDE or (form.family == "atomic" and form.stores in OUTSIDE):
            follow(instruction.reads, instruction.index)
    while waiting:
        here = waiting.pop()
        instruction = program.instructions[here]
        form = instruction.form
        if form is None or _takes_address_of_parameter(program, instruction) or _packs(instruction):
            return None
        if form.loads == "param":
            offsets = _words_loaded(flow, instruction)
            if offsets is None:
                return None
            found |= offsets
        elif form.loads in OUTSIDE:
            if _bytes_loaded(instruction) >= POINTER_BYTES:
                return None
        elif form.loads in INSIDE:
            for store in inner_stores:
                follow(store.reads, store.index)
        follow(instruction.reads, here)
    return found


def _takes_address_of_parameter(program: Program, instruction: Instruction) -> bool:
    return any(isinstance(o, Var) and program.variables[o.id].space == "param" for o in instruction.operands)


def _packs(instruction: Instruction) -> bool:
    """A ``mov`` that makes one register of several: a pointer may be made of loaded halves."""
    form = instruction.form
    return form is not None and form.root == "mov" and any(isinstance(o, Vector) for o in instruction.operands[1:])


def _bytes_loaded(instruction: Instruction) -> int:
    """Bytes of one element of a load: what could be a pointer is 8."""
    assert instruction.form is not None
    return max((r.type.bytes for r in instruction.form.roles if r.kind == "out" and r.type is not None), default=POINTER_BYTES)


def _words_loaded(flow: Flow, instruction: Instruction) -> set[int] | None:
    """The 8-byte words of the argument block that a parameter load touches; None when its address is not known."""
    assert instruction.form is not None and any(isinstance(o, Address) for o in instruction.operands)
    address = flow.symbols.address(instruction.index)
    if address is None or not address.is_constant:
        return None
    size = sum(r.type.bytes * r.count for r in instruction.form.roles if r.kind == "out" and r.type is not None)
    first, last = address.constant, address.constant + max(size, 1) - 1
    return set(range(first // POINTER_BYTES * POINTER_BYTES, last + 1, POINTER_BYTES))
