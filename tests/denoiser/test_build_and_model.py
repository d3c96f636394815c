"""The build gives the shipped files again, and the kernels compute what the NumPy model says, by outputs recorded on a card."""

from __future__ import annotations

import io
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

import build
import reference
import scene
from ptxgraft import data
from weight_image import G, T, bell, channel, from_e4m3, image, pack_bias, pack_columns, pack_operand, slices, to_e4m3, uniform

NVCC = build.find_nvcc()
VERSION = build.nvcc_version(NVCC) if NVCC else "not found"
pinned = pytest.mark.skipif(VERSION != build.NVCC_VERSION, reason=f"nvcc {build.NVCC_VERSION} is wanted, it is {VERSION}")
# Written by the shipped PTX on one NVIDIA H200 (driver 580.159.04, 2026-11-30), the same in 21 runs; keys LAYER_OFFSET.
RECORDED = np.load(Path(__file__).parent / "h200_outputs.npz")


@pinned
@pytest.mark.parametrize("layer", data.LAYERS)
def test_recompiling_gives_the_shipped_ptx(layer: str):
    assert NVCC is not None
    assert build.compile_layer(NVCC, layer, len(slices()[layer][0].data)) == data.ptx(layer)


@pinned
def test_a_slice_of_another_size_does_not_compile():
    assert NVCC is not None
    with pytest.raises(build.BuildError, match="disagree about a warp's slice"):
        build.compile_layer(NVCC, "dec0", 64)


@pinned
@pytest.mark.parametrize(("warps", "pairs"), [(1, 2), (2, 1), (8, 1)])
def test_the_window_template_serves_other_widths(warps: int, pairs: int, tmp_path: Path):
    source = f"""#include "window.cuh"
    using Layer = denoiser::WindowLayer<{warps}, {pairs}>;
    extern "C" __global__ void layer(denoiser::WindowArguments p) {{
        __shared__ __align__(16) unsigned char staging[Layer::SharedBytes];
        denoiser::window_layer<Layer>(p, staging);
    }}"""
    (tmp_path / "layer.cu").write_text(source)
    assert NVCC is not None
    command = [NVCC, *build.FLAGS, f"-I{build.HERE}", f"-I{NVCC.parent.parent / 'include'}", "layer.cu", "-o", "layer.ptx"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    mma = (tmp_path / "layer.ptx").read_text().count("mma.sync.aligned.m16n8k32")
    # Stem 160; scores and attention 32 each; query, key, value, projection and merge 16 for each warp; two products an MLP pair.
    assert mma == 160 + 64 + (3 + 1 + 1) * 16 * warps + pairs * 2 * 16 * warps


def test_weights_and_frame_are_made_again_the_same():
    for layer, parts in slices().items():
        assert np.array_equal(image(parts), data.weights(layer))
    shipped = data.frame()
    made = scene.frame()
    assert list(made) == list(shipped)
    for name, plane in made.items():
        assert np.array_equal(plane.view(np.uint16), shipped[name].view(np.uint16)), name


def test_an_archive_has_the_same_bytes_each_time_and_reads_back():
    arrays = {"a": np.arange(6, dtype=np.float16).reshape(2, 3), "b": np.zeros(0, np.uint8)}
    packed = build.archive(arrays)
    assert packed == build.archive(arrays)
    with np.load(io.BytesIO(packed)) as archive:
        assert all(np.array_equal(archive[name], array) for name, array in arrays.items())


def test_e4m3_codes_round_trip_and_round_to_the_nearest():
    codes = np.array([c for c in range(256) if c & 0x7F != 0x7F], np.uint8)
    assert np.array_equal(to_e4m3(from_e4m3(codes)), codes)
    values = bell(1, 1000) * 2
    every = from_e4m3(codes)
    nearest = np.abs(every[None] - values[:, None]).min(1)
    assert np.allclose(np.abs(from_e4m3(to_e4m3(values)) - values), nearest)
    assert from_e4m3(to_e4m3(np.array([1e9, -1e9]))).tolist() == [448, -448]


def test_uniform_is_splitmix64():
    # First output of the generator whose state is 0: 0xE220A8397B1DCDAF (the published test value).
    assert uniform(0, 1)[0] == (0xE220A8397B1DCDAF >> 11) * 2.0**-53


def test_b_tiles_lie_as_the_manual_says():
    """PTX manual, m16n8k32, 8-bit B: column = lane / 4; row = 4 (lane % 4) + byte for word 0, 16 more for word 1."""
    matrix = from_e4m3(np.random.default_rng(5).integers(0, 127, (64, 32)).astype(np.uint8))
    packed = np.frombuffer(pack_columns(matrix), np.uint8).reshape(2, 2, 32, 4, 4)  # k, pair, lane, word, byte
    for k, n, lane, half, byte in np.ndindex(2, 4, 32, 2, 4):
        code = packed[k, n // 2, lane, 2 * (n % 2) + half, byte]
        row, column = 32 * k + 16 * half + 4 * (lane % 4) + byte, int(channel(n, lane // 4))
        assert from_e4m3(code) == matrix[row, column]


def test_c_operands_lie_as_the_manual_says():
    """PTX manual, m16n8 f16 C: word r holds row lane / 4 + 8r, columns 2 (lane % 4) and the next."""
    bias = np.arange(64, dtype=np.float16)
    packed = np.frombuffer(pack_bias(bias), np.float16).reshape(2, 4, 4, 2)
    matrix = np.arange(32 * 32, dtype=np.float16).reshape(32, 32)
    operand = np.frombuffer(pack_operand(matrix), np.float16).reshape(2, 2, 32, 2, 2, 2)
    for n, t, i in np.ndindex(8, 4, 2):
        assert packed[n // 4, t, n % 4, i] == bias[channel(n, 2 * t + i)]
    for m, n, lane, r, i in np.ndindex(2, 4, 32, 2, 2):
        assert operand[m, n // 2, lane, n % 2, r, i] == matrix[16 * m + G[lane] + 8 * r, 8 * n + 2 * T[lane] + i]


def test_channels_are_a_permutation_that_chains_accumulators_into_a_tiles():
    """Bytes 4t..4t+3 of an A word come from tiles 2h and 2h + 1 of the same lane."""
    columns = [[int(channel(n, c)) for c in range(8)] for n in range(4)]
    assert sorted(c for tile in columns for c in tile) == list(range(32))
    for half in (0, 1):
        for t in range(4):
            word = [columns[2 * half][2 * t], columns[2 * half][2 * t + 1], columns[2 * half + 1][2 * t], columns[2 * half + 1][2 * t + 1]]
            assert word == [16 * half + 4 * t + i for i in range(4)]


def close(got: np.ndarray, model: np.ndarray) -> float:
    """Correlation, after checking that nothing is NaN or infinite."""
    assert got.shape == model.shape and np.isfinite(got).all()
    return float(np.corrcoef(got.ravel().astype(np.float64), model.ravel())[0, 1])


def test_enc4_computes_what_the_model_says():
    model = reference.enc4(data.frame()["enc4_plane"])
    assert close(RECORDED["enc4_8"], model[8]) > 0.998
    assert close(from_e4m3(RECORDED["enc4_16"]), model[16]) > 0.998


def test_dec0_computes_what_the_model_says():
    frame = data.frame()
    colour = RECORDED["dec0_16"]
    assert close(colour[2:-2, 2:-2], reference.dec0(frame["dec0_features"], frame["dec0_skip"])) > 0.9999
    border = colour.copy()
    border[2:-2, 2:-2] = 0
    assert not border.any() and not RECORDED["dec0_24"][:2].any()


def test_activations_are_in_a_healthy_range():
    codes = RECORDED["enc4_16"]
    assert (codes & 0x7F >= 0x7E).mean() == 0 and (codes & 0x7F == 0).mean() < 0.01
    assert 0.5 < np.abs(RECORDED["enc4_8"].astype(np.float64)).std() < 2
    picture = RECORDED["dec0_24"][2:-2, 2:-2, :3]
    assert (picture == 255).mean() < 0.05 and picture.std() > 30


def test_the_readme_lists_every_part_of_the_weight_images():
    text = (build.HERE / "README.md").read_text()
    rows = {(name.strip(), int(at), int(size)) for name, at, size in re.findall(r"^\| ([\w ]+) \| (\d+) \| (\d+) \|$", text, re.M)}
    layers = slices()
    assert set(layers["enc4"][0].parts) <= rows
    quadrant = len(layers["dec0"][0].data) // 4
    assert {(name[2:], at - int(name[0]) * quadrant, size) for name, at, size in layers["dec0"][0].parts} <= rows
    assert all(f"{len(parts[0].data):,} bytes" in text for parts in layers.values()) and f"{quadrant:,} bytes" in text
