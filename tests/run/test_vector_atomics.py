"""Atomics on vectors of halves on both engines, against NumPy and ml_dtypes; cache policies."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import ptxgraft

THREADS = 64
FORMATS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
NASTY = (
    0,
    0x8000,
    1,
    0x8001,
    0x3C00,
    0xBC00,
    0x3F80,
    0xBF80,
    0x7BFF,
    0xFBFF,
    0x7C00,
    0xFC00,
    0x7F80,
    0xFF80,
    0x7F7F,
    0xFF7F,
    0x7E00,
    0x7FFF,
    0xFFFF,
    0x7C01,
)
FORMS = [
    f"{root}.global.{op}.noftz.{vector}"
    for root, op, vector in itertools.product(
        ("atom", "red"), ("add", "min", "max"), [f"{v}.{t}" for t in FORMATS for v in ("v2", "v4", "v8")] + [f"{v}.{t}x2" for t in FORMATS for v in ("v2", "v4")]
    )
]  # fmt: skip


def wanted(op: str, name: str, old: NDArray[np.uint16], b: NDArray[np.uint16]) -> NDArray[np.uint16]:
    """Bits of the results: one NaN loses against a number, a NaN that is made is 0x7FFF, -0 is less than +0."""
    dtype = FORMATS[name]
    x, y = old.view(dtype).astype(np.float32), b.view(dtype).astype(np.float32)
    if op == "add":
        with np.errstate(all="ignore"):
            total = x + y
            code = total.astype(dtype).view(np.uint16)  # twice and more the bits: rounding twice rounds once
        return np.where(np.isnan(total), 0x7FFF, code).astype(np.uint16)
    order = [np.where(v >> 15, -(v & 0x7FFF).astype(int) - 1, v & 0x7FFF) for v in (old, b)]
    first = (order[0] < order[1]) == (op == "min")
    number = np.where(np.isnan(x), b, np.where(np.isnan(y), old, np.where(first, old, b)))
    return np.where(np.isnan(x) & np.isnan(y), 0x7FFF, number).astype(np.uint16)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_vectors_of_halves(engine: str) -> None:
    rng = np.random.default_rng(2)
    shape = (2, THREADS, 8)
    words = np.where(rng.random(shape) < 0.6, np.array(NASTY)[rng.integers(0, len(NASTY), shape)], rng.integers(0, 65536, shape)).astype(
        np.uint16
    )
    lines = []
    for i, form in enumerate(FORMS):
        count, size = int(form.split(".v")[1][0]), 4 if form.endswith("x2") else 2
        letter = "%r" if size == 4 else "%h"
        old, new = ("{" + ", ".join(f"{letter}{start + j}" for j in range(count)) + "}" for start in (20, 10))
        at, back = 32 * THREADS * i, 32 * THREADS * i + 16 * THREADS
        lines.append(f"st.global.v2.u64 [%rd2+{at}], {{%rd4, %rd5}};")
        lines += [f"ld.global.b{8 * size} {letter}{10 + j}, [%rd1+{16 * THREADS + size * j}];" for j in range(count)]
        lines.append(f"{form} {old + ', ' if form.startswith('atom') else ''}[%rd2+{at}], {new};")
        if form.startswith("atom"):
            lines += [f"st.global.b{8 * size} [%rd2+{back + size * j}], {letter}{20 + j};" for j in range(count)]
    ptx = f""".version 8.1
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %r<30>; .reg .b16 %h<30>; .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.v2.u64 {{%rd4, %rd5}}, [%rd1];
    {chr(10).join(lines)}
    ret;
}}
"""
    out = np.zeros((len(FORMS), 2, THREADS, 8), np.uint16)
    ptxgraft.load(ptx).kernel("k", engine=engine).launch(1, THREADS, [words, out])
    for form, (new, returned) in zip(FORMS, out, strict=True):
        name = form.rsplit(".", 1)[1].removesuffix("x2")
        count = int(form.split(".v")[1][0]) * (2 if form.endswith("x2") else 1)
        expected = words[0].copy()
        expected[:, :count] = wanted(form.split(".")[2], name, words[0, :, :count], words[1, :, :count])
        np.testing.assert_array_equal(new, expected, form)
        if form.startswith("atom"):
            np.testing.assert_array_equal(returned[:, :count], words[0, :, :count], form)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_a_policy_is_what_ptxas_computes_and_changes_nothing(engine: str) -> None:
    ptx = """.version 7.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .f32 f)
{
    .reg .f32 %f1; .reg .b32 %r1; .reg .b64 %rd<9>;
    ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [f];
    createpolicy.fractional.L2::evict_first.b64 %rd2, 1.0; st.global.u64 [%rd1], %rd2;
    createpolicy.fractional.L2::evict_last.b64 %rd2, %f1; st.global.L2::cache_hint.u64 [%rd1+8], %rd2, %rd2;
    createpolicy.range.global.L2::evict_last.L2::evict_first.b64 %rd2, [%rd1], 0x10000, 0x100000; st.global.u64 [%rd1+16], %rd2;
    createpolicy.range.L2::evict_normal.b64 %rd2, [%rd1], 1, 0; st.global.u64 [%rd1+24], %rd2;
    createpolicy.cvt.L2.b64 %rd3, %rd2; ld.global.L2::cache_hint.u64 %rd4, [%rd1+8], %rd3; st.global.u64 [%rd1+32], %rd4;
    ret;
}
"""
    out = np.zeros(5, np.uint64)
    ptxgraft.load(ptx).kernel("k", engine=engine).launch(1, 1, [out, np.float32(0.75)])
    first, last, ranged, nothing, read = out.tolist()
    assert (first, last, read) == (0x12F00000 << 32, 0x14B00000 << 32, last)
    # A range of 2**20 bytes in blocks of 2**13: eight of them from the one that the address lies in, one more where it lies across.
    assert ranged >> 52 == 0x1D1 and ranged >> 37 & 0x7F in (8, 9) and nothing == 0x180 << 52
