"""ptxas as a judge of spellings: which statements of a list it refuses, for which target, and why.

Invariant: a statement is judged alone; every statement of a list is looked at, whatever the ones before it did.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

PROLOGUE = """
.address_size 64
.global .texref tex_; .global .surfref srf_; .shared .align 128 .b8 shm_[1024];
.func callee_() { ret; }
.visible .entry k(.param .u64 k_param_0)
{
.reg .pred %p<99>; .reg .b8 %b<99>; .reg .b16 %h<99>; .reg .b32 %r<999>; .reg .b64 %d<99>; .reg .b128 %q<99>; .reg .f32 %f<999>;
.reg .f64 %g<99>; .param .align 16 .b8 par_[64];
"""
VERSIONS = [(6, 3), (6, 4), (6, 5), *((7, i) for i in range(9)), *((8, i) for i in range(9)), *((9, i) for i in range(6))]
"""The PTX versions that a recent ptxas can be asked about: the oldest target left came with the first."""
TARGETS_SINCE = {
    "75": (6, 3), "80": (7, 0), "86": (7, 1), "87": (7, 4), "88": (9, 0), "89": (7, 8), "90": (7, 8), "90a": (8, 0), "100": (8, 6), "100a": (8, 6),
    "100f": (8, 8), "103": (8, 8), "103a": (8, 8), "103f": (8, 8), "107": (9, 4), "107a": (9, 4), "107f": (9, 4), "110": (9, 0), "110a": (9, 0), "110f": (9, 0), "120": (8, 7), "120a": (8, 7),
    "120f": (8, 8), "121": (8, 8), "121a": (8, 8), "121f": (8, 8),
}  # fmt: skip
"""The first version of each target."""
EPILOGUE = """
frobnicate.b32 %r0, %r1;
L_:
ret;
}
"""
"""The unknown instruction keeps ptxas from generating code: it stops after looking at every statement."""


def _ptxas() -> str | None:
    named = os.environ.get("PTXGRAFT_PTXAS")
    if named:
        assert os.access(named, os.X_OK), f"PTXGRAFT_PTXAS names {named}, which is no program"
        return named
    nvidia = Path(pytest.__file__).parents[1] / "nvidia"
    wheel = next(iter(sorted(nvidia.glob("*/bin/ptxas"))), None)
    return str(wheel) if wheel else shutil.which("ptxas")


PTXAS = _ptxas()
needs_ptxas = pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed (dev extra: nvidia-cuda-nvcc)")


@cache
def version() -> tuple[int, int]:
    """The newest PTX version that the ptxas found takes: release 13.n takes 9.n."""
    assert PTXAS is not None
    shown = subprocess.run([PTXAS, "--version"], capture_output=True, text=True, check=True).stdout
    match = re.search(r"release (\d+)\.(\d+)", shown)
    assert match, shown
    return int(match[1]) - 4, int(match[2])


@cache
def targets() -> list[str]:
    """The real targets that the ptxas found compiles for, oldest first: ``75``, ``90a``, ``100f`` and so on."""
    assert PTXAS is not None
    shown = subprocess.run([PTXAS, "--help"], capture_output=True, text=True, check=True).stdout
    return sorted(set(re.findall(r"'sm_(\d+[af]?)'", shown)), key=lambda t: (int(t.rstrip("af")), t))


def refused(statements: Sequence[str], target: str, folder: Path, ptx: tuple[int, int] | None = None) -> dict[int, str]:
    """The messages of ptxas by statement index, for a target and a PTX version (the newest). Each statement must be one line."""
    assert PTXAS is not None
    ptx = ptx or version()
    prologue = PROLOGUE if ptx >= (8, 3) else PROLOGUE.replace(" .reg .b128 %q<99>;", "")
    head = f".version {ptx[0]}.{ptx[1]}\n.target sm_{target}{prologue}"
    source = folder / f"k_{target}.ptx"
    source.write_text(head + "\n".join(statements) + EPILOGUE)
    done = subprocess.run(
        [PTXAS, f"-arch=sm_{target}", str(source), "-o", str(folder / "k.o")], capture_output=True, text=True, check=False
    )
    found: dict[int, str] = {}
    for line, message in re.findall(r"line (\d+); error\s*: (.*)", done.stdout + done.stderr):
        found.setdefault(int(line) - head.count("\n") - 1, message)
    assert found.pop(len(statements), None), f"ptxas did not look at the last statement: {(done.stdout + done.stderr)[-600:]}"
    return found
