"""Kernels around single statements: registers filled from a buffer, memory of every space behind the addresses, everything written out again.

Invariant: what a statement leaves in registers, in shared, local and global memory is all in the kernel's one output buffer, so two engines
agree on a statement when they agree on that buffer (or on the fault's first line).
"""

from __future__ import annotations

import random
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ptxgraft.isa import Entry, Form, Role
from ptxgraft.isa.table import resolve_roles

LANES = 64
"""Threads of the block: two warps, so that a barrier has somebody to wait for."""
SHARED, LOCAL, CONST, PARAM = 4096, 512, 4096, 1024
STRIDE = 16
"""Bytes of a register's column for each lane."""
COLUMNS = 96
"""Registers at most; the rows after them hold global memory to work on."""
WORK = 64 << 10
"""Bytes of global memory for the statement's addresses."""

_TYPES = {"p": "pred", "b": "b8", "h": "b16", "r": "b32", "d": "b64", "q": "b128", "f": "f32", "g": "f64"}
_REGISTER = re.compile(r"%([pbhrdqfg])(\d+)")
_ADDRESS = re.compile(r"\[%(d\d+)")

FULL = 0xFFFFFFFF
TAME: Mapping[tuple[str, str], int] = {
    ("bar", "a"): 1,
    ("bar", "b"): LANES,
    ("barrier", "a"): 1,
    ("barrier", "b"): LANES,
    ("bar", "mask"): FULL,
    ("wmma", "stride"): 64,
    ("alloca", "size"): 64,
    ("st", "size"): 64,
    ("mapa", "b"): 0,
}
"""Operands that must make sense for a statement to get anywhere, by root and role."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One statement to run: its form, its text, and the kernel around it."""

    form: Form
    text: str
    kernel: str


def sample(entry: Entry, form: Form, slots: Mapping[str, str], text: str) -> Sample:
    """The kernel of one statement. ``text`` as ``samples.statement`` writes it."""
    roles = [r for r in resolve_roles(entry, slots) if not r.implicit]
    spaces = _spaces(form, roles)
    addresses = dict(zip(_ADDRESS.findall(text), spaces, strict=False))
    registers = sorted({m.group(0)[1:] for m in _REGISTER.finditer(text)})
    numbered = {_first(role, i): role for i, role in enumerate(roles) if role.kind == "in"}
    lines = []
    for column, name in enumerate(registers):
        if name in addresses:
            lines += _address(name, addresses[name], form)
            if addresses[name] == "shared" and slots.get("space") == "":
                lines.append(f"cvta.shared.u64 %{name}, %{name};")
            continue
        role = numbered.get(int(name[1:]))
        constant = None if role is None else TAME.get((form.root, role.name))
        lines += [f"mov.{_TYPES[name[0]]} %{name}, {constant};"] if constant is not None else _load(name, column)
    after = [line for column, name in enumerate(registers) for line in _store(name, column)]
    return Sample(form, text, _kernel(form, entry, [*lines, *_before(form), text, *_behind(form), *after], registers))


def _first(role: Role, number: int) -> int:
    return number * 8 + 1


def _spaces(form: Form, roles: list[Role]) -> list[str]:
    """The memory space of each bracketed address, in order: what is stored to is written first."""
    count = sum(role.kind in ("addr", "resource") for role in roles)
    both = [s for s in (form.stores, form.loads) if s]
    if len(set(both)) == 1 or count == 1:
        return [both[0] if both else "generic"] * count
    return [*both, *["shared"] * count][:count]


def _address(name: str, space: str, form: Form) -> list[str]:
    """An aligned address of the space, the lane's own where that makes sense."""
    base = {"shared": "shared_", "local": "local_", "const": "const_", "param": "par_"}.get(space)
    own = form.root not in ("mbarrier", "ldmatrix", "stmatrix", "wmma") and space not in ("local", "param", "const")
    step = f"mad.lo.u64 %{name}, %lane, 32, %{name};" if own else ""
    if base is None:
        return [f"mov.b64 %{name}, %work;", step]
    return [f"mov.b64 %{name}, {base};", step]


def _load(name: str, column: int) -> list[str]:
    at = f"[%mine+{column * STRIDE * LANES}]"
    kind = name[0]
    if kind == "p":
        return [f"ld.global.b32 %scratch, {at};", "and.b32 %scratch, %scratch, 1;", f"setp.ne.u32 %{name}, %scratch, 0;"]
    return [f"ld.global.{_TYPES[kind]} %{name}, {at};"]


def _store(name: str, column: int) -> list[str]:
    at = f"[%mine+{column * STRIDE * LANES}]"
    if name[0] == "p":
        return [f"selp.u32 %scratch, 1, 0, %{name};", f"st.global.b32 {at}, %scratch;"]
    return [f"st.global.{_TYPES[name[0]]} {at}, %{name};"]


def _before(form: Form) -> list[str]:
    if form.root == "mbarrier" or ".mbarrier." in form.opcode:
        return ["@%lead mbarrier.init.shared.b64 [shared_], 200;", "bar.sync 0;"]
    return ["bar.sync 0;"]


def _behind(form: Form) -> list[str]:
    waits = ["cp.async.wait_all;"] if form.opcode.startswith("cp.async") else []
    return [*waits, "L_:", "bar.sync 0;"]


def _copy(label: str, space: str, inward: bool, count: int, step: int) -> str:
    """A loop that copies ``count`` words of 8 bytes, ``step`` bytes apart, from global memory at %from to ``space`` at %to, or back."""
    here, there = ("global", "from"), (space, "to")
    source, target = (here, there) if inward else (there, here)
    return f"""\
mov.u32 %left, {count};
{label}_:
ld.{source[0]}.b64 %word, [%{source[1]}];
st.{target[0]}.b64 [%{target[1]}], %word;
add.u64 %to, %to, {step};
add.u64 %from, %from, {step};
sub.u32 %left, %left, 1;
setp.ne.u32 %more, %left, 0;
@%more bra {label}_;"""


def _kernel(form: Form, entry: Entry, body: list[str], registers: list[str]) -> str:
    declared = "\n".join(f".reg .{_TYPES[name[0]]} %{name};" for name in registers)
    words = ", ".join(str(i * 37 % 251) for i in range(CONST))
    ptx = max(form.since, (8, 3))
    statements = "\n".join(body)
    return f"""\
.version {ptx[0]}.{ptx[1]}
.target sm_{max(form.sm, 70)}{entry.specific}
.address_size 64
.const .align 128 .b8 const_[{CONST}] = {{{words}}};
.visible .entry k(.param .u64 data_, .param .align 128 .b8 par_[{PARAM}])
{{
.shared .align 128 .b8 shared_[{SHARED}];
.local .align 128 .b8 local_[{LOCAL}];
.reg .b64 %lane, %mine, %work, %to, %from;
.reg .b32 %tid, %scratch, %left;
.reg .pred %lead, %more;
.reg .b64 %word;
{declared}
mov.u32 %tid, %tid.x;
setp.eq.u32 %lead, %tid, 0;
cvt.u64.u32 %lane, %tid;
ld.param.u64 %work, [data_];
mad.lo.u64 %mine, %lane, {STRIDE}, %work;
add.u64 %work, %work, {COLUMNS * STRIDE * LANES};
mov.b64 %to, shared_;
mad.lo.u64 %to, %lane, 8, %to;
mad.lo.u64 %from, %lane, 8, %work;
add.u64 %from, %from, {WORK // 2};
{_copy("Fill", "shared", True, SHARED // 8 // LANES, 8 * LANES)}
mov.b64 %to, local_;
{_copy("Local", "local", True, LOCAL // 8, 8)}
bar.sync 0;
{statements}
mov.b64 %to, shared_;
mad.lo.u64 %to, %lane, 8, %to;
mad.lo.u64 %from, %lane, 8, %work;
add.u64 %from, %from, {WORK};
{_copy("Empty", "shared", False, SHARED // 8 // LANES, 8 * LANES)}
mad.lo.u64 %from, %lane, {LOCAL}, %work;
add.u64 %from, %from, {WORK + SHARED};
mov.b64 %to, local_;
{_copy("Mine", "local", False, LOCAL // 8, 8)}
ret;
}}
"""


def memory(text: str) -> np.ndarray:
    """The kernel's buffer, the same in every run: columns of registers with hostile bit patterns, then memory to work on, then room for what is left."""
    rng = random.Random(zlib.crc32(text.encode()))
    hostile = (0, 1, FULL, 0x80000000, 0x7FC00001, 0x7F800000, 0xFF800000, 0x00000001, 0x80000001, 0x3F800000, 0x7BFF7C00, 0x00018000)
    words = [rng.choice(hostile) if rng.random() < 0.3 else rng.getrandbits(32) for _ in range((COLUMNS * STRIDE * LANES + WORK) // 4)]
    room = np.zeros(SHARED + LOCAL * LANES, np.uint8)
    return np.concatenate([np.array(words, np.uint32).view(np.uint8), room])
