"""The protocol that every instruction's meaning is written over.

Invariant: a meaning never knows which instance it runs on. A ``Value`` is the bits of one PTX value for every lane (an unsigned
integer of 1, 8, 16, 32, 64 or 128 bits; width 1 is a predicate); how an operation reads them is said by the operation. Inactive
lanes hold anything; an operation with an effect (memory, ballot) acts for active lanes alone.

Instances: ``lower.numpy`` (arrays over all lanes of all chosen warps), ``lower.warp`` (LLVM vectors of 32 lanes), ``flow.affine``
(symbolic, for address tracking).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ptxgraft.isa.numerics import MmaPlan

Value = Any
"""One PTX value over the lanes; its representation belongs to the instance."""


class Lanes(Protocol):
    """What one PTX value can do. Widths are in bits; ``signed`` says how bits are read."""

    profile: str
    """The numerics profile whose bits are wanted, e.g. ``sm_90``."""

    # -- constants and shape ------------------------------------------------------------------------------------------
    def const(self, bits: int, width: int) -> Value:
        """The same bits in every lane (``bits`` is reduced modulo 2**width)."""
        ...

    def width(self, a: Value) -> int:
        """The width of ``a`` in bits; 1 for a predicate."""
        ...

    def resize(self, a: Value, width: int, signed: bool = False) -> Value:
        """Truncate, or extend with zeros (``signed``: with the sign). A predicate becomes 0 or 1 (signed: 0 or -1)."""
        ...

    def extract(self, a: Value, offset: int, width: int) -> Value:
        """Bits ``offset`` .. ``offset + width - 1`` of ``a``."""
        ...

    def concat(self, parts: Sequence[Value]) -> Value:
        """The parts side by side, the first in the lowest bits."""
        ...

    def select(self, p: Value, a: Value, b: Value) -> Value:
        """``a`` where the predicate holds, else ``b``. Works on predicates too."""
        ...

    def lookup(self, table: tuple[int, ...], index: Value, width: int) -> Value:
        """``table[index]`` (entries reduced modulo 2**width); the meaning keeps ``index`` in range."""
        ...

    # -- integers, modulo 2**width ------------------------------------------------------------------------------------
    def add(self, a: Value, b: Value) -> Value: ...
    def sub(self, a: Value, b: Value) -> Value: ...
    def mul(self, a: Value, b: Value) -> Value: ...
    def mul_high(self, a: Value, b: Value, signed: bool) -> Value:
        """The upper half of the double-width product."""
        ...

    def divide(self, a: Value, b: Value, signed: bool) -> Value:
        """Quotient, truncated; never traps: a zero divisor gives all ones, the most negative value by -1 gives itself."""
        ...

    def remainder(self, a: Value, b: Value, signed: bool) -> Value:
        """Remainder with the dividend's sign; never traps: a zero divisor gives all ones, by -1 gives 0."""
        ...

    def and_(self, a: Value, b: Value) -> Value: ...
    def or_(self, a: Value, b: Value) -> Value: ...
    def xor(self, a: Value, b: Value) -> Value: ...
    def not_(self, a: Value) -> Value: ...
    def shift_left(self, a: Value, amount: Value) -> Value:
        """``amount`` is an unsigned value of any width; amounts of the width and more give 0."""
        ...

    def shift_right(self, a: Value, amount: Value, signed: bool = False) -> Value:
        """``amount`` as above; amounts of the width and more give 0, or copies of the sign bit."""
        ...

    def compare(self, op: str, a: Value, b: Value, signed: bool = False) -> Value:
        """A predicate; ``op`` is ``eq``, ``ne``, ``lt``, ``le``, ``gt`` or ``ge``."""
        ...

    def count_ones(self, a: Value) -> Value:
        """Population count, in the width of ``a``."""
        ...

    def leading_zeros(self, a: Value) -> Value:
        """Leading zero bits (the width for 0), in the width of ``a``."""
        ...

    def reverse_bits(self, a: Value) -> Value: ...

    # -- floats: fmt is f16, bf16, f32 or f64 -------------------------------------------------------------------------
    # Every NaN result is the GPU's (numerics.md part I section 4: f32 0x7FFFFFFF, f16/bf16 0x7FFF, f64 the operand rule).
    # rounding is rn, rz, rm or rp. ftz flushes subnormal inputs to signed zero and a result that is tiny after rounding.
    def float_add(self, fmt: str, a: Value, b: Value, rounding: str = "rn", ftz: bool = False) -> Value: ...
    def float_sub(self, fmt: str, a: Value, b: Value, rounding: str = "rn", ftz: bool = False) -> Value: ...
    def float_mul(self, fmt: str, a: Value, b: Value, rounding: str = "rn", ftz: bool = False) -> Value: ...
    def float_fma(self, fmt: str, a: Value, b: Value, c: Value, rounding: str = "rn", ftz: bool = False) -> Value:
        """a * b + c rounded once."""
        ...

    def float_div(self, fmt: str, a: Value, b: Value, rounding: str = "rn", ftz: bool = False) -> Value: ...
    def float_sqrt(self, fmt: str, a: Value, rounding: str = "rn", ftz: bool = False) -> Value: ...
    def float_compare(self, fmt: str, op: str, a: Value, b: Value, ftz: bool = False) -> Value:
        """An ordered comparison (false with a NaN): ``eq``, ``ne``, ``lt``, ``le``, ``gt``, ``ge``; or ``nan``: either is a NaN."""
        ...

    def float_convert(self, source: str, target: str, a: Value, rounding: str = "rn") -> Value:
        """Between float formats, subnormals kept, overflow by rounding mode; NaN rules of numerics.md part I section 4."""
        ...

    def float_round(self, fmt: str, a: Value, mode: str) -> Value:
        """To an integral value in the same format; ``mode`` is rni, rzi, rmi or rpi. Zero keeps its sign."""
        ...

    def float_to_int(self, fmt: str, a: Value, width: int, signed: bool, mode: str) -> Value:
        """Saturating; NaN gives 0, but for f64 and for 64-bit results the result's sign bit alone. ``mode`` as in ``float_round``."""
        ...

    def int_to_float(self, a: Value, signed: bool, fmt: str, rounding: str = "rn") -> Value: ...

    # -- the warp -----------------------------------------------------------------------------------------------------
    def special(self, name: str) -> Value:
        """A special register without its ``%``: ``tid.x``, ``ctaid.y``, ``laneid``, ``lanemask_lt``, ``clock64`` ... in its own width."""
        ...

    def read_lane(self, a: Value, lane: Value) -> Value:
        """``a`` of the lane whose number (0..31, b32) each lane gives; lanes of one warp only."""
        ...

    def ballot(self, p: Value) -> Value:
        """b32: bit i is set where lane i is active and its predicate holds; the same in every lane of the warp."""
        ...

    # -- memory -------------------------------------------------------------------------------------------------------
    # space is global, shared, local, param, const, generic, or host (addresses that a Resource gives).
    def load(self, space: str, address: Value, width: int, count: int = 1) -> tuple[Value, ...]:
        """``count`` neighbouring elements of ``width`` bits at a 64-bit byte address, aligned to the whole access; checked."""
        ...

    def store(self, space: str, address: Value, values: Sequence[Value]) -> None:
        """Neighbouring elements, all of one width; lanes in order, so that the highest lane wins a conflict."""
        ...

    def atomic(self, space: str, address: Value, width: int, update: Callable[[Value], Value]) -> Value:
        """One lane after another: old = memory; memory = update(old). Returns old. ``update`` may see all lanes at once, masked."""
        ...

    def repeat(self, count: Value, body: Callable[[Value], None]) -> None:
        """``body(i)`` for i = 0, 1, ... (b32), each time in those active lanes whose ``count`` (b32) is larger. It has effects and no results."""
        ...

    def to_generic(self, space: str, address: Value) -> Value: ...
    def from_generic(self, space: str, address: Value) -> Value: ...
    def is_space(self, space: str, address: Value) -> Value:
        """A predicate: does the generic address lie in ``space``?"""
        ...

    # -- textures, surfaces, tensor cores -----------------------------------------------------------------------------
    def resource(self, kind: str, handle: Value) -> dict[str, Value]:
        """The fields of the texture, surface or sampler behind a 64-bit handle, b32 each but ``base`` and ``more`` (b64, host addresses).

        ``texture``: base (of f32x4 or u32x4 texels, 16 bytes each, row-major; depth, layers and faces outermost), width, height, depth (in texels; layers
        and faces count as depth), linear (what is filtered: ``filtering.POINT`` and so on), normalized (0/1), unfiltered (how many texels further on
        they lie as fetches read them that do not filter), address_x/y/z (0 wrap, 1 clamp, 2 mirror, 3 border), more (of the header, ``images.HEADER``),
        traits (bits: ``images.CUBE``, ``images.BETWEEN``). ``surface``: base, row_bytes, height, depth, pitch, texel_bytes, more. ``sampler``: linear, unnormalized (0/1), address_x/y/z.
        An unknown handle is a fault.
        """
        ...

    def fault(self, p: Value, reason: str, value: Value | None = None) -> None:
        """Stop the launch with ``reason`` if the predicate holds in any active lane; ``{}`` in it becomes that lane's ``value``."""
        ...

    def mma(
        self,
        plan: MmaPlan,
        a: Sequence[Value],
        b: Sequence[Value],
        c: Sequence[Value],
        metadata: Value | None = None,
        scales: Sequence[Value] = (),
    ) -> tuple[Value, ...]:
        """The warp-wide product D = A*B + C by ``plan``: fragment registers in, fragment registers out. A sparse plan needs ``metadata`` (b32), in the
        lanes that sparsity selector 0 names; one with factors ``scales``: A's and B's (b32), where ``isa.fragments.SCALE_LANES`` says."""
        ...
