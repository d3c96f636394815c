"""CUDA C++ to PTX by the nvcc at hand, each source and way of compiling once in a test session.

Invariant: PTX that is given back is whole; worker processes of one session share it.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ptxgraft.graft.check import find_nvcc

SOURCES = Path(__file__).parent / "cuda"
NVCC = find_nvcc()

WAYS: dict[str, tuple[str, ...]] = {
    "sm_80": ("-arch=compute_80",),
    "sm_89": ("-arch=compute_89", "-lineinfo"),
    "sm_90": ("-arch=compute_90",),
    "debug": ("-arch=compute_90", "-G"),
    "fast": ("-arch=compute_90", "--use_fast_math"),
}
"""By name, the options for one way to compile. ``debug`` keeps every call and variable, so its text differs most from the others."""


@dataclass(slots=True)
class Compiler:
    """Compiles the sources of ``cuda/`` into ``folder``."""

    folder: Path
    known: dict[tuple[str, str], bytes] = field(default_factory=dict)

    def ptx(self, source: str, way: str) -> bytes:
        """The PTX of ``cuda/<source>.cu``, compiled in one of ``WAYS``. Skips the test when there is no nvcc."""
        if NVCC is None:
            pytest.skip("no nvcc: install the PyPI packages of the dev extra (nvidia-cuda-nvcc)")
        if (source, way) not in self.known:
            out = self.folder / f"{source}-{way}.ptx"
            if not out.exists():
                self._compile(source, way, out)
            self.known[source, way] = out.read_bytes()
        return self.known[source, way]

    def _compile(self, source: str, way: str, out: Path) -> None:
        fresh = out.with_suffix(f".{os.getpid()}.ptx")
        include = Path(str(NVCC)).parents[1] / "include" / "cccl"
        command = [str(NVCC), "--ptx", "-std=c++17", *WAYS[way], f"-I{include}", f"{source}.cu", "-o", str(fresh)]
        done = subprocess.run(command, capture_output=True, text=True, cwd=SOURCES, timeout=300)
        assert done.returncode == 0, f"nvcc failed on {source}.cu:\n{done.stderr or done.stdout}"
        fresh.replace(out)
