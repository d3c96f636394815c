"""One output of a tensor core by the letter of the numerics, in Python integers and fractions: the slow reference for every executor."""

from __future__ import annotations

from fractions import Fraction

from ptxgraft.isa.numerics import MmaPlan

FORMATS = {"f16": (5, 10), "bf16": (8, 7), "tf32": (8, 23), "f32": (8, 23), "e4m3": (4, 3), "e5m2": (5, 2)}
INF, NAN = "inf", "nan"


def decode(fmt: str, bits: int) -> tuple[str, int, int, Fraction]:
    """(kind, sign, exponent, significand with its sign dropped); a subnormal keeps the lowest exponent. kind: finite, inf, nan."""
    exponent_bits, fraction_bits = FORMATS[fmt]
    if fmt == "tf32":
        bits &= 0xFFFFE000
    sign = -1 if bits >> (exponent_bits + fraction_bits) & 1 else 1
    biased = bits >> fraction_bits & ((1 << exponent_bits) - 1)
    fraction = bits & ((1 << fraction_bits) - 1)
    bias = (1 << (exponent_bits - 1)) - 1
    if fmt == "e4m3":
        if bits & 0x7F == 0x7F:
            return NAN, sign, 0, Fraction(0)
    elif biased == (1 << exponent_bits) - 1:
        return (NAN if fraction else INF), sign, 0, Fraction(0)
    significand = Fraction(fraction, 1 << fraction_bits)
    return ("finite", sign, biased - bias, 1 + significand) if biased else ("finite", sign, 1 - bias, significand)


def floored(value: Fraction, floor: int) -> tuple[int, Fraction]:
    """(exponent, significand) of a nonzero magnitude with the exponent at least ``floor``."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    while value >= Fraction(2) ** (exponent + 1):
        exponent += 1
    while value < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, floor)
    return exponent, value / Fraction(2) ** exponent


def toward_zero(value: Fraction) -> int:
    return -(-value.numerator // value.denominator) if value < 0 else value.numerator // value.denominator


def cut(value: Fraction, fraction_bits: int, emin: int) -> Fraction:
    """Toward zero to a binary format's precision."""
    if value == 0:
        return value
    exponent, _ = floored(abs(value), emin)
    quantum = Fraction(2) ** (exponent - fraction_bits)
    return toward_zero(value / quantum) * quantum


def nearest(value: Fraction, fraction_bits: int, emin: int) -> Fraction:
    if value == 0:
        return value
    exponent, _ = floored(abs(value), emin)
    quantum = Fraction(2) ** (exponent - fraction_bits)
    return round(value / quantum) * quantum  # Python rounds halves to even


def round_to(rounding: str, value: Fraction) -> Fraction | str:
    """The value in the format; ``+inf`` or ``-inf`` beyond it."""
    if rounding == "f16.rn":
        result, limit = nearest(value, 10, -14), Fraction(65520)
        beyond = abs(value) >= limit
    elif rounding == "f32.rn":
        result = nearest(value, 23, -126)
        beyond = abs(result) >= Fraction(2) ** 128
    else:
        result = cut(value, 13 if rounding == "e8m13.rz" else 23, -126)
        beyond = abs(value) >= Fraction(2) ** 128
    return ("+inf" if value > 0 else "-inf") if beyond else result


def fused_sum(plan: MmaPlan, step, a: list[int], b: list[int], running: Fraction | str) -> Fraction | str:
    """T of one step; values are fractions, ``+inf``, ``-inf`` or ``nan``."""
    emin = -14 if plan.d == "f16" else -126
    infinities: set[str] = set()
    terms: list[tuple[Fraction, int]] = []
    for k in step.ks:
        x, y = decode(plan.a, a[k]), decode(plan.b, b[k])
        if NAN in (x[0], y[0]):
            return NAN
        if INF in (x[0], y[0]):
            if any(v[0] == "finite" and v[3] == 0 for v in (x, y)):
                return NAN
            infinities.add("+inf" if x[1] == y[1] else "-inf")
            continue
        if x[3] and y[3]:
            powers = [floored(v[3] * Fraction(2) ** v[2], floor) for v, floor in zip((x, y), plan.exponent_floor, strict=True)]
            terms.append((x[1] * y[1] * powers[0][1] * powers[1][1], powers[0][0] + powers[1][0]))
    if running == NAN:
        return NAN
    if isinstance(running, str):
        infinities.add(running)
    elif running:
        exponent, significand = floored(abs(running), emin)
        terms.append((significand if running > 0 else -significand, exponent))
    if infinities:
        return NAN if len(infinities) == 2 else infinities.pop()
    if not terms:
        return Fraction(0)
    top = max(e for _, e in terms)
    total = sum(toward_zero(s * Fraction(2) ** (step.fraction_bits + e - top)) for s, e in terms)
    return round_to(plan.rounding, total * Fraction(2) ** (top - step.fraction_bits))


def value_of(fmt: str, bits: int) -> Fraction | str:
    kind, sign, exponent, significand = decode(fmt, bits)
    if kind == "finite":
        return sign * significand * Fraction(2) ** exponent
    return NAN if kind == NAN else ("+inf" if sign > 0 else "-inf")


def element(plan: MmaPlan, a: list[int], b: list[int], c: int) -> int:
    """The bits of one element of D from a row of A, a column of B and an element of C (bits)."""
    addend = value_of(plan.c, c)
    running: Fraction | str = addend if plan.c_inside else Fraction(0)
    for step in plan.steps:
        running = fused_sum(plan, step, a, b, running)
    if not plan.c_inside:
        if NAN in (running, addend) or (isinstance(running, str) and isinstance(addend, str) and running != addend):
            running = NAN
        elif isinstance(addend, str):
            running = addend
        elif not isinstance(running, str):
            running = round_to(plan.d + ".rn", running + addend)
    return encode(plan.d, running)


def encode(fmt: str, value: Fraction | str) -> int:
    """The bits of a value that the format holds; never -0."""
    exponent_bits, fraction_bits = FORMATS[fmt]
    sign_bit, infinity = 1 << (exponent_bits + fraction_bits), ((1 << exponent_bits) - 1) << fraction_bits
    if value == NAN:
        return sign_bit - 1
    if isinstance(value, str):
        return infinity | (sign_bit if value == "-inf" else 0)
    if value == 0:
        return 0
    bias = (1 << (exponent_bits - 1)) - 1
    exponent, significand = floored(abs(value), 1 - bias)
    scaled = significand * (1 << fraction_bits)
    assert scaled.denominator == 1
    # A normal number's hidden bit counts one into the exponent field.
    return (sign_bit if value < 0 else 0) | (((exponent + bias - 1) << fraction_bits) + scaled.numerator)
