"""Arithmetic on four floats of eight bits and less at once (PTX ISA manual, "Alternate Floating-Point Instructions").

Invariant: each element is the exact value, rounded once to nearest even: products are exact in f64, and where the sum of one and an element is not, it lies
too close to one of them to change the rounding. What the manual leaves open is as in conversions: a NaN is 0x7F, and e5m2 has its infinity. No machine
of ours has these instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.small_floats import from_double, to_single
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

_RESULTS = "e5m2x4|e4m3x4"
_OPERANDS = "e5m2x4|e4m3x4|e3m2x4|e2m3x4|e2m1x4|e2m1p4x4|ue8m0x4"
_HEAD = "{rounding:rn}?.{satfinite}?"


def _elements(lanes: Lanes, type: str, a: Value) -> list[Value]:
    """The four elements as f64, the lowest first. Of four bits two lie in a byte, unless each has padding (``p4``)."""
    step = type_of(type).width // 4
    name = type.removesuffix("x4").removesuffix("p4")
    bytes_ = [lanes.resize(lanes.shift_right(a, lanes.const(step * i, 32)), 8) for i in range(4)]
    return [lanes.float_convert("f32", "f64", to_single(lanes, name, byte)) for byte in bytes_]


def _each(lanes: Lanes, dtype: str, satfinite: str, one: Callable[..., Value], *operands: list[Value]) -> Value:
    name = dtype.removesuffix("x4")
    return lanes.concat([from_double(lanes, name, one(*row), relu=False, finite=bool(satfinite)) for row in zip(*operands, strict=True)])


def add(lanes: Lanes, a: Value, c: Value, *, satfinite: str, dtype: str, type: str) -> Value:
    """d = a + c, element by element."""
    operands = _elements(lanes, type, a), _elements(lanes, dtype, c)
    return _each(lanes, dtype, satfinite, lambda x, y: lanes.float_add("f64", x, y), *operands)


def sub(lanes: Lanes, a: Value, c: Value, *, satfinite: str, dtype: str, type: str) -> Value:
    """d = a - c, element by element."""
    operands = _elements(lanes, type, a), _elements(lanes, dtype, c)
    return _each(lanes, dtype, satfinite, lambda x, y: lanes.float_sub("f64", x, y), *operands)


_EXAMPLES = {
    "add": [
        ("add.e4m3x4.e4m3x4", (0x38383838, 0x38403000), (0x40443C38,)),
        ("add.rn.satfinite.e4m3x4.e4m3x4", (0x7E7E7EFE, 0x7E00FEFE), (0x7E7E00FE,)),
        ("add.e4m3x4.e5m2x4", (0x7C7B00FF, 0x00000000), (0x7F7F007F,)),
        ("add.e5m2x4.e5m2x4", (0x7B7B7BFC, 0x7B00687C), (0x7C7B7B7F,)),
        ("add.e4m3x4.e2m1x4", (0x8A42, 0x00000000), (0x00B84038,)),
        ("add.e4m3x4.e2m1p4x4", (0xF80A0402, 0x00000000), (0x00B84038,)),
        ("add.e5m2x4.ue8m0x4", (0x7F80FF00, 0x00000000), (0x3C407F00,)),
    ],
    "sub": [
        ("sub.e4m3x4.e4m3x4", (0x38383838, 0x3840C000), (0x00B84438,)),
        ("sub.rn.e5m2x4.e3m2x4", (0x0C2C1F00, 0x3C3C0000), (0x00C04F00,)),
        ("sub.satfinite.e5m2x4.e2m3x4", (0x08281F00, 0xFC7C0080), (0x7BFB4800,)),
    ],
}
for _root, _meaning in (("add", add), ("sub", sub)):
    instruction(
        f"{_root}.{_HEAD}.{{dtype:{_RESULTS}}}.{{type:{_OPERANDS}}}", d="out {dtype}", a="in {type}", c="in {dtype}", since=(9, 4), sm=100,
        specific="a", examples=_EXAMPLES[_root],
    )(_meaning)  # fmt: skip


@instruction(
    f"mul.{_HEAD}.{{dtype:{_RESULTS}}}.{{type:{_OPERANDS}}}.{{ctype:{_OPERANDS}}}", d="out {dtype}", a="in {type}", c="in {ctype}",
    since=(9, 4), sm=100, specific="a",
    examples=[
        ("mul.e4m3x4.e4m3x4.e4m3x4", (0x3840C07E, 0x3C404040), (0x3C48C87F,)),
        ("mul.satfinite.e5m2x4.e3m2x4.e2m1x4", (0x0C1F2C01, 0x2222), (0x3C4FBC2C,)),
        ("mul.rn.e4m3x4.ue8m0x4.e5m2x4", (0x7F80FE00, 0x3C3C003C), (0x38400000,)),
        ("mul.rn.satfinite.e4m3x4.ue8m0x4.ue8m0x4", (0xFE00007F, 0xFE00FE7F), (0x7E003838,)),
    ],
)  # fmt: skip
def mul(lanes: Lanes, a: Value, c: Value, *, satfinite: str, dtype: str, type: str, ctype: str) -> Value:
    """d = a * c, element by element."""
    operands = _elements(lanes, type, a), _elements(lanes, ctype, c)
    return _each(lanes, dtype, satfinite, lambda x, y: lanes.float_mul("f64", x, y), *operands)


@instruction(
    f"fma.{_HEAD}.{{dtype:{_RESULTS}}}.{{type:{_OPERANDS}}}.{{btype:{_OPERANDS}}}", d="out {dtype}", a="in {type}", b="in {btype}",
    c="in {dtype}", since=(9, 4), sm=100, specific="a",
    examples=[
        ("fma.e4m3x4.e4m3x4.e4m3x4", (0x38404040, 0x38404040, 0x38C80000), (0x40004848,)),
        ("fma.rn.satfinite.e5m2x4.ue8m0x4.e2m1p4x4", (0x7F7F7FFE, 0x02040A07, 0x3C3C3CFB), (0x4042007B,)),
        ("fma.e4m3x4.e3m2x4.e2m1x4", (0x0C0C0C0C, 0x2222, 0x7E380080), (0x7E403838,)),
    ],
)  # fmt: skip
def fma(lanes: Lanes, a: Value, b: Value, c: Value, *, satfinite: str, dtype: str, type: str, btype: str) -> Value:
    """d = a * b + c, element by element, rounded once."""
    operands = _elements(lanes, type, a), _elements(lanes, btype, b), _elements(lanes, dtype, c)
    return _each(lanes, dtype, satfinite, lambda x, y, z: lanes.float_fma("f64", x, y, z), *operands)
