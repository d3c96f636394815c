"""Cutting a region out of an entry and putting something in its place.

Invariant: every byte outside the edit is the original's; the entry's name, parameters and directives, and the module's target never change; the
result parses and binds, or the cut fails.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from ptxgraft.errors import PtxgraftError, SourceError, UsageError
from ptxgraft.flow import Flow
from ptxgraft.graft.bodies import Body, BodyChoice, identity_body
from ptxgraft.graft.callee import identity_callee
from ptxgraft.graft.calls import call_text
from ptxgraft.graft.excerpt import Excerpt, RegionChoice, Rendered, excerpt, indented, is_spelled
from ptxgraft.graft.inline import write_identity, write_text
from ptxgraft.graft.inline_function import check_parameters, inlined_text, result_of
from ptxgraft.graft.interface import Interface, interface
from ptxgraft.graft.merge import merge_function, raise_version
from ptxgraft.graft.rows import choose_rows
from ptxgraft.graft.skeleton import skeleton
from ptxgraft.isa import Program, bind
from ptxgraft.spec import Abi, LayerSpec, Region, layer_spec, spec_json, spec_markdown
from ptxgraft.text import Document, EditScript, FreshNames, Kind, Statement, directives_in

STYLES = ("inline", "call", "mirror")


@dataclass(eq=False)
class Cut:
    """A cut and all that comes with it.

    ``region`` and ``abi`` speak of the original; ``text`` is the new module, ``document`` the same parsed; ``declaration`` is the callee's, empty
    when nothing is called; ``words`` counts the live-out words of a lane; ``renamed`` maps register names of the region to those of an identity
    body; ``body`` is what was put in.
    """

    style: str
    entry: str
    region: Region
    abi: Abi
    text: bytes
    original: Document
    callee: str
    declaration: str
    words: int
    notes: list[str]
    renamed: dict[str, str]
    body: Body | None
    interface: Interface
    _piece: Excerpt
    _script: EditScript
    _callee_text: Rendered | None = field(default=None)
    _block: tuple[int, int, int] | None = field(default=None)

    @cached_property
    def document(self) -> Document:
        """The new module, parsed."""
        return Document.parse(self.text, f"{self.original.name} ({self.style} cut)")

    @cached_property
    def program(self) -> Program:
        """The new entry, bound."""
        return bind(self.document, self.entry)

    @cached_property
    def spec(self) -> LayerSpec:
        """The original entry's layer spec, for the block that the cut was given."""
        return layer_spec(self._piece.flow, self._block)

    @property
    def spec_json(self) -> dict[str, object]:
        """The original's spec as plain data, with the cut under ``cut``."""
        face = self.interface
        cut = {
            "style": self.style,
            "lines": [self.region.first_line, self.region.last_line],
            "callee": self.callee,
            "parameters": [{"kind": p.kind, "type": p.type, "name": p.name, "about": p.about} for p in face.passed],
            "live_out_words": [{"register": r.name, "type": r.type.name, "word": w} for r, w in face.live_out],
            "words": self.words,
            "notes": self.notes,
        }
        return {**spec_json(self.spec), "cut": cut}

    @property
    def spec_markdown(self) -> str:
        """The original's spec as Markdown, with the cut's own section."""
        face = self.interface
        lines = [
            spec_markdown(self.spec).rstrip(),
            "",
            f"## The cut: {self.style}, lines {self.region.first_line} to {self.region.last_line}",
            "",
        ]
        lines += [f"* {note}" for note in self.notes]
        if face.passed:
            lines += ["", "| parameter | type | what |", "|---|---|---|"]
            lines += [f"| `{p.name}` | {p.type} | {p.about} |" for p in face.passed]
        if face.live_out:
            lines += ["", f"Live-outs, {self.words} words a lane:", "", "| word | register | type |", "|---|---|---|"]
            lines += [f"| {w} | `{r.name}` | {r.type.name} |" for r, w in face.live_out]
        return "\n".join([*lines, ""])

    @cached_property
    def skeletons(self) -> dict[str, str]:
        """The callee to fill in, in CUDA C++ (``cuda``) and HIP C++ (``hip``)."""
        name = self.callee or f"{self.entry}_region"
        return {language: skeleton(language, name, self._piece, self.interface, self.spec, self.style) for language in ("cuda", "hip")}

    def old_line(self, line: int) -> int | None:
        """The original's line that a line of the new text stands for; None for a line that was added."""
        start, end = self.document.line_span(line)
        blank = len(self.document.data[start:end]) - len(self.document.data[start:end].lstrip())
        return self.old_line_at(start + blank)

    def old_line_at(self, offset: int) -> int | None:
        """The same for a byte of the new text: the first one of a statement, say."""
        line = self.document.line(offset)
        if line in self._callee_lines:
            return self._callee_lines[line]
        old = self._script.to_old(offset)
        return self.original.line(old) if self._script.to_new(old) == offset else None

    def new_line(self, line: int) -> int:
        """Where a line of the original is in the new text; a line of a replaced region is where the replacement begins."""
        return self.document.line(self._script.to_new(self.original.line_span(line)[0]))

    @cached_property
    def _callee_lines(self) -> dict[int, int]:
        if self._callee_text is None:
            return {}
        start = self.document.line(self.document.function(self.callee).start)
        return {start + i: line for i, line in enumerate(self._callee_text.origins)}

    @cached_property
    def block_statements(self) -> tuple[Statement, Statement]:
        """The braces of the block that stands in the region's place, in ``document``."""
        document = self.document
        body = document.entry(self.entry).body
        assert body is not None
        previous = self.original.statements[self._piece.first.index - 1]
        start = self._script.to_new(previous.end - 1) + 1
        opened = next(s for i in body if (s := document.statements[i]).kind == Kind.OPEN and s.start >= start)
        return opened, document.statements[document.scopes[opened.scope].last]


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

    ``region``: None for the mma region, (first, last) file lines, ``"phase 3"``, ``"phases 3-5"``, or a ``Region``. ``style``: ``inline`` (a block; the
    default body is the region itself), ``call`` (one call of a function of the module that returns the live-outs; the default body is the
    region as such a function) or ``mirror`` (one call; live-outs come back through shared memory; without a body the callee is only declared,
    ``"identity"`` gives the region as a function of the module). ``callee`` names the function (made fresh when the module has the name). ``block`` is the block shape that the spec's and
    the skeletons' thread-dependent offsets are evaluated for; it also sizes a mirror cut's shared rows.

    UnsupportedError when the region cannot be cut, UsageError for a bad call, SourceError when the new text does not bind.
    """
    if style not in STYLES:
        raise UsageError(f"style {style!r} is not known", hint=f"styles are {', '.join(STYLES)}")
    given = Body(body) if isinstance(body, str) else body
    if given is not None and given.kind not in ("identity", "text", "function"):
        raise UsageError(f"body {given.kind!r} is not known", hint="give None, 'identity' or a Body")
    piece = excerpt(Flow(bind(document, entry)), region)
    fresh = FreshNames(document)
    script = EditScript(document)
    if style == "inline":
        made = _inline(script, piece, fresh, given)
    else:
        made = _called(script, piece, fresh, style, given, callee, block)
    made.text, made._block = script.apply(), block
    _check(made, given)
    return made


def _made(script: EditScript, piece: Excerpt, style: str, face: Interface, body: Body | None, notes: list[str]) -> Cut:
    notes = [*piece.notes, *notes, *([body.note] if body is not None and body.note else [])]
    return Cut(
        style, piece.program.name, piece.region, piece.abi, b"", piece.document, "", "", face.words, notes, {}, body, face, piece, script
    )  # fmt: skip


def _inline(script: EditScript, piece: Excerpt, fresh: FreshNames, given: Body | None) -> Cut:
    body = given or identity_body()
    if body.kind == "function":
        assert body.module is not None
        face = interface(piece, "inline", row=False)
        merged = merge_function(piece.document, body.module, body.name, fresh)
        made = _made(script, piece, "inline", face, body, merged.notes)
        text = inlined_text(piece.document, piece, face, merged, fresh, body.name)
        script.replace(piece.first, piece.last, indented(piece.document, piece.first, text))
        if merged.rest:
            script.add_module_scope(merged.rest, piece.program.entry)
        raise_version(script, merged.version)
        return made
    made = _made(script, piece, "inline", _open_interface(piece), body, [])
    if body.kind == "identity":
        made.renamed = write_identity(script, piece, fresh, body.replaced)
    else:
        write_text(script, piece, body.text)
    return made


def _open_interface(piece: Excerpt) -> Interface:
    """The interface for a skeleton where the region itself needs none: empty when no function could have it."""
    try:
        return interface(piece, "inline", row=False)
    except PtxgraftError:
        return Interface([], [], 0)


def _called(
    script: EditScript,
    piece: Excerpt,
    fresh: FreshNames,
    style: str,
    given: Body | None,
    callee: str | None,
    block: tuple[int, int, int] | None,
) -> Cut:
    """Styles ``call`` and ``mirror``: one call."""
    if style == "call":
        given = given or identity_body()
    if given is not None and given.kind == "text":
        raise UsageError(f"the {style} style takes no block of PTX text", hint="use the inline style, or give a .func of a module")
    face = interface(piece, style, row=style == "mirror")
    rows, notes = None, []
    if style == "mirror":
        rows = choose_rows(piece, face.words, block, fresh)
        notes = [rows.note] if rows is not None else ["the region has no live-outs: nothing comes back"]
    made = _made(script, piece, style, face, given, notes)
    _define(made, script, piece, fresh, given, callee)
    if rows is not None and rows.declaration:
        _declare_rows(script, piece, rows.declaration)
    text = call_text(piece, face, made.callee, rows, fresh)
    script.replace(piece.first, piece.last, indented(piece.document, piece.first, text))
    return made


def _define(made: Cut, script: EditScript, piece: Excerpt, fresh: FreshNames, given: Body | None, callee: str | None) -> None:
    """Put the callee, or its declaration, before the entry."""
    entry, face = piece.program.entry, made.interface
    if given is not None and given.kind == "function":
        assert given.module is not None
        merged = merge_function(piece.document, given.module, given.name, fresh)
        function = given.module.function(given.name)
        check_parameters(function, face, repr(given.name))
        face.returned = result_of(function, face, repr(given.name))
        made.callee, made.notes = merged.name, [*made.notes, *merged.notes]
        made.declaration = face.declaration(made.callee)
        script.add_module_scope(merged.text + "\n", entry)
        raise_version(script, merged.version)
        return
    wanted = callee or f"{entry.name}_region"
    taken = {f.name for f in piece.document.functions}
    made.callee = fresh.name(wanted) if wanted in taken else wanted
    if given is None:
        made.declaration = face.declaration(made.callee, ".extern .func") + ";"
        script.add_module_scope(made.declaration + "\n", entry)
    else:
        made.declaration = face.declaration(made.callee)
        made._callee_text = identity_callee(piece, face, made.callee, fresh)
        made.renamed = {r.name: r.name for r in piece.own}
        script.add_module_scope(made._callee_text.text + "\n", entry)


def _declare_rows(script: EditScript, piece: Excerpt, declaration: str) -> None:
    """Declare the new array behind the entry's own, so that theirs keep their addresses: kernels reckon with the low bits."""
    document, entry = piece.document, piece.program.entry
    scope = document.scopes[entry.scope]
    arrays = [s for s in directives_in(document, scope, ".shared") if not piece.first.start <= s.start < piece.last.end]
    if arrays:
        script.insert_after(arrays[-1], declaration)
    else:
        script.insert_after(document.statements[scope.first], "\t" + declaration)


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
