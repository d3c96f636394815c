"""Opening a capture whatever its form, and changing its form.

Invariant: the form is told from what the folder holds, not from its name; converting says what the target form cannot hold.
"""

from __future__ import annotations

import os
from typing import Literal

from ptxgraft.capture.contents import path_text
from ptxgraft.capture.directory import REPLAY, is_directory_capture, read_directory
from ptxgraft.capture.directory_write import write_directory
from ptxgraft.capture.model import Capture
from ptxgraft.capture.package import MANIFEST, is_package, read_package, write
from ptxgraft.errors import SourceError, UsageError


def open_capture(path: str | os.PathLike[str]) -> Capture:
    """Open a capture of either form. Raises ``SourceError`` when there is none at ``path``; launches that cannot be read go to ``bad``."""
    folder = os.fspath(path)
    try:
        if is_package(folder):
            return read_package(folder)
        if is_directory_capture(folder):
            return read_directory(folder)
        exists = os.path.lexists(folder)
    except ValueError:  # a NUL byte in the name
        exists = False
    if not exists:
        raise SourceError(f"{path_text(folder)}: no such capture")
    raise SourceError(f"{path_text(folder)}: not a capture", hint=f"a capture is a folder with {MANIFEST} or with {REPLAY}/ in it")


def convert(
    source: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    form: Literal["package", "directory"] = "package",
    overwrite: bool = False,
) -> list[str]:
    """Write the capture at ``source`` in another form at ``path``. Gives notes on what could not be kept."""
    writers = {"package": write, "directory": write_directory}
    if form not in writers:
        raise UsageError(f"there is no capture form {form!r}", hint=f"forms: {', '.join(writers)}")
    return writers[form](open_capture(source), path, overwrite=overwrite)
