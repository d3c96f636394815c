"""The bridge's log of a directory capture: which filter a texture handle had when a launch was made.

Invariant: an answer is that of the last creation of the handle before the launch's own line (before the end of the log when the launch has
none); no creation seen, or one without a filter that is known, is 'unknown' (``None``), never a guess.
"""

from __future__ import annotations

import os
import re
from bisect import bisect_left
from dataclasses import dataclass, field

from ptxgraft.capture.contents import open_regular
from ptxgraft.capture.image_record import FILTERS, Filter

_CREATE = re.compile(r"(?<!\w)cuTexObjectCreate(?!\w)")
_FILTER = re.compile(r"(?<!\w)filter=([0-9]+)(?!\w)")
_OBJECT = re.compile(r"(?<!\w)object=0x([0-9a-fA-F]{1,16})(?!\w)")
_LAUNCH = re.compile(r"(?<!\w)launch\[([0-9]{1,18})\][ \t]+(\S+)")


@dataclass(slots=True)
class RunLog:
    """Lines of interest: creations of each handle as (line, filter), and the launch lines of each sequence number as (line, kernel word)."""

    creations: dict[int, list[tuple[int, Filter | None]]] = field(default_factory=dict)
    launches: dict[int, list[tuple[int, str]]] = field(default_factory=dict)

    def filter_of(self, handle: int, seq: int, kernel: str) -> Filter | None:
        """The filter that ``handle`` had at launch ``seq`` of ``kernel``, or ``None``: unknown."""
        created = self.creations.get(handle, [])
        own = re.compile(re.escape(kernel) + r"(?![\w$])")
        line = next((line for line, word in self.launches.get(seq, []) if own.match(word)), None)
        seen = len(created) if line is None else bisect_left(created, line, key=lambda entry: entry[0])
        return created[seen - 1][1] if seen else None


def read_run_log(path: str) -> RunLog:
    """Read a log. Bytes that are not UTF-8 are replaced: other lines of it may hold anything. Raises ``SourceError`` when it cannot be read."""
    log = RunLog()
    with os.fdopen(open_regular(path, "the log"), encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file):
            if "launch[" in line and (match := _LAUNCH.search(line)):
                log.launches.setdefault(int(match[1]), []).append((number, match[2]))
            elif (create := _CREATE.search(line)) and (handle := _OBJECT.search(line, create.end())):
                mode = _FILTER.search(line, create.end())
                code = int(mode[1]) if mode and len(mode[1]) <= 4 else -1
                known = FILTERS[code] if 0 <= code < len(FILTERS) else None
                log.creations.setdefault(int(handle[1], 16), []).append((number, known))
    return log
