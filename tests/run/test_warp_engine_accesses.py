"""Accesses of every space, width, spread and badness: both executors leave the same memory, or say the same about the same lane."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxgraft.errors import KernelFault
from ptxgraft.isa import bind
from ptxgraft.lower import warp_graph
from ptxgraft.lower.warp_graph import accesses_called
from ptxgraft.run import warp_engine
from ptxgraft.run.execution import execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW, allocate
from ptxgraft.text import Document

OUT, IN = 0x7F0000000000, 0x7F0000100000
WIDTHS = ("u8", "u16", "u32", "u64", "v2.u32", "v4.u32", "v2.u64", "v2.u16")
FILES = {"u8": ("%h", "u16"), "u16": ("%h", "u16"), "u32": ("%r", "u32"), "u64": ("%d", "u64")}

TEXT = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{{
    .reg .pred %p<2>;
    .reg .b16 %h<4>;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    .reg .b64 %rd<10>;
    .shared .align 16 .b8 pool[1024];
    .local .align 16 .b8 own[64];
    ld.param.u64 %rd0, [out];
    mov.u32 %r4, %tid.x;
    mul.wide.u32 %rd1, %r4, 4;
    add.s64 %rd2, %rd0, %rd1;
    cvt.u16.u32 %h0, %r4;
    mov.u32 %r0, %r4;
    mad.lo.u32 %r3, %r4, 7, 5;
    cvt.u64.u32 %d1, %r4;
    setp.ge.u32 %p0, %r4, {first};
    cvt.u64.u32 %rd4, %r4;
    mov.u64 %rd5, {base};
    mov.u64 %rd6, {stride};
    mad.lo.u64 %rd7, %rd4, %rd6, %rd5;
{access}
    ret;
}}
"""


def program(seed: int) -> tuple[str, int]:
    """A text and the number of threads to run it with."""
    pick = random.Random(seed)
    space = pick.choice(("global", "shared", "local", "", "param", "const"))
    wide = pick.choice(WIDTHS)
    count = int(wide[1]) if wide[0] == "v" else 1
    file, type = FILES[wide.rpartition(".")[2]]
    names = [f"{file}{i}" for i in range(count)]
    operand = "{" + ", ".join(names) + "}" if count > 1 else names[0]
    base = pick.choice(
        (OUT, IN, 0, 1 << 63, (1 << 64) - 8, SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW, 1000, OUT - 4, OUT + 120, IN + 16384 - 64)
        if space in ("global", "", "const")
        else (0, 0, 0, 16, 60, 1000, 1 << 32, (1 << 64) - 4)
    )
    stride = pick.choice((0, 0, 1, 2, 4, 8, 16, 32, -4, -16, 12, 1 << 40)) & ((1 << 64) - 1)
    guard = pick.choice(("", "", "@%p0 "))
    place = "." + space if space else ""
    if space != "const" and pick.random() < 0.5:
        access = f"    {guard}st{place}.{wide} [%rd7], {operand};"
    else:
        access = f"    {guard}ld{place}.{wide} {operand}, [%rd7];\n    cvt.u32.{type} %r5, {names[-1]};\n    st.global.u32 [%rd2], %r5;"
    return TEXT.format(first=pick.choice((0, 5, 39, 99)), base=base, stride=stride, access=access), pick.choice((32, 40))


@pytest.mark.parametrize("seed", range(60))
def test_access(seed, monkeypatch):
    text, threads = program(seed)
    found: list[object] = []
    for engine, eligible, in_place in (("numpy", True, 16), ("warp", True, 16), ("warp", False, 16), ("warp", True, 0)):
        monkeypatch.setattr(warp_engine, "eligible", lambda program, answer=eligible: answer)
        monkeypatch.setattr(warp_graph, "IN_PLACE", in_place)
        args = OUT.to_bytes(8, "little") + IN.to_bytes(8, "little")
        memory = [allocate(OUT, 1024, "out"), allocate(IN, np.arange(4096, dtype=np.uint32), "in")]
        marked = f"{text}// {in_place}\n"  # what is compiled is known by its text
        launch = Launch(bind(Document.parse(marked), "k"), (1, 1, 1), (threads, 1, 1), args, allocations=memory)
        try:
            execute(launch, engine=engine)
            found.append([a.data.tobytes() for a in launch.memory.allocations])
        except KernelFault as fault:
            found.append(str(fault))
    assert found[1:] == found[:1] * 3


@pytest.mark.parametrize("threads", [32, 40])
def test_many_accesses_at_one_address_and_apart(threads):
    """More than are written out in place: lanes at one address, neighbours, and lanes far from each other, where all are active and where not."""
    rows = "\n".join(
        f"    ld.global.u32 %r0, [%rd5+{4 * i}];\n    ld.global.u32 %r1, [%rd8+{4 * i}];\n    ld.global.u32 %r2, [%rd7+{4 * i}];\n"
        f"    add.u32 %r0, %r0, %r1;\n    xor.b32 %r0, %r0, %r2;\n    mad.lo.u32 %r5, %r5, 31, %r0;\n    @%p0 st.global.u32 [%rd2+512], %r5;"
        for i in range(12)
    )
    access = (
        "    mov.u32 %r5, 1;\n    mul.wide.u32 %rd8, %r4, 4;\n    add.u64 %rd8, %rd8, %rd5;\n" + rows + "\n    st.global.u32 [%rd2], %r5;"
    )
    text = TEXT.format(first=5, base=IN, stride=392, access=access)
    found = []
    for engine in ("numpy", "warp"):
        args = OUT.to_bytes(8, "little") + IN.to_bytes(8, "little")
        memory = [allocate(OUT, 1024, "out"), allocate(IN, np.arange(4096, dtype=np.uint32) * 2654435761, "in")]
        launch = Launch(bind(Document.parse(text), "k"), (1, 1, 1), (threads, 1, 1), args, allocations=memory)
        assert len(accesses_called(launch.program)) > 40
        execute(launch, engine=engine)
        found.append(memory[0].data.tobytes())
    assert found[0] == found[1] and any(found[0])
