"""Modules as the producers in the field write them: every statement known, every operand of a kind that its role takes.

The PTX under ``producers`` is written by hand, each file in one producer's manner; the CUDA there is compiled by nvcc when it is installed.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from assembler import PTXAS, needs_ptxas

from ptxgraft.isa import bind
from ptxgraft.text import Document, Kind

FOLDER = Path(__file__).with_name("producers")
WRITTEN = sorted(FOLDER.glob("*.ptx"))
TARGETS = {"triton": "sm_90a", "by_hand": "sm_90", "warp_nvrtc": "sm_86", "clang": "sm_80", "mojo": "sm_80"}
"""Where a sample asks for more than the oldest target."""

NVCC = Path(PTXAS).with_name("nvcc") if PTXAS else None
COMPILED = [
    ("wmma_gemm", "compute_80", ()),
    ("pipeline", "compute_80", ()),
    ("groups", "compute_90", ()),
    ("images", "compute_75", ()),
    ("language", "compute_75", ()),
    ("language", "compute_80", ("-G",)),
    ("numbers", "compute_90", ()),
    ("numbers", "compute_100a", ()),
    ("hopper", "compute_90a", ()),
    ("blackwell", "compute_100a", ()),
]


def check(document: Document) -> int:
    """Bind every entry; the number of statements of the module that an entry reaches."""
    assert document.entries
    reached = set()
    for entry in document.entries:
        program = bind(document, entry.name)
        unknown = [f"{program.line(i.index)}: {program.source(i.index)}" for i in program.unknown]
        assert not unknown, "\n".join(unknown)
        reached |= {id(i.statement) for i in program.instructions}
    return len(reached)


@pytest.mark.parametrize("path", WRITTEN, ids=lambda p: p.stem)
def test_written_modules_bind(path: Path) -> None:
    document = Document.read(path)
    instructions = sum(s.kind == Kind.INSTRUCTION for s in document.statements)
    # Functions are bound where they are called; a call itself is not kept.
    assert check(document) > instructions - 10


@needs_ptxas
@pytest.mark.parametrize("path", WRITTEN, ids=lambda p: p.stem)
def test_written_modules_are_ptx(path: Path, tmp_path: Path) -> None:
    """ptxas takes what we wrote. (It reads modules with 32-bit addresses, and then makes no code of them.)"""
    assert PTXAS is not None
    target = TARGETS.get(path.stem, "sm_75")
    done = subprocess.run([PTXAS, f"-arch={target}", str(path), "-o", str(tmp_path / "k.o")], capture_output=True, text=True, check=False)
    shown = done.stdout + done.stderr
    assert "error" not in shown, shown
    assert done.returncode == 0 or "32-Bit compilation is no longer supported" in shown, shown


@pytest.mark.skipif(NVCC is None or not NVCC.exists(), reason="nvcc is not installed (dev extra: nvidia-cuda-nvcc)")
@pytest.mark.parametrize(("name", "arch", "flags"), COMPILED, ids=lambda v: "-".join(v) if isinstance(v, tuple) else v)
def test_compiled_modules_bind(name: str, arch: str, flags: tuple[str, ...], tmp_path: Path) -> None:
    made = tmp_path / "k.ptx"
    command = [str(NVCC), "-ptx", f"-arch={arch}", "-std=c++17", *flags, "-o", str(made), str(FOLDER / f"{name}.cu")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert check(Document.read(made)) > 40


def test_samples_hold_what_they_are_for() -> None:
    """The manners that the samples are here to show are in them."""
    texts = {path.stem: path.read_text() for path in WRITTEN}
    assert not texts["gcc"].startswith("//\n") and ".param.u64" in texts["gcc"]
    assert "brx.idx" in texts["mojo"] and "atom.global.gpu.acq_rel" in texts["triton"] and ".section" in texts["triton"]
    assert ".tex ." in texts["open64_2009"] and "rcp.f32" in texts["open64_2008"] and ".v4 .f32 color" in texts["by_hand"]
