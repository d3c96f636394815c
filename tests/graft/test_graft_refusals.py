"""What cannot be cut is refused with the statement, its line and a way out."""

from __future__ import annotations

import pytest
from graft_kernels import MIXED, MMA, document

from ptxgraft.errors import SourceError, UnsupportedError, UsageError
from ptxgraft.graft import Body, cut, probe, text_body

SMALL = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<4>;
	.reg .b128 %q<2>;
{body}
	ret;
}}
"""


def small(body: str):
    return document(SMALL.format(body="\n".join("\t" + row for row in body.strip().splitlines())), "small.ptx")


def refusal(module, entry: str, region, style: str = "inline", **more) -> str:
    with pytest.raises(UnsupportedError) as caught:
        cut(module, entry, region, style=style, **more)
    return str(caught.value)


JUMP_IN = """\
.version 7.0
.target sm_80
.address_size 64
.visible .entry jump_in(.param .u64 p)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .b64 %rd<2>;
	.reg .f32 %f<9>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	setp.eq.u32 %p1, %r1, 77;
	@%p1 bra INSIDE;
	mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r2,%r3}, {%r4}, {%f1,%f2,%f3,%f4};
INSIDE:
	add.f32 %f1, %f1, 0f3F800000;
	mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1,%f2,%f3,%f4}, {%r2,%r3}, {%r4}, {%f1,%f2,%f3,%f4};
	st.global.f32 [%rd1], %f1;
	ret;
}
"""


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
def test_a_branch_into_the_region(style: str):
    module = document(JUMP_IN, "jump.ptx")
    assert refusal(module, "jump_in", None, style, block=(32, 1, 1)) == (
        "jump.ptx:13:2: lines 14 to 17 of 'jump_in' cannot be cut: line 13: `@%p1 bra INSIDE;` branches into the region; "
        "choose lines that hold the branch and its target, or neither of them"
    )


def test_a_branch_out_of_the_region():
    module = small("setp.eq.u32 %p1, %r1, 0;\n@%p1 bra OUT;\nmov.u32 %r2, 1;\nmov.u32 %r3, 2;\nOUT:\nst.global.u32 [%rd1], %r2;")
    assert refusal(module, "k", (10, 12)) == (
        "small.ptx:11:2: lines 10 to 12 of 'k' cannot be cut: line 11: `@%p1 bra OUT;` branches out of the region; "
        "choose lines that hold the branch and its target, or neither of them"
    )
    cut(module, "k", (10, 13))  # its end is where the branch goes: it leaves as falling out does


@pytest.mark.parametrize("statement", ["ret", "exit", "trap", "@%p1 ret.uni"])
def test_leaving_inside_the_region(statement: str):
    module = small(f"mov.u32 %r1, 1;\n{statement};\nmov.u32 %r2, %r1;\nst.global.u32 [%rd1], %r2;")
    assert refusal(module, "k", (10, 12)) == (
        f"small.ptx:11:2: lines 10 to 12 of 'k' cannot be cut: line 11: `{statement};` leaves the region; choose lines that end before it"
    )


def test_an_unknown_instruction():
    module = small("mov.u32 %r1, 1;\nfrobnicate.b32 %r2, %r1;\nst.global.u32 [%rd1], %r2;")
    assert refusal(module, "k", (10, 11)) == (
        "small.ptx:11:2: lines 10 to 11 of 'k' cannot be cut: line 11: `frobnicate.b32 %r2, %r1;` is not known, its effects cannot be carried; "
        "choose lines without it"
    )


def test_many_reasons_are_counted():
    module = small("mov.u32 %r1, 1;\n" + "frob.b32 %r2, %r1;\n" * 5 + "st.global.u32 [%rd1], %r2;")
    assert refusal(module, "k", (10, 15)).count("frob") == 3
    assert "; and 2 more" in refusal(module, "k", (10, 15))


def test_shared_memory_has_a_limit():
    rows = "\n".join(f"ld.global.u32 %s{i}, [%rd1];" for i in range(500))
    uses = "\n".join(f"st.global.u32 [%rd1], %s{i};" for i in range(500))
    module = document(SMALL.format(body=f".reg .b32 %s<500>;\nld.param.u64 %rd1, [out];\n{rows}\n{uses}"), "wide.ptx")
    with pytest.raises(
        UnsupportedError, match=r"needs 64000 bytes of shared memory for its results beside the 0 that 'k' has; 49152 are allowed"
    ):
        cut(module, "k", (12, 511), style="mirror", block=(32, 1, 1))


def test_the_block_size_must_be_known():
    module = small("mov.u32 %r1, 1;\nst.global.u32 [%rd1], %r1;")
    with pytest.raises(UsageError) as caught:
        cut(module, "k", (10, 10), style="mirror")
    assert str(caught.value) == (
        "'k' states no block size (.reqntid or .maxntid), and the mirror style sizes its shared rows by it; give the block: --block 32,1,4, in Python block=(32, 1, 4)"
    )
    made = cut(module, "k", (10, 10), style="mirror", block=(48, 1, 1))
    assert "pg_mirror[256]" in made.text.decode()
    assert "a launch with more than 2 warps a block would run past it" in made.notes[-1]


def test_what_a_callee_cannot_see():
    module = small("mov.u64 %rd2, out;\nld.param.u64 %rd1, [%rd2];\nst.global.u32 [%rd1], %r1;")
    assert refusal(module, "k", (10, 11), "mirror", block=(32, 1, 1)) == (
        "small.ptx:10:2: `mov.u64 %rd2, out;` takes the address of the entry's parameter 'out', which no callee sees; "
        "choose lines without it, or use the inline style"
    )
    cut(module, "k", (10, 11), style="inline")


def test_half_a_call():
    module = document(MIXED)
    first = MIXED.splitlines().index("\t\tst.param.b32 [p0], %r16;") + 1
    assert "uses 'p0', a call's parameter declared outside the region, which no callee sees" in refusal(
        module, "mixed", (first, first + 2), "mirror"
    )


@pytest.mark.parametrize(
    ("region", "message"),
    [
        ((1, 3), "line 1 is outside the body of 'product', which is lines 7 to 50"),
        ((46, 47), None),
        ((47, 46), "lines 47 to 46 of 'product' hold no statement"),
        ("phase 2", "'product' has no phase 2; its phases are 0 to 1"),
        ("phases 1-0", "'product' has no phases 1-0; its phases are 0 to 1"),
        (
            "everything",
            "region 'everything' is not understood; name 'p3', 'p3-p5', lines as '120-340', or 'label LOOP' or 'label LOOP-DONE'",
        ),
    ],
)
def test_regions_that_mean_nothing(region, message):
    module = document(MMA)
    if message is None:
        cut(module, "product", region)
        return
    with pytest.raises(UsageError) as caught:
        cut(module, "product", region)
    assert str(caught.value) == message


def test_an_entry_without_tensor_cores_needs_lines():
    with pytest.raises(UsageError) as caught:
        cut(document(MIXED), "mixed")
    assert str(caught.value) == "'mixed' has no tensor-core instruction; name the region's first and last line"


def test_unknown_styles_and_bodies():
    module = document(MMA)
    with pytest.raises(UsageError, match="style 'paste' is not known; styles are inline, call, mirror, phases"):
        cut(module, "product", style="paste")
    with pytest.raises(UsageError, match="body 'nothing' is not known"):
        cut(module, "product", body="nothing")
    with pytest.raises(UsageError, match="the mirror style takes no block of PTX text"):
        cut(module, "product", style="mirror", body=text_body("mov.u32 %r1, 1;"))
    with pytest.raises(UsageError, match="the body's text is empty"):
        text_body("  \n")
    assert Body("identity").replaced == {}


def test_a_text_body_may_touch_nothing_but_the_interface():
    module = small("mov.u32 %r5, 9;\nmov.u32 %r1, 1;\nadd.u32 %r2, %r1, %r6;\nst.global.v2.u32 [%rd1], {%r2, %r5};")
    with pytest.raises(SourceError) as caught:
        cut(module, "k", (11, 12), body=text_body("mov.u32 %r5, 3;\nmov.u32 %r2, 4;"))
    assert str(caught.value).endswith(
        "the body writes %r5, which is no live-out of the region; declare a register of the body's own, as in `.reg .b32 x;`"
    )
    with pytest.raises(SourceError, match=r"the body reads %r5, which is no live-in of the region"):
        cut(module, "k", (11, 12), body=text_body("mov.u32 %r2, %r5;"))
    with pytest.raises(SourceError, match=r"'%r99' is neither a declared register nor a special register"):
        cut(module, "k", (11, 12), body=text_body("mov.u32 %r2, %r99;"))
    made = cut(module, "k", (11, 12), body=text_body(".reg .b32 x;\nmov.u32 x, %r6;"))
    assert made.notes == ["the body never writes the live-out %r2"]


@pytest.mark.parametrize("style", ["call", "mirror"])
def test_a_register_that_words_do_not_carry_is_named_with_its_statement(style: str):
    module = small("mov.b128 %q1, {%rd1, %rd2};\nadd.u32 %r1, %r2, 1;\nmov.b128 {%rd2, %rd3}, %q1;\nst.global.u64 [%rd1], %rd3;")
    assert refusal(module, "k", (11, 12), style, block=(32, 1, 1)) == (
        f"small.ptx:12:2: line 12: `mov.b128 {{%rd2, %rd3}}, %q1;`: the live register %q1 is .b128: the {style} style cannot carry it; "
        "choose other lines, or use the inline style"
    )
    cut(module, "k", (11, 12))
    cut(module, "k", (10, 12), style=style, block=(32, 1, 1))  # it begins and ends inside


def test_a_register_that_words_do_not_carry_cannot_live_over_a_phase():
    text = MMA.replace("\t// first phase\n", "\t.reg .b128 %q;\n\tmov.b128 %q, {%rd1, %rd2};\n\t// first phase\n").replace(
        "\tst.global.v4.f32", "\tmov.b128 {%rd1, %rd2}, %q;\n\tst.global.v4.f32"
    )
    module = document(text)
    assert "`mov.b128 %q, {%rd1, %rd2};`: the live register %q is .b128: the phases style cannot carry it" in refusal(
        module, "product", None, "phases"
    )


def test_a_table_of_labels_is_not_said_to_leave_the_region():
    module = small("t: .branchtargets A, B;\nbrx.idx %r1, t;\nA: add.u32 %r2, %r1, 1;\nB: add.u32 %r3, %r1, 2;")
    assert refusal(module, "k", (11, 13)).endswith(
        "line 11: `brx.idx %r1, t;` branches through a table of labels, which no cut takes along; choose lines before or behind it"
    )


def test_a_probe_names_no_style_where_it_cannot_carry_a_register():
    module = small("mov.b128 %q1, {%rd1, %rd2};")
    with pytest.raises(UnsupportedError, match=r"the live register %q1 is .b128: a probe cannot carry it; name other registers$"):
        probe(module, "k", 10)
