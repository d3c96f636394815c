"""Matrix products by the WMMA interface, in every shape and type of it: exact on whole numbers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler

KINDS = {
    # elements, sums, the tile's rows, columns and depth
    "f16_row": (np.float16, np.float32, 16, 16, 16),
    "f16_col": (np.float16, np.float32, 16, 16, 16),
    "f16_wide": (np.float16, np.float32, 8, 32, 16),
    "f16_tall": (np.float16, np.float16, 32, 8, 16),
    "bf16_row": (ml_dtypes.bfloat16, np.float32, 16, 16, 16),
    "tf32_col": (np.float32, np.float32, 16, 16, 8),
    "s8_col": (np.int8, np.int32, 16, 16, 16),
    "u8_row": (np.uint8, np.int32, 16, 16, 16),
    "f64_col": (np.float64, np.float64, 8, 8, 4),
}


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "sm_80") for name in KINDS), ("f16_col", "debug"), ("s8_col", "debug"), ("f64_col", "debug")]
)
def test_product(compiler: Compiler, name: str, way: str):
    element, total, rows, columns, depth = KINDS[name]
    rng, (m, n, k) = np.random.default_rng(1), (2 * rows, columns, 2 * depth)
    a, b = (abs(whole(rng, shape, 3, np.int64)).astype(element) for shape in ((m, k), (k, n)))
    if name != "u8_row":
        a, b = -a, b - np.asarray(1, element)
    if element is ml_dtypes.bfloat16:
        stored = [a.view(np.uint16), b.view(np.uint16)]
    else:
        stored = [a, b]
    start = np.asarray(5, total)
    args = [*stored, np.zeros((m, n), total), n, k, start.tobytes() if total is np.float16 else start.item()]
    c = both(compiler.ptx("wmma", way), name, (1, 2), 32, args)[2]
    assert np.array_equal(c, 2 * (a.astype(np.int64) @ b.astype(np.int64) + 5))
