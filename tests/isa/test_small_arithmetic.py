"""Arithmetic on four small floats at once against exact fractions: the formats are ml_dtypes', the nearest number is searched for among all of them."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptxgraft.isa import form_of

sys.path.insert(0, str(Path(__file__).parents[1] / "conformance"))
from instances import INSTANCES

FORMATS = {
    "e5m2x4": ml_dtypes.float8_e5m2, "e4m3x4": ml_dtypes.float8_e4m3fn, "e3m2x4": ml_dtypes.float6_e3m2fn, "e2m3x4": ml_dtypes.float6_e2m3fn,
    "e2m1x4": ml_dtypes.float4_e2m1fn, "e2m1p4x4": ml_dtypes.float4_e2m1fn, "ue8m0x4": ml_dtypes.float8_e8m0fnu,
}  # fmt: skip
BITS = {"e3m2x4": 6, "e2m3x4": 6, "e2m1x4": 4, "e2m1p4x4": 4}
RESULTS = ("e5m2x4", "e4m3x4")
BEYOND = {"e5m2x4": 0x7C, "e4m3x4": 0x7F}
NAN = 0x7F
ROWS = 32
OPERATIONS: dict[str, Callable[..., Fraction]] = {
    "add": lambda a, c: a + c, "sub": lambda a, c: a - c, "mul": lambda a, c: a * c, "fma": lambda a, b, c: a * b + c,
}  # fmt: skip


@cache
def values(type: str) -> list[float]:
    """The value of every code."""
    return [float(v) for v in np.arange(1 << BITS.get(type, 8), dtype=np.uint8).view(FORMATS[type])]


@cache
def ladder(type: str) -> list[tuple[Fraction, int]]:
    """The positive numbers of a format in order, and one step more, which stands for what is too large."""
    found = [(Fraction(v), code) for code, v in enumerate(values(type)[:128]) if np.isfinite(v)]
    return [*found, (2 * found[-1][0] - found[-2][0], BEYOND[type])]


def nearest(type: str, x: Fraction, finite: bool, negative: bool) -> int:
    """The code of the number nearest to x, the even one of two; ``negative`` is the sign of a zero."""
    steps = ladder(type)
    low = max(i for i, (v, _) in enumerate(steps) if v <= abs(x)) if abs(x) < steps[-1][0] else len(steps) - 2
    (under, code), (over, above) = steps[low], steps[low + 1]
    twice = 2 * abs(x) - under - over
    if twice > 0 or (twice == 0 and code % 2):
        code = above
    if code == BEYOND[type]:
        if not finite and code == NAN:
            return NAN
        code = steps[-2][1] if finite else code
    return code | (0x80 if (x < 0 or (x == 0 and negative)) else 0)


def expected(root: str, dtype: str, operands: tuple[float, ...], finite: bool) -> int:
    with np.errstate(invalid="ignore"):
        a, *rest = (np.float64(x) for x in operands)
        rough = {"add": lambda: a + rest[0], "sub": lambda: a - rest[0], "mul": lambda: a * rest[0], "fma": lambda: a * rest[0] + rest[-1]}[
            root
        ]()
    if np.isnan(rough):
        return NAN
    if np.isinf(rough):
        code = ladder(dtype)[-2][1] if finite else BEYOND[dtype]
        return NAN if code == NAN else code | (0x80 if rough < 0 else 0)
    return nearest(dtype, OPERATIONS[root](*(Fraction(float(x)) for x in operands)), finite, bool(np.signbit(rough)))


def packed(type: str, codes: np.ndarray) -> np.ndarray:
    """Four codes a row as one number."""
    step = 4 if type == "e2m1x4" else 8
    total = sum(codes[:, i].astype(np.uint32) << np.uint32(step * i) for i in range(4))
    return np.asarray(total, np.uint16 if step == 4 else np.uint32).reshape(-1, 32)


def rows(types: tuple[str, ...], count: int, seed: int) -> list[np.ndarray]:
    """Codes for each operand, four a row."""
    random = np.random.default_rng(seed)
    return [random.integers(0, 1 << BITS.get(t, 8), (count, 4)) for t in types]


def spelled(root: str, dtype: str, types: tuple[str, ...], finite: bool) -> str:
    return ".".join([root, *(["satfinite"] if finite else []), dtype, *types])


CASES = [
    *((root, dtype, (t,), (t, dtype)) for root in ("add", "sub") for dtype in RESULTS for t in FORMATS),
    *(("mul", dtype, pair, pair) for dtype in RESULTS for pair in itertools.product(FORMATS, FORMATS)),
    *(("fma", dtype, pair, (*pair, dtype)) for dtype in RESULTS for pair in itertools.product(FORMATS, FORMATS)),
]


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize("root", ["add", "sub", "mul", "fma"])
def test_every_element_is_rounded_once(root: str, engine: str) -> None:
    jobs, wanted = [], []
    for number, (name, dtype, types, operands) in enumerate(CASES):
        if name != root or (engine == "warp" and root in ("mul", "fma") and number % 9):
            continue  # compiling a form takes longer than running it: the numpy instance sees all of them
        for finite in (False, True):
            codes = rows(operands, ROWS, number)
            form = form_of(spelled(root, dtype, types, finite))
            assert form is not None
            jobs.append((form, [packed(t, c) for t, c in zip(operands, codes, strict=True)]))
            wanted.append(
                np.array(
                    [
                        [
                            expected(root, dtype, tuple(values(t)[c[r, i]] for t, c in zip(operands, codes, strict=True)), finite)
                            for i in range(4)
                        ]
                        for r in range(ROWS)
                    ]
                )
            )
    wrong = []
    for (form, _), (result,), codes in zip(jobs, INSTANCES[engine](jobs), wanted, strict=True):
        differing = np.flatnonzero(result.reshape(-1) != packed("e4m3x4", codes).reshape(-1))
        if len(differing):
            i = differing[0]
            wrong.append(f"{form.opcode} row {i}: {result.reshape(-1)[i]:08x}, wanted {packed('e4m3x4', codes).reshape(-1)[i]:08x}")
    assert not wrong, "\n".join(wrong[:20])


def test_a_double_rounding_shows() -> None:
    """448 + 0.25 of a step rounds down, where a sum rounded to f32 and again would too: the tie that only the exact sum decides."""
    form = form_of("fma.e5m2x4.e4m3x4.e4m3x4")
    assert form is not None
    # 1.125 is the middle between 1 and 1.25 in e5m2; the least number of e5m2 beside it decides.
    a, b = (np.full((1, 32), code * 0x01010101, np.uint32) for code in (0x39, 0x38))
    c = np.full((1, 32), 0x81010080, np.uint32)
    (result,) = INSTANCES["numpy"]([(form, [a, b, c])])[0]
    assert f"{result[0, 0]:08x}" == "3c3d3c3c"
