"""Operand texts taken apart at their commas, and no further.

Invariant: joining the pieces with commas gives the operand text back, blanks around the pieces apart.
"""

from __future__ import annotations

import re

_BRACKET = re.compile(r"[\[\](){},]")


def split_operands(text: str) -> list[str]:
    """Split at the commas outside ``[]``, ``{}`` and ``()``: ``'{%r1,%r2}, [%rd1+4], 7'`` gives three pieces; blank text gives none.

    ``%p1|%p2`` stays one piece: what '|' means is the instruction's business. Unbalanced brackets raise ValueError.
    """
    if "[" not in text and "{" not in text and "(" not in text:
        if "]" in text or "}" in text or ")" in text:
            raise ValueError(f"unbalanced brackets in operands '{text}'")
        return [p.strip() for p in text.split(",")] if text.strip() else []
    pieces: list[str] = []
    closers: list[str] = []
    start = 0
    for m in _BRACKET.finditer(text):
        found = m.group()
        if found == ",":
            if not closers:
                pieces.append(text[start : m.start()].strip())
                start = m.end()
        elif found in "[({":
            closers.append({"[": "]", "(": ")", "{": "}"}[found])
        elif not closers or closers.pop() != found:
            raise ValueError(f"unbalanced brackets in operands '{text}'")
    if closers:
        raise ValueError(f"unbalanced brackets in operands '{text}'")
    pieces.append(text[start:].strip())
    return pieces
