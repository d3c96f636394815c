"""What PTX 9.3 to 9.5 added to the text: directives, sections of intermediate sources, ratios in opcodes."""

import pytest

from ptxgraft.errors import SourceError
from ptxgraft.isa import bind
from ptxgraft.text import Document

HEAD = ".version 9.5\n.target sm_107a\n.address_size 64\n"
SECTION = """.nv_intermediate_source_section {
    .code_block {
        .ir_name:        "TileIR"
        .sourceFileName: 2
        .source_begin
            it's { anything; ("at /* all
        .source_end
    }
    .code_block { .ir_name: "TileIR" .sourceFileName: 3 .source_begin } .source_end }
}
"""
BODY = "{\n.reg .b32 %r<9>;\n.loc 1 2 3\n.loc_intermediate 2 4 5 // x.ir:4\nadd.s32 %r1, %r2, %r3;\nret;\n}\n"


def opcodes(text: str) -> list[str]:
    document = Document.parse(HEAD + text)
    assert document.errors == []
    assert document.data == (HEAD + text).encode()
    return [i.statement.opcode for i in bind(document, "k").instructions][:2]


@pytest.mark.parametrize(
    "directive", ["", '.language "ptx", "cuda c++", 0x7', ".minperctamemory 1024", ".language 3 .minperctamemory 1024, 16"]
)
def test_directives_of_entries(directive: str) -> None:
    assert opcodes(f".visible .entry k() {directive}\n{BODY}") == ["add.s32", "ret"]


def test_pragmas_of_bodies() -> None:
    assert opcodes('.visible .entry k() { .pragma "mma_throughput=high"; ret; }')[0] == "ret"


@pytest.mark.parametrize("before", [True, False])
def test_intermediate_sources_may_hold_anything(before: bool) -> None:
    parts = [SECTION, f".visible .entry k()\n{BODY}"]
    assert opcodes("".join(parts if before else reversed(parts))) == ["add.s32", "ret"]


def test_a_ratio_is_a_part_of_an_opcode() -> None:
    text = ".visible .entry k() { .reg .b32 %r<9>; L2: spdecompress.b8.b2.sp::2:4.x1 {%r3}, {%r1}, {%r2}; ret; }"
    assert opcodes(text) == ["spdecompress.b8.b2.sp::2:4.x1", "ret"]


def test_a_label_before_a_number_is_still_refused() -> None:
    with pytest.raises(SourceError, match="no opcode"):
        Document.parse(HEAD + ".visible .entry k() { L2:4; ret; }")
