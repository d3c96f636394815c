"""``ptxgraft show``: what a capture holds."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group

from ptxgraft import capture
from ptxgraft.cli.console import CapturePath, JsonFlag, LaunchName, complain, make_folder, note, pick_launch
from ptxgraft.cli.console import show as present
from ptxgraft.errors import SourceError
from ptxgraft.report import arguments_of, capture_view, file_stem, launch_view, plane_rgb, png_bytes, write_files


def show(
    cap: CapturePath,
    launch: LaunchName = None,
    png: Annotated[
        Path | None, typer.Option("--png", help="Write the launch's textures and surfaces as PNG into this folder.", show_default=False)
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List the launches of a capture, or show one in full.

    Example: ptxgraft show demo-out/frame.ptxcap --launch enc4 --png planes
    """
    opened = capture.open_capture(cap)
    if launch is None and png is None:
        data = {
            "path": str(cap),
            "form": opened.form,
            "launches": [_summary(x) for x in opened.launches],
            "problems": [str(p) for p in opened.problems],
            "notes": opened.notes,
            "remarks": opened.remarks,
        }
        present(capture_view(opened), data, json)
        if not opened.launches:
            for problem in opened.problems:
                complain(problem)
            raise typer.Exit(SourceError.exit_code)
        return
    chosen = pick_launch(opened, launch)
    pictures = write_pictures(chosen, make_folder(png)) if png is not None else []
    for picture, low, high in pictures:
        note(f"wrote {picture}: black is {low:.4g}, white is {high:.4g}")
    if png is not None and not pictures:
        note(f"{chosen.label} has no texture or surface with recorded texels: no picture was made")
    data = {**_summary(chosen), "arguments": arguments_of(chosen), "pictures": [p for p, _, _ in pictures]}
    present(Group(launch_view(chosen)), data, json)


def _summary(launch: capture.Launch) -> dict:
    return {
        "seq": launch.seq,
        "kernel": launch.kernel,
        "grid": launch.grid,
        "block": launch.block,
        "shared_bytes": launch.shared_bytes,
        "args": bytes(launch.args),
        "module_hash": launch.module_hash,
        "engine": launch.engine,
        "profile": launch.profile,
        "binary_hash": launch.binary_hash,
        "cooperative": launch.cooperative,
        "cluster": launch.cluster,
        "incomplete": launch.notes,
        "allocations": [{"index": a.index, "base": a.base, "size": a.size, "after_recorded": a.after_recorded} for a in launch.allocations],
        "pointers": launch.pointers,
        "images": [
            {
                "kind": i.kind,
                "arg_offset": i.arg_offset,
                "handle": i.handle,
                "width": i.width,
                "height": i.height,
                "depth": i.depth,
                "dimensions": i.dimensions,
                "channels": i.channels,
                "format": i.format,
                "filter": i.filter,
                "address": i.address,
                "normalized": i.normalized,
            }
            for i in launch.images
        ],
    }


def write_pictures(launch: capture.Launch, folder: Path) -> list[tuple[Path, float, float]]:
    """PNGs of a launch's textures (before) and surfaces (after, else before): (path, value of black, value of white) each. Images of unknown formats and
    without recorded texels are left out."""
    made: dict[Path, tuple[bytes, float, float]] = {}
    for image in launch.images:
        recorded = {"before": image.before, "after": image.after}
        when = "before" if image.kind == "texture" or recorded["after"] is None else "after"
        if recorded[when] is None or image.size is None:
            continue
        rgb, low, high = plane_rgb(image.pixels(when))
        made[folder / f"{file_stem(launch.kernel)}-{image.kind}-{image.arg_offset}.png"] = (png_bytes(rgb), low, high)
    write_files({path: png for path, (png, _, _) in made.items()})
    return [(path, low, high) for path, (_, low, high) in made.items()]
