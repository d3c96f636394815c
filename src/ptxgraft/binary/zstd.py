"""Zstandard frames without a dictionary, as fat binaries hold them.

Invariant: the result has exactly the size asked for, or there is a ``SourceError``. Format: RFC 8878; section numbers below are its own. The
optional checksum of a frame is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxgraft.binary.fse import (
    LITERAL_LENGTHS,
    MATCH_LENGTHS,
    OFFSETS,
    Backward,
    Kind,
    Table,
    predefined,
    read_table,
    single,
)
from ptxgraft.binary.huffman import Tree, read_tree
from ptxgraft.binary.lz4 import copy_match
from ptxgraft.errors import SourceError

MAGIC = 0xFD2FB528
_LARGEST_BLOCK = 128 << 10


def decompress_zstd(data: bytes, size: int) -> bytes:
    """The ``size`` bytes that one Zstandard frame holds. Raises ``SourceError`` when it is damaged or holds another number of bytes."""
    out = bytearray()
    try:
        at = _frame_header(data, size)
        state = _Frame()
        last = False
        while not last:
            head = int.from_bytes(data[at : at + 3], "little")
            if at + 3 > len(data):
                raise SourceError("a Zstandard frame is cut off")
            last, kind, length = bool(head & 1), head >> 1 & 3, head >> 3
            at += 3
            if kind == 1:  # one byte, repeated (3.1.1.2)
                if len(out) + length > size:
                    raise SourceError("a Zstandard frame holds more than it says")
                out += data[at : at + 1] * length
                at += 1
                continue
            block = data[at : at + length]
            if len(block) != length or length > _LARGEST_BLOCK:
                raise SourceError("a Zstandard frame is cut off")
            if kind == 0:
                out += block
            elif kind == 2:
                _compressed_block(block, out, state, size)
            else:
                raise SourceError("a Zstandard frame has a block of a reserved kind")
            at += length
    except IndexError:
        raise SourceError("a Zstandard frame is damaged: it runs past its end") from None
    if len(out) != size:
        raise SourceError(f"a Zstandard frame holds {len(out)} bytes, {size} expected")
    return bytes(out)


def _frame_header(data: bytes, size: int) -> int:
    """The place of the first block (3.1.1.1)."""
    if int.from_bytes(data[:4], "little") != MAGIC:
        raise SourceError("this is no Zstandard frame")
    descriptor = data[4]
    single_segment, dictionary, content = descriptor >> 5 & 1, descriptor & 3, descriptor >> 6
    if dictionary:
        raise SourceError("a Zstandard frame needs a dictionary")
    at = 5 + (0 if single_segment else 1)
    width = (single_segment, 2, 4, 8)[content]
    said = int.from_bytes(data[at : at + width], "little") + (256 if width == 2 else 0)
    if width and said != size:
        raise SourceError(f"a Zstandard frame says that it holds {said} bytes, {size} expected")
    return at + width


@dataclass(slots=True)
class _Frame:
    """What one block hands on to the next."""

    tree: Tree | None = None
    tables: dict[str, Table] = field(default_factory=dict)
    recent: list[int] = field(default_factory=lambda: [1, 4, 8])


def _compressed_block(block: bytes, out: bytearray, state: _Frame, size: int) -> None:
    literals, at = _literals(block, state)
    count = block[at]
    at += 1
    if count > 127:
        count, at = (((count - 128) << 8) + block[at], at + 1) if count < 255 else (block[at] + (block[at + 1] << 8) + 0x7F00, at + 2)
    if not count:
        if len(out) + len(literals) > size:
            raise SourceError("a Zstandard frame holds more than it says")
        out += literals
        return
    modes = block[at]
    at += 1
    for kind, shift in ((LITERAL_LENGTHS, 6), (OFFSETS, 4), (MATCH_LENGTHS, 2)):
        at = _table(block, at, modes >> shift & 3, kind, state)
    _sequences(block[at:], count, literals, out, state, size)


def _table(block: bytes, at: int, mode: int, kind: Kind, state: _Frame) -> int:
    """Set the table of one kind for this block (3.1.1.3.2.1); gives the place behind its description."""
    if mode == 0:
        state.tables[kind.name] = predefined(kind)
    elif mode == 1:
        state.tables[kind.name] = single(block[at])
        return at + 1
    elif mode == 2:
        state.tables[kind.name], used = read_table(block[at:], kind.most_accuracy, len(kind.extra))
        return at + used
    elif kind.name not in state.tables:
        raise SourceError("a Zstandard block repeats a table that is not there")
    return at


def _sequences(stream: bytes, count: int, literals: bytes, out: bytearray, state: _Frame, size: int) -> None:
    """Execute a block's sequences (3.1.1.3.2, 3.1.1.4, 3.1.1.5)."""
    lengths, offsets, matches = (state.tables[k.name] for k in (LITERAL_LENGTHS, OFFSETS, MATCH_LENGTHS))
    bits = Backward(stream)
    take = bits.take
    length_state, offset_state, match_state = take(lengths.accuracy), take(offsets.accuracy), take(matches.accuracy)
    recent, used = state.recent, 0
    length_extra, match_extra, most_offset = LITERAL_LENGTHS.extra, MATCH_LENGTHS.extra, len(OFFSETS.extra)
    for number in range(count):
        code = offsets.symbols[offset_state]
        if code >= most_offset:
            raise SourceError(f"a Zstandard block has the offset code {code}")
        value = (1 << code) + take(code)
        base, width = match_extra[matches.symbols[match_state]]
        match = base + take(width)
        base, width = length_extra[lengths.symbols[length_state]]
        length = base + take(width)
        if value > 3:
            distance = value - 3
            recent[:] = distance, recent[0], recent[1]
        else:
            which = value - 1 + (length == 0)
            distance = recent[which] if which < 3 else recent[0] - 1
            if which:
                recent[:] = distance, recent[0], recent[1 if which > 1 else 2]
        if number + 1 < count:
            length_state = lengths.bases[length_state] + take(lengths.widths[length_state])
            match_state = matches.bases[match_state] + take(matches.widths[match_state])
            offset_state = offsets.bases[offset_state] + take(offsets.widths[offset_state])
        if used + length > len(literals) or len(out) + length > size:
            raise SourceError("a Zstandard block is damaged: its literals do not suffice")
        out += literals[used : used + length]
        used += length
        copy_match(out, distance, match, size, "a Zstandard block")
    if not bits.done:
        raise SourceError("a Zstandard block is damaged: its sequences end early or late")
    if len(out) + len(literals) - used > size:
        raise SourceError("a Zstandard frame holds more than it says")
    out += literals[used:]


def _literals(block: bytes, state: _Frame) -> tuple[bytes, int]:
    """A block's literals and the place behind them (3.1.1.3.1)."""
    kind, form = block[0] & 3, block[0] >> 2 & 3
    if kind < 2:
        width = (1, 2, 1, 3)[form]
        length = int.from_bytes(block[:width], "little") >> (4 if form & 1 else 3)
        if length > _LARGEST_BLOCK:
            raise SourceError("a Zstandard block has too many literals")
        if kind == 1:
            return block[width : width + 1] * length, width + 1
        return block[width : width + length], width + length
    width, bits = ((3, 10), (3, 10), (4, 14), (5, 18))[form]
    head = int.from_bytes(block[:width], "little") >> 4
    length, packed = head & (1 << bits) - 1, head >> bits
    if length > _LARGEST_BLOCK or width + packed > len(block):
        raise SourceError("a Zstandard block has too many literals")
    data = block[width : width + packed]
    if kind == 2:
        state.tree, used = read_tree(data)
        data = data[used:]
    if state.tree is None:
        raise SourceError("a Zstandard block uses a Huffman tree that is not there")
    if form == 0:
        return state.tree.decode(data, length), width + packed
    sizes = [int.from_bytes(data[i : i + 2], "little") for i in (0, 2, 4)]
    each = (length + 3) // 4
    parts, at = [], 6
    for number, part in enumerate([*sizes, len(data) - 6 - sum(sizes)]):
        if part < 1 or length - 3 * each < 0:
            raise SourceError("a Zstandard block has literals of a wrong size")
        parts.append(state.tree.decode(data[at : at + part], each if number < 3 else length - 3 * each))
        at += part
    return b"".join(parts), width + packed
