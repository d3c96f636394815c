"""Conversions to and from the smallest formats on both engines, against exact fractions and ml_dtypes: factors, bare exponents, fixed point, random bits."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxgraft

THREADS = 256
INPUTS = ("f32", "f32", "f32", "f32", "b32", "b32")
"""Four numbers, random bits, and a word for codes and factors."""
DTYPES = {
    "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "e5m2": np.dtype(ml_dtypes.float8_e5m2), "e2m3": np.dtype(ml_dtypes.float6_e2m3fn), "e3m2": np.dtype(ml_dtypes.float6_e3m2fn),
    "e2m1": np.dtype(ml_dtypes.float4_e2m1fn),
}  # fmt: skip
NANS = {"f16": 0x7FFF, "bf16": 0x7FFF, "e4m3": 0x7F, "e5m2": 0x7F, "e2m3": 0x1F, "e3m2": 0x1F, "e2m1": 0x07}
BITS = {"f16": 16, "bf16": 16, "e4m3": 8, "e5m2": 8, "e2m3": 6, "e3m2": 6, "e2m1": 4}
RANDOM = {"f16": 13, "bf16": 16, "e2m1": 8}
SPECIAL = (
    0, 1, 0x007FFFFF, 0x00800000, 0x00400000, 0x00400001, 0x003FFFFF, 0x00600000, 0x3F800000, 0x3F800001, 0x3FFFFFFF, 0x40000000, 0x7F000000, 0x7F000001,
    0x7F7F0000, 0x7F7F0001, 0x7F7FFFFF, 0x7F800000, 0x7F800001, 0x7FC00000, 0x477FE000, 0x477FFFFF, 0x47800000, 0x33000000, 0x33800000, 0x38800000,
    0x387FFFFF, 0x3FFE0000, 0x3FFF0000, 0x43E00000, 0x43E80000, 0x3D800000, 0x3C800000, 0x3C000000, 0x40C00000, 0x40E00000, 0x7FFFFFFF,
)  # fmt: skip


def single(bits: int) -> float:
    return float(np.uint32(bits).view(np.float32))


def code_of(name: str, value: float | Fraction) -> int:
    """The code of a number that the format has."""
    exact = np.array([float(value)], np.float32).astype(DTYPES[name])
    assert Fraction(float(exact.astype(np.float32)[0])) == Fraction(value), (name, value)
    return int(exact.view(np.uint16 if BITS[name] == 16 else np.uint8)[0])


def largest(name: str) -> Fraction:
    return Fraction(float(ml_dtypes.finfo(DTYPES[name]).max))


# -- what each conversion means -------------------------------------------------------------------------------------------
def exponent(bits: int, rounding: str, finite: bool) -> int:
    x = abs(single(bits))
    if math.isnan(x):
        return 0xFF
    if math.isinf(x):
        return 0xFE if finite else 0xFF
    if not x:
        return 0
    fraction, power = math.frexp(x)
    up = rounding == "rp" and fraction != 0.5
    code = max(power - 1 + up + 127, 0)
    return min(code, 0xFE) if finite else code


def stochastic(name: str, bits: int, noise: int, relu: bool, finite: bool) -> int:
    x = single(bits)
    if math.isnan(x):
        return NANS[name]
    negative = math.copysign(1, x) < 0
    sign = (1 << (BITS[name] - 1)) if negative and not relu else 0
    if negative and relu:
        return 0
    infinity = {"f16": 0x7C00, "bf16": 0x7F80}.get(name)
    limit = sign | (code_of(name, largest(name)) if finite or infinity is None else infinity)
    if math.isinf(x):
        return limit
    size, info = Fraction(abs(x)), ml_dtypes.finfo(DTYPES[name])
    power = max(math.frexp(abs(x))[1] - 1 if x else -(10**6), info.minexp)
    unit = Fraction(2) ** (power - info.nmant)
    count = RANDOM.get(name, 16)
    steps = math.floor(size / unit)
    steps += (size / unit - steps) * 2**count + (noise & ((1 << count) - 1)) >= 2**count
    value = steps * unit
    return limit if value > largest(name) else sign | code_of(name, value)


def fixed(bits: int, factor: int, relu: bool) -> int:
    x = single(bits)
    if math.isnan(x) or factor == 0xFF:
        return 127
    if math.isinf(x):
        steps = math.copysign(127, x)
    else:
        steps = min(max(round(Fraction(x) * 64 / Fraction(2) ** (factor - 127)), -127), 127)
    return int(max(steps, 0) if relu else steps) & 0xFF


def product(value: float, factor: int, relu: bool, finite: bool) -> int:
    """As bf16; products have few bits, so that f32 holds all that bf16 rounds."""
    if math.isnan(value) or factor == 0xFF:
        return 0x7FFF
    exact = (
        np.float32(math.ldexp(value, factor - 127))
        if abs(math.ldexp(value, factor - 127)) < 3.4e38
        else np.float32(math.copysign(math.inf, value))
    )
    code = int(np.array([exact]).astype(ml_dtypes.bfloat16).view(np.uint16)[0])
    if finite and code & 0x7FFF == 0x7F80:
        code -= 1
    return 0 if relu and code & 0x8000 else code


def element(name: str, word: int, place: int) -> float:
    if name == "s2f6":
        return int(np.array([word >> (8 * place) & 0xFF], np.uint8).view(np.int8)[0]) / 64
    width = 4 if name == "e2m1" else 8
    code = np.array([word >> (width * place) & ((1 << BITS[name]) - 1)], np.uint8)
    return float(code.view(DTYPES[name]).astype(np.float32)[0])


# -- statements -----------------------------------------------------------------------------------------------------------
Model = Callable[[list[int]], int]


def cases() -> list[tuple[str, str, Model]]:
    """(opcode, operands with {d} for the result's register, what it is of the input words)."""
    found: list[tuple[str, str, Model]] = []
    halves = ((0xFFFF0000, 0), (0xFFFF, 16))
    for rounding in ("rz", "rp"):
        for finite in ("", ".satfinite"):
            args = (rounding, bool(finite))
            found.append(
                (f"cvt.{rounding}{finite}.ue8m0x2.f32", "{h}, %f0, %f1", lambda w, g=args: exponent(w[0], *g) << 8 | exponent(w[1], *g))
            )
            found.append(
                (
                    f"cvt.{rounding}{finite}.ue8m0x2.bf16x2", "{h}, %f0",
                    lambda w, g=args: exponent(w[0] & halves[0][0], *g) << 8 | exponent((w[0] & halves[1][0]) << 16, *g),
                )
            )  # fmt: skip
    for relu in ("", ".relu"):
        for finite in ("", ".satfinite"):
            for name in ("f16", "bf16"):
                args = (bool(relu), bool(finite))
                found.append(
                    (
                        f"cvt.rs{relu}{finite}.{name}x2.f32", "{r}, %f0, %f1, %r4",
                        lambda w, n=name, g=args: stochastic(n, w[0], w[4] >> 16, *g) << 16 | stochastic(n, w[1], w[4], *g),
                    )
                )  # fmt: skip
        for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1"):
            found.append((f"cvt.rs{relu}.satfinite.{name}x4.f32", "{h}" if name == "e2m1" else "{r}", four(name, bool(relu))))
        for scaled in ("", ".scaled::n2::ue8m0"):
            factors = (lambda w: (w[4] & 0xFF, w[4] >> 8 & 0xFF)) if scaled else (lambda w: (127, 127))
            more = ", %h4" if scaled else ""
            found.append(
                (f"cvt.rn.satfinite{relu}{scaled}.s2f6x2.f32", f"{{h}}, %f0, %f1{more}", pair(lambda w: (w[1], w[0]), factors, bool(relu)))
            )
            found.append(
                (
                    f"cvt.rn.satfinite{relu}{scaled}.s2f6x2.bf16x2", f"{{h}}, %f0{more}",
                    pair(lambda w: ((w[0] & 0xFFFF) << 16, w[0] & 0xFFFF0000), factors, bool(relu)),
                )
            )  # fmt: skip
            for finite in ("", ".satfinite"):
                for name in ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "s2f6"):
                    found.append(
                        (
                            f"cvt.rn{finite}{relu}{scaled}.bf16x2.{name}x2", f"{{r}}, {'%b5' if name == 'e2m1' else '%h5'}{more}",
                            lambda w, n=name, k=factors, g=(bool(relu), bool(finite)): sum(
                                product(element(n, w[5], i), k(w)[i], *g) << (16 * i) for i in (0, 1)
                            ),
                        )
                    )  # fmt: skip
    return found


def pair(bits: Callable[[list[int]], tuple[int, int]], factors: Callable[[list[int]], tuple[int, int]], relu: bool) -> Model:
    return lambda w: sum(fixed(b, f, relu) << (8 * i) for i, (b, f) in enumerate(zip(bits(w), factors(w), strict=True)))


def four(name: str, relu: bool) -> Model:
    places = (24, 8, 16, 0) if name == "e2m1" else (16, 16, 0, 0)
    width = 4 if name == "e2m1" else 8
    return lambda w: sum(stochastic(name, w[i], w[4] >> at, relu, True) << (width * (3 - i)) for i, at in enumerate(places))


def given() -> NDArray[np.uint32]:
    rng = random.Random(3)

    def number() -> int:
        if rng.random() < 0.4:
            return rng.choice(SPECIAL) | rng.getrandbits(1) << 31
        if rng.random() < 0.6:
            return (
                rng.getrandbits(24)
                | rng.choice((100, 110, 113, 119, 121, 122, 123, 124, 125, 126, 127, 128, 129, 134, 135, 141, 142)) << 23 & 0x7FFFFFFF
            )
        return rng.getrandbits(32)

    def noise() -> int:
        return sum(rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, rng.getrandbits(8))) << (8 * i) for i in range(4))

    return np.array([[number() if kind == "f32" else noise() for _ in range(THREADS)] for kind in INPUTS], np.uint32)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_against_exact_fractions(engine: str) -> None:
    statements, words = cases(), given()
    lines = []
    for i, (opcode, operands, _) in enumerate(statements):
        text = operands.format(h="%h0", r="%r0")
        if "x4" in opcode:
            text += ", {%f0, %f1, %f2, %f3}, %r4"
        lines.append(
            f"{opcode} {text}; {'cvt.u32.u16 %r0, %h0; ' if text.startswith('%h0') else ''}st.global.u32 [%rd2+{4 * THREADS * i}], %r0;"
        )
    loads = "\n".join(f"ld.global.u32 %r{i}, [%rd1+{4 * THREADS * i}]; mov.b32 %f{i}, %r{i};" for i in range(6))
    ptx = f""".version 9.2
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %r<8>; .reg .f32 %f<6>; .reg .b16 %h<6>; .reg .b8 %b<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r7, %tid.x; mul.wide.u32 %rd3, %r7, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    {loads}
    cvt.u16.u32 %h4, %r4; cvt.u16.u32 %h5, %r5; cvt.u8.u32 %b5, %r5;
    {chr(10).join(lines)}
    ret;
}}
"""
    out = np.zeros((len(statements), THREADS), np.uint32)
    ptxgraft.load(ptx).kernel("k", engine=engine).launch(1, THREADS, [words, out])
    wrong = []
    columns = [list(column) for column in zip(*words.tolist(), strict=True)]
    for (opcode, _, model), row in zip(statements, out.tolist(), strict=True):
        for have, column in zip(row, columns, strict=True):
            if have != model(column):
                wrong.append(f"{opcode} {[hex(w) for w in column]}: {have:#x}, wanted {model(column):#x}")
                break
    assert not wrong, f"{len(wrong)} of {len(statements)}\n" + "\n".join(wrong)
