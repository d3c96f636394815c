"""Module images as programs hand them to the driver: PTX text, a cubin or a fat binary.

Invariant: of a fat binary's PTX the one is taken that the driver would compile for the card; nothing is taken for PTX that does not say so.
"""

from __future__ import annotations

import re
from typing import Literal

from ptxgraft.containers.cubin import variable_names
from ptxgraft.containers.fatbin import CUBIN, FATBIN_MAGIC, PTX, members_of, unpacked
from ptxgraft.errors import SourceError

_PTX = re.compile(rb"(?m)^[ \t]*\.version[ \t]+\d+\.\d+")
_VARIABLE = re.compile(
    rb"(?m)^[ \t]*(?:\.(?:visible|weak|common)[ \t]+)?\.(?:global|const)\b(?:[^;={}()]|\([^()]*\))*?[ \t]([A-Za-z_$%][\w$]*)[ \t]*(?:\[[^;={}]*)?(?:[;=]|$)"
)


def kind_of(image: bytes) -> Literal["ptx", "elf", "fatbin", "unknown"]:
    """What an image is, by its first bytes; text is PTX when it has a ``.version``."""
    if image.startswith(FATBIN_MAGIC):
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
    texts = [m for m in members_of(image) if m.kind == PTX and (architecture is None or m.target <= architecture)]
    if not texts:
        return None
    text = unpacked(image, max(texts, key=lambda m: m.target))
    if not _PTX.search(text):
        raise SourceError("the PTX entry of a fat binary holds no PTX")
    return text


def variables_of(image: bytes, architecture: int | None = None) -> list[str]:
    """The names of an image's module variables: from its machine code's symbols, else from the declarations at line starts of its PTX."""
    kind = kind_of(image)
    if kind == "elf":
        return variable_names(image)
    if kind == "fatbin":
        codes = [m for m in members_of(image) if m.kind == CUBIN and (architecture is None or m.target <= architecture)]
        if codes:
            return variable_names(unpacked(image, max(codes, key=lambda m: m.target)))
    text = ptx_of(image, architecture)
    return [name.decode("latin-1") for name in dict.fromkeys(_VARIABLE.findall(text))] if text is not None else []
