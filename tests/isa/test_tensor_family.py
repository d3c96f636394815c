"""Tensor spellings are ptxas's, and the matrix moves put every element where the manual says."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.isa import ENTRIES, Form, form_of
from ptxgraft.isa.fragments import FragmentLayout
from ptxgraft.lower.numpy_lanes import NumpyLanes

FAMILIES = ("tensor", "approximate")
PTX = (9, 0)
"""What these are assembled as; ``test_whole_isa`` has every version."""
REGISTER = {"b32": "r", "s32": "r", "u32": "r", "f32": "f", "f64": "d", "f16": "h", "bf16": "h", "f16x2": "r", "bf16x2": "r"}


def forms() -> list[Form]:
    """Every spelling of the two families that ``PTX`` has."""
    found: dict[str, Form] = {}
    for entry in (e for entries in ENTRIES.values() for e in entries if e.family in FAMILIES):
        for words in itertools.product(*([*slot.choices, ""] if slot.optional else slot.choices for slot in entry.slots)):
            form = form_of(".".join(filter(None, words)))
            if form is not None and form.since <= PTX:
                found[form.opcode] = form
    return list(found.values())


def statement(form: Form) -> str:
    operands = []
    for role in form.roles:
        if role.optional:
            continue
        if role.kind == "addr":
            operands.append("[l0]")
        elif form.opcode.startswith("mma.sp") and role.name == "f":
            operands.append("0x0")
        else:
            assert role.type is not None
            names = ", ".join(f"{REGISTER[role.type.name]}{i}" for i in range(role.count))
            single = form.family == "approximate" or form.root == "movmatrix" or (form.opcode.startswith("mma.sp") and role.name == "e")
            operands.append(names if single else f"{{{names}}}")
    return f"{form.opcode} {', '.join(operands)};"


def ptxas() -> str:
    packaged = Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin" / "ptxas"
    found = shutil.which("ptxas") or (str(packaged) if packaged.is_file() else None)
    if found is None:
        pytest.skip("ptxas is not here")
    return found


@pytest.mark.parametrize("architecture", [80, 89, 90])
def test_ptxas_takes_what_the_table_takes(architecture: int, tmp_path: Path) -> None:
    """At each target exactly the spellings are accepted that the table gives it."""
    rows = forms()
    assert len(rows) > 800
    head = f".version {PTX[0]}.{PTX[1]}\n.target sm_{architecture}\n.address_size 64\n.visible .entry k()\n{{\n"
    head += ".reg .b32 r<40>; .reg .f32 f<40>; .reg .f64 d<40>; .reg .b64 l<4>; .reg .b16 h<4>;\n"
    source = tmp_path / "k.ptx"
    source.write_text(head + "\n".join(statement(f) for f in rows) + "\nret;\n}\n")
    done = subprocess.run(
        [ptxas(), "-arch", f"sm_{architecture}", str(source), "-o", str(tmp_path / "k.cubin")], capture_output=True, text=True, check=False
    )
    first = head.count("\n") + 1
    refused = {int(line) - first: text for line, text in re.findall(r"line (\d+); error\s*: (.*)", done.stderr)}
    wrong = [f"{rows[i].opcode}: {text}" for i, text in refused.items() if rows[i].entry.sm <= architecture]
    wrong += [f"{f.opcode}: accepted" for i, f in enumerate(rows) if f.entry.sm > architecture and i not in refused]
    assert not wrong, "\n".join(wrong)


def test_what_mixes_types_is_no_instruction() -> None:
    assert form_of("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32") is not None
    for opcode in (
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f16",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f32",
        "mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32",
        "ex2.approx.ftz.f16",
    ):
        assert form_of(opcode) is None, opcode


def test_flags_may_stand_where_compilers_put_them() -> None:
    before = form_of("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.u8.s32")
    after = form_of("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32.satfinite")
    assert before is not None and after is not None
    assert before.slots == after.slots and before.tensor and before.convergent


def test_layouts_keep_their_order_among_themselves() -> None:
    """As ptxas has it: A is by row and B by column, wherever the two words stand."""
    for opcode in (
        "mma.sync.aligned.row.col.m16n8k16.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.f32.f16.f16.f32.col",
        "wmma.mma.sync.aligned.m16n16k16.row.col.f32.f32",
    ):
        assert form_of(opcode) is not None, opcode
    for opcode in (
        "mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
        "mma.sync.aligned.col.row.m16n8k16.f32.f16.f16.f32",
        "mma.sp.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32",
        "mma.sync.aligned.m16n8k16.row.row.f32.f16.f16.f32",
        "wmma.mma.sync.aligned.col.row.m8n8k128.xor.popc.s32.b1.b1.s32",
    ):
        assert form_of(opcode) is None, opcode
    swapped = form_of("mma.sync.aligned.col.row.m8n8k4.f32.f16.f16.f32")
    assert swapped is not None and (swapped.slots["alayout"], swapped.slots["blayout"]) == ("col", "row")


class Shared:
    """A machine with shared memory and nothing else."""

    def __init__(self, words: int) -> None:
        self.bytes = np.zeros(words * 4, np.uint8)
        self.active = np.ones((1, 32), bool)
        self.faults: list[str] = []

    def special(self, name: str) -> np.ndarray:
        assert name == "laneid"
        return np.arange(32, dtype=np.uint32)[None]

    def load(self, space: str, address: np.ndarray, width: int, count: int) -> tuple[np.ndarray, ...]:
        assert (space, count) == ("shared", 1)
        offsets = address[..., None].astype(np.int64) + np.arange(width // 8)
        return (np.ascontiguousarray(self.bytes[offsets]).view(f"<u{width // 8}")[..., 0],)

    def store(self, space: str, address: np.ndarray, values: Sequence[np.ndarray]) -> None:
        (value,) = values
        size = value.dtype.itemsize
        raw = np.ascontiguousarray(np.broadcast_to(value, (1, 32))).view(np.uint8).reshape(1, 32, size)
        self.bytes[address[..., None].astype(np.int64) + np.arange(size)] = raw

    def fault(self, p: np.ndarray, reason: str, value: np.ndarray | None) -> None:
        if np.any(p):
            self.faults.append(reason)


def matrices(count: int) -> tuple[Shared, np.ndarray, np.ndarray]:
    """(machine, row addresses by lane, the matrices' elements): rows lie 48 bytes apart in shuffled order."""
    rng = np.random.default_rng(count)
    machine, rows = Shared(512), rng.permutation(32)
    elements = rng.integers(0, 1 << 16, (count, 8, 8), dtype=np.uint16)
    for number in range(8 * count):
        start = 48 * rows[number]
        machine.bytes[start : start + 16] = elements[number // 8, number % 8].view(np.uint8)
    return machine, (48 * rows).astype(np.uint64)[None], elements


# An 8x8 matrix of b16 lies in a register as a quarter of an A fragment does.
PLACES = FragmentLayout.of("m16n8k8", "f16", "A")


def fragment(matrix: np.ndarray) -> np.ndarray:
    """The register [1, 32] that holds an 8x8 matrix of b16."""
    pairs = matrix[PLACES.rows[0], PLACES.columns[0]].T
    return np.ascontiguousarray(pairs).view(np.uint32).reshape(1, 32)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_come_and_go(count: int, transposed: bool) -> None:
    machine, addresses, elements = matrices(count)
    lanes = NumpyLanes("sm_90", machine)
    words = f"sync.aligned.m8n8.x{count}{'.trans' if transposed else ''}.shared.b16"
    load, store = form_of(f"ldmatrix.{words}"), form_of(f"stmatrix.{words}")
    assert load is not None and load.meaning is not None and store is not None and store.meaning is not None
    result = load.meaning(lanes, addresses, **load.options)
    registers = result if isinstance(result, tuple) else (result,)
    assert len(registers) == count
    for register, matrix in zip(registers, elements, strict=True):
        np.testing.assert_array_equal(register, fragment(matrix.T if transposed else matrix))
    before = machine.bytes.copy()
    machine.bytes[:] = 0
    store.meaning(lanes, addresses, result, **store.options)
    np.testing.assert_array_equal(machine.bytes, before)
    assert not machine.faults


def test_a_row_off_its_place_is_a_fault() -> None:
    machine, addresses, _ = matrices(1)
    load = form_of("ldmatrix.sync.aligned.m8n8.x1.shared.b16")
    assert load is not None and load.meaning is not None
    moved = addresses.copy()
    moved[0, 20] += 8  # a lane whose address is not looked at
    load.meaning(NumpyLanes("sm_90", machine), moved, **load.options)
    assert not machine.faults
    moved[0, 3] += 8
    load.meaning(NumpyLanes("sm_90", machine), moved, **load.options)
    assert machine.faults == ["a matrix row's address is no multiple of 16"]


def test_movmatrix_transposes() -> None:
    matrix = np.random.default_rng(3).integers(0, 1 << 16, (8, 8), dtype=np.uint16)
    form = form_of("movmatrix.sync.aligned.m8n8.trans.b16")
    assert form is not None and form.meaning is not None
    got = form.meaning(NumpyLanes("sm_90", Shared(1)), fragment(matrix), **form.options)
    np.testing.assert_array_equal(got, fragment(matrix.T))
