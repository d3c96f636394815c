"""A GPU: the fake driver of this folder, or, for tests marked ``device``, the one of this machine."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ptxgraft import capture
from ptxgraft.run import cuda

sys.path.insert(0, str(Path(__file__).parents[1] / "verify"))
small_layer = importlib.import_module("small_layer")

FAKE = Path(__file__).parent / "fake_driver"


class FakeGpu:
    """``behave`` chooses what the driver of the next launches does, in the words of ``FAKE_CUDA``."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.patch = patch
        self.behave("")

    def behave(self, words: str) -> None:
        cuda.close_all()  # a child that runs has its behaviour already
        self.patch.setenv("FAKE_CUDA", words)


@contextmanager
def driver() -> Iterator[pytest.MonkeyPatch]:
    """The fake driver in place, without children from before or behind."""
    # Looking for the real package, other tests may have met this very folder under the name `cuda`.
    before = {n: sys.modules.pop(n) for n in list(sys.modules) if n.split(".")[0] == "cuda"}
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FAKE))
        patch.setenv("FAKE_CUDA", "")
        cuda.close_all()
        yield patch
        cuda.close_all()
    for name in [n for n in sys.modules if n.split(".")[0] == "cuda"]:
        del sys.modules[name]
    sys.modules.update(before)


@pytest.fixture
def fake() -> Iterator[FakeGpu]:
    """The fake driver, and a choice of its behaviour."""
    with driver() as patch:
        yield FakeGpu(patch)


@pytest.fixture(scope="module")
def fake_for_all() -> Iterator[None]:
    """The fake driver with one child for the tests of a module."""
    with driver():
        yield


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.device)])
def gpu(request: pytest.FixtureRequest) -> str:
    """A GPU to launch on, whichever: ``fake`` or ``real``."""
    if request.param == "fake":
        request.getfixturevalue("fake_for_all")
    else:
        cuda.close_all()
        available, why = cuda.availability()
        if not available:
            pytest.skip(why)
    return request.param


@pytest.fixture(scope="session")
def recorded() -> capture.Launch:
    """Launch 7 of the small layer of tests/verify, as recorded on the reference engine. Tests must not change it."""
    return small_layer.record(small_layer.layer_document())


@pytest.fixture(scope="session")
def package(recorded: capture.Launch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as a capture on disk."""
    path = tmp_path_factory.mktemp("capture") / "layer.ptxcap"
    capture.write([recorded], path)
    return path
