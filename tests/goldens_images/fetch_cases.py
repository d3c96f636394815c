"""Cases: layers, cube maps, gathers, offsets, half results, queries.

Invariant: a function adds its cases to ``CASES``, in order.
"""

from __future__ import annotations

import numpy as np
from fetch_rows import MODES, NORM, RNG, D, anywhere, around, case, directions, image, indexed, ints, normal, pyramid, rows, steps, tex


def layered():
    layers = np.array([-1, 0, 1, 2, 3, 4, 100, 65535, 65536, -2])
    n = 200
    idx = RNG.choice(layers, n)
    for f in ("point", "linear"):
        t1, t2 = indexed(3, 7), indexed(3, 5, 7)
        for m in ("clamp", "border"):
            case(f"a1d {f} {m}", image("a1d", t1, filter=f, address=m), tex("a1d"), rows(idx, steps(-2, 9, n)))
            case(f"a2d {f} {m}", image("a2d", t2, filter=f, address=m), tex("a2d"), rows(idx, steps(-2, 9, n), steps(-2, 7, n)))
        for m in MODES:
            case(f"a1d {f} {m} normalised", image("a1d", t1, filter=f, address=m, **NORM), tex("a1d"), rows(idx, anywhere(-2, 3, n)))
            case(
                f"a2d {f} {m} normalised",
                image("a2d", t2, filter=f, address=m, **NORM),
                tex("a2d"),
                rows(idx, anywhere(-2, 3, n), anywhere(-2, 3, n)),
            )
            case(
                f"2d {f} {m} normalised",
                image("2d", t2[0], filter=f, address=m, **NORM),
                tex("2d"),
                rows(anywhere(-2, 3, n), anywhere(-2, 3, n)),
            )
        case(f"a2d random {f}", image("a2d", normal(3, 5, 7, 4), filter=f), tex("a2d"), rows(idx, steps(-2, 9, n), steps(-2, 7, n)))
        case(
            f"a2d u1 {f}",
            image("a2d", RNG.integers(0, 256, (3, 5, 7, 4)).astype(np.uint8), filter=f),
            tex("a2d"),
            rows(idx, steps(-2, 9, n), steps(-2, 7, n)),
        )
    for m in ("clamp", "border"):
        case(f"a1d s32 {m}", image("a1d", t1, address=m), tex("a1d", ctype="s32"), rows(idx, ints(-3, 10, n)))
        case(f"a2d s32 {m}", image("a2d", t2, address=m), tex("a2d", ctype="s32"), rows(idx, ints(-3, 10, n), ints(-3, 8, n)))
    case("3d s32", image("3d", indexed(3, 5, 7)), tex("3d", ctype="s32"), rows(ints(-2, 9, n), ints(-2, 7, n), ints(-2, 5, n)))
    odd = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, 1.5])
    case("a2d odd", image("a2d", t2), tex("a2d"), rows(RNG.choice(layers, 60), RNG.choice(odd, 60), RNG.choice(odd, 60)))


def cubes():
    d = directions(300)
    d8 = directions(120)
    for size in (8, 5):
        t = indexed(6, size, size)
        for f in ("point", "linear"):
            for seamless in (False, True):
                for normalized in (False, True):
                    s = {"filter": f, "seamless": seamless, "normalized": normalized}
                    if size == 5 and not normalized:
                        continue
                    case(f"cube {size} {f} seamless={seamless} normalized={normalized}", image("cube", t, **s), tex("cube"), rows(*d.T))
    for m in MODES:
        for f in ("point", "linear"):
            case(f"cube {f} {m}", image("cube", indexed(6, 4, 4), filter=f, address=m, normalized=True), tex("cube"), rows(*d8.T))
    two = indexed(12, 4, 4)
    idx = RNG.choice(np.array([-1, 0, 1, 2, 5, 6, 65536]), len(d8))
    for f in ("point", "linear"):
        for seamless in (False, True):
            case(
                f"acube {f} seamless={seamless}",
                image("acube", two, filter=f, seamless=seamless, normalized=True),
                tex("acube"),
                rows(idx, *d8.T),
            )
        case(f"cube random {f}", image("cube", normal(6, 8, 8, 4), filter=f, normalized=True), tex("cube"), rows(*d.T))
        case(
            f"cube random seamless {f}",
            image("cube", normal(6, 8, 8, 4), filter=f, normalized=True, seamless=True),
            tex("cube"),
            rows(*d.T),
        )
    # which face, where: one channel picks, fine directions
    fine = RNG.standard_normal((2000, 3)).astype(np.float32)
    case("cube fine", image("cube", indexed(6, 256, 256), filter="point", normalized=True), tex("cube"), rows(*fine.T))
    case("cube fine linear", image("cube", indexed(6, 16, 16), filter="linear", normalized=True), tex("cube"), rows(*fine.T))


def gathers():
    t = indexed(6, 8)
    n = 200
    edges = np.concatenate(
        [around(np.arange(-6, 24) / 4), around(np.arange(-12, 20) / 2 + 1 / 512), around(np.arange(0, 12) / 2 - 1 / 512)]
    )
    x, y = RNG.choice(edges, n), RNG.choice(edges, n)
    for comp in "rgba":
        for f in ("point", "linear"):
            case(
                f"tld4 {comp} {f}",
                image("2d", t, filter=f, gather=True),
                f"tld4.{comp}.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
                rows(x, y),
            )
    for m in MODES:
        for f in ("point", "linear"):
            case(
                f"tld4 {f} {m} normalised",
                image("2d", t, filter=f, address=m, gather=True, **NORM),
                f"tld4.a.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
                rows(
                    np.concatenate([anywhere(-2, 3, n), around(np.arange(-16, 24) / 16)]),
                    np.concatenate([anywhere(-2, 3, n), around(np.arange(-12, 28) / 12)]),
                ),
            )
    for m in ("clamp", "border"):
        case(
            f"tld4 {m}",
            image("2d", t, address=m, gather=True),
            f"tld4.a.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
            rows(anywhere(-3, 11, n), anywhere(-3, 9, n)),
        )
    for dt in ("u1", "i1", "u2", "i2"):
        li = np.iinfo(dt)
        a = RNG.integers(li.min, li.max + 1, (6, 8, 4)).astype(dt)
        for f in ("point", "linear"):
            case(
                f"tld4 {dt} {f}",
                image("2d", a, filter=f, gather=True),
                f"tld4.g.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
                rows(anywhere(-1, 9, 60), anywhere(-1, 7, 60)),
            )
        case(
            f"tld4 {dt} integers",
            image("2d", a, integers=True, gather=True),
            f"tld4.g.2d.v4.u32.f32 {D}, [%rd1, {{%x0, %x1}}];",
            rows(anywhere(-1, 9, 60), anywhere(-1, 7, 60)),
        )
    h = normal(6, 8, 4).astype(np.float16)
    case(
        "tld4 f2",
        image("2d", h, gather=True, filter="linear"),
        f"tld4.g.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
        rows(anywhere(-1, 9, 60), anywhere(-1, 7, 60)),
    )
    a = RNG.integers(-(2**31), 2**31, (6, 8, 4)).astype(np.int32)
    case(
        "tld4 i4",
        image("2d", a, integers=True, gather=True),
        f"tld4.g.2d.v4.s32.f32 {D}, [%rd1, {{%x0, %x1}}];",
        rows(anywhere(-1, 9, 60), anywhere(-1, 7, 60)),
    )
    for c in (1, 2):
        for comp in "rgba":
            case(
                f"tld4 {comp} of {c}",
                image("2d", normal(6, 8, c), gather=True),
                f"tld4.{comp}.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
                rows(anywhere(-1, 9, 20), anywhere(-1, 7, 20)),
            )
    off = ints(-70, 70, n)
    for m in ("clamp", "border"):
        case(
            f"tld4 offset {m}",
            image("2d", t, gather=True, address=m),
            f"tld4.a.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}], {{%x2, %x3}};",
            rows(anywhere(-1, 9, n), anywhere(-1, 7, n), off, ints(-9, 9, n)),
        )
    case(
        "tld4 offset wrap",
        image("2d", t, gather=True, address="wrap", **NORM),
        f"tld4.a.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}], {{%x2, %x3}};",
        rows(anywhere(-1, 2, n), anywhere(-1, 2, n), off, ints(-9, 9, n)),
    )
    idx = RNG.choice(np.array([-1, 0, 1, 2, 3, 9]), n)
    case(
        "tld4 a2d",
        image("a2d", indexed(3, 6, 8), gather=True),
        f"tld4.a.a2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x3}}];",
        rows(idx, anywhere(-1, 9, n), anywhere(-1, 7, n)),
    )
    d = directions(150)
    for seamless in (False, True):
        for gather in (False, True):
            case(
                f"tld4 cube seamless={seamless} flag={gather}",
                image("cube", indexed(6, 4, 4), gather=gather, seamless=seamless, normalized=True, filter="linear"),
                f"tld4.a.cube.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x3}}];",
                rows(*d.T),
            )
    case(
        "tld4 acube",
        image("acube", indexed(12, 4, 4), gather=False, normalized=True, filter="linear"),
        f"tld4.a.acube.v4.f32.f32 {D}, [%rd1, {{%x0, %x1, %x2, %x3}}];",
        rows(RNG.choice([-1, 0, 1, 2, 7], len(d)), *d.T),
    )
    case(
        "tld4 mip",
        image("2d", pyramid(indexed, 8, 8), gather=True, normalized=True, mip="linear"),
        f"tld4.a.2d.v4.f32.f32 {D}, [%rd1, {{%x0, %x1}}];",
        rows(anywhere(-1, 2, 60), anywhere(-1, 2, 60)),
    )


def offsets():
    n = 200
    for f in ("point", "linear"):
        for m in MODES:
            case(
                f"offset {f} {m}",
                image("2d", indexed(6, 8), filter=f, address=m, **NORM),
                tex("2d", ", {%x2, %x3}"),
                rows(anywhere(-1, 2, n), anywhere(-1, 2, n), ints(-20, 20, n), ints(-8, 8, n)),
            )
        for m in ("clamp", "border"):
            case(
                f"offset unnormalised {f} {m}",
                image("2d", indexed(6, 8), filter=f, address=m),
                tex("2d", ", {%x2, %x3}"),
                rows(steps(-3, 11, n), steps(-3, 9, n), ints(-20, 20, n), ints(-8, 8, n)),
            )
        case(f"offset 1d {f}", image("1d", indexed(9), filter=f), tex("1d", ", {%x2}"), rows(steps(-3, 11, n), 0, ints(-8, 8, n)))
        case(
            f"offset 3d {f}",
            image("3d", indexed(3, 6, 8), filter=f),
            tex("3d", ", {%x4, %x5, %x6, %x6}"),
            rows(steps(-3, 11, n), steps(-3, 9, n), steps(-3, 6, n), 0, ints(-8, 8, n), ints(-8, 8, n), ints(-8, 8, n)),
        )
        case(
            f"offset a2d {f}",
            image("a2d", indexed(3, 6, 8), filter=f),
            tex("a2d", ", {%x4, %x5}"),
            rows(ints(0, 3, n), steps(-3, 11, n), steps(-3, 9, n), 0, ints(-8, 8, n), ints(-8, 8, n)),
        )
        case(
            f"offset a1d {f}",
            image("a1d", indexed(3, 8), filter=f),
            tex("a1d", ", {%x4}"),
            rows(ints(0, 3, n), steps(-3, 11, n), 0, 0, ints(-8, 8, n)),
        )
        case(
            f"offset level {f}",
            image("2d", pyramid(indexed, 16, 16), filter=f, mip="linear", exact=True, **NORM),
            tex("2d", ", %x4, {%x2, %x3}", ".level"),
            rows(anywhere(-1, 2, n), anywhere(-1, 2, n), ints(-8, 8, n), ints(-8, 8, n), anywhere(-1, 5, n)),
        )
    case(
        "offset s32",
        image("2d", indexed(6, 8)),
        tex("2d", ", {%x2, %x3}", ctype="s32"),
        rows(ints(-3, 11, n), ints(-3, 9, n), ints(-20, 20, n), ints(-8, 8, n)),
    )
    case(
        "offset level s32",
        image("2d", pyramid(indexed, 8, 8), mip="point", **NORM),
        tex("2d", ", %x4, {%x2, %x3}", ".level", "s32"),
        rows(ints(-3, 11, n), ints(-3, 9, n), ints(-8, 8, n), ints(-8, 8, n), ints(-1, 5, n)),
    )


def halves():
    a = np.array([[1e-8, 65519.9, 65520, 1e10], [np.nan, np.inf, -np.inf, 5.9e-8], [1 + 2**-11, 1 + 3 * 2**-11, -1e-5, -0.0]], np.float32)
    case(
        "f16",
        image("1d", a),
        "tex.1d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd1, {%x0}]; mov.b32 %r5, {%h0, %h1}; mov.b32 %r6, {%h2, %h3};",
        rows(np.arange(3) + 0.5),
    )
    case("f16x2", image("1d", a), "tex.1d.v2.f16x2.f32 {%r5, %r6}, [%rd1, {%x0}];", rows(np.arange(3) + 0.5))
    case(
        "f16 linear",
        image("1d", normal(16, 4), filter="linear"),
        "tex.1d.v4.f16.f32 {%h0, %h1, %h2, %h3}, [%rd1, {%x0}]; mov.b32 %r5, {%h0, %h1}; mov.b32 %r6, {%h2, %h3};",
        rows(steps(-1, 17)),
    )
    case(
        "f16x2 of f16",
        image("1d", normal(16, 4).astype(np.float16), filter="linear"),
        "tex.1d.v2.f16x2.f32 {%r5, %r6}, [%rd1, {%x0}];",
        rows(steps(-1, 17)),
    )
    case("f16x2 s32", image("1d", normal(16, 4)), "tex.1d.v2.f16x2.s32 {%r5, %r6}, [%rd1, {%x0}];", rows(ints(-1, 17)))
    case("s32 of floats", image("1d", normal(16, 4)), tex("1d", dtype="s32"), rows(anywhere(-1, 17)))
    case(
        "resident",
        image("1d", normal(16, 4)),
        "tex.1d.v4.f32.f32 {%r5, %r6, %r7, %r8}|%p2, [%rd1, {%x0}]; selp.u32 %r5, 1, 0, %p2;",
        rows(anywhere(-1, 17, 40)),
    )


def queries():
    shapes = {
        "1d": [(13,)],
        "2d": [(5, 9)],
        "3d": [(3, 5, 9)],
        "a1d": [(4, 9)],
        "a2d": [(4, 5, 9)],
        "cube": [(6, 8, 8)],
        "acube": [(12, 8, 8)],
    }
    for g, (shape,) in shapes.items():
        for mips in (False, True):
            keep = 1 if g in ("a1d", "a2d", "cube", "acube") else 0
            t = pyramid(indexed, *shape, keep=keep) if mips else indexed(*shape)
            s = dict(mip="point", **NORM) if mips else {}
            case(
                f"txq {g} mips={mips}",
                image(g, t, **s),
                "txq.width.b32 %r5, [%rd1]; txq.height.b32 %r6, [%rd1]; txq.depth.b32 %r7, [%rd1];",
                rows([0]),
            )
            case(
                f"txq level {g} mips={mips}",
                image(g, t, **s),
                "txq.level.width.b32 %r5, [%rd1], %x0; txq.level.height.b32 %r6, [%rd1], %x0; txq.level.depth.b32 %r7, [%rd1], %x0;",
                rows(np.array([-1, 0, 1, 2, 3, 4, 5, 6, 9])),
            )
            if mips:
                case(
                    f"txq clamped {g}",
                    image(g, t, low=1.0, high=2.0, **s),
                    "txq.level.width.b32 %r5, [%rd1], %x0; txq.level.height.b32 %r6, [%rd1], %x0; txq.level.depth.b32 %r7, [%rd1], %x0;",
                    rows(np.array([-1, 0, 1, 2, 3, 4, 5, 6, 9])),
                )
        case(
            f"suq {g}",
            image(g, indexed(*shape), surface=True),
            "suq.width.b32 %r5, [%rd1]; suq.height.b32 %r6, [%rd1]; suq.depth.b32 %r7, [%rd1];",
            rows([0]),
        )
    for s in (False, True):
        case(
            f"istypep surface={s}",
            image("2d", indexed(5, 9), surface=s),
            "istypep.texref %p2, %rd1; selp.u32 %r5, 1, 0, %p2; istypep.samplerref %p2, %rd1; selp.u32 %r6, 1, 0, %p2; istypep.surfref %p2, %rd1; selp.u32 %r7, 1, 0, %p2; cvt.u32.u64 %r8, %rd1;",
            rows([0]),
        )
        case(f"handle surface={s}", image("2d", indexed(5, 9), surface=s), "mov.b64 {%r5, %r6}, %rd1;", rows([0]))
