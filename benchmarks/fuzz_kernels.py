"""Kernels made of independent blocks of code, each thread a row: what a fuzzer sends to a GPU and to the CPU's executors.

Invariant: a kernel is its text and its memory, and both follow from its seed. A block reads the common inputs, writes words of its own, and can be left out
without changing what the others write.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from benchmarks.example_cases import HEADER, IMMEDIATE, integer_values
from ptxgraft.isa import Form, Program, Role, Type, bind
from ptxgraft.run import Launch, Texture, allocate
from ptxgraft.text import Document

BLOCK = 256
"""Threads of a block; rows come in multiples of it."""
OWN = 64
"""Bytes of every kind of memory that are a thread's own."""
TILE = 1024
"""Bytes of shared memory for a warp's matrix."""
FILL = 0xCC
TABLE_WORDS = 64
ENTRY = "k"
_IN, _OUT, _MEMORY = 1 << 40, 2 << 40, 3 << 40
_HANDLE = 0x1_0000_0001
TYPES = {1: "pred", 8: "b8", 16: "b16", 32: "b32", 64: "b64", 128: "b128"}


@dataclass(frozen=True, slots=True)
class Reg:
    """A register in a kernel: its name, its width, and the type that its bits mean something as.

    Floats of 32 and 64 bits have registers of their types, all else untyped ones, as compilers write it: of an untyped register ptxas guesses what it
    holds, and converts it where a number of another type is wanted (docs/compiler-findings.md).
    """

    name: str
    width: int
    hint: str

    @property
    def declared(self) -> str:
        """The type to declare it with."""
        return self.hint if self.hint in ("f32", "f64") else TYPES[self.width]


@dataclass(frozen=True, slots=True)
class Out:
    """A result: its register, the first word it goes to (in the block's own numbering), and the instruction that made it."""

    register: Reg
    root: str

    @property
    def words(self) -> int:
        return 2 if self.register.width == 128 else 1


@dataclass(slots=True)
class Block:
    """Lines of PTX that can stand in a scope of their own, and the results that they leave in registers. ``needs``: memory that it uses, of
    ``local``, ``shared``, ``tile``, ``common``."""

    label: str
    lines: list[str]
    outs: list[Out]
    needs: frozenset[str] = frozenset()

    @property
    def words(self) -> int:
        return sum(o.words for o in self.outs)


@dataclass(slots=True, eq=False)
class Kernel:
    """``inputs`` is uint64[words, rows]; ``widths`` says how wide the register of each word is, ``hints`` what it means. ``seed`` is what it was made from."""

    kind: str
    seed: tuple[int, ...]
    inputs: NDArray[np.uint64]
    widths: list[int]
    hints: list[str]
    blocks: list[Block]
    texture: Texture | None = None
    blob: bytes = bytes(64)
    table: tuple[int, ...] = ()
    memory: bool = False

    @property
    def rows(self) -> int:
        return self.inputs.shape[1]

    @property
    def words(self) -> int:
        return sum(b.words for b in self.blocks)

    def only(self, blocks: Sequence[int], rows: slice | NDArray[np.int64] | None = None) -> Kernel:
        """The same kernel with these blocks alone, and only some of its rows (whole blocks of threads)."""
        kept = [self.blocks[b] for b in blocks]
        return replace(self, blocks=kept, inputs=self.inputs if rows is None else np.ascontiguousarray(self.inputs[:, rows]))

    def text(self) -> tuple[str, list[int]]:
        """PTX, and for each of its lines the block that it belongs to (-1: none)."""
        lines = HEADER.splitlines()
        if self.table:
            lines.append(f".const .align 16 .b32 table[{len(self.table)}] = {{{', '.join(map(str, self.table))}}};")
        lines += [
            f".visible .entry {ENTRY}(.param .u64 in, .param .u64 out, .param .u64 mem, .param .u64 image, .param .align 16 .b8 blob[{len(self.blob)}])",
            "{", ".reg .b32 %c, %n, %x, %row, %lane, %own, %tile, %w; .reg .b16 %h; .reg .b64 %in, %out, %mem, %image, %at, %v, %d, %d1;",
            *self._memory_lines(),
            "mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %x, %tid.x; mad.lo.u32 %row, %c, %n, %x; mov.u32 %lane, %laneid;",
            "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; ld.param.u64 %mem, [mem]; ld.param.u64 %image, [image];",
            f"mul.wide.u32 %at, %row, 8; add.u64 %in, %in, %at; add.u64 %out, %out, %at; mul.wide.u32 %at, %row, {OWN}; add.u64 %mem, %mem, %at;",
        ]  # fmt: skip
        for i, width in enumerate(self.widths):
            lines.append(f".reg .{Reg('', width, self.hints[i]).declared} %i{i}; {_get(i, width, i * self.rows * 8)}")
        owner = [-1] * len(lines)
        word = 0
        for number, block in enumerate(self.blocks):
            body = ["{", *block.lines]
            for out in block.outs:
                body.append(_put(out.register, word * self.rows * 8, self.rows * 8))
                word += out.words
            body.append("}")
            lines += body
            owner += [number] * len(body)
        return "\n".join([*lines, "ret;", "}"]) + "\n", [*owner, -1, -1]

    def _memory_lines(self) -> list[str]:
        needs = frozenset[str]().union(*(b.needs for b in self.blocks))
        lines = []
        if "local" in needs:
            lines.append(f".local .align 16 .b8 local[{OWN}];")
        if "shared" in needs:
            lines += [
                f".shared .align 16 .b8 shared[{BLOCK * OWN}];",
                f"mov.u32 %own, shared; mov.u32 %x, %tid.x; mad.lo.u32 %own, %x, {OWN}, %own;",
            ]
        if "tile" in needs:
            lines.append(f".shared .align 32 .b8 tiles[{BLOCK // 32 * TILE}];")
            lines.append(f"mov.u32 %tile, tiles; mov.u32 %x, %tid.x; shr.u32 %x, %x, 5; mad.lo.u32 %tile, %x, {TILE}, %tile;")
        if "common" in needs:
            lines.append(".shared .align 16 .b8 common[128];")
        return lines

    def launch(self, program: Program) -> Launch:
        """A launch of the kernel on memory of its own; what it writes is in ``results``."""
        memory = [allocate(_IN, self.inputs), allocate(_OUT, np.full(self.words * self.rows * 8, FILL, np.uint8))]
        if self.memory:
            memory.append(allocate(_MEMORY, np.full(self.rows * OWN, FILL, np.uint8)))
        args = struct.pack("<4Q", _IN, _OUT, _MEMORY if self.memory else 0, _HANDLE if self.texture else 0) + self.blob
        textures = {} if self.texture is None else {_HANDLE: self.texture}
        return Launch(program, (self.rows // BLOCK, 1, 1), (BLOCK, 1, 1), args, allocations=memory, textures=textures)

    def results(self, launch: Launch) -> NDArray[np.uint64]:
        """uint64[words, rows]"""
        return launch.allocations[1].data.view(np.uint64).reshape(self.words, self.rows)


def program_of(text: str) -> Program:
    """The entry of a kernel's text, bound."""
    return bind(Document.parse(text), ENTRY)


def _get(i: int, width: int, at: int) -> str:
    load = f"ld.global.b64 %v, [%in+{at}];"
    match width:
        case 1:
            return f"{load} setp.ne.u64 %i{i}, %v, 0;"
        case 16:
            return f"{load} mov.b64 {{%w, %x}}, %v; mov.b32 {{%i{i}, %h}}, %w;"
        case 32:
            return f"{load} mov.b64 {{%i{i}, %x}}, %v;"
    return f"{load} mov.b64 %i{i}, %v;"


def _put(register: Reg, at: int, stride: int) -> str:
    match register.width:
        case 1:
            return f"selp.u64 %d, 1, 0, {register.name}; st.global.b64 [%out+{at}], %d;"
        case 16:
            return (
                f"mov.b16 %h, 0; mov.b32 %w, {{{register.name}, %h}}; mov.b32 %x, 0; mov.b64 %d, {{%w, %x}}; st.global.b64 [%out+{at}], %d;"
            )
        case 32:
            return f"mov.b32 %x, 0; mov.b64 %d, {{{register.name}, %x}}; st.global.b64 [%out+{at}], %d;"
        case 128:
            return f"mov.b128 {{%d, %d1}}, {register.name}; st.global.b64 [%out+{at}], %d; st.global.b64 [%out+{at + stride}], %d1;"
    return f"st.global.b64 [%out+{at}], {register.name};"


def statement(form: Form, outs: Sequence[Reg], ins: Sequence[str | None], literal: int | None = None, pair: bool = True) -> str:
    """The form's opcode with operands, as parts of registers where the form says so; an input that is None is left out, and with ``pair`` false the second
    half of ``d|p`` too."""
    operands: list[str] = []
    left, given = iter(outs), iter(ins)
    for role in form.roles:
        if role.name == IMMEDIATE:
            operands.append(f"{literal:#x}")
        elif role.kind == "out":
            names = [next(left).name for _ in range(role.count)] if pair or not role.pair else []
            if role.pair:
                operands[-1] += f"|{names[0]}" if names else ""
            else:
                operands.append(_part(form, role, _operand(role, form, names)))
        else:
            texts = [next(given) for _ in range(role.count)]
            if texts[0] is not None:
                operands.append(_part(form, role, _operand(role, form, [t for t in texts if t is not None])))
    return f"{form.opcode.partition(' ')[0]} {', '.join(operands)};"


def _part(form: Form, role: Role, text: str) -> str:
    part = form.parts.get(role.name, "")
    if not part or text[0] != "%":
        return text
    sign, rest = part[: part.startswith("-")], part.lstrip("-")
    return f"{sign}{text}{'.' if rest else ''}{rest}"


def _operand(role: Role, form: Form, names: list[str]) -> str:
    return "{" + ", ".join(names) + "}" if role.count > 1 or (form.tensor and role.kind != "text" and role.name != "e") else names[0]


@dataclass(slots=True)
class Builder:
    """Writes one block: registers, lines and results."""

    rng: np.random.Generator
    inputs: list[Reg]
    prefix: str = ""
    lines: list[str] = field(default_factory=list)
    registers: list[Reg] = field(default_factory=list)
    declared: list[Reg] = field(default_factory=list)
    made_by: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.registers = list(self.inputs)

    def fresh(self, width: int, hint: str) -> Reg:
        """A new register, not yet given to anyone as an operand."""
        made = Reg(f"%t{len(self.declared)}", width, hint)
        self.declared.append(made)
        return made

    def made(self, register: Reg, root: str) -> Reg:
        """Let later statements read the register."""
        self.registers.append(register)
        self.made_by[register.name] = root
        return register

    def emit(self, line: str) -> None:
        self.lines.append(line)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, choices: Sequence):
        """One of the choices."""
        return choices[int(self.rng.integers(len(choices)))]

    def use(self, register: Reg) -> str:
        self.used.add(register.name)
        return register.name

    def register(self, width: int, hint: str = "", last: Reg | None = None) -> Reg | None:
        """A register of that width: ``last`` if it fits, else mostly one with that meaning, and rather a late one. For an f64 only an f64 will do: other
        bits could be a NaN of their own."""
        fitting = [r for r in self.registers if r.width == width and (hint != "f64" or r.hint == "f64")]
        if last is not None and last in fitting:
            return last
        same = [r for r in fitting if r.hint == hint]
        chosen = same if same and self.chance(0.8) else fitting
        if not chosen:
            return None
        return chosen[-1 - int(min(self.rng.integers(len(chosen)), self.rng.integers(len(chosen))))]

    def typed(self, register: Reg, type: str) -> str:
        """The register's name, or that of a copy declared so that an operand of the type can be it."""
        self.used.add(register.name)
        wanted = type if type in ("f32", "f64") else TYPES[register.width]
        if register.width in (32, 64) and register.declared != wanted:
            copy = self.fresh(register.width, wanted)
            self.emit(f"mov.b{register.width} {copy.name}, {register.name};")
            return copy.name
        return register.name

    def block(self, label: str, outs: Sequence[Reg], needs: Sequence[str] = ()) -> Block:
        """What was written, as a block with these results."""
        by_type: dict[str, list[str]] = {}
        for r in self.declared:
            by_type.setdefault(r.declared, []).append(r.name)
        declarations = [f".reg .{type} {', '.join(names)};" for type, names in by_type.items()]
        return Block(label, [*declarations, *self.lines], [Out(r, self.made_by[r.name]) for r in outs], frozenset(needs))


# -- literals ---------------------------------------------------------------------------------------------------------
def literal(rng: np.random.Generator, type: Type, bits: int) -> str | None:
    """Bits of a type as a literal; None where PTX has none for it."""
    if type.name == "f32":
        return f"0f{bits & 0xFFFFFFFF:08X}"
    if type.name == "f64":
        return f"0d{bits & 0xFFFFFFFFFFFFFFFF:016X}"
    if type.kind not in "bus" or type.width not in (16, 32, 64):
        return None
    bits &= (1 << type.width) - 1
    signed = bits - (1 << type.width) if bits >> (type.width - 1) else bits
    if type.width == 64 and signed == -(1 << 63):
        return f"{bits:#x}U" if type.kind == "u" else f"{bits:#x}"
    return f"{bits:#x}" if type.width == 32 and rng.random() < 0.3 else str(signed)


def integer(rng: np.random.Generator, width: int) -> int:
    """An integer that breaks things, or any."""
    listed = integer_values(width)
    if rng.random() < 0.6:
        return int(listed[int(rng.integers(len(listed)))])
    return int(rng.integers(0, 1 << 63)) >> int(rng.integers(0, 63)) & ((1 << width) - 1)
