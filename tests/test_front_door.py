"""The Python API: what ``import ptxgraft`` offers, on the examples that its documentation shows."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptxgraft
from ptxgraft import capture
from ptxgraft.errors import KernelFault, SourceError, UnsupportedError, UsageError
from ptxgraft.run import capture_of, execute, snapshot

LAYER = Path(__file__).parent / "verify" / "layer.ptx"

SAXPY = (Path(__file__).parent.parent / "examples" / "saxpy.ptx").read_text()

COPY = """.version 7.0
.target sm_70
.address_size 64
.visible .entry copy(.param .u64 source, .param .u64 target, .param .u32 width)
{
	.reg .b32 %r<6>;
	.reg .f32 %f<7>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [source];
	ld.param.u64 %rd2, [target];
	mov.u32 %r1, %tid.x;
	mov.u32 %r2, %tid.y;
	cvt.rn.f32.u32 %f5, %r1;
	cvt.rn.f32.u32 %f6, %r2;
	add.f32 %f5, %f5, 0f3F000000;
	add.f32 %f6, %f6, 0f3F000000;
	tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}];
	shl.b32 %r3, %r1, 2;
	sust.b.2d.b32.trap [%rd2, {%r3, %r2}], {%f2};
	ret;
}
"""


@pytest.fixture(params=["warp", "numpy"])
def engine(request) -> str:
    return request.param


def test_saxpy_in_two_lines(tmp_path, engine):
    path = tmp_path / "saxpy.ptx"
    path.write_text(SAXPY)
    n = 1000
    x, y = np.arange(n, dtype=np.float32), np.full(n, 0.25, np.float32)
    for source in (path, str(path), SAXPY, SAXPY.encode()):
        y[:] = 0.25
        kernel = ptxgraft.load(source).kernel("saxpy", engine=engine)
        kernel.launch(grid=(1024,), block=(256,), args=[n, 2.0, x, y])
        np.testing.assert_array_equal(y, x * 2 + np.float32(0.25))


def test_numbers_become_the_parameters_type(engine):
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    kernel = ptxgraft.load(SAXPY).kernel("saxpy", engine=engine)
    kernel.launch(1, 4, [np.int64(4), 3, x, y])
    assert y.tolist() == [3.0] * 4
    kernel.launch(1, 4, [b"\x02\0\0\0", np.float64(0.5), x, y])
    assert y.tolist() == [3.5, 3.5, 3.0, 3.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([1, 2.0], r"saxpy takes 4 arguments, not 2; its parameters: n \(u32\), a \(f32\), x \(u64\), y \(u64\)"),
        ([-1, 2.0, 0, 0], "parameter n is u32; int does not fit: -1 is out of range"),
        ([1.5, 2.0, 0, 0], "1.5 is no whole number"),
        ([1, "two", 0, 0], "parameter a is f32; str does not fit: give a number, an array, bytes, a Texture or a Surface"),
        ([1, np.zeros(3), 0, 0], "a pointer or handle takes 8 bytes"),
        ([1, 2.0, b"123", 0], "bytes does not fit: 3 bytes for 8"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_by_name(arguments, message):
    with pytest.raises(UsageError, match=message):
        ptxgraft.load(SAXPY).kernel("saxpy").launch(1, 32, arguments)


def test_textures_and_surfaces_as_arguments(engine):
    picture = np.random.default_rng(1).random((8, 16, 4), np.float32)
    target = np.zeros((8, 16, 1), np.float32)
    surface = ptxgraft.Surface(target)
    texture = ptxgraft.Texture(picture, filter="point", address="clamp", normalized=False)
    ptxgraft.load(COPY).kernel("copy", engine=engine).launch(1, (16, 8), [texture, surface, 16])
    np.testing.assert_array_equal(surface.array[..., 0], picture[..., 1])
    np.testing.assert_array_equal(target, surface.array)  # the same memory: what was stored is in the array that was given


def test_a_texture_filters_and_wraps_as_told(engine):
    row = np.float32([0, 1, 2, 3]).reshape(1, 4, 1)
    for address, expected in (("clamp", [0, 1, 2, 3, 3, 3]), ("border", [0, 1, 2, 3, 0, 0])):
        two = np.concatenate([row, row], axis=2)  # the kernel copies the second channel
        surface = ptxgraft.Surface(np.zeros((1, 6, 1), np.float32))
        ptxgraft.load(COPY).kernel("copy", engine=engine).launch(1, (6, 1), [ptxgraft.Texture(two, address=address), surface, 6])
        assert surface.array.reshape(-1).tolist() == expected
    with pytest.raises(UsageError, match="wrap and mirror need normalised coordinates"):
        ptxgraft.Texture(row, address="wrap")


def test_a_fault_leaves_the_process_and_names_the_lane(engine):
    x = np.ones(8, np.float32)
    with pytest.raises(KernelFault, match=r"<ptx>:23:2: reads 4 bytes at .* block \(0, 0, 0\), warp 0, lane 8|lane 8"):
        ptxgraft.load(SAXPY).kernel("saxpy", engine=engine).launch(1, 32, [32, 1.0, x, x.copy()])


def test_what_is_not_there_is_said():
    module = ptxgraft.load(SAXPY)
    assert module.entries == ["saxpy"]
    for call, error, message in (
        (lambda: module.kernel("saxp"), UsageError, "no entry 'saxp'; did you mean 'saxpy'"),
        (lambda: module.kernel("saxpy", engine="gpu"), UsageError, "engine 'gpu' is unknown"),
        (lambda: module.kernel("saxpy", profile="sm_1"), UsageError, "profile 'sm_1' is unknown"),
        (lambda: module.kernel("saxpy", on="moon"), UsageError, "place 'moon' is unknown"),
        (lambda: module.kernel("saxpy", on="hip"), UnsupportedError, "cannot be launched on 'hip' yet"),
        (lambda: ptxgraft.load("nothing.ptx"), SourceError, r"nothing\.ptx: no such file"),
        (lambda: ptxgraft.load(b""), SourceError, "empty"),
        (lambda: ptxgraft.load("one line\nthat is no PTX\n"), SourceError, "expected"),
    ):
        with pytest.raises(error, match=message):
            call()


@pytest.fixture(scope="module")
def launch() -> capture.Launch:
    random = np.random.default_rng(5)
    arrays = [
        random.standard_normal((4, 32, 8)).astype(np.float16),
        random.standard_normal(1280).astype(np.float16),
        np.zeros(512, np.float16),
    ]
    prepared = ptxgraft.load(LAYER).kernel("layer").prepare(2, (32, 2), [*arrays, ptxgraft.Surface(np.zeros((4, 32, 4), np.float16)), 3])
    before = snapshot(prepared.launch)
    execute(prepared.launch, engine="numpy")
    return capture_of(prepared.launch, before)


def test_spec_takes_a_path_bytes_or_a_document():
    made = ptxgraft.spec(LAYER, "layer", block=(32, 2, 1))
    assert made.entry == "layer" and len(made.phases) == 3
    assert ptxgraft.spec(str(LAYER)).phases[0].mma == 2
    document = ptxgraft.Document.read(LAYER)
    assert ptxgraft.spec(document, block=(32, 2, 1)) == made
    assert ptxgraft.spec(LAYER.read_bytes()).region == made.region
    with pytest.raises(UsageError, match="no entry 'lay'"):
        ptxgraft.spec(LAYER, "lay")
    with pytest.raises(UsageError, match="defines 2 entries; name one of them: a, b"):
        ptxgraft.spec(b".version 7.0\n.target sm_70\n.entry a() { ret; }\n.entry b() { ret; }\n")


def test_cut_verify_and_bisect(launch):
    document = ptxgraft.Document.read(LAYER)
    made = ptxgraft.cut(document, "layer", style="mirror", body="identity", block=(32, 2, 1))
    assert ptxgraft.verify(launch, made).verdict == "same" and ptxgraft.verify(launch, made.document, document).bytes_compared == 6656
    assert ptxgraft.verify(launch, made, engine="numpy", tolerance=0.5, values="f16").tolerance == 0.5
    assert ptxgraft.bisect(launch, made, engine="numpy").stage is None
    wrong = ptxgraft.Document.parse(document.text.replace("[%rd10+1024]", "[%rd10+1020]"))
    assert ptxgraft.bisect(launch, wrong, document, engine="numpy").stage == "p2"


def test_probe_and_replay(launch):
    document = ptxgraft.Document.read(LAYER)
    made = ptxgraft.probe(document, "layer", "p2")
    assert [name for name, _ in made.registers] == ["%r42", "%r43"]
    ran = ptxgraft.replay(launch, engine="numpy")
    np.testing.assert_array_equal(ran.outputs[2].data, launch.after(2))


def test_open_capture_and_bind(launch, tmp_path):
    capture.write([launch], tmp_path / "x.ptxcap")
    opened = ptxgraft.open_capture(tmp_path / "x.ptxcap")
    assert opened.kernels() == ["layer"]
    assert ptxgraft.bind(ptxgraft.Document.read(LAYER), "layer").name == "layer"


def test_every_public_name_is_there_and_no_other():
    assert set(ptxgraft.__all__) <= set(dir(ptxgraft))
    for name in ptxgraft.__all__:
        assert callable(getattr(ptxgraft, name)), name
    with pytest.raises(AttributeError, match="has no attribute 'explode'"):
        _ = ptxgraft.explode  # pyright: ignore[reportAttributeAccessIssue]


def test_spec_and_verify_stay_packages_too():
    assert importlib.import_module("ptxgraft.spec") is ptxgraft.spec
    assert importlib.import_module("ptxgraft.verify").Verdict is not None


def test_importing_it_is_light():
    """The front door alone loads neither the compiler nor the table of instructions."""
    said = subprocess.run(
        [sys.executable, "-c", "import sys, ptxgraft; print([m for m in ('llvmlite', 'numpy', 'rich', 'ptxgraft.isa') if m in sys.modules])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert said.stdout == "[]\n"
