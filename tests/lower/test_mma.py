"""The tensor core in LLVM against the tensor core in NumPy, and NumPy's f64 fma against exact fractions."""

from __future__ import annotations

import ctypes
import random
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES, SPARSE_SHAPES
from ptxgraft.isa.numerics import PROFILES, MmaPlan, mma_plan
from ptxgraft.lower import jit
from ptxgraft.lower.numpy_fma import fma64
from ptxgraft.lower.numpy_mma import layouts, mma, pack
from ptxgraft.lower.warp_mma import has_primitive, mma_function

FORMATS = {"e4m3": (np.uint8, 4, 3), "e5m2": (np.uint8, 5, 2), "f16": (np.uint16, 5, 10), "bf16": (np.uint16, 8, 7), "tf32": (np.uint32, 8, 23),
           "f32": (np.uint32, 8, 23), "f64": (np.uint64, 11, 52)}  # fmt: skip
WARPS = 24


def plans() -> dict[str, MmaPlan]:
    """One plan of every instruction and profile with a primitive; of profiles with the same arithmetic only one."""
    found: dict[tuple, MmaPlan] = {}
    profiles = ("sm_90", "sm_89", "sm_120", *PROFILES)
    for profile, sparse in [*product(profiles, [False]), *product(profiles[:2], [True])]:
        for a, shapes in (SPARSE_SHAPES if sparse else DENSE_SHAPES).items():
            for shape in shapes:
                for b in {"e4m3": ("e4m3", "e5m2"), "e5m2": ("e5m2", "e4m3"), "s8": ("s8", "u8"), "u4": ("u4", "s4")}.get(a, (a,)):
                    for d in {"f64": ["f64"]}.get(a, ["s32"] if a in ("b1", "s8", "u8", "s4", "u4") else ["f32", "f16"]):
                        flags = [{"bit_op": "xor"}, {"bit_op": "and"}] if a == "b1" else [{"satfinite": True}, {}] if d == "s32" else [{}]
                        for flag in flags:
                            try:
                                plan = mma_plan(shape, d, a, b, d, profile, sparse=sparse, **flag)
                            except UnsupportedError:
                                continue
                            key = (sparse, shape, d, a, b, plan.steps, plan.exponent_floor, plan.rounding, tuple(flag.items()))
                            if has_primitive(plan):
                                found.setdefault(key, plan)
    return {plan.name: plan for plan in found.values()}


def kind_plans() -> dict[str, MmaPlan]:
    """Plans with a kind: each element type as A and as B, each way of factors, dense and sparse, on both profiles that have them."""
    found = []
    for profile, sparse in product(("sm_120", "manual"), (False, True)):
        wide, narrow = ("m16n8k64", "m16n8k128") if sparse else ("m16n8k32", "m16n8k64")
        for number, (a, b) in enumerate((("e4m3", "e2m1"), ("e5m2", "e3m2"), ("e3m2", "e2m3"), ("e2m3", "e5m2"), ("e2m1", "e4m3"))):
            d = ("f32", "f16")[number % 2]
            found.append(mma_plan(wide, d, a, b, d, profile, sparse=sparse, kind="f8f6f4"))
            found.append(mma_plan(wide, "f32", a, b, "f32", profile, sparse=sparse, kind="mxf8f6f4", scale="ue8m0", block=32))
        for kind, scale, block in (("mxf4", "ue8m0", 32), ("mxf4nvf4", "ue8m0", 16), ("mxf4nvf4", "ue4m3", 16)):
            found.append(mma_plan(narrow, "f32", "e2m1", "e2m1", "f32", profile, sparse=sparse, kind=kind, scale=scale, block=block))
    return {plan.name: plan for plan in found}


PLANS = plans() | kind_plans()
FEW = [
    "sm_90.m16n8k32.row.col.f16.e4m3.e4m3.f16", "sm_89.m16n8k32.row.col.f32.e4m3.e4m3.f32", "sm_90.m16n8k16.row.col.f32.f16.f16.f32",
    "sm_90.m16n8k8.row.col.f32.tf32.tf32.f32", "sm_90.m16n8k32.row.col.satfinite.s32.s8.s8.s32", "sm_90.m16n8k4.row.col.f64.f64.f64.f64",
    "sm_90.sp.m16n8k32.row.col.f32.f16.f16.f32", "sm_90.sp.m16n8k16.row.col.f32.tf32.tf32.f32", "sm_90.sp.m16n8k128.row.col.s32.u4.s4.s32",
]  # fmt: skip


def elements(rng: np.random.Generator, fmt: str, registers: int, spread: int) -> list[np.ndarray]:
    """Fragment registers [WARPS, 32] of random elements: exponents within ``spread`` of 0 (0: any bits), zeros, and in some warps NaN and infinities."""
    word = np.uint64 if fmt == "f64" else np.uint32
    raw = rng.integers(0, 256, (registers, WARPS, 32 * word().itemsize), dtype=np.uint8)
    if fmt in FORMATS and spread:
        dtype, exponent_bits, fraction_bits = FORMATS[fmt]
        values = raw.view(dtype)
        bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
        exponent = np.clip(bias + rng.integers(-spread, spread + 1, values.shape), 0, top - 1).astype(dtype)
        values = values & dtype((1 << (exponent_bits + fraction_bits + 1)) - 1 - (top << fraction_bits)) | exponent << dtype(fraction_bits)
        chance = rng.random(values.shape)
        values = np.where(chance < 0.05, dtype(0), values)
        marked = (rng.random(WARPS) < 0.4)[None, :, None]
        values = np.where(marked & (chance > 0.985), dtype(top << fraction_bits), values)
        values = np.where(marked & (chance > 0.995), dtype((1 << (exponent_bits + fraction_bits + 1)) - 1), values)
        raw = np.ascontiguousarray(values.astype(dtype))
    return list(raw.view(word).reshape(registers, WARPS, 32))


class Primitive:
    """A compiled plan and a register file for it."""

    def __init__(self, plan: MmaPlan, machine: jit.Host | None = None, passes: str = "sroa") -> None:
        self.engine = jit.load_objects([jit.compile_ir(mma_function(plan, "f"), 1, machine, passes)])
        self.call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(self.engine.address("f"))
        self.counts = [layout.registers for layout in (layouts(plan)[i] for i in (3, 0, 1, 2))] + [1] * (plan.sparse + 2 * bool(plan.scale))
        self.word = np.dtype(np.uint64 if plan.d == "f64" else np.uint32)
        size = sum(self.counts) * 32 * self.word.itemsize
        buffer = np.zeros(size + 64, np.uint8)
        start = -buffer.ctypes.data % 64
        self.file = buffer[start : start + size].view(self.word).reshape(-1, 32)

    def run(
        self,
        a: list,
        b: list,
        c: list,
        metadata: np.ndarray | None = None,
        scales: list | None = None,
        destinations: list[int] | None = None,
    ) -> list[np.ndarray]:
        """D's registers [warps, 32]; ``destinations``: the register numbers (A's first is 0) that D overwrites."""
        count = self.counts[0]
        numbers = [count + i for i in destinations] if destinations is not None else list(range(count))
        offsets = (np.array([*numbers, *range(count, len(self.file))]) * 32 * self.word.itemsize).astype(np.int32)
        warps = len(a[0])
        results = np.zeros((count, warps, 32), self.word)
        for warp in range(warps):
            self.file[count:] = [r[warp] for r in (*a, *b, *c, *([] if metadata is None else [metadata]), *(scales or []))]
            self.call(self.file.ctypes.data, offsets.ctypes.data)
            results[:, warp] = self.file[numbers]
        return list(results)


def operands(plan: MmaPlan, spread: int) -> list:
    """The arguments of ``mma``: fragments, any bits as metadata, and factors (near 1 where exponents are within some ``spread``)."""
    rng = np.random.default_rng(spread + len(plan.name))
    fragments: list = [elements(rng, fmt, layouts(plan)[i].registers, spread) for i, fmt in enumerate((plan.a, plan.b, plan.c))]
    words = [rng.integers(0, 1 << 32, (WARPS, 32), dtype=np.uint32) for _ in range(3)]
    if spread:
        words[1:] = [(w & np.uint32(0x03030303)) + np.uint32(0x7E7E7E7E if plan.scale == "ue8m0" else 0x37373737) for w in words[1:]]
    return [*fragments, words[0] if plan.sparse else None, words[1:] if plan.scale else []]


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS)
def test_primitive_and_numpy_agree(plan: MmaPlan) -> None:
    primitive = Primitive(plan)
    for spread in (0, 3, 9, 40):
        inputs = operands(plan, spread)
        want, got = mma(plan, *inputs), primitive.run(*inputs)
        assert len(want) == len(got)
        for g, w in zip(got, want, strict=True):
            np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("name", FEW)
def test_other_hosts_and_passes_agree(name: str) -> None:
    plan = PLANS[name]
    wide = [n for n in jit.host().names if n.startswith(("avx512", "avx10", "evex"))]
    for primitive in (Primitive(plan, jit.host().without(*wide)), Primitive(plan, passes="O2")):
        for spread in (0, 4):
            inputs = operands(plan, spread)
            for g, w in zip(primitive.run(*inputs), mma(plan, *inputs), strict=True):
                np.testing.assert_array_equal(g, w)


@pytest.mark.parametrize("name", FEW)
def test_results_may_overwrite_operands(name: str) -> None:
    plan = PLANS[name]
    primitive, inputs = Primitive(plan), operands(plan, 4)
    want = mma(plan, *inputs)
    total = sum(primitive.counts[1:])
    addend = total - primitive.counts[3]
    for destinations in (list(range(primitive.counts[0])), [addend + i for i in range(primitive.counts[0])]):
        for g, w in zip(primitive.run(*inputs, destinations=destinations), want, strict=True):
            np.testing.assert_array_equal(g, w)


def fp8_at_the_edge(rng: np.random.Generator, fmt: str, registers: int, warps: int) -> list[np.ndarray]:
    """fp8 fragments whose exponents span 1 to 14 steps from a start of each warp's own: some sums are exact, some barely not, some pass f16."""
    _, exponent_bits, fraction_bits = FORMATS[fmt]
    highest = (1 << exponent_bits) - 1 - (fmt == "e5m2")
    shape = (registers, warps, 128)
    start, width = rng.integers(0, highest, (1, warps, 1)), rng.integers(1, 15, (1, warps, 1))
    exponent = np.minimum(start + rng.integers(0, 1 << 20, shape) % width, highest)
    fraction = np.where(rng.random((1, warps, 1)) < 0.2, (1 << fraction_bits) - 1, rng.integers(0, 1 << fraction_bits, shape))
    sign = np.where(rng.random((1, warps, 1)) < 0.5, 0, rng.integers(0, 2, shape))
    value = sign << 7 | exponent << fraction_bits | fraction
    value -= (fmt == "e4m3") & (value & 0x7F == 0x7F)
    value = np.where(rng.random(shape) < rng.random((1, warps, 1)) - 0.4, 0, value)
    return list(np.ascontiguousarray(value.astype(np.uint8)).view(np.uint32).reshape(registers, warps, 32))


@pytest.mark.parametrize("types", ["f32 e4m3 e4m3", "f16 e4m3 e4m3", "f16 e5m2 e4m3", "f32 e4m3 e5m2", "f16 e5m2 e5m2"])
@pytest.mark.parametrize("shape", ["m16n8k16", "m16n8k32"])
def test_exact_sums_are_taken_only_where_they_are_right(types: str, shape: str) -> None:
    d, a, b = types.split()
    plan = mma_plan(shape, d, a, b, d, "sm_90")
    rng, warps = np.random.default_rng(len(types)), 400
    la, lb, lc, _ = layouts(plan)
    inputs = [fp8_at_the_edge(rng, fmt, layout.registers, warps) for fmt, layout in ((a, la), (b, lb))]
    inputs.append([np.zeros((warps, 32), np.uint32) for _ in range(lc.registers)])
    for g, w in zip(Primitive(plan).run(*inputs), mma(plan, *inputs), strict=True):
        np.testing.assert_array_equal(g, w)


def test_the_last_bit_at_the_edge_of_exact_sums() -> None:
    """Large products cancel and leave the smallest: 81 units, or 80 where the largest exponent, of a product or of the first sum, cost the last bit."""
    minus = 0x80

    def e4m3(step: int, significand: int) -> int:
        return (step + 1) << 3 | (significand - 8)

    for d in ("f32", "f16"):
        plan = mma_plan("m16n8k32", d, "e4m3", "e4m3", d, "sm_90")
        la, lb, lc, _ = layouts(plan)
        primitive, seen = Primitive(plan), set()
        # Steps that A's and B's largest lie above their smallest; how many large products; do they cancel in the same T or in the next one?
        for up_a, up_b, count, apart in product(range(7, 12), range(7, 12), (1, 2, 3), (False, True)):
            a, b = np.zeros((16, 32, 1), np.uint8), np.zeros((32, 8, 1), np.uint8)
            a[:, 0], b[0] = e4m3(0, 9), e4m3(0, 9)
            for i in range(count):
                plus, other = ((2, 3, 6)[i], (4, 5, 8)[i]) if not apart else ((4, 5, 8)[i], (2, 3, 6)[i])
                if not apart:
                    plus = (9, 12, 13)[i]
                a[:, [plus, other]], b[plus], b[other] = e4m3(up_a, 8), e4m3(up_b, 8), e4m3(up_b, 8) | minus
            if apart:  # the smallest comes in the second T, after a large first sum
                a[:, 2], a[:, 0], b[2], b[0] = a[:, 0].copy(), a[:, 2].copy(), b[0].copy(), b[2].copy()
            inputs = [pack(la, a), pack(lb, b), [np.zeros((1, 32), np.uint32)] * lc.registers]
            want = mma(plan, *inputs)
            seen.add(int(want[0][0, 0]))
            for g, w in zip(primitive.run(*inputs), want, strict=True):
                np.testing.assert_array_equal(g, w, err_msg=f"{plan.name} {up_a} {up_b} {count} {apart}")
        assert len(seen) > 1


def test_what_has_no_primitive_is_refused() -> None:
    for plan in (
        mma_plan("m8n8k4", "f32", "f16", "f16", "f32", "sm_90"),
        mma_plan("m8n8k4", "f64", "f64", "f64", "f64", "sm_90", rounding="rz"),
    ):
        assert not has_primitive(plan)
        with pytest.raises(UnsupportedError, match=plan.name):
            mma_function(plan, "f")


def test_leading_dimensions_are_kept() -> None:
    plan = PLANS[FEW[0]]
    a, b, c, *_ = operands(plan, 4)
    flat = mma(plan, a, b, c)
    shaped = mma(plan, *([r.reshape(2, 3, 4, 32) for r in registers] for registers in (a, b, c)))
    for x, y in zip(flat, shaped, strict=True):
        assert y.shape == (2, 3, 4, 32)
        np.testing.assert_array_equal(x, y.reshape(-1, 32))


# -- f64 fma ---------------------------------------------------------------------------------------------------------
def value(bits: int) -> Fraction:
    exponent, fraction = bits >> 52 & 0x7FF, bits & ((1 << 52) - 1)
    sign = -1 if bits >> 63 else 1
    return sign * (Fraction(fraction | (1 << 52 if exponent else 0)) * Fraction(2) ** (max(exponent, 1) - 1075))


def neighbours(exact: Fraction) -> tuple[int, int]:
    """The magnitudes (bits) at and above |exact|, of which the upper may be infinity."""
    low, high = 0, 0x7FF << 52
    size = abs(exact)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if value(middle) <= size else (low, middle)
    return low, high


def rounded(exact: Fraction, zero_sign: int, rounding: str) -> int:
    if exact == 0:
        return zero_sign << 63
    negative = exact < 0
    low, high = neighbours(exact)
    up = {"rz": False, "rm": negative, "rp": not negative}.get(rounding)
    if value(low) == abs(exact):
        up = False
    elif up is None:
        top = value(high) if high != 0x7FF << 52 else Fraction(2) ** 1024
        twice = 2 * abs(exact) - value(low) - top
        up = twice > 0 or (twice == 0 and low & 1 == 1)
    return negative << 63 | (high if up else low)


@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_fma64_is_exact(rounding: str) -> None:
    rng = random.Random(rounding)

    def operand(near: int) -> int:
        kind = rng.random()
        if kind < 0.1:
            return rng.choice([0, 1 << 63, 1, (1 << 52) - 1, 1 << 52, (0x7FF << 52) - 1, 0x3FF << 52])
        exponent = min(max(near + rng.randint(-60, 60), 0), 2046) if kind < 0.9 else rng.randint(0, 2046)
        fraction = rng.getrandbits(52) & -(1 << rng.randint(0, 52))
        return rng.getrandbits(1) << 63 | exponent << 52 | fraction & ((1 << 52) - 1)

    rows = []
    for _ in range(1500):
        a, b = operand(rng.choice([1023, 500, 520])), operand(rng.choice([1023, 503, 1500]))
        product = (a >> 52 & 0x7FF) + (b >> 52 & 0x7FF) - 1023
        rows.append((a, b, operand(product)))
    got = fma64(*(np.array(column, np.uint64) for column in zip(*rows, strict=True)), rounding=rounding)
    for (a, b, c), result in zip(rows, got.tolist(), strict=True):
        exact = value(a) * value(b) + value(c)
        signs = {(a ^ b) >> 63, c >> 63} if exact == 0 else {0}
        zero_sign = signs.pop() if len(signs) == 1 else int(rounding == "rm")
        assert result == rounded(exact, zero_sign, rounding), (hex(a), hex(b), hex(c))


def test_fma64_chooses_the_hardware_nan() -> None:
    a, b, c = (0x7FF0 << 48) | 1, (0xFFF0 << 48) | 2, (0x7FF0 << 48) | 3
    quiet, one, inf, default = 1 << 51, 0x3FF << 52, 0x7FF << 52, 0xFFF8 << 48
    rows = [
        (a, b, c, b | quiet), (a, one, c, c | quiet), (a, one, one, a | quiet), (inf, 0, c, c | quiet), (inf, 0, one, default),
        (inf, one, inf | 1 << 63, default), (inf, one, inf, inf), (one, one, inf | 1 << 63, inf | 1 << 63), (inf, 1 << 63 | one, one, inf | 1 << 63),
    ]  # fmt: skip
    got = fma64(*(np.array(column, np.uint64) for column in list(zip(*rows, strict=True))[:3]))
    assert got.tolist() == [row[3] for row in rows]
