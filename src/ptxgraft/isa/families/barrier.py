"""Barriers and fences (PTX ISA manual, "Parallel Synchronization and Communication Instructions").

Invariant: engines run what has ``control="barrier", needs=BLOCK``: ``form.slots["action"]`` is sync, arrive or red, and ``op`` says how red combines.
Fences order memory, which is in order already.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction, refused

BLOCK = {"cta": ((7, 8), 30)}
_INSTEAD = "clusters of one block are what runs here, and bar.sync is their barrier; on='cuda' runs it where the GPU has it"
CLUSTER = {"release": ((8, 0), 90), "relaxed": ((8, 0), 90), "acquire": ((8, 0), 90)}


@instruction("bar.{cta}?.{action:sync}", a="in u32", b="in u32 ?", control="barrier", needs=BLOCK, convergent=True)
@declare_only
def bar_sync(lanes: Lanes, a: Value, b: Value) -> None:
    """Wait until all threads of the block (``b``: that many) have come to barrier ``a``."""


@instruction("bar.{cta}?.{action:arrive}", a="in u32", b="in u32", control="barrier", needs=BLOCK, convergent=True, since=(2, 0), sm=20)
@declare_only
def bar_arrive(lanes: Lanes, a: Value, b: Value) -> None:
    """Count this warp as come to barrier ``a`` and go on."""


@instruction(
    "bar.{cta}?.{action:red}.{op:popc}.u32", d="out u32", a="in u32", b="in u32", c="in pred ?", control="barrier", needs=BLOCK, convergent=True,
    since=(2, 0), sm=20,
)  # fmt: skip
@declare_only
def bar_red_popc(lanes: Lanes, a: Value, b: Value, c: Value) -> None:
    """Wait as ``bar.sync`` does; d = how many threads had a true predicate: the last operand (``b`` when ``c`` is left out)."""


@instruction(
    "bar.{cta}?.{action:red}.{op:and|or}.pred", d="out pred", a="in u32", b="in u32", c="in pred ?", control="barrier", needs=BLOCK, convergent=True,
    since=(2, 0), sm=20,
)  # fmt: skip
@declare_only
def bar_red(lanes: Lanes, a: Value, b: Value, c: Value) -> None:
    """Wait as ``bar.sync`` does; d = all or any of the threads' predicates: the last operand (``b`` when ``c`` is left out)."""


@instruction("barrier.{cta}?.{action:sync}.{aligned}?", a="in u32", b="in u32 ?", control="barrier", needs=BLOCK, since=(6, 0), sm=30)
@declare_only
def barrier_sync(lanes: Lanes, a: Value, b: Value) -> None:
    """As ``bar.sync``; without ``.aligned`` the lanes of a warp may come one by one."""


@instruction("barrier.{cta}?.{action:arrive}.{aligned}?", a="in u32", b="in u32", control="barrier", needs=BLOCK, since=(6, 0), sm=30)
@declare_only
def barrier_arrive(lanes: Lanes, a: Value, b: Value) -> None:
    """As ``bar.arrive``."""


@instruction(
    "barrier.{cta}?.{action:red}.{op:popc}.{aligned}?.u32", d="out u32", a="in u32", b="in u32", c="in pred ?", control="barrier", needs=BLOCK,
    since=(6, 0), sm=30,
)  # fmt: skip
@declare_only
def barrier_red_popc(lanes: Lanes, a: Value, b: Value, c: Value) -> None:
    """As ``bar.red.popc``."""


@instruction(
    "barrier.{cta}?.{action:red}.{op:and|or}.{aligned}?.pred", d="out pred", a="in u32", b="in u32", c="in pred ?", control="barrier", needs=BLOCK,
    since=(6, 0), sm=30,
)  # fmt: skip
@declare_only
def barrier_red(lanes: Lanes, a: Value, b: Value, c: Value) -> None:
    """As ``bar.red``."""


@instruction("bar.warp.sync", membermask="in b32", convergent=True, since=(6, 0), sm=30)
def bar_warp_sync(lanes: Lanes, membermask: Value) -> None:
    """Wait until all lanes of ``membermask`` have come."""


@instruction("barrier.cluster.{action:arrive}.{sem:release|relaxed}?.{aligned}?", needs=CLUSTER, since=(7, 8), sm=90)
@refused(_INSTEAD)
def barrier_cluster_arrive(lanes: Lanes) -> None:
    """Count this thread as come to its cluster's barrier."""


@instruction("barrier.cluster.{action:wait}.{sem:acquire}?.{aligned}?", needs=CLUSTER, since=(7, 8), sm=90)
@refused(_INSTEAD)
def barrier_cluster_wait(lanes: Lanes) -> None:
    """Wait for the cluster's barrier."""


# -- fences ---------------------------------------------------------------------------------------------------------------
@instruction("membar.{level:cta|gl|sys}")
def membar(lanes: Lanes) -> None:
    """Nothing: memory is in order."""


@instruction("membar.proxy.{kind:alias}", since=(7, 5), sm=70)
def membar_proxy(lanes: Lanes) -> None:
    """Nothing: memory is in order."""


@instruction(
    "fence.{sem:sc|acq_rel|acquire|release}?.{scope:cta|cluster|gpu|sys}", needs={"acquire": ((8, 6), 90), "release": ((8, 6), 90)}, since=(6, 0),
    sm=70,
)  # fmt: skip
def fence(lanes: Lanes) -> None:
    """Nothing: memory is in order."""


@instruction("fence.proxy.{kind:alias}", since=(7, 5), sm=70)
@instruction("fence.proxy.{kind:async}.{space:global|shared::cta|shared::cluster}?", since=(8, 0), sm=90)
def fence_proxy(lanes: Lanes) -> None:
    """Nothing: memory is in order."""


@instruction("fence.mbarrier_init.release.cluster", since=(8, 0), sm=90)
def fence_mbarrier_init(lanes: Lanes) -> None:
    """Nothing: memory is in order."""
