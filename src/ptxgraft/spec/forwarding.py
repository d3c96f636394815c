"""What a load of local memory gives, where one store before it says so: arguments and results of calls, and arrays that a compiler left in memory.

Invariant: an answer is certain. Wherever another store might come between, on any path, there is none.
"""

from __future__ import annotations

from collections.abc import Iterator

from ptxgraft.flow import Flow, Linear
from ptxgraft.isa import Imm, Instruction, Operand, Reg, Type, Vector

FARTHEST = 4096
"""Instructions to look back over: further away nothing of interest has been seen, and each look costs its length."""


def stored_value(flow: Flow, load: int, address: Linear, size: int) -> tuple[int, Operand, Type] | None:
    """(the store, its operand, that operand's type) whose ``size`` bytes instruction ``load`` reads at ``address`` of local memory; None where that is not
    certain."""
    wanted = _place(flow, address)
    if wanted is None:
        return None
    variable, offset = wanted
    for instruction in _before(flow, load):
        form = instruction.form
        if form is None or form.stores == "generic" or form.control == "call":
            return None  # it may write anywhere
        if form.stores != "local":
            continue
        target = flow.symbols.address(instruction.index)
        place = _place(flow, target) if target is not None else None
        if place is None:
            return None
        if place[0] != variable:
            continue
        role, operand = next((r, o) for r, o in zip(form.roles, instruction.operands, strict=True) if r.kind == "in" and r.type is not None)
        assert role.type is not None
        items = operand.items if isinstance(operand, Vector) else (operand,)
        bytes_ = role.type.bytes
        if offset + size <= place[1] or offset >= place[1] + bytes_ * len(items):
            continue
        number, rest = divmod(offset - place[1], bytes_)
        whole = rest == 0 and bytes_ == size and instruction.guard is None
        item = items[number] if whole and 0 <= number < len(items) else None
        return (instruction.index, item, role.type) if isinstance(item, (Reg, Imm)) else None
    return None


def _place(flow: Flow, address: Linear) -> tuple[int, int] | None:
    """(variable, byte offset in it) of an address that is known to lie in one local variable, the same for every thread."""
    if len(address.terms) != 1:
        return None
    atom, coefficient = address.terms[0]
    if atom.key[0] != "variable" or coefficient != 1:
        return None
    variable = flow.program.variables[atom.key[1]]
    inside = variable.space == "local" and 0 <= address.constant < variable.size
    return (variable.id, address.constant) if inside else None


def _before(flow: Flow, index: int) -> Iterator[Instruction]:
    """The instructions that ran last before ``index`` on every path, nearest first: up through blocks with one predecessor."""
    instructions, block, left = flow.program.instructions, flow.cfg.block_of(index), FARTHEST
    at = index
    while True:
        while at > block.start:
            at -= 1
            left -= 1
            if left < 0:
                return
            yield instructions[at]
        if len(block.predecessors) != 1 or block.index == 0:
            return
        block = flow.cfg.blocks[block.predecessors[0]]
        at = block.stop
        if block.start <= index < block.stop:
            return  # round a loop to the load itself
