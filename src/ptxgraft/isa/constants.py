"""Literals and constant expressions (PTX ISA manual, "Constants").

Invariant: a constant is what the assembler makes of it: integers have 64 bits and are signed until a ``U``, their size or a cast makes them
unsigned; floats are binary64. What is no constant gives None, a malformed one is refused with the text quoted.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ptxgraft.errors import SourceError
from ptxgraft.isa.types import Type


@dataclass(frozen=True, slots=True)
class Imm:
    """A literal: ``kind`` is ``int`` (value: int), ``f32``/``f64`` (value: bits, from 0f/0d), or ``decimal`` (value: float)."""

    kind: str
    value: int | float

    def bits(self, type: Type) -> int:
        """The literal's bits as an operand of ``type``. SourceError when the literal has no such reading."""
        if type.kind == "p":
            if self.kind != "int":
                raise SourceError(f"{self.text} cannot be a predicate", hint="predicates are integers: 0 is false, all else true")
            return int(self.value != 0)
        if self.kind == "int":
            if type.name in ("f32", "f64"):
                return _float_bits(float(self.value), type.width)
            return int(self.value) & ((1 << type.width) - 1)
        if type.width not in (32, 64) or (self.kind == "decimal" and type.kind != "f" and type.width == 32):
            raise SourceError(f"{self.text} cannot be an operand of type {type.name}", hint="write its bits as an integer")
        if self.kind == "decimal":
            return _float_bits(float(self.value), type.width)
        if self.kind == f"f{type.width}":
            return int(self.value)
        raw = int(self.value).to_bytes(4 if self.kind == "f32" else 8, "little")
        return _float_bits(struct.unpack("<f" if self.kind == "f32" else "<d", raw)[0], type.width)

    @property
    def text(self) -> str:
        """The literal as one would write it."""
        if self.kind in ("f32", "f64"):
            return f"0f{self.value:08X}" if self.kind == "f32" else f"0d{self.value:016X}"
        return str(self.value)


def _float_bits(value: float, width: int) -> int:
    with np.errstate(over="ignore"):
        packed = np.float64(value) if width == 64 else np.float32(value)
    return int.from_bytes(packed.tobytes(), "little")


_INT = re.compile(r"^-?(0[xX][0-9a-fA-F]+|0[bB][01]+|[0-9]+)U?$")
_HEXFLOAT = re.compile(r"^(-?)0([fFdD])([0-9a-fA-F]+)$")
_DECIMAL = re.compile(r"^-?(\d+\.\d*|\.\d+|\d+(?=[eE]))([eE][-+]?\d+)?$")
_EXPRESSION = re.compile(r"^[-+!~(]*\s*[\d.(]")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)"
    r"|(?P<cast>\(\s*\.[su]64\s*\))|(?P<symbol><<|>>|<=|>=|==|!=|&&|\|\||[-+*/%<>&^|!~?:()]))"
)


def parse_literal(text: str) -> Imm | None:
    """The constant that ``text`` spells, or None when it is something else. SourceError for a malformed one."""
    if _INT.match(text):
        return Imm("int", _integer(text).value)
    match = _HEXFLOAT.match(text)
    if match:
        sign, kind, digits = match.groups()
        wide = kind in "dD"
        if len(digits) != (16 if wide else 8):
            raise SourceError(f"literal {text!r} needs {16 if wide else 8} hexadecimal digits")
        bits = int(digits, 16) ^ ((1 << (63 if wide else 31)) if sign else 0)
        return Imm("f64" if wide else "f32", bits)
    if _DECIMAL.match(text):
        return Imm("decimal", float(text))
    if not _EXPRESSION.match(text):
        return None
    value = _Expression(text).result()
    return Imm("int", value.value) if isinstance(value, _Int) else Imm("decimal", value)


def parse_integer(text: str) -> int:
    """The value of an unsigned integer literal of at most 64 bits: decimal, 0x, 0b or octal, maybe with a U. SourceError for any other."""
    return _integer(text).value


@dataclass(frozen=True, slots=True)
class _Int:
    """A 64-bit integer of a constant expression."""

    value: int
    unsigned: bool = False

    @classmethod
    def of(cls, value: int, unsigned: bool) -> _Int:
        value &= (1 << 64) - 1
        return cls(value if unsigned or not value >> 63 else value - (1 << 64), unsigned)


def _integer(text: str) -> _Int:
    digits = text.rstrip("U")
    negative, digits = digits.startswith("-"), digits.lstrip("-")
    octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "xXbB"
    if len(digits) > LONGEST:
        raise SourceError(f"the literal of {len(digits)} digits has more than 64 bits")
    try:
        value = int(digits, 8) if octal else int(digits, 0)
    except ValueError:
        raise SourceError(f"literal {text!r} is not octal, as its leading zero says", hint="drop the zero") from None
    if value >> 64:
        raise SourceError(f"literal {text!r} has more than 64 bits")
    return _Int(-value if negative else value, text.endswith("U") or bool(value >> 63))


DEEPEST = 64
"""How deeply operators and parentheses of one expression may be nested."""

LONGEST = 256
"""Characters of a literal, leading zeros included: more than any reader of PTX takes."""

_Value = _Int | float
_LEVELS: tuple[tuple[str, ...], ...] = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
"""Binary operators, loosest first."""
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
_BITS: dict[str, Callable[[int, int], int]] = {
    "|": operator.or_, "^": operator.xor, "&": operator.and_, "+": operator.add, "-": operator.sub, "*": operator.mul,
    "<<": lambda a, n: a << (n & 63), ">>": lambda a, n: a >> (n & 63),
}  # fmt: skip

_FLOATS: dict[str, Callable[[np.float64, np.float64], np.float64]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
}  # fmt: skip


class _Expression:
    """One constant expression, read by descent through the operators' levels as in C."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.depth = 0
        self.tokens: list[str] = []
        at = 0
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise self.wrong()
            self.tokens.append(match.group().strip())
            at = match.end()

    def wrong(self) -> SourceError:
        return SourceError(f"cannot read the constant expression {self.text!r}")

    def result(self) -> _Value:
        value = self.choice()
        if self.tokens:
            raise self.wrong()
        return value

    def take(self, *wanted: str) -> str:
        return self.tokens.pop(0) if self.tokens and self.tokens[0] in wanted else ""

    def choice(self) -> _Value:
        condition = self.level(0)
        if not self.take("?"):
            return condition
        first = self.choice()
        if not self.take(":"):
            raise self.wrong()
        second = self.choice()
        return first if _plain(condition) else second

    def level(self, depth: int) -> _Value:
        if depth == len(_LEVELS):
            return self.unary()
        value = self.level(depth + 1)
        while symbol := self.take(*_LEVELS[depth]):
            value = self.combine(symbol, value, self.level(depth + 1))
        return value

    def combine(self, symbol: str, a: _Value, b: _Value) -> _Value:
        x, y = _plain(a), _plain(b)
        if symbol in ("||", "&&"):
            return _Int(int(bool(x) or bool(y)) if symbol == "||" else int(bool(x) and bool(y)))
        if isinstance(a, _Int) and isinstance(b, _Int):
            unsigned = a.unsigned if symbol in ("<<", ">>") else a.unsigned or b.unsigned
            p, q = _Int.of(a.value, unsigned).value, _Int.of(b.value, unsigned).value
            if symbol in _COMPARE:
                return _Int(int(_COMPARE[symbol](p, q)))
            if symbol in "/%":
                if q == 0:
                    raise SourceError(f"division by zero in {self.text!r}")
                quotient = abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
                return _Int.of(quotient if symbol == "/" else p - q * quotient, unsigned)
            return _Int.of(_BITS[symbol](p, q), unsigned)
        if symbol in _COMPARE:
            return _Int(int(_COMPARE[symbol](x, y)))
        if symbol not in _FLOATS:
            raise SourceError(f"{symbol!r} takes integers", hint=f"the expression is {self.text!r}")
        with np.errstate(all="ignore"):
            return float(_FLOATS[symbol](np.float64(x), np.float64(y)))

    def unary(self) -> _Value:
        self.depth += 1
        if self.depth > DEEPEST:
            raise SourceError("the constant expression is nested too deeply")
        value = self.operand()
        self.depth -= 1
        return value

    def operand(self) -> _Value:
        if not self.tokens:
            raise self.wrong()
        token = self.tokens.pop(0)
        if token.startswith("(") and token != "(":
            value = self.unary()
            if not isinstance(value, _Int):
                raise self.wrong()
            return _Int.of(value.value, "u64" in token)
        if token == "(":
            value = self.choice()
            if not self.take(")"):
                raise self.wrong()
            return value
        if token in ("-", "+", "!", "~"):
            return self.prefixed(token, self.unary())
        if token[0] not in ".0123456789":
            raise self.wrong()
        return _integer(token) if _INT.match(token) else float(token)

    def prefixed(self, symbol: str, value: _Value) -> _Value:
        if symbol == "!":
            return _Int(int(not _plain(value)))
        if isinstance(value, _Int):
            return {"-": _Int.of(-value.value, value.unsigned), "+": value, "~": _Int.of(~value.value, value.unsigned)}[symbol]
        if symbol == "~":
            raise self.wrong()
        return -value if symbol == "-" else value


def _plain(value: _Value) -> int | float:
    return value.value if isinstance(value, _Int) else value
