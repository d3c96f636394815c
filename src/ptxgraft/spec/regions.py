"""Regions and their cut ABI, from liveness.

Invariant: the ABI is computed, never written by hand; what makes a cut unsound is listed with the line, not dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow, Linear
from ptxgraft.isa import Address, Program, Register
from ptxgraft.spec.model import Abi, Region, RegisterSpec
from ptxgraft.spec.provenance import shared_variable


def mma_region(flow: Flow) -> Region | None:
    """From the first to the last tensor-core instruction of the entry; None when it has none."""
    tensor = [i.index for i in flow.program.instructions if i.form is not None and i.form.tensor]
    return make_region(flow.program, tensor[0], tensor[-1]) if tensor else None


def make_region(program: Program, first: int, last: int) -> Region:
    """The region of instructions ``first`` .. ``last``, inclusive."""
    tensor = sum(1 for i in program.instructions[first : last + 1] if i.form is not None and i.form.tensor)
    return Region(first, last, program.line(first), program.line(last), last - first + 1, tensor)


def line_region(program: Program, first_line: int, last_line: int) -> Region:
    """The region of the statements that start on the file lines ``first_line`` .. ``last_line``. UsageError when the entry has none there."""
    body, scope = program.entry, program.document.scopes[program.entry.scope]
    start, stop = (program.document.line(program.document.statements[brace].start) for brace in (scope.first, scope.last))
    for line in (first_line, last_line):
        if not start <= line <= stop:
            raise UsageError(f"line {line} is outside the body of {program.name!r}, which is lines {start} to {stop}")
    inside = [
        i.index
        for i in program.instructions[program.start : -1]  # the last one is the end of the entry, which no statement spells
        if first_line <= program.line(i.index) <= last_line and body.start <= i.statement.start < body.end
    ]
    if not inside or first_line > last_line:
        raise UsageError(f"lines {first_line} to {last_line} of {program.name!r} hold no statement")
    return make_region(program, inside[0], inside[-1])


def region_registers(flow: Flow, region: Region) -> tuple[list[int], list[int]]:
    """Register numbers live into and out of a region: written in it and read after; written before and read in it, or read after where some path
    through the region leaves the old value."""
    program = flow.program
    live = flow.liveness.before((region.first, region.last + 1))
    inside = program.instructions[region.first : region.last + 1]
    read = {r for i in inside for r in i.reads}
    written = {r for i in inside for r in i.writes}
    after = live[region.last + 1]
    # A guarded write, or one that a branch goes round, may leave the old value: such a register comes in as well as out.
    live_in = live[region.first] & (read | (written & after))
    seen = visible_scopes(program, region)
    return (
        sorted(r for r in live_in if is_visible(program.registers[r], seen)),
        sorted(r for r in written & after if is_visible(program.registers[r], seen)),
    )


def visible_scopes(program: Program, region: Region) -> frozenset[int]:
    """The text scopes around a region: what is declared further in (a block inside it, a function called in it) has no value outside."""
    scopes = program.document.scopes
    common: list[int] | None = None
    for index in (region.first, region.last):
        statement = program.instructions[index].statement
        scope = statement.scope if program.entry.start <= statement.start < program.entry.end else program.entry.scope
        chain = [scope]
        while scopes[chain[-1]].parent >= 0:
            chain.append(scopes[chain[-1]].parent)
        common = chain if common is None else [s for s in common if s in chain]
    return frozenset(common or ())


def is_visible(register: Register, scopes: frozenset[int]) -> bool:
    """Is a register declared in one of these scopes of the entry itself, not in a function that was put in the place of its call?"""
    return register.inline == 0 and register.scope in scopes


def region_abi(flow: Flow, region: Region) -> Abi:
    """The cut ABI of a region, with everything that forbids cutting it."""
    program = flow.program
    live_in, live_out = region_registers(flow, region)
    registers = program.registers
    inside = program.instructions[region.first : region.last + 1]
    shared: dict[str, None] = {}
    for instruction in inside:
        form = instruction.form
        if form is not None and "shared" in (form.loads, form.stores):
            address = _address(flow, instruction.index)
            variable = shared_variable(program, address) if address is not None else None
            shared[program.variables[variable].name if variable is not None else "?"] = None
    barriers = [program.line(i.index) for i in inside if i.form is not None and i.form.control == "barrier"]
    predicates = [registers[r].name for r in sorted({*live_in, *live_out}) if registers[r].type.kind == "p"]
    return Abi(
        [RegisterSpec(registers[r].name, registers[r].type.name) for r in live_in],
        [RegisterSpec(registers[r].name, registers[r].type.name) for r in live_out],
        list(shared),
        predicates,
        barriers,
        list(refusals(flow, region)),
    )


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why an instruction forbids cutting a region: the instruction's index, what it does, and a way out."""

    index: int
    what: str
    way_out: str


def refused(flow: Flow, region: Region) -> Iterator[Refusal]:
    """What forbids cutting the region: control that enters or leaves it other than by falling in at the top and out at the bottom, and
    unknown instructions."""
    program = flow.program
    body, inside = program.entry, range(region.first, region.last + 1)
    for instruction in program.instructions:
        here = instruction.index in inside
        if instruction.targets and not body.start <= instruction.statement.start < body.end and not here:
            continue  # a return to such a call, which is refused itself
        if here and instruction.targets and instruction.statement.opcode.startswith("call") and not set(instruction.targets) <= set(inside):
            yield Refusal(instruction.index, "calls a function that is recursive or reached through a pointer", "choose lines without it")
            continue
        for target in instruction.targets:
            # A branch inside the region to just behind it leaves it as falling out does; one from outside to its top enters it as falling in.
            lands = target in inside and target != region.first if not here else target not in inside and target != region.last + 1
            if lands:
                way = "out of" if here else "into"
                yield Refusal(
                    instruction.index, f"branches {way} the region", "choose lines that hold the branch and its target, or neither of them"
                )
        if here:
            form = instruction.form
            if form is None:
                yield Refusal(instruction.index, "is not known, its effects cannot be carried", "choose lines without it")
            elif form.control == "indirect-branch":
                yield Refusal(
                    instruction.index, "branches through a table of labels, which no cut takes along", "choose lines before or behind it"
                )
            elif form.control in ("return", "exit", "trap"):
                yield Refusal(instruction.index, "leaves the region", "choose lines that end before it")
            elif form.family == "stack" and not instruction.statement.opcode.startswith("call"):
                yield Refusal(instruction.index, "takes stack memory, which ends with the function it is in", "choose lines without it")


def refusals(flow: Flow, region: Region) -> list[str]:
    """``refused`` as sentences; each names its line and quotes the statement."""
    program = flow.program
    return [f"line {program.line(r.index)}: `{program.source(r.index)}` {r.what}" for r in refused(flow, region)]


def _address(flow: Flow, index: int) -> Linear | None:
    if not any(isinstance(o, Address) for o in flow.program.instructions[index].operands):
        return None
    return flow.symbols.address(index)
