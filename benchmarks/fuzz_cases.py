"""Differences kept: one block of a kernel, one warp's operands, and the results that are right.

Invariant: a kept case is complete: its text, its operands and its texture are in the file, and nothing of the generator is needed to run it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.fuzz_kernels import BLOCK, Block, Kernel, Out, Reg, program_of
from ptxgraft.run import Launch, Texture

WARP = 32
SETTINGS = ("format", "filter", "address", "normalized", "integers")


def warp_of(kernel: Kernel, row: int) -> Kernel:
    """The kernel for the operands of a row's warp alone, over and over until they fill a block of threads."""
    first = row // WARP * WARP
    return kernel.only(range(len(kernel.blocks)), np.tile(np.arange(first, first + WARP), BLOCK // WARP))


def keep(kernel: Kernel, outputs: NDArray[np.uint64], what: str) -> dict[str, Any]:
    """A kernel of one warp's operands as JSON. ``outputs``: uint64[words, rows], the results that are right; ``what`` says what the case shows."""
    texture = kernel.texture
    image = None
    if texture is not None:
        image = {"dtype": texture.array.dtype.str, "shape": list(texture.array.shape), "texels": texture.array.tobytes().hex()}
        image |= {name: getattr(texture, name) for name in SETTINGS}
    return {
        "what": what, "kind": kernel.kind, "seed": list(kernel.seed), "text": kernel.text()[0].splitlines(), "inputs": _hex(kernel.inputs[:, :WARP]),
        "outputs": _hex(outputs[:, :WARP]), "memory": kernel.memory, "blob": kernel.blob.hex(), "texture": image,
    }  # fmt: skip


def launch_of(kept: Mapping[str, Any]) -> tuple[Launch, NDArray[np.uint64]]:
    """A launch of a kept case, and the results that it should leave in its second allocation: uint64[words, rows]."""
    inputs, outputs = (
        np.tile(np.array([[int(v, 16) for v in row] for row in kept[name]], np.uint64), BLOCK // WARP) for name in ("inputs", "outputs")
    )
    image = kept["texture"]
    texture = None
    if image is not None:
        texels = np.frombuffer(bytes.fromhex(image["texels"]), image["dtype"]).reshape(image["shape"])
        settings: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name in SETTINGS if (v := image[name]) is not None}
        texture = Texture(texels, **settings)
    words = [Out(Reg("", 64, ""), "") for _ in outputs]
    kernel = Kernel(
        kept["kind"], tuple(kept["seed"]), inputs, [], [], [Block("", [], words)], texture, bytes.fromhex(kept["blob"]), (), kept["memory"]
    )
    return kernel.launch(program_of("\n".join(kept["text"]) + "\n")), outputs


def _hex(values: NDArray[np.uint64]) -> list[list[str]]:
    return [[f"{int(v):x}" for v in row] for row in values]
