"""Running a module with probes at stages and reading the values back.

Invariant: a probed run leaves every other output as the unprobed one does, which is checked unless the caller does so itself; stages come in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.graft import FILL, Cut, Probe, Reading, probe_many, probe_stages
from ptxgraft.text import Document
from ptxgraft.verify.compare import compare
from ptxgraft.verify.model import Verdict
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
    module: Document | Cut,
    entry: str,
    stages: Sequence[str | int] | None = None,
    region: tuple[int, int] | None = None,
    registers: list[str] | None = None,
    iterations: int = 0,
) -> Oracle:
    """Probes at ``stages`` (None: all of the entry's). ``region``: the lines whose borders ``a`` and ``out`` are (None: the mma region).
    ``registers`` and ``iterations`` as for ``probe``.

    UsageError when no stage can be probed.
    """
    missing: dict[str | int, str] = {}
    wanted = stages if stages is not None else probe_stages(module, entry, region)
    probes = probe_many(module, entry, wanted, registers, region, missing=missing, iterations=iterations)
    return Oracle(probes[0].document, entry, probes, {str(stage): why for stage, why in missing.items()})


@dataclass(slots=True, eq=False)
class Readings:
    """What an oracle's run gave: ``stages[name]`` maps registers to unsigned arrays [block, warp, lane], ``stored[name]`` says which lanes stored there
    (bool [block, warp, lane]); both have a last axis [passage] where the probes keep several. ``readings[name]`` is the same as ``Probe.diff`` takes it.
    ``outputs`` are the launch's own, ``buffer`` is the probes' (uint8, for ``read_probe``). ``untouched``: the outputs compared with an unprobed run's, None when
    that was not asked for or there are none."""

    stages: dict[str, dict[str, NDArray]]
    stored: dict[str, NDArray[np.bool_]]
    outputs: list[Output]
    replay: Replay
    buffer: NDArray[np.uint8]
    readings: dict[str, Reading]
    untouched: Verdict | None = None


def consult(
    oracle: Oracle,
    recorded: capture.Launch,
    *,
    engine: str = "warp",
    profile: str = "sm_90",
    on: str = "cpu",
    timeout: float | None = None,
    assembler: str = "driver",
    check: bool = True,
) -> Readings:
    """Run the oracle on a recorded launch and read all its probes. A stage that no lane came to reads as stored nowhere.

    ``check``: run the module without probes, too, and compare all outputs.
    """
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
    readings = {str(p.where): p.read(data, grid, block, empty=True) for p in oracle.probes}
    stored = {stage: reading.stored for stage, reading in readings.items()}
    stages = {stage: reading.bits for stage, reading in readings.items() if reading.stored.any()}
    outputs = [o for o in ran.outputs if o.name != name]
    untouched = None
    if check and any(o.data.size for o in outputs):
        untouched = compare(replay(recorded, first.original, entry=oracle.entry, **where).outputs, outputs)
    return Readings(stages, stored, outputs, ran, data, readings, untouched)
