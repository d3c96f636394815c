"""How a tensor core computes, as data: which products are summed at once, with how many bits, and how the sum is rounded.

Invariant: an ``MmaPlan`` says everything that the bits of D depend on; executors read the plan and never the profile. What is not known is
refused, never guessed.

The fused sum of a ``float`` plan, T(products, c): with sig and e the operand's integer significand (not normalised below the exponent floor) and
exponent, X the largest e_a + e_b of a nonzero product or e_c of a nonzero c, every term is aligned to 2^(X - F) and truncated toward zero, the
terms are added exactly, the sum is rounded once to the plan's ``rounding``; it is never -0. NaN, inf * 0 and inf - inf give the canonical NaN.
Sources: this project's measurements on an H200 (``confirmed``); MMA-Sim, arXiv 2511.10909 (``literature``), with the zero rules measured there.
The profile ``manual`` is nobody's hardware: there a sum of floats is the exact sum of all products and C, rounded once to nearest even (``docs/numerics.md``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ptxgraft.errors import UnsupportedError
from ptxgraft.isa.fragments import DENSE_SHAPES, SPARSE_SHAPES, is_quad_pair, shape_of

MANUAL = "manual"


@dataclass(frozen=True, slots=True)
class Profile:
    """One GPU generation's arithmetic. ``source`` says how the bits of its tensor cores are known, ``functions`` how those of its approximate functions are:
    ``confirmed`` (measured by this project), ``literature``, ``assumed`` (taken to be as on sm_90), or ``defined`` (nothing to confirm). ``what`` says more."""

    name: str
    source: str
    what: str
    functions: str = "assumed"


PROFILES: dict[str, Profile] = {
    p.name: p
    for p in (
        Profile(MANUAL, "defined", "the PTX manual, IEEE 754 where it is silent: exact sums and functions, rounded once", "defined"),
        Profile("sm_70", "literature", "Volta: 23 fraction bits"),
        Profile("sm_75", "literature", "Turing: 24 fraction bits"),
        Profile("sm_80", "literature", "Ampere: 24 fraction bits, long products in two halves"),
        Profile("sm_86", "literature", "Ampere: as sm_80"),
        Profile("sm_89", "literature", "Ada: as sm_80; fp8 with 13 fraction bits"),
        Profile(
            "sm_90", "confirmed", "Hopper: 25 fraction bits; every mma.sync, mma.sp and wmma checked bit for bit on one H200", "confirmed"
        ),
        Profile("sm_100", "literature", "Blackwell: mma.sync as sm_90"),
        Profile("sm_120", "literature", "RTX Blackwell: as sm_90; fp8 in one sum, blocks with scales"),
    )
}
"""Every numerics profile by name."""

MIN_EXPONENT = {"f16": -14, "bf16": -126, "tf32": -126, "f32": -126, "e4m3": -6, "e5m2": -14, "e3m2": -2, "e2m3": 0, "e2m1": 0}
"""The exponent of the smallest normal number of a format, also that of its subnormals."""


@dataclass(frozen=True, slots=True)
class Step:
    """One fused sum: the k indices of its products (ascending; of a sparse A: indices of its stored elements) and F, the fraction bits kept below the
    largest exponent."""

    ks: tuple[int, ...]
    fraction_bits: int


@dataclass(frozen=True, slots=True)
class MmaPlan:
    """How D = A*B + C of one instruction is computed on one profile.

    ``kind``:
      ``float``: ``steps`` in order, each T's result being the next one's c. ``c_inside``: the first c is C; else it is +0 and C is added to the last
      result afterwards, rounded to nearest once, subnormals kept. ``exponent_floor`` is the lowest exponent of an A and a B operand: a nonzero operand below
      2^floor keeps that exponent (its significand is not normalised). ``rounding`` is what each T gives: ``f32.rz``, ``f16.rn``, or ``e8m13.rz``
      (an f32 with 13 fraction bits).
      ``blocks``: as ``float``, but each step is a group whose products are added exactly first; one T adds these sums times their scales and C, a sum having
      the exponent of its two scales.
      ``exact``: the sum of all products and C, rounded once (``f32.rn``, ``f16.rn``); a sum of zero is +0; specials as in T.
      ``fma32``: D = C + p with p the chain of f32 fma over ascending k from +0, nearest. ``fma32.pairs``: f16 D = round((C + t1) + t2) with
      t1 = fma(a1, b1, a0*b0), t2 = fma(a3, b3, a2*b2) in f32.
      ``f64``: acc = C, acc = fma(a, b, acc) for ascending k in ``rounding`` (rn, rz, rm, rp).
      ``int``: exact; ``satfinite`` clamps the final sum to s32 once, else it wraps. ``bit``: C plus the ones of a ``bit_op`` b (xor, and), wrapping.
    ``layouts`` are A's and B's (row or col), of interest for m8n8k4 on f16 alone. ``sparse``: A has half of its columns, each stored element meets
    the row of B that the metadata names (``isa.fragments.Sparsity``), what is left out has no part in anything. ``scale`` (ue8m0, ue4m3, or '') is the type of
    the factors that rows of A and columns of B have, one for each ``block`` elements (of a sparse A: stored ones); those of ue8m0 move the exponents of products,
    a NaN among them makes the whole row or column one. ``source``: the profile's, or ``assumed`` for float sums of sparse instructions elsewhere than they were
    measured (as of the dense instruction over the stored elements), and for six-bit elements. ``name`` is unique among plans.
    """

    name: str
    profile: str
    source: str
    shape: str
    d: str
    a: str
    b: str
    c: str
    kind: str
    layouts: tuple[str, str] = ("row", "col")
    steps: tuple[Step, ...] = ()
    c_inside: bool = True
    exponent_floor: tuple[int, int] = (0, 0)
    rounding: str = ""
    satfinite: bool = False
    bit_op: str = ""
    sparse: bool = False
    scale: str = ""
    block: int = 0

    @property
    def mnk(self) -> tuple[int, int, int]:
        """The shape as (m, n, k)."""
        return shape_of(self.shape)

    @property
    def depth(self) -> int:
        """How many products an element of D sums: k, or the k / 2 of a sparse A's stored elements."""
        k = shape_of(self.shape)[2]
        return k // 2 if self.sparse else k


_FRACTION_BITS = {"sm_70": 23, "sm_75": 24, "sm_80": 24, "sm_86": 24, "sm_89": 24, "sm_90": 25, "sm_100": 25, "sm_120": 25}
_ADA_FP8_FRACTION_BITS = 13
_AMPERE = ("sm_80", "sm_86", "sm_89")
_HOPPER = ("sm_90", "sm_100", "sm_120", MANUAL)
_AMPERE_UP = _AMPERE + _HOPPER
_TURING_UP = ("sm_75", *_AMPERE_UP)
_FP8 = ("e4m3", "e5m2")
_BYTES = (*_FP8, "e3m2", "e2m3", "e2m1")
_SCALES = {("mxf8f6f4", "ue8m0"): (32,), ("mxf4", "ue8m0"): (32,), ("mxf4nvf4", "ue8m0"): (32, 16), ("mxf4nvf4", "ue4m3"): (16,)}
"""Elements that share a factor, by kind and the factors' type."""


@cache
def mma_plan(
    shape: str,
    dtype: str,
    atype: str,
    btype: str,
    ctype: str,
    profile: str,
    *,
    alayout: str = "row",
    blayout: str = "col",
    rounding: str = "",
    satfinite: bool = False,
    bit_op: str = "",
    sparse: bool = False,
    kind: str = "",
    scale: str = "",
    block: int = 0,
) -> MmaPlan:
    """The plan of ``mma.sync.aligned.SHAPE.ALAYOUT.BLAYOUT.D.A.B.C`` on ``profile``; of ``mma.sp.sync`` if ``sparse``.

    ``rounding`` (f64): rn, rz, rm, rp; '' is rn. ``bit_op`` (b1): xor or and. ``kind`` is what follows ``kind::``; with factors ``scale`` is their type and ``block``
    how many of a row's elements share one (dense: 32 or 16). Raises ``UnsupportedError``, naming instruction and profile, for an
    unknown profile and for a combination whose bits are not known there.
    """
    words = [
        "mma.sp.sync.aligned" if sparse else "mma.sync.aligned",
        shape,
        alayout,
        blayout,
        kind and f"kind::{kind}",
        scale and f"block_scale.scale_vec::{shape_of(shape)[2] // (2 if sparse else 1) // max(block, 1)}X",
        rounding,
        "satfinite" if satfinite else "",
        dtype,
        atype,
        btype,
        ctype,
    ]
    words += [scale, bit_op and f"{bit_op}.popc"]
    text = ".".join(w for w in words if w)
    if profile not in PROFILES:
        raise UnsupportedError(f"the numerics profile {profile!r} is not known for {text}", hint=f"profiles: {', '.join(PROFILES)}")
    shapes = SPARSE_SHAPES if sparse else DENSE_SHAPES
    known: list[str] = []
    fields = None
    if shape in shapes.get(atype, ()) and shape in shapes.get(btype, ()):
        if kind:
            by_profile = {p: _kind_fields(shape, dtype, atype, btype, ctype, p, kind, scale, block, sparse) for p in PROFILES}
        else:
            find = _sparse_fields if sparse else _fields
            by_profile = {p: find(shape, dtype, atype, btype, ctype, p, rounding, satfinite, bit_op) for p in PROFILES}
        fields = by_profile[profile]
        known = [p for p, found in by_profile.items() if found is not None]
    if fields is None:
        raise UnsupportedError(
            f"the bits of {text} on profile {profile} are not known", hint=f"known on: {', '.join(known)}" if known else "no profile has it"
        )
    return MmaPlan(
        name=f"{profile}.{text.removeprefix('mma.').replace('sync.aligned.', '').replace('::', '_')}",
        profile=profile,
        source=_source(profile, fields["kind"], sparse, {atype, btype}),
        shape=shape,
        d=dtype,
        a=atype,
        b=btype,
        c=ctype,
        layouts=(alayout, blayout),
        satfinite=satfinite,
        bit_op=bit_op,
        sparse=sparse,
        scale=scale,
        block=block,
        **fields,
    )


def _source(profile: str, kind: str, sparse: bool, elements: set[str]) -> str:
    """How the bits of a plan are known."""
    beyond = sparse or not elements.isdisjoint(("e3m2", "e2m3"))
    return "assumed" if beyond and kind in ("float", "blocks") and profile != "sm_90" else PROFILES[profile].source


def _kind_fields(
    shape: str, d: str, a: str, b: str, c: str, profile: str, kind: str, scale: str, block: int, sparse: bool
) -> dict[str, Any] | None:
    """As ``_fields``, of the instructions with a kind; without factors ``f8f6f4`` sums all of k at once."""
    _, _, k = shape_of(shape)
    depth = k // 2 if sparse else k
    packed = kind in ("mxf4", "mxf4nvf4")
    if profile not in (MANUAL, "sm_120") or depth != (64 if packed else 32) or d != c:
        return None
    if kind == "f8f6f4":
        legal = not scale and d in ("f32", "f16") and a in _BYTES and b in _BYTES
    else:
        legal = block in _SCALES.get((kind, scale), ()) and d == "f32" and (a == b == "e2m1" if packed else a in _BYTES and b in _BYTES)
    if not legal:
        return None
    if profile == MANUAL:
        return _exact_fields(depth, d)
    if packed:
        steps = tuple(Step(tuple(range(start, start + 16)), 35) for start in range(0, depth, 16))
        return {"kind": "blocks", "steps": steps, "rounding": "f32.rz"}
    return _float_fields([tuple(range(depth))], _FRACTION_BITS[profile], d, (MIN_EXPONENT[a], MIN_EXPONENT[b]))


def _exact_fields(depth: int, d: str) -> dict[str, Any]:
    return {"kind": "exact", "steps": (Step(tuple(range(depth)), 0),), "rounding": f"{d}.rn"}


def _fields(shape: str, d: str, a: str, b: str, c: str, profile: str, rounding: str, satfinite: bool, bit_op: str) -> dict[str, Any] | None:
    """The fields of the plan that depend on the profile; None when the profile's bits are not known."""
    m, _, k = shape_of(shape)
    if d == "s32" and c == "s32":
        first = _TURING_UP if m == 8 else _AMPERE_UP
        if a == b == "b1":
            return {"kind": "bit"} if profile in (_AMPERE_UP if bit_op == "and" else first) and bit_op in ("xor", "and") else None
        return {"kind": "int"} if profile in first and not bit_op and a[1:] == b[1:] else None
    if satfinite or bit_op:
        return None
    if a == b == c == d == "f64":
        known = _AMPERE_UP if m == 8 else _HOPPER
        return {"kind": "f64", "rounding": rounding or "rn"} if profile in known else None
    if rounding or d not in ("f32", "f16") or c not in ("f32", "f16"):
        return None
    if is_quad_pair(shape, a):
        return _quad_pair_fields(d, c, profile)
    if c != d and not (profile == MANUAL and a == b == d == "f16"):  # wmma has it; elsewhere it is rounded twice
        return None
    if a in _FP8 and b in _FP8:
        return _exact_fields(k, d) if profile == MANUAL else _fp8_fields(k, d, a, b, profile)
    if a != b or a not in ("f16", "bf16", "tf32") or (d == "f16" and a != "f16"):
        return None
    if profile not in (_TURING_UP if shape == "m16n8k8" and a == "f16" else _AMPERE_UP):
        return None
    if profile == MANUAL:
        return _exact_fields(k, d)
    # Ampere and Ada sum 8 (tf32: 4) products at once, lower k first; Hopper and later take the whole of k.
    width = k if profile in _HOPPER else min(k, 4 if a == "tf32" else 8)
    ks = [tuple(range(start, start + width)) for start in range(0, k, width)]
    return _float_fields(ks, _FRACTION_BITS[profile], d, (MIN_EXPONENT[a], MIN_EXPONENT[b]))


def _sparse_fields(
    shape: str, d: str, a: str, b: str, c: str, profile: str, rounding: str, satfinite: bool, bit_op: str
) -> dict[str, Any] | None:
    """As of the dense instruction over the stored elements; no generation before Ampere has sparse ones, and none fp8 with f16 results."""
    if profile not in _AMPERE_UP or (a in _FP8 and d != "f32"):
        return None
    m, n, k = shape_of(shape)
    return _fields(f"m{m}n{n}k{k // 2}", d, a, b, c, profile, rounding, satfinite, bit_op)


def _float_fields(
    ks: list[tuple[int, ...]], fraction_bits: int, d: str, floor: tuple[int, int], rounding: str = "", c_inside: bool = True
) -> dict[str, Any]:
    return {
        "kind": "float",
        "steps": tuple(Step(group, fraction_bits) for group in ks),
        "c_inside": c_inside,
        "exponent_floor": floor,
        "rounding": rounding or ("f16.rn" if d == "f16" else "f32.rz"),
    }


def _quad_pair_fields(d: str, c: str, profile: str) -> dict[str, Any] | None:
    if d == "f16" and c == "f32":
        return None
    if profile == MANUAL:
        return _exact_fields(4, d)
    if profile in ("sm_70", "sm_75"):
        return _float_fields([(0, 1, 2, 3)], _FRACTION_BITS[profile], d, (-14, -14))
    if profile == "sm_90":
        return {"kind": "fma32" if d == "f32" else "fma32.pairs"}
    return None


def _fp8_fields(k: int, d: str, a: str, b: str, profile: str) -> dict[str, Any] | None:
    native = (MIN_EXPONENT[a], MIN_EXPONENT[b])
    if profile == "sm_89":
        ks = [tuple(range(start, start + 16)) for start in range(0, k, 16)]
        return _float_fields(ks, _ADA_FP8_FRACTION_BITS, d, native, "f16.rn" if d == "f16" else "e8m13.rz")
    if profile in ("sm_90", "sm_100"):
        # The operands are widened to f16; bytes 0, 1 of each register are summed first, bytes 2, 3 on top of that, C after both.
        ks = [tuple(i for i in range(k) if i & 2 == half) for half in (0, 2)]
        return _float_fields(ks, _FRACTION_BITS[profile], d, (MIN_EXPONENT["f16"], MIN_EXPONENT["f16"]), c_inside=False)
    if profile == "sm_120":
        return _float_fields([tuple(range(k))], _FRACTION_BITS[profile], d, native)
    return None
