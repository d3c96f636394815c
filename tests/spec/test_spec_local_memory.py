"""Provenance through memory that a kernel has for itself: arguments and results of calls, local arrays."""

from __future__ import annotations

import pytest
from spec_kernels import HEAD, LOADS, flow, mma

from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec import LayerSpec, layer_spec
from ptxgraft.text import Document

PRODUCT = """\
.func (.param .align 16 .b8 back[16]) product(.param .align 16 .b8 a[16], .param .align 8 .b8 b[8], .param .align 16 .b8 c[16])
{
	.reg .b32 %r<8>;
	.reg .f32 %f<8>;
	ld.param.v4.b32 {%r1, %r2, %r3, %r4}, [a];
	ld.param.b32 %r5, [b];
	ld.param.b32 %r6, [b+4];
	ld.param.v2.f32 {%f1, %f2}, [c];
	ld.param.v2.f32 {%f3, %f4}, [c+8];
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4};
	st.param.v4.f32 [back], {%f1, %f2, %f3, %f4};
	ret;
}
"""


def call(a: int, b: int, c: list[str], d: int) -> str:
    """A call of ``product``: the first registers of A, B and D, and what C is."""
    rows = [".param .align 16 .b8 x[16]; .param .align 8 .b8 y[8]; .param .align 16 .b8 z[16]; .param .align 16 .b8 back[16];"]
    rows += [f"st.param.b32 [x+{4 * i}], %r{a + i};" for i in range(4)]
    rows += [f"st.param.v2.b32 [y], {{%r{b}, %r{b + 1}}};"]
    rows += [f"st.param.f32 [z+{4 * i}], {value};" for i, value in enumerate(c)]
    rows += ["call (back), product, (x, y, z);", *(f"ld.param.f32 %f{d + i}, [back+{4 * i}];" for i in range(4))]
    return f"{{ {' '.join(rows)} }}"


def spec_of(*rows: str) -> LayerSpec:
    head, entry, rest = HEAD.partition(".visible .entry")
    return layer_spec(Flow(bind(Document.parse(head + PRODUCT + entry + rest + "\n".join(rows) + "\nret;\n}\n"), "k")))


def test_provenance_goes_through_the_arguments_and_results_of_calls():
    ones = ["0f3F800000"] * 4
    made = spec_of(*LOADS, call(10, 20, ones, 11), call(10, 22, [f"%f{11 + i}" for i in range(4)], 21), "st.global.f32 [%rd3], %f21;")
    first, second = made.phases
    assert [str(p.b[0].provenance) for p in made.phases] == ["weights+0x0", "weights+0x200"]
    assert [p.weight_ranges for p in made.phases] == [[(0, 512)], [(512, 1024)]]
    assert [p.a[0].provenance.kind for p in made.phases] == ["input", "input"]
    assert str(first.c[0].provenance) == "constant(0x3f800000)"
    assert str(second.c[0].provenance) == "chain(p0.0)"


@pytest.mark.parametrize(
    ("between", "provenance"),
    [
        ("add.u32 %r40, %r3, 1;", "weights+0x0"),
        ("st.local.b32 [kept+16], %r3;", "weights+0x0"),
        ("st.local.b32 [other], %r3;", "weights+0x0"),
        ("st.shared.b32 [tile], %r3;", "weights+0x0"),
        ("@%p1 bra OVER; st.local.b32 [kept+4], %r3; OVER:", "computed(local memory)"),
        ("st.local.b32 [kept+8], %r3;", "computed(mad.lo.u32, memory)"),
        ("@%p1 st.local.b32 [kept+12], %r3;", "computed(memory, local memory)"),
        ("st.local.b16 [kept+12], %rs1;", "computed(memory, local memory)"),
        ("st.local.b32 [%rd9], %r3;", "computed(local memory)"),
        ("st.b32 [%rd5], %r3;", "computed(local memory)"),
    ],
)
def test_what_local_memory_gives_is_told_where_it_is_certain(between: str, provenance: str):
    kept = (
        ".local .align 16 .b8 kept[64];", ".local .align 16 .b8 other[64];", ".reg .b16 %rs<4>;", "mov.u64 %rd9, kept;", "add.u64 %rd9, %rd9, %rd4;",
        "st.local.v2.b32 [kept+8], {%r20, %r21};",
    )  # fmt: skip
    loads = ("ld.local.b32 %r30, [kept+8];", "ld.local.b32 %r31, [kept+12];")
    facts = flow(*LOADS, *kept, between, *loads, mma("f1", "r10", "r30", "0"), mma("f5", "r10", "r22", "0"))
    assert str(layer_spec(facts).phases[0].b[0].provenance) == provenance


def test_a_loop_may_have_stored_there_since():
    rows = (
        ".local .align 16 .b8 kept[64];", "st.local.v2.b32 [kept], {%r20, %r21};", "AGAIN:", "ld.local.v2.b32 {%r30, %r31}, [kept];",
        mma("f1", "r10", "r30", "0"), "st.local.b32 [kept], %r3;", "@%p1 bra AGAIN;",
    )  # fmt: skip
    facts = flow(*LOADS, *rows, mma("f5", "r10", "r22", "0"))
    assert str(layer_spec(facts).phases[0].b[0].provenance) == "computed(local memory)"
