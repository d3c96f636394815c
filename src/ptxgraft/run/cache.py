"""The on-disk cache of compiled code: bytes by key, bounded in size, safe for many processes.

Invariant: what ``get`` returns is exactly what some ``put`` stored under that key. An entry appears whole (written aside, then renamed), a damaged one is
discarded, and a cache that cannot be written costs time, never a result.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
import warnings
from pathlib import Path

LIMIT_BYTES = 512 << 20
"""Entries are dropped, least recently used first, when all together pass this."""

_MAGIC = b"ptxgraft-cache-2"
_DIGEST = 32
_STALE_SECONDS = 3600
"""A file written aside and older than this was left behind by a process that died."""

_PUTS_PER_TRIM = 64


def default_directory() -> Path:
    """``$PTXGRAFT_CACHE_DIR``, else ``$XDG_CACHE_HOME/ptxgraft``, else ``~/.cache/ptxgraft``."""
    own = os.environ.get("PTXGRAFT_CACHE_DIR")
    if own:
        return Path(own)
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "ptxgraft"


class Cache:
    """Bytes by key under ``directory`` (created when first written). A key is a word of hexadecimal digits, such as a SHA-256."""

    def __init__(self, directory: Path | None = None, limit_bytes: int = LIMIT_BYTES) -> None:
        self.directory = directory if directory is not None else default_directory()
        self.limit_bytes = limit_bytes
        self._puts = 0
        self._broken = False

    def path(self, key: str) -> Path:
        """Where the entry of ``key`` lies, whether it is there or not."""
        return self.directory / "code" / key[:2] / key

    def get(self, key: str) -> bytes | None:
        """The bytes stored under ``key``, or None. A damaged entry is removed and gives None."""
        path = self.path(key)
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        start = len(_MAGIC) + _DIGEST
        data = raw[start:]
        if not raw.startswith(_MAGIC) or _digest(key, data) != raw[len(_MAGIC) : start]:
            _remove(path)
            return None
        try:
            os.utime(path)
        except OSError:
            pass  # removed meanwhile, or not ours: its age does not matter then
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store ``data`` under ``key``. When the directory cannot be written, warns once and stores nothing."""
        if self._broken:
            return
        path = self.path(key)
        aside = ""
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle, aside = tempfile.mkstemp(prefix=".aside-", dir=path.parent)
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _digest(key, data) + data)
            os.replace(aside, path)
        except OSError as error:
            if aside:
                _remove(Path(aside))
            self._broken = True
            warnings.warn(f"compiled code is not kept: {self.directory} cannot be written ({error.strerror})", stacklevel=2)
            return
        self._puts += 1
        if self._puts % _PUTS_PER_TRIM == 1:
            self.trim()

    def trim(self) -> None:
        """Drop the least recently used entries until a fifth of the limit is free again, when the limit is passed; and stale asides."""
        entries: list[tuple[float, int, Path]] = []
        now = time.time()
        for path in (self.directory / "code").glob("*/*"):
            try:
                status = path.stat()
            except OSError:
                continue
            if path.name.startswith("."):
                if now - status.st_mtime > _STALE_SECONDS:
                    _remove(path)
                continue
            entries.append((status.st_mtime, status.st_size, path))
        total = sum(size for _, size, _ in entries)
        if total <= self.limit_bytes:
            return
        for _, size, path in sorted(entries):
            _remove(path)
            total -= size
            if total <= self.limit_bytes * 4 // 5:
                return


def _digest(key: str, data: bytes) -> bytes:
    """Over the key too: an entry that came to lie under another's name is damaged."""
    return hashlib.sha256(key.encode() + b"\0" + data).digest()


def _remove(path: Path) -> None:
    try:
        path.unlink()
    except OSError:
        pass  # another process was faster
