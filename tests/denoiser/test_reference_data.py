"""The shipped workload: what ptxgraft.data promises, and that its launches fit the PTX's parameter lists."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from ptxgraft import data
from ptxgraft.errors import SourceError, UsageError

SIZES = {"u64": 8, "u32": 4, "f32": 4}


def parameters(layer: str) -> tuple[dict[int, str], int]:
    """Offset -> type of the entry's parameters, and the size of the block."""
    text = data.ptx(layer).decode()
    declared = text[text.index(f".entry {layer}(") :].split(")", 1)[0]
    offsets, at = {}, 0
    for align, kind, count in re.findall(r"\.param (?:\.align (\d+) )?\.(\w+) \w+(?:\[(\d+)\])?", declared):
        size = int(count) if count else SIZES[kind]
        at = -(-at // int(align or size)) * int(align or size)
        offsets[at] = f"{kind}[{count}]" if count else kind
        at += size
    return offsets, at


def test_enc4_has_its_weight_pointer_at_40():
    offsets, size = parameters("enc4")
    assert (size, offsets[40]) == (56, "u64")
    assert len(data.launch_arguments("enc4").args) == 56


def test_dec0_takes_one_block_by_value():
    assert parameters("dec0") == ({0: "b8[152]"}, 152)
    assert len(data.launch_arguments("dec0").args) == 152
    assert "[dec0_param_0+40]" in data.ptx("dec0").decode()


@pytest.mark.parametrize("layer", data.LAYERS)
def test_a_launch_leaves_room_for_each_handle(layer: str):
    launch = data.launch_arguments(layer)
    resources = {**launch.buffers, **launch.textures, **launch.surfaces}
    assert launch.entry == layer and set(launch.names) == set(resources)
    for offset in resources:
        assert launch.args[offset : offset + 8] == bytes(8)
    assert all(not surface.any() for surface in launch.surfaces.values())
    assert np.array_equal(launch.buffers[40], data.weights(layer))


def test_grids_cover_frames_that_are_no_multiple_of_a_block():
    enc4, dec0 = data.launch_arguments("enc4"), data.launch_arguments("dec0")
    assert (enc4.grid, enc4.block) == ((3, 2, 1), (32, 1, 4))
    assert (dec0.grid, dec0.block) == ((5, 6, 1), (32, 1, 1))
    tokens_y, tokens_x = (n // 4 for n in enc4.textures[0].array.shape[:2])
    assert tokens_x % 8 and tokens_y % 8
    height, width = dec0.textures[8].array.shape[:2]
    assert width % 32 and height % 16


def test_the_frame_is_finite_f16_rgba():
    for plane in data.frame().values():
        assert plane.dtype == np.float16 and plane.shape[2] == 4 and np.isfinite(plane).all()
        assert plane.std() > 0.1


def test_what_is_returned_may_be_written_into():
    data.weights("enc4")[:] = 0
    data.launch_arguments("enc4").surfaces[8][:] = 1
    assert data.weights("enc4").any() and not data.launch_arguments("enc4").surfaces[8].any()


def test_no_weight_is_nan():
    """0x7F and 0xFF are e4m3's NaNs; f16 biases may hold such bytes, so the tensors are looked at before packing."""
    from weight_image import slices, to_e4m3

    for parts in slices().values():
        for piece in parts:
            for name, tensor in piece.tensors.items():
                assert np.isfinite(tensor).all(), name
                assert not (to_e4m3(tensor) & 0x7F == 0x7F).any(), name


def test_everything_shipped_is_small():
    folder = Path(data.__file__).parent
    assert sum(file.stat().st_size for file in folder.iterdir() if file.suffix in (".xz", ".npz")) < 2_000_000


def test_an_unknown_layer_is_named_with_the_known_ones():
    for call in (data.ptx, data.weights, data.launch_arguments):
        with pytest.raises(UsageError, match=r"no reference layer 'enc9'; the layers are enc4, dec0"):
            call("enc9")


def test_a_damaged_or_missing_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    shutil.copy(Path(data.__file__).parent / "enc4.ptx.xz", tmp_path)
    packed = (tmp_path / "enc4.ptx.xz").read_bytes()
    (tmp_path / "enc4.ptx.xz").write_bytes(packed[: len(packed) // 2])
    (tmp_path / "weights.npz").write_bytes(b"PK\3\4 nonsense")
    monkeypatch.setattr(data, "_HERE", tmp_path)
    with pytest.raises(SourceError, match=r"enc4\.ptx\.xz: not a readable xz file"):
        data.ptx("enc4")
    with pytest.raises(SourceError, match=r"weights\.npz: not a readable archive"):
        data.weights("enc4")
    with pytest.raises(SourceError, match=r"frame\.npz: No such file"):
        data.frame()
