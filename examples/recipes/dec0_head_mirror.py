"""The first head of ``dec0`` (phase 4: four mma) as one call whose results come back through shared memory.

GRAFT_BODY=1 puts the function's body in beside the call; without it the function is external, for a linker or a translator to find.
"""

import os

from words import JOIN, block, call, declaration, moved

ENTRY = "dec0"
FILE = "dec0.ptx"
CALLEE = "dec0_head"
A_REGS = ["%r2967", "%r2970", "%r2973", "%r2976", "%r2979", "%r2982", "%r2985", "%r2988"]
B_REGS = ["%r2989", "%r2990", "%r2991", "%r2992"]
C_REGS = ["%r2877", "%r2878"]
RET_REGS = ["%r2993", "%r2994", "%r3003", "%r3004", "%r3013", "%r3014", "%r3023", "%r3024"]
N = len(RET_REGS)  # words a lane: word i of lane L is at base + L*4*N + 4*i

LIVE_IN = A_REGS + B_REGS + C_REGS
TYPES = ["b32"] * (len(LIVE_IN) + 1)  # the last one is the base
ROWS = f".shared .align 16 .b8 {CALLEE}_rows[{32 * 4 * N}];\n"
MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"


def body():
    a, b, c, d = 0, len(A_REGS), len(A_REGS + B_REGS), len(LIVE_IN)
    lines = [".reg .b32 %in<15>, %out<8>, %lane, %row;", "mov.u32 %lane, %laneid;"]
    lines += [f"ld.param.b32 %in{i}, [{CALLEE}_{i}];" for i in range(d + 1)]
    lines.append(f"mad.lo.u32 %row, %lane, {4 * N}, %in{d};")
    for tile in range(4):
        rows, column = divmod(tile, 2)
        fragment = ", ".join(f"%in{a + 4 * rows + i}" for i in range(4))
        weights = f"%in{b + 2 * column}, %in{b + 2 * column + 1}"
        bias = f"%in{c + column}, %in{c + column}"
        lines.append(f"{MMA} {{%out{2 * tile}, %out{2 * tile + 1}}}, {{{fragment}}}, {{{weights}}}, {{{bias}}};")
    lines += [f"st.shared.b32 [%row+{4 * i}], %out{i};" for i in range(N)]
    return declaration(CALLEE, TYPES, ".func") + "\n{\n" + "".join(f"\t{line}\n" for line in [*lines, "ret;"]) + "}\n"


def recipe():
    prologue = [
        ".reg .b32 base, row;",
        f"mov.u32 base, {CALLEE}_rows;",
        "mov.u32 row, %laneid;",
        f"mad.lo.u32 row, row, {4 * N}, base;",
    ]
    given = [(name, "b32") for name in [*LIVE_IN, "base"]]
    back = moved(JOIN, [(name, "b32") for name in RET_REGS], "row", 0)
    function = body() if os.environ.get("GRAFT_BODY") else declaration(CALLEE, TYPES) + ";\n"
    return {
        "file": FILE,
        "cut_call": (3317, 3327),
        "extern": ROWS + function,
        "call": block(*prologue, *call(CALLEE, given), *back),
    }
