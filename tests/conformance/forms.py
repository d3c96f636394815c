"""Which spellings of the instruction table the conformance tests run, and on which operands.

A form is taken when it computes with values alone: no memory, no control, no other lanes.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxgraft.errors import UsageError
from ptxgraft.isa import ENTRIES, Entry, Form, Type, form_of
from ptxgraft.lower.numpy_lanes import DTYPES, NumpyLanes

LANES = 32
READ, WRITTEN = ("in", "inout"), ("out", "inout")
EXHAUSTIVE = 48
"""Entries with at most this many spellings are tried in all of them, others in a sample that has every choice of every slot."""


@dataclass(frozen=True, slots=True)
class Example:
    """``number`` says which of the opcode's operand lists it is of."""

    opcode: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    number: int = 0

    @property
    def form(self) -> Form:
        return variants(self.opcode)[self.number]


def entries() -> list[Entry]:
    return [entry for rows in ENTRIES.values() for entry in rows]


@cache
def variants(opcode: str) -> tuple[Form, ...]:
    """The forms of an opcode: one for each of its operand lists."""
    first = form_of(opcode)
    return () if first is None else (first, *first.others)


def number_of(entry: Entry, opcode: str) -> int:
    """Which of the opcode's operand lists the entry declares; -1 for none."""
    return next((i for i, form in enumerate(variants(opcode)) if form.entry is entry), -1)


@cache
def pure(opcode: str, number: int = 0) -> bool:
    """Does the form compute with values alone, at least one of them? (Found out by trying: lanes without a machine refuse the rest.)"""
    form = variants(opcode)[number] if variants(opcode) else None
    if form is None or form.meaning is None or not candidate(form.entry) or any(r.type is None or r.count != 1 for r in form.roles):
        return False
    try:
        form.meaning(NumpyLanes(), *(column([0], r.type.width) for r in form.roles if r.kind in READ and r.type), **form.options)
    except UsageError:
        return False
    return True


def candidate(entry: Entry) -> bool:
    """Could a form of the entry be pure? (Memory entries have too many spellings to look at each.)"""
    kinds = {text.split()[0] for _, text in entry.roles}
    effects = entry.convergent or entry.control or entry.loads or entry.stores
    return entry.meaning is not None and not effects and {"in", "out"} <= kinds <= {"in", "out", "inout"}


def examples() -> list[Example]:
    rows = [
        Example(opcode, tuple(inputs), tuple(outputs), max(number_of(entry, opcode), 0))
        for entry in entries()
        for opcode, inputs, outputs in entry.examples
    ]
    return [row for row in dict.fromkeys(rows) if pure(row.opcode, row.number)]


def spellings(entry: Entry) -> Iterator[tuple[str, dict[str, str], bool]]:
    """Every way to fill the slots: the opcode, the slots, and whether they are legal together."""
    choices = [(*slot.choices, "") if slot.optional else slot.choices for slot in entry.slots]
    for words in itertools.product(*choices):
        slots = {slot.name: word for slot, word in zip(entry.slots, words, strict=True) if slot.name}
        yield ".".join(w for w in words if w), slots, entry.legal is None or entry.legal(**slots)


def chosen(entry: Entry) -> list[str]:
    """The opcodes of an entry to try."""
    legal = [(opcode, slots) for opcode, slots, ok in spellings(entry) if ok]
    if len(legal) <= EXHAUSTIVE:
        return [opcode for opcode, _ in legal]
    random.Random(zlib.crc32(entry.spelling.encode())).shuffle(legal)
    seen: set[tuple[str, str]] = set()
    kept = []
    for opcode, slots in legal:
        if len(kept) < EXHAUSTIVE // 2 or not seen.issuperset(slots.items()):
            kept.append(opcode)
            seen.update(slots.items())
    return kept


def forms() -> list[Form]:
    """The forms to compare engines on. An opcode that two entries would take with the same operands is the first one's."""
    found: dict[tuple[str, int], Form] = {}
    for entry in filter(candidate, entries()):
        for opcode in chosen(entry):
            number = number_of(entry, opcode)
            assert number >= 0, f"the table does not know its own spelling {opcode}"
            if pure(opcode, number):
                found[opcode, len(variants(opcode)[number].roles)] = variants(opcode)[number]
    return list(found.values())


_FLOAT = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52)}


def _float(rng: random.Random, exponent_bits: int, fraction_bits: int) -> int:
    top, one = (1 << exponent_bits) - 1, (1 << (exponent_bits - 1)) - 1
    sign = rng.getrandbits(1) << (exponent_bits + fraction_bits)
    pick = rng.randrange(4)
    if pick == 0:
        exponent = rng.choice((0, 0, 1, one - 1, one, one + 1, top - 1, top))
        return sign | exponent << fraction_bits | rng.choice((0, 1, 1 << (fraction_bits - 1), (1 << fraction_bits) - 1))
    if pick == 1:
        exponent = min(max(one + rng.randint(-fraction_bits - 2, fraction_bits + 2), 0), top)
        return sign | exponent << fraction_bits | rng.getrandbits(fraction_bits)
    if pick == 2:
        return sign | rng.choice((0, 1, top - 1)) << fraction_bits | rng.getrandbits(fraction_bits)
    return rng.getrandbits(exponent_bits + fraction_bits + 1)


def operand(rng: random.Random, type: Type) -> int:
    """Bits for one operand: the values that break things, values near one another, and any bits."""
    if type.name in _FLOAT:
        return _float(rng, *_FLOAT[type.name])
    if type.name in ("f16x2", "bf16x2"):
        parts = _FLOAT[type.name.removesuffix("x2")]
        return _float(rng, *parts) | _float(rng, *parts) << 16
    width = type.width
    if width == 1:
        return rng.getrandbits(1)
    pick = rng.randrange(4)
    if pick == 0:
        return rng.choice((0, 1, 2, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1, (1 << (width - 1)) + 1))
    if pick == 1:
        return rng.randrange(0, min(1 << width, 80))
    if pick == 2:
        return rng.getrandbits(rng.randint(1, width))
    return rng.getrandbits(width)


def column(values: list[int], width: int) -> np.ndarray:
    """(warps, 32) lanes of ``values``, repeated to fill whole warps."""
    values = [values[i % len(values)] & ((1 << width) - 1) for i in range(-(-len(values) // LANES) * LANES)]
    if width == 128:
        return np.array([(v & ((1 << 64) - 1), v >> 64) for v in values], dtype=DTYPES[128]).reshape(-1, LANES)
    return np.array(values, dtype=DTYPES[width]).reshape(-1, LANES)


def operands(form: Form, warps: int) -> list[np.ndarray]:
    """Random columns for the inputs of a form, the same in every run."""
    rng = random.Random(zlib.crc32(form.opcode.encode()))
    types = [role.type for role in form.roles if role.kind in READ]
    return [column([operand(rng, t) for _ in range(warps * LANES)], t.width) for t in types if t is not None]


def output_widths(form: Form) -> list[int]:
    return [role.type.width for role in form.roles if role.kind in WRITTEN and role.type is not None]


def as_ints(a: np.ndarray) -> list[int]:
    if a.dtype == DTYPES[128]:
        return [int(v["lo"]) | int(v["hi"]) << 64 for v in a.reshape(-1)]
    return [int(v) for v in a.reshape(-1)]
