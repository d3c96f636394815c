"""What both copies of a compiled program share: registers in the warp's register file, fields of the warp, faults, barriers.

Invariant: a register lies in the register file as threaded code would have it there.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa import Form, Instruction, Operand, Program
from ptxgraft.lower.ir import IrModule, Val
from ptxgraft.lower.warp_called import called
from ptxgraft.lower.warp_graph import Graph
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.lower.warp_memory import FAILED, TABLES, Segment
from ptxgraft.lower.warp_state import LANES, LAUNCH, RECORD_BYTES, WARP, Fault, slot_bytes
from ptxgraft.lower.warp_statement import Statements


class CopyMachine(Machine):
    """The machine of a copy. Remembers allocations in the launch's ``sites``."""

    def remembered(self) -> Segment:
        launch = self.launch()
        site = self.address(self.field(LAUNCH, launch, "sites"), 4 * int(self.index))
        number = self.out.value(f"zext i32 {self.out.value(f'load atomic i32, ptr {site} monotonic, align 4')} to i64")
        table = self.field(LAUNCH, launch, "allocations")
        return self.record(self.address(table, self.out.value(f"mul i64 {number}, {RECORD_BYTES}")), site)

    def called(self, space: str, width: int, count: int, store: bool) -> tuple[str, str] | None:
        """What ``function`` gives for an access that is not written out in place. Local memory is always a function's."""
        if space == "local":
            return None
        site = self.address(self.field(LAUNCH, self.launch(), "sites"), 4 * int(self.index)) if space in TABLES else "null"
        return called(self.out.module, space, width, count, store), site


class Copy(Statements):
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
