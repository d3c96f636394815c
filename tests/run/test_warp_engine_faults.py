"""The warp executor against the interpreter: the same faults, refusals and watched stores."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from engine_pair import OUT, both_fail, kernel, launch_of, run_both

from ptxgraft.errors import KernelFault, UnsupportedError, UsageError
from ptxgraft.run import warp_engine
from ptxgraft.run.execution import execute
from ptxgraft.run.result import Watch

pytestmark = pytest.mark.usefixtures("form")


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
