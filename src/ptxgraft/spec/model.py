"""The layer spec: what one tensor-core kernel consists of, as plain data.

Invariant: everything here is a dataclass of numbers, names and lists, so that it prints, compares and turns into JSON as it is. Lines are
1-based file lines, offsets and sizes are bytes; ``first`` and ``last`` count instructions of the bound program, inclusive.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class ParamSpec:
    """A kernel parameter. ``use`` says what it is for: ``weights``, ``buffer``, ``texture``, ``surface``, ``value`` or ``unused``."""

    name: str
    type: str
    offset: int
    size: int
    use: str


@dataclass(slots=True)
class SharedSpec:
    """A shared array. Lines of its first and last store and load, None where there is none."""

    name: str
    offset: int
    size: int
    align: int
    first_store: int | None = None
    last_store: int | None = None
    first_load: int | None = None
    last_load: int | None = None
    dynamic: bool = False


@dataclass(slots=True)
class Region:
    """A run of instructions. ``statements`` counts them; ``mma`` the tensor-core ones among them."""

    first: int
    last: int
    first_line: int
    last_line: int
    statements: int
    mma: int


@dataclass(slots=True)
class Provenance:
    """Where a fragment comes from. ``kind``: weights, shared, chain, constant, input, computed.

    ``offset`` is the byte offset within the weight image, the shared array or the buffer for the first lane of the first warp where all
    that is known, else None; ``base`` names the array, parameter or source; ``lanes`` says how the offset moves with the thread, or ''.
    ``phase`` and ``mma`` locate the earlier D of a chain.
    """

    kind: str
    base: str = ""
    offset: int | None = None
    lanes: str = ""
    phase: int | None = None
    mma: int | None = None

    def __str__(self) -> str:
        if self.kind in ("weights", "shared"):
            where = f"{self.base}" if self.kind == "shared" and self.base else self.kind
            return f"{where}+{self.offset:#x}" if self.offset is not None else f"{where}+?"
        if self.kind == "chain":
            return f"chain(p{self.phase}.{self.mma})"
        if self.kind == "constant":
            return f"constant({self.base})"
        return f"{self.kind}({self.base})" if self.base else self.kind


@dataclass(slots=True)
class FragmentSpec:
    """One distinct operand of a phase, in first-use order. ``first_use`` and ``uses`` count the phase's mma from 0."""

    registers: tuple[str, ...]
    provenance: Provenance
    first_use: int
    uses: int
    line: int | None = None


@dataclass(slots=True)
class Epilogue:
    """What stands between one phase and the next. ``counts`` are instructions by kind, ``idioms`` what they amount to."""

    instructions: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    idioms: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Phase:
    """A maximal run of tensor-core instructions. ``tiles`` are (m, n, k) counts of mma tiles, or None where the run is no full product.

    ``weight_ranges`` are half-open byte ranges of the weight image that the phase's fragments are read from, merged, over all lanes and warps.
    ``computed_ranges`` are those of weights that reach its fragments through computation first, ``unplaced_loads`` the number of loads from the image
    whose bytes are in neither: their offsets depend on more than the thread (a loop, the block's number). ``live_across`` are registers written before and
    read after the phase; ``epilogue`` is what follows it.
    """

    index: int
    first: int
    last: int
    first_line: int
    last_line: int
    shape: str
    types: dict[str, str]
    mma: int
    tiles: tuple[int, int, int] | None
    a: list[FragmentSpec]
    b: list[FragmentSpec]
    c: list[FragmentSpec]
    d: list[FragmentSpec]
    weight_ranges: list[tuple[int, int]]
    computed_ranges: list[tuple[int, int]]
    unplaced_loads: int
    live_across_registers: int
    live_across_bytes: int
    epilogue: Epilogue


@dataclass(slots=True)
class RegisterSpec:
    """A register of the cut ABI: its name as written and its type."""

    name: str
    type: str


@dataclass(slots=True)
class Abi:
    """What a region needs and gives: registers, shared arrays touched inside it, predicates among its live registers, barriers inside it (lines; a
    replacement must keep them), and what forbids a cut."""

    live_in: list[RegisterSpec]
    live_out: list[RegisterSpec]
    shared: list[str]
    predicates: list[str]
    barriers: list[int]
    refusals: list[str]


@dataclass(slots=True)
class LayerSpec:
    """The spec of one entry. ``region`` and ``abi`` are None for an entry without tensor-core instructions.

    ``block`` is the block shape that thread-dependent offsets were evaluated for, ``block_source`` where it was taken from.
    """

    file: str
    entry: str
    params: list[ParamSpec]
    shared: list[SharedSpec]
    region: Region | None
    phases: list[Phase]
    prologue: Epilogue
    abi: Abi | None
    weight_param: int | None
    block: tuple[int, int, int]
    block_source: str
    notes: list[str]
