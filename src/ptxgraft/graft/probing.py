"""Making a probe: debug stores of chosen registers at the statements of one stage or of several.

Invariant: a probe changes nothing but its buffer, and nothing past the buffer's slots; two threads of one launch never share a row, however
the kernel is launched.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.carry import PROBE, check_carried, words
from ptxgraft.graft.cut import Cut
from ptxgraft.graft.excerpt import RegionChoice
from ptxgraft.graft.probe_sites import Found, Site, Stage, find_sites, probed_program
from ptxgraft.graft.probe_text import Part, ProbeBuffer, write_probe
from ptxgraft.graft.probes import Probe
from ptxgraft.isa import Register, align_up
from ptxgraft.text import Document

MOST_ITERATIONS = 1 << 20
MOST_WORDS = 1 << 24
"""Words of a lane's row: a slot stays below 2^31 bytes."""


def probe(
    target: Document | Cut,
    entry: str,
    where: Stage,
    registers: list[str] | None = None,
    region: RegionChoice = None,
    argument: tuple[int, int] | None = None,
    floor: int = 1024,
    slots: int | None = None,
    iterations: int = 0,
) -> Probe:
    """Put a probe into an entry.

    ``where``: ``a`` (the region's live-ins before its first statement), ``p<N>`` (the D registers of phase N after its last tensor-core statement),
    ``out`` (the region's live-outs after its last statement), ``ret`` (at every return; ``registers`` needed), or a line (the registers written there, for the
    lanes that executed it; or named ones for every lane that passes; before a branch or return, else after the statement).
    ``target``: a document, or a ``Cut``: then its new module is probed at the same stage, and names and lines are the original's.
    ``registers`` replaces the stage's own choice. ``argument`` None adds two trailing parameters (pointer, number of slots); (offset, byte offset)
    stores through an existing pointer argument, and ``slots`` says how many slots fit there.
    ``iterations``: how many passages of a lane are kept, each on its own (a stage in a loop, or in a function that is called several times); further
    ones are counted, not stored. 0: the last passage stays.

    UsageError for a stage, line or register that is not there; UnsupportedError for a stage that a graft does not have.
    """
    return probe_many(target, entry, [where], registers, region, argument, floor, slots, iterations=iterations)[0]


def probe_many(
    target: Document | Cut,
    entry: str,
    stages: Sequence[Stage],
    registers: list[str] | None = None,
    region: RegionChoice = None,
    argument: tuple[int, int] | None = None,
    floor: int = 1024,
    slots: int | None = None,
    missing: dict[Stage, str] | None = None,
    iterations: int = 0,
) -> list[Probe]:
    """One probed module for several stages: a ``Probe`` for each, all with the same text and buffer. Arguments and errors as for ``probe``.

    With ``missing``, a stage that cannot be probed is left out and the reason put there; UsageError when that leaves none.
    """
    if floor < 1:
        raise UsageError(f"floor {floor} is no size", hint="give a number of bytes")
    if not 0 <= iterations <= MOST_ITERATIONS:
        raise UsageError(f"{iterations} is no number of passages", hint=f"give 1 to {MOST_ITERATIONS:,}, or 0 for the last passage alone")
    program = probed_program(target, entry)
    flow = Flow(program)
    found: dict[Stage, Found] = {}
    for stage in stages:
        try:
            found[stage] = find_sites(flow, target, stage, registers, region)
        except (UnsupportedError, UsageError) as error:
            if missing is None:
                raise
            # The hint is for one who named the stage.
            missing[stage] = error.message if error.place is None else f"{error.place}: {error.message}"
    if not found:
        raise UsageError(f"{entry!r} has no stage to probe", hint="; ".join(f"{k}: {v}" for k, v in (missing or {}).items()))
    parts: list[Part] = []
    first_word = 0
    for sites, stored, _ in found.values():
        check_carried([Register(0, s.name, s.type, 0) for s in stored], PROBE)
        padded = align_up(sum(words(s.type) for s in stored), 4)
        parts.append(Part(sites, stored, first_word, padded, iterations))
        first_word += parts[-1].size
    if first_word > MOST_WORDS:
        raise UsageError(
            f"a lane's row would have {first_word:,} words, {MOST_WORDS:,} at most", hint="probe fewer stages, or keep fewer passages"
        )
    slot_bytes = 1 << (max(floor, 32 * first_word * 4) - 1).bit_length()
    argument_offset = align_up(program.param_bytes, 8)
    buffer = ProbeBuffer(argument, slots or 0, slot_bytes, first_word)
    if argument is not None:
        check_argument(program.params, argument, slots)
    text = write_probe(program, parts, buffer)
    document = program.document
    parsed = Document.parse(text, f"{document.name} (probed)")
    return [
        Probe(
            parsed,
            document,
            entry,
            stage,
            [document.line(s.statement.start) for s in part.sites],
            [(s.shown, s.type.name) for s in part.stored],
            first_word,
            slot_bytes,
            argument,
            argument_offset,
            buffer.slots,
            list(part.stored),
            [*notes, *(_repeated(flow, part.sites) if not iterations else [])],
            part.first_word,
            iterations,
        )
        for part, (stage, (_, _, notes)) in zip(parts, found.items(), strict=True)
    ]


def _repeated(flow: Flow, sites: Sequence[Site]) -> list[str]:
    """A note for sites that a lane may pass several times."""
    wanted = {s.statement.index for s in sites}
    lines = {flow.program.line(i.index) for i in flow.program.instructions if i.statement.index in wanted and _in_loop(flow, i.index)}
    shown = ", ".join(map(str, sorted(lines)))
    return [f"line {shown} stands in a loop: the last passage is what is stored; iterations keeps each"] if lines else []


def _in_loop(flow: Flow, index: int) -> bool:
    """Whether control can come back to an instruction."""
    start = flow.cfg.block_of(index).index
    waiting, seen = [*flow.cfg.blocks[start].successors], set[int]()
    while waiting:
        block = waiting.pop()
        if block == start:
            return True
        if block not in seen:
            seen.add(block)
            waiting += flow.cfg.blocks[block].successors
    return False


def check_argument(params: list, argument: tuple[int, int], slots: int | None) -> None:
    """UsageError when an argument offset is no pointer's, the byte offset no multiple of 16, or the number of slots is missing."""
    offset, start = argument
    holder = next((p for p in params if p.offset <= offset and offset + 8 <= p.offset + p.size), None)
    if holder is None or offset % 8:
        places = ", ".join(f"{p.offset} ({p.name})" for p in params if p.size >= 8)
        raise UsageError(
            f"argument offset {offset} holds no pointer", hint=f"8-byte arguments are at {places}" if places else "the entry has none"
        )
    if start < 0 or start % 16:
        raise UsageError(f"byte offset {start} is no multiple of 16", hint="16-byte stores must stay aligned")
    if not slots or not 0 < slots < 1 << 32:
        raise UsageError("an existing argument needs the number of slots that fit behind it", hint="give slots")
