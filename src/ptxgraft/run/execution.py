"""Running a launch on an executor: the CPU with one of its engines, or a GPU.

Invariant: every executor takes the same launch and gives the same kind of result; what an executor cannot do is refused, never left out. Surfaces are brought
to the executor before a run and back after it. A run that faults on the CPU leaves memory as the fault found it.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence

from ptxgraft.errors import UnconfirmedWarning, UnsupportedError, UsageError
from ptxgraft.isa.certainty import unconfirmed
from ptxgraft.isa.numerics import PROFILES
from ptxgraft.run import clusters
from ptxgraft.run.launch import Launch
from ptxgraft.run.result import RunResult, Watch

DEFAULT_PROFILE = "sm_90"
EXECUTORS = ("cpu", "cuda")


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
    *,
    on: str = "cpu",
    timeout: float | None = None,
    image: bytes | None = None,
) -> RunResult:
    """Run a launch; its allocations, module variables and surfaces change in place.

    ``on``: ``cpu`` (by ``engine``, with the bits of ``profile``) or ``cuda`` (the first GPU, whose bits are its own). ``timeout``: seconds that a kernel may
    run on a GPU (None: a minute). ``image``: the module as a cubin, for a GPU (None: its driver compiles the PTX). The others are for ``cpu``:
    ``step_budget``: statements that one warp may run (None: the engine's own limit). ``watch``: ranges whose stores to record. ``threads``: worker
    threads (None: as many as there are cores). ``blocks``: linear numbers of the blocks to run (None: all).
    Instructions whose bits are not confirmed on the profile are named in the result's notes and, once a process, by an ``UnconfirmedWarning``.
    Raises ``KernelFault`` for what a kernel may not do, ``UnsupportedError`` for what is known and not supported, ``DeviceError`` when there is no GPU
    or its driver fails.
    """
    check_choice("executor", on, EXECUTORS)
    check_choice("engine", engine, list(ENGINES))
    check_choice("profile", profile, list(PROFILES))
    if step_budget is not None and step_budget < 1:
        raise UsageError(f"a step budget of {step_budget} statements runs nothing", hint="give 1 or more, or None for the engine's own")
    for w in watch or ():
        check_choice("watch kind", w.kind, ("memory", "surface"))
        if w.kind == "surface" and w.address_or_handle not in launch.surfaces:
            raise UsageError(f"{w.address_or_handle:#x} is no surface of this launch")
    if on == "cuda":
        check_cpu_only(step_budget=step_budget, watch=watch, threads=threads, blocks=blocks)
        from ptxgraft.run import cuda

        return cuda.run(launch, image, cuda.DEFAULT_TIMEOUT if timeout is None else timeout)
    if timeout is not None or image is not None:
        raise UsageError("a timeout and a cubin are for a GPU", hint="on='cuda' takes them; on cpu a step budget stops what never ends")
    clusters.check(launch.program)
    run = ENGINES[engine]()
    launch.load_surfaces()
    try:
        result = run(launch, profile, step_budget, watch, threads, blocks)
    finally:
        launch.store_surfaces()
    _tell_unconfirmed(launch, profile, result)
    return result


_told: set[tuple[str, str]] = set()
"""Profiles, and how the bits are known, that this process has been warned of."""


def _tell_unconfirmed(launch: Launch, profile: str, result: RunResult) -> None:
    """Say in the result, and once in a warning, what the program uses whose bits are not confirmed."""
    found = unconfirmed(launch.program, profile)
    result.notes += [text for _, text in found]
    result.known = ", ".join(dict.fromkeys(source for source, _ in found))
    new = [(source, text) for source, text in found if (profile, source) not in _told]
    _told.update((profile, source) for source, _ in new)
    for _, text in new:
        warnings.warn(text, UnconfirmedWarning, stacklevel=_caller())


def _caller() -> int:
    """How many calls above the one that asks the first frame lies that is not this package's: where a warning belongs."""
    level, frame = 0, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == __name__.partition(".")[0]:
        level, frame = level + 1, frame.f_back
    return level + 1


def check_cpu_only(**given: object) -> None:
    """Raise ``UnsupportedError`` for an option that only the CPU's engines have."""
    for name, value in given.items():
        if value is not None:
            raise UnsupportedError(f"a GPU cannot be given {name}", hint="on='cpu' can")
