"""The instruction table as a page: every declaration, and what each part of the product does with it.

Invariant: the page says only what the declarations say, so that it can be made again from them at any time; a declaration without a
meaning is a visible gap. ``python -m ptxgraft.isa.listing`` prints it, ``python -m ptxgraft.isa.listing FILE`` writes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from ptxgraft.isa import ENTRIES, Entry
from ptxgraft.isa.table import Slot, resolve_roles

COLUMNS = ("check", "flow", "numpy", "warp")
"""What a declaration serves: the check of a module, data flow, and the two CPU engines."""

_HEAD = """# Instructions

Made by `python -m ptxgraft.isa.listing docs/instructions.md` from the declarations under `src/ptxgraft/isa/families`; do not edit.

How to read a spelling: `.x` stands as it is, `.(a b)` is one of the words, `{.a .b}` is one of the words or nothing. Flags may also be written in
another order. Not every combination is legal: the declaration's `legal` says which. Version and target are those of the declaration; a word
may ask for later ones (`isa/requirements.py`, `needs`). A target with an `a` is that one alone, with an `f` its family.

What was checked: a few spellings of every declaration that hold all its words, against ptxas: accepted for the version and target named, refused for the ones before
(`tests/isa/test_whole_isa.py`). The table goes as far as the ptxas of release 13.5 (V13.5.37), which takes PTX 9.5. When that was new to the table it accepted
all 5,739 spellings tried, 1,018 of them of PTX 9.3 to 9.5; `PTXGRAFT_PTXAS` asks it, or another one, again.

How to read a column. `check`: spelling, operands, version and target are known. `flow`: what is read and written, in registers and memory, is known, so that analysis,
cuts and probes work. `numpy`, `warp`: `yes`, the engine runs the instruction's meaning; `engine`: control flow or a barrier, which the engine does itself; `no`: it is refused by
name. `tests/conformance` holds every row to it: what says `yes` or `engine` does the same on both engines, what says `no` is bound, analysed and refused.
"""


def spelling(entry: Entry) -> str:
    """The entry's spelling in the manual's manner."""
    return entry.root + "".join(_slot(slot) for slot in entry.slots[1:])


def _slot(slot: Slot) -> str:
    if slot.optional:
        return "{" + " ".join(f".{word}" for word in slot.choices) + "}"
    return f".{slot.choices[0]}" if len(slot.choices) == 1 else f".({' '.join(slot.choices)})"


def operands(entry: Entry) -> str:
    """The operands as one writes them: ``d, a, b``; ``d|p`` for pairs, ``[a]`` for addresses; implicit ones are left out, and those that flags
    ask for are in braces as optional ones are."""
    plain = {slot.name: "" if slot.optional else slot.choices[0] for slot in entry.slots if slot.name}
    always = {role.name for role in resolve_roles(entry, plain) if not role.optional}
    written = ""
    for name, text in entry.roles:
        words = text.split()
        if "implicit" in words:
            continue
        shown = f"[{name}]" if words[0] in ("addr", "resource") else name
        separator = ("\\|" if "|" in text else ", ") if written else ""
        part = f"{separator}{shown}"
        written += f"{{{part}}}" if name not in always else part
    return written


def support(entry: Entry, column: str) -> str:
    """``yes``, ``engine`` or ``no``. A declaration says roles and effects; whether it has a meaning is the same for every engine, since engines run meanings."""
    if entry.meaning is not None or column in ("check", "flow"):
        return "yes"
    return "engine" if entry.control else "no"


def _first_sentence(doc: str) -> str:
    line = " ".join(doc.split("\n\n")[0].split())
    return line.replace("|", "\\|")


def _families() -> dict[str, list[Entry]]:
    found: dict[str, list[Entry]] = {}
    for entries in ENTRIES.values():
        for entry in entries:
            found.setdefault(entry.family, []).append(entry)
    return {family: found[family] for family in sorted(found)}


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> Iterator[str]:
    head = list(head)
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def page() -> str:
    """The whole page, as Markdown."""
    families = _families()
    lines = [_HEAD]
    counts = []
    for family, entries in families.items():
        states = [support(e, "warp") for e in entries]
        counts.append([f"[{family}](#{family})", str(len(entries)), *(str(states.count(s)) for s in ("yes", "engine", "no"))])
    lines += _table(("family", "declarations", "yes", "engine", "no"), counts)
    for family, entries in families.items():
        lines += ["", f"## {family}", ""]
        rows = []
        for entry in entries:
            since = f"{entry.since[0]}.{entry.since[1]}"
            columns = [support(entry, column) for column in COLUMNS]
            rows.append(
                [f"`{spelling(entry)}`", operands(entry), since, f"{entry.sm}{entry.specific}", *columns, _first_sentence(entry.doc)]
            )
        lines += _table(("instruction", "operands", "PTX", "sm", *COLUMNS, "meaning"), rows)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    if arguments:
        Path(arguments[0]).write_text(page())
    else:
        sys.stdout.write(page())


if __name__ == "__main__":
    main(sys.argv[1:])
