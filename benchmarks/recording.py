"""Where results go, and what is noted with them.

Invariant: a file under ``results/`` is written only when asked for, and says on what it was measured, when, and from which commit.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"


def add_options(parser: argparse.ArgumentParser) -> None:
    """``--record`` and ``--to``."""
    parser.add_argument("--record", action="store_true", help="write the numbers to benchmarks/results/NAME.json")
    parser.add_argument("--to", type=Path, default=RESULTS, help="another folder for them")


def cpu() -> str:
    """The processor's name."""
    try:
        names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    except OSError:
        names = []
    return f"{names[0] if names else platform.processor() or platform.machine()}, {os.cpu_count()} cores"


def commit() -> str:
    """$PTXGRAFT_COMMIT, or what git says; 'unknown' outside a repository."""
    given = os.environ.get("PTXGRAFT_COMMIT")
    if given:
        return given
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else "unknown"


def card(device: Any) -> dict[str, str]:
    """A device's card and driver, as they go into results."""
    found = device.card
    return {"card": found.name, "architecture": found.sm, "driver": driver_version(), "driver_cuda": found.cuda}


def driver_version() -> str:
    """The version of the kernel's driver, e.g. 580.159.04; '' when it does not say."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text().split()
    except OSError:
        return ""
    return next((w for w in words if w.count(".") >= 1 and w.replace(".", "").isdigit()), "")


def record(name: str, result: dict[str, Any], options: argparse.Namespace) -> None:
    """Write ``result`` to NAME.json when ``--record`` was given."""
    if options.record:
        options.to.mkdir(parents=True, exist_ok=True)
        noted = {
            "benchmark": name,
            "date": datetime.date.today().isoformat(),
            "commit": commit(),
            "cpu": cpu(),
            "load_average": round(os.getloadavg()[0], 1),
        }
        path = options.to / f"{name}.json"
        path.write_text(json.dumps(noted | result, indent=1) + "\n")
        print(f"wrote {path}")
