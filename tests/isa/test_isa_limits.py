"""Numbers of any length and nesting of any depth: read, or refused in one line; never a Python error."""

from __future__ import annotations

import pytest

import ptxgraft
from ptxgraft.errors import PtxgraftError, SourceError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import Address, Imm, Reg, bind
from ptxgraft.spec import layer_spec
from ptxgraft.text import Document

MANY = "9" * 5000
"""More digits than Python turns into a number."""


def module(body: str = "", directives: str = "", outside: str = "", head: str = ".version 9.0\n.target sm_90\n.address_size 64\n") -> str:
    registers = ".reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .f32 %f<8>; .reg .pred %p<4>;"
    return f"{head}{outside}\n.visible .entry k(.param .u64 a)\n{directives}\n{{\n{registers}\n{body}\nret;\n}}\n"


def first(body: str):
    return bind(Document.parse(module(body)), "k").instructions[0]


TOO_LONG = {
    "a register": module(f"mov.u32 %r{MANY}, 5;"),
    "a literal": module(f"mov.u32 %r1, {MANY};"),
    "an octal literal": module(f"mov.u32 %r1, 0{'7' * 5000};"),
    "an offset": module(f"ld.global.u32 %r1, [%rd1+{MANY}];"),
    "a negative offset": module(f"ld.global.u32 %r1, [%rd1+-{MANY}];"),
    "an offset from a variable": module(f"ld.global.u32 %r1, [g+{MANY}];", outside=".global .u32 g[4];"),
    "a barrier": module(f"bar.sync {MANY};"),
    "the version": module(head=f".version {MANY}.0\n.target sm_90\n.address_size 64\n"),
    "the minor version": module(head=f".version 9.{MANY}\n.target sm_90\n.address_size 64\n"),
    "the largest block": module(directives=f".maxntid {MANY}"),
    "the block": module(directives=f".reqntid {MANY}, 1"),
    "parentheses": module(f"mov.u32 %r1, {'(' * 5000}1{')' * 5000};"),
    "operators": module(f"mov.u32 %r1, {'-' * 5000}1;"),
    "operators and parentheses": module(f"mov.u32 %r1, {'-(' * 500}1{')' * 500};"),
}


@pytest.mark.parametrize("name", TOO_LONG)
def test_what_is_too_long_or_deep_is_one_error(name):
    with pytest.raises(SourceError) as caught:
        bind(Document.parse(TOO_LONG[name]), "k")
    assert caught.value.place is not None


@pytest.mark.parametrize("text", ["abc", "0", "32, 0", "1, 1, 1, 1", "", "-4", "32 32"])
@pytest.mark.parametrize("directive", [".maxntid", ".reqntid"])
def test_a_block_shape_that_is_none(directive, text):
    with pytest.raises(SourceError, match=f"cannot read this '\\{directive}'; expected one to three positive numbers"):
        Document.parse(module(directives=f"{directive} {text}"))


def test_a_block_shape_may_be_written_in_any_base():
    document = Document.parse(module(directives=".reqntid 0x20, 02 /* rows */"))
    assert layer_spec(Flow(bind(document, "k"))).block == (32, 2, 1)
    kernel = ptxgraft.load(document.data).kernel("k", engine="numpy")
    kernel.launch(1, (32, 2), [0])
    with pytest.raises(UsageError, match=r"the entry declares \.reqntid 32, 2, 1"):
        kernel.launch(1, 64, [0])


def test_registers_and_offsets_keep_their_meaning():
    assert first("ld.global.u32 %r1, [%rd1+010];").operands[1] == Address(Reg(1), 8)
    assert first("ld.global.u32 %r1, [%rd1+-0x10];").operands[1] == Address(Reg(1), -16)
    with pytest.raises(SourceError, match=r"is neither a declared register"):
        first("mov.u32 %r01, 5;")


def test_blocks_may_be_nested_to_any_depth():
    assert first("{" * 3000 + "mov.u32 %r1, 5;" + "}" * 3000).operands == (Reg(0), Imm("int", 5))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (".global .b8 g" + "[65535]" * 12 + ";", "no device has that much memory"),
        (f".global .b8 g[{1 << 41}];", "no device has that much memory"),
        (f".global .u32 g[1] = {'{' * 3000}1{'}' * 3000};", "nested too deeply"),
        (".global .u64 h;\n.global .u64 g[1] = {h+abc};", "cannot read 'h"),
        (".global .u64 h;\n.global .u64 g[1] = {h+089};", "is not octal"),
    ],
)
def test_variables_that_cannot_be(variable, message):
    with pytest.raises(PtxgraftError, match=message):
        ptxgraft.load(module("mov.u64 %rd1, g; mov.u64 %rd2, h;" if " h;" in variable else "mov.u64 %rd1, g;", outside=variable)).kernel(
            "k", engine="numpy"
        ).launch(1, 1, [0])
