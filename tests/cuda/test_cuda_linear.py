"""Textures whose texels lie in plain memory: replayed as such, and as they read on the CPU."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from ptxgraft import capture
from ptxgraft.run import cuda
from ptxgraft.verify import replay

BASE, HANDLE = 0x7F30_0000_0000, 9
FETCH = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 texels, .param .u64 out)
{
    .reg .b32 %r<6>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [texels]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%rd1, {%r1}];
    mul.wide.u32 %rd3, %r1, 16; add.u64 %rd2, %rd2, %rd3;
    st.global.v4.b32 [%rd2], {%r2, %r3, %r4, %r5};
    ret;
}
"""


@pytest.mark.parametrize("linear", [True, False])
def test_fetches_by_number(gpu: str, linear: bool) -> None:
    texels = np.random.default_rng(3).integers(0, 1 << 32, (24, 2), np.uint32)
    image = capture.Image(
        "texture", 0, HANDLE, 24, 1, 2, 3, "point", ("clamp",) * 3, False, texels, texels, dimensions=1, integers=True, linear=linear
    )
    memory = capture.Allocation(0, BASE, 384, np.full(384, 0xEE, np.uint8))
    recorded = capture.Launch(
        0, "k", (1, 1, 1), (24, 1, 1), struct.pack("<QQ", HANDLE, BASE), allocations=[memory], pointers=[capture.Pointer(8, 0, 0)],
        textures=[image], module=FETCH,
    )  # fmt: skip
    assert cuda.work_from_capture(recorded, None, []).linear == (frozenset({HANDLE}) if linear else frozenset())
    expected = np.pad(texels, ((0, 0), (0, 2)))
    for on in ("cpu", "cuda") if linear else ("cpu",):  # a fetch by number from an array gives what it gives
        found = replay(recorded, on=on).outputs[0].data.view(np.uint32).reshape(24, 4)
        assert np.array_equal(found, expected), on
