"""Running a recorded launch again, with its own or another module, on the CPU or a GPU.

Invariant: a replay starts from what the capture holds and leaves the capture as it was; what the launch may have changed is all in ``outputs``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import SourceError
from ptxgraft.graft import assemble
from ptxgraft.isa import Program, bind
from ptxgraft.run import EXECUTORS, Launch, RunResult, Watch, cuda, execute, launch_from_capture
from ptxgraft.run.execution import check_choice, check_cpu_only
from ptxgraft.run.launch import check_arguments
from ptxgraft.run.variables import address_words
from ptxgraft.text import Document

ASSEMBLERS = ("driver", "ptxas")
GIVE_MODULE = "give the PTX file (replay: --ptx; verify, bisect: --original)"


@dataclass(slots=True, eq=False)
class Output:
    """One thing that a launch may write. ``kind`` is ``memory``, ``surface`` or ``variable``; ``key`` the base address or the handle; ``data`` uint8[n].

    ``image`` is (width, rows, channels, CUarray_format code) of a surface; the slices of a deep one lie one below the other.
    """

    name: str
    kind: str
    key: int
    data: NDArray[np.uint8]
    image: tuple[int, int, int, int] | None = None


@dataclass(slots=True, eq=False)
class Replay:
    """A recorded launch run once. ``document`` and ``program`` are None where a capture's machine code ran that has no PTX, ``launch`` where a GPU ran it.
    ``notes`` are things that had to be assumed, and, of a GPU, where it ran and what of the memory was moved."""

    recorded: capture.Launch
    document: Document | None
    program: Program | None
    launch: Launch | None
    result: RunResult
    outputs: list[Output]
    notes: list[str]


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
    on: str = "cpu",
    timeout: float | None = None,
    assembler: str = "driver",
    watch: Sequence[Watch] | None = None,
    blocks: Sequence[int] | None = None,
    step_budget: int | None = None,
    threads: int | None = None,
) -> Replay:
    """Run ``recorded`` with ``document`` (None: the module in the capture), entry ``entry`` (None: the recorded kernel's name).

    ``on``: ``cpu``, by ``engine`` with the bits of ``profile``, or ``cuda``, a GPU: there ``timeout`` is the seconds that the kernel may run, ``assembler`` what
    makes machine code of PTX (``driver`` or ``ptxas``), and a capture's own machine code runs where the capture holds it. The other options are for ``cpu``.
    """
    check_choice("executor", on, EXECUTORS)
    check_choice("assembler", assembler, ASSEMBLERS)
    name = entry or recorded.kernel
    if on == "cuda":
        check_cpu_only(watch=watch, blocks=blocks, step_budget=step_budget, threads=threads)
        return _on_gpu(recorded, document, name, timeout, assembler)
    document = document or document_of(recorded)
    program = bind(document, name)
    launch = launch_from_capture(program, recorded)
    result = execute(launch, engine=engine, profile=profile, watch=watch, blocks=blocks, step_budget=step_budget, threads=threads)
    return Replay(recorded, document, program, launch, result, outputs_of(recorded, launch), launch.notes)


def _on_gpu(recorded: capture.Launch, document: Document | None, name: str, timeout: float | None, assembler: str) -> Replay:
    module = gpu_module(recorded, document, name, assembler)
    notes = list(module.notes)
    work = cuda.work_from_capture(recorded, module.program, notes)
    left, result = cuda.run_work(work, module.code, cuda.DEFAULT_TIMEOUT if timeout is None else timeout)
    return Replay(recorded, module.document, module.program, None, result, outputs_left(recorded, work, left), [*notes, *result.notes])


@dataclass(frozen=True, slots=True)
class GpuModule:
    """What a GPU loads for a replay, and the PTX behind it as far as there is any."""

    code: cuda.Code
    document: Document | None
    program: Program | None
    notes: list[str]


def gpu_module(recorded: capture.Launch, document: Document | None, name: str, assembler: str = "driver") -> GpuModule:
    """``document`` for a GPU; None: the capture's own machine code, or else its PTX."""
    held = recorded.binary if document is None else None
    image = None if held is None else held.tobytes()
    if document is None and (image is None or recorded.module is not None):
        document = document_of(recorded)
    if document is None:
        assert image is not None
        return GpuModule(cuda.Code(image, name), None, None, ["the capture holds no PTX: its own machine code runs"])
    program = bind(document, name)
    check_arguments(program, recorded.args)
    if image is None:
        image = document.data if assembler == "driver" else assembled(document)
    return GpuModule(cuda.Code(image, name), document, program, [])


def assembled(document: Document) -> bytes:
    """A module as ptxas makes it for the GPU of this machine. Raises ``SourceError`` with its log when it refuses the module."""
    sm = cuda.card().sm
    special = next((t for t in document.target if t in (f"{sm}a", f"{sm}f")), sm)
    made = assemble(document, special)
    if made.cubin is None or made.relocatable:
        why = "it leaves functions to a linker" if made.ok else made.log.strip()
        raise SourceError(f"{document.name}: ptxas made nothing to load of it: {why}")
    return made.cubin


def outputs_left(recorded: capture.Launch, work: cuda.Work, left: cuda.Left) -> list[Output]:
    """What a GPU left, as ``outputs_of`` orders it. A module variable that the module on the GPU does not have is as it was."""
    found = [Output(f"allocation {a.index}", "memory", a.base, data) for a, data in zip(recorded.allocations, left.spans, strict=True)]
    found += [_surface_output(i, left.surfaces[i.handle]) for i in recorded.surfaces]
    for v in recorded.variables:
        data = left.variables.get(v.name, np.asarray(v.before))
        found.append(Output(f"variable {v.name!r}", "variable", work.variables[v.name].span.base, data))
    return found


def outputs_of(recorded: capture.Launch, launch: Launch) -> list[Output]:
    """What a launch that has run may have written, in the capture's order: allocations, surfaces, module variables."""
    found = [
        Output(f"allocation {a.index}", "memory", a.base, ran.data) for a, ran in zip(recorded.allocations, launch.allocations, strict=True)
    ]
    found += [_surface_output(image, launch.surfaces[image.handle].array) for image in recorded.surfaces]
    for variable in recorded.variables:
        ran = launch.variables[variable.name]
        data = ran.data.copy()
        for at, size in address_words(launch.program, variable.name, launch.variables):  # the launch's own addresses, which nobody changed
            data[at : at + size] = variable.before[at : at + size]
        found.append(Output(f"variable {variable.name!r}", "variable", ran.base, data))
    return found


def _surface_output(image: capture.Image, array: NDArray) -> Output:
    shape = (image.width, image.height * image.depth, image.channels, image.format)
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return Output(f"surface at {image.place}", "surface", image.handle, data, shape)


def recorded_outputs(recorded: capture.Launch) -> list[Output]:
    """What the capture says the launch left: only what was recorded after it."""
    found = []
    for a in recorded.allocations:
        if a.after_recorded and a.after is not None:
            found.append(Output(f"allocation {a.index}", "memory", a.base, np.asarray(a.after)))
    for image in recorded.surfaces:
        if image.after is not None:
            shape = (image.width, image.height * image.depth, image.channels, image.format)
            found.append(Output(f"surface at {image.place}", "surface", image.handle, np.asarray(image.after), shape))
    for variable in recorded.variables:
        if variable.after is not None:
            found.append(Output(f"variable {variable.name!r}", "variable", 0, np.asarray(variable.after)))
    return found


def unrecorded(recorded: capture.Launch) -> list[str]:
    """The outputs whose contents before the launch are not in the capture: a replay fills them with a poison pattern."""
    return [f"surface at {i.place}" for i in recorded.surfaces if i.before is None]


def ran_where(who: str, ran: Replay) -> list[str]:
    """Where a side ran, and what there is to know of that."""
    head = f"{who}: {ran.result.executor}" if ran.result.executor == "cuda" else f"{who}: cpu, {ran.result.engine} ({ran.result.profile})"
    return [f"{head}{': ' + n if n else ''}" for n in ran.result.notes or [""]]
