"""Spellings with several operand lists, operands that flags ask for, and optional operands in the middle."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxgraft.errors import SourceError
from ptxgraft.isa import ENTRIES, Address, Reg, Resource, Vector, bind, form_of
from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.matching import choose, match
from ptxgraft.isa.operands import OperandParser
from ptxgraft.isa.table import declare_only, instruction
from ptxgraft.text import Document

REGISTERS = {f"%r{i}": i for i in range(10)}
operand = OperandParser({**REGISTERS, "%p1": 10, "%d1": 11}.get, {}.get)


@pytest.fixture
def root() -> Iterator[str]:
    yield "testonly"
    ENTRIES.pop("testonly", None)
    form_of.cache_clear()


def _declare(spelling: str, **declaration) -> None:
    def meaning(lanes: Lanes) -> None:
        """Nothing."""

    instruction(spelling, **declaration)(declare_only(meaning))


def _operands(opcode: str, *texts: str) -> dict[str, object]:
    form = form_of(opcode)
    assert form is not None
    form = choose(form, texts, {**dict.fromkeys(REGISTERS, 32), "%p1": 1, "%d1": 64}.get)
    found = match(form, texts, operand, lambda role: Reg(99))
    return {role.name: value for role, value in zip(form.roles, found, strict=True)}


def test_the_operands_choose_the_list(root: str) -> None:
    _declare(f"{root}.b32", d="out b32", a="in b32")
    _declare(f"{root}.b32", d="out b32", many="in b32 x2")
    _declare(f"{root}.b32", d="out b32", place="addr", more="in b32 ?")
    _declare(f"{root}.b32", d="out b32", image="resource s32")
    assert set(_operands(f"{root}.b32", "%r1", "%r2")) == {"d", "a"}
    assert set(_operands(f"{root}.b32", "%r1", "{%r2, %r3}")) == {"d", "many"}
    assert _operands(f"{root}.b32", "%r1", "[%r2]") == {"d": Reg(1), "place": Address(Reg(2), 0), "more": None}
    assert _operands(f"{root}.b32", "%r1", "[%r2]", "%r3")["more"] == Reg(3)
    image = _operands(f"{root}.b32", "%r1", "[%r2, {%r3, %r4}]")["image"]
    assert image == Resource(Reg(2), Vector((Reg(3), Reg(4))))


def test_the_width_of_a_register_chooses_the_list(root: str) -> None:
    _declare(f"{root}.b32", d="out b32", wide="in b64")
    _declare(f"{root}.b32", d="out b32", a="in b32")
    assert set(_operands(f"{root}.b32", "%r1", "%r2")) == {"d", "a"}
    assert set(_operands(f"{root}.b32", "%r1", "%d1")) == {"d", "wide"}
    assert set(_operands(f"{root}.b32", "%r1", "7")) == {"d", "wide"}


def test_a_predicate_chooses_the_list(root: str) -> None:
    _declare(f"{root}.b32", d="out b32", count="in u32 ?")
    _declare(f"{root}.b32", d="out b32", skip="in pred")
    assert _operands(f"{root}.b32", "%r1", "%r2") == {"d": Reg(1), "count": Reg(2)}
    assert _operands(f"{root}.b32", "%r1", "%p1") == {"d": Reg(1), "skip": Reg(10)}
    assert _operands(f"{root}.b32", "%r1", "!%p1") == {"d": Reg(1), "skip": Reg(10, negated=True)}
    assert set(_operands(f"{root}.b32", "%r1", "16")) == {"d", "count"}


def test_no_list_fits(root: str) -> None:
    _declare(f"{root}.b32", d="out b32", a="in b32")
    _declare(f"{root}.b32", d="out b32", many="in b32 x2")
    with pytest.raises(SourceError, match="takes at most 2 operands, found 3"):
        _operands(f"{root}.b32", "%r1", "%r2", "%r3")


def test_flags_ask_for_operands(root: str) -> None:
    _declare(
        f"{root}.{{dim:1d|2d}}.{{hint}}?.b32",
        d="out b32 x{count}",
        policy="{policy}",
        derive=lambda dim, hint: {"count": dim[0], "policy": "in b64" if hint else ""},
    )
    assert _operands(f"{root}.1d.b32", "%r1") == {"d": Reg(1)}
    assert _operands(f"{root}.2d.hint.b32", "{%r1, %r2}", "%r3") == {"d": Vector((Reg(1), Reg(2))), "policy": Reg(3)}
    with pytest.raises(SourceError, match="needs 2 operands, found 1"):
        _operands(f"{root}.1d.hint.b32", "%r1")


def test_an_optional_operand_in_the_middle(root: str) -> None:
    _declare(f"{root}.b32", d="out b32", mask="in b32 x2 ?", p="in pred", extra="in u32 ?")
    assert _operands(f"{root}.b32", "%r1", "%r2") == {"d": Reg(1), "mask": None, "p": Reg(2), "extra": None}
    found = _operands(f"{root}.b32", "%r1", "{%r2, %r3}", "%r4", "%r5")
    assert found == {"d": Reg(1), "mask": Vector((Reg(2), Reg(3))), "p": Reg(4), "extra": Reg(5)}


def test_a_unified_address() -> None:
    module = b""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 k_param_0) {
    .reg .b64 %rd<3>; .reg .b32 %r<2>;
    ld.param.u64 %rd1, [k_param_0];
    ld.global.u32 %r1, [%rd1+4].unified;
    ret;
}
"""
    program = bind(Document.parse(module), "k")
    load = program.instructions[1]
    assert isinstance(load.operands[1], Address) and load.operands[1].offset == 4
