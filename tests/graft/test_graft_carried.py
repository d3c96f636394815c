"""What a cut carries: registers that a path through the region leaves alone, and the condition code, which no text can name."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import SourceError, UnsupportedError
from ptxgraft.graft import assemble, cut, find_ptxas, probe, text_body
from ptxgraft.isa import bind
from ptxgraft.run import Launch, Module, allocate, execute
from ptxgraft.text import Document

HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
.maxntid 64
{
	.reg .pred %p<4>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<8>;
	ld.param.u64 %rd1, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd2, %r1, 16;
	add.u64 %rd3, %rd1, %rd2;
"""
TAIL = "\tst.global.v4.u32 [%rd3], {%r2, %r3, %r4, %r5};\n\tret;\n}\n"
FIRST = HEAD.count("\n") + 1


def kernel(body: str) -> Document:
    return Document.parse(HEAD + "".join(f"\t{row}\n" for row in body.strip().splitlines()) + TAIL, "carried.ptx")


def run(module: Document) -> np.ndarray:
    out = np.zeros((64, 4), np.uint32)
    Module(module).kernel("k", engine="numpy").launch(1, 64, [out])
    return out


PATHS = """\
mul.lo.u32 %r2, %r1, 3;
mov.u32 %r3, 7;
mov.u32 %r4, 8;
mov.u32 %r5, 9;
setp.lt.u32 %p1, %r1, 20;
setp.gt.u32 %p2, %r1, 40;
@%p1 bra PAST;
add.u32 %r2, %r1, 1000;
@%p2 bra PAST;
mov.u32 %r3, %r1;
PAST:
add.u32 %r4, %r1, 5;
"""


@pytest.mark.parametrize("style", ["inline", "mirror"])
@pytest.mark.parametrize("lines", [(6, 9), (6, 11), (4, 11)])
def test_a_register_that_a_branch_leaves_alone_comes_in(style: str, lines: tuple[int, int]):
    module = kernel(PATHS)
    made = cut(module, "k", (FIRST + lines[0], FIRST + lines[1]), style=style, body="identity")
    assert {"%r2", "%r3"} <= {r.name for r in made.abi.live_in} & {r.name for r in made.abi.live_out}
    np.testing.assert_array_equal(run(made.document), run(module))


CARRY = """\
mov.u32 %r6, -2;
add.cc.u32 %r2, %r6, %r1;
addc.cc.u32 %r3, %r1, -1;
addc.u32 %r4, %r1, 0;
mov.u32 %r5, 9;
add.cc.u32 %r5, %r5, %r6;
"""


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_a_whole_run_of_carries_can_be_cut(style: str):
    module = kernel(CARRY)
    made = cut(module, "k", (FIRST + 1, FIRST + 3), style=style, body="identity")
    np.testing.assert_array_equal(run(made.document), run(module))
    if find_ptxas() is not None:
        result = assemble(made.text)
        assert result.ok, result.log


@pytest.mark.parametrize("lines", [(1, 1), (2, 2), (2, 3), (0, 2)])
def test_half_a_run_of_carries_goes_inline_alone(lines: tuple[int, int]):
    module = kernel(CARRY)
    region = (FIRST + lines[0], FIRST + lines[1])
    np.testing.assert_array_equal(run(cut(module, "k", region).document), run(module))
    with pytest.raises(UnsupportedError, match=r"the condition code \(\.cc\) is live where lines \d+ to \d+ begin or end"):
        cut(module, "k", region, style="mirror", body="identity")


def test_a_call_between_two_carries_would_lose_the_condition_code():
    module = kernel("add.cc.u32 %r2, %r1, -1;\nmov.u32 %r3, 5;\naddc.u32 %r4, %r1, 0;")
    with pytest.raises(UnsupportedError, match="the condition code"):
        cut(module, "k", (FIRST + 1, FIRST + 1), style="mirror", body="identity")
    cut(module, "k", (FIRST + 1, FIRST + 1), body=text_body("mov.u32 %r3, 5;"))
    with pytest.raises(SourceError, match=r"the body writes \.cc, which is no live-out"):
        cut(module, "k", (FIRST + 1, FIRST + 1), body=text_body("add.cc.u32 %r3, 5, 0;"))


def test_a_carry_that_may_be_skipped_is_not_live_above_it():
    module = kernel("mov.u32 %r2, %r1;\nsetp.gt.u32 %p1, %r1, 9;\n@%p1 add.cc.u32 %r3, %r1, -1;\n@%p1 addc.u32 %r4, %r1, 0;")
    made = cut(module, "k", (FIRST, FIRST), style="mirror", body="identity")
    np.testing.assert_array_equal(run(made.document), run(module))


def test_a_text_body_may_carry_for_itself():
    module = kernel("mov.u32 %r2, %r1;\nmov.u32 %r3, 5;")
    made = cut(
        module, "k", (FIRST, FIRST + 1), body=text_body(".reg .b32 x;\nadd.cc.u32 x, %r1, -1;\naddc.u32 %r3, 4, 0;\nmov.u32 %r2, %r1;")
    )
    assert run(made.document)[3].tolist()[:2] == [3, 5]


@pytest.mark.parametrize("where", ["a", "out"])
def test_a_probe_in_a_run_of_carries_stores_what_has_a_name(where: str):
    made = probe(kernel(CARRY), "k", where, region=(FIRST + 2, FIRST + 2))
    assert ".cc" not in [name for name, _ in made.registers]
    assert ptxgraft.bind(made.document, "k").instructions


REMADE = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p, .param .align 8 .b8 q[16])
.maxntid 32
{
	.reg .pred %c<2>;
	.reg .b32 %r<9>;
	.reg .b64 %rd<9>;
	ld.param.u64 %rd1, [p];
	ld.param.u64 %rd2, [q+8];
	mov.u32 %r1, 77;
	mov.u32 %r2, %ctaid.x;
	ld.param.u32 %r3, [q+4];
	add.u32 %r4, %r2, %r3;
	setp.eq.u32 %c1, %r4, 3;
	mov.u32 %r5, 5;
	@%c1 mov.u32 %r5, 6;
	mov.u32 %r6, %laneid;
	add.u32 %r1, %r1, %r3;
	mad.wide.u32 %rd3, %r6, 32, %rd1;
	st.global.v4.u32 [%rd3], {%r1, %r2, %r3, %r4};
	st.global.v2.u32 [%rd3+16], {%r5, %r6};
	st.global.u64 [%rd3+24], %rd2;
	ret;
}
"""


@pytest.mark.parametrize("style", ["call", "mirror"])
def test_what_the_entry_can_make_again_is_not_read_back(style: str):
    module = Document.parse(REMADE, "remade.ptx")
    made = cut(module, "k", (10, 20), style=style, body="identity")
    names = {r.name: r for r, _ in made.interface.live_out}
    assert made.words == sum(2 if n.startswith("%rd") else 1 for n in names)  # the row is as the interface says, read or not
    again = {n for n, r in names.items() if r.id in made.interface.remade}
    assert again == {"%rd1", "%rd2", "%r2", "%r3"}  # not what is computed, or written on some paths alone
    first, last = made.block_statements
    inside = made.document.text[first.start : last.end]
    assert "ld.param.b64 %rd2, [q+8];" in inside and "mov.u32 %r2, %ctaid.x;" in inside

    def outputs(target: Document) -> bytes:
        room = allocate(0x1000_0000, np.zeros(32 * 32, np.uint8), "out")
        args = room.base.to_bytes(8, "little") + bytes(range(16))
        execute(Launch(bind(target, "k"), (1, 1, 1), (32, 1, 1), args, allocations=[room]), engine="numpy")
        return room.data.tobytes()

    assert outputs(made.document) == outputs(module)


NAMES = """\
.reg .b32 r, r3, r5, $1, _1, %1, bra, u32;
.reg .b32 r<2>;
add.u32 r, %r1, 3;
xor.b32 r3, r, 5;
mov.u32 $1, r3;
setp.lt.u32 %p1, %r1, 20;
@%p1 bra r4;
add.u32 $1, $1, r;
r4:
mov.u32 r1, $1;
mul.lo.u32 r5, r1, 3;
mov.u32 _1, r5;
add.u32 bra, _1, r3;
mov.u32 %1, bra;
add.u32 u32, %1, 1;
mov.u32 %r2, u32;
mov.u32 %r3, r5;
mov.u32 %r4, $1;
mov.u32 %r5, r;
"""


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
@pytest.mark.parametrize("lines", [(2, 14), (4, 12), (9, 18)])
def test_registers_without_a_sigil_or_a_letter_keep_their_names(lines: tuple[int, int], style: str):
    # Labels look like them, some are words of the language, and a range of their base would be none.
    module = kernel(NAMES)
    made = cut(module, "k", (FIRST + lines[0], FIRST + lines[1]), style=style, body="identity")
    assert (run(made.document) == run(module)).all()
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, result.log
