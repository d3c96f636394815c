"""Functions of floats as nvcc's mathematics library computes them: exact where IEEE arithmetic says what comes out, else within the errors that the
CUDA C++ Programming Guide ("Mathematical Functions") promises; equal bytes on both engines."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from both_engines import both, same_bytes
from compiling import Compiler
from numpy.typing import NDArray

WAYS = ("sm_80", "sm_90")
Model = Callable[[float, float], float]

F32: tuple[tuple[float, Model], ...] = (
    (2, lambda a, b: math.sin(a)),
    (2, lambda a, b: math.cos(a)),
    (4, lambda a, b: math.tan(a)),
    (2, lambda a, b: math.exp(b)),
    (2, lambda a, b: 2.0**b),
    (1, lambda a, b: math.expm1(b)),
    (1, lambda a, b: math.log(abs(a))),
    (1, lambda a, b: math.log2(abs(a))),
    (2, lambda a, b: math.log10(abs(a))),
    (1, lambda a, b: math.log1p(abs(a))),
    (4, lambda a, b: abs(a) ** (b / 4)),
    (0, lambda a, b: math.sqrt(abs(a))),
    (2, lambda a, b: 1 / math.sqrt(abs(a))),
    (1, lambda a, b: math.copysign(abs(a) ** (1 / 3), a)),
    (2, lambda a, b: math.tanh(b)),
    (3, lambda a, b: math.sinh(b)),
    (2, lambda a, b: math.cosh(b)),
    (2, lambda a, b: math.asin(abs(a) % 1)),
    (2, lambda a, b: math.acos(abs(a) % 1)),
    (2, lambda a, b: math.atan(a)),
    (3, lambda a, b: math.atan2(a, b)),
    (2, lambda a, b: math.erf(b)),
    (4, lambda a, b: math.erfc(b / 4)),
    (3, lambda a, b: math.hypot(a, b)),
    (5, lambda a, b: math.gamma(float(np.float32(abs(a) % 1 + 1.5)))),
    (6, lambda a, b: math.lgamma(float(np.float32(abs(a) + 3.5)))),
    (0, lambda a, b: a / b),
    (0, lambda a, b: 1 / a),
)
F64: tuple[tuple[float, Model], ...] = (
    (2, lambda a, b: math.sin(a)),
    (2, lambda a, b: math.cos(a)),
    (1, lambda a, b: math.exp(b)),
    (1, lambda a, b: math.log(abs(a))),
    (2, lambda a, b: abs(a) ** (b / 4)),
    (2, lambda a, b: math.tanh(b)),
    (2, lambda a, b: math.erf(b)),
    (1, lambda a, b: math.cbrt(a)),
    (2, lambda a, b: math.atan2(a, b)),
    (2, lambda a, b: math.sinh(b)),
    (1, lambda a, b: math.log1p(abs(a))),
    (1, lambda a, b: float(np.longdouble(1) / np.sqrt(np.longdouble(abs(a))))),
    (0, lambda a, b: a / b),
    (0, lambda a, b: math.sqrt(abs(a))),
    (0, lambda a, b: float(Fraction(a) * Fraction(b) - Fraction(a))),
    (0, lambda a, b: math.fmod(a, b)),
    (0, lambda a, b: round(a) + math.floor(b) * 0.5),
    (0, lambda a, b: float(math.trunc(a * 1e6)) + math.trunc(abs(a))),
)


def operands(dtype: type, n: int = 96) -> tuple[NDArray, NDArray]:
    """Pairs from every order of magnitude, and whole numbers."""
    rng = np.random.default_rng(1)
    x = (rng.standard_normal(n) * 10.0 ** rng.integers(-5, 6, n)).astype(dtype)
    y = (rng.uniform(-9, 9, n)).astype(dtype)
    x[:8] = [1, -1, 2, 0.5, 3, 100, 1e-3, 45]
    y[:6] = [1, 1, 2, -2, -0.75, 3]
    return x, y


def in_units(got: NDArray, model: Model, x: NDArray, y: NDArray) -> NDArray:
    """Distances from a model's results in units of the last place of the result's type."""
    wanted = np.array([model(float(a), float(b)) for a, b in zip(x, y, strict=True)])
    unit = np.spacing(abs(wanted.astype(got.dtype)).clip(np.finfo(got.dtype).tiny)).astype(np.float64)
    return abs(got.astype(np.float64) - wanted) / unit


@pytest.mark.parametrize("way", WAYS)
def test_functions_in_single_precision(compiler: Compiler, way: str):
    x, y = operands(np.float32)
    out = both(compiler.ptx("arithmetic", way), "functions_f32", 2, 64, [x, y, np.zeros((len(F32), 96), np.float32), 96])[2]
    for row, (units, model) in enumerate(F32):
        assert in_units(out[row], model, x, y).max() <= units + 0.501, f"o[{row}]"


@pytest.mark.parametrize("way", WAYS)
def test_functions_in_double_precision(compiler: Compiler, way: str):
    x, y = operands(np.float64)
    out = both(compiler.ptx("arithmetic", way), "functions_f64", 2, 64, [x, y, np.zeros((len(F64), 96)), 96])[2]
    for row, (units, model) in enumerate(F64):
        assert in_units(out[row], model, x, y).max() <= (units + 1 if units else 0), f"o[{row}]"  # the model errs by up to one


@pytest.mark.parametrize("way", WAYS)
def test_exact_operations_in_single_precision(compiler: Compiler, way: str):
    a, b = operands(np.float32)
    out = both(compiler.ptx("arithmetic", way), "exact_f32", 2, 64, [a, b, np.zeros((24, 96), np.float32), 96], compiled=way == "sm_80")[2]
    fraction, exponent = np.frexp(a)
    towards_zero = a.view(np.int32).astype(np.float64)
    nearest = towards_zero.astype(np.float32)
    towards_zero = np.where(abs(nearest.astype(np.float64)) > abs(towards_zero), np.nextafter(nearest, np.float32(0)), nearest)
    wanted = [
        a + b, a * b, a / b, np.sqrt(abs(a)), np.fmod(a, b), np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), np.copysign(a, b),
        np.minimum(a, b), np.maximum(a, b), np.ldexp(a, b.astype(int)), a.astype(np.int32), a.astype(np.int32) & 255,
        (a.astype(np.float64) * b), towards_zero, (a * np.float32(1e9)).astype(np.int64), np.nextafter(a, b),
        np.array([math.remainder(float(p), float(q)) for p, q in zip(a, b, strict=True)]), fraction, exponent,
        4 * np.signbit(a) + 8, np.trunc(a + np.copysign(np.float32(0.5), a)),
    ]  # fmt: skip
    for row, values in enumerate(wanted):
        assert np.array_equal(out[row], values.astype(np.float32)), f"o[{row}]"


@pytest.mark.parametrize("way", ["sm_90", "debug"])
def test_division_of_128_bits(compiler: Compiler, way: str):
    """nvcc's own code for it takes the carry of differences into sums."""
    rng = np.random.default_rng(5)
    x, y = (rng.integers(0, 2**64, (64, 2), np.uint64) for _ in range(2))
    y[:, 0] |= np.uint64(1)
    for row, bits in enumerate(rng.integers(1, 128, 64)):  # divisors of all lengths
        y[row, 1] &= np.uint64((1 << max(0, bits - 64)) - 1)
        y[row, 0] &= np.uint64((1 << min(64, bits)) - 1)
    out = both(compiler.ptx("arithmetic", way), "wide_division", 1, 64, [x, y, np.zeros((2, 64, 2), np.uint64), 64])[2]
    whole_x, whole_y, quotients, rests = ([int(low) | int(high) << 64 for low, high in words] for words in (x, y, *out))
    assert quotients == [a // b for a, b in zip(whole_x, whole_y, strict=True)]
    assert rests == [a % b for a, b in zip(whole_x, whole_y, strict=True)]


@pytest.mark.parametrize("way", ["sm_80", "fast", "debug"])
def test_fast_functions(compiler: Compiler, way: str):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-3, 3, 64).astype(np.float32), rng.uniform(0.5, 4, 64).astype(np.float32)
    out = both(compiler.ptx("arithmetic", way), "fast_f32", 1, 64, [x, y, np.zeros((12, 64), np.float32), 64])[2].astype(np.float64)
    a, b = x.astype(np.float64), y.astype(np.float64)
    magnitude = abs(a)
    for row, wanted, bound in (
        (0, np.sin(a), 2.0**-21.41),
        (1, np.cos(a), 2.0**-21.19),
        (2, np.exp(a), (2 + abs(1.173 * a)) * np.exp(a) * 2.0**-23),
        (3, 10**a, (2 + abs(2.97 * a)) * 10**a * 2.0**-23),
        (4, np.log(magnitude), np.maximum(2.0**-21.41, 3 * abs(np.log(magnitude)) * 2.0**-23)),
        (5, np.log2(magnitude), np.maximum(2.0**-22, 2 * abs(np.log2(magnitude)) * 2.0**-23)),
        (6, a / b, 2 * abs(a / b) * 2.0**-23),
        (7, (1 / x).astype(np.float64), 0),
        (8, 1 / np.sqrt(magnitude), 0.5001 * 2.0**-23 / np.sqrt(magnitude)),
        (9, magnitude ** (b / 2), magnitude ** (b / 2) * 2.0**-19),  # derived from two of the above
        (10, np.clip(a, 0, 1), 0),
        (11, np.tan(a), (abs(np.tan(a)) + 1) ** 2 * 2.0**-20),  # derived: a quotient of sine and cosine
    ):
        assert (abs(out[row] - wanted) <= bound).all(), f"o[{row}]"


@pytest.mark.parametrize("way", WAYS)
def test_packed_halves(compiler: Compiler, way: str):
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal((32, 2)) * 2.0 ** rng.integers(-3, 4, (32, 2))).astype(np.float16) for _ in range(2))
    out = both(compiler.ptx("arithmetic", way), "halves", 1, 32, [a, b, np.zeros((24, 32, 2), np.float16), 32], compiled=way == "sm_80")[2]
    p, q = a.astype(np.float64), b.astype(np.float64)

    def pair(low: NDArray, high: NDArray) -> NDArray:
        return np.stack([low, high], axis=1)

    exact = {
        0: p + q, 1: p - q, 2: p * q, 3: p * q + p, 5: np.maximum(p, q), 6: np.minimum(p, q), 7: -abs(p), 8: p > q, 9: np.clip(p + q, 0, 1),
        10: np.maximum(p * q + q, 0), 12: p[:, ::-1], 13: pair(p[:, 0] * 3, q[:, 1] + 1), 14: pair(np.trunc(p[:, 0]), np.rint(abs(q[:, 1]))),
        15: np.rint(p), 16: pair(np.floor(p[:, 0]), np.ceil(p[:, 1])),
    }  # fmt: skip
    for row, wanted in exact.items():
        assert np.array_equal(out[row], wanted.astype(np.float16)), f"o[{row}]"
    close = {
        4: p / q, 11: np.sqrt(abs(p)), 18: 2**q, 19: np.log2(abs(p)), 20: np.sin(p), 21: np.tanh(q), 22: 1 / q, 23: 1 / np.sqrt(abs(p)),
        17: pair(np.where(p[:, 0] < q[:, 1], q[:, 0], p[:, 1]), p[:, 0] / q[:, 1]),
    }  # fmt: skip
    for row, wanted in close.items():
        units = abs(out[row].astype(np.float64) - wanted) / np.spacing(abs(wanted).astype(np.float16)).astype(np.float64)
        assert units.max() <= 2.01, f"o[{row}]"


@pytest.mark.parametrize("way", WAYS)
def test_packed_bfloats(compiler: Compiler, way: str):
    rng = np.random.default_rng(4)
    a, b = ((rng.standard_normal((32, 2)) * 2.0 ** rng.integers(-3, 4, (32, 2))).astype(ml_dtypes.bfloat16) for _ in range(2))
    args = [a.view(np.uint16), b.view(np.uint16), np.zeros((10, 32, 2), np.uint16), 32]
    out = both(compiler.ptx("arithmetic", way), "bfloats", 1, 32, args)[2]
    p, q = a.astype(np.float64), b.astype(np.float64)
    third = (np.float32(a[:, :1].astype(np.float32)) / np.float32(3)).astype(np.float64)
    cut = (np.array([1 / 3], np.float32).view(np.uint32) >> 16 << 16).view(np.float32)
    for row, wanted in enumerate((
        p + q, p - q, p * q, p * q + p, np.maximum(p, q), np.minimum(p, q), -abs(p), np.stack([p[:, 0] * 3, q[:, 1] + 1], axis=1),
        np.broadcast_to(third, (32, 2)), np.stack([np.broadcast_to(cut, 32), np.rint(p[:, 1]) + 0.0], axis=1),
    )):  # fmt: skip
        assert np.array_equal(out[row], wanted.astype(ml_dtypes.bfloat16).view(np.uint16)), f"o[{row}]"


@pytest.mark.parametrize("way", WAYS)
def test_eight_bit_floats(compiler: Compiler, way: str):
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((64, 2)) * 2.0 ** rng.integers(-12, 12, (64, 2))).astype(np.float32)
    x[:3] = [[0, -0.0], [np.inf, -np.inf], [500, -60000]]
    out = both(compiler.ptx("arithmetic", way), "eighths", 1, 64, [x, np.zeros((2, 64), np.uint16), np.zeros((2, 64, 2), np.float32), 64])
    for row, (dtype, most) in enumerate(((ml_dtypes.float8_e4m3fn, 448), (ml_dtypes.float8_e5m2, 57344))):
        wanted = np.clip(x, -most, most).astype(dtype)
        assert same_bytes(out[1][row].view(np.uint8).reshape(64, 2), wanted.view(np.uint8)), dtype
        assert np.array_equal(out[2][row], wanted.astype(np.float32)), dtype
