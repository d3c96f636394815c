"""One launch's memory on the GPU, and the kernels that run on it.

Invariant: a kernel finds what the ``Work`` says, at the launch's own addresses or at the ones that ``notes`` name; pointers and handles in the argument block
are exchanged for those of the GPU, nothing inside buffers is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import KernelFault, UsageError
from ptxgraft.run.cuda.driver import Buffer, Device, LoadedVariable, flat
from ptxgraft.run.cuda.images import Image, Images
from ptxgraft.run.cuda.memory import Placement, place, words_into
from ptxgraft.run.cuda.work import POINTER_BYTES, Code, Left, ModuleVariable, Work

FLUSHED = 4
"""So many times the size of the L2 cache is written to drive everything else out of it."""


@dataclass(eq=False)
class Session:
    """Use as a context manager. ``fixed`` False: memory goes where the driver likes. ``keep``: inputs are kept on the GPU, for ``restore``."""

    device: Device
    work: Work
    fixed: bool = True
    keep: bool = False
    notes: list[str] = field(default_factory=list)
    kept: list[Buffer] = field(default_factory=list)
    scratch: Buffer | None = None

    def __enter__(self) -> Session:
        work = self.work
        self.images = Images(self.device)
        self.handles: dict[int, Image] = {}
        self.placement: Placement = place(self.device, [(s.base, s.data.size) for s in work.spans], self.fixed)
        try:
            for span, address in zip(work.spans, self.placement.addresses, strict=True):
                self.device.write(address, flat(span.data))
                if self.keep:
                    self.kept.append(self.device.buffer(span.data))
            for handle, texture in work.textures.items():
                self.handles[handle] = self.images.texture(texture, handle in work.linear)
            for handle, surface in work.surfaces.items():
                self.handles[handle] = self.images.surface(surface)
            if work.stack_bytes:
                self.device.call("cuCtxSetLimit", self.device.driver.CUlimit.CU_LIMIT_STACK_SIZE, work.stack_bytes)
        except BaseException:
            self.__exit__()
            raise
        self.notes += self._moves()
        return self

    def __exit__(self, *_: object) -> None:
        self.device.driver.cuStreamSynchronize(self.device.stream)  # nothing may be under way in what is freed
        self.images.free()
        self.placement.free()
        for buffer in [*self.kept, *([] if self.scratch is None else [self.scratch])]:
            self.device.release(buffer)
        self.kept.clear()
        self.scratch = None

    def _moves(self) -> list[str]:
        """What a reader should know of memory that is not where it was."""
        spans = self.work.spans
        moved = self.placement.moved
        notes = [
            f"{spans[i].name} lies at {self.placement.addresses[i]:#x} on the GPU, not at {spans[i].base:#x}: the driver gave no memory there" for i in moved
        ] if self.fixed else []  # fmt: skip
        variables = [v.span for v in self.work.variables.values()]
        elsewhere = [(spans[i].base, spans[i].data.size) for i in moved] + [(v.base, v.data.size) for v in variables]
        for span in [*spans, *variables]:
            count = words_into(span.data, elsewhere) if elsewhere else 0
            if count:
                notes.append(
                    f"{span.name} holds {count} words that look like pointers to what lies elsewhere on the GPU; they stay as they are"
                )
        return notes

    def moved(self, code: Code) -> list[tuple[int, int, int]]:
        """What lies elsewhere than the launch has it, as ``RunResult.moved``."""
        found = [(base, size, new) for base, size, new in self._spans(code) if base != new]
        return found + [(handle, 1, image.handle) for handle, image in self.handles.items() if handle != image.handle]

    # -- running ------------------------------------------------------------------------------------------------------
    def launch(self, code: Code, before: Callable[[], None] | None = None, gate: bool = False) -> float:
        """Run an entry once on what the memory holds now; the seconds that the GPU took. ``before`` is called between loading and launching. ``gate``: hold the
        GPU until everything is enqueued, so that the time has no host time in it; the entry must have run before."""
        device, work = self.device, self.work
        function = device.function(device.module(code.image), code.entry)
        args = self.arguments(code)
        self._write_variables(code)
        device.call("cuStreamSynchronize", device.stream)
        if before is not None:
            before()
        with Gate(device, gate) as gated, Clock(device) as clock:
            clock.start()
            device.enqueue(function, work.grid, work.block, args, work.shared_bytes, work.cooperative, work.cluster)
            clock.stop()
            gated.open()
            try:
                device.wait(code.entry)
            except KernelFault as fault:
                raise KernelFault("; ".join([fault.message, *self.notes]), hint=fault.hint) from None
            return clock.seconds()

    def restore(self) -> None:
        """Put the inputs back, in the order of the stream."""
        for address, buffer in zip(self.placement.addresses, self.kept, strict=True):
            self.device.copy(address, buffer.address, buffer.size)
        for handle, surface in self.work.surfaces.items():
            self.images.fill(self.handles[handle], surface)

    def flush(self) -> None:
        """Drive everything out of the L2 cache, in the order of the stream."""
        if self.scratch is None:
            self.scratch = self.device.buffer(FLUSHED * self.device.attribute("CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE"))
        driver, scratch = self.device.driver, self.scratch
        self.device.call("cuMemsetD8Async", driver.CUdeviceptr(scratch.address), 0, scratch.size, self.device.stream)

    def fetch(self, code: Code) -> Left:
        """What memory, the module's variables and surfaces hold now."""
        placed = zip(self.work.spans, self.placement.addresses, strict=True)
        return Left(
            [self.device.read(address, span.data.size) for span, address in placed],
            {name: self._read_variable(there, self.work.variables[name]) for name, there in self._variables(code).items()},
            {handle: self.images.texels(self.handles[handle], s) for handle, s in self.work.surfaces.items()},
        )

    # -- what a kernel is told ----------------------------------------------------------------------------------------
    def arguments(self, code: Code) -> bytes:
        """The argument block with the GPU's pointers and handles: an aligned word that lies in a span or a variable, or at its end, and handles."""
        handles = {h: i.handle for h, i in self.handles.items()}
        return exchanged(self.work.args, self._spans(code), handles, self.work.handles_at)

    def _spans(self, code: Code) -> list[tuple[int, int, int]]:
        """(base, bytes, base on the GPU) of all memory that a launch names."""
        spans = [(s.base, s.data.size, at) for s, at in zip(self.work.spans, self.placement.addresses, strict=True)]
        for name, there in self._variables(code).items():
            span = self.work.variables[name].span
            spans.append((span.base, span.data.size, there.address))
        return spans

    def _variables(self, code: Code) -> dict[str, LoadedVariable]:
        """The work's variables as the module has them."""
        found: dict[str, LoadedVariable] = {}
        for name, variable in self.work.variables.items():
            there = self.device.variable(code.image, name)
            size = variable.span.data.size
            if there is None:
                note = f"variable {name!r} is not in the module on the GPU: nothing there uses it"
                self.notes += [note] if note not in self.notes else []
            elif there.initial.size < size:
                raise UsageError(f"variable {name!r} has {there.initial.size} bytes on the GPU, {size} in the launch")
            else:
                found[name] = LoadedVariable(there.address, there.initial[:size])
        return found

    def _write_variables(self, code: Code) -> None:
        for name, there in self._variables(code).items():
            variable = self.work.variables[name]
            data = flat(variable.span.data).copy()
            for at, size in variable.addresses:
                data[at : at + size] = there.initial[at : at + size]
            self.device.write(there.address, data)

    def _read_variable(self, there: LoadedVariable, variable: ModuleVariable) -> NDArray[np.uint8]:
        """A variable's bytes; addresses that the loader put there and nobody changed are the launch's own."""
        now = self.device.read(there.address, variable.span.data.size)
        for at, size in variable.addresses:
            word = slice(at, at + size)
            if np.array_equal(now[word], there.initial[word]):
                now[word] = flat(variable.span.data)[word]
        return now


def exchanged(
    args: bytes, spans: Sequence[tuple[int, int, int]], handles: Mapping[int, int], handles_at: Sequence[int] | None = None
) -> bytes:
    """An argument block with other pointers and handles. ``spans`` are (base, bytes, new base): a pointer is an aligned word that lies in one, or else at the
    end of one. ``handles`` map old to new, at the offsets ``handles_at`` alone (None: wherever an aligned word equals one)."""
    changed = bytearray(args)
    for offset in range(0, len(changed) - POINTER_BYTES + 1, POINTER_BYTES):
        word = int.from_bytes(changed[offset : offset + POINTER_BYTES], "little")
        inside = [new + word - base for base, size, new in spans if base <= word < base + max(size, 1)]
        ends = [new + size for base, size, new in spans if word == base + size]
        handle = [handles[word]] if word in handles and (handles_at is None or offset in handles_at) else []
        for new in [*handle, *inside, *ends][:1]:
            changed[offset : offset + POINTER_BYTES] = new.to_bytes(POINTER_BYTES, "little")
    return bytes(changed)


class Clock:
    """Seconds between two points of the device's stream."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.events: list[Any] = []

    def __enter__(self) -> Clock:
        self.events = [self.device.call("cuEventCreate", self.device.driver.CUevent_flags.CU_EVENT_DEFAULT) for _ in range(2)]
        return self

    def __exit__(self, *_: object) -> None:
        for event in self.events:
            self.device.driver.cuEventDestroy(event)

    def start(self) -> None:
        self.device.call("cuEventRecord", self.events[0], self.device.stream)

    def stop(self) -> None:
        self.device.call("cuEventRecord", self.events[1], self.device.stream)

    def seconds(self) -> float:
        """Both points must have passed."""
        return self.device.call("cuEventElapsedTime", *self.events) / 1000


class Gate:
    """Holds the device's stream until it is opened. ``wanted`` False: it is open from the start."""

    def __init__(self, device: Device, wanted: bool) -> None:
        self.device, self.wanted = device, wanted
        self.word: Any = None

    def __enter__(self) -> Gate:
        if self.wanted:
            device = self.device
            self.host = int(device.call("cuMemHostAlloc", 4, 0))
            self.word = ctypes.c_uint32.from_address(self.host)
            self.word.value = 0
            pointer = device.call("cuMemHostGetDevicePointer", self.host, 0)
            waits = device.driver.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
            device.call("cuStreamWaitValue32", device.stream, pointer, 1, int(waits))
        return self

    def open(self) -> None:
        if self.word is not None:
            self.word.value = 1

    def __exit__(self, *_: object) -> None:
        if self.word is not None:
            self.open()  # after an error too: a stream that waits for ever cannot be left
            self.device.driver.cuStreamSynchronize(self.device.stream)
            self.device.driver.cuMemFreeHost(self.host)
