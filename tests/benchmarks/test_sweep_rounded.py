"""The sweep's own C against the NumPy instance, and its verdicts against what they should be."""

from __future__ import annotations

import ctypes
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks import recording, sweep_rounded
from ptxgraft.lower.numpy_lanes import NumpyLanes


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler here")
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "sweep.c").write_text(sweep_rounded.source())
    subprocess.run([compiler, "-O1", "-w", "-shared", "-fPIC", folder / "sweep.c", "-o", folder / "sweep.so", "-lm"], check=True)
    return ctypes.CDLL(str(folder / "sweep.so"))


@pytest.mark.parametrize("name", sweep_rounded.FUNCTIONS)
def test_c_gives_the_bits_of_the_instances(library: ctypes.CDLL, name: str) -> None:
    x = np.random.default_rng(6).integers(0, 1 << 32, 1 << 15, dtype=np.uint32)
    got, verdict = np.zeros_like(x), np.zeros(len(x), np.int32)
    call = getattr(library, f"evaluate_{name}")
    call(*(ctypes.c_void_p(a.ctypes.data) for a in (x, got, verdict)), ctypes.c_long(len(x)))
    want = sweep_rounded.FUNCTIONS[name][0](NumpyLanes("manual"), x.reshape(-1, 32))
    np.testing.assert_array_equal(got, want.reshape(-1))
    assert not (verdict == 2).any()


def test_a_wrong_result_is_wrong(library: ctypes.CDLL, tmp_path: Path) -> None:
    """The verdict does not come from the function that is judged."""
    text = sweep_rounded.source().replace(
        "CODE double double_ex2(double x) { return exp2(x); }", "CODE double double_ex2(double x) { return exp2(x) * 1.001; }"
    )
    (tmp_path / "wrong.c").write_text(text)
    subprocess.run(
        [shutil.which("cc") or "gcc", "-O1", "-w", "-shared", "-fPIC", tmp_path / "wrong.c", "-o", tmp_path / "wrong.so", "-lm"], check=True
    )
    x = np.linspace(-10, 10, 512, dtype=np.float32).view(np.uint32)
    got, verdict = np.zeros_like(x), np.zeros(len(x), np.int32)
    ctypes.CDLL(str(tmp_path / "wrong.so")).evaluate_ex2(
        *(ctypes.c_void_p(a.ctypes.data) for a in (x, got, verdict)), ctypes.c_long(len(x))
    )
    assert (verdict == 2).all()


def test_the_record_is_complete() -> None:
    found = json.loads((recording.RESULTS / "sweep_rounded.json").read_text())["functions"]
    assert found.keys() == sweep_rounded.FUNCTIONS.keys()
    for counts in found.values():
        assert (counts["arguments"], counts["wrong"]) == (1 << 32, 0)
        assert (counts["warp_compared"], counts["warp_chunks_differing"]) == (1 << 32, 0)
        assert len(counts["close_arguments"]) == len(counts["close_results"]) == counts["close"]
