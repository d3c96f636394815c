"""Symbolic values: what a register is as a sum of atoms, by running meanings on a symbolic instance of ``Lanes``.

Invariant: a linear form equals the register's bits for every launch and lane in which its atoms have their values, modulo 2**width.
What cannot be said becomes an atom of its own, never a guess. Equal forms have equal values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ptxgraft.flow.defuse import DefUse
from ptxgraft.isa import Address, Group, Imm, Operand, Program, Reg, Role, Sink, Special, Symbol, Type, Var, Vector

Key = tuple[Any, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """Something unknown with a name; one object per name, so that identity is equality. ``number`` orders atoms; ``key`` says what it is, e.g. ``("param", 40, 64)``, ``("special", "tid.x")``, ``("load", index, part)``,
    ``("variable", number)``, ``("op", name, operands...)`` or ``("register", register, writes)``. ``low`` .. ``high`` bound its unsigned value."""

    number: int
    key: Key
    width: int
    low: int
    high: int


@dataclass(frozen=True, slots=True)
class Linear:
    """``constant + sum(coefficient * atom)`` modulo 2**width; ``terms`` are sorted by atom number and have no zero coefficient."""

    width: int
    constant: int
    terms: tuple[tuple[Atom, int], ...] = ()

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def bounds(self) -> tuple[int, int] | None:
        """Unsigned bounds if the sum cannot wrap, else None. Coefficients read as signed."""
        low = high = self.constant
        half, full = 1 << (self.width - 1), 1 << self.width
        if low >= half and self.terms:  # a negative constant beside terms
            low = high = low - full
        for atom, coefficient in self.terms:
            c = coefficient - full if coefficient >= half else coefficient
            low += min(c * atom.low, c * atom.high)
            high += max(c * atom.low, c * atom.high)
        return (low, high) if low >= 0 and high < full else None

    def without(self, key: Key) -> Linear | None:
        """The form less one occurrence (coefficient 1) of the atom with ``key``; None when it is not there like that."""
        for i, (atom, coefficient) in enumerate(self.terms):
            if atom.key == key:
                return Linear(self.width, self.constant, self.terms[:i] + self.terms[i + 1 :]) if coefficient == 1 else None
        return None


# Launch limits of every target (PTX manual, "Special Registers"; CUDA programming guide, "Technical Specifications").
SPECIAL_BOUNDS = {
    **{f"tid.{axis}": limit - 1 for axis, limit in zip("xyz", (1024, 1024, 64), strict=True)},
    **{f"ntid.{axis}": limit for axis, limit in zip("xyz", (1024, 1024, 64), strict=True)},
    **{f"ctaid.{axis}": limit - 1 for axis, limit in zip("xyz", (2**31, 65536, 65536), strict=True)},
    **{f"nctaid.{axis}": limit for axis, limit in zip("xyz", (2**31 - 1, 65535, 65535), strict=True)},
    "laneid": 31,
    "warpid": 63,
}


def _make(width: int, constant: int, terms: dict[Atom, int]) -> Linear:
    mask = (1 << width) - 1
    kept = [(a, c & mask) for a, c in terms.items() if c & mask]
    kept.sort(key=lambda t: t[0].number)
    return Linear(width, constant & mask, tuple(kept))


def _order(a: Linear) -> tuple[int, tuple[tuple[int, int], ...]]:
    return a.constant, tuple((atom.number, c) for atom, c in a.terms)


class SymbolicLanes:
    """The part of ``Lanes`` that addresses are made of, over ``Linear``; every other operation gives an atom named after it."""

    profile = "manual"

    def __init__(self) -> None:
        self._atoms: dict[tuple[Key, int], Atom] = {}

    def const(self, bits: int, width: int) -> Linear:
        return Linear(width, bits & ((1 << width) - 1))

    def width(self, a: Linear) -> int:
        return a.width

    def atom(self, key: Key, width: int, low: int = 0, high: int | None = None) -> Linear:
        atom = self._atoms.get((key, width))
        if atom is None:
            atom = Atom(len(self._atoms), key, width, low, (1 << width) - 1 if high is None else high)
            self._atoms[key, width] = atom
        return Linear(width, 0, ((atom, 1),))

    def operation(self, name: str, width: int, *operands: Any, low: int = 0, high: int | None = None) -> Linear:
        return self.atom(("op", name, *operands), width, low, high)

    def add(self, a: Linear, b: Linear) -> Linear:
        terms = dict(a.terms)
        for atom, c in b.terms:
            terms[atom] = terms.get(atom, 0) + c
        return _make(a.width, a.constant + b.constant, terms)

    def sub(self, a: Linear, b: Linear) -> Linear:
        return self.add(a, self._scale(b, -1))

    def _scale(self, a: Linear, factor: int) -> Linear:
        return _make(a.width, a.constant * factor, {atom: c * factor for atom, c in a.terms})

    def mul(self, a: Linear, b: Linear) -> Linear:
        if a.is_constant:
            return self._scale(b, a.constant)
        if b.is_constant:
            return self._scale(a, b.constant)
        first, second = sorted((a, b), key=_order)
        return self.operation("mul", a.width, first, second)

    def shift_left(self, a: Linear, amount: Linear) -> Linear:
        if amount.is_constant:
            return self._scale(a, 1 << amount.constant) if amount.constant < a.width else self.const(0, a.width)
        return self.operation("shift_left", a.width, a, amount)

    def shift_right(self, a: Linear, amount: Linear, signed: bool = False) -> Linear:
        if amount.is_constant:
            n = amount.constant
            bounds = a.bounds()
            if a.is_constant and not (signed and a.constant >> (a.width - 1)):
                return self.const(a.constant >> n if n < a.width else 0, a.width)
            if bounds is not None and (not signed or bounds[1] < 1 << (a.width - 1)):
                if n >= a.width:
                    return self.const(0, a.width)
                if all(c % (1 << n) == 0 for _, c in a.terms) and a.constant % (1 << n) == 0:
                    return _make(a.width, a.constant >> n, {atom: c >> n for atom, c in a.terms})
                return self.operation("shift_right", a.width, a, n, low=bounds[0] >> n, high=bounds[1] >> n)
            if not signed and n < a.width:
                return self.operation("shift_right", a.width, a, n, high=((1 << a.width) - 1) >> n)
        return self.operation("shift_right_signed" if signed else "shift_right", a.width, a, amount)

    def and_(self, a: Linear, b: Linear) -> Linear:
        if a.is_constant:
            a, b = b, a
        if a.is_constant:
            return self.const(a.constant & b.constant, a.width)
        if b.is_constant:
            mask = b.constant
            bounds = a.bounds()
            if mask & (mask + 1) == 0 and bounds is not None and bounds[1] <= mask:
                return a
            if bounds is not None and mask and bounds[1] < 1 << (mask & -mask).bit_length() - 1:
                return self.const(0, a.width)
            return self.operation("and", a.width, a, mask, high=mask)
        first, second = sorted((a, b), key=_order)
        return self.operation("and", a.width, first, second)

    def or_(self, a: Linear, b: Linear) -> Linear:
        if a.is_constant and b.is_constant:
            return self.const(a.constant | b.constant, a.width)
        if self._disjoint(a, b):
            return self.add(a, b)
        first, second = sorted((a, b), key=_order)
        return self.operation("or", a.width, first, second)

    @staticmethod
    def _ones(a: Linear) -> int | None:
        """A mask of the bits that can be set, from bounds and common powers of two; None when nothing is known."""
        bounds = a.bounds()
        if bounds is None:
            return None
        low = a.constant
        for _, c in a.terms:
            low |= c
        step = low & -low if low else 0
        top = (1 << bounds[1].bit_length()) - 1
        return top & ~(step - 1) if step else 0

    def _disjoint(self, a: Linear, b: Linear) -> bool:
        ones_a, ones_b = self._ones(a), self._ones(b)
        return ones_a is not None and ones_b is not None and ones_a & ones_b == 0

    def xor(self, a: Linear, b: Linear) -> Linear:
        if a.is_constant and b.is_constant:
            return self.const(a.constant ^ b.constant, a.width)
        first, second = sorted((a, b), key=_order)
        return self.operation("xor", a.width, first, second)

    def not_(self, a: Linear) -> Linear:
        return self.sub(self.const(-1, a.width), a)

    def resize(self, a: Linear, width: int, signed: bool = False) -> Linear:
        if width == a.width:
            return a
        if width < a.width:
            bounds = a.bounds()
            if (bounds is not None and bounds[1] < 1 << width) or all(atom.width >= width for atom, _ in a.terms):
                return _make(width, a.constant, dict(a.terms))
            return self.operation("truncate", width, a)
        if a.is_constant:
            value = a.constant - (1 << a.width) if signed and a.constant >> (a.width - 1) else a.constant
            return self.const(value, width)
        bounds = a.bounds()
        half, full = 1 << (a.width - 1), 1 << a.width
        if bounds is not None and (not signed or bounds[1] < half):
            constant = a.constant - full if a.constant >= half else a.constant
            return _make(width, constant, {atom: (c - full if c >= half else c) for atom, c in a.terms})
        if signed:
            return self.operation("sign_extend", width, a)
        return self.operation("zero_extend", width, a, high=full - 1)

    def extract(self, a: Linear, offset: int, width: int) -> Linear:
        return self.resize(self.shift_right(a, self.const(offset, 32)), width)

    def concat(self, parts: Sequence[Linear]) -> Linear:
        total = sum(p.width for p in parts)
        result, offset = self.const(0, total), 0
        for part in parts:
            result = self.add(result, self.shift_left(self.resize(part, total), self.const(offset, 32)))
            offset += part.width
        return result

    def select(self, p: Linear, a: Linear, b: Linear) -> Linear:
        if p.is_constant or a == b:
            return a if a == b or p.constant else b
        bounds = [x.bounds() for x in (a, b)]
        known = [x for x in bounds if x is not None]
        high = max(x[1] for x in known) if len(known) == 2 else None
        return self.operation("select", a.width, p, a, b, high=high)

    def compare(self, op: str, a: Linear, b: Linear, signed: bool = False) -> Linear:
        if a.is_constant and b.is_constant:
            x, y = a.constant, b.constant
            if signed:
                x, y = (v - (1 << a.width) if v >> (a.width - 1) else v for v in (x, y))
            return self.const(int({"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[op]), 1)
        return self.operation("compare", 1, op, a, b, signed)

    def special(self, name: str) -> Linear:
        width = 64 if name in ("clock64", "globaltimer", "gridid") else 32
        return self.atom(("special", name), width, high=SPECIAL_BOUNDS.get(name))

    def to_generic(self, space: str, address: Linear) -> Linear:
        return address if space == "global" else self.operation("to_generic", address.width, space, address)

    def from_generic(self, space: str, address: Linear) -> Linear:
        return address if space == "global" else self.operation("from_generic", address.width, space, address)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Operations that addresses are not made of: the result is left to the caller, which makes it an atom."""
        if name.startswith("_"):
            raise AttributeError(name)

        def opaque(*_args: Any, **_kwargs: Any) -> Any:
            raise Opaque(name)

        return opaque


class Opaque(Exception):
    """Internal: a meaning used an operation that has no symbolic form."""


@dataclass(slots=True, eq=False)
class Symbols:
    """Symbolic values of registers at points of a program, computed on demand and kept.

    ``block`` (optional) bounds ``tid`` by the launch's block size, in threads.
    """

    program: Program
    defuse: DefUse
    block: tuple[int, int, int] | None = None
    lanes: SymbolicLanes = field(default_factory=SymbolicLanes)
    _outputs: dict[int, dict[int, Linear]] = field(default_factory=dict)
    _addresses: dict[int, Linear | None] = field(default_factory=dict)

    def register(self, register: int, point: int) -> Linear:
        """``register`` as seen just before instruction ``point``."""
        write = self.defuse.single(register, point)
        width = self.program.registers[register].type.width
        if write is None:
            return self.lanes.atom(("register", register, self.defuse.reaching(register, point)), width)
        return self.outputs(write)[register]

    def address(self, index: int) -> Linear | None:
        """The byte address that a memory instruction uses in its own space (64-bit), or None when it has no address operand."""
        if index not in self._addresses:
            operands = self.program.instructions[index].operands
            found = next((o for o in operands if type(o) is Address), None)
            self._addresses[index] = None if found is None else self.operand(found, None, index)
        return self._addresses[index]

    def operand(self, operand: Operand, type: Type | None, point: int) -> Linear:
        """The symbolic value of one scalar input operand of ``type`` (None: an address)."""
        lanes = self.lanes
        if isinstance(operand, Reg):
            value = self.register(operand.id, point)
            if operand.negated:
                value = lanes.xor(value, lanes.const(1, 1))
            return value if type is None else lanes.resize(value, type.width)
        if isinstance(operand, Imm):
            assert type is not None
            return lanes.const(operand.bits(type), type.width)
        if isinstance(operand, Special):
            value = self._special(operand.name)
            return value if type is None else lanes.resize(value, type.width)
        if isinstance(operand, Var):
            variable = self.program.variables[operand.id]
            width = 64 if type is None else type.width
            if variable.space == "param":
                return lanes.const(variable.offset + operand.offset, width)
            # Shared and local variables keep their name, so that an access can be told from its neighbours'.
            known = (variable.offset, variable.offset) if variable.offset >= 0 else (0, None)
            return lanes.add(lanes.atom(("variable", variable.id), width, *known), lanes.const(operand.offset, width))
        if isinstance(operand, Address):
            base = lanes.const(0, 64) if operand.base is None else lanes.resize(self.operand(operand.base, None, point), 64)
            return lanes.add(base, lanes.const(operand.offset, 64))
        if isinstance(operand, Vector) and type is not None and operand.items:
            part = type.width // len(operand.items)
            pieces = [
                lanes.const(0, part) if isinstance(i, Sink) else lanes.resize(self.operand(i, None, point), part) for i in operand.items
            ]
            return lanes.concat(pieces)
        raise Opaque(type_name(operand))

    def _special(self, name: str) -> Linear:
        value = self.lanes.special(name)
        if self.block is not None:
            base, _, axis = name.partition(".")
            if axis in ("x", "y", "z"):
                extent = self.block["xyz".index(axis)]
                if base == "ntid":
                    return self.lanes.const(extent, 32)
                if base == "tid":
                    return self.lanes.atom(("special", name), 32, 0, extent - 1) if extent > 1 else self.lanes.const(0, 32)
        return value

    def outputs(self, index: int) -> dict[int, Linear]:
        """The symbolic value of every register that instruction ``index`` writes."""
        found = self._outputs.get(index)
        if found is None:
            # Recursion depth follows dependence chains: resolve inputs first, iteratively.
            self._resolve(index)
            found = self._outputs[index]
        return found

    def _resolve(self, index: int) -> None:
        stack = [index]
        open_: set[int] = set()
        while stack:
            top = stack[-1]
            if top in self._outputs:
                stack.pop()
                continue
            missing = []
            if top not in open_:
                open_.add(top)
                for register in self.program.instructions[top].reads:
                    write = self.defuse.single(register, top)
                    if write is not None and write not in self._outputs and write not in open_:
                        missing.append(write)
            if missing:
                stack.extend(missing)
            else:
                self._outputs[top] = self._opaque_outputs(top)  # stands while a loop's own value is asked for
                self._outputs[top] = self._evaluate(top)
                stack.pop()

    def _opaque_outputs(self, index: int) -> dict[int, Linear]:
        registers = self.program.registers
        instruction = self.program.instructions[index]
        return {r: self.lanes.atom(("load" if instruction.form and instruction.form.loads else "write", index, i), registers[r].type.width)
                for i, r in enumerate(instruction.writes)}  # fmt: skip

    def _evaluate(self, index: int) -> dict[int, Linear]:
        instruction = self.program.instructions[index]
        form = instruction.form
        opaque = self._outputs[index]
        if form is None or form.meaning is None or form.convergent or form.stores or instruction.guard is not None:
            return opaque
        if form.loads == "param":
            return self._parameter(index) or opaque
        if form.loads or form.tensor:
            return opaque
        try:
            inputs = [
                self._input(role, operand, index)
                for role, operand in zip(form.roles, instruction.operands, strict=True)
                if role.kind != "out"
            ]
            results = form.meaning(self.lanes, *inputs, **form.options)
        except (Opaque, TypeError, AttributeError, KeyError):
            return opaque
        outs = [(role, operand) for role, operand in zip(form.roles, instruction.operands, strict=True) if role.kind == "out"]
        results = results if isinstance(results, tuple) else (results,)
        values = dict(opaque)
        for (role, operand), result in zip(outs, results, strict=False):
            self._assign(values, role, operand, result)
        return values

    def _input(self, role: Role, operand: Operand | None, index: int) -> Any:
        if operand is None or role.kind == "text":
            return operand
        if role.kind == "addr":
            return self.operand(operand, None, index)
        if role.count > 1 and isinstance(operand, Vector):
            return tuple(self.operand(o, role.type, index) for o in operand.items)
        return self.operand(operand, role.type, index)

    def _assign(self, values: dict[int, Linear], role: Role, operand: Operand | None, result: Any) -> None:
        registers = self.program.registers
        signed = role.type is not None and role.type.signed
        if isinstance(operand, Reg) and isinstance(result, Linear):
            values[operand.id] = self.lanes.resize(result, registers[operand.id].type.width, signed)
        elif isinstance(operand, Vector):
            parts = result
            if isinstance(result, Linear):
                part = result.width // len(operand.items)
                parts = [self.lanes.extract(result, i * part, part) for i in range(len(operand.items))]
            for item, value in zip(operand.items, parts, strict=False):
                if isinstance(item, Reg):
                    values[item.id] = self.lanes.resize(value, registers[item.id].type.width, signed)

    def _parameter(self, index: int) -> dict[int, Linear] | None:
        """A load from the argument block at a constant offset: atoms named by offset and width."""
        instruction = self.program.instructions[index]
        address = self.address(index)
        form = instruction.form
        if address is None or not address.is_constant or form is None:
            return None
        role, operand = next((r, o) for r, o in zip(form.roles, instruction.operands, strict=True) if r.kind == "out")
        assert role.type is not None
        width, offset = role.type.width, address.constant
        values: dict[int, Linear] = {}
        items = operand.items if isinstance(operand, Vector | Group) else (operand,)
        for i, item in enumerate(items):
            if isinstance(item, Reg):
                value = self.lanes.atom(("param", offset + i * width // 8, width), width)
                values[item.id] = self.lanes.resize(value, self.program.registers[item.id].type.width, role.type.signed)
        return values


def type_name(operand: Operand) -> str:
    """What kind of operand it is, for messages."""
    return "symbol " + operand.name if isinstance(operand, Symbol) else type(operand).__name__.lower()
