"""What a run gives back, and what it can be asked to watch.

Invariant: records of stores come in the order in which the executor made them.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Watch:
    """Ask for the stores that touch ``size`` bytes from ``offset`` on. ``kind`` is ``memory`` (``address_or_handle`` is an allocation's base or any
    address; offsets count from it) or ``surface`` (a handle; offsets count in the surface's texels as bytes)."""

    kind: str
    address_or_handle: int
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class StoreRecord:
    """One lane's store that touched a watched range. ``index`` is the instruction's, ``block`` the block's coordinates, ``warp`` counts within the block;
    ``offset`` and ``size`` are the whole store's bytes, counted as the watch counts."""

    index: int
    block: tuple[int, int, int]
    warp: int
    lane: int
    kind: str
    address_or_handle: int
    offset: int
    size: int


@dataclass(slots=True)
class RunResult:
    """``engine`` is a CPU engine or ``cuda``; ``profile`` is whose bits came out (of a GPU: its architecture). ``statements`` counts statements that warps ran (a
    warp's statement counts once, however many lanes were active); None: the executor does not count. ``seconds`` is what the kernel took: by the CPU's
    clock, or between two events on the GPU (the launch's own cost in it, which `bench` leaves out). ``output`` is what the kernel printed; on the CPU: by block, by barriers that the warp had passed, by warp, and
    in a warp in the order of printing. ``notes`` are things worth knowing of this run. ``known`` says how the bits of instructions are known that are not confirmed
    on the profile and that the kernel uses: ``literature``, ``assumed``, both, or '' where all are. ``moved`` is what a GPU had elsewhere than the launch: (base address, bytes, address there) of
    memory, (handle, 1, handle there) of images."""

    engine: str
    profile: str
    statements: int | None
    seconds: float
    stores: list[StoreRecord] = field(default_factory=list)
    output: str = ""
    notes: list[str] = field(default_factory=list)
    known: str = ""
    moved: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def executor(self) -> str:
        """``cpu`` or ``cuda``."""
        return "cuda" if self.engine == "cuda" else "cpu"

    def __str__(self) -> str:
        counted = "" if self.statements is None else f"{self.statements:,} statements "
        return f"{counted}on {self.engine} ({self.profile}{self.known and f': {self.known}'}) in {self.seconds:.6f} s"
