"""Spellings of PTX 1.x, and what later versions made of them (PTX ISA manual, the notes under rcp, sqrt, rsqrt, sin, cos, lg2, ex2, div, mad).

Invariant: a spelling without modifiers means what the manual says it defaults to; compilers for later targets take it so.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from ptxgraft.isa import floats
from ptxgraft.isa.families import approximate
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import ENTRIES, Entry, instruction

ONE64 = 0x3FF << 52
FLUSHED: dict[str, Callable[..., Value]] = {
    "rcp": lambda lanes, a: approximate.rcp(lanes, a, ftz="ftz"),
    "sqrt": lambda lanes, a: approximate.sqrt(lanes, a, ftz="ftz"),
    "rsqrt": lambda lanes, a: approximate.rsqrt(lanes, a, ftz="ftz"),
    "lg2": lambda lanes, a: approximate.lg2(lanes, a, ftz="ftz"),
    "ex2": lambda lanes, a: approximate.ex2(lanes, a, ftz="ftz"),
    "sin": lambda lanes, a: approximate.sin(lanes, a, ftz="ftz"),
    "cos": lambda lanes, a: approximate.cos(lanes, a, ftz="ftz"),
}
"""What ``root.approx.ftz.f32`` computes."""
INF, NAN, ONE, MINUS_ZERO = 0x7F800000, 0x7FFFFFFF, 0x3F800000, 0x80000000
_EXAMPLES = {
    "rcp": ((INF, 0), (1, INF)), "sqrt": ((INF, INF), (0x80000001, MINUS_ZERO)), "rsqrt": ((INF, 0), (1, INF)), "lg2": ((INF, INF), (ONE, 0)),
    "ex2": ((0xFF800000, 0), (1, ONE)), "sin": ((MINUS_ZERO, MINUS_ZERO), (INF, NAN)), "cos": ((MINUS_ZERO, ONE), (INF, NAN)),
}  # fmt: skip


def _declare(root: str, function: Callable[..., Value]) -> None:
    def meaning(lanes: Lanes, a: Value) -> Value:
        return function(lanes, a)

    meaning.__doc__ = f"As ``{root}.approx.ftz.f32``."
    examples = [(f"{root}.f32", (given,), (wanted,)) for given, wanted in _EXAMPLES[root]]
    instruction(f"{root}.f32", d="out f32", a="in f32", examples=examples)(meaning)


for _root, _function in FLUSHED.items():
    _declare(_root, _function)


@instruction("div.f32", d="out f32", a="in f32", b="in f32", examples=[("div.f32", (ONE, INF), (0,)), ("div.f32", (1, 1), (NAN,))])
def div(lanes: Lanes, a: Value, b: Value) -> Value:
    """As ``div.approx.ftz.f32``."""
    return approximate.div(lanes, a, b, kind="approx", ftz="ftz")


@instruction("div.f64", d="out f64", a="in f64", b="in f64", sm=13, examples=[("div.f64", (ONE64, 1 << 62), (0x3FE << 52,))])
def div_f64(lanes: Lanes, a: Value, b: Value) -> Value:
    """As ``div.rn.f64``."""
    return lanes.float_div("f64", a, b, "rn")


@instruction("rcp.f64", d="out f64", a="in f64", sm=13, examples=[("rcp.f64", (1 << 62,), (0x3FE << 52,))])
def rcp_f64(lanes: Lanes, a: Value) -> Value:
    """As ``rcp.rn.f64``."""
    return lanes.float_div("f64", lanes.const(ONE64, 64), a, "rn")


@instruction("sqrt.f64", d="out f64", a="in f64", sm=13, examples=[("sqrt.f64", (0x4010 << 48,), (1 << 62,))])
def sqrt_f64(lanes: Lanes, a: Value) -> Value:
    """As ``sqrt.rn.f64``."""
    return lanes.float_sqrt("f64", a, "rn")


@instruction("rsqrt.f64", d="out f64", a="in f64", sm=13, examples=[("rsqrt.f64", (0x7FF << 52,), (0,))])
def rsqrt_f64(lanes: Lanes, a: Value) -> Value:
    """As ``rsqrt.approx.f64``."""
    return approximate.rsqrt_f64(lanes, a)


@instruction(
    "mad.{ftz}?.{sat}?.f32", d="out f32", a="in f32", b="in f32", c="in f32",
    examples=[("mad.f32", (0x40000000, 0x40400000, 0x3F800000), (0x40E00000,)), ("mad.sat.f32", (0x40000000, 0x40400000, 0), (0x3F800000,))],
)  # fmt: skip
def mad(lanes: Lanes, a: Value, b: Value, c: Value, *, ftz: str, sat: str) -> Value:
    """As ``mad.rn.f32``. (Targets before sm_20 cut the product off at 24 bits; compilers for later ones round once.)"""
    return floats.saturate(lanes, "f32", lanes.float_fma("f32", a, b, c, "rn", bool(ftz)), sat)


@instruction("mad.f64", d="out f64", a="in f64", b="in f64", c="in f64", sm=13, examples=[("mad.f64", (ONE64, ONE64, ONE64), (1 << 62,))])
def mad_f64(lanes: Lanes, a: Value, b: Value, c: Value) -> Value:
    """As ``mad.rn.f64``."""
    return lanes.float_fma("f64", a, b, c, "rn")


# -- wmma before PTX 6.3 --------------------------------------------------------------------------------------------------
def _without_aligned(entry: Entry) -> None:
    function = entry.meaning
    assert function is not None
    roles: dict[str, Any] = dict(entry.roles)

    # Its keywords are those of what it wraps.
    @functools.wraps(function, assigned=())
    def meaning(lanes: Lanes, *inputs: Value, **options: str) -> Value:
        return function(lanes, *inputs, **options)

    meaning.__doc__ = f"As with ``.aligned``, which PTX 6.3 asks for: {entry.doc}"
    instruction(
        entry.spelling.replace(".aligned", ""), loads=entry.loads, stores=entry.stores, convergent=True, since=entry.since, sm=entry.sm,
        legal=entry.legal, **roles,
    )(meaning)  # fmt: skip


# Its declarations are what is declared again.
importlib.import_module("ptxgraft.isa.families.tensor")
for _entry in [entry for entry in ENTRIES["wmma"] if entry.since < (6, 3)]:
    _without_aligned(_entry)
