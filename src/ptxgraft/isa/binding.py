"""From statements to a program: every instruction bound to its form, its registers, variables and targets.

Invariant: a ``Program`` is one entry with every name resolved; nothing after it looks at a name again. Direct calls are inlined
(fresh registers, call parameters as local memory), so that data flow and executors see one body. A statement that the table does not know is
kept with careful roles: its first operand written, the others read, all memory touched.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from ptxgraft.errors import SourceError, SourceErrors, UnsupportedError
from ptxgraft.isa.matching import check, choose, fitting_registers, match
from ptxgraft.isa.operands import Address, Group, Operand, Reg, Symbol, Var, Vector, registers_of, split_top
from ptxgraft.isa.program import Instruction, Program, Register, Variable, align_up, parameter_layout
from ptxgraft.isa.scopes import Labels, Scope
from ptxgraft.isa.table import Form, Role, form_of
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Function, Kind, Statement, variable_declarations


_NAME = re.compile(r"(?<![\w$%])[A-Za-z_$%][\w$]*")


def bind(document: Document, entry_name: str) -> Program:
    """Bind one entry of a module. Raises ``UsageError`` for an unknown entry, ``SourceErrors`` with all that is wrong in its body.

    The programs bound last are kept, and given again for the same document: nothing may change a program.
    """
    return _bind(document, entry_name)


@lru_cache(maxsize=8)
def _bind(document: Document, entry_name: str) -> Program:
    binder = _Binder(document, document.entry(entry_name))
    # Everything made here is kept: the collector would only look at it again and again.
    collecting = gc.isenabled()
    gc.disable()
    try:
        return binder.run()
    finally:
        if collecting:
            gc.enable()


class _Binder:
    def __init__(self, document: Document, entry: Function) -> None:
        self.document, self.entry = document, entry
        self.registers: list[Register] = []
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.errors: list[SourceError] = []
        self.pending: list[tuple[Instruction, Labels, int, str]] = []
        self.shared = self.local = 0
        self.shared_align = 16
        self.inlines = 0
        self.returns: dict[str, int] = {}
        self.returning: list[tuple[Instruction, str]] = []
        self._shared: dict[tuple[int, str], int] = {}
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

    def scratch(self, width: int) -> Reg:
        """The program's register for values that live from one instruction to the next."""
        name = f".scratch{width}"
        if name not in self._implicit:
            self._implicit[name] = self.new_register(name, TYPES[f"b{width}"], -1, 0)
        return Reg(self._implicit[name])

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

    def follow_initialisers(self) -> None:
        """Take in the module variables that only the initialisers of others name, however long the chain."""
        for variable in self.variables:  # grows on the way
            for name in _NAME.findall(variable.init or ""):
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
        labels = self.walk(self.entry, top, (self.entry.name,), None)
        self.synthetic("exit", (), self.document.statements[body.stop - 1] if len(body) else self.document.statements[body.stop])
        for instruction, scope_labels, index, label in self.pending:
            target = scope_labels.find(index, label)
            if target is None:
                self.error(f"label {label!r} is not in reach here", instruction.statement)
            else:
                instruction.targets = (*instruction.targets, target)
        for instruction, label in self.returning:
            instruction.targets = (self.returns[label],)
        if self.errors:
            raise self.errors[0] if len(self.errors) == 1 else SourceErrors(self.errors)
        self.follow_initialisers()
        dynamic_base = align_up(self.shared, self.shared_align)
        for variable in self.variables:
            if variable.dynamic:
                variable.offset = dynamic_base
        return Program(
            self.document, self.entry, params, size, self.registers, self.variables, self.instructions, labels.by_name(), dynamic_base,
            self.shared_align, align_up(self.local, 16), [i for i in self.instructions if i.form is None],
        )  # fmt: skip

    def error(self, message: str, statement: Statement, hint: str = "") -> None:
        self.errors.append(SourceError(message, place=self.document.place(statement), hint=hint))

    def walk(self, function: Function, top: Scope, stack: tuple[str, ...], return_label: str | None) -> Labels:
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
                    self.bind_statement(statement, scope, labels, stack, return_label)
                except UnsupportedError:
                    raise
                except SourceError as error:
                    self.error(error.message, statement, error.hint)
            elif kind == Kind.LABEL:
                try:
                    labels.add(statement.scope, statement.opcode, len(self.instructions))
                except SourceError as error:
                    self.error(error.message, statement, error.hint)
        return labels

    def scope_of(self, index: int, scopes: dict[int, Scope], inline: int, declared: set[int]) -> Scope:
        found = scopes.get(index)
        if found is None:
            parent = self.scope_of(self.document.scopes[index].parent, scopes, inline, declared)
            found = scopes[index] = Scope(self, index, parent, inline)
            self.declare_scope(found, declared)
        return found

    def declare_scope(self, scope: Scope, declared: set[int]) -> None:
        if scope.index not in declared:
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

    def bind_statement(self, statement: Statement, scope: Scope, labels: Labels, stack: tuple[str, ...], return_label: str | None) -> None:
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
            self.returning.append((branch, return_label))
            return
        form = choose(form, texts)
        operands = match(form, texts, scope.parser, self.implicit)
        if ".param" in form.opcode:
            form = self.parameter_form(form, operands)
        if form.control == "indirect-branch":
            operands = (self.as_word(statement, operands[0]), *operands[1:])
        instruction = self.emit(statement, form, guard, operands)
        if form.control:
            self.aim(instruction, labels)

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
                    self.pending.append((instruction, labels, statement.scope, name))

    def known(self, name: str) -> bool:
        """Is it a function or a label, whose address one may take?"""
        document = self.document
        return any(f.name == name for f in document.functions) or any(
            s.kind == Kind.LABEL and s.opcode == name for s in document.statements
        )

    def branch_targets(self, name: str, statement: Statement) -> list[str]:
        """The labels of the ``.branchtargets`` list called ``name`` in the statement's function."""
        document = self.document
        function = document.scopes[statement.scope].function
        for index in document.directives.get(".branchtargets", ()):
            list_, label = document.statements[index], document.statements[index - 1]
            if label.kind == Kind.LABEL and label.opcode == name and document.scopes[list_.scope].function == function:
                return split_top(list_.operands)
        raise SourceError(f"{name!r} is no list of branch targets", hint="one is written 'name: .branchtargets label, label;'")

    def careful(self, text: str, scope: Scope) -> Operand:
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
        registers = self.registers
        reads: list[int] = []
        writes: list[int] = []
        for role, operand in zip(form.roles, operands, strict=True):
            if operand is None:
                continue
            # The common operands first: there are tens of thousands of them.
            named: Sequence[int] | None = None
            if type(operand) is Reg:
                if role.count == 1 and role.type is not None and registers[operand.id].type.width == role.type.width:
                    named = (operand.id,)
            elif type(operand) is Vector:
                named = fitting_registers(role, operand, registers)
            elif type(operand) is Address and type(operand.base) is Reg and role.kind == "addr":
                named = (operand.base.id,)
            if named is None:
                for name in check(form, role, operand, registers):
                    if not self.known(name):
                        raise SourceError(f"{name!r} is not declared", hint="declare it as a variable, or write a register with its %")
                named = registers_of(operand)
            if role.kind == "out":
                writes += named
            else:
                reads += named
                if role.kind == "inout":
                    writes += named
        if guard is not None:
            reads.append(guard.id)
        return self.append(Instruction(len(self.instructions), statement, form, guard, operands, tuple(reads), tuple(writes)))

    def append(self, instruction: Instruction) -> Instruction:
        self.instructions.append(instruction)
        return instruction

    def synthetic(self, opcode: str, operands: tuple[Operand | None, ...], statement: Statement, guard: Reg | None = None) -> Instruction:
        """An instruction that no statement spells: its place is the statement that asked for it."""
        return self.emit(statement, form_of(opcode), guard, operands)

    # -- calls --------------------------------------------------------------------------------------------------------
    def call(self, statement: Statement, form: Form, guard: Reg | None, texts: list[str], scope: Scope, stack: tuple[str, ...]) -> None:
        groups = [scope.parser(t) for t in texts]
        returns = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        target = groups.pop(0) if groups else None
        arguments = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        assert isinstance(returns, Group) and isinstance(arguments, Group)
        if not isinstance(target, Symbol):
            raise UnsupportedError("an indirect call is not supported", place=self.document.place(statement), hint="direct calls are")
        function = self._functions.get(target.name)
        if function is None:
            if not self.known(target.name):
                raise SourceError(f"function {target.name!r} is not declared", hint="a function of another module needs an .extern .func")
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
        after, skipped = f"\0return{number}", f"\0skip{number}"
        if guard is not None:
            skip = self.synthetic("bra", (Symbol(skipped),), statement, Reg(guard.id, not guard.negated))
            self.returning.append((skip, skipped))
        top = Scope(self, function.scope, None, number)
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
        self.returns[after] = len(self.instructions)
        for copy in copies_out:
            copy()
        self.returns[skipped] = len(self.instructions)

    def pass_parameter(self, statement: Statement, top: Scope, actual: Operand, formal, outward: bool) -> Callable[[], object] | None:
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
