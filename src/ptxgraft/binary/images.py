"""Module images as programs hand them to the driver: PTX text, a cubin or a fat binary.

Invariant: of a fat binary's PTX the one is taken that the driver would compile for the card; nothing is taken for PTX that does not say so.
"""

from __future__ import annotations

import re
from typing import Literal

from ptxgraft.binary.cubin import variable_names
from ptxgraft.binary.fatbin import fatbin_entries, is_fatbin
from ptxgraft.errors import SourceError

LARGEST_CODE = 32 << 20
"""Bytes of compressed machine code that is looked into: our decompressors make a few megabytes a second."""

_PTX = re.compile(rb"(?m)^[ \t]*\.version[ \t]+\d+\.\d+")
_VARIABLE = re.compile(
    rb"(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.(?:global|const)\b(?:[^;={}()]|\([^()]*\))*?[ \t]([A-Za-z_$%][\w$]*)[ \t]*(?:\[[^;={}]*)?(?:[;=]|$)"
)


def kind_of(image: bytes) -> Literal["ptx", "elf", "fatbin", "unknown"]:
    """What an image is, by its first bytes; text is PTX when it has a ``.version``."""
    if is_fatbin(image):
        return "fatbin"
    if image.startswith(b"\x7fELF"):
        return "elf"
    return "ptx" if _PTX.search(image) else "unknown"


def ptx_of(image: bytes, architecture: int | None = None) -> bytes | None:
    """The PTX that an image is or holds, None when it has none. Of several in a fat binary: the newest that is not newer than ``architecture`` (90 for sm_90),
    by default the newest. Raises ``SourceError`` when the image is damaged."""
    kind = kind_of(image)
    if kind == "ptx":
        return image.rstrip(b"\0")
    if kind != "fatbin":
        return None
    entries = [e for e in fatbin_entries(image) if e.kind == "ptx"]
    if architecture is not None:
        entries = [e for e in entries if e.architecture <= architecture]
    if not entries:
        return None
    text = max(entries, key=lambda e: e.architecture).contents()
    if not _PTX.search(text):
        raise SourceError("the PTX entry of a fat binary holds no PTX")
    return text


def variables_of(image: bytes, architecture: int | None = None) -> list[str]:
    """The names of an image's module variables: from its machine code's symbols, else from the declarations at line starts of its PTX."""
    kind = kind_of(image)
    if kind == "elf":
        return variable_names(image)
    if kind == "fatbin":
        codes = [e for e in fatbin_entries(image) if e.kind == "elf" and (architecture is None or e.architecture <= architecture)]
        if codes:
            code = max(codes, key=lambda e: e.architecture)
            if code.compression != "none" and code.size > LARGEST_CODE:
                raise SourceError(f"machine code of {code.size} bytes is not decompressed for its variables' names")
            return variable_names(code.contents())
    text = ptx_of(image, architecture)
    return [name.decode("latin-1") for name in dict.fromkeys(_VARIABLE.findall(text))] if text is not None else []
