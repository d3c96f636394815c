"""From what compiled code wrote down to the fault that the user reads.

Invariant: the texts are those of ``run.faults``, for every kind of fault.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

from ptxgraft.errors import PtxgraftError
from ptxgraft.lower.warp_access import STORE_BIT
from ptxgraft.lower.warp_program import Code
from ptxgraft.lower.warp_state import Fault, Space, Status
from ptxgraft.run import faults
from ptxgraft.run.faults import Site
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES


class Stopped(Protocol):
    """A worker that met a fault."""

    @property
    def fault_kind(self) -> Fault: ...
    @property
    def fault_block(self) -> int: ...
    def field(self, name: str, signed: bool = False) -> int: ...
    def warp_field(self, warp: int, name: str, lane: int = 0) -> int: ...


def fault_of(launch: Launch, code: Code, worker: Stopped, budget: int) -> PtxgraftError:
    """The error to raise."""
    kind = worker.fault_kind
    if kind == Fault.BARRIER:
        return _barrier(launch, code, worker)
    block = launch.block_of(worker.fault_block)
    index, warp, lane = (worker.field(f"fault_{name}") for name in ("index", "warp", "lane"))
    index = min(index, len(launch.program.instructions) - 1)
    site = Site(launch.program, index, block, warp, lane)
    address, size = worker.field("fault_address"), worker.field("fault_size")
    if kind in (Fault.BOUNDS, Fault.ALIGNMENT):
        return _access(launch, site, kind, address, size, worker.field("fault_space"))
    if kind == Fault.REASON:
        return site.fault(ctypes.string_at(address).decode())
    if kind == Fault.STEPS:
        return faults.never_ends(site, budget)
    if kind == Fault.HANDLE:
        what = "surface" if worker.field("fault_reason") else "texture"
        known = launch.images.surfaces if what == "surface" else launch.images.textures
        return faults.unknown_handle(site, what, address, known)
    if kind == Fault.TRAP:
        return faults.trapped(site)
    if kind == Fault.CONVERGENCE:
        return _convergence(launch, code, worker, site)
    if kind == Fault.INDEX:
        return site.fault(f"{address} is out of range")
    assert kind == Fault.UNKNOWN, kind
    instruction = launch.program.instructions[index]
    if instruction.form is not None and instruction.form.control == "call":
        return faults.extern_call(launch.program, index)
    return faults.unknown_instruction(launch.program, index)


def _access(launch: Launch, site: Site, kind: Fault, address: int, size: int, access: int) -> PtxgraftError:
    space = Space(access >> 16 & 15).name.lower()
    write = bool(access & STORE_BIT)
    if space == "generic":
        space = "global"
        for name, base in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
            if 0 <= address - base < WINDOW_BYTES:
                space, address = name, address - base
    if kind == Fault.ALIGNMENT:
        return faults.misaligned(site, space, write, address, size)
    if space == "param" and write:
        return site.fault("writes to the argument block, which is read-only")
    limits = {"shared": launch.shared_total, "local": launch.program.local_bytes, "param": len(launch.args)}
    if space == "host":
        images = launch.images
        return faults.out_of_bounds(site, launch.memory, space, write, address - images.base, size, images.arena.size)
    return (
        faults.out_of_bounds(site, launch.memory, "global", write, address, size, -1)
        if space not in limits
        else faults.out_of_bounds(site, launch.memory, space, write, address, size, limits[space])
    )


def _where(launch: Launch, code: Code, worker: Stopped, warp: int, lane: int) -> str:
    """What a lane does that others wait for."""
    if not worker.warp_field(warp, "live") >> lane & 1:
        return "exited"
    index = code.labels[worker.warp_field(warp, "pcs", lane)]
    does = "waits at" if (worker.warp_field(warp, "waiting") | worker.warp_field(warp, "blocked")) >> lane & 1 else "is at"
    return f"{does} line {launch.program.line(index)}"


def _convergence(launch: Launch, code: Code, worker: Stopped, site: Site) -> PtxgraftError:
    warp = site.warp
    blocked, live = worker.warp_field(warp, "blocked"), worker.warp_field(warp, "live")
    here = worker.warp_field(warp, "pcs", site.lane)
    waiting = [i for i in range(32) if blocked >> i & 1 and worker.warp_field(warp, "pcs", i) == here]
    missing = [(i, _where(launch, code, worker, warp, i)) for i in range(32) if live >> i & 1 and i not in waiting]
    return faults.no_convergence(Site(site.program, site.index, site.block, warp), waiting, missing)


def _barrier(launch: Launch, code: Code, worker: Stopped) -> PtxgraftError:
    block = launch.block_of(worker.fault_block)
    warps = range(launch.warps_per_block)
    waiting = [w for w in warps if worker.warp_field(w, "status") == Status.BARRIER]
    first = waiting[0] if waiting else 0
    lane = next(i for i in range(32) if worker.warp_field(first, "waiting") >> i & 1)
    index = code.labels[worker.warp_field(first, "pcs", lane)]
    number, count = worker.warp_field(first, "barrier"), worker.warp_field(first, "barrier_count")
    here = [w for w in waiting if worker.warp_field(w, "barrier") == number]
    others = [(w, _warp_where(launch, code, worker, w)) for w in warps if w not in here]
    wanted = -(-count // 32) if count else launch.warps_per_block
    return faults.barrier_not_met(Site(launch.program, index, block, first), number, here, others, wanted)


def _warp_where(launch: Launch, code: Code, worker: Stopped, warp: int) -> str:
    live = worker.warp_field(warp, "live")
    if not live:
        return "exited"
    lane = (live & -live).bit_length() - 1
    return _where(launch, code, worker, warp, lane)
