"""Declarations with the operand lists that many instructions share.

Invariant: names follow the manual's order; further operands and everything else go to ``instruction`` as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptxgraft.isa.table import Meaning, instruction


def unary(spelling: str, **declaration: Any) -> Callable[[Meaning], Meaning]:
    """``d, a``, both of the slot ``type``."""
    return instruction(spelling, d="out {type}", a="in {type}", **declaration)


def binary(spelling: str, **declaration: Any) -> Callable[[Meaning], Meaning]:
    """``d, a, b``, all of the slot ``type``; operands named in ``declaration`` follow them."""
    return instruction(spelling, d="out {type}", a="in {type}", b="in {type}", **declaration)
