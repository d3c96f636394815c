"""``ptxgraft ls``: the entries of a module."""

from __future__ import annotations

from ptxgraft.cli.console import JsonFlag, PtxFile, show
from ptxgraft.isa import bind
from ptxgraft.isa.program import parameter_layout
from ptxgraft.report import table
from ptxgraft.text import Document


def ls(file: PtxFile, json: JsonFlag = False) -> None:
    """List a module's entries: parameters, statements, tensor-core instructions, and what the instruction table does not know.

    Example: ptxgraft ls kernel.ptx
    """
    document = Document.read(file)
    rows = []
    for entry in document.entries:
        program = bind(document, entry.name)
        params = [{"name": n, "type": t, "offset": o, "size": s} for n, t, o, s, _, _ in parameter_layout(entry)]
        rows.append(
            {
                "name": entry.name,
                "line": document.line(entry.start),
                "params": params,
                "statements": len(program.instructions) - 1,
                "mma": sum(i.form is not None and i.form.tensor for i in program.instructions),
                "unknown": sorted({i.statement.opcode for i in program.unknown}),
            }
        )
    view = table("entry", ">line", ">parameters", ">bytes", ">statements", ">mma", "not in the instruction table")
    for r in rows:
        size = max((p["offset"] + p["size"] for p in r["params"]), default=0)
        counts = (str(r["line"]), str(len(r["params"])), str(size), str(r["statements"]), str(r["mma"]))
        view.add_row(r["name"], *counts, ", ".join(r["unknown"]) or "-")
    data = {"file": str(file), "version": list(document.version), "target": list(document.target), "entries": rows}
    show(view, data, json)
