"""Names that a text does not use yet.

Invariant: a name handed out occurs nowhere in the text, not in a comment and not as a member of a register range, and is never handed out twice.
"""

from __future__ import annotations

import re

from ptxgraft.errors import UsageError
from ptxgraft.text.document import Document

_TOKEN = re.compile(r"[%$]?[A-Za-z0-9_$]+", re.ASCII)
_HINT = re.compile(r"[%$]?[A-Za-z0-9_$]*\Z", re.ASCII)
_PREFIX = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*\Z", re.ASCII)


class FreshNames:
    """Hands out names with one prefix. ``name('%r')`` gives '%pg_r', then '%pg_r_1'; ``block('%r')`` gives a base for a range."""

    def __init__(self, document: Document, prefix: str = "pg_") -> None:
        if not _PREFIX.match(prefix):
            raise UsageError(f"'{prefix}' cannot begin a PTX name", hint="use letters, digits and '_'")
        self.prefix = prefix
        # A sigil does not make a name different enough: '%pg_r' and 'pg_r' are both taken when one is seen.
        self._taken = {t.lstrip("%$") for t in _TOKEN.findall(document.text) if prefix in t}
        self._bases = {t.rstrip("0123456789") for t in self._taken}

    def name(self, hint: str = "") -> str:
        """A fresh name: the sigil of ``hint`` ('%', '$' or none), the prefix, the rest of ``hint``, and a number where needed."""
        return self._take(hint, block=False)

    def block(self, hint: str = "") -> str:
        """A fresh base: no name that is this base with a number after it exists or will be handed out."""
        return self._take(hint, block=True)

    def _take(self, hint: str, block: bool) -> str:
        if not _HINT.match(hint):
            raise UsageError(f"'{hint}' cannot be part of a PTX name", hint="use letters, digits, '_' and '$'")
        sigil = hint[:1] if hint[:1] in ("%", "$") else ""
        stem = self.prefix + hint[len(sigil) :]
        number = 0
        while True:
            # '_' between stem and number keeps the number from making the name a member of a range 'stem<N>'.
            name = f"{stem}_{number}" if number else stem
            if block:
                name += "_" if name[-1].isdigit() else ""
            base = name.rstrip("0123456789")
            if name not in self._taken and (base not in self._bases if block or base != name else True):
                break
            number += 1
        self._taken.add(name)
        self._bases.add(base)
        return sigil + name
