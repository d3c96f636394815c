"""Addresses and their spaces (PTX ISA manual, "Data Movement and Conversion Instructions": cvta, isspacep, mapa).

Invariant: global and const addresses are generic addresses already; shared, local and param addresses are offsets in a window.
"""

from __future__ import annotations

from ptxgraft.isa.families.memory import space_name
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

SPACES = "{space:const|global|local|param|param::entry|shared|shared::cta|shared::cluster}"
PARAMETERS = {"param": ((7, 7), 70)}


@instruction(f"cvta.{SPACES}.{{type:u32|u64}}", d="out {type}", a="in {type}", needs=PARAMETERS, since=(2, 0), sm=20)
def cvta(lanes: Lanes, a: Value, *, space: str, type: str) -> Value:
    """d = the generic address of ``a``, which is an address in the space named."""
    return lanes.resize(lanes.to_generic(space_name(space), lanes.resize(a, 64)), type_of(type).width)


@instruction(f"cvta.to.{SPACES}.{{type:u32|u64}}", d="out {type}", a="in {type}", needs=PARAMETERS, since=(2, 0), sm=20)
def cvta_to(lanes: Lanes, a: Value, *, space: str, type: str) -> Value:
    """d = the address in the space named of the generic address ``a``."""
    return lanes.resize(lanes.from_generic(space_name(space), lanes.resize(a, 64)), type_of(type).width)


@instruction(f"isspacep.{SPACES}", p="out pred", a="in b64", needs=PARAMETERS, since=(2, 0), sm=20)
def isspacep(lanes: Lanes, a: Value, *, space: str) -> Value:
    """p = does the generic address ``a`` lie in the space named?"""
    return lanes.is_space(space_name(space), a)
