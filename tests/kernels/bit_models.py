"""What the integer intrinsics of ``cuda/language.cu`` give, in Python integers, in the order in which the kernels store them.

Invariant: operands are the unsigned bits; a model's result is meant modulo the word.
"""

from __future__ import annotations

from collections.abc import Callable

ALL32 = 0xFFFFFFFF

Model = Callable[[int, int], int]


def signed(bits: int, width: int) -> int:
    """The number that ``width`` bits are in two's complement."""
    return bits - (bits >> width - 1 << width)


def _s(bits: int) -> int:
    return signed(bits, 32)


def _lanes(a: int, b: int, width: int, each: Model) -> int:
    """``each`` on every field of ``width`` bits."""
    mask = (1 << width) - 1
    return sum((each(a >> at & mask, b >> at & mask) & mask) << at for at in range(0, 32, width))


def _parts(bits: int, width: int, sign: bool) -> list[int]:
    fields = [bits >> at & (1 << width) - 1 for at in range(0, 32, width)]
    return [signed(f, width) for f in fields] if sign else fields


def _permuted(a: int, b: int, selector: int) -> int:
    source = (b << 32 | a).to_bytes(8, "little")
    out = bytearray()
    for i in range(4):
        nibble = selector >> 4 * i & 15
        byte = source[nibble & 7]
        out.append((0xFF if byte & 0x80 else 0) if nibble & 8 else byte)
    return int.from_bytes(out, "little")


def _reverse(bits: int, width: int) -> int:
    return int(f"{bits:0{width}b}"[::-1], 2)


def _first(bits: int) -> int:
    return (bits & -bits).bit_length()


def _dot(a: list[int], b: list[int], c: int) -> int:
    return sum(x * y for x, y in zip(a, b, strict=False)) + c


BITS: tuple[Model, ...] = (
    lambda a, b: a.bit_count(),
    lambda a, b: 32 - a.bit_length(),
    lambda a, b: _reverse(a, 32),
    lambda a, b: _first(a),
    lambda a, b: _permuted(a, b, b & 0x7777),  # the intrinsic takes three bits of each selector
    lambda a, b: (b << 32 | a) << (a & 31) >> 32,
    lambda a, b: (b << 32 | a) >> (b & 31),
    lambda a, b: (b << 32 | a) << min(b & 63, 32) >> 32,
    lambda a, b: (b << 32 | a) >> min(b & 63, 32),
    lambda a, b: a * b >> 32,
    lambda a, b: _s(a) * _s(b) >> 32,
    lambda a, b: abs(_s(a) - _s(b)) + 3,
    lambda a, b: abs(a - b) + 5,
    lambda a, b: a + b >> 1,
    lambda a, b: _s(a) + _s(b) + 1 >> 1,
    lambda a, b: _lanes(a, b, 8, lambda x, y: x + y),
    lambda a, b: _lanes(a, b, 8, lambda x, y: x + y + 1 >> 1),
    lambda a, b: _lanes(a, b, 16, lambda x, y: max(signed(x, 16), signed(y, 16))),
    lambda a, b: _lanes(a, b, 8, lambda x, y: 255 if x > y else 0),
    lambda a, b: _dot(_parts(a, 8, True), _parts(b, 8, True), 9),
    lambda a, b: _dot(_parts(a, 8, False), _parts(b, 8, False), 9),
    lambda a, b: _dot(_parts(a, 16, True), _parts(b, 8, True)[:2], -4),
    lambda a, b: signed(a & 0xFFFFFF, 24) * signed(b & 0xFFFFFF, 24),
    lambda a, b: max(_s(a + b & ALL32), 12) ^ min(a, b, 77),
    lambda a, b: _lanes(a, b, 8, lambda x, y: abs(x - y)),
    lambda a, b: sum(abs(x - y) for x, y in zip(_parts(a, 8, False), _parts(b, 8, False), strict=True)),
    lambda a, b: sum(abs(x - y) for x, y in zip(_parts(a, 16, False), _parts(b, 16, False), strict=True)),
    lambda a, b: (
        _lanes(a, b, 8, lambda x, y: min(max(signed(x, 8) + signed(y, 8), -128), 127))
        ^ _lanes(a, b, 16, lambda x, y: max(x - y, 0))
        ^ _lanes(a, b, 8, lambda x, y: int(signed(x, 8) >= signed(y, 8)))
    ),
)


def _wide_sum(a: int, b: int) -> int:
    return (a << 64 | b) + a * b >> 64


WIDE: tuple[Model, ...] = (
    lambda a, b: a * b >> 64,
    lambda a, b: signed(a, 64) * signed(b, 64) >> 64,
    lambda a, b: a * b,
    _wide_sum,
    lambda a, b: a << (b & 63) | a >> (-b & 63),
    lambda a, b: signed(a, 64) >> (b & 63),
    lambda a, b: abs(a - b),
    lambda a, b: a.bit_count() * 1000000 + (64 - a.bit_length()) * 10000 + _first(a) * 100 + (_reverse(b, 64) & 63),
)
