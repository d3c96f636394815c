"""A cut, and all that comes with it.

Invariant: a cut never changes after it was made; what is not needed by everybody (the parsed result, the spec, skeletons) is made when first asked for.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ptxgraft.errors import UsageError
from ptxgraft.graft.bodies import Body
from ptxgraft.graft.excerpt import Excerpt, Rendered
from ptxgraft.graft.interface import Interface
from ptxgraft.graft.manifest import Binding, bind_graft
from ptxgraft.graft.phase_spec import plan_json, plan_markdown
from ptxgraft.graft.phases import PhasePlan
from ptxgraft.graft.skeleton import DIALECTS, skeleton
from ptxgraft.graft.skeleton_phases import phases_skeleton
from ptxgraft.isa import Program, bind
from ptxgraft.spec import Abi, LayerSpec, Region, layer_spec, spec_json, spec_markdown
from ptxgraft.text import Document, EditScript, Kind, Statement


@dataclass(eq=False)
class Cut:
    """A cut and all that comes with it.

    ``region`` and ``abi`` speak of the original; ``text`` is the new module, ``document`` the same parsed; ``declaration`` is the callee's, empty
    when nothing is called; ``words`` counts the live-out words of a lane; ``renamed`` maps register names of the region to those of an identity
    body; ``body`` is what was put in. ``plan`` is what each call of a phases cut passes and keeps.
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
    _callee_texts: dict[str, Rendered] = field(default_factory=dict)
    _block: tuple[int, int, int] | None = field(default=None)
    plan: PhasePlan | None = field(default=None)

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
        cut: dict[str, object] = {
            "style": self.style,
            "lines": [self.region.first_line, self.region.last_line],
            "callee": self.callee,
            "parameters": [{"kind": p.kind, "type": p.type, "name": p.name, "about": p.about} for p in face.passed],
            "live_out_words": [{"register": r.name, "type": r.type.name, "word": w} for r, w in face.live_out],
            "words": self.words,
            "notes": self.notes,
        }
        if self.plan is not None:
            cut |= plan_json(self.plan)
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
        if self.plan is not None:
            lines += plan_markdown(self.plan)
        return "\n".join([*lines, ""])

    @cached_property
    def skeletons(self) -> dict[str, str]:
        """The callee to fill in, in CUDA C++ (``cuda``) and HIP C++ (``hip``)."""
        name = self.callee or f"{self.entry}_region"
        if self.plan is not None:
            return {n: phases_skeleton(d, name, self._piece, self.interface, self.spec, self.plan) for n, d in DIALECTS.items()}
        return {n: skeleton(n, name, self._piece, self.interface, self.spec, self.style) for n in DIALECTS}

    def bind(self, file: str) -> Binding:
        """What a manifest of grafts says of this cut when its text is written to ``file`` (a name without folders)."""
        return bind_graft(self.entry, self.style, self.original.data, file, self.text)

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
        found: dict[int, int] = {}
        for name, rendered in self._callee_texts.items():
            start = self.document.line(self.document.function(name).start)
            found |= {start + i: line for i, line in enumerate(rendered.origins)}
        return found

    @cached_property
    def block_statements(self) -> tuple[Statement, Statement]:
        """The braces of the block that stands in the region's place, in ``document``; of a phases cut the first block's first and the last one's last."""
        first, last = self._piece.first, self._piece.first
        if self.plan is not None:
            first, last = self.plan.calls[0].first, self.plan.calls[-1].first
        return self._block_of(first)[0], self._block_of(last)[1]

    def _block_of(self, first: Statement) -> tuple[Statement, Statement]:
        document = self.document
        start = self._script.to_new(first.start)
        at = bisect_left(document.statements, start, key=lambda s: s.start)
        if self.style == "inline" and self.body is not None and self.body.kind == "identity":
            # The statement itself stands in the block, which was put around it.
            scope = document.statements[at].scope
            if document.statements[at].kind == Kind.OPEN:
                scope = document.scopes[scope].parent
            opened = document.statements[document.scopes[scope].first]
        else:
            opened = next(s for s in document.statements[at:] if s.kind == Kind.OPEN)
        return opened, document.statements[document.scopes[opened.scope].last]


@dataclass(eq=False)
class Cuts:
    """Several cuts that were made together: regions of one entry, or one region of several siblings, in the order they were asked for."""

    style: str
    cuts: list[Cut]

    def __iter__(self) -> Iterator[Cut]:
        return iter(self.cuts)

    def __len__(self) -> int:
        return len(self.cuts)

    def __getitem__(self, number: int) -> Cut:
        return self.cuts[number]

    @property
    def documents(self) -> list[Document]:
        """The new modules, each once, in the order of their first cuts."""
        found: dict[int, Document] = {}
        for made in self.cuts:
            found.setdefault(id(made.original), made.document)
        return list(found.values())

    @property
    def document(self) -> Document:
        """The new module. UsageError when siblings of several modules were cut: ``documents`` has them."""
        found = self.documents
        if len(found) > 1:
            raise UsageError(f"{len(found)} modules were cut", hint="take them from documents")
        return found[0]

    @property
    def text(self) -> bytes:
        """The new module's bytes."""
        return self.document.data
