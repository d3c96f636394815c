"""Which bytes a renaming changes: every use that resolves to one declaration, and the declaration.

Invariant: a use belongs to the innermost scope that declares its name before it (labels: anywhere in it), as ptxas resolves names; comments,
strings, opcodes, vector components and undeclared names such as ``%laneid`` are never touched.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxgraft.errors import UsageError
from ptxgraft.text.declarations import VARIABLE_SPACES, directives_in, parse_registers, parse_variables
from ptxgraft.text.document import Document
from ptxgraft.text.heads import IDENTIFIER, is_number
from ptxgraft.text.model import Kind, Scope, Statement

_IDENTIFIER = re.compile(IDENTIFIER + r"\Z")
_GUARD = re.compile(r"@\s*+!?\s*+[A-Za-z0-9_$%]++\s++")
_LOC_WORDS = ("function_name", "inlined_at")


@dataclass(slots=True)
class _Range:
    base: str
    type: str
    vector: str
    count: int
    statement: Statement

    def holds(self, name: str) -> bool:
        number = name[len(self.base) :]
        return name.startswith(self.base) and is_number(number) and int(number) < self.count


@dataclass(slots=True)
class _Declared:
    """What one scope declares: names with the offset from which they hold, and register ranges."""

    names: dict[str, int] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)
    ranges: list[_Range] = field(default_factory=list)

    def range_of(self, name: str) -> _Range | None:
        return next((r for r in self.ranges if r.holds(name)), None)

    def since(self, name: str) -> int | None:
        """The offset from which ``name`` is this scope's, or None."""
        if name in self.labels:
            return 0
        if name in self.names:
            return self.names[name]
        found = self.range_of(name)
        return found.statement.start if found else None


@dataclass(slots=True)
class Renaming:
    """``spans`` are (start, end, new text); ``declaration`` is (statement after which it goes, text) when a range lost a member."""

    spans: list[tuple[int, int, str]]
    declaration: tuple[Statement, str] | None = None


class NameResolver:
    """Finds the scope that a name at an offset belongs to. One serves all renamings of a document."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.starts = [s.start for s in document.statements]
        self.cache: dict[int, _Declared] = {}

    def declared(self, scope: Scope) -> _Declared:
        if scope.index not in self.cache:
            self.cache[scope.index] = self._declared(scope)
        return self.cache[scope.index]

    def _declared(self, scope: Scope) -> _Declared:
        document, result = self.document, _Declared()
        for statement in directives_in(document, scope, ".reg"):
            for r in parse_registers(document, statement):
                if r.size is None:
                    result.names.setdefault(r.base, statement.start)
                else:
                    result.ranges.append(_Range(r.base, r.type, r.vector, r.size, statement))
        for word in VARIABLE_SPACES:
            for statement in directives_in(document, scope, word):
                for v in parse_variables(document, statement):
                    result.names.setdefault(v.name, statement.start)
        for s in document.statements[scope.first : scope.last + 1]:
            # A section's labels are seen from everywhere: '.loc ... function_name' names them.
            owner = document.scopes[s.scope]
            if s.kind is Kind.LABEL and (0 if owner.kind == "section" else owner.index) == scope.index:
                result.labels.add(s.opcode)
        if scope.kind == "function":
            function = document.functions[scope.function]
            for p in function.returns + function.params:
                result.names[p.name] = 0
        if scope.index == 0:
            for f in document.functions:
                result.names[f.name] = 0
        return result

    def statement_at(self, offset: int) -> Statement:
        return self.document.statements[max(bisect_right(self.starts, offset) - 1, 0)]

    def scopes_around(self, scope: Scope) -> list[int]:
        """Indices of a scope and all that hold it, from the inside out."""
        result = [scope.index]
        while self.document.scopes[result[-1]].parent >= 0:
            result.append(self.document.scopes[result[-1]].parent)
        return result

    def scopes_to(self, offset: int, target: Scope) -> list[int]:
        """The scopes from the one at ``offset`` out to ``target``; only ``target`` for a place in a head."""
        around = self.scopes_around(self.document.scopes[self.statement_at(offset).scope])
        return around[: around.index(target.index) + 1] if target.index in around else [target.index]

    def scope_at(self, offset: int, name: str) -> int | None:
        """Index of the scope that ``name`` at ``offset`` belongs to; None when it is no use of a declared name."""
        document = self.document
        statement = self.statement_at(offset)
        if not statement.start <= offset < statement.end:
            return None
        if statement.kind is Kind.INSTRUCTION:
            m = _GUARD.match(document.masked, statement.start)
            if offset == (m.end() if m else statement.start):
                return None
        elif statement.opcode == ".loc" and name in _LOC_WORDS:
            return None
        elif statement.opcode in (".entry", ".func"):
            function = next(f for f in document.functions if statement.index in f.head)
            if offset == function.name_start:
                return 0
            inside = any(p.start <= offset < p.end and p.name == name for p in function.returns + function.params)
            return function.scope if inside and function.scope >= 0 else None
        for index in self.scopes_around(document.scopes[statement.scope]):
            since = self.declared(document.scopes[index]).since(name)
            if since is not None and since <= offset:
                return index
        return None

    def in_section(self, offset: int) -> bool:
        return self.document.scopes[self.statement_at(offset).scope].kind == "section"


def rename_spans(resolver: NameResolver, scope: Scope, old: str, new: str) -> Renaming:
    """Plan the renaming of what ``scope`` declares as ``old`` (a name, a range's base, or one member of a range) to ``new``."""
    if not _IDENTIFIER.match(new):
        raise UsageError(f"'{new}' is no PTX name", hint="names are letters, digits, '_' and '$', perhaps after one '%'")
    document = resolver.document
    declared = resolver.declared(scope)
    whole = [r for r in declared.ranges if r.base == old]
    as_range = bool(whole) and old not in declared.names
    if not as_range and declared.since(old) is None:
        raise UsageError(
            f"{document.name}: '{old}' is not declared in the {_describe(document, scope)}", hint=_elsewhere(resolver, scope, old)
        )
    start, end = _span(document, scope)
    member = None if as_range or old in declared.names or old in declared.labels else declared.range_of(old)

    spans: list[tuple[int, int, str]] = []
    searches = [(start, end)]
    if old in declared.labels and scope.index:
        searches += [(a, b) for a, b in _sections(document) if not start <= a < end]
    for searched in searches:
        for m in _uses(document, old, as_range, searched):
            name = m.group()
            if as_range and name == old:
                if any(r.statement.start <= m.start() < r.statement.end for r in whole):
                    spans.append((m.start(), m.end(), new))
                continue
            if as_range and not any(r.holds(name) for r in whole):
                continue
            owner = resolver.scope_at(m.start(), name)
            if owner == scope.index or (owner is None and old in declared.labels and resolver.in_section(m.start())):
                spans.append((m.start(), m.end(), new + m[1]))
    _check_free(resolver, scope, spans, old, new, as_range)
    if member is None:
        return Renaming(spans)
    vector = f".{member.vector} " if member.vector else ""
    return Renaming(spans, (member.statement, f".reg {vector}.{member.type} {new};"))


def _check_free(resolver: NameResolver, scope: Scope, spans: list[tuple[int, int, str]], old: str, new: str, as_range: bool) -> None:
    """Refuse ``new`` where it would capture another name's use, or where another declaration would capture one of the renamed uses."""
    document = resolver.document
    what = f"{document.name}: cannot rename '{old}' to '{new}'"
    hint = "choose a name that the scope does not use"
    for m in _uses(document, new, as_range, _span(document, scope)):
        owner = resolver.scope_at(m.start(), m.group())
        # A use of a name declared further inside stays as it is, unless one of ours stands there too.
        inner = owner is not None and owner != scope.index and scope.index in resolver.scopes_around(document.scopes[owner])
        first, last = _span(document, document.scopes[owner]) if inner and owner else (0, len(document.data))
        if any(first <= start < last for start, _, _ in spans):
            raise UsageError(f"{what}: '{m.group()}' is used at line {document.line(m.start())}", hint=hint)
    texts = {text for _, _, text in spans}
    for index in {i for start, _, _ in spans for i in resolver.scopes_to(start, scope)}:
        declared = resolver.declared(document.scopes[index])
        if any(declared.since(text) is not None for text in texts):
            raise UsageError(f"{what}: the {_describe(document, document.scopes[index])} declares it", hint=hint)


def _uses(document: Document, name: str, as_range: bool, span: tuple[int, int]) -> Iterator[re.Match[str]]:
    """Where a name (of a range: its base or any member, group 1 the number) stands outside comments and strings, as a whole word."""
    tail = "([0-9]*+)" if as_range else "()"
    return re.compile(rf"(?<![A-Za-z0-9_$%.])(?<!::){re.escape(name)}{tail}(?![A-Za-z0-9_$])").finditer(document.masked, *span)


def _span(document: Document, scope: Scope) -> tuple[int, int]:
    if scope.index == 0:
        return 0, len(document.data)
    if scope.kind == "function":
        function = document.functions[scope.function]
        return function.start, function.end
    return document.statements[scope.first].start, document.statements[scope.last].end


def _sections(document: Document) -> list[tuple[int, int]]:
    return [_span(document, s) for s in document.scopes if s.kind == "section"]


def _describe(document: Document, scope: Scope) -> str:
    if scope.index == 0:
        return "module scope"
    if scope.kind == "function":
        return f"body of '{document.functions[scope.function].name}'"
    return f"{scope.kind} at line {document.line(document.statements[scope.first].start)}"


def _elsewhere(resolver: NameResolver, scope: Scope, name: str) -> str:
    for index in resolver.scopes_around(scope):
        outer = resolver.document.scopes[index]
        if resolver.declared(outer).since(name) is not None:
            return f"the {_describe(resolver.document, outer)} declares it"
    return "only declared names can be renamed"
