"""Vectors with elements left out (PTX ISA manual, "spcompress", "spdecompress").

Invariant: of each group the elements that are kept lie in order, the lowest first, and beside them indices into the group. Which of equal elements
``spcompress`` keeps the manual leaves open, so that it has no meaning here.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

_SIZES = "{elements:b8|b16}.{indices:b2|b4}"
_NUM = "{num:x1|x2|x4|x8|x16|x32|x64}"
_INSTEAD = "it keeps any of equal elements, and the manual does not say which; spdecompress, which undoes it, runs"


def _words(bits: int) -> str:
    return f"x{-(-bits // 32)}"


def _compressed(*, elements: str, indices: str, num: str) -> Mapping[str, str]:
    count, data, index = int(num[1:]), int(elements[1:]), int(indices[1:])
    return {"m": f"x{-(-count * index // data)}", "c": f"x{count}", "all": f"x{2 * count}"}


@instruction(
    f"spcompress.{_SIZES}.sp::2:4.{_NUM}", metadata="out b32 {m}", kept="out b32 {c}", data="in b32 {all}", description="in b32",
    derive=_compressed, since=(9, 4), sm=107, specific="a",
)  # fmt: skip
@refused(_INSTEAD)
def spcompress(lanes: Lanes) -> None:
    """Of every four elements two, and their places: the greatest or the least, by value or by magnitude."""


_GROUPS = "sp::1:2|sp::1:4|sp::1:8|sp::1:16|sp::2:4|sp::2:8|sp::2:16|sp::4:8|sp::4:16"


def _group(group: str) -> tuple[int, int]:
    """How many elements of how many are kept."""
    kept, _, size = group.removeprefix("sp::").partition(":")
    return int(kept), int(size)


def _decompressed(*, elements: str, indices: str, group: str, num: str) -> Mapping[str, str]:
    (kept, size), count = _group(group), int(num[1:])
    data, index = int(elements[1:]), int(indices[1:])
    return {"all": _words(size * data * count), "m": _words(kept * index * count), "c": _words(kept * data * count)}


def _legal(*, elements: str, indices: str, group: str, num: str) -> bool:
    """Groups fit into registers and their indices into bits; at most 128 registers of data, and 253 of all."""
    kept, size = _group(group)
    data = int(elements[1:])
    sizes = [int(words[1:]) for words in _decompressed(elements=elements, indices=indices, group=group, num=num).values()]
    bits = size * data * int(num[1:])
    return kept * data <= 32 and (indices == "b4" or size <= 4) and 32 <= bits <= 4096 and sum(sizes) <= 253


def _parts(lanes: Lanes, registers: Value | tuple[Value, ...], width: int, count: int) -> list[Value]:
    """The first ``count`` fields of ``width`` bits in registers, as b32."""
    words = registers if isinstance(registers, tuple) else (registers,)
    mask = lanes.const((1 << width) - 1, 32)
    each = 32 // width
    return [lanes.and_(lanes.shift_right(words[i // each], lanes.const(i % each * width, 32)), mask) for i in range(count)]


@instruction(
    f"spdecompress.{_SIZES}.{{group:{_GROUPS}}}.{_NUM}", data="out b32 {all}", metadata="in b32 {m}", kept="in b32 {c}", legal=_legal,
    derive=_decompressed, since=(9, 4), sm=107, specific="a",
    examples=[
        ("spdecompress.b8.b2.sp::2:4.x1", (0b1101, 0x2211), (0x22001100,)),
        ("spdecompress.b8.b2.sp::2:4.x2", (0b1001_0100, 0x44332211), (0x00002211, 0x00443300)),
        ("spdecompress.b16.b4.sp::1:2.x2", (0x01, 0xBBBBAAAA), (0xAAAA0000, 0x0000BBBB)),
        ("spdecompress.b8.b4.sp::4:8.x1", (0x7420, 0x44332211), (0x00220011, 0x44000033)),
    ],
)  # fmt: skip
def spdecompress(
    lanes: Lanes,
    metadata: Value | tuple[Value, ...],
    kept: Value | tuple[Value, ...],
    *,
    elements: str,
    indices: str,
    group: str,
    num: str,
) -> Value | tuple[Value, ...]:
    """Each element of a group to the place in it that its index says, zeros elsewhere. Of two with one place the later
    counts; an index beyond the group, which the manual leaves open, names none."""
    (few, size), count, width = _group(group), int(num[1:]), int(elements[1:])
    values = _parts(lanes, kept, width, few * count)
    places = _parts(lanes, metadata, int(indices[1:]), few * count)
    fields: list[Value] = []
    for first in range(0, few * count, few):
        for place in range(size):
            field = lanes.const(0, 32)
            for i in range(first, first + few):
                field = lanes.select(lanes.compare("eq", places[i], lanes.const(place, 32)), values[i], field)
            fields.append(lanes.resize(field, width))
    per = 32 // width
    registers = [lanes.concat(fields[i : i + per]) for i in range(0, len(fields), per)]
    return registers[0] if len(registers) == 1 else tuple(registers)
