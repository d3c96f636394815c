"""Operand texts lined up with the roles of a form, and what an operand in a role must be.

Invariant: operands and roles have one length and one order afterwards; every operand is of a kind that its role can take.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ptxgraft.errors import SourceError
from ptxgraft.isa.operands import Address, Group, Imm, Operand, OperandParser, Part, Reg, Resource, Sink, Symbol, Vector, split_top
from ptxgraft.isa.table import Form, Role, takes_part, with_parts

if TYPE_CHECKING:
    from ptxgraft.isa.program import Register


def choose(form: Form, texts: Sequence[str], width_of: Callable[[str], int | None] = lambda name: None) -> Form:
    """The form whose operand list looks like what is written; the first where none does, so that messages speak of it.

    ``width_of`` gives a register's bits, 1 for a predicate; None for what is no register.
    """
    if not form.others:
        return form
    return next((f for f in (form, *form.others) if _looks(f, texts, width_of)), form)


def _looks(form: Form, texts: Sequence[str], width_of: Callable[[str], int | None]) -> bool:
    """Have the operands the roles' number and brackets, are registers wide enough, and predicates where predicates are wanted?"""
    position = 0
    for role in form.roles:
        if role.implicit or role.pair:
            continue
        if position < len(texts) and _shaped(role, texts[position]) and _decided(role, texts[position], width_of):
            position += 1
        elif not role.optional:
            return False
    return position == len(texts)


def _decided(role: Role, text: str, width_of: Callable[[str], int | None]) -> bool:
    if role.kind != "in" or role.type is None or role.count > 1:
        return True
    found = width_of(text.lstrip("! "))
    return found is None or (found >= role.type.width and (found == 1) == (role.type.kind == "p"))


def _shaped(role: Role, text: str) -> bool:
    """Has the text the brackets that the role's operands have? A label, name or immediate may look like anything."""
    first = text[:1]
    if role.kind in ("addr", "resource"):
        # Both are brackets; one with a comma in it is more than an address.
        return first == "[" and (role.kind == "addr") == (len(split_top(text[1:-1])) < 2)
    if role.kind in ("in", "out", "inout"):
        return first != "[" and (first == "{" and "," in text) == (role.count > 1)
    return True


def match(form: Form, texts: Sequence[str], parse: OperandParser, implicit: Callable[[Role], Reg]) -> tuple[Operand | None, ...]:
    """One operand per role; None for an optional one left out. SourceError for too many, too few, or one of the wrong kind."""
    if form.plain and len(texts) == len(form.roles):
        return tuple([parse(text) for text in texts])
    operands: list[Operand | None] = []
    position = 0
    pair: str | None = None
    for role in form.roles:
        if role.implicit:
            operands.append(implicit(role))
            continue
        if role.pair:
            if pair is None and not role.optional:
                raise SourceError(f"{form.opcode} has two results, written {form.roles[len(operands) - 1].name}|{role.name}")
            operands.append(None if pair is None else parse(pair))
            pair = None
            continue
        if position == len(texts):
            if not role.optional:
                raise SourceError(f"{form.opcode} needs {form.required - _pairs(form)} operands, found {len(texts)}")
            operands.append(None)
            continue
        text = texts[position]
        if role.optional and role.kind == "in" and not _shaped(role, text):
            operands.append(None)
            continue
        position += 1
        if "|" in text and role.kind == "out":
            text, _, pair = (t.strip() for t in text.partition("|"))
        operands.append(parse(text))
    if pair is not None:
        raise SourceError(f"{form.opcode} has no second result for {pair!r}")
    if position != len(texts):
        raise SourceError(f"{form.opcode} takes at most {sum(not (r.pair or r.implicit) for r in form.roles)} operands, found {len(texts)}")
    return tuple(operands)


def take_parts(form: Form, operands: tuple[Operand | None, ...]) -> tuple[Form, tuple[Operand | None, ...]]:
    """Parts of registers as what they are: whole registers, of which the form takes a part. SourceError for a part that it does not take."""
    parts = {role.name: operand.selector for role, operand in zip(form.roles, operands, strict=True) if isinstance(operand, Part)}
    for name, part in parts.items():
        if not takes_part(form, name, part):
            hint = f"it takes {form.entry.parts[name]}" if name in form.entry.parts else "only video instructions take parts of one"
            raise SourceError(f"operand {name} of {form.opcode} must be a whole register, not its part {part!r}", hint=hint)
    return with_parts(form, parts), tuple([o.register if isinstance(o, Part) else o for o in operands])


def _pairs(form: Form) -> int:
    return sum(role.pair and not role.optional for role in form.roles)


def fitting_registers(role: Role, operand: Vector, registers: Sequence[Register]) -> list[int] | None:
    """The register numbers of a vector that holds exactly what its role wants; None when it needs a closer look."""
    if role.type is None or len(operand.items) != role.count:
        return None
    width = role.type.width
    named = []
    for item in operand.items:
        if type(item) is not Reg or registers[item.id].type.width != width:
            return None
        named.append(item.id)
    return named


def whole_registers(width: int, operand: Vector, registers: Sequence[Register]) -> list[int] | None:
    """The register numbers of a vector that stands for one value of ``width`` bits; None when it needs a closer look."""
    named, total = [], 0
    for item in operand.items:
        if type(item) is not Reg:
            return None
        total += registers[item.id].type.width
        named.append(item.id)
    return named if total == width and len(named) > 1 else None


def check(form: Form, role: Role, operand: Operand, registers: Sequence[Register]) -> Sequence[str]:
    """Refuse an operand that its role cannot take (SourceError); returns the names in it that are neither registers nor variables."""
    kind = role.kind
    if kind == "addr":
        if not isinstance(operand, Address):
            raise SourceError(f"{_what(form, role)} must be an address in brackets")
        if isinstance(operand.base, Reg) and registers[operand.base.id].type.width < 32:
            raise SourceError(
                f"{_what(form, role)} is an address of 32 or 64 bits, its register has {registers[operand.base.id].type.width}"
            )
        return (operand.base.name,) if isinstance(operand.base, Symbol) else ()
    if kind in ("text", "label", "labels", "call"):
        return ()
    if kind == "resource":
        if not isinstance(operand, Resource):
            raise SourceError(f"{_what(form, role)} must be a handle and coordinates in brackets")
        # A texture's sampler may stand between them.
        if operand.between != role.count - 1 and (role.count, operand.between) != (1, 1):
            raise SourceError(f"{_what(form, role)} has {role.count + 1} parts in its brackets, found {operand.between + 2}")
        return (operand.handle.name,) if isinstance(operand.handle, Symbol) else ()
    if isinstance(operand, Vector):
        _check_vector(form, role, operand, registers)
        return [item.name for item in operand.items if isinstance(item, Symbol)]
    if role.count > 1:
        raise SourceError(f"{_what(form, role)} must be a vector of {role.count} elements in braces")
    _check_scalar(form, role, operand, registers)
    return (operand.name,) if isinstance(operand, Symbol) else ()


def _what(form: Form, role: Role) -> str:
    return f"operand {role.name} of {form.opcode}"


def _check_scalar(form: Form, role: Role, operand: Operand, registers: Sequence[Register]) -> None:
    if isinstance(operand, Address | Resource | Group):
        raise SourceError(f"{_what(form, role)} must be a {'value' if role.kind == 'in' else 'register'}, not something in brackets")
    if isinstance(operand, Part):
        raise SourceError(f"{_what(form, role)} must be a whole register", hint="only video instructions take parts of one")
    if role.kind != "in" and not isinstance(operand, Reg | Sink):
        raise SourceError(f"{_what(form, role)} must be a register")
    if role.type is None:
        return
    if isinstance(operand, Imm):
        operand.bits(role.type)
    elif isinstance(operand, Reg):
        have = registers[operand.id].type
        # A barrier's optional operands are told apart by the engine: a predicate may stand where a count could.
        if (role.type.kind == "p") != (have.kind == "p") and form.control != "barrier":
            wanted = "a predicate" if role.type.kind == "p" else f"of type {role.type.name}"
            raise SourceError(f"{_what(form, role)} must be {wanted}, not a register of type {have.name}")
        if have.kind != "p" and have.width < role.type.width:
            raise SourceError(f"{_what(form, role)} has {role.type.width} bits, its register has {have.width}")


def _check_vector(form: Form, role: Role, operand: Vector, registers: Sequence[Register]) -> None:
    items = operand.items
    if role.count > 1:
        if len(items) != role.count:
            raise SourceError(f"{_what(form, role)} has {role.count} elements, found {len(items)}")
        for item in items:
            _check_scalar(form, role, item, registers)
    elif role.type is not None and len(items) > 1 and all(isinstance(item, Reg) for item in items):
        width = sum(registers[item.id].type.width for item in items if isinstance(item, Reg))
        if width != role.type.width:
            raise SourceError(f"{_what(form, role)} has {role.type.width} bits, the registers in braces have {width}")
