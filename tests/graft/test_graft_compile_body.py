"""Bodies in CUDA C++: compiled for the module's target beside their includes, merged, and refused in words."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from graft_kernels import MMA, document, run_mma

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.graft import assemble, compile_body, cut, find_nvcc
from ptxgraft.graft.compile_body import architecture

MODULE = document(MMA)
needs_nvcc = pytest.mark.skipif(find_nvcc() is None, reason="no nvcc: install the PyPI package nvidia-cuda-nvcc")


def line(text: str) -> int:
    found = [i for i, row in enumerate(MMA.splitlines(), 1) if text in row]
    assert len(found) == 1, text
    return found[0]


EPILOGUE = (line("mul.rn.f32 %f10"), line("cvt.rn.f16x2.f32 %r19"))
CODE = """\
    auto times = [&](Word x) { return __float_as_uint(__uint_as_float(x) * __uint_as_float(in.f9)); };
    out.r18 = half2(times(in.f6), times(in.f5));
    out.r19 = half2(times(in.f8), times(in.f7));
"""
HEADER = """\
#pragma once
static __device__ unsigned half2(unsigned high, unsigned low) {
    unsigned both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(__uint_as_float(high)), "f"(__uint_as_float(low)));
    return both;
}
"""


def filled(style: str, folder: Path) -> Path:
    """The skeleton of a cut with its gap filled in, and a header beside it."""
    text = cut(MODULE, "product", EPILOGUE, style=style).skeletons["cuda"]
    before, gap, after = text.partition("    // Your code:")
    assert gap
    path = folder / "body.cu"
    path.write_text('#include "half.cuh"\n#include <half.cuh>\n' + before + CODE + after.partition("\n")[2])
    (folder / "half.cuh").write_text(HEADER)
    return path


@needs_nvcc
@pytest.mark.parametrize("style", ["inline", "mirror"])
def test_a_skeleton_filled_in_is_compiled_and_merged(style: str, tmp_path: Path):
    body = compile_body(filled(style, tmp_path), MODULE, usual="product_region")
    made = cut(MODULE, "product", EPILOGUE, style=style, body=body)
    assert (run_mma(made.document) == run_mma(MODULE)).all()
    assert assemble(made.document).ok
    assert made.document.target == MODULE.target
    assert sorted(p.name for p in tmp_path.iterdir()) == ["body.cu", "half.cuh"]


@needs_nvcc
def test_it_is_compiled_for_the_modules_target_with_the_flags_given(tmp_path: Path):
    path = tmp_path / "body.cu"
    path.write_text(
        'extern "C" __device__ int f(int x) {\n#if __CUDA_ARCH__ == 800\n    return x + EXTRA;\n#else\n    return nothing;\n#endif\n}\n'
    )
    body = compile_body(path, MODULE, flags=["-DEXTRA=77"])
    assert body.name == "f"
    assert body.module is not None
    assert b"77" in body.module.data
    assert body.module.target == ("sm_80",)
    with pytest.raises(SourceError, match=r"nvcc refuses .*body\.cu:\n.*body\.cu\(3\): error: identifier \"EXTRA\" is undefined"):
        compile_body(path, MODULE)


@needs_nvcc
def test_the_function_is_found_by_name_or_is_the_only_one(tmp_path: Path):
    path = tmp_path / "body.cu"
    path.write_text('extern "C" __device__ int f(int x) { return x + 1; }\nextern "C" __device__ int g(int x) { return x + 2; }\n')
    assert compile_body(path, MODULE, "g").name == "g"
    assert compile_body(path, MODULE, usual="f").name == "f"
    with pytest.raises(UsageError, match=r"defines 2 functions; name one as .*body\.cu:NAME: f, g"):
        compile_body(path, MODULE)
    with pytest.raises(UsageError, match="does not define 'h'"):
        compile_body(path, MODULE, "h")
    path.write_text("static __device__ int f(int x) { return x + 1; }\n")
    with pytest.raises(UsageError, match="defines no function that a linker could find"):
        compile_body(path, MODULE)


def test_without_nvcc_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules["ptxgraft.graft.compile_body"], "find_nvcc", lambda: None)
    with pytest.raises(UsageError, match=r"no nvcc found to compile .*; install the PyPI package nvidia-cuda-nvcc, or put nvcc on PATH"):
        compile_body(tmp_path / "body.cu", MODULE)


@needs_nvcc
def test_a_missing_file_is_said(tmp_path: Path):
    with pytest.raises(SourceError, match="no such file"):
        compile_body(tmp_path / "body.cu", MODULE)
    with pytest.raises(SourceError, match="is no file"):
        compile_body(tmp_path, MODULE)


@pytest.mark.parametrize(("target", "expected"), [("sm_80", "compute_80"), ("sm_90a", "compute_90a"), ("sm_100f", "compute_100f")])
def test_architectures(target: str, expected: str):
    assert architecture(document(MMA.replace("sm_80", target))) == expected
