"""Where a probe's stores go: the statements of a stage, and the registers to store there.

Invariant: a site is a statement, never a place in the text, so that comments and other entries are never touched; every site of a probe stores
the same registers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import get_close_matches

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.cut import Cut
from ptxgraft.graft.excerpt import RegionChoice, excerpt, is_spelled
from ptxgraft.isa import Instruction, Program, Reg, Register, Type, Vector, bind
from ptxgraft.spec import phase_runs
from ptxgraft.text import Document, Kind, Statement

Stage = str | int
"""``a``, ``p<N>``, ``out``, ``ret``, or a 1-based file line of the original."""

_PHASE = re.compile(r"p(\d+)\Z")
LEAVES = ("return", "exit")


@dataclass(frozen=True, slots=True)
class Stored:
    """A register to store: its name in the text that is probed, the name shown, its type."""

    name: str
    shown: str
    type: Type


@dataclass(frozen=True, slots=True)
class Site:
    """One statement with a store ``after`` or before it, for the lanes whose ``guard`` holds ('' for all)."""

    statement: Statement
    after: bool
    guard: str = ""


Found = tuple[list[Site], list[Stored], list[str]]
"""(sites, registers, notes) of a stage."""


def find_sites(flow: Flow, target: Document | Cut, where: Stage, registers: list[str] | None, region: RegionChoice) -> Found:
    """A stage in a document or in a cut's new module; ``flow`` is that of the entry there."""
    if isinstance(where, int) and not isinstance(where, bool):
        return _line(flow, target, where, registers)
    if where == "ret":
        return _returns(flow, target, registers)
    phase = _PHASE.match(where) if isinstance(where, str) else None
    if phase:
        return _phase(flow, target, int(phase[1]), registers)
    if where in ("a", "out"):
        return _border(flow, target, where, registers, region)
    raise UsageError(f"stage {where!r} is not known", hint="stages are 'a', 'p<N>', 'out', 'ret', or a line number")


def probe_stages(target: Document | Cut, entry: str | None = None, region: RegionChoice = None) -> list[str]:
    """The named stages of a region, in order: ``a``, the phases inside it, ``out``. Of a cut, the stages of its region that the new module has."""
    if isinstance(target, Cut):
        piece = target._piece
        count = len(phase_runs(Flow(target.program)))
    else:
        if entry is None:
            raise UsageError("no entry named", hint="name the entry whose stages are wanted")
        piece = excerpt(Flow(bind(target, entry)), region, to_cut=False)
        count = -1
    runs = phase_runs(piece.flow)
    inside = [n for n, run in enumerate(runs) if piece.region.first <= run[0] and run[-1] <= piece.region.last]
    if count not in (-1, len(runs)):
        inside = []  # the body has other phases than the region: they cannot be told apart by number
    return ["a", *(f"p{n}" for n in inside), "out"]


def probe_lines(document: Document, entry: str, kind: str) -> list[int]:
    """The lines of all ``loads``, ``stores`` or ``returns`` of an entry, guarded and vector ones included; accesses to parameters are left out."""
    program = bind(document, entry)
    tests = {
        "loads": lambda f: f.loads not in ("", "param") or (f.family == "texture" and f.root != "sust"),
        "stores": lambda f: f.stores not in ("", "param") or f.root in ("sust", "sured"),
        "returns": lambda f: f.control in LEAVES,
    }
    if kind not in tests:
        raise UsageError(f"kind {kind!r} is not known", hint=f"kinds are {', '.join(tests)}")
    body = program.entry
    found = [i.index for i in program.instructions[:-1] if i.form is not None and tests[kind](i.form)]
    return sorted({program.line(i) for i in found if body.start <= program.instructions[i].statement.start < body.end})


# -- one stage each -----------------------------------------------------------------------------------------------------------


def probed_program(target: Document | Cut, entry: str) -> Program:
    """The entry that probes go into: the document's, or that of the cut's new module."""
    if isinstance(target, Cut):
        if entry != target.entry:
            raise UsageError(f"the cut is of {target.entry!r}, not of {entry!r}")
        return target.program
    return bind(target, entry)


def _border(flow: Flow, target: Document | Cut, where: str, registers: list[str] | None, region: RegionChoice) -> Found:
    program = flow.program
    if isinstance(target, Cut):
        opened, closed = target.block_statements
        piece = target._piece
        statement = opened if where == "a" else closed
        site = Site(statement, where == "out")
        carried = piece.live_in if where == "a" else piece.live_out
    else:
        piece = excerpt(flow, region, to_cut=False)
        carried = piece.live_in if where == "a" else piece.live_out
        site = Site(piece.first, False) if where == "a" else _behind(piece.document, piece.last, piece.flow, piece.region.last)
    if registers is None:
        stored = [Stored(r.name, r.name, r.type) for r in carried if is_spelled(r)]
    else:
        stored = [Stored(r.name, r.name, r.type) for r in named(program, site.statement, registers, outside=True)]
    _require(stored, f"the region has no live-{'ins' if where == 'a' else 'outs'}")
    return [site], stored, []


def _behind(document: Document, last: Statement, flow: Flow, index: int) -> Site:
    """After the region's last statement, and after the labels there when the region itself branches to them."""
    targets = {t for i in flow.program.instructions[: index + 1] for t in i.targets}
    if index + 1 in targets:
        following = document.statements[last.index + 1]
        at = last
        while following.kind == Kind.LABEL:
            at = following
            following = document.statements[following.index + 1]
        return Site(at, True)
    return Site(last, True)


def _phase(flow: Flow, target: Document | Cut, number: int, registers: list[str] | None) -> Found:
    program, entry = flow.program, flow.program.name
    runs = phase_runs(flow)
    if isinstance(target, Cut):
        whole = phase_runs(target._piece.flow)
        inside = [n for n, run in enumerate(whole) if target.region.first <= run[0] and run[-1] <= target.region.last]
        if len(runs) != len(whole) and (number >= len(runs) or not inside or number >= inside[0]):
            raise UnsupportedError(
                f"the graft of {entry!r} has {len(runs)} phases, the original {len(whole)}: p{number} cannot be found in it",
                hint="compare the stages 'a' and 'out', or keep the phases in the body",
            )
    if number >= len(runs):
        raise UsageError(
            f"{entry!r} has no phase {number}", hint=f"its phases are 0 to {len(runs) - 1}" if runs else "it has no tensor-core instruction"
        )
    last = program.instructions[runs[number][-1]]
    shown = _shown_names(target)
    notes: list[str] = []
    if any(program.instructions[i].statement is last.statement for run in runs for i in run if i != last.index):
        notes.append(f"the statement of p{number} stands in a function that runs several times: the last time is what is stored")
    if registers is None:
        seen: dict[int, None] = {}
        for index in runs[number]:
            instruction = program.instructions[index]
            assert instruction.form is not None
            for role, operand in zip(instruction.form.roles, instruction.operands, strict=True):
                if role.kind == "out":
                    items = operand.items if isinstance(operand, Vector) else (operand,)
                    seen |= {i.id: None for i in items if isinstance(i, Reg)}
        found = [program.registers[r] for r in seen]
    else:
        found = named(program, last.statement, [_new_name(target, n) for n in registers])
    return [Site(last.statement, True)], [Stored(r.name, shown.get(r.name, r.name), r.type) for r in found], notes


def _line(flow: Flow, target: Document | Cut, line: int, registers: list[str] | None) -> Found:
    program, entry = flow.program, flow.program.name
    here: list[Instruction] = []
    said = [i for i in program.instructions[:-1] if i.statement.kind == Kind.INSTRUCTION]  # not the brace where an entry with frames begins
    for instruction in said:
        start = instruction.statement.start
        at = target.old_line_at(start) if isinstance(target, Cut) else program.document.line(start)
        if at == line:
            here.append(instruction)
    if not here:
        if isinstance(target, Cut):
            raise UnsupportedError(
                f"the graft of {entry!r} has no statement of the original's line {line}", hint="probe a stage, or a line outside the region"
            )
        near = min((program.line(i.index) for i in said), key=lambda n: (abs(n - line), n), default=None)
        raise UsageError(
            f"line {line} of {program.document.name} holds no instruction of {entry!r}",
            hint="it has none" if near is None else f"the nearest is on line {near}",
        )
    last = here[-1]
    statements = {i.statement.index for i in here}
    control = last.form.control if last.form is not None else ""
    leaves = control in (*LEAVES, "trap", "branch", "indirect-branch") and last.statement.opcode.partition(".")[0] != "call"
    guard = last.statement.guard if control in LEAVES else ""
    shown = _shown_names(target)
    if registers is not None:
        found = named(program, last.statement, [_new_name(target, n) for n in registers])
    else:
        written = {r: None for i in here for r in i.writes}
        found = [program.registers[r] for r in written if _visible(program, program.registers[r], last.statement)]
        if len(statements) == 1 and not leaves:
            guard = last.statement.guard
    _require(found, f"line {line} writes no register")
    notes: list[str] = []
    if guard and not leaves:
        notes.append(f"line {line} is guarded: only the lanes where {guard} holds are stored")
    return [Site(last.statement, not leaves, guard)], [Stored(r.name, shown.get(r.name, r.name), r.type) for r in found], notes


def _returns(flow: Flow, target: Document | Cut, registers: list[str] | None) -> Found:
    program, entry = flow.program, flow.program.name
    if not registers:
        raise UsageError("a probe at every return stores named registers", hint="name the registers, as in --registers %r1,%r2")
    document, body = program.document, program.entry
    sites = [
        Site(i.statement, False, i.statement.guard)
        for i in program.instructions[:-1]
        if i.form is not None and i.form.control in LEAVES and body.start <= i.statement.start < body.end
    ]
    end = program.instructions[-1]
    block = flow.cfg.block_of(end.index)
    if block.predecessors or block.start < end.index or end.index == program.start:
        sites.append(Site(document.statements[document.scopes[body.scope].last], False))
    if not sites:
        raise UsageError(f"{entry!r} never returns: no statement of it is a return, and none comes to its end", hint="probe a line")
    names = [_new_name(target, n) for n in registers]
    shown = _shown_names(target)
    found = named(program, sites[0].statement, names)
    for site in sites[1:]:
        if named(program, site.statement, names) != found:
            raise UsageError(
                f"{', '.join(registers)} are not the same registers at every return of {entry!r}", hint="probe one return's line"
            )
    return sites, [Stored(r.name, shown.get(r.name, r.name), r.type) for r in found], []


def _require(found: list, nothing: str) -> None:
    if not found:
        raise UsageError(f"{nothing}: there is nothing to store", hint="name the registers, as in --registers %r1,%r2")


def _shown_names(target: Document | Cut) -> dict[str, str]:
    return {new: old for old, new in target.renamed.items()} if isinstance(target, Cut) else {}


def _new_name(target: Document | Cut, name: str) -> str:
    return target.renamed.get(name, name) if isinstance(target, Cut) else name


# -- registers by name --------------------------------------------------------------------------------------------------------


def _chain(document: Document, scope: int) -> list[int]:
    chain = [scope]
    while document.scopes[chain[-1]].parent >= 0:
        chain.append(document.scopes[chain[-1]].parent)
    return chain


def _visible(program: Program, register: Register, statement: Statement) -> bool:
    return is_spelled(register) and register.scope in _chain(program.document, statement.scope)


def named(program: Program, statement: Statement, names: list[str], outside: bool = False) -> list[Register]:
    """The registers that names mean at a statement (``outside``: just around the block that it opens or closes)."""
    document = program.document
    scope = statement.scope
    if statement.kind in (Kind.OPEN, Kind.CLOSE) and outside:
        scope = document.scopes[scope].parent
    chain = _chain(document, scope)
    found: list[Register] = []
    for name in names:
        candidates = [r for r in program.registers if r.name == name and r.scope in chain and is_spelled(r)]
        if not candidates:
            known = sorted({r.name for r in program.registers if r.scope in chain and is_spelled(r)})
            near = get_close_matches(name, known, 3) or known[:3]
            raise UsageError(
                f"{name!r} is no register used at line {document.line(statement.start)}",
                hint=f"near names: {', '.join(near)}" if near else "",
            )
        found.append(min(candidates, key=lambda r: chain.index(r.scope)))
    return found
