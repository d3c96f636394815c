"""Differences that the fuzzer found, as they are settled: both engines give what is right, whatever a compiler makes of it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.fuzz_cases import keep, launch_of, warp_of
from benchmarks.fuzz_kernels import program_of

from benchmarks import fuzz_device
from ptxgraft.run import execute

CASES = sorted(Path(__file__).parents[1].joinpath("fuzz_cases").glob("*.json"))


@pytest.mark.parametrize("engine", ["numpy", "warp"])
@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_a_case_stays_settled(path: Path, engine: str) -> None:
    launch, right = launch_of(json.loads(path.read_text()))
    execute(launch, engine=engine)
    got = launch.allocations[1].data.view(np.uint64).reshape(right.shape)
    assert np.array_equal(got, right)


def test_there_are_cases() -> None:
    assert len(CASES) > 30 and sum(p.stat().st_size for p in CASES) < 400_000


@pytest.mark.parametrize("kind", ["chains", "texture", "memory"])
def test_what_is_kept_runs_again_without_the_generator(kind: str) -> None:
    kernel = fuzz_device.make(4, kind, 2, 1024).only([0])
    small = warp_of(kernel, 700)
    assert np.array_equal(small.inputs[:, :32], kernel.inputs[:, 672:704])
    launch, _ = launch_of(keep(small, np.zeros((small.words, 256), np.uint64), "a trial"))
    execute(launch, engine="numpy")
    whole = kernel.launch(program_of(kernel.text()[0]))
    execute(whole, engine="numpy")
    assert np.array_equal(launch.allocations[1].data.view(np.uint64).reshape(small.words, 256)[:, :32], kernel.results(whole)[:, 672:704])
