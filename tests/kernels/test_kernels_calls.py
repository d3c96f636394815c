"""Recursion, virtual functions, pointers to functions, and what kernels allocate, print and assert."""

from __future__ import annotations

import numpy as np
import pytest
from both_engines import both, launch
from compiling import Compiler

from ptxgraft.errors import KernelFault

WAYS = ("sm_80", "sm_90", "debug")
PARTS = np.dtype([("count", "i4", 10), ("weight", "f8")], align=True)


def ackermann(m: int, n: int) -> int:
    return n + 1 if m == 0 else ackermann(m - 1, 1 if n == 0 else ackermann(m, n - 1))


@pytest.mark.parametrize("way", WAYS)
def test_recursion(compiler: Compiler, way: str):
    numbers = np.random.default_rng(1).integers(0, 24, 80).astype(np.int32)
    ack, parts, parity = np.zeros(80, np.int32), np.zeros(80 * PARTS.itemsize, np.uint8), np.zeros(80, np.uint8)
    _, ack, parts, parity = both(compiler.ptx("calls", way), "recursion", 2, 40, [numbers, ack, parts, parity])
    assert ack.tolist() == [ackermann(n % 3, n % 4) for n in numbers]
    assert parity.tolist() == [int(n % 2 == 0) for n in numbers]
    for i, (n, got) in enumerate(zip(numbers, parts.view(PARTS), strict=True)):
        count, weight = [0] * 10, 0.0
        count[3] = i
        for k in range(n, 0, -1):
            count[k % 10] += k
            weight += count[k * 3 % 10] * 0.5
        assert got["count"].tolist() == count and got["weight"] == weight


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["quicksort", "treesort"])
def test_sorting_by_recursion(compiler: Compiler, way: str, name: str):
    rows = np.random.default_rng(2).integers(-50, 50, (48, 21)).astype(np.int32)
    (got, _) = both(compiler.ptx("calls", way), name, 3, 16, [rows, 21])
    assert np.array_equal(got, np.sort(rows, axis=1))


@pytest.mark.parametrize("way", WAYS)
def test_virtual_functions(compiler: Compiler, way: str):
    kinds = np.random.default_rng(3).integers(0, 3, 70).astype(np.uint8)
    areas, _ = both(compiler.ptx("calls", way), "shapes", 2, 35, [np.zeros(140, np.float32), kinds])
    wanted = []
    for i, kind in enumerate(kinds):
        wanted += [[i * i, (i + 2) ** 2], [i * 1.5, (i + 2) * 1.5], [i * i, (i + 4) ** 2 + 1]][kind]
    assert areas.tolist() == wanted


@pytest.mark.parametrize("way", WAYS)
def test_pointers_to_functions(compiler: Compiler, way: str):
    (out,) = both(compiler.ptx("calls", way), "pointers", 2, 40, [np.zeros(80, np.int32)])
    add, sub, mul = (lambda a, b: a + b), (lambda a, b: a - b), (lambda a, b: a * b)

    def fold(f, n: int) -> int:
        r = 1
        for i in range(1, n + 1):
            r = f(r, i)
        return r

    for i, got in enumerate(out):
        chosen = ((add, sub, mul) if i & 1 else (mul, add, sub))[i % 3]
        assert got == chosen(i, 7) * 1000 + fold(chosen, i % 5) + fold(lambda a, b, i=i: a ^ (b * i), i % 7)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["warp", "numpy"])
def test_printf(compiler: Compiler, way: str, engine: str):
    values = np.arange(8, dtype=np.float32) * np.float32(1.37) - 2
    _, result = launch(compiler.ptx("calls", way), "report", 2, 8, [5, values], engine=engine)
    lines = result.output.splitlines()
    kinds = ["even", "odd", "even", "odd", "even"]
    wanted = [
        f"{i:02d}] {k} {float(v):<8.3f}|{k:>6}|{10 * i:5}%{'.' if i == 4 else ','}"
        for i, (k, v) in enumerate(zip(kinds, values, strict=False))
    ]
    for block in range(2):
        assert lines[7 * block : 7 * block + 5] == [f"[{block},{line}" for line in wanted]
        assert lines[7 * block + 5 : 7 * block + 7] == ["5 values from 1099511627776, no arguments follow", "none"]
    assert len(lines) == 14 and result.output.endswith("\n")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["warp", "numpy"])
def test_assert(compiler: Compiler, way: str, engine: str):
    values = np.arange(80, dtype=np.int32)
    launch(compiler.ptx("calls", way), "checked", 2, 40, [values, 80], engine=engine)
    with pytest.raises(KernelFault) as caught:
        launch(compiler.ptx("calls", way), "checked", 2, 40, [values, 75], engine=engine)
    assert 'assertion `values[i] < limit && "too large"` failed in void checked(const int *, int), calls.cu:' in caught.value.message
    assert "thread (35, 0, 0)" in caught.value.message and "(block (1, 0, 0), warp 1, lane 3)" in caught.value.message


@pytest.mark.parametrize("way", WAYS)
def test_alloca(compiler: Compiler, way: str):
    lengths = np.random.default_rng(4).integers(1, 60, 64).astype(np.int32)
    out, _ = both(compiler.ptx("calls", way), "on_the_stack", 2, 32, [np.zeros(64, np.int32), lengths])
    wanted = [sum((j * 7 % n * i + r) * (j + 1) for r in range(2) for j in range(n)) for i, n in enumerate(lengths.tolist())]
    assert out.tolist() == wanted
