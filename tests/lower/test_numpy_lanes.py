"""NumpyLanes against exact rational and integer arithmetic, warnings turned into errors."""

from __future__ import annotations

import random
import warnings
from functools import cache
from types import SimpleNamespace
from typing import cast

import exact_reference as exact
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.errors import UsageError
from ptxgraft.lower.numpy_lanes import DTYPES, Machine, NumpyLanes

L = NumpyLanes()
FORMATS = ("f16", "bf16", "f32", "f64")


@pytest.fixture(autouse=True)
def _no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def array(values: list[int], width: int) -> np.ndarray:
    """One row of lanes; as many lanes as values."""
    result = np.zeros((1, len(values)), dtype=DTYPES[width])
    for i, v in enumerate(values):
        v &= (1 << width) - 1
        result[0, i] = (v & ((1 << 64) - 1), v >> 64) if width == 128 else v
    return result


def ints(a: np.ndarray) -> list[int]:
    if a.dtype == DTYPES[128]:
        return [int(v["lo"]) | int(v["hi"]) << 64 for v in a.reshape(-1)]
    return [int(v) for v in a.reshape(-1)]


@cache
def specials(fmt: str) -> tuple[int, ...]:
    """The operands that break things, of both signs."""
    e, m = exact.PARAMETERS[fmt]
    top, one = (1 << e) - 1, exact.one(fmt)
    positive = [0, 1, 2, (1 << m) - 1, 1 << m, (1 << m) + 1, one - 1, one, one + 1, one + (1 << (m - 1)), (top << m) - 1, top << m]
    positive += [(top << m) + 1, (top << m) + (1 << (m - 1)) + 5, (1 << (e + m)) - 1, (top - 1) << m, (1 << m) * (m + 3), one - (m << m)]
    return tuple(positive + [v | 1 << (e + m) for v in positive])


def operands(fmt: str, arity: int, count: int, seed: int) -> list[list[int]]:
    """Columns of operands: specials, exponents near one another (so that rounding matters), and any bits."""
    rng = random.Random(seed)
    e, m = exact.PARAMETERS[fmt]
    width = exact.width(fmt)

    def near() -> int:
        exponent = min(max((1 << (e - 1)) - 1 + rng.randint(-m - 3, m + 3), 0), (1 << e) - 1)
        return rng.getrandbits(1) << (e + m) | exponent << m | rng.getrandbits(m)

    rows = []
    for i in range(count):
        if i % 3 == 0:
            rows.append([rng.choice(specials(fmt)) for _ in range(arity)])
        elif i % 3 == 1:
            rows.append([near() for _ in range(arity)])
        else:
            rows.append([rng.getrandbits(width) for _ in range(arity)])
    return [list(column) for column in zip(*rows, strict=True)]


def check(fmt: str, name: str, arity: int, mode: str, ftz: bool, columns: list[list[int]]) -> None:
    width = exact.width(fmt)
    got = ints(getattr(L, f"float_{name}")(fmt, *(array(c, width) for c in columns), mode, ftz))
    for row, bits in zip(zip(*columns, strict=True), got, strict=True):
        want = getattr(exact, name)(fmt, *row, mode, ftz)
        assert bits == want, f"{name}.{mode}{'.ftz' * ftz}.{fmt} of {[hex(v) for v in row]}: {bits:#x}, exact {want:#x}"


OPERATIONS = (("add", 2), ("mul", 2), ("fma", 3), ("div", 2), ("sqrt", 1))


@pytest.mark.parametrize(("fmt", "ftz"), [*((f, False) for f in FORMATS), ("f16", True), ("f32", True)])
@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize(("name", "arity"), OPERATIONS)
def test_arithmetic_is_exact(fmt: str, name: str, arity: int, mode: str, ftz: bool) -> None:
    check(fmt, name, arity, mode, ftz, operands(fmt, arity, 450, seed=len(name) + 10 * arity))


@pytest.mark.parametrize("fmt", ["f16", "f32"])
@pytest.mark.parametrize("mode", exact.MODES)
def test_ftz_looks_after_rounding(fmt: str, mode: str) -> None:
    """Products just below the smallest normal number: which are flushed depends on how they round at full precision."""
    e, m = exact.PARAMETERS[fmt]
    one = exact.one(fmt)
    normal = 1 << m
    rows = [(one - k, normal + j) for k in range(1, 24) for j in range(6)]
    rows += [(a | 1 << (e + m), b) for a, b in rows]
    check(fmt, "mul", 2, mode, True, [list(c) for c in zip(*rows, strict=True)])


def test_half_fma_does_not_round_twice() -> None:
    """All pairs of a few f16 significands against addends that make ties at f32 precision."""
    rng = random.Random(5)
    rows = [
        (0x3C00 | rng.getrandbits(10), 0x3C00 | rng.getrandbits(10), rng.getrandbits(1) << 15 | rng.randrange(1, 0x0800))
        for _ in range(4000)
    ]
    check("f16", "fma", 3, "rn", False, [list(c) for c in zip(*rows, strict=True)])


@settings(max_examples=150, deadline=None)
@given(st.sampled_from(FORMATS), st.sampled_from(OPERATIONS), st.sampled_from(exact.MODES), st.data())
def test_any_operands(fmt: str, operation: tuple[str, int], mode: str, data: st.DataObject) -> None:
    name, arity = operation
    bits = st.one_of(st.sampled_from(specials(fmt)), st.integers(0, (1 << exact.width(fmt)) - 1))
    check(fmt, name, arity, mode, False, [[data.draw(bits)] for _ in range(arity)])


@pytest.mark.parametrize("fmt", FORMATS)
def test_sub_is_add_of_the_negated(fmt: str) -> None:
    width = exact.width(fmt)
    a, b = operands(fmt, 2, 300, seed=9)
    got = ints(L.float_sub(fmt, array(a, width), array(b, width), "rm"))
    flip = 1 << (width - 1)
    want = [exact.add(fmt, x, y ^ flip, "rm") for x, y in zip(a, b, strict=True)]
    # A NaN that is taken away keeps its sign, where NaNs have one.
    assert got == [exact.nan_of(fmt, y) if exact.kind(fmt, y) == "nan" else w for y, w in zip(b, want, strict=True)]


# -- conversions ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("target", FORMATS)
@pytest.mark.parametrize("source", FORMATS)
def test_convert_rounds_once(source: str, target: str, mode: str) -> None:
    values = [v for v in operands(source, 1, 1200, seed=3)[0] if exact.kind(source, v) != "nan"]
    # Values around the ties and the limits of the target.
    e, m = exact.PARAMETERS[target]
    if exact.PARAMETERS[source][1] > m:
        for bits in (1, 2, (1 << m) - 1, 1 << m, (1 << m) + 1, exact.one(target), exact.one(target) + 1, (((1 << e) - 1) << m) - 1):
            exactly = exact.value(target, bits)
            step = exact.value(target, bits + 1) - exactly if bits + 1 < exact.infinity(target, False) else exactly / (1 << m)
            for part in (0, 1, 2, 3):
                near = exact.round_to(source, exactly + step * part / 4, "rn")
                values += [v for v in (near - 1, near, near + 1) if exact.kind(source, v) != "nan"]
    got = ints(L.float_convert(source, target, array(values, exact.width(source)), mode))
    for v, bits in zip(values, got, strict=True):
        assert bits == exact.convert(source, target, v, mode), f"{source} {v:#x} to {target} {mode}"


@pytest.mark.parametrize(
    ("source", "target", "bits", "want"),
    [
        ("f16", "f32", 0xFC01, 0x7FFFFFFF),
        ("bf16", "f32", 0xFF81, 0xFF810000),
        ("f32", "f64", 0xFF800001, 0xFFF8000020000000),
        ("f64", "f32", 0xFFF0000020000001, 0xFFC00001),
        ("f32", "f16", 0xFFC12345, 0x7FFF),
        ("f32", "bf16", 0xFFC12345, 0x7FFF),
        ("f64", "f16", 0x7FF0000000000001, 0x7E00),
        ("f64", "f16", 0xFFF4800000000001, 0xFF20),
        ("f64", "bf16", 0xFFF5000000000000, 0xFFE8),
        ("f16", "f64", 0xFC01, 0xFFF8040000000000),
        ("bf16", "f64", 0xFF81, 0xFFF8200000000000),
        ("bf16", "f16", 0xFFC1, 0x7FFF),
    ],
)
def test_convert_nan(source: str, target: str, bits: int, want: int) -> None:
    assert ints(L.float_convert(source, target, array([bits], exact.width(source)))) == [want]


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_to_integers(fmt: str, mode: str) -> None:
    values = operands(fmt, 1, 500, seed=11)[0]
    limits = [
        exact.round_to(fmt, exact.Fraction(s * (2**k) + d), "rn")
        for k in (7, 8, 15, 16, 31, 32, 63, 64)
        for s in (1, -1)
        for d in (-1, 0, 1)
    ]
    if fmt in ("f32", "f64"):
        halves = [exact.round_to(fmt, exact.Fraction(2 * i + 1, 2), "rn") for i in range(-6, 6)]
        values += [v + d for v in limits for d in (-1, 0, 1)] + halves
    a = array(values, exact.width(fmt))
    for width in (8, 16, 32, 64):
        for signed in (False, True):
            low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
            for v, bits in zip(values, ints(L.float_to_int(fmt, a, width, signed, mode)), strict=True):
                whole = exact.integral(fmt, v, mode)
                want = (1 << (width - 1) if width == 64 or fmt == "f64" else 0) if whole is None else min(max(whole, low), high)
                assert bits == want & ((1 << width) - 1), f"{fmt} {v:#x} {mode} to {'us'[signed]}{width}"


@pytest.mark.parametrize("mode", ["rni", "rzi", "rmi", "rpi"])
@pytest.mark.parametrize("fmt", FORMATS)
def test_round_to_integral(fmt: str, mode: str) -> None:
    values = operands(fmt, 1, 600, seed=12)[0]
    for v, bits in zip(values, ints(L.float_round(fmt, array(values, exact.width(fmt)), mode)), strict=True):
        if exact.kind(fmt, v) == "nan":
            want = exact.nan_of(fmt, v)
        elif exact.kind(fmt, v) == "inf":
            want = v
        else:
            whole = exact.integral(fmt, v, mode)
            want = exact.round_to(fmt, exact.Fraction(whole), "rn") if whole else exact.zero(fmt, bool(exact.sign(fmt, v)))
        assert bits == want, f"{fmt} {v:#x} {mode}"


@pytest.mark.parametrize("mode", exact.MODES)
@pytest.mark.parametrize("fmt", FORMATS)
def test_from_integers(fmt: str, mode: str) -> None:
    rng = random.Random(13)
    for width in (8, 16, 32, 64):
        values = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << (width - 1)) + 1]
        values += [rng.getrandbits(rng.randint(1, width)) for _ in range(200)]
        for signed in (False, True):
            got = ints(L.int_to_float(array(values, width), signed, fmt, mode))
            for v, bits in zip(values, got, strict=True):
                whole = v - (1 << width) if signed and v >> (width - 1) else v
                assert bits == (exact.round_to(fmt, exact.Fraction(whole), mode) if whole else 0), f"{v:#x} {signed} to {fmt} {mode}"


@pytest.mark.parametrize("fmt", FORMATS)
def test_compare(fmt: str) -> None:
    values = specials(fmt)
    pairs = [(a, b) for a in values for b in values]
    a, b = (array(list(c), exact.width(fmt)) for c in zip(*pairs, strict=True))
    orders = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    for op, symbol in orders.items():
        for (x, y), got in zip(pairs, ints(L.float_compare(fmt, op, a, b)), strict=True):
            ordered = "nan" not in (exact.kind(fmt, x), exact.kind(fmt, y))
            assert got == (ordered and eval(f"p {symbol} q", {"p": _number(fmt, x), "q": _number(fmt, y)})), (fmt, op, hex(x), hex(y))
    nans = [int("nan" in (exact.kind(fmt, x), exact.kind(fmt, y))) for x, y in pairs]
    assert ints(L.float_compare(fmt, "nan", a, b)) == nans


def _number(fmt: str, bits: int) -> float | exact.Fraction:
    if exact.kind(fmt, bits) == "inf":
        return -float("inf") if exact.sign(fmt, bits) else float("inf")
    return exact.Fraction(0) if exact.kind(fmt, bits) == "nan" else exact.value(fmt, bits)


def test_compare_flushes() -> None:
    small, zero = array([0x80000001], 32), array([0], 32)
    assert ints(L.float_compare("f32", "eq", small, zero)) == [0]
    assert ints(L.float_compare("f32", "eq", small, zero, ftz=True)) == [1]


# -- integers ---------------------------------------------------------------------------------------------------------
WIDTHS = (8, 16, 32, 64)


def signed_of(v: int, width: int) -> int:
    return v - (1 << width) if v >> (width - 1) else v


def integer_operands(width: int, count: int = 400) -> tuple[list[int], list[int]]:
    rng = random.Random(width)
    edge = [0, 1, 2, 3, (1 << width) - 1, (1 << width) - 2, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << (width - 1)) + 1]
    pairs = [(a, b) for a in edge for b in edge] + [(rng.getrandbits(width), rng.getrandbits(rng.randint(1, width))) for _ in range(count)]
    return [p[0] for p in pairs], [p[1] for p in pairs]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("signed", [False, True])
def test_integer_arithmetic(width: int, signed: bool) -> None:
    xs, ys = integer_operands(width)
    a, b = array(xs, width), array(ys, width)
    mask = (1 << width) - 1
    results = {
        "add": L.add(a, b),
        "sub": L.sub(a, b),
        "mul": L.mul(a, b),
        "high": L.mul_high(a, b, signed),
        "div": L.divide(a, b, signed),
        "rem": L.remainder(a, b, signed),
        "lt": L.compare("lt", a, b, signed),
        "ge": L.compare("ge", a, b, signed),
    }
    for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
        p, q = (signed_of(x, width), signed_of(y, width)) if signed else (x, y)
        quotient = -1 if q == 0 else abs(p) // abs(q) * (1 if (p < 0) == (q < 0) else -1)
        want = {
            "add": p + q,
            "sub": p - q,
            "mul": p * q,
            "high": p * q >> width,
            "div": quotient,
            "rem": -1 if q == 0 else p - q * quotient,
            "lt": int(p < q),
            "ge": int(p >= q),
        }
        for name, result in results.items():
            assert ints(result)[i] == want[name] & mask, f"{name} {x:#x} {y:#x} signed={signed}"
            if i > 120:
                break


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("amount_width", [32, 64])
def test_shifts(width: int, amount_width: int) -> None:
    rng = random.Random(width)
    amounts = [0, 1, width - 1, width, width + 1, 31, 32, 63, 64, 65, 255, 256, (1 << amount_width) - 1, 1 << (amount_width - 1)]
    rows = [(rng.getrandbits(width) | 1 << (width - 1), n) for n in amounts] + [(rng.getrandbits(width), n) for n in amounts]
    a, n = array([r[0] for r in rows], width), array([r[1] for r in rows], amount_width)
    mask = (1 << width) - 1
    assert ints(L.shift_left(a, n)) == [(v << min(k, width)) & mask for v, k in rows]
    assert ints(L.shift_right(a, n)) == [v >> min(k, width) for v, k in rows]
    assert ints(L.shift_right(a, n, signed=True)) == [(signed_of(v, width) >> min(k, width)) & mask for v, k in rows]


@pytest.mark.parametrize("width", WIDTHS)
def test_bit_counts(width: int) -> None:
    xs, _ = integer_operands(width)
    a = array(xs, width)
    assert ints(L.count_ones(a)) == [v.bit_count() for v in xs]
    assert ints(L.leading_zeros(a)) == [width - v.bit_length() for v in xs]
    assert ints(L.reverse_bits(a)) == [int(f"{v:0{width}b}"[::-1], 2) for v in xs]
    for result in (L.count_ones(a), L.leading_zeros(a), L.reverse_bits(a)):
        assert L.width(result) == width


def test_resize_between_all_widths() -> None:
    rng = random.Random(1)
    for have in DTYPES:
        values = [0, 1, (1 << have) - 1, 1 << (have - 1), rng.getrandbits(have)]
        for want in DTYPES:
            for signed in (False, True):
                result = L.resize(array(values, have), want, signed)
                assert L.width(result) == want
                extended = [signed_of(v, have) if signed else v for v in values]
                assert ints(result) == [v & ((1 << want) - 1) for v in extended], (have, want, signed)


def test_extract_and_concat_are_inverse() -> None:
    rng = random.Random(2)
    for whole in (16, 32, 64, 128):
        values = [rng.getrandbits(whole) for _ in range(8)]
        a = array(values, whole)
        for part in (8, 16, 32, 64, 128):
            if part > whole:
                continue
            parts = [L.extract(a, i, part) for i in range(0, whole, part)]
            assert [ints(p)[3] for p in parts] == [(values[3] >> i) & ((1 << part) - 1) for i in range(0, whole, part)]
            assert ints(L.concat(parts)) == values
        for bit in (0, 1, 7, whole - 1):
            assert ints(L.extract(a, bit, 1)) == [(v >> bit) & 1 for v in values]


def test_select_and_lookup() -> None:
    p = array([1, 0, 1], 1)
    assert ints(L.select(p, array([1, 2, 3], 128), array([4, 5, 1 << 100], 128))) == [1, 5, 3]
    assert ints(L.select(p, L.const(1, 1), p)) == [1, 0, 1]
    assert ints(L.lookup((5, -1, 7), array([2, 1, 0], 32), 16)) == [7, 0xFFFF, 5]


def test_constants_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="read-only"):
        L.const(7, 32)[...] = 8
    assert ints(L.const(-1, 128)) == [(1 << 128) - 1]


# -- the warp ---------------------------------------------------------------------------------------------------------
def lanes_with(active: np.ndarray) -> NumpyLanes:
    return NumpyLanes(machine=cast(Machine, SimpleNamespace(active=active)))


def test_ballot_sees_active_lanes_alone() -> None:
    active = np.zeros((2, 32), dtype=bool)
    active[0, [0, 5, 31]] = True
    active[1, :] = True
    lanes = lanes_with(active)
    assert ints(lanes.ballot(lanes.const(1, 1))) == [0x80000021, 0xFFFFFFFF]
    odd = np.broadcast_to(np.arange(32) % 2 == 1, (2, 32))
    assert ints(lanes.ballot(odd)) == [0x80000020, 0xAAAAAAAA]


def test_read_lane_stays_in_the_warp() -> None:
    lanes = lanes_with(np.ones((2, 32), dtype=bool))
    a = np.arange(64, dtype=np.uint32).reshape(2, 32)
    reverse = (31 - np.arange(32, dtype=np.uint32)).reshape(1, 32)
    assert np.array_equal(lanes.read_lane(a, reverse), a[:, ::-1])
    assert ints(lanes.read_lane(a, lanes.const(3, 32)))[31:33] == [3, 35]


def test_without_a_machine_memory_is_refused() -> None:
    with pytest.raises(UsageError, match="give NumpyLanes a machine"):
        L.load("global", L.const(0, 64), 32)
