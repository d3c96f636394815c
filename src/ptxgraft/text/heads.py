"""The heads of entries and functions: linking, names, parameters, directives.

Invariant: nothing in a head is guessed; a piece of it that fits no rule is reported where it stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ptxgraft.text.mask import tidy
from ptxgraft.text.model import Parameter

Report = Callable[[int, str, str], None]

IDENTIFIER = r"(?:[A-Za-z][A-Za-z0-9_$]*+|[_$%][A-Za-z0-9_$]*+)"
_BLANK = re.compile(r"\s*+")
_ATTRIBUTE = re.compile(r"\.attribute\s*+\((?:[^()]|\([^()]*+\))*+\)")
_LIST = re.compile(r"\(([^()]*+)\)")
_NAME = re.compile(IDENTIFIER)
_TUNING = re.compile(r"(\.[A-Za-z_]\w*+)([^.;{}()]*+);?")
_PARAMETER = re.compile(
    r"\s*+(\.(?:param|reg))\b((?:\s*+\.[A-Za-z]\w*+(?:\s++\d\w*+)?+)*+)\s*+(" + IDENTIFIER + r")?+\s*+((?:\[[^\[\]]*+\]\s*+)*+)$"
)
_WORD = re.compile(r"(\.[A-Za-z]\w*+)(?:\s++(\d\w*+))?+")
_DIMENSION = re.compile(r"\[\s*+([^\]]*?)\s*+\]")


EXTENTS = frozenset({".maxntid", ".reqntid"})
"""Directives that state a block's shape."""

LONGEST_COUNT = 18
"""Digits of a number that a range of registers can reach."""


@dataclass(slots=True)
class Head:
    """What stands between '.entry' or '.func' and the body or the ';'."""

    name: str = ""
    name_start: int = 0
    returns: list[Parameter] = field(default_factory=list)
    params: list[Parameter] = field(default_factory=list)
    directives: list[tuple[str, str]] = field(default_factory=list)


def integer(text: str) -> int | None:
    """A PTX integer literal (decimal, 0x, 0b, octal 0, optional U suffix), or None."""
    digits = text.rstrip("uU").lower()
    try:
        if digits[:2] in ("0x", "0b"):
            return int(digits, 0)
        return int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits, 10)
    except ValueError:
        return None


def is_number(digits: str) -> bool:
    """Can this follow a base in the name of a register of a range: decimal, no leading zero, no longer than a count can be?"""
    return digits.isdecimal() and len(digits) <= LONGEST_COUNT and (digits[0] != "0" or digits == "0")


def extents(text: str) -> tuple[int, int, int] | None:
    """``32, 1, 4`` as three positive numbers, those left out being 1; None for anything else."""
    numbers = [integer(piece.strip()) or 0 for piece in text.split(",")]
    if len(numbers) > 3 or min(numbers) < 1:
        return None
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def dimensions(text: str) -> list[int] | None:
    """``[4][2]`` as [4, 2]; an unsized ``[]`` is 0. None when one is no integer literal, which is all that ptxas takes."""
    sizes = [0 if not size else integer(size) for size in _DIMENSION.findall(text)]
    return None if None in sizes else [s for s in sizes if s is not None]


def parse_head(masked: str, text: str, start: int, end: int, report: Report) -> Head:
    """Read the head whose words after '.entry' or '.func' are ``masked[start:end]``; after an error, what was read until there."""
    head = Head(name_start=start)
    at = _skip(masked, start, end)
    while m := _ATTRIBUTE.match(masked, at, end):
        head.directives.append((".attribute", tidy(text[at + len(".attribute") : m.end()])))
        at = _skip(masked, m.end(), end)
    if at < end and masked[at] == "(":
        at = _parameters(masked, at, end, head.returns, report)
        if at < 0:
            return head
    m = _NAME.match(masked, at, end)
    if m is None:
        report(
            min(at, end - 1),
            f"expected a name, found {_found(masked, at, end)}",
            "a name follows '.entry', or '.func' and its return values",
        )
        return head
    head.name, head.name_start = m.group(), m.start()
    at = _skip(masked, m.end(), end)
    if at < end and masked[at] == "(":
        at = _parameters(masked, at, end, head.params, report)
        if at < 0:
            return head
    while at < end:
        m = _ATTRIBUTE.match(masked, at, end) or _TUNING.match(masked, at, end)
        if m is None:
            report(
                at,
                f"expected '{{' or ';' after the head of '{head.name}', found {_found(masked, at, end)}",
                "is a brace missing before it?",
            )
            return head
        word = m.group(1) if m.lastindex else ".attribute"
        words = tidy(text[at + len(word) : m.end()]).rstrip(";").rstrip()
        if word in EXTENTS and extents(words) is None:
            report(at, f"cannot read this '{word}'", "expected one to three positive numbers, as in '.maxntid 32, 1, 4'")
        else:
            head.directives.append((word, words))
        at = _skip(masked, m.end(), end)
    return head


def parse_parameters(masked: str, start: int, end: int, report: Report) -> list[Parameter] | None:
    """The parameters of the list whose inside is ``masked[start:end]``; None after an error was reported."""
    result: list[Parameter] = []
    inside = masked[start:end]
    if not inside.strip():
        return result
    at = start
    for piece in inside.split(","):
        parameter = _parameter(piece, at, report)
        if parameter is None:
            return None
        result.append(parameter)
        at += len(piece) + 1
    return result


def _parameters(masked: str, at: int, end: int, into: list[Parameter], report: Report) -> int:
    m = _LIST.match(masked, at, end)
    if m is None:
        report(at, "this '(' is not closed before the body or the ';'", "expected ')'")
        return -1
    found = parse_parameters(masked, m.start(1), m.end(1), report)
    if found is None:
        return -1
    into.extend(found)
    return _skip(masked, m.end(), end)


def _parameter(piece: str, at: int, report: Report) -> Parameter | None:
    start = at + len(piece) - len(piece.lstrip())
    m = _PARAMETER.match(piece)
    if m is None or m.group(3) is None:
        shown = " ".join(piece.split())
        report(
            start, f"cannot read the parameter '{shown}'", "expected '.param .type name', with '.ptr', '.align' and '[count]' where wanted"
        )
        return None
    space, words, name, dims = m.group(1, 2, 3, 4)
    kind, vector, align = "", "", None
    attributes: list[str] = []
    for word, number in _WORD.findall(words):
        if attributes or word == ".ptr":
            attributes.append(f"{word} {number}" if number else word)
        elif word == ".align":
            align = integer(number)
        elif word in (".v2", ".v4", ".v8"):
            vector = word[1:]
        else:
            kind = word[1:]
    sizes = dimensions(dims)
    if not kind or sizes is None:
        report(
            start,
            f"the parameter '{name}' has no {'type' if not kind else 'literal array size'}",
            "expected for example '.param .b8 name[16]'",
        )
        return None
    count = None
    for size in sizes:
        count = size if count is None else count * size
    return Parameter(name, kind, count, align, tuple(attributes), space, start, at + len(piece.rstrip()), vector)


def _skip(masked: str, at: int, end: int) -> int:
    m = _BLANK.match(masked, at, end)
    return m.end() if m else at


def _found(masked: str, at: int, end: int) -> str:
    if at >= end:
        return "the end of the head"
    words = masked[at:end].split(None, 1)
    return f"'{words[0][:40]}'"
