"""Huffman trees of Zstandard literals (RFC 8878, section 4.2).

Invariant: a tree is complete: every ``depth`` bits name exactly one symbol.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.binary.fse import Backward, read_table
from ptxgraft.errors import SourceError

_DEEPEST = 11


@dataclass(frozen=True, slots=True)
class Tree:
    """By the next ``depth`` bits: the symbol, and how many of them it takes."""

    depth: int
    symbols: bytes
    widths: bytes

    def decode(self, data: bytes, count: int) -> bytes:
        """``count`` symbols that one stream holds."""
        place = Backward(data).place
        depth, symbols, widths = self.depth, self.symbols, self.widths
        mask = (1 << depth) - 1
        out = bytearray(count)
        # A window of many bits at a time: cutting one symbol's bits out of a long number costs as much as the number is long.
        low, window = place, 0
        for number in range(count):
            if place - depth < low:
                low = max(place - 240, 0) & ~7
                window = int.from_bytes(data[low >> 3 : (place + 7) >> 3], "little")
                if place - depth < 0:  # bits before the beginning read as zero
                    window <<= depth
                    low -= depth
            index = window >> (place - depth - low) & mask
            out[number] = symbols[index]
            place -= widths[index]
            if place < 0:
                raise SourceError("a Zstandard block is damaged: its literals run past their end")
        if place:
            raise SourceError("a Zstandard block is damaged: its literals end early")
        return bytes(out)


def read_tree(data: bytes) -> tuple[Tree, int]:
    """A described tree, and the bytes of its description (4.2.1)."""
    head = data[0]
    if head >= 128:
        count = head - 127
        packed = data[1 : 1 + (count + 1) // 2]
        if len(packed) != (count + 1) // 2:
            raise SourceError("a Zstandard tree is cut off")
        weights = [packed[i // 2] >> (0 if i & 1 else 4) & 15 for i in range(count)]
        return _tree(weights), 1 + len(packed)
    if len(data) < 1 + head:
        raise SourceError("a Zstandard tree is cut off")
    return _tree(_packed_weights(data[1 : 1 + head])), 1 + head


def _packed_weights(data: bytes) -> list[int]:
    """Weights behind two states that take turns (4.2.1.2): the one whose bits run out is the last but one."""
    table, used = read_table(data, 6, 13)
    bits = Backward(data[used:])
    states = [bits.take(table.accuracy), bits.take(table.accuracy)]
    weights: list[int] = []
    turn = 0
    while len(weights) < 255:
        state = states[turn]
        weights.append(table.symbols[state])
        states[turn] = table.bases[state] + bits.take(table.widths[state])
        turn ^= 1
        if bits.place < 0:
            weights.append(table.symbols[states[turn]])
            return weights
    raise SourceError("a Zstandard tree has too many weights")


def _tree(weights: list[int]) -> Tree:
    """The tree of all weights but the last, which follows from the others (4.2.1)."""
    total = sum(1 << w - 1 for w in weights if w)
    depth = total.bit_length()
    rest = (1 << depth) - total
    if not total or depth > _DEEPEST or rest & rest - 1 or max(weights) > depth:
        raise SourceError("a Zstandard tree is damaged: its weights make no tree")
    weights = [*weights, rest.bit_length()]
    symbols, widths = bytearray(), bytearray()
    for weight in range(1, depth + 1):
        for symbol, its in enumerate(weights):
            if its == weight:
                symbols += bytes([symbol]) * (1 << weight - 1)
                widths += bytes([depth + 1 - weight]) * (1 << weight - 1)
    return Tree(depth, bytes(symbols), bytes(widths))
