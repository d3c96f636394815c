"""The reference workload as shipped: compiled layers, weight images, a frame of input planes, and how each layer is launched.

Invariant: everything here is read from the files beside this module (``denoiser/build.py`` writes them) and each call returns fresh
arrays, so a caller may write into what it gets.
"""

from __future__ import annotations

import io
import lzma
import zipfile
from pathlib import Path

import numpy as np

from ptxgraft.data.launches import LAUNCHES, ReferenceLaunch, TextureSpec
from ptxgraft.errors import SourceError, UsageError

__all__ = ["LAYERS", "ReferenceLaunch", "TextureSpec", "frame", "launch_arguments", "ptx", "weights"]

LAYERS: tuple[str, ...] = tuple(LAUNCHES)
_HERE = Path(__file__).parent


def _known(layer: str) -> str:
    if layer not in LAYERS:
        raise UsageError(f"no reference layer {layer!r}", hint=f"the layers are {', '.join(LAYERS)}")
    return layer


def _read(name: str) -> bytes:
    path = _HERE / name
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror or error}", hint="reinstall the package, or run python denoiser/build.py") from error


def _arrays(name: str) -> dict[str, np.ndarray]:
    try:
        with np.load(io.BytesIO(_read(name)), allow_pickle=False) as archive:
            return {key: archive[key] for key in archive.files}
    except (ValueError, EOFError, KeyError, zipfile.BadZipFile) as error:
        raise SourceError(
            f"{_HERE / name}: not a readable archive of arrays ({error})", hint="reinstall the package, or run python denoiser/build.py"
        ) from error


def ptx(layer: str) -> bytes:
    """PTX text of a layer (``enc4`` or ``dec0``) as nvcc wrote it. Raises UsageError for another name, SourceError when the file is damaged."""
    name = f"{_known(layer)}.ptx.xz"
    try:
        return lzma.decompress(_read(name))
    except (lzma.LZMAError, EOFError) as error:
        raise SourceError(
            f"{_HERE / name}: not a readable xz file ({error})", hint="reinstall the package, or run python denoiser/build.py"
        ) from error


def weights(layer: str) -> np.ndarray:
    """A layer's weight image, u8 [bytes]: one slice per warp, laid out as denoiser/README.md says. Raises as ``ptx``."""
    return _arrays("weights.npz")[_known(layer)]


def frame() -> dict[str, np.ndarray]:
    """The input planes by name, f16 RGBA [height, width, 4].

    ``enc4_plane`` [56, 88]: noisy colour and nearness; ``dec0_features`` [92, 156]: normals and albedo with noise on them; ``dec0_skip``
    [92, 156]: noisy colour and nearness; ``clean`` [92, 156]: the colour with 64 samples a pixel, for pictures. Colour is linear, 0 to 8.
    """
    return _arrays("frame.npz")


def launch_arguments(layer: str) -> ReferenceLaunch:
    """Everything that is needed to launch a layer on the shipped frame. Raises as ``ptx``."""
    return LAUNCHES[_known(layer)](frame(), weights(layer))
