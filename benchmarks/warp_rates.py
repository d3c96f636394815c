"""How many tensor-core instructions, approximations and atomics a second the warp executor does, on one thread.

Invariant: every result goes into what the kernel stores, so that nothing can be left out, and operands are loaded anew for each instruction. Launches are
long enough (tens of milliseconds) for the host's work to count for nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.warp_kernels import launch, pointers
from ptxgraft.run import Launch, execute
from ptxgraft.run.warp_engine import prepare

TILES = 64
"""Operands of so many instructions lie in memory, 16 bytes a lane for A and for B."""

BLOCKS, TURNS = 32, 512


@dataclass(frozen=True, slots=True)
class Product:
    """A tensor-core instruction: its spelling, the registers of C, the format of A and B, the aim in millions a second (0: none)."""

    opcode: str
    c_registers: int
    format: str
    aim: float = 0
    aim_typical: float = 0


PRODUCTS = (
    Product("mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16", 2, "e4m3", 2, 4),
    Product("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", 4, "e4m3", 2, 4),
    Product("mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e5m2.f32", 4, "e5m2"),
    Product("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16", 2, "f16", 3, 3),
    Product("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", 4, "f16", 3, 3),
    Product("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", 4, "bf16"),
    Product("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", 4, "tf32"),
    Product("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", 4, "s8"),
)

CLASSES = ("typical", "wide", "special")
"""Operands: Gaussian of deviation 1; all finite numbers, bit patterns evenly; all bit patterns, NaN and infinities too."""


def _codes(format: str) -> tuple[NDArray[Any], NDArray[np.float64]]:
    """(bit patterns of a format, their values): all of them up to 16 bits, of tf32 those of bf16."""
    if format == "s8":
        codes = np.arange(256, dtype=np.uint8)
        return codes, codes.view(np.int8).astype(np.float64)
    if format in ("bf16", "tf32"):
        wide = np.arange(1 << 16, dtype=np.uint32) << 16
        with np.errstate(invalid="ignore"):  # signalling NaNs
            values = wide.view(np.float32).astype(np.float64)
        return (wide if format == "tf32" else (wide >> 16).astype(np.uint16)), values
    halves = np.arange(1 << 16, dtype=np.uint16)
    if format == "f16":
        return halves, halves.view(np.float16).astype(np.float64)
    codes = np.arange(256, dtype=np.uint8)
    if format == "e5m2":
        return codes, (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    # e4m3: as a half of an eighth of the exponent's range, 2^8 too small.
    half = (codes.astype(np.uint16) & 0x80) << 8 | (codes.astype(np.uint16) & 0x7F) << 7
    values = half.view(np.float16).astype(np.float64) * 256
    values[codes & 0x7F == 0x7F] = np.nan
    return codes, values


def operands(format: str, kind: str, rng: np.random.Generator) -> NDArray[np.uint8]:
    """The bytes of ``TILES`` fragments of 16 bytes a lane."""
    codes, values = _codes(format)
    count = TILES * 32 * 16 // codes.itemsize
    if kind == "special":
        chosen = rng.integers(0, codes.size, count)
        return codes[chosen].view(np.uint8)
    finite = np.flatnonzero(np.isfinite(values))
    if kind == "wide":
        return codes[rng.choice(finite, count)].view(np.uint8)
    ordered = finite[np.argsort(values[finite], kind="stable")]
    scale = 32 if format == "s8" else 1
    wanted = rng.normal(0, scale, count)
    return codes[ordered[np.searchsorted(values[ordered], wanted).clip(0, ordered.size - 1)]].view(np.uint8)


def product_text(product: Product) -> str:
    """A warp multiplies ``turns`` times; what comes out goes into an exclusive or."""
    n = product.c_registers
    d, c = (", ".join(f"%{name}{i}" for i in range(n)) for name in "dc")
    return f""".visible .entry products(.param .u64 a, .param .u64 b, .param .u64 out, .param .u32 turns)
{{
    .reg .pred %p;
    .reg .b32 %x<4>, %y<4>, %c<4>, %d<4>, %s<4>, %r<10>;
    .reg .b64 %rd<10>;
    ld.param.u64 %rd1, [a];
    ld.param.u64 %rd2, [b];
    ld.param.u64 %rd3, [out];
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, %tid.x;
    mov.u32 %r3, %ctaid.x;
    mul.wide.u32 %rd4, %r2, 16;
    add.s64 %rd1, %rd1, %rd4;
    add.s64 %rd2, %rd2, %rd4;
    ld.global.v4.b32 {{%c0, %c1, %c2, %c3}}, [%rd3];
    mov.b32 %s0, 0; mov.b32 %s1, 0; mov.b32 %s2, 0; mov.b32 %s3, 0;
    mov.u32 %r4, 0;
LOOP:
    add.u32 %r5, %r4, %r3;
    and.b32 %r5, %r5, {TILES - 1};
    mul.wide.u32 %rd5, %r5, {32 * 16};
    add.s64 %rd6, %rd1, %rd5;
    add.s64 %rd7, %rd2, %rd5;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%rd6];
    ld.global.v4.b32 {{%y0, %y1, %y2, %y3}}, [%rd7];
    {product.opcode} {{{d}}}, {{%x0, %x1, %x2, %x3}}, {{%y0, %y1}}, {{{c}}};
{"".join(f"    xor.b32 %s{i}, %s{i}, %d{i};" for i in range(n))}
    {product.opcode} {{{d}}}, {{%x0, %x1, %x2, %x3}}, {{%y2, %y3}}, {{{c}}};
{"".join(f"    xor.b32 %s{i}, %s{i}, %d{i};" for i in range(n))}
    add.u32 %r4, %r4, 1;
    setp.lt.u32 %p, %r4, %r1;
    @%p bra LOOP;
    mul.wide.u32 %rd8, %r3, 512;
    add.s64 %rd9, %rd3, %rd8;
    add.s64 %rd9, %rd9, %rd4;
    st.global.v4.b32 [%rd9+512], {{%s0, %s1, %s2, %s3}};
    ret;
}}
"""


def products(product: Product, kind: str, blocks: int = BLOCKS, turns: int = TURNS) -> Launch:
    """A launch of 2 * blocks * turns instructions."""
    rng = np.random.default_rng(4)
    arrays = [operands(product.format, kind, rng) for _ in range(2)]
    out = np.zeros((blocks + 1) * 512, np.uint8)
    # C: small numbers, in every lane the same four words.
    out[:16] = {"s32": np.array([1, -2, 3, -4], np.int32)}.get(
        product.opcode.rpartition(".")[2],
        np.array([0.5, -1.25, 2, -0.75] * 2, np.float16) if product.c_registers == 2 else np.array([0.5, -1.25, 2, -0.75], np.float32),
    ).view(np.uint8)
    return launch(product_text(product), "products", (blocks,), (32,), pointers(3) + turns.to_bytes(4, "little"), [*arrays, out])


APPROXIMATIONS = (
    "ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "rcp.approx.ftz.f32", "rsqrt.approx.ftz.f32", "sqrt.approx.ftz.f32", "sin.approx.ftz.f32",
    "cos.approx.ftz.f32", "tanh.approx.f32",
)  # fmt: skip


def approximation_text(opcode: str) -> str:
    """Four evaluations a turn of neighbouring arguments."""
    step = f"    {opcode} %f2, %f1;\n    mov.b32 %r5, %f2;\n    xor.b32 %r6, %r6, %r5;\n    add.f32 %f1, %f1, %f3;\n"
    return f""".visible .entry approximate(.param .u64 x, .param .u64 y, .param .u32 turns)
{{
    .reg .pred %p;
    .reg .b32 %r<10>;
    .reg .f32 %f<6>;
    .reg .b64 %rd<6>;
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [y];
    ld.param.u32 %r1, [turns];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.u32 %r4, %r2, %r3, %r4;
    mul.wide.u32 %rd3, %r4, 4;
    add.s64 %rd4, %rd1, %rd3;
    add.s64 %rd5, %rd2, %rd3;
    ld.global.f32 %f1, [%rd4];
    mov.f32 %f3, 0f3C23D70A;
    mov.b32 %r6, 0;
    mov.u32 %r7, 0;
LOOP:
{step * 4}    add.u32 %r7, %r7, 1;
    setp.lt.u32 %p, %r7, %r1;
    @%p bra LOOP;
    st.global.b32 [%rd5], %r6;
    ret;
}}
"""


def approximations(opcode: str, threads: int = 1 << 14, turns: int = 128) -> Launch:
    """A launch of 4 * threads * turns evaluations of arguments from 0.5 to 9."""
    rng = np.random.default_rng(5)
    arrays: list[NDArray] = [rng.uniform(0.5, 4, threads).astype(np.float32), np.zeros(threads, np.uint32)]
    text = approximation_text(opcode)
    return launch(text, "approximate", (threads // 256,), (256,), pointers(2) + turns.to_bytes(4, "little"), arrays)


def best_seconds(run: Launch, profile: str, repeats: int) -> float:
    """The shortest of several runs on one thread, in seconds of the processor: others may use it too."""
    prepare(run.program, profile)
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        execute(run, "warp", profile, threads=1)
        best = min(best, time.process_time() - start)
    return best


def measure(profile: str, repeats: int = 3, scale: int = 1) -> dict[str, list[dict[str, Any]]]:
    """Rows of millions a second. ``scale`` divides the work (for trials)."""
    rows = []
    for product in PRODUCTS:
        row: dict[str, Any] = {"instruction": product.opcode.removeprefix("mma.sync.aligned.")}
        for kind in CLASSES[:2] if product.format == "s8" else CLASSES:
            turns = TURNS // scale
            row[f"{kind} M/s"] = 2 * BLOCKS * turns / best_seconds(products(product, kind, turns=turns), profile, repeats) / 1e6
        if product.aim:
            row |= {"aim M/s": product.aim, "aim typical M/s": product.aim_typical}
        rows.append(row)
    functions = []
    for opcode in APPROXIMATIONS:
        turns = 128 // scale
        seconds = best_seconds(approximations(opcode, turns=turns), profile, repeats)
        functions.append({"function": opcode, "M/s": 4 * (1 << 14) * turns / seconds / 1e6, "aim M/s": 300})
    return {"tensor": rows, "approximations": functions}
