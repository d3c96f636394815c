"""Where results come back in shared memory: an array for a block's rows, and each lane's row in it.

Invariant: word i of lane L of a warp is at ``rows + L*4*n + 4*i``, and no two warps of a block share a row.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ptxgraft.flow import Flow
from ptxgraft.graft.carry import Scratch
from ptxgraft.graft.excerpt import Excerpt
from ptxgraft.graft.shared_base import STATIC_LIMIT, check_limit, dead_array, warps_of_block
from ptxgraft.isa import align_up
from ptxgraft.spec import Region
from ptxgraft.text import FreshNames

DYNAMIC_STEP = 1024
"""The dynamic array moves up by a multiple of this many bytes: kernels swizzle by the low bits of its address."""


@dataclass(slots=True)
class Rows:
    """Where results lie: an array's name, whether it is new (``declaration`` not empty), how many warps it serves, its alignment in bytes."""

    array: str
    declaration: str
    warps: int
    note: str
    align: int = 16


@dataclass(slots=True)
class Room:
    """What the cuts of one edit have taken of an entry's shared memory: dead arrays by name, bytes of new ones."""

    arrays: set[str] = field(default_factory=set)
    bytes: int = 0


def choose_rows(piece: Excerpt, words: int, block: tuple[int, int, int] | None, fresh: FreshNames, room: Room) -> Rows | None:
    """The array for the results of a mirror cut, None when there are none. Errors as ``warps_of_block`` and ``check_limit``."""
    if not words:
        return None
    warps, how = warps_of_block(piece.flow, block)
    rows = find_rows(piece.flow, piece.region, words, warps, how, fresh, "mirror", room)
    if rows is None:
        check_limit(piece.program, warps * 128 * words, room.bytes, "mirror")
    return rows


def find_rows(
    flow: Flow, region: Region, words: int, warps: int, how: str, fresh: FreshNames, name: str, room: Room, align: int = 4
) -> Rows | None:
    """An array that is dead from the region on, else a fresh one; None when neither has room for ``words`` words a lane."""
    size = warps * 128 * words
    found = dead_array(flow, region, size, align, room.arrays)
    if found is not None:
        room.arrays.add(found.name)
        note = f"results come back through {found.name} ({size} of its {found.size} bytes), which is dead from the cut on"
        return Rows(found.name, "", warps, note, found.align)
    if any(v.dynamic for v in flow.program.variables):
        size = align_up(size, DYNAMIC_STEP)
    if flow.program.shared_bytes + room.bytes + size > STATIC_LIMIT:
        return None
    room.bytes += size
    name = fresh.name(name)
    counted = "1 warp" if warps == 1 else f"{warps} warps"
    note = f"results come back through {name}, {size} new bytes of shared memory for {counted} ({how})"
    if how == "the block given":
        note += f"; a launch with more than {counted} a block would run past it"
    return Rows(name, f".shared .align 16 .b8 {name}[{size}];", warps, note)


def words_at_a_time(words: int, align: int) -> int:
    """How many neighbouring words of any lane's row are aligned together, rows being ``words`` words apart."""
    return next(n for n in (4, 2, 1) if words % n == 0 and align % (4 * n) == 0)


def row_lines(rows: Rows, base: str, row: str, words: int, scratch: Scratch) -> list[str]:
    """Statements that set ``base`` to the warp's area of an array and ``row`` to the lane's row in it, for any shape of a block of so many warps."""
    if rows.warps == 1:
        return [f"mov.u32 {base}, {rows.array};", *lane_row(base, row, words, scratch)]
    x, y, z, extent = (scratch.register("b32") for _ in range(4))
    return [
        f"mov.u32 {z}, %tid.z;",
        f"mov.u32 {extent}, %ntid.y;",
        f"mov.u32 {y}, %tid.y;",
        f"mad.lo.u32 {y}, {z}, {extent}, {y};",
        f"mov.u32 {extent}, %ntid.x;",
        f"mov.u32 {x}, %tid.x;",
        f"mad.lo.u32 {x}, {y}, {extent}, {x};",
        f"shr.u32 {x}, {x}, 5;",
        f"mov.u32 {y}, {rows.array};",
        f"mad.lo.u32 {base}, {x}, {128 * words}, {y};",
        *lane_row(base, row, words, scratch),
    ]


def lane_row(base: str, row: str, words: int, scratch: Scratch) -> list[str]:
    """Statements that set ``row`` to the lane's row of a warp's area."""
    lane = scratch.register("b32")
    return [f"mov.u32 {lane}, %laneid;", f"mad.lo.u32 {row}, {lane}, {4 * words}, {base};"]
