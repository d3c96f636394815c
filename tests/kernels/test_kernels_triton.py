"""Kernels as Triton compiles them (no GPU and no torch needed), on both engines and against NumPy."""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from both_engines import both, whole
from numpy.typing import NDArray

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton: install the PyPI package triton")

TYPES = {
    "float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16", "int8": "*i8", "int32": "*i32",
    "float8_e4m3fn": "*fp8e4nv", "float8_e5m2": "*fp8e5",
}  # fmt: skip
RAW = {1: np.uint8, 2: np.uint16, 4: np.uint32}


@dataclass(frozen=True, slots=True)
class Compiled:
    ptx: bytes
    shared_bytes: int
    threads: int


@pytest.fixture(scope="session", autouse=True)
def triton_cache(tmp_path_factory: pytest.TempPathFactory):
    """Triton keeps what it compiles in a folder of this session."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        patch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # as it has been: products and sums become one operation
        yield


def compiled(name: str, args: list[Any], constants: dict[str, Any], capability: int, warps: int = 4) -> Compiled:
    """A kernel for these arguments: arrays are pointers to 16-byte aligned memory, whole numbers and floats are parameters."""
    import triton
    import triton_sources
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    function = getattr(triton_sources, name)
    signature: dict[str, str] = {}
    for parameter, value in zip(function.arg_names, args, strict=False):
        signature[parameter] = TYPES[value.dtype.name] if isinstance(value, np.ndarray) else "fp32" if isinstance(value, float) else "i32"
    aligned = {
        (i,): [["tt.divisibility", 16]] for i, v in enumerate(args) if isinstance(v, np.ndarray) or (isinstance(v, int) and v % 16 == 0)
    }
    source = ASTSource(fn=function, signature={**signature, **dict.fromkeys(constants, "constexpr")}, constexprs=constants, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", capability, 32), options={"num_warps": warps, "enable_fp_fusion": True})
    return Compiled(made.asm["ptx"].encode(), made.metadata.shared, 32 * made.metadata.num_warps)


def run(
    name: str,
    grid: Any,
    args: list[Any],
    capability: int = 80,
    warps: int = 4,
    constants: dict[str, Any] | None = None,
    function: bool = False,
) -> list[Any]:
    """What both engines leave in ``args``; ``function``: also as one compiled function."""
    made = compiled(name, args, constants or {}, capability, warps)
    raw = [
        v.view(RAW[v.itemsize]) if isinstance(v, np.ndarray) and v.dtype.name not in ("float32", "float16", "int32") else v for v in args
    ]
    out = both(made.ptx, name, grid, made.threads, [*raw, 0, 0], made.shared_bytes, compiled=function)  # two scratch pointers, not used
    return [o.view(v.dtype) if isinstance(v, np.ndarray) else v for o, v in zip(out, args, strict=False)]


def test_add():
    x, y = np.random.default_rng(1).standard_normal((2, 1000)).astype(np.float32)
    assert np.array_equal(run("add", 4, [x, y, np.zeros(1000, np.float32), 1000], constants={"BLOCK": 256}, function=True)[2], x + y)


def softmaxed(x: NDArray) -> NDArray:
    weights = np.exp(x - x.max(axis=-1, keepdims=True))
    return weights / weights.sum(axis=-1, keepdims=True)


@pytest.mark.parametrize("warps", [1, 4])
def test_softmax(warps: int):
    x = (np.random.default_rng(2).standard_normal((5, 112)) * 3).astype(np.float32)
    out = run("softmax", 5, [x, np.zeros_like(x), 100, 112], 89, warps, {"BLOCK": 128}, warps == 1)[1]
    assert np.allclose(out[:, :100], softmaxed(x[:, :100].astype(np.float64)), rtol=2.0**-18, atol=0)
    assert (out[:, 100:] == 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_layer_norm(dtype: type):
    rng = np.random.default_rng(3)
    x, gain, bias = (
        rng.standard_normal((4, 192)).astype(dtype),
        rng.standard_normal(192).astype(np.float32),
        rng.standard_normal(192).astype(np.float32),
    )
    args = [x, gain, bias, np.zeros((4, 192), np.float32), np.zeros(4, np.float32), 192, 1e-5]
    out = run("layer_norm", 4, args, 80, 4, {"BLOCK": 256})
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=1, keepdims=True)
    wanted = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5) * gain + bias
    assert np.allclose(out[3], wanted, rtol=0, atol=2.0**-19)
    assert np.allclose(out[4], wide.mean(axis=1), rtol=0, atol=2.0**-22)


KINDS = {
    # element, what the result is summed in, whole numbers whose sums are exact, precision, first target with it
    "f16": (np.float16, np.float32, 32, "ieee", 80),
    "bf16": (ml_dtypes.bfloat16, np.float32, 32, "ieee", 80),
    "tf32": (np.float32, np.float32, 32, "tf32", 80),
    "tf32x3": (np.float32, np.float32, 32, "tf32x3", 80),
    "f32": (np.float32, np.float32, 32, "ieee", 80),
    "s8": (np.int8, np.int32, 127, "ieee", 80),
    "e4m3": (ml_dtypes.float8_e4m3fn, np.float32, 4, "ieee", 89),
    "e5m2": (ml_dtypes.float8_e5m2, np.float32, 4, "ieee", 89),
}


@pytest.mark.parametrize("stages", [1, 3])
@pytest.mark.parametrize("kind", list(KINDS))
def test_matmul(kind: str, stages: int):
    import triton.language as tl

    element, total, limit, precision, capability = KINDS[kind]
    rng, (m, n, k) = np.random.default_rng(4), (48, 32, 112)
    a, b = whole(rng, (m, k), limit, element), whole(rng, (k, n), limit, element)
    constants = {
        "M": 32,
        "N": 32,
        "K": 32,
        "STAGES": stages,
        "PRECISION": precision,
        "TOTAL": tl.int32 if total is np.int32 else tl.float32,
    }
    args = [a, b, np.zeros((m, n), total), m, n, k]
    padded = np.zeros((64, k), element)  # rows of the last tile that are computed and not stored are read all the same
    padded[:m] = a
    args[0] = padded
    c = run("matmul", (2, 1), args, max(capability, 80 if stages == 1 else 89), 2, constants, kind == "f16" and stages == 1)[2]
    assert np.array_equal(c, (a.astype(np.int64) @ b.astype(np.int64)).astype(total))


@pytest.mark.parametrize(("causal", "stages"), [(False, 1), (True, 2)])
def test_attention(causal: bool, stages: int):
    q, k, v = np.random.default_rng(5).standard_normal((3, 2, 64, 32)).astype(np.float16)
    constants = {"ROWS": 32, "KEYS": 16, "HEAD": 32, "CAUSAL": causal, "STAGES": stages}
    args = [q, k, v, np.zeros_like(q), 64, 1 / math.sqrt(32)]
    out = run("attention", (2, 2), args, 80 if stages == 1 else 89, 2, constants, stages == 1)[3]
    scores = q.astype(np.float64) @ k.astype(np.float64).transpose(0, 2, 1) / math.sqrt(32)
    if causal:
        scores[:, ~np.tri(64, dtype=bool)] = -np.inf
    assert np.allclose(out, softmaxed(scores) @ v.astype(np.float64), rtol=0, atol=2.0**-8)  # weights and results are rounded to f16


def test_scan():
    x = np.random.default_rng(6).integers(-(2**31), 2**31, (2, 256), dtype=np.int32)
    out = run("scan", 2, [x, np.zeros_like(x), np.zeros_like(x)], 80, 4, {"BLOCK": 256})
    assert np.array_equal(out[1], x.cumsum(axis=1, dtype=np.int32))
    assert np.array_equal(out[2], x[:, ::-1].cumsum(axis=1, dtype=np.int32)[:, ::-1])


def test_sort_and_maximum():
    x = np.random.default_rng(7).integers(-1000, 1000, (2, 128), dtype=np.int32)
    out = run("order", 2, [x, np.zeros_like(x), np.zeros(2, np.int32), np.zeros(2, np.int32)], 89, 2, {"BLOCK": 128})
    assert np.array_equal(out[1], np.sort(x, axis=1))
    assert np.array_equal(out[2], x.max(axis=1))
    assert np.array_equal(out[3], x.argmax(axis=1))


def test_histogram():
    x = np.random.default_rng(8).integers(0, 64, 900, dtype=np.int32)
    out = run("histogram", 4, [x, np.zeros(64, np.int32), 900], 80, 4, {"BLOCK": 256, "BINS": 64})
    assert np.array_equal(out[1], np.bincount(x, minlength=64))


def philox(seed: int, counter: int) -> int:
    """The first word of Philox 4x32 with ten rounds (Salmon et al., 2011), as a signed number."""
    key, words = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], [counter, 0, 0, 0]
    for _ in range(10):
        high, low = 0xD2511F53 * words[0], 0xCD9E8D57 * words[2]
        words = [low >> 32 ^ words[1] ^ key[0], low & 0xFFFFFFFF, high >> 32 ^ words[3] ^ key[1], high & 0xFFFFFFFF]
        key = [key[0] + 0x9E3779B9 & 0xFFFFFFFF, key[1] + 0xBB67AE85 & 0xFFFFFFFF]
    return words[0] - (words[0] >> 31 << 32)


def test_random_numbers():
    out = run("random", 2, [np.zeros(128, np.int32), 12345], 80, 2, {"BLOCK": 64})[0]
    assert out.tolist() == [philox(12345, i) for i in range(128)]


def test_functions():
    x = (np.random.default_rng(9).standard_normal(128) * 4).astype(np.float32)
    out = run("functions", 1, [x, np.zeros((7, 128), np.float32), 128], 80, 4, {"BLOCK": 128})[1]
    wide = x.astype(np.float64)
    for row, wanted in enumerate((
        np.sin(wide), np.log(abs(wide)), [math.erf(v) for v in wide], 1 / (1 + np.exp(-wide)), 1 / np.sqrt(abs(wide)),
        x / (abs(x) + np.float32(3)), np.floor(wide) + np.ceil(wide) * 0.5,
    )):  # fmt: skip
        assert np.allclose(out[row], wanted, rtol=0 if row > 4 else 2.0**-20, atol=0 if row > 4 else 2.0**-20), row


def test_transpose():
    x = np.random.default_rng(10).standard_normal((64, 32)).astype(np.float16)
    assert np.array_equal(run("transpose", 1, [x, np.zeros((32, 64), np.float16)], 89, 4, {"ROWS": 64, "COLUMNS": 32})[1], x.T * 2)


def test_a_linear_recurrence():
    rng = np.random.default_rng(11)
    slopes, offsets = rng.choice([-1, 1, 2], (16, 32)).astype(np.float32), whole(rng, (16, 32), 3)
    slopes[::2] = 1  # at most eight doublings: exact
    out = run("recurrence", 1, [slopes, offsets, np.zeros_like(slopes)], 80, 4, {"ROWS": 16, "COLUMNS": 32})[2]
    row = np.zeros(32, np.float32)
    for i in range(16):
        row = row * slopes[i] + offsets[i]
        assert np.array_equal(out[i], row), i


def test_loops_of_unknown_length():
    x = np.random.default_rng(12).integers(1, 200, 64, dtype=np.int32)
    out = run("steps_to_one", 1, [x, np.zeros(64, np.int32)], 89, 2, {"BLOCK": 64})[1]
    for value, got in zip(x.tolist(), out.tolist(), strict=True):
        count = 0
        while value != 1:
            value, count = (value // 2 if value % 2 == 0 else 3 * value + 1), count + 1
        assert got == count


@pytest.mark.parametrize(("dtype", "capability"), [("float8_e5m2", 80), ("float8_e5m2", 90), ("float8_e4m3fn", 89)])
def test_small_floats(dtype: str, capability: int):
    rng, kind = np.random.default_rng(13), np.dtype(getattr(ml_dtypes, dtype))
    x = (rng.standard_normal(128) * 2.0 ** rng.integers(-10, 7, 128)).astype(np.float32)
    args = [x, np.zeros(128, kind), np.zeros(128, ml_dtypes.bfloat16), np.zeros((2, 128), np.float32)]
    _, eighths, halves, back = run("small_floats", 1, args, capability, 4, {"BLOCK": 128})
    most = float(ml_dtypes.finfo(kind).max)
    for got, wide, wanted in zip((eighths, halves), back, (x.clip(-most, most).astype(kind), x.astype(ml_dtypes.bfloat16)), strict=True):
        assert got.tobytes() == wanted.tobytes()
        assert np.array_equal(wide, wanted.astype(np.float32))


def test_atomics():
    x = np.random.default_rng(14).integers(-1000, 1000, 256, dtype=np.int32)
    args = [x, np.zeros(6, np.int32), np.zeros(4, np.int32), np.zeros(2, np.float16)]
    _, sums, bits, halves = run("atomics", 2, args, 80, 4, {"BLOCK": 128})
    assert sums.tolist() == [x[x & 3 == k].sum() for k in range(4)] + [max(0, x[x & 1 == k].max()) for k in range(2)]
    assert bits.tolist() == [f.reduce(x[x & 1 == k]) for f in (np.bitwise_xor, np.bitwise_or) for k in range(2)]
    assert halves.tolist() == [(x[x & 1 == k] & 7).sum() for k in range(2)]
