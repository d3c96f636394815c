"""Choose a selection of what `record_fetches.py` recorded: `python tests/goldens_images/select_rows.py RECORD.npz ... h200_fetches.npz`.

Invariant: nothing is computed here; every recorded case stays, with some of its rows. A record has `cases` (number, name, geometry, operation, settings,
levels) and for each case, by number, `.at` (coordinates and other operands, up to eight 32-bit words a row), `.out` (four words a row), `.level0` and
so on (texels), and `.after` (a surface after the launch).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROWS = {"cube": 14, "acube": 14, "grad": 14, "3d": 40, "snorm8": 60, "mips": 8, "lod": 16, "tld4": 8}
"""Rows that stay, by the first word of a case's name; of other cases 6, and all where rows meet in one surface."""

STORED = 30
"""Formatted stores of a case that stay."""

WHOLE = ("sust.p", "sured.p", "sured.b", "sust", "txq", "suq")
OUTSIDE = ("sust.p clamp", "sust.p zero", "sured.b clamp", "sured.b zero", "sured.p clamp", "sured.p zero")
KEPT_PLACES = (" -1 2", " 6 -1", " 5 3", " 9 9")
"""Of accesses outside, which stay."""

LEFT_OUT = (
    "cube fine", "mips wide", "mips trilinear", "grad data", "mips 3d", "grad point", "grad optimised", "sust.p f4", "sust.p i4", "sust.p u2", "sust.p i2", "sust.p unorm16", "tld4 g point", "tld4 b point", "3d positive", "3d u2", "mips odd", "cube linear", "cube point", "mips odd sizes linear wrap", "mips odd sizes point", "cube random", "sured.p.min.b32 f", "sured.p.add.b32 f", "mips u", "mips i2", "mips f2", "tld4 cube u", "tld4 cube i", "tld4 cube f", "sured.p.and", "sured.p.or", "sured.p.max", "sured.b.and", "sured.b.max",

    "handle", "istypep", "depth", "mips unnormalised", "snorm8 lines", "snorm8 planes", "snorm16 planes", "unorm8 planes", "lod fine",
    "base {'low': 0.5} linear", "base {'low': 1.3, 'high': 2.7} linear", "base {'low': 0.7, 'bias': -0.2} linear", "f16x2 s32", "grad 3d",
    "grad cube",
)  # fmt: skip
"""Cases that are not kept: too large, without a meaning, refused, or undefined (whole numbers in a 1d array, which only linear memory has)."""


def selected(name: str, rows: int) -> np.ndarray:
    """Which rows of a case stay, evenly spread."""
    word = name.split()[0]
    wanted = rows if name.startswith(WHOLE) else ROWS.get(word, 6)
    return np.unique(np.linspace(0, rows - 1, min(rows, wanted)).astype(int))


def main(records: list[str], path: str) -> None:
    kept: dict[str, np.ndarray] = {}
    cases: list[tuple[str, ...]] = []
    shared: dict[bytes, str] = {}
    rows: list[np.ndarray] = []
    outs: list[np.ndarray] = []
    for record in records:
        found = np.load(record)
        for number, name, geometry, operation, settings, levels in found["cases"]:
            if name.startswith(LEFT_OUT) or (name.startswith(OUTSIDE) and not name.endswith(KEPT_PLACES)):
                continue
            chosen = selected(name, len(found[f"{number}.at"]))
            place, at = str(len(cases)), found[f"{number}.at"]
            columns: slice | np.ndarray = slice(None)
            if name.startswith("sust.p") and len(at) > STORED:
                # Row i stores to column i: as many columns stay.
                columns = chosen = np.unique(np.linspace(0, len(at) - 1, STORED).astype(int))
                at = np.concatenate([np.searchsorted(chosen, np.arange(len(at)))[:, None].astype(np.uint32), at[:, 1:]], axis=1)
            padded = np.zeros((len(chosen), 8), np.uint32)
            padded[:, : at.shape[1]] = at[chosen]
            rows.append(padded)
            outs.append(found[f"{number}.out"][chosen])
            if f"{number}.after" in found:
                kept[f"{place}.after"] = found[f"{number}.after"][:, columns]
            same = []
            for level in range(int(levels)):
                texels = found[f"{number}.level{level}"]
                texels = texels[:, columns] if name.startswith("sust.p") else texels
                key = texels.tobytes() + str((texels.shape, texels.dtype)).encode()
                if key not in shared:
                    shared[key] = f"texels{len(shared)}"
                    kept[shared[key]] = texels
                same.append(shared[key])
            cases.append((name, geometry, operation, settings, " ".join(same), str(len(chosen))))
    kept |= {"cases": np.array(cases), "at": np.concatenate(rows), "out": np.concatenate(outs)}
    np.savez_compressed(path, **kept)
    print(f"{path}: {len(cases)} cases, {len(kept['at'])} rows, {Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
