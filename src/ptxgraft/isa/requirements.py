"""What the words of a spelling need, whatever instruction they stand in.

Invariant: a word is listed with the first PTX version and target that take it in every instruction that has it; what differs from
instruction to instruction is the declaration's own (``needs``).
Source: the PTX ISA manual's notes under ld, st, atom, min and the state spaces; checked against ptxas by tests.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Requirement = tuple[tuple[int, int], int]
"""The first PTX version and the first target."""

_ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel", "sc")
_L1 = ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")

WORDS: Mapping[str, Requirement] = {
    **dict.fromkeys(_ORDERS, ((6, 0), 70)),
    **dict.fromkeys((f"L1::{word}" for word in _L1), ((7, 4), 70)),
    "L2::64B": ((7, 4), 75),
    "L2::128B": ((7, 4), 75),
    "L2::256B": ((7, 4), 80),
    "L2::cache_hint": ((7, 4), 80),
    "cluster": ((7, 8), 90),
    "shared::cta": ((7, 8), 30),
    "shared::cluster": ((7, 8), 90),
    "param::entry": ((8, 3), 70),
    "param::func": ((8, 3), 70),
    "mmio": ((8, 2), 70),
    "b128": ((8, 3), 70),
    "NaN": ((7, 0), 80),
    "xorsign": ((7, 2), 86),
}


def required(words: Iterable[str], own: Requirement, needs: Mapping[str, Requirement]) -> Requirement:
    """The first version and target for a spelling: the declaration's ``own``, and what its words need there (``needs``) or anywhere."""
    since, sm = own
    for word in words:
        found = needs.get(word) or WORDS.get(word)
        if found is not None:
            since, sm = max(since, found[0]), max(sm, found[1])
    return since, sm
