"""``vprintf``, ``malloc``, ``free`` and ``__assertfail`` as kernels call them, on both engines."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault, SourceError, UnsupportedError
from ptxgraft.isa.functions import DEVICE_FUNCTIONS
from ptxgraft.run.device import HANDLERS
from ptxgraft.run.heap import HEAP_ADDRESS, HEAP_BYTES, make_heap
from ptxgraft.run.memory import FILL, allocate

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
ENGINES = pytest.mark.parametrize("engine", ["numpy", "warp"])
EXTERNS = """.extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
.extern .func (.param .b64 r) malloc(.param .b64 size);
.extern .func free(.param .b64 p);
.extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 width);
"""


def text_of(name: str, text: str) -> str:
    raw = [*text.encode(), 0]
    return f".global .align 1 .b8 {name}[{len(raw)}] = {{{', '.join(map(str, raw))}}};\n"


def kernel(engine: str, body: str, module: str = "", params: str = ".param .u64 out") -> ptxgraft.Kernel:
    """Threads have their number in %r1, their word of ``out`` at %rd1."""
    start = "ld.param.u64 %rd1, [out]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.u64 %rd1, %rd1, %rd2;"
    text = f"{HEAD}{EXTERNS}{module}.entry k({params})\n{{\n.reg .pred %p<4>; .reg .b32 %r<20>; .reg .b64 %rd<20>; .reg .f64 %d<4>;\n{start}\n{body}\nret;\n}}\n"
    return ptxgraft.load(text).kernel("k", engine=engine)


PRINT = """.local .align 8 .b8 buffer[32];
{{ .param .b64 a, b; .param .b32 r; .reg .b64 f, g; mov.u64 f, {format}; cvta.global.u64 f, f; mov.u64 g, buffer; cvta.local.u64 g, g;
st.param.b64 [a], f; st.param.b64 [b], g; call.uni (r), vprintf, (a, b); ld.param.b32 %r9, [r]; }}"""
NUMBER = "st.local.u32 [buffer], %r1;"


def test_executors_answer_what_binding_knows() -> None:
    assert {name: counts[1] for name, counts in DEVICE_FUNCTIONS.items()} == {name: count for name, (count, _) in HANDLERS.items()}


# -- vprintf --------------------------------------------------------------------------------------------------------------
@ENGINES
def test_what_is_printed_and_returned(engine: str) -> None:
    body = PRINT.format(format="text").replace("}}", "}") + "\nst.global.u32 [%rd1], %r9;"
    fill = """cvt.rn.f64.u32 %d1, %r1; mul.f64 %d1, %d1, 0d3FD0000000000000; mov.u64 %rd5, name; cvta.global.u64 %rd5, %rd5;
st.local.u32 [buffer], %r1; st.local.f64 [buffer+8], %d1; st.local.u64 [buffer+16], %rd5;"""
    body = body.replace(".local .align 8 .b8 buffer[32];", ".local .align 8 .b8 buffer[32];\n" + fill)
    out = np.zeros(3, np.uint64)
    result = kernel(engine, body, text_of("text", "thread %d: %.2f of %s\n") + text_of("name", "Göttingen")).launch(1, 3, [out])
    assert result.output == "".join(f"thread {i}: {i / 4:.2f} of Göttingen\n" for i in range(3))
    assert out.tolist() == [3, 3, 3]


@ENGINES
def test_no_format_and_no_arguments(engine: str) -> None:
    module = text_of("text", "hello\n")
    out = np.zeros(2, np.uint64)
    call = "call (%r9), vprintf, ({}, 0); st.global.s32 [%rd1], %r9;"
    assert kernel(engine, call.format("0"), module).launch(1, 1, [out]).output == "" and out[0] == 0xFFFFFFFF
    body = "mov.u64 %rd3, text; setp.eq.u32 %p1, %r1, 1; mov.u32 %r9, 9; @%p1 " + call.format("%rd3")
    assert kernel(engine, body, module).launch(1, 2, [out]).output == "hello\n" and out.tolist() == [9, 0]


@ENGINES
@pytest.mark.parametrize("threads", [1, 3])
def test_the_order_of_what_is_printed(engine: str, threads: int) -> None:
    """By block, then by barriers passed, then by warp, and in a warp as it ran; whatever runs beside it."""
    module = text_of("first", "a%d ") + text_of("second", "b%d ") + text_of("third", "c%d\n")
    prints = [PRINT.format(format=name).split("\n", 1)[1] for name in ("first", "second", "third")]
    body = f""".local .align 8 .b8 buffer[32];
mov.u32 %r2, %ctaid.x; mad.lo.u32 %r2, %r2, 1000, %r1; st.local.u32 [buffer], %r2;
and.b32 %r3, %r1, 31; setp.ne.u32 %p1, %r3, 3; setp.gt.u32 %p2, %r3, 1;
@%p2 bra SKIP;
{prints[0]}
{prints[1]}
SKIP: bar.sync 0;
@%p1 bra END;
{prints[2]}
END:"""
    result = kernel(engine, body, module).launch(3, 70, [np.zeros(70, np.uint64)], threads=threads)
    wanted = ""
    for block in range(3):
        for warp in range(3):
            lanes = [1000 * block + 32 * warp + lane for lane in (0, 1)]
            wanted += "".join(f"a{i} " for i in lanes) + "".join(f"b{i} " for i in lanes)
        wanted += "".join(f"c{1000 * block + 32 * warp + 3}\n" for warp in range(3))
    assert result.output == wanted


@ENGINES
def test_printing_from_a_recursive_function(engine: str) -> None:
    module = (
        text_of("text", "%d ")
        + f""".func f(.param .b32 n)
{{
.reg .pred p; .reg .b32 %n, %r9; .local .align 8 .b8 buffer[32];
ld.param.b32 %n, [n]; st.local.u32 [buffer], %n;
setp.eq.u32 p, %n, 0; @p bra END; sub.u32 %n, %n, 1;
{{ .param .b32 m; st.param.b32 [m], %n; call f, (m); }}
END:
{PRINT.format(format="text").split(chr(10), 1)[1]}
ret;
}}
"""
    )
    assert kernel(engine, "call f, (4);", module).launch(1, 1, [np.zeros(1, np.uint64)]).output == "0 1 2 3 4 "


@ENGINES
def test_a_fault_keeps_what_was_printed(engine: str) -> None:
    body = PRINT.format(format="text").replace("{{", "{").replace("32];", "32]; " + NUMBER) + "setp.eq.u32 %p1, %r1, 1; @%p1 trap;"
    with pytest.raises(KernelFault) as caught:
        kernel(engine, body, text_of("text", "%d;")).launch(1, 3, [np.zeros(3, np.uint64)])
    assert caught.value.output == "0;1;2;"


@ENGINES
@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("mov.u64 %rd3, 64; call (%r9), vprintf, (%rd3, 0);", "reads 1 bytes at 0x40, "),
        ("mov.u64 %rd3, text; call (%r9), vprintf, (%rd3, 0);", "reads 4 bytes at 0x0, "),
        ("mov.u64 %rd3, open; call (%r9), vprintf, (%rd3, 0);", "reads 4 bytes at 0x7e"),
        (".local .b32 t; mov.u64 %rd4, t; cvta.local.u64 %rd4, %rd4; add.u64 %rd4, %rd4, 29; mov.u64 %rd3, text; call (%r9), vprintf, (%rd3, %rd4);", "reads 4 bytes at local address 0x1d; local memory has 32 bytes here"),
    ],
)  # fmt: skip
def test_what_printing_cannot_read(engine: str, body: str, wanted: str) -> None:
    module = text_of("text", "%d") + ".global .b8 open[3] = {65, 66, 67};\n"
    with pytest.raises(KernelFault, match=re.escape(wanted) + r".*`call \(%r9\), vprintf.*lane 0"):
        kernel(engine, body, module).launch(1, 1, [np.zeros(1, np.uint64)])


# -- malloc and free ------------------------------------------------------------------------------------------------------
TAKE = "call (%rd5), malloc, (%rd4);"


@ENGINES
def test_a_list_on_the_heap(engine: str) -> None:
    """Each lane builds a list of as many nodes as its number, adds it up and frees it."""
    body = """mov.u64 %rd6, 0; mov.u32 %r5, 0; mov.u64 %rd4, 16;
BUILD: setp.ge.u32 %p1, %r5, %r1; @%p1 bra SUM;
call (%rd5), malloc, (%rd4); st.u64 [%rd5], %rd6; st.u32 [%rd5+8], %r5; mov.u64 %rd6, %rd5; add.u32 %r5, %r5, 1; bra BUILD;
SUM: mov.u32 %r9, 0;
NEXT: setp.eq.u64 %p1, %rd6, 0; @%p1 bra DONE;
ld.u32 %r6, [%rd6+8]; add.u32 %r9, %r9, %r6; ld.u64 %rd7, [%rd6]; call free, (%rd6); mov.u64 %rd6, %rd7; bra NEXT;
DONE: cvt.u64.u32 %rd5, %r9; st.global.u64 [%rd1], %rd5;"""
    out = np.zeros(40, np.uint64)
    made = kernel(engine, body)
    made.launch(2, 40, [out])
    assert out.tolist() == [i * (i - 1) // 2 for i in range(40)]
    heap = made.module.heap
    assert heap is not None and heap.used == {} and heap.gaps == [(heap.allocation.base, HEAP_BYTES)]


@ENGINES
def test_the_heap_outlives_a_launch(engine: str) -> None:
    text = f"""{HEAD}{EXTERNS}.global .u64 kept;
.entry take() {{ .reg .b64 %rd<3>; .reg .b32 x; call (%rd1), malloc, (4); mov.u32 x, 77; st.u32 [%rd1], x; st.global.u64 [kept], %rd1; ret; }}
.entry look(.param .u64 out) {{ .reg .b64 %rd<3>; .reg .b32 x; ld.param.u64 %rd1, [out]; ld.global.u64 %rd2, [kept]; ld.u32 x, [%rd2]; st.global.u32 [%rd1], x; call free, (%rd2); ret; }}
"""
    module = ptxgraft.load(text)
    out = np.zeros(1, np.uint32)
    module.kernel("take", engine=engine).launch(1, 1, [])
    module.kernel("look", engine=engine).launch(1, 1, [out])
    assert out[0] == 77
    with pytest.raises(KernelFault, match="frees 0x7c0000000000 a second time"):
        module.kernel("look", engine=engine).launch(1, 1, [out])


@ENGINES
def test_no_room(engine: str) -> None:
    body = f"mov.u64 %rd4, {HEAP_BYTES + 1}; {TAKE} st.global.u64 [%rd1], %rd5; call free, (%rd5);"
    out = np.ones(1, np.uint64)
    kernel(engine, body).launch(1, 1, [out])
    assert out[0] == 0


@ENGINES
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (f"mov.u64 %rd4, 8; {TAKE} call free, (%rd5); call free, (%rd5);", r"frees 0x7c00000000.0 a second time: `call free, \(%rd5\);`"),
        (f"mov.u64 %rd4, 8; {TAKE} add.u64 %rd5, %rd5, 4; call free, (%rd5);", r"frees 0x7c00000000.4, which malloc did not give"),
        ("call free, (%rd1);", "frees 0x7f0000000000, which malloc did not give"),
    ],
)
def test_what_cannot_be_freed(engine: str, body: str, message: str) -> None:
    with pytest.raises(KernelFault, match=message):
        kernel(engine, body).launch(1, 2, [np.zeros(2, np.uint64)])


def test_blocks_of_a_heap() -> None:
    heap = make_heap([], 256)
    blocks = [heap.take(n) for n in (1, 16, 17, 0)]
    assert [b - blocks[0] for b in blocks] == [0, 16, 32, 64] and heap.take(256) == 0
    assert (heap.allocation.data[:80] == FILL).all()
    assert heap.give_back(blocks[1]) == "" and heap.give_back(blocks[0]) == ""
    assert "a second time" in heap.give_back(blocks[1])
    assert heap.take(32) == blocks[0] and heap.take(160) == blocks[3] + 16
    assert heap.give_back(0) == ""


def test_a_heap_keeps_clear_of_captured_memory() -> None:
    heap = make_heap([allocate(HEAP_ADDRESS + HEAP_BYTES // 2, 16, "captured")])
    assert heap.allocation.end <= HEAP_ADDRESS


# -- assertions -----------------------------------------------------------------------------------------------------------
@ENGINES
def test_an_assertion_that_fails(engine: str) -> None:
    module = text_of("what", "i < 40") + text_of("file", "a.cu") + text_of("name", "void k(int)")
    body = """mov.u32 %r2, %tid.y; mad.lo.u32 %r1, %r2, 10, %r1; setp.lt.u32 %p1, %r1, 40; mov.u64 %rd3, what; mov.u64 %rd4, file; mov.u64 %rd5, name;
mov.u32 %r5, 23; @!%p1 call __assertfail, (%rd3, %rd4, %r5, %rd5, 1);"""
    kernel(engine, body, module).launch(1, (10, 4), [np.zeros(40, np.uint64)])
    with pytest.raises(KernelFault) as caught:
        kernel(engine, body, module).launch((2, 1, 1), (10, 5), [np.zeros(50, np.uint64)])
    assert caught.value.message == (
        "assertion `i < 40` failed in void k(int), a.cu:23, thread (0, 4, 0): `@!%p1 call __assertfail, (%rd3, %rd4, %r5, %rd5, 1);` "
        "(block (0, 0, 0), warp 1, lane 8)"
    )


# -- others ---------------------------------------------------------------------------------------------------------------
@ENGINES
def test_other_open_functions_stay_unsupported(engine: str) -> None:
    module = ".extern .func (.param .b32 r) elsewhere(.param .b32 a);\n"
    body = "setp.eq.u32 %p1, %r1, 5; @%p1 call (%r9), elsewhere, (%r1);"
    assert kernel(engine, body, module).launch(1, 5, [np.zeros(5, np.uint64)]).output == ""
    with pytest.raises(UnsupportedError, match="function 'elsewhere' has no body in this module"):
        kernel(engine, body, module).launch(1, 6, [np.zeros(6, np.uint64)])


def test_a_device_function_declared_otherwise() -> None:
    with pytest.raises(SourceError, match="device function 'free' has 0 results and 1 arguments, it is declared otherwise"):
        text = f"{HEAD}.extern .func free(.param .b64 a, .param .b64 b);\n.entry k() {{ call free, (0, 0); }}\n"
        ptxgraft.load(text).kernel("k")


@ENGINES
def test_a_function_of_the_module_goes_first(engine: str) -> None:
    text = f"""{HEAD}.func (.reg .b64 r) malloc(.reg .b64 n) {{ add.u64 r, n, 5; }}
.entry k(.param .u64 out) {{ .reg .b64 %rd<3>; ld.param.u64 %rd1, [out]; call (%rd2), malloc, (7); st.global.u64 [%rd1], %rd2; ret; }}
"""
    module = ptxgraft.load(text)
    out = np.zeros(1, np.uint64)
    module.kernel("k", engine=engine).launch(1, 1, [out])
    assert out[0] == 12 and module.heap is None
