"""Times of modules as a listing.

Invariant: a time is shown with its spread and its unit.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from ptxgraft.report.listing import Listing
from ptxgraft.verify import Benchmark


def bench_view(timed: Benchmark) -> RenderableType:
    """A line on what ran, and a row for each module."""
    cache = ", L2 cache emptied before each" if timed.flushed else ""
    head = f"{timed.where}: {timed.repeats} runs of each module in turns after {timed.warmups} to warm up{cache}"
    rows = Listing("module", ">median us", ">quartiles us", ">fastest us", ">slowest us", ">over the first", "outputs against the first")
    for t in timed.timings:
        low, high = t.quartiles_us
        judged = "" if t.outputs is None else t.outputs.verdict
        rows.add_row(
            t.name, f"{t.median_us:,.2f}", f"{low:,.2f}-{high:,.2f}", f"{t.fastest_us:,.2f}", f"{t.slowest_us:,.2f}", f"{t.over_first:.3f}", judged
        )  # fmt: skip
    parts: list[RenderableType] = [Text(head), rows]
    parts += [Text(f"{t.name}: {t.outputs}", style="red") for t in timed.timings if t.outputs is not None and t.outputs.exit_code]
    return Group(*parts)
