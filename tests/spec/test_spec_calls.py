"""Regions of entries whose functions run in frames: what is around such calls is cut as ever, what holds one is refused."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft
from ptxgraft.flow import Flow
from ptxgraft.graft import cut
from ptxgraft.isa import Address, bind
from ptxgraft.spec.regions import line_region, region_abi
from ptxgraft.text import Document

MODULE = """.version 9.0
.target sm_90
.address_size 64
.func (.param .b32 r) sum(.param .b32 n)
{
.reg .pred p; .reg .b32 %n, %x;
ld.param.b32 %n, [n]; mov.u32 %x, 0; setp.eq.u32 p, %n, 0; @p bra END;
sub.u32 %x, %n, 1;
{ .param .b32 a, b; st.param.b32 [a], %x; call (b), sum, (a); ld.param.b32 %x, [b]; }
END: add.u32 %x, %x, %n; st.param.b32 [r], %x; ret;
}
.entry k(.param .u64 out)
{ .reg .b32 %r<9>; .reg .b64 %rd<5>; mov.u32 %r1, %tid.x;
add.u32 %r2, %r1, 3;
mul.lo.u32 %r3, %r2, 5;
{ .param .b32 a, b; st.param.b32 [a], %r2; call (b), sum, (a); ld.param.b32 %r4, [b]; }
mov.u64 %rd1, sum; p: .callprototype (.param .b32 _) _ (.param .b32 _);
{ .param .b32 a, b; st.param.b32 [a], %r1; call (b), %rd1, (a), p; ld.param.b32 %r5, [b]; }
alloca.u64 %rd2, 8; st.local.u32 [%rd2], %r5; ld.local.u32 %r6, [%rd2];
add.u32 %r4, %r4, %r3;
add.u32 %r4, %r4, %r6;
ld.param.u64 %rd1, [out]; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; st.global.u32 [%rd1], %r4;
ret;
}
"""
LINE = {text: n for n, text in enumerate(MODULE.splitlines(), 1)}
FIRST = LINE["add.u32 %r2, %r1, 3;"]


@pytest.fixture(scope="module")
def flow() -> Flow:
    return Flow(bind(Document.parse(MODULE, "calls.ptx"), "k"))


def test_a_region_before_the_calls(flow: Flow) -> None:
    region = line_region(flow.program, FIRST, FIRST + 1)
    abi = region_abi(flow, region)
    assert region.statements == 2 and [r.name for r in abi.live_in] == ["%r1"] and [r.name for r in abi.live_out] == ["%r2", "%r3"]
    assert abi.refusals == []


def test_a_region_from_the_brace_on_holds_no_set_up_of_the_stack(flow: Flow) -> None:
    region = line_region(flow.program, FIRST - 1, FIRST)
    assert region.statements == 2 and region_abi(flow, region).refusals == []


def test_registers_live_across_a_call_are_live_in_the_function(flow: Flow) -> None:
    program = flow.program
    by_name = {r.name: r.id for r in program.registers if r.inline == 0}
    first = min(i.index for i in program.instructions if i.statement.opcode == "ld.param.b32")
    assert first < program.start and {by_name["%r1"], by_name["%r3"]} <= flow.liveness.before((first,))[first]
    back = {t for i in program.instructions if i.statement.opcode == "ret" and i.index < program.start for t in i.targets}
    assert len(back) == 3 and all(flow.cfg.block_of(t).start == t for t in back)


def test_every_address_has_a_symbol_or_none(flow: Flow) -> None:
    program = flow.program
    addressed = [i.index for i in program.instructions if any(isinstance(o, Address) for o in i.operands)]
    known = {i: flow.symbols.address(i) for i in addressed}
    stores = [i for i in addressed if program.instructions[i].statement.opcode == "st.global.u32"]
    assert len(stores) == 1 and str(known[stores[0]]) != "None"


def test_regions_that_hold_a_call(flow: Flow) -> None:
    direct = region_abi(flow, line_region(flow.program, FIRST, FIRST + 2))
    assert direct.refusals == [f"line {FIRST + 2}: `call (b), sum, (a);` calls a function that is recursive or reached through a pointer"]
    pointer = region_abi(flow, line_region(flow.program, FIRST + 3, FIRST + 4))
    assert pointer.refusals == [
        f"line {FIRST + 4}: `call (b), %rd1, (a), p;` calls a function that is recursive or reached through a pointer"
    ]


def test_regions_that_take_stack_memory(flow: Flow) -> None:
    (refusal,) = region_abi(flow, line_region(flow.program, FIRST + 5, FIRST + 6)).refusals
    assert refusal == f"line {FIRST + 5}: `alloca.u64 %rd2, 8;` takes stack memory, which ends with the function it is in"


@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_a_cut_beside_the_calls_changes_nothing(style: str) -> None:
    document = Document.parse(MODULE, "calls.ptx")
    lines = (FIRST + 6, FIRST + 7) if style == "inline" else (FIRST, FIRST + 1)
    made = cut(document, "k", region=lines, style=style, body=None if style == "inline" else "identity", block=(64, 1, 1))
    wanted, got = np.zeros(64, np.uint32), np.zeros(64, np.uint32)
    ptxgraft.load(MODULE).kernel("k").launch(1, 64, [wanted])
    assert wanted.tolist() == [sum(range(i + 4)) + 5 * (i + 3) + sum(range(i + 1)) for i in range(64)]
    ptxgraft.load(made.document.data).kernel("k").launch(1, 64, [got])
    assert np.array_equal(got, wanted)
