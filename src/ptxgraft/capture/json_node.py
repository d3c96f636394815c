"""A JSON value together with where it stands in its file, for reading input that may say anything.

Invariant: every accessor either gives a value of the type and range asked for or raises a one-line ``SourceError`` naming file and place.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ptxgraft.capture.checks import shown
from ptxgraft.errors import Place, SourceError

ADDRESS = re.compile(r"0x[0-9a-f]{1,16}")
HEX_BYTES = re.compile(r"(?:[0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class Node:
    """One value of a JSON file. ``at`` is its place, such as ``launches[2].grid``; ``notes`` is shared by all nodes of the file."""

    file: str
    at: str
    value: Any
    notes: list[str] = field(default_factory=list)

    @property
    def where(self) -> str:
        return f"{self.file}: {self.at}" if self.at else self.file

    def wrong(self, expected: str) -> SourceError:
        """The error that this value is not what was expected."""
        return SourceError(f"{self.where}: expected {expected}, found {shown(self.value)}")

    @property
    def null(self) -> bool:
        return self.value is None

    def __getitem__(self, key: str) -> Node:
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        if key not in self.value:
            raise SourceError(f"{self.where}: {key} is missing")
        return Node(self.file, f"{self.at}.{key}" if self.at else key, self.value[key], self.notes)

    def get(self, key: str) -> Node | None:
        """A member that may be missing."""
        return self[key] if isinstance(self.value, dict) and key in self.value else None

    def keys(self, known: str) -> None:
        """Note, once, each key that is not among the ``known`` ones (separated by blanks)."""
        if not isinstance(self.value, dict):
            raise self.wrong("an object")
        for key in sorted(self.value.keys() - known.split()):
            note = f"{self.file}: the unknown key {shown(key)} is ignored"
            if note not in self.notes:
                self.notes.append(note)

    def items(self) -> list[Node]:
        if not isinstance(self.value, list):
            raise self.wrong("a list")
        return [Node(self.file, f"{self.at}[{number}]", value, self.notes) for number, value in enumerate(self.value)]

    def integer(self, low: int = 0, high: int = (1 << 64) - 1) -> int:
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.wrong(f"an integer from {low} to {high}")
        return self.value

    def truth(self) -> bool:
        if not isinstance(self.value, bool):
            raise self.wrong("true or false")
        return self.value

    def text(self) -> str:
        if not isinstance(self.value, str) or not self.value.isprintable():  # a lone surrogate is not printable either
            raise self.wrong("printable text")
        return self.value

    def matching(self, pattern: re.Pattern[str], expected: str) -> str:
        if not isinstance(self.value, str) or not pattern.fullmatch(self.value):
            raise self.wrong(expected)
        return self.value

    def address(self) -> int:
        return int(self.matching(ADDRESS, "a 64-bit number in hexadecimal with 0x"), 16)

    def hex_bytes(self) -> bytes:
        return bytes.fromhex(self.matching(HEX_BYTES, "bytes in hexadecimal"))


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {shown(next(key for key in keys if keys.count(key) > 1))} is given twice in one object")
    return found


def parse(path: str) -> Node:
    """The top value of a JSON file (UTF-8). Raises ``SourceError`` when the file cannot be read or is not JSON."""
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8")
        return Node(path, "", json.loads(text, object_pairs_hook=_once))
    except OSError as error:
        raise SourceError(f"{path}: cannot read the manifest: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise SourceError(f"{path}: the manifest is not UTF-8 text (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise SourceError(f"the manifest is not JSON: {error.msg}", place=Place(path, error.lineno, error.colno)) from None
    except RecursionError:
        raise SourceError(f"{path}: the manifest is nested too deeply") from None
    except ValueError as error:  # a key given twice, or an integer of thousands of digits
        raise SourceError(f"{path}: the manifest cannot be read: {str(error)[:120]}") from None
