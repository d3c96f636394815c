"""Seeded random weights, laid out as the kernels read them.

Invariant: what a layer's slice holds, in which order and at which offset, is the list that ``window_slice`` or ``quadrant`` builds, and its
length is what the kernel was compiled for (``build.py`` passes it to a ``static_assert``). Only integer arithmetic and exactly rounded
float operations are used, so every machine makes the same bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

LANE = np.arange(32)
G, T = LANE >> 2, LANE & 3


def uniform(seed: int, count: int) -> np.ndarray:
    """``count`` numbers in [0, 1), f64: the splitmix64 sequence from ``seed`` (Steele, Lea, Flood 2014)."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53


def bell(seed: int, *shape: int) -> np.ndarray:
    """Random f64 of mean 0 and variance 1, bell-shaped: the scaled sum of four uniforms."""
    count = int(np.prod(shape))
    u = uniform(seed, 4 * count).reshape(4, count)
    return ((u[0] + u[1]) + (u[2] + u[3]) - 2.0).reshape(shape) * np.sqrt(3.0)


def _e4m3_values() -> np.ndarray:
    code = np.arange(127)
    exponent, mantissa = code >> 3, code & 7
    return np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (np.maximum(exponent, 1) - 10.0))


E4M3 = _e4m3_values()


def to_e4m3(values: np.ndarray) -> np.ndarray:
    """Nearest e4m3 code (u8) of each value; magnitudes above 448 saturate."""
    code = np.searchsorted((E4M3[1:] + E4M3[:-1]) / 2, np.abs(values)).astype(np.uint8)
    return code | (np.signbit(values).astype(np.uint8) << 7)


def from_e4m3(codes: np.ndarray) -> np.ndarray:
    """Value (f64) of each e4m3 code (u8); codes 0x7F and 0xFF give NaN."""
    values = np.append(E4M3, np.nan)[codes & 0x7F]
    return np.where(codes & 0x80, -values, values)


def channel(n: np.ndarray | int, column: np.ndarray | int) -> np.ndarray:
    """Channel that column ``column`` (0-7) of accumulator tile ``n`` carries (denoiser/fragments.cuh)."""
    n, column = np.asarray(n), np.asarray(column)
    return 16 * (n // 2) + 4 * (column // 2) + 2 * (n % 2) + column % 2


def pack_columns(matrix: np.ndarray) -> bytes:
    """B tiles of a K x N matrix: [k][n / 2][lane][tile n, n + 1][word 0, 1][4 bytes], e4m3."""
    codes = to_e4m3(matrix)
    k_tiles, n_tiles = matrix.shape[0] // 32, matrix.shape[1] // 8
    k, pair, lane, odd, half, byte = np.ogrid[:k_tiles, : n_tiles // 2, :32, :2, :2, :4]
    return codes[32 * k + 16 * half + 4 * T[lane] + byte, channel(2 * pair + odd, G[lane])].tobytes()


def pack_bias(bias: np.ndarray) -> bytes:
    """One f16 per channel as C operands: [n / 4][t][n % 4][2 columns], padded with zeros to whole groups of four tiles."""
    padded = np.zeros(-(-len(bias) // 32) * 32, np.float16)
    padded[: len(bias)] = bias
    group, t, n, i = np.ogrid[: len(padded) // 32, :4, :4, :2]
    return padded[channel(4 * group + n, 2 * t + i)].tobytes()


def pack_operand(matrix: np.ndarray) -> bytes:
    """A whole C operand, rows x columns in natural order: [m][n / 2][lane][tile n, n + 1][row g, g + 8][2 columns], f16."""
    values = matrix.astype(np.float16)
    m, pair, lane, odd, row, i = np.ogrid[: matrix.shape[0] // 16, : matrix.shape[1] // 16, :32, :2, :2, :2]
    return values[16 * m + G[lane] + 8 * row, 8 * (2 * pair + odd) + 2 * T[lane] + i].tobytes()


@dataclass(slots=True)
class Slice:
    """One warp's slice as it grows: named parts with their offsets, so that the README's table and the tests need no second list."""

    seed: int
    data: bytearray = field(default_factory=bytearray)
    parts: list[tuple[str, int, int]] = field(default_factory=list)  # name, offset, bytes
    tensors: dict[str, np.ndarray] = field(default_factory=dict)  # before packing, f64

    def add(self, name: str, tensor: np.ndarray, packed: bytes) -> None:
        self.parts.append((name, len(self.data), len(packed)))
        self.tensors[name] = tensor
        self.data += packed

    def _seed(self) -> int:
        return self.seed * 1000 + len(self.parts)

    def bias(self, name: str, count: int, spread: float = 0.1) -> None:
        values = bell(self._seed(), count) * spread
        self.add(name, values, pack_bias(values))

    def columns(self, name: str, k: int, n: int, spread: float, centre: float = 0.0) -> None:
        """Random K x N with standard deviation ``spread``; ``centre`` of each column's mean is taken away."""
        values = bell(self._seed(), k, n) * spread
        for column in values.T:
            column -= centre * float(sum(column.tolist())) / k
        self.add(name, values, pack_columns(values))

    def near(self, name: str, base: np.ndarray) -> None:
        """``base`` (K x N columns, or one bias a channel) plus a little of this part's own."""
        values = base + bell(self._seed(), *base.shape) * (0.25 * float(np.abs(base).max()) / 3)
        self.add(name, values, pack_columns(values) if values.ndim == 2 else pack_bias(values))


WARPS, MLP_PAIRS, CHANNELS = 4, 4, 128


def position_bias(seed: int, head: int) -> np.ndarray:
    """64 x 64 score bias of one head: falls with the tokens' distance, more steeply in later heads, plus noise. Token = 8 y + x."""
    y, x = np.divmod(np.arange(64), 8)
    square = (y[:, None] - y) ** 2 + (x[:, None] - x) ** 2
    return bell(seed, 64, 64) * 0.125 - np.sqrt(square.astype(np.float64)) * (0.125 * head)


def window_slice(warp: int) -> Slice:
    """One warp's slice of ``enc4``: 32 output channels of every product and one attention head."""
    s = Slice(seed=400 + warp)
    s.bias("stem bias", 32)
    for name in ("centre", "left", "right", "up", "down"):
        s.columns(f"stem {name}", 64, 32, 0.25 if name == "centre" else 0.125, centre=0.75)
    for name in ("query", "key", "value"):
        s.bias(f"{name} bias", 32)
        s.columns(name, CHANNELS, 32, 0.125 if name != "value" else 0.09375)
    bias = position_bias(s.seed * 1000 + 99, warp)
    s.add("position bias", bias, pack_operand(bias))
    s.columns("projection", CHANNELS, 32, 0.0625)
    for pair in range(MLP_PAIRS):
        s.bias(f"MLP {pair} bias", 32)
        s.columns(f"MLP {pair} in", CHANNELS, 32, 0.09375)
        s.columns(f"MLP {pair} out", CHANNELS, 32, 0.0625)
    s.bias("merge bias", 32)
    for name in ("00", "10", "01", "11"):
        s.columns(f"merge {name}", CHANNELS, 32, 0.046875)
    return s


HIDDEN = 128


EXPAND_PARTS = (  # name, K (0 for a bias), N, standard deviation
    ("expansion bias", 0, 32, 0.1),
    ("expansion", 64, 32, 0.1875),
    ("skip", 32, 32, 0.25),
    ("MLP in bias", 0, HIDDEN, 0.1),
    ("MLP in", 32, HIDDEN, 0.1875),
    ("MLP out bias", 0, 32, 0.1),
    ("MLP out", HIDDEN, 32, 0.09375),
    ("head bias", 0, 4, 0.1),
    ("head", 32, 4, 0.1875),
)


def expand_slice() -> Slice:
    """The slice of ``dec0``'s one warp: four quadrants, one after another.

    Quadrants, and the head's four pixels, are near one another, so that the random layer changes the picture's look and does not cover it
    with a pattern.
    """
    s = Slice(seed=500)
    bases = {name: bell(599000 + i, *((k, n) if k else (n,))) * spread for i, (name, k, n, spread) in enumerate(EXPAND_PARTS)}
    for name in ("head bias", "head"):
        bases[name] = np.concatenate([bases[name]] * 4, -1)
    for q in range(4):
        for name in bases:
            s.near(f"{q} {name}", bases[name])
    return s


def unrolled_slice() -> Slice:
    """The slice of ``unrolled``'s one warp: stem, thirty MLP pairs, every sixth with a narrower hidden layer, head."""
    s = Slice(seed=600)
    s.bias("stem bias", 32)
    s.columns("stem", 96, 32, 0.125)
    for pair in range(30):
        hidden = 64 if pair % 6 == 5 else 96
        s.bias(f"MLP {pair} in bias", hidden)
        s.columns(f"MLP {pair} in", 32, hidden, 0.1875)
        s.bias(f"MLP {pair} out bias", 32)
        s.columns(f"MLP {pair} out", hidden, 32, 0.09375)
    s.bias("head bias", 8)
    s.columns("head", 32, 16, 0.1875)  # the second tile is padding
    return s


def slices() -> dict[str, list[Slice]]:
    """The slices of each layer's weight image, in warp order; the image is their bytes joined."""
    return {"enc4": [window_slice(warp) for warp in range(WARPS)], "dec0": [expand_slice()]}


def image(parts: list[Slice]) -> np.ndarray:
    """A layer's weight image, u8."""
    return np.frombuffer(b"".join(bytes(s.data) for s in parts), np.uint8)
