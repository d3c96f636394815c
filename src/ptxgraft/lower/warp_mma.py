"""The tensor core as LLVM text: one function per ``MmaPlan`` that reads and writes fragments in a warp's register file.

Invariant: the bits are those of ``lower.numpy_mma`` for every operand, on every host with AVX2, F16C and FMA: no target intrinsics, no rounding mode but
nearest, no library calls.
"""

from __future__ import annotations

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import is_quad_pair
from ptxgraft.isa.numerics import MmaPlan
from ptxgraft.lower.ir import IrModule
from ptxgraft.lower.warp_dot import define_dot, has_dot
from ptxgraft.lower.warp_fused import define_fused
from ptxgraft.lower.warp_terms import define_terms, has_terms
from ptxgraft.lower.warp_tile import Tile, splat, vector


def has_primitive(plan: MmaPlan) -> bool:
    """Can ``mma_function`` write this plan? Others are chains of scalar operations (``lower.mma_chains``), or four of these (``lower.mma_quad_pairs``)."""
    if plan.kind in ("float", "blocks", "exact"):
        return not is_quad_pair(plan.shape, plan.a)
    return plan.kind in ("int", "bit") or (plan.kind == "f64" and plan.rounding == "rn")


def mma_function(plan: MmaPlan, name: str) -> str:
    """A module's text that defines ``void @name(ptr %rf, ptr %operands)``.

    ``rf`` is a register file: a register is 32 lanes side by side (i32; f64: i64), aligned to 64 bytes. ``operands`` are i32 byte offsets into it of D's,
    A's, B's and C's registers in this order, then of a sparse A's metadata and of A's and B's factors; D may share registers with the others. Other functions that it defines are called ``name.something``.
    Raises ``UnsupportedError`` for a plan without a primitive.
    """
    module = IrModule()
    define_mma(module, plan, name)
    return module.text()


def define_mma(module: IrModule, plan: MmaPlan, name: str) -> None:
    """As ``mma_function``, into a module under construction."""
    if not has_primitive(plan):
        raise UnsupportedError(f"mma {plan.name} has no compiled form", hint="the numpy executor runs it")
    if has_terms(plan):
        define_terms(module, plan, name)
        return
    if plan.kind == "float":
        (define_dot if has_dot(plan) else define_fused)(module, plan, name)
        return
    tile = Tile(module, plan, name)
    {"int": _define_int, "bit": _define_bit, "f64": _define_f64}[plan.kind](tile)
    tile.finish()


def _define_int(tile: Tile) -> None:
    """Integers as f32: 64 products of at most 255 * 255 stay below 2^24, so fma adds them exactly."""
    tile.read_metadata()
    plan, floats, ints = tile.plan, vector(tile.rows, "float"), vector(tile.rows, "i32")
    left = [
        element
        for group in tile.groups("a", tile.read("a"))
        for word in tile.words(group)
        for element in tile.row_elements(plan.a, word, "float")
    ]
    right = tile.text.alloca(f"[{32 * tile.per * tile.registers['b']} x float]")
    for i, register in enumerate(tile.read("b")):
        for j, plane in enumerate(tile.planes(plan.b, register, "float")):
            tile.store("<32 x float>", plane, right, i * tile.per + j)
    addends = tile.accumulators("c")
    sums = tile.text.alloca(f"[{tile.columns} x {ints}]")

    def column(n: str) -> None:
        total = ""
        base = tile.at(right, f"[{tile.column_stride} x float]", n)
        for k in range(tile.depth):
            factor = tile.factor("float", base, k)
            if not total:
                total = tile.op("fmul", floats, left[k], factor)
            else:
                total = tile.call(floats, f"llvm.fma.v{tile.rows}f32", (floats, left[k]), (floats, factor), (floats, total))
        tile.store(ints, tile.convert("fptosi", floats, total, ints), sums, n)

    tile.column_loop("column", column)
    results: list[str] = []
    for n, addend in enumerate(addends):
        total = tile.load(ints, sums, n)
        if plan.satfinite:
            results.append(tile.call(ints, f"llvm.sadd.sat.v{tile.rows}i32", (ints, addend), (ints, total)))
        else:
            results.append(tile.op("add", ints, addend, total))
    tile.put_results(results)


def _define_bit(tile: Tile) -> None:
    ints = vector(tile.rows, "i32")
    # A and B registers are words of 32 k: the row-major matrix has one column a word.
    left = [w for group in tile.groups("a", tile.read("a")) for w in tile.words(group)]
    right = tile.read("b")
    results: list[str] = []
    for n, total in enumerate(tile.accumulators("c")):
        for k, word in enumerate(left):
            lane = 4 * n + k % 4
            factor = tile.value(f"shufflevector <32 x i32> {right[k // 4]}, <32 x i32> poison, <{tile.rows} x i32> splat (i32 {lane})")
            ones = tile.call(ints, f"llvm.ctpop.v{tile.rows}i32", (ints, tile.op(tile.plan.bit_op, ints, word, factor)))
            total = tile.op("add", ints, total, ones)
        results.append(total)
    tile.put_results(results)


def _define_f64(tile: Tile) -> None:
    """A chain of fma; whichever column ends in a NaN is done again with the hardware's choice among NaN operands at each step."""
    doubles, longs = vector(tile.rows, "double"), vector(tile.rows, "i64")
    quiet, default = splat("i64", 1 << 51), splat("i64", -(1 << 51))
    left = [tile.convert("bitcast", longs, w, doubles) for g in tile.groups("a", tile.read("a")) for w in tile.words(g)]
    right = tile.read("b")
    addends = [tile.convert("bitcast", longs, c, doubles) for c in tile.accumulators("c")]

    def factor(n: int, k: int) -> str:
        lane = 4 * n + k % 4
        word = tile.value(f"shufflevector <32 x i64> {right[k // 4]}, <32 x i64> poison, <{tile.rows} x i32> splat (i32 {lane})")
        return tile.convert("bitcast", longs, word, doubles)

    def fma(n: int, k: int, total: str) -> str:
        return tile.call(doubles, f"llvm.fma.v{tile.rows}f64", (doubles, left[k]), (doubles, factor(n, k)), (doubles, total))

    def is_nan(name: str) -> str:
        return tile.value(f"fcmp uno {doubles} {name}, {name}")

    def quieted(name: str) -> str:
        return tile.convert("bitcast", longs, tile.op("or", longs, tile.convert("bitcast", doubles, name, longs), quiet), doubles)

    results: list[str] = []
    for n, addend in enumerate(addends):
        fast = addend
        for k in range(tile.depth):
            fast = fma(n, k, fast)
        before = tile.text.block
        bits = tile.call("i1", f"llvm.vector.reduce.or.v{tile.rows}i1", (vector(tile.rows, "i1"), is_nan(fast)))
        tile.text.emit(f"br i1 {bits}, label %slow{n}, label %done{n}")
        tile.text.label(f"slow{n}")
        slow = addend
        for k in range(tile.depth):
            result = fma(n, k, slow)
            invalid = tile.convert("bitcast", longs, default, doubles)
            result = tile.select(doubles, is_nan(result), invalid, result)
            for operand in (left[k], slow, factor(n, k)):
                result = tile.select(doubles, is_nan(operand), quieted(operand), result)
            slow = result
        tile.text.emit(f"br label %done{n}")
        tile.text.label(f"done{n}")
        total = tile.value(f"phi {doubles} [ {fast}, %{before} ], [ {slow}, %slow{n} ]")
        results.append(tile.convert("bitcast", doubles, total, longs))
    tile.put_results(results)
