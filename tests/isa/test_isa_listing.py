"""The generated page of instructions is what the declarations say now."""

from __future__ import annotations

from pathlib import Path

import ptxgraft
from ptxgraft.isa import ENTRIES, listing

PAGE = Path(ptxgraft.__file__).parents[2] / "docs" / "instructions.md"


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text() == listing.page(), "run: python -m ptxgraft.isa.listing docs/instructions.md"


def test_every_declaration_has_a_row() -> None:
    rows = [line for line in listing.page().splitlines() if line.startswith("| `")]
    assert len(rows) == sum(len(entries) for entries in ENTRIES.values())


def test_spelling_and_operands() -> None:
    entries = {listing.spelling(e): listing.operands(e) for rows in ENTRIES.values() for e in rows}
    assert entries["add{.rn .rz .rm .rp}{.ftz}{.sat}.f32"] == "d, a, b"
    assert entries["addc.cc.(u32 s32 u64 s64)"] == "d, a, b"
    assert entries["setp.(eq ne).(b16 b32 b64)"] == "p{\\|q}, a, b"


def test_gaps_are_named() -> None:
    """A declaration without a meaning that no engine handles is a gap, and says no in the engines' columns."""
    rows = dict(line[3:].split("` | ", 1) for line in listing.page().splitlines() if line.startswith("| `"))
    for entries in ENTRIES.values():
        for entry in entries:
            runs = "yes" if entry.meaning else "engine" if entry.control else "no"
            assert f"| yes | yes | {runs} | {runs} |" in rows[listing.spelling(entry)]
