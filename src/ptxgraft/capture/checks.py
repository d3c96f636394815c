"""Words for what is wrong with a capture's parts.

Invariant: text of unknown origin is shown quoted, escaped and cut short.
"""

from __future__ import annotations

from ptxgraft.capture.contents import Contents


def shown(text: object, limit: int = 60) -> str:
    """Text of unknown origin for a one-line message: quoted, escaped, cut short."""
    quoted = repr(text)
    return quoted if len(quoted) <= limit else f"{quoted[:limit]}..."


def name_fault(name: object) -> str | None:
    """Why ``name`` cannot be a kernel's or variable's name, or ``None``: it must be non-empty printable text without blanks."""
    if not isinstance(name, str) or not name:
        return f"the name {shown(name)} is not a name"
    if not name.isprintable() or " " in name or len(name) > 65535:
        return f"the name {shown(name)} holds blanks or control characters, or is too long"
    return None


def contents_faults(what: str, given: Contents | None, size: int | None) -> list[str]:
    """What is wrong with the length of recorded contents, in words that begin with ``what``; a size that is not known is not judged."""
    if given is None or size is None or given.size == size:
        return []
    return [f"{what} has {given.size} bytes, {size} expected"]
