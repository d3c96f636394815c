"""Tensor-core sums over terms that are made first, in LLVM text: products with factors for blocks, and sums that are exact.

Invariant: the bits are those of ``lower.numpy_mma``. Everything is in double, in which products, and sums of a block's products, are exact; the terms of a column are either
aligned and cut as a fused sum does, or added to the long accumulator of ``lower.mma_exact``.
"""

from __future__ import annotations

from dataclasses import dataclass

from ptxgraft.isa.fragments import SCALE_LANES
from ptxgraft.isa.numerics import MIN_EXPONENT, MmaPlan
from ptxgraft.lower.ir import IrModule
from ptxgraft.lower.mma_exact import TERM_BITS, accumulator
from ptxgraft.lower.warp_rounding import Rounding
from ptxgraft.lower.warp_tile import Tile, lane_list, restore_nan, splat, vector

_SMALLEST = 2.0**-320
"""Less than any power of two that a term or C can have."""


def has_terms(plan: MmaPlan) -> bool:
    """Is this a plan for ``define_terms``?"""
    return plan.kind in ("exact", "blocks") or (plan.kind == "float" and bool(plan.scale))


def define_terms(module: IrModule, plan: MmaPlan, name: str) -> None:
    """Define ``name`` for a plan that ``has_terms``."""
    _Terms(module, plan, name).define()


@dataclass(frozen=True, slots=True)
class _Term:
    """A vector over the rows, and the power of two that it is aligned by."""

    value: str
    power: str


class _Terms:
    def __init__(self, module: IrModule, plan: MmaPlan, name: str) -> None:
        self.tile, self.plan = Tile(module, plan, name), plan
        rows = self.rows = self.tile.rows
        self.f32, self.f64, self.i64, self.truth = (vector(rows, t) for t in ("float", "double", "i64", "i1"))
        self.rounding = Rounding(self.tile)
        self.columns = vector(self.tile.columns, "double")

    def define(self) -> None:
        tile = self.tile
        tile.read_metadata()
        words = [word for group in tile.groups("a", tile.read("a")) for word in tile.words(group)]
        elements = [element for word in words for element in tile.row_elements(self.plan.a, word, "double")]
        self.left = [restore_nan(tile, self.plan.a, element, self.rows, "double") for element in elements]
        self.left_power = [self.power(e, self.rows, self.plan.exponent_floor[0]) for e in self.left] if self.plan.kind == "float" else []
        self.read_right()
        self.read_scales()
        addends = tile.text.alloca(f"[{tile.columns} x {self.f32}]")
        results = tile.text.alloca(f"[{tile.columns} x {self.f32}]")
        for n, addend in enumerate(self.rounding.addends()):
            tile.store(self.f32, addend, addends, n)
        self.words = tile.text.alloca(f"[{accumulator(self.plan).digits} x {self.i64}]") if self.plan.kind == "exact" else ""

        def column(n: str) -> None:
            addend = tile.convert("fpext", self.f32, tile.load(self.f32, addends, n), self.f64)
            terms = self.blocks(n) if self.plan.kind == "blocks" else self.products(n)
            special, finite = self.specials([*(t.value for t in terms), addend])
            value = self.exact(finite) if self.plan.kind == "exact" else self.aligned(terms, finite, addend)
            regular = tile.op("fcmp oeq", self.f64, special, "zeroinitializer")
            sums = tile.convert("fptrunc", self.f64, special, self.f32)
            tile.store(self.f32, tile.select(self.f32, regular, value, sums), results, n)

        tile.column_loop("column", column)
        tile.put_results([self.rounding.result(tile.load(self.f32, results, n)) for n in range(tile.columns)])
        tile.finish()

    # -- operands -----------------------------------------------------------------------------------------------------------------
    def power(self, value: str, count: int, floor: int) -> str:
        """2^e of each value, e at least ``floor``; 0 for zero."""
        tile, doubles, longs = self.tile, vector(count, "double"), vector(count, "i64")
        bits = tile.op("and", longs, tile.convert("bitcast", doubles, value, longs), splat("i64", 0x7FF << 52))
        power, low = tile.convert("bitcast", longs, bits, doubles), splat("double", 2.0**floor)
        power = self.pick(count, tile.op("fcmp olt", doubles, power, low), low, power)
        return self.pick(count, tile.op("fcmp oeq", doubles, value, "zeroinitializer"), "zeroinitializer", power)

    def pick(self, count: int, condition: str, yes: str, no: str) -> str:
        doubles = vector(count, "double")
        return self.tile.value(f"select {vector(count, 'i1')} {condition}, {doubles} {yes}, {doubles} {no}")

    def read_right(self) -> None:
        """B's values, and their powers, in memory; ``Tile.place`` says where."""
        tile, count, registers = self.tile, 32 * self.tile.per, self.tile.read("b")
        type = vector(count, "double")
        self.right = tile.text.alloca(f"[{len(registers)} x {type}]")
        self.right_power = tile.text.alloca(f"[{len(registers)} x {type}]") if self.left_power else ""
        for i, register in enumerate(registers):
            values = restore_nan(tile, self.plan.b, tile.spread(self.plan.b, register, "double"), count, "double")
            tile.store(type, values, self.right, i)
            if self.right_power:
                tile.store(type, self.power(values, count, self.plan.exponent_floor[1]), self.right_power, i)

    def read_scales(self) -> None:
        """A's factors as vectors over the rows, B's in memory: [chunk][column]."""
        if not self.plan.scale:
            return
        tile, chunks = self.tile, self.plan.depth // self.plan.block
        left, right = tile.read("e")[-2:]
        self.by_row = [self.factors(left, SCALE_LANES["A"].tolist(), chunk) for chunk in range(chunks)]
        self.by_column = tile.text.alloca(f"[{chunks} x {self.columns}]")
        for chunk in range(chunks):
            tile.store(self.columns, self.factors(right, SCALE_LANES["B"].tolist(), chunk), self.by_column, chunk)

    def factors(self, register: str, lanes: list[int], chunk: int) -> str:
        tile, count = self.tile, len(lanes)
        ints, longs, doubles = (vector(count, t) for t in ("i32", "i64", "double"))
        word = tile.value(f"shufflevector <32 x i32> {register}, <32 x i32> poison, <{count} x i32> <{lane_list(lanes)}>")
        code = tile.op("and", ints, tile.op("lshr", ints, word, splat("i32", 8 * chunk)), splat("i32", 0xFF))
        if self.plan.scale == "ue8m0":
            wide = tile.op("add", longs, tile.convert("zext", ints, code, longs), splat("i64", 1023 - 127))
            value, nan = tile.convert("bitcast", longs, tile.op("shl", longs, wide, splat("i64", 52)), doubles), 0xFF
        else:
            code, nan = tile.op("and", ints, code, splat("i32", 0x7F)), 0x7F
            shorts, halves = vector(count, "i16"), vector(count, "half")
            half = tile.op("shl", shorts, tile.convert("trunc", ints, code, shorts), splat("i16", 7))
            wide = tile.convert("fpext", halves, tile.convert("bitcast", shorts, half, halves), doubles)
            value = tile.op("fmul", doubles, wide, splat("double", 256.0))
        return self.pick(count, tile.op("icmp eq", ints, code, splat("i32", nan)), splat("double", float("nan")), value)

    def column_factor(self, chunk: int, n: str) -> str:
        array = self.tile.at(self.by_column, self.columns, chunk)
        return self.tile.broadcast("double", self.tile.load("double", array, n))

    # -- the terms of a column ----------------------------------------------------------------------------------------------------
    def column_of(self, array: str, n: str) -> str:
        return self.tile.at(array, f"[{self.tile.column_stride} x double]", n)

    def product(self, left: str, array: str, k: int) -> str:
        return self.tile.op("fmul", self.f64, left, self.tile.factor("double", array, k))

    def products(self, n: str) -> list[_Term]:
        right = self.column_of(self.right, n)
        powers = self.column_of(self.right_power, n) if self.right_power else ""
        scale: list[str] = []
        if self.plan.scale:
            chunks = range(self.plan.depth // self.plan.block)
            scale = [self.tile.op("fmul", self.f64, self.by_row[c], self.column_factor(c, n)) for c in chunks]
        terms = []
        for k in range(self.plan.depth):
            value, power = self.product(self.left[k], right, k), self.product(self.left_power[k], powers, k) if powers else ""
            if scale:
                value = self.tile.op("fmul", self.f64, value, scale[k // self.plan.block])
                power = self.tile.op("fmul", self.f64, power, scale[k // self.plan.block]) if power else ""
            terms.append(_Term(value, power))
        return terms

    def blocks(self, n: str) -> list[_Term]:
        tile, f64, right = self.tile, self.f64, self.column_of(self.right, n)
        lowest = MIN_EXPONENT["e4m3"] if self.plan.scale == "ue4m3" else -127
        terms = []
        for step in self.plan.steps:
            total = ""
            for k in step.ks:
                value = self.product(self.left[k], right, k)
                total = tile.op("fadd", f64, total, value) if total else value
            by_row, by_column = self.by_row[step.ks[0] // self.plan.block], self.column_factor(step.ks[0] // self.plan.block, n)
            value = tile.op("fmul", f64, tile.op("fmul", f64, total, by_row), by_column)
            power = tile.op("fmul", f64, self.power(by_row, self.rows, lowest), self.power(by_column, self.rows, lowest))
            nothing = tile.op("fcmp oeq", f64, value, "zeroinitializer")
            terms.append(_Term(value, tile.select(f64, nothing, "zeroinitializer", power)))
        return terms

    def specials(self, values: list[str]) -> tuple[str, list[str]]:
        """The IEEE sum of what is not finite, else 0; and the values with zeros there."""
        tile, f64 = self.tile, self.f64
        total, finite = "zeroinitializer", []
        for value in values:
            size = tile.call(f64, f"llvm.fabs.v{self.rows}f64", (f64, value))
            number = tile.op("fcmp olt", f64, size, splat("double", float("inf")))
            total = tile.op("fadd", f64, total, tile.select(f64, number, "zeroinitializer", value))
            finite.append(tile.select(f64, number, value, "zeroinitializer"))
        return total, finite

    # -- sums -----------------------------------------------------------------------------------------------------------------------
    def aligned(self, terms: list[_Term], values: list[str], addend: str) -> str:
        """The fused sum T of terms and C, as f32."""
        tile, f64 = self.tile, self.f64
        largest = self.power(addend, self.rows, MIN_EXPONENT[self.plan.d])
        for term in terms:
            largest = tile.select(f64, tile.op("fcmp ogt", f64, term.power, largest), term.power, largest)
        smallest = splat("double", _SMALLEST)
        largest = tile.select(f64, tile.op("fcmp ogt", f64, largest, smallest), largest, smallest)
        # 2^F / largest, from the exponent field.
        field = splat("i64", (2046 + self.plan.steps[0].fraction_bits) << 52)
        bits = tile.op("sub", self.i64, field, tile.convert("bitcast", f64, largest, self.i64))
        scale = tile.convert("bitcast", self.i64, bits, f64)
        total = ""
        for value in values:
            cut = tile.call(f64, f"llvm.trunc.v{self.rows}f64", (f64, tile.op("fmul", f64, value, scale)))
            total = tile.op("fadd", f64, total, cut) if total else cut
        unit = tile.op("fmul", f64, largest, splat("double", 2.0 ** -self.plan.steps[0].fraction_bits))
        return self.rounding.double(tile.op("fmul", f64, total, unit))

    def exact(self, values: list[str]) -> str:
        """The exact sum, rounded once, as f32."""
        tile, found, i64, f64 = self.tile, accumulator(self.plan), self.i64, self.f64
        for j in range(found.digits):
            tile.store(i64, "zeroinitializer", self.words, j)
        rows = f"<{', '.join(f'i64 {r}' for r in range(self.rows))}>"
        for value in values:
            bits = tile.convert("bitcast", f64, value, i64)
            biased = self.masked(self.shifted("lshr", bits, 52), 0x7FF)
            significand = tile.op("or", i64, self.masked(bits, (1 << 52) - 1), splat("i64", 1 << 52))
            nothing = tile.op("icmp eq", i64, biased, "zeroinitializer")
            place = tile.op("sub", i64, biased, splat("i64", 1023 + TERM_BITS - 1 + found.low))
            place = tile.select(i64, nothing, "zeroinitializer", place)
            moved = tile.op("shl", i64, self.shifted("lshr", significand, 53 - TERM_BITS), self.masked(place, 31))
            signed = self.negated_where(tile.op("icmp slt", i64, bits, "zeroinitializer"), moved)
            signed = tile.select(i64, nothing, "zeroinitializer", signed)
            index = tile.op("add", i64, tile.op("mul", i64, self.shifted("lshr", place, 5), splat("i64", self.rows)), rows)
            self.add_at(index, signed)
        words = [tile.load(i64, self.words, j) for j in range(found.digits)]
        words, carry = self.carried(words)
        negative = tile.op("icmp slt", i64, carry, "zeroinitializer")
        words, _ = self.carried([self.negated_where(negative, word) for word in words])
        return self.rounding.nearest(self.leading(words, negative))

    def masked(self, value: str, mask: int) -> str:
        return self.tile.op("and", self.i64, value, splat("i64", mask))

    def shifted(self, opcode: str, value: str, amount: int) -> str:
        return self.tile.op(opcode, self.i64, value, splat("i64", amount))

    def negated_where(self, condition: str, value: str) -> str:
        mask = self.tile.convert("sext", self.truth, condition, self.i64)
        return self.tile.op("sub", self.i64, self.tile.op("xor", self.i64, value, mask), mask)

    def add_at(self, index: str, value: str) -> None:
        """Add to one word of the accumulator in each row."""
        tile, pointers, i64 = self.tile, vector(self.rows, "ptr"), self.i64
        places = tile.value(f"getelementptr i64, ptr {self.words}, {i64} {index}")
        always = f"{self.truth} splat (i1 true)"
        gather, scatter = f"llvm.masked.gather.v{self.rows}i64.v{self.rows}p0", f"llvm.masked.scatter.v{self.rows}i64.v{self.rows}p0"
        tile.text.declare(f"declare {i64} @{gather}({pointers}, {self.truth}, {i64})")
        tile.text.declare(f"declare void @{scatter}({i64}, {pointers}, {self.truth})")
        old = tile.value(f"call {i64} @{gather}({pointers} align 8 {places}, {always}, {i64} poison)")
        tile.text.emit(f"call void @{scatter}({i64} {tile.op('add', i64, old, value)}, {pointers} align 8 {places}, {always})")

    def carried(self, words: list[str]) -> tuple[list[str], str]:
        """Digits below 2^32, and what is left above them."""
        carry, digits = "", []
        for word in words:
            word = self.tile.op("add", self.i64, word, carry) if carry else word
            carry = self.shifted("ashr", word, 32)
            digits.append(self.masked(word, 0xFFFFFFFF))
        return digits, carry

    def leading(self, words: list[str], negative: str) -> str:
        """The number of these digits rounded to odd, as double."""
        tile, i64 = self.tile, self.i64
        low = accumulator(self.plan).low
        first = second = third = lost = "zeroinitializer"
        exponent, below = "zeroinitializer", "zeroinitializer"
        for j in range(2, len(words)):
            found = tile.op("icmp ne", i64, words[j], "zeroinitializer")
            first, second, third = (tile.select(i64, found, words[j - i], old) for i, old in enumerate((first, second, third)))
            lost = tile.select(i64, found, below, lost)
            exponent = tile.select(i64, found, splat("i64", 32 * j + 31 + low + 1023), exponent)
            below = tile.op("or", i64, below, words[j - 2])
        zeros = tile.op("sub", i64, tile.call(i64, f"llvm.ctlz.v{self.rows}i64", (i64, first), ("i1", "false")), splat("i64", 32))
        joined = tile.op("or", i64, self.shifted("shl", first, 32), second)
        moved = tile.op("shl", i64, joined, zeros)
        rest = tile.op("shl", i64, third, zeros)
        moved = tile.op("or", i64, moved, self.shifted("lshr", rest, 32))
        lost = tile.op("or", i64, lost, tile.op("or", i64, self.masked(rest, 0xFFFFFFFF), self.masked(moved, 0x7FF)))
        sticky = tile.convert("zext", self.truth, tile.op("icmp ne", i64, lost, "zeroinitializer"), i64)
        significand = self.masked(tile.op("or", i64, self.shifted("lshr", moved, 11), sticky), (1 << 52) - 1)
        bits = tile.op("or", i64, self.shifted("shl", tile.op("sub", i64, exponent, zeros), 52), significand)
        sign = self.shifted("shl", tile.convert("zext", self.truth, negative, i64), 63)
        bits = tile.op("or", i64, bits, sign)
        nothing = tile.op("icmp eq", i64, first, "zeroinitializer")
        return tile.convert("bitcast", i64, tile.select(i64, nothing, "zeroinitializer", bits), self.f64)
