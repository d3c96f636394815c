"""Running a module with probes at stages and reading the values back.

Invariant: a probed run leaves every other output as the unprobed one does; stages come in program order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import FILL, Probe, probe, probe_stages, read_probe
from ptxgraft.text import Document
from ptxgraft.verify.replay import Output, Replay, replay

PAGE = 1 << 21
"""Distance between the addresses of probe buffers, and from the capture's own memory."""


@dataclass(slots=True, eq=False)
class Oracle:
    """A module with probes in it. ``probes`` are in the order of their added parameters; ``missing`` says why a stage could not be probed."""

    document: Document
    entry: str
    probes: list[Probe]
    missing: dict[str, str] = field(default_factory=dict)


def make_oracle(document: Document, entry: str, stages: Sequence[str | int] | None = None) -> Oracle:
    """Probes at ``stages`` (None: all of the entry's), each with a buffer parameter of its own."""
    wanted = list(stages) if stages is not None else list(probe_stages(document, entry))
    probes: list[Probe] = []
    missing: dict[str, str] = {}
    current = document
    # Lines move with every probe, stages do not: lines go first, from the bottom up.
    for stage in sorted((s for s in wanted if isinstance(s, int)), reverse=True) + [s for s in wanted if not isinstance(s, int)]:
        try:
            made = probe(current, entry, stage)
        except (UnsupportedError, UsageError) as error:
            missing[str(stage)] = str(error)
            continue
        probes.append(made)
        current = made.document
    return Oracle(current, entry, probes, missing)


@dataclass(slots=True, eq=False)
class Readings:
    """What an oracle's run gave: ``stages[name]`` maps registers to unsigned arrays [block, warp, lane]; ``outputs`` are the launch's own."""

    stages: dict[str, dict[str, NDArray]]
    outputs: list[Output]
    replay: Replay


def consult(oracle: Oracle, recorded: capture.Launch, *, engine: str = "warp", profile: str = "sm_90") -> Readings:
    """Run the oracle on a recorded launch and read all its probes."""
    if not oracle.probes:
        raise UsageError("nothing to compare: no stage could be probed", hint="; ".join(f"{k}: {v}" for k, v in oracle.missing.items()))
    args = recorded.args
    address = max((a.end for a in recorded.allocations), default=PAGE)
    buffers: list[capture.Allocation] = []
    number = max((a.index for a in recorded.allocations), default=-1) + 1
    for made in oracle.probes:
        address = (address // PAGE + 2) * PAGE
        size = made.buffer_bytes(recorded.grid, recorded.block)
        args = made.argument_bytes(args, address, made.slots_needed(recorded.grid, recorded.block))
        buffers.append(capture.Allocation(number + len(buffers), address, size, np.full(size, FILL, dtype=np.uint8)))
        address += size
    extended = replace(recorded, args=args, allocations=[*recorded.allocations, *buffers])
    ran = replay(extended, oracle.document, entry=oracle.entry, engine=engine, profile=profile)
    own = {f"allocation {b.index}" for b in buffers}
    stages = {}
    for made, buffer in zip(oracle.probes, buffers, strict=True):
        data = next(o.data for o in ran.outputs if o.name == f"allocation {buffer.index}")
        stages[str(made.where)] = read_probe(made, data, recorded.grid, recorded.block, bits=True)
    return Readings(stages, [o for o in ran.outputs if o.name not in own], ran)
