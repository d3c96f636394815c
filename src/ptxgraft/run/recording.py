"""From captures to launches and back: replaying a recorded launch, and recording one that runs here.

Invariant: a launch made from a capture holds copies, so that a run never changes the capture; a capture made from a run holds every byte that the
launch could read or write.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ptxgraft import capture
from ptxgraft.errors import SourceError, UsageError
from ptxgraft.isa.program import Program
from ptxgraft.run import clusters
from ptxgraft.run.images import Sampler, Surface, Texture
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import Allocation, Memory, allocate, behind
from ptxgraft.run.references import references_of
from ptxgraft.run.result import RunResult
from ptxgraft.run.variables import put_addresses

POISON = 0xA5
"""What a surface holds before a replay when the capture does not say: an unwritten byte shows."""


@dataclass(frozen=True, slots=True)
class Assume:
    """What is taken for a texture where a capture does not say; each use is noted in ``Launch.notes``."""

    filter: str = "point"
    address: str = "clamp"
    normalized: bool = False


def launch_from_capture(program: Program, recorded: capture.Launch, *, assume: Assume | None = None, poison: int | None = POISON) -> Launch:
    """A launch of ``program`` with the geometry, arguments, memory and images of a recorded one, allocations in the capture's order.

    Words of module variables that the module initialises with addresses hold the launch's own. A surface whose texels before the launch were not recorded is filled with the byte ``poison`` (None: zeros). Raises ``SourceError`` when the capture
    lacks what running needs, ``UsageError`` when it does not fit the program, ``UnsupportedError`` when it needs clusters of several blocks.
    """
    notes: list[str] = []
    clusters.check(program, recorded.cluster)
    held = parts_of(recorded, assume or Assume(), poison, notes)
    launch = Launch(
        program,
        recorded.grid,
        recorded.block,
        recorded.args,
        recorded.shared_bytes,
        held.allocations,
        held.textures,
        held.surfaces,
        held.variables,
        notes=notes,
        handles_at=tuple(i.arg_offset for i in recorded.images if i.reference is None),
    )
    for variable in recorded.variables:  # addresses of the process that was recorded are of no use here
        put_addresses(program, launch.variables, variable.name)
    return launch


@dataclass(slots=True)
class Parts:
    """Copies of what a recorded launch found: allocations in the capture's order, images by handle, module variables by name (at addresses of ours)."""

    allocations: list[Allocation]
    textures: dict[int, Texture]
    surfaces: dict[int, Surface]
    variables: dict[str, Allocation]


def parts_of(recorded: capture.Launch, assume: Assume, poison: int | None, notes: list[str]) -> Parts:
    """The memory and images of a recorded launch; what had to be assumed goes to ``notes``. Arguments and errors as for ``launch_from_capture``."""
    allocations = [allocate(a.base, a.before, f"allocation {a.index}") for a in recorded.allocations]
    textures = {i.handle: _texture(recorded, i, assume, notes) for i in recorded.textures}
    surfaces = {i.handle: _surface(recorded, i, poison) for i in recorded.surfaces}
    # A reference's variable lies where its handle says.
    variables = {i.reference: allocate(i.handle, 8, f"variable {i.reference!r}") for i in recorded.images if i.reference is not None}
    address = Memory([*allocations, *variables.values()]).next_free()
    for v in recorded.variables:
        variables[v.name] = allocate(address, v.before, f"variable {v.name!r}")
        address = behind(variables[v.name].end)
    return Parts(allocations, textures, surfaces, variables)


def _known_format(recorded: capture.Launch, image: capture.Image) -> None:
    if image.size is None:
        raise SourceError(
            f"{recorded.label}: {image.called} has the unknown format {image.format}",
            hint="the launch can be shown but not run",
        )


def _texture(recorded: capture.Launch, image: capture.Image, assume: Assume, notes: list[str]) -> Texture:
    _known_format(recorded, image)
    given = {"filter": image.filter, "address": image.address, "normalized": image.normalized}
    missing = {name: getattr(assume, name) for name, value in given.items() if value is None}
    if missing:
        taken = ", ".join(f"{name} {value}" for name, value in missing.items())
        notes.append(f"{recorded.label}: {image.called} does not say all; taken: {taken}")
    settings = {**given, **missing}
    normalized = bool(settings["normalized"])
    first, *below = [a.copy() for a in image.arrays()]
    levels = image.mipmaps
    chosen = (
        {} if levels is None else {"mip_filter": levels.filter, "bias": levels.bias, "lowest": levels.lowest, "highest": levels.highest}
    )
    return Texture(
        first, image.format, settings["filter"], settings["address"], normalized, image.integers, image.layered, image.cube, below,
        seamless=image.seamless, **chosen,
    )  # fmt: skip


def _surface(recorded: capture.Launch, image: capture.Image, poison: int | None) -> Surface:
    _known_format(recorded, image)
    if image.before is not None:
        return Surface(image.arrays()[0].copy(), image.format, image.layered, image.cube)
    assert image.size is not None
    raw = np.full(image.size, poison or 0, dtype=np.uint8)
    return Surface(replace(image, before=raw).arrays()[0].copy(), image.format, image.layered, image.cube)


@dataclass(slots=True)
class Snapshot:
    """Copies of everything a launch may change, made before it runs: allocations by place, surfaces by handle, variables by name."""

    allocations: list[NDArray[np.uint8]] = field(default_factory=list)
    surfaces: dict[int, NDArray[np.uint8]] = field(default_factory=dict)
    variables: dict[str, NDArray[np.uint8]] = field(default_factory=dict)


def snapshot(launch: Launch) -> Snapshot:
    """Copy what a launch may change."""
    return Snapshot(
        [a.data.copy() for a in launch.allocations],
        {handle: _raw(s.array) for handle, s in launch.surfaces.items()},
        {name: a.data.copy() for name, a in launch.variables.items()},
    )


def _raw(array: NDArray) -> NDArray[np.uint8]:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).copy()


def capture_of(launch: Launch, before: Snapshot, seq: int = 0, result: RunResult | None = None) -> capture.Launch:
    """The record of a launch that has run: ``before`` as ``snapshot`` took it, the state after as it is now, the module's text with its hash. ``result`` says
    what ran it.

    Pointers and handles are found in the argument block: an aligned word that is an address inside an allocation, or a handle of the launch.
    """
    pointers: list[capture.Pointer] = []
    textures: list[capture.Image] = []
    surfaces: list[capture.Image] = []
    for offset in range(0, len(launch.args) - 7, 8):
        word = int.from_bytes(launch.args[offset : offset + 8], "little")
        if word in launch.textures:
            textures.append(_image_of("texture", offset, word, launch.textures[word]))
        elif word in launch.surfaces:
            image = _image_of("surface", offset, word, launch.surfaces[word])
            image.before, image.after = before.surfaces[word], _raw(launch.surfaces[word].array)
            surfaces.append(image)
        else:
            for index, a in enumerate(launch.allocations):
                if a.base <= word < max(a.end, a.base + 1):
                    pointers.append(capture.Pointer(offset, index, word - a.base))
    references = references_of(launch.program)
    if any(isinstance(image, Sampler) for image in launch.references.values()):
        raise UsageError(f"{launch.program.name}: a capture holds no samplers", hint="describe it in the .samplerref's initialiser")
    for name in references:
        handle = launch.variables[name].base
        if handle in launch.textures:
            textures.append(_image_of("texture", -1, handle, launch.textures[handle], name))
        elif handle in launch.surfaces:
            image = _image_of("surface", -1, handle, launch.surfaces[handle], name)
            image.before, image.after = before.surfaces[handle], _raw(launch.surfaces[handle].array)
            surfaces.append(image)
    return capture.Launch(
        seq=seq,
        kernel=launch.program.name,
        grid=launch.grid,
        block=launch.block,
        args=launch.args,
        shared_bytes=launch.shared_bytes,
        allocations=[
            capture.Allocation(i, a.base, a.size, held, a.data.copy())
            for i, (a, held) in enumerate(zip(launch.allocations, before.allocations, strict=True))
        ],
        pointers=pointers,
        textures=textures,
        surfaces=surfaces,
        variables=[
            capture.Variable(name, before.variables[name], a.data.copy()) for name, a in launch.variables.items() if name not in references
        ],
        module=launch.program.document.data,
        engine="" if result is None else result.engine,
        profile="" if result is None else result.profile,
    )


def _image_of(
    kind: Literal["texture", "surface"], offset: int, handle: int, image: Texture | Surface, reference: str | None = None
) -> capture.Image:
    *outer, width, channels = image.array.shape
    depth, height = ([1, 1] + outer)[-2:]
    made = capture.Image(
        kind, offset, handle, width, height, channels, image.format or 0, depth=depth, dimensions=len(outer) + 1, layered=image.layered,
        cube=image.cube, reference=reference,
    )  # fmt: skip
    if isinstance(image, Texture):
        made.filter = "linear" if image.filter == "linear" else "point"
        made.address, made.normalized, made.integers = tuple(image.address), image.normalized, image.integers
        made.seamless = image.seamless
        if image.mipmaps:
            highest = float(len(image.mipmaps) if image.highest is None else image.highest)
            made.mipmaps = capture.Mipmaps(len(image.levels), image.mip_filter, image.bias, image.lowest, highest)
        made.before = made.after = np.concatenate([_raw(a) for a in image.levels])
    return made
