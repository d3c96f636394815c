"""What the functions of a module are to each other: who calls whom, whose address is taken, and which number an address is.

Invariant: a function's address depends on the module alone, so that a pointer which one kernel stores is good in another; functions that take and
give parameters of the same sizes have neighbouring addresses, so that an indirect call is a branch by a small number.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ptxgraft.errors import SourceError
from ptxgraft.isa.operands import split_top
from ptxgraft.isa.types import TYPES
from ptxgraft.text import Document, Function, Kind, Parameter, Statement, parse_prototype

FUNCTION_WINDOW = 4 << 56
"""Where addresses of functions begin; no memory lies there."""

FUNCTION_STEP = 16
"""The distance between two functions' addresses. (Pointers to members keep a mark in the lowest bit.)"""

DEVICE_FUNCTIONS = {"vprintf": (1, 2), "malloc": (1, 1), "free": (0, 1), "__assertfail": (0, 5)}
"""Functions of CUDA's device library that a module leaves open and executors provide: how many results and arguments they have."""

Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""The bytes of each return value and of each parameter: what two functions must share to be called by one indirect call."""

_NAME = re.compile(r"(?<![%\w$.])[A-Za-z_$][\w$]*")


def names_in(text: str) -> list[str]:
    """The names in an operand or an initialiser, registers apart."""
    return _NAME.findall(text)


def parameter_bytes(parameter: Parameter) -> int:
    """The size of one parameter or return value."""
    width = TYPES[parameter.type].bytes * (int(parameter.vector[1:]) if parameter.vector else 1)
    return width * (1 if parameter.array is None else parameter.array)


def sizes_of(returns: Sequence[Parameter], params: Sequence[Parameter]) -> Sizes:
    """Bytes of each return value and of each parameter: what a call must agree with."""
    return tuple(map(parameter_bytes, returns)), tuple(map(parameter_bytes, params))


@dataclass(eq=False)
class Functions:
    """The functions of a module that have a body."""

    document: Document

    @cached_property
    def bodies(self) -> dict[str, Function]:
        return {f.name: f for f in self.document.functions if f.body is not None}

    @cached_property
    def recursive(self) -> frozenset[str]:
        """Functions that direct calls lead back to."""
        calls = {name: self._callees(function) for name, function in self.bodies.items() if function.kind != "entry"}
        # Only what has callers and callees left after taking away what has none of either can lie on a circle.
        while True:
            called = set().union(*calls.values()) if calls else set()
            kept = {name: callees & calls.keys() for name, callees in calls.items() if name in called and callees & calls.keys()}
            if kept == calls:
                return frozenset(name for name in calls if name in _reached(calls, name))
            calls = kept

    def _callees(self, function: Function) -> set[str]:
        assert function.body is not None
        found: set[str] = set()
        for statement in self.document.statements[function.body.start : function.body.stop]:
            if statement.kind == Kind.INSTRUCTION and statement.opcode.startswith("call"):
                found |= {text for text in split_top(statement.operands) if text in self.bodies}
        return found

    # -- addresses ----------------------------------------------------------------------------------------------------
    @cached_property
    def taken(self) -> frozenset[str]:
        """Functions whose address an instruction takes or a variable holds, wherever in the module."""
        found: set[str] = set()
        for statement in self.document.statements:
            if statement.kind != Kind.INSTRUCTION:
                continue
            texts: Sequence[str] = (statement.operands,)
            if statement.opcode.startswith("call"):
                texts = [text for text in split_top(statement.operands) if text.startswith("(")]
            for text in texts:
                found.update(names_in(text))
        for word in (".global", ".const"):
            for index in self.document.directives.get(word, ()):
                found.update(names_in(self.document.statements[index].operands.partition("=")[2]))
        return frozenset(found & {name for name, f in self.bodies.items() if f.kind != "entry"})

    @cached_property
    def groups(self) -> dict[Sizes, list[str]]:
        """The functions whose address is taken, by sizes, in order of address."""
        groups: dict[Sizes, list[str]] = {}
        for name, function in self.bodies.items():
            if name in self.taken:
                groups.setdefault(sizes_of(function.returns, function.params), []).append(name)
        return groups

    @cached_property
    def addresses(self) -> dict[str, int]:
        """The address of each function whose address is taken."""
        names = [name for group in self.groups.values() for name in group]
        return {name: FUNCTION_WINDOW + FUNCTION_STEP * (i + 1) for i, name in enumerate(names)}

    # -- lists and prototypes by label --------------------------------------------------------------------------------
    def labelled(self, word: str, name: str, statement: Statement) -> Statement | None:
        """The directive ``word`` (``.branchtargets``, ...) behind the label ``name``, nearest around the statement: in its scope or one around it, else in
        its function."""
        document = self.document
        scopes = [statement.scope]
        while scopes[-1] > 0:
            scopes.append(document.scopes[scopes[-1]].parent)
        found: dict[int, Statement] = {}
        for index in document.directives.get(word, ()):
            directive, label = document.statements[index], document.statements[index - 1]
            if label.kind == Kind.LABEL and label.opcode == name:
                found.setdefault(directive.scope, directive)
        near = next((found[s] for s in scopes if s in found), None)
        function = document.scopes[statement.scope].function
        return near or next((d for s, d in found.items() if document.scopes[s].function == function), None)

    def called_through(self, name: str, statement: Statement) -> tuple[list[Parameter], list[Parameter]]:
        """The return values and parameters of an indirect call, from the ``.callprototype`` or the first of the ``.calltargets`` that it names."""
        prototype = self.labelled(".callprototype", name, statement)
        if prototype is not None:
            return parse_prototype(self.document, prototype)
        targets = self.labelled(".calltargets", name, statement)
        first = split_top(targets.operands)[0] if targets is not None else None
        for function in self.document.functions:
            if function.name == first:
                return function.returns, function.params
        raise SourceError(
            f"{name!r} is neither a prototype nor a list of functions", hint="one is written 'name: .callprototype (...) _ (...);'"
        )


def _reached(calls: dict[str, set[str]], start: str) -> set[str]:
    """What calls from ``start`` on lead to."""
    seen: set[str] = set()
    waiting = list(calls[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(calls[name])
    return seen


@lru_cache(maxsize=8)
def functions_of(document: Document) -> Functions:
    """The functions of a module; kept for the modules asked for last."""
    return Functions(document)
