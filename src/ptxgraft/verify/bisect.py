"""The first stage at which two programs differ.

Invariant: stages are compared in program order over all blocks, warps and lanes, as bits; the first that differs is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ptxgraft import capture
from ptxgraft.errors import UsageError
from ptxgraft.text import Document
from ptxgraft.verify.model import Bisection
from ptxgraft.verify.oracle import Readings, consult, make_oracle


def bisect(
    recorded: capture.Launch,
    graft: Document,
    original: Document,
    *,
    entry: str | None = None,
    stages: Sequence[str] | None = None,
    engine: str = "warp",
    profile: str = "sm_90",
) -> Bisection:
    """Probe both modules at ``stages`` (None: all that the original has), run both on the launch, and find the first difference.

    Registers are paired by their place in the stage, since a graft may name them otherwise. Raises ``UsageError`` when no stage is common.
    """
    name = entry or recorded.kernel
    first = make_oracle(original, name, stages)
    second = make_oracle(graft, name, [str(p.where) for p in first.probes])
    skipped = {**first.missing, **second.missing}
    common = [p for p in first.probes if str(p.where) not in skipped]
    if not common:
        raise UsageError(
            "nothing to compare: the two modules have no stage in common", hint="; ".join(f"{k}: {v}" for k, v in skipped.items())
        )
    expected = consult(first, recorded, engine=engine, profile=profile)
    found = consult(second, recorded, engine=engine, profile=profile)
    checked: list[str] = []
    for made in common:
        stage = str(made.where)
        checked.append(stage)
        difference = _first_difference(expected, found, stage, recorded)
        if isinstance(difference, str):
            skipped[stage] = difference
            checked.pop()
        elif difference is not None:
            difference.line = made.lines[0] if made.lines else None
            difference.checked, difference.skipped = checked, skipped
            return difference
    return Bisection(None, checked=checked, skipped=skipped)


def _first_difference(expected: Readings, found: Readings, stage: str, recorded: capture.Launch) -> Bisection | str | None:
    mine, theirs = expected.stages[stage], found.stages[stage]
    if len(mine) != len(theirs):
        return f"the original stores {len(mine)} registers there, the graft {len(theirs)}"
    total = 0
    first: Bisection | None = None
    for (register, a), b in zip(mine.items(), theirs.values(), strict=True):
        wrong = np.argwhere(a != b)
        total += len(wrong)
        if len(wrong) and first is None:
            block, warp, lane = (int(i) for i in wrong[0])
            x, y, _ = recorded.grid
            place = (block % x, block // x % y, block // (x * y))
            first = Bisection(stage, None, register, place, warp, lane, int(a[block, warp, lane]), int(b[block, warp, lane]))
    if first is not None:
        first.values_differing = total
    return first
