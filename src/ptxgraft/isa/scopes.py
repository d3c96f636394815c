"""Names of one body: registers and variables of a text scope, labels of a function.

Invariant: a name means what the innermost scope that declares it says; a range of registers (``%r<4000>``) makes only those that are used.
"""

from __future__ import annotations

from typing import Protocol

from ptxgraft.errors import SourceError
from ptxgraft.isa.operands import OperandParser
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Statement, register_declarations


class Declarer(Protocol):
    """Who numbers registers and module variables, and collects errors."""

    document: Document

    def new_register(self, name: str, type: Type, scope: int, inline: int) -> int: ...
    def module_variable(self, name: str) -> int | None: ...
    def error(self, message: str, statement: Statement, hint: str = "") -> None: ...


class Labels:
    """The labels of one body. A label is known in the scope it stands in and in the scopes within: inline assembly repeats names."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.found: dict[tuple[int, str], int] = {}

    def add(self, scope: int, name: str, index: int) -> None:
        if (scope, name) in self.found:
            raise SourceError(f"label {name!r} stands twice in this scope")
        self.found[scope, name] = index

    def find(self, scope: int, name: str) -> int | None:
        while scope > 0:
            if (scope, name) in self.found:
                return self.found[scope, name]
            scope = self.document.scopes[scope].parent
        return None

    def by_name(self) -> dict[str, int]:
        """All names; of one that stands in several scopes, the first."""
        return {name: index for (_, name), index in reversed(self.found.items())}


class Scope:
    """The names of one text scope of one inlined body."""

    def __init__(self, binder: Declarer, index: int, parent: Scope | None, inline: int) -> None:
        self.binder, self.index, self.parent, self.inline = binder, index, parent, inline
        self.registers: dict[str, int] = {}
        self.ranges: dict[str, tuple[int, Type]] = {}
        self.variables: dict[str, int] = {}
        self.parser = OperandParser(self.register, self.variable)
        document = binder.document
        for base, type_name, count, vector in register_declarations(document, document.scopes[index]):
            if vector:
                binder.error(f"vector register {base!r} is not supported", document.statements[document.scopes[index].first])
            if base in self.registers or base in self.ranges:
                binder.error(f"register {base!r} is declared twice in this scope", document.statements[document.scopes[index].first])
            if count is None:
                self.registers[base] = binder.new_register(base, TYPES[type_name], index, inline)
            else:
                self.ranges[base] = (count, TYPES[type_name])
        self.digits_in_bases = any(base[-1:].isdigit() for base in self.ranges)

    def register(self, name: str) -> int | None:
        found = self.registers.get(name)
        if found is not None:
            return found
        base = name.rstrip("0123456789")
        # A base that ends in digits itself (%r1<5> declares %r10 .. %r14): try the longer ones too.
        for end in range(len(base), len(name)) if self.digits_in_bases else (len(base),):
            declared = self.ranges.get(name[:end])
            digits = name[end:]
            if declared is not None and digits and int(digits) < declared[0] and (digits[0] != "0" or digits == "0"):
                found = self.registers[name] = self.binder.new_register(name, declared[1], self.index, self.inline)
                return found
        if self.parent is not None:
            found = self.parent.register(name)
            if found is not None:
                self.registers[name] = found
        return found

    def variable(self, name: str) -> int | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return self.binder.module_variable(name)
