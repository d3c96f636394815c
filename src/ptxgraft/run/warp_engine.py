"""The warp executor: runs launches through compiled code, blocks on several threads.

Invariant: results, faults and their texts are those of ``run.interpreter``; a kernel can neither crash the process nor touch memory outside its launch.
Blocks are taken in order; after a fault the lowest block that met one is reported. A program with atomics on global memory runs its blocks one after
another, so that the order in which they meet is always the same; one whose threads may wait for others runs them in turns (``warp_turns``).
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxgraft.collector import collector_paused
from ptxgraft.errors import KernelFault, UnsupportedError, UsageError
from ptxgraft.flow.cfg import Cfg, build_cfg
from ptxgraft.flow.liveness import build_liveness
from ptxgraft.flow.uniform import uniform_registers
from ptxgraft.flow.waiting import may_wait
from ptxgraft.isa import Program, Reg, Var
from ptxgraft.lower import jit
from ptxgraft.lower.warp_access import LOG_BYTES
from ptxgraft.lower.warp_compile import ENTRY, FUNCTIONS, TURN
from ptxgraft.lower.warp_graph import eligible, passes_for
from ptxgraft.lower.warp_machine import SPECIAL_ORDER
from ptxgraft.lower.warp_native import native_text
from ptxgraft.lower.warp_plan import WarpPlan
from ptxgraft.lower.warp_program import Code, assemble, native_code
from ptxgraft.lower.warp_state import IMAGE_FIELDS, IMAGE_KINDS, LAUNCH, RECORD_BYTES, RUNTIME, WARP, WORKER, Fault, Status, fields_of
from ptxgraft.run import special
from ptxgraft.run.cache import Cache
from ptxgraft.run.device import Caller, DeviceFunctions, exchange
from ptxgraft.run.faults import Site
from ptxgraft.run.launch import Launch, block_list
from ptxgraft.run.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, Allocation, padded
from ptxgraft.run.result import RunResult, StoreRecord, Watch
from ptxgraft.run.warp_faults import fault_of
from ptxgraft.run.warp_threads import run_all
from ptxgraft.run.warp_turns import QUANTUM, run_turns, waiting_budget

DEFAULT_STEPS = 1 << 28
"""Statements a warp may run: seconds of one core. A budget of the call's own may be larger."""

_LOG_ENTRIES = 1 << 18
"""Stores that a block may make to watched ranges: half of it, and as many as fit in the rest, before the log is emptied between two blocks."""

_SERVICE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint32)

_PREPARED_LIMIT = 16

_NOTHING = np.zeros(RECORD_BYTES // 8, dtype=np.uint64)
"""What empty tables point to: a record of no bytes."""

_prepared: dict[tuple[int, str], tuple[Program, Code]] = {}
_prepared_lock = threading.Lock()
_caches: dict[tuple[str | None, ...], Cache] = {}
"""By what says where a cache lies."""


def run(
    launch: Launch,
    profile: str,
    step_budget: int | None = None,
    watch: Sequence[Watch] | None = None,
    threads: int | None = None,
    blocks: Sequence[int] | None = None,
) -> RunResult:
    """Run a launch (or the blocks of it with these linear numbers); memory and surfaces change in place.

    ``threads``: host threads, by default one a core. Raises ``KernelFault`` and ``UnsupportedError`` as the interpreter does.
    """
    started = time.perf_counter()
    chosen = block_list(launch, blocks)
    code = prepare(launch.program, profile)
    functions = DeviceFunctions(launch)
    budget = step_budget or (waiting_budget(len(chosen) * launch.warps_per_block, DEFAULT_STEPS) if code.waits else DEFAULT_STEPS)
    job = _Job(launch, code, chosen, budget, tuple(watch or ()), functions)
    if threads is not None and threads < 1:
        raise UsageError(f"{threads} threads cannot run anything")
    if code.waits:
        log = _log(job)
        workers = run_turns(chosen, lambda: _Worker(job, log), job.block_bytes)
    else:
        count = 1 if code.ordered or watch else min(threads or os.cpu_count() or 1, len(chosen))
        workers = [_Worker(job, _log(job)) for _ in range(count)]
        run_all(workers)
    bad = [w for w in workers if w.fault_kind]
    if bad:
        first = min(bad, key=lambda w: w.fault_block)
        error = fault_of(launch, code, first, job.budget)
        if isinstance(error, KernelFault):
            error.output = functions.output(first.fault_block)
        raise error
    for worker in workers:
        if worker.error is not None:
            raise worker.error
    statements, stores = sum(w.statements for w in workers), [s for w in workers for s in w.stores]
    return RunResult("warp", profile, statements, time.perf_counter() - started, stores, functions.output())


def prepare(program: Program, profile: str) -> Code:
    """The program's code, its functions compiled and loaded: from this process, from the cache on disk, or made now."""
    key = (id(program), profile)
    with _prepared_lock:
        found = _prepared.get(key)
    if found is None:
        found = (program, _prepare(program, profile))
        with _prepared_lock:
            while len(_prepared) >= _PREPARED_LIMIT:
                _prepared.pop(next(iter(_prepared)))
            _prepared[key] = found
    return found[1]


@collector_paused()  # what is made here stays; the collector would look at it again and again
def _prepare(program: Program, profile: str) -> Code:
    flow = build_cfg(program)
    live = build_liveness(program, flow)
    plan = WarpPlan([(b.start, b.stop) for b in flow.blocks], live.live_in, live.live_out)
    cache = _cache()
    addresses = FUNCTIONS.runtime(cache)
    code = None
    waits = may_wait(program)
    if eligible(program) and not waits:
        plan.uniform = uniform_registers(program, flow)
        plan.joins = _joins(program, flow, plan.uniform)
        code, addresses = _native(program, plan, profile, cache)
    if code is None:
        code = assemble(program, plan, profile)
        addresses, refused = FUNCTIONS.operations(code.operations, cache)
        if refused:
            code = assemble(program, plan, profile, refused)
    code.waits = waits
    stream = np.frombuffer(code.stream, dtype=np.uint64)
    places = np.array([at for at, _ in code.calls], dtype=np.int64) // 8
    stream[places] = [addresses[name] for _, name in code.calls]
    return code


def _native(program: Program, plan: WarpPlan, profile: str, cache: Cache) -> tuple[Code | None, Mapping[str, int]]:
    """The program as one function; None when something in it cannot be compiled (which matters only where it is reached)."""
    document = hashlib.sha256(program.document.data).hexdigest()
    key = f"program {document} {program.name} {profile} {plan.digest()}"
    code = native_code(program, plan, key)
    try:
        address = FUNCTIONS.native(
            key, lambda: native_text(program, plan, code.slots, profile, jit.host().names)[0], cache, passes_for(program)
        )
    except UnsupportedError:
        return None, {}
    return code, {key: address}


def _joins(program: Program, flow: Cfg, uniform: frozenset[int]) -> set[int]:
    """Where lanes that part at a branch come together."""
    joins: set[int] = set()
    for block in flow.blocks:
        join = flow.immediate_postdominator[block.index]
        if len(block.successors) > 1 and join >= 0 and not uniform.issuperset(program.instructions[block.stop - 1].reads):
            joins.add(flow.blocks[join].start)
    return joins


def _cache() -> Cache:
    place = tuple(os.environ.get(name) for name in ("PTXGRAFT_CACHE_DIR", "XDG_CACHE_HOME", "HOME"))
    found = _caches.get(place)
    if found is None:
        found = _caches[place] = Cache()
    return found


def _address(array: NDArray) -> int:
    return array.__array_interface__["data"][0]


@dataclass(eq=False)
class _Job:
    """The structures that all workers read. ``kept`` keeps the arrays behind the pointers alive."""

    launch: Launch
    code: Code
    blocks: Sequence[int]
    budget: int
    watches: tuple[Watch, ...]
    functions: DeviceFunctions
    kept: list[NDArray] = field(default_factory=list)

    def __post_init__(self) -> None:
        launch = self.launch
        for allocation in launch.memory.allocations:
            if not (allocation.data.flags.writeable and allocation.data.flags.c_contiguous):
                raise UsageError(f"{allocation} cannot be written here", hint="give the launch a copy (run.allocate makes one)")
        self.structure = padded(LAUNCH.size)
        functions = FUNCTIONS.runtime(_cache())
        self.entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(functions[TURN if self.code.waits else ENTRY])
        allocations = self.records([(a.base, a.end, _address(a.data) - a.base) for a in launch.memory.allocations if a.size])
        arena = launch.images.arena
        hosts = self.records([(launch.images.base, launch.images.base + arena.size, 0)] if arena.size else [])
        images = self.images()
        args = padded(max(len(launch.args), 1))
        args[: len(launch.args)] = np.frombuffer(launch.args, dtype=np.uint8)
        variables = [launch.address_of(v.id) if v.space in ("global", "const") else 0 for v in launch.program.variables]
        constants = special.constants(launch)
        # A copy: operations remember in it which allocation they met.
        stream = padded(len(self.code.stream))
        stream[:] = np.frombuffer(self.code.stream, dtype=np.uint8)
        specials = [constants.get(name, 0) for name in SPECIAL_ORDER]
        ranges = [self.watched(w) for w in self.watches]
        LAUNCH.write(
            self.structure,
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_total,
            local_bytes=launch.local_total,
            param_bytes=len(launch.args),
            fill=launch.fill,
            code=self.keep(stream),
            runtime=self.words([functions[name] for name in RUNTIME]),
            param=self.keep(args),
            variables=self.words(variables),
            specials=self.words(specials),
            allocations=allocations,
            allocation_count=sum(1 for a in launch.memory.allocations if a.size),
            hosts=hosts,
            host_count=int(arena.size > 0),
            images=images,
            image_count=launch.images.count,
            shared_window=SHARED_WINDOW,
            local_window=LOCAL_WINDOW,
            param_window=PARAM_WINDOW,
            window_bytes=WINDOW_BYTES,
            blocks=0 if isinstance(self.blocks, range) else self.words(self.blocks),
            block_count=len(self.blocks),
            step_budget=self.budget,
            watch=self.words([n for r in ranges for n in r]),
            watch_count=len(ranges),
            sites=self.keep(padded(4 * len(launch.program.instructions))),
            native=int(self.code.native),
            quantum=QUANTUM if self.code.waits else 0,
            constants=self.records([(a.base, a.end, 0) for a in constants_of(launch)]),
            constant_count=len(constants_of(launch)),
        )

    @property
    def block_bytes(self) -> int:
        """The memory that one block takes: registers, local and shared memory."""
        launch = self.launch
        return launch.warps_per_block * (self.code.warp_bytes + 32 * launch.local_total) + launch.shared_total

    def keep(self, array: NDArray) -> int:
        self.kept.append(array)
        return _address(array)

    def words(self, values: Sequence[int]) -> int:
        return self.keep(np.array([v & 0xFFFFFFFFFFFFFFFF for v in values], dtype=np.uint64)) if values else _address(_NOTHING)

    def records(self, rows: Sequence[tuple[int, int, int]]) -> int:
        assert RECORD_BYTES == 32
        return self.words([n for i, row in enumerate(rows) for n in (*row, i)])

    def images(self) -> int:
        words: list[int] = []
        for number, kind in enumerate(IMAGE_KINDS):
            for handle, values in self.launch.images.of_kind(kind).items():
                record = [0] * IMAGE_FIELDS
                record[0], record[1] = handle, number
                for name, place in fields_of(kind):
                    record[place] = values[name]
                words += record
        return self.words(words)

    def watched(self, watch: Watch) -> tuple[int, int]:
        """A watched range in host addresses."""
        if watch.kind == "surface":
            base = self.launch.images.surfaces[watch.address_or_handle]["base"]
        else:
            found = self.launch.memory.find(watch.address_or_handle + watch.offset)
            if found is None:
                return 0, 0
            base = _address(found.data) + watch.address_or_handle - found.base
        return base + watch.offset, base + watch.offset + watch.size

    def records_of(self, index: int, warp: int, lane: int, size: int, host: int, block: int) -> Iterator[StoreRecord]:
        """One noted store, as each watch that it touches sees it."""
        for watch in self.watches:
            first, last = self.watched(watch)
            if host < last and host + size > first:
                where, offset = self.launch.block_of(block), host - first + watch.offset
                yield StoreRecord(index, where, warp, lane, watch.kind, watch.address_or_handle, offset, size)


def constants_of(launch: Launch) -> list[Allocation]:
    """The allocations of const variables, by address."""
    names = {v.name for v in launch.program.variables if v.space == "const"}
    return [a for a in launch.memory.allocations if a.size and any(launch.variables[n] is a for n in names)]


def _log(job: _Job) -> NDArray[np.uint8]:
    """Room for the stores that are watched."""
    return np.zeros(LOG_BYTES * (_LOG_ENTRIES if job.watches else 1), dtype=np.uint8)


class _Worker:
    """One thread's block: its shared and local memory and its warps' states."""

    def __init__(self, job: _Job, log: NDArray[np.uint8]) -> None:
        launch = job.launch
        self.job = job
        self.structure = padded(WORKER.size)
        warps, size = launch.warps_per_block, job.code.warp_bytes
        self.warps = padded(warps * size)
        self.shared = padded(max(launch.shared_total, 1))
        local = launch.local_total * 32
        self.local = padded(max(local * warps, 1))
        self.log = log
        self.stores: list[StoreRecord] = []
        self.error: BaseException | None = None
        self.service = _SERVICE(self.serve)
        WORKER.write(
            self.structure,
            launch=_address(job.structure),
            warps=_address(self.warps),
            warp_count=warps,
            warp_bytes=size,
            shared=_address(self.shared),
            local=_address(self.local),
            local_total=local * warps,
            log=_address(self.log),
            log_limit=_LOG_ENTRIES if job.watches else 0,
            service=ctypes.cast(self.service, ctypes.c_void_p).value or 0,
        )
        self.begin_headers(warps, size)

    def begin_headers(self, warps: int, size: int) -> None:
        """Fill in what a warp's header says all through a launch."""
        launch, worker = self.job.launch, padded(WARP.size)
        WARP.write(worker, worker=_address(self.structure), launch=_address(self.job.structure), shared=_address(self.shared))
        headers = self.warps.reshape(warps, size)
        headers[:, : WARP.size] = worker
        threads = np.arange(warps * 32, dtype=np.uint32).reshape(warps, 32)
        x, y, _ = launch.block

        def put(name: str, values: NDArray) -> None:
            headers[:, WARP[name] : WARP[name] + values.itemsize * values.shape[1]] = values.view(np.uint8)

        for name, axis in (("tid_x", threads % x), ("tid_y", threads // x % y), ("tid_z", threads // (x * y))):
            put(name, axis)
        numbers = np.arange(warps, dtype=np.uint32).reshape(warps, 1)
        there = np.minimum(launch.threads - 32 * numbers, 32).astype(np.uint64)
        put("number", numbers)
        put("initial", ((np.uint64(1) << there) - np.uint64(1)).astype(np.uint32))
        put("local", _address(self.local) + numbers.astype(np.uint64) * (launch.local_total * 32))

    def run(self) -> None:
        """Run blocks until none is left or one met a fault."""
        self.job.entry(_address(self.structure))
        while self.log_count > _LOG_ENTRIES // 2 and self.error is None:
            self.empty_log()
            self.job.entry(_address(self.structure))
        self.empty_log()

    def begin(self, block: int) -> None:
        """Take a block, by its linear number, to run it in turns."""
        WORKER.write(self.structure, begun=0, block=self.job.launch.block_of(block), block_linear=block)

    def turn(self) -> Status:
        """One turn of its block."""
        self.job.entry(_address(self.structure))
        self.empty_log()
        return Status.FAULT if self.error is not None else Status(self.field("status"))

    @property
    def log_count(self) -> int:
        return self.field("log_count")

    def empty_log(self) -> None:
        """Turn what the log holds into records."""
        if self.log_count > _LOG_ENTRIES:
            self.error = UsageError(
                f"one block made {self.log_count} stores to watched memory", hint="watch fewer bytes, or run with engine='numpy'"
            )
            return
        for entry in self.log_entries():
            self.stores += self.job.records_of(*entry)
        WORKER.write(self.structure, log_count=0)

    def serve(self, address: int, index: int) -> int:
        """Answer the call of a device function for the active lanes of the warp whose state lies at ``address``; 1 when that failed."""
        try:
            self.answer((address - _address(self.warps)) // self.job.code.warp_bytes, index)
        except BaseException as error:  # nothing may pass through compiled code
            self.error = error
            return 1
        return 0

    def answer(self, warp: int, index: int) -> None:
        launch = self.job.launch
        instruction = launch.program.instructions[index]
        place, number = exchange(instruction), self.field("block_linear")
        block, passed, active = launch.block_of(number), self.warp_field(warp, "passed"), self.warp_field(warp, "active")
        size = launch.local_total
        for lane in range(32):
            if active >> lane & 1:
                start = (32 * warp + lane) * size
                caller = Caller(
                    Site(launch.program, index, block, warp, lane),
                    number,
                    passed,
                    self.local[start : start + size],
                    self.shared[: launch.shared_total],
                )
                base = place.base
                if isinstance(base, Reg):
                    at = self.register(warp, base.id, lane)
                else:
                    assert isinstance(base, Var)
                    at = launch.address_of(base.id) + base.offset
                self.job.functions.call(instruction.callee, caller, at + place.offset)

    def stop(self) -> None:
        """Take no further block."""
        LAUNCH.write(self.job.structure, stop=1)

    def field(self, name: str, signed: bool = False) -> int:
        return WORKER.read(self.structure, name, signed=signed)

    def warp_field(self, warp: int, name: str, lane: int = 0) -> int:
        return WARP.read(self.warps, name, warp * self.job.code.warp_bytes + 4 * lane)

    def register(self, warp: int, id: int, lane: int) -> int:
        """A register of a lane (no predicate)."""
        size = self.job.launch.program.registers[id].type.bytes
        at = warp * self.job.code.warp_bytes + self.job.code.slots[id] + size * lane
        return int.from_bytes(self.warps[at : at + size].tobytes(), "little")

    @property
    def fault_kind(self) -> Fault:
        return Fault(self.field("fault_kind"))

    @property
    def fault_block(self) -> int:
        return self.field("fault_block")

    @property
    def statements(self) -> int:
        return self.field("statements")

    def log_entries(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """(instruction, warp, lane, bytes, host address, block) of each store noted."""
        count = self.log_count
        small = self.log[: count * LOG_BYTES].view(np.uint32).reshape(-1, 8)
        wide = self.log[: count * LOG_BYTES].view(np.uint64).reshape(-1, 4)
        for i in range(count):
            index, warp, lane, size = (int(v) for v in small[i, :4])
            yield index, warp, lane, size, int(wide[i, 2]), int(wide[i, 3])
