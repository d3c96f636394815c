"""Take the small selection of hardware results that the tests run on from a full set of recordings.

    python tests/goldens/select_sets.py FULL_SET

FULL_SET is a folder that ``golden.cu`` filled (``layout.json``, ``*.bin.gz`` and its reader ``read.py``). Writes ``mma.npz`` and ``scalar.npz`` beside this file:
``index`` is JSON (UTF-8 bytes), ``words`` are all 32-bit words in the index's order. Of every dense mma, every class of operands, one warp; of every
approximate function and input set, some hundred operands.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
SCALARS_A_SET = 320


def reader(folder: Path):
    """The full set, opened with its own reader."""
    spec = importlib.util.spec_from_file_location("golden_reader", folder / "read.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Golden(str(folder))


def select_mma(full) -> tuple[list[dict], list[np.ndarray]]:
    index, words = [], []
    for case in full.meta["mma"]:
        if case["sparse"]:
            continue
        for number, q in enumerate(case["classes"]):
            data = full.mma(case["name"], q["class"], matrices=False)
            # Different warps for different classes: what a class does may depend on the warp's number.
            warp = (5 * case["id"] + 3 * number) % case["warps"]
            index.append(
                {"insn": case["insn"], "class": q["class"], "word": case["word"], "counts": [case[k] for k in ("na", "nb", "nc", "nd")]}
            )
            words += [np.ascontiguousarray(data[k][warp]).view(np.uint32).ravel() for k in "abcd"]
    return index, words


def select_scalar(full) -> tuple[list[dict], list[np.ndarray]]:
    index, words = [], []
    sets = [(c, kind, *full.apx(c["name"], kind)) for c in full.meta["apx"] for kind in ("structured", "uniform", "ranged") if kind in c]
    for c in full.meta["cvt"]:
        if ".approx" in c["insn"]:
            x, y, _, out = full.cvt(c["name"])
            sets.append((c, c["set"], x, y, out))
    for c, kind, x, y, out in sets:
        chosen = np.sort(np.random.default_rng(c.get("id", 1)).choice(x.size, SCALARS_A_SET, replace=False))
        arity = 2 if c["insn"].startswith("div") else 1
        wide = c["out"] == 8
        index.append({"insn": c["insn"], "class": kind, "word": 8 if wide else 4, "count": SCALARS_A_SET, "arity": arity})
        for values in (x, y)[:arity] + (out,):
            words.append(np.ascontiguousarray(values[chosen].astype(np.uint64 if wide else np.uint32)).view(np.uint32))
    return index, words


def main(folder: str) -> None:
    full = reader(Path(folder))
    for name, select in (("mma", select_mma), ("scalar", select_scalar)):
        index, words = select(full)
        text = np.frombuffer(json.dumps({"device": full.meta["device"], "sets": index}).encode(), np.uint8)
        np.savez_compressed(HERE / f"{name}.npz", index=text, words=np.concatenate(words))
        print(name, len(index), "sets", (HERE / f"{name}.npz").stat().st_size, "bytes")


if __name__ == "__main__":
    main(sys.argv[1])
