"""What a callee is given and gives back: the parameter list of a cut, from its excerpt.

Invariant: the list is computed once and read by the call, the identity callee, the declaration and both skeletons, so that they cannot differ.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxgraft.errors import UnsupportedError
from ptxgraft.graft.carry import (
    Scratch,
    check_carried,
    from_param,
    load_row,
    param_type,
    store_row,
    to_param,
    total_words,
    words,
)
from ptxgraft.graft.excerpt import Excerpt, is_spelled
from ptxgraft.graft.fragment_tables import steps_of
from ptxgraft.graft.remade import remade
from ptxgraft.isa import Address, Instruction, Reg, Register, Type, Var, Variable, Vector, align_up
from ptxgraft.spec import block_shape
from ptxgraft.spec.provenance import Source, Tracer
from ptxgraft.text import Kind, Statement


@dataclass(slots=True)
class Passed:
    """One parameter. ``kind``: ``register`` (a live-in), ``argument`` (what a load from the argument block gives ``register``), ``address`` (of
    the entry's ``variable``), or ``row`` (the warp's area in shared memory). ``type`` is b32 or b64; ``name`` a C++ identifier; ``about`` a
    remark."""

    kind: str
    type: str
    name: str
    about: str
    register: Register | None = None
    variable: Variable | None = None
    load: str = ""


@dataclass(frozen=True, slots=True)
class Returned:
    """A callee's return parameter: one value of ``type`` (b32 or b64), or ``size`` bytes that hold the live-outs' words one after the other.

    ptxas switches the calling convention off for the whole module when a function has several return parameters; a byte array of up to 64 words
    comes back in registers all the same (measured with ptxas 13.0 for sm_90).
    """

    type: str
    size: int = 0
    align: int = 16

    def declared(self, name: str) -> str:
        """The parameter's declaration, without an end."""
        return f".param .align {self.align} .b8 {name}[{self.size}]" if self.size else f".param .{self.type} {name}"

    def stores(self, live_out: list[tuple[Register, int]], name: str, scratch: Scratch) -> list[str]:
        """Statements that return the live-outs (registers and their first words)."""
        if self.size:
            return store_row(live_out, "param", name, scratch, self.align // 4)
        before, value = to_param(live_out[0][0].name, live_out[0][0].type, scratch)
        return [*before, f"st.param.{self.type} [{name}], {value};"]

    def loads(self, live_out: list[tuple[Register, int]], name: str, scratch: Scratch) -> list[str]:
        """Statements that set the live-outs from what was returned."""
        if self.size:
            return load_row(live_out, "param", name, scratch, self.align // 4)
        value, register = scratch.register(self.type), live_out[0][0]
        return [f"ld.param.{self.type} {value}, [{name}];", *from_param(register.name, register.type, value, scratch)]


@dataclass(slots=True)
class Interface:
    """``passed`` in order; ``live_out`` with the first word of each in a row of ``words`` words; ``returned`` when they are a call's result; ``row_words``: how many words
    of a mirror cut's row can be stored at a time, by its alignment; ``remade``: live-outs, by register number, that the entry does not read back but
    makes again by these statements;
    ``loads`` and ``uses`` say where the region's statements take arguments and addresses from: by statement index, (destination register,
    parameter)."""

    passed: list[Passed]
    live_out: list[tuple[Register, int]]
    words: int
    loads: dict[int, list[tuple[str, Passed]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    returned: Returned | None = None
    row_words: int = 1
    remade: dict[int, str] = field(default_factory=dict)

    @property
    def addresses(self) -> dict[str, Passed]:
        """Parameters that are addresses, by the variable's name."""
        return {p.variable.name: p for p in self.passed if p.kind == "address" and p.variable is not None}

    def declaration(self, name: str, head: str = ".func") -> str:
        """The callee's head: what the call passes, and what it returns."""
        head = f"{head} ({self.returned.declared(name + '_result')})" if self.returned is not None else head
        if not self.passed:
            return f"{head} {name} ()"
        rows = [f"\t.param .{p.type} {name}_{p.name}" for p in self.passed]
        return f"{head} {name}\n(\n" + ",\n".join(rows) + "\n)"


def interface(piece: Excerpt, style: str, row: bool) -> Interface:
    """The interface of a cut. ``row``: results come back through shared memory, the last parameter says where. UnsupportedError when the region
    uses something of the entry that no parameter can stand for."""
    unsaid = next((r for r in (*piece.live_in, *piece.live_behind()) if not is_spelled(r) and r.scope >= 0 and _is_set(piece, r)), None)
    if unsaid is not None:
        raise UnsupportedError(
            f"the condition code ({unsaid.name}) is live where lines {piece.region.first_line} to {piece.region.last_line} begin or end: "
            f"no function can be given it or keep it",
            place=piece.document.place(piece.first),
            hint="choose lines that hold the whole run of .cc statements, or an identity body in the inline style",
        )
    check_carried([*piece.live_in, *piece.live_out], style, piece.program, piece.region.first, piece.region.last)
    taken: set[str] = {"rows"}
    result = Interface([], [], total_words(piece.live_out))
    tracer = Tracer(piece.flow, block_shape(piece.flow)[0])
    for register in piece.live_in:
        about = f"{register.name}, .{register.type.name}{_value(piece, register, tracer)}"
        result.passed.append(Passed("register", param_type(register.type), identifier(register.name, taken), about, register))
    known: dict[tuple[int, int, str], Passed] = {}
    addresses: dict[str, Passed] = {}
    for statement in piece.statements():
        if statement.kind == Kind.INSTRUCTION and any(name in statement.operands for name in piece.variables):
            _statement(piece, statement, result, known, addresses, taken)
    result.passed += [*known.values(), *addresses.values()]
    offset = 0
    for register in piece.live_out:
        result.live_out.append((register, offset))
        offset += words(register.type)
        result.names[register.name] = identifier(register.name, set(result.names.values()))
        if row or style == "call":
            again = remade(piece.flow, register, piece.region.last + 1)
            result.remade |= {register.id: again} if again else {}
    if style == "call" and result.words:
        single = len(piece.live_out) == 1
        result.returned = Returned(param_type(piece.live_out[0].type)) if single else Returned("b8", align_up(4 * result.words, 16))
    if row and result.words:
        about = f"shared address of this warp's rows: word i of lane L is at it + {4 * result.words} * L + 4 * i"
        result.passed.append(Passed("row", "b32", "rows", about))
    return result


def _is_set(piece: Excerpt, register: Register) -> bool:
    """Does any statement's result reach the region's begin or end in the register?"""
    points = (piece.region.first, piece.region.last + 1)
    return any(write >= 0 for point in points for write in piece.flow.defuse.reaching(register.id, point))


def _value(piece: Excerpt, register: Register, tracer: Tracer) -> str:
    """What is known of a live-in's value, in words: a constant, a special register, or an argument and how far it is moved."""
    value = piece.flow.symbols.register(register.id, piece.region.first)
    if value.is_constant:
        return f": always {value.constant:#x}" if value.constant > 9 else f": always {value.constant}"
    keys = [atom.key for atom, _ in value.terms]
    if len(keys) == 1 and keys[0][0] == "special" and value.constant == 0 and value.terms[0][1] == 1:
        return f": %{keys[0][1]}"
    if len(keys) == 1 and keys[0][0] == "variable" and value.terms[0][1] == 1:
        return f": the address of {piece.program.variables[keys[0][1]].name}{f' plus {value.constant}' if value.constant else ''}"
    key = next((k for k in keys if k[0] == "param"), None)
    rest = value.without(key) if key is not None else None
    if key is None or rest is None:
        return ""
    offsets = tracer.offsets(Source("memory", offset=rest))
    if offsets is None:
        return f": the argument at offset {key[1]}, moved"
    step = steps_of(offsets)
    if step is None:
        return f": the argument at offset {key[1]}, moved by the thread's number"
    start = int(offsets[0])
    start -= 1 << value.width if start >> (value.width - 1) else 0
    moves = [f"{n} a {what}" for n, what in ((step.lane, "lane of a quad"), (step.quad, "quad"), (step.warp, "warp")) if n]
    moved = f" plus {start}" if start else ""
    return f": the argument at offset {key[1]}{moved}{', and ' + ', '.join(moves) if moves else ''}"


def _statement(
    piece: Excerpt,
    statement: Statement,
    result: Interface,
    known: dict[tuple[int, int, str], Passed],
    addresses: dict[str, Passed],
    taken: set[str],
) -> None:
    """Note what one statement takes from the entry's arguments and variables."""
    document = piece.document
    for name in dict.fromkeys(n for _, _, n in piece.names(statement) if n in piece.variables):
        variable = piece.variables[name]
        if name in piece.call_variables:
            raise UnsupportedError(
                f"`{document.source(statement)}` uses {name!r}, a call's parameter declared outside the region, which no callee sees",
                place=document.place(statement),
                hint="choose lines that hold the whole call, or use the inline style",
            )
        if variable.space == "param":
            instruction = piece.members[statement.index][0]
            result.loads[statement.index] = _loads(piece, instruction, variable, known, taken)
        elif name not in addresses:
            type_name = "b32" if variable.space == "shared" or document.address_size == 32 else "b64"
            about = f"{variable.space} address of {name}, {variable.size} bytes"
            addresses[name] = Passed("address", type_name, identifier(name, taken), about, variable=variable)


def _loads(
    piece: Excerpt, instruction: Instruction, variable: Variable, known: dict[tuple[int, int, str], Passed], taken: set[str]
) -> list[tuple[str, Passed]]:
    """The parameters that stand for a load from the argument block: one for each register that it sets."""
    form = instruction.form
    address = next((o for o in instruction.operands if isinstance(o, Address)), None)
    if form is None or form.loads != "param" or address is None or not isinstance(address.base, Var):
        raise UnsupportedError(
            f"`{piece.program.source(instruction.index)}` takes the address of the entry's parameter {variable.name!r}, which no callee sees",
            place=piece.program.place(instruction.index),
            hint="choose lines without it, or use the inline style",
        )
    role, out = next((r, o) for r, o in zip(form.roles, instruction.operands, strict=True) if r.kind == "out")
    items = out.items if isinstance(out, Vector) else (out,)
    assert isinstance(role.type, Type)
    found: list[tuple[str, Passed]] = []
    for i, item in enumerate(items):
        if not isinstance(item, Reg):
            continue
        register = piece.program.registers[item.id]
        check_carried([register], "mirror", piece.program, instruction.index, instruction.index)
        offset = address.base.offset + address.offset + i * role.type.bytes
        key = (variable.id, offset, f"{role.type.name} {register.type.name}")
        if key not in known:
            place = f"{variable.name}+{offset}" if offset else variable.name
            about = f"argument at offset {variable.offset + offset}, .{role.type.name}"
            name = identifier(f"argument_{variable.offset + offset}", taken)
            known[key] = Passed(
                "argument", param_type(register.type), name, about, register, load=f"ld.param.{role.type.name} {{}}, [{place}];"
            )
        found.append((register.name, known[key]))
    return found


def identifier(name: str, taken: set[str]) -> str:
    """A C++ and PTX identifier for a register or variable, not taken yet; it is taken afterwards."""
    base = re.sub(r"\W", "_", name.lstrip("%$")).strip("_") or "value"
    if base[0].isdigit() or base in RESERVED:
        base = f"v{base}"
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    taken.add(found)
    return found


RESERVED = frozenset((
    "int", "long", "short", "char", "float", "double", "bool", "void", "auto", "const", "static", "extern", "register", "return", "if",
    "else", "for", "while", "do", "switch", "case", "default", "break", "continue", "struct", "class", "union", "enum", "namespace",
    "template", "typename", "using", "this", "new", "delete", "operator", "public", "private", "protected", "true", "false", "sizeof",
    "inline", "volatile", "signed", "unsigned", "goto", "try", "catch", "throw", "and", "or", "not", "xor", "lane", "warp", "in",
    "out", "buffer", "slots",
))  # fmt: skip
"""C++ words and the names that skeletons use themselves."""


def address_text(piece: Excerpt, statement: Statement, registers: dict[tuple[str, int, int], str]) -> str:
    """The statement with addresses of the entry's variables exchanged for registers. ``registers``: by (variable, byte offset, width), filled by
    need with empty names; call twice, with names the second time. Inside brackets the register stands for the variable alone."""
    document = piece.document
    instruction = piece.members[statement.index][0]
    text, masked = document.source(statement), document.masked[statement.start : statement.end]
    spots = [(s - statement.start, e - statement.start, n) for s, e, n in piece.names(statement) if n in piece.variables]
    pieces: list[str] = []
    at = 0
    for start, end, name in spots:
        bracketed = masked.count("[", 0, start) > masked.count("]", 0, start)
        offset, width = 0, 64 if piece.variables[name].space != "shared" and document.address_size == 64 else 32
        if not bracketed:
            m = re.compile(r"\s*\+\s*(\w+)").match(masked, end)
            if m:
                offset, end = int(m[1], 0), m.end()
            width = _role_width(instruction, piece.variables[name], width)
        pieces += [text[at:start], registers.setdefault((name, offset, width), "")]
        at = end
    return "".join(pieces) + text[at:]


def _role_width(instruction: Instruction, variable: Variable, default: int) -> int:
    if instruction.form is not None:
        for role, operand in zip(instruction.form.roles, instruction.operands, strict=True):
            if isinstance(operand, Var) and operand.id == variable.id and role.type is not None:
                return role.type.width
    return default


def uses_variables(piece: Excerpt, statement: Statement) -> bool:
    """Does an instruction name a variable of the entry (not a parameter)?"""
    return statement.kind == Kind.INSTRUCTION and any(
        n in piece.variables and piece.variables[n].space != "param" for _, _, n in piece.names(statement)
    )
