"""Content-addressed blobs: ``blobs/<sha256>.z``, each a zlib stream of one chunk of some contents.

Invariant: a blob's name is the SHA-256 of what it decompresses to, and that is checked on every read. Contents are cut into chunks of a fixed
size, so that equal chunks (an arena before and after, a buffer of zeros) are stored once and a part is read without the rest.
"""

from __future__ import annotations

import hashlib
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable
from weakref import WeakValueDictionary

import numpy as np

from ptxgraft.capture.contents import Bytes, Contents
from ptxgraft.errors import SourceError

BLOBS = "blobs"
CHUNK_BYTES = 1 << 20
# Level 1: memory images compress nearly as well as at 6, several times faster.
LEVEL = 1
_FEW = 4  # chunks that are not worth starting threads for


# Contents that somebody still holds, verified when they were loaded: asking again is free, letting go frees the memory. NumPy views keep the
# array they were cut from alive, so a held slice counts.
_LOADED: WeakValueDictionary[tuple[str, int, tuple[str, ...]], Bytes] = WeakValueDictionary()


def _path(folder: str, digest: str) -> str:
    return os.path.join(folder, BLOBS, f"{digest}.z")


@dataclass(frozen=True, slots=True)
class BlobContents:
    """Contents cut into blobs. ``load`` reads, decompresses and verifies the blobs it needs, and no others. ``whole`` is the SHA-256 of all
    of it where that is known, checked when all of it is loaded."""

    folder: str
    size: int
    chunk_bytes: int
    digests: tuple[str, ...]
    what: str
    whole: str | None = None

    def load(self, start: int = 0, stop: int | None = None) -> Bytes:
        begin, end, _ = slice(start, stop).indices(self.size)
        whole = _LOADED.get((self.folder, self.chunk_bytes, self.digests))
        if whole is not None and whole.nbytes == self.size:
            return whole[begin:end]
        end = max(begin, end)
        first, last = begin // self.chunk_bytes, -(-end // self.chunk_bytes)
        origin = first * self.chunk_bytes
        try:
            loaded = np.empty(max(0, min(last * self.chunk_bytes, self.size) - origin), np.uint8)
        except (MemoryError, ValueError):
            raise SourceError(f"{self.folder}: {self.what} has {self.size} bytes, more than memory holds") from None
        for number in range(first, last):
            at = number * self.chunk_bytes
            length = min(self.chunk_bytes, self.size - at)
            loaded[at - origin : at - origin + length] = np.frombuffer(self._read(self.digests[number], length), np.uint8)
        if self.whole is not None and loaded.nbytes == self.size and hashlib.sha256(loaded.data).hexdigest() != self.whole:
            raise SourceError(f"{self.folder}: {self.what} is not what its SHA-256 says")
        loaded.flags.writeable = False
        if self.digests and loaded.nbytes == self.size:
            _LOADED[(self.folder, self.chunk_bytes, self.digests)] = loaded
        return loaded[begin - origin : end - origin]

    def _read(self, digest: str, length: int) -> bytes:
        path = _path(self.folder, digest)
        try:
            with open(path, "rb") as file:
                # zlib never makes its input longer than this: the rest of a longer file is not worth reading.
                packed = file.read(length + length // 1000 + 1025)
        except OSError as error:
            raise SourceError(f"{path}: cannot read a blob of {self.what}: {error.strerror}") from None
        unpacker = zlib.decompressobj()
        try:
            data = unpacker.decompress(packed, length + 1)
        except zlib.error:
            raise SourceError(f"{path}: this blob of {self.what} is altered: it does not decompress") from None
        if not unpacker.eof and len(data) <= length:
            raise SourceError(f"{path}: this blob of {self.what} is truncated")
        if len(data) != length or unpacker.unused_data or hashlib.sha256(data).hexdigest() != digest:
            raise SourceError(f"{path}: this blob of {self.what} is altered: it is not what its name says")
        return data


@runtime_checkable
class Chunked(Contents, Protocol):
    """Contents that know the SHA-256 of each of their chunks of ``chunk_bytes``: those that are stored already need not be read."""

    @property
    def chunk_bytes(self) -> int: ...

    @property
    def digests(self) -> tuple[str, ...]: ...


@dataclass(slots=True)
class BlobStore:
    """Writes contents into ``folder``, each distinct chunk once."""

    folder: str
    stored: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        os.mkdir(os.path.join(self.folder, BLOBS))

    def store(self, contents: Contents) -> tuple[str, ...]:
        """Write the chunks of ``contents`` that are not there yet; gives the names of all, in order. Raises ``SourceError`` when a chunk is not what
        the contents said."""
        if not (isinstance(contents, Chunked) and contents.chunk_bytes == CHUNK_BYTES):
            return tuple(self._store(contents.load(at, at + CHUNK_BYTES)) for at in range(0, contents.size, CHUNK_BYTES))
        missing = {digest: at for at, digest in enumerate(contents.digests) if digest not in self.stored}

        def write(digest: str) -> None:
            at = missing[digest] * CHUNK_BYTES
            if self._store(contents.load(at, at + CHUNK_BYTES)) != digest:
                raise SourceError(f"chunk {missing[digest]} of what is to be stored is not what its SHA-256 says")

        if len(missing) < _FEW:
            for digest in missing:
                write(digest)
        else:
            with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:  # hashing and compressing leave Python's lock
                for _ in pool.map(write, missing):
                    pass
        return contents.digests

    def _store(self, chunk: Bytes) -> str:
        digest = hashlib.sha256(chunk.data).hexdigest()
        if digest not in self.stored:
            with open(_path(self.folder, digest), "xb") as file:
                file.write(zlib.compress(chunk.data, LEVEL))
                file.flush()
                os.fsync(file.fileno())
            self.stored.add(digest)
        return digest
