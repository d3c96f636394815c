"""Views on a narrow terminal and in a pipe: exact texts."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console, RenderableType

import ptxgraft
from ptxgraft import capture
from ptxgraft.report import bisection_view, capture_view, launch_view, proof_view, spec_view, verdict_view
from ptxgraft.spec import spec_markdown
from ptxgraft.verify import Bisection, OutputResult, Sample, Verdict, WeightProof

KERNEL = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry tiny(.param .u64 weights, .param .u64 out)
.reqntid 32
{
	.reg .b32 %r<12>;
	.reg .b64 %rd<5>;
	ld.param.u64 %rd1, [weights];
	ld.param.u64 %rd2, [out];
	mov.u32 %r1, %tid.x;
	mul.wide.u32 %rd3, %r1, 4;
	add.s64 %rd4, %rd1, %rd3;
	ld.global.u32 %r2, [%rd4];
	mov.u32 %r3, 0;
	mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r4, %r5}, {%r3, %r3}, {%r2}, {%r3, %r3};
	add.s64 %rd4, %rd2, %rd3;
	st.global.u32 [%rd4], %r4;
	ret;
}
"""


def text(view: RenderableType, width: int = 200) -> str:
    stream = io.StringIO()
    Console(file=stream, width=width).print(view)
    return "\n".join(line.rstrip() for line in stream.getvalue().split("\n"))


def test_a_spec():
    made = ptxgraft.spec(KERNEL)
    assert (
        text(spec_view(made))
        == """tiny  (<ptx>; block 32x1x1, reqntid)

parameters
offset  size  type  use      name
     0     8  u64   weights  weights
     8     8  u64   buffer   out

mma region: lines 16 to 16, 1 statements, 1 mma in 1 phases

phase  lines  shape and types          mma  m x n x k  A           B          C           weights                 live across
    0  16-16  m16n8k8 f16.f16.f16.f16    1  1x1x1      1 constant  1 weights  1 constant  128 bytes in 0x0..0x80         16 B

epilogues
after phase  statements  what
    (start)           7  (2 integer, 2 load param, 2 move, 1 load global)
          0           3  (1 control, 1 integer, 1 store global)

phase 0
operand  provenance     first mma  uses  over lanes  registers
A        constant(0x0)          0     1              %r3 %r3
B        weights+0x0            0     1  4 a lane    %r2
C        constant(0x0)          0     1              %r3 %r3

cut ABI of the region
live in: 2 registers: %r2 b32, %r3 b32
live out: 1 registers: %r4 b32
shared arrays: none; predicates: none
barriers inside, at lines: none
"""
    )
    narrow = text(spec_view(made, full=False), 60)
    assert "\n\nepilogues: no idiom recognised\n\ncut ABI" in narrow and "after phase" not in narrow
    assert made.abi is not None
    made.abi.shared.extend(["tile", "?"])
    assert "shared arrays: tile, one that was not traced to its array; predicates: none" in text(spec_view(made))
    assert "Shared arrays touched: `tile`, one that was not traced to its array" in spec_markdown(made)
    assert max(map(len, narrow.split("\n"))) <= 60 and "    A: 1 constant; B: 1 weights; C: 1 constant; weights: 128" in narrow
    assert "%r3" not in narrow


def test_a_verdict():
    several = [OutputResult("allocation 0", 1024, 0), OutputResult("surface at argument 8", 65536, 0)]
    made = Verdict("same", 66560, 0, outputs=several, warnings=["odd"], poisoned=["surface at argument 8"])
    assert (
        text(verdict_view(made))
        == """same: 66,560 bytes compared, 0 differing
warning: odd
output                 bytes compared  differing
allocation 0                    1,024          0
surface at argument 8          65,536          0  poisoned before the run
"""
    )
    assert text(verdict_view(Verdict("not comparable", 0, 0, why="sizes"))) == "not comparable: sizes\n"


@pytest.mark.parametrize(("verdict", "colour"), [("same", "32"), ("differs", "31"), ("not comparable", "33")])
def test_a_verdict_has_its_colour(verdict, colour):
    stream = io.StringIO()
    Console(file=stream, width=200, force_terminal=True, color_system="standard").print(verdict_view(Verdict(verdict, 1, 0)))
    assert f"\x1b[{colour}m" in stream.getvalue()


def test_a_bisection():
    made = Bisection("p3", 120, "%r4", (1, 0, 2), 3, 31, 0x10, None, 5, ["p2", "p3"], {"a": "no", "p0": "gone", "p1": "gone"})
    assert text(bisection_view(made)) == (
        "first differs at stage p3 (line 120): register %r4, block (1, 0, 2) warp 3 lane 31: "
        "expected 0x10, found nothing, the lane never came there; 5 values of the stage differ\n"
        "not compared: a: no\nnot compared: p0, p1: gone\n"
    )
    many = Bisection(None, checked=["out"], skipped={f"p{n}": "gone" for n in range(40)})
    assert "not compared: p0, p1, p2, ..., p39: gone" in text(bisection_view(many))


def test_a_proof():
    right = Sample(16, 0, 0, True), Sample(24, 0, None, None), Sample(4000, None, None, True)
    assert text(proof_view(WeightProof([*right], [0]))).startswith(
        "weight map holds: 2 bytes changed inside claimed ranges (1 without any effect), 1 outside; 1 phases seen to change first, 0 contradictions"
    )
    wrong = text(proof_view(WeightProof([*right, Sample(32, None, 5, False)], [0], [2], [3])))
    assert "weight map is not proved" in wrong and "byte 0x20: expected no phase, first changed phase 5" in wrong
    assert "never seen to change: phases 2" in wrong and "all their bytes are read by earlier phases too: phases 3" in wrong


def launch(kernel: str = "tiny") -> capture.Launch:
    image = capture.Image("texture", 8, 77, 2, 2, 4, 16, "linear", ("clamp", "wrap"), True, np.zeros(32, np.uint8))
    odd = capture.Image("surface", 16, 78, 2, 2, 4, 999)
    held = capture.Allocation(3, 0x7F0000000000, 16, np.zeros(16, np.uint8))
    pointers = [capture.Pointer(0, 3, 0), capture.Pointer(24, 3, 8)]
    return capture.Launch(
        4, kernel, (2, 1, 1), (32, 1, 1), bytes(32), 0, [held], pointers, [image], [odd], [capture.Variable("table", b"12")]
    )


def test_a_launch():
    assert (
        text(launch_view(launch()))
        == """launch 4 (tiny): grid (2, 1, 1), block (32, 1, 1), 32 argument bytes

argument  bytes  parameter  type  value
       0      8  -          -     allocation 3 + 0
       8      8  -          -     texture 0x4d
      16      8  -          -     surface 0x4e
      24      8  -          -     allocation 3 + 8

index  base            bytes  after recorded  pointed to from argument
    3  0x7f0000000000     16  no              0, 24+8

argument  kind     size   format         filter  address     normalized
       8  texture  2x2x4  HALF           linear  clamp/wrap  true
      16  surface  2x2x4  unknown (999)  -       -           -

module variables: table
"""
    )


def test_a_capture():
    long = "_ZN7cutlass6KernelI" + "x" * 100
    made = capture.Capture([launch(), launch(long)], notes=["unknown lines"])
    made.launches[1].seq = 5
    wide = text(capture_view(made), 300)
    assert "seq  grid   block   shared  arguments  allocations  textures  surfaces  module  kernel\n" in wide and long in wide
    narrow = text(capture_view(made), 80)
    assert max(map(len, narrow.split("\n"))) <= 80 and long in narrow.replace("\n", "").replace(" ", "")
    assert "    shared: 0; textures: 1; surfaces: 1; module: -" in narrow and "note: unknown lines" in narrow
