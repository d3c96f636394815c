"""The executor ``cuda`` on the reference layers: replay, verify, bisect and bench on a GPU against the CPU.

Invariant: every comparison counts the bytes or stages that it rests on, and is an error when there are none. Run ``python -m benchmarks.device_executor``.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks import recording
from ptxgraft import capture, data, verify
from ptxgraft.errors import DeviceError
from ptxgraft.graft import cut, identity_body
from ptxgraft.run import capture_of, cuda, execute, snapshot
from ptxgraft.run.reference import reference_launch
from ptxgraft.text import Document
from ptxgraft.verify import bench, compare, document_of, recorded_outputs, replay

STYLES = ("inline", "call", "mirror")
REPEATS = 50


def record(folder: Path) -> capture.Capture:
    """Both layers on the small frame, as the CPU leaves them, as a capture on disk."""
    launches = []
    for seq, name in enumerate(data.LAYERS):
        launch = reference_launch(name)
        before = snapshot(launch)
        launches.append(capture_of(launch, before, seq, execute(launch)))
    capture.write(launches, folder / "frame.ptxcap")
    return capture.open_capture(folder / "frame.ptxcap")


def layer(recorded: capture.Launch, repeats: int) -> dict[str, Any]:
    """One layer's rows."""
    document = document_of(recorded)
    row: dict[str, Any] = {"replays": {}}
    for assembler in verify.ASSEMBLERS:
        ran = replay(recorded, on="cuda", assembler=assembler)
        verdict = compare(recorded_outputs(recorded), ran.outputs)
        moved = sum("gave no memory there" in n for n in ran.notes)
        row["replays"][assembler] = {"bytes_compared": verdict.bytes_compared, "bytes_differing": verdict.bytes_differing, "moved": moved}
    grafts = {style: cut(document, recorded.kernel, style=style, body=identity_body(), block=recorded.block).document for style in STYLES}
    judged = verify(recorded, grafts["inline"], on="cuda", against="cpu")
    row["graft_on_gpu_original_on_cpu"] = {"bytes_compared": judged.bytes_compared, "bytes_differing": judged.bytes_differing}
    found = verify.bisect(recorded, document, on="cuda", against="cpu")
    row["bisect"] = {"stages_compared": len(found.checked), "not_compared": len(found.skipped), "first": found.stage}
    modules: list[tuple[str, Document | None]] = [("original", None), *grafts.items()]
    for name, flush in (("flushed", True), ("warm", False)):
        timed = bench(recorded, modules, on="cuda", repeats=repeats, flush_l2=flush)
        row[name] = {
            t.name: {
                "median_us": round(t.median_us, 2),
                "quartiles_us": [round(q, 2) for q in t.quartiles_us],
                "fastest_us": round(t.fastest_us, 2),
                "over_first": round(t.over_first, 4),
                "bytes_differing": 0 if t.outputs is None else t.outputs.bytes_differing,
            }
            for t in timed.timings
        }
    return row


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Replay, verify, bisect and time the reference layers on a GPU.")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    recording.add_options(parser)
    options = parser.parse_args()
    available, why = cuda.availability()
    if not available:
        raise DeviceError(why)
    found = cuda.card()
    result: dict[str, Any] = {"card": found.name, "architecture": found.sm, "driver": recording.driver_version(), "driver_cuda": found.cuda}
    with tempfile.TemporaryDirectory() as folder:
        opened = record(Path(folder))
        result["layers"] = {launch.kernel: layer(launch, options.repeats) for launch in opened.launches}
    for name, row in result["layers"].items():
        print(
            f"{name}: replays {row['replays']}, graft on the GPU against the CPU {row['graft_on_gpu_original_on_cpu']}, bisect {row['bisect']}"
        )
        for cache in ("flushed", "warm"):
            times = [f"{style} {t['median_us']} us ({t['over_first']})" for style, t in row[cache].items()]
            print(f"    {cache}: {', '.join(times)}")
    recording.record("device_executor", result, options)


if __name__ == "__main__":
    main()
