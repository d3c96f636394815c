"""A program as one compiled function for a whole warp: registers in SSA form, branches taken directly, loops that LLVM can see.

Invariant: what it does is what the threaded code of the same program does. There are two copies. The first (``warp_together``) runs while all live lanes
stand at one place; where they part, it puts the live registers into the warp's register file and calls the second (``warp_apart``), which runs
masked, block by block, choosing the smallest program counter each time, and comes back when all live lanes stand at the start of a block where
paths join. Program counters are block numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa import Program
from ptxgraft.lower.ir import IrModule
from ptxgraft.lower.warp_apart import Apart
from ptxgraft.lower.warp_fields import METADATA
from ptxgraft.lower.warp_graph import build_graph
from ptxgraft.lower.warp_plan import WarpPlan
from ptxgraft.lower.warp_together import Together

NAME = "native"
"""What the function is called in its module."""


def native_text(
    program: Program, plan: WarpPlan, slots: Mapping[int, int], profile: str, features: frozenset[str]
) -> tuple[str, dict[int, int]]:
    """(the module's text, which defines ``NAME``; block number to instruction number). Raises ``UnsupportedError`` for what cannot be compiled."""
    graph = build_graph(program, plan)
    uniform = set(plan.uniform)
    while True:
        module = IrModule()
        first = Together(module, program, graph, slots, profile, features, uniform)
        body = first.run()
        if not first.varying:
            break
        uniform -= first.varying
    second = Apart(module, program, graph, slots, profile, features).run()
    text = (
        f"{module.text()}\ndefine ptr @{NAME}(ptr noalias %w, ptr %op) nounwind {{\n{body}\n}}\n"
        f"define internal i32 @apart(ptr noalias %w) nounwind noinline {{\n{second}\n}}\n{METADATA}"
    )
    return text, dict(enumerate(graph.starts))
