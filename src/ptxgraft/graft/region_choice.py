"""Which statements a caller means by a region: by phase, by line, by label.

Invariant: a region that is given back is whole: calls and blocks are inside it or outside it, and what was widened for that is said.
"""

from __future__ import annotations

import re

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import Program
from ptxgraft.spec import Region, line_region, make_region, mma_region, phase_runs
from ptxgraft.text import Document, Kind, Statement

RegionChoice = Region | tuple[int, int] | str | None
"""A region as callers name it: None for the mma region, file lines (first, last), ``"p3"`` or ``"phase 3"``, ``"p3-p5"`` or ``"phases 3-5"``,
``"lines 120-340"``, ``"label LOOP"`` (to the next label), ``"label LOOP-DONE"``, or a ``Region``."""

_PHASES = re.compile(r"(?:phases?\s+|p)(\d+)(?:\s*-\s*p?(\d+))?\Z")
_LINES = re.compile(r"(?:lines?\s+)?(\d+)\s*-\s*(\d+)\Z")
_LABELS = re.compile(r"label\s+([\w$%]+)(?:\s*-\s*([\w$%]+))?\Z")


def choose_region(flow: Flow, choice: RegionChoice) -> Region:
    """The region that a caller's words mean. UsageError when they mean none."""
    program = flow.program
    if isinstance(choice, Region):
        return choice
    if isinstance(choice, str):
        if m := _LINES.match(choice.strip()):
            return line_region(program, int(m[1]), int(m[2]))
        if m := _LABELS.match(choice.strip()):
            return labelled_region(program, m[1], m[2])
        m = _PHASES.match(choice.strip())
        if m is None:
            raise UsageError(
                f"region {choice!r} is not understood", hint="name 'p3', 'p3-p5', lines as '120-340', or 'label LOOP' or 'label LOOP-DONE'"
            )
        runs = phase_runs(flow)
        first, last = int(m[1]), int(m[2] or m[1])
        if not first <= last < len(runs):
            raise UsageError(
                f"{program.name!r} has no {choice}", hint=f"its phases are 0 to {len(runs) - 1}" if runs else "it has no phase"
            )
        return make_region(program, runs[first][0], runs[last][-1])
    if choice is not None:
        return line_region(program, *choice)
    region = mma_region(flow)
    if region is None:
        raise UsageError(f"{program.name!r} has no tensor-core instruction", hint="name the region's first and last line")
    return region


def labelled_region(program: Program, first: str, behind: str | None) -> Region:
    """From a label of the entry's own to just before another one, by default the next that stands behind it; a jump or return that ends the
    stretch is left out. UsageError when there is no such label, or nothing between them."""
    labels = program.labels
    for name in (first, behind):
        if name is not None and name not in labels:
            some = ", ".join(sorted(labels, key=lambda n: labels[n])[:8])
            raise UsageError(f"{program.name!r} has no label {name!r}", hint=f"its labels are {some}" if labels else "it has none")
    start = labels[first]
    end = labels[behind] if behind is not None else min((i for i in labels.values() if i > start), default=len(program.instructions) - 1)
    last = end - 1
    while last > start:
        form = program.instructions[last].form
        if form is None or not (program.instructions[last].targets or form.control in ("return", "exit")):
            break
        if any(start <= t <= last for t in program.instructions[last].targets):
            break  # a loop's way back
        last -= 1
    if last < start:
        raise UsageError(f"there is no statement from label {first!r} to {behind or 'the next label'!r}", hint="name them in their order")
    return make_region(program, start, last)


def owners(program: Program) -> list[Statement]:
    """For each instruction the statement of the entry's own body that it comes from: for a function's, its call (its own, if the function has frames)."""
    document, entry = program.document, program.entry
    assert entry.body is not None
    own = [document.statements[i] for i in entry.body if document.statements[i].kind == Kind.INSTRUCTION]
    position = {s.index: i for i, s in enumerate(own)}
    result: list[Statement] = []
    at = -1
    for instruction in program.instructions:
        if instruction.index < program.start:
            result.append(instruction.statement)
            continue
        found = position.get(instruction.statement.index)
        if found is not None:
            at = found
        elif at < 0 or not own[at].opcode.startswith("call"):
            at = min(at + 1, len(own) - 1)  # a call that left no instruction of its own before the body it stands for
        result.append(own[at] if own else instruction.statement)
    return result


def locate(flow: Flow, choice: RegionChoice) -> tuple[Region, Statement, Statement, int, list[str]]:
    """The region widened to whole calls and blocks: (region, first statement, last statement, their scope, notes)."""
    program, wanted = flow.program, choose_region(flow, choice)
    document = program.document
    owner = owners(program)
    first, last = owner[wanted.first], owner[wanted.last]
    scopes = document.scopes
    # A statement inside a called function stands for the call, and the call for the block that declares its parameters.
    if program.instructions[wanted.first].statement is not first and scopes[first.scope].kind == "block":
        first = document.statements[scopes[first.scope].first]
    if program.instructions[wanted.last].statement is not last and scopes[last.scope].kind == "block":
        last = document.statements[scopes[last.scope].last]
    chain = [last.scope]
    while scopes[chain[-1]].parent >= 0:
        chain.append(scopes[chain[-1]].parent)
    common = first.scope
    while common not in chain:
        common = scopes[common].parent
    notes: list[str] = []
    for end in (0, 1):
        statement = (first, last)[end]
        scope = statement.scope
        if scope == common:
            continue
        while scopes[scope].parent != common:
            scope = scopes[scope].parent
        brace = document.statements[(scopes[scope].first, scopes[scope].last)[end]]
        first, last = (brace, last) if end == 0 else (first, brace)
        notes.append(
            f"the region's {('first', 'last')[end]} statement stands in a block: "
            f"the region was widened to line {document.line(brace.start)}, the block's brace"
        )
    while scopes[common].kind == "block" and _fills(document, first, last, common):
        first, last = document.statements[scopes[common].first], document.statements[scopes[common].last]
        common = scopes[common].parent
    inside = [i for i, s in enumerate(owner[:-1]) if i >= program.start and first.index <= s.index <= last.index]
    if (inside[0] < wanted.first and first.kind != Kind.OPEN) or (inside[-1] > wanted.last and last.kind != Kind.CLOSE):
        notes.append("the region begins or ends inside a called function: it was widened to the whole call")
    tensor = sum(1 for i in program.instructions[inside[0] : inside[-1] + 1] if i.form is not None and i.form.tensor)
    region = Region(inside[0], inside[-1], document.line(first.start), document.line(last.end - 1), len(inside), tensor)
    return region, first, last, common, notes


def _fills(document: Document, first: Statement, last: Statement, scope: int) -> bool:
    """Do the statements from ``first`` to ``last`` leave nothing but declarations in their block?"""
    block = document.scopes[scope]
    rest = (*document.statements[block.first + 1 : first.index], *document.statements[last.index + 1 : block.last])
    return all(s.kind == Kind.DIRECTIVE for s in rest)
