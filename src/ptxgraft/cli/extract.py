"""``ptxgraft extract``: PTX out of the files that carry it."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Group

from ptxgraft.cli.console import JsonFlag, note, show
from ptxgraft.containers import Extraction, module_hashes
from ptxgraft.containers import extract as extract_file
from ptxgraft.errors import UsageError
from ptxgraft.report import Listing, file_stem, make_folder, write_files

INDEX = "index.json"


def extract(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Programs, libraries, fat binaries, PTX.", show_default=False)],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Folder for the modules and their index; without it they are only listed.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Find the PTX in programs, libraries (ELF, PE), fat binaries and raw files, and write each module to a file of its own.

    A module that is there several times is written once; index.json says where each was found, its hashes, version, target and entries. What looks like
    PTX and cannot be read is listed with its place. Exit code 2 when nothing is found.

    Example: ptxgraft extract program.exe -o modules
    """
    extractions = [extract_file(path) for path in files]
    modules, texts = _index(extractions)
    problems = [{"file": str(e.path), "offset": p.offset, "problem": p.text} for e in extractions for p in e.problems]
    data = {
        "files": [{"file": str(e.path), "kind": e.kind, "modules": len(e.modules), "cubins": e.cubins} for e in extractions],
        "modules": modules,
        "problems": problems,
    }
    if output is not None and modules:
        make_folder(output)
        index = json_text.dumps(data, indent=1) + "\n"
        write_files({output / name: text for name, text in {**texts, INDEX: index.encode()}.items()})
    view = Listing("file", "version", "target", ">bytes", ">entries", "found in")
    for m in modules:
        places = ", ".join(f"{p['file']} at {p['offset']:#x}" for p in m["found"][:3]) + (", ..." if len(m["found"]) > 3 else "")
        view.add_row(m["file"], m["version"], m["target"], str(m["bytes"]), str(len(m["entries"])), places)
    show(view if modules else Group(), data, json)
    for p in problems:
        note(f"ptxgraft: {p['file']}: {p['problem']}")
    if not modules:
        looked = ", ".join(f"{e.path} ({e.kind}, {e.cubins} cubins without PTX)" for e in extractions)
        raise UsageError(
            f"no PTX in {looked}",
            hint="a program built with machine code alone has none; build it with -arch=compute_XX, or look into the libraries it loads",
        )


def _index(extractions: list[Extraction]) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """One row for each different module, and the files to write: names are made here, from the input's own name and a number."""
    rows: dict[str, dict[str, Any]] = {}
    texts: dict[str, bytes] = {}
    for extraction in extractions:
        stem = file_stem(extraction.path.stem)
        for module in extraction.modules:
            sha, fnv = module_hashes(module.data)
            row = rows.get(sha)
            if row is None:
                name = f"{stem}-{len(rows) + 1}.ptx"
                texts[name] = module.data
                row = rows[sha] = {
                    "file": name, "sha256": sha, "fnv1a64": fnv, "bytes": len(module.data), "version": module.version, "target": module.target,
                    "entries": list(module.entries), "problem": module.problem, "found": [],
                }  # fmt: skip
            place = {"file": str(extraction.path), "where": module.where, "offset": module.offset, "compression": module.compression}
            row["found"].append({**place, "name": module.name})
    return list(rows.values()), texts
