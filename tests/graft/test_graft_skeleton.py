"""Skeletons: they compile, they name what the cut passes, and their tables are the spec's."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from graft_kernels import MIXED, MMA, document, mma_launch, run_mma

from ptxgraft.errors import UsageError
from ptxgraft.graft import FILL, Cut, cut, find_nvcc, function_body, probe, read_probe
from ptxgraft.graft.fragment_tables import Step, steps_of
from ptxgraft.graft.skeleton import skeleton
from ptxgraft.run import allocate, execute
from ptxgraft.text import Document

NVCC = find_nvcc()
CXX = shutil.which("c++")
MODULE = document(MMA)


def line(text: str, source: str = MMA) -> int:
    """The number of the one line that holds a text."""
    found = [i for i, row in enumerate(source.splitlines(), 1) if text in row]
    assert len(found) == 1, text
    return found[0]


EPILOGUE = (line("mul.rn.f32 %f10"), line("cvt.rn.f16x2.f32 %r19"))
HIP_STUB = """\
#pragma once
#define __device__
struct Extents { unsigned x, y, z; };
extern Extents threadIdx, blockIdx, blockDim, gridDim;
"""
needs_nvcc = pytest.mark.skipif(NVCC is None, reason="no nvcc: install the PyPI package nvidia-cuda-nvcc")

CUTS = {
    "inline": lambda: cut(MODULE, "product"),
    "mirror": lambda: cut(MODULE, "product", style="mirror"),
    "call": lambda: cut(MODULE, "product", style="call"),
    "phases": lambda: cut(MODULE, "product", style="phases"),
    "epilogue": lambda: cut(MODULE, "product", EPILOGUE, style="mirror"),
    "wide registers": lambda: cut(document(MIXED), "mixed", (line("cvt.u64.u32 %rd5", MIXED), line("add.f16", MIXED)), style="mirror"),
    "nothing comes back": lambda: cut(MODULE, "product", (line("st.global.v4.f32"), line("st.global.v4.f32")), style="mirror"),
}


def compile_cuda(text: str, folder: Path) -> bytes:
    source, output = folder / "body.cu", folder / "body.ptx"
    source.write_text(text)
    done = subprocess.run(
        [str(NVCC), "--ptx", "-rdc=true", "-fmad=false", "-arch=compute_80", str(source), "-o", str(output)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
    return output.read_bytes()


@needs_nvcc
@pytest.mark.parametrize("name", CUTS)
def test_cuda_skeletons_compile_to_the_functions_that_the_cut_calls(name: str, tmp_path: Path):
    made = CUTS[name]()
    module = Document.parse(compile_cuda(made.skeletons["cuda"], tmp_path))
    function = module.function(made.callee or f"{made.entry}_region")
    assert [p.type for p in function.params] == [p.type for p in made.interface.passed]


@pytest.mark.skipif(CXX is None, reason="no C++ compiler")
@pytest.mark.parametrize("name", CUTS)
def test_hip_skeletons_are_cxx(name: str, tmp_path: Path):
    assert CXX is not None
    (tmp_path / "hip").mkdir()
    (tmp_path / "hip" / "hip_runtime.h").write_text(HIP_STUB)
    source = tmp_path / "body.cpp"
    source.write_text(CUTS[name]().skeletons["hip"])
    done = subprocess.run(
        [CXX, "-std=c++17", "-fsyntax-only", "-w", f"-I{tmp_path}", str(source)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def filled(made: Cut, code: str) -> str:
    """The CUDA skeleton with its gap filled in."""
    text, count = re.subn(r"    // Your code: .*\n", lambda _: code, made.skeletons["cuda"])
    assert count == 1
    return text


HALF = """\
    auto half2 = [](Word high, Word low) {
        Word both;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(__uint_as_float(high)), "f"(__uint_as_float(low)));
        return both;
    };
    auto times = [&](Word x) { return __float_as_uint(__uint_as_float(x) * __uint_as_float(in.f9)); };
    out.r18 = half2(times(in.f6), times(in.f5));
    out.r19 = half2(times(in.f8), times(in.f7));
"""


@needs_nvcc
@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
def test_a_skeleton_filled_in_gives_the_same_bytes(style: str, tmp_path: Path):
    empty = cut(MODULE, "product", EPILOGUE, style=style)
    body = Document.parse(compile_cuda(filled(empty, HALF), tmp_path), "body.ptx")
    # nvcc writes its own PTX version; the function needs none later than the kernel's.
    made = cut(MODULE, "product", EPILOGUE, style=style, body=function_body(body, "product_region"))
    assert (run_mma(made.document) == run_mma(MODULE)).all()


PHASE = """
        {
            using namespace phase%d;
            Word made[d_count][4];
            for (int i = 0; i < %d; ++i) {
                const Step s = step(i);
                Word from[4];
                for (int k = 0; k < 4; ++k) {
                    from[k] = c_from_d(s.c) < 0 ? c(in, s.c, k) : made[c_from_d(s.c)][k];
                }
                Word *to = made[s.d];
                asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%0, %%1, %%2, %%3}, {%%4, %%5, %%6, %%7}, {%%8, %%9}, {%%10, %%11, %%12, %%13};"
                    : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                    : "r"(a(in, s.a, 0)), "r"(a(in, s.a, 1)), "r"(a(in, s.a, 2)), "r"(a(in, s.a, 3)), "r"(b(in, s.b, 0)), "r"(b(in, s.b, 1)),
                      "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3]));
            }
            for (int f = 0; f < d_count; ++f) {
                for (int k = 0; k < 4; ++k) {
                    if (d_result(f, k) >= 0) {
                        store_result(in, d_result(f, k), made[f][k]);
                    }
                }
            }
        }
"""


@needs_nvcc
def test_a_phases_skeleton_filled_in_gives_the_same_bytes(tmp_path: Path):
    empty = cut(MODULE, "product", style="phases")
    assert empty.plan is not None
    text = empty.skeletons["cuda"]
    for call in empty.plan.calls:
        number = call.phase.index
        text, count = re.subn(rf"        // Your code: phase {number},.*\n", lambda _, n=number, m=call.phase.mma: PHASE % (n, m), text)
        assert count == 1
    body = Document.parse(compile_cuda(text, tmp_path), "body.ptx")
    made = cut(MODULE, "product", style="phases", body=function_body(body, "product_region"))
    assert (run_mma(made.document) == run_mma(MODULE)).all()


def test_offsets_of_the_weight_image_hold_for_any_block():
    text = cut(MODULE, "product", style="phases").skeletons["cuda"]
    assert "case 0: return static_cast<unsigned long long>(8) * static_cast<unsigned long long>(threadIdx.x);" in text
    assert "place[2][2] = {{{in_weights, 0, 0}, {in_weights, 0, 4}}, {{in_weights, 0, 512}, {in_weights, 0, 516}}};" in text


@needs_nvcc
def test_a_skeletons_debug_store_fills_the_probes_rows(tmp_path: Path):
    region = (line("{%f1, %f2, %f3, %f4}, {%r2"), line("add.u64 %rd9"))
    made = cut(MODULE, "product", region, style="mirror")
    code = "    store_stage_a(reinterpret_cast<void *>(in.rd3), 2, in);\n    out.rd9 = in.rd3 + in.r1 * 16ull;\n"
    body = Document.parse(compile_cuda(filled(made, code), tmp_path), "body.ptx")
    graft = cut(MODULE, "product", region, style="mirror", body=function_body(body, "product_region"))
    stage = probe(MODULE, "product", "a", region=region)
    expected = stage.buffer_bytes((1,), (64,))
    launch = mma_launch(graft.document)
    # %rd3 is the output's pointer: rows go there, and the kernel's own store, after the region, over the first kilobyte of them.
    out = launch.allocations[2]
    room = allocate(out.base, np.full(expected, FILL, np.uint8), "out")
    launch = type(launch)(launch.program, launch.grid, launch.block, launch.args, allocations=[*launch.allocations[:2], room])
    execute(launch, engine="numpy")
    found = read_probe(stage, room.data, (1,), (64,), bits=True)
    clean = allocate(0x2000_0000, np.full(expected, FILL, np.uint8), "probe")
    original = mma_launch(stage.document, stage.argument_bytes(bytes(28), clean.base, 2)[32:], [clean])
    execute(original, engine="numpy")
    wanted = read_probe(stage, clean.data, (1,), (64,), bits=True)
    assert all((found[n][0, 1] == wanted[n][0, 1]).all() for n in wanted)


def test_tables_hold_the_specs_offsets():
    made = cut(MODULE, "product", style="mirror")
    text = made.skeletons["cuda"]
    assert "__device__ const int b_weights_offset[2][2] = {{0, 4}, {512, 516}};" in text
    assert "moved(8, 32, 256)" in text
    assert "namespace phase1 {" in text and "const Step steps[2] = {{0, 0, 0, 0}, {1, 1, 1, 1}};" in text
    assert "const Word held[2][4] = {{in.r2, in.r3, in.r4, in.r5}, {in.r14, in.r15, in.r16, in.r17}};" in text
    made = cut(MODULE, "product", (line("mul.wide.u32 %rd8"), line("add.u64 %rd9")), style="mirror")
    assert [p.about for p in made.interface.passed[:2]] == ["%rd3, .b64: the argument at offset 16", "%r1, .b32: %tid.x"]


def test_steps_of_offsets():
    number = np.arange(96)
    assert steps_of((64 + number % 4 * 16 + number % 32 // 4 * 80 + number // 32 * 1000).astype(np.uint64)) == Step(16, 80, 1000)
    assert steps_of(np.array([5], np.uint64)) == Step(0, 0, 0)
    assert steps_of((number**2).astype(np.uint64)) is None


def test_unknown_languages_are_refused():
    made = cut(MODULE, "product")
    with pytest.raises(UsageError, match="language 'sycl' is not known; languages are cuda, hip"):
        skeleton("sycl", "f", made._piece, made.interface, made.spec, "inline")


def test_the_spec_goes_with_the_cut():
    made = cut(MODULE, "product", EPILOGUE, style="mirror")
    assert f"## The cut: mirror, lines {EPILOGUE[0]} to {EPILOGUE[1]}" in made.spec_markdown
    assert "| 1 | `%r19` | b32 |" in made.spec_markdown
    assert made.spec_json["cut"]["words"] == 2  # pyright: ignore[reportIndexIssue, reportCallIssue, reportArgumentType]


def test_the_block_given_is_the_one_that_offsets_hold_for():
    """The module states no block; without one a warp was assumed, and steps from warp to warp were none."""
    source = re.sub(r"\.(?:req|max)ntid[^\n{]*", "", MMA)
    for style in ("inline", "mirror"):
        made = cut(document(source), "product", style=style, block=(32, 4, 1))
        assert (made.spec.block, made.spec.block_source) == ((32, 4, 1), "given")
        assert "Offsets hold for a block of 32x4x1 (given)." in made.skeletons["cuda"]
        assert "offsets evaluated for a block of 32x4x1 (given)" in made.spec_markdown


def test_the_head_says_how_to_put_the_body_in():
    made = cut(MODULE, "product", EPILOGUE, style="mirror", block=(32, 1, 1))
    head = made.skeletons["cuda"].split("namespace")[0]
    target = next(t for t in MODULE.target if t.startswith("sm_"))
    assert f"nvcc --ptx -rdc=true -arch={target.replace('sm_', 'compute_')} FILE -o body.ptx\n" in head
    want = f"ptxgraft cut {MODULE.name} -e product --style mirror --region {EPILOGUE[0]}-{EPILOGUE[1]} --block 32,1,1 --body body.ptx:{made.callee} -o FOLDER\n"
    assert want in head
    assert "--region" not in cut(MODULE, "product").skeletons["cuda"]
