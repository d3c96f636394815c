"""Functions that run in frames of a stack: what a frame holds, and calls turned into branches, loads and stores.

Invariant: engines need nothing new for such calls. A thread's stack lies in its local memory behind what the entry declares and grows upward. A frame holds
the caller's frame pointer, the number of the place to return to, parameters, return values, the function's local variables and, where the
function may be entered again before a call of it returns, the registers that live across that call. Bodies stand before those that call them, so that lanes inside a
function have smaller program counters than those that wait behind its call, and meet them there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ptxgraft.errors import SourceError
from ptxgraft.isa.functions import FUNCTION_STEP, FUNCTION_WINDOW, Sizes
from ptxgraft.isa.operands import Address, Imm, Operand, Reg, Sink, Symbol, Var
from ptxgraft.isa.program import Instruction, align_up
from ptxgraft.text import Statement

if TYPE_CHECKING:
    from ptxgraft.isa.binding import Binder
    from ptxgraft.isa.scopes import Labels

HEADER_BYTES = 16
RETURN_AT = 8
"""A frame begins with the caller's frame pointer (64 bits) and the number of the place to return to (32 bits)."""

FRAME_ALIGN = 16


@dataclass(slots=True, eq=False)
class Call:
    """A call that takes a frame. ``pointer`` holds the address of one of ``callees``, of which the first lies at ``first`` (None: there is one callee).
    ``returns`` and ``arguments`` line up with ``sizes``."""

    statement: Statement
    callees: tuple[str, ...]
    pointer: Reg | None
    first: int
    sizes: Sizes
    returns: tuple[Operand, ...]
    arguments: tuple[Operand, ...]


@dataclass(slots=True, eq=False)
class Body:
    """Instructions of the entry or of a function that has frames, numbered by themselves. ``local`` counts the bytes of its local variables (in a frame: and of
    all before them). ``calls`` are placeholders by number; ``leaving`` the branches that return; ``results`` (register, bytes, place in the frame) of return values that are
    registers. ``exchanges`` are local variables through which device functions are called, by size."""

    name: str
    framed: bool
    local: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    pending: list[tuple[Instruction, Labels, int, str]] = field(default_factory=list)
    returns: dict[str, int] = field(default_factory=dict)
    returning: list[tuple[Instruction, str]] = field(default_factory=list)
    calls: dict[int, Call] = field(default_factory=dict)
    leaving: list[Instruction] = field(default_factory=list)
    results: list[tuple[Reg, int, int]] = field(default_factory=list)
    exchanges: dict[int, int] = field(default_factory=dict)


def slots_of(sizes: Sizes) -> tuple[list[int], list[int], int]:
    """Where in a frame the return values and the parameters lie, and where they end."""
    returns, params = sizes
    at = HEADER_BYTES
    places: list[int] = []
    for size in (*params, *returns):
        at = align_up(at, 16 if size > 8 else 8)
        places.append(at)
        at += size
    return places[len(params) :], places[: len(params)], at


# -- values into memory and back ------------------------------------------------------------------------------------------
def put(binder: Binder, statement: Statement, value: Operand, size: int, to: Address) -> None:
    """Store a value of ``size`` bytes; a call's parameter is copied."""
    if isinstance(value, Var):
        _copy(binder, statement, value, Address(value, 0), to, size)
    elif isinstance(value, Reg) and binder.registers[value.id].type.kind == "p":
        word = binder.scratch(32)
        binder.synthetic("selp.b32", (word, Imm("int", 1), Imm("int", 0), value), statement)
        binder.synthetic("st.local.b8", (to, word), statement)
    else:
        binder.synthetic(f"st.local.{_bits(size)}", (to, value), statement)


def get(binder: Binder, statement: Statement, target: Operand, size: int, source: Address) -> None:
    """Load a value of ``size`` bytes into a register, or copy it to a call's parameter."""
    if isinstance(target, Var):
        _copy(binder, statement, target, source, Address(target, 0), size)
    elif isinstance(target, Reg) and binder.registers[target.id].type.kind == "p":
        word = binder.scratch(32)
        binder.synthetic("ld.local.b8", (word, source), statement)
        binder.synthetic("setp.ne.u32", (target, None, word, Imm("int", 0)), statement)
    elif not isinstance(target, Sink):
        binder.synthetic(f"ld.local.{_bits(size)}", (target, source), statement)


def _bits(size: int) -> str:
    if size not in (1, 2, 4, 8, 16):
        raise SourceError(f"a parameter of {size} bytes must be a .param variable in the call too")
    return f"b{8 * size}"


def _copy(binder: Binder, statement: Statement, variable: Var, source: Address, to: Address, size: int) -> None:
    """Copy in steps as wide as the variable's alignment allows; the other side is aligned to 8 at least, or to its size."""
    align = min(binder.variables[variable.id].align, 8)
    at = 0
    while at < size:
        step = next(n for n in (8, 4, 2, 1) if n <= align and at % n == 0 and at + n <= size)
        register = binder.scratch(8 * step)
        binder.synthetic(f"ld.local.b{8 * step}", (register, Address(source.base, source.offset + at)), statement)
        binder.synthetic(f"st.local.b{8 * step}", (Address(to.base, to.offset + at), register), statement)
        at += step


# -- from bodies to one program -------------------------------------------------------------------------------------------
class Linker:
    """Puts an entry and the functions that have frames together. ``bodies`` are those functions, by name."""

    def __init__(self, binder: Binder, entry: Body, bodies: dict[str, Body]) -> None:
        self.binder, self.entry, self.bodies = binder, entry, bodies
        self.order = [*_callees_first(entry, bodies), entry]
        self.reached = {name: _reached(body, bodies) for name, body in bodies.items()}
        self.saved: dict[Call, list[tuple[Reg, int, int]]] = {}
        self.sizes: dict[str, int] = {}
        for name, body in bodies.items():
            self.sizes[name] = self._frame(body)
        self.groups = _groups([call for body in self.order for call in body.calls.values()])
        self.places: dict[Body, list[int]] = {}
        self.starts: dict[str, int] = {}
        self.branches: list[tuple[Instruction, Call]] = []
        self.points: dict[int, list[int]] = {}

    def run(self) -> list[Instruction]:
        """All instructions, renumbered, with their targets; ``places`` then says where each went."""
        binder, out = self.binder, Body("", False)
        binder.body = out
        self._begin()
        for body in self.order:
            out.framed = body.framed
            self.starts[body.name] = len(out.instructions)
            place = self.places[body] = []
            for number, instruction in enumerate(body.instructions):
                place.append(len(out.instructions))
                if number in body.calls:
                    self._expand(body.calls[number])
                else:
                    binder.append(instruction)
            place.append(len(out.instructions))
        for body in self.order:
            place = self.places[body]
            for number, instruction in enumerate(body.instructions):
                if number not in body.calls:
                    instruction.targets = tuple([place[t] for t in instruction.targets])
            for instruction in body.leaving:
                instruction.targets = tuple(self.points.get(self.groups[body.name], ()))
        for instruction, call in self.branches:
            instruction.targets = tuple([self.starts[name] for name in call.callees])
        if self.bodies:
            out.instructions[self.jump].targets = (self.starts[self.entry.name],)
        return out.instructions

    def stack_need(self) -> int | None:
        """The bytes that frames take at most; None when a function may be entered again, or takes stack memory of its own."""
        if any(i.form is not None and i.form.root == "alloca" for body in self.order for i in body.instructions):
            return None
        if any(name in reached for name, reached in self.reached.items()):
            return None
        need: dict[str, int] = {}
        for body in self.order:
            deepest = 0
            for call in body.calls.values():
                deepest = max(deepest, self._room(call) + max((need[name] for name in call.callees), default=0))
            need[body.name] = deepest
        return need[self.entry.name]

    # -- frames -------------------------------------------------------------------------------------------------------
    def _frame(self, body: Body) -> int:
        """The size of a function's frame; notes which registers each of its calls saves there, and where."""
        again = {n: call for n, call in body.calls.items() if any(body.name in self.reached[c] or c == body.name for c in call.callees)}
        end = body.local
        live = _live_across(body) if again else {}
        for number, call in again.items():
            at = body.local
            saved = self.saved[call] = []
            for register in self._registers(live[number]):
                size = self.binder.registers[register].type.bytes
                at = align_up(at, size)
                saved.append((Reg(register), size, at))
                at += size
            end = max(end, at)
        return align_up(end, FRAME_ALIGN)

    def _room(self, call: Call) -> int:
        """The size of the frame that a call takes, whichever function it reaches."""
        return max((self.sizes[name] for name in call.callees), default=align_up(slots_of(call.sizes)[2], FRAME_ALIGN))

    def _registers(self, mask: int) -> Iterator[int]:
        kept = {r.id for r in (self.binder.frame, self.binder.stack, self.binder.fresh_frame, self.binder.depth)}
        while mask:
            register = (mask & -mask).bit_length() - 1
            mask &= mask - 1
            if register not in kept:
                yield register

    # -- what is written for a call -----------------------------------------------------------------------------------
    def _begin(self) -> None:
        """The stack is empty, and the entry begins."""
        binder = self.binder
        opening = binder.document.statements[binder.document.scopes[binder.entry.scope].first]
        binder.synthetic("mov.b64", (binder.stack, Imm("int", align_up(self.entry.local, FRAME_ALIGN))), opening)
        if self.entry.calls or self.bodies:
            binder.synthetic("mov.b64", (binder.frame, Imm("int", 0)), opening)
            binder.synthetic("mov.b32", (binder.depth, Imm("int", 0)), opening)
        if self.bodies:
            self.jump = binder.synthetic("bra", (Symbol(self.entry.name),), opening).index

    def _expand(self, call: Call) -> None:
        binder, statement = self.binder, call.statement
        frame, fresh, depth = binder.frame, binder.fresh_frame, binder.depth
        returns, params, _ = slots_of(call.sizes)
        saved = self.saved.get(call, ())
        for register, size, at in saved:
            put(binder, statement, register, size, Address(frame, at))
        room = Imm("int", self._room(call))
        binder.synthetic("alloca.u64", (fresh, room, Imm("int", FRAME_ALIGN), binder.stack, depth), statement)
        for value, size, at in zip(call.arguments, call.sizes[1], params, strict=True):
            put(binder, statement, value, size, Address(fresh, at))
        points = self.points.setdefault(self.groups[call.callees[0]], []) if call.callees else []
        binder.synthetic("st.local.b64", (Address(fresh, 0), frame), statement)
        binder.synthetic("st.local.b32", (Address(fresh, RETURN_AT), Imm("int", len(points))), statement)
        index = self._function_number(call)
        binder.synthetic("mov.b64", (frame, fresh), statement)
        binder.synthetic("add.u32", (depth, depth, Imm("int", 1)), statement)
        if index is None:
            branch = binder.synthetic("bra", (Symbol(call.callees[0]),), statement)
        else:
            assert call.pointer is not None
            branch = binder.synthetic("brx.idx", (index, Symbol("functions")), statement)
            branch.reads = (*branch.reads, call.pointer.id)
        self.branches.append((branch, call))
        points.append(len(binder.body.instructions))
        # The frame pointer is still the callee's.
        binder.synthetic("mov.b64", (fresh, frame), statement)
        binder.synthetic("ld.local.b64", (frame, Address(fresh, 0)), statement)
        binder.synthetic("mov.b64", (binder.stack, fresh), statement)
        binder.synthetic("sub.u32", (depth, depth, Imm("int", 1)), statement)
        for target, size, at in zip(call.returns, call.sizes[0], returns, strict=True):
            get(binder, statement, target, size, Address(fresh, at))
        for register, size, at in saved:
            get(binder, statement, register, size, Address(frame, at))

    def _function_number(self, call: Call) -> Reg | None:
        """The number of the function that an indirect call's pointer means; out of range when it means none."""
        pointer = call.pointer
        if pointer is None:
            return None
        binder, statement = self.binder, call.statement
        offset, number, rest = binder.hidden(".number", "b64"), binder.scratch(64), binder.scratch(32)
        if binder.registers[pointer.id].type.width == 32:
            binder.synthetic("cvt.u64.u32", (offset, pointer), statement)
            binder.synthetic("or.b64", (offset, offset, Imm("int", FUNCTION_WINDOW)), statement)
            pointer = offset
        binder.synthetic("sub.u64", (offset, pointer, Imm("int", call.first)), statement)
        # Divided by the distance of two functions; what is no multiple of it ends up in the high bits.
        shift = FUNCTION_STEP.bit_length() - 1
        binder.synthetic("shl.b64", (number, offset, Imm("int", 64 - shift)), statement)
        binder.synthetic("shr.u64", (offset, offset, Imm("int", shift)), statement)
        binder.synthetic("or.b64", (number, number, offset), statement)
        binder.synthetic("min.u64", (number, number, Imm("int", 0xFFFFFFFF)), statement)
        binder.synthetic("cvt.u32.u64", (rest, number), statement)
        return rest


def _callees_first(entry: Body, bodies: dict[str, Body]) -> list[Body]:
    """The bodies that calls from the entry reach, each behind those that it calls (on a circle: some of them)."""
    order: list[Body] = []
    seen = {entry.name}
    stack: list[tuple[Body, Iterator[str]]] = [(entry, _called(entry))]
    while stack:
        body, callees = stack[-1]
        name = next((c for c in callees if c not in seen), None)
        if name is None:
            order.append(body)
            stack.pop()
        else:
            seen.add(name)
            stack.append((bodies[name], _called(bodies[name])))
    return order[:-1]


def _called(body: Body) -> Iterator[str]:
    return (name for call in body.calls.values() for name in call.callees)


def _reached(body: Body, bodies: dict[str, Body]) -> set[str]:
    """The functions that calls from a body lead to."""
    seen: set[str] = set()
    waiting = list(_called(body))
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(_called(bodies[name]))
    return seen


def _groups(calls: list[Call]) -> dict[str, int]:
    """Functions that one call can reach return to numbers of one list: a group's number for each function."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for call in calls:
        for name in call.callees:
            leader[find(name)] = find(call.callees[0])
    numbers: dict[str, int] = {}
    return {name: numbers.setdefault(find(name), len(numbers)) for name in list(leader)}


def _live_across(body: Body) -> dict[int, int]:
    """For each call of a body the registers that are live behind it and not written by it, as a mask by register number."""
    instructions, count = body.instructions, len(body.instructions)
    reads = [_mask(i.reads) for i in instructions]
    kills = [0 if i.guard is not None else _mask(i.writes) for i in instructions]
    follows: list[tuple[int, ...]] = []
    for i, instruction in enumerate(instructions):
        control = instruction.form.control if instruction.form is not None else ""
        ends = control in ("branch", "indirect-branch", "return", "exit", "trap") and instruction.guard is None
        follows.append(instruction.targets if ends else (*instruction.targets, i + 1))
    live = [0] * (count + 1)
    changed = True
    while changed:
        changed = False
        for i in range(count - 1, -1, -1):
            after = 0
            for next_ in follows[i]:
                after |= live[next_]
            now = reads[i] | (after & ~kills[i])
            if now != live[i]:
                live[i] = now
                changed = True
    return {i: live[i + 1] & ~_mask(instructions[i].writes) for i in body.calls}


def _mask(registers: tuple[int, ...]) -> int:
    mask = 0
    for register in registers:
        mask |= 1 << register
    return mask
