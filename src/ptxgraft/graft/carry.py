"""Registers as 32-bit words: how a value of any type goes into parameters and memory and comes back.

Invariant: a value comes back with the bits it had. One word carries up to 32 bits (predicates as 0 or 1, 8 and 16 bits widened with
zeros), two words carry 64, the low one first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa import Program, Register, Type
from ptxgraft.text import FreshNames

WIDTHS = (1, 8, 16, 32, 64)
PROBE = "probe"
"""Stands for a style where it is a probe that carries registers."""


def words(type: Type) -> int:
    """How many words a register of this type takes."""
    return 2 if type.width == 64 else 1


def total_words(registers: Iterable[Register]) -> int:
    """How many words registers take together."""
    return sum(words(r.type) for r in registers)


def param_type(type: Type) -> str:
    """The type of the parameter that carries a register: ``b64``, else ``b32``."""
    return "b64" if type.width == 64 else "b32"


def check_carried(registers: Iterable[Register], style: str, program: Program | None = None, first: int = 0, last: int = -1) -> None:
    """UnsupportedError when a live register has a type that words do not carry; it names the first of the program's instructions ``first`` ..
    ``last`` that uses it."""
    for register in registers:
        if register.type.width in WIDTHS:
            continue
        users = program.instructions[first : last + 1] if program is not None else []
        user = next((i for i in users if register.id in (*i.reads, *i.writes)), None)
        where = f"line {program.line(user.index)}: `{program.source(user.index)}`: " if program is not None and user is not None else ""
        raise UnsupportedError(
            f"{where}the live register {register.name} is .{register.type.name}: {'a probe' if style == PROBE else f'the {style} style'} cannot carry it",
            place=program.place(user.index) if program is not None and user is not None else None,
            hint="name other registers" if style == PROBE else "choose other lines, or use the inline style",
        )


class Scratch:
    """Fresh registers of one generated block, declared together at its top."""

    def __init__(self, fresh: FreshNames) -> None:
        self._fresh = fresh
        self._bases: dict[str, str] = {}
        self._counts: dict[str, int] = {}

    def register(self, type: str) -> str:
        """A new register of ``type`` (``b32``, ``pred``, ...)."""
        if type not in self._bases:
            self._bases[type] = self._fresh.block(f"%{type}_")
            self._counts[type] = 0
        self._counts[type] += 1
        return f"{self._bases[type]}{self._counts[type] - 1}"

    def declarations(self) -> list[str]:
        """The ``.reg`` directives of all registers given out so far."""
        return [f".reg .{type} {base}<{self._counts[type]}>;" for type, base in self._bases.items()]


def split(name: str, type: Type, scratch: Scratch) -> tuple[list[str], list[str]]:
    """Put a register into words: (statements, names of the 32-bit registers that hold the words)."""
    if type.width == 64:
        low, high = scratch.register("b32"), scratch.register("b32")
        return [f"mov.b64 {{{low}, {high}}}, {name};"], [low, high]
    if type.width == 32:
        return [], [name]
    word = scratch.register("b32")
    if type.width == 1:
        return [f"selp.b32 {word}, 1, 0, {name};"], [word]
    if type.width == 16:
        zero = scratch.register("b16")
        return [f"mov.b16 {zero}, 0;", f"mov.b32 {word}, {{{name}, {zero}}};"], [word]
    return [f"cvt.u32.u8 {word}, {name};"], [word]


def join(name: str, type: Type, held: Sequence[str], scratch: Scratch) -> list[str]:
    """Statements that set a register from the words that ``split`` gave."""
    if type.width == 64:
        return [f"mov.b64 {name}, {{{held[0]}, {held[1]}}};"]
    if type.width == 32:
        return [f"mov.b32 {name}, {held[0]};"]
    if type.width == 1:
        return [f"setp.ne.u32 {name}, {held[0]}, 0;"]
    if type.width == 16:
        return [f"mov.b32 {{{name}, {scratch.register('b16')}}}, {held[0]};"]
    return [f"cvt.u8.u32 {name}, {held[0]};"]


def store_row(placed: Iterable[tuple[Register, int]], space: str, base: str, scratch: Scratch, widest: int = 4) -> list[str]:
    """Statements that store registers at their words of a row that starts at ``base``: up to ``widest`` words at a time, where they are neighbours.
    The row must lie at a multiple of so many words."""
    lines: list[str] = []
    held: dict[int, str] = {}
    for register, word in placed:
        before, values = split(register.name, register.type, scratch)
        lines += before
        held |= {word + i: v for i, v in enumerate(values)}
    for start, count in _groups(held, widest):
        values = listed([held[start + i] for i in range(count)])
        lines.append(f"st.{space}{_vector(count)}.b32 [{base}+{4 * start}], {values};")
    return lines


def load_row(placed: Iterable[tuple[Register, int]], space: str, base: str, scratch: Scratch, widest: int = 4) -> list[str]:
    """Statements that set registers from what ``store_row`` stored."""
    held: dict[int, str] = {}
    after: list[str] = []
    for register, word in placed:
        values = [register.name] if register.type.width == 32 else [scratch.register("b32") for _ in range(words(register.type))]
        held |= {word + i: v for i, v in enumerate(values)}
        if register.type.width != 32:
            after += join(register.name, register.type, values, scratch)
    loads = []
    for start, count in _groups(held, widest):
        values = listed([held[start + i] for i in range(count)])
        loads.append(f"ld.{space}{_vector(count)}.b32 {values}, [{base}+{4 * start}];")
    return loads + after


def _groups(held: Mapping[int, str], widest: int) -> list[tuple[int, int]]:
    """Aligned runs of four, two or one words: (first word, count)."""
    groups: list[tuple[int, int]] = []
    for start in sorted(held):
        if groups and start < groups[-1][0] + groups[-1][1]:
            continue
        count = next(n for n in (4, 2, 1) if n <= widest and start % n == 0 and all(start + i in held for i in range(n)))
        groups.append((start, count))
    return groups


def _vector(count: int) -> str:
    return f".v{count}" if count > 1 else ""


def listed(values: Sequence[str]) -> str:
    """An operand of one register, or a vector of several."""
    return f"{{{', '.join(values)}}}" if len(values) > 1 else values[0]


def to_param(name: str, type: Type, scratch: Scratch) -> tuple[list[str], str]:
    """(statements, register) that give a register as the value of a ``param_type`` parameter."""
    if type.width in (32, 64):
        return [], name
    before, held = split(name, type, scratch)
    return before, held[0]


def from_param(name: str, type: Type, value: str, scratch: Scratch) -> list[str]:
    """Statements that set a register from a register holding the value of a ``param_type`` parameter."""
    if type.width == 64:
        return [f"mov.b64 {name}, {value};"]
    return join(name, type, [value], scratch)
