"""The first statement whose result differs, in a stretch of an entry that two versions share.

Invariant: statements are paired in order, those of one opcode or one for one in another's place; every one that both versions have and a probe can follow is compared, in program order; how many
those were is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ptxgraft.errors import UsageError
from ptxgraft.isa import Program
from ptxgraft.verify.model import StatementDifference
from ptxgraft.verify.oracle import Oracle, make_oracle
from ptxgraft.verify.sides import Sides, entry_statements

BATCH = 128
"""Statements that are probed in one run of each side."""
BUFFER_BYTES = 1 << 28
LONGEST = 4000
"""Statements up to which pairs are looked for behind the first one that only one version has."""

Stretch = tuple[float, float]
"""Instruction numbers: behind the first, up to the second."""


@dataclass(slots=True)
class StatementSearch:
    """``compared`` statements were compared; ``first`` is the first that differs, None when none does."""

    compared: int
    first: StatementDifference | None


def first_statement(sides: Sides, mine: Stretch, theirs: Stretch) -> StatementSearch:
    """Probe every statement of a stretch of the original and of the graft's stretch for the same place, and find the first that differs."""
    search = StatementSearch(0, None)
    waiting = _batches(_pairs(sides, mine, theirs))
    for pairs in waiting:
        found = _compared(sides, pairs)
        search.compared += found.compared
        if found.first is not None:
            search.first = found.first
            return search
    return search


Lines = tuple[int, int]


def _pairs(sides: Sides, mine: Stretch, theirs: Stretch) -> list[Lines]:
    """(line of the original, line of the graft) of statements that belong together, in program order, each line once."""
    first, second = entry_statements(sides.mine, *mine), entry_statements(sides.theirs, *theirs)
    pairs: dict[Lines, None] = {}
    for i, j in _aligned(_opcodes(sides.mine, first), _opcodes(sides.theirs, second)):
        pairs[sides.mine.line(first[i]), sides.theirs.line(second[j])] = None
    return list(pairs)


def _opcodes(program: Program, indices: Sequence[int]) -> list[str]:
    return [program.instructions[i].statement.opcode for i in indices]


def _aligned(mine: list[str], theirs: list[str]) -> Iterator[tuple[int, int]]:
    if mine == theirs or max(len(mine), len(theirs)) > LONGEST:
        for number, (a, b) in enumerate(zip(mine, theirs, strict=False)):
            yield number, number
            if a != b:
                return
        return
    for _, start, end, first, last in SequenceMatcher(None, mine, theirs, autojunk=False).get_opcodes():
        if end - start == last - first:  # the same, or one for one in its place
            yield from zip(range(start, end), range(first, last), strict=True)


def _batches(pairs: list[Lines]) -> Iterator[list[Lines]]:
    for at in range(0, len(pairs), BATCH):
        yield pairs[at : at + BATCH]


def _compared(sides: Sides, pairs: list[Lines]) -> StatementSearch:
    """One batch, in as many runs as it takes to keep the probes' buffer below ``BUFFER_BYTES``."""
    oracles = _oracles(sides, pairs)
    if oracles is None:
        return StatementSearch(0, None)
    size = max(o.buffer_bytes(sides.launch) for o in oracles)
    if size > BUFFER_BYTES and len(pairs) > 1:
        half = len(pairs) // 2
        search = _compared(sides, pairs[:half])
        if search.first is None:
            rest = _compared(sides, pairs[half:])
            search = StatementSearch(search.compared + rest.compared, rest.first)
        return search
    readings = sides.consult(oracles)
    search = StatementSearch(0, None)
    for line, other in pairs:
        stages = str(line), str(other)
        if stages[0] in oracles[0].missing or stages[1] in oracles[1].missing:
            continue
        difference = sides.difference(stages, readings)
        if isinstance(difference, str):
            continue
        search.compared += 1
        if difference.first is not None:
            value = difference.first
            search.first = StatementDifference(
                line,
                other,
                _text(sides.mine, line),
                _text(sides.theirs, other),
                _in_loop(sides.mine, line),
                value.register,
                block_of(value.block, sides.launch.grid),
                value.warp,
                value.lane,
                value.expected,
                value.found,
                difference.differing,
            )
            return search
    return search


def _oracles(sides: Sides, pairs: list[Lines]) -> tuple[Oracle, Oracle] | None:
    """Both sides probed at the lines of the pairs; None where no line of a side can be probed."""
    try:
        mine = make_oracle(sides.mine.document, sides.entry, list(dict.fromkeys(a for a, _ in pairs)))
        return mine, make_oracle(sides.theirs.document, sides.entry, list(dict.fromkeys(b for _, b in pairs)))
    except UsageError:
        return None


def _at(program: Program, line: int) -> list[int]:
    return [i.index for i in program.instructions[:-1] if program.line(i.index) == line]


def _text(program: Program, line: int) -> str:
    """The statements of a line, blanks made one."""
    return " ".join(" ".join(program.source(i).split()) for i in _at(program, line))


def _in_loop(program: Program, line: int) -> bool:
    """Is there a way back over the line?"""
    here = _at(program, line)[0]
    return any(t <= here <= i.index for i in program.instructions for t in i.targets)


def block_of(block: int, grid: tuple[int, int, int]) -> tuple[int, int, int]:
    """A block's coordinates from its linear number, x fastest."""
    x, y, _ = grid
    return block % x, block // x % y, block // (x * y)
