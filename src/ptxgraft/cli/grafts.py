"""The modules that verbs run in place of a capture's own: a file, or what a folder's manifest has for a launch.

Invariant: from a manifest a kernel gets a graft only when it was made for the very module that the launch was recorded with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptxgraft import capture
from ptxgraft.errors import SourceError
from ptxgraft.graft.manifest import graft_for, is_manifest
from ptxgraft.text import Document

StyleName = Annotated[str | None, typer.Option("--style", help="Of several grafts in a folder, the one of this style.", show_default=False)]


def open_graft(path: Path, recorded: capture.Launch, original: Document | None = None, style: str | None = None) -> Document:
    """The module at ``path``; of a folder (or its grafts.json) the graft for the launch's kernel, checked against the module that it was recorded with.

    ``original`` stands for that module where the capture does not hold it. Raises as ``graft_for`` does, ``SourceError`` when the module is not known.
    """
    if not is_manifest(path):
        return Document.read(path)
    binding, text = graft_for(path, recorded.kernel, module_bytes(recorded, original, path), style)
    return Document.parse(text, str((path if path.is_dir() else path.parent) / binding.file))


def module_bytes(recorded: capture.Launch, original: Document | None, path: Path) -> bytes:
    """The bytes that a manifest's hashes are to be compared with."""
    module = recorded.module if recorded.module is not None else original.data if original is not None else None
    if module is None:
        raise SourceError(
            f"{path}: which graft is for {recorded.label} cannot be told: the capture does not hold the kernel's module",
            hint="name the graft's file, or the module's with --original",
        )
    return module
