"""Scans, histograms and a radix sort, against NumPy: exact."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler

WAYS = ("sm_90", "debug")


@pytest.mark.parametrize("way", WAYS)
def test_scan_whose_blocks_wait_for_each_other(compiler: Compiler, way: str):
    n, block = 900, 128
    x = np.random.default_rng(1).integers(-(2**31), 2**31, n, dtype=np.int32)
    blocks = -(-n // block)
    args = [x, np.zeros(n, np.int32), n, np.zeros(blocks, np.int32), np.zeros(blocks, np.int32), np.zeros(1, np.uint32)]
    out = both(compiler.ptx("scans", way), "scan_chained", blocks, block, args)
    assert np.array_equal(out[1], x.cumsum(dtype=np.int32))
    assert out[5][0] == blocks


@pytest.mark.parametrize("way", WAYS)
def test_scan_in_shared_memory(compiler: Compiler, way: str):
    x = whole(np.random.default_rng(2), (3, 96), 1000)
    out = both(compiler.ptx("scans", way), "scan_shared", 3, 96, [x, np.zeros_like(x)], shared_bytes=8 * 96, compiled=way != "debug")[1]
    assert np.array_equal(out, x.cumsum(axis=1))


@pytest.mark.parametrize("kernel", ["histogram_global", "histogram_shared"])
@pytest.mark.parametrize("way", WAYS)
def test_histogram(compiler: Compiler, kernel: str, way: str):
    data = (np.random.default_rng(3).standard_normal(1000) * 40).astype(np.int8).view(np.uint8)
    out = both(compiler.ptx("scans", way), kernel, 3, 96, [data, data.size, np.full(256, 5, np.uint32)], compiled=way != "debug")[2]
    assert np.array_equal(out, 5 + np.bincount(data, minlength=256))


@pytest.mark.parametrize("way", WAYS)
def test_radix_sort(compiler: Compiler, way: str):
    n, block = 300, 128
    ptx, blocks = compiler.ptx("scans", way), -(-n // block)
    keys = np.random.default_rng(4).integers(0, 2**12, n, dtype=np.uint32)  # many equal: the order of their values shows stability
    values, order = np.arange(n, dtype=np.int32), np.argsort(keys, kind="stable")
    for shift in (0, 4, 8):
        counts = both(ptx, "sort_count", blocks, block, [keys, n, shift, np.zeros((16, blocks), np.int32)])[3]
        sums = both(ptx, "sort_sums", 1, 32, [counts, counts.size])[0]
        assert np.array_equal(sums.reshape(-1), counts.reshape(-1).cumsum() - counts.reshape(-1))
        *_, keys, values = both(
            ptx, "sort_scatter", blocks, block, [keys, values, n, shift, sums, np.zeros_like(keys), np.zeros_like(values)]
        )
    assert np.array_equal(values, order)
    assert (np.diff(keys.astype(np.int64)) >= 0).all()
