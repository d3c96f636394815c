"""``ptxgraft cut --body FILE.cu``: compiled and merged in one step."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Verb, contents

from ptxgraft.graft import find_nvcc, find_ptxas

needs_nvcc = pytest.mark.skipif(find_nvcc() is None or find_ptxas() is None, reason="no nvcc: install the PyPI package nvidia-cuda-nvcc")

PTX = """\
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
	.reg .b32 %r<5>;
	.reg .b64 %rd<3>;
	ld.param.u64 %rd1, [p];
	mov.u32 %r1, %tid.x;
	add.u32 %r2, %r1, 41;
	st.global.u32 [%rd1], %r2;
	ret;
}
"""


@pytest.fixture
def kernel(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(PTX)
    return path


@needs_nvcc
def test_a_body_in_cuda_is_one_step(kernel: Path, tmp_path: Path, verb: Verb):
    source = tmp_path / "body.cu"
    source.write_text('extern "C" __device__ unsigned k_region(unsigned x) { return x + ANSWER; }\n')
    arguments = ["cut", kernel, "--region", "10-10", "--body", source, "-o", tmp_path / "out", "--json"]
    ended = verb(*arguments, "--nvcc-flags", "-DANSWER=42 -fmad=false")
    assert ended.code == 0, ended.err
    assert ended.json["assembles"] is True
    text = Path(ended.json["files"]["ptx"]).read_text()
    assert "42;" in text
    assert "41;" not in text
    named = verb(*[a if a is not source else f"{source}:k_region" for a in arguments], "--nvcc-flags", "-DANSWER=42 -fmad=false")
    assert Path(named.json["files"]["ptx"]).read_text() == text


@needs_nvcc
def test_what_nvcc_refuses_is_shown_and_nothing_is_written(kernel: Path, tmp_path: Path, verb: Verb):
    source = tmp_path / "body.cu"
    source.write_text('extern "C" __device__ unsigned k_region(unsigned x) { return y; }\n')
    before = contents(tmp_path)
    ended = verb("cut", kernel, "--region", "10-10", "--body", source, "-o", tmp_path / "out")
    assert ended.code == 2
    assert f"nvcc refuses {source}" in ended.err
    assert 'identifier "y" is undefined' in ended.err
    assert contents(tmp_path) == before
