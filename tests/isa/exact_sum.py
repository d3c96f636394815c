"""One output of a tensor core by the letter of the numerics, in Python integers and fractions: the slow reference for every executor."""

from __future__ import annotations

from fractions import Fraction

from ptxgraft.isa.numerics import MmaPlan

FORMATS = {
    "f16": (5, 10),
    "bf16": (8, 7),
    "tf32": (8, 23),
    "f32": (8, 23),
    "e4m3": (4, 3),
    "e5m2": (5, 2),
    "e3m2": (3, 2),
    "e2m3": (2, 3),
    "e2m1": (2, 1),
}
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
    elif biased == (1 << exponent_bits) - 1 and fmt not in ("e3m2", "e2m3", "e2m1"):
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


def factor(fmt: str, code: int) -> tuple[int, Fraction] | None:
    """(exponent, significand) of the factor of a block; None for a NaN."""
    if fmt == "ue8m0":
        return None if code == 255 else (code - 127, Fraction(1))
    kind, _, exponent, significand = decode("e4m3", code & 0x7F)
    return None if kind == NAN else (exponent, significand)


def fused_sum(plan: MmaPlan, step, a: list[int], b: list[int], running: Fraction | str, shift: int = 0) -> Fraction | str:
    """T of one step; values are fractions, ``+inf``, ``-inf`` or ``nan``. ``shift`` is the exponent of the factors of all products."""
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
            terms.append((x[1] * y[1] * powers[0][1] * powers[1][1], powers[0][0] + powers[1][0] + shift))
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


def added(x: Fraction | str, y: Fraction | str) -> Fraction | str:
    if NAN in (x, y) or (isinstance(x, str) and isinstance(y, str) and x != y):
        return NAN
    if isinstance(x, str) or isinstance(y, str):
        return x if isinstance(x, str) else y
    return x + y


def times(x: Fraction | str, y: Fraction | str) -> Fraction | str:
    if NAN in (x, y) or (0 in (x, y) and (isinstance(x, str) or isinstance(y, str))):
        return NAN
    if isinstance(x, str) or isinstance(y, str):
        negative = [v == "-inf" if isinstance(v, str) else v < 0 for v in (x, y)]
        return "-inf" if negative[0] != negative[1] else "+inf"
    return x * y


def exact(plan: MmaPlan, a: list[int], b: list[int], addend: Fraction | str, factors: list[Fraction]) -> int:
    """The sum of everything, rounded once to nearest; a negative sum that vanishes is -0."""
    total = addend
    for k in range(plan.depth):
        product = times(value_of(plan.a, a[k]), value_of(plan.b, b[k]))
        total = added(total, times(product, factors[k // plan.block]) if factors else product)
    result = total if isinstance(total, str) else round_to(plan.rounding, total)
    bits = encode(plan.d, result)
    return bits if result != 0 or isinstance(total, str) or total >= 0 else encode(plan.d, "-inf") & ~encode(plan.d, "+inf")


def blocks(plan: MmaPlan, a: list[int], b: list[int], addend: Fraction | str, pairs: list) -> Fraction | str:
    """One T over the exact sums of groups; elements of these formats are all finite."""
    if isinstance(addend, str):
        return addend
    terms = []
    for step in plan.steps:
        total = sum((times(value_of(plan.a, a[k]), value_of(plan.b, b[k])) for k in step.ks), Fraction(0))
        (x, xs), (y, ys) = pairs[step.ks[0] // plan.block]
        if total * xs * ys:
            terms.append((total * xs * ys, x + y))
    if addend:
        exponent, significand = floored(abs(addend), -126)
        terms.append((significand if addend > 0 else -significand, exponent))
    if not terms:
        return Fraction(0)
    top, bits = max(e for _, e in terms), plan.steps[0].fraction_bits
    total = sum(toward_zero(s * Fraction(2) ** (bits + e - top)) for s, e in terms)
    return round_to(plan.rounding, total * Fraction(2) ** (top - bits))


def element(plan: MmaPlan, a: list[int], b: list[int], c: int, scales: tuple[list[int], list[int]] | None = None) -> int:
    """The bits of one element of D from a row of A, a column of B and an element of C (bits), and the codes of the row's and the column's factors."""
    addend = value_of(plan.c, c)
    pairs = [(factor(plan.scale, x), factor(plan.scale, y)) for x, y in zip(*scales, strict=True)] if scales else []
    if any(None in pair for pair in pairs):
        return encode(plan.d, NAN)
    if plan.kind == "exact":
        factors = [x[1] * y[1] * Fraction(2) ** (x[0] + y[0]) for x, y in pairs if x and y]
        return exact(plan, a, b, addend, factors)
    if plan.kind == "blocks":
        return encode(plan.d, blocks(plan, a, b, addend, pairs))
    running: Fraction | str = addend if plan.c_inside else Fraction(0)
    shift = sum(v[0] for v in pairs[0] if v) if pairs else 0  # one block: ue8m0 alone
    for step in plan.steps:
        running = fused_sum(plan, step, a, b, running, shift)
    if not plan.c_inside:
        running = added(running, addend)
        if not isinstance(running, str):
            running = round_to(plan.d + ".rn", running)
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
