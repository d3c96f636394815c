"""The first stage at which two programs differ.

Invariant: stages are compared in program order over all blocks, warps and lanes, as bits; the first that differs is the answer, and only
stages that stand for the same place of both programs are compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft import Cut, compare_stored, paired, probe
from ptxgraft.isa import Program, bind
from ptxgraft.spec import phase_runs
from ptxgraft.text import Document
from ptxgraft.verify.align import changed, stands_in_entry
from ptxgraft.verify.compare import compare
from ptxgraft.verify.model import Bisection, Verdict
from ptxgraft.verify.oracle import Oracle, Readings, consult, make_oracle
from ptxgraft.verify.poison import poisoned
from ptxgraft.verify.replay import document_of

BORDERS = ("a", "out")
BUFFER_BYTES = 1 << 28
"""Stages are probed in as many runs as it takes to keep a run's probe buffer below this."""

Lines = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Pair:
    """A stage of the original and the graft's stage for the same place. ``order`` sorts stages by where they stand in the original; ``regions`` are the
    lines (original's, graft's) whose borders ``a`` and ``out`` are, None for the mma regions."""

    stage: str
    theirs: str
    order: float
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
) -> Bisection:
    """Probe both modules at ``stages`` (None: all that the original has), run both on the launch, and find the first difference.

    ``original`` None: the module in the capture. Registers of a phase are paired by their place in it, since a graft may name them otherwise, those of
    ``a`` and ``out`` by name. Raises ``UsageError`` for a stage that is none or when no stage is common.
    """
    name = entry or recorded.kernel
    first = original if original is not None else document_of(recorded)
    second = graft.document if isinstance(graft, Cut) else graft
    mine, theirs = bind(first, name), bind(second, name)
    skipped: dict[str, str] = {}
    pairs = _chosen(_pairs(mine, theirs, skipped), stages, skipped)
    launch, _ = poisoned(recorded, mine)
    found = Bisection(None, skipped=skipped)
    for batch in _batches(pairs, Sides(name, mine, theirs), launch, skipped):
        mine_read, theirs_read = (consult(oracle, launch, engine=engine, profile=profile, check=False) for oracle in batch.oracles)
        if found.outputs is None:
            found.outputs = _outputs(mine_read, theirs_read)
        for pair in batch.pairs:
            difference = _difference(mine_read, theirs_read, pair, recorded)
            if isinstance(difference, str):
                skipped[pair.stage] = difference
                continue
            found.checked.append(pair.stage)
            if difference is not None:
                region = pair.regions[0] if pair.regions else None
                difference.line = probe(first, name, pair.stage, region=region).lines[0]
                difference.checked, difference.skipped, difference.outputs = found.checked, skipped, found.outputs
                return difference
    if not found.checked:
        raise UsageError("nothing to compare: the two modules have no stage in common", hint=_reasons(skipped))
    return found


def _outputs(mine: Readings, theirs: Readings) -> Verdict | None:
    """What both runs left, compared; None for a launch whose only outputs are the probes."""
    return compare(mine.outputs, theirs.outputs) if any(o.data.size for o in mine.outputs) else None


# -- which stages -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sides:
    """The entry and its two versions, bound."""

    entry: str
    mine: Program
    theirs: Program


def _pairs(mine: Program, theirs: Program, skipped: dict[str, str]) -> list[Pair]:
    """Every stage of the original in program order, with its fellow in the graft; why a stage has none goes to ``skipped``.

    With as many phases on both sides, phases go by number and the borders are those of the mma regions, where the entry itself holds them. Else the
    stretch that differs decides: phases before and behind it are the same, and its borders are ``a`` and ``out``.
    """
    runs, others = phase_runs(Flow(mine)), phase_runs(Flow(theirs))
    if not runs:
        raise UsageError(f"{mine.name!r} has no tensor-core instruction, so it has no stages", hint="probe it at lines")
    stretch, _ = changed(mine, theirs)
    if len(runs) == len(others):
        phases = [Pair(f"p{n}", f"p{n}", run[-1]) for n, run in enumerate(runs)]
        borders = {"a": Pair("a", "a", runs[0][0] - 0.5), "out": Pair("out", "out", runs[-1][-1] + 0.5)}
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
            pairs.append(Pair(f"p{n}", f"p{n if n < before else n - len(runs) + len(others)}", run[-1]))
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
    return [Pair(b, b, order, (lines, other)) for b, order in zip(BORDERS, (stretch.first - 0.5, stretch.last + 0.5), strict=True)]


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


def _batches(pairs: list[Pair], sides: Sides, launch: capture.Launch, skipped: dict[str, str]) -> Iterator[Batch]:
    """Neighbouring pairs with the same regions, probed together as far as ``BUFFER_BYTES`` allows; stages that one side cannot probe go to ``skipped``."""
    waiting = _neighbours(pairs)
    while waiting:
        batch = _probed(waiting.pop(0), sides, skipped)
        if batch is None:
            continue
        size = max(oracle.buffer_bytes(launch) for oracle in batch.oracles)
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


# -- comparing ----------------------------------------------------------------------------------------------------------------


def _difference(mine: Readings, theirs: Readings, pair: Pair, recorded: capture.Launch) -> Bisection | str | None:
    """The first difference of a stage, None when there is none, or why its registers cannot be paired."""
    came, came_too = mine.stored[pair.stage], theirs.stored[pair.theirs]
    expected, found = mine.stages.get(pair.stage), theirs.stages.get(pair.theirs)
    if expected is None and found is None:
        return "no lane of either run came there"
    # Where only one of the runs came, any register shows it.
    couples = paired(pair.stage, expected or found or {}, found or expected or {})
    if isinstance(couples, str):
        return couples
    compared = compare_stored(pair.stage, couples, came, came_too)
    if compared.first is None:
        return None
    first = compared.first
    difference = Bisection(pair.stage, None, first.register, _coordinates(first.block, recorded.grid), first.warp, first.lane)
    difference.expected, difference.found, difference.values_differing = first.expected, first.found, compared.differing
    return difference


def _coordinates(block: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """A block's coordinates from its linear number, x fastest."""
    x, y, _ = grid
    return block % x, block // x % y, block // (x * y)
