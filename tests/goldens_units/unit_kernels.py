"""Kernels whose results were recorded on an H200: SIMD video instructions, ``fma.oob``, atomics on vectors of halves, cache policies, bulk copies.

Invariant: a kernel's text follows from its statements and its rows; ``h200_units.npz`` holds, by the kernel's name, its statements, the bytes that it reads and those
that the GPU left. ``python tests/goldens_units/unit_kernels.py`` on a machine with a GPU records them again from the same operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import ptxgraft

RECORDED = Path(__file__).with_name("h200_units.npz")
_HEAD = """.version 8.8
.target sm_90
.address_size 64
.visible .entry k(.param .u64 in, .param .u64 out)
{
    .shared .align 128 .b8 shm[256]; .shared .align 8 .b64 bar; .reg .pred %p<3>; .reg .b16 %h<40>; .reg .b32 %r<40>; .reg .f32 %f<3>; .reg .b64 %rd<20>;
    ld.param.u64 %rd1, [in]; ld.param.u64 %rd2, [out]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ntid.x; mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3;
"""


def words(statements: list[str], rows: int) -> str:
    """Each statement makes ``%r0`` of ``%r10``, ``%r11`` and ``%r12``, words of a thread's own."""
    lines = ["mul.wide.u32 %rd3, %r1, 4; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;"]
    lines += [f"ld.global.u32 %r{10 + i}, [%rd1+{4 * rows * i}];" for i in range(3)]
    return "\n".join([*lines, *(f"{text} st.global.u32 [%rd2+{4 * rows * i}], %r0;" for i, text in enumerate(statements))])


def policies(statements: list[str], rows: int) -> str:
    """Each statement makes ``%rd9`` of the address ``%rd8``, the sizes ``%r10`` and ``%r11``, or the fraction ``%f1``."""
    lines = [
        "mul.wide.u32 %rd3, %r1, 8; mul.wide.u32 %rd4, %r1, 4; add.u64 %rd5, %rd1, %rd3; add.u64 %rd6, %rd1, %rd4; add.u64 %rd2, %rd2, %rd3;",
        f"ld.global.u64 %rd8, [%rd5]; ld.global.u32 %r10, [%rd6+{8 * rows}]; ld.global.u32 %r11, [%rd6+{12 * rows}]; ld.global.f32 %f1, [%rd6+{16 * rows}];",
    ]
    return "\n".join([*lines, *(f"{text} st.global.u64 [%rd2+{8 * rows * i}], %rd9;" for i, text in enumerate(statements))])


def atomics(statements: list[str], rows: int) -> str:
    """Each opcode on sixteen bytes of a thread's own: first those of memory, for f16 and for bf16, then what is combined with them."""
    lines = ["mul.wide.u32 %rd3, %r1, 16; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd3;"]
    for i, opcode in enumerate(statements):
        count, size = int(opcode.split(".v")[1][0]), 4 if opcode.endswith("x2") else 2
        letter, start, at = "%r" if size == 4 else "%h", 32 * rows * ("bf16" in opcode), 32 * rows * i
        old, new = ("{" + ", ".join(f"{letter}{first + j}" for j in range(count)) + "}" for first in (20, 10))
        lines.append(f"ld.global.v2.u64 {{%rd7, %rd8}}, [%rd1+{start}]; st.global.v2.u64 [%rd2+{at}], {{%rd7, %rd8}};")
        lines.append(f"st.global.v2.u64 [%rd2+{at + 16 * rows}], {{0, 0}};")
        lines += [f"ld.global.b{8 * size} {letter}{10 + j}, [%rd1+{start + 16 * rows + size * j}];" for j in range(count)]
        lines.append(f"{opcode} {f'{old}, ' if opcode.startswith('atom') else ''}[%rd2+{at}], {new};")
        if opcode.startswith("atom"):
            lines += [f"st.global.b{8 * size} [%rd2+{at + 16 * rows + size * j}], {letter}{20 + j};" for j in range(count)]
    return "\n".join(lines)


def bulk(statements: list[str], rows: int) -> str:
    """Each statement on 256 bytes of shared memory, copied there, and 256 of global memory, for a block of one thread."""
    lines = [
        "mul.wide.u32 %rd3, %r1, 256; mul.wide.u32 %rd4, %r1, 512; add.u64 %rd1, %rd1, %rd3; add.u64 %rd2, %rd2, %rd4;",
        "mbarrier.init.shared::cta.b64 [bar], 1; fence.proxy.async;",
    ]
    for i, text in enumerate(statements):
        source, target = 512 * rows * i, 512 * rows * i
        for at in range(0, 256, 16):
            lines.append(
                f"ld.global.v2.u64 {{%rd7, %rd8}}, [%rd1+{source + 256 * rows + at}]; st.global.v2.u64 [%rd2+{target + at}], {{%rd7, %rd8}};"
            )
            lines.append(f"st.global.v2.u64 [%rd2+{target + 256 + at}], {{0, 0}};")
        lines.append(f"add.u64 %rd10, %rd1, {source}; add.u64 %rd11, %rd2, {target}; add.u64 %rd12, %rd11, 256; fence.proxy.async;")
        lines.append("mbarrier.arrive.expect_tx.shared::cta.b64 %rd13, [bar], 256;")
        lines.append("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shm], [%rd10], 256, [bar];")
        lines.append(f"W{i}: mbarrier.try_wait.shared::cta.b64 %p1, [bar], %rd13; @!%p1 bra W{i};")
        lines.append(f"{text} cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;")
    return "\n".join(lines)


BODIES: Mapping[str, Callable[[list[str], int], str]] = {
    "video": words, "oob_f16": words, "oob_bf16": words, "policies": policies, "atomics": atomics, "bulk": bulk,
}  # fmt: skip
SHAPES: Mapping[str, tuple[int, int]] = {
    "video": (1, 32), "oob_f16": (2, 256), "oob_bf16": (2, 256), "policies": (1, 64), "atomics": (1, 64), "bulk": (2, 1),
}  # fmt: skip
"""Blocks and threads of a block."""


def run(name: str, recorded: Mapping[str, np.ndarray], **options: str) -> np.ndarray:
    """What the kernel leaves, as bytes."""
    grid, block = SHAPES[name]
    body = BODIES[name]([str(s) for s in recorded[f"{name} statements"]], grid * block)
    out = np.full_like(recorded[f"{name} results"], 0xEE)
    where = {key: options.pop(key) for key in ("engine",) if key in options}
    ptxgraft.load(f"{_HEAD}{body}\nret;\n}}\n").kernel("k", **where).launch(
        grid, block, [recorded[f"{name} operands"].copy(), out], **options
    )
    return out


def main() -> None:
    """Record everything again."""
    found = dict(np.load(RECORDED))
    for name in BODIES:
        found[f"{name} results"] = run(name, found, on="cuda")
    np.savez_compressed(RECORDED, **found)


if __name__ == "__main__":
    main()
