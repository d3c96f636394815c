"""Properties: blanks and comments mean nothing, whatever parses round-trips, and malformed input gives SourceError and nothing else."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ptxgraft.errors import SourceError
from ptxgraft.text import Document, register_declarations, variable_declarations

NASTY = [p.read_bytes() for p in sorted((Path(__file__).parent / "nasty").glob("*.ptx"))]
QUICK = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])

TRIVIA = st.lists(
    st.sampled_from([" ", "\t", "\n", "\r\n", "// } ; {\n", "/* ; */", "/* } \n { */", '// "\n', "/**/", '/*"*/', "/***/", "//*\n"]),
    min_size=1,
    max_size=3,
).map("".join)
NAME = st.sampled_from(["%r1", "%rd2", "x", "$L__1", "_a$b", "%p"])
OPERAND = st.one_of(
    NAME,
    st.sampled_from(["1", "-1.5", "0f3F800000", "%tid.x", "!%p3", "%p1|%p2"]),
    st.builds(lambda n, o: f"[{n}+{o}]", NAME, st.integers(0, 99)),
    st.lists(NAME, max_size=3).map(lambda names: "{" + ",".join(names) + "}"),
)
OPCODE = st.sampled_from(["add.u32", "ret", "ld.global.nc.v4.u32", "frob.shared::cluster.b32", "_x", "UPPER"])


@st.composite
def statement(draw, depth=2):
    """Tokens of one statement, to be joined with blanks and comments; and how it should be read."""
    shape = draw(st.sampled_from(["instruction", "instruction", "guarded", "label", "reg", "loc", "block"]))
    if shape == "label":
        name = draw(NAME)
        return [name, ":"], [(name, "")]
    if shape == "reg":
        return [".reg", ".b32", "%r<3>", ",", "y", ";"], [(".reg", ".b32%r<3>,y")]
    if shape == "loc":
        return [".loc", "1", "2", "3"], [(".loc", "123")]
    if shape == "block" and depth:
        inside = draw(st.lists(statement(depth - 1), max_size=3))
        return ["{", *(t for tokens, _ in inside for t in tokens), "}"], [("{", ""), *(r for _, read in inside for r in read), ("}", "")]
    opcode, operands = draw(OPCODE), draw(st.lists(OPERAND, max_size=3))
    tokens = [opcode, *(t for i, o in enumerate(operands) for t in ([",", o] if i else [o])), ";"]
    if shape == "guarded":
        tokens = ["@", draw(st.sampled_from(["%p1", "!%p2", "p"])), *tokens]
    return tokens, [(opcode, ",".join(operands))]


@QUICK
@given(st.lists(statement(), max_size=6), st.data())
def test_blanks_and_comments_mean_nothing(body, data):
    tokens = [".version", "8.0", ".target", "sm_80", ".entry", "k", "(", ")", "{", *(t for tokens, _ in body for t in tokens), "}"]
    pieces = [data.draw(TRIVIA)]
    for token in tokens:
        pieces += [token, data.draw(TRIVIA)]
    text = "".join(pieces)
    document = Document.parse(text)
    found = [(s.opcode, "".join(s.operands.split())) for s in document.statements[4:-1]]
    assert found == [r for _, read in body for r in read]
    assert document.print().decode() == text
    for s in document.statements[4:-1]:
        assert document.source(s).startswith("@" if s.guard else s.opcode)


@QUICK
@given(st.sampled_from(NASTY), st.lists(st.tuples(st.floats(0, 1), st.integers(0, 4), st.binary(max_size=4)), min_size=1, max_size=4))
def test_mutations_give_source_errors_or_round_trip(covers, data, changes):
    for where, drop, put in changes:
        at = int(where * len(data))
        data = data[:at] + put + data[at + drop :]
    check(data, covers)


@QUICK
@given(st.sampled_from(NASTY), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_moved_and_missing_pieces(covers, data, a, b, c):
    i, j, k = sorted(int(x * len(data)) for x in (a, b, c))
    check(data[:i] + data[j:k] + data[i:j] + data[k:], covers)
    check(data[:i] + data[j:], covers)


@QUICK
@given(
    st.lists(
        st.sampled_from(
            [
                *'{}()[];:,.@!"/*\\#\0\n\r\t %',
                ".reg",
                ".entry",
                ".func",
                ".section",
                "ret",
                "/*",
                "//",
                ".b8",
                ".version 8.0",
                ".target x",
                "k",
                "1",
            ]
        ),
        max_size=40,
    ).map("".join)
)
def test_token_soup(covers, text):
    check(text.encode(), covers)


@QUICK
@given(st.binary(max_size=200))
def test_any_bytes(covers, data):
    check(data, covers)


def check(data: bytes, covers) -> None:
    """Never anything but SourceError; lenient parsing never raises; whatever parses strictly accounts for every byte."""
    loose = Document.parse(data, strict=False)
    assert loose.print() == data
    for i, s in enumerate(loose.statements):
        assert s.index == i and 0 <= s.start < s.end <= len(data)
    try:
        strict = Document.parse(data)
    except SourceError:
        assert loose.errors
        return
    assert not loose.errors
    covers(strict)
    for scope in strict.scopes:
        try:
            register_declarations(strict, scope)
            variable_declarations(strict, scope)
        except SourceError as e:
            assert e.place


@pytest.mark.parametrize("data", NASTY)
def test_cut_short_anywhere_is_never_a_crash(data, covers):
    for end in range(0, len(data), 37):
        check(data[:end], covers)
