"""Binding calls: a function's body in the place of a direct call, a frame for what is recursive or called through a pointer, device functions.

Invariant: after a call its results are where the statement says, whichever way it was bound; what a guard skips changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ptxgraft.errors import SourceError
from ptxgraft.isa.frames import RETURN_AT, Body, Call, get, put, slots_of
from ptxgraft.isa.functions import DEVICE_FUNCTIONS, parameter_bytes, sizes_of
from ptxgraft.isa.operands import Address, Group, Imm, Operand, Reg, Symbol, Var, registers_of
from ptxgraft.isa.program import Instruction
from ptxgraft.isa.scopes import Scope
from ptxgraft.isa.table import Form, form_of
from ptxgraft.isa.types import TYPES
from ptxgraft.text import Function, Parameter, Statement

if TYPE_CHECKING:
    from ptxgraft.isa.binding import Binder


class Calls:
    """Binds the calls of one program. ``bodies`` are the functions with frames that it needs, by name, in order of need."""

    def __init__(self, binder: Binder) -> None:
        self.binder = binder
        self.functions = binder.functions
        self.bodies: dict[str, Body] = {}
        self.waiting: list[Body] = []
        self.inlines = 0

    def bind(self, statement: Statement, form: Form, guard: Reg | None, texts: Sequence[str], scope: Scope) -> None:
        """One call statement."""
        groups = [scope.parser(t) for t in texts]
        returns = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        target = groups.pop(0) if groups else None
        arguments = groups.pop(0) if groups and isinstance(groups[0], Group) else Group(())
        assert isinstance(returns, Group) and isinstance(arguments, Group)
        if isinstance(target, Reg):
            self.indirect(statement, guard, target, groups[0] if groups else None, returns, arguments)
            return
        if not isinstance(target, Symbol):
            raise SourceError("a call needs the name of a function, or a register that holds its address")
        function = self.functions.bodies.get(target.name)
        if function is not None:
            check_counts(target.name, returns, arguments, function.returns, function.params)
            if target.name in self.functions.recursive:
                with self.skipped(statement, guard):
                    self.framed(statement, (target.name,), None, function, returns, arguments)
            else:
                self.inline(statement, guard, function, returns, arguments)
            return
        if not self.binder.known(target.name):
            raise SourceError(f"function {target.name!r} is not declared", hint="a function of another module needs an .extern .func")
        declared = next((f for f in self.binder.document.functions if f.name == target.name), None)
        if declared is not None and target.name in DEVICE_FUNCTIONS:
            if DEVICE_FUNCTIONS[target.name] != (len(declared.returns), len(declared.params)):
                results, count = DEVICE_FUNCTIONS[target.name]
                raise SourceError(
                    f"CUDA's device function {target.name!r} has {results} results and {count} arguments, it is declared otherwise"
                )
            check_counts(target.name, returns, arguments, declared.returns, declared.params)
            with self.skipped(statement, guard):
                self.device(statement, form, declared, returns, arguments)
            return
        # No body here: keep the call; only running it needs one.
        reads = registers_of(arguments) + (() if guard is None else (guard.id,))
        operands: tuple[Operand | None, ...] = (returns, target, arguments)
        self.binder.append(Instruction(0, statement, form, guard, operands, reads, registers_of(returns), (), target.name))

    @contextmanager
    def skipped(self, statement: Statement, guard: Reg | None) -> Iterator[None]:
        """What is bound inside is left out by lanes whose guard fails."""
        binder = self.binder
        if guard is None:
            yield
            return
        label = binder.fresh_label("skip")
        binder.go(statement, label, Reg(guard.id, not guard.negated))
        try:
            yield
        finally:
            binder.here(label)

    # -- in the place of the call -------------------------------------------------------------------------------------
    def inline(self, statement: Statement, guard: Reg | None, function: Function, returns: Group, arguments: Group) -> None:
        """Bind the function's body here, with registers of its own."""
        binder = self.binder
        self.inlines += 1
        after = binder.fresh_label("return")
        with self.skipped(statement, guard):
            top = Scope(binder, function.scope, None, self.inlines)
            copies_out: list[Callable[[], object]] = []
            for group, formals, outward in ((arguments, function.params, False), (returns, function.returns, True)):
                for actual, formal in zip(group.items, formals, strict=True):
                    copy = self.pass_parameter(statement, top, actual, formal, outward)
                    if copy is not None:
                        if outward:
                            copies_out.append(copy)
                        else:
                            copy()
            kept = binder.hidden(f".stack{self.inlines}", "b64") if self._takes_stack(function) else None
            if kept is not None:
                binder.synthetic("mov.b64", (kept, binder.stack), statement)
            binder.walk(function, top, after)
            binder.here(after)
            if kept is not None:
                binder.synthetic("mov.b64", (binder.stack, kept), statement)
            for copy in copies_out:
                copy()

    def _takes_stack(self, function: Function) -> bool:
        """Does a body take stack memory, which is free again when it returns?"""
        body = function.body
        assert body is not None
        return any(s.opcode.startswith("alloca") for s in self.binder.document.statements[body.start : body.stop])

    def pass_parameter(
        self, statement: Statement, top: Scope, actual: Operand, formal: Parameter, outward: bool
    ) -> Callable[[], object] | None:
        """Bind a formal parameter; returns the copy to make before (``outward``: after) the body, or None when the two are one variable."""
        binder = self.binder
        width = TYPES[formal.type].width
        bits = f"b{max(width, 8)}" if width > 1 else "pred"
        if formal.space == ".reg":
            register = top.register(formal.name)
            assert register is not None
            formal_operand: Operand = Reg(register)
        elif isinstance(actual, Var) and binder.variables[actual.id].space == "local":
            top.variables[formal.name] = actual.id
            return None
        else:
            size = parameter_bytes(formal)
            id = binder.new_variable(formal.name, "local", formal.type, size, max(formal.align or 0, TYPES[formal.type].bytes))
            top.variables[formal.name] = id
            if outward:
                return lambda: binder.synthetic(f"ld.local.{bits}", (actual, Address(Var(id), 0)), statement)
            return lambda: binder.synthetic(f"st.local.{bits}", (Address(Var(id), 0), actual), statement)
        if isinstance(actual, Var):
            address = Address(actual, 0)
            if outward:
                return lambda: binder.synthetic(f"st.local.{bits}", (address, formal_operand), statement)
            return lambda: binder.synthetic(f"ld.local.{bits}", (formal_operand, address), statement)
        pair = (actual, formal_operand) if outward else (formal_operand, actual)
        return lambda: binder.synthetic(f"mov.{bits}", pair, statement)

    # -- with a frame -------------------------------------------------------------------------------------------------
    def indirect(
        self, statement: Statement, guard: Reg | None, pointer: Reg, prototype: Operand | None, returns: Group, arguments: Group
    ) -> None:
        """A call through a register: of any function whose address is taken and whose parameters have the sizes of the prototype's."""
        if not isinstance(prototype, Symbol):
            raise SourceError(
                "an indirect call needs a prototype or a list of functions", hint="one is written 'name: .callprototype (...) _ (...);'"
            )
        formal_returns, formals = self.functions.called_through(prototype.name, statement)
        check_counts(prototype.name, returns, arguments, formal_returns, formals)
        names = tuple(self.functions.groups.get(sizes_of(formal_returns, formals), ()))
        with self.skipped(statement, guard):
            self.framed(statement, names, pointer, Signature(formal_returns, formals), returns, arguments)

    def framed(
        self,
        statement: Statement,
        names: tuple[str, ...],
        pointer: Reg | None,
        formals: Function | Signature,
        returns: Group,
        arguments: Group,
    ) -> None:
        """Put a placeholder here; ``frames`` makes branches, loads and stores of it when all frames are known."""
        body = self.binder.body
        first = self.functions.addresses[names[0]] if pointer is not None and names else 0
        sizes = sizes_of(formals.returns, formals.params)
        call = Call(statement, names, pointer, first, sizes, returns.items, arguments.items)
        for name in names:
            if name not in self.bodies:
                self.bodies[name] = Body(name, True)
                self.waiting.append(self.bodies[name])
        form = form_of("call")
        assert form is not None
        reads = (*registers_of(arguments), *(() if pointer is None else (pointer.id,)))
        placeholder = self.binder.append(Instruction(0, statement, form, None, (), reads, registers_of(returns)))
        body.calls[placeholder.index] = call

    def bind_bodies(self) -> None:
        """Bind the functions that were called so, and those that they call."""
        while self.waiting:
            self.body(self.waiting.pop())

    def body(self, body: Body) -> None:
        binder, document = self.binder, self.binder.document
        function = self.functions.bodies[body.name]
        assert function.body is not None
        self.inlines += 1
        binder.body = body
        top = Scope(binder, function.scope, None, self.inlines)
        sizes = sizes_of(function.returns, function.params)
        return_places, param_places, body.local = slots_of(sizes)
        opening = document.statements[document.scopes[function.scope].first]
        for formals, places, outward in ((function.params, param_places, False), (function.returns, return_places, True)):
            for formal, place in zip(formals, places, strict=True):
                size = parameter_bytes(formal)
                if formal.space != ".reg":
                    top.variables[formal.name] = binder.placed(formal.name, formal.type, size, place)
                    continue
                register = top.register(formal.name)
                assert register is not None
                if outward:
                    body.results.append((Reg(register), size, place))
                else:
                    get(binder, opening, Reg(register), size, Address(binder.frame, place))
        binder.walk(function, top, None)
        self.leave(document.statements[document.scopes[function.scope].last], None)

    def leave(self, statement: Statement, guard: Reg | None) -> None:
        """Return from a function that has a frame."""
        binder = self.binder
        for register, size, place in binder.body.results:
            put(binder, statement, register, size, Address(binder.frame, place))
        number = binder.scratch(32)
        binder.synthetic("ld.local.b32", (number, Address(binder.frame, RETURN_AT)), statement)
        binder.body.leaving.append(binder.synthetic("brx.idx", (number, Symbol("returns")), statement, guard))

    # -- device functions ---------------------------------------------------------------------------------------------
    def device(self, statement: Statement, form: Form, declared: Function, returns: Group, arguments: Group) -> None:
        """A call that executors answer. Its arguments lie side by side in local memory, eight bytes each, the result behind them."""
        binder = self.binder
        count = len(arguments.items)
        size = 8 * (count + len(returns.items))
        if size not in binder.body.exchanges:
            binder.body.exchanges[size] = binder.new_variable(".exchange", "local", "b64", size, 8)
        exchange = Var(binder.body.exchanges[size])
        for i, (value, formal) in enumerate(zip(arguments.items, declared.params, strict=True)):
            if parameter_bytes(formal) < 8:
                binder.synthetic("st.local.b64", (Address(exchange, 8 * i), Imm("int", 0)), statement)
            put(binder, statement, value, parameter_bytes(formal), Address(exchange, 8 * i))
        operands = (Group(()), Symbol(declared.name), Group((Address(exchange, 0),)), None)
        binder.emit(statement, form, None, operands).callee = declared.name
        for target, formal in zip(returns.items, declared.returns, strict=True):
            get(binder, statement, target, parameter_bytes(formal), Address(exchange, 8 * count))


class Signature:
    """Return values and parameters without a function."""

    def __init__(self, returns: Sequence[Parameter], params: Sequence[Parameter]) -> None:
        self.returns, self.params = returns, params


def check_counts(name: str, returns: Group, arguments: Group, formal_returns: Sequence[Parameter], formals: Sequence[Parameter]) -> None:
    """SourceError when a call does not give what a function takes."""
    for what, given, wanted in (("arguments", arguments, formals), ("results", returns, formal_returns)):
        if len(given.items) != len(wanted):
            raise SourceError(f"{name!r} has {len(wanted)} {what}, the call gives {len(given.items)}")
