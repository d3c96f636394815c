"""Small kernels of every kind that cuts meet: each takes (input, output), runs as one block of 64 threads, and writes 64 bytes a thread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

HEAD = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry k(.param .u64 input, .param .u64 output)
.maxntid 64
{
	.reg .pred %p<12>;
	.reg .b16 %h<12>;
	.reg .b32 %r<64>;
	.reg .f32 %f<64>;
	.reg .b64 %rd<24>;
	.reg .f64 %d<24>;
"""

ENTER = """\
	ld.param.u64 %rd1, [input];
	ld.param.u64 %rd2, [output];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 64;
	add.u64 %rd4, %rd2, %rd3;
	mul.wide.u32 %rd5, %r1, 16;
	add.u64 %rd6, %rd1, %rd5;
	ld.global.v4.u32 {%r2, %r3, %r4, %r5}, [%rd6];
"""

LOOPS = """\
	and.b32 %r6, %r2, 7;
	mov.u32 %r7, 0;
	mov.u32 %r8, 1;
OUTER:
	mov.u32 %r9, 0;
INNER:
	mad.lo.u32 %r8, %r8, 5, %r9;
	add.u32 %r9, %r9, 1;
	setp.lt.u32 %p1, %r9, 3;
	@%p1 bra INNER;
	xor.b32 %r8, %r8, %r3;
	add.u32 %r7, %r7, 1;
	setp.le.u32 %p2, %r7, %r6;
	@%p2 bra OUTER;
	mov.u32 %r10, %r8;
COUNT:
	shr.u32 %r10, %r10, 3;
	add.u32 %r11, %r10, %r7;
	setp.ne.u32 %p3, %r10, 0;
	@%p3 bra.uni COUNT;
DONE:
	st.global.v4.u32 [%rd4], {%r8, %r7, %r9, %r11};
	ret;
"""

BRANCHES = """\
	setp.gt.u32 %p1|%p2, %r2, 0x80000000;
	setp.lt.and.s32 %p3, %r3, 0, %p1;
	and.b32 %r6, %r4, 3;
	setp.eq.u32 %p4, %r6, 3;
	@%p4 bra THIRD;
	setp.eq.u32 %p5, %r6, 1;
	@%p5 bra FIRST;
	add.u32 %r7, %r2, 17;
	@%p3 add.u32 %r7, %r7, 1000;
	bra.uni JOIN;
FIRST:
	mul.lo.u32 %r7, %r3, 3;
	@!%p1 bra JOIN;
	sub.u32 %r7, %r7, %r4;
	bra JOIN;
THIRD:
	not.b32 %r7, %r5;
JOIN:
	selp.b32 %r8, %r7, %r6, %p2;
	setp.ne.u32 %p6, %r8, 0;
	mov.u32 %r9, 5;
	@%p6 mov.u32 %r9, %r8;
	@!%p6 add.u32 %r9, %r9, %r7;
	add.cc.u32 %r10, %r8, %r2;
	addc.u32 %r11, %r9, 0;
	vote.sync.ballot.b32 %r12, %p6, 0xffffffff;
	shfl.sync.bfly.b32 %r13|%p7, %r9, 3, 31, 0xffffffff;
	selp.b32 %r14, 1, 0, %p7;
	st.global.v4.u32 [%rd4], {%r7, %r8, %r9, %r10};
	st.global.v4.u32 [%rd4+16], {%r11, %r12, %r13, %r14};
	ret;
"""

WIDE = """\
	cvt.rn.f64.u32 %d1, %r2;
	cvt.rn.f64.s32 %d2, %r3;
	mul.rn.f64 %d3, %d1, 0d3FE0000000000000;
	fma.rn.f64 %d4, %d3, %d2, %d1;
	setp.gt.f64 %p1, %d4, 0d0000000000000000;
	cvt.u16.u32 %h1, %r4;
	shr.u16 %h2, %h1, 2;
	mov.b32 %r6, {%h1, %h2};
	cvt.u64.u32 %rd7, %r6;
	mul.wide.u32 %rd8, %r4, %r5;
	xor.b64 %rd9, %rd7, %rd8;
	@%p1 add.u64 %rd9, %rd9, 12345;
	cvt.rn.f32.u32 %f1, %r5;
	sqrt.rn.f32 %f2, %f1;
	cvt.rn.f16.f32 %h3, %f2;
	add.f16 %h4, %h3, %h3;
	neg.f64 %d5, %d4;
	@%p1 mov.f64 %d5, %d3;
	mov.b64 {%r7, %r8}, %rd9;
	mov.b32 %r9, {%h4, %h2};
	cvt.rzi.s64.f64 %rd10, %d2;
	st.global.v2.f64 [%rd4], {%d4, %d5};
	st.global.v2.u64 [%rd4+16], {%rd9, %rd10};
	st.global.v4.u32 [%rd4+32], {%r7, %r8, %r9, %r6};
	ret;
"""

SHARED = """\
	.shared .align 16 .b8 tile[1024];
	.shared .align 4 .u32 sums[64];
	mov.u32 %r6, tile;
	mad.lo.u32 %r7, %r1, 16, %r6;
	st.shared.v4.u32 [%r7], {%r2, %r3, %r4, %r5};
	bar.sync 0;
	xor.b32 %r8, %r1, 21;
	mad.lo.u32 %r9, %r8, 16, %r6;
	ld.shared.v2.u32 {%r10, %r11}, [%r9+8];
	mov.u32 %r12, sums;
	mad.lo.u32 %r13, %r1, 4, %r12;
	add.u32 %r14, %r10, %r11;
	st.shared.u32 [%r13], %r14;
	bar.sync 0;
	mov.u32 %r15, 0;
	mov.u32 %r16, 0;
SUM:
	mad.lo.u32 %r17, %r15, 4, %r12;
	ld.shared.u32 %r18, [%r17];
	add.u32 %r16, %r16, %r18;
	add.u32 %r15, %r15, 5;
	setp.lt.u32 %p1, %r15, 64;
	@%p1 bra SUM;
	bar.sync 0;
	ld.shared.u32 %r19, [tile+40];
	st.global.v4.u32 [%rd4], {%r10, %r14, %r16, %r19};
	ret;
"""

EXITS = """\
	and.b32 %r6, %r1, 15;
	setp.eq.u32 %p1, %r6, 7;
	@%p1 ret;
	st.global.u32 [%rd4], %r2;
	setp.lt.u32 %p2, %r2, 0x10000000;
	@%p2 exit;
	add.u32 %r7, %r2, %r3;
	max.u32 %r8, %r7, %r4;
	min.u32 %r9, %r8, %r5;
	setp.ge.u32 %p3, %r9, %r3;
	@%p3 bra LAST;
	popc.b32 %r10, %r9;
	st.global.u32 [%rd4+4], %r10;
	ret;
LAST:
	clz.b32 %r10, %r9;
	st.global.u32 [%rd4+8], %r10;
	ret;
"""

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"

PHASES = f"""\
	.shared .align 16 .b8 tile[1024];
	ld.global.nc.v2.u32 {{%r6, %r7}}, [%rd1+256];
	mad.lo.u32 %r8, %r1, 8, 512;
	cvt.u64.u32 %rd7, %r8;
	add.u64 %rd8, %rd1, %rd7;
	ld.global.nc.v2.u32 {{%r9, %r10}}, [%rd8];
	mov.u32 %r11, tile;
	mad.lo.u32 %r12, %r1, 16, %r11;
	st.shared.v4.u32 [%r12], {{%r2, %r3, %r4, %r5}};
	bar.sync 0;
	xor.b32 %r13, %r12, 256;
	ld.shared.v4.u32 {{%r14, %r15, %r16, %r17}}, [%r13];
	setp.gt.u32 %p1, %r2, %r3;
	mov.f32 %f0, 0f00000000;
	mov.f32 %f1, 0f3F800000;
	{MMA} {{%f2, %f3, %f4, %f5}}, {{%r2, %r3, %r4, %r5}}, {{%r9, %r10}}, {{%f0, %f1, %f0, %f1}};
	{MMA} {{%f6, %f7, %f8, %f9}}, {{%r14, %r15, %r16, %r17}}, {{%r6, %r7}}, {{%f2, %f3, %f4, %f5}};
	{MMA} {{%f10, %f11, %f12, %f13}}, {{%r2, %r3, %r14, %r15}}, {{%r9, %r10}}, {{%f0, %f0, %f0, %f0}};
	@%p1 mul.rn.f32 %f6, %f6, 0f3F000000;
	cvt.rn.f16x2.f32 %r18, %f6, %f7;
	cvt.rn.f16x2.f32 %r19, %f8, %f9;
	bar.sync 0;
	mov.u32 %r20, 0;
STEP:
	{MMA} {{%f10, %f11, %f12, %f13}}, {{%r18, %r19, %r14, %r15}}, {{%r9, %r10}}, {{%f10, %f11, %f12, %f13}};
	add.u32 %r20, %r20, 1;
	setp.lt.u32 %p2, %r20, 3;
	@%p2 bra STEP;
	add.f32 %f14, %f10, %f6;
	{MMA} {{%f15, %f16, %f17, %f18}}, {{%r18, %r19, %r18, %r19}}, {{%r6, %r7}}, {{%f6, %f7, %f8, %f9}};
	add.f32 %f19, %f15, %f14;
	{MMA} {{%f20, %f21, %f22, %f23}}, {{%r18, %r19, %r18, %r19}}, {{%r9, %r10}}, {{%f15, %f16, %f17, %f18}};
	@%p1 add.f32 %f20, %f20, %f19;
	st.global.v4.f32 [%rd4], {{%f20, %f21, %f22, %f23}};
	st.global.v4.f32 [%rd4+16], {{%f10, %f11, %f12, %f14}};
	ret;
"""

DOUBLES = """\
	cvt.rn.f64.u32 %d1, %r2;
	cvt.rn.f64.u32 %d2, %r3;
	mul.rn.f64 %d1, %d1, 0d3E00000000000000;
	mul.rn.f64 %d2, %d2, 0d3E00000000000000;
	mov.f64 %d3, 0d3FF0000000000000;
	mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4, %d5}, {%d1}, {%d2}, {%d3, %d3};
	mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d4, %d5}, {%d2}, {%d1}, {%d4, %d5};
	add.rn.f64 %d6, %d4, %d1;
	{
		.reg .f64 %d<8>;
		.reg .b32 t;
		cvt.rn.f64.u32 %d2, %r4;
		cvt.rzi.u32.f64 t, %d2;
		add.u32 %r6, t, 3;
	}
	mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d7, %d8}, {%d6}, {%d2}, {%d4, %d5};
	st.global.v2.f64 [%rd4], {%d7, %d8};
	st.global.u32 [%rd4+16], %r6;
	ret;
"""

BODIES = {
    "loops": LOOPS,
    "branches": BRANCHES,
    "wide": WIDE,
    "shared": SHARED,
    "exits": EXITS,
    "phases": PHASES,
    "doubles": DOUBLES,
}
THREADS = 64


@dataclass(frozen=True, slots=True)
class Kernel:
    """One of the kernels: its module, and what it writes."""

    name: str
    document: Document
    expected: dict[str, bytes]


def module(name: str) -> Document:
    """The module of a kernel."""
    return Document.parse(HEAD + ENTER + BODIES[name] + "}\n", f"{name}.ptx")


def run(document: Document, engine: str, entry: str = "k") -> bytes:
    """The output of a kernel, or of a cut of it, on fixed input."""
    numbers = np.random.default_rng(11)
    values = numbers.normal(size=2048).astype(np.float16)  # as f16 pairs, and as integers of all sizes
    source = allocate(0x1000_0000, values, "input")
    output = allocate(0x2000_0000, np.full(THREADS * 64, 0xCD, np.uint8), "output")
    args = source.base.to_bytes(8, "little") + output.base.to_bytes(8, "little")
    execute(Launch(bind(document, entry), (1, 1, 1), (THREADS, 1, 1), args, allocations=[source, output]), engine=engine)
    return output.data.tobytes()


@cache
def kernel(name: str) -> Kernel:
    """A kernel by name, with its output on both engines."""
    document = module(name)
    return Kernel(name, document, {engine: run(document, engine) for engine in ("numpy", "warp")})
