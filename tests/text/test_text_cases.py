"""Small inputs of the kinds that have broken tools like this one, with neighbours; what the text layer owes to each."""

import pytest

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.text import Document, EditScript, Kind, register_declarations, split_operands

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def entry(body: str, head: str = "k(.param .u64 p)", after: str = "") -> Document:
    return Document.parse(f"{HEADER}.visible .entry {head}\n{{\n{body}\n\tret;\n}}\n{after}", "case.ptx")


@pytest.mark.parametrize(
    ("operands", "pieces"),
    [
        ("[%rd0+0], {0f00000000, %f0, %f1, %f2}", ["[%rd0+0]", "{0f00000000, %f0, %f1, %f2}"]),
        ("[%rd0], {%f0,0f80000000,_,7}", ["[%rd0]", "{%f0,0f80000000,_,7}"]),
        ("{%r1}, [%rd1]", ["{%r1}", "[%rd1]"]),
        ("{%r1,%r2}, [tex, {%f1, %f2}]", ["{%r1,%r2}", "[tex, {%f1, %f2}]"]),
        ("(r0, r1), f, (a, b), proto", ["(r0, r1)", "f", "(a, b)", "proto"]),
        ("%p1|%p2, %r1, -1.5, !%p3", ["%p1|%p2", "%r1", "-1.5", "!%p3"]),
        ("%r1, {}", ["%r1", "{}"]),
        ("", []),
        ("  ", []),
        ("a", ["a"]),
        ("a,", ["a", ""]),
    ],
)
def test_operands_split_at_top_level_commas(operands, pieces):
    assert split_operands(operands) == pieces


@pytest.mark.parametrize("operands", ["(a", "a)", "[a}", "{a,b", "a]", "{[}]"])
def test_unbalanced_operands_are_refused(operands):
    with pytest.raises(ValueError, match="unbalanced brackets"):
        split_operands(operands)


def test_mixed_vector_store_keeps_its_braces_and_literals():
    d = entry("\tst.global.v4.f32 \t[%rd0+0], {0f00000000, %f0, %f1, %f2};\n\tst.global.v2.b32 [%rd0], {\n\t%r1,\n\t7};")
    vector, wrapped = (s for s in d.statements if s.opcode.startswith("st."))
    assert split_operands(vector.operands) == ["[%rd0+0]", "{0f00000000, %f0, %f1, %f2}"]
    assert split_operands(wrapped.operands) == ["[%rd0]", "{ %r1, 7}"]


def test_sections_after_a_function(covers):
    d = entry("L0:\n\t.loc 1 3 0", after='\t.file\t1 "k.cu"\n\t.section\t.debug_str\n\t{\nL1:\n.b8 107 // k }\n.b8 0\n\t}\n')
    covers(d)
    assert [s.kind for s in d.scopes] == ["module", "function", "section"]
    assert d.entry("k").end == d.text.index("\t.file") - 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".param .u64 .ptr .align 1 p0", ("p0", "u64", None, None, (".ptr", ".align 1"), ".param")),
        (".param .u64 .ptr .global .align 16 p0", ("p0", "u64", None, None, (".ptr", ".global", ".align 16"), ".param")),
        (".param .align 8 .b8 s[152]", ("s", "b8", 152, 8, (), ".param")),
        (".param .b8 .align 4 s[0x10]", ("s", "b8", 16, 4, (), ".param")),
        (".param .b8 s[010]", ("s", "b8", 8, None, (), ".param")),
        (".param\n.u32\n\tx", ("x", "u32", None, None, (), ".param")),
        (".param .f16x2 $h", ("$h", "f16x2", None, None, (), ".param")),
        (".param .b32 m[2][3]", ("m", "b32", 6, None, (), ".param")),
    ],
)
def test_parameters(text, expected):
    d = entry("", head=f"k({text}, .param .u32 last)")
    p, last = d.entry("k").params
    assert (p.name, p.type, p.array, p.align, p.attributes, p.space) == expected
    assert d.text[p.start : p.end] == text
    assert last.name == "last" and last.type == "u32"


@pytest.mark.parametrize("head", ["k()", "k", "k( )", "k (\n)\n"])
def test_entry_without_parameters(head):
    d = entry("", head=head)
    assert d.entry("k").params == [] and d.entry("k").body is not None


def test_entry_is_found_exactly():
    d = Document.parse(
        HEADER + ".visible .entry foo_bar(.param .u64 out)\n{\n\tret; // } not the end of anything\n}\n"
        ".visible .entry foo(.param .u64 out)\n{\n\t/* a } here\n\t   and { there */\n\tmov.u32 %r1, 7; // }\n\tret;\n}\n.entry Foo { ret; }"
    )
    foo = d.entry("foo")
    assert d.text[foo.start : foo.end].startswith(".visible .entry foo(") and d.text[foo.start : foo.end].endswith("ret;\n}")
    assert foo.body and [d.statements[i].opcode for i in foo.body] == ["mov.u32", "ret"]
    with pytest.raises(UsageError) as e:
        d.entry("foo_")
    assert str(e.value) == "<ptx> has no entry 'foo_'; did you mean 'foo_bar', 'foo', 'Foo'?"
    with pytest.raises(UsageError, match="has no entry 'zzz'; did you mean 'foo_bar', 'foo', 'Foo'"):
        d.entry("zzz")


def test_an_entry_is_not_a_function_and_a_declaration_no_entry():
    d = Document.parse(HEADER + ".extern .func f();\n.func g() { ret; }\n")
    with pytest.raises(UsageError) as e:
        d.entry("g")
    assert str(e.value) == "<ptx> has no entry 'g'; it defines no entry"
    assert d.function("f").body is None and d.function("f").linking == "extern" and d.function("g").body is not None


def test_nested_scopes_keep_their_registers():
    d = entry("\t.reg .b32 %r<3>;\n\t{ .reg .b32 t; mov.b32 t, %r1; { .reg .b64 t; mov.b64 t, 7; } add.u32 %r2, t, 1; }")
    assert [[tuple(r) for r in register_declarations(d, s)] for s in d.scopes] == [
        [],
        [("%r", "b32", 3, "")],
        [("t", "b32", None, "")],
        [("t", "b64", None, "")],
    ]
    assert [s.parent for s in d.scopes] == [-1, 0, 1, 2]


def test_returns_in_comments_are_no_returns():
    d = entry("\t@%p1 ret.uni; // leaves early, then exit;\n\t/* ret; */ exit;\n\t@!%p1 ld.global.nc.v4.u32 {%r2,%r3,%r4,%r5}, [%rd4];")
    assert [(s.guard, s.opcode) for s in d.statements if s.kind is Kind.INSTRUCTION] == [
        ("%p1", "ret.uni"),
        ("", "exit"),
        ("!%p1", "ld.global.nc.v4.u32"),
        ("", "ret"),
    ]


def test_edits_touch_no_comment():
    d = entry("\t@%p1 ret.uni; // before ret; and after\n\t/* ret; */")
    script = EditScript(d)
    for s in d.statements:
        if s.opcode.startswith("ret"):
            script.insert_before(s, "bar.sync 0;")
    assert script.apply() == d.data.replace(b"\t@%p1 ret.uni", b"\tbar.sync 0;\n\t@%p1 ret.uni").replace(
        b"\n\tret;\n}", b"\n\tbar.sync 0;\n\tret;\n}"
    )


def test_negative_and_hexadecimal_literals_stay_text():
    d = entry("\tmov.f64 %fd1, -1.5;\n\tmov.b32 %r1, 0f44400000;\n\tmov.f64 %fd2,-0d8000000000000000;\n\tmov.u32 %r2, 0xFFFFFFFFU;")
    found = [split_operands(s.operands)[1] for s in d.statements if s.opcode.startswith("mov")]
    assert found == ["-1.5", "0f44400000", "-0d8000000000000000", "0xFFFFFFFFU"]


def test_a_module_with_an_unknown_instruction_parses_whole():
    d = entry("\tfrobnicate.sync.b32 %r2, %r1, {};", after=".entry good() { ret; }")
    assert [e.name for e in d.entries] == ["k", "good"]


def test_a_truncated_module_is_an_error():
    whole = entry("\tmov.u32 %r1, 7;").data
    body = whole.index(b"{") + 1
    # Behind the ';' of '.address_size 64' + head nothing may be cut away silently.
    for cut in range(body, len(whole) - 2):
        with pytest.raises(SourceError):
            Document.parse(whole[:cut])
