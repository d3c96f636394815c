"""Results for the terminal.

Invariant: a view shows numbers that its result holds; nothing is computed here but counts and widths.
"""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Group, RenderableType
from rich.text import Text

from ptxgraft import capture
from ptxgraft.report.launch_arguments import arguments_of
from ptxgraft.report.listing import Listing
from ptxgraft.spec import Abi, LayerSpec, Phase
from ptxgraft.spec.writing import ranges_text, shared_name, summary
from ptxgraft.verify import Bisection, Verdict, WeightProof

VERDICT_STYLES = {"same": "green", "differs": "red"}
MANY = 12
"""So many stages are named one by one; of more, the first and the last."""


def spec_view(spec: LayerSpec, full: bool = True) -> RenderableType:
    """A spec for the terminal; ``full=False`` leaves out fragments and the ABI's register lists."""
    block = "x".join(map(str, spec.block))
    parts: list[RenderableType] = [Text(f"{spec.entry}  ({spec.file}; block {block}, {spec.block_source})", style="bold")]
    parts += [Text(f"note: {note}", style="yellow") for note in spec.notes]
    params = Listing(">offset", ">size", "type", "use", "name", title="parameters")
    for p in spec.params:
        params.add_row(str(p.offset), str(p.size), p.type, p.use, p.name)
    parts += [Text(), params]
    if spec.shared:
        shared = Listing(">offset", ">size", "stores at lines", "loads at lines", "name", title="shared arrays")
        for s in spec.shared:
            shared.add_row(str(s.offset), str(s.size), _span(s.first_store, s.last_store), _span(s.first_load, s.last_load), s.name)
        parts += [Text(), shared]
    if spec.region is None or spec.abi is None:
        return Group(*parts, Text(), Text("no tensor-core instruction"))
    r = spec.region
    region = f"mma region: lines {r.first_line} to {r.last_line}, {r.statements} statements, {r.mma} mma in {len(spec.phases)} phases"
    parts += [Text(), Text(region), Text(), _phases(spec.phases), Text(), _epilogues(spec, full)]
    if full:
        for p in spec.phases:
            parts += [Text(), _fragments(p)]
    return Group(*parts, Text(), *_abi(spec.abi, full))


def _phases(phases: list[Phase]) -> Listing:
    rows = Listing(">phase", "lines", "shape and types", ">mma", "m x n x k", "+A", "+B", "+C", "+weights", "+>live across")
    for p in phases:
        rows.add_row(
            str(p.index),
            f"{p.first_line}-{p.last_line}",
            f"{p.shape} {'.'.join(p.types.get(k, '?') for k in 'dabc')}",
            str(p.mma),
            "x".join(map(str, p.tiles)) if p.tiles else "irregular",
            summary(p.a),
            summary(p.b),
            summary(p.c),
            ranges_text(p),
            f"{p.live_across_bytes} B",
        )
    return rows


def _epilogues(spec: LayerSpec, full: bool) -> RenderableType:
    """What stands before the first phase and behind each; where nothing was recognised, the instruction counts."""
    rows = Listing(">after phase", ">statements", "what", title="epilogues")
    for label, epilogue in [("(start)", spec.prologue)] + [(str(p.index), p.epilogue) for p in spec.phases]:
        if epilogue.idioms or full:
            counts = ", ".join(f"{n} {kind}" for kind, n in epilogue.counts.items())
            rows.add_row(label, str(epilogue.instructions), "; ".join(epilogue.idioms) or f"({counts or 'nothing'})")
    return rows if rows.rows else Text("epilogues: no idiom recognised")


def _fragments(phase: Phase) -> Listing:
    rows = Listing("operand", "provenance", ">first mma", ">uses", "+over lanes", "+registers", title=f"phase {phase.index}")
    for name in "abc":
        for f in getattr(phase, name):
            rows.add_row(name.upper(), str(f.provenance), str(f.first_use), str(f.uses), f.provenance.lanes, " ".join(f.registers))
    return rows


def _abi(abi: Abi, full: bool) -> list[RenderableType]:
    parts: list[RenderableType] = [Text("cut ABI of the region", style="bold")]
    for title, registers in (("live in", abi.live_in), ("live out", abi.live_out)):
        names = ", ".join(f"{x.name} {x.type}" for x in registers) if full else ""
        parts.append(Text(f"{title}: {len(registers)} registers{': ' + names if names else ''}"))
    parts.append(
        Text(f"shared arrays: {', '.join(map(shared_name, abi.shared)) or 'none'}; predicates: {', '.join(abi.predicates) or 'none'}")
    )
    parts.append(Text(f"barriers inside, at lines: {', '.join(map(str, abi.barriers)) or 'none'}"))
    return [*parts, *(Text(f"cannot be cut: {reason}", style="red") for reason in abi.refusals)]


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None else f"{first}-{last}"


def verdict_view(verdict: Verdict) -> RenderableType:
    """A verdict: one line, its warnings, and a listing of the outputs when there are several."""
    parts: list[RenderableType] = [Text(str(verdict), style=VERDICT_STYLES.get(verdict.verdict, "yellow"))]
    parts += [Text(f"warning: {w}", style="yellow") for w in verdict.warnings]
    parts += [Text(f"note: {n}") for n in verdict.notes]
    if len(verdict.outputs) > 1:
        outputs = Listing("output", ">bytes compared", ">differing", "")
        for o in verdict.outputs:
            held = "poisoned before the run" if o.output in verdict.poisoned else ""
            outputs.add_row(o.output, f"{o.bytes_compared:,}", f"{o.bytes_differing:,}", held)
        parts.append(outputs)
    return Group(*parts)


def bisection_view(bisection: Bisection) -> RenderableType:
    """A bisection in one line, with the stages that could not be compared and why."""
    parts: list[RenderableType] = [Text(str(bisection), style="red" if bisection.exit_code else "green")]
    parts += [Text(f"not compared: {stages}: {why}", style="yellow") for why, stages in _by_reason(bisection.skipped).items()]
    parts += [Text(f"note: {n}") for n in bisection.notes]
    return Group(*parts)


def _by_reason(skipped: Mapping[str, str]) -> dict[str, str]:
    """Reasons with the stages that each holds for, in words."""
    grouped: dict[str, list[str]] = {}
    for stage, why in skipped.items():
        grouped.setdefault(why, []).append(stage)
    return {why: ", ".join(s if len(s) <= MANY else [*s[:3], "...", s[-1]]) for why, s in grouped.items()}


def proof_view(proof: WeightProof) -> RenderableType:
    """A weight map's proof."""
    inside = [s for s in proof.samples if s.expected is not None]
    outside = [s for s in proof.samples if s.expected is None]
    wrong = [s for s in proof.samples if s.holds is False]
    silent = sum(s.holds is None for s in inside)
    text = f"weight map {'holds' if proof.holds else 'is not proved'}: {len(inside)} bytes changed inside claimed ranges ({silent} without any effect), "
    text += f"{len(outside)} outside; {len(proof.phases_seen)} phases seen to change first, {len(wrong)} contradictions"
    parts: list[RenderableType] = [Text(text, style="green" if proof.holds else "red")]
    parts += [Text(f"byte {s.offset:#x}: expected {_phase(s.expected)}, first changed {_phase(s.found)}", style="red") for s in wrong]
    for what, phases in (
        ("never seen to change", proof.phases_unseen),
        ("all their bytes are read by earlier phases too", proof.phases_shared),
        ("the map is not whole, weights are read at offsets that depend on more than the thread", proof.phases_unplaced),
    ):
        if phases:
            parts.append(Text(f"{what}: phases {', '.join(map(str, phases))}", style="yellow"))
    return Group(*parts)


def _phase(number: int | None) -> str:
    return "no phase" if number is None else f"phase {number}"


def capture_view(opened: capture.Capture) -> RenderableType:
    """The launches of a capture."""
    launches = Listing(">seq", "grid", "block", "+>shared", ">arguments", ">allocations", "+>textures", "+>surfaces", "+module", "kernel")
    for launch in opened.launches:
        launches.add_row(
            str(launch.seq),
            "x".join(map(str, launch.grid)),
            "x".join(map(str, launch.block)),
            str(launch.shared_bytes),
            f"{len(launch.args)} B",
            str(len(launch.allocations)),
            str(len(launch.textures)),
            str(len(launch.surfaces)),
            (launch.module_hash or "-")[:12],
            launch.kernel + (" (incomplete)" if launch.notes else ""),
        )
    parts: list[RenderableType] = [launches] if opened.launches else []
    parts += [Text(f"launch {b.seq} ({b.kernel}) cannot be read: {b.error}", style="red") for b in opened.bad]
    parts += [Text(f"note: {n}", style="yellow") for n in opened.remarks + opened.notes]
    return Group(*parts)


def launch_view(launch: capture.Launch) -> RenderableType:
    """One launch in full."""
    head = f"{launch.label}: grid {launch.grid}, block {launch.block}, {len(launch.args)} argument bytes"
    head += f", clusters of {launch.cluster}" if launch.cluster else ""
    head += ", cooperative" if launch.cooperative else ""
    parts: list[RenderableType] = [Text(head, style="bold")]
    if launch.engine:
        parts.append(Text(f"what it left was recorded on {launch.engine} ({launch.profile or 'whose bits is not known'})"))
    arguments = arguments_of(launch)
    if arguments:
        rows = Listing(">argument", ">bytes", "parameter", "type", "value")
        for a in arguments:
            rows.add_row(str(a.offset), str(a.size), a.name or "-", a.type or "-", a.value)
        parts += [Text(), rows]
    if launch.allocations:
        memory = Listing(">index", "base", ">bytes", "after recorded", "pointed to from argument")
        for a in launch.allocations:
            pointers = ", ".join(f"{p.offset}{f'+{p.delta}' if p.delta else ''}" for p in launch.pointers if p.allocation == a.index)
            memory.add_row(str(a.index), f"{a.base:#x}", f"{a.size:,}", "yes" if a.after_recorded else "no", pointers or "-")
        parts += [Text(), memory]
    if launch.images:
        images = Listing(">argument", "kind", "size", "format", "+filter", "+address", "+normalized")
        for i in launch.images:
            row = capture.image_format(i.format)
            images.add_row(
                str(i.arg_offset),
                i.kind,
                "x".join(map(str, (i.width, i.height, i.depth)[: i.dimensions])) + f"x{i.channels}",
                row.name if row is not None else f"unknown ({i.format})",
                "-" if i.kind == "surface" else i.filter or "unknown",
                "/".join(i.address) if i.address else "-",
                "-" if i.normalized is None else str(i.normalized).lower(),
            )
        parts += [Text(), images]
    if launch.variables:
        parts += [Text(), Text(f"module variables: {', '.join(v.name for v in launch.variables)}")]
    if launch.notes:
        parts += [Text(), Text("incomplete:", style="yellow"), *(Text(f"  {n}", style="yellow") for n in launch.notes)]
    return Group(*parts)
