"""One region in several variants of a kernel: found again by its structure, its registers read off each variant.

Invariant: a region is taken for a sibling only when it and everything behind it match statement by statement, under one renaming of registers and
variables; the first statement that does not is named.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass

from ptxgraft.errors import UnsupportedError
from ptxgraft.flow import Flow
from ptxgraft.graft.cut_result import Cut
from ptxgraft.graft.excerpt import Excerpt
from ptxgraft.graft.phases import Given
from ptxgraft.isa import Instruction, Part, Program, Reg, Register, Symbol, Var
from ptxgraft.spec import Region, RegisterSpec, make_region
from ptxgraft.text import Document

SiblingChoice = str | tuple[Document, str]
"""A variant of the kernel: an entry of the same module, or (document, entry)."""


@dataclass(slots=True, eq=False)
class Sibling:
    """A region of another entry that is the same code: ``registers`` maps the first entry's register numbers to this one's."""

    region: Region
    registers: dict[int, int]


def find_sibling(flow: Flow, region: Region, other: Flow) -> Sibling:
    """The region of ``other``'s entry that is ``region`` of ``flow``'s.

    UnsupportedError when none is, when several are, or when the code behind it differs; it names the first statement that does, in both entries.
    """
    ours = [_shape(flow.program, i) for i in flow.program.instructions[region.first : region.last + 1]]
    theirs = other.program.instructions
    starts = [s for s in range(other.program.start, len(theirs) - len(ours) + 1) if _begins(other.program, s, ours[0])]
    best: _Match | None = None
    found: list[_Match] = []
    for start in starts:
        match = _Match(flow.program, other.program)
        if match.run(region.first, start, len(ours)):
            found.append(match)
        elif best is None or match.length > best.length:
            best = match
    if len(found) > 1:
        # Code like the region's may stand there twice; what follows it tells which one is meant.
        whole = [m for m in found if m.behind(region.last + 1, m.start + len(ours))]
        found = whole if len(whole) == 1 else found
    if not found:
        raise _differs(flow.program, other.program, region.first, best)
    if len(found) > 1:
        lines = ", ".join(str(other.program.line(m.start)) for m in found[:4])
        raise UnsupportedError(
            f"the region of {flow.program.name!r} stands {len(found)} times in {other.program.name!r} (lines {lines})",
            place=other.program.place(found[0].start),
            hint="choose a longer region, or cut this entry by its own lines",
        )
    match = found[0]
    if not match.behind(region.last + 1, match.start + len(ours)):
        raise _differs(flow.program, other.program, region.first, match, "behind the region ")
    return Sibling(make_region(other.program, match.start, match.start + len(ours) - 1), match.registers)


def line_up(first: Cut, sibling: Sibling, piece: Excerpt) -> None:
    """Put the live registers of a sibling's region into the order of the first one's."""
    for side in ("live_in", "live_out"):
        ours: list[Register] = getattr(first._piece, side)
        theirs = {r.id: r for r in getattr(piece, side)}
        wanted = [sibling.registers.get(r.id) for r in ours]
        if sorted(theirs) != sorted(w for w in wanted if w is not None) or None in wanted:
            odd = next((r.name for r, w in zip(ours, wanted, strict=True) if w not in theirs), "") or next(
                r.name for n, r in theirs.items() if n not in wanted
            )
            raise UnsupportedError(
                f"the region of {piece.program.name!r} has other {side.replace('_', '-')}s than that of {first.entry!r}: {odd}",
                place=piece.document.place(piece.first),
                hint="cut this entry by its own lines",
            )
        setattr(piece, side, [theirs[w] for w in wanted if w is not None])
        setattr(piece.abi, side, [RegisterSpec(r.name, r.type.name) for r in getattr(piece, side)])


def check_same_plan(first: Cut, other: Cut) -> None:
    """UnsupportedError when the calls of two siblings' phases do not pass the same things."""
    assert first.plan is not None and other.plan is not None
    for a, b in zip(first.plan.calls, other.plan.calls, strict=True):
        ways = [[(g.letter, g.how, g.bits, g.places, _offsets(g)) for g in call.given] for call in (a, b)]
        at = next((i for i, (x, y) in enumerate(zip(*ways, strict=True)) if x != y), None)
        if at is not None:
            given = b.given[at]
            raise UnsupportedError(
                f"fragment {given.letter}{given.number} of phase {b.phase.index} of {other.entry!r} comes from elsewhere than that of "
                f"{first.entry!r} ({given.how}, there {a.given[at].how}): one callee cannot serve both",
                place=other.original.place(b.first),
                hint="cut this entry on its own, with a callee of its own",
            )


def _offsets(given: Given) -> list[int]:
    return [s.offset.constant for s in given.sources if s.offset is not None] if given.how == "weights" else []


def _begins(program: Program, start: int, shape: object) -> bool:
    return _shape(program, program.instructions[start]) == shape


class _Match:
    """A comparison of two runs of instructions, under a renaming that grows with it."""

    def __init__(self, ours: Program, theirs: Program) -> None:
        self._ours, self._theirs = ours, theirs
        self.registers: dict[int, int] = {}
        self._back: dict[int, int] = {}
        self._variables: dict[int, int] = {}
        self.start = self.length = 0
        self._offset = 0
        self.why = ""

    def run(self, first: int, start: int, count: int) -> bool:
        """Do ``count`` instructions from both places on match? ``length`` says how many do."""
        self.start, self._offset = start, start - first
        return self._compare(first, start, count)

    def behind(self, first: int, start: int) -> bool:
        """Does everything from both places to the ends of the entries match?"""
        ours, theirs = len(self._ours.instructions) - first, len(self._theirs.instructions) - start
        if not self._compare(first, start, min(ours, theirs)):
            return False
        self.why = "" if ours == theirs else "one entry ends before the other"
        return ours == theirs

    def _compare(self, first: int, start: int, count: int) -> bool:
        for i in range(count):
            a, b = self._ours.instructions[first + i], self._theirs.instructions[start + i]
            if not self._same(a, b):
                return False
            self.length += 1
        return True

    def _same(self, a: Instruction, b: Instruction) -> bool:
        if _shape(self._ours, a) != _shape(self._theirs, b):
            self.why = "another statement"
            return False
        if [t + self._offset for t in a.targets] != list(b.targets):
            self.why = "a branch to another place"
            return False
        names_a, names_b = list(_named(a)), list(_named(b))
        for x, y in zip(names_a, names_b, strict=True):
            if isinstance(x, Reg) and isinstance(y, Reg):
                if self.registers.setdefault(x.id, y.id) != y.id or self._back.setdefault(y.id, x.id) != x.id:
                    ours, theirs = self._ours.registers[x.id].name, self._theirs.registers[y.id].name
                    self.why = f"{theirs} stands where {ours} would be another register"
                    return False
            elif isinstance(x, Var) and isinstance(y, Var) and self._variables.setdefault(x.id, y.id) != y.id:
                self.why = "another variable"
                return False
        return True


def _named(value: object) -> list[Reg | Var]:
    """The registers and variables of an instruction, in written order."""
    if isinstance(value, Instruction):
        return [n for part in (value.guard, *value.operands) for n in _named(part)]
    if isinstance(value, (Reg, Var)):
        return [value]
    if isinstance(value, tuple):
        return [n for part in value for n in _named(part)]
    if is_dataclass(value):
        return [n for f in fields(value) for n in _named(getattr(value, f.name))]
    return []


def _shape(program: Program, instruction: Instruction) -> object:
    """An instruction without its names: opcode, operands with the types of their registers and the kinds of their variables."""
    opcode = instruction.form.opcode if instruction.form is not None else instruction.statement.opcode
    operands = tuple(_plain(program, o) for o in instruction.operands)
    return opcode, _plain(program, instruction.guard), operands, instruction.callee


def _plain(program: Program, value: object) -> object:
    if isinstance(value, Reg):
        register: Register = program.registers[value.id]
        return "register", register.type.name, value.negated
    if isinstance(value, Var):
        variable = program.variables[value.id] if value.id < len(program.variables) else None
        place = (variable.space, variable.size, variable.offset if variable.space == "param" else -1) if variable is not None else ()
        return "variable", place, value.offset
    if isinstance(value, Symbol):
        return "symbol"  # a label: the branch's targets tell
    if isinstance(value, Part):
        return "part", _plain(program, value.register), value.selector
    if isinstance(value, tuple):
        return tuple(_plain(program, v) for v in value)
    if is_dataclass(value):
        return type(value).__name__, tuple(_plain(program, getattr(value, f.name)) for f in fields(value))
    return value


def _differs(ours: Program, theirs: Program, first: int, match: _Match | None, where: str = "") -> UnsupportedError:
    if match is None:
        return UnsupportedError(
            f"{theirs.name!r} has no statement like line {ours.line(first)}, `{ours.source(first)}`, with which the region of {ours.name!r} begins",
            hint="name a variant of the same kernel, or cut this entry by its own lines",
        )
    a, b = first + match.length, match.start + match.length
    left = f"line {ours.line(a)}: `{ours.source(a)}`" if a < len(ours.instructions) - 1 else "nothing more"
    right = f"line {theirs.line(b)}: `{theirs.source(b)}`" if b < len(theirs.instructions) - 1 else "nothing more"
    return UnsupportedError(
        f"{theirs.name!r} differs from {ours.name!r} {where}at {right}, where {ours.name!r} has {left} ({match.why})",
        place=theirs.place(min(b, len(theirs.instructions) - 1)),
        hint="name a variant of the same kernel, or cut this entry by its own lines",
    )
