"""Fat binaries: the container that nvcc puts PTX and machine code of several architectures in.

Invariant: entries come in file order with their payloads as stored; a payload is decompressed only when it is asked for. The layout is not
documented; what is here was read off files that nvcc 13.0 wrote in all its compression modes:

    head    u32 0xBA55ED50, u16 version, u16 bytes of the head, u64 bytes of all entries
    entry   u16 kind (1 PTX, 2 ELF), u16, u32 bytes of this head, u64 bytes of the payload with its padding, u32 bytes of a compressed payload,
            u32, u16 minor, u16 major version, u32 architecture, u32, u32, u64 flags (0x2000 LZ4, 0x8000 Zstandard), u64, u64 decompressed bytes
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ptxgraft.binary.lz4 import decompress_lz4
from ptxgraft.binary.zstd import decompress_zstd
from ptxgraft.errors import SourceError

FATBIN_MAGIC = 0xBA55ED50
KINDS = {1: "ptx", 2: "elf"}
LARGEST_PAYLOAD = 1 << 30
_HEAD = struct.Struct("<IHHQ")
_ENTRY = struct.Struct("<HHIQIIHHIIIQQQ")
_LZ4, _ZSTD = 0x2000, 0x8000
_DECOMPRESS: dict[int, Callable[[bytes, int], bytes]] = {_LZ4: decompress_lz4, _ZSTD: decompress_zstd}


@dataclass(frozen=True, slots=True)
class Entry:
    """One payload. ``kind`` is 'ptx', 'elf' or 'kind N'; ``architecture`` is 90 for sm_90 and compute_90; ``size`` is what ``contents`` will give, in bytes."""

    kind: str
    architecture: int
    flags: int
    size: int
    packed: bytes

    @property
    def compression(self) -> str:
        return {0: "none", _LZ4: "LZ4", _ZSTD: "Zstandard"}.get(self.flags & (_LZ4 | _ZSTD), "unknown")

    def contents(self) -> bytes:
        """The payload, decompressed; PTX without the zeros behind it. Raises ``SourceError`` when it is damaged."""
        if self.size > LARGEST_PAYLOAD:
            raise SourceError(f"an entry of a fat binary says that it holds {self.size} bytes, more than {LARGEST_PAYLOAD}")
        how = self.flags & (_LZ4 | _ZSTD)
        if how and how not in _DECOMPRESS:
            raise SourceError(f"an entry of a fat binary is compressed in an unknown way (flags 0x{self.flags:x})")
        data = _DECOMPRESS[how](self.packed, self.size) if how else self.packed
        return data.rstrip(b"\0") if self.kind == "ptx" else data


def is_fatbin(data: bytes) -> bool:
    """Does a fat binary begin here?"""
    return data[:4] == FATBIN_MAGIC.to_bytes(4, "little")


def fatbin_entries(data: bytes) -> Iterator[Entry]:
    """The entries of a fat binary that begins at byte 0; what follows it is not looked at. Raises ``SourceError`` when its sizes lie."""
    if len(data) < _HEAD.size or not is_fatbin(data):
        raise SourceError("this is no fat binary")
    _, _, head, length = _HEAD.unpack_from(data)
    at, end = head, head + length
    if head < _HEAD.size or end > len(data):
        raise SourceError(f"a fat binary says that it has {end} bytes, {len(data)} are there")
    while at < end:
        if at + _ENTRY.size > end:
            raise SourceError(f"a fat binary is cut off at byte {at}")
        kind, _, header, stored, packed, _, _, _, architecture, _, _, flags, _, size = _ENTRY.unpack_from(data, at)
        start = at + header
        if header < _ENTRY.size or start + stored > end or packed > stored:
            raise SourceError(f"the entry at byte {at} of a fat binary does not fit into it")
        payload = data[start : start + (packed or stored)]
        yield Entry(KINDS.get(kind, f"kind {kind}"), architecture, flags, size or len(payload), payload)
        at = start + stored
