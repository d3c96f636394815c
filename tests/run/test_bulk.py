"""Bulk copies and reductions, stores and reductions that are counted, fills: on the engines, against NumPy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault, UnsupportedError
from ptxgraft.lower import warp_graph

HEAD = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .shared .align 128 .b8 shm[2048]; .shared .align 8 .b64 bar;
    .reg .pred %p<9>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .b16 %h<4>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mov.u32 %r2, shm; mov.u32 %r3, bar;
"""
INIT = "setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [bar], 32; bar.sync 0;\n"
WAIT = "W: mbarrier.try_wait.shared.b64 %p2, [bar], %rd9; @!%p2 bra W; bar.sync 0;\n"


@pytest.fixture(params=["numpy", "warp", "threaded"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    if request.param == "threaded":
        monkeypatch.setattr(warp_graph, "LIMIT", 0)
    yield "numpy" if request.param == "numpy" else "warp"


def run(body: str, data: np.ndarray, out: np.ndarray, engine: str, threads: int = 32) -> np.ndarray:
    ptxgraft.load(HEAD + body + "ret;\n}\n").kernel("k", engine=engine).launch(1, threads, [data, out])
    return out


def test_copies_of_different_sizes_are_counted(engine: str) -> None:
    """Lane i copies 16 * (i % 4) bytes in, all are awaited, and lane 0 copies everything out."""
    body = f"""{INIT}
    and.b32 %r4, %r1, 3; shl.b32 %r4, %r4, 4; mul.wide.u32 %rd3, %r1, 64; add.u64 %rd4, %rd1, %rd3; mad.lo.u32 %r5, %r1, 64, %r2;
    st.shared.v2.u64 [%r5], {{0, 0}}; st.shared.v2.u64 [%r5+16], {{0, 0}}; st.shared.v2.u64 [%r5+32], {{0, 0}}; st.shared.v2.u64 [%r5+48], {{0, 0}};
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], %r4;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd4], %r4, [%r3];
    {WAIT}
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 2048;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0;
"""
    data = np.random.default_rng(1).integers(0, 256, (32, 64)).astype(np.uint8)
    want = np.where(np.arange(64) < 16 * (np.arange(32) % 4)[:, None], data, 0)
    np.testing.assert_array_equal(run(body, data, np.full((32, 64), 7, np.uint8), engine), want)


def test_masked_bytes_stay(engine: str) -> None:
    body = """
    mul.wide.u32 %rd3, %r1, 64; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; mad.lo.u32 %r5, %r1, 64, %r2; cvt.u16.u32 %h1, %r1; mul.lo.u16 %h1, %h1, 2113;
    ld.global.v4.u64 {%rd6, %rd7, %rd8, %rd9}, [%rd4]; st.shared.v2.u64 [%r5], {%rd6, %rd7}; st.shared.v2.u64 [%r5+16], {%rd8, %rd9};
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd5], [%r5], 32, %h1;
"""
    data = np.random.default_rng(1).integers(0, 256, (32, 64)).astype(np.uint8)
    masks = (np.arange(32) * 2113 & 0xFFFF)[:, None] >> (np.arange(64) % 16) & 1
    want = np.where((masks == 1) & (np.arange(64) < 32), data, 7)
    np.testing.assert_array_equal(run(body, data, np.full((32, 64), 7, np.uint8), engine), want)


@pytest.mark.parametrize(
    ("op", "dtype", "combine"),
    [
        ("add.u32", np.uint32, np.add), ("min.s32", np.int32, np.minimum), ("max.s64", np.int64, np.maximum), ("xor.b64", np.uint64, np.bitwise_xor),
        ("add.f32", np.float32, np.add), ("add.f64", np.float64, np.add), ("max.f16", np.float16, np.maximum), ("add.noftz.f16", np.float16, np.add),
        ("inc.u32", np.uint32, lambda a, b: np.where(a >= b, 0, a + 1)),
    ],
)  # fmt: skip
def test_reductions_into_global_memory(engine: str, op: str, dtype: type, combine: np.ufunc) -> None:
    body = f"""
    mul.wide.u32 %rd3, %r1, 64; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3; mad.lo.u32 %r5, %r1, 64, %r2;
    ld.global.v2.u64 {{%rd6, %rd7}}, [%rd4]; st.shared.v2.u64 [%r5], {{%rd6, %rd7}}; ld.global.v2.u64 {{%rd6, %rd7}}, [%rd4+16]; st.shared.v2.u64 [%r5+16], {{%rd6, %rd7}};
    cp.reduce.async.bulk.global.shared::cta.bulk_group.{op} [%rd5], [%r5], 32;
"""
    rng = np.random.default_rng(2)
    per_lane = 64 // np.dtype(dtype).itemsize
    values = [rng.integers(0, 100, (32, per_lane)).astype(dtype) for _ in range(2)]
    want = values[1].copy()
    want[:, : per_lane // 2] = combine(values[1], values[0])[:, : per_lane // 2]
    np.testing.assert_array_equal(run(body, values[0], values[1].copy(), engine), want)


def test_counted_stores_and_reductions(engine: str) -> None:
    """Each lane stores 16 bytes into its own place and adds to a common one; the barrier counts both."""
    body = f"""{INIT}
    @%p1 st.shared.u32 [%r2], 5; bar.sync 0;
    mad.lo.u32 %r5, %r1, 16, %r2; add.u32 %r5, %r5, 256; mapa.shared::cluster.u32 %r6, %r5, 0; mapa.shared::cluster.u32 %r7, %r3, 0;
    mbarrier.arrive.expect_tx.shared.b64 %rd9, [bar], 20;
    st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r6], {{%r1, %r1, 3, %r5}}, [%r7];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r2], %r1, [%r7];
    {WAIT}
    ld.shared.v4.u32 {{%r8, %r9, %r10, %r11}}, [%r5]; ld.shared.u32 %r12, [%r2]; sub.u32 %r11, %r11, %r2; getctarank.shared::cluster.u32 %r13, %r5; add.u32 %r12, %r12, %r13;
    mul.wide.u32 %rd3, %r1, 16; add.u64 %rd4, %rd2, %rd3; add.u32 %r9, %r9, %r12; st.global.v4.u32 [%rd4], {{%r8, %r9, %r10, %r11}};
"""
    lanes = np.arange(32)
    want = np.stack([lanes, lanes + 5 + lanes.sum(), np.full(32, 3), 256 + 16 * lanes], 1)
    np.testing.assert_array_equal(run(body, np.zeros(4, np.uint8), np.zeros((32, 4), np.uint32), engine), want)


def test_fills(engine: str) -> None:
    body = """
    mad.lo.u32 %r5, %r1, 64, %r2; mov.u64 %rd5, -1;
    st.shared.v2.u64 [%r5], {%rd5, %rd5}; st.shared.v2.u64 [%r5+16], {%rd5, %rd5}; st.shared.v2.u64 [%r5+32], {%rd5, %rd5}; st.shared.v2.u64 [%r5+48], {%rd5, %rd5};
    and.b32 %r6, %r1, 7; shl.b32 %r6, %r6, 3; cvt.u64.u32 %rd6, %r6; cvt.u64.u32 %rd7, %r5;
    st.bulk.weak.shared::cta [%r5], %rd6, 0;
    mul.wide.u32 %rd3, %r1, 64; add.u64 %rd4, %rd2, %rd3; cp.async.bulk.global.shared::cta.bulk_group [%rd4], [%r5], 64;
"""
    want = np.where(np.arange(64) < 8 * (np.arange(32) % 8)[:, None], 0, 255)
    np.testing.assert_array_equal(run(body, np.zeros(4, np.uint8), np.zeros((32, 64), np.uint8), engine), want)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 24;", "copies 24 bytes, which is no multiple of 16"),
        ("add.u64 %rd2, %rd2, 8; cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;", "which is no multiple of 16"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 2064;", "writes 16 bytes at .* bytes past the end|shared memory has"),
        ("mov.u32 %r4, 1; mapa.shared::cluster.u32 %r5, %r2, %r4;", "there is no block 1 in the cluster"),
        ("st.bulk.shared::cta [%r2], 12, 0;", "fills 12 bytes, which is no multiple of 8"),
    ],
)
def test_faults(engine: str, body: str, message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        run(body, np.zeros(16, np.uint8), np.zeros(2048, np.uint8), engine, 1)


@pytest.mark.parametrize(
    "statement",
    [
        "mov.u32 %r1, %cluster_ctarank;",
        "mapa.shared::cluster.u32 %r1, %r2, 0;",
        "barrier.cluster.arrive.aligned;",
        "ld.shared::cluster.u32 %r1, [%r2];",
    ],
)
def test_larger_clusters_are_refused_where_they_are_looked_at(statement: str) -> None:
    ptx = HEAD.replace(".param .u64 out)", ".param .u64 out) .reqnctapercluster 2") + "mov.u32 %r2, shm;\n{}ret;\n}\n"
    arguments = [np.zeros(4, np.uint8), np.zeros(4, np.uint8)]
    with pytest.raises(UnsupportedError, match=r":10:1: clusters of 2 blocks are not supported, and `" + statement.split(".")[0]) as caught:
        ptxgraft.load(ptx.replace("{}", statement + "\n")).kernel("k").launch(1, 1, arguments)
    assert "clusters of one block are" in caught.value.hint
    ptxgraft.load(ptx.replace("{}", "atom.add.relaxed.cluster.shared.u32 %r1, [%r2], 1;\n")).kernel("k").launch(1, 1, arguments)
