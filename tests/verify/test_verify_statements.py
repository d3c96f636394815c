"""Bisection by statement: inside the first stage that differs, the first statement whose result does."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from small_layer import BLOCK, edited

from ptxgraft import verify
from ptxgraft.errors import UsageError
from ptxgraft.graft import cut, wrong_fragment_body
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, capture_of, execute, snapshot
from ptxgraft.text import Document
from ptxgraft.verify import sides

EDITS = [
    ("a", "xor.b32 \t%r9, %r6, 16;", "xor.b32 \t%r9, %r6, 32;"),
    ("p1", "max.f16x2 \t%r35, %r31, %r24;", "min.f16x2 \t%r35, %r31, %r24;"),
    ("p2", "[%rd10+1024];", "[%rd10+1020];"),
]


def line_of(document: Document, text: str) -> int:
    return document.line(document.text.index(text))


@pytest.mark.parametrize(("stage", "old", "new"), EDITS)
def test_the_edited_statement_is_found(recorded, document, stage, old, new, engine):
    graft = edited(document, (old, new))
    stages = None if stage == "a" else ["p0", "p1", "p2"]
    found = verify.bisect(recorded, graft, document, stages=stages, engine=engine)
    if "+1024" in old:  # loaded before the region, so an earlier stretch holds it when the live-ins are compared too
        found = verify.bisect(recorded, graft, document, engine=engine)
    assert found.statement is not None, found
    assert found.statement.line == found.statement.graft_line == line_of(document, old)
    assert new.split()[-1] in found.statement.graft_statement and found.statement.statement != found.statement.graft_statement
    assert found.statements_compared >= 1 and not found.statement.in_loop
    assert f"the first statement whose result differs ({found.statements_compared} compared) is line {found.statement.line}" in str(found)


def test_a_value_that_passes_all_stages_by_is_traced_to_where_it_is_made(recorded, document, engine):
    # Made before the region and read behind it: no stage holds the register, and what reads it is the same in both.
    made = "xor.b32 \t%r50, %r5, 0;"
    early = ("\tmov.u32 \t%r7, staged;\n", f"\tmov.u32 \t%r7, staged;\n\t{made}\n")
    original = edited(document, early, ("shl.b32 \t%r44, %r5, %r63;", "shl.b32 \t%r44, %r50, %r63;"))
    found = verify.bisect(recorded, edited(original, (made, made.replace("0;", "1;"))), original, engine=engine)
    assert found.stage is None and found.outputs is not None and found.exit_code == 1
    assert found.statement is not None and found.statement.line == line_of(original, made)
    assert found.statement.register == "%r50" and found.statement.graft_statement != found.statement.statement


def test_code_that_only_the_graft_has_is_not_blamed_on_what_both_have(recorded, document):
    wrong = wrong_fragment_body(document, "layer", 0, 1)
    found = verify.bisect(recorded, cut(document, "layer", body=wrong, block=BLOCK).document, document, engine="numpy")
    assert found.stage == "p0" and found.statement is not None
    assert found.statement.statement.startswith("mma.sync") and found.statement.register == "%r32"


def test_without_statements_the_stage_is_all(recorded, document):
    found = verify.bisect(recorded, edited(document, EDITS[0][1:]), document, engine="numpy", statements=False)
    assert found.stage == "a" and found.statement is None and found.statements_compared == 0 and "statement" not in str(found)


LOOP = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n)
{
.reg .pred %p<2>; .reg .b32 %r<9>; .reg .b64 %rd<4>;
ld.param.u64 %rd1, [out];
ld.param.u32 %r1, [n];
mov.u32 %r2, 0;
mov.u32 %r3, 1;
L:
mul.lo.u32 %r3, %r3, 3;
xor.b32 %r4, %r3, 5;
add.u32 %r2, %r2, 1;
setp.lt.u32 %p1, %r2, %r1;
@%p1 bra L;
shl.b32 %r5, %r4, 1;
st.global.u32 [%rd1], %r5;
ret;
}
"""


def loop_launch():
    memory = [allocate(0x7F00_0000_0000, bytes(8))]
    launch = Launch(bind(Document.parse(LOOP), "k"), (1, 1, 1), (1, 1, 1), struct.pack("<QI", memory[0].base, 4), allocations=memory)
    before = snapshot(launch)
    execute(launch, engine="numpy")
    return capture_of(launch, before)


@pytest.mark.parametrize(("old", "new", "loop"), [("%r3, 5;", "%r3, 4;", True), ("%r4, 1;", "%r4, 2;", False)])
def test_an_entry_without_stages_is_searched_by_statements(old, new, loop):
    document = Document.parse(LOOP)
    found = verify.bisect(loop_launch(), Document.parse(LOOP.replace(old, new)), document, engine="numpy")
    assert found.stage is None and found.exit_code == 1 and found.statement is not None
    assert found.statement.line == line_of(document, old) and found.statement.in_loop == loop
    assert ("by its last pass" in str(found)) == loop and str(found).startswith(
        "there are no stages, and the outputs differ; the first statement"
    )
    same = verify.bisect(loop_launch(), document, document, engine="numpy")
    assert same.exit_code == 0 and same.statement is None and same.statements_compared == 9
    stored = verify.bisect(loop_launch(), Document.parse(LOOP.replace("[%rd1], %r5", "[%rd1], %r4")), document, engine="numpy")
    assert stored.exit_code == 1 and stored.statement is None and "none of the 9 statements there" in str(stored)
    with pytest.raises(UsageError, match="no tensor-core instruction"):
        verify.bisect(loop_launch(), document, document, stages=["a"], engine="numpy")


def test_what_executors_choose_for_themselves():
    text = LOOP.replace("mov.u32 %r2, 0;", "mov.u32 %r2, tile; add.u32 %r6, %r2, 4; ld.shared.u32 %r7, [%r6]; mov.u32 %r8, %smid;").replace(
        "{\n.reg", "{\n.shared .b8 tile[64];\n.reg", 1
    )
    program = bind(Document.parse(text), "k")
    assert {program.registers[r].name for r in sides.executors_own(program)} >= {"%r2", "%r6", "%r8"}
    assert not {program.registers[r].name for r in sides.executors_own(program)} & {"%rd1", "%r7", "%r3", "%r4", "%r5"}


def test_values_are_brought_home():
    values = np.array([0x9004, 0x9010, 7, 3, 0x9003], np.uint64)
    moved = [(0x5000, 16, 0x9000), (0x1_0000_0001, 1, 7)]
    assert sides._home(values, moved).tolist() == [0x5004, 0x9010, 0x1_0000_0001, 3, 0x5003]
