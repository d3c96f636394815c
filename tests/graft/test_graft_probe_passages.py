"""Probes in loops and in functions that are called several times: every passage on its own, counted, and never past the buffer; and runs compared."""

from __future__ import annotations

import numpy as np
import pytest
from graft_kernels import MMA, document, mma_launch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ptxgraft.errors import UsageError
from ptxgraft.graft import FILL, Probe, Reading, assemble, compare_stored, cut, find_ptxas, probe, probe_many, touched, wrong_fragment_body
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

BUFFER = 0x2000_0000
OUT = 0x1000_0000

LOOP = """\
.version 7.8
.target sm_80
.address_size 64
.func (.param .b32 twice) double(.param .b32 x)
{
	.reg .b32 %r<3>;
	ld.param.b32 %r1, [x];
	add.u32 %r2, %r1, %r1;
	st.param.b32 [twice], %r2;
	ret;
}
.visible .entry loop(.param .u64 out, .param .u32 extra)
{
	.reg .pred %p<3>;
	.reg .b32 %r<10>;
	.reg .b64 %rd<4>;
$again:
	mov.u32 %r1, %tid.x;
	ld.param.u32 %r2, [extra];
	and.b32 %r3, %r1, 3;
	add.u32 %r3, %r3, %r2;
	mov.u32 %r4, 0;
	mov.u32 %r5, 7;
	setp.ge.u32 %p1, %r4, %r3;
	@%p1 bra $done;
$more:
	mad.lo.u32 %r5, %r5, 5, %r1;
	{
	.param .b32 a;
	.param .b32 b;
	st.param.b32 [a], %r5;
	call.uni (b), double, (a);
	ld.param.b32 %r6, [b];
	}
	add.u32 %r4, %r4, 1;
	setp.lt.u32 %p2, %r4, %r3;
	@%p2 bra $more;
$done:
	ld.param.u64 %rd1, [out];
	mov.u32 %r7, %ctaid.x;
	mov.u32 %r8, %ntid.x;
	mad.lo.u32 %r7, %r7, %r8, %r1;
	mul.wide.u32 %rd2, %r7, 4;
	add.s64 %rd3, %rd1, %rd2;
	st.global.u32 [%rd3], %r5;
	ret;
}
"""
MODULE = document(LOOP)


def line(text: str) -> int:
    found = [i for i, row in enumerate(LOOP.splitlines(), 1) if text in row]
    assert len(found) == 1, text
    return found[0]


INSIDE = line("mad.lo.u32 %r5, %r5, 5")


def expected(threads: int, extra: int) -> list[list[int]]:
    """Values of %r5 after each passage, by thread."""
    result = []
    for thread in range(threads):
        value, values = 7, []
        for _ in range((thread & 3) + extra):
            value = (value * 5 + thread) % 2**32
            values.append(value)
        result.append(values)
    return result


def run(module: Document, extra: int, grid=(2,), block=(48,), more: bytes = b"", buffers=(), engine: str = "numpy") -> np.ndarray:
    out = allocate(OUT, np.full(4 * grid[0] * block[0], 0xCD, np.uint8), "out")
    args = OUT.to_bytes(8, "little") + extra.to_bytes(4, "little") + bytes(4) + more
    execute(Launch(bind(module, "loop"), grid, block, args, allocations=[out, *buffers]), engine=engine)
    return out.data.copy()


def consult(
    made: list[Probe], extra: int, grid=(2,), block=(48,), fill: int = FILL, spare: int = 0, engine: str = "numpy"
) -> list[Reading]:
    """The probes' readings of one run, which must leave the output as it is and keep to the buffer."""
    first = made[0]
    slots = first.slots_needed(grid, block) + spare
    size = slots * first.slot_bytes
    buffer = allocate(BUFFER, np.full(size + 4096, fill, np.uint8), "probe")
    arguments = first.argument_bytes(bytes(12), BUFFER, slots)[16:]
    out = run(first.document, extra, grid, block, arguments, [buffer], engine)
    assert (out == run(MODULE, extra, grid, block)).all()
    assert (buffer.data[size:] == fill).all()
    return [p.read(buffer.data[:size], grid, block, empty=True) for p in made]


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 6), st.integers(0, 4), st.sampled_from([FILL, 0, 0xFF, 0x03]))
def test_each_passage_is_kept_and_all_are_counted(iterations: int, extra: int, fill: int):
    made = probe(MODULE, "loop", INSIDE, iterations=iterations)
    (reading,) = consult([made], extra, fill=fill)
    values, wanted = reading.values["%r5"], expected(48, extra)
    assert values.shape == (2, 2, 32, iterations)
    lost = 0
    for thread in range(64):
        passages = wanted[thread] if thread < 48 else []
        warp, lane = divmod(thread, 32)
        if thread >= 48:  # no such thread: its row holds what it held
            continue
        assert (reading.passages[:, warp, lane] == len(passages)).all()
        kept = passages[:iterations]
        lost += 2 * (len(passages) - len(kept))
        assert (values[:, warp, lane, : len(kept)] == kept).all()
        assert (reading.stored[:, warp, lane] == (np.arange(iterations) < len(kept))).all()
    if fill in (FILL, 0):
        assert reading.lost == lost
        assert not reading.stored[:, 1, 16:].any()


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_stages_share_a_row_with_their_own_counts(engine: str):
    made = probe_many(MODULE, "loop", [INSIDE, line("add.u32 %r2, %r1, %r1"), line("mov.u32 %r7, %ctaid.x")], iterations=5)
    assert {p.text for p in made} == {made[0].text}
    assert made[0].words == 3 * (4 + 5 * 4)
    inside, called, behind = consult(made, 2, engine=engine)
    wanted = expected(48, 2)
    for thread in range(48):
        warp, lane = divmod(thread, 32)
        count = len(wanted[thread])
        assert (inside.passages[:, warp, lane] == count).all()
        assert (called.passages[:, warp, lane] == count).all()
        assert (behind.passages[:, warp, lane] == 1).all()
        assert (called.values["%r2"][:, warp, lane, :count] == (np.array(wanted[thread], np.uint64) * 2 % 2**32)).all()
        assert (behind.values["%r7"][:, warp, lane, 0] == np.arange(2)).all()
    assert inside.lost == called.lost == behind.lost == 0


def test_without_passages_the_last_stays_and_a_note_says_so():
    made = probe(MODULE, "loop", INSIDE)
    assert made.notes == [f"line {INSIDE} stands in a loop: the last passage is what is stored; iterations keeps each"]
    (reading,) = consult([made], 1)
    last = [v[-1] for v in expected(48, 1)]
    assert (reading.values["%r5"][:, 0] == last[:32]).all()
    assert probe(MODULE, "loop", line("mov.u32 %r7, %ctaid.x")).notes == []
    assert probe(MODULE, "loop", INSIDE, iterations=2).notes == []


def test_a_buffer_that_is_too_small_is_not_left():
    made = probe(MODULE, "loop", INSIDE, iterations=3)
    (reading,) = consult([made], 2, spare=-2)  # one block's slots
    assert reading.stored.shape == (1, 2, 32, 3)


def test_an_existing_argument_takes_passages_too():
    made = probe(MODULE, "loop", INSIDE, iterations=3, argument=(0, 256), slots=2, floor=1)
    out = allocate(OUT, np.full(256 + 2 * made.slot_bytes, 0x11, np.uint8), "out")
    args = OUT.to_bytes(8, "little") + (1).to_bytes(4, "little")
    execute(Launch(bind(made.document, "loop"), (1,), (64,), args, allocations=[out]), engine="numpy")
    reading = made.read(out.data[256:], (1,), (64,))
    wanted = expected(64, 1)
    assert (reading.passages[0].reshape(-1) == [len(w) for w in wanted]).all()
    assert (reading.values["%r5"][0, :, :, 0].reshape(-1) == [w[0] for w in wanted]).all()
    assert (out.data[:256] == run(MODULE, 1, (1,), (64,))).all()


def test_nothing_stored_is_an_error_and_the_size_is_checked():
    made = probe(MODULE, "loop", INSIDE, iterations=3)
    empty = np.full(made.buffer_bytes((1,), (32,)), FILL, np.uint8)
    with pytest.raises(UsageError, match="read back nothing"):
        made.read(empty, (1,), (32,))
    assert not touched(made, empty, (1,), (32,)).any()
    for wrong in (-1, 1 << 21):
        with pytest.raises(UsageError, match="is no number of passages"):
            probe(MODULE, "loop", INSIDE, iterations=wrong)
    with pytest.raises(UsageError, match=r"a lane's row would have .* words"):
        probe(MODULE, "loop", INSIDE, ["%r5"] * 20, iterations=1 << 20)


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")
def test_probes_with_passages_assemble():
    result = assemble(probe_many(MODULE, "loop", [INSIDE, line("add.u32 %r2, %r1, %r1")], iterations=3)[0].document)
    assert result.ok, result.log


# -- two runs -------------------------------------------------------------------------------------------------------------------


def read_mma(target, where: str, iterations: int = 0) -> Reading:
    made = probe(target, "product", where, iterations=iterations)
    buffer = allocate(BUFFER, np.full(made.buffer_bytes((1,), (64,)), FILL, np.uint8), "probe")
    execute(mma_launch(made.document, made.argument_bytes(bytes(28), BUFFER, 2)[32:], [buffer]), engine="numpy")
    return made.read(buffer.data, (1,), (64,))


@pytest.mark.parametrize("iterations", [0, 2])
def test_a_wrong_fragment_differs_from_its_phase_on(iterations: int):
    module = document(MMA)
    wrong = cut(module, "product", body=wrong_fragment_body(module, "product", 0))
    for where, same in (("a", True), ("p0", False), ("p1", False), ("out", False)):
        right, other = read_mma(module, where, iterations), read_mma(wrong, where, iterations)
        found = right.probe.diff(right, other)
        assert found.stage == where
        assert (found.first is None) == same == (found.differing == 0)
        assert found.compared == sum(a[right.stored].size for a in right.bits.values())
        by_hand = {n: int((right.bits[n] != other.bits[n])[right.stored].sum()) for n in right.bits}
        assert found.registers == {n: count for n, count in by_hand.items() if count}
        if found.first is not None:
            assert found.first.passage == (0 if iterations else None)
            assert f"{where}: {found.differing:,} of" in str(found)
            assert f"{found.first.found:#x} instead of {found.first.expected:#x}" in str(found)
        assert right.probe.diff(right, right).first is None
        assert str(right.probe.diff(right, right)) == f"{where}: the same ({found.compared:,} values)"


def test_a_difference_names_the_earliest_passage():
    made = probe(MODULE, "loop", INSIDE, ["%r5", "%r4"], iterations=4)
    (right,) = consult([made], 2)
    (other,) = consult([made], 2)
    other.bits["%r5"][1, 0, 3, 2] ^= 1
    other.bits["%r4"][1, 1, 2, 1] ^= 1
    found = made.diff(right, other)
    assert found.differing == 2
    assert found.registers == {"%r5": 1, "%r4": 1}
    first = found.first
    assert first is not None
    assert (first.register, first.block, first.warp, first.lane, first.passage) == ("%r4", 1, 1, 2, 1)
    assert first.expected == 1 and first.found == 0
    (shorter,) = consult([made], 1)
    less = made.diff(right, shorter)
    assert less.first is not None and less.first.found is None and less.first.passage == 1
    assert "nothing instead of" in str(less)


def test_what_cannot_be_compared():
    made = probe(MODULE, "loop", INSIDE, iterations=2)
    (right,) = consult([made], 1)
    (other,) = consult([made], 1, grid=(1,))
    with pytest.raises(UsageError, match="the runs' shapes"):
        made.diff(right, other)
    (more,) = consult([probe(MODULE, "loop", INSIDE, ["%r5", "%r4"], iterations=2)], 1)
    with pytest.raises(UsageError, match="the original stores 1 registers there, the graft 2"):
        made.diff(right, more)
    empty = made.read(np.full(made.buffer_bytes((2,), (48,)), FILL, np.uint8), (2,), (48,), empty=True)
    with pytest.raises(UsageError, match="nothing to compare"):
        made.diff(empty, empty)


SHAPE = (2, 1, 3, 2)
bits = arrays(np.uint32, SHAPE, elements=st.integers(0, 1))
seen = arrays(np.bool_, SHAPE)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(bits, bits), min_size=1, max_size=3), seen, seen, st.booleans())
def test_comparisons_are_those_of_a_loop_over_all_values(pairs, came, came_too, counted: bool):
    if not counted:
        pairs, came, came_too = [(a[..., 0], b[..., 0]) for a, b in pairs], came[..., 0], came_too[..., 0]
    found = compare_stored("p0", {f"%r{i}": p for i, p in enumerate(pairs)}, came, came_too)
    wrong = []
    for register, (a, b) in enumerate(pairs):
        for place in np.ndindex(came.shape):
            mine, theirs = (int(v[place]) if c[place] else None for v, c in ((a, came), (b, came_too)))
            if mine != theirs:
                wrong.append((place[3] if counted else 0, register, place[:3], mine, theirs))
    assert found.differing == len(wrong)
    if not wrong:
        assert found.first is None
        return
    passage, register, place, mine, theirs = min(wrong, key=lambda w: w[:3])
    first = found.first
    assert first is not None
    assert (first.register, (first.block, first.warp, first.lane), first.expected, first.found) == (f"%r{register}", place, mine, theirs)
    assert first.passage == (passage if counted else None)
