"""The last head of ``dec0`` (phase 19) as a call of its own, with everything that lives across it in shared memory meanwhile.

The function gets the phase's number, the A fragments, the weight image, the parameter block and the lane's row; it finds weights and biases in the image
itself. D words come back at ``row + 4*i``; the spill area follows them. GRAFT_BODY=1 puts the function's body in beside the call.
"""

import os

from words import JOIN, SPLIT, block, call, declaration, moved, words

ENTRY = "dec0"
MODULE = "dec0.ptx"
CALLEE = "dec0_phase"
PHASE = 19
A_REGS = ["%r12231", "%r12234", "%r12237", "%r12240", "%r12243", "%r12246", "%r12249", "%r12252"]
RET_REGS = ["%r12257", "%r12258", "%r12267", "%r12268", "%r12277", "%r12278", "%r12287", "%r12288"]
BANK = 12  # A words, filled up with zeros
BIAS, WEIGHTS = 0xBCC0, 0xBD00  # in the weight image: 16 bytes a column pair, 16 bytes a lane

F32 = (
    "%f1391 %f1489 %f1490 %f1494 %f1495 %f1496 %f1497 %f1498 %f1502 %f1512 %f1513 %f1516 %f1517 %f1522 %f1523 %f1526 %f1527 %f1532 %f1533 %f1536 "
    "%f1537 %f1543 %f1544 %f1551"
)
B32 = (
    "%r12448 %r12360 %r12556 %r12365 %r12312 %r12650 %r12330 %r12667 %r12348 %r12684 %r12366 %r12701 %r9283 %r9284 %r9287 %r9288 %r9291 %r9292 "
    "%r9295 %r9296"
)
SCRATCH = [
    *((name, "b64") for name in ("%rd55", "%rd56")),
    *((name, "pred") for name in ("%p20", "%p49", "%p74", "%p77", "%p80", "%p83")),
    *((name, "f32") for name in F32.split()),
    *((name, "b32") for name in B32.split()),
]  # live across the phase; 64-bit ones first, so that their words are aligned
ROW = 4 * (len(RET_REGS) + words(SCRATCH))
TYPES = ["b32"] * (1 + BANK) + ["b64", "b64", "b32"]
MMA = "mma.sync.aligned.m16n8k32.row.col.f16.e4m3.e4m3.f16"


def body():
    image, row = 1 + BANK, 3 + BANK
    lines = [
        ".reg .b32 %a<8>, %b<4>, %c<4>, %out<8>, %lane, %row;",
        ".reg .b64 %image, %at;",
        *(f"ld.param.b32 %a{i}, [{CALLEE}_{1 + i}];" for i in range(len(A_REGS))),
        f"ld.param.b64 %image, [{CALLEE}_{image}];",
        f"ld.param.b32 %row, [{CALLEE}_{row}];",
        "mov.u32 %lane, %laneid;",
        "mul.wide.u32 %at, %lane, 16;",
        "add.s64 %at, %image, %at;",
        f"ld.global.nc.v4.u32 {{%b0, %b1, %b2, %b3}}, [%at+{WEIGHTS}];",
        "and.b32 %lane, %lane, 3;",
        "mul.wide.u32 %at, %lane, 16;",
        "add.s64 %at, %image, %at;",
        f"ld.global.nc.v4.u32 {{%c0, %c1, %c2, %c3}}, [%at+{BIAS}];",
    ]
    for tile in range(4):
        rows, column = divmod(tile, 2)
        fragment = ", ".join(f"%a{4 * rows + i}" for i in range(4))
        weights, bias = f"%b{2 * column}, %b{2 * column + 1}", f"%c{column}, %c{column}"
        lines.append(f"{MMA} {{%out{2 * tile}, %out{2 * tile + 1}}}, {{{fragment}}}, {{{weights}}}, {{{bias}}};")
    lines += [f"st.shared.b32 [%row+{4 * i}], %out{i};" for i in range(len(RET_REGS))]
    return declaration(CALLEE, TYPES, ".func") + "\n{\n" + "".join(f"\t{line}\n" for line in [*lines, "ret;"]) + "}\n"


def recipe():
    spill = 4 * len(RET_REGS)
    statements = [
        ".reg .b32 row, low, high, number, zero;",
        ".reg .b64 image, parameters;",
        f".shared .align 16 .b8 rows[{32 * ROW}];",
        "mov.u32 row, rows;",
        "mov.u32 low, %laneid;",
        f"mad.lo.u32 row, low, {ROW}, row;",
        *moved(SPLIT, SCRATCH, "row", spill),
        f"mov.u32 number, {PHASE};",
        "mov.u32 zero, 0;",
        "ld.param.u64 image, [dec0_param_0+40];",
        "mov.b64 parameters, dec0_param_0;",
        *call(
            CALLEE,
            [
                ("number", "b32"),
                *((name, "b32") for name in A_REGS),
                *[("zero", "b32")] * (BANK - len(A_REGS)),
                ("image", "b64"),
                ("parameters", "b64"),
                ("row", "b32"),
            ],
        ),
        *moved(JOIN, [(name, "b32") for name in RET_REGS], "row", 0),
        *moved(JOIN, SCRATCH, "row", spill),
    ]
    return {
        "file": MODULE,
        "cut_call": (13772, 13782),
        "extern": body() if os.environ.get("GRAFT_BODY") else declaration(CALLEE, TYPES) + ";\n",
        "call": block(*statements),
    }
