"""Listings: everything on one line where it fits, details below where it does not, nothing cut short."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from ptxgraft.report import Listing
from ptxgraft.report.listing import wrapped


def sample() -> Listing:
    made = Listing(">line", "+A", "+>weights", "entry")
    made.add_row("7", "16 weights", "4,096", "enc4")
    made.add_row("1200", "2 constant", "8", "dec0")
    return made


def printed(listing: Listing, width: int) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(listing)
    return stream.getvalue()


def test_wide_enough_everything_is_side_by_side():
    assert sample().lines(80) == [
        "line  A           weights  entry",
        "   7  16 weights    4,096  enc4",
        "1200  2 constant        8  dec0",
    ]  # fmt: skip


def test_too_narrow_details_go_below():
    assert sample().lines(31) == [
        "line  entry",
        "   7  enc4",
        "    A: 16 weights; weights:",
        "    4,096",
        "1200  dec0",
        "    A: 2 constant; weights: 8",
    ]  # fmt: skip


def test_the_last_column_is_wrapped_under_itself():
    made = Listing(">after phase", "what")
    made.add_row("3", "row RMS norm (32 squares, 4 root); requantisation to e4m3")
    assert made.lines(50) == [
        "after phase  what",
        "          3  row RMS norm (32 squares, 4 root);",
        "             requantisation to e4m3",
    ]  # fmt: skip


def test_empty_details_take_no_line_and_no_line_ends_in_blanks():
    made = Listing("name", "+note")
    made.add_row("a" * 30, "")
    made.add_row("b", "long " * 10)
    pair = Listing("name", "rest")
    pair.add_row("b", "")
    pair.add_row("a" * 20, "long " * 10)
    assert pair.lines(50)[1] == "b"
    assert made.lines(34)[1:3] == ["a" * 30, "b"]
    assert all(line == line.rstrip() for width in (10, 34, 200) for line in made.lines(width))


def test_a_title_and_a_head_come_first():
    made = Listing("a", "b", title="things")
    made.add_row("1", "2")
    assert printed(made, 80) == "things\na  b\n1  2\n"
    assert printed(Listing("a", title="none"), 80) == "none\na\n"


def test_rows_have_a_cell_for_each_column():
    with pytest.raises(AssertionError, match="1 cells for 2 columns"):
        Listing("a", "b").add_row("1")


@given(st.lists(st.tuples(st.text("abc de", max_size=60), st.text("xy z.", max_size=60)), max_size=5), st.integers(24, 120))
def test_no_line_is_wider_than_asked_and_no_letter_is_lost(rows, width):
    made = Listing("+one", "two")
    for row in rows:
        made.add_row(*row)
    lines = made.lines(width)
    assert all(cell_len(line) <= max(width, 28) for line in lines)
    for row in rows:
        for letter in "abcdexyz.":
            assert sum(line.count(letter) for line in lines) >= row[0].count(letter) + row[1].count(letter)
    squeezed = "".join(printed(made, width).split())
    assert squeezed == "".join("".join(lines).split())


@given(st.text(max_size=200), st.integers(2, 40))
def test_wrapping_keeps_every_word(text, width):
    lines = wrapped(text, width)
    assert "".join(lines).replace(" ", "") == "".join(text.split())
    assert all(cell_len(line) <= width for line in lines)


def test_wide_characters_count_twice():
    made = Listing("name", ">n")
    made.add_row("größe", "1")
    made.add_row("字字", "22")
    assert made.lines(80) == ["name    n", "größe   1", "字字   22"]
