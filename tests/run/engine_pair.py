"""Small kernels run by the warp executor and by the interpreter, which must leave the same memory or say the same.

Invariant: every kernel gets its threads' numbers and the addresses of their words in the same registers.
"""

from __future__ import annotations

import numpy as np
import pytest

from ptxgraft.errors import PtxgraftError
from ptxgraft.isa import bind
from ptxgraft.run.execution import execute
from ptxgraft.run.launch import Launch
from ptxgraft.run.memory import allocate
from ptxgraft.text import Document

OUT = 0x7F0000000000
IN = 0x7F0000100000

HEAD = """.version 8.4
.target sm_80
.address_size 64
"""

REGISTERS = """    .reg .pred %p<10>;
    .reg .b16 %h<10>;
    .reg .b32 %r<40>;
    .reg .b64 %rd<20>;
    .reg .f32 %f<10>;
"""

# Each thread's linear number in its block: %r0; in the grid: %r1; the address of its word of `out`: %rd2; that word's index times 4: %rd3.
PROLOGUE = """    ld.param.u64 %rd0, [out];
    ld.param.u64 %rd1, [in];
    mov.u32 %r0, %tid.z;
    mov.u32 %r2, %ntid.y;
    mov.u32 %r3, %tid.y;
    mad.lo.u32 %r0, %r0, %r2, %r3;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r0, %r0, %r2, %r3;
    mov.u32 %r3, %ntid.y;
    mul.lo.u32 %r2, %r2, %r3;
    mov.u32 %r3, %ntid.z;
    mul.lo.u32 %r2, %r2, %r3;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %nctaid.x;
    mov.u32 %r6, %ctaid.x;
    mad.lo.u32 %r4, %r4, %r5, %r6;
    mad.lo.u32 %r1, %r4, %r2, %r0;
    mul.wide.u32 %rd3, %r1, 4;
    add.s64 %rd2, %rd0, %rd3;
"""


def kernel(body: str, declarations: str = "", module: str = "") -> str:
    return f"{HEAD}{module}.visible .entry k(.param .u64 out, .param .u64 in)\n{{\n{REGISTERS}{declarations}{PROLOGUE}{body}    ret;\n}}\n"


def dim(n: int | tuple[int, ...]) -> tuple[int, int, int]:
    x, y, z = (*((n,) if isinstance(n, int) else n), 1, 1)[:3]
    return x, y, z


def launch_of(text: str, grid=1, block=32, words: int = 0, data: np.ndarray | None = None, shared: int = 0) -> Launch:
    program = bind(Document.parse(text), "k")
    args = OUT.to_bytes(8, "little") + IN.to_bytes(8, "little")
    source = np.arange(4096, dtype=np.uint32) * np.uint32(2654435761) if data is None else data
    threads = int(np.prod(grid) * np.prod(block))
    return Launch(program, dim(grid), dim(block), args, shared, [allocate(OUT, 4 * (words or threads), "out"), allocate(IN, source, "in")])


def run_both(text: str, grid=1, block=32, profile: str = "sm_90", **options) -> np.ndarray:
    """The words of ``out`` after the warp executor; asserts that the interpreter leaves the same memory."""
    run_options = {k: options.pop(k) for k in ("step_budget", "threads", "blocks") if k in options}
    results = []
    for engine in ("numpy", "warp"):
        launch = launch_of(text, grid, block, **options)
        result = execute(launch, engine=engine, profile=profile, **run_options)
        results.append(({a.base: a.data.copy() for a in launch.memory.allocations}, result.statements))
    (expected, steps), (found, steps_found) = results
    assert expected.keys() == found.keys()
    for base, data in expected.items():
        np.testing.assert_array_equal(data.view(np.uint32), found[base].view(np.uint32))
    assert steps_found == steps
    return found[OUT].view(np.uint32)


def both_fail(text: str, kind: type[PtxgraftError], grid=1, block=32, **options) -> str:
    """The message, the same from both executors."""
    run_options = {k: options.pop(k) for k in ("step_budget",) if k in options}
    messages = []
    for engine in ("numpy", "warp"):
        with pytest.raises(kind) as caught:
            execute(launch_of(text, grid, block, **options), engine=engine, **run_options)
        messages.append(str(caught.value))
    assert messages[0] == messages[1]
    return messages[0]
