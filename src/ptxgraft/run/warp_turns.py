"""Blocks that take turns on one host thread, for programs whose threads may wait for those of other warps and blocks.

Invariant: blocks begin in order and take turns in order, so that a launch runs the same way each time; no block that has begun waits for ever for its turn. As
many begin together as fit into memory: as on hardware, blocks that wait for one that cannot begin never end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from ptxgraft.lower.warp_state import Status

QUANTUM = 1 << 12
"""Statements that a warp runs in one turn."""

TOTAL_STEPS, LEAST_STEPS = 1 << 31, 5_000_000
"""Statements that all warps together may run when no budget is given, and what each may in any case: threads that wait for what never comes all run."""

RESIDENT_BYTES = 512 << 20
"""Registers and memory of the blocks that run together."""


def waiting_budget(warps: int, most: int) -> int:
    """The step budget of each of so many warps, ``most`` if they are few."""
    return max(LEAST_STEPS, min(most, TOTAL_STEPS // max(warps, 1)))


class Turning(Protocol):
    """What runs one block at a time, turn by turn."""

    def begin(self, block: int) -> None:
        """Take a block, by its linear number."""
        ...

    def turn(self) -> Status:
        """Let each of its warps that can run, run for a while: RUNNING, EXITED or FAULT."""
        ...


Turner = TypeVar("Turner", bound=Turning)


def run_turns(blocks: Sequence[int], make: Callable[[], Turner], bytes_each: int) -> list[Turner]:
    """Run blocks to their ends or to the first fault; returns what they ran on. ``bytes_each``: the memory of one."""
    room = max(1, min(len(blocks), RESIDENT_BYTES // max(bytes_each, 1)))
    left = iter(blocks)
    workers: list[Turner] = []
    running: list[Turner] = []
    for block in (next(left) for _ in range(room)):
        worker = make()
        worker.begin(block)
        workers.append(worker)
        running.append(worker)
    while running:
        still: list[Turner] = []
        for worker in running:
            status = worker.turn()
            if status == Status.FAULT:
                return workers
            if status == Status.EXITED:
                block = next(left, None)
                if block is None:
                    continue
                worker.begin(block)
            still.append(worker)
        running = still
    return workers
