"""The Python API: what becomes of each argument, and what is refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault, SourceError, UnsupportedError, UsageError

HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
SAXPY = (
    HEAD
    + """
.visible .entry saxpy(.param .u32 n, .param .f32 a, .param .u64 x, .param .u64 y)
{
    .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<5>; .reg .b64 %rd<8>;
    ld.param.u32 %r1, [n]; ld.param.f32 %f1, [a]; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x; mad.lo.s32 %r5, %r2, %r3, %r4;
    setp.ge.u32 %p1, %r5, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd3, %r5, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f2, [%rd4]; ld.global.f32 %f3, [%rd5]; fma.rn.f32 %f4, %f1, %f2, %f3; st.global.f32 [%rd5], %f4;
DONE:
    ret;
}
"""
)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_two_lines_run_a_kernel(engine: str, tmp_path) -> None:
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.ones(n, np.float32)
    kernel = ptxgraft.load(path).kernel("saxpy", engine=engine)
    result = kernel.launch(grid=(4,), block=(256,), args=[n, 2.0, x, y])
    np.testing.assert_array_equal(y, 2 * np.arange(n, dtype=np.float32) + 1)
    assert result.engine == engine and result.profile == "sm_90" and result.statements == 4 * 8 * 18 and result.seconds > 0


def test_load_takes_a_path_text_or_bytes(tmp_path) -> None:
    assert ptxgraft.load(SAXPY).entries == ptxgraft.load(SAXPY.encode()).entries == ["saxpy"]
    (tmp_path / "k.ptx").write_text(SAXPY)
    assert ptxgraft.load(str(tmp_path / "k.ptx")).entries == ["saxpy"]
    with pytest.raises(SourceError, match="no such file"):
        ptxgraft.load("nowhere.ptx")


def test_choices_are_checked() -> None:
    module = ptxgraft.load(SAXPY)
    for settings, message in (
        ({"on": "tpu"}, "place 'tpu' is unknown; one of cpu, cuda, hip"),
        ({"engine": "fast"}, "engine 'fast' is unknown; one of warp, numpy"),
        ({"profile": "sm_91"}, "profile 'sm_91' is unknown; one of"),
    ):
        with pytest.raises(UsageError, match=message):
            module.kernel("saxpy", **settings)
    with pytest.raises(UnsupportedError, match="kernels cannot be launched on 'hip' yet; there are: cpu, cuda"):
        module.kernel("saxpy", on="hip")
    with pytest.raises(UsageError, match="saxpi"):
        module.kernel("saxpi")


# -- arguments ------------------------------------------------------------------------------------------------------------
def echo(type: str, value, size: int, count: int = 0) -> bytes:
    """The bytes of a parameter of ``type`` (``count``: an array of it) that a kernel sees for ``value``."""
    array = f".align 8 .{type} p[{count}]" if count else f".{type} p"
    moves = "".join(f" ld.param.u8 %r1, [p+{i}]; st.global.u8 [%rd1+{i}], %r1;" for i in range(size))
    text = f"{HEAD}.visible .entry k(.param {array}, .param .u64 out) {{ .reg .b32 %r<2>; .reg .b64 %rd<2>; ld.param.u64 %rd1, [out];{moves} ret; }}"
    out = np.zeros(size, np.uint8)
    ptxgraft.load(text).kernel("k", engine="numpy").launch(1, 1, [value, out])
    return out.tobytes()


@pytest.mark.parametrize(
    "type, value, expected",
    [
        ("u8", 200, b"\xc8"),
        ("s8", -1, b"\xff"),
        ("u16", True, b"\x01\x00"),
        ("s32", -2, struct.pack("<i", -2)),
        ("u32", 7.0, struct.pack("<I", 7)),
        ("u32", np.uint32(4000000000), struct.pack("<I", 4000000000)),
        ("u64", 2**64 - 1, b"\xff" * 8),
        ("b32", -1, b"\xff" * 4),
        ("b32", 0xFFFFFFFF, b"\xff" * 4),
        ("b32", 1.5, struct.pack("<f", 1.5)),
        ("b64", 1.5, struct.pack("<d", 1.5)),
        ("b16", 1.5, struct.pack("<e", 1.5)),
        ("f32", 1, struct.pack("<f", 1)),
        ("f32", np.float64(0.1), struct.pack("<f", 0.1)),
        ("f64", float("inf"), struct.pack("<d", float("inf"))),
        ("u32", b"abcd", b"abcd"),
    ],
)
def test_numbers_become_the_parameter(type: str, value, expected: bytes) -> None:
    assert echo(type, value, len(expected)) == expected


def test_bytes_fill_a_struct() -> None:
    assert echo("b8", b"0123456789", 10, 10) == b"0123456789"


@pytest.mark.parametrize(
    "type, count, value, message",
    [
        ("u32", 0, -1, "k: parameter p is u32; int does not fit: -1 is out of range"),
        ("u8", 0, 256, "256 is out of range"),
        ("s16", 0, 40000, "40000 is out of range"),
        ("u32", 0, 1.5, "float does not fit: 1.5 is no whole number"),
        ("f32", 0, 1e300, "float too large"),
        ("u32", 0, b"abc", "3 bytes for 4"),
        ("b8", 16, b"abc", r"parameter p is b8\[16\]; bytes does not fit: 3 bytes for 16"),
        ("b8", 16, 5, "give the bytes of the whole parameter"),
        ("u32", 0, np.zeros(4, np.float32), "a pointer or handle takes 8 bytes"),
        ("u64", 0, np.array([None]), "an array of Python objects has no bytes to pass"),
        ("u64", 0, "text", "str does not fit: give a number, an array, bytes, a Texture or a Surface"),
    ],
)
def test_arguments_that_do_not_fit(type: str, count: int, value, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        echo(type, value, 1, count)


def test_the_number_of_arguments_is_checked() -> None:
    with pytest.raises(UsageError, match=r"saxpy takes 4 arguments, not 1; its parameters: n \(u32\), a \(f32\), x \(u64\), y \(u64\)"):
        ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy").launch(1, 1, [5])
    empty = ptxgraft.load(HEAD + ".visible .entry nothing() { ret; }").kernel("nothing", engine="numpy")
    assert empty.launch(1, 1).statements == 1
    with pytest.raises(UsageError, match="nothing takes 0 arguments, not 1; its parameters: none"):
        empty.launch(1, 1, [5])


def test_an_array_given_twice_is_one_buffer() -> None:
    x = np.arange(100, dtype=np.float32)
    ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy").launch(1, 128, [100, 1.0, x, x])
    np.testing.assert_array_equal(x, 2 * np.arange(100, dtype=np.float32))


def test_views_get_their_own_bytes_back() -> None:
    whole = np.zeros((50, 4), np.float32)
    ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy").launch(1, 64, [50, 3.0, np.ones(50, np.float32), whole[:, 1]])
    assert whole[:, 1].tolist() == [3.0] * 50 and not whole[:, [0, 2, 3]].any()


MOVE = (
    HEAD
    + """
.visible .entry move(.param .u64 from, .param .u64 to)
{
    .reg .b32 %r<4>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
    ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 100; st.global.u32 [%rd2], %r1;
    ld.global.u32 %r2, [%rd1+4]; st.global.u32 [%rd2+8], %r2;
    ret;
}
"""
)


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_views_that_overlap_lie_in_one_buffer(engine: str) -> None:
    kernel = ptxgraft.load(MOVE).kernel("move", engine=engine)
    x = np.arange(6, dtype=np.uint32)
    kernel.launch(1, 1, [x[:4], x[1:]])
    assert x.tolist() == [0, 100, 2, 100, 4, 5]  # the second load sees the first store
    y = np.arange(6, dtype=np.uint32)
    kernel.launch(1, 1, [y, y.reshape(2, 3)])
    assert y.tolist() == [100, 1, 1, 3, 4, 5]
    z = np.arange(4, dtype=np.uint32)
    kernel.launch(1, 1, [z.view(np.float32), z])
    assert z.tolist() == [100, 1, 1, 3]


def test_views_that_do_not_meet_are_buffers_of_their_own() -> None:
    x = np.arange(8, dtype=np.uint32)
    kernel = ptxgraft.load(MOVE).kernel("move", engine="numpy")
    launch = kernel.prepare(1, 1, [x[:4], x[4:]]).launch
    assert [a.size for a in launch.allocations] == [16, 16]
    kernel.launch(1, 1, [x[::2], x[1::2]])
    assert x.tolist() == [0, 100, 2, 3, 4, 2, 6, 7]


def test_overlapping_views_that_are_not_contiguous_are_refused() -> None:
    x = np.arange(12, dtype=np.uint32)
    with pytest.raises(UsageError, match="arguments from and to share memory, and from is not contiguous"):
        ptxgraft.load(MOVE).kernel("move", engine="numpy").launch(1, 1, [x[::2], x])


def test_a_fault_is_raised_although_a_read_only_array_was_written() -> None:
    x, y = np.arange(4, dtype=np.uint32), np.zeros(2, np.uint32)
    y.flags.writeable = False
    with pytest.raises(KernelFault):
        ptxgraft.load(MOVE).kernel("move", engine="numpy").launch(1, 1, [x, y])


@pytest.mark.parametrize("grid", [np.int64(2), (np.int32(2),), np.array([2, 1]), [2]])
def test_numpy_numbers_are_numbers(grid) -> None:
    kernel = ptxgraft.load(MOVE).kernel("move", engine="numpy")
    assert kernel.prepare(grid, np.uint8(1), [np.zeros(4, np.uint32)] * 2).launch.grid == (2, 1, 1)


@pytest.mark.parametrize("grid", [1.5, (1.5,), (1000.0,), "32", None, ("a",), {}])
def test_what_is_no_grid_is_refused(grid) -> None:
    with pytest.raises(UsageError, match="is no grid; a grid is a whole number or one to three of them"):
        ptxgraft.load(MOVE).kernel("move", engine="numpy").launch(grid, 1, [np.zeros(4, np.uint32)] * 2)


def test_other_options_that_are_none() -> None:
    kernel, args = ptxgraft.load(bytearray(MOVE, "ascii")).kernel("move", engine="numpy"), [np.zeros(4, np.uint32)] * 2
    with pytest.raises(UsageError, match=r"shared_bytes is 1\.5, which is no whole number"):
        kernel.launch(1, 1, args, shared_bytes=1.5)  # pyright: ignore[reportArgumentType]
    for budget in (0, -1):
        with pytest.raises(UsageError, match="runs nothing"):
            kernel.launch(1, 1, args, step_budget=budget)
    with pytest.raises(SourceError, match="the file is empty"):
        ptxgraft.load("")
    with pytest.raises(SourceError, match="cannot be read"):
        ptxgraft.load("a\0b")


def test_a_read_only_array_may_be_read_alone() -> None:
    x, y = np.ones(10, np.float32), np.zeros(10, np.float32)
    x.flags.writeable = False
    kernel = ptxgraft.load(SAXPY).kernel("saxpy", engine="numpy")
    kernel.launch(1, 32, [10, 1.0, x, y])
    assert y.sum() == 10
    with pytest.raises(UsageError, match="saxpy wrote to argument y, whose array is read-only"):
        kernel.launch(1, 32, [10, 1.0, y, x])
    assert x.sum() == 10


def test_surfaces_and_textures_are_handles_and_surfaces_come_back() -> None:
    text = (
        HEAD
        + """
.visible .entry copy(.param .u64 from, .param .u64 to)
{
    .reg .b32 %r<4>; .reg .b64 %rd<3>; .reg .f32 %f<7>;
    ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
    mov.u32 %r1, %tid.x; mov.u32 %r2, %tid.y; cvt.rn.f32.u32 %f5, %r1; cvt.rn.f32.u32 %f6, %r2;
    tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
    shl.b32 %r3, %r1, 2;
    sust.b.2d.b32.trap [%rd2, {%r3, %r2}], {%f2};
    ret;
}
"""
    )
    pixels = np.random.default_rng(5).random((3, 7, 4), np.float32)
    for engine in ("numpy", "warp"):
        surface = ptxgraft.Surface(np.zeros((3, 7, 1), np.float32))
        ptxgraft.load(text).kernel("copy", engine=engine).launch(1, (7, 3), [ptxgraft.Texture(pixels), surface])
        np.testing.assert_array_equal(surface.array[..., 0], pixels[..., 1])


def test_importing_the_package_imports_nothing_heavy() -> None:
    import subprocess
    import sys

    code = "import sys, ptxgraft; print('numpy' in sys.modules); print(ptxgraft.load.__name__); print('numpy' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert said == ["False", "load", "True"]
    with pytest.raises(AttributeError, match="no attribute 'unload'"):
        _ = ptxgraft.unload


@pytest.mark.parametrize("engine", ["numpy", "warp"])
def test_a_number_in_place_of_a_pointer_is_named_in_the_fault(engine) -> None:
    kernel = ptxgraft.load(SAXPY).kernel("saxpy", engine=engine)
    out = np.zeros(32, np.float32)
    with pytest.raises(KernelFault, match=r"parameter x was given the number 4096, .* a pointer is passed as an array"):
        kernel.launch(1, 32, [32, 2.0, 4096, out])
    with pytest.raises(KernelFault) as beyond:  # a bad access that has nothing to do with it
        kernel.launch(1, 32, [32, 2.0, 1 << 60, out[:1]])
    assert "was given the number 1152921504606846976" in str(beyond.value)
    with pytest.raises(KernelFault) as short:
        kernel.launch(1, 32, [32, 2.0, out, out[:1].copy()])
    assert "was given" not in str(short.value)
