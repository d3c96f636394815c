"""The first stage at which two programs differ, and in it the first statement; or one program on two executors.

Invariant: stages are compared in program order over all blocks, warps and lanes, as bits; the first that differs is the answer, and only
stages that stand for the same place of both programs are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft import Cut, StageDifference, probe
from ptxgraft.isa import Program, bind
from ptxgraft.spec import phase_runs
from ptxgraft.text import Document
from ptxgraft.verify.align import changed, stands_in_entry
from ptxgraft.verify.compare import compare
from ptxgraft.verify.model import Bisection, Verdict
from ptxgraft.verify.oracle import Oracle, Readings, make_oracle
from ptxgraft.verify.poison import poisoned
from ptxgraft.verify.replay import document_of, ran_where
from ptxgraft.verify.sides import Place, Sides
from ptxgraft.verify.statements import StatementSearch, block_of, first_statement

BORDERS = ("a", "out")
BUFFER_BYTES = 1 << 28
"""Stages are probed in as many runs as it takes to keep a run's probe buffer below this."""

Lines = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """A stage of the original and the graft's stage for the same place. ``order`` sorts stages by where they stand in the original, ``place`` is where
    the graft's stands; ``regions`` are the lines (original's, graft's) whose borders ``a`` and ``out`` are, None for the mma regions."""

    stage: str
    theirs: str
    order: float
    place: float
    regions: tuple[Lines, Lines] | None = None


def bisect(
    recorded: capture.Launch,
    graft: Document | Cut,
    original: Document | None = None,
    *,
    entry: str | None = None,
    stages: Sequence[str] | None = None,
    engine: str = "warp",
    profile: str = "sm_90",
    on: str = "cpu",
    against: str | None = None,
    timeout: float | None = None,
    assembler: str = "driver",
    statements: bool = True,
) -> Bisection:
    """Probe both modules at ``stages`` (None: all that the original has), run both on the launch, and find the first difference; then (``statements``) probe the
    statements between the last stage that is the same and that one, and find the first whose result differs.

    ``original`` None: the module in the capture. Registers of a phase are paired by their place in it, since a graft may name them otherwise, those of
    ``a`` and ``out`` by name. The graft runs on the executor ``on``, the original on ``against`` (None: the same); the other options as for ``replay``.
    On two executors, addresses of shared and local memory and what a machine says of itself are left out: each has its own.
    Raises ``UsageError`` for a stage that is none or when nothing is common.
    """
    name = entry or recorded.kernel
    first = original if original is not None else document_of(recorded)
    second = graft.document if isinstance(graft, Cut) else graft
    mine, theirs = bind(first, name), bind(second, name)
    skipped: dict[str, str] = {}
    pairs = _chosen(_pairs(mine, theirs, skipped, statements and stages is None), stages, skipped)
    launch, _ = poisoned(recorded, mine)
    places = tuple(Place(where, engine, profile, timeout, assembler) for where in (against or on, on))
    sides = Sides(name, mine, theirs, launch, (places[0], places[1]))
    found = Bisection(None, skipped=skipped)
    last, here = None, None
    for pair, difference in _stages(pairs, sides, found):
        found.checked.append(pair.stage)
        if difference.first is not None:
            here = pair
            region = pair.regions[0] if pair.regions else None
            _name(found, pair, difference, recorded, probe(first, name, pair.stage, region=region).lines[0])
            break
        last = pair
    if not found.checked and pairs:
        raise UsageError("nothing to compare: the two modules have no stage in common", hint=_reasons(skipped))
    if not pairs:
        found.outputs = sides.outputs()
    if statements and (here is not None or not pairs or found.exit_code):
        search = first_statement(sides, *_stretches(last, here))
        if last is not None and (search.first is None or search.first.statement == search.first.graft_statement):
            search = _earlier(sides, last, search)
        found.statement, found.statements_compared = search.first, search.compared
        if not pairs and not search.compared:
            raise UsageError(f"{name!r} has no tensor-core instruction, so it has no stages, and nothing else to compare in both modules")
    return found


def _stages(pairs: list[Pair], sides: Sides, found: Bisection) -> Iterator[tuple[Pair, StageDifference]]:
    """Every stage that can be compared, in order; the others go to ``found.skipped``. What the first runs left, and where, goes to ``found`` too."""
    for batch in _batches(pairs, sides, found.skipped):
        readings = sides.consult(batch.oracles)
        if found.outputs is None:
            found.outputs = _outputs(*readings)
        if sides.apart and not found.notes:
            for who, side in zip(("original", "graft"), readings, strict=True):
                found.notes += ran_where(who, side.replay)
        for pair in batch.pairs:
            difference = sides.difference((pair.stage, pair.theirs), readings)
            if isinstance(difference, str):
                found.skipped[pair.stage] = difference
            else:
                yield pair, difference


def _name(found: Bisection, pair: Pair, difference: StageDifference, recorded: capture.Launch, line: int) -> None:
    """Put a stage's first difference into the result."""
    value = difference.first
    assert value is not None, "a stage that differs has a first difference"
    found.stage, found.line, found.register = pair.stage, line, value.register
    found.block, found.warp, found.lane = block_of(value.block, recorded.grid), value.warp, value.lane
    found.expected, found.found, found.values_differing = value.expected, value.found, difference.differing


def _stretches(last: Pair | None, here: Pair | None) -> tuple[tuple[float, float], tuple[float, float]]:
    """The stretches (original's, graft's) behind one stage and up to another; None: the entry's start or end."""
    start = (-1.0, -1.0) if last is None else (last.order, last.place)
    end = (inf, inf) if here is None else (here.order, here.place)
    return (start[0], end[0]), (start[1], end[1])


def _earlier(sides: Sides, last: Pair, search: StatementSearch) -> StatementSearch:
    """A search that came to no statement, or to one that both write alike, whose operands differ then: the cause stands before the last stage that is the
    same, where the texts part, and what it made is none of a stage's registers. Such a statement, if there is one."""
    mine, theirs = changed(sides.mine, sides.theirs)
    if mine.last < mine.first or mine.first > last.order:
        return search
    before = first_statement(sides, (mine.first - 1, last.order), (theirs.first - 1, last.place))
    return StatementSearch(search.compared + before.compared, before.first or search.first)


def _outputs(mine: Readings, theirs: Readings) -> Verdict | None:
    """What both runs left, compared; None for a launch whose only outputs are the probes."""
    return compare(mine.outputs, theirs.outputs) if any(o.data.size for o in mine.outputs) else None


def common_stages(recorded: capture.Launch, graft: Document, original: Document | None = None) -> tuple[list[str], dict[str, str]]:
    """The stages that ``bisect`` would compare, in program order, and why it leaves others out. An entry without tensor-core instructions has none."""
    first = original if original is not None else document_of(recorded)
    skipped: dict[str, str] = {}
    pairs = _pairs(bind(first, recorded.kernel), bind(graft, recorded.kernel), skipped, True)
    return [p.stage for p in pairs], skipped


# -- which stages -------------------------------------------------------------------------------------------------------------


def _pairs(mine: Program, theirs: Program, skipped: dict[str, str], without: bool) -> list[Pair]:
    """Every stage of the original in program order, with its fellow in the graft; why a stage has none goes to ``skipped``.

    With as many phases on both sides, phases go by number and the borders are those of the mma regions, where the entry itself holds them. Else the
    stretch that differs decides: phases before and behind it are the same, and its borders are ``a`` and ``out``. ``without``: an entry may have none.
    """
    runs, others = phase_runs(Flow(mine)), phase_runs(Flow(theirs))
    if not runs and without:
        return []
    if not runs:
        raise UsageError(f"{mine.name!r} has no tensor-core instruction, so it has no stages", hint="probe it at lines")
    stretch, _ = changed(mine, theirs)
    if len(runs) == len(others):
        phases = [Pair(f"p{n}", f"p{n}", run[-1], other[-1]) for n, (run, other) in enumerate(zip(runs, others, strict=True))]
        borders = {
            "a": Pair("a", "a", runs[0][0] - 0.5, others[0][0] - 0.5),
            "out": Pair("out", "out", runs[-1][-1] + 0.5, others[-1][-1] + 0.5),
        }
        if not all(stands_in_entry(theirs, i) for i in (others[0][0], others[-1][-1])):
            borders = {p.stage: p for p in _borders(mine, theirs, skipped)}
        elif stretch.first <= runs[-1][-1] < stretch.last:  # what was replaced goes on behind the mma region
            borders |= {p.stage: p for p in _borders(mine, theirs, {}) if p.stage == "out"}
        return sorted([*phases, *borders.values()], key=lambda p: p.order)
    before = sum(run[-1] < stretch.first for run in runs)
    behind = sum(run[0] > stretch.last for run in runs)
    pairs = _borders(mine, theirs, skipped)
    for n, run in enumerate(runs):
        if n < before or n >= len(runs) - behind:
            fellow = n if n < before else n - len(runs) + len(others)
            pairs.append(Pair(f"p{n}", f"p{fellow}", run[-1], others[fellow][-1]))
        else:
            skipped[f"p{n}"] = f"the graft has {len(others)} phases, the original {len(runs)}; this one was replaced"
    return sorted(pairs, key=lambda p: p.order)


def _borders(mine: Program, theirs: Program, skipped: dict[str, str]) -> list[Pair]:
    """``a`` and ``out`` as the borders of the stretch that differs."""
    stretch, replacement = changed(mine, theirs)
    lines, other = stretch.lines(mine), replacement.lines(theirs)
    if lines is None or other is None:
        skipped.update(dict.fromkeys(BORDERS, "what was replaced stands in a function that the entry calls"))
        return []
    places = ((stretch.first - 0.5, replacement.first - 0.5), (stretch.last + 0.5, replacement.last + 0.5))
    return [Pair(b, b, *place, (lines, other)) for b, place in zip(BORDERS, places, strict=True)]


def _chosen(pairs: list[Pair], stages: Sequence[str] | None, skipped: dict[str, str]) -> list[Pair]:
    """The pairs of the stages that were asked for."""
    if stages is None:
        return pairs
    known = [p.stage for p in pairs] + list(skipped)
    for stage in stages:
        if stage not in known:
            raise UsageError(f"the original has no stage {stage!r}", hint=f"its stages are {_shortened(known)}")
    for stage in [s for s in skipped if s not in stages]:
        del skipped[stage]
    return [p for p in pairs if p.stage in stages]


def _shortened(names: list[str]) -> str:
    return ", ".join(names if len(names) <= 6 else [*names[:3], "...", *names[-2:]])


def _reasons(skipped: dict[str, str]) -> str:
    grouped: dict[str, list[str]] = {}
    for stage, why in skipped.items():
        grouped.setdefault(why, []).append(stage)
    return "; ".join(f"{_shortened(stages)}: {why}" for why, stages in grouped.items())


# -- probing both sides -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Batch:
    """Stages that are read in one run of each side; ``oracles`` are (original's, graft's)."""

    pairs: list[Pair]
    oracles: tuple[Oracle, Oracle]


def _batches(pairs: list[Pair], sides: Sides, skipped: dict[str, str]) -> Iterator[Batch]:
    """Neighbouring pairs with the same regions, probed together as far as ``BUFFER_BYTES`` allows; stages that one side cannot probe go to ``skipped``."""
    waiting = _neighbours(pairs)
    while waiting:
        batch = _probed(waiting.pop(0), sides, skipped)
        if batch is None:
            continue
        size = max(oracle.buffer_bytes(sides.launch) for oracle in batch.oracles)
        if size > BUFFER_BYTES and len(batch.pairs) > 1:
            step = max(1, len(batch.pairs) * BUFFER_BYTES // size)
            waiting = [batch.pairs[i : i + step] for i in range(0, len(batch.pairs), step)] + waiting
        else:
            yield batch


def _neighbours(pairs: list[Pair]) -> list[list[Pair]]:
    groups: list[list[Pair]] = []
    for pair in pairs:
        if groups and groups[-1][-1].regions == pair.regions:
            groups[-1].append(pair)
        else:
            groups.append([pair])
    return groups


def _probed(pairs: list[Pair], sides: Sides, skipped: dict[str, str]) -> Batch | None:
    mine_lines, their_lines = pairs[0].regions or (None, None)
    try:
        mine = make_oracle(sides.mine.document, sides.entry, [p.stage for p in pairs], mine_lines)
        theirs = make_oracle(sides.theirs.document, sides.entry, [p.theirs for p in pairs], their_lines)
    except UsageError as error:  # no stage of one side can be probed
        skipped.update(dict.fromkeys((p.stage for p in pairs), f"{error.message}; {error.hint}" if error.hint else error.message))
        return None
    skipped |= mine.missing | {p.stage: f"in the graft, {theirs.missing[p.theirs]}" for p in pairs if p.theirs in theirs.missing}
    kept = [p for p in pairs if p.stage not in skipped]
    return Batch(kept, (mine, theirs)) if kept else None
