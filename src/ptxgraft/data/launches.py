"""How each reference layer is launched: grid, block, argument block and the resources that its arguments point to.

Invariant: the tables here and the parameter lists in denoiser/*.cu are the same, offset for offset (tests/denoiser reads them back from the PTX).
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np


@dataclass(slots=True)
class TextureSpec:
    """A texture to bind: ``array`` is [height, width, channels]; ``filter`` is ``point`` or ``linear``; ``address`` is ``clamp``, ``border``,
    ``wrap`` or ``mirror``; ``normalized`` says whether coordinates run from 0 to 1 instead of counting texels."""

    array: np.ndarray
    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False


@dataclass(slots=True)
class ReferenceLaunch:
    """One launch, free of any device: the caller makes the resources and puts their addresses and handles into ``args``.

    ``args`` is the parameter block with zeros where a pointer or handle goes. The dictionaries are keyed by the byte offset in ``args``
    of the 8-byte pointer or handle: ``buffers`` hold memory, ``textures`` what to bind, ``surfaces`` zero-filled [height, width, channels].
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    args: bytes
    buffers: dict[int, np.ndarray] = field(default_factory=dict)
    textures: dict[int, TextureSpec] = field(default_factory=dict)
    surfaces: dict[int, np.ndarray] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)  # what the resource at an offset is called


def _enc4(frame: dict[str, np.ndarray], weights: np.ndarray) -> ReferenceLaunch:
    plane = frame["enc4_plane"]
    tokens_y, tokens_x = plane.shape[0] // 4, plane.shape[1] // 4
    merged_y, merged_x = -(-tokens_y // 2), -(-tokens_x // 2)
    # plane, merged, skip | tokens_x, tokens_y, input_gain, output_gain | weights | score_scale, epsilon
    args = struct.pack("<3Q2i2fQ2f", 0, 0, 0, tokens_x, tokens_y, 2.0, 1.0, 0, 32**-0.5, 1e-4)
    return ReferenceLaunch(
        entry="enc4",
        grid=(-(-tokens_x // 8), -(-tokens_y // 8), 1),
        block=(32, 1, 4),
        shared_bytes=0,
        args=args,
        buffers={40: weights},
        textures={0: TextureSpec(plane)},
        surfaces={8: np.zeros((merged_y * 4, merged_x * 8, 4), np.float16), 16: np.zeros((tokens_y * 4, tokens_x * 8, 4), np.uint8)},
        names={0: "plane", 8: "merged", 16: "skip", 40: "weights"},
    )


DEC0_ORIGIN = (2, 2)  # of the picture on its surfaces, which have a border of as many pixels all round
DEC0_MATRIX = (0.96, 0.03, 0.01, 0.0, 0.01, 0.97, 0.02, 0.0, 0.0, 0.03, 0.97, 0.0)  # rows red, green, blue; last column added


def _dec0(frame: dict[str, np.ndarray], weights: np.ndarray) -> ReferenceLaunch:
    skip = frame["dec0_skip"]
    height, width = skip.shape[:2]
    origin_x, origin_y = DEC0_ORIGIN
    args = struct.pack(
        "<4Q2iQ2i6f12f2fI2fi",
        *(0, 0, 0, 0),  # features, skip, colour, picture
        *(width, height),
        0,  # weights
        *(origin_x, origin_y),
        *(1.0, 2.0, 1e-4),  # feature_gain, skip_gain, epsilon
        *(1.0, 0.05, 0.35),  # blend_slope, blend_low, blend_high
        *DEC0_MATRIX,
        *(1.25, 0.0625),  # exposure, white
        *(2025, 0.5),  # dither_seed, dither
        *(0.5, 1),  # head_gain, flags
    )
    surface = (height + 2 * origin_y, width + 2 * origin_x, 4)
    return ReferenceLaunch(
        entry="dec0",
        grid=(-(-width // 32), -(-height // 16), 1),
        block=(32, 1, 1),
        shared_bytes=0,
        args=args,
        buffers={40: weights},
        textures={0: TextureSpec(frame["dec0_features"]), 8: TextureSpec(skip, filter="linear")},
        surfaces={16: np.zeros(surface, np.float16), 24: np.zeros(surface, np.uint8)},
        names={0: "features", 8: "skip", 16: "colour", 24: "picture", 40: "weights"},
    )


LAUNCHES: dict[str, Callable[[dict[str, np.ndarray], np.ndarray], ReferenceLaunch]] = {"enc4": _enc4, "dec0": _dec0}
