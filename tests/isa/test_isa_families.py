"""Meanings of the scalar families against the manual's pseudocode, written here once more on Python integers.

Where the card does otherwise than the manual (fields of 64 bits take whole positions, not their lowest byte), the card is followed.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from ptxgraft.isa import form_of, type_of
from ptxgraft.lower.numpy_lanes import DTYPES, NumpyLanes

ALL = 0xFFFFFFFF
RNG = random.Random(20)


def run(opcode: str, *columns: list[int]) -> list[tuple[int, ...]]:
    """The outputs of an instruction for rows of inputs."""
    form = form_of(opcode)
    assert form is not None and form.meaning is not None, opcode
    types = [r.type for r in form.roles if r.kind in ("in", "inout")]
    arrays = []
    for column, t in zip(columns, types, strict=True):
        assert t is not None
        arrays.append(np.array([[v & ((1 << t.width) - 1) for v in column]], dtype=DTYPES[t.width]))
    results = form.meaning(NumpyLanes(), *arrays, **form.options)
    results = results if isinstance(results, tuple) else (results,)
    return list(zip(*([int(v) for v in np.broadcast_to(r, arrays[0].shape).ravel()] for r in results), strict=True))


def check(opcode: str, reference: Callable[..., int | tuple[int, ...]], *columns: list[int]) -> None:
    for row, got in zip(zip(*columns, strict=True), run(opcode, *columns), strict=True):
        want = reference(*row)
        assert got == (want if isinstance(want, tuple) else (want,)), f"{opcode} of {[hex(v) for v in row]}"


def words(count: int, width: int = 32) -> list[int]:
    edges = [0, 1, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1]
    return [RNG.choice(edges) if RNG.random() < 0.2 else RNG.getrandbits(RNG.randint(1, width)) for _ in range(count)]


def signed(v: int, width: int) -> int:
    v &= (1 << width) - 1
    return v - (1 << width) if v >> (width - 1) else v


def test_lop3_every_table() -> None:
    for table in range(256):
        (row,) = run("lop3.b32", [0xF0F0CC0F], [0x33AACC55], [0x0FAA5533], [table])
        want = 0
        for bit in range(32):
            index = (0xF0F0CC0F >> bit & 1) << 2 | (0x33AACC55 >> bit & 1) << 1 | (0x0FAA5533 >> bit & 1)
            want |= (table >> index & 1) << bit
        assert row == (want,), f"{table:#x}"


def test_prmt_every_nibble() -> None:
    a, b = 0x83028100, 0x07860584
    value = b << 32 | a

    def reference(_a: int, _b: int, c: int) -> int:
        result = 0
        for i in range(4):
            nibble = c >> 4 * i & 15
            byte = value >> 8 * (nibble & 7) & 0xFF
            if nibble & 8:
                byte = 0xFF if byte & 0x80 else 0
            result |= byte << 8 * i
        return result

    selectors = [n * 0x1111 for n in range(16)] + words(200)
    check("prmt.b32", reference, [a] * len(selectors), [b] * len(selectors), selectors)


@pytest.mark.parametrize("mode", ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"])
def test_prmt_modes(mode: str) -> None:
    rows = {
        "f4e": [(3, 2, 1, 0), (4, 3, 2, 1), (5, 4, 3, 2), (6, 5, 4, 3)],
        "b4e": [(5, 6, 7, 0), (6, 7, 0, 1), (7, 0, 1, 2), (0, 1, 2, 3)],
        "rc8": [(0,) * 4, (1,) * 4, (2,) * 4, (3,) * 4],
        "ecl": [(3, 2, 1, 0), (3, 2, 1, 1), (3, 2, 2, 2), (3, 3, 3, 3)],
        "ecr": [(0, 0, 0, 0), (1, 1, 1, 0), (2, 2, 1, 0), (3, 2, 1, 0)],
        "rc16": [(1, 0, 1, 0), (3, 2, 3, 2), (1, 0, 1, 0), (3, 2, 3, 2)],
    }[mode]
    for c, order in enumerate(rows):
        (got,) = run(f"prmt.b32.{mode}", [0x03020100], [0x07060504], [c + 4])
        assert got == (int.from_bytes(bytes(order), "big"),), (mode, c)


def field_amount(v: int, width: int) -> int:
    return v & 0xFF if width == 32 else v


@pytest.mark.parametrize("type", ["u32", "s32", "u64", "s64"])
def test_bfe(type: str) -> None:
    width = type_of(type).width

    def reference(a: int, b: int, c: int) -> int:
        msb, pos, length = width - 1, field_amount(b, width), field_amount(c, width)
        bit = 0 if type[0] == "u" or length == 0 else a >> min(pos + length - 1, msb) & 1
        return sum(((a >> (pos + i) & 1) if i < length and pos + i <= msb else bit) << i for i in range(width))

    values = words(400, width)
    check(
        f"bfe.{type}",
        reference,
        values,
        [RNG.randrange(0, 300) for _ in values],
        [RNG.choice((0, 1, 8, 31, 32, 63, 64, 256)) for _ in values],
    )


@pytest.mark.parametrize("type", ["b32", "b64"])
def test_bfi(type: str) -> None:
    width = type_of(type).width

    def reference(a: int, b: int, c: int, d: int) -> int:
        pos, length, result = field_amount(c, width), field_amount(d, width), b
        for i in range(length):
            if pos + i < width:
                result = result & ~(1 << (pos + i)) | (a >> i & 1) << (pos + i)
        return result

    values = words(300, width)
    positions = [RNG.randrange(0, 300) if i % 2 else RNG.randrange(0, width) for i in range(300)]
    check(f"bfi.{type}", reference, values, words(300, width), positions, [RNG.randrange(0, 70) for _ in values])


def test_fns() -> None:
    def reference(mask: int, base: int, offset: int) -> int:
        offset = signed(offset, 32)
        if offset == 0:
            return base if mask >> base & 1 else ALL
        pos, count, step = base, abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= pos < 32:
            if mask >> pos & 1:
                if count == 0:
                    return pos
                count -= 1
            pos += step
        return ALL

    masks = words(600)
    check("fns.b32", reference, masks, [RNG.randrange(32) for _ in masks], [RNG.randint(-34, 34) for _ in masks])


@pytest.mark.parametrize("mode", ["clamp", "wrap"])
def test_bmsk_and_szext(mode: str) -> None:
    def mask(a: int, b: int) -> int:
        a, b = (a, b) if mode == "clamp" else (a & 31, b & 31)
        return ((1 << min(b, 64)) - 1) << min(a, 64) & ALL

    def extend(a: int, b: int, sign: bool) -> int:
        b = b if mode == "clamp" else b & 31
        if b >= 32:
            return a
        field = a & ((1 << b) - 1)
        return (field | -(1 << b) if sign and b and field >> (b - 1) else field) & ALL

    amounts = [*range(40), 63, 64, 255, 256, ALL]
    pairs = list(itertools.product(amounts, repeat=2))
    check(f"bmsk.{mode}.b32", mask, [p[0] for p in pairs], [p[1] for p in pairs])
    values = words(len(amounts))
    check(f"szext.{mode}.u32", lambda a, b: extend(a, b, False), values, amounts)
    check(f"szext.{mode}.s32", lambda a, b: extend(a, b, True), values, amounts)


def test_shf() -> None:
    for mode in ("clamp", "wrap"):

        def amount(c: int, mode: str = mode) -> int:
            return min(c, 32) if mode == "clamp" else c & 31

        a, b, c = words(200), words(200), [RNG.choice((0, 1, 31, 32, 33, 64, RNG.getrandbits(32))) for _ in range(200)]
        check(f"shf.l.{mode}.b32", lambda a, b, c: (b << 32 | a) << amount(c) >> 32 & ALL, a, b, c)
        check(f"shf.r.{mode}.b32", lambda a, b, c: (b << 32 | a) >> amount(c) & ALL, a, b, c)


@pytest.mark.parametrize(("at", "bt"), list(itertools.product(("u32", "s32"), repeat=2)))
def test_dot_products(at: str, bt: str) -> None:
    def part(v: int, i: int, width: int, type: str) -> int:
        v = v >> width * i & ((1 << width) - 1)
        return signed(v, width) if type == "s32" else v

    a, b, c = words(200), words(200), words(200)
    check(f"dp4a.{at}.{bt}", lambda a, b, c: (c + sum(part(a, i, 8, at) * part(b, i, 8, bt) for i in range(4))) & ALL, a, b, c)
    for half, first in (("lo", 0), ("hi", 2)):

        def reference(a: int, b: int, c: int, first: int = first) -> int:
            return (c + sum(part(a, i, 16, at) * part(b, first + i, 8, bt) for i in range(2))) & ALL

        check(f"dp2a.{half}.{at}.{bt}", reference, a, b, c)


@pytest.mark.parametrize("width", [32, 64])
def test_carry_chains_are_wide_arithmetic(width: int) -> None:
    """Three words of a sum, a difference and a product, against Python's own wide integers."""
    mask = (1 << width) - 1
    for _ in range(60):
        edges = ((1 << 3 * width) - 1, 1, 0, mask << width)
        x, y = (RNG.choice((RNG.getrandbits(3 * width), *edges)) for _ in range(2))
        for first, middle, last, want in (
            ("add.cc", "addc.cc", "addc", x + y),
            ("sub.cc", "subc.cc", "subc", x - y),
        ):
            parts = [(v & mask, v >> width & mask, v >> 2 * width & mask) for v in (x, y)]
            (low, carry) = run(f"{first}.u{width}", [parts[0][0]], [parts[1][0]])[0]
            (mid, carry) = run(f"{middle}.u{width}", [parts[0][1]], [parts[1][1]], [carry])[0]
            (high,) = run(f"{last}.u{width}", [parts[0][2]], [parts[1][2]], [carry])[0]
            assert low | mid << width | high << 2 * width == want & ((1 << 3 * width) - 1)
        a, b, c = (RNG.getrandbits(width) for _ in range(3))
        (low, carry) = run(f"mad.lo.cc.u{width}", [a], [b], [c])[0]
        (high,) = run(f"madc.hi.u{width}", [a], [b], [0], [carry])[0]
        assert low | high << width == a * b + c


@pytest.mark.parametrize("width", [32, 64])
def test_a_difference_leaves_the_carry_of_the_sum_that_it_is(width: int) -> None:
    """Sums and differences share the condition code: a - b is a + ~b + 1."""
    mask = (1 << width) - 1
    for _ in range(60):
        a, b = (RNG.choice((RNG.getrandbits(width), 0, 1, mask)) for _ in range(2))
        got = run(f"sub.cc.u{width}", [a], [b])[0]
        assert got == ((a - b) & mask, (a + (b ^ mask) + 1) >> width)
        for carry in (0, 1):
            assert run(f"subc.cc.u{width}", [a], [b], [carry])[0] == run(f"addc.cc.u{width}", [a], [b ^ mask], [carry])[0]


INTEGERS = [f"{k}{w}" for k in "us" for w in (8, 16, 32, 64)]


@pytest.mark.parametrize("source", INTEGERS)
def test_integer_conversions(source: str) -> None:
    s = type_of(source)
    values = words(80, s.width)
    for target in INTEGERS:
        t = type_of(target)

        def value(v: int) -> int:
            return signed(v, s.width) if s.signed else v

        check(f"cvt.{target}.{source}", lambda v, t=t: value(v) & ((1 << t.width) - 1), values)
        if form_of(f"cvt.sat.{target}.{source}") is not None:
            low, high = (-(1 << (t.width - 1)), (1 << (t.width - 1)) - 1) if t.signed else (0, (1 << t.width) - 1)
            check(
                f"cvt.sat.{target}.{source}",
                lambda v, t=t, low=low, high=high: min(max(value(v), low), high) & ((1 << t.width) - 1),
                values,
            )


@pytest.mark.parametrize(("type", "dtype"), [("e4m3x2", ml_dtypes.float8_e4m3fn), ("e5m2x2", ml_dtypes.float8_e5m2)])
def test_eight_bit_floats(type: str, dtype: np.dtype) -> None:
    """Every byte both ways, and every f16 down, against ml_dtypes (which does not saturate)."""
    codes = np.arange(256, dtype=np.uint8)
    exact = codes.view(dtype).astype(np.float32)
    up = run(f"cvt.rn.f16x2.{type}", [int(c) for c in codes])
    for c, (pair,) in zip(codes, up, strict=True):
        want = 0x7FFF if np.isnan(exact[c]) else int(exact[c].astype(np.float16).view(np.uint16))
        assert pair & 0xFFFF == want, hex(int(c))
    halves = np.arange(1 << 16, dtype=np.uint16)
    numbers = halves.view(np.float16).astype(np.float32)
    largest = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(invalid="ignore"):
        clipped = np.clip(numbers, -largest, largest)
        want = np.where(np.isnan(numbers), 0x7F, clipped.astype(dtype).view(np.uint8))
    down = run(f"cvt.rn.satfinite.{type}.f16x2", [int(h) for h in halves])
    assert [pair & 0xFF for (pair,) in down] == [int(w) for w in want]
    # The same numbers as f32, in the other place of the pair.
    singles = [int(v) for v in numbers.view(np.uint32)[::7]]
    assert [pair >> 8 for (pair,) in run(f"cvt.rn.satfinite.{type}.f32", singles, [0] * len(singles))] == [int(w) for w in want[::7]]


def test_tf32() -> None:
    def number(bits: int) -> Fraction:
        exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
        return Fraction(fraction + (0x800000 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 150)

    values = [v for v in words(1500) if v >> 23 & 0xFF < 0xFE]
    for mode in ("rna", "rn", "rz"):
        for v, (got,) in zip(values, run(f"cvt.{mode}.tf32.f32", values), strict=True):
            assert got & 0x1FFF == 0 and got >> 31 == v >> 31
            below = v & 0x7FFFE000
            around = [below, below + 0x2000]
            errors = [abs(number(a) - number(v & 0x7FFFFFFF)) for a in around]
            if mode == "rz":
                want = below
            elif errors[0] != errors[1]:
                want = around[errors[1] < errors[0]]
            else:
                want = around[1] if mode == "rna" else next(a for a in around if not a & 0x2000)
            assert got & 0x7FFFFFFF == want, (mode, hex(v))


@pytest.mark.parametrize("root", ["min", "max"])
@pytest.mark.parametrize("type", ["f16", "bf16"])
def test_half_extremes_order_every_pair_of_specials(root: str, type: str) -> None:
    """min and max are the order of the numbers with -0 below +0; a NaN loses, or wins with .NaN."""
    one, inf = (0x3C00, 0x7C00) if type == "f16" else (0x3F80, 0x7F80)
    finite = [0, 1, one, one + 1, inf - 1, inf]
    ordered = [v | 0x8000 for v in reversed(finite)] + finite
    nans = [inf + 1, inf + 1 | 0x8000, 0x7FFF]
    for (i, a), (j, b) in itertools.product(enumerate(ordered), repeat=2):
        want = ordered[(min if root == "min" else max)(i, j)]
        assert run(f"{root}.{type}", [a], [b]) == [(want,)]
        assert run(f"{root}.NaN.{type}", [a], [b]) == [(want,)]
    for a, nan in itertools.product(ordered, nans):
        assert run(f"{root}.{type}", [a, nan], [nan, a]) == [(a,), (a,)]
        assert run(f"{root}.NaN.{type}", [a, nan], [nan, a]) == [(0x7FFF,), (0x7FFF,)]
    assert run(f"{root}.{type}", [nans[0]], [nans[1]]) == [(0x7FFF,)]


def test_mul24() -> None:
    a, b = words(200), words(200)
    for kind in "us":

        def low24(v: int, kind: str = kind) -> int:
            return signed(v, 24) if kind == "s" else v & 0xFFFFFF

        check(f"mul24.lo.{kind}32", lambda a, b: low24(a) * low24(b) & ALL, a, b)
        check(f"mul24.hi.{kind}32", lambda a, b: low24(a) * low24(b) >> 16 & ALL, a, b)


def test_cvt_pack() -> None:
    a, b, c = words(200), words(200), words(200)
    for type in ("u2", "s2", "u4", "s4", "u8", "s8"):
        width = int(type[1:])
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if type[0] == "s" else (0, (1 << width) - 1)

        def part(v: int, low: int = low, high: int = high, width: int = width) -> int:
            return min(max(signed(v, 32), low), high) & ((1 << width) - 1)

        check(f"cvt.pack.sat.{type}.s32.b32", lambda a, b, c, w=width: (c << 2 * w | part(a) << w | part(b)) & ALL, a, b, c)
