"""Where a launch's memory lies on the GPU: at the addresses that it was recorded with, as far as the driver gives them.

Invariant: an allocation is at its own address or the placement says where else; everything that was mapped is unmapped by ``free``.
Source: CUDA driver API, "Virtual Memory Management".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ptxgraft.run.cuda.driver import Buffer, Device


@dataclass(slots=True)
class Mapping:
    """A range of addresses with memory behind it."""

    address: int
    size: int
    handle: Any


@dataclass(eq=False)
class Placement:
    """``addresses[i]`` is where the i-th span lies; ``moved`` are the numbers of those that do not lie at their own address."""

    device: Device
    spans: list[tuple[int, int]]
    addresses: list[int] = field(default_factory=list)
    mappings: list[Mapping] = field(default_factory=list)
    buffers: list[Buffer] = field(default_factory=list)

    @property
    def moved(self) -> list[int]:
        return [i for i, (base, _) in enumerate(self.spans) if self.addresses[i] != base]

    def free(self) -> None:
        """Give everything back."""
        driver = self.device.driver
        for mapping in self.mappings:
            pointer = driver.CUdeviceptr(mapping.address)
            driver.cuMemUnmap(pointer, mapping.size)
            driver.cuMemRelease(mapping.handle)
            driver.cuMemAddressFree(pointer, mapping.size)
        for buffer in self.buffers:
            driver.cuMemFree(driver.CUdeviceptr(buffer.address))
        self.mappings.clear()
        self.buffers.clear()


def place(device: Device, spans: Sequence[tuple[int, int]], fixed: bool = True) -> Placement:
    """Memory for all spans (base address, bytes), at their own addresses where the driver gives those; its contents are whatever was there.

    Spans that share a page of the driver's granularity are mapped together, or moved together. ``fixed`` False moves all.
    """
    placement = Placement(device, list(spans), [0] * len(spans))
    try:
        granularity = _granularity(device) if fixed else 0
        for numbers, start, end in _pages(spans, granularity) if granularity else [(list(range(len(spans))), 0, 0)]:
            mapping = _map(device, start, end - start) if granularity else None
            if mapping is not None:
                placement.mappings.append(mapping)
            for i in numbers:
                base, size = spans[i]
                if mapping is None:
                    placement.buffers.append(Buffer(int(device.call("cuMemAlloc", max(size, 1))), size))
                placement.addresses[i] = base if mapping is not None else placement.buffers[-1].address
    except BaseException:
        placement.free()
        raise
    return placement


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


def _pages(spans: Sequence[tuple[int, int]], granularity: int) -> list[tuple[list[int], int, int]]:
    """(numbers of spans, first address, end) of the page ranges that hold all spans, by address; none touch."""
    groups: list[tuple[list[int], int, int]] = []
    for i in sorted(range(len(spans)), key=lambda i: spans[i]):
        base, size = spans[i]
        start, end = base // granularity * granularity, -(-(base + max(size, 1)) // granularity) * granularity
        if groups and start < groups[-1][2]:
            numbers, first, last = groups[-1]
            groups[-1] = ([*numbers, i], first, max(last, end))
        else:
            groups.append(([i], start, end))
    return groups


def _map(device: Device, address: int, size: int) -> Mapping | None:
    """Memory at exactly that address; None when the driver does not give the address."""
    driver = device.driver
    if address == 0:
        return None  # no wish at all to the driver
    error, given = driver.cuMemAddressReserve(size, 0, driver.CUdeviceptr(address), 0)
    if error != driver.CUresult.CUDA_SUCCESS:
        return None
    if int(given) != address:
        device.call("cuMemAddressFree", given, size)
        return None
    handle = None
    try:
        handle = device.call("cuMemCreate", size, _properties(device), 0)
        device.call("cuMemMap", given, size, 0, handle, 0)
        access = driver.CUmemAccessDesc()
        access.location = _properties(device).location
        access.flags = driver.CUmemAccess_flags.CU_MEM_ACCESS_FLAGS_PROT_READWRITE
        device.call("cuMemSetAccess", given, size, [access], 1)
    except BaseException:
        driver.cuMemUnmap(given, size)
        if handle is not None:
            driver.cuMemRelease(handle)
        driver.cuMemAddressFree(given, size)
        raise
    return Mapping(address, size, handle)


def words_into(data: NDArray[np.uint8], spans: Sequence[tuple[int, int]]) -> int:
    """How many aligned 8-byte words of ``data`` are addresses inside one of the spans (base, bytes): what looks like a pointer there."""
    words = data[: data.size // 8 * 8].view("<u8")
    found = np.zeros(words.size, bool)
    for base, size in spans:
        found |= (words >= base) & (words < base + max(size, 1))
    return int(found.sum())
