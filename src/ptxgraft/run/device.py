"""Functions of CUDA's device library that the executors answer: ``vprintf``, ``malloc``, ``free``, ``__assertfail``.

Invariant: what a launch prints does not depend on the engine or on how many threads it has: texts stand in the order of blocks, in a block of barriers
that their warp had passed, then of warps, and in a warp as they were printed. Pointers that ``malloc`` gives depend on the order in which warps
come. Source: CUDA C++ Programming Guide, "Formatted Output", "Dynamic Global Memory Allocation and Operations", "Assertion".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa import Address, Group, Instruction
from ptxgraft.run import faults
from ptxgraft.run.heap import Heap
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, SHARED_WINDOW, WINDOW_BYTES
from ptxgraft.run.printf import Arguments, formatted

_MASK64 = (1 << 64) - 1


@dataclass(frozen=True, slots=True)
class Caller:
    """One lane that calls. ``block`` is the block's linear number, ``barriers`` how many its warp has passed; ``local`` and ``shared`` are its memory, as bytes."""

    site: faults.Site
    block: int
    barriers: int
    local: NDArray[np.uint8]
    shared: NDArray[np.uint8]


Handler = Callable[["DeviceFunctions", Caller, list[int]], int | None]


class DeviceFunctions:
    """Answers the calls of one run. Calls may come from several threads."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self._texts: list[tuple[tuple[int, int, int], bytes]] = []
        self._lock = threading.Lock()

    def call(self, name: str, caller: Caller, at: int) -> None:
        """Answer one call, whose arguments lie in the caller's local memory from ``at`` on, eight bytes each; the result goes behind them."""
        count, handler = HANDLERS[name]
        words = caller.local[at : at + 8 * (count + 1)].view("<u8")
        with self._lock:
            result = handler(self, caller, [int(w) for w in words[:count]])
        if result is not None:
            words[count] = result & _MASK64

    def output(self, last: int | None = None) -> str:
        """What was printed until now, by blocks up to number ``last``; bytes that are no UTF-8 are replaced."""
        ordered = sorted((t for t in self._texts if last is None or t[0][0] <= last), key=lambda t: t[0])
        return b"".join(text for _, text in ordered).decode("utf-8", "replace")

    def print(self, caller: Caller, text: bytes) -> None:
        self._texts.append(((caller.block, caller.barriers, caller.site.warp), text))

    # -- the caller's memory ------------------------------------------------------------------------------------------
    def _segment(self, caller: Caller, address: int) -> tuple[NDArray[np.uint8], int, str]:
        """(bytes, offset of the address in them, name of the space) of generic memory; no bytes where there is none."""
        for name, base, data in (("shared", SHARED_WINDOW, caller.shared), ("local", LOCAL_WINDOW, caller.local)):
            if 0 <= address - base < WINDOW_BYTES:
                return data, address - base, name
        found = self.launch.memory.find(address)
        return (np.empty(0, np.uint8), address, "global") if found is None else (found.data, address - found.base, "global")

    def read(self, caller: Caller, address: int, size: int) -> bytes:
        """Bytes at a generic address. KernelFault when they are not all in one allocation."""
        data, offset, space = self._segment(caller, address)
        if offset + size > data.size:
            shown, limit = (address, -1) if space == "global" else (offset, data.size)
            raise faults.out_of_bounds(caller.site, self.launch.memory, space, False, shown, size, limit)
        return data[offset : offset + size].tobytes()

    def string(self, caller: Caller, address: int) -> bytes:
        """The C string at a generic address. KernelFault when it does not end within its allocation."""
        data, offset, _ = self._segment(caller, address)
        ends = np.flatnonzero(data[offset:] == 0)
        return self.read(caller, address, int(ends[0]) if ends.size else max(data.size - offset, 0) + 1)

    @property
    def heap(self) -> Heap:
        assert self.launch.heap is not None, "the launch of a program that calls malloc or free has a heap"
        return self.launch.heap


def _vprintf(functions: DeviceFunctions, caller: Caller, words: list[int]) -> int:
    """The number of arguments that the text took; -1 without a format."""
    template, buffer = words
    if template == 0:
        return -1
    arguments = Arguments(lambda offset, size: functions.read(caller, buffer + offset, size))
    text = formatted(functions.string(caller, template), arguments, lambda address: functions.string(caller, address))
    functions.print(caller, text)
    return arguments.count


def _malloc(functions: DeviceFunctions, caller: Caller, words: list[int]) -> int:
    return functions.heap.take(words[0])


def _free(functions: DeviceFunctions, caller: Caller, words: list[int]) -> None:
    problem = functions.heap.give_back(words[0])
    if problem:
        raise caller.site.fault(problem)


def _assertfail(functions: DeviceFunctions, caller: Caller, words: list[int]) -> None:
    message, file, line, function, _ = words
    texts = [functions.string(caller, a).decode("utf-8", "replace") if a else "?" for a in (message, file, function)]
    x, y, _ = functions.launch.block
    thread = caller.site.warp * 32 + caller.site.lane
    where = (thread % x, thread // x % y, thread // (x * y))
    raise caller.site.fault(f"assertion `{texts[0]}` failed in {texts[2]}, {texts[1]}:{line & 0xFFFFFFFF}, thread {where}")


HANDLERS: dict[str, tuple[int, Handler]] = {
    "vprintf": (2, _vprintf),
    "malloc": (1, _malloc),
    "free": (1, _free),
    "__assertfail": (5, _assertfail),
}
"""By name, how many arguments a function has and what answers it."""


def exchange(instruction: Instruction) -> Address:
    """The local address at which a call of a device function has its arguments."""
    group = instruction.operands[2]
    assert isinstance(group, Group) and isinstance(group.items[0], Address)
    return group.items[0]
