"""A line plot with logarithmic axes, drawn with Pillow: how something grows.

Invariant: the picture depends on the numbers alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

Points = Sequence[tuple[float, float]]

WIDTH, HEIGHT = 900, 600
LEFT, RIGHT, TOP, BOTTOM = 90, 50, 60, 70
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b")


def exponent(points: Points) -> float:
    """The e of y ~ x**e, by least squares over the logarithms. 1 is linear."""
    logs = [(math.log(x), math.log(y)) for x, y in points]
    x, y = (sum(v) / len(logs) for v in zip(*logs, strict=True))
    return sum((a - x) * (b - y) for a, b in logs) / sum((a - x) ** 2 for a, _ in logs)


def draw(path: Path, title: str, across: str, up: str, lines: Mapping[str, Points]) -> None:
    """Write a PNG: one line for each name, both axes logarithmic, with a dashed line of slope 1 through the first line's last point."""
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(15)
    every = [p for points in lines.values() for p in points]
    x_ticks, y_ticks = (_ticks([p[i] for p in every]) for i in (0, 1))

    def place(x: float, y: float) -> tuple[float, float]:
        return (
            LEFT + (WIDTH - LEFT - RIGHT) * _part(x, x_ticks[0], x_ticks[-1]),
            HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * _part(y, y_ticks[0], y_ticks[-1]),
        )

    for x in x_ticks:
        at, _ = place(x, y_ticks[0])
        pen.line([(at, TOP), (at, HEIGHT - BOTTOM)], fill="#dddddd")
        pen.text((at, HEIGHT - BOTTOM + 8), f"{x:,.12g}", fill="black", font=font, anchor="ma")
    for y in y_ticks:
        _, at = place(x_ticks[0], y)
        pen.line([(LEFT, at), (WIDTH - RIGHT, at)], fill="#dddddd")
        pen.text((LEFT - 8, at), f"{y:,.12g}", fill="black", font=font, anchor="rm")
    pen.rectangle([LEFT, TOP, WIDTH - RIGHT, HEIGHT - BOTTOM], outline="black")
    pen.text((WIDTH / 2, 16), title, fill="black", font=ImageFont.load_default(18), anchor="ma")
    pen.text((WIDTH / 2, HEIGHT - 28), across, fill="black", font=font, anchor="ma")
    pen.text((LEFT, TOP - 20), up, fill="black", font=font, anchor="la")
    end_x, end_y = next(iter(lines.values()))[-1]
    _dashed(pen, [p for x in _steps(x_ticks[0], x_ticks[-1]) if TOP <= (p := place(x, end_y * x / end_x))[1] <= HEIGHT - BOTTOM])
    for number, (name, points) in enumerate(lines.items()):
        colour = COLOURS[number % len(COLOURS)]
        places = [place(x, y) for x, y in points]
        pen.line(places, fill=colour, width=2)
        for x, y in places:
            pen.ellipse([x - 4, y - 4, x + 4, y + 4], fill=colour)
        pen.text((LEFT + 14, TOP + 12 + 22 * number), f"{name}: exponent {exponent(points):.2f}", fill=colour, font=font)
    pen.text((LEFT + 14, TOP + 12 + 22 * len(lines)), "dashed: exponent 1", fill="#888888", font=font)
    image.save(path)


def _part(value: float, first: float, last: float) -> float:
    return math.log(value / first) / math.log(last / first)


def _ticks(values: Sequence[float]) -> list[float]:
    """Powers of ten around the values."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [10.0**e for e in range(low, max(high, low + 1) + 1)]


def _steps(first: float, last: float, count: int = 60) -> list[float]:
    return [first * (last / first) ** (i / count) for i in range(count + 1)]


def _dashed(pen: ImageDraw.ImageDraw, places: Sequence[tuple[float, float]]) -> None:
    for a, b in zip(places[::2], places[1::2], strict=False):
        pen.line([a, b], fill="#888888")
