"""A PTX text, lossless: its bytes, and the statements, scopes and functions in them.

Invariant: ``Document.print()`` is the input, byte for byte; facts about a document live beside it, never in it.
"""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from difflib import get_close_matches
from pathlib import Path

from ptxgraft.errors import Place, SourceError, SourceErrors, UsageError
from ptxgraft.text.lines import Lines
from ptxgraft.text.model import Function, Scope, Statement
from ptxgraft.text.scan import scan

_BINARIES = {b"\x7fELF": "an ELF file (a cubin or a library)", b"\x50\xed\x55\xba": "a fat binary", b"MZ": "a Windows program or DLL"}


class Document:
    """One parsed PTX text. Make it with :meth:`parse` or :meth:`read`.

    ``text`` is ``data`` as latin-1, so that string offsets are byte offsets; ``masked`` is the same with comments and string contents
    blanked out. ``directives`` lists the statement indices of each directive word except '.loc' and section data.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name, self.data = name, data
        self.text = data.decode("latin-1")
        self.lines = Lines(self.text, name)
        found = scan(self.text, self.lines)
        self.masked = found.masked
        self.statements: list[Statement] = found.statements
        self.scopes: list[Scope] = found.scopes
        self.functions: list[Function] = found.functions
        self.directives: dict[str, list[int]] = found.directives
        self.version: tuple[int, int] = found.version or (0, 0)
        self.target: tuple[str, ...] = found.target
        self.address_size: int = found.address_size
        self.errors: list[SourceError] = found.errors
        self._starts: list[int] | None = None

    @classmethod
    def parse(cls, data: bytes | str, name: str = "<ptx>", strict: bool = True) -> Document:
        """Parse a whole module; a ``str`` is taken as UTF-8.

        ``strict``: one error raises SourceError, several raise SourceErrors with all of them in file order. Otherwise they are kept in
        ``errors`` and the document holds every statement that could be read.
        """
        document = cls(data.encode("utf-8") if isinstance(data, str) else bytes(data), name)
        if strict and document.errors:
            raise document.errors[0] if len(document.errors) == 1 else SourceErrors(document.errors)
        return document

    @classmethod
    def read(cls, path: str | os.PathLike[str], strict: bool = True) -> Document:
        """Parse a file. A missing file, a directory, an empty file and a file that is no PTX text are one SourceError each."""
        path = Path(path)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise SourceError(f"{path}: no such file") from None
        except IsADirectoryError:
            raise SourceError(f"{path}: is a directory", hint="name a PTX file in it") from None
        except OSError as e:
            raise SourceError(f"{path}: cannot be read ({e.strerror})") from None
        except ValueError as e:  # a name with a null character in it
            raise SourceError(f"{str(path)!r}: cannot be read ({e})") from None
        if not data.strip(b" \t\r\n\f\v\0"):
            raise SourceError(f"{path}: the file is empty", hint="expected a PTX module, which begins with '.version'")
        for magic, what in _BINARIES.items():
            if data.startswith(magic):
                raise SourceError(f"{path}: is {what}, not a PTX text", hint="extract the PTX from it first")
        if b"\0" in data.rstrip(b"\0"):
            raise SourceError(f"{path}: is a binary file, not a PTX text", hint="name a PTX file")
        if b".version" not in data:
            raise SourceError(f"{path}: is not a PTX text: no '.version' directive", hint="name a PTX file")
        return cls.parse(data, str(path), strict)

    # -- finding things -------------------------------------------------------------------------------------------------------

    @property
    def entries(self) -> list[Function]:
        """The entries that have a body, in file order."""
        return [f for f in self.functions if f.kind == "entry" and f.body is not None]

    def entry(self, name: str) -> Function:
        """The entry of exactly this name. UsageError with the nearest names when there is none."""
        return _named(name, self.entries, "entry", self.name)

    def function(self, name: str) -> Function:
        """The entry or function of exactly this name; a definition is preferred to a declaration."""
        return _named(name, sorted(self.functions, key=lambda f: f.body is None), "function", self.name)

    def function_of(self, statement: Statement) -> Function | None:
        """The function whose body, braces included, holds the statement."""
        index = self.scopes[statement.scope].function
        return self.functions[index] if index >= 0 else None

    def line(self, offset: int) -> int:
        """The 1-based file line of a byte offset."""
        return self.lines.line(offset)

    def column(self, offset: int) -> int:
        """The 1-based column of a byte offset, in characters."""
        return self.lines.column(offset)

    def place(self, where: int | Statement) -> Place:
        """The place of a byte offset or of a statement's first byte, for messages."""
        return self.lines.place(where.start if isinstance(where, Statement) else where)

    def line_span(self, line: int) -> tuple[int, int]:
        """Byte span of a 1-based line without its line end. UsageError when the file has no such line."""
        try:
            return self.lines.span(line)
        except IndexError:
            raise UsageError(f"{self.name} has no line {line}", hint=f"its lines are 1 to {len(self.lines.starts)}") from None

    def statements_at_line(self, line: int) -> list[Statement]:
        """The statements that have a byte on a 1-based line, in order; one that began on an earlier line is included."""
        start, end = self.line_span(line)
        if self._starts is None:
            self._starts = [s.start for s in self.statements]
        first = bisect_left(self._starts, start)
        if first and self.statements[first - 1].end > start:
            first -= 1
        return self.statements[first : bisect_right(self._starts, max(end - 1, start))]

    # -- texts ----------------------------------------------------------------------------------------------------------------

    def print(self) -> bytes:
        """The document's bytes: its input."""
        return self.data

    def source(self, statement: Statement) -> str:
        """A statement's own text, as written, comments inside it included."""
        return self.text[statement.start : statement.end]


def _named(name: str, functions: list[Function], kind: str, file: str) -> Function:
    for function in functions:
        if function.name == name:
            return function
    names = list(dict.fromkeys(f.name for f in functions))
    wanted = name.lower()
    close = get_close_matches(wanted, [n.lower() for n in names], 3)
    # Names are mangled and long: one that holds what was asked for is nearer than one that is spelt alike.
    near = [n for n in names if wanted and wanted in n.lower()] + [n for c in close for n in names if n.lower() == c]
    near = list(dict.fromkeys(near))[:3] or names[:3]
    hint = f"did you mean {', '.join(repr(n) for n in near)}?" if near else f"it defines no {kind}"
    raise UsageError(f"{file} has no {kind} '{name}'", hint=hint)
