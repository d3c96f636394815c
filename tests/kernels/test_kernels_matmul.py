"""Matrix products without tensor cores: exact on whole numbers, within the sum's bound on others, equal bytes on both engines."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler

WAYS = ("sm_89", "debug")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_naive_in_any_type(compiler: Compiler, dtype: str, way: str):
    rng = np.random.default_rng(1)
    m, n, k = 19, 37, 23
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32, "i64": np.int64}[dtype]
    limit = {"f32": 100, "f64": 1 << 22, "i32": (1 << 31) - 1, "i64": (1 << 62)}[dtype]  # integers wrap, on both sides alike
    a, b = whole(rng, (m, k), limit, kind), whole(rng, (k, n), limit, kind)
    c = both(
        compiler.ptx("matmul", way), f"naive_{dtype}", (3, 3), (16, 8), [a, b, np.zeros((m, n), kind), m, n, k], compiled=way != "debug"
    )[2]
    assert np.array_equal(c, a @ b)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("kernel", "size", "grid", "block"), [
    ("tiled_f32", (40, 21, 50), (2, 3), (16, 16)),
    ("strips_f32", (64, 32, 40), (1, 2), (8, 8)),
])  # fmt: skip
def test_tiled(compiler: Compiler, kernel: str, size: tuple[int, int, int], grid: tuple[int, int], block: tuple[int, int], way: str):
    rng = np.random.default_rng(2)
    m, n, k = size
    a, b = whole(rng, (m, k), 100), whole(rng, (k, n), 100)
    c = both(compiler.ptx("matmul", way), kernel, grid, block, [a, b, np.zeros((m, n), np.float32), m, n, k], compiled=True)[2]
    assert np.array_equal(c, a @ b)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    c = both(compiler.ptx("matmul", way), kernel, grid, block, [a, b, np.zeros((m, n), np.float32), m, n, k])[2]
    exact = a.astype(np.float64) @ b
    bound = k * 2.0**-24 * (abs(a).astype(np.float64) @ abs(b))  # k roundings, each at most half a unit of a partial sum
    assert (abs(c - exact) <= bound).all()


@pytest.mark.parametrize("tile", [4, 8])
@pytest.mark.parametrize("way", WAYS)
def test_dynamic_shared_memory(compiler: Compiler, tile: int, way: str):
    rng = np.random.default_rng(3)
    n = 24
    a, b = whole(rng, (n, n), 100), whole(rng, (n, n), 100)
    args = [a, b, np.zeros((n, n), np.float32), n, tile]
    c = both(
        compiler.ptx("matmul", way),
        "dynamic_f32",
        (n // tile, n // tile),
        (tile, tile),
        args,
        shared_bytes=8 * tile * tile,
        compiled=way != "debug",
    )[2]
    assert np.array_equal(c, a @ b)
