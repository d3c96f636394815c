"""Edits: bytes outside an edit are untouched, conflicts are refused, offsets map both ways."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.errors import UsageError
from ptxgraft.text import Document, EditScript, Kind

NASTY = [Document.read(p) for p in sorted((Path(__file__).parent / "nasty").glob("*.ptx"))]
TEXT = """.version 8.0
.target sm_80
.address_size 64
// the kernel
.visible .entry k(.param .u64 p)
{
\t.reg .b32 %r<4>; // registers
\tmov.u32 %r1, 1; /* one */ // comment
\tmov.u32 %r2, 2; mov.u32 %r3, 3;
    add.u32 %r1, %r1, %r2;
\tret;
}
"""


def made() -> tuple[Document, dict[str, object], EditScript]:
    d = Document.parse(TEXT, "a.ptx")
    return d, {s.operands.split(",")[0] + s.opcode[:3]: s for s in d.statements}, EditScript(d)


def statement(d: Document, start: str):
    return next(s for s in d.statements if d.source(s).startswith(start))


def edited(edit) -> list[str]:
    """The lines that an edit of TEXT changed or added."""
    d = Document.parse(TEXT, "a.ptx")
    script = EditScript(d)
    edit(d, script)
    new = script.apply().decode()
    Document.parse(new)
    old, lines = TEXT.split("\n"), new.split("\n")
    while old and lines and old[0] == lines[0]:
        old.pop(0), lines.pop(0)
    while old and lines and old[-1] == lines[-1]:
        old.pop(), lines.pop()
    return lines


def test_insert_before_keeps_the_indentation():
    assert edited(lambda d, e: e.insert_before(statement(d, "add"), "bar.sync 0; // all")) == ["    bar.sync 0; // all"]
    assert edited(lambda d, e: e.insert_before(statement(d, "add"), "\ta;\n    b;\n")) == ["    a;", "    b;"]
    assert edited(lambda d, e: e.insert_before(statement(d, "mov.u32 %r3"), "a;")) == ["\tmov.u32 %r2, 2; a;", "mov.u32 %r3, 3;"]


def test_insert_after_leaves_a_comment_with_its_statement():
    assert edited(lambda d, e: e.insert_after(statement(d, "mov.u32 %r1"), "a;")) == ["\ta;"]
    assert edited(lambda d, e: e.insert_after(statement(d, "mov.u32 %r2"), "a; // x")) == [
        "\tmov.u32 %r2, 2;",
        "\ta; // x",
        "\t mov.u32 %r3, 3;",
    ]
    assert edited(lambda d, e: e.insert_after(statement(d, "{"), "a;")) == ["a;"]
    assert edited(lambda d, e: e.insert_after(statement(d, "ret"), "a;")) == ["\ta;"]


def test_replace_a_region():
    assert edited(lambda d, e: e.replace(statement(d, "mov.u32 %r1"), statement(d, "add"), "call f; // x")) == ["\tcall f; // x", ""]
    assert edited(lambda d, e: e.replace(statement(d, "mov.u32 %r2"), statement(d, "mov.u32 %r2"), "")) == ["\t mov.u32 %r3, 3;"]


def test_module_scope():
    assert edited(lambda d, e: e.add_module_scope(".extern .func f();")) == [".extern .func f();"]
    assert edited(lambda d, e: e.add_module_scope("// x\n.extern .func f();\n", before=d.entry("k"))) == ["// x", ".extern .func f();"]
    d = Document.parse(TEXT + ".visible .entry j() { ret; }\n")
    script = EditScript(d)
    script.add_module_scope(".func f() { ret; }", before=d.entry("j"))
    assert script.apply().decode() == TEXT + ".func f() { ret; }\n.visible .entry j() { ret; }\n"


@pytest.mark.parametrize("end", [b"", b"\n", b"\0", b" // last", b"\n/* a\n b */ \0\0"])
def test_module_scope_of_a_module_without_functions(end):
    d = Document.parse(b".version 8.0\n.target sm_80" + end)
    script = EditScript(d)
    script.add_module_scope(".func f() { ret; }")
    new = Document.parse(script.apply())
    assert [s.opcode for s in new.statements] == [".version", ".target", ".func", "{", "ret", "}"]
    assert new.data.endswith(b"\0") == end.endswith(b"\0")


def test_line_ends_follow_the_document():
    d = Document.parse(TEXT.replace("\n", "\r\n"))
    script = EditScript(d)
    script.insert_before(statement(d, "ret"), "a;\nb;")
    script.insert_after(statement(d, "mov.u32 %r1"), "c;")
    new = script.apply()
    assert new.count(b"\n") == new.count(b"\r\n") == TEXT.count("\n") + 3
    assert b"// comment\r\n\tc;\r\n" in new


def test_order_at_one_place_is_the_order_of_the_calls():
    d = Document.parse(".version 8.0\n.target sm_80\n.entry k(){a;b;}", "a.ptx")
    a, b = d.statements[4:6]
    script = EditScript(d)
    script.insert_before(b, "before;")
    script.replace_span(b.start, b.start, "raw1;")
    script.insert_after(a, "after1;")
    script.insert_after(a, "after2;")
    script.replace_span(b.start, b.start, "raw2;")
    assert "".join(script.apply().decode().split()[5:]) == "k(){a;after1;after2;raw1;raw2;before;b;}"


def test_conflicts_name_both_edits():
    d = Document.parse(TEXT, "a.ptx")
    script = EditScript(d)
    script.replace(statement(d, "mov.u32 %r1"), statement(d, "add"), "call f;")
    before = script.apply()
    hint = "; make the edits one, or move one of them"
    for edit, message in [
        (lambda: script.insert_after(statement(d, "mov.u32 %r2"), "a;"), "a.ptx: the insertion after line 9 overlaps the replacement of lines 8 to 10"),
        (lambda: script.insert_before(statement(d, "add"), "a;"), "a.ptx: the insertion before line 10 overlaps the replacement of lines 8 to 10"),
        (lambda: script.replace(statement(d, "add"), statement(d, "ret"), "a;"), "a.ptx: the replacement of lines 10 to 11 overlaps the replacement of lines 8 to 10"),
        (lambda: script.replace(statement(d, ".reg"), statement(d, "ret"), "a;"), "a.ptx: the replacement of lines 7 to 11 overlaps the replacement of lines 8 to 10"),
        (lambda: script.rename(d.scopes[1], "%r1", "%q"), "a.ptx: the renaming of '%r1' to '%q' at line 8 overlaps the replacement of lines 8 to 10"),
    ]:  # fmt: skip
        with pytest.raises(UsageError) as e:
            edit()
        assert str(e.value) == message + hint
        assert script.apply() == before and len(script) == 1
    script.insert_before(statement(d, "mov.u32 %r1"), "first;")
    script.insert_after(statement(d, "add"), "last;")
    assert b"\tfirst;\n\tcall f;\n    last;\n\tret;" in script.apply()


def test_an_inner_edit_refuses_an_outer_one():
    d = Document.parse(TEXT, "a.ptx")
    script = EditScript(d)
    script.insert_before(statement(d, "add"), "a;")
    with pytest.raises(UsageError, match="replacement of lines 7 to 11 overlaps the insertion before line 10"):
        script.replace(statement(d, ".reg"), statement(d, "ret"), "a;")


@pytest.mark.parametrize("span", [(-1, 3), (5, 4), (0, len(TEXT) + 1)])
def test_spans_outside_the_text_are_refused(span):
    with pytest.raises(UsageError, match="are no span of"):
        EditScript(Document.parse(TEXT)).replace_span(*span, "x")


def test_a_region_the_wrong_way_round_is_refused():
    d = Document.parse(TEXT)
    with pytest.raises(UsageError, match=r"last statement \(line 8\) stands before its first \(line 10\)"):
        EditScript(d).replace(statement(d, "add"), statement(d, "mov.u32 %r1"), "x")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(NASTY), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 30), st.text("ab;\n{é", max_size=6)), max_size=12))
def test_bytes_outside_an_edit_are_untouched(document, wanted):
    size = len(document.data)
    script, done = EditScript(document), []
    for where, length, text in wanted:
        start = int(where * size)
        end = min(start + length, size)
        clash = any(start < b and a < end for a, b, _ in done)
        if clash:
            before = script.apply()
            with pytest.raises(UsageError, match="overlaps"):
                script.replace_span(start, end, text)
            assert script.apply() == before
        else:
            script.replace_span(start, end, text)
            done.append((start, end, text))
    done.sort(key=lambda e: (e[0], e[1]))  # stable: insertions at one place keep their order
    model, kept, at = b"", [], 0
    for start, end, text in done:
        kept += [(o, len(model) + o - at) for o in range(at, start)]
        model += document.data[at:start]
        assert start == end or script.to_new(start) == len(model) or any(s == e == start for s, e, _ in done)
        model += text.encode()
        at = end
    kept += [(o, len(model) + o - at) for o in range(at, size + 1)]
    model += document.data[at:]
    assert script.apply() == model
    for old, new in kept:
        assert script.to_new(old) == new and script.to_old(new) == old
    news = {new for _, new in kept}
    for new in range(len(model)):
        if new not in news:
            assert any(start == script.to_old(new) for start, _, _ in done)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(NASTY), st.data())
def test_insertions_leave_every_statement_as_it_was(document, data):
    inside = [s for s in document.statements if s.scope and document.scopes[s.scope].kind != "section" and s.kind is not Kind.OPEN]
    chosen = data.draw(st.lists(st.sampled_from(inside), max_size=5, unique_by=lambda s: s.index)) if inside else []
    script, before, after = EditScript(document), set(), set()
    for s in chosen:
        if data.draw(st.booleans()):
            script.insert_before(s, "added.before; // }")
            before.add(s.index)
        elif s.kind is not Kind.CLOSE:
            script.insert_after(s, "added.after; // {")
            after.add(s.index)
    new = Document.parse(script.apply())
    expected = []
    for s in document.statements:
        expected += ["added.before"] * (s.index in before) + [s.opcode] + ["added.after"] * (s.index in after)
    assert [s.opcode for s in new.statements] == expected
    for s in document.statements:
        start = script.to_new(s.start)
        assert new.data[start : start + s.end - s.start] == document.data[s.start : s.end]


def test_edited_text_assembles(assemble):
    d = Document.parse(TEXT)
    script = EditScript(d)
    script.add_module_scope(".func f() { ret; }")
    script.insert_after(statement(d, "mov.u32 %r1"), "call f; // }")
    script.rename(d.scopes[1], "%r1", "%first")
    script.rename(d.scopes[0], "k", "kernel")
    assemble(script.apply())


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 60), st.integers(1, 4), st.text("ab", max_size=3)), max_size=8), st.booleans())
def test_many_spans_at_once_are_the_spans_one_by_one(parts: list[tuple[int, int, str]], something_before: bool):
    document = Document.parse(b".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\n\tret;\n}\n")
    spans: list[tuple[int, int, str]] = []
    for gap, length, text in parts:
        start = (spans[-1][1] if spans else 14) + gap % 5
        if start + length <= len(document.data):
            spans.append((start, start + length, text))
    one, many = EditScript(document), EditScript(document)
    for script in (one, many):
        if something_before:
            script.replace_span(0, 2, "x")
    for span in spans:
        one.replace_span(*span)
    many.replace_spans(spans)
    assert many.apply() == one.apply()
    assert [many.to_new(i) for i in range(len(document.data))] == [one.to_new(i) for i in range(len(document.data))]
    if len(spans) > 1:
        with pytest.raises(UsageError, match="overlaps the edit of bytes"):
            EditScript(document).replace_spans([*spans, spans[0]])
        with pytest.raises(UsageError, match="overlaps"):
            many.replace_spans(spans)
