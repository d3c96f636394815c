"""Where jobs run: processes of this machine, or a Dask cluster.

Invariant: both are a ``concurrent.futures.Executor``; ``distributed`` is imported only when a cluster is named, and what is missing or cannot be reached is an
error before any job has started.
"""

from __future__ import annotations

import multiprocessing
import signal
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, Protocol

from ptxgraft.errors import DeviceError, UnsupportedError

REACH_SECONDS = 10


class Workers(Protocol):
    """``start`` gives an executor, ``stop`` ends it with what still runs there. ``slots``: jobs that are given out at a time. ``lost``: what a
    job's future raises when its worker is gone; ``breaks``: whether the executor is of no use then; ``chances``: runs that a job gets."""

    @property
    def slots(self) -> int: ...
    @property
    def lost(self) -> tuple[type[Exception], ...]: ...
    @property
    def breaks(self) -> bool: ...
    @property
    def chances(self) -> int: ...
    def start(self) -> Executor: ...
    def stop(self, executor: Executor) -> None: ...


@dataclass
class Processes:
    """``slots`` processes of this machine."""

    slots: int
    lost: tuple[type[Exception], ...] = (BrokenExecutor,)
    breaks: bool = True
    chances: int = 2
    _others: set[BaseProcess] = field(default_factory=set)

    def start(self) -> Executor:
        # Not fork: the compiled engine has threads.
        context = multiprocessing.get_context("forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn")
        context.set_forkserver_preload(["ptxgraft.verify.jobs"])
        self._others = set(multiprocessing.active_children())
        return ProcessPoolExecutor(self.slots, mp_context=context, initializer=_leave_interrupts_to_the_parent)

    def stop(self, executor: Executor) -> None:
        """A pool itself only waits for its workers, which may be far from their end."""
        for process in set(multiprocessing.active_children()) - self._others:
            process.kill()
        executor.shutdown(wait=True, cancel_futures=True)


def _leave_interrupts_to_the_parent() -> None:
    """Ctrl-C reaches every process of a terminal; the parent alone decides what becomes of the work."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass
class Cluster:
    """A Dask cluster by its scheduler's address. The scheduler itself gives a lost worker's jobs to others, as often as its setting ``allowed-failures`` says."""

    address: str
    breaks: bool = False
    chances: int = 1
    slots: int = 0
    lost: tuple[type[Exception], ...] = ()
    _client: Any = None

    def __post_init__(self) -> None:
        """Connect. ``UnsupportedError`` without the extra, ``DeviceError`` when no scheduler answers or it has no workers."""
        try:
            from distributed import Client, KilledWorker
        except ImportError:
            raise UnsupportedError("jobs on a Dask cluster need the package distributed", hint="pip install 'ptxgraft[dask]'") from None
        try:
            self._client = Client(self.address, timeout=REACH_SECONDS, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise DeviceError(f"no Dask scheduler answers at {self.address}: {reason}", hint="write tcp://HOST:PORT") from None
        threads = sum(self._client.nthreads().values())
        if not threads:
            self._client.close()
            raise DeviceError(f"the Dask scheduler at {self.address} has no workers", hint="start some: dask worker ADDRESS")
        self.slots, self.lost = max(64, 4 * threads), (KilledWorker,)

    def __str__(self) -> str:
        return f"the Dask cluster at {self.address}"

    def start(self) -> Executor:
        return self._client.get_executor(pure=False)

    def stop(self, executor: Executor) -> None:
        executor.shutdown(wait=False)
        self._client.close()
