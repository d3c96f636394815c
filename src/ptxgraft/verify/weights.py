"""The weight map, proved: a byte in a phase's range changes that phase first, a byte outside every range changes none.

Invariant: each sample is a run of the oracle on the launch with one byte of the weight image changed; nothing is inferred.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import LayerSpec, layer_spec
from ptxgraft.text import Document
from ptxgraft.verify.oracle import Readings, consult, make_oracle


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
    """The samples of a weight map's proof. ``holds``: none contradicts the map, and each phase with weights was seen to change at least once."""

    samples: list[Sample] = field(default_factory=list)
    phases_seen: list[int] = field(default_factory=list)
    phases_unseen: list[int] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return bool(self.samples) and all(s.holds is not False for s in self.samples) and not self.phases_unseen


def first_phase(spec: LayerSpec, offset: int) -> int | None:
    """The first phase whose claimed ranges hold a byte of the weight image."""
    for phase in spec.phases:
        if any(start <= offset < end for start, end in phase.weight_ranges + phase.computed_ranges):
            return phase.index
    return None


def prove_weights(
    recorded: capture.Launch,
    document: Document,
    *,
    engine: str = "warp",
    profile: str = "sm_90",
    per_phase: int = 1,
    outside: int = 8,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> WeightProof:
    """Change sampled bytes of the weight image, one at a time: ``per_phase`` in the ranges that a phase is the first to claim (up to 8 more where a
    change does not show), ``outside`` outside every range. ``progress(done, total)`` is called after each."""
    flow = Flow(bind(document, recorded.kernel))
    spec = layer_spec(flow, recorded.block)
    if spec.weight_param is None:
        raise UsageError(f"{recorded.kernel} reads no weight image", hint="no B fragment is loaded through a pointer parameter")
    pointer = recorded.pointer(spec.weight_param)
    if pointer is None:
        raise UsageError(
            f"{recorded.label}: the capture has no pointer at argument offset {spec.weight_param}, where the weight image is expected"
        )
    image = recorded.weight_image(spec.weight_param)
    oracle = make_oracle(document, recorded.kernel, [f"p{p.index}" for p in spec.phases])
    base = consult(oracle, recorded, engine=engine, profile=profile)
    random = np.random.default_rng(seed)
    owner = np.full(image.size, -1, dtype=np.int64)
    for phase in reversed(spec.phases):
        for start, end in phase.weight_ranges + phase.computed_ranges:
            owner[start:end] = phase.index
    proof = WeightProof()
    claimed = [p.index for p in spec.phases if (owner == p.index).any()]
    total = len(claimed) * per_phase + outside

    def sample(offset: int, expected: int | None) -> Sample:
        changed = image.copy()
        changed[offset] ^= 0xBB if changed[offset] & 0x40 else 0xC3  # another sign and magnitude, whatever the format
        allocation = recorded.allocation(pointer.allocation)
        before = np.array(allocation.before)
        before[pointer.delta : pointer.delta + changed.size] = changed[: before.size - pointer.delta]
        altered = replace(allocation, before=before)
        launch = replace(recorded, allocations=[altered if a.index == allocation.index else a for a in recorded.allocations])
        found = _first_changed(base, consult(oracle, launch, engine=engine, profile=profile))
        made = Sample(offset, expected, found, None if found is None and expected is not None else found == expected)
        proof.samples.append(made)
        if progress is not None:
            progress(len(proof.samples), max(total, len(proof.samples)))
        return made

    for number in claimed:
        offsets = np.flatnonzero(owner == number)
        shown = 0
        for _ in range(per_phase + 8):
            if sample(int(random.choice(offsets)), number).found is not None:
                shown += 1
            if shown >= per_phase:
                break
        (proof.phases_seen if shown else proof.phases_unseen).append(number)
    free = np.flatnonzero(owner < 0)
    for offset in random.choice(free, min(outside, free.size), replace=False) if free.size else ():
        sample(int(offset), None)
    return proof


def _first_changed(base: Readings, other: Readings) -> int | None:
    for stage, registers in base.stages.items():
        if any(not np.array_equal(a, other.stages[stage][name]) for name, a in registers.items()):
            return int(stage[1:])
    return None
