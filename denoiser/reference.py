"""What the layers compute, in plain NumPy over whole frames: the meaning to hold the kernels' outputs against, loosely.

Invariant: written from the mathematics in logical token and channel order, with no fragment, lane or packing in it, so that agreement with a
kernel's output checks the layouts too. e4m3 operands are rounded where the kernels round them; sums and accumulators are f64, so outputs agree
to a few e4m3 steps and not bit for bit.
"""

from __future__ import annotations

import numpy as np

from weight_image import MLP_PAIRS, Slice, from_e4m3, slices, to_e4m3


def e4m3(values: np.ndarray) -> np.ndarray:
    """The values rounded to e4m3, as f64."""
    return from_e4m3(to_e4m3(values))


def f16(values: np.ndarray) -> np.ndarray:
    """The values rounded to f16, as f64."""
    return values.astype(np.float16).astype(np.float64)


def row_norm(x: np.ndarray, epsilon: float) -> np.ndarray:
    """x over its root mean square along the last axis."""
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def activation(x: np.ndarray) -> np.ndarray:
    c = np.clip(x, -2, 2)
    return x * (0.5 + c * (0.375 - c * c / 32))


def cubic_exponent(u: np.ndarray) -> np.ndarray:
    u = np.maximum(u, -4.0)
    c1, c2, c3 = (float(np.array(bits, np.uint16).view(np.float16)) for bits in (0x3AF3, 0x345D, 0x277D))
    return 1 + u * (c1 + u * (c2 + u * c3))


def clamped(plane: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Texels at integer coordinates, clamped to the plane's edge."""
    return plane[np.clip(y, 0, plane.shape[0] - 1), np.clip(x, 0, plane.shape[1] - 1)].astype(np.float64)


def bilinear(plane: np.ndarray, y: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Linear filtering at texture coordinates in texels (texel i's centre is i + 0.5), clamped."""
    top, left = np.floor(y - 0.5), np.floor(x - 0.5)
    b, a = (y - 0.5 - top)[..., None], (x - 0.5 - left)[..., None]
    i, j = top.astype(int), left.astype(int)
    upper = clamped(plane, i, j) * (1 - a) + clamped(plane, i, j + 1) * a
    lower = clamped(plane, i + 1, j) * (1 - a) + clamped(plane, i + 1, j + 1) * a
    return upper * (1 - b) + lower * b


def patches(plane: np.ndarray, token_y: np.ndarray, token_x: np.ndarray) -> np.ndarray:
    """64 channels of each token: its 4x4 texels row by row, four channels each."""
    inner_y, inner_x = np.divmod(np.arange(16), 4)
    texels = clamped(plane, 4 * token_y[..., None] + inner_y, 4 * token_x[..., None] + inner_x)
    return texels.reshape(*token_y.shape, 64)


def joined(warps: list[Slice], name: str) -> np.ndarray:
    """One tensor of all warps, their output channels side by side."""
    return np.concatenate([s.tensors[name] for s in warps], -1)


def window(
    plane: np.ndarray, window_y: int, window_x: int, gain: float, score_scale: float, epsilon: float
) -> tuple[np.ndarray, np.ndarray]:
    """One 8x8-token window of enc4: tokens [64, 128] before merging (token 8y + x) and merged tokens [16, 128]."""
    warps = slices()["enc4"]
    y, x = np.divmod(np.arange(64), 8)
    y, x = y + 8 * window_y, x + 8 * window_x
    tokens = np.tile(joined(warps, "stem bias"), (64, 1))
    for name, dx, dy in (("centre", 0, 0), ("left", -1, 0), ("right", 1, 0), ("up", 0, -1), ("down", 0, 1)):
        tokens = tokens + e4m3(patches(plane, y + dy, x + dx) * gain) @ e4m3(joined(warps, f"stem {name}"))

    def norm(values: np.ndarray) -> np.ndarray:  # every warp's 32 channels by themselves
        return row_norm(values.reshape(64, -1, 32), epsilon).reshape(64, -1)

    source = e4m3(norm(tokens))
    heads = []
    for warp in warps:
        q, k, v = (source @ e4m3(warp.tensors[name]) + warp.tensors[f"{name} bias"] for name in ("query", "key", "value"))
        score = e4m3(q * score_scale) @ e4m3(k).T + warp.tensors["position bias"]
        share = cubic_exponent(score - score.max(1, keepdims=True))
        heads.append(row_norm(e4m3(64 * share / share.sum(1, keepdims=True)) @ e4m3(v), epsilon))
    tokens = tokens + e4m3(np.concatenate(heads, 1)) @ e4m3(joined(warps, "projection"))

    source = e4m3(norm(tokens))
    for pair in range(MLP_PAIRS):
        hidden = activation(source @ e4m3(joined(warps, f"MLP {pair} in")) + joined(warps, f"MLP {pair} bias"))
        tokens = tokens + e4m3(hidden) @ e4m3(joined(warps, f"MLP {pair} out"))
    tokens = e4m3(norm(tokens))

    grid = tokens.reshape(8, 8, 128)
    merged = np.tile(joined(warps, "merge bias"), (16, 1))
    for name, dx, dy in (("merge 00", 0, 0), ("merge 10", 1, 0), ("merge 01", 0, 1), ("merge 11", 1, 1)):
        merged = merged + grid[dy::2, dx::2].reshape(16, 128) @ e4m3(joined(warps, name))
    return tokens, merged


def plane_of(tokens: np.ndarray) -> np.ndarray:
    """Tokens [rows, columns, 128] as a plane of RGBA texels, 8x4 a token: texel (c / 4 % 8, c / 32) holds channels c..c+3."""
    rows, columns, _ = tokens.shape
    return tokens.reshape(rows, columns, 4, 8, 4).transpose(0, 2, 1, 3, 4).reshape(rows * 4, columns * 8, 4)


def enc4(plane: np.ndarray, gain: float = 2.0, score_scale: float = 32**-0.5, epsilon: float = 1e-4) -> dict[int, np.ndarray]:
    """Surfaces of enc4 by argument offset: 8 merged (f64, output gain 1), 16 skip (f64 values that the e4m3 bytes stand for)."""
    rows, columns = plane.shape[0] // 4, plane.shape[1] // 4
    blocks_y, blocks_x = -(-rows // 8), -(-columns // 8)
    tokens, merged = np.zeros((blocks_y * 8, blocks_x * 8, 128)), np.zeros((blocks_y * 4, blocks_x * 4, 128))
    for by in range(blocks_y):
        for bx in range(blocks_x):
            one, four = window(plane, by, bx, gain, score_scale, epsilon)
            tokens[8 * by : 8 * by + 8, 8 * bx : 8 * bx + 8] = one.reshape(8, 8, 128)
            merged[4 * by : 4 * by + 4, 4 * bx : 4 * bx + 4] = four.reshape(4, 4, 128)
    return {8: plane_of(merged[: (rows + 1) // 2, : (columns + 1) // 2]), 16: plane_of(tokens[:rows, :columns])}


def dec0_prediction(
    features: np.ndarray, skip: np.ndarray, feature_gain: float = 1.0, skip_gain: float = 2.0, epsilon: float = 1e-4
) -> np.ndarray:
    """What dec0's head says of each pixel, f64 [height, width, 4]: red, green, blue, blend; before gains, blending and the colour matrix."""
    (s,) = slices()["dec0"]
    height, width = skip.shape[:2]
    token_y, token_x = np.mgrid[: -(-height // 4), : -(-width // 4)]
    source = e4m3(patches(features, token_y, token_x) * feature_gain)
    out = np.zeros((token_y.shape[0] * 4, token_y.shape[1] * 4, 4))
    for q in range(4):
        weight = {part: s.tensors[f"{q} {part}"] for part in ("expansion", "skip", "MLP in", "MLP out", "head")}
        bias = {part: s.tensors[f"{q} {part} bias"] for part in ("expansion", "MLP in", "MLP out", "head")}
        left, top = 4 * token_x + 2 * (q & 1), 4 * token_y + 2 * (q >> 1)
        taps = [bilinear(skip, top + dy + 0.5, left + dx + 0.5) for dy in (0, 1) for dx in (0, 1)]
        taps += [bilinear(skip, top + dy, left + dx) for dy in (-0.75, 2.75) for dx in (-0.75, 2.75)]
        x = activation(source @ e4m3(weight["expansion"]) + bias["expansion"])
        x = row_norm(x + e4m3(np.concatenate(taps, -1) * skip_gain) @ e4m3(weight["skip"]), epsilon)
        hidden = activation(e4m3(x) @ e4m3(weight["MLP in"]) + bias["MLP in"])
        x = x + bias["MLP out"] + e4m3(hidden) @ e4m3(weight["MLP out"])
        head = e4m3(row_norm(x, epsilon)) @ e4m3(weight["head"]) + bias["head"]
        for pixel in range(4):
            dy, dx = divmod(pixel, 2)
            out[2 * (q >> 1) + dy :: 4, 2 * (q & 1) + dx :: 4] = head[..., 4 * pixel : 4 * pixel + 4]
    return out[:height, :width]


def dec0(features: np.ndarray, skip: np.ndarray) -> np.ndarray:
    """dec0's ``colour`` output without its border, f64 [height, width, 4]: red, green, blue, blend weight, with the shipped launch's parameters."""
    head = dec0_prediction(features, skip)
    noisy = skip[..., :3].astype(np.float64)
    weight = 0.05 + 0.3 / (1 + np.exp(-head[..., 3:]))
    mixed = noisy + weight * (0.5 * head[..., :3] - noisy)
    matrix = np.array([[0.96, 0.03, 0.01], [0.01, 0.97, 0.02], [0.0, 0.03, 0.97]])
    return np.concatenate([mixed @ matrix.T, weight], -1)
