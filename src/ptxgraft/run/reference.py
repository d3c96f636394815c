"""Launches of the reference workload that ships with the package.

Invariant: the same layer gives the same launch, addresses and handles included.
"""

from __future__ import annotations

from ptxgraft import data
from ptxgraft.isa import bind
from ptxgraft.run.images import Surface, Texture
from ptxgraft.run.kernel import FIRST_HANDLE
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import FIRST_ADDRESS, Allocation, allocate, behind
from ptxgraft.text import Document


def reference_document(layer: str) -> Document:
    """The shipped PTX of a layer. UsageError for an unknown layer."""
    return Document.parse(data.ptx(layer), f"{layer}.ptx")


def reference_launch(layer: str, document: Document | None = None) -> Launch:
    """A layer on the shipped frame, ready to run; ``document`` (None: the shipped PTX) may be a graft of it."""
    reference = data.launch_arguments(layer)
    program = bind(document or reference_document(layer), reference.entry)
    args = bytearray(reference.args)
    allocations: list[Allocation] = []
    address, handle = FIRST_ADDRESS, FIRST_HANDLE
    textures: dict[int, Texture] = {}
    surfaces: dict[int, Surface] = {}

    def put(offset: int, word: int) -> None:
        args[offset : offset + 8] = word.to_bytes(8, "little")

    for offset, contents in reference.buffers.items():
        allocations.append(allocate(address, contents, reference.names.get(offset, f"argument {offset}")))
        put(offset, address)
        address = behind(allocations[-1].end)
    for offset, texture in reference.textures.items():
        textures[handle] = Texture(texture.array, None, texture.filter, texture.address, texture.normalized)
        put(offset, handle)
        handle += 1
    for offset, array in reference.surfaces.items():
        surfaces[handle] = Surface(array.copy())
        put(offset, handle)
        handle += 1
    return Launch(program, reference.grid, reference.block, bytes(args), reference.shared_bytes, allocations, textures, surfaces)
