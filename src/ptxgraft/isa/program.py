"""From statements to a program: every instruction bound to its form, its registers, variables and targets.

Invariant: a ``Program`` is one entry with every name resolved; nothing after it looks at a name again. Direct calls are inlined
(fresh registers, call parameters as local memory), so that data flow and executors see one body. A statement that the table does not know is
kept with careful roles: its first operand written, the others read, all memory touched.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from ptxgraft.errors import Place, SourceError, SourceErrors, UnsupportedError
from ptxgraft.isa.operands import Address, Group, Imm, Operand, OperandParser, Reg, Sink, Symbol, Var, Vector, registers_of, split_top
from ptxgraft.isa.table import Form, Role, form_of
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Function, Kind, Statement, register_declarations, variable_declarations


@dataclass(slots=True)
class Register:
    """A register of a program. ``name`` as written; ``scope`` is the text scope it is declared in (an index), ``inline`` the call it came by (0: none)."""

    id: int
    name: str
    type: Type
    scope: int
    inline: int = 0


@dataclass(slots=True)
class Variable:
    """A variable or parameter. ``offset`` is its byte address within its space's segment (param, shared, local); for ``global`` and ``const`` the
    launch gives module variables their addresses, and ``offset`` is -1. ``dynamic`` marks the unsized ``extern .shared`` array."""

    id: int
    name: str
    space: str
    type: str
    size: int
    align: int
    offset: int
    init: str | None = None
    dynamic: bool = False
    attributes: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Instruction:
    """One executed statement. ``operands`` line up with ``form.roles`` (None: an optional operand left out). ``reads`` and ``writes`` are register
    numbers (guard included in reads). ``targets`` are instruction indices of a branch. ``form`` is None for an unknown instruction."""

    index: int
    statement: Statement
    form: Form | None
    guard: Reg | None
    operands: tuple[Operand | None, ...]
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    targets: tuple[int, ...] = ()
    callee: str = ""


@dataclass(slots=True, eq=False)
class Program:
    """One entry, bound. Sizes in bytes. ``labels`` maps label names of the entry's own body to instruction indices."""

    document: Document
    entry: Function
    params: list[Variable]
    param_bytes: int
    registers: list[Register]
    variables: list[Variable]
    instructions: list[Instruction]
    labels: dict[str, int]
    shared_bytes: int
    shared_align: int
    local_bytes: int
    unknown: list[Instruction] = field(default_factory=list)

    @property
    def name(self) -> str:
        return self.entry.name

    def line(self, index: int) -> int:
        """The 1-based file line of an instruction."""
        return self.document.line(self.instructions[index].statement.start)

    def place(self, index: int) -> Place:
        return self.document.place(self.instructions[index].statement)

    def source(self, index: int) -> str:
        return self.document.source(self.instructions[index].statement)


def align_up(value: int, align: int) -> int:
    return (value + align - 1) // align * align


def bind(document: Document, entry_name: str) -> Program:
    """Bind one entry of a module. Raises ``UsageError`` for an unknown entry, ``SourceErrors`` with all that is wrong in its body."""
    return _Binder(document, document.entry(entry_name)).run()


def parameter_layout(function: Function) -> Iterator[tuple[str, str, int, int, int, tuple[str, ...]]]:
    """(name, type, offset, size, align, attributes) of each parameter, by the manual's layout: each aligned to its type or explicit ``.align``."""
    offset = 0
    for parameter in function.params:
        width = TYPES[parameter.type].bytes
        align = max(parameter.align or 0, width)
        size = width * (parameter.array if parameter.array is not None else 1)
        offset = align_up(offset, align)
        yield parameter.name, parameter.type, offset, size, align, parameter.attributes
        offset += size


class _Scope:
    """The names of one text scope of one inlined body."""

    def __init__(self, binder: _Binder, index: int, parent: _Scope | None, inline: int) -> None:
        self.binder, self.index, self.parent, self.inline = binder, index, parent, inline
        self.registers: dict[str, int] = {}
        self.ranges: list[tuple[str, int, Type]] = []
        self.variables: dict[str, int] = {}
        self.parser = OperandParser(self.register, self.variable)
        document = binder.document
        for base, type_name, count, vector in register_declarations(document, document.scopes[index]):
            if vector:
                raise SourceError(f"vector register {base!r} is not supported", place=None)
            if count is None:
                self.registers[base] = binder.new_register(base, TYPES[type_name], index, inline)
            else:
                self.ranges.append((base, count, TYPES[type_name]))
        self.ranges.sort(key=lambda r: -len(r[0]))

    def register(self, name: str) -> int | None:
        found = self.registers.get(name)
        if found is not None:
            return found
        for base, count, type in self.ranges:
            if name.startswith(base):
                digits = name[len(base) :]
                if digits.isdigit() and int(digits) < count and (digits == "0" or digits[0] != "0"):
                    found = self.registers[name] = self.binder.new_register(name, type, self.index, self.inline)
                    return found
        if self.parent is not None:
            found = self.parent.register(name)
            if found is not None:
                self.registers[name] = found
        return found

    def variable(self, name: str) -> int | None:
        scope: _Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return self.binder.module_variable(name)


class _Binder:
    def __init__(self, document: Document, entry: Function) -> None:
        self.document, self.entry = document, entry
        self.registers: list[Register] = []
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.errors: list[SourceError] = []
        self.pending: list[tuple[Instruction, dict[str, int], str]] = []
        self.shared = self.local = 0
        self.shared_align = 16
        self.inlines = 0
        self.return_labels: dict[str, int] = {}
        self._implicit: dict[str, int] = {}
        self._module: dict[str, int] = {}
        self._module_declarations = {v.name: v for v in variable_declarations(document, document.scopes[0])}
        self._functions = {f.name: f for f in document.functions if f.body is not None}

    # -- names --------------------------------------------------------------------------------------------------------
    def new_register(self, name: str, type: Type, scope: int, inline: int) -> int:
        self.registers.append(Register(len(self.registers), name, type, scope, inline))
        return len(self.registers) - 1

    def implicit(self, role: Role) -> Reg:
        """The one register of the program behind an implicit role; its name, with a leading dot, is none that a text can write."""
        if role.name not in self._implicit:
            assert role.type is not None
            self._implicit[role.name] = self.new_register(f".{role.name}", role.type, self.entry.scope, 0)
        return Reg(self._implicit[role.name])

    def new_variable(self, name: str, space: str, type: str, size: int, align: int, **extra) -> int:
        offset = -1
        if space == "shared":
            self.shared_align = max(self.shared_align, align)
            if not extra.get("dynamic"):
                offset = align_up(self.shared, align)
                self.shared = offset + size
        elif space == "local":
            offset = align_up(self.local, align)
            self.local = offset + size
        elif space == "param":
            offset = extra.pop("offset")
        self.variables.append(Variable(len(self.variables), name, space, type, size, align, offset, **extra))
        return len(self.variables) - 1

    def declare(self, variable) -> int:
        """A body or module variable. A call's ``.param`` variables live in local memory."""
        width = TYPES[variable.type].bytes * (int(variable.vector[1:]) if variable.vector else 1)
        count = 1
        for dimension in variable.array:
            count *= dimension or 0
        space = "local" if variable.space == "param" else variable.space
        dynamic = space == "shared" and variable.extern and count == 0
        return self.new_variable(
            variable.name, space, variable.type, width * count, max(variable.align or 0, width), init=variable.init, dynamic=dynamic
        )

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
        top = _Scope(self, self.entry.scope, None, 0)
        params = []
        size = 0
        for name, type_name, offset, bytes_, align, attributes in parameter_layout(self.entry):
            id = self.new_variable(name, "param", type_name, bytes_, align, offset=offset, attributes=attributes)
            top.variables[name] = id
            params.append(self.variables[id])
            size = offset + bytes_
        labels = self.walk(self.entry, top, (self.entry.name,), None)
        self.synthetic("exit", (), self.document.statements[body.stop - 1] if len(body) else self.document.statements[body.stop])
        for instruction, scope_labels, label in self.pending:
            target = scope_labels.get(label)
            if target is None:
                self.error(f"label {label!r} is not in this function", instruction.statement)
            else:
                instruction.targets = (*instruction.targets, target)
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else SourceErrors(self.errors)
        dynamic_base = align_up(self.shared, self.shared_align)
        for variable in self.variables:
            if variable.dynamic:
                variable.offset = dynamic_base
        return Program(
            self.document, self.entry, params, size, self.registers, self.variables, self.instructions, labels, dynamic_base,
            self.shared_align, align_up(self.local, 16), [i for i in self.instructions if i.form is None],
        )  # fmt: skip

    def error(self, message: str, statement: Statement) -> None:
        self.errors.append(SourceError(message, place=self.document.place(statement)))

    def walk(self, function: Function, top: _Scope, stack: tuple[str, ...], return_label: str | None) -> dict[str, int]:
        """Bind one body; returns its labels. ``return_label`` is where ``ret`` goes in an inlined body."""
        statements = self.document.statements
        scopes = {function.scope: top}
        labels: dict[str, int] = {}
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
                    self.bind_statement(statement, scope, labels, stack, return_label)
                except UnsupportedError:
                    raise
                except SourceError as error:
                    self.error(error.message, statement)
            elif kind == Kind.LABEL:
                labels[statement.opcode] = len(self.instructions)
        return labels

    def scope_of(self, index: int, scopes: dict[int, _Scope], inline: int, declared: set[int]) -> _Scope:
        found = scopes.get(index)
        if found is None:
            parent = self.scope_of(self.document.scopes[index].parent, scopes, inline, declared)
            found = scopes[index] = _Scope(self, index, parent, inline)
            self.declare_scope(found, declared)
        return found

    def declare_scope(self, scope: _Scope, declared: set[int]) -> None:
        if scope.index not in declared:
            declared.add(scope.index)
            for variable in variable_declarations(self.document, self.document.scopes[scope.index]):
                scope.variables[variable.name] = self.declare(variable)

    def bind_statement(
        self, statement: Statement, scope: _Scope, labels: dict[str, int], stack: tuple[str, ...], return_label: str | None
    ) -> None:
        form = form_of(statement.opcode)
        guard = None
        if statement.guard:
            guard = scope.parser(statement.guard)
            if not isinstance(guard, Reg):
                raise SourceError(f"guard {statement.guard!r} is not a register")
        texts = split_top(statement.operands)
        if form is None:
            self.unknown(statement, guard, [self.careful(t, scope) for t in texts])
            return
        if form.control == "call":
            self.call(statement, form, guard, texts, scope, stack)
            return
        if form.control == "return" and return_label is not None:
            branch = self.emit(statement, form_of("bra"), guard, (Symbol(return_label),))
            self.pending.append((branch, self.return_labels, return_label))
            return
        operands = _match(form, texts, scope.parser, self.implicit)
        for operand, role in zip(operands, form.roles, strict=True):
            base = operand.base if role.kind == "addr" and isinstance(operand, Address) else None
            if isinstance(base, Var) and self.variables[base.id].space == "local" and ".param" in form.opcode:
                # A call's parameters live in local memory: their accesses are local accesses.
                form = form_of(form.opcode.replace("::func", "").replace(".param", ".local"))
                assert form is not None
        instruction = self.emit(statement, form, guard, operands)
        for operand, role in zip(operands, form.roles, strict=True):
            if role.kind == "label":
                if not isinstance(operand, Symbol):
                    raise SourceError(f"{statement.opcode} needs a label")
                self.pending.append((instruction, labels, operand.name))

    def careful(self, text: str, scope: _Scope) -> Operand:
        try:
            return scope.parser(text)
        except SourceError:
            return Symbol(text)

    def unknown(self, statement: Statement, guard: Reg | None, operands: list[Operand]) -> None:
        written = registers_of(operands[0]) if operands and not isinstance(operands[0], Address) else ()
        read = tuple(r for o in (operands if not written else operands[1:]) for r in registers_of(o))
        self.append(Instruction(len(self.instructions), statement, None, guard, tuple(operands), read + _guard(guard), written))

    def emit(self, statement: Statement, form: Form | None, guard: Reg | None, operands: tuple[Operand | None, ...]) -> Instruction:
        assert form is not None
        reads: tuple[int, ...] = ()
        writes: tuple[int, ...] = ()
        for role, operand in zip(form.roles, operands, strict=True):
            if operand is None:
                continue
            registers = (operand.id,) if type(operand) is Reg else registers_of(operand)
            if role.kind == "out":
                writes += registers
            elif role.kind == "inout":
                writes += registers
                reads += registers
            else:
                reads += registers
        return self.append(Instruction(len(self.instructions), statement, form, guard, operands, reads + _guard(guard), writes))

    def append(self, instruction: Instruction) -> Instruction:
        self.instructions.append(instruction)
        return instruction

    def synthetic(self, opcode: str, operands: tuple[Operand | None, ...], statement: Statement, guard: Reg | None = None) -> Instruction:
        """An instruction that no statement spells: its place is the statement that asked for it."""
        return self.emit(statement, form_of(opcode), guard, operands)

    # -- calls --------------------------------------------------------------------------------------------------------
    def call(self, statement: Statement, form: Form, guard: Reg | None, texts: list[str], scope: _Scope, stack: tuple[str, ...]) -> None:
        groups = [scope.parser(t) for t in texts]
        returns = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        target = groups.pop(0) if groups else None
        arguments = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        assert isinstance(returns, Group) and isinstance(arguments, Group)
        if not isinstance(target, Symbol):
            raise UnsupportedError("an indirect call is not supported", place=self.document.place(statement), hint="direct calls are")
        function = self._functions.get(target.name)
        if function is None:
            # No body here: keep the call; only running it needs one.
            reads = registers_of(arguments) + _guard(guard)
            operands: tuple[Operand | None, ...] = (returns, target, arguments)
            self.append(
                Instruction(len(self.instructions), statement, form, guard, operands, reads, registers_of(returns), (), target.name)
            )
            return
        if target.name in stack:
            raise UnsupportedError(f"{target.name!r} calls itself; recursion is not supported", place=self.document.place(statement))
        for what, given, wanted in (("arguments", arguments, function.params), ("results", returns, function.returns)):
            if len(given.items) != len(wanted):
                raise SourceError(f"{target.name!r} has {len(wanted)} {what}, the call gives {len(given.items)}")
        self.inline(statement, guard, function, returns, arguments, stack)

    def inline(
        self, statement: Statement, guard: Reg | None, function: Function, returns: Group, arguments: Group, stack: tuple[str, ...]
    ) -> None:
        self.inlines += 1
        number = self.inlines
        after = f"\0return{number}"
        if guard is not None:
            skip = self.synthetic("bra", (Symbol(after),), statement, Reg(guard.id, not guard.negated))
            self.pending.append((skip, self.return_labels, after))
        top = _Scope(self, function.scope, None, number)
        copies_out: list[Callable[[], object]] = []
        for group, formals, outward in ((arguments, function.params, False), (returns, function.returns, True)):
            for actual, formal in zip(group.items, formals, strict=True):
                copy = self.pass_parameter(statement, top, actual, formal, outward)
                if copy is not None:
                    if outward:
                        copies_out.append(copy)
                    else:
                        copy()
        self.walk(function, top, (*stack, function.name), after)
        self.return_labels[after] = len(self.instructions)
        for copy in copies_out:
            copy()

    def pass_parameter(self, statement: Statement, top: _Scope, actual: Operand, formal, outward: bool) -> Callable[[], object] | None:
        """Bind a formal parameter; returns the copy to make before (``outward``: after) the body, or None when the two are one variable."""
        width = TYPES[formal.type].width
        bits = f"b{max(width, 8)}" if width > 1 else "pred"
        if formal.space == ".reg":
            register = top.register(formal.name)
            assert register is not None
            formal_operand: Operand = Reg(register)
        elif isinstance(actual, Var) and self.variables[actual.id].space == "local":
            top.variables[formal.name] = actual.id
            return None
        else:
            size = TYPES[formal.type].bytes * (formal.array or 1)
            id = self.new_variable(formal.name, "local", formal.type, size, max(formal.align or 0, TYPES[formal.type].bytes))
            top.variables[formal.name] = id
            if outward:
                return lambda: self.synthetic(f"ld.local.{bits}", (actual, Address(Var(id), 0)), statement)
            return lambda: self.synthetic(f"st.local.{bits}", (Address(Var(id), 0), actual), statement)
        if isinstance(actual, Var):
            address = Address(actual, 0)
            if outward:
                return lambda: self.synthetic(f"st.local.{bits}", (address, formal_operand), statement)
            return lambda: self.synthetic(f"ld.local.{bits}", (formal_operand, address), statement)
        pair = (actual, formal_operand) if outward else (formal_operand, actual)
        return lambda: self.synthetic(f"mov.{bits}", pair, statement)


def _guard(guard: Reg | None) -> tuple[int, ...]:
    return () if guard is None else (guard.id,)


def _match(form: Form, texts: list[str], parse: OperandParser, implicit: Callable[[Role], Reg]) -> tuple[Operand | None, ...]:
    """Line operand texts up with the form's roles."""
    roles = form.roles
    operands: list[Operand | None] = []
    position = 0
    pair: str | None = None
    for role in roles:
        if role.implicit:
            operands.append(implicit(role))
            continue
        if role.pair:
            operands.append(None if pair is None else parse(pair))
            pair = None
            continue
        if position == len(texts):
            if not role.optional:
                raise SourceError(f"{form.opcode} needs {form.required} operands, found {len(texts)}")
            operands.append(None)
            continue
        text = texts[position]
        position += 1
        if "|" in text and role.kind == "out":
            text, _, pair = (t.strip() for t in text.partition("|"))
        operands.append(parse(text))
    if position != len(texts) or pair is not None:
        raise SourceError(f"{form.opcode} takes at most {sum(not (r.pair or r.implicit) for r in roles)} operands, found {len(texts)}")
    for role, operand in zip(roles, operands, strict=True):
        _check(form, role, operand)
    return tuple(operands)


def _check(form: Form, role: Role, operand: Operand | None) -> None:
    for literal in operand.items if isinstance(operand, Vector) else (operand,):
        if isinstance(literal, Imm) and literal.kind != "int" and role.type is not None and role.count == 1:
            literal.bits(role.type)
    if role.kind == "addr" and not isinstance(operand, Address):
        raise SourceError(f"operand {role.name} of {form.opcode} must be an address in brackets")
    if role.kind in ("out", "inout") and not isinstance(operand, Reg | Sink) and operand is not None and not hasattr(operand, "items"):
        raise SourceError(f"operand {role.name} of {form.opcode} must be a register")
