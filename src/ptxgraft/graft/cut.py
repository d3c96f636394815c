"""Cutting a region out of an entry and putting something in its place.

Invariant: every byte outside the edit is the original's; the entry's name, parameters and directives, and the module's target never change; the
result parses and binds, or the cut fails.
"""

from __future__ import annotations

from ptxgraft.errors import SourceError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.bodies import Body, BodyChoice
from ptxgraft.graft.cut_result import Cut
from ptxgraft.graft.excerpt import excerpt, is_spelled
from ptxgraft.graft.region_choice import RegionChoice
from ptxgraft.graft.styles import STYLES, Editing, write_called, write_inline, write_phases
from ptxgraft.isa import Program, bind
from ptxgraft.text import Document

__all__ = ["STYLES", "Cut", "cut"]


def cut(
    document: Document,
    entry: str,
    region: RegionChoice = None,
    style: str = "inline",
    body: BodyChoice = None,
    callee: str | None = None,
    block: tuple[int, int, int] | None = None,
) -> Cut:
    """Cut a region of ``entry`` out and put ``body`` in its place.

    ``region``: None for the mma region, (first, last) file lines, ``"phase 3"`` or ``"p3"``, ``"p3-p5"``, or a ``Region``. ``style``:

    * ``inline``: a block; the default body is the region itself.
    * ``call``: one call of a function of the module, which returns the live-outs; the default body is the region as such a function.
    * ``mirror``: one call; live-outs come back through shared memory. Without a body the callee is only declared.
    * ``phases``: one call for each phase, what lives on over it spilled. Without a body the callee is only declared.

    ``"identity"`` gives the region as a function of the module. ``callee`` names the function (made fresh when the module has the name).
    ``block`` is the block shape that the spec's and the skeletons' thread-dependent offsets are evaluated for; it also sizes the shared rows of
    ``mirror`` and ``phases``.

    UnsupportedError when the region cannot be cut, UsageError for a bad call, SourceError when the new text does not bind.
    """
    if style not in STYLES:
        raise UsageError(f"style {style!r} is not known", hint=f"styles are {', '.join(STYLES)}")
    given = Body(body) if isinstance(body, str) else body
    if given is not None and given.kind not in ("identity", "text", "function"):
        raise UsageError(f"body {given.kind!r} is not known", hint="give None, 'identity' or a Body")
    flow = Flow(bind(document, entry))
    edit = Editing.of(document, [entry])
    name = callee or f"{entry}_region"
    if style == "phases":
        made = write_phases(edit, flow, region, given, name, block)
    elif style == "inline":
        made = write_inline(edit, excerpt(flow, region), given)
    else:
        made = write_called(edit, excerpt(flow, region), style, given, name, block)
    made.text, made._block = edit.text(), block
    _check(made, given)
    return made


def _check(made: Cut, given: Body | None) -> None:
    """The new module parses and binds, and the body touches no register of the entry but its own live ones."""
    try:
        program = made.program
    except SourceError as error:
        if given is None or given.kind == "identity":
            raise AssertionError(f"the {made.style} cut of {made.entry!r} gave a text that does not bind: {error}") from error
        raise
    if given is not None and given.kind == "text":
        _check_registers(made, program)


def _check_registers(made: Cut, program: Program) -> None:
    document = made.document
    first, last = made.block_statements
    inner = {s.index for s in document.scopes if first.index <= s.first <= last.index}
    live_in = {r.name for r in made.abi.live_in}
    live_out = {r.name for r in made.abi.live_out}
    written: set[str] = set()
    kept = {r.name for r in made._piece.live_behind()}
    for instruction in program.instructions:
        statement = instruction.statement
        if not first.index < statement.index < last.index:
            continue
        for side, allowed, fault in (
            (instruction.writes, live_out, "writes {}, which is no live-out of the region"),
            (instruction.reads, live_in | live_out, "reads {}, which is no live-in of the region"),
        ):
            for register in (program.registers[r] for r in side):
                if not is_spelled(register) and register.name not in kept:
                    continue  # the condition code is the body's own where nothing behind it reads it
                if register.inline == 0 and register.scope not in inner and register.name not in allowed:
                    raise SourceError(
                        f"the body {fault.format(register.name)}",
                        place=document.place(statement),
                        hint="declare a register of the body's own, as in `.reg .b32 x;`",
                    )
        written |= {program.registers[r].name for r in instruction.writes}
    missing = sorted(live_out - written)
    if missing:
        made.notes.append(f"the body never writes the live-out{'s' if len(missing) > 1 else ''} {', '.join(missing[:8])}")
