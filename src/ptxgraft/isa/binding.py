"""From statements to a program: every instruction bound to its form, its registers, variables and targets.

Invariant: a ``Program`` is one entry with every name resolved; nothing after it looks at a name again. Direct calls are inlined
(fresh registers, call parameters as local memory), so that data flow and executors see one body; what recursion and pointers reach is bound once,
in frames (``calls``, ``frames``). A statement that the table does not know is kept with careful roles: its first operand written, the others read,
all memory touched.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ptxgraft.collector import collector_paused
from ptxgraft.errors import SourceError, SourceErrors, UnsupportedError
from ptxgraft.isa.calls import Calls
from ptxgraft.isa.frames import FRAME_ALIGN, Body, Linker
from ptxgraft.isa.functions import functions_of, names_in
from ptxgraft.isa.matching import check, choose, fitting_registers, match, take_parts, whole_registers
from ptxgraft.isa.operands import Address, Group, Imm, Operand, Part, Reg, Symbol, Var, Vector, registers_of, split_top
from ptxgraft.isa.program import Instruction, Program, Register, Variable, align_up, parameter_layout
from ptxgraft.isa.scopes import Labels, Scope
from ptxgraft.isa.table import Form, Role, form_of
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Function, Kind, Statement, variable_declarations
from ptxgraft.text.declarations import VARIABLE_SPACES


def bind(document: Document, entry_name: str) -> Program:
    """Bind one entry of a module. Raises ``UsageError`` for an unknown entry, ``SourceErrors`` with all that is wrong in its body.

    The programs bound last are kept, and given again for the same document: nothing may change a program.
    """
    return _bind(document, entry_name)


@lru_cache(maxsize=8)
@collector_paused()  # everything made here is kept
def _bind(document: Document, entry_name: str) -> Program:
    return Binder(document, document.entry(entry_name)).run()


class Binder:
    """Binds one entry. ``body`` is what instructions are added to: the entry's, or that of a function with frames."""

    def __init__(self, document: Document, entry: Function) -> None:
        self.document, self.entry = document, entry
        self.registers: list[Register] = []
        self.variables: list[Variable] = []
        self.body = Body(entry.name, False)
        self.errors: list[SourceError] = []
        self.functions = functions_of(document)
        self.calls = Calls(self)
        self.shared = 0
        self.shared_align = 16
        self._labels = 0
        self._shared: dict[tuple[int, str], int] = {}
        self._implicit: dict[str, int] = {}
        self._module: dict[str, int] = {}
        self._module_declarations = {v.name: v for v in variable_declarations(document, document.scopes[0])}
        places = (i for space in VARIABLE_SPACES for i in document.directives.get(space, ()))
        self._with_variables = {document.statements[i].scope for i in places}
        self._usual: dict[str, tuple[Form, tuple[tuple[Role, bool, bool, int, int], ...]] | None] = {}

    # -- names --------------------------------------------------------------------------------------------------------
    def new_register(self, name: str, type: Type, scope: int, inline: int) -> int:
        self.registers.append(Register(len(self.registers), name, type, scope, inline))
        return len(self.registers) - 1

    def implicit(self, role: Role) -> Reg:
        """The one register of the program behind an implicit role; its name, with a leading dot, is none that a text can write."""
        name = f".{role.name}"
        if name not in self._implicit:
            assert role.type is not None
            # The stack's registers mean nothing to a text; the condition code is what instructions around them leave in it.
            scope = -1 if name in STACK_REGISTERS else self.entry.scope
            self._implicit[name] = self.new_register(name, role.type, scope, 0)
        return Reg(self._implicit[name])

    def hidden(self, name: str, type: str) -> Reg:
        """A register of the program that is in no text."""
        if name not in self._implicit:
            self._implicit[name] = self.new_register(name, TYPES[type], -1, 0)
        return Reg(self._implicit[name])

    def scratch(self, width: int) -> Reg:
        """The program's register for values that live from one instruction to the next."""
        return self.hidden(f".scratch{width}", f"b{width}")

    @property
    def stack(self) -> Reg:
        """The stack pointer, a local address."""
        return self.hidden(".sp", "u64")

    @property
    def depth(self) -> Reg:
        """How many frames there are."""
        return self.hidden(".depth", "u32")

    @property
    def frame(self) -> Reg:
        """The local address of the function's frame."""
        return self.hidden(".frame", "u64")

    @property
    def fresh_frame(self) -> Reg:
        """The frame of a function that is being called or returned from."""
        return self.hidden(".fresh", "u64")

    def new_variable(self, name: str, space: str, type: str, size: int, align: int, **extra) -> int:
        offset = -1
        if space == "shared":
            self.shared_align = max(self.shared_align, align)
            if not extra.get("dynamic"):
                offset = align_up(self.shared, align)
                self.shared = offset + size
        elif space == "local":
            offset = align_up(self.body.local, align)
            self.body.local = offset + size
        elif space == "param":
            offset = extra.pop("offset")
        self.variables.append(Variable(len(self.variables), name, space, type, size, align, offset, **extra))
        return len(self.variables) - 1

    def placed(self, name: str, type: str, size: int, offset: int) -> int:
        """A variable at a place in the frame."""
        self.variables.append(Variable(len(self.variables), name, "local", type, size, 16 if size > 8 else 8, offset))
        return len(self.variables) - 1

    def declare(self, variable) -> int:
        """A body or module variable. A call's ``.param`` variables live in local memory."""
        width = TYPES[variable.type].bytes * (int(variable.vector[1:]) if variable.vector else 1)
        count = 1
        for dimension in variable.array:
            count *= dimension or 0
        space, kind = "local" if variable.space == "param" else variable.space, variable.type
        if space == "tex":  # the manual, "Texture State Space": .tex .u32 name is .global .texref name
            space, kind, width = "global", "texref", TYPES["texref"].bytes
        dynamic = space == "shared" and variable.extern and count == 0
        return self.new_variable(
            variable.name, space, kind, width * count, max(variable.align or 0, width), init=variable.init, dynamic=dynamic
        )

    def follow_initialisers(self) -> None:
        """Take in the module variables that only the initialisers of others name, however long the chain."""
        for variable in self.variables:  # grows on the way
            for name in names_in(variable.init or ""):
                self.module_variable(name)

    def module_variable(self, name: str) -> int | None:
        if name not in self._module:
            declaration = self._module_declarations.get(name)
            if declaration is None:
                return None
            self._module[name] = self.declare(declaration)
        return self._module[name]

    # -- the walk -----------------------------------------------------------------------------------------------------
    def run(self) -> Program:
        body = self.entry.body
        assert body is not None
        top = Scope(self, self.entry.scope, None, 0)
        params = []
        size = 0
        for name, type_name, offset, bytes_, align, attributes in parameter_layout(self.entry):
            id = self.new_variable(name, "param", type_name, bytes_, align, offset=offset, attributes=attributes)
            top.variables[name] = id
            params.append(self.variables[id])
            size = offset + bytes_
        entry = self.body
        labels = self.walk(self.entry, top, None)
        self.synthetic("exit", (), self.document.statements[body.stop - 1] if len(body) else self.document.statements[body.stop])
        self.calls.bind_bodies()
        for part in (entry, *self.calls.bodies.values()):
            self.find_labels(part)
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else SourceErrors(self.errors)
        self.follow_initialisers()
        dynamic_base = align_up(self.shared, self.shared_align)
        for variable in self.variables:
            if variable.dynamic:
                variable.offset = dynamic_base
        instructions, names, need, start = entry.instructions, labels.by_name(), 0, 0
        if entry.calls or self.calls.bodies or ".sp" in self._implicit:
            linker = Linker(self, entry, self.calls.bodies)
            instructions, need = linker.run(), linker.stack_need()
            names, start = {name: linker.places[entry][index] for name, index in names.items()}, linker.starts[entry.name]
        return Program(
            self.document, self.entry, params, size, self.registers, self.variables, instructions, names, dynamic_base, self.shared_align,
            align_up(entry.local, FRAME_ALIGN), [i for i in instructions if i.form is None], need, start,
        )  # fmt: skip

    def find_labels(self, body: Body) -> None:
        """Give the branches of a body their targets."""
        for instruction, scope_labels, index, label in body.pending:
            target = scope_labels.find(index, label)
            if target is None:
                self.error(f"label {label!r} is not in reach here", instruction.statement)
            else:
                instruction.targets = (*instruction.targets, target)
        for instruction, label in body.returning:
            instruction.targets = (body.returns[label],)

    def error(self, message: str, statement: Statement, hint: str = "") -> None:
        self.errors.append(SourceError(message, place=self.document.place(statement), hint=hint))

    def fresh_label(self, what: str) -> str:
        """A label that no text can write."""
        self._labels += 1
        return f"\0{what}{self._labels}"

    def go(self, statement: Statement, label: str, guard: Reg | None) -> None:
        """A branch to a fresh label."""
        self.body.returning.append((self.synthetic("bra", (Symbol(label),), statement, guard), label))

    def here(self, label: str) -> None:
        """The place that a fresh label means."""
        self.body.returns[label] = len(self.body.instructions)

    def walk(self, function: Function, top: Scope, return_label: str | None) -> Labels:
        """Bind one body; returns its labels. ``return_label`` is where ``ret`` goes in an inlined body."""
        statements = self.document.statements
        scopes = {function.scope: top}
        labels = Labels(self.document)
        declared: set[int] = set()
        assert function.body is not None
        current_index, scope = function.scope, top
        self.declare_scope(scope, declared)
        for position in function.body:
            statement = statements[position]
            kind = statement.kind
            if kind == Kind.INSTRUCTION:
                if statement.scope != current_index:
                    current_index = statement.scope
                    scope = self.scope_of(current_index, scopes, top.inline, declared)
                try:
                    self.bind_statement(statement, scope, labels, return_label)
                except UnsupportedError:
                    raise
                except SourceError as error:
                    self.error(error.message, statement, error.hint)
            elif kind == Kind.LABEL:
                try:
                    labels.add(statement.scope, statement.opcode, len(self.body.instructions))
                except SourceError as error:
                    self.error(error.message, statement, error.hint)
        return labels

    def scope_of(self, index: int, scopes: dict[int, Scope], inline: int, declared: set[int]) -> Scope:
        missing: list[int] = []
        while index not in scopes:
            missing.append(index)
            index = self.document.scopes[index].parent
        found = scopes[index]
        for inner in reversed(missing):
            found = scopes[inner] = Scope(self, inner, found, inline)
            self.declare_scope(found, declared)
        return found

    def declare_scope(self, scope: Scope, declared: set[int]) -> None:
        if scope.index in self._with_variables and scope.index not in declared:
            declared.add(scope.index)
            for variable in variable_declarations(self.document, self.document.scopes[scope.index]):
                key = (scope.index, variable.name)
                if variable.space in ("local", "param"):
                    scope.variables[variable.name] = self.declare(variable)
                elif key in self._shared:
                    # One storage for all calls of the function.
                    scope.variables[variable.name] = self._shared[key]
                else:
                    scope.variables[variable.name] = self._shared[key] = self.declare(variable)

    def usual(self, opcode: str) -> tuple[Form, tuple[tuple[Role, bool, bool, int, int], ...]] | None:
        """The form of an opcode and for each role (itself, does it read, does it write, its elements, their width), if all there is to it are operands that
        stand as they are written."""
        form = form_of(opcode)
        self._usual[opcode] = None
        if form is None or not form.plain or form.others or form.control or form.entry.parts or ".param" in opcode:
            return None
        if not all(r.kind == "addr" or (r.kind in ("in", "out", "inout") and r.type is not None) for r in form.roles):
            return None
        roles = [(r, r.kind != "out", r.kind in ("out", "inout"), r.count, r.type.width if r.type else 0) for r in form.roles]
        found = self._usual[opcode] = form, tuple(roles)
        return found

    def bind_usual(self, statement: Statement, guard: Reg | None, texts: list[str], scope: Scope) -> bool:
        """Bind a statement whose operands are registers of their roles' width, vectors of such and addresses, as most are: ``match`` and ``emit`` in one.
        False for any other."""
        opcode = statement.opcode
        usual = self._usual[opcode] if opcode in self._usual else self.usual(opcode)
        if usual is None or self.body.framed:
            return False
        form, roles = usual
        if len(texts) != len(roles):
            return False
        known, registers = scope.parser.known, self.registers
        operands: list[Operand | None] = []
        reads: list[int] = []
        writes: list[int] = []
        for text, (role, read, written, count, width) in zip(texts, roles, strict=True):
            operand = known.get(text) or scope.parser(text)
            operands.append(operand)
            if type(operand) is Reg:
                if count != 1 or registers[operand.id].type.width != width:
                    return False
                if read:
                    reads.append(operand.id)
                if written:
                    writes.append(operand.id)
            elif type(operand) is Vector:
                named = fitting_registers(role, operand, registers) if count > 1 else whole_registers(width, operand, registers)
                if named is None:
                    return False
                if read:
                    reads += named
                if written:
                    writes += named
            elif (
                type(operand) is Address
                and type(operand.base) is Reg
                and role.kind == "addr"
                and registers[operand.base.id].type.width >= 32
            ):
                reads.append(operand.base.id)
            elif type(operand) is Imm and role.kind == "in" and count == 1 and role.type is not None:
                operand.bits(role.type)
            else:
                return False
        if guard is not None:
            reads.append(guard.id)
        body = self.body.instructions
        body.append(Instruction(len(body), statement, form, guard, tuple(operands), tuple(reads), tuple(writes)))
        return True

    def bind_statement(self, statement: Statement, scope: Scope, labels: Labels, return_label: str | None) -> None:
        guard = None
        if statement.guard:
            guard = scope.parser(statement.guard)
            if not isinstance(guard, Reg):
                raise SourceError(f"guard {statement.guard!r} is not a register")
            if self.registers[guard.id].type.kind != "p":
                raise SourceError(f"guard {statement.guard!r} is no predicate: its register's type is {self.registers[guard.id].type.name}")
        texts = split_top(statement.operands)
        if self.bind_usual(statement, guard, texts, scope):
            return
        form = form_of(statement.opcode)
        if form is None:
            self.unknown(statement, guard, [self.careful(t, scope) for t in texts])
            return
        if form.control == "call":
            self.calls.bind(statement, form, guard, texts, scope)
            return
        if form.control == "return" and return_label is not None:
            self.go(statement, return_label, guard)
            return
        if form.control == "return" and self.body.framed:
            self.calls.leave(statement, guard)
            return
        form = choose(form, texts, lambda name: self.width_of(scope, name))
        operands = match(form, texts, scope.parser, self.implicit)
        if form.entry.parts and any(isinstance(o, Part) for o in operands):
            form, operands = take_parts(form, operands)
        if ".param" in form.opcode:
            form = self.parameter_form(form, operands)
        if form.control == "indirect-branch":
            operands = (self.as_word(statement, operands[0]), *operands[1:])
        instruction = self.emit(statement, form, guard, operands)
        if form.control:
            self.aim(instruction, labels)

    def width_of(self, scope: Scope, name: str) -> int | None:
        """A register's bits, 1 for a predicate; None for what is no register."""
        register = scope.register(name)
        return None if register is None else self.registers[register].type.width

    def parameter_form(self, form: Form, operands: tuple[Operand | None, ...]) -> Form:
        """A call's parameters live in local memory: their accesses are local accesses."""
        for operand in operands:
            base = operand.base if isinstance(operand, Address) else None
            if isinstance(base, Var) and self.variables[base.id].space == "local":
                local = form_of(form.opcode.replace("::func", "").replace(".param", ".local"))
                assert local is not None
                return local
        return form

    def as_word(self, statement: Statement, operand: Operand | None) -> Operand | None:
        """An index as a register of 32 bits, which is what engines branch by."""
        if operand is None or (isinstance(operand, Reg) and self.registers[operand.id].type.width == 32):
            return operand
        word = self.scratch(32)
        self.synthetic("mov.b32", (word, operand), statement)
        return word

    def aim(self, instruction: Instruction, labels: Labels) -> None:
        """Note the labels that an instruction of control names; they are found when all are known."""
        statement, form = instruction.statement, instruction.form
        assert form is not None
        for operand, role in zip(instruction.operands, form.roles, strict=True):
            if role.kind in ("label", "labels"):
                if not isinstance(operand, Symbol):
                    raise SourceError(f"{statement.opcode} needs a label")
                for name in (operand.name,) if role.kind == "label" else self.branch_targets(operand.name, statement):
                    self.body.pending.append((instruction, labels, statement.scope, name))

    def known(self, name: str) -> bool:
        """Is it a function or a label, whose address one may take?"""
        document = self.document
        return any(f.name == name for f in document.functions) or any(
            s.kind == Kind.LABEL and s.opcode == name for s in document.statements
        )

    def branch_targets(self, name: str, statement: Statement) -> list[str]:
        """The labels of the ``.branchtargets`` list called ``name``."""
        found = self.functions.labelled(".branchtargets", name, statement)
        if found is None:
            raise SourceError(f"{name!r} is no list of branch targets", hint="one is written 'name: .branchtargets label, label;'")
        return split_top(found.operands)

    def careful(self, text: str, scope: Scope) -> Operand:
        try:
            return scope.parser(text)
        except SourceError:
            return Symbol(text)

    def unknown(self, statement: Statement, guard: Reg | None, operands: list[Operand]) -> None:
        written = registers_of(operands[0]) if operands and not isinstance(operands[0], Address) else ()
        read = tuple(r for o in (operands if not written else operands[1:]) for r in registers_of(o))
        self.append(Instruction(0, statement, None, guard, tuple(operands), read + _guard(guard), written))

    def emit(self, statement: Statement, form: Form, guard: Reg | None, operands: tuple[Operand | None, ...]) -> Instruction:
        if self.body.framed:
            operands = self.in_frame(statement, operands)
        registers = self.registers
        reads: list[int] = []
        writes: list[int] = []
        for place, (role, operand) in enumerate(zip(form.roles, operands, strict=True)):
            if operand is None:
                continue
            # The common operands first: there are tens of thousands of them.
            named: Sequence[int] | None = None
            if type(operand) is Reg:
                if role.count == 1 and role.type is not None and registers[operand.id].type.width == role.type.width:
                    named = (operand.id,)
            elif type(operand) is Vector:
                named = fitting_registers(role, operand, registers)
            elif (
                type(operand) is Address
                and type(operand.base) is Reg
                and role.kind == "addr"
                and registers[operand.base.id].type.width >= 32
            ):
                named = (operand.base.id,)
            if named is None:
                for name in check(form, role, operand, registers):
                    if not self.known(name):
                        raise SourceError(f"{name!r} is not declared", hint="declare it as a variable, or write a register with its %")
                    if isinstance(operand, Symbol) and name in self.functions.addresses:
                        value = Imm("int", self.functions.addresses[name] + operand.offset)
                        operands = (*operands[:place], value, *operands[place + 1 :])
                named = registers_of(operand)
            if role.kind == "out":
                writes += named
            else:
                reads += named
                if role.kind == "inout":
                    writes += named
        if guard is not None:
            reads.append(guard.id)
        return self.append(Instruction(0, statement, form, guard, operands, tuple(reads), tuple(writes)))

    def in_frame(self, statement: Statement, operands: tuple[Operand | None, ...]) -> tuple[Operand | None, ...]:
        """Operands with the local variables of a function that has frames as places in its frame."""
        return tuple([o if o is None else self.from_frame(statement, o, place) for place, o in enumerate(operands)])

    def from_frame(self, statement: Statement, operand: Operand, place: int) -> Operand:
        if isinstance(operand, Address) and isinstance(operand.base, Var):
            variable = self.variables[operand.base.id]
            if variable.space == "local":
                return Address(self.frame, variable.offset + operand.base.offset + operand.offset)
        elif isinstance(operand, Var) and self.variables[operand.id].space == "local":
            address = self.hidden(f".address{place}", "u64")
            offset = Imm("int", self.variables[operand.id].offset + operand.offset)
            self.synthetic("add.u64", (address, self.frame, offset), statement)
            return address
        elif isinstance(operand, Vector | Group):
            return type(operand)(tuple([self.from_frame(statement, o, 10 * place + i) for i, o in enumerate(operand.items)]))
        return operand

    def append(self, instruction: Instruction) -> Instruction:
        """Put an instruction at the end of the body."""
        instruction.index = len(self.body.instructions)
        self.body.instructions.append(instruction)
        return instruction

    def synthetic(self, opcode: str, operands: tuple[Operand | None, ...], statement: Statement, guard: Reg | None = None) -> Instruction:
        """An instruction that no statement spells: its place is the statement that asked for it."""
        form = form_of(opcode)
        assert form is not None, opcode
        return self.emit(statement, form, guard, (*operands, *[None] * (len(form.roles) - len(operands))))


def _guard(guard: Reg | None) -> tuple[int, ...]:
    return () if guard is None else (guard.id,)


STACK_REGISTERS = frozenset([".sp", ".depth"])
"""Implicit registers of instructions that take stack memory."""
