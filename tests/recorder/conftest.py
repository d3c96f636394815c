"""The fake CUDA that all tests of this folder share, and recording its program."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_cuda import Fake, fake_in

from ptxgraft import capture
from ptxgraft.run.recorder import Choice, Recording, record


@pytest.fixture(scope="session")
def fake(tmp_path_factory: pytest.TempPathFactory) -> Fake:
    """The compiled fake; skips without a C compiler."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc) on PATH")
    return fake_in(tmp_path_factory.mktemp("fake-cuda"))


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The library is compiled once for this session, with warnings as errors left to ``test_recorder_native``; nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PTXGRAFT_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture
def environment(fake: Fake, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fake:
    """The fake where a real CUDA would be looked for."""
    monkeypatch.setenv("CUDA_HOME", str(fake.home))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(fake.libraries))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    return fake


@pytest.fixture
def recorded(environment: Fake, tmp_path: Path) -> Callable[..., tuple[capture.Capture, Recording]]:
    """Records the program doing some commands."""

    def run(*commands: str, choice: Choice | None = None) -> tuple[capture.Capture, Recording]:
        target = tmp_path / "made.ptxcap"
        made = record([str(environment.program), *commands], target, choice)
        return capture.open_capture(target), made

    return run
