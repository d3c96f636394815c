"""Scalar video instructions (PTX ISA manual, "Scalar Video Instructions"): one operation on bytes, halves or words, then a second one or a merge.

Invariant: values are signed numbers of 64 bits, in which the manual's stages of 33 and 34 bits are exact, and are cut to those where the manual cuts.
Since sm_50 the hardware's compiler emulates them, not always by the manual (docs/compiler-findings.md); here they are the manual's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction

TYPES = ".{dtype:u32|s32}.{atype:u32|s32}.{btype:u32|s32}"
COMPARE = ".{atype:u32|s32}.{btype:u32|s32}.{cmp:eq|ne|lt|le|gt|ge}"
SINCE = (2, 0)
_SECOND = ".{op2:add|min|max}"
_PART, _SIGNED_PART = "(b[0-3]|h[01])?", "-?(b[0-3]|h[01])?"
_SIZE = {"b": 8, "h": 16}

Operation = Callable[[Lanes, Value, Value], Value]
"""An operation on two signed 64-bit numbers."""


def less(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.compare("lt", a, b, signed=True)


def lesser(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.select(less(lanes, a, b), a, b)


def larger(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.select(less(lanes, a, b), b, a)


def distance(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.select(less(lanes, a, b), lanes.sub(b, a), lanes.sub(a, b))


OPERATIONS: dict[str, Operation] = {
    "vadd": lambda lanes, a, b: lanes.add(a, b),
    "vsub": lambda lanes, a, b: lanes.sub(a, b),
    "vabsdiff": distance,
    "vmin": lesser,
    "vmax": larger,
}


# -- the stages -----------------------------------------------------------------------------------------------------------
def _selected(lanes: Lanes, a: Value, part: str, signed: bool) -> Value:
    """The part of ``a`` as a number of 64 bits."""
    if part:
        size = _SIZE[part[0]]
        a = lanes.extract(a, size * int(part[1]), size)
    return lanes.resize(a, 64, signed)


def clamp(lanes: Lanes, a: Value, size: int, signed: bool) -> Value:
    """``a``, a signed number, limited to what ``size`` bits hold."""
    width = lanes.width(a)
    least, most = (-(1 << size - 1), (1 << size - 1) - 1) if signed else (0, (1 << size) - 1)
    return lesser(lanes, larger(lanes, a, lanes.const(least, width)), lanes.const(most, width))


def _cut(lanes: Lanes, a: Value, bits: int) -> Value:
    """``a`` as a signed number of ``bits`` bits."""
    beyond = lanes.const(64 - bits, 32)
    return lanes.shift_right(lanes.shift_left(a, beyond), beyond, signed=True)


def _finish(lanes: Lanes, a: Value, c: Value | None, dtype: str, sat: str, op2: str, part: str) -> Value:
    """Saturate; then the second operation with c, or the merge into it."""
    size = _SIZE[part[0]] if part else 32
    if sat:
        a = clamp(lanes, a, size, dtype == "s32")
    if op2:
        second: dict[str, Operation] = {"add": lambda lanes, a, b: lanes.add(a, b), "min": lesser, "max": larger}
        a = second[op2](lanes, _cut(lanes, a, 33), lanes.resize(c, 64, dtype == "s32"))
    a = lanes.resize(a, 32)
    if not part:
        return a
    place, field = lanes.const(size * int(part[1]), 32), lanes.const((1 << size) - 1, 32)
    hole = lanes.not_(lanes.shift_left(field, place))
    return lanes.or_(lanes.shift_left(lanes.and_(a, field), place), lanes.and_(c, hole))


# -- operations on two operands -------------------------------------------------------------------------------------------
def _two(operation: Operation) -> Callable[..., Value]:
    def video(
        lanes: Lanes, a: Value, b: Value, c: Value = None, *, dtype: str, atype: str, btype: str, sat: str, op2: str, a_part: str, b_part: str,
        d_part: str,
    ) -> Value:  # fmt: skip
        """d = an operation on parts of a and b; then an operation with c, or a merge into it."""
        x, y = _selected(lanes, a, a_part, atype == "s32"), _selected(lanes, b, b_part, btype == "s32")
        return _finish(lanes, operation(lanes, x, y), c, dtype, sat, op2, d_part)

    return video


def _shift(left: bool) -> Callable[..., Value]:
    def shift(
        lanes: Lanes, a: Value, b: Value, c: Value = None, *, dtype: str, atype: str, sat: str, mode: str, op2: str, a_part: str, b_part: str,
        d_part: str,
    ) -> Value:  # fmt: skip
        """d = a part of a shifted by a part of b; then an operation with c, or a merge into it."""
        x, amount = _selected(lanes, a, a_part, atype == "s32"), _selected(lanes, b, b_part, False)
        amount = lanes.and_(amount, lanes.const(31, 64)) if mode == "wrap" else lesser(lanes, amount, lanes.const(32, 64))
        x = _cut(lanes, lanes.shift_left(x, amount), 34) if left else lanes.shift_right(x, amount, signed=True)
        return _finish(lanes, x, c, dtype, sat, op2, d_part)

    return shift


def _compare(
    lanes: Lanes, a: Value, b: Value, c: Value = None, *, atype: str, btype: str, cmp: str, op2: str, a_part: str, b_part: str, d_part: str
) -> Value:
    """d = whether parts of a and b compare so (1 or 0); then an operation with c, or a merge into it."""
    x, y = _selected(lanes, a, a_part, atype == "s32"), _selected(lanes, b, b_part, btype == "s32")
    held = lanes.resize(lanes.compare(cmp, x, y, signed=True), 64)
    return _finish(lanes, held, c, "u32", "", op2, d_part)


_EXAMPLES = {
    "vadd": (
        [("vadd.s32.u32.s32.sat a=b0 b=h0", (0x123456FF, 0x56788000), (-0x7F01,)), ("vadd.u32.u32.u32", (0xFFFFFFFF, 2), (1,))],
        [("vadd.s32.s32.s32.sat.max", (0x7FFFFFFF, 1, 0), (0x7FFFFFFF,)), ("vadd.u32.u32.u32.add a=h1", (0xFFFF0001, 1, 5), (0x10005,))],
        [("vadd.u32.u32.u32.sat d=b2", (200, 100, 0x11223344), (0x11FF3344,)), ("vadd.u32.u32.u32", (1, 2, 3), (3,))],
    ),
    "vsub": (
        [("vsub.s32.s32.u32.sat", (0x80000000, 1), (0x80000000,)), ("vsub.u32.u32.u32.sat", (1, 2), (0,))],
        [("vsub.s32.u32.u32.min", (1, 2, 5), (-1,)), ("vsub.u32.u32.u32.max", (1, 2, 5), (5,))],
        [("vsub.s32.s32.s32 d=h1 a=b3", (0x80000000, 1, 0x11223344), (0xFF7F3344,))],
    ),
    "vabsdiff": (
        [("vabsdiff.u32.s32.s32", (0x80000000, 0x7FFFFFFF), (0xFFFFFFFF,)), ("vabsdiff.s32.s32.s32.sat", (0x80000000, 1), (0x7FFFFFFF,))],
        [("vabsdiff.u32.u32.u32.add a=b1 b=b2", (0x500, 0x70000, 100), (102,))],
        [("vabsdiff.s32.s32.s32.sat d=h0 b=b2", (0, 0xFF0000, 0xFFFFFFFF), (0xFFFF0001,))],
    ),
    "vmin": (
        [("vmin.s32.s32.u32", (-5, 3), (-5,)), ("vmin.u32.s32.u32.sat", (-5, 3), (0,))],
        [("vmin.s32.s32.s32.sat.add", (-5, 3, 10), (5,))],
        [("vmin.u32.u32.u32 d=b3", (0x1234, 0x2345, 0), (0x34000000,))],
    ),
    "vmax": (
        [("vmax.u32.u32.s32", (3, -5), (3,)), ("vmax.s32.u32.u32.sat", (0xFFFFFFFF, 0), (0x7FFFFFFF,))],
        [("vmax.u32.u32.u32.min", (7, 3, 5), (5,))],
        [("vmax.s32.s32.s32.sat d=b0", (300, 3, 0x55555555), (0x5555557F,))],
    ),
    "vset": (
        [("vset.s32.u32.lt", (-1, 0), (1,)), ("vset.u32.u32.ne b=h1", (5, 0x50000), (0,))],
        [("vset.s32.s32.ge.add a=b0", (0x80, -128, 41), (42,))],
        [("vset.u32.u32.eq d=h1", (7, 7, 0xAAAAAAAA), (0x0001AAAA,))],
    ),
    "vshl": (
        [("vshl.s32.u32.u32.clamp", (1, 40), (0,)), ("vshl.u32.u32.u32.sat.wrap", (0xF0000000, 33), (0xFFFFFFFF,))],
        [("vshl.u32.u32.u32.wrap.add a=b1", (0x300, 4, 1), (0x31,))],
        [("vshl.u32.u32.u32.sat.clamp d=b1", (0x80, 1, 0), (0xFF00,))],
    ),
    "vshr": (
        [("vshr.u32.u32.u32.wrap b=h1", (0x100, 0x240000), (0x10,)), ("vshr.s32.s32.u32.clamp", (-8, 100), (-1,))],
        [("vshr.u32.s32.u32.sat.clamp.max", (-8, 1, 3), (3,))],
        [("vshr.s32.s32.u32.clamp d=h1 a=b3", (0x80000000, 3, 0x1234), (0xFFF01234,))],
    ),
}  # fmt: skip
_SPELLINGS = {
    **dict.fromkeys(OPERATIONS, f"{TYPES}.{{sat}}?"),
    "vset": COMPARE,
    **dict.fromkeys(("vshl", "vshr"), ".{dtype:u32|s32}.{atype:u32|s32}.u32.{sat}?.{mode:clamp|wrap}"),
}
_MEANINGS = {root: _two(operation) for root, operation in OPERATIONS.items()} | {
    "vset": _compare, "vshl": _shift(left=True), "vshr": _shift(left=False),
}  # fmt: skip
_C: dict[str, Any] = {"c": "in b32"}
_LISTS: tuple[tuple[str, dict[str, Any], dict[str, str]], ...] = (("", {}, {}), (_SECOND, _C, {}), ("", _C, {"d": _PART}))
"""The manual's operand lists: the second operation, its operand, the parts of d that may be merged into it."""
for _root, _spelling in _SPELLINGS.items():
    for (_second, _c, _merged), _rows in zip(_LISTS, _EXAMPLES[_root], strict=True):
        instruction(
            _root + _spelling + _second, d="out u32" if _root == "vset" else "out {dtype}", a="in b32", b="in b32", **_c,
            parts={"a": _PART, "b": _PART, **_merged}, since=SINCE, sm=20, examples=_rows,
        )(_MEANINGS[_root])  # fmt: skip


# -- products -------------------------------------------------------------------------------------------------------------
def _multiply(
    lanes: Lanes, a: Value, b: Value, c: Value, atype: str, btype: str, sat: str, scale: str, one: bool, parts: tuple[str, str, str]
) -> Value:
    """The product and the sum have at most 66 bits: they are kept in a low word of 64 bits and in the bits above it, scaled, and cut to 64."""
    minus = parts[0].startswith("-") != parts[1].startswith("-")
    minus_c = parts[2] == "-" and not minus
    x, y = (_selected(lanes, v, part.lstrip("-"), type == "s32") for v, part, type in ((a, parts[0], atype), (b, parts[1], btype)))
    signed = "s32" in (atype, btype) or minus or minus_c
    low, high = lanes.mul(x, y), lanes.mul_high(x, y, signed=True)
    if minus:
        low, high = lanes.not_(low), lanes.not_(high)
    if minus_c:
        c = lanes.not_(c)
    addend = lanes.resize(c, 64, signed)
    if one or minus or minus_c:
        # The sum of two numbers of 33 bits and of 1 fits.
        addend = lanes.add(addend, lanes.const(1, 64))
    total = lanes.add(low, addend)
    carry = lanes.resize(lanes.compare("lt", total, low), 64)
    high = lanes.add(lanes.add(high, lanes.shift_right(addend, lanes.const(63, 32), signed=True)), carry)
    if scale:
        count = int(scale[3:])
        total = lanes.or_(lanes.shift_right(total, lanes.const(count, 32)), lanes.shift_left(high, lanes.const(64 - count, 32)))
        high = lanes.shift_right(high, lanes.const(count, 32), signed=True)
    if sat:
        total = _clamp_wide(lanes, total, high, signed)
    return lanes.resize(total, 32)


def _clamp_wide(lanes: Lanes, low: Value, high: Value, signed: bool) -> Value:
    """A signed number of 128 bits limited to 32."""
    zero = lanes.const(0, 64)
    negative = less(lanes, high, zero)
    fits = lanes.compare("eq", high, lanes.shift_right(low, lanes.const(63, 32), signed=True))
    far = lanes.select(negative, lanes.const(1 << 63, 64), lanes.const((1 << 63) - 1, 64))
    return clamp(lanes, lanes.select(fits, low, far), 32, signed)


@instruction(
    f"vmad{TYPES}.{{sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32",
    parts={"a": _SIGNED_PART, "b": _SIGNED_PART, "c": "-?"}, since=SINCE, sm=20,
    examples=[
        ("vmad.s32.s32.u32", (-3, 5, 7), (-8,)),
        ("vmad.s32.s32.u32.sat c=-", (-1, 0xFFFFFFFF, 5), (0x80000000,)),
        ("vmad.u32.u32.u32.shr15 a=h0 b=h0", (0x18000, 0x18000, 0x8000), (0x8001,)),
        ("vmad.u32.u32.u32.sat", (0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF,)),
        ("vmad.s32.u32.u32.shr7 a=-", (0x100, 1, 0), (-2,)),
    ],
)  # fmt: skip
def vmad(
    lanes: Lanes, a: Value, b: Value, c: Value, *, atype: str, btype: str, sat: str, scale: str, a_part: str, b_part: str, c_part: str
) -> Value:
    """d = parts of a and b multiplied, plus c, scaled and saturated; the product or c negated where one operand is."""
    return _multiply(lanes, a, b, c, atype, btype, sat, scale, False, (a_part, b_part, c_part))


@instruction(
    f"vmad{TYPES}.po.{{sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", parts={"a": _PART, "b": _PART},
    since=SINCE, sm=20,
    examples=[("vmad.u32.u32.u32.po", (3, 5, 7), (23,)), ("vmad.s32.s32.s32.po.sat.shr7 a=b1", (0x8000, 0x7FFFFFFF, 0), (0x80000001,))],
)  # fmt: skip
def vmad_plus_one(
    lanes: Lanes, a: Value, b: Value, c: Value, *, atype: str, btype: str, sat: str, scale: str, a_part: str, b_part: str
) -> Value:
    """d = parts of a and b multiplied, plus c and 1, scaled and saturated."""
    return _multiply(lanes, a, b, c, atype, btype, sat, scale, True, (a_part, b_part, ""))
