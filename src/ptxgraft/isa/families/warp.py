"""Shuffles, votes, matches and reductions over a warp (PTX ISA manual, "Data Movement" and "Parallel Synchronization" instructions).

Invariant: only active lanes take part; the engine has brought the lanes of a ``.sync`` operation's ``membermask`` together before its
meaning runs. What the manual leaves undefined (reading a lane that takes no part) gives that lane's register.
"""

from __future__ import annotations

from collections.abc import Callable

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction
from ptxgraft.isa.types import type_of

ALL = 0xFFFFFFFF


def _shuffle(lanes: Lanes, a: Value, b: Value, c: Value, mode: str) -> tuple[Value, Value]:
    """The manual's pseudocode of ``shfl``: a segment mask and a bound, both in ``c``."""
    low = lanes.const(31, 32)
    lane = lanes.special("laneid")
    amount = lanes.and_(b, low)
    bound = lanes.and_(c, low)
    segment = lanes.and_(lanes.shift_right(c, lanes.const(8, 32)), low)
    outside = lanes.not_(segment)
    first = lanes.and_(lane, segment)
    limit = lanes.or_(first, lanes.and_(bound, outside))
    if mode == "up":
        source = lanes.sub(lane, amount)
        inside = lanes.compare("ge", source, limit, signed=True)
    else:
        if mode == "down":
            source = lanes.add(lane, amount)
        elif mode == "bfly":
            source = lanes.xor(lane, amount)
        else:
            source = lanes.or_(first, lanes.and_(amount, outside))
        inside = lanes.compare("le", source, limit, signed=True)
    return lanes.read_lane(a, lanes.select(inside, source, lane)), inside


@instruction(
    "shfl.sync.{mode:up|down|bfly|idx}.b32", d="out b32", p="out pred |?", a="in b32", b="in b32", c="in b32", membermask="in b32",
    convergent=True, since=(6, 0), sm=30, examples=[("shfl.sync.idx.b32", (7, 0, 31, ALL), (7, 1))],
)  # fmt: skip
def shfl_sync(lanes: Lanes, a: Value, b: Value, c: Value, membermask: Value, *, mode: str) -> tuple[Value, Value]:
    """d = ``a`` of the lane that ``mode``, ``b`` and ``c`` choose, the own ``a`` when that is out of range; p = was it in range?"""
    return _shuffle(lanes, a, b, c, mode)


@instruction(
    "shfl.{mode:up|down|bfly|idx}.b32",
    d="out b32",
    p="out pred |?",
    a="in b32",
    b="in b32",
    c="in b32",
    convergent=True,
    since=(3, 0),
    sm=30,
)
def shfl(lanes: Lanes, a: Value, b: Value, c: Value, *, mode: str) -> tuple[Value, Value]:
    """As ``shfl.sync`` over the lanes that happen to be active."""
    return _shuffle(lanes, a, b, c, mode)


def _members(lanes: Lanes, membermask: Value) -> Value:
    """The lanes of the mask that take part, as a mask."""
    return lanes.and_(membermask, lanes.ballot(lanes.const(1, 1)))


def _vote(lanes: Lanes, a: Value, members: Value, mode: str) -> Value:
    yes = lanes.and_(lanes.ballot(a), members)
    zero = lanes.const(0, 32)
    if mode == "ballot":
        return yes
    if mode == "any":
        return lanes.compare("ne", yes, zero)
    every = lanes.compare("eq", yes, members)
    return every if mode == "all" else lanes.or_(every, lanes.compare("eq", yes, zero))


VOTE = "{mode:all|any|uni}.pred"


@instruction(
    f"vote.sync.{VOTE}", d="out pred", a="in pred", membermask="in b32", convergent=True, since=(6, 0), sm=30,
    examples=[("vote.sync.all.pred", (1, ALL), (1,)), ("vote.sync.any.pred", (0, ALL), (0,)), ("vote.sync.uni.pred", (0, ALL), (1,))],
)  # fmt: skip
def vote_sync(lanes: Lanes, a: Value, membermask: Value, *, mode: str) -> Value:
    """d = does the predicate hold in all lanes, in any, in all or none?"""
    return _vote(lanes, a, _members(lanes, membermask), mode)


@instruction(
    "vote.sync.ballot.b32", d="out b32", a="in pred", membermask="in b32", convergent=True, since=(6, 0), sm=30,
    examples=[("vote.sync.ballot.b32", (1, ALL), (ALL,)), ("vote.sync.ballot.b32", (1, 0xF0), (0xF0,))],
)  # fmt: skip
def vote_sync_ballot(lanes: Lanes, a: Value, membermask: Value) -> Value:
    """d = one bit for each lane whose predicate holds."""
    return _vote(lanes, a, _members(lanes, membermask), "ballot")


@instruction(f"vote.{VOTE}", d="out pred", a="in pred", convergent=True, since=(1, 2), sm=12)
def vote(lanes: Lanes, a: Value, *, mode: str) -> Value:
    """As ``vote.sync`` over the lanes that happen to be active."""
    return _vote(lanes, a, _members(lanes, lanes.const(ALL, 32)), mode)


@instruction("vote.ballot.b32", d="out b32", a="in pred", convergent=True, since=(2, 0), sm=20)
def vote_ballot(lanes: Lanes, a: Value) -> Value:
    """As ``vote.sync.ballot`` over the lanes that happen to be active."""
    return lanes.ballot(a)


@instruction("activemask.b32", d="out b32", since=(6, 2), sm=30, examples=[("activemask.b32", (), (ALL,))])
def activemask(lanes: Lanes) -> Value:
    """d = one bit for each lane that runs this together with the lane."""
    return lanes.ballot(lanes.const(1, 1))


# -- match ----------------------------------------------------------------------------------------------------------------
def _same(lanes: Lanes, a: Value, members: Value) -> Value:
    """One bit for each member whose ``a`` equals the lane's own."""
    found = lanes.const(0, 32)
    for i in range(32):
        equal = lanes.compare("eq", lanes.read_lane(a, lanes.const(i, 32)), a)
        found = lanes.or_(found, lanes.select(equal, lanes.const(1 << i, 32), lanes.const(0, 32)))
    return lanes.and_(found, members)


@instruction(
    "match.any.sync.{type:b32|b64}", d="out b32", a="in {type}", membermask="in b32", convergent=True, since=(6, 0), sm=70,
    examples=[("match.any.sync.b32", (5, 0xFF), (0xFF,))],
)  # fmt: skip
def match_any(lanes: Lanes, a: Value, membermask: Value) -> Value:
    """d = the members that have the same value as this lane."""
    return _same(lanes, a, _members(lanes, membermask))


@instruction(
    "match.all.sync.{type:b32|b64}", d="out b32", p="out pred |?", a="in {type}", membermask="in b32", convergent=True, since=(6, 0), sm=70,
    examples=[("match.all.sync.b32", (5, ALL), (ALL, 1))],
)  # fmt: skip
def match_all(lanes: Lanes, a: Value, membermask: Value) -> tuple[Value, Value]:
    """d = the members and p = 1 when all of them have one value, else 0 and 0."""
    members = _members(lanes, membermask)
    every = lanes.compare("eq", _same(lanes, a, members), members)
    return lanes.select(every, members, lanes.const(0, 32)), every


# -- reductions -----------------------------------------------------------------------------------------------------------
def _reduce(lanes: Lanes, a: Value, membermask: Value, identity: int, combine: Callable[[Value, Value], Value]) -> Value:
    """Combine ``a`` over the members, lane 0 first. All operations are associative, so that the order shows in nothing."""
    members = _members(lanes, membermask)
    neutral = lanes.const(identity, 32)
    total = neutral
    for i in range(32):
        inside = lanes.compare("ne", lanes.and_(members, lanes.const(1 << i, 32)), lanes.const(0, 32))
        total = combine(total, lanes.select(inside, lanes.read_lane(a, lanes.const(i, 32)), neutral))
    return total


@instruction(
    "redux.sync.{op:add|min|max}.{type:u32|s32}", d="out {type}", a="in {type}", membermask="in b32", convergent=True, since=(7, 0), sm=80,
    examples=[("redux.sync.add.u32", (3, ALL), (96,)), ("redux.sync.min.s32", (0x80000000, 0xF), (0x80000000,)),
              ("redux.sync.max.u32", (7, 1), (7,))],
)  # fmt: skip
def redux(lanes: Lanes, a: Value, membermask: Value, *, op: str, type: str) -> Value:
    """d = the sum, least or greatest ``a`` of the members, in all of them."""
    signed = type_of(type).signed
    if op == "add":
        return _reduce(lanes, a, membermask, 0, lanes.add)
    least = op == "min"
    if least:
        identity = 0x7FFFFFFF if signed else ALL
    else:
        identity = 0x80000000 if signed else 0
    order = "lt" if least else "gt"
    return _reduce(lanes, a, membermask, identity, lambda x, y: lanes.select(lanes.compare(order, y, x, signed), y, x))


@instruction(
    "redux.sync.{op:and|or|xor}.b32", d="out b32", a="in b32", membermask="in b32", convergent=True, since=(7, 0), sm=80,
    examples=[("redux.sync.and.b32", (6, ALL), (6,)), ("redux.sync.xor.b32", (6, 7), (6,))],
)  # fmt: skip
def redux_bits(lanes: Lanes, a: Value, membermask: Value, *, op: str) -> Value:
    """d = the bits of the members' ``a`` combined, in all of them."""
    combine = {"and": lanes.and_, "or": lanes.or_, "xor": lanes.xor}[op]
    return _reduce(lanes, a, membermask, ALL if op == "and" else 0, combine)


def _number(lanes: Lanes, a: Value) -> Value:
    """Floats in an order of unsigned numbers: negative ones reversed, the others above them."""
    sign = lanes.const(0x80000000, 32)
    negative = lanes.compare("ne", lanes.and_(a, sign), lanes.const(0, 32))
    return lanes.select(negative, lanes.not_(a), lanes.or_(a, sign))


def _float(lanes: Lanes, number: Value) -> Value:
    sign = lanes.const(0x80000000, 32)
    positive = lanes.compare("ne", lanes.and_(number, sign), lanes.const(0, 32))
    return lanes.select(positive, lanes.xor(number, sign), lanes.not_(number))


@instruction(
    "redux.sync.{op:min|max}.{absolute:abs}?.{nan:NaN}?.f32", d="out f32", a="in f32", membermask="in b32", convergent=True, since=(8, 6),
    sm=100, specific="f",
    examples=[("redux.sync.min.f32", (0xBF800000, ALL), (0xBF800000,)), ("redux.sync.max.abs.f32", (0xBF800000, 7), (0x3F800000,)),
              ("redux.sync.max.f32", (0x7FC00001, ALL), (0x7FFFFFFF,)), ("redux.sync.min.NaN.f32", (0xFFC00000, 1), (0x7FFFFFFF,))],
)  # fmt: skip
def redux_float(lanes: Lanes, a: Value, membermask: Value, *, op: str, absolute: str, nan: str) -> Value:
    """d = the least or greatest ``a`` of the members; NaNs are left out, with .NaN one of them gives a NaN; abs: of their magnitudes."""
    if absolute:
        a = lanes.and_(a, lanes.const(0x7FFFFFFF, 32))
    size = lanes.and_(a, lanes.const(0x7FFFFFFF, 32))
    nans = lanes.compare("gt", size, lanes.const(0x7F800000, 32))
    members = _members(lanes, membermask)
    bad = lanes.and_(lanes.ballot(nans), members)
    # A NaN is the neutral number: no float has it, and what is left of nothing but NaNs is one.
    identity, order = (ALL, "lt") if op == "min" else (0, "gt")
    number = lanes.select(nans, lanes.const(identity, 32), _number(lanes, a))
    found = _reduce(lanes, number, membermask, identity, lambda x, y: lanes.select(lanes.compare(order, y, x), y, x))
    wanted = lanes.compare("ne", bad, lanes.const(0, 32)) if nan else lanes.compare("eq", bad, members)
    return lanes.select(wanted, lanes.const(0x7FFFFFFF, 32), _float(lanes, found))


@instruction("elect.sync", d="out b32", p="out pred |", membermask="in b32", convergent=True, since=(8, 0), sm=90)
def elect(lanes: Lanes, membermask: Value) -> tuple[Value, Value]:
    """d = the elected lane, p = is it this one? The manual leaves open which lane it is; here the lowest member."""
    members = _members(lanes, membermask)
    lowest = lanes.and_(members, lanes.sub(lanes.const(0, 32), members))
    elected = lanes.sub(lanes.const(31, 32), lanes.leading_zeros(lowest))
    return elected, lanes.compare("eq", elected, lanes.special("laneid"))
