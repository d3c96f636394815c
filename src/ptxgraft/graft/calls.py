"""The call that stands in a region's place: style ``mirror`` (live-outs come back through shared memory) and style ``call`` (they are returned).

Invariant: what is passed, in which order, is the cut's interface; what the callee gives back is what the cut reads, in the order of the ABI.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.graft.carry import Scratch, load_row, to_param
from ptxgraft.graft.excerpt import Excerpt
from ptxgraft.graft.interface import Interface, Passed
from ptxgraft.graft.rows import Rows, row_lines
from ptxgraft.text import FreshNames


def call_text(piece: Excerpt, face: Interface, callee: str, rows: Rows | None, fresh: FreshNames, parameters: Sequence[str]) -> str:
    """What stands in the region's place: the row's address where there is one, the parameters (under names that nothing else in the module
    has, at least as many as there are), the call, the results."""
    scratch = Scratch(fresh)
    lines: list[str] = []
    base = row = ""
    if rows is not None:
        base, row = scratch.register("b32"), scratch.register("b32")
        lines += row_lines(rows, base, row, face.words, scratch)
    values = [_value(p, base, scratch) for p in face.passed]
    for before, _ in values:
        lines += before
    names = list(parameters[: len(values)])
    result = fresh.name("result") if face.returned is not None else ""
    lines.append("{")
    if face.returned is not None:
        lines.append(f"{face.returned.declared(result)};")
    for passed, name, (_, value) in zip(face.passed, names, values, strict=True):
        lines += [f".param .{passed.type} {name};", f"st.param.{passed.type} [{name}], {value};"]
    lines.append(call_statement(callee, names, result))
    back = [(r, w) for r, w in face.live_out if r.id not in face.remade]
    if face.returned is not None and back:
        lines += face.returned.loads(back, result, scratch)
    lines.append("}")
    if rows is not None:
        lines += load_row(back, "shared", row, scratch, face.row_words)
    lines += face.remade.values()
    hoisted = [piece.document.source(s) for s in piece.hoisted()]
    return "\n".join([*hoisted, "{", *("\t" + line for line in [*scratch.declarations(), *lines]), "}"])


def call_statement(callee: str, names: Sequence[str], result: str = "") -> str:
    """The call of ``callee`` with parameters of these names."""
    back = f"({result}), " if result else ""
    return f"call.uni {back}{callee}, ({', '.join(names)});" if names or result else f"call.uni {callee};"


def _value(passed: Passed, base: str, scratch: Scratch) -> tuple[list[str], str]:
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
