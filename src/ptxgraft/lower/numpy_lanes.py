"""``Lanes`` over NumPy arrays: the reference instance, one array per value over all lanes of the chosen warps.

Invariant: a value of width 1, 8, 16, 32, 64 or 128 has the dtype that ``DTYPES`` gives and a shape that broadcasts to (warps, 32);
no operation changes an argument in place, traps or warns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError
from ptxgraft.lower import numpy_float

if TYPE_CHECKING:
    from ptxgraft.isa.numerics import MmaPlan

Array = NDArray[Any]

DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(bool),
    8: np.dtype("u1"),
    16: np.dtype("<u2"),
    32: np.dtype("<u4"),
    64: np.dtype("<u8"),
    128: np.dtype([("lo", "<u8"), ("hi", "<u8")]),
}
"""The dtype of a value of each width. 128-bit values are records of two halves: they are moved, loaded and taken apart, not computed with."""

_WIDTHS = {dtype: width for width, dtype in DTYPES.items()}
_COMPARE = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
_REVERSED_BYTE = np.array([int(f"{i:08b}"[::-1], 2) for i in range(256)], dtype=np.uint8)


class Machine(Protocol):
    """What ``NumpyLanes`` needs of the interpreter around it."""

    active: NDArray[np.bool_]
    """(warps, 32): the lanes that execute."""

    def special(self, name: str) -> Array: ...
    def load(self, space: str, address: Array, width: int, count: int) -> tuple[Array, ...]: ...
    def store(self, space: str, address: Array, values: Sequence[Array]) -> None: ...
    def atomic(self, space: str, address: Array, width: int, update: Callable[[Array], Array]) -> Array: ...
    def repeat(self, count: Array, body: Callable[[Array], None]) -> None: ...
    def to_generic(self, space: str, address: Array) -> Array: ...
    def from_generic(self, space: str, address: Array) -> Array: ...
    def is_space(self, space: str, address: Array) -> Array: ...
    def resource(self, kind: str, handle: Array) -> dict[str, Array]: ...
    def fault(self, p: Array, reason: str, value: Array | None) -> None: ...


@lru_cache(maxsize=4096)
def _const(bits: int, width: int) -> Array:
    bits &= (1 << width) - 1
    value = np.empty((1, 1), dtype=DTYPES[width])
    if width == 128:
        value["lo"], value["hi"] = bits & ((1 << 64) - 1), bits >> 64
    else:
        value[...] = bits
    value.flags.writeable = False
    return value


def _signed(a: Array) -> Array:
    return a.view(f"i{a.dtype.itemsize}")


class NumpyLanes:
    """``profile``: the numerics profile whose bits are wanted. ``machine``: memory, special registers and the active mask; without one, only
    operations on values work, and every lane is active."""

    def __init__(self, profile: str = "sm_90", machine: Machine | None = None) -> None:
        self.profile = profile
        self._machine = machine

    @property
    def machine(self) -> Machine:
        if self._machine is None:
            raise UsageError("these lanes have no memory, no special registers and no mask", hint="give NumpyLanes a machine")
        return self._machine

    # -- constants and shape ------------------------------------------------------------------------------------------
    def const(self, bits: int, width: int) -> Array:
        return _const(bits, width)

    def width(self, a: Array) -> int:
        return _WIDTHS[a.dtype]

    def resize(self, a: Array, width: int, signed: bool = False) -> Array:
        have = _WIDTHS[a.dtype]
        if have == width:
            return a
        if width == 1:
            return self.extract(a, 0, 1)
        if have == 1:
            a, have = (np.where(a, np.uint8(0xFF if signed else 1), np.uint8(0)), 8)
        if width == 128:
            low = self.resize(a, 64, signed)
            return _pair(low, _signed(low) >> 63 if signed else np.zeros((1, 1), np.uint64))
        if have == 128:
            return a["lo"].astype(DTYPES[width])
        if signed and width > have:
            return _signed(a).astype(f"i{width // 8}").view(DTYPES[width])
        return a.astype(DTYPES[width])

    def extract(self, a: Array, offset: int, width: int) -> Array:
        if a.dtype == DTYPES[128]:
            if width == 128:
                return a
            a, offset = a["hi" if offset >= 64 else "lo"], offset % 64
        if width == 1:
            return ((a >> a.dtype.type(offset)) & a.dtype.type(1)) != 0
        return (a >> a.dtype.type(offset) if offset else a).astype(DTYPES[width])

    def concat(self, parts: Sequence[Array]) -> Array:
        width = _WIDTHS[parts[0].dtype]
        total = width * len(parts)
        if total == width:
            return parts[0]
        if total == 128:
            half = len(parts) // 2
            return _pair(self.concat(parts[:half]), self.concat(parts[half:]))
        dtype = DTYPES[total]
        result = parts[0].astype(dtype)
        for i, part in enumerate(parts[1:], 1):
            result = result | (part.astype(dtype) << dtype.type(i * width))
        return result

    def select(self, p: Array, a: Array, b: Array) -> Array:
        return np.where(p, a, b)

    def lookup(self, table: tuple[int, ...], index: Array, width: int) -> Array:
        return _table(table, width)[index.astype(np.intp)]

    # -- integers -----------------------------------------------------------------------------------------------------
    def add(self, a: Array, b: Array) -> Array:
        return a + b

    def sub(self, a: Array, b: Array) -> Array:
        return a - b

    def mul(self, a: Array, b: Array) -> Array:
        return a * b

    def mul_high(self, a: Array, b: Array, signed: bool) -> Array:
        width = _WIDTHS[a.dtype]
        if width < 64:
            wide = 2 * width
            return self.extract(self.resize(a, wide, signed) * self.resize(b, wide, signed), width, width)
        high = _unsigned_high(a, b)
        if signed:
            high = high - np.where(_signed(a) < 0, b, np.uint64(0)) - np.where(_signed(b) < 0, a, np.uint64(0))
        return high

    def divide(self, a: Array, b: Array, signed: bool) -> Array:
        one = a.dtype.type(1)
        if not signed:
            return np.where(b == 0, ~a.dtype.type(0), a // np.where(b == 0, one, b))
        q = _magnitude(a) // np.where(b == 0, one, _magnitude(b))
        q = np.where((_signed(a) < 0) != (_signed(b) < 0), -q, q)
        return np.where(b == 0, ~a.dtype.type(0), q)

    def remainder(self, a: Array, b: Array, signed: bool) -> Array:
        one = a.dtype.type(1)
        if not signed:
            return np.where(b == 0, ~a.dtype.type(0), a % np.where(b == 0, one, b))
        r = _magnitude(a) % np.where(b == 0, one, _magnitude(b))
        return np.where(b == 0, ~a.dtype.type(0), np.where(_signed(a) < 0, -r, r))

    def and_(self, a: Array, b: Array) -> Array:
        return a & b

    def or_(self, a: Array, b: Array) -> Array:
        return a | b

    def xor(self, a: Array, b: Array) -> Array:
        return a ^ b

    def not_(self, a: Array) -> Array:
        return ~a

    def shift_left(self, a: Array, amount: Array) -> Array:
        width = _WIDTHS[a.dtype]
        inside = amount < width
        return np.where(inside, a << np.where(inside, amount, 0).astype(a.dtype), a.dtype.type(0))

    def shift_right(self, a: Array, amount: Array, signed: bool = False) -> Array:
        width = _WIDTHS[a.dtype]
        if signed:
            # Copies of the sign bit are what a shift by width - 1 leaves.
            by = np.minimum(amount, amount.dtype.type(width - 1)).astype(_signed(a).dtype)
            return (_signed(a) >> by).view(a.dtype)
        inside = amount < width
        return np.where(inside, a >> np.where(inside, amount, 0).astype(a.dtype), a.dtype.type(0))

    def compare(self, op: str, a: Array, b: Array, signed: bool = False) -> Array:
        return _COMPARE[op](_signed(a), _signed(b)) if signed else _COMPARE[op](a, b)

    def count_ones(self, a: Array) -> Array:
        return np.bitwise_count(a).astype(a.dtype)

    def leading_zeros(self, a: Array) -> Array:
        width = _WIDTHS[a.dtype]
        if width == 64:
            high, low = self.extract(a, 32, 32), self.extract(a, 0, 32)
            return np.where(high != 0, self.leading_zeros(high), 32 + self.leading_zeros(low)).astype(a.dtype)
        # frexp of an integer below 2**53 gives its bit length.
        return (width - np.frexp(a.astype(np.float64))[1]).astype(a.dtype)

    def reverse_bits(self, a: Array) -> Array:
        swapped = np.ascontiguousarray(a.byteswap())
        return _REVERSED_BYTE[swapped.view(np.uint8)].view(a.dtype)

    # -- floats -------------------------------------------------------------------------------------------------------
    def float_add(self, fmt: str, a: Array, b: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.add(fmt, a, b, rounding, ftz)

    def float_sub(self, fmt: str, a: Array, b: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.sub(fmt, a, b, rounding, ftz)

    def float_mul(self, fmt: str, a: Array, b: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.mul(fmt, a, b, rounding, ftz)

    def float_fma(self, fmt: str, a: Array, b: Array, c: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.fma(fmt, a, b, c, rounding, ftz)

    def float_div(self, fmt: str, a: Array, b: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.div(fmt, a, b, rounding, ftz)

    def float_sqrt(self, fmt: str, a: Array, rounding: str = "rn", ftz: bool = False) -> Array:
        return numpy_float.sqrt(fmt, a, rounding, ftz)

    def float_compare(self, fmt: str, op: str, a: Array, b: Array, ftz: bool = False) -> Array:
        return numpy_float.compare(fmt, op, a, b, ftz)

    def float_convert(self, source: str, target: str, a: Array, rounding: str = "rn") -> Array:
        return numpy_float.convert(source, target, a, rounding)

    def float_round(self, fmt: str, a: Array, mode: str) -> Array:
        return numpy_float.round_integral(fmt, a, mode)

    def float_to_int(self, fmt: str, a: Array, width: int, signed: bool, mode: str) -> Array:
        return numpy_float.to_int(fmt, a, width, signed, mode)

    def int_to_float(self, a: Array, signed: bool, fmt: str, rounding: str = "rn") -> Array:
        return numpy_float.from_int(a, signed, fmt, rounding)

    # -- the warp -----------------------------------------------------------------------------------------------------
    def special(self, name: str) -> Array:
        return self.machine.special(name)

    def read_lane(self, a: Array, lane: Array) -> Array:
        a, lane = self._spread(a), self._spread(lane)
        return np.take_along_axis(a, (lane & lane.dtype.type(31)).astype(np.intp), axis=1)

    def ballot(self, p: Array) -> Array:
        p = self._spread(p)
        if self._machine is not None:
            p = p & self._machine.active
        bits = np.left_shift(p.astype(np.uint32), np.arange(32, dtype=np.uint32))
        return np.bitwise_or.reduce(bits, axis=1, keepdims=True)

    def _spread(self, a: Array) -> Array:
        """``a`` with every lane of every warp in it."""
        warps = self._machine.active.shape[0] if self._machine is not None else 1
        return np.broadcast_to(a, np.broadcast_shapes(a.shape, (warps, 32)))

    # -- memory, resources, tensor cores ------------------------------------------------------------------------------
    def load(self, space: str, address: Array, width: int, count: int = 1) -> tuple[Array, ...]:
        return self.machine.load(space, address, width, count)

    def store(self, space: str, address: Array, values: Sequence[Array]) -> None:
        self.machine.store(space, address, values)

    def atomic(self, space: str, address: Array, width: int, update: Callable[[Array], Array]) -> Array:
        return self.machine.atomic(space, address, width, update)

    def repeat(self, count: Array, body: Callable[[Array], None]) -> None:
        self.machine.repeat(count, body)

    def to_generic(self, space: str, address: Array) -> Array:
        return self.machine.to_generic(space, address)

    def from_generic(self, space: str, address: Array) -> Array:
        return self.machine.from_generic(space, address)

    def is_space(self, space: str, address: Array) -> Array:
        return self.machine.is_space(space, address)

    def resource(self, kind: str, handle: Array) -> dict[str, Array]:
        return self.machine.resource(kind, handle)

    def fault(self, p: Array, reason: str, value: Array | None = None) -> None:
        self.machine.fault(p, reason, value)

    def mma(
        self,
        plan: MmaPlan,
        a: Sequence[Array],
        b: Sequence[Array],
        c: Sequence[Array],
        metadata: Array | None = None,
        scales: Sequence[Array] = (),
    ) -> tuple[Array, ...]:
        # Imported when first used: most kernels' checks need no tensor core.
        from ptxgraft.lower.numpy_mma import mma

        left, right, addend = ([self._spread(r) for r in registers] for registers in (a, b, c))
        return mma(plan, left, right, addend, None if metadata is None else self._spread(metadata), [self._spread(s) for s in scales])


def _pair(low: Array, high: Array) -> Array:
    result = np.empty(np.broadcast_shapes(low.shape, high.shape), dtype=DTYPES[128])
    result["lo"], result["hi"] = low, high
    return result


@lru_cache(maxsize=256)
def _table(table: tuple[int, ...], width: int) -> Array:
    mask = (1 << width) - 1
    return np.array([entry & mask for entry in table], dtype=DTYPES[width])


def _magnitude(a: Array) -> Array:
    return np.where(_signed(a) < 0, -a, a)


def _unsigned_high(a: Array, b: Array) -> Array:
    """The upper 64 bits of 64 x 64-bit products, by 32-bit halves."""
    low, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & low, a >> half, b & low, b >> half
    middle = (a0 * b0 >> half) + (a1 * b0 & low) + (a0 * b1 & low)
    return a1 * b1 + (a1 * b0 >> half) + (a0 * b1 >> half) + (middle >> half)
