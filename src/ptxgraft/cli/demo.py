"""``ptxgraft demo``: the product's main job on the reference workload."""

from __future__ import annotations

import json as json_text
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from rich.console import Group, RenderableType
from rich.text import Text

from ptxgraft import capture, data
from ptxgraft.cli.console import EngineName, JsonFlag, ProfileName, make_folder, note, progress, show, write_file
from ptxgraft.cli.cut import write_cut
from ptxgraft.cli.show import write_pictures
from ptxgraft.flow import Flow
from ptxgraft.graft import Cut, cut, identity_body, wrong_fragment_body
from ptxgraft.isa import bind
from ptxgraft.report import bisection_view, difference_rgb, plain, save_png, spec_view, verdict_view
from ptxgraft.run import capture_of, execute, snapshot
from ptxgraft.run.reference import reference_launch
from ptxgraft.spec import layer_spec
from ptxgraft.text import Document
from ptxgraft.verify import Bisection, Options, Replay, Verdict, bisect, replay, verify

STYLES = ("inline", "mirror")
WRONG_LAYER, WRONG_PHASE, WRONG_FRAGMENT = "enc4", 7, 2


def demo(
    output: Annotated[
        Path,
        typer.Option("-o", "--output", help="Folder for everything the demo makes; every shown command works on it.", show_default=False),
    ],
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Take two real tensor-core kernels through the house: record them on a frame, describe them, graft an identity body in two styles and prove it byte
    for byte, then graft a wrong one and find where it goes wrong. No GPU is needed.

    Example: ptxgraft demo -o demo-out
    """
    folder = make_folder(output)
    started = time.perf_counter()
    steps = 3 + len(data.LAYERS) * (2 + len(STYLES))
    with progress("demo", steps, quiet=json) as advance:
        result = _Demo(folder, engine, profile, advance, json)
        result.record()
        result.describe()
        result.graft()
        result.spoil()
        result.pictures()
    summary = {**result.summary, "seconds": round(time.perf_counter() - started, 2), "commands": result.commands()}
    write_file(folder / "summary.json", json_text.dumps(plain(summary), indent=1))
    parts: list[RenderableType] = [
        *result.parts,
        Text(),
        Text(f"everything is in {folder}/ (summary.json); the same by hand:", style="bold"),
    ]
    parts += [Text(f"  {c}") for c in summary["commands"]]
    parts.append(Text(f"{summary['seconds']} s", style="dim"))
    show(Group(*parts), summary, json)
    if not result.as_promised():
        note("ptxgraft: the demo did not end as it should: an identity graft differs, or the wrong one was not found")
        raise typer.Exit(1)


class _Demo:
    """The demo's steps; each adds to ``parts`` (for people) and ``summary`` (for programs)."""

    def __init__(self, folder: Path, engine: str, profile: str, advance: Callable[..., None], quiet: bool) -> None:
        self.folder, self.engine, self.profile, self.advance, self.quiet = folder, engine, profile, advance, quiet
        self.parts: list[RenderableType] = []
        self.summary: dict = {"engine": engine, "profile": profile, "layers": {}, "grafts": {}}
        self.capture = folder / "frame.ptxcap"
        self.documents: dict[str, Document] = {}
        self.launches: dict[str, capture.Launch] = {}
        self.wrong_verdict: Verdict | None = None
        self.found: Bisection | None = None
        self.wrong_run: Replay | None = None

    def heading(self, text: str) -> None:
        self.parts += [Text(), Text(text, style="bold underline")]

    def record(self) -> None:
        """A capture of both layers, made by running them here."""
        self.heading("1. A capture of both layers on a frame")
        with capture.package_writer(self.capture, overwrite=True) as package:
            for seq, layer in enumerate(data.LAYERS):
                self.advance(f"running {layer}")
                launch = reference_launch(layer)
                before = snapshot(launch)
                result = execute(launch, engine=self.engine, profile=self.profile)
                package.add(capture_of(launch, before, seq, result))
                write_file(self.folder / f"{layer}.ptx", launch.program.document.data)
                text = f"{layer}: grid {launch.grid}, block {launch.block}, {result.statements:,} statements in {result.seconds:.3f} s"
                self.parts.append(Text(text))
                self.summary["layers"][layer] = {
                    "grid": launch.grid,
                    "block": launch.block,
                    "statements": result.statements,
                    "seconds": result.seconds,
                }
        opened = capture.open_capture(self.capture)
        for layer in data.LAYERS:
            self.launches[layer] = opened.launch(layer)
            self.documents[layer] = Document.read(self.folder / f"{layer}.ptx")

    def describe(self) -> None:
        """The specs, in short."""
        self.heading("2. What they consist of")
        for layer in data.LAYERS:
            self.advance(f"spec of {layer}")
            spec = layer_spec(Flow(bind(self.documents[layer], layer)), self.launches[layer].block)
            self.parts += [spec_view(spec, full=False), Text()]
            mma = spec.region.mma if spec.region is not None else 0
            self.summary["layers"][layer] |= {"phases": len(spec.phases), "mma": mma}

    def graft(self) -> None:
        """Identity grafts of the whole mma region, in both styles."""
        self.heading("3. Identity grafts: the region cut out and put back, two ways")
        for layer in data.LAYERS:
            for style in STYLES:
                self.advance(f"{style} graft of {layer}")
                made = cut(self.documents[layer], layer, style=style, body=identity_body(), block=self.launches[layer].block)
                write_cut(made, self.folder)
                verdict = self.judge(layer, made)
                self.summary["grafts"][f"{layer}-{style}"] = verdict
                self.parts.append(Text.assemble(f"{layer} {style}: ", (str(verdict), "green" if verdict.verdict == "same" else "red")))

    def judge(self, layer: str, made: Cut) -> Verdict:
        return verify(self.launches[layer], made.document, self.documents[layer], Options(self.engine, self.profile))

    def spoil(self) -> None:
        """A graft with one B fragment taken from the wrong offset, and where it shows."""
        self.heading("4. A graft that is wrong on purpose")
        self.advance("a wrong graft")
        document, recorded = self.documents[WRONG_LAYER], self.launches[WRONG_LAYER]
        body = wrong_fragment_body(document, WRONG_LAYER, WRONG_PHASE, WRONG_FRAGMENT)
        made = cut(document, WRONG_LAYER, style="inline", body=body)
        write_file(self.folder / f"{WRONG_LAYER}-wrong.ptx", made.text)
        verdict = self.judge(WRONG_LAYER, made)
        self.advance("bisecting it")
        found = bisect(recorded, made.document, document, engine=self.engine, profile=self.profile)
        self.parts += [Text(body.note), verdict_view(verdict), bisection_view(found)]
        self.summary["wrong"] = {"note": body.note, "verdict": verdict, "bisection": found}
        self.wrong_verdict, self.found = verdict, found
        self.wrong_run = replay(recorded, made.document, engine=self.engine, profile=self.profile)

    def pictures(self) -> None:
        """PNGs: what went in, what came out, and where the wrong graft's output differs."""
        self.heading("5. Pictures")
        self.advance("pictures")
        made = [path for layer in data.LAYERS for path, _, _ in write_pictures(self.launches[layer], self.folder)]
        recorded = self.launches[WRONG_LAYER]
        assert self.wrong_run is not None
        for image in recorded.surfaces:
            found = next(o for o in self.wrong_run.outputs if o.key == image.handle)
            path = self.folder / f"{WRONG_LAYER}-wrong-difference-{image.arg_offset}.png"
            save_png(path, difference_rgb(np.asarray(image.contents("after")), found.data, image.width, image.height))
            made.append(path)
        self.parts += [Text(str(path)) for path in made]
        self.summary["pictures"] = made

    def as_promised(self) -> bool:
        """Identity grafts are the same; the wrong one differs, first at its phase."""
        same = all(v.verdict == "same" for v in self.summary["grafts"].values())
        assert self.wrong_verdict is not None and self.found is not None
        return same and self.wrong_verdict.verdict == "differs" and self.found.stage == f"p{WRONG_PHASE}"

    def commands(self) -> list[str]:
        folder, cap = shlex.quote(str(self.folder)), shlex.quote(str(self.capture))
        block = ",".join(map(str, self.launches["enc4"].block))
        # Where the environment's folder is not on the PATH, the command is shown by its path.
        program = "ptxgraft" if shutil.which("ptxgraft") else shlex.quote(os.path.relpath(sys.argv[0]))
        lines = [
            f"ptxgraft show {cap}",
            f"ptxgraft ls {folder}/enc4.ptx",
            f"ptxgraft spec {folder}/enc4.ptx --block {block} --short",
            f"ptxgraft cut {folder}/enc4.ptx --style mirror --body identity -o {folder}/by-hand",
            f"ptxgraft probe {folder}/enc4.ptx --at p7 --run {cap}",
            f"ptxgraft replay {cap} --launch enc4",
            f"ptxgraft verify {cap} --launch enc4 --graft {folder}/enc4-mirror.ptx",
            f"ptxgraft verify {cap} --launch enc4 --graft {folder}/enc4-wrong.ptx",
            f"ptxgraft bisect {cap} --launch enc4 --graft {folder}/enc4-wrong.ptx",
        ]
        return [line.replace("ptxgraft", program, 1) for line in lines]
