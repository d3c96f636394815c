"""The weight map's proof holds on a right map and fails on a wrong one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_layer import BLOCK, edited

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import LayerSpec, layer_spec
from ptxgraft.text import Document
from ptxgraft.verify import prove_weights


@pytest.fixture(scope="module")
def spec(document) -> LayerSpec:
    return layer_spec(Flow(bind(document, "layer")), BLOCK)


def moved(spec: LayerSpec, phase: int, ranges: list[tuple[int, int]]) -> LayerSpec:
    """The spec with another phase's ranges."""
    return replace(spec, phases=[replace(p, weight_ranges=ranges) if p.index == phase else p for p in spec.phases])


def test_the_map_is_what_the_layers_head_says(spec):
    assert [p.weight_ranges for p in spec.phases] == [
        [(0, 512), (1280, 1792)], [(512, 1024), (1792, 2304)], [(1024, 1152), (2304, 2432)],
    ]  # fmt: skip


def test_a_right_map_holds(recorded, document, engine):
    seen = []
    proof = prove_weights(
        recorded, document, engine=engine, per_phase=2, outside=4, progress=lambda done, total: seen.append((done, total))
    )
    assert proof.holds and proof.phases_seen == [0, 1, 2] and not proof.phases_unseen and not proof.phases_shared
    outside = [s for s in proof.samples if s.expected is None]
    assert len(outside) == 4 and all(1152 <= s.offset % 1280 < 1280 and s.found is None and s.holds for s in outside)
    inside = [s for s in proof.samples if s.expected is not None]
    assert all(s.found == s.expected or s.holds is None for s in inside) and sum(s.holds is True for s in inside) == 6
    assert seen[-1][0] == len(proof.samples) and all(done <= total for done, total in seen)


def test_a_range_given_to_the_wrong_phase_fails(recorded, document, spec):
    wrong = moved(moved(spec, 1, spec.phases[2].weight_ranges), 2, spec.phases[1].weight_ranges)
    proof = prove_weights(recorded, document, spec=wrong, outside=0)
    assert not proof.holds
    assert {(s.expected, s.found) for s in proof.samples if s.holds is False} == {(1, 2), (2, 1)}


def test_a_range_that_is_left_out_fails(recorded, document, spec):
    proof = prove_weights(recorded, document, spec=moved(spec, 2, [(1024, 1152)]), outside=40)
    assert not proof.holds and {(s.expected, s.found) for s in proof.samples if s.holds is False} == {(None, 2)}


def test_a_claimed_range_that_nobody_reads_fails(recorded, document, spec):
    proof = prove_weights(recorded, document, spec=moved(spec, 2, [(1152, 1280)]), outside=0)
    assert not proof.holds and proof.phases_unseen == [2]


def test_phases_that_read_only_what_earlier_ones_read_are_named(recorded, document):
    shared = edited(document, ("[%rd8+512];", "[%rd8+256];"), ("[%rd8+768];", "[%rd8];"))
    proof = prove_weights(replace(recorded, module=shared.data, module_hash=None), shared, outside=2)
    assert proof.holds and proof.phases_shared == [1] and proof.phases_seen == [0, 2]


def test_the_image_may_begin_inside_an_allocation_that_holds_other_things_too(recorded, document):
    # Input, weights and output in one arena, as many programs have it.
    base, places = 0x7F2200000000, {0: 0, 8: 4096, 16: 12288}
    arena = np.zeros(16384, np.uint8)
    args = bytearray(recorded.args)
    for offset, delta in places.items():
        pointer = recorded.pointer(offset)
        assert pointer is not None
        held = recorded.before(pointer.allocation)
        arena[delta : delta + held.size] = held
        args[offset : offset + 8] = (base + delta).to_bytes(8, "little")
    launch = replace(
        recorded,
        args=bytes(args),
        allocations=[capture.Allocation(0, base, arena.size, arena)],
        pointers=[capture.Pointer(offset, 0, delta) for offset, delta in places.items()],
    )
    proof = prove_weights(launch, document, outside=30)
    assert proof.holds and proof.phases_seen == [0, 1, 2]
    assert max(s.offset for s in proof.samples) < 12288 - 4096


def test_a_map_that_is_not_whole_is_not_proved(recorded, document, spec):
    unknown = replace(spec, phases=[replace(p, unplaced_loads=1) if p.index == 1 else p for p in spec.phases])
    proof = prove_weights(recorded, document, spec=unknown)
    assert not proof.holds and proof.phases_unplaced == [1]
    assert all(s.expected is not None for s in proof.samples) and not any(s.holds is False for s in proof.samples)


def test_bytes_that_are_read_through_computation_are_not_outside(recorded, document, spec):
    through = moved(spec, 2, [(1024, 1152)])
    phases = [replace(p, computed_ranges=[(2304, 2432)]) if p.index == 2 else p for p in through.phases]
    proof = prove_weights(recorded, document, spec=replace(through, phases=phases), outside=40)
    assert proof.holds and len([s for s in proof.samples if s.expected is None]) == 40


def test_what_cannot_be_proved_is_refused(recorded, document):
    with pytest.raises(UsageError, match="the capture has no pointer at argument offset 8, where the weight image is expected"):
        prove_weights(replace(recorded, pointers=[]), document)
    with pytest.raises(UsageError, match="prove nothing; at least one a phase"):
        prove_weights(recorded, document, per_phase=0)
    plain = Document.parse(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry layer()\n{\n\tret;\n}\n")
    with pytest.raises(UsageError, match="layer reads no weight image"):
        prove_weights(recorded, plain)
