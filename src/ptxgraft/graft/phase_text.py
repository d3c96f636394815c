"""The text of a ``phases`` cut: what stands in each phase's place, and the callee that does what the phase did.

Invariant: parameters are the phase's number, the bank, the weight image, the parameter block and the lane's row, for every phase alike; a row is
results, then spilled words, and starts at a multiple of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ptxgraft.flow import Flow, Linear
from ptxgraft.graft.callee import register_lines
from ptxgraft.graft.calls import call_statement
from ptxgraft.graft.carry import Scratch, join, listed, load_row, split, store_row, words
from ptxgraft.graft.excerpt import Rendered
from ptxgraft.graft.interface import Interface, Passed
from ptxgraft.graft.linear_text import LinearWriter
from ptxgraft.graft.phases import Given, PhaseCall, PhasePlan
from ptxgraft.graft.remade import remade
from ptxgraft.graft.rows import Room, find_rows
from ptxgraft.graft.shared_base import check_limit, warps_of_block
from ptxgraft.isa import Program, Register
from ptxgraft.spec.provenance import Source
from ptxgraft.text import FreshNames

PARAMETER_ADDRESSES = (7, 7)
"""The PTX version that can take the address of an entry's parameters (manual, "cvta")."""


@dataclass(slots=True, eq=False)
class PhaseFrame:
    """Where a cut's rows lie. ``stride`` words a lane; ``spill`` names the local array of the spilled words, empty when they are in the row.
    ``weights`` is the load of the weight image's address, ``parameters`` the name of the entry's first parameter; empty: a zero is passed.
    ``declarations`` are the new arrays."""

    plan: PhasePlan
    array: str = ""
    stride: int = 0
    warps: int = 0
    spill: str = ""
    weights: str = ""
    parameters: str = ""
    declarations: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def choose_frame(
    flow: Flow, plan: PhasePlan, weights: int | None, block: tuple[int, int, int] | None, fresh: FreshNames, room: Room
) -> PhaseFrame:
    """Find room for the rows: in shared memory; the spilled words in local memory when shared memory is too small for them. Errors as
    ``warps_of_block`` and ``check_limit``."""
    program = flow.program
    frame = PhaseFrame(plan, weights=weightsload_row(program, weights), parameters=program.params[0].name if program.params else "")
    if not frame.weights:
        frame.notes.append("no weight image is known: a zero is passed for its address")
    total = plan.spill_start + plan.spill_words
    if not total:
        return frame
    warps, how = warps_of_block(flow, block)
    frame.warps = warps
    for local in (False, True):
        frame.stride = stride_of(plan.spill_start if local else total)
        rows = find_rows(flow, plan.region, frame.stride, warps, how, fresh, "rows", room, 16) if frame.stride else None
        if rows is not None or not frame.stride:
            break
    else:
        check_limit(program, warps * 128 * frame.stride, room.bytes, "phases")
        raise AssertionError("there is room, but no array was found")
    if rows is not None:
        frame.array = rows.array
        frame.notes.append(rows.note)
        frame.declarations += [rows.declaration] if rows.declaration else []
    if local and plan.spill_words:
        frame.spill = fresh.name("spill")
        frame.declarations.append(f".local .align 16 .b8 {frame.spill}[{4 * plan.spill_words}];")
        frame.notes.append(
            f"shared memory has no room for the {4 * plan.spill_words} bytes a lane that live on over a call: they are spilled to local memory"
        )
    return frame


def stride_of(count: int) -> int:
    """Words from one lane's row to the next: a multiple of four for 16-byte accesses, and an odd one, so that eight lanes' accesses at a time
    meet no bank twice."""
    return (-(-count // 4) | 1) * 4 if count else 0


def weightsload_row(program: Program, offset: int | None) -> str:
    """The statement that loads the weight image's address, with a place for the register; '' when it is not known."""
    for parameter in program.params:
        if offset is not None and parameter.offset <= offset < parameter.offset + parameter.size:
            inner = offset - parameter.offset
            return f"ld.param.b64 {{}}, [{parameter.name}{f'+{inner}' if inner else ''}];"
    return ""


def phase_interface(plan: PhasePlan) -> Interface:
    """The parameters of the callee, the same for every phase."""
    passed = [Passed("phase", "b32", "phase", "the phase's number")]
    passed += [Passed("bank", "b32", f"w{i}", f"word {i} of the bank") for i in range(plan.bank_words)]
    passed += [
        Passed("weights", "b64", "weights", "address of the weight image"),
        Passed("parameters", "b64", "parameters", "address of the parameter block"),
        Passed("row", "b32", "row", "shared address of the lane's row"),
    ]
    return Interface(passed, [], plan.result_words)


# -- in the entry ------------------------------------------------------------------------------------------------------


def phase_call_text(flow: Flow, frame: PhaseFrame, call: PhaseCall, callee: str, fresh: FreshNames, names: Sequence[str]) -> str:
    """What stands in one phase's place. ``names``: of the call's parameters, which nothing else in the module has."""
    document = flow.program.document
    scratch, plan = Scratch(fresh), frame.plan
    lines: list[str] = []
    row = scratch.register("b32")
    lines += _row_lines(frame, row, scratch)
    spilled = [(r, plan.spill_start + w) for r, w in call.across]
    where, base, at = "shared", row, spilled
    if frame.spill and call.across:
        where, base, at = "local", scratch.register(f"b{document.address_size}"), call.across
        lines.append(f"mov.b{document.address_size} {base}, {frame.spill};")
    lines += store_row(at, where, base, scratch)
    lines += store_row(call.chained, "shared", row, scratch)
    values: list[str] = [str(call.phase.index)]
    halves: dict[int, list[str]] = {}
    zero = ""
    for slot in call.bank:
        if slot is None:
            if not zero:
                zero = scratch.register("b32")
                lines.append(f"mov.b32 {zero}, 0;")
            values.append(zero)
            continue
        register, word = slot
        if register.id not in halves:
            before, halves[register.id] = split(register.name, register.type, scratch)
            lines += before
        values.append(halves[register.id][word])
    number, weights, parameters = scratch.register("b32"), scratch.register("b64"), scratch.register("b64")
    lines.append(f"mov.b32 {number}, {call.phase.index};")
    values[0] = number
    lines.append(frame.weights.format(weights) if frame.weights else f"mov.b64 {weights}, 0;")
    if frame.parameters:
        lines += [f"mov.b64 {parameters}, {frame.parameters};", f"cvta.param.u64 {parameters}, {parameters};"]
    else:
        lines.append(f"mov.b64 {parameters}, 0;")
    values += [weights, parameters, row]
    types = [p.type for p in phase_interface(plan).passed]
    lines.append("{")
    for name, type_name, value in zip(names, types, values, strict=True):
        lines += [f".param .{type_name} {name};", f"st.param.{type_name} [{name}], {value};"]
    lines += [call_statement(callee, names), "}"]
    loaded = {r.id for r in call.loaded}
    lines += load_row([(r, w) for r, w in call.results if r.id in loaded], "shared", row, scratch)
    again = {r.id: s for r, _ in call.across if (s := remade(flow, r, call.phase.last + 1))}
    lines += load_row([(r, w) for r, w in at if r.id not in again], where, base, scratch)
    lines += again.values()
    kept = [document.source(s) for s in call.kept]
    return "\n".join([*kept, "{", *("\t" + line for line in [*scratch.declarations(), *lines]), "}"])


def _row_lines(frame: PhaseFrame, row: str, scratch: Scratch) -> list[str]:
    """Statements that set ``row`` to the lane's row: the thread's number in its block, for any shape of it, times the stride."""
    if not frame.array:
        return [f"mov.b32 {row}, 0;"]
    if frame.warps == 1:
        lane, base = scratch.register("b32"), scratch.register("b32")
        return [f"mov.u32 {lane}, %laneid;", f"mov.u32 {base}, {frame.array};", f"mad.lo.u32 {row}, {lane}, {4 * frame.stride}, {base};"]
    x, y, extent = (scratch.register("b32") for _ in range(3))
    return [
        f"mov.u32 {y}, %tid.z;",
        f"mov.u32 {extent}, %ntid.y;",
        f"mov.u32 {x}, %tid.y;",
        f"mad.lo.u32 {y}, {y}, {extent}, {x};",
        f"mov.u32 {extent}, %ntid.x;",
        f"mov.u32 {x}, %tid.x;",
        f"mad.lo.u32 {x}, {y}, {extent}, {x};",
        f"mov.u32 {y}, {frame.array};",
        f"mad.lo.u32 {row}, {x}, {4 * frame.stride}, {y};",
    ]


# -- the callee that tests a cut -----------------------------------------------------------------------------------------


def identity_phase(
    program: Program, call: PhaseCall, callee: str, face: Interface, fresh: FreshNames, exchanged: Mapping[int, str]
) -> Rendered:
    """One phase as a function of its own: the fragments fetched as any callee would, the phase's statements, its D registers stored.
    ``exchanged``: other texts for some of its statements, by index."""
    document, scratch = program.document, Scratch(fresh)
    lines: list[str] = []
    row, weights = scratch.register("b32"), ""
    lines.append(f"ld.param.b32 {row}, [{callee}_row];")
    halves: dict[int, list[str]] = {}
    for place, slot in enumerate(call.bank):
        if slot is not None and (slot[0].id not in halves or len(halves[slot[0].id]) < words(slot[0].type)):
            value = scratch.register("b32")
            lines.append(f"ld.param.b32 {value}, [{callee}_w{place}];")
            halves.setdefault(slot[0].id, []).append(value)
    for number, values in halves.items():
        register = program.registers[number]
        lines += join(register.name, register.type, values, scratch)
    placed = [g for g in call.given if g.how == "weights"]
    if placed:
        weights = scratch.register("b64")
        lines.append(f"ld.param.b64 {weights}, [{callee}_weights];")
        lines += _weight_loads(program, placed, weights, scratch)
    for given in call.given:
        if given.how == "constant":
            lines += [f"mov.b{r.type.width} {r.name}, {bits:#x};" for r, bits in zip(given.registers, given.bits, strict=True)]
        elif given.how in ("returned", "chained"):
            lines += load_row(list(zip(given.registers, given.places, strict=True)), "shared", row, scratch)
    stores = store_row(call.results, "shared", row, scratch)
    used = dict.fromkeys(r for i in call.instructions for r in (*i.reads, *i.writes))
    out = Rendered(document)
    start = call.first.start
    declared = [*register_lines(program.registers[r] for r in used), *scratch.declarations()]
    out.write(face.declaration(callee) + "\n{\n", start)
    out.write("".join(f"\t{line}\n" for line in [*declared, *lines]), start)
    for instruction in call.instructions:
        statement = instruction.statement
        out.write(f"\t{exchanged.get(statement.index) or document.source(statement)}\n", statement.start)
    out.write("".join(f"\t{line}\n" for line in [*stores, "ret;"]) + "}", call.last.end - 1)
    return out


def _weight_loads(program: Program, placed: list[Given], weights: str, scratch: Scratch) -> list[str]:
    """The entry's own loads of the weight image again, each once, at addresses that the function computes for itself."""
    wanted: dict[int, list[tuple[Register, Source]]] = {}
    for given in placed:
        for register, source in zip(given.registers, given.sources, strict=True):
            wanted.setdefault(source.instruction, []).append((register, source))
    writer = LinearWriter(scratch)
    lines: list[str] = []
    bases: dict[object, str] = {}
    for index, uses in wanted.items():
        form = program.instructions[index].form
        first = uses[0][1]
        assert form is not None and first.offset is not None
        constant = (first.offset.constant - first.part * first.width) % (1 << 64)
        constant -= (1 << 64) if constant >> 63 else 0
        far = 0 if -(1 << 31) <= constant < 1 << 31 else constant
        key = (far, first.offset.terms)
        if key not in bases:
            bases[key] = weights
            if far or first.offset.terms:
                moved = writer.value(Linear(64, far % (1 << 64), first.offset.terms))
                bases[key] = scratch.register("b64")
                lines += [*writer.take(), f"add.s64 {bases[key]}, {weights}, {moved};"]
        count = next((int(word[1:]) for word in form.opcode.split(".") if word in ("v2", "v4", "v8")), 1)
        parts = [scratch.register(f"b{8 * first.width}") for _ in range(count)]
        near = constant - far
        lines.append(f"{form.opcode} {listed(parts)}, [{bases[key]}{f'+{near}' if near else ''}];")
        lines += [f"mov.b{r.type.width} {r.name}, {parts[s.part]};" for r, s in uses]
    return lines
