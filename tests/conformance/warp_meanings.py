"""Meanings of forms on the warp instance of ``Lanes``, as functions on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ptxgraft.isa import Form, Role
from ptxgraft.lower.ir import Val, lane_constants, literal
from ptxgraft.lower.warp_lanes import WarpLanes


class FullWarp:
    """A machine: all lanes are active; the only special register is the lane's number."""

    mask = literal(1, 1)

    def special(self, name: str) -> Val:
        assert name == "laneid", f"a value alone cannot depend on %{name}"
        return lane_constants(range(32), 32)


def is_of_values(form: Form) -> bool:
    """Can the form be run on values alone: no memory, labels, resources or tensor cores?"""
    simple = all(role.kind in ("in", "out", "inout") and role.type is not None for role in form.roles)
    return simple and form.meaning is not None and not (form.loads or form.stores or form.tensor) and form.family != "address"


def widths_of(form: Form) -> list[int]:
    """The widths of the form's inputs, vectors flattened."""
    return [width_of(role) for role in inputs_of(form) for _ in range(role.count)]


def inputs_of(form: Form) -> list[Role]:
    return [role for role in form.roles if role.kind in ("in", "inout")]


def width_of(role: Role) -> int:
    assert role.type is not None
    return role.type.width


def flat(result: Any) -> Iterator[Any]:
    if isinstance(result, list | tuple):
        for part in result:
            yield from flat(part)
    elif result is not None:
        yield result


def apply(form: Form, lanes: Any, values: Sequence[Any]) -> list[Any]:
    """The form's meaning on a flat list of values; optional inputs that have none are absent."""
    rest = list(values)
    arguments: list[Any] = []
    for role in inputs_of(form):
        taken, rest = rest[: role.count], rest[role.count :]
        arguments.append(None if not taken else tuple(taken) if role.count > 1 else taken[0])
    assert form.meaning is not None and not rest
    return list(flat(form.meaning(lanes, *arguments, **form.options)))


def body_of(form: Form) -> Callable[[WarpLanes, list[Val]], list[Val]]:
    return lambda lanes, values: apply(form, lanes, values)


def awkward(width: int) -> np.ndarray:
    """Bits that are a boundary in some float format or integer type of the width."""
    found = {0, 1, 2, 3, 31, 32, 33, (1 << width) - 1, (1 << (width - 1)) - 1}
    for exponent, fraction in {16: ((5, 10), (8, 7)), 32: ((8, 23),), 64: ((11, 52),)}.get(width, ()):
        bias = (1 << (exponent - 1)) - 1
        for e in (0, 1, bias - fraction, bias - 1, bias, bias + 1, bias + fraction, 2 * bias, 2 * bias + 1):
            for f in (0, 1, 1 << (fraction - 1), (1 << fraction) - 1):
                found |= {e << fraction | f, 1 << (width - 1) | e << fraction | f}
    return np.array(sorted(found), f"<u{width // 8}")


def operand(rng: np.random.Generator, width: int, count: int) -> np.ndarray:
    """Random and awkward bits, pairs of awkward halves among them."""
    if width == 1:
        return rng.integers(0, 2, count).astype(bool)
    if width == 128:
        pairs = np.zeros(count, [("lo", "<u8"), ("hi", "<u8")])
        pairs["lo"], pairs["hi"] = operand(rng, 64, count), operand(rng, 64, count)
        return pairs
    bits = rng.integers(0, (1 << width) - 1, count, dtype=f"u{width // 8}", endpoint=True)
    chosen = rng.permutation(count)
    special = awkward(width)
    first = chosen[: count // 2]
    bits[first] = special[rng.integers(0, len(special), len(first))]
    if width == 32:
        halves = chosen[count // 2 : count * 3 // 4]
        special = awkward(16).astype(np.uint32)
        low, high = (special[rng.integers(0, len(special), len(halves))] for _ in range(2))
        bits[halves] = low | high << np.uint32(16)
    return bits
