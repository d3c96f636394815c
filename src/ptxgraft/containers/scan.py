"""Everything in a file that is PTX: members of fat binaries, wherever they lie, and plain texts.

Invariant: a byte range is found once; a text counts as PTX when it parses as a module, a member of a fat binary because it says so.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ptxgraft.containers.fatbin import CUBIN, PTX, FatBinary, fat_binaries, unpacked
from ptxgraft.errors import PtxgraftError, SourceError
from ptxgraft.text import Document

KINDS = ((b"\x7fELF", "ELF"), (b"MZ", "PE"), (b"\x50\xed\x55\xba", "fat binary"), (b"!<arch>\n", "archive"))
CUDA_MACHINE = 190
"""``e_machine`` of a cubin (EM_CUDA)."""

_TEXT = re.compile(rb"\.version[ \t]+\d{1,2}\.\d{1,2}\s[\t\n\r\x20-\x7e\x80-\xff]*")
_COMMENTS = re.compile(rb"(?:[ \t\r]*(?://[^\n\0]*)?\n)*\Z")
HEAD = 4096
"""Bytes before ``.version`` in which a text's opening comment is looked for."""
_TARGET = re.compile(rb"\.target[ \t]+sm_\d+")


@dataclass(frozen=True, slots=True)
class Found:
    """One PTX module: its bytes, and where it was. ``where`` is ``fat binary`` or ``text``; ``offset`` its place in the file; ``target`` and
    ``version`` are the text's own (else what the fat binary says); ``entries`` names what it defines; ``problem`` why it does not parse, ''."""

    data: bytes
    where: str
    offset: int
    compression: str
    name: str
    version: str
    target: str
    entries: tuple[str, ...]
    problem: str


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, and where."""

    offset: int
    text: str


@dataclass(frozen=True, slots=True)
class Extraction:
    """What is in one file. ``kind``: ELF, cubin, PE, fat binary, archive, text or data. ``cubins`` counts machine code that has no text here."""

    path: Path
    kind: str
    modules: tuple[Found, ...]
    cubins: int
    problems: tuple[Problem, ...]


def module_hashes(data: bytes) -> tuple[str, str]:
    """SHA-256 and FNV-1a 64 of a module's bytes, in hexadecimal: what names it everywhere."""
    fnv = 0xCBF29CE484222325
    for byte in data:
        fnv = ((fnv ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return hashlib.sha256(data).hexdigest(), f"{fnv:016x}"


def extract(path: Path) -> Extraction:
    """All PTX in a file, in order. Raises ``SourceError`` when the file cannot be read; whatever is wrong inside is listed under ``problems``."""
    try:
        with path.open("rb") as file:
            if path.stat().st_size == 0 and path.is_file():
                return Extraction(path, "data", (), 0, ())
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _extraction(path, data)
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from error


def _extraction(path: Path, data: mmap.mmap) -> Extraction:
    binaries = list(fat_binaries(data, 0, len(data)))  # pyright: ignore[reportArgumentType]
    modules: list[Found] = []
    problems: list[Problem] = []
    cubins = 0
    for binary in binaries:
        cubins += sum(member.kind == CUBIN for member in binary.members)
        _members(data, binary, modules, problems)
    for at, text in _texts(data, binaries):
        found = _module(text, "text", at, "", "", "", "")
        if found.problem or not (found.entries or b".func" in text):
            problems.append(Problem(at, f"what looks like PTX is none: {found.problem or 'it defines nothing'}"))
        else:
            modules.append(found)
    modules.sort(key=lambda m: m.offset)
    problems.sort(key=lambda p: p.offset)
    return Extraction(path, _kind(data, modules), tuple(modules), cubins, tuple(problems))


def _kind(data: mmap.mmap, modules: list[Found]) -> str:
    kind = next((name for magic, name in KINDS if data[: len(magic)] == magic), "data")
    if kind == "ELF" and int.from_bytes(data[18:20], "little") == CUDA_MACHINE:
        return "cubin"
    whole = len(modules) == 1 and len(modules[0].data) == len(data)
    return "text" if kind == "data" and whole else kind


def _members(data: mmap.mmap, binary: FatBinary, modules: list[Found], problems: list[Problem]) -> None:
    if binary.problem:
        problems.append(Problem(binary.offset, binary.problem))
    for member in binary.members:
        if member.kind != PTX:
            continue
        try:
            text = unpacked(data, member)  # pyright: ignore[reportArgumentType]
        except SourceError as error:
            problems.append(Problem(member.offset, str(error)))
            continue
        version, target = ".".join(map(str, member.version)), f"sm_{member.target}"
        modules.append(_module(text, "fat binary", member.offset, member.compression, member.name, version, target))


def _texts(data: mmap.mmap, binaries: list[FatBinary]) -> Iterator[tuple[int, bytes]]:
    """Runs of text outside fat binaries with ``.version`` and ``.target`` in them, with the comments that stand before."""
    inside = iter([*binaries, None])
    binary = next(inside)
    at = 0
    while found := _TEXT.search(data, at):
        start, at = found.span()
        while binary is not None and binary.end <= start:
            binary = next(inside)
        if binary is not None and binary.offset <= start:
            at = binary.end
            continue
        if not _TARGET.search(data, start, min(start + HEAD, at)):
            at = start + 1
            continue
        head = max(0, start - HEAD)
        before = _COMMENTS.search(data[head:start])
        start = head + before.start() if before else start
        yield start, data[start:at]


def _module(text: bytes, where: str, offset: int, compression: str, name: str, version: str, target: str) -> Found:
    try:
        document = Document.parse(text, name or f"module at {offset:#x}")
        entries = tuple(e.name for e in document.entries)
        problem = ""
        version = ".".join(map(str, document.version)) if any(document.version) else version
        target = ", ".join(document.target) or target
    except PtxgraftError as error:
        entries, problem = (), str(error).splitlines()[0]
    return Found(text, where, offset, compression, name, version, target, entries, problem)
