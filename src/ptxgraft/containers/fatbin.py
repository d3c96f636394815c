"""NVIDIA's fat binaries: a header, then members (PTX texts and cubins), each with a header of its own, plain or compressed.

Invariant: a member's bytes lie inside its fat binary; unpacking gives exactly the stated number of bytes or an error, never more.

Layout, little-endian, as `nvcc -fatbin` writes it (observed): the fat binary is ``u32 magic, u16 version, u16 header bytes, u64 bytes after the
header``; a member ``u16 kind, u16 version, u32 header bytes, u64 bytes after the header, u32 packed bytes, u32, u16 minor, u16 major, u32 target,
u32 name offset, u32 name bytes, u64 flags, u64, u64 unpacked bytes``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from ptxgraft.errors import SourceError

FATBIN_MAGIC = b"\x50\xed\x55\xba"
_FILE = struct.Struct("<4sHHQ")
_MEMBER = struct.Struct("<HHIQIIHHIIIQQQ")

PTX, CUBIN = 1, 2
LZ4, ZSTD = 0x2000, 0x8000
"""Bits of ``flags``."""
LARGEST = 1 << 30
"""Bytes that one member may unpack to."""
LZ4_RATIO = 255
"""An LZ4 block cannot grow by more than this."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member. ``offset`` is its payload's place in the file; ``stored`` and ``size`` its bytes there and unpacked; ``target`` is 90 for sm_90."""

    kind: int
    offset: int
    stored: int
    size: int
    flags: int
    target: int
    version: tuple[int, int]
    name: str

    @property
    def compression(self) -> str:
        """``lz4``, ``zstd`` or ''."""
        return "lz4" if self.flags & LZ4 else "zstd" if self.flags & ZSTD else ""


@dataclass(frozen=True, slots=True)
class FatBinary:
    """One fat binary at ``offset`` .. ``end`` of a file. ``problem`` says why there are no more members, '' when all are there."""

    offset: int
    end: int
    members: tuple[Member, ...]
    problem: str


def fat_binaries(data: bytes | memoryview, start: int, stop: int) -> Iterator[FatBinary]:
    """The fat binaries that begin in ``data[start:stop]``, found by their magic number; what only looks like one is passed over.

    ``data`` may be anything with ``find`` and slices (bytes, mmap).
    """
    at = start
    while (at := data.find(FATBIN_MAGIC, at, stop)) >= 0:  # pyright: ignore[reportAttributeAccessIssue]
        found = _fat_binary(data, at)
        if found is None:
            at += 1
            continue
        yield found
        at = max(found.end, at + 1)


def members_of(image: bytes) -> tuple[Member, ...]:
    """The members of a fat binary that begins at byte 0; what follows it is not looked at. Raises ``SourceError`` when its sizes lie."""
    found = _fat_binary(image, 0) if image.startswith(FATBIN_MAGIC) else None
    if found is None:
        raise SourceError("this is no fat binary")
    if found.problem:
        raise SourceError(found.problem)
    return found.members


def _fat_binary(data: bytes | memoryview, at: int) -> FatBinary | None:
    if len(data) - at < _FILE.size:
        return None
    _, version, header, size = _FILE.unpack(data[at : at + _FILE.size])
    if version != 1 or header < _FILE.size or header > 256 or size == 0:
        return None
    end = at + header + size
    problem = ""
    if end > len(data):
        problem = f"the fat binary at {at:#x} has {size} bytes, the file ends before them"
        end = len(data)
    members = []
    here = at + header
    while here < end and not problem:
        member, here, problem = _member(data, here, end)
        if member is not None:
            members.append(member)
    return FatBinary(at, end, tuple(members), problem)


def _member(data: bytes | memoryview, at: int, end: int) -> tuple[Member | None, int, str]:
    """The member at ``at``, the place of the next, and what is wrong."""
    if end - at < _MEMBER.size:
        # Fat binaries are filled up to a multiple of 8 bytes.
        rest = bytes(data[at:end])
        return None, end, f"{end - at} bytes at {at:#x} are no member of a fat binary" if any(rest) else ""
    kind, _, header, padded, packed, _, minor, major, target, name_at, name_size, flags, _, unpacked_size = _MEMBER.unpack(
        data[at : at + _MEMBER.size]
    )
    following = at + header + padded
    if header < _MEMBER.size or following > end or following <= at:
        return None, end, f"the member at {at:#x} of a fat binary says it has {header} + {padded} bytes, {end - at} are there"
    compressed = flags & (LZ4 | ZSTD)
    stored = packed if compressed else padded
    if stored > padded:
        return None, following, f"the member at {at:#x} of a fat binary says {packed} packed bytes, {padded} are there"
    name = bytes(data[at + name_at : at + name_at + min(name_size, 4096)]) if _MEMBER.size <= name_at <= header - name_size else b""
    text = name.split(b"\0")[0].decode("utf-8", "replace")
    size = unpacked_size if compressed else padded
    return Member(kind, at + header, stored, size, flags, target, (major, minor), text), following, ""


def unpacked(data: bytes | memoryview, member: Member) -> bytes:
    """A member's contents; of PTX without the NULs that fill it up. Raises ``SourceError`` for what does not unpack to the stated size."""
    raw = bytes(data[member.offset : member.offset + member.stored])
    where = f"the member at {member.offset:#x}"
    if member.size > LARGEST:
        raise SourceError(f"{where} says it unpacks to {member.size} bytes", hint=f"at most {LARGEST} are unpacked")
    if member.compression == "lz4":
        raw = _lz4(raw, member.size, where)
    elif member.compression == "zstd":
        raw = _zstd(raw, member.size, where)
    return raw.rstrip(b"\0") if member.kind == PTX else raw


def _lz4(raw: bytes, size: int, where: str) -> bytes:
    import lz4.block  # like zstandard only for those who have a packed member

    if size > len(raw) * LZ4_RATIO + 64:
        raise SourceError(f"{where} says {len(raw)} bytes of LZ4 unpack to {size}, more than they can")
    try:
        found = lz4.block.decompress(raw, uncompressed_size=size)
    except (lz4.block.LZ4BlockError, ValueError, OverflowError) as error:
        raise SourceError(f"{where} is no LZ4 block: {error}") from error
    return _exact(found, size, where)


def _zstd(raw: bytes, size: int, where: str) -> bytes:
    import zstandard

    try:
        # One byte more than stated is asked for, to see that there is none; the window bounds what the decoder itself takes.
        with zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw) as reader:
            found = reader.read(size + 1)
    except (zstandard.ZstdError, ValueError) as error:
        raise SourceError(f"{where} is no Zstandard frame: {error}") from error
    return _exact(found, size, where)


def _exact(found: bytes, size: int, where: str) -> bytes:
    if len(found) != size:
        raise SourceError(f"{where} unpacks to {'more than ' if len(found) > size else ''}{min(len(found), size)} bytes, it says {size}")
    return found
