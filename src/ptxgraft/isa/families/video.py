"""Video instructions (PTX ISA manual, "Video Instructions"): declared, not meant.

Invariant: roles are right, so that analysis, cuts and probes are too; running one is refused by name. Since sm_50 they are emulated
by the hardware's compiler, and no compiler of today writes them.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import declare_only, instruction

_TYPES = ".{dtype:u32|s32}.{atype:u32|s32}.{btype:u32|s32}"
_COMPARE = ".{atype:u32|s32}.{btype:u32|s32}.{cmp:eq|ne|lt|le|gt|ge}"
_OP2 = ".{op2:add|min|max}?"
_SINCE, _SINCE_SIMD = (2, 0), (3, 0)


@instruction(f"vmad{_TYPES}.{{sat:sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", since=_SINCE, sm=20)
@instruction(
    f"vmad{_TYPES}.po.{{sat:sat}}?.{{scale:shr7|shr15}}?", d="out {dtype}", a="in b32", b="in b32", c="in b32", since=_SINCE, sm=20
)
@declare_only
def vmad(lanes: Lanes) -> None:
    """d = parts of a and b multiplied, plus c, scaled and saturated."""


@instruction(f"vset{_COMPARE}{_OP2}", d="out u32", a="in b32", b="in b32", c="in b32 ?", since=_SINCE, sm=20)
@declare_only
def vset(lanes: Lanes) -> None:
    """d = whether parts of a and b compare so; then an operation with c, or a merge into it."""


def video(lanes: Lanes) -> None:
    """d = an operation on parts of a and b; then an operation with c, or a merge into it."""


def simd_video(lanes: Lanes) -> None:
    """d = an operation on each chosen byte or half of a and b, merged into c or added up with it."""


for _root in ("vadd", "vsub", "vabsdiff", "vmin", "vmax"):
    instruction(f"{_root}{_TYPES}.{{sat:sat}}?{_OP2}", d="out {dtype}", a="in b32", b="in b32", c="in b32 ?", since=_SINCE, sm=20)(
        declare_only(video)
    )
for _root in ("vshl", "vshr"):
    instruction(
        f"{_root}.{{dtype:u32|s32}}.{{atype:u32|s32}}.u32.{{sat:sat}}?.{{mode:clamp|wrap}}{_OP2}",
        d="out {dtype}",
        a="in b32",
        b="in b32",
        c="in b32 ?",
        since=_SINCE,
        sm=20,
    )(declare_only(video))
for _width in "24":
    for _root in ("vadd", "vsub", "vavrg", "vabsdiff", "vmin", "vmax"):
        instruction(
            f"{_root}{_width}{_TYPES}.{{sat:sat}}?.{{add:add}}?",
            d="out {dtype}",
            a="in b32",
            b="in b32",
            c="in b32",
            since=_SINCE_SIMD,
            sm=30,
        )(declare_only(simd_video))
    instruction(f"vset{_width}{_COMPARE}.{{add:add}}?", d="out u32", a="in b32", b="in b32", c="in b32", since=_SINCE_SIMD, sm=30)(
        declare_only(simd_video)
    )
