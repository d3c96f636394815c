"""Barrier objects that report, and those of several blocks at once (PTX ISA manual, "mbarrier": what came with PTX 9.3 and 9.4).

Invariant: no copy here reports anything, so that the conditional phase is the primary one and reports are zero. A cluster is one block, so that
a mask of blocks names the first alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgraft.isa.families import mbarrier
from ptxgraft.isa.families.bulk import one_block
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

_INSTEAD = "objects of both layouts run alike here, and do not say which they are; on='cuda' runs it where the GPU has it"


# -- waiting --------------------------------------------------------------------------------------------------------------
def _reporting(wait: Callable[..., Value], value: bool) -> Callable[..., tuple[Value, ...]]:
    """``wait`` with more results: was something reported, and where it is asked for, what."""

    def reporting(lanes: Lanes, a: Value, *inputs: Value, space: str) -> tuple[Value, ...]:
        """As without the phase, and whether something was reported, which it was not."""
        done = wait(lanes, a, *inputs, space=space)
        return (done, lanes.const(0, 1), lanes.const(0, 8)) if value else (done, lanes.const(0, 1))

    return reporting


_WAITS: tuple[tuple[str, Callable[..., Value], dict[str, Any]], ...] = (
    ("test_wait", mbarrier.mbarrier_test, {"state": "in b64"}),
    ("test_wait.parity", mbarrier.mbarrier_test_parity, {"parity": "in u32"}),
    ("try_wait", mbarrier.mbarrier_try, {"state": "in b64", "hint": "in u32 ?"}),
    ("try_wait.parity", mbarrier.mbarrier_try_parity, {"parity": "in u32", "hint": "in u32 ?"}),
)
for _name, _wait, _inputs in _WAITS:
    for _value in ({}, {"value": "out b8"}):
        instruction(
            f"mbarrier.{_name}.phase_type::primary.{mbarrier.WAIT}", done="out pred", report="out pred |?", **_value, a="addr", **_inputs,
            loads="{space}", legal=lambda *, sem, scope, **rest: bool(sem) == bool(scope), since=(9, 3), sm=90,
        )(_reporting(_wait, bool(_value)))  # fmt: skip


@instruction(
    "mbarrier.check_layout.{layout:layout::v0|layout::v1}.{space:shared|shared::cta}?.b64",
    p="out pred",
    a="addr",
    loads="{space}",
    since=(9, 3),
    sm=90,
)
@refused(_INSTEAD)
def check_layout(lanes: Lanes) -> None:
    """Was the object made with this layout?"""


# -- several blocks -------------------------------------------------------------------------------------------------------
_ALL = "{space:shared::cluster}?.multicast::cluster::32b.b64"
_SEVERAL: dict[str, Any] = {
    "loads": "{space}", "stores": "{space}", "legal": lambda *, sem, scope, **rest: bool(sem) == bool(scope), "since": (9, 4), "sm": 107, "specific": "f",
}  # fmt: skip
_TRANSACTIONS = f"{{sem:relaxed}}?.{mbarrier.SCOPE}.{_ALL}"
_ARRIVAL = f"{{sem:release|relaxed}}?.{mbarrier.SCOPE}.{_ALL}"


@instruction(f"mbarrier.expect_tx.{_TRANSACTIONS}", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def expect(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> None:
    """The current phases in the blocks of the mask wait for ``count`` more bytes."""
    one_block(lanes, ctas)
    mbarrier.mbarrier_expect(lanes, a, count, space=space)


@instruction(f"mbarrier.complete_tx.{_TRANSACTIONS}", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def complete(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> None:
    """``count`` bytes have come in the blocks of the mask."""
    one_block(lanes, ctas)
    mbarrier.mbarrier_complete(lanes, a, count, space=space)


@instruction(f"mbarrier.arrive.{_ARRIVAL}", state="out b64", a="addr", cta_mask="in b32", **_SEVERAL)
def arrive(lanes: Lanes, a: Value, ctas: Value, *, space: str) -> Value:
    """Arrive in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_arrive(lanes, a, space=space)


@instruction(f"mbarrier.arrive.{_ARRIVAL}", state="out b64", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def arrive_often(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> Value:
    """Arrive ``count`` times in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_arrive_often(lanes, a, count, space=space)


@instruction(f"mbarrier.arrive.expect_tx.{_ARRIVAL}", state="out b64", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def arrive_expect(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> Value:
    """The phases wait for ``count`` more bytes; then arrive once in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_arrive_expect(lanes, a, count, space=space)


@instruction(f"mbarrier.arrive_drop.{_ARRIVAL}", state="out b64", a="addr", cta_mask="in b32", **_SEVERAL)
def drop(lanes: Lanes, a: Value, ctas: Value, *, space: str) -> Value:
    """Arrive for the last time in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_drop(lanes, a, space=space)


@instruction(f"mbarrier.arrive_drop.{_ARRIVAL}", state="out b64", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def drop_often(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> Value:
    """Arrive ``count`` times, each for the last time, in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_drop_often(lanes, a, count, space=space)


@instruction(f"mbarrier.arrive_drop.expect_tx.{_ARRIVAL}", state="out b64", a="addr", count="in u32", cta_mask="in b32", **_SEVERAL)
def drop_expect(lanes: Lanes, a: Value, count: Value, ctas: Value, *, space: str) -> Value:
    """The phases wait for ``count`` more bytes; then arrive once and for the last time in the blocks of the mask."""
    one_block(lanes, ctas)
    return mbarrier.mbarrier_drop_expect(lanes, a, count, space=space)
