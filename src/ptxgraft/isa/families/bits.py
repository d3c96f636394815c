"""Bit counting, fields and byte dot products (PTX ISA manual, "Integer Arithmetic Instructions", second half).

Invariant: positions and lengths of any size are allowed; a field that lies outside the value gives what the manual says.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

BITS = "{type:b32|b64}"
FIELDS = "{type:u32|u64|s32|s64}"
ALL = 0xFFFFFFFF


@instruction(
    f"popc.{BITS}",
    d="out u32",
    a="in {type}",
    since=(2, 0),
    sm=20,
    examples=[("popc.b32", (0xF0F0,), (8,)), ("popc.b64", (ALL << 32,), (32,)), ("popc.b64", (-1,), (64,))],
)
def popc(lanes: Lanes, a: Value) -> Value:
    """d = the number of one bits."""
    return lanes.resize(lanes.count_ones(a), 32)


@instruction(
    f"clz.{BITS}",
    d="out u32",
    a="in {type}",
    since=(2, 0),
    sm=20,
    examples=[("clz.b32", (0,), (32,)), ("clz.b32", (1,), (31,)), ("clz.b64", (0,), (64,)), ("clz.b64", (1 << 40,), (23,))],
)
def clz(lanes: Lanes, a: Value) -> Value:
    """d = the number of leading zero bits; the width for 0."""
    return lanes.resize(lanes.leading_zeros(a), 32)


@instruction(
    f"bfind.{{shift:shiftamt}}?.{FIELDS}",
    d="out u32",
    a="in {type}",
    since=(2, 0),
    sm=20,
    examples=[
        ("bfind.u32", (0x100,), (8,)),
        ("bfind.u32", (0,), (ALL,)),
        ("bfind.s32", (-1,), (ALL,)),
        ("bfind.s32", (-0x101,), (8,)),
        ("bfind.shiftamt.u32", (0x100,), (23,)),
        ("bfind.shiftamt.u64", (0,), (ALL,)),
    ],
)
def bfind(lanes: Lanes, a: Value, *, type: str, shift: str) -> Value:
    """d = the position of the highest bit that is no sign bit (or the shift that brings it to the top); all ones if there is none."""
    width = type_of(type).width
    if type_of(type).signed:
        a = lanes.xor(a, lanes.shift_right(a, lanes.const(width - 1, 32), signed=True))
    zeros = lanes.resize(lanes.leading_zeros(a), 32)
    found = zeros if shift else lanes.sub(lanes.const(width - 1, 32), zeros)
    return lanes.select(lanes.compare("eq", zeros, lanes.const(width, 32)), lanes.const(ALL, 32), found)


@instruction(
    "fns.b32",
    d="out b32",
    mask="in b32",
    base="in b32",
    offset="in s32",
    since=(6, 0),
    sm=30,
    examples=[
        ("fns.b32", (0b1011, 0, 1), (0,)),
        ("fns.b32", (0b1011, 0, 3), (3,)),
        ("fns.b32", (0b1011, 0, 4), (ALL,)),
        ("fns.b32", (0b1011, 3, -2), (1,)),
        ("fns.b32", (0b1011, 2, 0), (ALL,)),
        ("fns.b32", (0b1011, 1, 0), (1,)),
        ("fns.b32", (0b1011, 1, 1 << 31), (0,)),
    ],
)
def fns(lanes: Lanes, mask: Value, base: Value, offset: Value) -> Value:
    """d = the position of the |offset|-th set bit of mask from base, upward for positive, downward for negative offsets; all ones if there is none."""
    zero, one, none = lanes.const(0, 32), lanes.const(1, 32), lanes.const(ALL, 32)
    down = lanes.compare("lt", offset, zero, signed=True)
    # Turn a downward search into an upward one.
    mask = lanes.select(down, lanes.reverse_bits(mask), mask)
    start = lanes.select(down, lanes.sub(lanes.const(31, 32), base), base)
    rank = lanes.select(down, lanes.sub(zero, offset), offset)
    at_base = lanes.compare("eq", offset, zero)
    rest = lanes.and_(mask, lanes.shift_left(none, start))
    here = lanes.and_(rest, lanes.shift_left(one, start))
    rest = lanes.select(at_base, here, rest)
    rank = lanes.select(at_base, one, rank)
    # Halve the range: how many bits lie in its lower half?
    position, left = zero, rank
    for width in (16, 8, 4, 2, 1):
        low = lanes.and_(lanes.shift_right(rest, position), lanes.const((1 << width) - 1, 32))
        count = lanes.count_ones(low)
        above = lanes.compare("gt", left, count)
        left = lanes.select(above, lanes.sub(left, count), left)
        position = lanes.select(above, lanes.add(position, lanes.const(width, 32)), position)
    # A base beyond the word leaves nothing to find.
    enough = lanes.compare("le", rank, lanes.count_ones(rest))
    found = lanes.select(down, lanes.sub(lanes.const(31, 32), position), position)
    # The one offset that has no magnitude gives 0 (seen on an H200).
    none = lanes.select(lanes.compare("eq", offset, lanes.const(1 << 31, 32)), zero, none)
    return lanes.select(enough, found, none)


@instruction(
    f"brev.{BITS}",
    d="out {type}",
    a="in {type}",
    since=(2, 0),
    sm=20,
    examples=[("brev.b32", (1,), (0x80000000,)), ("brev.b64", (3,), (3 << 62,))],
)
def brev(lanes: Lanes, a: Value) -> Value:
    """d = the bits in reverse order."""
    return lanes.reverse_bits(a)


def _amount(lanes: Lanes, a: Value, width: int) -> Value:
    """A position or length, as b32. Fields of 32 bits take the lower eight bits, as the manual says; those of 64 bits take all (seen on an H200)."""
    return lanes.and_(a, lanes.const(0xFF, 32)) if width == 32 else a


@instruction(
    f"bfe.{FIELDS}",
    d="out {type}",
    a="in {type}",
    b="in u32",
    c="in u32",
    since=(2, 0),
    sm=20,
    examples=[
        ("bfe.u32", (0xABCD, 4, 8), (0xBC,)),
        ("bfe.s32", (0xABCD, 4, 8), (0xFFFFFFBC,)),
        ("bfe.s32", (0x80000000, 28, 16), (0xFFFFFFF8,)),
        ("bfe.u32", (0x80000000, 28, 16), (8,)),
        ("bfe.s32", (0x80000000, 5, 0), (0,)),
        ("bfe.s32", (0x80000000, 40, 4), (ALL,)),
        ("bfe.u64", (-1, 60, 255), (15,)),
        ("bfe.u32", (0xABCD, 0x104, 8), (0xBC,)),
        ("bfe.u64", (0xABCD, 0x104, 8), (0,)),
        ("bfe.s64", (1 << 35, 4, 32), (0xFFFFFFFF80000000,)),
    ],
)
def bfe(lanes: Lanes, a: Value, b: Value, c: Value, *, type: str) -> Value:
    """d = c bits of a from position b; signed: the field's highest bit (at most the value's) fills the rest."""
    width, signed = type_of(type).width, type_of(type).signed
    position, length = _amount(lanes, b, width), _amount(lanes, c, width)
    field = lanes.shift_right(a, position, signed)
    spare = lanes.sub(lanes.const(width, 32), length)
    # A field as long as the value has no bits to clear.
    whole = lanes.compare("ge", length, lanes.const(width, 32))
    spare = lanes.select(whole, lanes.const(0, 32), spare)
    if not signed:
        return lanes.shift_right(lanes.shift_left(field, spare), spare)
    cut = lanes.shift_right(lanes.shift_left(field, spare), spare, True)
    return lanes.select(lanes.compare("eq", length, lanes.const(0, 32)), lanes.const(0, width), cut)


@instruction(
    f"bfi.{BITS}",
    f="out {type}",
    a="in {type}",
    b="in {type}",
    c="in u32",
    d="in u32",
    since=(2, 0),
    sm=20,
    examples=[
        ("bfi.b32", (0xFF, 0, 8, 8), (0xFF00,)),
        ("bfi.b32", (0x0, ALL, 28, 16), (0x0FFFFFFF,)),
        ("bfi.b32", (0xFF, 0x1234, 32, 8), (0x1234,)),
        ("bfi.b32", (0xFF, 0x1234, 0, 0), (0x1234,)),
        ("bfi.b64", (0xAB, 0, 56, 8), (0xAB << 56,)),
        ("bfi.b64", (0xAB, 9, 0x100, 8), (9,)),
    ],
)
def bfi(lanes: Lanes, a: Value, b: Value, c: Value, d: Value, *, type: str) -> Value:
    """f = b with d bits from position c replaced by the lowest bits of a."""
    width = type_of(type).width
    position, length = _amount(lanes, c, width), _amount(lanes, d, width)
    ones = lanes.const((1 << width) - 1, width)
    mask = lanes.shift_left(lanes.not_(lanes.shift_left(ones, length)), position)
    return lanes.or_(lanes.and_(b, lanes.not_(mask)), lanes.and_(lanes.shift_left(a, position), mask))


@instruction(
    "bmsk.{mode:clamp|wrap}.b32",
    d="out b32",
    a="in b32",
    b="in b32",
    since=(7, 6),
    sm=70,
    examples=[
        ("bmsk.clamp.b32", (4, 8), (0xFF0,)),
        ("bmsk.clamp.b32", (28, 40), (0xF0000000,)),
        ("bmsk.clamp.b32", (32, 4), (0,)),
        ("bmsk.clamp.b32", (0, 32), (ALL,)),
        ("bmsk.wrap.b32", (36, 8), (0xFF0,)),
        ("bmsk.wrap.b32", (4, 32), (0,)),
    ],
)
def bmsk(lanes: Lanes, a: Value, b: Value, *, mode: str) -> Value:
    """d = b ones from position a; wrap: both modulo 32."""
    if mode == "wrap":
        a, b = lanes.and_(a, lanes.const(31, 32)), lanes.and_(b, lanes.const(31, 32))
    return lanes.shift_left(lanes.not_(lanes.shift_left(lanes.const(ALL, 32), b)), a)


@instruction(
    "szext.{mode:clamp|wrap}.{type:u32|s32}",
    d="out {type}",
    a="in {type}",
    b="in u32",
    since=(7, 6),
    sm=70,
    examples=[
        ("szext.clamp.s32", (0x80, 8), (0xFFFFFF80,)),
        ("szext.clamp.u32", (0x180, 8), (0x80,)),
        ("szext.clamp.u32", (0x80000001, 40), (0x80000001,)),
        ("szext.wrap.u32", (0x80000001, 33), (1,)),
        ("szext.clamp.s32", (-1, 0), (0,)),
        ("szext.wrap.s32", (-1, 32), (0,)),
    ],
)
def szext(lanes: Lanes, a: Value, b: Value, *, mode: str, type: str) -> Value:
    """d = the lowest b bits of a, extended with zeros or the sign; wrap: b modulo 32."""
    full = lanes.const(32, 32)
    if mode == "wrap":
        b = lanes.and_(b, lanes.const(31, 32))
    spare = lanes.select(lanes.compare("ge", b, full), lanes.const(0, 32), lanes.sub(full, b))
    cut = lanes.shift_right(lanes.shift_left(a, spare), spare, type == "s32")
    # No bits at all: zero, not copies of a sign.
    return lanes.select(lanes.compare("eq", b, lanes.const(0, 32)), lanes.const(0, 32), cut)


# -- dot products of bytes --------------------------------------------------------------------------------------------
def _dot(lanes: Lanes, pairs: list[tuple[Value, Value]], signed: tuple[bool, bool], c: Value) -> Value:
    for x, y in pairs:
        c = lanes.add(c, lanes.mul(lanes.resize(x, 32, signed[0]), lanes.resize(y, 32, signed[1])))
    return c


def dp4a(lanes: Lanes, a: Value, b: Value, c: Value, *, at: str, bt: str) -> Value:
    """d = c + the four products of bytes."""
    pairs = [(lanes.extract(a, 8 * i, 8), lanes.extract(b, 8 * i, 8)) for i in range(4)]
    return _dot(lanes, pairs, (at == "s32", bt == "s32"), c)


def dp2a(lanes: Lanes, a: Value, b: Value, c: Value, *, half: str, at: str, bt: str) -> Value:
    """d = c + the two products of a's halves with two bytes of b (lo: the lower, hi: the upper two)."""
    offset = 16 if half == "hi" else 0
    pairs = [(lanes.extract(a, 16 * i, 16), lanes.extract(b, offset + 8 * i, 8)) for i in range(2)]
    return _dot(lanes, pairs, (at == "s32", bt == "s32"), c)


def _declare_dot(root: str, half: str, meaning: Callable[..., Value], results: dict[str, int]) -> None:
    """The result is s32 as soon as one factor is."""
    for at in ("u32", "s32"):
        for bt in ("u32", "s32"):
            result = "u32" if at == bt == "u32" else "s32"
            written = f"{root}.{'hi.' if half else ''}{at}.{bt}"
            instruction(
                f"{root}.{half}{{at:{at}}}.{{bt:{bt}}}",
                d=f"out {result}",
                a=f"in {at}",
                b=f"in {bt}",
                c=f"in {result}",
                since=(5, 0),
                sm=61,
                examples=[(written, (0xFF02FF03, 0x01FF0405, 1), (results[at[0] + bt[0]],))],
            )(meaning)


_declare_dot(
    "dp4a",
    "",
    dp4a,
    {"uu": 1 + 3 * 5 + 255 * 4 + 2 * 255 + 255, "us": 1 + 15 + 1020 - 2 + 255, "su": 1 + 15 - 4 + 510 - 1, "ss": 1 + 15 - 4 - 2 - 1},
)
_declare_dot(
    "dp2a",
    "{half:lo|hi}.",
    dp2a,
    {"uu": 1 + 0xFF03 * 0xFF + 0xFF02, "us": 1 - 0xFF03 + 0xFF02, "su": 1 - 0xFD * 0xFF - 0xFE, "ss": 1 + 0xFD - 0xFE},
)
