"""Fragments of a warp's register file as vectors over matrix rows, in LLVM text.

Invariant: in an A, C or D register of a dense shape lane 4g + t holds word t of row g (rows 8 and on in the next register), in a B register word t
of column g; so a register read as bytes is a row-major matrix, and everything here is one shuffle away from it. Of a sparse A the same holds for its stored elements.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxgraft.isa.fragments import Sparsity
from ptxgraft.isa.numerics import MmaPlan
from ptxgraft.isa.types import type_of
from ptxgraft.lower.ir import Emitter, IrModule, element_width
from ptxgraft.lower.numpy_mma import layouts

OPERANDS = ("d", "a", "b", "c", "e")
"""The order of the operand table: the registers of D, A, B and C, and then of a sparse A's metadata and of A's and B's factors."""

NONFINITE = {
    "e4m3": (8, 0x7F),
    "e5m2": (8, 0x7C),
    "e3m2": (8, 0),
    "e2m3": (8, 0),
    "e2m1": (8, 0),
    "f16": (16, 0x7C00),
    "bf16": (16, 0x7F80),
    "tf32": (32, 0x7F800000),
}
"""Width and mask of a float format: an element is NaN or infinite when all bits of the mask are set (0: none is)."""


@dataclass(frozen=True, slots=True)
class _Small:
    """A format of six or four bits in a byte: masks of its sign and of the rest, how far the rest moves to lie in an f16, and what the f16 is then to be times."""

    sign: int
    size: int
    place: int
    scale: float


_SMALL = {"e3m2": _Small(0x20, 0x1F, 8, 2.0**12), "e2m3": _Small(0x20, 0x1F, 7, 2.0**14), "e2m1": _Small(0x20, 0x1C, 7, 2.0**14)}


def decoded_scale(format: str, work: str) -> int:
    """Decoded elements are 2^this times the true ones: as float, e4m3 bits moved into an f16 keep sign and fraction and gain 8 of bias."""
    return -8 if format == "e4m3" and work == "float" else 0


def constant(element: str, value: int | float) -> str:
    """A constant; floats of both widths are written as the bits of a double."""
    return f"0x{int.from_bytes(struct.pack('<d', value), 'little'):016X}" if element in ("float", "double") else str(value)


def splat(element: str, value: int | float) -> str:
    """A vector constant."""
    return f"splat ({element} {constant(element, value)})"


def vector(count: int, element: str) -> str:
    """The IR vector type of ``count`` elements, of one too."""
    return f"<{count} x {element}>"


def _align(type: str) -> int:
    """What every element of an array of ``type`` is aligned to, the array being aligned to 64 bytes."""
    count, _, element = type.strip("<>").rpartition(" x ")
    return min(64, int(count or 1) * element_width(element) // 8)


def lane_list(values: Sequence[int] | range) -> str:
    """Numbers as the elements of a constant i32 vector, a shuffle mask say."""
    return ", ".join(f"i32 {v}" for v in values)


class Tile:
    """The text of one function over one plan's fragments."""

    def __init__(self, module: IrModule, plan: MmaPlan, name: str) -> None:
        self.module, self.plan, self.name = module, plan, name
        self.text = Emitter(module)
        self.rows, self.columns, _ = plan.mnk
        self.depth = plan.depth
        self.word = "i64" if plan.d == "f64" else "i32"
        layout = dict(zip("abcd", layouts(plan), strict=True))
        self.registers = {o: layout[o].registers for o in "abcd"} | {"e": int(plan.sparse) + 2 * bool(plan.scale)}
        self.per = layout["a"].per_register
        """Elements of A and B in a register."""
        self._meetings: list[str] = []

    # -- lines ----------------------------------------------------------------------------------------------------------------
    def value(self, text: str) -> str:
        return self.text.value(text)

    def op(self, opcode: str, type: str, left: str, right: str) -> str:
        return self.text.value(f"{opcode} {type} {left}, {right}")

    def convert(self, opcode: str, source: str, name: str, target: str) -> str:
        return self.text.value(f"{opcode} {source} {name} to {target}")

    def select(self, type: str, condition: str, yes: str, no: str) -> str:
        count = type[1:].partition(" ")[0]
        return self.text.value(f"select <{count} x i1> {condition}, {type} {yes}, {type} {no}")

    def call(self, result: str, function: str, *operands: tuple[str, str]) -> str:
        """A call of an intrinsic with (type, name) operands."""
        self.text.declare(f"declare {result} @{function}({', '.join(t for t, _ in operands)})")
        return self.text.value(f"call {result} @{function}({', '.join(f'{t} {n}' for t, n in operands)})")

    def load(self, type: str, base: str, index: int | str = 0) -> str:
        return self.text.value(f"load {type}, ptr {self.at(base, type, index)}, align {_align(type)}")

    def store(self, type: str, name: str, base: str, index: int | str = 0) -> None:
        self.text.emit(f"store {type} {name}, ptr {self.at(base, type, index)}, align {_align(type)}")

    def at(self, base: str, type: str, index: int | str) -> str:
        return base if index == 0 else self.text.value(f"getelementptr {type}, ptr {base}, i64 {index}")

    def broadcast(self, element: str, name: str) -> str:
        """A scalar to all rows."""
        type = vector(self.rows, element)
        single = self.value(f"insertelement {type} poison, {element} {name}, i64 0")
        return self.value(f"shufflevector {type} {single}, {type} poison, <{self.rows} x i32> zeroinitializer")

    def column_loop(self, label: str, body: Callable[[str], None]) -> None:
        """``body(n)`` for n = 0 .. columns - 1, an i64 in the text; the body may not open blocks."""
        before = self.text.block
        self.text.emit(f"br label %{label}")
        self.text.label(label)
        self.text.emit(f"%{label}.n = phi i64 [ 0, %{before} ], [ %{label}.next, %{label} ]")
        body(f"%{label}.n")
        self.text.emit(f"%{label}.next = add i64 %{label}.n, 1")
        self.text.emit(f"%{label}.more = icmp ult i64 %{label}.next, {self.columns}")
        self.text.emit(f"br i1 %{label}.more, label %{label}, label %{label}.end")
        self.text.label(f"{label}.end")

    def finish(self, parameters: str = "ptr noalias %rf, ptr noalias %operands") -> None:
        self.text.emit("ret void")
        self.module.functions[self.name] = f"define void @{self.name}({parameters}) nounwind {{\n{self.text.body()}\n}}"

    # -- fragments ------------------------------------------------------------------------------------------------------------
    def pointer(self, operand: str, index: int) -> str:
        """The address of a fragment register."""
        number = sum(self.registers[o] for o in OPERANDS[: OPERANDS.index(operand)]) + index
        offset = self.value(f"load i32, ptr {self.at('%operands', 'i32', number)}, align 4")
        return self.value(f"getelementptr i8, ptr %rf, i64 {self.convert('zext', 'i32', offset, 'i64')}")

    def read(self, operand: str) -> list[str]:
        """All registers of an operand."""
        return [self.value(f"load <32 x {self.word}>, ptr {self.pointer(operand, i)}, align 64") for i in range(self.registers[operand])]

    def groups(self, operand: str, registers: Sequence[str]) -> list[tuple[str, ...]]:
        """Registers of A, C or D that hold the same columns: one for each eight rows."""
        tall = self.rows // 8
        count = len(registers) // tall
        if operand == "a":
            return [tuple(registers[g * tall : g * tall + tall]) for g in range(count)]
        return [tuple(registers[half * count + g] for half in range(tall)) for g in range(count)]

    def words(self, group: tuple[str, ...]) -> list[str]:
        """Words 0 to 3 of each row: four vectors over the rows."""
        type = vector(32, self.word)
        both = f"{type} {group[0]}, {type} {group[-1]}"
        lanes = [[4 * g + t + 32 * half for half in range(len(group)) for g in range(8)] for t in range(4)]
        return [self.value(f"shufflevector {both}, <{self.rows} x i32> <{lane_list(row)}>") for row in lanes]

    def write(self, number: int, words: Sequence[str]) -> None:
        """The reverse: four vectors over the rows into the ``number``-th group of D's registers."""
        narrow, wide = vector(self.rows, self.word), vector(2 * self.rows, self.word)
        ends = f"<{2 * self.rows} x i32> <{lane_list(range(2 * self.rows))}>"
        low, high = (self.value(f"shufflevector {narrow} {words[t]}, {narrow} {words[t + 1]}, {ends}") for t in (0, 2))
        count = self.registers["d"] // (self.rows // 8)
        for half in range(self.rows // 8):
            lanes = [t * self.rows + 8 * half + g for g in range(8) for t in range(4)]
            result = self.value(f"shufflevector {wide} {low}, {wide} {high}, <32 x i32> <{lane_list(lanes)}>")
            self.text.emit(f"store <32 x {self.word}> {result}, ptr {self.pointer('d', half * count + number)}, align 64")

    def accumulators(self, operand: str) -> list[str]:
        """C by columns: vectors over the rows, as bits (i16, i32 or i64)."""
        columns: dict[int, str] = {}
        for number, group in enumerate(self.groups("c", self.read(operand))):
            for t, word in enumerate(self.words(group)):
                if self.plan.c != "f16":
                    columns[2 * t + number] = word
                    continue
                type, half = vector(self.rows, "i32"), vector(self.rows, "i16")
                columns[2 * t] = self.convert("trunc", type, word, half)
                columns[2 * t + 1] = self.convert("trunc", type, self.op("lshr", type, word, splat("i32", 16)), half)
        return [columns[n] for n in range(self.columns)]

    def put_results(self, columns: Sequence[str]) -> None:
        """D from its columns: vectors over the rows, as bits."""
        if self.plan.d != "f16":
            for number in (0, 1):
                self.write(number, [columns[2 * t + number] for t in range(4)])
            return
        type, half = vector(self.rows, "i32"), vector(self.rows, "i16")
        words: list[str] = []
        for t in range(4):
            low, high = (self.convert("zext", half, columns[2 * t + j], type) for j in (0, 1))
            words.append(self.op("or", type, low, self.op("shl", type, high, splat("i32", 16))))
        self.write(0, words)

    def place(self, k: int) -> int:
        """Where element k of B's column 0 lies in the array that ``spread`` or ``planes`` fills; see ``column_stride``."""
        register, rest = divmod(k, 4 * self.per)
        if self.by_planes:
            return (register * self.per + rest % self.per) * 32 + rest // self.per
        return register * 32 * self.per + rest

    def factor(self, element: str, column: str, k: int) -> str:
        """What A's k-th element of each row meets of B: a vector over the rows. ``column``: where B's column begins in the array."""
        if not self.plan.sparse:
            return self.broadcast(element, self.load(element, column, self.place(k)))
        type, pointers = vector(self.rows, element), vector(self.rows, "ptr")
        places = self.value(f"getelementptr {element}, ptr {column}, {vector(self.rows, 'i32')} {self._meetings[k]}")
        name, truth = f"llvm.masked.gather.v{self.rows}f{element_width(element)}.v{self.rows}p0", vector(self.rows, "i1")
        self.text.declare(f"declare {type} @{name}({pointers}, {truth}, {type})")
        align = element_width(element) // 8
        return self.value(f"call {type} @{name}({pointers} align {align} {places}, {truth} splat (i1 true), {type} poison)")

    def read_metadata(self) -> None:
        """Find out which elements of B a sparse A's elements meet; before the first ``factor``, in the entry block. Nothing for a dense A."""
        if not self.plan.sparse:
            return
        found, type = Sparsity.of(self.plan.shape, self.plan.a), vector(self.rows, "i32")
        register = self.read("e")[0]
        for group in range(found.lanes.shape[1]):
            lanes = lane_list(found.lanes[:, group].tolist())
            word = self.value(f"shufflevector <32 x i32> {register}, <32 x i32> poison, <{self.rows} x i32> <{lanes}>")
            nibble = self.op("lshr", type, word, f"<{lane_list(found.shifts[:, group].tolist())}>")
            low, high = (self.op("and", type, x, splat("i32", 3)) for x in (nibble, self.op("lshr", type, nibble, splat("i32", 2))))
            if found.stored == 1:
                within = [self.op("lshr", type, low, splat("i32", 1))]
            elif found.stored == 2:
                within = [low, high]
            else:
                doubles = [self.op("shl", type, x, splat("i32", 1)) for x in (low, high)]
                within = [self.op("add", type, x, splat("i32", i)) for x in doubles for i in (0, 1)]
            # A group of columns lies in one word, so that the places of its elements are evenly apart.
            start, apart = self.place(found.group * group), self.place(1) - self.place(0)
            for x in within:
                self._meetings.append(self.op("add", type, self.op("mul", type, x, splat("i32", apart)), splat("i32", start)))

    @property
    def by_planes(self) -> bool:
        """Integers are taken apart by shifts, so that elements of one position in the word lie together; floats stay in order."""
        return type_of(self.plan.b).kind != "f"

    @property
    def column_stride(self) -> int:
        """From an element of B's column n to that of column n + 1."""
        return 4 if self.by_planes else 4 * self.per

    # -- elements -------------------------------------------------------------------------------------------------------------
    def row_elements(self, format: str, words: str, work: str) -> list[str]:
        """The elements of one word of each row, lowest bits first: vectors of ``work`` (float or double) over the rows."""
        n = self.rows
        i32 = vector(n, "i32")
        kind = type_of(format)
        if kind.kind != "f":
            return [self._integer(n, words, kind.width, kind.signed, i, work) for i in range(self.per)]
        if format in ("tf32", "bf16"):
            mask = 0xFFFFE000 if format == "tf32" else 0xFFFF0000
            parts = [words] if format == "tf32" else [self.op("shl", i32, words, splat("i32", 16)), words]
            return [self._float(self.op("and", i32, part, splat("i32", mask)), work) for part in parts]
        if format in _SMALL:
            width = 32 // self.per
            return [self._small(format, n, self.op("lshr", i32, words, splat("i32", width * i)), "i32", work) for i in range(self.per)]
        if format == "f16":
            halves = [words]
        else:
            halves = self._halves(format, words)
        elements: list[str] = []
        for shift in (0, 16):
            for half in halves:
                moved = self.op("lshr", i32, half, splat("i32", shift)) if shift else half
                bits = self.convert("bitcast", vector(n, "i16"), self.convert("trunc", i32, moved, vector(n, "i16")), vector(n, "half"))
                elements.append(self._unscale(format, n, self.convert("fpext", vector(n, "half"), bits, vector(n, work)), work))
        return elements

    def _halves(self, format: str, words: str) -> list[str]:
        """Two bytes at a time: the low, then the high byte of each 16 bits as an f16 in its place."""
        i32, i16 = vector(self.rows, "i32"), vector(2 * self.rows, "i16")
        high = self.convert("bitcast", i32, words, i16)
        both = [self.op("shl", i16, high, splat("i16", 8)), high]
        if format == "e4m3":
            both = [self.op("ashr", i16, part, splat("i16", 1)) for part in both]
        mask = splat("i16", -16512 if format == "e4m3" else -256)  # 0xBF80, 0xFF00
        return [self.convert("bitcast", i16, self.op("and", i16, part, mask), i32) for part in both]

    def _float(self, bits: str, work: str) -> str:
        single = self.convert("bitcast", vector(self.rows, "i32"), bits, vector(self.rows, "float"))
        return single if work == "float" else self.convert("fpext", vector(self.rows, "float"), single, vector(self.rows, "double"))

    def _integer(self, count: int, words: str, width: int, signed: bool, index: int, work: str) -> str:
        i32 = vector(count, "i32")
        left = 32 - width * (index + 1)
        moved = self.op("shl", i32, words, splat("i32", left)) if left else words
        moved = self.op("ashr" if signed else "lshr", i32, moved, splat("i32", 32 - width))
        return self.convert("sitofp", i32, moved, vector(count, work))

    def planes(self, format: str, register: str, work: str) -> list[str]:
        """A B register's integers: first all elements 0 of the words, then all elements 1 ..., 32 each."""
        kind = type_of(format)
        return [self._integer(32, register, kind.width, kind.signed, i, work) for i in range(self.per)]

    def spread(self, format: str, register: str, work: str) -> str:
        """A B register's elements as one vector of ``work`` in the order column, k."""
        count = 32 * self.per
        i16, i32, target = vector(count, "i16"), vector(count, "i32"), vector(count, work)
        if format in ("tf32", "bf16"):
            if format == "tf32":
                bits = self.op("and", i32, register, splat("i32", 0xFFFFE000))
            else:
                narrow = self.convert("bitcast", vector(32, "i32"), register, i16)
                bits = self.op("shl", i32, self.convert("zext", i16, narrow, i32), splat("i32", 16))
            single = self.convert("bitcast", i32, bits, vector(count, "float"))
            return single if work == "float" else self.convert("fpext", vector(count, "float"), single, target)
        if format in _SMALL:
            bytes_ = self.convert("bitcast", vector(32, "i32"), register, vector(128, "i8"))
            if self.per == 8:
                both = f"{vector(128, 'i8')} {bytes_}, {vector(128, 'i8')} {self.op('lshr', vector(128, 'i8'), bytes_, splat('i8', 4))}"
                bytes_ = self.value(f"shufflevector {both}, <256 x i32> <{lane_list([i // 2 + 128 * (i % 2) for i in range(256)])}>")
            return self._small(format, count, bytes_, "i8", work)
        if format == "f16":
            half = self.convert("bitcast", vector(32, "i32"), register, vector(count, "half"))
        else:
            byte = self.convert("bitcast", vector(32, "i32"), register, vector(count, "i8"))
            moved = self.op("shl", i16, self.convert("sext", vector(count, "i8"), byte, i16), splat("i16", 7 if format == "e4m3" else 8))
            if format == "e4m3":
                moved = self.op("and", i16, moved, splat("i16", -16512))
            half = self.convert("bitcast", i16, moved, vector(count, "half"))
        return self._unscale(format, count, self.convert("fpext", vector(count, "half"), half, target), work)

    def _small(self, format: str, count: int, bits: str, integer: str, work: str) -> str:
        """Elements of six or four bits in the lowest bits of integers, whose other bits count for nothing; of four bits among bytes: in the middle of the byte."""
        assert work == "double", f"{format} is taken apart in double alone"
        small = _SMALL[format]
        type, i16, doubles = vector(count, integer), vector(count, "i16"), vector(count, "double")
        shorts = self.convert("trunc" if integer == "i32" else "zext", type, bits, i16)
        sign, size, place = small.sign, small.size, small.place
        if format == "e2m1" and self.per == 8:
            sign, size, place = 0x08, 0x07, 9
        # Seen as f16 after the move, the exponent's bias is too large: the product puts that right, for subnormals too.
        moved = self.op("shl", i16, self.op("and", i16, shorts, splat("i16", size)), splat("i16", place))
        top = self.op("shl", i16, self.op("and", i16, shorts, splat("i16", sign)), splat("i16", 16 - sign.bit_length()))
        half = self.convert("bitcast", i16, self.op("or", i16, moved, top), vector(count, "half"))
        return self.op("fmul", doubles, self.convert("fpext", vector(count, "half"), half, doubles), splat("double", small.scale))

    def _unscale(self, format: str, count: int, value: str, work: str) -> str:
        if format == "e4m3" and work == "double":
            return self.op("fmul", vector(count, work), value, splat(work, 256.0))
        return value


def restore_nan(tile: Tile, format: str, value: str, count: int, work: str) -> str:
    """e4m3's NaN was decoded as 480, the number that it would be."""
    if format != "e4m3":
        return value
    type = vector(count, work)
    size = tile.call(type, f"llvm.fabs.v{count}f{32 if work == 'float' else 64}", (type, value))
    nan = tile.op("fcmp oeq", type, size, splat(work, 480 * 2.0 ** decoded_scale(format, work)))
    return tile.value(f"select {vector(count, 'i1')} {nan}, {type} {splat(work, float('nan'))}, {type} {value}")
