"""Kernels over CUB and libcu++: sorting, scans, reductions, histograms, atomics, pipelines and barriers as NVIDIA's headers write them. Exact."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler

WAYS = ("sm_80", "sm_90")
BLOCKS, TILE = 2, 256


@pytest.mark.parametrize("way", WAYS)
def test_sorting_pairs(compiler: Compiler, way: str):
    rng = np.random.default_rng(1)
    keys, values = rng.integers(-(2**31), 2**31, (BLOCKS, TILE), dtype=np.int32), rng.integers(0, 999, (BLOCKS, TILE), dtype=np.int16)
    keys[:, ::3] >>= 28
    args = [keys, values, np.zeros_like(keys), np.zeros_like(values)]
    out = both(compiler.ptx("cub_blocks", way), "sort_pairs", BLOCKS, 64, args)
    order = np.argsort(keys, axis=1, kind="stable")
    assert np.array_equal(out[2], np.take_along_axis(keys, order, 1))
    assert np.array_equal(out[3], np.take_along_axis(values, order, 1))


@pytest.mark.parametrize("way", WAYS)
def test_scans_and_reductions(compiler: Compiler, way: str):
    x = np.random.default_rng(2).integers(-1000, 1000, (BLOCKS, TILE), dtype=np.int32)
    args = [x, np.zeros_like(x), np.zeros(BLOCKS, np.int32), np.zeros(2 * BLOCKS, np.int32), np.zeros(16, np.uint32)]
    out = both(compiler.ptx("cub_blocks", way), "scan_and_reduce", BLOCKS, 64, args)
    assert np.array_equal(out[1], x.cumsum(axis=1) - x)
    assert np.array_equal(out[2], x.sum(axis=1))
    assert np.array_equal(out[3], x[:, ::4].reshape(-1, 32).max(axis=1))
    assert np.array_equal(out[4], np.bincount((x & 15).reshape(-1), minlength=16))


@pytest.mark.parametrize("way", WAYS)
def test_complex_numbers_and_atomics(compiler: Compiler, way: str):
    z = whole(np.random.default_rng(3), (50, 2), 100)
    args = [z, np.zeros_like(z), np.zeros(1, np.int32), np.zeros(1, np.uint64), 50]
    out = both(compiler.ptx("cub_blocks", way), "standard", 2, 32, args)
    number = z[:, 0] + 1j * z[:, 1]
    wanted = number * number - number.conj()
    assert np.array_equal(out[1], np.stack([wanted.real, wanted.imag], axis=1))
    assert (out[2][0], out[3][0]) == (50, 49 << 33)


@pytest.mark.parametrize("way", WAYS)
def test_a_pipeline_of_copies(compiler: Compiler, way: str):
    tiles = 5
    x = np.random.default_rng(4).integers(-1000, 1000, (BLOCKS, tiles, 64), dtype=np.int32)
    out = both(compiler.ptx("cub_blocks", way), "pipeline", BLOCKS, 64, [x, np.zeros((BLOCKS, 64), np.int32), tiles])[1]
    assert np.array_equal(out, x.sum(axis=1)[:, ::-1])


@pytest.mark.parametrize("way", WAYS)
def test_barrier_objects(compiler: Compiler, way: str):
    x = np.random.default_rng(5).integers(-1000, 1000, 64, dtype=np.int32)
    out = both(compiler.ptx("cub_blocks", way), "barriers", 1, 64, [x, np.zeros(64, np.int32), 4])[1]
    for i in range(4):
        x = (x + np.roll(x, -1)) ^ i
    assert np.array_equal(out, x)
