"""The small layer that tests of verify and cli run: its module, launches of it as captures, and edits of its text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ptxgraft import capture
from ptxgraft.run import Module, Surface, capture_of, execute, snapshot
from ptxgraft.text import Document

PTX = Path(__file__).parent / "layer.ptx"
GRID, BLOCK = (2, 1, 1), (32, 2, 1)
TILES = 4
WEIGHT_BYTES = 2560
SLICE = 1280
"""Bytes of the weight image that one warp reads; 1152 to 1279 of it are read by nobody."""

STORE = "\tst.global.v2.u32 \t[%rd12], {%r42, %r43};\n"
SURFACE_STORE = "\tsust.b.2d.v2.b32.trap \t[%rd4, {%r19, %r4}], {%r42, %r43};\n"
OUT, SURFACE = "allocation 2", "surface at argument 24"


def layer_document() -> Document:
    return Document.read(PTX)


def layer_arrays() -> tuple[np.ndarray, np.ndarray]:
    """Input tiles f16 [tile, lane, 8] and the weight image f16 [1280]."""
    random = np.random.default_rng(3)
    return random.standard_normal((TILES, 32, 8)).astype(np.float16), (random.standard_normal(WEIGHT_BYTES // 2) / 3).astype(np.float16)


def record(document: Document, engine: str = "numpy", seq: int = 7, out: np.ndarray | None = None) -> capture.Launch:
    """A launch of the layer with what it leaves. Arguments: input, weights, out (f16 [4, 32, 4]), a surface of 32x4 RGBA f16, a shift of 3."""
    inputs, weights = layer_arrays()
    held = np.full((TILES, 32, 4), 9, np.float16) if out is None else out
    surface = Surface(np.zeros((TILES, 32, 4), np.float16))
    prepared = Module(document).kernel("layer").prepare(GRID, BLOCK, [inputs, weights, held, surface, 3])
    before = snapshot(prepared.launch)
    execute(prepared.launch, engine=engine)
    return capture_of(prepared.launch, before, seq)


def edited(document: Document, *changes: tuple[str, str]) -> Document:
    """The layer with pieces of its text exchanged; each old piece must stand there exactly once."""
    text = document.text
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in the layer"
        text = text.replace(old, new)
    return Document.parse(text, "edited.ptx")
