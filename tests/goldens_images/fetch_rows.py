"""Texels, operands and the list of cases that the recorders of fetches share.

Invariant: everything is drawn from one generator in one order, so that a record can be made again.
"""

from __future__ import annotations

import numpy as np

RNG = np.random.default_rng(20261201)
MODES = ("wrap", "clamp", "mirror", "border")
NORM = {"normalized": True}
D = "{%r5, %r6, %r7, %r8}"
C = {
    "1d": "{%x0}", "2d": "{%x0, %x1}", "3d": "{%x0, %x1, %x2, %x3}", "a1d": "{%x0, %x1}", "a2d": "{%x0, %x1, %x2, %x3}",
    "cube": "{%x0, %x1, %x2, %x3}", "acube": "{%x0, %x1, %x2, %x3}",
}  # fmt: skip
FORMATS = {"u1": 1, "u2": 2, "u4": 3, "i1": 8, "i2": 9, "i4": 10, "f2": 16, "f4": 32}
CASES: list[tuple] = []
"""(name, image, instruction, rows) of every case."""


def tex(g, tail="", how="", ctype="f32", dtype="f32"):
    """A fetch of geometry ``g``; ``tail``: its further operands, ``how``: its flags."""
    return f"tex{how}.{g}.v4.{dtype}.{ctype} {D}, [%rd1, {C[g]}]{tail};"


def case(name, spec, operation, rows):
    """Add a case: what is read, by which instruction, with which operands a row."""
    CASES.append((name, spec, operation, rows))


def image(g, levels, **settings):
    """levels: arrays [.., c], outermost axis the layers (for cubes six faces each)."""
    return {"geometry": g, "levels": levels if isinstance(levels, list) else [levels], "settings": settings}


def rows(*columns):
    """Columns of operands as rows of eight words."""
    n = max(np.size(c) for c in columns)
    at = np.zeros((n, 8), np.uint32)
    for i, c in enumerate(columns):
        c = np.asarray(c)
        c = c.astype(np.float32) if c.dtype.kind == "f" else c.astype(np.int64).astype(np.uint32)
        at[:, i] = c.view(np.uint32) if c.dtype == np.float32 else c
    return at


def normal(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def wide(*shape):
    return (RNG.standard_normal(shape) * 2.0 ** RNG.integers(-20, 20, shape)).astype(np.float32)


def steps(low, high, n=160):
    return (RNG.integers(low * 256, high * 256, n) / 256).astype(np.float32)


def anywhere(low, high, n=160):
    return RNG.uniform(low, high, n).astype(np.float32)


def around(v):
    m = np.asarray(v, np.float32)
    return np.concatenate([m, np.nextafter(m, np.float32(-np.inf)), np.nextafter(m, np.float32(np.inf))])


def ints(low, high, n=160):
    return RNG.integers(low, high, n)


def indexed(*shape, channels=4):
    """Texels that say where they are: x, y, outermost, a random number."""
    a = np.zeros((*shape, 4), np.float32)
    for channel, axis in enumerate([len(shape) - 1, len(shape) - 2, 0]):
        if axis >= 0:
            a[..., channel] = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    a[..., 3] = RNG.integers(0, 1 << 12, shape)
    return a[..., :channels]


def directions(n):
    """Directions: ties, edges, corners, anything, and numbers that are none."""
    special = np.array([(x, y, z) for x in (-1, 0, 1) for y in (-1, 0, 1) for z in (-1, 0, 1)], np.float32)
    scaled = np.concatenate([special, special * np.float32(0.37), special * np.float32(1e-3), special * np.float32(1e30)])
    free = RNG.standard_normal((n, 3)).astype(np.float32)
    edge = RNG.uniform(-1, 1, (n, 3)).astype(np.float32)
    edge[np.arange(n), RNG.integers(0, 3, n)] = RNG.choice([-1, 1], n)
    near = np.sign(RNG.standard_normal((n, 3))) * (1 - RNG.uniform(0, 0.2, (n, 3)))
    odd = RNG.choice(np.array([np.nan, np.inf, -np.inf, 0, -0.0, 1, -1, 1e-40, 3e38, 0.5]), (60, 3))
    return np.concatenate([scaled, free, edge, near, odd]).astype(np.float32)


def pyramid(make, *shape, keep=0):
    """All levels of a mipmap; ``keep`` outer axes keep their size."""
    out = []
    while True:
        out.append(make(*shape))
        if all(s == 1 for s in shape[keep:]):
            return out
        shape = (*shape[:keep], *(max(1, s // 2) for s in shape[keep:]))


def constants(*shape, keep=0):
    """Levels whose texels say their number."""
    levels = pyramid(lambda *s: np.zeros((*s, 4), np.float32), *shape, keep=keep)
    for k, a in enumerate(levels):
        a[..., 0], a[..., 1], a[..., 2], a[..., 3] = k, 1 << k, 1 if k % 2 else 0, 100.0 * k * k
    return levels
