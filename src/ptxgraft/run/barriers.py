"""Barriers of the NumPy engine.

Invariant: a warp has come to a barrier when all its live lanes have; a barrier opens when as many warps have come as it wants, and then for all of
them at once. A warp that has exited without coming never comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.program import Instruction
from ptxgraft.run import faults

if TYPE_CHECKING:
    from ptxgraft.run.interpreter import State

BARRIERS = 16
"""How many barriers a block has."""


class Barriers:
    """Who waits where. ``waiting`` is bool[warps, 32]: the lanes that stand at a barrier (their program counter stays there); ``passed`` counts the
    barriers at which each warp has waited."""

    def __init__(self, state: State) -> None:
        self.state = state
        shape = (state.machine.warps, 32)
        self.waiting = np.zeros(shape, dtype=bool)
        self.number = np.zeros(shape, dtype=np.int64)
        self.wanted = np.zeros(shape, dtype=np.int64)
        self.predicate = np.zeros(shape, dtype=bool)
        self.passed = np.zeros(state.machine.warps, dtype=np.int64)
        self.arrivals: dict[tuple[int, int], NDArray[np.bool_]] = {}

    def arrive(self, instruction: Instruction, taken: NDArray[np.bool_]) -> bool:
        """The lanes ``taken`` come to a barrier. True: it opened at once for the whole batch, and they go on behind it."""
        state, form = self.state, instruction.form
        assert form is not None
        action = form.slots["action"]
        operands = dict(zip((r.name for r in form.roles), instruction.operands, strict=True))
        count, predicate = operands.get("b"), operands.get("c")
        if action == "red" and predicate is None:
            count, predicate = None, count
        number = self._values(operands["a"])
        wrong = taken & ((number < 0) | (number >= BARRIERS))
        if wrong.any():
            warp, lane = np.argwhere(wrong)[0]
            raise self._site(warp, lane, instruction).fault(f"there is no barrier {number[warp, lane]}, only 0 to {BARRIERS - 1}")
        if action == "sync" and count is None and self._everyone(number, taken):
            self.passed += 1
            return True
        wanted = np.full(number.shape, state.machine.per_block * 32) if count is None else self._values(count)
        odd = taken & ((wanted % 32 != 0) | (wanted == 0))
        if odd.any():
            warp, lane = np.argwhere(odd)[0]
            raise self._site(warp, lane, instruction).fault(f"a barrier for {wanted[warp, lane]} threads, which is no multiple of 32")
        self.number[taken], self.wanted[taken] = number[taken], wanted[taken]
        blocks = np.flatnonzero(taken.any(axis=1).reshape(-1, state.machine.per_block).any(axis=1))
        if action == "arrive":
            self._note(blocks, number, taken)
            state.pc[taken] = instruction.index + 1
        else:
            self.waiting |= taken
        if predicate is not None:
            self.predicate[taken] = self._values(predicate)[taken] != 0
        for block in blocks:
            self._release_block(int(block))
        return False

    def _everyone(self, number: NDArray[np.int64], taken: NDArray[np.bool_]) -> bool:
        """Are all live lanes of all blocks here, at one barrier, and no warp missing?"""
        state = self.state
        if not state.machine.full or self.arrivals:
            return False
        alive = state.live.any(axis=1).reshape(-1, state.machine.per_block)
        used = number[taken]
        return bool((alive.all(axis=1) | ~alive.any(axis=1)).all()) and int(used.min()) == int(used.max())

    def _values(self, operand: Any) -> NDArray[np.int64]:
        """An operand of every lane, as a number of 32 bits without a sign."""
        read = self.state.compiler.scalar(operand, None)
        return self.state.spread(read()).astype(np.int64) & 0xFFFFFFFF

    def _site(self, warp: int, lane: int, instruction: Instruction) -> faults.Site:
        return self.state.machine.site_of(int(warp), int(lane), instruction.index)

    def _note(self, blocks: NDArray[np.intp], number: NDArray[np.int64], taken: NDArray[np.bool_]) -> None:
        """Count lanes that come and do not wait."""
        for block in blocks:
            part = self._slice(int(block))
            for n in np.unique(number[part][taken[part]]):
                key = (int(block), int(n))
                here = taken[part] & (number[part] == n)
                self.arrivals[key] = self.arrivals.get(key, False) | here

    def _slice(self, block: int) -> slice:
        return slice(block * self.state.machine.per_block, (block + 1) * self.state.machine.per_block)

    # -- opening ------------------------------------------------------------------------------------------------------
    def release(self) -> bool:
        """Open the barriers of one block that can be; False when there is none."""
        blocks = np.flatnonzero(self.waiting.any(axis=1).reshape(-1, self.state.machine.per_block).any(axis=1))
        return any(self._release_block(int(block)) for block in blocks)

    def _came(self, block: int, number: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_], int]:
        """(lanes waiting, warps that have come, warps wanted) of one barrier of a block."""
        part = self._slice(block)
        here = self.waiting[part] & (self.number[part] == number)
        both = here | self.arrivals.get((block, number), False)
        came = both.any(axis=1) & (both | ~self.state.live[part]).all(axis=1)
        return here, came, int(self.wanted[part][here].max()) // 32

    def _release_block(self, block: int) -> bool:
        part = self._slice(block)
        opened = False
        for number in np.unique(self.number[part][self.waiting[part]]):
            here, came, wanted = self._came(block, int(number))
            if came.sum() < wanted:
                continue
            opened = True
            self.arrivals.pop((block, int(number)), None)
            lanes = np.zeros_like(self.waiting)
            lanes[part] = here & came[:, None]
            self.waiting &= ~lanes
            self.passed += lanes.any(axis=1)
            for index in np.unique(self.state.pc[lanes]):
                self._open(int(index), lanes, lanes & (self.state.pc == index))
        return opened

    def _open(self, index: int, lanes: NDArray[np.bool_], here: NDArray[np.bool_]) -> None:
        """Let ``here``, the lanes of ``lanes`` that stand at one instruction, go on; write what a reduction gives."""
        state = self.state
        instruction = state.program.instructions[index]
        form = instruction.form
        assert form is not None
        if form.slots["action"] == "red":
            votes = self.predicate[lanes]
            op = form.slots["op"]
            value = np.array([[int(votes.sum())]], np.uint32) if op == "popc" else np.array([[votes.all() if op == "and" else votes.any()]])
            state.choose(here)
            (_, write), *_ = state.compiler.outputs(instruction)
            write(value)
        state.pc[here] = index + 1

    # -- when it cannot open ------------------------------------------------------------------------------------------
    def not_met(self) -> Exception:
        """The fault that says who waits for whom, for the first block that waits."""
        state, per_block = self.state, self.state.machine.per_block
        warp, lane = (int(v) for v in np.argwhere(self.waiting)[0])
        block = warp // per_block
        number = int(self.number[warp, lane])
        _, came, wanted = self._came(block, number)
        others = [(w, state.where(block * per_block + w)) for w in range(per_block) if not came[w]]
        site = state.machine.site_of(warp, lane, int(state.pc[warp, lane]))
        return faults.barrier_not_met(site, number, [int(w) for w in np.flatnonzero(came)], others, wanted)
