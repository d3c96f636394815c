"""The approximate functions of profile ``manual``: the exact value rounded once, on both engines, judged by arithmetic of many digits."""

from __future__ import annotations

import json
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from math import isqrt
from pathlib import Path

import mpmath
import numpy as np
import pytest
from instances import INSTANCES, Job

from ptxgraft.isa import Form, form_of

FORMATS = {"f16": (11, -14, 0x7C00, np.uint16), "bf16": (8, -126, 0x7F80, np.uint16), "f32": (24, -126, 0x7F800000, np.uint32)}
"""Precision, exponent of the smallest normal number, infinity, type of the bits."""

F32_NAN, HALF_NAN, INF, MINUS_INF, MINUS_ZERO, ONE, MINUS_ONE = 0x7FFFFFFF, 0x7FFF, 0x7F800000, 0xFF800000, 1 << 31, 0x3F800000, 0xBF800000


def rounded(value: mpmath.mpf | Fraction, fmt: str) -> int:
    """The bits of a nonzero number rounded to nearest even."""
    precision, least, infinity, _ = FORMATS[fmt]
    ratio = Fraction(*value.as_integer_ratio())
    size = abs(ratio)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    exponent = max(exponent, least)
    whole = round(size / Fraction(2) ** (exponent - precision + 1))  # to even
    return int(ratio < 0) << infinity.bit_length() | min(whole + ((exponent - least) << (precision - 1)), infinity)


def value_of(bits: int, fmt: str) -> float:
    if fmt == "f16":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits << 16 if fmt == "bf16" else bits).view(np.float32))


def form(opcode: str) -> Form:
    found = form_of(opcode)
    assert found is not None
    return found


def run(instance: str, *jobs: tuple[str, list[np.ndarray]]) -> list[np.ndarray]:
    """The results of opcodes on arrays of bits, in their shape."""
    padded: list[Job] = []
    for opcode, columns in jobs:
        padded.append((form(opcode), [np.resize(c, -(-len(c) // 32) * 32).reshape(-1, 32) for c in columns]))
    results = INSTANCES[instance](padded, "manual")
    return [np.ascontiguousarray(r[0]).reshape(-1)[: len(columns[0])] for r, (_, columns) in zip(results, jobs, strict=True)]


def _scattered(low: float, high: float, signed: bool) -> Callable[[np.random.Generator, int], np.ndarray]:
    """Numbers with evenly distributed exponents."""

    def draw(rng: np.random.Generator, count: int) -> np.ndarray:
        x = np.exp2(rng.uniform(low, high, count))
        return x * rng.choice([-1, 1], count) if signed else x

    return draw


def _between(low: float, high: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, count: rng.uniform(low, high, count)


def _near_one(rng: np.random.Generator, count: int) -> np.ndarray:
    return 1 + rng.choice([-1, 1], count) * np.exp2(rng.uniform(-24, -1, count))


SINGLE = {
    "rcp": (lambda x: 1 / x, [_scattered(-149, 127.9, True)]),
    "rsqrt": (lambda x: 1 / mpmath.sqrt(x), [_scattered(-149, 127.9, False), _between(1, 4)]),
    "sqrt": (mpmath.sqrt, [_scattered(-149, 127.9, False), _between(1, 4)]),
    "ex2": (lambda x: mpmath.power(2, x), [_between(-151, 128), _scattered(-40, 7, True)]),
    "lg2": (lambda x: mpmath.log(x, 2), [_scattered(-149, 127.9, False), _near_one]),
    "sin": (mpmath.sin, [_scattered(-149, 127.9, True), _between(-10, 10)]),
    "cos": (mpmath.cos, [_scattered(-149, 127.9, True), _between(-10, 10)]),
    "tanh": (mpmath.tanh, [_scattered(-149, 4, True), _between(-10, 10)]),
}
"""The function in many digits, and where its arguments come from."""


SWEEP = json.loads((Path(__file__).parents[2] / "benchmarks" / "results" / "sweep_rounded.json").read_text())["functions"]
"""What the sweep over all 2^32 arguments left open: those whose value lies next to the middle of two results."""


@lru_cache
def arguments(name: str) -> np.ndarray:
    """Random ones, and all that are close."""
    rng = np.random.default_rng(len(name))
    x = np.concatenate([draw(rng, 1500) for draw in SINGLE[name][1]]).astype(np.float32)
    bits = np.concatenate([x.view(np.uint32), np.array(SWEEP.get(name, {}).get("close_arguments", []), np.uint32)])
    return bits[(bits & 0x7FFFFFFF) != 0]


@lru_cache
def wanted(name: str) -> list[int]:
    # An argument of 2^128 leaves 128 bits less of its place in a turn.
    with mpmath.workprec(400 if name in ("sin", "cos") else 160):
        return [rounded(v, "f32") if (v := SINGLE[name][0](mpmath.mpf(value_of(int(b), "f32")))) else 0 for b in arguments(name)]


@pytest.mark.parametrize("instance", INSTANCES)
def test_single_precision(instance: str) -> None:
    got = run(instance, *((f"{name}.approx.f32", [arguments(name)]) for name in SINGLE))
    for name, bits in zip(SINGLE, got, strict=True):
        differ = np.flatnonzero(bits != np.array(wanted(name), np.uint32))
        assert not len(differ), (name, len(differ), hex(int(arguments(name)[differ[0]])), hex(int(bits[differ[0]])))


@lru_cache
def halves(function: str, fmt: str) -> np.ndarray:
    """The wanted result of every 16-bit word."""
    results = []
    for bits in range(1 << 16):
        x = value_of(bits, fmt)
        infinity = FORMATS[fmt][2]
        if x != x:
            results.append(HALF_NAN)
        elif function == "tanh":
            one = 0x3C00 if fmt == "f16" else 0x3F80
            results.append(bits if x == 0 else (bits & 0x8000) | one if abs(x) > 30 else rounded(mpmath.tanh(mpmath.mpf(x)), fmt))
        elif abs(x) > 200:
            results.append(infinity if x > 0 else 0)
        else:
            result = rounded(mpmath.power(2, mpmath.mpf(x)), fmt)
            results.append(0 if fmt == "bf16" and result < 0x80 else result)  # .ftz
    return np.array(results, np.uint16)


HALVES = {
    "ex2.approx.f16": ("ex2", "f16"),
    "ex2.approx.ftz.bf16": ("ex2", "bf16"),
    "tanh.approx.f16": ("tanh", "f16"),
    "tanh.approx.bf16": ("tanh", "bf16"),
}


@pytest.mark.parametrize("instance", INSTANCES)
def test_every_half(instance: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16)
    got = run(instance, *((opcode, [every]) for opcode in HALVES))
    for (opcode, what), bits in zip(HALVES.items(), got, strict=True):
        differ = np.flatnonzero(bits != halves(*what))
        assert not len(differ), (opcode, len(differ), hex(int(differ[0])), hex(int(bits[differ[0]])), hex(int(halves(*what)[differ[0]])))


SPECIALS = {
    # argument: (rcp, rsqrt, sqrt, ex2, lg2, sin, cos, tanh)
    0: (INF, INF, 0, ONE, MINUS_INF, 0, ONE, 0),
    MINUS_ZERO: (MINUS_INF, MINUS_INF, MINUS_ZERO, ONE, MINUS_INF, MINUS_ZERO, ONE, MINUS_ZERO),
    INF: (0, 0, INF, INF, INF, F32_NAN, F32_NAN, ONE),
    MINUS_INF: (MINUS_ZERO, F32_NAN, F32_NAN, 0, F32_NAN, F32_NAN, F32_NAN, MINUS_ONE),
    0x7F800001: (F32_NAN,) * 8,
    0xFFC00000: (F32_NAN,) * 8,
}
FLUSHED = {0x00000001: 0, 0x007FFFFF: 0, 0x80000001: MINUS_ZERO, 0x807FFFFF: MINUS_ZERO}
"""Subnormals, and what ``.ftz`` takes them for."""


@pytest.mark.parametrize("instance", INSTANCES)
def test_special_values(instance: str) -> None:
    given = np.array(list(SPECIALS), np.uint32)
    subnormal = np.array(list(FLUSHED), np.uint32)
    jobs = [(f"{name}.approx{ftz}.f32", [given]) for name in SINGLE for ftz in ("", ".ftz") if name != "tanh" or not ftz]
    flushing = [(f"{name}.approx.ftz.f32", [subnormal]) for name in SINGLE if name != "tanh"]
    results = run(instance, *jobs, *flushing)
    for (opcode, _), bits in zip(jobs, results, strict=False):
        column = list(SINGLE).index(opcode.split(".")[0])
        assert bits.tolist() == [row[column] for row in SPECIALS.values()], opcode
    for (opcode, _), bits in zip(flushing, results[len(jobs) :], strict=True):
        column = list(SINGLE).index(opcode.split(".")[0])
        assert bits.tolist() == [SPECIALS[zero][column] for zero in FLUSHED.values()], opcode


@pytest.mark.parametrize("instance", INSTANCES)
def test_results_are_flushed(instance: str) -> None:
    """2^-126.5, 1 / 2^127, log2 of none is so small; the smallest normal number stays."""
    ex2, rcp, least = run(
        instance,
        ("ex2.approx.ftz.f32", [np.array([0xC2FD0000], np.uint32)]),
        ("rcp.approx.ftz.f32", [np.array([0xFF000000], np.uint32)]),
        ("ex2.approx.ftz.f32", [np.array([0xC2FC0000], np.uint32)]),
    )
    assert (ex2.tolist(), rcp.tolist(), least.tolist()) == ([0], [MINUS_ZERO], [0x00800000])


@pytest.mark.parametrize("instance", INSTANCES)
def test_quotients(instance: str) -> None:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(0, 1 << 32, 4000, dtype=np.uint32) for _ in "ab")
    keep = ((a & 0x7F800000) < INF) & ((b & 0x7F800000) < INF) & ((a & 0x7FFFFFFF) != 0) & ((b & 0x7FFFFFFF) != 0)
    a, b = a[keep], b[keep]
    full, approx = run(instance, ("div.full.f32", [a, b]), ("div.approx.f32", [a, b]))
    want = [rounded(Fraction(value_of(int(x), "f32")) / Fraction(value_of(int(y), "f32")), "f32") for x, y in zip(a, b, strict=True)]
    assert full.tolist() == want
    # The manual: beyond 2^126 the quotient is lost.
    lost = (b & 0x7FFFFFFF) > 0x7E800000
    assert lost.any()
    assert approx.tolist() == [w & MINUS_ZERO if gone else w for w, gone in zip(want, lost, strict=True)]
    big = np.array([0x7F000000], np.uint32)
    (infinite,) = run(instance, ("div.approx.f32", [np.array([INF], np.uint32), big]))
    assert infinite.tolist() == [F32_NAN]


def _exact_rsqrt(bits: int, fraction_bits: int) -> int:
    """1 / sqrt(x) of an f64 to nearest at ``fraction_bits``, as the bits of an f64; no argument lies in the middle."""
    x = Fraction(float(np.uint64(bits).view(np.float64)))
    guess = int(np.floor(-(np.log2(float(x))) / 2))
    for exponent in (guess + 1, guess, guess - 1):
        if x * Fraction(2) ** (2 * exponent) <= 1:
            break
    scale = 2 * (fraction_bits + 1 - exponent)
    square = (Fraction(2) ** scale) / x
    doubled = isqrt(int(square))  # floor of twice the significand
    significand = (doubled + 1) >> 1
    return ((exponent + 1023) << 52) + ((significand - (1 << fraction_bits)) << (52 - fraction_bits))


DOUBLES = [
    1,
    3,
    (1 << 52) - 1,
    1 << 52,
    0x3FF << 52,
    (0x3FF << 52) + 1,
    (0x3FF << 52) - 1,
    (0x400 << 52) - 1,
    0x400 << 52,
    (0x401 << 52) - 1,
    (0x7FF << 52) - 1,
]


@pytest.mark.parametrize("instance", INSTANCES)
def test_double_precision(instance: str) -> None:
    rng = np.random.default_rng(4)
    x = np.concatenate([rng.integers(1, 0x7FF << 52, 2000, dtype=np.uint64), np.array(DOUBLES, np.uint64)])
    x = np.concatenate([x, rng.integers(0x3FF << 52, 0x401 << 52, 2000, dtype=np.uint64)])
    full, root, inverse = run(instance, *((op, [x]) for op in ("rsqrt.approx.f64", "rsqrt.approx.ftz.f64", "rcp.approx.ftz.f64")))
    assert full.tolist() == [_exact_rsqrt(int(b), 52) for b in x]
    upper = x & np.uint64(0xFFFFFFFF << 32)
    normal = upper >= 1 << 52
    assert root[normal].tolist() == [_exact_rsqrt(int(b), 20) for b in upper[normal]]
    assert set(root[~normal].tolist()) == set(inverse[~normal].tolist()) == {0x7FF << 52}
    for given, got in zip(upper[normal].tolist(), inverse[normal].tolist(), strict=True):
        exact = 1 / Fraction(float(np.uint64(given).view(np.float64)))
        assert got & 0xFFFFFFFF == 0
        found = Fraction(float(np.uint64(got).view(np.float64)))
        if exact < Fraction(2) ** -1022:
            assert found in (0, Fraction(2) ** -1022)
        else:
            ulp = Fraction(2) ** ((got >> 52) - 1023 - 20)
            assert abs(found - exact) <= ulp / 2


@pytest.mark.parametrize("instance", INSTANCES)
def test_double_specials(instance: str) -> None:
    zero, inf, nan = 0, 0x7FF << 52, (0x7FF << 52) | 1
    minus = 1 << 63
    x = np.array([zero, minus, inf, minus | inf, nan, minus | 0x3FF << 52, 1, minus | 1], np.uint64)
    full, root, inverse = run(instance, *((op, [x]) for op in ("rsqrt.approx.f64", "rsqrt.approx.ftz.f64", "rcp.approx.ftz.f64")))
    high_nan, tiny = F32_NAN << 32, _exact_rsqrt(1, 52)
    assert full.tolist() == [inf, minus | inf, 0, 0xFFF8 << 48, nan | 1 << 51, 0xFFF8 << 48, tiny, 0xFFF8 << 48]
    assert root.tolist() == [inf, minus | inf, 0, high_nan, high_nan, high_nan, inf, minus | inf]
    assert inverse.tolist() == [inf, minus | inf, 0, minus, high_nan, minus | 0x3FF << 52, inf, minus | inf]
