"""Softmax, norms and attention: within bounds of a model in float64, equal bytes on both engines."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from both_engines import both
from compiling import Compiler
from numpy.typing import NDArray

WAYS = ("debug", "fast")


def softmax(x: NDArray) -> NDArray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kernel", ["softmax", "softmax_online"])
def test_softmax(compiler: Compiler, kernel: str, way: str):
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((6, 150)) * 4).astype(np.float32)
    x[1, 3], x[2, :140], x[3] = -np.inf, -np.inf, 5.0
    ptx = compiler.ptx("norms", way)
    if kernel == "softmax":
        out = both(ptx, kernel, 6, 64, [x, np.zeros_like(x), 150])[1]
    else:
        out = both(ptx, kernel, 2, (32, 4), [x, np.zeros_like(x), 6, 150])[1]
    wanted = softmax(x.astype(np.float64))
    # An argument down to -40 times log2(e), rounded in f32, moves a weight by 2^-19 of itself; the sum's 150 terms and the quotient by less.
    assert np.allclose(out, wanted, rtol=2.0**-18, atol=1e-30)
    assert (out[2, :140] == 0).all()


@pytest.mark.parametrize("way", WAYS)
def test_layer_norm(compiler: Compiler, way: str):
    rng = np.random.default_rng(2)
    x, gain, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((5, 200), 200, 200))
    out = both(
        compiler.ptx("norms", way), "layer_norm", 5, 64, [x * 3 + 1, gain, bias, np.zeros_like(x), 200, 1e-5], compiled=way != "debug"
    )[3]
    wide = (x * 3 + 1).astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gain + bias
    assert np.allclose(out, wanted, rtol=0, atol=2.0**-19)  # values below 8: a few roundings of 2^-22 and the mean's


@pytest.mark.parametrize("way", WAYS)
def test_rms_norm_in_half_precision(compiler: Compiler, way: str):
    rng = np.random.default_rng(3)
    x, gain = rng.standard_normal((3, 96)).astype(np.float16), rng.standard_normal(96).astype(np.float16)
    out = both(compiler.ptx("norms", way), "rms_norm_half", 3, 32, [x, gain, np.zeros_like(x), 48])[2]
    wide = x.astype(np.float64)
    scale = (1 / np.sqrt((wide**2).mean(axis=1, keepdims=True) + 1e-5)).astype(np.float16)
    assert np.array_equal(out, x * scale * gain)  # products of halves round as NumPy's do


@pytest.mark.parametrize("way", WAYS)
def test_rms_norm_in_bfloat16(compiler: Compiler, way: str):
    x = np.random.default_rng(4).standard_normal((3, 96)).astype(ml_dtypes.bfloat16)
    out = both(compiler.ptx("norms", way), "rms_norm_bf16", 3, 32, [x.view(np.uint16), np.zeros(x.shape, np.uint16), 48])[1]
    wide = x.astype(np.float64)
    wanted = wide / np.sqrt((wide**2).mean(axis=1, keepdims=True))
    assert np.allclose(out.view(ml_dtypes.bfloat16).astype(np.float64), wanted, rtol=2.0**-8 + 2.0**-20, atol=0)


@pytest.mark.parametrize(("causal", "way"), [(0, "sm_90"), (1, "debug"), (1, "fast")])
def test_attention(compiler: Compiler, causal: int, way: str):
    q, k, v = np.random.default_rng(5).standard_normal((3, 1, 64, 16)).astype(np.float32)
    out = both(compiler.ptx("norms", way), "attention", (2, 1), 32, [q, k, v, np.zeros_like(q), 64, causal])[3]
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / 4
    if causal:
        scores[:, ~np.tri(64, dtype=bool)] = -np.inf
    assert np.allclose(out, softmax(scores) @ v, rtol=0, atol=2.0**-18)  # means of values below 4, of weights good to 2^-20


@pytest.mark.parametrize("way", WAYS)
def test_attention_on_tensor_cores(compiler: Compiler, way: str):
    q, k, v = np.random.default_rng(6).standard_normal((3, 48, 16)).astype(np.float16)
    out = both(compiler.ptx("norms", way), "attention_half", 3, 32, [q, k, v, np.zeros(q.shape, np.float32), 48], compiled=way != "debug")[
        3
    ]
    scores = q.astype(np.float64) @ k.T.astype(np.float64) / 4
    assert np.allclose(out, softmax(scores) @ v.astype(np.float64), rtol=0, atol=2.0**-9)  # weights are rounded to f16, values below 4
