"""Video instructions on both engines against exact integers: every root, every modifier, parts of registers, operands at the ends."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

import numpy as np
import pytest

import ptxgraft

THREADS = 64
TYPES = ("u32", "s32")
OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "vadd": lambda a, b: a + b,
    "vsub": lambda a, b: a - b,
    "vabsdiff": lambda a, b: abs(a - b),
    "vmin": min,
    "vmax": max,
    "vavrg": lambda a, b: (a + b + (a + b >= 0)) >> 1,
}
COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}  # fmt: skip
SCALAR_PARTS = ("", "b0", "b1", "b2", "b3", "h0", "h1")
ENDS = (
    0,
    1,
    2,
    7,
    31,
    32,
    33,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x10000,
    0x7FFFFFFF,
    0x80000000,
    0x80000001,
    0xFFFFFFFF,
    0xFF80FF80,
)


# -- the manual's pseudo-code on integers ---------------------------------------------------------------------------------
def cut(value: int, bits: int, signed: bool) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def clamp(value: int, bits: int, signed: bool) -> int:
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    return min(max(value, least), most)


def size_of(part: str) -> int:
    return {"b": 8, "h": 16}[part[0]] if part else 32


def selected(value: int, part: str, type: str) -> int:
    part = part.lstrip("-")
    return cut(value >> (size_of(part) * int(part[1]) if part else 0), size_of(part), type == "s32")


def finished(tmp: int, c: int, dtype: str, sat: bool, op2: str, part: str) -> int:
    size = size_of(part)
    if sat:
        tmp = clamp(tmp, size, dtype == "s32")
    if op2:
        tmp, c = cut(tmp, 33, True), cut(c, 32, dtype == "s32")
        tmp = {"add": tmp + c, "min": min(tmp, c), "max": max(tmp, c)}[op2]
    if part:
        at, mask = size * int(part[1]), (1 << size) - 1
        return (tmp & mask) << at | c & ~(mask << at) & 0xFFFFFFFF
    return tmp & 0xFFFFFFFF


def shifted(root: str, a: int, b: int, mode: str) -> int:
    amount = b & 31 if mode == "wrap" else min(b, 32)
    return cut(a << amount, 34, True) if root == "vshl" else a >> amount


def multiplied(a: int, b: int, c: int, types: list[str], words: list[str], parts: list[str]) -> int:
    minus, minus_c = parts[0][:1] == "-" != parts[1][:1] or parts[1][:1] == "-" != parts[0][:1], parts[2] == "-"
    signed = "s32" in types[1:] or minus or minus_c
    product = selected(a, parts[0], types[1]) * selected(b, parts[1], types[2])
    total = (-product if minus else product) + (-cut(c, 32, True) if minus_c else cut(c, 32, signed)) + ("po" in words)
    for scale in ("shr7", "shr15"):
        total >>= int(scale[3:]) if scale in words else 0
    return (clamp(total, 32, signed) if "sat" in words else total) & 0xFFFFFFFF


def parallel(root: str, a: int, b: int, c: int, words: list[str], types: list[str], parts: list[str]) -> int:
    count = int(root[-1])
    size = 32 // count

    def fields(part: str, default: range, type: str) -> list[int]:
        numbers = [int(n) for n in reversed(part[1:])] or default
        return [cut((b << 32 | a) >> (n * size), size, type == "s32") for n in numbers]

    first, second = fields(parts[0], range(count), types[-2]), fields(parts[1], range(count, 2 * count), types[-1])
    result = c if "add" in words else 0
    for i, (x, y) in enumerate(zip(first, second, strict=True)):
        compare = next((COMPARISONS[w] for w in words if w in COMPARISONS), None)
        t = int(compare(x, y)) if compare else OPERATIONS[root[:-1]](x, y)
        t = clamp(t, size, types[0] == "s32") if "sat" in words else t
        wanted = not parts[2] or str(i) in parts[2][1:]
        if "add" in words:
            result += t if wanted else 0
        else:
            result |= ((t if wanted else c >> (i * size)) & ((1 << size) - 1)) << (i * size)
    return result & 0xFFFFFFFF


# -- statements -----------------------------------------------------------------------------------------------------------
Model = Callable[[int, int, int], int]


def scalar(rng: random.Random, root: str) -> tuple[str, Model]:
    types = [rng.choice(TYPES) for _ in range(3)]
    parts = [rng.choice(SCALAR_PARTS) for _ in range(2)]
    kind = rng.randrange(3)
    op2, merged, sat = (
        (rng.choice(("add", "min", "max")) if kind == 1 else ""),
        (rng.choice(SCALAR_PARTS) if kind == 2 else ""),
        rng.random() < 0.5,
    )
    mode, compare = rng.choice(("clamp", "wrap")), rng.choice(list(COMPARISONS))
    written = {
        "vset": [types[1], types[2], compare], "vshl": [types[0], types[1], "u32", "sat" if sat else "", mode],
        "vshr": [types[0], types[1], "u32", "sat" if sat else "", mode],
    }.get(root, [*types, "sat" if sat else ""])  # fmt: skip

    def model(a: int, b: int, c: int) -> int:
        x, y = selected(a, parts[0], types[1]), selected(b, parts[1], "u32" if root in ("vshl", "vshr") else types[2])
        if root == "vset":
            return finished(int(COMPARISONS[compare](x, y)), c, "u32", False, op2, merged)
        tmp = shifted(root, x, y, mode) if root in ("vshl", "vshr") else OPERATIONS[root](x, y)
        return finished(tmp, c, types[0], sat, op2, merged)

    return statement([root, *written, op2], [*parts, ""], merged, kind > 0), model


def product(rng: random.Random, root: str) -> tuple[str, Model]:
    types = [rng.choice(TYPES) for _ in range(3)]
    words = [w for w in ("po", "sat", rng.choice(("shr7", "shr15"))) if rng.random() < 0.5]
    signs = (
        ["", "", ""]
        if "po" in words
        else rng.choice((["", "", ""], ["-", "", ""], ["", "-", ""], ["-", "-", ""], ["", "", "-"], ["-", "-", "-"]))
    )
    parts = [sign + (rng.choice(SCALAR_PARTS) if i < 2 else "") for i, sign in enumerate(signs)]
    return statement([root, *types, *words], parts, "", True), lambda a, b, c: multiplied(a, b, c, types, words, parts)


def simd(rng: random.Random, root: str) -> tuple[str, Model]:
    count = int(root[-1])
    letter = "h" if count == 2 else "b"
    types = [rng.choice(TYPES) for _ in range(3)]
    words = [rng.choice(list(COMPARISONS))] if root.startswith("vset") else []
    words += rng.choice(([], ["add"], [] if words else ["sat"]))
    parts = [rng.choice(("", letter + "".join(rng.choices("01234567"[: 2 * count], k=count)))) for _ in range(2)]
    mask = "".join(sorted(rng.sample("0123"[:count], rng.randint(0, count)), reverse=True))
    parts.append(letter + mask if mask else "")
    written = [root, *(types[1:] if root.startswith("vset") else types), *words]
    return statement(written, [*parts[:2], ""], parts[2], True), lambda a, b, c: parallel(root, a, b, c, words, types, parts)


def statement(words: list[str], parts: list[str], merged: str, three: bool) -> str:
    """``%r0`` = op of ``%r1``, ``%r2`` and ``%r3``."""

    def operand(name: str, part: str) -> str:
        sign, rest = part[: part.startswith("-")], part.lstrip("-")
        return f"{sign}{name}{'.' if rest else ''}{rest}"

    names = ["%r0", "%r1", "%r2", "%r3"][: 4 if three else 3]
    return f"{'.'.join(w for w in words if w)} {', '.join(operand(n, p) for n, p in zip(names, [merged, *parts], strict=False))};"


MAKERS: dict[str, Callable[[random.Random, str], tuple[str, Model]]] = {
    **dict.fromkeys((*(root for root in OPERATIONS if root != "vavrg"), "vset", "vshl", "vshr"), scalar),
    "vmad": product,
    **{f"{root}{count}": simd for root in (*OPERATIONS, "vset") for count in (2, 4)},
}


def operands(rng: random.Random) -> Iterator[int]:
    for _ in range(THREADS):
        yield rng.choice(ENDS) if rng.random() < 0.5 else rng.getrandbits(32)


@pytest.fixture(scope="module")
def cases() -> list[tuple[str, Model]]:
    rng = random.Random(7)
    return [maker(rng, root) for root, maker in MAKERS.items() for _ in range(24)]


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_against_exact_integers(cases: list[tuple[str, Model]], engine: str) -> None:
    rng = random.Random(11)
    given = np.array([list(operands(rng)) for _ in range(3)], np.uint32)
    lines = [f"{text}\nst.global.u32 [%rd2+{4 * THREADS * i}], %r0;" for i, (text, _) in enumerate(cases)]
    ptx = f""".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{{
    .reg .b32 %r<5>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r4, %tid.x; mul.wide.u32 %rd3, %r4, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
    ld.global.u32 %r1, [%rd1]; ld.global.u32 %r2, [%rd1+{4 * THREADS}]; ld.global.u32 %r3, [%rd1+{8 * THREADS}];
    {chr(10).join(lines)}
    ret;
}}
"""
    out = np.zeros((len(cases), THREADS), np.uint32)
    ptxgraft.load(ptx).kernel("k", engine=engine).launch(1, THREADS, [given, out])
    wrong = []
    for (text, model), row in zip(cases, out.tolist(), strict=True):
        for lane, (a, b, c) in enumerate(zip(*given.tolist(), strict=True)):
            if row[lane] != model(a, b, c):
                wrong.append(f"{text} {a:#x} {b:#x} {c:#x}: {row[lane]:#x}, wanted {model(a, b, c):#x}")
                break
    assert not wrong, f"{len(wrong)} of {len(cases)}\n" + "\n".join(wrong[:20])


def test_the_cases_have_parts_of_every_kind(cases: list[tuple[str, Model]]) -> None:
    texts = "\n".join(text for text, _ in cases)
    assert all(
        re.search(pattern, texts) for pattern in (r"%r0\.b\d,", r"%r0\.h1,", r"-%r1\.", r"-%r3;", r"%r2\.b\d{4}", r"%r0\.b321,|%r0\.b31,")
    )
