"""Running a module with probes at stages and reading the values back.

Invariant: a probed run leaves every other output as the unprobed one does; stages come in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.graft import FILL, Cut, Probe, probe_many, probe_stages, read_probe, touched
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

    def buffer_bytes(self, recorded: capture.Launch) -> int:
        """The size of the probes' buffer on a launch."""
        return self.probes[0].buffer_bytes(recorded.grid, recorded.block)


def make_oracle(
    module: Document | Cut, entry: str, stages: Sequence[str | int] | None = None, region: tuple[int, int] | None = None
) -> Oracle:
    """Probes at ``stages`` (None: all of the entry's). ``region``: the lines whose borders ``a`` and ``out`` are (None: the mma region).

    UsageError when no stage can be probed.
    """
    missing: dict[str | int, str] = {}
    wanted = stages if stages is not None else probe_stages(module, entry)
    probes = probe_many(module, entry, wanted, region=region, missing=missing)
    return Oracle(probes[0].document, entry, probes, {str(stage): why for stage, why in missing.items()})


@dataclass(slots=True, eq=False)
class Readings:
    """What an oracle's run gave: ``stages[name]`` maps registers to unsigned arrays [block, warp, lane], ``stored[name]`` says which lanes stored there
    (bool [block, warp, lane]); ``outputs`` are the launch's own, ``buffer`` is the probes' (uint8, for ``read_probe``)."""

    stages: dict[str, dict[str, NDArray]]
    stored: dict[str, NDArray[np.bool_]]
    outputs: list[Output]
    replay: Replay
    buffer: NDArray[np.uint8]


def consult(
    oracle: Oracle,
    recorded: capture.Launch,
    *,
    engine: str = "warp",
    profile: str = "sm_90",
    on: str = "cpu",
    timeout: float | None = None,
    assembler: str = "driver",
) -> Readings:
    """Run the oracle on a recorded launch and read all its probes. A stage that no lane came to reads as stored nowhere."""
    first = oracle.probes[0]
    grid, block = recorded.grid, recorded.block
    address = (max((a.end for a in recorded.allocations), default=0) // PAGE + 2) * PAGE
    size = oracle.buffer_bytes(recorded)
    number = max((a.index for a in recorded.allocations), default=-1) + 1
    buffer = capture.Allocation(number, address, size, np.full(size, FILL, dtype=np.uint8))
    args = first.argument_bytes(recorded.args, address, first.slots_needed(grid, block))
    extended = replace(recorded, args=args, allocations=[*recorded.allocations, buffer])
    where = {"engine": engine, "profile": profile, "on": on, "timeout": timeout, "assembler": assembler}
    ran = replay(extended, oracle.document, entry=oracle.entry, **where)
    name = f"allocation {number}"
    data = next(o.data for o in ran.outputs if o.name == name)
    stored = {str(p.where): touched(p, data, grid, block) for p in oracle.probes}
    stages = {str(p.where): read_probe(p, data, grid, block, bits=True) for p in oracle.probes if stored[str(p.where)].any()}
    return Readings(stages, stored, [o for o in ran.outputs if o.name != name], ran, data)
