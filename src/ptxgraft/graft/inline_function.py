"""A function's body in a region's place, without a call: its parameters bound to the live-ins, its results to the live-outs.

Invariant: the function's own names stay in a block of their own, so that they cannot meet the entry's; only loads of its parameters, stores
of its results and its returns are rewritten.
"""

from __future__ import annotations

import re

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft.carry import Scratch, join, param_type, to_param
from ptxgraft.graft.excerpt import Excerpt
from ptxgraft.graft.interface import Interface, Returned
from ptxgraft.graft.merge import Merged
from ptxgraft.isa import align_up, form_of, type_of
from ptxgraft.text import Document, EditScript, FreshNames, Function, Kind, Parameter, Statement, split_operands, variable_declarations

_PLACE = re.compile(r"\[\s*([\w$%.]+)\s*(?:\+\s*(\w+)\s*)?\]\Z")


def inlined_text(document: Document, piece: Excerpt, face: Interface, merged: Merged, fresh: FreshNames, given: str) -> str:
    """The block that stands in the region's place. SourceError or UsageError when the function, ``given`` by this name, does not fit the cut's
    interface."""
    version = f"{max(merged.version, document.version)[0]}.{max(merged.version, document.version)[1]}"
    head = f".version {version}\n.target {', '.join(document.target)}\n.address_size {document.address_size}\n"
    module = Document.parse(head + merged.text, f"{document.name} (body {merged.name})")
    module = _own_variables(module, merged.name, fresh)
    function = module.function(merged.name)
    scratch = Scratch(fresh)
    before: list[str] = []
    values: dict[str, tuple[str, int]] = {}
    check_parameters(function, face, repr(given))
    for passed, parameter in zip(face.passed, function.params, strict=True):
        width = type_of(parameter.type).width
        if passed.kind == "address":
            assert passed.variable is not None
            value = scratch.register(passed.type)
            before.append(f"mov.{passed.type.replace('b', 'u')} {value}, {passed.variable.name};")
        else:
            assert passed.register is not None
            source = passed.register.name
            if passed.kind == "argument":
                source = scratch.register(passed.register.type.name)
                before.append(passed.load.format(source))
            lines, held = to_param(source, passed.register.type, scratch)
            value = scratch.register(passed.type)
            before += [*lines, f"mov.{passed.type} {value}, {held};"]
        values[parameter.name] = (value, width)
    results = [scratch.register("b32") for _ in range(face.words)]
    places = _result_places(function, face, results, repr(given))
    end = fresh.name("$end")
    inside, returns = _body(module, function, values, places, end)
    after: list[str] = []
    for register, word in face.live_out:
        held = results[word : word + (2 if register.type.width == 64 else 1)]
        after += join(register.name, register.type, held, scratch)
    hoisted = [piece.document.source(s) for s in piece.hoisted()]
    lines = [*scratch.declarations(), *before, "{", *inside, *([f"{end}:"] if returns else []), "}", *after]
    return "\n".join([*hoisted, "{", *("\t" + line for line in lines), "}"])


def _own_variables(module: Document, name: str, fresh: FreshNames) -> Document:
    """The module with fresh names for the variables of a function's body: ptxas lets none of them hide a parameter of the entry."""
    script, function = EditScript(module), module.function(name)
    for scope in module.scopes:
        if scope.function == function.index:
            for variable in variable_declarations(module, scope):
                script.rename(scope, variable.name, fresh.name(variable.name.lstrip("%$")))
    return Document.parse(script.apply(), module.name)


def check_parameters(function: Function, face: Interface, name: str) -> None:
    """UsageError with the expected head when a function's parameters are not the cut's."""
    wanted = face.declaration("body")
    if len(function.params) != len(face.passed):
        raise UsageError(
            f"{name} has {len(function.params)} parameters, the cut passes {len(face.passed)}", hint=f"expected {_one_line(wanted)}"
        )
    for number, (passed, parameter) in enumerate(zip(face.passed, function.params, strict=True)):
        if parameter.array is not None or type_of(parameter.type).width != type_of(passed.type).width:
            array = f"[{parameter.array}]" if parameter.array is not None else ""
            raise UsageError(
                f"parameter {number} of {name} is .{parameter.type}{array}, the cut passes .{passed.type} ({passed.about})",
                hint=f"expected {_one_line(wanted)}",
            )


def result_of(function: Function, face: Interface, name: str) -> Returned | None:
    """How a function that a call is made of returns the cut's live-outs. UsageError when it does not."""
    returns = function.returns
    if face.returned is None:
        if returns:
            way = "come back through shared memory: store them there" if face.words else "are none: return nothing"
            raise UsageError(f"{name} returns a value; the cut's results {way}", hint=f"expected {_one_line(face.declaration('body'))}")
        return None
    if len(returns) == 1 and returns[0].space == ".param":
        found = returns[0]
        size = type_of(found.type).bytes * (found.array if found.array is not None else 1)
        if found.array is not None and face.words <= size // 4 <= align_up(face.words, 4):
            return Returned("b8", size, found.align or type_of(found.type).bytes)
        if found.array is None and not face.returned.size and size == type_of(face.returned.type).bytes:
            return face.returned
    given = ", ".join(f".{p.type}{f'[{p.array}]' if p.array is not None else ''}" for p in returns) or "nothing"
    raise UsageError(
        f"{name} returns {given}; the cut has {face.words} words of live-outs", hint=f"expected {_one_line(face.declaration('body'))}"
    )


def _one_line(text: str) -> str:
    short = " ".join(text.split())
    return short if len(short) <= 300 else short[:300] + " ..."


def _result_places(function: Function, face: Interface, results: list[str], name: str) -> dict[tuple[str, int], str]:
    """Which register a result's 32-bit word at (return parameter, byte offset) goes to."""
    returns = function.returns
    places: dict[tuple[str, int], str] = {}
    if len(returns) == 1 and returns[0].array is not None:
        size = returns[0].array * type_of(returns[0].type).bytes
        if size != 4 * len(results):
            raise UsageError(
                f"{name} returns {size} bytes, the cut has {len(results)} words of live-outs",
                hint=f"return a structure of {len(results)} 32-bit words",
            )
        return {(returns[0].name, 4 * i): register for i, register in enumerate(results)}
    if len(returns) != len(face.live_out):
        raise UsageError(
            f"{name} returns {len(returns)} values, the cut has {len(face.live_out)} live-outs",
            hint="return one value for each, or one byte array of their words",
        )
    for parameter, (register, word) in zip(returns, face.live_out, strict=True):
        if type_of(parameter.type).width != type_of(param_type(register.type)).width:
            raise UsageError(f"{name} returns .{parameter.type} for {register.name}, expected .{param_type(register.type)}")
        places[parameter.name, 0] = results[word]
        if register.type.width == 64:
            places[parameter.name, 4] = results[word + 1]
    return places


def _body(
    module: Document, function: Function, values: dict[str, tuple[str, int]], places: dict[tuple[str, int], str], end: str
) -> tuple[list[str], bool]:
    """The function's statements, one a line; and whether any of them goes to ``end``."""
    lines: list[str] = []
    returns = False
    params = {p.name: p for p in function.params if p.space == ".param"} | {p.name: p for p in function.returns if p.space == ".param"}
    for parameter in (*function.params, *function.returns):
        if parameter.space == ".reg":
            lines.append(f".reg .{parameter.type} {parameter.name};")
    for parameter in function.params:
        if parameter.space == ".reg":
            value, _ = values[parameter.name]
            lines.append(f"mov.b{type_of(parameter.type).width} {parameter.name}, {value};")
    assert function.body is not None
    statements = [module.statements[i] for i in function.body]
    last = next((s for s in reversed(statements) if s.kind == Kind.INSTRUCTION), None)
    for statement in statements:
        text = module.source(statement)
        if statement.kind == Kind.INSTRUCTION:
            form = form_of(statement.opcode)
            if form is not None and form.control == "return":
                if statement is not last or statement.guard:
                    returns = True
                    lines.append(f"{f'@{statement.guard} ' if statement.guard else ''}bra {end};")
                continue
            operands = split_operands(statement.operands)
            used = [p for p in params if any(re.search(rf"(?<![\w$%.]){re.escape(p)}(?![\w$])", o) for o in operands)]
            if used:
                lines += _moved(module, statement, operands, params[used[0]], values, places)
                continue
        lines.append(text)
    for parameter in function.returns:
        if parameter.space == ".reg":
            lines += _register_result(parameter, places)
    return lines, returns


def _register_result(parameter: Parameter, places: dict[tuple[str, int], str]) -> list[str]:
    if type_of(parameter.type).width == 64:
        return [f"mov.b64 {{{places[parameter.name, 0]}, {places[parameter.name, 4]}}}, {parameter.name};"]
    return [f"mov.b32 {places[parameter.name, 0]}, {parameter.name};"]


def _moved(
    module: Document,
    statement: Statement,
    operands: list[str],
    parameter: Parameter,
    values: dict[str, tuple[str, int]],
    places: dict[tuple[str, int], str],
) -> list[str]:
    """A load of a parameter or a store of a result as moves."""
    form = form_of(statement.opcode)
    guard = f"@{statement.guard} " if statement.guard else ""
    loads = form is not None and form.loads == "param"
    stores = form is not None and form.stores == "param"
    m = _PLACE.match(operands[-1] if loads else operands[0])
    type_name = form.slots.get("type", "") if form is not None else ""
    if m and m[1] == parameter.name and type_name:
        width, offset = type_of(type_name).width, int(m[2] or "0", 0)
        if loads and parameter.name in values and offset == 0 and width == values[parameter.name][1] and "{" not in operands[0]:
            return [f"{guard}mov.b{width} {operands[0]}, {values[parameter.name][0]};"]
        if stores and width in (32, 64):
            items = split_operands(operands[1][1:-1]) if operands[1].startswith("{") else [operands[1]]
            found: list[str] = []
            for i, item in enumerate(items):
                at = offset + i * width // 8
                words = [places.get((parameter.name, at + 4 * k)) for k in range(width // 32)]
                if any(w is None for w in words):
                    break
                into = words[0] if width == 32 else f"{{{words[0]}, {words[1]}}}"
                found.append(f"{guard}mov.b{width} {into}, {item};")
            else:
                return found
    raise UnsupportedError(
        f"`{module.source(statement)}` uses the parameter {parameter.name!r} in a way that cannot be put inline",
        place=module.place(statement),
        hint="load whole parameters and store whole 32- or 64-bit results, or use the mirror style",
    )
