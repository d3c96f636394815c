"""``ptxgraft cut``: replace a region."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from ptxgraft.cli.console import EntryName, JsonFlag, PtxFile, make_folder, show, triple, write_file
from ptxgraft.cli.modules import pick_entry
from ptxgraft.errors import UsageError
from ptxgraft.graft import Body, Cut, assemble, find_ptxas, function_body, identity_body, text_body
from ptxgraft.graft import cut as make_cut
from ptxgraft.report import plain
from ptxgraft.text import Document


def cut(
    file: PtxFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the new PTX, declaration, skeletons and spec.", show_default=False)
    ],
    entry: EntryName = None,
    region: Annotated[
        str | None,
        typer.Option(
            "--region", help="'phase 3', 'phases 3-5' or FIRST-LAST file lines; default: the whole mma region.", show_default=False
        ),
    ] = None,
    style: Annotated[
        str, typer.Option("--style", help="inline: a block in place; mirror: a call whose results come back through shared memory.")
    ] = "inline",
    body: Annotated[
        str | None,
        typer.Option(
            "--body",
            help="identity, a file with PTX text for a block, or FILE:NAME for a .func of another module. Default: identity (inline), a mere declaration (mirror).",
            show_default=False,
        ),
    ] = None,
    callee: Annotated[str | None, typer.Option("--callee", help="Name of the called function (mirror).", show_default=False)] = None,
    block: Annotated[
        str | None, typer.Option("--block", help="Block shape X,Y,Z where the entry does not state it (mirror).", show_default=False)
    ] = None,
    check: Annotated[bool, typer.Option(help="Assemble the result with ptxas when one is found.")] = True,
    json: JsonFlag = False,
) -> None:
    """Cut a region out and graft something in its place. Everything outside the region stays as it is, byte for byte.

    Writes ENTRY-STYLE.ptx, the callee's declaration, skeletons in CUDA C++ and HIP C++, and the spec as Markdown and JSON.

    Example: ptxgraft cut enc4.ptx -e enc4 --style mirror --body identity -o cut-out
    """
    document = Document.read(file)
    name = pick_entry(document, entry)
    shape = triple(block, "block") if block is not None else None
    made = make_cut(document, name, _region(region), style=style, body=_body(body), callee=callee, block=shape)
    files = write_cut(made, make_folder(output))
    log = _checked(made) if check else "not checked"
    line = Text(
        f"{name}: lines {made.region.first_line} to {made.region.last_line} cut, style {style}; {len(made.abi.live_in)} live in, {len(made.abi.live_out)} live out"
    )
    parts = [
        line,
        *(Text(f"note: {n}", style="yellow") for n in made.notes),
        Text(f"ptxas: {log}"),
        *(Text(f"wrote {p}") for p in files.values()),
    ]
    data = {
        "entry": name,
        "style": style,
        "region": made.region,
        "abi": made.abi,
        "callee": made.callee,
        "notes": made.notes,
        "ptxas": log,
        "files": files,
    }
    show(Group(*parts), data, json)


def _region(text: str | None) -> str | tuple[int, int] | None:
    if text is None or not text[:1].isdigit():
        return text
    first, _, last = text.partition("-")
    if not (first.isdigit() and (last or first).isdigit()):
        raise UsageError(f"region {text!r} is not FIRST-LAST", hint="write 'phase 3', 'phases 3-5' or two line numbers, 120-340")
    return int(first), int(last or first)


def _body(text: str | None) -> Body | None:
    if text is None:
        return None
    if text == "identity":
        return identity_body()
    path, _, name = text.rpartition(":")
    if path and name.isidentifier():
        return function_body(Document.read(Path(path)), name)
    try:
        return text_body(Path(text).read_text())
    except OSError as error:
        raise UsageError(f"cannot read the body {text}: {error.strerror}", hint="give identity, a file, or FILE:NAME") from error


def write_cut(made: Cut, folder: Path) -> dict[str, Path]:
    """Write all files of a cut into ``folder``; their paths by kind."""
    stem = f"{made.entry}-{made.style}"
    files: dict[str, tuple[Path, bytes | str]] = {
        "ptx": (folder / f"{stem}.ptx", made.text),
        "spec_markdown": (folder / f"{made.entry}-spec.md", made.spec_markdown),
        "spec_json": (folder / f"{made.entry}-spec.json", json_text.dumps(plain(made.spec_json), indent=1)),
    }
    if made.declaration:
        files["declaration"] = (folder / f"{stem}-declaration.ptx", made.declaration)
    for language, suffix in (("cuda", ".cu"), ("hip", ".hip.cpp")):
        if made.skeletons.get(language):
            files[f"skeleton_{language}"] = (folder / f"{stem}-skeleton{suffix}", made.skeletons[language])
    for path, data in files.values():
        write_file(path, data)
    return {kind: path for kind, (path, _) in files.items()}


def _checked(made: Cut) -> str:
    if find_ptxas() is None:
        return "not found, the result was not assembled"
    result = assemble(made.text)
    if result.ok:
        return "assembles" + (" (relocatable: the callee is declared only)" if result.relocatable else "")
    return "FAILS\n" + result.log
