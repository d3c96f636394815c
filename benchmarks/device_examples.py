"""The instruction table against a GPU: every instruction that computes from registers, on hostile operands, bit for bit.

Invariant: nothing is left out silently: what the assembler refuses, what the CPU's instance cannot do and every example of the table is counted in
the report. ``python -m benchmarks.device_examples`` runs and compares; ``--check`` assembles only and needs no GPU.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import device, recording
from benchmarks.example_cases import HEADER, SM, Case, Slot, cases, forms, kernel
from ptxgraft.errors import DeviceError, UsageError
from ptxgraft.graft import check
from ptxgraft.isa import Form, form_of
from ptxgraft.lower.numpy_lanes import DTYPES, NumpyLanes

PROFILE = f"sm_{SM}"
CHUNK = 40
BLOCK = 256
SHOWN = 4
"""Differences quoted for each case."""
_LINE = re.compile(r", line (\d+); (?:error|fatal) *: *(.*)")


@dataclass(slots=True)
class Prepared:
    """A chunk of forms, ready to run: the cubin of those cases that assemble, what the CPU says about them, and what could not be done."""

    cubin: bytes = b""
    names: list[tuple[str, str, str]] = field(default_factory=list)  # entry, opcode, case key
    expected: dict[str, NDArray[np.uint64]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


# -- assembling -------------------------------------------------------------------------------------------------------
def find_ptxas() -> str:
    """The assembler that $PTXAS names, else the one that the package uses. Raises ``UsageError``."""
    found = os.environ.get("PTXAS") or check.find_ptxas()
    if found is None:
        raise UsageError("there is no ptxas", hint="install the dev extra, or name one in PTXAS")
    return str(found)


def assemble(entries: Sequence[tuple[str, list[str]]], ptxas: str) -> tuple[bytes, dict[str, str]]:
    """A cubin of those named entries (name, lines) that assemble, and the message for each that does not."""
    waiting, refused = list(entries), {}
    while waiting:
        text = HEADER.splitlines()
        owner = [""] * len(text)
        for name, lines in waiting:
            text += lines
            owner += [name] * len(lines)
        cubin, log = _ptxas("\n".join(text) + "\n", ptxas)
        if cubin is not None:
            return cubin, refused
        wrong = {owner[int(line) - 1]: message for line, message in reversed(_LINE.findall(log))}
        wrong.pop("", None)
        if not wrong:  # a message without a line: try the entries one at a time
            if len(waiting) > 1:
                for entry in waiting:
                    refused |= assemble([entry], ptxas)[1]
                waiting = [e for e in waiting if e[0] not in refused]
                continue
            wrong = {waiting[0][0]: log.strip().splitlines()[0] if log.strip() else "no message"}
        refused |= wrong
        waiting = [e for e in waiting if e[0] not in refused]
    return b"", refused


def _ptxas(text: str, ptxas: str) -> tuple[bytes | None, str]:
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "k.ptx"), Path(folder, "k.cubin")
        source.write_text(text)
        done = subprocess.run([ptxas, f"-arch=sm_{SM}", str(source), "-o", str(target)], capture_output=True, text=True)
        return (target.read_bytes() if done.returncode == 0 else None), done.stdout + done.stderr


# -- the CPU's answer -------------------------------------------------------------------------------------------------
def _flat(result: Any) -> Iterator[Any]:
    if isinstance(result, tuple | list):
        for part in result:
            yield from _flat(part)
    else:
        yield result


def _arguments(case: Case, shape: tuple[int, int]) -> list[Any]:
    """The meaning's inputs, in role order."""
    values: list[Any] = []
    word = 0
    for slot in case.ins:
        if slot.register == 128:
            pair = np.zeros(case.rows, DTYPES[128])
            pair["lo"], pair["hi"] = case.inputs[word], case.inputs[word + 1]
            values.append(pair.reshape(shape))
            word += 2
        else:
            bits = case.inputs[word] & np.uint64((1 << slot.width) - 1)
            values.append(bits.astype(DTYPES[slot.width]).reshape(shape))
            word += 1
    arguments: list[Any] = []
    rest = iter(values)
    for role in case.form.roles:
        if role.kind not in ("in", "inout"):
            continue
        if case.literal is not None and role.name == "table":
            arguments.append(np.full((1, 1), case.literal, DTYPES[32]))
        elif case.absent and role.optional:
            arguments.append(None)
        elif role.count > 1:
            arguments.append(tuple(next(rest) for _ in range(role.count)))
        else:
            arguments.append(next(rest))
    return arguments


class _FullWarps:
    """The machine behind a case: every lane is active, and knows its number."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.active = np.ones(shape, bool)

    def special(self, name: str) -> NDArray[np.uint32]:
        if name != "laneid":
            raise UsageError(f"a case cannot depend on %{name}")
        return np.broadcast_to(np.arange(32, dtype=np.uint32), self.active.shape)

    def __getattr__(self, name: str) -> Any:
        raise UsageError(f"a case has registers alone, no {name}")


def expected(case: Case) -> NDArray[np.uint64]:
    """What the NumPy instance computes, as the kernel would store it: uint64[words, rows]."""
    form = case.form
    shape = (case.rows // 32, 32) if form.convergent else (1, case.rows)
    assert form.meaning is not None
    results = list(_flat(form.meaning(NumpyLanes(PROFILE, _FullWarps(shape)), *_arguments(case, shape), **form.options)))
    rows: list[NDArray[np.uint64]] = []
    for slot, result in zip(case.outs, results, strict=True):
        rows += _stored(slot, np.broadcast_to(result, shape).reshape(-1))
    return np.stack(rows)


def _stored(slot: Slot, result: NDArray) -> list[NDArray[np.uint64]]:
    if slot.register == 128:
        return [result["lo"].copy(), result["hi"].copy()]
    assert slot.role.type is not None
    if slot.role.type.signed and slot.register > slot.width:  # an output is extended to its register
        wide = result.view(f"i{result.dtype.itemsize}").astype(np.int64).view(np.uint64)
        return [wide & np.uint64((1 << slot.register) - 1)]
    return [result.astype(np.uint64)]


def prepare(chunk: Sequence[str], ptxas: str, compute: bool = True) -> Prepared:
    """Assemble all cases of some opcodes, and (``compute``) run them on the CPU."""
    made = Prepared()
    entries = []
    for number, case in enumerate(c for opcode in chunk for c in cases(_form(opcode))):
        name = f"k{number}"
        made.names.append((name, case.form.opcode, case.key))
        entries.append((name, kernel(case, name)))
        if compute:
            try:
                made.expected[case.key] = expected(case)
            except Exception as error:  # a meaning that does not run is a result of this benchmark, not its end
                made.failed[case.key] = f"{type(error).__name__}: {error}"
    made.cubin, refused = assemble(entries, ptxas)
    keys = {name: key for name, _, key in made.names}
    made.refused = {keys[name]: message for name, message in refused.items()}
    return made


def _form(opcode: str) -> Form:
    form = form_of(opcode)
    assert form is not None
    return form


# -- the comparison ---------------------------------------------------------------------------------------------------
@dataclass(slots=True)
class Report:
    """Counts by family and root; ``differing`` by case key: rows compared and differing, and the first differences in words."""

    totals: dict[str, dict[str, int]] = field(default_factory=dict)
    differing: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    examples: dict[str, Any] = field(default_factory=lambda: {"compared": 0, "differing": []})

    def merge(self, other: Report) -> None:
        """Add another report's counts."""
        for key, row in other.totals.items():
            total = self.totals.setdefault(key, dict.fromkeys(row, 0))
            for name, number in row.items():
                total[name] += number
        self.differing |= other.differing
        self.faults |= other.faults
        self.examples["compared"] += other.examples["compared"]
        self.examples["differing"] += other.examples["differing"]

    def add(self, case: Case, want: NDArray[np.uint64], got: NDArray[np.uint64]) -> None:
        """Count one case."""
        wrong = np.flatnonzero((want != got).any(axis=0))
        total = self.totals.setdefault(f"{case.form.family}/{case.form.root}", {"cases": 0, "compared": 0, "differing": 0})
        total["cases"] += 1
        total["compared"] += case.rows
        total["differing"] += len(wrong)
        if len(wrong):
            self.differing[case.key] = {
                "compared": case.rows,
                "differing": len(wrong),
                "first": [describe(case, want, got, int(r)) for r in wrong[:SHOWN]],
            }
        for first, _, outputs in case.examples:
            self.examples["compared"] += 1
            bits = [int(b) & ((1 << s.width) - 1) for b, s in zip(outputs, case.outs, strict=False)]
            have = [int(v) & ((1 << s.width) - 1) for v, s in zip(got[:, first], case.outs, strict=False)]
            if len(bits) == len(case.outs) and bits != have:
                self.examples["differing"].append(f"{case.key}: the table says {[hex(b) for b in bits]}, the GPU {[hex(b) for b in have]}")


def describe(case: Case, want: NDArray[np.uint64], got: NDArray[np.uint64], row: int) -> str:
    """One difference: inputs, what the GPU gave, what the CPU gives."""
    hexed = [[f"{int(v):#x}" for v in a[:, row]] for a in (case.inputs, got, want)]
    return f"{', '.join(hexed[0])}: GPU {', '.join(hexed[1])}; CPU {', '.join(hexed[2])}"


def run_case(card: device.Device, module: Any, name: str, case: Case) -> NDArray[np.uint64]:
    """Run one kernel; uint64[words, rows]."""
    rows = case.rows
    inputs = card.buffer(case.inputs)
    outputs = card.buffer(np.full(case.out_words * rows, 0xCCCC_CCCC_CCCC_CCCC, np.uint64))
    args = struct.pack("<QQI", inputs.address, outputs.address, rows)
    card.start(module, name, (-(-rows // BLOCK), 1, 1), (BLOCK, 1, 1), args)
    got = card.read(outputs.address, outputs.size).view(np.uint64).reshape(case.out_words, rows)
    card.free()
    return got


_CARD: list[device.Device] = []
"""The worker's device, opened at its first chunk."""


def compare(prepared: Prepared) -> tuple[Report, list[str]]:
    """Run a chunk's cases on the card and count what differs; also the keys that were not reached, because the last one run was a fault.

    A fault spoils the whole process for the driver: it has to end, and the rest goes to another one.
    """
    if not _CARD:
        _CARD.append(device.Device().__enter__())
    card, report = _CARD[0], Report()
    waiting = [(n, o, k) for n, o, k in prepared.names if k in prepared.expected and k not in prepared.refused]
    for position, (name, opcode, key) in enumerate(waiting):
        case = next(c for c in cases(_form(opcode)) if c.key == key)
        try:
            got = run_case(card, card.module(prepared.cubin), name, case)
        except DeviceError as error:
            report.faults[key] = str(error)
            return report, [k for _, _, k in waiting[position + 1 :]]
        report.add(case, prepared.expected[key], got)
    return report, []


def on_card(chunks: Iterable[Prepared]) -> Report:
    """Compare all chunks, in a process of its own for the driver, in a new one after each fault."""
    total = Report()
    pool = _one_process()
    for prepared in chunks:
        total.refused |= prepared.refused
        total.failed |= prepared.failed
        while prepared.expected and prepared.cubin:
            report, left = pool.submit(compare, prepared).result()
            total.merge(report)
            if report.faults:
                pool.shutdown()
                pool = _one_process()
            prepared.expected = {k: v for k, v in prepared.expected.items() if k in left}
    pool.shutdown()
    return total


def _one_process() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the instruction table with a GPU, bit for bit.")
    parser.add_argument("roots", nargs="*", help="first words of the opcodes to take, e.g. cvt fma; all by default")
    parser.add_argument("--check", action="store_true", help="assemble and compute on the CPU only")
    parser.add_argument("--no-compute", action="store_true", help="with --check: assemble only")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    recording.add_options(parser)
    options = parser.parse_args()
    opcodes = [f.opcode for f in forms() if not options.roots or f.root in options.roots]
    if not opcodes:
        raise UsageError(f"no instruction starts with {', '.join(options.roots)}")
    chunks = [opcodes[i : i + CHUNK] for i in range(0, len(opcodes), CHUNK)]
    report = Report()
    result: dict[str, Any] = {"profile": PROFILE, "opcodes": len(opcodes)}
    work = partial(prepare, ptxas=find_ptxas(), compute=not options.no_compute)
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        if options.check:
            for prepared in pool.map(work, chunks):
                report.refused |= prepared.refused
                report.failed |= prepared.failed
        else:
            with device.Device() as card:
                result |= recording.card(card)
            report = on_card(pool.map(work, chunks))
            if not report.totals:
                raise DeviceError("nothing was compared")
    cases_ = sum(t["cases"] for t in report.totals.values())
    compared = sum(t["compared"] for t in report.totals.values())
    differing = sum(t["differing"] for t in report.totals.values())
    result |= {"cases": cases_, "compared": compared, "differing": differing, "examples": report.examples, "by_root": report.totals}
    result |= {"differences": report.differing, "refused_by_ptxas": report.refused, "not_computed": report.failed, "faults": report.faults}
    show(result)
    recording.record("device_examples", result, options)


def show(result: dict[str, Any]) -> None:
    """Print the report."""
    for key, row in result["by_root"].items():
        if row["differing"]:
            print(f"{key:28} {row['cases']:5} cases {row['compared']:9,} rows {row['differing']:8,} differ")
    for key, row in result["differences"].items():
        print(f"{key}: {row['differing']:,} of {row['compared']:,} rows differ")
        for line in row["first"]:
            print(f"    {line}")
    for key, message in result["refused_by_ptxas"].items():
        print(f"refused by ptxas: {key}: {message}")
    for key, message in result["not_computed"].items():
        print(f"not computed: {key}: {message}")
    for key, message in result["faults"].items():
        print(f"fault on the GPU: {key}: {message}")
    for line in result["examples"]["differing"]:
        print(f"example: {line}")
    print(f"{result['opcodes']:,} opcodes, {result['cases']:,} cases, {result['compared']:,} rows compared, {result['differing']:,} differ; "
          f"{result['examples']['compared']:,} examples compared, {len(result['examples']['differing'])} differ; "
          f"{len(result['refused_by_ptxas'])} cases refused, {len(result['not_computed'])} not computed, {len(result['faults'])} faults")  # fmt: skip


if __name__ == "__main__":
    main()
