"""Verdicts and what explains them.

Invariant: a verdict says how many bytes it rests on; 'same' is never said of nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

SAME, DIFFERS, NOT_COMPARABLE = "same", "differs", "not comparable"


@dataclass(slots=True)
class Writer:
    """The store that made a byte. ``block`` is the block's coordinates, ``lane`` counts in the warp; ``line`` is the 1-based line of the module that ran;
    ``phases`` are the phases whose D values flow into the store other than through a later phase, in program order."""

    block: tuple[int, int, int]
    warp: int
    lane: int
    line: int
    statement: str
    phases: list[int]

    @property
    def lane_text(self) -> str:
        """Which lane stored, in words."""
        return f"block {self.block} warp {self.warp} lane {self.lane}"

    def __str__(self) -> str:
        return f"{self.lane_text} at line {self.line}: {self.statement}"


@dataclass(slots=True)
class Difference:
    """The first differing byte of an output. ``offset`` counts bytes in the output; ``element`` names the element it lies in.

    ``expected`` and ``found`` are the element's bytes in hexadecimal, lowest address first. ``writer`` is the store of the run that is judged,
    ``expected_writer`` that of the reference; None: nothing stored there, or nobody asked (``explained`` tells).
    """

    output: str
    offset: int
    element: str
    expected: str
    found: str
    writer: Writer | None = None
    expected_writer: Writer | None = None
    explained: bool = False

    @property
    def phase(self) -> int | None:
        """The last phase that the value descends from, by the run that is judged, else by the reference."""
        for writer in (self.writer, self.expected_writer):
            if writer is not None and writer.phases:
                return writer.phases[-1]
        return None

    def __str__(self) -> str:
        text = f"{self.output}, {self.element} (byte {self.offset}): expected bytes {_spaced(self.expected)}, found {_spaced(self.found)}"
        if self.writer is not None and self.expected_writer is not None:
            by = f", by {self.expected_writer.lane_text}" if self.expected_writer.lane_text != self.writer.lane_text else ""
            where = f"line {self.writer.line} of the graft (line {self.expected_writer.line} of the original{by})"
            text += f"; stored by {self.writer.lane_text} at {where}: {self.writer.statement}"
        elif self.writer is not None:
            text += f"; stored by {self.writer}"
        elif self.explained:
            text += "; nothing was stored there"
            if self.expected_writer is not None:
                text += f", the reference stores it by {self.expected_writer}"
        if self.phase is None:
            return text
        return f"{text}; descends from phase {self.phase}{'' if self.writer is not None and self.writer.phases else ' of the original'}"


def _spaced(digits: str) -> str:
    """Bytes one by one, so that nobody reads them as one number."""
    return " ".join(digits[i : i + 2] for i in range(0, len(digits), 2))


@dataclass(slots=True)
class OutputResult:
    """One output's share of a verdict."""

    output: str
    bytes_compared: int
    bytes_differing: int


@dataclass(slots=True)
class Verdict:
    """``verdict`` is ``same``, ``differs`` or ``not comparable`` (``why`` says the reason).

    ``tolerance`` is None for the exact comparison of bytes; else ``values`` says what buffers were read as, and ``drowned`` names the outputs none of whose
    expected values is larger than the tolerance: any small values would pass there. ``poisoned`` names the outputs that held a poison pattern before both
    runs, so that a byte which only one of them writes shows. ``notes`` say where the two sides ran, when that was not one place.
    """

    verdict: str
    bytes_compared: int
    bytes_differing: int
    first: Difference | None = None
    outputs: list[OutputResult] = field(default_factory=list)
    why: str = ""
    tolerance: float | None = None
    values: str = ""
    warnings: list[str] = field(default_factory=list)
    poisoned: list[str] = field(default_factory=list)
    drowned: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 same, 1 differs, 2 not comparable."""
        return {SAME: 0, DIFFERS: 1}.get(self.verdict, 2)

    def __str__(self) -> str:
        if self.verdict == NOT_COMPARABLE:
            return f"not comparable: {self.why}"
        how = "" if self.tolerance is None else f" within a tolerance of {self.tolerance:g} (buffers read as {self.values})"
        if self.drowned:
            how += f", which is not below any expected value of {', '.join(self.drowned)} and so says nothing there"
        if self.verdict == SAME:
            return f"same{how}: {self.bytes_compared:,} bytes compared, {self.bytes_differing:,} differing"
        return f"differs{how}: {self.bytes_differing:,} of {self.bytes_compared:,} bytes; first: {self.first}"


@dataclass(slots=True)
class StatementDifference:
    """The first statement whose result differs. ``line`` and ``statement`` are the original's, ``graft_line`` and ``graft_statement`` the graft's; ``in_loop``: the
    values are those of its last pass. The rest as in ``Bisection``."""

    line: int
    graft_line: int
    statement: str
    graft_statement: str
    in_loop: bool
    register: str
    block: tuple[int, int, int]
    warp: int
    lane: int
    expected: int | None
    found: int | None
    values_differing: int

    def __str__(self) -> str:
        where = f"line {self.line}" if self.graft_line == self.line else f"line {self.line} (line {self.graft_line} of the graft)"
        other = "" if self.graft_statement == self.statement else f", in the graft `{self.graft_statement}`"
        loop = ", in a loop, by its last pass" if self.in_loop else ""
        place = f"register {self.register}, block {self.block} warp {self.warp} lane {self.lane}"
        return f"{where}{loop}: `{self.statement}`{other}: {place}: {_values(self.expected, self.found)}; {self.values_differing} values differ"


def _values(expected: int | None, found: int | None) -> str:
    shown = [f"{v:#x}" if v is not None else "nothing, the lane never came there" for v in (expected, found)]
    return f"expected {shown[0]}, found {shown[1]}"


@dataclass(slots=True)
class Bisection:
    """The first stage at which two programs differ. ``stage`` is None when no stage does; ``line`` is the stage's line in the original.

    ``register``, ``block``, ``warp``, ``lane``, ``expected`` and ``found`` are the first differing value there (None: that lane stored nothing);
    ``checked`` lists the stages compared, ``skipped`` those that one of the two does not have, with the reason. ``outputs`` is what the two runs left,
    compared. ``statement`` is the first statement whose result differs, behind the last stage that is the same; None where none of the
    ``statements_compared`` does (code that only one of the two has cannot be compared). ``notes`` say where the two ran, when that was not one place.
    """

    stage: str | None
    line: int | None = None
    register: str = ""
    block: tuple[int, int, int] = (0, 0, 0)
    warp: int = 0
    lane: int = 0
    expected: int | None = None
    found: int | None = None
    values_differing: int = 0
    checked: list[str] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    outputs: Verdict | None = None
    statement: StatementDifference | None = None
    statements_compared: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 when neither a stage nor a statement nor an output differs, else 1."""
        same = self.stage is None and self.statement is None and (self.outputs is None or self.outputs.verdict == SAME)
        return 0 if same else 1

    def __str__(self) -> str:
        return f"{self._stage_text()}{self._statement_text()}"

    def _stage_text(self) -> str:
        if self.stage is not None:
            return (
                f"first differs at stage {self.stage} (line {self.line}): register {self.register}, block {self.block} warp {self.warp} lane {self.lane}: "
                f"{_values(self.expected, self.found)}; {self.values_differing} values of the stage differ"
            )
        shown = self.checked if len(self.checked) <= 4 else [*self.checked[:3], "...", self.checked[-1]]
        text = f"no stage differs ({len(self.checked)} compared: {', '.join(shown)})" if self.checked else "there are no stages"
        if self.outputs is None or self.outputs.verdict == SAME:
            return text
        return (
            f"{text}, but the outputs do: no register of a stage holds what differs" if self.checked else f"{text}, and the outputs differ"
        )

    def _statement_text(self) -> str:
        if self.statement is not None:
            return f"; the first statement whose result differs ({self.statements_compared} compared) is {self.statement}"
        if not self.statements_compared:
            return ""
        return f"; none of the {self.statements_compared} statements there that both have gives another result"
