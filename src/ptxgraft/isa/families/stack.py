"""Memory on a thread's stack (PTX ISA manual, "Stack Manipulation Instructions").

Invariant: roles alone; an address is one of local memory.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import declare_only, instruction


@instruction("alloca.{type:u32|u64}", d="out {type}", size="in {type}", align="text ?", since=(7, 3), sm=52)
@declare_only
def alloca(lanes: Lanes) -> None:
    """d = the local address of ``size`` new bytes, aligned to ``align`` (8 when left out)."""


@instruction("stacksave.{type:u32|u64}", d="out {type}", since=(7, 3), sm=52)
@declare_only
def stacksave(lanes: Lanes) -> None:
    """d = the stack pointer."""


@instruction("stackrestore.{type:u32|u64}", a="in {type}", since=(7, 3), sm=52)
@declare_only
def stackrestore(lanes: Lanes) -> None:
    """The stack pointer = a: what was allocated since it was saved is gone."""
