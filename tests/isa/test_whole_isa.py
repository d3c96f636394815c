"""Every declaration against ptxas: a few spellings that hold every word of it assemble for the first target and PTX version that the table
names, and for none before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from assembler import TARGETS_SINCE, VERSIONS, needs_ptxas, refused, targets, version
from samples import spellings, statement

from ptxgraft.isa import ENTRIES, Entry, Form, form_of

REMOVED = {"shfl": "shfl without .sync", "vote": "vote without .sync"}
"""What no target of a recent ptxas has: roots whose declarations without ``sync`` cannot be tried."""

OLD = "legacy"
"""The family of spellings that ptxas takes from old versions alone."""


@dataclass(frozen=True, slots=True)
class Case:
    """One spelling of a declaration, with the statements to try: with all its optional operands and without."""

    entry: Entry
    form: Form
    statements: tuple[str, str]

    @property
    def target(self) -> str:
        """The oldest target of the ptxas found that has the form, by the table."""
        return next(t for t in targets() if int(t.rstrip("af")) >= self.form.sm and t.lstrip("0123456789") == self.entry.specific)

    @property
    def name(self) -> str:
        return f"{self.entry.family}: {self.form.opcode}"


def entries() -> list[Entry]:
    return [entry for rows in ENTRIES.values() for entry in rows]


def _tried(entry: Entry) -> bool:
    if entry.root in REMOVED and "sync" not in entry.spelling.split("."):
        return False
    return entry.family != OLD and entry.control not in ("call", "indirect-branch")


@cache
def chosen() -> list[tuple[Entry, str, dict[str, str]]]:
    return [(entry, opcode, slots) for entry in entries() for opcode, slots in spellings(entry)]


def _signature(form: Form) -> tuple[tuple[str, int, bool], ...]:
    return tuple((role.kind, role.count, role.type is not None and role.type.kind == "p") for role in form.roles)


@cache
def cases() -> list[Case]:
    """What this ptxas can be asked about. Spellings that an earlier declaration takes with all operands are its own."""
    found = []
    for entry, opcode, slots in chosen():
        first = form_of(opcode)
        forms = {_signature(f): f for f in reversed((first, *first.others))} if first is not None else {}
        form = next((f for f in forms.values() if f.entry is entry), None)
        if form is not None and _tried(entry) and form.since <= version():
            found.append(Case(entry, form, (statement(opcode, entry, slots), statement(opcode, entry, slots, optional=False))))
    return found


def judged(groups: Iterable[tuple[tuple[str, tuple[int, int]], list[Case]]], folder: Path) -> tuple[list[Case], dict[str, str]]:
    """The cases that ptxas takes, with or without optional operands, and its messages about the others by opcode."""
    taken, messages = [], {}
    for (target, ptx), group in groups:
        errors = refused([text for case in group for text in case.statements], target, folder, ptx)
        for i, case in enumerate(group):
            if {2 * i, 2 * i + 1} <= errors.keys():
                messages[case.name] = f"sm_{target}, PTX {ptx[0]}.{ptx[1]}: {case.statements[1]} {errors[2 * i + 1]}"
            else:
                taken.append(case)
    return taken, messages


def grouped(keyed: Iterable[tuple[tuple[str, tuple[int, int]], Case]]) -> list[tuple[tuple[str, tuple[int, int]], list[Case]]]:
    groups: dict[tuple[str, tuple[int, int]], list[Case]] = defaultdict(list)
    for key, case in keyed:
        groups[key].append(case)
    return list(groups.items())


def test_every_word_of_a_declaration_can_be_used() -> None:
    """A word that no legal spelling has is a mistake in the declaration."""
    used: dict[int, set[str]] = defaultdict(set)
    for entry, opcode, _ in chosen():
        used[id(entry)] |= set(opcode.split("."))
    idle = [f"{e.spelling}: {word}" for e in entries() for slot in e.slots for word in slot.choices if word not in used[id(e)]]
    # Refused by the declaration itself, so that other tests can see ptxas refuse it too.
    idle = [row for row in idle if not (row.startswith("cvt.") and "bf16" in row and row.endswith(": sat"))]
    assert not idle, "\n".join(idle)


def test_the_table_knows_its_own_spellings() -> None:
    unknown = [opcode for _, opcode, _ in chosen() if form_of(opcode) is None]
    assert not unknown, "\n".join(unknown)


DISAGREEMENTS = {
    "st.bulk": "the manual has sizes of 32 bits from PTX 9.0 on, the ptxas of 13.0 refuses them, later ones take them",
}


@needs_ptxas
def test_every_declaration_assembles(tmp_path: Path) -> None:
    taken, messages = judged(grouped(((case.target, version()), case) for case in cases()), tmp_path)
    wrong = [message for name, message in messages.items() if name.partition(": ")[2] not in DISAGREEMENTS]
    assert not wrong, f"{len(wrong)} spellings refused\n" + "\n".join(wrong[:60])
    assert len(taken) > 4000
    reached = {id(case.entry) for case in taken}
    missing = [e.spelling for e in entries() if _tried(e) and e.since <= version() and id(e) not in reached]
    assert set(missing) <= {"st.bulk.{sem:weak}?.{space:shared::cta}?"}, "\n".join(missing)


@needs_ptxas
def test_older_targets_refuse(tmp_path: Path) -> None:
    """The target named is the first one."""
    older = []
    for case in cases():
        before = [t for t in targets() if int(t.rstrip("af")) < case.form.sm and (t[-1].isdigit() or case.entry.specific)]
        older += [((t, version()), case) for t in before[-2:] if case.form.opcode.count("kind::f8f6f4") == 0]
    taken, _ = judged(grouped(older), tmp_path)
    names = {case.name for case in taken}
    # One declaration has all conversions to bf16, of which ptxas takes those from f32 for older targets.
    # The ptxas of 13.0 takes one-sided fences for every target, against the manual.
    shared = {name for name in names if name.endswith(".bf16.f32") or name.startswith("barrier: fence.")}
    assert names == shared, "\n".join(sorted(names - shared))


@needs_ptxas
def test_older_versions_refuse(tmp_path: Path) -> None:
    """The PTX version named is the first one, and takes it."""
    before, at = [], []
    for case in cases():
        first = TARGETS_SINCE[case.target]
        earlier = [v for v in VERSIONS if first <= v < case.form.since]
        before += [((case.target, earlier[-1]), case)] if earlier else []
        at.append(((case.target, max(case.form.since, first)), case))
    taken, _ = judged(grouped(before), tmp_path)
    # ptxas takes ::cta with cp.async from the beginning.
    names = {case.name for case in taken if not case.form.opcode.startswith(("cp.async.c", "fence."))}
    assert names <= {"remote: st.bulk.weak", "remote: st.bulk.shared::cta", "remote: st.bulk"}, "\n".join(sorted(names))
    _, messages = judged(grouped(at), tmp_path)
    # A product with factors says how many; left out it is a word that came later.
    wrong = [m for m in messages.values() if ".block32' requires" not in m and ": st.bulk " not in m]
    assert not wrong, "\n".join(wrong[:40])


def test_no_declaration_is_left_out() -> None:
    """What cannot be tried is named here, so that it does not grow unseen."""
    untried = {entry.root for entry in entries() if not _tried(entry)}
    assert untried == {*REMOVED, "call", "brx"} | {entry.root for entry in entries() if entry.family == OLD}


@pytest.mark.parametrize(
    "root", ["wgmma", "tcgen05", "mbarrier", "multimem", "tensormap", "clusterlaunchcontrol", "istypep", "alloca", "mapa"]
)
def test_roots_of_later_generations(root: str) -> None:
    assert ENTRIES[root]
