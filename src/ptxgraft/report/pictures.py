"""Pictures of planes and of their differences.

Invariant: a picture shows what its caption says and scales nothing silently: the range that black and white stand for is returned with it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

SMALLEST = 320
"""Pictures narrower than this many pixels are enlarged by a whole factor, so that a texel can be seen."""


def plane_rgb(pixels: NDArray[np.float32]) -> tuple[NDArray[np.uint8], float, float]:
    """A plane [height, width, channels] as uint8 [height, width, 3], with the values that black and white stand for.

    One and two channels become grey and red-green; of four, the first three are shown. The range is the 1st to the 99th percentile of the finite values.
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
    rgb[..., :channels] = scaled
    if channels == 1:
        rgb[...] = scaled
    return (rgb * 255 + 0.5).astype(np.uint8), low, high


def difference_rgb(expected: NDArray[np.uint8], found: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    """Where two images of the same bytes differ: uint8 [height, width, 3]; dark grey where all of a texel's bytes agree, yellow to red by how many
    of them do not."""
    wrong = (expected != found).reshape(height, width, -1).mean(axis=-1)
    rgb = np.full((height, width, 3), 40, dtype=np.float64)
    at = wrong > 0
    rgb[at, 0], rgb[at, 1], rgb[at, 2] = 255, 220 * (1 - wrong[at]), 0
    return rgb.astype(np.uint8)


def save_png(path: Path, rgb: NDArray[np.uint8]) -> None:
    """Write a PNG, whole or not at all."""
    factor = max(1, -(-SMALLEST // rgb.shape[1]))
    image = Image.fromarray(np.kron(rgb, np.ones((factor, factor, 1), dtype=np.uint8)))
    partial = path.with_name(path.name + ".part")
    try:
        image.save(partial, format="PNG")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
