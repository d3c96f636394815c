"""Probes: debug stores of chosen registers, and the arrays they read back as.

Invariant: a probe changes nothing but its buffer, and nothing past the buffer's slots; two threads of one launch never share a row, however
the kernel is launched.

The buffer is an array of slots, one for each warp of each block: slot ``block * warps + warp`` with blocks numbered ``x + gx*(y + gy*z)`` and warps by
linear thread number / 32. A slot has ``max(floor, 32 * words * 4)`` bytes rounded up to a power of two; lane L's row of ``words`` 32-bit words is at
byte ``L * words * 4`` of it; ``words`` is padded to a multiple of four, so that 16-byte stores stay aligned. Several stages probed at once share a
row: each has its own words of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft.carry import check_carried, words
from ptxgraft.graft.cut import Cut
from ptxgraft.graft.excerpt import RegionChoice
from ptxgraft.graft.probe_sites import Stage, Stored, find_sites
from ptxgraft.graft.probe_text import Part, ProbeBuffer, write_probe
from ptxgraft.isa import Register, align_up
from ptxgraft.text import Document

FILL = 0xA5
"""The byte to fill a probe's buffer with before the launch: a row that holds nothing else was not stored."""

_TYPES = {
    "pred": np.bool_, "f16": np.float16, "f32": np.float32, "f64": np.float64,
    "s8": np.int8, "s16": np.int16, "s32": np.int32, "s64": np.int64,
    "u8": np.uint8, "b8": np.uint8, "u16": np.uint16, "b16": np.uint16, "bf16": np.uint16,
}  # fmt: skip

Grid = Sequence[int]


@dataclass(eq=False)
class Probe:
    """A probed module, ``document``, made of ``original``. ``registers`` are (name, type) in the order of their words; ``words`` is padded, ``slot_bytes`` a power of two; ``lines`` are
    the lines of the text that was probed, after or before which it stores. ``argument`` is the existing argument used, (offset, byte offset), or None; then
    ``argument_offset`` is where the added pointer lies in the argument block, its number of slots 8 bytes later. ``slots`` is the capacity
    compiled into the text (0: it is the added argument's). ``first_word`` is where the stage's registers start in a lane's row."""

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


def probe(
    target: Document | Cut,
    entry: str,
    where: Stage,
    registers: list[str] | None = None,
    region: RegionChoice = None,
    argument: tuple[int, int] | None = None,
    floor: int = 1024,
    slots: int | None = None,
) -> Probe:
    """Put a probe into an entry.

    ``where``: ``a`` (the region's live-ins before its first statement), ``p<N>`` (the D registers of phase N after its last tensor-core statement),
    ``out`` (the region's live-outs after its last statement), ``ret`` (at every return; ``registers`` needed), or a line (the registers written there, for the
    lanes that executed it; or named ones for every lane that passes; before a branch or return, else after the statement).
    ``target``: a document, or a ``Cut``: then its new module is probed at the same stage, and names and lines are the original's.
    ``registers`` replaces the stage's own choice. ``argument`` None adds two trailing parameters (pointer, number of slots); (offset, byte offset)
    stores through an existing pointer argument, and ``slots`` says how many slots fit there.

    UsageError for a stage, line or register that is not there; UnsupportedError for a stage that a graft does not have.
    """
    return probe_many(target, entry, [where], registers, region, argument, floor, slots)[0]


def probe_many(
    target: Document | Cut,
    entry: str,
    stages: Sequence[Stage],
    registers: list[str] | None = None,
    region: RegionChoice = None,
    argument: tuple[int, int] | None = None,
    floor: int = 1024,
    slots: int | None = None,
    missing: dict[Stage, str] | None = None,
) -> list[Probe]:
    """One probed module for several stages: a ``Probe`` for each, all with the same text and buffer. Arguments and errors as for ``probe``.

    With ``missing``, a stage that cannot be probed is left out and the reason put there; UsageError when that leaves none.
    """
    if floor < 1:
        raise UsageError(f"floor {floor} is no size", hint="give a number of bytes")
    found = {}
    for stage in stages:
        try:
            found[stage] = find_sites(target, entry, stage, registers, region)
        except (UnsupportedError, UsageError) as error:
            if missing is None:
                raise
            # The hint is for one who named the stage.
            missing[stage] = error.message if error.place is None else f"{error.place}: {error.message}"
    if not found:
        raise UsageError(f"{entry!r} has no stage to probe", hint="; ".join(f"{k}: {v}" for k, v in (missing or {}).items()))
    program = next(iter(found.values()))[0]
    parts: list[Part] = []
    first_word = 0
    for _, sites, stored, _ in found.values():
        check_carried([Register(0, s.name, s.type, 0) for s in stored], "probe's")
        padded = align_up(sum(words(s.type) for s in stored), 4)
        parts.append(Part(sites, stored, first_word, padded))
        first_word += padded
    slot_bytes = 1 << (max(floor, 32 * first_word * 4) - 1).bit_length()
    argument_offset = align_up(program.param_bytes, 8)
    buffer = ProbeBuffer(argument, slots or 0, slot_bytes, first_word)
    if argument is not None:
        check_argument(program.params, argument, slots)
    text = write_probe(program, parts, buffer)
    document = program.document
    parsed = Document.parse(text, f"{document.name} (probed)")
    return [
        Probe(
            parsed,
            document,
            entry,
            stage,
            [document.line(s.statement.start) for s in part.sites],
            [(s.shown, s.type.name) for s in part.stored],
            first_word,
            slot_bytes,
            argument,
            argument_offset,
            buffer.slots,
            list(part.stored),
            notes,
            part.first_word,
        )
        for part, (stage, (_, _, _, notes)) in zip(parts, found.items(), strict=True)
    ]


def check_argument(params: list, argument: tuple[int, int], slots: int | None) -> None:
    """UsageError when an argument offset is no pointer's, the byte offset no multiple of 16, or the number of slots is missing."""
    offset, start = argument
    holder = next((p for p in params if p.offset <= offset and offset + 8 <= p.offset + p.size), None)
    if holder is None or offset % 8:
        places = ", ".join(f"{p.offset} ({p.name})" for p in params if p.size >= 8)
        raise UsageError(
            f"argument offset {offset} holds no pointer", hint=f"8-byte arguments are at {places}" if places else "the entry has none"
        )
    if start < 0 or start % 16:
        raise UsageError(f"byte offset {start} is no multiple of 16", hint="16-byte stores must stay aligned")
    if not slots or not 0 < slots < 1 << 32:
        raise UsageError("an existing argument needs the number of slots that fit behind it", hint="give slots")


def warps(block: Grid) -> int:
    """Warps of a block of this shape."""
    return (_product(block) + 31) // 32


def _product(extents: Grid) -> int:
    total = 1
    for extent in extents:
        total *= extent
    return total


def read_probe(probe: Probe, buffer: bytes | bytearray | np.ndarray, grid: Grid, block: Grid, bits: bool = False) -> dict[str, np.ndarray]:
    """The stored registers by name, as arrays [block, warp, lane].

    ``buffer``: the probe's bytes after the launch, from its first slot on. Types follow the registers' (predicates are bool, untyped ones unsigned, packed
    ones the unsigned of their width); ``bits`` gives every register as an unsigned integer, which is what to compare. Lanes that stored nothing
    hold the fill pattern (``touched`` tells). Blocks past the buffer's capacity are left out. UsageError when nothing was stored at all.
    """
    rows = _rows(probe, buffer, grid, block)
    if not _touched(probe, rows).any():
        raise UsageError(
            f"probe {probe.where!r} of {probe.entry!r} read back nothing: no lane came to line {', '.join(map(str, probe.lines))}",
            hint="was the probed module launched with the buffer, and filled before it?",
        )
    result: dict[str, np.ndarray] = {}
    at = probe.first_word
    for stored in probe.stored:
        if stored.type.width == 64:
            value = rows[..., at].astype(np.uint64) | rows[..., at + 1].astype(np.uint64) << np.uint64(32)
            at += 2
        else:
            value = rows[..., at]
            at += 1
        result[_key(stored.shown, result)] = value if bits else _typed(value, stored.type.name)
    return result


def touched(probe: Probe, buffer: bytes | bytearray | np.ndarray, grid: Grid, block: Grid) -> np.ndarray:
    """Which lanes stored something: bool [block, warp, lane]. A row that holds the fill pattern in every word counts as not stored."""
    return _touched(probe, _rows(probe, buffer, grid, block))


def _touched(probe: Probe, rows: np.ndarray) -> np.ndarray:
    own = rows[..., probe.first_word : probe.first_word + sum(words(s.type) for s in probe.stored)]
    return (own != np.uint32(FILL * 0x01010101)).any(axis=-1)


def _key(name: str, taken: dict[str, np.ndarray]) -> str:
    number, key = 1, name
    while key in taken:
        number += 1
        key = f"{name}#{number}"
    return key


def _typed(value: np.ndarray, type_name: str) -> np.ndarray:
    kind = np.dtype(_TYPES.get(type_name, value.dtype))
    if kind == np.bool_:
        return value == 1
    if kind.itemsize < value.dtype.itemsize:
        value = value.astype(f"u{kind.itemsize}")
    return value.view(kind)


def _rows(probe: Probe, buffer: bytes | bytearray | np.ndarray, grid: Grid, block: Grid) -> np.ndarray:
    """The buffer as words [block, warp, lane, word]."""
    data = np.ascontiguousarray(buffer).view(np.uint8).reshape(-1) if isinstance(buffer, np.ndarray) else np.frombuffer(buffer, np.uint8)
    per_block = warps(block)
    capacity = data.size // probe.slot_bytes
    if probe.slots:
        capacity = min(capacity, probe.slots)
    blocks = min(_product(grid), capacity // per_block)
    if blocks == 0:
        raise UsageError(
            f"the probe's buffer holds {capacity} slots, one block of {per_block} warps needs {per_block}",
            hint=f"give it {probe.buffer_bytes(grid, block)} bytes",
        )
    slots = data[: blocks * per_block * probe.slot_bytes].view(np.uint32).reshape(blocks, per_block, probe.slot_bytes // 4)
    return slots[:, :, : 32 * probe.words].reshape(blocks, per_block, 32, probe.words)
