"""Loads, stores and atomics in LLVM text: the fast ways to do what ``warp_access`` does lane by lane.

Invariant: a fast path is taken only where every active lane's access is inside one allocation (or segment) as a whole and aligned; what it does then is
what the checked path would have done. Everything else, each fault included, goes through the checked path.

How an access is tried: lanes in groups (16: half a warp). If all lanes are active and each group's addresses are one address or neighbours, a group is one
load or store; else the lowest and highest address of the active lanes are looked up together and the lanes are gathered or scattered.
Which allocation to compare with is remembered for each place in the program (its ``site``), as in a cache of one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ptxgraft.lower.ir import Emitter, Val
from ptxgraft.lower.warp_access import ATOMIC_BIT, STORE_BIT, access_code
from ptxgraft.lower.warp_fields import Fields
from ptxgraft.lower.warp_lanewise import lanewise
from ptxgraft.lower.warp_state import LANES, LAUNCH, RECORD, WARP, slot_bytes

FAILED = "failed"
"""The block to go to when a fault has been written down."""

TABLES = ("global", "const", "generic")
"""Spaces whose addresses are looked up among allocations."""


@dataclass(slots=True)
class Segment:
    """Where addresses of a space lie: ``base`` .. ``base + size - 1``, at host address ``+ delta`` (i64 text each).
    ``pointer`` is where an i32 remembers its number, if anything does, for the instruction ``site``."""

    base: str
    size: str
    delta: str
    pointer: str = ""
    site: int = -1


@dataclass(slots=True)
class Affine:
    """An address as one number for all lanes plus a vector that seldom changes: ``scalar`` (i32 or i64 text) and ``vector``, of ``width`` bits; the sum
    wraps at the width and is extended with zeros."""

    scalar: str
    vector: str
    width: int


class Memory(Fields):
    """The memory part of a machine. ``w`` is the name of the warp's pointer, ``index`` that of the instruction's number, ``bits`` the active lanes
    (i32 text both), ``mask`` the same as a predicate. The owner sets them before each statement. ``grouped``: are groups tried?"""

    group = LANES // 2
    grouped = True
    argument_bytes = 0
    """Bytes that every launch's argument block has at least."""

    def __init__(self, out: Emitter, w: str = "%w") -> None:
        super().__init__(out, w)
        self.activate("-1")
        self.index = "0"
        self.can_fail = False
        self.affine: dict[Val, Affine] = {}

    def activate(self, bits: str) -> None:
        """Make these the active lanes."""
        self._bits = bits
        self.mask = Val(self.out.deferred(lambda: f"bitcast i32 {bits} to <{LANES} x i1>"), 1)

    def idle(self) -> None:
        """The statement that comes has no effects, and so no active lanes to ask for."""
        self._bits = ""

    @property
    def bits(self) -> str:
        """The active lanes (i32 text)."""
        assert self._bits, "a meaning with effects whose form says that it has none (warp_statement.EFFECTIVE)"
        return self._bits

    def remembered(self) -> Segment:
        """The allocation that this place in the program met last (or any other)."""
        raise NotImplementedError

    def missed(self, segment: Segment) -> None:
        """The site may remember another allocation now."""

    def function(self, space: str, width: int, count: int, store: bool) -> tuple[str, str] | None:
        """The function that does this access (``warp_called``) and a pointer to what its site remembers; None: it is written out in place."""
        return None

    def call(self, function: tuple[str, str], address: Val, values: str) -> None:
        """Let a function do the access, between memory and ``values``."""
        name, site = function
        given = f"ptr {self.w}, ptr {self.fill(address)}, ptr {values}, i32 {self.bits}, i32 {self.index}, ptr {site}"
        self.require(self.out.value(f"call i1 @{name}({given})"))

    # -- text ---------------------------------------------------------------------------------------------------------
    def require(self, condition: str) -> None:
        """Go on if the i1 ``condition`` holds, else to ``FAILED``."""
        self.can_fail = True
        label = self.out.fresh_label("ok")
        self.branch(condition, label, FAILED)
        self.out.label(label)

    def vector(self, a: Val, width: int, count: int = LANES) -> str:
        """``a`` as a vector of ``width`` bits: its name."""
        if not a.uniform:
            return a.name
        if isinstance(a.const, int):
            return f"splat (i{width} {a.name})"
        return self.splat(a.name, width, count)

    def addresses(self, address: Val) -> str:
        """The lanes' addresses as a vector of i64, written where it is needed: an affine address is not, on the fast path."""
        parts = self.affine.get(address)
        if parts is None:
            return self.vector(address, 64)
        type = f"<{LANES} x i{parts.width}>"
        total = self.out.value(f"add {type} {parts.vector}, {self.splat(parts.scalar, parts.width)}")
        return total if parts.width == 64 else self.out.value(f"zext {type} {total} to <{LANES} x i64>")

    def fill(self, address: Val) -> str:
        """Store the lanes' addresses where the runtime reads them; returns the pointer."""
        place = self.out.slot("addresses", f"<{LANES} x i64>")
        self.out.emit(f"store <{LANES} x i64> {self.addresses(address)}, ptr {place}, align 64")
        return place

    def lanes_of(self, bits: str) -> str:
        """A mask of bits as a vector of predicates."""
        return self.out.value(f"bitcast i32 {bits} to <{LANES} x i1>")

    # -- the checked path ---------------------------------------------------------------------------------------------
    def stored(self, values: str, type: str, width: int, i: int) -> Val:
        """Element ``i`` of what the runtime left in memory. Lanes that took no part get zeros: the same bits in every executor."""
        raw = self.out.value(f"load {type}, ptr {self.address(values, i * slot_bytes(width))}, align {min(64, width * 4)}")
        return Val(self.out.value(f"select <{LANES} x i1> {self.lanes_of(self.bits)}, {type} {raw}, {type} zeroinitializer"), width)

    def rest(self, space: str, address: Val, values: str, width: int, count: int, store: bool, segment: Segment) -> None:
        """Gather, scatter, or lane by lane: between memory and ``values``."""
        function = lanewise(self.out.module, space, width, count, store)
        addresses = self.fill(address)
        site = segment.pointer or "null"
        given = f"ptr {self.w}, ptr {addresses}, ptr {values}, i32 {self.bits}, i32 {self.index}"
        tried = f"i64 {segment.base}, i64 {segment.size}, i64 {segment.delta}, ptr {site}"
        self.require(self.out.value(f"call i1 @{function}({given}, {tried})"))
        if segment.pointer:
            self.missed(segment)

    def values(self, width: int, count: int) -> str:
        return self.out.slot(("values", width, count), f"[{count} x <{LANES} x i{width}>]")

    # -- segments -----------------------------------------------------------------------------------------------------
    def segment(self, space: str) -> Segment:
        """The segment to try."""
        out = self.out
        if space in TABLES:
            return self.remembered()
        launch = self.launch()
        if space == "host":
            return self.record(self.field(LAUNCH, launch, "hosts"))
        if space in ("shared", "local"):
            start = self.field(WARP, self.w, space)
        else:
            start = self.field(LAUNCH, launch, "param")
        size = out.value(f"zext i32 {self.field(LAUNCH, launch, space + '_bytes')} to i64")
        return Segment("0", size, out.value(f"ptrtoint ptr {start} to i64"))

    def record(self, record: str, pointer: str = "") -> Segment:
        base = self.field(RECORD, record, "base")
        size = self.out.value(f"sub i64 {self.field(RECORD, record, 'end')}, {base}")
        return Segment(base, size, self.field(RECORD, record, "delta"), pointer)

    def inside(self, segment: Segment, address: str, span: int | str, align: int) -> str:
        """i1: do ``span`` bytes from ``address`` lie in the segment, ``address`` a multiple of ``align``?"""
        out = self.out
        offset = out.value(f"sub i64 {address}, {segment.base}") if segment.base != "0" else address
        held = out.value(f"icmp ule i64 {offset}, {segment.size}")
        room = out.value(f"icmp uge i64 {out.value(f'sub i64 {segment.size}, {offset}')}, {span}")
        ok = out.value(f"and i1 {held}, {room}")
        if align > 1:
            even = out.value(f"icmp eq i64 {out.value(f'and i64 {address}, {align - 1}')}, 0")
            ok = out.value(f"and i1 {ok}, {even}")
        return ok

    def host(self, segment: Segment, address: str) -> str:
        """The host pointer of an address in the segment."""
        return self.out.value(f"inttoptr i64 {self.out.value(f'add i64 {address}, {segment.delta}')} to ptr")

    # -- loads --------------------------------------------------------------------------------------------------------
    def load(self, space: str, address: Val, width: int, count: int) -> tuple[Val, ...]:
        if address.uniform and space not in ("local", "generic"):  # one address of local memory is another word for each lane
            return self.load_one(space, address, width, count)
        out, type = self.out, f"<{LANES} x i{width}>"
        function = self.function(space, width, count, False)
        if function is not None:
            values = self.values(width, count)
            self.call(function, address, values)
            return tuple(
                Val(out.value(f"load {type}, ptr {self.address(values, i * slot_bytes(width))}, align {min(64, width * 4)}"), width)
                for i in range(count)
            )
        segment = self.segment(space)
        done, rest = out.fresh_label("loaded"), out.fresh_label("rest")
        ways: list[tuple[str, list[str]]] = []
        if self.grouped and space != "local":
            bytes_ = width // 8 * count
            if self.may_be_row(address, count):
                row, groups = out.fresh_label("row"), out.fresh_label("try")
                ok, first = self.row(segment, address, bytes_, 1 if space == "host" else bytes_)
                self.branch(ok, row, groups)
                out.label(row)
                ways.append((row, [out.value(f"load {type}, ptr {self.host(segment, first)}, align 1")]))
                out.emit(f"br label %{done}")
                out.label(groups)
            ways.append(self.load_groups(segment, address, width, count, 1 if space == "host" else bytes_, rest, done))
            out.label(rest)
        values = self.values(width, count)
        self.rest(space, address, values, width, count, False, segment)
        found = [self.stored(values, type, width, i) for i in range(count)]
        if not ways:
            return tuple(found)
        ways.append((out.block, [v.name for v in found]))
        out.emit(f"br label %{done}")
        out.label(done)
        return tuple(Val(self.phi(type, [(block, found[i]) for block, found in ways]), width) for i in range(count))

    def phi(self, type: str, ways: Sequence[tuple[str, str]]) -> str:
        return self.out.value(f"phi {type} " + ", ".join(f"[ {value}, %{block} ]" for block, value in ways))

    def load_one(self, space: str, address: Val, width: int, count: int) -> tuple[Val, ...]:
        """All lanes read one address: scalars."""
        out = self.out
        bytes_ = width // 8 * count
        segment = self.segment(space)
        if (
            space == "param"
            and isinstance(address.const, int)
            and not address.const % bytes_
            and address.const + bytes_ <= self.argument_bytes
        ):
            pointer = self.host(segment, address.name)
            return tuple(
                Val(out.value(f"load i{width}, ptr {self.address(pointer, i * width // 8)}, align 1"), width, True) for i in range(count)
            )
        fast, slow, done = out.fresh_label("one"), out.fresh_label("slow"), out.fresh_label("loaded")
        some = out.value(f"icmp ne i32 {self.bits}, 0")
        ok = self.inside(segment, address.name, bytes_, 1 if space == "host" else bytes_)
        self.branch(out.value(f"and i1 {ok}, {some}"), fast, slow)
        out.label(fast)
        pointer = self.host(segment, address.name)
        scalars = [out.value(f"load i{width}, ptr {self.address(pointer, i * width // 8)}, align 1") for i in range(count)]
        ways = [(out.block, scalars)]
        out.emit(f"br label %{done}")
        out.label(slow)
        values = self.values(width, count)
        for i in range(count):  # no lane may be active: then nothing is stored there
            out.emit(
                f"store <{LANES} x i{width}> zeroinitializer, ptr {self.address(values, i * slot_bytes(width))}, align {min(64, width * 4)}"
            )
        self.rest(space, address, values, width, count, False, segment)
        first = self.first_lane()
        scalars = [
            out.value(
                f"load i{width}, ptr {out.value(f'getelementptr i{width}, ptr {self.address(values, i * slot_bytes(width))}, i64 {first}')}, align 1"
            )
            for i in range(count)
        ]
        ways.append((out.block, scalars))
        out.emit(f"br label %{done}")
        out.label(done)
        return tuple(Val(self.phi(f"i{width}", [(block, found[i]) for block, found in ways]), width, True) for i in range(count))

    def first_lane(self) -> str:
        """The number (i64) of the first active lane; 0 when there is none."""
        self.out.declare("declare i32 @llvm.cttz.i32(i32, i1)")
        lane = self.out.value(f"call i32 @llvm.cttz.i32(i32 {self.bits}, i1 false)")
        return self.out.value(f"zext i32 {self.out.value(f'and i32 {lane}, 31')} to i64")

    def last_lane(self) -> str:
        """The number (i64) of the last active lane, of which there is one."""
        self.out.declare("declare i32 @llvm.ctlz.i32(i32, i1)")
        zeros = self.out.value(f"call i32 @llvm.ctlz.i32(i32 {self.bits}, i1 false)")
        lane = self.out.value(f"xor i32 {self.out.value(f'and i32 {zeros}, 31')}, 31")
        return self.out.value(f"zext i32 {lane} to i64")

    # -- the whole warp -----------------------------------------------------------------------------------------------
    def may_be_row(self, address: Val, count: int) -> bool:
        """Is it worth a try that all lanes are neighbours? Of an affine address that is known before a loop, for groups as for the warp."""
        return count == 1 and not address.uniform and address not in self.affine

    def row(self, segment: Segment, address: Val, bytes_: int, align: int) -> tuple[str, str]:
        """(i1: all lanes are active, and their addresses neighbours inside the segment; the first address, i64)."""
        out, name = self.out, self.vector(address, 64)
        first = out.value(f"extractelement <{LANES} x i64> {name}, i64 0")
        offsets = out.value(f"sub <{LANES} x i64> {name}, {self.splat(first, 64)}")
        steps = ", ".join(f"i64 {i * bytes_}" for i in range(LANES))
        near = self.every(f"icmp eq <{LANES} x i64> {offsets}, <{steps}>", LANES)
        all_ = out.value(f"icmp eq i32 {self.bits}, -1")
        there = self.inside(segment, first, bytes_ * LANES, align)
        return out.value(f"and i1 {out.value(f'and i1 {all_}, {near}')}, {there}"), first

    # -- groups of lanes ----------------------------------------------------------------------------------------------
    def classify(self, segment: Segment, address: Val, bytes_: int, align: int) -> tuple[str, list[tuple[str, str]]]:
        """(i1: all lanes are active and every group is one address or neighbours inside the segment,
        for each group its first address (i64) and i1: is it one address?)."""
        out, size = self.out, self.group
        ok = out.value(f"icmp eq i32 {self.bits}, -1")
        parts = self.affine.get(address)
        # Of an affine address the vector alone says how the lanes lie to each other, and in a loop that is known before it.
        name, type = (self.vector(address, 64), "i64") if parts is None else (parts.vector, f"i{parts.width}")
        steps = ", ".join(f"{type} {i * bytes_}" for i in range(size))
        firsts: list[str] = []
        same_each: list[str] = []
        for start in range(0, LANES, size):
            order = ", ".join(f"i32 {start + i}" for i in range(size))
            part = out.value(f"shufflevector <{LANES} x {type}> {name}, <{LANES} x {type}> poison, <{size} x i32> <{order}>")
            first = out.value(f"extractelement <{size} x {type}> {part}, i64 0")
            offsets = out.value(f"sub <{size} x {type}> {part}, {self.splat(first, int(type[1:]), size)}")
            near = self.every(f"icmp eq <{size} x {type}> {offsets}, <{steps}>", size)
            same = self.every(f"icmp eq <{size} x {type}> {offsets}, zeroinitializer", size)
            ok = out.value(f"and i1 {ok}, {out.value(f'or i1 {near}, {same}')}")
            firsts.append(first)
            same_each.append(same)
        whole = [self.whole_address(first, parts) for first in firsts]
        if type == "i64" or segment.base == "0":
            there = self.all_inside(segment, firsts, type, parts, same_each, bytes_, align)
        else:  # sums of 32 bits may wrap inside a segment
            there = "true"
            for first, same in zip(whole, same_each, strict=True):
                span = out.value(f"select i1 {same}, i64 {bytes_}, i64 {bytes_ * size}")
                there = out.value(f"and i1 {there}, {self.inside(segment, first, span, align)}")
        return out.value(f"and i1 {ok}, {there}"), list(zip(whole, same_each, strict=True))

    def whole_address(self, first: str, parts: Affine | None) -> str:
        """A lane's address (i64 text) from its part in the vector."""
        if parts is None:
            return first
        total = self.out.value(f"add i{parts.width} {first}, {parts.scalar}")
        return total if parts.width == 64 else self.out.value(f"zext i32 {total} to i64")

    def all_inside(
        self, segment: Segment, firsts: Sequence[str], type: str, parts: Affine | None, same: Sequence[str], bytes_: int, align: int
    ) -> str:
        """i1: do both groups lie in the segment? They are tried as one span, from the lower one's first address to the higher one's end; where that would
        wrap, the answer is no."""
        out, (one, other) = self.out, firsts
        less = out.value(f"icmp ult {type} {one}, {other}")
        low, high = (out.value(f"select i1 {less}, {type} {x}, {type} {y}") for x, y in ((one, other), (other, one)))
        gap = out.value(f"sub {type} {high}, {low}")
        gap = gap if type == "i64" else out.value(f"zext {type} {gap} to i64")
        single = out.value(f"and i1 {same[0]}, {same[1]}")
        span = out.value(f"add i64 {gap}, {out.value(f'select i1 {single}, i64 {bytes_}, i64 {bytes_ * self.group}')}")
        there = self.inside(segment, self.whole_address(low, parts), span, align)
        if type == "i64":
            there = out.value(f"and i1 {there}, {out.value(f'icmp ult i64 {gap}, {1 << 62}')}")
        if align > 1:
            apart = out.value(f"icmp eq i64 {out.value(f'and i64 {gap}, {align - 1}')}, 0")
            there = out.value(f"and i1 {there}, {apart}")
        return there

    def every(self, comparison: str, size: int) -> str:
        bits = self.out.value(f"bitcast <{size} x i1> {self.out.value(comparison)} to i{size}")
        return self.out.value(f"icmp eq i{size} {bits}, -1")

    def load_groups(
        self, segment: Segment, address: Val, width: int, count: int, align: int, otherwise: str, done: str
    ) -> tuple[str, list[str]]:
        """Load by groups and go to ``done``, or go ``otherwise`` where that is not possible."""
        out, size = self.out, self.group
        fits, groups = self.classify(segment, address, width // 8 * count, align)
        fast = out.fresh_label("groups")
        self.branch(fits, fast, otherwise)
        out.label(fast)
        parts = [self.load_group(segment, first, same, width, count) for first, same in groups]
        found = []
        for i in range(count):
            value, have = parts[0][i], size
            for part in parts[1:]:
                value, have = self.join(value, part[i], have, width), have + size
            found.append(value)
        block = out.block
        out.emit(f"br label %{done}")
        return block, found

    def join(self, low: str, high: str, size: int, width: int) -> str:
        order = ", ".join(f"i32 {i}" for i in range(2 * size))
        return self.out.value(f"shufflevector <{size} x i{width}> {low}, <{size} x i{width}> {high}, <{2 * size} x i32> <{order}>")

    def load_group(self, segment: Segment, first: str, same: str, width: int, count: int) -> list[str]:
        """One group's elements as vectors of its size."""
        out, size = self.out, self.group
        one, many, done = out.fresh_label("same"), out.fresh_label("near"), out.fresh_label("group")
        pointer = self.host(segment, first)
        self.branch(same, one, many)
        out.label(one)
        singles = [
            self.splat(out.value(f"load i{width}, ptr {self.address(pointer, i * width // 8)}, align 1"), width, size) for i in range(count)
        ]
        out.emit(f"br label %{done}")
        out.label(many)
        whole = out.value(f"load <{size * count} x i{width}>, ptr {pointer}, align 1")
        plenty = [whole] if count == 1 else [self.pick(whole, width, count, i) for i in range(count)]
        out.emit(f"br label %{done}")
        out.label(done)
        return [self.phi(f"<{size} x i{width}>", [(one, s), (many, p)]) for s, p in zip(singles, plenty, strict=True)]

    def pick(self, whole: str, width: int, count: int, i: int) -> str:
        """Element ``i`` of each lane's ``count`` neighbours."""
        size = self.group
        order = ", ".join(f"i32 {lane * count + i}" for lane in range(size))
        type = f"<{size * count} x i{width}>"
        return self.out.value(f"shufflevector {type} {whole}, {type} poison, <{size} x i32> <{order}>")

    # -- stores -------------------------------------------------------------------------------------------------------
    def store(self, space: str, address: Val, values: Sequence[Val]) -> None:
        out, width, count = self.out, values[0].width, len(values)
        align = 1 if space == "host" else width // 8 * count
        names = [self.vector(v, width) for v in values]
        function = None if address.uniform else self.function(space, width, count, True)
        if function is not None:
            place = self.values(width, count)
            self.put_values(names, width, place)
            self.call(function, address, place)
            return
        segment = self.segment(space)
        done, rest, free = out.fresh_label("stored"), out.fresh_label("rest"), out.fresh_label("free")
        quick = space not in ("local", "param") and (address.uniform or self.grouped)
        if quick:
            watches = self.field(LAUNCH, self.launch(), "watch_count")
            self.branch(out.value(f"icmp eq i64 {watches}, 0"), free, rest)
            out.label(free)
            (self.store_one if address.uniform else self.store_groups)(segment, address, names, width, align, rest, done)
            out.label(rest)
        place = self.values(width, count)
        self.put_values(names, width, place)
        self.rest(space, address, place, width, count, True, segment)
        if quick:
            out.emit(f"br label %{done}")
            out.label(done)

    def put_values(self, names: Sequence[str], width: int, place: str) -> None:
        """Store vectors where the runtime reads them."""
        for i, name in enumerate(names):
            pointer = self.address(place, i * slot_bytes(width))
            self.out.emit(f"store <{LANES} x i{width}> {name}, ptr {pointer}, align {min(64, width * 4)}")

    def store_one(self, segment: Segment, address: Val, names: Sequence[str], width: int, align: int, otherwise: str, done: str) -> None:
        """All lanes write one address: the last one's value stays."""
        out = self.out
        fast = out.fresh_label("one")
        ok = self.inside(segment, address.name, width // 8 * len(names), align)
        some = out.value(f"icmp ne i32 {self.bits}, 0")
        self.branch(out.value(f"and i1 {ok}, {some}"), fast, otherwise)
        out.label(fast)
        pointer, lane = self.host(segment, address.name), self.last_lane()
        for i, name in enumerate(names):
            value = out.value(f"extractelement <{LANES} x i{width}> {name}, i64 {lane}")
            out.emit(f"store i{width} {value}, ptr {self.address(pointer, i * width // 8)}, align 1")
        out.emit(f"br label %{done}")

    def store_groups(self, segment: Segment, address: Val, names: Sequence[str], width: int, align: int, otherwise: str, done: str) -> None:
        out, size, count = self.out, self.group, len(names)
        if self.may_be_row(address, count):
            row, tried = out.fresh_label("row"), out.fresh_label("try")
            ok, first = self.row(segment, address, width // 8, align)
            self.branch(ok, row, tried)
            out.label(row)
            out.emit(f"store <{LANES} x i{width}> {names[0]}, ptr {self.host(segment, first)}, align 1")
            out.emit(f"br label %{done}")
            out.label(tried)
        fits, groups = self.classify(segment, address, width // 8 * count, align)
        fast = out.fresh_label("groups")
        self.branch(fits, fast, otherwise)
        out.label(fast)
        for number, (first, same) in enumerate(groups):
            start = number * size
            one, many, then = out.fresh_label("same"), out.fresh_label("near"), out.fresh_label("group")
            pointer = self.host(segment, first)
            self.branch(same, one, many)
            out.label(one)
            for i, name in enumerate(names):
                value = out.value(f"extractelement <{LANES} x i{width}> {name}, i64 {start + size - 1}")
                out.emit(f"store i{width} {value}, ptr {self.address(pointer, i * width // 8)}, align 1")
            out.emit(f"br label %{then}")
            out.label(many)
            out.emit(f"store <{size * count} x i{width}> {self.mixed(names, width, start)}, ptr {pointer}, align 1")
            out.emit(f"br label %{then}")
            out.label(then)
        out.emit(f"br label %{done}")

    def mixed(self, names: Sequence[str], width: int, start: int) -> str:
        """The elements of a group's lanes in the order of memory."""
        out, size, count = self.out, self.group, len(names)
        if count == 1:
            order = ", ".join(f"i32 {start + i}" for i in range(size))
            return out.value(f"shufflevector <{LANES} x i{width}> {names[0]}, <{LANES} x i{width}> poison, <{size} x i32> <{order}>")
        pool, have = list(names), LANES
        while len(pool) > 1:
            pool = [self.join(a, b, have, width) for a, b in zip(pool[::2], [*pool[1::2], pool[-1]][: len(pool[::2])], strict=True)]
            have *= 2
        order = ", ".join(f"i32 {i * LANES + start + lane}" for lane in range(size) for i in range(count))
        type = f"<{have} x i{width}>"
        return out.value(f"shufflevector {type} {pool[0]}, {type} poison, <{size * count} x i32> <{order}>")

    # -- atomics ------------------------------------------------------------------------------------------------------
    def atomic(self, space: str, address: Val, width: int, update: Callable[[Val], Val]) -> Val:
        """One lane after another, lowest first, all addresses checked before the first."""
        out, type = self.out, f"<{LANES} x i{width}>"
        code = access_code(space, width, 1, STORE_BIT | ATOMIC_BIT)
        given = f"ptr {self.w}, ptr {self.fill(address)}, i32 {self.bits}, i32 {self.index}, i32 {code}"
        self.require(out.value(f"call i1 {self.runtime('place')}({given})"))
        results = self.values(width, 1)
        loop, done, before = out.fresh_label("lane"), out.fresh_label("done"), out.block
        self.branch(out.value(f"icmp ne i32 {self.bits}, 0"), loop, done)
        out.label(loop)
        left, rest, end = out.fresh("left"), out.fresh("rest"), out.fresh_label("next")
        out.emit(f"{left} = phi i32 [ {self.bits}, %{before} ], [ {rest}, %{end} ]")
        out.declare("declare i32 @llvm.cttz.i32(i32, i1)")
        lane = out.value(f"zext i32 {out.value(f'call i32 @llvm.cttz.i32(i32 {left}, i1 true)')} to i64")
        found = self.address(self.w, WARP["found"])
        host = out.value(f"load i64, ptr {out.value(f'getelementptr i64, ptr {found}, i64 {lane}')}, align 8")
        pointer = out.value(f"inttoptr i64 {host} to ptr")
        old = Val(out.value(f"load i{width}, ptr {pointer}, align 1"), width, True)
        new = update(old)
        bits = new.name if new.uniform else out.value(f"extractelement {new.typed}, i64 {lane}")
        out.emit(f"store i{width} {bits}, ptr {pointer}, align 1")
        out.emit(f"store i{width} {old.name}, ptr {out.value(f'getelementptr i{width}, ptr {results}, i64 {lane}')}, align {width // 8}")
        less = out.value(f"sub i32 {left}, 1")
        out.emit(f"br label %{end}")
        out.label(end)
        out.emit(f"{rest} = and i32 {left}, {less}")
        self.branch(out.value(f"icmp ne i32 {rest}, 0"), loop, done)
        out.label(done)
        out.emit(f"call void {self.runtime('note')}(ptr {self.w}, i32 {self.bits}, i32 {self.index}, i32 {code})")
        return self.stored(results, type, width, 0)
