"""Rows under column heads, on a terminal of any width and in a pipe.

Invariant: no cell is cut short: what does not fit beside the others goes below its row; a line never ends in blanks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions
from rich.text import Text

GAP = "  "
INDENT = "    "
NARROWEST = 24
"""Columns that the last cell of a line needs before it is wrapped rather than put below."""


class Listing:
    """A table without lines. A column whose name starts with ``>`` is right-aligned; one that starts with ``+`` is a detail: where a row does not fit, its
    details go below it as ``name: text``. The last column that is no detail may be wrapped."""

    def __init__(self, *columns: str, title: str = "") -> None:
        self.title = title
        self.right = [">" in name[:2] for name in columns]
        self.detail = ["+" in name[:2] for name in columns]
        self.heads = [name.lstrip(">+") for name in columns]
        self.rows: list[tuple[str, ...]] = []

    def add_row(self, *cells: str) -> None:
        """One cell for each column; runs of blanks in it become one."""
        assert len(cells) == len(self.heads), f"{len(cells)} cells for {len(self.heads)} columns"
        self.rows.append(tuple(" ".join(cell.split()) for cell in cells))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        if self.title:
            yield Text(self.title, style="italic")
        for number, line in enumerate(self.lines(options.max_width)):
            yield Text(line, style="bold" if number == 0 else "", overflow="fold")

    def lines(self, width: int) -> list[str]:
        """The head and the rows as lines, of at most ``width`` columns where the columns before the last leave room."""
        sizes = [max(cell_len(c) for c in column) for column in zip(self.heads, *self.rows, strict=True)]
        everything = list(range(len(self.heads)))
        if sum(sizes) + len(GAP) * (len(sizes) - 1) <= width:
            return [self._line(cells, everything, sizes) for cells in (self.heads, *self.rows)]
        beside = [i for i in everything if not self.detail[i]]
        lines = self._wrapped(self.heads, beside, sizes, width)
        for cells in self.rows:
            lines += self._wrapped(cells, beside, sizes, width) + self._below(cells, width)
        return lines

    def _line(self, cells: Sequence[str], columns: list[int], sizes: list[int]) -> str:
        return GAP.join(_padded(cells[i], sizes[i], self.right[i]) for i in columns).rstrip()

    def _wrapped(self, cells: Sequence[str], columns: list[int], sizes: list[int], width: int) -> list[str]:
        """The cells side by side, the last one wrapped in what is left of the width."""
        last = columns[-1]
        lead = "".join(_padded(cells[i], sizes[i], self.right[i]) + GAP for i in columns[:-1])
        if self.right[last]:
            return [self._line(cells, columns, sizes)]
        room = width - cell_len(lead)
        pieces = wrapped(cells[last], max(room, NARROWEST))
        return [(lead + "".join(pieces[:1])).rstrip(), *(" " * cell_len(lead) + p for p in pieces[1:])]

    def _below(self, cells: Sequence[str], width: int) -> list[str]:
        details = [f"{self.heads[i]}: {cells[i]}" for i in range(len(cells)) if self.detail[i] and cells[i]]
        return [INDENT + line for line in wrapped("; ".join(details), max(width - len(INDENT), NARROWEST))] if details else []


def _padded(text: str, size: int, right: bool) -> str:
    blanks = " " * (size - cell_len(text))
    return blanks + text if right else text + blanks


def wrapped(text: str, width: int) -> list[str]:
    """Text broken at blanks into lines of at most ``width`` columns; a longer word is broken too."""
    lines: list[str] = []
    for word in text.split():
        if lines and cell_len(lines[-1]) + 1 + cell_len(word) <= width:
            lines[-1] += " " + word
            continue
        lines.append("")
        for character in word:
            if cell_len(lines[-1]) + cell_len(character) > width:
                lines.append("")
            lines[-1] += character
    return lines
