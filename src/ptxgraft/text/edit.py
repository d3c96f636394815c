"""Edits of a document: insert, replace, add at module scope, rename; applied together at the end.

Invariant: bytes outside an edit are the document's own bytes, in order; two edits that touch the same byte are refused when the
second is asked for, and a refused call leaves the script as it was.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise

from ptxgraft.errors import UsageError
from ptxgraft.text.document import Document
from ptxgraft.text.model import Function, Scope, Statement
from ptxgraft.text.rename import NameResolver, rename_spans

_COMMENTS = re.compile(r"(?:[ \t]++|/\*(?:[^*\n]|\*(?!/))*+\*/)*+(?://[^\n]*+)?(?=\r?\n|\Z)")
_AFTER, _RAW, _BEFORE = 0, 1, 2  # at one offset: what follows the statement before it, raw text, what precedes the statement after it


@dataclass(slots=True, order=True)
class _Edit:
    start: int
    end: int
    rank: int
    serial: int
    text: bytes = field(compare=False)
    what: str = field(compare=False)


class EditScript:
    """Collects edits of one document; :meth:`apply` gives the new bytes, the document itself never changes.

    Texts are ``str`` (written as UTF-8). ``insert_*``, ``replace`` and ``add_module_scope`` put a text on lines of its own, at the indentation
    of the statement that it stands beside and with the document's kind of line end; ``replace_span`` takes its text as it is.
    """

    def __init__(self, document: Document) -> None:
        self.document = document
        self.newline = "\r\n" if "\r\n" in document.text else "\n"
        self._edits: list[_Edit] = []
        self._serial = 0
        self._shifts: list[int] | None = None
        self._resolver: NameResolver | None = None
        self._renamed: list[tuple[Scope, str, str]] = []

    # -- edits ----------------------------------------------------------------------------------------------------------------

    def insert_before(self, statement: Statement, text: str) -> None:
        """Put ``text`` on lines of its own right before a statement."""
        at = statement.start
        self._add(at, at, _BEFORE, self._lines(text) + self.newline + self._indent(at), self._named("insertion before", statement))

    def insert_after(self, statement: Statement, text: str) -> None:
        """Put ``text`` on lines of its own after a statement; a comment that ends the statement's line stays with the statement."""
        indent = self._indent(statement.start)
        at = self._after_comment(statement.end)
        end = self.document.line_span(self.document.line(at))[1]
        tail = self.newline + indent if self.document.text[at:end].strip() else ""
        self._add(at, at, _AFTER, self.newline + indent + self._lines(text) + tail, self._named("insertion after", statement))

    def replace(self, first: Statement, last: Statement, text: str) -> None:
        """Replace the region from ``first`` to ``last``, both included, and the comments between them."""
        if last.index < first.index:
            raise UsageError(f"the region's last statement (line {self._line(last)}) stands before its first (line {self._line(first)})")
        text = self._lines(text) if text else text
        if "//" in text.rpartition("\n")[2]:
            text += self.newline  # or the comment would hide what follows on the line
        self._add(first.start, last.end, _RAW, text, f"replacement of lines {self._line(first)} to {self.document.line(last.end - 1)}")

    def replace_span(self, start: int, end: int, text: str) -> None:
        """Replace the bytes ``start`` .. ``end``-1 (none: an insertion) by exactly ``text``."""
        if not 0 <= start <= end <= len(self.document.data):
            raise UsageError(f"bytes {start}..{end} are no span of {self.document.name}", hint=f"it has {len(self.document.data)} bytes")
        self._add(start, end, _RAW, text, "")  # there may be very many: messages say what it is

    def replace_spans(self, spans: Sequence[tuple[int, int, str]]) -> None:
        """``replace_span`` for many spans (start, end, text) at once, given in ascending order and apart from one another."""
        edits = [self._edit(start, end, _RAW, text, "") for start, end, text in spans]
        for a, b in pairwise(edits):
            if b.start < a.end or b.start <= a.start:
                raise UsageError(f"{self.document.name}: the {self._what(b)} overlaps the {self._what(a)}", hint="give the spans in order")
        if edits and (not self._edits or self._edits[-1].end <= edits[0].start > self._edits[-1].start):
            self._shifts = None
            self._edits += edits
        elif edits:
            self._add_all(edits)

    def add_module_scope(self, text: str, before: Function | None = None) -> None:
        """Put ``text`` at module scope before a function, by default before the first one (a module without any: at its end)."""
        functions = self.document.functions
        before = before or (functions[0] if functions else None)
        if before:
            line = self.document.line(before.start)
            self._add(before.start, before.start, _BEFORE, self._lines(text) + self.newline + self._indent(before.start),
                      f"module-scope addition at line {line}")  # fmt: skip
            return
        at = len(self.document.masked.rstrip())
        at = max(at, self._after_comment(at))
        self._add(at, at, _AFTER, self.newline + self._lines(text), f"module-scope addition at line {self.document.line(at)}")

    def rename(self, scope: Scope, old: str, new: str) -> None:
        """Rename what ``scope`` declares as ``old``, there and in nested scopes that do not declare the name again.

        A register, variable, label, parameter or (module scope) function can be renamed; so can a whole range ``%r<N>`` by its base, and
        one member of a range, which gets a declaration of its own. Comments, strings, opcodes and special registers stay. UsageError when
        ``scope`` does not declare ``old`` or when ``new`` is already seen there.
        """
        for other, old_name, new_name in self._renamed:
            if new_name == new and (other.first <= scope.first <= other.last or scope.first <= other.first <= scope.last):
                raise UsageError(f"'{old_name}' and '{old}' cannot both become '{new}'", hint="choose another name for one of them")
        what = f"renaming of '{old}' to '{new}'"
        self._resolver = self._resolver or NameResolver(self.document)
        plan = rename_spans(self._resolver, scope, old, new)
        edits = [self._edit(start, end, _RAW, text, f"{what} at line {self.document.line(start)}") for start, end, text in plan.spans]
        if plan.declaration:
            after, text = plan.declaration
            edits.append(self._edit(after.end, after.end, _AFTER, " " + text, what))
        self._add_all(edits)
        self._renamed.append((scope, old, new))

    # -- results --------------------------------------------------------------------------------------------------------------

    def apply(self) -> bytes:
        """The new text. Without edits it is the document's own bytes."""
        data, at = self.document.data, 0
        pieces: list[bytes] = []
        for e in self._edits:
            pieces += (data[at : e.start], e.text)
            at = e.end
        pieces.append(data[at:])
        return b"".join(pieces)

    def to_new(self, offset: int) -> int:
        """Where a byte of the document is in the new text. A replaced byte maps to the start of what replaces it."""
        i = bisect_right(self._edits, offset, key=lambda e: e.start)
        if i and offset < self._edits[i - 1].end:
            return self._edits[i - 1].start + self._sums()[i - 1]
        return offset + self._sums()[i]

    def to_old(self, offset: int) -> int:
        """Where a byte of the new text was in the document. An inserted byte maps to the place where it was inserted."""
        shifts = self._sums()
        i = bisect_right(range(len(self._edits)), offset, key=lambda k: self._edits[k].start + shifts[k])
        if i and offset < self._edits[i - 1].start + shifts[i - 1] + len(self._edits[i - 1].text):
            return self._edits[i - 1].start
        return offset - shifts[i]

    def __len__(self) -> int:
        return len(self._edits)

    # -- inside ---------------------------------------------------------------------------------------------------------------

    def _sums(self) -> list[int]:
        """For every edit, how far the edits before it move what follows; one more value for the end of the text."""
        if self._shifts is None:
            self._shifts = [0, *accumulate(len(e.text) - (e.end - e.start) for e in self._edits)]
        return self._shifts

    def _edit(self, start: int, end: int, rank: int, text: str, what: str) -> _Edit:
        self._serial += 1
        return _Edit(start, end, rank, self._serial, text.encode("utf-8"), what)

    def _add(self, start: int, end: int, rank: int, text: str, what: str) -> None:
        self._add_all([self._edit(start, end, rank, text, what)])

    def _add_all(self, edits: list[_Edit]) -> None:
        if len(edits) == 1 and (not self._edits or self._edits[-1].end <= edits[0].start > self._edits[-1].start):
            self._shifts = None
            self._edits += edits  # behind all others: as a walk through the document makes them
            return
        for e in edits:
            clash = self._clash(e)
            if clash:
                raise UsageError(
                    f"{self.document.name}: the {self._what(e)} overlaps the {self._what(clash)}",
                    hint="make the edits one, or move one of them",
                )
        self._shifts = None
        if len(edits) == 1:
            insort(self._edits, edits[0])
        else:
            self._edits += edits
            self._edits.sort()

    def _what(self, edit: _Edit) -> str:
        return edit.what or f"edit of bytes {edit.start}..{edit.end} at line {self.document.line(edit.start)}"

    def _clash(self, edit: _Edit) -> _Edit | None:
        """An edit that shares a byte with this one, or that one of the two inserts inside of.

        Edits in the script are sorted and disjoint, so their ends ascend too: the last that begins before this one's end decides.
        """
        i = bisect_left(self._edits, edit.end, key=lambda e: e.start)
        return self._edits[i - 1] if i and self._edits[i - 1].end > edit.start else None

    def _lines(self, text: str) -> str:
        text = text.lstrip(" \t").rstrip("\r\n")
        return text.replace("\r\n", "\n").replace("\n", self.newline) if self.newline == "\r\n" else text

    def _indent(self, at: int) -> str:
        before = self.document.text[self.document.line_span(self.document.line(at))[0] : at]
        return "" if before.strip(" \t") else before

    def _after_comment(self, at: int) -> int:
        """``at``, or the end of its line when only blanks and whole comments follow there."""
        m = _COMMENTS.match(self.document.text, at)
        if m is None or "/" not in m.group():
            return at
        return min(m.end(), self.document.line_span(self.document.line(at))[1])

    def _line(self, statement: Statement) -> int:
        return self.document.line(statement.start)

    def _named(self, what: str, statement: Statement) -> str:
        return f"{what} line {self._line(statement)}"
