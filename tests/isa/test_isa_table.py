"""The instruction table: how spellings are declared, filled and refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ptxgraft.isa import ENTRIES, form_of
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction, resolve_roles


@pytest.fixture
def fresh_root() -> Iterator[str]:
    """A root that only the test declares; gone afterwards."""
    yield "testonly"
    ENTRIES.pop("testonly", None)
    form_of.cache_clear()


def test_slots_are_filled_by_name() -> None:
    form = form_of("add.rz.ftz.f32")
    assert form is not None
    assert form.slots == {"rounding": "rz", "ftz": "ftz", "sat": "", "type": "f32"}
    assert form.options == {"rounding": "rz", "ftz": "ftz", "sat": "", "type": "f32"}
    assert [(r.name, r.kind, r.type and r.type.name) for r in form.roles] == [("d", "out", "f32"), ("a", "in", "f32"), ("b", "in", "f32")]
    assert (form.root, form.family, form.required, form.control, form.loads) == ("add", "float", 3, "", "")


def test_flags_may_stand_in_any_order() -> None:
    usual, unusual = form_of("add.rz.ftz.f32"), form_of("add.ftz.rz.f32")
    assert usual is not None and unusual is not None
    assert unusual.slots == usual.slots and unusual.opcode == "add.ftz.rz.f32"
    assert form_of("cvt.sat.rni.ftz.s32.f32") is not None
    # Types keep their order: they say which is the destination.
    there, back = form_of("cvt.rzi.s32.f32"), form_of("cvt.rn.f32.s32")
    assert there is not None and back is not None
    assert (there.slots["dtype"], back.slots["dtype"]) == ("s32", "f32")
    assert form_of("cvt.rn.s32.f32") is None


@pytest.mark.parametrize(
    "opcode",
    [
        "add",
        "add.",
        "add.f32.f32",
        "add.rn.rz.f32",
        "add.ftz.ftz.f32",
        "add.ftz.f64",
        "frobnicate.b32",
        "",
        "mul.wide.u64",
        "setp.lo.s32",
        "ADD.f32",
    ],
)
def test_what_the_table_does_not_know(opcode: str) -> None:
    assert form_of(opcode) is None


def test_a_form_is_made_once() -> None:
    assert form_of("xor.b32") is form_of("xor.b32")


def test_legal_refuses_combinations(fresh_root: str) -> None:
    @instruction(
        f"{fresh_root}.{{mode:x|y}}?.{{type:u32|s32}}",
        d="out {type}",
        legal=lambda *, mode, type: not (mode == "y" and type == "s32"),
    )
    def meaning(lanes: Lanes) -> Value:
        """d = nothing."""
        return lanes.const(0, 32)

    known = {f"{fresh_root}.{m}{t}" for m in ("", "x.", "y.") for t in ("u32", "s32") if form_of(f"{fresh_root}.{m}{t}")}
    assert known == {f"{fresh_root}.{w}" for w in ("u32", "s32", "x.u32", "x.s32", "y.u32")}


def test_the_first_declaration_that_fits_wins(fresh_root: str) -> None:
    @instruction(f"{fresh_root}.{{type:u32}}", d="out {type}")
    def first(lanes: Lanes) -> Value:
        return lanes.const(1, 32)

    @instruction(f"{fresh_root}.{{type:u32|s32}}", d="out {type}")
    def second(lanes: Lanes) -> Value:
        return lanes.const(2, 32)

    wins, other = form_of(f"{fresh_root}.u32"), form_of(f"{fresh_root}.s32")
    assert wins is not None and wins.meaning is first
    assert other is not None and other.meaning is second


def test_declare_only_has_no_meaning(fresh_root: str) -> None:
    @instruction(f"{fresh_root}.{{space:global|shared}}?.b32", d="out b32", a="addr", loads="{space}", convergent=True)
    @declare_only
    def meaning(lanes: Lanes) -> None:
        """Roles and effects alone."""

    form = form_of(f"{fresh_root}.b32")
    assert form is not None and form.meaning is None and form.convergent
    assert form.loads == "generic"
    shared = form_of(f"{fresh_root}.shared.b32")
    assert shared is not None and shared.loads == "shared"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("out u32", ("out", "u32", 1, False, False, False)),
        ("in b32 x4", ("in", "b32", 4, False, False, False)),
        ("in {type} {vec}", ("in", "f16", 2, False, False, False)),
        ("in {vec}", ("in", None, 2, False, False, False)),
        ("out pred |", ("out", "pred", 1, True, False, False)),
        ("out pred |?", ("out", "pred", 1, True, True, False)),
        ("in pred ?", ("in", "pred", 1, False, True, False)),
        ("inout pred implicit", ("inout", "pred", 1, False, False, True)),
        ("addr", ("addr", None, 1, False, False, False)),
        ("label", ("label", None, 1, False, False, False)),
        ("resource f32", ("resource", "f32", 1, False, False, False)),
    ],
)
def test_role_grammar(fresh_root: str, text: str, want: tuple) -> None:
    @instruction(f"{fresh_root}.b32", r=text)
    def meaning(lanes: Lanes) -> None:
        """Nothing."""

    entry = ENTRIES[fresh_root][0]
    (role,) = resolve_roles(entry, {"type": "f16", "vec": "v2"})
    assert (role.kind, role.type and role.type.name, role.count, role.pair, role.optional, role.implicit) == want


def test_a_role_that_is_not_grammar_is_our_bug(fresh_root: str) -> None:
    @instruction(f"{fresh_root}.b32", r="sideways u32")
    def meaning(lanes: Lanes) -> None:
        """Nothing."""

    with pytest.raises(AssertionError, match="does not follow the grammar"):
        form_of(f"{fresh_root}.b32")


def test_every_declaration_is_documented_and_dated() -> None:
    for entries in ENTRIES.values():
        for entry in entries:
            assert entry.doc, f"{entry.spelling} has no docstring"
            assert entry.spelling.startswith(entry.root)
            assert (1, 0) <= entry.since <= (9, 9) and 10 <= entry.sm <= 121, entry.spelling


def test_the_workload_is_known() -> None:
    opcodes = ["fma.rn.f16x2", "cvt.rn.satfinite.e4m3x2.f16x2", "mul.wide.s32", "selp.f32", "setp.lt.u32", "prmt.b32", "bfi.b32", "shr.u64"]
    assert [o for o in opcodes if form_of(o) is None] == []
