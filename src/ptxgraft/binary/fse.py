"""Finite state entropy tables of Zstandard (RFC 8878, section 4.1), and the bit stream that is read from its end.

Invariant: a table has exactly one entry for each state; bits before a stream's beginning read as zero and are noticed by ``done``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from ptxgraft.errors import SourceError


class Backward:
    """Bits from the last set bit of a byte string down to its first (4.1, 4.2.2)."""

    __slots__ = ("data", "place")

    def __init__(self, data: bytes) -> None:
        if not data or not data[-1]:
            raise SourceError("a Zstandard bit stream has no end mark")
        self.data = data
        self.place = 8 * len(data) - 9 + data[-1].bit_length()  # bits that are left

    def take(self, width: int) -> int:
        """The next ``width`` bits."""
        if not width:
            return 0
        self.place = place = self.place - width
        if place >= 0:
            first = place >> 3
            return int.from_bytes(self.data[first : (place + width + 7) >> 3], "little") >> (place & 7) & (1 << width) - 1
        have = place + width
        return (int.from_bytes(self.data[: (have + 7) >> 3], "little") & (1 << have) - 1) << -place if have > 0 else 0

    @property
    def done(self) -> bool:
        """Has exactly everything been read?"""
        return self.place == 0


@dataclass(frozen=True, slots=True)
class Table:
    """By state: the symbol, how many bits to read next, and what to add to them for the next state."""

    accuracy: int
    symbols: list[int]
    widths: list[int]
    bases: list[int]


@dataclass(frozen=True, slots=True)
class Kind:
    """One of the three codes of a sequence: its predefined distribution, and for each code its base and extra bits."""

    name: str
    accuracy: int
    most_accuracy: int
    distribution: tuple[int, ...]
    extra: tuple[tuple[int, int], ...]


def _extras(plain: int, widths: tuple[int, ...], start: int) -> tuple[tuple[int, int], ...]:
    """``plain`` codes that stand for themselves from ``start`` on, then codes with extra bits, each range behind the last."""
    codes = [(start + i, 0) for i in range(plain)]
    base = start + plain
    for width in widths:
        codes.append((base, width))
        base += 1 << width
    return tuple(codes)


# Distributions and extra bits: sections 3.1.1.3.2.1.1 and 3.1.1.3.2.2.
LITERAL_LENGTHS = Kind(
    "literal lengths", 6, 9,
    (4, 3, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 2, 1, 1, 1, 1, 1, -1, -1, -1, -1),
    _extras(16, (1, 1, 1, 1, 2, 2, 3, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), 0),
)  # fmt: skip
MATCH_LENGTHS = Kind(
    "match lengths", 6, 9,
    (1, 4, 3, 2, 2, 2, 2, 2, 2) + (1,) * 37 + (-1,) * 7,
    _extras(32, (1, 1, 1, 1, 2, 2, 3, 3, 4, 4, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16), 3),
)  # fmt: skip
OFFSETS = Kind(
    "offsets", 5, 8,
    (1, 1, 1, 1, 1, 1, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1),
    tuple((1 << code, code) for code in range(32)),
)  # fmt: skip


def build(distribution: list[int] | tuple[int, ...], accuracy: int) -> Table:
    """The table of a distribution: the weight of each symbol, -1 for 'less than one' (4.1.1)."""
    size = 1 << accuracy
    symbols = [0] * size
    high = size
    for symbol, weight in enumerate(distribution):
        if weight == -1:
            high -= 1
            symbols[high] = symbol
    step, mask, at = (size >> 1) + (size >> 3) + 3, size - 1, 0
    for symbol, weight in enumerate(distribution):
        for _ in range(max(weight, 0)):
            symbols[at] = symbol
            at = at + step & mask
            while at >= high:
                at = at + step & mask
    following = [max(weight, 1) for weight in distribution]
    widths, bases = [0] * size, [0] * size
    for state, symbol in enumerate(symbols):
        number = following[symbol]
        following[symbol] += 1
        widths[state] = accuracy - number.bit_length() + 1
        bases[state] = (number << widths[state]) - size
    return Table(accuracy, symbols, widths, bases)


@cache
def predefined(kind: Kind) -> Table:
    """The table of a kind that needs no description."""
    return build(kind.distribution, kind.accuracy)


def single(symbol: int) -> Table:
    """A table of one state: the same symbol again and again."""
    return Table(0, [symbol], [0], [0])


def read_table(data: bytes, most_accuracy: int, most_symbols: int) -> tuple[Table, int]:
    """A described table, and the bytes of its description (4.1.1)."""
    bits, place = int.from_bytes(data[:512], "little"), 4
    accuracy = (bits & 15) + 5
    if accuracy > most_accuracy:
        raise SourceError(f"a Zstandard table has the accuracy {accuracy}, at most {most_accuracy} is allowed")
    left = (1 << accuracy) + 1
    distribution: list[int] = []
    while left > 1 and len(distribution) < most_symbols:
        width = left.bit_length()
        value = bits >> place & (1 << width) - 1
        # Small values take a bit less: there are only `left` + 1 values, not a power of two.
        short = (1 << width) - 1 - left
        if value & (1 << width - 1) - 1 < short:
            value &= (1 << width - 1) - 1
            place += width - 1
        else:
            place += width
            if value >= 1 << width - 1:
                value -= short
        weight = value - 1
        distribution.append(weight)
        left -= abs(weight)
        if not weight:
            while True:
                repeat = bits >> place & 3
                place += 2
                distribution += [0] * repeat
                if repeat != 3 or len(distribution) >= most_symbols:
                    break
    used = (place + 7) // 8
    if left != 1 or len(distribution) > most_symbols or used > len(data):
        raise SourceError("a Zstandard table is damaged")
    return build(distribution, accuracy), used
