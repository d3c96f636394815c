"""Tensor cores with a kind and with factors for blocks, and matrices of bytes through shared memory (PTX ISA manual, "mma", "mma.sp",
"ldmatrix", "stmatrix": what came with PTX 8.6 and later).

Invariant: roles and effects alone. A scale is a word with, in braces, the byte of it and the threads that it is taken from.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import declare_only, instruction

EIGHTS = "e4m3|e5m2|e3m2|e2m3|e2m1"
SCALES: dict[str, Any] = {"scale_a": "in b32", "place_a": "in b16 x2", "scale_b": "in b32", "place_b": "in b16 x2"}
KINDS = (
    ("kind::mxf8f6f4", EIGHTS, "{vector:scale_vec::1X}?", "ue8m0", 32, (8, 7)),
    ("kind::mxf4", "e2m1", "{vector:scale_vec::2X}?", "ue8m0", 64, (8, 7)),
    ("kind::mxf4nvf4", "e2m1", "{vector:scale_vec::2X}", "ue8m0", 64, (8, 7)),
    ("kind::mxf4nvf4", "e2m1", "{vector:scale_vec::4X}", "ue4m3", 64, (8, 7)),
    ("kind::mxf4nvf4", "e2m1", "{vector:scale_vec::4X}", "ue8m0", 64, (9, 1)),
)
"""Kind, types of A and B, how many factors a row has for one product, their type, K of a dense product, first version."""


def _accumulators(*, dt: str, ct: str, **rest: str) -> Mapping[str, str]:
    return {"d": "out f32 x4" if dt == "f32" else "out b32 x2", "c": "in f32 x4" if ct == "f32" else "in b32 x2"}


def _declare(form: str, doc: str, since: tuple[int, int] = (8, 7), specific: str = "f", **declaration: Any) -> None:
    def product(lanes: Lanes) -> None: ...

    product.__doc__ = doc
    instruction(form, convergent=True, since=since, sm=120, specific=specific, **declaration)(declare_only(product))


_METADATA: dict[str, Any] = {"e": "in b32", "f": "text"}
_NOTHING: dict[str, Any] = {}

for _sparse, _twice, _b, _extra in (("", 1, 2, _NOTHING), ("sp::ordered_metadata.", 2, 4, _METADATA)):
    _left_out = ", half of A's elements left out" if _sparse else ""
    _declare(
        f"mma.{_sparse}sync.aligned.m16n8k{32 * _twice}.row.col.kind::f8f6f4.{{dt:f16|f32}}.{{at:{EIGHTS}}}.{{bt:{EIGHTS}}}.{{ct:f16|f32}}",
        f"D = A * B + C on elements of eight bits and less{_left_out}.", d="{d}", a="in b32 x4", b=f"in b32 x{_b}", c="{c}", **_extra,
        derive=_accumulators, legal=lambda *, dt, ct, **rest: dt == ct,
    )  # fmt: skip
    for _kind, _types, _vector, _scale, _k, _since in KINDS:
        _declare(
            f"mma.{_sparse}sync.aligned.m16n8k{_k * _twice}.row.col.{_kind}.block_scale.{_vector}.{{dt:f32}}.{{at:{_types}}}.{{bt:{_types}}}.{{ct:f32}}."
            f"{_scale}",
            f"D = A * B + C with a factor for each block of A and B{_left_out}.", d="out f32 x4", a="in b32 x4", b=f"in b32 x{_b}",
            c="in f32 x4", **_extra, **SCALES, since=_since, specific="a" if _sparse and _k == 64 else "f",
        )  # fmt: skip


# -- matrices through shared memory ---------------------------------------------------------------------------------------
SPACE = "{space:shared|shared::cta}?"
SPREAD = "b8x16.{source:b6x16_p32|b4x16_p64}"


@instruction(
    f"ldmatrix.sync.aligned.m8n16.{{num:x1|x2|x4}}.{SPACE}.{SPREAD}", r="out b32 {num}", p="addr", loads="{space}", convergent=True,
    since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@declare_only
def ldmatrix_spread(lanes: Lanes) -> None:
    """Load matrices of 8 rows of 16 six- or four-bit elements, each spread to a byte."""


@instruction(
    f"ldmatrix.sync.aligned.m16n16.{{num:x1|x2}}.trans.{SPACE}.{{type:b8}}", r="out b32 {count}", p="addr", loads="{space}", convergent=True,
    derive=lambda num, **rest: {"count": f"x{2 * int(num[1:])}"}, since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@declare_only
def ldmatrix_bytes(lanes: Lanes) -> None:
    """Load matrices of 16 rows of 16 bytes, transposed."""


@instruction(
    f"ldmatrix.sync.aligned.m16n16.{{num:x1|x2}}.trans.{SPACE}.{SPREAD}", r="out b32 {count}", p="addr", loads="{space}", convergent=True,
    derive=lambda num, **rest: {"count": f"x{2 * int(num[1:])}"}, since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@declare_only
def ldmatrix_bytes_spread(lanes: Lanes) -> None:
    """Load matrices of 16 rows of 16 six- or four-bit elements, each spread to a byte, transposed."""


@instruction(
    f"stmatrix.sync.aligned.m16n8.{{num:x1|x2|x4}}.trans.{SPACE}.{{type:b8}}", p="addr", r="in b32 {num}", stores="{space}", convergent=True,
    since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@declare_only
def stmatrix_bytes(lanes: Lanes) -> None:
    """Store matrices of 16 rows of 8 bytes, transposed."""
