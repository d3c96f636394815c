"""A small path-traced-like frame: spheres on a chequered floor under a sky, one or many samples a pixel.

Invariant: only exactly rounded operations (+ - * / sqrt, comparisons) and the seeded sequence of ``weight_image.uniform`` are used, so every
machine renders the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from weight_image import uniform

SPHERES = (  # centre x, y, z, radius, albedo r, g, b
    (-1.7, 0.8, 5.2, 0.8, 0.85, 0.25, 0.2),
    (0.1, 1.1, 6.0, 1.1, 0.9, 0.9, 0.88),
    (1.9, 0.65, 4.6, 0.65, 0.2, 0.4, 0.85),
    (-0.5, 0.35, 3.9, 0.35, 0.95, 0.75, 0.2),
    (0.85, 0.28, 3.5, 0.28, 0.3, 0.8, 0.4),
    (3.4, 1.3, 7.5, 1.3, 0.7, 0.5, 0.8),
    (-3.6, 1.2, 7.8, 1.2, 0.5, 0.7, 0.6),
)
LIGHT = (-3.0, 6.0, 1.5, 1.0)  # centre, half side of a cube that samples come from
LIGHT_COLOUR = (64.0, 56.0, 44.0)
EYE = (0.0, 1.3, -1.0)
FAR = 1e9

Vector = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(slots=True)
class Hit:
    """First hits of rays: distance (FAR for the sky), point, normal, albedo."""

    distance: np.ndarray
    point: Vector
    normal: Vector
    albedo: Vector


def dot(a: Vector, b: Vector) -> np.ndarray:
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


def along(origin: Vector, direction: Vector, distance: np.ndarray) -> Vector:
    x, y, z = (o + d * distance for o, d in zip(origin, direction, strict=True))
    return x, y, z


def unit(v: Vector) -> Vector:
    inverse = 1.0 / np.sqrt(dot(v, v))
    return v[0] * inverse, v[1] * inverse, v[2] * inverse


def sphere_distance(origin: Vector, direction: Vector, sphere: tuple[float, ...]) -> np.ndarray:
    to = (origin[0] - sphere[0], origin[1] - sphere[1], origin[2] - sphere[2])
    b = dot(to, direction)
    under = b * b - (dot(to, to) - sphere[3] * sphere[3])
    near = -b - np.sqrt(np.maximum(under, 0.0))
    return np.where((under > 0) & (near > 1e-4), near, FAR)


def trace(origin: Vector, direction: Vector) -> Hit:
    """First hit of each ray with the scene. ``direction`` has length 1."""
    down = direction[1] < -1e-6
    distance = np.where(down, -origin[1] / np.where(down, direction[1], -1.0), FAR)
    distance = np.where(distance > 1e-4, distance, FAR)
    point = along(origin, direction, distance)
    dark = (np.floor(point[0]) + np.floor(point[2])) % 2 == 0
    albedo = [np.where(dark, 0.25, 0.75), np.where(dark, 0.27, 0.72), np.where(dark, 0.3, 0.65)]
    normal = [np.zeros_like(distance), np.ones_like(distance), np.zeros_like(distance)]
    for sphere in SPHERES:
        near = sphere_distance(origin, direction, sphere)
        closer = near < distance
        distance = np.where(closer, near, distance)
        point = along(origin, direction, distance)
        for c in range(3):
            normal[c] = np.where(closer, (point[c] - sphere[c]) / sphere[3], normal[c])
            albedo[c] = np.where(closer, sphere[4 + c], albedo[c])
    return Hit(distance, point, (normal[0], normal[1], normal[2]), (albedo[0], albedo[1], albedo[2]))


def sky(direction: Vector) -> Vector:
    up = np.maximum(direction[1], 0.0)
    return 0.9 - 0.6 * up, 0.95 - 0.45 * up, 1.0 - 0.15 * up


def direct(hit: Hit, random: np.ndarray) -> np.ndarray:
    """Cosine over squared distance to one random point of the light, 0 in shadow. ``random`` is [3, rays]."""
    x, y, z = (LIGHT[c] + (2.0 * random[c] - 1.0) * LIGHT[3] - hit.point[c] for c in range(3))
    square = dot((x, y, z), (x, y, z))
    to_light = unit((x, y, z))
    cosine = np.maximum(dot(hit.normal, to_light), 0.0)
    start = along(hit.point, hit.normal, np.full_like(square, 1e-3))
    shadow = np.zeros(square.shape, bool)
    for sphere in SPHERES:
        shadow |= sphere_distance(start, to_light, sphere) < np.sqrt(square)
    return np.where(shadow, 0.0, cosine / square)


def sample(width: int, height: int, seed: int) -> np.ndarray:
    """One sample a pixel, f64 [height, width, 11]: colour, albedo, normal, distance, hit or sky (1 or 0)."""
    count = width * height
    random = uniform(seed, 11 * count).reshape(11, count)
    row, column = np.divmod(np.arange(count), width)
    x = (column + random[0] - width / 2) / height * 0.95
    y = -(row + random[1] - height / 2) / height * 0.95 - 0.14
    origin = (np.full(count, EYE[0]), np.full(count, EYE[1]), np.full(count, EYE[2]))
    direction = unit((x, y, np.ones(count)))
    hit = trace(origin, direction)
    seen = hit.distance < FAR
    # One bounce: a direction about the normal, towards the sky or another surface lit by the light.
    scatter = unit((2 * random[2] - 1 + 1e-9, 2 * random[3] - 1, 2 * random[4] - 1))
    bounce = unit(along(hit.normal, scatter, np.full(count, 0.999)))
    second = trace(along(hit.point, hit.normal, np.full(count, 1e-3)), bounce)
    lit, lit_second = direct(hit, random[5:8]), direct(second, random[8:11])
    outside, background = sky(bounce), sky(direction)
    planes = []
    for c in range(3):
        incoming = np.where(second.distance < FAR, second.albedo[c] * lit_second * LIGHT_COLOUR[c], outside[c] * 0.35)
        planes.append(np.where(seen, hit.albedo[c] * (lit * LIGHT_COLOUR[c] + incoming), background[c]))
    planes += [np.where(seen, plane, 0.0) for plane in (*hit.albedo, *hit.normal)]
    planes += [np.where(seen, np.minimum(hit.distance, 20.0), 20.0), seen.astype(np.float64)]
    return np.stack(planes, 1).reshape(height, width, 11)


def render(width: int, height: int, samples: int, seed: int) -> np.ndarray:
    """Mean of ``samples`` samples a pixel, as ``sample``."""
    total = sample(width, height, seed)
    for i in range(1, samples):
        total = total + sample(width, height, seed + i)
    return total / samples


def frame() -> dict[str, np.ndarray]:
    """The input planes, f16 RGBA [height, width, 4].

    ``enc4_plane``: noisy colour and nearness, 88x56: 22x14 tokens of 4x4. ``dec0_features``: normal and mean albedo with noise on them, 156x92: 39x23
    coarse tokens of 4x4. ``dec0_skip``: noisy colour and nearness, 156x92. ``clean``: the colour at 64 samples, for pictures.
    """
    small = render(88, 56, 2, 11)
    noisy = render(156, 92, 2, 101)
    guide = render(156, 92, 4, 201)
    clean = render(156, 92, 64, 301)
    speckle = uniform(77, 92 * 156 * 4).reshape(92, 156, 4) - 0.5
    albedo = (guide[..., 3] + guide[..., 4] + guide[..., 5]) / 3
    features = np.concatenate([guide[..., 6:9], albedo[..., None]], 2) + 0.25 * speckle
    planes = {
        "enc4_plane": np.concatenate([np.minimum(small[..., :3], 8.0), 1 / small[..., 9:10]], 2),
        "dec0_features": features,
        "dec0_skip": np.concatenate([np.minimum(noisy[..., :3], 8.0), 1 / noisy[..., 9:10]], 2),
        "clean": np.concatenate([np.minimum(clean[..., :3], 8.0), np.ones_like(clean[..., :1])], 2),
    }
    return {name: plane.astype(np.float16) for name, plane in planes.items()}
