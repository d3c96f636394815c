"""Video instructions (PTX ISA manual, "Video Instructions"): the SIMD ones of whole registers have meanings, the scalar ones are declared.

Invariant: roles are right, so that analysis, cuts and probes are too; running one without a meaning is refused by name. Since sm_50 they are emulated
by the hardware's compiler; nvcc writes ``vabsdiff2`` and ``vabsdiff4`` for its SIMD intrinsics.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction

_TYPES = ".{dtype:u32|s32}.{atype:u32|s32}.{btype:u32|s32}"
_COMPARE = ".{atype:u32|s32}.{btype:u32|s32}.{cmp:eq|ne|lt|le|gt|ge}"
_OP2 = ".{op2:add|min|max}?"
_SINCE, _SINCE_SIMD = (2, 0), (3, 0)


@instruction(f"vmad{_TYPES}.{{sat:sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", since=_SINCE, sm=20)
@instruction(
    f"vmad{_TYPES}.po.{{sat:sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", since=_SINCE, sm=20
)
@declare_only
def vmad(lanes: Lanes) -> None:
    """d = parts of a and b multiplied, plus c, scaled and saturated."""


@instruction(f"vset{_COMPARE}{_OP2}", d="out u32", a="in b32", b="in b32", c="in b32 ?", since=_SINCE, sm=20)
@declare_only
def vset(lanes: Lanes) -> None:
    """d = whether parts of a and b compare so; then an operation with c, or a merge into it."""


def video(lanes: Lanes) -> None:
    """d = an operation on parts of a and b; then an operation with c, or a merge into it."""


Each = Callable[[Lanes, Value, Value], Value]
"""An operation on two fields as signed 32-bit numbers."""


def _average(lanes: Lanes, a: Value, b: Value) -> Value:
    total = lanes.add(a, b)
    negative = lanes.compare("lt", total, lanes.const(0, 32), signed=True)
    rounded = lanes.select(negative, total, lanes.add(total, lanes.const(1, 32)))
    return lanes.shift_right(rounded, lanes.const(1, 32), signed=True)


def _less(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.compare("lt", a, b, signed=True)


def _distance(lanes: Lanes, a: Value, b: Value) -> Value:
    return lanes.select(_less(lanes, a, b), lanes.sub(b, a), lanes.sub(a, b))


_EACH: dict[str, Each] = {
    "vadd": lambda lanes, a, b: lanes.add(a, b),
    "vsub": lambda lanes, a, b: lanes.sub(a, b),
    "vavrg": _average,
    "vabsdiff": _distance,
    "vmin": lambda lanes, a, b: lanes.select(_less(lanes, a, b), a, b),
    "vmax": lambda lanes, a, b: lanes.select(_less(lanes, a, b), b, a),
}


def _fields(lanes: Lanes, a: Value, width: int, signed: bool) -> list[Value]:
    return [lanes.resize(lanes.extract(a, at, width), 32, signed) for at in range(0, 32, width)]


def _clamp(lanes: Lanes, a: Value, low: int, high: int) -> Value:
    least, most = lanes.const(low & 0xFFFFFFFF, 32), lanes.const(high, 32)
    a = lanes.select(_less(lanes, a, least), least, a)
    return lanes.select(_less(lanes, most, a), most, a)


def _finish(lanes: Lanes, results: list[Value], c: Value, width: int, add: str) -> Value:
    """All results added to c, or side by side in its place."""
    if not add:
        return lanes.concat([lanes.extract(r, 0, width) for r in results])
    for result in results:
        c = lanes.add(c, result)
    return c


def _simd_video(each: Each, width: int) -> Callable[..., Value]:
    def simd_video(lanes: Lanes, a: Value, b: Value, c: Value, *, dtype: str, atype: str, btype: str, sat: str, add: str) -> Value:
        """d = an operation on each byte or half of a and b, in place of c or added up with it."""
        pairs = zip(_fields(lanes, a, width, atype == "s32"), _fields(lanes, b, width, btype == "s32"), strict=True)
        results = [each(lanes, x, y) for x, y in pairs]
        if sat:
            low, high = (-(1 << width - 1), (1 << width - 1) - 1) if dtype == "s32" else (0, (1 << width) - 1)
            results = [_clamp(lanes, r, low, high) for r in results]
        return _finish(lanes, results, c, width, add)

    return simd_video


def _simd_compare(width: int) -> Callable[..., Value]:
    def simd_compare(lanes: Lanes, a: Value, b: Value, c: Value, *, atype: str, btype: str, cmp: str, add: str) -> Value:
        """d = whether each byte or half of a and b compare so (1 or 0), in place of c or added up with it."""
        pairs = zip(_fields(lanes, a, width, atype == "s32"), _fields(lanes, b, width, btype == "s32"), strict=True)
        one, zero = lanes.const(1, 32), lanes.const(0, 32)
        return _finish(lanes, [lanes.select(lanes.compare(cmp, x, y, signed=True), one, zero) for x, y in pairs], c, width, add)

    return simd_compare


for _root in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    instruction(f"{_root}{_TYPES}.{{sat:sat}}?{_OP2}", d="out {dtype}", a="in b32", b="in b32", c="in b32 ?", since=_SINCE, sm=20)(
        declare_only(video)
    )
for _root in ("vshl", "vshr"):
    instruction(
        f"{_root}.{{dtype:u32|s32}}.{{atype:u32|s32}}.u32.{{sat:sat}}?.{{mode:clamp|wrap}}{_OP2}",
        d="out {dtype}",
        a="in b32",
        b="in b32",
        c="in b32 ?",
        since=_SINCE,
        sm=20,
    )(declare_only(video))
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
for _width in "24":
    for _root in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
        instruction(
            f"{_root}{_width}{_TYPES}.{{sat:sat}}?.{{add:add}}?",
            d="out {dtype}",
            a="in b32",
            b="in b32",
            c="in b32",
            since=_SINCE_SIMD,
            sm=30,
            examples=_EXAMPLES[_root + _width],
        )(_simd_video(_EACH[_root], 32 // int(_width)))
    instruction(
        f"vset{_width}{_COMPARE}.{{add:add}}?", d="out u32", a="in b32", b="in b32", c="in b32", since=_SINCE_SIMD, sm=30,
        examples=_EXAMPLES[f"vset{_width}"],
    )(_simd_compare(32 // int(_width)))  # fmt: skip
