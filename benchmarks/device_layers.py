"""The reference layers on a GPU and on both CPU engines: every byte that they write, compared.

Invariant: a result counts all surface and buffer bytes of a launch, written or not, and is an error when there are none. Run
``python -m benchmarks.device_layers``.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import device, recording
from ptxgraft import data
from ptxgraft.errors import DeviceError
from ptxgraft.run.execution import execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.reference import reference_document, reference_launch

PROFILE = "sm_90"
ENGINES = {"enc4": ("warp", "numpy"), "dec0": ("warp", "numpy")}
REPEATS = 10


def contents(launch: Launch) -> dict[str, NDArray[np.uint8]]:
    """Everything a launch can have written, by name: buffers, then surfaces in the order of their arguments."""
    names = data.launch_arguments(launch.program.name)
    found = {allocation.name: allocation.data.copy() for allocation in launch.allocations}
    for offset, surface in zip(names.surfaces, launch.surfaces.values(), strict=True):
        found[f"surface {names.names[offset]}"] = np.ascontiguousarray(surface.array).reshape(-1).view(np.uint8).copy()
    return found


def differing(a: dict[str, NDArray[np.uint8]], b: dict[str, NDArray[np.uint8]]) -> dict[str, int]:
    """Bytes that differ, by name."""
    assert list(a) == list(b) and all(a[n].size == b[n].size for n in a)
    return {name: int(np.count_nonzero(a[name] != b[name])) for name in a}


def layer(card: device.Device, name: str, repeats: int) -> dict[str, Any]:
    """One layer: ``repeats`` runs on the card against each other, the first one against each engine."""
    document = reference_document(name)
    runs = []
    for _ in range(repeats):
        launch = reference_launch(name, document)
        device.execute(card, launch)
        runs.append(contents(launch))
    first = runs[0]
    compared = sum(a.size for a in first.values())
    if not compared or not any(a.any() for n, a in first.items() if n.startswith("surface")):
        raise DeviceError(f"{name}: nothing was written, so nothing can be compared")
    engines = {}
    for engine in ENGINES[name]:
        launch = reference_launch(name, document)
        start = time.perf_counter()
        execute(launch, engine=engine, profile=PROFILE)
        wrong = differing(first, contents(launch))
        engines[engine] = {"differing": sum(wrong.values()), "by_name": wrong, "seconds": round(time.perf_counter() - start, 3)}
    return {
        "bytes_compared": compared,
        "bytes_by_name": {n: a.size for n, a in first.items()},
        "runs": repeats,
        "runs_unlike_the_first": sum(1 for r in runs[1:] if any(differing(first, r).values())),
        "engines": engines,
    }


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare the reference layers on a GPU with the CPU engines.")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    recording.add_options(parser)
    options = parser.parse_args()
    result: dict[str, Any] = {"profile": PROFILE}
    with device.Device() as card:
        result |= recording.card(card)
        result["layers"] = {name: layer(card, name, options.repeats) for name in data.LAYERS}
    result["bytes_compared"] = sum(r["bytes_compared"] * len(r["engines"]) for r in result["layers"].values())
    result["bytes_differing"] = sum(e["differing"] for r in result["layers"].values() for e in r["engines"].values())
    for name, row in result["layers"].items():
        print(f"{name}: {row['bytes_compared']:,} bytes, {row['runs']} runs, {row['runs_unlike_the_first']} of them unlike the first")
        for engine, numbers in row["engines"].items():
            print(f"    {engine:6} {numbers['differing']:,} bytes differ {numbers['by_name']} ({numbers['seconds']} s)")
    recording.record("device_layers", result, options)


if __name__ == "__main__":
    main()
