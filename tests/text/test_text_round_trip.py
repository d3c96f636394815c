"""Nothing is lost: every nasty text prints as it was, is accounted for byte by byte, and survives an edit script without edits."""

from pathlib import Path

import pytest

from ptxgraft.text import Document, EditScript, Kind

NASTY = sorted((Path(__file__).parent / "nasty").glob("*.ptx"))


def test_there_are_nasty_texts():
    assert len(NASTY) >= 20


@pytest.mark.parametrize("path", NASTY, ids=lambda p: p.stem)
def test_round_trip(path, covers):
    document = Document.read(path)
    covers(document)
    assert document.print() == path.read_bytes()
    assert EditScript(document).apply() == path.read_bytes()


@pytest.mark.parametrize("path", NASTY, ids=lambda p: p.stem)
def test_a_trailing_comment_or_nul_changes_no_statement(path, covers):
    before = Document.read(path)
    data = path.read_bytes().rstrip(b"\0") + b'\n// } ; {\n/* " */\0'
    after = Document.parse(data)
    covers(after)
    assert [(s.kind, s.start, s.end, s.opcode, s.operands) for s in before.statements] == [
        (s.kind, s.start, s.end, s.opcode, s.operands) for s in after.statements
    ]


def test_line_ends_do_not_matter():
    path = next(p for p in NASTY if p.stem == "crlf")
    crlf = Document.read(path)
    lf = Document.parse(path.read_bytes().replace(b"\r\n", b"\n"))
    assert [(s.opcode, s.operands, crlf.line(s.start)) for s in crlf.statements] == [
        (s.opcode, s.operands, lf.line(s.start)) for s in lf.statements
    ]


def test_comments_hide_what_they_hold():
    document = Document.read(next(p for p in NASTY if p.stem == "comments_everywhere"))
    assert [(s.kind, s.guard, s.opcode, s.operands) for s in document.statements] == [
        (Kind.DIRECTIVE, "", ".version", "8.0"),
        (Kind.DIRECTIVE, "", ".target", "sm_80"),
        (Kind.DIRECTIVE, "", ".address_size", "64"),
        (Kind.DIRECTIVE, "", ".entry", "k ( .param .u64 p ) .maxntid 32 , 1, 1"),
        (Kind.OPEN, "", "{", ""),
        (Kind.DIRECTIVE, "", ".reg", ".b32 %r< 3>"),
        (Kind.INSTRUCTION, "", "add.s32", "%r1, %r2 , 1"),
        (Kind.INSTRUCTION, "", "mov.u32", "%r2, 7"),
        (Kind.INSTRUCTION, "%r1", "bra", "L"),
        (Kind.LABEL, "", "L", ""),
        (Kind.INSTRUCTION, "", "ret", ""),
        (Kind.CLOSE, "", "}", ""),
    ]


def test_unknown_instructions_are_plain_statements():
    document = Document.read(next(p for p in NASTY if p.stem == "unknown"))
    found = [(s.kind, s.opcode, s.operands) for s in document.statements[6:16]]
    assert found == [
        (Kind.INSTRUCTION, "frobnicate.sync.b32", "%r2, %r1, {}"),
        (Kind.INSTRUCTION, "zork", ""),
        (Kind.INSTRUCTION, "new::thing.shared::cluster.mbarrier::complete_tx::bytes", "[%r1], {%r1, %r2}, [%r3, {%r1}], 0xFF"),
        (Kind.INSTRUCTION, "UPPER.case", "%r1"),
        (Kind.INSTRUCTION, "_under", "$x"),
        (Kind.DIRECTIVE, ".madeup", "1 2 3"),
        (Kind.DIRECTIVE, ".other", "4, 5"),
        (Kind.INSTRUCTION, "mov.u32", "%r1, 1"),
        (Kind.INSTRUCTION, "ld.global.u32", "%r1, [%r2]"),
        (Kind.INSTRUCTION, "fma.rn.f32", "%r1, %r2 , %r3,-1.5e+3"),
    ]


def test_guards_labels_and_many_statements_on_a_line():
    document = Document.read(next(p for p in NASTY if p.stem == "guards"))
    assert [(s.guard, s.opcode) for s in document.statements if s.kind is Kind.INSTRUCTION] == [
        ("p", "ret"),
        ("!p", "ret.uni"),
        ("%p1", "ld.global.nc.v4.u32"),
        ("!%p2", "st.shared.v2.f32"),
        ("%p1", "bra"),
        ("", "ret"),
    ]
    one = Document.read(next(p for p in NASTY if p.stem == "one_line"))
    assert len(one.statements) == 18 and one.statements_at_line(1) == one.statements
    assert one.target == ("sm_80", "texmode_independent")


def test_sections_open_no_register_scope():
    document = Document.read(next(p for p in NASTY if p.stem == "dwarf"))
    assert [s.kind for s in document.scopes] == ["module", "function", "section", "section", "section", "section"]
    assert all(s.function == -1 for s in document.scopes if s.kind == "section")
    data = [(s.opcode, s.operands) for s in document.statements if document.scopes[s.scope].kind == "section" and s.kind is Kind.DIRECTIVE]
    assert data == [
        (".b8", "1"),
        (".b8", "17, 1, 0"),
        (".b32", ".debug_str"),
        (".b64", "$L__func_begin0"),
        (".b64", "$L__func_end0-$L__func_begin0"),
        (".b32", "$L__info_string0+4"),
        (".b8", "107"),
        (".b8", "0"),
        (".b8", "1"),
    ]
    locations = [s.operands for s in document.statements if s.opcode == ".loc"]
    assert locations[2:] == [
        "1 5 2, function_name $L__info_string0, inlined_at 1 3 0",
        "1 5 2, function_name $L__info_string0+4, inlined_at 1 3 0",
    ]


def test_strings_are_kept_and_hide_what_they_hold():
    document = Document.read(next(p for p in NASTY if p.stem == "strings"))
    assert [s.operands for s in document.statements if s.opcode in (".file", ".pragma")] == [
        '1 "dir with } and { and ; // and /* in it.cu"',
        '2 "C:\\back\\slash\\", 1600000000, 4096',
        '"nounroll"',
        '"used_bytes_mask 0xff;}"',
    ]
    assert document.entry("k").directives == [(".pragma", '"a  b", "c;{"'), (".maxnreg", "64")]


def test_text_of_2009():
    document = Document.read(next(p for p in NASTY if p.stem == "old_2009"))
    assert document.version == (1, 4) and document.target == ("sm_10", "map_f64_to_f32") and document.address_size == 32
    assert [e.name for e in document.entries] == ["_Z1kPf", "bare"]
    assert [p.name for p in document.entry("_Z1kPf").params] == ["__cudaparm__Z1kPf_x"]
    assert [s.opcode for s in document.statements[-2:]] == ["@@DWARF", "@@DWARF"]
