"""Running a launch on an executor of the CPU.

Invariant: surfaces are brought to the executor before a run and back after it, whichever executor runs; a run that faults leaves memory as the fault
found it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptxgraft.errors import UsageError
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.run.launch import Launch
from ptxgraft.run.result import RunResult, Watch

DEFAULT_PROFILE = "sm_90"


def _numpy() -> Callable[..., RunResult]:
    from ptxgraft.run import interpreter

    return interpreter.run


def _warp() -> Callable[..., RunResult]:
    from ptxgraft.run import warp_engine

    return warp_engine.run


ENGINES: dict[str, Callable[[], Callable[..., RunResult]]] = {"warp": _warp, "numpy": _numpy}
"""By name, a function that imports the engine and gives its ``run(launch, profile, step_budget, watch, threads, blocks)``."""


def check_choice(what: str, given: str, known: Sequence[str]) -> None:
    """Raise ``UsageError`` when ``given`` is none of ``known``."""
    if given not in known:
        raise UsageError(f"{what} {given!r} is unknown", hint=f"one of {', '.join(known)}")


def execute(
    launch: Launch,
    engine: str = "warp",
    profile: str = DEFAULT_PROFILE,
    step_budget: int | None = None,
    watch: Sequence[Watch] | None = None,
    threads: int | None = None,
    blocks: Sequence[int] | None = None,
) -> RunResult:
    """Run a launch; its allocations, module variables and surfaces change in place.

    ``step_budget``: statements that one warp may run (None: the engine's own limit). ``watch``: ranges whose stores to record. ``threads``: worker
    threads (None: as many as there are cores). ``blocks``: linear numbers of the blocks to run (None: all).
    Raises ``KernelFault`` for what a kernel may not do, ``UnsupportedError`` for what is known and not supported.
    """
    check_choice("engine", engine, list(ENGINES))
    check_choice("profile", profile, list(PROFILES))
    if step_budget is not None and step_budget < 1:
        raise UsageError(f"a step budget of {step_budget} statements runs nothing", hint="give 1 or more, or None for the engine's own")
    for w in watch or ():
        check_choice("watch kind", w.kind, ("memory", "surface"))
        if w.kind == "surface" and w.address_or_handle not in launch.surfaces:
            raise UsageError(f"{w.address_or_handle:#x} is no surface of this launch")
    run = ENGINES[engine]()
    launch.load_surfaces()
    try:
        return run(launch, profile, step_budget, watch, threads, blocks)
    finally:
        launch.store_surfaces()
