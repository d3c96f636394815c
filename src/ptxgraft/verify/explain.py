"""Who stored a byte, and from which phase its value comes.

Invariant: an explanation is a fact of a run: the launch is run again with the byte watched.
"""

from __future__ import annotations

from dataclasses import replace

from ptxgraft import capture
from ptxgraft.flow import Flow
from ptxgraft.run import Watch
from ptxgraft.spec import descends_from, layer_spec
from ptxgraft.text import Document
from ptxgraft.verify.model import Difference, Writer
from ptxgraft.verify.replay import Output, replay


def writer_of(
    recorded: capture.Launch, document: Document, output: Output, offset: int, *, engine: str = "warp", profile: str = "sm_90"
) -> Writer | None:
    """The last store that touched byte ``offset`` of an output, or None when none did. Runs on the CPU: no GPU tells who stored."""
    kind = "surface" if output.kind == "surface" else "memory"
    again = replay(recorded, document, engine=engine, profile=profile, watch=[Watch(kind, output.key, offset, 1)])
    if not again.result.stores:
        return None
    store = again.result.stores[-1]
    program = again.program
    assert program is not None, "what runs on the CPU has a program"
    flow = Flow(program)
    phases = descends_from(flow, layer_spec(flow, recorded.block), store.index)
    statement = " ".join(program.source(store.index).split()).rstrip("; ")
    return Writer(store.block, store.warp, store.lane, program.line(store.index), statement, phases)


def explain(
    difference: Difference,
    recorded: capture.Launch,
    reference: Document | None,
    judged: Document,
    outputs: list[Output],
    *,
    engine: str = "warp",
    profile: str = "sm_90",
) -> Difference:
    """``difference`` with the stores that made the two values. ``outputs`` are those of the judged run; without a ``reference`` (the expected bytes were
    recorded elsewhere) only the judged run is asked."""
    output = next(o for o in outputs if o.name == difference.output)

    def asked(document: Document) -> Writer | None:
        return writer_of(recorded, document, output, difference.offset, engine=engine, profile=profile)

    return replace(difference, writer=asked(judged), expected_writer=asked(reference) if reference is not None else None, explained=True)
