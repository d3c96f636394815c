"""The smallest kernels that showed what an engine got wrong in compiled programs: each is a case in the way some compiler writes it."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft

HEAD = """.version 8.0
.target sm_80
.address_size 64
"""
ENGINES = ["warp", "numpy"]


def run(body: str, engine: str, block: int = 64, declarations: str = "", module: str = "") -> np.ndarray:
    """The word that each thread leaves: %r1 is its number, %rd1 the address of its word."""
    text = f"""{HEAD}{module}
.visible .entry k(.param .u64 out)
{{
    .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<40>; .reg .b64 %rd<12>; .reg .b64 %SP, %SPL; .reg .f32 %f<8>;
    {declarations}
    ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;
{body}
    ret;
}}
"""
    out = np.zeros(block, np.uint32)
    ptxgraft.load(text).kernel("k", engine=engine).launch(1, block, [out])
    return out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("load", ["ld.u32 %r2, [%SP+16];", "ld.v2.u32 {%r3, %r2}, [%SP+16];", "ld.volatile.u32 %r2, [%SP+20];"])
def test_one_generic_address_is_another_word_in_each_lanes_local_memory(load: str, engine: str):
    body = f"mov.u64 %SPL, depot; cvta.local.u64 %SP, %SPL; st.v2.u32 [%SP+16], {{%r1, %r1}}; {load} st.global.u32 [%rd1], %r2;"
    assert np.array_equal(run(body, engine, declarations=".local .align 16 .b8 depot[64];"), np.arange(64))


@pytest.mark.parametrize("engine", ENGINES)
def test_variables_that_only_other_variables_name(engine: str):
    module = """
.global .align 1 .b8 word[4] = {10, 20, 30, 40};
.global .align 8 .u64 last[2] = {generic(word)+2, 0};
.global .align 8 .u64 first[3] = {7, generic(last), 0x0};"""
    body = "ld.global.u64 %rd3, [first+8]; ld.u64 %rd4, [%rd3]; ld.u8 %r2, [%rd4+1]; st.global.u32 [%rd1], %r2;"
    assert np.array_equal(run(body, engine, block=4, module=module), [40] * 4)


HANDSHAKES = {
    # The second half of the warp waits in a loop for what the first does behind it.
    "lanes": """
    setp.lt.u32 %p1, %r1, 5; @%p1 bra give;
wait: ld.volatile.shared.u32 %r2, [flag]; setp.eq.u32 %p2, %r2, 0; @%p2 bra wait;
    bra end;
give: mov.u32 %r2, 7; st.volatile.shared.u32 [flag], %r2;
end:
    st.global.u32 [%rd1], %r2;""",
    # A lock that one lane after another takes; who holds it does so behind the loop.
    "lock": """
again: atom.shared.cas.b32 %r2, [flag], 0, 1; setp.ne.u32 %p1, %r2, 0; @%p1 bra again;
    ld.volatile.shared.u32 %r3, [flag+4]; add.u32 %r3, %r3, 1; st.volatile.shared.u32 [flag+4], %r3;
    membar.cta; atom.shared.exch.b32 %r2, [flag], 0;
    setp.ne.u32 %p1, %r3, 0; selp.u32 %r3, 7, 0, %p1; st.global.u32 [%rd1], %r3;""",
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("handshake", list(HANDSHAKES))
def test_lanes_that_wait_in_a_loop_for_others(handshake: str, engine: str):
    clear = "mov.u32 %r9, 0; st.volatile.shared.v2.u32 [flag], {%r9, %r9}; bar.warp.sync 0xffffffff;"
    body = clear + HANDSHAKES[handshake]
    assert np.array_equal(run(body, engine, block=12, declarations=".shared .align 8 .b32 flag[2];"), [7] * 12)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("size", [4, 8, 16])
def test_copies_of_every_part_of_a_piece(size: int, engine: str):
    """Lane i copies i bytes, none past the end of the memory; lane 0 nothing, from nowhere. Past them zeros are stored."""
    text = f"""{HEAD}
.visible .entry k(.param .u64 out, .param .u64 data)
{{
    .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<3>; .shared .align 16 .b8 room[512];
    ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [data]; mov.u32 %r1, %tid.x;
    shl.b32 %r2, %r1, 4; mov.u32 %r3, room; add.u32 %r3, %r3, %r2; mov.u32 %r4, 0xAAAAAAAA; st.shared.v4.b32 [%r3], {{%r4, %r4, %r4, %r4}};
    add.u64 %rd2, %rd2, 32; setp.eq.u32 %p2, %r1, 0; @%p2 mov.u64 %rd2, 0;
    cp.async.ca.shared.global [%r3], [%rd2], {size}, %r1; cp.async.wait_all; bar.sync 0;
    cvt.u64.u32 %rd3, %r2; add.u64 %rd1, %rd1, %rd3;
    ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r3]; st.global.v4.b32 [%rd1], {{%r5, %r6, %r7, %r8}}; ret;
}}
"""
    for end in range(1, size + 1):  # the last lane of those that read a part reads to the end of the memory
        data = np.arange(1, 32 + end + 1, dtype=np.uint8)
        out = np.zeros((end + 1, 16), np.uint8)
        ptxgraft.load(text).kernel("k", engine=engine).launch(1, end + 1, [out, data])
        for lane in range(end + 1):
            wanted = np.r_[np.arange(33, 33 + lane), np.zeros(size - lane), np.full(16 - size, 0xAA)]
            assert np.array_equal(out[lane], wanted), (end, lane)
