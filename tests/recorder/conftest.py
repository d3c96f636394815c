"""A CUDA of our own for these tests: driver, CUPTI and a program, compiled by the system's C compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from ptxgraft import capture
from ptxgraft.run.recorder import Choice, Recording, record

NATIVE = Path(__file__).parent / "native"


@dataclass(frozen=True, slots=True)
class Fake:
    """``program`` takes commands (``native/program.c``); ``home`` is a CUDA_HOME with our CUPTI; ``libraries`` holds our driver."""

    program: Path
    home: Path
    libraries: Path

    def build(self, name: str, *options: str) -> None:
        """Compile ``NAME.c`` into its place."""
        targets = {"driver": self.libraries / "libcuda.so.1", "cupti": self.home / "lib64" / "libcupti.so", "program": self.program}
        target = targets[name]
        target.parent.mkdir(parents=True, exist_ok=True)
        shared = (
            [] if name == "program" else ["-shared", "-fPIC", f"-Wl,-soname,{'libcuda.so.1' if name == 'driver' else 'libfakecupti.so'}"]
        )
        needs = [] if name == "driver" else [str(self.libraries / "libcuda.so.1")]
        command = [
            "cc",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            *options,
            *shared,
            str(NATIVE / f"{name}.c"),
            "-o",
            str(target),
            *needs,
            "-pthread",
            "-ldl",
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


def fake_in(folder: Path, *driver_options: str) -> Fake:
    """Compile all three into ``folder``."""
    made = Fake(folder / "program", folder / "home", folder / "libraries")
    made.build("driver", *driver_options)
    made.build("cupti")
    made.build("program")
    return made


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
