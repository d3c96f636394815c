"""The text of a probe: which row a lane owns, the stores, and how the buffer's address reaches them.

Invariant: a store happens only where block number and slot number are below the buffer's number of slots, computed in 64 bits from the launch's own
shape, so that no shape can make two warps share a slot, and where the passage's number is below the number of passages that a row has room for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ptxgraft.errors import UnsupportedError
from ptxgraft.graft.carry import Scratch, split
from ptxgraft.graft.excerpt import indented
from ptxgraft.graft.probe_sites import Site, Stored
from ptxgraft.isa import Program
from ptxgraft.text import Document, EditScript, FreshNames, Function, Kind, Statement, split_operands

HEAD = 4
"""Words before the passages of a stage that keeps several: their count, and padding, so that 16-byte stores stay aligned."""


@dataclass(slots=True)
class Part:
    """One stage's stores: at ``sites``, the registers ``stored``, from word ``first_word`` of a lane's row on, filled up to ``words``.

    ``iterations`` 0: a lane's last passage stays. Else the first that many passages have ``words`` each, behind ``HEAD`` words, the first of which counts
    all of them.
    """

    sites: Sequence[Site]
    stored: Sequence[Stored]
    first_word: int
    words: int
    iterations: int = 0

    @property
    def size(self) -> int:
        """Words of a row that the stage takes."""
        return HEAD + self.iterations * self.words if self.iterations else self.words


@dataclass(slots=True)
class ProbeBuffer:
    """Where rows lie. ``argument``: (offset, byte offset) of an existing pointer with ``slots`` slots, or None for added parameters. ``words`` is a
    lane's row, all parts together."""

    argument: tuple[int, int] | None
    slots: int
    slot_bytes: int
    words: int


def write_probe(program: Program, parts: Sequence[Part], buffer: ProbeBuffer) -> bytes:
    """The module with a store at each site of each part. A site in a function gets the buffer through parameters added to it and to all that call it."""
    document, entry = program.document, program.entry
    sites = [site for part in parts for site in part.sites]
    script, fresh = EditScript(document), FreshNames(document)
    pointer, slots = fresh.name("probe"), fresh.name("probe_slots")
    threaded = _functions_to_thread(document, sites)
    if buffer.argument is None:
        _add_parameters(script, entry, pointer, slots)
    for function in document.functions:
        if function.kind == "func" and function.name in threaded:
            _add_parameters(script, function, pointer, slots)
    for call, caller in _calls(document, threaded):
        _pass_on(script, program, call, caller, buffer, (pointer, slots), fresh)
    counted = [part for part in parts if part.iterations]
    if counted:
        scratch = Scratch(fresh)
        lines = _source(program, entry, buffer, (pointer, slots), scratch)
        first = _first_statement(document, entry)
        script.insert_before(first, indented(document, first, _clear(lines, counted, buffer, scratch)))
    for part, site in [(p, site) for p in parts for site in p.sites]:
        function = document.function_of(site.statement)
        assert function is not None
        scratch = Scratch(fresh)
        lines = _source(program, function, buffer, (pointer, slots), scratch)
        text = indented(document, site.statement, _store(lines, part, site.guard, buffer, scratch))
        if site.after:
            script.insert_after(site.statement, text)
        else:
            script.insert_before(site.statement, text)
    return script.apply()


def _source(
    program: Program, function: Function, buffer: ProbeBuffer, names: tuple[str, str], scratch: Scratch
) -> tuple[list[str], str, str]:
    """(statements, pointer register, number of slots register): the buffer as the function knows it."""
    pointer, slots = scratch.register("b64"), scratch.register("b32")
    if function.kind == "entry" and function.name != program.name:
        return [f"mov.u64 {pointer}, 0;", f"mov.u32 {slots}, 0;"], pointer, slots  # another entry: it has no buffer
    if function.kind == "func" or buffer.argument is None:
        lines = [f"ld.param.u64 {pointer}, [{names[0]}];", f"ld.param.u32 {slots}, [{names[1]}];"]
        return lines, pointer, slots
    offset, start = buffer.argument
    holder = next(p for p in program.params if p.offset <= offset < p.offset + p.size)
    place = f"{holder.name}+{offset - holder.offset}" if offset != holder.offset else holder.name
    lines = [f"ld.param.u64 {pointer}, [{place}];"]
    if start:
        lines.append(f"add.s64 {pointer}, {pointer}, {start};")
    return [*lines, f"mov.u32 {slots}, {buffer.slots};"], pointer, slots


def _store(source: tuple[list[str], str, str], part: Part, guard: str, buffer: ProbeBuffer, scratch: Scratch) -> str:
    """The block of statements at one site."""
    lines, pointer, slots = source
    lines = [*lines]
    held: list[str] = []
    for register in part.stored:
        before, registers = split(register.name, register.type, scratch)
        lines += before
        held += registers
    if len(held) < part.words:
        zero = scratch.register("b32")
        lines.append(f"mov.u32 {zero}, 0;")
        held += [zero] * (part.words - len(held))
    row, allowed = scratch.register("b64"), scratch.register("pred")
    lines += _row(pointer, slots, row, allowed, buffer, scratch)
    if guard:
        wanted = guard
        if guard.startswith("!"):
            wanted = scratch.register("pred")
            lines.append(f"not.pred {wanted}, {guard[1:].strip()};")
        lines.append(f"and.pred {allowed}, {allowed}, {wanted};")
    first = part.first_word
    if part.iterations:
        lines += _passage(part, row, allowed, scratch)
        first += HEAD
    for i in range(0, part.words, 4):
        lines.append(f"@{allowed} st.global.v4.b32 [{_place(row, first + i)}], {{{', '.join(held[i : i + 4])}}};")
    return _block(lines, scratch)


def _passage(part: Part, row: str, allowed: str, scratch: Scratch) -> list[str]:
    """Statements that count the passage, move ``row`` to its words, and leave ``allowed`` where there is room for it."""
    number, next_number = scratch.register("b32"), scratch.register("b32")
    wide = scratch.register("b64")
    count = _place(row, part.first_word)
    return [
        f"mov.u32 {number}, 0;",
        f"@{allowed} ld.global.u32 {number}, [{count}];",
        f"add.u32 {next_number}, {number}, 1;",
        f"@{allowed} st.global.u32 [{count}], {next_number};",
        f"setp.lt.and.u32 {allowed}, {number}, {part.iterations}, {allowed};",
        f"mul.wide.u32 {wide}, {number}, {4 * part.words};",
        f"add.u64 {row}, {row}, {wide};",
    ]


def _clear(source: tuple[list[str], str, str], parts: Sequence[Part], buffer: ProbeBuffer, scratch: Scratch) -> str:
    """The block at the entry's beginning: no passage was counted yet, whatever the buffer holds."""
    lines, pointer, slots = source
    row, allowed, zero = scratch.register("b64"), scratch.register("pred"), scratch.register("b32")
    lines = [*lines, *_row(pointer, slots, row, allowed, buffer, scratch), f"mov.u32 {zero}, 0;"]
    lines += [f"@{allowed} st.global.u32 [{_place(row, part.first_word)}], {zero};" for part in parts]
    return _block(lines, scratch)


def _first_statement(document: Document, entry: Function) -> Statement:
    """The first of an entry's statements that is run, or the label or brace before it: nothing branches to what stands before that."""
    assert entry.body is not None
    inside = (document.statements[i] for i in entry.body)
    return next((s for s in inside if s.kind != Kind.DIRECTIVE), document.statements[document.scopes[entry.scope].last])


def _place(row: str, word: int) -> str:
    return f"{row}+{4 * word}" if word else row


def _block(lines: Sequence[str], scratch: Scratch) -> str:
    return "\n".join(["{", *("\t" + line for line in [*scratch.declarations(), *lines]), "}"])


def _row(pointer: str, slots: str, row: str, allowed: str, buffer: ProbeBuffer, scratch: Scratch) -> list[str]:
    """Statements that set ``row`` to the lane's row and ``allowed`` to whether its slot is in the buffer."""
    a, b, thread = (scratch.register("b32") for _ in range(3))
    wide, capacity = scratch.register("b64"), scratch.register("b64")
    return [
        # The block's number: z*gy + y is below 2^32, times gx plus x below 2^63.
        f"mov.u32 {a}, %ctaid.z;",
        f"mov.u32 {b}, %nctaid.y;",
        f"mul.wide.u32 {row}, {a}, {b};",
        f"mov.u32 {a}, %ctaid.y;",
        f"cvt.u64.u32 {wide}, {a};",
        f"add.u64 {row}, {row}, {wide};",
        f"mov.u32 {a}, %nctaid.x;",
        f"cvt.u64.u32 {wide}, {a};",
        f"mul.lo.u64 {row}, {row}, {wide};",
        f"mov.u32 {a}, %ctaid.x;",
        f"cvt.u64.u32 {wide}, {a};",
        f"add.u64 {row}, {row}, {wide};",
        f"cvt.u64.u32 {capacity}, {slots};",
        f"setp.lt.u64 {allowed}, {row}, {capacity};",
        # The thread's number in the block, and the block's warps.
        f"mov.u32 {a}, %tid.z;",
        f"mov.u32 {b}, %ntid.y;",
        f"mov.u32 {thread}, %tid.y;",
        f"mad.lo.u32 {thread}, {a}, {b}, {thread};",
        f"mov.u32 {a}, %ntid.x;",
        f"mul.lo.u32 {b}, {a}, {b};",
        f"mul.lo.u32 {thread}, {thread}, {a};",
        f"mov.u32 {a}, %tid.x;",
        f"add.u32 {thread}, {thread}, {a};",
        f"mov.u32 {a}, %ntid.z;",
        f"mul.lo.u32 {b}, {b}, {a};",
        f"add.u32 {b}, {b}, 31;",
        f"shr.u32 {b}, {b}, 5;",
        # The slot's number, below 2^37 where the block's number is allowed.
        f"cvt.u64.u32 {wide}, {b};",
        f"mul.lo.u64 {row}, {row}, {wide};",
        f"shr.u32 {a}, {thread}, 5;",
        f"cvt.u64.u32 {wide}, {a};",
        f"add.u64 {row}, {row}, {wide};",
        f"setp.lt.and.u64 {allowed}, {row}, {capacity}, {allowed};",
        f"shl.b64 {row}, {row}, {buffer.slot_bytes.bit_length() - 1};",
        f"and.b32 {thread}, {thread}, 31;",
        f"mul.wide.u32 {wide}, {thread}, {4 * buffer.words};",
        f"add.u64 {row}, {row}, {wide};",
        f"cvta.to.global.u64 {pointer}, {pointer};",
        f"add.u64 {row}, {row}, {pointer};",
    ]


# -- how the buffer reaches functions -------------------------------------------------------------------------------------------


def _functions_to_thread(document: Document, sites: Sequence[Site]) -> set[str]:
    """Functions that need the buffer: those with sites, and those that call them."""
    needed = {f.name for s in sites if (f := document.function_of(s.statement)) is not None and f.kind == "func"}
    if not needed:
        return needed
    while True:
        more = {c.name for _, c in _calls(document, needed) if c.kind == "func"} - needed
        if not more:
            break
        needed |= more
    for name in needed:
        token = re.compile(rf"(?<![\w$%.]){re.escape(name)}(?![\w$])")
        calls = {s.index for s, _ in _calls(document, needed)}
        heads = {i for f in document.functions for i in f.head}
        for statement in document.statements:
            if (
                statement.index not in calls
                and statement.index not in heads
                and statement.kind in (Kind.INSTRUCTION, Kind.DIRECTIVE)
                and token.search(statement.operands)
            ):
                if statement.opcode == ".loc":
                    continue
                raise UnsupportedError(
                    f"the address of {name!r} is taken: a probe in it cannot pass its buffer on",
                    place=document.place(statement),
                    hint="probe a line of the entry",
                )
    return needed


def _calls(document: Document, names: set[str]) -> list[tuple[Statement, Function]]:
    """Direct calls of the named functions with the functions that they stand in."""
    found: list[tuple[Statement, Function]] = []
    if not names:
        return found
    for statement in document.statements:
        if statement.kind == Kind.INSTRUCTION and statement.opcode.startswith("call") and callee_of(statement) in names:
            function = document.function_of(statement)
            assert function is not None
            found.append((statement, function))
    return found


def callee_of(statement: Statement) -> str:
    """What a call calls: a function's name or a register."""
    pieces = split_operands(statement.operands)
    return next((p for p in pieces if not p.startswith("(")), "")


def _add_parameters(script: EditScript, function: Function, pointer: str, slots: str) -> None:
    added = f".param .u64 {pointer},\n\t.param .u32 {slots}"
    if function.params:
        end = function.params[-1].end
        script.replace_span(end, end, f",\n\t{added}".replace("\n", script.newline))
        return
    document = script.document
    head = document.statements[function.head.start]
    after = function.name_start + len(function.name)
    bracket = re.compile(r"\s*\(").match(document.masked, after, head.end)
    if bracket:
        script.replace_span(bracket.end(), bracket.end(), f"\n\t{added}\n".replace("\n", script.newline))
    else:
        script.replace_span(after, after, f"(\n\t{added}\n)".replace("\n", script.newline))


def _pass_on(
    script: EditScript,
    program: Program,
    call: Statement,
    caller: Function,
    buffer: ProbeBuffer,
    names: tuple[str, str],
    fresh: FreshNames,
) -> None:
    """Give one call the buffer as two more arguments."""
    scratch, document = Scratch(fresh), program.document
    lines, pointer, slots = _source(program, caller, buffer, names, scratch)
    first, second = fresh.name("probe_p"), fresh.name("probe_n")
    lines = [
        *scratch.declarations(), *lines, f".param .b64 {first};", f"st.param.b64 [{first}], {pointer};", f".param .b32 {second};",
        f"st.param.b32 [{second}], {slots};",
    ]  # fmt: skip
    script.insert_before(call, indented(document, call, "\n".join(lines)))
    pieces = split_operands(call.operands)
    at = next(i for i, p in enumerate(pieces) if not p.startswith("("))
    given = pieces[at + 1][1:-1].strip() if len(pieces) > at + 1 else ""
    pieces[at + 1 :] = [f"({', '.join([*([given] if given else []), first, second])})"]
    guard = f"@{call.guard} " if call.guard else ""
    script.replace_span(call.start, call.end, f"{guard}{call.opcode} {', '.join(pieces)};")
