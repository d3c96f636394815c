"""Operand texts: literals, constant expressions, registers, addresses, vectors."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.errors import SourceError
from ptxgraft.isa import TYPES, Address, Group, Imm, Part, Reg, Resource, Sink, Special, Symbol, Var, Vector, registers_of
from ptxgraft.isa.constants import parse_literal
from ptxgraft.isa.operands import OperandParser, split_top

REGISTERS = {"%r1": 1, "%r2": 2, "%p1": 3, "plain": 4, "%f": 5}
VARIABLES = {"buf": 7, "k_param_0": 8}
parse = OperandParser(REGISTERS.get, VARIABLES.get)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("%r1", Reg(1)),
        ("!%p1", Reg(3, negated=True)),
        ("! %p1", Reg(3, negated=True)),
        ("plain", Reg(4)),
        ("_", Sink()),
        ("%tid.x", Special("tid.x")),
        ("%laneid", Special("laneid")),
        ("%clock64", Special("clock64")),
        ("WARP_SZ", Imm("int", 32)),
        ("buf", Var(7)),
        ("buf+8", Var(7, 8)),
        ("LABEL", Symbol("LABEL")),
        ("$L__BB0_2", Symbol("$L__BB0_2")),
        ("{%r1, %r2}", Vector((Reg(1), Reg(2)))),
        ("{0f00000000, %r1, _}", Vector((Imm("f32", 0), Reg(1), Sink()))),
        ("{%r1}", Vector((Reg(1),))),
        ("[%r1]", Address(Reg(1), 0)),
        ("[%r1+16]", Address(Reg(1), 16)),
        ("[%r1 + 16]", Address(Reg(1), 16)),
        ("[%r1+-16]", Address(Reg(1), -16)),
        ("[%r1-4]", Address(Reg(1), -4)),
        ("[%r1+0x10]", Address(Reg(1), 16)),
        ("[%r1+0]", Address(Reg(1), 0)),
        ("[buf]", Address(Var(7), 0)),
        ("[buf+12]", Address(Var(7), 12)),
        ("[k_param_0]", Address(Var(8), 0)),
        ("%r1.b0", Part(Reg(1), "b0")),
        ("%r2.h10", Part(Reg(2), "h10")),
        ("-%r1", Part(Reg(1), "-")),
        ("-%r1.h1", Part(Reg(1), "-h1")),
        ("[256]", Address(None, 256)),
        ("[0x100]", Address(None, 256)),
        ("[elsewhere+4]", Address(Symbol("elsewhere"), 4)),
        ("[%r1, {%f, %f}]", Resource(Reg(1), Vector((Reg(5), Reg(5))))),
        ("[%r1, {%f}]", Resource(Reg(1), Vector((Reg(5),)))),
        ("[%r1, %r2, {%f}]", Resource(Reg(1), Vector((Reg(5),)), Reg(2))),
        ("(%r1, buf)", Group((Reg(1), Var(7)))),
        ("()", Group(())),
    ],
)
def test_operands(text: str, want: object) -> None:
    assert parse(text) == want


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("%r9", "neither a declared register nor a special register"),
        ("!%p9", "'%p9' is not a declared register"),
        ("!nothing", "'nothing' is not a declared register"),
        ("[%r9+4]", "'%r9' is not a declared register"),
        ("%r1.x", "'%r1' is no vector register, it has no element 'x'"),
        ("{%r1", "is not closed"),
        ("[%r1", "is not closed"),
        ("%tid.q", "neither a declared register nor a special register"),
        ("a b c", "cannot read operand 'a b c'"),
        ("0f3F8000", "needs 8 hexadecimal digits"),
        ("0d3FF8", "needs 16 hexadecimal digits"),
        ("089", "is not octal"),
        ("0x1FFFFFFFFFFFFFFFF", "more than 64 bits"),
        ("1+", "cannot read the constant expression"),
        ("(1", "is not closed"),
        ("1/0", "division by zero"),
        ("1.5%2", "'%' takes integers"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(SourceError) as caught:
        parse(text)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("0", "int", 0),
        ("-7", "int", -7),
        ("017", "int", 15),
        ("0x1fU", "int", 31),
        ("-0x1F", "int", -31),
        ("0b101", "int", 5),
        ("4294967295", "int", 0xFFFFFFFF),
        ("18446744073709551615", "int", (1 << 64) - 1),
        ("1.5", "decimal", 1.5),
        ("-.5", "decimal", -0.5),
        ("1.", "decimal", 1.0),
        ("1e3", "decimal", 1000.0),
        ("-1.5e-3", "decimal", -0.0015),
        ("0f3F800000", "f32", 0x3F800000),
        ("0F3f800000", "f32", 0x3F800000),
        ("-0f3F800000", "f32", 0xBF800000),
        ("0dBFF8000000000000", "f64", 0xBFF8 << 48),
        ("1+2", "int", 3),
        ("(1+2)*3", "int", 9),
        ("~1", "int", -2),
        ("!1", "int", 0),
        ("- 1", "int", -1),
        ("1 << 4 | 1", "int", 17),
        ("7 / -2", "int", -3),
        ("-7 % 4", "int", -3),
        ("1 ? 2 : 3", "int", 2),
        ("0 ? 2 : 0 ? 4 : 5", "int", 5),
        ("3 > 2 && 1 != 1", "int", 0),
        ("-1 >> 1", "int", -1),
        ("(.u64) -1 >> 63", "int", 1),
        ("-1 < 1U", "int", 0),
        ("1.5 * 2", "decimal", 3.0),
        ("2 - 0.5", "decimal", 1.5),
    ],
)
def test_literals(text: str, kind: str, value: float) -> None:
    assert parse_literal(text) == Imm(kind, value)


@pytest.mark.parametrize("text", ["name", "%r1", "$L1", "_x", "f00", "{1}", "[1]", "e5"])
def test_names_are_no_literals(text: str) -> None:
    assert parse_literal(text) is None


@given(
    st.recursive(
        st.integers(0, 99).map(str),
        lambda inner: st.tuples(inner, st.sampled_from("+-*&|^"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
    )
)
def test_expressions_mean_what_python_says(text: str) -> None:
    literal = parse_literal(text)
    assert literal is not None
    value = eval(text) & ((1 << 64) - 1)
    assert literal.value == (value - (1 << 64) if value >> 63 else value)


def bits(text: str, type: str) -> int:
    literal = parse_literal(text)
    assert literal is not None
    return literal.bits(TYPES[type])


@pytest.mark.parametrize(
    ("text", "type", "want"),
    [
        ("-1", "u32", 0xFFFFFFFF),
        ("-1", "b16", 0xFFFF),
        ("4294967296", "u32", 0),
        ("-1.5", "f64", 0xBFF8 << 48),
        ("-1.5", "f32", 0xBFC00000),
        ("1.5", "b64", 0x3FF8 << 48),
        ("0f44400000", "b32", 0x44400000),
        ("0f44400000", "f64", 0x4088 << 48),
        ("0d4088000000000000", "f32", 0x44400000),
        ("0d3FF0000000000001", "b64", 0x3FF0000000000001),
        ("0f7FC00001", "f32", 0x7FC00001),
        ("1", "f32", 0x3F800000),
        ("1e40", "f32", 0x7F800000),
        ("2", "pred", 1),
        ("0", "pred", 0),
        ("0x3C00", "f16", 0x3C00),
        ("-1", "b128", (1 << 128) - 1),
    ],
)
def test_bits(text: str, type: str, want: int) -> None:
    assert bits(text, type) == want


@pytest.mark.parametrize(("text", "type"), [("1.5", "b32"), ("1.5", "u16"), ("0f3F800000", "f16"), ("1.0", "f16"), ("1.5", "pred")])
def test_literals_that_mean_nothing_there(text: str, type: str) -> None:
    with pytest.raises(SourceError, match=r"cannot be"):
        bits(text, type)


@given(st.integers(0, (1 << 32) - 1))
def test_float_bits_survive(word: int) -> None:
    """0f literals in f32 places keep every bit, NaN payloads too."""
    assert bits(f"0f{word:08X}", "f32") == bits(f"0f{word:08x}", "b32") == word


@given(st.floats(allow_nan=False, allow_infinity=False, width=32))
def test_decimals_round_as_the_machine_does(x: float) -> None:
    text = f"{abs(x):.60f}"
    assert bits(text, "f32") == int.from_bytes(struct.pack("<f", abs(x)), "little")


def test_registers_of() -> None:
    assert registers_of(parse("{%r1, 5, %r2}")) == (1, 2)
    assert registers_of(parse("[%r2+4]")) == (2,)
    assert registers_of(parse("[%r1, %r2, {%f, 0f00000000}]")) == (1, 2, 5)
    assert registers_of(parse("7")) == ()
    assert registers_of(parse("%r2.b3")) == (2,)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("", []),
        ("%r1", ["%r1"]),
        ("%r1, %r2,5", ["%r1", "%r2", "5"]),
        ("{%r1, %r2}, [%r3, {%f1, %f2}], 7", ["{%r1, %r2}", "[%r3, {%f1, %f2}]", "7"]),
        ("(a, b), f, ((c), {d, e})", ["(a, b)", "f", "((c), {d, e})"]),
        ("a,,b", ["a", "", "b"]),
        ("{a, [b}, c", ["{a, [b}, c"]),
    ],
)
def test_split_top(text: str, want: list[str]) -> None:
    assert split_top(text) == want


def test_operands_are_read_once() -> None:
    assert parse("[%r1+4]") is parse("[%r1+4]")
