"""What a probe is: the debug stores put into a module, and the arrays that its buffer reads back as.

Invariant: what is read is what a lane stored, or it is said that it stored nothing; a buffer never says more than its launch's warps could write.

The buffer is an array of slots, one for each warp of each block: slot ``block * warps + warp`` with blocks numbered ``x + gx*(y + gy*z)`` and warps by
linear thread number / 32. A slot has ``max(floor, 32 * words * 4)`` bytes rounded up to a power of two; lane L's row of ``words`` 32-bit words is at
byte ``L * words * 4`` of it; ``words`` is padded to a multiple of four, so that 16-byte stores stay aligned. Several stages probed at once share a
row: each has its own words of it. A stage that keeps several passages has four words, of which the first counts them, then the words of each passage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ptxgraft.errors import UsageError
from ptxgraft.graft.carry import words
from ptxgraft.graft.probe_diff import StageDifference, compare_stored, paired
from ptxgraft.graft.probe_sites import Stage, Stored
from ptxgraft.graft.probe_text import HEAD
from ptxgraft.isa import align_up
from ptxgraft.text import Document

FILL = 0xA5
"""The byte to fill a probe's buffer with before the launch: a row that holds nothing else was not stored."""

_TYPES = {
    "pred": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u8": np.uint8, "b8": np.uint8, "u16": np.uint16, "b16": np.uint16, "bf16": np.uint16,
}  # fmt: skip

_FILL_WORD = np.uint32(FILL * 0x01010101)

Grid = Sequence[int]


@dataclass(eq=False)
class Probe:
    """A probed module, ``document``, made of ``original``. ``registers`` are (name, type) in the order of their words; ``words`` is padded, ``slot_bytes`` a power of two; ``lines`` are
    the lines of the text that was probed, after or before which it stores. ``argument`` is the existing argument used, (offset, byte offset), or None; then
    ``argument_offset`` is where the added pointer lies in the argument block, its number of slots 8 bytes later. ``slots`` is the capacity
    compiled into the text (0: it is the added argument's). ``first_word`` is where the stage's words start in a lane's row. ``iterations`` 0: a lane's last
    passage stays; else how many passages are kept, the first ones."""

    document: Document
    original: Document
    entry: str
    where: Stage
    lines: list[int]
    registers: list[tuple[str, str]]
    words: int
    slot_bytes: int
    argument: tuple[int, int] | None
    argument_offset: int
    slots: int
    stored: list[Stored]
    notes: list[str] = field(default_factory=list)
    first_word: int = 0
    iterations: int = 0

    @property
    def text(self) -> bytes:
        """The probed module."""
        return self.document.data

    def slots_needed(self, grid: Grid, block: Grid) -> int:
        """One slot for each warp of the launch."""
        return _product(grid) * warps(block)

    def buffer_bytes(self, grid: Grid, block: Grid) -> int:
        """The size of a buffer that holds every warp's slot. Fill it with ``FILL`` bytes."""
        return self.slots_needed(grid, block) * self.slot_bytes

    def argument_bytes(self, arguments: bytes, address: int, slots: int) -> bytes:
        """The argument block for the probed entry: the original's, the buffer's address, its number of slots. UsageError when nothing was added."""
        if self.argument is not None:
            raise UsageError("this probe uses an existing argument: the launch's own arguments serve")
        return (
            arguments[: self.argument_offset].ljust(self.argument_offset, b"\0")
            + address.to_bytes(8, "little")
            + slots.to_bytes(4, "little")
        )

    def read(self, buffer: bytes | bytearray | NDArray, grid: Grid, block: Grid, empty: bool = False) -> Reading:
        """What the probe's buffer holds after a launch, from its first slot on. Blocks past the buffer's capacity are left out.

        UsageError when nothing was stored at all, unless ``empty``: then that is a reading too.
        """
        rows = _rows(self, buffer, grid, block)
        reading = Reading(self, *_unpacked(self, rows))
        if not empty and not reading.stored.any():
            raise UsageError(
                f"probe {self.where!r} of {self.entry!r} read back nothing: no lane came to line {', '.join(map(str, self.lines))}",
                hint="was the probed module launched with the buffer, and filled before it?",
            )
        return reading

    def diff(self, a: Reading, b: Reading) -> StageDifference:
        """This stage in two runs, ``a`` the expected one; ``b`` may be of a probe at the same stage of another module.

        Registers are paired by name at ``a`` and ``out``, else by their place in the stage. UsageError when they cannot be, or nothing was stored in both.
        """
        if a.stored.shape != b.stored.shape:
            raise UsageError(
                f"stage {self.where!r}: the runs' shapes {a.stored.shape} and {b.stored.shape} differ", hint="launch both alike"
            )
        if not (a.stored.any() or b.stored.any()):
            raise UsageError(f"stage {self.where!r}: no lane of either run stored anything, so there is nothing to compare")
        couples = paired(str(self.where), a.bits, b.bits)
        if isinstance(couples, str):
            raise UsageError(f"stage {self.where!r}: {couples}")
        return compare_stored(str(self.where), couples, a.stored, b.stored)


def warps(block: Grid) -> int:
    """Warps of a block of this shape."""
    return (_product(block) + 31) // 32


def _product(extents: Grid) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


@dataclass(slots=True, eq=False)
class Reading:
    """What one run stored at a probe.

    ``bits`` are the registers by name as unsigned integers [block, warp, lane], with a last axis [passage] when the probe keeps several; ``stored`` says
    which of them were stored, the others hold what the buffer held before. ``passages`` [block, warp, lane] counts all, kept or not; without
    counting it is 0 or 1.
    """

    probe: Probe
    bits: dict[str, NDArray]
    stored: NDArray[np.bool_]
    passages: NDArray[np.uint32]

    @property
    def values(self) -> dict[str, NDArray]:
        """The registers in their types: predicates are bool, untyped ones unsigned, packed ones the unsigned of their width."""
        types = {name: s.type.name for name, s in zip(self.bits, self.probe.stored, strict=True)}
        return {name: _typed(array, types[name]) for name, array in self.bits.items()}

    @property
    def lost(self) -> int:
        """Passages that there was no room for, over all lanes."""
        kept = self.probe.iterations or 1
        return int((np.maximum(self.passages, kept) - kept).sum(dtype=np.uint64))


def read_probe(probe: Probe, buffer: bytes | bytearray | NDArray, grid: Grid, block: Grid, bits: bool = False) -> dict[str, NDArray]:
    """The stored registers by name, as arrays [block, warp, lane] ([block, warp, lane, passage] when the probe keeps several).

    ``buffer``: the probe's bytes after the launch, from its first slot on. Types follow the registers' (predicates are bool, untyped ones unsigned, packed
    ones the unsigned of their width); ``bits`` gives every register as an unsigned integer, which is what to compare. Lanes that stored nothing
    hold the fill pattern (``touched`` tells). Blocks past the buffer's capacity are left out. UsageError when nothing was stored at all.
    """
    reading = probe.read(buffer, grid, block)
    return reading.bits if bits else reading.values


def touched(probe: Probe, buffer: bytes | bytearray | NDArray, grid: Grid, block: Grid) -> NDArray[np.bool_]:
    """Which lanes stored something: bool [block, warp, lane], or [block, warp, lane, passage]. Without passages a row that holds the fill pattern in every
    word counts as not stored."""
    return probe.read(buffer, grid, block, empty=True).stored


def _unpacked(probe: Probe, rows: NDArray) -> tuple[dict[str, NDArray], NDArray[np.bool_], NDArray[np.uint32]]:
    """(registers, what was stored, passages) of the stage in the buffer's rows."""
    used = sum(words(s.type) for s in probe.stored)
    first, kept = probe.first_word, probe.iterations
    if kept:
        passages = np.where(rows[..., first] == _FILL_WORD, np.uint32(0), rows[..., first])
        padded = align_up(used, 4)
        own = rows[..., first + HEAD : first + HEAD + kept * padded].reshape(*rows.shape[:-1], kept, padded)
        stored = np.arange(kept) < passages[..., None]
    else:
        own = rows[..., first : first + used]
        stored = (own != _FILL_WORD).any(axis=-1)
        passages = stored.astype(np.uint32)
    bits: dict[str, NDArray] = {}
    at = 0
    for item in probe.stored:
        value = own[..., at]
        if item.type.width == 64:
            value = value.astype(np.uint64) | own[..., at + 1].astype(np.uint64) << np.uint64(32)
        at += words(item.type)
        bits[_key(item.shown, bits)] = value
    return bits, stored, passages


def _key(name: str, taken: dict[str, NDArray]) -> str:
    number, key = 1, name
    while key in taken:
        number += 1
        key = f"{name}#{number}"
    return key


def _typed(value: NDArray, type_name: str) -> NDArray:
    kind = np.dtype(_TYPES.get(type_name, value.dtype))
    if kind == np.bool_:
        return value == 1
    if kind.itemsize < value.dtype.itemsize:
        value = value.astype(f"u{kind.itemsize}")
    return value.view(kind)


def _rows(probe: Probe, buffer: bytes | bytearray | NDArray, grid: Grid, block: Grid) -> NDArray:
    """The buffer as words [block, warp, lane, word]."""
    data = np.ascontiguousarray(buffer).view(np.uint8).reshape(-1) if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    per_block = warps(block)
    capacity = data.size // probe.slot_bytes
    if probe.slots:
        capacity = min(capacity, probe.slots)
    blocks = min(_product(grid), capacity // per_block)
    if blocks == 0:
        raise UsageError(
            f"the probe's buffer holds {capacity} slots, a block needs one for each of its warps, {per_block}",
            hint=f"give it {probe.buffer_bytes(grid, block)} bytes",
        )
    slots = data[: blocks * per_block * probe.slot_bytes].view(np.uint32).reshape(blocks, per_block, probe.slot_bytes // 4)
    return slots[:, :, : 32 * probe.words].reshape(blocks, per_block, 32, probe.words)
