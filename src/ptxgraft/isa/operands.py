"""Operand texts to operand values.

Invariant: parsing an operand never guesses: what it cannot read it refuses with the text quoted. Literals keep their bits, so that
``0f3F800000`` in a ``.b32`` place and ``-1.5`` in an ``.f64`` place both mean what the manual says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ptxgraft.errors import SourceError
from ptxgraft.isa.constants import DEEPEST, Imm, parse_integer, parse_literal
from ptxgraft.text import is_number


@dataclass(frozen=True, slots=True)
class Reg:
    """A register by its number in the program; ``negated`` for ``!p`` and ``-r``/``~r`` style predicate inputs."""

    id: int
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """Bytes or halves of a register, as video instructions take them: ``%r1.b0``, ``%r1.h10``, ``-%r1``; ``selector`` is what stands around the name."""

    register: Reg
    selector: str


@dataclass(frozen=True, slots=True)
class Special:
    """A special register, without its ``%``: ``tid.x``, ``laneid``."""

    name: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name that is neither register nor variable here: a label, a function; ``offset`` for ``name+8``."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Var:
    """A variable or parameter by its number in ``Program.variables``, plus a byte offset: its address in its own space."""

    id: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """``[base+offset]``; ``base`` is a Reg, a Var, a Symbol (unresolved) or None (an absolute address). Offset in bytes."""

    base: Reg | Var | Symbol | None
    offset: int


@dataclass(frozen=True, slots=True)
class Vector:
    """``{a, b, ...}``."""

    items: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Resource:
    """``[handle, {coordinates}]`` of texture and surface instructions; ``sampler`` for the three-part form, ``more`` what stands between where there are
    more parts."""

    handle: Operand
    coordinates: Vector
    sampler: Operand | None = None
    more: tuple[Operand, ...] = ()

    @property
    def between(self) -> int:
        """How many parts stand between the handle and the coordinates."""
        return (self.sampler is not None) + len(self.more)


@dataclass(frozen=True, slots=True)
class Sink:
    """``_``: a result nobody wants, or an element left out."""


@dataclass(frozen=True, slots=True)
class Group:
    """``( ... )`` of a call: its members' operands."""

    items: tuple[Operand, ...]


Operand = Reg | Part | Imm | Special | Symbol | Var | Address | Vector | Resource | Sink | Group

SPECIALS = (
    frozenset(
        f"{base}.{axis}"
        for base in ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")
        for axis in "xyzw"
    )
    | frozenset(
        [
            "laneid",
            "warpid",
            "nwarpid",
            "smid",
            "nsmid",
            "gridid",
            "is_explicit_cluster",
            "cluster_ctarank",
            "cluster_nctarank",
            "lanemask_eq",
            "lanemask_le",
            "lanemask_lt",
            "lanemask_ge",
            "lanemask_gt",
            "clock",
            "clock_hi",
            "clock64",
            "globaltimer",
            "globaltimer_lo",
            "globaltimer_hi",
            "total_smem_size",
            "aggr_smem_size",
            "dynamic_smem_size",
            "reserved_smem_offset_begin",
            "reserved_smem_offset_end",
            "reserved_smem_offset_cap",
            "current_graph_exec",
            "locality_domain_id",
            "locality_domain_supplemental_sm",
            "perctamemoryoffset",
            "perctamemorysize",
        ]
    )
    | frozenset(f"pm{i}{s}" for i in range(8) for s in ("", "_64"))
    | frozenset(f"envreg{i}" for i in range(32))
    | frozenset(f"reserved_smem_offset_{i}" for i in range(2))
)
"""Special registers by name without ``%``."""

STACK_LIMIT = "stack_limit"
"""A special register that no text can name: the end of a thread's local memory, where its stack ends."""


class OperandParser:
    """Parses and caches the operand texts of one scope: ``known`` has those that it has parsed.

    ``resolve`` maps a name to a register number, ``resolve_variable`` to a variable number, ``resolve_vector`` the name of a vector register to
    the numbers of its elements; all give None for an unknown name.
    """

    def __init__(
        self,
        resolve: Callable[[str], int | None],
        resolve_variable: Callable[[str], int | None],
        resolve_vector: Callable[[str], tuple[int, ...] | None] = lambda name: None,
    ) -> None:
        self._resolve = resolve
        self._resolve_variable = resolve_variable
        self._resolve_vector = resolve_vector
        self.known: dict[str, Operand] = {}

    def __call__(self, text: str) -> Operand:
        found = self.known.get(text)
        if found is None:
            found = self.known[text] = self._parse(text)
        return found

    def _parse(self, text: str) -> Operand:
        first = text[:1]
        if first == "{":
            return Vector(tuple(self(t) for t in split_top(_inside(text, "}"))))
        if first == "[":
            return self._bracket(_inside(text.removesuffix(".unified"), "]"))
        if first == "(" and text.startswith("(" * DEEPEST):
            raise SourceError("the parentheses are nested too deeply")
        if first == "(" and _is_group(text):
            return Group(tuple(self(t) for t in split_top(_inside(text, ")"))))
        if text == "_":
            return Sink()
        if first == "!":
            name = text[1:].strip()
            register = self._resolve(name)
            if register is not None:
                return Reg(register, negated=True)
            if name[:1] == "%" or not (literal := parse_literal(text)):
                raise SourceError(f"{name!r} is not a declared register")
            return literal
        register = self._resolve(text)
        if register is not None:
            return Reg(register)
        if text == "WARP_SZ":
            return Imm("int", 32)
        literal = parse_literal(text)
        if literal is not None:
            return literal
        if first == "%" and text[1:] in SPECIALS:
            return Special(text[1:])
        base, _, selector = text.partition(".")
        register = self._resolve(base) if _SELECTOR.match(selector) else None
        if register is not None:
            return Part(Reg(register), selector)
        vector = self._resolve_vector(text)
        if vector is not None:
            return Vector(tuple(Reg(element) for element in vector))
        if first == "-":
            return self._negated(text)
        if selector and self._resolve(base) is not None:
            raise SourceError(f"{base!r} is no vector register, it has no element {selector!r}")
        match = _NAME_OFFSET.match(text)
        if first == "%" and (match is None or self._resolve_variable(match[1]) is None):
            raise SourceError(f"{text!r} is neither a declared register nor a special register")
        name, offset = _name_offset(text)
        return self._symbol(name, offset)

    def _negated(self, text: str) -> Operand:
        """``-a`` of a register, or of a part of one."""
        inner = self(text[1:].strip())
        if isinstance(inner, Reg):
            return Part(inner, "-")
        if isinstance(inner, Part):
            return Part(inner.register, f"-{inner.selector}")
        raise SourceError(f"cannot read operand {text!r}")

    def _symbol(self, name: str, offset: int) -> Symbol | Var:
        variable = self._resolve_variable(name)
        return Symbol(name, offset) if variable is None else Var(variable, offset)

    def _bracket(self, inner: str) -> Operand:
        name, plus, offset = inner.partition("+")
        if not plus or is_number(offset):
            register = self._resolve(name)
            if register is not None:
                return Address(Reg(register), int(offset or 0))
        parts = split_top(inner)
        if len(parts) > 1:
            coordinates = self(parts[-1])
            if not isinstance(coordinates, Vector):
                coordinates = Vector((coordinates,))
            more = tuple(self(part) for part in parts[1:-1])
            if len(more) == 1:
                return Resource(self(parts[0]), coordinates, more[0])
            return Resource(self(parts[0]), coordinates, None, more)
        literal = parse_literal(inner)
        if literal is not None and literal.kind == "int":
            return Address(None, int(literal.value))
        name, offset = _name_offset(inner)
        register = self._resolve(name)
        if register is not None:
            return Address(Reg(register), offset)
        if name.startswith("%") and self._resolve_variable(name) is None:
            raise SourceError(f"{name!r} is not a declared register")
        return Address(self._symbol(name, 0), offset)


_SELECTOR = re.compile(r"^(b[0-7]{1,4}|h[0-3]{1,2})$")


def _is_group(text: str) -> bool:
    """Does the first parenthesis close at the very end (or never)? Else it begins a constant expression."""
    depth = 0
    for i, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return i == len(text) - 1
    return True


def _inside(text: str, close: str) -> str:
    if not text.endswith(close):
        raise SourceError(f"operand {text!r} is not closed")
    return text[1:-1].strip()


_NAME_OFFSET = re.compile(r"^([%\w$.]+)\s*(?:([+-])\s*(-?)\s*(0[xX][0-9a-fA-F]+|\d+)U?)?$")


def _name_offset(text: str) -> tuple[str, int]:
    match = _NAME_OFFSET.match(text)
    if not match:
        raise SourceError(f"cannot read operand {text!r}")
    name, sign, sign2, digits = match.groups()
    if digits is None:
        return name, 0
    return name, parse_integer(digits) * (-1 if sign == "-" else 1) * (-1 if sign2 else 1)


_PIECE = re.compile(r"(?:[^,\[\](){}]++|\{[^\[\](){}]*+\}|\[(?:[^\[\](){}]++|\{[^\[\](){}]*+\})*+\])++")


def split_top(text: str) -> list[str]:
    """Split at commas outside any bracket; blanks around the parts are dropped. An empty text has no parts."""
    if not text:
        return []
    if "{" not in text and "[" not in text and "(" not in text:
        return [t.strip() for t in text.split(",")]
    pieces = _PIECE.findall(text)
    if ",".join(pieces) == text:
        return [t.strip() for t in pieces]
    # Parentheses within others, an empty part, or brackets that do not close.
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "{[(":
            depth += 1
        elif c in "}])":
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    parts.append(text[start:].strip())
    return parts


def registers_of(operand: Operand) -> tuple[int, ...]:
    """The register numbers an operand names, in order."""
    if isinstance(operand, Reg):
        return (operand.id,)
    if isinstance(operand, Part):
        return (operand.register.id,)
    if isinstance(operand, Address):
        return (operand.base.id,) if isinstance(operand.base, Reg) else ()
    if isinstance(operand, Vector | Group):
        return tuple(r for item in operand.items for r in registers_of(item))
    if isinstance(operand, Resource):
        parts = (operand.handle, *((operand.sampler,) if operand.sampler is not None else ()), *operand.more, operand.coordinates)
        return tuple(r for part in parts for r in registers_of(part))
    return ()
