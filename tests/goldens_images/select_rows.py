"""Choose a selection of what `record_fetches.py` recorded: `python tests/goldens_images/select_rows.py RECORD.npz ... h200_fetches.npz`.

Invariant: nothing is computed here; every recorded case stays, with some of its rows. A record has `cases` (number, name, geometry, operation, settings,
levels) and for each case, by number, `.at` (coordinates and other operands, up to eight 32-bit words a row), `.out` (four words a row), `.level0` and
so on (texels), and `.after` (a surface after the launch).
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

ROWS = {"cube": 24, "acube": 24, "grad": 30, "3d": 100, "snorm8": 100, "mips": 16, "lod": 40, "tld4": 12}
"""Rows that stay, by the first word of a case's name; of other cases 10, and all where rows meet in one surface."""

WHOLE = ("sust.p", "sured.p", "sured.b", "sust", "txq", "suq")
LEFT_OUT = (
    "handle",
    "istypep",
    "depth",
    "mips unnormalised",
    "snorm8 lines",
    "snorm8 planes",
    "snorm16 planes",
    "unorm8 planes",
    "lod fine",
)


def selected(name: str, rows: int) -> np.ndarray:
    """Which rows of a case stay, evenly spread."""
    word = name.split()[0]
    wanted = rows if word in WHOLE else ROWS.get(word, 10)
    return np.unique(np.linspace(0, rows - 1, min(rows, wanted)).astype(int))


def main(records: list[str], path: str) -> None:
    kept: dict[str, np.ndarray] = {}
    cases: list[tuple[str, ...]] = []
    shared: dict[bytes, str] = {}
    for record in records:
        found = np.load(record)
        for number, name, geometry, operation, settings, levels in found["cases"]:
            if name.startswith(LEFT_OUT):
                continue
            chosen = selected(name, len(found[f"{number}.at"]))
            place = str(len(cases))
            kept |= {f"{place}.at": found[f"{number}.at"][chosen], f"{place}.out": found[f"{number}.out"][chosen]}
            if f"{number}.after" in found:
                kept[f"{place}.after"] = found[f"{number}.after"]
            same = []
            for level in range(int(levels)):
                texels = found[f"{number}.level{level}"]
                key = texels.tobytes() + str((texels.shape, texels.dtype)).encode()
                if key not in shared:
                    shared[key] = f"texels{len(shared)}"
                    kept[shared[key]] = texels
                same.append(shared[key])
            cases.append((name, geometry, operation, settings, " ".join(same)))
    kept["cases"] = np.array(cases)
    np.savez_compressed(path, **kept)
    print(f"{path}: {len(cases)} cases, {sum(len(kept[f'{i}.at']) for i in range(len(cases)))} rows, {Path(path).stat().st_size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
