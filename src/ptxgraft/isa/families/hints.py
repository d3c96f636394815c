"""What only concerns caches: policies, discarded lines, fetched tensor maps (PTX ISA manual, "createpolicy", "discard", "prefetch").

Invariant: a cache policy is 64 bits whose layout the manual leaves open, so that nothing here makes one up.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction

PRIORITIES = (
    "{primary:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged}.{secondary:L2::evict_first|L2::evict_unchanged}?"
)


@instruction(
    f"createpolicy.range.{{space:global}}?.{PRIORITIES}.b64", d="out b64", a="addr", size="in u32", total="in u32", since=(7, 4), sm=80
)
@declare_only
def createpolicy_range(lanes: Lanes) -> None:
    """A cache policy: one priority for ``size`` bytes from [a], another for the rest of ``total``."""


@instruction("createpolicy.cvt.L2.b64", d="out b64", a="in b64", since=(7, 4), sm=80)
@declare_only
def createpolicy_cvt(lanes: Lanes) -> None:
    """A cache policy of an access property."""


@instruction("discard.{space:global}?.L2", a="addr", size="text", since=(7, 4), sm=80)
def discard(lanes: Lanes, a: Value, size: Value) -> None:
    """Nothing: 128 bytes may lose their value, and do not."""


@instruction("prefetch.{space:const|param}?.tensormap", a="addr", since=(8, 0), sm=90)
def prefetch_tensormap(lanes: Lanes, a: Value) -> None:
    """Nothing: a tensor map would be fetched."""
