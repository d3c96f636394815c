"""Recipe files: those of examples/recipes on the reference layers, and every way in which a recipe can be wrong."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.errors import PtxgraftError, SourceError, UsageError
from ptxgraft.graft import FILL, apply, assemble, find_ptxas, probe, read_probe
from ptxgraft.isa import bind
from ptxgraft.run import Allocation, Launch, allocate, execute
from ptxgraft.run.reference import reference_document, reference_launch
from ptxgraft.text import Document

RECIPES = Path(__file__).parents[2] / "examples" / "recipes"
needs_ptxas = pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry other(.param .u64 p)
{
	ret;
}

.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>; // }
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	add.u32 %r2, %r1, 5;
	mul.lo.u32 %r3, %r2,
		%r2;
	/* here nothing
	stands */
	mul.wide.u32 %rd2, %r1, 4;
	add.s64 %rd2, %rd1, %rd2;
	st.global.u32 [%rd2], %r3;
	ret;
}
"""
FIRST, LAST = 11, 23
"""The lines inside the entry's braces."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both layers and files that only speak of them. Tests must not change it."""
    folder = tmp_path_factory.mktemp("corpus")
    for layer in ("enc4", "dec0"):
        (folder / f"{layer}.ptx").write_bytes(reference_document(layer).data)
    (folder / "notes.txt").write_text("// .visible .entry dec0(\n.entry enc4x()\n")
    return folder


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A folder with the small module, beside which recipes can be written."""
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "k.ptx").write_text(PTX)
    return tmp_path


def recipe(folder: Path, body: str, entry: str = "k", head: str = "", name: str = "r.py") -> Path:
    path = folder / name
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    path.write_text(f"ENTRY = {entry!r}\n{head}\ndef recipe():\n{lines}")
    return path


def outputs(layer: str, module: Document) -> list[bytes]:
    launch = reference_launch(layer, module)
    execute(launch, engine="warp")
    return [s.array.tobytes() for s in launch.surfaces.values()]


# -- the shipped recipes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["dec0_head_mirror", "dec0_head_phase"])
def test_grafted_heads_give_the_layers_bytes(name: str, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GRAFT_BODY", "1")
    made = apply(RECIPES / f"{name}.py", corpus)
    assert made.kind == "cut"
    assert made.module == corpus / "dec0.ptx"
    assert outputs("dec0", made.document) == outputs("dec0", made.original)
    broken = made.text.replace(b"[%row+28], %out7;", b"[%row+28], %out6;")
    assert broken != made.text
    assert outputs("dec0", Document.parse(broken)) != outputs("dec0", made.original)


@pytest.mark.parametrize("name", ["dec0_head_mirror", "dec0_head_phase"])
def test_only_the_lines_are_replaced(name: str, corpus: Path):
    made = apply(RECIPES / f"{name}.py", corpus)
    old, new = made.original.data.splitlines(True), made.text.splitlines(True)
    first, last = made.lines
    kept = old[: first - 1] + old[last:]
    rest = iter(new)
    assert all(any(line == found for found in rest) for line in kept)  # in order
    head = made.original.line(made.original.entry("dec0").start)
    assert new[: head - 1] == old[: head - 1]
    assert new[-(len(old) - last) :] == old[last:]
    assert not any(f.name.endswith("head") and f.body for f in made.document.functions)


@needs_ptxas
@pytest.mark.parametrize("name", ["dec0_head_mirror", "dec0_head_phase", "enc4_debug"])
def test_the_shipped_recipes_assemble(name: str, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CORPUS", str(corpus))
    result = assemble(apply(RECIPES / f"{name}.py", corpus).document)
    assert result.ok, result.log


@pytest.mark.parametrize("stage", ["0", "19"])
def test_the_debug_recipe_stores_what_a_probe_of_ours_does(stage: str, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CORPUS", str(corpus))
    monkeypatch.setenv("STAGE", stage)
    made = apply(RECIPES / "enc4_debug.py", corpus)
    assert made.kind == "debug"
    base, blocks = made.attributes["DEBUG_BASE"], made.attributes["DEBUG_BLOCKS"]
    own = probe(made.original, "enc4", f"p{stage}", argument=(made.attributes["PLANE_ARG"], base), slots=4 * blocks, floor=1)
    assert [name for name, _ in own.registers] == made.registers
    expected = outputs("enc4", made.original)
    read = []
    for module in (made.document, own.document):
        launch = reference_launch("enc4", module)
        image = max(launch.allocations, key=lambda a: len(a.data))
        grown = np.full(base + 4 * blocks * own.slot_bytes, FILL, np.uint8)
        grown[: len(image.data)] = image.data
        wider = [Allocation(a.base, grown, a.name) if a is image else a for a in launch.allocations]
        launch = replace(launch, allocations=wider)
        execute(launch, engine="warp")
        read.append(read_probe(own, grown[base:], launch.grid, launch.block, bits=True))
        assert [s.array.tobytes() for s in launch.surfaces.values()] == expected
    assert all(np.array_equal(read[0][name], read[1][name]) for name in made.registers)
    assert len(np.unique(read[0][made.registers[0]])) > 100


# -- what a recipe may do -------------------------------------------------------------------------------------------------------

ADD = "'\\tadd.u32 %r3, %r2, 7;'"


def test_lines_are_one_based_and_the_second_is_behind_the_last(small: Path):
    made = apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}}}"), small / "corpus")
    assert made.text.decode() == PTX.replace("\tadd.u32 %r2, %r1, 5;\n", "\tadd.u32 %r3, %r2, 7;\n")
    assert made.lines == (15, 15)


def test_an_extern_goes_before_the_entry_once(small: Path):
    head = "EXTERN = '.extern .func f(.param .b32 a);\\n'"
    made = apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}, 'extern': EXTERN}}", head=head), small / "corpus")
    assert made.text.count(b".extern .func f") == 1
    assert made.text.index(b".extern") == PTX.index(".visible .entry k")
    (small / "corpus" / "k.ptx").write_bytes(made.text)
    again = apply(recipe(small, f"return {{'cut_call': (16, 17), 'call': {ADD}, 'extern': EXTERN}}", head=head), small / "corpus")
    assert again.text == made.text
    assert any("already" in n for n in again.notes)


def test_line_ends_are_the_modules(small: Path):
    (small / "corpus" / "k.ptx").write_bytes(PTX.replace("\n", "\r\n").encode())
    made = apply(
        recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}, 'extern': '.extern .func f(\\n.param .b32 a);'}}"), small / "corpus"
    )
    assert b"\n" not in made.text.replace(b"\r\n", b"")


def test_a_probe_goes_after_its_line(small: Path):
    body = "return {'debug': (19, ['%r3', '%rd1']), 'debug_block': lambda rs: f'\\tst.global.u32 [{rs[1]}], {rs[0]};', 'cut_call': (1, 2)}"
    made = apply(recipe(small, body), small / "corpus")
    expected = PTX.replace("stands */\n", "stands */\n\tst.global.u32 [%rd1], %r3;\n")
    assert made.text.decode() == expected
    assert made.kind == "debug"
    assert made.registers == ["%r3", "%rd1"]
    assert any("cut is left out" in n for n in made.notes)


def test_without_a_block_the_probe_is_our_own(small: Path):
    made = apply(recipe(small, "return {'debug': (15, ['%r2'])}"), small / "corpus")
    assert made.probe is not None
    launch_grid, block = (2, 1, 1), (32, 1, 1)
    buffer = allocate(0x6_0000_0000, np.full(made.probe.buffer_bytes(launch_grid, block), FILL, np.uint8), "probe")
    out = allocate(0x5_0000_0000, np.zeros(32, np.uint32), "out")
    args = made.probe.argument_bytes(out.base.to_bytes(8, "little"), buffer.base, made.probe.slots_needed(launch_grid, block))
    execute(Launch(bind(made.document, "k"), launch_grid, block, args, allocations=[buffer, out]), engine="warp")
    values = read_probe(made.probe, buffer.data, launch_grid, block)["%r2"]
    assert np.array_equal(values, np.broadcast_to(np.arange(32) + 5, (2, 1, 32)))


def test_siblings_environment_and_module_text(small: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CORPUS", str(small / "corpus"))
    (small / "lines.py").write_text("def find(text, what):\n    return text.splitlines().index(what) + 1\n")
    head = "import os, lines\nfrom pathlib import Path\nTEXT = (Path(os.environ['CORPUS']) / 'k.ptx').read_text()"
    body = f"import json\nfirst = lines.find(TEXT, '\\tadd.u32 %r2, %r1, 5;')\nreturn {{'cut_call': [first, first + 1], 'call': {ADD}}}"
    before, path = set(sys.modules), [*sys.path]
    made = apply(recipe(small, body, head=head), small / "corpus")
    assert made.lines == (15, 15)
    assert sys.path == path
    assert not {m for m in set(sys.modules) - before if m == "lines" or m.startswith("recipe")}
    assert not (small / "__pycache__").exists()


def test_siblings_of_two_folders_do_not_mix(small: Path):
    made = []
    for n in (5, 6):
        folder = small / str(n)
        folder.mkdir()
        (folder / "number.py").write_text(f"N = {n}\n")
        body = "return {'cut_call': (15, 16), 'call': f'\\tadd.u32 %r2, %r1, {number.N};'}"
        made.append(apply(recipe(folder, body, head="import number"), small / "corpus").text)
    assert made[0].decode() == PTX
    assert made[1].decode() == PTX.replace("%r1, 5;", "%r1, 6;")


def test_a_file_hint_is_only_a_hint(small: Path):
    made = apply(recipe(small, f"return {{'file': 'gone.ptx', 'cut_call': (15, 16), 'call': {ADD}, 'colour': 1}}"), small / "corpus")
    assert made.module.name == "k.ptx"
    assert any("gone.ptx" in n for n in made.notes)
    assert any("colour" in n for n in made.notes)


def test_attributes_are_plain_data(small: Path):
    head = "CALLEE = 'f'\nA_REGS = ('%r1', '%r9')\nPLANE_ARG = 40\nSCRATCH = print"
    made = apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}}}", head=head), small / "corpus")
    assert made.attributes["CALLEE"] == "f"
    assert made.attributes["A_REGS"] == ["%r1", "%r9"]
    assert made.attributes["PLANE_ARG"] == 40
    assert [n for n in made.notes if "A_REGS" in n and "%r9" in n and "%r1," not in n]


@settings(max_examples=60, deadline=None)
@given(first=st.integers(-2, 30), after=st.integers(-2, 30))
def test_only_lines_inside_the_body_are_taken(first: int, after: int, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("r")
    (folder / "corpus").mkdir()
    (folder / "corpus" / "k.ptx").write_text(PTX)
    path = recipe(folder, f"return {{'cut_call': ({first}, {after}), 'call': '\\t// gone'}}")
    lines = PTX.splitlines(True)
    # The registers' lines are needed by what stays, unless that is the return alone; the two-line statement and the comment go whole or not at all.
    unneeded = first >= FIRST + 2 or after >= LAST
    whole = all((a in range(first, after)) == (b in range(first, after)) for a, b in ((16, 17), (18, 19)))
    if FIRST <= first < after <= LAST + 1 and whole and unneeded:
        assert apply(path, folder / "corpus").text.decode() == "".join(lines[: first - 1]) + "\t// gone\n" + "".join(lines[after - 1 :])
    elif not FIRST <= first < after <= LAST + 1:
        with pytest.raises(SourceError, match=r"r\.py"):
            apply(path, folder / "corpus")
    else:
        with pytest.raises(PtxgraftError):
            apply(path, folder / "corpus")


# -- what it may not ------------------------------------------------------------------------------------------------------------

BAD = {
    "a division": ("return 1 / 0", "", r"r\.py:4:5: the recipe failed with ZeroDivisionError"),
    "an error at load": ("return {}", "x = nowhere", r"r\.py:2:1: the recipe failed with NameError: name 'nowhere'"),
    "an error in the block": (
        "return {'debug': (15, ['%r2']), 'debug_block': lambda rs: rs[7]}", "", r"r\.py:4:5: the recipe failed with IndexError",
    ),
    "endless recursion": ("return recipe()", "", r"r\.py:4:5: the recipe failed with RecursionError"),
    "a message that fails": ("raise Odd()", "class Odd(Exception):\n    def __str__(self):\n        return 1 / 0", "failed with Odd"),
    "an exit": ("raise SystemExit('set STAGE first')", "", r"the recipe stopped: set STAGE first"),
    "an exit without words": ("raise SystemExit", "", "it gave no message"),
    "an exit with a number": ("raise SystemExit(3)", "", "the recipe stopped: exit code 3"),
    "an exit at load": ("return {}", "raise SystemExit('no corpus')", "the recipe stopped: no corpus"),
    "no dictionary": ("return None", "", r"recipe\(\) returned nothing"),
    "a list": ("return []", "", r"recipe\(\) returned a list"),
    "nothing asked": ("return {}", "", "asks for nothing"),
    "no call": ("return {'cut_call': (15, 16)}", "", "call is missing"),
    "a call that is none": ("return {'cut_call': (15, 16), 'call': 3}", "", "call is no text"),
    "three numbers": ("return {'cut_call': (15, 16, 17), 'call': ''}", "", r"cut_call is \[15, 16, 17\]"),
    "a text for a line": ("return {'cut_call': ('15', 16), 'call': ''}", "", "cut_call holds '15'"),
    "no line": ("return {'cut_call': (15, 15), 'call': ''}", "", "holds no line"),
    "half a statement": ("return {'cut_call': (17, 18), 'call': ''}", "", r"lies within a statement.*lines 16 to 17"),
    "outside the body": ("return {'cut_call': (5, 6), 'call': ''}", "", r"outside the body of 'k'.*11 to 23"),
    "beyond the text": ("return {'cut_call': (15, 999), 'call': ''}", "", "has no line 999"),
    "within a comment": ("return {'debug': (18, ['%r2']), 'debug_block': lambda rs: 'bar.sync 0;'}", "", "within a comment"),
    "an open comment": ("return {'cut_call': (15, 16), 'call': '/* '}", "", "."),
    "an open brace": ("return {'cut_call': (15, 16), 'call': '{ add.u32 %r2, %r1, 5;'}", "", "."),
    "a brace too many": ("return {'cut_call': (15, 16), 'call': '} add.u32 %r2, %r1, 5;'}", "", "."),
    "an unknown register": ("return {'cut_call': (15, 16), 'call': 'add.u32 %r2, %r7, 5;'}", "", "'%r7' is neither a declared register"),
    "an unknown probed register": ("return {'debug': (15, ['%r2', '%r5']), 'debug_block': lambda rs: ''}", "", "%r5: not declared at line 15"),
    "no probed register": ("return {'debug': (15, []), 'debug_block': lambda rs: ''}", "", "debug names the registers"),
    "a probe without a line": ("return {'debug': 15}", "", "debug is 15"),
    "a probe outside": ("return {'debug': (24, ['%r2']), 'debug_block': lambda rs: ''}", "", "outside the body"),
    "a block that is none": ("return {'debug': (15, ['%r2']), 'debug_block': 'text'}", "", "debug_block"),
    "a block without text": ("return {'debug': (15, ['%r2']), 'debug_block': lambda rs: None}", "", "debug_block returned no text"),
    "a probe beyond the text": ("return {'debug': (999, ['%r2']), 'debug_block': lambda rs: ''}", "", "has no line 999;"),
    "a call that no file holds": ("return {'cut_call': (15, 16), 'call': '// \\udc80'}", "", r"call holds '\\udc80'"),
    "a block that no file holds": ("return {'debug': (15, ['%r2']), 'debug_block': lambda rs: '// \\ud800'}", "", r"debug_block's text holds"),
    "an extern that no file holds": ("return {'cut_call': (15, 16), 'call': '', 'extern': '// \\udcff'}", "", "extern holds"),
    "no such import": ("return {}", "import nothing_of_the_kind", r"r\.py:2:1: .*ModuleNotFoundError"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_wrong_recipe_is_one_error_that_names_it(name: str, small: Path):
    body, head, message = BAD[name]
    with pytest.raises(SourceError, match=message) as caught:
        apply(recipe(small, body, head=head), small / "corpus")
    assert "r.py" in str(caught.value)


def test_errors_in_a_sibling_name_it(small: Path):
    (small / "part.py").write_text("def f():\n    raise ValueError('no good')\n")
    with pytest.raises(SourceError, match=r"r\.py:4:5: .*ValueError: no good"):
        apply(recipe(small, "return part.f()", head="import part"), small / "corpus")
    (small / "part.py").write_text("\nvalue = 1 +\n")
    with pytest.raises(SourceError, match=r"part\.py:2:\d+: this is no Python"):
        apply(recipe(small, "return part.f()", head="import part"), small / "corpus")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def recipe(:\n", r"r\.py:1:\d+: this is no Python"),
        ("\0", "r.py"),
        ("", "no ENTRY"),
        ("ENTRY = 'k'\n", r"no function recipe\(\)"),
        ("ENTRY = 3\ndef recipe(): return {}\n", "no ENTRY"),
    ],
)
def test_files_that_are_no_recipes(text: str, message: str, small: Path):
    (small / "r.py").write_text(text)
    with pytest.raises(SourceError, match=message):
        apply(small / "r.py", small / "corpus")


def test_missing_files(small: Path):
    with pytest.raises(SourceError, match="cannot be read"):
        apply(small / "none.py", small / "corpus")
    with pytest.raises(SourceError, match="cannot be read"):
        apply(small, small / "corpus")
    with pytest.raises(UsageError, match="no such folder"):
        apply(recipe(small, "return {}"), small / "nothing")


def test_the_entry_is_found_by_its_exact_name_exactly_once(small: Path):
    folder = small / "corpus"
    with pytest.raises(UsageError, match=r"no file of .* defines the entry 'kk'"):
        apply(recipe(small, "return {}", entry="kk"), folder)
    (folder / "k2.ptx").write_text(PTX.replace("entry k(", "entry k_long(") + "// .entry k(\n")
    assert apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}}}"), folder).module.name == "k.ptx"
    (folder / "k3.ptx").write_text(PTX)
    with pytest.raises(UsageError, match=r"2 files define the entry 'k': .*k\.ptx, .*k3\.ptx"):
        apply(recipe(small, "return {}"), folder)
    (folder / "k3.ptx").unlink()
    (folder / "k.ptx").write_text(PTX.replace("entry other", "entry k"))
    with pytest.raises(SourceError, match="stands in it 2 times"):
        apply(recipe(small, "return {}"), folder)


def test_binaries_that_hold_the_entry_are_no_modules(small: Path):
    (small / "corpus" / "lib.so").write_bytes(b"\x7fELF\0\0" + PTX.encode() + b"\0\1")
    (small / "corpus" / "empty.ptx").write_bytes(b"")
    (small / "corpus" / "folder.ptx").mkdir()
    assert apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}}}"), small / "corpus").module.name == "k.ptx"


def test_a_module_that_does_not_parse_is_said(small: Path):
    (small / "corpus" / "k.ptx").write_text(PTX.replace("[%rd2], %r3;", "[%rd2, %r3;"))
    with pytest.raises(SourceError, match=r"k\.ptx:22"):
        apply(recipe(small, f"return {{'cut_call': (15, 16), 'call': {ADD}}}"), small / "corpus")


def test_operands_that_we_cannot_read_are_a_note_on_request(small: Path):
    path = recipe(small, "return {'cut_call': (15, 16), 'call': 'st.global.u32 [%rd1+4+4], %r1; add.u32 %r2, %r1, 5;'}")
    with pytest.raises(SourceError, match="cannot read operand"):
        apply(path, small / "corpus")
    assert any("cannot read operand" in n for n in apply(path, small / "corpus", anyway=True).notes)
