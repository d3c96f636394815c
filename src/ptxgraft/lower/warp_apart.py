"""The copy of a compiled program that runs lanes which stand apart.

Invariant: it runs block by block, those lanes that stand at the smallest block, and changes registers of these alone; it gives control back at a join
where all live lanes stand, or when the warp cannot go on.
"""

from __future__ import annotations

from ptxgraft.isa import Form, Imm, Instruction, Operand
from ptxgraft.lower.ir import Emitter, Val
from ptxgraft.lower.warp_copy import Copy, CopyMachine
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.lower.warp_memory import FAILED
from ptxgraft.lower.warp_plan import waits
from ptxgraft.lower.warp_state import FULL, LANES, WARP, Fault


class _SlotMachine(CopyMachine):
    """Some lanes are missing, as a rule: no groups. ``many``: the program has so many accesses that functions do them."""

    grouped = False

    def __init__(self, out: Emitter, many: bool) -> None:
        super().__init__(out)
        self.many = many

    def function(self, space: str, width: int, count: int, store: bool) -> tuple[str, str] | None:
        return self.called(space, width, count, store) if self.many else None


class Apart(Copy):
    """The second copy: lanes stand apart. Registers are read from the register file where a block first needs them and written back, for the active lanes,
    where it ends."""

    def __init__(self, *args) -> None:
        super().__init__(*args)
        self.bits = "0"
        self.written: set[int] = set()

    def make_machine(self) -> Machine:
        return _SlotMachine(self.out, bool(self.graph.called))

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
        elif kind == "call":
            self.flush(block)
            done, on = out.value(f"call i1 {self.machine.runtime('serve')}(ptr %w, i32 {instruction.index})"), out.fresh_label("served")
            self.machine.branch(done, on, FAILED)
            out.label(on)
            self.move(self.bits, block + 1)
        else:
            guard = self.guard(instruction.guard)
            bits = self.bits if guard is None else out.value(f"and i32 {self.bits_of(guard)}, {self.bits}")
            clear, bad = out.fresh_label("clear"), out.fresh_label("bad")
            self.machine.branch(out.value(f"icmp eq i32 {bits}, 0"), clear, bad)
            out.label(bad)
            self.fault(Fault.TRAP, instruction.index, bits)
            out.label(clear)
            self.go_on(block)
