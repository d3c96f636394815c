"""Looking things up in a document: lines, places, statements, functions, variables; and reading files."""

from pathlib import Path

import pytest

from ptxgraft.errors import Place, SourceError, UsageError
from ptxgraft.text import Document, Kind, Parameter, parse_prototype, register_declarations, variable_declarations

NASTY = Path(__file__).parent / "nasty"
TEXT = """.version 8.0
.target sm_80, debug
.entry k()
{
\tcall f,
\t\t(%r1);\tret; ret;
}
"""


def test_header():
    d = Document.parse(TEXT, "a.ptx")
    assert (d.version, d.target, d.address_size, d.errors) == ((8, 0), ("sm_80", "debug"), 32, [])
    assert Document.parse(TEXT.replace("debug", "debug .address_size 64")).address_size == 64


def test_lines_are_one_based_file_lines():
    d = Document.parse(TEXT, "a.ptx")
    assert d.line(0) == 1 and d.line(d.text.index("\n")) == 1 and d.line(d.text.index("\n") + 1) == 2
    assert d.line(len(d.data)) == 8
    assert [d.text[slice(*d.line_span(n))] for n in range(1, 9)] == TEXT.split("\n")
    for line in (0, -1, 9):
        with pytest.raises(UsageError, match=rf"a\.ptx has no line {line}; its lines are 1 to 8"):
            d.line_span(line)


def test_line_span_leaves_crlf_out():
    d = Document.parse(TEXT.replace("\n", "\r\n"))
    assert [d.text[slice(*d.line_span(n))] for n in range(1, 9)] == TEXT.split("\n")


def test_statements_at_line():
    d = Document.parse(TEXT)
    assert [[s.opcode for s in d.statements_at_line(n)] for n in range(1, 9)] == [
        [".version"], [".target"], [".entry"], ["{"], ["call"], ["call", "ret", "ret"], ["}"], [],
    ]  # fmt: skip


def test_places():
    d = Document.parse(TEXT, "a.ptx")
    ret = next(s for s in d.statements if s.opcode == "ret")
    assert d.place(ret) == Place("a.ptx", 6, 10, "\t\t(%r1);\tret; ret;")
    assert d.place(ret).caret() == "  \t\t(%r1);\tret; ret;\n  \t\t      \t^"
    assert d.place(ret.start) == d.place(ret) and d.column(ret.start) == 10 and d.source(ret) == "ret;"


def test_columns_count_characters():
    d = Document.parse(".version 8.0 .target sm_80 /* größe */ .entry k() { ret; }\n")
    ret = next(s for s in d.statements if s.opcode == "ret")
    assert d.place(ret).column == d.place(ret).source.index("ret") + 1
    assert d.data[ret.start : ret.end] == b"ret;"


def test_functions():
    d = Document.read(NASTY / "functions.ptx")
    assert [(f.kind, f.name, f.linking, f.body is None) for f in d.functions] == [
        ("func", "vprintf", "extern", True),
        ("func", "noargs", "extern", True),
        ("func", "__assertfail", "extern", True),
        ("func", "by_register", "", False),
        ("func", "big", "weak", False),
        ("func", "f", "visible", False),
        ("func", "g", "weak", True),
        ("entry", "k", "visible", False),
    ]
    by_register = d.function("by_register")
    assert [(p.name, p.type, p.space) for p in by_register.returns + by_register.params] == [
        ("%out", "u32", ".reg"),
        ("%in", "u32", ".reg"),
        ("%d", "f64", ".reg"),
    ]
    assert [tuple(r) for r in register_declarations(d, d.scopes[by_register.scope])] == [
        ("%out", "u32", None, ""),
        ("%in", "u32", None, ""),
        ("%d", "f64", None, ""),
    ]
    big = d.function("big")
    start = d.text.index(".param .v4")
    assert big.params[1] == Parameter("v", "f32", None, None, (), ".param", start, start + len(".param .v4 .f32 v"), "v4")
    assert (big.returns[0].array, big.returns[0].align, big.params[0].array) == (24, 8, 24)
    assert d.function("__assertfail").params[1].array == 0
    assert [f.directives for f in d.functions if f.directives] == [
        [(".noreturn", "")],
        [(".abi_preserve", "4")],
        [(".attribute", "(.unified(0xAA, 0xBB))")],
        [(".reqntid", "32, 1, 1"), (".minnctapersm", "1"), (".reqnctapercluster", "2")],
    ]
    for f in d.functions:
        assert d.text[f.name_start :].startswith(f.name)
        assert [d.statements[i].opcode for i in f.head] == [f".{f.kind}"]
        source = d.text[f.start : f.end]
        assert source.endswith(";" if f.body is None else "}") and source.startswith(f".{f.linking}" if f.linking else f".{f.kind}")
        if f.body is not None:
            scope = d.scopes[f.scope]
            assert scope.kind == "function" and d.functions[scope.function] is f
            assert (scope.first, scope.last) == (f.body.start - 1, f.body.stop)
            assert d.function_of(d.statements[scope.first]) is f
    assert d.function_of(d.statements[0]) is None


def test_directives_between_labels_and_prototypes():
    d = Document.read(NASTY / "functions.ptx")
    found = {s.opcode: s.operands for s in d.statements if s.opcode.startswith((".call", ".branch"))}
    assert found == {
        ".callprototype": "(.param .b32 _) _ (.param .b32 _, .param .b64 _) .noreturn",
        ".calltargets": "f, g",
        ".branchtargets": "L0, L1, L2",
    }
    calls = [s.operands for s in d.statements if s.opcode.startswith("call")]
    assert calls[0] == "(retval0), vprintf, ( param0, param0 )"
    assert [s.opcode for s in d.statements if s.kind is Kind.LABEL] == ["proto", "targets", "ts", "L0", "L1", "L2"]


def test_call_prototypes():
    d = Document.read(NASTY / "functions.ptx")
    returns, params = parse_prototype(d, next(s for s in d.statements if s.opcode == ".callprototype"))
    assert [(p.name, p.type, p.space) for p in returns] == [("_", "b32", ".param")]
    assert [(p.name, p.type, p.array) for p in params] == [("_", "b32", None), ("_", "b64", None)]
    d = Document.parse(".version 8.0\n.target sm_80\n.entry k()\n{\nP: .callprototype _ (.param x);\n}\n", "a.ptx")
    with pytest.raises(SourceError, match=r"a\.ptx:5:22: the parameter 'x' has no type"):
        parse_prototype(d, next(s for s in d.statements if s.opcode == ".callprototype"))


def test_variables():
    d = Document.read(NASTY / "variables.ptx")
    found = [(v.name, v.space, v.type, v.array, v.align, v.vector, v.init, v.extern) for v in variable_declarations(d, d.scopes[0])]
    assert found == [
        ("x", "global", "b8", [4], 4, "", "{1, 2, 3, 4}", False),
        ("m", "global", "u32", [2, 2], 4, "", "{{1, 2}, {3, 4}}", False),
        ("a", "global", "u32", [], None, "", None, False),
        ("b", "global", "u32", [], None, "", "3", False),
        ("c", "global", "u32", [2], None, "", "{1, 2}", False),
        ("lut", "const", "f32", [3], 16, "", "{0f3F800000, 0f40000000, 0fBF800000}", False),
        ("smem", "shared", "b8", [0], 16, "", None, True),
        ("far", "const", "b32", [], None, "", None, True),
        ("tentative", "global", "b32", [8], None, "", None, True),
        ("man", "global", "b64", [], 8, "", None, False),
        ("ptrs", "global", "u64", [2], None, "", "{generic(x), a+4}", False),
        ("tex0", "global", "texref", [], None, "", None, False),
        ("samp", "global", "samplerref", [], None, "", "{ addr_mode_0 = clamp_to_border, filter_mode = linear }", False),
        ("surf0", "global", "surfref", [], None, "", None, False),
        ("oldtex", "tex", "u32", [], None, "", None, False),
    ]
    inside = [(v.name, v.space, v.type, v.array, v.align, v.vector) for v in variable_declarations(d, d.scopes[1])]
    assert inside == [
        ("buf", "shared", "b8", [512], 16, ""),
        ("other", "shared", "b8", [16], 16, ""),
        ("depot", "local", "f32", [], None, "v2"),
    ]
    assert [tuple(r) for r in register_declarations(d, d.scopes[1])] == [
        ("v", "f32", None, "v4"),
        ("t", "b32", 3, ""),
        ("u", "b32", None, ""),
        ("%w", "b32", None, ""),
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (".reg %r<3>;", "cannot read this '.reg'; expected '.reg .type name, name<count>, ...;'"),
        (".reg .b32 %r<x>;", "cannot read this '.reg'; expected '.reg .type name, name<count>, ...;'"),
        (".shared .b8 a[4*2];", "cannot read this '.shared'; expected '.shared .align N .type name[count] = ...;'"),
        (".local .b8;", "cannot read this '.local'; expected '.local .align N .type name[count] = ...;'"),
    ],
)
def test_unreadable_declarations_are_named(line, message):
    d = Document.parse(f".version 8.0\n.target sm_80\n.entry k()\n{{\n\t{line}\n}}\n", "a.ptx")
    read = register_declarations if line.startswith(".reg") else variable_declarations
    with pytest.raises(SourceError) as e:
        read(d, d.scopes[1])
    assert str(e.value) == f"a.ptx:5:2: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "FILE: the file is empty; expected a PTX module, which begins with '.version'"),
        (b" \r\n\t\n", "FILE: the file is empty; expected a PTX module, which begins with '.version'"),
        (b"\0", "FILE: the file is empty; expected a PTX module, which begins with '.version'"),
        (b"\x7fELF\x02\x01", "FILE: is an ELF file (a cubin or a library), not a PTX text; extract the PTX from it first"),
        (b"\x50\xed\x55\xba\x01", "FILE: is a fat binary, not a PTX text; extract the PTX from it first"),
        (b".version 8.0\n\0\1\2}", "FILE: is a binary file, not a PTX text; name a PTX file"),
        (b"hello world\n", "FILE: is not a PTX text: no '.version' directive; name a PTX file"),
    ],
)
def test_files_that_are_no_ptx(tmp_path, data, message):
    path = tmp_path / "x.ptx"
    path.write_bytes(data)
    with pytest.raises(SourceError) as e:
        Document.read(path)
    assert str(e.value) == message.replace("FILE", str(path))


def test_missing_files_and_directories(tmp_path):
    with pytest.raises(SourceError) as e:
        Document.read(tmp_path / "none.ptx")
    assert str(e.value) == f"{tmp_path}/none.ptx: no such file"
    with pytest.raises(SourceError) as e:
        Document.read(tmp_path)
    assert str(e.value) == f"{tmp_path}: is a directory; name a PTX file in it"


@pytest.mark.parametrize(
    ("declaration", "said"),
    [
        (".shared .align 3 .b8 s[4];", "an alignment of 3 bytes"),
        (".global .align 0 .b8 s[4];", "an alignment of 0 bytes"),
        (".local .b8 s[-1];", r"cannot read this '\.local'"),
    ],
)
def test_declarations_that_no_memory_has(declaration: str, said: str):
    d = Document.parse(f".version 8.0\n.target sm_80\n{declaration}\n.entry k() {{ ret; }}\n")
    with pytest.raises(SourceError, match=said) as caught:
        variable_declarations(d, d.scopes[0])
    assert caught.value.place is not None and caught.value.place.line == 3
