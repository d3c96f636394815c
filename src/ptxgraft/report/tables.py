"""Results as terminal tables.

Invariant: a table shows numbers that its result holds; nothing is computed here but counts and widths.
"""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ptxgraft import capture
from ptxgraft.spec import LayerSpec
from ptxgraft.spec.writing import ranges_text, summary
from ptxgraft.verify import Bisection, Verdict, WeightProof


def table(*columns: str, title: str | None = None) -> Table:
    """A plain table; a column whose name starts with ``>`` is right-aligned."""
    made = Table(title=title, title_justify="left", box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        made.add_column(column.lstrip(">"), justify="right" if column.startswith(">") else "left", overflow="fold")
    return made


def spec_view(spec: LayerSpec, full: bool = True) -> RenderableType:
    """A spec for the terminal; ``full=False`` leaves out fragments and the ABI's register lists."""
    parts: list[RenderableType] = [
        Text(f"{spec.entry}  ({spec.file}; block {'x'.join(map(str, spec.block))}, {spec.block_source})", style="bold")
    ]
    parts += [Text(f"note: {note}", style="yellow") for note in spec.notes]
    params = table(">offset", ">size", "type", "name", "use", title="parameters")
    for p in spec.params:
        params.add_row(str(p.offset), str(p.size), p.type, p.name, p.use)
    parts += [Text(), params]
    if spec.shared:
        shared = table(">offset", ">size", "name", "stores at lines", "loads at lines", title="shared arrays")
        for s in spec.shared:
            shared.add_row(str(s.offset), str(s.size), s.name, _span(s.first_store, s.last_store), _span(s.first_load, s.last_load))
        parts += [Text(), shared]
    if spec.region is None or spec.abi is None:
        return Group(*parts, Text(), Text("no tensor-core instruction"))
    r = spec.region
    parts += [
        Text(),
        Text(f"mma region: lines {r.first_line} to {r.last_line}, {r.statements} statements, {r.mma} mma in {len(spec.phases)} phases"),
    ]
    phases = table(">phase", "lines", "shape and types", ">mma", "m x n x k", "A", "B", "C", "weights", ">live across")
    for p in spec.phases:
        phases.add_row(
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
    parts += [Text(), phases]
    notes = table(">after phase", ">statements", "what", title="epilogues")
    for label, epilogue in [("(start)", spec.prologue)] + [(str(p.index), p.epilogue) for p in spec.phases]:
        if epilogue.idioms or full:
            counts = ", ".join(f"{n} {kind}" for kind, n in epilogue.counts.items())
            notes.add_row(label, str(epilogue.instructions), "; ".join(epilogue.idioms) or f"({counts or 'nothing'})")
    parts += [Text(), notes]
    if full:
        for p in spec.phases:
            fragments = table("operand", "registers", "provenance", "over lanes", ">first mma", ">uses", title=f"phase {p.index}")
            for name in "abc":
                for f in getattr(p, name):
                    fragments.add_row(
                        name.upper(), " ".join(f.registers), str(f.provenance), f.provenance.lanes, str(f.first_use), str(f.uses)
                    )
            parts += [Text(), fragments]
    abi = spec.abi
    parts += [Text(), Text("cut ABI of the region", style="bold")]
    for title, registers in (("live in", abi.live_in), ("live out", abi.live_out)):
        names = ", ".join(f"{x.name} {x.type}" for x in registers) if full else ""
        parts.append(Text(f"{title}: {len(registers)} registers{': ' + names if names else ''}"))
    parts.append(Text(f"shared arrays: {', '.join(abi.shared) or 'none'}; predicates: {', '.join(abi.predicates) or 'none'}"))
    parts.append(Text(f"barriers inside, at lines: {', '.join(map(str, abi.barriers)) or 'none'}"))
    parts += [Text(f"cannot be cut: {reason}", style="red") for reason in abi.refusals]
    return Group(*parts)


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None else f"{first}-{last}"


def verdict_view(verdict: Verdict) -> RenderableType:
    """A verdict for the terminal: one line, and a table of outputs when there are several."""
    style = {"same": "green", "differs": "red"}.get(verdict.verdict, "yellow")
    parts: list[RenderableType] = [Text(str(verdict), style=style)]
    parts += [Text(f"warning: {w}", style="yellow") for w in verdict.warnings]
    if len(verdict.outputs) > 1:
        outputs = table("output", ">bytes compared", ">differing")
        for o in verdict.outputs:
            outputs.add_row(o.output, f"{o.bytes_compared:,}", f"{o.bytes_differing:,}")
        parts.append(outputs)
    return Group(*parts)


def bisection_view(bisection: Bisection) -> RenderableType:
    """A bisection in one line, with the stages that could not be compared."""
    parts: list[RenderableType] = [Text(str(bisection), style="green" if bisection.stage is None else "red")]
    parts += [Text(f"stage {stage} was not compared: {why}", style="yellow") for stage, why in bisection.skipped.items()]
    return Group(*parts)


def proof_view(proof: WeightProof) -> RenderableType:
    """A weight map's proof."""
    inside = [s for s in proof.samples if s.expected is not None]
    outside = [s for s in proof.samples if s.expected is None]
    wrong = [s for s in proof.samples if s.holds is False]
    silent = sum(s.holds is None for s in inside)
    text = f"weight map {'holds' if proof.holds else 'is not proved'}: {len(inside)} bytes changed inside claimed ranges ({silent} without any effect), "
    text += f"{len(outside)} outside; {len(proof.phases_seen)} phases seen to change first, {len(wrong)} contradictions"
    parts: list[RenderableType] = [Text(text, style="green" if proof.holds else "red")]
    parts += [Text(f"byte {s.offset:#x}: expected phase {s.expected}, first changed {s.found}", style="red") for s in wrong]
    if proof.phases_unseen:
        parts.append(Text(f"never seen to change: phases {', '.join(map(str, proof.phases_unseen))}", style="yellow"))
    return Group(*parts)


def capture_view(opened: capture.Capture) -> RenderableType:
    """The launches of a capture."""
    launches = table(">seq", "kernel", "grid", "block", ">shared", ">arguments", ">allocations", ">textures", ">surfaces", "module")
    for launch in opened.launches:
        launches.add_row(
            str(launch.seq),
            launch.kernel,
            "x".join(map(str, launch.grid)),
            "x".join(map(str, launch.block)),
            str(launch.shared_bytes),
            f"{len(launch.args)} B",
            str(len(launch.allocations)),
            str(len(launch.textures)),
            str(len(launch.surfaces)),
            (launch.module_hash or "-")[:12],
        )
    parts: list[RenderableType] = [launches]
    parts += [Text(f"launch {b.seq} ({b.kernel}) cannot be read: {b.error}", style="red") for b in opened.bad]
    parts += [Text(f"note: {n}", style="yellow") for n in opened.notes]
    return Group(*parts)


def launch_view(launch: capture.Launch) -> RenderableType:
    """One launch in full."""
    parts: list[RenderableType] = [
        Text(f"{launch.label}: grid {launch.grid}, block {launch.block}, {len(launch.args)} argument bytes", style="bold")
    ]
    memory = table(">index", "base", ">bytes", "after recorded", "pointed to from argument")
    for a in launch.allocations:
        pointers = ", ".join(f"{p.offset}{f'+{p.delta}' if p.delta else ''}" for p in launch.pointers if p.allocation == a.index)
        memory.add_row(str(a.index), f"{a.base:#x}", f"{a.size:,}", "yes" if a.after_recorded else "no", pointers or "-")
    images = table(">argument", "kind", "size", "format", "filter", "address", "normalized")
    for i in launch.images:
        row = capture.image_format(i.format)
        images.add_row(
            str(i.arg_offset),
            i.kind,
            f"{i.width}x{i.height}x{i.channels}",
            row.name if row is not None else f"unknown ({i.format})",
            i.filter or "unknown" if i.kind == "texture" else "-",
            "/".join(i.address) if i.address else "-",
            "-" if i.normalized is None else str(i.normalized).lower(),
        )
    return Group(*parts, Text(), memory, Text(), images) if launch.images else Group(*parts, Text(), memory)
