"""Kernels with tensor-core instructions for the tests of spec."""

from __future__ import annotations

from ptxgraft.flow import Flow
from ptxgraft.isa import bind
from ptxgraft.text import Document

HEAD = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 a, .param .u64 w, .param .u64 out, .param .f32 gain, .param .align 8 .b8 block[16])
.reqntid 32, 2, 1
{
	.reg .pred %p<8>;
	.reg .b32 %r<80>;
	.reg .f32 %f<80>;
	.reg .b64 %rd<20>;
	.shared .align 16 .b8 tile[4096];
	ld.param.u64 %rd1, [a];
	ld.param.u64 %rd2, [w];
	ld.param.u64 %rd3, [out];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	mad.lo.u32 %r3, %r2, 32, %r1;
	mul.wide.u32 %rd4, %r3, 16;
	add.u64 %rd5, %rd1, %rd4;
	mul.wide.u32 %rd6, %r3, 8;
	add.u64 %rd7, %rd2, %rd6;
	mov.f32 %f0, 0f00000000;
"""
MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
HEAD_LINES = HEAD.count("\n")


def mma(d: str, a: str, b: str, c: str) -> str:
    """One mma; operands as bases and numbers: ``f1`` stands for f1..f4, ``r10`` for r10, r11, ..."""

    def registers(name: str, count: int) -> str:
        base, first = name[0], int(name[1:])
        return "{" + ", ".join(f"%{base}{first + i}" for i in range(count)) + "}"

    c = "{%f0, %f0, %f0, %f0}" if c == "0" else registers(c, 4)
    return f"{MMA} {registers(d, 4)}, {registers(a, 4)}, {registers(b, 2)}, {c};"


def flow(*rows: str) -> Flow:
    """The entry ``k`` with these statements after the head, one a line."""
    return Flow(bind(Document.parse(HEAD + "\n".join(rows) + "\nret;\n}\n", "k.ptx"), "k"))


LOADS = (
    "ld.global.v4.b32 {%r10, %r11, %r12, %r13}, [%rd5];",
    "ld.global.v2.b32 {%r20, %r21}, [%rd7];",
    "ld.global.v2.b32 {%r22, %r23}, [%rd7+512];",
)
