"""Reading the structures of a running warp in LLVM text.

Invariant: a field that stays the same all through a launch is marked so, and LLVM may read it once.
"""

from __future__ import annotations

from ptxgraft.lower.ir import Emitter
from ptxgraft.lower.warp_state import LANES, LAUNCH, RUNTIME, WARP, Layout

_CHANGING = frozenset(
    ["active", "live", "status", "blocked", "waiting", "steps", "barrier", "votes", "present", "block", "resume", "pcs", "stop", "fresh"]
)
"""Fields that are not the same all through a launch."""

METADATA = "!0 = !{}\n"
"""What a module's text ends with that reads fields."""


class Fields:
    """``w`` is the name of the warp's pointer."""

    def __init__(self, out: Emitter, w: str = "%w") -> None:
        self.out, self.w = out, w

    def field(self, layout: Layout, base: str, name: str, extra: int = 0) -> str:
        """The contents of a scalar field of the structure at pointer ``base``."""
        pointer = self.address(base, layout[name] + extra)
        constant = "" if name in _CHANGING else ", !invariant.load !0"
        return self.out.value(f"load {layout.types[name]}, ptr {pointer}, align {4 if layout.types[name] == 'i32' else 8}{constant}")

    def address(self, base: str, offset: int | str) -> str:
        return self.out.value(f"getelementptr i8, ptr {base}, i64 {offset}")

    def launch(self) -> str:
        return self.field(WARP, self.w, "launch")

    def runtime(self, name: str) -> str:
        """A pointer to a function of the runtime module."""
        table = self.field(LAUNCH, self.launch(), "runtime")
        return self.out.value(f"load ptr, ptr {self.address(table, 8 * RUNTIME.index(name))}, align 8")

    def branch(self, condition: str, yes: str, no: str) -> None:
        self.out.emit(f"br i1 {condition}, label %{yes}, label %{no}")

    def splat(self, scalar: str, width: int, count: int = LANES) -> str:
        type = f"<{count} x i{width}>"
        first = self.out.value(f"insertelement {type} poison, i{width} {scalar}, i64 0")
        return self.out.value(f"shufflevector {type} {first}, {type} poison, <{count} x i32> zeroinitializer")
