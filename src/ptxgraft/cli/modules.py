"""Opening modules for verbs: a file, an entry of it, bound.

Invariant: an entry is found by its exact name; a wrong name suggests near ones.
"""

from __future__ import annotations

from pathlib import Path

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.text import Document


def pick_entry(document: Document, name: str | None) -> str:
    """The entry a user named, or the module's only one."""
    if name is not None:
        return document.entry(name).name
    names = [e.name for e in document.entries]
    if len(names) == 1:
        return names[0]
    if not names:
        raise UsageError(f"{document.name} defines no entry")
    shown = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
    raise UsageError(f"{document.name} defines {len(names)} entries", hint=f"name one with --entry: {shown}")


def open_entry(path: Path, name: str | None) -> tuple[Document, Flow]:
    """A module and the facts of one entry of it."""
    document = Document.read(path)
    return document, Flow(bind(document, pick_entry(document, name)))
