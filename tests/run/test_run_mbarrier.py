"""Barrier objects in shared memory on both engines, against what the manual says a phase is."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft

HEAD = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<8>; .reg .b32 %r<20>; .reg .b64 %rd<20>;
    .shared .align 8 .b64 bar;
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2;
    mov.u32 %r2, bar; setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, 0;
"""
TAIL = "    st.global.u32 [%rd3], %r9;\n    ret;\n}\n"


def run(body: str, block: int, engine: str) -> list[int]:
    out = np.full(block, 0xEE, np.uint32)
    ptxgraft.load(HEAD + body + TAIL).kernel("k", engine=engine).launch(1, block, [out])
    return out.tolist()


@pytest.fixture(params=["numpy", "warp"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


def test_a_phase_completes_with_the_last_arrival(engine: str) -> None:
    body = """
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 64;
    bar.sync 0;
    mbarrier.arrive.shared::cta.b64 %rd4, [%r2];
    bar.sync 0;
    mbarrier.test_wait.shared::cta.b64 %p2, [%r2], %rd4;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p4, [%r2], 1;
    mbarrier.pending_count.b64 %r5, %rd4;
    selp.u32 %r6, 100, 0, %p2; selp.u32 %r7, 1000, 0, %p3; selp.u32 %r8, 10000, 0, %p4;
    add.u32 %r9, %r5, %r6; add.u32 %r9, %r9, %r7; add.u32 %r9, %r9, %r8;
"""
    found = run(body, 64, engine)
    # Each thread saw another number pending; the first phase is complete, the second is not.
    assert sorted(v - 1100 for v in found) == list(range(1, 65))


def test_an_incomplete_phase(engine: str) -> None:
    body = """
    @%p1 mbarrier.init.shared.b64 [bar], 33;
    bar.sync 0;
    mbarrier.arrive.shared.b64 %rd4, [bar];
    mbarrier.test_wait.shared.b64 %p2, [bar], %rd4;
    selp.u32 %r9, 1, 0, %p2;
    bar.sync 0;
    @%p1 mbarrier.arrive.shared.b64 _, [bar];
    bar.sync 0;
    mbarrier.try_wait.shared::cta.b64 %p3, [bar], %rd4, 100;
    selp.u32 %r5, 2, 0, %p3;
    add.u32 %r9, %r9, %r5;
"""
    assert run(body, 32, engine) == [2] * 32


def test_bytes_that_a_phase_waits_for(engine: str) -> None:
    body = """
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
    @!%p1 bra WAIT;
    mbarrier.arrive.expect_tx.shared::cta.b64 %rd4, [%r2], 48;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    selp.u32 %r9, 1, 0, %p2;
    mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%r2], 32;
    mbarrier.test_wait.parity.shared::cta.b64 %p2, [%r2], 0;
    selp.u32 %r5, 2, 0, %p2; add.u32 %r9, %r9, %r5;
    mbarrier.complete_tx.shared::cta.b64 [%r2], 16;
WAIT:
    bar.sync 0;
    mbarrier.test_wait.parity.acquire.cta.shared::cta.b64 %p2, [%r2], 0;
    selp.u32 %r5, 4, 0, %p2; add.u32 %r9, %r9, %r5;
"""
    assert run(body, 32, engine) == [4] * 32


def test_later_phases_and_dropping_out(engine: str) -> None:
    """Three phases: everybody arrives, half of the threads for the last time; then the other half is enough."""
    body = """
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 32;
    bar.sync 0;
    setp.lt.u32 %p2, %r1, 16;
    @%p2 mbarrier.arrive.shared::cta.b64 %rd4, [%r2];
    @!%p2 mbarrier.arrive_drop.shared::cta.b64 %rd4, [%r2];
    bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    selp.u32 %r9, 1, 0, %p3;
    @%p2 mbarrier.arrive.shared::cta.b64 %rd4, [%r2];
    bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 1;
    selp.u32 %r5, 2, 0, %p3; add.u32 %r9, %r9, %r5;
    @%p1 mbarrier.arrive.shared::cta.b64 %rd4, [%r2], 16;
    bar.sync 0;
    mbarrier.test_wait.shared::cta.b64 %p3, [%r2], %rd4;
    @%p1 selp.u32 %r5, 4, 0, %p3;
    @!%p1 mov.u32 %r5, 4;
    add.u32 %r9, %r9, %r5;
"""
    assert run(body, 32, engine) == [7] * 32


def test_copies_arrive(engine: str) -> None:
    body = """
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 32;
    bar.sync 0;
    cp.async.mbarrier.arrive.shared::cta.b64 [%r2];
    bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    selp.u32 %r9, 1, 0, %p3;
    bar.sync 0;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r2];
    bar.sync 0;
    mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    selp.u32 %r5, 2, 0, %p3; add.u32 %r9, %r9, %r5;
"""
    assert run(body, 32, engine) == [2] * 32


@pytest.mark.parametrize(("engine", "block"), [("numpy", 32), ("warp", 32), ("numpy", 96), ("warp", 96)])
def test_waiting_in_a_loop(engine: str, block: int) -> None:
    """Consumers wait before the producer's code is reached: whoever waits must let the others come."""
    body = f"""
    @%p1 mbarrier.init.shared::cta.b64 [%r2], 1;
    bar.sync 0;
    setp.eq.u32 %p2, %r1, {block - 1};
    @%p2 bra PRODUCE;
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r2], 0;
    @!%p3 bra WAIT;
    mov.u32 %r9, 5;
    bra DONE;
PRODUCE:
    mov.u32 %r9, 6;
    mbarrier.arrive.shared::cta.b64 %rd4, [%r2];
DONE:
"""
    assert run(body, block, engine) == [5] * (block - 1) + [6]
