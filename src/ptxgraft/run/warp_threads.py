"""Host threads that stay from one launch to the next: starting them anew costs more than a small kernel.

Invariant: a call comes back, also by an interrupt, when none of its workers runs any more, or, after an interrupt, when one has not ended in time; what that
one works on is then kept for good. A process that was forked starts threads of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Protocol

MOST = 256
"""Threads that may run at once; further workers wait for a free one, which is no harm: none waits for another."""


PATIENCE = 3.0
"""Seconds that an interrupt waits for a worker: a loop within one block looks at nothing but its step budget."""

_abandoned: list[_Run] = []


def abandoned() -> bool:
    """Does a worker run on after an interrupt? A process that wants to end now must not wait for its threads."""
    return any(not run.over.is_set() for run in _abandoned)


class Working(Protocol):
    """What runs on a thread of its own until nothing is left to do."""

    def run(self) -> None: ...

    def stop(self) -> None:
        """Make ``run`` come back soon; called from another thread."""
        ...


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(MOST, thread_name_prefix="ptxgraft-warp")


os.register_at_fork(after_in_child=_threads.cache_clear)


class _Run:
    """One worker's run: begun at most once, and never after it was called off. An interrupt may come at any place of the main thread, also between handing
    a run over and noting that it was handed over; so a run itself knows what became of it."""

    def __init__(self, worker: Working) -> None:
        self.worker = worker
        self.lock = threading.Lock()
        self.begun = self.off = False
        self.over = threading.Event()
        self.error: BaseException | None = None

    def __call__(self) -> None:
        with self.lock:
            if self.off:
                return
            self.begun = True
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error
        finally:
            self.over.set()

    def call_off(self) -> None:
        """Come back when it does not run and never will, or has not ended in time."""
        with self.lock:
            self.off = True
        if self.begun:
            self.worker.stop()
            if not self.over.wait(PATIENCE):
                _abandoned.append(self)


def run_all(workers: Sequence[Working]) -> None:
    """Run every worker to its end. Raises what one raised."""
    if len(workers) == 1 and threading.current_thread() is not threading.main_thread():
        workers[0].run()  # here no interrupt comes
        return
    runs = [_Run(worker) for worker in workers]
    try:
        for run in runs:
            _threads().submit(run)
        for run in runs:
            run.over.wait()
    except BaseException:  # an interrupt: the blocks that run must end before their memory may go
        for run in runs:
            _surely(run.call_off)
        raise
    for run in runs:
        if run.error is not None:
            raise run.error


def _surely(do: Callable[[], None]) -> None:
    """Do it to its end, through further interrupts: the first one is on its way up already."""
    while True:
        try:
            return do()
        except KeyboardInterrupt:
            continue
