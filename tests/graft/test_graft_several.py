"""Several regions of an entry in one edit, and one region in all variants of a kernel."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest
from graft_kernels import MMA, document, run_mma
from style_kernels import kernel, run

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import STYLES, assemble, cut, find_ptxas, function_body, text_body
from ptxgraft.text import Document

needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")


def line(module: Document, text: str) -> int:
    return next(n for n, row in enumerate(module.text.splitlines(), 1) if text in row)


# -- several regions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("style", STYLES)
def test_phases_cut_one_by_one_in_one_edit(style: str):
    source = kernel("phases")
    made = cut(source.document, "k", ["p0", "p3", "p1"], style=style, body="identity")
    assert [c.region.mma for c in made] == [3, 1, 1]
    assert len({c.callee for c in made}) == (1 if style == "inline" else 3)
    assert made.document is made[0].document is made[2].document
    for engine in ("numpy", "warp"):
        assert run(made.document, engine) == source.expected[engine]
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, result.log


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
def test_neighbouring_regions_keep_apart(style: str):
    source = kernel("wide")
    first = line(source.document, "mul.rn.f64")
    regions = [(first, first + 3), (first + 4, first + 7), (first + 8, first + 8)]
    made = cut(source.document, "k", list(regions), style=style, body="identity")
    spans = [tuple(s.start for s in c.block_statements) for c in made]
    assert spans == sorted(spans) and all(a[1] < b[0] for a, b in pairwise(spans))
    assert run(made.document, "numpy") == source.expected["numpy"]


def test_each_region_has_its_own_body():
    module = kernel("wide").document
    first = line(module, "mul.rn.f64")
    bodies = [text_body("mul.rn.f64 %d3, %d1, 0d3FE0000000000000;"), None]
    made = cut(module, "k", [(first, first), (first + 2, first + 2)], body=bodies)
    assert run(made.document, "numpy") == kernel("wide").expected["numpy"]
    assert made[0].body is bodies[0]
    with pytest.raises(UsageError, match="2 regions and 1 bodies"):
        cut(module, "k", [(first, first), (first + 2, first + 2)], body=[None])


def test_mirror_cuts_of_one_entry_share_no_rows():
    module = kernel("phases").document
    made = cut(module, "k", ["p0", "p1"], style="mirror", body="identity")
    names = re.findall(rb"\.shared .* (pg_\w+)\[", made.text)
    assert len(names) == len(set(names)) == 2


def test_regions_that_overlap_or_are_none():
    module = kernel("phases").document
    with pytest.raises(UsageError, match=r"lines \d+ to \d+ and lines \d+ to \d+ of 'k' overlap"):
        cut(module, "k", ["p0-p1", "p1"])
    with pytest.raises(UsageError, match="no region is named"):
        cut(module, "k", [])


# -- siblings ----------------------------------------------------------------------------------------------------------


def variant(text: str, name: str) -> str:
    """The entry alone, as another compilation of the kernel might give it: another name, other registers, another prologue."""
    entry = text[text.index(".visible .entry") :].replace("product(", f"{name}(")
    entry = re.sub(r"%r(\d+)", lambda m: f"%r{(int(m[1]) * 7 + 3) % 40}", entry)
    entry = re.sub(r"%f(\d+)", lambda m: f"%f{39 - int(m[1])}", entry)
    return entry.replace("\tmov.u32 ", "\tmov.b32 ", 1).replace("\tld.param.u64", "\tld.param.b64")


ENTRY = MMA[MMA.index(".visible .entry") :]
OTHER = variant(MMA, "product_b")
BOTH = MMA + "\n" + OTHER


def test_the_variant_is_one():
    assert "%r<40>" in OTHER and "%f<40>" in OTHER and OTHER != ENTRY
    module = document(BOTH.replace("entry product(", "entry product_a(").replace("product_b(", "product("))
    assert (run_mma(module) == run_mma(document(MMA))).all()


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("region", [None, "p0"])
def test_a_region_is_found_in_a_sibling_and_gives_its_bytes(style: str, region: str | None):
    module = document(BOTH)
    made = cut(module, "product", region, style=style, body="identity", siblings=["product_b"])
    assert [c.entry for c in made] == ["product", "product_b"]
    assert made[0].region.statements == made[1].region.statements
    assert [p.type for p in made[0].interface.passed] == [p.type for p in made[1].interface.passed]
    expected = run_mma(document(MMA))
    assert (run_mma(made.document) == expected).all()
    other = document(made.text.decode().replace("entry product(", "entry product_a(").replace("entry product_b(", "entry product("))
    assert (run_mma(other) == expected).all()


def test_registers_are_read_off_each_variant_in_one_order():
    made = cut(document(BOTH), "product", style="mirror", siblings=["product_b"])
    ours, theirs = ([p.register.name for p in c.interface.passed if p.register is not None] for c in made)
    names = dict(zip(ours, theirs, strict=True))
    assert len(names) == len(set(names.values())) == len(ours)
    assert all(names[n] == f"%r{(int(n[2:]) * 7 + 3) % 40}" for n in ours if n.startswith("%r") and not n.startswith("%rd"))
    assert made[0].callee == made[1].callee
    assert made.text.count(b".extern .func") == 1


@needs_ptxas
@pytest.mark.parametrize("style", STYLES)
def test_siblings_assemble(style: str):
    for body in ("identity", None):
        result = assemble(cut(document(BOTH), "product", style=style, body=body, siblings=["product_b"]).document)
        assert result.ok, result.log


def test_one_function_serves_all_siblings():
    module = document(BOTH)
    head = cut(module, "product", "p1", style="call").interface
    params = ", ".join(f".param .{p.type} p{i}" for i, p in enumerate(head.passed))
    body = document(
        f".version 8.0\n.target sm_80\n.address_size 64\n.func (.param .align 16 .b8 back[16]) body({params})\n{{\n\t.reg .b32 %r<9>;\n"
        "\tld.param.b32 %r1, [p0];\n\tst.param.b32 [back+0], %r1;\n\tst.param.b32 [back+4], %r1;\n\tst.param.b32 [back+8], %r1;\n"
        "\tst.param.b32 [back+12], %r1;\n\tret;\n}\n",
        "body.ptx",
    )
    made = cut(module, "product", "p1", style="call", body=function_body(body, "body"), siblings=["product_b"])
    assert made.text.count(b".func (") == 1
    assert made[0].callee == made[1].callee
    other = document(made.text.decode().replace("entry product(", "entry product_a(").replace("entry product_b(", "entry product("))
    assert (run_mma(made.document) == run_mma(other)).all()


def test_siblings_in_another_module():
    head = MMA[: MMA.index(".visible")]
    first, second = document(MMA), document(head + OTHER, "other.ptx")
    made = cut(first, "product", style="call", siblings=[(second, "product_b")])
    assert [d.functions[-1].name for d in made.documents] == ["product", "product_b"]
    with pytest.raises(UsageError, match="2 modules were cut"):
        _ = made.document
    renamed = document(made.documents[1].text.replace("product_b(", "product("))
    assert (run_mma(renamed) == run_mma(first)).all()


def test_the_first_statement_that_differs_is_named():
    other = OTHER.replace("cvt.rn.f16x2.f32", "cvt.rz.f16x2.f32", 1)
    with pytest.raises(UnsupportedError) as caught:
        cut(document(MMA + other), "product", siblings=["product_b"])
    assert re.search(
        r"'product_b' differs from 'product' at line 86: `cvt.rz.f16x2.f32 .*`, where 'product' has line 40: `cvt.rn.f16x2.f32 %r18, %f11, %f10;` "
        r"\(another statement\); name a variant of the same kernel",
        str(caught.value),
    ), str(caught.value)


def test_a_register_in_another_ones_place_is_named():
    rows = OTHER.splitlines()
    at = next(i for i, row in enumerate(rows) if "cvt.rn.f16x2.f32" in row)
    a, b = re.findall(r"%f\d+", rows[at])
    rows[at] = rows[at].replace(f"{a}, {b}", f"{b}, {a}")
    with pytest.raises(UnsupportedError, match=r"stands where %f\d+ would be another register"):
        cut(document(MMA + "\n" + "\n".join(rows) + "\n"), "product", siblings=["product_b"])


def test_code_behind_the_region_must_match_too():
    other = OTHER.replace("\tst.global.v4.f32", "\tadd.u64 %rd9, %rd9, 0;\n\tst.global.v4.f32")
    with pytest.raises(UnsupportedError, match=r"differs from 'product' behind the region at line \d+: `add.u64 %rd9, %rd9, 0;`"):
        cut(document(MMA + "\n" + other), "product", siblings=["product_b"])


def test_an_entry_that_is_no_variant():
    other = ".visible .entry empty()\n{\n\tret;\n}\n"
    with pytest.raises(UnsupportedError, match="'empty' has no statement like line 34"):
        cut(document(MMA + other), "product", siblings=["empty"])
    with pytest.raises(UsageError, match="an entry is named twice"):
        cut(document(MMA), "product", siblings=["product"])
    with pytest.raises(UsageError, match="several regions and siblings do not go together"):
        cut(document(BOTH), "product", ["p0", "p1"], siblings=["product_b"])  # pyright: ignore


# -- a region in a called function -------------------------------------------------------------------------------------

CALLED = """\
.version 8.0
.target sm_80
.address_size 64
.func (.param .align 16 .b8 back[16]) multiply(.param .b32 a, .param .b32 b)
{
	.reg .b32 %r<9>;
	.reg .f32 %f<9>;
	ld.param.b32 %r1, [a];
	ld.param.b32 %r2, [b];
	mov.f32 %f0, 0f3F800000;
	mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2}, {%r2}, {%f0, %f0, %f0, %f0};
	st.param.v4.f32 [back], {%f1, %f2, %f3, %f4};
	ret;
}
.visible .entry k(.param .u64 input, .param .u64 output)
.maxntid 64
{
	.reg .b32 %r<9>;
	.reg .f32 %f<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [input];
	ld.param.u64 %rd2, [output];
	mov.u32 %r1, %tid.x;
	mad.wide.u32 %rd3, %r1, 16, %rd1;
	mad.wide.u32 %rd4, %r1, 64, %rd2;
	ld.global.v2.u32 {%r2, %r3}, [%rd3];
	{
		.param .b32 p0;
		st.param.b32 [p0], %r2;
		.param .b32 p1;
		st.param.b32 [p1], %r3;
		.param .align 16 .b8 got[16];
		call.uni (got), multiply, (p0, p1);
		ld.param.v4.f32 {%f1, %f2, %f3, %f4}, [got];
	}
	st.global.v4.f32 [%rd4], {%f1, %f2, %f3, %f4};
	ret;
}
"""


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
def test_a_region_in_a_called_function_is_the_calls_block(style: str):
    module = document(CALLED)
    made = cut(module, "k", style=style, body="identity")
    assert (made.region.first_line, made.region.last_line) == (27, 35)
    assert run(made.document, "numpy") == run(module, "numpy")
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, result.log
