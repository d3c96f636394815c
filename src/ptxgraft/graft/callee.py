"""The identity callee: a region as a function of the module, which is what a cut with a call is tested with.

Invariant: the function holds the region's statements under the region's register names; only what it takes from the entry by name (arguments,
addresses of arrays) is exchanged for its parameters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ptxgraft.graft.carry import Scratch, from_param, store_row
from ptxgraft.graft.excerpt import Excerpt, Rendered
from ptxgraft.graft.inline import fresh_labels
from ptxgraft.graft.interface import Interface, address_text, uses_variables
from ptxgraft.graft.rows import lane_row
from ptxgraft.isa import Register
from ptxgraft.text import FreshNames, is_number

_RANGE = re.compile(r"%[A-Za-z]")
"""Bases that a range is made of; ptxas takes none without a letter."""


def identity_callee(piece: Excerpt, face: Interface, callee: str, fresh: FreshNames, exchanged: Mapping[int, str]) -> Rendered:
    """The region as a function: parameters loaded into registers of the region's own names, its statements, its live-outs returned or stored.
    ``exchanged``: other texts for some of its statements, by index."""
    scratch = Scratch(fresh)
    head: list[str] = []
    parameter = {id(p): f"{callee}_{p.name}" for p in face.passed}
    values: dict[int, str] = {}
    for passed in face.passed:
        if passed.kind == "register" and passed.register is not None and passed.register.type.width in (32, 64):
            head.append(f"ld.param.{passed.type} {passed.register.name}, [{parameter[id(passed)]}];")
            continue
        values[id(passed)] = value = scratch.register(passed.type)
        head.append(f"ld.param.{passed.type} {value}, [{parameter[id(passed)]}];")
        if passed.kind == "register" and passed.register is not None:
            head += from_param(passed.register.name, passed.register.type, value, scratch)
    replaced = _argument_loads(piece, face, values, scratch)
    replaced |= _address_statements(piece, face, values, head, scratch) | dict(exchanged)
    labels, places = fresh_labels(piece, fresh)
    tail = [f"{places['end']}:"] if "end" in places else []
    back = [(r, w) for r, w in face.live_out if r.id not in face.remade]
    rows = next((p for p in face.passed if p.kind == "row"), None)
    if rows is not None:
        row = scratch.register("b32")
        tail += lane_row(values[id(rows)], row, face.words, scratch)
        tail += store_row(back, "shared", row, scratch, face.row_words)
    elif face.returned is not None and back:
        tail += face.returned.stores(back, f"{callee}_result", scratch)
    tail.append("ret;")
    out = Rendered(piece.document)
    first, last = piece.first.start, piece.last.end - 1
    declared = [*register_lines(piece.registers.values()), *scratch.declarations()]
    out.write(face.declaration(callee) + "\n{\n", first)
    out.write("".join(f"\t{line}\n" for line in [*declared, *head]), first)
    if "start" in places:
        out.write(f"{places['start']}:\n", first)
    out.write("\t", first)
    body = piece.render(labels, replaced)
    out.append(body)
    out.write("\n" + "".join(f"\t{line}\n" for line in tail) + "}", last)
    return out


def register_lines(registers: Iterable[Register]) -> list[str]:
    """``.reg`` directives that declare registers under their own names: ranges where most names of a base and a number are used, and a sigil keeps
    the others apart from labels, arrays and functions."""
    groups: dict[tuple[str, str], list[str]] = {}
    bases: dict[str, set[str]] = {}
    for register in registers:
        base = register.name.rstrip("0123456789")
        digits = register.name[len(base) :]
        numbered = is_number(digits) and _RANGE.match(base) is not None
        groups.setdefault((base if numbered else "", register.type.name), []).append(register.name)
        if numbered:
            bases.setdefault(base, set()).add(register.type.name)
    lines: list[str] = []
    for (base, type_name), names in groups.items():
        highest = max((int(n[len(base) :]) for n in names), default=0) if base else 0
        # One base of two types, or a few high numbers: named one by one.
        if base and len(bases[base]) == 1 and (len(names) * 8 > highest or highest < 64):
            lines.append(f".reg .{type_name} {base}<{highest + 1}>;")
        else:
            lines += [f".reg .{type_name} {', '.join(names[i : i + 8])};" for i in range(0, len(names), 8)]
    return lines


def _argument_loads(piece: Excerpt, face: Interface, values: dict[int, str], scratch: Scratch) -> dict[int, str]:
    """Loads from the argument block as moves of parameters."""
    replaced: dict[int, str] = {}
    for index, pairs in face.loads.items():
        guard = piece.document.statements[index].guard
        lines: list[str] = []
        for name, passed in pairs:
            assert passed.register is not None
            lines += from_param(name, passed.register.type, values[id(passed)], scratch)
        replaced[index] = "\n\t".join(f"@{guard} {line}" if guard else line for line in lines)
    return replaced


def _address_statements(piece: Excerpt, face: Interface, values: dict[int, str], head: list[str], scratch: Scratch) -> dict[int, str]:
    """Statements that name the entry's arrays, with registers in the names' places; their values are set in ``head``."""
    addresses = face.addresses
    wanted = [s for s in piece.statements() if uses_variables(piece, s)]
    registers: dict[tuple[str, int, int], str] = {}
    for statement in wanted:
        address_text(piece, statement, registers)
    for (name, offset, width), _ in list(registers.items()):
        passed = addresses[name]
        value = values[id(passed)]
        if passed.type != f"b{width}":
            wide = scratch.register(f"b{width}")
            head.append(f"cvt.u{width}.{passed.type.replace('b', 'u')} {wide}, {value};")
            value = wide
        if offset:
            moved = scratch.register(f"b{width}")
            head.append(f"add.u{width} {moved}, {value}, {offset};")
            value = moved
        registers[name, offset, width] = value
    return {s.index: address_text(piece, s, registers) for s in wanted}
