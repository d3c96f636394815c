"""Matrices of bytes through shared memory on both engines, against arrays: who holds which element."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

import ptxgraft
from ptxgraft.errors import KernelFault

LANES = np.arange(32)


def run(instruction: str, registers: int, data: NDArray[np.uint8], engine: str, store: bool = False) -> NDArray[np.uint8]:
    """Rows of 16 bytes at the lanes' addresses, in another order than theirs; loads give [lane, register, byte], stores what lies in the rows."""
    names = ", ".join(f"%r{10 + i}" for i in range(registers))
    out = np.full((32, 16), 0xEE, np.uint8)
    moves = [f"ld.global.u32 %r{10 + i}, [%rd4+{4 * i}];" for i in range(registers)] if store else []
    moves.append(f"{instruction} {f'[%r4], {{{names}}}' if store else f'{{{names}}}, [%r4]'};")
    moves += [f"st.global.u32 [%rd5+{4 * i}], %r{10 + i};" for i in range(registers)] if not store else []
    first = "st.shared.v2.u64 [%r4], {%rd6, %rd7};" if not store else "st.shared.v2.u64 [%r4], {-1, -1};"
    last = "ld.shared.v2.u64 {%rd6, %rd7}, [%r4]; st.global.v2.u64 [%rd5], {%rd6, %rd7};" if store else ""
    ptx = f""".version 8.8
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .shared .align 16 .b8 shm[512]; .reg .b32 %r<20>; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; add.u64 %rd4, %rd1, %rd3; add.u64 %rd5, %rd2, %rd3;
    mad.lo.u32 %r2, %r1, 5, 3; and.b32 %r2, %r2, 31; mov.u32 %r3, shm; mad.lo.u32 %r4, %r2, 16, %r3;
    ld.global.v2.u64 {{%rd6, %rd7}}, [%rd4]; {first} bar.warp.sync -1;
    {chr(10).join(moves)}
    bar.warp.sync -1; {last}
    ret;
}}
"""
    ptxgraft.load(ptx).kernel("k", engine=engine).launch(1, 32, [data, out])
    return out


def spread(rows: NDArray[np.uint8], bits: int) -> NDArray[np.uint8]:
    """[row, 16] elements of packed rows."""
    if bits == 8:
        return rows
    all_bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : 16 * bits].reshape(-1, 16, bits)
    return np.packbits(np.pad(all_bits, ((0, 0), (0, 0), (0, 8 - bits))), axis=2, bitorder="little")[:, :, 0]


@pytest.fixture(params=["numpy", "warp"])
def engine(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def data() -> NDArray[np.uint8]:
    return np.random.default_rng(4).integers(0, 256, (32, 16)).astype(np.uint8)


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize(("source", "bits"), [("b6x16_p32", 6), ("b4x16_p64", 4)])
def test_rows_of_small_elements(engine: str, data: NDArray[np.uint8], number: int, source: str, bits: int) -> None:
    found = run(f"ldmatrix.sync.aligned.m8n16.x{number}.shared.b8x16.{source}", number, data, engine).reshape(32, 4, 4)
    elements = spread(data, bits)
    for matrix in range(number):
        want = elements[8 * matrix + LANES[:, None] // 4, 4 * (LANES[:, None] % 4) + np.arange(4)]
        np.testing.assert_array_equal(found[:, matrix], want)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize(("source", "bits"), [("b8", 8), ("b8x16.b6x16_p32", 6), ("b8x16.b4x16_p64", 4)])
def test_columns_of_elements(engine: str, data: NDArray[np.uint8], number: int, source: str, bits: int) -> None:
    found = run(f"ldmatrix.sync.aligned.m16n16.x{number}.trans.shared.{source}", 2 * number, data, engine).reshape(32, 4, 4)
    elements = spread(data, bits)
    for register in range(2 * number):
        rows = 16 * (register // 2) + 4 * (LANES[:, None] % 4) + np.arange(4)
        np.testing.assert_array_equal(found[:, register], elements[rows, LANES[:, None] // 4 + 8 * (register % 2)])


@pytest.mark.parametrize("number", [1, 2, 4])
def test_stored_columns(engine: str, data: NDArray[np.uint8], number: int) -> None:
    found = run(f"stmatrix.sync.aligned.m16n8.x{number}.trans.shared.b8", number, data, engine, store=True)
    given = data.reshape(32, 4, 4)
    want = np.full((32, 16), 0xFF, np.uint8)
    for matrix in range(number):
        for i in range(4):
            want[8 * matrix + 2 * (LANES % 4) + i % 2, LANES // 4 + 8 * (i // 2)] = given[:, matrix, i]
    np.testing.assert_array_equal(found, want)


def test_rows_are_aligned(engine: str, data: NDArray[np.uint8]) -> None:
    with pytest.raises(KernelFault, match="a matrix row's address is no multiple of 16"):
        run("add.u32 %r4, %r4, 8; ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8", 2, data, engine)
