"""Blocks of a cluster, and launches that are taken over (PTX ISA manual, "mapa", "getctarank", "clusterlaunchcontrol").

Invariant: a launch has no clusters, which is clusters of one block each. An address of ``shared::cluster`` is one of shared memory.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused


@instruction("mapa.{space:shared::cluster}?.{type:u32|u64}", d="out {type}", a="in {type}", b="in u32", since=(7, 8), sm=90)
def mapa(lanes: Lanes, a: Value, b: Value) -> Value:
    """d = the address in block ``b`` of the cluster that belongs to the shared address ``a``: itself."""
    lanes.fault(lanes.compare("ne", b, lanes.const(0, 32)), "there is no block {} in the cluster, which is one block", b)
    return a


@instruction(
    "getctarank.{space:shared::cluster}?.{type:u32|u64}",
    d="out u32",
    a="in {type}",
    since=(7, 8),
    sm=90,
    examples=[("getctarank.shared::cluster.u32", (16,), (0,))],
)
def getctarank(lanes: Lanes, a: Value) -> Value:
    """d = the number in the cluster of the block whose shared memory ``a`` lies in: 0."""
    return lanes.const(0, 32)


_INSTEAD = "every block of the grid runs, so that none is left to be taken over; a grid of as many blocks as there is work needs no such request; on='cuda' runs it where the GPU has it"

CANCEL = "clusterlaunchcontrol.try_cancel.async.{space:shared::cta}?.mbarrier::complete_tx::bytes"


@instruction(f"{CANCEL}.b128", a="addr", mbar="addr", stores="shared", since=(8, 6), sm=100)
@refused(_INSTEAD)
def try_cancel(lanes: Lanes) -> None:
    """Ask for a cluster that has not started, to do its work here; the answer comes to [a] and is counted at the mbarrier."""


@instruction(f"{CANCEL}.multicast::cluster::all.b128", a="addr", mbar="addr", stores="shared", since=(8, 6), sm=100, specific="f")
@refused(_INSTEAD)
def try_cancel_all(lanes: Lanes) -> None:
    """As above, with the answer to every block of the cluster."""


QUERY = "clusterlaunchcontrol.query_cancel"


@instruction(f"{QUERY}.is_canceled.pred.b128", p="out pred", response="in b128", since=(8, 6), sm=100)
@refused(_INSTEAD)
def is_canceled(lanes: Lanes) -> None:
    """p = did ``try_cancel`` get a cluster?"""


@instruction(f"{QUERY}.get_first_ctaid.v4.b32.b128", d="out b32 x4", response="in b128", since=(8, 6), sm=100)
@refused(_INSTEAD)
def get_first_ctaid(lanes: Lanes) -> None:
    """d = the position of the first block of that cluster; the fourth element is undefined."""


@instruction(
    f"{QUERY}.{{part:get_first_ctaid::x|get_first_ctaid::y|get_first_ctaid::z}}.b32.b128", d="out b32", response="in b128", since=(8, 6),
    sm=100,
)  # fmt: skip
@refused(_INSTEAD)
def get_first_ctaid_part(lanes: Lanes) -> None:
    """d = one coordinate of the position."""
