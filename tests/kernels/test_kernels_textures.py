"""Stencils that read textures and write surfaces, against NumPy: sums of whole numbers and means of four are exact."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler

from ptxgraft import Surface, Texture

WAYS = ("sm_80", "debug")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kernel", "block"), [("stencil", (8, 4)), ("stencil_tiled", (16, 8))])
@pytest.mark.parametrize("address", ["clamp", "border"])
def test_stencil(compiler: Compiler, kernel: str, block: tuple[int, int], address: str, way: str):
    width, height = 29, 13
    image = whole(np.random.default_rng(1), (height, width), 1000)
    args = [Texture(image[..., None], address=address), np.zeros((height, width), np.float32), width, height]
    out = both(compiler.ptx("textures", way), kernel, (-(-width // block[0]), -(-height // block[1])), block, args)[1]
    wide = np.pad(image, 1, mode="edge") if address == "clamp" else np.pad(image, 1)
    assert np.array_equal(out, 4 * image - wide[1:-1, :-2] - wide[1:-1, 2:] - wide[:-2, 1:-1] - wide[2:, 1:-1])


@pytest.mark.parametrize("way", WAYS)
def test_halving_an_image(compiler: Compiler, way: str):
    width, height = 16, 8  # powers of two: normalised coordinates are exact
    image = whole(np.random.default_rng(2), (height, width, 4), 1000)
    args = [Texture(image, filter="linear", address="wrap", normalized=True), Surface(np.zeros_like(image)), width, height]
    out = both(compiler.ptx("textures", way), "halve", (2, 2), (8, 4), args)[1].array
    right, below = np.roll(image, -1, axis=1), np.roll(image, -1, axis=0)
    assert np.array_equal(out, (image + right + below + np.roll(right, -1, axis=0)) / 4)


@pytest.mark.parametrize("way", WAYS)
def test_lines(compiler: Compiler, way: str):
    rng, n = np.random.default_rng(3), 50
    line, texels = whole(rng, (n, 1), 1000), rng.integers(0, 256, (n, 4), dtype=np.uint8)
    args = [Texture(line, filter="linear"), Texture(texels, integers=True), np.zeros((2, n), np.float32), n]
    out = both(compiler.ptx("textures", way), "lines", 2, 32, args)[2]
    assert np.array_equal(out[0], (line[:, 0] + np.r_[line[1:, 0], line[-1, 0]]) / 2)
    assert np.array_equal(out[1], texels @ np.array([1, 2, 4, 8]))


@pytest.mark.parametrize("way", WAYS)
def test_boxes(compiler: Compiler, way: str):
    box = whole(np.random.default_rng(4), (3, 4, 8, 2), 1000)
    out = both(compiler.ptx("textures", way), "boxes", 3, (8, 4), [Texture(box), np.zeros_like(box), 8, 4, 3])[1]
    mirrored = box[::-1, ::-1, ::-1]
    assert np.array_equal(out, np.stack([box[..., 0] + mirrored[..., 1], box[..., 1] - mirrored[..., 0]], axis=-1))


@pytest.mark.parametrize("way", WAYS)
def test_surfaces_in_place(compiler: Compiler, way: str):
    image = np.random.default_rng(5).integers(0, 65536, (3, 16, 2), dtype=np.uint16)
    out = both(compiler.ptx("textures", way), "swap_columns", 3, 8, [Surface(image), 16])[0].array
    wanted = image[:, ::-1].copy()
    wanted[:, :8, 1] ^= 0xFF
    assert np.array_equal(out, wanted)
