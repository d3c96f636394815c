"""Integer operations of ``Lanes`` that are no single LLVM instruction: quotients, high products, table look-up, reading other lanes.

Invariant: no operand traps, and no table or lane index reads outside its table or warp, whatever inactive lanes hold.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.lower.ir import VECTOR, Val, literal
from ptxgraft.lower.warp_build import Build
from ptxgraft.lower.warp_fold import fold


def quotient(b: Build, x: Val, y: Val, signed: bool) -> tuple[Val, Val]:
    """Truncated quotients, and where the divisor is zero (there the quotient is x). The most negative value by -1 gives itself."""
    width = x.width
    zero = b.compare("icmp eq", y, literal(0, width))
    undefined = zero
    if signed:
        most_negative = b.compare("icmp eq", x, literal(1 << (width - 1), width))
        undefined = b.op("or", zero, b.op("and", most_negative, b.compare("icmp eq", y, literal(-1, width))))
    # By one instead: x86 traps on both.
    safe = b.select(undefined, literal(1, width), y)
    x, safe = b.join(x, safe)
    opcode = "sdiv" if signed else "udiv"
    if x.count == 1:
        return b.op(opcode, x, safe), zero
    if width == 64:
        return b.outline(f"{opcode}64", [x, safe], lambda out, v: [_one_by_one(Build(out, b.features), opcode, *v)])[0], zero
    # Truncating the rounded quotient is exact: it is 1 / y or more below the next integer, and the error is less.
    elem = "float" if width <= 16 else "double"
    to_float, to_int = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    q = b.op("fdiv", b.cast(to_float, x, elem), b.cast(to_float, safe, elem))
    if width < 32:
        return b.cast("trunc", b.cast("fptosi", q, "i32"), f"i{width}"), zero
    return b.cast(to_int, q, f"i{width}"), zero


def _one_by_one(b: Build, opcode: str, x: Val, y: Val) -> Val:
    """Lane after lane in a loop."""
    out = b.out
    places = [out.alloca(x.type) for _ in range(3)]
    for v, place in zip((x, y), places, strict=False):
        out.emit(f"store {v.typed}, ptr {place}, align 64")
    before, loop, after = out.block, out.fresh_label("lane"), out.fresh_label("done")
    out.emit(f"br label %{loop}")
    out.label(loop)
    lane, following = out.fresh(), out.fresh()
    out.emit(f"{lane} = phi i32 [ 0, %{before} ], [ {following}, %{loop} ]")
    at = [out.value(f"getelementptr {x.elem}, ptr {place}, i32 {lane}") for place in places]
    left, right = (out.value(f"load {x.elem}, ptr {p}") for p in at[:2])
    out.emit(f"store {x.elem} {out.value(f'{opcode} {x.elem} {left}, {right}')}, ptr {at[2]}")
    out.emit(f"{following} = add i32 {lane}, 1")
    more = out.value(f"icmp ult i32 {following}, {x.count}")
    out.emit(f"br i1 {more}, label %{loop}, label %{after}")
    out.label(after)
    return b.new(f"load {x.type}, ptr {places[2]}, align 64", x.elem, x.count)


def high_product(b: Build, x: Val, y: Val, signed: bool) -> Val:
    """The upper 64 bits of 64 x 64-bit products, by 32-bit halves."""
    x, y = b.join(x, y)
    x0, y0 = b.masked(x, 0xFFFFFFFF), b.masked(y, 0xFFFFFFFF)
    x1, y1 = b.shifted("lshr", x, 32), b.shifted("lshr", y, 32)
    cross = b.op("mul", x1, y0)
    middle = b.op("add", b.shifted("lshr", b.op("mul", x0, y0), 32), b.masked(cross, 0xFFFFFFFF))
    middle = b.op("add", middle, b.op("mul", x0, y1))
    high = b.op("add", b.op("mul", x1, y1), b.op("add", b.shifted("lshr", cross, 32), b.shifted("lshr", middle, 32)))
    if signed:
        for one, other in ((x, y), (y, x)):
            high = b.op("sub", high, b.op("and", b.shifted("ashr", one, 63), other))
    return high


# -- tables -----------------------------------------------------------------------------------------------------------
def look_up(b: Build, table: Sequence[int], index: Val, width: int) -> Val:
    """``table[index]``; an index past the end reads the last entry."""
    last = len(table) - 1
    found = fold(width, lambda i: table[min(i, last)], index)
    if found is not None:
        return found
    if index.width < 32:
        index = b.cast("zext", index, "i32")
    index = b.call("llvm.umin", index, literal(last, index.width))
    holder = 64 if width == 64 else 32
    assert width <= 64, "tables hold up to 64 bits an entry"
    if index.count == VECTOR and holder == 32 and len(table) <= 32 and "avx512f" in b.features:
        entries = b.out.module.table([*table, *[table[-1]] * (32 - len(table))], 32)
        whole = b.new(f"load <32 x i32>, ptr {entries}, align 64", "i32", 32)
        found = _permute(b, b.pick(whole, range(16)), b.pick(whole, range(16, 32)), index)
    else:
        place = b.out.module.table(table, holder)
        found = gather(b, place, index, f"i{holder}")
    return found if width == holder else b.cast("trunc", found, f"i{width}")


def gather(b: Build, place: str, index: Val, elem: str) -> Val:
    """Elements of the array at ``place``, each lane its own; an index is an unsigned number below 2**31."""
    if index.count == 1:
        at = b.out.value(f"getelementptr {elem}, ptr {place}, {index.typed}")
        return b.new(f"load {elem}, ptr {at}", elem, 1)
    count = index.count
    at = b.out.value(f"getelementptr {elem}, ptr {place}, {index.typed}")
    size = int(elem[1:]) // 8
    name = f"@llvm.masked.gather.v{count}{elem}.v{count}p0"
    b.out.declare(f"declare <{count} x {elem}> {name}(<{count} x ptr>, <{count} x i1>, <{count} x {elem}>)")
    return b.new(
        f"call <{count} x {elem}> {name}(<{count} x ptr> align {size} {at}, <{count} x i1> splat (i1 true), <{count} x {elem}> poison)",
        elem,
        count,
    )


# -- other lanes ------------------------------------------------------------------------------------------------------
def read_lane(b: Build, a: Val, lane: Val) -> Val:
    """``a`` of the lane that each lane names, modulo 32."""
    if a.count == 1:
        return a
    if type(lane.const) is tuple:
        return b.pick(a, [i % VECTOR for i in lane.const])
    if lane.count == 1:
        return b.new(f"extractelement {a.typed}, {b.masked(lane, VECTOR - 1).typed}", a.elem, 1)
    if a.width == 128:
        words = b.regroup(a, "i64")
        low, high = (read_lane(b, b.pick(words, range(i, 2 * VECTOR, 2)), lane) for i in (0, 1))
        order = [i + half * VECTOR for i in range(VECTOR) for half in (0, 1)]
        return b.regroup(b.interleave(low, high, order), "i128")
    if a.width == 64:
        low = read_lane(b, b.cast("trunc", a, "i32"), lane)
        high = read_lane(b, b.cast("trunc", b.shifted("lshr", a, 32), "i32"), lane)
        return b.op("or", b.shifted("shl", b.cast("zext", high, "i64"), 32), b.cast("zext", low, "i64"))
    if a.width < 32:
        return b.cast("trunc", read_lane(b, b.cast("zext", a, "i32"), lane), a.elem)
    lane = b.masked(lane, VECTOR - 1)
    if "avx512f" in b.features:
        return _permute(b, b.pick(a, range(16)), b.pick(a, range(16, 32)), lane)
    place = b.out.slot(("lanes", a.type), a.type)
    b.out.emit(f"store {a.typed}, ptr {place}, align 64")
    return gather(b, place, lane, "i32")


def _permute(b: Build, low: Val, high: Val, index: Val) -> Val:
    """Element ``index`` (0 .. 31) of two vectors of 16 b32, for each of 32 lanes: two AVX-512 instructions."""
    name = "@llvm.x86.avx512.vpermi2var.d.512"
    b.out.declare(f"declare <16 x i32> {name}(<16 x i32>, <16 x i32>, <16 x i32>)")
    parts = []
    for i in (0, 16):
        wanted = b.pick(index, range(i, i + 16))
        parts.append(b.new(f"call <16 x i32> {name}({low.typed}, {wanted.typed}, {high.typed})", "i32", 16))
    return b.interleave(parts[0], parts[1], range(32))
