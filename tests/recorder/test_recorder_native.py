"""The library's own parts: it compiles without warnings, and its SHA-256 is everyone's."""

from __future__ import annotations

import ctypes
import hashlib
import subprocess
from pathlib import Path

import numpy as np
import pytest
from fake_cuda import Fake

from ptxgraft.run.recorder import build_library
from ptxgraft.run.recorder.building import FLAGS, LIBRARIES, SOURCES


def test_no_warnings_and_nothing_else_exported(fake: Fake, tmp_path: Path) -> None:
    target = tmp_path / "library.so"
    sources = [str(s) for s in sorted(SOURCES.glob("*.c"))]
    done = subprocess.run(
        ["cc", *FLAGS, "-Wall", "-Wextra", "-Werror", *sources, "-o", str(target), *LIBRARIES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    library = ctypes.CDLL(str(target))
    assert library.InitializeInjection and library.ptxgraft_pattern_fault
    for hidden in ("put", "cuCtxSynchronize", "sha256_hex"):
        with pytest.raises(AttributeError):
            getattr(library, hidden)


def test_the_library_is_compiled_once(fake: Fake) -> None:
    first = build_library()
    written = first.stat().st_mtime_ns
    assert build_library() == first and first.stat().st_mtime_ns == written


@pytest.mark.parametrize("options", [(), ("-DPLAIN_SHA256",)], ids=["native", "plain"])
def test_sha256(fake: Fake, tmp_path: Path, options: tuple[str, ...]) -> None:
    target = tmp_path / "sha256.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", *options, str(SOURCES / "sha256.c"), "-o", str(target), "-pthread"], check=True)
    digest = ctypes.CDLL(str(target)).sha256_hex
    digest.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    rng = np.random.default_rng(5)
    for length in [*range(0, 200), 4096, 100_003]:
        data, text = rng.bytes(length), ctypes.create_string_buffer(65)
        digest(data, length, text)
        assert text.value.decode() == hashlib.sha256(data).hexdigest(), length
