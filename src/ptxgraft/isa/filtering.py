"""How a texture unit filters: texel positions, weights, and the weighted sum, bit for bit.

Invariant: everything here is integer arithmetic until one last exact scaling, so that every instance gives the same bits.
Source: measured on one NVIDIA H200 (driver 580.159) and modelled from that. Per output, lines and planes, f32, f16, 8- and 16-bit unorm and snorm
texels: no mismatch in 1.6 million outputs but 2 of 80,000 for 16-bit snorm. Three dimensions: 1 mismatch of one unit in 12,000 for f32 texels of one
magnitude, 1 in 770 for texels whose magnitudes are spread over 2**40; none for 8- and 16-bit integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxgraft.isa.lanes import Lanes, Value

POINT, FLOAT, HALF, UNORM, SNORM, SNORM8 = range(6)
"""What ``linear`` of a texture's fields says: no filtering, or what is filtered. Unorm and snorm texels are 16-bit integers held as f32, 8-bit snorm
ones 8-bit integers."""

WRAP, CLAMP, MIRROR, BORDER = range(4)

KEPT_BITS = {POINT: 24, FLOAT: 24, HALF: 11, UNORM: 24, SNORM: 24, SNORM8: 24}
"""Significant bits of a filtered result."""

LOWEST = {POINT: -149, FLOAT: -149, HALF: -24, UNORM: 0, SNORM: 0, SNORM8: 0}
"""The exponent of the finest step of a filtered result."""

DIVISOR = {POINT: 0x3F800000, FLOAT: 0x3F800000, HALF: 0x3F800000, UNORM: 0x477FFF00, SNORM: 0x46FFFE00, SNORM8: 0x46FFFE00}
"""What the filtered number is divided by, as f32 bits: 1, 65535, 32767."""

GUARD_BITS = 4
"""Bits that an aligned texel keeps below the significant bits of the result."""

PLANE_BITS = 2
"""Bits below a plane's last place that the sum of two planes keeps."""

KEPT_MASK = {kind: 0xFFFFFFFF << (24 - bits) & 0xFFFFFFFF for kind, bits in KEPT_BITS.items()}
"""Which bits of an aligned texel count."""

FRACTION = 21
"""Fraction bits of a normalised coordinate."""

ONE, CANONICAL_NAN = 0x3F800000, 0x7FFFFFFF


@dataclass(slots=True)
class Sampling:
    """How a texture is read: what kind of texels is filtered (``kind``, POINT for none), whether coordinates are ``normalized``, and the address
    modes, x first; b32 each."""

    kind: Value
    normalized: Value
    modes: tuple[Value, ...]


def _table(lanes: Lanes, table: dict[int, int], kind: Value, width: int = 32) -> Value:
    return lanes.lookup(tuple(table[k] for k in sorted(table)), kind, width)


def position(
    lanes: Lanes,
    size: Value,
    mode: Value,
    sampling: Sampling,
    x: Value,
    offset: Value | None = None,
    always: bool = False,
) -> tuple[Value, Value]:
    """A float coordinate of one axis as (texel index, weight of the next texel in 256ths; 0 when not filtering).

    ``size`` in texels and address ``mode`` are the axis' own; ``offset``: whole texels that are added. ``always``: where a filtered fetch would begin,
    filtered or not. A normalised coordinate is cut to 21 fraction bits before it is multiplied by the size; subnormals and NaN are 0; half a 256th
    rounds up.
    """
    zero, one = lanes.const(0, 32), lanes.const(1, 32)
    x = lanes.select(lanes.float_compare("f32", "nan", x, x), zero, x)
    normalized = lanes.compare("ne", sampling.normalized, zero)
    filtered = lanes.const(1, 1) if always else lanes.compare("ne", sampling.kind, zero)
    scaled = _scaled(lanes, size, mode, x)
    nearest = lanes.float_to_int("f32", lanes.float_mul("f32", x, lanes.const(ONE, 32), ftz=True), 32, True, "rmi")
    nearest = lanes.select(normalized, _shifted(lanes, scaled, FRACTION), nearest)
    twice = lanes.float_to_int("f32", lanes.float_mul("f32", x, lanes.const(0x44000000, 32), ftz=True), 32, True, "rmi")
    steps = lanes.add(lanes.shift_right(twice, one, signed=True), lanes.and_(twice, one))
    steps = lanes.select(normalized, _steps(lanes, scaled), steps)
    return _texel(lanes, size, mode, filtered, nearest, steps, offset)


def place(lanes: Lanes, size: Value, mode: Value, filtered: Value, fixed: Value) -> tuple[Value, Value]:
    """As ``position``, of a normalised coordinate that is a fixed-point number with FRACTION fraction bits (b64) already."""
    scaled = lanes.mul(fixed, lanes.resize(size, 64))
    return _texel(lanes, size, mode, filtered, _shifted(lanes, scaled, FRACTION), _steps(lanes, scaled), None)


def _steps(lanes: Lanes, scaled: Value) -> Value:
    """A scaled coordinate in 256ths of a texel, halves rounded up."""
    return _shifted(lanes, lanes.add(scaled, lanes.const(1 << (FRACTION - 9), 64)), FRACTION - 8)


def _texel(
    lanes: Lanes, size: Value, mode: Value, filtered: Value, nearest: Value, steps: Value, offset: Value | None
) -> tuple[Value, Value]:
    """(texel index, weight of the next texel) of the nearest texel's index and the coordinate in 256ths of a texel."""
    zero, one = lanes.const(0, 32), lanes.const(1, 32)
    steps = lanes.sub(steps, lanes.const(128, 32))
    index = lanes.select(filtered, lanes.shift_right(steps, lanes.const(8, 32), signed=True), nearest)
    if offset is not None:
        index = lanes.add(index, offset)
    # At a clamped edge both texels are the same one.
    edge = lanes.or_(lanes.compare("lt", index, zero, signed=True), lanes.compare("ge", index, lanes.sub(size, one), signed=True))
    whole_texel = lanes.or_(lanes.not_(filtered), lanes.and_(edge, lanes.compare("eq", mode, lanes.const(CLAMP, 32))))
    return index, lanes.select(whole_texel, zero, lanes.and_(steps, lanes.const(255, 32)))


def _scaled(lanes: Lanes, size: Value, mode: Value, x: Value) -> Value:
    """A normalised coordinate times the size, b64 with FRACTION fraction bits. Where indices go round, the coordinate is reduced modulo 2 first."""
    wide = lanes.float_to_int("f32", lanes.float_mul("f32", x, lanes.const((127 + FRACTION) << 23, 32), ftz=True), 64, True, "rmi")
    cyclic = lanes.or_(lanes.compare("eq", mode, lanes.const(WRAP, 32)), lanes.compare("eq", mode, lanes.const(MIRROR, 32)))
    endless = lanes.compare("eq", wide, lanes.const((1 << 63) - 1, 64))
    reduced = lanes.select(endless, lanes.const(0, 64), lanes.and_(wide, lanes.const((2 << FRACTION) - 1, 64)))
    low, high = lanes.const(-1 << (FRACTION + 8), 64), lanes.const(1 << (FRACTION + 8), 64)
    bounded = lanes.select(lanes.compare("lt", wide, low, signed=True), low, wide)
    bounded = lanes.select(lanes.compare("gt", bounded, high, signed=True), high, bounded)
    return lanes.mul(lanes.select(cyclic, reduced, bounded), lanes.resize(size, 64))


def _shifted(lanes: Lanes, a: Value, amount: int) -> Value:
    return lanes.resize(lanes.shift_right(a, lanes.const(amount, 32), signed=True), 32)


def _share(lanes: Lanes, a: Value, b: Value, half: int = 128) -> Value:
    """a * b / 256, half rounded up (``half`` 127: down)."""
    return lanes.shift_right(lanes.add(lanes.mul(a, b), lanes.const(half, 32)), lanes.const(8, 32))


def weights(lanes: Lanes, axes: Sequence[Value]) -> list[Value]:
    """The weights of all corners in 256ths, x fastest, from the axes' weights. They sum to 256; rounded shares are made up for by the others."""
    whole = lanes.const(256, 32)
    x = axes[0]
    if len(axes) == 1:
        return [lanes.sub(whole, x), x]
    if len(axes) == 2:
        return _four(lanes, x, axes[1])
    return level_weights(lanes, axes[:2], axes[:2], axes[2])


def level_weights(lanes: Lanes, near_axes: Sequence[Value], far_axes: Sequence[Value], z: Value) -> list[Value]:
    """The weights of two planes' corners in 256ths, the near plane's first; ``z`` is the far plane's share."""
    whole = lanes.const(256, 32)
    found = []
    for (x, y), share in ((near_axes, lanes.sub(whole, z)), (far_axes, z)):
        near, far = [], []
        for a, half in ((lanes.sub(whole, x), 127), (x, 128)):
            column = _share(lanes, a, share, half)
            upper = _share(lanes, column, y, half)
            near.append(lanes.sub(column, upper))
            far.append(upper)
        found += [*near, *far]
    return found


def _four(lanes: Lanes, x: Value, y: Value) -> list[Value]:
    both = _share(lanes, x, y)
    rest = lanes.sub(lanes.sub(lanes.const(256, 32), x), lanes.sub(y, both))
    return [rest, lanes.sub(x, both), lanes.sub(y, both), both]


def weighted_sum(lanes: Lanes, kind: Value, texels: Sequence[Value], shares: Sequence[Value]) -> Value:
    """One channel of a filtered texture, f32 bits: the sum of ``texels`` (f32 bits) by ``shares`` (256ths).

    Texels of a plane are aligned to its largest, cut off GUARD_BITS below the places that count and summed exactly; two planes' sums are added exactly
    (down to PLANE_BITS more); the total is rounded once, halves away from zero. Subnormals count as zeros of their sign; a texel of weight 0 does not
    take part, whatever it is.
    """
    zero32, zero64 = lanes.const(0, 32), lanes.const(0, 64)
    marks = _Marks(lanes)
    planes = [_plane(lanes, kind, texels[i : i + 4], shares[i : i + 4], marks) for i in range(0, len(texels), 4)]
    total, largest = planes[0]
    spare = 0
    if len(planes) == 2:
        other, reach = planes[1]
        spare = PLANE_BITS
        top = lanes.select(lanes.compare("gt", reach, largest), reach, largest)
        total = lanes.add(_lowered(lanes, total, lanes.sub(top, largest)), _lowered(lanes, other, lanes.sub(top, reach)))
        largest = top
    below = lanes.compare("lt", total, zero64, signed=True)
    negative = lanes.or_(below, lanes.and_(lanes.compare("eq", total, zero64), marks.all_negative))
    magnitude = lanes.select(below, lanes.sub(zero64, total), total)
    rounded, exponent = _rounded(lanes, kind, magnitude, below, lanes.sub(largest, lanes.const(spare, 32)))
    integers = lanes.compare("ge", kind, lanes.const(UNORM, 32))
    negative = lanes.and_(negative, lanes.not_(lanes.and_(integers, lanes.compare("eq", rounded, zero32))))
    # The number is rounded * 2**exponent and representable, so two multiplications by powers of two are exact.
    half = lanes.shift_right(exponent, lanes.const(1, 32), signed=True)
    value = lanes.int_to_float(rounded, False, "f32")
    for power in (half, lanes.sub(exponent, half)):
        scale = lanes.shift_left(lanes.add(power, lanes.const(127, 32)), lanes.const(23, 32))
        value = lanes.float_mul("f32", value, scale)
    value = lanes.float_div("f32", value, _table(lanes, DIVISOR, kind), ftz=True)
    value = lanes.or_(value, lanes.select(negative, lanes.const(0x80000000, 32), zero32))
    value = lanes.select(marks.plus, lanes.const(0x7F800000, 32), value)
    value = lanes.select(marks.minus, lanes.const(0xFF800000, 32), value)
    value = lanes.select(lanes.or_(marks.nan, lanes.and_(marks.plus, marks.minus)), lanes.const(CANONICAL_NAN, 32), value)
    value = lanes.select(lanes.compare("eq", kind, lanes.const(SNORM8, 32)), _small_sum(lanes, texels, shares), value)
    return lanes.select(lanes.compare("eq", kind, zero32), texels[0], value)


def _small_sum(lanes: Lanes, texels: Sequence[Value], shares: Sequence[Value]) -> Value:
    """The sum of 8-bit signed texels, f32 bits: it is widened to 15 bits as a whole, by 1 + 2**-7 + 2**-15 with each term cut to eighths, and rounded,
    halves up."""
    four, lowest = lanes.const(4, 32), lanes.const(-32767, 32)
    total = lanes.const(0, 32)
    for texel, share in zip(texels, shares, strict=True):
        total = lanes.add(total, lanes.mul(lanes.float_to_int("f32", texel, 32, True, "rzi"), share))
    eighths = lanes.add(lanes.shift_left(total, lanes.const(3, 32)), four)
    for places in (4, 12):
        eighths = lanes.add(eighths, lanes.shift_right(total, lanes.const(places, 32), signed=True))
    wide = lanes.shift_right(eighths, lanes.const(3, 32), signed=True)
    wide = lanes.select(lanes.compare("lt", wide, lowest, signed=True), lowest, wide)
    return lanes.float_div("f32", lanes.int_to_float(wide, True, "f32"), lanes.const(DIVISOR[SNORM], 32))


class _Marks:
    """What is known of the texels that take part: predicates that grow as they are read."""

    def __init__(self, lanes: Lanes) -> None:
        self.all_negative = lanes.const(1, 1)
        self.nan = self.plus = self.minus = lanes.const(0, 1)


def _plane(lanes: Lanes, kind: Value, texels: Sequence[Value], shares: Sequence[Value], marks: _Marks) -> tuple[Value, Value]:
    """The sum of up to four weighted texels, b64, and the largest biased exponent: its last place counts 2**(largest - 162)."""
    zero32, zero64 = lanes.const(0, 32), lanes.const(0, 64)
    largest, total = zero32, zero64
    parts = []
    for texel, share in zip(texels, shares, strict=True):
        used = lanes.compare("ne", share, zero32)
        exponent = lanes.and_(lanes.shift_right(texel, lanes.const(23, 32)), lanes.const(255, 32))
        exponent = lanes.select(used, exponent, zero32)
        negative = lanes.extract(texel, 31, 1)
        mantissa = lanes.and_(texel, lanes.const(0x7FFFFF, 32))
        special = lanes.compare("eq", exponent, lanes.const(255, 32))
        infinite = lanes.and_(special, lanes.compare("eq", mantissa, zero32))
        marks.nan = lanes.or_(marks.nan, lanes.and_(special, lanes.compare("ne", mantissa, zero32)))
        marks.plus = lanes.or_(marks.plus, lanes.and_(infinite, lanes.not_(negative)))
        marks.minus = lanes.or_(marks.minus, lanes.and_(infinite, negative))
        marks.all_negative = lanes.and_(marks.all_negative, lanes.or_(negative, lanes.not_(used)))
        largest = lanes.select(lanes.compare("gt", exponent, largest), exponent, largest)
        normal = lanes.compare("ne", exponent, zero32)
        parts.append((exponent, negative, lanes.select(normal, lanes.or_(mantissa, lanes.const(0x800000, 32)), zero32), share))
    mask = _table(lanes, KEPT_MASK, kind)
    for exponent, negative, significand, share in parts:
        kept = lanes.shift_right(lanes.shift_left(significand, lanes.const(GUARD_BITS, 32)), lanes.sub(largest, exponent))
        product = lanes.mul(lanes.resize(lanes.and_(kept, mask), 64), lanes.resize(share, 64))
        total = lanes.add(total, lanes.select(negative, lanes.sub(zero64, product), product))
    return total, largest


def _lowered(lanes: Lanes, total: Value, by: Value) -> Value:
    """A plane's sum with PLANE_BITS more places, ``by`` binary places down."""
    return lanes.shift_right(lanes.shift_left(total, lanes.const(PLANE_BITS, 32)), by, signed=True)


def _rounded(lanes: Lanes, kind: Value, magnitude: Value, below: Value, largest: Value) -> tuple[Value, Value]:
    """A sum's magnitude cut to the bits that are kept: (b32, exponent of its last place). Negative snorm halves go up, not away from zero."""
    zero = lanes.const(0, 32)
    bits = lanes.sub(lanes.const(64, 32), lanes.resize(lanes.leading_zeros(magnitude), 32))
    finest = lanes.sub(largest, lanes.const(127 + 23 + GUARD_BITS + 8, 32))
    shift = lanes.sub(bits, _table(lanes, KEPT_BITS, kind))
    least = lanes.sub(_table(lanes, LOWEST, kind), finest)
    shift = lanes.select(lanes.compare("lt", shift, least, signed=True), least, shift)
    shift = lanes.select(lanes.compare("lt", shift, zero, signed=True), zero, shift)
    half = lanes.shift_right(lanes.shift_left(lanes.const(1, 64), shift), lanes.const(1, 32))
    down = lanes.and_(lanes.and_(below, lanes.compare("eq", kind, lanes.const(SNORM, 32))), lanes.compare("ne", shift, zero))
    half = lanes.sub(half, lanes.resize(down, 64))
    return lanes.resize(lanes.shift_right(lanes.add(magnitude, half), shift), 32), lanes.add(finest, shift)


def shared_out(lanes: Lanes, shares: Sequence[Value], missing: Sequence[Value]) -> list[Value]:
    """Four corners' weights where one texel may be missing: its neighbours get a third each, rounded to nearest, the one opposite what is left."""
    zero, found = lanes.const(0, 32), list(shares)
    for corner, gone in enumerate(missing):
        share = lanes.select(gone, shares[corner], zero)
        third = lanes.divide(lanes.add(share, lanes.const(1, 32)), lanes.const(3, 32), False)
        rest = lanes.sub(share, lanes.add(third, third))
        for other, part in ((corner ^ 1, third), (corner ^ 2, third), (corner ^ 3, rest)):
            found[other] = lanes.add(found[other], part)
        found[corner] = lanes.select(gone, zero, found[corner])
    return found
