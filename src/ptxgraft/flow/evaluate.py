"""Numbers for symbolic values.

Invariant: the result equals the form's bits for the given atoms, or is None when an atom has no value; nothing is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptxgraft.flow.affine import Atom, Key, Linear

Environment = Mapping[Key, np.ndarray]
"""Values (uint64 arrays of one shape) by atom key."""


def block_environment(block: tuple[int, int, int]) -> dict[Key, np.ndarray]:
    """``tid``, ``ntid``, ``laneid`` and ``warpid`` of every thread of a block, in order of thread number; shape [threads]."""
    x, y, z = block
    number = np.arange(x * y * z, dtype=np.uint64)
    tid = (number % np.uint64(x), number // np.uint64(x) % np.uint64(y), number // np.uint64(x * y))
    environment: dict[Key, np.ndarray] = {("special", f"tid.{axis}"): value for axis, value in zip("xyz", tid, strict=True)}
    environment |= {("special", f"ntid.{axis}"): np.full_like(number, extent) for axis, extent in zip("xyz", block, strict=True)}
    environment["special", "laneid"] = number % np.uint64(32)
    environment["special", "warpid"] = number // np.uint64(32)
    return environment


Memo = dict[Any, Any]
"""Values of atoms by number, and of sums by their terms."""


def evaluate(value: Linear, environment: Environment, memo: Memo | None = None) -> np.ndarray | None:
    """The unsigned value of ``value`` for every thread of ``environment`` (uint64), or None when it depends on something unknown.

    ``memo`` keeps the values of atoms and sums between calls with the same environment.
    """
    memo = {} if memo is None else memo
    if value.terms not in memo:
        memo[value.terms] = _sum(value.terms, environment, memo)
    total = memo[value.terms]
    return None if total is None else total + np.uint64(value.constant & 0xFFFF_FFFF_FFFF_FFFF) & _mask(value.width)


def _sum(terms: tuple[tuple[Atom, int], ...], environment: Environment, memo: Memo) -> np.ndarray | None:
    """The sum of the terms modulo 2**64: offsets from one base differ by a constant alone."""
    shape = next(iter(environment.values())).shape if environment else (1,)
    total = np.zeros(shape, dtype=np.uint64)
    for atom, coefficient in terms:
        number = _atom(atom, environment, memo)
        if number is None:
            return None
        total = total + number * np.uint64(coefficient & 0xFFFF_FFFF_FFFF_FFFF)
    return total


def _mask(width: int) -> np.uint64:
    return np.uint64((1 << min(width, 64)) - 1)


def _atom(atom: Atom, environment: Environment, memo: Memo) -> np.ndarray | None:
    if atom.number not in memo:
        memo[atom.number] = _compute(atom, environment, memo)
    return memo[atom.number]


def _compute(atom: Atom, environment: Environment, memo: Memo) -> np.ndarray | None:
    if atom.key in environment:
        return environment[atom.key]
    if atom.key[0] != "op" or atom.key[1] not in _OPERATIONS:
        return None
    operands = []
    for operand in atom.key[2:]:
        if isinstance(operand, Linear):
            number = evaluate(operand, environment, memo)
            if number is None:
                return None
            operands.append((number, operand.width))
        else:
            operands.append((operand, 0))
    return _OPERATIONS[atom.key[1]](*operands) & _mask(atom.width)


def _signed(a: tuple[Any, int]) -> np.ndarray:
    value, width = a
    shift = np.uint64(64 - width)
    return ((value << shift).view(np.int64)) >> np.int64(64 - width)


def _shift(a: tuple[Any, int], n: tuple[Any, int], shifted: Callable[[Any, Any], Any]) -> Any:
    amount = np.asarray(n[0], dtype=np.uint64)
    return np.where(amount < a[1], shifted(a[0], np.minimum(amount, np.uint64(63))), np.uint64(0))


def _shift_right_signed(a: tuple[Any, int], n: tuple[Any, int]) -> np.ndarray:
    amount = np.minimum(np.asarray(n[0], dtype=np.uint64), np.uint64(63)).astype(np.int64)
    return (_signed(a) >> amount).view(np.uint64)


def _compare(op: tuple[str, int], a: tuple[Any, int], b: tuple[Any, int], signed: tuple[bool, int]) -> np.ndarray:
    x, y = (_signed(a), _signed(b)) if signed[0] else (a[0], b[0])
    compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}[op[0]]
    return compare(x, y).astype(np.uint64)


_OPERATIONS: dict[str, Callable[..., Any]] = {
    "mul": lambda a, b: a[0] * b[0],
    "and": lambda a, b: a[0] & np.uint64(b[0]) if b[1] == 0 else a[0] & b[0],
    "or": lambda a, b: a[0] | b[0],
    "xor": lambda a, b: a[0] ^ b[0],
    "shift_left": lambda a, n: _shift(a, n, np.left_shift),
    "shift_right": lambda a, n: _shift(a, n, np.right_shift),
    "shift_right_signed": _shift_right_signed,
    "zero_extend": lambda a: a[0],
    "sign_extend": lambda a: _signed(a).view(np.uint64),
    "select": lambda p, a, b: np.where(p[0] != 0, a[0], b[0]),
    "compare": _compare,
}
