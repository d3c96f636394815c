"""Regions and their cut ABI, from liveness.

Invariant: the ABI is computed, never written by hand; what makes a cut unsound is listed with the line, not dropped.
"""

from __future__ import annotations

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow, Linear
from ptxgraft.isa import Address, Program
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
    body = program.entry
    start, stop = program.document.line(body.start), program.document.line(body.end - 1)
    for line in (first_line, last_line):
        if not start <= line <= stop:
            raise UsageError(f"line {line} is outside the body of {program.name!r}, which is lines {start} to {stop}")
    inside = [i.index for i in program.instructions if first_line <= program.line(i.index) <= last_line]
    if not inside or first_line > last_line:
        raise UsageError(f"lines {first_line} to {last_line} of {program.name!r} hold no statement")
    return make_region(program, inside[0], inside[-1])


def region_registers(flow: Flow, region: Region) -> tuple[list[int], list[int]]:
    """Register numbers live into and out of a region: read in it but written before; written in it and read after."""
    program = flow.program
    live = flow.liveness.before((region.first, region.last + 1))
    inside = program.instructions[region.first : region.last + 1]
    read = {r for i in inside for r in i.reads}
    written = {r for i in inside for r in i.writes}
    kept = {r for i in inside if i.guard is not None for r in i.writes}
    after = live[region.last + 1]
    # A guarded write may leave the old value: such a register that is read afterwards comes in as well as out.
    live_in = (live[region.first] & read) | (live[region.first] & kept & after)
    return sorted(live_in), sorted(written & after)


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


def refusals(flow: Flow, region: Region) -> list[str]:
    """Why the region cannot be cut: control that enters or leaves it other than by falling in at the top and out at the bottom, and unknown
    instructions. Each names its line."""
    program = flow.program
    found: list[str] = []
    inside = range(region.first, region.last + 1)
    for instruction in program.instructions:
        here = instruction.index in inside
        for target in instruction.targets:
            # A branch inside the region to just behind it leaves it as falling out does.
            lands = target in inside if not here else target not in inside and target != region.last + 1
            if target == region.first and not here:
                lands = False
            if lands:
                way = "out of" if here else "into"
                found.append(f"line {program.line(instruction.index)}: `{program.source(instruction.index)}` branches {way} the region")
        if here:
            form = instruction.form
            if form is None:
                found.append(
                    f"line {program.line(instruction.index)}: `{instruction.statement.opcode}` is not known, its effects cannot be carried"
                )
            elif form.control in ("return", "exit", "trap", "indirect-branch"):
                found.append(f"line {program.line(instruction.index)}: `{program.source(instruction.index)}` leaves the region")
    return found


def _address(flow: Flow, index: int) -> Linear | None:
    if not any(isinstance(o, Address) for o in flow.program.instructions[index].operands):
        return None
    return flow.symbols.address(index)
