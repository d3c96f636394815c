"""Pictures of planes and of their differences.

Invariant: a picture shows what its caption says and scales nothing silently: the range that black and white stand for is returned with it.
"""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from ptxgraft.report.files import write_file

SMALLEST = 320
"""Pictures of fewer than this many texels squared are enlarged by a whole factor to at least this width, so that a texel can be seen."""

BACKGROUND = 40
"""The grey of texels that do not differ."""


def plane_rgb(pixels: NDArray[np.floating]) -> tuple[NDArray[np.uint8], float, float]:
    """A plane [height, width, channels] as uint8 [height, width, 3], with the values that black and white stand for.

    One and two channels become grey and red-green; of four, the first three are shown. The range is the 1st to the 99th percentile of the finite
    values shown; NaN is black.
    """
    shown = pixels[..., :3].astype(np.float64)
    finite = shown[np.isfinite(shown)]
    low, high = (float(v) for v in np.percentile(finite, (1, 99))) if finite.size else (0.0, 1.0)
    if high <= low:
        high = low + 1.0
    with np.errstate(invalid="ignore"):
        scaled = np.nan_to_num(np.clip((shown - low) / (high - low), 0, 1))
    channels = shown.shape[-1]
    rgb = np.zeros((*shown.shape[:2], 3))
    if channels == 1:
        rgb[...] = scaled
    else:
        rgb[..., :channels] = scaled
    return (rgb * 255 + 0.5).astype(np.uint8), low, high


def difference_rgb(expected: NDArray[np.uint8], found: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Where two images of the same bytes differ: uint8 [height, width, 3]; dark grey where all of a texel's bytes agree, yellow to red by how many
    of them do not."""
    assert expected.size == found.size, "two images of different sizes"
    wrong = (expected != found).reshape(height, width, -1).mean(axis=-1)
    rgb = np.full((height, width, 3), BACKGROUND, dtype=np.float64)
    at = wrong > 0
    rgb[at, 0], rgb[at, 1], rgb[at, 2] = 255, 220 * (1 - wrong[at]), 0
    return rgb.astype(np.uint8)


def png_bytes(rgb: NDArray[np.uint8]) -> bytes:
    """A picture [height, width, 3] as a PNG file, enlarged where it is small."""
    height, width, _ = rgb.shape
    factor = -(-SMALLEST // width) if height * width < SMALLEST * SMALLEST and width < SMALLEST else 1
    enlarged = np.repeat(np.repeat(rgb, factor, axis=0), factor, axis=1)
    stream = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(enlarged)).save(stream, format="PNG")
    return stream.getvalue()


def save_png(path: Path, rgb: NDArray[np.uint8]) -> None:
    """Write a picture as a PNG, whole or not at all. ``UsageError`` when it cannot be written."""
    write_file(path, png_bytes(rgb))
