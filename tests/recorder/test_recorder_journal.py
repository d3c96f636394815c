"""Reading what the injected library wrote, wherever the program died."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import Fake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptxgraft.run.recorder.program as program
from ptxgraft.capture import write
from ptxgraft.run.recorder import record
from ptxgraft.run.recorder.journal import NOT_DONE, ChunkedContents, read_journals
from ptxgraft.run.recorder.pointers import Ranges, foreign_words


@pytest.fixture(scope="module")
def raw(fake: Fake, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What lies in the recorder's folder before it is converted: four launches, one of each kind of thing."""
    kept = tmp_path_factory.mktemp("raw") / "folder"

    def keep(folder: Path):
        shutil.copytree(folder, kept)
        return read_journals(folder)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDA_HOME", str(fake.home))
        patch.setenv("LD_LIBRARY_PATH", str(fake.libraries))
        patch.setattr(program, "read_journals", keep)
        record([str(fake.program), "fill", "shade", "count", "add", "graph"], kept.parent / "x.ptxcap")
    return kept


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.floats(0, 1))
def test_a_journal_may_end_anywhere(raw: Path, tmp_path_factory: pytest.TempPathFactory, cut: float) -> None:
    (journal,) = raw.glob("journal-*.jsonl")
    data = journal.read_bytes()
    at = int(cut * len(data))
    try:
        journal.write_bytes(data[:at])
        launches, seen = read_journals(raw)
        lines = data[:at].split(b"\n")[:-1]
        assert len(launches) - sum(b'"what": "launch"' in line for line in lines) in (0, 1)  # a last line may lack only its line end
        assert sum(NOT_DONE in x.notes for x in launches) <= 1
        assert all(NOT_DONE not in x.notes for x in launches[:-1])
        if launches:
            write(launches, tmp_path_factory.mktemp("cut") / "x.ptxcap")
        assert seen.processes == 1
    finally:
        journal.write_bytes(data)


@given(parts=st.lists(st.integers(0, 3 * (1 << 20) + 77), min_size=2, max_size=2))
def test_chunked_contents_in_parts(raw: Path, parts: list[int]) -> None:
    launches, _ = read_journals(raw)
    contents = launches[0].allocations[0].contents("before")
    assert isinstance(contents, ChunkedContents) and contents.size == 2 << 20
    start, stop = sorted(parts)
    assert np.array_equal(contents.load(start, stop), contents.load()[start:stop])


@given(
    words=st.lists(st.integers(0, 400), min_size=1, max_size=50),
    live=st.lists(st.tuples(st.integers(0, 380), st.integers(0, 20)), max_size=6, unique_by=lambda r: r[0]),
    own=st.tuples(st.integers(0, 380), st.integers(1, 40)),
)
def test_words_that_look_like_pointers(words: list[int], live: list[tuple[int, int]], own: tuple[int, int]) -> None:
    apart = [(b, min(n, after - b)) for (b, n), (after, _) in pairwise([*sorted(live), (1 << 20, 0)])]  # as allocations are
    data = np.array(words, "<u8").view(np.uint8)
    found = foreign_words(Memory(data), Ranges.of(apart, [own]))
    kept = [(b, n) for b, n in apart if not (b < own[0] + own[1] and own[0] < b + n)]
    wanted = [i for i, word in enumerate(words) if any(b <= word < b + n for b, n in kept)]
    assert (found is None) == (not wanted)
    if found is not None:
        assert (found.count, found.offset, found.word) == (len(wanted), 8 * wanted[0], words[wanted[0]])


class Memory:
    """Bytes as contents."""

    def __init__(self, data: np.ndarray) -> None:
        self.data, self.size = data, data.nbytes

    def load(self, start: int = 0, stop: int | None = None) -> np.ndarray:
        return self.data[start:stop]
