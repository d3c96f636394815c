"""Contents: the bytes of one resource, in memory or still on disk, behind one small protocol.

Invariant: nothing is read before it is asked for, what is read is exactly as long as was promised, and a file that cannot give that is a
``SourceError`` naming it, never a short array.
"""

from __future__ import annotations

import mmap
import os
import stat
from dataclasses import dataclass
from typing import Protocol, overload, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import SourceError, UsageError

Bytes = NDArray[np.uint8]


@runtime_checkable
class Contents(Protocol):
    """Bytes that can be asked for. ``size`` is in bytes; ``load`` gives uint8 [stop - start], read-only, or raises ``SourceError``."""

    @property
    def size(self) -> int: ...

    def load(self, start: int = 0, stop: int | None = None) -> Bytes: ...


def path_text(path: str) -> str:
    """A path for a message: what is not UTF-8 in it is escaped, and so is what would break the line."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def open_regular(path: str, what: str) -> int:
    """A descriptor of a regular file, for reading. Raises ``SourceError`` when there is none."""
    try:
        # Without O_NONBLOCK a named pipe in a capture would hang here.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            return descriptor
        os.close(descriptor)
    except (OSError, ValueError) as error:
        raise SourceError(f"{path_text(path)}: cannot read {what}: {getattr(error, 'strerror', error)}") from None
    raise SourceError(f"{path_text(path)}: {what} is not a regular file")


def read_small(path: str, what: str, limit: int) -> bytes:
    """All of a regular file of at most ``limit`` bytes. Raises ``SourceError`` when it cannot be read or is larger."""
    with os.fdopen(open_regular(path, what), "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise SourceError(f"{path_text(path)}: {what} is larger than {limit} bytes")
    return data


@dataclass(frozen=True, slots=True)
class FileContents:
    """The first ``size`` bytes of a file, memory-mapped when asked for. ``what`` names the resource in messages."""

    path: str
    size: int
    what: str

    def load(self, start: int = 0, stop: int | None = None) -> Bytes:
        descriptor = open_regular(self.path, self.what)
        try:
            found = os.fstat(descriptor).st_size
            if found < self.size:
                raise SourceError(f"{path_text(self.path)}: {self.what} has {found} bytes, {self.size} expected")
            if self.size == 0:
                return np.empty(0, np.uint8)
            # A new map each time: a kept one holds a file descriptor, and captures have more files than a process may have open.
            return np.frombuffer(mmap.mmap(descriptor, self.size, access=mmap.ACCESS_READ), np.uint8)[start:stop]
        except OSError as error:
            raise SourceError(f"{path_text(self.path)}: cannot map {self.what}: {error.strerror}") from None
        finally:
            os.close(descriptor)


@dataclass(frozen=True, slots=True)
class MissingContents:
    """Bytes that should be there and are not: asking for them raises ``SourceError`` with ``message``."""

    size: int
    message: str
    hint: str = ""

    def load(self, start: int = 0, stop: int | None = None) -> Bytes:
        raise SourceError(self.message, hint=self.hint)


def as_bytes(values: object) -> Bytes:
    """An array of any dtype, or a bytes-like object, seen as uint8 [n]; the memory is shared where it is contiguous."""
    if isinstance(values, (bytes, bytearray, memoryview)):
        return np.frombuffer(values, np.uint8)
    # A list would silently become 8-byte integers, so only arrays say how wide their numbers are.
    if not isinstance(values, np.ndarray) or values.dtype.hasobject or values.dtype.kind not in "biufcV":
        raise UsageError(f"contents must be an array of numbers or bytes, not {type(values).__name__}")
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


class Held:
    """A dataclass field that takes an array, bytes, ``Contents`` or ``None`` and gives uint8 [n] (or ``None``) when read.

    Needs an instance with a ``__dict__`` (no slots): the value as given is kept there, and only reading the field opens it.
    """

    def __init__(self, name: str) -> None:
        self.slot = f"held_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Bytes | None: ...
    def __get__(self, instance: object | None, owner: type) -> Bytes | None:
        if instance is None:
            return None  # what the dataclass takes as the default
        value = vars(instance)[self.slot]
        return value.load() if isinstance(value, Contents) else value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self.slot] = value if value is None or isinstance(value, Contents) else as_bytes(value)


class HeldAlways:
    """``Held`` for what every resource of its kind has: no default, and never ``None`` when read."""

    def __init__(self, name: str) -> None:
        self.slot = f"held_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> HeldAlways: ...
    @overload
    def __get__(self, instance: object, owner: type) -> Bytes: ...
    def __get__(self, instance: object | None, owner: type) -> Bytes | HeldAlways:
        if instance is None:
            raise AttributeError("no default")  # a dataclass field without a default
        value = vars(instance)[self.slot]
        return value.load() if isinstance(value, Contents) else value

    def __set__(self, instance: object, value: object) -> None:
        vars(instance)[self.slot] = value if isinstance(value, Contents) else as_bytes(value)


class HeldText:
    """``Held`` for a module's text: gives ``bytes`` or ``None``."""

    def __init__(self, name: str) -> None:
        self.slot = f"held_{name}"

    @overload
    def __get__(self, instance: None, owner: type) -> None: ...
    @overload
    def __get__(self, instance: object, owner: type) -> bytes | None: ...
    def __get__(self, instance: object | None, owner: type) -> bytes | None:
        if instance is None:
            return None
        value = vars(instance)[self.slot]
        return value.load().tobytes() if isinstance(value, Contents) else value

    def __set__(self, instance: object, value: Contents | bytes | str | None) -> None:
        vars(instance)[self.slot] = value.encode() if isinstance(value, str) else value


# One descriptor serves every class that has a field of that name: it keeps nothing itself.
BEFORE = HeldAlways("before")
BEFORE_IF_RECORDED = Held("before")
AFTER = Held("after")
MODULE = HeldText("module")
BINARY = Held("binary")


@dataclass(frozen=True, slots=True)
class ArrayContents:
    """An array already in memory, seen as ``Contents``."""

    array: Bytes

    @property
    def size(self) -> int:
        return self.array.nbytes

    def load(self, start: int = 0, stop: int | None = None) -> Bytes:
        return self.array[start:stop]


def unopened(instance: object, name: str) -> Contents | None:
    """What a ``Held`` field was given, not opened: for passing it on or reading it in parts. ``None`` when nothing was recorded."""
    value = vars(instance)[f"held_{name}"]
    if value is None or isinstance(value, Contents):
        return value
    return ArrayContents(as_bytes(value))
