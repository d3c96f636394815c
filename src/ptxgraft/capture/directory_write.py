"""The directory form, written from the model.

Invariant: what the directory form and the model share comes back from ``read_directory`` unchanged; what the form cannot hold is said in a note.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from ptxgraft.capture.contents import Contents, MissingContents, unopened
from ptxgraft.capture.directory import DUMP, LOG, REPLAY, is_directory_capture
from ptxgraft.capture.folder import sync, whole_folder, writing
from ptxgraft.capture.image_record import FILTERS, Image
from ptxgraft.capture.model import Allocation, Capture, Launch
from ptxgraft.errors import UsageError

PART_BYTES = 1 << 24
# A file name has 255 bytes; the rest of the longest dump name takes fewer than 100.
KERNEL_BYTES = 150


def _is_only_directory(folder: str) -> bool:
    return is_directory_capture(folder) and set(os.listdir(folder)) <= {REPLAY, DUMP, os.path.dirname(LOG)}


def write_directory(source: Capture | Iterable[Launch], path: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
    """Write launches as a directory capture at ``path``. Gives notes on what that form cannot hold or what was not recorded.

    Nothing exists at ``path`` until all of it is written. Raises ``UsageError`` when the name is taken or a launch's parts contradict each other,
    and the first bad launch's error when ``source`` is a capture that has one.
    """
    if isinstance(source, Capture) and source.bad:
        raise source.bad[0].error
    launches = source.launches if isinstance(source, Capture) else source
    with whole_folder(path, overwrite, _is_only_directory) as folder, writing(os.fspath(path)):
        writer = _Writer(folder)
        for name in (REPLAY, DUMP, os.path.dirname(LOG)):
            os.mkdir(os.path.join(folder, name))
        for launch in launches:
            writer.launch(launch)
        if isinstance(source, Capture) and source.remarks:
            writer.notes.append("the recorder's remarks are left out: the directory form does not hold them")
        if not writer.log:
            raise UsageError(f"{os.fspath(path)}: no launch to write", hint="a capture holds at least one")
        writer.file(LOG, "".join(writer.log[seq] for seq in sorted(writer.log)).encode())
        for name in (REPLAY, DUMP, os.path.dirname(LOG)):
            sync(os.path.join(folder, name))
    return list(dict.fromkeys(writer.notes))


def file_word(kernel: str) -> str:
    """A kernel's name as a part of file names: no slash, not too long."""
    return kernel.replace("/", "_").encode()[:KERNEL_BYTES].decode(errors="ignore")


@dataclass(slots=True)
class _Writer:
    folder: str
    log: dict[int, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def file(self, name: str, data: bytes | Contents) -> None:
        with open(os.path.join(self.folder, name), "xb") as file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                for at in range(0, data.size, PART_BYTES):
                    file.write(data.load(at, at + PART_BYTES).data)
            file.flush()
            os.fsync(file.fileno())

    def launch(self, launch: Launch) -> None:
        launch.check()
        if launch.seq in self.log:
            raise UsageError(f"{launch.label}: there is a launch {launch.seq} in this capture already")
        home = os.path.join(REPLAY, f"replay-{launch.seq:06}-{file_word(launch.kernel)}")
        os.mkdir(os.path.join(self.folder, home))
        dims = " ".join(map(str, (*launch.grid, *launch.block, launch.shared_bytes)))
        lines = [f"kernel {launch.kernel}", f"launch {dims}"]
        lines += [f"alloc {a.index} 0x{a.base:x} {a.size}" for a in launch.allocations]
        lines += [f"pointer {p.offset} {p.allocation} {p.delta}" for p in launch.pointers]
        self.file(os.path.join(home, "manifest.txt"), "".join(f"{line}\n" for line in lines).encode())
        self.file(os.path.join(home, "args.bin"), launch.args)
        for a in launch.allocations:
            self._allocation(launch, a, home)
        log = [self._texture(launch, texture) for texture in launch.textures]
        for surface in launch.surfaces:
            self._surface(launch, surface)
        self.log[launch.seq] = "".join(log) + f"launch[{launch.seq}] {launch.kernel} {dims}\n"
        if launch.module_hash is not None or unopened(launch, "module") is not None:
            self.notes.append("modules and their hashes are left out: the directory form does not hold them")
        if unopened(launch, "binary") is not None or launch.cooperative or launch.cluster or launch.notes:
            self.notes.append(
                "module binaries, cooperative flags, cluster shapes and what was not recorded are left out: the directory form does not hold them"
            )
        if launch.engine:
            self.notes.append("what ran a launch is left out: the directory form does not hold it")
        if launch.variables:
            self.notes.append("module variables are left out: the directory form does not hold them")

    def _dump(self, launch: Launch, offset: int, rest: str) -> str:
        return os.path.join(DUMP, f"launch-{launch.seq:03}-{file_word(launch.kernel)}-arg{offset:03}-{rest}")

    def _allocation(self, launch: Launch, a: Allocation, home: str) -> None:
        before, after = unopened(a, "before"), unopened(a, "after")
        assert before is not None  # an allocation always has it
        self.file(os.path.join(home, f"alloc-{a.index}.bin"), before)
        if after is None or isinstance(after, MissingContents):
            self.notes.append(f"{launch.label}: allocation {a.index} has no contents recorded after the launch, so no dump is written")
            return
        # An allocation that no argument points into is filed under offset 0: readers find it by its base.
        pointer = next((p for p in launch.pointers if p.allocation == a.index), None)
        offset, delta = (pointer.offset, pointer.delta) if pointer else (0, 0)
        self.file(self._dump(launch, offset, f"buffer-{a.index}-{a.size}-base0x{a.base:x}+{delta}.bin"), after)

    def _image(self, launch: Launch, image: Image, contents: Contents | None) -> None:
        what = f"{launch.label}: the {image.kind} at argument offset {image.arg_offset}"
        if image.reference is not None or image.mipmaps is not None:
            why = "is bound to a reference" if image.reference is not None else "has mipmaps"
            raise UsageError(
                f"{launch.label}: the {image.kind} at {image.place} {why}, which the directory form cannot say", hint="write NAME.ptxcap"
            )
        if launch.u64(image.arg_offset) != image.handle:
            raise UsageError(f"{what} has the handle 0x{image.handle:x}, the argument block says 0x{launch.u64(image.arg_offset):x}")
        if contents is None:
            self.notes.append(f"{what} has no texels recorded, so it is left out")
            return
        shape = f"{image.width}x{image.height * image.depth}x{image.channels}"
        if image.dimensions != 2 or image.integers or image.layered or image.cube:
            self.notes.append(
                "how many dimensions an image has, and whether its integers are read as such, is left out: the directory form does not hold it"
            )
        self.file(self._dump(launch, image.arg_offset, f"{image.kind}-{shape}-fmt{image.format}.bin"), contents)
        if image.address is not None or image.normalized is not None:
            self.notes.append("address modes and coordinate normalisation of images are left out: the directory form does not hold them")

    def _texture(self, launch: Launch, image: Image) -> str:
        before, after = unopened(image, "before"), unopened(image, "after")
        self._image(launch, image, before or after)
        if before and after and before is not after and not np.array_equal(before.load(), after.load()):
            self.notes.append(
                f"{launch.label}: the texture at argument offset {image.arg_offset} changed; only its texels before the launch are kept"
            )
        # A line without a filter says 'unknown' even when the same handle had one before.
        mode = "" if image.filter is None else f" filter={FILTERS.index(image.filter)}"
        return f"cuTexObjectCreate{mode} object=0x{image.handle:x}\n"

    def _surface(self, launch: Launch, image: Image) -> None:
        self._image(launch, image, unopened(image, "after"))
        if unopened(image, "before") is not None:
            self.notes.append("texels of surfaces before the launch are left out: the directory form does not hold them")
