"""The process that has the GPU: it does what messages ask until its parent goes away.

Invariant: every message is answered once; ``RUNNING`` comes before the answer of a message that launches a kernel, just before the launch. After a
failure that may have cost the context the process ends.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from ptxgraft.errors import DeviceError, KernelFault, PtxgraftError
from ptxgraft.run.cuda.channel import Channel
from ptxgraft.run.cuda.driver import Card, Device
from ptxgraft.run.cuda.session import Session
from ptxgraft.run.cuda.work import Code, Left, Work

RUNNING = "running"
PRINTF_BYTES = 16 << 20
"""What kernels may print in one launch; CUDA's default is 1 MiB."""


class Desk:
    """Answers messages: the names of its public methods are what can be asked."""

    def __init__(self, device: Device, running: Callable[[], None]) -> None:
        self.device, self.running = device, running
        self.session: Session | None = None

    def card(self) -> Card:
        return self.device.card

    def run(self, work: Work, code: Code, fixed: bool) -> tuple[Left, float, list[str], list[tuple[int, int, int]]]:
        """One launch from its inputs to what it left: that, the seconds, notes, and what was moved."""
        with Session(self.device, work, fixed) as session:
            seconds = session.launch(code, self.running)
            return session.fetch(code), seconds, session.notes, session.moved(code)

    def open(self, work: Work, fixed: bool) -> list[str]:
        """Put a launch's memory on the GPU and keep it there."""
        self.close()
        self.session = Session(self.device, work, fixed, keep=True).__enter__()
        return self.session.notes

    def close(self) -> None:
        """Drop what ``open`` put there."""
        if self.session is not None:
            self.session.__exit__()
            self.session = None

    def repeat(self, code: Code, flush: bool, gate: bool) -> float:
        """Inputs restored, the L2 cache flushed if wanted, one launch; its seconds."""
        assert self.session is not None, "nothing is open"
        self.session.restore()
        if flush:
            self.session.flush()
        return self.session.launch(code, self.running, gate)

    def fetch(self, code: Code) -> Left:
        """What the last launch left."""
        assert self.session is not None, "nothing is open"
        return self.session.fetch(code)


def serve(channel: Channel, ordinal: int) -> None:
    """Answer messages until the other end is closed."""
    library = ctypes.CDLL(None)
    try:
        with Device(ordinal) as device:
            device.call("cuCtxSetLimit", device.driver.CUlimit.CU_LIMIT_PRINTF_FIFO_SIZE, PRINTF_BYTES)
            desk = Desk(device, lambda: channel.send((RUNNING, None)))
            while True:
                name, arguments = channel.receive()
                answer = getattr(desk, name)(*arguments)
                library.fflush(None)  # kernels print through C
                channel.send(("done", answer))
    except EOFError:
        return
    except PtxgraftError as error:
        library.fflush(None)
        channel.send(("failed", _told(error)))
    except MemoryError as error:
        channel.send(("failed", (DeviceError, f"not enough memory in the process that has the GPU: {error}", "", None)))
    except Exception as error:  # whatever breaks here must reach the one who asked
        traceback.print_exc()
        channel.send(("failed", (DeviceError, f"the process that has the GPU broke: {type(error).__name__}: {error}", "", None)))


def _told(error: PtxgraftError) -> tuple[type[PtxgraftError], str, str, Any]:
    kind = next(c for c in type(error).__mro__ if c.__module__ == "ptxgraft.errors")
    assert issubclass(kind, PtxgraftError)
    return kind, error.message, error.hint, error.place


def _die_with(parent: int) -> None:
    """End this process when its parent is gone, even while a kernel runs for ever."""
    while os.getppid() == parent:
        time.sleep(1)
    os._exit(KernelFault.exit_code)


def main() -> None:
    """The process; its arguments are the descriptor of its end of the pipe, the folder for big arrays, and the GPU's number."""
    descriptor, folder, ordinal = sys.argv[1:4]
    threading.Thread(target=_die_with, args=(os.getppid(),), daemon=True).start()
    serve(Channel(Connection(int(descriptor)), Path(folder), "answer"), int(ordinal))
