"""Image formats: codes and sizes as the driver's header has them, texels decoded and encoded exactly."""

from __future__ import annotations

import re
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.capture import FORMATS, decode, encode, image_bytes, image_format, texels
from ptxgraft.errors import UsageError


@pytest.mark.parametrize(("code", "bits_class", "channel_bytes"), [(1, 8, 1), (194, 8, 1), (200, 9, 1), (16, 16, 2), (32, 32, 4)])
def test_the_described_table(code: int, bits_class: int, channel_bytes: int) -> None:
    row = FORMATS[code]
    assert (row.bits_class, row.channel_bytes) == (bits_class, channel_bytes)


def test_codes_and_names_are_those_of_the_header() -> None:
    spec = find_spec("nvidia")
    roots = list(spec.submodule_search_locations or []) if spec else []
    header = next((path for root in roots for path in Path(root).rglob("include/cuda.h")), None)
    if header is None:
        pytest.skip("cuda.h is not installed")
    defined = {
        int(value, 16): name for name, value in re.findall(r"CU_AD_FORMAT_(\w+)\s*=\s*(0x[0-9a-fA-F]+)", header.read_text(errors="replace"))
    }
    assert {code: row.name for code, row in FORMATS.items()} == {code: defined[code] for code in FORMATS}
    assert {code for code in range(192, 206) if code in defined} == {code for code in range(192, 206) if code in FORMATS}


def test_unknown_codes_are_not_guessed_at() -> None:
    assert image_format(204) is None and image_bytes(2, 2, 4, 205) is None
    with pytest.raises(UsageError, match="image format 176 is unknown"):
        decode(np.zeros(4, np.uint8), 2, 2, 1, 176)


@pytest.mark.parametrize("code", [code for code, row in FORMATS.items() if row.channel_bytes <= 2])
def test_every_value_of_the_small_formats(code: int) -> None:
    row = FORMATS[code]
    values = np.arange(1 << (8 * row.channel_bytes), dtype=f"<u{row.channel_bytes}").view(row.dtype)
    decoded = decode(values.view(np.uint8), len(values) // 256, 256, 1, code)
    assert decoded.dtype == np.float32 and decoded.shape == (256, len(values) // 256, 1)
    if row.meaning == "float":
        assert np.array_equal(decoded.reshape(-1), values.astype(np.float32), equal_nan=True)
    else:
        top = np.iinfo(row.dtype).max
        # Nearest float32 to the exact quotient: no neighbour of it may be closer.
        for value, got in list(zip(values.tolist(), decoded.reshape(-1), strict=True))[:: max(1, len(values) // 500)]:
            exact = max(Fraction(value, int(top)), Fraction(-1))
            distance = abs(Fraction(float(got)) - exact)
            for other in (np.nextafter(got, np.float32(-9)), np.nextafter(got, np.float32(9))):
                assert distance <= abs(Fraction(float(other)) - exact)
    finite = ~np.isnan(decoded.reshape(-1))
    back = encode(decoded, code).view(row.dtype)
    expected = np.maximum(values, -np.iinfo(row.dtype).max) if row.meaning == "snorm" else values
    assert np.array_equal(back[finite], expected[finite])


def test_texels_keep_every_bit_and_the_order() -> None:
    data = np.arange(2 * 3 * 4 * 4, dtype=np.uint8)
    assert texels(data, 3, 2, 4, 32).view(np.uint8).reshape(-1).tolist() == data.tolist()
    assert texels(np.arange(12, dtype="<u2").view(np.uint8), 3, 2, 2, 2)[1, 2].tolist() == [10, 11]


def test_the_size_must_be_exact() -> None:
    for size in (0, 15, 17):
        with pytest.raises(UsageError, match=f"has 16 bytes, not {size}"):
            texels(np.zeros(size, np.uint8), 2, 2, 1, 32)


def test_encode_clamps_and_rounds_to_even() -> None:
    values = np.array([-1, 2, np.nan, np.inf, 0.5 / 255, 1.5 / 255, 0.5]).reshape(1, 7, 1)
    assert encode(values, 1).tolist() == [0, 255, 0, 255, 0, 2, 128]
    assert encode(values, 8).view(np.int8)[:4].tolist() == [-127, 127, 0, 127]
    assert encode(np.array([[[-5.0], [2.5], [1e20]]]), 3).view(np.uint32).tolist() == [0, 2, 2**32 - 1]
    assert encode(np.array([[[-5e20], [2.5], [1e20]]]), 10).view(np.int32).tolist() == [-(2**31), 2, 2**31 - 1]
    with pytest.raises(UsageError, match=r"\[height, width, channels\]"):
        encode(np.zeros(3), 1)


@given(st.lists(st.floats(width=32), min_size=1, max_size=8))
def test_float_is_kept_bit_for_bit(values: list[float]) -> None:
    array = np.array(values, np.float32).reshape(1, -1, 1)
    assert decode(encode(array, 32), len(values), 1, 1, 32).tobytes() == array.tobytes()
