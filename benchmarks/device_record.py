"""Recording real programs on a GPU: an nvcc program with textures and surfaces, PyTorch, Triton; what it costs; and replaying what was recorded.

Invariant: a program's output must be the same with and without recording, and a replay counts every byte that a launch may have written. Run ``python -m
benchmarks.device_record`` on a machine with a GPU, nvcc and PyTorch; ``--check CAP...`` replays captures on the CPU, no GPU needed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks import recording
from ptxgraft import capture
from ptxgraft.errors import PtxgraftError, UsageError
from ptxgraft.graft.check import find_nvcc
from ptxgraft.run import cuda
from ptxgraft.run.recorder import Choice, build_library, find_cupti, record
from ptxgraft.verify import compare, recorded_outputs, replay

HERE = Path(__file__).parent
PROFILE = "sm_90"
SMALL, TIMED = 4096, 256 << 20
"""Bytes of the buffers that tell what a launch and what a byte costs."""

LARGEST_KEPT = 1 << 20
"""Bytes on disk of captures that ``--keep`` packs: larger ones are mostly machine code of others."""


def build(source: str, folder: Path, *options: str) -> Path:
    """A program of ``recorded/``, with machine code and PTX for sm_90; ``options`` are for nvcc."""
    nvcc = shutil.which("nvcc") or find_nvcc()
    if nvcc is None:
        raise UsageError("no nvcc found", hint="put it on PATH")
    made = folder / "-".join([source, *(option.strip("-") for option in options)])
    code = ["-gencode", "arch=compute_90,code=sm_90", "-gencode", "arch=compute_90,code=compute_90"]
    include = Path(str(nvcc)).resolve().parents[1] / "include" / "cccl"
    command = [str(nvcc), "-std=c++17", *code, *options, f"-I{include}", str(HERE / "recorded" / f"{source}.cu"), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise UsageError(f"nvcc cannot compile {source}.cu:\n{done.stdout}{done.stderr}")
    return made


def recorded(command: Sequence[str], target: Path, choice: Choice | None = None) -> tuple[dict[str, Any], str]:
    """Record a program; gives what came of it and what it printed."""
    start = time.perf_counter()
    saved = os.dup(1)
    with tempfile.TemporaryFile() as out:
        os.dup2(out.fileno(), 1)
        try:
            made = record(command, target, choice)
        finally:
            os.dup2(saved, 1)
            os.close(saved)
        out.seek(0)
        printed = out.read().decode(errors="replace")
    row = {
        "exit_code": made.exit_code,
        "launches_seen": made.seen.launches,
        "recorded": made.recorded,
        "incomplete": made.incomplete,
        "seconds": round(time.perf_counter() - start, 3),
        "bytes_on_disk": sum(p.stat().st_size for p in target.rglob("*") if p.is_file()),
        # Programs by name, not by this run's folder.
        "remarks": [remark.replace(f"{target.parent}{os.sep}", "") for remark in made.seen.remarks],
    }
    return row, printed


def program(name: str, command: Sequence[str], folder: Path, choice: Choice | None = None) -> dict[str, Any]:
    """One program alone and recorded, then every launch replayed on the GPU and, where it has PTX, on the CPU."""
    start = time.perf_counter()
    alone = subprocess.run(command, capture_output=True, text=True)
    seconds = round(time.perf_counter() - start, 3)
    if alone.returncode:
        return {"name": name, "failed": alone.stderr[-2000:]}
    row, printed = recorded(command, folder / f"{name}.ptxcap", choice)
    row = {"name": name, "output_unchanged": printed == alone.stdout, "seconds_alone": seconds, **row}
    row["launches"] = replays(folder / f"{name}.ptxcap", ("cuda", "cpu"))
    return row


def fault(folder: Path) -> dict[str, Any]:
    """A program whose last kernel fails: what is recorded all the same."""
    row, _ = recorded([str(build("images", folder)), "fault"], folder / "fault.ptxcap", Choice("fault|together"))
    launches = capture.open_capture(folder / "fault.ptxcap").launches
    return row | {
        "launches": [{"kernel": x.kernel, "notes": x.notes, "after": all(a.after_recorded for a in x.allocations)} for x in launches]
    }


def replays(path: Path, places: Sequence[str]) -> list[dict[str, Any]]:
    """Each launch of a capture on each of ``places``: bytes compared and differing, or why not."""
    rows = []
    for launch in capture.open_capture(path).launches:
        row: dict[str, Any] = {
            "seq": launch.seq,
            "kernel": launch.kernel,
            "ptx": launch.module_hash is not None,
            "binary": launch.binary_hash is not None,
            "bytes": sum(a.size for a in launch.allocations),
            "textures": len(launch.textures),
            "surfaces": len(launch.surfaces),
            "variables": len(launch.variables),
            "notes": launch.notes,
        }
        for place in places:
            if place == "cpu" and not row["ptx"]:
                row[place] = "no PTX"
                continue
            row[place] = _replay(launch, place)
        rows.append(row)
    return rows


def _replay(launch: capture.Launch, place: str) -> Any:
    start = time.perf_counter()
    try:
        ran = replay(launch, on=place, profile=PROFILE)
        expected = recorded_outputs(launch)
        verdict = compare(expected, ran.outputs, names=[o.name for o in expected])
    except PtxgraftError as error:
        return str(error)
    found: dict[str, Any] = {"compared": verdict.bytes_compared, "differing": verdict.bytes_differing}
    if verdict.first is not None:
        found["first"] = (
            f"{verdict.first.output} byte {verdict.first.offset}: {verdict.first.expected} recorded, {verdict.first.found} found"
        )
    return found | {"seconds": round(time.perf_counter() - start, 3)}


def totals(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Over all programs: launches replayed, bytes compared and differing, for each place."""
    found: dict[str, Any] = {}
    for place in ("cuda", "cpu"):
        verdicts = [x[place] for row in rows for x in row.get("launches", ()) if isinstance(x[place], dict)]
        found[place] = {"launches": len(verdicts), **{key: sum(v[key] for v in verdicts) for key in ("compared", "differing")}}
    return found


def cost(folder: Path) -> dict[str, Any]:
    """What recording costs a launch, and a byte, by the program's own clock."""
    timing = build("timing", folder)

    def alone(size: int, launches: int) -> float:
        return float(subprocess.run([str(timing), str(size), str(launches)], capture_output=True, text=True, check=True).stdout)

    found: dict[str, Any] = {}
    for name, size, launches in (("small", SMALL, 300), ("large", TIMED, 4)):
        bare = alone(size, launches) / launches
        _, printed = recorded([str(timing), str(size), str(launches)], folder / "watched.ptxcap", Choice("touch", (1,)))
        target = folder / f"{name}.ptxcap"
        row, printed_all = recorded([str(timing), str(size), str(launches)], target, Choice("touch"))
        each, watched = float(printed_all) / launches, float(printed) / launches
        found[name] = {
            "bytes": size,
            "launches": launches,
            "microseconds_a_launch_alone": round(1e6 * bare, 2),
            "microseconds_a_launch_not_recorded": round(1e6 * watched, 2),
            "microseconds_a_launch_recorded": round(1e6 * each, 2),
            "seconds_of_the_whole_command": row["seconds"],
            "bytes_on_disk": row["bytes_on_disk"],
        }
        if name == "large":
            found[name]["seconds_a_gigabyte_recorded"] = round((each - bare) / (size / 1e9), 3)
        start = time.perf_counter()
        opened = capture.open_capture(target)
        found[name]["seconds_to_open"] = round(time.perf_counter() - start, 4)
        found[name]["launches_recorded"] = len(opened.launches)
        shutil.rmtree(target)
    return found


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """A line for each program, and one for each launch that is not the same everywhere."""
    lines = []
    for row in rows:
        if "failed" in row:
            lines.append(f"{row['name']}: failed: {row['failed']}")
            continue
        head = (
            f"{row['name']}: {row['recorded']} of {row['launches_seen']} launches, {row['incomplete']} incomplete"
            if "recorded" in row
            else row["name"]
        )
        lines.append(head + ("" if row.get("output_unchanged", True) else ", OUTPUT CHANGED"))
        for launch in row["launches"]:
            results = {place: launch[place] for place in ("cuda", "cpu") if place in launch}
            words = [
                f"{place} {r['differing']:,} of {r['compared']:,} bytes differ{': ' + r['first'] if 'first' in r else ''}"
                if isinstance(r, dict)
                else f"{place}: {r}"
                for place, r in results.items()
            ]
            lines.append(f"    {launch['seq']:4} {launch['kernel'][:60]:60} {'; '.join(words)}")
            lines += [f"         note: {note}" for note in launch["notes"]]
    return lines


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Record real programs on a GPU and replay what was recorded.")
    parser.add_argument("--check", nargs="+", type=Path, metavar="CAP", help="replay these captures on the CPU instead")
    parser.add_argument("--keep", type=Path, help="a folder for the captures, packed as captures.tar.gz")
    recording.add_options(parser)
    options = parser.parse_args()
    if options.check:
        rows = [{"name": path.name, "launches": replays(path, ("cpu",))} for path in options.check]
        print("\n".join(summary(rows)))
        recording.record("device_record_cpu", {"profile": PROFILE, "captures": rows}, options)
        return
    with tempfile.TemporaryDirectory(prefix="ptxgraft-record-") as name:
        folder = Path(name)
        print(f"CUPTI {find_cupti()}, library {build_library()}")
        here = HERE / "recorded"
        python = sys.executable
        layers = Choice("gemm|softmax|SoftMax|layer_norm|cutlass|nvjet")
        mapped = ["env", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", python, str(here / "torch_layers.py"), "large"]
        jax = [
            "env",
            "XLA_PYTHON_CLIENT_ALLOCATOR=platform",
            "XLA_FLAGS=--xla_gpu_enable_command_buffer=",
            python,
            str(here / "jax_layers.py"),
        ]
        jobs: list[tuple[str, Sequence[str], Choice | None]] = [
            ("images", [str(build("images", folder))], None),
            ("images_per_thread", [str(build("images", folder, "--default-stream=per-thread"))], None),
            ("driver", [python, str(here / "driver_ptx.py")], None),
            ("torch", [python, str(here / "torch_layers.py")], layers),
            ("triton", [python, str(here / "triton_attention.py")], Choice("^(attention|layer_norm)$")),
            ("cupy", [python, str(here / "cupy_kernels.py")], Choice("^(rotate|lengths)$")),
            ("jax", jax, None),
            ("torch_mapped", mapped, Choice("softmax|SoftMax")),
        ]
        rows: list[dict[str, Any]] = []
        for job, command, choice in jobs:
            try:
                rows.append(program(job, command, folder, choice))
            except PtxgraftError as error:
                rows.append({"name": job, "failed": str(error)})
            print("\n".join(summary(rows[-1:])), flush=True)
            print("\n".join(f"    {remark}" for remark in rows[-1].get("remarks", [])), flush=True)
        card = cuda.card()
        result = {
            "card": card.name,
            "architecture": card.sm,
            "driver": recording.driver_version(),
            "replayed": totals(rows),
            "programs": rows,
        }
        result["fault"] = fault(folder)
        print(json.dumps(result["fault"], indent=1))
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            names = [row["name"] + ".ptxcap" for row in rows if "failed" not in row and row["bytes_on_disk"] < LARGEST_KEPT]
            subprocess.run(["tar", "-C", name, "-czf", str(options.keep / "captures.tar.gz"), *names], check=True)
        with contextlib.suppress(PtxgraftError, subprocess.CalledProcessError):
            result["cost"] = cost(folder)
            print(json.dumps(result["cost"], indent=1))
    recording.record("device_record", result, options)


if __name__ == "__main__":
    main()
