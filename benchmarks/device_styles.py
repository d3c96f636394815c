"""What each style of cut costs on a GPU: the identity graft of the reference layers at full size against the original.

Invariant: a style's time is the median of launches that take turns with the original's, so that clocks and neighbours hit both alike; every graft's
outputs are compared byte for byte before its time counts. Run ``python -m benchmarks.device_styles``.
"""

from __future__ import annotations

import argparse
import difflib
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import device, recording
from ptxgraft import data
from ptxgraft.errors import DeviceError, PtxgraftError
from ptxgraft.graft import STYLES, Cut, assemble, cut, find_ptxas
from ptxgraft.graft import styles as graft_styles
from ptxgraft.graft.phases import PhasePlan
from ptxgraft.run.images import Surface
from ptxgraft.run.launch import Launch
from ptxgraft.run.reference import reference_document, reference_launch
from ptxgraft.text import Document

TOKENS = {"enc4": (80, 46), "dec0": (1288, 744)}
"""Width and height of each layer's token grid."""
PIXELS = {"enc4": (4, 4), "dec0": (4, 2)}
"""Pixels of a token, width and height."""
WINDOW = 8
UNSPILLED = "phases without spills"
_SASS = re.compile(r"\s*/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
ROUNDS = 101
BATCH = {"enc4": 20, "dec0": 4}
"""Launches between two events, so that a batch takes about a millisecond."""


def full_size(layer: str, document: Document, tokens: tuple[int, int]) -> Launch:
    """The layer's launch on the shipped frame, repeated until it covers a token grid (width, height)."""
    launch = reference_launch(layer, document)
    width, height = (n * p for n, p in zip(tokens, PIXELS[layer], strict=True))
    scale = _scale(launch, layer)
    textures = {h: replace(t, array=_repeated(t.array, width, height)) for h, t in launch.textures.items()}
    surfaces = {}
    for handle, surface in launch.surfaces.items():
        rows, columns, channels = surface.array.shape
        shape = (_grown(rows, scale[1], height), _grown(columns, scale[0], width), channels)
        surfaces[handle] = Surface(np.zeros(shape, surface.array.dtype))
    args = bytearray(launch.args)
    extents = {"enc4": (24, tokens), "dec0": (32, (width, height))}[layer]
    args[extents[0] : extents[0] + 8] = struct.pack("<2i", *extents[1])
    grid = (-(-tokens[0] // WINDOW), -(-tokens[1] // WINDOW), 1)
    return replace(launch, grid=grid, args=bytes(args), textures=textures, surfaces=surfaces)


def _scale(launch: Launch, layer: str) -> tuple[int, int]:
    """Width and height in pixels that the shipped launch was made for."""
    height, width = next(iter(launch.textures.values())).array.shape[:2]
    return width, height


def _grown(extent: int, shipped: int, wanted: int) -> int:
    """A surface's extent for a picture of another size: the same multiple of it, or the same border round it."""
    if extent % shipped == 0 or shipped % extent == 0:
        return -(-wanted * extent // shipped)
    return wanted + extent - shipped


def _repeated(array: NDArray, width: int, height: int) -> NDArray:
    rows, columns = array.shape[:2]
    return np.ascontiguousarray(np.tile(array, (-(-height // rows), -(-width // columns), 1))[:height, :width])


# -- one style --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Built:
    """One variant of a layer: its text, assembled for the card, and ptxas's remarks."""

    name: str
    document: Document
    cubin: bytes
    usage: dict[str, Any]
    notes: list[str]


def build(layer: str, target: str, styles: Sequence[str] = STYLES) -> list[Built]:
    """The original and the identity graft of each style, assembled; and the phases cut without its spills, which a call that keeps registers
    does not need: what it saves is their share."""
    original = reference_document(layer)
    documents: dict[str, tuple[Document, list[str]]] = {"original": (original, [])}
    for name in styles:
        made = _identity(layer, original, name)
        documents[name] = (made.document, made.notes)
    if "phases" in styles:
        made = without_spills(layer, original)
        documents[UNSPILLED] = (made.document, made.notes)
    with ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda d: assemble(d[0], target), documents.values()))
    built: list[Built] = []
    for (name, (document, notes)), result in zip(documents.items(), results, strict=True):
        if result.cubin is None:
            raise DeviceError(f"{layer}, {name}: ptxas refuses the graft\n{result.log}")
        spills = [sum(int(m[i]) for m in _SPILLS.finditer(result.log)) for i in (1, 2)]  # the callees' too
        usage = {"registers": result.usage()[layer].registers, "spill_stores": spills[0], "spill_loads": spills[1]}
        built.append(Built(name, document, result.cubin, usage, notes))
    return built


def _identity(layer: str, document: Document, style: str) -> Cut:
    return cut(document, layer, style=style, body="identity", block=data.launch_arguments(layer).block)


def without_spills(layer: str, document: Document) -> Cut:
    """The phases cut with nothing spilled: a function's call keeps the entry's registers all the same."""
    plan = graft_styles.plan_phases

    def unspilled(*arguments: Any) -> PhasePlan:
        made = plan(*arguments)
        for call in made.calls:
            call.across = []
        made.spill_words = 0
        return made

    graft_styles.plan_phases = unspilled
    try:
        return _identity(layer, document, "phases")
    finally:
        graft_styles.plan_phases = plan


def section(cubin: bytes, name: str) -> bytes:
    """The bytes of an ELF file's section; empty when it has none of the name."""
    table, size, count, names = struct.unpack_from("<Q10xHHH", cubin, 40)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    start = headers[names][4]
    for header in headers:
        at = start + header[0]
        if cubin[at : cubin.index(b"\0", at)] == name.encode():
            return cubin[header[4] : header[4] + header[5]]
    return b""


def code(layer: str, original: Built, graft: Built) -> dict[str, Any]:
    """How the machine code of the entry differs: bytes of its section, and instructions where there is an nvdisasm."""
    ours, theirs = section(original.cubin, f".text.{layer}"), section(graft.cubin, f".text.{layer}")
    found: dict[str, Any] = {"bytes": [len(ours), len(theirs)], "same": ours == theirs}
    tool = find_nvdisasm()
    if tool is not None:
        old, new = (listing(tool, b.cubin) for b in (original, graft))
        changed = [line for line in difflib.unified_diff(old, new, n=0, lineterm="") if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        found |= {"instructions": [len(old), len(new)], "instructions_changed": len(changed)}
    return found


def find_nvdisasm() -> Path | None:
    """CUDA's disassembler: on PATH, or the one that Triton brings."""
    found = shutil.which("nvdisasm")
    if found is not None:
        return Path(found)
    triton = find_spec("triton")
    places = [] if triton is None else [Path(p, "backends/nvidia/bin/nvdisasm") for p in triton.submodule_search_locations or ()]
    return next((p for p in places if p.is_file()), None)


def listing(tool: Path, cubin: bytes) -> list[str]:
    """The instructions of a cubin, one a line, without addresses."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        done = subprocess.run([str(tool), "-c", "-hex", file.name], capture_output=True, text=True, check=False)
    return [m[1] for line in done.stdout.splitlines() if (m := _SASS.match(line))]


# -- on the card ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Held:
    """A launch's resources on the card: its argument block there, and what to read back."""

    args: bytes
    buffers: list[tuple[str, int, int]]
    surfaces: list[tuple[str, device.Image, NDArray]]


def hold(card: device.Device, launch: Launch) -> Held:
    """Make the launch's buffers, textures and surfaces once for all variants."""
    buffers = {a.base: card.buffer(a.data).address for a in launch.allocations}
    textures = {handle: card.texture(texture) for handle, texture in launch.textures.items()}
    surfaces = {handle: card.surface(surface) for handle, surface in launch.surfaces.items()}
    args = device.relocated(launch, buffers, {h: i.handle for h, i in (textures | surfaces).items()})
    return Held(
        args,
        [(a.name, buffers[a.base], a.data.size) for a in launch.allocations],
        [(f"surface {n}", surfaces[h], s.array) for n, (h, s) in enumerate(launch.surfaces.items())],
    )


def outputs(card: device.Device, held: Held) -> dict[str, NDArray[np.uint8]]:
    """Every byte of the buffers and surfaces as they are now."""
    found = {name: card.read(address, size) for name, address, size in held.buffers}
    return found | {name: card.texels(image, like).reshape(-1).view(np.uint8).copy() for name, image, like in held.surfaces}


def poison(card: device.Device, held: Held) -> None:
    """Fill the surfaces with a pattern, so that what a variant does not write shows."""
    for _, image, like in held.surfaces:
        card.fill(image, np.full_like(like.view(np.uint8), 0xA5).view(like.dtype))


def times(card: device.Device, functions: list[Any], launch: Launch, held: Held, rounds: int, batch: int) -> list[list[float]]:
    """Microseconds a launch of each function, ``rounds`` times, the functions taking turns (each round in another order)."""
    begin, end = (card.call("cuEventCreate", 0) for _ in range(2))
    found: list[list[float]] = [[] for _ in functions]
    for turn in range(rounds + 1):
        order = list(range(len(functions)))
        order = order[turn % len(order) :] + order[: turn % len(order)]
        for number in order:
            card.call("cuEventRecord", begin, 0)
            for _ in range(batch):
                card.enqueue(functions[number], launch.grid, launch.block, held.args, launch.shared_bytes)
            card.call("cuEventRecord", end, 0)
            card.call("cuEventSynchronize", end)
            if turn:  # the first round warms up
                found[number].append(card.call("cuEventElapsedTime", begin, end) * 1000 / batch)
    return found


def layer_result(card: device.Device, layer: str, rounds: int, tokens: tuple[int, int], styles: Sequence[str] = STYLES) -> dict[str, Any]:
    """One layer: bytes, times and code of each style against the original."""
    built = build(layer, card.card.sm, styles)
    launch = full_size(layer, built[0].document, tokens)
    held = hold(card, launch)
    functions = [card.call("cuModuleGetFunction", card.module(b.cubin), layer.encode()) for b in built]
    wrote = []
    for function in functions:
        poison(card, held)
        card.enqueue(function, launch.grid, launch.block, held.args, launch.shared_bytes)
        card.call("cuCtxSynchronize")
        wrote.append(outputs(card, held))
    measured = times(card, functions, launch, held, rounds, BATCH[layer])
    card.free()
    first = wrote[0]
    if all((a == 0xA5).all() for n, a in first.items() if n.startswith("surface")):
        raise DeviceError(f"{layer}: nothing was written, so nothing can be compared")
    base = statistics.median(measured[0])
    rows: dict[str, Any] = {}
    for variant, mine, bytes_ in zip(built, measured, wrote, strict=True):
        ratios = [t / o for t, o in zip(mine, measured[0], strict=True)]
        row = {
            "microseconds": round(statistics.median(mine), 2),
            "quartiles": [round(q, 2) for q in statistics.quantiles(mine)],
            "over_original": round(statistics.median(mine) / base, 4),
            "over_original_by_round": round(statistics.median(ratios), 4),
            "bytes_differing": {n: int(np.count_nonzero(first[n] != bytes_[n])) for n in first},
            "ptxas": variant.usage,
        }
        if variant.name != "original":
            row |= {"code": code(layer, built[0], variant), "notes": variant.notes}
        rows[variant.name] = row
    if UNSPILLED in rows:
        whole, kept = (rows[n]["microseconds"] for n in ("phases", UNSPILLED))
        rows["phases"]["share_of_spills"] = round((whole - kept) / whole, 4)
    return {
        "tokens": list(tokens), "grid": list(launch.grid), "block": list(launch.block), "rounds": rounds, "launches_a_round": BATCH[layer],
        "bytes_compared": sum(a.size for a in first.values()), "styles": rows,
    }  # fmt: skip


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Time the identity graft of each style against the original on a GPU.")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--styles", default=",".join(STYLES))
    recording.add_options(parser)
    options = parser.parse_args()
    if find_ptxas() is None:
        raise SystemExit("no ptxas found: install nvidia-cuda-nvcc")
    result: dict[str, Any] = {}
    with device.Device() as card:
        result |= recording.card(card)
        result["layers"] = {name: layer_result(card, name, options.rounds, TOKENS[name], options.styles.split(",")) for name in data.LAYERS}
    for name, row in result["layers"].items():
        print(f"{name}: grid {row['grid']}, {row['bytes_compared']:,} bytes compared")
        for style, numbers in row["styles"].items():
            wrong = sum(numbers["bytes_differing"].values())
            print(
                f"    {style:21} {numbers['microseconds']:9.2f} us  {numbers['over_original']:.3f}x  {wrong} bytes differ  {numbers['ptxas']}"
            )
    recording.record("device_styles", result, options)


if __name__ == "__main__":
    try:
        main()
    except PtxgraftError as error:
        sys.exit(str(error))
