"""The asking side: child processes that have the GPU, with a watchdog.

Invariant: whatever a kernel does, the asking process lives on: a child whose kernel faults or does not end is killed, its error is raised here, and the
next launch gets a fresh child. Two callers at a time never share a child.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ptxgraft.errors import DeviceError, KernelFault, PtxgraftError
from ptxgraft.run.cuda.channel import Channel
from ptxgraft.run.cuda.child import RUNNING

DEFAULT_TIMEOUT = 60.0
"""Seconds that a kernel may run."""
PREPARING_SECONDS = 600.0
"""Seconds that everything else of a message may take: starting the driver, compiling, copying."""
DYING_SECONDS = 10.0
"""Seconds that a child whose end of the pipe is closed may take to end."""
START = "from ptxgraft.run.cuda.child import main; main()"
LAST_WORDS = 2000
"""Characters of a child's last output that an error quotes."""


def check_package() -> None:
    """Raise ``DeviceError`` when the package that reaches the driver is missing."""
    try:
        found = importlib.util.find_spec("cuda.bindings")
    except ModuleNotFoundError:
        found = None
    if found is None:
        raise DeviceError("the executor cuda needs the package cuda-bindings, which is not installed", hint="pip install 'ptxgraft[cuda]'")


class Worker:
    """One child process with one GPU's context. ``ordinal`` counts GPUs as the driver does."""

    def __init__(self, ordinal: int = 0) -> None:
        check_package()
        self.folder = Path(tempfile.mkdtemp(prefix="ptxgraft-cuda-"))
        mine, theirs = socket.socketpair()
        path = os.pathsep.join(p for p in sys.path if p)
        with theirs, open(self.folder / "printed", "wb") as out, open(self.folder / "said", "wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-c", START, str(theirs.fileno()), str(self.folder), str(ordinal)],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=said,
                pass_fds=[theirs.fileno()],
            )
        self.channel = Channel(Connection(mine.detach()), self.folder, "question")
        self.alive = True
        self._read = {"printed": 0, "said": 0}

    def ask(self, name: str, *arguments: Any, timeout: float | None = DEFAULT_TIMEOUT) -> tuple[Any, str]:
        """Let the child do something: (what it gives, what kernels printed). ``timeout``: seconds that a kernel may run (None: for ever).

        Raises what the child raises, ``KernelFault`` when a kernel does not end, ``DeviceError`` when the child dies; after each of them it is gone.
        """
        try:
            try:
                return self._exchange(name, arguments, timeout)
            except (EOFError, OSError) as error:
                raise self._dead(error) from None
        except BaseException:
            self.close()
            raise

    def _exchange(self, name: str, arguments: tuple[Any, ...], timeout: float | None) -> tuple[Any, str]:
        self.channel.send((name, arguments))
        limit: float | None = PREPARING_SECONDS
        running = False
        while True:
            if not self.channel.connection.poll(limit):
                raise self._late(running, limit or 0)
            kind, content = self.channel.receive()
            if kind == RUNNING:
                limit, running = timeout, True
            elif kind == "done":
                return content, self._new("printed")
            else:
                raise self._failure(*content)

    def _dead(self, error: Exception) -> DeviceError:
        try:
            code = self.process.wait(DYING_SECONDS)
        except subprocess.TimeoutExpired:
            return DeviceError(f"cannot pass data to the process that has the GPU: {error}")
        words = self._new("said").strip()[-LAST_WORDS:]
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return DeviceError(f"the process that has the GPU died ({how}){': ' + words if words else ''}")

    def _late(self, running: bool, limit: float) -> PtxgraftError:
        if not running:
            return DeviceError(f"the driver did not answer within {limit:g} s")
        fault = KernelFault(
            f"the kernel did not end within {limit:g} s on the GPU; it was stopped",
            hint="allow it more time (timeout, --timeout), or replay it on cpu with a step budget, which names the place where it was",
        )
        fault.output = self._new("printed")
        return fault

    def _failure(self, kind: type[PtxgraftError], message: str, hint: str, place: Any) -> PtxgraftError:
        if not issubclass(kind, KernelFault):
            return kind(message, place=place, hint=hint)
        said = self._new("said").strip()[:LAST_WORDS]  # the driver tells of failed assertions there
        fault = kind(f"{message}: {said}" if said else message, place=place, hint=hint)
        fault.output = self._new("printed")
        return fault

    def _new(self, name: str) -> str:
        """What the child wrote to a stream since the last time."""
        with open(self.folder / name, "rb") as file:
            file.seek(self._read[name])
            data = file.read()
        self._read[name] += len(data)
        return data.decode("utf-8", "replace")

    def close(self) -> None:
        """End the child at once, whatever it does."""
        if self.alive:
            self.alive = False
            self.channel.connection.close()
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)


class _Pool:
    """Children that wait for work, by GPU. A process that was forked has none: its parent's are not its own."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.owner = os.getpid()
        self.idle: dict[int, list[Worker]] = {}

    @contextmanager
    def worker(self, ordinal: int) -> Iterator[Worker]:
        with self.lock:
            if self.owner != os.getpid():
                self.owner, self.idle = os.getpid(), {}
            waiting = self.idle.setdefault(ordinal, [])
            chosen = next((w for w in reversed(waiting) if w.process.poll() is None), None)
            if chosen is not None:
                waiting.remove(chosen)
        chosen = chosen or Worker(ordinal)
        try:
            yield chosen
        except BaseException:
            chosen.close()  # nobody knows what it was doing
            raise
        with self.lock:
            self.idle.setdefault(ordinal, []).append(chosen)

    def close(self) -> None:
        if self.owner == os.getpid():
            for worker in [w for waiting in self.idle.values() for w in waiting]:
                worker.close()
            self.idle.clear()


_POOL = _Pool()
atexit.register(_POOL.close)


def borrow(ordinal: int = 0) -> Any:
    """A context manager that lends a child to one caller. After an error inside the block the child is ended."""
    return _POOL.worker(ordinal)


def close_all() -> None:
    """End all children that wait for work."""
    _POOL.close()
