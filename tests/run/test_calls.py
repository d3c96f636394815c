"""Calls that need a frame, on both engines: recursion, calls through pointers, stack memory, and what is wrong with them."""

from __future__ import annotations

import sys
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import ptxgraft
from ptxgraft.errors import KernelFault, UsageError

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
ENGINES = pytest.mark.parametrize("engine", ["numpy", "warp"])


def kernel(engine: str, body: str, module: str = "") -> ptxgraft.Kernel:
    """Threads have their number in %r1, their word of ``data`` in %r2; %r9 goes to their word of ``out``."""
    text = f"""{HEAD}{module}
.entry k(.param .u64 out, .param .u64 data)
{{
.reg .pred %p<4>; .reg .b16 %h<4>; .reg .b32 %r<30>; .reg .b64 %rd<12>; .reg .f64 %d<4>;
ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [data];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;
ld.global.u32 %r2, [%rd2]; mov.u32 %r9, 0;
{body}
st.global.u32 [%rd1], %r9;
ret;
}}
"""
    return ptxgraft.load(text).kernel("k", engine=engine)


def run(engine: str, body: str, module: str, data: list[int] | NDArray, **options) -> list[int]:
    given_ = np.array(data, np.uint32)
    out = np.zeros(given_.size, np.uint32)
    kernel(engine, body, module).launch(1, given_.size, [out, given_], **options)
    return out.tolist()


def fault(engine: str, body: str, module: str, data: list[int], **options) -> KernelFault:
    with pytest.raises(KernelFault) as caught:
        run(engine, body, module, data, **options)
    return caught.value


# -- recursion ------------------------------------------------------------------------------------------------------------
FACTORIAL = """.func (.param .b64 result) factorial(.param .b32 n)
{
.reg .pred p; .reg .b32 %n, %m; .reg .b64 %w, %x;
ld.param.u32 %n, [n];
mov.u64 %w, 1;
setp.le.u32 p, %n, 1;
@p bra DONE;
sub.u32 %m, %n, 1;
{ .param .b32 a; .param .b64 r; st.param.b32 [a], %m; call (r), factorial, (a); ld.param.b64 %x, [r]; }
cvt.u64.u32 %w, %n;
mul.lo.u64 %w, %w, %x;
DONE: st.param.b64 [result], %w;
ret;
}
"""
CALL_FACTORIAL = """{ .param .b32 a; .param .b64 r; st.param.b32 [a], %r2; call (r), factorial, (a); ld.param.b64 %rd5, [r]; }
cvt.u32.u64 %r9, %rd5; shr.u64 %rd5, %rd5, 32; cvt.u32.u64 %r10, %rd5; xor.b32 %r9, %r9, %r10;"""


def factorial(n: int) -> int:
    value = 1
    for i in range(2, n + 1):
        value = value * i & (1 << 64) - 1
    return value & 0xFFFFFFFF ^ value >> 32


@ENGINES
@settings(max_examples=15, deadline=None)
@given(data=st.lists(st.integers(0, 40), min_size=1, max_size=70))
def test_factorial_of_each_lane(engine: str, data: list[int]) -> None:
    assert run(engine, CALL_FACTORIAL, FACTORIAL, data) == [factorial(n) for n in data]


@ENGINES
def test_recursion_under_a_guard_and_in_a_loop(engine: str) -> None:
    module = """.func (.reg .b32 r) down(.reg .b32 n, .reg .pred odd)
{
.reg .pred p; .reg .b32 half; .reg .b32 below;
shr.u32 half, n, 1;
setp.ne.u32 p, half, 0;
mov.u32 below, 0;
@p call (below), down, (half, p);
selp.u32 r, 10, 1, odd;
mad.lo.u32 r, below, 2, r;
add.u32 r, r, half;
}
"""
    body = """mov.u32 %r10, 0;
AGAIN: and.b32 %r11, %r2, 1; setp.eq.u32 %p1, %r11, 1; setp.gt.u32 %p2, %r2, %r10;
mov.u32 %r12, 7;
@!%p2 bra SKIP;
call (%r12), down, (%r2, %p1);
SKIP: add.u32 %r9, %r9, %r12; add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 3; @%p3 bra AGAIN;"""

    def down(n: int, odd: bool) -> int:
        below = down(n >> 1, True) if n >> 1 else 0
        return below * 2 + (10 if odd else 1) + (n >> 1)

    data = list(range(45))
    assert run(engine, body, module, data) == [sum(down(n, bool(n & 1)) if n > i else 7 for i in range(3)) for n in data]


ACKERMANN = """.func (.param .b32 result) ackermann(.param .b32 m, .param .b32 n)
{
.reg .pred p, q; .reg .b32 %m, %n, %a, %b;
ld.param.u32 %m, [m]; ld.param.u32 %n, [n];
setp.eq.u32 p, %m, 0;
@p bra BASE;
sub.u32 %a, %m, 1;
setp.eq.u32 q, %n, 0;
mov.u32 %b, 1;
@q bra OUTER;
{ .param .b32 x, y, r; sub.u32 %n, %n, 1; st.param.b32 [x], %m; st.param.b32 [y], %n; call.uni (r), ackermann, (x, y); ld.param.b32 %b, [r]; }
OUTER:
{ .param .b32 x, y, r; st.param.b32 [x], %a; st.param.b32 [y], %b; call.uni (r), ackermann, (x, y); ld.param.b32 %b, [r]; }
st.param.b32 [result], %b;
ret;
BASE: add.u32 %b, %n, 1; st.param.b32 [result], %b; ret;
}
"""


@cache
def ackermann(m: int, n: int) -> int:
    return n + 1 if m == 0 else ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


@ENGINES
def test_ackermann(engine: str) -> None:
    body = """rem.u32 %r10, %r2, 3; div.u32 %r11, %r2, 3; and.b32 %r11, %r11, 3;
{ .param .b32 x, y, r; st.param.b32 [x], %r10; st.param.b32 [y], %r11; call (r), ackermann, (x, y); ld.param.b32 %r9, [r]; }"""
    data = list(range(36))
    assert run(engine, body, ACKERMANN, data) == [ackermann(n % 3, n // 3 & 3) for n in data]


@ENGINES
def test_two_functions_that_call_each_other(engine: str) -> None:
    def half(name: str, other: str, base: int) -> str:
        return f""".func (.param .b32 r) {name}(.param .b32 n)
{{
.reg .pred p; .reg .b32 %n, %x;
ld.param.b32 %n, [n]; setp.eq.u32 p, %n, 0;
mov.u32 %x, {base};
@p bra END;
sub.u32 %n, %n, 1;
{{ .param .b32 a, b; st.param.b32 [a], %n; call (b), {other}, (a); ld.param.b32 %x, [b]; }}
END: st.param.b32 [r], %x; ret;
}}
"""

    module = ".func (.param .b32 r) odd(.param .b32 n);\n" + half("even", "odd", 1) + half("odd", "even", 0)
    body = "{ .param .b32 a, b; st.param.b32 [a], %r2; call (b), even, (a); ld.param.b32 %r9, [b]; }"
    assert run(engine, body, module, list(range(40))) == [1 - n % 2 for n in range(40)]


@ENGINES
def test_a_frame_has_its_own_local_variables(engine: str) -> None:
    """Arrays passed and given back by value, a local array whose address is kept over the call, predicates, 16 and 128 bits live across it."""
    module = """.func (.param .align 8 .b8 r[24]) build(.param .b32 n, .param .align 8 .b8 was[24])
{
.local .align 8 .b8 mine[24];
.reg .pred p, odd; .reg .b16 %h; .reg .b32 %n, %x; .reg .b64 %a, %b, %c, %at; .reg .b128 %w;
ld.param.b32 %n, [n]; ld.param.b64 %a, [was]; ld.param.b64 %b, [was+8]; ld.param.b64 %c, [was+16];
mov.u64 %at, mine;
st.local.u64 [%at], %a; st.local.u64 [mine+8], %b; st.local.u64 [%at+16], %c;
and.b32 %x, %n, 1; setp.eq.u32 odd, %x, 1; cvt.u16.u32 %h, %n; mov.b128 %w, {%a, %b};
setp.eq.u32 p, %n, 0;
@p bra END;
sub.u32 %n, %n, 1;
{
.param .b32 m; .param .align 8 .b8 to[24]; .param .align 8 .b8 from[24];
st.param.b32 [m], %n; add.u64 %c, %c, 1; st.param.b64 [to], %b; st.param.b64 [to+8], %c; st.param.b64 [to+16], %a;
call (from), build, (m, to);
ld.param.b64 %a, [from]; ld.param.b64 %b, [from+8];
}
ld.local.u64 %c, [%at+16];
add.u64 %a, %a, %c;
cvt.u64.u16 %c, %h; add.u64 %b, %b, %c;
@odd add.u64 %a, %a, 1000;
st.local.u64 [mine], %a; st.local.u64 [mine+8], %b;
mov.b128 {%a, %b}, %w; st.local.u64 [mine+16], %b;
END:
ld.local.u64 %a, [mine]; ld.local.u64 %b, [mine+8]; ld.local.u64 %c, [mine+16];
st.param.b64 [r], %a; st.param.b64 [r+8], %b; st.param.b64 [r+16], %c;
ret;
}
"""
    body = """{ .param .b32 n; .param .align 8 .b8 to[24]; .param .align 8 .b8 from[24];
st.param.b32 [n], %r2; st.param.b64 [to], 5; st.param.b64 [to+8], 7; st.param.b64 [to+16], 11;
call (from), build, (n, to); ld.param.b64 %rd5, [from]; ld.param.b64 %rd6, [from+8]; ld.param.b64 %rd7, [from+16]; }
mad.lo.u64 %rd5, %rd6, 31, %rd5; mad.lo.u64 %rd5, %rd7, 1009, %rd5; cvt.u32.u64 %r9, %rd5;"""

    def build(n: int, a: int, b: int, c: int) -> tuple[int, int, int]:
        if n == 0:
            return a, b, c
        x, y, _ = build(n - 1, b, c + 1, a)
        return x + c + 1000 * (n & 1), y + n, b

    def wanted(n: int) -> int:
        x, y, z = build(n, 5, 7, 11)
        return x + 31 * y + 1009 * z

    data = [i % 13 for i in range(40)]
    assert run(engine, body, module, data) == [wanted(n) for n in data]


@ENGINES
def test_a_function_inside_a_recursive_one_is_put_in_place(engine: str) -> None:
    module = """.func (.reg .b32 r) twice(.reg .b32 a) { .local .b32 t; st.local.b32 [t], a; add.u32 r, a, a; ld.local.b32 a, [t]; add.u32 r, r, a; sub.u32 r, r, a; ret; }
.func (.reg .b32 r) sum(.reg .b32 n)
{
.reg .pred p; .reg .b32 x, y;
setp.eq.u32 p, n, 0; mov.u32 r, 0; @p ret;
sub.u32 x, n, 1;
call (y), sum, (x);
call (x), twice, (n);
add.u32 r, x, y;
}
"""
    assert run(engine, "call (%r9), sum, (%r2);", module, list(range(34))) == [n * (n + 1) for n in range(34)]


@ENGINES
def test_exit_inside_a_recursive_function_ends_the_lane(engine: str) -> None:
    module = ".func f(.reg .b32 n)\n{\n.reg .pred p;\nsetp.eq.u32 p, n, 3;\n@p exit;\nsetp.eq.u32 p, n, 0;\n@p ret;\nsub.u32 n, n, 1;\ncall f, (n);\n}\n"
    assert run(engine, "call f, (%r2); mov.u32 %r9, 1;", module, [0, 1, 2, 3, 4, 50]) == [1, 1, 1, 0, 0, 0]


@ENGINES
def test_lanes_meet_again_behind_a_recursive_call(engine: str) -> None:
    """Votes of the lanes that are there: all of them, however deep each went."""
    body = CALL_FACTORIAL + "\nactivemask.b32 %r9;"
    assert run(engine, body, FACTORIAL, [i % 7 for i in range(40)]) == [0xFFFFFFFF] * 32 + [0xFF] * 8


@ENGINES
def test_barriers_and_shuffles_inside_a_recursive_function(engine: str) -> None:
    module = """.func (.reg .b32 r) f(.reg .b32 n, .reg .b32 v)
{
.reg .pred p;
shfl.sync.bfly.b32 v, v, 1, 31, -1;
bar.sync 0;
add.u32 v, v, 1;
mov.u32 r, v;
setp.eq.u32 p, n, 0;
@p ret;
sub.u32 n, n, 1;
call (r), f, (n, v);
add.u32 r, r, 100;
}
"""
    assert run(engine, "call (%r9), f, (5, %r2);", module, list(range(64))) == [i + 506 for i in range(64)]


# -- calls through pointers -----------------------------------------------------------------------------------------------
OPERATIONS = """.func (.param .b32 r) plus(.param .b32 a, .param .b32 b) { .reg .b32 x, y; ld.param.b32 x, [a]; ld.param.b32 y, [b]; add.u32 x, x, y; st.param.b32 [r], x; ret; }
.func (.reg .b32 r) minus(.reg .b32 a, .reg .b32 b) { sub.u32 r, a, b; }
.func (.param .b32 r) times(.param .b32 a, .param .b32 b)
{
.local .b32 kept; .reg .b32 x, y; .reg .b64 at;
ld.param.b32 x, [a]; st.local.b32 [kept], x; mov.u64 at, kept; ld.param.b32 y, [b]; ld.local.b32 x, [at]; mul.lo.u32 x, x, y; st.param.b32 [r], x; ret;
}
.func other(.param .b64 a) { ret; }
.global .u64 table[4] = {plus, minus, times, other};
.const .u64 constants[2] = {times, minus};
"""
FUNCTIONS = [lambda a, b: a + b, lambda a, b: a - b & 0xFFFFFFFF, lambda a, b: a * b]
CALL_POINTER = """{ .param .b32 a, b, r; st.param.b32 [a], %r1; st.param.b32 [b], 7;
proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
call (r), %rd5, (a, b), proto; ld.param.b32 %r9, [r]; }"""


@ENGINES
@pytest.mark.parametrize(
    "where", ["mov.u64 %rd4, table; mul.wide.u32 %rd6, %r2, 8; add.u64 %rd4, %rd4, %rd6; ld.global.u64 %rd5, [%rd4];", "moved"]
)
def test_calls_through_a_table(engine: str, where: str) -> None:
    if where == "moved":
        where = "mov.u64 %rd5, plus; mov.u64 %rd6, minus; setp.eq.u32 %p1, %r2, 1; selp.b64 %rd5, %rd6, %rd5, %p1; mov.u64 %rd6, times; setp.eq.u32 %p1, %r2, 2; selp.b64 %rd5, %rd6, %rd5, %p1;"
    data = [(i * 7 + i // 5) % 3 for i in range(48)]
    assert run(engine, where + CALL_POINTER, OPERATIONS, data) == [FUNCTIONS[d](i, 7) for i, d in enumerate(data)]


@ENGINES
def test_calls_through_constants_with_a_list_of_functions(engine: str) -> None:
    body = """mov.u64 %rd4, constants; mul.wide.u32 %rd6, %r2, 8; add.u64 %rd4, %rd4, %rd6; ld.const.u64 %rd5, [%rd4];
mov.u32 %r9, 77; setp.ne.u32 %p1, %r1, 3;
list: .calltargets times, minus;
@%p1 call (%r9), %rd5, (%r1, 5), list;"""
    data = [i // 3 % 2 for i in range(40)]
    wanted = [FUNCTIONS[(2, 1)[d]](i, 5) if i != 3 else 77 for i, d in enumerate(data)]
    assert run(engine, body, OPERATIONS, data) == wanted


@ENGINES
def test_recursion_through_a_pointer(engine: str) -> None:
    module = """.func (.param .b32 r) fold(.param .b32 n, .param .b64 f)
{
.reg .pred p; .reg .b32 %n, %x, %y; .reg .b64 %f;
ld.param.b32 %n, [n]; ld.param.b64 %f, [f]; mov.u32 %x, 1; setp.eq.u32 p, %n, 0; @p bra END;
sub.u32 %y, %n, 1;
proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b64 _);
{ .param .b32 a, r1; .param .b64 g; st.param.b32 [a], %y; st.param.b64 [g], %f; call (r1), %f, (a, g), proto; ld.param.b32 %x, [r1]; }
mad.lo.u32 %x, %x, 3, %n;
END: st.param.b32 [r], %x; ret;
}
"""
    body = """mov.u64 %rd5, fold;
{ .param .b32 a, r; .param .b64 f; st.param.b32 [a], %r2; st.param.b64 [f], %rd5; call (r), fold, (a, f); ld.param.b32 %r9, [r]; }"""

    def fold(n: int) -> int:
        return 1 if n == 0 else fold(n - 1) * 3 + n & 0xFFFFFFFF

    assert run(engine, body, module, list(range(40))) == [fold(n) for n in range(40)]


@ENGINES
def test_a_pointer_that_one_kernel_stored_is_good_in_another(engine: str) -> None:
    text = f"""{HEAD}{OPERATIONS}
.global .u64 chosen;
.entry choose(.param .u32 which)
{{
.reg .b32 %r<3>; .reg .b64 %rd<5>;
ld.param.u32 %r1, [which]; mul.wide.u32 %rd1, %r1, 8; mov.u64 %rd2, table; add.u64 %rd2, %rd2, %rd1; ld.global.u64 %rd3, [%rd2]; st.global.u64 [chosen], %rd3; ret;
}}
.entry use(.param .u64 out)
{{
.reg .b32 %r<3>; .reg .b64 %rd<5>;
proto: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);
ld.param.u64 %rd1, [out]; ld.global.u64 %rd2, [chosen]; call (%r1), %rd2, (30, 12), proto; st.global.u32 [%rd1], %r1; ret;
}}
"""
    module = ptxgraft.load(text)
    for which, wanted in enumerate((42, 18, 360)):
        module.kernel("choose", engine=engine).launch(1, 1, [which])
        out = np.zeros(1, np.uint32)
        module.kernel("use", engine=engine).launch(1, 1, [out])
        assert out[0] == wanted


@ENGINES
@pytest.mark.parametrize(
    ("pointer", "shown"),
    [("0", "0x0"), ("table", "0x7e0000000000"), ("8 + plus", ""), ("other", ""), ("0xFFFFFFFFFFFFFFFF", "0xffffffffffffffff")],
)
def test_what_is_no_function_with_these_parameters(engine: str, pointer: str, shown: str) -> None:
    offset, _, name = pointer.rpartition(" + ")
    body = (
        f"mov.u64 %rd5, {name}; add.u64 %rd5, %rd5, {offset or 0}; setp.lt.u32 %p1, %r1, 35; mov.u64 %rd6, times; selp.b64 %rd5, %rd6, %rd5, %p1;"
        + CALL_POINTER
    )
    error = fault(engine, body, OPERATIONS, [0] * 40)
    assert (
        f"calls {shown}" in error.message
        and "which is not the address of a function with these parameters: `call (r), %rd5," in error.message
    )
    assert error.message.endswith("(block (0, 0, 0), warp 1, lane 3)")


@ENGINES
def test_no_function_fits_the_prototype(engine: str) -> None:
    body = "mov.u64 %rd5, plus; p: .callprototype (.param .b64 _) _ (); setp.eq.u32 %p1, %r2, 9; @%p1 call (%rd6), %rd5, (), p;"
    assert run(engine, body, OPERATIONS, [1, 2]) == [0, 0]
    assert "which is not the address of a function with these parameters" in fault(engine, body, OPERATIONS, [1, 9]).message


# -- the stack ------------------------------------------------------------------------------------------------------------
ENDLESS = ".func f(.reg .b32 n) { call f, (n); }\n"


@ENGINES
def test_the_stack_overflows(engine: str) -> None:
    error = fault(engine, "setp.eq.u32 %p1, %r1, 33; @%p1 call f, (1);", ENDLESS, [0] * 40)
    # A frame is the header, the parameter and nothing else: 32 bytes of 16 KiB.
    assert error.message == "the stack overflows, 512 calls deep: `call f, (n);` (block (0, 0, 0), warp 1, lane 1)"
    assert error.place is not None and error.place.line == 4 and "more stack" in error.hint
    assert "the stack overflows, 4 calls deep" in fault(engine, "call f, (1);", ENDLESS, [0], stack_bytes=128).message


@ENGINES
def test_a_deeper_stack_on_demand(engine: str) -> None:
    assert "the stack overflows" in fault(engine, CALL_FACTORIAL, FACTORIAL, [1000]).message
    assert run(engine, CALL_FACTORIAL, FACTORIAL, [1000], stack_bytes=1 << 16) == [factorial(1000)]


@ENGINES
def test_a_stack_of_no_use(engine: str) -> None:
    for size in (-16, 100, 1 << 30):
        with pytest.raises(UsageError, match="a stack of"):
            run(engine, CALL_FACTORIAL, FACTORIAL, [1], stack_bytes=size)


@ENGINES
def test_more_local_memory_than_there_is(engine: str) -> None:
    with pytest.raises(UsageError, match="bytes of local memory; a thread may have 16777216"):
        run(engine, ".local .b8 much[4000000000];\n" + CALL_FACTORIAL, FACTORIAL, [1])


@ENGINES
def test_alloca(engine: str) -> None:
    """Each lane takes as much as it says, twice; the second piece begins behind the first, aligned."""
    body = """.local .b64 fixed; st.local.b64 [fixed], -1;
cvt.u64.u32 %rd5, %r2; alloca.u64 %rd6, %rd5, 16; alloca.u64 %rd7, %rd5;
and.b64 %rd8, %rd6, 15; cvt.u32.u64 %r10, %rd8; sub.u64 %rd8, %rd7, %rd6; cvt.u32.u64 %r9, %rd8; add.u32 %r9, %r9, %r10;
mov.u32 %r11, 0;
FILL: setp.ge.u32 %p1, %r11, %r2; @%p1 bra DONE; cvt.u64.u32 %rd8, %r11; add.u64 %rd9, %rd6, %rd8; st.local.u8 [%rd9], %r11; add.u64 %rd9, %rd7, %rd8; st.local.u8 [%rd9], 99;
add.u32 %r11, %r11, 1; bra FILL;
DONE: sub.u32 %r11, %r11, 1; setp.eq.u32 %p1, %r2, 0; @%p1 bra NONE; cvt.u64.u32 %rd8, %r11; add.u64 %rd9, %rd6, %rd8; ld.local.u8 %r12, [%rd9]; mad.lo.u32 %r9, %r12, 1000, %r9;
NONE: ld.local.b32 %r12, [fixed]; setp.ne.s32 %p1, %r12, -1; @%p1 trap;"""
    data = [0, 1, 7, 8, 9, 33, 64, 200]
    assert run(engine, body, "", data) == [(n + 7) // 8 * 8 + 1000 * max(n - 1, 0) for n in data]


@ENGINES
def test_stack_memory_is_given_back(engine: str) -> None:
    """In a loop that saves and restores, and in one whose function returns, more is taken than there is."""
    saves = """mov.u32 %r10, 0;
LOOP: stacksave.u64 %rd5; alloca.u64 %rd6, 4096; st.local.u32 [%rd6], %r10; ld.local.u32 %r11, [%rd6]; add.u32 %r9, %r9, %r11; stackrestore.u64 %rd5;
add.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, %r2; @%p1 bra LOOP;"""
    assert run(engine, saves, "", [9, 50]) == [36, 1225]
    overflows = saves.replace("stackrestore.u64 %rd5;", "")
    assert fault(engine, overflows, "", [3, 9]).message.startswith("the stack overflows, 0 calls deep: `alloca.u64 %rd6, 4096;`")
    module = ".func (.reg .b32 r) f(.reg .b32 n) { .reg .b64 at; alloca.u64 at, 4096; st.local.u32 [at], n; ld.local.u32 r, [at]; ret; }\n"
    calls = "mov.u32 %r10, 0;\nLOOP: call (%r11), f, (%r10); add.u32 %r9, %r9, %r11;\nadd.u32 %r10, %r10, 1; setp.lt.u32 %p1, %r10, %r2; @%p1 bra LOOP;"
    assert run(engine, calls, module, [9, 50]) == [36, 1225]
    pointer = f"mov.u64 %rd7, f; p: .callprototype (.reg .b32 _) _ (.reg .b32 _);\n{calls.replace('f, (%r10)', '%rd7, (%r10), p')}"
    assert run(engine, pointer, module, [9, 50]) == [36, 1225]


@ENGINES
def test_stack_memory_in_recursion(engine: str) -> None:
    module = """.func (.param .b32 r) f(.param .b32 n, .param .b64 above)
{
.reg .pred p; .reg .b32 %n, %x, %y; .reg .b64 %above, %mine;
ld.param.b32 %n, [n]; ld.param.b64 %above, [above];
alloca.u64 %mine, 24, 8; st.local.u32 [%mine], %n; cvta.local.u64 %mine, %mine;
ld.u32 %x, [%above];
setp.eq.u32 p, %n, 0; @p bra END;
sub.u32 %n, %n, 1;
{ .param .b32 a, b; .param .b64 c; st.param.b32 [a], %n; st.param.b64 [c], %mine; call (b), f, (a, c); ld.param.b32 %y, [b]; }
mad.lo.u32 %x, %y, 2, %x;
END: st.param.b32 [r], %x; ret;
}
"""
    body = """.local .b32 top; st.local.b32 [top], 5; mov.u64 %rd5, top; cvta.local.u64 %rd5, %rd5;
{ .param .b32 a, b; .param .b64 c; st.param.b32 [a], %r2; st.param.b64 [c], %rd5; call (b), f, (a, c); ld.param.b32 %r9, [b]; }"""

    def f(n: int, above: int) -> int:
        return above if n == 0 else f(n - 1, n) * 2 + above

    assert run(engine, body, module, list(range(20))) == [f(n, 5) for n in range(20)]


@ENGINES
def test_an_access_beyond_the_stack_is_a_fault(engine: str) -> None:
    error = fault(engine, "alloca.u64 %rd5, 16; st.local.u32 [%rd5+16384], 1;", "", [0])
    assert "writes 4 bytes at local address 0x4000; local memory has 16384 bytes here" in error.message


def test_both_engines_count_the_same_statements() -> None:
    counts = []
    for engine in ("numpy", "warp"):
        data = np.arange(64, dtype=np.uint32) % 9
        counts.append(kernel(engine, CALL_FACTORIAL, FACTORIAL).launch(1, 64, [np.zeros(64, np.uint32), data]).statements)
    assert counts[0] == counts[1]


sys.setrecursionlimit(max(sys.getrecursionlimit(), 4000))
