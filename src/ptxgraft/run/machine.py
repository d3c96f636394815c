"""The memory side of the NumPy engine: checked access for many lanes at once.

Invariant: no access reaches a byte outside one allocation (or one block's shared, one lane's local memory); the first active lane that would do so,
in warp and lane order, is named by the fault. Nothing here runs with no lane active. Values are arrays that broadcast to (warps, 32), as in ``lower.numpy_lanes``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa.images import WIDE_FIELDS
from ptxgraft.lower.numpy_lanes import DTYPES
from ptxgraft.run import faults, special
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, WINDOW_BYTES, WINDOWS, Allocation, padded
from ptxgraft.run.result import StoreRecord, Watch

Array = NDArray[Any]

_U64 = np.uint64
_WIDTHS = {dtype: width for width, dtype in DTYPES.items()}


class Machine:
    """Memory and special registers of some blocks of a launch, run together: ``warps`` rows, those of a block side by side.

    ``rows`` are the warps that execute just now (None: all), ``active`` their lanes as bool[rows, 32], ``index`` the instruction.
    """

    def __init__(self, launch: Launch, blocks: Sequence[int], watches: Sequence[Watch], stores: list[StoreRecord]) -> None:
        self.launch = launch
        self.numbers = list(blocks)
        self.blocks = [launch.block_of(b) for b in blocks]
        self.per_block = launch.warps_per_block
        self.warps = len(blocks) * self.per_block
        self.stores = stores
        self.memory_watches = [w for w in watches if w.kind == "memory"]
        self.surface_watches = [w for w in watches if w.kind == "surface"]
        self.index = 0
        self.clock = 0
        self.rows: NDArray[np.intp] | None = None
        self.all_rows = np.arange(self.warps, dtype=np.intp)
        threads = np.arange(self.per_block * 32).reshape(self.per_block, 32)
        self.initial = np.tile(threads < launch.threads, (len(blocks), 1))
        self.active: NDArray[np.bool_] = self.initial
        self.full = bool(self.initial.all())
        self._specials: dict[str, Array] = {}
        self._constants = special.constants(launch)
        self._threads = threads
        self.shared_size = launch.shared_total
        self._shared_stride = -(-max(self.shared_size, 1) // 64) * 64
        self._shared = padded(self._shared_stride * len(blocks), launch.fill)
        self.local_size = launch.local_total
        self._local = padded(self.local_size * self.warps * 32, launch.fill)
        self._args = padded(len(launch.args))
        self._args[:] = np.frombuffer(launch.args, dtype=np.uint8)
        self._block_of_warp = np.repeat(np.arange(len(blocks)), self.per_block)
        self._local_base = (np.arange(self.warps * 32, dtype=_U64) * _U64(self.local_size)).reshape(self.warps, 32)
        self._last: Allocation | None = None

    # -- where we are -------------------------------------------------------------------------------------------------
    def site(self, row: int, lane: int = -1, index: int | None = None) -> faults.Site:
        """The place of a lane, by its row among the executing warps."""
        warp = int(self.all_rows[row] if self.rows is None else self.rows[row])
        return self.site_of(warp, lane, self.index if index is None else index)

    def site_of(self, warp: int, lane: int, index: int) -> faults.Site:
        """The place of a lane, by its warp among all."""
        return faults.Site(self.launch.program, index, self.blocks[warp // self.per_block], warp % self.per_block, lane)

    def _first(self, bad: Array) -> tuple[int, int]:
        row, lane = np.unravel_index(int(bad.argmax()), bad.shape)
        return int(row), int(lane)

    def fault(self, p: Array, reason: str, value: Array | None) -> None:
        """Stop where the predicate holds in an active lane."""
        bad = self.active & p
        if bad.any():
            place = self._first(bad)
            number = None if value is None else int(np.broadcast_to(value, bad.shape)[place])
            raise faults.reasoned(self.site(*place), reason, number)

    def special(self, name: str) -> Array:
        """A special register, uint32 or uint64."""
        name = special.ALIASES.get(name, name)
        dtype = DTYPES[special.width(name)]
        if name in special.CLOCKS:
            value = 0 if name in ("clock_hi", "globaltimer_hi") else self.clock
            return np.full((1, 1), value, dtype=dtype)
        found = self._specials.get(name)
        if found is None:
            found = self._specials[name] = self._special(name).astype(dtype)
        return found if self.rows is None or found.shape[0] == 1 else found[self.rows]

    def _special(self, name: str) -> Array:
        if name in self._constants:
            return np.full((1, 1), self._constants[name])
        if name in special.LANE_VALUES:
            return np.array([special.LANE_VALUES[name]])
        if name == "warpid":
            return np.tile(np.arange(self.per_block), len(self.blocks))[:, None]
        axis = "xyz".index(name[-1])
        if name in special.PER_BLOCK:
            return np.repeat(np.array([b[axis] for b in self.blocks]), self.per_block)[:, None]
        x, y, _ = self.launch.block
        value = (self._threads % x, self._threads // x % y, self._threads // (x * y))[axis]
        return np.tile(value, (len(self.blocks), 1))

    # -- address spaces -----------------------------------------------------------------------------------------------
    def to_generic(self, space: str, address: Array) -> Array:
        """A window's base added; global and const addresses stay."""
        base = WINDOWS.get(space, 0)
        return address + _U64(base) if base else address

    def from_generic(self, space: str, address: Array) -> Array:
        """A window's base taken away; global and const addresses stay."""
        base = WINDOWS.get(space, 0)
        return address - _U64(base) if base else address

    def is_space(self, space: str, address: Array) -> Array:
        """Does a generic address lie in the space? What is in no window is global, but for the variables of const."""
        if space in WINDOWS:
            return address - _U64(WINDOWS[space]) < _U64(WINDOW_BYTES)
        const = np.zeros(address.shape, dtype=bool)
        for variable in self.launch.program.variables:
            if variable.space == "const":
                allocation = self.launch.variables[variable.name]
                const |= address - _U64(allocation.base) < _U64(max(allocation.size, 1))
        return const if space == "const" else ~const & (address < _U64(SHARED_WINDOW))

    def _parts(self, space: str, address: Array) -> list[tuple[str, Array, NDArray[np.bool_]]]:
        """Split an access to generic memory by window: (space, address in it, lanes)."""
        if space != "generic":
            return [(space, address, self.active)]
        used = np.broadcast_to(address, self.active.shape)[self.active]
        if used.max() < SHARED_WINDOW:
            return [("global", address, self.active)]
        parts: list[tuple[str, Array, NDArray[np.bool_]]] = []
        rest = self.active
        for name, base in (("shared", SHARED_WINDOW), ("local", LOCAL_WINDOW), ("param", PARAM_WINDOW)):
            there = address - _U64(base)
            lanes = rest & (there < _U64(WINDOW_BYTES))
            if lanes.any():
                parts.append((name, there, lanes))
                rest = rest & ~lanes
        return [*parts, ("global", address, rest)] if rest.any() else parts

    # -- access -------------------------------------------------------------------------------------------------------
    def load(self, space: str, address: Array, width: int, count: int) -> tuple[Array, ...]:
        """``count`` elements of ``width`` bits for each active lane; inactive lanes get zeros."""
        parts = self._parts(space, address)
        if len(parts) == 1:
            name, where, lanes = parts[0]
            return self._load(name, where, lanes, width, count)
        total = tuple(np.zeros(self.active.shape, DTYPES[width]) for _ in range(count))
        for name, where, lanes in parts:
            for into, value in zip(total, self._load(name, where, lanes, width, count), strict=True):
                into[lanes] = np.broadcast_to(value, lanes.shape)[lanes]
        return total

    def _load(self, space: str, address: Array, lanes: NDArray[np.bool_], width: int, count: int) -> tuple[Array, ...]:
        if address.shape == (1, 1) and space not in ("shared", "local"):
            row, lane = self._first(lanes)
            one = np.zeros_like(lanes)
            one[row, lane] = True
            return tuple(v.reshape(1, 1) for v in self._gather(space, address.reshape(1), one, width, count))
        spread = np.broadcast_to(address, lanes.shape)
        if lanes.all():
            return tuple(v.reshape(lanes.shape) for v in self._gather(space, spread.reshape(-1), lanes, width, count))
        results = []
        for value in self._gather(space, spread[lanes], lanes, width, count):
            whole = np.zeros(lanes.shape, dtype=value.dtype)
            whole[lanes] = value
            results.append(whole)
        return tuple(results)

    def _gather(self, space: str, flat: Array, lanes: NDArray[np.bool_], width: int, count: int) -> list[Array]:
        """Elements at the addresses of the lanes chosen, in their order."""
        unit = width // 8
        pieces = self._resolve(space, flat, lanes, unit * count, False)
        if len(pieces) == 1:
            data, offsets, _ = pieces[0]
            return [_take(data, offsets + i * unit, width) for i in range(count)]
        results = [np.zeros(flat.shape, DTYPES[width]) for _ in range(count)]
        for data, offsets, chosen in pieces:
            for i, result in enumerate(results):
                result[chosen] = _take(data, offsets + i * unit, width)
        return results

    def store(self, space: str, address: Array, values: Sequence[Array]) -> None:
        """Elements of the active lanes, lanes in order."""
        for name, where, lanes in self._parts(space, address):
            self._store(name, where, lanes, values)

    def _store(self, space: str, address: Array, lanes: NDArray[np.bool_], values: Sequence[Array]) -> None:
        width = _WIDTHS[values[0].dtype]
        unit = width // 8
        if lanes.all():
            flat, *columns = (np.broadcast_to(v, lanes.shape).reshape(-1) for v in (address, *values))
        else:
            flat, *columns = (np.broadcast_to(v, lanes.shape)[lanes] for v in (address, *values))
        if self.memory_watches or self.surface_watches:
            self._record(space, flat, lanes, unit * len(values))
        for data, offsets, chosen in self._resolve(space, flat, lanes, unit * len(values), True):
            for i, column in enumerate(columns):
                _put(data, offsets + i * unit, width, column if chosen is None else column[chosen])

    def atomic(self, space: str, address: Array, width: int, update: Callable[[Array], Array]) -> Array:
        """Lane after lane; those that meet no other are done together."""
        result = np.zeros(self.active.shape, DTYPES[width])
        everyone = self.active
        for name, where, lanes in self._parts(space, address):
            flat = np.broadcast_to(where, lanes.shape)[lanes]
            turn = np.zeros(lanes.shape, dtype=np.int64)
            turn[lanes] = self._turns(name, flat, lanes)
            for number in range(int(turn[lanes].max()) + 1):
                now = lanes & (turn == number)
                (old,) = self._load(name, where, now, width, 1)
                result = np.where(now, old, result)
                self.active = now
                self._store(name, where, now, [update(result)])
                self.active = everyone
        return result

    def repeat(self, count: Array, body: Callable[[Array], None]) -> None:
        """The body with 0, 1, ... for the active lanes whose count is larger, as long as there are any."""
        everyone, number = self.active, 0
        while True:
            self.active = everyone & (count > number)
            if not self.active.any():
                break
            body(np.full((1, 1), number, np.uint32))
            number += 1
        self.active = everyone

    def _turns(self, space: str, flat: Array, lanes: NDArray[np.bool_]) -> Array:
        """For each access, how many earlier ones of the same step meet the same place."""
        if space == "shared":
            flat = flat + (self._block_rows(lanes).astype(_U64) << _U64(32))
        elif space == "local":
            return np.zeros(flat.shape, dtype=np.int64)
        order = np.argsort(flat, kind="stable")
        ordered = flat[order]
        first = np.r_[True, ordered[1:] != ordered[:-1]]
        positions = np.arange(flat.size)
        starts = np.maximum.accumulate(np.where(first, positions, 0))
        turns = np.empty(flat.size, dtype=np.int64)
        turns[order] = positions - starts
        return turns

    # -- from addresses to bytes --------------------------------------------------------------------------------------
    def _resolve(
        self, space: str, flat: Array, lanes: NDArray[np.bool_], size: int, write: bool
    ) -> list[tuple[NDArray[np.uint8], Array, Array | None]]:
        """(bytes, offsets in them, which of the accesses) for checked accesses of ``size`` bytes."""
        if space != "host" and size > 1:
            odd = (flat & _U64(size - 1)) != 0
            if odd.any():
                i = int(np.argmax(odd))
                raise faults.misaligned(self._site_at(lanes, i), space, write, int(flat[i]), size)
        if space in ("global", "const"):
            return self._global(flat, lanes, size, write)
        if space == "shared":
            self._check(space, flat, lanes, size, write, self.shared_size)
            return [(self._shared, flat + (self._block_rows(lanes) * self._shared_stride).astype(_U64), None)]
        if space == "local":
            self._check(space, flat, lanes, size, write, self.local_size)
            rows = self._local_base if self.rows is None else self._local_base[self.rows]
            return [(self._local, flat + rows[lanes], None)]
        if space == "param":
            if write:
                raise self._site_at(lanes, 0).fault("writes to the argument block, which is read-only")
            self._check(space, flat, lanes, size, write, len(self.launch.args))
            return [(self._args, flat, None)]
        assert space == "host", space
        images = self.launch.images
        offsets = flat - _U64(images.base)
        self._check(space, offsets, lanes, size, write, images.arena.size)
        return [(images.arena, offsets, None)]

    def _global(self, flat: Array, lanes: NDArray[np.bool_], size: int, write: bool) -> list[tuple[NDArray[np.uint8], Array, Array | None]]:
        low, high = int(flat.min()), int(flat.max())
        found = self._last
        if found is None or low < found.base or high + size > found.end:
            found = self.launch.memory.find(low)
        if found is not None and high + size <= found.end:
            self._last = found
            return [(found.data, flat - _U64(found.base), None)]
        pieces: list[tuple[NDArray[np.uint8], Array, Array | None]] = []
        left = np.ones(flat.shape, dtype=bool)
        while left.any():
            i = int(np.argmax(left))
            address = int(flat[i])
            found = self.launch.memory.find(address)
            if found is None or address + size > found.end:
                raise faults.out_of_bounds(self._site_at(lanes, i), self.launch.memory, "global", write, address, size)
            chosen = left & (flat >= _U64(found.base)) & (flat <= _U64(found.end - size))
            pieces.append((found.data, flat[chosen] - _U64(found.base), chosen))
            left &= ~chosen
        return pieces

    def _check(self, space: str, flat: Array, lanes: NDArray[np.bool_], size: int, write: bool, limit: int) -> None:
        if size > limit or int(flat.max()) > limit - size:
            i = int(np.argmax(flat > _U64(limit - size))) if size <= limit else 0
            raise faults.out_of_bounds(self._site_at(lanes, i), self.launch.memory, space, write, int(flat[i]), size, limit)

    def local_of(self, warp: int, lane: int) -> NDArray[np.uint8]:
        """The bytes of one lane's local memory."""
        start = int(self._local_base[warp, lane])
        return self._local[start : start + self.local_size]

    def shared_of(self, warp: int) -> NDArray[np.uint8]:
        """The bytes of the shared memory of a warp's block."""
        start = int(self._block_of_warp[warp]) * self._shared_stride
        return self._shared[start : start + self.shared_size]

    def _site_at(self, lanes: NDArray[np.bool_], i: int) -> faults.Site:
        row, lane = np.argwhere(lanes)[i]
        return self.site(int(row), int(lane))

    def _block_rows(self, lanes: NDArray[np.bool_]) -> Array:
        """The block of each chosen lane."""
        of_warp = self._block_of_warp if self.rows is None else self._block_of_warp[self.rows]
        return np.broadcast_to(of_warp[:, None], lanes.shape)[lanes]

    # -- images, watches ----------------------------------------------------------------------------------------------
    def resource(self, kind: str, handle: Array) -> dict[str, Array]:
        """The fields behind the handles of the active lanes."""
        known = self.launch.images.of_kind(kind)
        used = np.broadcast_to(handle, self.active.shape)
        handles = [int(h) for h in np.unique(used[self.active])]
        for h in handles:
            if h not in known:
                raise faults.unknown_handle(self.site(*self._first(self.active & (used == _U64(h)))), kind, h, known, self.launch.variables)
        fields: dict[str, Array] = {}
        for name in known[handles[0]]:
            dtype = np.uint64 if name in WIDE_FIELDS else np.uint32
            value = np.full((1, 1), known[handles[0]][name], dtype=dtype)
            for h in handles[1:]:
                value = np.where(used == _U64(h), dtype(known[h][name]), value)
            fields[name] = value
        return fields

    def _record(self, space: str, flat: Array, lanes: NDArray[np.bool_], size: int) -> None:
        """Note the stores that touch a watched range."""
        if space in ("global", "const"):
            watches = [(w, w.address_or_handle) for w in self.memory_watches]
        elif space == "host":
            surfaces = self.launch.images.surfaces
            watches = [(w, surfaces[w.address_or_handle]["base"]) for w in self.surface_watches if w.address_or_handle in surfaces]
        else:
            return
        for watch, base in watches:
            start = base + watch.offset
            touched = (flat < _U64(start + watch.size)) & (flat + _U64(size) > _U64(start))
            if not touched.any():
                continue
            places = np.argwhere(lanes)
            for i in np.flatnonzero(touched):
                row, lane = places[i]
                site = self.site(int(row), int(lane))
                offset = int(flat[i]) - base
                self.stores.append(
                    StoreRecord(self.index, site.block, site.warp, site.lane, watch.kind, watch.address_or_handle, offset, size)
                )


def _elements(data: NDArray[np.uint8], offsets: Array, width: int) -> tuple[Array, Array] | None:
    """(the bytes as elements, the numbers of those at ``offsets``); None where one is not at a whole element."""
    unit = width // 8
    if width == 128 or (offsets & _U64(unit - 1)).any():
        return None
    whole = data.size // unit
    numbers = (offsets >> _U64(unit.bit_length() - 1)).view(np.int64)
    if numbers.size and int(numbers.max()) >= whole:
        return None
    return data[: whole * unit].view(DTYPES[width]), numbers


def _take(data: NDArray[np.uint8], offsets: Array, width: int) -> Array:
    found = _elements(data, offsets, width)
    if found is not None:
        return found[0][found[1]]
    places, unit = offsets.view(np.int64), width // 8
    return np.ascontiguousarray(data[places[:, None] + np.arange(unit)]).view(DTYPES[width]).reshape(-1)


def _put(data: NDArray[np.uint8], offsets: Array, width: int, values: Array) -> None:
    found = _elements(data, offsets, width)
    if found is not None:
        found[0][found[1]] = values
        return
    places, unit = offsets.view(np.int64), width // 8
    data[places[:, None] + np.arange(unit)] = np.ascontiguousarray(values).view(np.uint8).reshape(-1, unit)
