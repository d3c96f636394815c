"""The warp executor's textures, surfaces, tensor cores and wide accesses against the interpreter."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from ptxgraft.errors import KernelFault
from ptxgraft.isa import bind
from ptxgraft.run import Surface, Texture, execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import allocate
from ptxgraft.run.reference import reference_launch
from ptxgraft.text import Document

pytestmark = pytest.mark.usefixtures("form")

OUT, IN = 0x7F0000000000, 0x7F0000100000
TEXTURE, SURFACE = 0x100000001, 0x100000002

HEAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in, .param .u64 image, .param .u64 plane)
{
    .reg .pred %p<10>;
    .reg .b16 %h<20>;
    .reg .b32 %r<60>;
    .reg .b64 %rd<20>;
    .reg .b128 %q<4>;
    .reg .f32 %f<20>;
    .shared .align 16 .b8 pool[4096];
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [in];
    ld.param.u64 %rd10, [image];
    ld.param.u64 %rd11, [plane];
    mov.u32 %r0, %tid.x;
    mul.wide.u32 %rd3, %r0, 4;
    mul.wide.u32 %rd5, %r0, 16;
    add.s64 %rd2, %rd0, %rd3;
    add.s64 %rd4, %rd1, %rd5;
    add.s64 %rd6, %rd0, %rd5;
    cvta.to.global.u64 %rd7, %rd2;
"""


def maker(body: str, block: int, texture: Texture | None, bits: np.ndarray | None) -> Callable[[], Launch]:
    program = bind(Document.parse(HEAD + body + "    ret;\n}\n"), "k")
    args = b"".join(n.to_bytes(8, "little") for n in (OUT, IN, TEXTURE, SURFACE))
    data = np.random.default_rng(3).integers(0, 1 << 32, 2048, dtype=np.uint32) if bits is None else bits

    def make() -> Launch:
        surface = Surface(np.zeros((5, 7, 4), np.float16))
        textures = {TEXTURE: texture} if texture is not None else {}
        memory = [allocate(OUT, 16384, "out"), allocate(IN, data, "in")]
        return Launch(program, (1, 1, 1), (block, 1, 1), args, 0, memory, textures, {SURFACE: surface})

    return make


def run_both(
    body: str, block: int = 32, texture: Texture | None = None, bits: np.ndarray | None = None, profile: str = "sm_90"
) -> np.ndarray:
    """The words of ``out``; asserts that memory and surfaces agree."""
    make, found = maker(body, block, texture, bits), []
    for engine in ("numpy", "warp"):
        launch = make()
        execute(launch, engine=engine, profile=profile)
        found.append([a.data.view(np.uint32) for a in launch.memory.allocations] + [launch.surfaces[SURFACE].array.view(np.uint32)])
    for a, b in zip(*found, strict=True):
        np.testing.assert_array_equal(a, b)
    return found[1][0]


def both_fail(body: str, block: int = 32, texture: Texture | None = None) -> str:
    make, messages = maker(body, block, texture, None), []
    for engine in ("numpy", "warp"):
        with pytest.raises(KernelFault) as caught:
            execute(make(), engine=engine)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]


PICTURE = np.random.default_rng(1).random((6, 9, 4)).astype(np.float16)

FETCH = """    cvt.rn.f32.u32 %f0, %r0;
    mul.f32 %f1, %f0, 0f3EA66666;
    sub.f32 %f1, %f1, 0f3F800000;
    mul.f32 %f2, %f0, 0f3E4CCCCD;
    tex.2d.v4.f32.f32 {%f3, %f4, %f5, %f6}, [%rd10, {%f1, %f2}];
    st.global.v4.f32 [%rd6], {%f3, %f4, %f5, %f6};
"""


@pytest.mark.parametrize("block", [32, 45])
@pytest.mark.parametrize(
    "texture",
    [
        Texture(PICTURE),
        Texture(PICTURE, filter="linear", address="border"),
        Texture(PICTURE, filter="linear", address=("clamp", "border")),
    ],
)
def test_textures(texture, block):
    found = run_both(FETCH, block, texture)
    assert len(set(found[: block * 4].tolist())) > 20


def test_surfaces():
    body = """    and.b32 %r1, %r0, 7;
    shr.u32 %r2, %r0, 3;
    shl.b32 %r3, %r1, 3;
    ld.global.v2.u32 {%r4, %r5}, [%rd4];
    setp.lt.u32 %p0, %r1, 7;
    @%p0 sust.b.2d.v2.b32.trap [%rd11, {%r3, %r2}], {%r4, %r5};
    sust.b.2d.b32.zero [%rd11, {%r3, %r1}], %r0;
"""
    run_both(body)


def test_bad_handles_and_places():
    wrong = FETCH.replace("%rd10,", "%rd11,")
    assert "no texture" in both_fail(wrong, texture=Texture(PICTURE))
    body = """    shl.b32 %r3, %r0, 3;
    mov.u32 %r4, 1;
    sust.b.2d.v2.b32.trap [%rd11, {%r3, %r4}], {%r4, %r4};
"""
    assert "lane 7" in both_fail(body)


MMA = (
    ("m16n8k16.row.col.f32.f16.f16.f32", 4, 4, 2),
    ("m16n8k16.row.col.f16.f16.f16.f16", 2, 4, 2),
    ("m16n8k16.row.col.f32.bf16.bf16.f32", 4, 4, 2),
    ("m16n8k32.row.col.f16.e4m3.e4m3.f16", 2, 4, 2),
    ("m16n8k32.row.col.f32.e5m2.e4m3.f32", 4, 4, 2),
    ("m16n8k32.row.col.s32.s8.u8.s32", 4, 4, 2),
)


@pytest.mark.parametrize("profile", ["sm_89", "sm_90"])
@pytest.mark.parametrize(("spelling", "d", "a", "b"), MMA)
def test_tensor_cores(spelling, d, a, b, profile):
    """Chained, with one operand computed, and under a guard that all lanes share."""
    lines, at = [], 0
    for i in range(4):
        lines.append(f"    ld.global.v4.u32 {{%r{10 + at}, %r{11 + at}, %r{12 + at}, %r{13 + at}}}, [%rd4+{512 * i}];")
        at += 4
    names = [f"%r{i}" for i in range(10, 26)]
    group = "{" + ", ".join(names[:a]) + "}", "{" + ", ".join(names[4 : 4 + b]) + "}"
    c, first, second = ("{" + ", ".join(f"%r{start + i}" for i in range(d)) + "}" for start in (18, 30, 40))
    lines += [f"    mma.sync.aligned.{spelling} {first}, {group[0]}, {group[1]}, {c};", f"    xor.b32 {names[0]}, {names[0]}, 1;"]
    lines += ["    setp.lt.u32 %p1, %r0, 99;", f"    @%p1 mma.sync.aligned.{spelling} {second}, {group[0]}, {group[1]}, {first};"]
    lines += [f"    st.global.u32 [%rd2+{512 * i}], %r{40 + i};" for i in range(d)]
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 1 << 32, 2048, dtype=np.uint32) & np.uint32(
        0x3F7F3F7F if "e4m3" in spelling or "e5m2" in spelling else 0xBFFFBFFF
    )
    found = run_both("\n".join(lines) + "\n", 32, bits=bits, profile=profile)
    assert len(set(found[:32].tolist())) > 8


def test_matrices_through_shared_memory():
    body = """    ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd4];
    mov.u32 %r1, pool;
    shl.b32 %r2, %r0, 4;
    add.u32 %r1, %r1, %r2;
    st.shared.v4.u32 [%r1], {%r10, %r11, %r12, %r13};
    bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r1];
    ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r24, %r25}, [%r1];
    movmatrix.sync.aligned.m8n8.trans.b16 %r26, %r20;
    xor.b32 %r21, %r21, %r24;
    add.u32 %r22, %r22, %r25;
    st.global.v4.u32 [%rd6], {%r20, %r21, %r22, %r26};
    cp.async.ca.shared.global [%r1], [%rd4], 16;
    cp.async.wait_all;
    ld.shared.v2.u64 {%rd12, %rd13}, [%r1];
    st.global.v2.u64 [%rd6+2048], {%rd12, %rd13};
"""
    run_both(body)


def test_accesses_of_128_bits_and_bytes_in_a_row():
    body = """    ld.global.b128 %q0, [%rd4];
    st.global.b128 [%rd6], %q0;
    add.s64 %rd12, %rd1, %rd3;
    ld.global.v4.u8 {%h0, %h1, %h2, %h3}, [%rd12];
    add.u16 %h0, %h0, %h3;
    st.global.v2.u8 [%rd2+2048], {%h2, %h0};
    st.global.v4.u8 [%rd2+2560], {%h3, %h2, %h1, %h0};
    cvt.u64.u32 %rd13, %r0;
    add.s64 %rd14, %rd0, %rd13;
    st.global.u8 [%rd14+4096], %h1;
"""
    run_both(body)
    run_both(body, 50)


def test_layers_of_the_reference_workload_agree_on_one_block():
    found = []
    for engine in ("numpy", "warp"):
        launch = reference_launch("dec0")
        execute(launch, engine=engine, profile="sm_89", blocks=[11])
        found.append([s.array.tobytes() for s in launch.surfaces.values()])
    assert found[0] == found[1] and any(any(b) for b in found[1])
