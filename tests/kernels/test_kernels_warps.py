"""Shuffles, votes, matches, reductions, cooperative groups, atomics and divergence, against plain NumPy: all of it exact."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both
from compiling import Compiler
from numpy.typing import NDArray

WAYS = ("sm_89", "debug")
LANES = np.arange(32)


@pytest.mark.parametrize("way", WAYS)
def test_shuffles(compiler: Compiler, way: str):
    x = np.random.default_rng(1).integers(-(2**31), 2**31, 32, dtype=np.int32)
    out = both(compiler.ptx("warps", way), "shuffles", 1, 32, [x, np.zeros((9, 32), np.int32)], compiled=way != "debug")[1]
    lane, wide = LANES, x.astype(np.int64) << 20 | LANES
    assert np.array_equal(out[0], x[[5] * 32])
    assert np.array_equal(out[1], x[lane // 8 * 8 + lane * 7 % 8])
    assert np.array_equal(out[2], x[np.where(lane >= 3, lane - 3, lane)])
    assert np.array_equal(out[3], x[np.where(lane % 16 >= 2, lane - 2, lane)])
    down = lane + lane % 2 + 1
    assert np.array_equal(out[4], x[np.where(down < 32, down, lane)])
    assert np.array_equal(out[5], x[lane ^ 21])
    assert np.array_equal(out[6], (wide[lane ^ 9] >> 10).astype(np.int32))
    doubled = np.clip(x[np.where(lane < 28, lane + 4, lane)].astype(np.int64) * 2, -(2**31), 2**31 - 1)  # a conversion saturates
    assert np.array_equal(out[7], doubled)
    part = np.where(lane < 20, 19 - lane, np.where(lane % 4 >= 1, lane - 1, lane))
    assert np.array_equal(out[8], x[part % 32])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("same", [False, True])
def test_votes_matches_and_reductions(compiler: Compiler, same: bool, way: str):
    x = np.full(32, 7, np.int32) if same else np.random.default_rng(2).integers(-3, 8, 32, dtype=np.int32)
    out = both(compiler.ptx("warps", way), "votes", 1, 32, [x, np.zeros((13, 32), np.uint32)], compiled=way != "debug")[1]

    def mask(lanes: NDArray) -> int:
        return sum(1 << int(i) for i in np.flatnonzero(lanes))

    assert (out[0] == mask(x > 0)).all()
    assert (out[1] == (bool((x == 7).any()) | bool((x < 100).all()) << 1 | bool((x < 5).all()) << 2)).all()
    assert np.array_equal(out[2], [mask(x == v) for v in x])
    assert (out[3] == 0xFFFFFFFA).all()
    assert (out[4] == (0xFFFFFFFA if same else 0)).all()
    assert np.array_equal(out[5], out[2])
    odd = x & 1 == 1
    assert np.array_equal(out[6], np.where(odd, mask(odd), mask(~odd & (x > 2))))
    unsigned = x.astype(np.uint32)
    assert (out[7] == unsigned.sum(dtype=np.uint32)).all()
    assert (out[8].view(np.int32) == x.max()).all()
    assert (out[9] == unsigned.min()).all()
    both_bits = np.bitwise_and.reduce(unsigned | 1) ^ np.bitwise_or.reduce(unsigned) << 8 ^ np.bitwise_xor.reduce(unsigned) << 16
    assert (out[10] == both_bits).all()
    assert np.array_equal(out[11], np.where(x > 3, LANES[x > 3].sum(), 0))
    assert (out[12] == 0xFFFFFFFF).all()


@pytest.mark.parametrize("way", WAYS)
def test_reduction_over_the_grid(compiler: Compiler, way: str):
    x = np.random.default_rng(3).integers(-(2**31), 2**31, 1500, dtype=np.int32)
    args = [x, x.size, np.zeros(5, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)]
    out = both(compiler.ptx("warps", way), "reduce_grid", 5, 96, args, compiled=way != "debug")
    assert out[3][0] == out[4][0] == x.sum(dtype=np.int32)
    owner = np.arange(x.size) // 96 % 5
    assert np.array_equal(out[2], [x[owner == b].sum(dtype=np.int32) for b in range(5)])


@pytest.mark.parametrize("way", WAYS)
def test_cooperative_groups(compiler: Compiler, way: str):
    n = 64
    x = np.random.default_rng(4).integers(-100, 100, n, dtype=np.int32)
    out = both(compiler.ptx("warps", way), "groups", 1, n, [x, np.zeros((7, n), np.int32)], compiled=way != "debug")[1]
    tiles = x.reshape(-1, 8)
    assert np.array_equal(out[0], tiles.sum(axis=1).repeat(8))
    assert np.array_equal(out[1], tiles.max(axis=1).repeat(8))
    assert np.array_equal(out[2], tiles.cumsum(axis=1).reshape(-1))
    assert np.array_equal(out[3], np.roll(tiles, -3, axis=1).reshape(-1) + np.arange(n) // 8 * 1000)
    for warp in range(0, n, 32):
        lanes, part = slice(warp, warp + 32), x[warp : warp + 32]
        some = part % 3 == 0
        assert np.array_equal(out[4][lanes], np.where(some, some.sum() * 100 + some.cumsum() - 1, 0))
        assert np.array_equal(out[5][lanes], np.where(some, part[some][0], 0))
        assert np.array_equal(out[6][lanes], [part[part & 3 == v & 3].sum() for v in part])


@pytest.mark.parametrize("way", WAYS)
def test_atomics(compiler: Compiler, way: str):
    n = 128
    x = np.random.default_rng(5).integers(-(2**31), 2**31, n, dtype=np.int32)
    i32, u32 = np.arange(152, dtype=np.int32) * 3, np.array([2**31, 5, 0, 0], np.uint32)
    args = [x, i32, u32, np.zeros(2, np.int64), np.zeros(3, np.uint64), np.zeros(3, np.float32), np.zeros(2), np.zeros((4, 2), np.float16)]
    _, a, b, c, d, e, f, g, old = both(
        compiler.ptx("warps", way), "atomics", 2, 64, [*args, np.zeros(n, np.int32)], compiled=way != "debug"
    )
    total = x.sum(dtype=np.int32)
    with np.errstate(over="ignore"):
        assert a[:2].tolist() == [total, np.int32(3) - total]
    assert a[2:4].tolist() == [x.min(), x.max()]
    assert a[4:7].tolist() == [
        np.bitwise_and.reduce(x) & 12, np.bitwise_or.reduce(x) | 15, np.bitwise_xor.reduce(x) ^ 18,
    ]  # fmt: skip
    assert a[7:10].tolist() == [21 + 3 * n, 24 + n, 27 + n]
    assert np.array_equal(a[16 : 16 + n], x)
    assert np.array_equal(old, i32[16 : 16 + n])
    assert np.array_equal(a[144:], i32[144:] + np.bincount(x & 7, minlength=8))
    unsigned = x.view(np.uint32)
    assert b.tolist() == [min(2**31, unsigned.min()), unsigned.max(), n % 11, -n % 18]
    assert c.tolist() == [min(0, int(x.min()) << 32), max(0, int(x.max()) << 32)]
    wide = [int(v) % 2**64 for v in x]
    assert d[0] == sum(v << 16 for v in wide) % 2**64
    assert d[1] == np.bitwise_xor.reduce([np.uint64(v * 0x100000001 % 2**64) for v in wide])
    assert d[2] == int((x & 0xFFFF).max()) << 33
    odd, low = x & 1 == 1, x & 255
    assert e[:2].tolist() == [low[~odd].sum() / 4, low[odd].sum() / 4]
    assert e[2] == np.fmod(x.astype(np.int64), 1000).max()
    assert f.tolist() == [low[~odd].sum() / 8, low[odd].sum() / 8]
    counts = np.bincount(x & 3, minlength=4)
    assert np.array_equal(g, np.stack([counts * [0, 1, 0, 1], counts * 0.5], axis=1))


@pytest.mark.parametrize("way", WAYS)
def test_loops_of_different_lengths(compiler: Compiler, way: str):
    n = 100
    x = np.random.default_rng(6).integers(1, 5000, n, dtype=np.int32)
    x[:3] = [1, 2, 4]
    _, steps, highest, _ = both(
        compiler.ptx("warps", way), "collatz", 2, 64, [x, np.full(n, -1, np.int32), np.full(n, -1, np.int32), n], compiled=way != "debug"
    )
    for value, got, top in zip(x.tolist(), steps.tolist(), highest.tolist(), strict=True):
        y, count, most = value, 0, value
        while y != 1:
            if y % 2:
                y = 3 * y + 1
            else:
                y //= 2
                if y == 4:
                    count += 2
                    break
            most = max(most, y)
            count += 1
        assert (got, top) == (count, most), value


@pytest.mark.parametrize("way", WAYS)
def test_nested_loops_with_barriers(compiler: Compiler, way: str):
    n, rounds = 128, 6
    x = np.random.default_rng(7).integers(0, 100, n, dtype=np.int32)
    out = both(compiler.ptx("warps", way), "nested", 1, n, [x, np.zeros(n, np.int32), rounds], compiled=way != "debug")[1]
    values, row = [int(v) for v in x], [int(v) for v in x]
    for k in range(rounds):
        for i in range(n):
            y = row[(i + k) % n]
            if y & 1:
                for j in range(y & 7):
                    if j == 5:
                        continue
                    values[i] += j * y
                    if values[i] & 64:
                        values[i] ^= 3
                        break
            else:
                values[i] -= y
                while y and values[i] > 500:
                    values[i] -= y
        row = [v & 0x3FF for v in values]
        if sum(v & 1 for v in values) > 96:
            values = [v + 1000 for v in values]
        if any(v == 12345 for v in values):
            break
    assert out.tolist() == values


@pytest.mark.parametrize("way", WAYS)
def test_mandelbrot(compiler: Compiler, way: str):
    width, height, limit = 25, 20, 60
    out = both(
        compiler.ptx("warps", way),
        "mandelbrot",
        (4, 5),
        (8, 4),
        [np.zeros((height, width), np.int32), width, height, limit],
        compiled=way != "debug",
    )[0]
    cy, cx = np.mgrid[0:height, 0:width] * 0.125 + np.array([-1.25, -2.25])[:, None, None]
    x, y, count = np.zeros_like(cx), np.zeros_like(cx), np.zeros(cx.shape, int)
    with np.errstate(over="ignore", invalid="ignore"):
        going = np.ones(cx.shape, bool)
        for _ in range(limit):
            going &= x * x + y * y <= 4
            count += going
            x, y = np.where(going, x * x - y * y + cx, x), np.where(going, 2 * x * y + cy, y)
    assert np.array_equal(out, count)
