"""Another module's function, with all it needs, brought into a document.

Invariant: every name that is defined by what is brought in is new in the document; names that a linker resolves keep their spelling. Nothing of
the document changes but its ``.version``, and that only when an instruction brought in needs a later one.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from ptxgraft.errors import UnsupportedError, UsageError
from ptxgraft.isa import form_of
from ptxgraft.text import Document, EditScript, FreshNames, Function, Kind, Statement, variable_declarations

_TOKEN = re.compile(r"(?<![\w$%.])[\w$]+")
_TARGET = re.compile(r"sm_(\d+)([af]?)")


@dataclass(slots=True)
class Merged:
    """What to put at module scope before the first use. ``name`` is the function's new name, ``names`` all renamings, ``version`` the
    PTX version that the text needs, ``rest`` the text without the function itself."""

    text: str
    name: str
    names: dict[str, str]
    version: tuple[int, int]
    notes: list[str] = field(default_factory=list)
    rest: str = ""


def merge_function(document: Document, other: Document, name: str, fresh: FreshNames | None = None) -> Merged:
    """Prepare ``other``'s function ``name``, and what it needs (functions, variables, externs), for ``document``.

    UsageError when ``other`` has no such function with a body; UnsupportedError when the two
    modules' address sizes, targets or texture modes cannot go together.
    """
    root = other.function(name)
    if root.kind != "func" or root.body is None:
        what = "is an entry" if root.kind == "entry" else "has no body"
        raise UsageError(
            f"{other.name}: {name!r} {what}: only a .func with a body can be grafted", hint="name a .func that is defined there"
        )
    check_modules(document, other)
    needed = _needed(other, root)
    fresh = fresh or FreshNames(document)
    script = EditScript(other)
    names: dict[str, str] = {}
    notes: list[str] = []
    present = {f.name for f in document.functions}
    for item in needed:
        if item.open:
            continue
        new = fresh.name(item.name.lstrip("%$"))
        while re.search(rf"(?<![\w$]){re.escape(new)}(?![\w$])", other.text):
            new = fresh.name(item.name.lstrip("%$"))
        names[item.name] = new
        script.rename(other.scopes[0], item.name, new)
    dropped = _drop_debug(other, script, needed)
    if dropped:
        notes.append(f"{dropped} .loc lines of {other.name} were left out: they speak of that module's files")
    data = script.apply()
    pieces: list[str] = []
    rest: list[str] = []
    for item in needed:
        if item.open and item.name in present:
            continue
        pieces.append(data[script.to_new(item.start) : script.to_new(item.end)].decode("utf-8", "replace").rstrip())
        if item.name != name:
            rest.append(pieces[-1])
    version, why = _version_needed(other, needed)
    if version > document.version:
        notes.append(f".version {document.version[0]}.{document.version[1]} was raised to {version[0]}.{version[1]}: {why}")
    return Merged("\n".join(pieces), names.get(name, name), names, max(version, document.version), notes, "\n".join(rest))


@dataclass(slots=True)
class _Item:
    """One thing at module scope. ``open``: defined elsewhere, a linker finds it by its name."""

    name: str
    start: int
    end: int
    open: bool
    function: Function | None = None


def check_modules(document: Document, other: Document) -> None:
    """UnsupportedError when code of ``other`` cannot stand in ``document``."""
    if document.address_size != other.address_size:
        raise UnsupportedError(
            f"{other.name} has {other.address_size}-bit addresses, {document.name} {document.address_size}-bit ones",
            hint="compile the body for the module's address size",
        )
    modes = [sorted(t for t in d.target if t.startswith("texmode")) for d in (document, other)]
    if modes[0] != modes[1]:
        raise UnsupportedError(
            f"{document.name} and {other.name} have different texture modes ({modes[0] or 'unified'}, {modes[1] or 'unified'})",
            hint="compile the body with the module's texture mode",
        )
    ours, theirs = (_architecture(d) for d in (document, other))
    if theirs is None or ours is None:
        return
    if theirs[0] > ours[0] or (theirs[1] and theirs != ours):
        raise UnsupportedError(
            f"{other.name} is for {_shown(theirs)}, {document.name} for {_shown(ours)}: code for the later target cannot go into the earlier",
            hint=f"compile the body for {_shown(ours)}, or raise the module's .target first",
        )


def _architecture(document: Document) -> tuple[int, str] | None:
    found = next((m for t in document.target if (m := _TARGET.fullmatch(t))), None)
    return None if found is None else (int(found[1]), found[2])


def _shown(architecture: tuple[int, str]) -> str:
    return f"sm_{architecture[0]}{architecture[1]}"


def _needed(other: Document, root: Function) -> list[_Item]:
    """``root`` and everything at module scope that it needs, in file order."""
    table: dict[str, list[_Item]] = {}
    defined = {f.name for f in other.functions if f.body is not None}
    for function in other.functions:
        table.setdefault(function.name, []).append(
            _Item(function.name, function.start, function.end, function.name not in defined, function)
        )
    for variable in variable_declarations(other, other.scopes[0]):
        statement = variable.statement
        table.setdefault(variable.name, []).append(_Item(variable.name, statement.start, statement.end, variable.extern))
    waiting, found = [root.name], {root.name}
    while waiting:
        for item in table[waiting.pop()]:
            if item.function is not None and item.function.kind == "entry":
                raise UnsupportedError(f"{other.name}: {root.name!r} needs the entry {item.name!r}, which cannot be brought along")
            for name in _TOKEN.findall(other.masked, item.start, item.end):
                if name in table and name not in found:
                    found.add(name)
                    waiting.append(name)
    items = [item for name in found for item in table[name]]
    spans: dict[int, _Item] = {}
    for item in items:
        spans.setdefault(item.start, item)  # one directive may declare several variables
    return sorted(spans.values(), key=lambda i: i.start)


def _drop_debug(other: Document, script: EditScript, needed: list[_Item]) -> int:
    count = 0
    for item in needed:
        if item.function is None or item.function.body is None:
            continue
        for index in item.function.body:
            statement = other.statements[index]
            if statement.kind == Kind.DIRECTIVE and statement.opcode == ".loc":
                script.replace_span(statement.start, statement.end, "")
                count += 1
    return count


def _version_needed(other: Document, needed: list[_Item]) -> tuple[tuple[int, int], str]:
    """The first PTX version with every instruction of the functions, and which one asks for it; an unknown one asks for its module's."""
    version, why = (0, 0), ""
    for item in needed:
        if item.function is None or item.function.body is None:
            continue
        for index in item.function.body:
            statement: Statement = other.statements[index]
            if statement.kind == Kind.INSTRUCTION:
                form = form_of(statement.opcode)
                since = form.since if form is not None else other.version
                if since > version:
                    version, why = since, f"{statement.opcode} of {item.name!r} needs it"
    return version, why


def raise_version(script: EditScript, version: tuple[int, int]) -> None:
    """Edit the ``.version`` directive when the document's is earlier than ``version``."""
    document = script.document
    if version > document.version:
        statement = document.statements[document.directives[".version"][0]]
        script.replace_span(statement.start, statement.end, f".version {version[0]}.{version[1]}")
