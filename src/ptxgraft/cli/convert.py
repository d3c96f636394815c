"""``ptxgraft convert``: a capture in its other form."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from ptxgraft import capture
from ptxgraft.cli.console import CapturePath, JsonFlag, check_capture_target, note, show, working
from ptxgraft.errors import UsageError

FORMS = ("package", "directory")


def convert(
    cap: CapturePath,
    output: Annotated[Path, typer.Option("-o", "--output", help="The capture to write; there must be nothing.", show_default=False)],
    form: Annotated[
        str | None,
        typer.Option(
            "--form",
            help="package (our own, NAME.ptxcap) or directory; default: the one that the capture does not have.",
            show_default=False,
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write a capture in the other form. What both forms hold is kept to the byte; what the target cannot hold is said, one note for each kind of it.

    Example: ptxgraft convert demo-out/frame.ptxcap -o frame-folder --form directory
    """
    opened = capture.open_capture(cap)
    form = form or FORMS[1 - FORMS.index(opened.form)]
    writers = {"package": capture.write, "directory": capture.write_directory}
    if form not in writers:
        raise UsageError(f"there is no capture form {form!r}", hint=f"forms: {', '.join(FORMS)}")
    if output.exists() or output.is_symlink():
        raise UsageError(f"cannot write {output}: it is there", hint="name another place, or remove it")
    check_capture_target(output)
    with working(f"converting {len(opened.launches)} launches"):
        notes = list(dict.fromkeys([*opened.notes, *writers[form](opened, output)]))
    for text in notes:
        note(f"note: {text}")
    counts = {"capture": cap, "form": form, "output": output, "launches": len(opened.launches), "notes": notes}
    show(Text(f"wrote {output}: {len(opened.launches)} launches, form {form}"), counts, json)
