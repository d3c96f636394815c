"""Random programs with tangled control flow, run by the interpreter and by both forms of compiled code: the same memory, down to which lanes ran together."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ptxgraft.isa import bind
from ptxgraft.run import warp_engine
from ptxgraft.run.execution import execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import allocate
from ptxgraft.text import Document

OUT, IN = 0x10000, 0x20000
VALUES = range(4, 14)
PREDICATES = range(1, 6)
BLOCKS = 9

HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 in)
{
    .reg .pred %p<12>;
    .reg .b32 %r<64>;
    .reg .b64 %rd<16>;
    .reg .f32 %f<8>;
    .shared .align 4 .b8 pool[1024];
    .local .align 4 .b8 spill[64];
    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [in];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mad.lo.u32 %r3, %r1, %r2, %r0;
    mul.wide.u32 %rd2, %r3, 4;
    add.s64 %rd3, %rd0, %rd2;
    mul.wide.u32 %rd4, %r0, 4;
    mov.u64 %rd5, pool;
    add.s64 %rd6, %rd5, %rd4;
"""


class Writer:
    """One program from a seed. No barrier and no shuffle where lanes may be gone for good."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []

    def value(self) -> str:
        return f"%r{self.random.choice(VALUES)}"

    def source(self) -> str:
        return self.value() if self.random.random() < 0.8 else str(self.random.choice((0, 1, 3, 31, 0x80000000, 0xFFFFFFFF)))

    def predicate(self) -> str:
        return f"%p{self.random.choice(PREDICATES)}"

    def guard(self) -> str:
        return self.random.choice(("", "", "", f"@{self.predicate()} ", f"@!{self.predicate()} "))

    def statement(self) -> str:
        pick, guard = self.random.random(), self.guard()
        if pick < 0.4:
            op = self.random.choice(
                ("add.u32", "sub.u32", "mul.lo.u32", "xor.b32", "and.b32", "or.b32", "min.s32", "max.u32", "shl.b32", "shr.s32")
            )
            return f"{guard}{op} {self.value()}, {self.value()}, {self.source()};"
        if pick < 0.55:
            op = self.random.choice(("lt.u32", "ge.s32", "eq.u32", "ne.u32"))
            return f"{guard}setp.{op} {self.predicate()}, {self.value()}, {self.source()};"
        if pick < 0.6:
            return f"{guard}selp.b32 {self.value()}, {self.value()}, {self.source()}, {self.predicate()};"
        if pick < 0.65:
            return f"{guard}mad.lo.s32 {self.value()}, {self.value()}, {self.source()}, {self.value()};"
        if pick < 0.7:
            return f"{guard}div.u32 {self.value()}, {self.value()}, {self.value()};"
        if pick < 0.75:
            return f"{guard}activemask.b32 {self.value()};"
        if pick < 0.85:
            return self.random.choice(
                (
                    f"and.b32 %r50, {self.value()}, 1020; cvt.u64.u32 %rd8, %r50; add.s64 %rd9, %rd1, %rd8; {guard}ld.global.u32 {self.value()}, [%rd9];",
                    f"{guard}st.shared.u32 [%rd6], {self.value()};",
                    f"{guard}ld.shared.u32 {self.value()}, [%rd6];",
                    f"and.b32 %r50, {self.value()}, 60; cvt.u64.u32 %rd8, %r50; mov.u64 %rd9, spill; add.s64 %rd9, %rd9, %rd8; "
                    f"{guard}st.local.u32 [%rd9], {self.value()};",
                    f"{guard}ld.local.u32 {self.value()}, [spill+{self.random.randrange(16) * 4}];",
                    f"{guard}st.global.u32 [%rd3], {self.value()};",
                    f"{guard}red.global.add.u32 [%rd0+4096], {self.value()};",
                )
            )
        if pick < 0.9:
            return f"{guard}popc.b32 {self.value()}, {self.value()};"
        return f"{guard}mov.u32 {self.value()}, {self.source()};"

    def together(self) -> str:
        """A statement for all lanes of the warp or block."""
        return self.random.choice(
            (
                f"shfl.sync.bfly.b32 {self.value()}, {self.value()}, {self.random.randrange(32)}, 31, -1;",
                f"vote.sync.ballot.b32 {self.value()}, {self.predicate()}, -1;",
                f"vote.sync.any.pred {self.predicate()}, {self.predicate()}, -1;",
                "bar.sync 0;",
                f"bar.sync 0; ld.shared.u32 {self.value()}, [pool+{self.random.randrange(64) * 4}]; bar.sync 0;",
            )
        )

    def text(self) -> str:
        lines = [HEAD]
        for i in VALUES:
            lines.append(f"    mad.lo.u32 %r{i}, %r3, {self.random.randrange(1, 1 << 20)}, {self.random.randrange(1 << 30)};")
        for i in PREDICATES:
            lines.append(f"    setp.gt.s32 %p{i}, %r{self.random.choice(VALUES)}, {self.random.randrange(-(1 << 30), 1 << 30)};")
        for block in range(BLOCKS):
            lines.append(f"    mov.u32 %r{20 + block}, {self.random.randrange(1, 4)};")
        # Regions of blocks that branch among themselves; between regions all lanes meet.
        regions = [(0, 3), (3, 6), (6, BLOCKS)]
        for first, last in regions:
            for block in range(first, last):
                lines.append(f"B{block}:")
                lines += [f"    {self.statement()}" for _ in range(self.random.randrange(1, 6))]
                lines.append("    " + self.jump(block, first, last))
            lines.append(f"B{last}_MEET:")
            if last != BLOCKS:
                lines += [f"    {self.together()}" for _ in range(2)]
        if self.random.random() < 0.5:
            lines.append(f"    @{self.predicate()} ret;")
        for i in VALUES:
            lines.append(f"    xor.b32 %r60, %r60, %r{i};")
            lines.append("    mul.lo.u32 %r60, %r60, 0x01000193;")
        lines.append("    st.global.u32 [%rd3+1024], %r60;")
        return "\n".join(lines) + "\n    ret;\n}\n"

    def jump(self, block: int, first: int, last: int) -> str:
        pick = self.random.random()
        forward = self.random.choice([f"B{b}" for b in range(block + 1, last)] + [f"B{last}_MEET"])
        if pick < 0.25:
            return ""
        if pick < 0.6:
            return f"@{self.predicate()} bra {forward};"
        if pick < 0.7:
            return f"bra {forward};"
        back = f"B{self.random.randrange(first, block + 1)}"
        counter = f"%r{20 + block}"
        return f"sub.u32 {counter}, {counter}, 1; setp.gt.s32 %p8, {counter}, 0; and.pred %p8, %p8, {self.predicate()}; @%p8 bra {back};"


def launch_of(text: str, block: int) -> Launch:
    args = OUT.to_bytes(8, "little") + IN.to_bytes(8, "little")
    data = np.random.default_rng(5).integers(0, 1 << 32, 256, dtype=np.uint32)
    memory = [allocate(OUT, 8192, "out"), allocate(IN, data, "in")]
    return Launch(bind(Document.parse(text), "k"), (2, 1, 1), (block, 1, 1), args, allocations=memory)


@pytest.mark.parametrize("seed", range(24))
def test_random_program(seed, monkeypatch):
    text = Writer(seed).text()
    block = (32, 64, 40, 96)[seed % 4]
    results = []
    for engine, eligible in (("numpy", None), ("warp", lambda program: True), ("warp", lambda program: False)):
        if eligible is not None:
            monkeypatch.setattr(warp_engine, "eligible", eligible)
        launch = launch_of(text, block)
        execute(launch, engine=engine, step_budget=100_000)
        results.append([a.data.copy() for a in launch.memory.allocations])
    for found in results[1:]:
        for a, b in zip(results[0], found, strict=True):
            np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
