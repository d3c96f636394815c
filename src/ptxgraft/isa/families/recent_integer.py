"""Integers of PTX 9.2 and 9.3: bytes four to a register, saturating sums of other widths, carry-less products (PTX ISA manual, "Integer
Arithmetic Instructions": add, sub, min, max, neg, clmad).

Invariant: the elements of a register never meet; without ``.sat`` they wrap.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction


def _each(lanes: Lanes, width: int, signed: bool, function: Callable[..., Value], *operands: Value) -> Value:
    """``function`` on every element of ``width`` bits, given and taken back as 32-bit numbers."""
    parts = []
    for offset in range(0, 32, width):
        elements = (lanes.resize(lanes.extract(o, offset, width), 32, signed) for o in operands)
        parts.append(lanes.resize(function(*elements), width))
    return lanes.concat(parts)


def _limited(lanes: Lanes, width: int, signed: bool, a: Value) -> Value:
    """A signed 32-bit number limited to ``width`` bits."""
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
    a = lanes.select(lanes.compare("lt", a, lanes.const(low, 32), signed=True), lanes.const(low, 32), a)
    return lanes.select(lanes.compare("gt", a, lanes.const(high, 32), signed=True), lanes.const(high, 32), a)


def _sum(lanes: Lanes, width: int, signed: bool, subtract: bool, sat: str, a: Value, b: Value) -> Value:
    def one(x: Value, y: Value) -> Value:
        result = lanes.sub(x, y) if subtract else lanes.add(x, y)
        return _limited(lanes, width, signed, result) if sat else result

    return _each(lanes, width, signed, one, a, b)


BYTES = "{type:u8x4|s8x4}"


@instruction(
    f"add.{{sat}}?.{BYTES}", d="out {type}", a="in {type}", b="in {type}", since=(9, 2), sm=120, specific="f",
    examples=[("add.u8x4", (0xFF01807F, 0x01010101), (0x00028180,)), ("add.sat.u8x4", (0xFF01807F, 0x01010101), (0xFF028180,)),
              ("add.sat.s8x4", (0x7F80FF00, 0x01FF0101), (0x7F800001,))],
)  # fmt: skip
def add(lanes: Lanes, a: Value, b: Value, *, sat: str, type: str) -> Value:
    """d = a + b, each byte for itself."""
    return _sum(lanes, 8, type == "s8x4", False, sat, a, b)


@instruction(
    f"sub.{{sat}}?.{BYTES}", d="out {type}", a="in {type}", b="in {type}", since=(9, 2), sm=120, specific="f",
    examples=[("sub.u8x4", (0x00028180, 0x01010101), (0xFF01807F,)), ("sub.sat.u8x4", (0x00028180, 0x01010101), (0x0001807F,)),
              ("sub.sat.s8x4", (0x80000000, 0x01800100), (0x807FFF00,))],
)  # fmt: skip
def sub(lanes: Lanes, a: Value, b: Value, *, sat: str, type: str) -> Value:
    """d = a - b, each byte for itself."""
    return _sum(lanes, 8, type == "s8x4", True, sat, a, b)


@instruction(
    "neg.{type:s8x4}",
    d="out {type}",
    a="in {type}",
    since=(9, 2),
    sm=120,
    specific="f",
    examples=[("neg.s8x4", (0x0180FF00,), (0xFF800100,))],
)
def neg(lanes: Lanes, a: Value) -> Value:
    """d = -a, each byte for itself."""
    return _each(lanes, 8, True, lambda x: lanes.sub(lanes.const(0, 32), x), a)


@instruction(
    "add.{sat}.{type:u16x2|s16x2}", d="out {type}", a="in {type}", b="in {type}", since=(9, 2), sm=120, specific="f",
    examples=[("add.sat.u16x2", (0xFFFF0001, 0x00010001), (0xFFFF0002,)), ("add.sat.s16x2", (0x80007FFF, 0xFFFF0001), (0x80007FFF,))],
)  # fmt: skip
def add_halves(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = a + b limited to the type, each half for itself."""
    return _sum(lanes, 16, type == "s16x2", False, "sat", a, b)


@instruction(
    "add.sat.u32", d="out u32", a="in u32", b="in u32", since=(9, 2), sm=120, specific="f",
    examples=[("add.sat.u32", (0xFFFFFFFF, 2), (0xFFFFFFFF,)), ("add.sat.u32", (3, 2), (5,))],
)  # fmt: skip
def add_word(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = a + b limited to u32."""
    total = lanes.add(a, b)
    return lanes.select(lanes.compare("lt", total, a), lanes.const(0xFFFFFFFF, 32), total)


def _declare_extreme(root: str, order: str, word: str) -> None:
    def extreme(lanes: Lanes, a: Value, b: Value, *, relu: str, type: str) -> Value:
        signed = type == "s8x4"

        def one(x: Value, y: Value) -> Value:
            found = lanes.select(lanes.compare(order, x, y, signed), x, y)
            zero = lanes.const(0, 32)
            return lanes.select(lanes.compare("lt", found, zero, signed=True), zero, found) if relu else found

        return _each(lanes, 8, signed, one, a, b)

    extreme.__doc__ = f"d = the {word}, each byte for itself; relu: negative results give 0."
    first = root == "min"
    signed = (f"{root}.s8x4", (0x80017F00, 0x7F02FF01), (0x8001FF00 if first else 0x7F027F01,))
    unsigned = (f"{root}.u8x4", (0x80017F00, 0x7F02FF01), (0x7F017F00 if first else 0x8002FF01,))
    relu = (f"{root}.relu.s8x4", (0x80017F00, 0x7F02FF01), (0x00010000 if first else 0x7F027F01,))
    for form, examples in (("{type:u8x4}", [unsigned]), ("{relu}?.{type:s8x4}", [signed, relu])):
        instruction(f"{root}.{form}", d="out {type}", a="in {type}", b="in {type}", since=(9, 2), sm=120, specific="f", examples=examples)(
            extreme
        )


_declare_extreme("min", "lt", "smaller")
_declare_extreme("max", "gt", "larger")


# -- carry-less products --------------------------------------------------------------------------------------------------
@instruction(
    "clmad.{half:lo|hi}.u64", d="out u64", a="in u64", b="in u64", c="in u64", since=(9, 3), sm=80,
    examples=[
        ("clmad.lo.u64", (3, 3, 0), (5,)),
        ("clmad.lo.u64", (0xFFFFFFFFFFFFFFFF, 2, 1), (0xFFFFFFFFFFFFFFFF,)),
        ("clmad.hi.u64", (0xFFFFFFFFFFFFFFFF, 2, 8), (9,)),
        ("clmad.hi.u64", (1 << 63, 1 << 63, 0), (1 << 62,)),
    ],
)  # fmt: skip
def clmad(lanes: Lanes, a: Value, b: Value, c: Value, *, half: str) -> Value:
    """d = the lower or upper half of the product of a and b as polynomials over two elements, xor c."""
    result = c
    one, zero = lanes.const(1, 64), lanes.const(0, 64)
    for i in range(64):
        bit = lanes.compare("ne", lanes.and_(lanes.shift_right(b, lanes.const(i, 32)), one), zero)
        moved = lanes.shift_left(a, lanes.const(i, 32)) if half == "lo" else lanes.shift_right(a, lanes.const(64 - i, 32))
        result = lanes.xor(result, lanes.select(bit, moved, zero))
    return result
