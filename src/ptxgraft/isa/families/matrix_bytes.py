"""Matrices of bytes through shared memory (PTX ISA manual, "ldmatrix", "stmatrix": what came with PTX 8.6 and 9.4).

Invariant: a row in memory is 16 bytes, aligned to as many: sixteen elements of eight, six or four bits, the lowest first, and then nothing; of signed four
bits it is 8. An element comes into the lowest bits of a byte. Who holds what follows the manual's text, and its figures as CUTLASS's layouts of these copies state them; no machine
of ours has these instructions.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa.families.memory import count_of, space_name
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction

SPACE = "{space:shared|shared::cta}?"
SPREAD = "b8x16.{source:b6x16_p32|b4x16_p64}"
_BITS = {"b6x16_p32": 6, "b4x16_p64": 4, "": 8}


def _row(lanes: Lanes, p: Value, lane: Value, size: int = 16) -> Value:
    """The address that a lane holds, of a row of ``size`` bytes."""
    address = lanes.read_lane(p, lane)
    low = lanes.and_(address, lanes.const(size - 1, 64))
    lanes.fault(lanes.compare("ne", low, lanes.const(0, 64)), f"a matrix row's address is no multiple of {size}")
    return address


def _behind(lanes: Lanes, address: Value, bytes_: Value) -> Value:
    return lanes.add(address, lanes.resize(bytes_, 64))


def _element(lanes: Lanes, space: str, row: Value, column: Value, bits: int) -> Value:
    """Element ``column`` (b32) of a row, as a byte."""
    at = lanes.mul(column, lanes.const(bits, 32))
    first = lanes.shift_right(at, lanes.const(3, 32))
    (low,) = lanes.load(space, _behind(lanes, row, first), 8)
    if bits == 8:
        return low
    # Of six bits some lie in the next byte, which is one of the row's.
    (high,) = lanes.load(space, _behind(lanes, row, lanes.add(first, lanes.const(1, 32))), 8)
    pair = lanes.concat([low, high])
    whole = lanes.shift_right(pair, lanes.and_(at, lanes.const(7, 32)))
    return lanes.resize(lanes.and_(whole, lanes.const((1 << bits) - 1, 16)), 8)


def _quads(lanes: Lanes) -> tuple[Value, Value]:
    """Each lane's quad, and four times its place in it."""
    lane = lanes.special("laneid")
    return lanes.shift_right(lane, lanes.const(2, 32)), lanes.shift_left(lanes.and_(lane, lanes.const(3, 32)), lanes.const(2, 32))


def _results(registers: list[Value]) -> Value | tuple[Value, ...]:
    return registers[0] if len(registers) == 1 else tuple(registers)


@instruction(
    f"ldmatrix.sync.aligned.m8n16.{{num:x1|x2|x4}}.{SPACE}.{SPREAD}", r="out b32 {num}", p="addr", loads="{space}", convergent=True,
    since=(8, 6), sm=100, specific="f",
)  # fmt: skip
def ldmatrix_spread(lanes: Lanes, p: Value, *, num: str, space: str, source: str) -> Value | tuple[Value, ...]:
    """Load matrices of 8 rows of 16 six- or four-bit elements, row r of matrix i at lane 8i + r's address; each lane gets four neighbours of row lane / 4."""
    quad, four = _quads(lanes)
    registers: list[Value] = []
    for matrix in range(count_of(num)):
        row = _row(lanes, p, lanes.add(quad, lanes.const(8 * matrix, 32)))
        columns = [lanes.add(four, lanes.const(i, 32)) for i in range(4)]
        registers.append(lanes.concat([_element(lanes, space_name(space), row, column, _BITS[source]) for column in columns]))
    return _results(registers)


@instruction(
    f"ldmatrix.sync.aligned.m8n16.{{num:x1|x2|x4}}.{SPACE}.s8.s4", r="out b32 {num}", p="addr", loads="{space}", convergent=True,
    since=(9, 4), sm=90, specific="a",
)  # fmt: skip
def ldmatrix_signed(lanes: Lanes, p: Value, *, num: str, space: str) -> Value | tuple[Value, ...]:
    """As above of rows of eight bytes, two signed elements each, the lower one first; they become signed bytes."""
    quad, four = _quads(lanes)
    registers: list[Value] = []
    for matrix in range(count_of(num)):
        row = _row(lanes, p, lanes.add(quad, lanes.const(8 * matrix, 32)), 8)
        (pair,) = lanes.load(space_name(space), _behind(lanes, row, lanes.shift_right(four, lanes.const(1, 32))), 16)
        elements = [lanes.shift_left(pair, lanes.const(12 - 4 * i, 32)) for i in range(4)]
        signed = [lanes.shift_right(element, lanes.const(12, 32), signed=True) for element in elements]
        registers.append(lanes.concat([lanes.resize(element, 8) for element in signed]))
    return _results(registers)


def _twice(num: str, **rest: str) -> Mapping[str, str]:
    return {"count": f"x{2 * count_of(num)}"}


def ldmatrix_bytes(lanes: Lanes, p: Value, *, num: str, space: str, source: str) -> tuple[Value, ...]:
    """Load matrices of 16 rows of 16 elements, row r of matrix i at lane 16i + r's address; each lane gets, of columns lane / 4 and that + 8, the elements
    of four neighbouring rows."""
    quad, four = _quads(lanes)
    registers: list[Value] = []
    for matrix in range(count_of(num)):
        rows = [_row(lanes, p, lanes.add(four, lanes.const(16 * matrix + i, 32))) for i in range(4)]
        for column in (quad, lanes.add(quad, lanes.const(8, 32))):
            registers.append(lanes.concat([_element(lanes, space_name(space), row, column, _BITS[source]) for row in rows]))
    return tuple(registers)


for _type in ("b8", SPREAD):
    instruction(
        f"ldmatrix.sync.aligned.m16n16.{{num:x1|x2}}.trans.{SPACE}.{_type}", r="out b32 {count}", p="addr", loads="{space}", convergent=True,
        derive=_twice, since=(8, 6), sm=100, specific="f",
    )(ldmatrix_bytes)  # fmt: skip


@instruction(
    f"stmatrix.sync.aligned.m16n8.{{num:x1|x2|x4}}.trans.{SPACE}.b8", p="addr", r="in b32 {num}", stores="{space}", convergent=True,
    since=(8, 6), sm=100, specific="f",
)  # fmt: skip
def stmatrix_bytes(lanes: Lanes, p: Value, r: Value | tuple[Value, ...], *, num: str, space: str) -> None:
    """Store matrices of 16 rows of 8 bytes by their columns, column c of matrix i to lane 8i + c's address; each lane gives two neighbours of row lane / 4,
    and below them two of that + 8."""
    quad, four = _quads(lanes)
    pair = lanes.shift_right(four, lanes.const(1, 32))
    for matrix, register in enumerate(r if isinstance(r, tuple) else (r,)):
        for i in range(4):
            column = _row(lanes, p, lanes.add(pair, lanes.const(8 * matrix + i % 2, 32)))
            place = _behind(lanes, column, lanes.add(quad, lanes.const(8 * (i // 2), 32)))
            lanes.store(space_name(space), place, (lanes.extract(register, 8 * i, 8),))
