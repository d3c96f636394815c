"""The correctly rounded functions of profile ``manual`` on every f32 argument: judged on a GPU, and the warp engine against what was judged.

Invariant: a verdict needs no trust in the functions themselves. Their meanings are written out as C (one more instance of ``Lanes``) and run beside double-precision functions
of the CUDA library. Where a double does not lie within 2^-50 of the middle between two results, the result must be its rounding; the other arguments are kept in
the record, for arithmetic of many digits (``tests/conformance/test_manual_functions.py``). The warp engine must give the same results, by checksums of 2^22 each.
``python -m benchmarks.sweep_rounded --record`` needs a GPU, its driver, nvcc and the extra ``cuda``; ``--source FILE`` only writes the C.
"""

from __future__ import annotations

import argparse
import multiprocessing
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import recording
from ptxgraft.errors import DeviceError
from ptxgraft.graft import find_nvcc
from ptxgraft.isa import rounded
from ptxgraft.lower.warp_function import WarpFunctions

CHUNK_BITS = 22
CHUNKS = 1 << (32 - CHUNK_BITS)
_AT_ONCE = 128
"""Chunks handed to the processes together; between them the clock is looked at."""

KEPT, SHOWN = 1 << 16, 8
FOUND_BYTES = 16 + 2 * 4 * KEPT + 2 * 4 * SHOWN

FUNCTIONS: dict[str, tuple[Callable[..., Any], str]] = {
    "tanh": (lambda lanes, x: rounded.tanh(lanes, "f32", x), "tanh(x)"),
    "ex2": (lambda lanes, x: rounded.ex2(lanes, "f32", x), "exp2(x)"),
    "rsqrt": (lambda lanes, x: rounded.rsqrt(lanes, x), "1 / sqrt(x)"),
    "lg2": (lambda lanes, x: rounded.lg2(lanes, x), "log2(x)"),
    "sin": (lambda lanes, x: rounded.sine(lanes, x), "sin(x)"),
    "cos": (lambda lanes, x: rounded.sine(lanes, x, cosine=True), "cos(x)"),
}
"""By name: the function over lanes, and what computes it in double. Square roots and quotients are IEEE operations of the instances."""

_WORDS = {1: "bool", 8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
_SIGNED = {16: "int16_t", 32: "int32_t", 64: "int64_t"}
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True, slots=True)
class _Name:
    """A C expression and its width in bits."""

    text: str
    width: int


@dataclass
class CLanes:
    """``Lanes`` that write C, one lane: what the functions here use of it. ``tables`` are shared by the functions of one file."""

    tables: dict[tuple[tuple[int, ...], int], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    profile: str = "manual"

    def _new(self, text: str, width: int) -> _Name:
        self.lines.append(f"const {_WORDS[width]} v{len(self.lines)} = ({_WORDS[width]})({text});")
        return _Name(f"v{len(self.lines) - 1}", width)

    def const(self, bits: int, width: int) -> _Name:
        return _Name(f"(({_WORDS[width]}){bits % (1 << width)}ull)", width)

    def width(self, a: _Name) -> int:
        return a.width

    def resize(self, a: _Name, width: int, signed: bool = False) -> _Name:
        if width == a.width:
            return a
        return self._new(f"({_SIGNED[width]})({_SIGNED[a.width]}){a.text}" if signed and a.width > 1 else a.text, width)

    def select(self, p: _Name, a: _Name, b: _Name) -> _Name:
        return self._new(f"{p.text} ? {a.text} : {b.text}", a.width)

    def lookup(self, table: tuple[int, ...], index: _Name, width: int) -> _Name:
        name = self.tables.setdefault((table, width), f"table{len(self.tables)}")
        return self._new(f"{name}[{index.text}]", width)

    def add(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} + {b.text}", a.width)

    def sub(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} - {b.text}", a.width)

    def mul(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} * {b.text}", a.width)

    def mul_high(self, a: _Name, b: _Name, signed: bool) -> _Name:
        return self._new(f"high_{'signed' if signed else 'unsigned'}({a.text}, {b.text})", 64)

    def divide(self, a: _Name, b: _Name, signed: bool) -> _Name:
        assert not signed
        return self._new(f"{a.text} / {b.text}", a.width)

    def and_(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} & {b.text}", a.width)

    def or_(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} | {b.text}", a.width)

    def xor(self, a: _Name, b: _Name) -> _Name:
        return self._new(f"{a.text} ^ {b.text}", a.width)

    def not_(self, a: _Name) -> _Name:
        return self._new(f"{'!' if a.width == 1 else '~'}{a.text}", a.width)

    def shift_left(self, a: _Name, amount: _Name) -> _Name:
        return self._new(f"{amount.text} < {a.width} ? {a.text} << {amount.text} : 0", a.width)

    def shift_right(self, a: _Name, amount: _Name, signed: bool = False) -> _Name:
        if signed:
            return self._new(f"({_SIGNED[a.width]}){a.text} >> ({amount.text} < {a.width} ? {amount.text} : {a.width - 1})", a.width)
        return self._new(f"{amount.text} < {a.width} ? {a.text} >> {amount.text} : 0", a.width)

    def compare(self, op: str, a: _Name, b: _Name, signed: bool = False) -> _Name:
        read = f"({_SIGNED[a.width]})" if signed else ""
        return self._new(f"{read}{a.text} {_COMPARE[op]} {read}{b.text}", 1)

    def leading_zeros(self, a: _Name) -> _Name:
        return self._new(f"zeros{a.width}({a.text})", a.width)

    def float_convert(self, source: str, target: str, a: _Name, rounding: str = "rn") -> _Name:
        return self._new(f"{source}_to_{target}({a.text})", {"f32": 32, "f64": 64}[target])

    def float_sqrt(self, fmt: str, a: _Name, rounding: str = "rn", ftz: bool = False) -> _Name:
        assert (fmt, rounding) == ("f64", "rn")
        return self._new(f"bits_of(sqrt(double_of({a.text})))", 64)

    def float_div(self, fmt: str, a: _Name, b: _Name, rounding: str = "rn", ftz: bool = False) -> _Name:
        assert (fmt, rounding) == ("f64", "rn")
        return self._new(f"bits_of(double_of({a.text}) / double_of({b.text}))", 64)


_HEAD = r"""
#include <math.h>
#include <stdint.h>
#include <string.h>
#ifdef __CUDACC__
#define CODE __device__ static inline
#define DATA __device__ const
CODE uint64_t high_unsigned(uint64_t a, uint64_t b) { return __umul64hi(a, b); }
CODE uint64_t high_signed(uint64_t a, uint64_t b) { return (uint64_t)__mul64hi((int64_t)a, (int64_t)b); }
CODE uint64_t zeros64(uint64_t a) { return __clzll(a); }
CODE uint32_t zeros32(uint32_t a) { return __clz(a); }
#else
#include <stdbool.h>
#define CODE static inline
#define DATA static const
CODE uint64_t high_unsigned(uint64_t a, uint64_t b) { return (uint64_t)((unsigned __int128)a * b >> 64); }
CODE uint64_t high_signed(uint64_t a, uint64_t b) { return (uint64_t)((__int128)(int64_t)a * (int64_t)b >> 64); }
CODE uint64_t zeros64(uint64_t a) { return a ? __builtin_clzll(a) : 64; }
CODE uint32_t zeros32(uint32_t a) { return a ? __builtin_clz(a) : 32; }
#endif
CODE double double_of(uint64_t a) { double r; memcpy(&r, &a, 8); return r; }
CODE uint64_t bits_of(double a) { uint64_t r; memcpy(&r, &a, 8); return r; }
CODE float float_of(uint32_t a) { float r; memcpy(&r, &a, 4); return r; }
CODE uint32_t word_of(float a) { uint32_t r; memcpy(&r, &a, 4); return r; }
CODE uint64_t f32_to_f64(uint32_t a) { return bits_of((double)float_of(a)); }
CODE uint32_t f64_to_f32(uint64_t a) { return word_of((float)double_of(a)); }
"""

_JUDGE = r"""
/* 0: right; 1: within 2^-50 of the middle of two results; 2: wrong */
CODE int judged(uint32_t got, double y) {
    if (y != y) return got == 0x7FFFFFFF ? 0 : 2;
    const uint32_t a = word_of((float)(y * (1 - 0x1p-50))), b = word_of((float)(y * (1 + 0x1p-50)));
    return a != b ? 1 : got == a ? 0 : 2;
}
#ifdef __CUDACC__
struct Found { unsigned long long close, wrong; uint32_t close_at[KEPT], close_got[KEPT], wrong_at[SHOWN], wrong_got[SHOWN]; };
/* A block goes through one chunk of arguments. */
#define FUNCTION(NAME) extern "C" __global__ void judge_##NAME(Found *found, unsigned long long *sums) { \
    const uint32_t first = blockIdx.x << CHUNK_BITS; \
    unsigned long long sum = 0; \
    for (uint32_t i = threadIdx.x; i < 1u << CHUNK_BITS; i += blockDim.x) { \
        const uint32_t x = first + i, got = ours_##NAME(x); \
        sum += (2ull * i + 1) * got; \
        const int verdict = judged(got, double_##NAME((double)float_of(x))); \
        if (verdict == 1) { const unsigned long long n = atomicAdd(&found->close, 1ull); if (n < KEPT) { found->close_at[n] = x; found->close_got[n] = got; } } \
        if (verdict == 2) { const unsigned long long n = atomicAdd(&found->wrong, 1ull); if (n < SHOWN) { found->wrong_at[n] = x; found->wrong_got[n] = got; } } \
    } \
    atomicAdd(&sums[blockIdx.x], sum); }
#else
#define FUNCTION(NAME) void evaluate_##NAME(const uint32_t *x, uint32_t *got, int32_t *verdict, long count) { \
    for (long i = 0; i < count; i++) { got[i] = ours_##NAME(x[i]); verdict[i] = judged(got[i], double_##NAME((double)float_of(x[i]))); } }
#endif
"""


def source() -> str:
    """The C and CUDA source: with nvcc the kernels ``judge_NAME``, with a C compiler the functions ``evaluate_NAME``."""
    tables: dict[tuple[tuple[int, ...], int], str] = {}
    bodies = []
    for name, (function, double) in FUNCTIONS.items():
        lanes = CLanes(tables)
        result = function(lanes, _Name("x", 32))
        lines = "\n    ".join(lanes.lines)
        bodies.append(f"CODE uint32_t ours_{name}(uint32_t x) {{\n    {lines}\n    return {result.text};\n}}")
        bodies.append(f"CODE double double_{name}(double x) {{ return {double}; }}")
    numbers = [f"#define {k} {v}" for k, v in (("CHUNK_BITS", CHUNK_BITS), ("KEPT", KEPT), ("SHOWN", SHOWN))]
    data = [f"DATA {_WORDS[w]} {n}[] = {{{', '.join(f'{v % (1 << w)}ull' for v in t)}}};" for (t, w), n in tables.items()]
    return "\n".join([*numbers, _HEAD, *data, *bodies, _JUDGE, *(f"FUNCTION({name})" for name in FUNCTIONS), ""])


# -- the GPU ----------------------------------------------------------------------------------------------------------------------
def _ok(answer: Sequence[Any]) -> Any:
    if int(answer[0]):
        raise DeviceError(f"the driver answers {answer[0]}")
    return answer[1] if len(answer) == 2 else answer[1:]


def judge() -> tuple[str, dict[str, tuple[dict[str, Any], np.ndarray]]]:
    """The first GPU's name; and by function: counts, the arguments close to a middle with their results, and the checksums of all chunks."""
    from cuda.bindings import driver

    nvcc = find_nvcc()
    if nvcc is None:
        raise DeviceError("nvcc is not found", hint="the PyPI package nvidia-cuda-nvcc has it")
    _ok(driver.cuInit(0))
    device = _ok(driver.cuDeviceGet(0))
    card = bytes(_ok(driver.cuDeviceGetName(128, device))).partition(b"\0")[0].decode()
    context = _ok(driver.cuDevicePrimaryCtxRetain(device))
    _ok((*driver.cuCtxSetCurrent(context), None))
    sm = "".join(str(_ok(driver.cuDeviceGetAttribute(getattr(driver.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_{part}"), device)))
                 for part in ("MAJOR", "MINOR"))  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        file, image = Path(folder) / "sweep.cu", Path(folder) / "sweep.cubin"
        file.write_text(source())
        subprocess.run([str(nvcc), "-O2", "-w", f"-arch=sm_{sm}", "-cubin", str(file), "-o", str(image)], check=True)
        module = _ok(driver.cuModuleLoadData(image.read_bytes()))
    size = FOUND_BYTES + 8 * CHUNKS
    memory = _ok(driver.cuMemAlloc(size))
    results = {}
    for name in FUNCTIONS:
        _ok((*driver.cuMemsetD8(memory, 0, size), None))
        arguments = [np.array([int(memory)], np.uint64), np.array([int(memory) + FOUND_BYTES], np.uint64)]
        pointers = np.array([a.ctypes.data for a in arguments], np.uint64)
        kernel = _ok(driver.cuModuleGetFunction(module, f"judge_{name}".encode()))
        started = time.perf_counter()
        _ok((*driver.cuLaunchKernel(kernel, CHUNKS, 1, 1, 256, 1, 1, 0, 0, pointers.ctypes.data, 0), None))
        _ok((*driver.cuCtxSynchronize(), None))
        seconds = time.perf_counter() - started
        host = np.zeros(size, np.uint8)
        _ok((*driver.cuMemcpyDtoH(host.ctypes.data, memory, size), None))
        close, wrong = (int(v) for v in host[:16].view(np.uint64))
        words = host[16:FOUND_BYTES].view(np.uint32).tolist()
        assert close <= KEPT, f"{name}: {close} arguments close to a middle"
        order = sorted(zip(words[:close], words[KEPT : KEPT + close], strict=True))
        shown = min(wrong, SHOWN)
        first = list(zip(words[2 * KEPT :][:shown], words[2 * KEPT + SHOWN :][:shown], strict=True))
        counts = {"arguments": 1 << 32, "wrong": wrong, "first_wrong": first, "close": close, "close_arguments": [a for a, _ in order],
                  "close_results": [r for _, r in order], "seconds": round(seconds, 3)}  # fmt: skip
        results[name] = counts, host[FOUND_BYTES:].view(np.uint64)
    return card, results


# -- the warp engine -----------------------------------------------------------------------------------------------------------------
_COMPILED: dict[str, WarpFunctions] = {}


def checksum(job: tuple[str, int]) -> int:
    """Of what the warp instance gives for one chunk of a function's arguments."""
    name, chunk = job
    if name not in _COMPILED:
        _COMPILED[name] = WarpFunctions("manual")
        _COMPILED[name].add("f", [32], lambda lanes, values: [FUNCTIONS[name][0](lanes, values[0])])
        _COMPILED[name].compile()
    total, step = 0, 1 << 18
    for at in range(0, 1 << CHUNK_BITS, step):
        x = np.arange((chunk << CHUNK_BITS) + at, (chunk << CHUNK_BITS) + at + step, dtype=np.uint64).astype(np.uint32)
        (got,) = _COMPILED[name].call("f", x)
        weights = np.arange(2 * at + 1, 2 * (at + step) + 1, 2, dtype=np.uint64)
        total += int((weights * got.astype(np.uint64)).sum(dtype=np.uint64))
    return total % (1 << 64)


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.sweep_rounded", description="Judge the correctly rounded functions on every argument."
    )
    parser.add_argument("--source", type=Path, help="write the C source there and leave")
    parser.add_argument("--seconds", type=float, default=600, help="stop comparing the warp engine after so long")
    recording.add_options(parser)
    options = parser.parse_args()
    if options.source is not None:
        options.source.write_text(source())
        return
    started = time.perf_counter()
    # The processes start before the driver does: they may not share it.
    with multiprocessing.get_context("spawn").Pool() as pool:
        card, found = judge()
        for name, (counts, sums) in found.items():
            same = compared = 0
            for first in range(0, CHUNKS, _AT_ONCE):
                if time.perf_counter() - started > options.seconds:
                    break
                values = pool.map(checksum, [(name, chunk) for chunk in range(first, first + _AT_ONCE)], chunksize=1)
                same += sum(value == int(sums[first + i]) for i, value in enumerate(values))
                compared += len(values)
            counts |= {"warp_compared": compared << CHUNK_BITS, "warp_chunks_differing": compared - same}
            print(
                f"{name}: {counts['wrong']} of 2^32 wrong, {counts['close']} close; warp: {compared - same} of {compared} chunks differ",
                flush=True,
            )
        pool.terminate()
    result = {
        "profile": "manual",
        "card": card,
        "functions": {name: counts for name, (counts, _) in found.items()},
        "wall_seconds": round(time.perf_counter() - started, 1),
    }
    recording.record("sweep_rounded", result, options)


if __name__ == "__main__":
    main()
