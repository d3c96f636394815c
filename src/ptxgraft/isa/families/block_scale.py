"""Tensor cores with a kind and with factors for blocks (PTX ISA manual, "mma", "mma.sp": what came with PTX 8.6 and later).

Invariant: products mean what the numerics profile says (``isa.numerics``). A scale is a word with, in braces, the byte of it and the threads that it is
taken from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ptxgraft.isa.families.tensor import metadata_words
from ptxgraft.isa.fragments import Sparsity
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.numerics import MmaPlan, mma_plan
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.table import instruction

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


def _factors(lanes: Lanes, operand: str, scale: Value, place: tuple[Value, Value]) -> Value:
    """The words of a scale as if byte 0 and thread 0 were selected. Of A two threads of each quad supply (of rows 0-7, and of 8-15), of B one."""
    byte, thread = (lanes.resize(v, 32) for v in place)
    lane = lanes.special("laneid")
    if operand == "A":
        thread = lanes.or_(lanes.shift_left(thread, lanes.const(1, 32)), lanes.and_(lane, lanes.const(1, 32)))
    source = lanes.or_(lanes.and_(lane, lanes.const(28, 32)), lanes.and_(thread, lanes.const(3, 32)))
    return lanes.shift_right(lanes.read_lane(scale, source), lanes.shift_left(byte, lanes.const(3, 32)))


Product = Callable[..., tuple[Value, ...]]


def _product(
    lanes: Lanes, plan: MmaPlan, a: Value, b: Value, c: Value, sparse: tuple[Value, Imm] | None, scales: list[Value]
) -> tuple[Value, ...]:
    metadata = None if sparse is None else metadata_words(lanes, Sparsity.of(plan.shape, plan.a), sparse[0], int(sparse[1].value))
    return lanes.mma(plan, tuple(a), tuple(b), tuple(c), metadata, scales)


def _plain(shape: str) -> tuple[Product, Product]:
    """The meanings of ``kind::f8f6f4``: dense and sparse."""

    def mma_kind(lanes: Lanes, a: Value, b: Value, c: Value, *, dt: str, at: str, bt: str, ct: str) -> tuple[Value, ...]:
        """D = A * B + C on elements of eight bits and less."""
        return _product(lanes, mma_plan(shape, dt, at, bt, ct, lanes.profile, kind="f8f6f4"), a, b, c, None, [])

    def mma_sp_kind(
        lanes: Lanes, a: Value, b: Value, c: Value, e: Value, f: Imm, *, dt: str, at: str, bt: str, ct: str
    ) -> tuple[Value, ...]:
        """D = A * B + C on elements of eight bits and less, half of A's elements left out."""
        return _product(lanes, mma_plan(shape, dt, at, bt, ct, lanes.profile, kind="f8f6f4", sparse=True), a, b, c, (e, f), [])

    return mma_kind, mma_sp_kind


def _scaled(shape: str, kind: str, scale: str, depth: int) -> tuple[Product, Product]:
    """The meanings of a kind with factors of type ``scale``: dense and sparse; ``depth`` products are summed."""

    def plan(lanes: Lanes, at: str, bt: str, vector: str, sparse: bool) -> MmaPlan:
        count = int(vector[-2]) if vector else depth // 32
        return mma_plan(shape, "f32", at, bt, "f32", lanes.profile, sparse=sparse, kind=kind, scale=scale, block=depth // count)

    def mma_scaled(
        lanes: Lanes,
        a: Value,
        b: Value,
        c: Value,
        sa: Value,
        pa: tuple[Value, Value],
        sb: Value,
        pb: tuple[Value, Value],
        *,
        at: str,
        bt: str,
        vector: str,
    ) -> tuple[Value, ...]:
        """D = A * B + C with a factor for each block of A and B."""
        scales = [_factors(lanes, "A", sa, pa), _factors(lanes, "B", sb, pb)]
        return _product(lanes, plan(lanes, at, bt, vector, False), a, b, c, None, scales)

    def mma_sp_scaled(
        lanes: Lanes, a: Value, b: Value, c: Value, e: Value, f: Imm, sa: Value, pa: tuple[Value, Value], sb: Value, pb: tuple[Value, Value],
        *, at: str, bt: str, vector: str,
    ) -> tuple[Value, ...]:  # fmt: skip
        """D = A * B + C with a factor for each block of A and B, half of A's elements left out."""
        scales = [_factors(lanes, "A", sa, pa), _factors(lanes, "B", sb, pb)]
        return _product(lanes, plan(lanes, at, bt, vector, True), a, b, c, (e, f), scales)

    return mma_scaled, mma_sp_scaled


def _declare(form: str, meaning: Product, since: tuple[int, int] = (8, 7), specific: str = "f", **declaration: Any) -> None:
    instruction(form, convergent=True, since=since, sm=120, specific=specific, **declaration)(meaning)


_METADATA: dict[str, Any] = {"e": "in b32", "f": "text"}
_NOTHING: dict[str, Any] = {}

for _sparse, _twice, _b, _extra in (("", 1, 2, _NOTHING), ("sp::ordered_metadata.", 2, 4, _METADATA)):
    _shape = f"m16n8k{32 * _twice}"
    _declare(
        f"mma.{_sparse}sync.aligned.{_shape}.row.col.kind::f8f6f4.{{dt:f16|f32}}.{{at:{EIGHTS}}}.{{bt:{EIGHTS}}}.{{ct:f16|f32}}",
        _plain(_shape)[bool(_sparse)], d="{d}", a="in b32 x4", b=f"in b32 x{_b}", c="{c}", **_extra, derive=_accumulators,
        legal=lambda *, dt, ct, **rest: dt == ct,
    )  # fmt: skip
    for _kind, _types, _vector, _scale, _k, _since in KINDS:
        _shape = f"m16n8k{_k * _twice}"
        _declare(
            f"mma.{_sparse}sync.aligned.{_shape}.row.col.{_kind}.block_scale.{_vector}.{{dt:f32}}.{{at:{_types}}}.{{bt:{_types}}}.{{ct:f32}}.{_scale}",
            _scaled(_shape, _kind.removeprefix("kind::"), _scale, _k)[bool(_sparse)], d="out f32 x4", a="in b32 x4", b=f"in b32 x{_b}",
            c="in f32 x4", **_extra, **SCALES, since=_since, specific="a" if _sparse and _k == 64 else "f",
        )  # fmt: skip
