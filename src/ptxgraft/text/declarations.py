"""Declarations of registers and variables, read from the directives of one scope.

Invariant: ranges stay ranges (``%r<4000>`` is one declaration), and a declaration belongs to exactly the scope it stands in.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from ptxgraft.errors import SourceError
from ptxgraft.text.document import Document
from ptxgraft.text.heads import IDENTIFIER, dimensions, integer, parse_head
from ptxgraft.text.model import Parameter, Scope, Statement
from ptxgraft.text.operands import split_operands

_PREFIX = re.compile(r"\s*+(?:\.(attribute)\s*+\((?:[^()]|\([^()]*+\))*+\)|\.([A-Za-z]\w*+)(?:\s++(\d\w*+)(?=[\s.]))?+)")
_REGISTER = re.compile(rf"\s*+({IDENTIFIER})\s*+(?:<\s*+(\w++)\s*+>)?+\s*+\Z")
_VARIABLE = re.compile(rf"\s*+({IDENTIFIER})\s*+((?:\[[^\[\]]*+\]\s*+)*+)(?:=\s*+([\s\S]+?)\s*)?\Z")
_LINKING = re.compile(r"\.(visible|extern|weak|common)\b")
VARIABLE_SPACES = (".shared", ".local", ".global", ".const", ".param", ".tex")


class RegisterDeclaration(NamedTuple):
    """One name of a ``.reg`` directive. ``size`` None: the register ``base`` itself; N: the registers base0 .. base(N-1)."""

    base: str
    type: str
    size: int | None
    vector: str


@dataclass(slots=True)
class Variable:
    """One variable of a ``.shared``, ``.local``, ``.global``, ``.const``, ``.param`` or ``.tex`` directive.

    ``space`` and ``type`` have no dot. ``array`` lists the dimensions, [] for a scalar; 0 stands for an unsized one (of an extern: dynamic).
    ``align`` is the explicit alignment in bytes; ``init`` the initialiser's text.
    """

    name: str
    space: str
    type: str
    array: list[int]
    align: int | None
    vector: str
    init: str | None
    extern: bool
    statement: Statement
    linking: str = ""
    attributes: tuple[str, ...] = field(default=())


def directives_in(document: Document, scope: Scope, word: str) -> Iterator[Statement]:
    """The directives of one word that stand in exactly this scope, in file order."""
    indices = document.directives.get(word, [])
    for i in indices[bisect_left(indices, scope.first) : bisect_right(indices, scope.last)]:
        statement = document.statements[i]
        if statement.scope == scope.index:
            yield statement


def register_declarations(document: Document, scope: Scope) -> list[RegisterDeclaration]:
    """The registers declared in exactly this scope; of a function's scope, its ``.reg`` parameters come first."""
    result: list[RegisterDeclaration] = []
    if scope.kind == "function":
        function = document.functions[scope.function]
        result += [RegisterDeclaration(p.name, p.type, None, p.vector) for p in function.returns + function.params if p.space == ".reg"]
    for statement in directives_in(document, scope, ".reg"):
        result += parse_registers(document, statement)
    return result


def parse_registers(document: Document, statement: Statement) -> list[RegisterDeclaration]:
    """The names of one ``.reg`` directive. SourceError when it cannot be read."""
    found = _registers(statement.operands)
    if found is None:
        raise _unreadable(document, statement, "expected '.reg .type name, name<count>, ...;'")
    return list(found)


@lru_cache(maxsize=1024)
def _registers(operands: str) -> tuple[RegisterDeclaration, ...] | None:
    """As ``parse_registers``; blocks of inline assembly say the same thousands of times."""
    kind, vector, _, _, rest = _prefix(operands)
    result: list[RegisterDeclaration] = []
    for piece in rest.split(","):
        m = _REGISTER.match(piece)
        count = integer(m[2]) if m and m[2] else None
        if m is None or not kind or (m[2] and count is None):
            return None
        result.append(RegisterDeclaration(m[1], kind, count, vector))
    return tuple(result)


def variable_declarations(document: Document, scope: Scope) -> list[Variable]:
    """The variables declared in exactly this scope, in file order. Parameters of a function are in ``Function.params``."""
    result: list[Variable] = []
    for word in VARIABLE_SPACES:
        for statement in directives_in(document, scope, word):
            result += parse_variables(document, statement)
    result.sort(key=lambda v: v.statement.index)
    return result


def parse_variables(document: Document, statement: Statement) -> list[Variable]:
    """The variables of one directive of a memory space. SourceError when it cannot be read."""
    wanted = f"expected '{statement.opcode} .align N .type name[count] = ...;'"
    kind, vector, align, attributes, rest = _prefix(statement.operands)
    m = _LINKING.match(document.text, statement.start)
    linking = m[1] if m else ""
    try:
        pieces = split_operands(rest)
    except ValueError:
        raise _unreadable(document, statement, wanted) from None
    if align is not None and (align < 1 or align & (align - 1)):
        raise SourceError(f"an alignment of {align} bytes", place=document.place(statement), hint="it is a power of two")
    result: list[Variable] = []
    for piece in pieces:
        m = _VARIABLE.match(piece)
        sizes = dimensions(m[2]) if m else None
        if m is None or sizes is None or not kind or min(sizes, default=0) < 0:
            raise _unreadable(document, statement, wanted)
        extern = linking in ("extern", "common")
        result.append(Variable(m[1], statement.opcode[1:], kind, sizes, align, vector, m[3], extern, statement, linking, attributes))
    if not result:
        raise _unreadable(document, statement, wanted)
    return result


def parse_prototype(document: Document, statement: Statement) -> tuple[list[Parameter], list[Parameter]]:
    """The return values and the parameters of a ``.callprototype`` directive (names are often '_'). SourceError when it cannot be read."""
    problems: list[SourceError] = []

    def report(offset: int, message: str, hint: str) -> None:
        problems.append(SourceError(message, place=document.place(offset), hint=hint))

    start = statement.start + len(statement.opcode)
    head = parse_head(document.masked, document.text, start, statement.end - 1, report)
    if problems:
        raise problems[0]
    return head.returns, head.params


def _prefix(text: str) -> tuple[str, str, int | None, tuple[str, ...], str]:
    """The dotted words before the first name: (type, vector, align, attributes, the rest)."""
    kind, vector, align, at = "", "", None, 0
    attributes: list[str] = []
    while m := _PREFIX.match(text, at):
        word = m[2]
        if m[1]:
            attributes.append(m.group().strip())
        elif word == "align":
            align = integer(m[3] or "")
        elif word in ("v2", "v4", "v8"):
            vector = word
        else:
            kind = word
        at = m.end()
    return kind, vector, align, tuple(attributes), text[at:]


def _unreadable(document: Document, statement: Statement, wanted: str) -> SourceError:
    return SourceError(f"cannot read this '{statement.opcode}'", place=document.place(statement), hint=wanted)
