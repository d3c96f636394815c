"""The callee of a ``phases`` cut to fill in, in CUDA C++ and HIP C++.

Invariant: every word that a phase's tensor-core instructions read has one accessor, which finds it as the identity callee does: in the bank, in the
weight image, in the row, or as a constant.
"""

from __future__ import annotations

from ptxgraft.flow import Atom, Linear
from ptxgraft.graft.carry import total_words, words
from ptxgraft.graft.excerpt import Excerpt
from ptxgraft.graft.fragment_tables import PhaseTable, phase_tables
from ptxgraft.graft.interface import Interface
from ptxgraft.graft.linear_text import expression
from ptxgraft.graft.phases import Given, PhaseCall, PhasePlan
from ptxgraft.graft.skeleton import Dialect, common, short, stages, title
from ptxgraft.spec import LayerSpec

Moves = dict[tuple[tuple[Atom, int], ...], int]
"""Ways in which an offset moves with the thread, numbered."""

_HOW = {"bank": "in_bank", "weights": "in_weights", "constant": "constant", "returned": "in_row", "chained": "in_row", "inside": "inside"}


def phases_skeleton(dialect: Dialect, name: str, piece: Excerpt, face: Interface, spec: LayerSpec, plan: PhasePlan) -> str:
    """The skeleton of function ``name``, called once for each phase."""
    tables = phase_tables(piece.flow, spec, piece.region.first, piece.region.last, {})
    by_number = {t.phase.index: t for t in tables}
    moves: Moves = {}
    phases = [_phase(call, by_number[call.phase.index], moves) for call in plan.calls]
    sections = [
        title(name, piece, spec, "phases", dialect),
        f"namespace {name}_parts {{",
        common(dialect),
        _inputs(plan),
        _moves(moves),
        _FETCH.replace("MOVED", "moved_by(place.way)" if moves else "0"),
        *phases,
        stages(face, [by_number[c.phase.index] for c in plan.calls]),
        f"}}  // namespace {name}_parts",
        _function(name, face, plan),
    ]
    return "\n\n".join(s for s in sections if s) + "\n"


def _inputs(plan: PhasePlan) -> str:
    size = max(plan.bank_words, 1)
    return f"""// What a call is given. A lane's row: words 0 to {plan.result_words} are the results of the phase; from word {plan.spill_start} on
// the entry keeps {plan.spill_words} words of its own there.
enum {{ bank_words = {plan.bank_words}, result_words = {plan.result_words}, spill_row = {plan.spill_start} }};

struct Inputs {{
    Word bank[{size}];
    const unsigned char *weights;
    const unsigned char *parameters;
    Word row;
}};"""


def _moves(moves: Moves) -> str:
    """One function for each way in which an offset of the weight image moves with the thread."""
    if not moves:
        return ""
    lines = [
        "// How far an offset of the weight image moves with the thread, for any shape of the block.",
        "__device__ inline unsigned long long moved_by(int way) {",
        "    switch (way) {",
    ]
    for terms, number in moves.items():
        lines.append(f"    case {number}: return {expression(Linear(64, 0, terms))};")
    return "\n".join([*lines, "    }", "    return 0;", "}"])


_FETCH = """// Where a word of a fragment is found. `inside`: it is the D of an earlier instruction of the same phase.
enum How { in_bank, in_weights, in_row, constant, inside };

struct Place {
    How how;
    short way;
    int value;
};

__device__ inline Word fetch(const Inputs &in, Place place) {
    switch (place.how) {
    case in_bank: return in.bank[place.value];
    case in_weights: return *reinterpret_cast<const Word *>(in.weights + place.value + MOVED);
    case in_row: return load_shared(in.row + 4 * place.value);
    case constant: return static_cast<Word>(place.value);
    default: return 0;
    }
}

__device__ inline void store_result(const Inputs &in, int word, Word value) {
    store_shared(in.row + 4 * word, value);
}"""


def _phase(call: PhaseCall, table: PhaseTable, moves: Moves) -> str:
    phase = call.phase
    types = ", ".join(f"{k.upper()} {phase.types[k]}" for k in "dabc" if k in phase.types)
    tiles = f" = {' x '.join(map(str, phase.tiles))} tiles (m x n x k)" if phase.tiles else ""
    lines = [
        f"// Phase {phase.index}, lines {phase.first_line} to {phase.last_line}: {phase.shape}, {types}; {phase.mma} instructions{tiles}.",
        f"namespace phase{phase.index} {{",
        f"enum {{ d_count = {len(phase.d)}, d_registers = {len(table.d_registers)} }};  // {short(table.d_registers)}",
    ]
    for letter in "abc":
        lines += _accessor(letter, [g for g in call.given if g.letter == letter], moves)
    chained = {step["c"]: made for step in table.steps if (made := _maker(call, table, step["c"])) is not None}
    lines += [
        "// The D fragment of the same phase that a C fragment is, -1: it comes from elsewhere, as c() finds it.",
        "__device__ inline int c_from_d(int fragment) {",
        f"    const short made[{len(phase.c)}] = {{{', '.join(str(chained.get(i, -1)) for i in range(len(phase.c)))}}};",
        "    return made[fragment];",
        "}",
    ]
    results = {r.name: w for r, w in call.results}
    width = max((len(f.registers) for f in phase.d), default=1)
    steps = ", ".join(f"{{{s['d']}, {s['a']}, {s['b']}, {s['c']}}}" for s in table.steps)
    rows = [", ".join(str(results.get(name, -1)) for name in f.registers) for f in phase.d]
    lines += [
        "// The row's first word of each register of a D fragment, -1: not read after the phase.",
        "__device__ inline int d_result(int fragment, int word) {",
        f"    const short result[{len(phase.d)}][{width}] = {{{', '.join(f'{{{row}}}' for row in rows)}}};",
        "    return result[fragment][word];",
        "}",
        "__device__ inline Step step(int instruction) {",
        f"    const Step steps[{len(table.steps)}] = {{{steps}}};",
        "    return steps[instruction];",
        "}",
    ]
    return "\n".join([*lines, f"}}  // namespace phase{phase.index}"])


def _maker(call: PhaseCall, table: PhaseTable, number: int) -> int | None:
    """The D fragment that C fragment ``number`` is, when an instruction of the phase makes it."""
    given = next(g for g in call.given if g.letter == "c" and g.number == number)
    return table.steps[given.maker - call.phase.first]["d"] if given.how == "inside" else None


def _accessor(letter: str, given: list[Given], moves: Moves) -> list[str]:
    width = max(total_words(g.registers) for g in given)
    rows = [", ".join(_places(g, moves)) for g in given]
    return [
        f"enum {{ {letter}_count = {len(given)}, {letter}_words = {width} }};",
        f"__device__ inline Word {letter}(const Inputs &in, int fragment, int word) {{",
        f"    const Place place[{len(given)}][{width}] = {{{', '.join(f'{{{row}}}' for row in rows)}}};",
        "    return fetch(in, place[fragment][word]);",
        "}",
    ]


def _places(given: Given, moves: Moves) -> list[str]:
    """Each word's place, as an initialiser."""
    places: list[str] = []
    at = 0
    for number, register in enumerate(given.registers):
        for word in range(words(register.type)):
            way, value = 0, 0
            if given.how == "bank":
                value = given.first + at
            elif given.how == "weights":
                offset = given.sources[number].offset
                assert offset is not None
                way = moves.setdefault(offset.terms, len(moves))
                value = _int(offset.constant & 0xFFFF_FFFF) + 4 * word
            elif given.how == "constant":
                value = _int(given.bits[number] >> 32 * word & 0xFFFF_FFFF)
            elif given.places:
                value = given.places[number] + word
            places.append(f"{{{_HOW[given.how]}, {way}, {value}}}")
            at += 1
    return places


def _int(bits: int) -> int:
    return bits - (1 << 32) if bits >> 31 else bits


def _function(name: str, face: Interface, plan: PhasePlan) -> str:
    parameters = [f"{'unsigned long long' if p.type == 'b64' else 'unsigned int'} {p.name}" for p in face.passed]
    bank = ", ".join(p.name for p in face.passed if p.kind == "bank") or "0"
    lines = [
        f'extern "C" __device__ void {name}(',
        "    " + ",\n    ".join(parameters),
        ") {",
        f"    using namespace {name}_parts;",
        "    const Inputs in = {",
        f"        {{{bank}}},",
        "        reinterpret_cast<const unsigned char *>(weights),",
        "        reinterpret_cast<const unsigned char *>(parameters),",
        "        row,",
        "    };",
        "    (void)in;",
        "    switch (phase) {",
    ]
    for call in plan.calls:
        number = call.phase.index
        lines += [
            f"    case {number}:",
            f"        // Your code: phase {number}, from phase{number}::a, b and c to {total_words(r for r, _ in call.results)} words by store_result.",
            "        break;",
        ]
    return "\n".join([*lines, "    }", "}"])
