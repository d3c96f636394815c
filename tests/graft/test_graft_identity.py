"""Identity cuts: whatever region is cut, in whatever style, the kernel gives the bytes that it gave."""

from __future__ import annotations

import pytest
from graft_kernels import MIXED, MMA, document, run_mixed, run_mma
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import assemble, cut, find_ptxas

LINES = MIXED.splitlines()
BODY = range(LINES.index("\tld.param.u64 %rd1, [input];") + 1, len(LINES))
DOCUMENT = document(MIXED)
EXPECTED = run_mixed(DOCUMENT)
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")


def cut_or_none(first: int, last: int, style: str):
    try:
        return cut(DOCUMENT, "mixed", (first, last), style=style, body="identity")
    except (UnsupportedError, UsageError):
        return None


@settings(deadline=None, max_examples=60)
@given(st.integers(BODY.start, BODY.stop - 1), st.integers(0, 40), st.sampled_from(["inline", "call", "mirror"]))
def test_any_region_cut_gives_the_same_bytes(first: int, length: int, style: str):
    made = cut_or_none(first, min(first + length, BODY.stop - 1), style)
    assume(made is not None)
    assert (run_mixed(made.document) == EXPECTED).all()


@settings(deadline=None, max_examples=100)
@given(st.integers(BODY.start, BODY.stop - 1), st.integers(0, 60))
def test_bytes_outside_the_edit_stay(first: int, length: int):
    made = cut_or_none(first, min(first + length, BODY.stop - 1), "inline")
    assume(made is not None)
    region = made.region
    rows = MIXED.splitlines(keepends=True)
    text = made.text.decode()
    assert text.startswith("".join(rows[: region.first_line - 1]))
    assert text.endswith("".join(rows[region.last_line :]))


def line(text: str) -> int:
    """The number of the one line of MIXED that holds a text."""
    found = [i for i, row in enumerate(LINES, 1) if text in row]
    assert len(found) == 1, text
    return found[0]


REGIONS = {
    "predicates": ("setp.lt.u32 %p1", "@%p3 mov.u32 %r6"),
    "sixteen and sixty-four bits": ("cvt.u16.u32", "xor.b64 %rd6"),
    "shared memory and a barrier": ("mov.u32 %r8, staging", "ld.shared.u32 %r11"),
    "an argument load": ("ld.param.f32 %f1", "add.rn.f64"),
    "half precision": ("cvt.rn.f16.f32", "add.f16"),
    "a whole loop": ("add.u32 %r13, %r13, %r5", "@%p4 bra LOOP"),
    "an if and its else": ("@%p1 bra ELSE", "sub.u32 %r14"),
    "a nested scope": ("add.u32 %r2, %r1, %r14", "mov.u32 %r16, %r3"),
    "a call": ("st.param.b32 [p0]", "ld.param.b32 %r17"),
    "local memory": ("mov.u64 %rd7, depot", "ld.local.u32"),
    "a vector argument load": ("ld.param.v2.u32", "ld.param.v2.u32"),
    "stores alone": ("st.global.v4.u32 [%rd11]", "st.global.v2.u32 [%rd11+48]"),
    "nearly everything": ("ld.param.u64 %rd1", "st.global.f64"),
}


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
@pytest.mark.parametrize("name", REGIONS)
def test_every_kind_of_region_runs_to_the_same_bytes(name: str, style: str):
    first, last = (line(text) for text in REGIONS[name])
    made = cut(DOCUMENT, "mixed", (first, last), style=style, body="identity")
    assert (run_mixed(made.document) == EXPECTED).all()


@needs_ptxas
@pytest.mark.parametrize("style", ["inline", "call", "mirror", "extern"])
@pytest.mark.parametrize("name", REGIONS)
def test_every_kind_of_region_assembles(name: str, style: str):
    first, last = (line(text) for text in REGIONS[name])
    made = cut(
        DOCUMENT, "mixed", (first, last), style="mirror" if style == "extern" else style, body=None if style == "extern" else "identity"
    )
    result = assemble(made.document)
    assert result.ok, result.log
    assert result.relocatable == (style == "extern")


def test_registers_of_the_region_are_the_blocks_own():
    made = cut(DOCUMENT, "mixed", (line("cvt.u16.u32"), line("xor.b64 %rd6")))
    assert set(made.renamed) == {"%rs1", "%rd5"} - {r.name for r in made.abi.live_out} | {"%rs1"}
    first, last = made.block_statements
    inside = made.document.text[first.start : last.end]
    assert made.renamed["%rs1"] in inside
    assert "%rs1" not in inside.replace(made.renamed["%rs1"], "")
    assert {r.name for r in made.abi.live_in} == {"%r3", "%rd3"}
    assert {r.name for r in made.abi.live_out} == {"%rs2", "%r7", "%rd5", "%rd6"}


def test_what_a_block_declares_is_not_carried():
    # Nothing kills x: to liveness it comes in from above, where no one can name it.
    block = "\t{\n\t\t.reg .b32 x;\n\t\t@%p1 mov.u32 x, 1;\n\t\tselp.b32 %r4, x, 2, %p1;\n\t}\n"
    module = document(MIXED.replace("\tcvt.u16.u32 %rs1, %r3;\n", block + "\tcvt.u16.u32 %rs1, %r3;\n"))
    first = line("cvt.u16.u32")
    for region in ((first, first + 4), (first + 2, first + 3)):
        made = cut(module, "mixed", region, style="mirror", body="identity")
        assert [r.name for r in made.abi.live_in] == ["%p1"]
        assert [r.name for r in made.abi.live_out] == ["%r4"]
        assert (run_mixed(made.document) == run_mixed(module)).all()


def test_the_mirror_interface_lists_what_is_passed():
    made = cut(DOCUMENT, "mixed", (line("mov.u32 %r8, staging"), line("ld.param.f32 %f1")), style="mirror")
    assert [(p.kind, p.type, p.name) for p in made.interface.passed] == [
        ("register", "b32", "r1"),
        ("register", "b32", "r7"),
        ("argument", "b32", "argument_20"),
        ("address", "b32", "staging"),
        ("row", "b32", "rows"),
    ]
    assert made.declaration.startswith(".extern .func mixed_region\n(\n\t.param .b32 mixed_region_r1,")
    assert made.words == 2
    assert b".shared .align 16 .b8 pg_mirror[768];" in made.text
    assert made.notes == [
        f"the region holds 1 barriers (lines {line('bar.sync 0')}): a replacement must keep every warp of the block in step",
        "results come back through pg_mirror, 768 new bytes of shared memory for 3 warps (maxntid)",
    ]


def test_head_and_version_stay():
    for style in ("inline", "call", "mirror"):
        made = cut(DOCUMENT, "mixed", (line("cvt.u16.u32"), line("xor.b64 %rd6")), style=style, body="identity")
        old, new = DOCUMENT.entry("mixed"), made.document.entry("mixed")
        assert [(p.name, p.type) for p in new.params] == [(p.name, p.type) for p in old.params]
        assert new.directives == old.directives
        assert (made.document.version, made.document.target) == (DOCUMENT.version, DOCUMENT.target)


def test_windows_line_ends_are_kept():
    module = document(MIXED.replace("\n", "\r\n"))
    for style in ("inline", "call", "mirror"):
        made = cut(module, "mixed", (line("cvt.u16.u32"), line("xor.b64 %rd6")), style=style, body="identity")
        assert b"\n" not in made.text.replace(b"\r\n", b"")
        assert (run_mixed(made.document) == EXPECTED).all()


def test_lines_map_both_ways():
    made = cut(DOCUMENT, "mixed", (line("cvt.u16.u32"), line("xor.b64 %rd6")))
    rows = made.text.decode().splitlines()
    for number, row in enumerate(rows, 1):
        old = made.old_line(number)
        if old is None:
            assert "pg_" in row or row.strip() in ("{", "}")
        elif row.strip() not in ("{", "}"):
            assert LINES[old - 1].split()[:1] == row.split()[:1]
    last = len(LINES) - 1
    assert LINES[last - 1] == rows[made.new_line(last) - 1] == "\tret;"


def test_lines_of_a_callee_map_to_the_region():
    made = cut(DOCUMENT, "mixed", (line("cvt.u16.u32"), line("xor.b64 %rd6")), style="mirror", body="identity")
    rows = made.text.decode().splitlines()
    number = next(i for i, row in enumerate(rows, 1) if "shl.b64 %rd5, %rd5, 17" in row)
    assert made.old_line(number) == line("shl.b64 %rd5")


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
@pytest.mark.parametrize("region", [None, "phase 0", "phase 1", "phases 0-1"])
def test_regions_by_phase(region: str | None, style: str):
    module = document(MMA)
    made = cut(module, "product", region, style=style, body="identity")
    assert (run_mma(made.document) == run_mma(module)).all()
    assert made.region.mma == {None: 3, "phase 0": 2, "phase 1": 1, "phases 0-1": 3}[region]
