"""Registers that hold one value in all lanes of a warp.

Invariant: a register called uniform is only written where all lanes of the warp that will ever read it execute together, from
uniform operands; being left out is always safe.
"""

from __future__ import annotations

from ptxgraft.flow.cfg import Cfg
from ptxgraft.isa import Instruction, Program, Special, Vector

LANE_SPECIALS = frozenset({"laneid", "lanemask_eq", "lanemask_le", "lanemask_lt", "lanemask_ge", "lanemask_gt", "tid.x", "tid.y", "tid.z"})
"""Special registers that differ between the lanes of a warp. (A warp can span several tid.y and tid.z.)"""

TIMES = frozenset({"clock", "clock_hi", "clock64", "globaltimer", "globaltimer_lo", "globaltimer_hi"})

WARP_WIDE = frozenset({"warp", "tensor", "atomic"})
"""Families whose results depend on the lane even when the operands do not."""


def uniform_registers(program: Program, cfg: Cfg) -> frozenset[int]:
    """Optimistic fixed point: everything is uniform until an instruction, or the place it stands in, says otherwise."""
    varying: set[int] = set()
    divergent: set[int] = set()
    changed = True
    while changed:
        changed = False
        for block in cfg.blocks:
            inside = block.index in divergent
            for instruction in program.instructions[block.start : block.stop]:
                if all(r in varying for r in instruction.writes):
                    continue
                if inside or _varies(instruction, varying):
                    varying.update(instruction.writes)
                    changed = True
            last = program.instructions[block.stop - 1]
            if len(block.successors) > 1 and any(r in varying for r in last.reads):
                region = divergent_region(cfg, block.index)
                if not region <= divergent:
                    divergent |= region
                    changed = True
    return frozenset(range(len(program.registers))) - varying


def divergent_region(cfg: Cfg, branch: int) -> set[int]:
    """Blocks that lanes can run apart in after a divergent branch: up to where all its paths join. Where one side never comes back (it
    leaves the program), only the smaller side runs apart."""
    join = cfg.immediate_postdominator[branch]
    sides = [_reach(cfg, s, join) for s in cfg.blocks[branch].successors]
    whole = set().union(*sides)
    if join < 0 and len(sides) == 2 and not sides[0] & sides[1]:
        return min(sides, key=len)
    return whole


def _reach(cfg: Cfg, start: int, stop: int) -> set[int]:
    seen: set[int] = set()
    waiting = [start]
    while waiting:
        number = waiting.pop()
        if number != stop and number not in seen:
            seen.add(number)
            waiting.extend(cfg.blocks[number].successors)
    return seen


def _varies(instruction: Instruction, varying: set[int]) -> bool:
    form = instruction.form
    if form is None or form.family in WARP_WIDE or any(r in varying for r in instruction.reads):
        return True
    # What takes turns at memory, or takes the warp together, gives each lane its own.
    if (form.loads and form.stores) or (form.convergent and not form.control):
        return True
    # A lane's own memory, and memory that other warps may change between two lanes' turns, is read by all lanes at once here: only
    # local memory differs by lane at one address.
    if form.loads in ("local", "generic"):
        return True
    return any(_lane_special(o) for o in instruction.operands)


def _lane_special(operand) -> bool:
    if isinstance(operand, Special):
        return operand.name in LANE_SPECIALS or operand.name in TIMES
    return isinstance(operand, Vector) and any(_lane_special(i) for i in operand.items)
