"""The instruction table: how an instruction is spelled, what its operands do, which effects it has, and what it means.

Invariant: an instruction is declared once, by ``@instruction`` on its meaning; everything else (the parser's check, data flow,
executors, the generated table) reads the declaration. A spelling resolves to one ``Form``, whatever order its flags are written in; where
the manual has several operand lists for it, the form names the others, and binding takes the one that the operands fit.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from ptxgraft.isa.requirements import Requirement, required
from ptxgraft.isa.types import TYPES, Type

Meaning = Callable[..., Any]

_SLOT = re.compile(r"\{(\w+)(?::([^}]*))?\}(\?)?|([^.{}]+)")
_ROLE = re.compile(
    r"^(out|in|inout|addr|label|labels|call|resource|text)(?:\s+([\w:]+))?(?:\s+(?:x|v)?(\d*))?\s*(\|)?\s*(\?)?(?:\s*(implicit))?$"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """One dotted part of a spelling: a fixed word (``name`` empty), or a named choice, optional or not."""

    name: str
    choices: tuple[str, ...]
    optional: bool


@dataclass(frozen=True, slots=True)
class Role:
    """What an instruction does with one operand.

    ``kind`` is ``out``, ``in``, ``inout``, ``addr`` (a bracketed address, read), ``label``, ``labels``, ``call`` (names and parameter lists),
    ``resource`` (``[handle, {coordinates}]``) or ``text``. ``count`` is the number of vector elements (1: a scalar), of a resource that of the parts
    before its coordinates. ``pair`` marks the
    second half of ``d|p``. ``implicit`` marks a register that no operand names (the condition code): binding puts it there.
    """

    name: str
    kind: str
    type: Type | None
    count: int
    pair: bool
    optional: bool
    implicit: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One declaration of the table."""

    spelling: str
    root: str
    slots: tuple[Slot, ...]
    roles: tuple[tuple[str, str], ...]
    loads: str
    stores: str
    convergent: bool
    control: str
    since: tuple[int, int]
    sm: int
    specific: str
    """``a``: the target ``sm`` alone has it (``sm_90a``); ``f``: targets of its family (``sm_100f``); '' : every later target."""
    needs: Mapping[str, Requirement] = field(compare=False)
    """Words that need a later version or target than the declaration itself."""
    family: str
    meaning: Meaning | None
    instead: str
    """What works where there is no meaning on purpose."""
    legal: Callable[..., bool] | None
    derive: Callable[..., Mapping[str, str]] | None
    parts: Mapping[str, str] = field(compare=False)
    """By role, the parts of a register that may stand there (``parts.py``)."""
    examples: tuple[Any, ...]
    doc: str
    keywords: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Form:
    """One spelling, resolved: an entry with its slots filled in. Shared by every statement written that way.

    ``loads`` and ``stores`` name the memory space touched ('' for none); ``control`` is '' or one of branch, indirect-branch, call,
    return, exit, trap, barrier; ``convergent`` operations need their warp together. ``options`` are the meaning's keyword arguments.
    ``since`` and ``sm`` are the first PTX version and target that take this spelling.
    """

    opcode: str
    entry: Entry
    slots: Mapping[str, str]
    roles: tuple[Role, ...]
    loads: str
    stores: str
    options: dict[str, str]
    required: int
    since: tuple[int, int]
    sm: int
    tensor: bool = field(default=False)
    plain: bool = field(default=False)
    """Every role is one written operand: none optional, implicit or the second half of a pair."""
    parts: Mapping[str, str] = field(default_factory=dict)
    """By role, the part of a register that is written there; ``opcode`` then says it too, behind the words."""
    others: tuple[Form, ...] = field(default=(), repr=False)
    """Forms of the same opcode with other operand lists, in order of declaration."""

    @property
    def root(self) -> str:
        return self.entry.root

    @property
    def family(self) -> str:
        return self.entry.family

    @property
    def control(self) -> str:
        return self.entry.control

    @property
    def convergent(self) -> bool:
        return self.entry.convergent

    @property
    def meaning(self) -> Meaning | None:
        return self.entry.meaning


ENTRIES: dict[str, list[Entry]] = {}
"""Every declaration, by the first word of its spelling, in order of declaration."""


def instruction(
    spelling: str,
    *,
    loads: str = "",
    stores: str = "",
    convergent: bool = False,
    control: str = "",
    since: tuple[int, int] = (1, 0),
    sm: int = 10,
    specific: str = "",
    needs: Mapping[str, Requirement] | None = None,
    legal: Callable[..., bool] | None = None,
    derive: Callable[..., Mapping[str, str]] | None = None,
    parts: Mapping[str, str] | None = None,
    examples: Sequence[Any] = (),
    **roles: str,
) -> Callable[[Meaning], Meaning]:
    """Declare an instruction; decorates its meaning.

    ``spelling``: dotted; ``{name:a|b}`` is a mandatory slot, ``{name:a|b}?`` an optional one, anything else a fixed word.
    ``roles``: operands in the written order, ``"out {type}"``, ``"in u32"``, ``"in {type} {vec}"`` (``vec`` v2/v4 or empty), ``"in b32 x4"``,
    ``"out pred |?"`` (second half of ``d|p``, optional), ``"addr"``, ``"label"``, ``"resource {ctype}"``; a final ``?`` makes it optional, a final ``implicit`` a register
    that is not written, called after the role. An optional operand that does not look like what is written (a vector where a scalar stands)
    counts as left out. A text that comes out empty is no operand.
    ``loads``/``stores``: memory space, may name a slot (``"{space}"``; an empty space is ``generic``).
    The meaning is called as ``meaning(lanes, *inputs, **slots)`` with the inputs in role order (vectors as tuples, an absent optional
    input as None, an address as one 64-bit value, a resource as handle and tuple of coordinates; where a sampler is named too, its handle is
    the upper half of one of 128 bits) and the slots that it names as keyword-only parameters ('' when absent). It returns the outputs in role order: one value, or a tuple of values.
    ``examples``: ``(opcode, (input bits, ...), (output bits, ...))`` rows that tests run on every instance; vectors are flattened, an address
    or label cannot be exampled.
    ``legal(**slots)`` refuses combinations that the slots alone would allow. ``derive(**slots)`` gives further names that roles and spaces may
    use as they use slots: a count that follows from a shape, an operand that a flag asks for.
    ``since`` and ``sm`` are the first PTX version and target; ``needs`` has, by word, what a word asks for beyond that and beyond what it asks for
    everywhere (``requirements.WORDS``). ``parts`` has, by role, a pattern of what may be written around a register's name there (``.b0``, ``.h10``, a
    sign); the meaning gets what is written as the keyword ``{role}_part``, without dots, and '' for a whole register. An example says it behind the
    opcode: ``"vadd.u32.u32.u32 d=b0 a=h1"``.
    """

    def declare(meaning: Meaning) -> Meaning:
        slots = tuple(_slots(spelling))
        root = slots[0].choices[0]
        parameters = inspect.signature(meaning).parameters.values()
        has_meaning = not getattr(meaning, "no_meaning", False)
        entry = Entry(
            spelling=spelling,
            root=root,
            slots=slots,
            roles=tuple(roles.items()),
            loads=loads,
            stores=stores,
            convergent=convergent,
            control=control,
            since=since,
            sm=sm,
            specific=specific,
            needs=needs or {},
            family=meaning.__module__.rpartition(".")[2],
            meaning=meaning if has_meaning else None,
            instead=getattr(meaning, "instead", ""),
            legal=legal,
            derive=derive,
            parts=parts or {},
            examples=tuple(examples),
            doc=inspect.cleandoc(meaning.__doc__ or ""),
            keywords=tuple(p.name for p in parameters if p.kind is p.KEYWORD_ONLY),
        )
        ENTRIES.setdefault(root, []).append(entry)
        return meaning

    return declare


def declare_only(meaning: Meaning) -> Meaning:
    """Mark a declaration that states roles and effects but has no meaning yet; executors refuse it by name. Goes below ``@instruction``."""
    meaning.no_meaning = True  # pyright: ignore[reportFunctionMemberAccess]
    return meaning


def refused(instead: str) -> Callable[[Meaning], Meaning]:
    """As ``declare_only``, for what is left out on purpose; the refusal says what works ``instead``."""

    def mark(meaning: Meaning) -> Meaning:
        meaning.instead = instead  # pyright: ignore[reportFunctionMemberAccess]
        return declare_only(meaning)

    return mark


def _slots(spelling: str) -> Iterator[Slot]:
    for match in _SLOT.finditer(spelling):
        name, choices, optional, word = match.groups()
        if word is not None:
            yield Slot("", (word,), False)
        else:
            yield Slot(name, tuple((choices or name).split("|")), optional is not None)


def _fill(slots: Sequence[Slot], words: Sequence[str]) -> dict[str, str] | None:
    """Match ``words`` against ``slots`` in order; None when they do not fit. Optional slots are tried taken first."""
    if not slots:
        return None if words else {}
    slot = slots[0]
    if words and words[0] in slot.choices:
        rest = _fill(slots[1:], words[1:])
        if rest is not None:
            return {slot.name: words[0], **rest} if slot.name else rest
    if slot.optional:
        rest = _fill(slots[1:], words)
        if rest is not None:
            return {slot.name: "", **rest}
    return None


_LAYOUTS = ("row", "col")


def _fill_any_order(slots: Sequence[Slot], words: Sequence[str]) -> dict[str, str] | None:
    """As ``_fill``, but only types, and layouts, keep their order among themselves: compilers do not agree on the order of flags."""
    queues = [[w for w in words if w in TYPES], [w for w in words if w in _LAYOUTS]]
    flags = [w for w in words if w not in TYPES and w not in _LAYOUTS]
    ordered: list[str] = []
    for slot in slots:
        queue = next((q for q in queues if q and q[0] in slot.choices), None)
        found = next((w for w in flags if w in slot.choices), None)
        if found is not None:
            flags.remove(found)
            ordered.append(found)
        elif queue is not None:
            ordered.append(queue.pop(0))
        elif not slot.optional:
            return None
    return None if flags or any(queues) else _fill(slots, ordered)


def _role(name: str, text: str) -> Role:
    match = _ROLE.match(text)
    assert match, f"role {name}={text!r} does not follow the grammar"
    kind, type_name, count, pair, optional, implicit = match.groups()
    if type_name in ("v2", "v4", "v8"):  # an untyped vector slot directly after the kind
        type_name, count = "", type_name[1:]
    return Role(
        name, kind, TYPES[type_name] if type_name else None, int(count or 1), pair is not None, optional is not None, implicit is not None
    )


def resolve_roles(entry: Entry, slots: Mapping[str, str]) -> tuple[Role, ...]:
    """The entry's operands with its slots filled in."""
    names = _names(entry, slots)
    return tuple(_role(name, filled) for name, text in entry.roles if (filled := _fill_text(text, names).strip()))


def _names(entry: Entry, slots: Mapping[str, str]) -> Mapping[str, str]:
    """What roles and spaces may name: the slots, and what follows from them."""
    return slots if entry.derive is None else {**slots, **entry.derive(**slots)}


def _fill_text(text: str, names: Mapping[str, str]) -> str:
    return re.sub(r"\{(\w+)\}", lambda m: names.get(m[1], ""), text)


@cache
def form_of(opcode: str) -> Form | None:
    """The form of a dotted opcode as written (``ld.global.nc.v4.u32``), or None when the table does not know it. Parts of registers may be said behind
    it (``vadd.u32.u32.u32 d=b0 a=h1``)."""
    opcode, *written = opcode.split(" ")
    if written:
        return _with_parts(form_of(opcode), {name: part for name, _, part in (text.partition("=") for text in written)})
    words = opcode.split(".")
    entries = ENTRIES.get(words[0], ())
    for fill in (_fill, _fill_any_order):
        forms = [
            _form(opcode, entry, slots)
            for entry in entries
            if (slots := fill(entry.slots[1:], words[1:])) is not None and (entry.legal is None or entry.legal(**slots))
        ]
        if forms:
            return replace(forms[0], others=tuple(forms[1:])) if len(forms) > 1 else forms[0]
    return None


def _with_parts(form: Form | None, parts: Mapping[str, str]) -> Form | None:
    """Those of the form and its others that take these parts of registers."""
    if form is None:
        return None
    able = [f for f in (replace(form, others=()), *form.others) if all(takes_part(f, name, part) for name, part in parts.items())]
    made = [with_parts(f, parts) for f in able]
    return replace(made[0], others=tuple(made[1:])) if made else None


def takes_part(form: Form, role: str, part: str) -> bool:
    """May this part of a register stand there?"""
    return re.fullmatch(form.entry.parts.get(role, ""), part) is not None


def with_parts(form: Form, parts: Mapping[str, str]) -> Form:
    """The form with parts of registers as operands, by role; each is one that it takes."""
    written = "".join(f" {name}={part}" for name, part in parts.items())
    options = form.options | {f"{name}_part": part for name, part in parts.items()}
    return replace(form, opcode=form.opcode + written, options=options, parts=dict(parts))


def _form(opcode: str, entry: Entry, slots: dict[str, str]) -> Form:
    roles = resolve_roles(entry, slots)
    names = _names(entry, slots)
    since, sm = required(opcode.split("."), (entry.since, entry.sm), entry.needs)

    def space(text: str) -> str:
        return (_fill_text(text, names).partition("::")[0] or "generic") if text else ""

    return Form(
        opcode=opcode,
        entry=entry,
        slots=slots,
        roles=roles,
        loads=space(entry.loads),
        stores=space(entry.stores),
        options={k: slots.get(k, "") for k in entry.keywords},
        required=sum(not (r.optional or r.implicit) for r in roles),
        since=since,
        sm=sm,
        tensor=opcode.startswith(("mma.", "wmma.mma.")),
        plain=not any(r.optional or r.implicit or r.pair for r in roles),
    )
