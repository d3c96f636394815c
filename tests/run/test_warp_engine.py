"""The warp executor against the interpreter: the same bytes and the same faults on small kernels of every kind of control flow and memory."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from ptxgraft.errors import KernelFault, PtxgraftError, UnsupportedError, UsageError
from ptxgraft.isa import bind
from ptxgraft.lower import jit
from ptxgraft.lower.warp_compile import Functions
from ptxgraft.run import warp_engine
from ptxgraft.run.execution import execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import allocate
from ptxgraft.run.result import Watch
from ptxgraft.text import Document


@pytest.fixture(autouse=True, params=["function", "threaded"])
def form(request, monkeypatch):
    """Both forms of compiled code: a program as one function, and as a stream of operations (as programs that are too long for the first)."""
    if request.param == "threaded":
        monkeypatch.setattr(warp_engine, "eligible", lambda program: False)
    return request.param


OUT = 0x7F0000000000
IN = 0x7F0000100000

HEAD = """.version 8.4
.target sm_80
.address_size 64
"""

REGISTERS = """    .reg .pred %p<10>;
    .reg .b16 %h<10>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<20>;
    .reg .f32 %f<10>;
"""

# Each thread's linear number in its block: %r0; in the grid: %r1; the address of its word of `out`: %rd2; that word's index times 4: %rd3.
PROLOGUE = """    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [in];
    mov.u32 %r0, %tid.z;
    mov.u32 %r2, %ntid.y;
    mov.u32 %r3, %tid.y;
    mad.lo.u32 %r0, %r0, %r2, %r3;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r0, %r0, %r2, %r3;
    mov.u32 %r3, %ntid.y;
    mul.lo.u32 %r2, %r2, %r3;
    mov.u32 %r3, %ntid.z;
    mul.lo.u32 %r2, %r2, %r3;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r4, %r4, %r5, %r6;
    mad.lo.u32 %r1, %r4, %r2, %r0;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd0, %rd3;
"""


def kernel(body: str, declarations: str = "", module: str = "") -> str:
    return f"{HEAD}{module}.visible .entry k(.param .u64 out, .param .u64 in)\n{{\n{REGISTERS}{declarations}{PROLOGUE}{body}    ret;\n}}\n"


def dim(n: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*((n,) if isinstance(n, int) else n), 1, 1)[:3]
    return x, y, z


def launch_of(text: str, grid=1, block=32, words: int = 0, data: np.ndarray | None = None, shared: int = 0) -> Launch:
    program = bind(Document.parse(text), "k")
    args = OUT.to_bytes(8, "little") + IN.to_bytes(8, "little")
    source = np.arange(4096, dtype=np.uint32) * np.uint32(2654435761) if data is None else data
    threads = int(np.prod(grid) * np.prod(block))
    return Launch(program, dim(grid), dim(block), args, shared, [allocate(OUT, 4 * (words or threads), "out"), allocate(IN, source, "in")])


def run_both(text: str, grid=1, block=32, profile: str = "sm_90", **options) -> np.ndarray:
    """The words of ``out`` after the warp executor; asserts that the interpreter leaves the same memory."""
    run_options = {k: options.pop(k) for k in ("step_budget", "threads", "blocks") if k in options}
    results = []
    for engine in ("numpy", "warp"):
        launch = launch_of(text, grid, block, **options)
        result = execute(launch, engine=engine, profile=profile, **run_options)
        results.append(({a.base: a.data.copy() for a in launch.memory.allocations}, result.statements))
    (expected, steps), (found, steps_found) = results
    assert expected.keys() == found.keys()
    for base, data in expected.items():
        np.testing.assert_array_equal(data.view(np.uint32), found[base].view(np.uint32))
    assert steps_found == steps
    return found[OUT].view(np.uint32)


def both_fail(text: str, kind: type[PtxgraftError], grid=1, block=32, **options) -> str:
    """The message, the same from both executors."""
    run_options = {k: options.pop(k) for k in ("step_budget",) if k in options}
    messages = []
    for engine in ("numpy", "warp"):
        with pytest.raises(kind) as caught:
            execute(launch_of(text, grid, block, **options), engine=engine, **run_options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]


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


# -- faults -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("access", "block"),
    [
        ("ld.global.u32 %r10, [%rd2+256];", 64),
        ("st.global.u32 [%rd2+4096], %r1;", 32),
        ("@%p0 st.global.u32 [%rd2+400], %r1;", 64),
        ("ld.global.u32 %r10, [%rd2+2];", 32),
        ("ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2];", 32),
        ("ld.shared.u32 %r10, [%rd3+1000];", 64),
        ("st.shared.u32 [pool+2000], %r1;", 32),
        ("ld.local.u32 %r10, [%rd3];", 32),
        ("ld.param.u32 %r10, [out+16];", 32),
        ("ld.u32 %r10, [%rd3];", 32),
        ("atom.global.add.u32 %r10, [%rd2+252], 1;", 64),
        ("ld.global.u32 %r10, [0];", 32),
    ],
)
def test_a_bad_access_is_named_the_same_way(access, block):
    body = f"    setp.ge.u32 %p0, %r0, 40;\n    {access}\n"
    message = both_fail(kernel(body, "    .shared .align 4 .b8 pool[1024];\n    .local .align 4 .b8 l[64];\n"), KernelFault, 1, block)
    assert "lane" in message and "block (0, 0, 0)" in message


def test_an_endless_loop_is_stopped_with_its_place():
    body = """L:
    add.u32 %r10, %r10, 1;
    bra L;
"""
    message = both_fail(kernel(body), KernelFault, step_budget=1000)
    assert "never ends" in message and "bra L" in message


def test_a_barrier_that_half_the_warps_skip():
    body = """    setp.lt.u32 %p0, %r0, 64;
    @%p0 bra SKIP;
    bar.sync 0;
SKIP:
    st.global.u32 [%rd2], %r0;
"""
    message = both_fail(kernel(body), KernelFault, 1, 128)
    assert "barrier 0 is never met" in message and "bar.sync 0" in message


def test_lanes_at_two_barriers():
    body = """    setp.lt.u32 %p0, %r0, 16;
    @%p0 bra OTHER;
    bar.sync 0;
    bra JOIN;
OTHER:
    bar.sync 1;
JOIN:
    st.global.u32 [%rd2], %r0;
"""
    message = both_fail(kernel(body), KernelFault, 1, 64)
    assert "never met" in message


def test_a_shuffle_that_its_members_never_reach():
    body = """    setp.lt.u32 %p0, %r0, 16;
    @%p0 bra SKIP;
    shfl.sync.bfly.b32 %r10, %r0, 1, 31, -1;
SKIP:
    bar.sync 0;
"""
    message = both_fail(kernel(body), KernelFault, 1, 32)
    assert "cannot come" in message and "lanes 16-31" in message


def test_trap_unknown_instructions_and_barrier_numbers():
    assert "stopped itself" in both_fail(kernel("    setp.eq.u32 %p0, %r0, 5;\n    @%p0 trap;\n"), KernelFault)
    assert "not in the instruction table" in both_fail(kernel("    frobnicate.u32 %r10, %r11;\n"), UnsupportedError)
    assert "no barrier 16" in both_fail(kernel("    bar.sync 16;\n"), KernelFault)
    assert "multiple of 32" in both_fail(kernel("    bar.sync 1, 40;\n"), KernelFault)
    # Where no lane comes, nothing is wrong.
    run_both(kernel("    setp.eq.u32 %p0, %r0, 99;\n    @%p0 trap;\n    @%p0 frobnicate.u32 %r10, %r11;\n    st.global.u32 [%rd2], %r0;\n"))


def test_the_lowest_block_with_a_fault_is_reported_whatever_the_threads_do():
    body = """    setp.ge.u32 %p0, %r4, 3;
    @%p0 st.global.u32 [%rd2+65536], %r0;
"""
    for threads in (1, 3):
        with pytest.raises(KernelFault) as caught:
            execute(launch_of(kernel(body), 8, 32), threads=threads)
        assert "block (3, 0, 0)" in str(caught.value)


def test_a_log_of_stores_that_fills_up_is_emptied_between_blocks(monkeypatch):
    monkeypatch.setattr(warp_engine, "_LOG_ENTRIES", 100)
    body = "    st.global.u32 [%rd2], %r1;\n    @%p0 st.global.u32 [%rd0], %r1;\n"
    found = execute(launch_of(kernel(body), 7, 32), watch=[Watch("memory", OUT, 0, 7 * 128)]).stores
    assert [(r.block[0], r.lane) for r in found] == [(b, i) for b in range(7) for i in range(32)]
    with pytest.raises(UsageError, match="watch fewer bytes"):
        execute(launch_of(kernel(body), 2, 128), watch=[Watch("memory", OUT, 0, 1024)])


def test_the_threads_floating_point_state_does_not_matter():
    body = """    mov.f32 %f0, 0f3F800000;
    cvt.rn.f32.u32 %f1, %r0;
    fma.rn.f32 %f2, %f1, 0f30000000, %f0;
    st.global.f32 [%rd2], %f2;
"""
    launch = launch_of(kernel(body))
    library = ctypes.CDLL("libm.so.6")
    library.fesetround(0x800)  # towards plus infinity
    try:
        execute(launch)
    finally:
        library.fesetround(0)
    np.testing.assert_array_equal(launch.memory.allocations[0].data.view(np.uint32), 0x3F800000)


def test_memory_that_cannot_be_written_is_refused():
    launch = launch_of(kernel("    st.global.u32 [%rd2], %r1;\n"))
    launch.memory.allocations[0].data.flags.writeable = False
    with pytest.raises(UsageError, match="cannot be written"):
        execute(launch)


def test_watched_stores_are_the_interpreters():
    body = """    and.b32 %r10, %r1, 15;
    mul.wide.u32 %rd5, %r10, 4;
    add.s64 %rd6, %rd0, %rd5;
    st.global.u32 [%rd6], %r1;
    atom.global.add.u32 %r11, [%rd0+64], 1;
"""
    found = []
    for engine in ("numpy", "warp"):
        launch = launch_of(kernel(body), 1, 64)
        found.append(execute(launch, engine=engine, watch=[Watch("memory", OUT, 8, 5), Watch("memory", OUT, 64, 1)]).stores)
    assert sorted(map(str, found[0])) == sorted(map(str, found[1]))
    assert len(found[1]) == 8 + 64
