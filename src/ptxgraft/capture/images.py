"""Image formats: what the bytes of a texel mean, by the CUDA driver's CUarray_format codes.

Invariant: one table, ``FORMATS``, holds everything that differs between formats; a code that is not in it is never guessed at.
Codes and names: enum CUarray_format of the CUDA driver API (cuda.h 13.0). The YUV, block-compressed and packed formats of that enum are
left out on purpose: their texels are not a plain row of channels.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError


@dataclass(frozen=True, slots=True)
class Format:
    """One CUarray_format. ``bits_class`` is how the same texels are described to a Vulkan compute path (8 unorm bytes, 9 snorm bytes,
    16 binary16, 32 binary32), ``None`` where that path has no word for them. ``channels`` is what the code's name says, 0 when it says nothing; captures in
    the field write one code for a whole family, so an image's own channel count is what counts."""

    code: int
    name: str
    meaning: str  # 'unorm', 'snorm', 'float', 'uint', 'sint'
    dtype: np.dtype
    bits_class: int | None
    channels: int = 0

    @property
    def channel_bytes(self) -> int:
        return self.dtype.itemsize


def _row(code: int, name: str, meaning: str, dtype: str, bits_class: int | None, channels: int = 0) -> Format:
    return Format(code, name, meaning, np.dtype(dtype), bits_class, channels)


# An 8-bit or 16-bit integer array is read by a texture unit as a normalised float unless the texture says otherwise, hence 'unorm' and 'snorm'
# for codes 1, 2, 8 and 9; 32-bit integers have no normalised reading.
FORMATS: dict[int, Format] = {
    row.code: row
    for row in (
        _row(1, "UNSIGNED_INT8", "unorm", "<u1", 8),
        _row(2, "UNSIGNED_INT16", "unorm", "<u2", None),
        _row(3, "UNSIGNED_INT32", "uint", "<u4", None),
        _row(8, "SIGNED_INT8", "snorm", "<i1", 9),
        _row(9, "SIGNED_INT16", "snorm", "<i2", None),
        _row(10, "SIGNED_INT32", "sint", "<i4", None),
        _row(16, "HALF", "float", "<f2", 16),
        _row(32, "FLOAT", "float", "<f4", 32),
        _row(192, "UNORM_INT8X1", "unorm", "<u1", 8, 1),
        _row(193, "UNORM_INT8X2", "unorm", "<u1", 8, 2),
        _row(194, "UNORM_INT8X4", "unorm", "<u1", 8, 4),
        _row(195, "UNORM_INT16X1", "unorm", "<u2", None, 1),
        _row(196, "UNORM_INT16X2", "unorm", "<u2", None, 2),
        _row(197, "UNORM_INT16X4", "unorm", "<u2", None, 4),
        _row(198, "SNORM_INT8X1", "snorm", "<i1", 9, 1),
        _row(199, "SNORM_INT8X2", "snorm", "<i1", 9, 2),
        _row(200, "SNORM_INT8X4", "snorm", "<i1", 9, 4),
        _row(201, "SNORM_INT16X1", "snorm", "<i2", None, 1),
        _row(202, "SNORM_INT16X2", "snorm", "<i2", None, 2),
        _row(203, "SNORM_INT16X4", "snorm", "<i2", None, 4),
    )
}


def image_format(code: int) -> Format | None:
    """The table's row for a CUarray_format code, or ``None`` when the code is unknown (its texels are then raw bytes)."""
    return FORMATS.get(code)


def image_bytes(width: int, height: int, channels: int, code: int) -> int | None:
    """Bytes of an image's texels, or ``None`` when the format is unknown."""
    row = FORMATS.get(code)
    return None if row is None else width * height * channels * row.channel_bytes


def _known(code: int) -> Format:
    row = FORMATS.get(code)
    if row is None:
        raise UsageError(f"image format {code} is unknown", hint=f"known CUarray_format codes: {', '.join(map(str, FORMATS))}")
    return row


def texels(data: NDArray[np.uint8], width: int, height: int, channels: int, code: int) -> NDArray:
    """Raw bytes as an array [height, width, channels] in the format's own dtype, nothing converted. The bytes must be exactly that many."""
    row = _known(code)
    expected = width * height * channels * row.channel_bytes
    if data.nbytes != expected:
        raise UsageError(f"an image of {width}x{height}x{channels} {row.name} has {expected} bytes, not {data.nbytes}")
    return np.ascontiguousarray(data).reshape(-1).view(np.uint8).view(row.dtype).reshape(height, width, channels)


def decode(data: NDArray[np.uint8], width: int, height: int, channels: int, code: int) -> NDArray[np.float32]:
    """Raw bytes as float32 [height, width, channels]: unorm v/max, snorm max(v/max, -1), float as is, 32-bit integers by value (rounded to float32)."""
    row = _known(code)
    values = texels(data, width, height, channels, code)
    if row.meaning in ("unorm", "snorm"):
        # One correctly rounded float32 division: both operands are exact.
        scaled = values.astype(np.float32) / np.float32(np.iinfo(row.dtype).max)
        return np.maximum(scaled, np.float32(-1)) if row.meaning == "snorm" else scaled
    return values.astype(np.float32)


def encode(values: NDArray, code: int) -> NDArray[np.uint8]:
    """A float array [height, width, channels] as the format's raw bytes: clamped to what the format holds, NaN to 0 for integers, rounded to nearest even."""
    row = _known(code)
    source = np.asarray(values)
    if source.ndim != 3:
        raise UsageError(f"an image is an array [height, width, channels], not one of {source.ndim} dimensions")
    if row.meaning == "float":
        with np.errstate(over="ignore"):
            stored = source.astype(row.dtype)
    else:
        limits = np.iinfo(row.dtype)
        scale = limits.max if row.meaning in ("unorm", "snorm") else 1
        lowest = -limits.max if row.meaning == "snorm" else limits.min
        exact = np.where(np.isnan(source.astype(np.float64)), 0.0, source.astype(np.float64)) * scale
        stored = np.rint(np.clip(exact, lowest, limits.max)).astype(row.dtype)
    return np.ascontiguousarray(stored).reshape(-1).view(np.uint8)
