"""Control flow (PTX ISA manual, "Control Flow Instructions" and "Miscellaneous Instructions").

Invariant: engines move program counters by ``form.control``; a declaration here says roles alone.
"""

from __future__ import annotations

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import declare_only, instruction


@instruction("bra.{uni}?", target="label", control="branch")
@declare_only
def bra(lanes: Lanes) -> None:
    """Go to the label. ``.uni`` promises that all active lanes do."""


@instruction("brx.idx.{uni}?", index="in u32", targets="labels", control="indirect-branch", since=(6, 0), sm=30)
@declare_only
def brx_idx(lanes: Lanes, index: Value) -> None:
    """Go to the label that ``index`` selects from a ``.branchtargets`` list."""


@instruction("call.{uni}?", results="call ?", callee="call", arguments="call ?", prototype="text ?", control="call")
@declare_only
def call(lanes: Lanes) -> None:
    """Call a function. Binding a program puts the body of a function of the module in its place."""


@instruction("ret.{uni}?", control="return")
@declare_only
def ret(lanes: Lanes) -> None:
    """Return to the caller; from an entry, end the lane."""


@instruction("exit", control="exit")
@declare_only
def exit_(lanes: Lanes) -> None:
    """End the lane."""


@instruction("trap", control="trap")
@declare_only
def trap(lanes: Lanes) -> None:
    """Abort the launch."""


@instruction("brkpt", control="trap")
@declare_only
def brkpt(lanes: Lanes) -> None:
    """Stop in a debugger; without one, abort the launch."""


@instruction("nanosleep.u32", t="in u32", since=(6, 3), sm=70)
def nanosleep(lanes: Lanes, t: Value) -> None:
    """Nothing: a lane may sleep for any time up to twice ``t``, zero included."""


@instruction("pmevent.{mask}?", a="text")
def pmevent(lanes: Lanes, a: object) -> None:
    """Nothing: a performance counter would count."""


@instruction("setmaxnreg.{action:inc|dec}.sync.aligned.u32", n="text", since=(8, 0), sm=90, specific="a")
def setmaxnreg(lanes: Lanes, n: object) -> None:
    """Nothing: how many registers a warp owns changes no value."""


@instruction("griddepcontrol.{action:launch_dependents|wait}", since=(7, 8), sm=90)
def griddepcontrol(lanes: Lanes) -> None:
    """Nothing: launches run one after another."""
