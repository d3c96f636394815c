"""Comparing outputs, byte for byte.

Invariant: outputs are paired by name; sizes must agree; comparing nothing is an error; NaNs are compared as bits. A tolerance is
something a user asks for, and the verdict carries it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture import decode, image_format
from ptxgraft.errors import UsageError
from ptxgraft.verify.model import Difference, OutputResult, Verdict
from ptxgraft.verify.replay import Output


def compare(expected: Sequence[Output], found: Sequence[Output], *, tolerance: float | None = None, names: Sequence[str] = ()) -> Verdict:
    """Judge ``found`` against ``expected``. ``names`` restricts the comparison to outputs of those names.

    ``tolerance``: absolute, on values: the texels of an image as floats, memory as f32; None compares bytes. Raises ``UsageError`` when there is
    nothing to compare.
    """
    mine, theirs = ({o.name: o for o in side if not names or o.name in names} for side in (expected, found))
    missing = sorted(mine.keys() ^ theirs.keys())
    if missing:
        return Verdict("not comparable", 0, 0, why=f"only one side has {', '.join(missing)}", tolerance=tolerance)
    results: list[OutputResult] = []
    warnings: list[str] = []
    first: Difference | None = None
    for name, a in mine.items():
        b = theirs[name]
        if a.data.size != b.data.size:
            return Verdict(
                "not comparable",
                0,
                0,
                why=f"{name} has {a.data.size} bytes on one side and {b.data.size} on the other",
                tolerance=tolerance,
            )
        wrong = np.flatnonzero(a.data != b.data) if tolerance is None else _beyond(a, b, tolerance, warnings)
        results.append(OutputResult(name, int(a.data.size), int(wrong.size)))
        if wrong.size and first is None:
            first = describe(a, b, int(wrong[0]))
    compared = sum(r.bytes_compared for r in results)
    if compared == 0:
        raise UsageError(
            "nothing to compare: the launch has no output with bytes in it", hint="a launch without buffers or surfaces cannot be verified"
        )
    differing = sum(r.bytes_differing for r in results)
    return Verdict("differs" if differing else "same", compared, differing, first, results, tolerance=tolerance, warnings=warnings)


def describe(expected: Output, found: Output, offset: int) -> Difference:
    """The difference at a byte, as its element: a texel's channel, or the 4-byte word of a buffer."""
    size, element = 4, ""
    if expected.image is not None:
        width, _, channels, code = expected.image
        row = image_format(code)
        size = row.channel_bytes if row is not None else 1
        index = offset // size
        texel, channel = divmod(index, channels)
        element = f"texel x {texel % width} y {texel // width} channel {channel}"
    else:
        element = f"word {offset // size}"
    start = offset // size * size
    return Difference(
        expected.name,
        offset,
        element,
        expected.data[start : start + size].tobytes().hex(),
        found.data[start : start + size].tobytes().hex(),
    )


def _values(output: Output) -> NDArray[np.float32]:
    if output.image is not None:
        return decode(output.data, *output.image).reshape(-1)
    return output.data[: output.data.size // 4 * 4].view(np.float32)


def _beyond(a: Output, b: Output, tolerance: float, warnings: list[str]) -> NDArray[np.int64]:
    """Byte offsets of the values that are further apart than ``tolerance``; a NaN equals only the same NaN."""
    x, y = _values(a), _values(b)
    finite = x[np.isfinite(x)]
    signal = float(np.abs(finite).max()) if finite.size else 0.0
    if tolerance >= signal and x.size:
        warnings.append(
            f"{a.name}: the tolerance {tolerance:g} is not below the largest expected value {signal:g}; the comparison says nothing"
        )
    with np.errstate(invalid="ignore"):
        close = (x.view(np.uint32) == y.view(np.uint32)) | (np.abs(x.astype(np.float64) - y.astype(np.float64)) <= tolerance)
    row = image_format(a.image[3]) if a.image is not None else None
    size = row.channel_bytes if row is not None else 4
    wrong = (np.flatnonzero(~close)[:, None] * size + np.arange(size)).reshape(-1)
    tail = np.arange(x.size * size, a.data.size)  # bytes behind the last whole value are compared as they are
    return np.concatenate([wrong, tail[a.data[tail] != b.data[tail]]])
