"""The executor ``cuda``: launches on a GPU, with the same effects as on the CPU.

Invariant: a launch's allocations, module variables and surfaces change in place and nothing else does; when a launch faults or does not end, they are as
they were before it.
"""

from __future__ import annotations

from ptxgraft.errors import DeviceError
from ptxgraft.run.cuda.driver import Card, Device
from ptxgraft.run.cuda.session import Session
from ptxgraft.run.cuda.work import Code, Left, Work, take, work_of
from ptxgraft.run.cuda.worker import DEFAULT_TIMEOUT, borrow, check_package
from ptxgraft.run.launch import Launch
from ptxgraft.run.result import RunResult


def run(
    launch: Launch, image: bytes | None = None, timeout: float | None = DEFAULT_TIMEOUT, fixed: bool = True, ordinal: int = 0
) -> RunResult:
    """Run a launch on a GPU, in a child process.

    ``image`` is its module as another assembler made it, a cubin; None: the driver compiles the module's PTX. ``timeout``: seconds that the kernel may run
    (None: for ever). ``fixed``: memory lies at the launch's own addresses where the driver gives them; what moved is in the result's notes.
    Raises ``KernelFault`` for a kernel that faults or does not end, ``SourceError`` for a module that the driver refuses, ``DeviceError`` when there is
    no GPU or the driver fails.
    """
    code = Code(launch.program.document.data if image is None else image, launch.program.name)
    left, result = run_work(work_of(launch), code, timeout, fixed, ordinal)
    take(launch, left)
    return result


def run_work(
    work: Work, code: Code, timeout: float | None = DEFAULT_TIMEOUT, fixed: bool = True, ordinal: int = 0
) -> tuple[Left, RunResult]:
    """``run`` for a launch as plain data: what it left, and how it ran."""
    with borrow(ordinal) as worker:
        card, _ = worker.ask("card")
        (left, seconds, notes, moved), output = worker.ask("run", work, code, fixed, timeout=timeout)
    return left, RunResult("cuda", card.sm, None, seconds, [], output, [f"ran on {card}", *notes], moved=moved)


def run_here(device: Device, launch: Launch, image: bytes | None = None, fixed: bool = False) -> list[str]:
    """Run a launch in this process, on a device that is open: for many launches of code that is known to end. Gives notes. A fault costs the device."""
    code = Code(launch.program.document.data if image is None else image, launch.program.name)
    with Session(device, work_of(launch), fixed) as session:
        session.launch(code)
        take(launch, session.fetch(code))
        return session.notes


def card(ordinal: int = 0) -> Card:
    """The GPU that launches run on. Raises ``DeviceError`` when there is none."""
    with borrow(ordinal) as worker:
        return worker.ask("card")[0]


def availability() -> tuple[bool, str]:
    """Whether launches can run on a GPU here, and on which, or why not."""
    try:
        check_package()
        return True, str(card())
    except DeviceError as error:
        return False, str(error)
