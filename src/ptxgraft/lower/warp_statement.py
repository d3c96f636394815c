"""One statement of a compiled program: operands to values, meaning, results to registers.

Invariant: operands are read and results written exactly as ``run.operations`` does for the interpreter. Where registers live, and what is active, is
the affair of the two copies of a program in ``warp_native``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import TYPES, Address, Form, Imm, Instruction, Operand, Program, Reg, Resource, Role, Sink, Special, Type, Var, Vector
from ptxgraft.lower.ir import Emitter, IrModule, Val, literal
from ptxgraft.lower.warp_lanes import WarpLanes
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.lower.warp_state import LANES, LAUNCH

EFFECTIVE = frozenset(["address", "atomic", "barrier", "cluster", "control", "memory", "stack", "tensor", "texture", "warp"])
"""Families whose meanings use memory, the mask or other lanes, besides those whose declarations say so."""

HEAVY_ROOTS = frozenset(["div", "rem", "sqrt", "rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh"])
HEAVY_FAMILIES = frozenset(["half", "approximate"])


def heavy(form: Form) -> bool:
    """Is the meaning long enough to be a function of its own? Decided by what it costs to compile, not to run."""
    if form.family in HEAVY_FAMILIES or form.root in HEAVY_ROOTS:
        return True
    return form.root == "cvt" and any(t in form.opcode for t in (".f16", ".bf16", ".e4m3", ".e5m2", ".e2m", ".e3m", ".ue8m0", ".f64"))


def effective(form: Form) -> bool:
    """Does the meaning use memory, the mask or other lanes?"""
    return form.family in EFFECTIVE or form.convergent or bool(form.loads or form.stores)


class Statements:
    """Writes statements into ``out``. Subclasses say where registers live (``read``, ``write``) and which lanes are active (``active``)."""

    def __init__(self, module: IrModule, program: Program, profile: str, features: frozenset[str]) -> None:
        self.out = Emitter(module)
        self.program = program
        self.machine: Machine = self.make_machine()
        self.machine.argument_bytes = program.param_bytes
        self.lanes = WarpLanes(self.out, profile, self.machine, features)

    def make_machine(self) -> Machine:
        raise NotImplementedError

    def read(self, id: int) -> Val:
        raise NotImplementedError

    def write(self, id: int, value: Val) -> None:
        raise NotImplementedError

    def active(self) -> str:
        """The active lanes (i32 text)."""
        raise NotImplementedError

    # -- predicates ---------------------------------------------------------------------------------------------------
    def guard(self, guard: Reg | None) -> Val | None:
        if guard is None:
            return None
        held = self.read(guard.id)
        return self.lanes.not_(held) if guard.negated else held

    def bits_of(self, p: Val) -> str:
        """A predicate as a mask (i32 text)."""
        if p.uniform:
            return ("-1" if p.const else "0") if isinstance(p.const, int) else self.out.value(f"sext i1 {p.name} to i32")
        return self.out.value(f"bitcast <{LANES} x i1> {p.name} to i32")

    # -- one statement ------------------------------------------------------------------------------------------------
    def statement(self, instruction: Instruction) -> None:
        """Run the meaning for the active lanes whose guard holds."""
        form = instruction.form
        assert form is not None and form.meaning is not None
        self.machine.index = str(instruction.index)
        self.lanes.statement()
        guard = self.guard(instruction.guard)
        if not effective(form):
            self.machine.idle()
            for id, value in self.results(instruction, form):
                self.write(id, value if guard is None else self.lanes.select(guard, value, self.read(id)))
            return
        self.machine.activate(self.active())
        if guard is None:
            for id, value in self.results(instruction, form):
                self.write(id, value)
            return
        self.guarded(instruction, form, guard)

    def guarded(self, instruction: Instruction, form: Form, guard: Val) -> None:
        """A statement with effects, skipped where no lane takes it."""
        out = self.out
        bits = out.value(f"and i32 {self.machine.bits}, {self.bits_of(guard)}")
        self.machine.activate(bits)
        for id in instruction.reads:
            self.read(id)
        old = {id: self.lanes.vector(self.read(id)).name for id in instruction.writes}
        before, do, skip = out.block, out.fresh_label("do"), out.fresh_label("skip")
        self.machine.branch(out.value(f"icmp ne i32 {bits}, 0"), do, skip)
        out.label(do)
        new = {id: self.lanes.vector(self.lanes.select(guard, value, self.read(id))).name for id, value in self.results(instruction, form)}
        end = out.block
        out.emit(f"br label %{skip}")
        out.label(skip)
        merged = {
            id: Val(self.machine.phi(self.vector_type(id), [(end, name), (before, old[id])]), self.program.registers[id].type.width)
            for id, name in new.items()
        }
        for id, value in merged.items():
            self.write(id, value)

    def vector_type(self, id: int) -> str:
        return f"<{LANES} x i{self.program.registers[id].type.width}>"

    def results(self, instruction: Instruction, form: Form) -> list[tuple[int, Val]]:
        """(register, value) of everything a statement writes, in the registers' widths."""
        inputs = [
            value
            for role, operand in zip(form.roles, instruction.operands, strict=True)
            if role.kind in ("in", "inout", "addr", "resource", "text")
            for value in self.input(role, operand)
        ]
        assert form.meaning is not None
        if heavy(form):
            found = self.outlined(form, inputs)
        else:
            found = list(_flat(form.meaning(self.lanes, *inputs, **form.options)))
        return list(self.outputs(instruction, form, found))

    def outlined(self, form: Form, inputs: Sequence[object]) -> list[Val]:
        """The meaning as a function, shared by the statements of its form."""
        values = [v for v in inputs if isinstance(v, Val)]
        if len(values) != len(inputs):
            assert form.meaning is not None
            return list(_flat(form.meaning(self.lanes, *inputs, **form.options)))

        def body(lanes: WarpLanes, given: list[Val]) -> list[Val]:
            assert form.meaning is not None
            return list(_flat(form.meaning(lanes, *given, **form.options)))

        return self.lanes.outline(form.opcode.replace("::", "."), values, body)

    # -- operands -----------------------------------------------------------------------------------------------------
    def input(self, role: Role, operand: Operand | None) -> tuple[object, ...]:
        if operand is None or role.kind == "text":
            return (operand,)
        if role.kind == "addr":
            assert isinstance(operand, Address)
            return (self.address(operand),)
        if role.kind == "resource":
            assert isinstance(operand, Resource)
            handle = self.scalar(operand.handle, TYPES["u64"])
            if operand.sampler is not None:
                handle = self.lanes.concat([handle, self.scalar(operand.sampler, TYPES["u64"])])
            return handle, tuple(self.scalar(item, role.type) for item in operand.coordinates.items)
        if role.count == 1:
            return (self.scalar(operand, role.type),)
        if isinstance(operand, Vector):
            if len(operand.items) != role.count:
                raise UnsupportedError(f"operand {role.name} has {len(operand.items)} elements, {role.count} expected")
            return (tuple(self.scalar(item, role.type) for item in operand.items),)
        assert role.type is not None
        whole, width = self.scalar(operand, None), role.type.width
        return (tuple(self.lanes.extract(whole, i * width, width) for i in range(role.count)),)

    def scalar(self, operand: Operand, type: Type | None) -> Val:
        """One value of the type's width (None: the operand's own)."""
        lanes, width = self.lanes, type.width if type else 0
        if isinstance(operand, Reg):
            value = self.read(operand.id)
            if operand.negated:
                value = lanes.not_(value)
            return value if width in (0, value.width) else lanes.resize(value, width, type is not None and type.signed)
        if isinstance(operand, Imm):
            width = width or 64
            return literal(operand.bits(type or TYPES["u64"]), width)
        if isinstance(operand, Var):
            value = self.variable(operand)
            return value if width in (0, 64) else lanes.resize(value, width)
        if isinstance(operand, Special):
            value = self.machine.special(operand.name)
            return value if width in (0, value.width) else lanes.resize(value, width)
        if isinstance(operand, Vector):
            if len(operand.items) == 1:
                return self.scalar(operand.items[0], type)
            part = _unsigned(width // len(operand.items))
            return lanes.concat([self.scalar(item, part) for item in operand.items])
        shown = getattr(operand, "name", None) or operand.__class__.__name__.lower()
        raise UnsupportedError(f"{shown} is not a value that can be read here")

    def variable(self, operand: Var) -> Val:
        variable = self.program.variables[operand.id]
        if variable.space not in ("global", "const"):
            return literal(variable.offset + operand.offset, 64)
        table = self.machine.field(LAUNCH, self.machine.launch(), "variables")
        place = self.machine.address(table, 8 * operand.id)
        base = Val(self.out.value(f"load i64, ptr {place}, align 8, !invariant.load !0"), 64, True)
        return self.lanes.add(base, literal(operand.offset, 64)) if operand.offset else base

    def address(self, operand: Address) -> Val:
        base = operand.base
        if base is None:
            return literal(operand.offset, 64)
        if isinstance(base, Var):
            return self.variable(Var(base.id, base.offset + operand.offset))
        if not isinstance(base, Reg):
            raise UnsupportedError(f"{base.name!r} is not a variable of this module")
        value = self.read(base.id)
        if operand.offset:
            value = self.lanes.add(value, literal(operand.offset, value.width))
        return value if value.width == 64 else self.lanes.resize(value, 64)

    def outputs(self, instruction: Instruction, form: Form, results: list[Val]) -> Iterator[tuple[int, Val]]:
        """Each ``out`` role takes as many results as it counts."""
        for role, operand in zip(form.roles, instruction.operands, strict=True):
            if role.kind not in ("out", "inout"):
                continue
            taken, results = results[: role.count], results[role.count :]
            if operand is None or isinstance(operand, Sink):
                continue
            if role.count == 1:
                yield from self.target(operand, role.type, taken[0])
            elif isinstance(operand, Vector):
                if len(operand.items) != role.count:
                    raise UnsupportedError(f"operand {role.name} has {len(operand.items)} elements, {role.count} expected")
                for item, value in zip(operand.items, taken, strict=True):
                    yield from self.target(item, role.type, value)
            else:
                yield from self.target(operand, None, self.lanes.concat(taken))

    def target(self, operand: Operand, type: Type | None, value: Val) -> Iterator[tuple[int, Val]]:
        if isinstance(operand, Sink):
            return
        if isinstance(operand, Vector):
            width = value.width // len(operand.items)
            for i, item in enumerate(operand.items):
                yield from self.target(item, None, self.lanes.extract(value, i * width, width))
            return
        if not isinstance(operand, Reg):
            raise UnsupportedError(f"{operand.__class__.__name__.lower()} cannot be written")
        width = self.program.registers[operand.id].type.width
        yield operand.id, value if value.width == width else self.lanes.resize(value, width, type is not None and type.signed)


def _unsigned(width: int) -> Type:
    return TYPES["pred"] if width == 1 else TYPES[f"b{width}"]


def _flat(result: object) -> Iterator[Val]:
    if isinstance(result, tuple | list):
        for item in result:
            yield from _flat(item)
    elif result is not None:
        assert isinstance(result, Val)
        yield result
