"""A launch: a program, its geometry, its argument block and everything its memory holds.

Invariant: a ``Launch`` that exists can be run: its argument block fits the entry, its block fits what the entry declares, its memory does not
overlap, and every module variable that the entry names has an address and contents.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import index
from typing import SupportsIndex

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError
from ptxgraft.isa.operands import Special
from ptxgraft.isa.program import Program, align_up
from ptxgraft.run.heap import Heap, make_heap, uses_heap
from ptxgraft.run.images import HostImages, Sampler, Surface, Texture, host_images
from ptxgraft.run.memory import FILL, WINDOW_BYTES, Allocation, Memory, allocate, clear_of
from ptxgraft.run.references import Bound, bound_images
from ptxgraft.run.variables import REFERENCES, place_variables
from ptxgraft.text import extents

Dim3 = tuple[int, int, int]

MAX_THREADS = 1024
MAX_BLOCK = (1024, 1024, 64)
MAX_GRID = (2**31 - 1, 65535, 65535)
STACK_BYTES = 16 << 10
"""The default limit of a thread's stack; CUDA's is 1 KiB (cudaLimitStackSize), which its drivers raise as they see fit."""

WORKSPACE_REGISTERS = ("envreg1", "envreg2")
"""Where a cooperative launch has the upper and the lower half of the address of its grid's workspace, whose second word the grid's barrier counts in."""

WORKSPACE_ADDRESS, WORKSPACE_BYTES = 0x7B00_0000_0000, 256

MAX_SHARED = 227 << 10
"""Bytes of shared memory a block may have on sm_90 (CUDA programming guide, "Compute Capabilities")."""


def dim3(value: SupportsIndex | Sequence[SupportsIndex], what: str) -> Dim3:
    """A grid or block as (x, y, z); fewer numbers are filled up with ones."""
    try:
        numbers = tuple(index(v) for v in value) if isinstance(value, (Sequence, np.ndarray)) else (index(value),)
    except TypeError:
        raise UsageError(f"{value!r} is no {what}", hint=f"a {what} is a whole number or one to three of them") from None
    if not 1 <= len(numbers) <= 3:
        raise UsageError(f"a {what} has one to three dimensions, not {len(numbers)}")
    x, y, z = (*numbers, 1, 1)[:3]
    if min(x, y, z) < 1:
        raise UsageError(f"the {what} {(x, y, z)} has a dimension below 1")
    return x, y, z


@dataclass(eq=False)
class Launch:
    """One launch of ``program``'s entry. ``args`` is the parameter block; ``shared_bytes`` the dynamic shared memory, behind what the entry declares.

    ``textures`` and ``surfaces`` go by handle. ``variables`` gives module variables contents and an address by name; those missing get theirs from
    the module. ``fill`` is what a byte of shared or local memory holds at first. ``stack_bytes``: what a thread may have of stack, for calls that are
    recursive or go through pointers, and for ``alloca``. ``heap``: what ``malloc`` takes from; one is made for a program that calls it. ``notes`` are things that had to be assumed.
    ``handles_at`` are the argument offsets of texture and surface handles (None: not known), for executors that have handles of their own. ``references`` binds images to the module's texture, surface and sampler references, by name.
    """

    program: Program
    grid: Dim3
    block: Dim3
    args: bytes = b""
    shared_bytes: int = 0
    allocations: list[Allocation] = field(default_factory=list)
    textures: dict[int, Texture] = field(default_factory=dict)
    surfaces: dict[int, Surface] = field(default_factory=dict)
    variables: dict[str, Allocation] = field(default_factory=dict)
    fill: int = FILL
    stack_bytes: int = STACK_BYTES
    heap: Heap | None = None
    notes: list[str] = field(default_factory=list)
    handles_at: tuple[int, ...] | None = None
    references: Mapping[str, Bound] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.grid, self.block = dim3(self.grid, "grid"), dim3(self.block, "block")
        self.args = bytes(self.args)
        try:
            self.shared_bytes = index(self.shared_bytes)
        except TypeError:
            raise UsageError(f"{self.program.name}: shared_bytes is {self.shared_bytes!r}, which is no whole number") from None
        _check_geometry(self)
        check_arguments(self.program, self.args)
        _check_stack(self)
        place_variables(self.program, self.variables, self.allocations)
        self._bind_references()
        placed = [*self.allocations, *self.variables.values()]
        self.workspace: Allocation | None = None
        if asks_for_workspace(self.program):
            self.workspace = allocate(clear_of(placed, WORKSPACE_ADDRESS, WORKSPACE_BYTES), WORKSPACE_BYTES, "the grid's workspace")
            placed.append(self.workspace)
            self.notes.append(f"{self.program.name} asks for the workspace of its grid: run as a cooperative launch")
        if self.heap is None and uses_heap(self.program):
            self.heap = make_heap(placed)
        self.memory = Memory([*placed, *([] if self.heap is None else [self.heap.allocation])])

    def _bind_references(self) -> None:
        """Put what the references name among the images, by the references' handles."""
        bound = bound_images(self.program, self.references, self.variables)
        self.textures = self.textures | {h: i for h, i in bound.items() if isinstance(i, Texture)}
        self.surfaces = self.surfaces | {h: i for h, i in bound.items() if isinstance(i, Surface)}
        self.samplers = {h: i for h, i in bound.items() if isinstance(i, Sampler)}
        for parameter in self.program.params:
            # A parameter that is a reference is named like one; what it stands for is its place.
            if parameter.type in REFERENCES:
                given = int.from_bytes(self.args[parameter.offset : parameter.offset + 8], "little")
                for images in (self.textures, self.surfaces):
                    images |= {parameter.offset: images[given]} if given in images else {}

    @property
    def threads(self) -> int:
        """Threads of one block."""
        return math.prod(self.block)

    @property
    def warps_per_block(self) -> int:
        return -(-self.threads // 32)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        return math.prod(self.grid)

    @property
    def shared_total(self) -> int:
        """Bytes of shared memory a block sees: declared and dynamic."""
        return self.program.shared_bytes + self.shared_bytes

    @property
    def local_total(self) -> int:
        """Bytes of local memory a thread has: declared, and its stack if the program needs one."""
        need = self.program.stack_need
        return self.program.local_bytes + (self.stack_bytes if need is None else min(need, self.stack_bytes))

    @cached_property
    def images(self) -> HostImages:
        """Textures and surfaces as executors read them; made when first asked for."""
        return host_images(self.textures, self.surfaces, self.samplers)

    def block_of(self, linear: int) -> Dim3:
        """The coordinates of a block by its linear number, x fastest."""
        x, y, _ = self.grid
        return linear % x, linear // x % y, linear // (x * y)

    def address_of(self, variable: int) -> int:
        """The address, in its own space, of one of the program's variables: an offset (param, shared, local) or absolute (global, const)."""
        found = self.program.variables[variable]
        return self.variables[found.name].base if found.space in ("global", "const") else found.offset

    def load_surfaces(self) -> None:
        """Put the arrays of ``surfaces`` where the executor sees them."""
        for handle, surface in self.surfaces.items():
            self.images.surface_bytes(handle)[:] = _bytes_of(surface)

    def store_surfaces(self) -> None:
        """Bring what was stored to surfaces back into their arrays."""
        for handle, surface in self.surfaces.items():
            stored = self.images.surface_bytes(handle).view(surface.array.dtype).reshape(surface.array.shape)
            surface.array[...] = stored


def _bytes_of(surface: Surface) -> NDArray[np.uint8]:
    return np.ascontiguousarray(surface.array).reshape(-1).view(np.uint8)


def _declared(program: Program, directive: str) -> Dim3 | None:
    for name, text in program.entry.directives:
        if name == directive:
            return extents(text)
    return None


def _check_geometry(launch: Launch) -> None:
    name = launch.program.name
    for what, given, limits in (("block", launch.block, MAX_BLOCK), ("grid", launch.grid, MAX_GRID)):
        if any(g > limit for g, limit in zip(given, limits, strict=True)):
            raise UsageError(f"{name}: the {what} {given} is larger than {limits}")
    if launch.threads > MAX_THREADS:
        raise UsageError(f"{name}: a block of {launch.threads} threads; at most {MAX_THREADS} are possible")
    limit = _declared(launch.program, ".maxntid")
    if limit is not None and launch.threads > math.prod(limit):
        raise UsageError(f"{name}: a block of {launch.threads} threads; the entry declares .maxntid {', '.join(map(str, limit))}")
    wanted = _declared(launch.program, ".reqntid")
    if wanted is not None and launch.block != wanted:
        raise UsageError(f"{name}: the block is {launch.block}; the entry declares .reqntid {', '.join(map(str, wanted))}")
    if launch.shared_bytes < 0 or launch.shared_total > MAX_SHARED:
        raise UsageError(f"{name}: {launch.shared_total} bytes of shared memory; a block may have {MAX_SHARED}")


def asks_for_workspace(program: Program) -> bool:
    """Does the program look for the grid's workspace, as the grid barriers of cooperative groups do?"""
    return any(type(o) is Special and o.name in WORKSPACE_REGISTERS for i in program.instructions for o in i.operands)


def _check_stack(launch: Launch) -> None:
    if launch.program.local_bytes > WINDOW_BYTES:
        raise UsageError(f"{launch.program.name}: {launch.program.local_bytes} bytes of local memory; a thread may have {WINDOW_BYTES}")
    if not 0 <= launch.stack_bytes <= WINDOW_BYTES - launch.program.local_bytes or launch.stack_bytes % 16:
        raise UsageError(
            f"{launch.program.name}: a stack of {launch.stack_bytes} bytes a thread",
            hint=f"it is a multiple of 16, up to {WINDOW_BYTES - launch.program.local_bytes}",
        )


def check_arguments(program: Program, args: bytes) -> None:
    """Raise ``UsageError`` when an argument block does not fit an entry."""
    needed, given = program.param_bytes, len(args)
    if given < needed:
        names = ", ".join(p.name for p in program.params if p.offset + p.size > given)
        raise UsageError(f"{program.name}: the argument block has {given} bytes, its parameters need {needed}", hint=f"missing: {names}")
    if given > align_up(needed, 8):
        raise UsageError(f"{program.name}: the argument block has {given} bytes, its parameters take only {needed}")


def block_list(launch: Launch, blocks: Iterable[int] | None) -> Sequence[int]:
    """The linear numbers of the blocks to run, checked: all of them when ``blocks`` is None."""
    if blocks is None:
        return range(launch.blocks)  # a grid may have more blocks than fit in memory
    chosen = [int(b) for b in blocks]
    for b in chosen:
        if not 0 <= b < launch.blocks:
            raise UsageError(f"the grid has blocks 0 to {launch.blocks - 1}, not {b}")
    if not chosen:
        raise UsageError("no block was chosen to run")
    return chosen
