"""A layer spec as JSON and as Markdown.

Invariant: the JSON holds everything that the spec holds; the keys that other programs rely on are named in the design and never change meaning.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Any

from ptxgraft.spec.model import FragmentSpec, LayerSpec, Phase


def spec_json(spec: LayerSpec) -> dict[str, Any]:
    """The spec as plain dictionaries and lists. Fragments and provenances carry a ``text`` besides their fields."""
    data = asdict(spec)
    for phase, plain in zip(spec.phases, data["phases"], strict=True):
        for name in "abcd":
            for fragment, row in zip(getattr(phase, name), plain[name], strict=True):
                row["provenance"]["text"] = str(fragment.provenance)
        plain["weight_bytes"] = sum(end - start for start, end in phase.weight_ranges)
    return data


def summary(fragments: list[FragmentSpec]) -> str:
    """Fragments counted by kind of provenance: ``16 weights, 2 constant``."""
    counts = Counter(f.provenance.kind for f in fragments)
    return ", ".join(f"{n} {kind}" for kind, n in counts.most_common()) or "none"


def shared_name(name: str) -> str:
    """An array of an ABI's ``shared`` in words: ``?`` stands for accesses that were not traced to an array."""
    return "one that was not traced to its array" if name == "?" else name


def ranges_text(phase: Phase) -> str:
    """The covered weight bytes: the total and the outer bounds; how many more reach the phase through computation, and what could not be placed."""
    parts: list[str] = []
    if phase.weight_ranges:
        total = sum(end - start for start, end in phase.weight_ranges)
        parts.append(f"{total} bytes in {phase.weight_ranges[0][0]:#x}..{phase.weight_ranges[-1][1]:#x}")
    if phase.computed_ranges:
        parts.append(f"{sum(end - start for start, end in phase.computed_ranges)} bytes through computation")
    if phase.unplaced_loads:
        parts.append(f"{phase.unplaced_loads} loads at unknown offsets")
    return ", ".join(parts) or "-"


def spec_markdown(spec: LayerSpec) -> str:
    """The spec as a Markdown page."""
    lines = [
        f"# `{spec.entry}`",
        "",
        f"From `{spec.file}`; offsets evaluated for a block of {'x'.join(map(str, spec.block))} ({spec.block_source}).",
        "",
    ]
    lines += [f"* {note}" for note in spec.notes]
    lines += ["", "## Parameters", "", "| offset | size | type | name | use |", "|---|---|---|---|---|"]
    lines += [f"| {p.offset} | {p.size} | {p.type} | `{p.name}` | {p.use} |" for p in spec.params]
    if spec.shared:
        lines += [
            "",
            "## Shared arrays",
            "",
            "| offset | size | align | name | stores (lines) | loads (lines) |",
            "|---|---|---|---|---|---|",
        ]
        for s in spec.shared:
            lines.append(
                f"| {s.offset} | {s.size} | {s.align} | `{s.name}` | {_span(s.first_store, s.last_store)} | {_span(s.first_load, s.last_load)} |"
            )
    if spec.region is None or spec.abi is None:
        return "\n".join([*lines, "", "No tensor-core instruction.", ""])
    region = spec.region
    lines += ["", "## The mma region", ""]
    lines += [
        f"Lines {region.first_line} to {region.last_line}: {region.statements} statements, {region.mma} mma in {len(spec.phases)} phases.",
        "",
    ]
    lines += ["| phase | lines | shape | types d.a.b.c | mma | tiles m x n x k | A | B | C | weights | live across |", "|" + "---|" * 11]
    lines += [_phase_row(p) for p in spec.phases]
    lines += ["", "## Phases in full", ""]
    for phase in spec.phases:
        lines += [f"### Phase {phase.index}", ""]
        for name in "abc":
            fragments = getattr(phase, name)
            lines += [f"{name.upper()} ({len(fragments)}):", ""]
            lines += [
                f"* `{{{', '.join(f.registers)}}}` {f.provenance}{f'; {f.provenance.lanes}' if f.provenance.lanes else ''}; mma {f.first_use}, {f.uses} uses"
                for f in fragments
            ]
            lines += [""]
        counts = ", ".join(f"{n} {kind}" for kind, n in phase.epilogue.counts.items())
        lines += [
            f"Then {phase.epilogue.instructions} statements ({counts or 'none'}): {'; '.join(phase.epilogue.idioms) or 'no idiom recognised'}.",
            "",
        ]
    abi = spec.abi
    lines += ["## Cut ABI of the region", ""]
    for title, registers in (("Live in", abi.live_in), ("Live out", abi.live_out)):
        lines += [f"{title} ({len(registers)}): {', '.join(f'`{r.name}` {r.type}' for r in registers) or 'none'}", ""]
    shared = ", ".join(shared_name(s) if s == "?" else f"`{s}`" for s in abi.shared)
    lines += [f"Shared arrays touched: {shared or 'none'}", ""]
    lines += [f"Predicates among them: {', '.join(f'`{p}`' for p in abi.predicates) or 'none'}", ""]
    lines += [f"Barriers inside (lines): {', '.join(map(str, abi.barriers)) or 'none'}", ""]
    lines += [f"Cannot be cut: {r}" for r in abi.refusals]
    return "\n".join([*lines, ""])


def _span(first: int | None, last: int | None) -> str:
    return "-" if first is None else f"{first}-{last}"


def _phase_row(p: Phase) -> str:
    tiles = "x".join(map(str, p.tiles)) if p.tiles else "irregular"
    types = ".".join(p.types.get(k, "?") for k in "dabc")
    return (
        f"| {p.index} | {p.first_line}-{p.last_line} | {p.shape} | {types} | {p.mma} | {tiles} | {len(p.a)}: {summary(p.a)} | {len(p.b)}: {summary(p.b)} "
        f"| {len(p.c)}: {summary(p.c)} | {ranges_text(p)} | {p.live_across_registers} registers, {p.live_across_bytes} bytes |"
    )
