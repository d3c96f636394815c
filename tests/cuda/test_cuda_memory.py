"""Where a launch's memory is put: in ranges of addresses as the driver gives them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ptxgraft.run.cuda import memory

PAGE = 2 << 20
SPANS = st.lists(st.tuples(st.integers(1, 1 << 33), st.integers(0, 5 << 20)), min_size=1, max_size=12)


@given(SPANS)
def test_pages_hold_all_spans_and_do_not_touch(spans):
    pages = memory._pages(spans, PAGE)
    assert sorted(i for p in pages for i in p.numbers) == list(range(len(spans)))
    for p in pages:
        assert p.start % PAGE == 0 and p.end % PAGE == 0
        assert all(p.start <= spans[i][0] and sum(spans[i]) <= p.end for i in p.numbers)
    assert all(a.end <= b.start for a, b in pairwise(pages))
    groups = memory._neighbours(pages)
    assert [p for g in groups for p in g] == pages
    blocks = [(g[0].start // memory.BLOCK, -(-g[-1].end // memory.BLOCK)) for g in groups]
    assert all(a[1] <= b[0] for a, b in pairwise(blocks))


@given(st.binary(max_size=200), st.integers(0, 1 << 62), st.integers(0, 1 << 62))
def test_words_that_look_like_pointers_are_counted(data, base, size):
    array = np.frombuffer(data, np.uint8)
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data) - 7, 8)]
    assert memory.words_into(array, [(base, size)]) == sum(base <= w < base + max(size, 1) for w in words)


def test_what_cannot_be_mapped_is_given_back():
    """Memory runs out at the third mapping: nothing stays behind."""
    calls: list[tuple[str, int]] = []

    class Driver:
        class CUresult:
            CUDA_SUCCESS = 0

        CUdeviceptr = int

        def __getattr__(self, name):
            return lambda *a: calls.append((name, a[0])) or ((0, int(a[2])) if name == "cuMemAddressReserve" else (0,))

    class Device:
        driver = Driver()

    def map_(placement, address, size):
        if len(placement.mappings) == 2:
            raise MemoryError
        placement.mappings.append(memory.Mapping(address, size, object()))

    patch = pytest.MonkeyPatch()
    patch.setattr(memory, "_granularity", lambda device: PAGE)
    patch.setattr(memory, "_map", map_)
    with patch.context(), pytest.raises(MemoryError):
        memory.place(Device(), [(k << 40, 64) for k in (1, 2, 3, 4)])
    patch.undo()
    names = [name for name, _ in calls]
    assert names.count("cuMemAddressReserve") == names.count("cuMemAddressFree") == 3 and names.count("cuMemUnmap") == 2
