"""What the injected library wrote, as launches of a capture.

Invariant: a journal may end anywhere; what is whole is used, and what is missing is said in the launch's notes or in the recording's remarks.
The lines are described where they are written: ``native/launches.c`` and ``native/inject.c``.
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ptxgraft import capture
from ptxgraft.capture.blobs import CHUNK_BYTES
from ptxgraft.capture.contents import Bytes, FileContents, path_text
from ptxgraft.capture.image_record import image_faults
from ptxgraft.containers import kind_of, ptx_of
from ptxgraft.errors import SourceError
from ptxgraft.run.recorder.pointers import Ranges, foreign_words
from ptxgraft.run.recorder.triton import ptx_beside

IMAGE_NAME = re.compile(r"[0-9a-f]{64}")
_IMAGE_INSTRUCTION = re.compile(rb"[\s;}](?:tex|tld4|txq|suld|sust|sured|suq)\.")
NOT_DONE = "the program ended before the launch was done: what it left is not recorded"
_LAYERED, _CUBEMAP = 0x01, 0x04
_READ_AS_INTEGER, _NORMALIZED, _SEAMLESS = 0x01, 0x02, 0x40


@dataclass(slots=True)
class Seen:
    """What all processes did: ``launches`` made (of those known of), ``matches`` of the pattern, kernel names in the order of their first launches,
    refused launches by (kernel, reason), and what went wrong in words."""

    processes: int = 0
    launches: int = 0
    matches: int = 0
    kernels: list[str] = field(default_factory=list)
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ChunkedContents:
    """Contents that lie in chunk files, each but the last of ``CHUNK_BYTES``."""

    folder: Path
    size: int
    digests: tuple[str, ...]

    @property
    def chunk_bytes(self) -> int:
        return CHUNK_BYTES

    def load(self, start: int = 0, stop: int | None = None) -> Bytes:
        """uint8 [stop - start]. Raises ``SourceError`` when a chunk is not there."""
        begin, end, _ = slice(start, stop).indices(self.size)
        out = np.empty(max(end - begin, 0), np.uint8)
        for number in range(begin // CHUNK_BYTES, -(-end // CHUNK_BYTES)):
            at, path = number * CHUNK_BYTES, self.folder / f"chunk-{self.digests[number]}"
            try:
                chunk = np.fromfile(path, np.uint8)
            except OSError as error:
                raise SourceError(f"{path}: cannot read a recorded chunk: {error.strerror}") from None
            if len(chunk) != min(CHUNK_BYTES, self.size - at):
                raise SourceError(f"{path}: a recorded chunk has {len(chunk)} bytes")
            low, high = max(begin, at), min(end, at + len(chunk))
            out[low - begin : high - begin] = chunk[low - at : high - at]
        return out


def read_journals(folder: Path) -> tuple[list[capture.Launch], Seen]:
    """All launches that the processes recorded into ``folder``, in the order of processes and launches, numbered on."""
    launches: list[capture.Launch] = []
    seen = Seen()
    journals = [_lines(path, seen) for path in folder.glob("journal-*.jsonl")]
    for lines in sorted(journals, key=lambda lines: next((line["time"] for line in lines if line["what"] == "start"), 0)):
        first = launches[-1].seq + 1 if launches else 0
        process = _Process(folder, seen, first)
        process.read(lines)
        launches += process.launches
    for (kernel, reason), count in seen.refused.items():
        seen.remarks.append(f"{count} launch{'es' if count > 1 else ''} of {kernel} not recorded: {reason}")
    seen.remarks += seen.complaints
    seen.remarks = [path_text(remark) for remark in seen.remarks]
    for launch in launches:
        launch.notes = [path_text(note) for note in dict.fromkeys(launch.notes)]
    return launches, seen


def _lines(path: Path, seen: Seen) -> list[dict[str, Any]]:
    lines = []
    for number, text in enumerate(path.read_bytes().split(b"\n"), 1):
        try:
            if text:
                lines.append(json.loads(text))
        except ValueError:
            seen.remarks.append(f"line {number} of {path.name} is cut off: the program ended while it was written")
    return lines


def _float(bits: int) -> float:
    return struct.unpack("<f", struct.pack("<I", bits))[0]


@dataclass(slots=True)
class _Process:
    """One process's journal, read line by line."""

    folder: Path
    seen: Seen
    first: int
    launches: list[capture.Launch] = field(default_factory=list)
    open: dict[int, tuple[capture.Launch, dict[str, Any]]] = field(default_factory=dict)
    live: list[list[int]] = field(default_factory=list)
    modules: dict[tuple[str, int], tuple[bytes | None, str]] = field(default_factory=dict)
    inputs: dict[str, list[str]] = field(default_factory=dict)
    linked: dict[str, list[str]] = field(default_factory=dict)

    def read(self, lines: list[dict[str, Any]]) -> None:
        self.seen.processes += 1
        start = next((line for line in lines if line["what"] == "start"), {"pid": "?", "program": "?"})
        known, ended = 0, False
        for line in lines:
            match line["what"]:
                case "kernel":
                    if line["name"] not in self.seen.kernels:
                        self.seen.kernels.append(line["name"])
                case "complaint":
                    self.seen.complaints.append(line["text"])
                case "refused":
                    self.seen.refused[line["kernel"], line["why"]] += 1
                    known = max(known, line["number"] + 1)
                case "live":
                    self.live = line["ranges"]
                case "link input":
                    self.inputs.setdefault(line["state"], []).append(line["image"])
                case "linked":
                    self.linked[line["image"]] = self.inputs.pop(line["state"], [])
                case "launch":
                    self._launch(line)
                    known = max(known, line["number"] + 1)
                case "after":
                    self._after(line)
                case "end":
                    known, ended = line["launches"], True
                    self.seen.matches += line["matches"]
        for launch, _ in self.open.values():
            launch.notes.append(NOT_DONE)
        self.seen.launches += known
        how = "" if ended else "; it ended without saying so (a crash, or it was killed), so there may have been more"
        program = f"process {start['pid']} ({start['program']})"
        self.seen.remarks.append(f"{program}: {known} launches seen, {len(self.launches)} recorded{how}")

    # -- before ---------------------------------------------------------------------------------------------------------------
    def _launch(self, line: dict[str, Any]) -> None:
        notes: list[str] = line["notes"]
        args = bytes.fromhex(line["args"])
        allocations = [
            capture.Allocation(i, a["base"], a["size"], found, None)
            for i, a in enumerate(line["allocations"])
            if (found := self._contents(a)) is not None
        ]
        bases = {a.index: a.base for a in allocations}
        launch = capture.Launch(
            seq=self.first + line["number"],
            kernel=line["kernel"],
            grid=tuple(line["grid"]),
            block=tuple(line["block"]),
            args=args,
            shared_bytes=line["shared_bytes"],
            allocations=allocations,
            pointers=[
                capture.Pointer(at, index, int.from_bytes(args[at : at + 8], "little") - bases[index])
                for at, index in line["pointers"]
                if index in bases
            ],
            variables=[capture.Variable(v["name"], found, None) for v in line["variables"] if (found := self._contents(v)) is not None],
            cooperative=line["cooperative"],
            cluster=None if line["cluster"] is None else tuple(line["cluster"]),
            notes=notes,
        )
        for offset, index in line["handles"]:
            if (image := self._image(line["images"][index], offset, notes)) is not None:
                (launch.surfaces if image.kind == "surface" else launch.textures).append(image)
        self._module(launch, line["image"], line["architecture"])
        self._pointers_inside(launch)
        self.launches.append(launch)
        self.open[line["number"]] = launch, line

    def _contents(self, holder: dict[str, Any]) -> ChunkedContents | None:
        found = holder["contents"]
        return None if found is None else ChunkedContents(self.folder, found["size"], tuple(found["chunks"]))

    def _image(self, i: dict[str, Any], offset: int, notes: list[str]) -> capture.Image | None:
        kind, what = i["kind"], f"the {i['kind']} at argument offset {offset}"
        contents = self._contents(i)
        if contents is None:
            return None  # the injected library has noted why
        layered, cube = bool(i["array_flags"] & _LAYERED), bool(i["array_flags"] & _CUBEMAP)
        extents = [n for n in (i["depth"], i["height"], i["width"]) if n]  # an extent that an array does not have is 0
        depth, height, width = [1] * (3 - len(extents)) + extents
        image = capture.Image(
            kind, offset, i["handle"], width, height, i["channels"], i["format"], before=contents, depth=depth, dimensions=len(extents), layered=layered,
            cube=cube, linear=i["linear"],
        )  # fmt: skip
        if kind == "texture":
            image.filter = capture.FILTERS[i["filter"]]
            image.address = tuple(capture.ADDRESS_MODES[mode] for mode in i["addressing"])
            flags = i["flags"]
            image.normalized, image.integers = bool(flags & _NORMALIZED), bool(flags & _READ_AS_INTEGER)
            image.seamless = cube and bool(flags & _SEAMLESS)
            if i["levels"] > 1:
                bias, lowest, highest = (_float(i[name]) for name in ("bias", "lowest", "highest"))
                image.mipmaps = capture.Mipmaps(i["levels"], capture.FILTERS[i["mip_filter"]], bias, lowest, highest)
        if fault := next(iter(image_faults(image, kind, offset + 8)), None):
            notes.append(f"{what} is not recorded: {fault}")
            return None
        return image

    def _module(self, launch: capture.Launch, digest: str | None, architecture: int) -> None:
        if digest is None:
            return
        path = self.folder / f"image-{digest}"
        if (digest, architecture) not in self.modules:
            self.modules[digest, architecture] = self._ptx(path, digest, architecture)
        text, fault = self.modules[digest, architecture]
        if fault:
            launch.notes.append(fault)
        if text is not None and re.search(rb"\.entry\s+" + re.escape(launch.kernel.encode("latin-1", "replace")) + rb"[\s(]", text):
            launch.module, launch.module_hash = text, hashlib.sha256(text).hexdigest()
            if not _IMAGE_INSTRUCTION.search(text):  # handles are small numbers: these are numbers
                launch.textures, launch.surfaces = [], []
        elif text is not None:
            launch.notes.append("the PTX of its module has no entry of this name, so it is not kept")
        if text is None or hashlib.sha256(text).hexdigest() != digest:
            launch.binary, launch.binary_hash = FileContents(str(path), path.stat().st_size, "the module's binary"), digest

    def _ptx(self, path: Path, digest: str, architecture: int) -> tuple[bytes | None, str]:
        image = path.read_bytes()
        try:
            if kind_of(image) != "elf":
                return ptx_of(image, architecture), ""
            texts = [(self.folder / f"image-{name}").read_bytes() for name in self.linked.get(digest, [])] or ptx_beside(image)
            return (ptx_of(texts[0]) if len(texts) == 1 else None), ""
        except SourceError as error:
            return None, f"the PTX of its module cannot be read: {error}"

    def _pointers_inside(self, launch: capture.Launch) -> None:
        ranges = Ranges.of(self.live, [(a.base, a.size) for a in launch.allocations])
        for a in launch.allocations:
            contents = a.contents("before")
            assert contents is not None
            if (found := foreign_words(contents, ranges)) is not None:
                launch.notes.append(
                    f"allocation {a.index} holds {found.count} words that look like pointers into allocations that are not recorded "
                    f"(the first at byte {found.offset}: 0x{found.word:x}); they are not followed"
                )

    # -- after ----------------------------------------------------------------------------------------------------------------
    def _after(self, line: dict[str, Any]) -> None:
        launch, before = self.open.pop(line["number"])
        launch.notes += [n for n in line["notes"] if n not in launch.notes]
        if line.get("failed"):
            return
        for a in launch.allocations:
            a.after = self._contents(line["allocations"][a.index])
        places = {offset: [] for offset, _ in before["handles"]}
        for offset, index in before["handles"]:
            places[offset].append((before["images"][index]["kind"], index))
        for image in launch.images:
            for kind, index in places[image.arg_offset]:
                if kind == image.kind:
                    image.after = self._contents(line["images"][index])
        left = {v["name"]: self._contents(v) for v in line["variables"]}
        for variable in launch.variables:
            variable.after = left.get(variable.name)
