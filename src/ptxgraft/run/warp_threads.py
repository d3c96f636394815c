"""Host threads that stay from one launch to the next: starting them anew costs more than a small kernel.

Invariant: a call comes back, also by an interrupt, only when none of its workers runs any more; a process that was forked starts threads of its own.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from typing import Protocol

MOST = 256
"""Threads that may run at once; further workers wait for a free one, which is no harm: none waits for another."""


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


def run_all(workers: Sequence[Working]) -> None:
    """Run every worker to its end. Raises what one raised."""
    if len(workers) == 1 and threading.current_thread() is not threading.main_thread():
        workers[0].run()  # here no interrupt comes
        return
    running = [_threads().submit(worker.run) for worker in workers]
    try:
        wait(running)
    except BaseException:  # an interrupt: the blocks that run must end before their memory may go
        for worker in workers:
            worker.stop()
        wait(running)
        raise
    for future in running:
        future.result()
