"""Random code over memory and in the tensor cores: loads and stores of odd widths, atomics, matrices through shared memory, textures, products.

Invariant: every byte that is read was written before, or lies in what the launch brought; no two threads race for what is compared.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from benchmarks.example_cases import forms
from benchmarks.fuzz_kernels import OWN, TABLE_WORDS, Block, Builder, Kernel, Reg, integer, statement
from benchmarks.fuzz_programs import FULL, input_columns, inputs_of, register_width, step, type_of
from benchmarks.fuzz_values import fragments, operands
from ptxgraft.isa import ENTRIES, TYPES, Entry, Form, Type, form_of
from ptxgraft.isa.fragments import Sparsity
from ptxgraft.run import Texture

ORDERED, DISTINCT = (4, 8, 9, 12, 13, 14), tuple(i for i in range(16) if i & 3 != i >> 2)
"""Metadata nibbles of sparse products: indices that rise, and that differ."""


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


def _entry(root: str, start: str = "") -> Entry:
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
        _entry("ld"),
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
        _entry("st"),
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


# -- atomics ----------------------------------------------------------------------------------------------------------
def _atomic_entries(root: str) -> list[Entry]:
    return [e for e in ENTRIES[root] if e.meaning is not None and e.sm <= 90]


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


# -- matrices through shared memory -----------------------------------------------------------------------------------
def matrix_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """ldmatrix, stmatrix, movmatrix and the loads and stores of wmma, on a tile of shared memory for each warp."""
    rng = np.random.default_rng(seed)
    names = ("b32", "b32", "b32", "b32", "b64", "b64", "u32")
    inputs = inputs_of(names)
    wmma = [
        e
        for root in ENTRIES.values()
        for e in root
        if e.root == "wmma" and (e.loads or e.stores) and e.sm <= 90 and ".aligned" in e.spelling
    ]
    blocks = []
    for _ in range(10):
        builder = Builder(rng, inputs)
        at = builder.fresh(32, "address")
        words = [builder.pick([r for r in inputs if r.width == 32]).name for _ in range(8)]
        builder.emit(f"bar.warp.sync {FULL}; mad.lo.u32 {at.name}, %lane, 32, %tile;")
        builder.emit(
            f"st.shared.v4.b32 [{at.name}], {{{', '.join(words[:4])}}}; st.shared.v4.b32 [{at.name}+16], {{{', '.join(words[4:])}}};"
        )
        builder.emit(f"bar.warp.sync {FULL};")
        kind = builder.pick(["ldmatrix", "ldmatrix", "stmatrix", "wmma", "wmma"])
        if kind == "wmma":
            _wmma_move(builder, builder.pick(wmma), at)
        else:
            _matrix_move(builder, kind, at)
        outs = [r for r in builder.declared if r.name in builder.made_by]
        blocks.append(builder.block(f"matrix {kind}", outs, ["tile"]))
    return Kernel("matrix", seed, input_columns(rng, names, rows), [r.width for r in inputs], list(names), blocks)


def _matrix_move(builder: Builder, kind: str, at: Reg) -> None:
    form = spelling(builder, _entry(kind, f"{kind}.sync.aligned.m8n8"))
    count = int(form.slots["num"][1:])
    row, address = builder.fresh(32, "index"), builder.fresh(32, "address")
    if kind == "ldmatrix" and builder.chance(0.6):
        builder.emit(f"and.b32 {row.name}, {builder.pick([r for r in builder.inputs if r.width == 32]).name}, 63;")
    else:
        builder.emit(f"xor.b32 {row.name}, %lane, {int(builder.rng.integers(64))};")
    builder.emit(f"mad.lo.u32 {address.name}, {row.name}, 16, %tile;")
    if not form.slots["space"]:
        generic = builder.fresh(64, "address")
        builder.emit(f"cvt.u64.u32 {generic.name}, {address.name}; cvta.shared.u64 {generic.name}, {generic.name};")
        address = generic
    if kind == "ldmatrix":
        outs = [builder.fresh(32, "b32") for _ in range(count)]
        builder.emit(f"{form.opcode} {{{', '.join(o.name for o in outs)}}}, [{address.name}];")
        for out in outs:
            builder.made(out, "ldmatrix")
        moved = builder.fresh(32, "b32")
        builder.emit(f"movmatrix.sync.aligned.m8n8.trans.b16 {moved.name}, {outs[-1].name};")
        builder.made(moved, "movmatrix")
        return
    given = [builder.pick([r for r in builder.inputs if r.width == 32]).name for _ in range(count)]
    builder.emit(f"{form.opcode} [{address.name}], {{{', '.join(given)}}}; bar.warp.sync {FULL};")
    _read_back(builder, at, "stmatrix")


def _read_back(builder: Builder, at: Reg, root: str) -> None:
    outs = [builder.fresh(64, "b64") for _ in range(4)]
    for i in (0, 2):
        builder.emit(f"ld.shared.v2.b64 {{{outs[i].name}, {outs[i + 1].name}}}, [{at.name}+{8 * i}];")
    for out in outs:
        builder.made(out, root)


def _wmma_move(builder: Builder, entry: Entry, at: Reg) -> None:
    form = spelling(builder, entry, space="shared")
    fragment = next(r for r in form.roles if r.name == "d")
    width = type_of(fragment).width
    if form.loads:
        outs = [builder.fresh(width, "b32") for _ in range(fragment.count)]
        builder.emit(f"{form.opcode} {{{', '.join(o.name for o in outs)}}}, [%tile];")
        for out in outs:
            builder.made(out, "wmma.load")
        return
    given = [builder.pick([r for r in builder.inputs if r.width == width]).name for _ in range(fragment.count)]
    builder.emit(f"{form.opcode} [%tile], {{{', '.join(given)}}}; bar.warp.sync {FULL};")
    _read_back(builder, at, "wmma.store")


# -- textures ---------------------------------------------------------------------------------------------------------
def texture_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Fetches from one texture at coordinates in it, around it, at its texels' edges, and anywhere."""
    rng = np.random.default_rng(seed)
    texture = _texture(rng)
    sizes = [*texture.array.shape[-2::-1]]
    columns = np.zeros((6, rows), np.uint64)
    for i in range(3):
        size = sizes[i] if i < len(sizes) else 1
        at = rng.uniform(-1.5, 2.5, rows) * size
        grid = np.round(at * 256) / 256 if rng.random() < 0.5 else np.round(at * 2) / 2
        at = np.where(rng.random(rows) < 0.5, grid, at) / (size if texture.normalized else 1)
        bits = at.astype(np.float32).view(np.uint32).astype(np.uint64)
        bits = bits + np.where(rng.random(rows) < 0.2, rng.integers(-2, 3, rows), 0).astype(np.uint64)
        odd = input_columns(rng, ["f32"], rows)[0]
        columns[i] = np.where(rng.random(rows) < 0.04, odd, bits) & np.uint64(0xFFFFFFFF)
        columns[3 + i] = rng.integers(-2, size + 2, rows).astype(np.uint64) & np.uint64(0xFFFFFFFF)
    inputs = inputs_of(["f32"] * 3 + ["s32"] * 3)
    geometry = f"{len(sizes)}d"
    dtypes = ["s32", "u32"] if texture.reads_integers else ["f32"]
    blocks = []
    # Integer coordinates on a line read a buffer, not an array (CUDA programming guide, tex1Dfetch): an array gives zeros.
    for dtype, ctype in itertools.product(dtypes, ("f32", "s32") if len(sizes) > 1 else ("f32",)):
        builder = Builder(rng, inputs)
        outs = [builder.fresh(32, dtype) for _ in range(4)]
        at = [r.name for r in (inputs[:3] if ctype == "f32" else inputs[3:])]
        coordinates = {"1d": at[:1], "2d": at[:2], "3d": [*at, at[0]]}[geometry]
        opcode = f"tex.{geometry}.v4.{dtype}.{ctype}"
        builder.emit(f"{opcode} {{{', '.join(o.name for o in outs)}}}, [%image, {{{', '.join(coordinates)}}}];")
        for out in outs:
            builder.made(out, "tex")
        blocks.append(builder.block(f"{opcode} {texture.filter} {texture.array.dtype}", outs))
    return Kernel("texture", seed, columns, [32] * 6, ["f32"] * 3 + ["s32"] * 3, blocks, texture=texture)


def _texture(rng: np.random.Generator) -> Texture:
    dtype = np.dtype(["f4", "f4", "f2", "u1", "i1", "u2", "i2", "u4", "i4"][int(rng.integers(9))])
    shape = [int(rng.integers(1, 14)) for _ in range(int(rng.integers(1, 4)))]
    shape.append(int(rng.choice([1, 2, 4])))
    if dtype.kind == "f":
        texels = (rng.standard_normal(shape) * 2.0 ** rng.integers(-12, 12, shape)).astype(dtype)
        if rng.random() < 0.3:
            texels = np.abs(texels)
    else:
        limits = np.iinfo(dtype)
        texels = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    integers = dtype.kind != "f" and (dtype.itemsize == 4 or bool(rng.random() < 0.3))
    normalized = bool(rng.random() < 0.5)
    modes = ("wrap", "clamp", "mirror", "border") if normalized else ("clamp", "border")
    address = tuple(modes[int(rng.integers(len(modes)))] for _ in range(3))
    return Texture(
        texels, None, "point" if integers or rng.random() < 0.4 else "linear", address, normalized, integers and dtype.itemsize < 4
    )


# -- tensor cores -----------------------------------------------------------------------------------------------------
@cache
def tensor_forms() -> list[Form]:
    """All products: dense, sparse, wmma."""
    found = [f for f in forms() if f.tensor]
    for entry in ENTRIES["mma"]:
        if entry.meaning is not None and entry.sm <= 90 and ".sp" in entry.spelling:
            choices = [(*s.choices, "") if s.optional else s.choices for s in entry.slots]
            for words in itertools.product(*choices):
                slots = {s.name: w for s, w in zip(entry.slots, words, strict=True) if s.name}
                if entry.legal is None or entry.legal(**slots):
                    form = form_of(".".join(w for w in words if w))
                    assert form is not None
                    found.append(form)
    return found


@cache
def tensor_groups(size: int = 6) -> list[list[Form]]:
    """All products in groups that share their operands."""
    groups: dict[tuple, list[Form]] = defaultdict(list)
    for form in tensor_forms():
        groups[_elements(form), _counts(form), ".sp." in form.opcode].append(form)
    return [found[i : i + size] for found in groups.values() for i in range(0, len(found), size)]


def _elements(form: Form) -> tuple[str, str, str]:
    words = [w for w in form.opcode.split(".") if w in TYPES]
    a, b = words[1:3] if len(words) == 4 else ("f16", "f16")
    return a, b, words[-1]


def _counts(form: Form) -> tuple[int, ...]:
    return tuple(r.count for r in form.roles if r.name in "abc")


def tensor_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Products, and products of products: D as the next C, A and B exchanged where they are alike."""
    rng = np.random.default_rng(seed)
    groups = tensor_groups()
    group = groups[seed[-1] % len(groups)]
    counts, elements = _counts(group[0]), _elements(group[0])
    parts, names = [], []
    for name, count, element in zip("abc", counts, elements, strict=True):
        width = next(type_of(r).width for r in group[0].roles if r.name == name)
        parts.append(fragments(rng, element, width, count, rows))
        names += [f"b{width}"] * count
    nibbles = DISTINCT if ".sp." in group[0].opcode else ORDERED
    if ".sp" in group[0].opcode:
        chosen = np.array(nibbles, np.uint64)[rng.integers(0, len(nibbles), (8, rows))]
        if "tf32" in elements:
            chosen = np.array((4, 14), np.uint64)[rng.integers(0, 2, (8, rows))]
        parts.append(np.bitwise_or.reduce(chosen << (4 * np.arange(8, dtype=np.uint64))[:, None], axis=0)[None])
        names.append("b32")
    inputs = inputs_of(names)
    blocks = [_product(Builder(rng, inputs), form, counts) for form in group]
    return Kernel("tensor", seed, np.concatenate(parts), [r.width for r in inputs], names, blocks)


def _product(builder: Builder, form: Form, counts: tuple[int, ...]) -> Block:
    at = np.cumsum([0, *counts])
    a, b, c = ([r.name for r in builder.inputs[at[i] : at[i + 1]]] for i in range(3))
    result = next(r for r in form.roles if r.kind == "out")
    outs: list[Reg] = []
    for turn in range(int(builder.rng.integers(1, 3))):
        if turn and (type_of(result), result.count) != next((type_of(r), r.count) for r in form.roles if r.name == "c"):
            break
        if turn:
            c = [o.name for o in outs]
            a, b = (b, a) if len(a) == len(b) and _elements(form)[0] == _elements(form)[1] and builder.chance(0.5) else (a, b)
        outs = [builder.fresh(type_of(result).width, type_of(result).name) for _ in range(result.count)]
        more = [builder.inputs[-1].name, str(int(builder.rng.integers(_selectors(form))))] if ".sp" in form.opcode else []
        builder.emit(statement(form, outs, [*a, *b, *c, *more]))
    for out in outs:
        builder.made(out, form.root)
    return builder.block(form.opcode, outs)


def _selectors(form: Form) -> int:
    shape = next(w for w in form.opcode.split(".") if w[0] == "m" and w[1:2].isdigit())
    return Sparsity.of(shape, _elements(form)[0]).selectors
