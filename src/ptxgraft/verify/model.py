"""Verdicts and what explains them.

Invariant: a verdict says how many bytes it rests on; 'same' is never said of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Writer:
    """The store that made a byte. ``block`` is the block's coordinates, ``lane`` counts in the warp; ``line`` is the 1-based line of the module that ran;
    ``phases`` are the phases whose D values flow into the store, the last one first named."""

    block: tuple[int, int, int]
    warp: int
    lane: int
    line: int
    statement: str
    phases: list[int]


@dataclass(slots=True)
class Difference:
    """The first differing byte of an output. ``offset`` counts bytes in the output; ``element`` names the element it lies in.

    ``expected`` and ``found`` are the element's bytes in hexadecimal, lowest address first. ``writer`` is the store of the run that is judged,
    ``expected_writer`` that of the reference; None: nothing stored there.
    """

    output: str
    offset: int
    element: str
    expected: str
    found: str
    writer: Writer | None = None
    expected_writer: Writer | None = None

    def __str__(self) -> str:
        text = f"{self.output}, {self.element} (byte {self.offset}): expected {self.expected}, found {self.found}"
        if self.writer is not None:
            w = self.writer
            text += f"; stored by block {w.block} warp {w.warp} lane {w.lane} at line {w.line}: {w.statement}"
            if w.phases:
                text += f"; descends from phase {w.phases[-1]}"
        elif self.expected_writer is not None:
            text += "; nothing was stored there"
        return text


@dataclass(slots=True)
class OutputResult:
    """One output's share of a verdict."""

    output: str
    bytes_compared: int
    bytes_differing: int


@dataclass(slots=True)
class Verdict:
    """``verdict`` is ``same``, ``differs`` or ``not comparable`` (``why`` says the reason). ``tolerance`` is None for the exact comparison of bytes."""

    verdict: str
    bytes_compared: int
    bytes_differing: int
    first: Difference | None = None
    outputs: list[OutputResult] = field(default_factory=list)
    why: str = ""
    tolerance: float | None = None
    warnings: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 same, 1 differs, 2 not comparable."""
        return {"same": 0, "differs": 1}.get(self.verdict, 2)

    def __str__(self) -> str:
        if self.verdict == "not comparable":
            return f"not comparable: {self.why}"
        how = "" if self.tolerance is None else f" within a tolerance of {self.tolerance:g}"
        if self.verdict == "same":
            return f"same{how}: {self.bytes_compared:,} bytes compared, {self.bytes_differing:,} differing"
        return f"differs{how}: {self.bytes_differing:,} of {self.bytes_compared:,} bytes; first: {self.first}"


@dataclass(slots=True)
class Bisection:
    """The first stage at which two programs differ. ``stage`` is None when no stage does; ``line`` is the stage's line in the original.

    ``register``, ``block``, ``warp``, ``lane``, ``expected`` and ``found`` are the first differing value there; ``checked`` lists the stages compared,
    ``skipped`` those that one of the two does not have, with the reason.
    """

    stage: str | None
    line: int | None = None
    register: str = ""
    block: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    lane: int = 0
    expected: int = 0
    found: int = 0
    values_differing: int = 0
    checked: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        if self.stage is None:
            return f"no stage differs ({len(self.checked)} compared: {', '.join(self.checked[:3])} ... {self.checked[-1] if self.checked else ''})"
        return (
            f"first differs at stage {self.stage} (line {self.line}): register {self.register}, block {self.block} warp {self.warp} lane {self.lane}: "
            f"expected {self.expected:#x}, found {self.found:#x}; {self.values_differing} values of the stage differ"
        )
