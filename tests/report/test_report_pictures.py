"""Pictures: their pixels, the range they stand for, and files that are whole."""

from __future__ import annotations

import os

import numpy as np
import pytest
from PIL import Image

from ptxgraft.errors import UsageError
from ptxgraft.report import difference_rgb, plane_rgb, png_bytes, save_png


def test_grey_planes_run_from_black_to_white():
    rgb, low, high = plane_rgb(np.linspace(-1, 3, 101, dtype=np.float32).reshape(1, 101, 1))
    assert rgb.shape == (1, 101, 3) and rgb.dtype == np.uint8
    assert low == pytest.approx(-0.96) and high == pytest.approx(2.96)
    assert rgb[0, 0].tolist() == [0, 0, 0] and abs(int(rgb[0, 50, 1]) - 128) <= 1 and rgb[0, 100].tolist() == [255, 255, 255]


def test_channels_are_shown_as_they_are():
    plane = np.zeros((2, 2, 4), np.float32)
    plane[0, 0] = (1, 0, 0, 9)
    plane[0, 1] = (0, 1, 0, 9)
    plane[1, 0] = (0, 0, 1, 9)
    rgb, low, high = plane_rgb(plane)
    assert (low, high) == (0.0, 1.0)  # the fourth channel is not shown and does not stretch the range
    assert rgb[0, 0].tolist() == [255, 0, 0] and rgb[0, 1].tolist() == [0, 255, 0] and rgb[1, 0].tolist() == [0, 0, 255]
    assert plane_rgb(plane[..., :2])[0][0, 1].tolist() == [0, 255, 0]


def test_what_is_no_number_is_black_and_does_not_stretch_the_range():
    plane = np.float32([np.nan, np.inf, -np.inf, 0, 10]).reshape(1, 5, 1)
    rgb, low, high = plane_rgb(plane)
    assert 0 <= low < high <= 10
    assert [rgb[0, i, 0] for i in range(5)] == [0, 255, 0, 0, 255]
    assert plane_rgb(np.full((1, 1, 1), np.nan, np.float32))[1:] == (0.0, 1.0)


def test_a_plane_of_one_value_has_a_range_all_the_same():
    rgb, low, high = plane_rgb(np.full((3, 4, 1), 7, np.float32))
    assert (low, high) == (7.0, 8.0) and not rgb.any()


def test_one_bright_pixel_does_not_darken_the_rest():
    plane = np.tile(np.linspace(0, 1, 100, dtype=np.float32), 100).reshape(100, 100, 1)
    plane[50, 50] = 1e6
    assert plane_rgb(plane)[2] == pytest.approx(1.0, abs=0.02)


def test_a_difference_is_grey_where_there_is_none_and_redder_the_more_bytes_differ():
    expected = np.zeros((2, 3, 4), np.uint8)
    found = expected.copy()
    found[0, 1, 0] = 1
    found[1, 2] = 9
    rgb = difference_rgb(expected.reshape(-1), found.reshape(-1), 3, 2)
    assert rgb.shape == (2, 3, 3)
    assert rgb[0, 1].tolist() == [255, 165, 0] and rgb[1, 2].tolist() == [255, 0, 0]
    assert (rgb == 40).all(axis=-1).sum() == 4


def test_small_pictures_are_enlarged_by_a_whole_factor(tmp_path):
    rgb = np.zeros((2, 3, 3), np.uint8)
    rgb[1, 2] = (10, 20, 30)
    save_png(tmp_path / "small.png", rgb)
    with Image.open(tmp_path / "small.png") as image:
        assert image.size == (3 * 107, 2 * 107)
        pixels = np.asarray(image)
    np.testing.assert_array_equal(pixels[53::107, 53::107], rgb)
    assert (pixels[107:, 214:] == rgb[1, 2]).all()


def test_large_and_tall_pictures_keep_their_size():
    for shape in ((10, 400, 3), (20000, 8, 3)):
        picture = np.zeros(shape, np.uint8)
        size = int.from_bytes(png_bytes(picture)[16:20], "big"), int.from_bytes(png_bytes(picture)[20:24], "big")
        assert size == (shape[1], shape[0])


def test_a_file_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    rgb = np.zeros((1, 1, 3), np.uint8)
    with pytest.raises(UsageError, match="there is no folder"):
        save_png(tmp_path / "none" / "x.png", rgb)
    save_png(tmp_path / "x.png", rgb)
    before = (tmp_path / "x.png").read_bytes()

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(UsageError, match="No space left on device"):
        save_png(tmp_path / "x.png", rgb + np.uint8(9))
    assert [p.name for p in tmp_path.iterdir()] == ["x.png"] and (tmp_path / "x.png").read_bytes() == before
