"""What each call of a ``phases`` cut passes and keeps: the plan, from data flow, before any text is written.

Invariant: every register that a phase's tensor-core statements read gets to the callee in exactly one way, and every register that is read after a
call has then the value it had. Order of the bank: A words, B words, C words, each in first-use order, then zeros.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field, replace
from itertools import count

from ptxgraft.errors import UnsupportedError
from ptxgraft.flow import Flow, Linear
from ptxgraft.flow.liveness import build_liveness
from ptxgraft.graft.carry import check_carried, total_words, words
from ptxgraft.graft.excerpt import declares, is_spelled
from ptxgraft.graft.linear_text import is_spellable
from ptxgraft.graft.region_choice import RegionChoice, choose_region
from ptxgraft.isa import Instruction, Program, Reg, Register, Vector, align_up
from ptxgraft.spec import LayerSpec, Phase, Region, make_region, phase_steps
from ptxgraft.spec.provenance import Source, Tracer
from ptxgraft.text import Kind, Statement

_WAY_OUT = "use the call or the mirror style for lines that hold the phase, or leave this phase out with --region"


@dataclass(slots=True, eq=False)
class Given:
    """How a callee gets one fragment. ``how``: ``bank`` (words from ``first`` on), ``weights`` (``sources``, one a register), ``constant``
    (``bits``), ``returned`` (``places``: the words of the row where an earlier phase left them), ``chained`` (the same, but put there before the
    call), or ``inside`` (the phase's own D, which instruction ``maker`` writes)."""

    letter: str
    number: int
    registers: list[Register]
    how: str
    first: int = -1
    sources: list[Source] = field(default_factory=list)
    bits: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    maker: int = -1


@dataclass(slots=True, eq=False)
class PhaseCall:
    """One phase's call. ``bank``: the passed registers and the word of each (None: a zero). ``results``: D registers read after the phase, with
    their first word in the row; ``loaded`` those of them that the entry itself reads. ``chained`` and ``across``: registers put into the row before
    the call, with their first word there or, of ``across``, in the spill area."""

    phase: Phase
    first: Statement
    last: Statement
    kept: list[Statement]
    instructions: list[Instruction]
    given: list[Given]
    bank: list[tuple[Register, int] | None]
    results: list[tuple[Register, int]]
    loaded: list[Register] = field(default_factory=list)
    chained: list[tuple[Register, int]] = field(default_factory=list)
    across: list[tuple[Register, int]] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PhasePlan:
    """All calls of a cut. Sizes in words a lane, each of the widest phase: ``bank_words``; ``result_words`` and ``spill_words`` are the
    parts of a row, in this order."""

    region: Region
    calls: list[PhaseCall]
    bank_words: int
    result_words: int
    spill_words: int
    notes: list[str]

    @property
    def spill_start(self) -> int:
        """The word of a row where the spilled words begin."""
        return align_up(self.result_words, 4)


def plan_phases(flow: Flow, spec: LayerSpec, choice: RegionChoice) -> PhasePlan:
    """The plan of the phases that lie in a region. UnsupportedError names the statement that no call can stand for."""
    region = choose_region(flow, choice)
    phases = _chosen(flow, spec, region)
    region = make_region(flow.program, phases[0].first, phases[-1].last)
    tracer = Tracer(flow, spec.block)
    tracer.weight_param = spec.weight_param
    for phase in spec.phases:
        for position, index in enumerate(range(phase.first, phase.last + 1)):
            tracer.mma_of[index] = (phase.index, position)
    _check_targets(flow, phases)
    calls = [_call(flow, phase) for phase in phases]
    by_number = {c.phase.index: c for c in calls}
    stored = _Stored(flow)
    after = flow.liveness.before([c.phase.last + 1 for c in calls])
    for call in calls:
        _give(flow, tracer, call, by_number, stored)
        call.results = _placed(_written(flow.program, call, after[call.phase.last + 1]))
    previous = _LastCalls(flow, calls)
    for call in calls:
        _find_chains(call, by_number, flow, tracer, previous)
    notes = _find_across(flow, calls)
    bank = max(len(c.bank) for c in calls)
    for call in calls:
        call.bank += [None] * (bank - len(call.bank))
    tops = [w + words(r.type) for c in calls for r, w in (*c.results, *c.chained)]
    across = max(total_words(r for r, _ in c.across) for c in calls)
    return PhasePlan(region, calls, bank, max(tops, default=0), across, notes)


def _chosen(flow: Flow, spec: LayerSpec, region: Region) -> list[Phase]:
    program = flow.program
    for phase in spec.phases:
        first, last = region.first <= phase.first <= region.last, region.first <= phase.last <= region.last
        inside = phase.first <= region.first and region.last <= phase.last and not (first and last)
        if first != last or inside:
            raise UnsupportedError(
                f"lines {region.first_line} to {region.last_line} cut phase {phase.index} in two: it is lines {phase.first_line} to {phase.last_line}",
                place=program.place(phase.first),
                hint="choose lines that hold the whole phase, or name it",
            )
    chosen = [p for p in spec.phases if region.first <= p.first and p.last <= region.last]
    if not chosen:
        raise UnsupportedError(
            f"lines {region.first_line} to {region.last_line} of {program.name!r} hold no tensor-core instruction: there is no phase to call for",
            place=program.place(region.first),
            hint="use another style for these lines, or choose others",
        )
    return chosen


def _check_targets(flow: Flow, phases: list[Phase]) -> None:
    """No branch may come into the middle of a phase."""
    starts = [p.first for p in phases]
    for instruction in flow.program.instructions:
        for target in instruction.targets:
            at = bisect_right(starts, target) - 1
            if at >= 0 and phases[at].first < target <= phases[at].last:
                program = flow.program
                raise UnsupportedError(
                    f"line {program.line(instruction.index)}: `{program.source(instruction.index)}` branches into phase {phases[at].index} "
                    f"(line {program.line(target)})",
                    place=program.place(instruction.index),
                    hint=_WAY_OUT,
                )


def _call(flow: Flow, phase: Phase) -> PhaseCall:
    """The call's statements, checked to be a plain run of unguarded tensor-core statements of the entry itself."""
    program = flow.program
    document, body = program.document, program.entry
    instructions = program.instructions[phase.first : phase.last + 1]
    for instruction in instructions:
        statement, form = instruction.statement, instruction.form
        assert form is not None
        if not body.start <= statement.start < body.end:
            raise _refusal(program, instruction, f"stands in a function that {program.name!r} calls")
        if instruction.guard is not None:
            raise _refusal(program, instruction, "is guarded, and a call for the phase passes no predicate")
        strange = next((r for r in form.roles if r.name not in ("d", "a", "b", "c") and r.kind == "in"), None)
        if strange is not None:
            raise _refusal(program, instruction, f"has an operand {strange.name!r}, for which the parameter bank has no place")
    first, last = instructions[0].statement, instructions[-1].statement
    members = {i.statement.index for i in instructions}
    between = [s for s in document.statements[first.index : last.index + 1] if s.index not in members]
    brace = next((s for s in between if s.kind in (Kind.OPEN, Kind.CLOSE)), None)
    if brace is not None:
        raise UnsupportedError(
            f"line {document.line(brace.start)}: a block's brace stands inside phase {phase.index}",
            place=document.place(brace),
            hint=_WAY_OUT,
        )
    return PhaseCall(phase, first, last, between, instructions, [], [], [])


def _refusal(program: Program, instruction: Instruction, what: str) -> UnsupportedError:
    return UnsupportedError(
        f"line {program.line(instruction.index)}: `{program.source(instruction.index)}` {what}",
        place=program.place(instruction.index),
        hint=_WAY_OUT,
    )


def _registers(program: Program, operand: object) -> list[Register]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return [program.registers[i.id] for i in items if isinstance(i, Reg)]


# -- fragments --------------------------------------------------------------------------------------------------------


def _give(flow: Flow, tracer: Tracer, call: PhaseCall, calls: dict[int, PhaseCall], stored: _Stored) -> None:
    """Decide for each distinct fragment how the callee gets it, and fill the bank."""
    phase, program = call.phase, flow.program
    steps = phase_steps(flow, phase)
    for letter in "abc":
        number = 0
        for step, instruction in zip(steps, call.instructions, strict=True):
            if step[letter] != number:
                continue
            form = instruction.form
            assert form is not None
            operand = next(o for r, o in zip(form.roles, instruction.operands, strict=True) if r.name == letter)
            given = Given(letter, number, _registers(program, operand), "bank")
            _decide(flow, tracer, call, given, instruction.index, calls, stored)
            if given.how == "bank":
                given.first = len(call.bank)
                for register in given.registers:
                    check_carried([register], "phases", program, instruction.index, instruction.index)
                    inside = _is_inside(flow, phase, register, instruction.index)
                    call.bank += [None if inside else (register, w) for w in range(words(register.type))]
            call.given.append(given)
            number += 1


def _is_inside(flow: Flow, phase: Phase, register: Register, point: int) -> bool:
    write = flow.defuse.single(register.id, point)
    return write is not None and phase.first <= write <= phase.last


def _decide(flow: Flow, tracer: Tracer, call: PhaseCall, given: Given, point: int, calls: dict[int, PhaseCall], stored: _Stored) -> None:
    phase = call.phase
    if all(_is_inside(flow, phase, r, point) for r in given.registers):
        given.how = "inside"
        given.maker = max(flow.defuse.reaching(given.registers[0].id, point))
        return
    if given.letter == "a":
        return
    sources = [tracer.source(r.id, point) for r in given.registers]
    kinds = {s.kind for s in sources}
    if kinds == {"memory"} and all(_is_placed(flow, tracer, s, r, phase, stored) for s, r in zip(sources, given.registers, strict=True)):
        given.how, given.sources = "weights", sources
    elif given.letter == "c" and kinds == {"constant"}:
        values = [flow.symbols.register(r.id, point) for r in given.registers]
        if all(v.is_constant for v in values):
            given.how, given.bits = "constant", [v.constant for v in values]
    elif given.letter == "c" and kinds == {"chain"}:
        numbers = {tracer.mma_of.get(s.instruction, (-1, 0))[0] for s in sources}
        if len(numbers) == 1 and next(iter(numbers)) in calls and next(iter(numbers)) != phase.index:
            given.how, given.sources = "chained", sources


def _is_placed(flow: Flow, tracer: Tracer, source: Source, register: Register, phase: Phase, stored: _Stored) -> bool:
    """Can the callee read the word from the weight image itself, for any launch, and find what the entry's own load found?"""
    form = flow.program.instructions[source.instruction].form
    assert form is not None
    plain = form.loads in ("global", "generic") and not set(form.opcode.split(".")) & {"volatile", "acquire", "relaxed", "mmio"}
    constant = plain and ("nc" in form.opcode.split(".") or not stored.before(phase.first))
    fits = 8 * source.width == register.type.width and register.type.width in (32, 64)
    known: Linear | None = source.offset
    return constant and fits and source.param == tracer.weight_param and known is not None and is_spellable(known)


class _Stored:
    """Which points a store to global memory can come before."""

    def __init__(self, flow: Flow) -> None:
        self._flow = flow
        self._stores: list[int] = []
        for instruction in flow.program.instructions:
            form = instruction.form
            if form is None or form.stores in ("global", "generic") or form.control == "call" or instruction.callee:
                self._stores.append(instruction.index)
        self._blocks: set[int] | None = None

    def before(self, point: int) -> bool:
        """Can a store have run when instruction ``point`` does?"""
        if not self._stores:
            return False
        if self._blocks is None:
            cfg = self._flow.cfg
            waiting = [s for i in self._stores for s in cfg.block_of(i).successors]
            self._blocks = set()
            while waiting:
                number = waiting.pop()
                if number not in self._blocks:
                    self._blocks.add(number)
                    waiting.extend(cfg.blocks[number].successors)
        block = self._flow.cfg.block_of(point)
        at = bisect_left(self._stores, block.start)
        return block.index in self._blocks or (at < len(self._stores) and self._stores[at] < point)


# -- results, chains ---------------------------------------------------------------------------------------------------


def _written(program: Program, call: PhaseCall, live: frozenset[int]) -> list[Register]:
    """The D registers of a phase that are read after it, in the order of their first writes."""
    order = dict.fromkeys(r for i in call.instructions for r in i.writes if r in live)
    return [program.registers[r] for r in order]


def _placed(registers: list[Register]) -> list[tuple[Register, int]]:
    """Registers with their first words, one after the other."""
    placed: list[tuple[Register, int]] = []
    at = 0
    for register in registers:
        placed.append((register, at))
        at += words(register.type)
    return placed


class _LastCalls:
    """Which phase's call came last before a point."""

    def __init__(self, flow: Flow, calls: list[PhaseCall]) -> None:
        self._flow, self._calls = flow, calls
        self._firsts = [c.phase.first for c in calls]

    def before(self, point: int) -> set[int | None]:
        """Numbers of the phases; None where a path from the entry's begin has no call."""
        blocks = self._flow.cfg.blocks
        start = self._flow.cfg.block_of(point)
        found: set[int | None] = set()
        seen: set[int] = set()
        waiting = [(start.index, point)]
        while waiting:
            number, stop = waiting.pop()
            at = bisect_left(self._firsts, stop) - 1
            if at >= 0 and self._firsts[at] >= blocks[number].start:
                found.add(self._calls[at].phase.index)
                continue
            if number == 0:
                found.add(None)
            for p in blocks[number].predecessors:
                if p not in seen:
                    seen.add(p)
                    waiting.append((p, blocks[p].stop))
        return found


def _find_chains(call: PhaseCall, calls: dict[int, PhaseCall], flow: Flow, tracer: Tracer, previous: _LastCalls) -> None:
    """Where the callee finds the C words that are an earlier phase's D: in the row still, when no other call came between, else put there
    again, among the results, which the callee stores last."""
    waiting = [g for g in call.given if g.how == "chained"]
    if not waiting:
        return
    last, taken = previous.before(call.phase.first), set[int]()
    for given in waiting:
        number = tracer.mma_of[given.sources[0].instruction][0]
        if last == {number}:
            places = {register.id: word for register, word in calls[number].results}
            given.how = "returned"
            given.places = [places[flow.program.instructions[s.instruction].writes[s.part]] for s in given.sources]
            taken |= {p + i for p, r in zip(given.places, given.registers, strict=True) for i in range(words(r.type))}
    placed: dict[int, int] = {}
    for given in waiting:
        for register in given.registers if given.how == "chained" else ():
            if register.id not in placed:
                size = words(register.type)
                place = next(w for w in count() if taken.isdisjoint(range(w, w + size)))
                taken |= set(range(place, place + size))
                placed[register.id] = place
                call.chained.append((register, place))
            given.places.append(placed[register.id])


# -- what lives on over a call -------------------------------------------------------------------------------------------


def _find_across(flow: Flow, calls: list[PhaseCall]) -> list[str]:
    """Fill ``loaded`` and ``across`` by the liveness of the entry as it will be: a call reads what it passes and writes its results."""
    program = flow.program
    changed = list(program.instructions)
    for call in calls:
        passed = [slot[0].id for slot in call.bank if slot is not None] + [r.id for r, _ in call.chained]
        written = tuple(r.id for r, _ in call.results)
        for instruction in call.instructions:
            changed[instruction.index] = replace(instruction, reads=(), writes=())
        changed[call.phase.first] = replace(call.instructions[0], reads=tuple(dict.fromkeys(passed)), writes=written)
    live = build_liveness(replace(program, instructions=changed), flow.cfg)
    points = live.before([i for c in calls for i in (c.phase.first, c.phase.last + 1)])
    hidden: set[str] = set()
    for call in calls:
        before, after = points[call.phase.first], points[call.phase.last + 1]
        results = {r.id for r, _ in call.results}
        call.loaded = [r for r, _ in call.results if r.id in after]
        across: list[Register] = []
        for number in sorted((before & after) - results):
            register = program.registers[number]
            if not is_spelled(register):
                if register.scope >= 0 and any(w >= 0 for w in flow.defuse.reaching(number, call.phase.first)):
                    raise UnsupportedError(
                        f"the condition code ({register.name}) is live over phase {call.phase.index}: no call keeps it",
                        place=program.place(call.phase.first),
                        hint=_WAY_OUT,
                    )
            elif _is_seen(program, register, call.first.scope):
                across.append(register)
            else:
                hidden.add(register.name)  # no statement here can name it; a call of a function keeps it all the same
        check_carried(across, "phases", program, 0, call.phase.first - 1)
        call.across = _placed(across)
    if not hidden:
        return []
    return [f"registers that are hidden where the calls stand are not spilled: {', '.join(sorted(hidden)[:8])}"]


def _is_seen(program: Program, register: Register, scope: int) -> bool:
    """Does a statement of this scope mean the register when it writes its name?"""
    document = program.document
    if register.inline:
        return False
    while scope != register.scope:
        if scope <= 0 or declares(document, scope, register.name):
            return False
        scope = document.scopes[scope].parent
    return True
