"""``ptxgraft cut``: replace a region."""

from __future__ import annotations

import json as json_text
import shlex
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from ptxgraft.cli.console import EntryName, JsonFlag, PtxFile, show, triple, whole_number
from ptxgraft.cli.modules import about, pick_entry
from ptxgraft.errors import SourceError, UsageError
from ptxgraft.graft import Body, Cut, Cuts, RegionChoice, assemble, compile_body, find_ptxas, function_body, identity_body, text_body
from ptxgraft.graft import cut as make_cut
from ptxgraft.graft.manifest import NAME as MANIFEST
from ptxgraft.graft.manifest import Binding, updated_manifest
from ptxgraft.report import file_stem, make_folder, plain, write_files
from ptxgraft.text import Document


def cut(
    file: PtxFile,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for the new PTX, declaration, skeletons and spec.", show_default=False)
    ],
    entry: EntryName = None,
    region: Annotated[
        list[str] | None,
        typer.Option(
            "--region",
            help="p3, p3-p5, FIRST-LAST file lines, 'label LOOP' or 'label LOOP-DONE'; default: the whole mma region. Repeated: several regions in one edit.",
            show_default=False,
        ),
    ] = None,
    sibling: Annotated[
        list[str] | None,
        typer.Option(
            "--sibling", help="A variant of the kernel to cut alike: NAME of an entry, or FILE:NAME. May be repeated.", show_default=False
        ),
    ] = None,
    style: Annotated[
        str,
        typer.Option(
            "--style",
            help="inline: a block in place; call: a function of the module; mirror: a call whose results come back through shared memory; phases: one call for each phase.",
        ),
    ] = "inline",
    body: Annotated[
        str | None,
        typer.Option(
            "--body",
            help="identity, a file with PTX text for a block, FILE:NAME for a .func of another module, or FILE.cu (FILE.cu:NAME) to compile and merge. Default: identity (inline, call), a mere declaration (mirror, phases).",
            show_default=False,
        ),
    ] = None,
    callee: Annotated[str | None, typer.Option("--callee", help="Name of the called function.", show_default=False)] = None,
    block: Annotated[
        str | None,
        typer.Option(
            "--block",
            help="Block shape X,Y,Z that the spec and the skeletons hold for; sizes the shared rows of mirror and phases.",
            show_default=False,
        ),
    ] = None,
    nvcc_flags: Annotated[str, typer.Option("--nvcc-flags", help="More options for nvcc, in quotes, for --body FILE.cu.")] = "",
    check: Annotated[bool, typer.Option(help="Assemble the result with ptxas when one is found.")] = True,
    json: JsonFlag = False,
) -> None:
    """Cut a region out and graft something in its place. Everything outside the region stays as it is, byte for byte.

    Writes ENTRY-STYLE.ptx, the callee's declaration, skeletons in CUDA C++ and HIP C++, the spec as Markdown and JSON, and into grafts.json to
    which kernel of which module the graft belongs.

    Example: ptxgraft cut demo-out/enc4.ptx --style mirror --body identity -o cut-out
    """
    document = Document.read(file)
    name = pick_entry(document, entry)
    shape = triple(block, "block") if block is not None else None
    regions, replacement = [_region(r) for r in region or []], _body(body, document, callee or f"{name}_region", nvcc_flags)
    siblings = [_sibling(s) for s in sibling or []]
    made: Cut | Cuts
    with about(file):
        if len(regions) > 1:
            if siblings:
                raise UsageError("several regions and siblings do not go together", hint="cut one region of all siblings at a time")
            made = make_cut(document, name, list[RegionChoice](regions), style=style, body=replacement, callee=callee, block=shape)
        elif siblings:
            one = regions[0] if regions else None
            made = make_cut(document, name, one, style=style, body=replacement, callee=callee, block=shape, siblings=siblings)
        else:
            made = make_cut(document, name, regions[0] if regions else None, style=style, body=replacement, callee=callee, block=shape)
    folder = make_folder(output)
    cuts = [made] if isinstance(made, Cut) else made.cuts
    files = write_cut(made, folder, not regions) if isinstance(made, Cut) else write_cuts(made, folder, whole=not regions)
    log, assembles = _assembled(made) if check else ("not checked", None)
    parts = [
        *(Text(line, style=style) for c in cuts for line, style in _about_cut(c)),
        Text(f"ptxas: {log}", style="red" if assembles is False else ""),
        *(Text(f"wrote {p}") for p in files.values()),
    ]
    data = [{"entry": c.entry, "style": style, "region": c.region, "abi": c.abi, "callee": c.callee, "notes": c.notes} for c in cuts]
    checked = {"ptxas": log, "assembles": assembles, "files": files}
    show(Group(*parts), {**data[0], **checked} if isinstance(made, Cut) else {"style": style, "cuts": data, **checked}, json)
    if assembles is False:
        raise typer.Exit(SourceError.exit_code)


def _about_cut(made: Cut) -> list[tuple[str, str]]:
    """Lines about one cut, with their styles."""
    head = f"{made.entry}: lines {made.region.first_line} to {made.region.last_line} cut, style {made.style}; "
    counts = f"{len(made.abi.live_in)} live in, {len(made.abi.live_out)} live out"
    return [(head + counts, ""), *((f"note: {n}", "yellow") for n in made.notes)]


def _sibling(text: str) -> str | tuple[Document, str]:
    path, _, name = text.rpartition(":")
    return (Document.read(Path(path)), name) if path else text


def _region(text: str | None) -> str | tuple[int, int] | None:
    """Two line numbers as such; anything else is for ``cut`` to read or refuse."""
    if text is None or not text[:1].isdigit():
        return text
    first, _, last = text.partition("-")
    numbers = whole_number(first.strip()), whole_number((last or first).strip())
    if numbers[0] is None or numbers[1] is None:
        raise UsageError(f"region {text!r} is not FIRST-LAST", hint="write 'phase 3', 'phases 3-5' or two line numbers, 120-340")
    return numbers[0], numbers[1]


def _body(text: str | None, document: Document, usual: str, flags: str) -> Body | None:
    if text is None:
        return None
    if text == "identity":
        return identity_body()
    if text.endswith(".cu") or ".cu:" in text:
        path, name = (text, "") if text.endswith(".cu") else text.rsplit(":", 1)
        return compile_body(path, document, name, usual, shlex.split(flags))
    path, _, name = text.rpartition(":")
    if path and not Path(text).exists():
        return function_body(Document.read(Path(path)), name)
    try:
        content = Path(text).read_bytes().decode()
    except OSError as error:
        raise UsageError(f"cannot read the body {text}: {error.strerror}", hint="give identity, a file, or FILE:NAME") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"{text}: byte {error.start} is no UTF-8, so this is no PTX text") from error
    with about(Path(text)):
        return text_body(content)


def write_cut(made: Cut, folder: Path, whole: bool = True) -> dict[str, Path]:
    """Write all files of a cut into ``folder``, all or none; their paths by kind.

    Names hold entry and style, and the lines where the region is not the whole mma region, so that two cuts can share a folder.
    """
    stem = _stem(made, whole)
    return _written(folder, {"ptx": (f"{stem}.ptx", made.text)} | _texts(made, stem), [made.bind(f"{stem}.ptx")])


def write_cuts(made: Cuts, folder: Path, whole: bool) -> dict[str, Path]:
    """Write all files of several cuts: each new module once, under the name of its first cut; kinds are numbered."""
    texts: dict[str, tuple[str, bytes | str]] = {}
    modules = {id(document): document for document in made.documents}
    regions = len({(id(c.original), c.entry) for c in made}) == 1
    stems: set[str] = set()
    files: dict[int, str] = {}
    for number, one in enumerate(made):
        stem = _stem(one, whole)
        stem = f"{stem}-{number}" if stem in stems else stem  # siblings of one name in several modules
        stems.add(stem)
        if modules.pop(id(one.document), None) is not None:
            files[id(one.original)] = f"{_stem(one, True)}-regions.ptx" if regions else f"{stem}.ptx"
            texts[f"ptx_{number}" if number else "ptx"] = (files[id(one.original)], one.text)
        texts |= {f"{kind}_{number}": text for kind, text in _texts(one, stem).items()}
    return _written(folder, texts, [one.bind(files[id(one.original)]) for one in made])


def _stem(made: Cut, whole: bool) -> str:
    stem = f"{file_stem(made.entry)}-{made.style}"
    return stem if whole else f"{stem}-{made.region.first_line}-{made.region.last_line}"


def _texts(made: Cut, stem: str) -> dict[str, tuple[str, bytes | str]]:
    """What goes with a cut's module: (file name, contents) by kind."""
    return {
        "spec_markdown": (f"{stem}-spec.md", made.spec_markdown),
        "spec_json": (f"{stem}-spec.json", json_text.dumps(plain(made.spec_json), indent=1)),
        "declaration": (f"{stem}-declaration.ptx", made.declaration),
        "skeleton_cuda": (f"{stem}-skeleton.cu", made.skeletons.get("cuda", "")),
        "skeleton_hip": (f"{stem}-skeleton.hip.cpp", made.skeletons.get("hip", "")),
    }


def _written(folder: Path, texts: dict[str, tuple[str, bytes | str]], bindings: list[Binding]) -> dict[str, Path]:
    texts = texts | {"manifest": (MANIFEST, updated_manifest(folder, bindings))}
    files = {kind: folder / name for kind, (name, text) in texts.items() if text}
    write_files({path: texts[kind][1] for kind, path in files.items()})
    return files


def _assembled(made: Cut | Cuts) -> tuple[str, bool | None]:
    """What ptxas says of the new modules, and whether it takes them (None: nobody asked it)."""
    if find_ptxas() is None:
        return "not found, the result was not assembled", None
    results = [assemble(document) for document in ([made.document] if isinstance(made, Cut) else made.documents)]
    refused = next((r for r in results if not r.ok), None)
    if refused is not None:
        return f"refuses the result\n{refused.log}", False
    return "assembles" + (" (relocatable: the callee is declared only)" if any(r.relocatable for r in results) else ""), True
