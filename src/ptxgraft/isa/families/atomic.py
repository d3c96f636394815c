"""Atomic operations and reductions on memory (PTX ISA manual, "atom" and "red").

Invariant: lanes act one after another, in lane order; orders and scopes change nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa import floats
from ptxgraft.isa.families.memory import space_name
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.packed import each, element
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

ORDER = "{sem:relaxed|acquire|release|acq_rel}?.{scope:cta|cluster|gpu|sys}?.{space:global|shared|shared::cta|shared::cluster}?"
RED_ORDER = "{sem:relaxed|release}?.{scope:cta|cluster|gpu|sys}?.{space:global|shared|shared::cta|shared::cluster}?"
HINT = "{hint:L2::cache_hint}?"

INTEGER_TYPES = {
    "and": ("b32", "b64"),
    "or": ("b32", "b64"),
    "xor": ("b32", "b64"),
    "exch": ("b32", "b64", "b128"),
    "add": ("u32", "s32", "u64"),
    "inc": ("u32",),
    "dec": ("u32",),
    "min": ("u32", "s32", "u64", "s64"),
    "max": ("u32", "s32", "u64", "s64"),
}
CAS_TYPES = "{type:b16|b32|b64|b128}"
GLOBAL_ORDER = "{sem:relaxed|acquire|release|acq_rel}?.{scope:cta|cluster|gpu|sys}?.{space:global}?"
GLOBAL_RED_ORDER = "{sem:relaxed|release}?.{scope:cta|cluster|gpu|sys}?.{space:global}?"
NEEDS = {"b128": ((8, 3), 90), "bf16": ((7, 8), 90), "bf16x2": ((7, 8), 90), "f16": ((6, 3), 70), "b16": ((6, 3), 70)}


def _integer_legal(op: str, type: str, **rest: str) -> bool:
    return type in INTEGER_TYPES[op]


def integer_update(lanes: Lanes, op: str, type: str, b: Value) -> Callable[[Value], Value]:
    """The function from the old value to the new one."""
    signed = type_of(type).signed

    def extreme(order: str) -> Callable[[Value], Value]:
        return lambda old: lanes.select(lanes.compare(order, b, old, signed), b, old)

    def count_up(old: Value) -> Value:
        wrap = lanes.compare("ge", old, b)
        return lanes.select(wrap, lanes.const(0, 32), lanes.add(old, lanes.const(1, 32)))

    def count_down(old: Value) -> Value:
        wrap = lanes.or_(lanes.compare("eq", old, lanes.const(0, 32)), lanes.compare("gt", old, b))
        return lanes.select(wrap, b, lanes.sub(old, lanes.const(1, 32)))

    return {
        "and": lambda old: lanes.and_(old, b),
        "or": lambda old: lanes.or_(old, b),
        "xor": lambda old: lanes.xor(old, b),
        "exch": lambda old: b,
        "add": lambda old: lanes.add(old, b),
        "inc": count_up,
        "dec": count_down,
        "min": extreme("lt"),
        "max": extreme("gt"),
    }[op]


INTEGER_SPELLING = "{op:and|or|xor|exch|add|inc|dec|min|max}." + HINT + ".{type:b32|b64|b128|u32|u64|s32|s64}"
RED_SPELLING = "{op:and|or|xor|add|inc|dec|min|max}." + HINT + ".{type:b32|b64|u32|u64|s32|s64}"


@instruction(
    f"atom.{ORDER}.{INTEGER_SPELLING}", d="out {type}", a="addr", b="in {type}", policy="in b64 ?", legal=_integer_legal, needs=NEEDS, since=(1, 1), sm=11,
    loads="{space}", stores="{space}",
)  # fmt: skip
def atom(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, op: str, type: str) -> Value:
    """d = memory at [a]; memory = op(d, b), at once. ``inc`` and ``dec`` count around within 0 .. b."""
    return lanes.atomic(space_name(space), a, type_of(type).width, integer_update(lanes, op, type, b))


@instruction(
    f"atom.{ORDER}.cas.{CAS_TYPES}", d="out {type}", a="addr", b="in {type}", c="in {type}", needs=NEEDS, since=(1, 1), sm=11,
    loads="{space}", stores="{space}",
)  # fmt: skip
def atom_cas(lanes: Lanes, a: Value, b: Value, c: Value, *, space: str, type: str) -> Value:
    """d = memory at [a]; memory = c where d equals b."""
    width = type_of(type).width
    piece = min(width, 64)

    def update(old: Value) -> Value:
        same = lanes.const(1, 1)
        for i in range(0, width, piece):
            same = lanes.and_(same, lanes.compare("eq", lanes.extract(old, i, piece), lanes.extract(b, i, piece)))
        return lanes.select(same, c, old)

    return lanes.atomic(space_name(space), a, width, update)


@instruction(
    f"red.{RED_ORDER}.{RED_SPELLING}",
    a="addr",
    b="in {type}",
    policy="in b64 ?",
    legal=_integer_legal,
    since=(1, 2),
    sm=11,
    loads="{space}",
    stores="{space}",
)
def red(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, op: str, type: str) -> None:
    """Memory at [a] = op(memory, b), at once."""
    lanes.atomic(space_name(space), a, type_of(type).width, integer_update(lanes, op, type, b))


# -- floats ---------------------------------------------------------------------------------------------------------------
def float_sum(lanes: Lanes, space: str, a: Value, type: str, b: Value) -> Callable[[Value], Value]:
    """Rounded to nearest. f32 in global memory flushes subnormals, in shared memory it does not (the manual, under ``atom``)."""
    if type in ("f16x2", "bf16x2"):
        fmt = type[:-2]
        halves = [(lanes.extract(b, i, 16), i) for i in (0, 16)]
        return lambda old: lanes.concat([lanes.float_add(fmt, lanes.extract(old, i, 16), half) for half, i in halves])
    if type == "f64" and space != "shared":
        return _f64_add(lanes, space, a, b)
    if type != "f32" or space == "shared":
        return lambda old: lanes.float_add(type, old, b)
    if space == "global":
        return lambda old: lanes.float_add(type, old, b, ftz=True)
    shared = lanes.is_space("shared", a)
    return lambda old: lanes.select(shared, lanes.float_add(type, old, b), lanes.float_add(type, old, b, ftz=True))


def _f64_add(lanes: Lanes, space: str, a: Value, b: Value) -> Callable[[Value], Value]:
    """Global memory adds by itself: there a NaN stays as it is, signalling or not, that of b before that of memory (measured on an H200)."""
    inside = lanes.const(0, 1) if space == "global" else lanes.is_space("shared", a)

    def update(old: Value) -> Value:
        total = lanes.float_add("f64", old, b)
        kept = total
        for x in (old, b):
            kept = lanes.select(lanes.float_compare("f64", "nan", x, x), x, kept)
        return lanes.select(inside, total, kept)

    return update


FLOATS = "{type:f32|f64}"
HALVES = "{type:f16|f16x2|bf16|bf16x2}"


@instruction(
    f"atom.{ORDER}.{{op:add}}.{HINT}.{FLOATS}",
    d="out {type}",
    a="addr",
    b="in {type}",
    policy="in b64 ?",
    since=(2, 0),
    sm=20,
    loads="{space}",
    stores="{space}",
)
def atom_float(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, type: str) -> Value:
    """d = memory at [a]; memory = d + b."""
    return lanes.atomic(space_name(space), a, type_of(type).width, float_sum(lanes, space_name(space), a, type, b))


@instruction(
    f"red.{RED_ORDER}.{{op:add}}.{HINT}.{FLOATS}",
    a="addr",
    b="in {type}",
    policy="in b64 ?",
    since=(2, 0),
    sm=20,
    loads="{space}",
    stores="{space}",
)
def red_float(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, type: str) -> None:
    """Memory at [a] = memory + b."""
    lanes.atomic(space_name(space), a, type_of(type).width, float_sum(lanes, space_name(space), a, type, b))


@instruction(
    f"atom.{ORDER}.{{op:add}}.noftz.{HINT}.{HALVES}", d="out {type}", a="addr", b="in {type}", policy="in b64 ?", needs=NEEDS, since=(6, 2), sm=60,
    loads="{space}", stores="{space}",
)  # fmt: skip
def atom_half(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, type: str) -> Value:
    """d = memory at [a]; memory = d + b, each half for itself."""
    return lanes.atomic(space_name(space), a, type_of(type).width, float_sum(lanes, space_name(space), a, type, b))


@instruction(
    f"red.{RED_ORDER}.{{op:add}}.noftz.{HINT}.{HALVES}",
    a="addr",
    b="in {type}",
    policy="in b64 ?",
    needs=NEEDS,
    since=(6, 2),
    sm=60,
    loads="{space}",
    stores="{space}",
)
def red_half(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str, type: str) -> None:
    """Memory at [a] = memory + b, each half for itself."""
    lanes.atomic(space_name(space), a, type_of(type).width, float_sum(lanes, space_name(space), a, type, b))


# -- sums that keep subnormals ----------------------------------------------------------------------------------------------
def _unflushed(lanes: Lanes, b: Value) -> Callable[[Value], Value]:
    return lambda old: lanes.float_add("f32", old, b)


@instruction(
    f"atom.{ORDER}.add.noftz.{HINT}.f32", d="out f32", a="addr", b="in f32", policy="in b64 ?", since=(9, 4), sm=90, loads="{space}",
    stores="{space}",
)  # fmt: skip
def atom_unflushed(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str) -> Value:
    """d = memory at [a]; memory = d + b, subnormals kept."""
    return lanes.atomic(space_name(space), a, 32, _unflushed(lanes, b))


@instruction(
    f"red.{RED_ORDER}.add.noftz.{HINT}.f32", a="addr", b="in f32", policy="in b64 ?", since=(9, 4), sm=90, loads="{space}", stores="{space}"
)
def red_unflushed(lanes: Lanes, a: Value, b: Value, policy: Value, *, space: str) -> None:
    """Memory at [a] = memory + b, subnormals kept."""
    lanes.atomic(space_name(space), a, 32, _unflushed(lanes, b))


def _each_unflushed(lanes: Lanes, a: Value, b: tuple[Value, ...], space: str) -> tuple[Value, ...]:
    places = [lanes.add(a, lanes.const(4 * i, 64)) for i in range(len(b))]
    return tuple([lanes.atomic(space_name(space), place, 32, _unflushed(lanes, value)) for place, value in zip(places, b, strict=True)])


@instruction(
    f"atom.{GLOBAL_ORDER}.add.noftz.{HINT}.{{vec:v2|v4}}.f32", d="out f32 {vec}", a="addr", b="in f32 {vec}", policy="in b64 ?", since=(9, 4),
    sm=90, loads="{space}", stores="{space}",
)  # fmt: skip
def atom_vector_unflushed(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str) -> tuple[Value, ...]:
    """As ``atom.add.noftz.f32``, element by element."""
    return _each_unflushed(lanes, a, b, space)


@instruction(
    f"red.{GLOBAL_RED_ORDER}.add.noftz.{HINT}.{{vec:v2|v4}}.f32", a="addr", b="in f32 {vec}", policy="in b64 ?", since=(9, 4), sm=90,
    loads="{space}", stores="{space}",
)  # fmt: skip
def red_vector_unflushed(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str) -> None:
    """As ``red.add.noftz.f32``, element by element."""
    _each_unflushed(lanes, a, b, space)


# -- vectors (sm_90): each element is an atomic access of its own -----------------------------------------------------------
VECTOR_HALVES = "{op:add|min|max}.noftz." + HINT + ".{vec:v2|v4|v8}.{type:f16|f16x2|bf16|bf16x2}"
VECTOR_FLOATS = "{op:add}." + HINT + ".{vec:v2|v4}.{type:f32}"


def _vector_legal(vec: str, type: str, **rest: str) -> bool:
    return type_of(type).bytes * int(vec[1:]) <= 16


@instruction(
    f"atom.{GLOBAL_ORDER}.{VECTOR_FLOATS}",
    d="out {type} {vec}",
    a="addr",
    b="in {type} {vec}",
    policy="in b64 ?",
    since=(8, 1),
    sm=90,
    loads="{space}",
    stores="{space}",
)
def atom_vector(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str, type: str) -> tuple[Value, ...]:
    """As ``atom.add.f32``, element by element."""
    return _each(lanes, a, b, space, type)


@instruction(
    f"red.{GLOBAL_RED_ORDER}.{VECTOR_FLOATS}",
    a="addr",
    b="in {type} {vec}",
    policy="in b64 ?",
    since=(8, 1),
    sm=90,
    loads="{space}",
    stores="{space}",
)
def red_vector(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str, type: str) -> None:
    """As ``red.add.f32``, element by element."""
    _each(lanes, a, b, space, type)


def _each(lanes: Lanes, a: Value, b: tuple[Value, ...], space: str, type: str, op: str = "add") -> tuple[Value, ...]:
    name, width = space_name(space), type_of(type).width
    results = []
    for i, value in enumerate(b):
        place = lanes.add(a, lanes.const(i * width // 8, 64))
        update = float_sum(lanes, name, place, type, value) if op == "add" else float_extreme(lanes, op, type, value)
        results.append(lanes.atomic(name, place, width, update))
    return tuple(results)


def float_extreme(lanes: Lanes, op: str, type: str, b: Value) -> Callable[[Value], Value]:
    """As ``min`` and ``max``: of a number and a NaN the number."""
    return lambda old: each(lanes, type, lambda x, y: floats.extreme(lanes, element(type), op == "max", x, y), old, b)


@instruction(
    f"atom.{GLOBAL_ORDER}.{VECTOR_HALVES}", d="out {type} {vec}", a="addr", b="in {type} {vec}", policy="in b64 ?", legal=_vector_legal,
    since=(8, 1), sm=90, loads="{space}", stores="{space}",
)  # fmt: skip
def atom_vector_half(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str, op: str, type: str) -> tuple[Value, ...]:
    """d = memory at [a]; memory = its sum with b, the smaller or the larger, element by element."""
    return _each(lanes, a, b, space, type, op)


@instruction(
    f"red.{GLOBAL_RED_ORDER}.{VECTOR_HALVES}",
    a="addr",
    b="in {type} {vec}",
    policy="in b64 ?",
    legal=_vector_legal,
    since=(8, 1),
    sm=90,
    loads="{space}",
    stores="{space}",
)
def red_vector_half(lanes: Lanes, a: Value, b: tuple[Value, ...], policy: Value, *, space: str, op: str, type: str) -> None:
    """Memory at [a] = its sum with b, the smaller or the larger, element by element."""
    _each(lanes, a, b, space, type, op)
