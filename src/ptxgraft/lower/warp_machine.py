"""What the value operations ask of the machine, in LLVM text: memory, special registers, images, tensor cores.

Invariant: every effect is for the lanes of ``mask`` alone, every address goes through the checks of ``warp_access``, and where one fails control goes
to the ``failed`` block with the fault written down. Whoever uses a machine defines that block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.images import WIDE_FIELDS
from ptxgraft.isa.operands import SPECIALS, STACK_LIMIT
from ptxgraft.lower.ir import Emitter, Val, lane_constants
from ptxgraft.lower.numpy_mma import layouts
from ptxgraft.lower.warp_memory import FAILED, Memory
from ptxgraft.lower.warp_mma import define_mma, has_primitive
from ptxgraft.lower.warp_state import IMAGE_KINDS, LANES, LAUNCH, WARP, WORKER, Fault, fields_of, slot_bytes

if TYPE_CHECKING:
    from ptxgraft.isa.numerics import MmaPlan

_LANE_MASKS: dict[str, Callable[[int], int]] = {
    "laneid": lambda i: i,
    "lanemask_eq": lambda i: 1 << i,
    "lanemask_lt": lambda i: (1 << i) - 1,
    "lanemask_le": lambda i: (2 << i) - 1,
    "lanemask_ge": lambda i: ~((1 << i) - 1),
    "lanemask_gt": lambda i: ~((2 << i) - 1),
}

_PER_WARP = {"tid.x": "tid_x", "tid.y": "tid_y", "tid.z": "tid_z"}

SPECIAL_ORDER = {name: i for i, name in enumerate([*sorted(SPECIALS), STACK_LIMIT])}
"""Where a launch's table of special registers (one 64-bit word each) holds those that are the same for all its lanes."""

WIDE_SPECIALS = frozenset([STACK_LIMIT, "gridid", "current_graph_exec", "perctamemoryoffset", *(f"pm{i}_64" for i in range(8))])

WINDOWS = {"shared": "shared_window", "local": "local_window", "param": "param_window"}


class Machine(Memory):
    """A machine for the value operations; see ``Memory`` for what its owner sets."""

    def __init__(self, out: Emitter, w: str = "%w") -> None:
        super().__init__(out, w)
        self.reasons: dict[str, str] = {}

    # -- special registers --------------------------------------------------------------------------------------------
    def special(self, name: str) -> Val:
        if name in _LANE_MASKS:
            return lane_constants([_LANE_MASKS[name](i) for i in range(LANES)], 32)
        if name in _PER_WARP:
            place = self.address(self.w, WARP[_PER_WARP[name]])
            return Val(self.out.value(f"load <{LANES} x i32>, ptr {place}, align 64"), 32)
        base, _, axis = name.partition(".")
        if base in ("ctaid", "clusterid") and axis in ("x", "y", "z"):
            worker = self.field(WARP, self.w, "worker")
            return Val(self.field(WORKER, worker, "block", 4 * "xyz".index(axis)), 32, True)
        if name == "warpid":
            return Val(self.field(WARP, self.w, "number"), 32, True)
        if name in ("clock", "clock64", "clock_hi", "globaltimer", "globaltimer_lo", "globaltimer_hi"):
            return self.clock(name)
        table = self.field(LAUNCH, self.launch(), "specials")
        width = 64 if name in WIDE_SPECIALS else 32
        return Val(self.out.value(f"load i{width}, ptr {self.address(table, 8 * SPECIAL_ORDER[name])}, align 8"), width, True)

    def clock(self, name: str) -> Val:
        steps = self.field(WARP, self.w, "steps")
        budget = self.field(LAUNCH, self.launch(), "step_budget")
        spent = self.out.value(f"sub i64 {budget}, {steps}")
        if name in ("clock64", "globaltimer"):
            return Val(spent, 64, True)
        if name.endswith("hi"):
            spent = self.out.value(f"lshr i64 {spent}, 32")
        return Val(self.out.value(f"trunc i64 {spent} to i32"), 32, True)

    # -- address spaces -----------------------------------------------------------------------------------------------
    def to_generic(self, space: str, address: Val) -> Val:
        return self.shifted("add", space, address)

    def from_generic(self, space: str, address: Val) -> Val:
        return self.shifted("sub", space, address)

    def shifted(self, operation: str, space: str, address: Val) -> Val:
        if space not in WINDOWS:
            return address
        window = self.field(LAUNCH, self.launch(), WINDOWS[space])
        if address.uniform:
            return Val(self.out.value(f"{operation} i64 {address.name}, {window}"), 64, True)
        base = self.vector(Val(window, 64, True), 64)
        return Val(self.out.value(f"{operation} <{LANES} x i64> {address.name}, {base}"), 64)

    def is_space(self, space: str, address: Val) -> Val:
        """In a window, in a const variable, or in neither: then it is global."""
        out, shape, truth = self.out, f"<{LANES} x i64>", f"<{LANES} x i1>"
        addresses = self.vector(address, 64)
        launch = self.launch()
        if space in WINDOWS:
            base = self.vector(Val(self.field(LAUNCH, launch, WINDOWS[space]), 64, True), 64)
            limit = self.vector(Val(self.field(LAUNCH, launch, "window_bytes"), 64, True), 64)
            offset = out.value(f"sub {shape} {addresses}, {base}")
            return Val(out.value(f"icmp ult {shape} {offset}, {limit}"), 1)
        held = out.value(f"call i32 {self.runtime('constant')}(ptr {self.w}, ptr {self.fill(address)}, i32 {self.bits})")
        const = out.value(f"bitcast i32 {held} to {truth}")
        if space == "const":
            return Val(const, 1)
        first = self.vector(Val(self.field(LAUNCH, launch, "shared_window"), 64, True), 64)
        below = out.value(f"icmp ult {shape} {addresses}, {first}")
        return Val(out.value(f"select {truth} {const}, {truth} zeroinitializer, {truth} {below}"), 1)

    # -- loops --------------------------------------------------------------------------------------------------------
    def repeat(self, count: Val, body: Callable[[Val], None]) -> None:
        """The body as a loop, with fewer lanes active as it goes on."""
        out, everyone = self.out, self.bits
        turn, again, done, before = out.fresh_label("turn"), out.fresh_label("again"), out.fresh_label("done"), out.block
        number, next_, end = out.fresh("number"), out.fresh("next"), out.fresh_label("end")
        out.emit(f"br label %{turn}")
        out.label(turn)
        out.emit(f"{number} = phi i32 [ 0, %{before} ], [ {next_}, %{end} ]")
        more = out.value(f"icmp ugt <{LANES} x i32> {count.name}, {self.splat(number, 32)}")
        left = out.value(f"and i32 {everyone}, {out.value(f'bitcast <{LANES} x i1> {more} to i32')}")
        self.branch(out.value(f"icmp ne i32 {left}, 0"), again, done)
        out.label(again)
        self.activate(left)
        body(Val(number, 32, True))
        out.emit(f"br label %{end}")
        out.label(end)
        out.emit(f"{next_} = add i32 {number}, 1")
        out.emit(f"br label %{turn}")
        out.label(done)
        self.activate(everyone)

    # -- images -------------------------------------------------------------------------------------------------------
    def resource(self, kind: str, handle: Val) -> dict[str, Val]:
        """The record's fields. Lanes with different handles are served handle by handle."""
        out = self.out
        find = self.runtime("image")
        number = IMAGE_KINDS.index(kind)
        fields = list(fields_of(kind))
        widths = {name: 64 if name in WIDE_FIELDS else 32 for name, _ in fields}
        places = {name: out.slot(("field", name), f"<{LANES} x i{widths[name]}>") for name, _ in fields}
        out.declare("declare i32 @llvm.cttz.i32(i32, i1)")
        handles = self.vector(handle, 64)
        loop, done, before, end = out.fresh_label("handle"), out.fresh_label("done"), out.block, out.fresh_label("next")
        some = out.value(f"icmp ne i32 {self.bits}, 0")
        out.emit(f"br i1 {some}, label %{loop}, label %{done}")
        out.label(loop)
        left, rest = out.fresh("left"), out.fresh("rest")
        out.emit(f"{left} = phi i32 [ {self.bits}, %{before} ], [ {rest}, %{end} ]")
        lane = out.value(f"call i32 @llvm.cttz.i32(i32 {left}, i1 true)")
        one = out.value(f"extractelement <{LANES} x i64> {handles}, i32 {lane}")
        record = out.value(f"call ptr {find}(ptr {self.w}, i64 {number}, i64 {one}, i32 {lane}, i32 {self.index})")
        self.require(out.value(f"icmp ne ptr {record}, null"))
        same = out.value(f"icmp eq <{LANES} x i64> {handles}, {self.vector(Val(one, 64, True), 64)}")
        for name, word in fields:
            type = f"i{widths[name]}"
            raw = out.value(f"load {type}, ptr {self.address(record, 8 * word)}, align 8")
            value = self.vector(Val(raw, widths[name], True), widths[name])
            old = out.value(f"load <{LANES} x {type}>, ptr {places[name]}, align 64")
            new = out.value(f"select <{LANES} x i1> {same}, <{LANES} x {type}> {value}, <{LANES} x {type}> {old}")
            out.emit(f"store <{LANES} x {type}> {new}, ptr {places[name]}, align 64")
        group = out.value(f"bitcast <{LANES} x i1> {same} to i32")
        others = out.value(f"xor i32 {group}, -1")
        out.emit(f"br label %{end}")
        out.label(end)
        out.emit(f"{rest} = and i32 {left}, {others}")
        more = out.value(f"icmp ne i32 {rest}, 0")
        out.emit(f"br i1 {more}, label %{loop}, label %{done}")
        out.label(done)
        return {name: self.stored(places[name], f"<{LANES} x i{widths[name]}>", widths[name], 0) for name, _ in fields}

    def fault(self, p: Val, reason: str, value: Val | None = None) -> None:
        """Where the text lies goes into the fault's address, the value's two words into its size and space."""
        out = self.out
        held = self.vector(p, 1)
        here = out.value(f"bitcast <{LANES} x i1> {held} to i32") if not p.uniform else out.value(f"sext i1 {p.name} to i32")
        lanes = out.value(f"and i32 {here}, {self.bits}")
        clear = out.value(f"icmp eq i32 {lanes}, 0")
        bad, on = out.fresh_label("bad"), out.fresh_label("ok")
        out.emit(f"br i1 {clear}, label %{on}, label %{bad}")
        out.label(bad)
        out.declare("declare i32 @llvm.cttz.i32(i32, i1)")
        lane = out.value(f"call i32 @llvm.cttz.i32(i32 {lanes}, i1 true)")
        text = out.value(f"ptrtoint ptr {self.reason(reason)} to i64")
        low, high = "0", "0"
        if value is not None:
            each = self.vector(value, value.width)
            one = out.value(f"extractelement <{LANES} x i{value.width}> {each}, i32 {lane}")
            whole = one if value.width == 64 else out.value(f"zext i{value.width} {one} to i64")
            low, shifted = out.value(f"trunc i64 {whole} to i32"), out.value(f"lshr i64 {whole}, 32")
            high = out.value(f"trunc i64 {shifted} to i32")
        stop = self.runtime("fault")
        words = f"i32 {low}, i32 {high}, i32 {int(value is not None)}"
        out.value(f"call ptr {stop}(ptr {self.w}, i32 {self.index}, i32 {Fault.REASON:d}, i32 {lane}, i64 {text}, {words})")
        out.emit(f"br label %{FAILED}")
        self.can_fail = True
        out.label(on)

    def reason(self, text: str) -> str:
        """A constant string; the host reads it where the fault's address points."""
        raw = text.encode() + b"\0"
        name = f"reason{len(self.reasons)}"
        found = self.reasons.setdefault(text, name)
        escaped = "".join(f"\\{b:02X}" for b in raw)
        self.out.module.globals[found] = f'@{found} = private unnamed_addr constant [{len(raw)} x i8] c"{escaped}"'
        return f"@{found}"

    # -- tensor cores -------------------------------------------------------------------------------------------------
    def primitive(self, plan: MmaPlan) -> str:
        """The function of a plan, in this module."""
        name = "mma." + plan.name
        if f"mma {plan.name}" not in self.out.module.results:
            if not has_primitive(plan):
                raise UnsupportedError(f"mma {plan.name} has no compiled form", hint="use engine='numpy'")
            define_mma(self.out.module, plan, name)
            self.out.module.results[f"mma {plan.name}"] = []
        return name

    def mma(
        self,
        plan: MmaPlan,
        a: Sequence[Val],
        b: Sequence[Val],
        c: Sequence[Val],
        metadata: Val | None = None,
        scales: Sequence[Val] = (),
    ) -> tuple[Val, ...]:
        """Through a register file of its own: operands are copied in, the results copied out."""
        out, inputs = self.out, (*a, *b, *c, *(() if metadata is None else (metadata,)), *scales)
        width = inputs[0].width
        name = self.primitive(plan)
        count = fragment_registers(plan)
        step = slot_bytes(width)
        file = out.slot(("fragments", width), f"[64 x <{LANES} x i{width}>]")
        for i, value in enumerate(inputs):
            place = self.address(file, (count + i) * step)
            out.emit(f"store <{LANES} x i{width}> {self.vector(value, width)}, ptr {place}, align 64")
        table = out.module.table([i * step for i in range(count + len(inputs))], 32)
        out.emit(f"call void @{name}(ptr {file}, ptr {table})")
        return tuple(self.stored(file, f"<{LANES} x i{width}>", width, i) for i in range(count))


def fragment_registers(plan: MmaPlan) -> int:
    """Registers of a plan's D."""
    return layouts(plan)[3].registers
