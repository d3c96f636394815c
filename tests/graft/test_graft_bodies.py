"""Bodies: PTX text, functions of other modules in both styles, the deliberately wrong fragment; and what merging a function brings along."""

from __future__ import annotations

import pytest
from graft_kernels import MMA, document, run_mma

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import assemble, cut, find_ptxas, function_body, merge_function, text_body, wrong_fragment_body

MODULE = document(MMA)
LINES = MMA.splitlines()
EXPECTED = run_mma(MODULE)
EPILOGUE = (LINES.index("\tmul.rn.f32 %f10, %f5, %f9;") + 1, LINES.index("\tcvt.rn.f16x2.f32 %r19, %f13, %f12;") + 1)
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")

TEXT = """
.reg .f32 t<4>;
mul.rn.f32 t0, %f5, %f9;
mul.rn.f32 t1, %f6, %f9;
cvt.rn.f16x2.f32 %r18, t1, t0;
mul.rn.f32 t2, %f7, %f9;
mul.rn.f32 t3, %f8, %f9;
cvt.rn.f16x2.f32 %r19, t3, t2;
"""

OTHER = """\
.version 8.3
.target sm_80
.address_size 64

.extern .func (.param .b32 r) vprintf_like(.param .b64 text);
.const .f32 unused_constant = 0f3F800000;
.global .align 4 .f32 one[2] = {0f3F800000, 0f40000000};

.func (.param .b32 value) scaled(.param .b32 x, .param .b32 gain)
{
	.reg .f32 %f<6>;
	.reg .b64 %rd<2>;
	ld.param.f32 %f1, [x];
	ld.param.f32 %f2, [gain];
	mov.u64 %rd1, one;
	ld.global.f32 %f3, [%rd1];
	mul.rn.f32 %f4, %f1, %f2;
	mul.rn.f32 %f5, %f4, %f3;
	st.param.f32 [value], %f5;
	ret;
}

.visible .func (.param .align 4 .b8 back[8]) epilogue(
	.param .b32 x0, .param .b32 x1, .param .b32 x2, .param .b32 x3, .param .b32 gain)
{
	.reg .pred %p<2>;
	.reg .b32 %r<8>;
	.reg .f32 %f<10>;
	.loc 1 5 0
	ld.param.f32 %f5, [x0];
	ld.param.f32 %f6, [x1];
	ld.param.f32 %f7, [x2];
	ld.param.f32 %f8, [x3];
	ld.param.f32 %f9, [gain];
	mul.rn.f32 %f1, %f5, %f9;
	mul.rn.f32 %f2, %f6, %f9;
	cvt.rn.f16x2.f32 %r1, %f2, %f1;
	{
		.param .b32 a;
		.param .b32 b;
		.param .b32 c;
		st.param.f32 [a], %f7;
		st.param.f32 [b], %f9;
		call.uni (c), scaled, (a, b);
		ld.param.f32 %f3, [c];
	}
	mul.rn.f32 %f4, %f8, %f9;
	cvt.rn.f16x2.f32 %r2, %f4, %f3;
	st.param.v2.b32 [back], {%r1, %r2};
	setp.eq.u32 %p1, %r1, %r1;
	@%p1 ret;
	st.param.b32 [back], %r2;
	ret;
}

.visible .func mirrored(
	.param .b32 x0, .param .b32 x1, .param .b32 x2, .param .b32 x3, .param .b32 gain, .param .b32 rows)
{
	.reg .b32 %r<8>;
	.reg .f32 %f<10>;
	ld.param.f32 %f5, [x0];
	ld.param.f32 %f6, [x1];
	ld.param.f32 %f7, [x2];
	ld.param.f32 %f8, [x3];
	ld.param.f32 %f9, [gain];
	ld.param.u32 %r3, [rows];
	mul.rn.f32 %f1, %f5, %f9;
	mul.rn.f32 %f2, %f6, %f9;
	cvt.rn.f16x2.f32 %r1, %f2, %f1;
	mul.rn.f32 %f3, %f7, %f9;
	mul.rn.f32 %f4, %f8, %f9;
	cvt.rn.f16x2.f32 %r2, %f4, %f3;
	mov.u32 %r4, %laneid;
	mad.lo.u32 %r3, %r4, 8, %r3;
	st.shared.b32 [%r3], %r1;
	st.shared.b32 [%r3+4], %r2;
	ret;
}

.visible .entry product(.param .u64 other)
{
	ret;
}
"""
OTHER_MODULE = document(OTHER, "other.ptx")


def check(made) -> None:
    assert (run_mma(made.document) == EXPECTED).all()
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, result.log


def test_a_text_body():
    check(cut(MODULE, "product", EPILOGUE, body=text_body(TEXT)))


def test_a_wrong_text_body_differs():
    made = cut(MODULE, "product", EPILOGUE, body=text_body(TEXT.replace("%f6", "%f5")))
    assert (run_mma(made.document) != EXPECTED).any()


def test_a_function_put_inline():
    made = cut(MODULE, "product", EPILOGUE, body=function_body(OTHER_MODULE, "epilogue"))
    check(made)
    text = made.text.decode()
    assert "call.uni (pg_c), pg_scaled, (pg_a, pg_b);" in text
    assert ".global .align 4 .f32 pg_one[2]" in text
    assert "unused_constant" not in text and "vprintf_like" not in text and ".loc" not in text
    assert "1 .loc lines of other.ptx were left out: they speak of that module's files" in made.notes
    assert made.document.version == (8, 0)  # no instruction of it is later


def test_a_function_that_the_mirror_style_calls():
    made = cut(MODULE, "product", EPILOGUE, style="mirror", body=function_body(OTHER_MODULE, "mirrored"))
    check(made)
    assert made.callee == "pg_mirrored"


def test_functions_must_fit_the_interface():
    with pytest.raises(UsageError) as caught:
        cut(MODULE, "product", EPILOGUE, body=function_body(OTHER_MODULE, "scaled"))
    assert str(caught.value).startswith("'scaled' has 2 parameters, the cut passes 5; expected .func body ( .param .b32 body_f5, ")
    with pytest.raises(UsageError, match=r"has 5 parameters, the cut passes 6"):
        cut(MODULE, "product", EPILOGUE, style="mirror", body=function_body(OTHER_MODULE, "epilogue"))
    with pytest.raises(UsageError, match=r"parameter 0 of 'narrow' is \.b64, the cut passes \.b32 \(%f5, \.f32\)"):
        text = OTHER.replace("mirrored(\n\t.param .b32 x0", "narrow(\n\t.param .b64 x0")
        cut(MODULE, "product", EPILOGUE, style="mirror", body=function_body(document(text), "narrow"))
    wrong = document(OTHER.replace("back[8]", "back[12]"))
    with pytest.raises(UsageError, match=r"returns 12 bytes, the cut has 2 words of live-outs; return a structure of 2 32-bit words"):
        cut(MODULE, "product", EPILOGUE, body=function_body(wrong, "epilogue"))
    odd = document(
        OTHER.replace(
            "ld.param.f32 %f5, [x0];\n\tld.param.f32 %f6, [x1];\n\tld.param.f32 %f7, [x2];\n\tld.param.f32 %f8, [x3];\n\tld.param.f32 %f9, [gain];\n\tmul",
            "ld.param.u16 %r1, [x0];\n\tmul",
            1,
        )
    )
    with pytest.raises(UnsupportedError, match=r"`ld\.param\.u16 %r1, \[x0\];` uses the parameter 'x0' in a way that cannot be put inline"):
        cut(MODULE, "product", EPILOGUE, body=function_body(odd, "epilogue"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("sm_80", "sm_90"), "other.ptx is for sm_90, kernel.ptx for sm_80: code for the later target cannot go into the earlier"),
        (("sm_80", "sm_90a"), "other.ptx is for sm_90a, kernel.ptx for sm_80: code for the later target cannot go into the earlier"),
        ((".address_size 64", ".address_size 32"), "other.ptx has 32-bit addresses, kernel.ptx 64-bit ones"),
        (("sm_80", "sm_80, texmode_independent"), "kernel.ptx and other.ptx have different texture modes"),
    ],
)
def test_modules_that_cannot_go_together(change, message):
    other = document(OTHER.replace(*change, 1), "other.ptx")
    with pytest.raises(UnsupportedError, match=message):
        merge_function(MODULE, other, "scaled")


def test_what_cannot_be_merged():
    with pytest.raises(UsageError, match=r"'product' is an entry: only a \.func with a body can be grafted"):
        merge_function(MODULE, OTHER_MODULE, "product")
    with pytest.raises(UsageError, match="'vprintf_like' has no body"):
        merge_function(MODULE, OTHER_MODULE, "vprintf_like")
    with pytest.raises(UsageError, match="has no function 'missing'"):
        merge_function(MODULE, OTHER_MODULE, "missing")


def test_a_later_instruction_raises_the_version():
    other = document(
        OTHER.replace("mul.rn.f32 %f5, %f4, %f3;", "mul.rn.f32 %f5, %f4, %f3;\n\t.reg .b32 %q;\n\tbmsk.clamp.b32 %q, 1, 2;", 1), "other.ptx"
    )
    module = document(MMA.replace(".version 8.0", ".version 7.0"))
    made = cut(module, "product", EPILOGUE, body=function_body(other, "epilogue"))
    assert made.document.version == (7, 6)
    assert ".version 7.0 was raised to 7.6: bmsk.clamp.b32 of 'scaled' needs it" in made.notes


def test_fresh_names_meet_nothing():
    module = document(MMA.replace("tile", "pg_one").replace("%r18", "%pg_b32_1").replace(".reg .f32", ".reg .b32 %pg_b32_1;\n\t.reg .f32"))
    made = cut(module, "product", None, body="identity")
    assert (run_mma(made.document) == EXPECTED).all()
    merged = merge_function(module, OTHER_MODULE, "scaled")
    assert merged.names["one"] != "pg_one"


def test_the_wrong_fragment_is_wrong_in_one_phase():
    body = wrong_fragment_body(MODULE, "product", 0)
    assert body.note == "wrong on purpose: B fragment 1 of phase 0 is taken from weights+0x0 instead of weights+0x200 (1 mma)"
    made = cut(MODULE, "product", body=body)
    assert (run_mma(made.document) != EXPECTED).any()
    assert body.note in made.notes
    changed = [new for new, old in zip(made.text.decode().splitlines(), range(10**6), strict=False) if "mma.sync" in new]
    assert sum("{%r6, %r7}" in row for row in changed) == 3 and not any("%r8" in row for row in changed)


def test_a_wrong_fragment_that_is_not_there():
    with pytest.raises(UsageError, match="the region of 'product' has no phase 7; its phases are 0 to 1"):
        wrong_fragment_body(MODULE, "product", 7)
    with pytest.raises(UsageError, match="phase 0 has no B fragment 2 with one before it; its B fragments are 0 to 1"):
        wrong_fragment_body(MODULE, "product", 0, fragment=2)
    with pytest.raises(UsageError, match="phase 1 has no B fragment 1"):
        wrong_fragment_body(MODULE, "product", 1)
