"""What a PTX text is made of: statements, scopes, functions, parameters.

Invariant: every object names its place by byte offsets into the one text it was read from and never changes after parsing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum


class Kind(IntEnum):
    """What a statement is. OPEN and CLOSE are the braces of scopes; braces of operands and initialisers are not statements."""

    INSTRUCTION = 0
    DIRECTIVE = 1
    LABEL = 2
    OPEN = 3
    CLOSE = 4


class Statement:
    """One statement and its byte span, immutable by convention.

    ``index`` is its position in ``Document.statements``; ``start``/``end`` are byte offsets, the terminating ';' (or the ':' of a label)
    included, blanks and comments around it not. ``scope`` indexes ``Document.scopes``: the innermost scope holding it; an OPEN or CLOSE
    belongs to the scope it delimits. ``opcode`` is an instruction's dotted spelling (``ld.global.nc.v4.u32``), a directive's own word
    (``.reg``; for ``.visible .entry`` it is ``.entry``), a label's name, or the brace. ``guard`` is '' or '%p1' or '!%p1'. ``operands`` is
    the rest without ';', comments removed and runs of blanks made one.
    """

    __slots__ = ("end", "guard", "index", "kind", "opcode", "operands", "scope", "start")

    def __init__(self, index: int, kind: Kind, start: int, end: int, scope: int, opcode: str, guard: str, operands: str) -> None:
        self.index = index
        self.kind = kind
        self.start = start
        self.end = end
        self.scope = scope
        self.opcode = opcode
        self.guard = guard
        self.operands = operands

    def __repr__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"<{self.kind.name} {self.index} [{self.start}:{self.end}] {guard}{self.opcode} {self.operands}>"


@dataclass(slots=True)
class Scope:
    """A braced part of a text (index 0 is the module and has no braces).

    ``kind`` is 'module', 'function', 'block' or 'section'. ``first`` and ``last`` are the statement indices of OPEN and CLOSE (of the
    module: 0 and the last statement). ``function`` indexes ``Document.functions``, -1 outside functions.
    """

    index: int
    parent: int
    kind: str
    first: int
    last: int
    function: int = -1


@dataclass(slots=True)
class Parameter:
    """One parameter of a function, or one of its return values.

    ``type`` has no dot ('u64'); ``array`` is the element count of an array, 0 for an unsized one, None for a scalar; ``align`` is the
    explicit alignment of the parameter itself in bytes. ``attributes`` keep '.ptr' and what follows it, '.ptr .global .align 1' as
    ('.ptr', '.global', '.align 1'): they speak about the memory pointed to. ``space`` is '.param' or '.reg'; ``start``/``end`` its bytes.
    """

    name: str
    type: str
    array: int | None
    align: int | None
    attributes: tuple[str, ...]
    space: str
    start: int
    end: int
    vector: str = ""


@dataclass(slots=True)
class Function:
    """An entry or a function, defined or only declared.

    ``start``/``end`` span all of it, from a linking directive to the closing brace or the ';'. ``head`` holds the statement index of its
    head; ``body`` the indices strictly inside the braces, None for a declaration; ``scope`` is the body's scope, -1 for a declaration.
    ``directives`` are (name, text) pairs such as ('.maxntid', '32, 1, 4'), in order.
    """

    index: int
    kind: str
    name: str
    linking: str
    params: list[Parameter]
    returns: list[Parameter]
    directives: list[tuple[str, str]]
    start: int
    end: int
    head: range
    body: range | None = None
    scope: int = -1
    name_start: int = field(default=0, repr=False)
