"""Error messages, exactly as users read them: every wrong text with all its messages and carets is in ``errors.txt``.

To accept changed messages, delete ``errors.txt``, run this file once (it writes the new one and fails), and review the difference.
"""

from pathlib import Path

import pytest

from ptxgraft.errors import SourceError, SourceErrors
from ptxgraft.text import Document

SNAPSHOT = Path(__file__).parent / "errors.txt"
HEADER = ".version 8.0\n.target sm_80\n"
BODY = HEADER + ".entry k()\n{\n"
WRONG = {
    "empty": "",
    "blank": " \n\t\r\n",
    "no_version": ".target sm_80\n.entry k() { ret; }\n",
    "no_target": ".version 8.0\n.entry k() { ret; }\n",
    "bad_version": ".version eight\n.target sm_80\n",
    "second_version": HEADER + ".version 8.0\n",
    "bom": "\ufeff.version 8.0\n.target sm_80\n.entry k() { ret; }\n",
    "missing_semicolon": BODY + "\tadd.u32 %r1, %r2, 1\n\tmov.u32 %r3, 7;\n\tret;\n}\n",
    "missing_semicolon_before_brace": BODY + "\tret\n}\n",
    "missing_semicolon_before_label": BODY + "\tret\nL1:\n\tret;\n}\n",
    "missing_semicolon_before_guard": BODY + "\tmov.u32 %r1, 7\n\t@%p1 bra L;\n\tret;\n}\n",
    "missing_semicolon_before_directive": BODY + "\tmov.u32 %r1, 7\n\t.loc 1 1 0\n\tret;\n}\n",
    "missing_semicolon_after_ret": BODY + "\tret\n\tadd.u32 %r1, %r2, 1;\n}\n",
    "missing_semicolon_reg": BODY + "\t.reg .b32 %r<5>\n\t.reg .b64 %rd<5>;\n\tret;\n}\n",
    "missing_semicolon_shared": BODY + "\t.shared .b8 a[4]\n\tret;\n}\n",
    "missing_semicolon_declaration": HEADER + ".extern .func f(.param .b32 a)\n.entry k() { ret; }\n",
    "truncated": BODY + "\tret;\n",
    "truncated_statement": BODY + "\tadd.u32 %r1, %r",
    "truncated_block": BODY + "\t{\n\tret;\n",
    "truncated_section": HEADER + ".section .debug_str\n{\n.b8 1\n",
    "truncated_head": HEADER + ".entry k(.param .u64",
    "extra_brace": BODY + "\tret;\n}\n}\n",
    "body_closed_early": BODY + "\tret;\n}\n\tmov.u32 %r1, 7;\n\tret;\n}\n.entry j() { ret; }\n",
    "entry_in_body": BODY + "\tret;\n.entry j()\n{\n\tret;\n}\n",
    "unclosed_vector": BODY + "\tst.global.v2.u32 [%rd1], {%r1, %r2;\n\tret;\n}\n",
    "unclosed_comment": BODY + "\tret; /* forever\n}\n",
    "unclosed_string": BODY + '\t.pragma "nounroll;\n\tret;\n}\n',
    "stray": BODY + "\tmov.u32 %r1, $ # 7;\n\t? ret;\n\t;;\n\tret;\n}\n",
    "stray_bytes": BODY + "\tmov.u32 %r1, \x01;\n\tmöv.u32 %r1, 7;\n\tret;\n}\n",
    "no_opcode": BODY + "\t%r1, %r2;\n\tret;\n}\n",
    "bad_parameter": HEADER
    + ".entry k(.param .u64 p,)\n{\n\tret;\n}\n.entry j(.u64 p) { ret; }\n.entry i(.param p) { ret; }\n.entry h(.param .b8 a[n]) { ret; }\n",
    "bad_head": HEADER + ".entry () { ret; }\n.entry k(.param .u64 p { ret; }\n.entry j() maxntid 3 { ret; }\n.entry i()\n\tret;\n}\n",
    "brace_alone": HEADER + "{ }\n",
    "bad_section": HEADER + ".section .debug_str\n.b8 1\n",
    "bad_file": HEADER + '.file "a.cu"\n.file 1 a.cu\n',
    "data_outside": BODY + "\t.b8 1\n\tret;\n}\n",
    "preprocessor": HEADER + "#define A 1\n.entry k() { ret; }\n",
    "defined_twice": BODY + "\tret;\n}\n.func k() { ret; }\n",
    "several": BODY + "\tadd.u32 %r1, %r2, 1\n\tmov.u32 %r3, 7;\n\tst.global [%rd1], {%r1;\n\t# what\n\tret\n}\n.entry j() { ret; }\n}\n",
    "instruction_in_module": HEADER + "mov.u32 %r1, 7;\nL:\nret;\n",
    "unclosed_initialiser": HEADER + ".global .b8 x[2] = {1, 2;\n.entry k() { ret; }\n",
    "unbalanced_brackets": BODY
    + "\tst.global.u32 [%rd1, %r1;\n\tld.u32 %r1, %rd1];\n\tcall (r, f, (a);\n\tadd %r1, [a], (b);\n\tmov x, [;\n\tret;\n}\n",
    "address_size": HEADER + ".address_size 48\n",
}


def shown(error: SourceError) -> str:
    assert error.place is not None
    caret = error.place.caret()
    return f"{error}\n{caret}" if caret.strip() else str(error)


def report() -> str:
    blocks = []
    for name, text in WRONG.items():
        errors = Document.parse(text, "a.ptx", strict=False).errors
        blocks.append("\n".join([f"== {name}", *map(shown, errors)]))
    return "\n".join(blocks) + "\n"


def test_messages_are_the_accepted_ones():
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(report(), encoding="utf-8")
        pytest.fail("errors.txt was missing and has been written: review it")
    assert report() == SNAPSHOT.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", WRONG)
def test_strict_raises_all_of_them(name):
    kept = Document.parse(WRONG[name], "a.ptx", strict=False).errors
    assert kept
    with pytest.raises(SourceError) as e:
        Document.parse(WRONG[name], "a.ptx")
    raised = e.value.errors if isinstance(e.value, SourceErrors) else [e.value]
    assert [str(r) for r in raised] == [str(k) for k in kept]
    places = [(k.place.line, k.place.column) for k in kept if k.place]
    assert places == sorted(places) and len(places) == len(kept)


def test_the_statements_around_an_error_are_kept():
    d = Document.parse(WRONG["several"], "a.ptx", strict=False)
    assert [s.opcode for s in d.statements] == [
        ".version", ".target", ".entry", "{", "mov.u32", "}", ".entry", "{", "ret", "}",
    ]  # fmt: skip
    assert [e.name for e in d.entries] == ["k", "j"]


def test_a_text_that_is_wrong_everywhere_ends_soon():
    d = Document.parse(HEADER + "}\n" * 5000, strict=False)
    assert len(d.errors) == 1001
    assert "too many errors" in str(d.errors[-1])


@pytest.mark.parametrize("unit", ["add\n", '"', "/*", "{", "@", ".entry ", ".reg ", "a::", "{a", "(", ".section .x {", ".b8 "])
def test_repeated_junk_neither_hangs_nor_crashes(unit):
    assert Document.parse(HEADER + ".entry k() {" + unit * 3000, strict=False).errors
