"""Arithmetic of sm_107 on pairs of different precision (PTX ISA manual, "Mixed Precision Floating Point Instructions": pairs).

Invariant: the elements of a pair never meet. Halves are widened first, which is exact; sums and products of singles that become bf16 are cut off toward zero,
so that one rounding is as good as two. Where the manual leaves bits open, roles are all there is: of ``.ftz`` with f16 results, whether f16's own
subnormals are flushed; of products of an f16 and a bf16, how the one is rounded into the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import element, halves
from ptxgraft.isa.table import instruction, refused

MODES = "rn|rz|rm|rp"
ONE, TWO, THREE, MINUS_ONE, NAN = 0x3F800000, 0x40000000, 0x40400000, 0xBF800000, 0x7FFFFFFF
_SINCE: dict[str, Any] = {"since": (9, 4), "sm": 107, "specific": "f"}
_FLUSHED = "the form with bf16x2 results, and cvt.rz.f16x2.f32 after single precision, say which subnormals are flushed"
_CONVERTED = "cvt.rn.bf16x2.f32 or cvt.rn.f16x2.f32 before mul.bf16x2 or mul.f16x2 say how an operand is rounded"


def _widened(lanes: Lanes, type: str, a: Value) -> tuple[Value, ...]:
    """The two elements as f32."""
    fmt = element(type)
    return tuple(half if fmt == "f32" else lanes.float_convert(fmt, "f32", half) for half in halves(lanes, a))


def add(lanes: Lanes, a: Value, c: Value, *, rounding: str, type: str) -> Value:
    """d = a + c, the halves of a widened."""
    pairs = zip(_widened(lanes, type, a), halves(lanes, c), strict=True)
    return lanes.concat([lanes.float_add("f32", x, y, rounding or "rn") for x, y in pairs])


def sub(lanes: Lanes, a: Value, c: Value, *, rounding: str, type: str) -> Value:
    """d = a - c, the halves of a widened."""
    pairs = zip(_widened(lanes, type, a), halves(lanes, c), strict=True)
    return lanes.concat([lanes.float_sub("f32", x, y, rounding or "rn") for x, y in pairs])


_WIDE_EXAMPLES = {
    "add": [
        ("add.f32x2.f16x2.f32x2", (0x3C004000, ONE | TWO << 32), (THREE | THREE << 32,)),
        ("add.rz.f32x2.bf16x2.f32x2", (0x3F807F81, 0x33800000 << 32), (NAN | ONE << 32,)),
    ],
    "sub": [
        ("sub.f32x2.f16x2.f32x2", (0x3C003C00, TWO | ONE << 32), (MINUS_ONE,)),
        ("sub.rm.f32x2.bf16x2.f32x2", (0x3F803F80, ONE | TWO << 32), (0x80000000 | MINUS_ONE << 32,)),
    ],
}
for _root, _meaning in (("add", add), ("sub", sub)):
    instruction(
        f"{_root}.{{rounding:{MODES}}}?.f32x2.{{type:f16x2|bf16x2}}.f32x2", d="out f32x2", a="in {type}", c="in f32x2",
        examples=_WIDE_EXAMPLES[_root], **_SINCE,
    )(_meaning)  # fmt: skip


@instruction(
    f"fma.{{rounding:{MODES}}}.f32x2.{{type:f16x2|bf16x2}}.f32x2.f32x2", d="out f32x2", a="in {type}", b="in f32x2", c="in f32x2",
    examples=[
        ("fma.rn.f32x2.f16x2.f32x2.f32x2", (0x3C004000, ONE | TWO << 32, ONE | ONE << 32), (THREE | THREE << 32,)),
        ("fma.rz.f32x2.bf16x2.f32x2.f32x2", (0x40003F80, THREE | MINUS_ONE << 32, 0), (THREE | 0xC0000000 << 32,)),
    ],
    **_SINCE,
)  # fmt: skip
def fma(lanes: Lanes, a: Value, b: Value, c: Value, *, rounding: str, type: str) -> Value:
    """d = a * b + c, the halves of a widened; rounded once."""
    rows = zip(_widened(lanes, type, a), halves(lanes, b), halves(lanes, c), strict=True)
    return lanes.concat([lanes.float_fma("f32", x, y, z, rounding) for x, y, z in rows])


# -- singles into halves --------------------------------------------------------------------------------------------------
def _cut(operation: str) -> Callable[..., Value]:
    def narrowed(lanes: Lanes, a: Value, c: Value) -> Value:
        function = {"add": lanes.float_add, "sub": lanes.float_sub, "mul": lanes.float_mul}[operation]
        results = [function("f32", x, y, "rz") for x, y in zip(halves(lanes, a), halves(lanes, c), strict=True)]
        return lanes.concat([lanes.float_convert("f32", "bf16", result, "rz") for result in results])

    narrowed.__doc__ = f"{operation} of each single for itself, cut off to bf16."
    return narrowed


_NARROW_EXAMPLES = {
    "add": [("add.rz.bf16x2.f32x2.f32x2", (ONE | 0x7F7FFFFF << 32, 0x3F7FFFFF | 0x7F7FFFFF << 32), (0x7F7F3FFF,))],
    "sub": [("sub.rz.bf16x2.f32x2.f32x2", (ONE | NAN << 32, 0x3F7FFFFF), (0x7FFF3380,))],
    "mul": [("mul.rz.bf16x2.f32x2.f32x2", (0x3FFFFFFF | 0x00800000 << 32, 0x3FFFFFFF | 0xBF000000 << 32), (0x8040407F,))],
}


@refused(_FLUSHED)
def _open_flush(lanes: Lanes) -> None:
    """As above, cut off to f16."""


@refused(_CONVERTED)
def _open_product(lanes: Lanes) -> None:
    """d = a * c, c converted to the type of a."""


for _root in ("add", "sub", "mul"):
    instruction(f"{_root}.rz.bf16x2.f32x2.f32x2", d="out bf16x2", a="in f32x2", c="in f32x2", examples=_NARROW_EXAMPLES[_root], **_SINCE)(
        _cut(_root)
    )
    instruction(f"{_root}.rz.ftz.f16x2.f32x2.f32x2", d="out f16x2", a="in f32x2", c="in f32x2", **_SINCE)(_open_flush)
for _first, _second in (("bf16x2", "f16x2"), ("f16x2", "bf16x2")):
    instruction(f"mul.{_first}.{_first}.{_second}", d=f"out {_first}", a=f"in {_first}", c=f"in {_second}", **_SINCE)(_open_product)
