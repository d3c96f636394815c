"""Programs as threaded code: places of registers, shared operations, labels; and compiled functions that are kept."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ptxgraft.errors import UnsupportedError
from ptxgraft.flow.cfg import build_cfg
from ptxgraft.flow.liveness import build_liveness
from ptxgraft.isa import Program, bind
from ptxgraft.lower import jit, warp_compile
from ptxgraft.lower.warp_compile import ENTRY, Functions
from ptxgraft.lower.warp_graph import IN_LOOPS, IN_PLACE, LIMIT, accesses_called, build_graph, compile_cost, eligible, passes_for
from ptxgraft.lower.warp_plan import WarpPlan, leaders_of
from ptxgraft.lower.warp_program import assemble, native_code, register_slots
from ptxgraft.lower.warp_state import LAUNCH, WARP, WORKER, Layout, slot_bytes
from ptxgraft.text import Document

HEAD = """.version 8.4
.target sm_80
.address_size 64
.visible .entry k(.param .u64 out)
{
    .reg .pred %p<10>;
    .reg .b32 %r<400>;
    .reg .b64 %rd<10>;
"""


def program_of(body: str) -> Program:
    return bind(Document.parse(HEAD + body + "    ret;\n}\n"), "k")


def plan_of(program: Program) -> WarpPlan:
    cfg = build_cfg(program)
    live = build_liveness(program, cfg)
    return WarpPlan([(b.start, b.stop) for b in cfg.blocks], live.live_in, live.live_out)


LOOP = """    ld.param.u64 %rd0, [out];
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, 0;
    mov.u32 %r9, 5;
L:
    add.u32 %r2, %r1, %r0;
    add.u32 %r3, %r2, 7;
    xor.b32 %r1, %r3, %r9;
    setp.lt.u32 %p0, %r1, 100;
    @%p0 bra L;
    shfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;
    st.global.u32 [%rd0], %r4;
"""


@pytest.mark.parametrize("body", [LOOP, "".join(f"    add.u32 %r{i + 1}, %r{i}, %r{i // 2};\n" for i in range(300))])
def test_registers_that_are_live_together_never_share_a_place(body):
    program = program_of(body)
    plan = plan_of(program)
    slots, size = register_slots(program, plan)
    cfg = build_cfg(program)
    live = build_liveness(program, cfg).before(range(len(program.instructions)))
    for index, registers in live.items():
        here = sorted(
            (slots[r], slots[r] + slot_bytes(program.registers[r].type.width)) for r in registers | set(program.instructions[index].reads)
        )
        for (_, end), (start, _) in pairwise(here):
            assert end <= start
    for register, slot in slots.items():
        width = slot_bytes(program.registers[register].type.width)
        assert slot >= WARP.size and slot + width <= size and slot % min(64, width) == 0


def test_places_are_used_again():
    program = program_of("".join(f"    add.u32 %r{i + 1}, %r{i}, 1;\n" for i in range(300)))
    _, size = register_slots(program, plan_of(program))
    assert size <= WARP.size + 4 * 128


def test_two_results_of_one_instruction_have_places_of_their_own():
    program = program_of("    ld.param.v2.u32 {%r1, %r2}, [out];\n    shfl.sync.bfly.b32 %r3|%p1, %r1, 1, 31, -1;\n")
    slots, _ = register_slots(program, plan_of(program))
    for instruction in program.instructions:
        assert len({slots[r] for r in instruction.writes}) == len(instruction.writes)


def test_instructions_that_differ_in_registers_and_numbers_are_one_operation():
    program = program_of(
        """    add.u32 %r1, %r2, 5;
    add.u32 %r3, %r4, 77;
    add.u32 %r5, %r6, %r7;
    @%p1 add.u32 %r5, %r6, %r7;
    @!%p1 add.u32 %r5, %r6, %r7;
    shfl.sync.bfly.b32 %r1, %r1, 1, 31, -1;
    shfl.sync.bfly.b32 %r1, %r1, 2, 31, -1;
"""
    )
    code = assemble(program, plan_of(program), "sm_90")
    adds = [o for o, _ in code.operations.values() if o.opcode == "add.u32"]
    assert sorted(o.guard for o in adds) == ["", "", "if", "unless"]
    # A distance that is known makes a shuffle a fixed permutation.
    assert sum(o.opcode.startswith("shfl") for o, _ in code.operations.values()) == 2
    names = [name for _, name in code.calls if name in code.operations]
    assert names[0] == names[1] != names[2]


def test_the_profile_is_part_of_an_operation():
    program = program_of("    add.u32 %r1, %r2, 5;\n")
    one, other = (set(assemble(program, plan_of(program), profile).operations) for profile in ("sm_89", "sm_90"))
    assert one.isdisjoint(other)


def test_labels_stand_where_lanes_can_part_or_wait_and_keep_the_order():
    program = program_of(LOOP)
    code = assemble(program, plan_of(program), "sm_90")
    assert leaders_of(program) <= set(code.labels.values())
    assert list(code.labels) == sorted(code.labels) and list(code.labels.values()) == sorted(code.labels.values())
    assert all(at % 8 == 0 for at, _ in code.calls)


def test_what_cannot_be_compiled_is_refused_where_it_stands():
    size = "    applypriority.L2::evict_normal [%rd1], %r7;\n"
    program = program_of("    add.u32 %r1, %r2, 5;\n    frobnicate.b32 %r1, %r2;\n" + size)
    code = assemble(program, plan_of(program), "sm_90")
    assert list(code.errors) == [2] and "must be a number" in str(code.errors[2])
    (name,) = code.operations
    again = assemble(program, plan_of(program), "sm_90", {name: UnsupportedError("no")})
    assert not again.operations and again.errors.keys() == {0, 2}


def test_atomics_on_global_memory_make_the_order_of_blocks_matter():
    ordered = program_of("    ld.param.u64 %rd0, [out];\n    red.global.add.u32 [%rd0], 1;\n")
    free = program_of("    red.shared.add.u32 [%r1], 1;\n")
    assert native_code(ordered, plan_of(ordered), "x").ordered and assemble(ordered, plan_of(ordered), "sm_90").ordered
    assert not native_code(free, plan_of(free), "x").ordered


def test_blocks_of_a_program_that_is_one_function():
    program = program_of(LOOP)
    graph = build_graph(program, plan_of(program))
    loop = graph.number[program.labels["L"]]
    assert graph.headers == {loop} and loop not in graph.alone
    assert graph.live[loop] == {r.id for r in program.registers if r.name in ("%rd0", "%r0", "%r1", "%r9")}
    assert eligible(program)
    long = program_of("    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];\n" * 100)
    assert eligible(long)
    assert compile_cost(long.instructions[0]) * 1000 > LIMIT
    assert not eligible(program_of("    ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r5];\n" * 1000))
    assert not eligible(program_of("    frobnicate.b32 %r1, %r2;\n"))


def test_of_many_accesses_those_in_loops_stay_in_place():
    load = "    ld.shared.u32 %r1, [%r5];\n"
    assert not accesses_called(program_of(load * IN_PLACE))
    assert len(accesses_called(program_of(load * (IN_PLACE + 1)))) == IN_PLACE + 1
    loop = program_of(load * IN_PLACE + "L:\n" + load + "    setp.ne.u32 %p1, %r1, 0;\n    @%p1 bra L;\n")
    assert accesses_called(loop) == set(range(IN_PLACE)) and passes_for(loop) == "O2"
    loop = program_of("L:\n" + load * (IN_LOOPS + 30) + "    setp.ne.u32 %p1, %r1, 0;\n    @%p1 bra L;\n")
    assert accesses_called(loop) == set(range(IN_LOOPS, IN_LOOPS + 30)) and passes_for(loop) == "quick"
    assert not accesses_called(program_of("    ld.param.u64 %rd0, [out];\n" * 100))
    copies = "    cp.async.ca.shared.global [%r5], [%rd1], 16;\n    cp.async.ca.shared.global [%r5], [%rd1], 16, %r1;\n"
    assert accesses_called(program_of(copies)) == {1}


def test_layouts_are_aligned_and_apart():
    for layout in (LAUNCH, WORKER, WARP):
        spans = sorted(layout.offsets.values())
        assert len(set(spans)) == len(spans) and spans[-1] < layout.size and layout.size % 64 == 0
        for name, offset in layout.offsets.items():
            assert offset % (4 if layout.types[name] == "i32" else 8) == 0
    small = Layout(a="i32", b="i64", c="3*i32")
    buffer = bytearray(small.size)
    small.write(buffer, a=-1, b=1 << 40, c=(1, 2, 3))
    assert small.read(buffer, "a") == 0xFFFFFFFF and small.read(buffer, "a", signed=True) == -1 and small.read(buffer, "b") == 1 << 40


class Shelf:
    """A cache in memory."""

    def __init__(self) -> None:
        self.held: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        return self.held.get(key)

    def put(self, key: str, data: bytes) -> None:
        self.held[key] = data


def test_functions_are_compiled_once_and_then_taken_from_the_cache(monkeypatch):
    program = program_of(LOOP)
    code = assemble(program, plan_of(program), "sm_90")
    shelf = Shelf()
    first = Functions()
    first.runtime(shelf)
    addresses, refused = first.operations(code.operations, shelf)
    assert not refused and set(code.operations) <= set(addresses) and ENTRY in addresses
    assert len(shelf.held) == 1 + len(code.operations)

    def compile_again(*args, **kwargs):
        raise AssertionError("compiled again")

    monkeypatch.setattr(jit, "compile_ir", compile_again)
    second = Functions()
    second.runtime(shelf)
    assert set(second.operations(code.operations, shelf)[0]) == set(addresses)
    assert all(address for address in addresses.values())


def test_the_key_changes_with_the_sources_and_the_cpu(monkeypatch):
    warp_compile.code_version.cache_clear()
    before = warp_compile.code_version()
    monkeypatch.setattr(jit, "cache_key_part", lambda: "another CPU")
    warp_compile.code_version.cache_clear()
    assert warp_compile.code_version() != before
    warp_compile.code_version.cache_clear()
