"""Barrier objects in shared memory (PTX ISA manual, "Parallel Synchronization and Communication Instructions: mbarrier").

Invariant: the manual leaves the 64 bits of an object open; here bits 0-19 are the pending count, 20-39 the expected count, bit 40 the
parity of the current phase and 41-63 the transaction count. A state is the object as it was before the arrival that gave it.
"""

from __future__ import annotations

from ptxgraft.isa.families.memory import space_name
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction

OWN = "{space:shared|shared::cta}?"
ANY = "{space:shared|shared::cta|shared::cluster}?"
SCOPE = "{scope:cta|cluster}?"
PENDING, EXPECTED, PARITY, TRANSACTIONS = 0, 20, 40, 41
COUNT_BITS = 20
LAYOUTS = {f"layout::v{i}": ((9, 3), 90) for i in range(2)}
NEEDS = {
    "phase_type::conditional": ((9, 3), 90),
    "relaxed": ((8, 6), 90),
    "release": ((8, 0), 80),
    "acquire": ((8, 0), 80),
    "shared::cluster": ((8, 0), 90),
}


def _at(lanes: Lanes, count: Value, position: int) -> Value:
    """``count`` as a 64-bit number that adds to the field at ``position``."""
    return lanes.shift_left(lanes.resize(count, 64), lanes.const(position, 32))


def _parity(lanes: Lanes, word: Value) -> Value:
    return lanes.resize(lanes.extract(word, PARITY, 8), 1)


def _settled(lanes: Lanes, word: Value) -> Value:
    """The object after a change: with no arrival and no transaction pending its phase completes and the next one begins."""
    zero = lanes.const(0, 64)
    pending = lanes.and_(word, lanes.const((1 << COUNT_BITS) - 1, 64))
    expected = lanes.and_(lanes.shift_right(word, lanes.const(EXPECTED, 32)), lanes.const((1 << COUNT_BITS) - 1, 64))
    outstanding = lanes.or_(pending, lanes.shift_right(word, lanes.const(TRANSACTIONS, 32)))
    next_phase = lanes.xor(lanes.or_(word, expected), lanes.const(1 << PARITY, 64))
    return lanes.select(lanes.compare("eq", outstanding, zero), next_phase, word)


def _arrive(lanes: Lanes, space: str, a: Value, fields: Value) -> Value:
    """Take ``fields`` (a 64-bit number) off the object at [a]; returns the object as it was."""
    return lanes.atomic(space_name(space), a, 64, lambda old: _settled(lanes, lanes.sub(old, fields)))


def complete(lanes: Lanes, space: str, a: Value, count: Value) -> None:
    """Tell the object at [a] that ``count`` bytes which its phase waits for have come."""
    _arrive(lanes, space, a, _at(lanes, count, TRANSACTIONS))


@instruction(
    f"mbarrier.init.{{layout:layout::v0|layout::v1}}?.{OWN}.b64",
    a="addr",
    count="in u32",
    stores="{space}",
    needs=LAYOUTS,
    since=(7, 0),
    sm=80,
)
def mbarrier_init(lanes: Lanes, a: Value, count: Value, *, space: str) -> None:
    """Make an object at [a] whose every phase waits for ``count`` arrivals. Layouts differ in reports of copies, of which there are none."""
    lanes.store(space_name(space), a, [lanes.or_(_at(lanes, count, PENDING), _at(lanes, count, EXPECTED))])


@instruction(f"mbarrier.inval.{OWN}.b64", a="addr", stores="{space}", since=(7, 0), sm=80)
def mbarrier_inval(lanes: Lanes, a: Value) -> None:
    """Nothing: the memory of the object may be used for something else."""


@instruction(
    f"mbarrier.expect_tx.{{sem:relaxed}}?.{SCOPE}.{ANY}.b64", a="addr", count="in u32", loads="{space}", stores="{space}",
    legal=lambda *, sem, scope, space: bool(sem) == bool(scope), since=(8, 0), sm=90,
)  # fmt: skip
def mbarrier_expect(lanes: Lanes, a: Value, count: Value, *, space: str) -> None:
    """The current phase waits for ``count`` more bytes."""
    lanes.atomic(space_name(space), a, 64, lambda old: lanes.add(old, _at(lanes, count, TRANSACTIONS)))


@instruction(
    f"mbarrier.complete_tx.{{sem:relaxed}}?.{SCOPE}.{ANY}.b64", a="addr", count="in u32", loads="{space}", stores="{space}",
    legal=lambda *, sem, scope, space: bool(sem) == bool(scope), since=(8, 0), sm=90,
)  # fmt: skip
def mbarrier_complete(lanes: Lanes, a: Value, count: Value, *, space: str) -> None:
    """``count`` bytes that the current phase waits for have come."""
    complete(lanes, space, a, count)


# -- arrivals -------------------------------------------------------------------------------------------------------------
def _sem_legal(*, sem: str, scope: str, **rest: str) -> bool:
    return bool(sem) == bool(scope)


ARRIVAL = f"{{sem:release|relaxed}}?.{SCOPE}.{ANY}.b64"


@instruction(
    f"mbarrier.arrive.{ARRIVAL}", state="out b64", a="addr", loads="{space}", stores="{space}", legal=_sem_legal, needs=NEEDS, since=(7, 0),
    sm=80,
)  # fmt: skip
def mbarrier_arrive(lanes: Lanes, a: Value, *, space: str) -> Value:
    """Arrive; the phase completes with the last pending arrival. The state is the object as it was before."""
    return _arrive(lanes, space, a, lanes.const(1, 64))


@instruction(
    f"mbarrier.arrive.{ARRIVAL}", state="out b64", a="addr", count="in u32", loads="{space}", stores="{space}", legal=_sem_legal,
    needs=NEEDS, since=(7, 8), sm=90,
)  # fmt: skip
def mbarrier_arrive_often(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """Arrive ``count`` times."""
    return _arrive(lanes, space, a, _at(lanes, count, PENDING))


@instruction(
    f"mbarrier.arrive.noComplete.{{sem:release}}?.{{scope:cta}}?.{OWN}.b64", state="out b64", a="addr", count="in u32", loads="{space}",
    stores="{space}", legal=_sem_legal, needs=NEEDS, since=(7, 0), sm=80,
)  # fmt: skip
def mbarrier_arrive_more(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """Arrive ``count`` times, of which none is the last one pending."""
    return _arrive(lanes, space, a, _at(lanes, count, PENDING))


@instruction(
    f"mbarrier.arrive.expect_tx.{ARRIVAL}", state="out b64", a="addr", count="in u32", loads="{space}", stores="{space}", legal=_sem_legal, needs=NEEDS,
    since=(8, 0), sm=90,
)  # fmt: skip
def mbarrier_arrive_expect(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """The phase waits for ``count`` more bytes; then arrive once."""
    return _arrive(lanes, space, a, lanes.sub(lanes.const(1, 64), _at(lanes, count, TRANSACTIONS)))


def _dropped(lanes: Lanes, count: Value) -> Value:
    return lanes.add(_at(lanes, count, PENDING), _at(lanes, count, EXPECTED))


@instruction(
    f"mbarrier.arrive_drop.{ARRIVAL}", state="out b64", a="addr", loads="{space}", stores="{space}", legal=_sem_legal, needs=NEEDS,
    since=(7, 0), sm=80,
)  # fmt: skip
def mbarrier_drop(lanes: Lanes, a: Value, *, space: str) -> Value:
    """Arrive for the last time: later phases wait for one arrival less."""
    return _arrive(lanes, space, a, _dropped(lanes, lanes.const(1, 32)))


@instruction(
    f"mbarrier.arrive_drop.{ARRIVAL}", state="out b64", a="addr", count="in u32", loads="{space}", stores="{space}", legal=_sem_legal,
    needs=NEEDS, since=(7, 8), sm=90,
)  # fmt: skip
def mbarrier_drop_often(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """Arrive ``count`` times, each for the last time."""
    return _arrive(lanes, space, a, _dropped(lanes, count))


@instruction(
    f"mbarrier.arrive_drop.noComplete.{{sem:release}}?.{{scope:cta}}?.{OWN}.b64", state="out b64", a="addr", count="in u32", loads="{space}",
    stores="{space}", legal=_sem_legal, needs=NEEDS, since=(7, 0), sm=80,
)  # fmt: skip
def mbarrier_drop_more(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """As ``mbarrier.arrive_drop``, where no arrival is the last one pending."""
    return _arrive(lanes, space, a, _dropped(lanes, count))


@instruction(
    f"mbarrier.arrive_drop.expect_tx.{ARRIVAL}", state="out b64", a="addr", count="in u32", loads="{space}", stores="{space}",
    legal=_sem_legal, needs=NEEDS, since=(8, 0), sm=90,
)  # fmt: skip
def mbarrier_drop_expect(lanes: Lanes, a: Value, count: Value, *, space: str) -> Value:
    """The phase waits for ``count`` more bytes; then arrive once and for the last time."""
    return _arrive(lanes, space, a, lanes.sub(_dropped(lanes, lanes.const(1, 32)), _at(lanes, count, TRANSACTIONS)))


@instruction(
    "cp.async.mbarrier.arrive.{noinc}?.{space:shared|shared::cta}?.b64", a="addr", loads="{space}", stores="{space}", since=(7, 0), sm=80
)
def cp_async_arrive(lanes: Lanes, a: Value, *, noinc: str, space: str) -> None:
    """Arrive when this thread's copies are complete, which they are; without ``noinc`` the arrival is one more that the phase waits for."""
    if noinc:
        _arrive(lanes, space, a, lanes.const(1, 64))


# -- waiting --------------------------------------------------------------------------------------------------------------
WAIT = f"{{sem:acquire|relaxed}}?.{SCOPE}.{OWN}.b64"


def _passed(lanes: Lanes, space: str, a: Value, parity: Value) -> Value:
    """Is the current phase another one than that of ``parity``?"""
    (word,) = lanes.load(space_name(space), a, 64)
    return lanes.xor(_parity(lanes, word), parity)


@instruction(
    f"mbarrier.test_wait.{WAIT}",
    done="out pred",
    a="addr",
    state="in b64",
    loads="{space}",
    legal=_sem_legal,
    needs=NEEDS,
    since=(7, 0),
    sm=80,
)
def mbarrier_test(lanes: Lanes, a: Value, state: Value, *, space: str) -> Value:
    """Is the phase complete that ``state`` was given in?"""
    return _passed(lanes, space, a, _parity(lanes, state))


@instruction(
    f"mbarrier.test_wait.parity.{{phase:phase_type::conditional}}?.{WAIT}",
    done="out pred",
    a="addr",
    parity="in u32",
    loads="{space}",
    legal=_sem_legal,
    needs=NEEDS,
    since=(7, 1),
    sm=80,
)
def mbarrier_test_parity(lanes: Lanes, a: Value, parity: Value, *, space: str) -> Value:
    """Is the phase of this parity complete: the current one, or the one before it?"""
    return _passed(lanes, space, a, lanes.resize(parity, 1))


@instruction(
    f"mbarrier.try_wait.{WAIT}", done="out pred", a="addr", state="in b64", hint="in u32 ?", loads="{space}", legal=_sem_legal, needs=NEEDS,
    since=(7, 8), sm=90,
)  # fmt: skip
def mbarrier_try(lanes: Lanes, a: Value, state: Value, hint: Value, *, space: str) -> Value:
    """As ``mbarrier.test_wait``: it may wait a while, and does not."""
    return _passed(lanes, space, a, _parity(lanes, state))


@instruction(
    f"mbarrier.try_wait.parity.{{phase:phase_type::conditional}}?.{WAIT}", done="out pred", a="addr", parity="in u32", hint="in u32 ?", loads="{space}", legal=_sem_legal, needs=NEEDS,
    since=(7, 8), sm=90,
)  # fmt: skip
def mbarrier_try_parity(lanes: Lanes, a: Value, parity: Value, hint: Value, *, space: str) -> Value:
    """As ``mbarrier.test_wait.parity``: it may wait a while, and does not."""
    return _passed(lanes, space, a, lanes.resize(parity, 1))


@instruction(
    "mbarrier.pending_count.{layout:layout::v0}?.b64", count="out u32", state="in b64", needs=LAYOUTS, since=(7, 0), sm=80,
    examples=[("mbarrier.pending_count.b64", (0x1234500007,), (7,))],
)  # fmt: skip
def mbarrier_pending(lanes: Lanes, state: Value) -> Value:
    """How many arrivals were pending before the one that gave ``state``."""
    return lanes.and_(lanes.resize(state, 32), lanes.const((1 << COUNT_BITS) - 1, 32))
