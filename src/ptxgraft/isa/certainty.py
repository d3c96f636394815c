"""How well the bits of an instruction are known on a numerics profile, and how a program is told about what is not confirmed there.

Invariant: only instructions whose bits depend on the profile are spoken of: sums of floats on tensor cores, and approximate functions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.numerics import PROFILES, MmaPlan
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.program import Program
from ptxgraft.isa.table import Form, form_of

UNCONFIRMED = ("literature", "assumed")
"""The ways of knowing bits that are worth a word."""

_EXACT_KINDS = ("int", "bit")


class _Listener:
    """An instance of ``Lanes`` that computes nothing and remembers the plans it is asked to multiply by."""

    def __init__(self, profile: str) -> None:
        self.profile = profile
        self.plans: list[MmaPlan] = []

    def mma(self, plan: MmaPlan, a: Any, b: Any, c: Any, metadata: Any = None, scales: Any = ()) -> tuple[None, ...]:
        self.plans.append(plan)
        return (None,) * 8

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *operands, **options: None


@cache
def source_of(opcode: str, profile: str) -> str:
    """How the bits of an instruction are known: ``confirmed``, ``literature``, ``assumed`` or ``defined`` (see ``numerics.Profile``); '' where they do not depend on
    the profile, or the profile has no such instruction."""
    form = form_of(opcode)
    if form is None or form.meaning is None:
        return ""
    if form.family == "approximate":
        return PROFILES[profile].functions
    return _source_of_product(form, profile) if form.tensor else ""


def _source_of_product(form: Form, profile: str) -> str:
    listener = _Listener(profile)
    operands = [Imm("int", 0) if r.kind == "text" else (None,) * r.count if r.count > 1 else None for r in form.roles if r.kind != "out"]
    assert form.meaning is not None
    try:
        form.meaning(listener, *operands, **form.options)
    except UnsupportedError:
        return ""  # running it is what refuses it
    sources = {plan.source for plan in listener.plans if plan.kind not in _EXACT_KINDS}
    return next((s for s in ("assumed", "literature") if s in sources), next(iter(sources), ""))


def unconfirmed(program: Program, profile: str) -> list[tuple[str, str]]:
    """What a program uses whose bits are not confirmed on ``profile``: how they are known instead, and a sentence that names instructions."""
    found = PROFILES[profile]
    if found.source not in UNCONFIRMED and found.functions not in UNCONFIRMED:
        return []
    opcodes = dict.fromkeys(i.form.opcode for i in program.instructions if i.form is not None)
    functions = {o for o in opcodes if (form := form_of(o)) is not None and form.family == "approximate"}
    sentences = []
    for source, among, text in (
        ("literature", opcodes.keys(), "the literature's"),
        ("assumed", opcodes.keys() - functions, "assumed by analogy"),
        ("assumed", functions, "assumed to be those of sm_90"),
    ):
        those = [o for o in opcodes if o in among and source_of(o, profile) == source]
        if those:
            more = f" and {len(those) - 1} more instruction{'s' if len(those) > 2 else ''}" if len(those) > 1 else ""
            sentences.append((source, f"profile {profile}: the bits of {those[0]}{more} are {text}, not confirmed on such a GPU"))
    return sentences
