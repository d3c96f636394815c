"""What only concerns caches: policies, discarded lines, fetched tensor maps (PTX ISA manual, "createpolicy", "discard", "prefetch").

Invariant: a policy changes no other result. Its 64 bits, which the manual leaves open, are those that ptxas has code of sm_80 to sm_90 compute: in
the upper word, from the top, a kind (12 bits) and either a sixteenth of the fraction (4) and nothing, or the size of a block of memory (4), the first block
(8, of which 7 are used) and how many more there are (7).
"""

from __future__ import annotations

from ptxgraft.isa import approximate
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

PRIORITIES = (
    "{primary:L2::evict_last|L2::evict_normal|L2::evict_first|L2::evict_unchanged}.{secondary:L2::evict_first|L2::evict_unchanged}?"
)
_FRACTION, _RANGE = 0x100, 0x180
_PRIMARY = {"L2::evict_unchanged": 0x00, "L2::evict_first": 0x20, "L2::evict_last": 0x40, "L2::evict_normal": 0x60}
_KIND = 20
"""Where the kind's lowest four bits lie in the upper word: those are the fraction's, or the block size's."""
_STEPS = 0x417FD70A
"""15.99 as f32: what a fraction is multiplied by, and cut."""


def _kind(base: int, primary: str, secondary: str) -> int:
    return base | _PRIMARY[primary] | (0x10 if secondary == "L2::evict_first" else 0)


@instruction(
    f"createpolicy.fractional.{PRIORITIES}.b64", d="out b64", fraction="in f32 ?", since=(7, 4), sm=80,
    examples=[
        ("createpolicy.fractional.L2::evict_last.b64", (0x3F800000,), (0x14F00000 << 32,)),
        ("createpolicy.fractional.L2::evict_first.b64", (0x3F000000,), (0x12700000 << 32,)),
        ("createpolicy.fractional.L2::evict_normal.L2::evict_first.b64", (0x3E000000,), (0x17100000 << 32,)),
    ],
)  # fmt: skip
def createpolicy(lanes: Lanes, fraction: Value, *, primary: str, secondary: str) -> Value:
    """A cache policy: one priority for a fraction of the accesses (all of them where it is left out), another for the rest."""
    sixteenths = lanes.const(15, 32)
    if fraction is not None:
        steps = lanes.float_to_int("f32", lanes.float_mul("f32", fraction, lanes.const(_STEPS, 32)), 32, False, "rzi")
        sixteenths = lanes.and_(steps, sixteenths)
    word = lanes.or_(lanes.const(_kind(_FRACTION, primary, secondary), 32), sixteenths)
    return lanes.concat([lanes.const(0, 32), lanes.shift_left(word, lanes.const(_KIND, 32))])


@instruction(
    f"createpolicy.range.{{space:global}}?.{PRIORITIES}.b64", d="out b64", a="addr", size="in u32", total="in u32", since=(7, 4), sm=80
)
def createpolicy_range(lanes: Lanes, a: Value, size: Value, total: Value, *, primary: str, secondary: str) -> Value:
    """A cache policy: one priority for ``size`` bytes from [a], another for the rest of ``total``. Blocks are a 128th of it, at least 4 KiB."""
    logarithm = approximate.lg2(lanes, lanes.int_to_float(total, False, "f32"))
    bits = lanes.sub(lanes.float_to_int("f32", logarithm, 32, False, "rpi"), lanes.const(7, 32))
    least = lanes.const(12, 32)
    bits = lanes.select(lanes.compare("lt", bits, least, signed=True), least, bits)
    reach = lanes.add(lanes.sub(size, lanes.const(1, 32)), lanes.shift_left(lanes.const(1, 32), bits))
    first = lanes.shift_right(a, bits)
    more = lanes.sub(lanes.shift_right(lanes.add(a, lanes.resize(reach, 64)), bits), first)
    most = lanes.const(127, 64)
    more = lanes.select(lanes.compare("gt", more, most), most, more)

    def field(value: Value, mask: int, place: int) -> Value:
        return lanes.shift_left(lanes.and_(lanes.resize(value, 32), lanes.const(mask, 32)), lanes.const(place, 32))

    word = lanes.const(_kind(_RANGE, primary, secondary) << _KIND, 32)
    for part in (field(lanes.sub(bits, least), 15, _KIND), field(first, 127, 12), field(more, 127, 5)):
        word = lanes.or_(word, part)
    word = lanes.select(lanes.compare("eq", total, lanes.const(0, 32)), lanes.const(_RANGE << _KIND, 32), word)
    return lanes.concat([lanes.const(0, 32), word])


@instruction("createpolicy.cvt.L2.b64", d="out b64", a="in b64", since=(7, 4), sm=80, examples=[("createpolicy.cvt.L2.b64", (5,), (5,))])
def createpolicy_cvt(lanes: Lanes, a: Value) -> Value:
    """A cache policy of an access property, which is one already."""
    return a


@instruction("discard.{space:global}?.L2", a="addr", size="text", since=(7, 4), sm=80)
def discard(lanes: Lanes, a: Value, size: Value) -> None:
    """Nothing: 128 bytes may lose their value, and do not."""


@instruction("prefetch.{space:const|param}?.tensormap", a="addr", since=(8, 0), sm=90)
def prefetch_tensormap(lanes: Lanes, a: Value) -> None:
    """Nothing: a tensor map would be fetched."""


@instruction("prefetch.{space:global}?.valid_addr.L1::32B", a="addr", since=(9, 4), sm=90)
def prefetch_valid(lanes: Lanes, a: Value) -> None:
    """Nothing: 32 bytes would be fetched."""


@instruction(
    "applypriority.async.bulk.{space:global}?.bulk_group.L2::evict_normal", a="addr", size="in u32", since=(9, 4), sm=107, specific="f"
)
def applypriority_bulk(lanes: Lanes, a: Value, size: Value) -> None:
    """Nothing: the eviction priority of ``size`` bytes would change."""


@instruction(
    f"createpolicy.range.fabric.{PRIORITIES}.b64", d="out b64", a="resource u64", size="in u32", total="in u32", since=(9, 4), sm=100
)
@refused("createpolicy.range of memory gives a policy that changes as little here; what stands in one of a fabric no code shows")
def createpolicy_fabric(lanes: Lanes) -> None:
    """A cache policy of a range behind an endpoint of a fabric."""
