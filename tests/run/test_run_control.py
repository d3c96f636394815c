"""Control flow, barriers and warp operations of the reference engine, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ptxgraft

HEAD = """.version 8.0
.target sm_80
.address_size 64
"""
ALL = 0xFFFFFFFF


def run(
    body: str, grid=1, block=64, words: int = 0, declarations: str = "", module: str = "", engine: str = "numpy", data=None
) -> np.ndarray:
    """``words`` words (one a thread by default) after a kernel whose threads have their number in %r1, out in %rd1, their word at %rd3, data at %rd4."""
    text = f"""{HEAD}{module}
.visible .entry k(.param .u64 out, .param .u64 data)
{{
    .reg .pred %p<8>; .reg .b32 %r<40>; .reg .b64 %rd<12>; .reg .f32 %f<6>; .reg .b16 %h<4>;
    {declarations}
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd4, [data];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mad.lo.u32 %r0, %r2, %r3, %r1;
    mul.wide.u32 %rd2, %r0, 4; add.s64 %rd3, %rd1, %rd2; add.s64 %rd5, %rd4, %rd2;
{body}
    ret;
}}
"""
    out = np.zeros(words or int(np.prod(grid) * np.prod(block)), np.uint32)
    given = np.arange(4096, dtype=np.uint32) * np.uint32(2654435761) if data is None else data
    ptxgraft.load(text).kernel("k", engine=engine).launch(grid, block, [out, given])
    return out


STORE = "st.global.u32 [%rd3], %r9;"


def test_a_loop_that_lanes_leave_at_different_times() -> None:
    body = f"""
    mov.u32 %r9, 0; and.b32 %r5, %r1, 7;
LOOP:
    setp.eq.u32 %p1, %r5, 0;
    @%p1 bra DONE;
    add.u32 %r9, %r9, %r5; sub.u32 %r5, %r5, 1;
    bra.uni LOOP;
DONE:
    {STORE}"""
    assert run(body).tolist() == [sum(range(i % 8 + 1)) for i in range(64)]


def test_nested_branches_meet_again() -> None:
    body = f"""
    mov.u32 %r9, 0;
    and.b32 %r5, %r1, 1; setp.eq.u32 %p1, %r5, 0;
    and.b32 %r6, %r1, 2; setp.eq.u32 %p2, %r6, 0;
    @%p1 bra EVEN;
    @%p2 bra ODD_LOW;
    add.u32 %r9, %r9, 1000;
ODD_LOW:
    add.u32 %r9, %r9, 100;
    bra JOIN;
EVEN:
    @!%p2 add.u32 %r9, %r9, 10;
JOIN:
    vote.sync.ballot.b32 %r7, 1, 0xFFFFFFFF;
    popc.b32 %r7, %r7;
    add.u32 %r9, %r9, %r7;
    {STORE}"""
    expected = [32 + (100 + (1000 if i & 2 else 0) if i & 1 else (10 if i & 2 else 0)) for i in range(64)]
    assert run(body).tolist() == expected


def test_lanes_that_exit_do_not_hold_up_the_others() -> None:
    body = f"""
    setp.ge.u32 %p1, %r1, 40;
    @%p1 exit;
    and.b32 %r5, %r1, 1; setp.eq.u32 %p2, %r5, 0;
    @%p2 bra THERE;
    shfl.sync.bfly.b32 %r9, %r1, 4, 31, 0xFFFFFFFF;
    bra BACK;
THERE:
    shfl.sync.bfly.b32 %r9, %r1, 2, 31, 0x55555555;
BACK:
    bar.sync 0;
    {STORE}"""
    # Odd lanes name all lanes and wait for the even ones, which never come to that place: a fault, not a hang.
    with pytest.raises(ptxgraft.errors.KernelFault, match="wait for lanes that cannot come"):
        run(body)
    out = run(body.replace("4, 31, 0xFFFFFFFF", "4, 31, 0xAAAAAAAA"))
    assert [int(v) for v in out[:32]] == [i ^ (4 if i & 1 else 2) for i in range(32)]
    assert out[40:].tolist() == [0] * 24


@pytest.mark.parametrize("block", [1, 31, 33, (8, 4), (4, 4, 5), 1024])
def test_special_registers(block) -> None:
    threads = int(np.prod(block))
    body = """
    mov.u32 %r5, %tid.x; mov.u32 %r6, %tid.y; mov.u32 %r7, %tid.z; mov.u32 %r8, %ntid.x; mov.u32 %r9, %ntid.y;
    mad.lo.u32 %r10, %r7, %r9, %r6; mad.lo.u32 %r10, %r10, %r8, %r5;
    mov.u32 %r11, %laneid; mov.u32 %r12, %warpid; mov.u32 %r13, %lanemask_lt; mov.u32 %r14, %ctaid.y; mov.u32 %r15, %nctaid.y;
    mad.lo.u32 %r16, %r12, 32, %r11;
    shl.b32 %r17, %r10, 4; cvt.u64.u32 %rd6, %r17; add.s64 %rd7, %rd1, %rd6;
    st.global.v4.u32 [%rd7], {%r10, %r16, %r13, %r15};"""
    out = run(body, grid=(1, 3), block=block, words=threads * 4).reshape(-1, 4)
    linear = np.arange(threads)
    np.testing.assert_array_equal(out[:, 0], linear)
    np.testing.assert_array_equal(out[:, 1], linear)
    np.testing.assert_array_equal(out[:, 2], (1 << (linear % 32)) - 1)
    assert set(out[:, 3]) == {3}


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The manual's pseudocode of shfl, lane by lane."""
    b, clamp, segment = b & 31, c & 31, c >> 8 & 31
    first, limit = lane & segment, (lane & segment) | (clamp & ~segment & 31)
    if mode == "up":
        source, inside = lane - b, lane - b >= limit
    elif mode == "down":
        source, inside = lane + b, lane + b <= limit
    elif mode == "bfly":
        source, inside = lane ^ b, (lane ^ b) <= limit
    else:
        source = first | (b & ~segment & 31)
        inside = source <= limit
    return (source if inside else lane), inside


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(["up", "down", "bfly", "idx"]), st.integers(0, 40), st.sampled_from([0, 31, 0x1F1F, 0x181F, 0x1800, 0x100F, 7, 0x1C03])
)
def test_shuffles(mode: str, b: int, c: int) -> None:
    body = f"shfl.sync.{mode}.b32 %r9|%p1, %r1, {b}, {c}, 0xFFFFFFFF; @%p1 add.u32 %r9, %r9, 1000; {STORE}"
    expected = []
    for lane in range(32):
        source, inside = shuffled(mode, lane, b, c)
        expected.append(source + (1000 if inside else 0))
    assert run(body, block=32).tolist() == expected


def test_votes_matches_and_reductions() -> None:
    value = np.array([3, 3, 7, 3] * 8, np.uint32)
    body = """
    ld.global.u32 %r5, [%rd5]; setp.eq.u32 %p1, %r5, 3;
    vote.sync.all.pred %p2, %p1, 0xFFFFFFFF; vote.sync.any.pred %p3, %p1, 0xFFFFFFFF; vote.sync.uni.pred %p4, !%p1, 0xFFFFFFFF;
    selp.u32 %r6, 1, 0, %p2; selp.u32 %r7, 2, 0, %p3; selp.u32 %r8, 4, 0, %p4; or.b32 %r6, %r6, %r7; or.b32 %r6, %r6, %r8;
    vote.sync.ballot.b32 %r10, %p1, 0xFFFFFFFF; match.any.sync.b32 %r11, %r5, 0xFFFFFFFF; redux.sync.add.u32 %r12, %r5, 0xFFFFFFFF;
    shl.b32 %r17, %r1, 4; cvt.u64.u32 %rd6, %r17; add.s64 %rd7, %rd1, %rd6;
    st.global.v4.u32 [%rd7], {%r6, %r10, %r11, %r12};"""
    out = run(body, block=32, words=128, data=value).reshape(32, 4)
    threes = int("1011" * 8, 2)
    assert set(out[:, 0]) == {2} and set(out[:, 1]) == {threes}
    assert out[:, 2].tolist() == [threes if v == 3 else ~threes & ALL for v in value]
    assert set(out[:, 3]) == {int(value.sum())}


def test_a_convergent_operation_waits_for_the_lanes_it_names() -> None:
    body = f"""
    mov.u32 %r9, 5; setp.lt.u32 %p1, %r1, 10;
    @%p1 bra SLOW;
    bra READY;
SLOW:
    mov.u32 %r9, 7;
READY:
    redux.sync.add.u32 %r9, %r9, 0xFFFFFFFF;
    {STORE}"""
    assert set(run(body, block=32)) == {10 * 7 + 22 * 5}


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_lanes_that_wait_go_on_when_the_others_exit(engine: str) -> None:
    body = f"""
    setp.lt.u32 %p1, %r1, 8;
    @%p1 bra GONE;
    redux.sync.add.u32 %r9, %r1, 0xFFFFFFFF;
    {STORE}
    ret;
GONE:
    mov.u32 %r9, 1000;
    {STORE}
    exit;"""
    assert run(body, block=32, engine=engine).tolist() == [1000] * 8 + [sum(range(8, 32))] * 24


def test_activemask_sees_who_is_there() -> None:
    body = f"setp.lt.u32 %p1, %r1, 10; @%p1 activemask.b32 %r9; @!%p1 activemask.b32 %r9; {STORE}"
    assert run(body, block=32).tolist() == [0x3FF] * 10 + [ALL & ~0x3FF] * 22


# -- barriers -------------------------------------------------------------------------------------------------------------
def test_warps_exchange_through_shared_memory() -> None:
    body = f"""
    mov.u32 %r5, buffer; shl.b32 %r6, %r1, 2; add.u32 %r7, %r5, %r6; st.shared.u32 [%r7], %r0;
    barrier.cta.sync.aligned 0;
    xor.b32 %r8, %r6, 128; add.u32 %r8, %r5, %r8; ld.shared.u32 %r9, [%r8];
    {STORE}"""
    out = run(body, grid=3, block=64, declarations=".shared .align 4 .b8 buffer[256];")
    assert out.tolist() == [b * 64 + (t ^ 32) for b in range(3) for t in range(64)]


def test_barriers_that_reduce() -> None:
    body = """
    setp.lt.u32 %p1, %r1, 70;
    bar.red.popc.u32 %r5, 0, %p1; bar.red.and.pred %p2, 0, !%p1; bar.red.or.pred %p3, 1, 96, %p1;
    selp.u32 %r6, 1000, 0, %p2; selp.u32 %r7, 10000, 0, %p3; add.u32 %r9, %r5, %r6; add.u32 %r9, %r9, %r7;
    st.global.u32 [%rd3], %r9;"""
    assert run(body, block=96).tolist() == [10070] * 96


def test_a_producer_arrives_and_goes_on() -> None:
    body = f"""
    mov.u32 %r9, 0; setp.lt.u32 %p1, %r1, 32;
    @%p1 bra PRODUCE;
    bar.sync 1, 64;
    ld.shared.u32 %r9, [cell];
    bra DONE;
PRODUCE:
    setp.eq.u32 %p2, %r1, 0;
    @%p2 st.shared.u32 [cell], 77;
    bar.arrive 1, 64;
DONE:
    {STORE}"""
    assert run(body, declarations=".shared .align 4 .b32 cell;").tolist() == [0] * 32 + [77] * 32


def test_a_barrier_in_a_loop_and_with_half_a_warp_gone() -> None:
    body = f"""
    setp.ge.u32 %p1, %r1, 48;
    @%p1 ret;
    mov.u32 %r9, 0; mov.u32 %r5, 0;
LOOP:
    bar.sync 0;
    add.u32 %r9, %r9, %r1; add.u32 %r5, %r5, 1;
    setp.lt.u32 %p2, %r5, 3;
    @%p2 bra LOOP;
    {STORE}"""
    assert run(body).tolist() == [3 * i for i in range(48)] + [0] * 16


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize("others", ["barrier.arrive 1, 96;", "ret;"])
def test_a_warp_that_arrives_in_parts_is_one_warp(engine: str, others: str) -> None:
    """Warp 1 waits for warp 2, which is held up by warp 3 and has to store first. What lanes do that exit is to arrive, too."""
    body = f"""
    mov.u32 %r9, 0; shr.u32 %r5, %r1, 4; setp.eq.u32 %p1, %r5, 0; setp.eq.u32 %p2, %r5, 1;
    @%p1 bra FIRST;
    @%p2 bra SECOND;
    setp.ge.u32 %p3, %r1, 64;
    @%p3 bra PRODUCE;
    barrier.sync 1, 96;
    ld.shared.u32 %r9, [cell];
    bra DONE;
PRODUCE:
    bar.sync 2, 64;
    setp.ge.u32 %p4, %r1, 96;
    @%p4 bra DONE;
    st.shared.u32 [cell], 77;
    barrier.sync 1, 96;
    bra DONE;
FIRST:
    barrier.arrive 1, 96;
    bra DONE;
SECOND:
    {others}
DONE:
    {STORE}"""
    assert run(body, block=128, declarations=".shared .align 4 .b32 cell;", engine=engine).tolist() == [0] * 32 + [77] * 32 + [0] * 64


# -- calls ----------------------------------------------------------------------------------------------------------------
def test_functions_and_their_local_memory() -> None:
    module = """
.func (.param .b32 result) twice(.param .b32 x)
{
    .reg .b32 %r<3>; .local .align 4 .b8 spill[8];
    ld.param.b32 %r1, [x];
    st.local.u32 [spill+4], %r1;
    ld.local.u32 %r2, [spill+4];
    add.u32 %r2, %r2, %r1;
    st.param.b32 [result], %r2;
    ret;
}
"""
    call = "{{ .param .b32 a; .param .b32 b; st.param.b32 [a], {0}; call.uni (b), twice, (a); ld.param.b32 {0}, [b]; }}"
    body = f"mov.u32 %r9, %r1; {call.format('%r9')} {call.format('%r9')} setp.lt.u32 %p1, %r1, 3; @%p1 bra SKIP; {call.format('%r9')} SKIP: {STORE}"
    assert run(body, block=40, module=module).tolist() == [i * (4 if i < 3 else 8) for i in range(40)]
