"""Statements for declarations: a few spellings that hold every word of a declaration, with operands that fit its roles."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from ptxgraft.isa import Entry, Role
from ptxgraft.isa.table import resolve_roles

SEARCHED = 4000
"""How many combinations to try for a legal one with a given word."""
WRITTEN = ("clamp",)
"""Optional words without which ptxas takes nothing."""


def spellings(entry: Entry) -> list[tuple[str, dict[str, str]]]:
    """Opcodes and slots that are legal and hold every word of the declaration between them, as few flags as can be."""
    choices = [("", *slot.choices) if slot.optional and slot.name not in WRITTEN else slot.choices for slot in entry.slots]
    found: dict[str, dict[str, str]] = {}
    base: tuple[str, ...] | None = None
    for words in itertools.islice(itertools.product(*choices), SEARCHED):
        if _legal(entry, words):
            base = words
            found[_opcode(words)] = _slots(entry, words)
            break
    for position, words in enumerate(choices):
        for word in words:
            for candidate in _around(choices, base, position, word):
                if _legal(entry, candidate):
                    found[_opcode(candidate)] = _slots(entry, candidate)
                    break
    return list(found.items())


def _around(choices: list, base: tuple[str, ...] | None, position: int, word: str) -> Iterator[tuple[str, ...]]:
    """Combinations with ``word`` at ``position``: those near the base first."""
    fixed = [(word,) if i == position else c for i, c in enumerate(choices)]
    if base is not None:
        yield (*base[:position], word, *base[position + 1 :])
        others = [(i, alternative) for i, words in enumerate(fixed) if i != position for alternative in words if alternative != base[i]]
        for changes in itertools.chain(itertools.combinations(others, 1), itertools.combinations(others, 2)):
            near = [*base]
            near[position] = word
            for i, alternative in changes:
                near[i] = alternative
            yield tuple(near)
    yield from itertools.islice(itertools.product(*fixed), SEARCHED)


def _opcode(words: tuple[str, ...]) -> str:
    return ".".join(w for w in words if w)


def _slots(entry: Entry, words: tuple[str, ...]) -> dict[str, str]:
    return {slot.name: word for slot, word in zip(entry.slots, words, strict=True) if slot.name}


def _legal(entry: Entry, words: tuple[str, ...]) -> bool:
    return entry.legal is None or entry.legal(**_slots(entry, words))


# -- operands -------------------------------------------------------------------------------------------------------------
REGISTERS = {1: "%p", 8: "%b", 16: "%h", 32: "%r", 64: "%d", 128: "%q"}
IMMEDIATES = {
    ("cp", "size"): "16", ("setmaxnreg", "n"): "64", ("applypriority", "size"): "128", ("discard", "size"): "128", ("fence", "size"): "128",
    ("tensormap", "size"): "128", ("wgmma", "scale_a"): "1", ("wgmma", "scale_b"): "1", ("lop3", "table"): "0x96", ("mma", "f"): "0",
    ("alloca", "align"): "16", ("fabric", "members"): "0xFFFFFFFF", ("mbarrier", "cta_mask"): "1",
    ("cp", "cta_mask"): "1",
}  # fmt: skip
BRACED = ("mma", "wmma", "ldmatrix", "stmatrix")
COORDINATES = {
    "1d": "{x}", "2d": "{x, x}", "3d": "{x, x, x, x}", "4d": "{x, x, x, x}", "5d": "{x, x, x, x, x}", "a1d": "{l, x}", "a2d": "{l, x, x, x}",
    "cube": "{x, x, x, x}", "acube": "{l, x, x, x}", "2dms": "{x, x, x, x}", "a2dms": "{l, x, x, x}",
}  # fmt: skip


def statement(opcode: str, entry: Entry, slots: Mapping[str, str], optional: bool = True) -> str:
    """The opcode with operands of the declared roles; without the optional ones where asked."""
    written: list[str] = []
    for number, role in enumerate(resolve_roles(entry, slots)):
        left_out = not slots.get("hint") if role.name == "policy" else not optional
        if role.implicit or (role.optional and left_out):
            continue
        text = _operand(role, number, opcode, entry, slots)
        if role.pair:
            written[-1] += f"|{text}"
        else:
            written.append(text)
    return f"{opcode} {', '.join(written)};"


def _operand(role: Role, number: int, opcode: str, entry: Entry, slots: Mapping[str, str]) -> str:
    if role.kind == "addr":
        if "param::func" in opcode:
            return "[par_]"
        tensor_memory = entry.root == "tcgen05" and role.name not in ("to", "mbar")
        return f"[%{'r' if tensor_memory else 'd'}{number + 1}]"
    if role.kind == "resource":
        return _resource(role, opcode, entry, slots)
    if role.kind == "label":
        return "L_"
    if role.kind == "text":
        return IMMEDIATES.get((entry.root, role.name), "0")
    if (entry.root, role.name) in IMMEDIATES:
        return IMMEDIATES[entry.root, role.name]
    assert role.type is not None, (opcode, role)
    if role.name == "state" and role.kind == "out" and (slots["space"] == "shared::cluster" or "multicast" in opcode):
        return "_"
    registers = [_register(role, number * 8 + i + 1) for i in range(role.count)]
    braces = role.count > 1 or ((entry.root in BRACED or opcode.startswith(("tcgen05.ld", "tcgen05.st"))) and role.name in "abcdr")
    braces |= "spcompress" in opcode and role.name in ("metadata", "kept")
    braces |= entry.root in ("spcompress", "spdecompress") and role.name != "description"
    braces |= entry.root in ("tex", "tld4", "cp", "applypriority") and role.name in ("offsets", "offset", "dx", "dy")
    return f"{{{', '.join(registers)}}}" if braces else registers[0]


def _register(role: Role, number: int) -> str:
    assert role.type is not None
    if role.type.name in ("f32", "f64"):
        return f"{'%f' if role.type.name == 'f32' else '%g'}{number}"
    return f"{REGISTERS[role.type.width]}{number}"


def _overriding(slots: Mapping[str, str]) -> list[str]:
    """What overrides a tensor map: sizes, the lower parts of strides, and their upper ones."""
    dimensions = int(slots["dim"][0])
    sizes = f"{{{', '.join(['%h1'] * dimensions)}}}"
    return {
        "": [],
        "override::global_dim": [sizes],
        "override::global_dim_stride": [sizes, f"{{{', '.join(['%r2'] * (dimensions - 1))}}}", "%h2"],
    }[slots.get("attribute", "")]


def _place(role: Role, slots: Mapping[str, str]) -> str:
    """An endpoint and offsets in it, with a tensor map before and coordinates behind where there is a tensor."""
    if "dim" not in slots:
        return f"[%r1, {', '.join(['%d2', '%d3'][: role.count])}]"
    overriding = _overriding(slots)
    offsets = ["%d2", "%d3"][: role.count - len(overriding) - 2]
    return f"[%d1, %r1, {', '.join([*offsets, *overriding])}, {{{', '.join(['%r3'] * int(slots['dim'][0]))}}}]"


def _resource(role: Role, opcode: str, entry: Entry, slots: Mapping[str, str]) -> str:
    if entry.root == "fabric" or "fabric" in opcode.split("."):
        return _place(role, slots)
    if entry.root in ("cp", "multimem", "applypriority"):
        gathered = "gather4" in opcode or "scatter4" in opcode
        count = 5 if gathered else int(slots["dim"][0])
        overriding = ["%d3", *_overriding(slots)] if slots.get("address") else []
        return f"[{', '.join(['%d1', *overriding])}, {{{', '.join(['%r1'] * count)}}}]"
    assert role.type is not None
    coordinate = "%f1" if role.type.name == "f32" else "%r1"
    coordinates = COORDINATES[slots["geometry"]].replace("x", coordinate).replace("l", "%r2")
    return f"[%d1, {coordinates}]"
