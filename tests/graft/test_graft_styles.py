"""Any region of any kernel, in every style: what is legal gives the original's bytes on both engines and assembles, what is not names a statement."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from style_kernels import BODIES, kernel, run

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.graft import STYLES, Cut, assemble, cut, find_ptxas
from ptxgraft.text import Document, Kind

ENGINES = ("numpy", "warp")


@cache
def lines(name: str) -> list[int]:
    """The lines of the entry's instructions."""
    document = kernel(name).document
    body = document.entry("k").body
    assert body is not None
    return [document.line(document.statements[i].start) for i in body if document.statements[i].kind == Kind.INSTRUCTION]


def replaced(made: Cut) -> list[tuple[int, int]]:
    """First and last lines of what was replaced."""
    document = made.original
    if made.plan is not None:
        return [(document.line(c.first.start), document.line(c.last.start)) for c in made.plan.calls]
    piece = made._piece
    return [(document.line(piece.first.start), document.line(piece.last.end - 1))]


def check_outside(made: Cut) -> None:
    """The lines outside the edit are there as they were, in their order; those before the entry and behind the last edit without any between them."""
    old, new = made.original.text.splitlines(), made.text.decode().splitlines()
    spans = replaced(made)
    hoisted = {made.original.line(s.start) for s in made._piece.hoisted()}
    kept = [row for n, row in enumerate(old, 1) if not any(a <= n <= b for a, b in spans) or n in hoisted]
    rows = iter(new)
    assert all(row in rows for row in kept)  # each found behind the one before it
    entry = made.original.line(made.original.entry("k").start)
    if made.style == "inline":
        assert new[: entry - 1] == old[: entry - 1]
    tail, rest = old[spans[-1][1] :], [row for row in new if not re.match(r"\s*\.(shared|local) .* pg_\w+\[", row)]
    assert rest[len(rest) - len(tail) :] == tail


def check_head(made: Cut) -> None:
    """The entry's name, parameters and directives, and the module's target are the original's."""
    old, new = made.original.entry("k"), made.document.entry("k")
    assert [(p.name, p.type, p.align, p.attributes) for p in new.params] == [(p.name, p.type, p.align, p.attributes) for p in old.params]
    assert (new.directives, new.linking, made.document.target) == (old.directives, old.linking, made.original.target)
    assert made.document.version == made.original.version


def check(made: Cut, name: str) -> None:
    check_head(made)
    check_outside(made)
    for engine in ENGINES:
        assert run(made.document, engine) == kernel(name).expected[engine], (made.text.decode(), engine)
    if find_ptxas() is not None:
        result = assemble(made.document)
        assert result.ok, (result.log, made.text.decode())


@settings(deadline=None, max_examples=60, derandomize=True)
@given(st.data())
def test_any_region_in_any_style(data: st.DataObject):
    name = data.draw(st.sampled_from(sorted(BODIES)))
    style = data.draw(st.sampled_from(STYLES))
    rows = lines(name)
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first, len(rows) - 1))
    try:
        made = cut(kernel(name).document, "k", (rows[first], rows[last]), style=style, body="identity")
    except UnsupportedError as error:
        # What cannot be cut says where, which statement, and a way out.
        assert error.place is not None and rows[0] <= error.place.line <= rows[-1] + 2, error
        assert re.search(r"line \d+: `.+`|lines \d+ to \d+ .*phase|condition code|hold no tensor-core", error.message), error
        assert error.hint
        return
    check(made, name)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("name", ["phases", "doubles"])
def test_the_whole_mma_region(name: str, style: str):
    check(cut(kernel(name).document, "k", style=style, body="identity"), name)


REGIONS = {
    "loops": ["label OUTER-DONE", "label COUNT", "label COUNT-DONE"],
    "branches": ["label THIRD", "label JOIN"],
    "phases": ["p1", "p0", "p2-p3", "phases 0-3"],
}


@pytest.mark.parametrize("style", ["inline", "call", "mirror"])
@pytest.mark.parametrize("name", sorted(REGIONS))
def test_regions_by_label_and_phase(name: str, style: str):
    for region in REGIONS[name]:
        check(cut(kernel(name).document, "k", region, style=style, body="identity"), name)


def test_a_stretch_with_two_ways_out_is_refused():
    with pytest.raises(UnsupportedError, match="`@!%p1 bra JOIN;` branches out of the region"):
        cut(kernel("branches").document, "k", "label FIRST")


def test_a_label_that_is_none():
    document = kernel("loops").document
    with pytest.raises(UsageError, match="'k' has no label 'NOWHERE'; its labels are OUTER, INNER, COUNT, DONE"):
        cut(document, "k", "label NOWHERE")
    with pytest.raises(UsageError, match="there is no statement from label 'DONE' to 'OUTER'"):
        cut(document, "k", "label DONE-OUTER")


def test_names_do_not_meet_those_of_the_text():
    text = kernel("wide").document.text.replace("%d3", "%pg_d").replace("\t.reg .f64 %d<24>;", "\t.reg .f64 %d<24>;\n\t.reg .f64 %pg_d;")
    document = Document.parse(text, "wide.ptx")
    for style in ("inline", "call", "mirror"):
        made = cut(document, "k", (22, 30), style=style, body="identity")
        assert run(made.document, "numpy") == kernel("wide").expected["numpy"]
