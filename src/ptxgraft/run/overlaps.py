"""Arrays that are given to a launch and lie in one another: views of one array, as a caller has them.

Invariant: what lies together in the caller's memory lies together in the kernel's, so that a store through one pointer is seen through the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """Bytes that several arrays share parts of: ``whole`` is a view of the caller's memory, ``names`` are the parameters."""

    whole: NDArray[np.uint8]
    names: tuple[str, ...]


def shared_bytes_of(arrays: Sequence[tuple[str, NDArray]]) -> dict[int, tuple[Shared, int]]:
    """For each array (by ``id``) that shares bytes with another one: the bytes of all that lie together, and where the array begins in them.

    ``arrays`` are (name of the parameter, array). ``UsageError`` when such an array is not contiguous.
    """
    different = {id(array): (name, array) for name, array in reversed(arrays) if array.size}
    _check_loose(different)
    spans = sorted(
        (array.ctypes.data, array.ctypes.data + array.nbytes, key) for key, (_, array) in different.items() if array.flags.c_contiguous
    )
    found: dict[int, tuple[Shared, int]] = {}
    start = 0
    while start < len(spans):
        low, high, _ = spans[start]
        stop = start + 1
        while stop < len(spans) and spans[stop][0] < high:
            high = max(high, spans[stop][1])
            stop += 1
        if stop - start > 1:
            together = [different[key] for _, _, key in spans[start:stop]]
            shared = Shared(_view(low, high, [array for _, array in together]), tuple(name for name, _ in together))
            found |= {key: (shared, first - low) for first, _, key in spans[start:stop]}
        start = stop
    return found


def _check_loose(different: Mapping[int, tuple[str, NDArray]]) -> None:
    """``UsageError`` when an array that is not contiguous shares bytes with another one."""
    for key, (name, array) in different.items():
        if array.flags.c_contiguous:
            continue
        for other_key, (other_name, other) in different.items():
            if other_key != key and np.shares_memory(array, other):
                raise UsageError(
                    f"arguments {name} and {other_name} share memory, and {name} is not contiguous",
                    hint="give the array that both are views of, or copies of them",
                )


class _Memory:
    """A range of the process's memory that belongs to ``owners``, as NumPy takes it."""

    def __init__(self, low: int, high: int, owners: Sequence[NDArray]) -> None:
        self.owners = owners
        readonly = not all(a.flags.writeable for a in owners)
        self.__array_interface__ = {"shape": (high - low,), "typestr": "|u1", "data": (low, readonly), "version": 3}


def _view(low: int, high: int, owners: Sequence[NDArray]) -> NDArray[np.uint8]:
    return np.asarray(_Memory(low, high, owners))
