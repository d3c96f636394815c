"""Operations of the threaded code: one function for every distinct form and shape of operands, from the form's meaning.

Invariant: two instructions with one ``Operation`` differ in operand words alone, so a function is compiled once, by whatever program comes first,
and kept. Registers are read from and written to the warp's register file; lanes outside the mask keep what they have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import TYPES, Address, Form, Imm, Instruction, Operand, Program, Reg, Resource, Role, Sink, Special, Symbol, Var, Vector
from ptxgraft.lower.ir import Emitter, IrModule, Val, literal
from ptxgraft.lower.warp_control import operation_bytes
from ptxgraft.lower.warp_fields import METADATA
from ptxgraft.lower.warp_lanes import WarpLanes
from ptxgraft.lower.warp_machine import Machine, fragment_registers
from ptxgraft.lower.warp_memory import FAILED, Segment
from ptxgraft.lower.warp_state import LANES, LAUNCH, OPERATION_HEAD, RECORD_BYTES, WARP, slot_bytes

if TYPE_CHECKING:
    from ptxgraft.isa.numerics import MmaPlan

SPLAT_ROOTS = frozenset(
    ["mov", "add", "sub", "mul", "mad", "fma", "and", "or", "xor", "min", "max", "setp", "set", "selp", "slct", "st", "shl", "shr"]
)
"""Instructions whose literals are operand words: they gain nothing from a literal that is known when they are compiled."""


@dataclass(frozen=True, slots=True)
class Part:
    """One operand as a function sees it. ``kind``: ``reg`` (a slot word), ``not`` (a negated predicate's slot), ``word`` (a literal in ``words``
    32-bit words), ``known`` (a literal of the function's own, ``value``), ``special`` (``value``: its name), ``variable`` (the number of a module
    variable, a word), ``address`` (base part and an offset word), ``group`` (parts), ``resource`` (a handle and coordinates; ``sampled``: two handles and
    coordinates), ``sink`` or ``none``."""

    kind: str
    width: int = 0
    value: int | str = 0
    parts: tuple[Part, ...] = ()

    def __str__(self) -> str:
        inner = "(" + " ".join(map(str, self.parts)) + ")" if self.parts else ""
        return f"{self.kind}{self.width or ''}{'=' + str(self.value) if self.value else ''}{inner}"


@dataclass(frozen=True, slots=True)
class Operation:
    """What a function depends on: the form, the operands' shapes, the guard (``""``, ``"if"`` or ``"unless"``), the profile."""

    opcode: str
    parts: tuple[Part, ...]
    guard: str
    profile: str

    @property
    def text(self) -> str:
        return f"{self.profile} {self.guard} {self.opcode} {' '.join(map(str, self.parts))}"

    @property
    def name(self) -> str:
        """The function's name: one for equal operations, in every program."""
        return "op_" + hashlib.sha256(self.text.encode()).hexdigest()[:24]


class Encoder:
    """Turns instructions of a program into operations and their operand words. ``slots`` are the registers' places in a warp's state."""

    def __init__(self, program: Program, slots: Mapping[int, int], profile: str) -> None:
        self.program, self.slots, self.profile = program, slots, profile

    def encode(self, instruction: Instruction, condition: Reg | None) -> tuple[Operation, list[int]]:
        """The operation of an instruction under a guard, and its words (32 bits each, unsigned)."""
        form = instruction.form
        assert form is not None
        words: list[int] = []
        guard = ""
        if condition is not None:
            guard = "unless" if condition.negated else "if"
            words.append(self.slots[condition.id])
        known = form.root not in SPLAT_ROOTS
        parts = tuple(self.role(role, operand, known, words) for role, operand in zip(form.roles, instruction.operands, strict=True))
        if remembers(form):
            words.append(0)
        return Operation(form.opcode, parts, guard, self.profile), words

    def role(self, role: Role, operand: Operand | None, known: bool, words: list[int]) -> Part:
        if operand is None:
            return Part("none")
        if role.kind == "text":
            if not isinstance(operand, Imm):
                raise UnsupportedError(f"operand {role.name} must be a number")
            return Part("text", value=int(operand.value))
        if role.kind == "addr":
            assert isinstance(operand, Address)
            return self.address(operand, words)
        if isinstance(operand, Resource):
            handles = [operand.handle] if operand.sampler is None else [operand.handle, operand.sampler]
            held = tuple(self.operand(o, 64, False, words) for o in handles)
            coordinates = tuple(self.operand(o, self.width(role), False, words) for o in operand.coordinates.items)
            return Part("resource" if operand.sampler is None else "sampled", parts=(*held, *coordinates))
        if isinstance(operand, Vector):
            if role.count > 1 and len(operand.items) != role.count:
                raise UnsupportedError(f"operand {role.name} has {len(operand.items)} elements, {role.count} expected")
            width = self.width(role) if role.count > 1 else self.width(role) // max(1, len(operand.items))
            return Part("group", parts=tuple(self.operand(o, width, known, words, role) for o in operand.items))
        return self.operand(operand, self.width(role), known, words, role)

    @staticmethod
    def width(role: Role) -> int:
        return role.type.width if role.type is not None else 32

    def operand(self, operand: Operand, width: int, known: bool, words: list[int], role: Role | None = None) -> Part:
        if isinstance(operand, Reg):
            words.append(self.slots[operand.id])
            return Part("not" if operand.negated else "reg", self.program.registers[operand.id].type.width)
        if isinstance(operand, Imm):
            bits = operand.bits(role.type if role is not None and role.type is not None else TYPES["u64"]) & ((1 << width) - 1)
            if known or width not in (32, 64):
                return Part("known", width, bits)
            words.extend((bits >> i) & 0xFFFFFFFF for i in range(0, width, 32))
            return Part("word", width)
        if isinstance(operand, Special):
            return Part("special", value=operand.name)
        if isinstance(operand, Var):
            return self.variable(operand, words)
        if isinstance(operand, Sink):
            return Part("sink")
        shown = getattr(operand, "name", None) or type(operand).__name__.lower()
        raise UnsupportedError(f"{shown} is not a value that can be read here")

    def variable(self, operand: Var, words: list[int]) -> Part:
        variable = self.program.variables[operand.id]
        if variable.space in ("global", "const"):
            words.extend((operand.id, operand.offset & 0xFFFFFFFF))
            return Part("variable", 64)
        words.extend(_split(variable.offset + operand.offset))
        return Part("word", 64)

    def address(self, operand: Address, words: list[int]) -> Part:
        base = operand.base
        if base is None:
            words.extend(_split(operand.offset))
            return Part("word", 64)
        if isinstance(base, Symbol):
            raise UnsupportedError(f"{base.name!r} is not a variable of this module")
        if isinstance(base, Var):
            return self.variable(Var(base.id, base.offset + operand.offset), words)
        words.extend((self.slots[base.id], operand.offset & 0xFFFFFFFF))
        return Part("address", self.program.registers[base.id].type.width)


STORED = literal(0, 32)
"""A result that is in its register already."""


class OperationMachine(Machine):
    """The machine of an operation: a tensor-core instruction works on the registers where they lie when all its operands are as the register
    file holds them. ``registers`` maps values as loaded to the number of the word that names their slot; ``place`` points to the word, an i32, 0 at first, that remembers
    an allocation's number."""

    def __init__(self, out: Emitter) -> None:
        super().__init__(out)
        self.registers: dict[Val, int] = {}
        self.in_place = False
        self.place = ""

    def remembered(self) -> Segment:
        assert self.place, "an operation that says nothing of global memory touches it"
        number = self.out.value(f"load atomic i32, ptr {self.place} monotonic, align 4")
        wide = self.out.value(f"zext i32 {number} to i64")
        table = self.field(LAUNCH, self.launch(), "allocations")
        return self.record(self.address(table, self.out.value(f"mul i64 {wide}, {RECORD_BYTES}")), self.place)

    def mma(
        self,
        plan: MmaPlan,
        a: Sequence[Val],
        b: Sequence[Val],
        c: Sequence[Val],
        metadata: Val | None = None,
        scales: Sequence[Val] = (),
    ) -> tuple[Val, ...]:
        # Results are written where the operands' words begin: all of D's words come first.
        words = [self.registers.get(v) for v in (*a, *b, *c)]
        first = fragment_registers(plan)
        if not self.in_place or metadata is not None or scales or words != list(range(first, first + len(words))):
            return super().mma(plan, a, b, c, metadata, scales)
        name = self.primitive(plan)
        self.out.emit(f"call void @{name}(ptr {self.w}, ptr {self.address('%op', OPERATION_HEAD)})")
        return (STORED,) * first


def remembers(form: Form) -> bool:
    """Does an operation of this form end with a word for the allocation that it met last?"""
    return not {form.loads, form.stores}.isdisjoint(("global", "const", "generic"))


def _split(value: int) -> Iterator[int]:
    yield value & 0xFFFFFFFF
    yield value >> 32 & 0xFFFFFFFF


def function_text(operation: Operation, form: Form, features: frozenset[str]) -> str:
    """The module of one operation: it defines ``operation.name`` and refers to nothing outside."""
    module = IrModule()
    body = _Function(operation, form, module, features).write()
    return f"{module.text()}\ndefine ptr @{operation.name}(ptr noalias %w, ptr noalias %op) nounwind {{\n{body}\n}}\n{METADATA}"


class _Function:
    def __init__(self, operation: Operation, form: Form, module: IrModule, features: frozenset[str]) -> None:
        self.operation, self.form = operation, form
        self.out = Emitter(module)
        self.machine = OperationMachine(self.out)
        self.lanes = WarpLanes(self.out, operation.profile, self.machine, features)
        self.words = 0
        self.writes: list[tuple[Part, str, int]] = []

    def write(self) -> str:
        out, machine, form = self.out, self.machine, self.form
        active = machine.field(WARP, "%w", "active")
        self.live = machine.field(WARP, "%w", "live")
        machine.index = out.value(f"load i32, ptr {machine.address('%op', OPERATION_HEAD - 4)}, align 4")
        if self.operation.guard:
            guard = out.value(f"load i32, ptr {self.slot()}, align 4")
            if self.operation.guard == "unless":
                guard = out.value(f"xor i32 {guard}, -1")
            active = out.value(f"and i32 {active}, {guard}")
        machine.activate(active)
        inputs: list[object] = []
        outputs: list[list[tuple[Part, str]]] = []
        for role, part in zip(form.roles, self.operation.parts, strict=True):
            if role.kind in ("out", "inout"):
                places = [(p, self.slot() if p.kind in ("reg", "not") else "") for p in (part.parts if part.kind == "group" else (part,))]
                outputs.append(places)
                if role.kind == "inout":
                    values = [self.register(p, place) for p, place in places]
                    inputs.append(self.as_role(role, values))
            elif role.kind in ("in", "addr", "resource", "text"):
                inputs.extend(self.input(role, part))
        if remembers(form):
            machine.place = machine.address("%op", OPERATION_HEAD + 4 * self.words)
            self.words += 1
        machine.in_place = not self.operation.guard and all(p.kind != "sink" for places in outputs for p, _ in places)
        self.lanes.statement()
        assert form.meaning is not None
        result = form.meaning(self.lanes, *inputs, **form.options)
        self.store(outputs, list(_flat(result)), active)
        next_ = machine.address("%op", operation_bytes(self.words))
        out.emit(f"ret ptr {next_}")
        if machine.can_fail:
            out.label(FAILED)
            out.emit("ret ptr null")
        return out.body()

    # -- operands -----------------------------------------------------------------------------------------------------
    def word(self) -> str:
        """The next operand word: an i32."""
        name = self.out.value(f"load i32, ptr {self.machine.address('%op', OPERATION_HEAD + 4 * self.words)}, align 4")
        self.words += 1
        return name

    def word64(self) -> str:
        name = self.out.value(f"load i64, ptr {self.machine.address('%op', OPERATION_HEAD + 4 * self.words)}, align 4")
        self.words += 2
        return name

    def slot(self) -> str:
        """A pointer to the register that the next word names."""
        offset = self.out.value(f"zext i32 {self.word()} to i64")
        return self.machine.address("%w", offset)

    def register(self, part: Part, place: str) -> Val:
        out = self.out
        if part.width == 1:
            bits = out.value(f"load i32, ptr {place}, align 4")
            if part.kind == "not":
                bits = out.value(f"xor i32 {bits}, -1")
            return Val(out.value(f"bitcast i32 {bits} to <{LANES} x i1>"), 1)
        align = min(64, slot_bytes(part.width))
        value = Val(out.value(f"load <{LANES} x i{part.width}>, ptr {place}, align {align}"), part.width)
        self.machine.registers[value] = self.words - 1
        return value

    def input(self, role: Role, part: Part) -> Iterator[object]:
        if part.kind == "none":
            yield None
        elif part.kind == "text":
            yield Imm("int", int(part.value))
        elif part.kind in ("resource", "sampled"):
            values = [self.value(p) for p in part.parts]
            width = role.type.width if role.type is not None else 32
            signed = role.type is not None and role.type.signed
            handles = 2 if part.kind == "sampled" else 1
            held = [self.resized(v, 64) for v in values[:handles]]
            yield held[0] if handles == 1 else self.lanes.concat(held)
            yield tuple(self.resized(v, width, signed) for v in values[handles:])
        else:
            values = [self.value(p) for p in (part.parts if part.kind == "group" else (part,))]
            if role.kind == "addr":
                yield values[0]
            else:
                yield self.as_role(role, values)

    def as_role(self, role: Role, values: Sequence[Val]) -> object:
        """Values of the operand as the role wants them: resized by the role's sign, packed, taken apart, or a tuple."""
        type = role.type
        width = type.width if type is not None else values[0].width
        signed = type is not None and type.signed
        if role.count > 1 and len(values) == 1:
            return tuple(self.lanes.extract(values[0], i * width, width) for i in range(role.count))
        if role.count > 1:
            return tuple(self.resized(v, width, signed) for v in values)
        if len(values) > 1:
            element = width // len(values)
            return self.lanes.concat([self.resized(v, element) for v in values])
        return self.resized(values[0], width, signed)

    def resized(self, value: Val, width: int, signed: bool = False) -> Val:
        return value if value.width == width else self.lanes.resize(value, width, signed)

    def value(self, part: Part) -> Val:
        out = self.out
        match part.kind:
            case "reg" | "not":
                return self.register(part, self.slot())
            case "known":
                return literal(int(part.value), part.width)
            case "word":
                return Val(self.word() if part.width == 32 else self.word64(), part.width, True)
            case "special":
                return self.machine.special(str(part.value))
            case "variable":
                table = self.machine.field(LAUNCH, self.machine.launch(), "variables")
                number = out.value(f"zext i32 {self.word()} to i64")
                base = out.value(f"load i64, ptr {out.value(f'getelementptr i64, ptr {table}, i64 {number}')}, align 8")
                offset = out.value(f"sext i32 {self.word()} to i64")
                return Val(out.value(f"add i64 {base}, {offset}"), 64, True)
            case "address":
                base = self.register(Part("reg", part.width), self.slot())
                offset = Val(self.word(), 32, True)
                # An address computed in 32 bits stays there: the window's addresses wrap as the hardware's do.
                sum_ = self.lanes.add(base, self.lanes.resize(offset, part.width, signed=True))
                return self.resized(sum_, 64)
        raise AssertionError(part)

    # -- results ------------------------------------------------------------------------------------------------------
    def store(self, outputs: Sequence[Sequence[tuple[Part, str]]], results: list[Val], active: str) -> None:
        """Each ``out`` role takes as many results as it counts; a scalar result for a vector of registers is unpacked."""
        roles = [r for r in self.form.roles if r.kind in ("out", "inout")]
        writes: list[tuple[str, Val]] = []
        for role, places in zip(roles, outputs, strict=True):
            taken = results[: role.count]
            del results[: role.count]
            signed = role.type is not None and role.type.signed
            if not any(place for _, place in places):
                continue
            if role.count == 1 and len(places) > 1:
                step, signed = taken[0].width // len(places), False
                taken = [self.lanes.extract(taken[0], i * step, step) for i in range(len(places))]
            elif role.count > 1 and len(places) == 1:
                taken, signed = [self.lanes.concat(taken)], False
            for (part, place), value in zip(places, taken, strict=True):
                if place and value is not STORED:
                    writes.append((place, self.lanes.vector(self.resized(value, part.width, signed))))
        if writes:
            self.masked([(place, value.width, value.name) for place, value in writes], active)

    def masked(self, writes: Sequence[tuple[str, int, str]], active: str) -> None:
        """Write registers for the active lanes; all at once when those are all that live."""
        out = self.out
        full, some, done = out.fresh_label("full"), out.fresh_label("some"), out.fresh_label("done")
        # Lanes that are gone may be written to: only the live ones must all be there.
        there = out.value(f"and i32 {active}, {self.live}")
        whole = out.value(f"icmp eq i32 {there}, {self.live}")
        wide = [(place, out.value(f"bitcast <{LANES} x i1> {name} to i32") if width == 1 else name, width) for place, width, name in writes]
        out.emit(f"br i1 {whole}, label %{full}, label %{some}")
        out.label(full)
        for place, name, width in wide:
            type, align = _memory_type(width)
            out.emit(f"store {type} {name}, ptr {place}, align {align}")
        out.emit(f"br label %{done}")
        out.label(some)
        mask = out.value(f"bitcast i32 {active} to <{LANES} x i1>")
        for place, name, width in wide:
            type, align = _memory_type(width)
            old = out.value(f"load {type}, ptr {place}, align {align}")
            if width == 1:
                keep = out.value(f"and i32 {old}, {out.value(f'xor i32 {active}, -1')}")
                new = out.value(f"or i32 {keep}, {out.value(f'and i32 {name}, {active}')}")
            else:
                new = out.value(f"select <{LANES} x i1> {mask}, {type} {name}, {type} {old}")
            out.emit(f"store {type} {new}, ptr {place}, align {align}")
        out.emit(f"br label %{done}")
        out.label(done)


def _memory_type(width: int) -> tuple[str, int]:
    if width == 1:
        return "i32", 4
    return f"<{LANES} x i{width}>", min(64, slot_bytes(width))


def _flat(result: object) -> Iterator[Val]:
    if isinstance(result, tuple | list):
        for item in result:
            yield from _flat(item)
    elif result is not None:
        assert isinstance(result, Val)
        yield result
