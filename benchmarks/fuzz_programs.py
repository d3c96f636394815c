"""Random code of one lane that computes from registers: single instructions, chains, constants to fold, carries.

Invariant: whatever is written here has one result by the manual: no contraction without a rounding modifier, no choice among NaNs.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cache

import numpy as np

from benchmarks.example_cases import IMMEDIATE, TABLES, forms
from benchmarks.fuzz_kernels import Block, Builder, Kernel, Reg, integer, literal, statement
from benchmarks.fuzz_values import operands
from ptxgraft.isa import Form, Role, Type, form_of
from ptxgraft.isa.table import takes_part, with_parts

FLOATING = frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "f64"})
ROUNDINGS = frozenset({"rn", "rz", "rm", "rp"})
LEFT_OPEN = frozenset({"elect", "stacksave", "stackrestore"})
"""Roots whose results the manual leaves to the machine."""
FULL = "0xffffffff"
VERSION = (8, 8)
"""The PTX version that kernels declare."""

THEMES: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "int32": (frozenset({"u32", "s32", "b32"}), frozenset({"u32", "s32", "b32", "pred", "u16x2", "s16x2"})),
    "int64": (frozenset({"u64", "s64", "b64"}), frozenset({"u64", "s64", "b64", "u32", "s32", "b32", "pred"})),
    "int16": (frozenset({"u16", "s16", "b16", "u8", "s8", "u16x2", "s16x2"}), frozenset({"u16", "s16", "b16", "u8", "s8", "u32", "s32", "b32", "pred", "u16x2", "s16x2"})),
    "f32": (frozenset({"f32"}), frozenset({"f32", "pred", "u32", "s32", "b32"})),
    "f64": (frozenset({"f64"}), frozenset({"f64", "pred", "f32", "u32", "s32", "u64", "s64", "b64"})),
    "half": (frozenset({"f16", "f16x2", "bf16", "bf16x2"}), frozenset({"f16", "f16x2", "bf16", "bf16x2", "f32", "pred", "b16", "b32", "u16", "s16"})),
    "any": (frozenset(), frozenset()),
}  # fmt: skip
"""Kinds of chains: types of which an instruction has one, and types that it may have (none: all)."""
_WEIGHTS = {
    "set": 1,
    "setp": 2,
    "testp": 1,
    "fns": 1,
    "mov": 1,
    "fma": 8,
    "add": 6,
    "sub": 5,
    "mul": 6,
    "mad": 6,
    "cvt": 5,
    "lop3": 5,
    "shf": 4,
    "prmt": 4,
}
COLUMNS = {
    "int32": ("s32", "u32", "b32", "s32", "pred"),
    "int64": ("s64", "u64", "b64", "u32", "pred"),
    "int16": ("s16", "u16", "u16x2", "u32", "pred"),
    "f32": ("f32", "f32", "f32", "s32", "pred"),
    "f64": ("f64", "f64", "f64", "f32", "pred"),
    "half": ("f16x2", "f16x2", "bf16x2", "f16", "bf16", "f32", "pred"),
    "any": ("f32", "f64", "u32", "s64", "f16x2", "f16", "u16", "pred"),
}


@cache
def plain_forms() -> list[Form]:
    """Forms of one lane, from registers to registers, as targets of today take them."""
    return [
        f
        for first in forms()
        for f in (first, *(other for other in first.others if other.entry.parts))
        if not f.convergent
        and f.root not in LEFT_OPEN | {"vote"}
        and not any(r.implicit for r in f.roles)
        and not _old(f)
        and not _emulated(f)
        and f.since <= VERSION
    ]


_PARTS = ("b0", "b1", "b2", "b3", "h0", "h1")
_SCALAR_VIDEO = ("vadd", "vsub", "vabsdiff", "vmin", "vmax", "vset", "vshl", "vshr", "vmad")


def _emulated(form: Form) -> bool:
    """Is it a scalar video instruction that ptxas does not expand by the manual? (docs/compiler-findings.md)"""
    words = form.opcode.split(".")
    if form.root not in _SCALAR_VIDEO:
        return False
    if form.root == "vmad":
        return words[2:4] != ["s32", "s32"]
    if "sat" in words and ("add" in words or (form.root in ("vadd", "vsub", "vabsdiff") and words[1] == "u32")):
        return True
    return bool({"min", "max"} & set(words))


def with_random_parts(builder: Builder, form: Form) -> Form:
    """Parts of registers as operands where the form takes them, in half of the places; none that ptxas takes otherwise than the manual."""
    parts: dict[str, str] = {}
    for role in form.entry.parts:
        if builder.chance(0.5):
            continue
        letter, count = ("h", 2) if form.root.endswith("2") else ("b", 4)
        if form.root in _SCALAR_VIDEO:
            part = builder.pick(("", *_PARTS)) if role != "c" else ""
            if role == "d" and ("sat" in form.slots.values() or part == "h1"):
                continue
            part = "-" + part if takes_part(form, role, "-" + part) and not parts and builder.chance(0.2) else part
        elif role == "d":
            part = letter + "".join(str(i) for i in reversed(range(count)) if builder.chance(0.6))
        else:
            part = letter + "".join(str(int(builder.rng.integers(2 * count))) for _ in range(count))
        if part not in ("", "h", "b") and takes_part(form, role, part):
            parts[role] = part
    return with_parts(form, parts) if parts else form


def _old(form: Form) -> bool:
    """Targets before sm_20 had these without saying how they round."""
    words = set(form.opcode.split("."))
    unsaid = form.root in ("rcp", "rsqrt", "sqrt", "lg2", "ex2", "sin", "cos", "div", "mad", "fma") and bool(words & FLOATING)
    return unsaid and not words & (ROUNDINGS | {"approx", "full"})


@cache
def warp_forms() -> list[Form]:
    """Forms that read other lanes and have a member mask."""
    return [f for f in forms() if f.convergent and f.root not in LEFT_OPEN and any(r.name == "membermask" for r in f.roles)]


def type_of(role: Role) -> Type:
    assert role.type is not None
    return role.type


def contracts(form: Form) -> bool:
    """May a compiler fuse it with its neighbours? (A float sum or product without a rounding modifier.)"""
    words = set(form.opcode.split("."))
    return form.root in ("add", "sub", "mul", "mad", "fma") and bool(words & FLOATING) and not words & ROUNDINGS


def miscompiled(form: Form) -> bool:
    """Does ptxas take it wrongly among other instructions? (docs/compiler-findings.md; each of these is right alone, and is compared alone.)"""
    words = set(form.opcode.split("."))
    if (form.root == "abs" and words & {"s16", "s32", "s64"}) or form.opcode == "neg.s16":
        return True
    return "xorsign" in words or form.opcode == "mad.hi.sat.s32"


def changes_sign_of_nan(form: Form) -> bool:
    """Does it make one NaN of f64 from another? Which of two NaNs comes out of a sum depends on the order a compiler chooses."""
    return form.root in ("neg", "abs", "copysign") and "f64" in form.opcode.split(".")


FOLDED = ("sin", "cos", "ex2", "lg2", "rsqrt", "rcp")
"""Approximations that ptxas computes itself, and better, when the operand is a literal."""
UNGUARDED = ("set", "testp")
"""Roots of which ptxas writes a part without the guard."""


@cache
def theme_forms(theme: str) -> dict[str, list[Form]]:
    """The forms of a theme by root."""
    wanted, allowed = THEMES[theme]
    found: dict[str, list[Form]] = defaultdict(list)
    for form in plain_forms():
        types = {type_of(r).name for r in form.roles}
        exact = form.root == "cvt" and "bf16" in form.opcode.split(".")
        narrow = any(type_of(r).width == 8 for r in form.roles)
        if (
            contracts(form)
            or miscompiled(form)
            or changes_sign_of_nan(form)
            or any(r.count > 1 or type_of(r).width == 128 for r in form.roles)
            or (exact and narrow)
        ):
            continue
        if (not wanted or types & wanted) and (not allowed or types <= allowed):
            found[form.root].append(form)
    return dict(found)


def register_width(type: Type) -> int:
    return 16 if type.width == 8 else type.width


def inputs_of(names: tuple[str, ...] | list[str]) -> list[Reg]:
    """The kernel's input registers for columns of these types."""
    return [Reg(f"%i{i}", register_width(_type(name)), name) for i, name in enumerate(names)]


def _type(name: str) -> Type:
    from ptxgraft.isa import TYPES

    return TYPES[name]


def one_nan(bits: np.ndarray) -> np.ndarray:
    """f64 bits with every NaN made the one that the hardware makes."""
    return np.where((bits & np.uint64(~(1 << 63) & (1 << 64) - 1)) > np.uint64(0x7FF << 52), np.uint64(0xFFF8 << 48), bits)


def input_columns(rng: np.random.Generator, names: tuple[str, ...] | list[str], rows: int) -> np.ndarray:
    """Their bits: columns of one type are related to one another. There is one NaN of f64 alone."""
    made = np.zeros((len(names), rows), np.uint64)
    for name in dict.fromkeys(names):
        places = [i for i, n in enumerate(names) if n == name]
        column = operands(rng, [name] * len(places), rows)
        made[places] = one_nan(column) if name == "f64" else column
    return made


# -- single instructions ----------------------------------------------------------------------------------------------
def signature(form: Form) -> tuple[str, ...]:
    """The types of a form's inputs, those of equal meaning made equal."""
    names = [type_of(r).name for r in form.roles if r.kind == "in" and r.name != IMMEDIATE for _ in range(r.count)]
    return tuple(n.replace("b", "u") if n in ("b8", "b16", "b32", "b64") else n for n in names)


@cache
def form_groups(size: int = 16) -> list[list[Form]]:
    """All plain forms in groups that share their inputs."""
    groups: dict[tuple[str, ...], list[Form]] = defaultdict(list)
    for form in plain_forms():
        if all(type_of(r).width <= 64 for r in form.roles) and not _byte_registers(form):
            groups[signature(form)].append(form)
    return [found[i : i + size] for found in groups.values() for i in range(0, len(found), size)]


def _byte_registers(form: Form) -> bool:
    return form.root == "cvt" and "bf16" in form.opcode.split(".") and any(type_of(r).width == 8 for r in form.roles)


def forms_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Single instructions: a group of forms on the same operands. From the second time round some operands are literals, or one register twice."""
    rng = np.random.default_rng(seed)
    groups = form_groups()
    number, turn = seed[-1] % len(groups), seed[-1] // len(groups)
    group = groups[number]
    names = list(signature(group[0]))
    inputs = inputs_of(names)
    columns = operands(rng, names, rows)
    for i, name in enumerate(names):  # what lies above a value in a wider register is noise
        if _type(name).width == 8:
            columns[i] |= rng.integers(0, 256, rows, dtype=np.uint64) << np.uint64(8)
    blocks = [_single(rng, form, inputs, turn > 0) for form in group]
    return Kernel("forms", seed, columns, [r.width for r in inputs], names, blocks)


def _single(rng: np.random.Generator, form: Form, inputs: list[Reg], vary: bool) -> Block:
    builder = Builder(rng, inputs)
    form = with_random_parts(builder, form)
    given: list[str | None] = []
    places = iter(inputs)
    for role in form.roles:
        if role.kind != "in" or role.name == IMMEDIATE:
            continue
        taken = [next(places) for _ in range(role.count)]
        texts: list[str | None] = [builder.use(r) for r in taken]
        if role.optional and builder.chance(0.5):
            texts = [None] * role.count
        elif vary and role.count == 1 and builder.chance(0.2):
            texts = [_literal(rng, form, role) or texts[0]]
        elif vary and role.count == 1 and builder.chance(0.1):
            texts = [builder.pick([r.name for r in inputs if r.declared == taken[0].declared])]
        given += texts
    outs = [builder.fresh(_out_width(builder, form, r), type_of(r).name) for r in form.roles if r.kind == "out" for _ in range(r.count)]
    builder.emit(statement(form, outs, given, _table(rng, form)))
    for out in outs:
        builder.made(out, form.root)
    return builder.block(form.opcode, outs)


def _out_width(builder: Builder, form: Form, role: Role) -> int:
    """A conversion to an integer may have a wider register."""
    type = type_of(role)
    wide = form.root == "cvt" and type.kind in "us" and type.width < 32 and "bf16" not in form.opcode.split(".")
    return 32 if wide and builder.chance(0.4) else register_width(type)


def _table(rng: np.random.Generator, form: Form) -> int | None:
    if not any(r.name == IMMEDIATE for r in form.roles):
        return None
    return int(rng.integers(256)) if rng.random() < 0.7 else int(TABLES[int(rng.integers(len(TABLES)))])


def _bits(rng: np.random.Generator, type: Type) -> int:
    if type.kind in "bus":
        return integer(rng, type.width)
    return int(operands(rng, [type.name], 1)[0, 0])


def _literal(rng: np.random.Generator, form: Form, role: Role, bits: int | None = None) -> str | None:
    """A literal for an operand: these bits, or some. Positions and lengths of fields fit a byte, or ptxas refuses them."""
    type = type_of(role)
    if form.root in ("bfe", "bfi") and type.name == "u32" and role.name in "bcd":
        return str(int(rng.integers(256)))
    if form.root in FOLDED or form.family == "video_simd":  # ptxas takes no literals there
        return None
    if form.root in ("shl", "shr") and role.name == "b":
        return str(integer(rng, 16))  # ptxas cuts what a 16-bit shift shifts by
    bits = _bits(rng, type) if bits is None else bits
    return literal(rng, type, int(one_nan(np.array([bits], np.uint64))[0]) if type.name == "f64" else bits)


def fold_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Instructions on nothing but literals, which a compiler computes itself."""
    rng = np.random.default_rng(seed)
    inputs = inputs_of(["pred", "pred"])
    able = [
        f
        for f in plain_forms()
        if all(r.kind != "in" or r.name == IMMEDIATE or type_of(r).name == "pred" or literal(rng, type_of(r), 0) for r in f.roles)
    ]
    by_root: dict[str, list[Form]] = defaultdict(list)
    for form in able:
        fits = all(type_of(r).width <= 64 and r.count == 1 for r in form.roles) and not _byte_registers(form)
        if fits and form.root not in FOLDED and form.family != "video_simd" and not changes_sign_of_nan(form):
            by_root[form.root].append(form)
    roots = sorted(by_root)
    blocks = []
    for _ in range(96):
        builder = Builder(rng, inputs)
        form = builder.pick(by_root[builder.pick(roots)])
        roles = [r for r in form.roles if r.kind == "in" and r.name != IMMEDIATE]
        columns = operands(rng, [type_of(r).name for r in roles], 8)
        given = [_literal(rng, form, r, int(columns[i, 7])) or builder.pick(inputs).name for i, r in enumerate(roles)]
        outs = [builder.fresh(register_width(type_of(r)), type_of(r).name) for r in form.roles if r.kind == "out"]
        builder.emit(statement(form, outs, given, _table(rng, form)))
        for out in outs:
            builder.made(out, form.root)
        blocks.append(builder.block(form.opcode, outs))
    return Kernel("fold", seed, input_columns(rng, ["pred", "pred"], rows), [1, 1], ["pred", "pred"], blocks)


# -- chains -----------------------------------------------------------------------------------------------------------
def step(builder: Builder, theme: str, last: Reg | None, guards: float = 0.12) -> Reg | None:
    """One random instruction that reads ``last`` if it can; its (first) result."""
    table = theme_forms(theme)
    roots = sorted(table)
    weights = np.array([_WEIGHTS.get(r, 2) for r in roots], float)
    for _ in range(12):
        form = with_random_parts(builder, builder.pick(table[roots[int(builder.rng.choice(len(roots), p=weights / weights.sum()))]]))
        found = _apply(builder, form, last, guards)
        if found is not None:
            return found
    return None


def _apply(builder: Builder, form: Form, last: Reg | None, guards: float) -> Reg | None:
    roles = [r for r in form.roles if r.kind == "in" and r.name != IMMEDIATE]
    fits = [i for i, r in enumerate(roles) if last is not None and last.width == register_width(type_of(r))]
    if last is not None and not fits:
        return None
    place = builder.pick(fits) if fits else -1
    given: list[str | None] = []
    taken: list[Reg] = []
    for i, role in enumerate(roles):
        type = type_of(role)
        if role.optional and i != place and builder.chance(0.5):
            given.append(None)
            continue
        text = None
        if i != place and builder.chance(0.15):
            text = _literal(builder.rng, form, role)
        elif i != place and taken and builder.chance(0.12):
            text = next((builder.typed(r, type.name) for r in taken if r.width == register_width(type)), None)
        if text is None:
            found = builder.register(register_width(type), type.name, last if i == place else None)
            if found is None:
                return None
            taken.append(found)
            text = builder.typed(found, type.name)
            if type.name == "pred" and form.root in ("setp", "selp", "set") and role.optional and builder.chance(0.3):
                text = f"!{text}"
        given.append(text)
    outs = [builder.fresh(_out_width(builder, form, r), type_of(r).name) for r in form.roles if r.kind == "out"]
    line = statement(form, outs, given, _table(builder.rng, form))
    predicates = [r for r in builder.registers if r.width == 1]
    if predicates and form.root not in UNGUARDED and builder.chance(guards):
        for out in outs:
            other = builder.register(out.width)
            if other is None:
                break
            builder.emit(f"mov.{'pred' if out.width == 1 else f'b{out.width}'} {out.name}, {builder.use(other)};")
        else:
            guard = builder.pick(predicates)
            line = f"@{'!' if builder.chance(0.5) else ''}{builder.use(guard)} {line}"
    builder.emit(line)
    for out in outs:
        builder.made(out, form.root)
    return outs[0]


def results(builder: Builder, last: Reg | None) -> list[Reg]:
    """The results to look at: what nobody read, the last one, and a few of the others."""
    return [r for r in builder.declared if r.name in builder.made_by and (r.name not in builder.used or r is last or builder.chance(0.2))]


def chains_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Chains of 3 to 8 instructions, each reading the one before."""
    rng = np.random.default_rng(seed)
    theme = list(THEMES)[seed[-1] % len(THEMES)]
    names = COLUMNS[theme]
    inputs = inputs_of(names)
    blocks = []
    for _ in range(12):
        builder = Builder(rng, inputs)
        last = builder.register(inputs[0].width, inputs[0].hint)
        for _ in range(int(rng.integers(3, 9))):
            last = step(builder, theme, last) or step(builder, theme, None) or last
        blocks.append(builder.block(f"chain {theme}", results(builder, last)))
    return Kernel("chains", seed, input_columns(rng, names, rows), [r.width for r in inputs], list(names), [b for b in blocks if b.outs])


# -- carries ----------------------------------------------------------------------------------------------------------
def carry_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Sums, differences and products of many words through the condition code."""
    rng = np.random.default_rng(seed)
    width = 64 if seed[-1] % 2 else 32
    names = (f"u{width}", f"s{width}", f"u{width}", f"s{width}", f"u{width}")
    inputs = inputs_of(names)
    blocks = []
    for _ in range(16):
        builder = Builder(rng, inputs)
        family = builder.pick(["add", "sub", "mad", "mixed"])
        length = int(rng.integers(2, 6))
        for i in range(length):
            first, end = i == 0, i == length - 1
            root = builder.pick(["add", "sub", "mad"]) if family == "mixed" else family
            base = root if first else {"add": "addc", "sub": "subc", "mad": "madc"}[root]
            half = builder.pick([".lo", ".hi"]) if root == "mad" else ""
            opcode = f"{base}{half}{'' if end and builder.chance(0.7) else '.cc'}.{builder.pick(['u', 's'])}{width}"
            form = form_of(opcode)
            assert form is not None, opcode
            out = builder.fresh(width, f"u{width}")
            given = []
            for _ in range(3 if root == "mad" else 2):
                found = builder.register(width, f"u{width}")
                assert found is not None
                given.append(str(int(rng.integers(-2, 3))) if builder.chance(0.1) else builder.use(found))
            builder.emit(f"{opcode} {', '.join([out.name, *given])};")
            builder.made(out, form.root)
        blocks.append(builder.block(f"carry {family}", list(builder.declared)))
    return Kernel("carry", seed, input_columns(rng, names, rows), [r.width for r in inputs], list(names), blocks)
