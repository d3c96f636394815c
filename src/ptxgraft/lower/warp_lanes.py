"""``Lanes`` over LLVM text: the instance from which the warp executor is compiled, one vector of 32 elements per value.

Invariant: bit for bit what ``NumpyLanes`` gives, on every CPU that ``jit.host`` accepts; no operation can trap or is undefined in LLVM's
sense, whatever inactive lanes hold. Uniform values (one scalar for all lanes) stay scalar as long as they meet only each other, and
constants are folded. Halves of packed values are computed together: an operation on the low half does both, and the same operation
on the high half finds its result (``_paired``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from ptxgraft.lower import warp_float
from ptxgraft.lower.ir import VECTOR, Emitter, Val, literal
from ptxgraft.lower.mma_chains import chain_product, is_chain
from ptxgraft.lower.mma_quad_pairs import is_quad_pair_sum, quad_pair_product
from ptxgraft.lower.warp_build import Build
from ptxgraft.lower.warp_fold import BINARY, COMPARE, fold, in_twos_complement
from ptxgraft.lower.warp_integer import high_product, look_up, quotient, read_lane
from ptxgraft.lower.warp_mma import has_primitive

if TYPE_CHECKING:
    from ptxgraft.isa.numerics import MmaPlan

_F = TypeVar("_F", bound=Callable[..., Val])


class Machine(Protocol):
    """What ``WarpLanes`` needs of the program compiler around it."""

    mask: Val
    """The predicate of the active lanes."""

    def special(self, name: str) -> Val: ...
    def load(self, space: str, address: Val, width: int, count: int) -> tuple[Val, ...]: ...
    def store(self, space: str, address: Val, values: Sequence[Val]) -> None: ...
    def atomic(self, space: str, address: Val, width: int, update: Callable[[Val], Val]) -> Val: ...
    def repeat(self, count: Val, body: Callable[[Val], None]) -> None: ...
    def to_generic(self, space: str, address: Val) -> Val: ...
    def from_generic(self, space: str, address: Val) -> Val: ...
    def is_space(self, space: str, address: Val) -> Val: ...
    def resource(self, kind: str, handle: Val) -> dict[str, Val]: ...
    def fault(self, p: Val, reason: str, value: Val | None) -> None: ...
    def mma(
        self, plan: MmaPlan, a: Sequence[Val], b: Sequence[Val], c: Sequence[Val], metadata: Val | None, scales: Sequence[Val]
    ) -> tuple[Val, ...]: ...


def _paired(method: _F) -> _F:
    """Let an operation whose operands are all low (or all high) halves of packed values run on both halves at once."""

    @wraps(method)
    def run(self: WarpLanes, *args: Any, **options: Any) -> Val:
        if not self._halves:
            return method(self, *args, **options)
        if self._pairs_of is not self.emitter.cache:
            self.statement()
            return method(self, *args, **options)
        half: int | None = None
        wide = []
        key: list[object] = [method.__name__, *options.items()]
        for a in args:
            if type(a) is not Val or a.count == 1:
                wide.append(a)
                key.append((a.const, a.width) if type(a) is Val and a.const is not None else a)
                continue
            packed = self._halves.get(a)
            if packed is None or half not in (None, packed[1]):
                return method(self, *args, **options)
            half = packed[1]
            wide.append(packed[0])
            key.append(packed[0])
        if half is None:
            return method(self, *args, **options)
        both = self._both.get(tuple(key))
        if both is None:
            both = self._both[tuple(key)] = method(self, *wide, **options)
        return self._half(both, half)

    return cast(_F, run)


class WarpLanes:
    """``emitter``: where the text goes. ``profile``: the numerics profile whose bits are wanted. ``machine``: memory, special registers, mask.
    ``features``: names of the CPU features that the code may use (``jit.host().names``)."""

    def __init__(self, emitter: Emitter, profile: str, machine: Machine, features: frozenset[str]) -> None:
        self.emitter = emitter
        self.profile = profile
        self.machine = machine
        self.features = features
        self._build = Build(emitter, features)
        self._halves: dict[Val, tuple[Val, int]] = {}
        self._both: dict[tuple[object, ...], Val] = {}
        self._whole: dict[Val, Val] = {}
        self._pairs_of = emitter.cache

    def statement(self) -> None:
        """Begin a statement: halves taken from packed values before it are no longer paired."""
        self._halves, self._both, self._whole = {}, {}, {}
        self._pairs_of = self.emitter.cache

    def vector(self, a: Val) -> Val:
        """``a`` with an element for each lane."""
        return self._build.spread(a, VECTOR) if a.count == 1 else a

    def outline(self, name: str, inputs: Sequence[Val], body: Callable[[WarpLanes, list[Val]], Sequence[Val]]) -> list[Val]:
        """The results of ``body``, written once as a shared function for inputs of these shapes, and called here.

        ``body`` gets lanes and values of its own; it must be a pure function of them (no memory, mask or special registers).
        """

        def write(out: Emitter, values: list[Val]) -> Sequence[Val]:
            return body(WarpLanes(out, self.profile, cast(Machine, _Pure()), self.features), values)

        return self._build.outline(f"{name}.{self.profile}", inputs, write)

    # -- constants and shape ------------------------------------------------------------------------------------------
    def const(self, bits: int, width: int) -> Val:
        return literal(bits, width)

    def width(self, a: Val) -> int:
        return a.width

    @_paired
    def resize(self, a: Val, width: int, signed: bool = False) -> Val:
        if width == a.width:
            return a
        found = fold(width, lambda v: in_twos_complement(v, a.width) if signed else v, a)
        if found is not None:
            return found
        if width < a.width:
            return self._build.cast("trunc", a, f"i{width}")
        return self._build.cast("sext" if signed else "zext", a, f"i{width}")

    def extract(self, a: Val, offset: int, width: int) -> Val:
        if width == a.width:
            return a
        found = fold(width, lambda v: v >> offset, a)
        if found is not None:
            return found
        if a.count == VECTOR:
            if width in (8, 16) and 2 * width == a.width and offset % width == 0:
                return self._half(self._packed(a), offset // width)
            if a.width == 128:
                words = self._build.regroup(a, "i64")
                word = self._build.pick(words, range(offset // 64, 2 * VECTOR, 2))
                return self.extract(word, offset % 64, width)
        return self.resize(self._build.shifted("lshr", a, offset), width)

    def concat(self, parts: Sequence[Val]) -> Val:
        if len(parts) == 1:
            return parts[0]
        if len(parts) > 2:
            middle = len(parts) // 2
            return self.concat([self.concat(parts[:middle]), self.concat(parts[middle:])])
        low, high = parts
        width = low.width
        found = fold(2 * width, lambda l, h: l | h << width, low, high)
        if found is not None:
            return found
        first, second = self._halves.get(low), self._halves.get(high)
        if first is not None and second is not None and first[0] is second[0] and (first[1], second[1]) == (0, 1):
            return self._unpacked(first[0])
        if width < 64 or low.count == high.count == 1:
            upper = self.shift_left(self.resize(high, 2 * width), literal(width, 32))
            return self.or_(upper, self.resize(low, 2 * width))
        low, high = self._build.join(low, high)
        order = [i + half * VECTOR for i in range(VECTOR) for half in (0, 1)]
        return self._build.regroup(self._build.interleave(low, high, order), "i128")

    @_paired
    def select(self, p: Val, a: Val, b: Val) -> Val:
        if type(p.const) is int:
            return a if p.const else b
        return fold(a.width, lambda c, x, y: x if c else y, p, a, b) or self._build.select(p, a, b)

    @_paired
    def lookup(self, table: tuple[int, ...], index: Val, width: int) -> Val:
        return look_up(self._build, table, index, width)

    # -- halves of packed values --------------------------------------------------------------------------------------
    def _packed(self, a: Val) -> Val:
        """Both halves of each element of ``a`` as elements of their own, low before high."""
        key = ("packed", a)
        cache = self.emitter.cache
        if key not in cache:
            width, count = a.width // 2, 2 * a.count
            line = self.emitter.deferred(lambda: f"bitcast {a.typed} to <{count} x i{width}>")
            cache[key] = Val(line, width, count=count)
        self._fresh()
        self._whole[cache[key]] = a
        return cache[key]

    def _unpacked(self, both: Val) -> Val:
        """The packed value whose halves are the elements of ``both``."""
        whole = self._whole.get(both)
        if whole is None:
            width, count = 2 * both.width, both.count // 2
            line = self.emitter.deferred(lambda: f"bitcast {both.typed} to <{count} x i{width}>")
            whole = self._whole[both] = Val(line, width, count=count)
        return whole

    def _half(self, both: Val, half: int) -> Val:
        """The low (0) or high (1) halves of ``both``, written only if something asks for them alone."""
        if both.count != 2 * VECTOR:
            return both
        self._fresh()
        emitter, width = self.emitter, both.width
        if width in (8, 16):
            whole = self._unpacked(both)
            if half:
                upper = emitter.deferred(lambda: f"lshr {whole.type} {whole.name}, splat ({whole.elem} {width})")
                line = emitter.deferred(lambda: f"trunc {whole.type} {upper.use()} to <{VECTOR} x i{width}>")
            else:
                line = emitter.deferred(lambda: f"trunc {whole.typed} to <{VECTOR} x i{width}>")
        else:
            order = ", ".join(f"i32 {2 * i + half}" for i in range(VECTOR))
            line = emitter.deferred(lambda: f"shufflevector {both.typed}, {both.type} poison, <{VECTOR} x i32> <{order}>")
        value = Val(line, width)
        self._halves[value] = (both, half)
        return value

    def _fresh(self) -> None:
        if self._pairs_of is not self.emitter.cache:
            self.statement()

    # -- integers -----------------------------------------------------------------------------------------------------
    def _binary(self, opcode: str, a: Val, b: Val) -> Val:
        return fold(a.width, BINARY[opcode], a, b) or self._build.op(opcode, a, b)

    @_paired
    def add(self, a: Val, b: Val) -> Val:
        return a if b.const == 0 else self._binary("add", a, b)

    @_paired
    def sub(self, a: Val, b: Val) -> Val:
        return a if b.const == 0 else self._binary("sub", a, b)

    @_paired
    def mul(self, a: Val, b: Val) -> Val:
        return self._binary("mul", a, b)

    @_paired
    def mul_high(self, a: Val, b: Val, signed: bool) -> Val:
        if a.width < 64 or a.count == b.count == 1:
            wide = 2 * a.width
            product = self.mul(self.resize(a, wide, signed), self.resize(b, wide, signed))
            return self.extract(product, a.width, a.width)
        return high_product(self._build, a, b, signed)

    @_paired
    def divide(self, a: Val, b: Val, signed: bool) -> Val:
        q, zero = quotient(self._build, a, b, signed)
        return self._build.select(zero, literal(-1, a.width), q)

    @_paired
    def remainder(self, a: Val, b: Val, signed: bool) -> Val:
        # For the one overflow the quotient is a stand-in, and a - q * b still what is wanted.
        q, zero = quotient(self._build, a, b, signed)
        rest = self._build.op("sub", a, self._build.op("mul", q, b))
        return self._build.select(zero, literal(-1, a.width), rest)

    @_paired
    def and_(self, a: Val, b: Val) -> Val:
        return self._binary("and", a, b)

    @_paired
    def or_(self, a: Val, b: Val) -> Val:
        return a if b.const == 0 else b if a.const == 0 else self._binary("or", a, b)

    @_paired
    def xor(self, a: Val, b: Val) -> Val:
        return a if b.const == 0 else self._binary("xor", a, b)

    @_paired
    def not_(self, a: Val) -> Val:
        return self._binary("xor", a, literal(-1, a.width))

    @_paired
    def shift_left(self, a: Val, amount: Val) -> Val:
        return self._shift("shl", a, amount)

    @_paired
    def shift_right(self, a: Val, amount: Val, signed: bool = False) -> Val:
        return self._shift("ashr" if signed else "lshr", a, amount)

    def _shift(self, opcode: str, a: Val, amount: Val) -> Val:
        width = a.width
        if opcode == "shl":
            found = fold(width, lambda v, n: v << min(n, width), a, amount)
        elif opcode == "lshr":
            found = fold(width, lambda v, n: v >> min(n, width), a, amount)
        else:
            found = fold(width, lambda v, n: in_twos_complement(v, width) >> min(n, width), a, amount)
        if found is not None:
            return found
        if type(amount.const) is int:
            by = amount.const
            if by >= width and opcode != "ashr":
                return literal(0, width)
            return self._build.shifted(opcode, a, min(by, width - 1))
        # A shift by the width or more is undefined in LLVM.
        if opcode == "ashr":
            least = self._build.call("llvm.umin", amount, literal(width - 1, amount.width))
            return self._build.op(opcode, a, self.resize(least, width))
        inside = self._build.compare("icmp ult", amount, literal(width, amount.width))
        shifted = self._build.op(opcode, a, self.resize(amount, width))
        return self._build.select(inside, shifted, literal(0, width))

    @_paired
    def compare(self, op: str, a: Val, b: Val, signed: bool = False) -> Val:
        def known(x: int, y: int) -> int:
            if signed:
                x, y = in_twos_complement(x, a.width), in_twos_complement(y, a.width)
            return COMPARE[op](x, y)

        opcode = op if op in ("eq", "ne") else ("s" if signed else "u") + op
        return fold(1, known, a, b) or self._build.compare(f"icmp {opcode}", a, b)

    @_paired
    def count_ones(self, a: Val) -> Val:
        return self._build.call("llvm.ctpop", a)

    @_paired
    def leading_zeros(self, a: Val) -> Val:
        return self._build.call("llvm.ctlz", a, tail="i1 false")

    @_paired
    def reverse_bits(self, a: Val) -> Val:
        return self._build.call("llvm.bitreverse", a)

    # -- floats -------------------------------------------------------------------------------------------------------
    @_paired
    def float_add(self, fmt: str, a: Val, b: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.add(self._build, fmt, a, b, rounding, ftz)

    @_paired
    def float_sub(self, fmt: str, a: Val, b: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.sub(self._build, fmt, a, b, rounding, ftz)

    @_paired
    def float_mul(self, fmt: str, a: Val, b: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.mul(self._build, fmt, a, b, rounding, ftz)

    @_paired
    def float_fma(self, fmt: str, a: Val, b: Val, c: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.fma(self._build, fmt, a, b, c, rounding, ftz)

    @_paired
    def float_div(self, fmt: str, a: Val, b: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.div(self._build, fmt, a, b, rounding, ftz)

    @_paired
    def float_sqrt(self, fmt: str, a: Val, rounding: str = "rn", ftz: bool = False) -> Val:
        return warp_float.sqrt(self._build, fmt, a, rounding, ftz)

    @_paired
    def float_compare(self, fmt: str, op: str, a: Val, b: Val, ftz: bool = False) -> Val:
        return warp_float.compare(self._build, fmt, op, a, b, ftz)

    @_paired
    def float_convert(self, source: str, target: str, a: Val, rounding: str = "rn") -> Val:
        return warp_float.convert(self._build, source, target, a, rounding)

    @_paired
    def float_round(self, fmt: str, a: Val, mode: str) -> Val:
        return warp_float.round_integral(self._build, fmt, a, mode)

    @_paired
    def float_to_int(self, fmt: str, a: Val, width: int, signed: bool, mode: str) -> Val:
        return warp_float.to_int(self._build, fmt, a, width, signed, mode)

    @_paired
    def int_to_float(self, a: Val, signed: bool, fmt: str, rounding: str = "rn") -> Val:
        return warp_float.from_int(self._build, a, signed, fmt, rounding)

    # -- the warp -----------------------------------------------------------------------------------------------------
    def special(self, name: str) -> Val:
        return self.machine.special(name)

    def read_lane(self, a: Val, lane: Val) -> Val:
        return read_lane(self._build, a, lane)

    def ballot(self, p: Val) -> Val:
        active = self.and_(p, self.machine.mask)
        if active.count == 1:
            return self.resize(active, 32, True)
        return Val(self.emitter.value(f"bitcast {active.typed} to i{VECTOR}"), 32, True)

    # -- memory, resources, tensor cores ------------------------------------------------------------------------------
    def load(self, space: str, address: Val, width: int, count: int = 1) -> tuple[Val, ...]:
        return self.machine.load(space, address, width, count)

    def store(self, space: str, address: Val, values: Sequence[Val]) -> None:
        self.machine.store(space, address, values)

    def atomic(self, space: str, address: Val, width: int, update: Callable[[Val], Val]) -> Val:
        return self.machine.atomic(space, address, width, update)

    def repeat(self, count: Val, body: Callable[[Val], None]) -> None:
        self.machine.repeat(self.vector(count), body)

    def to_generic(self, space: str, address: Val) -> Val:
        return self.machine.to_generic(space, address)

    def from_generic(self, space: str, address: Val) -> Val:
        return self.machine.from_generic(space, address)

    def is_space(self, space: str, address: Val) -> Val:
        return self.machine.is_space(space, address)

    def resource(self, kind: str, handle: Val) -> dict[str, Val]:
        return self.machine.resource(kind, handle)

    def fault(self, p: Val, reason: str, value: Val | None = None) -> None:
        self.machine.fault(p, reason, value)

    def mma(
        self,
        plan: MmaPlan,
        a: Sequence[Val],
        b: Sequence[Val],
        c: Sequence[Val],
        metadata: Val | None = None,
        scales: Sequence[Val] = (),
    ) -> tuple[Val, ...]:
        if is_quad_pair_sum(plan):
            return quad_pair_product(self, plan, a, b, c, lambda inner, x, y, z: self.machine.mma(inner, x, y, z, None, ()))
        if has_primitive(plan) or not is_chain(plan):
            return self.machine.mma(plan, a, b, c, metadata, scales)
        fmt, rounding = ("f64", plan.rounding) if plan.kind == "f64" else ("f32", "rn")

        def fma(x: Val, y: Val, z: Val) -> Val:
            # Shared: a plan has hundreds of them.
            return self.outline(f"fma.{fmt}.{rounding}", [x, y, z], lambda lanes, v: [lanes.float_fma(fmt, v[0], v[1], v[2], rounding)])[0]

        return chain_product(self, plan, a, b, c, fma)


class _Pure:
    """The machine of outlined code: it has none."""

    def __getattr__(self, name: str) -> object:
        raise AssertionError(f"outlined code may not use {name!r}: it is a pure function of its inputs")
