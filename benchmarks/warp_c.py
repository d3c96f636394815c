"""The benchmark's kernels as plain C, compiled with the system's compiler: what a launch is measured against.

Invariant: the C code does what the kernel does, element for element, and takes part of the work (``first`` to ``last``), so that it runs on as many threads
as the launch. It is compiled with ``-O3 -march=native -fno-math-errno -ffp-contract=fast``: what a person would use who wants speed, and no more.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ptxgraft.run import Launch

FLAGS = ("-O3", "-march=native", "-fno-math-errno", "-ffp-contract=fast", "-shared", "-fPIC")

SOURCE = r"""
#include <stdint.h>
#include <string.h>

void saxpy(long first, long last, float a, const float *restrict x, float *restrict y)
{
    for (long i = first; i < last; i++)
        y[i] = a * x[i] + y[i];
}

/* One element after the other, as the kernel's threads do. */
void matmul_naive(long first, long last, long n, const float *restrict a, const float *restrict b, float *restrict c)
{
    for (long i = first; i < last; i++)
        for (long j = 0; j < n; j++) {
            float sum = 0;
            for (long k = 0; k < n; k++)
                sum = a[i * n + k] * b[k * n + j] + sum;
            c[i * n + j] = sum;
        }
}

/* The same sums in the same order, with the loops exchanged so that a compiler can use vectors. */
void matmul_rows(long first, long last, long n, const float *restrict a, const float *restrict b, float *restrict c)
{
    for (long i = first; i < last; i++) {
        for (long j = 0; j < n; j++)
            c[i * n + j] = 0;
        for (long k = 0; k < n; k++)
            for (long j = 0; j < n; j++)
                c[i * n + j] = a[i * n + k] * b[k * n + j] + c[i * n + j];
    }
}

void histogram(long first, long last, const uint8_t *restrict data, uint32_t *restrict counts)
{
    uint32_t own[256];
    memset(own, 0, sizeof own);
    for (long i = first; i < last; i++)
        own[data[i]]++;
    for (int b = 0; b < 256; b++)
        __atomic_fetch_add(&counts[b], own[b], __ATOMIC_RELAXED);
}

/* Every byte is counted where all threads count. */
void histogram_atomic(long first, long last, const uint8_t *restrict data, uint32_t *restrict counts)
{
    for (long i = first; i < last; i++)
        __atomic_fetch_add(&counts[data[i]], 1, __ATOMIC_RELAXED);
}
"""


def find_cc() -> str | None:
    """The system's C compiler: ``$CC``, ``cc`` or ``gcc``; None when there is none."""
    return next((found for name in (os.environ.get("CC"), "cc", "gcc") if name and (found := shutil.which(name))), None)


def compiler_version() -> str:
    """The first line of what the compiler says of itself."""
    compiler = find_cc()
    assert compiler is not None, "there is no C compiler"
    return subprocess.run([compiler, "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[0]


@cache
def library() -> ctypes.CDLL:
    """The compiled functions. A build failure is a ``CalledProcessError``."""
    compiler = find_cc()
    assert compiler is not None, "there is no C compiler"
    with tempfile.TemporaryDirectory() as folder:
        source, built = Path(folder, "kernels.c"), Path(folder, "kernels.so")
        source.write_text(SOURCE)
        subprocess.run([compiler, *FLAGS, str(source), "-o", str(built)], check=True, capture_output=True)
        return ctypes.CDLL(str(built))


@dataclass(slots=True)
class Plain:
    """A function of C on a launch's data: ``call`` does the part from ``first`` to ``last`` of ``size``; ``before`` makes its memory as the launch's was."""

    size: int
    call: Callable[[int, int], None]
    before: Callable[[], None]
    result: NDArray

    def run(self, threads: int, pool: ThreadPoolExecutor) -> None:
        """All of it, on so many threads."""
        if threads == 1:
            self.call(0, self.size)
            return
        marks = [self.size * i // threads for i in range(threads + 1)]
        for part in [pool.submit(self.call, a, b) for a, b in pairwise(marks)]:
            part.result()


def _arrays(launch: Launch, *dtypes: str) -> list[NDArray]:
    return [a.data.view(d).copy() for a, d in zip(launch.memory.allocations, dtypes, strict=True)]


def _bound(name: str, arrays: Sequence[NDArray], *more: object) -> Callable[[int, int], None]:
    """A function with its arguments but for the part to do; it keeps the arrays alive."""
    function = getattr(library(), name)
    function.restype = None

    def call(first: int, last: int) -> None:
        function(ctypes.c_long(first), ctypes.c_long(last), *more, *(ctypes.c_void_p(a.ctypes.data) for a in arrays))

    return call


def saxpy(launch: Launch) -> Plain:
    x, y = _arrays(launch, "f4", "f4")
    start = y.copy()
    return Plain(x.size, _bound("saxpy", (x, y), ctypes.c_float(2.5)), lambda: np.copyto(y, start), y)


def matmul(launch: Launch, name: str = "matmul_naive") -> Plain:
    a, b, c = _arrays(launch, "f4", "f4", "f4")
    n = round(a.size**0.5)
    return Plain(n, _bound(name, (a, b, c), ctypes.c_long(n)), lambda: c.fill(0), c)


def matmul_rows(launch: Launch) -> Plain:
    return matmul(launch, "matmul_rows")


def histogram(launch: Launch, name: str = "histogram") -> Plain:
    data, counts = _arrays(launch, "u1", "u4")
    return Plain(data.size, _bound(name, (data, counts)), lambda: counts.fill(0), counts)


def histogram_atomic(launch: Launch) -> Plain:
    return histogram(launch, "histogram_atomic")
