"""What is said of bits that are not confirmed: of the instructions whose bits depend on the profile, and of no others."""

from __future__ import annotations

import pytest

from ptxgraft.isa import ENTRIES, bind, form_of
from ptxgraft.isa.certainty import UNCONFIRMED, source_of, unconfirmed
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.text import Document

F16 = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
SPARSE = "mma.sp.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"
INTEGER = "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32"


@pytest.mark.parametrize(
    ("opcode", "profile", "source"),
    [
        (F16, "sm_90", "confirmed"),
        (F16, "sm_80", "literature"),
        (F16, "manual", "defined"),
        (F16, "sm_75", ""),  # it has no such instruction: running it is what refuses it
        (SPARSE, "sm_90", "confirmed"),
        (SPARSE, "sm_89", "assumed"),
        (INTEGER, "sm_80", ""),  # exact wherever it is
        ("wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32", "sm_80", "literature"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e4m3.e2m1.f32", "sm_120", "literature"),
        ("mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e2m3.e2m1.f32", "sm_120", "assumed"),
        ("ex2.approx.ftz.f32", "sm_90", "confirmed"),
        ("ex2.approx.ftz.f32", "sm_100", "assumed"),
        ("ex2.approx.ftz.f32", "manual", "defined"),
        ("sqrt.rn.f32", "sm_80", ""),
        ("cvt.rn.f16.f32", "sm_120", ""),
    ],
)
def test_source_of_an_instruction(opcode: str, profile: str, source: str) -> None:
    assert form_of(opcode) is not None
    assert source_of(opcode, profile) == source


def test_every_approximate_function_depends_on_the_profile() -> None:
    roots = {entry.slots[0].choices[0] for entries in ENTRIES.values() for entry in entries if entry.family == "approximate"}
    assert roots == {"rcp", "rsqrt", "sqrt", "lg2", "ex2", "sin", "cos", "tanh", "div"}
    for profile, found in PROFILES.items():
        assert source_of("tanh.approx.bf16x2", profile) == found.functions
    assert {p.functions for p in PROFILES.values()} == {"confirmed", "assumed", "defined"}


def program(*statements: str):
    body = "\n".join(f"\t{s};" for s in statements)
    registers = "\t.reg .f32 %f<12>;\n\t.reg .b32 %r<12>;"
    return bind(
        Document.parse(f".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k()\n{{\n{registers}\n{body}\n\tret;\n}}\n"), "k"
    )


MMA = F16 + " {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f4, %f5, %f6, %f7}"
MMA_SP = SPARSE + " {%f0, %f1, %f2, %f3}, {%r0, %r1, %r2, %r3}, {%r4, %r5, %r6, %r7}, {%f4, %f5, %f6, %f7}, %r8, 0x0"


def test_programs() -> None:
    plain = program("add.f32 %f0, %f1, %f2")
    assert all(unconfirmed(plain, profile) == [] for profile in PROFILES)
    used = program(MMA, "ex2.approx.ftz.f32 %f0, %f1", "sin.approx.f32 %f0, %f1", MMA, MMA_SP)
    assert unconfirmed(used, "sm_90") == unconfirmed(used, "manual") == []
    assert unconfirmed(used, "sm_80") == [
        ("literature", f"profile sm_80: the bits of {F16} are the literature's, not confirmed on such a GPU"),
        ("assumed", f"profile sm_80: the bits of {SPARSE} are assumed by analogy, not confirmed on such a GPU"),
        (
            "assumed",
            "profile sm_80: the bits of ex2.approx.ftz.f32 and 1 more instruction are assumed to be those of sm_90, not confirmed on such a GPU",
        ),
    ]
    assert {source for source, _ in unconfirmed(used, "sm_80")} == set(UNCONFIRMED)
