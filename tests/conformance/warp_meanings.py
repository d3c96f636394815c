"""Meanings of forms on the warp instance of ``Lanes``, as functions on arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ptxgraft.isa import Form, Role
from ptxgraft.lower.ir import Val, lane_constants, literal
from ptxgraft.lower.warp_lanes import WarpLanes


class Warp:
    """A machine with these active lanes; the only special register is the lane's number."""

    def __init__(self, active: int = 0xFFFFFFFF) -> None:
        whole = active == 0xFFFFFFFF
        self.mask = literal(1, 1) if whole else lane_constants([active >> i & 1 for i in range(32)], 1)

    def special(self, name: str) -> Val:
        assert name == "laneid", f"a value alone cannot depend on %{name}"
        return lane_constants(range(32), 32)


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
