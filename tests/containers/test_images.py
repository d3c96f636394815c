"""Fat binaries and cubins as nvcc makes them: which PTX is taken, which variables they name, and what lies about its size."""

from __future__ import annotations

import shutil
import struct
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.containers import CUBIN, PTX, kind_of, members_of, ptx_of, unpacked, variable_names, variables_of
from ptxgraft.errors import SourceError
from ptxgraft.graft.check import find_nvcc

SOURCE = """
__device__ int counter = 5;
__constant__ float table[64];
static __device__ float hidden[16];
extern "C" __global__ void k(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = x[i] * 2.f + table[i & 63] + hidden[i & 15] + atomicAdd(&counter, 1);
}
"""
VARIABLES = {"counter", "table", "hidden"}


@pytest.fixture(scope="module")
def fatbin(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """sm_90 code, PTX for 80 and 90."""
    nvcc = shutil.which("nvcc") or find_nvcc()
    if nvcc is None:
        pytest.skip("no nvcc: install the PyPI packages of the dev extra (nvidia-cuda-nvcc)")
    folder = tmp_path_factory.mktemp("fatbin")
    (folder / "a.cu").write_text(SOURCE)
    codes = [("90", "sm_90"), ("90", "compute_90"), ("80", "compute_80")]
    options = [word for virtual, code in codes for word in ("-gencode", f"arch=compute_{virtual},code={code}")]
    done = subprocess.run([str(nvcc), "-fatbin", *options, "a.cu", "-o", "a.fatbin"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return (folder / "a.fatbin").read_bytes()


def test_entries(fatbin: bytes) -> None:
    assert sorted((m.kind, m.target) for m in members_of(fatbin)) == [(PTX, 80), (PTX, 90), (CUBIN, 90)]
    assert kind_of(fatbin) == "fatbin"


@pytest.mark.parametrize(("architecture", "target"), [(None, b"sm_90"), (90, b"sm_90"), (89, b"sm_80"), (100, b"sm_90")])
def test_the_ptx_that_the_driver_would_take(fatbin: bytes, architecture: int | None, target: bytes) -> None:
    text = ptx_of(fatbin, architecture)
    assert text is not None and b".target " + target in text and b".entry k(" in text


def test_no_ptx(fatbin: bytes) -> None:
    assert ptx_of(fatbin, 70) is None
    code = unpacked(fatbin, next(m for m in members_of(fatbin) if m.kind == CUBIN))
    assert kind_of(code) == "elf" and ptx_of(code) is None


def test_variables_by_symbols_and_by_declarations(fatbin: bytes) -> None:
    text = ptx_of(fatbin)
    assert text is not None
    assert set(variables_of(fatbin)) == set(variables_of(text)) == VARIABLES
    code = unpacked(fatbin, next(m for m in members_of(fatbin) if m.kind == CUBIN))
    assert set(variables_of(code)) == set(variable_names(code)) == VARIABLES


def test_declarations_of_all_shapes() -> None:
    text = (
        b".version 8.0\n.visible .global .align 4 .u32 one = 7;\n.const .align 8 .b8 two[16] = {1, 2};\n.weak .global .v4 .f32 three;\n"
        b".extern .global .u32 foreign;\n\t.global .attribute(.managed) .align 4 .u32 four;\n// .global .u32 comment;\n.global .u32 five[];\n"
        b".shared .u32 other;\n.visible .entry k(.param .u64 .ptr .global p) { ld.global.u32 %r1, [one]; ret; }\n"
    )
    assert variables_of(text) == ["one", "two", "three", "four", "five"]


@given(at=st.integers(0, 79), value=st.integers(0, 255))
def test_lies_are_errors(fatbin: bytes, at: int, value: int) -> None:
    damaged = bytearray(fatbin)
    damaged[at] = value
    for read in (ptx_of, variables_of):
        try:
            read(bytes(damaged))
        except SourceError:
            pass


@given(cut=st.floats(0, 1))
def test_a_cut_cubin_is_an_error(fatbin: bytes, cut: float) -> None:
    code = unpacked(fatbin, next(m for m in members_of(fatbin) if m.kind == CUBIN))
    sections_end = struct.unpack_from("<Q", code, 40)[0] + 64 * struct.unpack_from("<H", code, 60)[0]
    with pytest.raises(SourceError):
        variable_names(code[: int(cut * (sections_end - 1))])


def test_a_promise_of_too_much_is_refused_before_anything_is_made(fatbin: bytes) -> None:
    damaged = bytearray(fatbin)
    at = 16
    while struct.unpack_from("<H", damaged, at)[0] != 1:
        _, _, head, stored = struct.unpack_from("<HHIQ", damaged, at)
        at += head + stored
    struct.pack_into("<Q", damaged, at + 56, 1 << 50)
    with pytest.raises(SourceError, match="says"):
        ptx_of(bytes(damaged))
