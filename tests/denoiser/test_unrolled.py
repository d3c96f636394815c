"""The generated long layer: its sizes, that it computes, and that a cut of it assembles and computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import build
from ptxgraft import data
from ptxgraft.graft import FILL, Cut, Reading, assemble, cut, find_ptxas, probe_many, probe_stages
from ptxgraft.run import Texture, load
from ptxgraft.spec import spec
from ptxgraft.text import Document
from weight_image import unrolled_slice

NVCC = build.find_nvcc()
pytestmark = pytest.mark.skipif(NVCC is None, reason="no nvcc: install the dev extra")


@pytest.fixture(scope="module")
def layer() -> Document:
    assert NVCC is not None
    return Document.parse(build.unrolled(NVCC), "unrolled.ptx")


@pytest.fixture(scope="module")
def inline(layer: Document) -> Cut:
    return cut(layer, "unrolled")


def outputs(module: Document, *more: object) -> np.ndarray:
    """Two blocks on the shipped frame: f16 [block, lane, row tile and row, column]. ``more`` arguments are a probe's."""
    written = np.zeros((2, 32, 4), np.uint32)
    image = np.frombuffer(bytes(unrolled_slice().data), np.uint8).copy()
    plane = Texture(data.frame()["enc4_plane"])
    load(module.data.decode()).kernel("unrolled").launch((2,), (32,), [plane, written, image, 1.0, 1e-5, *more])
    return written.view(np.float16).reshape(2, 32, 4, 2)


def stages(target: Document | Cut) -> tuple[list[Reading], np.ndarray]:
    """Every stage, read from one build and one run; and the run's outputs."""
    made = probe_many(target, "unrolled", probe_stages(target, "unrolled"))
    buffer = np.full(made[0].buffer_bytes((2,), (32,)), FILL, np.uint8)
    written = outputs(made[0].document, buffer, 2)
    return [p.read(buffer, (2,), (32,)) for p in made], written


def test_it_is_as_long_as_a_vendors(layer: Document):
    assert len(layer.data.splitlines()) >= 52_000
    found = spec(layer, "unrolled")
    assert len(found.phases) == 62
    assert sum(p.mma for p in found.phases) == 1386
    assert layer.data.count(b"mma.sync") == 1386
    covered = sorted(r for p in found.phases for r in p.weight_ranges)
    assert covered[0][0] == 0
    assert covered[-1][1] == len(unrolled_slice().data) - 8  # the last lane's words of the head's padding


def test_a_slice_of_another_size_does_not_compile():
    assert NVCC is not None
    with pytest.raises(build.BuildError, match="disagree about a warp's slice"):
        build.compile_layer(NVCC, "unrolled", 64)


def test_it_computes_and_its_cut_the_same_at_every_stage(layer: Document, inline: Cut):
    expected = outputs(layer)
    assert np.isfinite(expected).all()
    assert len(np.unique(expected)) > expected.size // 2
    (mine, written), (theirs, grafted) = stages(layer), stages(inline)
    assert [r.probe.where for r in mine] == ["a", *(f"p{n}" for n in range(62)), "out"]
    for a, b in zip(mine, theirs, strict=True):
        assert a.stored.all()
        found = a.probe.diff(a, b)
        assert (found.differing, found.compared) == (0, 64 * len(a.bits)), str(found)
    head = np.stack(list(mine[-2].bits.values()), axis=-1)  # [block, warp, lane, register]: what the kernel writes
    assert head[:, 0].tobytes() == expected.tobytes() == written.tobytes() == grafted.tobytes()


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas: install the PyPI package nvidia-cuda-nvcc")
def test_its_cut_assembles(inline: Cut):
    result = assemble(inline.document)
    assert result.ok, result.log
