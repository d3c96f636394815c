"""Bisection: the first stage at which a graft goes wrong, whatever the graft looks like."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_layer import BLOCK, STORE, SURFACE_STORE, edited, record

from ptxgraft import verify
from ptxgraft.errors import UsageError
from ptxgraft.graft import cut, function_body, identity_body, text_body, wrong_fragment_body
from ptxgraft.text import Document
from ptxgraft.verify import Bisection, Verdict, consult, make_oracle, replay

ALL = ["a", "p0", "p1", "p2", "out"]


def bisect(recorded, graft, original=None, stages=None, engine="numpy") -> Bisection:
    """On the reference engine, which has nothing to compile."""
    return verify.bisect(recorded, graft, original, stages=stages, engine=engine)


def line_of(document: Document, text: str) -> int:
    return document.line(document.text.index(text))


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_an_identity_graft_differs_nowhere(recorded, document, style):
    made = cut(document, "layer", style=style, body=identity_body(), block=BLOCK)
    for graft in (made, made.document):
        found = bisect(recorded, graft, document)
        assert (found.stage, found.checked, found.skipped, found.exit_code) == (None, ALL, {}, 0)
        assert found.outputs is not None and found.outputs.verdict == "same"
        assert str(found) == "no stage differs (5 compared: a, p0, p1, ..., out)"


def test_the_module_of_the_capture_is_the_original_when_none_is_given(recorded, document):
    assert bisect(recorded, document).stage is None


EDITS = {
    "a": ("xor.b32 \t%r9, %r6, 16;", "xor.b32 \t%r9, %r6, 32;"),
    "p0": ("[%rd8+256];", "[%rd8+248];"),
    "p1": ("[%rd8+768];", "[%rd8+760];"),
    "p2": ("[%rd10+1024];", "[%rd10+1020];"),
}
LAST_MMA = {"p0": "{%r32, %r33}, {%r14", "p1": "{%r38, %r39}, {%r34", "p2": "{%r42, %r43}, {%r38"}


@pytest.mark.parametrize("stage", EDITS)
def test_an_edit_is_found_at_its_stage_with_the_originals_line(recorded, document, stage, engine):
    if stage == "p0":  # the B fragment is loaded before the region: the live-ins show it first, unless only phases are asked for
        assert bisect(recorded, edited(document, EDITS[stage]), document, engine=engine).stage == "a"
    asked = ["p0", "p1", "p2"] if stage != "a" else None
    found = bisect(recorded, edited(document, EDITS[stage]), document, stages=asked, engine=engine)
    assert (found.stage, found.line) == (stage, line_of(document, LAST_MMA[stage]) if stage != "a" else line_of(document, "mma.sync"))
    assert found.checked == (asked or ALL)[: (asked or ALL).index(stage) + 1]
    assert found.exit_code == 1 and found.outputs is not None and found.outputs.verdict == "differs"


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_a_wrong_fragment_is_found_in_both_styles(recorded, document, style):
    wrong = wrong_fragment_body(document, "layer", 0, 1)
    if style == "inline":
        graft = cut(document, "layer", body=wrong).document
    else:  # the same mistake in the callee of a mirror cut
        mirror = cut(document, "layer", style="mirror", body="identity", block=BLOCK)
        callee = mirror.text.decode().split(mirror.callee, 1)[1]
        wrongly = callee.replace("{%r22, %r23}", "{%r20, %r21}", 1)
        assert wrongly != callee
        graft = Document.parse(mirror.text.decode().replace(callee, wrongly))
    found = bisect(recorded, graft, document)
    assert (found.stage, found.register, found.line) == ("p0", "%r32", line_of(document, LAST_MMA["p0"]))
    assert found.checked == ["a", "p0"] and (found.block, found.warp) == ((0, 0, 0), 0)
    expected = consult(make_oracle(document, "layer", ["p0"]), recorded).stages["p0"]["%r32"]
    assert found.expected == int(expected[0, 0, found.lane]) and found.found != found.expected


def test_the_first_lane_is_named(recorded, document, engine):
    wrong = edited(document, ("mma.sync.aligned.m16n8k8", """.reg .pred %p<2>;
	setp.eq.u32 %p1, %r5, 101;
	@%p1 xor.b32 %r38, %r38, 1;
	mma.sync.aligned.m16n8k8"""))  # fmt: skip
    found = bisect(recorded, wrong, document, stages=["p2"], engine=engine)
    assert (found.stage, found.block, found.warp) == ("p2", (1, 0, 0), 1)
    assert found.lane == 4  # lanes 4 to 7 share a row of A


def test_a_phase_that_a_graft_replaced_is_skipped_and_the_border_behind_it_found(recorded, document):
    good = """.reg .b32 z; mov.u32 z, 0;
	mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r38, %r39}, {%r34, %r35, %r36, %r37}, {%r25, %r26}, {%r27, %r28};
	add.u32 z, z, 1;"""
    wrong = "mov.u32 %r38, %r34; mov.u32 %r39, %r35;"
    assert bisect(recorded, cut(document, "layer", region="phase 1", body=text_body(good)), document).stage is None
    found = bisect(recorded, cut(document, "layer", region="phase 1", body=text_body(wrong)), document)
    assert (found.stage, found.register, found.line) == ("out", "%r38", line_of(document, LAST_MMA["p1"]))
    assert found.checked == ["p0", "a", "out"]
    assert found.skipped == {"p1": "the graft has 2 phases, the original 3; this one was replaced"}


def test_a_right_body_with_other_phases_differs_nowhere(recorded, document):
    # Phase 1 split in two by an instruction: four phases stand for three.
    split = edited(document, ("\tmma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r32", "\tadd.u32 %r50, %r24, 0;\n\tmma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r32"))  # fmt: skip
    found = bisect(recorded, split, document)
    assert found.stage is None and "p1" in found.checked and "p2" in found.checked


def test_a_body_without_any_phase_is_judged_at_its_borders(recorded, document):
    found = bisect(recorded, cut(document, "layer", body=text_body("mov.u32 %r42, %r14; mov.u32 %r43, %r15;")), document)
    assert (found.stage, found.checked) == ("out", ["a", "out"]) and set(found.skipped) == {"p0", "p1", "p2"}


def test_a_mistake_behind_the_last_stage_shows_in_the_outputs(recorded, document):
    graft = edited(document, (STORE, STORE.replace("{%r42, %r43}", "{%r42, %r41}")))
    found = bisect(recorded, graft, document)
    assert found.stage is None and found.checked == ALL and found.exit_code == 1 and "but the outputs do" in str(found)


def test_a_replaced_region_that_goes_on_behind_the_last_phase_ends_where_it_ends(recorded, document):
    body = text_body(""".reg .b32 z; mov.u32 z, 0;
	mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r42, %r43}, {%r38, %r39}, {%r41}, {%r38, %r39};
	shl.b32 %r44, %r5, %r63; xor.b32 %r44, %r44, 8;""")
    found = bisect(recorded, cut(document, "layer", region="71-72", body=body), document)
    assert (found.stage, found.register, found.line) == ("out", "%r44", line_of(document, "shl.b32 \t%r44"))


def test_a_graft_that_only_leaves_something_out_is_paired_around_it(recorded, document):
    gone = edited(
        document,
        ("\tmma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%r38, %r39}, {%r34, %r35, %r36, %r37}, {%r25, %r26}, {%r27, %r28};\n", ""),
    )
    found = bisect(recorded, gone, document)
    assert (found.stage, found.checked, set(found.skipped)) == ("p2", ["p0", "a", "out", "p2"], {"p1"})


def test_a_store_that_is_missing_shows_although_the_buffer_held_the_right_value(document, recorded):
    again = record(document, out=np.asarray(recorded.after(2)).view(np.float16).reshape(4, 32, 4).copy())
    assert bisect(again, edited(document, (STORE, "")), document, stages=["p2"]).exit_code == 1


def test_a_store_that_is_missing_shows_in_the_outputs(recorded, document):
    found = bisect(recorded, edited(document, (STORE, "")), document, stages=["p2"])
    assert found.stage is None and found.exit_code == 1
    assert str(found) == (
        "no stage differs (1 compared: p2), but the outputs do: no register of a stage holds what differs; "
        "none of the 3 statements there that both have gives another result"
    )


def test_lanes_that_never_come_are_a_difference(recorded, document):
    gone = edited(document, ("\tld.global.nc.v2.u32 \t{%r25", "\t.reg .pred %p<2>;\n\tsetp.eq.u32 %p1, %r4, 1;\n\t@%p1 ret;\n\tld.global.nc.v2.u32 \t{%r25"))  # fmt: skip
    found = bisect(recorded, gone, document)
    assert (found.stage, found.block, found.warp, found.lane, found.found) == ("p1", (0, 0, 0), 1, 0, None)
    assert found.expected is not None and "found nothing, the lane never came there" in str(found)
    assert found.values_differing == 2 * 32


def test_stages_can_be_chosen_and_must_exist(recorded, document):
    assert bisect(recorded, document, stages=["p2", "a"]).checked == ["a", "p2"]
    with pytest.raises(UsageError, match="the original has no stage 'p9'; its stages are a, p0, p1, p2, out"):
        bisect(recorded, document, stages=["p9"])


def test_an_entry_without_tensor_cores_has_no_stages(recorded):
    plain = Document.parse(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry layer()\n{\n\tret;\n}\n", "plain.ptx")
    with pytest.raises(UsageError, match="'layer' has no tensor-core instruction, so it has no stages"):
        bisect(recorded, plain, plain, stages=["a"])


def test_many_stages_are_read_in_several_runs(recorded, document, monkeypatch):
    import importlib

    module = importlib.import_module("ptxgraft.verify.bisect")
    wrong = edited(document, EDITS["p2"])
    whole = bisect(recorded, wrong, document)
    monkeypatch.setattr(module, "BUFFER_BYTES", 1)
    split = bisect(recorded, wrong, document)
    assert replace(split) == replace(whole) and split.stage == "p2"


def test_a_probed_run_leaves_the_outputs_alone(recorded, document, engine):
    readings = consult(make_oracle(document, "layer"), recorded, engine=engine)
    for a, b in zip(readings.outputs, replay(recorded, engine=engine).outputs, strict=True):
        assert a.name == b.name
        np.testing.assert_array_equal(a.data, b.data)
    assert list(readings.stages) == ALL and all(s.all() for s in readings.stored.values())
    assert {r: v.shape for r, v in readings.stages["p2"].items()} == {"%r42": (2, 2, 32), "%r43": (2, 2, 32)}


def test_another_modules_function_as_body(recorded, document):
    made = cut(document, "layer", style="mirror", body="identity", block=BLOCK)
    again = cut(document, "layer", style="mirror", body=function_body(made.document, made.callee), block=BLOCK)
    assert bisect(recorded, again, document).stage is None


def test_sentences():
    assert str(Bisection(None, checked=["a", "out"])) == "no stage differs (2 compared: a, out)"
    assert Bisection(None, outputs=Verdict("differs", 1, 1)).exit_code == 1


def test_a_skipped_stage_says_why_and_not_which_option_a_probe_takes(recorded, document):
    """Without its stores the layer reads nothing behind its region."""
    found = bisect(recorded, edited(document, (STORE, ""), (SURFACE_STORE, "")), document, engine="numpy")
    assert found.skipped == {"out": "in the graft, the region has no live-outs: there is nothing to store"}
