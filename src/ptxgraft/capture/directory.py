"""The directory form, read exactly as formats.md section 1 describes it.

Invariant: opening reads manifests, argument blocks, file names and the log, nothing else; a launch that is wrong is reported and hides no other;
names found in files are compared, never used as paths.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from itertools import pairwise

from ptxgraft.capture.checks import shown
from ptxgraft.capture.contents import FileContents, MissingContents, path_text, read_small
from ptxgraft.capture.directory_manifest import DirectoryManifest, parse_manifest
from ptxgraft.capture.image_record import ADDRESS_END, Filter, Image
from ptxgraft.capture.images import image_bytes, image_format
from ptxgraft.capture.model import Allocation, BadLaunch, Capture, Launch, Pointer, faults
from ptxgraft.capture.run_log import RunLog, read_run_log
from ptxgraft.errors import SourceError, SourceErrors

REPLAY, DUMP, LOG = "replay", "dump", os.path.join("run", "run.log")
LARGEST_MANIFEST = 1 << 26
LARGEST_ARGUMENT_BLOCK = 1 << 20  # CUDA allows 32,764 bytes
_FOLDER = re.compile(r"replay-([0-9]{1,18})-(.+)", re.DOTALL)
_DUMP = re.compile(r"launch-([0-9]{3,18})-(.+)", re.DOTALL)
_BUFFER = re.compile(r"-arg([0-9]{3,9})-buffer(-.*)", re.DOTALL)
_BASE = re.compile(r"-base0x([0-9a-fA-F]{1,16})\+")
_IMAGE = re.compile(r"-arg([0-9]{3,9})-(texture|surface)-([0-9]{1,10})x([0-9]{1,10})x([0-9]{1,10})-fmt([0-9]{1,10})\.bin")


def is_directory_capture(folder: str) -> bool:
    """Whether a folder looks like a directory capture."""
    return os.path.isdir(os.path.join(folder, REPLAY))


def read_directory(path: str | os.PathLike[str]) -> Capture:
    """Open a directory capture. Raises ``SourceError`` when it has no launch folders at all; launches that are wrong go to ``bad``."""
    root = os.path.abspath(path)  # contents are opened later, perhaps in another process with another working directory
    reader = _Reader(root, _dump_names(root))
    launches: list[Launch] = []
    bad: list[BadLaunch] = []
    seen: set[int] = set()
    for name in sorted(_names(os.path.join(root, REPLAY))):
        match = _FOLDER.fullmatch(name)
        if match is None:
            reader.note(
                f"entry of {REPLAY}",
                f"{path_text(root)}: entries of {REPLAY}/ that are no launch folders are ignored (first: {shown(name)})",
            )
            continue
        seq = int(match[1])
        try:
            if seq in seen:
                raise SourceError(f"{path_text(os.path.join(root, REPLAY, name))}: another folder has the sequence number {seq} already")
            seen.add(seq)
            launches.append(reader.launch(name, seq, match[2]))
        except SourceError as error:
            bad.append(BadLaunch(seq, path_text(match[2]), error))
    if not launches and not bad:
        raise SourceError(f"{path_text(root)}: the capture holds no launch", hint=f"expected folders {REPLAY}/replay-NNNNNN-KERNEL")
    return Capture(launches, os.fspath(path), "directory", bad, list(reader.notes.values()))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError as error:
        raise SourceError(f"{path_text(folder)}: cannot list the folder: {error.strerror}") from None


def _dump_names(root: str) -> dict[int, list[str]]:
    """Dump file names by sequence number; empty when there is no dump folder (each allocation then says that its dump is missing)."""
    folder = os.path.join(root, DUMP)
    found: dict[int, list[str]] = {}
    if os.path.lexists(folder):
        for name in sorted(_names(folder)):
            match = _DUMP.fullmatch(name)
            if match:
                found.setdefault(int(match[1]), []).append(name)
    return found


@dataclass(slots=True)
class _Reader:
    """Reads the launches of one capture; what is worth telling once gathers in ``notes``."""

    root: str
    dumps: dict[int, list[str]]
    notes: dict[str, str] = field(default_factory=dict)
    log: RunLog | None = None

    def note(self, key: str, text: str) -> None:
        self.notes.setdefault(key, text)

    def launch(self, name: str, seq: int, folder_kernel: str) -> Launch:
        folder = os.path.join(self.root, REPLAY, name)
        manifest_path = os.path.join(folder, "manifest.txt")
        manifest = parse_manifest(manifest_path, read_small(manifest_path, "the manifest", LARGEST_MANIFEST))
        args = read_small(os.path.join(folder, "args.bin"), "the argument block", LARGEST_ARGUMENT_BLOCK)
        for word, place in manifest.unknown.items():
            self.note(f"manifest word {word}", f"{place}: manifest lines that begin with {shown(word)} are unknown and ignored")
        # A kernel's name may be too long for a file name, so the files may also carry the name that the folder has.
        dumps = _Dumps(self.root, seq, [n for n in (manifest.kernel, folder_kernel) if n], self.dumps.get(seq, []))
        launch = Launch(
            seq, manifest.kernel, manifest.grid, manifest.block, args, manifest.shared_bytes,
            pointers=[Pointer(p.offset, p.index, p.delta) for p in manifest.pointers], source=path_text(folder),
        )  # fmt: skip
        errors = self._allocations(launch, manifest, folder, dumps) + _pointer_errors(manifest, args)
        if errors:
            raise errors[0] if len(errors) == 1 else SourceErrors(errors)
        self._images(launch, dumps)
        for fault in faults(launch):
            raise SourceError(f"{path_text(folder)}: {fault}")
        self._oddities(launch)
        return launch

    def _oddities(self, launch: Launch) -> None:
        """Notes on what contradicts itself and can still be replayed."""
        place = launch.source
        for p in launch.pointers:
            a = launch.allocation(p.allocation)
            if launch.u64(p.offset) != a.base + p.delta:
                self.note(
                    "pointer",
                    f"{place}: the pointer at argument offset {p.offset} is not what the manifest says of allocation {a.index} (told once)",
                )
            if not 0 <= p.delta <= a.size:
                self.note("outside", f"{place}: the pointer at argument offset {p.offset} lies outside allocation {a.index} (told once)")
        by_base = sorted(launch.allocations, key=lambda a: a.base)
        for lower, upper in pairwise(by_base):
            if lower.end > upper.base:
                self.note("overlap", f"{place}: allocations {lower.index} and {upper.index} overlap (told once)")

    def _allocations(self, launch: Launch, manifest: DirectoryManifest, folder: str, dumps: _Dumps) -> list[SourceError]:
        errors: list[SourceError] = []
        seen: set[int] = set()
        for line in manifest.allocations:
            if line.index in seen:
                errors.append(SourceError(f"allocation {line.index} is given twice", place=line.place))
                continue
            seen.add(line.index)
            path = os.path.join(folder, f"alloc-{line.index}.bin")
            found = _size(path)
            if found is None:
                errors.append(
                    SourceError(f"allocation {line.index} has no file {os.path.basename(path)} beside the manifest", place=line.place)
                )
            elif found < line.size:
                text = f"allocation {line.index} has {line.size} bytes, its file {os.path.basename(path)} only {found}"
                errors.append(SourceError(text, place=line.place))
            elif found > line.size:
                self.note(
                    "long file",
                    f"{path_text(path)}: longer than its manifest says ({found} for {line.size} bytes); the rest is not used (told once)",
                )
            before = FileContents(path, line.size, f"allocation {line.index} of {launch.label} before the launch")
            launch.allocations.append(
                Allocation(line.index, line.base, line.size, before, dumps.allocation(line.index, line.base, line.size))
            )
        return errors

    def _images(self, launch: Launch, dumps: _Dumps) -> None:
        for name, match in dumps.images():
            offset, kind, width, height, channels, code = int(match[1]), match[2], *map(int, match.groups()[2:])
            path = os.path.join(self.root, DUMP, name)
            if offset + 8 > len(launch.args):
                raise SourceError(f"{path_text(path)}: argument offset {offset} is past the end of args.bin ({len(launch.args)} bytes)")
            listed = launch.textures if kind == "texture" else launch.surfaces
            if any(image.arg_offset == offset for image in listed):
                raise SourceError(f"{path_text(path)}: there is another {kind} of {launch.label} at argument offset {offset}")
            if image_format(code) is None:
                self.note(f"format {code}", f"{path_text(path)}: image format {code} is unknown; its texels are kept as raw bytes")
            size = image_bytes(width, height, channels, code)
            what = f"the {kind} at argument offset {offset} of {launch.label}"
            contents = FileContents(path, (_size(path) or 0) if size is None else size, what)
            handle = launch.u64(offset)
            if kind == "texture":
                image = Image(
                    "texture", offset, handle, width, height, channels, code, self._filter(handle, launch), before=contents, after=contents
                )
            else:
                image = Image("surface", offset, handle, width, height, channels, code, after=contents)
            listed.append(image)
        launch.textures.sort(key=lambda image: image.arg_offset)
        launch.surfaces.sort(key=lambda image: image.arg_offset)

    def _filter(self, handle: int, launch: Launch) -> Filter | None:
        if self.log is None:
            path = os.path.join(self.root, LOG)
            self.log = RunLog()
            if os.path.lexists(path):
                try:
                    self.log = read_run_log(path)
                except SourceError as error:
                    self.note("log", f"{error}; texture filters are unknown")
        return self.log.filter_of(handle, launch.seq, launch.kernel)


def _size(path: str) -> int | None:
    """A regular file's size in bytes, ``None`` when there is no such file."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_size if stat.S_ISREG(status.st_mode) else None


def _pointer_errors(manifest: DirectoryManifest, args: bytes) -> list[SourceError]:
    errors: list[SourceError] = []
    bases = {line.index: line.base for line in manifest.allocations}
    seen: set[int] = set()
    for line in manifest.pointers:
        text = None
        if line.index not in bases:
            text = f"pointer into allocation {line.index}, which the manifest does not list"
        elif line.offset + 8 > len(args):
            text = f"pointer at argument offset {line.offset} needs {line.offset + 8} bytes of arguments, args.bin has {len(args)}"
        elif line.offset in seen:
            text = f"there is another pointer at argument offset {line.offset}"
        elif not 0 <= bases[line.index] + line.delta < ADDRESS_END:
            text = f"{line.delta} bytes past 0x{bases[line.index]:x} is no 64-bit address"
        if text:
            errors.append(SourceError(text, place=line.place))
        seen.add(line.offset)
    return errors


@dataclass(frozen=True, slots=True)
class _Dumps:
    """The dump files of one launch: those that carry its sequence number and one of its kernel's names."""

    root: str
    seq: int
    kernels: list[str]
    names: list[str]

    def _after_kernel(self, name: str) -> str | None:
        """The file name from ``-argOFF`` on, or ``None`` when it is another kernel's."""
        match = _DUMP.fullmatch(name)
        assert match is not None  # they were chosen by it
        for kernel in self.kernels:
            if match[2].startswith(f"{kernel}-arg"):
                return match[2][len(kernel) :]
        return None

    def images(self) -> list[tuple[str, re.Match[str]]]:
        found = [(name, _IMAGE.fullmatch(self._after_kernel(name) or "")) for name in self.names]
        return [(name, match) for name, match in found if match]

    def allocation(self, index: int, base: int, size: int) -> FileContents | MissingContents:
        """An allocation's contents after the launch. Several arguments may point into it and dump it again: the one whose size is right, then
        the lowest argument offset, is taken."""
        candidates: list[tuple[bool, int, str]] = []
        for name in self.names:
            match = _BUFFER.fullmatch(self._after_kernel(name) or "")
            if match and any(int(found, 16) == base for found in _BASE.findall(match[2])):
                path = os.path.join(self.root, DUMP, name)
                candidates.append((_size(path) != size, int(match[1]), path))
        label = f"launch {self.seq} ({self.kernels[0]})"
        if not candidates:
            where = path_text(os.path.join(self.root, DUMP))
            message = f"{where}: no dump of allocation {index} (base 0x{base:x}) after {label}"
            return MissingContents(
                size, message, f"expected a file launch-{self.seq:03}-{self.kernels[0]}-arg...-buffer-...-base0x{base:x}+..."
            )
        return FileContents(min(candidates)[2], size, f"allocation {index} after {label}")
