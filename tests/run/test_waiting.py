"""Threads that wait in loops for others: of their warp, their block and their grid; and those that wait for nobody."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault
from ptxgraft.flow.waiting import may_wait
from ptxgraft.isa import bind
from ptxgraft.run import StoreRecord, Watch, execute
from ptxgraft.run.warp_turns import waiting_budget
from ptxgraft.text import Document

ENGINES = pytest.mark.parametrize("engine", ["numpy", "warp"])
HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def text(body: str, declarations: str = "") -> str:
    """Threads have their number in their block in %r1, that of their block in %r2, threads a block in %r3, blocks in %r4; ``out`` at %rd1, the grid's words
    at %rd2."""
    return f"""{HEAD}.entry k(.param .u64 out, .param .u64 words)
{{
.reg .pred %p<6>; .reg .b32 %r<20>; .reg .b64 %rd<12>;
{declarations}
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [words];
mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %nctaid.x; mad.lo.u32 %r5, %r2, %r3, %r1;
mul.wide.u32 %rd3, %r5, 4; add.u64 %rd3, %rd1, %rd3;
{body}
ret;
}}
"""


def run(engine: str, body: str, grid: int, block: int, declarations: str = "", words: int = 8, **options) -> tuple[list[int], list[int]]:
    """(out, the grid's words) afterwards."""
    out, shared = np.zeros(grid * block, np.uint32), np.zeros(words, np.uint32)
    ptxgraft.load(text(body, declarations)).kernel("k", engine=engine).launch(grid, block, [out, shared], **options)
    return out.tolist(), shared.tolist()


SHARED = ".shared .b32 lock, count, flag;"
CLEAR = "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [lock], 0; @%p1 st.shared.u32 [count], 0; @%p1 st.shared.u32 [flag], 0; bar.sync 0;"
SPIN_LOCK = f"""{CLEAR}
TRY: atom.shared.cas.b32 %r6, [lock], 0, 1; setp.ne.u32 %p2, %r6, 0; @%p2 bra TRY;
ld.volatile.shared.u32 %r7, [count]; add.u32 %r8, %r7, 1; st.volatile.shared.u32 [count], %r8;
atom.shared.exch.b32 %r6, [lock], 0;
st.global.u32 [%rd3], %r7;"""


@ENGINES
@pytest.mark.parametrize("block", [32, 96])
def test_a_spin_lock_in_shared_memory(engine: str, block: int) -> None:
    out, _ = run(engine, SPIN_LOCK, 2, block, SHARED)
    assert sorted(out[:block]) == sorted(out[block:]) == list(range(block))


@ENGINES
@pytest.mark.parametrize("last", [False, True])
def test_a_warp_waits_for_another(engine: str, last: bool) -> None:
    """The first warps wait for the last one, or the other way round."""
    body = f"""{CLEAR}
setp.{"ge" if last else "lt"}.u32 %p1, %r1, {64 if last else 32}; @%p1 bra GIVE;
WAIT: ld.volatile.shared.u32 %r6, [flag]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;
st.global.u32 [%rd3], %r6; bra END;
GIVE: mov.u32 %r7, 0;
WORK: add.u32 %r7, %r7, 1; setp.lt.u32 %p2, %r7, 1500; @%p2 bra WORK;
st.volatile.shared.u32 [flag], %r7;
END:"""
    out, _ = run(engine, body, 1, 96, SHARED)
    waits = [i < 64 if last else i >= 32 for i in range(96)]
    assert out == [1500 * w for w in waits]


@ENGINES
def test_warps_at_a_named_barrier_while_another_waits_for_them(engine: str) -> None:
    body = f"""{CLEAR}
setp.ge.u32 %p1, %r1, 64; @%p1 bra WAIT;
bar.sync 1, 64;
setp.eq.u32 %p2, %r1, 0; @%p2 st.volatile.shared.u32 [flag], 3; bra END;
WAIT: ld.volatile.shared.u32 %r6, [flag]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;
st.global.u32 [%rd3], %r6;
END:"""
    assert run(engine, body, 1, 96, SHARED)[0] == [0] * 64 + [3] * 32


@ENGINES
def test_a_block_waits_for_a_later_one(engine: str) -> None:
    body = """setp.eq.u32 %p1, %r2, 4; @%p1 bra GIVE;
WAIT: ld.acquire.gpu.global.u32 %r6, [%rd2]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;
st.global.u32 [%rd3], %r6; bra END;
GIVE: setp.eq.u32 %p1, %r1, 33; @%p1 st.release.gpu.global.u32 [%rd2], 77;
END:"""
    out, _ = run(engine, body, 5, 40)
    assert out == [77] * 160 + [0] * 40


GRID_BARRIER = """mov.u32 %r9, 0; mov.u32 %r10, 0;
ROUND: add.u32 %r10, %r10, 1;
setp.ne.u32 %p1, %r1, 0;
@!%p1 red.global.add.u32 [%rd2+8], %r10;
bar.sync 0;
@%p1 bra MET;
membar.gl; atom.global.add.u32 %r6, [%rd2], 1; mul.lo.u32 %r7, %r10, %r4;
HERE: ld.acquire.gpu.global.u32 %r6, [%rd2]; setp.lt.u32 %p2, %r6, %r7; @%p2 bra HERE;
MET: bar.sync 0;
ld.relaxed.gpu.global.u32 %r8, [%rd2+8]; add.u32 %r9, %r9, %r8;
bar.sync 0;
@%p1 bra MET2;
atom.global.add.u32 %r6, [%rd2+4], 1;
AGAIN: ld.acquire.gpu.global.u32 %r6, [%rd2+4]; setp.lt.u32 %p2, %r6, %r7; @%p2 bra AGAIN;
MET2: bar.sync 0;
setp.lt.u32 %p3, %r10, 3; @%p3 bra ROUND;
st.global.u32 [%rd3], %r9;"""


@ENGINES
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (7, 64), (60, 96)])
def test_a_barrier_of_the_whole_grid(engine: str, grid: int, block: int) -> None:
    """Each round adds its number once a block; after the barrier all see the sum."""
    out, words = run(engine, GRID_BARRIER, grid, block)
    assert out == [grid * (1 + 3 + 6)] * (grid * block) and words[:3] == [3 * grid, 3 * grid, 6 * grid]


@ENGINES
def test_blocks_taken_from_a_queue(engine: str) -> None:
    """A persistent kernel: blocks take numbers until there are none; each is taken once."""
    body = """NEXT: setp.ne.u32 %p1, %r1, 0;
@!%p1 atom.global.add.u32 %r6, [%rd2], 1; @!%p1 st.shared.u32 [flag], %r6;
bar.sync 0; ld.shared.u32 %r6, [flag]; bar.sync 0;
setp.ge.u32 %p2, %r6, 40; @%p2 bra END;
mul.wide.u32 %rd4, %r6, 4; add.u64 %rd4, %rd2, %rd4;
@!%p1 red.global.add.u32 [%rd4+4], 1;
bra NEXT;
END: """
    _, words = run(engine, body, 6, 64, SHARED, words=64)
    assert words[1:41] == [1] * 40 and words[0] == 46


@ENGINES
@pytest.mark.parametrize("what", ["volatile", "acquire.gpu"])
def test_who_waits_for_nobody_is_stopped(engine: str, what: str) -> None:
    body = f"WAIT: ld.{what}.global.u32 %r6, [%rd2]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;"
    with pytest.raises(KernelFault, match=r"never ends: still running after 20000 statements: .*block \(0, 0, 0\), warp 0"):
        run(engine, body, 2, 64, step_budget=20000)


def test_the_budget_of_many_warps_that_wait() -> None:
    assert waiting_budget(1, 1 << 28) == 1 << 28 and waiting_budget(64, 1 << 28) == 1 << 25 and waiting_budget(10**6, 1 << 28) == 5_000_000


@ENGINES
def test_a_barrier_that_is_never_met_while_warps_take_turns(engine: str) -> None:
    body = f"""{SPIN_LOCK}
setp.lt.u32 %p1, %r1, 32; @%p1 exit;
bar.sync 0;"""
    with pytest.raises(KernelFault, match="barrier 0 is never met"):
        run(engine, body, 1, 64, SHARED)


@ENGINES
def test_what_is_printed_and_watched_in_turns(engine: str) -> None:
    module = ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 a);\n.global .b8 text[4] = {37, 100, 32, 0};\n"
    source = text(
        """setp.eq.u32 %p1, %r2, 2; @%p1 bra GIVE;
WAIT: ld.volatile.global.u32 %r6, [%rd2]; setp.eq.u32 %p2, %r6, 0; @%p2 bra WAIT;
GIVE: st.volatile.global.u32 [%rd2], 1;
st.local.u32 [buffer], %r5; mov.u64 %rd5, text; mov.u64 %rd6, buffer; cvta.local.u64 %rd6, %rd6; call (%r6), vprintf, (%rd5, %rd6);
st.global.u32 [%rd3], %r5;""",
        ".local .b32 buffer;",
    ).replace(".entry", module + ".entry")
    out, words = np.zeros(6, np.uint32), np.zeros(1, np.uint32)
    prepared = ptxgraft.load(source).kernel("k", engine=engine).prepare(3, 2, [out, words])
    base = prepared.launch.allocations[0].base
    result = execute(prepared.launch, engine=engine, watch=[Watch("memory", base, 0, 24)])
    assert result.output == "0 1 2 3 4 5 "
    assert sorted((s.block[0], s.lane, s.offset) for s in result.stores if isinstance(s, StoreRecord)) == [
        (i // 2, i % 2, 4 * i) for i in range(6)
    ]


@pytest.mark.parametrize(
    ("body", "waits"),
    [
        (SPIN_LOCK, True),
        (GRID_BARRIER, True),
        # A histogram: atomics in a loop whose end does not depend on them.
        ("mov.u32 %r6, 0;\nL: atom.global.add.u32 %r7, [%rd2], 1; add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 9; @%p1 bra L;", False),
        # The last block adds up: an atomic decides, in no loop.
        ("atom.global.add.u32 %r7, [%rd2], 1; setp.ne.u32 %p2, %r7, 3; @%p2 ret; mov.u32 %r6, 0;\nL: add.u32 %r6, %r6, 1; setp.lt.u32 %p1, %r6, 9; @%p1 bra L;", False),
        ("L: ld.global.u32 %r6, [%rd2]; setp.eq.u32 %p1, %r6, 0; @%p1 bra L;", False),
        ("L: ld.global.cv.u32 %r6, [%rd2]; setp.eq.u32 %p1, %r6, 0; @%p1 bra L;", True),
        # Code that was not optimised keeps everything in local memory.
        (".local .b32 t;\nL: ld.relaxed.gpu.global.u32 %r6, [%rd2]; st.local.u32 [t], %r6; ld.local.u32 %r7, [t]; setp.eq.u32 %p1, %r7, 0; @%p1 bra L;", True),
        ("L: mbarrier.try_wait.parity.shared.b64 %p1, [lock], 0; @!%p1 bra L;", True),
    ],
)  # fmt: skip
def test_which_programs_wait(body: str, waits: bool) -> None:
    assert may_wait(bind(Document.parse(text(body, ".shared .align 8 .b64 lock; .shared .b32 count, flag;")), "k")) == waits
