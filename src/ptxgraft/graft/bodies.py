"""What can stand in a region's place.

Invariant: a body says what it is and never depends on the cut's style; a style that cannot take it refuses it by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ptxgraft.errors import UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.excerpt import excerpt
from ptxgraft.graft.region_choice import RegionChoice
from ptxgraft.isa import Instruction, Operand, Reg, Vector, bind
from ptxgraft.spec import FragmentSpec, Phase, layer_spec
from ptxgraft.text import Document, split_operands


@dataclass(frozen=True, slots=True)
class Body:
    """A region's replacement. ``kind``: ``identity`` (the region itself; ``replaced`` exchanges statements of it, by index), ``text`` (PTX of a
    block) or ``function`` (``name`` of ``module``). ``note`` says in words what is special about it."""

    kind: str
    text: str = ""
    module: Document | None = None
    name: str = ""
    replaced: Mapping[int, str] = field(default_factory=dict)
    note: str = ""


BodyChoice = Body | str | None
"""A body as callers name it: None (the style's own default), ``"identity"``, or a ``Body``."""


def identity_body() -> Body:
    """The region's own statements."""
    return Body("identity")


def text_body(text: str) -> Body:
    """PTX statements that become the inside of a ``{ }`` block.

    The text reads the region's live-ins and writes its live-outs by their own names, as the cut's ABI lists them; every other register, label and
    variable that it uses it must declare itself. Inline style only.
    """
    if not text.strip():
        raise UsageError("the body's text is empty", hint="write at least the statements that set the live-outs")
    return Body("text", text=text)


def function_body(module: Document, name: str) -> Body:
    """The ``.func`` called ``name`` of another module, which is merged with what it needs, under fresh names.

    Its parameters are the cut's, in the order that ``Cut.declaration`` shows: live-ins (``.b32``; ``.b64`` for 64-bit registers), then values
    that the region reads from the argument block and addresses of arrays it names. In the mirror style the last parameter is the warp's row area
    in shared memory; in the inline style the live-outs are returned instead: one return parameter each, or one byte array of their words.
    """
    return Body("function", module=module, name=name)


def wrong_fragment_body(document: Document, entry: str, phase: int, fragment: int = 1, region: RegionChoice = None) -> Body:
    """The identity body of a region but for one mistake, to show what a wrong graft looks like: B fragment ``fragment`` of ``phase`` (numbered in
    first-use order) is taken from the place of the fragment before it.

    The mistake is in the phase's tensor-core statements alone: those that multiply by this fragment name its neighbour's registers. ``note`` says
    which bytes are read instead of which. UsageError when the region has no such phase, or the phase no such fragment.
    """
    flow = Flow(bind(document, entry))
    piece = excerpt(flow, region)
    spec = layer_spec(flow)
    inside = [p for p in spec.phases if piece.region.first <= p.first and p.last <= piece.region.last]
    chosen = next((p for p in inside if p.index == phase), None)
    if chosen is None:
        numbers = f"its phases are {inside[0].index} to {inside[-1].index}" if inside else "it has no phase"
        raise UsageError(f"the region of {entry!r} has no phase {phase}", hint=numbers)
    if not 1 <= fragment < len(chosen.b):
        raise UsageError(
            f"phase {phase} has no B fragment {fragment} with one before it",
            hint=f"its B fragments are 0 to {len(chosen.b) - 1}; name 1 or later",
        )
    right, wrong = chosen.b[fragment], chosen.b[fragment - 1]
    replaced: dict[int, str] = {}
    for instruction in flow.program.instructions[chosen.first : chosen.last + 1]:
        operand = _operand(instruction, "b")
        if _names(flow, operand) == right.registers:
            replaced[instruction.statement.index] = _exchanged(instruction, wrong)
    return replace(identity_body(), replaced=replaced, note=_note(chosen, fragment, right, wrong, len(replaced)))


def _operand(instruction: Instruction, name: str) -> Operand | None:
    form = instruction.form
    assert form is not None
    return next(o for r, o in zip(form.roles, instruction.operands, strict=True) if r.name == name)


def _names(flow: Flow, operand: Operand | None) -> tuple[str, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    return tuple(flow.program.registers[i.id].name for i in items if isinstance(i, Reg))


def _exchanged(instruction: Instruction, wrong: FragmentSpec) -> str:
    """The statement with its B operand's registers exchanged."""
    statement = instruction.statement
    form = instruction.form
    assert form is not None
    pieces = split_operands(statement.operands)
    position = [r.name for r in form.roles].index("b")
    pieces[position] = "{" + ", ".join(wrong.registers) + "}"
    guard = f"@{statement.guard} " if statement.guard else ""
    return f"{guard}{statement.opcode} {', '.join(pieces)};"


def _note(phase: Phase, fragment: int, right: FragmentSpec, wrong: FragmentSpec, statements: int) -> str:
    return (
        f"wrong on purpose: B fragment {fragment} of phase {phase.index} is taken from {wrong.provenance} instead of {right.provenance} "
        f"({statements} mma)"
    )
