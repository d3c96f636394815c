"""Every one of the 2**32 arguments of instructions of one 32-bit operand, on a GPU and on the warp engine, compared as bits.

Invariant: an opcode's count is that of the arguments compared, whole chunks of them; a sweep is complete when it says 2**32.
``python -m benchmarks.fuzz_sweep --seconds 100 --record`` goes through the approximate functions and the f32 functions that are rounded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import struct
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import device, recording
from benchmarks.device_examples import PROFILE, find_ptxas
from benchmarks.example_cases import HEADER
from benchmarks.fuzz_device import ptxas_of
from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.isa import bind, form_of
from ptxgraft.run import Launch, allocate, execute
from ptxgraft.text import Document

CHUNK = 1 << 22
CHUNKS = (1 << 32) // CHUNK
BLOCK = 256
_OUT = 1 << 40
SHOWN = 8

APPROXIMATE = (
    "tanh.approx.f32", "sin.approx.f32", "cos.approx.f32", "ex2.approx.f32", "lg2.approx.f32", "rcp.approx.f32", "rsqrt.approx.f32", "sqrt.approx.f32",
    "sin.approx.ftz.f32", "cos.approx.ftz.f32", "ex2.approx.ftz.f32", "lg2.approx.ftz.f32", "rcp.approx.ftz.f32", "rsqrt.approx.ftz.f32",
    "sqrt.approx.ftz.f32", "tanh.approx.f16x2", "ex2.approx.f16x2",
)  # fmt: skip
ROUNDED = (
    "rcp.rn.f32", "sqrt.rn.f32", "rcp.rn.ftz.f32", "sqrt.rn.ftz.f32", "rcp.rz.f32", "sqrt.rp.f32", "cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rna.tf32.f32",
    "cvt.rni.s32.f32", "cvt.rzi.u32.f32", "cvt.rmi.f32.f32", "rcp.rm.ftz.f32", "sqrt.rz.f32", "cvt.rni.s8.f32", "cvt.rpi.ftz.u64.f32",
)  # fmt: skip


def text_of(opcode: str) -> str:
    """A kernel ``k(out, first)``: thread i computes the function of first + i."""
    form = form_of(opcode)
    if form is None or [r.kind for r in form.roles] != ["out", "in"]:
        raise UsageError(f"{opcode} is no instruction of one operand and one result")
    result, argument = (r.type for r in form.roles)
    assert result is not None and argument is not None
    if argument.width != 32:
        raise UsageError(f"{opcode} takes {argument.width} bits, not 32")
    exact = result.width in (32, 64) or "bf16" in opcode.split(".") or result.kind == "f"
    width = result.width if exact else 32
    put = {16: "cvt.u32.u16 %w, %o; st.global.b32 [%out], %w;", 32: "st.global.b32 [%out], %o;", 64: "st.global.b64 [%out], %o;"}[width]
    lines = [
        HEADER + ".visible .entry k(.param .u64 out, .param .u32 first)", "{",
        f".reg .b32 %c, %n, %x, %row, %w; .reg .b64 %out, %at; .reg .b{width} %o;",
        "mov.u32 %c, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %x, %tid.x; mad.lo.u32 %row, %c, %n, %x;",
        f"ld.param.u64 %out, [out]; mul.wide.u32 %at, %row, {max(width, 32) // 8}; add.u64 %out, %out, %at; ld.param.u32 %x, [first]; add.u32 %x, %x, %row;",
        f"{opcode} %o, %x;", put, "ret;", "}",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


@dataclass(slots=True)
class Count:
    """Arguments compared, those that differ, and the first of them (argument, GPU, CPU)."""

    compared: int = 0
    differing: int = 0
    first: list[list[str]] = field(default_factory=list)


class Runner:
    """Runs chunks of sweeps on a GPU (``card`` None: on the NumPy engine in its place)."""

    def __init__(self, card: device.Device | None, ptxas: str) -> None:
        self.card, self.ptxas = card, ptxas
        self.loaded: dict[str, Any] = {}
        self.out: device.Buffer | None = None

    def chunk(self, opcode: str, first: int, rows: int, count: Count) -> None:
        """Compare ``rows`` arguments from ``first`` on."""
        if opcode not in self.loaded:
            text = text_of(opcode)
            cubin, log = ptxas_of(text, self.ptxas)
            if cubin is None:
                raise UsageError(f"ptxas refuses {opcode}: {log.strip()}")
            self.loaded[opcode] = bind(Document.parse(text), "k"), cubin
        program, cubin = self.loaded[opcode]
        size = 8 if "st.global.b64" in program.document.data.decode() else 4
        launch = Launch(
            program, (rows // BLOCK, 1, 1), (BLOCK, 1, 1), struct.pack("<QI", _OUT, first) + bytes(4), allocations=[allocate(_OUT, np.zeros(rows * size, np.uint8))]
        )  # fmt: skip
        execute(launch, engine="warp", profile=PROFILE, threads=1)
        want = launch.allocations[0].data.view(f"u{size}")
        got = self._other(launch, cubin, first, rows, size)
        count.compared += rows
        if not np.array_equal(want, got):
            wrong = np.flatnonzero(want != got)
            count.differing += len(wrong)
            count.first += [[f"{first + int(i):x}", f"{int(got[i]):x}", f"{int(want[i]):x}"] for i in wrong[: SHOWN - len(count.first)]]

    def _other(self, launch: Launch, cubin: bytes, first: int, rows: int, size: int) -> np.ndarray:
        if self.card is None:
            again = Launch(
                launch.program, launch.grid, launch.block, launch.args, allocations=[allocate(_OUT, np.zeros(rows * size, np.uint8))]
            )
            execute(again, engine="numpy", profile=PROFILE)
            return again.allocations[0].data.view(f"u{size}")
        if self.out is None:
            self.out = self.card.buffer(CHUNK * 8)
        args = struct.pack("<QI", self.out.address, first)
        self.card.start(self.card.module(cubin), "k", launch.grid, launch.block, args)
        return self.card.read(self.out.address, rows * size).view(f"u{size}")


def worker(opcodes: tuple[str, ...], next_index: Any, until: float, rows: int, step: int, gpu: bool, path: str) -> None:
    """Take chunks, opcode by opcode, until there are no more."""
    os.environ["PTXGRAFT_CACHE_DIR"] = path + ".code"
    counts: dict[str, Count] = {}
    error = ""

    def take(card: device.Device | None) -> None:
        runner = Runner(card, find_ptxas())
        while time.time() < until:
            with next_index.get_lock():
                index = next_index.value
                next_index.value += 1
            opcode, chunk = divmod(index, CHUNKS // step)
            if opcode >= len(opcodes):
                return
            runner.chunk(opcodes[opcode], chunk * step * CHUNK, rows, counts.setdefault(opcodes[opcode], Count()))

    try:
        if gpu:
            with device.Device() as card:
                take(card)
        else:
            take(None)
    except DeviceError as failed:
        error = str(failed)
    plain = {opcode: [c.compared, c.differing, c.first] for opcode, c in counts.items()}
    Path(path).write_text(json.dumps({"counts": plain, "error": error}))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="All 2**32 arguments of one-operand instructions, on a GPU and on the warp engine.")
    parser.add_argument("opcodes", nargs="*", help="opcodes; by default the approximate functions, then rounded ones")
    parser.add_argument("--seconds", type=float, default=100.0, help="start no chunk after that time")
    parser.add_argument("--rows", type=int, default=CHUNK, help=f"arguments of each chunk of {CHUNK}")
    parser.add_argument("--step", type=int, default=1, help="take each so many-th chunk")
    parser.add_argument("--check", action="store_true", help="the NumPy engine in place of a GPU")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    recording.add_options(parser)
    options = parser.parse_args()
    opcodes = tuple(options.opcodes) or APPROXIMATE + ROUNDED
    for opcode in opcodes:
        text_of(opcode)
    started = time.time()
    context = multiprocessing.get_context("spawn")
    next_index = context.Value("q", 0)
    result: dict[str, Any] = {"profile": PROFILE}
    if not options.check:
        with device.Device() as card:
            result |= recording.card(card)
    sweeps: dict[str, list[Any]] = {}
    errors = []
    with tempfile.TemporaryDirectory() as folder:
        paths = [f"{folder}/{i}.json" for i in range(options.jobs)]
        fixed = (opcodes, next_index, started + options.seconds, options.rows, options.step, not options.check)
        processes = [context.Process(target=worker, args=(*fixed, path)) for path in paths]
        for process in processes:
            process.start()
        for process in processes:
            process.join()
        for path in paths:
            if not Path(path).exists():
                errors.append("a worker died")
                continue
            found = json.loads(Path(path).read_text())
            errors += [found["error"]] if found["error"] else []
            for opcode, (compared, differing, first) in found["counts"].items():
                row = sweeps.setdefault(opcode, [0, 0, []])
                row[0] += compared
                row[1] += differing
                row[2] = (row[2] + first)[:SHOWN]
    for opcode, (compared, differing, first) in sweeps.items():
        print(
            f"{opcode:24} {compared:14,} arguments{' (all)' if compared == 1 << 32 else ''}, {differing:,} differ {first[:3] if differing else ''}"
        )
    for error in errors:
        print(f"error: {error}")
    total, differing = (sum(row[i] for row in sweeps.values()) for i in (0, 1))
    print(f"{total:,} arguments, {differing:,} differ; {time.time() - started:.1f} s")
    result |= {"results": total, "differing": differing, "wall_seconds": round(time.time() - started, 1), "errors": errors}
    result["sweeps"] = {o: {"compared": c, "differing": d, "first": f} for o, (c, d, f) in sweeps.items()}
    recording.record("fuzz_sweep", result, options)


if __name__ == "__main__":
    main()
