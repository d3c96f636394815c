"""Integer operations on constants, done while the text is written.

Invariant: a folded operation gives the bits that the written one would. What is folded are the operations that addresses, shift
amounts and shuffle patterns are made of; the rest is left to LLVM.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.lower.ir import Val, lane_constants, literal


def in_twos_complement(bits: int, width: int) -> int:
    """The number that ``bits`` are in two's complement."""
    return bits - (1 << width) if bits >> (width - 1) & 1 else bits


def fold(width: int, operation: Callable[..., int], *values: Val) -> Val | None:
    """``operation`` on the values' bits (lane by lane if any differs between lanes) to a constant of ``width``; None if one is not constant."""
    known = [v.const for v in values]
    if any(k is None for k in known):
        return None
    lengths = {len(k) for k in known if type(k) is tuple}
    if not lengths:
        return literal(operation(*known), width)
    (count,) = lengths
    rows = zip(*(k if type(k) is tuple else (k,) * count for k in known), strict=True)
    return lane_constants([operation(*row) for row in rows], width)


COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}

BINARY: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
