"""Matrix products on tensor cores, with and without copies that run ahead: exact on whole numbers, within a bound on others, equal bytes on both engines."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np
import pytest
from both_engines import both, whole
from compiling import Compiler
from numpy.typing import DTypeLike, NDArray


@dataclass(frozen=True, slots=True)
class Kind:
    """``a`` and ``b``: the operands' element types; ``total``: the result's; ``limit``: whole numbers up to this keep every sum exact.
    ``unit``: half a unit in the last place that a tensor core keeps of the largest term, relative to it."""

    a: DTypeLike
    b: DTypeLike
    total: DTypeLike
    limit: int
    unit: float


KINDS = {
    "f16": Kind(np.float16, np.float16, np.float32, 64, 2.0**-23),
    "f16_f16": Kind(np.float16, np.float16, np.float16, 4, 2.0**-11),
    "bf16": Kind(ml_dtypes.bfloat16, ml_dtypes.bfloat16, np.float32, 64, 2.0**-23),
    "tf32": Kind(np.float32, np.float32, np.float32, 64, 2.0**-23),
    "s8": Kind(np.int8, np.int8, np.int32, 127, 0),
    "e4m3": Kind(ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fn, np.float32, 4, 2.0**-12),
    "e5m2_e4m3": Kind(ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn, np.float32, 4, 2.0**-12),
}
WAYS = ("sm_90", "sm_89", "debug")
CASES = [(kind + form, WAYS[(i + j) % 3]) for i, kind in enumerate(KINDS) for j, form in enumerate(("", "_piped"))]


def run(compiler: Compiler, way: str, kernel: str, kind: Kind, a: NDArray, bt: NDArray, compiled: bool = False) -> NDArray:
    m, n = a.shape[0], bt.shape[0]
    args = [a.view(np.uint8), bt.view(np.uint8), np.full((m, n), 77, kind.total), n, a.shape[1] * a.itemsize]
    return both(compiler.ptx("tensor", way), kernel, (n // 32, m // 32), 128, args, compiled=compiled)[2]


@pytest.mark.parametrize(("name", "way"), CASES)
def test_product(compiler: Compiler, name: str, way: str):
    kind, rng = KINDS[name.removesuffix("_piped")], np.random.default_rng(4)
    k = 160 // np.dtype(kind.a).itemsize
    a, bt = whole(rng, (32, k), kind.limit, kind.a), whole(rng, (64, k), kind.limit, kind.b)
    c = run(compiler, way, name, kind, a, bt)
    assert np.array_equal(c, (a.astype(np.int64) @ bt.T.astype(np.int64)).astype(kind.total))


@pytest.mark.parametrize("name", ["f16", "tf32", "e4m3"])
def test_product_of_fractions(compiler: Compiler, name: str):
    kind, rng = KINDS[name], np.random.default_rng(5)
    k = 128 // np.dtype(kind.a).itemsize
    a, bt = rng.standard_normal((32, k)).astype(kind.a), rng.standard_normal((32, k)).astype(kind.b)
    c = run(compiler, "sm_90", name + "_piped", kind, a, bt, compiled=name == "e4m3").astype(np.float64)
    if name == "tf32":  # a tensor core drops the bits that tf32 has not
        a, bt = ((x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for x in (a, bt))
    wide_a, wide_b = a.astype(np.float64), bt.astype(np.float64)
    # Each of k terms and each partial sum is cut at a place below the largest of them, and that is below the sum of absolute values.
    bound = 2 * k * kind.unit * (abs(wide_a) @ abs(wide_b).T)
    assert (abs(c - wide_a @ wide_b.T) <= bound).all()


@pytest.mark.parametrize("way", ["sm_90", "debug"])
def test_double_precision(compiler: Compiler, way: str):
    rng = np.random.default_rng(6)
    a, bt = whole(rng, (16, 20), 1 << 20, np.float64), whole(rng, (8, 20), 1 << 20, np.float64)
    c = both(compiler.ptx("tensor", way), "f64", (1, 2), 32, [a, bt, np.zeros((16, 8)), 8, 20])[2]
    assert np.array_equal(c, a @ bt.T)
