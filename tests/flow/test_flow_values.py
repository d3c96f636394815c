"""Symbolic values against the values that the interpreter computes, and uniformity against what lanes hold."""

from __future__ import annotations

import numpy as np
from flow_kernels import HEAD, flow
from hypothesis import given, settings
from hypothesis import strategies as st

from ptxgraft.flow import Flow, block_environment, evaluate
from ptxgraft.graft import FILL, probe, read_probe
from ptxgraft.isa import bind
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

BLOCK = (8, 3, 2)
N, M = 0x1234_5678, 7

# One statement each; %d, %a, %b are 32-bit registers, %D, %A, %B 64-bit ones, # an immediate.
STATEMENTS = (
    "mov.u32 %d, %tid.x;", "mov.u32 %d, %tid.y;", "mov.u32 %d, %laneid;", "mov.u32 %d, %ntid.x;", "mov.u32 %d, #;", "mov.u32 %d, %a;",
    "mov.u32 %d, tile;", "ld.param.u32 %d, [n];", "ld.param.u32 %d, [m];", "add.u32 %d, %a, %b;", "sub.s32 %d, %a, #;", "mul.lo.u32 %d, %a, #;",
    "mul.lo.s32 %d, %a, %b;", "mad.lo.u32 %d, %a, #, %b;", "shl.b32 %d, %a, &;", "shr.u32 %d, %a, &;", "shr.s32 %d, %a, &;", "and.b32 %d, %a, #;",
    "and.b32 %d, %a, %b;", "or.b32 %d, %a, %b;", "xor.b32 %d, %a, #;", "not.b32 %d, %a;", "mul.wide.u32 %D, %a, #;", "mul.wide.s32 %D, %a, 4;",
    "cvt.u64.u32 %D, %a;", "cvt.s64.s32 %D, %a;", "cvt.u32.u64 %d, %A;", "add.s64 %D, %A, %B;", "shl.b64 %D, %A, &;", "shr.u64 %D, %A, &;",
    "mov.b64 %D, {%a, %b};", "selp.b32 %d, %a, %b, %p1;", "setp.lt.u32 %p1, %a, %b;", "setp.ge.s32 %p1, %a, #;", "neg.s32 %d, %a;",
    "min.u32 %d, %a, #;", "bfe.u32 %d, %a, 3, 5;", "cvt.u32.u16 %d, %h1;", "cvt.u16.u32 %h1, %a;", "mad.wide.u32 %D, %a, #, %B;",
)  # fmt: skip


@st.composite
def straight_lines(draw: st.DrawFn) -> str:
    rows = (
        [f"mov.u32 %r{i}, {i};" for i in range(1, 5)]
        + [f"mov.u64 %rd{i}, {i};" for i in range(1, 4)]
        + ["setp.eq.u32 %p1, %r1, 1;", "mov.u16 %h1, 3;"]
    )
    number = st.sampled_from([0, 1, 2, 3, 4, 7, 12, 31, 32, 80, 255, 0xFFF0, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF])
    for _ in range(draw(st.integers(1, 12))):
        row = draw(st.sampled_from(STATEMENTS))
        for mark, base, high in (("%d", "%r", 4), ("%a", "%r", 4), ("%b", "%r", 4), ("%D", "%rd", 3), ("%A", "%rd", 3), ("%B", "%rd", 3)):
            row = (
                row.replace(mark, f"{base}{draw(st.integers(1, high))}")
                if f"{mark}," in row or f"{mark};" in row or f"{mark}}}" in row
                else row
            )
        row = row.replace("#", str(draw(number))).replace("&", str(draw(st.integers(0, 33))))
        rows.append(row)
    return "\n".join(rows)


def values(body: str, registers: list[str]) -> dict[str, np.ndarray]:
    """What the registers hold at the end, for each thread of one block in thread order."""
    module = Document.parse(HEAD + body + "\nret;\n}\n")
    made = probe(module, "k", "ret", registers)
    slots = made.slots_needed((1,), BLOCK)
    buffer = allocate(0x1000_0000, np.full(slots * made.slot_bytes, FILL, np.uint8), "probe")
    args = (0).to_bytes(8, "little") + N.to_bytes(4, "little") + M.to_bytes(4, "little")
    execute(
        Launch(bind(made.document, "k"), (1, 1, 1), BLOCK, made.argument_bytes(args, buffer.base, slots), allocations=[buffer]),
        engine="numpy",
    )
    found = read_probe(made, buffer.data, (1,), BLOCK, bits=True)
    threads = BLOCK[0] * BLOCK[1] * BLOCK[2]
    return {name: value.reshape(-1)[:threads].astype(np.uint64) for name, value in found.items()}


@settings(deadline=None, max_examples=120)
@given(straight_lines())
def test_a_symbolic_value_is_the_value(body: str):
    facts = Flow(bind(Document.parse(HEAD + body + "\nret;\n}\n"), "k"))
    program = facts.program
    environment = block_environment(BLOCK)
    shape = environment["special", "laneid"].shape
    environment["param", 8, 32] = np.full(shape, N, np.uint64)
    environment["param", 12, 32] = np.full(shape, M, np.uint64)
    for variable in program.variables:
        if variable.space == "shared":
            environment["variable", variable.id] = np.full(shape, variable.offset, np.uint64)
    end = len(program.instructions) - 2
    names = [r.name for r in program.registers if r.type.width >= 32]
    found = values(body, names)
    known = 0
    for register in program.registers:
        if register.name in found:
            value = evaluate(facts.symbols.register(register.id, end), environment)
            if value is not None:
                known += 1
                assert (value == found[register.name]).all(), register.name
                bounds = facts.symbols.register(register.id, end).bounds()
                assert bounds is None or (bounds[0] <= int(value.min()) and int(value.max()) <= bounds[1])
    assert known  # at least the constants that every body begins with are known, unless all were overwritten by what is not


def test_addresses_keep_their_parts():
    facts = flow(
        """ld.param.u64 %rd1, [p];
        mov.u32 %r1, %tid.x;
        mul.wide.u32 %rd2, %r1, 16;
        add.s64 %rd3, %rd1, %rd2;
        ld.global.u32 %r2, [%rd3+64];
        mov.u32 %r3, tile;
        shl.b32 %r4, %r1, 2;
        add.u32 %r5, %r3, %r4;
        st.shared.u32 [%r5+8], %r2;
        ret;"""
    )
    load = facts.symbols.address(4)
    assert load is not None and load.constant == 64
    assert {a.key: c for a, c in load.terms} == {("param", 0, 64): 1, ("special", "tid.x"): 16}
    rest = load.without(("param", 0, 64))
    assert rest is not None and rest.bounds() == (64, 64 + 16 * 1023)
    store = facts.symbols.address(8)
    assert store is not None and {a.key[0]: c for a, c in store.terms} == {"variable": 1, "special": 4}
    assert evaluate(load, block_environment((32, 1, 1))) is None  # the parameter has no value here


def test_a_loops_value_is_an_atom_of_its_own():
    facts = flow(
        """mov.u32 %r1, 0;
        mov.u32 %r9, 5;
        L:
        add.u32 %r2, %r1, 4;
        add.u32 %r1, %r1, 1;
        setp.lt.u32 %p1, %r1, %r9;
        @%p1 bra L;
        st.shared.u32 [tile], %r2;
        ret;"""
    )
    names = {r.name: r.id for r in facts.program.registers}
    inside = facts.symbols.register(names["%r1"], 2)
    assert [a.key[0] for a, _ in inside.terms] == ["register"]
    assert not facts.symbols.register(names["%r2"], 6).is_constant
    assert facts.symbols.register(names["%r9"], 6).constant == 5


UNIFORM_STATEMENTS = (
    "add.u32 %r1, %r2, %r3;", "mov.u32 %r2, %tid.x;", "mov.u32 %r3, %ctaid.x;", "ld.param.u32 %r1, [n];", "mov.u32 %r2, %r1;", "mov.u32 %r3, 5;",
    "mov.u32 %r1, %laneid;", "@%p1 add.u32 %r2, %r2, 1;", "setp.lt.u32 %p1, %r1, 9;", "setp.lt.u32 %p1, %r3, 9;", "shl.b32 %r3, %r1, 1;",
    "shfl.sync.idx.b32 %r1, %r2, 3, 31, 0xffffffff;",
)  # fmt: skip


@st.composite
def forks(draw: st.DrawFn) -> str:
    """Statements with forward branches over some of them: every lane comes to the end."""
    rows = ["mov.u32 %r1, 1;", "mov.u32 %r2, 2;", "mov.u32 %r3, 3;", "setp.eq.u32 %p1, %r1, 1;"]
    count = draw(st.integers(2, 12))
    ends: list[int] = []
    for i in range(count):
        rows.append(f"L{i}:")
        ends = [e for e in ends if e > i]
        if not ends and draw(st.integers(0, 3)) == 0:
            end = draw(st.integers(i + 1, count))
            ends.append(end)
            rows.append(f"@%p1 bra L{end};")
        else:
            # Lanes of a fork run apart: no shuffle there.
            rows.append(draw(st.sampled_from(UNIFORM_STATEMENTS[: -1 if ends else None])))
    return "\n".join([*rows, f"L{count}:"])


@settings(deadline=None, max_examples=120)
@given(forks())
def test_uniform_registers_are_alike_in_a_warp(body: str):
    facts = flow(body + "\nret;")
    names = [r.name for r in facts.program.registers if r.id in facts.uniform and r.type.width == 32]
    if not names:
        return
    found = values(body, names)
    for name, value in found.items():
        for warp in (value[:32], value[32:]):
            assert (warp == warp[0]).all(), name


def test_what_is_uniform():
    facts = flow(
        """mov.u32 %r1, %tid.x;
        mov.u32 %r2, %ctaid.x;
        ld.param.u64 %rd1, [p];
        ld.global.u32 %r3, [%rd1];
        setp.lt.u32 %p1, %r1, 5;
        setp.lt.u32 %p2, %r2, 5;
        @%p2 bra U;
        mov.u32 %r4, 1;
        U:
        @%p1 bra D;
        mov.u32 %r5, 1;
        D:
        add.u32 %r6, %r4, 1;
        activemask.b32 %r7;
        st.shared.v4.u32 [tile], {%r4, %r5, %r6, %r7};
        ret;"""
    )
    uniform = {facts.program.registers[r].name for r in facts.uniform}
    assert uniform == {"%r2", "%rd1", "%r3", "%p2", "%r4", "%r6"}
