"""Textures and surfaces against results recorded on an H200 (`tests/goldens_images/`), on both engines."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import ptxgraft
from ptxgraft.errors import KernelFault, UsageError

RECORDED = np.load(Path(__file__).parents[1] / "goldens_images" / "h200_images.npz")
CASES = {row[0]: tuple(row[1:]) for row in RECORDED["cases"]}
ENGINES = ("numpy", "warp")

KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 image, .param .u64 at, .param .u64 out, .param .u32 n)
{{
    .reg .pred %p<2>; .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .b32 %x<4>; .reg .b16 %h<2>;
    ld.param.u64 %rd1, [image]; ld.param.u64 %rd2, [at]; ld.param.u64 %rd3, [out]; ld.param.u32 %r1, [n];
    mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r4, %r2, 128, %r3;
    setp.ge.u32 %p1, %r4, %r1;
    @%p1 bra DONE;
    mul.wide.u32 %rd4, %r4, 16; add.s64 %rd5, %rd2, %rd4; add.s64 %rd6, %rd3, %rd4;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd5];
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
    {operation}
    st.global.v4.b32 [%rd6], {{%r5, %r6, %r7, %r8}};
DONE:
    ret;
}}
"""
ALL = "{%r5, %r6, %r7, %r8}"
COORDINATES = {"1d": "{%x0}", "2d": "{%x0, %x1}", "3d": "{%x0, %x1, %x2, %x3}"}


@cache
def kernel(operation: str, engine: str):
    return ptxgraft.load(KERNEL.format(operation=operation)).kernel("k", engine=engine)


def fetch(operation: str, engine: str, image, at: np.ndarray) -> np.ndarray:
    """The four words that each row of coordinates gives."""
    out = np.zeros((len(at), 4), np.uint32)
    kernel(operation, engine).launch(-(-len(at) // 128), 128, [image, np.ascontiguousarray(at), out, len(at)])
    return out


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", CASES)
def test_texture_gives_what_the_hardware_gave(name: str, engine: str) -> None:
    geometry, dtype, ctype, settings = CASES[name]
    texture = ptxgraft.Texture(RECORDED[f"{name}.texels"], **ast.literal_eval(settings))
    out = fetch(f"tex.{geometry}.v4.{dtype}.{ctype} {ALL}, [%rd1, {COORDINATES[geometry]}];", engine, texture, RECORDED[f"{name}.at"])
    expected = RECORDED[f"{name}.out"]
    np.testing.assert_array_equal(out, expected)


LOADS = {
    "suld_b32": "suld.b.2d.b32.{clamp} %r5, [%rd1, {{%x0, %x1}}];",
    "suld_v2": "suld.b.2d.v2.b32.{clamp} {{%r5, %r6}}, [%rd1, {{%x0, %x1}}];",
    "suld_b8": "suld.b.2d.b8.{clamp} %h1, [%rd1, {{%x0, %x1}}]; cvt.u32.u16 %r5, %h1;",
}
STORES = {
    "sust_b32": "sust.b.2d.b32.{clamp} [%rd1, {{%x0, %x1}}], {{%r5}};",
    "sust_v2": "sust.b.2d.v2.b32.{clamp} [%rd1, {{%x0, %x1}}], {{%r5, %r6}};",
}
WORDS = "mov.u32 %r5, 0x11223344; mov.u32 %r6, 0x55667788; "


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clamp", ("clamp", "zero"))
@pytest.mark.parametrize("name", LOADS)
def test_surface_load_outside(name: str, clamp: str, engine: str) -> None:
    out = fetch(LOADS[name].format(clamp=clamp), engine, ptxgraft.Surface(RECORDED["surface"].copy()), RECORDED["surface.at"])
    np.testing.assert_array_equal(out, RECORDED[f"surface.{name}_{clamp}"])


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("clamp", ("clamp", "zero"))
@pytest.mark.parametrize("name", STORES)
def test_surface_store_outside(name: str, clamp: str, engine: str) -> None:
    for (x, y), expected in zip(RECORDED["stored.at"], RECORDED[f"stored.{name}_{clamp}"], strict=True):
        array = RECORDED["surface"].copy()
        fetch(WORDS + STORES[name].format(clamp=clamp), engine, ptxgraft.Surface(array), np.array([[x, y, 0, 0]], np.int32))
        np.testing.assert_array_equal(array, expected)


@pytest.mark.parametrize(
    "at, reason", [((32, 0), "outside"), ((-4, 0), "outside"), ((0, 4), "outside"), ((2, 0), "no multiple of the 4 bytes")]
)
def test_surface_store_faults(at: tuple[int, int], reason: str) -> None:
    with pytest.raises(KernelFault, match=reason):
        fetch(
            STORES["sust_b32"].format(clamp="trap"),
            "numpy",
            ptxgraft.Surface(RECORDED["surface"].copy()),
            np.array([[*at, 0, 0]], np.int32),
        )


def test_queries() -> None:
    texture = ptxgraft.Texture(np.zeros((5, 6, 7, 4), np.float32), normalized=True)
    query = "txq.width.b32 %r5, [%rd1]; txq.height.b32 %r6, [%rd1]; txq.depth.b32 %r7, [%rd1]; txq.normalized_coords.b32 %r8, [%rd1];"
    assert fetch(query, "numpy", texture, np.zeros((1, 4), np.float32)).tolist() == [[7, 6, 5, 1]]
    query = "suq.width.b32 %r5, [%rd1]; suq.height.b32 %r6, [%rd1];"
    assert fetch(query, "numpy", ptxgraft.Surface(np.zeros((3, 9, 2), np.float16)), np.zeros((1, 4), np.float32)).tolist() == [[9, 3, 0, 0]]


def test_surface_in_three_dimensions_and_layers() -> None:
    array = np.arange(3 * 4 * 5, dtype=np.uint32).reshape(3, 4, 5, 1)
    at = np.array([[4, 1, 2, 0], [16, 3, 0, 0]], np.int32)
    cube = fetch("suld.b.3d.b32.trap %r5, [%rd1, {%x0, %x1, %x2, %x3}];", "numpy", ptxgraft.Surface(array), at)
    assert cube[:, 0].tolist() == [array[2, 1, 1, 0], array[0, 3, 4, 0]]
    layer = fetch("suld.b.a2d.b32.trap %r5, [%rd1, {%x2, %x0, %x1, %x3}];", "numpy", ptxgraft.Surface(array), at)
    assert layer[:, 0].tolist() == cube[:, 0].tolist()


@pytest.mark.parametrize(
    "array, settings, message",
    [
        (np.zeros((4, 3), np.float32), {}, r"a texture of shape \(4, 3\)"),
        (np.zeros((4, 4, 3), np.float32), {}, r"a texture of shape \(4, 4, 3\)"),
        (np.zeros((4, 4, 4), np.float64), {}, "a texture of float64"),
        (np.zeros((4, 4, 4), np.float32), {"format": 16}, r"format 16 \(HALF\) holds float16, not float32"),
        (np.zeros((4, 4, 4), np.float32), {"format": 77}, "image format 77 is unknown"),
        (np.zeros((4, 4, 4), np.float32), {"filter": "cubic"}, "filter 'cubic' is unknown"),
        (np.zeros((4, 4, 4), np.float32), {"address": "repeat"}, "address mode 'repeat' is unknown"),
        (np.zeros((4, 4, 4), np.float32), {"address": "wrap"}, "wrap and mirror need normalised coordinates"),
        (np.zeros((4, 4, 4), np.uint32), {"filter": "linear"}, "integer texels cannot be filtered linearly"),
    ],
)
def test_textures_that_cannot_be(array: np.ndarray, settings: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ptxgraft.Texture(array, **settings)
