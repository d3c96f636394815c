"""Small inputs of kinds that have broken tools of this sort, through the whole product.

Each ``.ptx`` here says in its head how it is run and what its buffers hold afterwards: ``// run: ENTRY OPTIONS`` of ``ptxgraft run``, then for each
buffer ``// expect argN TYPE: values``, or ``argN+K`` from element K on.
"""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from ptxgraft import capture
from ptxgraft.cli.app import app
from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft import assemble, cut, find_ptxas, probe, probe_lines, read_probe, touched
from ptxgraft.isa import Imm, Reg, bind
from ptxgraft.run import Surface, load
from ptxgraft.spec import layer_spec
from ptxgraft.text import Document, EditScript
from ptxgraft.verify import compare, recorded_outputs

HERE = Path(__file__).parent
FILES = sorted(HERE.glob("*.ptx"))


@dataclass
class Run:
    """One ``// run:`` line with its expectations: (buffer, first element, numpy type, values)."""

    arguments: list[str]
    expected: list[tuple[str, int, str, list[int]]] = field(default_factory=list)


def runs(path: Path) -> list[Run]:
    found: list[Run] = []
    for line in path.read_text().split("\n"):
        if line.startswith("// run: "):
            entry, *options = shlex.split(line.removeprefix("// run: "))
            found.append(Run(["-e", entry, *options]))
        match = re.match(r"// expect (arg\d+)(?:\+(\d+))? (\w)(\d+): (.*)", line)
        if match:
            name, first, kind, width, values = match.groups()
            found[-1].expected.append((name, int(first or 0), f"{kind}{int(width) // 8}", [int(v, 0) for v in values.split()]))
    return found


def document(name: str) -> Document:
    return Document.read(HERE / f"{name}.ptx")


def verb(*arguments: object) -> int:
    return app([str(a) for a in arguments], prog_name="ptxgraft", standalone_mode=False)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_it_runs_and_leaves_what_its_head_says(path, engine, tmp_path):
    assert runs(path)
    for run in runs(path):
        saved = tmp_path / "out.npz"
        assert verb("run", path, *run.arguments, "--engine", engine, "--save", saved) == 0
        buffers = np.load(saved)
        for name, first, dtype, values in run.expected:
            held = buffers[name].reshape(-1).view(dtype)[first : first + len(values)]
            assert [f"{v:#x}" for v in held.tolist()] == [f"{v:#x}" for v in values], name


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_it_prints_as_it_was_and_an_empty_edit_changes_nothing(path):
    made = Document.read(path)
    assert made.print() == path.read_bytes() == EditScript(made).apply()
    crlf = path.read_bytes().replace(b"\n", b"\r\n").rstrip(b"\r\n")
    assert Document.parse(crlf).print() == crlf
    for entry in made.entries:
        assert len(bind(Document.parse(crlf), entry.name).instructions) == len(bind(made, entry.name).instructions)


@pytest.mark.parametrize("path", [p for p in FILES if p.stem != "known_and_unknown"], ids=lambda p: p.stem)
def test_it_is_legal_ptx(path):
    if find_ptxas() is None:
        pytest.skip("ptxas is not here (the PyPI package nvidia-cuda-nvcc has it)")
    made = Document.read(path)
    result = assemble(made, target="sm_90" if int(made.target[0].removeprefix("sm_")) < 75 else None)
    assert result.ok, result.log


def test_a_vector_operand_reads_its_registers_and_keeps_its_literals():
    program = bind(document("vector_of_literals"), "mixed")
    store = next(i for i in program.instructions if i.statement.opcode == "st.global.v4.f32")
    names = {program.registers[r].name for r in store.reads}
    assert names == {"%rd0", "%f0", "%f1", "%f2"}
    vector = store.operands[1]
    items = getattr(vector, "items", ())
    assert isinstance(items[0], Imm) and items[0].value == 0 and all(isinstance(i, Reg) for i in items[1:])


def test_sections_behind_the_body_open_no_scope():
    made = document("after_the_body")
    (entry,) = made.entries
    assert [f.name for f in made.functions] == ["k"]
    end = made.text.index("\n}\n\t.file") + 2
    assert entry.end == end and all(s.function == entry.index for s in made.scopes if s.function >= 0)


def test_parameters_lie_where_the_manual_says(tmp_path, capsys):
    assert verb("ls", HERE / "parameter_attributes.ptx", "--json") == 0
    (entry,) = json.loads(capsys.readouterr().out)["entries"]
    assert [(p["type"], p["offset"], p["size"]) for p in entry["params"]] == [("u64", 0, 8), ("u32", 8, 4), ("b8", 16, 12), ("s16", 28, 2)]
    assert document("parameter_attributes").entry("attrs").params[0].attributes == (".ptr", ".global", ".align 1")


def test_an_entry_without_parameters_is_captured_and_replayed(tmp_path, capsys):
    for entry in ("nothing", "bare"):
        path = tmp_path / f"{entry}.ptxcap"
        assert verb("run", HERE / "no_parameters.ptx", "-e", entry, "--grid", 3, "--block", 40, "--record", path) == 0
        (launch,) = capture.open_capture(path).launches
        assert (launch.args, launch.grid, launch.allocations) == (b"", (3, 1, 1), [])
        assert verb("replay", path) == 0
    assert "no state after the launch to compare with" in capsys.readouterr().out


def test_a_region_that_is_jumped_into_is_not_cut():
    made = document("jump_into_the_region")
    for style in ("inline", "mirror"):
        with pytest.raises(UnsupportedError, match=r"line 23: `@%p1 bra INSIDE;` branches into the region") as caught:
            cut(made, "jump_in", style=style, block=(32, 1, 1))
        assert caught.value.exit_code == 3
    spec = layer_spec(Flow(bind(made, "jump_in")))
    assert [p.mma for p in spec.phases] == [1, 1] and spec.abi is not None and len(spec.abi.refusals) == 1
    assert cut(made, "jump_in", region="phase 1", style="inline").region.first_line == 27
    assert cut(made, "jump_in", region=(13, 28), style="inline").region.first_line == 13  # the branch and its label are both inside


def test_an_entry_is_found_by_its_whole_name():
    made = document("prefixes_and_braces")
    assert [e.name for e in made.entries] == ["foo_bar", "foo$0", "foo"]
    assert [len(bind(made, e.name).instructions) - 1 for e in made.entries] == [1, 3, 4]
    for wrong in ("fo", "foo_", "foo$", "FOO"):
        with pytest.raises(UsageError, match="has no entry"):
            made.entry(wrong)


def test_renaming_keeps_scopes_apart():
    made = document("names_in_scopes")
    program = bind(made, "scopes")
    assert len({r.id for r in program.registers if r.name == "t"}) == 3 and len({r.id for r in program.registers if r.name == "%r1"}) == 2
    outer = next(
        s
        for s in made.scopes
        if "add.u32 %r2, t, 1" in made.text[made.statements[s.first].start : made.statements[s.last].end] and s.parent > 0
    )
    script = EditScript(made)
    script.rename(outer, "t", "kept")
    text = script.apply().decode()
    assert "{ .reg .b32 kept; mov.b32 kept, %r1; { .reg .b32 t; mov.b32 t, 7; mov.b32 %r3, t; } add.u32 %r2, kept, 1; }" in text
    assert "{ .reg .b32 t; mov.b32 t, 8; mov.b32 %r4, t; bra L; L: }" in text
    out = np.zeros(4, np.uint32)
    load(text).kernel("scopes", engine="numpy").launch(1, 1, [out])
    assert out.tolist() == [42, 7, 8, 41]


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_a_probe_at_every_return_fires_once_a_lane(engine):
    made = document("early_returns")
    lines = probe_lines(made, "returns", "returns")
    source = made.text.split("\n")
    assert [source[n - 1].strip().split(";")[0] for n in lines] == ["@%p1 exit", "@%p3 ret.uni", "ret"]
    probed = probe(made, "returns", "ret", ["%r1", "%p3"])
    assert probed.lines == lines
    grid, block = (2, 1, 1), (32, 1, 1)
    buffer = np.full(probed.buffer_bytes(grid, block), 0xA5, np.uint8)
    data, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    load(probed.text).kernel("returns", engine=engine).launch(grid, block, [data, out, buffer, probed.slots_needed(grid, block)])
    values = read_probe(probed, buffer, grid, block)
    assert touched(probed, buffer, grid, block).all()
    assert (values["%r1"] == np.arange(32)).all() and (values["%p3"] == (np.arange(32) >= 24)).all()
    expected = np.zeros(128, np.uint32)
    load(made.data).kernel("returns", engine=engine).launch(grid, block, [data, expected])
    np.testing.assert_array_equal(out, expected)
    for comment in ("// the last four, then ret;", "// leaves early, then exit;", "/* ld.global.u32 %r9, [%rd5]; ret; */"):
        assert comment in probed.text.decode()


def test_a_probe_of_loads_and_stores_sees_all_of_them():
    made = document("early_returns")
    source = made.text.split("\n")

    def seen(kind: str) -> list[str]:
        return [source[n - 1].strip().split(" [")[0].split(" {")[0] for n in probe_lines(made, "returns", kind)]

    assert seen("loads") == ["ld.global.nc.v4.u32", "@%p2 ld.global.u32 %r6,", "ld.shared.u32 %r9,"]
    assert seen("stores") == ["st.shared.u32", "st.global.u32"]


def test_a_probe_of_a_predicated_load_stores_for_the_lanes_that_load():
    made = document("early_returns")
    line = next(n for n in probe_lines(made, "returns", "loads") if "@%p2" in made.text.split("\n")[n - 1])
    probed = probe(made, "returns", line)
    grid, block = (1, 1, 1), (32, 1, 1)
    buffer = np.full(probed.buffer_bytes(grid, block), 0xA5, np.uint8)
    data, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    load(probed.text).kernel("returns", engine="numpy").launch(grid, block, [data, out, buffer, 1])
    assert touched(probed, buffer, grid, block)[0, 0].tolist() == [lane < 8 for lane in range(32)]
    assert read_probe(probed, buffer, grid, block)["%r6"][0, 0, :8].tolist() == [4 * lane + 1 for lane in range(8)]


def test_the_unknown_instruction_is_named_and_stops_only_its_own_entry(capsys):
    path = HERE / "known_and_unknown.ptx"
    assert verb("ls", path, "--json") == 0
    rows = {e["name"]: e for e in json.loads(capsys.readouterr().out)["entries"]}
    assert rows["good"]["unknown"] == [] and rows["strange"]["unknown"] == ["frobnicate.sync.b32"]
    for engine in ("numpy", "warp"):
        assert verb("run", path, "-e", "strange", "--grid", 1, "--block", 1, "-a", "u32[1]", "--engine", engine) == 3
        assert f"{path}:22:2: 'frobnicate.sync.b32' is not in the instruction table" in capsys.readouterr().err
    with pytest.raises(UnsupportedError, match=r"frobnicate"):
        cut(Document.read(path), "strange", region=(21, 23))
    assert "1 unknown instructions, first: line 22" in layer_spec(Flow(bind(Document.read(path), "strange"))).notes[0]


def test_a_tolerance_larger_than_the_signal(tmp_path, capsys):
    signal = np.float32([4e-6, -3.5e-6, 0, 2e-6])
    args = (0x7F0000000000).to_bytes(8, "little")

    def written(name: str, after: np.ndarray) -> Path:
        held = capture.Allocation(0, 0x7F0000000000, after.nbytes, np.zeros(after.nbytes, np.uint8), after)
        launch = capture.Launch(0, "k", (1, 1, 1), (4, 1, 1), args, allocations=[held], pointers=[capture.Pointer(0, 0, 0)])
        capture.write([launch], tmp_path / name)
        return tmp_path / name

    right, zeros = written("right.ptxcap", signal), written("zeros.ptxcap", np.zeros(4, np.float32))
    assert verb("diff", right, zeros) == 1
    assert "differs: 12 of 16 bytes" in capsys.readouterr().out
    assert verb("diff", right, zeros, "--tolerance", "1e-2") == 0
    said = capsys.readouterr().out
    assert "same within a tolerance of 0.01 (buffers read as f32)" in said
    assert "warning: allocation 0: the tolerance 0.01 is not below the largest expected value 4e-06; the comparison says nothing" in said
    assert verb("diff", right, zeros, "--tolerance", "1e-7") == 1
    expected = recorded_outputs(capture.open_capture(right).launches[0])
    assert compare(expected, expected, tolerance=1e-2).warnings  # it says nothing of equal values either


def test_a_surface_is_left_alone_by_an_entry_that_stores_nothing():
    surface = Surface(np.arange(16, dtype=np.uint8).reshape(2, 2, 4))
    before = surface.array.copy()
    text = "\n".join((".version 7.0", ".target sm_70", ".address_size 64", ".visible .entry k(.param .u64 s)", "{", "\tret;", "}", ""))
    load(text).kernel("k").launch(1, 32, [surface])
    np.testing.assert_array_equal(surface.array, before)
