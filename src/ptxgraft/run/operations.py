"""From a program's instructions to Python closures for the NumPy engine.

Invariant: a closure reads its operands, calls the form's meaning and writes its results, and knows nothing of control flow. What an instruction cannot
mean (a label as a number, an unknown spelling) is an error that is raised when it is reached, so that code nobody runs hurts nobody.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.operands import Address, Imm, Operand, Reg, Resource, Sink, Special, Var, Vector
from ptxgraft.isa.program import Instruction
from ptxgraft.isa.table import Role
from ptxgraft.isa.types import TYPES, Type
from ptxgraft.lower.numpy_lanes import DTYPES, NumpyLanes
from ptxgraft.run import faults
from ptxgraft.run.launch import Launch
from ptxgraft.run.machine import Machine

Array = NDArray[Any]
Read = Callable[[], Any]
Write = Callable[[Any], None]
Operation = Callable[[], None]

U64 = TYPES["u64"]


class Registers:
    """The registers of a machine's warps: arrays that broadcast to (warps, 32), made when first written; unwritten ones read as zero."""

    def __init__(self, launch: Launch, machine: Machine) -> None:
        self.machine = machine
        self.types = [r.type for r in launch.program.registers]
        self.zeros = {width: np.zeros((1, 1), dtype) for width, dtype in DTYPES.items()}
        self.values: list[Array] = [self.zeros[t.width] for t in self.types]

    def read(self, id: int) -> Array:
        """The register in the executing warps."""
        value, rows = self.values[id], self.machine.rows
        return value if rows is None or value.shape[0] == 1 else value[rows]

    def write(self, id: int, value: Array) -> None:
        """The register's new value in the active lanes."""
        machine = self.machine
        if machine.full:
            self.values[id] = value
            return
        old = self.values[id]
        if machine.rows is None:
            self.values[id] = np.where(machine.active, value, old)
            return
        whole = np.array(np.broadcast_to(old, (machine.warps, 32)))
        whole[machine.rows] = np.where(machine.active, value, whole[machine.rows])
        self.values[id] = whole


class Compiler:
    """Makes the closures of one launch on one machine."""

    def __init__(self, launch: Launch, machine: Machine, lanes: NumpyLanes, registers: Registers) -> None:
        self.launch, self.machine, self.lanes, self.registers = launch, machine, lanes, registers
        self.program = launch.program
        self._reads: dict[tuple[Operand, Type | None], Read] = {}

    def operation(self, instruction: Instruction) -> Operation:
        """The closure of an instruction without control flow; one that raises when the instruction cannot be run."""
        form = instruction.form
        if form is None or (form.meaning is None and not form.control):
            error = faults.unknown_instruction(self.program, instruction.index)
            return _raising(error)
        try:
            return self._operation(instruction)
        except UnsupportedError as error:
            if error.place is None:
                error.place = self.program.place(instruction.index)
            return _raising(error)

    def _operation(self, instruction: Instruction) -> Operation:
        form = instruction.form
        assert form is not None and form.meaning is not None
        reads = self.inputs(instruction)
        writes = self.outputs(instruction)
        meaning, lanes, options = form.meaning, self.lanes, dict(form.options)
        if not writes:

            def effect() -> None:
                meaning(lanes, *[value for read in reads for value in read()], **options)

            return effect
        if len(writes) == 1 and form.roles[0].count == 1 and not form.roles[0].pair:
            write = writes[0][1]

            def single() -> None:
                write(meaning(lanes, *[value for read in reads for value in read()], **options))

            return single

        def several() -> None:
            results = _flatten(meaning(lanes, *[value for read in reads for value in read()], **options))
            at = 0
            for count, write in writes:
                write(results[at] if count == 1 else results[at : at + count])
                at += count

        return several

    # -- inputs -------------------------------------------------------------------------------------------------------
    def inputs(self, instruction: Instruction) -> list[Read]:
        """For each input role a function that gives the meaning's arguments for it, as a tuple."""
        form = instruction.form
        assert form is not None
        return [
            self.input(role, operand)
            for role, operand in zip(form.roles, instruction.operands, strict=True)
            if role.kind in ("in", "inout", "addr", "resource", "text")
        ]

    def input(self, role: Role, operand: Operand | None) -> Read:
        """The arguments that one role gives: one, but two for a resource."""
        if operand is None or role.kind == "text":
            return lambda: (operand,)
        if role.kind == "addr":
            assert isinstance(operand, Address)
            address = self.address(operand)
            return lambda: (address(),)
        if role.kind == "resource":
            assert isinstance(operand, Resource)
            handle = self.scalar(operand.handle, U64)
            coordinates = [self.scalar(item, role.type) for item in operand.coordinates.items]
            if operand.sampler is None:
                return lambda: (handle(), tuple(c() for c in coordinates))
            sampler = self.scalar(operand.sampler, U64)
            return lambda: (self.lanes.concat([handle(), sampler()]), tuple(c() for c in coordinates))
        if role.count == 1:
            scalar = self.scalar(operand, role.type)
            return lambda: (scalar(),)
        parts = self.parts(operand, role)
        return lambda: (tuple(p() for p in parts),)

    def parts(self, operand: Operand, role: Role) -> list[Read]:
        """The elements of a vector operand; a single register is taken apart."""
        if isinstance(operand, Vector):
            if len(operand.items) != role.count:
                raise UnsupportedError(f"operand {role.name} has {len(operand.items)} elements, {role.count} expected")
            return [self.scalar(item, role.type) for item in operand.items]
        assert role.type is not None
        whole, width, lanes = self.scalar(operand, None), role.type.width, self.lanes

        def part(offset: int) -> Read:
            return lambda: lanes.extract(whole(), offset, width)

        return [part(i * width) for i in range(role.count)]

    def scalar(self, operand: Operand, type: Type | None) -> Read:
        """One value of ``type``'s width (None: the operand's own)."""
        key = (operand, type)
        found = self._reads.get(key)
        if found is None:
            found = self._reads[key] = self._scalar(operand, type)
        return found

    def _scalar(self, operand: Operand, type: Type | None) -> Read:
        lanes = self.lanes
        width = type.width if type else 0
        if isinstance(operand, Reg):
            return self._register(operand, type)
        if isinstance(operand, Imm):
            value = lanes.const(operand.bits(type or U64), width or 64)
            return lambda: value
        if isinstance(operand, Var):
            value = lanes.const(self.launch.address_of(operand.id) + operand.offset, width or 64)
            return lambda: value
        if isinstance(operand, Special):
            name = operand.name
            return lambda: lanes.resize(lanes.special(name), width) if width else lanes.special(name)
        if isinstance(operand, Vector):
            items = operand.items
            if len(items) == 1:
                return self.scalar(items[0], type)
            assert type is not None
            part = _unsigned(width // len(items))
            reads = [self.scalar(item, part) for item in items]
            return lambda: lanes.concat([r() for r in reads])
        raise UnsupportedError(f"{_shown(operand)} is not a value that can be read here")

    def _register(self, operand: Reg, type: Type | None) -> Read:
        read, id, lanes = self.registers.read, operand.id, self.lanes
        have = self.registers.types[id].width
        width = type.width if type else have
        signed = type.signed if type else False
        if operand.negated:
            if width == have:
                return lambda: lanes.not_(read(id))
            return lambda: lanes.resize(lanes.not_(read(id)), width, signed)
        if width == have:
            return lambda: read(id)
        return lambda: lanes.resize(read(id), width, signed)

    def address(self, operand: Address) -> Read:
        """The 64-bit address of ``[base+offset]``; the sum wraps at the register's width."""
        lanes, base = self.lanes, operand.base
        if base is None or isinstance(base, Var):
            start = 0 if base is None else self.launch.address_of(base.id) + base.offset
            value = lanes.const(start + operand.offset, 64)
            return lambda: value
        if not isinstance(base, Reg):
            raise UnsupportedError(f"{base.name!r} is not a variable of this module")
        read, id = self.registers.read, base.id
        offset = lanes.const(operand.offset, self.registers.types[id].width)
        if not operand.offset:
            return lambda: lanes.resize(read(id), 64)
        return lambda: lanes.resize(read(id) + offset, 64)

    # -- outputs ------------------------------------------------------------------------------------------------------
    def outputs(self, instruction: Instruction) -> list[tuple[int, Write]]:
        """For each output role, how many values it takes and a function that writes them."""
        form = instruction.form
        assert form is not None
        return [
            (role.count, self.output(role, operand))
            for role, operand in zip(form.roles, instruction.operands, strict=True)
            if role.kind in ("out", "inout")
        ]

    def output(self, role: Role, operand: Operand | None) -> Write:
        """Write one value, or the values of a vector, to an operand."""
        type = role.type
        if operand is None or isinstance(operand, Sink):
            return lambda value: None
        if role.count == 1:
            return self.target(operand, type)
        lanes = self.lanes
        if isinstance(operand, Vector):
            if len(operand.items) != role.count:
                raise UnsupportedError(f"operand {role.name} has {len(operand.items)} elements, {role.count} expected")
            targets = [self.target(item, type) for item in operand.items]

            def spread(values: Sequence[Array]) -> None:
                for target, value in zip(targets, values, strict=True):
                    target(value)

            return spread
        target = self.target(operand, None)
        return lambda values: target(lanes.concat(values))

    def target(self, operand: Operand, type: Type | None) -> Write:
        """Write one value, extended to the register by ``type``'s sign; a vector takes the value apart."""
        lanes = self.lanes
        if isinstance(operand, Sink):
            return lambda value: None
        if isinstance(operand, Vector):
            targets = [self.target(item, None) for item in operand.items]
            count = len(targets)

            def unpack(value: Array) -> None:
                width = lanes.width(value) // count
                for i, target in enumerate(targets):
                    target(lanes.extract(value, i * width, width))

            return unpack
        if not isinstance(operand, Reg):
            raise UnsupportedError(f"{_shown(operand)} cannot be written")
        write, id = self.registers.write, operand.id
        width = self.registers.types[id].width
        signed = type.signed if type else False
        if type is not None and type.width == width:
            return lambda value: write(id, value)
        return lambda value: write(id, lanes.resize(value, width, signed))


def _unsigned(width: int) -> Type:
    return TYPES["pred"] if width == 1 else TYPES[f"b{width}"]


def _flatten(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in _flatten(part)]
    return [value]


def _raising(error: Exception) -> Operation:
    def stop() -> None:
        raise error

    return stop


def _shown(operand: Operand) -> str:
    return getattr(operand, "name", None) or type(operand).__name__.lower()
