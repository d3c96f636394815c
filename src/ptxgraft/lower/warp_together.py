"""The copy of a compiled program that runs while all live lanes of a warp stand at one place.

Invariant: registers are SSA values, one scalar where all lanes hold the same. Where lanes part, the live registers go to the register file and ``apart``
runs until all live lanes stand at a join.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa import Address, Form, Instruction, Program, Reg
from ptxgraft.lower.ir import Emitter, IrModule, Val, literal
from ptxgraft.lower.warp_copy import Copy, CopyMachine
from ptxgraft.lower.warp_graph import Graph
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.lower.warp_memory import FAILED, Affine, Segment
from ptxgraft.lower.warp_operations import remembers
from ptxgraft.lower.warp_plan import waits
from ptxgraft.lower.warp_state import LANES, LAUNCH, RECORD, RECORD_BYTES, WARP, Fault, Status

_STEPS = frozenset(f"{op}.{type}" for op in ("add", "sub") for type in ("s32", "u32", "s64", "u64"))
"""Statements that move an address on."""


def addressing(program: Program) -> set[int]:
    """Registers that addresses are made of by adding: what loads and stores use, and what these are sums or copies of."""
    found: set[int] = set()
    for instruction in program.instructions:
        for operand in instruction.operands:
            if isinstance(operand, Address) and isinstance(operand.base, Reg):
                found.add(operand.base.id)
    grown = True
    while grown:
        grown = False
        for instruction in program.instructions:
            form = instruction.form
            if form is None or not (form.opcode in _STEPS or form.root in ("mov", "cvta")) or found.isdisjoint(instruction.writes):
                continue
            width = program.registers[instruction.writes[0]].type.width
            more = {r for r in instruction.reads if program.registers[r].type.width == width} - found
            if more:
                found |= more
                grown = True
    return found


_SUMS = frozenset(["fma.rn.f32", "add.f32", "add.rn.f32", "mul.f32", "mul.rn.f32"])
"""Statements that take floats as the one before left them, NaNs and all (``Emitter.raw``)."""


def summing(program: Program) -> set[int]:
    """Registers through which sums and products go on to further ones."""
    sums = [i for i in program.instructions if i.form is not None and i.form.opcode in _SUMS]
    return {r for i in sums for r in i.writes} & {r for i in sums for r in i.reads if program.registers[r].type.width == 32}


class _RegisterMachine(CopyMachine):
    """Remembers allocations in registers: three values an instruction, loaded where the function begins; those of what functions do, in memory."""

    def __init__(self, out: Emitter, owner: Together) -> None:
        super().__init__(out)
        self.owner = owner

    def remembered(self) -> Segment:
        if int(self.index) not in self.owner.sites:
            return super().remembered()
        base, size, delta, pointer = self.owner.sites[int(self.index)]
        values = [self.out.value(f"load i64, ptr {place}, align 8") for place in (base, size, delta)]
        return Segment(*values, pointer=pointer, site=int(self.index))

    def missed(self, segment: Segment) -> None:
        if segment.site >= 0:
            self.owner.recall(segment.site)

    def function(self, space: str, width: int, count: int, store: bool) -> tuple[str, str] | None:
        return self.called(space, width, count, store) if int(self.index) in self.owner.graph.called else None


class Together(Copy):
    """The first copy: all live lanes run together. Registers are allocas, which LLVM turns into SSA values; those that hold one value for all lanes are
    scalars. ``varying`` are registers that turned out not to be."""

    def __init__(
        self,
        module: IrModule,
        program: Program,
        graph: Graph,
        slots: Mapping[int, int],
        profile: str,
        features: frozenset[str],
        uniform: set[int],
    ) -> None:
        self.sites: dict[int, tuple[str, str, str, str]] = {}
        self.uniform, self.varying = uniform, set()
        super().__init__(module, program, graph, slots, profile, features)
        self.places: dict[int, str] = {}
        self.scalars: dict[int, str] = {}
        self.raw_places: dict[int, str] = {}
        self.pairs = addressing(program) - uniform
        self.sums = summing(program) - uniform - self.pairs
        self.live_lanes = self.out.alloca("i32", 4)
        self.steps = self.out.alloca("i64", 8)

    def make_machine(self) -> Machine:
        return _RegisterMachine(self.out, self)

    def active(self) -> str:
        return self.out.value(f"load i32, ptr {self.live_lanes}, align 4")

    # -- registers ----------------------------------------------------------------------------------------------------
    def place(self, id: int) -> str:
        found = self.places.get(id)
        if found is None:
            found = self.places[id] = self.out.alloca(self.held_type(id))
        return found

    def held_type(self, id: int) -> str:
        return f"i{self.width(id)}" if id in self.uniform else self.type(id)

    def scalar_place(self, id: int) -> str:
        """Where the scalar of an affine register is held; its vector is at its place."""
        found = self.scalars.get(id)
        if found is None:
            found = self.scalars[id] = self.out.alloca(f"i{self.width(id)}", 8)
        return found

    def raw_place(self, id: int) -> str:
        """Where the floats of a register are held whose NaNs are not yet the GPU's."""
        found = self.raw_places.get(id)
        if found is None:
            found = self.raw_places[id] = self.out.alloca(f"<{LANES} x float>")
        return found

    def read(self, id: int) -> Val:
        found = self.known.get(id)
        if found is None:
            name = self.out.value(f"load {self.held_type(id)}, ptr {self.place(id)}")
            found = Val(name, self.width(id), id in self.uniform)
            if id in self.pairs:
                scalar = Val(self.out.value(f"load i{self.width(id)}, ptr {self.scalar_place(id)}"), self.width(id), True)
                found = self.sum(scalar, found)
            if id in self.sums:
                self.out.raw[found] = Val(self.out.deferred(lambda: f"load <{LANES} x float>, ptr {self.raw_place(id)}"), 32, elem="float")
            self.known[id] = found
        return found

    def write(self, id: int, value: Val) -> None:
        if id in self.uniform and not value.uniform:
            self.varying.add(id)  # the text is thrown away and written again
            value = literal(0, value.width)
        if id in self.pairs:
            parts = self.machine.affine.get(value)
            scalar, vector = (
                (parts.scalar, parts.vector) if parts else (value.name, "zeroinitializer") if value.uniform else ("0", value.name)
            )
            self.out.emit(f"store i{value.width} {scalar}, ptr {self.scalar_place(id)}")
            self.out.emit(f"store {self.type(id)} {vector}, ptr {self.place(id)}")
        else:
            held = value if id in self.uniform else self.lanes.vector(value)
            self.out.emit(f"store {held.typed}, ptr {self.place(id)}")
            if id in self.sums:
                raw = held if value.uniform else self.out.raw.get(value, held)
                self.out.emit(f"store {raw.typed}, ptr {self.raw_place(id)}")
        self.known[id] = value

    def sum(self, scalar: Val, vector: Val) -> Val:
        """An affine value; its whole is written only where something needs it."""
        out, width, type = self.out, scalar.width, vector.type
        first = out.deferred(lambda: f"insertelement {type} poison, {scalar.typed}, i64 0")
        wide = out.deferred(lambda: f"shufflevector {type} {first.use()}, {type} poison, <{LANES} x i32> zeroinitializer")
        total = Val(out.deferred(lambda: f"add {type} {vector.name}, {wide.use()}"), width)
        self.machine.affine[total] = Affine(scalar.name, vector.name, width)
        return total

    def moved(self, value: Val, amount: Val, down: bool = False) -> Val | None:
        """An affine value plus (``down``: minus) a number that is the same in all lanes; None for other values."""
        parts = self.machine.affine.get(value)
        if parts is None or not amount.uniform or amount.width != value.width:
            return None
        scalar = Val(parts.scalar, value.width, True)
        moved = self.lanes.sub(scalar, amount) if down else self.lanes.add(scalar, amount)
        return self.sum(moved, Val(parts.vector, value.width))

    def address(self, operand: Address) -> Val:
        if not isinstance(operand.base, Reg) or operand.base.id not in self.pairs:
            return super().address(operand)
        value = self.read(operand.base.id)
        if operand.offset:
            value = self.moved(value, literal(operand.offset, value.width)) or self.lanes.add(value, literal(operand.offset, value.width))
        parts = self.machine.affine.get(value)
        if value.width == 64 or parts is None:
            return value if value.width == 64 else self.lanes.resize(value, 64)
        narrow, type = value, value.type
        wide = Val(self.out.deferred(lambda: f"zext {type} {narrow.name} to <{LANES} x i64>"), 64)
        self.machine.affine[wide] = parts
        return wide

    def results(self, instruction: Instruction, form: Form) -> list[tuple[int, Val]]:
        if form.opcode in _STEPS and len(instruction.writes) == 1 and instruction.writes[0] in self.pairs:
            a, b = (self.scalar(o, r.type) for r, o in zip(form.roles[1:3], instruction.operands[1:3], strict=True) if o is not None)
            found = self.moved(a, b, form.root == "sub")
            if found is None and form.root == "add":
                found = self.moved(b, a)
            if found is not None:
                return [(instruction.writes[0], found)]
        return super().results(instruction, form)

    # -- the function -------------------------------------------------------------------------------------------------
    def run(self) -> str:
        out, graph = self.out, self.graph
        out.emit(f"store i32 {self.machine.field(WARP, '%w', 'live')}, ptr {self.live_lanes}, align 4")
        out.emit(f"store i64 {self.machine.field(WARP, '%w', 'steps')}, ptr {self.steps}, align 8")
        self.remember_all()
        fresh = out.value(f"icmp ne i32 {self.machine.field(WARP, '%w', 'fresh')}, 0")
        self.machine.branch(fresh, "begin", "parted")
        out.label("begin")
        self.put("fresh", "0")
        for id in sorted(graph.live[0]):
            self.write(id, literal(0, self.width(id)))
        out.emit("br label %b0")
        for block in range(len(graph.starts)):
            self.block(block)
        self.parted()
        self.ends()
        return out.body()

    def remember_all(self) -> None:
        """Load what each access met last."""
        out, machine = self.out, self.machine
        called = self.graph.called
        wanted = [i.index for i in self.program.instructions if i.form is not None and remembers(i.form) and i.index not in called]
        if not wanted:
            return
        launch = machine.launch()
        sites = machine.field(LAUNCH, launch, "sites")
        for index in wanted:
            site = machine.address(sites, 4 * index)
            places = [out.alloca("i64", 8) for _ in range(3)]
            self.sites[index] = (places[0], places[1], places[2], site)
            self.recall(index)

    def recall(self, index: int) -> None:
        """Load the allocation that an instruction met last."""
        out, machine = self.out, self.machine
        *places, site = self.sites[index]
        number = out.value(f"zext i32 {out.value(f'load atomic i32, ptr {site} monotonic, align 4')} to i64")
        table = machine.field(LAUNCH, machine.launch(), "allocations")
        record = machine.address(table, out.value(f"mul i64 {number}, {RECORD_BYTES}"))
        base = self.machine.field(RECORD, record, "base")
        size = self.out.value(f"sub i64 {self.machine.field(RECORD, record, 'end')}, {base}")
        for value, place in zip((base, size, self.machine.field(RECORD, record, "delta")), places, strict=True):
            self.out.emit(f"store i64 {value}, ptr {place}, align 8")

    def block(self, block: int) -> None:
        out, graph, instructions = self.out, self.graph, self.program.instructions
        start, stop = graph.starts[block], graph.stop(block)
        if block not in graph.alone:
            out.label(f"b{block}")
            self.known = {}
        left = out.value(f"sub i64 {out.value(f'load i64, ptr {self.steps}, align 8')}, {stop - start}")
        out.emit(f"store i64 {left}, ptr {self.steps}, align 8")
        if block in graph.headers:
            late = out.value(f"icmp slt i64 {left}, 0")
            self.machine.branch(late, f"late{block}", f"on{block}")
            out.label(f"late{block}")
            self.fault(Fault.STEPS, start, self.active())
            out.label(f"on{block}")
            self.known = {}
        last, form = self.control_of(block)
        for instruction in instructions[start : stop - (form is not None)]:
            if instruction.form is not None and instruction.form.convergent and waits(instruction.form) and instruction.guard is not None:
                self.all_or_none(instruction, block)
            self.statement(instruction)
        if form is not None:
            self.control(last, form, block)
        elif block + 1 < len(graph.starts):
            if block + 1 not in graph.alone:
                out.emit(f"br label %b{block + 1}")
        else:
            out.emit("br label %finish")

    def all_or_none(self, instruction: Instruction, block: int) -> None:
        """Lanes that do not all take a convergent operation part first."""
        guard = self.guard(instruction.guard)
        assert guard is not None
        if guard.uniform:
            return
        bits, live = self.out.value(f"and i32 {self.bits_of(guard)}, {self.active()}"), self.active()
        same = self.out.value(f"icmp eq i32 {bits}, {live}")
        none = self.out.value(f"icmp eq i32 {bits}, 0")
        self.machine.branch(self.out.value(f"or i1 {same}, {none}"), f"join{block}", f"part{block}")
        self.out.label(f"part{block}")
        self.redo(block)
        self.out.label(f"join{block}")

    def redo(self, block: int) -> None:
        """Leave the block that just began to the second copy."""
        graph = self.graph
        back = self.out.value(f"load i64, ptr {self.steps}, align 8")
        again = self.out.value(f"add i64 {back}, {graph.stop(block) - graph.starts[block]}")
        self.out.emit(f"store i64 {again}, ptr {self.steps}, align 8")
        self.spill(graph.live[block])
        self.stand(self.active(), block)
        self.out.emit("br label %parted")

    def spill(self, registers: set[int]) -> None:
        """Put registers into the register file."""
        known = dict(self.known)
        for id in sorted(registers):
            self.store_slot(id, self.read(id))
        self.known = known

    # -- control ------------------------------------------------------------------------------------------------------
    def control(self, instruction: Instruction, form: Form, block: int) -> None:
        kind = form.control
        if kind == "branch":
            self.branch(instruction, block, self.graph.number[instruction.targets[0]])
        elif kind in ("return", "exit"):
            self.leave(instruction, block)
        elif kind == "barrier":
            self.meet(instruction, form, block)
        elif kind == "call":
            self.serve(instruction, block)
        else:
            self.stop(instruction, block)

    def next(self, block: int) -> str:
        return f"%b{block + 1}" if block + 1 < len(self.graph.starts) else "%finish"

    def branch(self, instruction: Instruction, block: int, target: int) -> None:
        out = self.out
        guard = self.guard(instruction.guard)
        if guard is None:
            out.emit(f"br label %b{target}")
            return
        if guard.uniform:
            out.emit(f"br i1 {guard.name}, label %b{target}, label {self.next(block)}")
            return
        if self.leads_out(target):
            self.leave(instruction, block)
            return
        live = self.active()
        bits = out.value(f"and i32 {self.bits_of(guard)}, {live}")
        some, part = f"some{block}", f"part{block}"
        out.emit(f"br i1 {out.value(f'icmp eq i32 {bits}, 0')}, label {self.next(block)}, label %{some}")
        out.label(some)
        self.machine.branch(out.value(f"icmp eq i32 {bits}, {live}"), f"b{target}", part)
        out.label(part)
        self.known = {}
        self.spill(self.graph.live[target] | self.graph.live[block + 1])
        self.stand(bits, target)
        self.stand(out.value(f"xor i32 {live}, {bits}"), block + 1)
        out.emit("br label %parted")

    def leads_out(self, target: int) -> bool:
        """Does a block do nothing but end its lanes?"""
        first = self.program.instructions[self.graph.starts[target]]
        return first.guard is None and first.form is not None and first.form.control in ("return", "exit")

    def leave(self, instruction: Instruction, block: int) -> None:
        """The lanes whose guard holds are gone."""
        out = self.out
        guard = self.guard(instruction.guard)
        if guard is None:
            out.emit("br label %finish")
            return
        live = self.active()
        gone = self.bits_of(guard)
        stay = out.value(f"and i32 {live}, {out.value(f'xor i32 {gone}, -1')}")
        out.emit(f"store i32 {stay}, ptr {self.live_lanes}, align 4")
        out.emit(f"br i1 {out.value(f'icmp eq i32 {stay}, 0')}, label %finish, label {self.next(block)}")

    def meet(self, instruction: Instruction, form: Form, block: int) -> None:
        out = self.out
        if instruction.guard is not None:
            guard = self.guard(instruction.guard)
            assert guard is not None
            live = self.active()
            bits = out.value(f"and i32 {self.bits_of(guard)}, {live}")
            out.emit(f"br i1 {out.value(f'icmp eq i32 {bits}, 0')}, label {self.next(block)}, label %some{block}")
            out.label(f"some{block}")
            self.machine.branch(out.value(f"icmp eq i32 {bits}, {live}"), f"all{block}", f"part{block}")
            out.label(f"part{block}")
            self.known = {}
            self.redo(block)
            out.label(f"all{block}")
            self.known = {}
        live = self.active()
        self.put("live", live)
        self.put("active", live)
        self.barrier(instruction, form, block)
        if form.slots["action"] == "arrive":
            out.emit(f"br label {self.next(block)}")
            return
        self.spill(self.graph.live[block + 1] if block + 1 < len(self.graph.starts) else set())
        self.put("status", f"{Status.BARRIER:d}")
        out.emit(f"br label %{FAILED}")
        self.machine.can_fail = True

    def serve(self, instruction: Instruction, block: int) -> None:
        """The host answers the call of a device function for all that live."""
        live = self.active()
        self.put("live", live)
        self.put("active", live)
        done = self.out.value(f"call i1 {self.machine.runtime('serve')}(ptr %w, i32 {instruction.index})")
        self.out.emit(f"br i1 {done}, label {self.next(block)}, label %{FAILED}")
        self.machine.can_fail = True

    def stop(self, instruction: Instruction, block: int) -> None:
        out, live = self.out, self.active()
        guard = self.guard(instruction.guard)
        bits = live if guard is None else out.value(f"and i32 {self.bits_of(guard)}, {live}")
        out.emit(f"br i1 {out.value(f'icmp eq i32 {bits}, 0')}, label {self.next(block)}, label %stop{block}")
        out.label(f"stop{block}")
        self.fault(Fault.TRAP, instruction.index, bits)

    # -- leaving and coming back --------------------------------------------------------------------------------------
    def parted(self) -> None:
        """The second copy runs; come back where it says."""
        out, graph = self.out, self.graph
        out.label("parted")
        self.put("live", self.active())
        self.put("steps", out.value(f"load i64, ptr {self.steps}, align 8"))
        block = out.value("call i32 @apart(ptr %w)")
        live = self.machine.field(WARP, "%w", "live")
        out.emit(f"store i32 {live}, ptr {self.live_lanes}, align 4")
        out.emit(f"store i64 {self.machine.field(WARP, '%w', 'steps')}, ptr {self.steps}, align 8")
        cases = " ".join(f"i32 {b}, label %again{b}" for b in sorted(graph.joins))
        out.emit(f"switch i32 {block}, label %away [ {cases} ]")
        out.label("away")
        out.emit("ret ptr null")
        for number in sorted(graph.joins):
            out.label(f"again{number}")
            self.known = {}
            self.machine.activate(live)
            lane = self.machine.first_lane() if self.uniform & graph.live[number] else ""
            for id in sorted(graph.live[number]):
                self.write(id, self.one_lane(id, lane, live) if id in self.uniform else self.load_slot(id))
            out.emit(f"br label %b{number}")

    def one_lane(self, id: int, lane: str, live: str) -> Val:
        """A register that is the same in all live lanes, from the register file."""
        width, place = self.width(id), self.slot(id)
        if width == 1:
            bits = self.out.value(f"load i32, ptr {place}, align 4")
            held = self.out.value(f"and i32 {bits}, {live}")
            return Val(self.out.value(f"icmp ne i32 {held}, 0"), 1, True)
        pointer = self.out.value(f"getelementptr i{width}, ptr {place}, i64 {lane}")
        return Val(self.out.value(f"load i{width}, ptr {pointer}, align {width // 8}"), width, True)

    def ends(self) -> None:
        out = self.out
        out.label("finish")
        self.put("live", "0")
        self.put("status", f"{Status.EXITED:d}")
        out.emit(f"br label %{FAILED}")
        out.label(FAILED)
        self.put("steps", out.value(f"load i64, ptr {self.steps}, align 8"))
        out.emit("ret ptr null")
