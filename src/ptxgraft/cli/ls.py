"""``ptxgraft ls``: the entries of a module."""

from __future__ import annotations

import typer
from rich.console import Group

from ptxgraft.cli.console import JsonFlag, PtxFile, complain, show
from ptxgraft.cli.modules import about
from ptxgraft.errors import SourceError, UsageError
from ptxgraft.isa import bind, parameter_layout
from ptxgraft.report import Listing
from ptxgraft.text import Document, Function


def ls(file: PtxFile, json: JsonFlag = False) -> None:
    """List a module's entries: parameters, statements, tensor-core instructions, and what the instruction table does not know.

    Statements of functions that an entry calls count once for each call. Exit code 2 when an entry is wrong; the others are listed all the same.

    Example: ptxgraft ls demo-out/enc4.ptx
    """
    document = Document.read(file)
    if not document.entries:
        raise UsageError(f"{file} defines no entry")
    rows, wrong = [], []
    for entry in document.entries:
        try:
            with about(file):
                rows.append(_row(document, entry))
        except SourceError as error:
            wrong.append(error)
    view = Listing(">line", ">parameters", ">bytes", ">statements", ">mma", "+not in the instruction table", "entry")
    for r in rows:
        size = max((p["offset"] + p["size"] for p in r["params"]), default=0)
        counts = (str(r["line"]), str(len(r["params"])), str(size), str(r["statements"]), str(r["mma"]))
        view.add_row(*counts, ", ".join(r["unknown"]) or "-", r["name"])
    data = {"file": str(file), "version": document.version, "target": document.target, "entries": rows, "errors": [str(e) for e in wrong]}
    show(view if rows else Group(), data, json)
    for error in wrong:
        complain(error)
    if wrong:
        raise typer.Exit(SourceError.exit_code)


def _row(document: Document, entry: Function) -> dict:
    program = bind(document, entry.name)
    return {
        "name": entry.name,
        "line": document.line(entry.start),
        "params": [{"name": n, "type": t, "offset": o, "size": s} for n, t, o, s, _, _ in parameter_layout(entry)],
        "statements": len(program.instructions) - 1,  # without the end of the body
        "mma": sum(i.form is not None and i.form.tensor for i in program.instructions),
        "unknown": sorted({i.statement.opcode for i in program.unknown}),
    }
