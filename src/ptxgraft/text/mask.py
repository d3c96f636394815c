"""Comments and string contents made harmless, so that the scanner needs to know neither.

Invariant: a masked text has the length and the line ends of its original, so that every offset means the same in both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# ptxas knows no escape in a string (a backslash is a character), a string ends on its line, and comments do not nest.
_COMMENT = r"//[^\n]*+|/\*(?:[^*]++|\*(?!/))*+\*/"
_HIDDEN = re.compile(_COMMENT + r'|"[^"\n]*+"|/\*[\s\S]*+|"')  # no groups: then the engine looks for '/' and '"' only
_COMMENT_OR_STRING = re.compile(_COMMENT + r'|("[^"\n]*+")')
_BLANKS_OR_STRING = re.compile(r'("[^"\n]*+")|\s++')
_NOT_NEWLINE = re.compile("[^\n]")
_INTERMEDIATE = ".nv_intermediate_source_section"
# Source text of another language, which may hold anything but its end.
_INTERMEDIATE_SECTION = re.compile(
    rf"\{_INTERMEDIATE}\s*+\{{(?:[^{{}}]*+\{{[^{{}}]*?\.source_begin\b[\s\S]*?\.source_end\b[^{{}}]*+\}})++[^{{}}]*+\}}"
)


def mask(text: str, report: Callable[[int, str, str], None]) -> tuple[str, bool]:
    """Blank out comments, the insides of strings (quotes stay, contents become '_'), and sections of intermediate sources.

    ``report(offset, message, hint)`` is told of an unterminated comment or string. Returns the masked text, and False when an
    unterminated comment swallowed the rest, so that the end of the text says nothing about what was meant.
    """
    if "/" not in text and '"' not in text:
        return text, True
    whole = True
    if _INTERMEDIATE in text:
        text = _INTERMEDIATE_SECTION.sub(lambda m: _NOT_NEWLINE.sub(" ", m.group()), text)

    def hide(m: re.Match[str]) -> str:
        nonlocal whole
        found = m.group()
        if found == '"':
            report(m.start(), "this string is not closed on its line", "expected '\"'")
            return " "
        if found[0] == '"':
            return '"' + "_" * (len(found) - 2) + '"'
        if found[1] == "*" and (found[-2:] != "*/" or len(found) < 4):
            report(m.start(), "this comment is never closed", "expected '*/' before the end of the file")
            whole = False
        return _NOT_NEWLINE.sub(" ", found) if "\n" in found else " " * len(found)

    return _HIDDEN.sub(hide, text), whole


def tidy(text: str) -> str:
    """Text without comments, its runs of blanks made one; strings are kept as they are."""
    if "/" in text:
        text = _COMMENT_OR_STRING.sub(lambda m: m.group(1) or " ", text)
    if '"' in text:
        return _BLANKS_OR_STRING.sub(lambda m: m.group(1) or " ", text).strip()
    return " ".join(text.split())
