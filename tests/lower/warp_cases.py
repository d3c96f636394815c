"""The cases on which ``WarpLanes`` is compared with ``NumpyLanes``: every operation in every variant, and operands that are awkward.

Invariant: operands are drawn from a fixed seed, so that a failure repeats; every float format's zeros, subnormals, infinities, NaNs with
payloads and neighbours of its boundaries meet each other in every binary operation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

WIDTHS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}
EXPONENT_BITS = {"f16": 5, "bf16": 8, "f32": 8, "f64": 11}
ROUNDINGS = ("rn", "rz", "rm", "rp")
INTEGERS = (8, 16, 32, 64)
RANDOM = 1600
"""Random elements in each case, in front of the awkward ones."""


@dataclass(frozen=True, slots=True)
class Case:
    """``kinds``: what each operand is: a float format, an integer width, or ``amount32``, ``index100``, ``lane``."""

    group: str
    name: str
    kinds: tuple[Any, ...]
    body: Callable[..., Any]

    @property
    def widths(self) -> list[int]:
        return [_width(kind) for kind in self.kinds]


def _width(kind: Any) -> int:
    if isinstance(kind, int):
        return kind
    if kind.startswith("amount"):
        return int(kind[6:])
    return WIDTHS.get(kind, 32)


# -- operands ---------------------------------------------------------------------------------------------------------
def awkward(fmt: str) -> np.ndarray:
    """Bits of a float format that deserve to meet each other."""
    width, exponent_bits = WIDTHS[fmt], EXPONENT_BITS[fmt]
    fraction = width - 1 - exponent_bits
    one = ((1 << (exponent_bits - 1)) - 1) << fraction
    infinity = ((1 << exponent_bits) - 1) << fraction
    top = (1 << fraction) - 1
    sizes = [
        0,
        1,
        2,
        top,
        top + 1,
        top + 2,
        2 * (top + 1),
        one,
        one - 1,
        one + 1,
        one + (1 << (fraction - 1)),
        one + (fraction << fraction),
    ]
    sizes += [
        one - (1 << fraction),
        one - (1 << fraction) - 1,
        one + ((fraction + 1) << fraction) - 1,
        infinity - 1,
        infinity - (1 << fraction),
    ]
    sizes += [infinity, infinity + 1, infinity + (1 << (fraction - 1)), infinity + (1 << (fraction - 1)) + 5, infinity + top]
    if fmt in ("f32", "f64"):
        # Boundaries of the integer types and of the narrower formats.
        values = [
            2.0**31,
            2.0**32,
            2.0**63,
            2.0**64,
            255.5,
            127.5,
            65535.5,
            32767.5,
            65504.0,
            65519.0,
            65520.0,
            2.0**-24,
            2.0**-25,
            2.0**-14,
            0.5,
            1.5,
            2.5,
        ]
        values += [2.0**-126 * (1 - 2.0**-24), 2.0**-149, 2.0**-133, 2.0**-134, 3.3895314e38]
        if fmt == "f64":
            values += [
                2.0**-126 * (1 - 2.0**-25),
                2.0**-1022 * 1.5,
                2.0**-537,
                2.0**-500,
                2.0**512,
                2.0**-1073,
                2.0**53 + 1,
                2.0**31 - 0.5,
                2.0**32 - 0.5,
            ]
            values += [3.4028235677973366e38, 3.4028234663852886e38, 1.0 + 2.0**-24, 1.0 + 2.0**-25]
        sizes += [int(v) for v in np.array(values, f"f{width // 8}").view(f"u{width // 8}")]
    sizes = sorted(set(sizes))
    return np.array([s | sign for s in sizes for sign in (0, 1 << (width - 1))], dtype=f"u{width // 8}")


def _random_bits(rng: np.random.Generator, width: int, count: int) -> np.ndarray:
    return rng.integers(0, (1 << width) - 1, count, dtype=f"u{width // 8}", endpoint=True)


def _floats(fmt: str, rng: np.random.Generator, number: int, arity: int) -> np.ndarray:
    width = WIDTHS[fmt]
    fraction = width - 1 - EXPONENT_BITS[fmt]
    bits = _random_bits(rng, width, RANDOM)
    kind = bits.dtype.type
    near = RANDOM // 3
    bias = (1 << (EXPONENT_BITS[fmt] - 1)) - 1
    exponents = np.clip(rng.integers(bias - fraction, bias + fraction, near), 0, 2 * bias).astype(bits.dtype)
    bits[:near] = (bits[:near] & kind(1 << (width - 1) | (1 << fraction) - 1)) | exponents << kind(fraction)
    bits[near : near + near // 2] &= kind((1 << width) - (1 << (2 * fraction // 3)))
    special = awkward(fmt)
    if arity == 1:
        chosen = special
    elif arity == 2:
        i = np.arange(len(special) ** 2)
        chosen = special[i // len(special) if number else i % len(special)]
    else:
        chosen = special[rng.integers(0, len(special), 2400)]
    bits = np.concatenate([bits, chosen])
    return np.concatenate([bits, bits[: -len(bits) % 32]])


def _integers(width: int, rng: np.random.Generator) -> np.ndarray:
    bits = _random_bits(rng, width, RANDOM)
    shifts = rng.integers(0, width, RANDOM).astype(bits.dtype)
    bits[::2] >>= shifts[::2]
    bits[1::3] = ~(bits[1::3] >> shifts[1::3])
    kind = bits.dtype.type
    bits[::11], bits[5::17], bits[7::19], bits[5::34] = 0, kind(1 << (width - 1)), kind((1 << width) - 1), kind((1 << width) - 1)
    return bits


def operands(case: Case) -> list[np.ndarray]:
    """Arrays of 32 * n elements for a case, the same every time."""
    rng = np.random.default_rng(len(case.name))
    found = []
    for i, kind in enumerate(case.kinds):
        if kind in WIDTHS:
            found.append(_floats(kind, rng, i, len(case.kinds)))
        elif kind == 1:
            found.append(rng.integers(0, 2, RANDOM).astype(bool))
        elif isinstance(kind, int):
            found.append(_integers(kind, rng))
        elif kind.startswith("amount"):
            width = int(kind[6:])
            amounts = rng.integers(0, 70, RANDOM).astype(f"u{width // 8}")
            amounts[::7] = _random_bits(rng, width, RANDOM)[::7]
            found.append(amounts)
        else:
            bound = 32 if kind == "lane" else int(kind[5:])
            found.append(rng.integers(0, bound, RANDOM).astype(np.uint32))
    return found


# -- cases ------------------------------------------------------------------------------------------------------------
def _arithmetic() -> Iterator[Case]:
    for fmt in WIDTHS:
        for rounding in ROUNDINGS:
            for ftz in (False, True):
                for op, arity in (("add", 2), ("sub", 2), ("mul", 2), ("fma", 3), ("div", 2), ("sqrt", 1)):

                    def body(l: Any, *v: Any, op: str = op, fmt: str = fmt, r: str = rounding, z: bool = ftz) -> Any:
                        return getattr(l, f"float_{op}")(fmt, *v, rounding=r, ftz=z)

                    yield Case(f"{fmt} arithmetic", f"{op}_{fmt}_{rounding}{'_ftz' * ftz}", (fmt,) * arity, body)


def _comparisons() -> Iterator[Case]:
    for fmt in WIDTHS:
        for op in ("eq", "ne", "lt", "le", "gt", "ge", "nan"):
            for ftz in (False, True):

                def body(l: Any, a: Any, b: Any, fmt: str = fmt, op: str = op, z: bool = ftz) -> Any:
                    return l.float_compare(fmt, op, a, b, ftz=z)

                yield Case("float comparison", f"compare_{fmt}_{op}{'_ftz' * ftz}", (fmt, fmt), body)


def _conversions() -> Iterator[Case]:
    for fmt in WIDTHS:
        for target in WIDTHS:
            for rounding in ROUNDINGS:

                def convert(l: Any, a: Any, fmt: str = fmt, target: str = target, r: str = rounding) -> Any:
                    return l.float_convert(fmt, target, a, rounding=r)

                yield Case("float conversion", f"convert_{fmt}_{target}_{rounding}", (fmt,), convert)
        for mode in ("rni", "rzi", "rmi", "rpi"):

            def integral(l: Any, a: Any, fmt: str = fmt, m: str = mode) -> Any:
                return l.float_round(fmt, a, m)

            yield Case("float conversion", f"round_{fmt}_{mode}", (fmt,), integral)
            for width in INTEGERS:
                for signed in (False, True):

                    def to_int(l: Any, a: Any, fmt: str = fmt, m: str = mode, w: int = width, s: bool = signed) -> Any:
                        return l.float_to_int(fmt, a, w, s, m)

                    yield Case("float to integer", f"to_int_{fmt}_{mode}_{width}_{signed}", (fmt,), to_int)
        for width in INTEGERS:
            for signed in (False, True):
                for rounding in ROUNDINGS:

                    def from_int(l: Any, a: Any, fmt: str = fmt, s: bool = signed, r: str = rounding) -> Any:
                        return l.int_to_float(a, s, fmt, rounding=r)

                    yield Case("integer to float", f"from_int_{fmt}_{width}_{signed}_{rounding}", (width,), from_int)


def _call(name: str, *options: Any) -> Callable[..., Any]:
    return lambda l, *v: getattr(l, name)(*v, *options)


def _integer_cases() -> Iterator[Case]:
    for w in INTEGERS:
        for op in ("add", "sub", "mul", "and_", "or_", "xor"):
            yield Case("integer", f"{op}_{w}", (w, w), _call(op))
        for op in ("not_", "count_ones", "leading_zeros", "reverse_bits"):
            yield Case("integer", f"{op}_{w}", (w,), _call(op))
        for signed in (False, True):
            for op in ("mul_high", "divide", "remainder"):
                yield Case("integer", f"{op}_{w}_{signed}", (w, w), _call(op, signed))
            for op in ("eq", "ne", "lt", "le", "gt", "ge"):
                yield Case("integer", f"compare_{op}_{w}_{signed}", (w, w), lambda l, a, b, op=op, s=signed: l.compare(op, a, b, s))
            for other in (1, *INTEGERS):
                yield Case("shape", f"resize_{w}_{other}_{signed}", (w,), _call("resize", other, signed))
            yield Case("shape", f"resize_1_{w}_{signed}", (1,), _call("resize", w, signed))
            for amount in INTEGERS:
                yield Case("integer", f"shift_right_{w}_{amount}_{signed}", (w, f"amount{amount}"), _call("shift_right", signed))
        for amount in INTEGERS:
            yield Case("integer", f"shift_left_{w}_{amount}", (w, f"amount{amount}"), _call("shift_left"))
        for size in (5, 16, 32, 100):
            table = tuple((i * 0x9E3779B97F4A7C15) >> 3 for i in range(size))
            yield Case("shape", f"lookup_{size}_{w}", (f"index{size}",), lambda l, i, t=table, w=w: l.lookup(t, i, w))


def _shapes() -> Iterator[Case]:
    for w in (1, *INTEGERS):
        yield Case("shape", f"select_{w}", (1, w, w), _call("select"))
        yield Case("other lanes", f"read_{w}", (w, "lane"), _call("read_lane"))
        yield Case("other lanes", f"read_uniform_{w}", (w,), lambda l, a: l.read_lane(a, l.const(7, 32)))
    for w, offset, part in ((32, 0, 16), (32, 16, 16), (32, 8, 8), (64, 32, 32), (64, 16, 16), (16, 8, 8), (16, 0, 8), (32, 5, 1)):
        yield Case("shape", f"extract_{w}_{offset}_{part}", (w,), _call("extract", offset, part))
    for w, count in ((8, 2), (8, 4), (16, 2), (16, 4), (32, 2)):
        yield Case("shape", f"concat_{w}_{count}", (w,) * count, lambda l, *v: l.concat(v))
    # Only parts that do not straddle a 64-bit word are promised.
    yield Case("shape", "wide", (64, 64), lambda l, a, b: l.xor(l.extract(l.concat([a, b]), 64, 64), l.extract(l.concat([b, a]), 64, 64)))
    yield Case("other lanes", "read_128", (64, 64, "lane"), lambda l, a, b, i: l.extract(l.read_lane(l.concat([a, b]), i), 64, 64))


def _packed() -> Iterator[Case]:
    """Operations on both halves of packed values: computed together, apart, and mixed with other things."""

    def each(l: Any, fn: Callable[..., Any], *v: Any) -> Any:
        w = l.width(v[0]) // 2
        return l.concat([fn(*(l.extract(x, i * w, w) for x in v)) for i in (0, 1)])

    for fmt in ("f16", "bf16"):
        for op in ("add", "sub", "mul"):
            yield Case(
                "packed",
                f"{op}_{fmt}x2",
                (32, 32),
                lambda l, a, b, op=op, f=fmt: each(l, lambda x, y: getattr(l, f"float_{op}")(f, x, y), a, b),
            )
        yield Case(
            "packed", f"fma_{fmt}x2", (32, 32, 32), lambda l, a, b, c, f=fmt: each(l, lambda x, y, z: l.float_fma(f, x, y, z), a, b, c)
        )

        def smaller(l: Any, a: Any, b: Any, fmt: str = fmt) -> Any:
            def one(x: Any, y: Any) -> Any:
                less = l.float_compare(fmt, "lt", x, y)
                return l.select(l.float_compare(fmt, "nan", x, y), l.const(0x7FFF, 16), l.select(less, x, y))

            return each(l, one, a, b)

        yield Case("packed", f"min_{fmt}x2", (32, 32), smaller)
    yield Case(
        "packed", "crossed", (32, 32), lambda l, a, b: l.concat([l.add(l.extract(a, 16, 16), l.extract(b, 0, 16)), l.extract(a, 0, 16)])
    )
    yield Case("packed", "one half", (32, 32), lambda l, a, b: l.resize(l.float_add("f16", l.extract(a, 16, 16), l.extract(b, 16, 16)), 32))
    yield Case("packed", "swapped", (32,), lambda l, a: l.concat([l.not_(l.extract(a, 16, 16)), l.not_(l.extract(a, 0, 16))]))
    yield Case("packed", "uniform", (32,), lambda l, a: each(l, lambda x: l.float_mul("f16", x, l.const(0x3E00, 16)), a))
    yield Case("packed", "bytes", (16,), lambda l, a: each(l, lambda x: l.add(x, l.const(3, 8)), a))
    yield Case("packed", "widened", (32,), lambda l, a: l.add(*(l.resize(l.extract(a, i, 16), 32, True) for i in (0, 16))))
    yield Case(
        "packed",
        "predicates",
        (32, 32),
        lambda l, a, b: l.and_(*(l.compare("lt", l.extract(a, i, 16), l.extract(b, i, 16)) for i in (0, 16))),
    )


def _constants() -> Iterator[Case]:
    """Operations with constants, which are folded."""
    one = {"add": 7, "sub": 9, "mul": 3, "and_": 0xF0F0, "or_": 0, "xor": 0}
    for op, number in one.items():
        yield Case("constants", f"{op}_const", (32,), lambda l, a, op=op, n=number: getattr(l, op)(a, l.const(n, 32)))
    for op in ("add", "sub", "mul", "and_", "or_", "xor"):

        def folded(l: Any, a: Any, op: str = op) -> Any:
            return l.add(a, getattr(l, op)(l.const(0xFFFFFFF0, 32), l.const(0x35, 32)))

        yield Case("constants", f"{op}_folded", (32,), folded)
    for amount in (0, 1, 31, 32, 200):
        for name, options in (("shift_left", ()), ("shift_right", ()), ("shift_right", (True,))):

            def shift(l: Any, a: Any, name: str = name, n: int = amount, options: tuple[Any, ...] = options) -> Any:
                by = l.const(n, 32)
                return l.xor(getattr(l, name)(a, by, *options), getattr(l, name)(l.const(0x80000001, 32), by, *options))

            yield Case("constants", f"{name}_{amount}{'_s' * bool(options)}", (32,), shift)
    for signed in (False, True):
        yield Case("constants", f"resize_{signed}", (64,), lambda l, a, s=signed: l.add(a, l.resize(l.const(0x90, 8), 64, s)))
        for op in ("eq", "ne", "lt", "le", "gt", "ge"):

            def chosen(l: Any, a: Any, op: str = op, s: bool = signed) -> Any:
                return l.select(l.compare(op, l.const(0x80, 8), l.const(1, 8), s), a, l.not_(a))

            yield Case("constants", f"compare_{op}_{signed}", (32,), chosen)
    yield Case("constants", "lookup", (32,), lambda l, a: l.add(a, l.lookup((5, 6, 7), l.const(1, 32), 32)))
    yield Case("constants", "concat", (32,), lambda l, a: l.add(a, l.concat([l.const(1, 8), l.const(2, 8), l.const(3, 8), l.const(4, 8)])))


def cases() -> list[Case]:
    return [*_arithmetic(), *_comparisons(), *_conversions(), *_integer_cases(), *_shapes(), *_packed(), *_constants()]
