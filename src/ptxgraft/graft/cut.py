"""Cutting a region out of an entry and putting something in its place.

Invariant: every byte outside the edit is the original's; the entry's name, parameters and directives, and the module's target never change; the
result parses and binds, or the cut fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import overload

from ptxgraft.collector import collector_paused
from ptxgraft.errors import SourceError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.bodies import Body, BodyChoice
from ptxgraft.graft.cut_result import Cut, Cuts
from ptxgraft.graft.excerpt import excerpt, is_spelled
from ptxgraft.graft.region_choice import RegionChoice, locate
from ptxgraft.graft.siblings import Sibling, SiblingChoice, check_same_plan, find_sibling, line_up
from ptxgraft.graft.styles import STYLES, Editing, write_called, write_inline, write_phases
from ptxgraft.isa import Program, bind
from ptxgraft.text import Document

__all__ = ["STYLES", "Cut", "Cuts", "cut"]


@overload
def cut(
    document: Document,
    entry: str,
    region: RegionChoice = None,
    style: str = "inline",
    body: BodyChoice = None,
    callee: str | None = None,
    block: tuple[int, int, int] | None = None,
    siblings: tuple[()] = (),
) -> Cut: ...
@overload
def cut(
    document: Document,
    entry: str,
    region: list[RegionChoice],
    style: str = "inline",
    body: BodyChoice | Sequence[BodyChoice] = None,
    callee: str | None = None,
    block: tuple[int, int, int] | None = None,
) -> Cuts: ...
@overload
def cut(
    document: Document,
    entry: str,
    region: RegionChoice = None,
    style: str = "inline",
    body: BodyChoice = None,
    callee: str | None = None,
    block: tuple[int, int, int] | None = None,
    *,
    siblings: Sequence[SiblingChoice],
) -> Cuts: ...
@collector_paused()
def cut(
    document: Document,
    entry: str,
    region: RegionChoice | list[RegionChoice] = None,
    style: str = "inline",
    body: BodyChoice | Sequence[BodyChoice] = None,
    callee: str | None = None,
    block: tuple[int, int, int] | None = None,
    siblings: Sequence[SiblingChoice] = (),
) -> Cut | Cuts:
    """Cut a region of ``entry`` out and put ``body`` in its place.

    ``region``: None for the mma region, (first, last) file lines, ``"phase 3"`` or ``"p3"``, ``"p3-p5"``, ``"label LOOP"`` (to the next label) or
    ``"label LOOP-DONE"``, a ``Region``, or a list of these: several regions of the entry, cut in one edit. ``style``:

    * ``inline``: a block; the default body is the region itself.
    * ``call``: one call of a function of the module, which returns the live-outs; the default body is the region as such a function.
    * ``mirror``: one call; live-outs come back through shared memory. Without a body the callee is only declared.
    * ``phases``: one call for each phase, what lives on over it spilled. Without a body the callee is only declared.

    ``"identity"`` gives the region as a function of the module. ``body`` may be a list, one for each of several regions. ``callee`` names the
    function (made fresh when the module has the name). ``block`` is the block shape that the spec's and the skeletons' thread-dependent offsets
    are evaluated for; it also sizes the shared rows of ``mirror`` and ``phases``. ``siblings``: other entries of the module, or (document, entry)
    of other modules, that are variants of the kernel: the region is found in each by its structure and cut there too, with the same
    parameters in the same order.

    A ``Cut``; ``Cuts`` when there are several regions or siblings. UnsupportedError when the region cannot be cut, UsageError for a bad
    call, SourceError when the new text does not bind.
    """
    if style not in STYLES:
        raise UsageError(f"style {style!r} is not known", hint=f"styles are {', '.join(STYLES)}")
    if isinstance(region, list):
        if siblings:
            raise UsageError("several regions and siblings do not go together", hint="cut one region of all siblings at a time")
        return _several(document, entry, region, style, body, callee, block)
    if isinstance(body, Sequence) and not isinstance(body, str):
        raise UsageError("a list of bodies needs a list of regions", hint="give one body, or one region for each")
    given = _given(body)
    if siblings:
        return _siblings(document, entry, region, style, given, callee, block, siblings)
    edit = Editing.of(document, [entry])
    made = _write(edit, Flow(bind(document, entry)), region, style, given, callee or f"{entry}_region", block)
    _finish(edit, [made], block)
    return made


def _given(body: BodyChoice) -> Body | None:
    given = Body(body) if isinstance(body, str) else body
    if given is not None and given.kind not in ("identity", "text", "function"):
        raise UsageError(f"body {given.kind!r} is not known", hint="give None, 'identity' or a Body")
    return given


def _write(
    edit: Editing,
    flow: Flow,
    region: RegionChoice,
    style: str,
    given: Body | None,
    callee: str,
    block: tuple[int, int, int] | None,
    like: tuple[Cut, Sibling] | None = None,
) -> Cut:
    """One cut's edits; ``like`` is the cut of a sibling, whose parameters this one's must line up with."""
    if style == "phases":
        made = write_phases(edit, flow, region, given, callee, block)
        if like is not None:
            check_same_plan(like[0], made)
        return made
    piece = excerpt(flow, region)
    if like is not None:
        line_up(like[0], like[1], piece)
    if style == "inline":
        return write_inline(edit, piece, given)
    return write_called(edit, piece, style, given, callee, block)


def _finish(edit: Editing, cuts: list[Cut], block: tuple[int, int, int] | None) -> None:
    """Apply the edits of a module and check each cut of it."""
    text = edit.text()
    for made in cuts:
        made.text, made._block = text, block
        if made is not cuts[0]:
            made.__dict__["document"] = cuts[0].document  # the cached property's value: parsed once
        _check(made, made.body)


def _several(
    document: Document,
    entry: str,
    regions: list[RegionChoice],
    style: str,
    body: BodyChoice | Sequence[BodyChoice],
    callee: str | None,
    block: tuple[int, int, int] | None,
) -> Cuts:
    if not regions:
        raise UsageError("no region is named", hint="name at least one")
    bodies = list(body) if isinstance(body, Sequence) and not isinstance(body, str) else [body] * len(regions)
    if len(bodies) != len(regions):
        raise UsageError(f"{len(regions)} regions and {len(bodies)} bodies", hint="give one body for all regions, or one for each")
    flow = Flow(bind(document, entry))
    edit = Editing.of(document, [entry])
    found = [locate(flow, region)[0] for region in regions]
    order = sorted(found, key=lambda r: r.first)
    for a, b in pairwise(order):
        if b.first <= a.last:
            raise UsageError(
                f"lines {a.first_line} to {a.last_line} and lines {b.first_line} to {b.last_line} of {entry!r} overlap",
                hint="cut them one after the other, or make them one region",
            )
    wanted = callee or f"{entry}_region"
    names = [wanted if len(regions) == 1 else f"{wanted}_{number}" for number in range(len(regions))]
    cuts = [_write(edit, flow, region, style, _given(one), name, block) for region, one, name in zip(regions, bodies, names, strict=True)]
    _finish(edit, cuts, block)
    return Cuts(style, cuts)


def _siblings(
    document: Document,
    entry: str,
    region: RegionChoice,
    style: str,
    given: Body | None,
    callee: str | None,
    block: tuple[int, int, int] | None,
    siblings: Sequence[SiblingChoice],
) -> Cuts:
    named = [(document, entry), *((document, s) if isinstance(s, str) else s for s in siblings)]
    if len({(id(d), e) for d, e in named}) < len(named):
        raise UsageError("an entry is named twice", hint="name each sibling once")
    flow = Flow(bind(document, entry))
    edits: dict[int, Editing] = {}
    for module, _ in named:
        if id(module) not in edits:
            edits[id(module)] = Editing.of(module, [e for d, e in named if d is module])
    identity = given.kind == "identity" if given is not None else style in ("inline", "call")
    cuts: list[Cut] = []
    for module, name in named:
        wanted = callee or f"{name if identity else entry}_region"
        if not cuts:
            cuts.append(_write(edits[id(module)], flow, region, style, given, wanted, block))
            continue
        other = Flow(bind(module, name))
        sibling = find_sibling(flow, cuts[0].region, other)
        cuts.append(_write(edits[id(module)], other, sibling.region, style, given, wanted, block, (cuts[0], sibling)))
    for key, edit in edits.items():
        _finish(edit, [c for c in cuts if id(c.original) == key], block)
    return Cuts(style, cuts)


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
