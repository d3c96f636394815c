"""What a run says when a kernel does what it may not: the whole text, as users read it."""

from __future__ import annotations

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault, PtxgraftError, UnsupportedError
from ptxgraft.lower import warp_graph

HEAD = """.version 8.0
.target sm_80
.address_size 64
"""


def module(body: str, declarations: str = "", params: str = ".param .u64 out", outside: str = "") -> str:
    return f"""{HEAD}{outside}
.visible .entry k({params})
{{
    .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %rd<12>; .reg .f32 %f<6>; .reg .b16 %h<4>;
    {declarations}
    ld.param.u64 %rd1, [out];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
{body}
}}
"""


def fault_of(text: str, grid=1, block=64, out: np.ndarray | None = None, args=(), engine: str = "numpy", **options) -> str:
    """What the run of a kernel says; its first argument is ``out``, 64 words unless given."""
    kernel = ptxgraft.load(text).kernel("k", engine=engine)
    with pytest.raises(PtxgraftError) as caught:
        kernel.launch(grid, block, [np.zeros(64, np.uint32) if out is None else out, *args], **options)
    assert isinstance(caught.value, KernelFault | UnsupportedError)
    return str(caught.value)


FAULTS = {
    "a read past the end": (
        "    ld.global.u32 %r2, [%rd3+4];\n    ret;",
        {},
        "<ptx>:13:5: reads 4 bytes at 0x7f0000000100, 0 bytes past the end of argument out (256 bytes at 0x7f0000000000): "
        "`ld.global.u32 %r2, [%rd3+4];` (block (0, 0, 0), warp 1, lane 31)",
    ),
    "a read across the end": (
        "    ld.global.v2.u32 {%r2, %r3}, [%rd3+252];\n    ret;",
        {"block": 1, "out": np.zeros(65, np.uint32)},
        "<ptx>:13:5: reads 8 bytes at global address 0x7f00000000fc, which is no multiple of 8: "
        "`ld.global.v2.u32 {%r2, %r3}, [%rd3+252];` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a write before the start": (
        "    st.global.u32 [%rd3+-8], %r1;\n    ret;",
        {},
        "<ptx>:13:5: writes 4 bytes at 0x7efffffffff8, 8 bytes before argument out (256 bytes at 0x7f0000000000): "
        "`st.global.u32 [%rd3+-8], %r1;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a null pointer": (
        "    mov.u64 %rd4, 0;\n    st.u32 [%rd4], %r1;\n    ret;",
        {},
        "<ptx>:14:5: writes 4 bytes at 0x0, 139637976727552 bytes before argument out (256 bytes at 0x7f0000000000): "
        "`st.u32 [%rd4], %r1;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "misaligned": (
        "    ld.global.u32 %r2, [%rd3+2];\n    ret;",
        {},
        "<ptx>:13:5: reads 4 bytes at global address 0x7f0000000002, which is no multiple of 4: "
        "`ld.global.u32 %r2, [%rd3+2];` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "shared memory": (
        "    st.shared.u32 [%r1+300], %r1;\n    ret;",
        {"declarations": ".shared .align 4 .b8 buffer[320];", "block": (4, 8)},
        "<ptx>:13:5: writes 4 bytes at shared address 0x12d, which is no multiple of 4: "
        "`st.shared.u32 [%r1+300], %r1;` (block (0, 0, 0), warp 0, lane 1)",
    ),
    "shared memory's end": (
        "    shl.b32 %r2, %r1, 2;\n    st.shared.u32 [%r2+256], %r1;\n    ret;",
        {"declarations": ".shared .align 4 .b8 buffer[320];"},
        "<ptx>:14:5: writes 4 bytes at shared address 0x140; shared memory has 320 bytes here: "
        "`st.shared.u32 [%r2+256], %r1;` (block (0, 0, 0), warp 0, lane 16)",
    ),
    "no shared memory": (
        "    st.shared.u32 [0], %r1;\n    ret;",
        {},
        "<ptx>:13:5: writes 4 bytes at shared address 0x0; shared memory has 0 bytes here: "
        "`st.shared.u32 [0], %r1;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "local memory": (
        "    ld.local.u32 %r2, [here+16];\n    ret;",
        {"declarations": ".local .align 4 .b8 here[16];"},
        "<ptx>:13:5: reads 4 bytes at local address 0x10; local memory has 16 bytes here: "
        "`ld.local.u32 %r2, [here+16];` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "parameters": (
        "    ld.param.u32 %r2, [out+8];\n    ret;",
        {},
        "<ptx>:13:5: reads 4 bytes at param address 0x8; param memory has 8 bytes here: "
        "`ld.param.u32 %r2, [out+8];` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a loop without end": (
        "LOOP:\n    add.u32 %r1, %r1, 1;\n    bra.uni LOOP;",
        {"block": 1, "grid": (2, 2), "step_budget": 1000},
        "<ptx>:15:5: never ends: still running after 1000 statements: `bra.uni LOOP;` (block (0, 0, 0), warp 0, lane 0); "
        "raise the step budget if the kernel is only slow",
    ),
    "a loop without end in another, with a way round in it": (
        "OUTER:\n    add.u32 %r2, %r1, 1;\nINNER:\n    add.u32 %r2, %r2, 1;\n    and.b32 %r3, %r2, 1;\n    setp.eq.u32 %p1, %r3, 0;\n"
        "    @%p1 bra EVEN;\n    add.u32 %r2, %r2, 2;\nEVEN:\n    setp.ne.u32 %p1, %r1, 99;\n    @%p1 bra INNER;\n    bra.uni OUTER;",
        {"block": 1, "step_budget": 1003},
        "<ptx>:23:5: never ends: still running after 1003 statements: `@%p1 bra INNER;` (block (0, 0, 0), warp 0, lane 0); "
        "raise the step budget if the kernel is only slow",
    ),
    "halves of a warp at two barriers": (
        "    setp.lt.u32 %p1, %r1, 16;\n    @%p1 bra OTHER;\n    bar.sync 1;\n    ret;\nOTHER:\n    bar.sync 2;\n    ret;",
        {"block": 32},
        "<ptx>:18:5: barrier 2 is never met: it needs 1 warp, none came with all its lanes; warp 0 at line 15 `bar.sync 1;`: "
        "`bar.sync 2;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "half the warps skip a barrier": (
        "    setp.lt.u32 %p1, %r1, 64;\n    @%p1 bra AFTER;\n    bar.sync 0;\nAFTER:\n    ret;",
        {"block": 128},
        "<ptx>:15:5: barrier 0 is never met: it needs 4 warps, warps 2-3 came; warps 0-1 exited: `bar.sync 0;` (block (0, 0, 0), warp 2, lane 0)",
    ),
    "two barriers": (
        "    setp.lt.u32 %p1, %r1, 32;\n    @%p1 bra OTHER;\n    bar.sync 1;\n    ret;\nOTHER:\n    bar.sync 2;\n    ret;",
        {"grid": (1, 2)},
        "<ptx>:18:5: barrier 2 is never met: it needs 2 warps, warp 0 came; warp 1 at line 15 `bar.sync 1;`: "
        "`bar.sync 2;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a barrier for too few": (
        "    bar.sync 1, 40;\n    ret;",
        {},
        "<ptx>:13:5: a barrier for 40 threads, which is no multiple of 32: `bar.sync 1, 40;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "no such barrier": (
        "    bar.sync 16;\n    ret;",
        {},
        "<ptx>:13:5: there is no barrier 16, only 0 to 15: `bar.sync 16;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a barrier for nobody": (
        "    bar.sync 1, 0;\n    ret;",
        {},
        "<ptx>:13:5: a barrier for 0 threads, which is no multiple of 32: `bar.sync 1, 0;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "a barrier with a sign": (
        "    bar.sync -1;\n    ret;",
        {},
        "<ptx>:13:5: there is no barrier 4294967295, only 0 to 15: `bar.sync -1;` (block (0, 0, 0), warp 0, lane 0)",
    ),
    "lanes that never come together": (
        "    setp.lt.u32 %p1, %r1, 8;\n    @%p1 bra OTHER;\n    bar.warp.sync 0xFFFFFFFF;\n    ret;\nOTHER:\n    bar.sync 0;\n    ret;",
        {"block": 32},
        "<ptx>:15:5: lanes 8-31 wait for lanes that cannot come (lanes 0-7 at line 18 `bar.sync 0;`): "
        "`bar.warp.sync 0xFFFFFFFF;` (block (0, 0, 0), warp 0)",
    ),
    "a trap": (
        "    setp.eq.u32 %p1, %r1, 37;\n    @%p1 trap;\n    ret;",
        {},
        "<ptx>:14:5: the kernel stopped itself: `@%p1 trap;` (block (0, 0, 0), warp 1, lane 5)",
    ),
    "an unknown instruction": (
        "    frobnicate.sync.b32 %r2, %r1, {};\n    ret;",
        {},
        "<ptx>:13:5: 'frobnicate.sync.b32' is not in the instruction table: `frobnicate.sync.b32 %r2, %r1, {};`; "
        "the module's other entries run; `ptxgraft ls` names what each entry lacks",
    ),
    "an instruction without a meaning": (
        "    tcgen05.wait::ld.sync.aligned;\n    ret;",
        {},
        "<ptx>:13:5: 'tcgen05.wait::ld.sync.aligned' has no meaning here yet: `tcgen05.wait::ld.sync.aligned;`; "
        "mma.sync on registers, with kinds and factors for blocks too, multiplies the same types; on='cuda' runs it where the GPU has it",
    ),
    "an instruction that is left out": (
        "    tex.2dms.v4.s32.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r1, %r1, %r1, %r1}];\n    ret;",
        {},
        "<ptx>:13:5: 'tex.2dms.v4.s32.s32' has no meaning here yet: `tex.2dms.v4.s32.s32 {%r1, %r1, %r1, %r1}, [%rd1, {%r1, %r1, %r1, %r1}];`; "
        "textures have one sample a texel; tex.2d and tex.a2d fetch those",
    ),
    "an extern function": (
        "    { call.uni native, (); }\n    ret;",
        {"outside": ".extern .func native ();"},
        "<ptx>:13:7: function 'native' has no body in this module: `call.uni native, ();`; "
        "merge a module that defines it, or run the uncut entry",
    ),
    "an unknown texture": (
        "    mov.f32 %f1, 0f00000000;\n    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd3, {%f1, %f1}];\n    ret;",
        {},
        "<ptx>:14:5: 0x7f0000000000 is no texture of this launch (there are: none): "
        "`tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd3, {%f1, %f1}];` (block (0, 0, 0), warp 0, lane 0)",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_says_what_and_where(name: str) -> None:
    body, settings, expected = FAULTS[name]
    made = {k: settings[k] for k in ("declarations", "outside") if k in settings}
    rest = {k: v for k, v in settings.items() if k not in made}
    assert fault_of(module(body, **made), **rest) == expected


def test_the_same_faults_on_the_fast_engine() -> None:
    """Two of each kind are enough here: tests/run/test_warp_engine.py compares the engines widely."""
    for name in (
        "a read past the end",
        "half the warps skip a barrier",
        "a loop without end",
        "an unknown texture",
        "a barrier with a sign",
    ):
        body, settings, expected = FAULTS[name]
        assert fault_of(module(body), engine="warp", **settings) == expected


def test_a_barrier_for_nobody_in_threaded_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warp_graph, "LIMIT", 0)
    body, settings, expected = FAULTS["a barrier for nobody"]
    assert fault_of(module(body), engine="warp", **settings) == expected


def test_code_that_nobody_reaches_does_not_hurt() -> None:
    out = np.zeros(64, np.uint32)
    text = module("    st.global.u32 [%rd3], %r1;\n    bra.uni AFTER;\n    frobnicate.b32 %r2, %r1;\n    trap;\nAFTER:\n    ret;")
    ptxgraft.load(text).kernel("k", engine="numpy").launch(1, 64, [out])
    assert out.tolist() == list(range(64))


def test_two_textures_and_an_unknown_one() -> None:
    texture = ptxgraft.Texture(np.zeros((2, 2, 4), np.float32))
    said = fault_of(
        module(
            "    mov.f32 %f1, 0f00000000;\n    tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%rd1, {%f1, %f1}];\n    ret;",
            params=".param .u64 out, .param .u64 image",
        ),
        args=[texture],
    )
    assert "0x7f0000000000 is no texture of this launch (there are: 0x100000001)" in said


@pytest.mark.parametrize(
    "operation, expected", [("div.u32", 0xFFFFFFFF), ("div.s32", 0xFFFFFFFF), ("rem.u32", 0xFFFFFFFF), ("rem.s32", 0xFFFFFFFF)]
)
def test_division_by_zero_gives_the_value_of_the_hardware(operation: str, expected: int) -> None:
    out = np.zeros(1, np.uint32)
    text = module(f"    mov.u32 %r2, 7;\n    mov.u32 %r3, 0;\n    {operation} %r4, %r2, %r3;\n    st.global.u32 [%rd1], %r4;\n    ret;")
    for engine in ("numpy", "warp"):
        ptxgraft.load(text).kernel("k", engine=engine).launch(1, 1, [out])
        assert out[0] == expected


def test_the_most_negative_by_minus_one() -> None:
    out = np.zeros(2, np.uint32)
    text = module(
        "    mov.u32 %r2, 0x80000000;\n    mov.u32 %r3, -1;\n    div.s32 %r4, %r2, %r3;\n    rem.s32 %r5, %r2, %r3;\n"
        "    st.global.v2.u32 [%rd1], {%r4, %r5};\n    ret;"
    )
    for engine in ("numpy", "warp"):
        ptxgraft.load(text).kernel("k", engine=engine).launch(1, 1, [out])
        assert out.tolist() == [0x80000000, 0]


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_the_largest_grid_needs_no_list_of_its_blocks(engine: str):
    said = fault_of(
        module("    mov.u32 %r2, %ctaid.x;\n    setp.eq.u32 %p1, %r2, 300;\n    @%p1 trap;\n    ret;"),
        grid=(2**31 - 1, 65535, 65535),
        block=1,
        engine=engine,
        threads=1,
    )
    assert said == "<ptx>:15:5: the kernel stopped itself: `@%p1 trap;` (block (300, 0, 0), warp 0, lane 0)"


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_blocks_chosen_one_by_one_of_the_largest_grid(engine: str):
    out = np.zeros(64, np.uint32)
    kernel = ptxgraft.load(module("    mov.u32 %r2, %ctaid.z;\n    st.global.u32 [%rd1], %r2;\n    ret;")).kernel("k", engine=engine)
    grid = (2**31 - 1, 65535, 65535)
    kernel.launch(grid, 1, [out], blocks=[grid[0] * grid[1] * 65534])
    assert out[0] == 65534


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize(
    ("offset", "said"), [(0, "writes to the argument block, which is read-only"), (8, "reads 4 bytes at param address 0x8")]
)
def test_an_atomic_on_the_argument_block(engine: str, offset: int, said: str):
    body = f"    mov.u64 %rd4, out;\n    cvta.param.u64 %rd4, %rd4;\n    atom.add.u32 %r2, [%rd4+{offset}], 1;\n    ret;"
    assert fault_of(module(body), block=1, engine=engine).startswith(f"<ptx>:15:5: {said}")
