"""A capture says what ran its launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import ptxgraft
from ptxgraft import capture
from ptxgraft.run import capture_of, execute, snapshot

PTX = """.version 7.0
.target sm_70
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 n, .param .s32 shift, .param .f32 a, .param .align 4 .b8 box[12], .param .u64 tail)
{ .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [out]; ld.param.u32 %r1, [n]; st.global.u32 [%rd1], %r1; ret; }
"""


@pytest.fixture(scope="module")
def launch() -> capture.Launch:
    values = [np.zeros(4, np.uint32), 7, -3, 0.5, bytes(range(12)), 1 << 40]
    prepared = ptxgraft.load(PTX).kernel("k").prepare(1, 1, values)
    before = snapshot(prepared.launch)
    return capture_of(prepared.launch, before, 3, execute(prepared.launch, engine="numpy", profile="sm_89"))


def test_the_executor_goes_with_the_launch(launch, tmp_path):
    assert (launch.engine, launch.profile) == ("numpy", "sm_89")
    capture.write([launch], tmp_path / "one.ptxcap")
    again = capture.open_capture(tmp_path / "one.ptxcap").launch(3)
    assert (again.engine, again.profile) == ("numpy", "sm_89")


def test_a_capture_that_does_not_say_is_read(launch, tmp_path):
    capture.write([replace(launch, engine="", profile="")], tmp_path / "one.ptxcap")
    assert '"engine"' not in (tmp_path / "one.ptxcap" / "capture.json").read_text()
    assert capture.open_capture(tmp_path / "one.ptxcap").launch(3).engine == ""


def test_the_directory_form_says_that_it_leaves_it_out(launch, tmp_path):
    notes = capture.write_directory([launch], tmp_path / "dir")
    assert "what ran a launch is left out: the directory form does not hold it" in notes
