"""``ptxgraft doctor``: what works here, and why not what does not."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess

from rich.console import Group
from rich.text import Text

from ptxgraft import __version__
from ptxgraft.cli.console import JsonFlag, show
from ptxgraft.errors import PtxgraftError
from ptxgraft.graft import find_nvcc, find_ptxas
from ptxgraft.isa import ENTRIES
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.lower.jit import host
from ptxgraft.report import Listing
from ptxgraft.run import cuda
from ptxgraft.run.cache import default_directory
from ptxgraft.run.recorder import find_compiler, find_cupti


def doctor(json: JsonFlag = False) -> None:
    """Say which executors, targets, numerics profiles and tools are available here, and why not where one is not.

    Example: ptxgraft doctor
    """
    executors, targets, profiles, tools = _executors(), _targets(), _profiles(), _tools()
    views = []
    for title, rows in (("executors", executors), ("targets", targets), ("numerics profiles", profiles), ("tools", tools)):
        view = Listing("name", "available", "why", title=title)
        for name, row in rows.items():
            view.add_row(name, "yes" if row["available"] else "no", row["why"])
        views += [view, Text()]
    declared = sum(len(rows) for rows in ENTRIES.values())
    meant = sum(e.meaning is not None for rows in ENTRIES.values() for e in rows)
    here = {
        "version": __version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
        "cpu": host().cpu,
        "cache": str(default_directory()),
    }
    views.append(Text(f"ptxgraft {__version__}, Python {here['python']}, {here['cores']} cores ({here['cpu']}), cache {here['cache']}"))
    views.append(Text(f"instruction table: {declared} declarations, {meant} with a meaning (docs/instructions.md lists them)"))
    data = {
        "host": here,
        "executors": executors,
        "targets": targets,
        "profiles": profiles,
        "tools": tools,
        "instructions": {"declared": declared, "meanings": meant},
    }
    show(Group(*views), data, json)


def _executors() -> dict[str, dict]:
    found = {
        "cpu/warp": {"available": True, "why": f"compiled through LLVM for {host().cpu}"},
        "cpu/numpy": {"available": True, "why": "the reference engine"},
    }
    available, why = cuda.availability()
    found["cuda"] = {"available": available, "why": why}
    found["hip"] = {"available": False, "why": "not built yet"}
    return found


def _targets() -> dict[str, dict]:
    return {
        "ptx": {"available": True, "why": "grafted modules are PTX"},
        "cuda-skeleton": {"available": True, "why": "ptxgraft cut writes CUDA C++ skeletons"},
        "hip-skeleton": {"available": True, "why": "ptxgraft cut writes HIP C++ skeletons"},
        "amdgpu": {"available": False, "why": "native code for other targets is not built yet"},
    }


def _profiles() -> dict[str, dict]:
    """``source`` and ``functions`` say how the bits of tensor cores and of approximate functions are known."""
    rows = {}
    for name, p in PROFILES.items():
        functions = {
            "assumed": "; approximate functions: assumed to be those of sm_90",
            "confirmed": "; approximate functions too",
            "defined": "",
        }[p.functions]
        rows[name] = {"available": True, "why": f"{p.source}: {p.what}{functions}", "source": p.source, "functions": p.functions}
    return rows


def _tools() -> dict[str, dict]:
    found = {}
    for name, path in (("ptxas", find_ptxas()), ("nvcc", find_nvcc()), ("nvidia-smi", shutil.which("nvidia-smi"))):
        if path is None:
            found[name] = {
                "available": False,
                "why": "not found" + ("" if name == "nvidia-smi" else " (the PyPI package nvidia-cuda-nvcc has it)"),
            }
        else:
            found[name] = {"available": True, "why": f"{_version(str(path))} at {path}"}
    try:
        found["recorder"] = {"available": True, "why": f"ptxgraft record: {find_compiler()} and {find_cupti()}"}
    except PtxgraftError as error:
        found["recorder"] = {"available": False, "why": str(error)}
    return found


def _version(path: str) -> str:
    try:
        text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return "of unknown version"
    lines = [line for line in text.splitlines() if "release" in line or "version" in line.lower()]
    return lines[-1].strip() if lines else "of unknown version"
