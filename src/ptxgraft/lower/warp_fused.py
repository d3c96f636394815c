"""The fused sum of float tensor-core instructions in LLVM text.

Invariant: one multiply and one conversion are the truncation. A product of two operands is exact in the work type (float, or double where exponents
are wide); times the power of two 2^(F-X) it is still exact, and the conversion to an integer cuts it toward zero. X is the maximum over k of
the products of the operands' power-of-two parts, in which a zero drops out by itself. Sums are exact in i32, or in double where they may
pass 2^31. NaN and infinities are looked for once an instruction; only then a second function sums the special products by IEEE's rules.
"""

from __future__ import annotations

from ptxgraft.isa.numerics import MIN_EXPONENT, MmaPlan, Step
from ptxgraft.lower.ir import IrModule
from ptxgraft.lower.warp_rounding import Rounding
from ptxgraft.lower.warp_tile import NONFINITE, Tile, decoded_scale, restore_nan, splat, vector

_LARGEST_SIGNIFICAND = {"e4m3": 1.875, "e5m2": 1.75, "e3m2": 1.75, "e2m3": 1.875, "e2m1": 1.5, "f16": 2 - 2**-10, "bf16": 2.0, "tf32": 2.0}
_POWER_MASK = {"float": ("i32", 0x7F800000), "double": ("i64", 0x7FF << 52)}
_SMALLEST_EXPONENT = {"e4m3": -9, "e3m2": -4, "e2m3": -3, "e2m1": -1}
"""The exponent of a format's smallest nonzero number where it lies above f16's floor: that floor never acts then."""
_CLAMP = 60
"""Product exponents lie within this of 0 for f16 and fp8; beyond it nothing but C is left of a sum."""
_WIDE_CLAMP = 300
"""The same for what is summed in double."""


def define_fused(module: IrModule, plan: MmaPlan, name: str) -> None:
    """Define ``name`` and ``name.specials`` for a plan of kind ``float``."""
    _Fused(module, plan, name).define()
    _define_specials(module, plan, f"{name}.specials")


def work_type(plan: MmaPlan) -> str:
    """float where it holds the products exactly and in range and i32 their aligned sum; else double: bf16, tf32, and 32 products at once."""
    largest = _LARGEST_SIGNIFICAND[plan.a] * _LARGEST_SIGNIFICAND[plan.b]
    fits = all(len(step.ks) * largest * 2.0**step.fraction_bits < 2**31 for step in plan.steps)
    return "float" if fits and plan.a not in ("bf16", "tf32") else "double"


def _scale_exponent(plan: MmaPlan) -> int:
    """Products in the work type are 2^this times the true ones."""
    work = work_type(plan)
    return decoded_scale(plan.a, work) + decoded_scale(plan.b, work)


def _left_elements(tile: Tile, registers: list[str], work: str) -> list[str]:
    """A's columns: vectors over the rows, by k."""
    words = [word for group in tile.groups("a", registers) for word in tile.words(group)]
    return [element for word in words for element in tile.row_elements(tile.plan.a, word, work)]


class _Fused:
    def __init__(self, module: IrModule, plan: MmaPlan, name: str) -> None:
        self.tile = Tile(module, plan, name)
        self.plan = plan
        self.work = work_type(plan)
        rows = self.tile.rows
        self.vec, self.f32, self.f64, self.i32 = (vector(rows, t) for t in (self.work, "float", "double", "i32"))
        self.rows = rows
        self.rounding = Rounding(self.tile)
        largest = _LARGEST_SIGNIFICAND[plan.a] * _LARGEST_SIGNIFICAND[plan.b]
        step = plan.steps[0]
        # Does a sum of products and C fit i32, C below 2 units of 2^F?
        self.narrow = self.work == "float" and (len(step.ks) * largest + 2) * 2.0**step.fraction_bits < 2**31

    # -- the function ---------------------------------------------------------------------------------------------------------
    def define(self) -> None:
        tile, plan = self.tile, self.plan
        tile.read_metadata()
        columns = tile.columns
        left_registers, right_registers = tile.read("a"), tile.read("b")
        zeros = f"{tile.name}.zeros"
        tile.module.globals[zeros] = (
            f"@{zeros} = private unnamed_addr constant [{len(plan.steps) * columns} x {self.f32}] zeroinitializer, align 64"
        )
        specials = self.specials(left_registers, right_registers, zeros)

        left = _left_elements(tile, left_registers, self.work)
        left_power = [self.power(plan.a, e, self.rows, plan.exponent_floor[0]) for e in left]
        right, right_power = self.right_arrays(right_registers)
        running = tile.text.alloca(f"[{columns} x {self.f32}]")
        powers = tile.text.alloca(f"[{columns} x {self.vec}]")
        addends = self.rounding.addends()
        if plan.c_inside:
            for n, addend in enumerate(addends):
                tile.store(self.f32, addend, running, n)
        for number, step in enumerate(plan.steps):
            tile.column_loop(f"x{number}", lambda n, step=step: self.power_column(n, step, left_power, right_power, powers))
            tile.column_loop(
                f"t{number}", lambda n, step=step, number=number: self.sum_column(n, number, step, left, right, powers, running, specials)
            )
        results = []
        for n, addend in enumerate(addends):
            results.append(self.rounding.result(tile.load(self.f32, running, n), "" if plan.c_inside else addend))
        tile.put_results(results)
        tile.finish()

    def specials(self, left: list[str], right: list[str], zeros: str) -> str:
        """The table of special sums [step][column]: zeros, or filled by the second function when an operand is NaN or infinite."""
        tile = self.tile
        found = ""
        for registers, format in ((left, self.plan.a), (right, self.plan.b)):
            width, mask = NONFINITE[format]
            if not mask:
                continue
            count = 32 * 32 // width
            type, ones = vector(count, f"i{width}"), splat(f"i{width}", mask)
            any_ = ""
            for register in registers:
                bits = (
                    tile.op("and", type, tile.convert("bitcast", vector(32, "i32"), register, type), ones)
                    if width < 32
                    else tile.op("and", type, register, ones)
                )
                hit = tile.op("icmp eq", type, bits, ones)
                any_ = tile.op("or", vector(count, "i1"), any_, hit) if any_ else hit
            bit = tile.call("i1", f"llvm.vector.reduce.or.v{count}i1", (vector(count, "i1"), any_))
            found = tile.op("or", "i1", found, bit) if found else bit
        if not found:
            return f"@{zeros}"
        table = tile.text.alloca(f"[{len(self.plan.steps) * tile.columns} x {self.f32}]")
        before = tile.text.block
        tile.text.emit(f"br i1 {found}, label %special, label %regular")
        tile.text.label("special")
        tile.text.emit(f"call void @{tile.name}.specials(ptr %rf, ptr %operands, ptr {table})")
        tile.text.emit("br label %regular")
        tile.text.label("regular")
        return tile.value(f"phi ptr [ @{zeros}, %{before} ], [ {table}, %special ]")

    # -- operands -------------------------------------------------------------------------------------------------------------
    def power(self, format: str, value: str, count: int, floor: int) -> str:
        """2^e of each decoded value, e at least ``floor`` (of the element itself); 0 for zero."""
        tile = self.tile
        integer, mask = _POWER_MASK[self.work]
        type, bits_type = vector(count, self.work), vector(count, integer)
        bits = tile.op("and", bits_type, tile.convert("bitcast", type, value, bits_type), splat(integer, mask))
        power = tile.convert("bitcast", bits_type, bits, type)
        if floor < _SMALLEST_EXPONENT.get(format, -1000):
            return power
        low = splat(self.work, 2.0 ** (floor + decoded_scale(format, self.work)))
        below = tile.op("fcmp olt", type, power, low)
        power = tile.value(f"select {vector(count, 'i1')} {below}, {type} {low}, {type} {power}")
        zero = tile.op("fcmp oeq", type, value, "zeroinitializer")
        return tile.value(f"select {vector(count, 'i1')} {zero}, {type} zeroinitializer, {type} {power}")

    def right_arrays(self, registers: list[str]) -> tuple[str, str]:
        """B's values and powers in memory, ``Tile.place`` says where."""
        tile, count = self.tile, 32 * self.tile.per
        type = vector(count, self.work)
        arrays = [tile.text.alloca(f"[{len(registers)} x {type}]") for _ in range(2)]
        for i, register in enumerate(registers):
            values = tile.spread(self.plan.b, register, self.work)
            tile.store(type, values, arrays[0], i)
            tile.store(type, self.power(self.plan.b, values, count, self.plan.exponent_floor[1]), arrays[1], i)
        return arrays[0], arrays[1]

    # -- one column of one sum ------------------------------------------------------------------------------------------------
    def column_base(self, array: str, n: str) -> str:
        return self.tile.at(array, f"[{self.tile.column_stride} x {self.work}]", n)

    def power_column(self, n: str, step: Step, left: list[str], right: str, powers: str) -> None:
        """The largest product exponent of a column, as a power of two of the work type (scaled as products are)."""
        tile = self.tile
        base = self.column_base(right, n)
        largest = ""
        for k in step.ks:
            product = tile.op("fmul", self.vec, left[k], tile.factor(self.work, base, k))
            largest = self.maximum(self.vec, largest, product) if largest else product
        tile.store(self.vec, largest, powers, n)

    def maximum(self, type: str, a: str, b: str) -> str:
        greater = self.tile.op("fcmp ogt", type, a, b)
        return self.tile.select(type, greater, a, b)

    def minimum(self, type: str, a: str, b: str) -> str:
        less = self.tile.op("fcmp olt", type, a, b)
        return self.tile.select(type, less, a, b)

    def sum_column(self, n: str, number: int, step: Step, left: list[str], right: str, powers: str, running: str, specials: str) -> None:
        tile, plan = self.tile, self.plan
        # NaN and infinite exponents (those products are summed apart) would make other products subnormal, which is slow.
        power = self.minimum(
            self.vec, tile.load(self.vec, powers, n), splat(self.work, 2.0 ** (_CLAMP if self.work == "float" else _WIDE_CLAMP))
        )
        addend = tile.load(self.f32, running, n) if number or plan.c_inside else ""
        base = self.column_base(right, n)
        special = tile.load(self.f32, specials, tile.op("add", "i64", n, str(number * tile.columns)))
        if addend:
            size = tile.call(self.f32, f"llvm.fabs.v{self.rows}f32", (self.f32, addend))
            finite = tile.op("fcmp olt", self.f32, size, splat("float", float("inf")))
            special = tile.op("fadd", self.f32, special, tile.select(self.f32, finite, "zeroinitializer", addend))
            addend = tile.select(self.f32, finite, addend, "zeroinitializer")
        if self.work == "double":
            value = self.sum_double(step, power, addend, left, base)
        elif self.narrow:
            value = self.sum_narrow(step, power, addend, left, base)
        else:
            value = self.sum_wide(step, power, addend, left, base)
        regular = tile.op("fcmp oeq", self.f32, special, "zeroinitializer")
        tile.store(self.f32, tile.select(self.f32, regular, value, special), running, n)

    def truncated(self, left: list[str], base: str, scale: str, step: Step) -> str:
        """The sum of truncated products, i32 (float work) or double."""
        tile, total = self.tile, ""
        for k in step.ks:
            product = tile.op("fmul", self.vec, tile.op("fmul", self.vec, left[k], tile.factor(self.work, base, k)), scale)
            if self.work == "double":
                term = tile.call(self.f64, f"llvm.trunc.v{self.rows}f64", (self.f64, product))
                total = tile.op("fadd", self.f64, total, term) if total else term
            else:
                term = tile.convert("fptosi", self.f32, product, self.i32)
                total = tile.op("add", self.i32, total, term) if total else term
        return total

    def inverse(self, power: str, fraction_bits: int, work: str = "float") -> str:
        """2^F / power, exactly; the result must be a normal number."""
        tile = self.tile
        type = vector(self.rows, work)
        integer, unit, twice = ("i32", 23, 254) if work == "float" else ("i64", 52, 2046)
        bits = tile.convert("bitcast", type, power, vector(self.rows, integer))
        return tile.convert(
            "bitcast",
            vector(self.rows, integer),
            tile.op("sub", vector(self.rows, integer), splat(integer, (twice + fraction_bits) << unit), bits),
            type,
        )

    def addend_power(self, addend: str) -> str:
        """As ``power``, of C or the running sum, in products' scale."""
        tile, floor = self.tile, MIN_EXPONENT[self.plan.d]
        bits = tile.op("and", self.i32, tile.convert("bitcast", self.f32, addend, self.i32), splat("i32", 0x7F800000))
        power = self.maximum(self.f32, tile.convert("bitcast", self.i32, bits, self.f32), splat("float", 2.0**floor))
        power = tile.select(self.f32, tile.op("fcmp oeq", self.f32, addend, "zeroinitializer"), "zeroinitializer", power)
        return power

    def sum_narrow(self, step: Step, product_power: str, addend: str, left: list[str], base: str) -> str:
        """All terms in i32; float work."""
        tile, f32, scaled = self.tile, self.f32, _scale_exponent(self.plan)
        power = product_power
        if addend:
            own = self.addend_power(addend)
            if scaled:
                own = tile.op("fmul", f32, own, splat("float", 2.0**scaled))
            power = self.maximum(f32, own, power)
        power = self.maximum(f32, power, splat("float", 2.0**-_CLAMP))
        scale = self.inverse(power, step.fraction_bits)
        # Where C is so large that the scale would make products subnormal, they are cut to nothing either way.
        product_scale = (
            self.maximum(f32, scale, splat("float", 2.0 ** (step.fraction_bits - _CLAMP)))
            if self.plan.d == "f32" and addend and self.plan.c_inside
            else scale
        )
        total = self.truncated(left, base, product_scale, step)
        if addend:
            scaled_addend = tile.op("fmul", f32, addend, splat("float", 2.0**scaled)) if scaled else addend
            aligned = tile.op("fmul", f32, scaled_addend, scale)
            total = tile.op("add", self.i32, total, tile.convert("fptosi", f32, aligned, self.i32))
        unit = tile.op("fmul", f32, power, splat("float", 2.0 ** (-step.fraction_bits - scaled)))
        value = self.rounding.integer(total, unit)
        if addend and self.plan.c_inside and self.plan.d == "f32":
            # No nonzero product: C alone, which may be too small for the clamped scale.
            alone = tile.op("fcmp oeq", f32, product_power, "zeroinitializer")
            value = tile.select(f32, alone, self.rounding.cut(tile.op("fadd", f32, addend, "zeroinitializer")), value)
        return value

    def sum_wide(self, step: Step, product_power: str, addend: str, left: list[str], base: str) -> str:
        """Products in i32, C and the sum in double; float work, no scaled operands."""
        tile, f32 = self.tile, self.f32
        assert addend and not _scale_exponent(self.plan)
        power = self.maximum(f32, self.addend_power(addend), product_power)
        low, high = (splat("float", 2.0**e) for e in (-_CLAMP, _CLAMP))
        product_scale = self.inverse(self.minimum(f32, self.maximum(f32, power, low), high), step.fraction_bits)
        total = tile.convert("sitofp", self.i32, self.truncated(left, base, product_scale, step), self.f64)
        return self.add_wide(step, total, tile.convert("fpext", f32, power, self.f64), addend)

    def sum_double(self, step: Step, product_power: str, addend: str, left: list[str], base: str) -> str:
        tile = self.tile
        assert addend
        own = tile.convert("fpext", self.f32, self.addend_power(addend), self.f64)
        power = self.maximum(self.f64, own, product_power)
        power = self.maximum(self.f64, power, splat("double", 2.0**-_WIDE_CLAMP))
        total = self.truncated(left, base, self.inverse(power, step.fraction_bits, "double"), step)
        return self.add_wide(step, total, power, addend)

    def add_wide(self, step: Step, total: str, power: str, addend: str) -> str:
        """C to an exact sum in double, and the rounding."""
        tile, f64, f32 = self.tile, self.f64, self.f32
        power = self.maximum(f64, power, splat("double", 2.0**-_WIDE_CLAMP))
        scale = self.inverse(power, step.fraction_bits, "double")
        aligned = tile.op("fmul", f64, tile.convert("fpext", f32, addend, f64), scale)
        total = tile.op("fadd", f64, total, tile.call(f64, f"llvm.trunc.v{self.rows}f64", (f64, aligned)))
        exact = tile.op("fmul", f64, total, tile.op("fmul", f64, power, splat("double", 2.0**-step.fraction_bits)))
        return self.rounding.double(exact)


def _define_specials(module: IrModule, plan: MmaPlan, name: str) -> None:
    """``name(rf, operands, table)``: into table [step][column] the IEEE sum of the products that are not finite, else 0."""
    tile = Tile(module, plan, name)
    tile.read_metadata()
    work = work_type(plan)
    vec, f32 = vector(tile.rows, work), vector(tile.rows, "float")
    left = [restore_nan(tile, plan.a, element, tile.rows, work) for element in _left_elements(tile, tile.read("a"), work)]
    count = 32 * tile.per
    right = tile.text.alloca(f"[{tile.registers['b']} x {vector(count, work)}]")
    for i, register in enumerate(tile.read("b")):
        values = restore_nan(tile, plan.b, tile.spread(plan.b, register, work), count, work)
        tile.store(vector(count, work), values, right, i)
    for number, step in enumerate(plan.steps):

        def column(n: str, number: int = number, step: Step = step) -> None:
            base = tile.at(right, f"[{tile.column_stride} x {work}]", n)
            total, bits = "", 32 if work == "float" else 64
            for k in step.ks:
                factor = tile.factor(work, base, k)
                if not total:
                    total = tile.op("fmul", vec, left[k], factor)
                else:
                    total = tile.call(vec, f"llvm.fma.v{tile.rows}f{bits}", (vec, left[k]), (vec, factor), (vec, total))
            # The work type holds every sum of finite products: what is not finite comes from products that are not, by IEEE's rules.
            size = tile.call(vec, f"llvm.fabs.v{tile.rows}f{bits}", (vec, total))
            finite = tile.op("fcmp olt", vec, size, splat(work, float("inf")))
            total = tile.select(vec, finite, "zeroinitializer", total)
            if work == "double":
                total = tile.convert("fptrunc", vec, total, f32)
            tile.store(f32, total, "%table", tile.op("add", "i64", n, str(number * tile.columns)))

        tile.column_loop(f"s{number}", column)
    tile.finish("ptr noalias %rf, ptr noalias %operands, ptr noalias %table")
