"""The calls of a ``phases`` cut as plain data and as Markdown.

Invariant: what stands here is what the call passes, word for word, so that a body can be written from it alone.
"""

from __future__ import annotations

from ptxgraft.graft.phases import Given, PhaseCall, PhasePlan


def plan_json(plan: PhasePlan) -> dict[str, object]:
    """Sizes in words a lane, and each phase's call."""
    return {
        "bank_words": plan.bank_words,
        "row": {
            "results": plan.result_words,
            "spilled_from": plan.spill_start,
            "spilled": plan.spill_words,
        },
        "calls": [_call(c) for c in plan.calls],
    }


def _call(call: PhaseCall) -> dict[str, object]:
    return {
        "phase": call.phase.index,
        "lines": [call.phase.first_line, call.phase.last_line],
        "bank": [None if slot is None else {"register": slot[0].name, "word": slot[1]} for slot in call.bank],
        "fragments": [_given(g) for g in call.given],
        "results": [{"register": r.name, "word": w} for r, w in call.results],
        "read_back": [r.name for r in call.loaded],
        "chained": [{"register": r.name, "word": w} for r, w in call.chained],
        "spilled": [{"register": r.name, "type": r.type.name, "word": w} for r, w in call.across],
    }


def _given(given: Given) -> dict[str, object]:
    found: dict[str, object] = {
        "fragment": f"{given.letter}{given.number}",
        "registers": [r.name for r in given.registers],
        "how": given.how,
    }
    if given.how == "bank":
        found["first_word"] = given.first
    if given.bits:
        found["bits"] = given.bits
    if given.places:
        found["row_words"] = given.places
    return found


def plan_markdown(plan: PhasePlan) -> list[str]:
    """Lines: a row's parts, then a table of the calls."""
    lines = [
        "",
        f"A lane's row: words 0 to {plan.result_words} results, from {plan.spill_start} on "
        f"{plan.spill_words} spilled words. The bank has {plan.bank_words} words.",
        "",
        "| phase | lines | A words | B words | C words | from weights | constant | chained | results | read back | spilled words |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for call in plan.calls:
        passed = {letter: sum(len(g.registers) for g in call.given if g.letter == letter and g.how == "bank") for letter in "abc"}
        kinds = [sum(g.how in how for g in call.given) for how in (("weights",), ("constant",), ("returned", "chained"))]
        spilled = sum(2 if r.type.width == 64 else 1 for r, _ in call.across)
        cells = [
            call.phase.index,
            f"{call.phase.first_line}-{call.phase.last_line}",
            *passed.values(),
            *kinds,
            len(call.results),
            len(call.loaded),
            spilled,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return lines
