"""Instructions of the table as small GPU kernels, with the operands to try them on.

Invariant: a case holds everything that both sides need: the form, the bits of every input element for every row, and PTX that computes the same rows.
Inputs come from memory and outputs go there, so that a compiler can fold nothing. The same table gives the same cases.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa import ENTRIES, TYPES, Entry, Form, Role, form_of

FULL_MASK = 0xFFFFFFFF
SM = 90
NO_FAMILY = frozenset({"address", "memory", "barrier", "control", "texture", "atomic", "mbarrier", "cluster"})
"""Families whose results depend on more than register operands, or whose operands are of the implementation's own making (a state of mbarrier)."""

IMMEDIATE = "table"
"""Name of the one role whose operand has to be a literal (``lop3``)."""
TABLES = (0x00, 0x01, 0x16, 0x1E, 0x2A, 0x40, 0x54, 0x6A, 0x80, 0x96, 0xA8, 0xB8, 0xCA, 0xE2, 0xE8, 0xF8, 0xFE, 0xFF)

FLOATS = {"f16": (5, 10), "bf16": (8, 7), "f32": (8, 23), "tf32": (8, 23), "f64": (11, 52), "e4m3": (4, 3), "e5m2": (5, 2)}
"""Exponent and fraction bits."""


@dataclass(frozen=True, slots=True)
class Slot:
    """One register of a kernel: an element of a role. ``width`` is the value's, ``register`` the register's (both in bits)."""

    role: Role
    width: int
    register: int


@dataclass(slots=True, eq=False)
class Case:
    """One kernel. ``inputs`` are uint64[words of all input slots, rows] as they lie in memory (a 128-bit slot has two words); with ``warp``, each
    32 rows are one warp. ``examples`` are (first row, rows, expected output bits). ``literal`` stands for the role ``IMMEDIATE``."""

    key: str
    form: Form
    ins: list[Slot]
    outs: list[Slot]
    inputs: NDArray[np.uint64]
    examples: list[tuple[int, int, tuple[int, ...]]]
    literal: int | None = None
    absent: bool = False

    @property
    def rows(self) -> int:
        return self.inputs.shape[1]

    @property
    def out_words(self) -> int:
        return sum(words(s) for s in self.outs)


def words(slot: Slot) -> int:
    """64-bit words that a slot takes in memory."""
    return 2 if slot.register == 128 else 1


# -- which forms ------------------------------------------------------------------------------------------------------
def computes(entry: Entry) -> bool:
    """Does the entry give outputs from register operands alone (those of other lanes included)?"""
    kinds = {text.split()[0] for _, text in entry.roles}
    plain = entry.meaning is not None and not (entry.control or entry.loads or entry.stores) and entry.family not in NO_FAMILY
    return plain and {"in", "out"} <= kinds <= {"in", "out", "inout"}


def spellings(entry: Entry) -> Iterator[str]:
    """Every legal way to fill the slots of an entry."""
    choices = [(*slot.choices, "") if slot.optional else slot.choices for slot in entry.slots]
    for chosen in itertools.product(*choices):
        slots = {slot.name: word for slot, word in zip(entry.slots, chosen, strict=True) if slot.name}
        if entry.legal is None or entry.legal(**slots):
            yield ".".join(word for word in chosen if word)


def forms(root: str = "") -> Iterator[Form]:
    """Every form of the table that can be a case, once; of one ``root`` when it is given."""
    seen: set[str] = set()
    for entry in itertools.chain.from_iterable(ENTRIES.values()):
        if entry.sm <= SM and computes(entry) and root in ("", entry.root):
            for opcode in spellings(entry):
                form = form_of(opcode)
                if form is not None and form.entry is entry and opcode not in seen:
                    seen.add(opcode)
                    yield form


# -- operands ---------------------------------------------------------------------------------------------------------
def float_values(name: str) -> list[int]:
    """Bits that break float code: zeros, ones and neighbours, the ends of the normal and subnormal ranges, infinities, NaNs, halves to round, and the
    ends of integer types."""
    exponent_bits, fraction_bits = FLOATS[name]
    one = (1 << (exponent_bits - 1)) - 1
    top, unit = (1 << exponent_bits) - 1, 1 << fraction_bits
    found = [0, 1, unit - 1, unit, unit + 1, one * unit, one * unit + 1, one * unit - 1, one * unit + unit // 2, (one + 1) * unit]
    found += [
        (one - 1) * unit,
        (one + 1) * unit + unit // 2,
        top * unit - 1,
        top * unit,
        top * unit + unit // 2,
        top * unit + 1,
        (top + 1) * unit - 1,
    ]
    for power in (-24, -14, -2, 7, 8, 15, 16, 31, 32, 63, 64, fraction_bits, fraction_bits + 1):
        if 0 < one + power < top:
            found += [(one + power) * unit, (one + power) * unit - 1, (one + power) * unit + max(unit >> max(power + 1, 0), 1)]
    half = exponent_bits + fraction_bits
    return list(dict.fromkeys(b | sign << half for b in found for sign in (0, 1)))


def integer_values(width: int) -> list[int]:
    """Bits that break integer code: 0, 1, -1, the ends, shift amounts around every width, single bits and patterns."""
    mask = (1 << width) - 1
    small = [
        0,
        1,
        2,
        3,
        5,
        7,
        8,
        9,
        15,
        16,
        17,
        31,
        32,
        33,
        63,
        64,
        65,
        127,
        128,
        255,
        256,
        0x8000,
        0xFFFF,
        0x10000,
        0x7FFFFFFF,
        0x80000000,
        0xFFFFFFFF,
    ]
    ends = [
        mask,
        mask - 1,
        mask >> 1,
        (mask >> 1) + 1,
        (mask >> 1) + 2,
        mask // 3,
        mask // 3 * 2,
        mask // 17,
        mask // 255 * 0x80,
        0x1234567890ABCDEF,
    ]
    return list(dict.fromkeys(v & mask for v in small + ends))


def _random_float(rng: np.random.Generator, name: str, count: int) -> NDArray[np.uint64]:
    exponent_bits, fraction_bits = FLOATS[name]
    one, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    near = np.clip(one + rng.integers(-fraction_bits - 3, fraction_bits + 4, count), 0, top)
    exponent = np.where(rng.random(count) < 0.6, near, rng.integers(0, top + 1, count)).astype(np.uint64)
    fraction = rng.integers(0, 1 << fraction_bits, count, dtype=np.uint64)
    fraction = np.where(rng.random(count) < 0.2, fraction & np.uint64(3 << max(fraction_bits - 2, 0)), fraction)
    sign = rng.integers(0, 2, count, dtype=np.uint64)
    return sign << np.uint64(exponent_bits + fraction_bits) | exponent << np.uint64(fraction_bits) | fraction


def _random_integer(rng: np.random.Generator, width: int, count: int) -> NDArray[np.uint64]:
    bits = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> rng.integers(64 - width, 64, count, dtype=np.uint64)
    full = rng.integers(0, 1 << 64, count, dtype=np.uint64) >> np.uint64(64 - width)
    return np.where(rng.random(count) < 0.5, bits, full)


def parts_of(name: str, width: int) -> tuple[str, int]:
    """The element's format ('' for an integer) and how many lie in one value of ``width`` bits: ``f16x2`` holds two ``f16``."""
    base, _, count = name.partition("x")
    if count.isdigit():
        return (base if base in FLOATS else ""), int(count)
    return (name, 1) if name in FLOATS else ("", 1)


def column(rng: np.random.Generator, name: str, width: int, count: int) -> NDArray[np.uint64]:
    """``count`` values of a type: a third from the list that breaks things, the rest random; packed types have independent parts."""
    format_, parts = parts_of(name, width)
    part = width // parts
    total = np.zeros(count, np.uint64)
    for i in range(parts):
        listed = float_values(format_) if format_ else integer_values(part)
        chosen = np.array(listed, np.uint64)[rng.integers(0, len(listed), count)]
        random = _random_float(rng, format_, count) if format_ else _random_integer(rng, part, count)
        total |= np.where(rng.random(count) < 0.35, chosen, random) << np.uint64(i * part)
    return total


def _fragment(rng: np.random.Generator, element: str, width: int, count: int) -> NDArray[np.uint64]:
    """A register of a tensor-core fragment with elements of type ``element``; most of moderate size, so that sums mean something."""
    if element not in FLOATS:
        return _random_integer(rng, width, count)
    exponent_bits, fraction_bits = FLOATS[element]
    size = 32 if element == "tf32" else 1 + exponent_bits + fraction_bits
    total = np.zeros(count, np.uint64)
    for i in range(width // size):
        wild = column(rng, element, size, count)
        one = (1 << (exponent_bits - 1)) - 1
        exponent = np.clip(one + rng.integers(-4, 3, count), 1, (1 << exponent_bits) - 2).astype(np.uint64) << np.uint64(fraction_bits)
        tame = (
            rng.integers(0, 2, count, dtype=np.uint64) << np.uint64(size - 1)
            | exponent
            | rng.integers(0, 1 << fraction_bits, count, dtype=np.uint64)
        )
        total |= np.where(rng.random(count) < 0.02, wild, tame) << np.uint64(i * size)
    return total


def _rows_of(form: Form, ins: Sequence[Slot]) -> int:
    if form.tensor:
        return 32 * 48
    if form.family == "compare":
        return 2048
    if len(ins) == 1:
        return 1 << 16 if ins[0].width <= 16 else 1 << 15
    return 1 << 13


def _columns(form: Form, ins: Sequence[Slot]) -> list[NDArray[np.uint64]]:
    """Values of every input slot: all pairs of listed values of the first two operands while there is room, then mixed ones."""
    rng = np.random.default_rng(zlib.crc32(form.opcode.encode()))
    count = _rows_of(form, ins)
    if form.tensor:
        types = [word for word in form.opcode.split(".") if word in TYPES]  # d, a, b, c; wmma of f16 leaves a and b out
        at, bt = types[1:3] if len(types) == 4 else ("f16", "f16")
        elements = {"a": at, "b": bt, "c": types[-1]}
        return [_fragment(rng, elements[s.role.name], s.width, count) for s in ins]
    made = []
    for slot in ins:
        assert slot.role.type is not None
        # A 128-bit value's upper half is made when it is laid out in memory.
        full = slot.role.name == "membermask"
        made.append(np.full(count, FULL_MASK, np.uint64) if full else column(rng, slot.role.type.name, min(slot.width, 64), count))
    if len(ins) == 1 and ins[0].width <= 16:
        made[0] = np.arange(1 << 16, dtype=np.uint64) & np.uint64((1 << ins[0].width) - 1)
    elif len(ins) > 1 and not form.convergent:
        lists = []
        for slot in ins[:2]:
            assert slot.role.type is not None
            format_, parts = parts_of(slot.role.type.name, slot.width)
            part = slot.width // parts
            listed = np.array(float_values(format_) if format_ else integer_values(part), np.uint64)
            lists.append(sum((np.roll(listed, i) << np.uint64(i * part) for i in range(parts)), np.zeros(len(listed), np.uint64)))
        first, second = (a.reshape(-1) for a in np.meshgrid(*lists, indexing="ij"))
        keep = np.arange(len(first)) if len(first) <= count // 2 else rng.permutation(len(first))[: count // 2]
        made[0][: len(keep)], made[1][: len(keep)] = first[keep], second[keep]
    return made


# -- cases ------------------------------------------------------------------------------------------------------------
def _slot(form: Form, role: Role, wide: bool = False) -> Slot:
    assert role.type is not None
    width = role.type.width
    # bytes live in 16-bit registers, but conversions with bf16 take registers of exactly their types
    exact = width in (1, 32, 64, 128) or _bf16(form)
    return Slot(role, width, width if exact else 32 if wide else 16)


def _bf16(form: Form) -> bool:
    return form.root == "cvt" and "bf16" in form.opcode.split(".")


def _slots(form: Form, absent: bool, wide: bool) -> tuple[list[Slot], list[Slot]]:
    ins = [
        _slot(form, r)
        for r in form.roles
        if r.kind in ("in", "inout") and not (absent and r.optional) and r.name != IMMEDIATE
        for _ in range(r.count)
    ]
    outs = [_slot(form, r, wide) for r in form.roles if r.kind in ("out", "inout") for _ in range(r.count)]
    return ins, outs


def cases(form: Form) -> Iterator[Case]:
    """The cases of a form: with its optional inputs and without; a conversion to a narrow type also into a wider register."""
    literals: tuple[int | None, ...] = TABLES if any(r.name == IMMEDIATE for r in form.roles) else (None,)
    optional = any(r.optional and r.kind == "in" for r in form.roles)
    results = [r.type for r in form.roles if r.kind == "out" and r.type is not None]
    narrow = form.root == "cvt" and not _bf16(form) and any(t.width < 32 and t.kind != "x" for t in results)
    for literal, absent, wide in itertools.product(
        literals, (False, True) if optional else (False,), (False, True) if narrow else (False,)
    ):
        ins, outs = _slots(form, absent, wide)
        key = (
            form.opcode
            + (f" {literal:#04x}" if literal is not None else "")
            + (" without optional" if absent else "")
            + (" wide" if wide else "")
        )
        columns = _columns(form, ins)
        examples = _examples(form, ins, literal)
        repeat = 32 if form.convergent else 1
        placed = [(i * repeat, repeat, outputs) for i, (_, outputs) in enumerate(examples)]
        lead = [np.repeat(np.array([row[i] for row, _ in examples], np.uint64), repeat) for i in range(len(ins))]
        values = [np.concatenate(pair) for pair in zip(lead, columns, strict=True)]
        yield Case(key, form, ins, outs, _in_memory(form, ins, values), placed, literal, absent)


def _examples(form: Form, ins: Sequence[Slot], literal: int | None) -> list[tuple[list[int], tuple[int, ...]]]:
    """The table's own rows for this form: input bits by slot, output bits."""
    found = []
    for opcode, inputs, outputs in form.entry.examples:
        if opcode != form.opcode:
            continue
        row = list(inputs)
        if _mask(form, row) != FULL_MASK:  # all lanes of a warp run here, and a lane outside the mask must not
            continue
        if literal is not None:
            position = sum(r.count for r in itertools.takewhile(lambda r: r.name != IMMEDIATE, form.roles) if r.kind in ("in", "inout"))
            if row.pop(position) != literal:
                continue
        if len(row) == len(ins) and all(s.width <= 64 for s in ins):
            found.append(([v & ((1 << s.width) - 1) for v, s in zip(row, ins, strict=True)], tuple(outputs)))
    return found


def _mask(form: Form, row: Sequence[int]) -> int:
    """The member mask that an example gives; ``FULL_MASK`` where there is none."""
    position = 0
    for role in form.roles:
        if role.name == "membermask":
            return row[position] & FULL_MASK
        position += role.count if role.kind in ("in", "inout") else 0
    return FULL_MASK


def _in_memory(form: Form, ins: Sequence[Slot], values: Sequence[NDArray[np.uint64]]) -> NDArray[np.uint64]:
    """One word a slot; what lies above a value in a wider register is noise, which an operation has to ignore."""
    rng = np.random.default_rng(zlib.crc32(form.opcode.encode()) + 1)
    rows = []
    for slot, value in zip(ins, values, strict=True):
        if slot.register == 128:
            rows += [value, rng.integers(0, 1 << 64, len(value), dtype=np.uint64)]
        elif slot.register > slot.width:
            rows.append(value | rng.integers(0, 1 << (slot.register - slot.width), len(value), dtype=np.uint64) << np.uint64(slot.width))
        else:
            rows.append(value)
    return np.stack(rows)


# -- PTX --------------------------------------------------------------------------------------------------------------
HEADER = f".version 8.8\n.target sm_{SM}\n.address_size 64\n"
_TYPES = {1: "pred", 8: "b8", 16: "b16", 32: "b32", 64: "b64", 128: "b128"}


def kernel(case: Case, name: str) -> list[str]:
    """The lines of an entry ``name(in, out, rows)`` that computes row ``ctaid * ntid + tid``; grids may have more threads than rows, whole warps of them."""
    lines = [
        f".visible .entry {name}(.param .u64 in, .param .u64 out, .param .u32 rows)", "{",
        ".reg .pred %ok, %t; .reg .b32 %c, %n, %x, %row, %rows, %w; .reg .b64 %in, %out, %at, %v, %v1, %d;",
        "mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %x, %tid.x; mad.lo.u32 %row, %c, %n, %x;",
        "ld.param.u32 %rows, [rows]; setp.ge.u32 %ok, %row, %rows; @%ok ret;",
        "ld.param.u64 %in, [in]; ld.param.u64 %out, [out]; mul.wide.u32 %at, %row, 8; add.u64 %in, %in, %at; add.u64 %out, %out, %at;",
    ]  # fmt: skip
    lines += [f".reg .{_TYPES[s.register]} %i{i};" for i, s in enumerate(case.ins)]
    lines += [f".reg .{_TYPES[s.register]} %o{i};" for i, s in enumerate(case.outs)]
    word = 0
    for i, slot in enumerate(case.ins):
        lines.append(_get(slot, i, word * case.rows * 8, case.rows * 8))
        word += words(slot)
    lines += _operation(case)
    word = 0
    for i, slot in enumerate(case.outs):
        lines.append(_put(slot, i, word * case.rows * 8, case.rows * 8))
        word += words(slot)
    return [*lines, "ret;", "}"]


def _get(slot: Slot, i: int, at: int, stride: int) -> str:
    load = f"ld.global.b64 %v, [%in+{at}];"
    match slot.register:
        case 1:
            return f"{load} setp.ne.u64 %i{i}, %v, 0;"
        case 64:
            return f"{load} mov.b64 %i{i}, %v;"
        case 8:
            return f"ld.global.b8 %i{i}, [%in+{at}];"
        case 128:
            return f"{load} ld.global.b64 %v1, [%in+{at + stride}]; mov.b128 %i{i}, {{%v, %v1}};"
        case width:
            return f"{load} cvt.u{width}.u64 %i{i}, %v;"


def _put(slot: Slot, i: int, at: int, stride: int) -> str:
    match slot.register:
        case 1:
            return f"selp.u64 %d, 1, 0, %o{i}; st.global.b64 [%out+{at}], %d;"
        case 64:
            return f"st.global.b64 [%out+{at}], %o{i};"
        case 8:
            return f"mov.b64 %d, 0; st.global.b64 [%out+{at}], %d; st.global.b8 [%out+{at}], %o{i};"
        case 128:
            return f"mov.b128 {{%v, %v1}}, %o{i}; st.global.b64 [%out+{at}], %v; st.global.b64 [%out+{at + stride}], %v1;"
        case width:
            return f"cvt.u64.u{width} %d, %o{i}; st.global.b64 [%out+{at}], %d;"


def _operation(case: Case) -> list[str]:
    """The instruction itself. The condition code is set before it and read after it by sums, whose carry it is."""
    form = case.form
    operands: list[str] = []
    before: list[str] = []
    after: list[str] = []
    i = o = 0
    for role in form.roles:
        taken: list[str] = []
        if role.kind in ("in", "inout") and role.name != IMMEDIATE and not (case.absent and role.optional):
            taken = [f"%i{n}" for n in range(i, i + role.count)]
            i += role.count
        results: list[str] = []
        if role.kind in ("out", "inout"):
            results = [f"%o{n}" for n in range(o, o + role.count)]
            o += role.count
        if role.implicit:
            if taken:
                before.append(f"selp.u32 %w, 1, 0, {taken[0]}; add.cc.u32 %w, %w, 0xFFFFFFFF;")
            if results:
                after.append(f"addc.u32 %w, 0, 0; setp.ne.u32 {results[0]}, %w, 0;")
        elif role.name == IMMEDIATE:
            operands.append(f"{case.literal:#x}")
        elif role.pair:
            operands[-1] += f"|{results[0]}"
        elif taken or results:
            names = results or taken
            operands.append("{" + ", ".join(names) + "}" if role.count > 1 or form.tensor else names[0])
    return [*before, f"{form.opcode} {', '.join(operands)};", *after]
