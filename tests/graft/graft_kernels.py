"""Small kernels and the way to run them, for the tests of graft."""

from __future__ import annotations

import numpy as np

from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

MIXED = """\
.version 8.0
.target sm_80
.address_size 64

.global .align 4 .u32 table[8] = {3, 1, 4, 1, 5, 9, 2, 6};

.func (.param .b32 result) twist(.param .b32 a, .param .b32 b)
{
	.reg .b32 %r<4>;
	ld.param.b32 %r1, [a];
	ld.param.b32 %r2, [b];
	xor.b32 %r3, %r1, %r2;
	add.u32 %r3, %r3, 77;
	st.param.b32 [result], %r3;
	ret;
}

.visible .entry mixed(
	.param .u64 input,
	.param .u64 output,
	.param .u32 count,
	.param .f32 scale,
	.param .align 8 .b8 pair[16]
)
.maxntid 96, 1, 1
{
	.reg .pred %p<8>;
	.reg .b16 %rs<6>;
	.reg .f16 %h<4>;
	.reg .b32 %r<32>;
	.reg .f32 %f<8>;
	.reg .b64 %rd<16>;
	.reg .f64 %fd<4>;
	.shared .align 16 .b8 staging[512];
	.local .align 4 .b8 depot[16];

	ld.param.u64 %rd1, [input];
	ld.param.u64 %rd2, [output];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mad.lo.u32 %r1, %r2, 48, %r1;
	mul.wide.u32 %rd3, %r1, 4;
	add.u64 %rd4, %rd1, %rd3;
	ld.global.u32 %r3, [%rd4];	// a comment with } and %r3
	and.b32 %r4, %r3, 7;
	setp.lt.u32 %p1, %r4, 4;
	setp.eq.u32 %p2|%p3, %r4, 5;
	selp.b32 %r5, 11, 22, %p1;
	@%p2 add.u32 %r5, %r5, 100;
	@!%p3 mov.u32 %r6, %r5;
	@%p3 mov.u32 %r6, 9;
	cvt.u16.u32 %rs1, %r3;
	add.u16 %rs2, %rs1, 3;
	mov.b32 %r7, {%rs2, %rs1};
	cvt.u64.u32 %rd5, %r7;
	shl.b64 %rd5, %rd5, 17;
	xor.b64 %rd6, %rd5, %rd3;
	mov.u32 %r8, staging;
	shl.b32 %r9, %r1, 2;
	add.u32 %r10, %r8, %r9;
	st.shared.u32 [%r10], %r7;
	bar.sync 0;
	ld.shared.u32 %r11, [staging+8];
	ld.param.f32 %f1, [scale];
	cvt.rn.f32.u32 %f2, %r4;
	fma.rn.f32 %f3, %f1, %f2, %f2;
	cvt.f64.f32 %fd1, %f3;
	add.rn.f64 %fd2, %fd1, 0d3FF0000000000000;
	cvt.rn.f16.f32 %h1, %f3;
	add.f16 %h2, %h1, %h1;
	mov.u32 %r12, 0;
	mov.u32 %r13, 0;
LOOP:
	add.u32 %r13, %r13, %r5;
	add.u32 %r12, %r12, 1;
	setp.lt.u32 %p4, %r12, %r4;
	@%p4 bra LOOP;
	@%p1 bra ELSE;
	mul.lo.u32 %r14, %r13, 3;
	bra.uni JOIN;
ELSE:
	ld.param.u32 %r15, [count];
	sub.u32 %r14, %r15, %r13;
JOIN:
	{
		.reg .b32 %r<4>;
		.reg .pred t;
		mov.u32 %r1, 5;
		add.u32 %r2, %r1, %r14;
		setp.gt.u32 t, %r2, 40;
		@t mov.u32 %r3, 6;
		@!t mov.u32 %r3, %r2;
		mov.u32 %r16, %r3;
	}
	{
		.param .b32 p0;
		.param .b32 p1;
		.param .b32 back;
		st.param.b32 [p0], %r16;
		st.param.b32 [p1], %r14;
		call.uni (back), twist, (p0, p1);
		ld.param.b32 %r17, [back];
	}
	mov.u64 %rd7, depot;
	st.local.u32 [depot+4], %r17;
	ld.local.u32 %r18, [%rd7+4];
	ld.param.v2.u32 {%r19, %r20}, [pair+8];
	mov.u64 %rd8, table;
	mul.wide.u32 %rd9, %r4, 4;
	add.u64 %rd8, %rd8, %rd9;
	ld.global.u32 %r21, [%rd8];
	shl.b32 %r22, %r1, 6;
	cvt.u64.u32 %rd10, %r22;
	add.u64 %rd11, %rd2, %rd10;
	st.global.v4.u32 [%rd11], {%r5, %r6, %r7, %r11};
	st.global.v2.u64 [%rd11+16], {%rd5, %rd6};
	st.global.v4.u32 [%rd11+32], {%r13, %r14, %r16, %r18};
	st.global.v2.u32 [%rd11+48], {%r19, %r20};
	selp.b32 %r23, %r21, 0, %p2;
	mov.b32 %r24, {%h2, %rs2};
	st.global.v2.u32 [%rd11+56], {%r23, %r24};
	st.global.f64 [%rd11+24], %fd2;
	ret;
}
"""
"""Loop, branches, predicates, 16- and 64-bit registers, shared and local memory, a call, nested scopes; 96 threads as 48 x 2."""

MMA = """\
.version 8.0
.target sm_80
.address_size 64

.visible .entry product(.param .u64 a, .param .u64 w, .param .u64 out, .param .f32 gain)
.maxntid 64
{
	.reg .b32 %r<40>;
	.reg .f32 %f<40>;
	.reg .b64 %rd<12>;
	.shared .align 16 .b8 tile[2048];

	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [w];
	ld.param.u64 %rd3, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd4, %r1, 16;
	add.u64 %rd5, %rd1, %rd4;
	ld.global.v4.b32 {%r2, %r3, %r4, %r5}, [%rd5];
	mul.wide.u32 %rd6, %r1, 8;
	add.u64 %rd7, %rd2, %rd6;
	ld.global.v2.b32 {%r6, %r7}, [%rd7];
	ld.global.v2.b32 {%r8, %r9}, [%rd7+512];
	mov.u32 %r10, tile;
	shl.b32 %r11, %r1, 4;
	add.u32 %r12, %r10, %r11;
	st.shared.v4.b32 [%r12], {%r2, %r3, %r4, %r5};
	bar.sync 0;
	xor.b32 %r13, %r12, 512;
	ld.shared.v4.b32 {%r14, %r15, %r16, %r17}, [%r13];
	bar.sync 0;
	mov.f32 %f0, 0f00000000;
	// first phase
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r2, %r3, %r4, %r5}, {%r6, %r7}, {%f0, %f0, %f0, %f0};
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f5, %f6, %f7, %f8}, {%r14, %r15, %r16, %r17}, {%r8, %r9}, {%f1, %f2, %f3, %f4};
	// between
	ld.param.f32 %f9, [gain];
	mul.rn.f32 %f10, %f5, %f9;
	mul.rn.f32 %f11, %f6, %f9;
	cvt.rn.f16x2.f32 %r18, %f11, %f10;
	mul.rn.f32 %f12, %f7, %f9;
	mul.rn.f32 %f13, %f8, %f9;
	cvt.rn.f16x2.f32 %r19, %f13, %f12;
	// second phase
	mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%f14, %f15, %f16, %f17}, {%r18, %r19, %r18, %r19}, {%r6, %r7}, {%f5, %f6, %f7, %f8};
	mul.wide.u32 %rd8, %r1, 16;
	add.u64 %rd9, %rd3, %rd8;
	st.global.v4.f32 [%rd9], {%f14, %f15, %f16, %f17};
	ret;
}
"""
"""Two phases with an epilogue between them; A from global and shared memory, B from the weight image ``w``; two warps."""


def document(text: str, name: str = "kernel.ptx") -> Document:
    """The text as a module."""
    return Document.parse(text, name)


def run_mixed(module: Document, engine: str = "numpy", entry: str = "mixed") -> np.ndarray:
    """The output of MIXED, or of a graft of it, on fixed input: bytes of 2 blocks' one output buffer."""
    threads = 96
    source = allocate(0x1000_0000, np.arange(threads, dtype=np.uint32) * 2654435761 % 65521, "input")
    output = allocate(0x2000_0000, np.full(64 * 144, 0xCD, np.uint8), "output")
    args = (0x1000_0000).to_bytes(8, "little") + (0x2000_0000).to_bytes(8, "little") + (1000).to_bytes(4, "little")
    args += np.float32(1.5).tobytes() + np.array([7, 8, 9, 10], np.uint32).tobytes()
    execute(Launch(bind(module, entry), (1, 1, 1), (48, 2, 1), args, allocations=[source, output]), engine=engine)
    return output.data.copy()


def mma_launch(module: Document, extra: bytes = b"", buffers: list | None = None, grid: tuple[int, int, int] = (1, 1, 1)) -> Launch:
    """MMA, or a graft or probe of it, on fixed input; ``extra`` follows its arguments. The output is the third allocation."""
    numbers = np.random.default_rng(5)
    a = allocate(0x1000_0000, numbers.normal(size=64 * 8).astype(np.float16), "a")
    w = allocate(0x1100_0000, numbers.normal(size=512).astype(np.float16), "w")
    out = allocate(0x1200_0000, np.full(64 * 16, 0xCD, np.uint8), "out")
    args = b"".join(x.base.to_bytes(8, "little") for x in (a, w, out)) + np.float32(0.25).tobytes()
    if extra:
        args = args.ljust(32, b"\0") + extra
    return Launch(bind(module, "product"), grid, (64, 1, 1), args, allocations=[a, w, out, *(buffers or [])])


def run_mma(module: Document, engine: str = "numpy") -> np.ndarray:
    """The output bytes of MMA or a graft of it."""
    launch = mma_launch(module)
    execute(launch, engine=engine)
    return launch.allocations[2].data.copy()
