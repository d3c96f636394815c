"""Cases: formatted stores, reductions, accesses outside, and dense records of filtering.

Invariant: a function adds its cases to ``CASES``, in order.
"""

from __future__ import annotations

import numpy as np
from fetch_rows import FORMATS, RNG, D, around, case, image, ints, normal, rows, steps, tex, wide

NASTY_F = np.array(
    [
        0,
        -0.0,
        1,
        -1,
        0.5,
        -0.5,
        1.5,
        2,
        -2,
        1e30,
        -1e30,
        np.nan,
        -np.nan,
        np.inf,
        -np.inf,
        1e-40,
        1e-8,
        -1e-8,
        65504,
        65519.99,
        65520,
        65536,
        70000,
        6e-8,
        2.9e-8,
        3e-8,
        127,
        128,
        255,
        256,
        0.0019607844,
        0.00196,
    ],
    np.float32,
)


def surfaces():
    words = np.concatenate(
        [
            NASTY_F.view(np.uint32),
            around(np.arange(0, 34) / 17 - 0.5).view(np.uint32),
            around((np.arange(0, 255, 7) + 0.5) / 255).view(np.uint32),
            around((np.arange(-127, 127, 7) + 0.5) / 127).view(np.uint32),
            around((np.arange(0, 65535, 1999) + 0.5) / 65535).view(np.uint32),
            around((np.arange(-32767, 32767, 1999) + 0.5) / 32767).view(np.uint32),
            np.array(
                [
                    0,
                    1,
                    -1,
                    127,
                    128,
                    129,
                    -127,
                    -128,
                    -129,
                    255,
                    256,
                    257,
                    32767,
                    32768,
                    32769,
                    -32767,
                    -32768,
                    -32769,
                    65535,
                    65536,
                    2**31 - 1,
                    -(2**31),
                    -(2**31) + 1,
                ],
                np.int64,
            ).astype(np.uint32),
            normal(100).view(np.uint32),
            RNG.integers(0, 2**32, 100, dtype=np.uint64).astype(np.uint32),
            (normal(60) * np.float32(1e5)).view(np.uint32),
            (2.0 ** RNG.uniform(-30, 18, 120)).astype(np.float32).view(np.uint32),
        ]
    )
    m = len(words)
    for fmt, code, c in (
        [(f"{k}x{c}", FORMATS[k], c) for k in FORMATS for c in (1, 2, 4)]
        + [(f"unorm8x{c}", 192 + i, c) for i, c in enumerate((1, 2, 4))]
        + [(f"unorm16x{c}", 195 + i, c) for i, c in enumerate((1, 2, 4))]
        + [(f"snorm8x{c}", 198 + i, c) for i, c in enumerate((1, 2, 4))]
        + [(f"snorm16x{c}", 201 + i, c) for i, c in enumerate((1, 2, 4))]
    ):
        dt = fmt.split("x")[0] if code < 192 else {"unorm8": "u1", "unorm16": "u2", "snorm8": "i1", "snorm16": "i2"}[fmt.split("x")[0]]
        blank = np.full((1, m, c), 0x55, np.uint8).astype(dt)
        at = np.zeros((m, 8), np.uint32)
        at[:, 0] = np.arange(m)
        for i in range(4):
            at[:, 2 + i] = words[RNG.permutation(m)] if i else words
        for v, what in (("", "{%x2}"), (".v2", "{%x2, %x3}"), (".v4", "{%x2, %x3, %x4, %x5}")):
            if (code < 192 and c == 4) or v == ".v4":
                case(
                    f"sust.p {fmt}{v}",
                    image("2d", blank, surface=True, code=code, back=True),
                    f"sust.p.2d{v}.b32.trap [%rd1, {{%x0, %x1}}], {what};",
                    at,
                )
    small = np.arange(4 * 6 * 2, dtype=np.uint16).reshape(4, 6, 2)
    outs = np.array([(x, y) for x in (-2, -1, 0, 5, 6, 9) for y in (-2, -1, 0, 3, 4, 9)])
    for clamp in ("clamp", "zero"):
        for x, y in outs:
            case(
                f"sust.p {clamp} {x} {y}",
                image("2d", small, surface=True, back=True),
                f"sust.p.2d.v2.b32.{clamp} [%rd1, {{%x0, %x1}}], {{%x2, %x3}};",
                rows([x], [y], [777], [888]),
            )
    for clamp in ("clamp", "zero"):
        for x, y in outs:
            case(
                f"sured.b {clamp} {x} {y}",
                image("2d", np.arange(24, dtype=np.uint32).reshape(4, 6, 1), surface=True, back=True),
                f"sured.b.add.2d.u32.{clamp} [%rd1, {{%x0, %x1}}], %x2;",
                rows([4 * x], [y], [1000]),
            )
            case(
                f"sured.p {clamp} {x} {y}",
                image("2d", np.arange(24, dtype=np.uint32).reshape(4, 6, 1), surface=True, back=True),
                f"sured.p.add.2d.b32.{clamp} [%rd1, {{%x0, %x1}}], %x2;",
                rows([x], [y], [1000]),
            )
    n = 150
    for clamp in ("clamp", "zero"):
        case(
            f"suld a1d {clamp}",
            image("a1d", RNG.integers(0, 2**32, (3, 7, 1), dtype=np.uint64).astype(np.uint32), surface=True),
            f"suld.b.a1d.b32.{clamp} %r5, [%rd1, {{%x0, %x1}}];",
            rows(RNG.choice([-1, 0, 1, 2, 3, 9], n), ints(-3, 10, n) * 4),
        )
        case(
            f"suld a2d {clamp}",
            image("a2d", RNG.integers(0, 2**32, (3, 5, 7, 1), dtype=np.uint64).astype(np.uint32), surface=True),
            f"suld.b.a2d.b32.{clamp} %r5, [%rd1, {{%x0, %x1, %x2, %x2}}];",
            rows(RNG.choice([-1, 0, 1, 2, 3, 9], n), ints(-3, 10, n) * 4, ints(-3, 8, n)),
        )
        case(
            f"suld 3d {clamp}",
            image("3d", RNG.integers(0, 2**32, (3, 5, 7, 1), dtype=np.uint64).astype(np.uint32), surface=True),
            f"suld.b.3d.b32.{clamp} %r5, [%rd1, {{%x0, %x1, %x2, %x2}}];",
            rows(ints(-3, 10, n) * 4, ints(-3, 8, n), ints(-3, 6, n)),
        )
        case(
            f"suld cube {clamp}",
            image("cube", RNG.integers(0, 2**32, (6, 5, 5, 1), dtype=np.uint64).astype(np.uint32), surface=True),
            f"suld.b.a2d.b32.{clamp} %r5, [%rd1, {{%x0, %x1, %x2, %x2}}];",
            rows(RNG.choice([-1, 0, 1, 4, 5, 6, 9], n), ints(-3, 8, n) * 4, ints(-3, 8, n)),
        )
        for i, (l, x, y) in enumerate([(-1, 0, 0), (0, 0, 0), (3, 1, 1), (9, 6, 4), (1, -1, 2), (2, 3, -1), (2, 7, 4), (0, 3, 5)]):
            case(
                f"sust a2d {clamp} {i}",
                image("a2d", RNG.integers(0, 2**32, (3, 5, 7, 1), dtype=np.uint64).astype(np.uint32), surface=True, back=True),
                f"sust.b.a2d.b32.{clamp} [%rd1, {{%x0, %x1, %x2, %x2}}], %x3;",
                rows([l], [4 * x], [y], [12345]),
            )
    case(
        "suld v4",
        image("2d", RNG.integers(0, 2**32, (3, 4, 4), dtype=np.uint64).astype(np.uint32), surface=True),
        f"suld.b.2d.v4.b32.clamp {D}, [%rd1, {{%x0, %x1}}];",
        rows(ints(-2, 6, n) * 16, ints(-2, 5, n)),
    )


def reductions():
    for op in ("add", "min", "max", "and", "or"):
        for form, types in (("b", ("u32", "s32", "u64", "s64", "b32")), ("p", ("b32", "b64"))):
            for ty in types:
                if (
                    (form == "b" and (ty == "b32") != (op in ("and", "or")))
                    or (form == "b" and ty == "s64" and op == "add")
                    or (ty == "b64" and op in ("add", "and", "or"))
                ):
                    continue
                for dt in ("u4", "i4", "f4") if form == "p" else ("u4",):
                    for c in (2,) if ty == "b64" else (1, 2, 4):
                        a = RNG.integers(0, 2**32, (3, 4, c), dtype=np.uint64).astype(np.uint32).view(dt)
                        n = 24
                        size = 8 if ty.endswith("64") else 4
                        x = RNG.integers(0, 16 * c // size, n) * size if form == "b" else RNG.integers(0, 4, n)
                        at = rows(
                            x, RNG.integers(0, 3, n), RNG.integers(0, 2**32, n), 0, RNG.integers(0, 2**32, n), RNG.integers(0, 2**32, n)
                        )
                        case(
                            f"sured.{form}.{op}.{ty} {dt}x{c}",
                            image("2d", a, surface=True, back=True),
                            f"sured.{form}.{op}.2d.{ty}.trap [%rd1, {{%x0, %x1}}], {'%rd7' if ty.endswith('64') else '%x2'};",
                            at,
                        )


def dense():
    a = np.zeros((256, 4, 4), np.int8)  # every value against itself, and against 0
    v = np.arange(-128, 128)
    a[:, 0], a[:, 1], a[:, 2], a[:, 3] = v[:, None], v[:, None], 0, np.array([127, -127, -128, 1])
    y, w = np.meshgrid(np.arange(256), np.arange(0, 256, 5), indexing="ij")
    for i in range(3):
        case(f"snorm8 pairs {i}", image("2d", a, filter="linear"), tex("2d"), rows((i + 0.5 + w.ravel() / 256), (y.ravel() + 0.5)))
    b = RNG.integers(-128, 128, (64, 256, 4)).astype(np.int8)
    n = 3000
    case("snorm8 lines", image("2d", b, filter="linear"), tex("2d"), rows(steps(0, 256, n), RNG.integers(0, 64, n) + 0.5))
    case("snorm8 planes", image("2d", b, filter="linear"), tex("2d"), rows(steps(0, 256, n), steps(0, 64, n)))
    u = RNG.integers(0, 256, (64, 256, 4)).astype(np.uint8)
    case("unorm8 planes", image("2d", u, filter="linear"), tex("2d"), rows(steps(0, 256, n), steps(0, 64, n)))
    s = RNG.integers(-(2**15), 2**15, (64, 256, 4)).astype(np.int16)
    case("snorm16 planes", image("2d", s, filter="linear"), tex("2d"), rows(steps(0, 256, n), steps(0, 64, n)))
    for name, t in (
        ("normal", normal(8, 8, 8, 4)),
        ("wide", wide(8, 8, 8, 4)),
        ("mixed", (normal(8, 8, 8, 4) * 2.0 ** RNG.integers(-3, 4, (8, 8, 8, 4))).astype(np.float32)),
        ("positive", np.abs(normal(8, 8, 8, 4))),
        ("f16", normal(8, 8, 8, 4).astype(np.float16)),
        ("i1", RNG.integers(-128, 128, (8, 8, 8, 4)).astype(np.int8)),
        ("u2", RNG.integers(0, 65536, (8, 8, 8, 4)).astype(np.uint16)),
    ):
        m = 3000
        case(f"3d {name}", image("3d", t, filter="linear"), tex("3d"), rows(steps(0, 8, m), steps(0, 8, m), steps(0, 8, m)))
    for k in range(8):
        z, yy, xx = k >> 2, k >> 1 & 1, k & 1
        t = np.zeros((2, 2, 2, 4), np.float32)
        t[z, yy, xx] = [1, 1 + 2.0**-20, 65537, 1 / 3]
        q = np.arange(0, 256, 9)
        w = np.stack(np.meshgrid(q, q, q, indexing="ij"), -1).reshape(-1, 3)
        w = w[RNG.permutation(len(w))[:400]]
        case(f"3d corner {k}", image("3d", t, filter="linear"), tex("3d"), rows(*((w + 128) / 256).T))
