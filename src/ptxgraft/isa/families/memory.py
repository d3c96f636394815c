"""Loads, stores and asynchronous copies (PTX ISA manual, "Data Movement and Conversion Instructions").

Invariant: what memory ordering, cache operators, eviction priorities and prefetch sizes say never changes a value here: one lane's
accesses happen in its own order, and every store is visible at once to every lane that comes later.
"""

from __future__ import annotations

from collections.abc import Sequence

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.operands import Imm
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

TYPES = "{type:b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}"
SINGLE = TYPES.replace("b128|", "")
SCOPE = "{scope:cta|cluster|gpu|sys}?"
LOAD_SPACES = "{space:global|shared|shared::cta|shared::cluster|local|param|param::entry|param::func|const}?"
STORE_SPACES = "{space:global|shared|shared::cta|shared::cluster|local|param|param::func}?"
L1 = "{l1:L1::evict_normal|L1::evict_unchanged|L1::evict_first|L1::evict_last|L1::no_allocate}?"
L2 = "{l2:L2::evict_normal|L2::evict_first|L2::evict_last}?"
HINTS = f"{L1}.{L2}.{{hint:L2::cache_hint}}?.{{prefetch:L2::64B|L2::128B|L2::256B}}?"
VECTOR = "{vec:v2|v4|v8}?"
WIDE = {f"L2::{word}": ((8, 8), 100) for word in ("evict_normal", "evict_first", "evict_last")}
"""The priorities of accesses of 32 bytes."""


def space_name(space: str) -> str:
    """The memory space a spelling names: ``shared::cta`` is shared, none is generic."""
    return space.partition("::")[0] or "generic"


def count_of(vec: str) -> int:
    """The number of elements of a vector slot: 4 for ``v4``, 1 for none."""
    return int(vec[1:]) if vec else 1


def _legal(sem: str, scope: str, space: str, vec: str, type: str, l2: str, **rest: str) -> bool:
    """At most 16 bytes an access (32 in global memory, where alone ``l2`` may be said); a scope goes with an order between threads, and one
    with it."""
    size = type_of(type).bytes * count_of(vec)
    wide = space in ("global", "") and (type_of(type).width, vec) in ((32, "v8"), (64, "v4"))
    if (size > 16 or l2) and not wide:
        return False
    return (sem in ("relaxed", "acquire", "release")) == bool(scope)


def _device_legal(sem: str, scope: str, space: str, vec: str, **rest: str) -> bool:
    """Accesses of devices are relaxed, of the whole system, one element each, in global memory."""
    return (sem, scope, vec) == ("relaxed", "sys", "") and space in ("", "global")


def _load_legal(cop: str, nc: str, mmio: str, **slots: str) -> bool:
    if nc and (slots["space"] != "global" or slots["sem"] not in ("", "weak")):
        return False
    if mmio and not _device_legal(**slots):
        return False
    return _legal(**slots) and not (cop and slots["sem"] not in ("", "weak"))


def _elements(values: Sequence[Value]) -> Value | tuple[Value, ...]:
    return values[0] if len(values) == 1 else tuple(values)


@instruction(
    f"ld.{{mmio}}?.{{sem:weak|volatile|relaxed|acquire}}?.{SCOPE}.{LOAD_SPACES}.{{cop:ca|cg|cs|lu|cv}}?.{{nc}}?.{HINTS}.{VECTOR}.{TYPES}",
    d="out {type} {vec}",
    a="addr",
    policy="in b64 ?",
    loads="{space}",
    legal=_load_legal,
    needs=WIDE,
)
def ld(lanes: Lanes, a: Value, policy: Value, *, space: str, vec: str, type: str) -> Value | tuple[Value, ...]:
    """d = memory at [a]. Narrow types are widened to the register by their sign."""
    return _elements(lanes.load(space_name(space), a, type_of(type).width, count_of(vec)))


def _ldu_legal(vec: str, type: str, **rest: str) -> bool:
    return type_of(type).bytes * count_of(vec) <= 16


@instruction(
    "ldu.{space:global}?.{vec:v2|v4}?.{type:b8|b16|b32|b64|b128|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64}",
    d="out {type} {vec}",
    a="addr",
    loads="{space}",
    since=(2, 0),
    sm=20,
    legal=_ldu_legal,
)
def ldu(lanes: Lanes, a: Value, *, space: str, vec: str, type: str) -> Value | tuple[Value, ...]:
    """d = read-only memory at [a], the same address in every lane of the warp (which changes speed alone)."""
    return _elements(lanes.load(space_name(space), a, type_of(type).width, count_of(vec)))


def _store_legal(cop: str, mmio: str, **slots: str) -> bool:
    if mmio and not _device_legal(**slots):
        return False
    return _legal(**slots) and not (cop and slots["sem"] not in ("", "weak"))


@instruction(
    f"st.{{mmio}}?.{{sem:weak|volatile|relaxed|release}}?.{SCOPE}.{STORE_SPACES}.{{cop:wb|cg|cs|wt}}?.{L1}.{L2}.{{hint:L2::cache_hint}}?.{VECTOR}.{TYPES}",
    a="addr",
    b="in {type} {vec}",
    policy="in b64 ?",
    stores="{space}",
    legal=_store_legal,
    needs=WIDE,
)
def st(lanes: Lanes, a: Value, b: Value | tuple[Value, ...], policy: Value, *, space: str, vec: str) -> None:
    """Memory at [a] = b; where two lanes store to one place the highest lane wins."""
    lanes.store(space_name(space), a, b if isinstance(b, tuple) else (b,))


@instruction(f"ld.mmio.acquire.sys.{{space:global}}?.{SINGLE}", d="out {type}", a="addr", loads="{space}", since=(9, 3), sm=70)
def ld_device(lanes: Lanes, a: Value, *, space: str, type: str) -> Value:
    """d = a device's memory at [a], before what this thread does later."""
    return lanes.load(space_name(space), a, type_of(type).width)[0]


@instruction(f"st.mmio.release.sys.{{space:global}}?.{SINGLE}", a="addr", b="in {type}", stores="{space}", since=(9, 3), sm=70)
def st_device(lanes: Lanes, a: Value, b: Value, *, space: str) -> None:
    """A device's memory at [a] = b, after what this thread did before."""
    lanes.store(space_name(space), a, (b,))


@instruction(
    f"ld.{{space:global}}?.{{nc}}?.proxy::readonly.{VECTOR}.{SINGLE}", d="out {type} {vec}", a="addr", loads="{space}", needs=WIDE, since=(9, 4), sm=90,
    legal=lambda *, space, nc, vec, type: _legal("", "", space, vec, type, "") and bool(space or not nc),
)  # fmt: skip
def ld_readonly(lanes: Lanes, a: Value, *, space: str, vec: str, type: str) -> Value | tuple[Value, ...]:
    """d = memory at [a], which nobody writes."""
    return _elements(lanes.load(space_name(space), a, type_of(type).width, count_of(vec)))


# -- hints that change nothing --------------------------------------------------------------------------------------------
@instruction("prefetch.{space:global|local}?.{level:L1|L2}", a="addr", since=(2, 0), sm=20)
def prefetch(lanes: Lanes, a: Value) -> None:
    """Nothing: a cache line would be fetched."""


@instruction("prefetch.global.{level:L2::evict_last|L2::evict_normal}", a="addr", since=(7, 4), sm=80)
def prefetch_priority(lanes: Lanes, a: Value) -> None:
    """Nothing: a cache line would be fetched."""


@instruction("prefetchu.L1", a="addr", since=(2, 0), sm=20)
def prefetchu(lanes: Lanes, a: Value) -> None:
    """Nothing: a uniform cache line would be fetched."""


@instruction("applypriority.{space:global}?.L2::evict_normal", a="addr", size="text", since=(7, 4), sm=80)
def applypriority(lanes: Lanes, a: Value, size: Imm) -> None:
    """Nothing: the eviction priority of 128 bytes would change."""


# -- asynchronous copies --------------------------------------------------------------------------------------------------
CP_ASYNC = "cp.async.{cop:ca|cg}.{space:shared|shared::cta}.global"
CP_PREFETCH = "{prefetch:L2::64B|L2::128B|L2::256B}?"


@instruction(
    f"{CP_ASYNC}.{CP_PREFETCH}",
    dst="addr",
    src="addr",
    size="text",
    src_size="in u32 ?",
    loads="global",
    stores="{space}",
    since=(7, 0),
    sm=80,
)
def cp_async(lanes: Lanes, dst: Value, src: Value, size: Imm, src_size: Value) -> None:
    """Copy ``size`` (4, 8 or 16) bytes from global to shared memory, the bytes from ``src_size`` on as zeros.

    The copy is made at once: a program that reads it before its wait has no defined result.
    """
    words = int(size.value) // 4
    if src_size is None:
        lanes.store("shared", dst, lanes.load("global", src, 32, words))
        return
    # Bytes past src_size must not be read: lanes that want nothing read the destination instead, which they are about to write.
    generic = lanes.to_generic("shared", dst)

    def piece(wanted: Value, offset: Value, width: int, count: int = 1) -> list[Value]:
        address = lanes.select(wanted, lanes.add(src, lanes.resize(offset, 64)), generic)
        return [lanes.select(wanted, v, lanes.const(0, width)) for v in lanes.load("generic", address, width, count)]

    def bit(number: int) -> Value:
        return lanes.and_(partial, lanes.compare("ne", lanes.and_(src_size, lanes.const(number, 32)), lanes.const(0, 32)))

    def before(number: int) -> Value:
        """The bytes in larger pieces than this one, which stand before it."""
        return lanes.and_(src_size, lanes.const(16 - 2 * number, 32))

    whole = lanes.compare("ge", src_size, lanes.const(words * 4, 32))
    partial = lanes.not_(whole)
    parts = piece(whole, lanes.const(0, 32), 32, words)
    # A part of it is read in halves, quarters and so on, as the bits of its size say: each is aligned, and none reaches too far.
    tail = lanes.or_(
        lanes.resize(piece(bit(2), before(2), 16)[0], 32),
        lanes.shift_left(lanes.resize(piece(bit(1), before(1), 8)[0], 32), lanes.select(bit(2), lanes.const(16, 32), lanes.const(0, 32))),
    )
    columns = [(lanes.shift_right(src_size, lanes.const(2, 32)), tail)]  # the number of a word, and a word of which the rest is zero
    if words > 1:
        columns.append((lanes.shift_right(before(4), lanes.const(2, 32)), piece(bit(4), before(4), 32)[0]))
    if words > 2:
        columns += [(lanes.const(i, 32), v) for i, v in enumerate(piece(bit(8), lanes.const(0, 32), 32, 2))]
    for number, value in columns:
        for i in range(words):
            here = lanes.compare("eq", number, lanes.const(i, 32))
            parts[i] = lanes.or_(parts[i], lanes.select(here, value, lanes.const(0, 32)))
    lanes.store("shared", dst, parts)


@instruction(
    f"{CP_ASYNC}.L2::cache_hint.{CP_PREFETCH}",
    dst="addr",
    src="addr",
    size="text",
    src_size="in b64",
    policy="in b64 ?",
    loads="global",
    stores="{space}",
    since=(7, 4),
    sm=80,
)
def cp_async_hinted(lanes: Lanes, dst: Value, src: Value, size: Imm, src_size: Value, policy: Value) -> None:
    """As ``cp.async``; with four operands alone the fourth is the policy."""
    cp_async(lanes, dst, src, size, None if policy is None else lanes.resize(src_size, 32))


@instruction(
    f"{CP_ASYNC}.{CP_PREFETCH}",
    dst="addr",
    src="addr",
    size="text",
    ignore="in pred",
    loads="global",
    stores="{space}",
    since=(7, 5),
    sm=80,
)
def cp_async_ignoring(lanes: Lanes, dst: Value, src: Value, size: Imm, ignore: Value) -> None:
    """As ``cp.async``; where ``ignore`` holds the source is not read and zeros are stored."""
    cp_async(lanes, dst, src, size, lanes.select(ignore, lanes.const(0, 32), lanes.const(int(size.value), 32)))


@instruction(
    f"{CP_ASYNC}.L2::cache_hint.{CP_PREFETCH}", dst="addr", src="addr", size="text", ignore="in pred", policy="in b64", loads="global",
    stores="{space}", since=(7, 5), sm=80,
)  # fmt: skip
def cp_async_ignoring_hinted(lanes: Lanes, dst: Value, src: Value, size: Imm, ignore: Value, policy: Value) -> None:
    """As above."""
    cp_async_ignoring(lanes, dst, src, size, ignore)


@instruction("cp.async.commit_group", since=(7, 0), sm=80)
def cp_async_commit(lanes: Lanes) -> None:
    """Nothing: the copies before it have been made."""


@instruction("cp.async.wait_group", n="text", since=(7, 0), sm=80)
def cp_async_wait(lanes: Lanes, n: Imm) -> None:
    """Nothing: the copies before it have been made."""


@instruction("cp.async.wait_all", since=(7, 0), sm=80)
def cp_async_wait_all(lanes: Lanes) -> None:
    """Nothing: the copies before it have been made."""
