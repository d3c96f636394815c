"""Memory that a thread takes from its stack (PTX ISA manual, "Stack Manipulation Instructions").

Invariant: the stack pointer is a register like any other, one a thread: the first free byte of its local memory. What ``alloca`` gives is a local
address, as frames of functions are; the stack ends where local memory does.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.operands import STACK_LIMIT, Imm
from ptxgraft.isa.table import instruction

OVERFLOW = "the stack overflows, {} calls deep"
"""What the fault says; the number is that of calls which have a frame."""

_TYPE = "{type:u32|u64}"


@instruction(
    f"alloca.{_TYPE}",
    d="out {type}",
    size="in {type}",
    align="text ?",
    sp="inout u64 implicit",
    depth="in u32 implicit",
    since=(7, 3),
    sm=52,
)
def alloca(lanes: Lanes, size: Value, align: Imm | None, sp: Value, depth: Value) -> tuple[Value, Value]:
    """d = the local address of ``size`` fresh bytes, aligned to ``align`` (8 without it)."""
    step = 8 if align is None else int(align.value)
    base = lanes.and_(lanes.add(sp, lanes.const(step - 1, 64)), lanes.const(-step, 64))
    top = lanes.add(base, lanes.resize(size, 64))
    over = lanes.or_(lanes.compare("gt", top, lanes.special(STACK_LIMIT)), lanes.compare("lt", top, base))
    lanes.fault(over, OVERFLOW, depth)
    return lanes.resize(base, lanes.width(size)), top


@instruction(
    f"stacksave.{_TYPE}",
    d="out {type}",
    sp="in u64 implicit",
    since=(7, 3),
    sm=52,
    examples=[("stacksave.u64", (0x1230,), (0x1230,)), ("stacksave.u32", (48,), (48,))],
)
def stacksave(lanes: Lanes, sp: Value, *, type: str) -> Value:
    """d = the stack pointer."""
    return lanes.resize(sp, int(type[1:]))


@instruction(
    f"stackrestore.{_TYPE}",
    a="in {type}",
    sp="out u64 implicit",
    since=(7, 3),
    sm=52,
    examples=[("stackrestore.u64", (0x1230,), (0x1230,)), ("stackrestore.u32", (48,), (48,))],
)
def stackrestore(lanes: Lanes, a: Value) -> Value:
    """The stack pointer is a again: what was taken since is free."""
    return lanes.resize(a, 64)
