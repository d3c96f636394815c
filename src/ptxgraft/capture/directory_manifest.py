"""``manifest.txt`` of one launch of a directory capture, as text (formats.md section 1).

Invariant: every line is either understood, or noted as unknown, or an error naming file, line and column; all errors of a file come out together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxgraft.capture.checks import name_fault, shown
from ptxgraft.capture.contents import path_text
from ptxgraft.capture.image_record import ADDRESS_END
from ptxgraft.capture.model import Dim3
from ptxgraft.errors import Place, SourceError, SourceErrors

_WORD = re.compile(r"[^ \t]+")
_INTEGER = re.compile(r"[+-]?[0-9]{1,20}")
_HEXADECIMAL = re.compile(r"(?:0[xX])?[0-9a-fA-F]{1,16}")


@dataclass(frozen=True, slots=True)
class AllocationLine:
    """A line about an allocation: its number, its address and its size in bytes."""

    place: Place
    index: int
    base: int
    size: int


@dataclass(frozen=True, slots=True)
class PointerLine:
    """A line about a pointer: ``offset`` bytes into the arguments stands the address ``delta`` bytes into allocation ``index``."""

    place: Place
    offset: int
    index: int
    delta: int


@dataclass(slots=True)
class DirectoryManifest:
    """What a manifest says. ``unknown`` are the first words of lines that are not understood, each with the first place it stands at."""

    kernel: str = ""
    grid: Dim3 = (0, 0, 0)
    block: Dim3 = (0, 0, 0)
    shared_bytes: int = 0
    allocations: list[AllocationLine] = field(default_factory=list)
    pointers: list[PointerLine] = field(default_factory=list)
    unknown: dict[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Line:
    """One line's words, and what they say as numbers."""

    file: str
    number: int
    text: str
    words: list[re.Match[str]]

    def place(self, word: int = 0) -> Place:
        column = self.words[word].start() + 1 if word < len(self.words) else len(self.text) + 1
        return Place(self.file, self.number, column, self.text)

    def wrong(self, word: int, expected: str) -> SourceError:
        found = shown(self.words[word][0]) if word < len(self.words) else "the end of the line"
        return SourceError(f"expected {expected}, found {found}", place=self.place(word))

    def integer(self, word: int, what: str, low: int, high: int) -> int:
        if word < len(self.words) and _INTEGER.fullmatch(self.words[word][0]):
            value = int(self.words[word][0])
            if low <= value <= high:
                return value
        raise self.wrong(word, f"{what}, an integer from {low} to {high}")

    def address(self, word: int, what: str) -> int:
        if word < len(self.words) and _HEXADECIMAL.fullmatch(self.words[word][0]):
            return int(self.words[word][0], 16)
        raise self.wrong(word, f"{what} in hexadecimal")


def parse_manifest(path: str, data: bytes) -> DirectoryManifest:
    """Read a manifest's bytes; ``path`` is for messages. Raises ``SourceError``, or ``SourceErrors`` when there are several."""
    file = path_text(path)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError(
            "the manifest is not UTF-8 text", place=Place(file, line, error.start - data.rfind(b"\n", 0, error.start))
        ) from None
    lines = [_Line(file, number, line, list(_WORD.finditer(line))) for number, line in enumerate(_lines(text), 1)]
    found = DirectoryManifest()
    errors: list[SourceError] = []
    if len(lines) < 2:
        errors.append(
            SourceError("the manifest ends before its second line (the grid and block dimensions)", place=Place(file, len(lines) + 1))
        )
    for line in lines:
        try:
            _take(found, line)
        except SourceError as error:
            errors.append(error)
    if errors:
        raise errors[0] if len(errors) == 1 else SourceErrors(errors)
    return found


def _lines(text: str) -> list[str]:
    # Not splitlines(): form feeds and the like are no line ends here.
    lines = [line.removesuffix("\r") for line in text.removeprefix("\ufeff").split("\n")]
    return lines[:-1] if lines[-1] == "" else lines


def _take(found: DirectoryManifest, line: _Line) -> None:
    word = line.words[0][0] if line.words else ""
    if line.number == 1:
        if len(line.words) < 2:
            raise line.wrong(1, "the kernel's name as the second word")
        fault = name_fault(line.words[1][0])
        if fault:
            raise SourceError(fault, place=line.place(1))
        found.kernel = line.words[1][0]
    elif line.number == 2:
        dims = [line.integer(at, f"the {what} dimension {axis}", 1, (1 << 32) - 1) for at, what, axis in _DIMENSIONS]
        found.grid, found.block = (dims[0], dims[1], dims[2]), (dims[3], dims[4], dims[5])
        if len(line.words) > 7:
            found.shared_bytes = line.integer(7, "the dynamic shared size", 0, (1 << 32) - 1)
    elif word == "alloc":
        index = line.integer(1, "the allocation's number", 0, (1 << 31) - 1)
        base = line.address(2, "the allocation's base")
        found.allocations.append(AllocationLine(line.place(), index, base, line.integer(3, "the allocation's size", 0, ADDRESS_END - base)))
    elif word == "pointer":
        offset = line.integer(1, "the pointer's byte offset", 0, (1 << 31) - 1)
        index = line.integer(2, "the allocation's number", 0, (1 << 31) - 1)
        delta = line.integer(3, "the pointer's distance from the base", 1 - ADDRESS_END, ADDRESS_END - 1)
        found.pointers.append(PointerLine(line.place(), offset, index, delta))
    elif word:
        found.unknown.setdefault(word, line.place())


_DIMENSIONS = [(1 + i + 3 * j, what, "xyz"[i]) for j, what in enumerate(("grid", "block")) for i in range(3)]
