"""Accesses whose lanes are neither neighbours nor at one address: functions that gather or scatter them, or let the runtime go lane by lane.

Invariant: lanes are gathered only where the lowest and the highest address of the active ones lie in the segment to try and all are aligned; everything
else, each fault included, is the checked path's. One function serves all accesses of a module that have its space, width and count.
"""

from __future__ import annotations

from ptxgraft.lower.ir import Emitter, IrModule
from ptxgraft.lower.warp_access import STORE_BIT, access_code
from ptxgraft.lower.warp_fields import Fields
from ptxgraft.lower.warp_state import LANES, LAUNCH, slot_bytes

GATHERED = (32, 64)
"""Element widths that the CPU can gather."""

_TYPE = f"<{LANES} x i64>"


def lanewise(module: IrModule, space: str, width: int, count: int, store: bool) -> str:
    """The name of ``i1 (ptr warp, ptr addresses, ptr values, i32 lanes, i32 instruction, i64 base, i64 size, i64 delta, ptr site)``.

    It moves ``count`` elements of ``width`` bits for each of ``lanes`` between memory and ``values`` (element by element, 32 lanes side by side) and
    says whether that went well; ``base``, ``size`` and ``delta`` are the segment to try, ``site`` remembers another one (or is null).
    """
    name = f"{'scatter' if store else 'gather'}.{space}.{width}x{count}"
    if name not in module.functions:
        module.functions[name] = ""  # known from here on
        body = _Function(module, space, width, count, store).body()
        parameters = "ptr %w, ptr %addresses, ptr %values, i32 %lanes, i32 %index, i64 %base, i64 %size, i64 %delta, ptr %site"
        module.functions[name] = f"define internal i1 @{name}({parameters}) nounwind noinline {{\n{body}\n}}"
    return name


class _Function(Fields):
    def __init__(self, module: IrModule, space: str, width: int, count: int, store: bool) -> None:
        super().__init__(Emitter(module))
        self.space, self.width, self.count, self.store = space, width, count, store

    def body(self) -> str:
        out = self.out
        if self.width in GATHERED and self.space != "param":
            if self.store:
                watches = self.field(LAUNCH, self.launch(), "watch_count")
                self.branch(out.value(f"icmp eq i64 {watches}, 0"), "free", "slow")
                out.label("free")
            mask = out.value(f"bitcast i32 %lanes to <{LANES} x i1>")
            pointers = self.pointers(mask)
            for i in range(self.count):
                at = out.value(f"getelementptr i8, <{LANES} x ptr> {pointers}, i64 {i * self.width // 8}") if i else pointers
                (self.scatter if self.store else self.gather)(i, at, mask)
            out.emit("ret i1 true")
            out.label("slow")
        forget = out.value("icmp eq ptr %site, null")
        self.branch(forget, "go", "remember")
        out.label("remember")
        out.value(f"call ptr {self.runtime('remember')}(ptr %w, ptr %addresses, i32 %lanes, ptr %site)")
        out.emit("br label %go")
        out.label("go")
        code = access_code(self.space, self.width, self.count, STORE_BIT if self.store else 0)
        access = self.runtime("access")
        done = out.value(f"call i1 {access}(ptr %w, ptr %addresses, ptr %values, i32 %lanes, i32 %index, i32 {code})")
        out.emit(f"ret i1 {done}")
        return out.body()

    @property
    def unit(self) -> int:
        """What the addresses of elements are multiples of: images may lie anywhere."""
        return 1 if self.space == "host" else self.width // 8

    def pointers(self, mask: str) -> str:
        """Host pointers of the lanes, where all active ones are fine; goes to ``slow`` where not."""
        out, bytes_ = self.out, self.width // 8 * self.count
        found = out.value(f"load {_TYPE}, ptr %addresses, align 64")
        used = out.value(f"select <{LANES} x i1> {mask}, {_TYPE} {found}, {_TYPE} zeroinitializer")
        low = self.reduce("umin", out.value(f"select <{LANES} x i1> {mask}, {_TYPE} {found}, {_TYPE} splat (i64 -1)"))
        high = self.reduce("umax", used)
        ok = out.value(f"and i1 {self.inside(low, bytes_)}, {self.inside(high, bytes_)}")
        if self.space != "host" and bytes_ > 1:
            odd = out.value(f"and i64 {self.reduce('or', used)}, {bytes_ - 1}")
            ok = out.value(f"and i1 {ok}, {out.value(f'icmp eq i64 {odd}, 0')}")
        self.branch(ok, "fast", "slow")
        out.label("fast")
        moved = out.value(f"add {_TYPE} {found}, {self.splat('%delta', 64)}")
        if self.space == "local":  # each lane has its own copy of the segment
            numbers = ", ".join(f"i64 {i}" for i in range(LANES))
            own = out.value(f"mul {_TYPE} <{numbers}>, {self.splat('%size', 64)}")
            moved = out.value(f"add {_TYPE} {moved}, {own}")
        return out.value(f"inttoptr {_TYPE} {moved} to <{LANES} x ptr>")

    def inside(self, address: str, bytes_: int) -> str:
        out = self.out
        offset = out.value(f"sub i64 {address}, %base")
        held = out.value(f"icmp ule i64 {offset}, %size")
        room = out.value(f"icmp uge i64 {out.value(f'sub i64 %size, {offset}')}, {bytes_}")
        return out.value(f"and i1 {held}, {room}")

    def reduce(self, operation: str, name: str) -> str:
        self.out.declare(f"declare i64 @llvm.vector.reduce.{operation}.v{LANES}i64({_TYPE})")
        return self.out.value(f"call i64 @llvm.vector.reduce.{operation}.v{LANES}i64({_TYPE} {name})")

    def place(self, i: int) -> str:
        return self.address("%values", i * slot_bytes(self.width))

    def gather(self, i: int, pointers: str, mask: str) -> None:
        out, type = self.out, f"<{LANES} x i{self.width}>"
        name = f"llvm.masked.gather.v{LANES}i{self.width}.v{LANES}p0"
        out.declare(f"declare {type} @{name}(<{LANES} x ptr>, <{LANES} x i1>, {type})")
        given = f"<{LANES} x ptr> align {self.unit} {pointers}, <{LANES} x i1> {mask}, {type} zeroinitializer"
        out.emit(f"store {type} {out.value(f'call {type} @{name}({given})')}, ptr {self.place(i)}, align 64")

    def scatter(self, i: int, pointers: str, mask: str) -> None:
        """Lanes in order where they meet. Whole accesses are aligned, so two lanes' accesses are one or apart, and element by element is as good."""
        out, type = self.out, f"<{LANES} x i{self.width}>"
        name = f"llvm.masked.scatter.v{LANES}i{self.width}.v{LANES}p0"
        out.declare(f"declare void @{name}({type}, <{LANES} x ptr>, <{LANES} x i1>)")
        value = out.value(f"load {type}, ptr {self.place(i)}, align 64")
        out.emit(f"call void @{name}({type} {value}, <{LANES} x ptr> align {self.unit} {pointers}, <{LANES} x i1> {mask})")
