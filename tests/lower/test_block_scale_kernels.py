"""Products with factors for blocks, as kernels on both engines, against NumPy: small whole numbers, whose sums are exact on every profile that has them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import FragmentLayout, Sparsity
from ptxgraft.run import ENGINES

pytestmark = pytest.mark.filterwarnings("ignore::ptxgraft.errors.UnconfirmedWarning")

VALUES = {
    "e2m1": [0, 0.5, 1, 1.5, 2, 3, 4, 6],
    "e2m3": [0, 1, 2, 3, 4, 5, 6, 7],
    "e4m3": [0, 1, 2, 3, 4, 6, 8, 12],
    "e3m2": [0, 1, 2, 3, 4, 6, 8, 12],
}
CODES = {
    "e2m1": [0, 1, 2, 3, 4, 5, 6, 7], "e2m3": [0, 8, 16, 20, 24, 26, 28, 30], "e4m3": [0, 0x38, 0x40, 0x44, 0x48, 0x4C, 0x50, 0x54],
    "e3m2": [0, 12, 16, 18, 20, 22, 24, 26],
}  # fmt: skip
SIGN = {"e2m1": 8, "e2m3": 32, "e4m3": 128, "e3m2": 32}


@dataclass(frozen=True)
class Case:
    """An instruction, the kind's number of factors and their type, and the selectors to use."""

    opcode: str
    shape: str
    a: str
    b: str
    chunks: int = 0
    scale: str = ""
    bytes: tuple[int, int] = (0, 0)
    threads: tuple[int, int] = (0, 0)

    @property
    def sparse(self) -> bool:
        return self.opcode.startswith("mma.sp")


def _case(kind: str, a: str, b: str, chunks: int = 0, scale: str = "", *selectors: tuple[int, int], sparse: bool = False) -> Case:
    k = (64 if "mxf4" in kind else 32) * (2 if sparse else 1)
    vector = f".block_scale.scale_vec::{chunks}X" if chunks else ""
    head = "mma.sp::ordered_metadata" if sparse else "mma"
    opcode = f"{head}.sync.aligned.kind::{kind}{vector}.m16n8k{k}.row.col.f32.{a}.{b}.f32{'.' + scale if scale else ''}"
    return Case(opcode, f"m16n8k{k}", a, b, chunks, scale, *selectors)


CASES = [
    _case("f8f6f4", "e2m1", "e4m3"),
    _case("f8f6f4", "e2m3", "e3m2", sparse=True),
    _case("mxf8f6f4", "e4m3", "e2m1", 1, "ue8m0", (2, 3), (1, 3)),
    _case("mxf8f6f4", "e3m2", "e2m3", 1, "ue8m0", (1, 0), (0, 2), sparse=True),
    _case("mxf4", "e2m1", "e2m1", 2, "ue8m0", (2, 0), (0, 1)),
    _case("mxf4nvf4", "e2m1", "e2m1", 4, "ue4m3", (0, 0), (1, 2)),
    _case("mxf4nvf4", "e2m1", "e2m1", 2, "ue8m0", (0, 2), (1, 0), sparse=True),
]


def ptx(case: Case) -> str:
    """One warp: registers of A, B, C (and metadata, factors) from memory, D back. A buffer is [register][lane]."""
    counts = {"a": 4, "b": 4 if case.sparse else 2, "c": 4, "e": 3}
    loads, names = [], {}
    for operand, count in counts.items():
        names[operand] = [f"%{operand}{i}" for i in range(count)]
        loads += [f"\tld.param.u64 %base, [k_{operand}];", "\tadd.u64 %base, %base, %offset;"]
        loads += [f"\tld.global.b32 {name}, [%base+{128 * i}];" for i, name in enumerate(names[operand])]
    floats = [f"\tmov.b32 %f{i}, %c{i};" for i in range(4)]
    metadata = ", %e0, 0x0" if case.sparse else ""
    factors = "".join(f", %e{i + 1}, {{{case.bytes[i]}, {case.threads[i]}}}" for i in (0, 1)) if case.scale else ""
    operands = "{%d0, %d1, %d2, %d3}, " + ", ".join(f"{{{', '.join(n)}}}" for n in (names["a"], names["b"], ["%f0", "%f1", "%f2", "%f3"]))
    body = "\n".join([*loads, *floats, f"\t{case.opcode} {operands}{metadata}{factors};"])
    stores = "\n".join(f"\tst.global.f32 [%base+{128 * i}], %d{i};" for i in range(4))
    registers = ", ".join(n for operand in counts for n in names[operand])
    return f"""
.version 8.7
.target sm_120a
.address_size 64
.visible .entry k(.param .u64 k_a, .param .u64 k_b, .param .u64 k_c, .param .u64 k_e, .param .u64 k_d)
{{
	.reg .b32 {registers}, %lane;
	.reg .f32 %d<4>, %f<4>;
	.reg .b64 %base, %offset;
	mov.u32 %lane, %tid.x;
	mul.wide.u32 %offset, %lane, 4;
{body}
	ld.param.u64 %base, [k_d];
	add.u64 %base, %base, %offset;
{stores}
	ret;
}}
"""


def _registers(layout: FragmentLayout, matrix: np.ndarray) -> np.ndarray:
    """Element codes [row][column] as [register][lane]."""
    elements = matrix[layout.rows, layout.columns].astype(np.uint32)
    shifts = layout.element_bits * np.arange(layout.per_register, dtype=np.uint32)[None, :, None]
    return np.ascontiguousarray(np.bitwise_or.reduce(elements << shifts, axis=1))


def _draw(rng: np.random.Generator, element: str, layout: FragmentLayout) -> tuple[np.ndarray, np.ndarray]:
    """Random values of a matrix and their registers."""
    index, negative = rng.integers(0, 8, layout.matrix), rng.integers(0, 2, layout.matrix)
    codes = np.array(CODES[element])[index] + negative * SIGN[element]
    if element == "e2m1" and layout.element_bits == 8:
        codes <<= 2  # in the middle of its byte
    return np.array(VALUES[element])[index] * np.where(negative, -1, 1), _registers(layout, codes)


def _factors(rng: np.random.Generator, case: Case, rows: int, operand: int) -> tuple[np.ndarray, np.ndarray]:
    """Factors [row][chunk] of 1/2 to 4, and their register; whatever is not selected holds other bytes."""
    exponent = rng.integers(-1, 3, (rows, case.chunks))
    codes = exponent + 127 if case.scale == "ue8m0" else (exponent + 7) << 3
    words = rng.integers(0, 256, (32, 4), dtype=np.uint8)
    for row in range(rows):
        lane = 4 * (row % 8) + (2 * case.threads[0] + row // 8 if operand == 0 else case.threads[1])
        words[lane, case.bytes[operand] : case.bytes[operand] + case.chunks] = codes[row]
    return 2.0**exponent, words.view(np.uint32)[:, 0]


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.opcode.removeprefix("mma."))
def test_products(case: Case) -> None:
    rng = np.random.default_rng(5)
    of = FragmentLayout.of
    a, a_registers = _draw(rng, case.a, of(case.shape, case.a, "A", sparse=case.sparse))
    b, b_registers = _draw(rng, case.b, of(case.shape, case.b, "B", sparse=case.sparse))
    c_layout = of(case.shape, "f32", "C", sparse=case.sparse)
    c = rng.integers(-64, 64, c_layout.matrix).astype(np.float32)
    extra = np.zeros((3, 32), np.uint32)
    k = b.shape[0]
    if case.sparse:
        found = Sparsity.of(case.shape, case.a)
        # Elements 1 and 3 of four (pairs of eight) are stored.
        for row, group in np.ndindex(found.lanes.shape):
            extra[0, found.lanes[row, group]] |= np.uint32(0b1101 << int(found.shifts[row, group]))
        whole = np.zeros((16, k))
        each = found.group // 4
        whole.reshape(16, -1, 4, each)[:, :, [1, 3]] = a.reshape(16, -1, 2, each)
        a = whole
    if case.scale:
        by_row, extra[1] = _factors(rng, case, 16, 0)
        by_column, extra[2] = _factors(rng, case, 8, 1)
        a = a * np.repeat(by_row, k // case.chunks, axis=1)
        b = b * np.repeat(by_column, k // case.chunks, axis=1).T
    want = (a @ b + c).astype(np.float32)
    results = []
    for engine in ENGINES:
        for profile in ("sm_120", "manual"):
            d = np.zeros((4, 32), np.float32)
            kernel = ptxgraft.load(ptx(case)).kernel("k", profile=profile, engine=engine)
            kernel.launch(1, 32, [a_registers, b_registers, _registers(c_layout, c.view(np.uint32)), extra, d])
            results.append(d)
    expected = want[c_layout.rows[:, 0], c_layout.columns[:, 0]]
    for d in results:
        np.testing.assert_array_equal(d, expected)


@pytest.mark.parametrize("engine", ENGINES)
def test_other_generations_are_refused_by_name(engine: str) -> None:
    kernel = ptxgraft.load(ptx(CASES[0])).kernel("k", engine=engine)
    arrays = [np.zeros((n, 32), np.uint32) for n in (4, 2, 4, 3, 4)]
    with pytest.raises(UnsupportedError, match=r"kind::f8f6f4.* on profile sm_90 .*known on: manual, sm_120"):
        kernel.launch(1, 32, arrays)
