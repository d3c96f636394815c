"""The table interpolator against its definition, and what no approximation may get wrong."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.isa import approximate, form_of
from ptxgraft.lower.numpy_lanes import NumpyLanes

LANES = NumpyLanes("sm_90")


def run(opcode: str, *values: np.ndarray) -> np.ndarray:
    form = form_of(opcode)
    assert form is not None and form.meaning is not None
    return np.broadcast_to(form.meaning(LANES, *values, **form.options), values[0].shape)


def words(values, dtype=np.float32) -> np.ndarray:
    bits = {np.float32: np.uint32, np.float64: np.uint64}[dtype]
    return np.atleast_2d(np.asarray(values, dtype)).view(bits)


def test_truncated_square_has_its_closed_form() -> None:
    """S(D) by its definition: partial products of the folded square of weight 2^19 and up, for every D."""
    d = np.arange(1 << 17, dtype=np.uint64)
    bit = [(d >> np.uint64(i)) & np.uint64(1) for i in range(17)]
    total = sum(bit[i] << np.uint64(2 * i) for i in range(10, 17))
    for i in range(17):
        for j in range(i + 1, 17):
            if i + j >= 18:
                total = total + ((bit[i] & bit[j]) << np.uint64(i + j + 1))
    got = approximate.truncated_square(LANES, d.astype(np.uint32).reshape(-1, 32))
    assert np.array_equal(got.ravel(), (total >> np.uint64(19)).astype(np.uint32))


def test_tables_have_a_row_for_every_segment() -> None:
    tables = json.loads(Path(approximate.__file__).with_name("mufu_tables.json").read_text())
    assert sum(len(t["t"]) for t in tables.values()) == 627
    for name, table in tables.items():
        assert len(table["t"]) == 1 << table["m"], name


CASES = [
    # opcode, reference, samples, allowed relative error (the manual's bound, or a loose one where it gives an absolute error)
    ("rcp.approx.ftz.f32", lambda x: 1 / x, (1e-30, 1e30), 2**-22),
    ("rcp.approx.f32", lambda x: 1 / x, (3e-39, 3e38), 2**-22),
    ("rsqrt.approx.f32", lambda x: x**-0.5, (1e-44, 3e38), 2**-21),
    ("sqrt.approx.f32", np.sqrt, (1e-36, 3e38), 2**-21),
    ("ex2.approx.f32", np.exp2, (2.0**-20, 100.0), 2**-21),
    ("lg2.approx.f32", np.log2, (3.0, 3e38), 2**-21),
    ("tanh.approx.f32", np.tanh, (1e-6, 20.0), 2**-10.9),
]


@pytest.mark.parametrize(("opcode", "reference", "span", "bound"), CASES, ids=[c[0] for c in CASES])
def test_close_to_the_function(opcode: str, reference, span: tuple[float, float], bound: float) -> None:
    x = np.exp(np.random.default_rng(7).uniform(*np.log(span), size=(64, 32))).astype(np.float32)
    got = run(opcode, x.view(np.uint32)).copy().view(np.float32).astype(np.float64)
    want = reference(x.astype(np.float64))
    keep = np.abs(want) >= 2.0**-126
    assert keep.mean() > 0.9
    assert np.max(np.abs(got / want - 1)[keep]) <= bound


@pytest.mark.parametrize("name", ["sin", "cos"])
def test_sine_within_the_manual_bound(name: str) -> None:
    x = np.random.default_rng(8).uniform(-np.pi, np.pi, size=(64, 32)).astype(np.float32)
    got = run(f"{name}.approx.f32", x.view(np.uint32)).copy().view(np.float32)
    assert np.max(np.abs(got - getattr(np, name)(x.astype(np.float64)))) <= 2**-20.5


@given(st.integers(0, (1 << 32) - 1))
def test_odd_functions_are_odd(bits: int) -> None:
    x = np.full((1, 1), bits, np.uint32)
    if (bits & 0x7FFFFFFF) > 0x7F800000:
        return
    for opcode in ("tanh.approx.f32", "rcp.approx.f32", "rcp.approx.ftz.f32", "sin.approx.f32"):
        plus, minus = (int(run(opcode, v)[0, 0]) for v in (x, x ^ np.uint32(0x80000000)))
        assert plus ^ minus == (0 if plus == 0x7FFFFFFF else 0x80000000), opcode


@given(st.integers(0x7F800001, 0x7FFFFFFF), st.booleans())
def test_nan_is_canonical(bits: int, negative: bool) -> None:
    x = np.full((1, 1), bits | negative << 31, np.uint32)
    for opcode in ("rcp", "rsqrt", "sqrt", "lg2", "ex2", "sin", "cos", "tanh"):
        for ftz in ("", ".ftz"):
            if form_of(f"{opcode}.approx{ftz}.f32"):
                assert int(run(f"{opcode}.approx{ftz}.f32", x)[0, 0]) == 0x7FFFFFFF
    for opcode in ("div.approx.f32", "div.full.f32", "div.full.ftz.f32"):
        one = np.full((1, 1), 0x3F800000, np.uint32)
        assert int(run(opcode, x, one)[0, 0]) == int(run(opcode, one, x)[0, 0]) == 0x7FFFFFFF


def test_f64_forms_see_the_high_word_alone() -> None:
    x = words(np.random.default_rng(9).uniform(1, 1e6, size=(4, 32)), np.float64)
    other = x ^ np.uint64(0x12345678)
    for opcode in ("rcp.approx.ftz.f64", "rsqrt.approx.ftz.f64"):
        got = run(opcode, x)
        assert np.array_equal(got, run(opcode, other))
        assert not (got & np.uint64(0xFFFFFFFF)).any()
    got = run("rsqrt.approx.f64", x).copy().view(np.float64)
    assert np.max(np.abs(got * np.sqrt(x.view(np.float64)) - 1)) < 2**-40


def test_packed_halves_are_two_scalars() -> None:
    low = np.arange(1 << 16, dtype=np.uint32).reshape(-1, 32)
    high = (low * np.uint32(40503) + np.uint32(12345)) & np.uint32(0xFFFF)
    for packed, single in (("ex2.approx.f16x2", "ex2.approx.f16"), ("tanh.approx.bf16x2", "tanh.approx.bf16")):
        got = run(packed, low | high << np.uint32(16))
        parts = [run(single, h.astype(np.uint16)).astype(np.uint32) for h in (low, high)]
        assert np.array_equal(got, parts[0] | parts[1] << np.uint32(16))
