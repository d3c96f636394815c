"""One launch on both CPU engines.

Invariant: the engines start from equal arguments and must leave equal bytes in every one of them. The engine ``warp`` has two ways to run a program: as one
compiled function, and as threaded code. Compiling the function takes seconds, so most kernels take the second way, and some both.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import ptxgraft
from ptxgraft.lower import warp_graph
from ptxgraft.run.kernel import Module
from ptxgraft.run.result import RunResult
from ptxgraft.text import Document


@contextmanager
def threaded() -> Iterator[None]:
    """Every program runs as threaded code."""
    limit = warp_graph.LIMIT
    warp_graph.LIMIT = 0
    try:
        yield
    finally:
        warp_graph.LIMIT = limit


@lru_cache(maxsize=4)
def _parsed(ptx: bytes, compiled: bool) -> Document:
    """A module that several launches share; one that is compiled is not the one that runs as threaded code, whose code the engine keeps."""
    return Document.parse(ptx)


def launch(
    ptx: bytes,
    name: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    profile: str = "sm_90",
    engine: str = "warp",
    compiled: bool = False,
) -> tuple[list[Any], RunResult]:
    """Run a kernel of a fresh module on copies of ``args``; gives the copies as the kernel left them, and the run's result."""
    memo: dict[int, Any] = {}
    mine = [copy.deepcopy(a, memo) for a in args]
    module = Module(_parsed(ptx, compiled))
    result = module.kernel(name, profile=profile, engine=engine).launch(grid, block, mine, shared_bytes=shared_bytes)
    return mine, result


def both(
    ptx: bytes,
    name: str,
    grid: int | Sequence[int],
    block: int | Sequence[int],
    args: Sequence[Any],
    shared_bytes: int = 0,
    profile: str = "sm_90",
    compiled: bool = False,
) -> list[Any]:
    """What both engines leave in the arguments; fails where the two differ by a byte. ``compiled``: also as one compiled function."""
    reference = launch(ptx, name, grid, block, args, shared_bytes, profile, "numpy")[0]
    with threaded():
        found = {"threaded": launch(ptx, name, grid, block, args, shared_bytes, profile)[0]}
    if compiled:
        found["compiled"] = launch(ptx, name, grid, block, args, shared_bytes, profile, compiled=True)[0]
    for way, left in found.items():
        for position, (ours, theirs) in enumerate(zip(left, reference, strict=True)):
            for got, wanted in zip(arrays_of(ours), arrays_of(theirs), strict=True):
                assert same_bytes(got, wanted), f"{name}, {way}: the engines differ in argument {position}: {first_difference(got, wanted)}"
    return reference


def arrays_of(value: Any) -> list[NDArray]:
    """The arrays behind an argument: none behind a number."""
    if isinstance(value, np.ndarray):
        return [value]
    return [value.array] if isinstance(value, (ptxgraft.Texture, ptxgraft.Surface)) else []


def same_bytes(a: NDArray, b: NDArray) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.tobytes() == b.tobytes()


def first_difference(a: NDArray, b: NDArray) -> str:
    """The first element whose bytes differ, in words."""
    left, right = (np.ascontiguousarray(x).reshape(-1).view(np.uint8).reshape(x.size, -1) for x in (a, b))
    at = int(np.flatnonzero((left != right).any(axis=1))[0])
    return f"element {at}: {a.reshape(-1)[at]!r} and {b.reshape(-1)[at]!r}"


def whole(rng: np.random.Generator, shape: Sequence[int] | int, limit: int, dtype: Any = np.float32) -> NDArray:
    """Random whole numbers from -limit to limit: sums of their products are exact while they stay below the type's precision, in any order."""
    return rng.integers(-limit, limit + 1, shape).astype(dtype)
