"""Memory as kernels see it: spaces, widths, atomics, copies, module variables; and the host's side of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_run_control import STORE, run

import ptxgraft
from ptxgraft.errors import KernelFault, SourceError, UsageError
from ptxgraft.isa import bind
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, PADDING, SHARED_WINDOW, Memory, allocate, padded
from ptxgraft.run.variables import FIRST_VARIABLE
from ptxgraft.text import Document

ENGINES = ("numpy", "warp")


# -- allocations ----------------------------------------------------------------------------------------------------------
def test_padded_memory_can_be_read_past_its_end() -> None:
    for size in (1, 63, 64, 1000):
        data = padded(size, 7)
        assert data.size == size and data.ctypes.data % 64 == 0
        behind = data.base[data.ctypes.data - data.base.ctypes.data + size :]
        assert behind.size >= PADDING and (behind[:PADDING] == 7).all()


def test_memory_finds_and_describes() -> None:
    memory = Memory([allocate(0x2000, 256, "b"), allocate(0x1000, b"x" * 100, "a")])
    assert memory.find(0x1000 + 99) is memory.allocations[0]
    assert memory.find(0x1000 + 100) is None and memory.find(0xFFF) is None
    assert memory.describe(0x1000 + 110) == "10 bytes past the end of a (100 bytes at 0x1000)"
    assert memory.describe(0x1FF0) == "16 bytes before b (256 bytes at 0x2000)"
    assert memory.describe(0x20FE) == "2 bytes before the end of b (256 bytes at 0x2000)"
    assert Memory([]).describe(5) == "the launch has no memory"


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 40)), min_size=1, max_size=8), st.integers(-50, 900))
def test_the_nearest_allocation_is_the_nearest(spans: list[tuple[int, int]], address: int) -> None:
    taken: list = []
    for base, size in spans:
        if all(base + size <= a.base or a.end <= base for a in taken) and all(base != a.base for a in taken):
            taken.append(allocate(base, size))
    memory = Memory(taken)
    distance = min(max(a.base - address, address - a.end, 0) for a in taken)
    found = memory.nearest(address)
    assert found is not None and max(found.base - address, address - found.end, 0) == distance


def test_memory_that_overlaps_is_refused() -> None:
    with pytest.raises(UsageError, match=r"a \(100 bytes at 0x1000\) and b \(4 bytes at 0x1060\) overlap"):
        Memory([allocate(0x1060, 4, "b"), allocate(0x1000, 100, "a")])
    with pytest.raises(UsageError, match="where shared and local memory are seen"):
        Memory([allocate(SHARED_WINDOW - 4, 8, "a")])


# -- accesses -------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "load, expected",
    [
        ("ld.global.u8 %r9, [%rd4+3];", 0xF1),
        ("ld.global.s8 %r9, [%rd4+3];", 0xFFFFFFF1),
        ("ld.global.u16 %r9, [%rd4+2];", 0xF1A2),
        ("ld.global.s16 %r9, [%rd4+2];", 0xFFFFF1A2),
        ("ld.volatile.global.b32 %r9, [%rd4];", 0xF1A2B3C4),
        ("ld.global.nc.L1::no_allocate.L2::128B.u32 %r9, [%rd4];", 0xF1A2B3C4),
        ("ld.relaxed.gpu.global.u32 %r9, [%rd4];", 0xF1A2B3C4),
        ("ld.acquire.sys.u32 %r9, [%rd4];", 0xF1A2B3C4),
        ("ldu.global.u32 %r9, [%rd4];", 0xF1A2B3C4),
        ("ld.global.cg.u32 %r9, [%rd4+4];", 0x11223344),
        ("ld.global.v2.u16 {%h1, %h2}, [%rd4]; cvt.u32.u16 %r9, %h2;", 0xF1A2),
        ("ld.global.v4.u8 {%h1, _, _, %h2}, [%rd4]; cvt.u32.u16 %r9, %h2;", 0xF1),
        ("ld.global.u64 %rd6, [%rd4]; shr.u64 %rd6, %rd6, 32; cvt.u32.u64 %r9, %rd6;", 0x11223344),
        (".reg .b128 %q; ld.global.b128 %q, [%rd4]; mov.b128 {%rd6, %rd7}, %q; cvt.u32.u64 %r9, %rd7;", 0x55667788),
        ("prefetch.global.L2 [%rd4]; prefetchu.L1 [%rd4]; ld.global.u32 %r9, [%rd4];", 0xF1A2B3C4),
    ],
)
def test_loads_of_every_width(load: str, expected: int, engine: str) -> None:
    data = np.array([0xF1A2B3C4, 0x11223344, 0x55667788, 0x99AABBCC], np.uint32)
    assert run(f"{load} {STORE}", block=1, data=data, engine=engine).tolist() == [expected]


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_keep_to_their_bytes_and_the_highest_lane_wins(engine: str) -> None:
    body = """
    add.u32 %r5, %r1, 0x1200; cvt.u16.u32 %h1, %r5;
    st.global.u8 [%rd1+1], %h1; st.global.v2.u8 [%rd1+6], {%h1, %h1}; st.global.wb.u16 [%rd1+8], %r5; st.weak.global.u32 [%rd1+12], %r1;"""
    out = run(body, block=32, words=4, engine=engine)
    assert out.tolist() == [0x1F00, 0x1F1F0000, 0x121F, 31]


@pytest.mark.parametrize("engine", ENGINES)
def test_generic_addresses_reach_every_space(engine: str) -> None:
    body = """
    mov.u32 %r5, cell; cvt.u64.u32 %rd6, %r5; cvta.shared.u64 %rd7, %rd6;
    mov.u64 %rd8, spill; cvta.local.u64 %rd8, %rd8;
    setp.lt.u32 %p1, %r1, 8; setp.lt.u32 %p2, %r1, 16;
    mul.wide.u32 %rd9, %r1, 4; add.s64 %rd7, %rd7, %rd9;
    mov.u64 %rd10, %rd3; @%p2 mov.u64 %rd10, %rd8; @%p1 mov.u64 %rd10, %rd7;
    st.u32 [%rd10], %r1; ld.u32 %r9, [%rd10];
    isspacep.shared %p3, %rd10; @%p3 add.u32 %r9, %r9, 100; isspacep.local %p3, %rd10; @%p3 add.u32 %r9, %r9, 200;
    isspacep.global %p3, %rd10; @%p3 add.u32 %r9, %r9, 400;
    cvta.to.local.u64 %rd11, %rd8; cvt.u32.u64 %r10, %rd11; add.u32 %r9, %r9, %r10;
    st.global.u32 [%rd3], %r9;"""
    out = run(body, block=32, declarations=".shared .align 4 .b8 cell[128]; .local .align 4 .b8 spill[4];", engine=engine)
    assert out.tolist() == [i + (100 if i < 8 else 200 if i < 16 else 400) for i in range(32)]


def test_what_was_never_written_is_not_zero() -> None:
    body = f"ld.shared.u32 %r9, [cell]; ld.local.u32 %r5, [spill]; xor.b32 %r6, %r9, %r5; add.u32 %r9, %r9, %r6; {STORE}"
    for engine in ENGINES:
        out = run(body, block=1, declarations=".shared .b32 cell; .local .b32 spill;", engine=engine)
        assert out.tolist() == [0xCCCCCCCC]


def test_dynamic_shared_memory_follows_the_declared() -> None:
    text = """.version 8.0
.target sm_80
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry k(.param .u64 out)
{
    .reg .b32 %r<4>; .reg .b64 %rd<2>; .shared .align 4 .b8 fixed[20];
    ld.param.u64 %rd1, [out]; mov.u32 %r1, dynamic; mov.u32 %r2, %dynamic_smem_size; mov.u32 %r3, %total_smem_size;
    st.shared.u32 [dynamic+96], %r2;
    st.global.v2.u32 [%rd1], {%r1, %r2}; st.global.u32 [%rd1+8], %r3;
    ret;
}
"""
    out = np.zeros(3, np.uint32)
    for engine in ENGINES:
        kernel = ptxgraft.load(text).kernel("k", engine=engine)
        kernel.launch(1, 1, [out], shared_bytes=100)
        assert out.tolist() == [32, 100, 132]
        with pytest.raises(KernelFault, match="shared memory has 128 bytes here"):
            kernel.launch(1, 1, [out], shared_bytes=96)


# -- atomics --------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    "operation, start, expected",
    [
        ("add.u32 {d}, [%rd1], %r1;", 5, 5 + sum(range(64))),
        ("min.s32 {d}, [%rd1], %r5;", 5, -64 & 0xFFFFFFFF),
        ("max.u32 {d}, [%rd1], %r1;", 5, 63),
        ("and.b32 {d}, [%rd1], %r5;", 0xFF, 0xC0),
        ("or.b32 {d}, [%rd1], %r1;", 0, 63),
        ("xor.b32 {d}, [%rd1], %r1;", 1, 1),
        ("inc.u32 {d}, [%rd1], 9;", 0, 4),
        ("dec.u32 {d}, [%rd1], 9;", 0, 6),
        ("exch.b32 {d}, [%rd1], %r1;", 0, 63),
        ("cas.b32 {d}, [%rd1], %r1, %r6;", 0, 64),
    ],
)
def test_atomics_take_turns(operation: str, start: int, expected: int, engine: str) -> None:
    body = f"neg.s32 %r5, %r1; sub.s32 %r5, %r5, 1; add.u32 %r6, %r1, 1; setp.eq.u32 %p1, %r1, 0; @%p1 st.global.u32 [%rd1], {start}; bar.sync 0;"
    body += f"atom.global.{operation.format(d='%r9')} add.s64 %rd3, %rd3, 4; {STORE}"
    out = run(body, words=65, engine=engine)
    assert out[0] == expected
    if operation.startswith("add"):
        assert out[1:].tolist() == [5 + sum(range(i)) for i in range(64)], "each lane sees what the ones before it left"


@pytest.mark.parametrize("engine", ENGINES)
def test_float_atomics_and_reductions(engine: str) -> None:
    body = """
    mov.f32 %f1, 0f3F000000; red.global.add.f32 [%rd1], %f1;
    mov.b32 %r5, 0x3C003800; red.global.add.noftz.f16x2 [%rd1+4], %r5;
    mov.f32 %f2, 0f00400000; red.global.add.f32 [%rd1+8], %f2;
    mov.u32 %r6, cell; setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [cell], 0; bar.sync 0;
    red.shared.add.f32 [%r6], %f2; bar.sync 0;
    cvt.u64.u32 %rd6, %r6; cvta.shared.u64 %rd6, %rd6; red.add.f32 [%rd6], %f2; bar.sync 0;
    @%p1 ld.shared.u32 %r7, [cell]; @%p1 st.global.u32 [%rd1+12], %r7;"""
    out = run(body, block=32, words=4, declarations=".shared .align 4 .b32 cell;", engine=engine)
    assert out[0] == np.float32(16).view(np.uint32)
    assert out[1:2].view(np.float16).tolist() == [16, 32]
    # Global memory flushes subnormals, shared memory keeps them, also through a generic address.
    assert out[2] == 0 and out[3] == np.float32(64 * 2.0**-127).view(np.uint32)


# -- copies ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [0, 3, 8, 16])
def test_asynchronous_copies(size: int, engine: str) -> None:
    body = f"""
    mov.u32 %r5, cell; mov.u32 %r6, {size};
    cp.async.cg.shared.global [%r5], [%rd4], 16, %r6; cp.async.ca.shared.global [%r5+16], [%rd4+4], 4;
    cp.async.commit_group; cp.async.wait_group 0; bar.sync 0;
    shl.b32 %r7, %r1, 2; add.u32 %r7, %r7, %r5; ld.shared.u32 %r9, [%r7];
    {STORE}"""
    data = np.array([0x03020100, 0x07060504, 0x0B0A0908, 0x0F0E0D0C], np.uint32)
    out = run(body, block=5, declarations=".shared .align 16 .b8 cell[32];", data=data[: max(2, -(-size // 4))], engine=engine)
    padded_bytes = (data.tobytes()[:size] + bytes(16))[:16]
    assert out.tobytes() == padded_bytes + data.tobytes()[4:8]


# -- module variables -----------------------------------------------------------------------------------------------------
VARIABLES = """
.global .align 4 .u32 table[4] = {10, 0x20, 30};
.const .align 8 .f64 number = 1.5;
.global .align 1 .b8 text[] = {104, 105, 0};
.global .align 8 .u64 pointer = table+4;
.global .align 4 .u32 counter;
.global .align 4 .f32 grid[2][2] = {{1.0, 0f40000000}, {3, 4.0}};
"""


def test_module_variables_hold_their_initial_values() -> None:
    body = """
    ld.global.u32 %r5, [table+8]; ld.const.u32 %r6, [number+4]; ld.global.u8 %r7, [text+1];
    ld.global.u64 %rd6, [pointer]; ld.global.u32 %r8, [%rd6];
    st.global.v4.u32 [%rd1], {%r5, %r6, %r7, %r8};
    ld.global.u32 %r9, [grid+4]; st.global.u32 [%rd1+16], %r9; ld.global.u32 %r9, [table+12]; st.global.u32 [%rd1+20], %r9;
    mov.u64 %rd7, table; isspacep.global %p1, %rd7; mov.u64 %rd8, number; isspacep.const %p2, %rd8; isspacep.const %p3, %rd7;
    selp.u32 %r9, 1, 0, %p1; @%p2 add.u32 %r9, %r9, 2; @%p3 add.u32 %r9, %r9, 4; st.global.u32 [%rd1+24], %r9;"""
    for engine in ENGINES:
        out = run(body, block=1, words=7, module=VARIABLES, engine=engine)
        assert out.tolist() == [30, 0x3FF80000, 105, 0x20, 0x40000000, 0, 3]


def test_module_variables_live_from_launch_to_launch() -> None:
    text = f""".version 8.0
.target sm_80
.address_size 64
{VARIABLES}
.visible .entry count(.param .u64 out) {{ .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
    atom.global.add.u32 %r1, [counter], 1; st.global.u32 [%rd1], %r1; ret; }}
.visible .entry look(.param .u64 out) {{ .reg .b32 %r<3>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];
    ld.global.u32 %r1, [counter]; st.global.u32 [%rd1], %r1; ret; }}
"""
    module, out = ptxgraft.load(text), np.zeros(1, np.uint32)
    module.kernel("count", engine="numpy").launch(2, 3, [out])
    module.kernel("look", engine="numpy").launch(1, 1, [out])
    assert out.tolist() == [6]
    large = np.zeros(1 << 20, np.uint32)
    module.kernel("look", engine="numpy").launch(1, 1, [large])
    assert large[0] == 6, "buffers may grow: variables lie elsewhere"
    ptxgraft.load(text).kernel("look", engine="numpy").launch(1, 1, [out])
    assert out.tolist() == [0], "another load is another module"


@pytest.mark.parametrize(
    "declaration, message",
    [
        (".global .u32 x[1] = {1, 2};", "variable 'x' has 4 bytes, its initialiser 8"),
        (".global .u64 x = somewhere;", "cannot read 'somewhere' in the initialiser of 'x'"),
    ],
)
def test_initialisers_that_cannot_be(declaration: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        run("ld.global.u32 %r9, [x];", block=1, module=declaration)


def test_variables_keep_clear_of_captured_memory() -> None:
    text = ".version 8.0\n.target sm_80\n.address_size 64\n.global .u32 x = 5; .global .u32 y = 6;\n"
    text += ".visible .entry k() { .reg .b32 %r<2>; ld.global.u32 %r1, [x]; ld.global.u32 %r1, [y]; ret; }"
    program = bind(Document.parse(text), "k")
    captured = [allocate(FIRST_VARIABLE - 100, 4096), allocate(FIRST_VARIABLE + 0x30000, 1 << 20)]
    launch = Launch(program, 1, 1, allocations=captured)
    assert [launch.memory.find(v.base) for v in launch.variables.values()] == list(launch.variables.values())
    assert all(v.end < c.base or c.end < v.base for v in launch.variables.values() for c in captured)


# -- launches -------------------------------------------------------------------------------------------------------------
ENTRY = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u32 b) {directives} {{ ret; }}
"""


@pytest.mark.parametrize(
    "given_, directives, message",
    [
        ({"args": bytes(8)}, "", "k: the argument block has 8 bytes, its parameters need 12; missing: b"),
        ({"args": bytes(24)}, "", "k: the argument block has 24 bytes, its parameters take only 12"),
        ({"grid": (1, 0, 1)}, "", r"the grid \(1, 0, 1\) has a dimension below 1"),
        ({"block": (1, 1, 1, 1)}, "", "a block has one to three dimensions, not 4"),
        ({"block": (64, 32, 1)}, "", "k: a block of 2048 threads; at most 1024 are possible"),
        ({"block": (1, 1, 65)}, "", r"k: the block \(1, 1, 65\) is larger than \(1024, 1024, 64\)"),
        ({"block": 64}, ".maxntid 32, 1, 1", "k: a block of 64 threads; the entry declares .maxntid 32, 1, 1"),
        ({"block": (8, 4)}, ".reqntid 32", r"k: the block is \(8, 4, 1\); the entry declares .reqntid 32, 1, 1"),
        ({"shared_bytes": 300000}, "", "k: 300000 bytes of shared memory; a block may have 232448"),
    ],
)
def test_launches_that_cannot_be(given_: dict, directives: str, message: str) -> None:
    program = bind(Document.parse(ENTRY.format(directives=directives)), "k")
    whole = {"grid": 1, "block": 32, "args": bytes(12), **given_}
    with pytest.raises(UsageError, match=message):
        Launch(program, **whole)


def test_a_block_may_be_smaller_than_declared_and_arguments_padded() -> None:
    program = bind(Document.parse(ENTRY.format(directives=".maxntid 64")), "k")
    launch = Launch(program, (2, 3, 4), (8, 2), bytes(16))
    assert (launch.threads, launch.warps_per_block, launch.blocks, launch.block_of(23)) == (16, 1, 24, (1, 2, 3))
    assert LOCAL_WINDOW > SHARED_WINDOW


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(1, 70), st.lists(st.integers(0, 4), min_size=1, max_size=3, unique=True))
def test_only_chosen_blocks_run(grid: int, block: int, chosen: list[int]) -> None:
    text = ENTRY.replace("{{ ret; }}", "{{ .reg .b32 %r<4>; .reg .b64 %rd<3>; ld.param.u64 %rd1, [a]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 4;"
                                       " add.s64 %rd1, %rd1, %rd2; atom.global.add.u32 %r2, [%rd1], 1; ret; }}")  # fmt: skip
    out = np.zeros(5, np.uint32)
    kernel = ptxgraft.load(text.format(directives="")).kernel("k", engine="numpy")
    if max(chosen) >= grid:
        with pytest.raises(UsageError, match=f"the grid has blocks 0 to {grid - 1}"):
            kernel.launch(grid, block, [out, 0], blocks=chosen)
        return
    kernel.launch(grid, block, [out, 0], blocks=chosen)
    assert out.tolist() == [block if i in chosen else 0 for i in range(5)]
