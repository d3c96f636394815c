"""A region as text: its statements, the names it takes from around it, and its text again with some of them changed.

Invariant: an excerpt is whole: blocks and calls are inside it or outside it, never half; every name in it is either declared in it or listed
here. What forbids cutting it is refused when it is made.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace

from ptxgraft.errors import UnsupportedError
from ptxgraft.flow import Flow
from ptxgraft.graft.region_choice import RegionChoice, locate, owners
from ptxgraft.isa import Instruction, Program, Register, Symbol, Variable
from ptxgraft.spec import (
    Abi,
    Region,
    RegisterSpec,
    is_visible,
    refused,
    region_abi,
    region_registers,
)
from ptxgraft.text import Document, Kind, Statement, is_number, register_declarations, variable_declarations

_HEAD = re.compile(r"(?:@\s*!?\s*[\w$%]+\s+)?[\w.:]+(?:\s+(?=\.)[\w.:]+)*")
LINE = re.compile(r"[^\n]*\n|[^\n]+")
NAME = re.compile(r"(?<![\w$%.])[%$]?[\w$]+")
SIGILED = re.compile(r"(?<![\w$%.])[%$][\w$]+")
_SHOWN = 3


@dataclass(slots=True, eq=False)
class Excerpt:
    """One region of an entry. ``first`` .. ``last`` are its outermost statements (a brace where the region is widened to a block);
    ``members`` maps a statement's index to the instructions it became. ``call_variables`` are ``.param`` variables of calls that are declared around
    it; ``labels`` are those outside that its branches go to, at its own top ('start') or just behind it ('end')."""

    flow: Flow
    region: Region
    abi: Abi
    first: Statement
    last: Statement
    scope: int
    live_in: list[Register]
    live_out: list[Register]
    registers: dict[str, Register]
    variables: dict[str, Variable]
    call_variables: frozenset[str]
    members: dict[int, list[Instruction]]
    labels: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    _declared: dict[int, Declarations] = field(default_factory=dict, repr=False)

    @property
    def program(self) -> Program:
        return self.flow.program

    @property
    def document(self) -> Document:
        return self.flow.program.document

    def live_behind(self) -> list[Register]:
        """Registers that are read after the region, written in it or not."""
        point = self.region.last + 1
        return [self.program.registers[r] for r in sorted(self.flow.liveness.before((point,))[point])]

    @property
    def own(self) -> list[Register]:
        """Registers used in the region that carry nothing into it or out of it, in order of number."""
        carried = {r.id for r in (*self.live_in, *self.live_out)}
        return sorted((r for r in self.registers.values() if r.id not in carried), key=lambda r: r.id)

    def statements(self) -> list[Statement]:
        """All statements from ``first`` to ``last``."""
        return self.document.statements[self.first.index : self.last.index + 1]

    def hoisted(self) -> list[Statement]:
        """Declarations in the region that belong to the scope around it: they must stay where that scope sees them."""
        return [s for s in self.statements() if s.kind == Kind.DIRECTIVE and s.scope == self.scope and s.opcode in DECLARATIONS]

    def names(self, statement: Statement, among: Container[str] | None = None) -> Iterator[tuple[int, int, str]]:
        """Names in an instruction (its opcode apart) that belong to the scopes around the region: (start, end, name). ``among``: only these."""
        masked = self.document.masked
        head = _HEAD.match(masked, statement.start, statement.end)
        start = head.end() if head else statement.start
        guard = NAME.search(masked, statement.start, start) if statement.guard else None
        for match in ([guard] if guard else []) + list(NAME.finditer(masked, start, statement.end)):
            name = match.group()
            if (among is None or name in among) and not self._declared_inside(statement.scope, name):
                yield match.start(), match.end(), name

    def renamings(self, names: Mapping[str, str], replaced: Mapping[int, str]) -> list[tuple[int, int, str]]:
        """What renaming changes in the region's instructions, those ``replaced`` apart: (start, end, new text), in order."""
        spans: list[tuple[int, int, str]] = []
        masked, sigils = self.document.masked, all(name[0] in "%$" for name in names)
        for statement in self.statements():
            if statement.kind != Kind.INSTRUCTION or statement.index in replaced:
                continue
            if not sigils:
                spans += [(start, end, names[name]) for start, end, name in self.names(statement, names)]
                continue
            inside = statement.scope != self.scope
            for match in SIGILED.finditer(masked, statement.start, statement.end):  # no opcode begins with a sigil
                name = match.group()
                if name in names and not (inside and self._declared_inside(statement.scope, name)):
                    spans.append((match.start(), match.end(), names[name]))
        return spans

    def _declared_inside(self, scope: int, name: str) -> bool:
        while scope != self.scope:
            found = self._declared.get(scope)
            if found is None:
                found = self._declared[scope] = declarations(self.document, scope)
            if is_declared(found, name):
                return True
            scope = self.document.scopes[scope].parent
        return False

    def render(self, renamed: Mapping[str, str], replaced: Mapping[int, str] | None = None) -> Rendered:
        """The region's text with names from around it replaced and whole statements (by index) exchanged; declarations of the outer scope
        left out."""
        document, replaced = self.document, replaced or {}
        dropped = {s.index for s in self.hoisted()}
        out = Rendered(document)
        at = self.first.start
        for statement in self.statements():
            if statement.index in dropped or statement.index in replaced:
                out.copy(at, statement.start)
                out.write(replaced.get(statement.index, ""), statement.start)
                at = statement.end
            elif statement.kind == Kind.INSTRUCTION:
                for start, end, name in self.names(statement):
                    if name in renamed:
                        out.copy(at, start)
                        out.write(renamed[name], start)
                        at = end
        out.copy(at, self.last.end)
        return out


DECLARATIONS = frozenset({".reg", ".shared", ".local", ".param", ".global", ".const", ".tex"})


@dataclass(slots=True, eq=False)
class Rendered:
    """Text under construction that remembers which line of the document each of its lines is from."""

    document: Document
    pieces: list[str] = field(default_factory=list)
    origins: list[int] = field(default_factory=list)

    def copy(self, start: int, end: int) -> None:
        """Append bytes ``start`` .. ``end`` of the document."""
        text = self.document.data[start:end].decode("utf-8", "replace")  # what is not UTF-8 can only stand in a comment
        for line, part in enumerate(LINE.findall(text), self.document.line(start)):
            self.write(part, line=line)

    def write(self, text: str, offset: int = 0, line: int | None = None) -> None:
        """Append a text that stands for the document's line at ``offset``."""
        line = self.document.line(offset) if line is None else line
        if not self.origins:
            self.origins.append(line)
        elif self.pieces and self.pieces[-1].endswith("\n"):
            self.origins[-1] = line
        self.origins += [line] * text.count("\n")
        self.pieces.append(text)

    def append(self, other: Rendered) -> None:
        """Append another text with its lines' origins."""
        if other.pieces:
            first, *rest = other.origins
            self.origins[-1:] = [first]
            self.origins += rest
            self.pieces += other.pieces

    @property
    def text(self) -> str:
        return "".join(self.pieces)


def indented(document: Document, statement: Statement, text: str) -> str:
    """A text of several lines to stand beside or in the place of a statement: the lines after the first get the statement's indentation."""
    before = document.text[document.line_span(document.line(statement.start))[0] : statement.start]
    return text if before.strip() else text.replace("\n", "\n" + before)


def is_spelled(register: Register) -> bool:
    """Can a text name the register? Not the condition code, which statements read and write unsaid."""
    return not register.name.startswith(".")


Declarations = tuple[set[str], list[tuple[str, int]]]
"""Names that one scope declares as registers, variables or labels, and its ranges of registers."""


def declares(document: Document, scope: int, name: str) -> bool:
    """Does exactly this scope declare ``name`` as a register, a variable or a label?"""
    return is_declared(declarations(document, scope), name)


def is_declared(declared: Declarations, name: str) -> bool:
    """Is ``name`` among the declarations of a scope?"""
    names, ranges = declared
    if name in names:
        return True
    base = name.rstrip("0123456789")
    return any(base.startswith(b) and is_number(name[len(b) :]) and int(name[len(b) :]) < n for b, n in ranges)


def declarations(document: Document, index: int) -> Declarations:
    """What exactly this scope declares."""
    scope = document.scopes[index]
    registers = register_declarations(document, scope)
    names = {r.base for r in registers if r.size is None} | {v.name for v in variable_declarations(document, scope)}
    names |= {s.opcode for s in document.statements[scope.first : scope.last + 1] if s.kind == Kind.LABEL and s.scope == index}
    return names, [(r.base, r.size) for r in registers if r.size is not None]


def excerpt(flow: Flow, choice: RegionChoice, to_cut: bool = True) -> Excerpt:
    """The region as an excerpt. UnsupportedError names what forbids cutting it, if it is meant ``to_cut``."""
    program = flow.program
    document = program.document
    region, first, last, scope, notes = locate(flow, choice)
    if to_cut:
        refuse(flow, region)
    seen = frozenset(_chain(document, scope))
    live_in, live_out = (
        [program.registers[r] for r in side if is_visible(program.registers[r], seen)] for side in region_registers(flow, region)
    )
    abi = replace(
        region_abi(flow, region),
        live_in=[RegisterSpec(r.name, r.type.name) for r in live_in],
        live_out=[RegisterSpec(r.name, r.type.name) for r in live_out],
    )
    owner = owners(program)
    members: dict[int, list[Instruction]] = {}
    for index in range(region.first, region.last + 1):
        members.setdefault(owner[index].index, []).append(program.instructions[index])
    used = {r for i in range(region.first, region.last + 1) for r in (*program.instructions[i].reads, *program.instructions[i].writes)}
    registers = {
        program.registers[r].name: program.registers[r]
        for r in sorted(used)
        if is_visible(program.registers[r], seen) and is_spelled(program.registers[r])
    }
    variables, call_variables = _outer_variables(program, scope)
    result = Excerpt(flow, region, abi, first, last, scope, live_in, live_out, registers, variables, call_variables, members, notes=notes)
    if to_cut:
        _find_labels(result)
    if abi.barriers:
        lines = ", ".join(map(str, abi.barriers[:8])) + (", ..." if len(abi.barriers) > 8 else "")
        result.notes.append(
            f"the region holds {len(abi.barriers)} barriers (lines {lines}): a replacement must keep every warp of the block in step"
        )
    return result


def _chain(document: Document, scope: int) -> list[int]:
    chain = [scope]
    while document.scopes[chain[-1]].parent >= 0:
        chain.append(document.scopes[chain[-1]].parent)
    return chain


def _outer_variables(program: Program, scope: int) -> tuple[dict[str, Variable], frozenset[str]]:
    """Variables of the entry (its parameters included) that the scope sees and a function of the module would not, by name; and which of
    them are ``.param`` variables of calls."""
    document, found = program.document, {p.name: p for p in program.params}
    calls: set[str] = set()
    for index in reversed(_chain(document, scope)):
        if index:
            declared = variable_declarations(document, document.scopes[index])
            names = {v.name for v in declared}
            found |= {v.name: v for v in program.variables if v.name in names}
            calls = {n for n in calls if n not in names} | {v.name for v in declared if v.space == "param"}
    return found, frozenset(calls)


def _find_labels(result: Excerpt) -> None:
    """Which labels outside the text the region's branches go to: its own top and its own end, given as 'start' and 'end'."""
    region = result.region
    inside = {s.opcode for s in result.statements() if s.kind == Kind.LABEL}
    for index in range(region.first, region.last + 1):
        instruction = result.program.instructions[index]
        if instruction.form is None or instruction.statement.index not in result.members:
            continue
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=True):
            if role.kind == "label" and isinstance(operand, Symbol) and operand.name not in inside and not operand.name.startswith("\0"):
                result.labels[operand.name] = "start" if instruction.targets[0] == region.first else "end"


def refuse(flow: Flow, region: Region) -> None:
    """UnsupportedError with what forbids cutting the region."""
    program = flow.program
    found = list(refused(flow, region))
    if not found:
        return
    shown = [f"line {program.line(r.index)}: `{program.source(r.index)}` {r.what}" for r in found[:_SHOWN]]
    more = f"; and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    raise UnsupportedError(
        f"lines {region.first_line} to {region.last_line} of {program.name!r} cannot be cut: {'; '.join(shown)}{more}",
        place=program.place(found[0].index),
        hint=found[0].way_out,
    )
