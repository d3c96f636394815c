"""The captures that the benchmark opens are what it says they are. No timing is asserted."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks import bench_captures
from ptxgraft.capture import open_capture

TOTAL = 3 * (1 << 20) * bench_captures.ALLOCATIONS


def test_both_forms_at_a_small_size() -> None:
    found = bench_captures.run(TOTAL, repeats=1)
    assert [row["form"] for row in found["captures"]] == list(bench_captures.FORMS)
    assert all(row["gib"] * (1 << 30) == TOTAL for row in found["captures"])


@pytest.mark.parametrize("form", list(bench_captures.FORMS))
def test_sizes_are_what_is_measured(form: str, tmp_path: Path) -> None:
    opened = open_capture(bench_captures.FORMS[form](tmp_path, TOTAL))
    assert len(opened.launches) == bench_captures.LAUNCHES and not opened.bad
    for launch in opened.launches:
        assert [a.before.size for a in launch.allocations] == [TOTAL // bench_captures.ALLOCATIONS] * bench_captures.ALLOCATIONS


def test_the_package_stores_every_chunk_once(tmp_path: Path) -> None:
    path = bench_captures.write_package(tmp_path, TOTAL)
    assert len(list((path / "blobs").iterdir())) == TOTAL // bench_captures.CHUNK_BYTES
    firsts = [bytes(a.before[:: bench_captures.CHUNK_BYTES]) for a in open_capture(path).launches[0].allocations]
    assert len(set(firsts)) == bench_captures.ALLOCATIONS


def test_numbered_contents_are_the_same_in_parts() -> None:
    contents = bench_captures.Numbered(2 * bench_captures.CHUNK_BYTES + 5, 299)
    whole = contents.load()
    assert whole.size == contents.size and bytes(whole[:3]) == b"\x2c\1\0" and bytes(whole[bench_captures.CHUNK_BYTES :][:2]) == b"\x2d\1"
    for start in (0, 1, bench_captures.CHUNK_BYTES - 2, 2 * bench_captures.CHUNK_BYTES):
        assert np.array_equal(contents.load(start, start + 9), whole[start : start + 9])
