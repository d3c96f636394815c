"""Module variables: addresses and contents from their initialisers.

Invariant: an initialiser fills its variable from the front and the rest is zeros; what cannot be read is an error, never zeros.
Source: PTX ISA manual, "Initializers".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.isa.constants import DEEPEST, parse_integer
from ptxgraft.isa.functions import functions_of
from ptxgraft.isa.operands import parse_literal, split_top
from ptxgraft.isa.program import Program, Variable, align_up
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.run.memory import GAP, Allocation, allocate

_SYMBOL = re.compile(r"^(generic\s*\()?\s*([A-Za-z_$%][\w$]*)\s*\)?\s*(?:\+\s*(\d\w*))?\s*\)?$")
_LEAST_ALIGN = 256

REFERENCES = ("texref", "samplerref", "surfref")
"""Types whose variables name images (``references``): nothing reads their bytes."""

LARGEST = 1 << 40
"""Bytes that one variable can have."""

FIRST_VARIABLE = 0x7E00_0000_0000
"""Where variables are put, unless something lies there: far from the buffers of launches, which come and go while variables stay."""


def place_variables(program: Program, placed: dict[str, Allocation], others: Sequence[Allocation]) -> None:
    """Give every ``.global`` and ``.const`` variable that the program names an allocation in ``placed``, clear of ``others``; those there stay."""
    needed = [v for v in program.variables if v.space in ("global", "const") and v.name not in placed]
    taken = sorted([*others, *placed.values()], key=lambda a: a.base)
    address = FIRST_VARIABLE
    for variable in needed:
        size = variable.size or TYPES[variable.type].bytes * sum(1 for _ in _elements(variable.init or ""))
        if size > LARGEST:
            raise UsageError(f"variable {variable.name!r} of {program.document.name} has {size} bytes; no device has that much memory")
        address = align_up(address, max(variable.align, _LEAST_ALIGN))
        for other in taken:
            if address < other.end + GAP and other.base < address + size + GAP:
                address = align_up(other.end + GAP, max(variable.align, GAP))
        placed[variable.name] = allocate(address, size, f"variable {variable.name!r}")
        address = align_up(address + size + GAP, GAP)
    for variable in needed:  # after all have addresses: an initialiser may name another variable
        if variable.init and variable.type not in REFERENCES:
            _initialise(program, variable, placed)


def _elements(text: str, depth: int = 0) -> Iterator[str]:
    """The scalars of an initialiser, nested braces flattened."""
    text = text.strip()
    if depth > DEEPEST:
        raise SourceError("the braces of an initialiser are nested too deeply")
    if text.startswith("{"):
        for part in split_top(text[1:-1].strip()):
            yield from _elements(part, depth + 1)
    elif text:
        yield text


def _initialise(program: Program, variable: Variable, placed: dict[str, Allocation]) -> None:
    type = TYPES[variable.type]
    data = placed[variable.name].data
    elements = list(_elements(variable.init or ""))
    if len(elements) * type.bytes > data.size:
        raise SourceError(f"variable {variable.name!r} has {data.size} bytes, its initialiser {len(elements) * type.bytes}")
    raw = b"".join(_bits(program, variable, text, type, placed).to_bytes(type.bytes, "little") for text in elements)
    data[: len(raw)] = bytearray(raw)


def _bits(program: Program, variable: Variable, text: str, type: Type, placed: dict[str, Allocation]) -> int:
    literal = parse_literal(text)
    if literal is not None:
        return literal.bits(type) & ((1 << type.width) - 1)
    match = _SYMBOL.match(text)
    if match and match[2] in placed:
        return (placed[match[2]].base + parse_integer(match[3] or "0")) & ((1 << type.width) - 1)
    functions = functions_of(program.document).addresses
    if match and match[2] in functions:
        return (functions[match[2]] + parse_integer(match[3] or "0")) & ((1 << type.width) - 1)
    raise SourceError(
        f"cannot read {text!r} in the initialiser of {variable.name!r} of {program.document.name}",
        hint="numbers and the addresses of functions and variables are read",
    )


Words = list[tuple[int, int]]
"""(offset, bytes) of words of a variable."""


def address_words(program: Program, name: str, placed: dict[str, Allocation] | None = None) -> Words:
    """The words of a module variable that its initialiser fills with addresses (of functions or variables). With ``placed``: those of them that hold now what
    the initialiser says, with the addresses that the variables there have."""
    variable = next((v for v in program.variables if v.name == name and v.space in ("global", "const")), None)
    if variable is None or not variable.init:
        return []
    width = TYPES[variable.type].bytes
    words = [(n * width, width) for n, text in enumerate(_elements(variable.init)) if parse_literal(text) is None]
    if placed is None or not words:
        return words
    held, fresh = placed[name].data, _initial(program, name, placed)
    return [(at, size) for at, size in words if np.array_equal(held[at : at + size], fresh[at : at + size])]


def put_addresses(program: Program, placed: dict[str, Allocation], name: str) -> None:
    """Give those words of a variable that its initialiser fills with addresses the addresses that the variables of ``placed`` have."""
    words = address_words(program, name)
    fresh = _initial(program, name, placed) if words else placed[name].data
    for at, size in words:
        placed[name].data[at : at + size] = fresh[at : at + size]


def _initial(program: Program, name: str, placed: dict[str, Allocation]) -> NDArray[np.uint8]:
    """What the initialiser of a variable says."""
    variable = next(v for v in program.variables if v.name == name)
    fresh = allocate(placed[name].base, placed[name].size)
    _initialise(program, variable, placed | {name: fresh})
    return fresh.data
