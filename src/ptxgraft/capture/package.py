"""Our own form: a folder ``NAME.ptxcap`` with one manifest, ``capture.json``, and the blobs it names.

Invariant: writing and reading give back every part of the model; the manifest is written last, after every blob it names; what it says is checked
before it is believed, and none of it is ever used as a path except a blob's 64 hexadecimal digits.

The manifest is a JSON object: ``format`` "ptxgraft capture", ``version`` 1, ``chunk_bytes``, ``remarks`` (texts), and ``launches``, each with

    seq, kernel, grid [x, y, z], block [x, y, z], shared_bytes, args (hexadecimal), module_hash (SHA-256), module (contents)
    allocations   index, base ("0x..."), size, before, after (contents)
    pointers      offset, allocation (an index), delta
    textures, surfaces   arg_offset, handle ("0x..."), width, height, channels, format (CUarray_format), filter, address, normalized, before, after
    variables     name, before, after

and, where they say something, ``binary`` (contents), ``binary_hash``, ``cooperative``, ``cluster`` [x, y, z], ``engine``, ``profile`` and ``notes`` (texts), in images ``depth``,
``dimensions``, ``integers``, ``layered``, ``cube``, ``seamless``, ``linear``, ``reference`` (a name; ``arg_offset`` is then null) and ``mipmaps`` (levels, filter, and bias,
lowest and highest as the bits of binary32 numbers).

Contents are ``{"size": bytes, "chunks": [SHA-256, ...]}``, each chunk but the last of ``chunk_bytes`` and stored as ``blobs/<SHA-256>.z``. What was not
recorded is null.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ptxgraft.capture.blobs import BLOBS, CHUNK_BYTES, BlobContents, BlobStore
from ptxgraft.capture.contents import MissingContents, unopened
from ptxgraft.capture.folder import sync, whole_folder, writing
from ptxgraft.capture.image_record import Image, Mipmaps
from ptxgraft.capture.json_node import Node, parse
from ptxgraft.capture.model import Allocation, BadLaunch, Capture, Launch, Pointer, Variable, faults
from ptxgraft.errors import SourceError, UsageError

MANIFEST = "capture.json"
FORMAT = "ptxgraft capture"
VERSION = 1
LARGEST_CHUNK = 1 << 30
DIGEST = re.compile(r"[0-9a-f]{64}")


def is_package(folder: str) -> bool:
    """Whether a folder looks like a capture of our own form."""
    return os.path.isfile(os.path.join(folder, MANIFEST))


def _is_only_package(folder: str) -> bool:
    if not is_package(folder) or not set(os.listdir(folder)) <= {MANIFEST, BLOBS}:
        return False
    with open(os.path.join(folder, MANIFEST), "rb") as file:
        return FORMAT.encode() in file.read(4096)


@dataclass(slots=True)
class PackageWriter:
    """Stores launches one by one; given by ``package_writer``. ``notes`` says what could not be kept."""

    target: str
    store: BlobStore
    notes: list[str] = field(default_factory=list)
    launches: dict[int, dict[str, Any]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def add(self, launch: Launch) -> None:
        """Store one launch; its arrays may be dropped afterwards. Raises ``UsageError`` when its parts contradict each other or its sequence
        number is taken, ``SourceError`` when it comes from a capture whose files cannot be read."""
        launch.check()
        if launch.seq in self.launches:
            raise UsageError(f"{launch.label}: there is a launch {launch.seq} in this capture already")
        with writing(self.target):
            self.launches[launch.seq] = self._launch(launch)

    def finish(self) -> None:
        """Write the manifest. Called by ``package_writer`` at the end of its block."""
        if not self.launches:
            raise UsageError(f"{self.target}: no launch to write", hint="a capture holds at least one")
        launches = [self.launches[seq] for seq in sorted(self.launches)]
        manifest = {"format": FORMAT, "version": VERSION, "chunk_bytes": CHUNK_BYTES, "remarks": self.remarks, "launches": launches}
        path = os.path.join(self.store.folder, MANIFEST)
        with writing(self.target):
            sync(os.path.join(self.store.folder, BLOBS))
            with open(f"{path}.partial", "x", encoding="utf-8") as file:
                json.dump(manifest, file, indent=1, default=operator.index)  # NumPy integers
                file.flush()
                os.fsync(file.fileno())
            os.rename(f"{path}.partial", path)

    def _launch(self, launch: Launch) -> dict[str, Any]:
        def contents(holder: object, name: str) -> dict[str, Any] | None:
            found = unopened(holder, name)
            if isinstance(found, MissingContents):
                self.notes.append(f"not recorded and left out: {found.message}")
                return None
            return None if found is None else {"size": found.size, "chunks": list(self.store.store(found))}

        def states(holder: object) -> dict[str, Any]:
            return {when: contents(holder, when) for when in ("before", "after")}

        def image(i: Image) -> dict[str, Any]:
            plain = {name: getattr(i, name) for name in ("arg_offset", "width", "height", "channels", "format", "filter", "normalized")}
            rare = {
                "depth": (i.depth, 1),
                "dimensions": (i.dimensions, 2),
                "integers": (i.integers, False),
                "reference": (i.reference, None),
            }
            rare |= {name: (getattr(i, name), False) for name in ("layered", "cube", "seamless", "linear")}
            rare["mipmaps"] = (None if i.mipmaps is None else _mipmaps_node(i.mipmaps), None)
            return {
                **plain,
                **({} if i.reference is None else {"arg_offset": None}),
                **{name: value for name, (value, usual) in rare.items() if value != usual},
                "handle": f"0x{i.handle:x}",
                "address": None if i.address is None else list(i.address),
                **states(i),
            }

        module_hash = launch.module_hash
        if module_hash is None and (module := launch.module) is not None:  # a module set after the launch was made
            module_hash = hashlib.sha256(module).hexdigest()
        made = {
            "seq": launch.seq,
            "kernel": launch.kernel,
            "module_hash": module_hash,
            "module": contents(launch, "module"),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared_bytes": launch.shared_bytes,
            "args": launch.args.hex(),
            "allocations": [{"index": a.index, "base": f"0x{a.base:x}", "size": a.size, **states(a)} for a in launch.allocations],
            "pointers": [{"offset": p.offset, "allocation": p.allocation, "delta": p.delta} for p in launch.pointers],
            "textures": [image(i) for i in launch.textures],
            "surfaces": [image(i) for i in launch.surfaces],
            "variables": [{"name": v.name, **states(v)} for v in launch.variables],
        }
        if (binary := contents(launch, "binary")) is not None:
            made |= {"binary": binary, "binary_hash": launch.binary_hash}
        rare = {"cooperative": launch.cooperative, "cluster": launch.cluster and list(launch.cluster), "notes": launch.notes}
        rare |= {"engine": launch.engine, "profile": launch.profile}
        return made | {name: value for name, value in rare.items() if value}


@contextmanager
def package_writer(path: str | os.PathLike[str], *, overwrite: bool = False) -> Iterator[PackageWriter]:
    """``with package_writer(path) as writer: writer.add(launch)``: records launch by launch, for captures larger than memory.

    Nothing exists at ``path`` until the block ends without an exception. Raises ``UsageError`` when the name is taken by something that is not a
    capture, or by a capture and ``overwrite`` is not set.
    """
    with whole_folder(path, overwrite, _is_only_package) as folder:
        with writing(os.fspath(path)):
            store = BlobStore(folder)
        writer = PackageWriter(os.fspath(path), store)
        yield writer
        writer.finish()


def write(source: Capture | Iterable[Launch], path: str | os.PathLike[str], *, overwrite: bool = False) -> list[str]:
    """Write launches as a capture of our own form at ``path`` (a folder, by custom ``NAME.ptxcap``). Gives notes on what was not recorded.

    A capture with launches that could not be read is refused with the first one's error: what is written is whole. Pass
    ``capture.launches`` to leave them out knowingly.
    """
    if isinstance(source, Capture) and source.bad:
        raise source.bad[0].error
    with package_writer(path, overwrite=overwrite) as writer:
        writer.remarks += source.remarks if isinstance(source, Capture) else []
        for launch in source.launches if isinstance(source, Capture) else source:
            writer.add(launch)
    return writer.notes


def read_package(path: str | os.PathLike[str]) -> Capture:
    """Open a capture of our own form. Raises ``SourceError`` when its manifest cannot be read; a launch that is wrong goes to ``bad``."""
    folder = os.path.abspath(path)  # contents are opened later, perhaps in another process with another working directory
    top = parse(os.path.join(folder, MANIFEST))
    if not isinstance(top.value, dict) or top.value.get("format") != FORMAT:
        raise top.wrong(f"a manifest whose format is {FORMAT!r}")
    version = top["version"].integer(1, 1 << 31)
    if version > VERSION:
        raise SourceError(
            f"{top.file}: written in version {version} of the format", hint=f"this ptxgraft reads version {VERSION}: install a newer one"
        )
    chunk_bytes = top["chunk_bytes"].integer(1, LARGEST_CHUNK)
    capture = Capture(path=os.fspath(path), form="package")
    seen: set[int] = set()
    for node in top["launches"].items():
        seq, kernel = _known_of(node)
        try:
            launch = _Reader(folder, chunk_bytes).launch(node)
            if launch.seq in seen:
                raise SourceError(f"{node.where}: there is another launch {launch.seq} before this one")
            capture.launches.append(launch)
        except SourceError as error:
            capture.bad.append(BadLaunch(seq, kernel, error))
        seen.add(seq)
    if not capture.launches and not capture.bad:
        raise SourceError(f"{top.file}: the capture holds no launch")
    remarks = top.get("remarks")
    said = [] if remarks is None else [n.text() for n in remarks.items()]
    return Capture(capture.launches, capture.path, "package", capture.bad, top.notes, said)


def _known_of(node: Node) -> tuple[int, str]:
    """Sequence number (-1 when that is not readable) and kernel of a launch that may be wrong in other ways."""
    entry = node.value if isinstance(node.value, dict) else {}
    seq, kernel = entry.get("seq"), entry.get("kernel")
    return (seq if type(seq) is int and 0 <= seq < 1 << 63 else -1), (kernel if isinstance(kernel, str) else "")


@dataclass(frozen=True, slots=True)
class _Reader:
    """Turns the manifest's nodes into the model, checking each."""

    folder: str
    chunk_bytes: int

    def launch(self, node: Node) -> Launch:
        node.keys(
            "seq kernel module_hash module grid block shared_bytes args allocations pointers textures surfaces variables"
            " binary binary_hash cooperative cluster notes engine profile"
        )
        digest = None if node["module_hash"].null else node["module_hash"].matching(DIGEST, "64 hexadecimal digits")
        launch = Launch(
            seq=node["seq"].integer(0, (1 << 63) - 1),
            kernel=node["kernel"].text(),
            grid=self._dims(node["grid"]),
            block=self._dims(node["block"]),
            args=node["args"].hex_bytes(),
            shared_bytes=node["shared_bytes"].integer(0, (1 << 32) - 1),
            allocations=[self._allocation(a) for a in node["allocations"].items()],
            pointers=[self._pointer(p) for p in node["pointers"].items()],
            textures=[self._image(i, "texture") for i in node["textures"].items()],
            surfaces=[self._image(i, "surface") for i in node["surfaces"].items()],
            variables=[self._variable(v) for v in node["variables"].items()],
            module_hash=digest,
            source=node.where,
        )
        launch.module = self._contents(node["module"], f"the module of {launch.label}", digest)
        if (binary := node.get("binary")) is not None:
            launch.binary_hash = node["binary_hash"].matching(DIGEST, "64 hexadecimal digits")
            launch.binary = self._contents(binary, f"the binary of {launch.label}", launch.binary_hash)
        if (cooperative := node.get("cooperative")) is not None:
            launch.cooperative = cooperative.truth()
        if (cluster := node.get("cluster")) is not None:
            launch.cluster = self._dims(cluster)
        for name in ("engine", "profile"):
            if (word := node.get(name)) is not None:
                setattr(launch, name, word.text())
        if (notes := node.get("notes")) is not None:
            launch.notes = [n.text() for n in notes.items()]
        for fault in faults(launch):
            raise SourceError(f"{node.where}: {fault}")
        return launch

    def _dims(self, node: Node) -> tuple[int, int, int]:
        words = [n.integer(1, (1 << 32) - 1) for n in node.items()]
        if len(words) != 3:
            raise node.wrong("three integers")
        return words[0], words[1], words[2]

    def _contents(self, node: Node, what: str, whole: str | None = None) -> BlobContents | None:
        if node.null:
            return None
        node.keys("size chunks")
        size = node["size"].integer()
        digests = tuple(n.matching(DIGEST, "64 hexadecimal digits") for n in node["chunks"].items())
        if len(digests) != -(-size // self.chunk_bytes):
            raise SourceError(f"{node.where}: {size} bytes in chunks of {self.chunk_bytes} cannot be {len(digests)} blobs")
        return BlobContents(self.folder, size, self.chunk_bytes, digests, what, whole)

    def _needed(self, node: Node, what: str) -> BlobContents:
        found = self._contents(node, what)
        if found is None:
            raise node.wrong("contents")
        return found

    def _allocation(self, node: Node) -> Allocation:
        node.keys("index base size before after")
        index = node["index"].integer(0, (1 << 31) - 1)
        what = f"allocation {index}"
        before, after = self._needed(node["before"], f"{what} before the launch"), self._contents(node["after"], f"{what} after the launch")
        return Allocation(index, node["base"].address(), node["size"].integer(), before, after)

    def _pointer(self, node: Node) -> Pointer:
        node.keys("offset allocation delta")
        return Pointer(node["offset"].integer(), node["allocation"].integer(), node["delta"].integer(-(1 << 63)))

    def _image(self, node: Node, kind: Any) -> Image:
        node.keys(
            "arg_offset handle width height channels format filter address normalized before after depth dimensions integers "
            "layered cube seamless linear mipmaps reference"
        )
        reference = node.get("reference")
        offset = node["arg_offset"].integer() if reference is None else -1
        what = f"the {kind} at argument offset {offset}" if reference is None else f"the {kind} at reference {reference.text()}"
        flags = {name: found.truth() for name in ("layered", "cube", "seamless", "linear") if (found := node.get(name)) is not None}
        mipmaps = node.get("mipmaps")
        depth, dimensions, integers = node.get("depth"), node.get("dimensions"), node.get("integers")
        filter_name: Any = None if node["filter"].null else node["filter"].text()
        return Image(
            kind=kind,
            arg_offset=offset,
            handle=node["handle"].address(),
            width=node["width"].integer(),
            height=node["height"].integer(),
            channels=node["channels"].integer(),
            format=node["format"].integer(0, (1 << 32) - 1),
            filter=filter_name,  # faults() checks the word
            address=None if node["address"].null else tuple(n.text() for n in node["address"].items()),
            normalized=None if node["normalized"].null else node["normalized"].truth(),
            before=self._contents(node["before"], f"{what} before the launch"),
            after=self._contents(node["after"], f"{what} after the launch"),
            depth=1 if depth is None else depth.integer(),
            dimensions=2 if dimensions is None else dimensions.integer(),
            integers=False if integers is None else integers.truth(),
            mipmaps=None if mipmaps is None else _mipmaps(mipmaps),
            reference=None if reference is None else reference.text(),
            **flags,
        )

    def _variable(self, node: Node) -> Variable:
        node.keys("name before after")
        name = node["name"].text()
        before, after = self._needed(node["before"], f"variable {name}"), self._contents(node["after"], f"variable {name} after the launch")
        return Variable(name, before, after)


def _mipmaps_node(mipmaps: Mipmaps) -> dict[str, Any]:
    bits = {name: int(np.float32(getattr(mipmaps, name)).view(np.uint32)) for name in ("bias", "lowest", "highest")}
    return {"levels": mipmaps.levels, "filter": mipmaps.filter, **bits}


def _mipmaps(node: Node) -> Mipmaps:
    node.keys("levels filter bias lowest highest")
    bias, lowest, highest = (
        float(np.uint32(node[name].integer(0, (1 << 32) - 1)).view(np.float32)) for name in ("bias", "lowest", "highest")
    )
    return Mipmaps(node["levels"].integer(1, 32), node["filter"].text(), bias, lowest, highest)
