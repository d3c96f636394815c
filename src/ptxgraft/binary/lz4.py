"""LZ4 blocks, as fat binaries hold them: no frame around them.

Invariant: the result has exactly the size asked for, or there is a ``SourceError``. Format: "LZ4 Block Format Description".
"""

from __future__ import annotations

from ptxgraft.errors import SourceError

_SHORTEST_MATCH = 4


def decompress_lz4(data: bytes, size: int) -> bytes:
    """The ``size`` bytes that one LZ4 block holds. Raises ``SourceError`` when it is damaged or holds another number of bytes."""
    out = bytearray()
    at, end = 0, len(data)
    try:
        while at < end:
            token = data[at]
            at += 1
            literals, at = _length(data, at, token >> 4)
            if at + literals > end or len(out) + literals > size:
                raise SourceError("an LZ4 block is damaged: its literals do not fit")
            out += data[at : at + literals]
            at += literals
            if at == end:
                break  # the last sequence has no match
            distance = data[at] | data[at + 1] << 8
            length, at = _length(data, at + 2, token & 15)
            copy_match(out, distance, length + _SHORTEST_MATCH, size, "an LZ4 block")
    except IndexError:
        raise SourceError("an LZ4 block is cut off") from None
    if len(out) != size:
        raise SourceError(f"an LZ4 block holds {len(out)} bytes, {size} expected")
    return bytes(out)


def _length(data: bytes, at: int, start: int) -> tuple[int, int]:
    """A length that begins with a token's four bits, and the place behind it."""
    if start < 15:
        return start, at
    while True:
        more = data[at]
        at += 1
        start += more
        if more != 255:
            return start, at


def copy_match(out: bytearray, distance: int, length: int, limit: int, what: str) -> None:
    """Append ``length`` bytes that begin ``distance`` before the end of ``out``: a match, which may run into what it makes."""
    start = len(out) - distance
    if distance < 1 or start < 0 or len(out) + length > limit:
        raise SourceError(f"{what} is damaged: a match of {length} bytes, {distance} back, at byte {len(out)}")
    if distance >= length:
        out += out[start : start + length]
        return
    period = bytes(out[start:])
    out += (period * (length // distance + 1))[:length]
