"""The tensor core in NumPy: fragments in, fragments out, exact for every ``MmaPlan``, for any number of warps at once.

Invariant: every intermediate value is exact in the type that holds it (float64 for aligned terms below 2^53, bit patterns for f64), so the result
depends on the plan alone, not on the order of NumPy's sums or the host.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.fragments import SCALE_LANES, FragmentLayout, Sparsity, is_quad_pair
from ptxgraft.isa.numerics import MIN_EXPONENT, MmaPlan
from ptxgraft.lower.mma_exact import accumulator, exact_sum
from ptxgraft.lower.numpy_fma import fma64

Bits = NDArray[np.unsignedinteger]
Floats = NDArray[np.float64]

_WARPS_AT_ONCE = 32
_F32_NAN, _F16_NAN = 0x7FFFFFFF, 0x7FFF


def mma(
    plan: MmaPlan, a: Sequence[Bits], b: Sequence[Bits], c: Sequence[Bits], metadata: Bits | None = None, scales: Sequence[Bits] = ()
) -> tuple[Bits, ...]:
    """D = A*B + C. Each register is a uint32 (f64: uint64) array [..., 32] over lanes, all of one shape; so are the returned registers of D.

    ``metadata``: of a sparse A, a register as selector 0 has it. ``scales``: of a plan with factors, two registers as ``isa.fragments.SCALE_LANES`` says.
    """
    batch = np.shape(a[0])[:-1]
    matrices = [unpack(layout, registers) for layout, registers in zip(layouts(plan), (a, b, c), strict=False)]
    if plan.sparse:
        assert metadata is not None, f"{plan.name} needs metadata"
        # From here on B differs from row to row: [stored element][row][column][warp] instead of [k][column][warp].
        matrices[1] = np.take_along_axis(matrices[1][:, None], stored_columns(plan, metadata)[:, :, None], axis=0)
    matrices += [_scales(plan, operand, register) for operand, register in zip("AB", scales, strict=False)]
    warps = matrices[0].shape[-1]
    with np.errstate(all="ignore"):
        # A few warps at a time: the products of all would not stay in the cache.
        parts = [_KINDS[plan.kind](plan, *(m[..., i : i + _WARPS_AT_ONCE] for m in matrices)) for i in range(0, warps, _WARPS_AT_ONCE)]
    result = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
    return tuple(register.reshape(*batch, 32) for register in pack(layouts(plan)[3], result))


@cache
def layouts(plan: MmaPlan) -> tuple[FragmentLayout, FragmentLayout, FragmentLayout, FragmentLayout]:
    """The layouts of A, B, C and D."""
    of = FragmentLayout.of
    return (
        of(plan.shape, plan.a, "A", plan.layouts[0], plan.sparse),
        of(plan.shape, plan.b, "B", plan.layouts[1], plan.sparse),
        of(plan.shape, plan.c, "C", sparse=plan.sparse),
        of(plan.shape, plan.d, "D", sparse=plan.sparse),
    )


def stored_columns(plan: MmaPlan, metadata: Bits) -> NDArray[np.int64]:
    """[stored element][row][warp]: the column of A at which a sparse A's elements belong. ``metadata`` is [..., 32]."""
    found = Sparsity.of(plan.shape, plan.a)
    words = np.ascontiguousarray(metadata, dtype=np.uint32).reshape(-1, 32)
    nibbles = (words[:, found.lanes] >> found.shifts.astype(np.uint32)) & np.uint32(15)  # [warp][row][group]
    within = found.tables[nibbles]  # [warp][row][group][element]
    start = found.group * np.arange(nibbles.shape[2])[:, None]
    return (start + within).reshape(*nibbles.shape[:2], -1).transpose(2, 1, 0)


@cache
def _places(layout: FragmentLayout) -> NDArray[np.int64]:
    return layout.places


def unpack(layout: FragmentLayout, registers: Sequence[Bits]) -> Bits:
    """Fragment registers to a matrix of element bits [row][column][warp]; elements of 4 and 1 bits come as uint8."""
    assert len(registers) == layout.registers, (
        f"operand {layout.operand} of {layout.shape} has {layout.registers} registers, not {len(registers)}"
    )
    word = np.uint64 if layout.register_bits == 64 else np.uint32
    words = np.stack([np.ascontiguousarray(r, dtype=word).reshape(-1, 32) for r in registers])
    bits = layout.element_bits
    if bits >= 8:
        narrow = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}[bits]
        elements = words.view(narrow).reshape(layout.registers, -1, 32, layout.per_register).transpose(0, 3, 2, 1)
    else:
        shifts = np.arange(layout.per_register, dtype=np.uint32)[:, None, None] * np.uint32(bits)
        elements = ((words.transpose(0, 2, 1)[:, None] >> shifts) & np.uint32((1 << bits) - 1)).astype(np.uint8)
    flat = np.ascontiguousarray(elements).reshape(layout.registers * layout.per_register * 32, -1)
    return flat[_places(layout)]


def pack(layout: FragmentLayout, matrix: Bits) -> list[Bits]:
    """A matrix of element bits [row][column][warp] to fragment registers [warp][lane]. Elements are 8 bits and more."""
    elements = np.ascontiguousarray(matrix[layout.rows, layout.columns].transpose(0, 3, 2, 1))  # [register][warp][lane][element]
    words = elements.view(np.uint64 if layout.register_bits == 64 else np.uint32)[..., 0]
    return list(words)


# -- float formats ----------------------------------------------------------------------------------------------------
_SMALL = {"e4m3": (4, 3), "e3m2": (3, 2), "e2m3": (2, 3), "e2m1": (2, 1)}
"""Exponent and fraction bits of the formats without infinities."""


@cache
def _values(format: str, packed: bool = False) -> Floats:
    """The value of every bit pattern of a 4- (``packed``), 8- or 16-bit element."""
    if format == "bf16":
        return (np.arange(1 << 16, dtype=np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    half = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    if format == "f16":
        return half
    byte = np.arange(256)
    if format == "e5m2":
        return half[byte << 8]
    exponent_bits, fraction_bits = _SMALL[format]
    if format == "e2m1":
        byte = np.arange(16) if packed else byte >> 2  # in a byte of its own it lies in the middle
    sign, size = byte >> (exponent_bits + fraction_bits) & 1, byte & ((1 << (exponent_bits + fraction_bits)) - 1)
    exponent, fraction = size >> fraction_bits, size & ((1 << fraction_bits) - 1)
    significand = np.where(exponent > 0, fraction + (1 << fraction_bits), fraction).astype(np.float64)
    value = np.ldexp(significand, np.maximum(exponent, 1) + 1 - (1 << (exponent_bits - 1)) - fraction_bits)
    if format == "e4m3":
        value = np.where(size == 0x7F, np.nan, value)
    return np.where(sign, -value, value)


def _decode(format: str, bits: Bits, packed: bool = False) -> Floats:
    if format in ("f32", "tf32"):
        if format == "tf32":
            bits = bits & np.uint32(0xFFFFE000)
        return bits.view(np.float32).astype(np.float64)
    return _values(format, packed)[bits]


def _power(value: Floats, floor: int) -> Floats:
    """2^e of each finite value, e at least ``floor``; 0 for zero."""
    power = (value.view(np.uint64) & np.uint64(0x7FF0000000000000)).view(np.float64)
    return np.where(value == 0, 0.0, np.maximum(power, 2.0**floor))


def _truncate(value: Floats, fraction_bits: int) -> Floats:
    """Toward zero to ``fraction_bits`` with f32's exponent range, its subnormals kept; 2^128 and above is an infinity."""
    kept = (value.view(np.uint64) & ~np.uint64((1 << (52 - fraction_bits)) - 1)).view(np.float64)
    scale = 2.0 ** (126 + fraction_bits)
    kept = np.where(np.abs(value) < 2.0**-126, np.trunc(value * scale) / scale, kept)
    return np.where(np.abs(value) >= 2.0**128, np.copysign(np.inf, value), kept) + 0.0


_ROUNDINGS = {
    "f32.rz": lambda value: _truncate(value, 23),
    "e8m13.rz": lambda value: _truncate(value, 13),
    "f16.rn": lambda value: value.astype(np.float16).astype(np.float64) + 0.0,  # + 0.0: the sum is never -0
}


def _encode(format: str, value: NDArray[np.floating]) -> Bits:
    """Values that round to nearest into ``format``; NaN becomes the canonical one."""
    if format == "f16":
        return np.where(np.isnan(value), np.uint16(_F16_NAN), value.astype(np.float16).view(np.uint16))
    return np.where(np.isnan(value), np.uint32(_F32_NAN), value.astype(np.float32).view(np.uint32))


def _scales(plan: MmaPlan, operand: str, register: Bits) -> Floats:
    """The factors [chunk][row of A, or column of B][warp] in a register [..., 32]."""
    words = np.ascontiguousarray(register, dtype=np.uint32).reshape(-1, 32)[:, SCALE_LANES[operand]]
    count = plan.depth // plan.block
    codes = ((words >> (8 * np.arange(count, dtype=np.uint32))[:, None, None]) & np.uint32(0xFF)).transpose(0, 2, 1)
    if plan.scale == "ue8m0":
        return np.where(codes == 0xFF, np.nan, np.ldexp(1.0, codes.astype(np.int64) - 127))
    return _values("e4m3")[codes & np.uint32(0x7F)]


# -- kinds ------------------------------------------------------------------------------------------------------------
def _fused_sum(products: Floats, powers: Floats, addend: Floats, fraction_bits: int, floor: int) -> Floats:
    """T before its rounding; ``products`` and their ``powers`` are [k][m][n][warp]. The specials come out as NaN or an infinity."""
    special = None
    if not (np.isfinite(products).all() and np.isfinite(addend).all()):
        finite, finite_addend = np.isfinite(products), np.isfinite(addend)
        # IEEE addition has the very rule: a NaN stays, and infinities of both signs make one.
        special = np.where(finite, 0.0, products).sum(axis=0) + np.where(finite_addend, 0.0, addend)
        products, addend = np.where(finite, products, 0.0), np.where(finite_addend, addend, 0.0)
    largest = np.maximum(powers.max(axis=0), _power(addend, floor))
    scale = 2.0**fraction_bits / np.where(largest == 0, 1.0, largest)
    total = np.trunc(products * scale).sum(axis=0) + np.trunc(addend * scale)
    value = total / scale
    return value if special is None else np.where(special == 0, value, special)


def _indices(ks: tuple[int, ...]) -> slice | list[int]:
    return slice(ks[0], ks[-1] + 1) if ks[-1] - ks[0] + 1 == len(ks) else list(ks)


def _operands(plan: MmaPlan, a: Bits, b: Bits, c: Bits) -> tuple[Floats, Floats, Floats]:
    """The operands' values: A [k][m][1][batch], B [k][1][n][batch] (sparse: [k][m][n][batch]), C [m][n][batch]. The four quad pairs of m8n8k4 are part of
    the batch."""
    packed = layouts(plan)[0].element_bits == 4
    left, right, addend = _decode(plan.a, a, packed).transpose(1, 0, 2), _decode(plan.b, b, packed), _decode(plan.c, c)
    if is_quad_pair(plan.shape, plan.a):
        left, right = (x.reshape(4, 4, 8, -1).transpose(0, 2, 1, 3).reshape(4, 8, -1) for x in (left, right))
        addend = addend.reshape(4, 8, 8, -1).transpose(1, 2, 0, 3).reshape(8, 8, -1)
    return np.ascontiguousarray(left)[:, :, None], right if plan.sparse else right[:, None], addend


def _result(plan: MmaPlan, value: NDArray[np.floating]) -> Bits:
    """The bits of D [row][column][warp], quad pairs stacked again."""
    bits = _encode(plan.d, value)
    return bits.reshape(8, 8, 4, -1).transpose(2, 0, 1, 3).reshape(32, 8, -1) if is_quad_pair(plan.shape, plan.a) else bits


def _spread(plan: MmaPlan, scales: Sequence[Floats]) -> tuple[Floats, Floats]:
    """Factors [chunk][row or column][batch] for every element: A's [k][m][1][batch], B's [k][1][n][batch]; ones where a plan has none."""
    if not plan.scale:
        one = np.ones((1, 1, 1, 1))
        return one, one
    left, right = (np.repeat(s, plan.block, axis=0) for s in scales)
    return left[:, :, None], right[:, None]


def _float(plan: MmaPlan, a: Bits, b: Bits, c: Bits, *scales: Floats) -> Bits:
    left, right, addend = _operands(plan, a, b, c)
    left_power, right_power = _power(left, plan.exponent_floor[0]), _power(right, plan.exponent_floor[1])
    if plan.scale:
        by_row, by_column = _spread(plan, scales)
        left, left_power, right, right_power = left * by_row, left_power * by_row, right * by_column, right_power * by_column
    running = addend if plan.c_inside else np.zeros_like(addend)
    for step in plan.steps:
        ks = _indices(step.ks)
        products, powers = left[ks] * right[ks], left_power[ks] * right_power[ks]
        running = _fused_sum(products, powers, running, step.fraction_bits, MIN_EXPONENT[plan.d])
        running = _ROUNDINGS[plan.rounding](running)
    if plan.c_inside:
        return _result(plan, running)
    if plan.d == "f16":
        return _result(plan, running + addend)  # exact in float64, rounded once
    return _result(plan, running.astype(np.float32) + addend.astype(np.float32))


def _blocks(plan: MmaPlan, a: Bits, b: Bits, c: Bits, *scales: Floats) -> Bits:
    left, right, addend = _operands(plan, a, b, c)
    by_row, by_column = _spread(plan, scales)
    lowest = MIN_EXPONENT["e4m3"] if plan.scale == "ue4m3" else -127
    sums, powers = [], []
    for step in plan.steps:
        ks, first = _indices(step.ks), step.ks[0]
        sums.append((left[ks] * right[ks]).sum(axis=0) * by_row[first] * by_column[first])
        power = _power(by_row[first], lowest) * _power(by_column[first], lowest)
        powers.append(np.where(sums[-1] == 0, 0.0, power))
    value = _fused_sum(np.stack(sums), np.stack(powers), addend, plan.steps[0].fraction_bits, MIN_EXPONENT[plan.d])
    return _result(plan, _ROUNDINGS[plan.rounding](value))


def _exact(plan: MmaPlan, a: Bits, b: Bits, c: Bits, *scales: Floats) -> Bits:
    left, right, addend = _operands(plan, a, b, c)
    by_row, by_column = _spread(plan, scales)
    left, right = left * by_row, right * by_column
    products = [left[k] * right[k] for k in range(plan.depth)]
    terms = [*products, addend]
    special = np.zeros_like(addend)
    for i, term in enumerate(terms):
        finite = np.isfinite(term)
        if not finite.all():
            # IEEE addition has the very rule: a NaN stays, and infinities of both signs make one.
            special = special + np.where(finite, 0.0, term)
            terms[i] = np.where(finite, term, 0.0)
    value = exact_sum(accumulator(plan), np.broadcast_arrays(*terms))
    return _result(plan, np.where(special == 0, value, special))


def _fma32(a: Floats, b: Floats, c: Floats) -> Floats:
    """Round-to-nearest f32 fma of f32 values held in float64: the product is exact, the sum is rounded to odd first."""
    product = a * b
    total = product + c
    virtual = total - product
    error = (product - (total - virtual)) + (c - virtual)
    bits = total.view(np.int64)
    # An inexact sum whose last bit is even moves one step toward the exact value.
    step = np.where((error > 0) == (total > 0), 1, -1)
    odd = np.where((error != 0) & np.isfinite(total) & (bits & 1 == 0), bits + step, bits)
    return odd.view(np.float64).astype(np.float32).astype(np.float64)


def _fma32_chain(plan: MmaPlan, a: Bits, b: Bits, c: Bits) -> Bits:
    left, right, addend = _operands(plan, a, b, c)
    one = np.ones_like(addend)
    if plan.kind == "fma32":
        running = np.zeros_like(addend)
        for k in range(4):
            running = _fma32(left[k], right[k], running)
        return _result(plan, _fma32(addend, one, running))
    low, high = (_fma32(left[k + 1], right[k + 1], left[k] * right[k]) for k in (0, 2))
    return _result(plan, _fma32(_fma32(addend, one, low), one, high))


def _f64(plan: MmaPlan, a: Bits, b: Bits, c: Bits) -> Bits:
    running = c
    for k in range(a.shape[1]):
        running = fma64(*np.broadcast_arrays(a[:, k, None], b[None, k], running), rounding=plan.rounding, order="bca")
    return running


def _signed(format: str, bits: Bits) -> Floats:
    value = bits.astype(np.float64)
    width = {"s8": 8, "s4": 4}.get(format)
    return value if width is None else np.where(value >= 1 << (width - 1), value - (1 << width), value)


def _products(left: Floats, right: Floats) -> NDArray[np.int64]:
    """The exact matrix product [m][n][warp] of small integers; B is [k][n][warp], or [k][m][n][warp]."""
    if right.ndim == 4:
        return np.einsum("mkw,kmnw->mnw", left, right).astype(np.int64)
    return np.matmul(left.transpose(2, 0, 1), right.transpose(2, 0, 1)).transpose(1, 2, 0).astype(np.int64)


def _int(plan: MmaPlan, a: Bits, b: Bits, c: Bits) -> Bits:
    total = _products(_signed(plan.a, a), _signed(plan.b, b)) + c.view(np.int32)
    if plan.satfinite:
        total = np.clip(total, -(1 << 31), (1 << 31) - 1)
    return (total & 0xFFFFFFFF).astype(np.uint32)


def _bit(plan: MmaPlan, a: Bits, b: Bits, c: Bits) -> Bits:
    left, right = a.astype(np.float64), b.astype(np.float64)
    ones = _products(left, right)
    if plan.bit_op == "xor":
        ones = left.sum(axis=1)[:, None].astype(np.int64) + right.sum(axis=0)[None].astype(np.int64) - 2 * ones
    return ((ones + c) & 0xFFFFFFFF).astype(np.uint32)


_KINDS = {
    "float": _float,
    "blocks": _blocks,
    "exact": _exact,
    "fma32": _fma32_chain,
    "fma32.pairs": _fma32_chain,
    "f64": _f64,
    "int": _int,
    "bit": _bit,
}
