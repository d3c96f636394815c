"""Facts about a program, from data flow.

Invariant: facts are computed on demand and kept beside the program, never written into it. Operand roles come from ``isa``; no
instruction is known here by name.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ptxgraft.flow.affine import Atom, Linear, SymbolicLanes, Symbols
from ptxgraft.flow.cfg import Block, Cfg, build_cfg
from ptxgraft.flow.defuse import DefUse, build_defuse
from ptxgraft.flow.evaluate import block_environment, evaluate
from ptxgraft.flow.liveness import Liveness, build_liveness
from ptxgraft.flow.uniform import divergent_region, uniform_registers
from ptxgraft.isa import Program

__all__ = [
    "Atom", "Block", "Cfg", "DefUse", "Flow", "Linear", "Liveness", "SymbolicLanes", "Symbols", "block_environment", "build_cfg", "build_defuse", "build_liveness",
    "divergent_region", "evaluate", "uniform_registers",
]  # fmt: skip


@dataclass(eq=False)
class Flow:
    """All facts of one program, each computed when first asked for."""

    program: Program

    @cached_property
    def cfg(self) -> Cfg:
        return build_cfg(self.program)

    @cached_property
    def liveness(self) -> Liveness:
        return build_liveness(self.program, self.cfg)

    @cached_property
    def defuse(self) -> DefUse:
        return build_defuse(self.program, self.cfg)

    @cached_property
    def uniform(self) -> frozenset[int]:
        return uniform_registers(self.program, self.cfg)

    @cached_property
    def symbols(self) -> Symbols:
        return Symbols(self.program, self.defuse)
