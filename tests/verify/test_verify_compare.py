"""Comparison: exact by default, honest about what it rests on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.capture import FORMATS
from ptxgraft.errors import UsageError
from ptxgraft.verify import Output, compare, describe

HALF = next(code for code, row in FORMATS.items() if row.dtype == np.float16)
BYTE = next(code for code, row in FORMATS.items() if row.dtype == np.uint8)


def memory(values, name: str = "allocation 0") -> Output:
    return Output(name, "memory", 0x1000, np.ascontiguousarray(values).reshape(-1).view(np.uint8).copy())


def surface(values: np.ndarray, code: int, name: str = "surface at argument 8") -> Output:
    height, width, channels = values.shape
    return Output(name, "surface", 1, values.reshape(-1).view(np.uint8).copy(), (width, height, channels, code))


def test_same_says_on_how_many_bytes():
    verdict = compare([memory([1, 2])], [memory([1, 2])])
    assert (verdict.verdict, verdict.bytes_compared, verdict.bytes_differing, verdict.exit_code) == ("same", 16, 0, 0)
    assert str(verdict) == "same: 16 bytes compared, 0 differing"


@given(st.binary(min_size=1, max_size=64), st.data())
def test_every_differing_byte_counts_and_the_first_is_shown(data, draw):
    wrong = draw.draw(st.sets(st.integers(0, len(data) - 1)))
    other = bytearray(data)
    for place in wrong:
        other[place] ^= draw.draw(st.integers(1, 255))
    verdict = compare([memory(np.frombuffer(data, np.uint8))], [memory(np.frombuffer(bytes(other), np.uint8))])
    assert verdict.bytes_compared == len(data) and verdict.bytes_differing == len(wrong)
    if wrong:
        assert verdict.first is not None and verdict.first.offset == min(wrong)
        start = min(wrong) // 4 * 4
        assert verdict.first.expected == data[start : start + 4].hex() and verdict.first.found == bytes(other[start : start + 4]).hex()
    else:
        assert verdict.first is None


def test_sizes_that_disagree_are_not_comparable_even_where_the_rest_is_the_same():
    same = memory([5], "allocation 1")
    verdict = compare([same, memory([1, 2])], [same, memory([1, 2, 3])])
    assert (verdict.verdict, verdict.exit_code, verdict.bytes_compared) == ("not comparable", 2, 0)
    assert str(verdict) == "not comparable: allocation 0 has 16 bytes on one side and 24 on the other"


def test_an_output_on_one_side_alone_is_not_comparable():
    verdict = compare([memory([1]), memory([1], "allocation 5")], [memory([1])])
    assert str(verdict) == "not comparable: only the expected side has allocation 5"
    assert str(compare([memory([1])], [memory([1]), memory([1], "x")])) == "not comparable: only the judged side has x"


@pytest.mark.parametrize("outputs", [[], [memory(np.empty(0, np.uint8))]])
def test_nothing_compared_is_an_error(outputs):
    with pytest.raises(UsageError, match="nothing to compare"):
        compare(outputs, outputs)


def test_names_restrict_and_must_exist():
    one, two = memory([1]), memory([2], "allocation 1")
    wrong = memory([3], "allocation 1")
    assert compare([one, two], [one, wrong], names=["allocation 0"]).verdict == "same"
    with pytest.raises(UsageError, match="no output 'allocation 7'; the outputs are allocation 0, allocation 1"):
        compare([one, two], [one, wrong], names=["allocation 7"])


def test_nans_are_compared_as_bits():
    quiet, other = (np.array([bits], np.uint32).view(np.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert compare([memory(quiet)], [memory(quiet)]).verdict == "same"
    assert compare([memory(quiet)], [memory(other)]).bytes_differing == 1
    assert compare([memory(quiet)], [memory(quiet)], tolerance=1e-3).verdict == "same"
    assert compare([memory(quiet)], [memory(other)], tolerance=1e9).verdict == "differs"
    assert compare([memory(np.float32([1]))], [memory(quiet)], tolerance=1e9).verdict == "differs"


def test_zeros_of_both_signs_differ_unless_a_tolerance_is_given():
    assert compare([memory(np.float32([0.0]))], [memory(np.float32([-0.0]))]).verdict == "differs"
    assert compare([memory(np.float32([0.0, 1]))], [memory(np.float32([-0.0, 1]))], tolerance=0).verdict == "same"


def test_tolerance_larger_than_signal():
    expected = np.float32([4e-6, -3e-6, 2e-6])
    assert compare([memory(expected)], [memory(np.zeros(3, np.float32))]).verdict == "differs"
    verdict = compare([memory(expected)], [memory(np.zeros(3, np.float32))], tolerance=1e-2)
    assert verdict.verdict == "same" and verdict.tolerance == 1e-2 and "within a tolerance of 0.01 (buffers read as f32)" in str(verdict)
    assert verdict.warnings == [
        "allocation 0: the tolerance 0.01 is not below the largest expected value 4e-06; the comparison says nothing"
    ]
    assert compare([memory(expected)], [memory(np.zeros(3, np.float32))], tolerance=1e-6).verdict == "differs"
    assert compare([memory(np.float32([5]))], [memory(np.float32([5]))], tolerance=1e-2).warnings == []


def test_infinities_are_far_from_everything_but_themselves():
    inf = np.float32([np.inf, 1])
    assert compare([memory(inf)], [memory(inf)], tolerance=1).verdict == "same"
    for other in (-np.inf, np.finfo(np.float32).max, np.nan):
        assert compare([memory(inf)], [memory(np.float32([other, 1]))], tolerance=1).bytes_differing == 4


def test_a_tolerance_reads_buffers_as_asked_and_images_by_their_format():
    a, b = np.float16([[[1, 2, 3, 4]]]), np.float16([[[1, 2, 3.01, 4]]])
    assert compare([memory(a)], [memory(b)], tolerance=0.1, values="f16").verdict == "same"
    assert compare([surface(a, HALF)], [surface(b, HALF)], tolerance=0.1).verdict == "same"
    assert compare([surface(a, HALF)], [surface(b, HALF)], tolerance=0.001).bytes_differing == 2
    dark, darker = np.uint8([[[10, 20, 30, 40]]]), np.uint8([[[10, 21, 30, 40]]])
    assert compare([surface(dark, BYTE)], [surface(darker, BYTE)], tolerance=1.5 / 255).verdict == "same"
    assert compare([surface(dark, BYTE)], [surface(darker, BYTE)], tolerance=0.5 / 255).bytes_differing == 1


def test_bytes_behind_the_last_whole_value_are_compared_exactly():
    a = np.uint8([0, 0, 128, 63, 7])
    verdict = compare([memory(a)], [memory(np.uint8([0, 0, 128, 63, 8]))], tolerance=0.5)
    assert (verdict.bytes_compared, verdict.bytes_differing) == (5, 1)


@pytest.mark.parametrize("tolerance", [-1.0, float("nan"), float("inf")])
def test_a_tolerance_is_a_distance(tolerance):
    with pytest.raises(UsageError, match="is no distance"):
        compare([memory([1])], [memory([1])], tolerance=tolerance)


def test_values_must_be_known():
    with pytest.raises(UsageError, match="cannot be read as 'f8'; one of f16, f32"):
        compare([memory([1])], [memory([1])], tolerance=1, values="f8")


def test_elements_are_named():
    a = surface(np.zeros((3, 5, 4), np.float16), HALF)
    b = surface(np.zeros((3, 5, 4), np.float16), HALF)
    place = ((2 * 5 + 3) * 4 + 1) * 2
    b.data[place + 1] = 0x3C
    difference = describe(a, b, place + 1)
    assert (difference.element, difference.expected, difference.found) == ("texel x 3 y 2 channel 1", "0000", "003c")
    assert describe(memory([1]), memory([1]), 6).element == "word 1"
