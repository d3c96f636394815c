"""What was recorded: a capture, its launches, and what users ask of one.

Invariant: the model is the same for every form on disk, holds nothing that only one form knows, and opens a resource's bytes only when they are
asked for.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ptxgraft.capture.checks import contents_faults, name_fault, shown
from ptxgraft.capture.contents import (
    AFTER,
    BEFORE,
    BINARY,
    MODULE,
    Bytes,
    Contents,
    Held,
    HeldAlways,
    HeldText,
    MissingContents,
    unopened,
)
from ptxgraft.capture.image_record import ADDRESS_END, Filter, Image, When, image_faults
from ptxgraft.errors import SourceError, UsageError

Dim3 = tuple[int, int, int]
WEIGHT_POINTER_OFFSET = 40
HASH = re.compile(r"[0-9a-f]{64}")
NO_WEIGHTS = 16  # bytes of zeros that stand for the weight image of a stage without one


@dataclass(eq=False, repr=False)
class Allocation:
    """One device allocation: ``base`` address, ``size`` in bytes, contents uint8 [size] before and after (``None``: not recorded) the launch."""

    index: int
    base: int
    size: int
    before: HeldAlways = BEFORE
    after: Held = AFTER

    def __repr__(self) -> str:
        return f"Allocation({self.index}, 0x{self.base:x}, {self.size})"

    @property
    def end(self) -> int:
        return self.base + self.size

    def contents(self, when: When) -> Contents | None:
        """The contents unopened, to be loaded in parts; ``None`` when that state was not recorded."""
        return unopened(self, when)

    @property
    def after_recorded(self) -> bool:
        """Whether there is an ``after``; opens nothing."""
        return not isinstance(unopened(self, "after"), MissingContents | None)


@dataclass(frozen=True, slots=True)
class Pointer:
    """The 8 bytes at byte ``offset`` of the argument block point ``delta`` bytes past the base of the allocation whose index is ``allocation``."""

    offset: int
    allocation: int
    delta: int


@dataclass(eq=False, repr=False)
class Variable:
    """A module variable (``.global`` or ``.const``) by name, with its bytes before and after (``None``: not recorded) the launch."""

    name: str
    before: HeldAlways = BEFORE
    after: Held = AFTER

    def __repr__(self) -> str:
        return f"Variable({self.name!r})"


@dataclass(eq=False, repr=False)
class Launch:
    """One recorded launch. ``grid`` and ``block`` are (x, y, z); ``args`` is the whole parameter block; ``source`` says where it was read from.

    ``module`` is PTX. ``binary`` is what the program gave the driver where that is something else (a cubin, a fat binary), ``binary_hash`` its SHA-256.
    ``cluster`` is the cluster's shape where the launch named one. ``engine`` is the executor that ran it (``warp``, ``numpy``, ``cuda``; '' where nobody says), and
    ``profile`` whose bits it gave. ``notes`` says what of the launch was not recorded: a launch with notes is incomplete.
    """

    seq: int
    kernel: str
    grid: Dim3
    block: Dim3
    args: bytes
    shared_bytes: int = 0
    allocations: list[Allocation] = field(default_factory=list)
    pointers: list[Pointer] = field(default_factory=list)
    textures: list[Image] = field(default_factory=list)
    surfaces: list[Image] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    module: HeldText = MODULE
    module_hash: str | None = None
    source: str = ""
    binary: Held = BINARY
    binary_hash: str | None = None
    cooperative: bool = False
    cluster: Dim3 | None = None
    notes: list[str] = field(default_factory=list)
    engine: str = ""
    profile: str = ""

    def __post_init__(self) -> None:
        binary = vars(self)["held_binary"]
        if self.binary_hash is None and isinstance(binary, np.ndarray):
            self.binary_hash = hashlib.sha256(binary.data).hexdigest()
        given = vars(self)["held_module"]
        if self.module_hash is None and isinstance(given, bytes):
            self.module_hash = hashlib.sha256(given).hexdigest()

    def __repr__(self) -> str:
        return f"Launch({self.seq}, {self.kernel!r}, grid={self.grid}, block={self.block}, {len(self.allocations)} allocations)"

    @property
    def label(self) -> str:
        return f"launch {self.seq} ({self.kernel})"

    @property
    def images(self) -> list[Image]:
        """Textures by argument offset, then surfaces by argument offset."""
        return sorted(self.textures, key=lambda i: i.arg_offset) + sorted(self.surfaces, key=lambda i: i.arg_offset)

    def _scalar(self, offset: int, dtype: str) -> np.generic:
        width = np.dtype(dtype).itemsize
        if offset < 0:
            raise UsageError(f"argument offset {offset} is negative")
        if offset + width > len(self.args):
            where = f"{self.source}: " if self.source else ""
            raise SourceError(
                f"{where}{self.label}: the argument block has {len(self.args)} bytes, {width} at offset {offset} are past its end"
            )
        return np.frombuffer(self.args, dtype, 1, offset)[0]

    def u32(self, offset: int) -> int:
        """The 4 bytes at an argument offset as an unsigned integer."""
        return int(self._scalar(offset, "<u4"))

    def u64(self, offset: int) -> int:
        """The 8 bytes at an argument offset as an unsigned integer."""
        return int(self._scalar(offset, "<u8"))

    def f32(self, offset: int) -> float:
        """The 4 bytes at an argument offset as a binary32 number."""
        return float(self._scalar(offset, "<f4"))

    def allocation(self, index: int) -> Allocation:
        """The allocation with this index (its number in the capture, not its place in the list)."""
        for candidate in self.allocations:
            if candidate.index == index:
                return candidate
        known = ", ".join(str(a.index) for a in self.allocations) or "none"
        raise UsageError(f"{self.label} has no allocation {index}", hint=f"it has: {known}")

    def allocation_at(self, address: int) -> Allocation | None:
        """The allocation that contains a device address."""
        return next((a for a in self.allocations if a.base <= address < a.end), None)

    def before(self, index: int) -> Bytes:
        """An allocation's contents before the launch, uint8 [size]."""
        return self.allocation(index).before

    def after(self, index: int) -> Bytes:
        """An allocation's contents after the launch, uint8 [size]. Raises ``SourceError`` when they were not recorded."""
        found = self.allocation(index).after
        if found is None:
            raise SourceError(f"{self.label}: allocation {index} has no contents recorded after the launch")
        return found

    def pointer(self, offset: int) -> Pointer | None:
        """The pointer at an argument offset; ``None`` when none was recorded there."""
        return next((p for p in self.pointers if p.offset == offset), None)

    def image(self, offset: int) -> Image:
        """The texture or surface at an argument offset."""
        for candidate in self.images:
            if candidate.arg_offset == offset:
                return candidate
        known = ", ".join(f"{i.arg_offset} ({i.kind})" for i in self.images) or "none"
        raise UsageError(f"{self.label} has no image at argument offset {offset}", hint=f"it has: {known}")

    def weight_image(self, offset: int = WEIGHT_POINTER_OFFSET) -> Bytes:
        """Contents, before the launch, of the allocation that the pointer at ``offset`` points to; 16 zero bytes when there is no pointer there."""
        found = self.pointer(offset)
        return np.zeros(NO_WEIGHTS, np.uint8) if found is None else self.allocation(found.allocation).before

    def arena(self) -> Allocation:
        """The largest allocation that any argument points into; of equals the first in the capture's order."""
        pointed = {p.allocation for p in self.pointers}
        candidates = [a for a in self.allocations if a.index in pointed]
        if not candidates:
            raise SourceError(f"{self.label}: no argument points into an allocation, so there is no arena")
        return max(candidates, key=lambda a: a.size)  # max keeps the first of equals

    def relocated_args(self, bases: Mapping[int, int]) -> bytes:
        """The argument block with each pointer moved to its allocation's new base (by index; one that is not named stays where it was)."""
        moved = bytearray(self.args)
        for p in self.pointers:
            base = bases.get(p.allocation, self.allocation(p.allocation).base)
            moved[p.offset : p.offset + 8] = ((base + p.delta) % ADDRESS_END).to_bytes(8, "little")
        return bytes(moved)

    def check(self) -> None:
        """Raise ``UsageError`` when the parts contradict each other; opens nothing."""
        for fault in faults(self):
            raise UsageError(f"{self.label}: {fault}")


@dataclass(frozen=True, slots=True)
class BadLaunch:
    """A launch that is in a capture and could not be read, and why. ``kernel`` is what its folder or entry says."""

    seq: int
    kernel: str
    error: SourceError


@dataclass(eq=False, repr=False)
class Capture:
    """A recorded set of launches in sequence order. ``form`` is 'directory', 'package' or 'memory'; ``notes`` are things worth telling once about
    reading it, ``remarks`` what the recorder said about the recording, which is kept with it."""

    launches: list[Launch] = field(default_factory=list)
    path: str | None = None
    form: str = "memory"
    bad: list[BadLaunch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.launches = sorted(self.launches, key=lambda launch: launch.seq)
        self.bad = sorted(self.bad, key=lambda launch: launch.seq)

    def __repr__(self) -> str:
        return f"Capture({self.path!r}, {self.form}, {len(self.launches)} launches, {len(self.bad)} bad)"

    @property
    def problems(self) -> list[SourceError]:
        """Why launches could not be read, in sequence order."""
        return [b.error for b in self.bad]

    def kernels(self) -> list[str]:
        """Kernel names, each once, in the order of their first launches."""
        return list(dict.fromkeys(launch.kernel for launch in self.launches))

    def _all(self) -> list[Launch | BadLaunch]:
        return sorted([*self.launches, *self.bad], key=lambda launch: launch.seq)

    def _none_such(self, what: str, near: list[str]) -> UsageError | SourceError:
        where = f" in {self.path}" if self.path else ""
        if not self.launches and self.bad:
            first = self.bad[0].error
            more = f" (and {len(self.bad) - 1} more bad launches)" if len(self.bad) > 1 else ""
            return SourceError(f"{first.message}{more}", place=first.place, hint=first.hint)
        shown = ", ".join(near[:5])
        return UsageError(f"no launch {what}{where}", hint=f"did you mean: {shown}" if shown else "the capture holds no launch")

    def launch(self, key: int | str) -> Launch:
        """A launch by sequence number, or by exact kernel name when only one launch has it. A bad launch raises its own error."""
        if isinstance(key, int):
            found = [launch for launch in self._all() if launch.seq == key]
            near = [str(launch.seq) for launch in sorted(self._all(), key=lambda launch: abs(launch.seq - key))]
            missing = f"has sequence number {key}"
        else:
            found = [launch for launch in self._all() if launch.kernel == key]
            names = self.kernels()
            near = difflib.get_close_matches(key, names, n=5, cutoff=0.4) or names
            missing = f"has the kernel {key}"
        if not found:
            raise self._none_such(missing, near)
        if len(found) > 1:
            seqs = ", ".join(str(launch.seq) for launch in found[:8])
            raise UsageError(f"{len(found)} launches have the kernel {key}", hint=f"choose by sequence number: {seqs}")
        return _good(found[0])

    def find(self, substring: str) -> list[Launch]:
        """Launches whose kernel name contains ``substring``, in sequence order."""
        return [launch for launch in self.launches if substring in launch.kernel]

    def nth(self, substring: str, n: int) -> Launch:
        """The n-th launch, from 1, whose kernel name contains ``substring`` ('frame n'). Bad launches keep their number; asking for one raises its error."""
        found = [launch for launch in self._all() if substring in launch.kernel]
        if not found:
            raise self._none_such(f"has a kernel containing {substring!r}", self.kernels())
        if not 1 <= n <= len(found):
            raise UsageError(f"there is no launch {n} of {substring!r}", hint=f"there are {len(found)}, counted from 1")
        return _good(found[n - 1])


def _good(launch: Launch | BadLaunch) -> Launch:
    if isinstance(launch, BadLaunch):
        raise launch.error
    return launch


def faults(launch: Launch) -> list[str]:
    """Contradictions between the parts of a launch, in words; opens nothing."""
    found: list[str] = []
    fault = name_fault(launch.kernel)
    found += [f"kernel: {fault}"] if fault else []
    if launch.seq < 0:
        found.append(f"the sequence number {launch.seq} is negative")
    for word, dims in (("grid", launch.grid), ("block", launch.block)):
        if len(dims) != 3 or not all(1 <= d < 1 << 32 for d in dims):
            found.append(f"the {word} {dims} is not three positive 32-bit integers")
    if not 0 <= launch.shared_bytes < 1 << 32:
        found.append(f"the dynamic shared size {launch.shared_bytes} is not a 32-bit integer")
    if launch.cluster is not None and (len(launch.cluster) != 3 or not all(1 <= d < 1 << 32 for d in launch.cluster)):
        found.append(f"the cluster {launch.cluster} is not three positive 32-bit integers")
    if launch.binary_hash is not None and not HASH.fullmatch(launch.binary_hash):
        found.append(f"the binary's hash {shown(launch.binary_hash)} is not 64 hexadecimal digits")
    module = vars(launch)["held_module"]
    if launch.module_hash is not None and not HASH.fullmatch(launch.module_hash):
        found.append(f"the module's hash {shown(launch.module_hash)} is not 64 hexadecimal digits")
    elif isinstance(module, bytes) and launch.module_hash not in (None, hashlib.sha256(module).hexdigest()):
        found.append("the module's hash is not that of the module")
    bases: dict[int, int] = {}
    for a in launch.allocations:
        if a.index < 0 or a.index in bases:
            found.append(f"allocation {a.index} is " + ("given twice" if a.index in bases else "negative"))
        bases[a.index] = a.base
        if a.base < 0 or a.size < 0 or a.end > ADDRESS_END:
            found.append(f"allocation {a.index} at 0x{a.base:x} with {a.size} bytes does not fit 64-bit addresses")
        found += contents_faults(f"allocation {a.index} before the launch", unopened(a, "before"), a.size)
        found += contents_faults(f"allocation {a.index} after the launch", unopened(a, "after"), a.size)
    offsets: set[int] = set()
    for p in launch.pointers:
        if p.offset in offsets:
            found.append(f"two pointers at argument offset {p.offset}")
        offsets.add(p.offset)
        if p.offset < 0 or p.offset + 8 > len(launch.args):
            found.append(f"a pointer at argument offset {p.offset} does not fit the argument block of {len(launch.args)} bytes")
        if p.allocation not in bases:
            found.append(f"the pointer at argument offset {p.offset} is into allocation {p.allocation}, which is not there")
        elif not 0 <= bases[p.allocation] + p.delta < ADDRESS_END:
            found.append(f"the pointer at argument offset {p.offset} is no 64-bit address")
    for kind, images in (("texture", launch.textures), ("surface", launch.surfaces)):
        for image in images:
            found += image_faults(image, kind, len(launch.args))
    filters: dict[int, Filter | None] = {}
    for texture in launch.textures:
        if filters.setdefault(texture.handle, texture.filter) != texture.filter:
            found.append(f"the texture handle 0x{texture.handle:x} has two filters, {filters[texture.handle]} and {texture.filter}")
    names: set[str] = set()
    for variable in launch.variables:
        fault = name_fault(variable.name)
        found += [f"variable: {fault}"] if fault else []
        if variable.name in names:
            found.append(f"variable {variable.name} is given twice")
        names.add(variable.name)
        before = unopened(variable, "before")
        found += contents_faults(f"variable {variable.name} after the launch", unopened(variable, "after"), before.size if before else None)
    return found
