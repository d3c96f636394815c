"""Pairs in one register: what an instruction on ``f16x2`` or ``s16x2`` does to each half.

Invariant: halves never meet; the first is in the lower bits.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value


def element(type: str) -> str:
    """The scalar type of a type: ``f16`` of ``f16x2``, ``f16`` of ``f16``."""
    return type.removesuffix("x2")


def halves(lanes: Lanes, a: Value) -> tuple[Value, Value]:
    """The lower and the upper half."""
    width = lanes.width(a) // 2
    return lanes.extract(a, 0, width), lanes.extract(a, width, width)


def each(lanes: Lanes, type: str, function: Callable[..., Value], *operands: Value) -> Value:
    """``function`` on each half of the operands when ``type`` is a pair (``f16x2``), else once on the whole."""
    if type == element(type):
        return function(*operands)
    lows, highs = zip(*(halves(lanes, o) for o in operands), strict=True)
    return lanes.concat([function(*lows), function(*highs)])
