"""Random code around the tensor cores and the texture unit: matrices through shared memory, fetches, products of every shape and type.

Invariant: a warp has a tile of shared memory of its own; operands of a product follow from the kernel's seed, one style of numbers a warp.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from functools import cache

import numpy as np

from benchmarks.example_cases import forms
from benchmarks.fuzz_kernels import Block, Builder, Kernel, Reg, statement
from benchmarks.fuzz_memory import entry_of, spelling
from benchmarks.fuzz_programs import FULL, input_columns, inputs_of, type_of
from benchmarks.fuzz_values import fragments
from ptxgraft.isa import ENTRIES, TYPES, Entry, Form, form_of
from ptxgraft.isa.fragments import Sparsity
from ptxgraft.run import Texture

ORDERED, DISTINCT = (4, 8, 9, 12, 13, 14), tuple(i for i in range(16) if i & 3 != i >> 2)
"""Metadata nibbles of sparse products: indices that rise, and that differ."""


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
    form = spelling(builder, entry_of(kind, f"{kind}.sync.aligned.m8n8"))
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
    found = [f for f in forms() if f.tensor and "aligned" in f.opcode.split(".")]
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
