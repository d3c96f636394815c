"""The kernels that the benchmarks of the warp executor run, as launches.

Invariant: a launch is the same each time it is made, inputs included, and nothing else has its memory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from numpy.typing import NDArray

from ptxgraft.isa import Program, bind
from ptxgraft.run import Launch, allocate
from ptxgraft.run.reference import reference_launch
from ptxgraft.text import Document

HEAD = ".version 8.8\n.target sm_89\n.address_size 64\n"
BASES = (0x10_0000_0000, 0x20_0000_0000, 0x30_0000_0000)

SAXPY = """.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>;
    .reg .b32 %r<6>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<8>;
    ld.param.u32 %r2, [n];
    ld.param.f32 %f1, [a];
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r5, %tid.x;
    mad.lo.s32 %r1, %r3, %r4, %r5;
    setp.ge.s32 %p1, %r1, %r2;
    @%p1 bra END;
    cvta.to.global.u64 %rd3, %rd1;
    mul.wide.s32 %rd4, %r1, 4;
    add.s64 %rd5, %rd3, %rd4;
    ld.global.nc.f32 %f2, [%rd5];
    cvta.to.global.u64 %rd6, %rd2;
    add.s64 %rd7, %rd6, %rd4;
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f4, %f2, %f1, %f3;
    st.global.f32 [%rd7], %f4;
END:
    ret;
}
"""

MATMUL = """.visible .entry matmul(.param .u64 a, .param .u64 b, .param .u64 c, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<16>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<16>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [c];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.y;
    mov.u32 %r3, %ntid.y;
    mov.u32 %r4, %tid.y;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mov.u32 %r6, %ctaid.x;
    mov.u32 %r7, %ntid.x;
    mov.u32 %r8, %tid.x;
    mad.lo.s32 %r9, %r6, %r7, %r8;
    mul.lo.s32 %r10, %r5, %r1;
    mul.wide.s32 %rd4, %r10, 4;
    add.s64 %rd5, %rd1, %rd4;
    mul.wide.s32 %rd6, %r9, 4;
    add.s64 %rd7, %rd2, %rd6;
    mul.wide.s32 %rd8, %r1, 4;
    mov.f32 %f1, 0f00000000;
    mov.u32 %r11, 0;
LOOP:
    ld.global.f32 %f2, [%rd5];
    ld.global.f32 %f3, [%rd7];
    fma.rn.f32 %f1, %f2, %f3, %f1;
    add.s64 %rd5, %rd5, 4;
    add.s64 %rd7, %rd7, %rd8;
    add.s32 %r11, %r11, 1;
    setp.lt.s32 %p1, %r11, %r1;
    @%p1 bra LOOP;
    add.s32 %r12, %r10, %r9;
    mul.wide.s32 %rd9, %r12, 4;
    add.s64 %rd10, %rd3, %rd9;
    st.global.f32 [%rd10], %f1;
    ret;
}
"""

_COUNT = """    bfe.u32 %r10, %r9, {at}, 8;
    shl.b32 %r11, %r10, 2;
{add}"""
_ADD_SHARED = """    add.s32 %r12, %r7, %r11;
    red.shared.add.u32 [%r12], 1;
"""
_ADD_GLOBAL = """    cvt.u64.u32 %rd5, %r11;
    add.s64 %rd6, %rd2, %rd5;
    red.global.add.u32 [%rd6], 1;
"""
_BEFORE = """    mov.u32 %r6, bins;
    shl.b32 %r8, %r3, 2;
    add.s32 %r8, %r6, %r8;
    mov.u32 %r7, bins;
    mov.u32 %r13, 0;
    st.shared.u32 [%r8], %r13;
    bar.sync 0;
"""
_AFTER = """    bar.sync 0;
    ld.shared.u32 %r14, [%r8];
    mul.wide.u32 %rd7, %r3, 4;
    add.s64 %rd8, %rd2, %rd7;
    red.global.add.u32 [%rd8], %r14;
"""


def histogram_text(shared: bool) -> str:
    """Counts of the 256 byte values of ``words`` words. Blocks of 256; ``shared``: each block counts in shared memory first."""
    add = _ADD_SHARED if shared else _ADD_GLOBAL
    return f""".visible .entry histogram(.param .u64 data, .param .u64 counts, .param .u32 words)
{{
    .reg .pred %p<2>;
    .reg .b32 %r<20>;
    .reg .b64 %rd<10>;
    .shared .align 4 .b8 bins[1024];
    ld.param.u64 %rd1, [data];
    ld.param.u64 %rd2, [counts];
    ld.param.u32 %r1, [words];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %tid.x;
    mov.u32 %r4, %ntid.x;
    mov.u32 %r15, %nctaid.x;
    mul.lo.u32 %r16, %r15, %r4;
{_BEFORE if shared else ""}    mad.lo.u32 %r5, %r2, %r4, %r3;
LOOP:
    mul.wide.u32 %rd3, %r5, 4;
    add.s64 %rd4, %rd1, %rd3;
    ld.global.u32 %r9, [%rd4];
{"".join(_COUNT.format(at=at, add=add) for at in (0, 8, 16, 24))}    add.u32 %r5, %r5, %r16;
    setp.lt.u32 %p1, %r5, %r1;
    @%p1 bra LOOP;
{_AFTER if shared else ""}    ret;
}}
"""


@cache
def program(text: str, name: str) -> Program:
    """The bound entry of a text without its head."""
    return bind(Document.parse(HEAD + text), name)


def pointers(count: int) -> bytes:
    """The first allocations' addresses, as arguments."""
    return b"".join(b.to_bytes(8, "little") for b in BASES[:count])


def launch(text: str, name: str, grid: tuple[int, ...], block: tuple[int, ...], args: bytes, arrays: list[NDArray]) -> Launch:
    """A launch whose allocations, at ``BASES``, hold copies of the arrays."""
    memory = [allocate(base, array) for base, array in zip(BASES, arrays, strict=False)]
    return Launch(program(text, name), grid, block, args, allocations=memory)


def saxpy(n: int = 1 << 20) -> Launch:
    """y = a*x + y over ``n`` floats, blocks of 256."""
    rng = np.random.default_rng(1)
    arrays: list[NDArray] = [rng.random(n, dtype=np.float32) for _ in range(2)]
    args = n.to_bytes(4, "little") + np.float32(2.5).tobytes() + pointers(2)
    return launch(SAXPY, "saxpy", (-(-n // 256),), (256,), args, arrays)


def matmul(n: int = 256) -> Launch:
    """C = A*B, ``n`` x ``n`` floats, blocks of 16 x 16, one element a thread."""
    rng = np.random.default_rng(2)
    arrays: list[NDArray] = [rng.random(n * n, dtype=np.float32), rng.random(n * n, dtype=np.float32), np.zeros(n * n, np.float32)]
    return launch(MATMUL, "matmul", (n // 16, n // 16), (16, 16), pointers(3) + n.to_bytes(4, "little"), arrays)


def histogram(shared: bool, size: int = 1 << 20) -> Launch:
    """Counts of the values of ``size`` random bytes, 16 words a thread."""
    rng = np.random.default_rng(3)
    arrays: list[NDArray] = [rng.integers(0, 256, size, np.uint8), np.zeros(256, np.uint32)]
    words = size // 4
    args = pointers(2) + words.to_bytes(4, "little")
    return launch(histogram_text(shared), "histogram", (max(1, words // (256 * 16)),), (256,), args, arrays)


def layer(name: str) -> Launch:
    """A layer of the reference workload on the shipped frame; its program is bound once."""
    made = reference_launch(name)
    made.program = _bound.setdefault(name, made.program)
    return made


_bound: dict[str, Program] = {}

LAUNCHES: dict[str, Callable[[], Launch]] = {
    "saxpy 2^20": saxpy,
    "matmul 256^3": matmul,
    "histogram, shared": lambda: histogram(True),
    "histogram, global": lambda: histogram(False),
    "enc4": lambda: layer("enc4"),
    "dec0": lambda: layer("dec0"),
}


def contents(launch: Launch) -> list[bytes]:
    """Every byte that the launch may have changed."""
    return [a.data.tobytes() for a in launch.memory.allocations] + [s.array.tobytes() for s in launch.surfaces.values()]
