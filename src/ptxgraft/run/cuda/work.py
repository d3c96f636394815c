"""A launch as the GPU's side needs it: plain data that travels between processes.

Invariant: a ``Work`` shares no memory with its launch's results: what the GPU left comes back as ``Left`` and is put into the launch by ``take``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.program import Program
from ptxgraft.run.images import Surface, Texture
from ptxgraft.run.launch import STACK_BYTES, Launch, asks_for_workspace
from ptxgraft.run.memory import Allocation
from ptxgraft.run.recording import POISON, Assume, parts_of
from ptxgraft.run.references import KINDS
from ptxgraft.run.variables import Words, address_words

POINTER_BYTES = 8


@dataclass(slots=True)
class Span:
    """``data`` uint8[n] is what the addresses from ``base`` on hold before the launch."""

    base: int
    data: NDArray[np.uint8]
    name: str


@dataclass(slots=True)
class ModuleVariable:
    """A module variable: the span that the launch knows it as; ``addresses`` (offset, bytes) are words that are addresses by the module's initialiser: only the
    loader of the GPU knows them."""

    span: Span
    addresses: Words


@dataclass(slots=True)
class Code:
    """An entry of a module: PTX text or a cubin."""

    image: bytes
    entry: str


@dataclass(slots=True)
class Work:
    """Everything of a launch but its code. ``handles_at``: argument offsets of handles, None where nobody knows. ``stack_bytes`` 0: the driver knows.
    ``cluster`` None: what the module says. ``linear``: the handles of textures whose texels lie in plain memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    args: bytes
    shared_bytes: int = 0
    cooperative: bool = False
    stack_bytes: int = 0
    spans: list[Span] = field(default_factory=list)
    variables: dict[str, ModuleVariable] = field(default_factory=dict)
    textures: dict[int, Texture] = field(default_factory=dict)
    surfaces: dict[int, Surface] = field(default_factory=dict)
    handles_at: tuple[int, ...] | None = None
    cluster: tuple[int, int, int] | None = None
    linear: frozenset[int] = frozenset()


@dataclass(slots=True)
class Left:
    """What a launch left, in the order of its ``Work``."""

    spans: list[NDArray[np.uint8]]
    variables: dict[str, NDArray[np.uint8]]
    surfaces: dict[int, NDArray]


def work_of(launch: Launch) -> Work:
    """A launch as work for a GPU. Raises ``UnsupportedError`` for what only the CPU's executors can do."""
    if launch.heap is not None and launch.heap.used:
        raise UnsupportedError(
            f"{launch.program.name}: blocks of malloc from earlier launches on cpu cannot be taken to a GPU", hint="run it on cpu"
        )
    program = launch.program
    _no_references(program.name, [v.name for v in program.variables if v.type in KINDS])
    return Work(
        launch.grid,
        launch.block,
        launch.args,
        launch.shared_bytes,
        launch.workspace is not None,
        launch.stack_bytes if program.stack_need is None else 0,
        [Span(a.base, a.data, a.name or f"the allocation at {a.base:#x}") for a in launch.allocations],
        {n: _variable(n, a, address_words(program, n, launch.variables)) for n, a in launch.variables.items()},
        dict(launch.textures),
        dict(launch.surfaces),
        launch.handles_at,
    )


def work_from_capture(
    recorded: capture.Launch, program: Program | None, notes: list[str], *, assume: Assume | None = None, poison: int | None = POISON
) -> Work:
    """A recorded launch as work for a GPU; what had to be assumed goes to ``notes``. Without a ``program`` (the capture holds no PTX) what PTX would tell is
    taken from the record. Arguments and errors as for ``run.launch_from_capture``."""
    _no_references(recorded.label, [i.reference for i in recorded.images if i.reference is not None])
    held = parts_of(recorded, assume or Assume(), poison, notes)
    return Work(
        recorded.grid,
        recorded.block,
        recorded.args,
        recorded.shared_bytes,
        recorded.cooperative or (program is not None and asks_for_workspace(program)),
        stack_for(program),
        [Span(a.base, a.data, a.name) for a in held.allocations],
        # What was recorded there are addresses of the process that was recorded, of no use in any other.
        {n: _variable(n, a, [] if program is None else address_words(program, n)) for n, a in held.variables.items()},
        held.textures,
        held.surfaces,
        tuple(i.arg_offset for i in recorded.images),
        recorded.cluster,
        frozenset(i.handle for i in recorded.textures if i.linear),
    )


def _no_references(who: str, names: Sequence[str]) -> None:
    if names:
        raise UnsupportedError(
            f"{who}: images are bound to the references {', '.join(names)}, which the executor cuda does not do",
            hint="texture and surface objects work, and cpu runs references",
        )


def stack_for(program: Program | None) -> int:
    """Bytes of stack that a recorded launch of a program gets; 0: the driver knows what it needs."""
    return STACK_BYTES if program is not None and program.stack_need is None else 0


def _variable(name: str, held: Allocation, addresses: Words) -> ModuleVariable:
    return ModuleVariable(Span(held.base, held.data, f"variable {name!r}"), addresses)


def take(launch: Launch, left: Left) -> None:
    """Put what the GPU left into a launch's memory and surfaces."""
    for allocation, data in zip(launch.allocations, left.spans, strict=True):
        allocation.data[:] = data
    for name, data in left.variables.items():
        launch.variables[name].data[:] = data
    for handle, array in left.surfaces.items():
        launch.surfaces[handle].array[...] = array
