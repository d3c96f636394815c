"""Byte offsets to file lines and places.

Invariant: lines are 1-based and end at ``\\n`` only, so that the numbers agree with ptxas, editors and recipe files, whatever the
bytes before the line end are.
"""

from __future__ import annotations

import re
from bisect import bisect_right

from ptxgraft.errors import Place

_NEWLINE = re.compile("\n")


class Lines:
    """The line table of one text; ``text`` holds one character per byte (latin-1)."""

    __slots__ = ("_last", "_starts", "name", "text")

    def __init__(self, text: str, name: str) -> None:
        self.text, self.name = text, name
        self._starts: list[int] | None = None
        self._last: tuple[int, str] = 0, ""

    @property
    def starts(self) -> list[int]:
        """Offset of the first byte of every line; made on first use."""
        if self._starts is None:
            self._starts = [0, *(m.end() for m in _NEWLINE.finditer(self.text))]
        return self._starts

    def line(self, offset: int) -> int:
        """The 1-based line that holds the byte at ``offset``; an offset past the end belongs to the last line."""
        return bisect_right(self.starts, max(offset, 0))

    def column(self, offset: int) -> int:
        """The 1-based column of the byte at ``offset``, counted in characters (a UTF-8 sequence in a comment is one)."""
        start = self.starts[self.line(offset) - 1]
        return len(_decode(self.text[start:offset])) + 1

    def character(self, offset: int) -> str:
        """The character at ``offset``, '\\ufffd' when its bytes are no UTF-8."""
        return _decode(self.text[offset : offset + 4])[0]

    def span(self, line: int) -> tuple[int, int]:
        """Byte span of a line without its line end. Raises IndexError outside 1..number of lines."""
        starts = self.starts
        if not 1 <= line <= len(starts):
            raise IndexError(line)
        start = starts[line - 1]
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        if end > start and self.text[end - 1] == "\r":
            end -= 1
        return start, end

    def place(self, offset: int) -> Place:
        """The place of a byte, with its source line for the caret."""
        line = self.line(offset)
        if self._last[0] != line:  # a thousand errors on one endless line share its text
            start, end = self.span(line)
            self._last = line, _decode(self.text[start:end])
        return Place(self.name, line, self.column(min(offset, len(self.text))), self._last[1])


def _decode(latin: str) -> str:
    return latin if latin.isascii() else latin.encode("latin-1").decode("utf-8", "replace")
