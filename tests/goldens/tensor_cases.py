"""Sparse ``mma`` and ``wmma`` instructions as cases for a GPU: which forms, with which operands, in which kernel; and the results recorded of them.

Invariant: operands follow from the case alone (splitmix64 of its name), so that a recording needs to hold results only. One kernel a case; block w computes
warp w's share and touches nothing else.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ptxgraft.isa import ENTRIES, Form, form_of

FORMATS = {
    "e4m3": (1, 4, 3),
    "e5m2": (1, 5, 2),
    "f16": (2, 5, 10),
    "bf16": (2, 8, 7),
    "tf32": (4, 8, 23),
    "f32": (4, 8, 23),
    "f64": (8, 11, 52),
}
"""Bytes, exponent bits and fraction bits of float formats."""
ORDERED, DISTINCT, ANY = (4, 8, 9, 12, 13, 14), tuple(i for i in range(16) if i & 3 != i >> 2), tuple(range(16))
"""Metadata nibbles: indices that rise, that differ, and all."""
FILL = 0xEE
"""What memory holds before a store."""


@dataclass(frozen=True, slots=True)
class Case:
    """One instruction. ``nibbles``: what its metadata is drawn from; ``selector``: which lanes supply it; ``pad``: bytes between a matrix's rows."""

    form: Form
    warps: int
    selector: int = 0
    nibbles: tuple[int, ...] = ()
    pad: int = 0

    @property
    def name(self) -> str:
        words = [self.form.opcode]
        if self.nibbles:
            words += [f"selector{self.selector}", f"nibbles{len(self.nibbles)}"]
        return " ".join(words + ([f"pad{self.pad}"] if self.pad else []))


def _random(name: str, count: int) -> np.ndarray:
    """``count`` 64-bit words: splitmix64 from a state that the name gives."""
    with np.errstate(over="ignore"):
        x = np.uint64(zlib.crc32(name.encode())) << np.uint64(32)
        x = x + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def registers(name: str, warps: int, count: int, format: str) -> np.ndarray:
    """[warp][register][lane] of words: any bits in each fourth warp; else floats near 1, floats far apart, or floats near 1 with zeros and specials."""
    word = np.uint64 if format == "f64" else np.uint32
    raw = _random(name, warps * count * 32 * np.dtype(word).itemsize // 8)
    if format not in FORMATS:
        return raw.view(word).reshape(warps, count, 32)
    size, exponent_bits, fraction_bits = FORMATS[format]
    dtype = np.dtype(f"<u{size}").type
    values = raw.view(dtype).reshape(warps, -1).copy()
    chance = _random(name + "?", values.size).reshape(values.shape)
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    for kind, spread in ((1, 3), (2, 12), (3, 3)):
        rows, odds = values[kind::4], chance[kind::4]
        exponent = np.clip(bias - spread + (odds % np.uint64(2 * spread + 1)).astype(np.int64), 0, top - 1).astype(dtype)
        rows = rows & dtype((1 << (exponent_bits + fraction_bits + 1)) - 1 - (top << fraction_bits)) | exponent << dtype(fraction_bits)
        if kind == 3:
            rows = np.where(odds >> np.uint64(61) == 0, dtype(0), rows)
            rows = np.where(odds >> np.uint64(54) == 1023, dtype(top << fraction_bits), rows)
            rows = np.where(odds >> np.uint64(54) == 1022, dtype((1 << (exponent_bits + fraction_bits + 1)) - 1), rows)
        values[kind::4] = rows
    return np.ascontiguousarray(values).view(word).reshape(warps, count, 32)


def metadata(name: str, warps: int, nibbles: tuple[int, ...]) -> np.ndarray:
    """[warp][1][lane]: every lane's word is made of nibbles that are allowed."""
    raw = _random(name, warps * 32).view(np.uint8).reshape(warps, 1, 32, 8)
    chosen = np.array(nibbles, np.uint32)[raw % len(nibbles)]
    return np.bitwise_or.reduce(chosen << (4 * np.arange(8, dtype=np.uint32)), axis=-1)


def matrix_of(form: Form) -> tuple[int, int, int, bool]:
    """(major, minor, bits of an element, by rows?) of the matrix that a ``wmma.load`` or ``wmma.store`` moves: ``major`` runs of ``minor`` elements."""
    words = form.opcode.split(".")
    shape = next(w for w in words if w[0] == "m" and w[1:2].isdigit())
    m, n, k = (int(x) for x in shape[1:].replace("n", " ").replace("k", " ").split())
    rows, columns = {"a": (m, k), "b": (k, n)}.get(words[2], (m, n))
    bits = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "f16": 16, "bf16": 16, "f64": 64}.get(words[-1], 32)
    by_rows = form.slots["layout"] == "row"
    return (rows, columns, bits, True) if by_rows else (columns, rows, bits, False)


def stride_bytes(case: Case) -> int:
    """Bytes from one run of a case's matrix to the next."""
    _, minor, bits, _ = matrix_of(case.form)
    return minor * bits // 8 + case.pad


def image_bytes(case: Case) -> int:
    """Bytes of a case's matrix in memory."""
    return matrix_of(case.form)[0] * stride_bytes(case)


def image(case: Case) -> np.ndarray:
    """[warp][byte] of what a load reads; what a store finds."""
    size = case.warps * image_bytes(case)
    if case.form.stores:
        return np.full((case.warps, image_bytes(case)), FILL, np.uint8)
    return _random(case.name, -(-size // 8)).view(np.uint8)[:size].reshape(case.warps, -1)


def formats(form: Form) -> dict[str, str]:
    """The element format of each operand that is a fragment."""
    words, slots = form.opcode.split("."), form.slots
    if form.root == "mma":
        return {"d": slots["dt"], "a": slots["at"], "b": slots["bt"], "c": slots["ct"]}
    if words[1] != "mma":
        return {"d": words[-1]}
    element = next((w for w in words if w in ("bf16", "tf32", "s8", "u8", "s4", "u4", "b1")), "f64" if slots["dt"] == "f64" else "f16")
    return {"d": slots["dt"], "a": element, "b": element, "c": slots["ct"]}


def operands(case: Case) -> dict[str, np.ndarray]:
    """[warp][register][lane] of every input register, by role."""
    found: dict[str, np.ndarray] = {}
    for role in case.form.roles:
        if role.kind == "in" and role.name in "abcd":
            found[role.name] = registers(f"{case.name} {role.name}", case.warps, role.count, formats(case.form)[role.name])
        elif role.name == "e":
            found["e"] = metadata(f"{case.name} e", case.warps, case.nibbles)
    return found


def _spellings(*roots: str) -> Iterator[Form]:
    for entry in (e for root in roots for e in ENTRIES[root] if e.family == "tensor"):
        choices = [[*slot.choices, ""] if slot.optional else slot.choices for slot in entry.slots if slot.name != "space"]
        for words in itertools.product(*choices):
            opcode = ".".join(filter(None, words))
            form = form_of(opcode)
            if form is not None and form.entry is entry:
                yield form


def selectors(form: Form) -> int:
    """How many sparsity selectors a sparse ``mma`` has. ptxas takes 2 and 3 for m16n8k32 on f16 with f32 results too: an illegal instruction on an H200."""
    bits = {"f16": 16, "bf16": 16, "tf32": 32}.get(form.slots["at"], 4 if form.slots["at"].endswith("4") else 8)
    short = int(form.slots["shape"].partition("k")[2]) * bits == 256
    return (4 if short else 2) if bits >= 16 else (2 if short else 1)


def sparse_cases(warps: int) -> Iterator[Case]:
    """Every sparse ``mma`` with every selector; for the first one also metadata that does not rise, and that is none (of tf32: means nothing we know)."""
    for form in _spellings("mma"):
        if not form.opcode.startswith("mma.sp"):
            continue
        ordered = (4, 14) if form.slots["at"] == "tf32" else ORDERED
        for selector in range(selectors(form)):
            yield Case(form, warps, selector, ordered)
        if form.slots["at"] != "tf32":
            yield Case(form, warps, 0, DISTINCT)
            yield Case(form, warps, 0, ANY)


def wmma_cases(warps: int) -> Iterator[Case]:
    """Every ``wmma``; loads and stores of global memory with as many warps as tell elements apart."""
    for form in _spellings("wmma"):
        words = form.opcode.split(".")
        if words[1] == "mma":
            yield Case(form, warps)
            continue
        yield Case(form, max(1, 32 // matrix_of(form)[2]), pad=32)
        yield Case(form, 1)


# -- kernels ----------------------------------------------------------------------------------------------------------
HEADER = ".version 8.5\n.target sm_90\n.address_size 64\n"
REGISTER = {"f32": "%f", "f64": "%d", "b32": "%r", "s32": "%r", "b64": "%d"}


def cases() -> list[Case]:
    """All cases, in the order of the recording."""
    return [*sparse_cases(16), *wmma_cases(16)]


def output_bytes(case: Case) -> int:
    """Bytes of one warp's result: registers, or the matrix in memory."""
    if case.form.stores:
        return image_bytes(case)
    role = case.form.roles[0]
    assert role.type is not None
    return role.count * 32 * role.type.bytes


def inputs(case: Case) -> np.ndarray:
    """[warp][byte] of what a kernel reads: all input registers, or the matrix in memory."""
    if case.form.loads:
        return image(case)
    registers = operands(case)
    return np.concatenate([np.ascontiguousarray(r).view(np.uint8).reshape(case.warps, -1) for r in registers.values()], axis=1)


def before(case: Case) -> np.ndarray:
    """[warp][byte] of what the result's memory holds at first."""
    return image(case) if case.form.stores else np.zeros((case.warps, output_bytes(case)), np.uint8)


def kernel(number: int, case: Case) -> str:
    """The entry ``k<number>`` of a case."""
    lines = [f".visible .entry k{number}(.param .u64 in, .param .u64 out)", "{"]
    lines += [".reg .b32 %r<48>; .reg .f32 %f<48>; .reg .f64 %d<48>; .reg .b64 %l<8>; .reg .b32 %t<4>;"]
    lines += ["ld.param.u64 %l0, [in]; ld.param.u64 %l1, [out]; mov.u32 %t0, %ctaid.x; mov.u32 %t1, %tid.x;"]
    lines += [f"mad.wide.u32 %l0, %t0, {inputs(case).shape[1]}, %l0; mad.wide.u32 %l1, %t0, {output_bytes(case)}, %l1;"]
    lines += ["mul.wide.u32 %l2, %t1, 4; mul.wide.u32 %l3, %t1, 8; add.s64 %l4, %l0, %l2; add.s64 %l5, %l0, %l3;"]
    lines += ["add.s64 %l2, %l1, %l2; add.s64 %l3, %l1, %l3;"]
    loads, stores, written, used, at = [], [], [], 0, 0
    for role in case.form.roles:
        if role.kind == "addr":
            written.append("[%l1]" if case.form.stores else "[%l0]")
            continue
        if role.name == "f":
            written.append(str(case.selector))
            continue
        if role.name == "stride":
            if case.pad:
                written.append(str(stride_bytes(case) * 8 // matrix_of(case.form)[2]))
            continue
        assert role.type is not None
        wide = role.type.width == 64
        names = [f"{REGISTER[role.type.name]}{used + i}" for i in range(role.count)]
        used += role.count
        for i, name in enumerate(names):
            if role.kind == "out":
                stores.append(f"st.global.{role.type.name} [{'%l3' if wide else '%l2'}+{i * (256 if wide else 128)}], {name};")
            else:
                loads.append(f"ld.global.{role.type.name} {name}, [{'%l5' if wide else '%l4'}+{at}];")
                at += 256 if wide else 128
        written.append(names[0] if role.name == "e" else f"{{{', '.join(names)}}}")
    return "\n".join([*lines, *loads, f"{case.form.opcode} {', '.join(written)};", *stores, "ret;", "}"])


# -- recordings -------------------------------------------------------------------------------------------------------
HERE = Path(__file__).parent
SAMPLE = 128
"""Bytes of one warp's result that a recording holds; of the other warps, and of the rest, a checksum."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a GPU gave for a case: CRC-32 of each warp's bytes, and the first bytes of warp ``warp``."""

    checksums: tuple[int, ...]
    warp: int
    sample: np.ndarray


def summary(number: int, result: np.ndarray) -> Result:
    """The ``number``-th case's results, [warp][byte], as they are recorded."""
    warp = number % len(result)
    return Result(tuple(zlib.crc32(row.tobytes()) for row in result), warp, result[warp, :SAMPLE])


def write_results(path: Path, head: dict[str, str], results: dict[str, Result]) -> None:
    """Write a recording: an index (JSON bytes: ``head``, and of each case its name, checksums and sample's size) and all samples in its order."""
    index = [{"case": n, "checksums": r.checksums, "warp": r.warp, "bytes": r.sample.size} for n, r in results.items()]
    text = np.frombuffer(json.dumps({**head, "cases": index}).encode(), np.uint8)
    np.savez_compressed(path, index=text, samples=np.concatenate([r.sample for r in results.values()]))


def read_results() -> dict[str, Result]:
    """The recording in this folder, by case."""
    with np.load(HERE / "tensor.npz") as file:
        index, samples = json.loads(bytes(file["index"])), file["samples"]
    found, at = {}, 0
    for entry in index["cases"]:
        found[entry["case"]] = Result(tuple(entry["checksums"]), entry["warp"], samples[at : at + entry["bytes"]])
        at += entry["bytes"]
    assert at == samples.size
    return found
