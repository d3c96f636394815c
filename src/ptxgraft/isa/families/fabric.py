"""Copies between GPUs through a fabric (PTX ISA manual, "Fabric Instructions").

Invariant: the other side is a logical endpoint and an offset in it, memory of no space here; ``loads`` and ``stores`` are those of this block's shared memory,
in which the barrier object lies too. A fabric is nothing that one launch has, so that there are roles and effects alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import instruction, refused

_INSTEAD = "cp.async.bulk and red.async on the memory of one GPU do"

_FETCHED = "mbarrier::complete_tx::bytes.mbarrier::report::fabric"
_SENT = "mbarrier::complete_tx::16B.mbarrier::report::fabric"
HINT = "{hint:L2::cache_hint}?"
ORDER = "relaxed.sys"
_SINCE: dict[str, Any] = {"since": (9, 3), "sm": 100}
_TENSOR: dict[str, Any] = {"since": (9, 4), "sm": 107, "specific": "f"}

_PLACE = "resource u64"
_COUNTED_PLACE = "resource u64 x2"


def _asked(hint: str = "", mask: str = "", **rest: str) -> Mapping[str, str]:
    """The operands that flags ask for."""
    return {"policy": "in b64" if hint else "", "bytes": "in b16" if mask else ""}


def _declare(spelling: str, doc: str, **declaration: Any) -> None:
    def fabric(lanes: Lanes) -> None: ...

    fabric.__doc__ = doc
    instruction(spelling, **declaration)(refused(_INSTEAD)(fabric))


# -- plain copies ---------------------------------------------------------------------------------------------------------
_declare(
    f"fabric.try_get.async.shared::cta.{_FETCHED}.{HINT}.{ORDER}.b128", "Copy ``size`` bytes from an endpoint to shared memory, later.",
    to="addr", source=_PLACE, size="in u32", mbar="addr", policy="{policy}", stores="shared", derive=_asked, **_SINCE,
)  # fmt: skip
for _counted, _place in (("", _PLACE), ("counted::bytes.", _COUNTED_PLACE)):
    _about = ", and count them there" if _counted else ""
    _mask = "" if _counted else ".{mask:cp_mask}?"
    _declare(
        f"fabric.try_put.async.{{multimem}}?.shared::cta.{_SENT}.{_counted}{HINT}{_mask}.{ORDER}.b128",
        f"Copy ``size`` bytes from shared memory to an endpoint, later{_about}.", to=_place, source="addr", size="in u32", mbar="addr",
        byte_mask="{bytes}", policy="{policy}", loads="shared", derive=_asked, **_SINCE,
    )  # fmt: skip


# -- copies that reduce ---------------------------------------------------------------------------------------------------
OPERATIONS = "{op:and|or|xor|add|min|max}"
_TYPES = "b32|b64|u32|s32|u64|s64|f16|bf16|f32|f64"
_SENT_TYPES = {
    "and": ("b32", "b64"),
    "add": ("u32", "u64", "f16", "bf16", "f32", "f64"),
    "min": ("u32", "s32", "u64", "s64", "f16", "bf16"),
}
_FETCHED_TYPES = {**_SENT_TYPES, "add": ("u32", "u64", "f16", "bf16", "f32")}
_ALIKE: dict[str, str] = {"or": "and", "xor": "and", "max": "min"}


def _combines(table: Mapping[str, tuple[str, ...]], op: str, type: str) -> bool:
    return type in table[_ALIKE.get(op, op)]


for _counted, _place in (("", _PLACE), ("counted::bytes.", _COUNTED_PLACE)):
    _about = ", and count its bytes there" if _counted else ""
    _declare(
        f"fabric.try_red.async.{{multimem}}?.shared::cta.{_SENT}.{_counted}{HINT}.{ORDER}.{OPERATIONS}.{{type:{_TYPES}}}",
        f"Combine an array in shared memory into one behind an endpoint, later{_about}.", to=_place, source="addr", size="in u32", mbar="addr",
        policy="{policy}", loads="shared", derive=_asked, legal=lambda *, op, type, **rest: _combines(_SENT_TYPES, op, type), **_SINCE,
    )  # fmt: skip

_PULLED: dict[str, Any] = {
    "to": "addr", "source": _PLACE, "size": "in u32", "mbar": "addr", "members": "text", "stores": "shared", "convergent": True, "since": (9, 3), "sm": 100,
}  # fmt: skip
_PULL = f"fabric.try_pullred.async.multimem.shared::cta.{_FETCHED}.{ORDER}"
_declare(
    f"{_PULL}.{OPERATIONS}.{{type:{_TYPES.removesuffix('|f64')}}}.sync", "Combine the arrays behind a multicast endpoint into one in shared memory, later.",
    legal=lambda *, op, type: _combines(_FETCHED_TYPES, op, type), **_PULLED,
)  # fmt: skip
for _operation, _narrow in (("{op:min|max}", "e4m3|e5m2"), ("add.acc::f16", "e4m3|e5m2"), ("add.acc::f32", "f16|bf16")):
    _declare(f"{_PULL}.{_operation}.{{type:{_narrow}}}.sync", "As above, of narrow types.", specific="f", **_PULLED)


# -- atomic operations ----------------------------------------------------------------------------------------------------
_ATOMIC_ALIKE: dict[str, str] = {**_ALIKE, "cas": "exch"}
_ATOMIC_TYPES = {
    "and": ("b32", "b64"), "exch": ("b32", "b64", "b128"), "min": ("u32", "u64", "f16x2", "bf16x2"),
    "add": ("u32", "u64", "f16x2", "bf16x2", "f32", "f64"),
}  # fmt: skip


def _atomic(*, hint: str, op: str, type: str) -> bool:
    return type in _ATOMIC_TYPES[_ATOMIC_ALIKE.get(op, op)]


_declare(
    f"fabric.try_atom.async.shared::cta.{_SENT}.{HINT}.{ORDER}.{{op:and|or|xor|exch|cas|min|max|add}}."
    "{type:b32|b64|b128|u32|u64|f16x2|bf16x2|f32|f64}",
    "Combine a value in shared memory with one behind an endpoint, and store the old one, later.", to=_PLACE, old="addr", source="addr", mbar="addr",
    policy="{policy}", loads="shared", stores="shared", derive=_asked,
    legal=_atomic, since=(9, 4), sm=100,
)  # fmt: skip


# -- tensors --------------------------------------------------------------------------------------------------------------
DIMENSIONS = "{dim:1d|2d|3d|4d|5d}"
OVERRIDDEN = "override::global_address.{attribute:override::global_dim|override::global_dim_stride}?"


def override_parts(dim: str, attribute: str) -> int:
    """How many parts sizes and strides are that override those of a tensor map."""
    return {"": 0, "override::global_dim": 1, "override::global_dim_stride": 3}[attribute]


def override_legal(*, dim: str, attribute: str, **rest: str) -> bool:
    """One dimension has no stride, more have."""
    return not attribute or (attribute == "override::global_dim") == (dim == "1d")


def _place_of_tensor(before: int) -> Any:
    """The map, ``before`` numbers of a place in an endpoint, what overrides the map, and the coordinates."""

    def derive(*, dim: str, attribute: str, **flags: str) -> Mapping[str, str]:
        return {**_asked(**flags), "place": f"resource s32 x{1 + before + override_parts(dim, attribute)}"}

    return derive


_declare(
    f"fabric.try_get.async.tensor.{DIMENSIONS}.shared::cta.{{mode:tile}}?.{_FETCHED}.{HINT}.{OVERRIDDEN}.{ORDER}.b128",
    "Copy a box of a tensor behind an endpoint to shared memory, later.", to="addr", tensor="{place}", mbar="addr", policy="{policy}", stores="shared",
    derive=_place_of_tensor(2), legal=override_legal, **_TENSOR,
)  # fmt: skip
for _counted, _numbers in (("", 2), ("counted::bytes.", 3)):
    _about = ", and count its bytes there" if _counted else ""
    _declare(
        f"fabric.try_put.async.tensor.{{multimem}}?.{DIMENSIONS}.shared::cta.{{mode:tile}}?.{_SENT}.{_counted}{HINT}.{OVERRIDDEN}.{ORDER}.b128",
        f"Copy a box of a tensor from shared memory to an endpoint, later{_about}.", tensor="{place}", source="addr", size="in u32", mbar="addr",
        policy="{policy}", loads="shared", derive=_place_of_tensor(_numbers), legal=override_legal, **_TENSOR,
    )  # fmt: skip
    _declare(
        f"fabric.try_red.async.tensor.{{multimem}}?.{DIMENSIONS}.shared::cta.{{mode:tile}}?.{_SENT}.{_counted}{HINT}.{OVERRIDDEN}.{ORDER}.{OPERATIONS}",
        f"Combine a box of a tensor in shared memory into the one behind an endpoint, later{_about}.", tensor="{place}", source="addr", size="in u32",
        mbar="addr", policy="{policy}", loads="shared", derive=_place_of_tensor(_numbers), legal=override_legal, **_TENSOR,
    )  # fmt: skip


# -- submitting and waiting -----------------------------------------------------------------------------------------------
_declare("fabric.submit.{what:op_restrict::fetching}?", "Let what this thread started go on its way.", since=(9, 3), sm=100)
_declare("fabric.submit.commit_group", "As above, as one group of copies.", since=(9, 5), sm=100)
_declare("fabric.wait.sync_restrict::reads", "Wait until shared memory has been read by all that was submitted.", since=(9, 3), sm=100)
_declare(
    "fabric.wait.sync_restrict::read",
    "Wait until shared memory has been read by all groups but the last ``n``.",
    n="text",
    since=(9, 5),
    sm=100,
)
