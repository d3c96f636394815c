"""Random code over memory: loads and stores of odd widths, copies, atomics.

Invariant: every byte that is read was written before, or lies in what the launch brought; no two threads race for what is compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchmarks.fuzz_kernels import OWN, TABLE_WORDS, Block, Builder, Kernel, integer
from benchmarks.fuzz_programs import VERSION, input_columns, inputs_of, register_width, step, type_of
from benchmarks.fuzz_values import operands
from ptxgraft.isa import ENTRIES, TYPES, Entry, Form, Type, form_of


def spelling(builder: Builder, entry: Entry, **fixed: str) -> Form:
    """A random legal spelling of an entry; ``fixed`` gives some slots ('' leaves one out)."""
    for _ in range(400):
        words: dict[str, str] = {}
        text: list[str] = []
        for slot in entry.slots:
            if slot.name in fixed:
                word = fixed[slot.name]
            elif slot.optional and builder.chance(0.6):
                word = ""
            else:
                word = builder.pick(slot.choices)
            if slot.name:
                words[slot.name] = word
            text += [word] if word else []
        if entry.legal is None or entry.legal(**words):
            form = form_of(".".join(text))
            if form is not None:
                return form
    raise ValueError(f"no legal spelling of {entry.spelling} with {fixed}")


def entry_of(root: str, start: str = "") -> Entry:
    return next(e for e in ENTRIES[root] if e.spelling.startswith(start))


# -- loads and stores -------------------------------------------------------------------------------------------------
_PLAIN = {"hint": "", "l1": "", "l2": "", "prefetch": "", "mmio": "", "nc": ""}


def memory_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Stores and loads of all widths over a thread's own bytes, at constant and computed places, by name, offset and generic address."""
    rng = np.random.default_rng(seed)
    names = ("b64", "b64", "u32", "f32", "f64", "u16", "pred")
    inputs = inputs_of(names)
    blocks = []
    for _ in range(10):
        builder = Builder(rng, inputs)
        space = builder.pick(["local", "local", "shared", "global"])
        blocks.append(_own_memory(builder, space))
    for _ in range(3):
        blocks.append(_read_only(Builder(rng, inputs)))
        blocks.append(_copied(Builder(rng, inputs)))
    table = tuple(int(v) for v in rng.integers(0, 1 << 32, TABLE_WORDS))
    return Kernel(
        "memory", seed, input_columns(rng, names, rows), [r.width for r in inputs], list(names), blocks, blob=rng.bytes(OWN), table=table, memory=True
    )  # fmt: skip


class _Place:
    """A thread's own bytes in one space: how statements can name them."""

    def __init__(self, builder: Builder, space: str, shared: str = "%own") -> None:
        self.builder, self.space = builder, space
        self.base = {"local": "local", "shared": shared, "global": "%mem"}[space]
        generic = builder.fresh(64, "address")
        self.wide = space != "shared"
        if space == "shared":
            builder.emit(f"cvt.u64.u32 {generic.name}, {shared}; cvta.shared.u64 {generic.name}, {generic.name};")
        elif space == "local":
            pointer = builder.fresh(64, "address")
            builder.emit(f"mov.u64 {pointer.name}, local; cvta.local.u64 {generic.name}, {pointer.name};")
            self.pointer = pointer.name
        else:
            builder.emit(f"cvta.global.u64 {generic.name}, %mem;")
        self.generic = generic.name

    def address(self, size: int, space: str, constant: bool) -> str:
        """Somewhere in the bytes, aligned to ``size``."""
        builder = self.builder
        offset = size * int(builder.rng.integers(OWN // size))
        base = self.generic if space == "" else self.base
        if constant or builder.chance(0.6):
            return f"[{base}+{offset}]"
        wide = self.wide or space == ""
        index, at = builder.fresh(32, "index"), builder.fresh(64 if wide else 32, "address")
        word = builder.register(32, "u32")
        assert word is not None
        builder.emit(f"and.b32 {index.name}, {builder.typed(word, 'b32')}, {OWN // size - 1};")
        if base == "local":
            base = self.pointer
        add = "mad.wide.u32" if wide else "mad.lo.u32"
        builder.emit(f"{add} {at.name}, {index.name}, {size}, {base};")
        return f"[{at.name}]"


def _own_memory(builder: Builder, space: str) -> Block:
    place = _Place(builder, space)
    words = [r for r in builder.inputs if r.width == 64]
    for at in range(0, OWN, 16):
        builder.emit(f"st.{space}.v2.b64 [{place.base}+{at}], {{{builder.pick(words).name}, {builder.pick(words).name}}};")
    constant = builder.chance(0.5)
    for _ in range(int(builder.rng.integers(6, 15))):
        if builder.chance(0.5):
            _store(builder, place, constant)
        else:
            _load(builder, place, constant)
        if builder.chance(0.2):
            step(builder, "int32", builder.register(32))
    for _ in range(2):
        _load(builder, place, constant)
    outs = [
        r
        for r in builder.declared
        if builder.made_by.get(r.name, "").startswith("ld") or (r.name in builder.made_by and r.name not in builder.used)
    ]
    return builder.block(f"memory {space}", outs, ["shared" if space == "shared" else space])


_ACCESSES = [
    (vector, type)
    for type in ("b8", "b16", "b32", "b64", "b128", "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64")
    for vector in ("", "v2", "v4")
    if TYPES[type].bytes * int(vector[1:] or 1) <= 16
]


def _vector(builder: Builder) -> dict[str, str]:
    vector, type = builder.pick(_ACCESSES)
    return {"vec": vector, "type": type}


def _named(builder: Builder, space: str) -> str:
    return "" if builder.chance(0.25) else space


def _load(builder: Builder, place: _Place, constant: bool) -> None:
    space = _named(builder, place.space)
    form = spelling(
        builder,
        entry_of("ld"),
        **_PLAIN,
        space=space,
        **_vector(builder),
        **_order(builder, place.space, ("weak", "volatile", "relaxed", "acquire")),
    )
    type = TYPES[form.slots["type"]]
    count = int(form.slots["vec"][1:]) if form.slots["vec"] else 1
    width = _register(builder, type)
    outs = [builder.fresh(width, type.name) for _ in range(count)]
    names = ", ".join(o.name for o in outs)
    builder.emit(f"{form.opcode} {f'{{{names}}}' if count > 1 else names}, {place.address(type.bytes * count, space, constant)};")
    for out in outs:
        builder.made(out, "ld")


def _store(builder: Builder, place: _Place, constant: bool) -> None:
    space = _named(builder, place.space)
    form = spelling(
        builder,
        entry_of("st"),
        **_PLAIN,
        space=space,
        **_vector(builder),
        **_order(builder, place.space, ("weak", "volatile", "relaxed", "release")),
    )
    type = TYPES[form.slots["type"]]
    count = int(form.slots["vec"][1:]) if form.slots["vec"] else 1
    width = _register(builder, type) if count == 1 else max(type.width, 16)
    given = []
    for _ in range(count):
        if type.width == 128:
            pair = builder.fresh(128, "b128")
            low, high = (builder.register(64) for _ in range(2))
            assert low is not None and high is not None
            builder.emit(f"mov.b128 {pair.name}, {{{builder.typed(low, 'b64')}, {builder.typed(high, 'b64')}}};")
            given.append(pair.name)
            continue
        found = builder.register(width, type.name)
        assert found is not None
        given.append(builder.typed(found, type.name))
    text = ", ".join(given)
    builder.emit(f"{form.opcode} {place.address(type.bytes * count, space, constant)}, {f'{{{text}}}' if count > 1 else text};")


def _register(builder: Builder, type: Type) -> int:
    """The width of the register for an access: at least the access's; a float's own."""
    least = max(type.width, 16)
    wider = type.kind != "f" and least < 64 and builder.chance(0.4)
    return builder.pick([w for w in (16, 32, 64) if w >= least]) if wider else least


def _order(builder: Builder, space: str, orders: Sequence[str]) -> dict[str, str]:
    """Mostly no order; local memory has none."""
    if space == "local" or builder.chance(0.6):
        return {"sem": "", "scope": ""}
    word = builder.pick(orders)
    return {"sem": word, "scope": builder.pick(["cta", "gpu", "sys"]) if word in ("relaxed", "acquire", "release") else "", "cop": ""}


def _read_only(builder: Builder) -> Block:
    """Loads from the parameters and from a bank of constants."""
    for _ in range(8):
        type = TYPES[builder.pick(["b8", "u8", "s8", "u16", "s16", "b32", "s32", "u64", "f32", "f64"])]
        count = builder.pick([c for c in (1, 1, 2, 4) if c * type.bytes <= 16])
        width = _register(builder, type)
        out = [builder.fresh(width, type.name) for _ in range(count)]
        names = ", ".join(o.name for o in out)
        target = f"{{{names}}}" if count > 1 else names
        vector = f".v{count}" if count > 1 else ""
        size = type.bytes * count
        if builder.chance(0.5):
            builder.emit(f"ld.param{vector}.{type.name} {target}, [blob+{size * int(builder.rng.integers(OWN // size))}];")
        else:
            word, at = builder.register(32, "u32"), builder.fresh(64, "address")
            index = builder.fresh(32, "index")
            assert word is not None
            entries = TABLE_WORDS * 4 // size
            builder.emit(
                f"and.b32 {index.name}, {builder.typed(word, 'b32')}, {entries - 1}; mov.u64 {at.name}, table; mad.wide.u32 {at.name}, {index.name}, {size}, {at.name};"
            )
            builder.emit(f"ld.const{vector}.{type.name} {target}, [{at.name}];")
        for o in out:
            builder.made(o, "ld")
    return builder.block("memory param const", [r for r in builder.declared if r.name in builder.made_by])


def _copied(builder: Builder) -> Block:
    """Asynchronous copies of inputs, or of parts of them, over a thread's own bytes."""
    words = [r for r in builder.inputs if r.width == 64]
    for at in range(0, OWN, 16):
        builder.emit(f"st.shared.v2.b64 [%own+{at}], {{{builder.pick(words).name}, {builder.pick(words).name}}};")
    for _ in range(int(builder.rng.integers(3, 8))):
        size = builder.pick([4, 8])
        space = builder.pick(["shared", "shared::cta"])
        part = ""
        if builder.chance(0.4):
            length = builder.fresh(32, "u32")
            word = builder.register(32, "u32")
            assert word is not None
            builder.emit(f"rem.u32 {length.name}, {builder.typed(word, 'b32')}, {size + 1};")
            part = f", {length.name}"
        elif builder.chance(0.4):
            part = f", {builder.pick([r for r in builder.inputs if r.width == 1]).name}"
        at = size * int(builder.rng.integers(OWN // size))
        builder.emit(f"cp.async.ca.{space}.global [%own+{at}], [%in+{size * int(builder.rng.integers(8 // size))}], {size}{part};")
        builder.emit("cp.async.wait_all;")
    outs = [builder.fresh(64, "b64") for _ in range(OWN // 8)]
    for i, out in enumerate(outs):
        builder.emit(f"ld.shared.b64 {out.name}, [%own+{8 * i}];")
        builder.made(out, "cp")
    return builder.block("memory copied", outs, ["shared"])


# -- atomics ----------------------------------------------------------------------------------------------------------
def _atomic_entries(root: str) -> list[Entry]:
    return [e for e in ENTRIES[root] if e.family == "atomic" and e.meaning is not None and e.sm <= 90 and e.since <= VERSION]


def atomics_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Atomics on cells of a thread's own, old values looked at; and sums that a block makes together, whatever the order."""
    rng = np.random.default_rng(seed)
    names = ("b64", "u32", "f32", "f64", "f16x2", "bf16x2", "f16", "bf16", "u16", "f64", "f64")
    inputs = inputs_of(names)
    columns = input_columns(rng, names, rows)
    columns[-2:] = operands(rng, ["f64", "f64"], rows)
    # Sums in shared memory are made by the processor, in an order that its compiler chooses: which of two NaNs comes out is seen in global memory alone.
    blocks = [_own_cells(Builder(rng, inputs[:-2]), "shared") for _ in range(2)] + [
        _own_cells(Builder(rng, inputs), "global") for _ in range(4)
    ]
    blocks += [_together(Builder(rng, inputs)) for _ in range(2)]
    return Kernel("atomics", seed, columns, [r.width for r in inputs], list(names), blocks, memory=True)


def _own_cells(builder: Builder, space: str) -> Block:
    place = _Place(builder, space)
    for at in range(0, OWN, 8):
        word = builder.register(64)
        assert word is not None
        builder.emit(f"st.{space}.b64 [{place.base}+{at}], {word.name};")
    for _ in range(int(builder.rng.integers(4, 9))):
        root = builder.pick(["atom", "atom", "atom", "red"])
        entry = builder.pick(_atomic_entries(root))
        vector = any(s.name == "vec" for s in entry.slots)
        if vector and space != "global":
            continue
        named = builder.pick(["", space]) if space != "shared" else builder.pick(["", "shared", "shared::cta"])
        order = {} if builder.chance(0.5) else {"sem": "", "scope": ""}
        form = spelling(builder, entry, hint="", space=named, **order)
        if bool(form.slots.get("sem")) != bool(form.slots.get("scope")) and form.slots.get("sem"):
            continue
        _atomic(builder, place, form, named)
    for at in range(0, OWN, 8):
        out = builder.fresh(64, "b64")
        builder.emit(f"ld.{space}.b64 {out.name}, [{place.base}+{at}];")
        builder.made(out, "atom")
    outs = [r for r in builder.declared if r.name in builder.made_by]
    return builder.block(f"atomics {space}", outs, [space])


def _atomic(builder: Builder, place: _Place, form: Form, space: str) -> None:
    roles = [r for r in form.roles if r.kind in ("in", "out") and not r.optional]
    type = type_of(roles[-1])
    count = roles[-1].count
    outs = [builder.fresh(register_width(type), type.name) for _ in range(count)] if roles[0].kind == "out" else []
    given = []
    for role in (r for r in roles if r.kind == "in"):
        names = []
        for _ in range(role.count):
            if type.width == 128:
                pair = builder.fresh(128, "b128")
                low, high = (builder.register(64) for _ in range(2))
                assert low is not None and high is not None
                builder.emit(f"mov.b128 {pair.name}, {{{builder.typed(low, 'b64')}, {builder.typed(high, 'b64')}}};")
                names.append(pair.name)
            elif type.kind in "us" and builder.chance(0.2):
                names.append(str(integer(builder.rng, min(type.width, 31) - 1)))
            else:
                found = builder.register(register_width(type), type.name)
                assert found is not None
                names.append(builder.typed(found, type.name))
        given.append(f"{{{', '.join(names)}}}" if role.count > 1 else names[0])
    target = ", ".join(o.name for o in outs)
    target = f"{{{target}}}" if count > 1 else target
    address = place.address(type.bytes * count, space, constant=True)
    builder.emit(f"{form.opcode} {', '.join([*([target] if outs else []), address, *given])};")
    for out in outs:
        builder.made(out, "atom")


def _together(builder: Builder) -> Block:
    """Integer reductions of a whole block into 16 cells of shared memory, which give the same whatever comes first."""
    op = builder.pick(
        ["add.u32", "add.s32", "add.u64", "and.b32", "or.b32", "xor.b64", "min.s32", "max.u64", "min.s64", "inc.u32", "dec.u32"]
    )
    width = int(op[-2:])
    cell, at, word = builder.fresh(32, "index"), builder.fresh(32, "address"), builder.register(32, "u32")
    assert word is not None
    start = -1 if op.startswith(("and", "min.u", "dec")) else 0
    value = builder.register(width, "")
    assert value is not None
    given = "100" if op.startswith(("inc", "dec")) else builder.typed(value, f"b{width}")
    zero = builder.fresh(32, "index")
    builder.emit(
        f"mov.u32 {zero.name}, %tid.x; and.b32 {zero.name}, {zero.name}, 15; mov.u32 {at.name}, common; mad.lo.u32 {at.name}, {zero.name}, 8, {at.name};"
    )
    builder.emit(f"bar.sync 0; st.shared.b64 [{at.name}], {0 if op.startswith('dec') else start}; bar.sync 0;")
    builder.emit(
        f"shr.u32 {cell.name}, {builder.typed(word, 'b32')}, {int(builder.rng.integers(20))}; and.b32 {cell.name}, {cell.name}, {builder.pick([0, 1, 7, 15])};"
    )
    builder.emit(f"mov.u32 {at.name}, common; mad.lo.u32 {at.name}, {cell.name}, 8, {at.name};")
    if builder.chance(0.5):
        builder.emit(f"red.shared.{op} [{at.name}], {given};")
    else:
        old = builder.fresh(width, "b64")
        builder.emit(f"atom.shared.{op} {old.name}, [{at.name}], {given};")
    out = builder.fresh(64, "b64")
    builder.emit(f"bar.sync 0; ld.shared.b64 {out.name}, [{at.name}]; bar.sync 0;")
    return builder.block("atomics together", [builder.made(out, "red")], ["common"])
