"""Choose the rows of ``scalar.npz`` from the full set of results recorded on the card.

    python tests/goldens_scalar/select_rows.py FOLDER_WITH_THE_FULL_SET

Of each instruction of the set's ``cvt`` list but the approximations (``tests/goldens`` has those): every distinct special tuple that fits, else rows spread over the whole list and a random
sample. ``scalar.npz`` holds, for instruction number i in ``names``, arrays ``i_x``, ``i_y``, ``i_z`` (as many as it has operands) and
``i_out``, all little-endian bits.
"""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 420
TARGET = Path(__file__).parent / "scalar.npz"


def reader(folder: Path) -> Any:
    """The full set's own reader, opened on ``folder``."""
    spec = spec_from_file_location("goldens_read", folder / "read.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Golden(str(folder))


def rows(operands: list[np.ndarray], rng: np.random.Generator) -> np.ndarray:
    """Indices of the rows to keep, sorted."""
    _, first = np.unique(np.stack([o.astype(np.uint64) for o in operands], axis=1), axis=0, return_index=True)
    if len(first) <= ROWS:
        return np.sort(first)
    spread = np.linspace(0, len(operands[0]) - 1, ROWS // 3).astype(np.int64)
    return np.unique(np.concatenate([spread, rng.choice(first, ROWS - len(spread), replace=False)]))


def main(folder: Path) -> None:
    golden = reader(folder)
    rng = np.random.default_rng(2026)
    arrays: dict[str, np.ndarray] = {}
    names = []
    for number, case in enumerate(c for c in golden.meta["cvt"] if ".approx" not in c["insn"]):
        *operands, out = golden.cvt(case["name"])
        operands = [np.asarray(o) for o in operands[: case["arity"]]]
        kept = rows(operands, rng)
        for letter, operand in zip("xyz", operands, strict=False):
            arrays[f"{number}_{letter}"] = operand[kept].astype("<u8" if operand.max() >> 32 else "<u4")
        arrays[f"{number}_out"] = np.asarray(out)[kept]
        names.append(case["insn"])
    np.savez_compressed(TARGET, names=np.array(names), **arrays)
    print(
        f"{TARGET}: {len(names)} instructions, {sum(len(a) for k, a in arrays.items() if k.endswith('out'))} rows, {TARGET.stat().st_size} bytes"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
