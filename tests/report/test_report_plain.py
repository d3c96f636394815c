"""Results as JSON values."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.report import plain
from ptxgraft.verify import Bisection, Difference, OutputResult, Verdict, Writer


@dataclass
class Inner:
    values: np.ndarray
    place: tuple[int, int] = (1, 2)


@dataclass
class Outer:
    inner: Inner
    path: Path
    data: bytes = b"\x01\xff"
    names: frozenset[str] = frozenset({"b", "a"})
    nothing: None = None
    table: dict = field(default_factory=dict)


def test_everything_becomes_plain():
    made = Outer(Inner(np.float32([1.5, np.nan])), Path("a/b"), table={3: np.int64(7), "x": np.bool_(True)})
    assert plain(made) == {
        "inner": {"values": [1.5, "nan"], "place": [1, 2]},
        "path": "a/b",
        "data": "01ff",
        "names": ["a", "b"],
        "nothing": None,
        "table": {"3": 7, "x": True},
    }


@given(st.lists(st.floats(width=32)))
def test_any_floats_make_a_valid_document(values):
    back = json.loads(json.dumps(plain(np.float32(values)), allow_nan=False))
    for value, found in zip(values, back, strict=True):
        assert found == value or float(found) == value or (value != value and found == "nan")


def test_results_carry_their_sentence():
    writer = Writer((1, 0, 0), 1, 5, 75, "st.global.u32 [%rd1], %r1", [2])
    first = Difference("allocation 2", 0, "word 0", "00", "01", writer, None, True)
    verdict = Verdict("differs", 4, 1, first, [OutputResult("allocation 2", 4, 1)])
    made = plain(verdict)
    assert made["text"] == str(verdict) and made["first"]["text"] == str(first) and made["first"]["writer"]["lane"] == 5
    assert made["outputs"] == [{"output": "allocation 2", "bytes_compared": 4, "bytes_differing": 1}]
    assert plain(Bisection(None, checked=["a"]))["text"] == "no stage differs (1 compared: a)"


def test_what_has_no_place_in_json_is_our_bug():
    with pytest.raises(AssertionError, match="object has no place in a JSON document"):
        plain({"a": [object()]})
