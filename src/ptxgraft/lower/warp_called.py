"""Accesses as functions of a module, for programs with many: written out in place, each takes ten times as long to compile.

Invariant: a function does what ``Memory.load`` or ``Memory.store`` writes in place, for any addresses. One serves all accesses of a module that have its
space, width and count.
"""

from __future__ import annotations

from ptxgraft.lower.ir import Emitter, IrModule, Val
from ptxgraft.lower.warp_memory import FAILED, Memory, Segment
from ptxgraft.lower.warp_state import LANES, LAUNCH, RECORD_BYTES, slot_bytes


class _SiteMemory(Memory):
    """Remembers allocations where ``%site`` points."""

    def remembered(self) -> Segment:
        number = self.out.value(f"zext i32 {self.out.value('load atomic i32, ptr %site monotonic, align 4')} to i64")
        table = self.field(LAUNCH, self.launch(), "allocations")
        return self.record(self.address(table, self.out.value(f"mul i64 {number}, {RECORD_BYTES}")), "%site")


def called(module: IrModule, space: str, width: int, count: int, store: bool) -> str:
    """The name of ``i1 (ptr warp, ptr addresses, ptr values, i32 lanes, i32 instruction, ptr site)``: moves ``count`` elements of ``width`` bits for each
    of ``lanes`` between memory and ``values`` (element by element, 32 lanes side by side; other lanes load zeros); says whether that went well."""
    name = f"{'store' if store else 'load'}.{space}.{width}x{count}"
    if name not in module.functions:
        module.functions[name] = ""  # known from here on
        parameters = "ptr %w, ptr %addresses, ptr %values, i32 %lanes, i32 %index, ptr %site"
        body = _body(Emitter(module), space, width, count, store)
        module.functions[name] = f"define internal i1 @{name}({parameters}) nounwind noinline {{\n{body}\n}}"
    return name


def _body(out: Emitter, space: str, width: int, count: int, store: bool) -> str:
    memory, type, align = _SiteMemory(out), f"<{LANES} x i{width}>", min(64, 4 * width)
    memory.index = "%index"
    memory.activate("%lanes")
    address = Val(out.value(f"load <{LANES} x i64>, ptr %addresses, align 64"), 64)
    places = [memory.address("%values", i * slot_bytes(width)) for i in range(count)]
    if store:
        memory.store(space, address, [Val(out.value(f"load {type}, ptr {place}, align {align}"), width) for place in places])
    else:
        for place, value in zip(places, memory.load(space, address, width, count), strict=True):
            out.emit(f"store {value.typed}, ptr {place}, align {align}")
    out.emit("ret i1 true")
    out.label(FAILED)
    out.emit("ret i1 false")
    return out.body()
