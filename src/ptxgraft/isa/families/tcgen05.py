"""The fifth generation of tensor cores (PTX ISA manual, "TensorCore 5th Generation Family Instructions").

Invariant: the space of tensor memory is called ``tensor``; its addresses are 32 bits. Matrices in shared memory lie behind 64-bit
descriptors. Products, copies and loads are started, not made: ``tcgen05.commit`` and ``tcgen05.wait`` tell when they are done.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxgraft.isa.lanes import Lanes
from ptxgraft.isa.table import instruction, refused

INSTEAD = "mma.sync on registers, with kinds and factors for blocks too, multiplies the same types; on='cuda' runs it where the GPU has it"

GROUP = "{group:cta_group::1|cta_group::2}"
SINCE = (8, 6)
NEWER = {"exclusive": ((9, 4), 100), "multicast::cluster::16b": ((9, 4), 100)}


# -- allocation -----------------------------------------------------------------------------------------------------------
@instruction(
    f"tcgen05.alloc.{GROUP}.sync.aligned.{{exclusive}}?.{{space:shared::cta}}?.b32", to="addr", columns="in u32", stores="{space}", convergent=True,
    needs=NEWER, since=SINCE, sm=100, specific="f",
)  # fmt: skip
@refused(INSTEAD)
def alloc(lanes: Lanes) -> None:
    """Allocate columns of tensor memory and store their address at [to]; waits until there are enough."""


@instruction(
    f"tcgen05.dealloc.{GROUP}.sync.aligned.{{exclusive}}?.b32", a="in b32", columns="in u32", convergent=True, needs=NEWER, since=SINCE, sm=100,
    specific="f",
)  # fmt: skip
@refused(INSTEAD)
def dealloc(lanes: Lanes) -> None:
    """Give columns of tensor memory back."""


@instruction(f"tcgen05.relinquish_alloc_permit.{GROUP}.sync.aligned", convergent=True, since=SINCE, sm=100, specific="f")
@refused(INSTEAD)
def relinquish(lanes: Lanes) -> None:
    """The block will allocate no more."""


# -- registers and tensor memory ------------------------------------------------------------------------------------------
COUNTS = "{num:x1|x2|x4|x8|x16|x32|x64|x128}"
SEVERAL = "{num:x2|x4|x8|x16|x32|x64|x128}"
_FACTOR = {"16x128b": 2, "16x256b": 4}


def _registers(*, shape: str, num: str, **rest: str) -> int:
    return int(num[1:]) * _FACTOR.get(shape, 1)


def _fits(**slots: str) -> bool:
    return _registers(**slots) <= 128


def _vector(**slots: str) -> Mapping[str, str]:
    return {"count": f"x{_registers(**slots)}"}


_HALVES: dict[str, Any] = {"split": "text"}
"""Where the second half of a 16x32bx2 access lies."""
_NOTHING: dict[str, Any] = {}

for _shapes, _place in (("16x64b|16x128b|16x256b|32x32b", _NOTHING), ("16x32bx2", _HALVES)):

    @instruction(
        f"tcgen05.ld.sync.aligned.{{shape:{_shapes}}}.{COUNTS}.{{pack:pack::16b}}?.b32", d="out b32 {count}", a="addr", **_place,
        loads="tensor", convergent=True, legal=_fits, derive=_vector, since=SINCE, sm=100, specific="f",
    )  # fmt: skip
    @refused(INSTEAD)
    def load(lanes: Lanes) -> None:
        """d = tensor memory at [a], later: after ``tcgen05.wait::ld``."""

    @instruction(
        f"tcgen05.st.sync.aligned.{{shape:{_shapes}}}.{COUNTS}.{{unpack:unpack::16b}}?.b32", a="addr", **_place, b="in b32 {count}",
        stores="tensor", convergent=True, legal=_fits, derive=_vector, since=SINCE, sm=100, specific="f",
    )  # fmt: skip
    @refused(INSTEAD)
    def store(lanes: Lanes) -> None:
        """Tensor memory at [a] = b, later: after ``tcgen05.wait::st``."""


for _shape, _place in (("32x32b", _NOTHING), ("16x32bx2", _HALVES)):
    for _flags, _types in (("{absolute:abs}?.{nan:NaN}?.", "f32"), ("", "u32|s32")):

        @instruction(
            f"tcgen05.ld.red.sync.aligned.{{shape:{_shape}}}.{SEVERAL}.{{op:min|max}}.{_flags}{{type:{_types}}}", d="out {type} {count}",
            extreme="out {type}", a="addr", **_place, loads="tensor", convergent=True, derive=_vector, since=(8, 8),
            sm=103, specific="f",
        )  # fmt: skip
        @refused(INSTEAD)
        def load_extreme(lanes: Lanes) -> None:
            """d = tensor memory at [a] and the least or greatest of its elements, later."""


@instruction("tcgen05.{what:wait::ld|wait::st}.sync.aligned", convergent=True, since=SINCE, sm=100, specific="f")
@refused(INSTEAD)
def wait(lanes: Lanes) -> None:
    """Wait until the thread's loads or stores of tensor memory are done."""


_BROADCAST = {"64x128b": ("warpx2::02_13", "warpx2::01_23"), "32x128b": ("warpx4",)}


def _broadcast_legal(*, shape: str, broadcast: str, **rest: str) -> bool:
    return broadcast in _BROADCAST[shape] if shape in _BROADCAST else not broadcast


@instruction(
    f"tcgen05.cp.{GROUP}.{{shape:128x256b|4x256b|128x128b|64x128b|32x128b}}.{{broadcast:warpx2::02_13|warpx2::01_23|warpx4}}?."
    "{to:b8x16}?.{source:b6x16_p32|b4x16_p64}?",
    a="addr", matrix="in b64", loads="shared", stores="tensor",
    legal=lambda *, to, source, **rest: bool(to) == bool(source) and _broadcast_legal(**rest), since=SINCE, sm=100, specific="f",
)  # fmt: skip
@refused(INSTEAD)
def copy(lanes: Lanes) -> None:
    """Copy a matrix from shared to tensor memory, later; six- and four-bit elements may be spread to bytes."""


@instruction(f"tcgen05.shift.{GROUP}.down", a="addr", loads="tensor", stores="tensor", since=SINCE, sm=100, specific="a")
@refused(INSTEAD)
def shift(lanes: Lanes) -> None:
    """Move rows of tensor memory down by one, later."""


# -- order ----------------------------------------------------------------------------------------------------------------
@instruction("tcgen05.{what:fence::before_thread_sync|fence::after_thread_sync}", since=SINCE, sm=100, specific="f")
@refused(INSTEAD)
def fence(lanes: Lanes) -> None:
    """Order what was started before, or is started after, with other threads' synchronisation."""


@instruction(
    f"tcgen05.commit.{GROUP}.mbarrier::arrive::one.{{space:shared::cluster}}?.{{multicast:multicast::cluster|multicast::cluster::16b}}?.b64",
    mbar="addr", cta_mask="{ctas}", loads="{space}", stores="{space}", derive=lambda multicast, **rest: {"ctas": "in b16" if multicast else ""},
    needs=NEWER, since=SINCE, sm=100, specific="f",
)  # fmt: skip
@refused(INSTEAD)
def commit(lanes: Lanes) -> None:
    """Arrive at an mbarrier when all that this thread started is done."""


# -- products -------------------------------------------------------------------------------------------------------------
FLOAT_KINDS = (("kind::f16|kind::tf32", {"scale_d": "text ?"}), ("kind::f8f6f4", {}))
"""Of these kinds D can be scaled down before the sum, or not."""
SCALED_KINDS = "{kind:kind::mxf8f6f4|kind::mxf4|kind::mxf4nvf4}"
COLLECTOR_A = "{collector:collector::a::fill|collector::a::use|collector::a::lastuse|collector::a::discard}?"
COLLECTOR_B = "|".join(f"collector::b{i}::{op}" for i in range(4) for op in ("fill", "use", "lastuse", "discard"))
VECTORS = "{vector:scale_vec::1X|scale_vec::2X|scale_vec::4X|block16|block32}?"


def lanes_off_(*, group: str, **rest: str) -> Mapping[str, str]:
    return {"off": f"in b32 x{4 if group == 'cta_group::1' else 8} ?"}


_VECTORS = {
    "kind::mxf8f6f4": ("", "scale_vec::1X", "block32"),
    "kind::mxf4": ("", "scale_vec::2X", "block32"),
    "kind::mxf4nvf4": ("scale_vec::2X", "scale_vec::4X", "block16", "block32"),
}
"""How many elements of A and B share a factor, by kind of product."""


def scaled_legal(*, kind: str, vector: str, **rest: str) -> bool:
    return vector in _VECTORS[kind]


NEEDS = {"kind::mxf4nvf4": ((8, 7), 100), "block16": ((8, 8), 100), "block32": ((8, 8), 100)}


def _declare(form: str, doc: str, **declaration) -> None:
    def product(lanes: Lanes) -> None: ...

    product.__doc__ = doc
    instruction(form, loads="shared", stores="tensor", needs=NEEDS, since=SINCE, sm=100, **declaration)(refused(INSTEAD)(product))


for _sparse, _metadata in (("", {}), ("sp.", {"metadata": "addr"})):
    _about = ", half of A's elements left out" if _sparse else ""
    for _in_tensor in (False, True):
        _a = "addr" if _in_tensor else "in b64"
        _where = "A in tensor memory" if _in_tensor else "A in shared memory"
        _shift = "{ashift}?." if _in_tensor else ""
        _head = {"d": "addr", "a": _a, "b": "in b64", **_metadata, "description": "in b32"}
        for _kinds, _scale in FLOAT_KINDS:
            _declare(
                f"tcgen05.mma.{_sparse}{GROUP}.{{kind:{_kinds}}}.{_shift}{COLLECTOR_A}", f"D = A * B + D, or A * B, later: {_where}{_about}.",
                **_head, lanes_off="{off}", enable_d="in pred", **_scale, derive=lanes_off_, specific="f",
            )  # fmt: skip
        _declare(
            f"tcgen05.mma.{_sparse}{GROUP}.{{kind:kind::i8}}.{_shift}{COLLECTOR_A}", f"As above on bytes: {_where}{_about}.",
            **_head, lanes_off="{off}", enable_d="in pred", derive=lanes_off_, specific="a",
        )  # fmt: skip
        _declare(
            f"tcgen05.mma.{_sparse}{GROUP}.{SCALED_KINDS}.block_scale.{VECTORS}.{COLLECTOR_A}",
            f"As above with factors for blocks of A and B: {_where}{_about}.", **_head, scale_a="addr", scale_b="addr", enable_d="in pred",
            legal=scaled_legal, specific="a",
        )  # fmt: skip
        _declare(
            f"tcgen05.mma.ws.{_sparse}{{group:cta_group::1}}.{{kind:kind::f16|kind::tf32|kind::f8f6f4|kind::i8}}.{{collector:{COLLECTOR_B}}}?",
            f"As above with B kept near the tensor core: {_where}{_about}.", **_head, enable_d="in pred", zero_columns="in b64 ?",
            specific="a",
        )  # fmt: skip
