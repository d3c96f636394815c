"""Cases: mipmap levels and gradients.

Invariant: a function adds its cases to ``CASES``, in order.
"""

from __future__ import annotations

import numpy as np
from fetch_rows import (
    MODES,
    NORM,
    RNG,
    D,
    anywhere,
    around,
    case,
    constants,
    directions,
    image,
    indexed,
    ints,
    normal,
    pyramid,
    rows,
    tex,
    wide,
)


def levels():
    c = constants(16, 16)
    lod = np.concatenate(
        [
            np.arange(-64, 640) / 128,
            around(np.arange(0, 5) + 0.5),
            around((np.arange(0, 64) + 0.5) / 256),
            around((np.arange(0, 64) + 0.5) / 256 + 1),
            np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.0, 1e-40]),
        ]
    ).astype(np.float32)
    half = np.full(len(lod), 0.5, np.float32)
    L = tex("2d", ", %x4", ".level")
    for mip in ("point", "linear"):
        for trilinear in (True, False):
            for f in ("point", "linear"):
                case(
                    f"lod mip={mip} exact={trilinear} {f}",
                    image("2d", c, mip=mip, exact=trilinear, filter=f, **NORM),
                    L,
                    rows(half, half, half, half, lod),
                )
    for s in (
        {"bias": 0.3},
        {"bias": -1.7},
        {"bias": 0.001953125},
        {"low": 0.5},
        {"high": 2.25},
        {"low": 1.3, "high": 2.7},
        {"low": 3.0, "high": 1.0},
        {"bias": 20.0},
        {"low": 0.7, "bias": -0.2},
        {"high": 0.0},
    ):
        for mip in ("point", "linear"):
            case(
                f"lod {s} {mip}",
                image("2d", c, mip=mip, exact=True, filter="linear", **s, **NORM),
                L,
                rows(half[::3], half[::3], half[::3], half[::3], lod[::3]),
            )
            case(f"base {s} {mip}", image("2d", c, mip=mip, exact=True, filter="linear", **s, **NORM), tex("2d"), rows(half[:4], half[:4]))
    case("base word", image("2d", c, mip="linear", filter="linear", **NORM), tex("2d", how=".base"), rows(half[:4], half[:4]))
    fine = np.arange(0, 8192) / 4096
    hf = np.full(len(fine), 0.5, np.float32)
    for trilinear in (True, False):
        case(
            f"lod fine exact={trilinear}",
            image("2d", c, mip="linear", exact=trilinear, filter="linear", **NORM),
            L,
            rows(hf, hf, hf, hf, fine),
        )
    n = 1000
    free = np.concatenate([anywhere(-1, 5, n // 2), (RNG.integers(0, 4 * 256, n // 2) / 256).astype(np.float32)])

    def data(kind):
        def make(*shape):
            if kind == "f4":
                return normal(*shape, 4)
            if kind == "wide":
                return wide(*shape, 4)
            if kind == "f2":
                return normal(*shape, 4).astype(np.float16)
            li = np.iinfo(kind)
            return RNG.integers(li.min, li.max + 1, (*shape, 4)).astype(kind)

        return make

    for kind in ("f4", "wide", "f2", "u1", "i1", "u2", "i2"):
        t = pyramid(data(kind), 16, 16)
        for f in ("point", "linear"):
            for mip in ("point", "linear"):
                case(
                    f"mips {kind} {f} {mip}",
                    image("2d", t, filter=f, mip=mip, exact=True, **NORM),
                    L,
                    rows(anywhere(-1, 2, n), anywhere(-1, 2, n), 0, 0, free),
                )
    for f in ("point", "linear"):
        case(
            f"mips trilinear optimised {f}",
            image("2d", pyramid(data("f4"), 16, 16), filter=f, mip="linear", exact=False, **NORM),
            L,
            rows(anywhere(-1, 2, n), anywhere(-1, 2, n), 0, 0, free),
        )
        for m in MODES:
            case(
                f"mips odd sizes {f} {m}",
                image("2d", pyramid(indexed, 5, 7), filter=f, mip="linear", exact=True, address=m, **NORM),
                L,
                rows(anywhere(-1, 2, 300), anywhere(-1, 2, 300), 0, 0, free[:300]),
            )
        case(
            f"mips 1d {f}",
            image("1d", pyramid(indexed, 13), filter=f, mip="linear", exact=True, **NORM),
            tex("1d", ", %x4", ".level"),
            rows(anywhere(-1, 2, 300), 0, 0, 0, free[:300]),
        )
        case(
            f"mips 3d {f}",
            image("3d", pyramid(data("f4"), 8, 8, 8), filter=f, mip="linear", exact=True, **NORM),
            tex("3d", ", %x4", ".level"),
            rows(anywhere(-1, 2, n), anywhere(-1, 2, n), anywhere(-1, 2, n), 0, free),
        )
        case(
            f"mips 3d odd {f}",
            image("3d", pyramid(indexed, 3, 6, 9), filter=f, mip="linear", exact=True, **NORM),
            tex("3d", ", %x4", ".level"),
            rows(anywhere(-1, 2, 300), anywhere(-1, 2, 300), anywhere(-1, 2, 300), 0, free[:300]),
        )
        case(
            f"mips a1d {f}",
            image("a1d", pyramid(indexed, 3, 9, keep=1), filter=f, mip="linear", exact=True, **NORM),
            tex("a1d", ", %x4", ".level"),
            rows(ints(-1, 5, 300), anywhere(-1, 2, 300), 0, 0, free[:300]),
        )
        case(
            f"mips a2d {f}",
            image("a2d", pyramid(indexed, 3, 6, 9, keep=1), filter=f, mip="linear", exact=True, **NORM),
            tex("a2d", ", %x4", ".level"),
            rows(ints(-1, 5, 300), anywhere(-1, 2, 300), anywhere(-1, 2, 300), 0, free[:300]),
        )
        d = RNG.standard_normal((300, 3)).astype(np.float32)
        case(
            f"mips cube {f}",
            image("cube", pyramid(indexed, 6, 8, 8, keep=1), filter=f, mip="linear", exact=True, **NORM),
            tex("cube", ", %x4", ".level"),
            rows(*d.T, 0, free[:300]),
        )
        case(
            f"mips acube {f}",
            image("acube", pyramid(indexed, 12, 8, 8, keep=1), filter=f, mip="linear", exact=True, **NORM),
            tex("acube", ", %x4", ".level"),
            rows(ints(-1, 3, 300), *d.T, free[:300]),
        )
    t = pyramid(indexed, 6, 8)
    lv = RNG.choice(np.array([-5, -1, 0, 1, 2, 3, 4, 100]), 300)
    case(
        "level s32",
        image("2d", t, mip="point", **NORM),
        tex("2d", ", %x4", ".level", "s32"),
        rows(ints(-1, 9, 300), ints(-1, 7, 300), 0, 0, lv),
    )
    case(
        "level s32 clamped",
        image("2d", t, mip="point", low=1.0, high=2.0, bias=1.0, **NORM),
        tex("2d", ", %x4", ".level", "s32"),
        rows(ints(-1, 9, 300), ints(-1, 7, 300), 0, 0, lv),
    )
    case("level s32 none", image("2d", t[0]), tex("2d", ", %x4", ".level", "s32"), rows(ints(-1, 9, 300), ints(-1, 7, 300), 0, 0, lv))
    case(
        "level s32 a2d",
        image("a2d", pyramid(indexed, 3, 6, 8, keep=1), mip="point", **NORM),
        tex("a2d", ", %x4", ".level", "s32"),
        rows(ints(-1, 5, 300), ints(-1, 9, 300), ints(-1, 7, 300), 0, lv),
    )
    case(
        "level s32 3d",
        image("3d", pyramid(indexed, 3, 6, 8), mip="point", **NORM),
        tex("3d", ", %x4", ".level", "s32"),
        rows(ints(-1, 9, 300), ints(-1, 7, 300), ints(-1, 4, 300), 0, lv),
    )
    case("tex s32 of mips", image("2d", t, mip="point", low=1.0, **NORM), tex("2d", ctype="s32"), rows(ints(-1, 9, 300), ints(-1, 7, 300)))
    case(
        "level none",
        image("2d", t[0], filter="linear"),
        tex("2d", ", %x4", ".level"),
        rows(anywhere(-1, 9, 100), anywhere(-1, 7, 100), 0, 0, anywhere(-3, 3, 100)),
    )
    case(
        "mips unnormalised",
        image("2d", t, filter="linear", mip="linear", exact=True),
        L,
        rows(anywhere(-1, 9, 100), anywhere(-1, 7, 100), 0, 0, anywhere(-1, 3, 100)),
    )


def gradients():
    big = constants(256, 256)
    n = 1500
    half = np.full(n, 0.5, np.float32)
    s = dict(mip="linear", exact=True, filter="linear", **NORM)
    g2 = f"tex.grad.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}], {{%x2, %x3}}, {{%x4, %x5}};"

    def scale(m):
        return (2.0 ** RNG.uniform(-9, 1, m)).astype(np.float32)

    case(
        "grad x sweep",
        image("2d", big, **s),
        g2,
        rows(half, half, np.float32(2.0**-6) * (1 + np.arange(n) / np.float32(n) * 2).astype(np.float32), 0.0, 0.0, 0.0),
    )
    case(
        "grad y sweep",
        image("2d", big, **s),
        g2,
        rows(half, half, 0.0, np.float32(2.0**-6) * (1 + np.arange(n) / np.float32(n) * 2).astype(np.float32), 0.0, 0.0),
    )
    case(
        "grad dy sweep",
        image("2d", big, **s),
        g2,
        rows(half, half, 0.0, 0.0, -np.float32(2.0**-6) * (1 + np.arange(n) / np.float32(n) * 2).astype(np.float32), 0.0),
    )
    case("grad x any", image("2d", big, **s), g2, rows(half, half, scale(n), 0.0, 0.0, 0.0))
    a = RNG.uniform(0, 2 * np.pi, n)
    case(
        "grad turned",
        image("2d", big, **s),
        g2,
        rows(half, half, (2.0**-4 * np.cos(a)).astype(np.float32), (2.0**-4 * np.sin(a)).astype(np.float32), 0.0, 0.0),
    )
    case("grad turned any", image("2d", big, **s), g2, rows(half, half, scale(n) * RNG.choice([-1, 1], n), scale(n), 0.0, 0.0))
    case(
        "grad both",
        image("2d", big, **s),
        g2,
        rows(half, half, scale(n), scale(n) * RNG.choice([-1, 1], n), scale(n), scale(n) * RNG.choice([-1, 1], n)),
    )
    odd = RNG.choice(np.array([0, np.nan, np.inf, -np.inf, 1e30, 1e-30, 0.01, 0.02]), (200, 4)).astype(np.float32)
    case("grad odd", image("2d", big, **s), g2, rows(half[:200], half[:200], *odd.T))
    case("grad oblong", image("2d", constants(16, 256), **s), g2, rows(half, half, scale(n), scale(n), scale(n), scale(n)))
    case("grad odd size", image("2d", constants(100, 60), **s), g2, rows(half, half, scale(n), scale(n), scale(n), scale(n)))
    case("grad point", image("2d", big, mip="point", filter="point", **NORM), g2, rows(half, half, scale(n), scale(n), scale(n), scale(n)))
    case(
        "grad optimised",
        image("2d", big, mip="linear", filter="linear", **NORM),
        g2,
        rows(half, half, scale(n), scale(n), scale(n), scale(n)),
    )
    case("grad bias", image("2d", big, bias=0.7, low=1.2, high=4.6, **s), g2, rows(half, half, scale(n), scale(n), scale(n), scale(n)))

    def data(*shape):
        return normal(*shape, 4)

    case(
        "grad data",
        image("2d", pyramid(data, 32, 32), **s),
        g2,
        rows(anywhere(-1, 2, n), anywhere(-1, 2, n), scale(n), scale(n), scale(n), scale(n)),
    )
    case(
        "grad 1d",
        image("1d", constants(256), **s),
        f"tex.grad.1d.v4.f32.f32 {D}, [%rd1, {{%x0}}], {{%x2}}, {{%x4}};",
        rows(half, 0, scale(n), 0, scale(n)),
    )
    case(
        "grad a1d",
        image("a1d", constants(3, 256, keep=1), **s),
        f"tex.grad.a1d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}], {{%x2}}, {{%x4}};",
        rows(1, half, scale(n), 0, scale(n)),
    )
    case(
        "grad a2d",
        image("a2d", constants(3, 256, 256, keep=1), **s),
        f"tex.grad.a2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x2}}], {{%x3, %x4}}, {{%x5, %x6}};",
        rows(1, half, half, scale(n), scale(n), scale(n), scale(n)),
    )
    case(
        "grad 3d",
        image("3d", constants(32, 32, 32), **s),
        f"tex.grad.3d.v4.f32.f32 {D}, [%rd1, {{%x0, %x0, %x0, %x0}}], {{%x1, %x2, %x3, %x3}}, {{%x4, %x5, %x6, %x6}};",
        rows(half, *(scale(n) for _ in range(6))),
    )
    case(
        "grad 3d axis",
        image("3d", constants(32, 32, 32), **s),
        f"tex.grad.3d.v4.f32.f32 {D}, [%rd1, {{%x0, %x0, %x0, %x0}}], {{%x1, %x2, %x3, %x3}}, {{%x4, %x5, %x6, %x6}};",
        rows(half, scale(n), 0.0, 0.0, 0.0, 0.0, 0.0),
    )
    case(
        "grad 3d turned",
        image("3d", constants(32, 32, 32), **s),
        f"tex.grad.3d.v4.f32.f32 {D}, [%rd1, {{%x0, %x0, %x0, %x0}}], {{%x1, %x2, %x3, %x3}}, {{%x4, %x5, %x6, %x6}};",
        rows(half, scale(n), scale(n), scale(n), 0.0, 0.0, 0.0),
    )
    d = RNG.standard_normal((n, 3)).astype(np.float32)
    case(
        "grad cube",
        image("cube", constants(6, 64, 64, keep=1), **s),
        f"tex.grad.cube.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x2}}], {{%x3, %x4, %x5, %x5}}, {{%x6, %x6, %x7, %x7}};",
        rows(*d.T, scale(n), scale(n), scale(n), scale(n), scale(n)),
    )
    case(
        "grad none",
        image("2d", indexed(6, 8), filter="linear", **NORM),
        g2,
        rows(anywhere(-1, 2, 100), anywhere(-1, 2, 100), scale(100), scale(100), scale(100), scale(100)),
    )
    case(
        "grad unnormalised",
        image("2d", indexed(6, 8), filter="linear"),
        g2,
        rows(anywhere(-1, 9, 100), anywhere(-1, 7, 100), scale(100), scale(100), scale(100), scale(100)),
    )


def more():
    n = 200
    for f in ("point", "linear"):
        case(
            f"tld4 a2d {f}",
            image("a2d", indexed(3, 6, 8), filter=f),
            f"tld4.a.a2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x3}}];",
            rows(RNG.choice(np.array([-1, 0, 1, 2, 3, 9]), n), anywhere(-1, 9, n), anywhere(-1, 7, n)),
        )
    m = 700
    for size in (3, 5, 6, 7, 11, 60, 100, 250, 1000):
        case(
            f"grad of {size}",
            image("1d", constants(size), mip="linear", exact=True, filter="linear", **NORM),
            f"tex.grad.1d.v4.f32.f32 {D}, [%rd1, {{%x0}}], {{%x2}}, {{%x4}};",
            rows(np.full(m, 0.5, np.float32), 0, (2.0 ** RNG.uniform(-8, 0, m)).astype(np.float32), 0, 0.0),
        )
    s = dict(mip="linear", exact=True, filter="linear", **NORM)
    g2 = f"tex.grad.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}], {{%x2, %x3}}, {{%x4, %x5}};"

    def scale(k):
        return (2.0 ** RNG.uniform(-9, 1, k)).astype(np.float32) * RNG.choice(np.array([-1, 1], np.float32), k)

    half = np.full(4000, 0.5, np.float32)
    case("grad many", image("2d", constants(512, 512), **s), g2, rows(half, half, *(scale(4000) for _ in range(4))))
    d = directions(120)
    for kind in ("u1", "i1", "u2", "f2"):
        a = (
            normal(6, 4, 4, 4).astype(np.float16)
            if kind == "f2"
            else RNG.integers(np.iinfo(kind).min, np.iinfo(kind).max + 1, (6, 4, 4, 4)).astype(kind)
        )
        case(
            f"tld4 cube {kind}",
            image("cube", a, seamless=True, normalized=True, filter="linear"),
            f"tld4.a.cube.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x3}}];",
            rows(*d.T),
        )
        case(f"cube {kind}", image("cube", a, seamless=True, normalized=True, filter="linear"), tex("cube"), rows(*d.T))
    free = anywhere(-1, 3, len(d))
    case(
        "mips cube seamless",
        image("cube", pyramid(indexed, 6, 8, 8, keep=1), filter="linear", mip="linear", exact=True, seamless=True, **NORM),
        tex("cube", ", %x4", ".level"),
        rows(*d.T, 0, free),
    )
