"""Comparing outputs, byte for byte.

Invariant: outputs are paired by name; sizes must agree; comparing nothing is an error; NaNs are compared as bits. A tolerance is
something a user asks for, and the verdict carries it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ptxgraft.capture import decode, image_format
from ptxgraft.errors import UsageError
from ptxgraft.verify.model import DIFFERS, NOT_COMPARABLE, SAME, Difference, OutputResult, Verdict
from ptxgraft.verify.replay import Output

VALUES = {"f16": "<f2", "f32": "<f4", "f64": "<f8", "s8": "i1", "u8": "u1", "s16": "<i2", "u16": "<u2", "s32": "<i4", "u32": "<u4"}
"""What the bytes of a buffer may be read as for a tolerance."""

WORD = 4
"""Bytes of a buffer that a difference is shown with."""


def compare(
    expected: Sequence[Output],
    found: Sequence[Output],
    *,
    tolerance: float | None = None,
    values: str = "f32",
    names: Sequence[str] = (),
) -> Verdict:
    """Judge ``found`` against ``expected``. ``names`` restricts the comparison to outputs of those names.

    ``tolerance`` (None: compare bytes) is absolute and on values: the texels of an image as floats, memory as ``values`` (a key of ``VALUES``). Raises
    ``UsageError`` when there is nothing to compare, a name is unknown or the tolerance is no positive number.
    """
    _check(expected, found, tolerance, values, names)
    mine, theirs = ({o.name: o for o in side if not names or o.name in names} for side in (expected, found))
    how = {"tolerance": tolerance, "values": values if tolerance is not None else ""}
    alone = sorted(mine.keys() ^ theirs.keys())
    if alone:
        side = "the expected" if alone[0] in mine else "the judged"
        return Verdict(NOT_COMPARABLE, 0, 0, why=f"only {side} side has {', '.join(alone)}", **how)
    sizes = [
        f"{n} has {a.data.size} bytes on one side and {theirs[n].data.size} on the other"
        for n, a in mine.items()
        if a.data.size != theirs[n].data.size
    ]
    if sizes:
        return Verdict(NOT_COMPARABLE, 0, 0, why="; ".join(sizes), **how)
    results: list[OutputResult] = []
    warnings: dict[str, str] = {}
    first: Difference | None = None
    for name, a in mine.items():
        b = theirs[name]
        wrong = np.flatnonzero(a.data != b.data) if tolerance is None else _beyond(a, b, tolerance, VALUES[values], warnings)
        results.append(OutputResult(name, int(a.data.size), int(wrong.size)))
        if wrong.size and first is None:
            first = describe(a, b, int(wrong[0]))
    compared = sum(r.bytes_compared for r in results)
    if compared == 0:
        raise UsageError(
            "nothing to compare: the launch has no output with bytes in it", hint="a launch without buffers or surfaces cannot be verified"
        )
    differing = sum(r.bytes_differing for r in results)
    how |= {"warnings": list(warnings.values()), "drowned": list(warnings)}
    return Verdict(DIFFERS if differing else SAME, compared, differing, first, results, **how)


def _check(expected: Sequence[Output], found: Sequence[Output], tolerance: float | None, values: str, names: Sequence[str]) -> None:
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance >= 0):
        raise UsageError(f"the tolerance {tolerance:g} is no distance", hint="give a number from 0 on")
    if values not in VALUES:
        raise UsageError(f"buffers cannot be read as {values!r}", hint=f"one of {', '.join(VALUES)}")
    for side in (expected, found):
        assert len({o.name for o in side}) == len(side), "two outputs of one name"
    known = [o.name for o in (*expected, *found)]
    for name in names:
        if name not in known:
            raise UsageError(f"there is no output {name!r}", hint=f"the outputs are {', '.join(dict.fromkeys(known)) or 'none'}")


def describe(expected: Output, found: Output, offset: int) -> Difference:
    """The difference at a byte, as its element: a texel's channel, or the 4-byte word of a buffer."""
    size = _element_bytes(expected, WORD)
    if expected.image is not None:
        width, _, channels, _ = expected.image
        texel, channel = divmod(offset // size, channels)
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


def _element_bytes(output: Output, memory: int) -> int:
    """Bytes of one value: an image's channel (1 where the format is unknown), or ``memory``."""
    if output.image is None:
        return memory
    row = image_format(output.image[3])
    return row.channel_bytes if row is not None else 1


def _numbers(output: Output, dtype: str) -> NDArray:
    """An output's whole values: texels as the floats that they stand for, memory as ``dtype``."""
    if output.image is not None:
        return decode(output.data, *output.image).reshape(-1)
    kind = np.dtype(dtype)
    return output.data[: output.data.size // kind.itemsize * kind.itemsize].view(kind)


def _beyond(a: Output, b: Output, tolerance: float, dtype: str, warnings: dict[str, str]) -> NDArray[np.int64]:
    """Byte offsets of the values that are further apart than ``tolerance``; a NaN equals only the same NaN."""
    size = _element_bytes(a, np.dtype(dtype).itemsize)
    x, y = (_numbers(side, dtype).astype(np.float64) for side in (a, b))
    whole = x.size * size
    same_bits = (a.data[:whole] == b.data[:whole]).reshape(x.size, size).all(axis=1)
    finite = x[np.isfinite(x)]
    signal = float(np.abs(finite).max()) if finite.size else 0.0
    if x.size and tolerance >= signal:
        warnings[a.name] = (
            f"{a.name}: the tolerance {tolerance:g} is not below the largest expected value {signal:g}; the comparison says nothing"
        )
    with np.errstate(invalid="ignore"):
        close = same_bits | (np.abs(x - y) <= tolerance)
    wrong = (np.flatnonzero(~close)[:, None] * size + np.arange(size)).reshape(-1)
    tail = np.arange(whole, a.data.size)  # bytes behind the last whole value are compared as they are
    return np.concatenate([wrong, tail[a.data[tail] != b.data[tail]]])
