"""Where everything of a running warp lies in memory: the structures that compiled code and its host share.

Invariant: an offset is written once, here; compiled code and the host that fills the structures both read it. All fields are naturally aligned and
little-endian. Four structures: the launch (one, read by all), a worker (one per host thread: the block it runs), a warp (one per warp of the
worker's block, its register file behind its header), and the operation stream.

The operation stream is threaded code: each operation is a function pointer, the instruction's index and its operands; the function
returns the next operation. A lane's program counter is the byte offset of a label operation in the stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

from ptxgraft.isa.images import FIELDS
from ptxgraft.isa.program import align_up

LANES = 32
FULL = 0xFFFFFFFF

_SIZES = {"i32": 4, "i64": 8, "ptr": 8}
_PUT = {4: (struct.Struct("<I").pack_into, FULL, 4), 8: (struct.Struct("<Q").pack_into, (1 << 64) - 1, 8)}
"""By size: what stores an element, its mask, and the distance to the next."""


class Layout:
    """Field offsets by name, in order of declaration; ``size`` is rounded up to 64 bytes. Types: i32, i64, ptr, or N*type."""

    def __init__(self, **fields: str) -> None:
        self.types: dict[str, str] = {}
        self.offsets: dict[str, int] = {}
        at = 0
        for name, text in fields.items():
            count, _, type = text.rpartition("*")
            number = int(count or 1)
            align = 64 if number > 3 else _SIZES[type]
            at = align_up(at, align)
            self.types[name], self.offsets[name] = type, at
            at += _SIZES[type] * number
        self.size = align_up(at, 64)

    def __getitem__(self, name: str) -> int:
        return self.offsets[name]

    def write(self, buffer, base: int = 0, **values: int | tuple[int, ...]) -> None:
        """Store values into a writable buffer whose structure starts at byte ``base``."""
        for name, value in values.items():
            put, mask, step = _PUT[_SIZES[self.types[name]]]
            at = base + self.offsets[name]
            for item in value if isinstance(value, tuple) else (value,):
                put(buffer, at, item & mask)
                at += step

    def read(self, buffer, name: str, base: int = 0, signed: bool = False) -> int:
        """One scalar field of the structure at byte ``base``."""
        code = "I" if self.types[name] == "i32" else "Q"
        return struct.unpack_from("<" + (code.lower() if signed else code), buffer, base + self.offsets[name])[0]


LAUNCH = Layout(
    grid="3*i32", block="3*i32", shared_bytes="i32", local_bytes="i32", param_bytes="i32", fill="i32",
    code="ptr", runtime="ptr", param="ptr", variables="ptr", specials="ptr",
    allocations="ptr", allocation_count="i64", hosts="ptr", host_count="i64", images="ptr", image_count="i64",
    shared_window="i64", local_window="i64", param_window="i64", window_bytes="i64",
    blocks="ptr", block_count="i64", next_block="i64", stop="i32", native="i32", step_budget="i64",
    watch="ptr", watch_count="i64", constants="ptr", constant_count="i64", sites="ptr", quantum="i64",
)  # fmt: skip
"""The launch. ``blocks`` are linear block numbers (i64), null for all from 0 on; ``next_block`` counts those taken; ``stop`` is set at the first fault.
``constants`` are the records of const variables. ``native``: program counters are block numbers, and a warp resumes at its entry.
``sites``: for each instruction an i32 that remembers an allocation's number. ``quantum``: statements after which a warp lets others run (0: never)."""

WORKER = Layout(
    launch="ptr", warps="ptr", warp_count="i32", warp_bytes="i32", shared="ptr", local="ptr", local_total="i64", block="3*i32", block_linear="i64",
    status="i32", fault_kind="i32", fault_index="i32", fault_lane="i32", fault_warp="i32", fault_size="i32", fault_space="i32", fault_reason="i32",
    fault_address="i64", fault_block="i64", statements="i64", log="ptr", log_count="i64", log_limit="i64",
    arrived="16*i32", votes="16*i32", present="16*i32", service="ptr", begun="i32",
)  # fmt: skip
"""A worker: the block it runs, its memory, the fault it met (``fault_block`` linear), and its block's 16 barriers: warps that came without waiting,
and for reductions the threads that came and those whose predicate held. ``service``: int(warp, index), the host's answer to calls of device functions; not 0:
they failed. ``begun``: its block has begun."""

WARP = Layout(
    active="i32", live="i32", initial="i32", number="i32", status="i32", blocked="i32", waiting="i32", barrier="i32",
    worker="ptr", launch="ptr", resume="ptr", steps="i64", shared="ptr", local="ptr", barrier_count="i32", votes="i32", present="i32", fresh="i32",
    pcs="32*i32", tid_x="32*i32", tid_y="32*i32", tid_z="32*i32", barriers="32*i32", found="32*i64", passed="i32", floor="i64", turn="i64", arrivals="16*i32",
)  # fmt: skip
"""A warp's header; its register file follows at ``WARP.size``. ``blocked`` lanes wait for others at a convergent operation, ``waiting`` ones at a barrier.
``fresh`` is 1 until the warp first runs. ``passed`` counts the barriers at which it waited. A turn began at ``turn`` steps left and ends
below ``floor``; ``resume`` is null after it. ``arrivals``: for each barrier the lanes that came without waiting while others of the warp have not."""

RECORD = Layout(base="i64", end="i64", delta="i64", number="i64")
RECORD_BYTES = 32
"""An allocation: addresses base .. end - 1 lie at host address + delta. Records are sorted and 32 bytes apart."""

IMAGE_FIELDS = 16
"""An image: 16 64-bit words: handle, kind (its number in ``IMAGE_KINDS``), then its fields in the order of ``isa.images.FIELDS``."""
IMAGE_KINDS = tuple(FIELDS)

OPERATION_HEAD = 12
"""Bytes before an operation's operands: function pointer, instruction index. Operations are 8-byte aligned; operands are 4-byte words."""


class Status(IntEnum):
    """Why a warp or worker came back."""

    RUNNING = 0
    EXITED = 1
    BARRIER = 2
    FAULT = 3


class Fault(IntEnum):
    """What stopped a launch."""

    NONE = 0
    BOUNDS = 1
    ALIGNMENT = 2
    REASON = 3
    STEPS = 4
    BARRIER = 5
    CONVERGENCE = 6
    HANDLE = 7
    TRAP = 8
    INDEX = 9
    UNKNOWN = 10
    HOST = 11


class Space(IntEnum):
    """The memory spaces, as compiled code numbers them."""

    GLOBAL = 0
    SHARED = 1
    LOCAL = 2
    PARAM = 3
    GENERIC = 4
    HOST = 5
    CONST = 6


RUNTIME = ("access", "place", "note", "image", "fault", "constant", "remember", "pick", "stand_at", "remove", "gather", "arrive", "serve")
"""Functions of the runtime module, in the order of the launch's table of pointers: compiled code calls them through it and needs no linking."""


def slot_bytes(width: int) -> int:
    """The register file bytes of a register of ``width`` bits: 32 lanes side by side, a predicate as one bit a lane in 4 bytes."""
    return 4 if width == 1 else width // 8 * LANES


def fields_of(kind: str) -> Iterator[tuple[str, int]]:
    """(field, word number) of an image record of a kind."""
    yield from ((name, i + 2) for i, name in enumerate(FIELDS[kind]))
