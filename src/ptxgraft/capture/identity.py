"""What a launch is, in one hash: whether two jobs or two days speak of the same recorded launch.

Invariant: nothing on disk is opened; whatever a replay starts from or is compared with goes in, where the capture lies does not.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import fields
from typing import Any

from ptxgraft.capture.blobs import BlobContents
from ptxgraft.capture.contents import Contents, FileContents, MissingContents, unopened
from ptxgraft.capture.image_record import Image
from ptxgraft.capture.model import Allocation, Launch, Variable

HELD = {Launch: ("module", "binary"), Allocation: ("before", "after"), Image: ("before", "after"), Variable: ("before", "after")}
"""The fields of each class that hold contents."""
ELSEWHERE = {"source"}


def identity(launch: Launch) -> str:
    """SHA-256 (hexadecimal) of everything that a launch says. Contents of our own form go in by their blobs' names, files of the directory form by
    name, size and time of change, what is in memory by its bytes."""
    return hashlib.sha256(json.dumps(_said(launch), sort_keys=True, default=str).encode()).hexdigest()


def _said(part: Any) -> Any:
    if isinstance(part, bytes):
        return part.hex()
    if isinstance(part, list | tuple):
        return [_said(item) for item in part]
    held = HELD.get(type(part))
    if held is None:
        return part
    plain = {f.name: _said(getattr(part, f.name)) for f in fields(part) if f.name not in held and f.name not in ELSEWHERE}
    return plain | {name: _contents(unopened(part, name)) for name in held}


def _contents(contents: Contents | None) -> Any:
    if contents is None:
        return None
    if isinstance(contents, BlobContents):
        return [contents.size, contents.chunk_bytes, contents.digests]
    if isinstance(contents, MissingContents):
        return [contents.size, "missing"]
    if isinstance(contents, FileContents):
        try:
            found = os.stat(contents.path)
        except OSError:
            return [contents.size, os.path.basename(contents.path), "missing"]
        return [contents.size, os.path.basename(contents.path), found.st_size, found.st_mtime_ns]
    return hashlib.sha256(contents.load().data).hexdigest()
