"""Probes: what they read back, that they change nothing else, and that no two threads share a row."""

from __future__ import annotations

import re

import numpy as np
import pytest
from graft_kernels import MIXED, MMA, document, mma_launch, run_mma
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import (
    FILL,
    assemble,
    cut,
    find_ptxas,
    probe,
    probe_lines,
    probe_stages,
    read_probe,
    text_body,
    touched,
    wrong_fragment_body,
)
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

MODULE = document(MMA)
BUFFER = 0x2000_0000

RETURNS = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry returns(.param .u64 in, .param .u64 out)
{
	.reg .pred %p<3>;
	.reg .b32 %r<10>;
	.reg .b64 %rd<6>;
	.shared .align 16 .b8 buf[512];
	ld.param.u64 %rd1, [in];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
	setp.ge.u32 %p1, %r1, 24;
	@%p1 ret.uni; // leaves early, then exit;
	mul.wide.u32 %rd3, %r1, 16;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.nc.v4.u32 {%r2,%r3,%r4,%r5}, [%rd4];
	setp.lt.u32 %p2, %r1, 8;
	@%p2 ld.global.u32 %r6, [%rd4+4];
	@!%p2 mov.u32 %r6, 0;
	shl.b32 %r7, %r1, 2;
	mov.u32 %r8, buf;
	add.u32 %r7, %r8, %r7;
	st.shared.u32 [%r7], %r6;
	ld.shared.u32 %r9, [%r7];
	add.u32 %r9, %r9, %r2;
	add.s64 %rd5, %rd2, %rd3;
	st.global.u32 [%rd5], %r9;
	ret;
}
"""


def line(text: str, source: str) -> int:
    found = [i for i, row in enumerate(source.splitlines(), 1) if text in row]
    assert len(found) == 1, text
    return found[0]


def run_returns(module: Document, extra: bytes = b"", buffers=()) -> tuple[np.ndarray, list]:
    source = allocate(0x1000_0000, np.arange(1, 129, dtype=np.uint32), "in")
    out = allocate(0x1100_0000, np.full(512, 0xCD, np.uint8), "out")
    args = source.base.to_bytes(8, "little") + out.base.to_bytes(8, "little") + extra
    execute(Launch(bind(module, "returns"), (2, 1, 1), (32, 1, 1), args, allocations=[source, out, *buffers]), engine="numpy")
    return out.data.copy(), list(buffers)


def read_returns(where, registers=None, slots: int = 2, bits: bool = False):
    made = probe(document(RETURNS), "returns", where, registers)
    buffer = allocate(BUFFER, np.full(slots * made.slot_bytes, FILL, np.uint8), "probe")
    args = made.argument_bytes(bytes(16), BUFFER, slots)[16:]
    out, _ = run_returns(made.document, args, [buffer])
    assert (out == run_returns(document(RETURNS))[0]).all()
    return made, buffer.data, read_probe(made, buffer.data, (2, 1, 1), (32, 1, 1), bits)


def test_a_probe_at_every_return_fires_once_a_lane():
    made, data, found = read_returns("ret", ["%r1"])
    assert made.lines == [line("@%p1 ret.uni", RETURNS), line("\tret;", RETURNS)]
    assert touched(made, data, (2,), (32,)).all()
    assert (found["%r1"] == np.arange(32)).all()
    assert "// leaves early, then exit;" in made.text.decode()
    assert made.text.decode().count("st.global.v4.b32") == 2


def test_a_probe_of_a_guarded_statement_stores_where_it_ran():
    made, data, found = read_returns(line("@%p2 ld.global", RETURNS))
    seen = touched(made, data, (2,), (32,))
    assert (seen[:, 0] == (np.arange(32) < 8)).all()
    assert (found["%r6"][0, 0, :8] == 2 + 4 * np.arange(8)).all()
    assert made.notes == [f"line {line('@%p2 ld.global', RETURNS)} is guarded: only the lanes where %p2 holds are stored"]


def test_named_registers_of_a_guarded_line_are_stored_by_every_lane_that_passes():
    made, data, found = read_returns(line("@%p2 ld.global", RETURNS), ["%r1", "%p2", "%rd3"])
    assert (touched(made, data, (2,), (32,))[:, 0] == (np.arange(32) < 24)).all()
    assert found["%p2"].dtype == np.bool_ and found["%rd3"].dtype == np.uint64
    assert (found["%p2"][1, 0, :24] == (np.arange(24) < 8)).all()
    assert (found["%rd3"][1, 0, :24] == 16 * np.arange(24)).all()


def test_the_line_of_a_return_and_of_a_branch_is_probed_before_it():
    made, data, _ = read_returns(line("@%p1 ret.uni", RETURNS), ["%r1"])
    assert (touched(made, data, (2,), (32,))[:, 0] == (np.arange(32) >= 24)).all()


def test_every_load_is_found():
    text = document(RETURNS)
    assert probe_lines(text, "returns", "loads") == [line(s, RETURNS) for s in ("ld.global.nc.v4", "@%p2 ld.global", "ld.shared")]
    assert probe_lines(text, "returns", "stores") == [line(s, RETURNS) for s in ("st.shared", "st.global")]
    assert probe_lines(text, "returns", "returns") == [line(s, RETURNS) for s in ("@%p1 ret.uni", "\tret;")]
    for number in probe_lines(text, "returns", "loads"):
        made, data, _ = read_returns(number)
        assert touched(made, data, (2,), (32,)).any()
        assert [n for n, _ in made.registers] == re.findall(r"%r\d", RETURNS.splitlines()[number - 1].split("[")[0])
    with pytest.raises(UsageError, match="kind 'jumps' is not known; kinds are loads, stores, returns"):
        probe_lines(text, "returns", "jumps")


def test_a_full_slot_count_and_a_small_one():
    made, data, found = read_returns("ret", ["%r1"], slots=1)
    assert found["%r1"].shape == (1, 1, 32)  # the second block's slot is past the buffer: it was not stored, nor is it read
    with pytest.raises(
        UsageError, match="the probe's buffer holds 0 slots, a block needs one for each of its warps, 1; give it 2048 bytes"
    ):
        read_probe(made, data[:16], (2, 1, 1), (32, 1, 1))


def test_nothing_read_back_is_an_error():
    made = probe(document(RETURNS), "returns", "ret", ["%r1"])
    with pytest.raises(UsageError, match=r"probe 'ret' of 'returns' read back nothing: no lane came to line 14, 29"):
        read_probe(made, np.full(2 * made.slot_bytes, FILL, np.uint8), (2, 1, 1), (32, 1, 1))


# -- the mapping ----------------------------------------------------------------------------------------------------------------

PLACES = """\
.version 7.8
.target sm_80
.address_size 64
.visible .entry k()
{
	.reg .b32 %r<8>;
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mov.u32 %r3, %tid.z;
	mov.u32 %r4, %ctaid.x;
	mov.u32 %r5, %ctaid.y;
	mov.u32 %r6, %ctaid.z;
	ret;
}
"""
small = st.integers(1, 4)


@settings(deadline=None, max_examples=25)
@given(st.tuples(small, small, small), st.tuples(st.integers(1, 40), small, small), st.integers(-3, 2))
def test_every_thread_has_a_row_of_its_own_whatever_the_shape(grid, block, spare: int):
    made = probe(document(PLACES), "k", 12, [f"%r{i}" for i in range(1, 7)])
    slots = max(1, made.slots_needed(grid, block) + spare)
    guard = 4096
    data = np.full(slots * made.slot_bytes + guard, FILL, np.uint8)
    buffer = allocate(BUFFER, data, "probe")
    args = made.argument_bytes(b"", BUFFER, slots)
    execute(Launch(bind(made.document, "k"), grid, block, args, allocations=[buffer]), engine="warp")
    assert (buffer.data[slots * made.slot_bytes :] == FILL).all()
    if slots < -(-block[0] * block[1] * block[2] // 32):
        return
    found = read_probe(made, buffer.data[: slots * made.slot_bytes], grid, block)
    seen = touched(made, buffer.data[: slots * made.slot_bytes], grid, block)
    blocks, warps, lanes = np.nonzero(seen)
    threads = block[0] * block[1] * block[2]
    assert len(blocks) == seen.shape[0] * threads
    rows = [found[f"%r{i}"][seen].astype(np.int64) for i in range(1, 7)]
    thread = rows[0] + block[0] * (rows[1] + block[1] * rows[2])
    assert (thread == warps * 32 + lanes).all()
    assert (rows[3] + grid[0] * (rows[4] + grid[1] * rows[5]) == blocks).all()


def test_the_layout_of_a_slot():
    for count, floor, words, size in ((1, 1024, 4, 1024), (4, 1, 4, 512), (5, 1, 8, 1024), (6, 1500, 8, 2048), (6, 1, 8, 1024)):
        made = probe(document(PLACES), "k", 12, [f"%r{1 + i % 6}" for i in range(count)], floor=floor)
        assert (made.words, made.slot_bytes) == (words, size)


def test_a_register_twice_has_two_names():
    made = probe(document(PLACES), "k", 12, ["%r1", "%r1"])
    data = np.zeros(made.buffer_bytes((1,), (32,)), np.uint8)
    assert list(read_probe(made, data, (1,), (32,))) == ["%r1", "%r1#2"]


# -- stages -----------------------------------------------------------------------------------------------------------------------


def read_stage(target, where, registers=None) -> tuple[dict[str, np.ndarray], np.ndarray]:
    made = probe(target, "product", where, registers)
    slots = made.slots_needed((1, 1, 1), (64, 1, 1))
    buffer = allocate(BUFFER, np.full(slots * made.slot_bytes, FILL, np.uint8), "probe")
    extra = made.argument_bytes(bytes(28), BUFFER, slots)[32:]
    launch = mma_launch(made.document, extra, [buffer])
    execute(launch, engine="numpy")
    return read_probe(made, buffer.data, (1, 1, 1), (64, 1, 1), bits=True), launch.allocations[2].data


STAGES = ("a", "p0", "p1", "out")
GRAFTS = {
    "inline": cut(MODULE, "product"),
    "mirror": cut(MODULE, "product", style="mirror", body="identity"),
    "epilogue": cut(MODULE, "product", (37, 43), style="mirror", body="identity"),
}


@pytest.mark.parametrize("where", STAGES)
@pytest.mark.parametrize("graft", GRAFTS)
def test_stages_of_a_graft_are_those_of_the_original(graft: str, where: str):
    made = GRAFTS[graft]
    if graft == "epilogue" and where in ("a", "out"):
        expected = probe(MODULE, "product", where, region=(37, 43)).registers
        assert probe(made, "product", where).registers == expected
    else:
        found, out = read_stage(made, where)
        expected, _ = read_stage(MODULE, where)
        assert list(found) == list(expected)
        assert all((found[n] == expected[n]).all() for n in found)
        assert (out == run_mma(MODULE)).all()


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_a_line_inside_a_grafts_region(engine: str):
    number = line("cvt.rn.f16x2.f32 %r18", MMA)
    expected, _ = read_stage(MODULE, number)
    for made in GRAFTS.values():
        found, _ = read_stage(made, number)
        assert list(found) == ["%r18"] and (found["%r18"] == expected["%r18"]).all()
        found, _ = read_stage(made, number, ["%f10"])
        assert list(found) == ["%f10"]


def test_the_wrong_fragment_shows_first_in_its_phase():
    made = cut(MODULE, "product", body=wrong_fragment_body(MODULE, "product", 0))
    for where, same in (("a", True), ("p0", False), ("p1", False), ("out", False)):
        found, expected = read_stage(made, where)[0], read_stage(MODULE, where)[0]
        assert all((found[n] == expected[n]).all() for n in expected) == same


def test_stages_by_name():
    assert probe_stages(MODULE, "product") == ["a", "p0", "p1", "out"]
    assert probe_stages(MODULE, "product", (37, 43)) == ["a", "out"]
    assert probe_stages(GRAFTS["inline"]) == ["a", "p0", "p1", "out"]
    empty = cut(MODULE, "product", "phase 0", body=text_body("".join(f"mov.f32 %f{i}, 0f00000000;\n" for i in range(5, 9))))
    assert probe_stages(empty) == ["a", "out"]
    with pytest.raises(UnsupportedError, match="the graft of 'product' has 1 phases, the original 2: p0 cannot be found in it"):
        probe(empty, "product", "p0")
    with pytest.raises(UnsupportedError, match="the graft of 'product' has no statement of the original's line 33"):
        probe(empty, "product", 33)


def test_values_are_typed_by_register():
    made = probe(MODULE, "product", "p0")
    assert made.registers == [(f"%f{i}", "f32") for i in range(1, 9)]
    data = np.zeros(made.buffer_bytes((1,), (64,)), np.uint8)
    assert all(v.dtype == np.float32 and v.shape == (1, 2, 32) for v in read_probe(made, data, (1,), (64,)).values())
    assert all(v.dtype == np.uint32 for v in read_probe(made, data, (1,), (64,), bits=True).values())


def test_narrow_registers_keep_their_bits():
    made = probe(document(MIXED), "mixed", line("mov.b32 %r24", MIXED), ["%h2", "%rs2", "%p1", "%fd2", "%rd6"])
    assert made.words == 8
    words = np.zeros((1, 3, 32, 8), np.uint32)
    words[..., :7] = [0x3C00, 0xFFFE, 1, 0, 0x3FF00000, 0xDEADBEEF, 0x12345678]
    data = np.zeros((3, made.slot_bytes), np.uint8)
    data[:, : 32 * 32] = words.reshape(3, -1).view(np.uint8)
    found = read_probe(made, data, (1,), (48, 2))
    assert {n: (v.dtype.name, v[0, 0, 0].item()) for n, v in found.items()} == {
        "%h2": ("float16", 1.0), "%rs2": ("uint16", 0xFFFE), "%p1": ("bool", True), "%fd2": ("float64", 1.0),
        "%rd6": ("uint64", 0x12345678DEADBEEF),
    }  # fmt: skip


def test_an_existing_argument_changes_nothing_about_the_launch():
    made = probe(MODULE, "product", "p1", argument=(16, 1024), slots=2)
    assert [p.name for p in made.document.entry("product").params] == ["a", "w", "out", "gain"]
    launch = mma_launch(made.document)
    out = launch.allocations[2]
    room = allocate(out.base, np.concatenate([out.data, np.full(2048, FILL, np.uint8)]), "out")
    launch = Launch(launch.program, launch.grid, launch.block, launch.args, allocations=[*launch.allocations[:2], room])
    execute(launch, engine="numpy")
    found = read_probe(made, room.data[1024:], (1,), (64,), bits=True)
    expected = read_stage(MODULE, "p1")[0]
    assert all((found[n] == expected[n]).all() for n in expected)
    assert (room.data[:1024] == run_mma(MODULE)).all()
    with pytest.raises(UsageError, match="this probe uses an existing argument"):
        made.argument_bytes(b"", 0, 1)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"argument": (24, 0), "slots": 1}, r"argument offset 24 holds no pointer; 8-byte arguments are at 0 \(a\), 8 \(w\), 16 \(out\)"),
        ({"argument": (16, 8), "slots": 1}, "byte offset 8 is no multiple of 16"),
        ({"argument": (16, 0)}, "an existing argument needs the number of slots that fit behind it"),
        ({"where": "p9"}, "'product' has no phase 9; its phases are 0 to 1"),
        ({"where": "b"}, "stage 'b' is not known; stages are 'a', 'p<N>', 'out', 'ret', or a line number"),
        ({"where": 33 + 1, "registers": ["%f99"]}, "'%f99' is no register used at line 34; near names: %f9"),
        ({"where": line("// first phase", MMA)}, "line 33 of kernel.ptx holds no instruction of 'product'; the nearest is on line 32"),
        (
            {"where": line("st.shared.v4", MMA)},
            "line 27 writes no register: there is nothing to store; name the registers, as in --registers %r1,%r2",
        ),
        ({"where": "ret"}, "a probe at every return stores named registers"),
        ({"floor": 0}, "floor 0 is no size"),
    ],
)
def test_what_cannot_be_probed(more: dict, message: str):
    with pytest.raises(UsageError, match=message):
        probe(MODULE, "product", **{"where": "p0", **more})


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")
@pytest.mark.parametrize("where", STAGES)
def test_probes_assemble(where: str):
    for target in (MODULE, *GRAFTS.values()):
        result = assemble(probe(target, "product", where).document)
        assert result.ok, result.log


def test_probes_of_entries_without_parameters_and_beside_others():
    text = PLACES + PLACES.split("\n", 3)[3].replace("k()", "other")
    for entry in ("k", "other"):
        made = probe(document(text), entry, 12 if entry == "k" else 21, ["%r1"])
        assert [p.name for p in made.document.entry(entry).params] == ["pg_probe", "pg_probe_slots"]
        rest = "other" if entry == "k" else "k"
        assert made.document.entry(rest).params == []


CALLED_TWICE = """\
.version 8.0
.target sm_80
.address_size 64
.func step
{
	.reg .b32 %r<3>;
	mov.u32 %r1, %tid.x;
	add.u32 %r2, %r1, 5;
	ret;
}
.func outer(.param .b32 x)
{
	call.uni step;
	ret;
}
.visible .entry k(.param .u64 p)
{
	.param .b32 a;
	st.param.b32 [a], 3;
	call.uni outer, (a);
	ret;
}
.visible .entry untouched()
{
	call.uni step, ();
	ret;
}
"""


def test_a_line_in_a_function_gets_the_buffer_through_the_calls():
    made = probe(document(CALLED_TWICE), "k", 8, ["%r2"])
    buffer = allocate(BUFFER, np.full(made.buffer_bytes((1,), (32,)), FILL, np.uint8), "probe")
    execute(Launch(bind(made.document, "k"), (1,), (32,), made.argument_bytes(bytes(8), BUFFER, 1), allocations=[buffer]), engine="numpy")
    assert (read_probe(made, buffer.data, (1,), (32,))["%r2"] == 5 + np.arange(32)).all()
    execute(Launch(bind(made.document, "untouched"), (1,), (32,)), engine="numpy")  # it has no buffer: nothing is stored
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, result.log


FRAMES = """\
.version 8.0
.target sm_80
.address_size 64
.func (.param .b32 r) fact(.param .b32 n)
{
	.reg .b32 %r<5>;
	.reg .pred %p;
	ld.param.b32 %r1, [n];
	mov.u32 %r2, 1;
	setp.le.u32 %p, %r1, 1;
	@%p bra DONE;
	sub.u32 %r3, %r1, 1;
	{
		.param .b32 a;
		.param .b32 b;
		st.param.b32 [a], %r3;
		call.uni (b), fact, (a);
		ld.param.b32 %r4, [b];
	}
	mul.lo.u32 %r2, %r4, %r1;
DONE:
	st.param.b32 [r], %r2;
	ret;
}
.visible .entry calling(.param .u64 out)
{
	.reg .b32 %r<3>;
	{
		.param .b32 a;
		.param .b32 b;
		mov.u32 %r1, 5;
		st.param.b32 [a], %r1;
		call.uni (b), fact, (a);
		ld.param.b32 %r2, [b];
	}
	ret;
}
.visible .entry empty()
{
}
.visible .entry endless()
{
	.reg .b32 %r<3>;
ON:
	mov.u32 %r1, 5;
	bra ON;
}
"""


@pytest.mark.parametrize(
    ("entry", "where", "message"),
    [
        ("calling", line(".entry calling", FRAMES) + 1, "holds no instruction of 'calling'; the nearest is on line"),
        ("empty", "ret", "'%r1' is no register used"),
        ("empty", line(".entry empty", FRAMES) + 1, "holds no instruction of 'empty'; it has none"),
        ("endless", "ret", "'endless' never returns"),
    ],
)
def test_places_where_nothing_can_be_stored_are_said(entry: str, where: str | int, message: str):
    # An entry with frames begins at its brace, an empty one has no block before its end, an endless one no end.
    with pytest.raises(UsageError, match=message):
        probe(document(FRAMES), entry, where, ["%r1"])
