"""Running a recorded launch again, with its own or another module.

Invariant: a replay starts from what the capture holds and leaves the capture as it was; what the launch may have changed is all in ``outputs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import SourceError
from ptxgraft.isa import Program, bind
from ptxgraft.run import Launch, RunResult, Watch, execute, launch_from_capture
from ptxgraft.text import Document

GIVE_MODULE = "give the PTX file (replay: --ptx; verify, bisect: --original)"


@dataclass(slots=True, eq=False)
class Output:
    """One thing that a launch may write. ``kind`` is ``memory``, ``surface`` or ``variable``; ``key`` the base address or the handle; ``data`` uint8[n].

    ``image`` is (width, height, channels, CUarray_format code) of a surface.
    """

    name: str
    kind: str
    key: int
    data: NDArray[np.uint8]
    image: tuple[int, int, int, int] | None = None


@dataclass(slots=True, eq=False)
class Replay:
    """A recorded launch run once."""

    recorded: capture.Launch
    program: Program
    launch: Launch
    result: RunResult
    outputs: list[Output]


def document_of(recorded: capture.Launch) -> Document:
    """The module that a capture holds for a launch. SourceError when it holds none."""
    where = f"{recorded.source}: " if recorded.source else ""
    module = recorded.module
    if module is None:
        raise SourceError(f"{where}{recorded.label}: the capture does not hold the kernel's module", hint=GIVE_MODULE)
    if not module.strip():
        raise SourceError(f"{where}{recorded.label}: the module in the capture is empty", hint=GIVE_MODULE)
    return Document.parse(module, f"{recorded.kernel}.ptx (in the capture)")


def replay(
    recorded: capture.Launch,
    document: Document | None = None,
    *,
    entry: str | None = None,
    engine: str = "warp",
    profile: str = "sm_90",
    watch: Sequence[Watch] | None = None,
    blocks: Sequence[int] | None = None,
    step_budget: int | None = None,
    threads: int | None = None,
) -> Replay:
    """Run ``recorded`` with ``document`` (None: the module in the capture), entry ``entry`` (None: the recorded kernel's name)."""
    document = document or document_of(recorded)
    program = bind(document, entry or recorded.kernel)
    launch = launch_from_capture(program, recorded)
    result = execute(launch, engine=engine, profile=profile, watch=watch, blocks=blocks, step_budget=step_budget, threads=threads)
    return Replay(recorded, program, launch, result, outputs_of(recorded, launch))


def outputs_of(recorded: capture.Launch, launch: Launch) -> list[Output]:
    """What a launch that has run may have written, in the capture's order: allocations, surfaces, module variables."""
    found = [
        Output(f"allocation {a.index}", "memory", a.base, ran.data) for a, ran in zip(recorded.allocations, launch.allocations, strict=True)
    ]
    for image in recorded.surfaces:
        array = np.ascontiguousarray(launch.surfaces[image.handle].array)
        shape = (image.width, image.height, image.channels, image.format)
        found.append(Output(f"surface at argument {image.arg_offset}", "surface", image.handle, array.reshape(-1).view(np.uint8), shape))
    for variable in recorded.variables:
        ran = launch.variables[variable.name]
        found.append(Output(f"variable {variable.name!r}", "variable", ran.base, ran.data))
    return found


def recorded_outputs(recorded: capture.Launch) -> list[Output]:
    """What the capture says the launch left: only what was recorded after it."""
    found = []
    for a in recorded.allocations:
        if a.after_recorded and a.after is not None:
            found.append(Output(f"allocation {a.index}", "memory", a.base, np.asarray(a.after)))
    for image in recorded.surfaces:
        if image.after is not None:
            shape = (image.width, image.height, image.channels, image.format)
            found.append(Output(f"surface at argument {image.arg_offset}", "surface", image.handle, np.asarray(image.after), shape))
    for variable in recorded.variables:
        if variable.after is not None:
            found.append(Output(f"variable {variable.name!r}", "variable", 0, np.asarray(variable.after)))
    return found


def unrecorded(recorded: capture.Launch) -> list[str]:
    """The outputs whose contents before the launch are not in the capture: a replay fills them with a poison pattern."""
    return [f"surface at argument {i.arg_offset}" for i in recorded.surfaces if i.before is None]
