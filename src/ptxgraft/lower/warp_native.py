"""A program as one compiled function for a whole warp: registers in SSA form, branches taken directly, loops that LLVM can see.

Invariant: what it does is what the threaded code of the same program does. There are two copies. The first runs while all live lanes stand at one
place; where they part, it puts the live registers into the warp's register file and calls the second, which runs masked, block by block, from
the register file, choosing the smallest program counter each time, and comes back when all live lanes stand at the start of a block where paths join.
Program counters are block numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ptxgraft.isa import Form, Imm, Instruction, Operand, Program
from ptxgraft.lower.ir import IrModule, Val, literal
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.lower.warp_memory import FAILED, METADATA, Segment
from ptxgraft.lower.warp_operations import remembers
from ptxgraft.lower.warp_plan import WarpPlan, leaders_of, live_at, waits
from ptxgraft.lower.warp_state import FULL, LANES, LAUNCH, RECORD, RECORD_BYTES, WARP, Fault, Status, slot_bytes
from ptxgraft.lower.warp_statement import Statements

LIMIT = 400
"""Programs of more instructions run as threaded code: this form's compile time grows too fast."""

NAME = "native"


@dataclass(slots=True)
class Graph:
    """Blocks by number: first instruction of each, its successors, the registers live at its start. ``joins`` are where the first copy can be
    entered again; ``headers`` are targets of backward branches."""

    program: Program
    starts: list[int]
    number: dict[int, int]
    live: list[set[int]]
    joins: set[int]
    headers: set[int]
    alone: set[int]

    def stop(self, block: int) -> int:
        """One past the last instruction of a block."""
        return self.starts[block + 1] if block + 1 < len(self.starts) else len(self.program.instructions)


def eligible(program: Program) -> bool:
    """Can and should the program be compiled this way?"""
    if len(program.instructions) > LIMIT:
        return False
    for instruction in program.instructions:
        form = instruction.form
        control = form.control if form is not None else ""
        if control in ("indirect-branch", "call") or (form is None) or (not control and form.meaning is None):
            return False
        if control == "barrier" and form.slots.get("action") not in ("sync", "arrive"):
            return False
    return True


def build_graph(program: Program, plan: WarpPlan) -> Graph:
    starts = sorted(leaders_of(program))
    number = {start: i for i, start in enumerate(starts)}
    live = live_at(program, plan, starts)
    joins = {0} | {number[i] for i in plan.joins if i in number}
    headers: set[int] = set()
    entered = [0] * len(starts)
    for block, start in enumerate(starts):
        stop = starts[block + 1] if block + 1 < len(starts) else len(program.instructions)
        last = program.instructions[stop - 1]
        form = last.form
        control = form.control if form is not None else ""
        for target in last.targets:
            entered[number[target]] += 2  # never the fall-through alone
            if target <= start:
                headers.add(number[target])
        if control == "barrier" and block + 1 < len(starts):
            joins.add(block + 1)
    alone = {b for b in range(1, len(starts)) if not entered[b] and b not in joins and _falls(program.instructions[starts[b] - 1])}
    return Graph(program, starts, number, live, joins, headers, alone)


def _falls(instruction: Instruction) -> bool:
    """Does control go on behind the instruction and to no other place?"""
    return instruction.form is None or not instruction.form.control


def native_text(
    program: Program, plan: WarpPlan, slots: Mapping[int, int], profile: str, features: frozenset[str]
) -> tuple[str, dict[int, int]]:
    """(the module's text, which defines ``NAME``; block number to instruction number). Raises ``UnsupportedError`` for what cannot be compiled."""
    graph = build_graph(program, plan)
    uniform = set(plan.uniform)
    while True:
        module = IrModule()
        first = _Together(module, program, graph, slots, profile, features, uniform)
        body = first.run()
        if not first.varying:
            break
        uniform -= first.varying
    second = _Apart(module, program, graph, slots, profile, features).run()
    text = (
        f"{module.text()}\ndefine ptr @{NAME}(ptr noalias %w, ptr %op) nounwind {{\n{body}\n}}\n"
        f"define internal i32 @apart(ptr noalias %w) nounwind noinline {{\n{second}\n}}\n{METADATA}"
    )
    return text, dict(enumerate(graph.starts))


class _Copy(Statements):
    """What both copies share: control flow by blocks."""

    failure = ""

    def __init__(
        self, module: IrModule, program: Program, graph: Graph, slots: Mapping[int, int], profile: str, features: frozenset[str]
    ) -> None:
        self.graph, self.slots = graph, slots
        self.known: dict[int, Val] = {}
        super().__init__(module, program, profile, features)

    def width(self, id: int) -> int:
        return self.program.registers[id].type.width

    def type(self, id: int) -> str:
        return f"<{LANES} x i{self.width(id)}>"

    def slot(self, id: int) -> str:
        return self.machine.address("%w", self.slots[id])

    def load_slot(self, id: int) -> Val:
        """A register from the register file."""
        width, place = self.width(id), self.slot(id)
        if width == 1:
            return Val(self.machine.lanes_of(self.out.value(f"load i32, ptr {place}, align 4")), 1)
        return Val(self.out.value(f"load {self.type(id)}, ptr {place}, align {min(64, slot_bytes(width))}"), width)

    def store_slot(self, id: int, value: Val) -> None:
        width, place = self.width(id), self.slot(id)
        if width == 1:
            self.out.emit(f"store i32 {self.bits_of(value)}, ptr {place}, align 4")
        else:
            self.out.emit(f"store {self.type(id)} {self.lanes.vector(value).name}, ptr {place}, align {min(64, slot_bytes(width))}")

    def put(self, name: str, value: str) -> None:
        """Store into a field of the warp."""
        type = WARP.types[name]
        self.out.emit(f"store {type} {value}, ptr {self.machine.address('%w', WARP[name])}, align {4 if type == 'i32' else 8}")

    def stand(self, lanes: str, block: int) -> None:
        self.out.emit(f"call void {self.machine.runtime('stand_at')}(ptr %w, i32 {lanes}, i32 {block})")

    def fault(self, kind: Fault, index: int, lanes: str) -> None:
        """Write a fault of the lowest of ``lanes`` down and stop."""
        self.out.declare("declare i32 @llvm.cttz.i32(i32, i1)")
        lane = self.out.value(f"call i32 @llvm.cttz.i32(i32 {lanes}, i1 false)")
        stop = self.machine.runtime("fault")
        self.out.value(f"call ptr {stop}(ptr %w, i32 {index}, i32 {kind:d}, i32 {lane}, i64 0, i32 0, i32 0, i32 0)")
        self.machine.can_fail = True
        self.out.emit(f"br label %{FAILED}")

    def barrier(self, instruction: Instruction, form: Form, block: int) -> None:
        """Come to a barrier; faults go to ``FAILED``."""
        named: dict[str, Operand | None] = {r.name: o for r, o in zip(form.roles, instruction.operands, strict=True)}
        id, count = self.number(named["a"]), self.number(named.get("b"))
        given = "true" if named.get("b") is not None else "false"
        go = int(form.slots["action"] == "arrive")
        came = self.machine.runtime("arrive")
        self.machine.require(
            self.out.value(
                f"call i1 {came}(ptr %w, i32 {block + 1}, i32 {go}, i32 {id}, i32 {count}, i1 {given}, i32 0, i32 {instruction.index})"
            )
        )

    def number(self, operand: Operand | None) -> str:
        """A number that all lanes share: the first active lane's."""
        if operand is None:
            return "0"
        value = self.scalar(operand, None)
        value = self.lanes.resize(value, 32)
        if value.uniform:
            return value.name
        self.machine.activate(self.active())
        return self.out.value(f"extractelement {value.typed}, i64 {self.machine.first_lane()}")

    def control_of(self, block: int) -> tuple[Instruction, Form | None]:
        last = self.program.instructions[self.graph.stop(block) - 1]
        return last, last.form if last.form is not None and last.form.control else None


class _RegisterMachine(Machine):
    """Remembers allocations in registers: three values an instruction, loaded where the function begins."""

    def __init__(self, out, owner: _Together) -> None:
        super().__init__(out)
        self.owner = owner

    def remembered(self) -> Segment:
        base, size, delta, _ = self.owner.sites[int(self.index)]
        values = [self.out.value(f"load i64, ptr {place}, align 8") for place in (base, size, delta)]
        return Segment(*values, site=self.index)

    def missed(self, segment: Segment, addresses: str) -> None:
        *places, site = self.owner.sites[int(segment.site)]
        record = self.out.value(f"call ptr {self.runtime('remember')}(ptr {self.w}, ptr {addresses}, i32 {self.bits}, ptr {site})")
        self.owner.keep(record, places)


class _Together(_Copy):
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

    def read(self, id: int) -> Val:
        found = self.known.get(id)
        if found is None:
            name = self.out.value(f"load {self.held_type(id)}, ptr {self.place(id)}")
            found = self.known[id] = Val(name, self.width(id), id in self.uniform)
        return found

    def write(self, id: int, value: Val) -> None:
        if id in self.uniform and not value.uniform:
            self.varying.add(id)  # the text is thrown away and written again
            value = literal(0, value.width)
        held = value if id in self.uniform else self.lanes.vector(value)
        self.out.emit(f"store {held.typed}, ptr {self.place(id)}")
        self.known[id] = value

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
        wanted = [i.index for i in self.program.instructions if i.form is not None and remembers(i.form)]
        if not wanted:
            return
        launch = machine.launch()
        table, sites = machine.field(LAUNCH, launch, "allocations"), machine.field(LAUNCH, launch, "sites")
        for index in wanted:
            site = machine.address(sites, 4 * index)
            places = [out.alloca("i64", 8) for _ in range(3)]
            self.sites[index] = (places[0], places[1], places[2], site)
            number = out.value(f"zext i32 {out.value(f'load atomic i32, ptr {site} monotonic, align 4')} to i64")
            self.keep(machine.address(table, out.value(f"mul i64 {number}, {RECORD_BYTES}")), places)

    def keep(self, record: str, places: Sequence[str]) -> None:
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


class _SlotMachine(Machine):
    """Remembers allocations in the launch's ``sites``."""

    def remembered(self) -> Segment:
        launch = self.launch()
        site = self.address(self.field(LAUNCH, launch, "sites"), 4 * int(self.index))
        number = self.out.value(f"zext i32 {self.out.value(f'load atomic i32, ptr {site} monotonic, align 4')} to i64")
        table = self.field(LAUNCH, launch, "allocations")
        return self.record(self.address(table, self.out.value(f"mul i64 {number}, {RECORD_BYTES}")), site)

    def missed(self, segment: Segment, addresses: str) -> None:
        self.out.value(f"call ptr {self.runtime('remember')}(ptr {self.w}, ptr {addresses}, i32 {self.bits}, ptr {segment.site})")


class _Apart(_Copy):
    """The second copy: lanes stand apart. Registers are read from the register file where a block first needs them and written back, for the active lanes,
    where it ends."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.bits = "0"
        self.written: set[int] = set()

    def make_machine(self) -> Machine:
        return _SlotMachine(self.out)

    def active(self) -> str:
        return self.bits

    def read(self, id: int) -> Val:
        found = self.known.get(id)
        if found is None:
            found = self.known[id] = self.load_slot(id)
        return found

    def write(self, id: int, value: Val) -> None:
        self.known[id] = value
        self.written.add(id)

    def run(self) -> str:
        out, graph = self.out, self.graph
        out.emit("br label %choose")
        out.label("choose")
        block = out.value(f"call i32 {self.machine.runtime('pick')}(ptr %w)")
        none = out.value(f"icmp slt i32 {block}, 0")
        self.machine.branch(none, "over", "found")
        out.label("over")
        out.emit("ret i32 -1")
        out.label("found")
        active, live = self.machine.field(WARP, "%w", "active"), self.machine.field(WARP, "%w", "live")
        self.machine.branch(out.value(f"icmp eq i32 {active}, {live}"), "together", "run")
        out.label("together")
        out.emit(f"switch i32 {block}, label %run [ {' '.join(f'i32 {b}, label %back' for b in sorted(graph.joins))} ]")
        out.label("back")
        out.emit(f"ret i32 {block}")
        out.label("run")
        out.emit(f"switch i32 {block}, label %over [ {' '.join(f'i32 {b}, label %b{b}' for b in range(len(graph.starts)))} ]")
        for number in range(len(graph.starts)):
            self.block(number)
        out.label(FAILED)
        out.emit("ret i32 -1")
        return out.body()

    def block(self, block: int) -> None:
        out, graph = self.out, self.graph
        start, stop = graph.starts[block], graph.stop(block)
        out.label(f"b{block}")
        self.known, self.written = {}, set()
        self.bits = self.machine.field(WARP, "%w", "active")
        left = out.value(f"sub i64 {self.machine.field(WARP, '%w', 'steps')}, {stop - start}")
        self.put("steps", left)
        late, on = out.fresh_label("late"), out.fresh_label("on")
        self.machine.branch(out.value(f"icmp slt i64 {left}, 0"), late, on)
        out.label(late)
        self.fault(Fault.STEPS, start, self.bits)
        out.label(on)
        last, form = self.control_of(block)
        for instruction in self.program.instructions[start : stop - (form is not None)]:
            if instruction.form is not None and instruction.form.convergent and waits(instruction.form):
                self.converge(instruction, instruction.form, block)
                self.plain(instruction)
            else:
                self.statement(instruction)
        if form is not None:
            self.control(last, form, block)
        else:
            self.go_on(block)

    def plain(self, instruction: Instruction) -> None:
        """A statement without its guard, which those that are active have passed."""
        form = instruction.form
        assert form is not None
        self.machine.index = str(instruction.index)
        self.machine.activate(self.bits)
        self.lanes.statement()
        for id, value in self.results(instruction, form):
            self.write(id, value)

    def flush(self, block: int, also: int = -1) -> None:
        """Write registers back that are live at the blocks that may follow."""
        graph = self.graph
        wanted: set[int] = set()
        for next in (block + 1, also):
            if 0 <= next < len(graph.starts):
                wanted |= graph.live[next]
        mask = Val(self.machine.lanes_of(self.bits), 1)
        for id in sorted(self.written & wanted):
            self.store_slot(id, self.lanes.select(mask, self.known[id], self.load_slot(id)))

    def go_on(self, block: int) -> None:
        self.flush(block)
        self.move(self.bits, block + 1)

    def move(self, lanes: str, block: int) -> None:
        """All that run here go to one block."""
        self.stand(lanes, block)
        self.out.emit("br label %choose")

    def pass_guard(self, instruction: Instruction, block: int) -> None:
        """Lanes whose guard fails go to the next block; the others stay, or nobody does."""
        if instruction.guard is None:
            return
        out = self.out
        guard = self.guard(instruction.guard)
        assert guard is not None
        taken = out.value(f"and i32 {self.bits_of(guard)}, {self.bits}")
        rest = out.value(f"xor i32 {self.bits}, {taken}")
        self.stand(rest, block + 1)
        self.put("active", taken)
        on = out.fresh_label("on")
        self.machine.branch(out.value(f"icmp eq i32 {taken}, 0"), "choose", on)
        out.label(on)
        self.bits = taken

    def converge(self, instruction: Instruction, form: Form, block: int) -> None:
        """Go on with the lanes whose members are all here; the others wait."""
        out = self.out
        self.pass_guard(instruction, block)
        members: Operand | None = None
        for role, operand in zip(form.roles, instruction.operands, strict=True):
            if role.name == "membermask":
                members = operand
        pointer, word = "null", f"{FULL}"
        if isinstance(members, Imm):
            word = str(int(members.value) & FULL)
        elif members is not None:
            pointer = out.slot("members", f"<{LANES} x i32>")
            value = self.lanes.vector(self.scalar(members, None))
            out.emit(f"store {value.typed}, ptr {pointer}, align 64")
        go = out.value(f"call i32 {self.machine.runtime('gather')}(ptr %w, ptr {pointer}, i32 {word})")
        on = out.fresh_label("on")
        self.machine.branch(out.value(f"icmp eq i32 {go}, 0"), "choose", on)
        out.label(on)
        self.bits = go

    # -- control ------------------------------------------------------------------------------------------------------
    def control(self, instruction: Instruction, form: Form, block: int) -> None:
        kind, out = form.control, self.out
        if kind == "branch":
            target = self.graph.number[instruction.targets[0]]
            self.flush(block, target)
            guard = self.guard(instruction.guard)
            if guard is None:
                self.move(self.bits, target)
                return
            taken = out.value(f"and i32 {self.bits_of(guard)}, {self.bits}")
            self.stand(taken, target)
            self.move(out.value(f"xor i32 {self.bits}, {taken}"), block + 1)
        elif kind in ("return", "exit"):
            self.flush(block)
            guard = self.guard(instruction.guard)
            gone = self.bits if guard is None else out.value(f"and i32 {self.bits_of(guard)}, {self.bits}")
            out.value(f"call i32 {self.machine.runtime('remove')}(ptr %w, i32 {gone})")
            self.move(out.value(f"xor i32 {self.bits}, {gone}"), block + 1)
        elif kind == "barrier":
            self.pass_guard(instruction, block)
            self.barrier(instruction, form, block)
            if form.slots["action"] == "arrive":
                self.move(self.bits, block + 1)
            else:
                out.emit("br label %choose")
        else:
            guard = self.guard(instruction.guard)
            bits = self.bits if guard is None else out.value(f"and i32 {self.bits_of(guard)}, {self.bits}")
            clear, bad = out.fresh_label("clear"), out.fresh_label("bad")
            self.machine.branch(out.value(f"icmp eq i32 {bits}, 0"), clear, bad)
            out.label(bad)
            self.fault(Fault.TRAP, instruction.index, bits)
            out.label(clear)
            self.go_on(block)
