"""SIMD video instructions (PTX ISA manual, "SIMD Video Instructions"): one operation on the bytes or halves of two registers.

Invariant: fields are signed numbers of 32 bits, in which every operation is exact. A part names, highest place first, which of the fields of a and b together
an operand takes, and which fields of the result are wanted. nvcc writes ``vabsdiff2`` and ``vabsdiff4`` for its intrinsics.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.families.video import COMPARE, OPERATIONS, TYPES, Operation, clamp, less
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction

_SINCE = (3, 0)
_PARTS = {
    16: {"d": "(h1?0?)?", "a": "(h[0-3]{2})?", "b": "(h[0-3]{2})?"},
    8: {"d": "(b3?2?1?0?)?", "a": "(b[0-7]{4})?", "b": "(b[0-7]{4})?"},
}


def _average(lanes: Lanes, a: Value, b: Value) -> Value:
    total = lanes.add(a, b)
    rounded = lanes.select(less(lanes, total, lanes.const(0, 32)), total, lanes.add(total, lanes.const(1, 32)))
    return lanes.shift_right(rounded, lanes.const(1, 32), signed=True)


_EACH: dict[str, Operation] = {**OPERATIONS, "vavrg": _average}


def _fields(lanes: Lanes, a: Value, b: Value, width: int, part: str, second: bool, signed: bool) -> list[Value]:
    """The fields that an operand stands for, lowest place first: those that ``part`` names, without one those of the operand itself."""
    count = 32 // width
    numbers = [int(digit) for digit in reversed(part[1:])] or range(count * second, count * (second + 1))
    return [lanes.resize(lanes.extract(b if n >= count else a, n % count * width, width), 32, signed) for n in numbers]


def _finish(lanes: Lanes, results: list[Value], c: Value, width: int, add: str, part: str) -> Value:
    """The wanted results added to c, or put into their places in it."""
    wanted = [not part or str(i) in part[1:] for i in range(len(results))]
    if add:
        for result, want in zip(results, wanted, strict=True):
            c = lanes.add(c, result) if want else c
        return c
    kept = [lanes.extract(c, i * width, width) for i in range(len(results))]
    return lanes.concat([lanes.extract(result, 0, width) if want else old for result, want, old in zip(results, wanted, kept, strict=True)])


def _simd_video(operation: Operation, width: int) -> Callable[..., Value]:
    def simd_video(
        lanes: Lanes, a: Value, b: Value, c: Value, *, dtype: str, atype: str, btype: str, sat: str, add: str, d_part: str, a_part: str,
        b_part: str,
    ) -> Value:  # fmt: skip
        """d = an operation on each byte or half of a and b, in place of those of c or added up with it."""
        first = _fields(lanes, a, b, width, a_part, False, atype == "s32")
        second = _fields(lanes, a, b, width, b_part, True, btype == "s32")
        results = [operation(lanes, x, y) for x, y in zip(first, second, strict=True)]
        if sat:
            results = [clamp(lanes, r, width, dtype == "s32") for r in results]
        return _finish(lanes, results, c, width, add, d_part)

    return simd_video


def _simd_compare(width: int) -> Callable[..., Value]:
    def simd_compare(
        lanes: Lanes, a: Value, b: Value, c: Value, *, atype: str, btype: str, cmp: str, add: str, d_part: str, a_part: str, b_part: str
    ) -> Value:
        """d = whether each byte or half of a and b compare so (1 or 0), in place of those of c or added up with it."""
        first = _fields(lanes, a, b, width, a_part, False, atype == "s32")
        second = _fields(lanes, a, b, width, b_part, True, btype == "s32")
        held = [lanes.resize(lanes.compare(cmp, x, y, signed=True), 32) for x, y in zip(first, second, strict=True)]
        return _finish(lanes, held, c, width, add, d_part)

    return simd_compare


_EXAMPLES = {
    "vadd2": [("vadd2.s32.s32.s32.sat", (0x7FFF8000, 0x0001FFFF, 0), (0x7FFF8000,))],
    "vadd4": [
        ("vadd4.u32.u32.u32", (0xFF010203, 0x02010101, 0), (0x01020304,)),
        ("vadd4.u32.u32.u32.add", (0xFF010203, 0x02010101, 10), (0x114,)),
    ],
    "vsub2": [
        ("vsub2.u32.u32.u32", (0x00050001, 0x00020003, 0), (0x0003FFFE,)),
        ("vsub2.u32.u32.u32.sat", (0x00050001, 0x00020003, 0), (0x00030000,)),
    ],
    "vsub4": [("vsub4.s32.u32.u32.add", (0x01020304, 0x02020202, 0), (2,))],
    "vavrg2": [("vavrg2.s32.s32.s32", (0xFFFD0003, 0, 0), (0xFFFE0002,))],
    "vavrg4": [("vavrg4.u32.u32.u32", (0x00FF0102, 0x01FF0203, 0), (0x01FF0203,))],
    "vabsdiff2": [("vabsdiff2.u32.u32.u32.add", (0x00050001, 0x00020003, 100), (105,))],
    "vabsdiff4": [
        ("vabsdiff4.u32.u32.u32", (0x05FF0080, 0x0700FF7F, 0), (0x02FFFF01,)),
        ("vabsdiff4.u32.s32.s32", (0x80, 0x7F, 0), (0xFF,)),
    ],
    "vmin2": [("vmin2.s32.s32.s32", (0xFFFF0005, 0x00010004, 0), (0xFFFF0004,))],
    "vmin4": [("vmin4.u32.u32.u32", (0x10203040, 0x40302010, 0), (0x10202010,))],
    "vmax2": [("vmax2.u32.u32.u32", (0xFFFF0005, 0x00010004, 0), (0xFFFF0005,))],
    "vmax4": [("vmax4.s32.s32.s32", (0x80007F01, 0x01FF0002, 0), (0x01007F02,))],
    "vset2": [("vset2.s32.s32.lt", (0xFFFF0005, 0x00000005, 0), (0x00010000,))],
    "vset4": [("vset4.u32.u32.ge.add", (0x10203040, 0x40302010, 7), (9,))],
}
for _width in (16, 8):
    for _root in _EACH:
        _name = f"{_root}{32 // _width}"
        instruction(
            f"{_name}{TYPES}.{{sat}}?.{{add}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", parts=_PARTS[_width],
            legal=lambda *, sat, add, **rest: not (sat and add), since=_SINCE, sm=30, examples=_EXAMPLES[_name],
        )(_simd_video(_EACH[_root], _width))  # fmt: skip
    _name = f"vset{32 // _width}"
    instruction(
        f"{_name}{COMPARE}.{{add}}?", d="out u32", a="in b32", b="in b32", c="in b32", parts=_PARTS[_width], since=_SINCE, sm=30,
        examples=_EXAMPLES[_name],
    )(_simd_compare(_width))  # fmt: skip
