"""Texture, sampler and surface references: bound by name at a launch, recorded and replayed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptxgraft
from ptxgraft import capture
from ptxgraft.errors import KernelFault, PtxgraftError, SourceError, UsageError
from ptxgraft.run import Assume, capture_of, execute, launch_from_capture, snapshot

ENGINES = ("numpy", "warp")
RNG = np.random.default_rng(7)
TEXELS = RNG.standard_normal((6, 8, 4)).astype(np.float32)
AT = RNG.uniform(-1, 9, (40, 4)).astype(np.float32)
ALL = "{%r5, %r6, %r7, %r8}"
FETCH = f"tex.2d.v4.f32.f32 {ALL}, [shade, {{%x0, %x1}}];"

KERNEL = """.version 8.0
.target sm_90{mode}
.address_size 64
.global .texref shade;
.global .texref other;
.global .surfref canvas;
.global .samplerref soft = {{ filter_mode = linear, addr_mode_0 = clamp_to_border }};
.global .samplerref hard;
.visible .entry k(.param .u64 at, .param .u64 out)
{{
    .reg .b32 %r<12>; .reg .b64 %rd<8>; .reg .b32 %x<4>;
    ld.param.u64 %rd2, [at]; ld.param.u64 %rd3, [out];
    mov.u32 %r1, %tid.x; mul.wide.u32 %rd4, %r1, 16; add.s64 %rd2, %rd2, %rd4; add.s64 %rd3, %rd3, %rd4;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd2];
    mov.u32 %r5, 0; mov.u32 %r6, 0; mov.u32 %r7, 0; mov.u32 %r8, 0;
    {operation}
    st.global.v4.b32 [%rd3], {{%r5, %r6, %r7, %r8}};
    ret;
}}
"""


def kernel(operation: str, engine: str = "numpy", independent: bool = False):
    mode = ", texmode_independent" if independent else ""
    return ptxgraft.load(KERNEL.format(operation=operation, mode=mode)).kernel("k", engine=engine)


def run(operation: str, engine: str = "numpy", independent: bool = False, at: np.ndarray = AT, **references) -> np.ndarray:
    out = np.zeros((len(at), 4), np.uint32)
    kernel(operation, engine, independent).launch(1, len(at), [at, out], references=references)
    return out


def by_handle(texture: ptxgraft.Texture, engine: str) -> np.ndarray:
    text = KERNEL.format(operation=FETCH.replace("shade", "%rd5"), mode="").replace(".param .u64 at,", ".param .u64 image, .param .u64 at,")
    out = np.zeros((len(AT), 4), np.uint32)
    loaded = ptxgraft.load(text.replace("ld.param.u64 %rd2, [at];", "ld.param.u64 %rd2, [at]; ld.param.u64 %rd5, [image];"))
    loaded.kernel("k", engine=engine).launch(1, len(AT), [texture, AT, out])
    return out


@pytest.mark.parametrize("engine", ENGINES)
def test_a_name_and_a_pointer_to_it_mean_the_texture(engine: str) -> None:
    texture = ptxgraft.Texture(TEXELS, filter="linear")
    expected = by_handle(texture, engine)
    np.testing.assert_array_equal(run(FETCH, engine, shade=texture), expected)
    through = FETCH.replace("shade", "%rd5")
    np.testing.assert_array_equal(run(f"mov.u64 %rd5, shade; {through}", engine, shade=texture), expected)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("bound", (False, True), ids=("from the initialiser", "bound"))
def test_a_sampler_of_its_own_says_how_a_texture_is_read(engine: str, bound: bool) -> None:
    same = ptxgraft.Texture(TEXELS, filter="linear", address=("border", "clamp", "clamp"))
    name = "hard" if bound else "soft"
    samplers = {"hard": ptxgraft.Sampler("linear", ("border", "clamp", "clamp"))} if bound else {}
    found = run(FETCH.replace("[shade,", f"[shade, {name},"), engine, True, shade=ptxgraft.Texture(TEXELS), **samplers)
    np.testing.assert_array_equal(found, by_handle(same, engine))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_sampler_takes_whole_numbers_for_floats(engine: str) -> None:
    at = RNG.integers(-3, 11, (40, 4)).astype(np.int32)
    given = {"shade": ptxgraft.Texture(TEXELS)}
    whole = run(FETCH.replace("[shade,", "[shade, soft,").replace(".f32.f32", ".f32.s32"), engine, True, at, **given)
    np.testing.assert_array_equal(whole, run(FETCH.replace("[shade,", "[shade, soft,"), engine, True, at.astype(np.float32), **given))


@pytest.mark.parametrize("engine", ENGINES)
def test_a_surface_reference_is_stored_to(engine: str) -> None:
    canvas = np.zeros((6, 8, 1), np.uint32)
    at = np.array([[4 * x, y, 0, 0] for y in range(6) for x in range(8)][:40], np.int32)
    run("sust.b.2d.b32.trap [canvas, {%x0, %x1}], {%r1};", engine, at=at, canvas=ptxgraft.Surface(canvas))
    assert canvas.reshape(-1)[:40].tolist() == list(range(40)) and not canvas.reshape(-1)[40:].any()


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("operation", "references", "message"),
    [
        (FETCH, {}, "no texture is bound to the reference 'shade'"),
        ("suld.b.2d.b32.trap %r5, [canvas, {%x0, %x1}];", {}, "no surface is bound to the reference 'canvas'"),
        (FETCH, {"other": ptxgraft.Texture(TEXELS)}, r"k has no reference 'other' to bind to; references that it names: shade \(.texref\)"),
        (FETCH, {"shade": ptxgraft.Surface(TEXELS)}, "'shade' is a .texref; a Surface cannot be bound to it; give a Texture"),
    ],
)
def test_what_is_not_bound_is_named(operation: str, references: dict, message: str, engine: str) -> None:
    with pytest.raises(KernelFault if not references else UsageError, match=message):
        run(operation, engine, **references)


def test_a_sampler_that_cannot_be_read() -> None:
    text = KERNEL.format(operation=FETCH.replace("[shade,", "[shade, soft,"), mode=", texmode_independent").replace("= linear", "= cubic")
    out = np.zeros((1, 4), np.uint32)
    with pytest.raises(SourceError, match="cannot read 'filter_mode = cubic' in the initialiser of 'soft'"):
        ptxgraft.load(text).kernel("k").launch(1, 1, [AT[:1], out], references={"shade": ptxgraft.Texture(TEXELS)})


IMAGES = {
    "shade": ptxgraft.Texture(TEXELS, filter="linear", address="border"),
    "layers": ptxgraft.Texture(RNG.integers(0, 255, (3, 4, 4, 2)).astype(np.uint8), layered=True, integers=True),
    "cube": ptxgraft.Texture(RNG.standard_normal((6, 4, 4, 1)).astype(np.float16), cube=True, seamless=True),
    "levels": ptxgraft.Texture(
        RNG.standard_normal((5, 7, 4)).astype(np.float32), normalized=True, mip_filter="linear", bias=0.25, lowest=1.0, highest=1.5,
        mipmaps=[RNG.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4), (1, 1, 4))],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", IMAGES)
def test_a_recorded_reference_replays(name: str, tmp_path: Path) -> None:
    surface = ptxgraft.Surface(np.zeros((2, 3, 4, 1), np.uint32), layered=True)
    store = "mov.u32 %r2, 0; add.u32 %r3, %r1, 7; sust.b.a2d.b32.zero [canvas, {%r1, %r2, %r2, %r2}], {%r3};"
    k = kernel(f"{FETCH} {store}")
    out = np.zeros((len(AT), 4), np.uint32)
    launch = k.prepare(1, len(AT), [AT, out], references={"shade": IMAGES[name], "canvas": surface}).launch
    before = snapshot(launch)
    execute(launch, engine="numpy")
    path = tmp_path / "one.ptxcap"
    capture.write(capture.Capture([capture_of(launch, before)]), path)
    recorded = ptxgraft.open_capture(path).launches[0]
    (texture,), (canvas,) = recorded.textures, recorded.surfaces
    assert (texture.reference, canvas.reference, canvas.layered) == ("shade", "canvas", True)
    for level, array in zip(texture.arrays(), IMAGES[name].levels, strict=True):
        np.testing.assert_array_equal(level, array)
    for engine in ENGINES:
        replayed = ptxgraft.replay(recorded, engine=engine)
        found = {o.name: o.data.tobytes() for o in replayed.outputs}
        assert found["surface at reference canvas"] == surface.array.tobytes() and surface.array.any()
        assert found["allocation 1"] == launch.allocations[1].data.tobytes()
        again = replayed.launch.textures[texture.handle]
        settings = (
            "format",
            "filter",
            "address",
            "normalized",
            "integers",
            "layered",
            "cube",
            "mip_filter",
            "bias",
            "lowest",
            "highest",
            "seamless",
        )
        assert all(getattr(again, s) == getattr(IMAGES[name], s) for s in settings)


def test_a_bound_sampler_is_not_recorded() -> None:
    k = kernel(FETCH.replace("[shade,", "[shade, hard,"), independent=True)
    out = np.zeros((len(AT), 4), np.uint32)
    launch = k.prepare(1, len(AT), [AT, out], references={"shade": IMAGES["shade"], "hard": ptxgraft.Sampler()}).launch
    with pytest.raises(UsageError, match="a capture holds no samplers"):
        capture_of(launch, snapshot(launch))


def test_the_directory_form_cannot_hold_a_reference(tmp_path: Path) -> None:
    launch = kernel(FETCH).prepare(1, 1, [AT[:1], np.zeros((1, 4), np.uint32)], references={"shade": IMAGES["shade"]}).launch
    recorded = capture_of(launch, snapshot(launch))
    with pytest.raises(PtxgraftError, match="the texture at reference shade is bound to a reference, which the directory form cannot say"):
        capture.write_directory(capture.Capture([recorded]), tmp_path / "folder")


def test_messages_name_a_reference() -> None:
    launch = kernel(FETCH).prepare(1, 1, [AT[:1], np.zeros((1, 4), np.uint32)], references={"shade": IMAGES["shade"]}).launch
    recorded = capture_of(launch, snapshot(launch))
    recorded.textures[0].filter = None
    assert launch_from_capture(launch.program, recorded).notes == [
        f"{recorded.label}: the texture at reference shade does not say all; taken: filter {Assume().filter}"
    ]
    recorded.textures[0].after = None
    with pytest.raises(SourceError, match="the texture at reference shade has no texels recorded after the launch"):
        recorded.textures[0].texels("after")


OLD = """.version 1.4
.target sm_13
.tex .u64 shade;
.entry k(.param .u64 out)
{
    .reg .u32 %r<3>; .reg .u64 %rd<4>; .reg .f32 %f<8>;
    ld.param.u64 %rd1, [out];
    cvt.u32.u16 %r1, %tid.x; mul.lo.u32 %r2, %r1, 16; cvt.u64.u32 %rd2, %r2; add.u64 %rd3, %rd1, %rd2;
    cvt.rn.f32.u32 %f1, %r1; mov.f32 %f2, 0f3f000000;
    tex.2d.v4.f32.f32 {%f4, %f5, %f6, %f7}, [shade, {%f1, %f2}];
    st.global.v4.f32 [%rd3], {%f4, %f5, %f6, %f7};
    exit;
}
"""


@pytest.mark.parametrize("engine", ENGINES)
def test_a_texture_of_the_old_texture_space(engine: str) -> None:
    out = np.zeros((4, 4), np.float32)
    ptxgraft.load(OLD).kernel("k", engine=engine).launch(1, 4, [out], references={"shade": ptxgraft.Texture(TEXELS)})
    np.testing.assert_array_equal(out, TEXELS[0, :4])


@pytest.mark.parametrize("engine", ENGINES)
def test_a_reference_that_is_a_parameter(engine: str) -> None:
    text = KERNEL.format(operation=FETCH.replace("[shade,", "[given,"), mode="").replace(
        "k(.param .u64 at", "k(.param .texref given, .param .u64 at"
    )
    out = np.zeros((len(AT), 4), np.uint32)
    texture = ptxgraft.Texture(TEXELS, filter="linear")
    ptxgraft.load(text).kernel("k", engine=engine).launch(1, len(AT), [texture, AT, out])
    np.testing.assert_array_equal(out, by_handle(texture, engine))
