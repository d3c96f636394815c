"""``ptxgraft apply``: the edit of a recipe file."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.text import Text

from ptxgraft.cli.console import JsonFlag, note, show
from ptxgraft.errors import SourceError, UsageError
from ptxgraft.graft import Applied, assemble, find_ptxas
from ptxgraft.graft import apply as apply_recipe
from ptxgraft.report import check_target, write_file


def apply(
    recipe: Annotated[Path, typer.Argument(metavar="RECIPE", help="A recipe file. Its Python is run.", show_default=False)],
    corpus: Annotated[
        Path,
        typer.Option("--corpus", metavar="DIR", help="The folder with the modules, one of which defines the entry.", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Write the new module to this file, or into this folder.", show_default=False)
    ],
    check: Annotated[bool, typer.Option(help="Assemble the result with ptxas when one is found.")] = True,
    anyway: Annotated[
        bool,
        typer.Option(
            "--anyway", help="Write the module even when ptxas refuses it or ptxgraft cannot read an operand: a translator may accept it."
        ),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Make the edit that a recipe file asks for: a region replaced by a call, or a debug store. This runs the recipe's Python, so name only recipes that you
    trust.

    Example: ptxgraft apply examples/recipes/dec0_head_mirror.py --corpus corpus -o dec0-head.ptx
    """
    if not output.is_dir():
        check_target(output)
    note(f"running the Python of {recipe}")
    with redirect_stdout(sys.stderr):
        made = apply_recipe(recipe, corpus, anyway)
    target = output / made.module.name if output.is_dir() else output
    if target.exists() and target.samefile(made.module):
        raise UsageError(f"{target} is the module itself", hint="the recipe's lines speak of it as it is: write to another file")
    log, assembles = _assembled(made) if check else ("not checked", None)
    written = assembles is not False or anyway
    if written:
        write_file(target, made.text)
    first, last = made.lines
    what = f"lines {first} to {last} replaced" if made.kind == "cut" else f"{', '.join(made.registers)} stored after line {first}"
    parts = [
        Text(f"{made.entry} of {made.module}: {what}"),
        *(Text(f"{name}: {_short(value)}") for name, value in made.attributes.items()),
        *(Text(f"note: {n}", style="yellow") for n in made.notes),
        Text(f"ptxas: {log}", style="red" if assembles is False else ""),
        Text(f"wrote {target}" if written else "nothing written; --anyway writes what ptxas refuses"),
    ]
    data = {
        "recipe": recipe,
        "entry": made.entry,
        "module": made.module,
        "kind": made.kind,
        "lines": made.lines,
        "registers": made.registers,
        "attributes": made.attributes,
        "notes": made.notes,
        "ptxas": log,
        "assembles": assembles,
        "output": target if written else None,
    }
    show(Group(*parts), data, json)
    if not written:
        raise typer.Exit(SourceError.exit_code)


def _short(value: object) -> str:
    items = [str(v) for v in value] if isinstance(value, list) else [str(value)]
    return ", ".join(items if len(items) <= 8 else [*items[:6], f"... ({len(items)})"])


def _assembled(made: Applied) -> tuple[str, bool | None]:
    """What ptxas says of the new module, and whether it takes it (None: nobody asked it)."""
    if find_ptxas() is None:
        return "not found, the result was not assembled", None
    result = assemble(made.document)
    if result.ok:
        return "assembles" + (" (relocatable: the callee is declared only)" if result.relocatable else ""), True
    return f"refuses the result\n{result.log}", False
