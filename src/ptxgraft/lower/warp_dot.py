"""fp8 sums in which nothing is cut, as integer dot products: a faster way to the same bits, in LLVM text.

Invariant: taken only where it cannot differ. Let u be a lower bound of the last set bit of all products of one instruction. When the
largest product exponent, and that of the first sum, lie at most F above u, no term loses a bit, so each T is one exact integer sum in units of u
and its one rounding. Operands that spread further go the general way (``lower.warp_fused``), as do NaN and infinities.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ptxgraft.isa.numerics import MmaPlan
from ptxgraft.lower.ir import IrModule
from ptxgraft.lower.warp_fused import define_fused
from ptxgraft.lower.warp_rounding import Rounding
from ptxgraft.lower.warp_tile import Tile, constant, splat, vector


@dataclass(frozen=True, slots=True)
class _Format:
    """An fp8 format: fraction bits, the exponent of a subnormal's last bit, and the smallest magnitude that is no finite number."""

    fraction: int
    last: int
    special: int

    @property
    def reach(self) -> int:
        """How far the exponent may rise above the lowest one for the significand to stay a 16-bit integer."""
        return 14 - self.fraction


_FORMATS = {"e4m3": _Format(3, -9, 0x7F), "e5m2": _Format(2, -16, 0x7C)}


def has_dot(plan: MmaPlan) -> bool:
    """Is this an fp8 plan whose T go by byte pairs with C outside (Hopper's)? Others cut products too early for exact sums to be common."""
    fp8 = plan.kind == "float" and plan.a in _FORMATS and plan.b in _FORMATS
    return fp8 and not plan.sparse and not plan.c_inside and len(plan.steps) == 2


def define_dot(module: IrModule, plan: MmaPlan, name: str) -> None:
    """Define ``name``, which tries the exact sums first, and ``name.general`` for the rest."""
    _Dot(module, plan, name).define()
    define_fused(module, plan, f"{name}.general")


class _Dot:
    def __init__(self, module: IrModule, plan: MmaPlan, name: str) -> None:
        self.tile, self.plan = Tile(module, plan, name), plan
        self.left, self.right = _FORMATS[plan.a], _FORMATS[plan.b]
        self.ints, self.shorts = vector(self.tile.rows, "i32"), vector(2 * self.tile.rows, "i16")

    def define(self) -> None:
        tile, plan = self.tile, self.plan
        a, b = tile.read("a"), tile.read("b")
        (low_a, spread_a, fits_a), (low_b, spread_b, fits_b) = self.range(self.left, a), self.range(self.right, b)
        fraction_bits = plan.steps[0].fraction_bits
        spread = tile.op("add", "i32", spread_a, spread_b)
        near = tile.op("icmp sle", "i32", spread, str(fraction_bits - self.left.fraction - self.right.fraction))
        fits = tile.op("and", "i1", near, tile.op("and", "i1", fits_a, fits_b))
        tile.text.emit(f"br i1 {fits}, label %exact, label %general")

        tile.text.label("exact")
        pairs = self.left_pairs(a, low_a)
        right = self.right_pairs(b, low_b)
        # One unit is 2^(low exponents): put together from the exponent field of an f32.
        field = tile.op("add", "i32", tile.op("add", "i32", low_a, low_b), str(127 + self.left.last + self.right.last))
        one_unit = tile.convert("bitcast", "i32", tile.op("shl", "i32", field, "23"), "float")
        unit = tile.broadcast("float", one_unit)
        first = [self.sum(pairs[0], right, 0, n) for n in range(tile.columns)]
        rounding = Rounding(tile)
        largest = ""
        for total in first:
            size = tile.call(self.ints, f"llvm.abs.v{tile.rows}i32", (self.ints, total), ("i1", "false"))
            largest = tile.call(self.ints, f"llvm.umax.v{tile.rows}i32", (self.ints, largest), (self.ints, size)) if largest else size
        largest = tile.call("i32", f"llvm.vector.reduce.umax.v{tile.rows}i32", (self.ints, largest))
        # Its exponent at most F above the unit: below 2^(F+1), also when rounded to the 11 bits of f16.
        small = tile.op("icmp ult", "i32", largest, str((1 << (fraction_bits + 1)) - (1 << (fraction_bits - 10))))
        if plan.d == "f16":
            size = tile.op("fmul", "float", tile.convert("uitofp", "i32", largest, "float"), one_unit)
            small = tile.op("and", "i1", small, tile.op("fcmp olt", "float", size, constant("float", 65504.0)))
        tile.text.emit(f"br i1 {small}, label %second, label %general")

        tile.text.label("second")
        inverse = tile.op("sub", "i32", str(254), field)
        scale = tile.broadcast("float", tile.convert("bitcast", "i32", tile.op("shl", "i32", inverse, "23"), "float"))
        addends = rounding.addends()
        results = []
        for n, total in enumerate(first):
            running = rounding.integer(total, unit)
            units = tile.convert("fptosi", rounding.f32, tile.op("fmul", rounding.f32, running, scale), self.ints)
            total = tile.op("add", self.ints, self.sum(pairs[1], right, 1, n), units)
            results.append(rounding.result(rounding.integer(total, unit), addends[n]))
        tile.put_results(results)
        tile.text.emit("br label %done")
        tile.text.label("general")
        tile.text.emit(f"call void @{tile.name}.general(ptr %rf, ptr %operands)")
        tile.text.emit("br label %done")
        tile.text.label("done")
        tile.finish()

    # -- the range of the operands --------------------------------------------------------------------------------------------
    def range(self, format: _Format, registers: Sequence[str]) -> tuple[str, str, str]:
        """(lowest exponent, how far the highest lies above it, do all elements fit 16 bits), exponents counted from a subnormal's as 0."""
        tile = self.tile
        bytes_ = vector(128, "i8")
        largest = smallest = ""
        for register in registers:
            size = tile.op("and", bytes_, tile.convert("bitcast", vector(32, "i32"), register, bytes_), splat("i8", 0x7F))
            below = tile.op("add", bytes_, size, splat("i8", -1))  # a zero becomes the largest
            largest = tile.call(bytes_, "llvm.umax.v128i8", (bytes_, largest), (bytes_, size)) if largest else size
            smallest = tile.call(bytes_, "llvm.umin.v128i8", (bytes_, smallest), (bytes_, below)) if smallest else below
        ends = []
        for name, value in (("umax", largest), ("umin", smallest)):
            byte = tile.call("i8", f"llvm.vector.reduce.{name}.v128i8", (bytes_, value))
            ends.append(tile.convert("zext", "i8", byte, "i32"))
        high = self.exponent(format, ends[0])
        low = self.exponent(format, tile.op("add", "i32", ends[1], "1"))
        spread = tile.op("sub", "i32", high, low)
        number = tile.op("icmp ult", "i32", ends[0], str(format.special))
        return low, spread, tile.op("and", "i1", number, tile.op("icmp sle", "i32", spread, str(format.reach)))

    def exponent(self, format: _Format, magnitude: str) -> str:
        """The exponent field less 1, subnormals at 0, of a magnitude (i32)."""
        field = self.tile.op("lshr", "i32", magnitude, str(format.fraction))
        return self.tile.call("i32", "llvm.usub.sat.i32", ("i32", field), ("i32", "1"))

    # -- operands as 16-bit integers --------------------------------------------------------------------------------------------
    def integers(self, format: _Format, count: int, elements: str, low: str) -> str:
        """fp8 elements, one in the low byte of each of ``count`` i16, as integers in units of the lowest exponent."""
        tile, type = self.tile, vector(count, "i16")
        magnitude = tile.op("and", type, elements, splat("i16", 0x7F))
        field = tile.op("lshr", type, magnitude, splat("i16", format.fraction))
        fraction = tile.op("and", type, elements, splat("i16", (1 << format.fraction) - 1))
        normal = tile.value(f"icmp ne {type} {field}, zeroinitializer")
        hidden = tile.value(f"select {vector(count, 'i1')} {normal}, {type} {splat('i16', 1 << format.fraction)}, {type} zeroinitializer")
        significand = tile.op("or", type, fraction, hidden)
        base = self.splat_short(count, tile.op("add", "i32", low, "1"))
        shift = tile.call(type, f"llvm.usub.sat.v{count}i16", (type, field), (type, base))
        value = tile.op("shl", type, significand, shift)
        sign = tile.op("ashr", type, tile.op("shl", type, elements, splat("i16", 8)), splat("i16", 15))
        return tile.op("sub", type, tile.op("xor", type, value, sign), sign)

    def splat_short(self, count: int, name: str) -> str:
        tile, type = self.tile, vector(count, "i16")
        single = tile.value(f"insertelement {type} poison, i16 {tile.convert('trunc', 'i32', name, 'i16')}, i64 0")
        return tile.value(f"shufflevector {type} {single}, {type} poison, <{count} x i32> zeroinitializer")

    def left_pairs(self, registers: Sequence[str], low: str) -> tuple[list[str], list[str]]:
        """A's elements two by two, <2 * rows x i16>: those of the first T (bytes 0, 1 of each word), and of the second (bytes 2, 3)."""
        tile, ints = self.tile, self.ints
        pairs: tuple[list[str], list[str]] = ([], [])
        for group in tile.groups("a", registers):
            for word in tile.words(group):
                for half, (down, up) in enumerate(((0, 8), (16, 8))):
                    first = tile.op("lshr", ints, word, splat("i32", down)) if down else word
                    second = tile.op("shl", ints, word, splat("i32", up)) if not down else tile.op("lshr", ints, word, splat("i32", up))
                    lower = tile.op("and", ints, first, splat("i32", 0xFF))
                    joined = tile.op("or", ints, lower, tile.op("and", ints, second, splat("i32", 0xFF0000)))
                    shorts = tile.convert("bitcast", ints, joined, self.shorts)
                    pairs[half].append(self.integers(self.left, 2 * tile.rows, shorts, low))
        return pairs

    def right_pairs(self, registers: Sequence[str], low: str) -> str:
        """B's elements two by two in memory: i32 [register][column][8 pairs]."""
        tile, shorts = self.tile, vector(128, "i16")
        memory = tile.text.alloca(f"[{len(registers)} x {shorts}]")
        for i, register in enumerate(registers):
            bytes_ = tile.convert("bitcast", vector(32, "i32"), register, vector(128, "i8"))
            tile.store(shorts, self.integers(self.right, 128, tile.convert("zext", vector(128, "i8"), bytes_, shorts), low), memory, i)
        return memory

    def sum(self, pairs: Sequence[str], right: str, half: int, n: int) -> str:
        """The dot products of one T for column ``n``: i32 over the rows, in units."""
        tile, ints, total = self.tile, self.ints, ""
        for number, pair in enumerate(pairs):
            register, word = divmod(number, 4)
            factor = tile.broadcast("i32", tile.load("i32", right, register * 64 + n * 8 + 2 * word + half))
            dot = self.multiply_add(pair, tile.convert("bitcast", ints, factor, self.shorts))
            total = tile.op("add", ints, total, dot) if total else dot
        return total

    def multiply_add(self, left: str, right: str) -> str:
        """a0 * b0 + a1 * b1 of each pair; the shape that the code generator knows as one instruction."""
        tile, wide = self.tile, vector(2 * self.tile.rows, "i32")
        product = tile.op("mul", wide, *(tile.convert("sext", self.shorts, x, wide) for x in (left, right)))
        halves = []
        for odd in (0, 1):
            lanes = ", ".join(f"i32 {2 * i + odd}" for i in range(tile.rows))
            halves.append(tile.value(f"shufflevector {wide} {product}, {wide} poison, <{tile.rows} x i32> <{lanes}>"))
        return tile.op("add", self.ints, *halves)
