"""Launches recorded on an H200, replayed on the CPU: not one byte differs.

``captures/`` holds what ``benchmarks/device_record.py`` recorded there of the programs in ``benchmarks/recorded``, without the modules' machine code.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ptxgraft import capture
from ptxgraft.errors import KernelFault, UnsupportedError
from ptxgraft.verify import compare, recorded_outputs, replay

CAPTURES = sorted((Path(__file__).parent / "captures").glob("*.ptxcap"))
LAUNCHES = [(path, launch.seq, launch.kernel) for path in CAPTURES for launch in capture.open_capture(path).launches]


@pytest.mark.parametrize(("path", "seq", "kernel"), LAUNCHES, ids=[f"{p.stem}-{seq}-{kernel}" for p, seq, kernel in LAUNCHES])
def test_replay(path: Path, seq: int, kernel: str) -> None:
    launch = capture.open_capture(path).launch(seq)
    if kernel == "pointers":
        assert "look like pointers into allocations that are not recorded" in launch.notes[0]
        with pytest.raises(KernelFault, match="reads 4 bytes at"):
            replay(launch)
        return
    assert not launch.notes
    if launch.cluster is not None:
        with pytest.raises(UnsupportedError, match="clusters of 2 blocks"):
            replay(launch)
        return
    expected = recorded_outputs(launch)
    verdict = compare(expected, replay(launch, profile="sm_90").outputs, names=[o.name for o in expected])
    assert verdict.bytes_compared > 0 and verdict.bytes_differing == 0, verdict.first


def test_what_was_recorded_covers_what_a_launch_can_have() -> None:
    launches = [capture.open_capture(path).launch(seq) for path, seq, _ in LAUNCHES]
    assert {i.dimensions for launch in launches for i in launch.textures} == {1, 2, 3}
    assert any(launch.surfaces for launch in launches) and any(launch.variables for launch in launches)
    assert any(launch.cooperative for launch in launches) and any(launch.cluster for launch in launches)
    images = [i for launch in launches for i in launch.textures]
    assert any(i.layered for i in images) and any(i.mipmaps for i in images)
