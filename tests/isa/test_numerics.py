"""Plans say what the numerics say; unknown bits are refused by name; the NumPy executor follows the plan to the letter."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from exact_sum import FORMATS, element
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES, SCALE_LANES, SPARSE_SHAPES, FragmentLayout, Sparsity
from ptxgraft.isa.numerics import PROFILES, MmaPlan, mma_plan
from ptxgraft.lower.numpy_mma import layouts, mma, pack, unpack


def every_plan(sparse: bool = False) -> dict[str, MmaPlan]:
    """Every dense, or every sparse, plan of every profile."""
    plans: dict[str, MmaPlan] = {}
    for profile in PROFILES:
        for a, shapes in (SPARSE_SHAPES if sparse else DENSE_SHAPES).items():
            accumulators = {"f64": ["f64"], "b1": ["s32"]}.get(a, ["s32"] if a[0] in "su" else ["f32", "f16"])
            for shape in shapes:
                for b in ("e4m3", "e5m2") if a in ("e4m3", "e5m2") else (a,):
                    for d in accumulators:
                        for c in ("f32", "f16") if d == "f32" else (d,):
                            try:
                                plan = mma_plan(shape, d, a, b, c, profile, bit_op="xor" if a == "b1" else "", sparse=sparse)
                            except UnsupportedError:
                                continue
                            plans[plan.name] = plan
    return plans


KINDS = {"": ("f8f6f4",), "ue8m0": ("mxf8f6f4", "mxf4", "mxf4nvf4"), "ue4m3": ("mxf4nvf4",)}
"""Kinds by the type of their factors."""


def every_kind_plan() -> dict[str, MmaPlan]:
    """Every plan of the instructions with a kind, dense and sparse."""
    plans: dict[str, MmaPlan] = {}
    elements = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
    for profile, sparse, a, b, d in product(PROFILES, (False, True), elements, elements, ("f32", "f16")):
        for shape, scale, block in product((SPARSE_SHAPES if sparse else DENSE_SHAPES)[a], KINDS, (0, 16, 32)):
            for kind in KINDS[scale]:
                try:
                    plan = mma_plan(shape, d, a, b, d, profile, sparse=sparse, kind=kind, scale=scale, block=block if scale else 0)
                except UnsupportedError:
                    continue
                plans[plan.name] = plan
    return plans


PLANS = every_plan()
FLOAT_PLANS = {name: plan for name, plan in PLANS.items() if plan.kind in ("float", "exact")}
SPARSE_PLANS = every_plan(sparse=True)
SPARSE_FLOAT_PLANS = {name: plan for name, plan in SPARSE_PLANS.items() if plan.kind in ("float", "exact")}
KIND_PLANS = every_kind_plan()


def test_plans_are_many_and_named_apart() -> None:
    assert len(PLANS) == len(set(PLANS.values()))
    assert {plan.profile for plan in PLANS.values()} == set(PROFILES)
    assert {plan.source for plan in PLANS.values() if plan.profile == "sm_90"} == {"confirmed"}
    assert {plan.source for plan in PLANS.values() if plan.profile == "manual"} == {"defined"}
    assert {plan.source for plan in PLANS.values() if plan.profile not in ("sm_90", "manual")} == {"literature"}


def test_kinds_are_those_of_one_generation() -> None:
    assert {plan.profile for plan in KIND_PLANS.values()} == {"manual", "sm_120"}
    # 25 pairs of types, each with f32 and f16 sums and with factors; four ways of factors for four bits; all that dense and sparse, on two profiles.
    assert len(KIND_PLANS) == 2 * 2 * (3 * 25 + 4 - 0)
    for plan in KIND_PLANS.values():
        beyond = plan.sparse or {plan.a, plan.b} & {"e3m2", "e2m3"}
        assert plan.source == ("defined" if plan.profile == "manual" else "assumed" if beyond else "literature"), plan.name


def test_sparse_sums_are_confirmed_where_they_were_measured() -> None:
    assert not PLANS.keys() & SPARSE_PLANS.keys()
    assert {p.profile for p in SPARSE_PLANS.values()} == {"manual", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
    for plan in SPARSE_PLANS.values():
        if plan.profile == "manual":
            assert plan.source == "defined"
            continue
        elsewhere = "assumed" if plan.kind == "float" else "literature"
        assert plan.source == ("confirmed" if plan.profile == "sm_90" else elsewhere), plan.name


@pytest.mark.parametrize("plan", (FLOAT_PLANS | SPARSE_FLOAT_PLANS).values(), ids=FLOAT_PLANS | SPARSE_FLOAT_PLANS)
def test_each_k_is_summed_once(plan: MmaPlan) -> None:
    ks = [k for step in plan.steps for k in step.ks]
    assert sorted(ks) == list(range(plan.depth))
    assert plan.depth == plan.mnk[2] // (2 if plan.sparse else 1)


@pytest.mark.parametrize(
    ("profile", "words", "steps", "inside", "rounding"),
    [
        ("sm_90", "m16n8k16 f32 f16 f16 f32", [(16, 25)], True, "f32.rz"),
        ("sm_80", "m16n8k16 f32 f16 f16 f32", [(8, 24), (8, 24)], True, "f32.rz"),
        ("sm_89", "m16n8k16 f16 f16 f16 f16", [(8, 24), (8, 24)], True, "f16.rn"),
        ("sm_75", "m16n8k8 f32 f16 f16 f32", [(8, 24)], True, "f32.rz"),
        ("sm_70", "m8n8k4 f32 f16 f16 f16", [(4, 23)], True, "f32.rz"),
        ("sm_80", "m16n8k8 f32 tf32 tf32 f32", [(4, 24), (4, 24)], True, "f32.rz"),
        ("sm_90", "m16n8k8 f32 tf32 tf32 f32", [(8, 25)], True, "f32.rz"),
        ("sm_89", "m16n8k32 f32 e4m3 e5m2 f32", [(16, 13), (16, 13)], True, "e8m13.rz"),
        ("sm_89", "m16n8k16 f16 e4m3 e4m3 f16", [(16, 13)], True, "f16.rn"),
        ("sm_90", "m16n8k32 f32 e4m3 e4m3 f32", [(16, 25), (16, 25)], False, "f32.rz"),
        ("sm_100", "m16n8k32 f16 e5m2 e4m3 f16", [(16, 25), (16, 25)], False, "f16.rn"),
        ("sm_120", "m16n8k32 f32 e4m3 e4m3 f32", [(32, 25)], True, "f32.rz"),
        ("manual", "m16n8k16 f32 f16 f16 f32", [(16, 0)], True, "f32.rn"),
        ("manual", "m16n8k32 f16 e4m3 e5m2 f16", [(32, 0)], True, "f16.rn"),
    ],
)
def test_known_plans(profile: str, words: str, steps: list[tuple[int, int]], inside: bool, rounding: str) -> None:
    plan = mma_plan(*words.split(), profile)
    assert [(len(s.ks), s.fraction_bits) for s in plan.steps] == steps
    assert (plan.c_inside, plan.rounding) == (inside, rounding)


def test_hopper_fp8_goes_by_byte_pairs() -> None:
    steps = mma_plan("m16n8k16", "f32", "e4m3", "e4m3", "f32", "sm_90").steps
    assert [s.ks for s in steps] == [(0, 1, 4, 5, 8, 9, 12, 13), (2, 3, 6, 7, 10, 11, 14, 15)]


@pytest.mark.parametrize(
    ("words", "profile", "flags", "message"),
    [
        ("m16n8k32 f32 e4m3 e4m3 f32", "sm_80", {}, r"m16n8k32\.row\.col\.f32\.e4m3\.e4m3\.f32 on profile sm_80 .*sm_89, sm_90"),
        ("m16n8k16 f32 f16 f16 f32", "sm_30", {}, r"'sm_30' is not known for mma\.sync.*sm_120"),
        ("m16n8k16 f32 f16 f16 f16", "sm_90", {}, "no profile has it"),
        ("m8n8k4 f16 f16 f16 f32", "sm_70", {}, "no profile has it"),
        ("m8n8k4 f32 f16 f16 f32", "sm_80", {}, "known on: manual, sm_70, sm_75, sm_90"),
        ("m16n8k16 f64 f64 f64 f64", "sm_80", {}, "known on: manual, sm_90"),
        ("m8n8k128 s32 b1 b1 s32", "sm_75", {"bit_op": "and"}, r"s32\.and\.popc on profile sm_75"),
        ("m16n8k16 f32 f16 f16 f32", "sm_90", {"satfinite": True}, r"satfinite\.f32"),
        ("m32n8k16 f32 f16 f16 f32", "sm_90", {}, "no profile has it"),
        ("m16n8k32 s32 s8 u4 s32", "sm_90", {}, "no profile has it"),
        ("m16n8k16 f32 f16 f16 f32", "sm_75", {"sparse": True}, r"mma\.sp\.sync.*known on: manual, sm_80, sm_86, sm_89, sm_90"),
        ("m16n8k64 f16 e4m3 e4m3 f16", "sm_90", {"sparse": True}, "no profile has it"),
        ("m16n8k8 f32 f16 f16 f32", "sm_90", {"sparse": True}, "no profile has it"),
        (
            "m16n8k32 f32 e4m3 e2m1 f32",
            "sm_90",
            {"kind": "f8f6f4"},
            r"kind::f8f6f4\.f32\.e4m3\.e2m1\.f32 on profile sm_90 .*known on: manual, sm_120",
        ),
        ("m16n8k64 f32 e2m1 e2m1 f32", "sm_120", {"kind": "mxf4nvf4", "scale": "ue4m3", "block": 32}, "no profile has it"),
    ],
)
def test_unknown_bits_are_refused(words: str, profile: str, flags: dict, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message):
        mma_plan(*words.split(), profile, **flags)


def _elements(fmt: str) -> st.SearchStrategy[int]:
    exponent_bits, fraction_bits = FORMATS[fmt]
    width = 1 + exponent_bits + fraction_bits
    bias, top = (1 << (exponent_bits - 1)) - 1, (1 << exponent_bits) - 1
    special = [0, 1, 1 << (width - 1), top << fraction_bits, (top << fraction_bits) | (1 << (width - 1)), (1 << (width - 1)) - 1]
    special += [(1 << fraction_bits) - 1, 1 << fraction_bits, (top << fraction_bits) - 1]
    near = st.builds(
        lambda s, e, f: (s << (width - 1)) | (e << fraction_bits) | f,
        st.integers(0, 1),
        st.integers(max(bias - 5, 0), bias + 5),
        st.integers(0, (1 << fraction_bits) - 1),
    )
    return st.one_of(near, near, near, st.integers(0, (1 << width) - 1), st.sampled_from(special))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_one_element_by_the_letter(data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from(list(FLOAT_PLANS.values())))
    k = plan.mnk[2]
    a = data.draw(st.lists(_elements(plan.a), min_size=k, max_size=k))
    b = data.draw(st.lists(_elements(plan.b), min_size=k, max_size=k))
    c = data.draw(_elements(plan.c))
    la, lb, lc, ld = layouts(plan)
    types = {8: np.uint8, 16: np.uint16, 32: np.uint32}
    left = np.zeros((*la.matrix, 1), types[la.element_bits])
    right = np.zeros((*lb.matrix, 1), types[lb.element_bits])
    addend = np.zeros((*lc.matrix, 1), types[lc.element_bits])
    left[3, :, 0], right[:, 5, 0], addend[3, 5, 0] = a, b, c
    d = mma(plan, pack(la, left), pack(lb, right), pack(lc, addend))
    assert int(unpack(ld, d)[3, 5, 0]) == element(plan, a, b, c)


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_one_element_of_a_product_with_a_kind_by_the_letter(data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from([p for p in KIND_PLANS.values() if not p.sparse]))
    row, column, k = 11, 5, plan.depth
    a = data.draw(st.lists(_elements(plan.a), min_size=k, max_size=k))
    b = data.draw(st.lists(_elements(plan.b), min_size=k, max_size=k))
    c = data.draw(_elements(plan.c))
    la, lb, lc, ld = layouts(plan)
    lift = [
        2 if fmt == "e2m1" and layout.element_bits == 8 else 0 for fmt, layout in ((plan.a, la), (plan.b, lb))
    ]  # in the middle of its byte
    types = {4: np.uint8, 8: np.uint8, 16: np.uint16, 32: np.uint32}
    left, right = np.zeros((*la.matrix, 1), types[la.element_bits]), np.zeros((*lb.matrix, 1), types[lb.element_bits])
    addend = np.zeros((*lc.matrix, 1), types[lc.element_bits])
    left[row, :, 0], right[:, column, 0], addend[row, column, 0] = np.array(a) << lift[0], np.array(b) << lift[1], c
    codes, registers = None, []
    if plan.scale:
        code = st.one_of(st.integers(0, 255), st.integers(120, 134) if plan.scale == "ue8m0" else st.integers(0x30, 0x40))
        count = k // plan.block
        codes = tuple(data.draw(st.lists(code, min_size=count, max_size=count)) for _ in "ab")
        for operand, index, found in zip("AB", (row, column), codes, strict=True):
            registers.append(np.zeros((1, 32), np.uint32))
            registers[-1][0, SCALE_LANES[operand][index]] = sum(byte << 8 * i for i, byte in enumerate(found))
    d = mma(plan, _packed(la, left), _packed(lb, right), pack(lc, addend), None, registers)
    assert int(unpack(ld, d)[row, column, 0]) == element(plan, a, b, c, codes)


def _packed(layout: FragmentLayout, matrix: np.ndarray) -> list[np.ndarray]:
    """As ``pack``, of elements of four bits too."""
    if layout.element_bits != 4:
        return pack(layout, matrix)
    elements = matrix[layout.rows, layout.columns].astype(np.uint32)  # [register][element][lane][warp]
    shifts = 4 * np.arange(8, dtype=np.uint32)[None, :, None, None]
    return list(np.bitwise_or.reduce(elements << shifts, axis=1).transpose(0, 2, 1))


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_one_element_of_a_sparse_product_by_the_letter(data: st.DataObject) -> None:
    plan = data.draw(st.sampled_from(list(SPARSE_FLOAT_PLANS.values())))
    row, column, k = 11, 5, plan.mnk[2]
    a = data.draw(st.lists(_elements(plan.a), min_size=k // 2, max_size=k // 2))
    b = data.draw(st.lists(_elements(plan.b), min_size=k, max_size=k))
    c = data.draw(_elements(plan.c))
    found = Sparsity.of(plan.shape, plan.a)
    pairs = [(0, 1), (2, 3)] if plan.a == "tf32" else [(i, j) for j in range(4) for i in range(j)]
    chosen = data.draw(st.lists(st.sampled_from(pairs), min_size=k // found.group, max_size=k // found.group))
    metadata = np.full((1, 32), 0xFFFFFFFF, np.uint32)
    met: list[int] = []
    for group, (low, high) in enumerate(chosen):
        lane, shift = int(found.lanes[row, group]), int(found.shifts[row, group])
        metadata[0, lane] &= np.uint32(~((15 ^ (low | high << 2)) << shift) & 0xFFFFFFFF)
        met += [b[found.group * group + i] for i in ([low // 2] if plan.a == "tf32" else [low, high])]
    la, lb, lc, ld = layouts(plan)
    types = {8: np.uint8, 16: np.uint16, 32: np.uint32}
    left = np.zeros((*la.matrix, 1), types[la.element_bits])
    right = np.zeros((*lb.matrix, 1), types[lb.element_bits])
    addend = np.zeros((*lc.matrix, 1), types[lc.element_bits])
    left[row, :, 0], right[:, column, 0], addend[row, column, 0] = a, b, c
    d = mma(plan, pack(la, left), pack(lb, right), pack(lc, addend), metadata)
    assert int(unpack(ld, d)[row, column, 0]) == element(plan, a, met, c)
