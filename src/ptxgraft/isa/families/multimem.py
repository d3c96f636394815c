"""One address for the memories of several GPUs (PTX ISA manual, "multimem.ld_reduce, multimem.st, multimem.red").

Invariant: an access through a multimem address is one in global memory; without a space the address is generic.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgraft.isa.families.memory import count_of
from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import instruction, refused
from ptxgraft.isa.types import type_of

_INSTEAD = "atom, red, ld and st on the memory of one GPU do; on='cuda' runs it where the GPU has it"

SCOPE = "{scope:cta|cluster|gpu|sys}?.{space:global}?"
OPERATIONS = "{op:min|max|add|and|or|xor}"
INTEGERS = "{type:b32|b64|u32|u64|s32|s64}"
FLOATS = "f16|f16x2|bf16|bf16x2|f32|f64"
EIGHTS = "e5m2|e5m2x2|e5m2x4|e4m3|e4m3x2|e4m3x4"
VECTOR = "{vec:v2|v4|v8}?"
_WHOLE_WORDS = ("f16x2", "bf16x2", "f32", "f64", "e5m2x4", "e4m3x4")


def _scoped(sem: str, scope: str) -> bool:
    """An order between threads has a scope, and a scope goes with an order."""
    return (sem in ("acquire", "release", "relaxed")) == bool(scope)


def _integer_legal(*, sem: str, scope: str, type: str, op: str = "", **rest: str) -> bool:
    bitwise = op in ("and", "or", "xor")
    return _scoped(sem, scope) and (not op or bitwise == type.startswith("b"))


def _vector_legal(*, sem: str, scope: str, type: str, vec: str, op: str = "", acc: str = "", **rest: str) -> bool:
    """Narrow types come in vectors of a word and more, of at most 16 bytes; minima and maxima are of halves and eights."""
    size = type_of(type).bytes * count_of(vec)
    if not _scoped(sem, scope) or size > 16 or (type == "f64" and vec) or (size < 4 and type not in _WHOLE_WORDS):
        return False
    if op in ("min", "max") and type in ("f32", "f64"):
        return False
    return _precise(type, op, acc)


def _precise(type: str, op: str, acc: str) -> bool:
    """Only sums have an accumulator of another precision: f32 for halves, f16 for eights."""
    if not acc:
        return True
    wide = ("f16", "f16x2", "bf16", "bf16x2") if acc == "acc::f32" else EIGHTS.split("|")
    return op == "add" and type in wide


def _declare(form: str, doc: str, legal: Callable[..., bool], **declaration: Any) -> None:
    def multimem(lanes: Lanes) -> None: ...

    multimem.__doc__ = doc
    newer = EIGHTS.partition("|")[0] in form
    instruction(
        form,
        legal=legal,
        needs={"acc::f32": ((8, 2), 90)},
        since=(8, 6) if newer else (8, 1),
        sm=100 if newer else 90,
        specific="f" if newer else "",
        **declaration,
    )(refused(_INSTEAD)(multimem))


@refused(_INSTEAD)
def _later(lanes: Lanes) -> None:
    """All memories = b, after what this thread did before."""


@refused(_INSTEAD)
def _later_sum(lanes: Lanes) -> None:
    """All memories = memory + b, after what this thread did before."""


LOAD, STORE = "{sem:relaxed|acquire|weak}?", "{sem:relaxed|release|weak}?"
_declare(
    f"multimem.ld_reduce.{LOAD}.{SCOPE}.{OPERATIONS}.{INTEGERS}", "d = the values in all memories, combined.", _integer_legal,
    d="out {type}", a="addr", loads="{space}",
)  # fmt: skip
_declare(f"multimem.st.{STORE}.{SCOPE}.{INTEGERS}", "All memories = b.", _integer_legal, a="addr", b="in {type}", stores="{space}")
_declare(
    f"multimem.red.{{sem:relaxed|release}}?.{SCOPE}.{OPERATIONS}.{INTEGERS}", "All memories = op(memory, b).", _integer_legal, a="addr",
    b="in {type}", loads="{space}", stores="{space}",
)  # fmt: skip
for _types in (FLOATS, EIGHTS):
    _accumulator = "acc::f32" if _types == FLOATS else "acc::f16"
    _declare(
        f"multimem.ld_reduce.{LOAD}.{SCOPE}.{{op:min|max|add}}.{{acc:{_accumulator}}}?.{VECTOR}.{{type:{_types}}}",
        "d = the values in all memories, combined element by element.", _vector_legal, d="out {type} {vec}", a="addr", loads="{space}",
    )  # fmt: skip
    _declare(
        f"multimem.st.{STORE}.{SCOPE}.{VECTOR}.{{type:{_types}}}", "All memories = b.", _vector_legal, a="addr", b="in {type} {vec}",
        stores="{space}",
    )  # fmt: skip
_declare(
    f"multimem.red.{{sem:relaxed|release}}?.{SCOPE}.{{op:add}}.{VECTOR}.{{type:{FLOATS}}}", "All memories = memory + b.", _vector_legal,
    a="addr", b="in {type} {vec}", loads="{space}", stores="{space}",
)  # fmt: skip
_RELEASED = "release.{scope:gpu|sys}.{space:global}?"
instruction(
    f"multimem.st.async.{_RELEASED}.{{type:b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}}", a="addr", b="in {type}", stores="{space}", since=(9, 3),
    sm=100,
)(_later)  # fmt: skip
instruction(
    f"multimem.red.async.{_RELEASED}.add.{{type:u32|s32|u64}}",
    a="addr",
    b="in {type}",
    loads="{space}",
    stores="{space}",
    since=(9, 3),
    sm=100,
)(_later_sum)
