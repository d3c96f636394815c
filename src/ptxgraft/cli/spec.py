"""``ptxgraft spec``: what a tensor-core kernel consists of."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ptxgraft import capture
from ptxgraft.cli.console import (
    EngineName,
    EntryName,
    JsonFlag,
    LaunchName,
    ProfileName,
    PtxFile,
    note,
    pick_launch,
    progress,
    show,
    triple,
)
from ptxgraft.cli.modules import about, open_entry
from ptxgraft.report import check_target, proof_view, spec_view, write_file
from ptxgraft.spec import layer_spec, spec_json, spec_markdown
from ptxgraft.verify import prove_weights


def spec(
    file: PtxFile,
    entry: EntryName = None,
    block: Annotated[
        str | None, typer.Option("--block", help="Block shape X,Y,Z that thread-dependent offsets are evaluated for.", show_default=False)
    ] = None,
    md: Annotated[Path | None, typer.Option("--md", help="Also write the spec as Markdown to this file.", show_default=False)] = None,
    short: Annotated[bool, typer.Option("--short", help="Leave out the fragment tables and register lists.")] = False,
    verify: Annotated[
        Path | None,
        typer.Option(
            "--verify",
            metavar="CAP",
            help="Prove the weight map on this capture: a byte changed in a claimed range changes that phase first.",
            show_default=False,
        ),
    ] = None,
    launch: LaunchName = None,
    samples: Annotated[int, typer.Option("--samples", min=1, help="Bytes to change per phase, with --verify.")] = 1,
    engine: EngineName = "warp",
    profile: ProfileName = "sm_90",
    json: JsonFlag = False,
) -> None:
    """Print the layer spec of an entry: parameters, shared arrays, the mma region, each phase with the provenance of its fragments, the epilogues
    between phases, and the cut ABI.

    Example: ptxgraft spec demo-out/enc4.ptx --block 32,1,4 --md enc4.md
    """
    if md is not None:
        check_target(md)
    document, flow = open_entry(file, entry)
    recorded = pick_launch(capture.open_capture(verify), launch or flow.program.name) if verify is not None else None
    shape = triple(block, "block") if block is not None else recorded.block if recorded is not None else None
    made = layer_spec(flow, shape)
    if md is not None:
        write_file(md, spec_markdown(made))
        note(f"wrote {md}")
    if recorded is None or verify is None:
        show(spec_view(made, full=not short), spec_json(made), json)
        return
    with about(verify), progress("changing weight bytes", None, quiet=json) as advance:
        proof = prove_weights(
            recorded,
            document,
            engine=engine,
            profile=profile,
            per_phase=samples,
            progress=lambda done, total: advance(f"{done} of {total}"),
        )
    show(proof_view(proof), {**spec_json(made), "proof": proof, "holds": proof.holds}, json)
    if not proof.holds:
        raise typer.Exit(1)
