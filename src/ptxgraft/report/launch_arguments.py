"""A recorded launch's arguments, as its kernel declares them.

Invariant: every byte of the argument block is in exactly one row; what nobody declares is shown as bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ptxgraft import capture
from ptxgraft.errors import PtxgraftError
from ptxgraft.isa import parameter_layout
from ptxgraft.isa.types import TYPES
from ptxgraft.text import Document

SMALL, LEAST, MOST = 1 << 20, 1e-9, 1e9
"""Whole numbers below the first, and floats between the others, are what a word of a structure is taken for."""
FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}


@dataclass(frozen=True, slots=True)
class Argument:
    """``size`` bytes at ``offset`` of the block. ``name`` and ``type`` are the parameter's ('' where none is declared there); ``value`` is what they say."""

    offset: int
    size: int
    name: str
    type: str
    value: str


def arguments_of(launch: capture.Launch) -> list[Argument]:
    """The rows of a launch's argument block, by offset. Names and types come from the PTX in the capture, if there is any that can be read."""
    found: list[Argument] = []
    at = 0
    for name, type_name, offset, size in _declared(launch):
        if offset > at:
            found += _undeclared(launch, at, offset)
        if offset >= len(launch.args):
            break
        size = min(size, len(launch.args) - offset)
        count = size // TYPES[type_name].bytes
        found.append(
            Argument(offset, size, name, type_name if count == 1 else f"{type_name}[{count}]", _value(launch, offset, size, type_name))
        )
        at = offset + size
    return found + _undeclared(launch, at, len(launch.args))


def _declared(launch: capture.Launch) -> list[tuple[str, str, int, int]]:
    """(name, type, offset, bytes) of each parameter; none where the capture's PTX is missing, unreadable, or has no such kernel."""
    module = launch.module
    if module is None:
        return []
    try:
        entry = next((e for e in Document.parse(module).entries if e.name == launch.kernel), None)
    except PtxgraftError:
        return []
    return [] if entry is None else [(name, kind, offset, size) for name, kind, offset, size, *_ in parameter_layout(entry)]


def _undeclared(launch: capture.Launch, start: int, end: int) -> list[Argument]:
    """Eight bytes a row; what is only the fill between parameters is zeros, and left out."""
    rows = []
    for offset in range(start, end, 8):
        size = min(8, end - offset)
        if start == 0 or any(launch.args[offset : offset + size]):
            rows.append(Argument(offset, size, "", "", _value(launch, offset, size, "b64" if size == 8 else "b8")))
    return rows


def _value(launch: capture.Launch, offset: int, size: int, type_name: str) -> str:
    """What the bytes say: pointers and handles by what they name, numbers by their type, structures word by word."""
    raw = launch.args[offset : offset + size]
    type_ = TYPES[type_name]
    if size != type_.bytes:
        return ", ".join(_words(launch, offset, size)) if size % 4 == 0 and offset % 4 == 0 else raw.hex(" ")
    if size == 8 and (named := _named(launch, offset)):
        return named
    if type_name in FLOATS:
        return f"{struct.unpack(FLOATS[type_name], raw)[0]:.9g}"
    number = int.from_bytes(raw, "little", signed=type_.kind == "s")
    return f"{number:#x}" if type_.kind == "b" else str(number)


def _named(launch: capture.Launch, offset: int) -> str:
    """What the pointer or handle at an offset names; '' where none is."""
    pointer = launch.pointer(offset)
    image = next((i for i in launch.images if i.arg_offset == offset), None)
    if image is not None:
        return f"{image.kind} {image.handle:#x}"
    return "" if pointer is None else f"allocation {pointer.allocation} + {pointer.delta}"


def _words(launch: capture.Launch, offset: int, size: int) -> Iterator[str]:
    """The words of a structure, whose types nobody tells: what looks like a small whole number or a float of use is shown as that."""
    at = offset
    while at < offset + size:
        named = _named(launch, at) if at + 8 <= offset + size else ""
        yield named or _word(launch.args[at : at + 4])
        at += 8 if named else 4


def _word(raw: bytes) -> str:
    whole = int.from_bytes(raw, "little", signed=True)
    (real,) = struct.unpack("<f", raw)
    if abs(whole) < SMALL:
        return str(whole)
    return f"{real:.7g}" if LEAST <= abs(real) <= MOST else f"{whole & 0xFFFFFFFF:#010x}"
