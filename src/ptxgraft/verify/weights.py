"""The weight map, proved: a byte in a phase's range changes that phase first, a byte outside every range changes none.

Invariant: each sample is a run of the oracle on the launch with one byte of the weight image changed; nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import LayerSpec, layer_spec
from ptxgraft.text import Document
from ptxgraft.verify.oracle import Oracle, Readings, consult, make_oracle

TRIES = 8
"""How many more bytes of a phase are tried where changing one does not show: a weight may be multiplied by zero."""

BEHIND = 4096
"""Bytes behind the last claimed one that still count as the weight image, when nothing else is known to begin there."""


@dataclass(slots=True)
class Sample:
    """One changed byte. ``expected`` and ``found`` are phases (None: no phase); ``holds`` is None where no phase changed although one should:
    the value did not reach any bit of the result, so the sample proves nothing."""

    offset: int
    expected: int | None
    found: int | None
    holds: bool | None


@dataclass(slots=True)
class WeightProof:
    """The samples of a weight map's proof. ``holds``: the map is whole, none contradicts it, and each phase with weights was seen to change at least once.

    ``phases_shared`` read only bytes that earlier phases read too: no byte of theirs changes them first. ``phases_unplaced`` read weights whose place the
    map does not know: with one of them, no byte can be expected to change nothing, and none outside is tried.
    """

    samples: list[Sample] = field(default_factory=list)
    phases_seen: list[int] = field(default_factory=list)
    phases_unseen: list[int] = field(default_factory=list)
    phases_shared: list[int] = field(default_factory=list)
    phases_unplaced: list[int] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return (
            bool(self.phases_seen) and all(s.holds is not False for s in self.samples) and not (self.phases_unseen or self.phases_unplaced)
        )


def prove_weights(
    recorded: capture.Launch,
    document: Document,
    *,
    spec: LayerSpec | None = None,
    engine: str = "warp",
    profile: str = "sm_90",
    per_phase: int = 1,
    outside: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> WeightProof:
    """Change sampled bytes of the weight image, one at a time: ``per_phase`` in the ranges that a phase is the first to claim (up to ``TRIES`` more where a
    change does not show), ``outside`` outside every range. ``spec`` is the map to prove (None: the entry's own). ``progress(done, total)`` is called
    after each.

    Raises ``UsageError`` when the entry reads no weight image, the capture has no pointer to it, or the counts are below 1 and 0.
    """
    if per_phase < 1 or outside < 0:
        raise UsageError(f"{per_phase} samples a phase and {outside} outside prove nothing", hint="at least one a phase")
    made = spec or layer_spec(Flow(bind(document, recorded.kernel)), recorded.block)
    image = _WeightImage.of(recorded, made)
    oracle = make_oracle(document, recorded.kernel, [f"p{p.index}" for p in made.phases])
    proof = WeightProof()
    claimed = [p.index for p in made.phases if (image.owner == p.index).any()]
    proof.phases_unplaced = [p.index for p in made.phases if p.unplaced_loads]
    outside = 0 if proof.phases_unplaced else outside
    proof.phases_shared = [p.index for p in made.phases if p.weight_ranges and p.index not in claimed]
    total = len(claimed) * per_phase + min(outside, image.free.size)
    base = consult(oracle, recorded, engine=engine, profile=profile, check=False)
    random = np.random.default_rng(seed)

    def sample(offset: int, expected: int | None) -> bool:
        found = _first_changed(base, image.changed_at(offset), oracle, engine, profile)
        proof.samples.append(Sample(offset, expected, found, None if found is None and expected is not None else found == expected))
        if progress is not None:
            progress(len(proof.samples), max(total, len(proof.samples)))
        return found is not None

    for number in claimed:
        offsets = random.permutation(np.flatnonzero(image.owner == number))[: per_phase + TRIES]
        shown = 0
        for offset in offsets:
            shown += sample(int(offset), number)
            if shown == per_phase:
                break
        (proof.phases_seen if shown else proof.phases_unseen).append(number)
    for offset in random.permutation(image.free)[:outside]:
        sample(int(offset), None)
    return proof


@dataclass(slots=True, eq=False)
class _WeightImage:
    """The weight image of a launch: from the pointer on. ``owner`` is, for each byte of it, the first phase that claims it, or -1 (-2: one reads it through
    computation); ``free`` are the offsets that none reads."""

    recorded: capture.Launch
    allocation: capture.Allocation
    start: int
    owner: NDArray[np.int64]

    @property
    def free(self) -> NDArray[np.int64]:
        return np.flatnonzero(self.owner == -1)

    @classmethod
    def of(cls, recorded: capture.Launch, spec: LayerSpec) -> _WeightImage:
        if spec.weight_param is None:
            raise UsageError(f"{recorded.kernel} reads no weight image", hint="no B fragment is loaded through a pointer parameter")
        pointer = recorded.pointer(spec.weight_param)
        if pointer is None:
            raise UsageError(
                f"{recorded.label}: the capture has no pointer at argument offset {spec.weight_param}, where the weight image is expected"
            )
        allocation = recorded.allocation(pointer.allocation)
        last = max((end for p in spec.phases for _, end in p.weight_ranges), default=0)
        # An allocation may hold other things behind the image: bytes far behind it, or where another pointer points, are not the map's business.
        others = [p.delta - pointer.delta for p in recorded.pointers if p.allocation == allocation.index and p.delta > pointer.delta]
        size = min([allocation.size - pointer.delta, last + BEHIND, *(o for o in others if o >= last)])
        owner = np.full(max(size, 0), -1, dtype=np.int64)
        for start, end in (r for p in spec.phases for r in p.computed_ranges):
            owner[start:end] = -2
        for phase in reversed(spec.phases):
            for start, end in phase.weight_ranges:
                owner[start:end] = phase.index
        return cls(recorded, allocation, pointer.delta, owner)

    def changed_at(self, offset: int) -> capture.Launch:
        """The launch with one byte of the image changed: to another sign and magnitude, whatever the format."""
        before = np.array(self.allocation.before)
        place = self.start + offset
        before[place] ^= 0xBB if before[place] & 0x40 else 0xC3
        altered = replace(self.allocation, before=before)
        allocations = [altered if a.index == altered.index else a for a in self.recorded.allocations]
        return replace(self.recorded, allocations=allocations)


def _first_changed(base: Readings, changed: capture.Launch, oracle: Oracle, engine: str, profile: str) -> int | None:
    """The first phase that reads otherwise on the changed launch, None when none does."""
    other = consult(oracle, changed, engine=engine, profile=profile, check=False)
    for stage, came in base.stored.items():
        values, values_now = base.stages.get(stage, {}), other.stages.get(stage, {})
        if not np.array_equal(came, other.stored[stage]) or any(not np.array_equal(v, values_now[r]) for r, v in values.items()):
            return int(stage[1:])
    return None
