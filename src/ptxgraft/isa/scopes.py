"""Names of one body: registers and variables of a text scope, labels of a function.

Invariant: a name means what the innermost scope that declares it says; a range of registers (``%r<4000>``) makes only those that are used.
"""

from __future__ import annotations

from typing import Protocol

from ptxgraft.errors import SourceError
from ptxgraft.isa.operands import OperandParser
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Statement, is_number, register_declarations


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
        self.vectors: dict[str, tuple[int | None, Type, int]] = {}
        self.parser = OperandParser(self.register, self.variable, self.vector)
        document = binder.document
        for base, type_name, count, vector in register_declarations(document, document.scopes[index]):
            single = count is None or vector
            if base in self.registers or base in self.vectors if single else base in self.ranges:
                binder.error(f"register {base!r} is declared twice in this scope", document.statements[document.scopes[index].first])
            if vector:
                self.vectors[base] = (count, TYPES[type_name], int(vector.lstrip(".v")))
            elif count is None:
                self.registers[base] = binder.new_register(base, TYPES[type_name], index, inline)
            else:
                self.ranges[base] = (count, TYPES[type_name])
        self.digits_in_bases = any(base[-1:].isdigit() for base in self.ranges)

    def register(self, name: str) -> int | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.registers.get(name)
            if found is None and (scope.ranges or scope.vectors):
                found = scope._declared(name)
            if found is not None:
                self.registers[name] = found
                return found
            scope = scope.parent
        return None

    def _declared(self, name: str) -> int | None:
        """The register of this scope, used for the first time."""
        base = name.rstrip("0123456789")
        declared = self.ranges.get(base)
        if declared is not None and not self.digits_in_bases:
            digits = name[len(base) :]
            if is_number(digits) and int(digits) < declared[0]:
                found = self.registers[name] = self.binder.new_register(name, declared[1], self.index, self.inline)
                return found
        # A base that ends in digits itself (%r1<5> declares %r10 .. %r14): try the longer ones too.
        for end in range(len(base), len(name)) if self.digits_in_bases else (len(base),):
            declared = self.ranges.get(name[:end])
            digits = name[end:]
            if declared is not None and is_number(digits) and int(digits) < declared[0]:
                found = self.registers[name] = self.binder.new_register(name, declared[1], self.index, self.inline)
                return found
        return self._element(name) if self.vectors and "." in name else None

    def _element(self, name: str) -> int | None:
        """The register of one element of a vector register: ``v.x`` (or ``v.r``) is the first."""
        base, _, letter = name.rpartition(".")
        position = max("xyzw".find(letter), "rgba".find(letter)) if letter else -1
        declared = self._declared_vector(base)
        if declared is None or not 0 <= position < declared[1]:
            return None
        key = f"{base}.{'xyzw'[position]}"
        if key not in self.registers:
            self.registers[key] = self.binder.new_register(key, declared[0], self.index, self.inline)
        return self.registers[key]

    def _declared_vector(self, name: str) -> tuple[Type, int] | None:
        """The element type and the number of elements of a vector register of this scope."""
        base = name.rstrip("0123456789")
        for key in (name, base):
            if key in self.vectors:
                count, type_, elements = self.vectors[key]
                digits = name[len(key) :]
                if (not digits) if count is None else is_number(digits) and int(digits) < count:
                    return type_, elements
        return None

    def vector(self, name: str) -> tuple[int, ...] | None:
        """The registers of a whole vector register; None for any other name."""
        scope: Scope | None = self
        while scope is not None:
            declared = scope._declared_vector(name) if scope.vectors else None
            if declared is not None:
                found = [scope._element(f"{name}.{letter}") for letter in "xyzw"[: declared[1]]]
                return tuple(register for register in found if register is not None)
            scope = scope.parent
        return None

    def variable(self, name: str) -> int | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return self.binder.module_variable(name)
