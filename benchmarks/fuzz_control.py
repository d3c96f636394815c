"""Random code of lanes that part and come together: branches, loops, jump tables; shuffles, votes, matches and reductions of a warp.

Invariant: every loop ends; a register is written on every way to its reader; no lane reads one that takes no part.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from benchmarks.fuzz_kernels import Builder, Kernel, Reg, statement
from benchmarks.fuzz_programs import COLUMNS, FULL, THEMES, input_columns, inputs_of, results, step, type_of, warp_forms
from ptxgraft.isa import Form


# -- branches and loops -----------------------------------------------------------------------------------------------
def control_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Nested branches, loops and jump tables over variables, as lanes diverge by their data; then a shuffle of what comes together."""
    rng = np.random.default_rng(seed)
    theme = list(THEMES)[seed[-1] % len(THEMES)]
    names = COLUMNS[theme]
    inputs = inputs_of(names)
    blocks = []
    for number in range(3):
        builder = Builder(rng, inputs, prefix=f"L{number}_")
        variables = [builder.fresh(r.width, r.hint) for r in inputs]
        for variable, source in zip(variables, inputs, strict=True):
            builder.emit(f"mov.{'pred' if source.width == 1 else f'b{source.width}'} {variable.name}, {source.name};")
            builder.made(variable, "mov")
        _Control(builder, theme, variables).body(3)
        outs = list(variables)
        word = next((v for v in variables if v.width == 32), None)
        if word is not None:
            out = builder.fresh(32, "b32")
            builder.emit(f"bar.warp.sync {FULL}; shfl.sync.bfly.b32 {out.name}, {word.name}, {int(rng.integers(32))}, 0x1f, {FULL};")
            outs.append(builder.made(out, "shfl"))
        for variable in variables:
            builder.made_by[variable.name] = "control"
        blocks.append(builder.block(f"control {theme}", outs))
    return Kernel("control", seed, input_columns(rng, names, rows), [r.width for r in inputs], list(names), blocks)


class _Control:
    """Writes structured code over variables. What a branch makes is read in it alone."""

    def __init__(self, builder: Builder, theme: str, variables: list[Reg]) -> None:
        self.builder, self.theme, self.variables = builder, theme, variables
        self.labels = 0
        self.budget = 24

    def label(self) -> str:
        self.labels += 1
        return f"{self.builder.prefix}{self.labels}"

    def body(self, depth: int) -> None:
        """A few statements, branches and loops."""
        outside = list(self.builder.registers)
        for _ in range(int(self.builder.rng.integers(1, 4))):
            kinds = ["assign", "assign", "if", "loop", "switch"] if depth and self.budget > 0 else ["assign"]
            getattr(self, self.builder.pick(kinds))(depth)
        self.builder.registers = outside

    def assign(self, depth: int) -> None:
        """A short chain into a variable."""
        self.budget -= 1
        builder = self.builder
        last = step(builder, self.theme, builder.pick(self.variables), 0.2)
        if last is not None and builder.chance(0.5):
            last = step(builder, self.theme, last, 0.2) or last
        target = [v for v in self.variables if last is not None and v.width == last.width]
        if last is not None and target:
            builder.emit(f"mov.{'pred' if last.width == 1 else f'b{last.width}'} {builder.pick(target).name}, {last.name};")

    def predicate(self) -> str:
        builder = self.builder
        given = [v for v in self.variables if v.width == 1]
        word = builder.pick([v for v in self.variables if v.width in (16, 32, 64)])
        made = builder.fresh(1, "pred")
        if given and builder.chance(0.3):
            builder.emit(f"mov.pred {made.name}, {builder.pick(given).name};")
        else:
            narrow = builder.fresh(32, "u32")
            builder.emit(
                f"cvt.u32.u{word.width} {narrow.name}, {builder.typed(word, 'b')}; shr.u32 {narrow.name}, {narrow.name}, {int(builder.rng.integers(32))};"
            )
            builder.emit(
                f"and.b32 {narrow.name}, {narrow.name}, 1; setp.eq.u32 {made.name}, {narrow.name}, {int(builder.rng.integers(2))};"
            )
        return made.name

    def number(self, most: int) -> str:
        builder = self.builder
        word = builder.pick([v for v in self.variables if v.width in (16, 32, 64)])
        narrow = builder.fresh(32, "u32")
        builder.emit(
            f"cvt.u32.u{word.width} {narrow.name}, {self.builder.typed(word, 'b')}; shr.u32 {narrow.name}, {narrow.name}, {int(builder.rng.integers(12))};"
        )
        builder.emit(f"and.b32 {narrow.name}, {narrow.name}, {most};")
        return narrow.name

    def if_(self, depth: int) -> None:
        """One arm or two."""
        builder = self.builder
        other, end = self.label(), self.label()
        builder.emit(f"@{'!' if builder.chance(0.5) else ''}{self.predicate()} bra {other};")
        self.body(depth - 1)
        if builder.chance(0.6):
            builder.emit(f"bra {end};")
            builder.emit(f"{other}:")
            self.body(depth - 1)
        else:
            builder.emit(f"{other}:")
        builder.emit(f"{end}:")

    def loop(self, depth: int) -> None:
        """Up to eight rounds, by data; sometimes left in the middle."""
        builder = self.builder
        count, again, end = self.number(7), self.label(), self.label()
        builder.emit(f"{again}:")
        self.body(depth - 1)
        if builder.chance(0.3):
            builder.emit(f"@{self.predicate()} bra {end};")
            self.body(0)
        more = builder.fresh(1, "pred")
        builder.emit(f"sub.s32 {count}, {count}, 1; setp.ge.s32 {more.name}, {count}, 0; @{more.name} bra {again};")
        builder.emit(f"{end}:")

    def switch(self, depth: int) -> None:
        """A jump table of four."""
        builder = self.builder
        targets, end, table = [self.label() for _ in range(4)], self.label(), self.label()
        index = self.number(3)
        builder.emit(f"{table}: .branchtargets {', '.join(targets)};")
        builder.emit(f"brx.idx {index}, {table};")
        for target in targets:
            builder.emit(f"{target}:")
            self.body(depth - 1)
            if builder.chance(0.8):
                builder.emit(f"bra {end};")
        builder.emit(f"{end}:")


setattr(_Control, "if", _Control.if_)


# -- whole warps ------------------------------------------------------------------------------------------------------
def warp_kernel(seed: tuple[int, ...], rows: int) -> Kernel:
    """Shuffles, votes, matches and reductions, over whole warps and over some lanes, between other instructions."""
    rng = np.random.default_rng(seed)
    names = ("b32", "s32", "u32", "b64", "pred", "pred")
    inputs = inputs_of(names)
    columns = input_columns(rng, names, rows)
    columns[2] &= np.uint64(3)  # few values, so that some match
    columns[3] &= np.uint64(0x1_0000_0001)
    uniform = np.repeat(rng.random(rows // 32) < 0.3, 32)  # and warps in which all do
    first = np.repeat(columns[:, ::32], 32, axis=1)
    columns[:, uniform] = first[:, uniform]
    blocks = []
    for _ in range(12):
        builder = Builder(rng, inputs)
        mask = (
            0xFFFFFFFF
            if builder.chance(0.5)
            else int(rng.integers(1, 1 << 32)) & int(rng.integers(1, 1 << 32)) | 1 << int(rng.integers(32))
        )
        guard = _member(builder, mask)
        for _ in range(int(rng.integers(2, 6))):
            if builder.chance(0.3):
                step(builder, "int32", builder.register(32, "b32"))
            else:
                _collective(builder, mask, guard)
        blocks.append(builder.block("warp", results(builder, None)))
    return Kernel("warp", seed, columns, [r.width for r in inputs], list(names), blocks)


def _member(builder: Builder, mask: int) -> str:
    """A guard that holds in the lanes of the mask ('' for all)."""
    if mask == 0xFFFFFFFF:
        return ""
    word, inside = builder.fresh(32, "b32"), builder.fresh(1, "pred")
    builder.emit(
        f"mov.u32 {word.name}, %lanemask_eq; and.b32 {word.name}, {word.name}, {mask:#x}; setp.ne.u32 {inside.name}, {word.name}, 0;"
    )
    return f"@{inside.name} "


def _collective(builder: Builder, mask: int, guard: str) -> None:
    by_root: dict[str, list[Form]] = defaultdict(list)
    for form in warp_forms():
        by_root[form.root].append(form)
    form = builder.pick(by_root[builder.pick(sorted(by_root))])
    outs = [builder.fresh(type_of(r).width, type_of(r).name) for r in form.roles if r.kind == "out"]
    given: list[str] = []
    for role in (r for r in form.roles if r.kind == "in"):
        if role.name == "membermask":
            given.append(f"{mask:#x}")
        elif form.root == "shfl" and role.name in "bc":
            given.append(_shuffle_operand(builder, form, role.name, mask))
        else:
            found = builder.register(type_of(role).width, type_of(role).name)
            assert found is not None
            given.append(builder.typed(found, type_of(role).name))
    for out in outs if guard else ():
        builder.emit({1: f"setp.ne.u32 {out.name}, %lane, %lane;", 32: f"mov.b32 {out.name}, %lane;"}[out.width])
    builder.emit(guard + statement(form, outs, given))
    for out in outs:
        builder.made(out, form.root)


def _shuffle_operand(builder: Builder, form: Form, name: str, mask: int) -> str:
    """Of a whole warp any lane and bound will do; of some lanes one of them has to be read."""
    if mask != 0xFFFFFFFF:
        if name == "c":
            return "0x1f"
        if "idx" in form.opcode.split("."):
            return str(builder.pick([i for i in range(32) if mask >> i & 1]))
        return "0"
    if builder.chance(0.5):
        return (
            str(builder.pick([1, 2, 4, 8, 16, 31, 0, 5]))
            if name == "b"
            else builder.pick(["0x1f", "0", "0x1c1f", "0x181f", "0x1c03", "0x0f"])
        )
    found = builder.register(32, "b32")
    assert found is not None
    return builder.typed(found, "b32")
