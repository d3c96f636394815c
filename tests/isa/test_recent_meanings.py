"""Meanings that came with PTX 9.4 against NumPy, ml_dtypes and exact fractions, on both instances of ``Lanes``."""

from __future__ import annotations

import sys
from fractions import Fraction
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptxgraft.isa import form_of

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
from instances import INSTANCES

ROWS = 8
SMALL = {
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "e3m2": ml_dtypes.float6_e3m2fn,
    "e2m3": ml_dtypes.float6_e2m3fn,
    "e2m1": ml_dtypes.float4_e2m1fn,
}
BITS = {"e4m3": 8, "e5m2": 8, "e3m2": 6, "e2m3": 6, "e2m1": 4}


def run(instance: str, opcode: str, *inputs: np.ndarray) -> list[np.ndarray]:
    form = form_of(opcode)
    assert form is not None, opcode
    return INSTANCES[instance]([(form, list(inputs))])[0]


def singles(seed: int, low: int = -20, high: int = 20) -> np.ndarray:
    """f32 words around the range of small formats, and those that end it."""
    random = np.random.default_rng(seed)
    x = (random.standard_normal(ROWS * 32) * 2.0 ** random.integers(low, high, ROWS * 32)).astype(np.float32)
    x[:10] = [0.0, -0.0, 1e-45, -1e-45, np.inf, -np.inf, 448.0, 464.0, -465.0, 57344.0]
    return x.reshape(-1, 32)


def toward_zero(name: str, x: np.ndarray) -> np.ndarray:
    """Codes of the largest numbers of a format that are no further from zero; saturating."""
    values = np.arange(1 << (BITS[name] - 1), dtype=np.uint8).view(SMALL[name]).astype(np.float64)
    ladder = values[np.isfinite(values)]
    codes = np.searchsorted(ladder, np.abs(x.astype(np.float64)), side="right") - 1
    return (codes | np.where(np.signbit(x), 1 << (BITS[name] - 1), 0)).astype(np.uint16)


def pair(name: str, upper: np.ndarray, lower: np.ndarray) -> np.ndarray:
    return (upper << (4 if name == "e2m1" else 8)) | lower


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", SMALL)
def test_conversions_toward_zero(instance: str, name: str) -> None:
    a, b = singles(1), singles(2, -4, 4)
    (got,) = run(instance, f"cvt.rz.satfinite.{name}x2.f32", a.view(np.uint32), b.view(np.uint32))
    np.testing.assert_array_equal(got, pair(name, toward_zero(name, a), toward_zero(name, b)))


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("name", ["e4m3", "e2m3"])
def test_conversions_over_a_factor(instance: str, name: str) -> None:
    """The quotient is exact as f64, and its rounding is ml_dtypes'."""
    a, b = singles(3), singles(4)
    factor = np.random.default_rng(5).integers(100, 150, a.shape).astype(np.uint8)
    (got,) = run(instance, f"cvt.rn.satfinite.pzo.scaled::n1::ue8m0.{name}x2.f32", a.view(np.uint32), b.view(np.uint32), factor)
    largest = float(ml_dtypes.finfo(SMALL[name]).max)
    wanted = []
    for x in (a, b):
        flushed = np.where(np.abs(x) < 2.0**-126, np.float32(0), x).astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            quotient = np.clip(flushed / 2.0 ** (factor.astype(np.float64) - 127), -largest, largest)
        codes = quotient.astype(SMALL[name]).view(np.uint8).astype(np.uint16) & ((1 << BITS[name]) - 1)
        wanted.append(np.where(codes == 1 << (BITS[name] - 1), 0, codes))
    np.testing.assert_array_equal(got, pair(name, *wanted))


def unsigned(code: int) -> Fraction:
    """The number of a ue5m3 code by the manual's layout, the bias being 15."""
    exponent, fraction = code >> 3, code & 7
    return Fraction(fraction, 8) * Fraction(2) ** -14 if exponent == 0 else (1 + Fraction(fraction, 8)) * Fraction(2) ** (exponent - 15)


@pytest.mark.parametrize("instance", INSTANCES)
def test_every_unsigned_code_comes_back(instance: str) -> None:
    codes = np.arange(256, dtype=np.uint16).reshape(-1, 32)
    (halves,) = run(instance, "cvt.rn.bf16x2.ue5m3x2", codes)
    values = (halves.astype(np.uint32) << 16).view(np.float32).reshape(-1)
    assert [Fraction(float(v)) for v in values[:255]] == [unsigned(c) for c in range(255)] and np.isnan(values[255])
    for rounding in ("rn", "rz", "rp"):
        (back,) = run(instance, f"cvt.{rounding}.ue5m3x2.bf16x2", halves)
        np.testing.assert_array_equal(back & 0xFF, codes)


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("root", ["add", "sub"])
def test_pairs_with_halves_are_rounded_once(instance: str, root: str) -> None:
    random = np.random.default_rng(6)
    halves = random.standard_normal((ROWS, 64)).astype(np.float16)
    wide = (random.standard_normal((ROWS, 64)) * 2.0 ** random.integers(-8, 8, (ROWS, 64))).astype(np.float32)
    (got,) = run(instance, f"{root}.f32x2.f16x2.f32x2", halves.view(np.uint32), wide.view(np.uint64))
    sign = 1 if root == "add" else -1
    np.testing.assert_array_equal(got.copy().view(np.float32), halves.astype(np.float32) + np.float32(sign) * wide)


@pytest.mark.parametrize("instance", INSTANCES)
def test_products_are_cut_off_to_bf16(instance: str) -> None:
    random = np.random.default_rng(7)
    a, b = (random.standard_normal((ROWS, 64)).astype(np.float32) for _ in range(2))
    (got,) = run(instance, "mul.rz.bf16x2.f32x2.f32x2", a.view(np.uint64), b.view(np.uint64))
    exact = a.astype(np.float64) * b.astype(np.float64)  # 48 bits
    mantissa, exponent = np.frexp(exact)
    cut = np.ldexp(np.trunc(mantissa * 256) / 256, exponent).astype(np.float32)
    np.testing.assert_array_equal(got.copy().view(np.uint16), (cut.view(np.uint32) >> 16).astype(np.uint16))


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("type", ["u8x4", "s8x4", "u16x2", "s16x2"])
def test_packed_comparisons(instance: str, type: str) -> None:
    random = np.random.default_rng(8)
    a, b = (random.integers(0, 1 << 32, (ROWS, 32), np.uint32) for _ in range(2))
    dtype = np.dtype(f"{type[0]}{type[1:].partition('x')[0]}".replace("u", "uint").replace("s", "int"))
    for op, function in (("lt", np.less), ("ge", np.greater_equal), ("ne", np.not_equal)):
        (got,) = run(instance, f"set.{op}.{type}", a, b)
        wanted = np.where(function(a.view(dtype), b.view(dtype)), dtype.type(-1) if dtype.kind == "i" else np.iinfo(dtype).max, 0)
        np.testing.assert_array_equal(got, wanted.astype(dtype).view(np.uint32))


@pytest.mark.parametrize("instance", INSTANCES)
@pytest.mark.parametrize("group", ["1:4", "2:4", "4:8", "2:16"])
def test_decompression(instance: str, group: str) -> None:
    kept, size = (int(n) for n in group.split(":"))
    random = np.random.default_rng(9)
    number = 4 // kept  # one register of elements
    opcode = f"spdecompress.b8.b4.sp::{group}.x{number}"
    places = np.stack([np.stack([random.permutation(size)[:kept] for _ in range(number)]).reshape(-1) for _ in range(32)])
    values = random.integers(1, 256, places.shape)
    words = np.zeros((32, -(-places.shape[1] // 8)), np.uint32)
    bytes_ = np.zeros((32, -(-places.shape[1] // 4)), np.uint32)
    dense = np.zeros((32, number * size), np.uint8)
    for lane in range(32):
        for i, (place, value) in enumerate(zip(places[lane], values[lane], strict=True)):
            words[lane, i // 8] |= np.uint32(int(place) << 4 * (i % 8))
            bytes_[lane, i // 4] |= np.uint32(int(value) << 8 * (i % 4))
            dense[lane, i // kept * size + place] = value
    form = form_of(opcode)
    assert form is not None and words.shape[1] == bytes_.shape[1] == 1
    got = run(instance, opcode, words.reshape(1, 32), bytes_.reshape(1, 32))
    np.testing.assert_array_equal(np.stack([g.reshape(-1) for g in got], 1), dense.view(np.uint32))
