"""Running a module with probes at stages and reading the values back.

Invariant: a probed run leaves every other output as the unprobed one does; stages come in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.graft import FILL, Probe, probe_many, probe_stages, read_probe
from ptxgraft.text import Document
from ptxgraft.verify.replay import Output, Replay, replay

PAGE = 1 << 21
"""Distance of a probe's buffer from the capture's own memory."""


@dataclass(slots=True, eq=False)
class Oracle:
    """A module with probes in it, all in one buffer. ``missing`` says why a stage could not be probed."""

    document: Document
    entry: str
    probes: list[Probe]
    missing: dict[str, str] = field(default_factory=dict)


def make_oracle(document: Document, entry: str, stages: Sequence[str | int] | None = None) -> Oracle:
    """Probes at ``stages`` (None: all of the entry's). UsageError when none of them can be probed."""
    missing: dict[str | int, str] = {}
    probes = probe_many(document, entry, stages if stages is not None else probe_stages(document, entry), missing=missing)
    return Oracle(probes[0].document, entry, probes, {str(stage): why for stage, why in missing.items()})


@dataclass(slots=True, eq=False)
class Readings:
    """What an oracle's run gave: ``stages[name]`` maps registers to unsigned arrays [block, warp, lane]; ``outputs`` are the launch's own."""

    stages: dict[str, dict[str, NDArray]]
    outputs: list[Output]
    replay: Replay


def consult(oracle: Oracle, recorded: capture.Launch, *, engine: str = "warp", profile: str = "sm_90") -> Readings:
    """Run the oracle on a recorded launch and read all its probes."""
    first = oracle.probes[0]
    grid, block = recorded.grid, recorded.block
    address = (max((a.end for a in recorded.allocations), default=0) // PAGE + 2) * PAGE
    size = first.buffer_bytes(grid, block)
    number = max((a.index for a in recorded.allocations), default=-1) + 1
    buffer = capture.Allocation(number, address, size, np.full(size, FILL, dtype=np.uint8))
    args = first.argument_bytes(recorded.args, address, first.slots_needed(grid, block))
    extended = replace(recorded, args=args, allocations=[*recorded.allocations, buffer])
    ran = replay(extended, oracle.document, entry=oracle.entry, engine=engine, profile=profile)
    name = f"allocation {number}"
    data = next(o.data for o in ran.outputs if o.name == name)
    stages = {str(p.where): read_probe(p, data, grid, block, bits=True) for p in oracle.probes}
    return Readings(stages, [o for o in ran.outputs if o.name != name], ran)
