"""Messages between the process that asks and the one that has the GPU: small parts through a pipe, big arrays through files.

Invariant: an array arrives with its own memory, which nobody else writes; a message's file is gone as soon as the message was received.
"""

from __future__ import annotations

import mmap
import os
import pickle
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

INLINE_BYTES = 1 << 16
"""Arrays below this size travel in the pipe."""
ALIGNMENT = 64


@dataclass(eq=False)
class Channel:
    """One end. ``folder`` is where this end writes its files; ``name`` tells the two ends' files apart."""

    connection: Connection
    folder: Path
    name: str
    sent: int = field(default=0)

    def send(self, message: Any) -> None:
        """Send any plain value. Raises ``OSError`` when the other end is gone or the disk is full."""
        big: list[memoryview] = []

        def aside(buffer: pickle.PickleBuffer) -> bool:
            raw = buffer.raw()
            if raw.nbytes < INLINE_BYTES:
                return True  # stays in the message
            big.append(raw)
            return False

        data = pickle.dumps(message, protocol=5, buffer_callback=aside)
        path = None
        if big:
            self.sent += 1
            path = self.folder / f"{self.name}-{self.sent}"
            with open(path, "xb") as file:
                for raw in big:
                    file.seek(-(-file.tell() // ALIGNMENT) * ALIGNMENT)
                    file.write(raw)
        self.connection.send((data, path, [raw.nbytes for raw in big]))

    def receive(self) -> Any:
        """The next message. Raises ``EOFError`` when the other end is gone."""
        data, path, sizes = self.connection.recv()
        if path is None:
            return pickle.loads(data)
        with open(path, "rb") as file:
            # Private to this process: what is written there changes neither the file nor the sender.
            held = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
        os.unlink(path)
        buffers, at = [], 0
        for size in sizes:
            at = -(-at // ALIGNMENT) * ALIGNMENT
            buffers.append(held[at : at + size])
            at += size
        return pickle.loads(data, buffers=buffers)
