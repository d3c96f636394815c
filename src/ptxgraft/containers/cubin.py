"""Names that a cubin (an ELF file of machine code) gives to module variables.

Invariant: only what the symbol table says is given; a table that does not fit its file is a ``SourceError``.
"""

from __future__ import annotations

import struct

from ptxgraft.errors import SourceError

_HEAD = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _OBJECT = 2, 1
_SPACES = (b".nv.global", b".nv.constant3")  # .const variables lie in bank 3


def variable_names(data: bytes) -> list[str]:
    """The global and constant variables that a cubin defines, in the order of its symbol table."""
    try:
        head = _HEAD.unpack_from(data)
        if not data.startswith(b"\x7fELF\x02\x01"):
            raise SourceError("this is no 64-bit ELF file")
        place, each, count, names_at = head[6], head[11], head[12], head[13]
        sections = [_SECTION.unpack_from(data, place + i * each) for i in range(count)]
        found = []
        for section in (s for s in sections if s[1] == _SYMBOL_TABLE):
            for at in range(section[4], section[4] + section[5] - _SYMBOL.size + 1, _SYMBOL.size):
                name, info, _, index, _, size = _SYMBOL.unpack_from(data, at)
                if info & 15 == _OBJECT and size and index < count:  # nvcc makes them all local
                    space = _word(data, sections[names_at][4] + sections[index][0])
                    if space.startswith(_SPACES):
                        found.append(_word(data, sections[section[6]][4] + name).decode("latin-1"))
        return found
    except (struct.error, IndexError):
        raise SourceError("an ELF file's tables do not fit into it") from None


def _word(data: bytes, at: int) -> bytes:
    end = data.find(b"\0", at)
    if not 0 <= at < len(data) or end < 0:
        raise SourceError("an ELF file names something outside its own bytes")
    return data[at:end]
