"""Where a mirror cut's results lie in shared memory: an array that is proved dead, else a fresh one within the target's limit.

Invariant: an array is called dead only when no thread of the block can touch it from the moment any thread is at the cut: every access comes
before a barrier that all paths to the cut pass, in an order of barriers that is the same for all threads, and none after it.
"""

from __future__ import annotations

from collections.abc import Collection

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.isa import Address, Imm, Instruction, Program, Var, Variable
from ptxgraft.spec import Region, block_shape
from ptxgraft.spec.provenance import shared_variable

STATIC_LIMIT = 48 * 1024
"""Bytes of static shared memory that every target allows a block (CUDA programming guide, "Technical Specifications")."""


def warps_of_block(flow: Flow, block: tuple[int, int, int] | None) -> tuple[int, str]:
    """How many warps a block can have, and how that is known. UsageError when neither the entry nor the caller says."""
    if block is not None:
        threads, how = block[0] * block[1] * block[2], "the block given"
    else:
        words = {d for d, _ in flow.program.entry.directives}
        if not words & {".reqntid", ".maxntid"}:
            raise UsageError(
                f"{flow.program.name!r} states no block size (.reqntid or .maxntid), and the mirror style sizes its shared rows by it",
                hint="give the block: --block 32,1,4, in Python block=(32, 1, 4)",
            )
        shape, how = block_shape(flow)
        if how == "assumed":
            how = "maxntid"
        threads = shape[0] * shape[1] * shape[2]
    if not 1 <= threads <= 1024:
        raise UsageError(f"a block of {threads} threads cannot be launched", hint="a block has 1 to 1024 threads")
    return (threads + 31) // 32, how


def dead_array(flow: Flow, region: Region, size: int, align: int = 4, taken: Collection[str] = ()) -> Variable | None:
    """A static shared array of at least ``size`` bytes, aligned to ``align``, that is dead from the cut on, or None when none is proved to be.
    Those that are ``taken`` already are no choice."""
    program = flow.program
    candidates = [v for v in program.variables if v.space == "shared" and not v.dynamic and v.size >= size and v.align >= align]
    if not candidates:
        return None
    accesses: dict[int, list[int]] = {v.id: [] for v in candidates}
    for instruction in program.instructions:
        form = instruction.form
        if form is None or "generic" in (form.loads, form.stores) or form.control == "call" or form.root == "cp":
            return None  # it could touch any array, now or (an asynchronous copy) later
        for operand in instruction.operands:
            if isinstance(operand, Var) and operand.id in accesses and not _takes_address(instruction):
                return None
        if "shared" in (form.loads, form.stores):
            address = flow.symbols.address(instruction.index) if any(isinstance(o, Address) for o in instruction.operands) else None
            variable = shared_variable(program, address) if address is not None else None
            if variable is None:
                return None  # an access through an address that is not understood
            if variable in accesses:
                accesses[variable].append(instruction.index)
    barrier = _last_barrier(flow, region)
    if barrier is None:
        return None
    after = reachable(flow, barrier)
    return next((v for v in candidates if v.name not in taken and accesses[v.id] and not any(i in after for i in accesses[v.id])), None)


def _takes_address(instruction: Instruction) -> bool:
    form = instruction.form
    return form is not None and form.family in ("move", "integer")


def _last_barrier(flow: Flow, region: Region) -> int | None:
    """A barrier of the whole block that every thread passes last before the region, where all threads pass the same barriers in the same order."""
    program, cfg = flow.program, flow.cfg
    top = cfg.block_of(region.first).index
    before = [
        i for i in program.instructions if i.form is not None and i.form.control == "barrier" and region.first in reachable(flow, i.index)
    ]
    if not before:
        return None
    for barrier in before:
        form = barrier.form
        assert form is not None
        whole = (
            form.slots.get("action") == "sync"
            and barrier.guard is None
            and isinstance(barrier.operands[0], Imm)
            and all(o is None for o in barrier.operands[1:])
        )
        once = barrier.index not in reachable(flow, barrier.index)
        if not (whole and once and cfg.dominates(cfg.block_of(barrier.index).index, top)):
            return None
    if len({b.operands[0] for b in before}) > 1:
        return None
    last = max(before, key=lambda b: b.index)
    # All of them dominate the region, so they lie on one line; the last of it is the one that no other is reachable from.
    return last.index if not any(b.index in reachable(flow, last.index) for b in before) else None


def reachable(flow: Flow, start: int) -> set[int]:
    """Instructions that can run after instruction ``start`` has run."""
    cfg = flow.cfg
    block = cfg.block_of(start)
    found = set(range(start + 1, block.stop))
    seen: set[int] = set()
    waiting = list(block.successors)
    while waiting:
        number = waiting.pop()
        if number not in seen:
            seen.add(number)
            found.update(range(cfg.blocks[number].start, cfg.blocks[number].stop))
            waiting.extend(cfg.blocks[number].successors)
    return found


def check_limit(program: Program, size: int, taken: int = 0, style: str = "mirror") -> None:
    """UnsupportedError when ``size`` more bytes of static shared memory are too many, beside the entry's and the ``taken`` ones of other cuts."""
    held = program.shared_bytes + taken
    if held + size > STATIC_LIMIT:
        raise UnsupportedError(
            f"the {style} style needs {size} bytes of shared memory for its results beside the {held} that "
            f"{program.name!r} has; {STATIC_LIMIT} are allowed",
            place=program.document.place(program.document.statements[program.document.scopes[program.entry.scope].first]),
            hint="cut a region with fewer live-outs, state a smaller block, or use the inline style",
        )
