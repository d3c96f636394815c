"""Renaming: exactly the uses of one declaration change."""

from pathlib import Path

import pytest

from ptxgraft.errors import UsageError
from ptxgraft.text import Document, EditScript

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
SCOPES = """.visible .entry k(.param .u64 out)
{
\t.reg .b64 %rd<2>;
\t.reg .b32 %r<3>, x; // x and %r1 in a comment
\t.reg .v4 .f32 v;
\tld.param.u64 %rd1, [out];
\tmov.u32 %r1, %laneid;
\tmov.f32 v.x, v.y;
\tmov.u32 x, %r1;
\t{ mov.u32 x, 3; .reg .b32 x; mov.b32 x, %r1; { .reg .b32 x, %r1; mov.b32 x, 7; mov.u32 %r1, x; } add.u32 %r2, x, 1; }
L:\t/* L */ bra L;
\t{ L: bra L; }
\t@%p bra L;
\t.pragma "x L %r1";
\tst.global.u32 [%rd1], %r2;
\tret;
}
"""


def renamed(scope: int, old: str, new: str, text: str = SCOPES) -> list[str]:
    """The lines that a renaming changed, blanks around them removed."""
    d = Document.parse(HEADER + text, "a.ptx")
    script = EditScript(d)
    script.rename(d.scopes[scope], old, new)
    result = script.apply().decode()
    Document.parse(result)
    pairs = zip((HEADER + text).split("\n"), result.split("\n"), strict=True)
    return [b.strip() for a, b in pairs if a != b]


def test_a_name_in_its_scope_and_not_where_it_is_shadowed():
    assert renamed(1, "x", "y") == [
        ".reg .b32 %r<3>, y; // x and %r1 in a comment",
        "mov.u32 y, %r1;",
        "{ mov.u32 y, 3; .reg .b32 x; mov.b32 x, %r1; { .reg .b32 x, %r1; mov.b32 x, 7; mov.u32 %r1, x; } add.u32 %r2, x, 1; }",
    ]


def test_a_name_of_a_nested_scope():
    assert renamed(2, "x", "y") == [
        "{ mov.u32 x, 3; .reg .b32 y; mov.b32 y, %r1; { .reg .b32 x, %r1; mov.b32 x, 7; mov.u32 %r1, x; } add.u32 %r2, y, 1; }"
    ]
    assert renamed(3, "x", "y") == [
        "{ mov.u32 x, 3; .reg .b32 x; mov.b32 x, %r1; { .reg .b32 y, %r1; mov.b32 y, 7; mov.u32 %r1, y; } add.u32 %r2, x, 1; }"
    ]


def test_one_member_of_a_range_gets_its_own_declaration():
    assert renamed(1, "%r1", "%lane") == [
        ".reg .b32 %r<3>, x; .reg .b32 %lane; // x and %r1 in a comment",
        "mov.u32 %lane, %laneid;",
        "mov.u32 x, %lane;",
        "{ mov.u32 x, 3; .reg .b32 x; mov.b32 x, %lane; { .reg .b32 x, %r1; mov.b32 x, 7; mov.u32 %r1, x; } add.u32 %r2, x, 1; }",
    ]


def test_a_whole_range():
    assert renamed(1, "%r", "%q") == [
        ".reg .b32 %q<3>, x; // x and %r1 in a comment",
        "mov.u32 %q1, %laneid;",
        "mov.u32 x, %q1;",
        "{ mov.u32 x, 3; .reg .b32 x; mov.b32 x, %q1; { .reg .b32 x, %r1; mov.b32 x, 7; mov.u32 %r1, x; } add.u32 %q2, x, 1; }",
        "st.global.u32 [%rd1], %q2;",
    ]


def test_labels_are_scoped():
    assert renamed(1, "L", "M") == ["M:\t/* L */ bra M;", "@%p bra M;"]
    assert renamed(4, "L", "M") == ["{ M: bra M; }"]


def test_parameters_functions_and_vector_registers():
    assert renamed(1, "out", "p0") == [".visible .entry k(.param .u64 p0)", "ld.param.u64 %rd1, [p0];"]
    assert renamed(0, "k", "kernel") == [".visible .entry kernel(.param .u64 out)"]
    assert renamed(1, "v", "w") == [".reg .v4 .f32 w;", "mov.f32 w.x, w.y;"]


def test_functions_variables_and_parameters_of_the_same_name():
    text = """.global .u32 f[2] = {1, 2};
.extern .func (.param .b32 g) h(.param .b32 f);
.func g(.param .b32 h)
{
\tcall (h), h, (f);
\tmov.u64 %rd1, f;
\tret;
}
.entry e() { call g, (1); call h, (2); ret; }
"""
    assert renamed(0, "h", "hh", text) == [
        ".extern .func (.param .b32 g) hh(.param .b32 f);",
        ".entry e() { call g, (1); call hh, (2); ret; }",
    ]
    assert renamed(0, "f", "ff", text) == [".global .u32 ff[2] = {1, 2};", "call (h), h, (ff);", "mov.u64 %rd1, ff;"]
    assert renamed(0, "g", "gg", text) == [".func gg(.param .b32 h)", ".entry e() { call gg, (1); call h, (2); ret; }"]
    assert renamed(1, "h", "hh", text) == [".func g(.param .b32 hh)", "call (hh), hh, (f);"]


def test_opcodes_and_components_stay():
    text = (
        ".entry k()\n{\n\t.reg .b32 add, x, y; .reg .v2 .f32 v;\n\tadd.u32 add, add, 1;\n\t@x add.u32 x, add, 1;\n\tmov.f32 v.x, v.y;\n}\n"
    )
    assert renamed(1, "add", "sum", text) == [".reg .b32 sum, x, y; .reg .v2 .f32 v;", "add.u32 sum, sum, 1;", "@x add.u32 x, sum, 1;"]
    assert renamed(1, "x", "z", text) == [".reg .b32 add, z, y; .reg .v2 .f32 v;", "@z add.u32 z, add, 1;"]


def test_labels_that_debug_sections_name():
    text = """.entry k()
{
L0:
\t.loc 1 2 3, function_name S0, inlined_at 1 2 3
\tret;
L1:
}
.section .debug_info
{
.b64 L0
.b64 L1-L0
}
.section .debug_str
{
S0: .b8 1
}
"""
    assert renamed(1, "L0", "B", text) == ["B:", ".b64 B", ".b64 L1-B"]
    assert renamed(0, "S0", "T", text) == [".loc 1 2 3, function_name T, inlined_at 1 2 3", "T: .b8 1"]


def test_a_prefix_is_not_a_name():
    text = ".entry k()\n{\n\t.reg .b32 %r, %r1, %r10, r, $r;\n\tadd.u32 %r1, %r10, %r;\n\tadd.u32 r, $r, %r1;\n}\n"
    assert renamed(1, "%r1", "%q", text) == [".reg .b32 %r, %q, %r10, r, $r;", "add.u32 %q, %r10, %r;", "add.u32 r, $r, %q;"]
    assert renamed(1, "r", "q", text) == [".reg .b32 %r, %r1, %r10, q, $r;", "add.u32 q, $r, %r1;"]


@pytest.mark.parametrize(
    ("scope", "old", "new", "message"),
    [
        (1, "%laneid", "%x", "a.ptx: '%laneid' is not declared in the body of 'k'; only declared names can be renamed"),
        (1, "%r3", "%y", "a.ptx: '%r3' is not declared in the body of 'k'; only declared names can be renamed"),
        (1, "%r01", "%y", "a.ptx: '%r01' is not declared in the body of 'k'; only declared names can be renamed"),
        (2, "%r2", "%y", "a.ptx: '%r2' is not declared in the block at line 13; the body of 'k' declares it"),
        (0, "x", "%y", "a.ptx: 'x' is not declared in the module scope; only declared names can be renamed"),
        (1, "x", "v", "a.ptx: cannot rename 'x' to 'v': 'v' is used at line 8; choose a name that the scope does not use"),
        (
            1,
            "x",
            "%laneid",
            "a.ptx: cannot rename 'x' to '%laneid': '%laneid' is used at line 10; choose a name that the scope does not use",
        ),
        (1, "x", "%r0", "a.ptx: cannot rename 'x' to '%r0': the body of 'k' declares it; choose a name that the scope does not use"),
        (1, "%r", "%rd", "a.ptx: cannot rename '%r' to '%rd': '%rd' is used at line 6; choose a name that the scope does not use"),
        (1, "x", "1y", "'1y' is no PTX name; names are letters, digits, '_' and '$', perhaps after one '%'"),
        (1, "x", "a b", "'a b' is no PTX name; names are letters, digits, '_' and '$', perhaps after one '%'"),
    ],
)
def test_refused(scope, old, new, message):
    d = Document.parse(HEADER + SCOPES, "a.ptx")
    script = EditScript(d)
    with pytest.raises(UsageError) as e:
        script.rename(d.scopes[scope], old, new)
    assert str(e.value) == message
    assert script.apply() == d.data


def test_two_names_cannot_become_one():
    d = Document.parse(HEADER + SCOPES, "a.ptx")
    script = EditScript(d)
    script.rename(d.scopes[1], "x", "y")
    with pytest.raises(UsageError, match=r"'x' and 'v' cannot both become 'y'"):
        script.rename(d.scopes[1], "v", "y")
    with pytest.raises(UsageError, match=r"'x' and 'x' cannot both become 'y'"):
        script.rename(d.scopes[2], "x", "y")


@pytest.mark.parametrize("name", ["scopes", "functions", "variables", "dwarf"])
def test_there_and_back_again(name):
    original = Document.read(Path(__file__).parent / "nasty" / f"{name}.ptx")
    checked = 0
    for scope in original.scopes:
        names = {s.opcode for s in original.statements if s.kind.name == "LABEL" and s.scope == scope.index and scope.kind != "section"}
        names |= {p.name for p in (original.functions[scope.function].params if scope.kind == "function" else [])}
        for old in names:
            script = EditScript(original)
            script.rename(scope, old, "fresh_name")
            changed = Document.parse(script.apply())
            assert changed.data != original.data
            back = EditScript(changed)
            back.rename(changed.scopes[scope.index], "fresh_name", old)
            assert back.apply() == original.data
            checked += 1
    assert checked or name == "variables"


def test_renamed_scopes_assemble(assemble):
    text = HEADER + SCOPES.replace("\t@%p bra L;\n", "").replace("%laneid", "%tid.x")
    for scope, old, new in [
        (1, "x", "y"),
        (2, "x", "y"),
        (3, "x", "y"),
        (1, "%r1", "%l"),
        (1, "%r", "%q"),
        (1, "L", "M"),
        (4, "L", "M"),
        (1, "v", "w"),
    ]:
        d = Document.parse(text)
        script = EditScript(d)
        script.rename(d.scopes[scope], old, new)
        assemble(script.apply())
