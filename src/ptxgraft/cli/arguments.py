"""Kernel arguments from their text on a command line.

Invariant: a text is read in one way or refused with its number; what a buffer holds is said by the text alone.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError

TYPES = {
    "u8": "u1", "u16": "u2", "u32": "u4", "u64": "u8", "s8": "i1", "s16": "i2", "s32": "i4", "s64": "i8", "f16": "f2", "f32": "f4", "f64": "f8",
}  # fmt: skip

FORMS = "a number, f32[1024], f32[1024]=random, u32[8]=iota, file.npy, @file (a buffer of its bytes) or bytes:HEX (a by-value parameter)"

_BUFFER = re.compile(rf"({'|'.join(TYPES)})\[(\d{{1,15}})\](?:=(\w+))?")


def argument(text: str, number: int) -> Any:
    """The Python value of argument ``number`` (from 0): int, float, bytes or an array. ``UsageError`` when it cannot be read."""
    for kind in (lambda t: int(t, 0), int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    if text.startswith("bytes:"):
        try:
            return bytes.fromhex(text.removeprefix("bytes:"))
        except ValueError as error:
            raise UsageError(f"argument {number}: {text!r} is not bytes in hexadecimal", hint="for example bytes:0000803f") from error
    if text.startswith("@") or text.endswith(".npy"):
        return _file(Path(text.removeprefix("@")), text.startswith("@"), number)
    match = _BUFFER.fullmatch(text)
    if match is None:
        raise UsageError(f"argument {number}: cannot read {text!r}", hint=f"write {FORMS}")
    return _buffer(np.dtype(TYPES[match[1]]), int(match[2]), match[3] or "zeros", text, number)


def _file(path: Path, raw: bool, number: int) -> NDArray:
    try:
        array = np.fromfile(path, dtype=np.uint8) if raw else np.load(path, allow_pickle=False)
    except OSError as error:
        raise UsageError(f"argument {number}: cannot read {path}: {error.strerror or error}") from error
    except (ValueError, EOFError) as error:
        raise UsageError(f"argument {number}: {path} is no .npy file of numbers") from error
    if not isinstance(array, np.ndarray):
        raise UsageError(f"argument {number}: {path} holds several arrays", hint="save one with numpy.save")
    return array.astype(array.dtype.newbyteorder("<"))


def _buffer(dtype: np.dtype, size: int, fill: str, text: str, number: int) -> NDArray:
    random = np.random.default_rng(number)
    floating = dtype.kind == "f"
    fills = {
        "zeros": lambda: np.zeros(size, dtype),
        "iota": lambda: np.arange(size).astype(dtype),
        "random": lambda: random.standard_normal(size).astype(dtype) if floating else random.integers(0, 127, size).astype(dtype),
    }
    if fill not in fills:
        raise UsageError(f"argument {number}: a buffer cannot be filled with {fill!r}", hint=f"one of {', '.join(fills)}")
    try:
        return fills[fill]()
    except (MemoryError, ValueError) as error:
        raise UsageError(f"argument {number}: {text} does not fit the memory here") from error
