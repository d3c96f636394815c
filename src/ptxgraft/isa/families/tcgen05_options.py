"""What sm_107 adds to the fifth generation of tensor cores (PTX ISA manual, "TensorCore 5th Generation Family Instructions": what came with PTX 9.4).

Invariant: as in ``tcgen05``; a look-up table that B is decompressed by lies in tensor memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgraft.isa.families.tcgen05 import COLLECTOR_A, COLLECTOR_B, GROUP, INSTEAD, SCALED_KINDS, VECTORS, lanes_off_, scaled_legal
from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import instruction, refused

_FAMILY: dict[str, Any] = {"since": (9, 4), "sm": 107, "specific": "f"}
_COLLECTED = "|".join(f"collector::b::{op}" for op in ("fill", "use", "lastuse", "discard"))


def _declare(spelling: str, doc: str, **declaration: Any) -> None:
    def option(lanes: Lanes) -> None: ...

    option.__doc__ = doc
    instruction(spelling, **declaration)(refused(INSTEAD)(option))


# -- order ----------------------------------------------------------------------------------------------------------------
def _mask(multicast: str, **rest: str) -> Mapping[str, str]:
    return {"ctas": ("in b32" if multicast.endswith("32b") else "in b16") if multicast else ""}


_declare(
    f"tcgen05.commit.{GROUP}.{{reads:sync_restrict::shared::read::mma::a}}?.mbarrier::arrive::one.{{space:shared::cluster}}?."
    "{multicast:multicast::cluster|multicast::cluster::16b|multicast::cluster::32b}?.b64",
    "Arrive at mbarriers when all that this thread started is done, or when A has been read of it.", mbar="addr", cta_mask="{ctas}", loads="{space}",
    stores="{space}", derive=_mask, legal=lambda *, group, reads, space, multicast: bool(reads) or multicast.endswith("32b"), **_FAMILY,
)  # fmt: skip


# -- loads that leave out elements ------------------------------------------------------------------------------------------
def _kept(*, num: str, **rest: str) -> Mapping[str, str]:
    count = int(num[1:])
    return {"m": f"x{-(-count // 32)}", "c": f"x{count // 2}"}


for _red, _nan, _extreme in (("", "", {}), ("red.", "{nan:NaN}?.", {"extreme": "out f32"})):
    _also = ", and the least or greatest" if _red else ""
    _declare(
        f"tcgen05.ld.{_red}spcompress.sync.aligned.32x32b.{{num:x4|x8|x16|x32|x64|x128}}.{{op:min|max}}.sp::2:4.{{absolute:abs}}?.{_nan}f32.b2",
        f"Two of every four elements of tensor memory at [a] and their places{_also}, later.", metadata="out b32 {m}", kept="out b32 {c}", **_extreme,
        a="addr", loads="tensor", convergent=True, derive=_kept, since=(9, 4), sm=107, specific="a",
    )  # fmt: skip


# -- products -------------------------------------------------------------------------------------------------------------
_PRODUCT: dict[str, Any] = {"loads": "shared", "stores": "tensor", **_FAMILY}
_SCALED: dict[str, Any] = {**_PRODUCT, "specific": "a"}
_KEPT_KINDS = (("kind::f16|kind::tf32", {"scale_d": "text ?"}), ("kind::f8f6f4", {}))


def _kept_scaled(*, kind: str, vector: str, **rest: str) -> bool:
    return scaled_legal(kind=kind, vector=vector)


def _table_scaled(*, vector: str, **rest: str) -> bool:
    return scaled_legal(kind="kind::mxf8f6f4", vector=vector)


for _sparse, _metadata in (("", {}), ("sp.", {"metadata": "addr"})):
    for _in_tensor in (False, True):
        _a = "addr" if _in_tensor else "in b64"
        _about = f"A in {'tensor' if _in_tensor else 'shared'} memory{', half of its elements left out' if _sparse else ''}"
        _shift = "{ashift}?." if _in_tensor else ""
        _head: dict[str, Any] = {"d": "addr", "a": _a, "b": "in b64", **_metadata, "description": "in b32"}
        _declare(
            f"tcgen05.mma.{_sparse}{GROUP}.{{kind:kind::ti16}}.{_shift}{COLLECTOR_A}.{{b:{_COLLECTED}}}?",
            f"D = A * B + D, or A * B, of 16-bit integers, later: {_about}.", **_head, lanes_off="{off}", enable_d="in pred", scale_d="text ?",
            derive=lanes_off_, **_PRODUCT,
        )  # fmt: skip
        _declare(
            f"tcgen05.mma.ws.{_sparse}{{group:cta_group::1}}.{{kind:kind::ti16}}.{{collector:{COLLECTOR_B}}}?",
            f"As above with B kept near the tensor core: {_about}.", **_head, enable_d="in pred", zero_columns="in b64 ?", **_PRODUCT,
        )  # fmt: skip
        for _kinds, _scale in _KEPT_KINDS:
            _declare(
                f"tcgen05.mma.{_sparse}{GROUP}.{{kind:{_kinds}}}.{_shift}{COLLECTOR_A}.{{b:{_COLLECTED}}}",
                f"D = A * B + D, or A * B, later, with B kept: {_about}.", **_head, lanes_off="{off}", enable_d="in pred", **_scale, derive=lanes_off_,
                **_PRODUCT,
            )  # fmt: skip
        _declare(
            f"tcgen05.mma.{_sparse}{GROUP}.{SCALED_KINDS}.block_scale.{VECTORS}.{COLLECTOR_A}.{{b:{_COLLECTED}}}",
            f"As above with factors for blocks of A and B: {_about}.", **_head, scale_a="addr", scale_b="addr", enable_d="in pred",
            legal=_kept_scaled, **_SCALED,
        )  # fmt: skip
        if not _sparse:
            _table: dict[str, Any] = {"d": "addr", "a": _a, "b": "in b64", "table": "addr", "description": "in b32"}
            _declare(
                f"tcgen05.mma.{GROUP}.kind::f8f6f4.decompress::lut::b.{COLLECTOR_A}.{{b:{_COLLECTED}}}?",
                f"D = A * B + D, or A * B, later, B by a table: {_about}.", **_table, lanes_off="{off}", enable_d="in pred", derive=lanes_off_,
                **_PRODUCT,
            )  # fmt: skip
            _declare(
                f"tcgen05.mma.{GROUP}.kind::mxf8f6f4.block_scale.{VECTORS.replace('|block16', '').replace('scale_vec::2X|scale_vec::4X|', '')}"
                f".decompress::lut::b.{COLLECTOR_A}.{{b:{_COLLECTED}}}?",
                f"As above with factors for blocks of A and B: {_about}.", **_table, scale_a="addr", scale_b="addr", enable_d="in pred",
                legal=_table_scaled, **_SCALED,
            )  # fmt: skip
