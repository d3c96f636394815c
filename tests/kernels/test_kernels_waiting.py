"""Kernels whose threads wait for others: cooperative launches, locks, chains of blocks, producers and consumers."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, launch
from compiling import Compiler

WAYS = ("sm_80", "sm_90", "debug")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("grid", [1, 12])
def test_a_cooperative_launch(compiler: Compiler, way: str, grid: int):
    numbers = np.random.default_rng(1).integers(-40, 60, 3000).astype(np.int32)
    _, _, _, out = both(
        compiler.ptx("waiting", way), "moments", grid, 64, [numbers, numbers.size, np.zeros(grid, np.int32), np.zeros(2, np.int64)]
    )
    mean = int(int(numbers.sum()) / numbers.size)
    spread = int(((numbers - mean).astype(np.int64) ** 2).sum())
    assert out.tolist() == [spread, spread + mean]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["warp", "numpy"])
def test_a_lock(compiler: Compiler, way: str, engine: str):
    """In which order threads come is open; that each comes once is not."""
    (members, length), _ = launch(
        compiler.ptx("waiting", way), "locked", 2, 40, [np.full(80, -1, np.int32), np.zeros(1, np.int32)], engine=engine
    )
    assert length[0] == 80 and sorted(members.tolist()) == list(range(80))


@pytest.mark.parametrize("way", WAYS)
def test_blocks_in_a_chain(compiler: Compiler, way: str):
    _, out = both(compiler.ptx("waiting", way), "chain", 15, 32, [np.zeros(15, np.int32), np.zeros(15, np.int32)])
    wanted = [14]
    for block in range(13, -1, -1):
        wanted.insert(0, wanted[0] * 3 + block)
    assert out.tolist() == wanted


@pytest.mark.parametrize("way", WAYS)
def test_producer_and_consumers(compiler: Compiler, way: str):
    numbers = np.random.default_rng(2).integers(0, 9, (9, 32)).astype(np.int32)
    _, out, _ = both(compiler.ptx("waiting", way), "pipeline", 1, 128, [numbers, np.zeros(96, np.int32), 9])
    wanted = []
    for thread in range(96):
        total = 0
        for row in numbers.tolist():
            total = total * 5 + 2 * row[(thread % 32 + thread // 32 + 1) % 32]
        wanted.append((total + 2**31) % 2**32 - 2**31)
    assert out.tolist() == wanted
