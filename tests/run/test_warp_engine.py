"""The warp executor against the interpreter: the same bytes on small kernels of every kind of control flow and memory."""

from __future__ import annotations

import numpy as np
import pytest
from engine_pair import kernel, run_both

from ptxgraft.lower import jit
from ptxgraft.lower.warp_compile import Functions
from ptxgraft.run import warp_engine

pytestmark = pytest.mark.usefixtures("form")

SHAPES = [(1, 32), ((3, 2), (16, 4)), (2, (5, 3, 3)), (2, 40), (1, (7, 1, 11)), ((2, 1), 256)]


@pytest.mark.parametrize(("grid", "block"), SHAPES)
def test_loop_with_a_trip_count_of_its_own_in_each_lane(grid, block):
    body = """    and.b32 %r10, %r1, 15;
    mov.u32 %r11, 1;
LOOP:
    setp.eq.u32 %p0, %r10, 0;
    @%p0 bra DONE;
    mad.lo.u32 %r11, %r11, 3, %r10;
    sub.u32 %r10, %r10, 1;
    bra LOOP;
DONE:
    st.global.u32 [%rd2], %r11;
"""
    found = run_both(kernel(body), grid, block)
    value = [1] * 16
    for i in range(16):
        for k in range(i, 0, -1):
            value[i] = (value[i] * 3 + k) & 0xFFFFFFFF
    np.testing.assert_array_equal(found, np.array([value[i & 15] for i in range(found.size)], dtype=np.uint32))


@pytest.mark.parametrize(("grid", "block"), SHAPES)
def test_nested_branches_early_exits_and_guarded_statements(grid, block):
    body = """    and.b32 %r10, %r1, 7;
    setp.lt.u32 %p0, %r10, 3;
    setp.eq.u32 %p1, %r10, 6;
    st.global.u32 [%rd2], %r10;
    @%p1 ret;
    @%p0 bra LOW;
    setp.eq.u32 %p2, %r10, 5;
    @%p2 bra FIVE;
    mov.u32 %r11, 100;
    bra JOIN;
FIVE:
    mov.u32 %r11, 500;
    bra JOIN;
LOW:
    mov.u32 %r11, 10;
    @!%p1 add.u32 %r11, %r11, %r10;
JOIN:
    @%p0 mul.lo.u32 %r11, %r11, 2;
    @!%p0 add.u32 %r11, %r11, 1;
    st.global.u32 [%rd2], %r11;
"""
    found = run_both(kernel(body), grid, block)
    table = [20, 22, 24, 101, 101, 501, 6, 101]
    np.testing.assert_array_equal(found, [table[i & 7] for i in range(found.size)])


@pytest.mark.parametrize("block", [32, 64, (16, 8), 100, 250, (8, 4, 8)])
def test_tree_sum_in_shared_memory(block):
    body = """    ld.global.u32 %r10, [%rd1];
    mul.lo.u32 %r10, %r0, 3;
    mov.u32 %r12, tree;
    mad.lo.u32 %r11, %r0, 4, %r12;
    st.shared.u32 [%r11], %r10;
    mov.u32 %r13, 128;
STEP:
    bar.sync 0;
    add.u32 %r14, %r0, %r13;
    setp.lt.u32 %p0, %r0, %r13;
    setp.lt.u32 %p1, %r14, %r2;
    and.pred %p2, %p0, %p1;
    mad.lo.u32 %r15, %r14, 4, %r12;
    @%p2 ld.shared.u32 %r16, [%r15];
    @%p2 ld.shared.u32 %r17, [%r11];
    @%p2 add.u32 %r17, %r17, %r16;
    @%p2 st.shared.u32 [%r11], %r17;
    shr.u32 %r13, %r13, 1;
    setp.ne.u32 %p3, %r13, 0;
    @%p3 bra STEP;
    bar.sync 0;
    ld.shared.u32 %r18, [tree];
    st.global.u32 [%rd2], %r18;
"""
    found = run_both(kernel(body, "    .shared .align 4 .b8 tree[1024];\n"), 2, block)
    threads = found.size // 2
    assert set(found.tolist()) == {3 * threads * (threads - 1) // 2}


@pytest.mark.parametrize("block", [32, 96, 48])
def test_shuffles_votes_and_ballots(block):
    body = """    ld.global.u32 %r10, [%rd1+64];
    xor.b32 %r10, %r10, %r1;
    mov.u32 %r20, 0;
    shfl.sync.bfly.b32 %r11, %r10, 5, 31, -1;
    shfl.sync.up.b32 %r12|%p0, %r10, 3, 0, -1;
    shfl.sync.down.b32 %r13|%p1, %r10, 7, 0x101f, -1;
    and.b32 %r21, %r1, 3;
    shfl.sync.idx.b32 %r14, %r10, %r21, 0x181f, -1;
    @%p0 add.u32 %r20, %r20, 1;
    @%p1 add.u32 %r20, %r20, 2;
    setp.gt.u32 %p2, %r10, 0x40000000;
    vote.sync.ballot.b32 %r15, %p2, -1;
    vote.sync.any.pred %p3, %p2, -1;
    vote.sync.all.pred %p4, %p2, -1;
    selp.u32 %r22, 4, 0, %p3;
    selp.u32 %r23, 8, 0, %p4;
    add.u32 %r20, %r20, %r22;
    add.u32 %r20, %r20, %r23;
    add.u32 %r20, %r20, %r11;
    add.u32 %r20, %r20, %r12;
    xor.b32 %r20, %r20, %r13;
    add.u32 %r20, %r20, %r14;
    add.u32 %r20, %r20, %r15;
    st.global.u32 [%rd2], %r20;
"""
    found = run_both(kernel(body), 2, block)
    assert len(set(found.tolist())) > 8


def test_shuffles_inside_a_branch_wait_for_their_members_alone():
    body = """    and.b32 %r10, %r0, 16;
    setp.eq.u32 %p0, %r10, 0;
    mov.u32 %r11, %r0;
    @%p0 bra LOW;
    shfl.sync.bfly.b32 %r11, %r11, 1, 31, 0xFFFF0000;
    bra JOIN;
LOW:
    shfl.sync.bfly.b32 %r11, %r11, 2, 31, 0x0000FFFF;
JOIN:
    shfl.sync.bfly.b32 %r11, %r11, 16, 31, -1;
    st.global.u32 [%rd2], %r11;
"""
    found = run_both(kernel(body), 1, 64)
    np.testing.assert_array_equal(found[:32], [(i ^ 16 ^ (1 if (i ^ 16) & 16 else 2)) for i in range(32)])


@pytest.mark.parametrize("block", [32, 33, 128])
def test_atomics_are_made_in_lane_order(block):
    body = """    atom.global.add.u32 %r10, [%rd0], 3;
    and.b32 %r11, %r0, 3;
    mad.lo.u32 %r12, %r11, 4, 0;
    cvt.u64.u32 %rd5, %r12;
    add.s64 %rd6, %rd0, %rd5;
    atom.global.max.u32 %r13, [%rd6+16], %r1;
    atom.global.cas.b32 %r14, [%rd0+64], 0, %r1;
    red.global.xor.b32 [%rd0+68], %r1;
    atom.global.exch.b32 %r15, [%rd0+72], %r1;
    atom.global.inc.u32 %r16, [%rd0+76], 10;
    add.u32 %r10, %r10, %r13;
    add.u32 %r10, %r10, %r14;
    add.u32 %r10, %r10, %r15;
    add.u32 %r10, %r10, %r16;
    st.global.u32 [%rd2+128], %r10;
"""
    run_both(kernel(body), 3, block, words=32 + 3 * block)


def test_vector_and_narrow_accesses():
    body = """    mul.wide.u32 %rd4, %r1, 16;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd5];
    ld.global.v2.u16 {%h0, %h1}, [%rd5+4];
    ld.global.s8 %r14, [%rd5+3];
    ld.global.u8 %r15, [%rd5+7];
    ld.global.u64 %rd6, [%rd5+8];
    cvt.u32.u16 %r16, %h0;
    cvt.u32.u16 %r17, %h1;
    cvt.u32.u64 %r18, %rd6;
    add.u32 %r14, %r14, %r15;
    add.u32 %r14, %r14, %r16;
    xor.b32 %r14, %r14, %r17;
    add.u32 %r14, %r14, %r18;
    add.s64 %rd7, %rd0, %rd4;
    st.global.v2.u32 [%rd7], {%r10, %r14};
    st.global.u16 [%rd7+8], %h1;
    st.global.u8 [%rd7+11], %r13;
    st.global.v2.u16 [%rd7+12], {%h1, %h0};
"""
    run_both(kernel(body), 2, 48, words=4 * 96)


def test_gathers_and_scatters_with_conflicts():
    body = """    ld.global.u32 %r10, [%rd1+256];
    mul.lo.u32 %r11, %r1, 7;
    and.b32 %r11, %r11, 63;
    mul.wide.u32 %rd5, %r11, 4;
    add.s64 %rd6, %rd1, %rd5;
    ld.global.u32 %r12, [%rd6];
    shr.u32 %r13, %r1, 2;
    mul.wide.u32 %rd7, %r13, 4;
    add.s64 %rd8, %rd0, %rd7;
    st.global.u32 [%rd8], %r12;
    st.global.u32 [%rd0+512], %r1;
"""
    found = run_both(kernel(body), 1, 128, words=160)
    assert found[128] == 127  # the highest lane of the last warp wins


def test_local_memory_and_generic_addresses():
    body = """    mov.u64 %rd5, spill;
    cvta.local.u64 %rd6, %rd5;
    mov.u64 %rd7, pool;
    cvta.shared.u64 %rd8, %rd7;
    mul.wide.u32 %rd9, %r0, 4;
    add.s64 %rd8, %rd8, %rd9;
    st.local.u32 [spill+8], %r1;
    st.u32 [%rd6+12], %r0;
    st.u32 [%rd8], %r1;
    bar.sync 0;
    ld.local.v2.u32 {%r10, %r11}, [%rd5+8];
    ld.u32 %r12, [%rd8];
    and.b32 %r13, %r0, 1;
    setp.eq.u32 %p0, %r13, 0;
    selp.b64 %rd10, %rd6, %rd8, %p0;
    ld.u32 %r14, [%rd10];
    isspacep.shared %p1, %rd10;
    isspacep.local %p2, %rd10;
    isspacep.global %p3, %rd2;
    selp.u32 %r15, 1, 0, %p1;
    selp.u32 %r16, 2, 0, %p2;
    selp.u32 %r17, 4, 0, %p3;
    add.u32 %r10, %r10, %r11;
    add.u32 %r10, %r10, %r12;
    xor.b32 %r10, %r10, %r14;
    add.u32 %r10, %r10, %r15;
    add.u32 %r10, %r10, %r16;
    add.u32 %r10, %r10, %r17;
    cvta.to.shared.u64 %rd11, %rd8;
    cvt.u32.u64 %r18, %rd11;
    add.u32 %r10, %r10, %r18;
    st.u32 [%rd2], %r10;
"""
    run_both(kernel(body, "    .local .align 8 .b8 spill[32];\n    .shared .align 4 .b8 pool[1024];\n"), 2, 72)


def test_module_variables_and_dynamic_shared_memory():
    module = """.const .align 4 .u32 table[4] = {11, 22, 33, 44};
.global .align 4 .u32 counter = 5;
.extern .shared .align 4 .b8 dynamic[];
"""
    body = """    and.b32 %r10, %r1, 3;
    mov.u64 %rd5, table;
    mul.wide.u32 %rd6, %r10, 4;
    add.s64 %rd5, %rd5, %rd6;
    ld.const.u32 %r11, [%rd5];
    ld.const.u32 %r12, [table+8];
    ld.global.u32 %r13, [counter];
    mov.u32 %r14, dynamic;
    mad.lo.u32 %r14, %r0, 4, %r14;
    st.shared.u32 [%r14], %r11;
    bar.sync 0;
    ld.shared.u32 %r15, [%r14];
    isspacep.const %p0, %rd5;
    selp.u32 %r16, 1000, 0, %p0;
    add.u32 %r11, %r11, %r12;
    add.u32 %r11, %r11, %r13;
    add.u32 %r11, %r11, %r15;
    add.u32 %r11, %r11, %r16;
    st.global.u32 [%rd2], %r11;
"""
    found = run_both(kernel(body, module=module), 1, 64, shared=256)
    np.testing.assert_array_equal(found[:4], [11 + 33 + 5 + 11 + 1000, 22 + 38 + 22 + 1000, 33 + 38 + 33 + 1000, 44 + 38 + 44 + 1000])


def test_barrier_reductions_and_counted_barriers():
    body = """    and.b32 %r10, %r0, 3;
    setp.eq.u32 %p0, %r10, 1;
    bar.red.popc.u32 %r11, 0, %p0;
    bar.red.and.pred %p1, 1, !%p0;
    bar.red.or.pred %p2, 2, %p0;
    selp.u32 %r12, 1000, 0, %p1;
    selp.u32 %r13, 2000, 0, %p2;
    setp.lt.u32 %p3, %r0, 64;
    @!%p3 bra REST;
    bar.sync 3, 64;
    add.u32 %r11, %r11, 7;
REST:
    add.u32 %r11, %r11, %r12;
    add.u32 %r11, %r11, %r13;
    st.global.u32 [%rd2], %r11;
"""
    found = run_both(kernel(body), 1, 128)
    assert found.tolist() == [2039] * 64 + [2032] * 64


def test_registers_never_written_read_as_zero_and_shared_memory_as_its_fill():
    body = """    setp.lt.u32 %p0, %r0, 8;
    @%p0 mov.u32 %r30, 5;
    ld.shared.u32 %r31, [pool+4];
    add.u32 %r30, %r30, %r31;
    add.u32 %r30, %r30, %r35;
    st.global.u32 [%rd2], %r30;
"""
    found = run_both(kernel(body, "    .shared .align 4 .b8 pool[64];\n"), 2, 32)
    assert found[0] == 0xCCCCCCD1 and found[8] == 0xCCCCCCCC


def test_division_never_traps():
    body = """    ld.global.u32 %r10, [%rd1];
    div.u32 %r11, %r1, %r10;
    rem.u32 %r12, %r1, %r10;
    mov.u32 %r13, 0x80000000;
    mov.u32 %r14, -1;
    div.s32 %r15, %r13, %r14;
    rem.s32 %r16, %r13, %r14;
    add.u32 %r11, %r11, %r12;
    add.u32 %r11, %r11, %r15;
    add.u32 %r11, %r11, %r16;
    st.global.u32 [%rd2], %r11;
"""
    run_both(kernel(body), 1, 32)


def test_one_block_alone_and_many_threads_give_the_same_bytes():
    body = """    mad.lo.u32 %r10, %r1, %r1, 7;
    st.global.u32 [%rd2], %r10;
"""
    text = kernel(body)
    whole = run_both(text, 9, 64, threads=3)
    assert whole[8 * 64] == (8 * 64) ** 2 + 7
    part = run_both(text, 9, 64, blocks=[7, 2])
    assert part[2 * 64] and part[7 * 64] and not part[: 2 * 64].any()


class NoCache:
    directory = "nowhere"

    def get(self, key: str) -> bytes | None:
        return None

    def put(self, key: str, data: bytes) -> None:
        pass


def test_a_cpu_without_wide_vectors_gives_the_same_bytes(monkeypatch):
    here = jit.host()
    wide = [name for name in here.names if name.startswith(("avx512", "avx10")) or name == "avxvnni"]
    narrow = jit.Host("x86-64-v3", here.without(*wide).features)
    compile_ir = jit.compile_ir
    monkeypatch.setattr(jit, "host", lambda: narrow)
    monkeypatch.setattr(jit, "compile_ir", lambda text, level=1, machine=None, passes="sroa": compile_ir(text, level, narrow, passes))
    monkeypatch.setattr(warp_engine, "FUNCTIONS", Functions())
    monkeypatch.setattr(warp_engine, "_cache", NoCache)
    body = """    mul.lo.u32 %r11, %r1, 7;
    and.b32 %r11, %r11, 63;
    mul.wide.u32 %rd5, %r11, 4;
    add.s64 %rd6, %rd1, %rd5;
    ld.global.u32 %r12, [%rd6];
    ld.global.u32 %r13, [%rd6+4];
    setp.gt.u32 %p0, %r12, %r13;
    @%p0 add.u32 %r12, %r12, %r13;
    shr.u32 %r13, %r1, 2;
    mul.wide.u32 %rd7, %r13, 4;
    add.s64 %rd8, %rd0, %rd7;
    st.global.u32 [%rd8], %r12;
    shfl.sync.idx.b32 %r14, %r12, %r11, 31, -1;
    add.s64 %rd2, %rd2, 512;
    st.global.u32 [%rd2], %r14;
"""
    run_both(kernel(body), 1, 128, words=256)
