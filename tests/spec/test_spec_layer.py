"""The layer spec of small kernels: phases, provenance, weight map, parameters, arrays, ABI."""

from __future__ import annotations

import json

import pytest
from spec_kernels import HEAD_LINES, LOADS, flow, mma

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import (
    Abi,
    descends_from,
    layer_spec,
    line_region,
    make_region,
    mma_region,
    phase_runs,
    phase_steps,
    region_abi,
    spec_json,
    spec_markdown,
)
from ptxgraft.text import Document


def provenances(fragments) -> list[str]:
    return [str(f.provenance) for f in fragments]


# -- phases -------------------------------------------------------------------------------------------------------------------------


def test_a_phase_ends_where_another_instruction_stands():
    facts = flow(*LOADS, mma("f1", "r10", "r20", "0"), mma("f5", "r10", "r22", "0"), "mov.u32 %r9, 1;", mma("f9", "r10", "r20", "f1"))
    assert [len(run) for run in phase_runs(facts)] == [2, 1]
    spec = layer_spec(facts)
    assert [(p.index, p.mma, p.shape, p.types) for p in spec.phases] == [
        (0, 2, "m16n8k16", {"d": "f32", "a": "f16", "b": "f16", "c": "f32"}),
        (1, 1, "m16n8k16", {"d": "f32", "a": "f16", "b": "f16", "c": "f32"}),
    ]
    assert [p.first_line - HEAD_LINES for p in spec.phases] == [4, 7]
    assert spec.phases[0].epilogue.counts == {"move": 1}
    assert spec.region is not None and (spec.region.statements, spec.region.mma) == (4, 3)


def test_fragments_are_listed_once_in_first_use_order():
    facts = flow(*LOADS, mma("f1", "r10", "r22", "0"), mma("f5", "r10", "r20", "0"), mma("f9", "r10", "r22", "0"))
    phase = layer_spec(facts).phases[0]
    assert [(f.registers, f.first_use, f.uses) for f in phase.b] == [(("%r22", "%r23"), 0, 2), (("%r20", "%r21"), 1, 1)]
    assert [(f.uses, f.first_use) for f in phase.a] == [(3, 0)]
    assert [s["b"] for s in phase_steps(facts, phase)] == [0, 1, 0]
    assert [s["d"] for s in phase_steps(facts, phase)] == [0, 1, 2]


def test_the_same_names_with_other_values_are_other_fragments():
    facts = flow(*LOADS, mma("f1", "r10", "r20", "0"), mma("r10", "r10", "r20", "0").replace("{%r10, %r11, %r12, %r13}", "{%f9, %f10, %f11, %f12}", 1),
                 mma("f1", "r10", "r20", "f1"))  # fmt: skip
    phase = layer_spec(facts).phases[0]
    assert [f.uses for f in phase.c] == [2, 1]
    assert provenances(phase.c) == ["constant(0x0)", "chain(p0.0)"]


def test_tiles():
    rows = [*LOADS, "ld.global.v4.b32 {%r14, %r15, %r16, %r17}, [%rd5+1024];"]
    full = [mma("f1", "r10", "r20", "0"), mma("f5", "r10", "r22", "0"), mma("f9", "r14", "r20", "0"), mma("f13", "r14", "r22", "0")]
    assert layer_spec(flow(*rows, *full)).phases[0].tiles == (2, 2, 1)
    deep = [mma("f1", "r10", "r20", "0"), mma("f1", "r14", "r22", "f1")]
    assert layer_spec(flow(*rows, *deep)).phases[0].tiles == (1, 1, 2)
    assert layer_spec(flow(*rows, *full[:3])).phases[0].tiles is None


# -- provenance ---------------------------------------------------------------------------------------------------------------------


def test_every_kind_of_provenance():
    facts = flow(
        *LOADS,
        "mov.u32 %r30, tile;",
        "shl.b32 %r31, %r3, 4;",
        "add.u32 %r32, %r30, %r31;",
        "ld.shared.v4.b32 {%r14, %r15, %r16, %r17}, [%r32+64];",
        "mov.b32 %r24, 0x3C003C00;",
        "mov.b32 %r25, %r24;",
        mma("f1", "r10", "r20", "0"),
        mma("f5", "r14", "r22", "f1"),
        "mul.rn.f32 %f20, %f5, %f6;",
        "mov.f32 %f21, %f20;",
        mma("f9", "r14", "r24", "f5"),
        mma("f13", "r10", "r20", "f20").replace("{%f20, %f21, %f22, %f23}", "{%f20, %f21, %f20, %f21}"),
    )
    spec = layer_spec(facts)
    assert spec.weight_param == 8
    first, second = spec.phases
    assert provenances(first.a) == ["input(parameter+0)", "tile+0x40"]
    assert provenances(first.b) == ["weights+0x0", "weights+0x200"]
    assert provenances(first.c) == ["constant(0x0)", "chain(p0.0)"]
    assert [f.provenance.lanes for f in first.b] == ["8 a lane, 256 a warp"] * 2
    assert first.a[1].provenance.lanes == "16 a lane, 512 a warp"
    assert provenances(second.b) == ["constant(0x3c003c00)", "weights+0x0"]
    assert provenances(second.c) == ["chain(p0.1)", "computed(mul.rn.f32)"]
    assert first.weight_ranges == [(0, 1024)]


def test_offsets_of_quads():
    facts = flow(
        *LOADS[:1],
        "shr.u32 %r40, %r1, 2;",
        "and.b32 %r41, %r1, 3;",
        "mul.lo.u32 %r42, %r40, 64;",
        "mad.lo.u32 %r43, %r41, 4, %r42;",
        "cvt.u64.u32 %rd8, %r43;",
        "add.u64 %rd9, %rd2, %rd8;",
        "ld.global.b32 %r20, [%rd9+32];",
        "ld.global.b32 %r21, [%rd9+48];",
        mma("f1", "r10", "r20", "0"),
    )
    phase = layer_spec(facts).phases[0]
    assert phase.b[0].provenance.lanes == "4 a lane of a quad, 64 a quad, 0 a warp".replace(", 0 a warp", "")
    assert phase.weight_ranges == [(start + 64 * g, start + 16 + 64 * g) for g in range(8) for start in (32,)] or phase.weight_ranges == [
        (32 + 64 * g, 64 + 64 * g) for g in range(8)
    ]


def test_an_offset_that_the_launch_decides_is_not_known():
    facts = flow(*LOADS[:2], "mov.u32 %r40, %ctaid.x;", "mul.wide.u32 %rd8, %r40, 1024;", "add.u64 %rd9, %rd7, %rd8;",
                 "ld.global.v2.b32 {%r22, %r23}, [%rd9];", mma("f1", "r10", "r20", "0"), mma("f5", "r10", "r22", "0"))  # fmt: skip
    phase = layer_spec(facts).phases[0]
    assert [(f.provenance.kind, f.provenance.lanes) for f in phase.b] == [("weights", "8 a lane, 256 a warp"), ("weights", "")]
    assert [str(f.provenance) for f in phase.b] == ["weights+0x0", "weights+?"]
    assert phase.weight_ranges == [(0, 512)] and phase.unplaced_loads == 1
    assert "512 bytes in 0x0..0x200, 1 loads at unknown offsets" in spec_markdown(layer_spec(facts))


# -- parameters, arrays, live registers -----------------------------------------------------------------------------------------------


def test_parameters_arrays_and_the_block():
    facts = flow(
        *LOADS,
        "ld.param.u64 %rd10, [block+8];",
        "ld.global.f32 %f30, [%rd10];",
        "ld.param.f32 %f31, [gain];",
        "st.shared.f32 [tile+4], %f31;",
        "bar.sync 0;",
        "ld.shared.f32 %f32, [tile+4];",
        mma("f1", "r10", "r20", "0"),
        "st.global.f32 [%rd3], %f1;",
    )
    spec = layer_spec(facts)
    assert [(p.name, p.offset, p.size, p.use) for p in spec.params] == [
        ("a", 0, 8, "buffer"), ("w", 8, 8, "weights"), ("out", 16, 8, "buffer"), ("gain", 24, 4, "value"), ("block", 32, 16, "buffer+8"),
    ]  # fmt: skip
    assert (spec.block, spec.block_source) == ((32, 2, 1), "reqntid")
    tile = spec.shared[0]
    assert (tile.name, tile.size, tile.first_store, tile.last_load) == ("tile", 4096, HEAD_LINES + 7, HEAD_LINES + 9)
    assert spec.prologue.counts["barrier"] == 1


@pytest.mark.parametrize(
    ("directive", "reads", "shape"),
    [
        (".maxntid 128, 1, 1", "mov.u32 %r1, %tid.z;", ((32, 1, 4), "assumed")),
        (".maxntid 128", "mov.u32 %r1, %tid.y;", ((32, 4, 1), "assumed")),
        (".maxntid 128", "mov.u32 %r1, %tid.x;", ((128, 1, 1), "maxntid")),
        ("", "mov.u32 %r1, %tid.x;", ((32, 1, 1), "assumed")),
        (".reqntid 8, 4, 2", "", ((8, 4, 2), "reqntid")),
    ],
)
def test_the_block_shape(directive: str, reads: str, shape):
    text = f".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{directive}\n{{\n.reg .b32 %r<4>;\n{reads}\nret;\n}}\n"
    spec = layer_spec(Flow(bind(Document.parse(text), "k")))
    assert (spec.block, spec.block_source) == shape
    assert (spec.phases, spec.region, spec.abi) == ([], None, None)
    assert any("--block" in note for note in spec.notes) == (shape[1] == "assumed")


def test_registers_live_across_a_phase():
    facts = flow(
        *LOADS, "mov.u32 %r50, 7;", "mov.u64 %rd11, 9;", "setp.eq.u32 %p1, %r50, %r1;", mma("f1", "r10", "r20", "0"),
        "@%p1 st.shared.u32 [tile], %r50;", "st.shared.u64 [tile+8], %rd11;", "st.global.f32 [%rd3], %f1;",
    )  # fmt: skip
    phase = layer_spec(facts).phases[0]
    # %r50, %rd11, %p1 and the output's pointer; f1 is the phase's own.
    assert (phase.live_across_registers, phase.live_across_bytes) == (4, 4 + 8 + 1 + 8)
    facts = flow(*LOADS, *(f"mov.f32 %f{i}, 0f3F800000;" for i in range(1, 5)), mma("f1", "r10", "r20", "f1"), "st.global.f32 [%rd3], %f1;")
    assert layer_spec(facts).phases[0].live_across_registers == 1  # an accumulator in place is the phase's own too


# -- regions and their ABI ------------------------------------------------------------------------------------------------------------


def abi(*rows: str, first: int, last: int) -> Abi:
    facts = flow(*rows)
    return region_abi(facts, line_region(facts.program, HEAD_LINES + first, HEAD_LINES + last))


def names(registers) -> list[str]:
    return [r.name for r in registers]


def test_live_registers_of_a_region():
    found = abi(
        "mov.u32 %r50, 1;", "mov.u32 %r51, 2;", "add.u32 %r52, %r50, 1;", "setp.lt.u32 %p1, %r52, %r51;", "add.u32 %r53, %r52, 1;",
        "@%p1 st.shared.u32 [tile], %r52;", "st.shared.u32 [tile+4], %r51;", first=3, last=5,
    )  # fmt: skip
    assert names(found.live_in) == ["%r50", "%r51"]
    assert names(found.live_out) == ["%r52", "%p1"]
    assert (found.predicates, found.shared, found.barriers, found.refusals) == (["%p1"], [], [], [])


def test_a_guarded_write_comes_in_and_goes_out():
    found = abi("mov.u32 %r50, 1;", "setp.eq.u32 %p1, %r1, 3;", "@%p1 mov.u32 %r50, 2;", "st.shared.u32 [tile], %r50;", first=3, last=3)
    assert names(found.live_in) == ["%r50", "%p1"]
    assert names(found.live_out) == ["%r50"]


def test_a_loops_register_comes_in_and_goes_out():
    found = abi(
        "mov.u32 %r50, 0;", "L:", "add.u32 %r50, %r50, 1;", "add.u32 %r51, %r50, 1;", "setp.lt.u32 %p1, %r51, 9;", "@%p1 bra L;",
        "st.shared.u32 [tile], %r51;", first=3, last=4,
    )  # fmt: skip
    assert names(found.live_in) == ["%r50"]
    assert names(found.live_out) == ["%r50", "%r51"]


def test_what_is_declared_in_the_region_stays_there():
    found = abi("{", ".reg .b32 x;", "@%p1 mov.u32 x, 1;", "mov.u32 %r50, x;", "}", "st.shared.u32 [tile], %r50;", first=1, last=6)
    assert "x" not in names(found.live_in)


def test_shared_arrays_and_barriers_of_a_region():
    found = abi("st.shared.u32 [tile], %r1;", "bar.sync 0;", "ld.shared.u32 %r50, [%r1];", "st.shared.u32 [tile+4], %r50;", first=1, last=4)
    assert found.shared == ["tile", "?"]
    assert found.barriers == [HEAD_LINES + 2]


def test_what_forbids_a_cut_is_listed():
    rows = ("@%p1 bra IN;", "mov.u32 %r50, 1;", "IN:", "@%p2 bra OUT;", "frob.b32 %r51, %r50;", "@%p3 exit;", "mov.u32 %r52, 1;", "OUT:",
            "st.shared.u32 [tile], %r50;")  # fmt: skip
    assert [r.partition(": ")[2] for r in abi(*rows, first=2, last=6).refusals] == [
        "`@%p1 bra IN;` branches into the region",
        "`@%p2 bra OUT;` branches out of the region",
        "`frob.b32 %r51, %r50;` is not known, its effects cannot be carried",
        "`@%p3 exit;` leaves the region",
    ]
    assert len(abi(*rows, first=2, last=7).refusals) == 3  # a branch to just behind the region falls out of it


def test_regions_by_line():
    facts = flow("mov.u32 %r50, 1;", "mov.u32 %r51, 1;")
    region = line_region(facts.program, HEAD_LINES + 1, HEAD_LINES + 2)
    assert (region.statements, region.mma) == (2, 0)
    assert make_region(facts.program, region.first, region.last) == region
    assert mma_region(facts) is None
    with pytest.raises(UsageError, match=rf"line 3 is outside the body of 'k', which is lines 6 to {HEAD_LINES + 4}"):
        line_region(facts.program, 3, HEAD_LINES + 1)
    with pytest.raises(UsageError, match="hold no statement"):
        line_region(facts.program, HEAD_LINES + 2, HEAD_LINES + 1)


# -- what a statement descends from -----------------------------------------------------------------------------------------------------


def test_descent_goes_through_registers_and_shared_arrays():
    facts = flow(
        *LOADS, mma("f1", "r10", "r20", "0"), "st.shared.f32 [tile], %f1;", "bar.sync 0;", mma("f5", "r10", "r22", "0"), "ld.shared.f32 %f20, [tile+8];",
        "add.rn.f32 %f21, %f20, %f20;", "st.global.f32 [%rd3], %f21;", "st.global.f32 [%rd3+4], %f6;", "st.global.f32 [%rd3+8], %f0;",
    )  # fmt: skip
    spec = layer_spec(facts)
    stores = [i.index for i in facts.program.instructions if i.form is not None and i.form.stores == "global"]
    assert [descends_from(facts, spec, s) for s in stores] == [[0], [1], []]


def test_descent_goes_round_a_loop():
    facts = flow(
        *LOADS, "mov.u32 %r50, 0;", "L:", "ld.shared.f32 %f20, [tile];", "st.global.f32 [%rd3], %f20;", mma("f1", "r10", "r20", "0"),
        "st.shared.f32 [tile], %f1;", "add.u32 %r50, %r50, 1;", "setp.lt.u32 %p1, %r50, 3;", "@%p1 bra L;",
    )  # fmt: skip
    store = next(i.index for i in facts.program.instructions if i.form is not None and i.form.stores == "global")
    assert descends_from(facts, layer_spec(facts), store) == [0]


# -- writing ----------------------------------------------------------------------------------------------------------------------------


def test_json_has_the_promised_keys_and_only_plain_data():
    spec = layer_spec(flow(*LOADS, mma("f1", "r10", "r20", "0"), "st.global.f32 [%rd3], %f1;"))
    data = json.loads(json.dumps(spec_json(spec)))
    assert {"entry", "params", "shared", "region", "phases", "abi"} <= data.keys()
    assert {"first_line", "last_line", "statements"} <= data["region"].keys()
    assert {"index", "first_line", "last_line", "shape", "types", "mma", "a", "b", "c", "d"} <= data["phases"][0].keys()
    assert {"live_in", "live_out"} <= data["abi"].keys()
    assert data["phases"][0]["b"][0]["provenance"]["text"] == "weights+0x0"


def test_markdown_shows_phases_and_abi():
    text = spec_markdown(layer_spec(flow(*LOADS, mma("f1", "r10", "r20", "0"), "st.global.f32 [%rd3], %f1;")))
    line = HEAD_LINES + 4
    assert f"Lines {line} to {line}: 1 statements, 1 mma in 1 phases." in text
    assert "| 1: 1 weights |" in text and "Live out (1): `%f1` f32" in text
    assert "No tensor-core instruction." in spec_markdown(layer_spec(flow("mov.u32 %r50, 1;")))


def test_matrix_loads_are_no_phase():
    rows = (
        "wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, [%rd1], %r3;",
        "wmma.load.b.sync.aligned.col.m16n16k16.global.f16 {%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, [%rd2], %r3;",
        "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, {%r10,%r11,%r12,%r13,%r14,%r15,%r16,%r17}, "
        "{%r20,%r21,%r22,%r23,%r24,%r25,%r26,%r27}, {%f0,%f0,%f0,%f0,%f0,%f0,%f0,%f0};",
        "wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd3], {%f1,%f2,%f3,%f4,%f5,%f6,%f7,%f8}, %r3;",
    )
    facts = flow(*rows)
    assert [len(run) for run in phase_runs(facts)] == [1]
    phase = layer_spec(facts).phases[0]
    assert (phase.mma, phase.shape, phase.tiles) == (1, "m16n16k16", (1, 1, 1))
    assert phase.types == {"d": "f32", "a": "f16", "b": "f16", "c": "f32"}
