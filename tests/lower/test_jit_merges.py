"""Bit selections under a mask come out right: LLVM 22.1's x86 code generator gets some of them wrong where it sees their constants."""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

import ptxgraft
from ptxgraft.lower import jit

LANES = 16
LOW, HIGH = 0x7FFFFFFF, 0x80000000
FORMS = {
    "or": (["%p = and {T} %x, splat (i32 2147483647)", "%q = and {T} %y, splat (i32 -2147483648)", "%t = or {T} %p, %q"]),
    "xor": (["%d = xor {T} %x, %y", "%p = and {T} %d, splat (i32 2147483647)", "%t = xor {T} %p, %y"]),
    "shift": (["%a = shl {T} %x, splat (i32 1)", "%p = lshr {T} %a, splat (i32 1)", "%b = lshr {T} %y, splat (i32 31)",
               "%q = shl {T} %b, splat (i32 31)", "%t = or {T} %p, %q"]),
}  # fmt: skip
"""Three ways to write the low bits of x beside the high bit of y."""
CASES = list(itertools.product(FORMS, "xyw", ["", "x", "y", "xy"], [True, False]))
"""Form, what stands where the mask says no, which operands come from memory, and which side of the select the selection is on."""


def function(name: str, form: str, other: str, loaded: str, first: bool) -> str:
    shape = f"<{LANES} x i32>"
    lines = []
    for operand in "xyw":
        raw = operand if operand in loaded else f"{operand}0"
        lines.append(f"%{raw} = load {shape}, ptr %p{operand}, align 64")
        if operand not in loaded:
            lines.append(f"%{operand} = add {shape} %{raw}, splat (i32 1)")
    lines += ["%m = load i16, ptr %pm", f"%k = bitcast i16 %m to <{LANES} x i1>", *(line.replace("{T}", shape) for line in FORMS[form])]
    sides = ("%t", f"%{other}") if first else (f"%{other}", "%t")
    lines += [f"%s = select <{LANES} x i1> %k, {shape} {sides[0]}, {shape} {sides[1]}", f"store {shape} %s, ptr %po, align 64", "ret void"]
    return f"define void @{name}(ptr %px, ptr %py, ptr %pw, ptr %pm, ptr %po) {{\n" + "\n".join(lines) + "\n}\n"


def aligned() -> np.ndarray:
    block = np.zeros(LANES * 4 + 64, np.uint8)
    start = -block.ctypes.data % 64
    return block[start : start + LANES * 4].view(np.uint32)


@pytest.mark.parametrize("passes", ["none", "sroa", "quick", "O2"])
def test_selections_under_a_mask(passes: str) -> None:
    text = "\n".join(function(f"f{i}", *case) for i, case in enumerate(CASES))
    engine = jit.load_objects([jit.compile_ir(text, 2, None, passes)])
    random = np.random.default_rng(7)
    wrong = []
    for i, (form, other, loaded, first) in enumerate(CASES):
        memory = {name: aligned() for name in "xywo"}
        for name in "xyw":
            memory[name][:] = random.integers(0, 1 << 32, LANES, dtype=np.uint32)
        mask = random.integers(0, 1 << 16, 1, dtype=np.uint16)
        call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 5)(engine.address(f"f{i}"))
        call(*(memory[name].ctypes.data for name in "xyw"), mask.ctypes.data, memory["o"].ctypes.data)
        value = {name: memory[name] if name in loaded else memory[name] + np.uint32(1) for name in "xyw"}
        selected = (value["x"] & np.uint32(LOW)) | (value["y"] & np.uint32(HIGH))
        taken = (int(mask[0]) >> np.arange(LANES) & 1).astype(bool) == first
        if not np.array_equal(np.where(taken, selected, value[other]), memory["o"]):
            wrong.append((form, other, loaded, first))
    assert not wrong


def test_hidden_constants_compute_the_same() -> None:
    text = function("f", "or", "w", "", True)
    hidden = jit.hidden_masks(text)
    assert "splat (i32 2147483647), align 64" in hidden and "and <16 x i32> %x, splat" not in hidden
    assert hidden.count("externally_initialized") == 2  # two masks; the addend is of no bitwise operation
    jit.compile_ir(hidden)


BODY = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .reg .b32 %r<8>; .reg .f32 %f<4>; .reg .pred %p<3>; .reg .b64 %rd<5>; .reg .b16 %h<5>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out];
    mov.u32 %r1, %tid.x;
    mad.wide.u32 %rd1, %r1, 8, %rd1; mad.wide.u32 %rd2, %r1, 16, %rd2;
    ld.global.v2.b32 {%r2, %r3}, [%rd1];
    and.b32 %r4, %r2, 5; setp.ne.u32 %p1, %r4, 0;
    mov.b32 %f1, %r2; mov.b32 %f2, %r3;
    @%p1 copysign.f32 %f2, %f1, %f2;
    mov.b32 %r5, %r3;
    @!%p1 prmt.b32 %r5, %r2, %r5, 0x7610;
    mov.b32 {%h1, %h2}, %r2; mov.b32 {%h3, %h4}, %r3;
    mov.b32 %r6, %r2;
    @%p1 mov.b32 %r6, {%h1, %h4};
    mov.b32 %r7, %r2;
    @%p1 lop3.b32 %r7, %r2, 0x00FF00FF, %r3, 0xB8;
    mov.b32 %r4, %f2;
    st.global.v4.b32 [%rd2], {%r4, %r5, %r6, %r7};
    ret;
}
"""


def test_guarded_merges_on_both_engines() -> None:
    data = np.random.default_rng(3).integers(0, 1 << 32, (256, 2), dtype=np.uint32)
    found = []
    for engine in ("numpy", "warp"):
        out = np.zeros((256, 4), np.uint32)
        ptxgraft.load(BODY).kernel("k", engine=engine).launch(1, 256, [data, out])
        found.append(out)
    assert np.array_equal(*found)
