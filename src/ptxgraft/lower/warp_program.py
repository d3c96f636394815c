"""A bound program as threaded code: places for its registers, operations for its instructions, a stream with function names to fill in.

Invariant: the stream depends on the program and the profile alone, never on a launch: sizes, addresses and handles are read when it runs.
Instruction order is stream order, so that a program counter compares like the instruction's index.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import Form, Imm, Instruction, Operand, Program, Reg, align_up
from ptxgraft.isa.functions import DEVICE_FUNCTIONS
from ptxgraft.lower.warp_control import operation_bytes
from ptxgraft.lower.warp_operations import Encoder, Operation
from ptxgraft.lower.warp_plan import WarpPlan, leaders_of, waits
from ptxgraft.lower.warp_scheduler import LABEL_BYTES
from ptxgraft.lower.warp_state import FULL, OPERATION_HEAD, WARP, Fault, slot_bytes


@dataclass(slots=True)
class Code:
    """``stream``: the operations, function pointers zero. ``calls``: (offset, name) of each pointer to fill in; names of control operations begin
    ``op_`` too. ``operations``: what to compile, by name. ``labels``: stream offset to instruction number. ``warp_bytes``: size of a warp's state.
    ``slots``: each register's place in a warp's state. ``ordered``: blocks must run one after another, because lanes of different blocks meet in memory
    (atomics). ``waits``: threads may wait in a loop for others, so that warps and blocks must take turns. ``native``: the stream is one operation, a function for the whole program, and labels are block numbers. ``errors``: what to raise when an instruction that cannot run is reached, by its number."""

    stream: bytearray = field(default_factory=bytearray)
    calls: list[tuple[int, str]] = field(default_factory=list)
    operations: dict[str, tuple[Operation, Form]] = field(default_factory=dict)
    labels: dict[int, int] = field(default_factory=dict)
    warp_bytes: int = WARP.size
    slots: dict[int, int] = field(default_factory=dict)
    ordered: bool = False
    native: bool = False
    waits: bool = False
    errors: dict[int, UnsupportedError] = field(default_factory=dict)


def assemble(program: Program, plan: WarpPlan, profile: str, refused: Mapping[str, UnsupportedError] | None = None) -> Code:
    """The threaded code of a program. What cannot be encoded, and operations whose names are ``refused`` (they could not be compiled), become
    operations that stop the launch when they are reached."""
    return _Assembler(program, plan, profile, refused or {}).run()


def native_code(program: Program, plan: WarpPlan, name: str) -> Code:
    """The stream of a program that is one function (``warp_native``), called ``name`` among the stream's calls."""
    slots, size = register_slots(program, plan)
    code = Code(warp_bytes=size, slots=slots, ordered=meets(program), native=True)
    code.stream += bytes(operation_bytes(0))
    code.calls.append((0, name))
    code.labels = dict(enumerate(sorted(leaders_of(program))))
    return code


def meets(program: Program) -> bool:
    """Do lanes of different blocks meet in memory, so that the order of blocks shows?"""
    forms = (i.form for i in program.instructions)
    heap = any(i.callee in ("malloc", "free") for i in program.instructions)
    return heap or any(f is not None and (f.root == "sured" or (f.family == "atomic" and f.stores in ("global", "generic"))) for f in forms)


def register_slots(program: Program, plan: WarpPlan) -> tuple[dict[int, int], int]:
    """A byte offset in the warp's state for every register, and the state's size: registers that are never live together share one.

    Linear scan over instruction order; an interval covers every block that its register is live through. Reads of instruction i lie at 2i, its
    writes at 2i + 1, so that a result may take the place of an operand read for the last time.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}

    def touch(register: int, point: int) -> None:
        first[register] = min(first.get(register, point), point)
        last[register] = max(last.get(register, point), point)

    for instruction in program.instructions:
        for register in instruction.reads:
            touch(register, 2 * instruction.index)
        for register in instruction.writes:
            touch(register, 2 * instruction.index + 1)
    for (start, stop), live_in, live_out in zip(plan.blocks, plan.live_in, plan.live_out, strict=True):
        for register in live_in:
            touch(register, 2 * start - 1)
        for register in live_out:
            touch(register, 2 * stop)
    slots: dict[int, int] = {}
    free: dict[int, list[int]] = {}
    top = WARP.size
    ends = sorted((end, register) for register, end in last.items())
    expired = 0
    for register in sorted(first, key=first.__getitem__):
        while expired < len(ends) and ends[expired][0] < first[register]:
            gone = ends[expired][1]
            free.setdefault(slot_bytes(program.registers[gone].type.width), []).append(slots[gone])
            expired += 1
        size = slot_bytes(program.registers[register].type.width)
        reuse = free.get(size)
        if reuse:
            slots[register] = reuse.pop()
        else:
            align = min(64, size)
            top = align_up(top, align)
            slots[register] = top
            top += size
    return slots, (top + 63) // 64 * 64


class _Assembler:
    def __init__(self, program: Program, plan: WarpPlan, profile: str, refused: Mapping[str, UnsupportedError]) -> None:
        self.program, self.plan, self.refused = program, plan, refused
        self.slots, size = register_slots(program, plan)
        self.code = Code(warp_bytes=size, slots=self.slots, ordered=meets(program))
        self.encoder = Encoder(program, self.slots, profile)
        self.places: dict[int, int] = {}
        self.targets: list[tuple[int, int]] = []
        self.names: dict[Operation, str] = {}

    def run(self) -> Code:
        instructions = self.program.instructions
        leaders = leaders_of(self.program)
        for register in sorted(self.plan.live_in[0]) if self.plan.live_in else ():
            self.control("clear", 0, self.slots[register], slot_bytes(self.program.registers[register].type.width))
        order = sorted(leaders)
        lengths = dict(zip(order, (b - a for a, b in zip(order, [*order[1:], len(instructions)], strict=True)), strict=True))
        for instruction in instructions:
            if instruction.index in leaders:
                self.label(instruction.index, lengths[instruction.index])
            self.instruction(instruction)
        for at, target in self.targets:
            struct.pack_into("<I", self.code.stream, at, self.places[target])
        return self.code

    # -- the stream ---------------------------------------------------------------------------------------------------
    def append(self, name: str, index: int, words: Sequence[int]) -> int:
        """Add an operation; returns its offset."""
        stream = self.code.stream
        at = len(stream)
        self.code.calls.append((at, name))
        stream += struct.pack(f"<QI{len(words)}I", 0, index, *words)
        stream += bytes(at + operation_bytes(len(words)) - len(stream))
        return at

    def control(self, name: str, index: int, *words: int) -> int:
        return self.append("op_" + name, index, [w & FULL for w in words])

    def label(self, index: int, count: int) -> None:
        at = self.control("label", index, count)
        assert len(self.code.stream) == at + LABEL_BYTES
        self.places[index] = at
        self.code.labels[at] = index

    def jump_to(self, at: int, word: int, target: int) -> None:
        """The operand ``word`` of the operation at ``at`` is the label of instruction ``target``."""
        self.targets.append((at + OPERATION_HEAD + 4 * word, target))

    # -- instructions -------------------------------------------------------------------------------------------------
    def instruction(self, instruction: Instruction) -> None:
        form = instruction.form
        control = form.control if form is not None else ""
        if control == "call" and instruction.callee in DEVICE_FUNCTIONS:
            self.control("call", instruction.index)
        elif form is None or control == "call" or (not control and form.meaning is None):
            self.stop(instruction, Fault.UNKNOWN)
        elif control == "branch":
            self.branch(instruction, instruction.targets[0])
        elif control == "indirect-branch":
            self.branch_table(instruction)
        elif control in ("return", "exit"):
            guard = self.condition(instruction.guard)
            self.control("exit_if" if guard else "exit", instruction.index, *guard)
        elif control == "trap":
            self.stop(instruction, Fault.TRAP)
        elif control == "barrier":
            self.barrier(instruction, form)
        else:
            self.operation(instruction, form)

    def condition(self, guard: Reg | None) -> tuple[int, ...]:
        return () if guard is None else (self.slots[guard.id], -1 if guard.negated else 0)

    def stop(self, instruction: Instruction, kind: Fault) -> None:
        guard = self.condition(instruction.guard)
        self.control("trap_if" if guard else "trap", instruction.index, *guard, kind)

    def branch(self, instruction: Instruction, target: int) -> None:
        guard = self.condition(instruction.guard)
        at = self.control("branch" if guard else "jump", instruction.index, *guard, 0)
        self.jump_to(at, len(guard), target)

    def around(self, instruction: Instruction) -> None:
        """Lanes whose guard fails go to the next instruction and stand there until the others have come."""
        if instruction.guard is not None:
            slot, flip = self.condition(instruction.guard)
            self.jump_to(self.control("branch", instruction.index, slot, ~flip, 0), 2, instruction.index + 1)
            # The branch falls through to a label; lanes that take part wait there.
            at = self.control("label", instruction.index, 0)
            self.code.labels[at] = instruction.index

    def branch_table(self, instruction: Instruction) -> None:
        index = instruction.operands[0]
        if not isinstance(index, Reg):
            self.stop(instruction, Fault.UNKNOWN)
            return
        self.around(instruction)
        at = self.control("branch_table", instruction.index, self.slots[index.id], len(instruction.targets), *instruction.targets)
        for i, target in enumerate(instruction.targets):
            self.jump_to(at, 2 + i, target)

    def barrier(self, instruction: Instruction, form: Form) -> None:
        named: Mapping[str, Operand | None] = {r.name: o for r, o in zip(form.roles, instruction.operands, strict=True)}
        action, how = form.slots.get("action", ""), form.slots.get("op", "")
        if action not in ("sync", "arrive", "red") or "a" not in named:
            self.stop(instruction, Fault.UNKNOWN)
            return
        self.around(instruction)
        count, predicate = named.get("b"), named.get("c")
        if action == "red" and predicate is None:
            count, predicate = None, count
        vote = self.source_of_predicate(predicate)
        words = (*self.source(named["a"]), *self.source(count), *vote)
        self.control("barrier", instruction.index, int(action == "arrive") + 2 * (count is not None), *words)
        at = self.control("label", instruction.index, 0)
        self.code.labels[at] = instruction.index
        result = named.get("d")
        if action == "red" and isinstance(result, Reg):
            self.control("tally", instruction.index, ("popc", "and", "or").index(how), self.slots[result.id])

    def source(self, operand: Operand | None) -> tuple[int, int]:
        """A number as (slot, 0) or (0, literal)."""
        if operand is None:
            return 0, 0
        if isinstance(operand, Reg):
            return self.slots[operand.id], 0
        if isinstance(operand, Imm):
            return 0, int(operand.value)
        raise UnsupportedError("this operand of a barrier is not supported")

    def source_of_predicate(self, operand: Operand | None) -> tuple[int, int]:
        if isinstance(operand, Reg):
            return self.slots[operand.id], -1 if operand.negated else 0
        return 0, -1 if isinstance(operand, Imm) and operand.value else 0

    def operation(self, instruction: Instruction, form: Form) -> None:
        together = form.convergent and waits(form)
        try:
            operation, words = self.encoder.encode(instruction, None if together else instruction.guard)
        except UnsupportedError as error:
            self.refuse(instruction, error)
            return
        name = self.names.get(operation)
        if name is None:
            name = self.names[operation] = operation.name
            if name not in self.refused:
                self.code.operations[name] = (operation, form)
        if name in self.refused:
            self.refuse(instruction, self.refused[name])
            return
        if together:
            self.around(instruction)
            self.control("converge", instruction.index, *self.members(instruction, form))
        self.append(name, instruction.index, words)

    def refuse(self, instruction: Instruction, error: UnsupportedError) -> None:
        self.code.errors[instruction.index] = error
        self.stop(instruction, Fault.UNKNOWN)

    def members(self, instruction: Instruction, form: Form) -> tuple[int, int]:
        for role, operand in zip(form.roles, instruction.operands, strict=True):
            if role.name == "membermask":
                return self.source(operand)
        return 0, FULL
