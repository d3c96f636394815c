"""Where a launch's memory lies on the GPU: at the addresses that it was recorded with, as far as the driver gives them.

Invariant: an allocation is at its own address or the placement says where else; everything that was mapped is unmapped by ``free``.
Source: CUDA driver API, "Virtual Memory Management".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.run.cuda.driver import Buffer, Device

BLOCK = 32 << 20
"""What the driver rounds the start of a new range of addresses up to (seen on driver 580)."""
WIDE = 1 << 30
"""Ranges below half of this the driver takes from ranges that it has, wherever the wish is; ones of this size it gives where they are wished (seen there too)."""


@dataclass(slots=True)
class Mapping:
    """Pages with memory behind them."""

    address: int
    size: int
    handle: Any


@dataclass(frozen=True, slots=True)
class Pages:
    """Pages from ``start`` to ``end`` that hold the spans ``numbers``."""

    numbers: list[int]
    start: int
    end: int


@dataclass(eq=False)
class Placement:
    """``addresses[i]`` is where the i-th span lies; ``moved`` are the numbers of those that do not lie at their own address. ``reserved`` are ranges of addresses
    (first, bytes), ``mappings`` what of them has memory."""

    device: Device
    spans: list[tuple[int, int]]
    addresses: list[int] = field(default_factory=list)
    reserved: list[tuple[int, int]] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)

    @property
    def moved(self) -> list[int]:
        return [i for i, (base, _) in enumerate(self.spans) if self.addresses[i] != base]

    def free(self) -> None:
        """Give everything back."""
        driver = self.device.driver
        for mapping in self.mappings:
            driver.cuMemUnmap(driver.CUdeviceptr(mapping.address), mapping.size)
            driver.cuMemRelease(mapping.handle)
        for address, size in self.reserved:
            driver.cuMemAddressFree(driver.CUdeviceptr(address), size)
        for buffer in self.buffers:
            driver.cuMemFree(driver.CUdeviceptr(buffer.address))
        self.mappings.clear()
        self.reserved.clear()
        self.buffers.clear()


def place(device: Device, spans: Sequence[tuple[int, int]], fixed: bool = True) -> Placement:
    """Memory for all spans (base address, bytes), at their own addresses where the driver gives those; its contents are whatever was there.

    Spans that share a page of the driver's granularity are mapped together, or moved together. ``fixed`` False moves all.
    """
    placement = Placement(device, list(spans), [base for base, _ in spans])
    try:
        granularity = _granularity(device) if fixed else 0
        if granularity == 0:
            _move(placement, range(len(spans)))
        else:
            for group in _neighbours(_pages(spans, granularity)):
                _place(placement, group)
    except BaseException:
        placement.free()
        raise
    return placement


def _place(placement: Placement, group: list[Pages]) -> None:
    """Memory for pages that lie near each other: in one range of addresses, or each in its own, or moved."""
    if _reserve(placement, group[0].start, group[-1].end):
        for pages in group:
            _map(placement, pages.start, pages.end - pages.start)
    elif len(group) > 1:
        for pages in group:
            _place(placement, [pages])
    else:
        _move(placement, group[0].numbers)


def _move(placement: Placement, numbers: Iterable[int]) -> None:
    """Memory wherever the driver likes."""
    for i in numbers:
        size = placement.spans[i][1]
        placement.buffers.append(Buffer(int(placement.device.call("cuMemAlloc", max(size, 1))), size))
        placement.addresses[i] = placement.buffers[-1].address


def _reserve(placement: Placement, start: int, end: int) -> bool:
    """Reserve addresses that hold ``start`` to ``end``, and perhaps some around; False when the driver gives others."""
    low, high = start // BLOCK * BLOCK, -(-end // BLOCK) * BLOCK
    size = max(high - low, WIDE)
    for first, wanted in dict.fromkeys([(low, size), (high - size, size), (low, high - low)]):
        if first <= 0:
            continue  # 0 would be no wish at all
        driver = placement.device.driver
        error, given = driver.cuMemAddressReserve(wanted, 0, driver.CUdeviceptr(first), 0)
        if error != driver.CUresult.CUDA_SUCCESS:
            continue
        if int(given) == first:
            placement.reserved.append((first, wanted))
            return True
        placement.device.call("cuMemAddressFree", given, wanted)
    return False


def _map(placement: Placement, address: int, size: int) -> None:
    """Put memory behind reserved addresses."""
    device, driver = placement.device, placement.device.driver
    handle = device.call("cuMemCreate", size, _properties(device), 0)
    placement.mappings.append(Mapping(address, size, handle))
    pointer = driver.CUdeviceptr(address)
    device.call("cuMemMap", pointer, size, 0, handle, 0)
    access = driver.CUmemAccessDesc()
    access.location = _properties(device).location
    access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
    device.call("cuMemSetAccess", pointer, size, [access], 1)


def _properties(device: Device) -> Any:
    """Pinned memory of this GPU."""
    driver = device.driver
    properties = driver.CUmemAllocationProp()
    properties.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    properties.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
    properties.location.id = device.ordinal
    return properties


def _granularity(device: Device) -> int:
    """Bytes of the pages that can be mapped; 0 where the GPU or its driver cannot."""
    if not device.attribute("CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED"):
        return 0
    flags = device.driver.CUmemAllocationGranularity_flags
    return int(device.call("cuMemGetAllocationGranularity", _properties(device), flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))


def _pages(spans: Sequence[tuple[int, int]], granularity: int) -> list[Pages]:
    """The pages that hold all spans, by address; none touch."""
    found: list[Pages] = []
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        base, size = spans[i]
        start, end = base // granularity * granularity, -(-(base + max(size, 1)) // granularity) * granularity
        if found and start < found[-1].end:
            found[-1] = Pages([*found[-1].numbers, i], found[-1].start, max(found[-1].end, end))
        else:
            found.append(Pages([i], start, end))
    return found


def _neighbours(pages: Sequence[Pages]) -> list[list[Pages]]:
    """Pages that one wide range of addresses would hold, or whose ranges would overlap."""
    groups: list[list[Pages]] = []
    for each in pages:
        if (groups and each.start < groups[-1][0].start // BLOCK * BLOCK + WIDE) or (
            groups and each.start // BLOCK * BLOCK < -(-groups[-1][-1].end // BLOCK) * BLOCK
        ):
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def words_into(data: NDArray[np.uint8], spans: Sequence[tuple[int, int]]) -> int:
    """How many aligned 8-byte words of ``data`` are addresses inside one of the spans (base, bytes): what looks like a pointer there."""
    words = data[: data.size // 8 * 8].view("<u8")
    found = np.zeros(words.size, bool)
    for base, size in spans:
        found |= (words >= base) & (words < base + max(size, 1))
    return int(found.sum())
