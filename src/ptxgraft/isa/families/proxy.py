"""Fences between the ways to memory, and tensor maps (PTX ISA manual, "membar, fence", "tensormap.replace", "tensormap.cp_fenceproxy").

Invariant: fences order memory, which is in order already. A tensor map is 128 bytes that only hardware reads.
"""

from __future__ import annotations

from collections.abc import Mapping

from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

_INSTEAD = "a launch's maps stay as they are, since tensor copies do not run; on='cuda' runs it where the GPU has it"

SCOPE = "{scope:cta|cluster|gpu|sys}"


@instruction("fence.alias.sync_restrict::read.release.sys", since=(9, 5), sm=90)
@instruction("fence.proxy.alias.{sem:acquire|release}.sys", since=(9, 4), sm=90)
@instruction("fence.proxy.{proxies:generic::fabric|fabric::generic|fabric::fabric}.alias.{sem:acquire|release}.sys", since=(9, 3), sm=100)
@instruction("fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cluster", since=(9, 4), sm=90)
@instruction("fence.acquire.sync_restrict::shared::cluster.cluster", since=(8, 6), sm=90)
@instruction("fence.release.sync_restrict::shared::cta.cluster", since=(8, 6), sm=90)
@instruction("fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster", since=(8, 6), sm=90)
@instruction("fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster", since=(8, 6), sm=90)
@instruction(f"fence.proxy.tensormap::generic.release.{SCOPE}", since=(8, 3), sm=90)
def fence(lanes: Lanes) -> None:
    """Nothing: memory is in order."""


@instruction(f"fence.proxy.tensormap::generic.acquire.{SCOPE}", a="addr", size="text", since=(8, 3), sm=90)
def fence_tensormap(lanes: Lanes, a: Value, size: Value) -> None:
    """Nothing: memory is in order."""


@instruction(
    f"tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.{SCOPE}.sync.aligned", to="addr", source="addr", size="text",
    loads="shared", stores="global", convergent=True, since=(8, 3), sm=90,
)  # fmt: skip
def cp_fenceproxy(lanes: Lanes, to: Value, source: Value, size: Value) -> None:
    """Copy a tensor map of 128 bytes, which is in order at once."""
    for offset in range(0, 128, 16):
        place = lanes.const(offset, 64)
        lanes.store("global", lanes.add(to, place), lanes.load("shared", lanes.add(source, place), 64, 2))


_FIELDS = {
    "global_address": "in b64", "rank": "in b32", "box_dim": "in b32", "global_dim": "in b32", "global_stride": "in b64",
    "element_stride": "in b32", "elemtype": "text", "interleave_layout": "text", "swizzle_mode": "text", "swizzle_atomicity": "text",
    "fill_mode": "text",
}  # fmt: skip
_BY_DIMENSION = ("box_dim", "global_dim", "global_stride", "element_stride")


def _field(*, field: str, **rest: str) -> Mapping[str, str]:
    return {"value": _FIELDS[field], "ordinal": "text" if field in _BY_DIMENSION else ""}


def _field_legal(*, field: str, type: str, **rest: str) -> bool:
    return (type == "b64") == (_FIELDS[field] == "in b64")


for _names, _types, _since, _sm, _specific in (
    ([name for name in _FIELDS if name != "swizzle_atomicity"], "b32|b64", (8, 3), 90, "a"),
    (["swizzle_atomicity"], "b32", (8, 6), 100, "f"),
):

    @instruction(
        f"tensormap.replace.tile.{{field:{'|'.join(_names)}}}.{{space:global|shared::cta}}?.b1024.{{type:{_types}}}", a="addr",
        dimension="{ordinal}", value="{value}", loads="{space}", stores="{space}", derive=_field, legal=_field_legal, since=_since, sm=_sm,
        specific=_specific,
    )  # fmt: skip
    @refused(_INSTEAD)
    def tensormap_replace(lanes: Lanes) -> None:
        """Change one field of the tensor map at [a]."""


@instruction(
    "tensormap.replace.tile.{kind:alloc_small|alloc_large}.{space:global|shared::cta}?.b1024", a="addr", loads="{space}", stores="{space}",
    since=(9, 5), sm=90, specific="a",
)  # fmt: skip
@refused(_INSTEAD)
def tensormap_allocation(lanes: Lanes) -> None:
    """Say of the tensor map at [a] which class of allocation its tensor lies in."""


@instruction(
    "tensormap.query.alloc_class_large.{space:global|shared::cta}?.b1024",
    p="out pred",
    a="addr",
    loads="{space}",
    since=(9, 5),
    sm=90,
    specific="a",
)
@refused(_INSTEAD)
def tensormap_query(lanes: Lanes) -> None:
    """Does the tensor map at [a] say that its tensor lies in a large allocation?"""
