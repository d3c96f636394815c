"""The NumPy engine: the reference executor, all warps of many blocks in lock step, stoppable at any statement.

Invariant: each step runs the smallest instruction at which any runnable lane stands, for all lanes that stand there; so code that is structured
comes together again where its paths meet. Convergent operations and barriers wait as ``isa``'s scheduling model says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import KernelFault
from ptxgraft.flow.waiting import may_wait
from ptxgraft.isa.program import Instruction
from ptxgraft.isa.types import TYPES
from ptxgraft.lower.numpy_lanes import NumpyLanes
from ptxgraft.run import faults
from ptxgraft.run.barriers import Barriers
from ptxgraft.run.device import HANDLERS, Caller, DeviceFunctions, exchange
from ptxgraft.run.launch import Launch, block_list
from ptxgraft.run.machine import Machine
from ptxgraft.run.operations import Compiler, Operation, Registers
from ptxgraft.run.result import RunResult, StoreRecord, Watch

DEFAULT_STEPS = 5_000_000
"""Statements a warp may run. Enough for any kernel that is worth interpreting; a budget of the call's own may be larger."""

BATCH_BYTES = 256 << 20
BATCH_WARPS = 2048
ATOMIC_BATCH_WARPS = 64
"""Blocks run together as long as their registers and memory stay below BATCH_BYTES, and no more than so many warps (fewer where atomics make
lanes take turns)."""

RESIDENT_BYTES = 1 << 30
"""What the blocks of a program whose threads may wait for those of other blocks take together: such blocks must all be there."""

PATIENCE, WAITING_PATIENCE = 300, 24
"""So many turns a lane that could run is left standing before lanes run in the order in which they last ran, for as many turns: lanes that wait in a
loop for others would otherwise keep them from ever running, where those stand behind the loop. The second where programs are seen to wait so."""

END = np.iinfo(np.int32).max


class State:
    """The running warps of one batch of blocks, as hooks see them."""

    def __init__(self, launch: Launch, blocks: Sequence[int], profile: str, watch: Sequence[Watch], stores: list[StoreRecord]) -> None:
        self.launch, self.program = launch, launch.program
        self.machine = Machine(launch, blocks, watch, stores)
        self.lanes = NumpyLanes(profile, self.machine)
        self._registers = Registers(launch, self.machine)
        self.compiler = Compiler(launch, self.machine, self.lanes, self._registers)
        shape = (self.machine.warps, 32)
        self.live = self.machine.initial.copy()
        self.pc: NDArray[np.int32] = np.zeros(shape, dtype=np.int32)
        self.blocked = np.zeros(shape, dtype=bool)
        self.barriers = Barriers(self)
        self.steps = np.zeros(self.machine.warps, dtype=np.int64)

    @property
    def blocks(self) -> list[tuple[int, int, int]]:
        """The coordinates of the blocks in this batch; warp w belongs to ``blocks[w // launch.warps_per_block]``."""
        return self.machine.blocks

    @property
    def executing(self) -> NDArray[np.bool_]:
        """bool[warps, 32]: the lanes that run the current statement."""
        whole = np.zeros((self.machine.warps, 32), dtype=bool)
        whole[slice(None) if self.machine.rows is None else self.machine.rows] = self.machine.active
        return whole

    def register(self, id: int) -> NDArray[Any]:
        """A register of the program by its number, in all warps of the batch: [warps, 32], unsigned of its width (a predicate: bool)."""
        return np.broadcast_to(self._registers.values[id], (self.machine.warps, 32))

    def where(self, warp: int, lane: int = -1) -> str:
        """Where a warp (by its row) or a lane of it stands, in words; of lanes at several places the lowest."""
        live = self.live[warp]
        if lane < 0 and live.any():
            lane = int(np.argmin(np.where(live, self.pc[warp], END)))
        if lane < 0 or not live[lane]:
            return "exited"
        index = int(self.pc[warp, lane])
        return f"at line {self.program.line(index)} {faults.statement(self.program, index)}"

    # -- choosing who runs --------------------------------------------------------------------------------------------
    def choose(self, lanes: NDArray[np.bool_]) -> None:
        """Make ``lanes`` (bool[warps, 32], at least one set) the active ones."""
        machine = self.machine
        rows = np.flatnonzero(lanes.any(axis=1))
        if rows.size == machine.warps:
            machine.rows, machine.active = None, lanes
            machine.full = bool((lanes >= self.live).all())
        else:
            machine.rows, machine.active, machine.full = rows, lanes[rows], False

    def spread(self, value: NDArray[Any]) -> NDArray[Any]:
        """A value of the executing warps over all warps; zero elsewhere."""
        machine = self.machine
        if machine.rows is None:
            return np.broadcast_to(value, (machine.warps, 32))
        whole = np.zeros((machine.warps, 32), dtype=value.dtype)
        whole[machine.rows] = value
        return whole


Hook = Callable[[State, int], object]
"""Called with the state and an instruction's number; a true result stops the run."""


class _Stopped(Exception):
    """A hook asked to stop."""


def run(
    launch: Launch,
    profile: str,
    step_budget: int | None = None,
    watch: Sequence[Watch] | None = None,
    threads: int | None = None,
    blocks: Sequence[int] | None = None,
    before: Hook | None = None,
    after: Hook | None = None,
) -> RunResult:
    """Run a launch (or the blocks of it with these linear numbers); memory and surfaces change in place.

    ``before`` and ``after`` are called around every statement that lanes reach. ``threads`` is taken for the sake of the other engine: this one has one.
    Raises ``KernelFault`` as soon as any lane does what it may not, ``UnsupportedError`` when an instruction without a meaning is reached.
    """
    start = time.perf_counter()
    stores: list[StoreRecord] = []
    chosen = block_list(launch, blocks)
    size = _batch(launch)
    total = 0
    functions = DeviceFunctions(launch)
    try:
        for at in range(0, len(chosen), size):
            state = State(launch, chosen[at : at + size], profile, watch or (), stores)
            total += _Batch(state, functions, step_budget or DEFAULT_STEPS, before, after).run()
    except _Stopped:
        pass
    except KernelFault as fault:
        fault.output = functions.output()
        raise
    return RunResult("numpy", profile, total, time.perf_counter() - start, stores, functions.output())


def _batch(launch: Launch) -> int:
    """How many blocks to run together."""
    program = launch.program
    warp_bytes = sum(r.type.width for r in program.registers) * 4 + 32 * launch.local_total
    block_bytes = warp_bytes * launch.warps_per_block + launch.shared_total
    if may_wait(program):
        return max(1, RESIDENT_BYTES // max(block_bytes, 1))
    atomics = any(i.form is not None and i.form.family == "atomic" for i in program.instructions)
    most = ATOMIC_BATCH_WARPS if atomics else BATCH_WARPS
    return max(1, min(most // launch.warps_per_block, BATCH_BYTES // max(block_bytes, 1)))


class _Batch:
    """Runs some blocks to their end."""

    def __init__(self, state: State, functions: DeviceFunctions, budget: int, before: Hook | None, after: Hook | None) -> None:
        self.state, self.functions = state, functions
        self.program, self.budget, self.before, self.after = state.program, budget, before, after
        self.operations: list[Operation | None] = [None] * len(self.program.instructions)

    def run(self) -> int:
        """Run until no lane is left; returns the statements run, by warps."""
        state = self.state
        ran = np.zeros(state.pc.shape, dtype=np.int64)  # each lane's last turn
        turn = fair_until = 0
        patience = WAITING_PATIENCE if may_wait(self.program) else PATIENCE
        while True:
            runnable = state.live & ~state.blocked & ~state.barriers.waiting
            places = np.where(runnable, state.pc, END)
            first = int(places.min())
            if first == END:
                if not state.live.any():
                    return int(state.steps.sum())
                if state.barriers.release():
                    continue
                self.stuck()
            turn += 1
            if turn % patience == 0 and turn - int(ran[runnable].min()) > patience:
                fair_until = turn + patience
            if turn < fair_until:
                first = int(places.reshape(-1)[np.where(runnable, ran, turn).argmin()])
            group = places == first
            ran[group] = turn
            limit = END if group.all() else int(places[places > first].min(initial=END))
            self.straight(first, group, limit)

    def straight(self, index: int, group: NDArray[np.bool_], limit: int) -> None:
        """Run ``group`` from ``index`` until its lanes part, or stand where others do (``limit``)."""
        state, machine = self.state, self.state.machine
        state.choose(group)
        rows, active, full = machine.rows, machine.active, machine.full
        begun = index
        warps = slice(None) if rows is None else rows
        while index < limit:
            instruction = self.program.instructions[index]
            form = instruction.form
            machine.rows, machine.active, machine.full = rows, active, full
            if instruction.guard is not None:
                self.guard(instruction)
            machine.index = index
            machine.clock += 1
            special = form is not None and (form.control or form.convergent)
            if special or self.before is not None or self.after is not None:
                state.steps[warps] += index + 1 - begun
                begun = index + 1
                self.check_budget(index)
            if self.before is not None and self.before(state, index):
                raise _Stopped
            together = True
            if form is not None and form.control:
                together = self.control(instruction, group)
            elif form is not None and form.convergent:
                together = self.convergent(instruction, group)
            elif machine.active.any():
                self.operation(index)()
            if self.after is not None and self.after(state, index):
                raise _Stopped
            if not together:
                return
            index += 1
        state.steps[warps] += index - begun
        state.pc[group] = index

    def operation(self, index: int) -> Operation:
        """The closure of an instruction, made when first reached."""
        found = self.operations[index]
        if found is None:
            found = self.operations[index] = self.state.compiler.operation(self.program.instructions[index])
        return found

    def guard(self, instruction: Instruction) -> None:
        """Leave only the lanes active whose guard holds."""
        machine = self.state.machine
        assert instruction.guard is not None
        holds = self.state.compiler.scalar(instruction.guard, None)()
        active = machine.active & holds
        if machine.full and not active.all():
            # Lanes that are no longer live may be written to: only live ones must all be there.
            machine.full = bool((active >= self.state.live).all())
        machine.active = active

    def check_budget(self, index: int) -> None:
        """Raise when a warp has run too long."""
        state = self.state
        if int(state.steps.max()) > self.budget:
            warp = int(np.argmax(state.steps))
            lane = int(np.argmax(state.spread(state.machine.active)[warp]))
            raise faults.never_ends(state.machine.site_of(warp, lane, index), self.budget)

    # -- control ------------------------------------------------------------------------------------------------------
    def control(self, instruction: Instruction, group: NDArray[np.bool_]) -> bool:
        """Run a control instruction for ``group``, of which the active lanes take it. True: all of the group go on behind it."""
        assert instruction.form is not None
        state, kind = self.state, instruction.form.control
        taken = state.spread(state.machine.active)
        if not taken.any():
            return True
        state.pc[group] = instruction.index + 1
        if kind == "branch":
            state.pc[taken] = instruction.targets[0]
        elif kind == "indirect-branch":
            state.pc[taken] = self.chosen(instruction, taken)
        elif kind in ("exit", "return"):
            state.live &= ~taken
            state.pc[taken] = END
            # Who waited for a lane that is gone may go on.
            state.blocked[taken.any(axis=1)] = False
        elif kind == "barrier":
            state.pc[taken] = instruction.index
            return state.barriers.arrive(instruction, taken)
        elif kind == "trap":
            row, lane = np.argwhere(state.machine.active)[0]
            raise faults.trapped(state.machine.site(int(row), int(lane)))
        elif kind == "call" and instruction.callee in HANDLERS:
            self.call(instruction)
            return True
        elif kind == "call":
            raise faults.extern_call(self.program, instruction.index)
        else:
            raise faults.unknown_instruction(self.program, instruction.index)
        return False

    def call(self, instruction: Instruction) -> None:
        """Answer the call of a device function, lane after lane."""
        state, machine = self.state, self.state.machine
        places = np.broadcast_to(state.compiler.address(exchange(instruction))(), machine.active.shape)
        for row, lane in np.argwhere(machine.active):
            warp = int(machine.all_rows[row] if machine.rows is None else machine.rows[row])
            site = machine.site_of(warp, int(lane), instruction.index)
            number, passed = machine.numbers[warp // machine.per_block], int(state.barriers.passed[warp])
            caller = Caller(site, number, passed, machine.local_of(warp, int(lane)), machine.shared_of(warp))
            self.functions.call(instruction.callee, caller, int(places[row, lane]))

    def chosen(self, instruction: Instruction, taken: NDArray[np.bool_]) -> NDArray[np.int32]:
        """Where each lane of ``taken`` goes at an indirect branch: the target that its index selects."""
        state = self.state
        operand = instruction.operands[0]
        assert operand is not None
        index = state.spread(state.compiler.scalar(operand, TYPES["u32"])())
        wrong = taken & (index >= len(instruction.targets))
        if wrong.any():
            warp, lane = (int(v) for v in np.argwhere(wrong)[0])
            site = state.machine.site_of(warp, lane, instruction.index)
            if instruction.statement.opcode.startswith("call"):
                raise faults.no_function(site, int(state.register(instruction.reads[-1])[warp, lane]))
            raise faults.no_branch_target(site, int(index[warp, lane]), len(instruction.targets))
        return np.array(instruction.targets, dtype=np.int32)[index[taken]]

    def convergent(self, instruction: Instruction, group: NDArray[np.bool_]) -> bool:
        """Run an operation that needs its warp together, for the lanes that are complete. True: the group was complete and goes on behind it."""
        state, machine = self.state, self.state.machine
        assert instruction.form is not None
        live = state.live if machine.rows is None else state.live[machine.rows]
        waits = ".sync" in instruction.form.entry.spelling
        if not waits or bool((machine.active | ~live).all()):
            if machine.active.any():
                self.operation(instruction.index)()
            return True
        taken = state.spread(machine.active)
        state.pc[group] = instruction.index + 1
        state.pc[taken] = instruction.index
        arrived = taken | (state.live & state.blocked & (state.pc == instruction.index))
        if not arrived.any():
            return False
        state.choose(arrived)
        missing = self.missing(instruction, arrived)
        ready = arrived & (missing == 0)
        state.blocked |= arrived
        if ready.any():
            state.blocked &= ~ready
            state.choose(ready)
            self.operation(instruction.index)()
            state.pc[ready] = instruction.index + 1
        return False

    def missing(self, instruction: Instruction, arrived: NDArray[np.bool_]) -> NDArray[np.uint32]:
        """For each arrived lane of the chosen ones, the live members that have not arrived, as a mask."""
        state, form = self.state, instruction.form
        assert form is not None
        members = np.full((1, 1), 0xFFFFFFFF, dtype=np.uint32)
        for role, operand in zip(form.roles, instruction.operands, strict=True):
            if role.name == "membermask" and operand is not None:
                members = state.spread(state.compiler.scalar(operand, TYPES["b32"])())
        return members & _bits(state.live & ~arrived)

    def stuck(self) -> None:
        """Nobody can move: say why."""
        state, per_block = self.state, self.state.machine.per_block
        waiting = state.blocked | state.barriers.waiting
        block = int(np.argwhere(waiting)[0][0]) // per_block
        part = np.zeros_like(state.blocked)
        part[block * per_block : (block + 1) * per_block] = True
        if not (state.blocked & part).any():
            raise state.barriers.not_met()
        warp, lane = (int(v) for v in np.argwhere(state.blocked & part)[0])
        index = int(state.pc[warp, lane])
        arrived = state.blocked & (state.pc == index)
        state.choose(arrived)
        missing = int(self.missing(self.program.instructions[index], arrived)[warp, lane])
        others = [(i, state.where(warp, i)) for i in range(32) if missing >> i & 1]
        raise faults.no_convergence(state.machine.site_of(warp, -1, index), [int(i) for i in np.flatnonzero(arrived[warp])], others)


def _bits(lanes: NDArray[np.bool_]) -> NDArray[np.uint32]:
    """bool[warps, 32] as masks, uint32[warps, 1]."""
    return (lanes.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=1, dtype=np.uint32, keepdims=True)
