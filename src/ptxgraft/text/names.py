"""Names that a text does not use yet.

Invariant: a name handed out occurs nowhere in the text, not in a comment and not as a member of a register range, and is never handed out twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ptxgraft.errors import UsageError
from ptxgraft.text.document import Document

_RANGE = re.compile(r"([%$]?[A-Za-z0-9_$]+)\s*<")
_TOKEN = re.compile(r"[%$]?[A-Za-z0-9_$]+", re.ASCII)
_HINT = re.compile(r"[%$]?[A-Za-z0-9_$]*\Z", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z", re.ASCII)


class FreshNames:
    """Hands out names with one prefix: ``name('%r')`` gives '%pg_r', then '%pg_2r'; ``block('%r')`` gives a base for ``.reg .b32 base<N>``."""

    def __init__(self, document: Document, prefix: str = "pg_") -> None:
        if not _PREFIX.match(prefix):
            raise UsageError(f"'{prefix}' cannot begin a PTX name", hint="use letters, digits and '_'")
        self.prefix = prefix
        # A sigil does not make a name different enough: '%pg_r' and 'pg_r' are both taken when one is seen.
        self._names: set[str] = set()
        self._bases: set[str] = set()
        if prefix in document.text:
            self._names = {t.lstrip("%$") for t in _TOKEN.findall(document.text) if prefix in t}
            self._bases = {b.lstrip("%$") for b in _RANGE.findall(document.masked)} & self._names

    def name(self, hint: str = "") -> str:
        """A fresh name: the sigil of ``hint`` ('%', '$' or none), the prefix, a number where needed, the rest of ``hint``."""
        return self._take(hint, self._names, self._name_is_free)

    def block(self, hint: str = "") -> str:
        """A fresh base: no name that is this base with a number after it exists or will be handed out."""
        return self._take(hint, self._bases, self._base_is_free)

    def _take(self, hint: str, into: set[str], free: Callable[[str], bool]) -> str:
        if not _HINT.match(hint):
            raise UsageError(f"'{hint}' cannot be part of a PTX name", hint="use letters, digits, '_' and '$'")
        sigil = hint[:1] if hint[:1] in ("%", "$") else ""
        rest = hint[len(sigil) :]
        if not rest or rest[0].isdigit():
            rest = "x" + rest  # the number stands before a letter, so that no base blocks more than a few of them
        name, number = self.prefix + rest, 1
        while not free(name):
            number += 1
            name = f"{self.prefix}{number}{rest}"
        into.add(name)
        return sigil + name

    def _name_is_free(self, name: str) -> bool:
        return name not in self._names and name not in self._bases and not any(_is_member(name, b) for b in self._bases)

    def _base_is_free(self, base: str) -> bool:
        return self._name_is_free(base) and not any(_is_member(n, base) for n in self._names | self._bases)


def _is_member(name: str, base: str) -> bool:
    return name.startswith(base) and name[len(base) :].isdecimal()
