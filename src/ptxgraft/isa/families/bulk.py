"""Bulk copies and their groups (PTX ISA manual, "Data Movement and Conversion Instructions: Asynchronous copy", "Tensor copy").

Invariant: ``loads`` and ``stores`` name the spaces that a copy reads and writes; the barrier object that counts it lies in shared memory. A copy is made
at once: a program that reads it before its wait has no defined result. A cluster is one block. Tensors, and several GPUs' memory, have roles and
effects alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ptxgraft.isa.families.atomic import float_extreme, float_sum, integer_update
from ptxgraft.isa.families.mbarrier import complete
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.table import instruction, refused
from ptxgraft.isa.types import type_of

_WHOLE = "cp.async.bulk without .ignore_oob copies what lies in memory as a whole; on='cuda' runs it where the GPU has it"
INSTEAD_TENSOR = "cp.async.bulk without a tensor map copies and reduces rows; on='cuda' runs it where the GPU has it"
_ONE = "cp.async.bulk and cp.reduce.async.bulk on the memory of one GPU do; on='cuda' runs it where the GPU has it"

COUNTED = "mbarrier::complete_tx::bytes"
HINT = "{hint:L2::cache_hint}?"
MULTICAST = "{multicast:multicast::cluster|multicast::cluster::16b}?"
WEAK = "{sem:weak}?"
ORDER = "{sem:relaxed}?.{scope:cta|cluster|gpu|sys}?"
NEWER = {"weak": ((9, 3), 90), "relaxed": ((9, 3), 90), "multicast::cluster::16b": ((9, 4), 90)}
DIMENSIONS = "{dim:1d|2d|3d|4d|5d}"


def asked(hint: str = "", multicast: str = "", mask: str = "", **rest: str) -> Mapping[str, str]:
    """The operands that flags ask for."""
    return {
        "policy": "in b64" if hint else "",
        "ctas": ("in b32" if multicast.endswith("::32b") else "in b16") if multicast else "",
        "bytes": "in b16" if mask else "",
    }


def nth(lanes: Lanes, a: Value, i: Value, size: int) -> Value:
    """The address of element ``i`` (b32) of ``size`` bytes behind the 64-bit address ``a``."""
    return lanes.add(a, lanes.mul(lanes.resize(i, 64), lanes.const(size, 64)))


def one_block(lanes: Lanes, ctas: Value) -> None:
    """Stop where a mask of blocks names others than the first: a cluster is one block."""
    lanes.fault(lanes.compare("ne", ctas, lanes.const(1, lanes.width(ctas))), "the cluster is one block, the mask says {}", ctas)


def _counted(lanes: Lanes, size: Value) -> None:
    odd = lanes.compare("ne", lanes.and_(size, lanes.const(15, 32)), lanes.const(0, 32))
    lanes.fault(odd, "copies {} bytes, which is no multiple of 16", size)


def _bytes_of(lanes: Lanes, mask: Value, first: int) -> Value:
    """Eight bits of a mask from ``first`` on as eight bytes of ones or zeros."""
    wide = lanes.resize(mask, 32)
    bits = [lanes.and_(lanes.shift_right(wide, lanes.const(first + i, 32)), lanes.const(1, 32)) for i in range(8)]
    return lanes.concat([lanes.resize(lanes.sub(lanes.const(0, 32), bit), 8) for bit in bits])


def _copy(lanes: Lanes, target: str, to: Value, origin: str, source: Value, size: Value, mask: Value = None) -> None:
    """Copy sixteen bytes at a time; ``mask`` (b16) says which bytes of each."""
    _counted(lanes, size)
    kept = [_bytes_of(lanes, mask, half) for half in (0, 8)] if mask is not None else []

    def piece(i: Value) -> None:
        words = lanes.load(origin, nth(lanes, source, i, 16), 64, 2)
        if kept:
            old = lanes.load(target, nth(lanes, to, i, 16), 64, 2)
            words = tuple(
                lanes.or_(lanes.and_(new, k), lanes.and_(was, lanes.not_(k))) for new, was, k in zip(words, old, kept, strict=True)
            )
        lanes.store(target, nth(lanes, to, i, 16), words)

    lanes.repeat(lanes.shift_right(size, lanes.const(4, 32)), piece)


def _reduce(lanes: Lanes, target: str, to: Value, source: Value, size: Value, op: str, type: str) -> None:
    """Combine element by element, each at once."""
    _counted(lanes, size)
    unit, width = type_of(type).bytes, type_of(type).width

    def one(i: Value) -> None:
        place = nth(lanes, to, i, unit)
        (value,) = lanes.load("shared", nth(lanes, source, i, unit), width)
        if type_of(type).kind != "f":
            update = integer_update(lanes, op, type, value)
        elif type == "f32":  # keeps subnormals, which ``red`` flushes (measured on an H200)
            update = partial(lanes.float_add, "f32", value)
        elif op == "add":
            update = float_sum(lanes, target, place, type, value)
        else:
            update = float_extreme(lanes, op, type, value)
        lanes.atomic(target, place, width, update)

    lanes.repeat(lanes.divide(size, lanes.const(unit, 32), False), one)


# -- plain copies ---------------------------------------------------------------------------------------------------------
@instruction(
    f"cp.async.bulk.{WEAK}.{{dst:shared::cta|shared::cluster}}.global.{COUNTED}.{MULTICAST}.{HINT}", needs={"shared::cta": ((8, 6), 90), **NEWER},
    to="addr", source="addr", size="in u32", mbar="addr", cta_mask="{ctas}", policy="{policy}",
    loads="global", stores="shared", derive=asked, legal=lambda *, dst, multicast, **rest: dst != "shared::cta" or not multicast,
    since=(8, 0), sm=90,
)  # fmt: skip
def bulk_in(
    lanes: Lanes, to: Value, source: Value, size: Value, mbar: Value, ctas: Value = None, policy: Value = None, *, multicast: str
) -> None:
    """Copy ``size`` bytes (a multiple of 16) from global to shared memory and count them at an mbarrier."""
    if multicast:
        one_block(lanes, ctas)
    _copy(lanes, "shared", to, "global", source, size)
    complete(lanes, "shared", mbar, size)


@instruction(
    f"cp.async.bulk.{WEAK}.shared::cta.global.{COUNTED}.{HINT}.ignore_oob", to="addr", source="addr", size="in u32", left="in u32", right="in u32",
    mbar="addr", policy="{policy}", loads="global", stores="shared", derive=asked, needs=NEWER, since=(9, 2), sm=90,
)  # fmt: skip
@refused(_WHOLE)
def bulk_in_loose(lanes: Lanes) -> None:
    """As above, where up to fifteen bytes at each end may lie outside of memory."""


@instruction(
    f"cp.async.bulk.{WEAK}.shared::cluster.shared::cta.{COUNTED}", needs=NEWER, to="addr", source="addr", size="in u32", mbar="addr", loads="shared",
    stores="shared", since=(8, 0), sm=90,
)  # fmt: skip
def bulk_across(lanes: Lanes, to: Value, source: Value, size: Value, mbar: Value) -> None:
    """Copy ``size`` bytes to the shared memory of a block of the cluster and count them at its mbarrier."""
    _copy(lanes, "shared", to, "shared", source, size)
    complete(lanes, "shared", mbar, size)


@instruction(
    f"cp.async.bulk.{WEAK}.global.shared::cta.bulk_group.{HINT}.{{mask:cp_mask}}?", to="addr", source="addr", size="in u32", policy="{policy}",
    byte_mask="{bytes}", loads="shared", stores="global", derive=asked, needs={"cp_mask": ((8, 6), 100), **NEWER}, since=(8, 0), sm=90,
)  # fmt: skip
def bulk_out(lanes: Lanes, to: Value, source: Value, size: Value, *optional: Value, mask: str) -> None:
    """Copy ``size`` bytes from shared to global memory, of each sixteen those that the mask has bits for."""
    _copy(lanes, "global", to, "shared", source, size, optional[-1] if mask else None)


@instruction(f"cp.async.bulk.prefetch.L2.global.{HINT}", source="addr", size="in u32", policy="{policy}", derive=asked, since=(8, 0), sm=90)
def bulk_prefetch(lanes: Lanes, *inputs: Value) -> None:
    """Nothing: memory would be fetched into a cache."""


# -- copies that reduce ---------------------------------------------------------------------------------------------------
REDUCTIONS = "{op:and|or|xor|add|inc|dec|min|max}"
_NUMBERS = ("u32", "s32", "u64")
_ACROSS = {"and": ("b32",), "add": _NUMBERS, "inc": ("u32",), "min": ("u32", "s32")}
_OUT = {"and": ("b32", "b64"), "add": (*_NUMBERS, "f32", "f64"), "inc": ("u32",), "min": (*_NUMBERS, "s64", "f16", "bf16")}
_ALIKE = {"or": "and", "xor": "and", "dec": "inc", "max": "min"}


def _scoped(sem: str, scope: str) -> bool:
    """An order has a scope."""
    return bool(sem) == bool(scope)


def _reduction_legal(table: Mapping[str, tuple[str, ...]], op: str, type: str) -> bool:
    return type in table[_ALIKE.get(op, op)]


@instruction(
    f"cp.reduce.async.bulk.{{sem:relaxed}}?.{{scope:cluster}}?.shared::cluster.shared::cta.{COUNTED}.{REDUCTIONS}.{{type:b32|u32|s32|u64}}", to="addr", source="addr",
    size="in u32", mbar="addr", loads="shared", stores="shared", legal=lambda *, sem, scope, op, type: _scoped(sem, scope) and _reduction_legal(_ACROSS, op, type), needs=NEWER,
    since=(8, 0), sm=90,
)  # fmt: skip
def bulk_reduce_across(lanes: Lanes, to: Value, source: Value, size: Value, mbar: Value, *, op: str, type: str) -> None:
    """Combine an array in shared memory into one in the shared memory of a block of the cluster."""
    _reduce(lanes, "shared", to, source, size, op, type)
    complete(lanes, "shared", mbar, size)


@instruction(
    f"cp.reduce.async.bulk.{ORDER}.global.shared::cta.bulk_group.{HINT}.{REDUCTIONS}.{{type:f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64}}", to="addr",
    source="addr", size="in u32", policy="{policy}", loads="shared", stores="global", derive=asked,
    legal=lambda *, sem, scope, hint, op, type: _scoped(sem, scope) and _reduction_legal(_OUT, op, type), needs=NEWER, since=(8, 0), sm=90,
)  # fmt: skip
def bulk_reduce_out(lanes: Lanes, to: Value, source: Value, size: Value, policy: Value = None, *, op: str, type: str) -> None:
    """Combine an array in shared memory into one in global memory."""
    _reduce(lanes, "global", to, source, size, op, type)


@instruction(
    f"cp.reduce.async.bulk.{ORDER}.global.shared::cta.bulk_group.{HINT}.add.noftz.{{type:f16|bf16|f32}}", to="addr", source="addr", size="in u32",
    policy="{policy}", loads="shared", stores="global", derive=asked, legal=lambda *, sem, scope, **rest: _scoped(sem, scope), needs={"f32": ((9, 4), 90), **NEWER}, since=(8, 0), sm=90,
)  # fmt: skip
def bulk_reduce_half(lanes: Lanes, to: Value, source: Value, size: Value, policy: Value = None, *, type: str) -> None:
    """Add an array in shared memory to one in global memory, subnormals kept."""
    _reduce(lanes, "global", to, source, size, "add", type)


# -- tensors: [map, {coordinates}] ----------------------------------------------------------------------------------------
_FIRST_OF_MODE = {"im2col": 3, "im2col::w": 3, "im2col::w::128": 3, "im2col_no_offs": 3, "im2col_no_offs::w": 3}


def mode_legal(dim: str, mode: str) -> bool:
    """im2col has at least three dimensions, gathering and scattering of rows have two."""
    if mode in ("tile::gather4", "tile::scatter4"):
        return dim == "2d"
    return int(dim[0]) >= _FIRST_OF_MODE.get(mode, 1)


def tensor_asked(dim: str, mode: str = "", **flags: str) -> Mapping[str, str]:
    """The offsets of im2col: one for each dimension but channel and batch, or the halo and the offset of a column."""
    count = {"im2col": int(dim[0]) - 2, "im2col::w": 2, "im2col::w::128": 2}.get(mode, 0)
    return {**asked(**flags), "shift": f"in b16 x{count}" if count else ""}


@instruction(
    f"cp.async.bulk.tensor.{DIMENSIONS}.{{dst:shared::cta|shared::cluster}}.global.{{mode:tile|im2col}}?.{COUNTED}.{MULTICAST}.{HINT}",
    to="addr", tensor="resource s32", mbar="addr", offsets="{shift}", cta_mask="{ctas}", policy="{policy}", loads="global", stores="shared",
    derive=tensor_asked, legal=lambda *, dim, dst, mode, multicast, hint: mode_legal(dim, mode) and (dst != "shared::cta" or not multicast),
    needs={"shared::cta": ((8, 6), 90), **NEWER}, since=(8, 0), sm=90,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_in(lanes: Lanes) -> None:
    """Copy a box of a tensor from global to shared memory and count its bytes at an mbarrier."""


@instruction(
    f"cp.async.bulk.tensor.{DIMENSIONS}.{{dst:shared::cta|shared::cluster}}.global."
    f"{{mode:tile|tile::gather4|im2col|im2col::w|im2col::w::128}}?.{COUNTED}.{MULTICAST}.{{group:cta_group::1|cta_group::2}}?.{HINT}",
    to="addr", tensor="resource s32", mbar="addr", offsets="{shift}", cta_mask="{ctas}", policy="{policy}", loads="global", stores="shared",
    derive=tensor_asked,
    legal=lambda *, dim, dst, mode, multicast, group, hint: mode_legal(dim, mode) and (dst != "shared::cta" or not multicast),
    needs=NEWER, since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_in_group(lanes: Lanes) -> None:
    """As above, rows gathered or convolution columns with a halo; ``cta_group::2`` counts at the mbarrier of a block of the pair."""


@instruction(
    f"cp.async.bulk.tensor.{DIMENSIONS}.global.shared::cta.{{mode:tile|im2col_no_offs}}?.bulk_group.{HINT}", tensor="resource s32",
    source="addr", policy="{policy}", loads="shared", stores="global", derive=asked,
    legal=lambda *, dim, mode, hint: mode_legal(dim, mode), since=(8, 0), sm=90,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_out(lanes: Lanes) -> None:
    """Copy a box of a tensor from shared to global memory."""


@instruction(
    f"cp.async.bulk.tensor.{{dim:2d}}.global.shared::cta.tile::scatter4.bulk_group.{HINT}", tensor="resource s32", source="addr",
    policy="{policy}", loads="shared", stores="global", derive=asked, since=(8, 6), sm=100, specific="f",
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_scatter(lanes: Lanes) -> None:
    """Copy four rows from shared memory to rows of a tensor in global memory."""


@instruction(
    f"cp.reduce.async.bulk.tensor.{DIMENSIONS}.global.shared::cta.{REDUCTIONS}.{{mode:tile|im2col_no_offs}}?.bulk_group.{HINT}",
    tensor="resource s32", source="addr", policy="{policy}", loads="shared", stores="global", derive=asked,
    legal=lambda *, dim, op, mode, hint: mode_legal(dim, mode), since=(8, 0), sm=90,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_reduce(lanes: Lanes) -> None:
    """Combine a box of a tensor in shared memory into the one in global memory."""


@instruction(
    f"cp.async.bulk.prefetch.tensor.{DIMENSIONS}.L2.global.{{mode:tile|im2col}}?.{HINT}", tensor="resource s32", offsets="{shift}",
    policy="{policy}", derive=tensor_asked, legal=lambda *, dim, mode, hint: mode_legal(dim, mode), since=(8, 0), sm=90,
)  # fmt: skip
def tensor_prefetch(lanes: Lanes, *inputs: Value) -> None:
    """Nothing: a box of a tensor would be fetched into a cache."""


@instruction(
    f"cp.async.bulk.prefetch.tensor.{{dim:2d|3d|4d|5d}}.L2.global.{{mode:tile::gather4|im2col::w|im2col::w::128}}.{HINT}", tensor="resource s32",
    offsets="{shift}", policy="{policy}", derive=tensor_asked, legal=lambda *, dim, mode, hint: mode_legal(dim, mode), since=(8, 6),
    sm=100, specific="f",
)  # fmt: skip
def tensor_prefetch_rows(lanes: Lanes, *inputs: Value) -> None:
    """Nothing: parts of a tensor would be fetched into a cache."""


# -- groups ---------------------------------------------------------------------------------------------------------------
@instruction("cp.async.bulk.commit_group", since=(8, 0), sm=90)
def bulk_commit(lanes: Lanes) -> None:
    """Nothing: the copies before it have been made."""


@instruction("cp.async.bulk.wait_group.sync_restrict::proxy::async", n="text", since=(9, 5), sm=90)
@instruction("cp.async.bulk.wait_group.{read}?", n="text", since=(8, 0), sm=90)
def bulk_wait(lanes: Lanes, n: Imm) -> None:
    """Nothing: the copies before it have been made."""


# -- several GPUs' memory -------------------------------------------------------------------------------------------------
@instruction(
    f"multimem.cp.async.bulk.{WEAK}.global.shared::cta.bulk_group.{{mask:cp_mask}}?", to="addr", source="addr", size="in u32", byte_mask="{bytes}",
    loads="shared", stores="global", derive=asked, needs={"cp_mask": ((9, 1), 100), **NEWER}, since=(9, 1), sm=90,
)  # fmt: skip
@refused(_ONE)
def multimem_bulk_out(lanes: Lanes) -> None:
    """As ``cp.async.bulk`` from shared memory, to all memories behind a multimem address."""


@instruction(
    f"multimem.cp.reduce.async.bulk.{ORDER}.global.shared::cta.bulk_group.{REDUCTIONS}.{{type:f16|bf16|b32|u32|s32|b64|u64|s64|f32|f64}}",
    to="addr", source="addr", size="in u32", loads="shared", stores="global",
    legal=lambda *, sem, scope, op, type: _scoped(sem, scope) and _reduction_legal(_OUT, op, type), needs=NEWER, since=(9, 1), sm=90,
)  # fmt: skip
@refused(_ONE)
def multimem_bulk_reduce(lanes: Lanes) -> None:
    """As ``cp.reduce.async.bulk``, in all memories behind a multimem address."""


@instruction(
    f"multimem.cp.reduce.async.bulk.{ORDER}.global.shared::cta.bulk_group.add.noftz.{{type:f16|bf16|f32}}", to="addr", source="addr",
    size="in u32", loads="shared", stores="global", legal=lambda *, sem, scope, type: _scoped(sem, scope), needs={"f32": ((9, 4), 90), **NEWER},
    since=(9, 1), sm=90,
)  # fmt: skip
@refused(_ONE)
def multimem_bulk_reduce_half(lanes: Lanes) -> None:
    """As ``cp.reduce.async.bulk.add.noftz``, in all memories behind a multimem address."""
