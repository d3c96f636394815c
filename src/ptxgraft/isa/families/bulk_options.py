"""Options of bulk copies (PTX ISA manual, "Asynchronous copy", "Tensor copy": what came with PTX 9.4).

Invariant: as in ``bulk``; what overrides a tensor map stands between it and the coordinates. A copy that reports what it has seen of its data has no
meaning here, since objects that keep reports have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgraft.isa.families.bulk import COUNTED, DIMENSIONS, HINT, INSTEAD_TENSOR, REDUCTIONS, WEAK, bulk_in, mode_legal, tensor_asked
from ptxgraft.isa.families.fabric import override_legal, override_parts
from ptxgraft.isa.lanes import Lanes, Value
from ptxgraft.isa.table import instruction, refused

_FAMILY: dict[str, Any] = {"since": (9, 4), "sm": 107, "specific": "f"}
_INSTEAD = "cp.async.bulk without a report copies; on='cuda' runs it where the GPU has it"
_WAYS = "|".join(f"per_16bytes::{pattern}" for pattern in ("80000000", "8000", "80", "8")) + "|per_element::ff"
REPORT = "mbarrier::report::disabled|" + "|".join(f"mbarrier::report::validity::{way}" for way in _WAYS.split("|"))
MULTICAST = "{multicast:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b}?"
OVERRIDE = "{address:override::global_address}?.{attribute:override::global_dim|override::global_dim_stride}?"


# -- plain copies ---------------------------------------------------------------------------------------------------------
def _mask(hint: str = "", multicast: str = "", **rest: str) -> Mapping[str, str]:
    return tensor_asked("1d", hint=hint, multicast=multicast)


@instruction(
    f"cp.async.bulk.{WEAK}.shared::cluster.global.{COUNTED}.{{multicast:multicast::cluster::32b}}.{HINT}", to="addr", source="addr", size="in u32",
    mbar="addr", cta_mask="{ctas}", policy="{policy}", loads="global", stores="shared", derive=_mask, **_FAMILY,
)  # fmt: skip
def bulk_in_many(
    lanes: Lanes, to: Value, source: Value, size: Value, mbar: Value, ctas: Value, policy: Value = None, *, multicast: str
) -> None:
    """Copy ``size`` bytes from global to shared memory of up to 32 blocks and count them at their mbarriers."""
    bulk_in(lanes, to, source, size, mbar, ctas, policy, multicast=multicast)


@instruction(
    f"cp.async.bulk.{WEAK}.{{dst:shared::cta|shared::cluster}}.global.{COUNTED}.{{report:{REPORT}}}.{MULTICAST}.{HINT}", to="addr", source="addr",
    size="in u32", mbar="addr", cta_mask="{ctas}", policy="{policy}", loads="global", stores="shared", derive=_mask,
    legal=lambda *, dst, multicast, **rest: dst != "shared::cta" or not multicast, **_FAMILY,
)  # fmt: skip
@refused(_INSTEAD)
def bulk_in_reported(lanes: Lanes) -> None:
    """As above, and tell the mbarrier whether data was seen that stands for none."""


@instruction("cp.async.bulk.prefetch.L2.global.L2::evict_last", source="addr", size="in u32", **_FAMILY)
def bulk_prefetch_last(lanes: Lanes, source: Value, size: Value) -> None:
    """Nothing: memory would be fetched into a cache."""


# -- tensors --------------------------------------------------------------------------------------------------------------
def _place(*, dim: str, address: str, attribute: str, mode: str = "", **flags: str) -> Mapping[str, str]:
    """The operands that flags ask for, and how many parts stand before the coordinates."""
    between = override_parts(dim, attribute) + bool(address)
    return {**tensor_asked(dim, mode, **flags), "place": f"resource s32 x{1 + between}"}


def _overrides(*, dim: str, address: str, attribute: str, mode: str = "", multicast: str = "", **rest: str) -> bool:
    """Sizes and strides go with an address, boxes, and masks of 32 blocks."""
    if not mode_legal(dim, mode):
        return False
    plain = bool(address) and mode in ("", "tile") and multicast in ("", "multicast::cluster::32b")
    return not attribute or (plain and override_legal(dim=dim, attribute=attribute))


def _in_legal(*, dst: str, report: str, multicast: str, address: str, **rest: str) -> bool:
    """What has none of the options is older."""
    new = bool(report or address or multicast.endswith("32b"))
    return new and (dst != "shared::cta" or not multicast) and _overrides(address=address, multicast=multicast, **rest)


_IN = "tile|tile::gather4|im2col|im2col::w|im2col::w::128"


@instruction(
    f"cp.async.bulk.tensor.{DIMENSIONS}.{{dst:shared::cta|shared::cluster}}.global.{{mode:{_IN}}}?.{COUNTED}.{{report:{REPORT}}}?."
    f"{MULTICAST}.{{group:cta_group::1|cta_group::2}}?.{HINT}.{OVERRIDE}",
    to="addr", tensor="{place}", mbar="addr", offsets="{shift}", cta_mask="{ctas}", policy="{policy}", loads="global", stores="shared", derive=_place,
    legal=_in_legal, **_FAMILY,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_in(lanes: Lanes) -> None:
    """Copy a box of a tensor from global to shared memory; parts of its map may be overridden, and data that stands for none reported."""


def _out_legal(*, dim: str, mode: str, address: str, **rest: str) -> bool:
    return bool(address or mode == "im2col_no_offs::w") and _overrides(dim=dim, mode=mode, address=address, **rest)


@instruction(
    f"cp.async.bulk.tensor.{DIMENSIONS}.global.shared::cta.{{mode:tile|tile::scatter4|im2col_no_offs|im2col_no_offs::w}}?.bulk_group.{HINT}.{OVERRIDE}",
    tensor="{place}", source="addr", policy="{policy}", loads="shared", stores="global", derive=_place, legal=_out_legal, **_FAMILY,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_out(lanes: Lanes) -> None:
    """Copy a box of a tensor from shared to global memory; parts of its map may be overridden."""


@instruction(
    f"cp.reduce.async.bulk.tensor.{DIMENSIONS}.global.shared::cta.{REDUCTIONS}.{{mode:tile|im2col_no_offs|im2col_no_offs::w}}?.bulk_group.{HINT}.{OVERRIDE}",
    tensor="{place}", source="addr", policy="{policy}", loads="shared", stores="global", derive=_place, legal=_out_legal, **_FAMILY,
)  # fmt: skip
@refused(INSTEAD_TENSOR)
def tensor_reduce(lanes: Lanes) -> None:
    """Combine a box of a tensor in shared memory into the one in global memory; parts of its map may be overridden."""


def _prefetch_legal(*, hint: str, priority: str, address: str, **rest: str) -> bool:
    return bool(priority or address) and not (hint and priority) and _overrides(address=address, **rest)


@instruction(
    f"cp.async.bulk.prefetch.tensor.{DIMENSIONS}.L2.global.{{mode:{_IN}}}?.{HINT}.{{priority:L2::evict_last}}?.{OVERRIDE}", tensor="{place}",
    offsets="{shift}", policy="{policy}", derive=_place, legal=_prefetch_legal, **_FAMILY,
)  # fmt: skip
def tensor_prefetch(lanes: Lanes, *inputs: Value) -> None:
    """Nothing: a box of a tensor would be fetched into a cache."""


@instruction(
    f"applypriority.async.bulk.tensor.{DIMENSIONS}.{{space:global}}?.bulk_group.{{mode:{_IN}}}?.L2::evict_normal.{OVERRIDE}", tensor="{place}",
    offsets="{shift}", derive=_place, legal=lambda *, space, **rest: _overrides(**rest), **_FAMILY,
)  # fmt: skip
def tensor_priority(lanes: Lanes, *inputs: Value) -> None:
    """Nothing: the eviction priority of a box of a tensor would change."""
