"""From what compiled code wrote down to the fault that the user reads.

Invariant: the texts are those of ``run.faults``, for every kind of fault.
"""

from __future__ import annotations

import ctypes
from typing import Protocol

from ptxgraft.errors import PtxgraftError
from ptxgraft.isa import Reg
from ptxgraft.lower.warp_access import ATOMIC_BIT, STORE_BIT
from ptxgraft.lower.warp_program import Code
from ptxgraft.lower.warp_state import IMAGE_KINDS, Fault, Space
from ptxgraft.run import faults
from ptxgraft.run.barriers import BARRIERS
from ptxgraft.run.faults import Site
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES


class Stopped(Protocol):
    """A worker that met a fault."""

    @property
    def error(self) -> BaseException | None: ...
    @property
    def fault_kind(self) -> Fault: ...
    @property
    def fault_block(self) -> int: ...
    def field(self, name: str, signed: bool = False) -> int: ...
    def warp_field(self, warp: int, name: str, lane: int = 0) -> int: ...
    def register(self, warp: int, id: int, lane: int) -> int: ...


def fault_of(launch: Launch, code: Code, worker: Stopped, budget: int) -> BaseException:
    """The error to raise."""
    kind = worker.fault_kind
    if kind == Fault.HOST:
        assert worker.error is not None, "what answers calls keeps its error"
        return worker.error
    if kind == Fault.BARRIER:
        return _barrier(launch, code, worker)
    block = launch.block_of(worker.fault_block)
    index, warp, lane = (worker.field(f"fault_{name}") for name in ("index", "warp", "lane"))
    index = min(index, len(launch.program.instructions) - 1)
    if kind == Fault.CONVERGENCE:
        index = code.labels[worker.warp_field(warp, "pcs", lane)]
    site = Site(launch.program, index, block, warp, lane)
    address, size = worker.field("fault_address"), worker.field("fault_size")
    if kind in (Fault.BOUNDS, Fault.ALIGNMENT):
        return _access(launch, site, kind, address, size, worker.field("fault_space"))
    if kind == Fault.REASON:
        value = worker.field("fault_space") << 32 | size if worker.field("fault_reason") else None
        return faults.reasoned(site, ctypes.string_at(address).decode(), value)
    if kind == Fault.STEPS:
        return faults.never_ends(site, budget)
    if kind == Fault.HANDLE:
        what = IMAGE_KINDS[worker.field("fault_reason")]
        return faults.unknown_handle(site, what, address, launch.images.of_kind(what), launch.variables)
    if kind == Fault.TRAP:
        return faults.trapped(site)
    if kind == Fault.CONVERGENCE:
        return _convergence(launch, code, worker, site)
    if kind == Fault.INDEX and not worker.field("fault_reason"):
        branch = launch.program.instructions[index]
        if branch.statement.opcode.startswith("call"):
            return faults.no_function(site, worker.register(warp, branch.reads[-1], lane))
        return faults.no_branch_target(site, address, len(launch.program.instructions[index].targets))
    if kind == Fault.INDEX:
        return site.fault(_OUT_OF_RANGE[worker.field("fault_reason")].format(address))
    assert kind == Fault.UNKNOWN, kind
    instruction = launch.program.instructions[index]
    if instruction.form is not None and instruction.form.control == "call":
        return faults.extern_call(launch.program, index)
    if index in code.errors:
        error = code.errors[index]
        error.place = error.place or launch.program.place(index)
        return error
    return faults.unknown_instruction(launch.program, index)


def _access(launch: Launch, site: Site, kind: Fault, address: int, size: int, access: int) -> PtxgraftError:
    space = Space(access >> 16 & 15).name.lower()
    write = bool(access & STORE_BIT)
    if space == "generic":
        space = "global"
        for name, base in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
            if 0 <= address - base < WINDOW_BYTES:
                space, address = name, address - base
    if access & ATOMIC_BIT:  # it reads first, which the argument block allows
        write = space == "param" and kind != Fault.ALIGNMENT and address + size <= len(launch.args)
    if kind == Fault.ALIGNMENT:
        return faults.misaligned(site, space, write, address, size)
    if space == "param" and write:
        return site.fault("writes to the argument block, which is read-only")
    limits = {"shared": launch.shared_total, "local": launch.local_total, "param": len(launch.args)}
    if space == "host":
        images = launch.images
        return faults.out_of_bounds(site, launch.memory, space, write, address - images.base, size, images.arena.size)
    return (
        faults.out_of_bounds(site, launch.memory, "global", write, address, size, -1)
        if space not in limits
        else faults.out_of_bounds(site, launch.memory, space, write, address, size, limits[space])
    )


_OUT_OF_RANGE = {
    1: f"there is no barrier {{}}, only 0 to {BARRIERS - 1}",
    2: "a barrier for {} threads, which is no multiple of 32",
}


def _place(code: Code, worker: Stopped, warp: int, lane: int) -> int:
    """The instruction at which a lane stands."""
    index = code.labels[worker.warp_field(warp, "pcs", lane)]
    # A lane at a barrier stands, in compiled code, where it will go on.
    return index - 1 if code.native and worker.warp_field(warp, "waiting") >> lane & 1 else index


def _where(launch: Launch, code: Code, worker: Stopped, warp: int, lane: int = -1) -> str:
    """Where a lane stands, in words; without one, the lowest place of the warp."""
    live = worker.warp_field(warp, "live")
    lanes = [i for i in range(32) if live >> i & 1 and lane in (-1, i)]
    if not lanes:
        return "exited"
    index = min(_place(code, worker, warp, i) for i in lanes)
    return f"at line {launch.program.line(index)} {faults.statement(launch.program, index)}"


def _convergence(launch: Launch, code: Code, worker: Stopped, site: Site) -> PtxgraftError:
    warp, program = site.warp, site.program
    blocked, live = worker.warp_field(warp, "blocked"), worker.warp_field(warp, "live")
    here = worker.warp_field(warp, "pcs", site.lane)
    arrived = [i for i in range(32) if blocked >> i & 1 and worker.warp_field(warp, "pcs", i) == here]
    members = 0xFFFFFFFF
    instruction = program.instructions[site.index]
    assert instruction.form is not None
    for role, operand in zip(instruction.form.roles, instruction.operands, strict=True):
        if role.name == "membermask":
            members = worker.register(warp, operand.id, site.lane) if isinstance(operand, Reg) else int(getattr(operand, "value", members))
    missing = [(i, _where(launch, code, worker, warp, i)) for i in range(32) if members & live & 1 << i and i not in arrived]
    return faults.no_convergence(Site(program, site.index, site.block, warp), arrived, missing)


def _barrier(launch: Launch, code: Code, worker: Stopped) -> PtxgraftError:
    block = launch.block_of(worker.fault_block)
    warps = range(launch.warps_per_block)
    first = next(w for w in warps if worker.warp_field(w, "waiting"))
    lane = next(i for i in range(32) if worker.warp_field(first, "waiting") >> i & 1)
    index = _place(code, worker, first, lane)
    number, count = worker.warp_field(first, "barriers", lane), worker.warp_field(first, "barrier_count")

    def came(warp: int) -> bool:
        waiting, live = worker.warp_field(warp, "waiting"), worker.warp_field(warp, "live")
        return live != 0 and all(waiting >> i & 1 and worker.warp_field(warp, "barriers", i) == number for i in range(32) if live >> i & 1)

    here = [w for w in warps if came(w)]
    others = [(w, _where(launch, code, worker, w)) for w in warps if w not in here]
    wanted = count // 32 if count else launch.warps_per_block
    return faults.barrier_not_met(Site(launch.program, index, block, first, lane), number, here, others, wanted)
