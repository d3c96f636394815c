"""Where an operand's registers come from.

Invariant: a provenance is a fact of data flow: moves are looked through, everything else that changes bits makes a value 'computed'.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from ptxgraft.flow import Flow, Linear, block_environment, evaluate
from ptxgraft.flow.affine import Key
from ptxgraft.isa import Imm, Instruction, Program, Reg, Sink, Special, Vector
from ptxgraft.spec.forwarding import stored_value
from ptxgraft.spec.model import Provenance

MEMORY_INPUTS = frozenset({"global", "const", "generic", "param"})


@dataclass(slots=True, eq=False)
class Source:
    """The origin of one 32-bit (or wider) register: ``kind`` as in ``Provenance`` plus the pieces it is made of."""

    kind: str
    instruction: int = -1
    param: int | None = None
    offset: Linear | None = None
    part: int = 0
    width: int = 4
    base: str = ""


@dataclass(slots=True, eq=False)
class Tracer:
    """Answers for one program. ``weight_param`` is the parameter offset of the weight image, once chosen."""

    flow: Flow
    block: tuple[int, int, int]
    mma_of: dict[int, tuple[int, int]] = field(default_factory=dict)
    weight_param: int | None = None
    _sources: dict[tuple[int, int], Source] = field(default_factory=dict)
    _memo: dict[int, object] = field(default_factory=dict)
    _weight_loads: dict[tuple[int, int], frozenset[tuple[int, int]]] = field(default_factory=dict)
    _entered: set[tuple[int, int]] = field(default_factory=set)
    _computed_from: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    _environment: dict[Key, np.ndarray] | None = None
    _patterns: dict[bytes, str] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        return self.flow.program

    def source(self, register: int, point: int) -> Source:
        """The origin of ``register`` as read by instruction ``point``."""
        write = self.flow.defuse.single(register, point)
        if write is None:
            reaching = self.flow.defuse.reaching(register, point)
            return Source("input", base="undefined") if reaching == (-1,) else Source("computed", base="several writes")
        return self.traced(register, write)

    def traced(self, register: int, write: int) -> Source:
        """The origin of ``register`` as instruction ``write`` leaves it."""
        found = self._sources.get((register, write))
        if found is None:
            found = self._sources[register, write] = self._trace(register, write)
        return found

    def _trace(self, register: int, write: int) -> Source:
        instruction = self.program.instructions[write]
        form = instruction.form
        if form is None:
            return Source("computed", write, base="unknown instruction")
        if form.tensor:
            return Source("chain", write, part=instruction.writes.index(register))
        if form.loads:
            return self._loaded(register, instruction)
        if form.family == "texture":
            return Source("input", write, base="texture")
        if form.root == "mov":
            return self._moved(register, instruction)
        return Source("computed", write)

    def _loaded(self, register: int, instruction: Instruction) -> Source:
        form = instruction.form
        assert form is not None
        part = instruction.writes.index(register)
        out = next(r for r in form.roles if r.kind == "out")
        width = out.type.bytes if out.type is not None else 4
        address = self.flow.symbols.address(instruction.index)
        index = instruction.index
        if address is None:
            return Source("computed", index, base=form.root)
        offset = self._at(address, part * width)
        if form.loads == "shared":
            variable = shared_variable(self.program, address)
            return Source("shared", index, offset=self._less_variable(offset, variable), part=part, width=width,
                          base=self.program.variables[variable].name if variable is not None else "shared")  # fmt: skip
        if form.loads == "param":
            return Source("input", index, offset=offset, part=part, width=width, base="parameter")
        if form.loads == "local":
            return self._from_local(register, index, offset, width)
        if form.loads in MEMORY_INPUTS:
            for atom, coefficient in address.terms:
                if atom.key[0] == "param" and atom.width == 64 and coefficient == 1:
                    rest = offset.without(atom.key)
                    return Source("memory", index, param=atom.key[1], offset=rest, part=part, width=width)
        return Source("input", index, part=part, width=width, base=form.loads)

    def _from_local(self, register: int, index: int, offset: Linear, width: int) -> Source:
        """Local memory gives back what was stored there: an argument or a result of a call, mostly."""
        found = stored_value(self.flow, index, offset, width) if 8 * width == self.program.registers[register].type.width else None
        if found is None:
            return Source("computed", -1, base="local memory")
        store, value, type = found
        if isinstance(value, Reg):
            return self.source(value.id, store)
        assert isinstance(value, Imm)
        return Source("constant", store, base=f"{value.bits(type):#x}")

    def _at(self, address: Linear, extra: int) -> Linear:
        return Linear(address.width, (address.constant + extra) & ((1 << address.width) - 1), address.terms)

    def _less_variable(self, offset: Linear, variable: int | None) -> Linear:
        rest = offset.without(("variable", variable))
        return rest if rest is not None else offset

    def _moved(self, register: int, instruction: Instruction) -> Source:
        operands = instruction.operands
        if isinstance(operands[0], Vector):  # an unpacking mov: the pieces of a register
            return Source("computed", instruction.index, base="unpacked")
        value = operands[1]
        if isinstance(value, Reg):
            return self.source(value.id, instruction.index)
        if isinstance(value, Imm):
            return Source("constant", instruction.index, base=_literal(self.program, register, value))
        if isinstance(value, Vector):
            pieces = [self.source(i.id, instruction.index) if isinstance(i, Reg) else None for i in value.items]
            immediate = [i for i in value.items if isinstance(i, Imm)]
            if len(immediate) == len(value.items):
                return Source("constant", instruction.index, base="packed")
            if pieces and all(p is not None and p.kind == "constant" for p in pieces):
                return Source("constant", instruction.index, base="+".join(dict.fromkeys(p.base for p in pieces if p)))
            made = dict.fromkeys(self._describe(p) for p in pieces if p is not None)
            return Source("computed", -1, base=", ".join(made) or "packed")
        return Source("input" if isinstance(value, Special) else "constant", instruction.index, base=type(value).__name__.lower())

    def weight_loads(self, register: int, point: int) -> frozenset[tuple[int, int]]:
        """(load, register) pairs that read the weight image and reach ``register`` at ``point`` through computation alone: not through memory, nor
        through a tensor-core instruction."""
        start = [(register, w) for w in self.flow.defuse.reaching(register, point) if w >= 0]
        stack = list(start)
        while stack:
            key = stack[-1]
            if key in self._weight_loads:
                stack.pop()
                continue
            inputs = self._inputs(key[1])
            waiting = [k for k in inputs if k not in self._weight_loads]
            if waiting and key not in self._entered:
                self._entered.add(key)
                stack.extend(waiting)
                continue
            own = frozenset({(key[1], key[0])}) if self._reads_weights(*key) else frozenset()
            self._weight_loads[key] = own.union(*(self._weight_loads.get(k, frozenset()) for k in inputs))
            stack.pop()
        return frozenset().union(*(self._weight_loads[k] for k in start))

    def _inputs(self, write: int) -> list[tuple[int, int]]:
        """What instruction ``write`` computes from, as (register, write) pairs; nothing for loads and tensor-core instructions."""
        found = self._computed_from.get(write)
        if found is None:
            found = self._computed_from[write] = self._find_inputs(write)
        return found

    def _find_inputs(self, write: int) -> list[tuple[int, int]]:
        instruction = self.program.instructions[write]
        form = instruction.form
        if form is None or form.loads or form.tensor or form.family == "texture":
            return []
        return [(r, w) for r in instruction.reads for w in self.flow.defuse.reaching(r, write) if w >= 0]

    def _reads_weights(self, register: int, write: int) -> bool:
        source = self.traced(register, write)
        return source.kind == "memory" and source.param is not None and source.param == self.weight_param

    # -- fragments ----------------------------------------------------------------------------------------------------
    def fragment(self, operand: object, point: int) -> tuple[Provenance, list[Source]]:
        """The provenance of a fragment operand of the tensor-core instruction ``point``, with its registers' sources."""
        items = operand.items if isinstance(operand, Vector) else (operand,)
        sources: list[Source] = []
        for item in items:
            if isinstance(item, Reg):
                sources.append(self.source(item.id, point))
            elif isinstance(item, Imm):
                sources.append(Source("constant", base=f"{item.value}"))
            elif isinstance(item, Sink):
                continue
            else:
                sources.append(Source("computed"))
        return self._joined(sources), sources

    def _joined(self, sources: list[Source]) -> Provenance:
        kinds = {s.kind for s in sources}
        first = sources[0]
        if kinds == {"chain"} and len({s.instruction for s in sources}) == 1:
            phase, mma = self.mma_of.get(first.instruction, (None, None))
            return Provenance("chain", phase=phase, mma=mma)
        if kinds == {"constant"}:
            return Provenance("constant", base=",".join(dict.fromkeys(s.base for s in sources)))
        if kinds == {"memory"} and len({s.param for s in sources}) == 1:
            kind = "weights" if first.param == self.weight_param else "input"
            return self._placed(kind, f"parameter+{first.param}", first)
        if kinds == {"shared"}:
            return self._placed("shared", first.base, first)
        if kinds == {"input"}:
            return Provenance("input", base=first.base)
        names = Counter(self._describe(s) for s in sources)
        return Provenance("computed", base=", ".join(names))

    def _placed(self, kind: str, base: str, source: Source) -> Provenance:
        values = self.offsets(source)
        offset = int(values[0]) if values is not None else None
        return Provenance(kind, base=base, offset=offset, lanes=self._lanes(values))

    def offsets(self, source: Source) -> np.ndarray | None:
        """The byte offset of a memory or shared source for every thread of the block, or None when it depends on more than the thread."""
        if source.offset is None:
            return None
        return evaluate(source.offset, self._threads(), self._memo)

    def _threads(self) -> dict[Key, np.ndarray]:
        if self._environment is None:
            self._environment = block_environment(self.block)
            threads = self._environment["special", "laneid"]
            for variable in self.program.variables:
                if variable.offset >= 0:
                    self._environment["variable", variable.id] = np.full_like(threads, variable.offset)
        return self._environment

    def _lanes(self, values: np.ndarray | None) -> str:
        """How an offset moves with the thread: strides per warp and a list over the lanes."""
        if values is None:
            return ""
        steps = (values - values[0]).tobytes()
        if steps not in self._patterns:
            self._patterns[steps] = self._pattern(np.frombuffer(steps, dtype=np.int64))
        return self._patterns[steps]

    @staticmethod
    def _pattern(signed: np.ndarray) -> str:
        lanes = signed[:32]
        if not lanes.any():
            per_lane = "the same in all lanes"
        else:
            step = int(lanes[1]) if len(lanes) > 1 else 0
            straight = np.array_equal(lanes, np.arange(len(lanes)) * step)
            per_lane = f"{step} a lane" if straight else _quads(lanes)
        warps = signed[::32]
        if len(warps) > 1 and warps.any():
            step = int(warps[1])
            per_lane += f", {step} a warp" if np.array_equal(warps, np.arange(len(warps)) * step) else ", irregular over warps"
        return per_lane

    def _describe(self, source: Source) -> str:
        if source.kind == "computed" and source.instruction >= 0:
            form = self.program.instructions[source.instruction].form
            return form.opcode if form is not None else "unknown instruction"
        return source.base if source.kind == "computed" and source.base else source.kind


def shared_variable(program: Program, address: Linear) -> int | None:
    """The number of the shared array that a shared address lies in, by name, or None."""
    for atom, coefficient in address.terms:
        if atom.key[0] == "variable" and coefficient == 1 and program.variables[atom.key[1]].space == "shared":
            return atom.key[1]
    return None


def _literal(program: Program, register: int, value: Imm) -> str:
    return f"{value.bits(program.registers[register].type):#x}"


def _quads(lanes: np.ndarray) -> str:
    """Fragment-shaped offsets: a step per group of four lanes and one inside it."""
    if len(lanes) == 32:
        inner, outer = int(lanes[1]), int(lanes[4])
        number = np.arange(32)
        if np.array_equal(lanes, number % 4 * inner + number // 4 * outer):
            return f"{inner} a lane of a quad, {outer} a quad"
    return "irregular over lanes"
