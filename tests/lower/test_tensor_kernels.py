"""Kernels with sparse mma and wmma as they ran on an H200, run by both engines; and tensor cores as chains of scalar operations."""

from __future__ import annotations

import importlib.util
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES
from ptxgraft.isa.numerics import MmaPlan, mma_plan
from ptxgraft.lower.mma_chains import chain_product, is_chain
from ptxgraft.lower.mma_quad_pairs import quad_pair_product
from ptxgraft.lower.numpy_lanes import NumpyLanes
from ptxgraft.lower.numpy_mma import layouts, mma
from ptxgraft.lower.warp_function import WarpFunctions
from ptxgraft.lower.warp_lanes import WarpLanes
from ptxgraft.lower.warp_machine import Machine
from ptxgraft.run.kernel import load

_SPEC = importlib.util.spec_from_file_location("tensor_cases", Path(__file__).parents[1] / "goldens" / "tensor_cases.py")
assert _SPEC is not None and _SPEC.loader is not None
tensor_cases = importlib.util.module_from_spec(_SPEC)
sys.modules["tensor_cases"] = tensor_cases  # its dataclasses look themselves up there
_SPEC.loader.exec_module(tensor_cases)

pytestmark = pytest.mark.filterwarnings("ignore::ptxgraft.errors.UnconfirmedWarning")

RESULTS = tensor_cases.read_results()
CASES = tensor_cases.cases()
SOME = [
    "mma.sp.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 selector3 nibbles6",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.tf32.tf32.f32 selector1 nibbles2",
    "mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.f32.e4m3.e5m2.f32 selector0 nibbles16",
    "mma.sp.sync.aligned.m16n8k128.row.col.satfinite.s32.s4.u4.s32 selector0 nibbles12",
    "wmma.load.a.sync.aligned.col.m16n16k16.s8 pad32",
    "wmma.load.b.sync.aligned.row.m8n32k16.f16",
    "wmma.load.b.sync.aligned.col.m8n8k32.u4 pad32",
    "wmma.store.d.sync.aligned.col.m8n32k16.f16 pad32",
    "wmma.mma.sync.aligned.row.row.m32n8k16.f16.f32",
    "wmma.mma.sync.aligned.col.col.m8n32k16.f32.f16",
    "wmma.mma.sync.aligned.row.col.m16n16k8.f32.tf32.tf32.f32",
    "wmma.mma.sync.aligned.row.col.m8n8k4.rm.f64.f64.f64.f64",
]


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize("name", SOME)
def test_kernels_give_what_the_hardware_gave(name: str, engine: str) -> None:
    (case,) = (c for c in CASES if c.name == name)
    given, result = np.ascontiguousarray(tensor_cases.inputs(case)), tensor_cases.before(case).copy()
    kernel = load(tensor_cases.HEADER + tensor_cases.kernel(0, case)).kernel("k0", engine=engine)
    kernel.launch(case.warps, 32, [given, result])
    want = RESULTS[name]
    np.testing.assert_array_equal(result[want.warp, : tensor_cases.SAMPLE], want.sample)
    assert [zlib.crc32(row.tobytes()) for row in result] == list(want.checksums)


# -- chains -----------------------------------------------------------------------------------------------------------
class Lane:
    """A machine that knows its lanes' numbers."""

    def __init__(self, warps: int) -> None:
        self.active = np.ones((warps, 32), bool)

    def special(self, name: str) -> np.ndarray:
        assert name == "laneid"
        return np.arange(32, dtype=np.uint32)[None]


def chains() -> dict[str, MmaPlan]:
    """The plans of sm_90 that are chains."""
    plans = [
        mma_plan("m8n8k4", d, "f16", "f16", c, "sm_90", alayout=a, blayout=b)
        for d, c in (("f32", "f32"), ("f32", "f16"), ("f16", "f16"))
        for a in ("row", "col")
        for b in ("row", "col")
    ]
    plans += [
        mma_plan(shape, "f64", "f64", "f64", "f64", "sm_90", rounding=r) for shape in DENSE_SHAPES["f64"] for r in ("rn", "rz", "rm", "rp")
    ]
    return {plan.name: plan for plan in plans}


CHAINS = chains()


@pytest.mark.parametrize("plan", CHAINS.values(), ids=CHAINS)
def test_chains_give_the_bits_of_the_whole(plan: MmaPlan) -> None:
    assert is_chain(plan)
    warps = 8
    formats = (plan.a, plan.b, plan.c)
    operands = []
    for layout, format in zip(layouts(plan), formats, strict=False):
        values = tensor_cases.registers(f"{plan.name} {layout.operand}", warps, layout.registers, format)
        operands.append([values[:, i] for i in range(layout.registers)])
    lanes = NumpyLanes("sm_90", Lane(warps))
    fmt, rounding = ("f64", plan.rounding) if plan.kind == "f64" else ("f32", "rn")
    got = chain_product(lanes, plan, *operands, lambda x, y, z: lanes.float_fma(fmt, x, y, z, rounding))
    for g, w in zip(got, mma(plan, *operands), strict=True):
        np.testing.assert_array_equal(g, w)


def quad_pairs() -> dict[str, MmaPlan]:
    """The plans of m8n8k4 on f16 that are fused or exact sums."""
    return {
        plan.name: plan
        for profile in ("sm_70", "sm_75", "manual")
        for d, c in (("f32", "f32"), ("f32", "f16"), ("f16", "f16"))
        for a, b in (("row", "col"), ("col", "row"))
        for plan in [mma_plan("m8n8k4", d, "f16", "f16", c, profile, alayout=a, blayout=b)]
    }


QUAD_PAIRS = quad_pairs()


@pytest.mark.parametrize("plan", QUAD_PAIRS.values(), ids=QUAD_PAIRS)
def test_quad_pairs_give_the_bits_of_the_whole(plan: MmaPlan) -> None:
    """On the NumPy instance, and compiled; with any bits as operands, NaN and infinities among them, and with numbers near 1."""
    warps = 8
    rng = np.random.default_rng(len(plan.name))
    widths, operands = [], []
    for layout in layouts(plan)[:3]:
        words = rng.integers(0, 1 << 32, (layout.registers, 2 * warps, 32), dtype=np.uint32)
        near = (words[:, warps:] & np.uint32(0x83FF83FF)) + np.uint32(0x38003800 if layout.element_bits == 16 else 0x3E000000)
        words[:, warps:] = near
        operands.append(list(words))
        widths += [32] * layout.registers
    want = mma(plan, *operands)
    lanes = NumpyLanes(plan.profile, Lane(2 * warps))
    for g, w in zip(quad_pair_product(lanes, plan, *operands, lanes.mma), want, strict=True):
        np.testing.assert_array_equal(g, w)
    counts = [len(o) for o in operands]

    def body(warp: WarpLanes, values: list) -> tuple:
        warp.machine = Machine(warp.emitter)
        a, b = counts[0], counts[0] + counts[1]
        return warp.mma(plan, values[:a], values[a:b], values[b:])

    functions = WarpFunctions(plan.profile)
    functions.add("f", widths, body)
    functions.compile()
    got = functions.call("f", *(register.reshape(-1) for operand in operands for register in operand))
    for g, w in zip(got, want, strict=True):
        np.testing.assert_array_equal(g.reshape(w.shape), w)


def test_what_a_generation_does_not_have_is_refused_by_name() -> None:
    text = """.version 8.5
.target sm_75
.address_size 64
.visible .entry k()
{
.reg .b32 %r<16>; .reg .f32 %f<8>;
mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f16 {%r0, %r1, %r2, %r3}, {%r4, %r5}, {%r6, %r7}, {%r0, %r1, %r2, %r3};
ret;
}
"""
    for engine in ("warp", "numpy"):
        load(text).kernel("k", profile="sm_75", engine=engine).launch(1, 32, [])
        kernel = load(text).kernel("k", profile="sm_80", engine=engine)
        with pytest.raises(UnsupportedError, match=r"m8n8k4.* on profile sm_80 are not known; known on: manual, sm_70, sm_75, sm_90"):
            kernel.launch(1, 32, [])
