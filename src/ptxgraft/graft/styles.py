"""Each style's edit of an entry.

Invariant: a writer only adds edits to the module's script; every byte outside them is the original's, and the entry's name, parameters and directives
stay. What is shared by several cuts of one module (fresh names, merged functions, the version) is kept in its ``Editing``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ptxgraft.errors import PtxgraftError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.bodies import Body, identity_body
from ptxgraft.graft.callee import identity_callee
from ptxgraft.graft.calls import call_text
from ptxgraft.graft.cut_result import Cut
from ptxgraft.graft.excerpt import Excerpt, Rendered, excerpt, indented
from ptxgraft.graft.inline import write_identity, write_text
from ptxgraft.graft.inline_function import check_parameters, inlined_text, result_of
from ptxgraft.graft.interface import Interface, interface
from ptxgraft.graft.merge import Merged, merge_function, raise_version
from ptxgraft.graft.phase_text import PARAMETER_ADDRESSES, choose_frame, identity_phase, phase_call_text, phase_interface
from ptxgraft.graft.phases import plan_phases
from ptxgraft.graft.region_choice import RegionChoice
from ptxgraft.graft.rows import Room, choose_rows, words_at_a_time
from ptxgraft.spec import layer_spec
from ptxgraft.text import Document, EditScript, FreshNames, Function, directives_in

STYLES = ("inline", "call", "mirror", "phases")


@dataclass(eq=False)
class Editing:
    """One module that cuts are made in."""

    document: Document
    script: EditScript
    fresh: FreshNames
    before: Function
    version: tuple[int, int]
    names: set[str]
    _merged: dict[tuple[int, str], Merged] = field(default_factory=dict)
    _open: dict[tuple[str, tuple[str, ...]], str] = field(default_factory=dict)
    _rooms: dict[str, Room] = field(default_factory=dict)
    _parameters: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, document: Document, entries: Sequence[str]) -> Editing:
        names = {f.name for f in document.functions}
        before = min((document.entry(e) for e in entries), key=lambda f: f.start)
        return cls(document, EditScript(document), FreshNames(document), before, document.version, names)

    def text(self) -> bytes:
        """The new module. To be asked for once, after all cuts."""
        raise_version(self.script, self.version)
        return self.script.apply()

    def need(self, version: tuple[int, int]) -> None:
        """What was put in needs this PTX version."""
        self.version = max(self.version, version)

    def parameters(self, count: int) -> list[str]:
        """Names for the parameters of a call: the same for all calls, each of which stands in a block of its own."""
        while len(self._parameters) < count:
            self._parameters.append(self.fresh.name(f"p{len(self._parameters)}"))
        return self._parameters[:count]

    def room(self, entry: str) -> Room:
        """What is taken of an entry's shared memory."""
        return self._rooms.setdefault(entry, Room())

    def merge(self, body: Body) -> tuple[Merged, bool]:
        """A body's function under fresh names; and whether this is its first use."""
        assert body.module is not None
        key = (id(body.module), body.name)
        first = key not in self._merged
        if first:
            self._merged[key] = merge_function(self.document, body.module, body.name, self.fresh)
            self.need(self._merged[key].version)
        return self._merged[key], first

    def callee(self, wanted: str) -> str:
        """A name for a function that is made for a cut: the wanted one when the module has none of it."""
        name = self.fresh.name(wanted) if wanted in self.names else wanted
        self.names.add(name)
        return name

    def open_callee(self, wanted: str, face: Interface) -> str:
        """A name for a function that is only declared: declared once for all cuts that would call it with parameters of the same types."""
        key = (wanted, tuple(p.type for p in face.passed))
        if key not in self._open:
            self._open[key] = self.callee(wanted)
            self.add(face.declaration(self._open[key], ".extern .func") + ";")
        return self._open[key]

    def add(self, text: str) -> None:
        """Put a function or a declaration at module scope, before the first entry that is cut."""
        self.script.add_module_scope(text + "\n", self.before)


def write_inline(edit: Editing, piece: Excerpt, given: Body | None) -> Cut:
    """Style ``inline``: a block in the region's place."""
    body = given or identity_body()
    if body.kind == "function":
        face = interface(piece, "inline", row=False)
        merged, first = edit.merge(body)
        made = _made(edit, piece, "inline", face, body, merged.notes)
        text = inlined_text(piece.document, piece, face, merged, edit.fresh, body.name)
        edit.script.replace(piece.first, piece.last, indented(piece.document, piece.first, text))
        if merged.rest and first:
            edit.add(merged.rest)
        return made
    made = _made(edit, piece, "inline", _open_interface(piece), body, [])
    if body.kind == "identity":
        made.renamed = write_identity(edit.script, piece, edit.fresh, body.replaced)
    else:
        write_text(edit.script, piece, body.text)
    return made


def write_called(edit: Editing, piece: Excerpt, style: str, given: Body | None, callee: str, block: tuple[int, int, int] | None) -> Cut:
    """Styles ``call`` and ``mirror``: one call."""
    if style == "call":
        given = given or identity_body()
    _refuse_text(given, style)
    face = interface(piece, style, row=style == "mirror")
    rows, notes = None, []
    if style == "mirror":
        rows = choose_rows(piece, face.words, block, edit.fresh, edit.room(piece.program.name))
        notes = [rows.note] if rows is not None else ["the region has no live-outs: nothing comes back"]
        face.row_words = words_at_a_time(face.words, rows.align) if rows is not None else 1
    made = _made(edit, piece, style, face, given, notes)
    _define(edit, made, callee)
    if given is not None and given.kind == "identity":
        rendered = identity_callee(piece, face, made.callee, edit.fresh, given.replaced)
        _add_callee(edit, made, made.callee, rendered)
        made.renamed = {r.name: r.name for r in piece.own}
    if rows is not None and rows.declaration:
        _declare_array(edit, piece, rows.declaration)
    text = call_text(piece, face, made.callee, rows, edit.fresh, edit.parameters(len(face.passed)))
    edit.script.replace(piece.first, piece.last, indented(piece.document, piece.first, text))
    return made


def write_phases(
    edit: Editing, flow: Flow, region: RegionChoice, given: Body | None, callee: str, block: tuple[int, int, int] | None
) -> Cut:
    """Style ``phases``: one call for each phase of the region. Of the identity body each phase is a function of its own, called with the same
    parameters: bound programs then hold each phase once."""
    _refuse_text(given, "phases")
    document, spec = edit.document, layer_spec(flow, block)
    plan = plan_phases(flow, spec, region)
    frame = choose_frame(flow, plan, spec.weight_param, block, edit.fresh, edit.room(flow.program.name))
    face = phase_interface(plan)
    made = _made(edit, excerpt(flow, plan.region, to_cut=False), "phases", face, given, [*plan.notes, *frame.notes])
    made.plan = plan
    made.__dict__["spec"] = spec  # the cached property's value
    _define(edit, made, callee)
    if frame.parameters:
        edit.need(PARAMETER_ADDRESSES)
    for array in frame.declarations:
        _declare_array(edit, made._piece, array)
    identity = given if given is not None and given.kind == "identity" else None
    for call in plan.calls:
        target = edit.callee(f"{made.callee}_p{call.phase.index}") if identity is not None else made.callee
        text = phase_call_text(flow, frame, call, target, edit.fresh, edit.parameters(len(face.passed)))
        edit.script.replace(call.first, call.last, indented(document, call.first, text))
        if identity is not None:
            _add_callee(edit, made, target, identity_phase(flow.program, call, target, face, edit.fresh, identity.replaced))
    if identity is not None:
        made.renamed = {r.name: r.name for r in made._piece.own}
    return made


# -- what they share ---------------------------------------------------------------------------------------------------


def _made(edit: Editing, piece: Excerpt, style: str, face: Interface, body: Body | None, notes: list[str]) -> Cut:
    notes = [*piece.notes, *notes, *([body.note] if body is not None and body.note else [])]
    return Cut(
        style, piece.program.name, piece.region, piece.abi, b"", edit.document, "", "", face.words, notes, {}, body, face, piece, edit.script
    )  # fmt: skip


def _open_interface(piece: Excerpt) -> Interface:
    """The interface for a skeleton where the region itself needs none: empty when no function could have it."""
    try:
        return interface(piece, "inline", row=False)
    except PtxgraftError:
        return Interface([], [], 0)


def _refuse_text(given: Body | None, style: str) -> None:
    if given is not None and given.kind == "text":
        raise UsageError(f"the {style} style takes no block of PTX text", hint="use the inline style, or give a .func of a module")


def _define(edit: Editing, made: Cut, callee: str) -> None:
    """Name the callee; bring it in where it is a module's function, declare it where it is nobody's."""
    face, given = made.interface, made.body
    if given is not None and given.kind == "function":
        assert given.module is not None
        function = given.module.function(given.name)
        merged, first = edit.merge(given)
        check_parameters(function, face, repr(given.name))
        face.returned = result_of(function, face, repr(given.name))
        made.callee, made.notes = merged.name, [*made.notes, *merged.notes]
        made.declaration = face.declaration(made.callee)
        if first:
            edit.add(merged.text)
    elif given is None:
        made.callee = edit.open_callee(callee, face)
        made.declaration = face.declaration(made.callee, ".extern .func") + ";"
    else:
        made.callee = edit.callee(callee)
        made.declaration = face.declaration(made.callee)


def _add_callee(edit: Editing, made: Cut, name: str, rendered: Rendered) -> None:
    made._callee_texts[name] = rendered
    edit.add(rendered.text)


def _declare_array(edit: Editing, piece: Excerpt, declaration: str) -> None:
    """Declare a new array behind the entry's own, so that theirs keep their addresses (kernels reckon with the low bits), and before its first use."""
    document, entry = piece.document, piece.program.entry
    scope = document.scopes[entry.scope]
    arrays = [s for s in directives_in(document, scope, ".shared") if s.start < piece.first.start]
    if arrays:
        edit.script.insert_after(arrays[-1], declaration)
    else:
        edit.script.insert_after(document.statements[scope.first], "\t" + declaration)
