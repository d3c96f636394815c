"""Writing files whole or not at all.

Invariant: a name either holds everything that was to be written under it or what it held before; nothing else stays behind.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptxgraft.errors import UsageError

LONGEST_STEM = 100
"""Mangled kernel names run to thousands of characters, file names to 255."""


def check_target(path: Path) -> None:
    """Raise ``UsageError`` when no file can be written at ``path``: to be asked before long work, not after it."""
    if path.is_dir():
        raise UsageError(f"cannot write {path}: it is a folder", hint="name a file")
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(f"cannot write {path}: {'there is no folder' if not folder.exists() else 'no folder is'} {folder}")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {path}: the folder {folder} cannot be written to")


def write_file(path: Path, data: bytes | str) -> None:
    """Write one file; see ``write_files``."""
    write_files({path: data})


def write_files(files: Mapping[Path, bytes | str]) -> None:
    """Write files (text as UTF-8) under temporary names beside them, then rename all. ``UsageError`` when one cannot be written; then none is."""
    partial: dict[Path, str] = {}
    path = Path()
    try:
        for path, data in files.items():
            check_target(path)
            handle, partial[path] = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
            with os.fdopen(handle, "wb") as stream:
                stream.write(data.encode() if isinstance(data, str) else data)
            os.chmod(partial[path], 0o644)
        for path in list(partial):
            os.replace(partial[path], path)
            del partial[path]
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error
    finally:
        for name in partial.values():
            Path(name).unlink(missing_ok=True)


def arrays_file(arrays: Mapping[str, Any]) -> bytes:
    """The bytes of a compressed .npz file that holds arrays by name."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()


def make_folder(path: Path) -> Path:
    """The folder, made when it is not there. ``UsageError`` when something else stands in its place or it cannot be made or written to."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise UsageError(f"cannot make the folder {path}: a file has that name", hint="name another folder") from None
    except OSError as error:
        raise UsageError(f"cannot make the folder {path}: {error.strerror or error}") from error
    if not os.access(path, os.W_OK | os.X_OK):
        raise UsageError(f"the folder {path} cannot be written to")
    return path


def file_stem(name: str) -> str:
    """A kernel's name as the beginning of a file name: letters, digits and ``_.$-`` kept, the rest ``_``; a long name is cut and marked with its hash."""
    plain = re.sub(r"[^\w.$-]", "_", name, flags=re.ASCII).lstrip(".") or "_"
    return plain if len(plain) <= LONGEST_STEM else f"{plain[: LONGEST_STEM - 9]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"
