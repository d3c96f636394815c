"""Comparison and classification (PTX ISA manual, "Comparison and Selection Instructions" and half precision forms).

Invariant: an ordered float comparison is false with a NaN, its unordered twin (``equ``, ``ltu`` ...) true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ptxgraft.isa import floats
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import halves
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

_ORDER = "eq|ne|lt|le|gt|ge"
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
_FLOAT = "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan"
_BOOL = "{bool:and|or|xor}"


@dataclass(frozen=True, slots=True)
class _Kind:
    """Source types that share their comparison operators."""

    types: str
    operators: str
    ftz: bool
    since: tuple[int, int] = (1, 0)
    sm: int = 10


_KINDS = (
    _Kind("b16|b32|b64", "eq|ne", False),
    _Kind("s16|s32|s64", _ORDER, False),
    _Kind("u16|u32|u64", f"{_ORDER}|{'|'.join(_UNSIGNED)}", False),
    _Kind("f32", _FLOAT, True),
    _Kind("f64", _FLOAT, False),
    _Kind("f16", _FLOAT, True, (4, 2), 53),
    _Kind("bf16", _FLOAT, False, (7, 8), 90),
)
_PAIRS = (_Kind("f16x2", _FLOAT, True, (4, 2), 53), _Kind("bf16x2", _FLOAT, False, (7, 8), 90))


def compare(lanes: Lanes, op: str, type: str, a: Value, b: Value, ftz: str = "") -> Value:
    """The predicate ``a op b`` for any scalar type and any of setp's operators."""
    if type_of(type).kind != "f":
        return lanes.compare(_UNSIGNED.get(op, op), a, b, type.startswith("s"))
    flush = bool(ftz)
    if op in ("nan", "num"):
        nan = lanes.float_compare(type, "nan", a, b, flush)
        return nan if op == "nan" else lanes.not_(nan)
    if op.endswith("u"):
        return lanes.or_(lanes.float_compare(type, op[:-1], a, b, flush), lanes.float_compare(type, "nan", a, b, flush))
    return lanes.float_compare(type, op, a, b, flush)


def _combine(lanes: Lanes, bool_: str, t: Value, c: Value | None) -> Value:
    if c is None:
        return t
    return {"and": lanes.and_, "or": lanes.or_, "xor": lanes.xor}[bool_](t, c)


def setp(lanes: Lanes, a: Value, b: Value, c: Value | None = None, *, cmp: str, bool: str, ftz: str, type: str) -> tuple[Value, Value]:
    """p = (a cmp b) bool c; q = !(a cmp b) bool c. Without bool, the comparison alone."""
    t = compare(lanes, cmp, type, a, b, ftz)
    return _combine(lanes, bool, t, c), _combine(lanes, bool, lanes.not_(t), c)


def setp_half(lanes: Lanes, a: Value, b: Value, c: Value | None = None, *, cmp: str, bool: str, ftz: str, type: str) -> Value:
    """p = (a cmp b) bool c."""
    return _combine(lanes, bool, compare(lanes, cmp, type, a, b, ftz), c)


def setp_pair(lanes: Lanes, a: Value, b: Value, c: Value | None = None, *, cmp: str, bool: str, ftz: str, type: str) -> tuple[Value, Value]:
    """p: the comparison of the lower halves, q: of the upper halves, each combined with c."""
    fmt = type.removesuffix("x2")
    results = [compare(lanes, cmp, fmt, x, y, ftz) for x, y in zip(halves(lanes, a), halves(lanes, b), strict=True)]
    return _combine(lanes, bool, results[0], c), _combine(lanes, bool, results[1], c)


def _spellings(kind: _Kind) -> Iterator[tuple[str, bool]]:
    """The slots between ``setp`` and the type: without and with a boolean operator."""
    flush = ".{ftz:ftz}?" if kind.ftz else ""
    yield f"{{cmp:{kind.operators}}}{flush}", False
    yield f"{{cmp:{kind.operators}}}.{_BOOL}{flush}", True


def _condition(boolean: bool) -> dict[str, Any]:
    """The operand that a boolean operator takes."""
    return {"c": "in pred"} if boolean else {}


_ONE32, _NAN32, _TWO32 = 0x3F800000, 0x7FC00001, 0x40000000
_SETP_EXAMPLES = {
    "b16|b32|b64": [("setp.eq.b32", (5, 5), (1, 0)), ("setp.ne.b64", (1 << 40, 0), (1, 0)), ("setp.eq.and.b32", (5, 5, 0), (0, 0))],
    "s16|s32|s64": [("setp.lt.s32", (-1, 1), (1, 0)), ("setp.ge.s16", (0x8000, 0), (0, 1)), ("setp.lt.or.s32", (1, -1, 1), (1, 1))],
    "u16|u32|u64": [("setp.lt.u32", (-1, 1), (0, 1)), ("setp.hi.u32", (-1, 1), (1, 0)), ("setp.ls.xor.u64", (1, 1, 1), (0, 1))],
    "f32": [
        ("setp.lt.f32", (_ONE32, _TWO32), (1, 0)),
        ("setp.ne.f32", (_NAN32, _ONE32), (0, 1)),
        ("setp.neu.f32", (_NAN32, _ONE32), (1, 0)),
        ("setp.ltu.f32", (_TWO32, _ONE32), (0, 1)),
        ("setp.eq.f32", (0x80000000, 0), (1, 0)),
        ("setp.eq.f32", (0x80000001, 0), (0, 1)),
        ("setp.eq.ftz.f32", (0x80000001, 0), (1, 0)),
        ("setp.num.f32", (_ONE32, 0x7F800000), (1, 0)),
        ("setp.nan.and.f32", (_ONE32, _NAN32, 1), (1, 0)),
    ],
    "f64": [("setp.gt.f64", (0x3FF << 52, 0), (1, 0)), ("setp.geu.or.f64", (0xFFF8 << 48, 0, 0), (1, 0))],
    "f16": [("setp.le.f16", (0x3C00, 0x3C00), (1,)), ("setp.gtu.xor.f16", (0x3C00, 0x7E00, 1), (0,)), ("setp.eq.ftz.f16", (1, 0), (1,))],
    "bf16": [("setp.gt.bf16", (0x3F80, 0x3F00), (1,)), ("setp.gt.and.bf16", (0x3F80, 0x3F00, 0), (0,))],
    "f16x2": [("setp.lt.f16x2", (0x3C000000, 0x3C003C00), (1, 0)), ("setp.lt.or.f16x2", (0x3C000000, 0x3C003C00, 1), (1, 1))],
    "bf16x2": [("setp.eq.bf16x2", (0x3F800000, 0x3F803F80), (0, 1)), ("setp.eq.xor.bf16x2", (0x3F800000, 0x3F803F80, 1), (1, 0))],
}


def _examples(
    rows: list[tuple[str, tuple[int, ...], tuple[int, ...]]], boolean: bool
) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    words = {"and", "or", "xor"}
    return [row for row in rows if boolean == any(word in words for word in row[0].split("."))]


def _second(kind: _Kind) -> dict[str, Any]:
    """The second predicate: optional, mandatory for pairs, absent for half precision."""
    if kind in _PAIRS:
        return {"q": "out pred |"}
    return {} if "16" in kind.types and kind.operators is _FLOAT else {"q": "out pred |?"}


for _kind in (*_KINDS, *_PAIRS):
    for _spelling, _boolean in _spellings(_kind):
        _q = _second(_kind)
        instruction(
            f"setp.{_spelling}.{{type:{_kind.types}}}",
            p="out pred",
            **_q,
            a="in {type}",
            b="in {type}",
            **_condition(_boolean),
            since=_kind.since,
            sm=_kind.sm,
            examples=_examples(_SETP_EXAMPLES[_kind.types], _boolean),
        )(setp_pair if _kind in _PAIRS else setp if _q else setp_half)


# -- set --------------------------------------------------------------------------------------------------------------
def _truth(lanes: Lanes, dtype: str, t: Value) -> Value:
    """True in a destination type: all ones in an integer, 1.0 in a float."""
    width = type_of(dtype).width
    if dtype in floats.FORMATS:
        return lanes.select(t, lanes.const(floats.FORMATS[dtype].one, width), lanes.const(0, width))
    return lanes.resize(t, width, signed=True)


def set_(lanes: Lanes, a: Value, b: Value, c: Value | None = None, *, cmp: str, bool: str, ftz: str, dtype: str, type: str) -> Value:
    """d = true or false, as all ones or 1.0, of (a cmp b) bool c."""
    return _truth(lanes, dtype, _combine(lanes, bool, compare(lanes, cmp, type, a, b, ftz), c))


def set_pair(lanes: Lanes, a: Value, b: Value, c: Value | None = None, *, cmp: str, bool: str, ftz: str, dtype: str, type: str) -> Value:
    """As set on each half; an integer destination gets 0xFFFF in the halves where it holds."""
    results = setp_pair(lanes, a, b, c, cmp=cmp, bool=bool, ftz=ftz, type=type)
    part = dtype.removesuffix("x2") if dtype == type else "u16"
    return lanes.concat([_truth(lanes, part, t) for t in results])


_EXACTLY_TWO = {"f32": 0x40000000, "f64": 1 << 62, "f16": 0x4000, "bf16": 0x4000, "f16x2": 0x40003C00, "bf16x2": 0x40003F80}
_TRUE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80, "f16x2": 0x3C003C00, "bf16x2": 0x3F803F80}


def _set_examples(dtypes: str, types: str, boolean: bool) -> list[tuple[str, tuple[int, ...], tuple[int, ...]]]:
    """A value compared with itself, for each destination type."""
    rows = []
    type = types.split("|")[-1]
    two = _EXACTLY_TWO.get(type, 2)
    for dtype in dtypes.split("|"):
        true = _TRUE.get(dtype, -1)
        if boolean:
            rows += [(f"set.eq.and.{dtype}.{type}", (two, two, 0), (0,)), (f"set.ne.or.{dtype}.{type}", (two, two, 1), (true,))]
        else:
            rows += [(f"set.eq.{dtype}.{type}", (two, two), (true,)), (f"set.ne.{dtype}.{type}", (two, two), (0,))]
    return rows


def _declare_set() -> None:
    half = {"f16": (4, 2, 53), "bf16": (7, 8, 90)}
    for kind in (*_KINDS, *_PAIRS):
        for spelling, boolean in _spellings(kind):
            targets: list[tuple[str, tuple[int, int], int]] = []
            if kind in _PAIRS:
                targets.append((f"{kind.types}|u32|s32", kind.since, kind.sm))
            else:
                if kind.types in half:
                    targets.append(("u16|s16|u32|s32", max(kind.since, (6, 5)), kind.sm))
                else:
                    targets.append(("u32|s32|f32", kind.since, kind.sm))
                for name, (major, minor, sm) in half.items():
                    # Halves give their own kind; an f16 also a bf16.
                    if kind.types not in half or kind.types == name or name == "bf16":
                        targets.append((name, (major, minor), sm))
            for dtypes, since, sm in targets:
                # bf16 knows no flushing, not even of an f32 that is compared.
                flags = spelling.replace(".{ftz:ftz}?", "") if dtypes == "bf16" else spelling
                instruction(
                    f"set.{flags}.{{dtype:{dtypes}}}.{{type:{kind.types}}}",
                    d="out {dtype}",
                    a="in {type}",
                    b="in {type}",
                    **_condition(boolean),
                    needs={"u32": ((6, 5), 53), "s32": ((6, 5), 53)} if kind in _PAIRS else None,
                    since=since,
                    sm=sm,
                    examples=_set_examples(dtypes, kind.types, boolean),
                )(set_pair if kind in _PAIRS else set_)


_declare_set()


# -- packed integers ---------------------------------------------------------------------------------------------------
def set_packed(lanes: Lanes, a: Value, b: Value, *, cmp: str, type: str) -> Value:
    """Each byte or half of d = all ones where those of a and b compare so, else 0."""
    scalar, _, count = type.partition("x")
    width = type_of(scalar).width
    parts = [[lanes.extract(v, width * i, width) for i in range(int(count))] for v in (a, b)]
    return lanes.concat([_truth(lanes, scalar, compare(lanes, cmp, scalar, x, y)) for x, y in zip(*parts, strict=True)])


for _types, _operators, _rows in (
    ("s8x4|s16x2", _ORDER, [("set.lt.s8x4", (0x807F0001, 0x00010000), (0xFF000000,)), ("set.ge.s16x2", (0x80000001, 0x00000001), (0x0000FFFF,))]),
    (
        "u8x4|u16x2", f"{_ORDER}|{'|'.join(_UNSIGNED)}",
        [("set.lt.u8x4", (0x807F0001, 0x00010001), (0,)), ("set.hi.u16x2", (0x80000001, 1), (0xFFFF0000,)), ("set.eq.u8x4", (5, 6), (0xFFFFFF00,))],
    ),
):  # fmt: skip
    instruction(
        f"set.{{cmp:{_operators}}}.{{type:{_types}}}",
        d="out {type}",
        a="in {type}",
        b="in {type}",
        since=(9, 4),
        sm=107,
        specific="f",
        examples=_rows,
    )(set_packed)


# -- classification and sign ------------------------------------------------------------------------------------------
@instruction(
    "testp.{op:finite|infinite|number|notanumber|normal|subnormal}.{type:f32|f64}",
    p="out pred",
    a="in {type}",
    since=(2, 0),
    sm=20,
    examples=[
        ("testp.finite.f32", (0x7F7FFFFF,), (1,)),
        ("testp.infinite.f32", (0xFF800000,), (1,)),
        ("testp.number.f32", (_NAN32,), (0,)),
        ("testp.notanumber.f64", (0x7FF0000000000001,), (1,)),
        ("testp.normal.f32", (0x00800000,), (1,)),
        ("testp.normal.f32", (0,), (1,)),
        ("testp.normal.f32", (0x7F800000,), (0,)),
        ("testp.subnormal.f32", (0x807FFFFF,), (1,)),
        ("testp.subnormal.f32", (0x80000000,), (0,)),
    ],
)
def testp(lanes: Lanes, a: Value, *, op: str, type: str) -> Value:
    """p = is a of that kind? Zero counts as normal."""
    f = floats.FORMATS[type]
    size = floats.magnitude(lanes, type, a)
    infinity, least = lanes.const(f.exponent, f.width), lanes.const(f.exponent & -f.exponent, f.width)
    if op == "finite":
        return lanes.compare("lt", size, infinity)
    if op == "infinite":
        return lanes.compare("eq", size, infinity)
    if op == "number":
        return lanes.compare("le", size, infinity)
    if op == "notanumber":
        return lanes.compare("gt", size, infinity)
    subnormal = lanes.and_(lanes.compare("ne", size, lanes.const(0, f.width)), lanes.compare("lt", size, least))
    return subnormal if op == "subnormal" else lanes.and_(lanes.not_(subnormal), lanes.compare("lt", size, infinity))


@instruction(
    "copysign.{type:f32|f64}",
    d="out {type}",
    a="in {type}",
    b="in {type}",
    since=(2, 0),
    sm=20,
    examples=[("copysign.f32", (0x80000000, _ONE32), (0xBF800000,)), ("copysign.f32", (0, 0xFFC00001), (_NAN32,))],
)
def copysign(lanes: Lanes, a: Value, b: Value, *, type: str) -> Value:
    """d = the sign of a with the magnitude bits of b, NaNs untouched."""
    return lanes.or_(floats.sign_of(lanes, type, a), floats.magnitude(lanes, type, b))
