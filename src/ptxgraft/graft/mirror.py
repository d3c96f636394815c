"""The mirror style: one call of a function without results; live-ins go as parameters, live-outs come back through shared memory.

Invariant: word i of lane L of a warp is at ``rows + L*4*n + 4*i``, and no two warps of a block share a row; what the callee stores is what
the cut reads, in the order of the ABI.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.graft.carry import Scratch, from_param, load_words, store_words, to_param
from ptxgraft.graft.excerpt import Excerpt, Rendered
from ptxgraft.graft.inline import fresh_labels
from ptxgraft.graft.interface import Interface, Passed, address_text, uses_variables
from ptxgraft.graft.shared_base import check_limit, dead_array, warps_of_block
from ptxgraft.isa import align_up
from ptxgraft.text import FreshNames, is_number

DYNAMIC_STEP = 1024
"""The dynamic array moves up by a multiple of this many bytes: kernels swizzle by the low bits of its address."""


@dataclass(slots=True)
class Rows:
    """Where results lie: an array's name, whether it is new (``declaration`` not empty), and how many warps it serves."""

    array: str
    declaration: str
    warps: int
    note: str


def choose_rows(piece: Excerpt, words: int, block: tuple[int, int, int] | None, fresh: FreshNames) -> Rows | None:
    """The array for the results, None when there are none. Errors as ``warps_of_block`` and ``check_limit``."""
    if not words:
        return None
    warps, how = warps_of_block(piece.flow, block)
    size = warps * 32 * 4 * words
    found = dead_array(piece.flow, piece.region, size)
    if found is not None:
        note = f"results come back through {found.name} ({size} of its {found.size} bytes), which is dead from the cut on"
        return Rows(found.name, "", warps, note)
    if any(v.dynamic for v in piece.program.variables):
        size = align_up(size, DYNAMIC_STEP)
    check_limit(piece.program, size)
    name = fresh.name("mirror")
    note = f"results come back through {name}, {size} new bytes of shared memory for {warps} warps ({how})"
    if how == "the block given":
        note += f"; a launch with more than {warps} warps a block would run past it"
    return Rows(name, f".shared .align 16 .b8 {name}[{size}];", warps, note)


def call_text(piece: Excerpt, face: Interface, callee: str, rows: Rows | None, fresh: FreshNames) -> str:
    """What stands in the region's place: the row's address, the parameters, the call, the results."""
    scratch = Scratch(fresh)
    lines: list[str] = []
    base = row = ""
    if rows is not None:
        base, row = scratch.register("b32"), scratch.register("b32")
        lines += row_lines(rows.array, base, row, face.words, scratch)
    values = [_value(piece, p, base, scratch) for p in face.passed]
    names = [fresh.name(f"p{i}") for i in range(len(values))]
    for before, _ in values:
        lines += before
    lines.append("{")
    for passed, name, (_, value) in zip(face.passed, names, values, strict=True):
        lines += [f".param .{passed.type} {name};", f"st.param.{passed.type} [{name}], {value};"]
    lines += [f"call.uni {callee}, ({', '.join(names)});" if names else f"call.uni {callee};", "}"]
    for register, word in face.live_out:
        lines += load_words(register.name, register.type, row, 4 * word, "shared", scratch)
    hoisted = [piece.document.source(s) for s in piece.hoisted()]
    return "\n".join([*hoisted, "{", *("\t" + line for line in [*scratch.declarations(), *lines]), "}"])


def row_lines(array: str, base: str, row: str, words: int, scratch: Scratch) -> list[str]:
    """Statements that set ``base`` to the warp's area of an array and ``row`` to the lane's row in it, for any block shape."""
    x, y, z, extent = (scratch.register("b32") for _ in range(4))
    return [
        f"mov.u32 {z}, %tid.z;",
        f"mov.u32 {extent}, %ntid.y;",
        f"mov.u32 {y}, %tid.y;",
        f"mad.lo.u32 {y}, {z}, {extent}, {y};",
        f"mov.u32 {extent}, %ntid.x;",
        f"mov.u32 {x}, %tid.x;",
        f"mad.lo.u32 {x}, {y}, {extent}, {x};",
        f"shr.u32 {x}, {x}, 5;",
        f"mov.u32 {y}, {array};",
        f"mad.lo.u32 {base}, {x}, {128 * words}, {y};",
        *lane_row(base, row, words, scratch),
    ]


def lane_row(base: str, row: str, words: int, scratch: Scratch) -> list[str]:
    """Statements that set ``row`` to the lane's row of a warp's area."""
    lane = scratch.register("b32")
    return [f"mov.u32 {lane}, %laneid;", f"mad.lo.u32 {row}, {lane}, {4 * words}, {base};"]


def _value(piece: Excerpt, passed: Passed, base: str, scratch: Scratch) -> tuple[list[str], str]:
    """(statements, register) that give a parameter's value at the call."""
    if passed.kind == "row":
        return [], base
    if passed.kind == "address":
        assert passed.variable is not None
        value = scratch.register(passed.type)
        return [f"mov.{passed.type.replace('b', 'u')} {value}, {passed.variable.name};"], value
    assert passed.register is not None
    if passed.kind == "register":
        return to_param(passed.register.name, passed.register.type, scratch)
    loaded = scratch.register(passed.register.type.name)
    before, value = to_param(loaded, passed.register.type, scratch)
    return [passed.load.format(loaded), *before], value


def identity_callee(piece: Excerpt, face: Interface, callee: str, fresh: FreshNames) -> Rendered:
    """The region as a function: parameters loaded into registers of the region's own names, its statements, its live-outs stored."""
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
    replaced |= _address_statements(piece, face, values, head, scratch)
    labels, places = fresh_labels(piece, fresh)
    tail = [f"{places['end']}:"] if "end" in places else []
    rows = next((p for p in face.passed if p.kind == "row"), None)
    if rows is not None:
        row = scratch.register("b32")
        tail += lane_row(values[id(rows)], row, face.words, scratch)
        for register, word in face.live_out:
            tail += store_words(register.name, register.type, row, 4 * word, "shared", scratch)
    tail.append("ret;")
    out = Rendered(piece.document)
    first, last = piece.first.start, piece.last.end - 1
    declared = [*register_lines(piece), *scratch.declarations()]
    out.write(face.declaration(callee) + "\n{\n", first)
    out.write("".join(f"\t{line}\n" for line in [*declared, *head]), first)
    if "start" in places:
        out.write(f"{places['start']}:\n", first)
    out.write("\t", first)
    body = piece.render(labels, replaced)
    out.append(body)
    out.write("\n" + "".join(f"\t{line}\n" for line in tail) + "}", last)
    return out


def register_lines(piece: Excerpt) -> list[str]:
    """``.reg`` directives that declare the region's registers under their own names: ranges where names are a base and a number."""
    groups: dict[tuple[str, str], list[str]] = {}
    bases: dict[str, set[str]] = {}
    for register in piece.registers.values():
        base = register.name.rstrip("0123456789")
        digits = register.name[len(base) :]
        numbered = is_number(digits)
        groups.setdefault((base if numbered else "", register.type.name), []).append(register.name)
        if numbered:
            bases.setdefault(base, set()).add(register.type.name)
    lines: list[str] = []
    for (base, type_name), names in groups.items():
        highest = max((int(n[len(base) :]) for n in names), default=0) if base else 0
        # One base of two types, or a few high numbers: named one by one.
        if base and len(bases[base]) == 1 and (len(names) > 8 or highest < 64):
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
