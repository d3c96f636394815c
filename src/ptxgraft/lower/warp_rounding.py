"""From exact sums to the bits of D, in LLVM text.

Invariant: a sum is exact until the one rounding its plan names, and never -0 after it. Rounding toward zero is rounding to nearest and one step back
where that went too far; rounding to f16 goes through an f32 rounded to odd, so that it happens once.
"""

from __future__ import annotations

from ptxgraft.lower.warp_tile import Tile, splat, vector


class Rounding:
    """The roundings of one tile's plan. Values are vectors over the rows; ``f32``, ``f64`` and ``i32`` are their types."""

    def __init__(self, tile: Tile) -> None:
        self.tile, self.plan, self.rows = tile, tile.plan, tile.rows
        self.f32, self.f64, self.i32 = (vector(tile.rows, t) for t in ("float", "double", "i32"))

    def _flags(self, condition: str, opcode: str) -> str:
        return self.tile.convert(opcode, vector(self.rows, "i1"), condition, self.i32)

    def integer(self, total: str, unit: str) -> str:
        """total (i32, below 2^31 - 64 in magnitude) * unit (f32 powers of two) in the plan's format, as f32."""
        tile, f32, i32 = self.tile, self.f32, self.i32
        near = tile.convert("sitofp", i32, total, f32)
        if self.plan.rounding == "e8m13.rz":  # at most 20 bits: exact
            return self.cut(tile.op("fmul", f32, near, unit))
        back = tile.convert("fptosi", f32, near, i32)
        sizes = [tile.call(i32, f"llvm.abs.v{self.rows}i32", (i32, x), ("i1", "false")) for x in (back, total)]
        over = self._flags(tile.op("icmp ugt", i32, *sizes), "sext")
        bits = tile.op("add", i32, tile.convert("bitcast", f32, near, i32), over)
        if self.plan.rounding == "f16.rn":
            bits = tile.op("or", i32, bits, self._flags(tile.op("icmp ne", i32, back, total), "zext"))
        value = tile.op("fmul", f32, tile.convert("bitcast", i32, bits, f32), unit)
        return self.to_half(value) if self.plan.rounding == "f16.rn" else value

    def double(self, exact: str) -> str:
        """An exact f64 in the plan's format (not ``e8m13.rz``), as f32; 2^128 and more becomes an infinity."""
        tile, f64, f32 = self.tile, self.f64, self.f32
        near = tile.convert("fptrunc", f64, exact, f32)
        back = tile.convert("fpext", f32, near, f64)
        sizes = [tile.call(f64, f"llvm.fabs.v{self.rows}f64", (f64, x)) for x in (back, exact)]
        over = self._flags(tile.op("fcmp ogt", f64, *sizes), "sext")
        bits = tile.op("add", self.i32, tile.convert("bitcast", f32, near, self.i32), over)
        if self.plan.rounding == "f16.rn":
            bits = tile.op("or", self.i32, bits, self._flags(tile.op("fcmp one", f64, back, exact), "zext"))
            return self.to_half(tile.convert("bitcast", self.i32, bits, f32))
        # Stepping back made the largest number of what is 2^128 and more.
        huge = tile.op("fcmp oge", f64, sizes[1], splat("double", 2.0**128))
        value = tile.select(f32, huge, near, tile.convert("bitcast", self.i32, bits, f32))
        return tile.op("fadd", f32, value, "zeroinitializer")

    def nearest(self, exact: str) -> str:
        """An f64 (exact, or rounded to odd) as an f32 that ``result`` rounds to the nearest number of D; a negative one that vanishes is -0."""
        tile = self.tile
        near = tile.convert("fptrunc", self.f64, exact, self.f32)
        if self.plan.d == "f32":
            return near
        # To odd: one step back where it went too far, the last bit set where it is not exact.
        back = tile.convert("fpext", self.f32, near, self.f64)
        sizes = [tile.call(self.f64, f"llvm.fabs.v{self.rows}f64", (self.f64, x)) for x in (back, exact)]
        over = self._flags(tile.op("fcmp ogt", self.f64, *sizes), "sext")
        bits = tile.op("add", self.i32, tile.convert("bitcast", self.f32, near, self.i32), over)
        bits = tile.op("or", self.i32, bits, self._flags(tile.op("fcmp one", self.f64, back, exact), "zext"))
        return tile.convert("bitcast", self.i32, bits, self.f32)

    def cut(self, value: str) -> str:
        """An f32 value that needs no rounding in f32 to the plan's format."""
        if self.plan.rounding != "e8m13.rz":
            return value
        bits = self.tile.op("and", self.i32, self.tile.convert("bitcast", self.f32, value, self.i32), splat("i32", -1024))
        return self.tile.op("fadd", self.f32, self.tile.convert("bitcast", self.i32, bits, self.f32), "zeroinitializer")

    def to_half(self, value: str) -> str:
        """To nearest f16, back as f32; never -0."""
        tile, half = self.tile, vector(self.rows, "half")
        rounded = tile.convert("fpext", half, tile.convert("fptrunc", self.f32, value, half), self.f32)
        return tile.op("fadd", self.f32, rounded, "zeroinitializer")

    def addends(self) -> list[str]:
        """C by columns, as f32."""
        tile = self.tile
        columns = tile.accumulators("c")
        if self.plan.c == "f32":
            return [tile.convert("bitcast", self.i32, bits, self.f32) for bits in columns]
        short, half = vector(self.rows, "i16"), vector(self.rows, "half")
        return [tile.convert("fpext", half, tile.convert("bitcast", short, bits, half), self.f32) for bits in columns]

    def result(self, value: str, addend: str = "") -> str:
        """The bits of a column of D; ``addend`` is a C that is added last, rounded to nearest."""
        tile, f32 = self.tile, self.f32
        if addend:
            value = tile.op("fadd", f32, value, addend)
        nan = tile.op("fcmp uno", f32, value, value)
        if self.plan.d == "f32":
            return tile.select(self.i32, nan, splat("i32", 0x7FFFFFFF), tile.convert("bitcast", f32, value, self.i32))
        short, half = vector(self.rows, "i16"), vector(self.rows, "half")
        bits = tile.convert("bitcast", half, tile.convert("fptrunc", f32, value, half), short)
        return tile.select(short, nan, splat("i16", 0x7FFF), bits)
