"""Which graft replaces which kernel of which module: what a program that looks native kernels up by name reads before it swaps one.

Invariant: a graft is found by the kernel's exact name and the hashes of the module it was made for, and its own bytes are those that were bound;
any other module is refused, with both hashes in the message.

``grafts.json``: ``{"format": "ptxgraft-grafts", "version": 1, "grafts": [{"kernel", "style", "file", "sha256", "module": {"sha256", "fnv1a64", "bytes"}}]}``;
``file`` is a file name beside it, hashes are hexadecimal, FNV-1a has 64 bits and is taken over the PTX bytes as the driver gets them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from ptxgraft.capture.json_node import Node, parse
from ptxgraft.containers import module_hashes
from ptxgraft.errors import SourceError, UsageError

NAME = "grafts.json"
FORMAT, VERSION = "ptxgraft-grafts", 1
_SHA, _FNV = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-f]{16}")
_FILE = re.compile(r"[^/\\\0]{1,255}")


@dataclass(frozen=True, slots=True)
class ModuleId:
    """A module by its bytes: SHA-256, FNV-1a 64 (both hexadecimal) and how many they are."""

    sha256: str
    fnv1a64: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Binding:
    """``file`` (beside the manifest, with ``sha256``) replaces ``kernel`` of ``module`` by a cut of ``style``."""

    kernel: str
    style: str
    file: str
    sha256: str
    module: ModuleId


def module_id(text: bytes) -> ModuleId:
    """A module's identity."""
    return ModuleId(*module_hashes(text), len(text))


def bind_graft(kernel: str, style: str, module: bytes, file: str, graft: bytes) -> Binding:
    """The binding of a graft's text to the module whose kernel it replaces."""
    return Binding(kernel, style, file, hashlib.sha256(graft).hexdigest(), module_id(module))


def manifest_text(bindings: Iterable[Binding]) -> str:
    """The manifest's contents. Of bindings of one kernel to one file the last holds."""
    found = {(b.file, b.kernel): b for b in bindings}
    return json.dumps({"format": FORMAT, "version": VERSION, "grafts": [asdict(b) for b in found.values()]}, indent=1) + "\n"


def updated_manifest(folder: Path, bindings: Iterable[Binding]) -> str:
    """The contents of a folder's manifest after grafts were written there: bindings of other files stay as they are, those of files that are
    written anew go. Raises ``SourceError`` when the manifest that is there cannot be read."""
    made = list(bindings)
    written = {b.file for b in made}
    kept = [b for b in read_manifest(folder) if b.file not in written] if (folder / NAME).exists() else []
    return manifest_text([*kept, *made])


def is_manifest(path: Path) -> bool:
    """Whether grafts are to be taken from a manifest: a folder, or a file of a manifest's name."""
    return path.is_dir() or path.name == NAME


def read_manifest(path: Path) -> list[Binding]:
    """The bindings of a manifest, or of the one in a folder. Raises ``SourceError`` that names what is wrong and where."""
    node = parse(str(path / NAME if path.is_dir() else path))
    if node["format"].text() != FORMAT or node["version"].integer() != VERSION:
        raise SourceError(f"{node.file} is no manifest of grafts of version {VERSION}", hint="`ptxgraft cut` writes one beside its grafts")
    return [_binding(row) for row in node["grafts"].items()]


def _binding(row: Node) -> Binding:
    module = row["module"]
    return Binding(
        row["kernel"].text(),
        row["style"].text(),
        row["file"].matching(_FILE, "a file name without folders"),
        row["sha256"].matching(_SHA, "64 hexadecimal digits"),
        ModuleId(
            module["sha256"].matching(_SHA, "64 hexadecimal digits"),
            module["fnv1a64"].matching(_FNV, "16 hexadecimal digits"),
            module["bytes"].integer(),
        ),
    )


def graft_for(path: Path, kernel: str, module: bytes, style: str | None = None) -> tuple[Binding, bytes]:
    """The graft that a manifest has for ``kernel`` of a module with these bytes, read and checked; of several the one of ``style``.

    Raises ``UsageError`` when there is none for the kernel, when it was made for another module, or when several fit; ``SourceError`` when the graft's file is
    not the one that was bound.
    """
    fitting = bindings_for(path, kernel, module, style)
    if len(fitting) > 1:
        listed = ", ".join(f"{b.file} ({b.style})" for b in fitting)
        raise UsageError(f"{path} has {len(fitting)} grafts for {kernel} of this module: {listed}", hint="name one file, or a style")
    return fitting[0], bound_graft(path, fitting[0])


def bindings_for(path: Path, kernel: str, module: bytes, style: str | None = None) -> list[Binding]:
    """All bindings that a manifest has for ``kernel`` of a module with these bytes, at least one. Raises as ``graft_for`` does."""
    bindings = read_manifest(path)
    named = [b for b in bindings if b.kernel == kernel and style in (None, b.style)]
    if not named:
        known = ", ".join(sorted({b.kernel for b in bindings})) or "nothing"
        raise UsageError(f"{path} has no graft{f' of style {style}' if style else ''} for {kernel}", hint=f"it has grafts for {known}")
    here = module_id(module)
    fitting = [b for b in named if b.module == here]
    if not fitting:
        made = named[0].module
        raise UsageError(
            f"{path}: the graft for {kernel} was made for another module: SHA-256 {made.sha256[:16]}..., FNV-1a {made.fnv1a64}, {made.bytes} bytes; "
            f"this one has {here.sha256[:16]}..., {here.fnv1a64}, {here.bytes}",
            hint="cut this module anew",
        )
    return fitting


def bound_graft(path: Path, binding: Binding) -> bytes:
    """A bound graft's bytes, from beside the manifest at ``path``. ``SourceError`` when its file is not there or is not the one that was bound."""
    folder = path if path.is_dir() else path.parent
    try:
        graft = (folder / binding.file).read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read the graft {folder / binding.file}: {error.strerror or error}") from error
    if hashlib.sha256(graft).hexdigest() != binding.sha256:
        raise SourceError(
            f"{folder / binding.file} is not the graft that was bound: its SHA-256 differs", hint="cut again, or bind it anew"
        )
    return graft
