"""Which arguments a kernel reads through: only the others' memory may be poisoned."""

from __future__ import annotations

import numpy as np
import pytest
from small_layer import OUT, SURFACE

from ptxgraft import capture
from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.text import Document
from ptxgraft.verify import poisoned
from ptxgraft.verify.poison import arguments_read


def kernel(body: str, module: str = "") -> Document:
    return Document.parse(
        f""".version 8.0
.target sm_80
.address_size 64
{module}
.visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{{
	.reg .pred %p<4>;
	.reg .b32 %r<16>;
	.reg .b64 %rd<16>;
	.local .align 8 .b8 stack[16];
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [b];
	ld.param.u64 %rd3, [c];
	ld.param.u32 %r1, [n];
{body}
	ret;
}}
"""
    )


def read(body: str, module: str = "") -> set[int] | None:
    return arguments_read(Flow(bind(kernel(body, module), "k")))


CASES = {
    "no load": ("st.global.u32 [%rd1], %r1;", set()),
    "a plain load": ("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd3], %r2;", {0}),
    "sums and conversions": ("cvta.to.global.u64 %rd4, %rd2; mul.wide.u32 %rd5, %r1, 4; add.s64 %rd6, %rd4, %rd5; ld.global.nc.u32 %r2, [%rd6];", {8, 24}),
    "a pointer that moves in a loop": ("L: ld.global.u32 %r2, [%rd2]; add.s64 %rd2, %rd2, 4; setp.ne.u32 %p1, %r2, 0; @%p1 bra L;", {8}),
    "either of two pointers": ("setp.eq.u32 %p1, %r1, 0; selp.b64 %rd4, %rd1, %rd3, %p1; ld.global.u32 %r2, [%rd4];", {0, 16, 24}),
    "a guarded move": ("mov.u64 %rd4, %rd1; setp.eq.u32 %p1, %r1, 0; @%p1 mov.u64 %rd4, %rd2; ld.global.u32 %r2, [%rd4];", {0, 8, 24}),
    "an atomic reads": ("red.global.add.u32 [%rd3], %r1;", {16, 24}),
    "an index from memory": ("ld.global.u32 %r2, [%rd1]; mul.wide.u32 %rd4, %r2, 4; add.s64 %rd4, %rd4, %rd2; ld.global.u32 %r3, [%rd4];", {0, 8}),
    "a pointer from memory": ("ld.global.u64 %rd4, [%rd1]; ld.global.u32 %r3, [%rd4];", None),
    "a pointer from halves": ("ld.global.v2.u32 {%r2, %r3}, [%rd1]; mov.b64 %rd4, {%r2, %r3}; ld.global.u32 %r4, [%rd4];", None),
    "a pointer that is only stored": ("st.global.u64 [%rd1], %rd2;", set()),
    "through local memory": ("mov.u64 %rd4, stack; st.local.u64 [%rd4], %rd2; ld.local.u64 %rd5, [%rd4]; ld.global.u32 %r2, [%rd5];", {8}),
    "asynchronous copies": ("cp.async.ca.shared.global [area], [%rd2], 4;", {8}),
    "the address of a parameter": ("mov.b64 %rd4, a; ld.param.u64 %rd5, [%rd4]; ld.global.u32 %r2, [%rd5];", None),
    "an unknown instruction": ("frobnicate.b32 %r2, %r1;", None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_arguments_that_loads_go_through(name):
    body, expected = CASES[name]
    assert read(body, ".shared .align 16 .b8 area[64];") == expected


def launch(document: Document, offsets: list[int], size: int = 32) -> capture.Launch:
    """One allocation at each argument offset; equal numbers share one."""
    args = bytearray(28)
    allocations, pointers = [], []
    for place, index in enumerate(offsets):
        base = 0x7F0000000000 + index * 0x100000
        args[place * 8 : place * 8 + 8] = (base + 8 * place).to_bytes(8, "little")
        pointers.append(capture.Pointer(place * 8, index, 8 * place))
        if index not in [a.index for a in allocations]:
            allocations.append(capture.Allocation(index, base, size, np.zeros(size, np.uint8)))
    return capture.Launch(0, "k", (1, 1, 1), (32, 1, 1), bytes(args), allocations=allocations, pointers=pointers, module=document.data)


def test_what_is_written_and_never_read_is_filled():
    document = kernel("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd3], %r2;")
    recorded = launch(document, [0, 1, 2])
    made, names = poisoned(recorded, bind(document, "k"))
    assert names == ["allocation 1", "allocation 2"]
    assert [int(a.before[0]) for a in made.allocations] == [0, 0xA5, 0xA5]
    assert not any(a.before.any() for a in recorded.allocations)


def test_an_allocation_reached_through_a_read_pointer_too_is_left():
    document = kernel("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd3], %r2;")
    assert poisoned(launch(document, [4, 1, 4]), bind(document, "k"))[1] == ["allocation 1"]


def test_pointers_that_a_capture_does_not_list_are_found_by_their_address():
    document = kernel("ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd3], %r2;")
    recorded = launch(document, [0, 1, 2])
    recorded.pointers = []
    assert poisoned(recorded, bind(document, "k"))[1] == ["allocation 1", "allocation 2"]


def test_where_addresses_are_unknown_memory_is_left():
    document = kernel("ld.global.u64 %rd4, [%rd1]; ld.global.u64 %rd5, [%rd4]; st.global.u64 [%rd3], %rd5;")
    assert poisoned(launch(document, [0, 1, 2]), bind(document, "k"))[1] == []


def test_surfaces_are_filled_unless_the_kernel_loads_from_one(recorded, document):
    assert poisoned(recorded, bind(document, "layer"))[1] == [OUT, SURFACE]
    loads = Document.parse(document.text.replace("\tret;", "\tsuld.b.2d.b32.trap {%r50}, [%rd4, {%r19, %r4}];\n\tret;"))
    assert poisoned(recorded, bind(loads, "layer"))[1] == [OUT]
