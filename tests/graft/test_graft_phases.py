"""The phases style: one call for each phase, with the parameters, the row and the spills that its interface promises."""

from __future__ import annotations

import re

import pytest
from graft_kernels import MMA, document, run_mma

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import assemble, cut, find_ptxas, text_body
from ptxgraft.run.reference import reference_document, reference_launch

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")
MODULE = document(MMA)
LIVE_OVER = MMA.replace(
    "\t// first phase\n",
    "\t.reg .pred %p<2>;\n\t.reg .b16 %h<2>;\n\t.reg .f64 %d<2>;\n\tsetp.gt.u32 %p1, %r1, 9;\n\tcvt.u16.u32 %h1, %r2;\n"
    "\tcvt.rn.f64.u32 %d1, %r3;\n\t// first phase\n",
).replace(
    "\tst.global.v4.f32",
    "\tcvt.u32.u16 %r20, %h1;\n\tcvt.rn.f32.u32 %f20, %r20;\n\t@%p1 add.f32 %f14, %f14, %f20;\n\tcvt.rn.f32.f64 %f21, %d1;\n"
    "\tadd.f32 %f15, %f15, %f21;\n\tst.global.v4.f32",
)
"""A predicate, a half and a wide register that live over the first phase's call."""


@pytest.mark.parametrize("region", [None, "phase 0", "phase 1", "p0-p1"])
@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_the_identity_gives_the_same_bytes(region: str | None, engine: str):
    made = cut(MODULE, "product", region, style="phases", body="identity")
    assert (run_mma(made.document, engine) == run_mma(MODULE, engine)).all()


def test_what_a_call_passes():
    made = cut(MODULE, "product", style="phases")
    bank = [f"product_region_w{i}" for i in range(8)]
    assert re.findall(r"\.param \.(b\d+) (product_\w+)", made.declaration) == [
        ("b32", "product_region_phase"),
        *(("b32", name) for name in bank),
        ("b64", "product_region_weights"),
        ("b64", "product_region_parameters"),
        ("b32", "product_region_row"),
    ]
    assert made.plan is not None
    first, second = made.plan.calls
    assert [slot and slot[0].name for slot in first.bank] == ["%r2", "%r3", "%r4", "%r5", "%r14", "%r15", "%r16", "%r17"]
    assert [slot and slot[0].name for slot in second.bank] == ["%r18", "%r19", "%r18", "%r19", None, None, None, None]
    assert [(g.letter, g.how) for g in first.given] == [
        ("a", "bank"), ("a", "bank"), ("b", "weights"), ("b", "weights"), ("c", "constant"), ("c", "inside"),
    ]  # fmt: skip
    assert [(g.letter, g.how) for g in second.given] == [("a", "bank"), ("b", "weights"), ("c", "returned")]
    assert second.given[2].places == [0, 1, 2, 3]
    assert [(r.name, w) for r, w in first.results] == [("%f5", 0), ("%f6", 1), ("%f7", 2), ("%f8", 3)]
    assert {r.name for r, _ in first.across} == {"%rd3", "%r1"}  # %r6 and %r7, the second phase's B, come from the weight image


def test_the_row_is_results_then_spills():
    made = cut(MODULE, "product", style="phases")
    assert made.plan is not None
    assert (made.plan.bank_words, made.plan.result_words, made.plan.spill_start, made.plan.spill_words) == (8, 4, 4, 3)
    assert b".shared .align 16 .b8 pg_rows[3072];" in made.text  # 64 lanes of 12 words: 7 rounded up to an odd number of fours
    assert made.spec_json["cut"]["row"] == {"results": 4, "spilled_from": 4, "spilled": 3}  # pyright: ignore


EARLIER = MMA.replace(
    "{%f5, %f6, %f7, %f8};\n\tmul.wide",
    "{%f5, %f6, %f7, %f8};\n\tadd.f32 %f14, %f14, %f9;\n\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f14, %f15, %f16, %f17}, "
    "{%r18, %r19, %r18, %r19}, {%r8, %r9}, {%f5, %f6, %f7, %f8};\n\tmul.wide",
)


def test_a_chain_over_another_phase_is_put_back_into_the_row():
    assert EARLIER != MMA
    module = document(EARLIER)
    made = cut(module, "product", style="phases", body="identity")
    assert made.plan is not None
    third = made.plan.calls[2]
    assert [(g.letter, g.how, g.places) for g in third.given if g.letter == "c"] == [("c", "chained", [0, 1, 2, 3])]
    assert (run_mma(made.document) == run_mma(module)).all()


def test_weights_that_the_kernel_may_have_changed_are_passed():
    text = MMA.replace("\tmov.f32 %f0, 0f00000000;\n", "\tmov.f32 %f0, 0f00000000;\n\tst.global.u32 [%rd3], %r6;\n")
    made = cut(document(text), "product", "p0", style="phases")
    assert made.plan is not None
    assert [g.how for g in made.plan.calls[0].given if g.letter == "b"] == ["bank", "bank"]
    assert [slot and slot[0].name for slot in made.plan.calls[0].bank][8:] == ["%r6", "%r7", "%r8", "%r9"]
    made = cut(document(text.replace("ld.global.v2", "ld.global.nc.v2")), "product", "p0", style="phases")
    assert made.plan is not None
    assert [g.how for g in made.plan.calls[0].given if g.letter == "b"] == ["weights", "weights"]


def test_an_old_version_is_raised_for_the_parameter_address():
    module = document(MMA.replace(".version 8.0", ".version 7.0"))
    made = cut(module, "product", style="phases", body="identity")
    assert made.document.version == (7, 7)
    assert made.document.target == module.target
    assert (run_mma(made.document) == run_mma(module)).all()


def test_predicates_halves_and_wide_registers_live_over_a_call():
    module = document(LIVE_OVER)
    made = cut(module, "product", style="phases", body="identity")
    assert made.plan is not None
    assert {r.name for r, _ in made.plan.calls[0].across} == {"%rd3", "%r1", "%p1", "%h1", "%d1"}
    for engine in ("numpy", "warp"):
        assert (run_mma(made.document, engine) == run_mma(module, engine)).all()


def test_rows_that_shared_memory_has_no_room_for_leave_the_spills_to_local_memory():
    text = MMA.replace(".shared .align 16 .b8 tile[2048];", ".shared .align 16 .b8 tile[48064];")
    module = document(text)
    made = cut(module, "product", style="phases", body="identity")
    assert b".local .align 16 .b8 pg_spill[12];" in made.text
    assert any("spilled to local memory" in note for note in made.notes)
    assert (run_mma(made.document) == run_mma(module)).all()
    with pytest.raises(UnsupportedError, match="the phases style needs 1024 bytes of shared memory for its results beside the 49152"):
        cut(document(text.replace("48064", "49152")), "product", style="phases")


REFUSED = {
    "a guarded mma": (
        (
            "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f14",
            "\t.reg .pred %p<2>;\n\t@%p1 mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f14",
        ),
        None,
        r"line 46: `@%p1 mma.*` is guarded, and a call for the phase passes no predicate; use the call or the mirror style",
    ),
    "half a phase": (
        ("", ""),
        (34, 34),
        r"lines 34 to 34 cut phase 0 in two: it is lines 34 to 35; choose lines that hold the whole phase",
    ),
    "no phase": (("", ""), (37, 40), r"lines 37 to 40 of 'product' hold no tensor-core instruction: there is no phase to call for"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_name_the_statement_and_a_way_out(name: str):
    change, region, message = REFUSED[name]
    module = document(MMA.replace(*change) if change[0] else MMA)
    with pytest.raises(UnsupportedError, match=message):
        cut(module, "product", region, style="phases")


def test_a_branch_into_a_phase_is_refused():
    text = MMA.replace(
        "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5",
        "\t.reg .pred %p<2>;\nBACK:\n\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5",
    ).replace("\tmul.rn.f32 %f11", "\tsetp.lt.u32 %p1, %r2, 0;\n\t@%p1 bra BACK;\n\tmul.rn.f32 %f11")
    module = document(text)
    with pytest.raises(UnsupportedError, match=r"`@%p1 bra BACK;` branches into phase 0 \(line 37\)"):
        cut(module, "product", style="phases")


def test_bodies_that_are_no_function_are_refused():
    with pytest.raises(UsageError, match="the phases style takes no block of PTX text"):
        cut(MODULE, "product", style="phases", body=text_body("mov.u32 %r1, 1;"))


@needs_ptxas
def test_it_assembles():
    for body in ("identity", None):
        result = assemble(cut(MODULE, "product", style="phases", body=body).document)
        assert result.ok, result.log
        assert result.relocatable == (body is None)


@pytest.mark.parametrize("layer", ["enc4", "dec0"])
def test_the_layers_weights_are_not_passed(layer: str):
    module = reference_document(layer)
    made = cut(module, layer, style="phases", block=reference_launch(layer, module).block)
    assert made.plan is not None
    ways = [(g.how, g.letter) for c in made.plan.calls for g in c.given]
    assert ways.count(("weights", "b")) > 0.7 * sum(letter == "b" for _, letter in ways)
    assert ("bank", "c") in ways or layer == "enc4"
    assert made.plan.result_words == max(w + 1 for c in made.plan.calls for _, w in c.results)


def test_what_lives_over_a_call_comes_back_from_the_row():
    module = document(LIVE_OVER)
    made = cut(module, "product", style="phases", body="identity")
    assert made.plan is not None
    # A translator's call may keep nothing: whatever the entry holds is lost when the callee returns.
    lost = {1: "setp.ne.u32 {}, 0, 0;", 16: "mov.b16 {}, 0;", 32: "mov.b32 {}, 0;", 64: "mov.b64 {}, 0;"}
    rows: list[str] = []
    calls = iter(made.plan.calls)
    for row in made.text.decode().splitlines():
        if row.strip() == "}" and rows[-1].strip().startswith("call.uni"):
            registers = [r for r, _ in next(calls).across]
            assert registers
            row += "".join("\n" + lost[r.type.width].format(r.name) for r in registers)
        rows.append(row)
    broken = document("\n".join(rows) + "\n")
    assert broken.text.count("setp.ne.u32 %p1, 0, 0;") == 2
    assert (run_mma(broken) == run_mma(module)).all()
