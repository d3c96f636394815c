"""The Python API's ``spec``: from a file or text to a layer spec in one call.

Invariant: the same spec as the command line's.
"""

from __future__ import annotations

import os
from pathlib import Path

from ptxgraft.collector import collector_paused
from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.spec.layer import layer_spec
from ptxgraft.spec.model import LayerSpec
from ptxgraft.text import Document


@collector_paused()
def spec(
    source: Document | str | bytes | os.PathLike[str], entry: str | None = None, block: tuple[int, int, int] | None = None
) -> LayerSpec:
    """The spec of an entry of ``source``: a document, PTX as ``bytes``, or the path of a file. ``entry`` may be None when there is one.

    ``block`` is the block shape (x, y, z) for offsets that depend on the thread. Raises ``SourceError`` for a bad file, ``UsageError`` for a bad entry.
    """
    if not isinstance(source, Document):
        source = Document.parse(source) if isinstance(source, bytes) else Document.read(Path(source))
    names = [e.name for e in source.entries]
    if entry is None and len(names) != 1:
        raise UsageError(f"{source.name} defines {len(names)} entries", hint=f"name one of them: {', '.join(names[:8])}")
    return layer_spec(Flow(bind(source, entry or names[0])), block)
