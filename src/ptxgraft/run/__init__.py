"""Launches and the executors that run them.

Invariant: every executor is reached through ``execute`` and leaves the same bytes behind; a kernel's fault is an exception, never a signal.
"""

from __future__ import annotations

from ptxgraft.run.execution import DEFAULT_PROFILE, ENGINES, EXECUTORS, execute
from ptxgraft.run.images import HostImages, Sampler, Surface, Texture
from ptxgraft.run.kernel import Kernel, Module, load
from ptxgraft.run.launch import STACK_BYTES, Launch
from ptxgraft.run.memory import Allocation, Memory, allocate
from ptxgraft.run.recording import Assume, Snapshot, capture_of, launch_from_capture, snapshot
from ptxgraft.run.result import RunResult, StoreRecord, Watch

__all__ = [
    "DEFAULT_PROFILE", "ENGINES", "EXECUTORS", "STACK_BYTES", "Allocation", "Assume", "HostImages", "Kernel", "Launch", "Memory", "Module", "RunResult", "Sampler", "Snapshot", "StoreRecord", "Surface", "Texture",
    "Watch", "allocate", "capture_of", "execute", "launch_from_capture", "load", "snapshot",
]  # fmt: skip
