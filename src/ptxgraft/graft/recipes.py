"""Applying a recipe file: its edit of one entry, found by name in a folder of modules.

Invariant: every byte but the replaced lines, the text put in and the extern's is the module's own, and every statement outside reads as it did; the result
parses and its registers exist, or nothing comes out.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path
from typing import Any

from ptxgraft.errors import SourceError, UnsupportedError, UsageError
from ptxgraft.graft.probes import Probe
from ptxgraft.graft.probing import probe
from ptxgraft.graft.recipe_file import RecipeFile, called, recipe_file, shown
from ptxgraft.isa import bind
from ptxgraft.text import Document, EditScript, Function, Statement, is_number, register_declarations
from ptxgraft.text.mask import mask

KEYS = ("file", "cut_call", "extern", "call", "debug", "debug_block")
REGISTER_LISTS = ("A_REGS", "C_REGS", "RET_REGS")


@dataclass(slots=True, eq=False)
class Applied:
    """A module that a recipe edited. ``kind``: ``cut`` or ``debug``; ``lines``: the first and last line replaced, or twice the line that the probe
    stands after; ``registers``: those of the probe; ``probe``: only where the recipe left its text to us; ``attributes``: what the recipe says of itself.
    """

    recipe: Path
    module: Path
    entry: str
    kind: str
    lines: tuple[int, int]
    registers: list[str]
    original: Document
    document: Document
    attributes: dict[str, Any]
    notes: list[str] = field(default_factory=list)
    probe: Probe | None = None

    @property
    def text(self) -> bytes:
        """The new module."""
        return self.document.data


def apply(recipe: str | os.PathLike[str], corpus: str | os.PathLike[str], anyway: bool = False) -> Applied:
    """Run a recipe file, which is Python of its author's, and make the edit that it asks for in the module of ``corpus`` that defines its entry.

    The module is the one file of the folder with an entry of exactly that name. SourceError when the recipe fails or does not fit the module: lines
    outside the entry's body, registers that are not declared, a text that does not parse. UsageError when no module, or more than one, has the entry. ``anyway``: names and operands
    that ptxgraft cannot read in the new text are a note instead, since translators accept forms of their own.
    """
    with recipe_file(Path(recipe)) as read:
        unknown = [str(k) for k in read.steps if k not in KEYS]
        notes = [f"keys of the recipe that are not known are left alone: {', '.join(unknown)}"] if unknown else []
        path, document = _module(Path(corpus), read, notes)
        notes += _unknown_registers(document, read)
        applied = _debug(read, path, document, anyway) if _given(read, "debug") else _cut(read, path, document, anyway)
    applied.notes[:0] = notes
    return applied


def _given(read: RecipeFile, key: str) -> bool:
    return read.steps.get(key) is not None


# -- the module -----------------------------------------------------------------------------------------------------------------


def _module(corpus: Path, read: RecipeFile, notes: list[str]) -> tuple[Path, Document]:
    """The one module of the folder that defines the recipe's entry."""
    if not corpus.is_dir():
        raise UsageError(f"{corpus}: no such folder", hint="give the folder that holds the modules")
    found: list[tuple[Path, Document]] = []
    for path, data in _texts_naming(corpus, read.entry.encode(), notes):
        document = Document.parse(data, str(path), strict=False)
        times = sum(e.name == read.entry for e in document.entries)
        if times > 1:
            raise SourceError(f"{path}: the entry {read.entry!r} stands in it {times} times", hint="leave one")
        if times:
            found.append((path, document))
    if not found:
        raise UsageError(
            f"no file of {corpus} defines the entry {read.entry!r} of {read.path}", hint="`ptxgraft ls FILE` lists the entries of a module"
        )
    if len(found) > 1:
        files = ", ".join(str(p) for p, _ in found)
        raise UsageError(f"{len(found)} files define the entry {read.entry!r}: {files}", hint="leave one of them in the folder")
    path, document = found[0]
    if document.errors:
        Document.parse(document.data, document.name)  # raises them
    hint = read.steps.get("file")
    if isinstance(hint, str) and Path(hint).name != path.name:
        notes.append(f"the recipe speaks of {hint}; the entry is in {path.name}")
    return path, document


def _texts_naming(corpus: Path, entry: bytes, notes: list[str]) -> Iterator[tuple[Path, bytes]]:
    """The folder's texts that hold an entry's name; binaries, which may hold one too, are left alone."""
    for path in sorted(corpus.iterdir()):
        if not path.is_file() or not path.stat().st_size:
            continue
        try:
            with path.open("rb") as file, mmap(file.fileno(), 0, access=ACCESS_READ) as contents:
                if contents.find(entry) < 0 or contents.find(b".entry") < 0:
                    continue
                data = contents[:]
        except OSError as error:
            notes.append(f"{path} cannot be read ({error.strerror}): not looked into")
            continue
        if b"\0" not in data.rstrip(b"\0"):
            yield path, data


def _unknown_registers(document: Document, read: RecipeFile) -> list[str]:
    """Notes on registers that the recipe's attributes name and the entry does not declare."""
    entry = document.entry(read.entry)
    scopes = [
        s
        for s in document.scopes
        if entry.scope >= 0 and document.scopes[entry.scope].first <= s.first <= document.scopes[entry.scope].last
    ]
    known = _Declared(document, scopes)
    notes: list[str] = []
    for attribute in REGISTER_LISTS:
        names = read.attributes.get(attribute)
        wrong = [n for n in names if isinstance(n, str) and n not in known] if isinstance(names, list) else []
        if wrong:
            notes.append(f"{attribute} names {', '.join(wrong[:8])}, which {read.entry!r} does not declare")
    return notes


class _Declared:
    """The register names that some scopes declare."""

    def __init__(self, document: Document, scopes: list) -> None:
        declared = [d for s in scopes for d in register_declarations(document, s)]
        self.names = {d.base for d in declared if d.size is None}
        self.ranges = [(d.base, d.size) for d in declared if d.size is not None]

    def __contains__(self, name: str) -> bool:
        return name in self.names or any(
            name.startswith(base) and is_number(digits := name[len(base) :]) and int(digits) < size for base, size in self.ranges
        )


# -- edits ----------------------------------------------------------------------------------------------------------------------


def _cut(read: RecipeFile, path: Path, document: Document, anyway: bool) -> Applied:
    if not _given(read, "cut_call"):
        raise read.error("recipe() asks for nothing", "it returns cut_call and call, or debug")
    first, after = _numbers(read, "cut_call", "(first, after)")
    call = _text(read, "call")
    if not first < after:
        raise read.error(f"cut_call ({first}, {after}) holds no line", "lines first .. after-1 are replaced")
    start, end = _line_start(read, document, first), _line_start(read, document, after)
    _check_inside(read, document, start, first)
    _check_inside(read, document, end, after - 1)
    script = EditScript(document)
    notes = _add_extern(read, script)
    script.replace_span(start, end, _lines(call, script.newline))
    new = _checked(read, document, script, (start, end), notes, anyway)
    return Applied(read.path, path, read.entry, "cut", (first, after - 1), [], document, new, read.attributes, notes)


def _debug(read: RecipeFile, path: Path, document: Document, anyway: bool) -> Applied:
    value = read.steps["debug"]
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise read.error(f"debug is {shown(value)!r}", "it is (line, [registers])")
    line, registers = _number(read, value[0], "debug"), value[1]
    if not isinstance(registers, list | tuple) or not registers or not all(isinstance(r, str) for r in registers):
        raise read.error(f"debug names the registers {shown(registers)!r}", "it is (line, [registers]), at least one")
    _line_start(read, document, line)
    at = _line_start(read, document, line + 1)
    _check_inside(read, document, at, line)
    _check_registers(read, document, at, line, list(registers))
    script = EditScript(document)
    notes = ["the recipe has a cut and a debug stage: this is the debug stage, the cut is left out"] if _given(read, "cut_call") else []
    made = None
    if _given(read, "debug_block"):
        notes += _add_extern(read, script)
        if not callable(read.steps["debug_block"]):
            raise read.error("debug_block is no function", "it is called with the register list and returns the probe's text")
        text = called(read.path, read.steps["debug_block"], list(registers))
        if not isinstance(text, str):
            raise read.error("debug_block returned no text", "it is called with the register list and returns the probe's text")
        script.replace_span(at, at, _lines(_encodable(read, "debug_block's text", text), script.newline))
        new = _checked(read, document, script, (at, at), notes, anyway)
    else:
        made = probe(document, read.entry, line, list(registers))
        new = made.document
        notes += ["the recipe gives no debug_block: the probe is ptxgraft's own, with two parameters added to the entry", *made.notes]
    return Applied(read.path, path, read.entry, "debug", (line, line), list(registers), document, new, read.attributes, notes, made)


def _text(read: RecipeFile, key: str) -> str:
    value = read.steps.get(key)
    if not isinstance(value, str):
        raise read.error(f"{key} is {'missing' if value is None else 'no text'}", f"recipe() returns {key} as a str")
    return _encodable(read, key, value)


def _encodable(read: RecipeFile, key: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise read.error(
            f"{key} holds {text[error.start]!r}, which no file can hold",
            "a module read with surrogateescape gives such letters: leave them out",
        ) from None
    return text


def _numbers(read: RecipeFile, key: str, form: str) -> tuple[int, int]:
    value = read.steps[key]
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise read.error(f"{key} is {shown(value)!r}", f"it is {form}, 1-based file lines")
    return _number(read, value[0], key), _number(read, value[1], key)


def _number(read: RecipeFile, value: Any, key: str) -> int:
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise read.error(f"{key} holds {shown(value)!r} where a line number belongs", "lines are whole numbers from 1")
    return int(value.__index__())


def _line_start(read: RecipeFile, document: Document, line: int) -> int:
    """Where a line begins; the line behind the last is the end of the text."""
    lines = document.lines.starts
    if 1 <= line <= len(lines):
        return document.line_span(line)[0]
    if line == len(lines) + 1:
        return len(document.data)
    raise read.error(f"{document.name} has no line {line}", f"its lines are 1 to {len(lines)}")


def _check_inside(read: RecipeFile, document: Document, at: int, line: int) -> None:
    """The place is inside the entry's body, and in no statement or comment."""
    entry = document.entry(read.entry)
    opened, closed = _braces(document, entry)
    if not opened.end <= at <= closed.start:
        first, last = document.line(opened.start) + 1, document.line(closed.start) - 1
        raise read.error(f"line {line} of {document.name} is outside the body of {read.entry!r}", f"its lines are {first} to {last}")
    before = [s for s in document.statements_at_line(min(document.line(at), len(document.lines.starts))) if s.start < at < s.end]
    if before:
        span = document.line(before[0].start), document.line(before[0].end - 1)
        raise read.error(
            f"line {line} of {document.name} lies within a statement", f"it stands on lines {span[0]} to {span[1]}: name whole statements"
        )
    if not mask(document.text[:at], lambda *_: None)[1]:
        raise read.error(f"line {line} of {document.name} is within a comment", "name lines outside it")


def _braces(document: Document, entry: Function) -> tuple[Statement, Statement]:
    scope = document.scopes[entry.scope]
    return document.statements[scope.first], document.statements[scope.last]


def _check_registers(read: RecipeFile, document: Document, at: int, line: int, names: list[str]) -> None:
    """Names are registers that are declared where the probe goes."""
    opened, closed = _braces(document, document.entry(read.entry))
    around = [s for s in document.scopes if document.statements[s.first].start < at <= document.statements[s.last].start and s.index]
    around = [s for s in around if opened.index <= s.first <= closed.index]
    known = _Declared(document, around)
    wrong = [n for n in names if n not in known]
    if wrong:
        raise read.error(f"{', '.join(wrong[:8])}: not declared at line {line} of {document.name}", "name registers of the entry")


def _lines(text: str, newline: str) -> str:
    text = text.replace("\r\n", "\n")
    return (text if text.endswith("\n") or not text else text + "\n").replace("\n", newline)


def _add_extern(read: RecipeFile, script: EditScript) -> list[str]:
    if not _given(read, "extern"):
        return []
    text, document = _text(read, "extern"), script.document
    if not text.strip():
        return []
    if " ".join(text.split()) in " ".join(document.text.split()):
        return ["the module has the recipe's extern already: it is not put in again"]
    script.add_module_scope(text, document.entry(read.entry))
    return []


# -- checks ---------------------------------------------------------------------------------------------------------------------


def _checked(
    read: RecipeFile, document: Document, script: EditScript, replaced: tuple[int, int], notes: list[str], anyway: bool
) -> Document:
    """The new text, parsed: nothing outside the edit reads otherwise than before, and its registers exist."""
    new = Document.parse(script.apply(), f"{document.name} edited by {read.path.name}")
    mine = [(s, s.start) for s in document.statements if not replaced[0] <= s.start < replaced[1]]
    theirs = {s.start: s for s in new.statements}
    for statement, start in mine:
        found = theirs.get(script.to_new(start))
        if found is None or _said(found) != _said(statement):
            place = document.place(statement)
            raise SourceError(
                "with the recipe's text this statement is not read as before", place=place,
                hint=f"a brace or a comment of {read.path} does not close, or the place is within a comment",
            )  # fmt: skip
    try:
        bind(new, read.entry)
    except (SourceError, UnsupportedError) as error:
        if not anyway and isinstance(error, SourceError) and _binds(document, read.entry):
            raise
        notes.append(f"not checked further: {error}")
    return new


def _binds(document: Document, entry: str) -> bool:
    """Whether ptxgraft knows every name of the module as it was."""
    try:
        bind(document, entry)
    except (SourceError, UnsupportedError):
        return False
    return True


def _said(statement: Statement) -> tuple[Any, str, str, str]:
    return statement.kind, statement.opcode, statement.guard, statement.operands
