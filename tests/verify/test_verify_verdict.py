"""Original against graft on the small layer: the verdict, and the explanation of the first difference down to lane, line and phase."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from small_layer import BLOCK, OUT, STORE, SURFACE, SURFACE_STORE, edited, record

from ptxgraft import capture
from ptxgraft.errors import KernelFault, SourceError, UsageError
from ptxgraft.graft import cut, identity_body, text_body, wrong_fragment_body
from ptxgraft.run import Module, capture_of, execute, snapshot
from ptxgraft.text import Document
from ptxgraft.verify import Options, document_of, recorded_outputs, replay, verify


def line_of(document: Document, text: str) -> int:
    return document.line(document.text.index(text.strip()))


def test_a_replay_leaves_what_was_recorded_on_both_engines(recorded, engine):
    ran = replay(recorded, engine=engine)
    for found, expected in zip(ran.outputs, recorded_outputs(recorded), strict=True):
        assert found.name == expected.name
        np.testing.assert_array_equal(found.data, expected.data)
    assert {o.name: o.data.size for o in ran.outputs} == {
        "allocation 0": 2048, "allocation 1": 2560, OUT: 1024, SURFACE: 1024,
    }  # fmt: skip


def test_a_replay_does_not_change_the_capture(recorded):
    before = [np.array(a.before) for a in recorded.allocations]
    replay(recorded)
    for a, b in zip(recorded.allocations, before, strict=True):
        np.testing.assert_array_equal(a.before, b)


def test_the_module_against_itself_is_the_same(recorded, document, engine):
    verdict = verify(recorded, document, options=Options(engine))
    assert (verdict.verdict, verdict.bytes_compared, verdict.bytes_differing, verdict.first) == ("same", 6656, 0, None)
    assert verdict.poisoned == [OUT, SURFACE] and verdict.warnings == []


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_identity_grafts_are_the_same(recorded, document, style, engine):
    made = cut(document, "layer", style=style, body=identity_body(), block=BLOCK)
    for against in ("original", "recorded"):
        assert verify(recorded, made, options=Options(engine, against=against)).verdict == "same"


def test_a_difference_is_explained_by_block_warp_lane_line_and_phase(recorded, document, engine):
    # Lane 5 of warp 1 of block 1 alone stores something else.
    wrong = edited(document, (STORE, f"""{STORE}\t.reg .pred %p<2>;
	setp.eq.u32 %p1, %r5, 101;
	@%p1 st.global.u32 [%rd12+4], %r24;
"""))  # fmt: skip
    verdict = verify(recorded, wrong, options=Options(engine))
    first = verdict.first
    assert verdict.verdict == "differs" and first is not None and first.writer is not None and first.expected_writer is not None
    assert verdict.bytes_differing == sum(o.bytes_differing for o in verdict.outputs) > 0
    assert (first.output, first.element) == (OUT, "word 203") and first.found == "00000000"
    assert (first.writer.block, first.writer.warp, first.writer.lane) == ((1, 0, 0), 1, 5)
    assert first.writer.line == line_of(wrong, "@%p1 st.global") and first.writer.statement == "@%p1 st.global.u32 [%rd12+4], %r24"
    assert (first.expected_writer.block, first.expected_writer.warp, first.expected_writer.lane) == ((1, 0, 0), 1, 5)
    assert first.expected_writer.line == line_of(document, STORE)
    assert first.writer.phases == [] and first.expected_writer.phases == [2] and first.phase == 2
    assert str(verdict).endswith("descends from phase 2 of the original") and ";;" not in str(verdict)
    lines = f"at line {first.writer.line} of the graft (line {first.expected_writer.line} of the original): @%p1 st.global"
    assert f"block (1, 0, 0) warp 1 lane 5 {lines}" in str(verdict) and "found 00 00 00 00; " in str(verdict)


def test_a_surface_difference_names_the_texel(recorded, document, engine):
    wrong = edited(document, (SURFACE_STORE, SURFACE_STORE.replace("{%r42, %r43}", "{%r42, %r41}")))
    first = verify(recorded, wrong, options=Options(engine)).first
    assert first is not None and first.writer is not None
    assert (first.output, first.element) == (SURFACE, "texel x 0 y 0 channel 2")
    assert (first.writer.block, first.writer.warp, first.writer.lane) == ((0, 0, 0), 0, 0)
    assert first.writer.line == line_of(wrong, "sust.b") and first.writer.phases == [2]


@pytest.mark.parametrize(("phase", "fragment"), [(0, 1)])
def test_a_wrong_fragment_differs(recorded, document, phase, fragment, engine):
    made = cut(document, "layer", body=wrong_fragment_body(document, "layer", phase, fragment))
    verdict = verify(recorded, made, options=Options(engine))
    assert verdict.verdict == "differs" and verdict.exit_code == 1


def test_a_byte_that_is_never_written_shows_although_the_buffer_held_the_right_value(document, recorded, engine):
    # The capture was taken when the buffer already held this launch's results, as in a program that runs every frame.
    again = record(document, out=np.asarray(recorded.after(2)).view(np.float16).reshape(4, 32, 4).copy())
    np.testing.assert_array_equal(again.before(2), again.after(2))
    for gone, output in ((STORE, OUT), (SURFACE_STORE, SURFACE)):
        verdict = verify(again, edited(document, (gone, "")), options=Options(engine))
        assert verdict.first is not None and verdict.first.output == output and verdict.first.writer is None
        assert verdict.first.found == "a5" * (len(verdict.first.found) // 2)
        assert "nothing was stored there, the reference stores it by block (0, 0, 0) warp 0 lane 0" in str(verdict)
    assert verify(again, edited(document, (STORE, "")), options=Options(engine, poison=False)).verdict == "same"


def test_against_what_was_recorded_nothing_is_poisoned(recorded, document):
    wrong = edited(document, (STORE, ""))
    verdict = verify(recorded, wrong, options=Options(against="recorded"))
    assert verdict.poisoned == [] and verdict.first is not None and verdict.first.found == "80488048"


def test_what_was_recorded_may_be_a_part(recorded, document):
    part = replace(recorded, allocations=[a if a.index == 2 else replace(a, after=None) for a in recorded.allocations], surfaces=[
        replace(s, after=None) for s in recorded.surfaces
    ])  # fmt: skip
    verdict = verify(part, document, options=Options(against="recorded"))
    assert (verdict.verdict, verdict.bytes_compared) == ("same", 1024)
    nothing = replace(part, allocations=[replace(a, after=None) for a in part.allocations])
    with pytest.raises(UsageError, match=r"nothing to compare: launch 7 \(layer\) has no state recorded after it"):
        verify(nothing, document, options=Options(against="recorded"))


def test_one_output_can_be_asked_for(recorded, document):
    wrong = edited(document, (STORE, ""))
    assert verify(recorded, wrong, options=Options(outputs=(SURFACE,))).verdict == "same"
    assert verify(recorded, wrong, options=Options(outputs=(OUT,))).verdict == "differs"


def test_a_tolerance_comes_with_the_verdict(recorded, document):
    wrong = edited(document, ("max.f16x2 \t%r35, %r31, %r24;", "mov.b32 \t%r35, %r31;"))
    assert verify(recorded, wrong).verdict == "differs"
    verdict = verify(recorded, wrong, options=Options(tolerance=1e4, values="f16"))
    assert verdict.verdict == "same" and verdict.tolerance == 1e4
    assert len(verdict.warnings) == 4 and all("the comparison says nothing" in w for w in verdict.warnings)


def test_another_module_of_the_same_kernel_name_is_told(recorded, document):
    other = Document.parse(document.data + b"// another build\n", "other.ptx")
    verdict = verify(recorded, document, original=other)
    assert verdict.verdict == "same"
    assert verdict.warnings == ["other.ptx is not the module that launch 7 (layer) was recorded with; only the kernel's name is the same"]


def test_a_graft_that_faults_names_its_own_line(recorded, document, engine):
    wrong = edited(document, ("add.s64 \t%rd12, %rd3, %rd11;", "add.s64 \t%rd12, %rd3, 4096;"))
    with pytest.raises(KernelFault, match=r"^edited\.ptx:75:2: writes 8 bytes at .*block \(0, 0, 0\), warp 0, lane 0"):
        verify(recorded, wrong, options=Options(engine))


def test_a_capture_without_the_module_needs_one_given(recorded, document):
    bare = replace(recorded, module=None, module_hash=None)
    with pytest.raises(SourceError, match=r"launch 7 \(layer\): the capture does not hold the kernel's module; give the PTX file"):
        verify(bare, document)
    assert verify(bare, document, original=document).verdict == "same"
    with pytest.raises(SourceError, match="the module in the capture is empty"):
        document_of(replace(recorded, module=b" \n", module_hash=None))


def test_an_unknown_against_is_refused():
    with pytest.raises(UsageError, match="cannot compare against 'theirs'; one of original, recorded"):
        Options(against="theirs")


def test_a_launch_that_leaves_nothing_cannot_be_verified():
    empty = Document.parse(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry nothing()\n{\n\tret;\n}\n")
    launch = capture.Launch(0, "nothing", (1, 1, 1), (32, 1, 1), b"", module=empty.data)
    assert replay(launch).outputs == []
    with pytest.raises(UsageError, match="nothing to compare: the launch has no output"):
        verify(launch, empty)


def test_a_native_body_without_phases_is_judged_by_its_outputs(recorded, document):
    body = text_body("mov.u32 %r42, %r14; mov.u32 %r43, %r15;")
    verdict = verify(recorded, cut(document, "layer", body=body))
    assert verdict.verdict == "differs" and verdict.first is not None
    assert verdict.first.writer is not None and verdict.first.writer.phases == [] and verdict.first.phase == 2


COUNTER = """.version 7.0
.target sm_70
.address_size 64
.global .align 4 .u32 counter[4] = {5, 6, 7, 8};
.const .align 4 .u32 step = 3;
.visible .entry count()
{
	.reg .b32 %r<4>;
	.reg .b64 %rd<4>;
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd1, %r1, 4;
	mov.u64 %rd2, counter;
	add.s64 %rd3, %rd2, %rd1;
	ld.global.u32 %r2, [%rd3];
	ld.const.u32 %r3, [step];
	add.u32 %r2, %r2, %r3;
	st.global.u32 [%rd3], %r2;
	ret;
}
"""


def test_module_variables_are_outputs_too(engine):
    module = Document.parse(COUNTER, "counter.ptx")
    prepared = Module(module).kernel("count").prepare(1, 4, [])
    before = snapshot(prepared.launch)
    execute(prepared.launch, engine=engine)
    launch = capture_of(prepared.launch, before)
    assert {v.name: np.asarray(v.after).view(np.uint32).tolist() for v in launch.variables}["counter"] == [8, 9, 10, 11]
    assert verify(launch, module, engine=engine).verdict == "same"
    wrong = Document.parse(COUNTER.replace("add.u32 %r2, %r2, %r3;", "add.u32 %r2, %r2, %r1;"))
    for against in ("original", "recorded"):
        first = verify(launch, wrong, engine=engine, against=against).first
        assert first is not None and first.writer is not None
        assert (first.output, first.element, first.expected, first.found) == ("variable 'counter'", "word 0", "08000000", "05000000")
        assert (first.writer.lane, first.writer.line) == (0, 17)
