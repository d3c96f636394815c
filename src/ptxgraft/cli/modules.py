"""Opening modules for verbs: a file, an entry of it, bound.

Invariant: an entry is found by its exact name; a wrong name suggests near ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ptxgraft.errors import PtxgraftError, SourceErrors, UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.text import Document


@contextmanager
def about(path: Path) -> Iterator[None]:
    """Errors that come out of this block name ``path`` when they name no place of their own."""
    try:
        yield
    except PtxgraftError as error:
        if error.place is None and not isinstance(error, SourceErrors) and str(path) not in error.message:
            error.message = f"{path}: {error.message}"
        raise


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
    with about(path):
        return document, Flow(bind(document, pick_entry(document, name)))
