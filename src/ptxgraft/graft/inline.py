"""The inline style: a block in the region's place, fed from and writing to the live registers directly.

Invariant: no call is made and nothing outside the region changes; the identity block holds the region's own bytes but for the names of
registers that live in it alone.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.graft.excerpt import NAME, Excerpt, indented
from ptxgraft.isa import Register
from ptxgraft.text import EditScript, FreshNames


def fresh_registers(own: list[Register], fresh: FreshNames) -> tuple[dict[str, str], list[str]]:
    """New names for registers, one range for each type: (old name to new, ``.reg`` directives)."""
    groups: dict[str, list[Register]] = {}
    for register in own:
        groups.setdefault(register.type.name, []).append(register)
    renamed: dict[str, str] = {}
    declarations: list[str] = []
    for type_name, registers in groups.items():
        base = fresh.block(f"%{type_name}_")
        renamed |= {r.name: f"{base}{i}" for i, r in enumerate(registers)}
        declarations.append(f".reg .{type_name} {base}<{len(registers)}>;")
    return renamed, declarations


def fresh_labels(piece: Excerpt, fresh: FreshNames) -> tuple[dict[str, str], dict[str, str]]:
    """Labels of a block's own for branches to its top and its end: (old label to new, ``start``/``end`` to new)."""
    places = {place: fresh.name("$" + place) for place in sorted(set(piece.labels.values()))}
    return {label: places[place] for label, place in piece.labels.items()}, places


def write_identity(script: EditScript, piece: Excerpt, fresh: FreshNames, replaced: Mapping[int, str]) -> dict[str, str]:
    """Edit the region into a block of its own statements; returns old register name to new."""
    renamed, declarations = fresh_registers(piece.own, fresh)
    labels, places = fresh_labels(piece, fresh)
    names = renamed | labels
    document = piece.document
    hoisted = piece.hoisted()
    head = [document.source(s) for s in hoisted]
    head += ["{", *("\t" + d for d in declarations)]
    if "start" in places:
        head.append(f"{places['start']}:")
    script.insert_before(piece.first, indented(document, piece.first, "\n".join(head)))
    whole = [(s.start, s.end, "") for s in hoisted]
    whole += [(s.start, s.end, renamed_text(replaced[s.index], names)) for s in piece.statements() if s.index in replaced]
    script.replace_spans(sorted([*whole, *piece.renamings(names, replaced)]))
    tail = [f"{places['end']}:"] if "end" in places else []
    script.insert_after(piece.last, indented(document, piece.last, "\n".join([*tail, "}"])))
    return renamed


def renamed_text(text: str, names: Mapping[str, str]) -> str:
    """A statement that stands in no document, with names exchanged."""
    return NAME.sub(lambda m: names.get(m.group(), m.group()), text)


def write_text(script: EditScript, piece: Excerpt, text: str) -> None:
    """Edit the region into a block with a text of the caller's inside."""
    hoisted = [piece.document.source(s) for s in piece.hoisted()]
    inside = "\n".join("\t" + line.strip() if line.strip() else "" for line in text.strip("\n").splitlines())
    script.replace(piece.first, piece.last, indented(piece.document, piece.first, "\n".join([*hoisted, "{", inside, "}"])))
