"""How much memory the main jobs take at their peak.

Invariant: each job runs in a process of its own, whose high-water mark is read at its end; the first row is Python with the package imported.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

_START = "from ptxgraft import data\nfrom ptxgraft.text import Document\nfrom benchmarks.synthetic import ENTRY, module\nimport ptxgraft.spec, ptxgraft.run\n"
_END = "\nprint(next(int(l.split()[1]) for l in open('/proc/self/status') if l.startswith('VmHWM')))"
_RUN = "from ptxgraft.run.reference import reference_launch\nfrom ptxgraft.run.execution import execute\nexecute(reference_launch('{}'), engine='{}')"

JOBS = {
    "package imported": "",
    "parse, 50,000 lines": "d = Document.parse(module(50_000))",
    "spec of enc4": "s = ptxgraft.spec.spec(data.ptx('enc4'))",
    "spec, 50,000 lines": "s = ptxgraft.spec.spec(module(50_000), ENTRY)",
    "spec, 200,000 lines": "s = ptxgraft.spec.spec(module(200_000), ENTRY)",
    "enc4 on numpy": _RUN.format("enc4", "numpy"),
    "enc4 on warp": _RUN.format("enc4", "warp"),
    "dec0 on warp": _RUN.format("dec0", "warp"),
}
"""Python text by what it does. The warp executor's cache is what it is: a compilation counts when it happens."""


def peak_mib(job: str) -> float:
    """The most memory that a new process had while it ran ``job``, in MiB (Linux: VmHWM)."""
    done = subprocess.run([sys.executable, "-c", _START + job + _END], cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"the job failed: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout.split()[-1]) / 1024


def run() -> dict[str, Any]:
    """Every job."""
    rows = [{"job": name, "peak_mib": round(peak_mib(job), 1)} for name, job in JOBS.items()]
    return {"memory": [row | {"above_import_mib": round(row["peak_mib"] - rows[0]["peak_mib"], 1)} for row in rows]}
