"""A bound program: what data flow and executors get of an entry.

Invariant: every name is resolved; nothing after binding looks at a name again. Calls are gone: what is left of them are branches, loads and stores of
local memory (``binding``, ``frames``), and calls of functions that the module leaves open.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from ptxgraft.errors import Place
from ptxgraft.isa.operands import Operand, Reg
from ptxgraft.isa.table import Form
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.text import Document, Function, Statement


@dataclass(slots=True)
class Register:
    """A register of a program. ``name`` as written; ``scope`` is the text scope it is declared in (an index; -1: in none, no text can name it), ``inline``
    the call it came by (0: none)."""

    id: int
    name: str
    type: Type
    scope: int
    inline: int = 0


@dataclass(slots=True)
class Variable:
    """A variable or parameter. ``offset`` is its byte address within its space's segment (param, shared, local; for a function that has frames: within
    its frame, and no operand names it); for ``global`` and ``const`` the
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
    numbers (guard included in reads). ``targets`` are instruction indices of a branch. ``form`` is None for an unknown instruction. ``callee`` is the
    function that a call leaves the program for. The branch of an indirect call also reads, last, the register that holds the function's address."""

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
    """One entry, bound, from instruction ``start`` to the last; functions that have frames stand before it. Sizes in bytes. ``labels`` maps label names of the entry's own body to instruction indices. ``stack_need``: the bytes that frames
    take of local memory, behind ``local_bytes``; None when that depends on the run (recursion, ``alloca``)."""

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
    stack_need: int | None = 0
    start: int = 0

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
    """The least multiple of ``align`` that is not less than ``value``."""
    return (value + align - 1) // align * align


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
