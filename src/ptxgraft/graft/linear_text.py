"""PTX that computes a symbolic address: how a callee finds its part of the weight image, whatever the block's shape.

Invariant: the register holds the form's bits for every launch; a form with an atom that no statement can give is refused before anything is written.
"""

from __future__ import annotations

from ptxgraft.flow import Atom, Linear
from ptxgraft.graft.carry import Scratch

_BINARY = {"mul": "mul.lo.u{}", "and": "and.b{}", "or": "or.b{}", "xor": "xor.b{}"}
_SHIFTS = {"shift_left": "shl.b{}", "shift_right": "shr.u{}", "shift_right_signed": "shr.s{}"}
_EXTENSIONS = {"zero_extend": "u", "sign_extend": "s", "truncate": "u"}
_SPECIALS = frozenset(f"{base}.{axis}" for base in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz") | {"laneid"}


def is_spellable(value: Linear) -> bool:
    """Is the form a sum of what every function can read for itself: the thread's and block's numbers, and arithmetic on them?"""
    return value.width in (32, 64) and all(_atom_is_spellable(atom) for atom, _ in value.terms)


def _atom_is_spellable(atom: Atom) -> bool:
    kind, name, *operands = atom.key
    if atom.width not in (32, 64):
        return False
    if kind == "special":
        return name in _SPECIALS
    known = kind == "op" and (name in _BINARY or name in _SHIFTS or name in _EXTENSIONS)
    return known and all(is_spellable(o) if isinstance(o, Linear) else isinstance(o, int) for o in operands)


_INFIX = {"mul": "*", "and": "&", "or": "|", "xor": "^"}
_AXES = {"tid": "threadIdx", "ntid": "blockDim", "ctaid": "blockIdx", "nctaid": "gridDim"}


def expression(form: Linear) -> str:
    """A spellable form as a C++ expression of its width; ``lane_number()`` is the lane."""
    kind = "unsigned long long" if form.width == 64 else "unsigned"
    parts = []
    for atom, coefficient in form.terms:
        value = f"static_cast<{kind}>({_atom_expression(atom)})"
        parts.append(value if coefficient == 1 else f"static_cast<{kind}>({_signed(coefficient, form.width)}) * {value}")
    if form.constant or not parts:
        parts.append(f"static_cast<{kind}>({_signed(form.constant, form.width)})")
    return " + ".join(parts)


def _atom_expression(atom: Atom) -> str:
    kind, name, *operands = atom.key
    if kind == "special":
        base, _, axis = name.partition(".")
        return f"{_AXES[base]}.{axis}" if axis else "lane_number()"
    values = [f"({expression(o)})" if isinstance(o, Linear) else f"{o}u" for o in operands]
    if name in _INFIX:
        return f"{values[0]} {_INFIX[name]} {values[1]}"
    if name in _EXTENSIONS:
        return (
            f"static_cast<{'long long' if atom.width == 64 else 'int'}>(static_cast<int>{values[0]})"
            if name == "sign_extend"
            else values[0]
        )
    signed = "static_cast<long long>" if atom.width == 64 else "static_cast<int>"
    value = f"{signed}{values[0]}" if name == "shift_right_signed" else values[0]
    shifted = f"{value} {'<<' if name == 'shift_left' else '>>'} {values[1]}"
    beyond = f"({value} < 0 ? -1 : 0)" if name == "shift_right_signed" else "0"
    return shifted if isinstance(operands[1], int) else f"({values[1]} < {atom.width}u ? {shifted} : {beyond})"


class LinearWriter:
    """Writes forms into one straight run of statements; what was computed once is used again."""

    def __init__(self, scratch: Scratch) -> None:
        self.lines: list[str] = []
        self._scratch = scratch
        self._atoms: dict[int, str] = {}
        self._sums: dict[object, str] = {}

    def take(self) -> list[str]:
        """The statements written since the last call."""
        taken, self.lines = self.lines, []
        return taken

    def value(self, form: Linear) -> str:
        """A register of the form's width that holds it."""
        key = (form.width, form.constant, form.terms)
        if key not in self._sums:
            self._sums[key] = self._sum(form)
        return self._sums[key]

    def _sum(self, form: Linear) -> str:
        width = form.width
        total = ""
        for atom, coefficient in form.terms:
            register = self._resized(self._atom(atom), atom.width, width, "u")
            if coefficient != 1 or total:
                made = self._scratch.register(f"b{width}")
                if coefficient == 1:
                    self.lines.append(f"add.u{width} {made}, {register}, {total};")
                elif total:
                    self.lines.append(f"mad.lo.u{width} {made}, {register}, {_signed(coefficient, width)}, {total};")
                else:
                    self.lines.append(f"mul.lo.u{width} {made}, {register}, {_signed(coefficient, width)};")
                register = made
            total = register
        if form.constant or not total:
            made = self._scratch.register(f"b{width}")
            constant = _signed(form.constant, width)
            self.lines.append(f"add.s{width} {made}, {total}, {constant};" if total else f"mov.b{width} {made}, {constant};")
            total = made
        return total

    def _atom(self, atom: Atom) -> str:
        if atom.number not in self._atoms:
            self._atoms[atom.number] = self._computed(atom)
        return self._atoms[atom.number]

    def _computed(self, atom: Atom) -> str:
        kind, name, *operands = atom.key
        made = self._scratch.register(f"b{atom.width}")
        if kind == "special":
            self.lines.append(f"mov.u32 {made}, %{name};")
            return made
        first = self._operand(operands[0])
        if name in _EXTENSIONS:
            self.lines.append(f"cvt.{_EXTENSIONS[name]}{atom.width}.{_EXTENSIONS[name]}{operands[0].width} {made}, {first};")
            return made
        second = operands[1]
        if name in _SHIFTS:
            amount = self._resized(self.value(second), second.width, 32, "u") if isinstance(second, Linear) else str(second)
            self.lines.append(f"{_SHIFTS[name].format(atom.width)} {made}, {first}, {amount};")
        else:
            self.lines.append(f"{_BINARY[name].format(atom.width)} {made}, {first}, {self._operand(second)};")
        return made

    def _operand(self, operand: Linear | int) -> str:
        return self.value(operand) if isinstance(operand, Linear) else str(operand)

    def _resized(self, register: str, width: int, wanted: int, kind: str) -> str:
        if width == wanted:
            return register
        made = self._scratch.register(f"b{wanted}")
        self.lines.append(f"cvt.{kind}{wanted}.{kind}{width} {made}, {register};")
        return made


def _signed(value: int, width: int) -> int:
    return value - (1 << width) if value >> (width - 1) else value
